"""Predicates: three-valued questions over facts, made of typed atoms.

Owns the evaluation and the atoms; `ATOMS` is the one place where an atom's meaning lives (its manifest shape is
in `rung.models`). Evaluates and never observes: facts do that.

Note [Unknown is not no]: an answer is yes, no or unknown. `not unknown` is unknown, `all` is the minimum and
`any` the maximum of no < unknown < yes. Unknown never resolves and is reported as "could not tell", because
reading it as no would silently hide a rung, and reading it as yes would offer one that may not run.
"""

from __future__ import annotations

from rung import lattice
from rung.entries import GENERIC
from rung.facts import Unknown
from rung.records import field, record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Final

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


@record
class Verdict:
    """An answer with its reason in words."""

    answer: str
    reason: str


@record
class Scope:
    """What a predicate is evaluated for: facts, the cell's device, that device's arch, and the named predicates.

    `settled` are answers to take as given, by predicate name.
    """

    facts: Facts
    device: Device
    arch: str
    predicates: Mapping[str, Expression]
    settled: Mapping[str, str] = field(default_factory=dict)


def evaluate(expression: Expression, scope: Scope) -> Verdict:
    """Answer an expression. Terms are asked in order and only as far as they can still matter.

    The reason is the fact that decided: what is there, or what is missing, whichever way the answer turns it.
    """
    key = expression.key
    if key == "not":
        inner = evaluate(expression.terms[0], scope)
        return Verdict({YES: NO, NO: YES}.get(inner.answer, UNKNOWN), inner.reason)
    if key not in ("all", "any"):
        return ATOMS[key](expression, scope)
    stop, neutral = (NO, YES) if key == "all" else (YES, NO)
    asked: list[Verdict] = []
    for term in expression.terms:
        verdict = evaluate(term, scope)
        if verdict.answer == stop:
            return verdict
        asked.append(verdict)
    open_ones = [verdict for verdict in asked if verdict.answer == UNKNOWN]
    if open_ones:
        return open_ones[0]
    return Verdict(neutral, "; ".join(dict.fromkeys(verdict.reason for verdict in asked)) or "nothing is asked")


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
            return Verdict(UNKNOWN, f"{shown} has no version that can be compared with {wanted}")
        if not fits:
            return Verdict(NO, f"{shown} is not {wanted}")
    reason = f"{shown} is installed"
    builds = atom.items("build")
    if builds:
        if not isinstance(found, str):
            return Verdict(UNKNOWN, f"{shown} has no version that says what it was built for")
        label = found.partition("+")[2]
        if not label.startswith(builds):
            return Verdict(NO, f"{shown} is not labelled as a build for {' or '.join(builds)}")
        reason = f"{shown} is labelled as a build for {label}"
    if inside:
        present = scope.facts.file(inside)
        if isinstance(present, Unknown):
            return Verdict(UNKNOWN, present.why)
        if not present:
            return Verdict(NO, f"{shown} has no file {inside}")
        reason = f"{shown} has the file {inside}"
    return Verdict(YES, reason)


def _device(atom: Expression, scope: Scope) -> Verdict:
    name = atom.get("name")
    found = scope.facts.devices(name)
    if isinstance(found, Unknown):
        return Verdict(UNKNOWN, found.why)
    if not found:
        return Verdict(NO, f"no {name} device was found")
    return Verdict(YES, f"{found[0].name or found[0].arch} was found")


def _arch(atom: Expression, scope: Scope) -> Verdict:
    device = scope.device
    target = device.aliases.get(atom.get("name"), atom.get("name"))
    if not lattice.is_target(device, target):
        return Verdict(NO, f"`{target}` is no target of {device.name}")
    answer = lattice.fit(device, target, lattice.default_artifact(device, target), scope.arch)
    if not answer.runs and scope.arch == GENERIC:
        return Verdict(UNKNOWN, f"the arch of this {device.name} device is not known")
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
        if not version:
            return Verdict(UNKNOWN, f"the version of the {name} {what} is not known")
        return _version(f"the {name} {what}", version, wanted)

    return judge


def _version(what: str, version: str, wanted: str) -> Verdict:
    fits = version_fits(version, wanted)
    if fits is None:
        return Verdict(UNKNOWN, f"{what} is {version}, which cannot be compared with {wanted}")
    return Verdict(YES, f"{what} is {version}") if fits else Verdict(NO, f"{what} is {version}, not {wanted}")


def _cpu(atom: Expression, scope: Scope) -> Verdict:
    flags = scope.facts.cpu()
    if isinstance(flags, Unknown):
        return Verdict(UNKNOWN, flags.why)
    missing = [flag for flag in atom.items("name") if flag not in flags]
    if missing:
        return Verdict(NO, f"the CPU has no {', '.join(missing)}")
    return Verdict(YES, f"the CPU has {', '.join(atom.items('name'))}")


def _equal(what: str, observe: Callable[[Facts], str | Unknown]) -> Callable[[Expression, Scope], Verdict]:
    def judge(atom: Expression, scope: Scope) -> Verdict:
        value = observe(scope.facts)
        if isinstance(value, Unknown):
            return Verdict(UNKNOWN, value.why)
        wanted = atom.items("name")
        if value in wanted:
            return Verdict(YES, f"the {what} is {value}")
        return Verdict(NO, f"the {what} is {value}, not {' or '.join(wanted)}")

    return judge


def _python(atom: Expression, scope: Scope) -> Verdict:
    version = scope.facts.python()
    if isinstance(version, Unknown):
        return Verdict(UNKNOWN, version.why)
    return _version("Python", version, atom.get("name"))


def _env(atom: Expression, scope: Scope) -> Verdict:
    name = atom.get("name")
    value = scope.facts.env(name)
    if isinstance(value, Unknown):
        return Verdict(UNKNOWN, value.why)
    wanted = dict(atom.args).get("value")
    holds = bool(value) if wanted is None else (value or "") == wanted
    if not value:
        return Verdict(YES if holds else NO, f"{name} is {'not set' if value is None else 'empty'}")
    if wanted is None:
        return Verdict(YES, f"{name} is set")
    return Verdict(YES, f"{name} is {value!r}") if holds else Verdict(NO, f"{name} is {value!r}, not {wanted!r}")


def _use(atom: Expression, scope: Scope) -> Verdict:
    name = atom.get("name")
    if name in scope.settled:
        return Verdict(scope.settled[name], f"{name} was set to {scope.settled[name]} by hand")
    return evaluate(scope.predicates[name], scope)


def _probe(atom: Expression, scope: Scope) -> Verdict:
    path = atom.get("name")
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
    "machine": _equal("machine", lambda facts: facts.machine()),
    "module": _module,
    "os": _equal("operating system", lambda facts: facts.os()),
    "probe": _probe,
    "python": _python,
    "runtime": _version_of_device("runtime"),
    "use": _use,
}
