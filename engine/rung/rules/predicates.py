"""Rules on predicates: versions, files and sizes that can be judged without a machine."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from packaging.specifiers import InvalidSpecifier, SpecifierSet

from rung.diagnostics import Problem, shorten
from rung.rules.expressions import Placed, alike, judged, nodes

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rung.manifest import Manifests

__all__ = ["MAX_NODES", "RULES"]

MAX_NODES: Final = 1024
"""Nodes of a predicate with all it uses written out: what evaluating it once may cost."""
MAX_LEVELS: Final = 64
"""Levels of a predicate with all it uses written out."""


def rg202_version(whole: Manifests) -> Iterator[Problem]:
    """A version that is no PEP 440 specifier."""
    return judged(whole, _version, "module", "driver", "runtime", "python")


def _version(node: Placed) -> Iterator[Problem]:
    atom = node.model.module or node.model.driver or node.model.runtime
    wanted = atom.version if atom is not None else node.model.python
    if wanted is not None and not _is_specifier(wanted):
        message = f"`{shorten(wanted)}` is no version specifier"
        example = wanted if re.fullmatch(r"[0-9][0-9a-z.]*", wanted) else "2.4"
        hint = f"compare it, as in `>={example}` or `>=2.4,<3` (PEP 440)"
        yield Problem("RG202", node.part("version"), message, hint)


@lru_cache(maxsize=1024)
def _is_specifier(text: str) -> bool:
    try:
        SpecifierSet(text)
    except InvalidSpecifier:
        return False
    return True


def rg202_file(whole: Manifests) -> Iterator[Problem]:
    """A `has` file that does not lie in the module."""
    return judged(whole, _file, "module")


def _file(node: Placed) -> Iterator[Problem]:
    module = node.model.module
    if module is None or module.has is None:
        return
    parts = module.has.split("/")
    if parts[0] != module.name or len(parts) < 2 or {"", ".", ".."} & set(parts):
        message = f"`{shorten(module.has)}` is no file inside `{shorten(module.name)}`"
        hint = f"write it as `{shorten(module.name)}/inner/path`"
        yield Problem("RG202", node.part("has"), message, hint)


def rg004(whole: Manifests) -> Iterator[Problem]:
    """A predicate that takes too long, or recurses too deep, to evaluate: `use` can double it with every name."""
    sizes: dict[str, tuple[int, int]] = {}
    named = {name: Placed(e.model, e.document, e.loc, e.unit) for name, e in whole.predicates.items()}

    def size(placed: Placed) -> tuple[int, int]:
        used = sizes.get(placed.model.use or "", (0, 0))
        inner = [size(term) for term in placed.terms()]
        return 1 + used[0] + sum(n for n, _ in inner), 1 + max([used[1], *(d for _, d in inner)])

    for name in _used_first({n: [m.model.use or "" for m in nodes(p)] for n, p in named.items()}):
        sizes[name] = size(named[name])
        count, levels = sizes[name]
        if count > MAX_NODES or levels > MAX_LEVELS:
            what = f"{count} terms" if count > MAX_NODES else f"{levels} levels"
            limit = MAX_NODES if count > MAX_NODES else MAX_LEVELS
            message = f"predicate `{name}` has {what} with all it uses; the limit is {limit}"
            where = whole.predicates[name].where
            yield Problem("RG004", where, message, "use fewer predicates in one another")
            sizes[name] = (1, 1)  # what uses it is not at fault
    for same in alike(whole):
        if not same[0].has_terms or same[0].loc[0] == "predicates":
            continue
        count, _ = size(same[0])
        for placed in same if count > MAX_NODES else ():
            message = f"`{placed.loc[-1]}` has {count} terms with all it uses; the limit is {MAX_NODES}"
            where = placed.document.where(placed.loc, key=True)
            yield Problem("RG004", where, message, "use fewer predicates in one another")


def _used_first(edges: dict[str, list[str]]) -> Iterator[str]:
    """Give every name after those it uses, as far as cycles allow, without recursion."""
    done: set[str] = set()
    for start in edges:
        stack = [(start, iter(edges[start]))] if start not in done else []
        done.add(start)
        while stack:
            name, rest = stack[-1]
            following = next((n for n in rest if n in edges and n not in done), None)
            if following is None:
                stack.pop()
                yield name
            else:
                done.add(following)
                stack.append((following, iter(edges[following])))


RULES = (rg004, rg202_file, rg202_version)
