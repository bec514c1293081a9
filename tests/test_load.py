"""`rung.load`, the default table, plugins, and what an installation holds."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import warnings
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import rung
from rung import resources

if TYPE_CHECKING:
    from conftest import Write

ROOT = Path(__file__).parents[1]

BACKEND = """\
manifest: 1
backend: {name}
arrays: numpy
hint: "pip install {name}"
kernels:
  flow_match_step:
    - {{device: cpu, arch: numpy, impl: "{name}.kernels:step"}}
"""
KERNELS = "def step(sample, velocity, sigma, sigma_next):\n    return sample\n"


def run(*command: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *command], capture_output=True, text=True, check=False, env={**os.environ, **environment}
    )


class TestDirectories:
    def test_a_directory_and_a_module_are_a_backend(self, write: Write) -> None:
        root = write({"m/acme.yaml": BACKEND.format(name="acme"), "acme/kernels.py": KERNELS, "acme/__init__.py": ""})
        table = rung.load([root / "m"], allow=["acme"])
        platform = rung.Platform.of("cpu", "generic", arrays="numpy", table=table)
        assert platform.kernels["flow_match_step"].__module__ == "acme.kernels"

    def test_one_path_may_be_given_alone_or_as_text(self, write: Write) -> None:
        root = write({"m/acme.yaml": BACKEND.format(name="acme")})
        for given in (root / "m", str(root / "m"), root / "m" / "acme.yaml", [root / "m", root / "m"]):
            assert "acme" in rung.load(given, allow=["acme"]).backends

    def test_without_the_module_the_resolution_says_what_is_missing(self, write: Write) -> None:
        root = write({"m/acme.yaml": BACKEND.format(name="acme")})
        platform = rung.Platform.of("cpu", "generic", arrays="numpy", table=rung.load([root / "m"], allow=["acme"]))
        with pytest.warns(rung.FallbackWarning, match=r"package `acme` is not installed.*hint: pip install acme"):
            platform.kernels["flow_match_step"]

    def test_a_package_that_is_not_allowed(self, write: Write) -> None:
        root = write({"m/acme.yaml": BACKEND.format(name="acme")})
        with pytest.raises(rung.ManifestError, match="RG801 package `acme` may not be bound"):
            rung.load([root / "m"])

    def test_one_package_may_be_allowed_as_text(self, write: Write) -> None:
        root = write({"m/acme.yaml": BACKEND.format(name="acme")})
        assert "acme" in rung.load([root / "m"], allow="acme").backends

    def test_loading_changes_no_global_state(self, write: Write) -> None:
        root = write({"m/acme.yaml": BACKEND.format(name="acme")})
        rung.load([root / "m"], allow=["acme"])
        assert "acme" not in rung.detect(device="cpu").table.backends

    def test_alone_without_the_built_in_manifests(self, write: Write) -> None:
        text = """\
manifest: 1
devices:
  cpu: {summary: here, arrays: [numpy]}
ops:
  double: {summary: twice, signature: "(x: array) -> array", reference: "acme.kernels:double"}
