"""The torch kernels: parity within the manifest's tolerances, gradients, generators, devices."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from rung_backends.reference import cases
from rung_backends.reference import solver as reference

torch = pytest.importorskip("torch")
TorchDispatchMode: Any = pytest.importorskip("torch.utils._python_dispatch").TorchDispatchMode

from rung_backends.torch import solver  # noqa: E402 - needs torch

DTYPES = ["float16", "bfloat16", "float32", "float64"]
OPS = ["flow_match_step", "flow_sde_step"]
MANIFEST = Path(__file__).parents[2] / "manifests" / "ops" / "solver.yaml"
TOLERANCES = {name: op["tolerance"] for name, op in yaml.safe_load(MANIFEST.read_text("utf-8"))["ops"].items()}


def tensors(*shape: int, count: int = 3, dtype: str = "float64", requires_grad: bool = False) -> list[Any]:
    generator = torch.Generator().manual_seed(0)
    draws = [torch.randn(shape, generator=generator, dtype=torch.float64) for _ in range(count)]
    return [t.to(getattr(torch, dtype)).requires_grad_(requires_grad) for t in draws]


def to_torch(value: Any, dtype: str) -> Any:
    if not isinstance(value, np.ndarray):
        return value
    tensor = torch.from_numpy(value.copy() if not value.flags.writeable else value)
    return tensor.to(getattr(torch, dtype))


# Parity.


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("op", OPS)
def test_parity_with_the_reference(op: str, dtype: str) -> None:
    tolerance = TOLERANCES[op][dtype]
    if tolerance == "exact":
        tolerance = {"rtol": 0.0, "atol": 0.0}
    for args, kwargs in getattr(cases, op)(dtype, np.random.default_rng(0)):
        expected = getattr(reference, op)(*args, **kwargs)
        got = getattr(solver, op)(
            *(to_torch(value, dtype) for value in args),
            **{name: to_torch(value, dtype) for name, value in kwargs.items()},
        )
        if op == "flow_match_step":
            expected, got = (expected,), (got,)
        for a, b in zip(got, expected, strict=True):
            assert a.dtype == getattr(torch, dtype)
            np.testing.assert_allclose(a.double().numpy(), b.astype("float64"), **tolerance)


def test_half_types_are_computed_in_float32() -> None:
    # The squares under log_prob pass float16's largest number, 65504, long before their mean's half does.
    x = torch.zeros(1, 2, dtype=torch.float16)
    point = torch.tensor([[80.0, 0.0]], dtype=torch.float16)
    _, log_prob, _, std = solver.flow_sde_step(x, x, 0.6, 0.5, prev_sample=point)
    assert (80.0 / std.item()) ** 2 > 65504
    assert -65504 < log_prob.item() < -20000


@pytest.mark.parametrize("dtype", DTYPES)
def test_results_keep_the_dtype_whatever_the_velocitys(dtype: str) -> None:
    (sample,) = tensors(2, 3, count=1, dtype=dtype)
    for other in DTYPES:
        (velocity,) = tensors(2, 3, count=1, dtype=other)
        assert solver.flow_match_step(sample, velocity, 0.6, 0.5).dtype == sample.dtype
        for given in ({}, {"noise": velocity}, {"prev_sample": velocity}):
            results = solver.flow_sde_step(sample, velocity, 0.6, 0.5, **given)
            assert {r.dtype for r in results} == {sample.dtype}


def test_judging_a_drawn_bfloat16_sample_gives_the_same_log_probability() -> None:
    x, v = tensors(3, 16, count=2, dtype="bfloat16")
    drawn = solver.flow_sde_step(x, v, 0.3, 0.25)
    judged = solver.flow_sde_step(x, v, 0.3, 0.25, prev_sample=drawn[0])
    assert torch.equal(drawn[1], judged[1])


# Gradients.


def test_gradients_of_the_euler_step() -> None:
    x, v = tensors(2, 3, count=2, requires_grad=True)
    assert torch.autograd.gradcheck(lambda x, v: solver.flow_match_step(x, v, 0.6, 0.5), (x, v))


@pytest.mark.parametrize("sigmas", [(1.0, 0.9), (0.6, 0.5), (0.1, 0.0)], ids=str)
@pytest.mark.parametrize("given", ["noise", "prev_sample"])
def test_gradients_of_the_sde_step(given: str, sigmas: tuple[float, float]) -> None:
    inputs = tensors(2, 3, requires_grad=True)

    def run(x: Any, v: Any, other: Any) -> Any:
        prev_sample, log_prob, mean, _ = solver.flow_sde_step(x, v, *sigmas, **{given: other})
        # A drawn sample is held fixed inside log_prob, which a finite difference cannot know.
        return (prev_sample, mean, log_prob) if given == "prev_sample" else (prev_sample, mean)

    assert torch.autograd.gradcheck(run, tuple(inputs))


def test_log_prob_of_a_drawn_sample_has_the_policy_gradient() -> None:
    x, v, noise = tensors(4, 5)
    v.requires_grad_()
    drawn, log_prob, _, _ = solver.flow_sde_step(x, v, 0.6, 0.5, noise=noise)
    (from_drawing,) = torch.autograd.grad(log_prob.sum(), v)
    _, log_prob, _, _ = solver.flow_sde_step(x, v, 0.6, 0.5, prev_sample=drawn.detach())
    (from_judging,) = torch.autograd.grad(log_prob.sum(), v)
    assert torch.equal(from_drawing, from_judging)
    assert from_drawing.abs().min() > 0


def test_log_prob_of_a_given_sample_has_the_score_as_gradient() -> None:
    x, v, point = tensors(4, 1)
    point.requires_grad_()
    _, log_prob, mean, std = solver.flow_sde_step(x, v, 0.6, 0.5, prev_sample=point)
    (score,) = torch.autograd.grad(log_prob.sum(), point)
    torch.testing.assert_close(score, -(point.detach() - mean) / std**2)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
def test_gradients_reach_narrow_leaves(dtype: str) -> None:
    x, v, noise = tensors(2, 3, dtype=dtype)
    x.requires_grad_()
    v.requires_grad_()
    prev_sample, log_prob, mean, _ = solver.flow_sde_step(x, v, 0.6, 0.5, noise=noise)
    for gradient in torch.autograd.grad(prev_sample.sum() + log_prob.sum() + mean.sum(), (x, v)):
        assert gradient.dtype == x.dtype
        assert torch.isfinite(gradient).all()


def test_nothing_is_tracked_for_arguments_that_are_not() -> None:
    x, v = tensors(2, 3, count=2)
    assert not any(r.requires_grad for r in solver.flow_sde_step(x, v, 0.6, 0.5))


# Generators.


def test_the_seed_decides_what_is_drawn() -> None:
    x, v = tensors(2, 3, count=2)
    with torch.random.fork_rng():
        torch.manual_seed(3)
        first = solver.flow_sde_step(x, v, 0.6, 0.5)
        torch.manual_seed(3)
        second = solver.flow_sde_step(x, v, 0.6, 0.5)
    assert all(torch.equal(a, b) for a, b in zip(first, second, strict=True))


@pytest.mark.parametrize(
    ("sigma_next", "options"),
    [
        pytest.param(0.0, {}, id="last step"),
        pytest.param(0.5, {"noise_scale": 0.0}, id="no noise"),
        pytest.param(0.5, {"noise": torch.zeros(2, 3)}, id="given noise"),
        pytest.param(0.5, {"prev_sample": torch.zeros(2, 3)}, id="given sample"),
    ],
)
def test_the_generator_is_left_alone(sigma_next: float, options: dict[str, Any]) -> None:
    x, v = tensors(2, 3, count=2, dtype="float32")
    before = torch.get_rng_state()
    solver.flow_sde_step(x, v, 0.6, sigma_next, **options)
    assert torch.equal(torch.get_rng_state(), before)


# Devices.


class NoFloat64(TorchDispatchMode):  # type: ignore[misc] # its class is Any here
    """Refuses every operation with a float64 result, as mps would."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        if isinstance(result, torch.Tensor) and result.dtype == torch.float64:
            raise TypeError(f"{func} made a float64 tensor")
        return result


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
def test_no_float64_tensor_is_made_for_narrower_ones(dtype: str) -> None:
    x, v, other = tensors(2, 3, dtype=dtype)
    with NoFloat64():
        solver.flow_match_step(x, v, 0.6, 0.5)
        for sigma_next in (0.5, 0.0):
            for given in ({}, {"noise": other}, {"prev_sample": other}):
                solver.flow_sde_step(x, v, 0.6, sigma_next, **given)


