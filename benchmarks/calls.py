"""What a call costs: a kernel asked for by name and called, beside a direct call and other ways to dispatch.

Owns the competitors and the loop they are timed in. None of the peers has to be installed.
"""

from __future__ import annotations

import functools
import importlib
import sys
from dataclasses import dataclass
from statistics import median
from sys import intern
from timeit import Timer
from typing import TYPE_CHECKING, Any, Final, cast

import rung
from benchmarks.matrix import PACKAGE, names_of_ops
from benchmarks.peers import installed
from benchmarks.report import CALLS, Row, Section
from benchmarks.rounds import interleaved, ratio_of, say

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from benchmarks.tables import Matrix

__all__ = ["COMPETITORS", "Competitor", "calls"]

UNROLLED: Final = 100
METHOD: Final = f"""\
Each call stands {UNROLLED} times in the body of a `timeit` loop (the collector is off), all names are local variables,
and nothing is subtracted: what the loop itself costs is spread over {UNROLLED} calls, on every side. `direct` is the
function that the matrix binds for an op, here called `op`; it adds its two arguments, which are integers. The tuple
table is a class whose `get(op, variant)` builds a tuple and looks it up in a dict. A custom op takes tensors alone, so
the last rows are compared with a direct call of the same function on the same two tensors, of four numbers each.
"""


@dataclass(frozen=True, slots=True)
class Competitor:
    """One call that is timed, `{op}` standing for an op's name. `against` is the call that it is compared with."""

    call: str
    note: str = ""
    target: float | None = None
    against: str = "direct(a, b)"
    needs: str = ""  # the module of a peer

    @property
    def shown(self) -> str:
        """The call as the report shows it."""
        return f"`{self.call.format(op='op').replace('large', 'kernels')}`"


COMPETITORS: Final = (
    Competitor("direct(a, b)", "a direct call"),
    Competitor("bound(a, b)", "what `kernels` gave, kept"),
    Competitor('kernels["{op}"](a, b)', "", 2.0),
    Competitor('large["{op}"](a, b)', "", 2.0),
    Competitor("kernels.{op}(a, b)", "", 4.0),
    Competitor('kernels.get("{op}", "fused")(a, b)', "", 4.0),
    Competitor('functions["{op}"](a, b)', "a plain dict"),
    Competitor('tuples["{op}"](a, b)', "a tuple table"),
    Competitor('tuples.get("{op}", "fused")(a, b)', "a tuple table"),
    Competitor("single(a, b)", "functools.singledispatch"),
    Competitor("plum(a, b)", "plum-dispatch", needs="plum"),
    Competitor("multiple(a, b)", "multipledispatch", needs="multipledispatch"),
    Competitor("direct(x, y)", "a direct call, tensors", against="direct(x, y)", needs="torch"),
    Competitor('kernels["{op}"](x, y)', "tensors", against="direct(x, y)", needs="torch"),
    Competitor("custom(x, y)", "torch.library.custom_op", against="direct(x, y)", needs="torch"),
)


class TupleTable:
    """The table that is written by hand where there is no dispatcher."""

    def __init__(self, kernels: Mapping[tuple[str, str], Callable[..., Any]]) -> None:
        self._kernels: dict[tuple[str, str], Callable[..., Any]] = dict(kernels)

    def __getitem__(self, op: str) -> Callable[..., Any]:
        return self.get(op)

    def get(self, op: str, variant: str = "default") -> Callable[..., Any]:
        """Give the kernel of an op and variant."""
        found = self._kernels.get((op, variant))
        if found is None:
            raise KeyError(f"no kernel for {op}, {variant}")
        return found


