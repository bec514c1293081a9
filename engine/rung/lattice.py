"""The arch lattice: whether code for a target, shipped as an artifact, runs on an arch, and how close it is.

Owns the only answer to that question and the order of targets. Pure: it sees a `Device` record and names,
never a machine. Nothing is inferred from number order except where a `jit` rule says so.
"""

from __future__ import annotations

from rung.diagnostics import UnknownArch, UnknownTarget, did_you_mean
from rung.entries import GENERIC, Device, Jit, Pattern, Target
from rung.records import record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Final

__all__ = [
    "Fit",
    "Step",
    "artifacts",
    "default_artifact",
    "fit",
    "is_target",
    "ladder",
    "number",
    "read_arch",
    "read_target",
    "spell",
    "targets",
]

# Groups of closeness, best first.
_SPECIFIC, _FAMILY, _OWN, _OLDER, _JIT, _PORTABLE, _GENERIC = range(7)
_DIGITS: Final = "0123456789abcdef"
_ARTIFACT_ORDER: Final = {"native": 0, "ptx": 0, "source": 1, "python": 2}


@record
class Fit:
    """The answer for one (target, artifact, arch): whether it runs, why, and its sort key (smaller is closer)."""

    runs: bool
    why: str
    closeness: tuple[int, ...] = ()


@record
class Step:
    """One line of a printed ladder."""

    target: str
    artifact: str
    why: str


def _no(why: str) -> Fit:
    return Fit(False, why)


def number(pattern: Pattern | None, name: str) -> int | None:
    """Read the number in an arch or target name: `sm_103a` is 103, `gfx90a` (hex digits) is 0x90a.

    A decimal number may be followed by one lower-case suffix letter, which is not part of it. A hex one has at
    least three digits: major, minor and stepping.
    """
    if pattern is None or not name.startswith(pattern.prefix):
        return None
    rest = name[len(pattern.prefix) :]
    if pattern.hex:
        return int(rest, 16) if len(rest) > 2 and rest[0] in _DIGITS[1:10] and not rest.strip(_DIGITS) else None
    digits = rest[:-1] if rest[-1:].isascii() and rest[-1:].islower() else rest
    return int(digits) if digits[:1] in _DIGITS[1:10] and digits.isascii() and digits.isdecimal() else None


def spell(name: str) -> str:
    """Give the form in which spellings are compared: no case, no `_` and no `-` (sm90, SM_90, x86-64-v3)."""
    return name.casefold().replace("_", "").replace("-", "")


def read_arch(device: Device, text: str) -> str:
    """Read a device arch as a person writes it and give its declared (or pattern-read) name.

    A target suffix means the chip (`sm_90a` is `sm_90`), what follows a colon is dropped
    (`gfx942:xnack-`), and `generic` is always known. Raise UnknownArch otherwise.
    """
    base = text.partition(":")[0].strip()
    if base.casefold() == GENERIC:
        return GENERIC
    known: dict[str, str] = {}
    for target in device.targets.values():
        chip = target.only or _without_suffix(device, target)
        if chip is not None:
            known[spell(target.name)] = chip
    known.update({spell(alias): name for alias, name in device.aliases.items()})
    known.update({spell(name): name for name in device.archs})
    found = known.get(spell(base))
    if found is not None:
        return found
    unknown = _read_by_pattern(device, base)
    if unknown is not None:
        return unknown
    if spell(base) in {spell(target) for target in targets(device)}:
        raise UnknownArch(f"`{base}` is a target of {device.name}, not an arch a device can have")
    raise UnknownArch(f"unknown arch `{text}` of device {device.name}: {did_you_mean(base, device.archs)}")


def _without_suffix(device: Device, target: Target) -> str | None:
    chip = target.name[:-1]
    return chip if target.name[-1:].isalpha() and chip in device.archs else None


