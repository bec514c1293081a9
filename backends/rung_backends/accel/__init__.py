"""A stand-in accelerator: Python and numpy in place of a device, so that any machine can exercise dispatch.

It is no hardware and imitates none. Nothing detects it: a platform is `accel` only when a program names it.
Its kernels are written independently of the reference, which makes a comparison of the two worth something. The solver
ops are computed in float64 and agree bit for bit; the others compute in float32 unless an argument is float64, as a
device would, and agree within the tolerance of their op.
"""
