"""Rules RG505, RG606 and RG803 as far as only an import can tell, in a child process."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from rung.audit.scene import Scene
    from rung.diagnostics import Problem

__all__ = ["RULES"]

RULES: tuple[Callable[[Scene], Iterator[Problem]], ...] = ()
