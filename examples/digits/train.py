"""Train the digits model and write its weights: `python examples/digits/train.py`.

Owns training only. The network is `digits.torch_builders`, its kernels are those that serve drawing with torch on the
CPU, and nothing at run time imports this file.
"""

from __future__ import annotations

import argparse
import copy
import math
import time
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from torch import Tensor, nn
from torch.nn import functional
from tqdm import tqdm

import rung
from digits.architecture import (
    CONFIG,
    NULL_LABEL,
    WEIGHTS_PATH,
    load_weights,
    parameter_count,
    parameter_shapes,
    save_weights,
)
from digits.torch_builders import Dit, TextEncoder, Vae

if TYPE_CHECKING:
    from digits.architecture import FloatArray, KernelTable

BATCH = 128
LEARNING_RATE = 2e-3
WARM_UP = 100  # steps
EMA_DECAY = 0.998
LABEL_DROPOUT = 0.1  # how often a label becomes "no label" (Ho & Salimans 2022, section 3.2)


class Model(nn.Module):
    """The three components under the names their parameters have in the weights file."""

    def __init__(self, kernels: KernelTable) -> None:
        super().__init__()
        self.text_encoder = TextEncoder()
        self.dit = Dit(kernels)
        self.vae = Vae()

    def forward(self, latent: Tensor, labels: Tensor, sigma: float | Tensor) -> Tensor:
        """Predict the velocity of a latent under integer labels."""
        velocity: Tensor = self.dit(latent, self.text_encoder(labels), sigma)
        return velocity


def fit_codec(vae: Vae, images: Tensor) -> None:
    """Set the codec from the principal components of the patches, rounded as the weights file rounds them."""
    patches = vae.encode(images)  # a new codec only cuts into patches
    mean = patches.mean(0)
    centered = (patches - mean).reshape(-1, CONFIG.channels)
    variance, basis = torch.linalg.eigh(centered.T @ centered / len(centered))
    vae.mean.copy_(mean.half())
    vae.basis.copy_(basis.flip(-1).half())
    vae.scale.copy_(variance.flip(-1).sqrt().half())


def flow_matching_loss(model: Model, latents: Tensor, labels: Tensor, generator: torch.Generator) -> Tensor:
    """Mean squared error of the velocity at random points between data and noise.

    E |model(x_sigma, label, sigma) - (noise - data)|^2 with x_sigma = (1 - sigma) * data + sigma * noise
    (Lipman et al. 2023) and sigma the logistic of a normal number (Esser et al. 2024, section 3.1).
    """
    sigma = torch.randn(len(latents), generator=generator).sigmoid()
    noise = torch.randn(latents.shape, generator=generator)
    dropped = torch.rand(len(labels), generator=generator) < LABEL_DROPOUT
    labels = torch.where(dropped, NULL_LABEL, labels)
    mix = sigma[:, None, None]
    predicted = model((1 - mix) * latents + mix * noise, labels, sigma)
    return functional.mse_loss(predicted, noise - latents)


def train(kernels: KernelTable, steps: int, seed: int) -> tuple[Model, float]:
    """Train from `seed` and give the averaged model with the mean loss of the last tenth of the steps."""
    torch.manual_seed(seed)
    # One thread: a sum's order follows the thread count, and with it the weights; and two threads on a machine that
    # does anything else spend most of their time waiting for each other.
    torch.set_num_threads(1)
    generator = torch.Generator().manual_seed(seed)
    data = load_digits()
    images = torch.tensor(data.images / 16, dtype=torch.float32)
    labels = torch.tensor(data.target)

    model = Model(kernels)
    fit_codec(model.vae, images)
    latents = model.vae.encode(images)
    averaged = copy.deepcopy(model).requires_grad_(False)
    optimizer = torch.optim.AdamW(model.parameters(), lr=LEARNING_RATE, betas=(0.9, 0.99), weight_decay=0.01)
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer,
        lambda step: min(1.0, (step + 1) / WARM_UP) * 0.5 * (1 + math.cos(math.pi * step / steps)),
    )
    losses: list[float] = []
    progress = tqdm(range(steps), desc="training", unit="step")
    for step in progress:
        chosen = torch.randint(len(latents), (BATCH,), generator=generator)
        loss = flow_matching_loss(model, latents[chosen], labels[chosen], generator)
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        with torch.no_grad():
            decay = min(EMA_DECAY, (step + 1) / (step + 10))  # close behind at first, when all changes
            for slow, fast in zip(averaged.parameters(), model.parameters(), strict=True):
                slow.lerp_(fast, 1 - decay)
        losses.append(loss.item())
        if step % 50 == 49:
            progress.set_postfix(loss=f"{np.mean(losses[-50:]):.3f}")
    return averaged, float(np.mean(losses[-max(1, steps // 10) :]))


@torch.no_grad()
def accuracy(
    model: Model, kernels: KernelTable, *, each: int = 50, steps: int = 25, guidance: float = 2.5, seed: int = 1
) -> float:
    """Draw `each` images of every digit and give the share that a classifier of the real data recognises."""
    labels = torch.arange(CONFIG.classes).repeat_interleave(each)
    nothing = torch.full_like(labels, NULL_LABEL)
    generator = torch.Generator().manual_seed(seed)
    latent = torch.randn((len(labels), CONFIG.tokens, CONFIG.channels), generator=generator)
    guided_step = kernels["cfg_flow_match_step"]
    for step in range(steps):
        sigma, sigma_next = 1 - step / steps, 1 - (step + 1) / steps
        labelled, free = model(latent, labels, sigma), model(latent, nothing, sigma)
        latent = guided_step(latent, labelled, free, guidance, sigma, sigma_next)
    images = model.vae.decode(latent).reshape(len(labels), -1).numpy()
    data = load_digits()
    classifier = LogisticRegression(max_iter=1000).fit(data.data / 16, data.target)
    return float(classifier.score(images, labels.numpy()))


def main() -> None:
    """Train, write the weights, and report on what was written."""
    parser = argparse.ArgumentParser(description="Train the digits model and write its weights.")
    parser.add_argument("--steps", type=int, default=3000, help="optimiser steps (%(default)s)")
    parser.add_argument("--seed", type=int, default=0, help="of weights, batches and noise (%(default)s)")
    parser.add_argument("--output", type=Path, default=WEIGHTS_PATH, help="weights file (the example's own)")
    options = parser.parse_args()

    kernels = rung.detect(device="cpu", arrays="torch").kernels
    start = time.perf_counter()
    model, loss = train(kernels, options.steps, options.seed)
    minutes = (time.perf_counter() - start) / 60
    state = model.state_dict()
    arrays: dict[str, FloatArray] = {name: state[name].numpy() for name in parameter_shapes()}
    save_weights(options.output, arrays)
    stored = load_weights(options.output)
    model.load_state_dict({name: torch.tensor(array) for name, array in stored.arrays.items()})
    print(f"{parameter_count():,} parameters, {minutes:.1f} minutes, loss {loss:.4f}")
    print(f"recognised: {accuracy(model, kernels):.1%} of 500 digits drawn with the stored weights")


if __name__ == "__main__":
    main()
