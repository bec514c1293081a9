"""The shape of manifests and facts files: one pydantic model per noun.

Owns keys, types, closed sets and identifier grammar of single documents, and the words an editor shows for them.
Knows nothing of other files: whether a name exists is for `rung.rules`.

Note [Defaults that are shared]: a default that is a list is given by a factory, which hands out one list for all. Given
as a value it would be copied for each model, which takes longer than validating a row. Nobody changes what is frozen.

Note [Conditions that are alike]: many rows ask the same. Where the caller gives a mapping as context, a condition is
validated once, and every row that asks it in the same words has the same model; rules and `rung.compile` count on that
for their speed alone.

Note [What a schema is told]: validators are Python, and a JSON Schema says only what it is told. So each validator has
its twin beside it, as `json_schema_extra` or as the schema of a short form, and a differential test holds the two
together. `x-refers` on a name says what it is a name of, `x-like` in which other place the same may stand;
`rung.schemas` takes them out, or puts the known names and a `$ref` in.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, TypeAlias, TypeVar

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    StringConstraints,
    ValidationInfo,
    ValidatorFunctionWrapHandler,
    WrapValidator,
    model_validator,
)
from pydantic_core import PydanticCustomError, core_schema

from rung.diagnostics import did_you_mean, shorten
from rung.entries import ARGUMENT_DTYPES, ARRAYS, GENERIC

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import LiteralString

    from pydantic import GetJsonSchemaHandler
    from pydantic.json_schema import JsonSchemaValue
    from pydantic_core import CoreSchema

__all__ = [
    "ArgumentTest",
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


def _words(message: str, **extra: str) -> Any:
    """Say what an editor answers to text that does not fit."""
    return Field(json_schema_extra={"patternErrorMessage": message, **extra})


def _enum(meanings: Mapping[str, str]) -> Any:
    """Explain each member of a closed set, in the order of the set."""
    return Field(json_schema_extra={"markdownEnumDescriptions": list(meanings.values())})


_LOWER = "A name has lower-case letters, digits and `_`, a letter first."
_ARCH = "The name of an arch has letters, digits, `_`, `.` and `-`, a letter first."
_NAME = r"[a-z][a-z0-9_]{0,63}"
_IMPORT_NAME = r"[A-Za-z_][A-Za-z0-9_]{0,127}"

_NAME_PATTERN = r"^[a-z][a-z0-9_]*$"
_NameText = Annotated[str, StringConstraints(pattern=_NAME_PATTERN, max_length=64)]
_ArchText = Annotated[str, StringConstraints(pattern=r"^[A-Za-z][A-Za-z0-9_.-]*$", max_length=64)]
Name = Annotated[_NameText, _words(_LOWER)]
ArchName = Annotated[_ArchText, _words(_ARCH)]
OpName = Annotated[_NameText, _words(_LOWER, **{"x-refers": "ops"})]
KindName = Annotated[_NameText, _words(_LOWER, **{"x-refers": "kinds"})]
ServedName = Annotated[_NameText, _words(_LOWER, **{"x-refers": "ops and kinds"})]
DeviceName = Annotated[_NameText, _words(_LOWER, **{"x-refers": "devices"})]
VariantName = Annotated[_NameText, _words(_LOWER, **{"x-refers": "variants"})]
ProfileName = Annotated[_NameText, _words(_LOWER, **{"x-refers": "profiles"})]
BackendName = Annotated[_NameText, _words(_LOWER, **{"x-refers": "backends"})]
PredicateName = Annotated[_NameText, _words(_LOWER, **{"x-refers": "predicates"})]
TargetName = Annotated[_ArchText, _words(_ARCH, **{"x-refers": "targets"})]
ChipName = Annotated[_ArchText, _words(_ARCH, **{"x-refers": "archs"})]
HardwareName = Annotated[_ArchText, _words(_ARCH, **{"x-refers": "hardware"})]  # nobody need have declared it yet
ModuleName = Annotated[
    str,
    StringConstraints(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$", max_length=128),
    _words("An import name has letters, digits and `_`."),
]
Text = Annotated[str, StringConstraints(min_length=1)]
PythonPath = Annotated[
    str,
    StringConstraints(pattern=r"^[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)*:[A-Za-z][A-Za-z0-9_]*$"),
    _words("Write it as `package.module:function`."),
]


def _known_arrays(value: Any) -> Any:
    if isinstance(value, str) and value not in ARRAYS:
        raise _fault("RG311", f"unknown arrays `{shorten(value)}`", did_you_mean(value, ARRAYS))
    return value


Arrays = Annotated[
    Literal["numpy", "torch"],
    BeforeValidator(_known_arrays),
    _enum({"numpy": "`numpy.ndarray`, on the CPU.", "torch": "`torch.Tensor`, on any device."}),
]
Artifact = Annotated[
    Literal["native", "ptx", "source", "python"],
    _enum(
        {
            "native": "Machine code. What code for hardware is, when a cell does not say.",
            "ptx": "Intermediate code, which the driver compiles for newer devices too.",
            "source": "Compiled on the spot, for the device it meets.",
            "python": "Python over a library. What code for portable targets is, when a cell does not say.",
        }
    ),
]
Level = Annotated[
    Literal["allow", "note", "warn", "error"],
    _enum(
        {
            "allow": "Say nothing.",
            "note": "Log it, at the level INFO.",
            "warn": "Emit `rung.FallbackWarning`, once per platform, op and variant.",
            "error": "Raise, with the ladder in the message.",
        }
    ),
]
Axis = Annotated[
    Literal["device", "arch", "variant", "arrays", "degraded", "reference", "broken", "unknown"],
    _enum(
        {
            "device": "The chosen cell's device is not the platform's.",
            "arch": "A closer rung was passed over.",
            "variant": "The variant that was asked for was not served.",
            "arrays": "The chosen cell takes other arrays than the caller holds.",
            "degraded": "The chosen cell says that it is `degraded`.",
            "reference": "The reference serves although there was another rung.",
            "broken": "A rung whose conditions hold could not be bound.",
            "unknown": "A rung could not be judged: a condition's answer is not known.",
        }
    ),
]
SystemName = Annotated[
    _NameText,
    Field(json_schema_extra={"enum": ["linux", "darwin", "windows"]}),
    _enum({"linux": "Linux, whatever the distribution.", "darwin": "macOS.", "windows": "Windows."}),
]
"""A name, of which `rung.rules` knows the legal ones."""
T = TypeVar("T")


class _OneOrMoreForms:
    """The JSON Schema of one or several: the item alone, or the list."""

    def __get_pydantic_json_schema__(self, core: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        several = handler(core)
        return {"anyOf": [several["items"], {**several, "title": "list"}]}


Several: TypeAlias = Annotated[list[T], Field(min_length=1)]
OneOrMore: TypeAlias = Annotated[list[T], Field(min_length=1), BeforeValidator(_as_list), _OneOrMoreForms()]


class ArchModel(Model, title="arch"):
    """What a device's hardware can be."""

    runs: list[ArchName] = Field(
        [],
        description="Older plain targets whose binaries this arch runs, nearest first.",
        examples=[["sm_86", "sm_80"]],
    )
    features: list[Text] = Field(
        [],
        description="CPU flags that make up this level, beyond what it runs.",
        examples=[["avx2", "fma"]],
    )
    products: list[Text] = Field(
        [],
        description="Products with this arch, for readers.",
        examples=[["H100", "H200"]],
    )


