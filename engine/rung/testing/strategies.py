"""Arguments of ops as Hypothesis strategies.

Owns how a case of an op is varied: seed, case, memory layout, scale, special values. Shapes and all that is no array
stay as the case has them, so what a case makes consistent stays so.
"""

from __future__ import annotations

import math
from itertools import chain
from typing import TYPE_CHECKING, Any, Final

from rung.arguments import refusal
from rung.bind import bind
from rung.bridge import library_of
from rung.diagnostics import RungError, did_you_mean, shorten
from rung.load import default_table
from rung.parity.calls import converted, is_call, lacking, named, rebuilt
from rung.parity.compare import DTYPES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hypothesis.strategies import DrawFn, SearchStrategy

    from rung.entries import Cell
    from rung.parity.calls import Call
    from rung.table import Table

__all__ = ["arguments"]

_SEEDS: Final = 1 << 16
_TRIES: Final = 16
"""The seeds that are tried for a case that the cell accepts."""
_LAYOUTS: Final = ("as the case has it", "every other element", "transposed", "offset by one")


def arguments(
    op: str,
    *,
    dtype: str = "float32",
    cell: str | Cell | None = None,
    table: Table | None = None,
    layouts: bool = True,
    scales: Sequence[float] = (1.0,),
    special: Sequence[float] = (),
) -> SearchStrategy[Call]:
    """Give a strategy of calls `(args, kwargs)` of an op, drawn from its cases for a dtype.

    A call is one of the op's cases, for a seed that is drawn. With `cell`, a cell of the op or its id, it has the
    arrays that the cell takes, and the cell accepts it; else it has numpy arrays. `layouts` copies floating arrays into
    memory in other orders and with gaps. One of `scales` multiplies the floating arrays without a dtype of their own:
    take powers of two, which change no digit, and for which the op means something. One of `special`, such as NaN, may
    stand in the place of an element of each of them. Raise UnknownOp, KeyError for a cell, ValueError for a dtype or
    for a cell that accepts no case of some seeds, RungError where Hypothesis is not installed.
    """
    try:
        from hypothesis import assume, strategies
    except ImportError:
        raise RungError("rung.testing.arguments needs Hypothesis: pip install 'rung[testing]'") from None
    import numpy as np

    table = table or default_table()
    record = table.op(op)
    if dtype not in DTYPES:
        raise ValueError(f"unknown dtype `{dtype}`: {did_you_mean(dtype, DTYPES)}")
    if record.cases is None:
        raise ValueError(f"the op `{op}` declares no cases to draw from")
    cases = bind(record.cases, table.roots)
    serves = _cell_of(cell, op, table) if cell is not None else None
    arrays, device = ("numpy", "cpu") if serves is None else (serves.arrays, serves.device)
    place = table.devices[device].torch
    lacks = lacking(arrays, device, dtype) if serves is not None else ""

    def given(call: Call) -> Call:
        return converted(record, call, arrays, place, dtype)

    def refused(call: Call) -> str:
        return "" if serves is None else refusal(record, serves, *call)

    def judged(seed: int) -> list[tuple[Call, str]]:
        """Give the cases of a seed, each with why it is refused, "" where it is not."""
        found = [*cases(dtype, np.random.default_rng(seed))]
        for case in found:
            if not is_call(case):
                raise TypeError(f"the cases of `{op}` gave {shorten(repr(case), 40)}, which is no (args, kwargs)")
        return [(call, lacks or refused(given(call))) for call in found]

    def accepted(seed: int) -> list[Call]:
        return [call for call, reason in judged(seed) if not reason]

    sure = next((seed for seed in range(_TRIES) if accepted(seed)), None)
    if sure is None:
        who = f"the op `{op}` has" if serves is None else f"the cell `{serves.id}` accepts"
        raise ValueError(f"{who} no case in {dtype}" + "".join(f": {reason}" for _, reason in judged(0)[:1]))

    @strategies.composite
    def calls(draw: DrawFn) -> Call:
        first = draw(strategies.integers(0, _SEEDS - 1))
        seeds = chain(range(first, first + _TRIES), [sure])
        call = draw(strategies.sampled_from(next(found for seed in seeds if (found := accepted(seed)))))
        values = named(record, call)
        scale = draw(strategies.sampled_from([*scales]))
        for name, value in values.items():
            if library_of(value) == "numpy" and value.dtype.kind == "f" and name not in record.dtypes:
                chosen = None
                if special and value.size:
                    place_of = strategies.integers(0, value.size - 1)
                    put = strategies.tuples(place_of, strategies.sampled_from([*special]))
                    chosen = draw(strategies.none() | put)
                values[name] = _varied(value, scale, chosen)
        made = given(rebuilt(call, values))
        if layouts:
            order = draw(strategies.sampled_from(_LAYOUTS))
            moved = {name: _laid_out(value, order) for name, value in named(record, made).items()}
            other = rebuilt(made, moved)
            made = made if refused(other) else other
        assume(not refused(made))
        return made

    return calls()


def _varied(value: Any, scale: float, chosen: tuple[int, float] | None) -> Any:
    """Scale a numpy array, and put another element in the place that was chosen; of what is not changed no copy."""
    import numpy as np

    if scale != 1.0:
        value = (value * scale).astype(value.dtype)
    if chosen is not None:
        value = np.array(value)
        value.flat[chosen[0]] = chosen[1]
    return value


def _laid_out(value: Any, order: str) -> Any:
    """Copy a floating array into another order of memory; of one without axes, and of what is none, no copy."""
    library = library_of(value)
    if library is None or order == _LAYOUTS[0] or not value.ndim or not _is_floating(value):
        return value
    shape = tuple(value.shape)
    axes = range(len(shape))[::-1]
    if order == "transposed":
        view = _empty(value, shape[::-1]).T if library == "numpy" else _empty(value, shape[::-1]).permute(*axes)
    elif order == "every other element":
        view = _empty(value, (*shape[:-1], 2 * shape[-1]))[..., ::2]
    else:
        view = _empty(value, (math.prod(shape) + 1,))[1:].reshape(shape)
    view[...] = value
    return view


def _is_floating(value: Any) -> bool:
    return bool(value.dtype.kind == "f" if library_of(value) == "numpy" else value.is_floating_point())


def _empty(like: Any, shape: tuple[int, ...]) -> Any:
    if library_of(like) == "torch":
        return like.new_empty(shape)
    import numpy as np

    return np.empty(shape, like.dtype)


def _cell_of(cell: str | Cell, op: str, table: Table) -> Cell:
    if not isinstance(cell, str):
        return cell
    ids = {entry.id: entry for entry in table.kernels[op]}
    if cell not in ids:
        raise KeyError(f"no cell of `{op}` is called `{cell}`: {did_you_mean(cell, ids)}")
    return ids[cell]
