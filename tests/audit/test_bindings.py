"""What manifests bind, judged from the source alone."""

from __future__ import annotations

import os
import sys
from importlib.machinery import EXTENSION_SUFFIXES
from typing import TYPE_CHECKING

import pytest

from judging import ROOTS, codes, judged
from rung.audit import bindings
from rung.audit.modules import MAX_SOURCE, Missing, Module, Modules
from rung.audit.scene import Scene
from rung.audit.signatures import misfit, shown, stub
from rung.cli import main

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from conftest import Write
    from rung.diagnostics import Problem

    Rule = Callable[[Scene], Iterator[Problem]]

STEP = "def step(sample, velocity, sigma, sigma_next): ...\n"
HEAD = "manifest: 1\nbackend: acme\narrays: numpy\n"


def manifest(*impls: str, builders: tuple[str, ...] = ()) -> str:
    rows = [f'    - {{device: cpu, arch: numpy, variant: v{i}, impl: "{path}"}}\n' for i, path in enumerate(impls)]
    built = [f'    - {{device: cpu, variant: v{i}, impl: "{path}"}}\n' for i, path in enumerate(builders)]
    kernels = "".join(["kernels:\n  flow_match_step:\n", *rows]) if rows else ""
    return HEAD + kernels + ("".join(["components:\n  dit:\n", *built]) if built else "")


def found(
    root: Path, text: str, roots: frozenset[str] | None = ROOTS, rules: Sequence[Rule] = bindings.RULES[:1]
) -> list[Problem]:
    """Judge the bindings of one manifest text; packages are looked for beside it."""
    path = root / "m.yaml"
    path.write_text(text, encoding="utf-8")
    scene = Scene(judged(path, roots=roots), root, (str(root), *sys.path))
    for rule in rules:
        scene.whole.problems.found.extend(rule(scene))
    return list(scene.whole.problems)


def said(problems: list[Problem]) -> list[str]:
    return [f"{p.code} {p.message}" for p in problems]


