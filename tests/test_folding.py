"""What is folded, and what is left as it stands; that both read the same is a law (property/test_manifest_laws.py)."""

from __future__ import annotations

import pytest

from rung.diagnostics import Problems
from rung.folding import MIN_ITEMS, fold
from rung.source import read


def rows(form: str, count: int = MIN_ITEMS) -> str:
    return "".join(form.format(number) for number in range(count))


@pytest.mark.parametrize(
    ("text", "left"),
    [
        pytest.param(rows("- {{a: w{0}, b: x}}\n"), 1, id="flow mappings"),
        pytest.param(rows("- a: w{0}\n  b: x\n"), 1, id="block mappings"),
        pytest.param("k:\n" + rows("  - w{0}\n"), 1, id="words below a key"),
        pytest.param(rows("- 'it is w{0}'  # {0}\n"), 1, id="quotes and comments"),
        pytest.param(rows("- {{a: w{0}}}\n") + rows("- {{b: w{0}, c: x}}\n"), 2, id="two forms"),
        pytest.param(rows("- {{a: w{0}}}\n", MIN_ITEMS - 1), MIN_ITEMS - 1, id="a short list"),
        pytest.param(rows("- {{a: &w{0} x}}\n"), MIN_ITEMS, id="anchors"),
        pytest.param(rows("- {{a: !w{0} x}}\n"), MIN_ITEMS, id="tags"),
        pytest.param(rows('- {{a: "\\x4{0}"}}\n'), MIN_ITEMS, id="escapes"),
        pytest.param(rows("- a: |\n    w{0}\n"), MIN_ITEMS, id="block texts"),
        pytest.param(rows("- {{a: é{0}}}\n"), MIN_ITEMS, id="letters beyond ASCII"),
        pytest.param(
            rows("- {{a: w{0}}}\n") + "b: |+\n  x\n\n", MIN_ITEMS, id="a block text that keeps its blank lines"
        ),
        pytest.param(rows("- {{a: w{0}" + "x" * 1000 + "}}\n"), MIN_ITEMS, id="long items"),
        pytest.param("a: 1\n", 0, id="no list"),
    ],
)
def test_of_items_that_are_written_alike_one_is_left(text: str, left: int) -> None:
    folded = fold(text)
    shown = text if folded is None else folded.text
    assert sum(line.lstrip().startswith("- ") for line in shown.splitlines()) == left
    assert shown.count("\n") == text.count("\n")


def test_words_of_any_length_and_kind_come_back_where_they_stood() -> None:
    words = ["a", "x" * 300, "12", "true", "1.5", "a b", "torch >=2.4", "m.n:f", "a/b-c"]
    text = "k:\n  l:\n" + "".join(f"    - {{w: {word}, m: {at}}}\n" for at, word in enumerate(words))
    problems = Problems()
    document = read(text.encode(), "x.yaml", problems)
    assert document is not None
    assert not document.whole  # read for its data alone
    read_as = ["a", "x" * 300, 12, True, 1.5, "a b", "torch >=2.4", "m.n:f", "a/b-c"]
    assert document.data == {"k": {"l": [{"w": word, "m": at} for at, word in enumerate(read_as)]}}
    assert [document.where(("k", "l", at)).line for at in range(len(words))] == list(range(3, 3 + len(words)))
    assert [*problems] == []


@pytest.mark.parametrize("word", ["no", "0x1", "null", "1_0"])
def test_one_word_that_readers_disagree_on_is_reported_where_it_stands(word: str) -> None:
    text = rows("- {{a: w{0}}}\n") + f"- {{a: {word}}}\n"
    problems = Problems()
    read(text.encode(), "x.yaml", problems)
    assert [(problem.where.line, problem.where.column) for problem in problems if problem.where] == [(MIN_ITEMS + 1, 7)]
