"""Rules on predicates: versions, files and names that can be judged without a machine."""

from __future__ import annotations

from typing import TYPE_CHECKING

from packaging.specifiers import InvalidSpecifier, SpecifierSet

from rung.diagnostics import Problem
from rung.rules.expressions import expressions, nodes

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rung.manifest import Manifests
    from rung.models import ExpressionModel

__all__ = ["RULES"]


def _specifier(model: ExpressionModel) -> str | None:
    for atom in (model.module, model.driver, model.runtime):
        if atom is not None:
            return atom.version
    return model.python


def rg202_version(whole: Manifests) -> Iterator[Problem]:
    """A version that is no PEP 440 specifier."""
    for placed in expressions(whole):
        for node in nodes(placed):
            wanted = _specifier(node.model)
            if wanted is None:
                continue
            try:
                SpecifierSet(wanted)
            except InvalidSpecifier:
                message = f"`{wanted}` is no version specifier"
                yield Problem("RG202", "error", node.where, message, "such as `>=2.4` or `>=2.4,<3`")


def rg202_file(whole: Manifests) -> Iterator[Problem]:
    """A `has` file that does not lie in the module."""
    for placed in expressions(whole):
        for node in nodes(placed):
            module = node.model.module
            if module is None or module.has is None:
                continue
            parts = module.has.split("/")
            if parts[0] != module.name or len(parts) < 2 or "" in parts or ".." in parts:
                message = f"`{module.has}` is no file inside `{module.name}`"
                yield Problem("RG202", "error", node.where, message, f"write it as `{module.name}/inner/path`")


RULES = (rg202_file, rg202_version)
