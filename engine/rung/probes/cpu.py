"""The cpu probe: the processor's flags, and the highest level of its instruction set they make up.

Owns the table of levels (its `features` are those of `manifests/devices/cpu.yaml`) and the reading of flags.
Looks at the first processor only: kernels list what all cores have, and on a large host one block is enough.
"""

from __future__ import annotations

from rung.facts import DeviceFact

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence
    from typing import Final

    from rung.probes.host import Host

__all__ = ["LEVELS", "detect", "flags", "level"]

LEVELS: Final[Mapping[str, Mapping[str, frozenset[str]]]] = {
    "x86_64": {
        "x86_64": frozenset(),
        "x86_64_v2": frozenset({"cx16", "lahf_lm", "popcnt", "pni", "sse4_1", "sse4_2", "ssse3"}),
        "x86_64_v3": frozenset({"avx", "avx2", "bmi1", "bmi2", "f16c", "fma", "abm", "movbe", "xsave"}),
        "x86_64_v4": frozenset({"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"}),
    },
    "aarch64": {
        "aarch64": frozenset(),
        "armv8.2a": frozenset({"atomics", "crc32", "asimdrdm", "dcpop"}),
        "armv8.4a": frozenset({"jscvt", "fcma", "lrcpc", "asimddp", "dit", "uscat", "ilrcpc", "flagm"}),
        "armv9.0a": frozenset({"dcpodp", "flagm2", "frint", "sb", "sve", "sve2"}),
    },
    "riscv64": {
        "rva20u64": frozenset({"i", "m", "a", "f", "d", "c"}),
        "rva22u64": frozenset({"zba", "zbb", "zbs", "zicbom", "zicboz", "zfhmin"}),
        "rva23u64": frozenset({"v", "zvfhmin", "zvbb", "zicond", "zimop", "zcmop", "zcb", "zfa", "zawrs"}),
    },
}
"""Instruction set -> level -> the flags it adds to the level before it, lowest level first."""

_SPELLINGS: Final = {"amd64": "x86_64", "arm64": "aarch64"}
_SYSCTL: Final = "/usr/sbin/sysctl"

# What macOS calls a flag -> what Linux calls it. Names that differ by case alone are not listed for Intel.
_INTEL_MAC: Final = {
    "sse3": "pni",
    "sse4.1": "sse4_1",
    "sse4.2": "sse4_2",
    "avx1.0": "avx",
    "lahf": "lahf_lm",
    "lzcnt": "abm",
}
_APPLE: Final = {
    "AdvSIMD": "asimd",
    "FEAT_AES": "aes",
    "FEAT_BF16": "bf16",
    "FEAT_BTI": "bti",
    "FEAT_CRC32": "crc32",
    "FEAT_DIT": "dit",
    "FEAT_DPB": "dcpop",
    "FEAT_DPB2": "dcpodp",
    "FEAT_DotProd": "asimddp",
    "FEAT_FCMA": "fcma",
    "FEAT_FHM": "asimdfhm",
    "FEAT_FP16": "asimdhp",
    "FEAT_FRINTTS": "frint",
    "FEAT_FlagM": "flagm",
    "FEAT_FlagM2": "flagm2",
    "FEAT_I8MM": "i8mm",
    "FEAT_JSCVT": "jscvt",
    "FEAT_LRCPC": "lrcpc",
    "FEAT_LRCPC2": "ilrcpc",
    "FEAT_LSE": "atomics",
    "FEAT_LSE2": "uscat",
    "FEAT_PMULL": "pmull",
    "FEAT_RDM": "asimdrdm",
    "FEAT_SB": "sb",
    "FEAT_SHA1": "sha1",
    "FEAT_SHA256": "sha2",
    "FEAT_SHA3": "sha3",
    "FEAT_SHA512": "sha512",
    "FEAT_SME": "sme",
    "FEAT_SME2": "sme2",
    "FEAT_SSBS": "ssbs",
    "armv8_crc32": "crc32",
    "neon": "asimd",
}