class TestModules:
    @pytest.mark.parametrize(
        ("path", "message"),
        [
            ("acme.kernels:step", ""),
            ("acme.inner.deep:step", ""),
            ("acme.spread.one:step", ""),
            ("acme.spread.two:step", ""),
            ("acme.native:anything", ""),
            ("acme.compiled:anything", ""),
            ("single:step", ""),
            ("acme.Kernels:step", "package `acme` has no module `Kernels`"),
            ("acme.inner.dep:step", "package `acme.inner` has no module `dep`"),
            ("acme.kernels.step:step", "`acme.kernels` is no package: it has no module `step`"),
        ],
    )
    def test_a_module_is_found_where_python_would_find_it(
        self, write: Write, tmp_path: Path, path: str, message: str
    ) -> None:
        write(
            {
                "acme/__init__.py": "",
                "acme/kernels.py": STEP,
                "acme/inner/deep.py": STEP,  # no __init__.py: a namespace package
                "acme/spread/__init__.py": "__path__ = __import__('pkgutil').extend_path(__path__, __name__)\n",
                "acme/spread/one.py": STEP,
                "acme/compiled.pyc": "",
                f"acme/native{EXTENSION_SUFFIXES[0]}": "",
                "elsewhere/acme/spread/two.py": STEP,
                "single.py": STEP,
            }
        )
        problems = found(tmp_path, manifest(path), ROOTS | {"single"})
        assert said(problems) == ([f"RG501 {message}"] if message else [])

    def test_a_namespace_package_is_put_together_from_all_directories(self, write: Write, tmp_path: Path) -> None:
        write({"one/acme/a.py": STEP, "two/acme/b.py": STEP})
        modules = Modules([str(tmp_path / "one"), str(tmp_path / "two")])
        assert [isinstance(modules.find(f"acme.{name}"), Missing) for name in "abc"] == [False, False, True]

    def test_a_package_that_is_nowhere_is_reported_once_at_its_first_place(self, tmp_path: Path) -> None:
        (problem,) = found(tmp_path, manifest("acme.a:step", "acme.b:step", "acme.c:step"))
        assert problem.where is not None
        assert (problem.code, problem.message, problem.where.line) == ("RG501", "package `acme` is not found", 6)
        assert problem.cell == "acme/flow_match_step@cpu.numpy#v0"
        assert "2 other places too" in problem.hint

    def test_a_module_that_is_missing_is_reported_at_every_place(self, write: Write, tmp_path: Path) -> None:
        write({"acme/__init__.py": ""})
        assert codes(found(tmp_path, manifest("acme.a:step", "acme.a:step"))) == ["RG501", "RG501"]

    def test_one_fault_of_many_rows_is_counted_without_those_that_have_their_own(self, tmp_path: Path) -> None:
        text = manifest("acme.a:step", "acme.a:step", "acme.a:step", "acme.b:step", builders=("acme.a:step",))
        (problem,) = found(tmp_path, text)
        assert "4 other places too" in problem.hint
        problems = found(tmp_path, text.replace("arch: numpy, variant: v0", "arch: numpyy, variant: v0"))
        (problem,) = (p for p in problems if p.code == "RG501")
        assert problem.where is not None
        assert (problem.where.line, problem.cell) == (6, "acme/flow_match_step@cpu.numpyy#v0")
        assert "4 other places too" in problem.hint
        lost = text.replace('v0, impl: "acme.a:step"', 'v0, impl: "acme.a.step"')
        (problem,) = (p for p in found(tmp_path, lost) if p.code == "RG501")
        assert problem.where is not None
        assert (problem.where.line, "2 other places too" in problem.hint) == (7, True)

    def test_a_fault_of_many_rows_is_reported_at_the_first_that_is_not_silenced(self, tmp_path: Path) -> None:
        text = manifest(*["acme.a:step"] * 3)
        rows = text.splitlines(keepends=True)
        silent = [row.replace("\n", "  # rung: ignore[RG501] it comes later\n") for row in rows]
        (problem,) = found(tmp_path, "".join([*rows[:5], silent[5], *rows[6:]]))
        assert problem.where is not None
        assert (problem.where.line, "1 other place too" in problem.hint) == (7, True)
        assert found(tmp_path, "".join([*rows[:5], *silent[5:]])) == []

    def test_an_op_among_the_components_is_not_called_as_a_builder(self, write: Write, tmp_path: Path) -> None:
        write({"acme/kernels.py": STEP + "class Step:\n    def __init__(self, x): ...\n"})
        text = manifest(builders=("acme.kernels:step", "acme.kernels:Step"))
        assert codes(found(tmp_path, text)) == ["RG503", "RG503"]
        assert codes(found(tmp_path, text.replace("  dit:", "  flow_match_step:"))) == ["RG302"]

    def test_without_an_allow_list_every_package_that_is_named_counts(self, write: Write, tmp_path: Path) -> None:
        write({"acme/kernels.py": "from other.kernels import step\n", "other/kernels.py": STEP})
        both = manifest("acme.kernels:step", "other.kernels:step")
        assert found(tmp_path, both, None) == []
        assert codes(found(tmp_path, manifest("acme.kernels:step"), None)) == ["RG803"]

    def test_a_close_package_is_suggested(self, write: Write, tmp_path: Path) -> None:
        write({"acme/kernels.py": STEP})
        (problem,) = found(tmp_path, manifest("acmee.kernels:step"), None)
        assert "did you mean `acme`?" in problem.hint

    def test_what_is_not_allowed_is_reported_as_that_alone(self, tmp_path: Path) -> None:
        assert codes(found(tmp_path, manifest("nowhere.kernels:step"))) == ["RG801"]


NAMES = """\
import os
import os.path
from functools import partial
from os import system
from .others import given as taken, nothing, step as again
from .others import *
from .nowhere import lost

run = os.system
path = os.path
made = partial(print)
alias = step
first, (second, *rest) = step, (1, 2)
annotated: int
annotated_value: object = made
try:
    from fast import quick
except ImportError:
    quick = None
try:
    from .others import maybe
except ImportError:
    def maybe(sample, velocity, sigma, sigma_next): ...
if os.name == "nt":
    def chosen(sample, velocity, sigma, sigma_next): ...
elif os.name == "posix":
    chosen = step
else:
    raise OSError
for looped in (step,):
    pass
with open(__file__) as held:
    inside = step
match os.name:
    case "nt" | "posix" as matched:
        pass
gone = step
del gone
if (walrus := step):
    pass
if False:
    never = step
circle = round_trip
round_trip = circle
def step(sample, velocity, sigma, sigma_next): ...
"""
UNDEFINED = "RG502 module `acme.kernels` does not define `{}`"
OTHERS = """\
__all__ = ["starred"]
def given(sample, velocity, sigma, sigma_next): ...
def starred(sample, velocity, sigma, sigma_next): ...
def unlisted(sample, velocity, sigma, sigma_next): ...
def step(sample, velocity, sigma, sigma_next): ...
"""


