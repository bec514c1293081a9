"""Ops that torch.compile fuses for the CPU, each in a module that compiles when it is imported: when it is bound.

Only ops that this makes faster than eager torch are here: its own layer_norm and gelu are one pass over memory already.
This package imports nothing, and whether a compiler is there is asked without torch. Gradients are not compiled: where
one is recorded the same formula runs as eager torch does, and autograd sees through it.
"""
