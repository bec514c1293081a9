"""Rules RG204 and RG205 on what conditions ask for, and platforms are said to be: what no fact can be.

Owns the lists of those. A machine or flag that is merely not listed passes; one that is a listed one misspelt, or
called as another system calls it, could never hold.
"""

from __future__ import annotations

import re
from functools import partial
from typing import TYPE_CHECKING, Final

from rung import wording
from rung.bind import root_of
from rung.diagnostics import Problem, closest, did_you_mean, shorten
from rung.rules.expressions import judged
from rung.rules.safety import paths

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from rung.diagnostics import Where
    from rung.manifest import Manifests
    from rung.rules.expressions import Placed

__all__ = ["RULES", "SYSTEMS"]


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


SYSTEMS: Final = frozenset({"darwin", "linux", "windows"})
"""The operating systems a fact can name."""
_SYSTEM_OF: Final[Mapping[str, str]] = {
    **dict.fromkeys(_words("apple mac macos osx"), "darwin"),
    **dict.fromkeys(_words("nt win win32 win64"), "windows"),
    **dict.fromkeys(_words("alpine centos debian fedora gnu linux2 posix redhat rhel suse ubuntu unix wsl"), "linux"),
}

# What Python's platform.machine() gives: Linux, macOS and Windows do not agree on it.
_MACHINES: Final = _words(
    """
    AMD64 ARM64 aarch64 aarch64_be alpha arm64 arm64e armv5tel armv6l armv7hl armv7l armv8l e2k i386 i486 i586 i686 ia64
    loongarch64 m68k mips mips64 mips64el mipsel parisc parisc64 ppc ppc64 ppc64le riscv32 riscv64 s390 s390x sh4 sparc
    sparc64 wasm32 x86 x86_64
    """
)
_X86: Final = "write `x86_64` for Linux and macOS, `AMD64` for Windows, or both in a list"
_ARM: Final = "write `aarch64` for Linux, `arm64` for macOS, `ARM64` for Windows, or several in a list"
_MACHINE_HINTS: Final[Mapping[str, str]] = {
    **dict.fromkeys(_words("amd64 intel64 x64 x8664 x86_64_v2 x86_64_v3 x86_64_v4"), _X86),
    **dict.fromkeys(_words("aarch aarch64 arm arm64 armv8 armv9"), _ARM),
}

# Flags as /proc/cpuinfo lists them on x86 and Arm.
_FLAGS: Final = _words(
    """
    3dnow 3dnowext 3dnowprefetch abm adx aes amx_bf16 amx_complex amx_fp16 amx_int8 amx_tile apx arch_capabilities avx
    avx10 avx2 avx512_4fmaps avx512_4vnniw avx512_bf16 avx512_bitalg avx512_fp16 avx512_vbmi2 avx512_vnni
    avx512_vp2intersect avx512_vpopcntdq avx512bw avx512cd avx512dq avx512er avx512f avx512ifma avx512pf avx512vbmi
    avx512vl avx_ifma avx_ne_convert avx_vnni avx_vnni_int16 avx_vnni_int8 bmi1 bmi2 cldemote clflush clflushopt clwb
    clzero cmov cmpccxadd constant_tsc cx16 cx8 enqcmd erms f16c fma fma4 fpu fsgsbase fsrm fxsr fxsr_opt gfni hle
    hypervisor invpcid la57 lahf_lm mmx mmxext monitor movbe movdir64b movdiri mwaitx nonstop_tsc nopl pclmulqdq
    pdpe1gb pni popcnt prefetchi prefetchw rdpid rdpru rdrand rdseed rdtscp rtm serialize sgx sha512 sha_ni smap smep
    sse sse2 sse4_1 sse4_2 sse4a ssse3 svm tbm tsc tsc_adjust tsc_deadline_timer tsxldtrk vaes vmx vpclmulqdq waitpkg
    wbnoinvd xop xsave xsavec xsaveerptr xsaveopt xsaves xtopology
    afp asimd asimddp asimdfhm asimdhp asimdrdm atomics bf16 bti crc32 cssc dcpodp dcpop dgh dit ebf16 ecv evtstrm
    f8cvt f8dp2 f8dp4 f8fma faminmax fcma flagm flagm2 fphp fpmr frint gcs hbc i8mm ilrcpc jscvt lrcpc lrcpc3 lse128 lut
    mops mte mte3 paca pacg pmull poe rng rpres rprfm sha1 sha2 sha3 sm3 sm4 sme sme2 sme2p1 smeb16b16 smeb16f32
    smebi32i32 smef16f16 smef16f32 smef32f32 smef64f64 smefa64 smei16i32 smei16i64 smei8i32 ssbs sve sve2 sve2p1
    sve_ebf16 sveaes sveb16b16 svebf16 svebitperm svef32mm svef64mm svei8mm svepmull svesha3 svesm4 uscat wfxt
    """
)
_FLAG_OF: Final[Mapping[str, str]] = {
    "avx512": "avx512f",
    "dotprod": "asimddp",
    "fp16": "asimdhp",
    "lse": "atomics",
    "lzcnt": "abm",
    "neon": "asimd",
    "pclmul": "pclmulqdq",
    "sha": "sha_ni",
    "sse3": "pni",
}
"""Flags as compilers name them, with what Linux calls them."""

