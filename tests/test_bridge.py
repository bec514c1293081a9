"""Bridges: arguments go to the cell's library and device, results come back to the caller's."""

from __future__ import annotations

import sys
import types
import warnings
from collections import namedtuple
from typing import Any

import numpy as np
import pytest
import torch

import rung
from rung.bridge import bridge, is_array, library_of, to_numpy, to_torch

Pair = namedtuple("Pair", "mean std")


def seen_by(arrays: str, device: str | None = None) -> tuple[Any, list[Any]]:
    """Give a bridged kernel that returns its first argument, and the list of what it was called with."""
    seen: list[Any] = []

    def kernel(*args: Any, **kwargs: Any) -> Any:
        seen.extend((*args, *kwargs.values()))
        return args[0] if args else next(iter(kwargs.values()))

    return bridge(kernel, arrays, device), seen


def gives(result: Any, arrays: str = "numpy", device: str | None = None) -> Any:
    """Give a bridged kernel that returns `result`, whatever it is called with."""

    def kernel(*args: Any, **kwargs: Any) -> Any:
        return result

    return bridge(kernel, arrays, device)


class TestLibraryOf:
    @pytest.mark.parametrize(
        ("value", "library"),
        [
            (np.zeros(2), "numpy"),
            (np.zeros(()), "numpy"),
            (np.ma.masked_array([1.0]), "numpy"),
            (torch.zeros(2), "torch"),
            (torch.nn.Parameter(torch.zeros(2)), "torch"),
            (np.float32(1), None),
            (1.0, None),
            ([1.0], None),
            ("numpy", None),
            (None, None),
        ],
        ids=lambda value: type(value).__name__,
    )
    def test_by_type(self, value: object, library: str | None) -> None:
        assert library_of(value) == library
        assert is_array(value) is (library is not None)

    def test_a_library_that_is_only_just_being_imported(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setitem(sys.modules, "torch", types.ModuleType("torch"))
        assert library_of(np.zeros(2)) == "numpy"
        assert library_of(1.0) is None

    def test_a_library_nobody_imported(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.delitem(sys.modules, "torch")
        assert library_of(np.zeros(2)) == "numpy"
        assert library_of(object()) is None


class TestToNumpy:
    @pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "int64", "uint8", "bool", "complex64"])
    def test_without_a_copy(self, dtype: str) -> None:
        tensor = torch.ones(2, 3).to(getattr(torch, dtype))
        array = to_numpy(tensor)
        assert (array.dtype, array.shape) == (np.dtype(dtype), (2, 3))
        assert array.ctypes.data == tensor.data_ptr()

    @pytest.mark.parametrize(
        "tensor",
        [torch.arange(6.0).view(2, 3).t(), torch.arange(6.0)[::2], torch.tensor(3.0), torch.zeros(0, 3)],
        ids=["transposed", "strided", "0-d", "empty"],
    )
    def test_shapes_and_strides(self, tensor: torch.Tensor) -> None:
        array = to_numpy(tensor)
        assert array.tolist() == tensor.tolist()
        assert array.shape == tuple(tensor.shape)
        assert array.ctypes.data == tensor.data_ptr() or not tensor.numel()

    @pytest.mark.parametrize(
        "dtype",
        ["bfloat16", "float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz", "float8_e8m0fnu"],
    )
    def test_what_numpy_lacks_crosses_through_float32(self, dtype: str) -> None:
        tensor = torch.tensor([1.0, 2.0, 0.5]).to(getattr(torch, dtype))
        array = to_numpy(tensor)
        assert array.dtype == np.float32
        assert array.tolist() == [1.0, 2.0, 0.5]

    def test_lazy_conjugates_and_negatives_are_done(self) -> None:
        tensor = torch.tensor([1 + 2j])
        assert to_numpy(tensor.conj()).tolist() == [1 - 2j]
        assert to_numpy(tensor.conj().imag).tolist() == [-2.0]

    def test_a_tensor_that_requires_grad_stays(self) -> None:
        leaf = torch.ones(2, requires_grad=True)
        for tensor in (leaf, leaf * 2, torch.nn.Parameter(torch.ones(2))):
            with pytest.raises(rung.BridgeError, match=r"pass tensor\.detach\(\)"):
                to_numpy(tensor)
        assert to_numpy(leaf.detach()).tolist() == [1.0, 1.0]

    @pytest.mark.parametrize(
        ("tensor", "said"),
        [
            (torch.empty(2, device="meta"), "a float32 tensor on meta cannot become a numpy array"),
            (torch.empty(2, device="meta", dtype=torch.bfloat16), "a bfloat16 tensor on meta cannot"),
            (torch.eye(2).to_sparse(), "Sparse"),
        ],
        ids=["meta", "meta-bfloat16", "sparse"],
    )
    def test_what_has_no_values_for_numpy(self, tensor: torch.Tensor, said: str) -> None:
        with pytest.raises(rung.BridgeError, match=said):
            to_numpy(tensor)