def detect(host: Host) -> Sequence[DeviceFact]:
    """Give the one processor; its arch is the lowest level, or `generic`, where the flags cannot be read."""
    try:
        present: frozenset[str] = flags(host)
        note = ""
    except OSError as error:
        present, note = frozenset(), f"taken as the lowest level: {error}"
    return (DeviceFact(level(host.machine, present), name=_name(host), index=0, note=note or _translated(host)),)


def flags(host: Host) -> frozenset[str]:
    """Give the processor's flags as Linux names them; raise OSError where the system does not say."""
    if host.system == "darwin":
        return _apple_flags(host) if host.machine == "arm64" else _intel_mac_flags(host)
    if host.system != "linux":
        raise OSError(f"{host.system} has no list of CPU flags that is read here")
    block = _cpuinfo(host)
    if "isa" in block:
        return _riscv(block["isa"])
    for key in ("flags", "Features"):
        if key in block:
            return frozenset(block[key].split())
    raise OSError("/proc/cpuinfo lists no CPU flags")


def level(machine: str, present: Collection[str]) -> str:
    """Give the highest level of an instruction set whose flags are present, with those of all below it."""
    highest = "generic"
    for name, needed in LEVELS.get(_SPELLINGS.get(machine.lower(), machine.lower()), {}).items():
        if not needed.issubset(present):
            break
        highest = name
    return highest


def _cpuinfo(host: Host) -> dict[str, str]:
    """Read the first processor of /proc/cpuinfo."""
    first = host.read("/proc/cpuinfo", 65536).lstrip().partition("\n\n")[0]
    lines = (line.partition(":") for line in first.splitlines())
    return {key.strip(): value.strip() for key, colon, value in lines if colon}


def _riscv(isa: str) -> frozenset[str]:
    """Split `rv64imafdc_zba_zbb` into extension names; `g` stands for what it abbreviates."""
    letters, *named = isa.lower().split("_")
    found = set(letters[4:]) | set(named)
    if "g" in found:
        found |= {"i", "m", "a", "f", "d", "zicsr", "zifencei"}
    return frozenset(found)


def _sysctl(host: Host, tree: str) -> dict[str, str]:
    lines = (line.partition(": ") for line in host.run([_SYSCTL, tree]).splitlines())
    return {key: value.strip() for key, colon, value in lines if colon}


def _apple_flags(host: Host) -> frozenset[str]:
    found = {key.rpartition(".")[2] for key, value in _sysctl(host, "hw.optional").items() if value == "1"}
    named = {linux for apple, linux in _APPLE.items() if apple in found}
    return frozenset(named | ({"fphp"} if "asimdhp" in named else set()))


def _intel_mac_flags(host: Host) -> frozenset[str]:
    values = _sysctl(host, "machdep.cpu")
    lists = [values.get(f"machdep.cpu.{key}", "") for key in ("features", "leaf7_features", "extfeatures")]
    return frozenset(_INTEL_MAC.get(word, word) for word in " ".join(lists).lower().split())


def _name(host: Host) -> str:
    try:
        if host.system == "darwin":
            return _sysctl(host, "machdep.cpu").get("machdep.cpu.brand_string", "")
        block = _cpuinfo(host) if host.system == "linux" else {}
    except OSError:
        return ""
    if "CPU part" in block:
        return f"implementer {block.get('CPU implementer', '?')}, part {block['CPU part']}"
    return block.get("model name") or block.get("uarch", "")


def _translated(host: Host) -> str:
    """Note that an Apple processor poses as an Intel one, which caps the level; "" when it does not."""
    if host.system != "darwin" or host.machine == "arm64":
        return ""
    try:
        answer = host.run([_SYSCTL, "-n", "sysctl.proc_translated"]).strip()
    except OSError:  # real Intel Macs do not have the key
        return ""
    return "translated by Rosetta; a native Python would see the Apple processor" if answer == "1" else ""
