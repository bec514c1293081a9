"""The digits example without the engine: its weights file, and that its three implementations are one model.

The kernels are the backends' functions, handed over in a dict.
"""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from digits import accel_builders, numpy_builders
from digits.architecture import (
    CONFIG,
    NULL_LABEL,
    WEIGHTS_PATH,
    Weights,
    load_weights,
    parameter_count,
    parameter_shapes,
    save_weights,
)

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from digits.architecture import FloatArray

BATCHES = [1, 2, 7, 20]
KERNELS = ["reference", "accel"]
MODULES = {"attention": "attention", "gelu": "activation", "layer_norm": "norm", "modulate": "norm"}


@dataclass(frozen=True, slots=True)
class Platform:
    kernels: dict[str, Callable[..., Any]]
    torch_device: str = "cpu"


@dataclass(frozen=True, slots=True)
class Instance:
    data: Weights
    platform: Platform


def place(backend: str) -> Platform:
    modules = {op: importlib.import_module(f"rung_backends.{backend}.{name}") for op, name in MODULES.items()}
    return Platform({op: getattr(module, op) for op, module in modules.items()})


def instance_of(dtype: str, backend: str = "reference") -> Instance:
    return Instance(load_weights(dtype=dtype), place(backend))


def accel_dit(instance: Instance) -> accel_builders.PackedDit:
    return accel_builders.build_dit(None, instance, instance.platform)


@pytest.fixture(scope="module")
def single() -> Instance:
    return instance_of("float32")


@pytest.fixture(scope="module")
def double() -> Instance:
    return instance_of("float64")


@dataclass(frozen=True, slots=True)
class Inputs:
    labels: Any
    latent: FloatArray
    images: FloatArray


def inputs(batch: int, instance: Instance) -> Inputs:
    rng = np.random.default_rng(batch)
    latent = rng.standard_normal((batch, CONFIG.tokens, CONFIG.channels)).astype(instance.data.dtype)
    images = rng.random((batch, CONFIG.image, CONFIG.image)).astype(instance.data.dtype)
    return Inputs(rng.integers(0, CONFIG.classes, batch), latent, images)


def euler(dit: Any, latent: Any, embedding: Any, null_embedding: Any, steps: int = 8) -> Any:
    for step in range(steps):
        sigma = 1 - step / steps
        free = dit(latent, null_embedding, sigma)
        velocity = free + 2.0 * (dit(latent, embedding, sigma) - free)
        latent = latent + (1 - (step + 1) / steps - sigma) * velocity
    return latent


def test_the_weights_file_is_small_and_half_precision() -> None:
    assert WEIGHTS_PATH.stat().st_size < 1_000_000
    with np.load(WEIGHTS_PATH, allow_pickle=False) as stored:
        assert {stored[name].dtype for name in stored.files} == {np.dtype(np.float16)}
        assert {name: stored[name].shape for name in stored.files} == parameter_shapes()


def test_the_model_is_small() -> None:
    assert parameter_count() < 300_000


def test_saving_again_gives_the_same_bytes(tmp_path: Path, single: Instance) -> None:
    again = tmp_path / "weights.npz"
    save_weights(again, single.data.arrays)
    assert again.read_bytes() == WEIGHTS_PATH.read_bytes()


def test_a_file_of_another_architecture_is_named_with_its_parameters(tmp_path: Path, single: Instance) -> None:
    other = tmp_path / "other.npz"
    changed: dict[str, Any] = {**single.data.arrays, "vae.scale": np.ones(5), "extra": np.ones(1)}
    np.savez(other, **changed)
    with pytest.raises(ValueError, match=r"other\.npz does not fit this architecture: extra, vae\.scale"):
        load_weights(other)


@pytest.mark.parametrize("label", [-1, NULL_LABEL + 1])
def test_a_label_out_of_range_is_an_error(label: int, single: Instance) -> None:
    with pytest.raises(IndexError):
        numpy_builders.text_encoder(single)(np.array([0, label]))


def test_the_codec_gives_back_what_it_was_given(single: Instance) -> None:
    images = inputs(20, single).images
    vae = numpy_builders.vae(single)
    np.testing.assert_allclose(vae.decode(vae.encode(images)), images, atol=2e-3)  # its basis is stored in float16


@pytest.mark.parametrize("batch", BATCHES)
def test_sigma_may_differ_between_samples(batch: int, double: Instance) -> None:
    given = inputs(batch, double)
    embedding = numpy_builders.text_encoder(double)(given.labels)
    for dit in (numpy_builders.dit(double), accel_dit(double)):
        sigmas = np.linspace(0, 1, batch)
        together = dit(given.latent, embedding, sigmas)
        for i, sigma in enumerate(sigmas):
            alone = dit(given.latent[i : i + 1], embedding[i : i + 1], float(sigma))
            np.testing.assert_allclose(together[i : i + 1], alone, atol=1e-12)


