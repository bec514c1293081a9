"""Predicates: three-valued questions over facts, made of typed atoms.

Owns the evaluation and the atoms; `ATOMS` is the one place where an atom's meaning lives (its manifest shape is
in `rung.models`). Evaluates and never observes: facts do that.

Note [Unknown is not no]: an answer is yes, no or unknown. `not unknown` is unknown, `all` is the minimum and
`any` the maximum of no < unknown < yes. Unknown never resolves and is reported as "could not tell", because
reading it as no would silently hide a rung, and reading it as yes would offer one that may not run.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from rung import lattice
from rung.facts import Unknown

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from rung.entries import Device, Expression
    from rung.facts import Facts

__all__ = [
    "ATOMS",
    "NO",
    "UNKNOWN",
    "YES",
    "Scope",
    "Verdict",
    "describe",
    "evaluate",
    "version_fits",
]

YES: Final = "yes"
NO: Final = "no"
UNKNOWN: Final = "unknown"
_RANK: Final = {NO: 0, UNKNOWN: 1, YES: 2}


@dataclass(frozen=True, slots=True)
class Verdict:
    """An answer with its reason in words."""

    answer: str
    reason: str


@dataclass(frozen=True, slots=True)
class Scope:
    """What a predicate is evaluated for: facts, the cell's device, that device's arch, and the named predicates.

    `devices` are all the table's devices. `settled` are answers to take as given, by predicate name.
    """

    facts: Facts
    device: Device
    arch: str
    predicates: Mapping[str, Expression]
    devices: Mapping[str, Device]
    settled: Mapping[str, str]


def evaluate(expression: Expression, scope: Scope) -> Verdict:
    """Answer an expression. Terms are asked in order and only as far as they can still matter."""
    key = expression.key
    if key == "not":
        inner = evaluate(expression.terms[0], scope)
        if inner.answer == UNKNOWN:
            return inner
        return Verdict(NO if inner.answer == YES else YES, f"not: {inner.reason}")
    if key in ("all", "any"):
        stop, neutral = (NO, YES) if key == "all" else (YES, NO)
        kept: Verdict | None = None
        for term in expression.terms:
            answer = evaluate(term, scope)
            if answer.answer == stop:
                return answer
            if kept is None or (kept.answer == neutral and answer.answer == UNKNOWN):
                kept = answer
        return kept or Verdict(neutral, "nothing is asked")
    return ATOMS[key](expression, scope)


def describe(expression: Expression) -> str:
    """Write an expression as one line, the way an inline `when` would be."""
    if expression.terms:
        inner = ", ".join(describe(term) for term in expression.terms)
        return f"not {inner}" if expression.key == "not" else f"{expression.key}({inner})"
    args = [(k, v if isinstance(v, str) else " ".join(v)) for k, v in expression.args]
    if len(args) == 1:
        return f"{expression.key} {args[0][1]}"
    return f"{expression.key} " + ", ".join(f"{k}={v}" for k, v in args)


def version_fits(version: str, wanted: str) -> bool | None:
    """Say whether a version fits a PEP 440 specifier, pre-releases allowed; None when it is no version."""
    from packaging.specifiers import SpecifierSet
    from packaging.version import InvalidVersion, Version

    try:
        return SpecifierSet(wanted).contains(Version(version), prereleases=True)
    except InvalidVersion:
        return None


def _module(atom: Expression, scope: Scope) -> Verdict:
    name, wanted, inside = atom.get("name"), atom.get("version"), atom.get("has")
    found = scope.facts.module(name, atom.get("dist"))
    if isinstance(found, Unknown):
        return Verdict(UNKNOWN, found.why)
    if found is False:
        return Verdict(NO, f"`{name}` is not installed")
    shown = f"`{name}` {found}" if isinstance(found, str) else f"`{name}`"
    if wanted:
        fits = version_fits(found, wanted) if isinstance(found, str) else None
        if fits is None:
            return Verdict(UNKNOWN, f"the version of {shown} cannot be compared with {wanted}")
        if not fits:
            return Verdict(NO, f"{shown} is not {wanted}")
    builds = atom.items("build")
    if builds:
        label = found.partition("+")[2] if isinstance(found, str) else ""
        if not any(label.startswith(build) for build in builds):
            return Verdict(NO, f"{shown} is not labelled as a build for {' or '.join(builds)}")
    if inside:
        present = scope.facts.file(inside)
        if isinstance(present, Unknown):
            return Verdict(UNKNOWN, present.why)
        if not present:
            return Verdict(NO, f"{shown} has no file {inside}")
    return Verdict(YES, f"{shown} is installed")


def _device(atom: Expression, scope: Scope) -> Verdict:
    name = atom.get("name")
    found = scope.facts.devices(name)
    if isinstance(found, Unknown):
        return Verdict(UNKNOWN, found.why)
    if not found:
        return Verdict(NO, f"no {name} device was found")
    return Verdict(YES, f"{found[0].name or found[0].arch} was found")


def _arch(atom: Expression, scope: Scope) -> Verdict:
    target = atom.get("name")
    device = scope.device
    if not lattice.is_target(device, target):
        return Verdict(NO, f"`{target}` is no target of {device.name}")
    answer = lattice.fit(device, target, lattice.default_artifact(device, target), scope.arch)
    return Verdict(YES if answer.runs else NO, answer.why)


def _version_of_device(what: str) -> Callable[[Expression, Scope], Verdict]:
    def judge(atom: Expression, scope: Scope) -> Verdict:
        name, wanted = atom.get("name"), atom.get("version")
        found = scope.facts.devices(name)
        if isinstance(found, Unknown):
            return Verdict(UNKNOWN, found.why)
        if not found:
            return Verdict(NO, f"no {name} device was found")
        version = found[0].driver if what == "driver" else found[0].runtime
        fits = version_fits(version, wanted) if version else None
        if fits is None:
            return Verdict(UNKNOWN, f"the {name} {what} version {version or 'is not known'}, so {wanted} is open")
        return Verdict(YES if fits else NO, f"the {name} {what} is {version}" + ("" if fits else f", not {wanted}"))

    return judge


def _cpu(atom: Expression, scope: Scope) -> Verdict:
    flags = scope.facts.cpu()
    if isinstance(flags, Unknown):
        return Verdict(UNKNOWN, flags.why)
    missing = [flag for flag in atom.items("flags") if flag not in flags]
    if missing:
        return Verdict(NO, f"the CPU has no {', '.join(missing)}")
    return Verdict(YES, f"the CPU has {', '.join(atom.items('flags'))}")


def _equal(what: str) -> Callable[[Expression, Scope], Verdict]:
    def judge(atom: Expression, scope: Scope) -> Verdict:
        value = scope.facts.os() if what == "os" else scope.facts.machine()
        if isinstance(value, Unknown):
            return Verdict(UNKNOWN, value.why)
        wanted = atom.items("name")
        return Verdict(YES if value in wanted else NO, f"the {what} is {value}")

    return judge


def _python(atom: Expression, scope: Scope) -> Verdict:
    version = scope.facts.python()
    if isinstance(version, Unknown):
        return Verdict(UNKNOWN, version.why)
    fits = version_fits(version, atom.get("version"))
    if fits is None:
        return Verdict(UNKNOWN, f"Python {version} cannot be compared with {atom.get('version')}")
    return Verdict(YES if fits else NO, f"this is Python {version}")


def _env(atom: Expression, scope: Scope) -> Verdict:
    name = atom.get("name")
    value = scope.facts.env(name)
    if isinstance(value, Unknown):
        return Verdict(UNKNOWN, value.why)
    wanted = dict(atom.args).get("value")
    if wanted is None:
        return Verdict(YES if value else NO, f"{name} is {'set' if value else 'not set'}")
    return Verdict(
        YES if value == wanted else NO, f"{name} is {value!r}" if value is not None else f"{name} is not set"
    )


def _use(atom: Expression, scope: Scope) -> Verdict:
    name = atom.get("name")
    if name in scope.settled:
        return Verdict(scope.settled[name], f"{name} was set to {scope.settled[name]} by hand")
    return evaluate(scope.predicates[name], scope)


def _probe(atom: Expression, scope: Scope) -> Verdict:
    path = atom.get("path")
    answer = scope.facts.probe(path)
    if isinstance(answer, Unknown):
        return Verdict(UNKNOWN, answer.why)
    return Verdict(YES if answer else NO, f"`{path}` says {'yes' if answer else 'no'}")


ATOMS: Final[dict[str, Callable[[Expression, Scope], Verdict]]] = {
    "arch": _arch,
    "cpu": _cpu,
    "device": _device,
    "driver": _version_of_device("driver"),
    "env": _env,
    "machine": _equal("machine"),
    "module": _module,
    "os": _equal("os"),
    "probe": _probe,
    "python": _python,
    "runtime": _version_of_device("runtime"),
    "use": _use,
}
