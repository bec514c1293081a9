"""What a program pays to start: importing rung and resolving one op, beside bare Python and other imports.

Owns the clean virtual environment in which this is timed: rung is installed there from a wheel, as its users have it,
with nothing besides what it depends on, and without a network.
"""

from __future__ import annotations

import os
import subprocess
import sys
from functools import partial
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import TYPE_CHECKING, Final

from benchmarks.report import Row, Section
from benchmarks.rounds import interleaved, ratio_of, say

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["start"]

ROOT: Final = Path(__file__).parents[1]
WHEELHOUSE: Final = Path(sys.prefix, "wheelhouse")
"""Wheels of what rung depends on, which `make` puts there."""
BARE: Final = "pass"
PROGRAMS: Final = {
    BARE: None,
    "import json": None,
    "from importlib.metadata import entry_points; entry_points()": None,
    "import yaml, pydantic": None,
    "import rung": None,
    'import rung; rung.detect().resolve("flow_match_step")': 2.5,
}
"""Each program, and the target of its ratio to a bare one."""
METHOD: Final = """\
Each program is run by `python -c` in a fresh process, in a clean virtual environment that the benchmark makes: rung is
installed from a wheel built of this checkout, with its dependencies and nothing else, and variables `RUNG_*` and
`PYTHON*` are not passed on. The time is that of the whole process, from starting it to its end, so both sides of a
ratio have what starting a process costs. Every program ran twice before: bytecode and caches are there. The last
program reads the compiled table of the built-in manifests, looks at the machine and resolves one op; it imports no
backend.
"""


def start(rounds: int) -> Section:
    """Time every program so many rounds; says what is missing when the environment cannot be made."""
    with TemporaryDirectory() as directory:
        try:
            say("start: a clean virtual environment")
            python, environment = _clean(Path(directory))
        except (subprocess.CalledProcessError, OSError) as error:
            say(f"no clean virtual environment: {error}")
            missing = [Row(f"`{one}`", note="no clean virtual environment could be made") for one in PROGRAMS]
            return Section("Start", METHOD, tuple(missing))
        say(f"start: {rounds} rounds of {len(PROGRAMS)} programs")
        runs = {one: partial(_seconds, python, one, environment, directory) for one in PROGRAMS}
        interleaved(runs, 2)
        times = interleaved(runs, rounds)
    rows = []
    for one, target in PROGRAMS.items():
        ratio = ratio_of(times[one], times[BARE]) if one != BARE else None
        rows.append(Row(f"`{one}`", median(times[one]), "s", ratio, f"`{BARE}`" if ratio else "", target))
    return Section("Start", METHOD, tuple(rows))


def _clean(directory: Path) -> tuple[Path, dict[str, str]]:
    """Make the virtual environment; give its interpreter and the variables to run it with."""
    kept = {name: text for name, text in os.environ.items() if not name.startswith(("PIP_", "PYTHON", "RUNG_"))}
    environment = {
        **kept,
        "PIP_CONFIG_FILE": os.devnull,
        "PIP_DISABLE_PIP_VERSION_CHECK": "1",
        "PIP_NO_INDEX": "1",
        "RUNG_CACHE_DIR": str(directory / "cache"),
    }

    def run(*command: str | Path) -> None:
        subprocess.run(command, env=environment, cwd=directory, stdout=subprocess.DEVNULL, check=True)

    wheels, clean = directory / "wheels", directory / "environment"
    python = clean / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    building = ("--quiet", "--no-deps", "--no-build-isolation", "--wheel-dir", wheels)
    run(sys.executable, "-m", "pip", "wheel", *building, ROOT)
    run(sys.executable, "-m", "venv", clean)
    run(python, "-m", "pip", "install", "--quiet", "--find-links", WHEELHOUSE, *wheels.glob("rung-*.whl"))
    return python, environment


def _seconds(python: Path, program: str, environment: Mapping[str, str], directory: str) -> float:
    begin = perf_counter()
    subprocess.run([python, "-c", program], env=environment, cwd=directory, check=True)
    return perf_counter() - begin