def _read_by_pattern(device: Device, base: str) -> str | None:
    pattern = device.pattern
    if pattern is None:
        return None
    prefix = spell(pattern.prefix)
    spelled = spell(base)
    if not spelled.startswith(prefix):
        return None
    name = pattern.prefix + spelled[len(prefix) :]
    if not pattern.hex:
        # Only letters that some target is known by are suffixes: sm_130a is the chip sm_130, sm_12O is a slip.
        suffixes = {target.name[-1] for target in device.targets.values() if _without_suffix(device, target)}
        name = name[:-1] if name[-1] in suffixes else name
        if not name[len(pattern.prefix) :].isdecimal():
            return None
    value = number(pattern, name)
    # An arch nobody declared yet is a new one. A number below all declared ones is a slip: sm_12 for sm_120.
    oldest = min((n for arch in device.archs if (n := number(pattern, arch)) is not None), default=0)
    return name if value is not None and value >= oldest else None


def targets(device: Device) -> list[str]:
    """Give every legal target of the device, sorted within: hardware, beyond, intermediate code, portable."""
    hardware = sorted({*device.archs, *device.targets})
    middle: list[str] = []
    if device.jit is not None:
        if device.jit.rule == "any":
            middle = [device.jit.prefix]
        elif device.pattern is not None:
            prefix = device.pattern.prefix
            middle = [device.jit.prefix + t.removeprefix(prefix) for t in hardware if t.startswith(prefix)]
    return [*hardware, *middle, *device.portable, GENERIC]


def is_target(device: Device, name: str) -> bool:
    """Say whether `name` is a declared target, without listing them all."""
    if name in device.archs or name in device.targets or name in device.portable or name == GENERIC:
        return True
    return _hardware_of(device, name) is not None or _is_any(device, name)


def _is_any(device: Device, name: str) -> bool:
    return device.jit is not None and device.jit.rule == "any" and name == device.jit.prefix


def _hardware_of(device: Device, name: str) -> str | None:
    """Give the hardware target an intermediate one stands for: compute_90a is sm_90a."""
    jit = device.jit
    if jit is None or jit.rule != "at_least" or device.pattern is None or not name.startswith(jit.prefix):
        return None
    hardware = device.pattern.prefix + name.removeprefix(jit.prefix)
    return hardware if hardware in device.archs or hardware in device.targets else None


def read_target(device: Device, text: str) -> str:
    """Read a target as a person writes it; raise UnknownTarget with a suggestion."""
    if is_target(device, text):
        return text
    legal = {spell(t): t for t in targets(device)}
    legal.update({spell(alias): name for alias, name in device.aliases.items()})
    found = legal.get(spell(text.strip()))
    if found is None:
        raise UnknownTarget(f"unknown target `{text}` of device {device.name}: {did_you_mean(text, legal.values())}")
    return found


def artifacts(device: Device, target: str) -> tuple[str, ...]:
    """Give the artifacts code for a target can be, the default first."""
    if target in device.portable or target == GENERIC:
        return ("python", "source")
    if _is_any(device, target) or _hardware_of(device, target) is not None:
        return ("ptx", "source")
    return ("native", "source", "python", "ptx") if device.jit is not None else ("native", "source", "python")


def default_artifact(device: Device, target: str) -> str:
    """Give what code for a target is when a cell does not say."""
    return artifacts(device, target)[0]


def fit(device: Device, target: str, artifact: str, arch: str, exclude: Iterable[str] = ()) -> Fit:
    """Say whether code for `target` shipped as `artifact` runs on `arch`, why, and how close it is."""
    if arch in exclude:
        return _no(f"excluded on {arch} by its manifest")
    if target == GENERIC:
        return Fit(True, "generic code runs on every arch", (_GENERIC, 0, 0, _ARTIFACT_ORDER[artifact]))
    if target in device.portable:
        place = device.portable.index(target)
        why = f"`{target}` is portable across {device.name}"
        return Fit(True, why, (_PORTABLE, place, 0, _ARTIFACT_ORDER[artifact]))
    if _is_any(device, target):
        return Fit(True, f"{target} is compiled for any {device.name} device", (_JIT, 0, _ARTIFACT_ORDER[artifact], 0))
    hardware = _hardware_of(device, target)
    if hardware is None and artifact != "ptx":
        native = _fit_native(device, target, artifact, arch)
        if native.runs or artifact != "source" or device.jit is None:
            return native
    if device.jit is None:
        return _no(f"{device.name} has no intermediate code")
    return _fit_jit(device, device.jit, hardware or target, target, artifact, arch)


