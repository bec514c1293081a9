"""The lattice: spellings, who runs whose code, and the order of targets."""

from __future__ import annotations

import warnings
from typing import Any

import pytest

import rung
from rung import lattice
from rung.diagnostics import Where
from rung.entries import Arch, Device, Jit, Pattern, Target

DEVICES = rung.load().devices
CUDA = DEVICES["cuda"]


def order(device: str, arch: str, artifact: str | None = None) -> list[str]:
    return [step.target for step in lattice.ladder(DEVICES[device], arch, artifact)]


class TestFit:
    @pytest.mark.parametrize(
        ("device", "target", "arch", "runs"),
        [
            # Recorded cases.
            ("cuda", "sm_80", "sm_86", True),
            ("cuda", "sm_86", "sm_80", False),
            ("cuda", "sm_80", "sm_90", False),
            ("cuda", "compute_80", "sm_120", True),
            ("cuda", "sm_90", "sm_120", False),
            ("cuda", "sm_90a", "sm_90", True),
            ("cuda", "sm_90a", "sm_100", False),
            ("cuda", "compute_90a", "sm_120", False),
            ("cuda", "sm_100a", "sm_103", False),
            ("cuda", "sm_100f", "sm_103", True),
            ("cuda", "sm_100", "sm_101", False),
            ("cuda", "sm_100f", "sm_120", False),
            ("cuda", "sm_120", "sm_121", True),
            ("rocm", "gfx1100", "gfx1103", False),
            ("rocm", "gfx11-generic", "gfx1151", True),
            ("rocm", "gfx9-4-generic", "gfx950", True),
            ("rocm", "gfx11-generic", "gfx1201", False),
            ("cpu", "x86_64_v4", "x86_64_v3", False),
            ("cpu", "x86_64_v3", "x86_64_v4", True),
            ("mps", "apple9", "apple7", False),
            # Binaries: number order promises nothing.
            ("cuda", "sm_90", "sm_90", True),
            ("cuda", "sm_80", "sm_87", False),
            ("cuda", "sm_86", "sm_87", False),
            ("cuda", "sm_87", "sm_89", False),
            ("cuda", "sm_86", "sm_88", False),
            ("cuda", "sm_70", "sm_75", True),
            ("cuda", "sm_80", "sm_89", True),
            ("cuda", "sm_101", "sm_110", True),
            ("cuda", "sm_100", "sm_110", False),
            ("cuda", "sm_103", "sm_107", True),
            ("cuda", "sm_107", "sm_103", False),
            ("cuda", "sm_121", "sm_120", False),
            ("cuda", "sm_100", "sm_120", False),
            # Architecture-specific: that chip alone.
            ("cuda", "sm_120a", "sm_121", False),
            ("cuda", "sm_101a", "sm_110", False),
            ("cuda", "sm_110a", "sm_110", True),
            # Families: their members, downwards too.
            ("cuda", "sm_100f", "sm_107", True),
            ("cuda", "sm_100f", "sm_101", False),
            ("cuda", "sm_100f", "sm_110", False),
            ("cuda", "sm_103f", "sm_100", False),
            ("cuda", "sm_120f", "sm_121", True),
            ("cuda", "sm_121f", "sm_120", False),
            # Intermediate code: by capability, across majors; with a suffix as strict as the binary.
            ("cuda", "compute_90", "sm_90", True),
            ("cuda", "compute_90", "sm_89", False),
            ("cuda", "compute_87", "sm_89", True),
            ("cuda", "compute_103", "sm_110", True),
            ("cuda", "compute_121", "sm_120", False),
            ("cuda", "compute_90a", "sm_90", True),
            ("cuda", "compute_90a", "sm_100", False),
            ("cuda", "compute_100f", "sm_103", True),
            ("cuda", "compute_100f", "sm_110", False),
            # A chip nobody declared.
            ("cuda", "sm_121", "sm_130", False),
            ("cuda", "sm_130", "sm_130", True),
            ("cuda", "compute_121", "sm_130", True),
            ("cuda", "compute_120f", "sm_130", False),
            ("cuda", "triton", "sm_130", True),
            ("cuda", "generic", "sm_130", True),
            # A chip of which nothing is known.
            ("cuda", "sm_50", "generic", False),
            ("cuda", "compute_50", "generic", False),
            ("cuda", "torch", "generic", True),
            ("xpu", "spir64", "generic", True),
            # AMD: exact, or a generic target that lists the chip.
            ("rocm", "gfx942", "gfx942", True),
            ("rocm", "gfx942", "gfx950", False),
            ("rocm", "gfx900", "gfx906", False),
            ("rocm", "gfx9-generic", "gfx90c", True),
            ("rocm", "gfx9-generic", "gfx908", False),
            ("rocm", "gfx9-4-generic", "gfx90a", False),
            ("rocm", "gfx11-generic", "gfx1153", False),
            # Apple, Intel, CPUs, the stand-in.
            ("mps", "apple7", "apple9", True),
            ("mps", "metal3", "apple10", True),
            ("mps", "metal3", "mac2", False),
            ("xpu", "dg2", "bmg_g21", False),
            ("xpu", "spir64", "bmg_g21", True),
            ("cpu", "aarch64", "armv9.0a", True),
            ("cpu", "aarch64", "x86_64", False),
            ("cpu", "rva23u64", "rva22u64", False),
            ("accel", "accel_v1", "accel_v3", True),
            ("accel", "accel_v2x", "accel_v3", False),
            ("accel", "accel_v2f", "accel_v3", True),
            ("accel", "accel_v2f", "accel_v1", False),
        ],
    )
    def test_default_artifact(self, device: str, target: str, arch: str, runs: bool) -> None:
        record = DEVICES[device]
        answer = lattice.fit(record, target, lattice.default_artifact(record, target), arch)
        assert answer.runs is runs
        assert answer.why
        assert bool(answer.closeness) is runs

    @pytest.mark.parametrize(
        ("device", "target", "artifact", "arch", "runs"),
        [
            ("cuda", "sm_80", "source", "sm_120", True),
            ("cuda", "sm_120", "source", "sm_80", False),
            ("cuda", "sm_80", "source", "sm_130", True),
            ("cuda", "sm_90a", "source", "sm_90", True),
            ("cuda", "sm_90a", "source", "sm_100", False),
            ("cuda", "sm_100f", "source", "sm_107", True),
            ("cuda", "sm_100f", "source", "sm_110", False),
            ("cuda", "sm_80", "source", "generic", False),
            ("cuda", "sm_80", "ptx", "sm_90", True),
            ("cuda", "compute_80", "source", "sm_90", True),
            ("cuda", "sm_80", "python", "sm_86", True),
            ("cuda", "sm_80", "python", "sm_90", False),
            ("xpu", "pvc", "source", "dg2", True),
            ("xpu", "pvc", "native", "dg2", False),
            ("xpu", "pvc", "python", "dg2", False),
            # Without a jit rule, source is as strict as a binary.
            ("rocm", "gfx942", "source", "gfx950", False),
            ("rocm", "gfx9-4-generic", "source", "gfx950", True),
            ("cpu", "x86_64_v2", "source", "x86_64_v4", True),
            ("cpu", "x86_64_v4", "source", "x86_64_v2", False),
            ("cpu", "x86_64", "ptx", "x86_64", False),
            ("accel", "accel_v1", "python", "accel_v2", True),
        ],
    )
    def test_other_artifacts(self, device: str, target: str, artifact: str, arch: str, runs: bool) -> None:
        assert lattice.fit(DEVICES[device], target, artifact, arch).runs is runs

    @pytest.mark.parametrize(
        ("device", "target", "artifact", "arch", "why"),
        [
            ("cuda", "sm_90a", "native", "sm_90", "sm_90a code is specific to sm_90"),
            ("cuda", "sm_90a", "native", "sm_100", "sm_90a code runs on sm_90 only, never on sm_100"),
            ("cuda", "sm_100f", "native", "sm_103", "sm_103 is in the family of sm_100f"),
            (
                "cuda",
                "sm_120f",
                "native",
                "sm_90",
                "sm_120f code runs on its family sm_120, sm_121 only, not on sm_90",
            ),
            ("cuda", "sm_90", "native", "sm_90", "built for sm_90 itself"),
            ("cuda", "sm_80", "native", "sm_86", "sm_86 runs code built for sm_80"),
            ("cuda", "sm_100", "native", "sm_90", "sm_100 is newer than sm_90"),
            (
                "cuda",
                "sm_80",
                "native",
                "sm_90",
                "sm_90 does not run code built for sm_80: of older targets",
            ),
            ("cuda", "sm_80", "native", "sm_130", "code built for sm_80 is not offered where no manifest declares"),
            ("cuda", "sm_80", "native", "generic", "code built for sm_80 is not offered where the arch is not known"),
            ("cuda", "sm_90a", "native", "generic", "sm_90a code runs on sm_90 only, never on an unknown arch"),
            ("cuda", "compute_80", "ptx", "sm_90", "intermediate code for compute_80 can be compiled for sm_90"),
            ("cuda", "compute_90", "ptx", "sm_80", "needs a capability of at least sm_90, and sm_80 is less"),
            ("cuda", "compute_90", "ptx", "generic", "and that of an unknown arch is not known"),
            ("cuda", "compute_90a", "ptx", "sm_100", "compiles for sm_90 only, never for sm_100"),
            ("cuda", "compute_100f", "ptx", "sm_110", "compiles for its family sm_100, sm_103, sm_107 only"),
            ("cuda", "torch", "python", "sm_90", "`torch` is portable across cuda"),
            ("cuda", "generic", "python", "sm_90", "generic code runs on every arch"),
            ("xpu", "spir64", "ptx", "dg2", "spir64 is compiled for any xpu device"),
            ("xpu", "pvc", "source", "dg2", "source is compiled for any xpu device"),
            (
                "rocm",
                "gfx1100",
                "native",
                "gfx1103",
                "gfx1103 does not run code built for gfx1100: of older",
            ),
            ("cpu", "x86_64", "ptx", "x86_64", "cpu has no intermediate code"),
        ],
    )
    def test_why(self, device: str, target: str, artifact: str, arch: str, why: str) -> None:
        assert why in lattice.fit(DEVICES[device], target, artifact, arch).why

    def test_every_pair_of_pytorchs_table(self) -> None:
        """On each pair of chips that torch.cuda judges, the lattice says the same. There is no exception."""
        from torch import cuda

        table: dict[int, Any] = cuda.DEVICE_REQUIREMENT
        wrong = []
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # its way of saying that it does not know a chip
            for code in table:
                for chip in table:
                    arch = lattice.read_arch(CUDA, f"sm_{chip}")
                    ours = lattice.fit(CUDA, f"sm_{code}", "native", arch).runs
                    theirs = cuda._code_compatible_with_device(chip, code)
                    if ours != theirs:
                        wrong.append(f"code {code} on chip {chip}: torch says {theirs}, the lattice {ours}")
        assert len(table) > 15
        assert not wrong

    @pytest.mark.parametrize("target", ["sm_120f", "sm_120", "compute_120", "triton", "generic"])
    def test_exclude_wins_over_everything(self, target: str) -> None:
        artifact = lattice.default_artifact(CUDA, target)
        answer = lattice.fit(CUDA, target, artifact, "sm_121", ("sm_121",))
        assert (answer.runs, answer.why) == (False, "excluded on sm_121 by its manifest")
        assert lattice.fit(CUDA, target, artifact, "sm_120", ("sm_121",)).runs


