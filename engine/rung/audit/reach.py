"""Rules RG402, RG403 and RG406: cells that nobody reaches, and platforms that reach no cell."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from rung.audit.scene import Scene
    from rung.diagnostics import Problem

__all__ = ["RULES"]

RULES: tuple[Callable[[Scene], Iterator[Problem]], ...] = ()
