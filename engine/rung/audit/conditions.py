"""Conditions in a form that can be compared and judged: what a cell asks, as a set of terms.

Owns when two conditions are the same: names written out, nesting flattened, order and wording aside. Predicates with
a fault stay names about which nothing is known. What a term means is for `rung.predicates`.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rung.compile import expression_of
from rung.entries import Expression
from rung.predicates import UNKNOWN, Scope, Verdict, evaluate
from rung.rules.predicates import MAX_LEVELS, MAX_NODES

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterator, Mapping

    from rung.audit.scene import Scene
    from rung.entries import Device
    from rung.facts import Facts
    from rung.models import ArgumentTest, ExpressionModel

__all__ = ["Condition", "Conditions", "Term"]


@dataclass(frozen=True, slots=True, eq=False)
class Term:
    """One node of a condition. There is one object for all that mean the same, so terms compare by identity.

    `asks_arch` says whether an arch has a say in it, `asks_more` whether anything else has.
    """

    key: str
    terms: tuple[Term, ...]
    expression: Expression
    asks_arch: bool
    asks_more: bool


@dataclass(frozen=True, slots=True, eq=False)
class Condition:
    """What must hold for a cell: every one of `terms`. `asks_arch` says whether an arch can decide it.

    There is one object for all that ask the same.
    """

    terms: frozenset[Term]
    asks_arch: bool


class Conditions:
    """The conditions of one set of manifests."""

    def __init__(self, scene: Scene) -> None:
        self._named = dict(_sound(scene))
        self._written_out: dict[str, Term] = {}
        self._terms: dict[Hashable, Term] = {}
        self._known: dict[Hashable, Condition] = {}
        self._conditions: dict[frozenset[Term], Condition] = {}
        self._doubtful: dict[str, str] = {}

    def of(
        self,
        requires: ExpressionModel | None,
        when: ExpressionModel | None,
        accepts: Mapping[str, ArgumentTest] | None = None,
    ) -> Condition:
        """Give what must hold for a row: its backend's `requires`, its own `when`, and what it accepts.

        What is asked of a call's arguments is a term about which nothing is known.
        """
        # Most rows name a predicate. The models live as long as the manifests, so an id stands for one of them.
        key = (
            requires and (requires.use or id(requires)),
            when and (when.use or id(when)),
            id(accepts) if accepts else 0,
        )
        known = self._known.get(key)
        if known is None:
            asked = [self._term(expression_of(model)) for model in (requires, when) if model is not None]
            asked += [self._use(Expression("use", args=(("name", text),))) for text in _demands(accepts or {})]
            terms = frozenset(part for term in asked for part in (term.terms if term.key == "all" else (term,)))
            known = self._known[key] = self._conditions.setdefault(
                terms, Condition(terms, any(term.asks_arch for term in terms))
            )
        return known

    def judge(self, term: Term, facts: Facts, device: Device, arch: str) -> Verdict:
        """Answer a term for a device with an arch, by these facts."""
        return evaluate(term.expression, Scope(facts, device, arch, {}, self._doubtful))

    def _term(self, expression: Expression) -> Term:
        key = expression.key
        if key == "use":
            return self._use(expression)
        if key == "not":
            (inner,) = (self._term(term) for term in expression.terms)
            return inner.terms[0] if inner.key == "not" else self._made(key, (inner,))
        if key in ("all", "any"):
            terms: dict[Term, None] = {}
            for made in map(self._term, expression.terms):
                terms.update(dict.fromkeys(made.terms if made.key == key else (made,)))
            return next(iter(terms)) if len(terms) == 1 else self._made(key, tuple(terms))
        return self._atom(Expression(key, args=tuple(sorted(_plain_args(expression)))))

    def _use(self, expression: Expression) -> Term:
        name = expression.get("name")
        if name not in self._named:
            self._doubtful[name] = UNKNOWN
            return self._atom(Expression("use", args=(("name", name),)))
        known = self._written_out.get(name)
        if known is None:
            known = self._written_out[name] = self._term(self._named[name])
        return known

    def _made(self, key: str, terms: tuple[Term, ...]) -> Term:
        known = self._terms.get((key, frozenset(terms)))
        if known is None:
            expression = Expression(key, terms=tuple(term.expression for term in terms))
            asks = any(term.asks_arch for term in terms), any(term.asks_more for term in terms)
            known = self._terms[key, frozenset(terms)] = Term(key, terms, expression, *asks)
        return known

    def _atom(self, atom: Expression) -> Term:
        known = self._terms.get(atom)
        if known is None:
            known = self._terms[atom] = Term(atom.key, (), atom, atom.key == "arch", atom.key != "arch")
        return known


def _demands(accepts: Mapping[str, ArgumentTest]) -> Iterator[str]:
    """Give each condition on arguments as a text that is no predicate's name: two that are alike ask the same."""
    for place, test in accepts.items():
        for name in test.model_fields_set:
            value = getattr(test, name)
            yield f"{place} {name} {sorted(map(repr, value)) if isinstance(value, list) else value!r}"


def _plain_args(atom: Expression) -> Iterator[tuple[str, str | tuple[str, ...]]]:
    """Give an atom's arguments as they are compared: a list is a set, and blanks in a version say nothing."""
    for key, value in atom.args:
        if not isinstance(value, str):
            yield key, tuple(sorted(set(value)))
        elif key == "version" or atom.key == "python":
            yield key, ",".join(sorted("".join(value.split()).split(",")))
        else:
            yield key, value


def _sound(scene: Scene) -> Iterator[tuple[str, Expression]]:
    """Give the predicates that can be written out: without a fault, a cycle or more terms than one may have."""
    declared = scene.whole.predicates.values()
    named = {e.name: expression_of(e.model) for e in declared if scene.is_sound(e.document, e.loc)}
    uses = {name: Counter(atom.get("name") for atom in e.atoms() if atom.key == "use") for name, e in named.items()}
    users: dict[str, list[str]] = {}
    for name, used in uses.items():
        for other in used:
            users.setdefault(other, []).append(name)
    sizes: dict[str, tuple[int, int]] = {}
    waits = {name: len(used) for name, used in uses.items()}
    ready = [name for name, count in waits.items() if not count]
    while ready:
        name = ready.pop()
        nodes, levels = _size(named[name])
        nodes += sum(sizes[other][0] * count for other, count in uses[name].items())
        levels += max((sizes[other][1] for other in uses[name]), default=0)
        if nodes > MAX_NODES or levels > MAX_LEVELS:
            continue
        sizes[name] = nodes, levels
        yield name, named[name]
        for user in users.get(name, ()):
            waits[user] -= 1
            if not waits[user]:
                ready.append(user)


def _size(expression: Expression) -> tuple[int, int]:
    """Give how many nodes and levels an expression has as it is written."""
    inner = [_size(term) for term in expression.terms]
    return 1 + sum(nodes for nodes, _ in inner), 1 + max((levels for _, levels in inner), default=0)
