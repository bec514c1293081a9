"""Drawing digits: the denoise loop, and the sheet that shows them.

Owns the loop, which names no device: kernels come from the model's platform, components from the model, and
arrays stay in the library they came in. Must not compute what an op or a component computes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from digits import numpy_builders
from digits.architecture import CONFIG, NULL_LABEL, DitKernels
from rung import ComponentSpec

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from digits.architecture import FloatArray, IntArray
    from rung import ModelInstance

__all__ = [
    "OPS",
    "SPECS",
    "Form",
    "decode",
    "denoise",
    "draw_noise",
    "draw_sheet",
    "sample_digits",
    "to_numpy",
    "to_platform",
]

Form = Literal["ode", "sde"]
Array = Any  # numpy or torch: the loop hands on what it is given

SPECS = (
    ComponentSpec(id="text_encoder", kind="text_encoder", factory=numpy_builders.text_encoder),
    ComponentSpec(id="dit", kind="dit", factory=numpy_builders.dit),
    ComponentSpec(id="vae", kind="vae", factory=numpy_builders.vae),
)

OPS = tuple(sorted({"cfg_combine", "cfg_flow_match_step", "flow_sde_step", *DitKernels._fields}))
"""What drawing asks of a platform: the ops of the loop and of the transformer."""


def denoise(
    model: ModelInstance,
    labels: Array,
    noise: Array,
    *,
    steps: int = 25,
    form: Form = "ode",
    noises: Sequence[Array] | Array | None = None,
    guidance: float = 2.5,
) -> Array:
    """Follow the flow from noise at sigma = 1 to a latent at sigma = 0, in equal steps.

    `labels` are integers (batch,); `noise` is (batch, tokens, channels). The form "ode" follows the velocity;
    "sde" adds noise on the way and keeps the distribution (Liu et al. 2025, "Flow-GRPO"). That noise is an
    argument, one array like `noise` per step in `noises`, so that runs on two platforms can be compared.
    `guidance` exaggerates what the label changes (Ho & Salimans 2022): with 1 the velocity is the label's own, above
    it samples are more typical and less varied. Raises ValueError when "sde" has no noise for every step.
    """
    if form == "sde" and (noises is None or len(noises) != steps):
        raise ValueError(f"the sde form needs one noise array for each of its {steps} steps")
    kernels = model.platform.kernels
    guided_step, guide, sde_step = kernels["cfg_flow_match_step"], kernels["cfg_combine"], kernels["flow_sde_step"]
    dit, encode = model.component("dit"), model.component("text_encoder")
    embedding = encode(labels)
    null_embedding = encode(labels * 0 + NULL_LABEL)

    latent = noise
    for step in range(steps):
        sigma, sigma_next = 1 - step / steps, 1 - (step + 1) / steps
        labelled = dit(latent, embedding, sigma)
        free = labelled if guidance == 1 else dit(latent, null_embedding, sigma)
        if form == "ode":
            latent = guided_step(latent, labelled, free, guidance, sigma, sigma_next)
        else:
            assert noises is not None
            velocity = guide(labelled, free, guidance)
            latent = sde_step(latent, velocity, sigma, sigma_next, noise=noises[step])[0]
    return latent


def decode(model: ModelInstance, latent: Array) -> Array:
    """Decode latents to images (batch, 8, 8) of ink, about 0 to 1."""
    return model.component("vae").decode(latent)


def draw_noise(batch: int, *, steps: int, seed: int, dtype: str = "float32") -> tuple[FloatArray, FloatArray]:
    """Draw the noise a run starts from, (batch, tokens, channels), and one more array like it for every step.

    Drawn with numpy whatever the platform: the same seed is the same noise everywhere.
    """
    drawn = np.random.default_rng(seed).standard_normal((steps + 1, batch, CONFIG.tokens, CONFIG.channels))
    return drawn[0].astype(dtype), drawn[1:].astype(dtype)


def sample_digits(
    model: ModelInstance,
    labels: IntArray,
    *,
    steps: int = 25,
    form: Form = "ode",
    guidance: float = 2.5,
    seed: int = 0,
) -> FloatArray:
    """Draw one image per label on the model's platform and give them as a numpy array (batch, 8, 8)."""
    noise, noises = (
        to_platform(model.platform, a)
        for a in draw_noise(len(labels), steps=steps, seed=seed, dtype=model.data.dtype.name)
    )
    placed = to_platform(model.platform, np.asarray(labels))
    latent = denoise(model, placed, noise, steps=steps, form=form, noises=noises, guidance=guidance)
    return to_numpy(decode(model, latent))


def to_platform(platform: Any, array: NDArray[Any]) -> Array:
    """Give an array in the library and on the device that callers of this platform hold."""
    if platform.arrays != "torch":
        return array
    import torch

    return torch.from_numpy(array).to(platform.torch_device)


def to_numpy(array: Array) -> FloatArray:
    """Give an array of either library, on any device, as numpy."""
    found: FloatArray = array if isinstance(array, np.ndarray) else array.numpy(force=True)
    return found


def draw_sheet(
    images: FloatArray, labels: IntArray, path: Path, *, captions: Sequence[str] = (), zoom: int = 6
) -> None:
    """Draw a contact sheet as PNG: one row per digit, its label on the left, dark ink on white paper.

    `images` are (batch, 8, 8) of ink from 0 to 1 and are enlarged `zoom` times. `captions` head as many equal
    blocks of columns.
    """
    rows = [(int(label), images[labels == label]) for label in np.unique(labels)]
    side = (CONFIG.image + 2) * zoom  # a blank pixel all round keeps neighbours apart and edges smooth
    columns = max(len(found) for _, found in rows)
    head = 4 * zoom if captions else 0
    sheet = Image.new("L", ((1 + columns) * side, head + len(rows) * side), 255)
    pen = ImageDraw.Draw(sheet)
    for block, caption in enumerate(captions):
        left = side + block * columns * side // len(captions)
        pen.text((left + zoom, head // 2), caption, fill=96, font=ImageFont.load_default(5 * zoom // 2), anchor="lm")
        pen.line((left, 0, left, sheet.height), fill=208)
    font = ImageFont.load_default(4 * zoom)
    for row, (label, found) in enumerate(rows):
        top = head + row * side
        pen.text((side // 2, top + side // 2), str(label), fill=96, font=font, anchor="mm")
        for column, image in enumerate(found):
            paper = np.rint(255 * (1 - np.pad(np.clip(image, 0, 1), 1))).astype(np.uint8)
            tile = Image.fromarray(paper).resize((side, side), Image.Resampling.BICUBIC)
            sheet.paste(tile, ((1 + column) * side + 1, top))
    sheet.save(path)