class TargetModel(Model, title="target", json_schema_extra={"minProperties": 1, "maxProperties": 1}):
    """What code can be built for beyond the archs: one arch exactly (`only`), or a `family`."""

    only: ArchName | None = Field(
        None, description="The one arch that runs this architecture-specific code.", examples=["sm_90"]
    )
    family: Several[ArchName] | None = Field(
        None, description="The archs that run this family-specific code.", examples=[["sm_100", "sm_103"]]
    )

    @model_validator(mode="after")
    def _one(self) -> TargetModel:
        if self.only is None and self.family is None:
            raise _fault("RG203", "a target says `only` or `family`", "add `only: ARCH` or `family: [ARCH, ...]`")
        if self.only is not None and self.family is not None:
            raise _fault("RG207", "`only` and `family` exclude each other", "keep one of them")
        return self


class PatternModel(Model, title="pattern"):
    """How an undeclared arch is recognised."""

    prefix: ArchName = Field(description="What names of archs start with.", examples=["sm_"])
    digits: Annotated[
        Literal["decimal", "hex"],
        _enum({"decimal": "The number orders archs: `sm_103` is newer than `sm_90`.", "hex": "It orders nothing."}),
    ] = Field("decimal", description="How the number after the prefix is read. Default: `decimal`.")


def _pattern_form(value: Any) -> Any:
    return {"prefix": value} if isinstance(value, str) else value


PatternLike = Annotated[PatternModel, BeforeValidator(_pattern_form, json_schema_input_type=ArchName | PatternModel)]


class JitModel(Model, title="intermediate code"):
    """Portable intermediate code that the driver compiles for the device."""

    prefix: ArchName = Field(
        description="What targets of intermediate code start with, such as `compute_`.", examples=["compute_", "spir64"]
    )
    rule: Annotated[
        Literal["at_least", "any"],
        _enum(
            {
                "at_least": "A device whose capability is the target's or more.",
                "any": "Every device; the prefix alone is the target.",
            }
        ),
    ] = Field(description="`at_least`: the device's capability must be the target's or more; `any`: every device.")


