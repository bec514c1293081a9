from __future__ import annotations

import subprocess
import sys

import pytest


@pytest.mark.parametrize("device", ["cpu", "cuda", "rocm", "mps", "xpu"])
def test_a_probe_needs_the_standard_library_alone(device: str) -> None:
    script = (
        "import sys; before = set(sys.modules)\n"
        f"from rung.probes import {device}\n"
        "from rung.probes.host import Host\n"
        "try:\n"
        f"    {device}.detect(Host())\n"
        "except OSError:\n"
        "    pass\n"
        "new = {name.partition('.')[0] for name in set(sys.modules) - before}\n"
        "print(sorted(new - set(sys.stdlib_module_names) - {'rung'}))\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
