"""A plugin of pytest: the cells of a backend as tests, each compared with its op's reference.

Owns the options, the items and their reports. Loading it imports nothing but pytest and the package's `__init__`;
rung's other modules are imported by a session that names a backend or an op.

Note [When there are parity tests]: a session has them when a backend or an op is named, on the command line or in the
configuration. With a name from the configuration alone, a session that was asked for single files or tests runs those
and nothing else.
"""

from __future__ import annotations

import os
import warnings
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Final

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from rung.parity import Check, Outcome

__all__: list[str] = []

_OPTIONS: Final = {
    "backend": ("NAME", "compare the cells of this backend with the references; repeatable"),
    "op": ("NAME", "compare the cells of this op with the reference; repeatable"),
    "manifests": ("DIR", "manifests besides the built-in ones, instead of those of installed plugins; repeatable"),
    "allow": ("PACKAGE", "a top-level package that those manifests may bind; repeatable"),
}
_tables: Final = pytest.StashKey[Any]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options, and entries of the configuration with the same names."""
    group = parser.getgroup("rung", "parity of kernels with their references (rung)")
    for name, (metavar, words) in _OPTIONS.items():
        group.addoption(f"--rung-{name}", action="append", default=[], metavar=metavar, help=words)
        parser.addini(f"rung_{name}", words.removesuffix("; repeatable"), type="args", default=[])
    group.addoption("--rung-seed", type=int, default=0, metavar="N", help="seed of the cases (default 0)")


def pytest_configure(config: pytest.Config) -> None:
    """Declare the marker that all of these tests have."""
    config.addinivalue_line("markers", "rung: compares a kernel with its op's reference")


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Tell a worker of pytest-xdist whether this session has parity tests."""
    node.workerinput["rung_is_wanted"] = _is_wanted(node.config)


def _said(config: pytest.Config, name: str) -> list[str]:
    """Give what the command line says, else what the configuration says."""
    return list(config.getoption(f"rung_{name}") or config.getini(f"rung_{name}"))


def _paths(config: pytest.Config) -> list[str]:
    """Give the manifests that are said: on the command line, seen from where it was called; else from the root."""
    base = config.invocation_params.dir if config.getoption("rung_manifests") else config.rootpath
    return [str(base / path) for path in _said(config, "manifests")]


def _flags(config: pytest.Config) -> list[str]:
    """Give the flags by which `rung` reads what this session read, called where this session was."""
    here = config.invocation_params.dir
    named = [("manifests", _seen_from(here, path)) for path in _paths(config)]
    named += [("allow", package) for package in _said(config, "allow")]
    named += [("root", _seen_from(here, str(config.rootpath)))] if config.rootpath != here else []
    return [word for name, value in named for word in (f"--{name}", value)]


def _seen_from(here: Path, path: str) -> str:
    try:
        return os.path.relpath(path, here)
    except ValueError:  # on another drive
        return path


def _is_wanted(config: pytest.Config) -> bool:
    """Say whether this session has parity tests; see Note [When there are parity tests]."""
    if config.getoption("rung_backend") or config.getoption("rung_op"):
        return True
    if not (config.getini("rung_backend") or config.getini("rung_op")):
        return False
    worker = getattr(config, "workerinput", None)
    if worker is not None:  # of pytest-xdist, which hands on what it was called with as if that had been typed
        return bool(worker["rung_is_wanted"])
    if config.args_source is not pytest.Config.ArgsSource.ARGS:
        return True
    return not any("::" in argument or os.path.isfile(argument) for argument in config.args)  # noqa: PTH113


@pytest.hookimpl(tryfirst=True)
def pytest_sessionstart(session: pytest.Session) -> None:
    """Load the manifests, so that a mistake in a name ends the session before anything is collected."""
    config = session.config
    if not _is_wanted(config):
        return
    from rung.cli.common import table_of
    from rung.diagnostics import RungError, did_you_mean

    settings = SimpleNamespace(root=str(config.rootpath), manifests=_paths(config), allow=_said(config, "allow"))
    try:
        with _spoken():
            table = table_of(settings)  # type: ignore[arg-type] # it reads these three alone
            for name in _said(config, "op"):
                table.op(name)
    except RungError as error:
        raise pytest.UsageError(f"rung: {error}") from None
    for name in _said(config, "backend"):
        if name not in table.backends:
            raise pytest.UsageError(f"rung: unknown backend `{name}`: {did_you_mean(name, table.backends)}")
    config.stash[_tables] = table


def _spoken() -> warnings.catch_warnings[None]:
    """Let warnings of the engine be said and not raised: they are about this machine, not about a test."""
    from rung.diagnostics import RungWarning

    return warnings.catch_warnings(action="default", category=RungWarning)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(session: pytest.Session, config: pytest.Config, items: list[pytest.Item]) -> None:
    """Add the tests, before -k, -m and --last-failed choose among all."""
    table = config.stash.get(_tables, None)
    if table is None:
        return
    from rung.parity import checks

    backends, ops = _said(config, "backend"), _said(config, "op")
    with _spoken():
        made = list(checks(backend=backends, op=ops, table=table, seed=config.getoption("rung_seed")))
    collector = Parity.from_parent(session, name="rung", nodeid="rung", checks=made)
    found = list(collector.collect())
    report = pytest.CollectReport(collector.nodeid, "passed", None, [*found])
    session.ihook.pytest_collectreport(report=report)  # who counts what is collected counts these as well
    items.extend(found)


class Parity(pytest.Collector):
    """The parent of all parity tests. It stands for no file."""

    def __init__(self, *, checks: Sequence[Check], **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.checks = checks

    def collect(self) -> Iterator[ParityItem]:
        """Give a test for each comparison that can be made."""
        for check in self.checks:
            yield ParityItem.from_parent(self, name=check.id, nodeid=f"{self.nodeid}::{check.id}", check=check)


class Disagreement(Exception):
    """A cell does not agree with its reference."""

    def __init__(self, outcome: Outcome) -> None:
        super().__init__(outcome.detail)
        self.outcome = outcome


class ParityItem(pytest.Item):
    """A test: a cell's results in one dtype, or its gradients."""

    def __init__(self, *, check: Check, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.check = check
        self.add_marker("rung")
        if check.reason:
            self.add_marker(pytest.mark.skip(reason=check.reason))

    def runtest(self) -> None:
        """Compare; raise what pytest shows as failed or skipped."""
        from rung.parity import FAILED, SKIPPED

        outcome = self.check.run()
        if outcome.status == FAILED:
            raise Disagreement(outcome)
        if outcome.status == SKIPPED:
            pytest.skip(outcome.detail)

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        """Show which element is wrong, without a traceback through rung."""
        if not isinstance(excinfo.value, Disagreement):
            return super().repr_failure(excinfo, style)
        from rung.testing.reports import report

        return report(excinfo.value.outcome, _flags(self.config), str(self.check.cell.where))

    def reportinfo(self) -> tuple[str | os.PathLike[str], int | None, str]:
        """Give the place in the manifest that declares the cell, and the headline of a failure."""
        where = self.check.cell.where
        return where.path, where.line - 1, self.name.replace("[", " [")
