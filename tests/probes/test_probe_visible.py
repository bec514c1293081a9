from __future__ import annotations

import pytest

from rung.probes.visible import by_name, by_number, chosen

NAMES = ["GPU-aa11", "GPU-aa22", "", "GPU-bb33"]


@pytest.mark.parametrize(
    ("listed", "left"),
    [
        pytest.param("0,1", [0, 1], id="two"),
        pytest.param("2,0", [2, 0], id="reordered"),
        pytest.param(" 1 , 2 ", [1, 2], id="spaces"),
        pytest.param("", [], id="empty"),
        pytest.param("-1", [], id="minus-one"),
        pytest.param("0,2,-1,1", [0, 2], id="ends-at-the-first-that-is-none"),
        pytest.param("0,9,1", [0], id="ends-at-the-first-out-of-range"),
        pytest.param("0,,1", [0], id="ends-at-a-gap"),
        pytest.param("x", [], id="no-number"),
        pytest.param("0,1,0,2", [0, 1], id="a-repeat-ends-it"),
    ],
)
def test_numbers(listed: str, left: list[int]) -> None:
    assert chosen(listed, lambda entry: by_number(entry, 4)) == left


def test_a_repeat_may_hide_all() -> None:
    assert chosen("0,1,0", lambda entry: by_number(entry, 4), repeats_hide_all=True) == []


@pytest.mark.parametrize(
    ("entry", "position"),
    [
        pytest.param("GPU-bb33", 3, id="whole"),
        pytest.param("GPU-b", 3, id="prefix"),
        pytest.param("gpu-BB", 3, id="any-case"),
        pytest.param("GPU-aa", None, id="ambiguous"),
        pytest.param("GPU-cc", None, id="nobody's"),
    ],
)
def test_names(entry: str, position: int | None) -> None:
    assert by_name(entry, NAMES) == position