@pytest.mark.parametrize("kernels", KERNELS)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("batch", BATCHES)
def test_with_the_same_kernels_accel_equals_numpy_bit_for_bit(batch: int, dtype: str, kernels: str) -> None:
    instance = instance_of(dtype, kernels)
    given = inputs(batch, instance)
    plain_dit, plain_vae = numpy_builders.dit(instance), numpy_builders.vae(instance)
    packed_dit, packed_vae = accel_dit(instance), accel_builders.build_vae(None, instance, instance.platform)
    encode = numpy_builders.text_encoder(instance)
    embedding, null_embedding = encode(given.labels), encode(np.full(batch, NULL_LABEL))

    def same(packed: FloatArray, plain: FloatArray) -> None:
        assert packed.dtype == plain.dtype == dtype
        np.testing.assert_array_equal(packed, plain, strict=True)

    for sigma in (1.0, 0.37, 0.0):
        same(packed_dit(given.latent, embedding, sigma), plain_dit(given.latent, embedding, sigma))
    same(packed_vae.encode(given.images), plain_vae.encode(given.images))
    same(packed_vae.decode(given.latent), plain_vae.decode(given.latent))
    same(
        packed_vae.decode(euler(packed_dit, given.latent, embedding, null_embedding)),
        plain_vae.decode(euler(plain_dit, given.latent, embedding, null_embedding)),
    )


@pytest.mark.parametrize(("dtype", "atol"), [("float32", 1e-5), ("float64", 1e-12)])
@pytest.mark.parametrize("build", [numpy_builders.dit, accel_dit])
def test_what_other_kernels_change_is_their_rounding(build: Any, dtype: str, atol: float) -> None:
    given = inputs(7, instance_of(dtype))
    embedding = numpy_builders.text_encoder(instance_of(dtype))(given.labels)
    plain, other = (build(instance_of(dtype, kernels))(given.latent, embedding, 0.37) for kernels in KERNELS)
    assert not np.array_equal(plain, other)
    np.testing.assert_allclose(other, plain, rtol=0, atol=atol, strict=True)


@pytest.mark.parametrize("build", [numpy_builders.dit, accel_dit])
def test_kernels_are_looked_up_when_it_is_built_and_not_when_it_is_called(build: Any) -> None:
    asked: list[str] = []

    class Kernels(dict[str, Any]):
        def __getitem__(self, op: str) -> Any:
            asked.append(op)
            return super().__getitem__(op)

    instance = instance_of("float32")
    dit = build(Instance(instance.data, Platform(Kernels(instance.platform.kernels))))
    assert sorted(asked) == sorted(MODULES)
    given = inputs(2, instance)
    dit(given.latent, numpy_builders.text_encoder(instance)(given.labels), 0.5)
    assert len(asked) == len(MODULES)


@pytest.mark.parametrize("build", [numpy_builders.dit, accel_dit])
def test_no_argument_is_changed(build: Any, double: Instance) -> None:
    given = inputs(7, double)
    embedding = numpy_builders.text_encoder(double)(given.labels)
    latent, before = given.latent.copy(), embedding.copy()
    build(double)(latent, embedding, 0.5)
    np.testing.assert_array_equal(latent, given.latent)
    np.testing.assert_array_equal(embedding, before)


@pytest.mark.parametrize(("dtype", "atol"), [("float32", 1e-4), ("float64", 1e-12)])
@pytest.mark.parametrize("batch", BATCHES)
def test_torch_agrees_with_numpy(batch: int, dtype: str, atol: float) -> None:
    torch = pytest.importorskip("torch")
    from digits import torch_builders

    instance, cpu = instance_of(dtype), place("torch")
    given = inputs(batch, instance)
    encode = numpy_builders.text_encoder(instance)
    torch_encode = torch_builders.build_text_encoder(None, instance, cpu)
    dit, torch_dit = numpy_builders.dit(instance), torch_builders.build_dit(None, instance, cpu)
    vae, torch_vae = numpy_builders.vae(instance), torch_builders.build_vae(None, instance, cpu)
    latent = torch.tensor(given.latent)
    embedding, null_embedding = encode(given.labels), encode(np.full(batch, NULL_LABEL))
    torch_embedding = torch_encode(torch.tensor(given.labels))
    torch_null = torch_encode(torch.full((batch,), NULL_LABEL))

    def close(found: Any, expected: FloatArray) -> None:
        assert not found.requires_grad
        np.testing.assert_allclose(found.numpy(), expected, rtol=0, atol=atol, strict=True)

    close(torch_embedding, embedding)
    close(torch_dit(latent, torch_embedding, 0.37), dit(given.latent, embedding, 0.37))
    close(torch_vae.encode(torch.tensor(given.images)), vae.encode(given.images))
    close(
        torch_vae.decode(euler(torch_dit, latent, torch_embedding, torch_null)),
        vae.decode(euler(dit, given.latent, embedding, null_embedding)),
    )


def test_training_reaches_every_parameter_through_the_kernels(single: Instance) -> None:
    torch = pytest.importorskip("torch")
    from digits.torch_builders import Dit

    dit = Dit(place("torch").kernels)
    dit.load_state_dict({name: torch.tensor(array) for name, array in single.data.part("dit").items()})
    given = inputs(3, single)
    embedding = torch.tensor(numpy_builders.text_encoder(single)(given.labels))
    dit(torch.tensor(given.latent), embedding, 0.37).square().mean().backward()
    gradients = {name: parameter.grad for name, parameter in dit.named_parameters()}
    assert [name for name, gradient in gradients.items() if gradient is None or not gradient.any()] == []