_AT_LEAST_NEEDS_A_PATTERN: dict[str, Any] = {
    "if": {
        "properties": {"jit": {"properties": {"rule": {"const": "at_least"}}, "required": ["rule"]}},
        "required": ["jit"],
    },
    "then": {"required": ["pattern"]},
}


class DeviceModel(Model, title="device", json_schema_extra=_AT_LEAST_NEEDS_A_PATTERN):
    """A device family: its probe, its arch lattice, and what it falls back to."""

    summary: Text = Field(description="What it is, in one line.", examples=["NVIDIA GPUs."])
    detect: PythonPath | None = Field(
        None,
        description="`module:function` that finds the cards. A device without it is never detected.",
        examples=["rung.probes.cuda:detect"],
    )
    falls_back_to: DeviceName | None = Field(None, description="The device tried next.", examples=["cpu"])
    arrays: Several[Arrays] = Field(
        description="What callers on this device hold; the first that is installed is taken.",
        examples=[["torch", "numpy"]],
    )
    torch: Name = Field(
        "cpu",
        description="What torch calls it, such as `cuda`; ROCm answers to `cuda` too. Default: `cpu`.",
        examples=["cuda"],
    )
    pattern: PatternLike | None = Field(None, description="Prefix of arch names, such as `sm_`.", examples=["sm_"])
    aliases: dict[ArchName, ArchName] = Field({}, description="Other names of archs.", examples=[{"sm90": "sm_90"}])
    archs: dict[ArchName, ArchModel] = Field(
        {}, description="What the hardware can be, each with the older targets it runs.", examples=[{"sm_90": {}}]
    )
    targets: dict[ArchName, TargetModel] = Field(
        {},
        description="What code can be built for beyond the archs.",
        examples=[{"sm_90a": {"only": "sm_90"}}],
    )
    jit: JitModel | None = Field(
        None,
        description="Intermediate code that its driver compiles, where there is such a thing.",
        examples=[{"prefix": "compute_", "rule": "at_least"}],
    )
    portable: list[Name] = Field(
        [],
        description="Last targets, in order; `generic` is implied after them.",
        examples=[["triton", "torch"]],
    )

    @model_validator(mode="after")
    def _capability(self) -> DeviceModel:
        if self.jit is not None and self.jit.rule == "at_least" and self.pattern is None:
            hint = "add `pattern:`, the prefix of arch names, such as `sm_`"
            raise _fault("RG203", "`jit` with `rule: at_least` needs a `pattern` that reads capabilities", hint)
        return self


class ModuleAtom(Model, title="module"):
    """The long form of a `module` atom."""

    name: ModuleName = Field(description="Top-level import name; it is looked for, never imported.", examples=["cv2"])
    dist: Text | None = Field(
        None, description="Distribution that has the version, when named differently.", examples=["opencv-python"]
    )
    version: Text | None = Field(None, description="PEP 440 specifier, such as `>=2.4`.", examples=[">=2.4"])
    has: Text | None = Field(
        None, description="A file inside it, as `package/inner/path`.", examples=["torch/lib/libtorch_cuda.so"]
    )
    build: OneOrMore[Text] | None = Field(
        None, description="What the version's local label (after `+`) starts with.", examples=["cu", ["cu", "rocm"]]
    )


class VersionAtom(Model, title="version"):
    """The long form of `driver` and `runtime`: a device and a PEP 440 specifier."""

    name: DeviceName = Field(description="The device.", examples=["cuda"])
    version: Text = Field(description="PEP 440 specifier, such as `>=525`.", examples=[">=525"])


_NAME_AND_VERSION = re.compile(r"\s*([^\s<>=!~]*)\s*(.*?)\s*", re.DOTALL)


def _split_version(value: Any) -> Any:
    """`torch >=2.4` is the long form's name and version."""
    if not isinstance(value, str):
        return value
    name, version = _NAME_AND_VERSION.fullmatch(value).groups()  # type: ignore[union-attr]
    return {"name": name, "version": version} if version else {"name": name}


def _device_version(value: Any) -> Any:
    if isinstance(value, str) and "version" not in _split_version(value):
        raise _fault("RG203", f"`{shorten(value)}` asks for no version", "write a device and a version: `cuda >=525`")
    return _split_version(value)


def _env_form(value: Any) -> Any:
    if isinstance(value, dict) and len(value) != 1:
        raise _fault("RG207", "`env` asks for one variable", "write `NAME` or `{NAME: value}`; several go under `all:`")
    return {value: None} if isinstance(value, str) else value


