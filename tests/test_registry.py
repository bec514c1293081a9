"""The older names, and registration from Python."""

from __future__ import annotations

import sys
import threading
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import rung
from rung import registry

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(autouse=True)
def _own_registry(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(registry, "_rows", [])
    table = rung.Platform.cpu().table
    yield
    sys.modules["rung.load"]._default = table  # type: ignore[attr-defined]


def stand_in(sample: Any, velocity: Any, sigma: float, sigma_next: float) -> Any:
    return sample


class TestOlderNames:
    def test_they_are_all_there(self) -> None:
        assert rung.FLOW_MATCH_STEP in rung.Platform.cpu().kernels
        assert rung.FLOW_SDE_STEP in rung.Platform.cpu().kernels
        rung.ensure_backends_loaded()
        step = rung.resolve_kernel(rung.FLOW_MATCH_STEP, rung.Platform.cpu())
        assert step is rung.Platform.cpu().kernels.get(rung.FLOW_MATCH_STEP)
        assert step is rung.Platform.cpu().resolve_kernel(rung.FLOW_MATCH_STEP)
        assert rung.resolved_source(rung.FLOW_MATCH_STEP, rung.Platform.cpu()).startswith("reference/")
        assert isinstance(rung.Platform.cpu().kernels, rung.KernelTable)

    def test_naming_platforms_looks_at_nothing(self) -> None:
        assert (rung.Platform.cpu().device, rung.Platform.cpu().arch) == ("cpu", "generic")
        assert rung.Platform.cpu().arrays == "numpy"
        assert rung.Platform.accel("accel_v1").arch == "accel_v1"
        assert rung.Platform.cuda("sm_100").arch == "sm_100"
        assert rung.Platform.detect(device="cpu").device == "cpu"

    def test_lookup_finds_declared_cells_usable_or_not(self) -> None:
        cell = rung.KERNELS.lookup("flow_match_step", "cuda", "torch")
        assert cell is not None
        assert cell.id == "torch/flow_match_step@cuda.torch#default"
        assert rung.KERNELS.lookup("flow_match_step", "cuda", "sm_90") is None
        assert rung.COMPONENTS.lookup("dit", "cpu") is None
        for arch in ("numpy", "generic"):
            reference = rung.KERNELS.lookup("flow_match_step", "cpu", arch)
            assert reference is not None
            assert reference.id == "reference/flow_match_step@cpu.numpy#default"
        with pytest.raises(rung.UnknownOp):
            rung.KERNELS.lookup("nope", "cpu")

    def test_resolve_first_keeps_the_callers_order(self) -> None:
        candidates = [("cuda", "sm_90"), ("cuda", "torch"), ("cpu", "torch")]
        cell = rung.KERNELS.resolve_first("flow_match_step", candidates)
        assert cell is not None
        assert cell.device == "cuda"
        assert rung.KERNELS.resolve_first("flow_match_step", []) is None
        assert rung.COMPONENTS.resolve_first("dit", ["accel", "cpu"]) is None

    def test_the_registries_list_what_the_matrices_list(self) -> None:
        assert rung.KERNELS.manifest() == rung.kernel_matrix()
        assert rung.COMPONENTS.manifest() == rung.component_matrix()


class TestRegisterKernel:
    def test_a_registered_function_is_a_cell_like_any_other(self) -> None:
        before = rung.Platform.cpu()
        assert rung.register_kernel("flow_match_step", "cpu", "numpy")(stand_in) is stand_in
        after = rung.Platform.cpu()
        assert after.kernels["flow_match_step"] is stand_in
        assert before.kernels["flow_match_step"] is not stand_in
        chosen = after.resolve("flow_match_step").chosen
        assert chosen is not None
        assert chosen.cell.id == "local/flow_match_step@cpu.numpy#default"
        assert chosen.where.startswith(__file__)

    def test_a_registered_function_takes_the_calls_it_accepts(self) -> None:
        only_half = {"sample.dtype": "float16", "sample.rank": {"min": 1}}
        rung.register_kernel("flow_match_step", "cpu", "numpy", accepts=only_half)(stand_in)
        step = rung.Platform.cpu().kernels["flow_match_step"]
        half, double = np.ones(2, "f2"), np.ones(2)
        assert step(half, half, 0.5, 0.25) is half
        with pytest.warns(rung.FallbackWarning, match=r"`sample\.dtype` is float64, not float16"):
            assert step(double, double, 0.5, 0.25).tolist() == [0.75, 0.75]
        with pytest.raises(rung.ManifestError, match="RG312 `flow_match_step` has no argument `x`"):
            rung.register_kernel("flow_match_step", "cpu", "numpy", "half", accepts={"x.dtype": "float16"})(stand_in)

    def test_a_duplicate_is_an_error_unless_it_replaces(self) -> None:
        rung.register_kernel("flow_match_step", "cpu", "numpy")(stand_in)
        with pytest.raises(rung.ManifestError, match="RG401 duplicate cell"):
            rung.register_kernel("flow_match_step", "cpu", "numpy")(np.add)
        assert rung.Platform.cpu().kernels["flow_match_step"] is stand_in

        def other(sample: Any, velocity: Any, sigma: float, sigma_next: float) -> Any:
            return velocity

        rung.register_kernel("flow_match_step", "cpu", "numpy", replace=True)(other)
        assert rung.Platform.cpu().kernels["flow_match_step"] is other

    def test_a_name_and_its_alias_are_one_key(self) -> None:
        rung.register_kernel("flow_match_step", "cpu", "x86_64")(stand_in)
        with pytest.raises(rung.ManifestError, match="RG401"):
            rung.register_kernel("flow_match_step", "cpu", "amd64")(max)
        rung.register_kernel("flow_match_step", "cpu", "amd64", replace=True)(max)
        cell = rung.KERNELS.lookup("flow_match_step", "cpu", "x86_64")
        assert cell is not None
        assert rung.Platform.of("cpu", "x86_64", arrays="numpy").kernels["flow_match_step"] is max

    def test_threads_that_register_at_once_lose_nothing(self) -> None:
        start = threading.Barrier(8)

        def register(number: int) -> None:
            start.wait()
            rung.register_kernel("flow_match_step", "cpu", "numpy", f"v{number}")(stand_in)

        threads = [threading.Thread(target=register, args=(number,)) for number in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        cells = rung.Platform.cpu().table.kernels["flow_match_step"]
        assert {c.variant for c in cells if c.backend == "local"} == {f"v{number}" for number in range(8)}

    def test_only_what_can_be_called_is_registered(self) -> None:
        with pytest.raises(rung.BindError, match="not a function"):
            rung.register_kernel("flow_match_step", "cpu", "numpy")(42)  # type: ignore[type-var]

    def test_replacing_a_manifests_cell(self) -> None:
        with pytest.raises(rung.ManifestError, match="RG401 duplicate cell"):
            rung.register_kernel("flow_match_step", "cpu", "torch", arrays="torch")(stand_in)
        rung.register_kernel("flow_match_step", "cpu", "torch", arrays="torch", replace=True)(stand_in)
        platform = rung.Platform.of("cpu", "generic", arrays="torch")
        assert platform.kernels["flow_match_step"] is stand_in

    @pytest.mark.parametrize(("answer", "served"), [(True, True), (False, False)])
    def test_available_becomes_a_predicate(self, answer: bool, served: bool) -> None:
        rung.register_kernel("flow_match_step", "cpu", "numpy", available=lambda: answer)(stand_in)
        assert (rung.Platform.cpu().kernels["flow_match_step"] is stand_in) is served

    @pytest.mark.parametrize(
        ("given", "code"),
        [
            (("flow_mach_step", "cpu", "numpy"), "RG302 unknown op `flow_mach_step`"),
            (("flow_match_step", "cpuu", "numpy"), "RG305 unknown device `cpuu`"),
            (("flow_match_step", "cuda", "sm_9O"), "RG301 unknown arch `sm_9O`"),
            (("flow_match_step", "cpu", "numpy", "Bad Name"), "RG205 `Bad Name` is no legal name"),
        ],
    )
    def test_the_checks_of_manifests_hold(self, given: tuple[str, ...], code: str) -> None:
        before = rung.Platform.cpu().table
        with pytest.raises(rung.ManifestError, match=code):
            rung.register_kernel(*given)(stand_in)
        assert rung.Platform.cpu().table is before


class TestRegisterComponent:
    def test_a_registered_builder_serves_its_kind(self) -> None:
        @rung.register_component("dit", "cpu")
        def build(spec: rung.ComponentSpec, instance: rung.ModelInstance, platform: rung.Platform) -> str:
            return f"{spec.id} on {platform.device}"

        spec = rung.ComponentSpec("transformer", "dit", factory=lambda instance: "from the factory")
        instance = rung.ModelInstance(rung.Platform.cpu(), [spec])
        assert instance.component("transformer") == "transformer on cpu"
        assert rung.build_component(spec, instance) == "transformer on cpu"