class TestNames:
    @pytest.mark.parametrize(
        ("name", "expected"),
        [
            *(
                (name, "")
                for name in (
                    "step",
                    "taken",
                    "again",
                    "starred",
                    "made",
                    "alias",
                    "first",
                    "rest",
                    "second",
                    "annotated_value",
                )
            ),
            *((name, "") for name in ("maybe", "chosen", "looped", "held", "inside", "matched", "walrus", "circle")),
            ("system", "RG803 `system` is really from `os`, which is not allowed"),
            ("run", "RG803 `run` is really from `os`, which is not allowed"),
            ("os", "RG504 `os` is the module `os`, not a function"),
            ("quick", "RG803 `quick` is really from `fast`, which is not allowed"),
            ("nothing", "RG502 `nothing` comes from `acme.others`, which has none"),
            ("lost", "RG502 `lost` comes from `acme.nowhere`, which is not there"),
            *((name, UNDEFINED.format(name)) for name in ("annotated", "gone", "unlisted", "never")),
        ],
    )
    def test_a_name_is_followed_to_where_it_is_defined(
        self, write: Write, tmp_path: Path, name: str, expected: str
    ) -> None:
        write({"acme/__init__.py": "", "acme/kernels.py": NAMES, "acme/others.py": OTHERS})
        wanted = [expected] if expected else []
        assert [
            s.replace("from `posix`", "from `os`") for s in said(found(tmp_path, manifest(f"acme.kernels:{name}")))
        ] == wanted

    def test_re_exports_are_followed_through_any_number_of_files(self, write: Write, tmp_path: Path) -> None:
        files = {f"acme/m{i}.py": f"from .m{i + 1} import step\n" for i in range(200)}
        write({**files, "acme/m200.py": "def step(sample): ...\n"})
        assert codes(found(tmp_path, manifest("acme.m0:step"))) == ["RG503"]

    @pytest.mark.parametrize(
        "body",
        [
            "def __getattr__(name): return print\n",
            "globals()['step'] = print\n",
            "import sys\nsys.modules[__name__] = object()\n",
            "exec('def step(): ...')\n",
            "from not_installed import *\n",
        ],
        ids=["getattr", "globals", "sys.modules", "exec", "star"],
    )
    def test_a_module_that_makes_its_own_names_may_have_any(self, write: Write, tmp_path: Path, body: str) -> None:
        write({"acme/kernels.py": body})
        assert found(tmp_path, manifest("acme.kernels:step")) == []

    @pytest.mark.parametrize(
        ("init", "path", "code"),
        [
            pytest.param("{extend}\nfrom .impl import *\n", "step", "", id="a-star-in-a-spread-package"),
            pytest.param("{extend}\nfrom .impl import *\n", "setp", "RG502", id="a-slip-in-a-spread-package"),
            pytest.param("{extend}\nfrom .impl import *\n", "impl", "RG504", id="a-module-of-a-spread-package"),
            pytest.param("__path__.append('x')\nfrom .impl import *\n", "step", "", id="a-longer-path"),
            pytest.param("__path__.append('x')\nfrom .impl import *\n", "setp", "", id="what-a-longer-path-may-have"),
            pytest.param("import sys\nsys.modules[f'{{__name__}}.old'] = sys\nfrom .impl import *\n", "step", "",
                         id="a-star-beside-a-made-module"),
            pytest.param("import sys\nsys.modules[__name__ + '.old'] = sys\nfrom .impl import *\n", "setp", "RG502",
                         id="a-slip-beside-a-made-module"),
            pytest.param("import sys\nsys.modules[__name__ + '.old'] = sys\n", "old", "", id="a-made-module"),
            pytest.param("import sys\nfor m in 'ab':\n    sys.modules[m] = sys\n", "old", "", id="any-made-module"),
            pytest.param("import sys\nsys.meta_path.append(object())\n", "old", "", id="an-import-hook"),
            pytest.param("import pkgutil\nfor m in pkgutil.iter_modules(__path__):\n    pass\n", "setp", "RG502",
                         id="a-path-that-is-read"),
            pytest.param("from .impl import *\n", "impl", "RG504", id="a-module-beside-a-star"),
            pytest.param("from .same import *\n", "same", "", id="a-star-over-the-module-it-is-from"),
        ],
    )  # fmt: skip
    def test_what_a_package_takes_from_its_modules_comes_before_modules_that_it_may_have(
        self, write: Write, tmp_path: Path, init: str, path: str, code: str
    ) -> None:
        extend = "__path__ = __import__('pkgutil').extend_path(__path__, __name__)"
        same = STEP.replace("step", "same")
        write({"acme/__init__.py": init.format(extend=extend), "acme/impl.py": STEP, "acme/same.py": same})
        assert codes(found(tmp_path, manifest(f"acme:{path}"))) == ([code] if code else [])

    @pytest.mark.parametrize(
        ("init", "code"),
        [
            pytest.param("{extend}", "", id="pkgutil"),
            pytest.param("__import__('pkg_resources').declare_namespace(__name__)", "", id="setuptools"),
            pytest.param("import sys\nsys.modules[__name__ + '.other.old'] = sys", "", id="made"),
            pytest.param("import sys\nsys.modules.update(made)", "", id="any"),
            pytest.param("import sys\nsys.modules['acme.another'] = sys", "RG501", id="another"),
            pytest.param("print(list(__path__), __path__[0])", "RG501", id="read"),
        ],
    )
    def test_a_module_may_come_from_elsewhere(self, write: Write, tmp_path: Path, init: str, code: str) -> None:
        extend = "import pkgutil\n__path__ = pkgutil.extend_path(__path__, __name__)"
        write({"acme/__init__.py": init.format(extend=extend), "acme/one.py": STEP})
        assert codes(found(tmp_path, manifest("acme.other.old:step"))) == ([code] if code else [])

    @pytest.mark.parametrize(
        ("body", "code"),
        [
            pytest.param("def setup():\n    global step\n    def step(sample): ...\nsetup()\n", "", id="function"),
            pytest.param("step = None\ndef setup():\n    global step\n    step = print\n", "", id="over-a-value"),
            pytest.param("class A:\n    def f(self):\n        global x, step\n        import step\n", "", id="method"),
            pytest.param("step = None\nif (step := print): pass\n", "", id="expression"),
            pytest.param("step = None\ndef setup():\n    step = print\n", "RG504", id="a-local-name"),
            pytest.param("def setup():\n    global setp\n    setp = print\n", "RG502", id="another-name"),
        ],
    )
    def test_a_name_may_be_bound_later(self, write: Write, tmp_path: Path, body: str, code: str) -> None:
        write({"acme/kernels.py": body})
        assert codes(found(tmp_path, manifest("acme.kernels:step"))) == ([code] if code else [])

    @pytest.mark.parametrize(
        ("exports", "code"),
        [
            pytest.param("__all__ = ['other']\n", "RG502", id="written-out"),
            pytest.param("__all__ = ['other']\nprint(sorted(__all__))\n", "RG502", id="read"),
            pytest.param("__all__ = ['other']\n__all__ += ['step']\n", "", id="added"),
            pytest.param("__all__ = ['other']\ndef more():\n    __all__.append('step')\n", "", id="in-a-function"),
            pytest.param("__all__ = ['other']\nmore(__all__)\n", "", id="by-a-function"),
            pytest.param("__all__ = ['other']\n__all__[:] = more\n", "", id="in-place"),
        ],
    )
    def test_a_star_takes_what_is_exported(self, write: Write, tmp_path: Path, exports: str, code: str) -> None:
        write({"acme/__init__.py": "from .impl import *\n", "acme/impl.py": STEP + exports})
        assert codes(found(tmp_path, manifest("acme:step"))) == ([code] if code else [])

    def test_a_function_written_in_c_is_not_taken_for_a_module(self, tmp_path: Path) -> None:
        names = ("sin", "sqrt", "matmul", "dot", "transpose", "einsum")
        problems = found(tmp_path, manifest(*(f"numpy:{name}" for name in names)), ROOTS | {"numpy"})
        assert {problem.code for problem in problems} <= {"RG503"}

    @pytest.mark.parametrize(
        ("raw", "line"),
        [
            (b"def step(:\n", 1),
            (b"x = 1\n\x00\n", None),
            (b"# coding: nonsense\n", None),
            (b"x = '\xff'\n", None),
            (b"\xff\xfex\x00", None),
        ],
        ids=["syntax", "null byte", "cookie", "not utf-8", "utf-16"],
    )
    def test_a_module_that_cannot_be_parsed_is_reported_once(
        self, write: Write, tmp_path: Path, raw: bytes, line: int | None
    ) -> None:
        root = write({"acme/__init__.py": ""})
        (root / "acme/kernels.py").write_bytes(raw)
        (problem,) = found(tmp_path, manifest("acme.kernels:a", "acme.kernels:b"))
        assert problem.code == "RG502"
        assert problem.message.startswith("module `acme.kernels` cannot be parsed: ")
        ((place, _),) = problem.related
        assert place.path == "acme/kernels.py"
        assert line is None or place.line == line

    def test_so_is_a_package_above_it(self, write: Write, tmp_path: Path) -> None:
        write({"acme/__init__.py": "def (\n", "acme/kernels.py": STEP})
        assert said(found(tmp_path, manifest("acme.kernels:step"))) == [
            "RG502 module `acme` cannot be parsed: invalid syntax"
        ]

    @pytest.mark.parametrize(
        "text",
        [
            "x = " + "(" * 5000 + ")" * 5000,
            "x = " + "-" * 50_000 + "1",
            "x = " + "+".join(["1"] * 20_000),
            "if a: pass\n" + "elif b: pass\n" * 3000,
            "#" * (MAX_SOURCE + 1),
            "# coding: punycode\n" + "x" * 1000,
            "# coding: nonsense\n",
            'f"""' + "{a}" * (MAX_SOURCE // 4) + '"""',
        ],
        ids=["brackets", "signs", "terms", "elif", "size", "encoding", "no encoding", "f-string"],
    )
    def test_a_hostile_module_costs_no_traceback(self, write: Write, tmp_path: Path, text: str) -> None:
        write({"acme/kernels.py": f"{text}\n{STEP}"})
        assert {p.code for p in found(tmp_path, manifest("acme.kernels:step"))} <= {"RG502"}

    def test_what_all_sources_may_cost_is_bounded(self, write: Write, tmp_path: Path) -> None:
        write({f"acme/k{number}.py": f"a = {'{}'}\n" for number in range(3)})
        modules = Modules([str(tmp_path)])
        modules.sources.left = 13
        opened = []
        for number in range(3):
            module = modules.find(f"acme.k{number}")
            assert isinstance(module, Module)
            opened.append(module.names.is_open)
        assert opened == [False, True, True]

    @pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="pipes and devices lie in directories on POSIX")
    @pytest.mark.parametrize("odd", ["acme/__init__.py", "acme/kernels.py", "acme.py", "acme/z.py"])
    @pytest.mark.parametrize("kind", ["pipe", "endless", "loop", "folder"])
    def test_what_is_no_regular_file_is_no_module(self, write: Write, tmp_path: Path, odd: str, kind: str) -> None:
        write({"acme/real.py": STEP + STEP.replace("step", "other")})
        path = tmp_path / odd
        match kind:
            case "pipe":
                os.mkfifo(path)
            case "endless":
                path.symlink_to("/dev/zero")
            case "loop":
                path.symlink_to(path)
            case _:
                path.mkdir()
        problems = found(tmp_path, manifest("acme.real:step", "acme.kernels:step"), rules=bindings.RULES)
        assert {*said(problems)} == {
            "RG501 package `acme` has no module `kernels`",
            "RG508 no cell binds `acme.real:other`",
        }

    @pytest.mark.parametrize("entry", ["x" * 300, "a\0b", "m.yaml", "m.yaml/below", "nowhere"])
    def test_an_entry_of_the_search_path_that_cannot_be_looked_at_is_skipped(
        self, write: Write, tmp_path: Path, entry: str
    ) -> None:
        write({"acme/kernels.py": STEP, "m.yaml": ""})
        modules = Modules([str(tmp_path / entry), str(tmp_path)])
        assert isinstance(modules.find("acme.kernels"), Module)
        assert isinstance(modules.find("acme.none"), Missing)
        assert isinstance(modules.find("nobody"), Missing)

    @pytest.mark.parametrize("name", ["rung.py", "rung/__init__.py", "rung_backends/__init__.py", "rung_backends.py"])
    def test_this_program_is_found_where_it_lies(
        self, write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
    ) -> None:
        write({name: ""})
        monkeypatch.setattr(sys, "path", [entry for entry in sys.path if entry != str(tmp_path)])
        modules = Modules([str(tmp_path), *sys.path])
        for module in ("rung.facts", "rung_backends.torch.solver"):
            assert isinstance(modules.find(module), Module)


