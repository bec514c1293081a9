"""The shape of manifests and facts files: one pydantic model per noun.

Owns keys, types, closed sets and identifier grammar of single documents, and the words an editor shows for them.
Knows nothing of other files: whether a name exists is for `rung.rules`.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, TypeAlias

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, StringConstraints, model_validator
from pydantic_core import PydanticCustomError

from rung.diagnostics import did_you_mean, shorten
from rung.entries import ARRAYS, GENERIC

if TYPE_CHECKING:
    from typing import LiteralString

    from pydantic import GetJsonSchemaHandler
    from pydantic.json_schema import JsonSchemaValue
    from pydantic_core import CoreSchema

__all__ = [
    "BackendFile",
    "ComponentModel",
    "DeviceModel",
    "ExpressionModel",
    "FactsFile",
    "KernelModel",
    "KindModel",
    "ManifestFile",
    "OpModel",
    "PlatformModel",
    "ProfileModel",
    "PythonPath",
]


MAX_CHAIN: Final = 16
MAX_TERMS: Final = 16


class Model(BaseModel):
    """Base: nothing is coerced, nothing unknown passes."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


def _fault(code: LiteralString, message: str, hint: str = "") -> PydanticCustomError:
    """Make a validation error that already has its rule code and wording."""
    return PydanticCustomError(code, "{message}", {"message": message, "hint": hint})


def _as_list(value: Any) -> Any:
    """One or several: a single value stands for a list of one."""
    return value if isinstance(value, list) else [value]


Name = Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9_]*$", max_length=64)]
ArchName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z][A-Za-z0-9_.-]*$", max_length=64)]
ModuleName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$", max_length=128)]
Text = Annotated[str, StringConstraints(min_length=1)]
PythonPath = Annotated[
    str,
    StringConstraints(pattern=r"^[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)*:[A-Za-z][A-Za-z0-9_]*$"),
]


def _known_arrays(value: Any) -> Any:
    if isinstance(value, str) and value not in ARRAYS:
        raise _fault("RG311", f"unknown arrays `{shorten(value)}`", did_you_mean(value, ARRAYS))
    return value


Arrays = Annotated[Literal["numpy", "torch"], BeforeValidator(_known_arrays)]
Artifact = Literal["native", "ptx", "source", "python"]
Level = Literal["allow", "note", "warn", "error"]
Names = Annotated[list[Name], Field(min_length=1)]
Texts = Annotated[list[Text], Field(min_length=1)]
ArchNames = Annotated[list[ArchName], Field(min_length=1)]
OneOrMoreNames = Annotated[Names, BeforeValidator(_as_list, json_schema_input_type=Name | Names)]
OneOrMoreArchs = Annotated[ArchNames, BeforeValidator(_as_list, json_schema_input_type=ArchName | ArchNames)]
OneOrMoreTexts = Annotated[Texts, BeforeValidator(_as_list, json_schema_input_type=Text | Texts)]


class ArchModel(Model):
    """What a device's hardware can be."""

    runs: list[ArchName] = Field([], description="Older plain targets whose binaries this arch runs, nearest first.")
    features: list[Text] = Field([], description="CPU flags that make up this level, beyond what it runs.")
    products: list[Text] = Field([], description="Products with this arch, for readers.")


class TargetModel(Model):
    """What code can be built for beyond the archs: one arch exactly, or a family."""

    only: ArchName | None = Field(None, description="The one arch that runs this architecture-specific code.")
    family: ArchNames | None = Field(None, description="The archs that run this family-specific code.")

    @model_validator(mode="after")
    def _one(self) -> TargetModel:
        if self.only is None and self.family is None:
            raise _fault("RG203", "a target says `only` or `family`", "add `only: ARCH` or `family: [ARCH, ...]`")
        if self.only is not None and self.family is not None:
            raise _fault("RG207", "`only` and `family` exclude each other", "keep one of them")
        return self


class PatternModel(Model):
    """How an undeclared arch is recognised."""

    prefix: ArchName
    digits: Literal["decimal", "hex"] = "decimal"


def _pattern_form(value: Any) -> Any:
    return {"prefix": value} if isinstance(value, str) else value


PatternLike = Annotated[PatternModel, BeforeValidator(_pattern_form, json_schema_input_type=ArchName | PatternModel)]


class JitModel(Model):
    """Portable intermediate code that the driver compiles for the device."""

    prefix: ArchName = Field(description="What targets of intermediate code start with, such as `compute_`.")
    rule: Literal["at_least", "any"] = Field(
        description="`at_least`: the device's capability must be the target's or more; `any`: every device."
    )