"""
        root = write(
            {
                "m/all.yaml": text,
                "acme/kernels.py": "def double(x):\n    return 2 * x\n",
                "acme/__init__.py": "",
            }
        )
        table = rung.load([root / "m"], allow=["acme"], builtin=False)
        assert list(table.ops) == ["double"]
        assert rung.Platform.of("cpu", "generic", table=table).kernels.double(4) == 8
        assert rung.Platform.of("cpu", "generic", table=table).kernels.require("double")(4) == 8

    @pytest.mark.parametrize(
        ("name", "message"), [("nowhere", "no such file or directory"), ("empty", "no manifest in")]
    )
    def test_a_path_without_manifests(self, write: Write, name: str, message: str) -> None:
        root = write({"empty/readme.txt": "nothing here"})
        with pytest.raises(rung.ManifestError, match=message):
            rung.load([root / name])

    def test_the_built_in_directory_is_not_loaded_twice(self) -> None:
        assert rung.load([resources.data_dir("manifests")]).ops.keys() == rung.load().ops.keys()


def installed(root: Path, name: str, manifest: str, entry: str = "{name}:manifests") -> None:
    """Write what an installer leaves behind for a plugin: its package and its metadata."""
    package = root / name
    (package / "manifests").mkdir(parents=True)
    (package / "__init__.py").write_text("raise RuntimeError('imported to find manifests')\n", encoding="utf-8")
    (package / "kernels.py").write_text(KERNELS, encoding="utf-8")
    (package / "manifests" / "backend.yaml").write_text(manifest, encoding="utf-8")
    info = root / f"{name}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n", encoding="utf-8")
    points = f"[rung.manifests]\n{name} = {entry.format(name=name)}\n"
    (info / "entry_points.txt").write_text(points, encoding="utf-8")
    record = f"{name}/__init__.py,,\n{name}/kernels.py,,\n{name}/manifests/backend.yaml,,\n"
    (info / "RECORD").write_text(record, encoding="utf-8")


class TestPlugins:
    @pytest.fixture(autouse=True)
    def _fresh_default(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        module = sys.modules["rung.load"]
        monkeypatch.setattr(module, "_default", None)
        monkeypatch.setattr(module, "_units", [])
        monkeypatch.delenv("RUNG_PLUGINS")
        monkeypatch.syspath_prepend(str(tmp_path))

    def default(self) -> rung.Table:
        return rung.Platform.of("cpu", "generic", arrays="numpy").table

    def test_an_entry_point_is_found_without_importing_the_package(self, tmp_path: Path) -> None:
        installed(tmp_path, "acme_plugin", BACKEND.format(name="acme_plugin"))
        assert "acme_plugin" in self.default().backends
        assert "acme_plugin" not in sys.modules

    def test_plugins_can_be_switched_off(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        installed(tmp_path, "acme_plugin", BACKEND.format(name="acme_plugin"))
        monkeypatch.setenv("RUNG_PLUGINS", "off")
        assert "acme_plugin" not in self.default().backends

    def test_a_plugin_binds_its_own_distribution_only(self, tmp_path: Path) -> None:
        manifest = BACKEND.format(name="acme_plugin").replace("acme_plugin.kernels", "subprocess")
        installed(tmp_path, "acme_plugin", manifest)
        with pytest.warns(rung.RungWarning, match="(?s)`acme_plugin` are left out.*RG801 package `subprocess`"):
            assert "acme_plugin" not in self.default().backends

    def test_of_two_that_conflict_the_later_is_left_out_as_a_whole(self, tmp_path: Path) -> None:
        for name in ("acme_a", "acme_b"):
            installed(tmp_path, name, BACKEND.format(name=name))
        with pytest.warns(rung.RungWarning, match="(?s)manifests of `acme_b` are left out.*RG401 duplicate cell"):
            table = self.default()
        assert "acme_a" in table.backends
        assert "acme_b" not in table.backends

    def test_a_broken_plugin_takes_nobody_with_it(self, tmp_path: Path) -> None:
        op = 'ops:\n  zop: {summary: s, signature: "(x: array) -> array", reference: "acme_z.kernels:step"}\n'
        installed(tmp_path, "acme_a", BACKEND.format(name="acme_a").replace("flow_match_step", "zop"))
        installed(tmp_path, "acme_m", BACKEND.format(name="acme_m").replace("numpy", "nunpy", 1))
        installed(tmp_path, "acme_z", BACKEND.format(name="acme_z") + op)
        with pytest.warns(rung.RungWarning) as caught:
            backends = self.default().backends
        assert [str(w.message).splitlines()[0] for w in caught] == [
            "the manifests of `acme_m` are left out: 1 problem in the manifests:"
        ]
        assert {"acme_a", "acme_z"} <= backends.keys()

    def test_what_is_first_on_the_path_is_not_taken_for_the_distribution(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        installed(tmp_path, "acme_plugin", BACKEND.format(name="acme_plugin"))
        other = tmp_path / "elsewhere" / "acme_plugin" / "manifests"
        other.mkdir(parents=True)
        (other / "backend.yaml").write_text(BACKEND.format(name="impostor"), encoding="utf-8")
        (other.parent / "__init__.py").write_text("", encoding="utf-8")
        monkeypatch.syspath_prepend(str(tmp_path / "elsewhere"))
        assert "acme_plugin" in self.default().backends
        assert "impostor" not in self.default().backends

    def test_a_missing_directory_is_said(self, tmp_path: Path) -> None:
        installed(tmp_path, "acme_plugin", BACKEND.format(name="acme_plugin"), entry="{name}:elsewhere")
        with pytest.warns(rung.RungWarning, match="package `acme_plugin` has no directory `elsewhere`"):
            assert "acme_plugin" not in self.default().backends

    def test_a_directory_outside_the_package_is_refused(self, tmp_path: Path) -> None:
        installed(tmp_path, "acme_plugin", BACKEND.format(name="acme_plugin"), entry="{name}:../other")
        (tmp_path / "other").mkdir()
        with pytest.warns(rung.RungWarning, match="has no directory"):
            self.default()

    def test_a_really_installed_package(self, tmp_path: Path) -> None:
        source = tmp_path / "source"
        package = source / "acme_real"
        (package / "manifests").mkdir(parents=True)
        (package / "__init__.py").write_text("", encoding="utf-8")
        (package / "kernels.py").write_text(KERNELS, encoding="utf-8")
        (package / "manifests" / "acme.yaml").write_text(BACKEND.format(name="acme_real"), encoding="utf-8")
        (source / "pyproject.toml").write_text(
            '[build-system]\nrequires = ["hatchling"]\nbuild-backend = "hatchling.build"\n'
            '[project]\nname = "acme-real"\nversion = "1"\n'
            '[project.entry-points."rung.manifests"]\nacme = "acme_real:manifests"\n'
            '[tool.hatch.build.targets.wheel]\npackages = ["acme_real"]\n',
            encoding="utf-8",
        )
        site = tmp_path / "site"
        flags = ["--no-index", "--no-deps", "--no-build-isolation", "--disable-pip-version-check", "-q"]
        done = run("-m", "pip", "install", *flags, "--target", str(site), str(source))
        assert done.returncode == 0, done.stderr
        code = (
            "import rung; p = rung.Platform.of('cpu', 'generic', arrays='numpy');"
            "print(p.kernels['flow_match_step'].__module__)"
        )
        assert run("-c", code, PYTHONPATH=str(site)).stdout.strip() == "acme_real.kernels"


class TestImports:
    """Discovery is data: nothing heavy is imported until a cell is bound."""

    def test_detecting_listing_and_explaining_import_no_backend_and_no_array_library(self) -> None:
        code = """
