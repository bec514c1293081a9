from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import yaml

from probes.fakes import HOSTS, FakeHost
from rung.probes import cpu

if TYPE_CHECKING:
    from collections.abc import Sequence

MANIFEST = Path(__file__).resolve().parents[2] / "manifests" / "devices" / "cpu.yaml"


@pytest.mark.parametrize(
    ("host", "machine", "arch", "name", "has", "has_not"),
    [
        ("zen4", "x86_64", "x86_64_v4", "AMD EPYC 9354 32-Core Processor", "avx512_vnni", "avx_vnni"),
        ("alder_lake", "x86_64", "x86_64_v3", "12th Gen Intel(R) Core(TM) i7-12700K", "avx_vnni", "avx512f"),
        ("nehalem", "x86_64", "x86_64_v2", "Intel(R) Xeon(R) CPU X5570 @ 2.93GHz", "sse4_2", "avx"),
        ("zen4", "AMD64", "x86_64_v4", "AMD EPYC 9354 32-Core Processor", "pni", "sse3"),
        ("cortex_a53", "aarch64", "aarch64", "implementer 0x41, part 0xd03", "asimd", "atomics"),
        ("neoverse_n1", "aarch64", "armv8.2a", "implementer 0x41, part 0xd0c", "asimddp", "dit"),
        ("neoverse_v1", "aarch64", "armv8.4a", "implementer 0x41, part 0xd40", "sve", "sve2"),
        ("neoverse_n2", "aarch64", "armv9.0a", "implementer 0x41, part 0xd49", "sve2", "sme"),
        ("sifive_u74", "riscv64", "rva20u64", "sifive,bullet0", "c", "zba"),
        ("spacemit_k1", "riscv64", "rva22u64", "Spacemit(R) X60", "v", "zvbb"),
        ("spacemit_k3", "riscv64", "rva23u64", "Spacemit(R) X100", "zvbb", "zvknc"),
        ("zen4", "ppc64le", "generic", "AMD EPYC 9354 32-Core Processor", "fma", "vsx"),
    ],
)
def test_linux(host: str, machine: str, arch: str, name: str, has: str, has_not: str) -> None:
    here = FakeHost(root=HOSTS / host, machine=machine)
    (card,) = cpu.detect(here)
    assert (card.arch, card.name, card.index, card.note) == (arch, name, 0, "")
    flags = cpu.flags(here)
    assert has in flags
    assert has_not not in flags


def test_a_level_needs_every_level_below() -> None:
    v4_alone = cpu.LEVELS["x86_64"]["x86_64_v4"]
    assert cpu.level("x86_64", v4_alone) == "x86_64"
    assert cpu.level("riscv64", {"v"}) == "generic"


@pytest.mark.parametrize("machine", sorted(cpu.LEVELS))
def test_each_missing_flag_costs_its_level(machine: str) -> None:
    levels = cpu.LEVELS[machine]
    everything = frozenset[str]().union(*levels.values())
    names = ["generic", *levels]
    assert cpu.level(machine, everything) == names[-1]
    for name, needed in levels.items():
        for flag in needed:
            assert cpu.level(machine, everything - {flag}) == names[names.index(name) - 1]


def test_the_levels_are_the_manifests() -> None:
    archs = yaml.safe_load(MANIFEST.read_text(encoding="utf-8"))["devices"]["cpu"]["archs"]
    table = {name: needed for levels in cpu.LEVELS.values() for name, needed in levels.items()}
    assert {name: frozenset(arch.get("features", ())) for name, arch in archs.items()} == table
    for levels in cpu.LEVELS.values():
        below: list[str] = []
        for name in levels:
            assert archs[name].get("runs", []) == below
            below.insert(0, name)


@pytest.mark.parametrize(
    ("isa", "found"),
    [
        ("rv64imafdc", {"i", "m", "a", "f", "d", "c"}),
        ("rv64imafdc_zba_zicboz", {"i", "m", "a", "f", "d", "c", "zba", "zicboz"}),
        ("rv64gc", {"g", "i", "m", "a", "f", "d", "c", "zicsr", "zifencei"}),
    ],
)
def test_riscv_extensions(isa: str, found: set[str], tmp_path: Path) -> None:
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc" / "cpuinfo").write_text(f"processor\t: 0\nisa\t\t: {isa}\n\nprocessor\t: 1\n")
    assert cpu.flags(FakeHost(root=tmp_path, machine="riscv64")) == found