class TestCloseness:
    def test_every_group_in_order(self) -> None:
        assert order("cuda", "sm_103")[:8] == [
            "sm_103a",  # specific
            "sm_103f",  # the narrower family
            "sm_100f",
            "sm_103",  # its own
            "sm_100",  # older
            "compute_103a",  # by the jit rule, nearest first
            "compute_103f",
            "compute_103",
        ]
        assert order("cuda", "sm_103")[-3:] == ["triton", "torch", "generic"]

    @pytest.mark.parametrize(
        ("device", "arch", "first"),
        [
            ("cuda", "sm_89", ["sm_89", "sm_86", "sm_80", "compute_89", "compute_88", "compute_87"]),
            ("cuda", "sm_107", ["sm_107a", "sm_107f", "sm_103f", "sm_100f", "sm_107", "sm_103", "sm_100"]),
            ("cuda", "sm_121", ["sm_121a", "sm_121f", "sm_120f", "sm_121", "sm_120", "compute_121a"]),
            ("cuda", "sm_110", ["sm_110a", "sm_110f", "sm_110", "sm_101", "compute_110a"]),
            ("cuda", "sm_90", ["sm_90a", "sm_90", "compute_90a", "compute_90", "compute_89"]),
            ("cuda", "sm_130", ["compute_121", "compute_120", "compute_110"]),
        ],
    )
    def test_the_closest(self, device: str, arch: str, first: list[str]) -> None:
        assert order(device, arch)[: len(first)] == first

    @pytest.mark.parametrize(
        ("device", "arch", "whole"),
        [
            ("cuda", "generic", ["triton", "torch", "generic"]),
            ("rocm", "gfx942", ["gfx9-4-generic", "gfx942", "triton", "torch", "generic"]),
            ("rocm", "gfx90a", ["gfx90a", "triton", "torch", "generic"]),
            ("rocm", "gfx1153", ["triton", "torch", "generic"]),
            ("mps", "apple9", ["metal3", "apple9", "apple8", "apple7", "mps", "torch", "generic"]),
            ("xpu", "dg2", ["dg2", "spir64", "triton", "torch", "generic"]),
            ("cpu", "x86_64_v3", ["x86_64_v3", "x86_64_v2", "x86_64", "torch", "numpy", "generic"]),
            ("cpu", "generic", ["torch", "numpy", "generic"]),
            ("accel", "accel_v3", ["accel_v2f", "accel_v3", "accel_v2", "accel_v1", "numpy", "generic"]),
            ("accel", "accel_v2", ["accel_v2x", "accel_v2f", "accel_v2", "accel_v1", "numpy", "generic"]),
        ],
    )
    def test_the_whole_ladder(self, device: str, arch: str, whole: list[str]) -> None:
        assert order(device, arch) == whole

    @pytest.mark.parametrize(
        ("arch", "pairs"),
        [
            # On one target: native, then source, then python.
            ("sm_90", [("sm_90", "native"), ("sm_90", "source"), ("sm_90", "python")]),
            # A kernel compiled for exactly this chip beats an older binary.
            ("sm_89", [("sm_89", "source"), ("sm_86", "native"), ("sm_80", "native")]),
            ("sm_90", [("sm_90a", "native"), ("sm_90a", "source"), ("sm_90", "native")]),
            # What only the jit rule admits: the nearest, and at equal distance PTX before source.
            ("sm_90", [("compute_90", "ptx"), ("compute_90", "source"), ("compute_89", "ptx"), ("sm_86", "source")]),
            ("sm_103", [("compute_100", "ptx"), ("compute_100f", "source"), ("compute_90", "ptx")]),
            ("sm_120", [("compute_103", "source"), ("compute_90", "ptx"), ("triton", "python")]),
            # A binary it runs comes before PTX, however near.
            ("sm_89", [("sm_80", "native"), ("compute_89", "ptx")]),
            ("sm_90", [("compute_50", "ptx"), ("triton", "python"), ("torch", "python"), ("generic", "python")]),
            ("sm_90", [("triton", "source"), ("triton", "python"), ("torch", "source")]),
        ],
    )
    def test_pairs(self, arch: str, pairs: list[tuple[str, str]]) -> None:
        fits = [lattice.fit(CUDA, target, artifact, arch) for target, artifact in pairs]
        assert all(fit.runs for fit in fits)
        closeness = [fit.closeness for fit in fits]
        assert closeness == sorted(closeness)
        assert len(set(closeness)) == len(closeness)

    def test_a_ladder_of_one_artifact(self) -> None:
        assert order("cuda", "sm_90", "native") == ["sm_90a", "sm_90"]
        assert order("cuda", "sm_80", "source")[:2] == ["sm_80", "compute_80"]
        assert order("cpu", "x86_64", "ptx") == []


