"""Placeholder: whether a cell accepts a call."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from rung.entries import Cell, Op

__all__ = ["refusal"]


def refusal(op: Op, cell: Cell, args: Sequence[Any], kwargs: Mapping[str, Any]) -> str:
    """Say why a cell does not accept a call, "" when it does."""
    return ""
