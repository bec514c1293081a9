"""Benchmarks of rung: what a call, a load, a start and a cell cost, as ratios to what they are compared with.

`python -m benchmarks` runs them all and writes docs/benchmarks.md. Nothing here is packaged.
"""
