"""`Platform` and `KernelTable`: detection, binding, falls and what is said about them."""

from __future__ import annotations

import copy
import logging
import pickle
import sys
import threading
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import rung
from rung.facts import Facts
from rung.load import default_table
from rung.probes import LiveObserver

if TYPE_CHECKING:
    from conftest import Load

FACTS = Path(__file__).parent / "facts"

ACME = """\
manifest: 1
backend: acme
arrays: numpy
hint: "pip install acme"
kernels:
  flow_match_step:
    - {device: cpu, arch: numpy, impl: "acme.kernels:step", when: {module: %s}}
"""
STEP = "def step(sample, velocity, sigma, sigma_next):\n    return sample + (sigma_next - sigma) * velocity\n"


def on_cpu(table: rung.Table, **given: Any) -> rung.Platform:
    return rung.Platform.of("cpu", "generic", arrays="numpy", table=table, **given)


class TestDetect:
    def test_this_machine_has_a_cpu(self) -> None:
        platform = rung.detect(device="cpu")
        assert (platform.device, platform.arrays, platform.device_chain) == ("cpu", "numpy", ("cpu",))
        assert platform.arch_chain()[-1] == "generic"

    def test_twice_is_the_same_platform(self) -> None:
        assert rung.detect(device="cpu") is rung.detect(device="cpu")

    @pytest.mark.parametrize(
        ("file", "device", "arch"),
        [
            ("h200.yaml", "cuda", "sm_90"),
            ("mi300x.yaml", "rocm", "gfx942"),
            ("strix_halo_gfx1151.yaml", "rocm", "gfx1151"),
            ("m3_mac.yaml", "mps", "apple9"),
            ("arc_b580.yaml", "xpu", "bmg_g21"),
            ("x86_v3_cpu.yaml", "cpu", "x86_64_v3"),
        ],
    )
    def test_recorded_machines_answer(self, file: str, device: str, arch: str) -> None:
        platform = rung.detect(facts=Facts.load(FACTS / file))
        assert (platform.device, platform.arch) == (device, arch)
        assert platform.resolve("flow_match_step").cell is not None

    def test_a_recorded_gpu_with_a_cuda_build_of_torch_gets_the_gpu_cell(self) -> None:
        platform = rung.detect(facts=Facts.load(FACTS / "h100_hopper_torch_cu130.yaml"))
        outcome = platform.resolve("flow_sde_step")
        assert outcome.cell is not None
        assert outcome.cell.id == "torch/flow_sde_step@cuda.torch#default"
        assert outcome.falls == ()

    def test_a_kernel_for_the_card_is_closer_than_a_portable_one(self) -> None:
        outcome = rung.detect(facts=Facts.load(FACTS / "h100_hopper_torch_cu130.yaml")).resolve("flow_match_step")
        live = ["triton/flow_match_step@cuda.triton#default", "torch/flow_match_step@cuda.torch#default"]
        assert [rung.cell.id for rung in outcome.live] == live
        assert outcome.falls == ()

    def test_kernels_of_a_recorded_machine_do_not_run_here(self) -> None:
        platform = rung.detect(facts=Facts.load(FACTS / "h200.yaml"))
        with pytest.raises(rung.ForeignFactsError, match=r"h200\.yaml"):
            platform.kernels["flow_match_step"]

    def test_live_facts_with_overrides_run(self) -> None:
        facts = rung.detect(device="cpu").facts.override({"modules": {"torch": False}})
        kernel = rung.Platform.of("cpu", "generic", arrays="numpy", facts=facts).kernels["flow_match_step"]
        assert kernel(np.ones(2), np.ones(2), 1.0, 0.5).tolist() == [0.5, 0.5]

    def test_cards_that_differ_offer_portable_code_and_say_so(self) -> None:
        facts = Facts.load(FACTS / "mixed_cards.yaml")
        with pytest.warns(rung.FallbackWarning, match="differ in arch"):
            platform = rung.detect(facts=facts)
        assert (platform.device, platform.arch) == ("cuda", "generic")
        assert platform.arch_chain() == ("triton", "torch", "generic")

    def test_a_card_can_be_named(self) -> None:
        facts = Facts.load(FACTS / "mixed_cards.yaml")
        cards = facts.devices("cuda")
        assert isinstance(cards, tuple)
        for card in cards:
            with pytest.warns(rung.FallbackWarning, match=card.uuid):
                platform = rung.detect(facts=facts, uuid=card.uuid)
            assert platform.arch == card.arch
            assert platform.card == card

    def test_a_card_that_is_not_there(self) -> None:
        with pytest.raises(rung.DeviceNotFound, match="no card is `GPU-nope`"):
            rung.detect(facts=Facts.load(FACTS / "h200.yaml"), uuid="GPU-nope")

    def test_a_known_first_card_decides(self) -> None:
        cards = [{"arch": "sm_120", "index": 1}, {"arch": "sm_103", "index": 0}]
        facts = Facts.of({"facts": 1, "devices": {"cuda": cards}})
        assert rung.detect(facts=facts).arch == "sm_103"

    def test_the_stand_in_is_never_detected(self) -> None:
        with pytest.raises(rung.DeviceNotFound, match="never detected"):
            rung.detect(device="accel")

    def test_an_arch_nobody_can_read_is_generic_here_and_an_error_in_a_file(self) -> None:
        devices = {"cuda": [{"arch": "sm_9O", "uuid": "GPU-1"}]}
        with pytest.raises(
            rung.UnknownArch, match="these facts: unknown arch `sm_9O` of device cuda: did you mean `sm_90`"
        ):
            rung.detect(facts=Facts.of({"facts": 1, "devices": devices}))
        live = rung.detect(device="cpu").facts.override({"devices": devices})
        for uuid in (None, "GPU-1"):
            with pytest.warns(rung.FallbackWarning, match=r"unknown arch `sm_9O`.*; only portable code is offered$"):
                assert rung.detect(facts=live, uuid=uuid).arch == "generic"

    def test_a_device_that_cannot_be_told_is_passed_and_logged(self, caplog: pytest.LogCaptureFixture) -> None:
        facts = Facts.of({"facts": 1, "devices": {"cpu": [{"arch": "x86_64"}]}})
        with caplog.at_level(logging.INFO, "rung"):
            assert rung.detect(facts=facts).device == "cpu"
        assert "could not tell whether there is a cuda device" in caplog.text

    def test_under_strict_it_is_an_error(self) -> None:
        facts = Facts.of({"facts": 1, "devices": {"cpu": [{"arch": "x86_64"}]}})
        with pytest.raises(rung.FallError, match="could not tell whether there is a cuda device"):
            rung.detect(facts=facts, profile="strict")


