"""Rules RG505 and RG606, and RG502 to RG504 and RG803 as far as only an import can tell: in a child process.

Owns that process: what it may see, how long it may take, and what is said when it dies. `rung.audit.importer` is what
runs in it. A path that reading has found at fault is not imported.

Note [What the child sees]: the search path of the check and few environment variables: those without which programs and
libraries are not found, and those that say which cards are visible, for the modules are to be judged on the machine as
it is. No token, no proxy, no setting of Python's. Its standard streams are closed and it writes no bytecode.
"""

from __future__ import annotations

import json
import logging
import os
import queue
import secrets
import signal
import subprocess
import sys
import threading
import time
from contextlib import suppress
from dataclasses import dataclass
from inspect import Parameter, Signature
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from rung.audit.answers import faulty_probes
from rung.audit.signatures import UNREAD, misfit, stub
from rung.audit.uses import Bindings, called_as
from rung.bind import root_of
from rung.diagnostics import Problem, RungError, shorten

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence

    from rung.audit.scene import Scene
    from rung.audit.uses import Use
    from rung.manifest import Manifests
    from rung.models import ExpressionModel

__all__ = ["RULES", "Job", "Outcome", "run_all"]

_log = logging.getLogger("rung")

STEP: Final = 20.0
"""Seconds one step may take: an import, or the judgement of one name."""
TOTAL: Final = 60.0
"""Seconds all of them may take."""
QUIET: Final = 1.0
"""Seconds after which a person at a terminal is told what goes on."""

_KEPT: Final = frozenset({
    "PATH", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "DYLD_FALLBACK_LIBRARY_PATH", "CONDA_PREFIX", "VIRTUAL_ENV",
    "HOME", "USER", "LOGNAME", "USERNAME", "USERPROFILE", "HOMEDRIVE", "HOMEPATH", "APPDATA", "LOCALAPPDATA",
    "PROGRAMDATA", "PROGRAMFILES", "SYSTEMROOT", "SYSTEMDRIVE", "WINDIR", "COMSPEC", "PATHEXT",
    "TEMP", "TMP", "TMPDIR", "LANG", "LC_ALL", "LC_CTYPE", "TZ",
    "CUDA_HOME", "CUDA_PATH", "ROCM_PATH", "HIP_PATH", "ONEAPI_ROOT",
    "CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "ZE_AFFINITY_MASK",
})  # fmt: skip
MAX_LINE: Final = 64 * 1024
"""Bytes of one line that a child says."""
MAX_SAID: Final = 16 * 1024 * 1024
"""Bytes that one child may write; a module that floods the pipe is one that ends the process."""
MAX_AGAIN: Final = 8
"""Modules that are judged again in a process of their own, before a finding is blamed on them."""
_CODES: Final = frozenset({"RG502", "RG503", "RG504", "RG505", "RG606", "RG803"})
_KINDS: Final = (
    Parameter.POSITIONAL_ONLY,
    Parameter.POSITIONAL_OR_KEYWORD,
    Parameter.VAR_POSITIONAL,
    Parameter.KEYWORD_ONLY,
    Parameter.VAR_KEYWORD,
)
_IMPORTER: Final = Path(__file__).resolve().with_name("importer.py")
_START: Final = (
    f"import runpy, sys; sys.path.insert(0, {str(_IMPORTER.parents[2])!r}); "
    f"runpy.run_path({str(_IMPORTER)!r}, run_name='__main__')"
)


@dataclass(frozen=True, slots=True)
class Job:
    """A module to import, and the calls, as (role, call), that each of its names must take."""

    module: str
    roots: frozenset[str]
    names: Mapping[str, tuple[tuple[str, str], ...]]


@dataclass(frozen=True, slots=True)
class Outcome:
    """A finding about a name of a module, or with no name about the module as a whole.

    `lacked` is the top-level module without which an import failed, `role` the one role that it is about, if it is not
    about all.
    """

    job: Job
    name: str
    code: str
    message: str
    text: str = ""
    lacked: str = ""
    role: str = ""


