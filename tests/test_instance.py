"""The model seam: components of an instance, built by what serves their kind."""

from __future__ import annotations

import threading
import warnings
from typing import Any

import pytest

import rung


def spec(name: str = "dit", kind: str = "dit", factory: Any = None) -> rung.ComponentSpec:
    return rung.ComponentSpec(name, kind, factory or (lambda instance: object()))


def test_a_component_is_built_once_per_variant() -> None:
    instance = rung.ModelInstance(rung.Platform.cpu(), [spec()])
    assert instance.component("dit") is instance.component("dit")
    with pytest.warns(rung.FallbackWarning, match="no variant `fp8` of dit"):
        assert instance.component("dit", "fp8") is not instance.component("dit")


def test_builders_get_data_and_may_ask_for_other_components() -> None:
    specs = [
        spec("vae", "vae", lambda instance: instance.data["scale"]),
        spec("dit", "dit", lambda instance: instance.component("vae") + 1),
    ]
    assert rung.ModelInstance(rung.Platform.cpu(), specs, data={"scale": 3}).component("dit") == 4


def test_an_unknown_component_has_a_suggestion() -> None:
    with pytest.raises(KeyError, match="did you mean `dit`"):
        rung.ModelInstance(rung.Platform.cpu(), [spec()]).component("dti")


def test_an_unknown_kind_is_an_error() -> None:
    with pytest.raises(rung.UnknownKind, match="did you mean `vae`"):
        rung.ModelInstance(rung.Platform.cpu(), [spec(kind="vea")]).component("dit")


def test_two_components_of_one_id() -> None:
    with pytest.raises(ValueError, match="two components have the id `dit`"):
        rung.ModelInstance(rung.Platform.cpu(), [spec(), spec()])


def test_what_a_builder_raises_passes_through_and_is_tried_again() -> None:
    calls = []

    def factory(instance: rung.ModelInstance) -> str:
        calls.append(1)
        if len(calls) == 1:
            raise MemoryError("weights do not fit")
        return "built"

    instance = rung.ModelInstance(rung.Platform.cpu(), [spec(factory=factory)])
    with pytest.raises(MemoryError, match="weights do not fit"):
        instance.component("dit")
    assert instance.component("dit") == "built"


def test_components_that_need_each_other_are_an_error_with_their_path() -> None:
    specs = [
        spec("top", factory=lambda instance: instance.component("dit")),
        spec("dit", factory=lambda instance: instance.component("vae", "fp8")),
        spec("vae", "vae", lambda instance: instance.component("dit")),
    ]
    instance = rung.ModelInstance(rung.Platform.cpu(), specs)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", rung.FallbackWarning)
        with pytest.raises(RuntimeError, match=r"^components need each other: dit -> vae#fp8 -> dit$"):
            instance.component("top")


def test_two_threads_that_enter_a_cycle_from_both_ends_get_an_error_each() -> None:
    both = threading.Barrier(2)
    specs = [
        spec("dit", factory=lambda instance: instance.component("vae")),
        spec("vae", "vae", lambda instance: instance.component("dit")),
    ]
    instance = rung.ModelInstance(rung.Platform.cpu(), specs)
    said: list[str] = []

    def ask(name: str) -> None:
        both.wait()
        try:
            instance.component(name)
        except RuntimeError as error:
            said.append(str(error))

    threads = [threading.Thread(target=ask, args=(name,), daemon=True) for name in ("dit", "vae")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)
    assert sorted(said) == [
        "components need each other: dit -> vae -> dit",
        "components need each other: vae -> dit -> vae",
    ]


def test_two_threads_may_need_the_same_component() -> None:
    both = threading.Barrier(2)
    specs = [
        spec("vae", "vae", lambda instance: object()),
        spec("dit", factory=lambda instance: ("dit", instance.component("vae"))),
        spec("clip", factory=lambda instance: ("clip", instance.component("vae"))),
    ]
    instance = rung.ModelInstance(rung.Platform.cpu(), specs)
    found: dict[str, Any] = {}

    def ask(name: str) -> None:
        both.wait()
        found[name] = instance.component(name)

    threads = [threading.Thread(target=ask, args=(name,), daemon=True) for name in ("dit", "clip")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)
    assert found == {"dit": ("dit", instance.component("vae")), "clip": ("clip", instance.component("vae"))}


def test_threads_build_a_component_once() -> None:
    built: list[int] = []

    def build(instance: rung.ModelInstance) -> object:
        built.append(1)
        return object()

    start = threading.Barrier(8)
    instance = rung.ModelInstance(rung.Platform.cpu(), [spec(factory=build)])
    found: list[Any] = []

    def ask() -> None:
        start.wait()
        found.append(instance.component("dit"))

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(built) == 1
    assert len(set(map(id, found))) == 1
