"""The digits model in numpy: the factories, and so the last rung of every component.

Owns the plain statement of the network that other builders are compared with: its layers, and what flows between
them. Attention, norms, modulation and GELU are the platform's kernels. Must not import torch or the engine.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from digits.architecture import CONFIG, NORM_EPSILON, DitKernels, FloatArray, time_frequencies

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from digits.architecture import Config, Instance, IntArray, KernelTable, Weights

__all__ = ["Dit", "TextEncoder", "Vae", "dit", "text_encoder", "vae"]


class TextEncoder:
    """Labels to embeddings: one learnt row per class, and one for "no label"."""

    def __init__(self, weights: Weights) -> None:
        self._table = weights.part("text_encoder")["embedding.weight"]

    def __call__(self, labels: IntArray) -> FloatArray:
        """Embed integer labels (batch,) as (batch, width). A label out of range raises IndexError."""
        labels = np.asarray(labels)
        if (labels < 0).any():  # numpy would count from the end
            raise IndexError(f"label {labels.min()} is not one of 0 to {len(self._table) - 1}")
        return self._table[labels]


class Dit:
    """A diffusion transformer that predicts the velocity of a flow.

    Along x_sigma = (1 - sigma) * data + sigma * noise the velocity is d x_sigma / d sigma = noise - data; the
    network gives its expectation for a point on the way (Lipman et al. 2023, "Flow Matching for Generative
    Modeling").
    """

    def __init__(self, weights: Weights, kernels: KernelTable, config: Config = CONFIG) -> None:
        part = weights.part("dit")
        self._kernels = DitKernels.of(kernels)
        self._frequencies = time_frequencies(config).astype(weights.dtype)
        self._position = part["position"]
        self._patch = _Linear.of(part, "patch")
        self._time_in = _Linear.of(part, "time_in")
        self._time_out = _Linear.of(part, "time_out")
        self._blocks = [_Block.of(part, index, config, self._kernels) for index in range(config.depth)]
        self._modulation = _Linear.of(part, "modulation")
        self._head = _Linear.of(part, "head")

    def __call__(self, latent: FloatArray, text_embedding: FloatArray, sigma: float | FloatArray) -> FloatArray:
        """Predict the velocity of a latent (batch, tokens, channels), in its shape.

        `text_embedding` is (batch, width); `sigma` is one number or (batch,), 1 at pure noise.
        """
        condition = _silu(self._time(sigma, len(latent)) + text_embedding)
        x: FloatArray = self._patch(latent) + self._position
        for block in self._blocks:
            x = block(x, condition)
        shift, scale = _split(self._modulation(condition), 2)
        return self._head(_adapted(x, shift, scale, self._kernels))

    def _time(self, sigma: float | FloatArray, batch: int) -> FloatArray:
        sigmas = np.full(batch, sigma, dtype=self._frequencies.dtype)
        angles = sigmas[:, None] * self._frequencies
        waves = np.concatenate([np.cos(angles), np.sin(angles)], axis=-1)
        return self._time_out(_silu(self._time_in(waves)))


class Vae:
    """A linear codec: the principal components of the training images' patches, scaled to unit variance.

    latent = (patches - mean) @ basis / scale, and back; nothing is dropped.
    """

    def __init__(self, weights: Weights, config: Config = CONFIG) -> None:
        part = weights.part("vae")
        self._config = config
        self._mean, self._basis, self._scale = part["mean"], part["basis"], part["scale"]

    def encode(self, images: FloatArray) -> FloatArray:
        """Encode images (batch, 8, 8) in [0, 1] as latents (batch, tokens, channels)."""
        grid, patch = self._config.grid, self._config.patch
        patches = images.reshape(-1, grid, patch, grid, patch).swapaxes(2, 3).reshape(-1, *self._mean.shape)
        return _matmul(patches - self._mean, self._basis) / self._scale

    def decode(self, latent: FloatArray) -> FloatArray:
        """Decode latents to images (batch, 8, 8), which may leave [0, 1] a little."""
        grid, patch, image = self._config.grid, self._config.patch, self._config.image
        patches = _matmul(latent * self._scale, np.ascontiguousarray(self._basis.T)) + self._mean
        return patches.reshape(-1, grid, grid, patch, patch).swapaxes(2, 3).reshape(-1, image, image)


def text_encoder(instance: Instance) -> TextEncoder:
    """Build the label embedding."""
    return TextEncoder(instance.data)


def dit(instance: Instance) -> Dit:
    """Build the transformer."""
    return Dit(instance.data, instance.platform.kernels)


def vae(instance: Instance) -> Vae:
    """Build the codec."""
    return Vae(instance.data)


class _Linear(NamedTuple):
    weight: FloatArray  # (in, out), copied once so that no call walks strides
    bias: FloatArray

    @classmethod
    def of(cls, part: Mapping[str, FloatArray], name: str) -> _Linear:
        return cls(np.ascontiguousarray(part[f"{name}.weight"].T), part[f"{name}.bias"])

    def __call__(self, x: FloatArray) -> FloatArray:
        return _matmul(x, self.weight) + self.bias


class _Block(NamedTuple):
    """A transformer block with adaLN-zero: the condition sets shift, scale and gate of both halves.

    x = x + gate1 * attention(norm(x) * (1 + scale1) + shift1)
    x = x + gate2 * feed_forward(norm(x) * (1 + scale2) + shift2)

    with [shift1, scale1, gate1, shift2, scale2, gate2] linear in the condition (Peebles & Xie 2023, "Scalable
    Diffusion Models with Transformers", section 3.2).
    """

    config: Config
    kernels: DitKernels
    modulation: _Linear
    qkv: _Linear
    project: _Linear
    up: _Linear
    down: _Linear

    @classmethod
    def of(cls, part: Mapping[str, FloatArray], index: int, config: Config, kernels: DitKernels) -> _Block:
        layers = ("modulation", "qkv", "project", "up", "down")
        return cls(config, kernels, *(_Linear.of(part, f"blocks.{index}.{layer}") for layer in layers))

    def __call__(self, x: FloatArray, condition: FloatArray) -> FloatArray:
        shift1, scale1, gate1, shift2, scale2, gate2 = _split(self.modulation(condition), 6)
        x = x + gate1 * self._attention(_adapted(x, shift1, scale1, self.kernels))
        hidden = self.up(_adapted(x, shift2, scale2, self.kernels))
        return x + gate2 * self.down(self.kernels.gelu(hidden, approximate="tanh"))

    def _attention(self, x: FloatArray) -> FloatArray:
        """Let every token look at all, in every head, and project what the heads found."""
        batch, tokens, width = x.shape
        split = self.qkv(x).reshape(batch, tokens, 3, self.config.heads, self.config.head_width)
        q, k, v = split.transpose(2, 0, 3, 1, 4)
        attended: FloatArray = self.kernels.attention(q, k, v)
        return self.project(attended.transpose(0, 2, 1, 3).reshape(batch, tokens, width))


def _matmul(x: FloatArray, weight: FloatArray) -> FloatArray:
    """Multiply the last axis as one matrix product: numpy would make one per sample of a stack."""
    product: NDArray[Any] = x.reshape(-1, x.shape[-1]) @ weight
    return product.reshape(*x.shape[:-1], -1)


def _split(modulation: FloatArray, parts: int) -> list[FloatArray]:
    """Cut (batch, parts * width) into arrays (batch, 1, width) that broadcast over tokens."""
    return np.split(modulation[:, None, :], parts, axis=-1)


def _adapted(x: FloatArray, shift: FloatArray, scale: FloatArray, kernels: DitKernels) -> FloatArray:
    """Give norm(x) * (1 + scale) + shift, norm being layer normalisation without weights of its own."""
    adapted: FloatArray = kernels.modulate(kernels.layer_norm(x, eps=NORM_EPSILON), shift, scale)
    return adapted


def _silu(x: FloatArray) -> FloatArray:
    """Give x sigmoid(x), through tanh because exp(-x) overflows. The catalogue has it only with a product behind it."""
    out: FloatArray = 0.5 * x * (1 + np.tanh(0.5 * x))
    return out