OP = "(x: array, y: float, *, mask: array | None = None, scale: float = 1.0) -> array"


class TestParameters:
    @pytest.mark.parametrize(
        ("given", "reason"),
        [
            ("(x, y, *, mask=None, scale=1.0)", ""),
            ("(x, y, mask=None, scale=1.0)", ""),
            ("(x, y, *, scale=1, mask=None, more=3)", ""),
            ("(x, y=2, *, mask=None, scale=DEFAULT)", ""),
            ("(*args, **kwargs)", ""),
            ("(x, y, **kwargs)", ""),
            ("(x, *rest, y=1, **kwargs)", ""),
            ("(x, *, mask=None, scale=1.0)", "`f` has no parameter `y`"),
            ("(a, y, *, mask=None, scale=1.0)", "`f` calls parameter 1 `a`, not `x`"),
            ("(y, x, *, mask=None, scale=1.0)", "`f` has `y` where the op has `x`"),
            ("(x, /, y, *, mask=None, scale=1.0)", "`f` takes `x` by position only"),
            ("(x, *, y, mask=None, scale=1.0)", "`f` takes `y` by keyword only"),
            ("(*args)", "`f` does not take `x` by name"),
            ("(**kwargs)", "`f` has no parameter `x`"),
            ("(x, y, *, scale=1.0)", "`f` has no parameter `mask`"),
            ("(x, y, *, masks=None, scale=1.0)", "`f` has no parameter `mask`, only `masks`"),
            ("(x, y, *, mask, scale=1.0)", "`mask` has a default, and none in `f`"),
            ("(x, y, *, mask=None, scale=2.0)", "`scale` of `f` defaults to 2.0, not 1.0"),
            ("(x, y, z, *, mask=None, scale=1.0)", "`f` requires `z`, which it is not given"),
            ("(x, y, *, mask=None, scale=1.0, z)", "`f` requires `z`, which it is not given"),
        ],
    )
    def test_every_call_of_the_op_must_be_taken(self, given: str, reason: str) -> None:
        assert misfit(stub(OP), stub(given), "f") == reason

    @pytest.mark.parametrize(
        ("given", "reason"),
        [
            ("(a, b)", ""),
            ("(a, b, c=1)", ""),
            ("(*args)", ""),
            ("(a)", "`f` takes 1 of 2 arguments: no place for `rng`"),
            ("(a, b, c)", "`f` requires `c`, which it is not given"),
        ],
    )
    def test_what_is_called_by_position_may_name_its_parameters_as_it_likes(self, given: str, reason: str) -> None:
        assert misfit(stub("(dtype, rng, /)"), stub(given), "f") == reason

    def test_a_signature_is_shown_without_types(self) -> None:
        assert shown(stub(OP)) == "(x, y, *, mask=None, scale=1.0)"

    @pytest.mark.parametrize(
        ("body", "code"),
        [
            ("import functools\n@functools.lru_cache(maxsize=None)\ndef step(a): ...\n", "RG503"),
            ("from functools import cache as kept\n@kept\ndef step(a): ...\n", "RG503"),
            ("import torch\n@torch.no_grad()\ndef step(a): ...\n", "RG503"),
            ("import torch\n@torch.compile\nasync def step(a): ...\n", "RG504"),
            ("from helpers import changed\n@changed\ndef step(a): ...\n", ""),
            ("import functools\n@functools.wraps(print)\ndef step(a): ...\n", ""),
            ("step = lambda a: a\n", "RG503"),
            ("step = lambda sample, velocity, sigma, sigma_next: sample\n", ""),
            ("step = print if 1 > 2 else (lambda a: a)\n", "RG503"),
        ],
    )
    def test_a_decorated_function_is_judged_where_the_decorator_is_known(
        self, write: Write, tmp_path: Path, body: str, code: str
    ) -> None:
        write({"acme/kernels.py": body})
        assert codes(found(tmp_path, manifest("acme.kernels:step"))) == ([code] if code else [])

    def test_one_function_of_several_rows_is_one_finding(self, write: Write, tmp_path: Path) -> None:
        write({"acme/kernels.py": "def step(sample): ...\n"})
        (problem,) = found(tmp_path, manifest("acme.kernels:step", "acme.kernels:step"))
        assert problem.code == "RG503"
        assert problem.hint == "the op is called as `(sample, velocity, sigma, sigma_next)` (1 other place too)"
        assert [(place.path, place.line) for place, _ in problem.related] == [("acme/kernels.py", 1)]

    def test_an_op_with_a_fault_is_held_against_nobody(self, write: Write, tmp_path: Path) -> None:
        write({"acme/kernels.py": "def step(): ...\ndef cases(dtype, rng): ...\n"})
        op = 'ops:\n  op_x:\n    summary: X.\n    signature: "(x: tensor) -> int"\n    reference: "acme.kernels:step"\n'
        assert codes(found(tmp_path, f"manifest: 1\n{op}    tolerance: {{}}\n")) == ["RG202"]


