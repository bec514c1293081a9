"""`rung parity`: every cell usable here against the reference.

Owns the report.
"""

from __future__ import annotations

import math
import sys
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from rung.cli.bar import Bar
from rung.cli.common import common_flags, count, rows, table_flags, table_of, write, write_json
from rung.diagnostics import RungError, printable

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator, Sequence

    from rung.parity import Outcome

__all__ = ["add", "run"]

_HEAD = ("cell", "dtype", "status", "cases", "largest difference", "ulp", "detail")
_FAR = 1e6
_FILTERS = ("backend", "op", "cell", "variant", "dtype", "what", "case", "seed")


def add(commands: Any) -> None:
    """Add the command to the parser."""
    command = commands.add_parser(
        "parity",
        help="compare usable cells with the reference",
        description="Run every cell usable here on its op's cases and compare with the numpy reference, in every "
        "dtype the op has a tolerance for; and compare the gradients of tensors with numeric differentiation of the "
        "reference. Exit 1 when one differs by more, or changes an argument.",
    )
    command.add_argument("--backend", action="append", help="only this backend; repeatable")
    command.add_argument("--op", action="append", help="only this op; repeatable")
    command.add_argument("--cell", metavar="GLOB", help="only cells whose id this is or matches")
    command.add_argument("--variant", help="only this variant")
    command.add_argument("--dtype", help="only this dtype")
    command.add_argument("--what", choices=("result", "gradient"), help="only results, or only gradients")
    command.add_argument("--case", metavar="N", type=count, help="only the case of this number, from 0")
    command.add_argument("--seed", type=count, default=0, help="seed of the cases (default 0)")
    table_flags(command)
    common_flags(command, ("text", "json", "markdown", "junit"))
    command.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Compare, report, and give the exit code."""
    from rung.parity import FAILED, PASSED, checks, outcomes

    table = table_of(arguments)
    try:
        planned = list(checks(table=table, **{name: getattr(arguments, name) for name in _FILTERS}))
    except KeyError as error:
        raise RungError(str(error.args[0])) from None
    with Bar(len(planned)) as bar:
        found = list(outcomes(planned, lambda done, check: bar.show(done, check.id)))
    _report(arguments, found)
    if not any(o.status in (FAILED, PASSED) for o in found):
        reasons = [*dict.fromkeys(o.detail for o in found if o.dtype)] or ["no cell is usable here"]
        reason = printable(reasons[0]) + (", for one" if len(reasons) > 1 else "")
        print(f"rung: warning: nothing was compared: {reason}", file=sys.stderr)
    failed = sum(o.status == FAILED for o in found)
    passed = sum(o.status == PASSED for o in found)
    print(f"{passed} passed, {failed} failed, {len(found) - passed - failed} skipped", file=sys.stderr)
    return 1 if failed else 0


def _report(arguments: argparse.Namespace, found: Sequence[Outcome]) -> None:
    """Write the report in the format that is asked for."""
    more = [word for path in arguments.manifests for word in ("--manifests", path)]
    more += [word for package in arguments.allow for word in ("--allow", package)]
    more += ["--root", arguments.root] if arguments.root != "." else []
    if arguments.format == "json":
        write_json(arguments, {"format_version": 1, "outcomes": [_plain(o) for o in found]})
    elif arguments.format == "junit":
        from rung.cli.junit import as_junit

        write(arguments, as_junit([(o, "\n".join([o.detail, *_more(o, more)])) for o in found]))
    else:
        markdown = arguments.format == "markdown"
        body = [(o.cell, o.label, o.status, _cases(o), f"{o.worst:.3g}", _ulp(o), printable(o.detail)) for o in found]
        text = rows(_HEAD, body, markdown=markdown)
        for outcome in found:
            lines = [printable(line) for line in _more(outcome, more)]
            if lines and markdown:
                text += f"\n\n{outcome.cell} {outcome.label}:\n\n" + "\n".join(f"    {line}" for line in lines)
            elif lines:
                text += f"\n\n{outcome.cell} {outcome.label}\n" + "\n".join(f"  {line}" for line in lines)
        write(arguments, text)


def _cases(outcome: Outcome) -> str:
    return f"{outcome.cases}" if outcome.of == outcome.cases else f"{outcome.cases} of {outcome.of}"


def _ulp(outcome: Outcome) -> str:
    """Give the distance; beside a reference of 0 it is a number of more digits than anybody reads."""
    return f"{outcome.ulp:.3g}" if outcome.ulp <= _FAR else f"> {_FAR:.0e}".replace("+0", "")


def _more(outcome: Outcome, more: Sequence[str]) -> Iterator[str]:
    """Say of what failed which case it was, and how to run it again."""
    from rung.parity import FAILED, again

    if outcome.status == FAILED:
        if outcome.arguments:
            yield f"case {outcome.case}: {outcome.arguments}"
        yield f"again: {again(outcome, more)}"


def _plain(outcome: Outcome) -> dict[str, Any]:
    """Give an outcome as JSON has it, which knows no infinity: null stands for a difference that is not finite."""
    return {k: None if isinstance(v, float) and not math.isfinite(v) else v for k, v in asdict(outcome).items()}
