"""The parity oracle: every usable cell against the op's reference, within the op's tolerance, its arguments unchanged.

A case becomes a call in `calls`; results are compared in `compare`, and gradients in `gradients`. `check` says which
cells are compared on which cases, `outcome` what came of it.
"""

from rung.parity.check import Check, checks, of_cell, outcomes, parity
from rung.parity.outcome import FAILED, GRADIENT, PASSED, RESULT, SKIPPED, WHAT, Outcome, again

__all__ = [
    "FAILED",
    "GRADIENT",
    "PASSED",
    "RESULT",
    "SKIPPED",
    "WHAT",
    "Check",
    "Outcome",
    "again",
    "checks",
    "of_cell",
    "outcomes",
    "parity",
]