VALUES = """\
number, text, none, truth = 1, "a", None, True
listed, table, pair, unique = [], {}, (1, 2), {1}
joined = f"{number}"
either = 1 if truth else "b"
class Kind: ...
async def later(sample, velocity, sigma, sigma_next): ...
def one_by_one(sample, velocity, sigma, sigma_next): yield sample
def within(sample, velocity, sigma, sigma_next):
    def inner(): yield 1
    return inner
"""


TWO = "RG503 `two` requires `b`, which it is not given"


class TestFunctions:
    @pytest.mark.parametrize(
        ("name", "what"),
        [
            ("number", "a number"),
            ("text", "a text"),
            ("none", "None"),
            ("truth", "True"),
            ("listed", "a list"),
            ("table", "a dict"),
            ("pair", "a tuple"),
            ("unique", "a set"),
            ("joined", "a text"),
            ("either", "a number"),
            ("Kind", "a class"),
            ("later", "a coroutine"),
            ("one_by_one", "a generator"),
            ("within", ""),
        ],
    )
    def test_a_kernel_is_a_function(self, write: Write, tmp_path: Path, name: str, what: str) -> None:
        write({"acme/kernels.py": VALUES})
        wanted = [f"RG504 `{name}` is {what}, not a function"] if what else []
        assert said(found(tmp_path, manifest(f"acme.kernels:{name}"))) == wanted

    @pytest.mark.parametrize(
        ("body", "message"),
        [
            ("def build(spec, instance, platform): ...\n", ""),
            ("def build(a, b, c): ...\n", ""),
            ("def build(spec): ...\n", "RG503 `build` takes 1 of 3 arguments: no place for `instance`"),
            ("class build:\n    def __init__(self, spec, instance, platform): ...\n", ""),
            (
                "class build:\n    def __init__(self, spec): ...\n",
                "RG503 `build` takes 1 of 3 arguments: no place for `instance`",
            ),
            ("class build: ...\n", "RG503 `build` takes 0 of 3 arguments: no place for `spec`"),
            ("from x import Base\nclass build(Base): ...\n", ""),
            ("from dataclasses import dataclass\n@dataclass\nclass build: ...\n", ""),
            ("build = 3\n", "RG504 `build` is a number, not a function"),
        ],
    )
    def test_a_builder_may_be_a_class(self, write: Write, tmp_path: Path, body: str, message: str) -> None:
        write({"acme/builders.py": body})
        problems = found(tmp_path, manifest(builders=("acme.builders:build",)))
        assert said(problems) == ([message] if message else [])

    @pytest.mark.parametrize(
        ("entry", "message"),
        [
            ('predicates: {p: {probe: "acme.x:one"}}', ""),
            ('predicates: {p: {not: {any: [{os: linux}, {probe: "acme.x:two"}]}}}', TWO),
            ('devices: {npu: {summary: An NPU, arrays: [numpy], detect: "acme.x:two"}}', TWO),
            ('devices: {npu: {summary: An NPU, arrays: [numpy], detect: "acme.x:yields"}}', ""),
        ],
        ids=["probe", "nested probe", "detect", "detect may yield"],
    )
    def test_probes_are_judged_by_how_they_are_called(
        self, write: Write, tmp_path: Path, entry: str, message: str
    ) -> None:
        write({"acme/x.py": "def one(a): ...\ndef two(a, b): ...\ndef yields(a): yield\n"})
        wanted = [message] if message else []
        assert said(found(tmp_path, f"manifest: 1\n{entry}\n")) == wanted

    @pytest.mark.parametrize(
        ("body", "codes_of_it"),
        [
            ("class step: ...\n", ["RG504"]),
            ("class step(object): ...\n", ["RG504"]),
            ("class Base: ...\nclass step(Base): ...\n", ["RG504"]),
            ("from .base import Base\nclass step(Base): ...\n", ["RG504"]),
            ("from . import base\nclass step(base.Base): ...\n", ["RG504"]),
            ("class step(step): ...\n", ["RG504"]),
            ("class Meta(type):\n    def __call__(cls, *rest): ...\nclass step(metaclass=Meta): ...\n", []),
            ("from .base import Made\nclass step(Made): ...\n", []),
            ("from elsewhere import Base\nclass step(Base): ...\n", []),
            ("class step(make()): ...\n", []),
            ("class step:\n    def __new__(cls, *rest): return 3\n", []),
        ],
    )
    def test_a_class_is_no_function_unless_its_metaclass_has_a_say(
        self, write: Write, tmp_path: Path, body: str, codes_of_it: list[str]
    ) -> None:
        base = "class Base: ...\nclass Meta(type): ...\nclass Made(metaclass=Meta): ...\n"
        write({"acme/kernels.py": body, "acme/base.py": base})
        assert codes(found(tmp_path, manifest("acme.kernels:step"))) == codes_of_it

    @pytest.mark.parametrize(
        ("files", "is_offered"),
        [
            ({"_fast.py": STEP}, True),
            ({"_fast/__init__.py": STEP}, True),
            ({f"_fast{EXTENSION_SUFFIXES[0]}": ""}, True),
            ({}, False),
        ],
        ids=["module", "package", "extension", "not there"],
    )
    def test_what_lies_beside_may_be_allowed_too(
        self, write: Write, tmp_path: Path, files: dict[str, str], is_offered: bool
    ) -> None:
        write({"acme/kernels.py": "from _fast import step\n", **files})
        (problem,) = found(tmp_path, manifest("acme.kernels:step"))
        assert problem.code == "RG803"
        assert ("`--allow acme --allow _fast`" in problem.hint) is is_offered


