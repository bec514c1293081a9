"""`rung explain`: the ladder of one op or component kind, with a verdict and a reason per rung.

Owns the choice of platform from flags.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rung.cli.common import common_flags, facts_flag, facts_of, table_flags, table_of, write, write_json
from rung.diagnostics import RungError, did_you_mean, warn
from rung.entries import ARRAYS

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from rung.entries import Op
    from rung.platform import Platform

__all__ = ["add", "platform_flags", "platform_of", "run"]


def add(commands: Any) -> None:
    """Add the command to the parser."""
    command = commands.add_parser(
        "explain",
        help="show what serves an op, and every rung passed over",
        description="Show the ladder of an op (or component kind) on a platform. Imports no implementation.",
    )
    command.add_argument("op", metavar="OP", help="an op, or a component kind")
    command.add_argument("--variant", default="default", help="the requested variant")
    command.add_argument("--set", metavar="PRED=ANSWER", action="append", default=[], dest="settled",
                         help="take a predicate as answered: yes, no or unknown; repeatable")  # fmt: skip
    command.add_argument("--arg", metavar="NAME=EXAMPLE", action="append", default=[], dest="examples",
                         help="an argument of the call, such as q=bfloat16[2,8,128,64], mask=none, causal=true; "
                         "repeatable")  # fmt: skip
    command.add_argument("--bind", action="store_true", help="also import implementations until one binds")
    platform_flags(command)
    table_flags(command)
    facts_flag(command)
    common_flags(command, ("full", "json"))
    command.set_defaults(run=run)


def platform_flags(command: argparse.ArgumentParser) -> None:
    """Add the flags that choose a platform."""
    command.add_argument("--device", help="a device family; default: the detected one")
    command.add_argument("--arch", help="what its hardware is; default: what the facts say")
    command.add_argument("--arrays", choices=ARRAYS, help="what the caller holds")
    command.add_argument("--profile", help="the policy; default: RUNG_PROFILE, else `default`")


def platform_of(arguments: argparse.Namespace) -> Platform:
    """Give the platform the flags name."""
    from rung.platform import Platform, live_facts_of
    from rung.resolve import own_arch

    table = table_of(arguments)
    facts = facts_of(arguments)
    if arguments.device is None:
        if arguments.arch is not None:
            raise RungError("--arch needs --device: arch names belong to a device")
        return Platform.detect(arrays=arguments.arrays, facts=facts, profile=arguments.profile, table=table)
    table.device(arguments.device)
    arch = arguments.arch
    if arch is None:
        arch, why = own_arch(table, arguments.device, facts or live_facts_of(table))
        if why:
            warn(f"{why}; taking arch `{arch}` (name one with --arch)")
    return Platform.of(
        arguments.device, arch, arrays=arguments.arrays, facts=facts, profile=arguments.profile, table=table
    )


def _examples(op: Op, written: Sequence[str]) -> dict[str, Any] | None:
    """Read the arguments given as examples; None where there are none. Raise RungError for what is none."""
    from rung.arguments import example, parameters

    legal = {parameter.name: parameter for parameter in parameters(op.signature)}
    found: dict[str, Any] = {}
    for text in written:
        name, equals, value = text.partition("=")
        if not equals or name in found:
            raise RungError(f"--arg {text}: write NAME=EXAMPLE, once for each argument")
        if name not in legal:
            raise RungError(f"--arg {text}: {op.name} has no argument `{name}`: {did_you_mean(name, legal)}")
        found[name] = example(value, legal[name])
    return found or None


def run(arguments: argparse.Namespace) -> int:
    """Explain, and give 0 when something serves."""
    platform = platform_of(arguments)
    table = platform.table
    settled: dict[str, str] = {}
    for setting in arguments.settled:
        name, _, answer = setting.partition("=")
        settled[name] = answer
    is_kind = arguments.op in table.kinds and arguments.op not in table.ops
    if is_kind:
        if arguments.examples:
            raise RungError(f"--arg is for ops, and `{arguments.op}` is a component kind")
        outcome = platform.resolve_component(arguments.op, arguments.variant, bind=arguments.bind, settled=settled)
    else:
        outcome = platform.explain(
            arguments.op, arguments.variant, bind=arguments.bind, settled=settled,
            arguments=_examples(platform.table.op(arguments.op), arguments.examples),
        )  # fmt: skip
    if arguments.format == "json":
        write_json(arguments, outcome.as_dict())
    else:
        write(arguments, str(outcome))
    return 0 if outcome.cell is not None else 1
