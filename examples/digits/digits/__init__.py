"""A small class-conditional diffusion transformer of handwritten digits, dispatched by rung.

Owns nothing itself: importing the package imports neither torch nor the engine, so a builder module can be
named in a manifest and imported alone. `digits.pipeline` is where to start reading.
"""
