"""Rules RG902 and RG905: editor modelines, and schema files that are stale."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from rung.audit.scene import Scene
    from rung.diagnostics import Problem

__all__ = ["RULES"]

RULES: tuple[Callable[[Scene], Iterator[Problem]], ...] = ()