def test_results_stay_on_the_device_and_no_value_is_read() -> None:
    # Tensors on `meta` have no values: reading one, as for a branch, raises.
    x = torch.empty(2, 3, device="meta")
    assert solver.flow_match_step(x, x, 0.6, 0.5).device.type == "meta"
    for given in ({}, {"noise": x}, {"prev_sample": x}):
        for sigma_next in (0.5, 0.0):
            results = solver.flow_sde_step(x, x, 0.6, sigma_next, **given)
            assert {r.device.type for r in results} == {"meta"}


@pytest.mark.parametrize("dtype", DTYPES)
def test_results_share_no_memory_with_arguments_or_each_other(dtype: str) -> None:
    x, v, other = tensors(2, 3, dtype=dtype)
    for sigmas in ((0.6, 0.5), (0.5, 0.5), (0.5, 0.0)):
        for given in ({}, {"noise": other}, {"prev_sample": other}):
            found = [*solver.flow_sde_step(x, v, *sigmas, **given), x, v, other]
            found.append(solver.flow_match_step(x, v, *sigmas))
            assert len({t.data_ptr() for t in found}) == len(found)


@pytest.mark.parametrize("dynamic", [None, True], ids=["found out", "dynamic"])
@pytest.mark.parametrize("given", ["noise", "prev_sample"])
def test_a_schedule_compiles_as_one_graph(given: str, dynamic: bool | None) -> None:
    x, v, other = tensors(2, 3, dtype="float32")
    torch._dynamo.reset()
    compiled = torch.compile(solver.flow_sde_step, fullgraph=True, backend="eager", dynamic=dynamic)
    for sigma in (1.0, 0.95, 0.9, 0.7, 0.5, 0.3, 0.1):
        for noise_scale in (0.3, 0.7, 1.2):
            options = {given: other, "noise_scale": noise_scale}
            expected = solver.flow_sde_step(x, v, sigma, 0.9 * sigma, **options)
            for a, b in zip(compiled(x, v, sigma, 0.9 * sigma, **options), expected, strict=True):
                assert torch.equal(a, b)


def test_float8_is_refused() -> None:
    x = torch.zeros(2, 3).to(torch.float8_e4m3fn)
    with pytest.raises(TypeError, match=r"sample must be float16, .*, got torch\.float8"):
        solver.flow_match_step(x, x, 0.6, 0.5)


# Imports.


def test_the_package_imports_without_torch() -> None:
    code = "import sys, rung_backends.torch; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
