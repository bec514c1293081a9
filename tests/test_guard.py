"""Guards: each call goes to the first rung that accepts it, at the cost of the questions alone."""

from __future__ import annotations

import importlib
import inspect
import re
import sys
import threading
import traceback
import warnings
from functools import partial
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import torch
from hypothesis import given as drawn
from hypothesis import strategies as st

import rung
from rung.arguments import refusal
from rung.diagnostics import Where
from rung.entries import Cell, Condition, Op
from rung.guard import Guard

if TYPE_CHECKING:
    from collections.abc import Iterator

    from conftest import Load

OPS = """\
manifest: 1
ops:
  attend:
    summary: An attention that says who served it.
    signature: "(q: array, k: array, *, mask: array | None = None, causal: bool = False) -> array"
    reference: "acme.kernels:reference"
    variants: {default: [flash, tiled, default]}
backend: acme
arrays: ARRAYS
hint: install acme
kernels:
  attend:
    - device: cpu
      variant: flash
      impl: "acme.flash:flash"
      accepts: {q.dtype: [float16, float32], "q.shape[-1]": {max: 256, multiple_of: 8}, mask: none}
    - device: cpu
      variant: tiled
      impl: "acme.kernels:tiled"
      accepts: {q.dtype: [float32, float64], mask.dtype: bool, "q.shape[1]": {multiple_of: "k.shape[1]"}}
"""
KERNELS = """
def tiled(q, k, *, mask=None, causal=False): return "tiled"
def reference(q, k, *, mask=None, causal=False): return "reference"
"""
FLASH = """
def flash(q, k, *, mask=None, causal=False):
    if causal == "fail":
        raise IndexError("from the kernel")
    return "flash"
"""


def platform(load: Load, *, arrays: str = "numpy", profile: str = "default", **modules: str) -> rung.Platform:
    table = load(OPS.replace("ARRAYS", arrays), **{"acme__kernels": KERNELS, "acme__flash": FLASH, **modules})
    return rung.Platform.of("cpu", "generic", arrays=arrays, profile=profile, table=table)


def array(dtype: str = "float32", *shape: int) -> np.ndarray[Any, Any]:
    return np.zeros(shape or (1, 2, 4, 64), dtype)


CALLS = [
    ("flash", array(), {}),
    ("flash", array("float16"), {"causal": True}),
    ("tiled", array(), {"mask": array("bool", 4)}),
    ("tiled", array("float64"), {}),
    ("tiled", array("float32", 1, 2, 4, 260), {}),
    ("tiled", array("float32", 1, 2, 4, 12), {}),
    ("reference", array("float16"), {"mask": array("bool", 4)}),
    ("reference", array("float32"), {"mask": array("float32", 4)}),
    ("reference", array("float64", 1, 3, 4, 64), {}),
    ("reference", array("int64"), {}),
    ("reference", array("float64", 7), {}),
    ("reference", [1, 2], {}),
]


@pytest.mark.parametrize(("serves", "q", "kwargs"), CALLS)
def test_a_call_goes_to_the_first_rung_that_accepts_it(load: Load, serves: str, q: Any, kwargs: dict[str, Any]) -> None:
    here = platform(load)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert [here.kernels["attend"](q, array(), **kwargs) for _ in range(2)] == [serves, serves]
    values = {"q": q, "k": array(), **kwargs}
    assert here.explain("attend", arguments=values).cell.variant == serves.replace("reference", "default")  # type: ignore[union-attr]


@pytest.mark.parametrize(("serves", "q", "kwargs"), [call for call in CALLS if isinstance(call[1], np.ndarray)])
def test_tensors_are_guarded_alike(load: Load, serves: str, q: Any, kwargs: dict[str, Any]) -> None:
    here = platform(load, arrays="torch")
    tensors = {name: torch.from_numpy(v) if isinstance(v, np.ndarray) else v for name, v in kwargs.items()}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert here.kernels["attend"](torch.from_numpy(q), torch.zeros(1, 2, 4, 64), **tensors) == serves