def calls(small: Matrix, large: Matrix, rounds: int, *, seconds: float = 0.002) -> Section:
    """Time every competitor, each for about so many seconds a round. `large` has the ops of `small`, and more."""
    op = intern(names_of_ops(small.cells)[0])
    names = _names(op, small, large)
    timers = {
        one.call: _timer(one.call.format(op=op), names, seconds)
        for one in COMPETITORS
        if not one.needs or one.needs in names
    }
    say(f"calls: {rounds} rounds of {len(timers)} competitors")
    measured = interleaved(timers, rounds)
    sizes = {'kernels["{op}"](a, b)': small.cells, 'large["{op}"](a, b)': large.cells}
    rows = []
    for one in COMPETITORS:
        note = f"of {sizes[one.call]:,} cells" if one.call in sizes else one.note
        against = "" if one.call == one.against else f"`{one.against}`"
        if one.call not in measured:
            rows.append(Row(one.shown, against=against, note=f"{note}; {one.needs} is not installed"))
            continue
        times = measured[one.call]
        ratio = ratio_of(times, measured[one.against]) if against else None
        is_same = names["bound"] is names["direct"] if one.call == "bound(a, b)" else None
        rows.append(Row(one.shown, median(times), "s", ratio, against, one.target, note, is_same))
    return Section("Calls", METHOD, tuple(rows), CALLS)


def _timer(call: str, names: Mapping[str, Any], seconds: float) -> Callable[[], float]:
    """Give a function that runs a call many times and gives the seconds that one took."""
    given = "\n".join(f"{name} = names[{name!r}]" for name in names)
    timer = Timer("\n".join([call] * UNROLLED), given, globals={"names": names})
    timer.timeit(20)  # the first calls also specialise the bytecode and fill the peers' caches
    loops = max(1, round(seconds / (timer.timeit(20) / 20)))
    return lambda: timer.timeit(loops) / loops / UNROLLED


def _names(op: str, small: Matrix, large: Matrix) -> dict[str, Any]:
    """Give what the calls name. A peer's module is among it as well, when it is installed."""
    sys.path.insert(0, str(large.directory))
    try:
        kernels, of_large = (
            rung.Platform.of("cpu", "generic", arrays="numpy", table=one.warm_load()).kernels for one in (small, large)
        )
        bound, _, fused = kernels[op], of_large[op], kernels.get(op, "fused")
        direct = importlib.import_module(f"{PACKAGE}.{op}").default_cpu_generic
    finally:
        sys.path.remove(str(large.directory))
        for name in [name for name in sys.modules if name.partition(".")[0] == PACKAGE]:
            del sys.modules[name]
    single = functools.singledispatch(_trivial())
    single.register(int, _trivial())
    return {
        "a": 1,
        "b": 2,
        "direct": direct,
        "bound": bound,
        "kernels": kernels,
        "large": of_large,
        "functions": dict.fromkeys(map(intern, names_of_ops(large.cells)), direct),
        "tuples": TupleTable({(op, "default"): direct, (op, "fused"): fused}),
        "single": single,
        **_peers(direct),
    }


def _trivial(**annotations: type) -> Callable[..., Any]:
    """Give a new function of the kind that the matrix binds."""

    def add(a: Any, b: Any) -> Any:
        return a + b

    add.__annotations__ = annotations
    return cast("Callable[..., Any]", add)


def _peers(direct: Callable[..., Any]) -> dict[str, Any]:
    """Give each peer's way to the trivial function, for those that are installed."""
    found: dict[str, Any] = {}
    if plum := installed("plum"):
        found["plum"] = plum.Dispatcher()(_trivial(a=int, b=int))
    if multiple := installed("multipledispatch"):
        found["multipledispatch"] = multiple
        found["multiple"] = multiple.dispatch(int, int, namespace={})(_trivial())
    if torch := installed("torch"):
        schema = "(Tensor a, Tensor b) -> Tensor"
        found["torch"] = torch
        found["custom"] = torch.library.custom_op("rung_benchmarks::add", direct, mutates_args=(), schema=schema)
        found["x"], found["y"] = torch.ones(4), torch.ones(4)
    return found