class DeviceModel(Model):
    """A device family: its probe, its arch lattice, and what it falls back to."""

    summary: Text
    detect: PythonPath | None = Field(
        None, description="`module:function` that finds the cards. A device without it is never detected."
    )
    falls_back_to: Name | None = Field(None, description="The device tried next.")
    arrays: Annotated[list[Arrays], Field(min_length=1)] = Field(
        description="What callers on this device hold; the first that is installed is taken."
    )
    torch: Name = Field("cpu", description="What torch calls it, such as `cuda`; ROCm answers to `cuda` too.")
    pattern: PatternLike | None = Field(None, description="Prefix of arch names, such as `sm_`.")
    aliases: dict[ArchName, ArchName] = Field({}, description="Other names of archs.")
    archs: dict[ArchName, ArchModel] = {}
    targets: dict[ArchName, TargetModel] = {}
    jit: JitModel | None = None
    portable: list[Name] = Field([], description="Last targets, in order; `generic` is implied after them.")

    @model_validator(mode="after")
    def _capability(self) -> DeviceModel:
        if self.jit is not None and self.jit.rule == "at_least" and self.pattern is None:
            hint = "add `pattern:`, the prefix of arch names, such as `sm_`"
            raise _fault("RG203", "`jit` with `rule: at_least` needs a `pattern` that reads capabilities", hint)
        return self


class ModuleAtom(Model):
    """The long form of a `module` atom."""

    name: ModuleName = Field(description="Top-level import name; it is looked for, never imported.")
    dist: Text | None = Field(None, description="Distribution that has the version, when named differently.")
    version: Text | None = Field(None, description="PEP 440 specifier, such as `>=2.4`.")
    has: Text | None = Field(None, description="A file inside it, as `package/inner/path`.")
    build: OneOrMoreTexts | None = Field(None, description="What the version's local label (after `+`) starts with.")


class VersionAtom(Model):
    """The long form of `driver` and `runtime`: a device and a PEP 440 specifier."""

    name: Name
    version: Text


def _split_version(value: Any) -> Any:
    """`torch >=2.4` is the long form's name and version."""
    if not isinstance(value, str):
        return value
    name, version = re.fullmatch(r"\s*([^\s<>=!~]*)\s*(.*?)\s*", value, re.DOTALL).groups()  # type: ignore[union-attr]
    return {"name": name, "version": version} if version else {"name": name}


def _device_version(value: Any) -> Any:
    if isinstance(value, str) and "version" not in _split_version(value):
        raise _fault("RG203", f"`{shorten(value)}` asks for no version", "write a device and a version: `cuda >=525`")
    return _split_version(value)


def _env_form(value: Any) -> Any:
    if isinstance(value, dict) and len(value) != 1:
        raise _fault("RG207", "`env` asks for one variable", "write `NAME` or `{NAME: value}`; several go under `all:`")
    return {value: None} if isinstance(value, str) else value


ModuleLike = Annotated[ModuleAtom, BeforeValidator(_split_version, json_schema_input_type=Text | ModuleAtom)]
VersionLike = Annotated[VersionAtom, BeforeValidator(_device_version, json_schema_input_type=Text | VersionAtom)]
EnvLike = Annotated[
    dict[Text, str | None], BeforeValidator(_env_form, json_schema_input_type=Text | dict[Text, str])
]  # no value: set and not empty


