"""The model seam: what a model is made of, and one instance of it on a platform.

Owns `ComponentSpec` and `ModelInstance`. Which builder serves a component is the platform's answer.
"""

from __future__ import annotations

from _thread import RLock

from rung.diagnostics import did_you_mean
from rung.entries import DEFAULT
from rung.records import field, record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from typing import Any

    from rung.platform import Platform

__all__ = ["ComponentSpec", "ModelInstance"]


@record
class ComponentSpec:
    """A component of a model: its id there, its kind in the manifests, and the builder of last resort.

    `factory(instance)` serves where no cell does. `options` are for the builders; rung does not read them.
    """

    id: str
    kind: str
    factory: Callable[[ModelInstance], Any]
    options: Mapping[str, Any] = field(default_factory=dict)


class ModelInstance:
    """A model on a platform. Components are built at their first use and kept.

    One is built at a time, whichever threads ask: weights are large, so unlike for kernels a second thread waits
    instead of building a second copy, and with one lock for all no two threads can wait for each other. A builder
    may ask for other components itself, and must not wait for another thread that asks.

    `data` is whatever the builders need (weights, paths, a dtype); rung does not read it.
    """

    def __init__(self, platform: Platform, specs: Iterable[ComponentSpec], *, data: Any = None) -> None:
        self.platform = platform
        self.data = data
        self.specs: dict[str, ComponentSpec] = {}
        for spec in specs:
            if spec.id in self.specs:
                raise ValueError(f"two components have the id `{spec.id}`")
            self.specs[spec.id] = spec
        self._built: dict[tuple[str, str], Any] = {}
        self._building: list[tuple[str, str]] = []  # by the thread that holds the lock, outermost first
        self._lock = RLock()

    def component(self, id: str, variant: str = DEFAULT) -> Any:  # noqa: A002 - the API's name
        """Give a component, built once per (id, variant) even when several threads ask.

        Raise KeyError for an unknown id, and RuntimeError where components need each other to be built.
        """
        key = (id, variant)
        if key in self._built:
            return self._built[key]
        if id not in self.specs:
            raise KeyError(f"no component `{id}`: {did_you_mean(id, self.specs)}")
        with self._lock:
            if key not in self._built:
                if key in self._building:
                    path = [*self._building[self._building.index(key) :], key]
                    raise RuntimeError(f"components need each other: {' -> '.join(map(_shown, path))}")
                self._building.append(key)
                try:
                    self._built[key] = self.platform.build_component(self.specs[id], self, variant)
                finally:
                    self._building.pop()
            return self._built[key]


def _shown(key: tuple[str, str]) -> str:
    return key[0] if key[1] == DEFAULT else f"{key[0]}#{key[1]}"
