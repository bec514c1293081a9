"""The two registries by their older names, and registration from Python.

Owns `KERNELS` and `COMPONENTS` as views on the default table, and the rows registered in this process. They hold
no state of their own beside those rows: manifests are where cells come from.
"""

from __future__ import annotations

import sys
from _thread import allocate_lock
from itertools import count

from rung.bind import provide, withdraw
from rung.diagnostics import ManifestError, Where
from rung.entries import DEFAULT, GENERIC, Cell, LocalRow
from rung.load import default_table, extend_default_table
from rung.matrix import component_matrix, kernel_matrix
from rung.platform import Platform

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from typing import Any, Final, TypeVar

    F = TypeVar("F", bound=Callable[..., Any])

    from rung.instance import ComponentSpec, ModelInstance

__all__ = [
    "COMPONENTS",
    "FLOW_MATCH_STEP",
    "FLOW_SDE_STEP",
    "KERNELS",
    "ComponentRegistry",
    "KernelRegistry",
    "build_component",
    "ensure_backends_loaded",
    "register_component",
    "register_kernel",
    "resolve_kernel",
    "resolved_source",
]

FLOW_MATCH_STEP: Final = "flow_match_step"
FLOW_SDE_STEP: Final = "flow_sde_step"

_rows: list[LocalRow] = []
_numbers = count(1)
_registering = allocate_lock()


class KernelRegistry:
    """The kernel cells of the default table."""

    def lookup(self, op: str, device: str, arch: str = GENERIC, variant: str = DEFAULT) -> Cell | None:
        """Give the cell declared for exactly this key, usable or not; None when there is none.

        The reference, last rung of every ladder, answers where no other cell has its key, and to `generic` too.
        """
        default_table().op(op)
        last = None
        for cell in default_table().kernels[op]:
            if cell.is_reference and (device, variant) == (cell.device, cell.variant) and arch in (cell.arch, GENERIC):
                last = cell
            elif (cell.device, cell.arch, cell.variant) == (device, arch, variant):
                return cell
        return last

    def resolve_first(self, op: str, candidates: Iterable[tuple[str, str]], variant: str = DEFAULT) -> Cell | None:
        """Give the first cell declared for one of the (device, arch) candidates, in their order."""
        found = (self.lookup(op, device, arch, variant) for device, arch in candidates)
        return next((cell for cell in found if cell is not None), None)

    def manifest(self) -> list[dict[str, Any]]:
        """Give the rows of `kernel_matrix()`."""
        return kernel_matrix()


class ComponentRegistry:
    """The component cells of the default table."""

    def lookup(self, kind: str, device: str, variant: str = DEFAULT) -> Cell | None:
        """Give the cell declared for exactly this key, usable or not; None when there is none."""
        default_table().kind(kind)
        for cell in default_table().components[kind]:
            if (cell.device, cell.variant) == (device, variant):
                return cell
        return None

    def resolve_first(self, kind: str, devices: Iterable[str], variant: str = DEFAULT) -> Cell | None:
        """Give the first cell declared for one of the devices, in their order."""
        found = (self.lookup(kind, device, variant) for device in devices)
        return next((cell for cell in found if cell is not None), None)

    def manifest(self) -> list[dict[str, Any]]:
        """Give the rows of `component_matrix()`."""
        return component_matrix()


KERNELS: Final = KernelRegistry()
COMPONENTS: Final = ComponentRegistry()


def ensure_backends_loaded() -> None:
    """Make the default table now instead of at its first use. Imports no backend: binding does, cell by cell."""
    default_table()


def resolve_kernel(op: str, platform: Platform | None = None, variant: str = DEFAULT) -> Any:
    """Give the kernel for an op on a platform, by default the detected one."""
    return (platform or Platform.detect()).kernels.get(op, variant)


def resolved_source(op: str, platform: Platform | None = None, variant: str = DEFAULT) -> str:
    """Give the id of the cell that serves an op on a platform, by default the detected one."""
    return (platform or Platform.detect()).kernels.resolved_source(op, variant)


def build_component(spec: ComponentSpec, instance: ModelInstance, variant: str = DEFAULT) -> Any:
    """Build a component on its instance's platform."""
    return instance.platform.build_component(spec, instance, variant)


def _register(
    section: str,
    serves: str,
    row: dict[str, Any],
    function: Callable[..., Any],
    available: Callable[[], bool] | None,
    replace: bool,
) -> None:

    number = next(_numbers)
    row["impl"] = provide(f"{serves}_{number}", function)
    provided = [row["impl"]]
    if available is not None:
        row["when"] = {"probe": provide(f"{serves}_{number}_available", lambda facts: available())}
        provided.append(row["when"]["probe"])
    frame = sys._getframe(2)
    where = Where(frame.f_code.co_filename, frame.f_lineno)
    with _registering:  # compiling imports no backend, so a lock is safe, and no registration is lost
        rows = [*_rows, LocalRow(section, serves, row, where, replace)]
        try:
            extend_default_table(rows)
        except ManifestError:
            withdraw(provided)
            raise
        _rows[:] = rows


def register_kernel(
    op: str,
    device: str,
    arch: str = GENERIC,
    variant: str = DEFAULT,
    *,
    arrays: str = "numpy",
    artifact: str | None = None,
    accepts: Mapping[str, Any] | None = None,
    available: Callable[[], bool] | None = None,
    replace: bool = False,
) -> Callable[[F], F]:
    """Register a function as a kernel of this process: a decorator that gives the function back.

    The cell is `local/op@device.arch#variant`. It passes the checks every manifest passes (ManifestError), a
    duplicate is an error unless `replace=True`, and `available` becomes a predicate. `accepts` is what a call's
    arguments must be, as in a manifest: `{"sample.dtype": ["float16", "bfloat16"]}`. Platforms made before keep
    their table.
    """

    def decorate(function: F) -> F:
        row: dict[str, Any] = {"device": [device], "arch": [arch], "variant": [variant], "arrays": arrays}
        if artifact is not None:
            row["artifact"] = artifact
        if accepts is not None:
            row["accepts"] = dict(accepts)
        _register("kernels", op, row, function, available, replace)
        return function

    return decorate


def register_component(
    kind: str,
    device: str,
    variant: str = DEFAULT,
    *,
    arrays: str = "numpy",
    available: Callable[[], bool] | None = None,
    replace: bool = False,
) -> Callable[[F], F]:
    """Register a builder `(spec, instance, platform)` as a component cell of this process: a decorator."""

    def decorate(builder: F) -> F:
        row: dict[str, Any] = {"device": [device], "variant": [variant], "arrays": arrays}
        _register("components", kind, row, builder, available, replace)
        return builder

    return decorate