def test_the_source_is_what_one_would_write(load: Load) -> None:
    function = platform(load).kernels["attend"]
    lines = [line.partition(" (/")[0].rstrip() for line in inspect.getsource(function).splitlines()]
    expected = """\
def attend(q, k, *, mask=None, causal=False):
    # attend on cpu.generic with numpy arrays
    q_dtype = q_shape = None
    try:
        # acme/attend@cpu.generic#flash
        if (
            mask is None
            and (q_dtype or (q_dtype := q.dtype)) in (float16_, float32_)
            and (q_shape or (q_shape := q.shape))[-1] <= 256
            and q_shape[-1] % 8 == 0
        ):
            serve = rung_acme_flash
        elif not (isinstance(q, ndarray) and (mask is None or isinstance(mask, ndarray))):
            serve = odd(q, k, mask=mask, causal=causal)
        # acme/attend@cpu.generic#tiled
        elif (
            (q_dtype or (q_dtype := q.dtype)) in (float32_, float64_)
            and (mask is None or mask.dtype == bool_)
            and len(q_shape or (q_shape := q.shape)) >= 2
            and len(k_shape := k.shape) >= 2
            and q_shape[1] % k_shape[1] == 0
        ):
            serve = rung_acme_tiled
        else:
            # reference/attend@cpu.numpy#default
            serve = rung_reference
    except Exception:
        serve = odd(q, k, mask=mask, causal=causal)
    return serve(q, k, mask=mask, causal=causal)"""
    assert "\n".join(lines) == expected
    assert function.__doc__.startswith("An attention that says who served it.")
    assert str(inspect.signature(function)) == "(q, k, *, mask=None, causal=False)"


def test_a_rung_is_imported_when_a_call_reaches_it(load: Load) -> None:
    here = platform(load)
    function = here.kernels["attend"]
    assert "acme.flash" not in sys.modules
    assert function(array("float64"), array()) == "tiled"
    assert "acme.flash" not in sys.modules
    assert function(array(), array()) == "flash"
    assert function.__globals__["rung_acme_flash"] is sys.modules["acme.flash"].flash
    assert here.kernels["attend"] is function


def test_what_a_kernel_raises_is_its_own_and_the_lines_are_shown(load: Load) -> None:
    function = platform(load).kernels["attend"]
    for _ in range(2):
        with pytest.raises(IndexError, match="from the kernel") as error:
            function(array(), array(), causal="fail")
        shown = "".join(traceback.format_exception(error.value))
        assert "return serve(q, k, mask=mask, causal=causal)" in shown
        assert "During handling" not in shown


def test_a_call_python_would_refuse_names_the_op(load: Load) -> None:
    with pytest.raises(TypeError, match=r"attend\(\) missing 1 required positional argument: 'k'"):
        platform(load).kernels["attend"](array())


def test_a_fall_for_an_argument_is_said_once_with_the_reason(load: Load) -> None:
    function = platform(load).kernels["attend"]
    with pytest.warns(rung.FallbackWarning) as said:
        function(array("int64"), array())
    (warning,) = said
    assert warning.filename == __file__
    assert "reference: the numpy reference serves; passed over acme/attend@cpu.generic#flash" in str(warning.message)
    assert "does not accept the call: `q.dtype` is int64, not float16 or float32" in str(warning.message)
    assert "install acme" not in str(warning.message)
    function(array("int32"), array())  # warnings are errors here


def test_a_broken_rung_leaves_its_calls_to_the_rungs_below(load: Load) -> None:
    here = platform(load, acme__flash="raise OSError('no driver')\n")
    function = here.kernels["attend"]
    with pytest.warns(rung.FallbackWarning, match="no driver") as said:
        assert function(array(), array()) == "tiled"
    assert len(said) == 1
    sys.modules["acme.flash"] = None  # type: ignore[assignment]  # importing it again would be another failure
    try:
        assert function(array(), array()) == "tiled"
        with pytest.warns(rung.FallbackWarning, match="the numpy reference serves; broken: "):
            assert function(array("float16"), array()) == "reference"
    finally:
        del sys.modules["acme.flash"]
    assert [r.verdict for r in here.explain("attend").rungs] == ["broken", "yes", "yes"]


def test_a_broken_rung_leaves_the_source(load: Load) -> None:
    function = platform(load, acme__flash="raise OSError('no driver')\n").kernels["attend"]
    assert "rung_acme_flash" in function.__code__.co_names
    with pytest.warns(rung.FallbackWarning, match="no driver"):
        function(array(), array())
    assert "rung_acme_flash" not in function.__code__.co_names
    assert "rung_acme_tiled" in function.__code__.co_names