@dataclass(slots=True)
class _Step:
    """The step a child announced last: which job, which name of it, whether a probe is asked, and for too long."""

    job: int = -1
    name: str = ""
    is_asking: bool = False
    is_slow: bool = False


class _Child:
    """One child process, and what it says, event by event."""

    def __init__(self, request: Mapping[str, Any]) -> None:
        self.token = secrets.token_hex(16)
        self.events: queue.Queue[list[Any] | None] = queue.Queue()
        self.floods = False
        flags = ["-E", "-P", "-B", *(["-s"] if sys.flags.no_user_site else [])]
        self.process = subprocess.Popen(
            [sys.executable, *flags, "-c", _START],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={name: value for name, value in os.environ.items() if name.upper() in _KEPT},
            start_new_session=True,
        )
        text = json.dumps({**request, "token": self.token}).encode()
        threading.Thread(target=self._talk, args=(text,), daemon=True).start()

    def _talk(self, request: bytes) -> None:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        with suppress(OSError), self.process.stdin as stdin:  # it may have died before it was asked
            stdin.write(request)
        with self.process.stdout as stdout:
            said = 0
            while not self.floods and (line := stdout.readline(MAX_LINE)):
                said += len(line)
                self.floods = said > MAX_SAID
                with suppress(ValueError, RecursionError):
                    event = json.loads(line)
                    if isinstance(event, list) and event[:1] == [self.token]:
                        self.events.put(event[1:])
            self.events.put(None)

    def next(self, limit: float) -> list[Any] | None:
        """Give the next event, None when there will be no more; raise queue.Empty after `limit` seconds."""
        return self.events.get(timeout=max(0.0, limit))

    def fate(self) -> str:
        """Say how a process that says no more has ended."""
        if self.floods:
            return f"wrote more than {MAX_SAID >> 20} MiB to a stream that is not its own"
        try:
            code = self.process.wait(timeout=5.0)
        except subprocess.TimeoutExpired:
            return "closed the standard streams of its process"
        if code < 0:
            with suppress(ValueError):
                return f"ended the process by {signal.Signals(-code).name}"
        return f"ended the process with code {code}"

    def kill(self) -> None:
        """End the process, and where that can be told what it has started."""
        with suppress(OSError):
            if os.name == "posix":
                os.killpg(self.process.pid, signal.SIGKILL)
            else:
                self.process.kill()
        self.process.wait()


def run_all(
    jobs: Iterable[Job],
    request: Mapping[str, Any],
    *,
    step: float,
    total: float,
    progress: Callable[[str], None] = lambda module: None,
) -> Iterator[Outcome]:
    """Import every job's module and judge its names; one that hangs or ends the process costs the others nothing.

    What is found about a module before which others were imported may be their doing, so it is judged again in a
    process of its own, as far as `total` seconds allow. A job for which they did not suffice comes back with an empty
    code.
    """
    deadline = time.monotonic() + total
    todo = [*jobs]
    doubtful: list[tuple[Job, list[Outcome]]] = []
    while todo:
        roots = todo[0].roots
        batch = [job for job in todo if job.roots == roots]
        todo = [job for job in todo if job.roots != roots]
        suspects: dict[int, list[Outcome]] = {}
        rest: list[Job] = []
        for index, outcome in _judged(batch, request, step, deadline, progress, rest):
            if index == 0 or (index not in suspects and len(doubtful) + len(suspects) >= MAX_AGAIN):
                yield outcome
            else:
                suspects.setdefault(index, []).append(outcome)
        doubtful += [(batch[index], outcomes) for index, outcomes in suspects.items() if batch[index] not in rest]
        todo = [*rest, *todo]
        if time.monotonic() >= deadline:
            yield from (Outcome(job, "", "", "") for job in todo)
            break
    for job, outcomes in doubtful:
        again = _again(job, request, step, deadline, progress)
        yield from outcomes if again is None else again