class TestReadArch:
    @pytest.mark.parametrize(
        ("device", "written", "arch"),
        [
            ("cuda", "sm_90", "sm_90"),
            ("cuda", "sm90", "sm_90"),
            ("cuda", "SM_90", "sm_90"),
            ("cuda", "SM-90", "sm_90"),
            ("cuda", " sm_90 ", "sm_90"),
            ("cuda", "sm_90a", "sm_90"),
            ("cuda", "SM90A", "sm_90"),
            ("cuda", "sm_100f", "sm_100"),
            ("cuda", "sm_80a", "sm_80"),  # a suffix this device knows, on a chip without such a target
            ("cuda", "sm_130", "sm_130"),
            ("cuda", "SM130", "sm_130"),
            ("cuda", "sm_130a", "sm_130"),
            ("cuda", "generic", "generic"),
            ("cuda", "GENERIC", "generic"),
            ("rocm", "gfx942:sramecc+:xnack-", "gfx942"),
            ("rocm", "GFX90A", "gfx90a"),
            ("rocm", "gfx1153", "gfx1153"),
            ("cpu", "x86-64-v3", "x86_64_v3"),
            ("cpu", "x86_64-V3", "x86_64_v3"),
            ("cpu", "AMD64", "x86_64"),
            ("cpu", "arm64", "aarch64"),
            ("cpu", "armv8.2-a", "armv8.2a"),
            ("mps", "Apple9", "apple9"),
            ("mps", "apple11", "apple11"),
            ("xpu", "bmg-g21", "bmg_g21"),
            ("accel", "accel_v2x", "accel_v2"),
            ("accel", "accelv9", "accel_v9"),
        ],
    )
    def test_as_people_and_drivers_write_it(self, device: str, written: str, arch: str) -> None:
        assert lattice.read_arch(DEVICES[device], written) == arch

    @pytest.mark.parametrize(
        ("device", "written", "said"),
        [
            ("cuda", "sm_9O", "unknown arch `sm_9O` of device cuda: did you mean `sm_90`?"),
            ("cuda", "sm_12O", "did you mean `sm_120`?"),
            ("cuda", "sm_9", "did you mean"),
            ("cuda", "sm_090", "did you mean `sm_90`?"),
            ("cuda", "sm_130b", "unknown arch"),
            ("cuda", "sm_\u0669\u0660", "unknown arch"),  # digits, but not ASCII ones
            ("cuda", "hopper", "known: `sm_100`"),
            ("cuda", "", "unknown arch"),
            ("cuda", "compute_90", "`compute_90` is a target of cuda, not an arch a device can have"),
            ("cuda", "torch", "`torch` is a target of cuda, not an arch a device can have"),
            ("rocm", "gfx94", "did you mean"),
            ("rocm", "gfx11-generic", "`gfx11-generic` is a target of rocm"),
            ("mps", "metal3", "`metal3` is a target of mps"),
            ("xpu", "spir64", "`spir64` is a target of xpu"),
            ("cpu", "x86_64_v5", "did you mean"),
        ],
    )
    def test_what_cannot_be_read(self, device: str, written: str, said: str) -> None:
        with pytest.raises(rung.UnknownArch) as caught:
            lattice.read_arch(DEVICES[device], written)
        assert said in str(caught.value)