def test_what_was_broken_is_tried_again_by_another_platform(load: Load) -> None:
    here = platform(load, acme__flash="raise OSError('no driver')\n")
    with pytest.warns(rung.FallbackWarning, match="no driver"):
        assert here.kernels["attend"](array(), array()) == "tiled"
    directory = sys.modules["acme.kernels"].__file__.rpartition("/")[0]  # type: ignore[union-attr]
    with open(f"{directory}/flash.py", "w", encoding="utf-8") as repaired:  # noqa: PTH123
        repaired.write(FLASH + "# repaired\n")
    importlib.invalidate_caches()
    again = rung.Platform.of("cpu", "x86_64", arrays="numpy", table=here.table)
    assert again.kernels["attend"](array(), array()) == "flash"


def test_a_variant_that_is_named_is_bound_at_once(load: Load) -> None:
    here = platform(load)
    function = here.kernels.get("attend", "flash")
    assert "acme.flash" in sys.modules
    assert function(array(), array()) == "flash"


def test_a_variant_that_is_named_and_broken_is_said_at_once(load: Load) -> None:
    broken = platform(load, acme__flash="raise OSError('no driver')\n")
    with pytest.warns(rung.FallbackWarning, match="no driver"):
        function = broken.kernels.get("attend", "flash")
    assert function(array(), array()) == "tiled"