class TestCards:
    CARDS = (
        {"arch": "sm_90", "uuid": "GPU-1", "pci": "0000:01:00.0"},
        {"arch": "sm_120", "uuid": "GPU-10", "pci": "0000:02:00.0"},
    )

    def detect(self, text: str) -> rung.Platform:
        facts = Facts.of({"facts": 1, "devices": {"cuda": list(self.CARDS)}})
        return rung.detect(device="cuda", facts=facts, uuid=text)

    @pytest.mark.parametrize(
        ("text", "arch"),
        [
            ("GPU-1", "sm_90"),
            ("GPU-10", "sm_120"),
            ("gpu-10", "sm_120"),
            ("0000:02", "sm_120"),
            ("0000:01:00.0", "sm_90"),
        ],
    )
    def test_an_exact_name_wins_else_the_only_beginning(self, text: str, arch: str) -> None:
        assert self.detect(text).arch == arch

    def test_a_named_card_that_may_not_be_the_runtimes_first_is_said_to_be_so(self) -> None:
        note = "which of these cards CUDA numbers 0 is not known"
        cards = [{**card, "note": note} for card in self.CARDS]
        facts = Facts.of({"facts": 1, "devices": {"cuda": cards}})
        with pytest.warns(rung.FallbackWarning, match=f"cuda card GPU-1: {note}"):
            assert rung.detect(device="cuda", facts=facts, uuid="GPU-1").arch == "sm_90"

    @pytest.mark.parametrize(
        ("text", "why"),
        [("GPU", "fits several cuda cards: GPU-1, GPU-10"), (" ", "names no card"), ("x", "no cuda card")],
    )
    def test_a_name_that_is_none(self, text: str, why: str) -> None:
        with pytest.raises(rung.DeviceNotFound, match=why):
            self.detect(text)