def field_of_records() -> np.ndarray[Any, Any]:
    return np.zeros(4, dtype=[("value", "f4"), ("flag", "i1")])["value"]


class TestToTorch:
    @pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "int32", "uint8", "bool", "complex128"])
    def test_without_a_copy(self, dtype: str) -> None:
        array = np.ones((2, 3), dtype)
        tensor = to_torch(array, "cpu")
        assert str(tensor.dtype) == f"torch.{dtype}"
        assert tensor.data_ptr() == array.ctypes.data

    @pytest.mark.parametrize(
        ("array", "shared"),
        [
            (np.arange(6.0).reshape(2, 3).T, True),
            (np.arange(6.0)[::2], True),
            (np.array(3.0), True),
            (np.arange(6.0)[::-1], False),
            (np.broadcast_to(np.arange(3.0), (2, 3)), False),
            (np.arange(3, dtype=">f4"), False),
            (np.arange(3, dtype=">i8")[::-1], False),
            (field_of_records(), False),
        ],
        ids=["transposed", "strided", "0-d", "reversed", "read-only", "big-endian", "both", "unaligned"],
    )
    def test_shapes_and_strides(self, array: np.ndarray[Any, Any], shared: bool) -> None:
        tensor = to_torch(array, "cpu")
        assert tensor.tolist() == array.tolist()
        assert tuple(tensor.shape) == array.shape
        assert (tensor.data_ptr() == array.ctypes.data) is shared

    @pytest.mark.parametrize("array", [np.zeros((0, 3)), np.empty(2, np.dtype([]))], ids=["empty", "no-fields"])
    def test_nothing_in_it(self, array: np.ndarray[Any, Any]) -> None:
        if array.dtype.names is None:
            assert to_torch(array, "cpu").shape == (0, 3)
        else:
            with pytest.raises(rung.BridgeError):
                to_torch(array, "cpu")

    @pytest.mark.parametrize("array", [np.array(["a"]), np.array([None]), np.array([1], np.longdouble)], ids=str)
    def test_a_dtype_torch_does_not_have(self, array: np.ndarray[Any, Any]) -> None:
        with pytest.raises(rung.BridgeError, match="cannot become a tensor on cpu"):
            to_torch(array, "cpu")

    def test_to_another_device(self) -> None:
        assert to_torch(np.ones(2), "meta").device.type == "meta"


class TestArguments:
    def test_each_is_converted_by_what_it_is(self) -> None:
        kernel, seen = seen_by("numpy")
        tensor, array = torch.ones(2), np.ones(2)
        kernel(tensor, array, 0.5, None, "text", flag=True, mask=torch.ones(2, dtype=torch.bool))
        assert [type(value).__name__ for value in seen] == [
            "ndarray", "ndarray", "float", "NoneType", "str", "bool", "ndarray",
        ]  # fmt: skip
        assert seen[1] is array
        assert seen[0].ctypes.data == tensor.data_ptr()

    def test_towards_torch(self) -> None:
        kernel, seen = seen_by("torch", "cpu")
        tensor, array = torch.ones(2), np.ones(2, np.float32)
        kernel(array, tensor)
        assert seen[0].data_ptr() == array.ctypes.data
        assert seen[1] is tensor

    def test_within_torch_tensors_move_and_keep_their_gradient(self) -> None:
        kernel, seen = seen_by("torch", "cpu")
        leaf = torch.ones(2, requires_grad=True)
        result = kernel(leaf)
        assert seen[0] is leaf
        result.sum().backward()
        assert leaf.grad is not None
        assert leaf.grad.tolist() == [1.0, 1.0]

    def test_to_another_device_and_back(self) -> None:
        # `meta` is the one other device every machine has: shapes without values.
        kernel, seen = seen_by("torch", "meta")
        result = kernel(torch.ones(2, device="meta"), np.ones((2, 3)))
        assert [value.device.type for value in seen] == ["meta", "meta"]
        assert result.device.type == "meta"
        kernel, seen = seen_by("torch", "cpu")
        with pytest.raises(NotImplementedError, match="meta tensor"):
            kernel(torch.ones(2, device="meta"))

    def test_a_tensor_that_is_there_already_stays_on_its_card(self) -> None:
        kernel, seen = seen_by("torch", "meta")
        tensor = torch.ones(2, device="meta")
        kernel(tensor)
        assert seen[0] is tensor

    def test_inside_containers(self) -> None:
        kernel, seen = seen_by("numpy")
        tensor = torch.ones(2)
        kernel([tensor, (tensor, {"deep": tensor})], Pair(tensor, 1.0), states={"k": tensor})
        assert isinstance(seen[0][0], np.ndarray)
        assert isinstance(seen[0][1][1]["deep"], np.ndarray)
        assert isinstance(seen[1], Pair)
        assert isinstance(seen[1].mean, np.ndarray)
        assert isinstance(seen[2]["k"], np.ndarray)

    @pytest.mark.parametrize("wrap", [lambda t: t, lambda t: [t], lambda t: {"a": (t,)}], ids=["bare", "list", "dict"])
    def test_one_that_requires_grad_raises_before_the_kernel_runs(self, wrap: Any) -> None:
        kernel, seen = seen_by("numpy")
        with pytest.raises(rung.BridgeError, match="requires grad"):
            kernel(torch.ones(2), wrap(torch.ones(2, requires_grad=True)))
        assert seen == []


