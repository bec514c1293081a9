"""The transformer and the codec for the stand-in accelerator: a packed program instead of layers.

Owns `accel`'s own way through the network; attention, norms, modulation and GELU are the platform's kernels. Must not
import the engine, torch or the numpy builders it is checked against: shared code would make the check empty. There is
no text encoder here; `accel` leaves it to the factory.

Note [Same roundings, different program]
----------------------------------------
With the same kernels every result equals the numpy builders' bit for bit, so what differs between two platforms is what
their kernels round. Packing may therefore only do what floating point arithmetic cannot see:

- move numbers: permutations, copies, one arena for all weights, work in place;
- fold powers of two: 1/sqrt(16) of the attention goes into the query weights, the 1/2 of SiLU into the layer behind it;
- swap the sides of a sum or a product.

It may not merge products of matrices, regroup a sum or reduce over another axis. `_exact` refuses a constant
that is no power of two, so a change of the architecture fails at build and not in the last digit.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from digits.architecture import CONFIG, NORM_EPSILON, DitKernels, Weights, time_frequencies

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from digits.architecture import Config, FloatArray, Instance, KernelTable, Platform

__all__ = ["PackedDit", "PackedVae", "build_dit", "build_vae"]


class PackedDit:
    """The transformer as straight-line code over rows (batch * tokens, width) and one arena of weights."""

    def __init__(self, weights: Weights, kernels: KernelTable, config: Config = CONFIG) -> None:
        self._config = config
        self._kernels = DitKernels.of(kernels)
        packed = _pack(_folded(weights.part("dit"), config))
        self._position = packed["position"]
        self._frequencies = time_frequencies(config).astype(weights.dtype)
        self._entry = _gemm(packed, "patch")
        self._time = _gemm(packed, "time_in"), _gemm(packed, "time_out")
        layers = ("modulation", "qkv", "project", "up", "down")
        self._blocks = [[_gemm(packed, f"blocks.{i}.{layer}") for layer in layers] for i in range(config.depth)]
        self._exit = _gemm(packed, "modulation"), _gemm(packed, "head")

    def __call__(self, latent: FloatArray, text_embedding: FloatArray, sigma: float | FloatArray) -> FloatArray:
        """Predict the velocity of a latent (batch, tokens, channels), in its shape.

        `text_embedding` is (batch, width); `sigma` is one number or (batch,), 1 at pure noise.
        """
        batch, tokens, channels = latent.shape
        condition = self._condition(text_embedding, sigma)

        rows = _run(self._entry, latent.reshape(batch * tokens, channels))
        rows.reshape(batch, tokens, -1)[...] += self._position
        for modulation, qkv, project, up, down in self._blocks:
            table = _run(modulation, condition).reshape(batch, 6, 1, -1)
            branch = self._attend(_run(qkv, self._adapt(rows, table[:, 0], table[:, 1])), batch)
            self._add(rows, _run(project, branch), table[:, 2])
            branch = self._kernels.gelu(_run(up, self._adapt(rows, table[:, 3], table[:, 4])), approximate="tanh")
            self._add(rows, _run(down, branch), table[:, 5])
        modulation, head = self._exit
        table = _run(modulation, condition).reshape(batch, 2, 1, -1)
        return _run(head, self._adapt(rows, table[:, 0], table[:, 1])).reshape(latent.shape)

    def _condition(self, text_embedding: FloatArray, sigma: float | FloatArray) -> FloatArray:
        """Twice the condition: the layers behind it carry the half."""
        count = len(self._frequencies)
        angles = np.empty((len(text_embedding), count), self._frequencies.dtype)
        angles[...] = np.asarray(sigma, angles.dtype).reshape(-1, 1)
        angles *= self._frequencies
        waves = np.empty((len(angles), 2 * count), angles.dtype)
        waves[:, :count] = np.cos(angles)
        waves[:, count:] = np.sin(angles)
        first, second = self._time
        time = _run(second, _twice_silu(_run(first, waves)))
        time += text_embedding
        return _twice_silu(time)

    def _adapt(self, rows: FloatArray, shift: FloatArray, scale: FloatArray) -> FloatArray:
        """Layer normalisation, times 1 + scale, plus shift, each (batch, 1, width)."""
        normed: FloatArray = self._kernels.layer_norm(rows, eps=NORM_EPSILON)
        adapted: FloatArray = self._kernels.modulate(normed.reshape(len(shift), -1, rows.shape[-1]), shift, scale)
        return adapted.reshape(rows.shape)

    def _add(self, rows: FloatArray, branch: FloatArray, gate: FloatArray) -> None:
        view = branch.reshape(len(gate), -1, rows.shape[-1])
        view *= gate
        rows += branch

    def _attend(self, projected: FloatArray, batch: int) -> FloatArray:
        """Attention over rows (batch * tokens, 3 * width) whose queries are scaled already."""
        heads, head_width = self._config.heads, self._config.head_width
        q, k, v = (
            third.reshape(batch, -1, heads, head_width).transpose(0, 2, 1, 3)
            for third in np.split(projected, 3, axis=1)
        )
        mixed: FloatArray = self._kernels.attention(q, k, v, scale=1.0)
        return mixed.transpose(0, 2, 1, 3).reshape(len(projected), -1)


class PackedVae:
    """The codec with its cut into patches as a table of pixel numbers."""

    def __init__(self, weights: Weights, config: Config = CONFIG) -> None:
        part = weights.part("vae")
        pixels = np.arange(config.image**2).reshape(config.grid, config.patch, config.grid, config.patch)
        self._pixel_of = pixels.transpose(0, 2, 1, 3).ravel()  # of each place in the sequence of patches
        self._place_of = np.argsort(self._pixel_of)
        self._image = (config.image, config.image)
        self._shape = part["mean"].shape
        self._mean = part["mean"].ravel()
        self._scale = part["scale"]
        self._basis = part["basis"].copy()
        self._inverse = part["basis"].T.copy()

    def encode(self, images: FloatArray) -> FloatArray:
        """Encode images (batch, 8, 8) in [0, 1] as latents (batch, tokens, channels)."""
        flat = images.reshape(len(images), -1)[:, self._pixel_of]
        flat -= self._mean
        latent = flat.reshape(-1, self._shape[1]) @ self._basis
        latent /= self._scale
        return latent.reshape(-1, *self._shape)

    def decode(self, latent: FloatArray) -> FloatArray:
        """Decode latents to images (batch, 8, 8), which may leave [0, 1] a little."""
        rows = latent.reshape(-1, self._shape[1]) * self._scale
        flat = (rows @ self._inverse).reshape(len(latent), -1)
        flat += self._mean
        return flat[:, self._place_of].reshape(-1, *self._image)


def build_dit(spec: object, instance: Instance, platform: Platform) -> PackedDit:
    """Build the transformer."""
    return PackedDit(instance.data, platform.kernels)


def build_vae(spec: object, instance: Instance, platform: Platform) -> PackedVae:
    """Build the codec."""
    return PackedVae(instance.data)


class _Gemm(NamedTuple):
    weight: FloatArray  # (in, out)
    bias: FloatArray


def _exact(factor: float) -> float:
    """Give back a power of two or raise ValueError: see Note [Same roundings, different program]."""
    if math.frexp(factor)[0] != 0.5:
        raise ValueError(f"{factor} is no power of two: folding it would change roundings")
    return factor


def _folded(part: Mapping[str, FloatArray], config: Config) -> dict[str, FloatArray]:
    """Give the parameters with the constants around them multiplied in."""
    folded = dict(part)
    half = _exact(0.5)
    for name in part:
        if name.endswith(("modulation.weight", "time_out.weight")):
            folded[name] = part[name] * half
        elif name.endswith((".qkv.weight", ".qkv.bias")):
            folded[name] = part[name].copy()
            folded[name][: config.width] *= _exact(config.head_width**-0.5)
    return folded


def _pack(part: Mapping[str, FloatArray]) -> dict[str, FloatArray]:
    """Lay all parameters out in one array, matrices as (in, out), and give views into it."""
    arrays = {name: a.T if name.endswith(".weight") else a for name, a in part.items()}
    arena = np.concatenate([a.ravel() for a in arrays.values()])
    ends = np.cumsum([a.size for a in arrays.values()])
    pieces: list[NDArray[np.floating]] = np.split(arena, ends[:-1])
    return {name: piece.reshape(a.shape) for (name, a), piece in zip(arrays.items(), pieces, strict=True)}


def _gemm(packed: Mapping[str, FloatArray], name: str) -> _Gemm:
    return _Gemm(packed[f"{name}.weight"], packed[f"{name}.bias"])


def _run(layer: _Gemm, rows: FloatArray) -> FloatArray:
    out: FloatArray = np.matmul(rows, layer.weight)
    out += layer.bias
    return out


def _twice_silu(x: FloatArray) -> FloatArray:
    """SiLU without its half, in place: the layer behind it carries that."""
    gate = np.tanh(x * 0.5)
    gate += 1
    x *= gate
    return x
