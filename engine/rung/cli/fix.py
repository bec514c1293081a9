"""`rung fix`: repair in manifests what can be repaired without guessing.

Owns which edits are taken, and the writing of files. Every edit is one that a finding brought along, and is held to its
promise: the manifests are judged again with it, in memory, before anything is written.

Note [An edit must be for the better]: where the manifests load, an edit may neither change their table nor add a
finding. Where they do not, what a repaired entry refers to is judged for the first time, and such findings are welcome;
but what an edit wrote must be right where it stands, and the files must stay readable.
"""

from __future__ import annotations

import difflib
import os
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from rung.cli.check import judged, path_flags, paths_of, wanted
from rung.cli.common import common_flags, config_of, tell, write, write_json
from rung.diagnostics import RungError, Where, printable
from rung.files import read_regular, replace_file
from rung.records import fields, is_record
from rung.rulebook import SILENCEABLE, selected
from rung.table import PER_PROCESS

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable, Iterator, Sequence

    from rung.diagnostics import Problem
    from rung.manifest import Manifests

__all__ = ["add", "run"]

MAX_PASSES: Final = 100
"""How often the repaired text is searched for more; one repair rarely makes room for another."""
MAX_TRIALS: Final = 40
"""How often in all manifests are judged for edits; what is not settled by then is left to people."""
_HARMLESS: Final = SILENCEABLE | {"RG803", "RG903"}
"""The codes of findings with which manifests load."""


