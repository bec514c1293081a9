"""`rung facts`: what this machine is, as a file that `--facts` reads.

Owns the YAML form of facts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rung.cli.common import common_flags, facts_flag, facts_of, table_flags, table_of, write, write_json

if TYPE_CHECKING:
    import argparse

__all__ = ["add", "run", "to_yaml"]


def add(commands: Any) -> None:
    """Add the command to the parser."""
    command = commands.add_parser(
        "facts",
        help="record what this machine is",
        description="Write what this machine is: its devices, and exactly the modules, files and variables that "
        "predicates ask about. What could not be observed is left out.",
    )
    table_flags(command)
    facts_flag(command)
    common_flags(command, ("yaml", "json"))
    command.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Observe and write."""
    from rung.platform import live_facts_of

    table = table_of(arguments)
    facts = facts_of(arguments) or live_facts_of(table)
    wanted = table.wanted
    found = facts.snapshot(
        devices=wanted.devices,
        modules=wanted.modules,
        files=wanted.files,
        env=wanted.env,
        probes=wanted.probes,
    )
    if arguments.format == "json":
        write_json(arguments, found)
    else:
        write(arguments, to_yaml(found))
    return 0


def to_yaml(value: object) -> str:
    """Write plain data so that the strict reader reads it back equal."""
    import yaml

    from rung.source import is_plain

    class Dumper(yaml.SafeDumper):
        pass

    def text(dumper: yaml.SafeDumper, data: str) -> yaml.ScalarNode:
        return dumper.represent_scalar("tag:yaml.org,2002:str", data, style=None if is_plain(data) else '"')

    Dumper.add_representer(str, text)
    out: str = yaml.dump(value, Dumper=Dumper, sort_keys=False, default_flow_style=None, width=100, allow_unicode=False)
    return out
