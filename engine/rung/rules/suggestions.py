"""Hints for names that are not declared: what was probably meant, and what such a name is instead.

Owns no rule. Never guesses across kinds: what a name is elsewhere is said only where it is declared there.
"""

from __future__ import annotations

import re
from itertools import islice
from typing import TYPE_CHECKING, Final

from rung import lattice, wording
from rung.diagnostics import closest, did_you_mean, shorten
from rung.entries import ARRAYS, GENERIC
from rung.predicates import ATOMS
from rung.rules.expressions import atoms
from rung.rules.values import SYSTEMS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from rung.entries import Device
    from rung.manifest import Manifests
    from rung.models import DeviceModel

__all__ = ["LOOKED_AT", "for_asked", "for_device", "for_predicate", "for_served", "for_target", "sound_archs"]

_MANY: Final = 8
"""Legal names that a hint lists at most."""
LOOKED_AT: Final = 256
"""Archs of a device up to which what a name may mean there is looked for."""
_DEVICES: Final = 32
"""Devices in which what a name may mean is looked for."""
_NAME: Final = re.compile(r"[a-z][a-z0-9_]{0,63}")
_ANY: Final = frozenset({"all", "any", "auto", "default", "none"})
"""Words for what does not depend on the arch."""
_DEVICE_WORDS: Final = frozenset(
    {"accelerator", "apu", "dsp", "fpga", "gpu", "gpus", "hpu", "ipu", "npu", "tpu", "vpu"}
)
"""Words for kinds of hardware: none of them is a slip of the pen."""


def for_target(whole: Manifests, devices: Sequence[Device], name: str) -> str:
    """Say what to write instead of a name that is not a target of all these devices."""
    legal, spelled = _common(whole, devices)
    same = spelled.get(lattice.spell(name))
    if same is not None:
        return f"did you mean `{same}`?"
    if name in whole.devices:
        return f"`{shorten(name)}` is a device; {_such_as(whole, devices)}"
    sold = [(arch, product) for device in devices for arch, product in _products(whole, device.name, name)]
    if sold and not any(arch not in legal for arch, _ in sold):
        return _sold(sold)
    having = [device for device in devices if lattice.is_target(device, whole.target(device.name, name))]
    if having:
        lacking = [device for device in devices if device not in having]
        return f"only {_names(having)} has it: give {_names(lacking)} a row of its own, or write {_either(legal)}"
    if name in _ANY:
        return f"write `{GENERIC}`: code for whatever the hardware is"
    listed = name.split("-")
    if len(listed) > 1 and legal.issuperset(listed):
        return f"list each, [{', '.join(listed)}]: there are no ranges, and newer hardware runs code for older"
    near = closest(name, legal)
    if near is not None:
        return f"did you mean `{near}`?"
    others = [
        d for d in islice(whole.device_records.values(), _DEVICES) if lattice.is_target(d, whole.target(d.name, name))
    ]
    if others:
        return f"it is a target of {_names(others)}; {_such_as(whole, devices)}"
    return did_you_mean(name, legal) if len(legal) <= _MANY else _such_as(whole, devices)


def for_asked(whole: Manifests, name: str) -> str:
    """Say what to write instead of a name that is no arch of any device; all of them are too many to list."""
    sold = [
        (arch, product)
        for device in islice(whole.devices, _DEVICES)
        for arch, product in _products(whole, device, name)
    ]
    if sold:
        return _sold(sold)
    if name in whole.devices:
        return f"`{shorten(name)}` is a device: write {{device: {name}}}"
    names = _sound_targets(whole)
    return (
        did_you_mean(name, names)
        if len(names) <= _MANY or closest(name, names) is not None
        else "write a target of some device, or an alias it declares"
    )


def for_device(whole: Manifests, name: str, legal: Iterable[str]) -> str:
    """Say what to write instead of a name that is no device."""
    legal = _legal(legal)
    for device in islice(whole.device_records.values(), _DEVICES):
        if (
            name != GENERIC
            and name not in device.portable
            and lattice.is_target(device, whole.target(device.name, name))
        ):
            return f"it is a target of `{device.name}`: write `device: {device.name}` and `arch: {name}`"
        for arch, product in _products(whole, device.name, name):
            return f"that is {product}: write `device: {device.name}` and `arch: {arch}`"
    word = name.casefold()
    described = {
        n: e.model.summary.rstrip(".")
        for n, e in sorted(islice(whole.devices.items(), _DEVICES), key=lambda pair: pair[0])
        if n in legal and len(word) > 2 and any(w.startswith(word) for w in e.model.summary.casefold().split())
    }
    if described:
        choices = [f"`{n}` ({shorten(summary, 48)})" for n, summary in described.items()]
        return f"did you mean {choices[0]}?" if len(choices) == 1 else f"say which: {', '.join(choices[:_MANY])}"
    return did_you_mean("" if word in _DEVICE_WORDS else name, legal)


def for_predicate(whole: Manifests, name: str, legal: Iterable[str]) -> str:
    """Say what to write instead of a name that is no predicate: often it is what an atom asks for."""
    if name in ATOMS:
        return f"`{name}` is what an atom asks for: write {{{name}: ...}} with a value"
    atom = _atom_of(whole, name)
    if atom is not None:
        return f"write {{{atom}: {wording.import_name(name) if atom == 'module' else name}}}"
    hint = did_you_mean(name, _legal(legal))
    return hint if hint.endswith("?") else f"a module is asked for as {{module: {shorten(name)}}}; {hint}"


