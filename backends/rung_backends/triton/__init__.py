"""Kernels in Triton for cuda, rocm and xpu, and for Triton's interpreter. This package imports nothing, its modules do.

They are forward only: no gradient passes through them, and an argument that records one is refused.
"""
