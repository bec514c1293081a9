"""Binding: what a dotted path may be, what it may reach, and what becomes of failures."""

from __future__ import annotations

import functools
import importlib
import importlib.machinery
import math
import os
import sys
from typing import TYPE_CHECKING

import pytest

import rung
from rung.bind import bind, home, is_installed, parse, provide, root_of, withdraw

if TYPE_CHECKING:
    from conftest import Write

STEP = "def step(x):\n    return x + 1\n"


class TestParse:
    @pytest.mark.parametrize(
        ("path", "parts"),
        [
            ("acme:step", ("acme", "step")),
            ("acme.kernels:step", ("acme.kernels", "step")),
            ("acme._private.v2:Step_3", ("acme._private.v2", "Step_3")),
        ],
    )
    def test_read(self, path: str, parts: tuple[str, str]) -> None:
        assert parse(path) == parts

    @pytest.mark.parametrize(
        "path",
        [
            "acme.kernels",
            "acme.kernels:",
            ":step",
            "acme:os.system",
            "acme:step:more",
            "acme:_private",
            "acme:__import__",
            "acme:3d",
            "acme.kernels:step()",
            "acme kernels:step",
            "acme..kernels:step",
            ".kernels:step",
            "acme:step\n",
            "acme:st\u00e9p",
            "",
        ],
    )
    def test_refused(self, path: str) -> None:
        with pytest.raises(ValueError, match="is not of the form"):
            parse(path)
        with pytest.raises(rung.BindError, match="is not of the form"):
            bind(path, {"acme"})

    def test_root(self) -> None:
        assert root_of("acme.kernels.v2:step") == root_of("acme:step") == root_of("acme") == "acme"