@pytest.fixture
def hasty() -> Iterator[None]:
    """Let threads change places as often as they can."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


@pytest.mark.usefixtures("hasty")
def test_threads_that_meet_broken_rungs_agree(load: Load) -> None:
    rungs = range(8)
    head = OPS[: OPS.index("    - device: cpu")].replace("ARRAYS", "numpy")
    chain = ", ".join(f"v{n}" for n in rungs)
    rows = [f'    - {{device: cpu, variant: v{n}, impl: "acme.k{n}:f", '
            f"accepts: {{q.rank: {n // 2 + 1}, k.dtype: float32}}}}\n" for n in rungs]  # fmt: skip
    modules = {f"acme__k{n}": f"def f(q, k, *, mask=None, causal=False): return {n}\n" if n % 2 else "raise OSError\n"
               for n in rungs}  # fmt: skip
    table = load(head.replace("[flash, tiled, default]", f"[{chain}, default]") + "".join(rows),
                 acme__kernels=KERNELS, **modules)  # fmt: skip
    wrong: list[object] = []

    def call(function: Any, first: int) -> None:
        for turn in range(20):
            rank = (first + turn) % 4 + 1
            try:
                made = function(np.zeros((1,) * rank), np.zeros(1, "f4"))
            except BaseException as error:
                made = error
            if made != 2 * rank - 1:
                wrong.append(made)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for _ in range(10):
            facts = rung.detect(device="cpu", table=table).facts.override({})  # for a platform of its own
            here = rung.Platform.of("cpu", "generic", arrays="numpy", facts=facts, table=table)
            function = here.kernels["attend"]
            threads = [threading.Thread(target=call, args=(function, number)) for number in range(8)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            assert wrong == []
            assert [name for name in function.__code__.co_names if re.fullmatch(r"rung_acme_v[0246]", name)] == []


def test_strict_refuses_with_each_rung_and_the_value_it_saw(load: Load) -> None:
    function = platform(load, profile="strict").kernels["attend"]
    assert function(array(), array()) == "flash"
    for _ in range(2):
        with pytest.raises(rung.FallError) as error:
            function(array("int64"), array())
        lines = str(error.value).splitlines()
        assert lines[0].startswith("attend: profile strict forbids a fall on reference: the numpy reference serves")
        assert any("`q.dtype` is int64, not float16 or float32" in line for line in lines)
        assert any("`q.dtype` is int64, not float32 or float64" in line for line in lines)


def test_require_takes_this_variant_or_raises(load: Load) -> None:
    function = platform(load).kernels.require("attend", "flash")
    assert function(array(), array()) == "flash"
    with pytest.raises(rung.FallError, match="`mask` is given, and must be none"):
        function(array(), array(), mask=array("bool", 4))
    with pytest.raises(rung.FallError, match="`q` is a list, no array"):
        function([], array())


def test_a_variant_that_was_asked_for_and_does_not_accept_is_a_fall(load: Load) -> None:
    function = platform(load).kernels.get("attend", "flash")
    with pytest.warns(rung.FallbackWarning, match="variant: `flash` was asked for and `tiled` serves"):
        assert function(array(), array(), mask=array("bool", 4)) == "tiled"


def test_specialize_gives_the_bare_function(load: Load) -> None:
    kernels = platform(load).kernels
    assert kernels.specialize("attend", q=array(), k=array()).__name__ == "flash"
    assert kernels.specialize("attend", q="float64[1,2,4,64]", k="float64[1,2,4,64]").__name__ == "tiled"
    with pytest.raises(TypeError, match=r"whether acme/attend@cpu\.generic#flash serves depends on `q`"):
        kernels.specialize("attend", k=array())
    with pytest.raises(TypeError, match="has no argument `key`"):
        kernels.specialize("attend", key=array())
    with pytest.warns(rung.FallbackWarning, match="the numpy reference serves"):
        assert kernels.specialize("attend", "default", q="int8[2]", k="int8[2]").__name__ == "reference"


def test_specialize_works_for_ops_that_accept_everything() -> None:
    kernels = rung.Platform.cpu().kernels
    assert kernels.specialize("flow_match_step") is kernels["flow_match_step"]


def test_without_arguments_the_resolution_shows_what_stays_open(load: Load) -> None:
    outcome = platform(load).explain("attend")
    assert [rung.cell.variant for rung in outcome.live] == ["flash", "tiled", "default"]
    assert outcome.cell is outcome.live[0].cell
    assert outcome.falls == ()
    assert outcome.as_dict()["live"] == [rung.cell.id for rung in outcome.live]
    assert "attend#flash" not in str(outcome)
    assert ", and 2 more for other arguments" in str(outcome)
    assert "accepts mask none; q.dtype float16 or float32; q.shape[-1] at most 256;" in str(outcome)


def test_arguments_that_are_not_said_leave_open_what_depends_on_them(load: Load) -> None:
    here = platform(load)
    some = here.explain("attend", arguments={"q": "float64[2,2,4,64]"})
    assert [rung.cell.variant for rung in some.live] == ["tiled", "default"]
    assert some.rungs[0].reason == "does not accept the call: `q.dtype` is float64, not float16 or float32"
    settled = here.explain("attend", arguments={"q": "float64[2,2,4,64]", "k": "float64[2,1,4,64]"})
    assert [rung.cell.variant for rung in settled.live] == ["tiled"]
    assert settled.rungs[-1].verdict == "not tried"


def test_a_rung_of_another_library_is_bridged_when_it_is_reached(load: Load) -> None:
    torch_cells = OPS.replace("ARRAYS", "torch")
    kernels = "def reference(q, k, *, mask=None, causal=False):\n    return q + k\n"
    table = load(torch_cells, acme__kernels=kernels, acme__flash=FLASH)
    function = rung.Platform.of("cpu", "generic", arrays="torch", table=table).kernels["attend"]
    assert function(torch.zeros(1, 2, 4, 64), torch.zeros(1)) == "flash"
    ones = torch.ones(3, dtype=torch.int64)
    with pytest.warns(rung.FallbackWarning, match="the numpy reference serves"):
        assert torch.equal(function(ones, ones), ones + ones)


def test_arrays_of_another_library_are_judged_in_words_and_spoil_nothing(load: Load) -> None:
    function = platform(load).kernels["attend"]
    assert function(torch.zeros(1, 2, 4, 64), torch.zeros(1, 2, 4, 64)) == "flash"
    with pytest.warns(rung.FallbackWarning, match="the numpy reference serves"):
        assert function(torch.zeros(3, dtype=torch.int8), torch.zeros(3)) == "reference"
    assert function(array(), array()) == "flash"
    assert function(array("float64"), array()) == "tiled"


def test_a_guard_can_be_compiled_over(load: Load) -> None:
    kernels = KERNELS.replace('return "', "return q + 1  # ")
    flash = FLASH.replace('return "flash"', "return q + 2")
    function = platform(load, arrays="torch", acme__kernels=kernels, acme__flash=flash).kernels["attend"]
    x = torch.zeros(1, 2, 4, 64)
    function(x, x)  # binding is not for tracing
    function(x.double(), x.double())
    compiled = torch.compile(lambda q: function(q, q) * 2, backend="eager", fullgraph=True)
    assert compiled(x).unique().tolist() == [4.0]
    assert compiled(x.double()).unique().tolist() == [2.0]


SIGNATURES = {
    "places and keywords": "(q: array, /, k: array, *, mask: array | None = None)",
    "names of the source": "(q: array, serve: array, rung_acme_default: float = 1.0, odd: int = 2, nobody: int = 3)",
    "names of what is read": "(q: array, k: array, q_dtype: str = 'x', q_shape: int = 3)",
    "a dtype": "(q: array, k: array, float32_: float = 1.0, hasattr: float = 0.0, records_gradient: bool = False)",
    "infinities": "(q: array, k: array, s: float = 1e400, t: float = -1e400)",
    "what Python has": "(q: array, k: array, *, self: int = 1, len: int = 2, Exception: int = 3, isinstance: int = 4)",
    "what numpy has": "(q: array, k: array, ndarray: float = 1.0, numpy: int = 2, int: int = 3, float: int = 4)",
    "defaults": "(q: array, k: array, a: float = -1.5, b: str = 'its own', c: bool = True, d: int | None = None)",
}


@pytest.mark.parametrize("signature", SIGNATURES.values(), ids=[*SIGNATURES])
@pytest.mark.parametrize("op", ["mix", "list", "lambda"])
def test_no_name_gets_in_the_way(load: Load, signature: str, op: str) -> None:
    names = re.findall(r"(\w+):", signature)
    manifest = f"""\
