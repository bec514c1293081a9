"""rung: declarative dispatch for ML kernels and model components.

Owns the public names. Importing it imports no array library, no YAML reader and no backend.
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
from rung.instance import ComponentSpec, ModelInstance
from rung.load import load
from rung.matrix import component_matrix, kernel_matrix
from rung.platform import KernelTable, Platform, detect
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
from rung.resolve import Fall, Resolution, Rung
from rung.resources import VERSION
from rung.table import Table

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
