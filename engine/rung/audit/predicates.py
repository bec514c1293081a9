"""Rules RG603, RG604 and RG606: predicates that nobody uses, that can never hold, that answer nonsense."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from rung.audit.scene import Scene
    from rung.diagnostics import Problem

__all__ = ["RULES"]

RULES: tuple[Callable[[Scene], Iterator[Problem]], ...] = ()