class TestTargets:
    @pytest.mark.parametrize(
        ("device", "written", "target"),
        [
            ("cuda", "sm_90a", "sm_90a"),
            ("cuda", "SM90A", "sm_90a"),
            ("cuda", "compute-90", "compute_90"),
            ("cuda", "Triton", "triton"),
            ("cpu", "amd64", "x86_64"),
            ("rocm", "gfx9_generic", "gfx9-generic"),
            ("xpu", "spir64", "spir64"),
        ],
    )
    def test_read(self, device: str, written: str, target: str) -> None:
        assert lattice.read_target(DEVICES[device], written) == target

    @pytest.mark.parametrize(
        ("device", "written"),
        [("cuda", "sm_130"), ("cuda", "sm_90f"), ("cuda", "compute_130"), ("xpu", "spir65"), ("rocm", "gfx1153")],
    )
    def test_a_target_nobody_declared_is_an_error(self, device: str, written: str) -> None:
        assert not lattice.is_target(DEVICES[device], written)
        with pytest.raises(rung.UnknownTarget, match="did you mean"):
            lattice.read_target(DEVICES[device], written)

    @pytest.mark.parametrize("device", DEVICES)
    def test_listed_is_known(self, device: str) -> None:
        record = DEVICES[device]
        names = lattice.targets(record)
        assert len(names) == len(set(names))
        assert all(lattice.is_target(record, name) for name in names)
        assert all(lattice.artifacts(record, name) for name in names)

    @pytest.mark.parametrize(
        ("device", "target", "artifacts"),
        [
            ("cuda", "sm_90", ("native", "source", "python", "ptx")),
            ("cuda", "compute_90", ("ptx", "source")),
            ("cuda", "triton", ("python", "source")),
            ("cuda", "generic", ("python", "source")),
            ("xpu", "spir64", ("ptx", "source")),
            ("cpu", "x86_64", ("native", "source", "python")),
        ],
    )
    def test_what_code_can_be(self, device: str, target: str, artifacts: tuple[str, ...]) -> None:
        assert lattice.artifacts(DEVICES[device], target) == artifacts
        assert lattice.default_artifact(DEVICES[device], target) == artifacts[0]