def for_served(whole: Manifests, name: str, legal: Iterable[str], section: str) -> str:
    """Say what to do about rows of an op or a component kind that nobody declares."""
    other, kind, declared = ("components", "a component kind", whole.kinds) if section == "kernels" else (
        "kernels", "an op", whole.ops
    )  # fmt: skip
    if name in declared:
        return f"it is {kind}: its rows go under `{other}:`"
    where = "ops" if section == "kernels" else "kinds"
    hint = did_you_mean(name, _legal(legal))
    return hint if hint.endswith("?") else f"declare it under `{where}:`; {hint}"


def _atom_of(whole: Manifests, name: str) -> str | None:
    """Give the atom that asks for something of this name."""
    if name in whole.devices:
        return "device"
    if name in SYSTEMS:
        return "os"
    if name.casefold() in wording.IMPORT_NAMES:
        return "module"
    atom_of: dict[str, str] | None = whole.memo.get("atom of")
    if atom_of is None:
        atom_of = whole.memo["atom of"] = {}
        for device in whole.device_records.values():
            atom_of.update(dict.fromkeys((*device.archs, *device.targets), "arch"))
        for entry in whole.devices.values():
            for arch in entry.model.archs.values():
                atom_of.update(dict.fromkeys(arch.features, "cpu"))
        modules = (node.model.module.name for node in atoms(whole, "module") if node.model.module is not None)
        atom_of.update(dict.fromkeys((*modules, *ARRAYS), "module"))
    return atom_of.get(name)


def _common(whole: Manifests, devices: Sequence[Device]) -> tuple[set[str], dict[str, str]]:
    """Give the targets that all these devices have, and each by its spelling; those last asked for are kept."""
    names = [device.name for device in devices]
    kept: tuple[list[str], set[str], dict[str, str]] = whole.memo.get("common targets", ([], set(), {}))
    if kept[0] != names:
        legal = set.intersection(*({*_sound(whole, device)} for device in devices))
        kept = (names, legal, {lattice.spell(target): target for target in sorted(legal, reverse=True)})
        whole.memo["common targets"] = kept
    return kept[1], kept[2]


def sound_archs(model: DeviceModel) -> list[str]:
    """Give the archs of a device but those that read like an earlier one, which RG309 reports."""
    return [*_by_spelling(model.archs).values()]


def _sound(whole: Manifests, device: Device) -> Iterator[str]:
    """Give the targets of a device but those that read like an earlier one, which RG309 reports."""
    entry = whole.devices.get(device.name)
    declared = (*entry.model.archs, *entry.model.targets, *entry.model.portable) if entry is not None else ()
    first = _by_spelling(declared)
    return (name for name in lattice.targets(device) if first.get(lattice.spell(name), name) == name)


def _by_spelling(names: Iterable[str]) -> dict[str, str]:
    """Give the first name of each spelling."""
    first: dict[str, str] = {}
    for name in names:
        first.setdefault(lattice.spell(name), name)
    return first


def _sound_targets(whole: Manifests) -> frozenset[str]:
    """Give the targets of every device, and their aliases."""
    found: frozenset[str] | None = whole.memo.get("sound targets")
    if found is None:
        records = whole.device_records.values()
        found = frozenset(name for device in records for name in (*_sound(whole, device), *device.aliases))
        whole.memo["sound targets"] = found
    return found


def _legal(names: Iterable[str]) -> set[str]:
    """Give the names that may stand somewhere: of an entry that was rejected for its name there is none."""
    return {name for name in names if _NAME.fullmatch(name)}


def _products(whole: Manifests, device: str, name: str) -> Iterator[tuple[str, str]]:
    """Give the archs of a device with the product that a name is, or starts with, or the other way round."""
    entry = whole.devices.get(device)
    word = _spelled(name)
    if entry is None or len(entry.model.archs) > LOOKED_AT or len(word) < 3 or not any(c.isdigit() for c in word):
        return
    named = [(arch, p, _spelled(p)) for arch, model in entry.model.archs.items() for p in model.products]
    exact = [(arch, product) for arch, product, spelled in named if spelled == word]
    if exact:
        yield from exact
        return
    for arch, product, spelled in named:
        if len(spelled) > 2 and (word.startswith(spelled) or spelled.startswith(word)):
            yield arch, product


def _sold(sold: Sequence[tuple[str, str]]) -> str:
    by_arch = dict(reversed(sold))
    choices = [f"`{arch}` ({by_arch[arch]})" for arch in dict.fromkeys(arch for arch, _ in sold)]
    return f"did you mean {choices[0]}?" if len(choices) == 1 else f"say which: {', '.join(choices[:_MANY])}"


def _spelled(name: str) -> str:
    return lattice.spell(name).replace(" ", "")


def _such_as(whole: Manifests, devices: Sequence[Device]) -> str:
    """Show what targets look like: the newest archs with a product each, and what is portable."""
    if len(devices) > 1:
        return f"write {_either(_common(whole, devices)[0])}"
    (device,) = devices
    entry = whole.devices.get(device.name)
    names = list(entry.model.archs)[-LOOKED_AT:] if entry is not None else []
    archs = [(n, entry.model.archs[n].products) for n in names] if entry is not None else []
    shown = [f"`{n}` ({products[0]})" for n, products in archs if products][-_MANY:] or [f"`{n}`" for n, _ in archs]
    return f"write a target of `{device.name}`, such as {', '.join([*shown[:_MANY], *_quoted(device.portable)])}"


def _either(legal: Iterable[str]) -> str:
    return "one that all have: " + ", ".join([*_quoted(sorted(legal)[:_MANY])])


def _names(devices: Iterable[Device]) -> str:
    return ", ".join(_quoted(device.name for device in devices))


def _quoted(names: Iterable[str]) -> Iterator[str]:
    return (f"`{name}`" for name in names)
