"""The Triton kernels pass Triton's compilers for GPUs of two makers; no GPU is asked."""

from __future__ import annotations

import importlib.util
from typing import TYPE_CHECKING

import pytest

from aside import Aside

pytest.importorskip("torch")
if importlib.util.find_spec("triton") is None:
    pytest.skip("triton is not installed", allow_module_level=True)

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="module")
def compiling(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Aside]:
    aside = Aside(TRITON_INTERPRET=None, TRITON_CACHE_DIR=str(tmp_path_factory.mktemp("triton")))
    yield aside
    aside.close()


@pytest.mark.parametrize(
    "dtypes",
    [pytest.param(("bfloat16", "float32"), id="half"), pytest.param(("bfloat16", "float64"), id="wide")],
)
@pytest.mark.parametrize("target", [("cuda", 80, 32), ("hip", "gfx942", 64)], ids=lambda target: target[0])
def test_every_kernel_compiles(compiling: Aside, target: tuple[str, int | str, int], dtypes: tuple[str, str]) -> None:
    names = compiling.call("compiling:compile_all", *target, dtypes)
    assert len(names) == 13
    assert len(set(names)) == 9