@pytest.mark.parametrize(
    ("pattern", "name", "value"),
    [
        (Pattern("sm_"), "sm_90", 90),
        (Pattern("sm_"), "sm_103a", 103),
        (Pattern("sm_"), "sm_090", None),
        (Pattern("sm_"), "sm_90ab", None),
        (Pattern("sm_"), "sm_", None),
        (Pattern("sm_"), "gfx90a", None),
        (Pattern("gfx", hex=True), "gfx90a", 0x90A),
        (Pattern("gfx", hex=True), "gfx90", None),
        (Pattern("gfx", hex=True), "gfx11-generic", None),
        (None, "sm_90", None),
    ],
)
def test_number(pattern: Pattern | None, name: str, value: int | None) -> None:
    assert lattice.number(pattern, name) == value


def test_a_device_declared_anywhere_works_alike() -> None:
    """Nothing of the rules is tied to the devices that are shipped."""
    device = Device(
        "npu",
        "",
        Where(""),
        pattern=Pattern("n"),
        archs={"n10": Arch("n10"), "n12": Arch("n12", ("n10",)), "n20": Arch("n20")},
        targets={"n12x": Target("n12x", only="n12"), "n10f": Target("n10f", family=("n10", "n12"))},
        jit=Jit("ir", "at_least"),
        portable=("dsl",),
    )
    found = [step.target for step in lattice.ladder(device, "n12")]
    assert found == ["n12x", "n10f", "n12", "n10", "ir12x", "ir12", "ir10f", "ir10", "dsl", "generic"]
    assert [s.target for s in lattice.ladder(device, "n20")] == ["n20", "ir20", "ir12", "ir10", "dsl", "generic"]


@pytest.mark.parametrize(
    ("device", "slip", "meant"),
    [("cuda", "sm_12", "sm_120"), ("cuda", "sm_9", "sm_90"), ("cuda", "sm_35", "sm_"), ("mps", "apple1", "apple10")],
)
def test_a_number_below_every_declared_one_is_a_slip_not_a_new_chip(device: str, slip: str, meant: str) -> None:
    with pytest.raises(rung.UnknownArch, match=f"did you mean `{meant}"):
        lattice.read_arch(DEVICES[device], slip)