class TestResults:
    @pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64", "float8_e4m3fn"])
    def test_dtype_and_device_of_the_first_array(self, dtype: str) -> None:
        tensor = torch.ones(2).to(getattr(torch, dtype))
        result = gives(np.ones(2))(0.5, tensor, torch.ones(2, dtype=torch.float64))
        assert (result.dtype, result.device) == (tensor.dtype, tensor.device)
        assert result.float().tolist() == [1.0, 1.0]

    @pytest.mark.parametrize(
        ("made", "first", "dtype"),
        [
            # Floats follow floats and complex numbers complex ones; masks, indices and all else stay what they are.
            (np.array([1.5]), torch.ones(1, dtype=torch.bfloat16), "bfloat16"),
            (np.array([True]), torch.ones(1, dtype=torch.float16), "bool"),
            (np.array([3]), torch.ones(1, dtype=torch.float16), "int64"),
            (np.array([3], np.uint8), torch.ones(1, dtype=torch.float16), "uint8"),
            (np.array([1j]), torch.ones(1, dtype=torch.float32), "complex128"),
            (np.array([1j]), torch.ones(1, dtype=torch.complex64), "complex64"),
            (np.array([1.5]), torch.ones(1, dtype=torch.complex64), "float64"),
            (np.array([1.5]), torch.ones(1, dtype=torch.int64), "float64"),
            (np.array([1.5]), torch.ones(1, dtype=torch.bool), "float64"),
        ],
        ids=lambda value: value if isinstance(value, str) else str(value.dtype),
    )
    def test_which_dtypes_follow(self, made: Any, first: torch.Tensor, dtype: str) -> None:
        result = gives(made)(first)
        assert str(result.dtype) == f"torch.{dtype}"
        assert result.tolist() == made.tolist()

    @pytest.mark.parametrize(
        ("made", "first", "dtype"),
        [
            (torch.tensor([1.5], dtype=torch.float64), np.ones(1, np.float16), "float16"),
            (torch.tensor([1.5], dtype=torch.bfloat16), np.ones(1, np.float64), "float64"),
            (torch.tensor([1.5]), np.ones(1, ">f8"), ">f8"),
            (torch.tensor([True]), np.ones(1, np.float32), "bool"),
            (torch.tensor([3]), np.ones(1, np.float32), "int64"),
            (torch.tensor([1j]), np.ones(1, np.complex128), "complex128"),
            (torch.tensor([1j]), np.ones(1, np.float32), "complex64"),
            (torch.tensor([1.5]), np.ones(1, np.complex64), "float32"),
            (torch.tensor([1.5], requires_grad=True), np.ones(1, np.float32), "float32"),
        ],
        ids=lambda value: value if isinstance(value, str) else str(value.dtype),
    )
    def test_towards_numpy(self, made: torch.Tensor, first: Any, dtype: str) -> None:
        result = gives(made, "torch", "cpu")(first)
        assert isinstance(result, np.ndarray)
        assert result.dtype == np.dtype(dtype)
        assert result.tolist() == made.tolist()

    def test_without_a_copy_where_the_dtype_is_right(self) -> None:
        made = np.ones(3, np.float32)
        assert gives(made)(torch.ones(3)).data_ptr() == made.ctypes.data

    @pytest.mark.parametrize(
        ("scalar", "dtype"),
        [(np.float32(2), "float16"), (np.float64(2), "float16"), (np.int64(2), "int64"), (np.bool_(True), "bool")],
        ids=lambda value: type(value).__name__,
    )
    def test_a_numpy_scalar_is_an_array_without_axes(self, scalar: Any, dtype: str) -> None:
        result = gives(scalar)(torch.ones(2, dtype=torch.float16))
        assert isinstance(result, torch.Tensor)
        assert (tuple(result.shape), str(result.dtype)) == ((), f"torch.{dtype}")
        assert result.item() == scalar

    def test_a_tensor_without_axes(self) -> None:
        result = gives(torch.tensor(2.0), "torch", "cpu")(np.ones(2))
        assert isinstance(result, np.ndarray)
        assert (result.shape, result.dtype) == ((), np.float64)

    def test_containers_keep_their_type(self) -> None:
        made = (np.ones(2), [np.ones(2), 3.0], {"a": np.ones(2)}, Pair(np.ones(2), None), None, "text")
        result = gives(made)(torch.ones(2))
        first, listed, mapped, pair, none, text = result
        assert isinstance(result, tuple)
        assert isinstance(listed, list)
        assert isinstance(pair, Pair)
        for array in (first, listed[0], mapped["a"], pair.mean):
            assert isinstance(array, torch.Tensor)
            assert array.dtype == torch.float32
        assert (listed[1], pair.std, none, text) == (3.0, None, None, "text")

    def test_the_first_array_may_be_inside_a_container(self) -> None:
        result = gives(np.ones(2))([0.5, {"a": torch.ones(2, dtype=torch.float16)}], torch.ones(2))
        assert result.dtype == torch.float16

    def test_the_first_array_is_first_in_the_kernels_order(self) -> None:
        def kernel(sample: Any, velocity: Any, *, noise: Any = None) -> Any:
            return np.ones(2)

        bridged = bridge(kernel, "numpy", None)
        half, single = torch.ones(2, dtype=torch.float16), torch.ones(2)
        assert bridged(velocity=single, sample=half).dtype == torch.float16
        assert bridged(noise=single, velocity=half, sample=None).dtype == torch.float16
        assert bridged(half, noise=single, velocity=single).dtype == torch.float16

    def test_a_kernel_without_a_signature(self) -> None:
        result = bridge(np.add, "numpy", None)(torch.ones(2), torch.ones(2))
        assert isinstance(result, torch.Tensor)
        assert result.tolist() == [2.0, 2.0]

    def test_without_an_array_results_stay_as_they_are(self) -> None:
        made = np.ones(2)
        assert gives(made)(3, seed=1) is made
        tensor = torch.ones(2)
        assert gives(tensor, "torch", "cpu")((), {}) is tensor

    def test_what_cannot_come_back(self) -> None:
        with pytest.raises(rung.BridgeError, match="cannot become a tensor"):
            gives(np.ones(2, np.longdouble))(torch.ones(2))