_ModuleText = Annotated[
    Text,
    StringConstraints(pattern=rf"^\s*{_IMPORT_NAME}([\s<>=!~]|$)"),
    _words("Write an import name, and a version where one is wanted: `torch >=2.4`."),
]
_VersionText = Annotated[
    Text,
    StringConstraints(pattern=rf"^\s*{_NAME}(\s+\S|[<>=!~])"),
    _words("Write a device and a version: `cuda >=525`."),
]
_Variable = Annotated[
    Text, StringConstraints(pattern=r"^[^=\s,;|$%]*$"), _words("Write the name alone, or `{NAME: value}`.")
]
_VariableKey = Annotated[Text, StringConstraints(pattern=r"^[!-#&-+\--:<>-{}~]*$"), _words("Write `{NAME: value}`.")]
_OneVariable = Annotated[dict[_VariableKey, str], Field(min_length=1, max_length=1)]
ModuleLike = Annotated[ModuleAtom, BeforeValidator(_split_version, json_schema_input_type=_ModuleText | ModuleAtom)]
VersionLike = Annotated[
    VersionAtom, BeforeValidator(_device_version, json_schema_input_type=_VersionText | VersionAtom)
]
EnvLike = Annotated[
    dict[Text, str | None], BeforeValidator(_env_form, json_schema_input_type=_Variable | _OneVariable)
]  # no value: set and not empty


_ONE_KEY: dict[str, Any] = {
    "if": {"required": ["why"]},
    "then": {"minProperties": 2, "maxProperties": 2},
    "else": {"minProperties": 1, "maxProperties": 1},
}


class ExpressionModel(Model, title="predicate", json_schema_extra=_ONE_KEY):
    """A node of a predicate: exactly one key besides `why`."""

    why: Text | None = Field(
        None, description="What this means, in words.", examples=["torch was built for CUDA and a driver answers"]
    )
    all: Annotated[list[ExpressionLike], Field(min_length=1, max_length=MAX_TERMS)] | None = Field(
        None,
        description="Each of these holds. A bare list means the same.",
        examples=[[{"device": "cuda"}, {"module": "torch >=2.4"}]],
    )
    any: Annotated[list[ExpressionLike], Field(min_length=1, max_length=MAX_TERMS)] | None = Field(
        None,
        description="At least one of these holds.",
        examples=[[{"os": "linux"}, {"os": "windows"}]],
    )
    not_: ExpressionLike | None = Field(
        None,
        alias="not",
        description="This does not hold. Where it is unknown, so is this.",
        examples=[{"os": "windows"}],
    )
    module: ModuleLike | None = Field(
        None,
        description='An import name: `torch >=2.4`, or `{name: cv2, dist: opencv-python, version: ">=4"}`.',
        examples=["torch >=2.4", {"name": "cv2", "dist": "opencv-python", "version": ">=4"}],
    )
    device: DeviceName | None = Field(None, description="That device's probe found one.", examples=["cuda"])
    arch: TargetName | None = Field(None, description="The device runs code for this target.", examples=["sm_90"])
    driver: VersionLike | None = Field(
        None, description="`cuda >=525`: the driver's version fits.", examples=["cuda >=525"]
    )
    runtime: VersionLike | None = Field(
        None, description="`cuda >=12.4`: the runtime's version fits.", examples=["cuda >=12.4"]
    )
    cpu: OneOrMore[Text] | None = Field(
        None, description="All these CPU flags are present.", examples=["avx2", ["avx2", "fma"]]
    )
    os: OneOrMore[SystemName] | None = Field(
        None, description="`linux`, `darwin` or `windows`.", examples=[["linux", "windows"]]
    )
    machine: OneOrMore[Text] | None = Field(
        None, description="`x86_64`, `aarch64`, `arm64`, ...", examples=["x86_64", ["aarch64", "arm64"]]
    )
    python: Text | None = Field(
        None, description="PEP 440 specifier for the interpreter, such as `>=3.11`.", examples=[">=3.11"]
    )
    env: EnvLike | None = Field(
        None,
        description="`NAME` is set and not empty, or `{NAME: value}` is equal.",
        examples=["ACME_HOME", {"ACME_BACKEND": "fast"}],
    )
    use: PredicateName | None = Field(None, description="The named predicate holds.", examples=["torch_cuda"])
    probe: PythonPath | None = Field(
        None,
        description="`module:function` taking facts: True, False or None.",
        examples=["acme.probes:has_engine"],
    )

    @property
    def key(self) -> str:
        """The node's one key besides `why`: `all`, `any`, `not` or an atom."""
        for name in self.model_fields_set:
            if name != "why":
                return name.rstrip("_")
        raise AssertionError("validation lets nothing pass that has no key")

    @model_validator(mode="after")
    def _one_key(self) -> ExpressionModel:
        written = self.model_fields_set
        if len(written) == 1 + ("why" in written):
            return self
        given = sorted(written - {"why"})
        if not given:
            hint = "add one of `all`, `any`, `not`, `use`, or an atom such as `module: torch >=2.4`"
            raise _fault("RG203", "a predicate has one key besides `why`, here is none", hint)
        keys = " and ".join(f"`{k.rstrip('_')}`" for k in given)
        raise _fault("RG207", f"a predicate has one key besides `why`, here are {keys}", "put them under `all:`")


