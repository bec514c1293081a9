"""The digits model in torch: what `train.py` trains, and the builders for every device torch serves.

Owns the network's one definition in torch: its layers, and what flows between them. Attention, norms, modulation and
GELU are the kernels it is given, differentiable like all of rung's in torch. Must not import the engine, and must not
place anything on a device but in the builders, from `platform.torch_device`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

import torch
from torch import Tensor, nn
from torch.nn import functional

from digits.architecture import CONFIG, NORM_EPSILON, Config, DitKernels, time_frequencies

if TYPE_CHECKING:
    from digits.architecture import Instance, KernelTable, Platform, Weights

__all__ = ["Dit", "TextEncoder", "Vae", "build_dit", "build_text_encoder", "build_vae"]

_Module = TypeVar("_Module", bound=nn.Module)


class TextEncoder(nn.Module):
    """Labels to embeddings: one learnt row per class, and one for "no label"."""

    def __init__(self, config: Config = CONFIG) -> None:
        super().__init__()
        self.embedding = nn.Embedding(config.classes + 1, config.width)
        nn.init.normal_(self.embedding.weight, std=0.02)

    def forward(self, labels: Tensor) -> Tensor:
        """Embed integer labels (batch,) as (batch, width). A label out of range raises IndexError."""
        embedded: Tensor = self.embedding(labels)
        return embedded


class Block(nn.Module):
    """A transformer block with adaLN-zero: the condition sets shift, scale and gate of both halves.

    x = x + gate1 * attention(norm(x) * (1 + scale1) + shift1)
    x = x + gate2 * feed_forward(norm(x) * (1 + scale2) + shift2)

    with [shift1, scale1, gate1, shift2, scale2, gate2] linear in the condition and zero before training, so
    that a new block is the identity (Peebles & Xie 2023, "Scalable Diffusion Models with Transformers",
    section 3.2).
    """

    def __init__(self, kernels: DitKernels, config: Config = CONFIG) -> None:
        super().__init__()
        self.kernels = kernels
        self.heads = config.heads
        self.modulation = nn.Linear(config.width, 6 * config.width)
        self.qkv = nn.Linear(config.width, 3 * config.width)
        self.project = nn.Linear(config.width, config.width)
        self.up = nn.Linear(config.width, config.hidden)
        self.down = nn.Linear(config.hidden, config.width)
        nn.init.zeros_(self.modulation.weight)
        nn.init.zeros_(self.modulation.bias)

    def forward(self, x: Tensor, condition: Tensor) -> Tensor:
        """Map tokens (batch, tokens, width) under a condition (batch, width) to the same shape."""
        modulation = self.modulation(condition).unsqueeze(1)
        shift1, scale1, gate1, shift2, scale2, gate2 = modulation.chunk(6, dim=-1)
        x = x + gate1 * self._attention(_adapted(x, shift1, scale1, self.kernels))
        hidden = self.kernels.gelu(self.up(_adapted(x, shift2, scale2, self.kernels)), approximate="tanh")
        out: Tensor = x + gate2 * self.down(hidden)
        return out

    def _attention(self, x: Tensor) -> Tensor:
        q, k, v = self.qkv(x).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        attended = self.kernels.attention(q, k, v)
        projected: Tensor = self.project(attended.transpose(1, 2).flatten(2))
        return projected


class Dit(nn.Module):
    """A diffusion transformer that predicts the velocity of a flow.

    Along x_sigma = (1 - sigma) * data + sigma * noise the velocity is d x_sigma / d sigma = noise - data; the
    network is trained to give its expectation for a point on the way (Lipman et al. 2023, "Flow Matching for
    Generative Modeling").
    """

    frequencies: Tensor

    def __init__(self, kernels: KernelTable, config: Config = CONFIG) -> None:
        super().__init__()
        self.kernels = DitKernels.of(kernels)
        frequencies = torch.tensor(time_frequencies(config), dtype=torch.get_default_dtype())
        self.register_buffer("frequencies", frequencies, persistent=False)
        self.position = nn.Parameter(torch.randn(config.tokens, config.width) * 0.02)
        self.patch = nn.Linear(config.channels, config.width)
        self.time_in = nn.Linear(2 * config.frequencies, config.width)
        self.time_out = nn.Linear(config.width, config.width)
        self.blocks = nn.ModuleList(Block(self.kernels, config) for _ in range(config.depth))
        self.modulation = nn.Linear(config.width, 2 * config.width)
        self.head = nn.Linear(config.width, config.channels)
        for layer in (self.modulation, self.head):
            nn.init.zeros_(layer.weight)
            nn.init.zeros_(layer.bias)

    def forward(self, latent: Tensor, text_embedding: Tensor, sigma: float | Tensor) -> Tensor:
        """Predict the velocity of a latent (batch, tokens, channels), in its shape.

        `text_embedding` is (batch, width); `sigma` is one number or (batch,), 1 at pure noise.
        """
        sigmas = torch.as_tensor(sigma, dtype=latent.dtype, device=latent.device).expand(len(latent))
        angles = sigmas[:, None] * self.frequencies
        waves = torch.cat([angles.cos(), angles.sin()], dim=-1)
        time = self.time_out(functional.silu(self.time_in(waves)))
        condition = functional.silu(time + text_embedding)
        x = self.patch(latent) + self.position
        for block in self.blocks:
            x = block(x, condition)
        shift, scale = self.modulation(condition).unsqueeze(1).chunk(2, dim=-1)
        velocity: Tensor = self.head(_adapted(x, shift, scale, self.kernels))
        return velocity


class Vae(nn.Module):
    """A linear codec: the principal components of the training images' patches, scaled to unit variance.

    latent = (patches - mean) @ basis / scale, and back; nothing is dropped.
    """

    mean: Tensor
    basis: Tensor
    scale: Tensor

    def __init__(self, config: Config = CONFIG) -> None:
        super().__init__()
        self.config = config
        self.register_buffer("mean", torch.zeros(config.tokens, config.channels))
        self.register_buffer("basis", torch.eye(config.channels))
        self.register_buffer("scale", torch.ones(config.channels))

    def encode(self, images: Tensor) -> Tensor:
        """Encode images (batch, 8, 8) in [0, 1] as latents (batch, tokens, channels)."""
        grid, patch = self.config.grid, self.config.patch
        patches = images.reshape(-1, grid, patch, grid, patch).transpose(2, 3).reshape(-1, *self.mean.shape)
        return (patches - self.mean) @ self.basis / self.scale

    def decode(self, latent: Tensor) -> Tensor:
        """Decode latents to images (batch, 8, 8), which may leave [0, 1] a little."""
        grid, patch, image = self.config.grid, self.config.patch, self.config.image
        patches = (latent * self.scale) @ self.basis.T + self.mean
        return patches.reshape(-1, grid, grid, patch, patch).transpose(2, 3).reshape(-1, image, image)


def build_text_encoder(spec: object, instance: Instance, platform: Platform) -> TextEncoder:
    """Build the label embedding on the platform's device."""
    return _built(TextEncoder(), "text_encoder", instance.data, platform)


def build_dit(spec: object, instance: Instance, platform: Platform) -> Dit:
    """Build the transformer on the platform's device."""
    return _built(Dit(platform.kernels), "dit", instance.data, platform)


def build_vae(spec: object, instance: Instance, platform: Platform) -> Vae:
    """Build the codec on the platform's device."""
    return _built(Vae(), "vae", instance.data, platform)


def _built(module: _Module, name: str, weights: Weights, platform: Platform) -> _Module:
    state = {key: torch.tensor(array) for key, array in weights.part(name).items()}
    module.to(dtype=next(iter(state.values())).dtype)
    module.load_state_dict(state)
    # Sampling only: an output that required grad could not be bridged to another array library.
    return module.requires_grad_(False).eval().to(platform.torch_device)


def _adapted(x: Tensor, shift: Tensor, scale: Tensor, kernels: DitKernels) -> Tensor:
    """Give norm(x) * (1 + scale) + shift, norm being layer normalisation without weights of its own."""
    adapted: Tensor = kernels.modulate(kernels.layer_norm(x, eps=NORM_EPSILON), shift, scale)
    return adapted
