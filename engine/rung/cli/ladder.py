"""`rung ladder`: which targets run on an arch, in order, or whether one does.

Owns nothing but the wording: the answer is the lattice's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rung.cli.common import common_flags, rows, table_flags, table_of, write, write_json
from rung.entries import ARTIFACTS

if TYPE_CHECKING:
    import argparse

__all__ = ["add", "run"]


def add(commands: Any) -> None:
    """Add the command to the parser."""
    command = commands.add_parser(
        "ladder",
        help="show which targets run on an arch",
        description="Show the targets whose code runs on an arch, closest first; or, with TARGET, whether that one "
        "runs and why: exit 0 when it does, 1 when it does not, 2 when no manifest knows it.",
    )
    command.add_argument("device", metavar="DEVICE")
    command.add_argument("arch", metavar="ARCH")
    command.add_argument("target", metavar="TARGET", nargs="?")
    command.add_argument("--artifact", choices=ARTIFACTS, help="what the code is; default: by target")
    table_flags(command)
    common_flags(command, ("full", "json"))
    command.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Answer, and give the exit code."""
    from rung import lattice

    device = table_of(arguments).device(arguments.device)
    arch = lattice.read_arch(device, arguments.arch)
    if arguments.target is None:
        steps = lattice.ladder(device, arch, arguments.artifact)
        if arguments.format == "json":
            ladder = [{"target": s.target, "artifact": s.artifact, "why": s.why} for s in steps]
            write_json(arguments, {"format_version": 1, "device": device.name, "arch": arch, "ladder": ladder})
        else:
            write(arguments, rows(("target", "artifact", "why"), [(s.target, s.artifact, s.why) for s in steps]))
        return 0
    target = lattice.read_target(device, arguments.target)
    artifact = arguments.artifact or lattice.default_artifact(device, target)
    legal = lattice.artifacts(device, target)
    if artifact in legal:
        answer = lattice.fit(device, target, artifact, arch)
    else:
        answer = lattice.Fit(False, f"code for {target} cannot be {artifact}, it can be {', '.join(legal)}")
    if arguments.format == "json":
        verdict = {"target": target, "artifact": artifact, "runs": answer.runs, "why": answer.why}
        write_json(arguments, {"format_version": 1, "device": device.name, "arch": arch, **verdict})
    else:
        word = "runs" if answer.runs else "does not run"
        write(arguments, f"{target} ({artifact}) {word} on {arch}: {answer.why}")
    return 0 if answer.runs else 1