class ExpressionModel(Model):
    """A node of a predicate: exactly one key besides `why`."""

    why: Text | None = Field(None, description="What this means, in words.")
    all: Annotated[list[ExpressionLike], Field(min_length=1, max_length=MAX_TERMS)] | None = None
    any: Annotated[list[ExpressionLike], Field(min_length=1, max_length=MAX_TERMS)] | None = None
    not_: ExpressionLike | None = Field(None, alias="not")
    module: ModuleLike | None = Field(
        None, description='An import name: `torch >=2.4`, or `{name: cv2, dist: opencv-python, version: ">=4"}`.'
    )
    device: Name | None = Field(None, description="That device's probe found one.")
    arch: ArchName | None = Field(None, description="The device runs code for this target.")
    driver: VersionLike | None = Field(None, description="`cuda >=525`: the driver's version fits.")
    runtime: VersionLike | None = Field(None, description="`cuda >=12.4`: the runtime's version fits.")
    cpu: OneOrMoreTexts | None = Field(None, description="All these CPU flags are present.")
    os: OneOrMoreNames | None = Field(None, description="`linux`, `darwin` or `windows`.")
    machine: OneOrMoreTexts | None = Field(None, description="`x86_64`, `aarch64`, `arm64`, ...")
    python: Text | None = Field(None, description="PEP 440 specifier for the interpreter, such as `>=3.11`.")
    env: EnvLike | None = Field(None, description="`NAME` is set and not empty, or `{NAME: value}` is equal.")
    use: Name | None = Field(None, description="The named predicate holds.")
    probe: PythonPath | None = Field(None, description="`module:function` taking facts: True, False or None.")

    @model_validator(mode="after")
    def _one_key(self) -> ExpressionModel:
        given = sorted(self.model_fields_set - {"why"})
        if not given:
            hint = "add one of `all`, `any`, `not`, `use`, or an atom such as `module: torch >=2.4`"
            raise _fault("RG203", "a predicate has one key besides `why`, here is none", hint)
        if len(given) > 1:
            keys = " and ".join(f"`{k.rstrip('_')}`" for k in given)
            raise _fault("RG207", f"a predicate has one key besides `why`, here are {keys}", "put them under `all:`")
        return self


def _expression_form(value: Any) -> Any:
    """Give the long form: a text names a predicate, a list means `all`."""
    if isinstance(value, str):
        return {"use": value}
    return {"all": value} if isinstance(value, list) else value