FUSED = STEP.replace("step", "fused")
BOTH = STEP + FUSED


class TestForgotten:
    def test_a_function_that_looks_like_a_kernel_and_is_not_bound(self, write: Write, tmp_path: Path) -> None:
        write({"acme/kernels.py": BOTH})
        (problem,) = found(tmp_path, manifest("acme.kernels:step"), rules=bindings.RULES)
        assert (problem.code, problem.severity) == ("RG508", "warning")
        assert problem.message == "no cell binds `acme.kernels:fused`"
        assert [(place.path, place.line) for place, _ in problem.related] == [("acme/kernels.py", 2)]

    @pytest.mark.parametrize(
        ("files", "impls"),
        [
            ({"acme/kernels.py": STEP + STEP.replace("step", "_fused")}, ["step"]),
            ({"acme/kernels.py": STEP + "def fused(sample, velocity): ...\n"}, ["step"]),
            ({"acme/kernels.py": STEP.replace("...", "return fused") + FUSED}, ["step"]),
            ({"acme/kernels.py": STEP + "@registered\n" + FUSED}, ["step"]),
            ({"acme/kernels.py": BOTH, "acme/user.py": "from .kernels import fused\n"}, ["step"]),
            ({"acme/kernels.py": BOTH, "acme/user.py": "import acme.kernels\nacme.kernels.fused(1)\n"}, ["step"]),
            ({"acme/kernels.py": BOTH, "acme/user.py": "from .kernels import *\n"}, ["step"]),
            ({"acme/kernels.py": BOTH, "acme/user.py": "TABLE = ['acme.kernels:fused']\n"}, ["step"]),
            ({"acme/kernels.py": BOTH, "acme/user.py": "fused = (\n"}, ["step"]),
            ({"acme/kernels.py": BOTH, "acme/user.py": "#" * (MAX_SOURCE + 1)}, ["step"]),
            ({"acme/kernels.py": BOTH}, ["step", "fuesd"]),
            ({"acme/kernels.py": BOTH}, ["step", "_fused"]),
            ({"acme/kernels.py": "def step(sample): ...\n" + FUSED}, ["step"]),
        ],
        ids=[
            "private",
            "other call",
            "used",
            "registered",
            "imported",
            "asked for",
            "starred",
            "spelt",
            "unread",
            "large",
            "misspelt",
            "rejected",
            "meant",
        ],
    )
    def test_what_may_be_meant_for_something_else_is_passed_over(
        self, write: Write, tmp_path: Path, files: dict[str, str], impls: list[str]
    ) -> None:
        write(files)
        assert "RG508" not in codes(
            found(tmp_path, manifest(*(f"acme.kernels:{name}" for name in impls)), rules=bindings.RULES)
        )

    def test_a_path_that_was_rejected_may_name_it(self, write: Write, tmp_path: Path) -> None:
        write({"acme/kernels.py": BOTH})
        text = manifest("acme.kernels:step", "acme.kernels.fused")
        assert "RG508" not in codes(found(tmp_path, text, rules=bindings.RULES))
        assert "RG508" not in codes(
            found(tmp_path, text.replace('impl: "acme.kernels.fused"', "hint: none"), rules=bindings.RULES)
        )