class TestWrapper:
    def test_it_looks_like_the_kernel(self) -> None:
        def kernel(x: Any) -> Any:
            """Doc."""
            return x

        bridged = bridge(kernel, "numpy", None)
        assert (bridged.__name__, bridged.__doc__) == ("kernel", "Doc.")
        assert bridged.__wrapped__ is kernel  # type: ignore[attr-defined]

    def test_no_argument_is_changed(self) -> None:
        def kernel(x: Any) -> Any:
            return x * 2

        tensor = torch.ones(2, dtype=torch.bfloat16)
        array = np.ones(2)
        array.flags.writeable = False
        assert bridge(kernel, "numpy", None)(tensor).tolist() == [2.0, 2.0]
        assert bridge(kernel, "torch", "cpu")(array).tolist() == [2.0, 2.0]
        assert (tensor.tolist(), array.tolist()) == ([1.0, 1.0], [1.0, 1.0])

    @pytest.mark.parametrize(("asked", "dtype"), [({}, torch.bfloat16), ({"out_dtype": "float32"}, torch.float32)])
    def test_a_result_has_the_dtype_that_the_call_asks_for(self, asked: dict[str, str], dtype: torch.dtype) -> None:
        platform = rung.Platform.of("cpu", "generic", arrays="torch", profile="reference")
        eye = torch.eye(4).to(torch.float8_e4m3fn)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", rung.FallbackWarning)
            made = platform.kernels["scaled_mm"](eye, eye, torch.tensor(3.0), torch.tensor(0.5), **asked)
        assert torch.equal(made, 1.5 * torch.eye(4, dtype=dtype))
        assert made.dtype == dtype

    @pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
    def test_the_reference_through_a_bridge(self, dtype: str) -> None:
        from rung_backends.reference.solver import flow_match_step, flow_sde_step

        sample = torch.linspace(-1, 1, 12).view(2, 6).to(getattr(torch, dtype))
        bridged = bridge(flow_match_step, "numpy", None)(sample, velocity=sample, sigma=1.0, sigma_next=0.5)
        assert (bridged.dtype, bridged.shape) == (sample.dtype, sample.shape)
        assert torch.allclose(bridged.double(), sample.double() * 0.5, atol=1e-2)
        results = bridge(flow_sde_step, "numpy", None)(sample, sample, 0.8, 0.5, noise=torch.zeros_like(sample))
        assert [result.dtype for result in results] == [sample.dtype] * 4
        assert results[1].shape == (2,)