manifest: 1
ops:
  {op}:
    summary: What it was given.
    signature: "{signature} -> array"
    reference: "acme.kernels:refused"
backend: acme
arrays: numpy
kernels:
  {op}:
    - device: cpu
      impl: "acme.kernels:taken"
      accepts: {{q.dtype: float32, q.rank: 2, "q.shape[0]": {{min: 1, max: 9}}}}
"""
    stub = signature.replace(": array | None", ": object").replace(": array", ": object")
    body = "\n".join(f"def {who}{stub}:\n    return '{who}', ({', '.join(names)})" for who in ("taken", "refused"))
    function = rung.Platform.of(
        "cpu", "generic", arrays="numpy", table=load(manifest, acme__kernels=body)
    ).kernels[op]  # fmt: skip
    q, k = array("float32", 2, 4), array()
    who, values = function(q, k)
    assert who == "taken"
    defaults = sys.modules["acme.kernels"].taken(q, k)[1][2:]
    assert values[0] is q
    assert values[1] is k
    assert values[2:] == defaults
    with pytest.warns(rung.FallbackWarning, match=r"`q\.dtype` is float64"):
        assert function(q.astype("f8"), k)[0] == "refused"
    assert function([1.0], k)[0] == "refused"
    (odd,) = (name for name, value in function.__globals__.items() if getattr(value, "__name__", "") == "_choose")
    function.__globals__[odd] = None
    assert function(q, k)[0] == "taken"
    assert function(q.astype("f8"), k)[0] == "refused"


def test_two_rungs_of_one_variant_are_told_apart(load: Load) -> None:
    manifest = (
        OPS.replace("ARRAYS", "numpy")
        + """\
    - {device: cpu, arch: numpy, variant: flash, impl: "acme.kernels:tiled", accepts: {q.dtype: int8}}
    - {device: cpu, variant: flash_, impl: "acme.kernels:reference", accepts: {q.dtype: int16}}
