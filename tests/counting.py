"""Counting what a call does: the functions it enters, the instructions it executes."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable


def entered(function: Callable[[], object]) -> list[str]:
    """Give what a call enters, functions of Python and of C alike, by name."""
    names: list[str] = []

    def profile(frame: Any, event: str, argument: Any) -> None:
        if event == "call":
            names.append(frame.f_code.co_name)
        elif event == "c_call":
            names.append(argument.__name__)

    sys.setprofile(profile)
    try:
        function()
    finally:
        sys.setprofile(None)
    return names[:-1]  # without what ends the profile


def executed(function: Callable[[], object]) -> int:
    """Count the bytecode instructions of a call, with all it calls."""
    count = 0

    def trace(frame: Any, event: str, argument: Any) -> Any:
        nonlocal count
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        count += event == "opcode"
        return trace

    sys.settrace(trace)
    try:
        function()
    finally:
        sys.settrace(None)
    return count
