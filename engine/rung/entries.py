"""The records a table is made of: devices, cells, ops, kinds, backends, profiles.

Owns their shape and nothing else: no reading, no judging. Everything is frozen; every record that a manifest
declares carries the place it was declared at.
"""

from __future__ import annotations

from rung.records import field, record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Any, Final, TypeAlias

    from rung.diagnostics import Where

__all__ = [
    "ARGUMENT_DTYPES",
    "ARRAYS",
    "ARTIFACTS",
    "AXES",
    "DEFAULT",
    "GENERIC",
    "PARTS",
    "REFERENCE",
    "TESTS",
    "Arch",
    "Backend",
    "Cell",
    "Condition",
    "Device",
    "Expression",
    "Jit",
    "Kind",
    "LocalRow",
    "Op",
    "Pattern",
    "Profile",
    "Target",
    "cell_id",
]

DEFAULT: Final = "default"
"""The variant when none is named, and the profile when none is chosen."""
GENERIC: Final = "generic"
"""The last target of every device, and the arch of a device of which no more is known."""
REFERENCE: Final = "reference"
"""The backend made of the ops' references."""
ARRAYS: Final = ("numpy", "torch")
"""The array libraries rung can bridge."""
ARTIFACTS: Final = ("native", "ptx", "source", "python")
AXES: Final = ("device", "arch", "variant", "arrays", "degraded", "reference", "broken", "unknown")
"""What a fall can be on, in the order falls are reported."""

ARGUMENT_DTYPES: Final = (
    "bool", "uint8", "int8", "int16", "int32", "int64", "float8_e4m3fn", "float8_e5m2", "float16", "bfloat16",
    "float32", "float64", "complex64", "complex128",
)  # fmt: skip
"""The dtypes of arguments that conditions know, by the names numpy and torch have for them."""
PARTS: Final = ("dtype", "rank", "shape", "size", "contiguous", "grad")
"""What conditions ask of an array argument; of `shape`, one axis."""
TESTS: Final = ("min", "max", "multiple_of", "equals")
"""How conditions compare a value with a number, or with what is at another place of the arguments."""

Value: TypeAlias = "str | tuple[str, ...]"


@record
class Arch:
    """What a device's hardware can be; `runs` are the older plain targets it executes, nearest first."""

    name: str
    runs: tuple[str, ...] = ()


@record
class Target:
    """What code can be built for beyond the archs: exactly one arch (`only`) or a family of them."""

    name: str
    only: str | None = None
    family: tuple[str, ...] = ()


@record
class Pattern:
    """How the name of an undeclared arch is recognised: a prefix, then decimal or hex digits."""

    prefix: str
    hex: bool = False


@record
class Jit:
    """Portable intermediate code: targets start with `prefix`; `rule` is `at_least` or `any`."""

    prefix: str
    rule: str


@record
class Device:
    """A device family with its arch lattice."""

    name: str
    summary: str
    where: Where
    detect: str | None = None
    falls_back_to: str | None = None
    arrays: tuple[str, ...] = ("numpy",)
    torch: str = "cpu"
    pattern: Pattern | None = None
    aliases: Mapping[str, str] = field(default_factory=dict)
    archs: Mapping[str, Arch] = field(default_factory=dict)
    targets: Mapping[str, Target] = field(default_factory=dict)
    jit: Jit | None = None
    portable: tuple[str, ...] = ()


@record
class Condition:
    """A condition on the arguments of a call: a `place` in them such as `q.shape[-1]`, a test, and what it compares to.

    The test `in` has a tuple of values, `is` the word `none` or `given`, each of TESTS a number or another place.
    """

    place: str
    test: str
    value: Any

    def __str__(self) -> str:
        listed = self.value if isinstance(self.value, tuple) else (self.value,)
        shown = " or ".join(str(value).lower() if isinstance(value, bool) else str(value) for value in listed)
        words = {"in": "", "is": "", "min": "at least ", "max": "at most ", "multiple_of": "a multiple of "}
        return f"{self.place} {words.get(self.test, 'equal to ')}{shown}"


def cell_id(backend: str, serves: str, device: str, arch: str | None, variant: str) -> str:
    """Give the id of a cell, `backend/op@device.arch#variant`; of a component's, which has no arch, without it."""
    return f"{backend}/{serves}@{device}#{variant}" if arch is None else f"{backend}/{serves}@{device}.{arch}#{variant}"


@record
class Cell:
    """One row of the matrix: which implementation serves what, where, and under which conditions.

    `serves` is an op, or a component kind when `arch` is None. `needs` names the predicates that must all
    hold, `accepts` what must hold of a call's arguments. A cell of `spec.factory` has an empty `impl`.
    """

    id: str
    backend: str
    serves: str
    device: str
    arch: str | None
    variant: str
    arrays: str
    impl: str
    artifact: str | None
    where: Where
    needs: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    degraded: str = ""
    hint: str = ""
    workspace_bytes: int | None = None
    accepts: tuple[Condition, ...] = ()

    @property
    def is_reference(self) -> bool:
        """Whether this is the unconditional last rung."""
        return self.backend == REFERENCE


@record
class Backend:
    """A bundle of implementations: one manifest file plus one Python package."""

    name: str
    arrays: str
    where: Where
    hint: str = ""


@record
class Op:
    """A named contract. `variants` are the declared chains; `tolerance` is keyed by dtype.

    `differentiable` are the arguments whose gradients are compared, `dtypes` those of arguments that have their own,
    and `result_dtype` names the argument that says the result's, "" where that is the first array's.
    """

    name: str
    summary: str
    signature: str
    reference: str
    where: Where
    cases: str | None = None
    tolerance: Mapping[str, Mapping[str, float | int]] = field(default_factory=dict)
    variants: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    differentiable: tuple[str, ...] = ()
    dtypes: Mapping[str, str] = field(default_factory=dict)
    result_dtype: str = ""


@record
class Kind:
    """A kind of component, and what callers may rely on."""

    name: str
    summary: str
    where: Where


@record
class Profile:
    """A policy: the order of detection, what each kind of fall does, and replaced variant chains."""

    name: str
    devices: tuple[str, ...]
    fall: Mapping[str, str]
    only: str | None = None
    chains: Mapping[str, Mapping[str, tuple[str, ...]]] = field(default_factory=dict)


@record
class Expression:
    """A node: `all`, `any` or `not` over `terms`, or the atom named by `key` with its `args`."""

    key: str
    terms: tuple[Expression, ...] = ()
    args: tuple[tuple[str, Value], ...] = ()
    why: str = ""

    def get(self, name: str) -> str:
        """Give a text argument of an atom, "" when it was not given."""
        for key, value in self.args:
            if key == name and isinstance(value, str):
                return value
        return ""

    def items(self, name: str) -> tuple[str, ...]:
        """Give a list argument of an atom; a single text counts as a list of one."""
        for key, value in self.args:
            if key == name:
                return (value,) if isinstance(value, str) else value
        return ()

    def atoms(self) -> Iterator[Expression]:
        """Give every atom below this node."""
        if self.terms:
            for term in self.terms:
                yield from term.atoms()
        elif self.key not in ("all", "any", "not"):
            yield self


@record
class LocalRow:
    """A row registered from Python: `kernels` or `components`, op or kind, the row, the caller's place.

    `replaces` makes it take the place of a manifest's cell with the same key instead of colliding with it.
    """

    section: str
    serves: str
    row: Mapping[str, Any]
    where: Where
    replaces: bool = False