_NO_VARIABLE: Final = re.compile(r"[\s,;|$%]+")
"""What stands between variables, or before or around one where a shell is asked for its value."""
_BETWEEN: Final = re.compile(r"[\s,;|]+")
"""What stands between several values that were written as one: no flag, machine or variable has it in it."""


def _items(node: Placed) -> Iterator[tuple[str, Callable[[], Where]]]:
    """Give each value that an atom of one or several lists, with a function that gives its place."""
    loc = (*node.loc, node.key)
    is_list = isinstance(node.document.at(loc), list)
    for index, value in enumerate(getattr(node.model, node.key)):
        yield value, partial(node.document.where, (*loc, index) if is_list else loc)


def _said(
    whole: Manifests, key: str, judge: Callable[[str, Callable[[], Where], bool], Iterator[Problem]]
) -> Iterator[Problem]:
    """Judge each value of atoms and platforms under a key, given how to place it and whether more may stand there."""

    def asked(node: Placed) -> Iterator[Problem]:
        for value, place in _items(node):
            yield from judge(value, place, True)

    yield from judged(whole, asked, key)
    for platform in whole.platforms.values():
        value = getattr(platform.model, key)
        if value is not None:
            yield from judge(value, partial(platform.at, key), False)


def _apart(value: str, key: str = "") -> str:
    """Say how to write several values that stand in one text, "" where it is one; under `key` only one may stand."""
    values = [part for part in _BETWEEN.split(value) if part]
    if _BETWEEN.search(value) is None:
        return ""
    if key and len(values) > 1:
        return f"`{key}` names one: write `{shorten(values[0])}`"
    return f"write a list: [{shorten(', '.join(values), 120)}]" if len(values) > 1 else "write it without blanks"


def rg204_system(whole: Manifests) -> Iterator[Problem]:
    """An operating system that no fact can name."""
    return _said(whole, "os", _system)


def _system(value: str, place: Callable[[], Where], _: bool) -> Iterator[Problem]:
    if value not in SYSTEMS:
        hint = did_you_mean(_SYSTEM_OF.get(value, value), SYSTEMS)
        yield Problem("RG204", place(), f"`{shorten(value)}` is no operating system rung knows", hint)


def rg204_machine(whole: Manifests) -> Iterator[Problem]:
    """A machine that is spelt as no system spells it."""
    return _said(whole, "machine", _machine)


def _machine(value: str, place: Callable[[], Where], listed: bool) -> Iterator[Problem]:
    if value in _MACHINES:
        return
    hint = _apart(value, "" if listed else "machine") or _MACHINE_HINTS.get(value.casefold())
    hint = hint or _MACHINE_HINTS.get(value.casefold().replace("-", ""))
    near = _near(value, _MACHINES)
    if hint or near:
        message = f"`{shorten(value)}` is what no system calls its machine"
        yield Problem("RG204", place(), message, hint or f"did you mean `{near}`?")


