"""Findings as GitHub workflow commands, those on lines a pull request changed first.

Owns how a command is escaped, how many there are, and asking git what changed. Writes nothing, and asks no network.
What is no command of ours is inert: see Note [Nothing but our commands] in `rung.cli.common`.

Note [Git in a stranger's checkout]: git runs programs that a repository's configuration names. The clone's own is
trusted, but a directory of the checkout can look like a bare repository, with a configuration that came with it. So git
is called where `.git` is, which no commit can bring, told to take nothing else for a repository, and to start no
monitor. The program itself is looked for in PATH alone, not in the working directory, as Windows would.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Final

from rung.cli.common import inert
from rung.diagnostics import printable

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from rung.cli.findings import Report
    from rung.diagnostics import Problem, Where

__all__ = ["changed_first", "commands"]

_ANNOTATIONS: Final = 10
"""Annotations that GitHub keeps of one step."""
_PATIENCE: Final = 30.0
"""Seconds that git may take."""
_PLAIN: Final = (
    "--unified=0", "--inter-hunk-context=0", "--no-color", "--no-ext-diff", "--no-textconv", "--no-relative",
    "--src-prefix=a/", "--dst-prefix=b/", "--ignore-submodules=all",
)  # fmt: skip
"""Against whatever git is configured to do: the form that is read here."""
_HUNK: Final = re.compile(rb"@@ -\d+(?:,(\d+))? \+(\d+)(?:,(\d+))? @@")
_SAFE: Final = ("-c", "safe.bareRepository=explicit", "-c", "core.fsmonitor=false")
"""See Note [Git in a stranger's checkout]."""
_QUIET: Final = {"GIT_NO_LAZY_FETCH": "1", "GIT_OPTIONAL_LOCKS": "0", "GIT_TERMINAL_PROMPT": "0"}


def commands(report: Report) -> str:
    """Give the first findings as commands, which GitHub shows in the code, and the rest as lines of the log."""
    shown, rest = report.problems[:_ANNOTATIONS], report.problems[_ANNOTATIONS:]
    lines = [_command(problem, report) for problem in shown]
    if rest:
        lines += [f"{len(rest)} more, not shown in the code:", *(inert(problem.concise()) for problem in rest)]
    return "\n".join(lines)


def changed_first(report: Report) -> list[Problem]:
    """Give the findings with those on changed lines before the others, in report order when git cannot say."""
    if len(report.problems) < 2:
        return list(report.problems)
    changed = _changed_lines(report.root)
    files = {problem.where.path for problem in report.problems if problem.where is not None} if changed else set()
    lines = {path: changed.get(report.locate(path), ()) for path in files}
    return sorted(report.problems, key=lambda p: p.where is None or not _meets(p.where, lines.get(p.where.path, ())))


def _command(problem: Problem, report: Report) -> str:
    properties = {**_place(problem.where, report), "title": problem.code}
    text = [problem.message]
    text += [f"note: {remark} at {report.seen(place.path)}:{place.line}" for place, remark in problem.related]
    text += [f"help: {problem.hint}"] if problem.hint else []
    given = ",".join(f"{name}={_property(printable(value))}" for name, value in properties.items())
    message = _data("\n".join(printable(line) for line in text))
    return f"::{problem.severity} {given}::{message}"


def _place(where: Where | None, report: Report) -> dict[str, str]:
    """Give the properties of a place. GitHub takes columns only of what lies on one line."""
    if where is None:
        return {}
    last = _last_line(where)
    place = {"file": report.seen(where.path), "line": str(where.line)}
    if where.end_line:
        place["endLine"] = str(last)
        if last == where.line:
            place["col"] = str(where.column)
            if where.end_line == where.line:
                place["endColumn"] = str(where.end_column)
    return place


def _last_line(where: Where) -> int:
    """Give the last line of which a place has a character."""
    return max(where.line, where.end_line - (where.end_column <= 1))


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")


def _meets(where: Where, changed: Sequence[range]) -> bool:
    """Say whether a place has a changed line; a whole file has when anything in it was changed."""
    if not where.end_line:
        return bool(changed)
    return any(lines.start <= _last_line(where) and where.line < lines.stop for lines in changed)


def _changed_lines(root: Path) -> Mapping[Path, Sequence[range]]:
    """Give the lines of each file that differ from the commit the change starts from; nothing when git cannot say."""
    resolved = root.resolve()
    home = next((folder for folder in (resolved, *resolved.parents) if (folder / ".git").exists()), None)
    if home is None:
        return {}
    base = _base(home)
    top = _git(home, "rev-parse", "--show-toplevel")
    if base is None or top is None:
        return {}
    out = _git(home, "-c", "core.quotePath=false", "diff", *_PLAIN, base.decode(), "--")
    changed: dict[Path, list[range]] = {}
    for name, lines in _hunks(out or b""):
        changed.setdefault(Path(os.fsdecode(top)) / name, []).append(lines)
    return changed


def _base(root: Path) -> bytes | None:
    """Give the commit a change starts from: where it left the branch it goes to, else the one before the last."""
    branch = os.environ.get("GITHUB_BASE_REF")
    for ref in (f"refs/remotes/origin/{branch}", f"refs/heads/{branch}") if branch else ():
        base = _git(root, "merge-base", ref, "HEAD")
        if base:
            return base
    return _git(root, "rev-parse", "--verify", "--quiet", "HEAD^1") or None


def _git(root: Path, *arguments: str) -> bytes | None:
    """Give what git prints, None when it cannot answer; see Note [Git in a stranger's checkout]."""
    program = _program()
    if program is None:
        return None
    try:
        done = subprocess.run(
            [program, *_SAFE, *arguments], cwd=root, env={**os.environ, **_QUIET}, stdin=subprocess.DEVNULL,
            capture_output=True, check=True, timeout=_PATIENCE,
        )  # fmt: skip
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.removesuffix(b"\n")


def _program() -> str | None:
    """Give the path of git, None where PATH has none."""
    name = "git.exe" if os.name == "nt" else "git"
    folders = (folder for folder in os.get_exec_path() if Path(folder).is_absolute())
    return next(filter(None, (shutil.which(str(Path(folder) / name)) for folder in folders)), None)


def _hunks(diff: bytes) -> Iterator[tuple[str, range]]:
    """Give the changed lines of a diff without context, each stretch with its file."""
    name, inside = b"", 0
    for line in diff.split(b"\n"):
        if line.startswith(b"\\"):  # says that the line before has no end
            continue
        if inside:
            inside -= 1
        elif line.startswith(b"+++ "):
            name = _unquoted(line.removeprefix(b"+++ ").removesuffix(b"\t")).removeprefix(b"b/")
        elif (hunk := _HUNK.match(line)) is not None:
            removed, start, added = hunk.groups()
            count = int(added or b"1")
            inside = int(removed or b"1") + count
            yield os.fsdecode(name), range(int(start), int(start) + count)


def _unquoted(name: bytes) -> bytes:
    """Give a path that git may have put in quotes, with escapes as in C."""
    if not name.startswith(b'"'):
        return name
    return name[1:-1].decode("unicode_escape").encode("latin-1")