def add(commands: Any) -> None:
    """Add the command to the parser."""
    command = commands.add_parser(
        "fix",
        help="repair what can be repaired without guessing",
        description="Apply the safe repairs that findings of `rung check` bring along. Everything else in the files "
        "survives, and nothing that resolved before resolves differently.",
        epilog="Exit: 0 no error is left, 1 errors are left, whichever were to be repaired; with --diff also 1 where "
        "something would change.",
    )
    path_flags(command)
    command.add_argument("--diff", action="store_true", help="print what would change, and write nothing")
    command.add_argument("--select", metavar="CODE", action="append", default=[], help="repair only these codes (RG1)")
    command.add_argument("--ignore", metavar="CODE", action="append", default=[], help="do not repair these codes")
    common_flags(command, ("text", "json"))
    command.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Repair, report, and give the exit code."""
    fixer = _Fixer(arguments)
    texts = fixer.read()
    state, repaired = fixer.repair(texts)
    changed = {shown: path for shown, path in fixer.files.items() if state.texts.get(path) != texts.get(path)}
    diff = "".join(line for shown, path in changed.items() for line in _diff(shown, texts[path], state.texts[path]))
    if not arguments.diff:
        _write_all((shown, path, texts[path], state.texts[path]) for shown, path in changed.items())
    silenced = config_of(arguments).ignore
    left = [p for p in state.whole.problems if p.code not in silenced]
    errors = sum(problem.severity == "error" for problem in left)
    if arguments.format == "json":
        document = {"format_version": 1, "repairs": [_as_dict(p) for p in repaired], "remaining": len(left)}
        write_json(arguments, document | ({"diff": diff} if arguments.diff else {}))
    else:
        write(arguments, diff if arguments.diff else "".join(f"{_line(problem)}\n" for problem in repaired))
    verb = "can be repaired" if arguments.diff else "repaired"
    shows = " (rung check shows them)" if left else ""
    tell(f"{len(repaired)} {verb}, {len(left)} finding{'s' * (len(left) != 1)} remain{'s' * (len(left) == 1)}{shows}")
    return 1 if errors or (arguments.diff and changed) else 0


@dataclass(frozen=True)
class _State:
    """The bytes of the named files, what is found in them, and the table they make; None where they do not load."""

    texts: Mapping[Path, bytes]
    whole: Manifests
    table: Any

    def key(self, problem: Problem) -> tuple[str, str, str]:
        return (problem.code, problem.where.path if problem.where else "", problem.message)


class _Fixer:
    """Takes edits of the named files, in memory, as long as they are for the better.

    `files` are those files by how they are shown. Built-in manifests that are merely judged along are none of them.
    """

    def __init__(self, arguments: argparse.Namespace) -> None:
        self.arguments = arguments
        self.select = selected(arguments.select)
        self.ignore = [*selected(arguments.ignore), *config_of(arguments).ignore]
        self.files = dict(_files(arguments))
        self.trials = MAX_TRIALS

    def is_wanted(self, problem: Problem) -> bool:
        return wanted(problem.code, self.select, self.ignore)

    def read(self) -> dict[Path, bytes]:
        """Read the files; what cannot be read is left for judging to report."""
        from rung.source import MAX_FILE_BYTES

        out: dict[Path, bytes] = {}
        for path in self.files.values():
            with suppress(OSError):
                out[path] = read_regular(path, MAX_FILE_BYTES)
        return out

    def judge(self, texts: Mapping[Path, bytes]) -> _State:
        from rung.compile import compile_manifests

        whole = judged(self.arguments, texts=texts)
        loads = all(problem.code in _HARMLESS for problem in whole.problems.errors)
        return _State(texts, whole, _without_places(compile_manifests(whole)) if loads else None)

    def repair(self, texts: Mapping[Path, bytes]) -> tuple[_State, list[Problem]]:
        """Give what the files become, and the findings that are gone for it."""
        state = self.judge(texts)
        done: list[Problem] = []
        seen = [texts]
        for _ in range(MAX_PASSES):
            following, taken = self.taken(state, self.candidates(state))
            if not taken or following.texts in seen:  # edits that undo each other would never end
                break
            state, done = following, [*done, *taken]
            seen.append(state.texts)
        return state, done

    def candidates(self, state: _State) -> list[Problem]:
        """Give the findings that bring an edit of a named file, in order and apart from each other."""
        readable = {document.path for document in state.whole.documents if document.usable}
        end: dict[str, tuple[int, int]] = {}
        out: list[Problem] = []
        found = [(p.edit.where, p) for p in state.whole.problems if p.edit is not None and self.is_wanted(p)]
        for where, problem in sorted(found, key=lambda pair: pair[0]):
            start = (where.line, where.column)
            if where.path in self.files and where.path in readable and end.get(where.path, (0, 0)) <= start:
                # An insertion takes its place too: nothing else may start there.
                end[where.path] = max((where.end_line, where.end_column), (start[0], start[1] + 1))
                out.append(problem)
        return out

    def taken(self, base: _State, candidates: Sequence[Problem]) -> tuple[_State, list[Problem]]:
        """Give the state with those edits that are for the better, and the findings that brought them.

        All are tried at once. Those whose place then has a finding are left out of the next try; where the others are
        not for the better, and no place says why, halves are tried alone.
        """
        left = list(candidates)
        while left:
            trial = self.applied(base, left)
            if trial is None:
                break
            if self.is_better(base, *trial):
                return trial[0], left
            blamed = self.blamed(base, *trial)
            if not blamed:
                break
            left = [problem for index, problem in enumerate(left) if index not in blamed]
        return self.halved(base, base, [], left) if len(left) > 1 else (base, [])

    def blamed(self, before: _State, after: _State, written: Sequence[Where]) -> set[int]:
        """Give which edits a finding speaks against: those it lies in, else around, else last before what it broke."""
        out: set[int] = set()
        for at in (p.where for p in self.objections(before, after, written) if p.where is not None):
            inside = {index for index, place in enumerate(written) if _lies_in(at, place)}
            inside = inside or {index for index, place in enumerate(written) if _lies_in(place, at)}
            earlier = [index for index, place in enumerate(written) if place.path == at.path and place <= at]
            out |= inside or set(earlier[-1:])
        return out

    def halved(
        self, base: _State, best: _State, good: list[Problem], more: list[Problem]
    ) -> tuple[_State, list[Problem]]:
        """Give the state with as many of `more` as are for the better, besides the `good` ones, and those taken.

        `best` is the base with the good ones.
        """
        middle = (len(more) + 1) // 2
        for half in (more[:middle], more[middle:]):
            trial = self.applied(base, [*good, *half]) if half else None
            if trial is not None and self.is_better(best, *trial):
                best, good = trial[0], [*good, *half]
            elif len(half) > 1:
                best, good = self.halved(base, best, good, half)
        return best, good

    def applied(self, base: _State, problems: Sequence[Problem]) -> tuple[_State, list[Where]] | None:
        """Apply the edits of findings and judge the result. Give the places they wrote, in the same order.

        None where one names a place that is none, and when there were trials enough.
        """
        from rung.repairs import apply

        if not self.trials:
            return None
        self.trials -= 1
        texts = dict(base.texts)
        places: dict[int, Where] = {}
        for shown, path in self.files.items():
            edits = {i: p.edit for i, p in enumerate(problems) if p.edit is not None and p.edit.where.path == shown}
            if edits:
                try:
                    texts[path], written = apply(texts[path], list(edits.values()))
                except ValueError:
                    return None
                places |= zip(edits, written, strict=True)
        return self.judge(texts), [place for _, place in sorted(places.items())]

    def is_better(self, before: _State, after: _State, written: Sequence[Where]) -> bool:
        """Say whether a state may follow another; see Note [An edit must be for the better]."""
        same = before.table is None or after.table == before.table
        return same and not self.objections(before, after, written)

    def objections(self, before: _State, after: _State, written: Sequence[Where]) -> list[Problem]:
        """Give the findings of a state that came up since another one and may not."""
        new = Counter(map(after.key, after.whole.problems)) - Counter(map(before.key, before.whole.problems))
        added = [problem for problem in after.whole.problems if after.key(problem) in new]
        if before.table is not None:
            return added
        files = {place.path for place in written}
        return [
            problem
            for problem in added
            if problem.where is not None
            and (
                (problem.where.path in files and problem.code < "RG1")
                or any(_lies_in(problem.where, place) for place in written)
            )
        ]


def _files(arguments: argparse.Namespace) -> Iterator[tuple[str, Path]]:
    """Give the files that are named or lie in named directories, by how they are shown, with links resolved."""
    from rung.load import units_of
    from rung.units import manifest_files

    for unit in units_of(paths_of(arguments), None, config_of(arguments).root):
        if unit.path.is_symlink() and unit.path.is_file():
            target = unit.path.resolve()
            if not target.is_relative_to(unit.path.parent.resolve()):
                raise RungError(f"{unit.shown} is a link that leads out of its directory: name {target} itself")
        for path, shown in manifest_files(unit):
            yield shown, Path(path).resolve()


def _lies_in(where: Where, written: Where) -> bool:
    if where.path != written.path:
        return False
    return (written.line, written.column) <= (where.line, where.column) < (written.end_line, written.end_column)


def _without_places(value: Any) -> Any:
    """Give a table, or a part of one, as plain data without the places that edits move."""
    if isinstance(value, Where):
        return None
    if is_record(value):
        names = (name for name in fields(value) if name not in PER_PROCESS)
        return (type(value).__name__, *(_without_places(getattr(value, name)) for name in names))
    if isinstance(value, Mapping):
        return {key: _without_places(inner) for key, inner in value.items()}
    return tuple(map(_without_places, value)) if isinstance(value, list | tuple) else value


def _line(problem: Problem) -> str:
    where, what = problem.where or Where(""), problem.edit.what if problem.edit is not None else ""
    return f"{where}:{where.column}: {problem.code} {printable(what)}"


def _as_dict(problem: Problem) -> dict[str, Any]:
    where = problem.where or Where("")
    what = problem.edit.what if problem.edit is not None else ""
    return {"code": problem.code, "path": where.path, "start": [where.line, where.column], "what": what}


def _diff(shown: str, before: bytes, after: bytes) -> Iterator[str]:
    """Give a unified diff of one file as text that `patch -p1` and `git apply` take."""
    from rung.repairs import split_lines

    names = (shown, shown) if Path(shown).is_absolute() else (f"a/{shown}", f"b/{shown}")
    for line in difflib.unified_diff(split_lines(before.decode()), split_lines(after.decode()), *names):
        yield (
            line
            if line.endswith("\n")
            else f"{line}\n"
            if line.endswith("\r")
            else f"{line}\n\\ No newline at end of file\n"
        )


def _write_all(files: Iterable[tuple[str, Path, bytes, bytes]]) -> None:
    """Write files, each at once or not at all, none where one of them cannot be written."""
    from rung.source import MAX_FILE_BYTES

    listed = list(files)
    for shown, path, before, _ in listed:
        if not path.stat().st_mode & 0o222 or not os.access(path, os.W_OK):
            raise RungError(f"{shown} is read-only: nothing was written")
        if read_regular(path, MAX_FILE_BYTES) != before:
            raise RungError(f"{shown} changed while it was being repaired: nothing was written")
    for _, path, _, after in listed:
        replace_file(path, after)
