"""How runtimes read their lists of visible cards, such as CUDA_VISIBLE_DEVICES.

Owns what those lists have in common. Pure: the variables' names and what an entry may look like belong to the
probe of each device.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

__all__ = ["by_name", "by_number", "chosen"]


def chosen(listed: str, find: Callable[[str], int | None], *, repeats_hide_all: bool = False) -> list[int]:
    """Give the positions a comma-separated list names, in its order, up to the first entry `find` rejects.

    A card named twice ends the list as well; with `repeats_hide_all` it leaves nothing.
    """
    found: list[int] = []
    for entry in listed.split(","):
        position = find(entry.strip())
        if position is None:
            break
        if position in found:
            return [] if repeats_hide_all else found
        found.append(position)
    return found


def by_number(entry: str, count: int) -> int | None:
    """Read an entry as one of `count` positions; None when it is anything else."""
    return int(entry) if entry.isdecimal() and int(entry) < count else None


def by_name(entry: str, names: Sequence[str]) -> int | None:
    """Give the position of the one name that starts with `entry`, in any case; None for none or several."""
    found = [i for i, name in enumerate(names) if name and name.lower().startswith(entry.lower())]
    return found[0] if len(found) == 1 else None