def _again(
    job: Job, request: Mapping[str, Any], step: float, deadline: float, progress: Callable[[str], None]
) -> list[Outcome] | None:
    """Judge a job alone. Give what is found, None where there is no time for it."""
    found: list[Outcome] = []
    todo = [job]
    while todo:
        if time.monotonic() >= deadline:
            return None
        rest: list[Job] = []
        found += [outcome for _, outcome in _judged(todo, request, step, deadline, progress, rest)]
        todo = rest
    return found


def _judged(
    batch: Sequence[Job],
    request: Mapping[str, Any],
    step: float,
    deadline: float,
    progress: Callable[[str], None],
    rest: list[Job],
) -> Iterator[tuple[int, Outcome]]:
    """Let one child run jobs. Give what it finds, with the index of its job, 0 where none before it is to blame.

    What it did not get to is in `rest`. So is a job that was being judged when the time for all was up, or when a
    child ended that had run others before.
    """
    at = _Step()
    fate = yield from _run_batch(batch, request, at, step, deadline, progress)
    if not fate:
        return
    if time.monotonic() >= deadline or (at.job > 0 and not at.is_slow):
        rest += batch[max(0, at.job) :]
        return
    if at.job < 0:
        raise RungError(f"the process that imports {fate}")
    job = batch[at.job]
    code, what = ("RG606", "probe") if at.is_asking else ("RG505", "getting" if at.name else "importing")
    # A step that took too long is not tried twice: it would cost the others their time.
    yield 0, Outcome(job, at.name, code, f"{what} `{shorten(at.name or job.module, 30)}` {fate}")
    names = [*job.names]
    left = names[names.index(at.name) + 1 :] if at.name else []
    rest += [Job(job.module, job.roots, {name: job.names[name] for name in left})] if left else []
    rest += batch[at.job + 1 :]


def _run_batch(
    batch: Sequence[Job],
    request: Mapping[str, Any],
    at: _Step,
    step: float,
    deadline: float,
    progress: Callable[[str], None],
) -> Generator[tuple[int, Outcome], None, str]:
    """Let one child run jobs, keeping `at` where it is. Give how it ended, "" when it got to the end.

    What a child says is not believed where it makes no sense: the modules run in the same process.
    """
    jobs = [[job.module, [[name, [role for role, _ in calls]] for name, calls in job.names.items()]] for job in batch]
    child = _Child({**request, "roots": sorted(batch[0].roots), "jobs": jobs})
    try:
        while True:
            left = deadline - time.monotonic()
            event = child.next(left if at.job < 0 else min(step, left))  # what starts it is not the modules' fault
            if event is None:
                return child.fate()
            match event:
                case ["over"]:
                    for job in range(at.job + 1, len(batch)):
                        message = f"`{shorten(batch[job].module, 40)}`: ended before it was imported"
                        yield job, Outcome(batch[job], "", "RG505", message)
                    return ""
                case ["module", int(job)] if job == at.job + 1 and job < len(batch):
                    at.job, at.name, at.is_asking = job, "", False
                    progress(batch[job].module)
                case ["name" | "probe" as kind, int(job), str(name)] if _is_at(at, job, batch, name):
                    at.name, at.is_asking = name, kind == "probe"
                case ["failed", int(job), str(kind), str(text), str(lacked)] if _is_at(at, job, batch):
                    message = f"importing `{shorten(batch[job].module, 30)}` raised {shorten(kind, 30)}"
                    yield job, Outcome(batch[job], "", "RG505", message, text, lacked)
                case ["found", int(job), str(name), str(code), str(text)] if _is_at(at, job, batch, name):
                    if code in _CODES:
                        yield job, Outcome(batch[job], name, code, text)
                case ["parameters", int(job), str(name), list(packed)] if _is_at(at, job, batch, name):
                    given = _unpacked(packed)
                    if given is not None:
                        yield from ((job, outcome) for outcome in _misfits(batch[job], name, given))
    except queue.Empty:
        at.is_slow = True
        return f"took longer than {step:g} s"
    finally:
        child.kill()