class TestBind:
    def test_it_gives_the_object_itself(self, write: Write) -> None:
        write({"acme_b/__init__.py": "", "acme_b/kernels.py": STEP})
        found = bind("acme_b.kernels:step", {"acme_b"})
        assert found is sys.modules["acme_b.kernels"].step
        assert found(1) == 2

    def test_a_package_that_is_not_allowed_is_not_imported(self, write: Write) -> None:
        write({"acme_b.py": STEP})
        with pytest.raises(rung.BindError, match=r"package `acme_b` is not allowed: pass allow=\['acme_b'\]"):
            bind("acme_b:step", {"acme", "rung"})
        assert "acme_b" not in sys.modules

    @pytest.mark.parametrize(
        ("body", "said"),
        [
            ("raise PermissionError(13, 'Permission denied')", "raised PermissionError: [Errno 13] Permission denied"),
            ("raise SystemExit(3)", "importing `acme_b.kernels` raised SystemExit: 3"),
            ("raise KeyError('libamd_smi.so')", "raised KeyError: 'libamd_smi.so'"),
            ("class Panic(BaseException): ...\nraise Panic('called unwrap on None')", "raised Panic: called unwrap"),
            ("import no_such_package_here", "raised ModuleNotFoundError: No module named 'no_such_package_here'"),
            ("import ctypes\nctypes.CDLL('libno-such.so.7')", "raised OSError: libno-such.so.7: cannot open shared"),
            ("def step(:", "raised SyntaxError"),
            ("from acme_b import kernels\nkernels.step", "raised AttributeError"),
            ("", "module `acme_b.kernels` has no `step`"),
            ("def stepp(x): ...", "has no `step`; did you mean `stepp`?"),
            ("step = 3", "`acme_b.kernels:step` is int, not a function"),
            ("step = 'os.system'", "is str, not a function"),
            ("from os import system as step", "outside the allowed packages; define a function in `acme_b.kernels`"),
            ("from subprocess import run as step", "`acme_b.kernels:step` is really from `subprocess`"),
            ("import os as step", "is module, not a function"),
            (
                "from functools import partial\nfrom os import system\nstep = partial(partial(system), 'x')",
                "outside the",
            ),
            ("step = ''.join", "is really from `builtins`"),
            (
                "def __getattr__(name): raise OSError('libx.so: bad')",
                "getting `step` of `acme_b.kernels` raised OSError",
            ),
            ("def __getattr__(name): raise AttributeError(name)", "has no `step`"),
        ],
        ids=lambda value: value.splitlines()[0] if value.splitlines() else "empty",
    )
    def test_what_cannot_be_bound_says_why(self, write: Write, body: str, said: str) -> None:
        write({"acme_b/__init__.py": "", "acme_b/kernels.py": body + "\n"})
        with pytest.raises(rung.BindError) as caught:
            bind("acme_b.kernels:step", {"acme_b"})
        assert said in str(caught.value)

    def test_a_broken_extension_module(self, write: Write) -> None:
        suffix = importlib.machinery.EXTENSION_SUFFIXES[0]
        write({f"acme_native{suffix}": "this is no library"})
        with pytest.raises(rung.BindError, match="importing `acme_native` raised ImportError"):
            bind("acme_native:step", {"acme_native"})

    def test_the_cause_is_chained(self, write: Write) -> None:
        write({"acme_b.py": "raise PermissionError(13, 'no')\n"})
        with pytest.raises(rung.BindError) as caught:
            bind("acme_b:step", {"acme_b"})
        assert isinstance(caught.value.__cause__, PermissionError)

    def test_a_person_may_still_interrupt(self, write: Write) -> None:
        write({"acme_b.py": "raise KeyboardInterrupt\n"})
        with pytest.raises(KeyboardInterrupt):
            bind("acme_b:step", {"acme_b"})

    @pytest.mark.parametrize(
        "body",
        [
            "class step:\n    def __init__(self, x): ...\n",
            "class Step:\n    def __call__(self, x): return x\nstep = Step()\n",
            "from functools import partial\ndef _step(x, y): return x\nstep = partial(_step, y=1)\n",
            "from functools import lru_cache\n@lru_cache\ndef step(x): return x\n",
            "step = lambda x: x\n",
            "from acme_b.inner import step\n",
            "def __getattr__(name):\n    from acme_b.inner import step\n    return step\n",
        ],
        ids=["class", "instance", "partial", "decorated", "lambda", "re-exported", "lazy"],
    )
    def test_what_is_the_packages_own(self, write: Write, body: str) -> None:
        write({"acme_b/__init__.py": "", "acme_b/inner.py": STEP, "acme_b/kernels.py": body})
        assert callable(bind("acme_b.kernels:step", {"acme_b"}))

    def test_a_function_of_another_allowed_package(self, write: Write) -> None:
        write({"acme_b.py": STEP, "acme_c.py": "from acme_b import step\n"})
        assert bind("acme_c:step", {"acme_b", "acme_c"})(1) == 2
        with pytest.raises(rung.BindError, match="is really from `acme_b`"):
            bind("acme_c:step", {"acme_c"})


class TestLocal:
    def test_a_provided_object_has_a_path(self) -> None:
        path = provide("test_bind_thing", max)
        assert path == "local:test_bind_thing"
        assert bind(path, {"local"}) is max
        with pytest.raises(rung.BindError, match="package `local` is not allowed"):
            bind(path, {"acme"})
        withdraw([path])
        with pytest.raises(rung.BindError, match="No module named 'local'"):
            bind(path, {"local"})

    def test_only_what_can_be_called_is_provided(self) -> None:
        with pytest.raises(rung.BindError, match="42 is of type int, not a function"):
            provide("test_bind_thing", 42)


@pytest.mark.parametrize(
    ("found", "module"),
    [
        (os.path.join, os.path.join.__module__),
        (math.sin, "math"),
        (functools.partial(functools.partial(math.sin), 0.0), "math"),
        (rung.Platform.cpu, "rung.platform"),
        (3, "builtins"),
    ],
    ids=["function", "built-in", "partial", "method", "number"],
)
def test_home(found: object, module: str) -> None:
    assert home(found) == module


def test_what_is_not_installed_is_known_without_importing(write: Write) -> None:
    write({"acme_there/__init__.py": "raise RuntimeError\n"})
    assert is_installed("acme_there.kernels:step")
    assert not is_installed("acme_nowhere.kernels:step")
    assert is_installed("local:anything")
    assert "acme_there" not in sys.modules