# What `sysctl hw.optional` and `sysctl machdep.cpu` print, cut to size.
M4 = """\
hw.optional.arm.FEAT_CRC32: 1
hw.optional.arm.FEAT_FlagM: 1
hw.optional.arm.FEAT_FlagM2: 1
hw.optional.arm.FEAT_DotProd: 1
hw.optional.arm.FEAT_RDM: 1
hw.optional.arm.FEAT_LSE: 1
hw.optional.arm.FEAT_SB: 1
hw.optional.arm.FEAT_FRINTTS: 1
hw.optional.arm.FEAT_LRCPC: 1
hw.optional.arm.FEAT_LRCPC2: 1
hw.optional.arm.FEAT_FCMA: 1
hw.optional.arm.FEAT_JSCVT: 1
hw.optional.arm.FEAT_DPB: 1
hw.optional.arm.FEAT_DPB2: 1
hw.optional.arm.FEAT_BF16: 1
hw.optional.arm.FEAT_LSE2: 1
hw.optional.arm.FEAT_DIT: 1
hw.optional.arm.FEAT_FP16: 1
hw.optional.arm.FEAT_SSBS: 0
hw.optional.arm.FEAT_SME: 1
hw.optional.neon: 1
"""
CORE_I5 = """\
machdep.cpu.brand_string: Intel(R) Core(TM) i5-5250U CPU @ 1.60GHz
machdep.cpu.features: FPU VME SSE SSE2 SSE3 PCLMULQDQ SSSE3 FMA CX16 SSE4.1 SSE4.2 MOVBE POPCNT AES XSAVE OSXSAVE AVX1.0 F16C
machdep.cpu.leaf7_features: RDWRFSGS BMI1 AVX2 SMEP BMI2 ERMS
machdep.cpu.extfeatures: SYSCALL XD 1GBPAGE EM64T LAHF LZCNT PREFETCHW RDTSCP TSCI
"""  # noqa: E501 - one line of sysctl's output
VIRTUAL_APPLE = """\
machdep.cpu.brand_string: VirtualApple @ 2.50GHz
machdep.cpu.features: FPU VME SSE SSE2 SSE3 PCLMULQDQ SSSE3 CX16 SSE4.1 SSE4.2 POPCNT AES
machdep.cpu.extfeatures: SYSCALL XD EM64T LAHF RDTSCP TSCI
"""


def mac(machine: str, trees: dict[str, str]) -> FakeHost:
    def child(command: Sequence[str]) -> str:
        assert command[0] == "/usr/sbin/sysctl"
        if command[-1] not in trees:
            raise OSError(f"`sysctl` ended with 1: unknown oid '{command[-1]}'")
        return trees[command[-1]]

    return FakeHost(system="darwin", machine=machine, child=child)


def test_an_apple_chip_has_sme_and_is_no_armv9() -> None:
    here = mac("arm64", {"hw.optional": M4, "machdep.cpu": "machdep.cpu.brand_string: Apple M4 Pro\n"})
    (card,) = cpu.detect(here)
    assert (card.arch, card.name, card.note) == ("armv8.4a", "Apple M4 Pro", "")
    flags = cpu.flags(here)
    assert {"sme", "fphp", "asimdhp", "asimd", "bf16"} <= flags
    assert not {"sve", "ssbs"} & flags


def test_an_intel_mac() -> None:
    here = mac("x86_64", {"machdep.cpu": CORE_I5})
    (card,) = cpu.detect(here)
    assert (card.arch, card.name) == ("x86_64_v3", "Intel(R) Core(TM) i5-5250U CPU @ 1.60GHz")
    assert card.note == ""


def test_rosetta_is_noted() -> None:
    here = mac("x86_64", {"machdep.cpu": VIRTUAL_APPLE, "sysctl.proc_translated": "1\n"})
    (card,) = cpu.detect(here)
    assert card.arch == "x86_64_v2"
    assert "Rosetta" in card.note


@pytest.mark.parametrize(
    ("system", "machine", "arch"),
    [("windows", "AMD64", "x86_64"), ("linux", "aarch64", "aarch64"), ("linux", "riscv64", "generic")],
)
def test_without_flags_the_lowest_level_and_why(system: str, machine: str, arch: str) -> None:
    here = FakeHost(system=system, machine=machine)
    (card,) = cpu.detect(here)
    assert card.arch == arch
    assert card.note.startswith("taken as the lowest level: ")
    with pytest.raises(OSError, match=r"windows|cpuinfo"):
        cpu.flags(here)


def test_a_cpuinfo_without_flags_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc" / "cpuinfo").write_text("processor\t: 0\ncpu\t\t: POWER9\n")
    with pytest.raises(OSError, match="lists no CPU flags"):
        cpu.flags(FakeHost(root=tmp_path))
