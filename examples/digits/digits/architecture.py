"""The sizes, parameter names and weights of the digits model, shared by every builder.

Owns what all implementations must agree on, as pure data in numpy. Must not compute a layer, and must not
import torch or the engine: what a builder is handed is described here by small protocols.
"""

from __future__ import annotations

import zipfile
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import DTypeLike, NDArray

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

__all__ = [
    "CONFIG",
    "NORM_EPSILON",
    "NULL_LABEL",
    "WEIGHTS_PATH",
    "Config",
    "DitKernels",
    "FloatArray",
    "Instance",
    "IntArray",
    "KernelTable",
    "Platform",
    "Weights",
    "load_weights",
    "parameter_count",
    "parameter_shapes",
    "save_weights",
    "time_frequencies",
]

FloatArray = NDArray[np.floating[Any]]
IntArray = NDArray[np.integer[Any]]


@dataclass(frozen=True, slots=True)
class Config:
    """The sizes of the model. An image is cut into square patches; one patch is one token of the latent."""

    classes: int = 10
    image: int = 8  # pixels along a side
    patch: int = 2  # pixels along a side
    width: int = 64
    heads: int = 4
    depth: int = 3
    hidden: int = 256  # width inside the feed-forward layer
    frequencies: int = 8  # of sigma, each as a cosine and a sine

    @property
    def grid(self) -> int:
        """Patches along a side of the image."""
        return self.image // self.patch

    @property
    def tokens(self) -> int:
        """Patches in an image."""
        return self.grid**2

    @property
    def channels(self) -> int:
        """Numbers per patch, and so latent channels: the codec is square."""
        return self.patch**2

    @property
    def head_width(self) -> int:
        """Channels of one attention head."""
        return self.width // self.heads


CONFIG = Config()
NULL_LABEL = CONFIG.classes  # "no label", the unconditional half of classifier-free guidance
WEIGHTS_PATH = Path(__file__).with_name("weights.npz")

NORM_EPSILON = 1e-6


def parameter_shapes(config: Config = CONFIG) -> dict[str, tuple[int, ...]]:
    """Name every parameter with its shape, in torch's convention: a linear weight is (out, in)."""
    shapes: dict[str, tuple[int, ...]] = {}

    def linear(name: str, inputs: int, outputs: int) -> None:
        shapes[f"{name}.weight"] = (outputs, inputs)
        shapes[f"{name}.bias"] = (outputs,)

    shapes["text_encoder.embedding.weight"] = (config.classes + 1, config.width)
    shapes["dit.position"] = (config.tokens, config.width)
    linear("dit.patch", config.channels, config.width)
    linear("dit.time_in", 2 * config.frequencies, config.width)
    linear("dit.time_out", config.width, config.width)
    for index in range(config.depth):
        block = f"dit.blocks.{index}"
        linear(f"{block}.modulation", config.width, 6 * config.width)
        linear(f"{block}.qkv", config.width, 3 * config.width)
        linear(f"{block}.project", config.width, config.width)
        linear(f"{block}.up", config.width, config.hidden)
        linear(f"{block}.down", config.hidden, config.width)
    linear("dit.modulation", config.width, 2 * config.width)
    linear("dit.head", config.width, config.channels)
    shapes["vae.mean"] = (config.tokens, config.channels)
    shapes["vae.basis"] = (config.channels, config.channels)
    shapes["vae.scale"] = (config.channels,)
    return shapes


def parameter_count(config: Config = CONFIG) -> int:
    """Count the numbers in the weights file."""
    return sum(int(np.prod(shape)) for shape in parameter_shapes(config).values())


def time_frequencies(config: Config = CONFIG) -> NDArray[np.float64]:
    """Give the angular frequencies that embed sigma in [0, 1]: powers of two, exact in every dtype."""
    return np.exp2(np.arange(config.frequencies, dtype=np.float64))


@dataclass(frozen=True, slots=True)
class Weights:
    """The parameters by name, all of one dtype. Handed to every builder as `instance.data`."""

    arrays: Mapping[str, FloatArray]
    dtype: np.dtype[Any]

    def part(self, prefix: str) -> dict[str, FloatArray]:
        """Select the parameters of one component ("dit"), named relative to it."""
        start = f"{prefix}."
        return {name.removeprefix(start): a for name, a in self.arrays.items() if name.startswith(start)}


class Instance(Protocol):
    """What a builder needs of the model being built."""

    @property
    def data(self) -> Weights:
        """The weights, loaded once for all components."""

    @property
    def platform(self) -> Platform:
        """The platform it is built for, for a factory: a builder is handed it beside the instance."""


class Platform(Protocol):
    """What a builder needs of the platform it builds for."""

    @property
    def kernels(self) -> KernelTable:
        """The platform's kernels."""

    @property
    def torch_device(self) -> str:
        """What torch calls the platform's device, such as `cuda:0`."""


class KernelTable(Protocol):
    """The kernels of a platform: plain functions, by the names of their ops."""

    def __getitem__(self, op: str, /) -> Callable[..., Any]:
        """Give the kernel that serves an op here."""


class DitKernels(NamedTuple):
    """The kernels that the transformer calls: looked up once, when it is built."""

    attention: Callable[..., Any]
    gelu: Callable[..., Any]
    layer_norm: Callable[..., Any]
    modulate: Callable[..., Any]

    @classmethod
    def of(cls, kernels: KernelTable) -> DitKernels:
        """Look them up."""
        return cls(*(kernels[op] for op in cls._fields))


def load_weights(path: Path = WEIGHTS_PATH, *, dtype: DTypeLike = np.float32) -> Weights:
    """Read a weights file and cast it to `dtype`.

    Raises ValueError when the file does not hold exactly the parameters of the architecture.
    """
    with np.load(path, allow_pickle=False) as stored:
        arrays: dict[str, FloatArray] = {name: stored[name].astype(dtype) for name in stored.files}
    expected = parameter_shapes()
    found = {name: array.shape for name, array in arrays.items()}
    if found != expected:
        wrong = sorted(n for n in expected.keys() | found.keys() if expected.get(n) != found.get(n))
        raise ValueError(f"{path.name} does not fit this architecture: {', '.join(wrong)}")
    return Weights(MappingProxyType(arrays), np.dtype(dtype))


def save_weights(path: Path, arrays: Mapping[str, FloatArray]) -> None:
    """Write parameters as float16, in an npz archive whose bytes depend on the parameters alone.

    `numpy.savez` stamps members with the time of writing, and a retrained file that came out the same would
    then still be a change to review.
    """
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in parameter_shapes():
            member = zipfile.ZipInfo(f"{name}.npy")
            member.compress_type = zipfile.ZIP_DEFLATED
            with archive.open(member, "w") as file:
                np.lib.format.write_array(file, arrays[name].astype(np.float16), allow_pickle=False)
