"""The hook, run by pre-commit itself in a repository that uses it."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from checkout import commit, copy_to, offline

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

CONFIG = """\
repos:
  - repo: {url}
    rev: {revision}
    hooks:
      - id: rung-check
        args: [--strict, --ignore, RG902]
"""
MANIFEST = """\
manifest: 1
backend: acme
arrays: numpy
kernels:
  flow_match_step:
    - device: cpu
      arch: x86_64_v3
      impl: "acme.kernels:flow_match_step"
"""
KERNELS = """\
from pathlib import Path

Path("imported").touch()


def flow_match_step(sample, velocity, sigma, sigma_next):
    return sample + (sigma_next - sigma) * velocity
"""


@dataclass(frozen=True)
class Hook:
    """The hook's repository, and an environment for pre-commit, which installs the hook once for all cases."""

    url: str
    revision: str
    environment: Mapping[str, str]

    def run(self, repository: Path, changed: dict[str, str]) -> subprocess.CompletedProcess[str]:
        """Stage changes in a repository whose manifest is in order, and run its hooks as committing them would."""
        files = {
            ".pre-commit-config.yaml": CONFIG.format(url=self.url, revision=self.revision),
            "acme/__init__.py": "",
            "acme/kernels.py": KERNELS,
            "manifests/acme.yaml": MANIFEST,
            "pyproject.toml": '[tool.rung]\nmanifests = ["manifests"]\nallow = ["acme"]\n',
        }
        self._write(repository, files)
        commit(repository, self.environment)
        self._write(repository, changed)
        subprocess.run(["git", "add", "--all"], cwd=repository, env=self.environment, check=True)
        return subprocess.run(
            [sys.executable, "-m", "pre_commit", "run", "--color", "never", "--verbose"],
            cwd=repository, env=self.environment, capture_output=True, text=True, encoding="utf-8", check=False,
        )  # fmt: skip

    def _write(self, repository: Path, files: dict[str, str]) -> None:
        for name, text in files.items():
            (repository / name).parent.mkdir(parents=True, exist_ok=True)
            (repository / name).write_text(text, encoding="utf-8")


@pytest.fixture(scope="module")
def hook(tmp_path_factory: pytest.TempPathFactory) -> Hook:
    home = tmp_path_factory.mktemp("hook")
    environment = offline(home)
    repository = copy_to(home / "rung")
    return Hook(repository.as_uri(), commit(repository, environment), environment)


@pytest.mark.parametrize(
    ("changed", "verdict"),
    [
        pytest.param({"manifests/acme.yaml": MANIFEST + "    # as measured\n"}, "Passed", id="a manifest in order"),
        pytest.param({"acme/kernels.py": KERNELS + "\n"}, "Passed", id="code in order"),
        pytest.param({"README.md": "Acme.\n"}, "Skipped", id="neither"),
    ],
)
def test_a_repository_in_order_passes(hook: Hook, tmp_path: Path, changed: dict[str, str], verdict: str) -> None:
    done = hook.run(tmp_path, changed)
    assert done.returncode == 0, done.stdout + done.stderr
    assert verdict in done.stdout


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        pytest.param(
            {"manifests/acme.yaml": MANIFEST.replace("x86_64_v3", "x86_64_v33")},
            ["manifests/acme.yaml:7:13\n", "unknown arch `x86_64_v33`", "did you mean `x86_64_v3`?"],
            id="a slip in a manifest",
        ),
        pytest.param(
            {"acme/kernels.py": KERNELS.replace("def flow_match_step", "def match_step")},
            ["manifests/acme.yaml:8:13\n", "RG502"],
            id="code that a manifest binds is gone",
        ),
    ],
)  # fmt: skip
def test_a_mistake_is_reported_and_fails(hook: Hook, tmp_path: Path, changed: dict[str, str], said: list[str]) -> None:
    done = hook.run(tmp_path, changed)
    assert done.returncode == 1, done.stdout + done.stderr
    assert "Failed" in done.stdout
    assert [text for text in said if text not in done.stdout] == []


def test_nothing_of_the_repository_is_imported(hook: Hook, tmp_path: Path) -> None:
    hook.run(tmp_path, {"acme/kernels.py": KERNELS + "\n"})
    assert not (tmp_path / "imported").exists()