def _fit_native(device: Device, target: str, artifact: str, arch: str) -> Fit:
    order = _ARTIFACT_ORDER[artifact]
    if target == arch:
        return Fit(True, f"built for {arch} itself", (_OWN, 0, 0, order))
    beyond = device.targets.get(target)
    if beyond is not None and beyond.only is not None:
        if beyond.only == arch:
            return Fit(True, f"{target} code is specific to {arch}", (_SPECIFIC, 0, 0, order))
        return _no(f"{target} code runs on {beyond.only} only, never on {_shown(arch)}")
    if beyond is not None:
        if arch in beyond.family:
            why = f"{arch} is in the family of {target}"
            return Fit(True, why, (_FAMILY, len(beyond.family), 0, order))
        return _no(f"{target} code runs on its family {', '.join(beyond.family)} only, not on {_shown(arch)}")
    here = device.archs.get(arch)
    if here is not None and target in here.runs:
        why = f"{arch} runs code built for {target}"
        return Fit(True, why, (_OLDER, here.runs.index(target), 0, order))
    if here is None:
        what = "the arch is not known" if arch == GENERIC else f"no manifest declares {arch}"
        return _no(f"code built for {target} is not offered where {what}")
    decimal = device.pattern is not None and not device.pattern.hex
    theirs, mine = number(device.pattern, target), number(device.pattern, arch)
    newer = decimal and theirs is not None and mine is not None and theirs > mine
    if newer:
        return _no(f"{target} is newer than {arch}")
    own = ", ".join(here.runs) if here.runs else "none"
    return _no(f"{arch} does not run code built for {target}: of older targets it runs {own}")


def _shown(arch: str) -> str:
    return "an unknown arch" if arch == GENERIC else arch


def _fit_jit(device: Device, jit: Jit, hardware: str, target: str, artifact: str, arch: str) -> Fit:
    """Judge intermediate code and source by capability; `hardware` is the target it was written for."""
    word = "source" if artifact == "source" else "intermediate code"
    order = _ARTIFACT_ORDER[artifact]
    if jit.rule == "any":
        return Fit(True, f"{word} is compiled for any {device.name} device", (_JIT, 0, order, 0))
    mine, theirs = number(device.pattern, arch), number(device.pattern, hardware)
    if mine is None or theirs is None:
        return _no(f"{word} for {target} needs a known capability, and that of {_shown(arch)} is not known")
    # What is nearest decides, then PTX before source; what asks more of the chip breaks the tie that is left.
    distance = mine - theirs
    beyond = device.targets.get(hardware)
    if beyond is not None and beyond.only is not None:
        if beyond.only != arch:
            return _no(f"{word} for {target} compiles for {beyond.only} only, never for {arch}")
        return Fit(True, f"{word} for {target} is specific to {arch}", (_JIT, distance, order, 0))
    if beyond is not None:
        if arch not in beyond.family:
            return _no(f"{word} for {target} compiles for its family {', '.join(beyond.family)} only, not for {arch}")
        return Fit(True, f"{arch} is in the family of {target}", (_JIT, distance, order, 1))
    if distance < 0:
        return _no(f"{word} for {target} needs a capability of at least {hardware}, and {arch} is less")
    return Fit(True, f"{word} for {target} can be compiled for {arch}", (_JIT, distance, order, 2))


def ladder(device: Device, arch: str, artifact: str | None = None) -> list[Step]:
    """Give the targets that run on `arch`, closest first, each as its default artifact or all as `artifact`."""
    found: list[tuple[tuple[int, ...], Step]] = []
    for target in targets(device):
        kind = artifact or default_artifact(device, target)
        if kind not in artifacts(device, target):
            continue
        answer = fit(device, target, kind, arch)
        if answer.runs:
            found.append((answer.closeness, Step(target, kind, answer.why)))
    return [step for _, step in sorted(found, key=lambda pair: (pair[0], pair[1].target))]