LONG = "x" * 60


@pytest.mark.parametrize(
    ("path", "body"),
    [
        (f"acme.{LONG}:{LONG}", ""),
        (f"acme.kernels.{LONG}:{LONG}", ""),
        (f"acme.kernels:{LONG}", ""),
        (f"acme.kernels:{LONG}", f"import {LONG}"),
        (f"acme.kernels:{LONG}", f"from .{LONG} import {LONG}"),
        (f"acme.kernels:{LONG}", f"from {LONG} import {LONG}"),
        (f"acme.kernels:{LONG}", f"{LONG} = 3"),
        (f"acme.kernels:{LONG}", f"class {LONG}: ..."),
        (f"acme.kernels:{LONG}", f"def {LONG}({LONG}, {LONG}2): ..."),
        (f"acme.kernels:{LONG}", f"def {LONG}(velocity, sample, sigma, sigma_next, {LONG}): ..."),
        (f"acme.kernels:{LONG}", "def ("),
    ],
)
def test_a_message_stays_short_whatever_it_names(write: Write, tmp_path: Path, path: str, body: str) -> None:
    write({"acme/kernels.py": body})
    (problem,) = found(tmp_path, manifest(path))
    assert len(problem.message) <= 80
    assert problem.hint


def test_a_check_imports_nothing_and_leaves_nothing_behind(write: Write, capsys: pytest.CaptureFixture[str]) -> None:
    marker = "open(__file__ + '.marker', 'w')\n"
    root = write(
        {
            "m/acme.yaml": manifest("acme.kernels:step", "acme.inner:again"),
            "acme/__init__.py": marker,
            "acme/kernels.py": marker + STEP,
            "acme/inner.py": marker + "from .kernels import step as again\n",
        }
    )
    before = sorted(path.name for path in root.rglob("*"))
    main(["check", str(root / "m"), "--root", str(root), "--allow", "acme"])
    assert "RG50" not in capsys.readouterr().out
    assert sorted(path.name for path in root.rglob("*")) == before
    assert not {"acme", "acme.kernels"} & set(sys.modules)