class TestNames:
    @pytest.mark.parametrize(
        ("call", "error", "hint"),
        [
            (lambda: rung.Platform.of("cudda", "sm_90"), rung.UnknownDevice, "did you mean `cuda`"),
            (lambda: rung.Platform.of("cuda", "sm_9O"), rung.UnknownArch, "did you mean `sm_90`"),
            (lambda: rung.Platform.of("cpu", "generic", profile="stict"), rung.UnknownProfile, "`strict`"),
            (lambda: rung.Platform.cpu().kernels["flow_step"], rung.UnknownOp, "did you mean `flow_sde_step`"),
            (lambda: rung.Platform.cpu().kernels["flow_mach_step"], rung.UnknownOp, "did you mean `flow_match_step`"),
            (lambda: rung.Platform.cpu().resolve("nope"), rung.UnknownOp, "unknown op `nope`"),
            (lambda: rung.Platform.cpu().resolve_component("dti"), rung.UnknownKind, "did you mean `dit`"),
        ],
        ids=["device", "arch", "profile", "op", "op-typo", "resolve", "kind"],
    )
    def test_unknown_names_are_key_errors_with_a_hint(self, call: Any, error: type[KeyError], hint: str) -> None:
        with pytest.raises(error) as caught:
            call()
        assert isinstance(caught.value, KeyError)
        assert hint in str(caught.value)

    def test_unknown_arrays(self) -> None:
        with pytest.raises(rung.UnknownArrays, match="unknown arrays `jax`"):
            rung.Platform.of("cpu", "generic", arrays="jax")

    def test_an_unknown_op_is_no_attribute(self) -> None:
        assert not hasattr(rung.Platform.cpu().kernels, "nope")

    @pytest.mark.parametrize("spelling", ["sm_90", "sm90", "SM_90", "sm-90", "sm_90a"])
    def test_spellings_of_an_arch(self, spelling: str) -> None:
        assert rung.Platform.of("cuda", spelling).arch == "sm_90"