def _expression(value: Any, validate: ValidatorFunctionWrapHandler, info: ValidationInfo) -> Any:
    """Validate the long form: a text names a predicate, a list means `all`. See Note [Conditions that are alike]."""
    met: dict[str, Any] = {} if info.context is None else info.context
    text = repr(value)
    known = met.get(text)
    if known is None:
        form = {"use": value} if isinstance(value, str) else {"all": value} if isinstance(value, list) else value
        known = met[text] = validate(form)
    return known


class _ExpressionForms:
    """The JSON Schema of an expression: a predicate's name, a list, or the mapping."""

    def __get_pydantic_json_schema__(self, core: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        words = {"title": "a predicate's name", "patternErrorMessage": _LOWER, "x-refers": "predicates"}
        name = {**handler(core_schema.str_schema(pattern=_NAME_PATTERN, max_length=64)), **words}
        return {"anyOf": [name, {"x-like": "#/$defs/ExpressionModel/properties/all"}, handler(core)]}


ExpressionLike: TypeAlias = Annotated[ExpressionModel, WrapValidator(_expression), _ExpressionForms()]
ExpressionModel.model_rebuild()  # its fields name ExpressionLike, which exists only now


def _no_number(value: Any) -> Any:
    """Python's True is 1, and YAML's is not."""
    if value.__class__ in (int, float):
        raise _fault("RG202", f"`exact` is true, not {value}", "write `exact`")
    return value


_KINDS: Final = ("exact", "ulp", "cosine")
_ONE_KIND: dict[str, Any] = {
    "minProperties": 1,
    "if": {"anyOf": [{"required": [kind]} for kind in _KINDS]},
    "then": {"maxProperties": 1},
}


class Tolerance(Model, title="tolerance", json_schema_extra=_ONE_KIND):
    """How far an implementation may be from the reference, strictest first: one kind of bound for each dtype."""

    exact: Annotated[Literal[True], BeforeValidator(_no_number)] | None = Field(
        None, description="Equal in every value. Written `exact` alone."
    )
    ulp: Annotated[int, Field(ge=0)] | None = Field(
        None, description="Units in the last place of the dtype, at the reference's value.", examples=[2]
    )
    rtol: Annotated[float, Field(ge=0)] | None = Field(
        None, description="Relative part, of the reference's magnitude.", examples=[1.0e-6]
    )
    atol: Annotated[float, Field(ge=0)] | None = Field(None, description="Absolute part.", examples=[1.0e-6])
    cosine: Annotated[float, Field(gt=0, le=1)] | None = Field(
        None, description="The least cosine between result and reference, as vectors.", examples=[0.999]
    )

    @model_validator(mode="after")
    def _some(self) -> Tolerance:
        written = self.model_fields_set
        if not written:
            words = "a tolerance says `exact`, `ulp`, `cosine`, or one of `rtol` and `atol`"
            raise _fault("RG203", words, "write `exact`")
        alone = next((kind for kind in _KINDS if kind in written), None)
        if alone is not None and len(written) > 1:
            others = " or ".join(f"`{key}`" for key in type(self).model_fields if key in written and key != alone)
            raise _fault("RG207", f"`{alone}` leaves no room for {others}", "keep one of them")
        return self


def _tolerance_form(value: Any) -> Any:
    if isinstance(value, str) and value != "exact":
        hint = "write `exact`, `{ulp: 2}`, `{rtol: 1.0e-6, atol: 1.0e-6}` or `{cosine: 0.999}`"
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


Chain = Annotated[list[VariantName], Field(min_length=1, max_length=MAX_CHAIN), BeforeValidator(_chain_length)]
Chains = Annotated[
    dict[VariantName, Chain], BeforeValidator(_chain_form, json_schema_input_type=Chain | dict[VariantName, Chain])
]


Dtype = Annotated[
    Literal["float8_e4m3fn", "float8_e5m2", "float16", "bfloat16", "float32", "float64"],
    _enum(
        {
            "float8_e4m3fn": "For float8 with 4 bits of exponent, which numpy lacks: they cross through float32.",
            "float8_e5m2": "For float8 with 5 bits of exponent, which numpy lacks: they cross through float32.",
            "float16": "For arrays of half precision.",
            "bfloat16": "For arrays of bfloat16, which numpy lacks: they cross through float32.",
            "float32": "For arrays of single precision.",
            "float64": "For arrays of double precision, the reference's own.",
        }
    ),
]


_ARGUMENT = r"[A-Za-z_][A-Za-z0-9_]*"
_PLACE = rf"^{_ARGUMENT}(\.(dtype|rank|size|contiguous|grad)|\.shape\[(0|-?[1-9][0-9]?)\])?$"
ArgumentName = Annotated[
    str,
    StringConstraints(pattern=rf"^{_ARGUMENT}$", max_length=64),
    _words("The name of an argument in the op's signature."),
]
_PLACE_HINT = "an argument, or a part of one: `q.dtype`, `q.rank`, `q.shape[-1]`, `q.size`, `q.contiguous`, `q.grad`"


def _place(value: Any) -> Any:
    if isinstance(value, str) and not re.fullmatch(_PLACE, value):
        raise _fault("RG205", f"`{shorten(value)}` is no place in the arguments", _PLACE_HINT)
    return value


Place = Annotated[
    str, StringConstraints(pattern=_PLACE, max_length=96), BeforeValidator(_place), _words(f"Write {_PLACE_HINT}.")
]
Plain = bool | int | float | Text
Bound = int | float | Place


ArgumentDtype = Annotated[
    Literal[
        "bool", "uint8", "int8", "int16", "int32", "int64", "float8_e4m3fn", "float8_e5m2", "float16", "bfloat16",
        "float32", "float64", "complex64", "complex128",
    ],
    _enum({name: f"Arrays of {name}." for name in ARGUMENT_DTYPES}),
]  # fmt: skip


class OpModel(Model, title="op"):
    """A named contract."""

    summary: Text = Field(
        description="What it computes, in one line.", examples=["One deterministic Euler step along the flow ODE."]
    )
    signature: Text = Field(
        description="A Python stub over array, float, int, bool, str, tuple and `| None`.",
        examples=["(sample: array, velocity: array, sigma: float) -> array"],
    )
    reference: PythonPath = Field(
        description="The numpy answer: last rung of every ladder and parity oracle.",
        examples=["acme.reference:attention"],
    )
    cases: PythonPath | None = Field(
        None, description="`cases(dtype, rng)` yields (args, kwargs).", examples=["acme.cases:attention"]
    )
    tolerance: dict[Dtype, ToleranceLike] = Field(
        {},
        description="How far an implementation may be from the reference, by dtype.",
        examples=[{"float64": "exact", "float32": {"rtol": 1.0e-6, "atol": 1.0e-6}}],
    )
    variants: dict[VariantName, Chain] = Field(
        {},
        description="What is tried, in order, for a requested variant.",
        examples=[{"default": ["fused", "default"]}],
    )
    differentiable: list[ArgumentName] = Field(
        [], description="The arguments whose gradients are compared with the reference's.", examples=[["x", "weight"]]
    )
    dtypes: dict[ArgumentName, ArgumentDtype] = Field(
        {},
        description="Arguments that have a dtype of their own, whatever dtype is compared.",
        examples=[{"scale": "float32"}],
    )
    result_dtype: ArgumentName | None = Field(
        None,
        description="The argument that names the result's dtype, where it is not the first array's.",
        examples=["out_dtype"],
    )


class KindModel(Model, title="component kind"):
    """A kind of component: what holds weights, and is built per device."""

    summary: Text = Field(
        description="What it is and how it is called, in one line.",
        examples=["Diffusion transformer. Called as (latent, text_embedding, sigma), gives the velocity."],
    )


_DEFAULT_VARIANT = ["default"]
_GENERIC_TARGET = [GENERIC]
_ANYTHING: dict[str, Any] = {}
MAX_ACCEPTED: Final = 32
"""Conditions on arguments that a cell may have."""


class ArgumentTest(Model, title="condition on an argument", json_schema_extra={"minProperties": 1}):
    """What a number, a name or a size must be, compared with numbers or with what is at another place."""

    one_of: Several[Plain] | None = Field(
        None, description="One of these. A bare list, or a single value, means the same.", examples=[[64, 128]]
    )
    min: Bound | None = Field(None, description="At least this.", examples=[2, "k.shape[-1]"])
    max: Bound | None = Field(None, description="At most this.", examples=[256, "k.shape[2]"])
    multiple_of: Bound | None = Field(None, description="A multiple of this.", examples=[8, "k.shape[1]"])
    equals: Bound | bool | None = Field(None, description="Equal to this.", examples=["k.shape[2]", 64])

    @model_validator(mode="after")
    def _some(self) -> ArgumentTest:
        if not self.model_fields_set:
            hint = "add `min`, `max`, `multiple_of`, `equals` or `one_of`"
            raise _fault("RG203", "a condition on an argument has at least one key", hint)
        return self


def _test_form(value: Any) -> Any:
    return value if isinstance(value, dict) else {"one_of": value if isinstance(value, list) else [value]}


ArgumentTestLike = Annotated[
    ArgumentTest, BeforeValidator(_test_form, json_schema_input_type=Plain | Several[Plain] | ArgumentTest)
]
_NO_CHIPS: list[str] = []


class CellModel(Model):
    """What kernels and components have in common."""

    device: OneOrMore[DeviceName] = Field(description="One device or several.", examples=["cuda", ["cuda", "rocm"]])
    variant: OneOrMore[VariantName] = Field(
        default_factory=lambda: _DEFAULT_VARIANT,
        description="One variant or several. Default: `default`.",
        examples=["fused"],
    )
    impl: PythonPath = Field(
        description="The function that serves, as `module:function`.", examples=["acme.kernels:attention"]
    )
    arrays: Arrays | None = Field(
        None, description="What this one takes and gives, where not the backend's.", examples=["numpy"]
    )
    when: ExpressionLike | None = Field(
        None,
        description="What must hold besides the backend's `requires`.",
        examples=["torch_cuda", {"module": "flash_attn"}],
    )
    degraded: Text | None = Field(
        None,
        description="Why this is much worse than it should be.",
        examples=["about four times slower than a fused kernel"],
    )
    hint: Text | None = Field(
        None,
        description="What to do when this cell is what is missing.",
        examples=["build flash-attention's hopper directory"],
    )


class KernelModel(CellModel, title="cell of an op"):
    """A cell of an op, or several: every member of device x arch x variant must be legal."""

    arch: OneOrMore[TargetName] = Field(
        default_factory=lambda: _GENERIC_TARGET,
        description="One target or several. Default: `generic`.",
        examples=["sm_90", ["sm_80", "sm_90"], "x86_64", "generic"],
    )
    artifact: Artifact | None = Field(
        None, description="What the code is; native, ptx or python by target.", examples=["source"]
    )
    exclude: list[ChipName] = Field(
        default_factory=lambda: _NO_CHIPS,
        description="Device archs on which it must not be offered.",
        examples=[["sm_121"]],
    )
    workspace_bytes: Annotated[int, Field(ge=0)] | None = Field(
        None, description="Memory it takes beside its arguments and results, in bytes.", examples=[0]
    )
    accepts: Annotated[dict[Place, ArgumentTestLike], Field(max_length=MAX_ACCEPTED)] = Field(
        default_factory=lambda: _ANYTHING,
        description="What must hold of a call's arguments; a call that does not fit goes to the next rung.",
        examples=[{"q.dtype": ["float16", "bfloat16"], "q.shape[-1]": {"max": 256, "multiple_of": 8}, "mask": "none"}],
    )


class ComponentModel(CellModel, title="cell of a component kind"):
    """A cell of a component kind, or several: every member of device x variant must be legal."""


class ProfileModel(Model, title="profile"):
    """A policy: what each kind of fall does."""

    extends: ProfileName | None = Field(
        None, description="The profile from which what is not said here is taken.", examples=["default"]
    )
    devices: Several[DeviceName] | None = Field(None, description="Order of detection.", examples=[["cuda", "cpu"]])
    fall: dict[Axis, Level] = Field(
        {}, description="What each kind of fall does.", examples=[{"device": "error", "variant": "warn"}]
    )
    only: BackendName | None = Field(None, description="The one backend whose cells are rungs.", examples=["reference"])
    chains: dict[ServedName, Chains] = Field(
        {},
        description="op: chain for `default`, or op: {variant: chain}. Replaces the op's own.",
        examples=[{"attention": ["acme", "default"]}],
    )


class PlatformModel(Model, title="platform"):
    """A machine that the manifests are meant to serve: what every op reaches there is checked."""

    summary: Text = Field(description="What it is, in one line.", examples=["NVIDIA H200 server."])
    device: DeviceName = Field(description="The device a caller on this machine uses.", examples=["cuda"])
    arch: HardwareName = Field(description="What that device's hardware is, such as `sm_90`.", examples=["sm_90"])
    os: SystemName | None = Field(
        None, description="`linux`, `darwin` or `windows`.", examples=["linux", "darwin", "windows"]
    )
    machine: Text | None = Field(None, description="`x86_64`, `aarch64`, `arm64`, ...", examples=["x86_64"])
    cpu: HardwareName | None = Field(
        None, description="The arch of its CPU, on which it falls back.", examples=["x86_64_v3"]
    )


# Cells need a backend and its arrays, and whatever else a backend has needs its name.
_BACKEND_IS_WHOLE: dict[str, Any] = {
    "dependentRequired": {key: ["backend"] for key in ("arrays", "requires", "hint", "kernels", "components")},
    "if": {
        "anyOf": [{"properties": {key: {"minProperties": 1}}, "required": [key]} for key in ("kernels", "components")]
    },
    "then": {"required": ["arrays"]},
}


class BackendFile(Model):
    """The backend part of a manifest: one backend is one file and one package."""

    backend: Name | None = Field(
        None, description="The name of the backend this file declares: one file, one package.", examples=["acme"]
    )
    arrays: Arrays | None = Field(None, description="What its kernels take and give.", examples=["torch"])
    requires: ExpressionLike | None = Field(
        None,
        description="What must hold for every cell of this file.",
        examples=["torch_present", {"module": "acme >=1.2"}],
    )
    hint: Text | None = Field(
        None, description="What to do when this backend is what is missing.", examples=["pip install acme"]
    )
    kernels: dict[OpName, Several[KernelModel]] = Field(
        {},
        description="Which function serves an op, by op: each cell says where and under which conditions.",
        examples=[{"attention": [{"device": "cuda", "arch": "sm_90", "impl": "acme.kernels:attention"}]}],
    )
    components: dict[KindName, Several[ComponentModel]] = Field(
        {},
        description="Which builder makes a component, by kind.",
        examples=[{"vae": [{"device": "cpu", "impl": "acme.builders:build_vae"}]}],
    )


class ManifestFile(BackendFile, title="rung manifest", json_schema_extra=_BACKEND_IS_WHOLE):
    """One manifest file: `manifest: 1`, and any of the sections below."""

    manifest: Literal[1] = Field(description="The version of the grammar, `manifest: 1`.")
    devices: dict[Name, DeviceModel] = Field(
        {}, description="Device families, by name: probe, arch lattice, what is tried next."
    )
    predicates: dict[Name, ExpressionLike] = Field(
        {},
        description="Named conditions, for `when`, `requires` and `use`. Names are global: prefix yours.",
        examples=[{"acme_present": {"module": "acme >=1.2"}}],
    )
    ops: dict[Name, OpModel] = Field({}, description="Named contracts, which backends serve with kernels.")
    kinds: dict[Name, KindModel] = Field(
        {},
        description="Kinds of component, which backends serve with builders.",
        examples=[{"vae": {"summary": "Image codec."}}],
    )
    profiles: dict[Name, ProfileModel] = Field(
        {},
        description="Named policies: the order of detection, and what each kind of fall does.",
        examples=[{"mine": {"extends": "default", "fall": {"device": "error"}}}],
    )
    platforms: dict[Name, PlatformModel] = Field(
        {},
        description="Machines the manifests are meant to serve. `rung check` says where an op has only its reference.",
        examples=[{"h200": {"summary": "NVIDIA H200 server.", "device": "cuda", "arch": "sm_90"}}],
    )


class CardFact(Model, title="card"):
    """One card of a device."""

    arch: Text = Field(description="The hardware's arch, such as `sm_90`.", examples=["sm_90"])
    name: str = Field("", description="What its vendor calls it.", examples=["NVIDIA H200"])
    uuid: str = Field("", description="What tells it from other cards of the machine.", examples=["GPU-0"])
    pci: str = Field("", description="Its address on the PCI bus.", examples=["0000:3b:00.0"])
    driver: str = Field("", description="Version of its driver.", examples=["580.159"])
    runtime: str = Field("", description="Version of the runtime that the driver serves.", examples=["13.0"])
    index: int | None = Field(None, description="Position in the runtime's own order, when known.", examples=[0])
    note: str = Field("", description="What could not be found out, in words.")


class CpuFact(Model, title="CPU"):
    """The CPU."""

    flags: list[Text] = Field(description="Its features, as Linux names them.", examples=[["avx2", "fma"]])


class FactsFile(Model, title="rung facts"):
    """What a machine is: `rung facts` writes it, `--facts` reads it. What it does not say is unknown."""

    facts: Literal[1] = Field(description="The version of the grammar, `facts: 1`.")
    os: Text | None = Field(None, description="`linux`, `darwin` or `windows`.", examples=["linux"])
    machine: Text | None = Field(None, description="`x86_64`, `aarch64`, `arm64`, ...", examples=["x86_64"])
    python: Text | None = Field(None, description="Version of the interpreter.", examples=["3.11.7"])
    cpu: CpuFact | None = Field(None, description="The CPU: its flags.", examples=[{"flags": ["avx2", "fma"]}])
    modules: dict[str, Text | bool] = Field(
        {},
        description='Version, true or false; `"*": false` says: and nothing else.',
        examples=[{"torch": "2.13.0+cpu", "flash_attn": False}],
        json_schema_extra={"properties": {"*": {"const": False, "description": "Nothing else is installed."}}},
    )
    files: dict[str, bool] = Field(
        {}, description="Files inside packages: `package/inner/path`.", examples=[{"acme/engine.so": True}]
    )
    devices: dict[Name, list[CardFact]] = Field(
        {}, description="[] means: looked for, none found.", examples=[{"cuda": []}]
    )
    env: dict[str, str] = Field(
        {}, description="Environment variables, as far as predicates ask for them.", examples=[{"RUNG_DISABLE": ""}]
    )
    probes: dict[str, bool] = Field(
        {}, description="Answers of probes, by `module:function`.", examples=[{"acme.probes:has_engine": True}]
    )