class _ExpressionForms:
    """The JSON Schema of an expression: a name, a list, or the mapping."""

    def __get_pydantic_json_schema__(self, core: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        mapping = handler(core)
        name: JsonSchemaValue = {"type": "string", "description": "A predicate's name."}
        terms = {"type": "array", "items": {"anyOf": [name, mapping]}, "minItems": 1, "maxItems": MAX_TERMS}
        return {"anyOf": [name, terms, mapping]}


ExpressionLike: TypeAlias = Annotated[ExpressionModel, BeforeValidator(_expression_form), _ExpressionForms()]
ExpressionModel.model_rebuild()  # its fields name ExpressionLike, which exists only now


class Tolerance(Model):
    """How far an implementation may be from the reference."""

    exact: Literal[True] | None = Field(None, description="Bit for bit. Written `exact` alone.")
    rtol: Annotated[float, Field(ge=0)] | None = Field(None, description="Relative part, of the reference's magnitude.")
    atol: Annotated[float, Field(ge=0)] | None = Field(None, description="Absolute part.")

    @model_validator(mode="after")
    def _some(self) -> Tolerance:
        if self.exact is None and self.rtol is None and self.atol is None:
            raise _fault("RG203", "a tolerance says `exact`, or at least one of `rtol` and `atol`", "write `exact`")
        if self.exact is not None and (self.rtol is not None or self.atol is not None):
            raise _fault("RG207", "`exact` leaves no room for `rtol` or `atol`", "keep one of them")
        return self


def _tolerance_form(value: Any) -> Any:
    if isinstance(value, str) and value != "exact":
        hint = "write `exact`, or `{rtol: 1.0e-6, atol: 1.0e-6}`"
        raise _fault("RG204", f"`{shorten(value)}` is no tolerance", hint)
    return {"exact": True} if value == "exact" else value


def _chain_form(value: Any) -> Any:
    return {"default": value} if isinstance(value, list) else value


ToleranceLike = Annotated[
    Tolerance, BeforeValidator(_tolerance_form, json_schema_input_type=Literal["exact"] | Tolerance)
]


def _chain_length(value: Any) -> Any:
    if isinstance(value, list) and len(value) > MAX_CHAIN:
        raise _fault("RG408", f"a chain of {len(value)} variants exceeds the limit of {MAX_CHAIN}", "shorten it")
    return value


Chain = Annotated[list[Name], Field(min_length=1, max_length=MAX_CHAIN), BeforeValidator(_chain_length)]
Chains = Annotated[dict[Name, Chain], BeforeValidator(_chain_form, json_schema_input_type=Chain | dict[Name, Chain])]


Dtype = Literal["float16", "bfloat16", "float32", "float64"]


class OpModel(Model):
    """A named contract."""

    summary: Text
    signature: Text = Field(description="A Python stub over array, float, int, bool, str, tuple and `| None`.")
    reference: PythonPath = Field(description="The numpy answer: last rung of every ladder and parity oracle.")
    cases: PythonPath | None = Field(None, description="`cases(dtype, rng)` yields (args, kwargs).")
    tolerance: dict[Dtype, ToleranceLike] = {}
    variants: dict[Name, Chain] = Field({}, description="What is tried, in order, for a requested variant.")


class KindModel(Model):
    """A kind of component."""

    summary: Text


class CellModel(Model):
    """What kernels and components have in common."""

    device: OneOrMoreNames = Field(description="One device or several.")
    variant: OneOrMoreNames = Field(["default"], description="One variant or several.")
    impl: PythonPath = Field(description="The function that serves, as `module:function`.")
    arrays: Arrays | None = Field(None, description="What this one takes and gives, where not the backend's.")
    when: ExpressionLike | None = Field(None, description="What must hold besides the backend's `requires`.")
    degraded: Text | None = Field(None, description="Why this is much worse than it should be.")
    hint: Text | None = Field(None, description="What to do when this cell is what is missing.")


class KernelModel(CellModel):
    """A cell of an op, or several: every member of device x arch x variant must be legal."""

    arch: OneOrMoreArchs = Field([GENERIC], description="One target or several.")
    artifact: Artifact | None = Field(None, description="What the code is; native, ptx or python by target.")
    exclude: list[ArchName] = Field([], description="Device archs on which it must not be offered.")
    workspace_bytes: Annotated[int, Field(ge=0)] | None = None


class ComponentModel(CellModel):
    """A cell of a component kind."""


class ProfileModel(Model):
    """A policy."""

    extends: Name | None = None
    devices: Names | None = Field(None, description="Order of detection.")
    fall: dict[Literal["device", "arch", "variant", "arrays", "degraded", "reference", "broken", "unknown"], Level] = (
        Field({}, description="What each kind of fall does.")
    )
    only: Name | None = Field(None, description="The one backend whose cells are rungs.")
    chains: dict[Name, Chains] = Field(
        {}, description="op: chain for `default`, or op: {variant: chain}. Replaces the op's own."
    )


class PlatformModel(Model):
    """A machine that the manifests are meant to serve: what every op reaches there is checked."""

    summary: Text
    device: Name = Field(description="The device a caller on this machine uses.")
    arch: ArchName = Field(description="What that device's hardware is, such as `sm_90`.")
    os: Name | None = Field(None, description="`linux`, `darwin` or `windows`.")
    machine: Text | None = Field(None, description="`x86_64`, `aarch64`, `arm64`, ...")
    cpu: ArchName | None = Field(None, description="The arch of its CPU, on which it falls back.")


class BackendFile(Model):
    """The backend part of a manifest: one backend is one file and one package."""

    backend: Name | None = None
    arrays: Arrays | None = Field(None, description="What its kernels take and give.")
    requires: ExpressionLike | None = Field(None, description="What must hold for every cell of this file.")
    hint: Text | None = Field(None, description="What to do when this backend is what is missing.")
    kernels: dict[Name, Annotated[list[KernelModel], Field(min_length=1)]] = {}
    components: dict[Name, Annotated[list[ComponentModel], Field(min_length=1)]] = {}


class ManifestFile(BackendFile):
    """One manifest file."""

    manifest: Literal[1] = Field(description="The version of the grammar, `manifest: 1`.")
    devices: dict[Name, DeviceModel] = {}
    predicates: dict[Name, ExpressionLike] = {}
    ops: dict[Name, OpModel] = {}
    kinds: dict[Name, KindModel] = {}
    profiles: dict[Name, ProfileModel] = {}
    platforms: dict[Name, PlatformModel] = {}


class CardFact(Model):
    """One card of a device."""

    arch: Text = Field(description="The hardware's arch, such as `sm_90`.")
    name: str = ""
    uuid: str = ""
    pci: str = ""
    driver: str = ""
    runtime: str = ""
    index: int | None = Field(None, description="Position in the runtime's own order, when known.")
    note: str = ""


class CpuFact(Model):
    """The CPU."""

    flags: list[Text]


class FactsFile(Model):
    """What a machine is: `rung facts` writes it, `--facts` reads it. What it does not say is unknown."""

    facts: Literal[1]
    os: Text | None = None
    machine: Text | None = None
    python: Text | None = None
    cpu: CpuFact | None = None
    modules: dict[str, Text | bool] = Field(
        {},
        description='Version, true or false; `"*": false` says: and nothing else.',
        json_schema_extra={"properties": {"*": {"const": False}}},
    )
    files: dict[str, bool] = Field({}, description="Files inside packages: `package/inner/path`.")
    devices: dict[Name, list[CardFact]] = Field({}, description="[] means: looked for, none found.")
    env: dict[str, str] = {}
    probes: dict[str, bool] = {}