def rg204_flag(whole: Manifests) -> Iterator[Problem]:
    """A CPU flag that is a known one misspelt, or named as Linux does not name it."""
    declared = {f for device in whole.devices.values() for arch in device.model.archs.values() for f in arch.features}
    known = _FLAGS | declared

    def asked(node: Placed) -> Iterator[Problem]:
        for value, place in _items(node):
            if value in known:
                continue
            near = _FLAG_OF.get(value.casefold()) or _near(value, known)
            apart = _apart(value)
            if apart:
                yield Problem("RG204", place(), f"`{shorten(value)}` is no CPU flag", apart)
            elif near is not None:
                hint = f"did you mean `{near}`? Flags are named as in Linux's /proc/cpuinfo"
                yield Problem("RG204", place(), f"`{shorten(value)}` is no CPU flag", hint)

    return judged(whole, asked, "cpu")


def rg205(whole: Manifests) -> Iterator[Problem]:
    """A text that is no environment variable's name: it holds its value, a `$`, or several names."""
    return judged(whole, _variable, "env")


def _variable(node: Placed) -> Iterator[Problem]:
    for name in node.model.env or ():
        hint = _as_variable(name)
        if hint:
            yield Problem("RG205", node.where, f"`{shorten(name)}` is no variable's name", hint)


def _as_variable(name: str) -> str:
    """Say what to write instead of a text that is no variable's name, "" when it may be one."""
    variable, equals, value = name.partition("=")
    if equals:
        return f'write {{env: {{{shorten(variable.strip())}: "{shorten(value.strip())}"}}}}'
    names = [part.strip("{}") if "$" in name else part for part in _NO_VARIABLE.split(name) if part]
    if names == [name]:
        return ""
    if len(names) == 1:
        return f"write {{env: {shorten(names[0])}}}"
    terms = ", ".join(f"{{env: {shorten(part)}}}" for part in names[:4])
    return f"ask for one variable at a time: [{terms}]" if names else "write the name of a variable"


def rg205_module(whole: Manifests) -> Iterator[Problem]:
    """A module that is asked for by the name of its distribution, or a device that is taken for one."""
    bound: set[str] = set()

    def is_bound(root: str) -> bool:
        if not bound:
            bound.update(root_of(path) for path, _, _ in paths(whole))
        return root in bound

    def asked(node: Placed) -> Iterator[Problem]:
        module = node.model.module
        if module is None:
            return
        meant = wording.import_name(module.name)
        version = f" {module.version}" if module.version else ""
        if meant != module.name:
            message = f"`{shorten(module.name)}` is no import name"
            hint = f"what is imported is `{meant}`: write {{module: {wording.in_flow(f'{meant}{shorten(version)}')}}}"
            yield Problem("RG205", node.part("name"), message, hint)
        elif module.name in whole.devices and module.dist is None and not is_bound(module.name):
            asked = wording.in_flow(f"{module.name}{shorten(version)}")
            hint = f"write {{runtime: {asked}}} or {{driver: {asked}}}" if version else f"write {{device: {asked}}}"
            hint += "; if it is a module too, name its distribution: `dist:`"
            yield Problem("RG205", node.part("name"), f"`{shorten(module.name)}` is a device, and no module", hint)

    return judged(whole, asked, "module")


def _near(value: str, known: frozenset[str]) -> str | None:
    """Give the known value that is spelt the same but for case and separators, or one slip away."""
    spelled = _spelled(value)
    for name in sorted(known):
        if _spelled(name) == spelled:
            return name
    near = closest(value, (name for name in known if abs(len(name) - len(value)) <= 1)) if len(value) > 3 else None
    return near if near is not None and _one_slip(value.casefold(), near.casefold()) else None


def _spelled(name: str) -> str:
    return name.casefold().replace("_", "").replace("-", "").replace(".", "")


def _one_slip(a: str, b: str) -> bool:
    """Say whether two texts differ by one character that is another, missing or too many, or by two that swapped."""
    start = next((i for i, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))
    rest = (a[start:], b[start:])
    swapped = rest[0][1::-1] + rest[0][2:]
    return rest[0][1:] == rest[1][1:] or rest[0][1:] == rest[1] or rest[0] == rest[1][1:] or swapped == rest[1]


RULES = (rg204_flag, rg204_machine, rg204_system, rg205, rg205_module)