"""
    )
    table = load(manifest.replace("[flash, tiled,", "[flash_, flash, tiled,"), acme__kernels=KERNELS, acme__flash=FLASH)
    function = rung.Platform.of("cpu", "generic", arrays="numpy", table=table).kernels["attend"]
    calls = [("flash", "float32"), ("tiled", "int8"), ("reference", "int16"), ("flash", "float16")]
    assert [function(array(dtype), array()) for _, dtype in calls] == [who for who, _ in calls]


with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # torch says that these are new
    SPARSE = torch.eye(4).to_sparse_csr()
ODD = {
    "sparse": SPARSE,
    "a text": "q",
    "a type": np.ndarray,
    "an object array": np.array([object()]),
    "a number": 3,
    "no axes": np.float32(3),
}


@pytest.mark.parametrize("arrays", ["numpy", "torch"])
@pytest.mark.parametrize("value", ODD.values(), ids=[*ODD])
def test_reading_an_argument_never_raises(load: Load, arrays: str, value: Any) -> None:
    accepts = '{q.contiguous: last, k.contiguous: true, "q.shape[1]": {multiple_of: "k.shape[0]"}, q.grad: false}'
    text = OPS.replace('{q.dtype: [float16, float32], "q.shape[-1]": {max: 256, multiple_of: 8}, mask: none}', accepts)
    text = text.replace("ARRAYS", arrays)
    kernels = KERNELS.replace("q, k, *, mask", "q, k, *, mask").replace('return "tiled"', 'return "reference"')
    table = load(text, acme__kernels=kernels, acme__flash=FLASH)
    function = rung.Platform.of("cpu", "generic", arrays="numpy", table=table).kernels["attend"]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", rung.FallbackWarning)
        assert function(value, value) == "reference"


@pytest.mark.parametrize("rows", [
    ["q.dtype: float32", "q.dtype: [float32, float64]"],
    ["q.rank: 4", "q.dtype: float64, q.rank: {min: 1}"],
    ["'q.shape[3]': 64, mask: none", "'q.shape[3]': {min: 1}, q.dtype: float64"],
    ["mask.dtype: bool, q.dtype: float32", "mask.dtype: bool, mask.rank: 1", "q.dtype: float64, mask.rank: 2"],
    ["'q.shape[1]': {equals: 'k.shape[1]'}", "'k.shape[1]': {max: 1}, q.contiguous: last, k.contiguous: last"],
    ["q.size: {min: 9}, q.contiguous: true", "q.size: {min: 4}, q.grad: false", "k.size: {equals: q.size}"],
], ids=str)  # fmt: skip
@pytest.mark.parametrize("arrays", ["numpy", "torch"])
def test_no_call_with_arrays_has_to_be_judged_in_words(load: Load, arrays: str, rows: list[str]) -> None:
    head = OPS[: OPS.index("    - device: cpu")].replace("ARRAYS", arrays)
    listed = [
        f'    - {{device: cpu, variant: v{n}, impl: "acme.kernels:tiled", accepts: {{{row}}}}}'
        for n, row in enumerate(rows)
    ]
    text = head.replace("[flash, tiled, default]", f"[{', '.join(f'v{n}' for n in range(len(rows)))}, default]")
    table = load(text + "\n".join(listed) + "\n", acme__kernels=KERNELS)
    function = rung.Platform.of("cpu", "generic", arrays=arrays, table=table).kernels["attend"]

    def odd(*_: Any, **__: Any) -> Any:
        raise AssertionError("an argument could not be read")

    function.__globals__["odd"] = odd
    made = [array(dtype, *shape) for dtype in ("float32", "float64", "int8")
            for shape in ((1, 2, 4, 64), (3,), (2, 2), (0, 4), (2, 3, 4))]  # fmt: skip
    masks = [None, array("bool", 3), array("float32", 2, 2)]
    values = [torch.from_numpy(each) for each in made] if arrays == "torch" else made
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", rung.FallbackWarning)
        for q, k, mask in product(values, values[::4], masks):
            function(q, k, mask=torch.from_numpy(mask) if arrays == "torch" and mask is not None else mask)


class Counted(np.ndarray[Any, Any]):
    """An array that counts which of its attributes are read."""

    reads: list[str]

    def __getattribute__(self, name: str) -> Any:
        if not name.startswith("__") and name != "reads":
            self.reads.append(name)
        return super().__getattribute__(name)


def counted(dtype: str) -> Counted:
    found = array(dtype).view(Counted)
    found.reads = []
    return found


@pytest.mark.parametrize("dtype", ["float32", "float64", "int8"])
def test_each_attribute_is_read_once(load: Load, dtype: str) -> None:
    function = platform(load).kernels["attend"]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        function(array(dtype), array())  # binds
    q, k = counted(dtype), counted(dtype)
    function(q, k)
    assert {*q.reads} <= {"dtype", "shape"}
    assert len(q.reads) == len({*q.reads})
    assert len(k.reads) <= 1


PLACES = ("a.dtype", "a.rank", "a.shape[0]", "a.shape[-1]", "a.size", "a.contiguous", "a.grad", "b.dtype", "b.rank",
          "b.shape[-1]", "a", "b", "flag", "factor")  # fmt: skip
OP = Op("mix", "A mix.", "(a: array, b: array | None = None, flag: bool = False, *, factor: float = 1.0) -> array",
        "acme.k:f", Where("ops.yaml", 1, 1))  # fmt: skip


@st.composite
def conditions(draw: st.DrawFn) -> Condition:
    place = draw(st.sampled_from(PLACES))
    part = place.partition(".")[2].partition("[")[0]
    if place in ("a", "b"):
        return Condition("b", "is", draw(st.sampled_from(["none", "given"])))
    if part == "dtype":
        names = draw(st.lists(st.sampled_from(["float32", "float64", "bfloat16", "bool"]), max_size=3))
        other = "b.dtype" if place == "a.dtype" else "a.dtype"
        return Condition(place, "in", tuple(names)) if names else Condition(place, "equals", other)
    words: dict[str, list[tuple[Any, ...]]] = {
        "contiguous": [(True,), ("last",)], "grad": [(True,), (False,)], "flag": [(True,), (False,)],
    }  # fmt: skip
    few = words.get(part or place)
    if few is not None:
        return Condition(place, "in", draw(st.sampled_from(few)))
    test = draw(st.sampled_from(["in", "min", "max", "equals", "multiple_of"]))
    number = draw(st.integers(0, 4))
    if test == "in":
        return Condition(place, "in", tuple(draw(st.lists(st.integers(0, 4), min_size=1, max_size=3))))
    others = ["a.rank", "b.shape[0]", "a.shape[-1]", "factor"]
    return Condition(place, test, draw(st.sampled_from([number, *others])))


def arrays(library: str) -> list[Any]:
    made: list[Any] = [np.zeros(shape, dtype) for shape, dtype in
                       product([(), (0,), (3,), (2, 4), (4, 2, 1)], ["float32", "float64", "bool"])]  # fmt: skip
    made += [np.zeros((4, 4), "f4").T, np.zeros((4, 8), "f4")[:, ::2], np.zeros((4, 4), "f4")[::2], np.zeros(3, ">f4")]
    if library == "torch":
        made = [torch.from_numpy(each) for each in made[:-1]]
        made += [torch.zeros(2, requires_grad=True), torch.zeros(2, dtype=torch.bfloat16), torch.zeros(3, 2).T]
    return [*made, [1, 2], 3.0]


def is_sound(library: str, value: Any) -> bool:
    kind: Any = np.ndarray if library == "numpy" else torch.Tensor
    return value is None or (isinstance(value, kind) and value.ndim > 0 and 0 not in value.shape)


@pytest.mark.parametrize("library", ["numpy", "torch"])
@drawn(data=st.data())
def test_the_function_chooses_as_the_conditions_say(library: str, data: st.DataObject) -> None:
    asked = data.draw(st.lists(st.lists(conditions(), max_size=4), min_size=1, max_size=4))
    of_another = (
        [np.zeros((2, 4), "f4"), np.zeros(3, "?")] if library == "torch" else [torch.zeros(2, 4), torch.zeros(())]
    )
    values = st.sampled_from([*arrays(library), *of_another])
    a, b = data.draw(values), data.draw(st.none() | values)
    flag, factor = data.draw(st.booleans()), data.draw(st.sampled_from([0, 1, 2.0, 3, np.int64(0), np.int64(2)]))
    cells = [Cell(f"acme/mix@cpu.numpy#v{i}", "acme", "mix", "cpu", "numpy", f"v{i}", library, "acme.k:f", "python",
                  Where("acme.yaml", i + 1, 1), accepts=tuple(each)) for i, each in enumerate(asked)]  # fmt: skip
    fits = [not refusal(OP, cell, (a, b, flag), {"factor": factor}) for cell in cells]
    expected = fits.index(True) if any(fits) else None

    def reach(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, Any, list[Cell]]:
        return None, lambda *_, **__: None, []

    guard = Guard(OP, cells, library, "mix", reach)
    for number, (name, _) in enumerate(guard.rungs):
        guard.scope[name] = lambda *_, number=number, **__: number
    divisors = [c.value for cell in cells for c in cell.accepts if c.test == "multiple_of"]
    if all(map(partial(is_sound, library), (a, b))) and 0 not in (factor, *divisors):
        guard.scope[guard.odd] = None  # the source judges such a call by itself
    assert guard.function(a, b, flag, factor=factor) == expected
