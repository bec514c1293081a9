"""rung: declarative dispatch for ML kernels and model components.

Owns the public names. Importing it imports no array library, no YAML reader and no backend; what few programs use is
imported when it is first asked for.
"""

from __future__ import annotations

from rung.diagnostics import (
    BindError,
    BridgeError,
    DeviceNotFound,
    FactsError,
    FallbackWarning,
    FallError,
    ForeignFactsError,
    ManifestError,
    RungError,
    RungWarning,
    UnknownArch,
    UnknownArrays,
    UnknownDevice,
    UnknownKind,
    UnknownOp,
    UnknownPredicate,
    UnknownProfile,
    UnknownTarget,
)
from rung.facts import DeviceFact, Facts, Unknown
from rung.load import load
from rung.platform import KernelTable, Platform, detect
from rung.resolve import Fall, Resolution, Rung
from rung.resources import VERSION
from rung.table import Table

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from rung.arguments import Example
    from rung.instance import ComponentSpec, ModelInstance
    from rung.matrix import component_matrix, kernel_matrix
    from rung.registry import (
        COMPONENTS,
        FLOW_MATCH_STEP,
        FLOW_SDE_STEP,
        KERNELS,
        build_component,
        ensure_backends_loaded,
        register_component,
        register_kernel,
        resolve_kernel,
        resolved_source,
    )

__version__ = VERSION

__all__ = [
    "COMPONENTS",
    "FLOW_MATCH_STEP",
    "FLOW_SDE_STEP",
    "KERNELS",
    "BindError",
    "BridgeError",
    "ComponentSpec",
    "DeviceFact",
    "DeviceNotFound",
    "Example",
    "Facts",
    "FactsError",
    "Fall",
    "FallError",
    "FallbackWarning",
    "ForeignFactsError",
    "KernelTable",
    "ManifestError",
    "ModelInstance",
    "Platform",
    "Resolution",
    "Rung",
    "RungError",
    "RungWarning",
    "Table",
    "Unknown",
    "UnknownArch",
    "UnknownArrays",
    "UnknownDevice",
    "UnknownKind",
    "UnknownOp",
    "UnknownPredicate",
    "UnknownProfile",
    "UnknownTarget",
    "build_component",
    "component_matrix",
    "detect",
    "ensure_backends_loaded",
    "kernel_matrix",
    "load",
    "register_component",
    "register_kernel",
    "resolve_kernel",
    "resolved_source",
]

_LATER = {
    "rung.arguments": ("Example",),
    "rung.instance": ("ComponentSpec", "ModelInstance"),
    "rung.matrix": ("component_matrix", "kernel_matrix"),
    "rung.registry": (
        "COMPONENTS", "FLOW_MATCH_STEP", "FLOW_SDE_STEP", "KERNELS", "build_component", "ensure_backends_loaded",
        "register_component", "register_kernel", "resolve_kernel", "resolved_source",
    ),
}  # fmt: skip


def __getattr__(name: str) -> Any:
    from sys import modules

    module = next((module for module, names in _LATER.items() if name in names), None)
    if module is None:
        raise AttributeError(f"module `rung` has no `{name}`")
    __import__(module)
    found = globals()[name] = getattr(modules[module], name)
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