def _misfits(job: Job, name: str, given: Signature) -> Iterator[Outcome]:
    for role, call in job.names[name]:
        reason = misfit(stub(call), given, name) if call else ""
        if reason:
            yield Outcome(job, name, "RG503", reason, role=role)


def _is_at(at: _Step, job: int, batch: Sequence[Job], name: str | None = None) -> bool:
    """Say whether an event is about the job that was announced, and a name of it."""
    return job == at.job and 0 <= job < len(batch) and (name is None or name in batch[job].names)


def _unpacked(packed: Iterable[object]) -> Signature | None:
    """Make a signature of parameters as the child tells them, None when they are none."""
    out: list[Parameter] = []
    try:
        for told in packed:
            match told:
                case [str(name), int(kind)]:
                    out.append(Parameter(name, _KINDS[kind]))
                case [str(name), int(kind), None]:
                    out.append(Parameter(name, _KINDS[kind], default=UNREAD))
                case [str(name), int(kind), [default]]:
                    out.append(Parameter(name, _KINDS[kind], default=default))
                case _:
                    return None
    except (ValueError, IndexError):
        return None
    return Signature(out, __validate_parameters__=False)


def imports(scene: Scene) -> Iterator[Problem]:
    """An implementation that cannot be imported, or that turns out not to be what its manifest takes it for."""
    if not scene.imports:
        return
    known = Bindings.of(scene)
    places = _places(known)
    _demand_roots(places)
    jobs = [_job(module, roots, uses) for (module, roots), uses in places.items()]
    devices = (d for d in scene.whole.devices.values() if scene.is_sound(d.document, (*d.loc, "detect")))
    request = {
        "path": list(scene.path),
        "own": known.modules.own({root_of(job.module) for job in jobs}),
        "detectors": {device.name: device.model.detect for device in devices if device.model.detect},
        "all_roots": sorted({root for group in known.groups for root in known.roots(group.first.unit)}),
    }
    late: list[Use] = []
    guards = _Guards(scene.whole)
    for outcome in run_all(jobs, request, step=STEP, total=TOTAL, progress=_Teller(len(jobs))):
        uses = [
            use
            for use in places[outcome.job.module, outcome.job.roots]
            if outcome.name in ("", use.path.partition(":")[2]) and outcome.role in ("", use.role)
        ]
        if not outcome.code:
            late += uses
            continue
        if outcome.lacked and outcome.lacked not in outcome.job.roots:
            uses = [use for use in uses if outcome.lacked not in guards.names(use)]
        told = known.told(uses, outcome.code)
        if told:
            yield _problem(scene.whole, told, outcome)
        elif not uses:
            _log.info("%s was not imported: its rows ask for %s, which is not here", outcome.job.module, outcome.lacked)
    if late:
        message = f"not imported: the {TOTAL:g} s for all imports are used up"
        hint = f"check fewer manifests at once{_others(late)}"
        first = min(late, key=lambda use: use.where)
        yield Problem("RG505", first.where, message, hint, first.cell(scene.whole))


def _demand_roots(places: Mapping[tuple[str, frozenset[str]], Sequence[Use]]) -> None:
    """Raise RungError where nobody has said which packages may be imported."""
    free = sorted({root_of(use.path) for uses in places.values() for use in uses if use.unit.roots is None})
    if free:
        flags = " ".join(f"--allow {root}" for root in free)
        raise RungError(f"--imports runs code: say which packages it may import, such as {shorten(flags, 200)}")


