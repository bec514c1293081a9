"""Records behave as frozen dataclasses with slots do."""

from __future__ import annotations

import copy
import inspect
import pickle
from typing import TYPE_CHECKING, Any

import pytest

from rung.records import field, fields, record, replace

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


@record
class Point:
    """A record for these tests."""

    x: int
    y: int = 2
    tags: Mapping[str, str] = field(default_factory=dict)

    @property
    def total(self) -> int:
        return self.x + self.y


@record
class Other:
    x: int
    y: int = 2
    tags: Mapping[str, str] = field(default_factory=dict)


@record
class Flat:
    x: int
    name: str


@record
class Same:
    """One that is compared by identity."""

    x: int
    __eq__ = object.__eq__
    __hash__ = object.__hash__


MADE: Any = Point


@pytest.mark.parametrize(
    ("made", "values"),
    [
        pytest.param(lambda: Point(1), (1, 2, {}), id="defaults"),
        pytest.param(lambda: Point(1, 3, {"a": "b"}), (1, 3, {"a": "b"}), id="positions"),
        pytest.param(lambda: Point(y=5, x=1), (1, 5, {}), id="names"),
        pytest.param(lambda: replace(Point(1, 3), y=4), (1, 4, {}), id="replaced"),
        pytest.param(lambda: copy.deepcopy(Point(1, 3)), (1, 3, {}), id="copied"),
        pytest.param(lambda: pickle.loads(pickle.dumps(Point(1, 3))), (1, 3, {}), id="pickled"),
    ],
)
def test_a_record_holds_what_it_was_made_of(made: Callable[[], Point], values: tuple[object, ...]) -> None:
    point = made()
    assert tuple(getattr(point, name) for name in fields(point)) == values
    assert point == Point(*values)  # type: ignore[arg-type]
    assert point.total == point.x + point.y


@pytest.mark.parametrize(
    ("make", "words"),
    [
        pytest.param(lambda: MADE(), "needs `x`", id="missing"),
        pytest.param(lambda: MADE(1, 2, {}, 4), "takes 3 values, and 4 are given", id="too many"),
        pytest.param(lambda: MADE(1, z=1), "unexpected `z`", id="unknown"),
        pytest.param(lambda: MADE(1, x=1), "`x` twice", id="twice"),
        pytest.param(lambda: replace(Point(1), z=1), "unexpected `z`", id="unknown to replace"),
    ],
)
def test_what_does_not_fit_is_refused(make: Callable[[], object], words: str) -> None:
    with pytest.raises(TypeError, match=words):
        make()


def test_nothing_changes_it() -> None:
    point: Any = Point(1)
    changes: list[Callable[[], None]] = [
        lambda: setattr(point, "x", 2),
        lambda: delattr(point, "x"),
        lambda: setattr(point, "new", 2),
    ]
    for change in changes:
        with pytest.raises(AttributeError, match="frozen"):
            change()
    assert not hasattr(point, "__dict__")
    assert MADE(1).tags is not MADE(1).tags


def test_equality_is_of_class_and_values_and_so_is_the_hash() -> None:
    assert MADE(1) != Other(1)
    assert Point(1, tags={}) == Point(1)
    assert Flat(1, "a") == Flat(1, "a")
    assert len({Flat(1, "a"), Flat(1, "a"), Flat(2, "a")}) == 2
    assert Same(1) != Same(1)
    assert len({Same(1), Same(1)}) == 2


def test_it_shows_itself_and_its_constructor() -> None:
    assert repr(Point(1)) == "Point(x=1, y=2, tags={})"
    assert list(inspect.signature(Point).parameters) == ["x", "y", "tags"]
    assert inspect.signature(Point).parameters["y"].default == 2
    assert MADE.__match_args__ == ("x", "y", "tags")