import json, sys
import rung
rung.ensure_backends_loaded()
platform = rung.detect()
rung.kernel_matrix(), rung.component_matrix(), rung.KERNELS.manifest(), rung.COMPONENTS.manifest()
for op in platform.table.ops:
    str(platform.explain(op)), platform.resolve(op, "fused")
str(rung.Platform.of("cuda", "sm_90").explain("flow_match_step"))
platform.resolve_component("dit")
watched = ("torch", "numpy", "rung_backends", "triton")
print(json.dumps([m for m in sys.modules if m.partition(".")[0] in watched]))
"""
        done = run("-c", code)
        assert done.returncode == 0, done.stderr
        assert json.loads(done.stdout) == []

    def test_importing_rung_imports_no_reader_and_no_models(self) -> None:
        code = "import json, sys, rung; print(json.dumps(sorted(sys.modules)))"
        loaded = set(json.loads(run("-c", code).stdout))
        assert not loaded & {"yaml", "pydantic", "jsonschema", "numpy", "torch", "rung.source", "rung.manifest"}


class TestInstallation:
    def test_the_wheel_holds_packages_manifests_and_schemas(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        from hatchling.build import build_wheel

        monkeypatch.chdir(ROOT)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            wheel = tmp_path / build_wheel(str(tmp_path))
        site = tmp_path / "site"
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(site)
        assert (site / "rung/manifests/devices/cuda.yaml").is_file()
        assert (site / "rung/schemas/facts.schema.json").is_file()
        assert (site / "rung/py.typed").is_file()
        assert (site / "rung_backends/py.typed").is_file()
        names = {path.name for path in site.iterdir()}
        assert names == {"rung", "rung_backends", "rung-0.1.0.dist-info"}
        code = "import rung; print(rung.__file__, len(rung.kernel_matrix()))"
        done = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=False, cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": str(site)},
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        file, count = done.stdout.split()
        assert Path(file).is_relative_to(site)
        assert int(count) == len(rung.kernel_matrix())

    def test_missing_data_is_said(self, monkeypatch: pytest.MonkeyPatch) -> None:
        with pytest.raises(FileNotFoundError, match="reinstall rung"):
            resources.data_dir("nothing")