def _places(known: Bindings) -> dict[tuple[str, frozenset[str]], list[Use]]:
    """Give what is to be imported, by module and the packages that may be bound: all that has no finding yet.

    What came along has been judged where it comes from, and importing it may take long.
    """
    firsts = [group.first for group in known.groups]
    faulty = {(use.path, known.roots(use.unit)) for use in firsts if known.fault(use) is not None}
    nonsense = faulty_probes(known.scene)
    places: dict[tuple[str, frozenset[str]], list[Use]] = {}
    for group in known.groups:
        path, roots = group.first.path, known.roots(group.first.unit)
        if group.first.unit in known.scene.along:
            continue
        if (path, roots) not in faulty and path not in nonsense and root_of(path) in roots:
            sound = known.sound(group)
            if sound:
                places.setdefault((path.partition(":")[0], roots), []).extend(sound)
    return places


def _job(module: str, roots: frozenset[str], uses: Iterable[Use]) -> Job:
    names: dict[str, dict[tuple[str, str], None]] = {}
    for use in uses:
        names.setdefault(use.path.partition(":")[2], {})[use.role, use.call] = None
    return Job(module, roots, {name: tuple(calls) for name, calls in names.items()})


def _problem(whole: Manifests, uses: Sequence[Use], outcome: Outcome) -> Problem:
    """Report an outcome at the first of the places that it is about."""
    first = min(uses, key=lambda use: use.where)
    message, _, said = outcome.message.partition(": ") if len(outcome.message) > 80 else (outcome.message, "", "")
    said = outcome.text or said
    hint = _repair(first, outcome) + _others(uses)
    return Problem(
        outcome.code,
        first.where,
        message,
        f"it says: {shorten(said, 300)}; {hint}" if said else hint,
        first.cell(whole),
    )


def _repair(use: Use, outcome: Outcome) -> str:
    module = outcome.job.module
    match outcome.code:
        case "RG505" if outcome.lacked and outcome.lacked not in outcome.job.roots:
            guard = f", or let the row ask for it, `when: {{module: {outcome.lacked}}}`" if use.row is not None else ""
            return f"install `{outcome.lacked}`{guard}"
        case "RG505":
            return f"`python -c 'import {module}'` shows where"
        case "RG502":
            return f"define it in `{module}`, or correct the name"
        case "RG503":
            return called_as(use.role, use.call)
        case "RG606":
            return "answer True, False, or None for what cannot be told, and catch what may go wrong"
    return f"define a function in `{module}` that calls it, and bind that"


def _others(uses: Sequence[Use]) -> str:
    count = len(uses) - 1
    return f" ({count} other place{'s' * (count > 1)} too)" if count else ""


class _Guards:
    """Which modules a row asks for before it is bound: without them, its implementation need not import."""

    def __init__(self, whole: Manifests) -> None:
        self.whole = whole

    def names(self, use: Use) -> frozenset[str]:
        """Give the modules that a row's own conditions and its backend's name."""
        backend = use.backend
        if backend is None or use.row is None:
            return frozenset()
        conditions = [backend.file.requires, use.row.when]
        return frozenset().union(*(self._of(c) for c in conditions if c is not None))

    def _of(self, model: ExpressionModel) -> frozenset[str]:
        found: set[str] = set()
        seen: set[str] = set()
        todo = [model]
        while todo:
            node = todo.pop()
            if node.module is not None:
                found.add(node.module.name)
            if node.use is not None and node.use not in seen and node.use in self.whole.predicates:
                seen.add(node.use)
                todo.append(self.whole.predicates[node.use].model)
            todo += [*(node.all or ()), *(node.any or ()), *([node.not_] if node.not_ is not None else [])]
        return frozenset(found)


class _Teller:
    """Tells a person at a terminal what is imported, once it takes long."""

    def __init__(self, count: int) -> None:
        self.count = count
        self.done = 0
        self.start = time.monotonic()

    def __call__(self, module: str) -> None:
        self.done = min(self.done + 1, self.count)
        if sys.stderr.isatty() and time.monotonic() - self.start > QUIET:
            print(f"importing {self.done} of {self.count}: {module}", file=sys.stderr)


RULES: tuple[Callable[[Scene], Iterator[Problem]], ...] = (imports,)
