"""Judging one manifest text or fixture together with the built-in manifests, as `rung check` does."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from rung.audit import audit
from rung.audit.scene import Scene
from rung.load import BUILTIN_ROOTS
from rung.manifest import Manifests, merge
from rung.resources import data_dir
from rung.rulebook import SILENCEABLE
from rung.rules import check
from rung.source import PureLoader
from rung.units import Unit

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    import pytest

BUILTIN = Unit(data_dir("manifests"), "manifests", BUILTIN_ROOTS, "rung's own manifests")
ROOTS = BUILTIN_ROOTS | {"acme"}


def judged(*paths: Path, builtin: bool = True, roots: frozenset[str] | None = ROOTS) -> Manifests:
    """Merge and check paths, each a unit shown by its name, after the built-in manifests."""
    units = [Unit(path, path.name, roots, f"the manifests in {path.name}") for path in paths]
    whole = merge([*([BUILTIN] if builtin else []), *units])
    check(whole)
    return whole


def is_audit(directory: Path) -> bool:
    """Say whether a fixture is about a code that only `rung check` gives, not loading."""
    return directory.name[:5] in {*SILENCEABLE, "RG803", "RG901", "RG903"}


def judged_fixture(directory: Path, name: str, *, builtin: bool = True) -> Manifests:
    """Judge a fixture's `bad.yaml` or `good.yaml`; what it binds is looked for in its directory.

    An audit's fixture is audited too, its implementations are imported where its name ends in `-imports`, and a
    `bad.table.json` is the compiled table that should be that of `bad.yaml`.
    """
    whole = judged(*parts(directory, name), builtin=builtin)
    if is_audit(directory):
        path = (str(directory), *sys.path)
        along = (BUILTIN,) if builtin else ()
        compiled = (directory / name).with_suffix(".table.json")
        table = (compiled, whole.units) if compiled.exists() else None
        imports = directory.name.endswith("-imports")
        audit(Scene(whole, directory, path, imports=imports, along=along, table=table))
    return whole


def report(whole: Manifests) -> str:
    """Give the findings as `rung check` prints them."""
    lines = {document.path: document.lines for document in whole.documents}
    found = (problem.full(lines.get(problem.where.path) if problem.where else None) for problem in whole.problems)
    return "\n\n".join(found) + "\n"


def concise(whole: Manifests) -> list[str]:
    """Give each finding as `LINE:COLUMN CODE message`."""
    return [p.concise().partition(":")[2].replace(": ", " ", 1) for p in whole.problems]


def parts(directory: Path, name: str) -> list[Path]:
    """Give the files of a fixture: its `bad.yaml` or `good.yaml`, after `other.yaml` where there is one."""
    return [path for path in (directory / "other.yaml", directory / name) if path.exists()]


def codes(problems: Iterable[object]) -> list[str]:
    """Give the codes of findings, in report order."""
    return [problem.code for problem in problems]  # type: ignore[attr-defined]


def only_pure(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have every text read by PyYAML's own parser, as where it was built without libyaml."""
    for module in ("source", "outline"):
        monkeypatch.setattr(f"rung.{module}.FAST", PureLoader)