class TestKernels:
    def test_a_bound_kernel_is_the_implementation_itself(self) -> None:
        from rung_backends.reference.solver import flow_match_step

        kernels = rung.Platform.cpu().kernels
        assert kernels["flow_match_step"] is flow_match_step
        assert kernels.flow_match_step is flow_match_step
        assert kernels.get("flow_match_step") is flow_match_step
        assert kernels.require("flow_match_step") is flow_match_step

    def test_the_table_knows_its_ops(self) -> None:
        kernels = rung.Platform.cpu().kernels
        assert list(kernels) == sorted(default_table().ops)
        assert len(kernels) == len(list(kernels))
        assert "flow_match_step" in kernels
        assert "nope" not in kernels

    def test_a_bridged_kernel_is_one_object_too(self) -> None:
        torch = pytest.importorskip("torch")
        facts = rung.detect(device="cpu").facts.override({"modules": {"torch": False}})
        platform = rung.Platform.of("cpu", "generic", arrays="torch", facts=facts)
        with pytest.warns(rung.FallbackWarning, match="the numpy reference serves"):
            step = platform.kernels["flow_match_step"]
        assert platform.kernels["flow_match_step"] is step
        with pytest.warns(rung.FallbackWarning, match="no variant `other`"):
            assert platform.kernels.get("flow_match_step", "other") is step
        sample = torch.ones(2, 3, dtype=torch.bfloat16)
        result = step(sample, sample, 1.0, 0.5)
        assert (result.dtype, result.device) == (sample.dtype, sample.device)
        assert result.tolist() == [[0.5] * 3] * 2
        assert platform.explain("flow_match_step").bridged
        assert "[bridged]" in str(platform.explain("flow_match_step"))

    def test_a_fallback_between_devices_without_a_conversion_stays_bare(self) -> None:
        from rung_backends.reference.solver import flow_match_step

        facts = rung.detect(device="cpu").facts.override({"env": {"RUNG_DISABLE": "accel/*"}})
        platform = rung.Platform.of("accel", "accel_v2", facts=facts)
        with pytest.warns(rung.FallbackWarning, match="runs on cpu, not on accel"):
            assert platform.kernels["flow_match_step"] is flow_match_step

    def test_sixteen_threads_get_one_function_and_one_warning(self, load: Load) -> None:
        table = load(ACME % "numpy", acme__kernels="raise PermissionError(13, 'no')\n")
        platform = on_cpu(table)
        start = threading.Barrier(16)
        found: list[Any] = []

        def ask() -> None:
            start.wait()
            found.append(platform.kernels["flow_match_step"])

        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            threads = [threading.Thread(target=ask) for _ in range(16)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        assert len(found) == 16
        assert len(set(map(id, found))) == 1
        assert len([w for w in caught if w.category is rung.FallbackWarning]) == 1

    def test_the_first_resolution_logs_one_line(self, load: Load, caplog: pytest.LogCaptureFixture) -> None:
        platform = on_cpu(load(ACME % "numpy", acme__kernels=STEP))
        with caplog.at_level(logging.INFO, "rung"):
            platform.kernels["flow_match_step"]
            platform.kernels["flow_match_step"]
        assert [r.message for r in caplog.records] == [
            "resolved flow_match_step on cpu.generic with numpy arrays: acme/flow_match_step@cpu.numpy#default"
        ]

    def test_resolved_source_names_the_cell(self) -> None:
        assert rung.Platform.cpu().kernels.resolved_source("flow_match_step").startswith("reference/")


class TestFalls:
    def test_a_warning_points_at_the_callers_line(self) -> None:
        platform = rung.Platform.of("cpu", "generic", arrays="numpy", facts=rung.detect().facts.override({}))
        with pytest.warns(rung.FallbackWarning, match="no variant `turbo`") as caught:
            platform.kernels.get("flow_match_step", "turbo")
        assert caught[0].filename == __file__

    def test_an_unknown_variant_is_served_by_the_default_and_said_once(self) -> None:
        platform = rung.Platform.of("cpu", "generic", arrays="numpy", facts=rung.detect().facts.override({}))
        with pytest.warns(rung.FallbackWarning, match="did you mean `fused`"):
            step = platform.kernels.get("flow_match_step", "fusde")
        assert platform.kernels.get("flow_match_step", "fusde") is step is platform.kernels["flow_match_step"]

    @pytest.mark.parametrize(
        ("body", "cause"),
        [
            ("raise PermissionError(13, 'not for you')\n", "raised PermissionError: [Errno 13] not for you"),
            ("import ctypes\nctypes.CDLL('libdoes-not-exist.so.7')\n", "libdoes-not-exist.so.7: cannot open shared"),
            ("raise SystemExit(3)\n", "raised SystemExit: 3"),
            ("", "has no `step`"),
            ("from os import system as step\n", "outside the allowed packages"),
            ("step = 3\n", "not a function"),
        ],
        ids=["permission", "library", "exit", "missing", "re-exported", "no-function"],
    )
    def test_a_broken_rung_is_said_and_the_next_serves(self, load: Load, body: str, cause: str) -> None:
        table = load(ACME % "numpy", acme__kernels=body)
        platform = on_cpu(table)
        with pytest.warns(rung.FallbackWarning) as caught:
            step = platform.kernels["flow_match_step"]
        (warning,) = caught
        message = str(warning.message)
        assert "acme/flow_match_step@cpu.numpy#default" in message
        assert cause in message
        assert "pip install acme" in message
        assert step is rung.Platform.cpu().kernels["flow_match_step"]
        rung_ = platform.explain("flow_match_step").rungs[0]
        assert rung_.verdict == "broken"
        strict = on_cpu(table, profile="strict")
        with pytest.raises(rung.FallError) as error:
            strict.kernels["flow_match_step"]
        text = str(error.value)
        assert "acme/flow_match_step@cpu.numpy#default" in text
        assert "acme.yaml:7" in text
        assert "pip install acme" in text

    def test_what_is_missing_is_named_with_the_hint(self, load: Load) -> None:
        platform = on_cpu(load(ACME % "not_there_at_all", acme__kernels=STEP))
        text = str(platform.explain("flow_match_step"))
        assert "`not_there_at_all` is not installed" in text
        assert "hint: pip install acme" in text
        assert "acme.yaml:7" in text

    def test_require_names_the_cell_the_place_and_the_hint(self, load: Load) -> None:
        platform = on_cpu(load(ACME % "not_there_at_all", acme__kernels=STEP))
        with pytest.raises(rung.FallError, match="nothing serves variant `fused`"):
            platform.kernels.require("flow_match_step", "fused")
        # Every other rung said no and the caller holds numpy arrays on a CPU: the reference is the answer, not a fall.
        assert platform.kernels.require("flow_match_step") is rung.Platform.cpu().kernels["flow_match_step"]

    def test_require_of_a_gpu_kernel_that_is_not_here(self) -> None:
        live = rung.detect(device="cpu").facts.override({"devices": {"cuda": []}, "modules": {"torch": "2.13.0+cpu"}})
        platform = rung.Platform.of("cuda", "sm_90", arrays="torch", facts=live)
        with pytest.raises(rung.FallError) as caught:
            platform.kernels.require("flow_match_step")
        text = str(caught.value)
        assert "torch/flow_match_step@cuda.torch#default" in text
        assert "manifests/backends/torch.yaml:" in text
        assert "install a build of PyTorch for CUDA" in text


class TestProbes:
    DEVICE = """\
manifest: 1
devices:
  npu:
    summary: A device whose probe misbehaves.
    detect: "acme.probe:detect"
    falls_back_to: cpu
    arrays: [numpy]
    archs: {npu1: {}}
backend: acme
arrays: numpy
hint: "fix the npu driver"
kernels:
  flow_match_step:
    - {device: npu, arch: npu1, impl: "acme.kernels:step", when: {device: npu}}
"""

    @pytest.mark.parametrize(
        ("body", "reason"),
        [
            ("def detect(host):\n    raise RuntimeError('driver wedged')\n", "RuntimeError: driver wedged"),
            (
                "import threading\ndef detect(host):\n    threading.Event().wait()\n",
                "took longer than",
            ),
            ("def detect(host):\n    raise SystemExit(1)\n", "SystemExit"),
            ("def detect(host):\n    return ['npu1']\n", "gave str, not rung.DeviceFact"),
            ("raise OSError('libnpu.so: bad ELF')\n", "libnpu.so: bad ELF"),
        ],
        ids=["raises", "hangs", "exits", "wrong-type", "broken-import"],
    )
    def test_start_up_survives_and_the_rung_reads_could_not_tell(self, load: Load, body: str, reason: str) -> None:
        table = load(self.DEVICE, acme__probe=body, acme__kernels=STEP)
        detectors = {"npu": "acme.probe:detect", "cpu": "rung.probes.cpu:detect"}
        facts = Facts(observer=LiveObserver(detectors, table.roots, limit=0.1))
        platform = rung.Platform.of("npu", "npu1", table=table, facts=facts)
        outcome = platform.explain("flow_match_step")
        assert outcome.rungs[0].verdict == "unknown"
        assert reason in outcome.rungs[0].reason
        assert "could not tell" in str(outcome)
        with pytest.warns(rung.FallbackWarning, match="runs on cpu, not on npu"):
            assert platform.kernels["flow_match_step"] is rung.Platform.cpu().kernels["flow_match_step"]
        strict = rung.Platform.of("npu", "npu1", table=table, facts=facts, profile="strict")
        with pytest.raises(rung.FallError) as caught:
            strict.kernels["flow_match_step"]
        text = str(caught.value)
        assert "acme/flow_match_step@npu.npu1#default" in text
        assert "acme.yaml:14" in text
        assert "fix the npu driver" in text


class TestWhatIsKnownOfBinding:
    """What is known to be missing is said by everybody, and only about this process."""

    def test_a_failure_on_this_machine_is_never_only_noted(self, load: Load) -> None:
        text = (
            ACME % "numpy"
            + """\
    - {device: cpu, arch: x86_64, impl: "acme.kernels:step", when: {probe: "acme.kernels:boom"}}
"""
        )
        table = load(text, acme__kernels=STEP + "def boom(facts):\n    raise OSError('driver wedged')\n")
        platform = rung.Platform.of("cpu", "x86_64", arrays="numpy", table=table)
        with pytest.warns(
            rung.FallbackWarning, match=r"x86_64#default \(.*acme.yaml:8\) could not be judged.*driver wedged"
        ):
            platform.kernels["flow_match_step"]
        recorded = rung.Platform.of("cpu", "x86_64", arrays="numpy", table=table, facts=Facts.of({"facts": 1}))
        assert {fall.level for fall in recorded.resolve("flow_match_step").falls} <= {"note", "allow", "warn"}

    def test_an_error_is_about_the_rung_that_failed_not_about_one_before_it(self, load: Load) -> None:
        text = (
            ACME % "not_there"
            + """\
    - {device: cpu, arch: generic, impl: "acme.broken:step", hint: "mend acme"}
"""
        )
        table = load(text, acme__kernels=STEP, acme__broken="raise ValueError('bad build')\n")
        with pytest.raises(rung.FallError) as caught:
            on_cpu(table, profile="strict").kernels["flow_match_step"]
        head = str(caught.value).splitlines()[0]
        assert "acme.yaml:8) could not be bound" in head
        assert "bad build" in head
        assert "mend acme" in head
        assert "not_there" not in head

    def test_require_names_where_the_variant_is_declared(self) -> None:
        with pytest.raises(
            rung.FallError, match=r"declared are accel/flow_match_step@accel.accel_v2#fused \(.*accel.yaml:"
        ):
            rung.Platform.cpu().kernels.require("flow_match_step", "fused")

    def test_a_package_that_is_not_there_is_broken_before_anybody_binds(self, load: Load) -> None:
        table = load(ACME % "numpy")
        outcome = on_cpu(table).explain("flow_match_step")
        assert (outcome.rungs[0].verdict, outcome.rungs[0].reason) == ("broken", "package `acme` is not installed")
        assert "hint: pip install acme" in str(outcome)
        (row,) = [r for r in rung.kernel_matrix(table) if r["backend"] == "acme"]
        assert (row["available"], row["reason"]) == ("no", "broken: package `acme` is not installed")
        assert "acme" not in sys.modules

    def test_a_failure_here_says_nothing_of_a_recorded_machine_or_of_another_table(self, load: Load) -> None:
        first = load(ACME % "numpy", acme__kernels="raise OSError('no libfoo.so here')\n")
        with pytest.warns(rung.FallbackWarning, match=r"no libfoo\.so here"):
            on_cpu(first).kernels["flow_match_step"]
        assert on_cpu(first).resolve("flow_match_step").rungs[0].verdict == "broken"
        facts = Facts.of({"facts": 1, "modules": {"numpy": "2.4.6"}})
        assert on_cpu(first, facts=facts).resolve("flow_match_step").rungs[0].verdict == "yes"
        assert on_cpu(load(ACME % "numpy")).resolve("flow_match_step").rungs[0].verdict == "yes"

    def test_binding_for_a_recorded_machine_is_refused(self, load: Load) -> None:
        facts = Facts.of({"facts": 1})
        with pytest.raises(rung.ForeignFactsError):
            on_cpu(load(ACME % "numpy"), facts=facts).explain("flow_match_step", bind=True)

    def test_a_warning_names_what_was_passed_over_not_what_serves(self) -> None:
        facts = rung.detect(device="cpu").facts.override({"devices": {"cuda": []}, "modules": {"torch": "2.13.0+cpu"}})
        platform = rung.Platform.of("cuda", "sm_90", arrays="torch", facts=facts)
        with pytest.warns(rung.FallbackWarning) as caught:
            platform.kernels["flow_sde_step"]
        text = str(caught[0].message)
        assert "passed over torch/flow_sde_step@cuda.torch#default" in text
        assert "install a build of PyTorch for CUDA" in text
        assert "pip install" not in text


class TestVariables:
    def test_a_variable_a_predicate_names_is_read_anew_for_a_new_platform(
        self, load: Load, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        table = load((ACME % "numpy").replace("module: numpy", "env: ACME_ON"), acme__kernels=STEP)
        monkeypatch.delenv("ACME_ON", raising=False)
        assert on_cpu(table).resolve("flow_match_step").rungs[0].verdict == "no"
        monkeypatch.setenv("ACME_ON", "1")
        assert on_cpu(table).resolve("flow_match_step").rungs[0].verdict == "yes"

    def test_policy_is_the_callers_whatever_machine_the_facts_are_of(self, monkeypatch: pytest.MonkeyPatch) -> None:
        facts = Facts.load(FACTS / "h200.yaml")
        monkeypatch.setenv("RUNG_PROFILE", "strict")
        monkeypatch.setenv("RUNG_DISABLE", "torch/*")
        platform = rung.detect(facts=facts)
        assert platform.profile == "strict"
        assert platform.resolve("flow_sde_step").rungs[0].reason == "disabled by RUNG_DISABLE=torch/*"

    def test_disable_only_narrows(self, load: Load, monkeypatch: pytest.MonkeyPatch) -> None:
        table = load(ACME % "numpy", acme__kernels=STEP)
        first = on_cpu(table).resolve("flow_match_step").cell
        assert first is not None
        assert first.backend == "acme"
        monkeypatch.setenv("RUNG_DISABLE", "acme/*")
        outcome = on_cpu(table).resolve("flow_match_step")
        assert outcome.rungs[0].reason == "disabled by RUNG_DISABLE=acme/*"
        assert outcome.cell is not None
        assert outcome.cell.backend == "reference"

    def test_the_profile_comes_from_the_environment_unless_named(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("RUNG_PROFILE", "strict")
        assert rung.Platform.of("cpu", "generic").profile == "strict"
        assert rung.Platform.of("cpu", "generic", profile="default").profile == "default"
        assert rung.detect(device="cpu").profile == "strict"

    @pytest.mark.parametrize(
        ("name", "value", "words"),
        [
            ("RUNG_CACHE", "/var/cache", "RUNG_CACHE is on or off, .*taken for on; RUNG_CACHE_DIR names the directory"),
            ("RUNG_PLUGINS", "none", "RUNG_PLUGINS is on or off, and 'none' is taken for on"),
        ],
    )
    def test_a_switch_that_is_neither_on_nor_off_is_said(
        self, name: str, value: str, words: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(sys.modules["rung.load"], "_warned", set())
        monkeypatch.setenv(name, value)
        with pytest.warns(rung.RungWarning, match=words):
            rung.Platform.of("cpu", "generic", arrays="numpy")

    def test_an_unknown_variable_warns_once_with_a_suggestion(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(sys.modules["rung.load"], "_warned", set())
        monkeypatch.setenv("RUNG_PROFIL", "strict")
        with pytest.warns(rung.RungWarning, match="RUNG_PROFIL means nothing to rung: did you mean RUNG_PROFILE"):
            rung.Platform.of("cpu", "generic")
        rung.Platform.of("cpu", "generic")

    @pytest.mark.parametrize("name", ["RUNG_DISABEL", "RUNG_DISABLE"])
    def test_who_asks_what_there_is_learns_it_too(self, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(sys.modules["rung.load"], "_warned", set())
        monkeypatch.setenv(name, "trch/*")
        with pytest.warns(rung.RungWarning, match=f"{name}.* did you mean"):
            rung.kernel_matrix()

    def test_a_glob_that_disables_nothing_warns_once(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(sys.modules["rung.load"], "_warned", set())
        monkeypatch.setenv("RUNG_DISABLE", "trch/*")
        with pytest.warns(rung.RungWarning, match=r"RUNG_DISABLE=trch/\* matches no cell; did you mean `torch/"):
            rung.Platform.of("cpu", "generic")
        rung.Platform.of("cpu", "generic")


class TestCopies:
    """Models that hold a platform are copied, and sent to other processes."""

    @pytest.mark.parametrize("of", ["platform", "kernels"])
    def test_a_copy_is_the_same(self, of: str) -> None:
        one = rung.Platform.cpu() if of == "platform" else rung.Platform.cpu().kernels
        assert copy.copy(one) is copy.deepcopy([one])[0] is one

    @pytest.mark.parametrize("of", ["platform", "kernels"])
    def test_it_stays_in_its_process(self, of: str) -> None:
        one = rung.Platform.cpu() if of == "platform" else rung.Platform.cpu().kernels
        with pytest.raises(TypeError, match=r"belongs to its process: send the names .* rung\.Platform\.of"):
            pickle.dumps(one)
