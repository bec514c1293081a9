"""What must hold for a predicate to hold, and what of that can never hold together.

Owns the logic of RG604. Through nested `all`s, lists, named predicates and `not` it gathers the literals (an atom, or
its negation) an expression demands, and its choices: the `any`s, of which one branch must hold. Only what is certain on
every machine is a contradiction; versions are compared by no more than being the same.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

from packaging.specifiers import InvalidSpecifier, SpecifierSet

from rung.compile import expression_of
from rung.diagnostics import shorten

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from rung.diagnostics import Where
    from rung.entries import Expression
    from rung.rules.expressions import Placed

__all__ = ["Clash", "Demand", "Judge", "together"]

Choice: TypeAlias = "tuple[Placed, list[Demand]]"
"""An `any` and its branches, or a negated `all`: one of them must hold."""

_MAX_EXPANDED: Final = 128
"""Nodes, with all they use written out, of a named predicate that is still looked into: hostile ones cost no more."""
_COPIED: Final = 4096
_COPIED_OF_NODE: Final = 4
"""Literals that may be written out for the names that are used, and how many more for each node that is judged. What is
used after them stays a name about which nothing else is known, so that long predicates used a thousand times cost no
more than the nodes do."""
_MAX_NEIGHBOURS: Final = 16
"""Literals about one subject that are compared with each other; equal ones are always found."""


class Atom(NamedTuple):
    """An atom in a form in which two spellings of one question are equal."""

    key: str
    name: object
    rest: frozenset[tuple[str, object]] = frozenset()

    @property
    def subject(self) -> object:
        """What the atom is about: atoms of different subjects say nothing of each other."""
        if self.key in ("device", "driver", "runtime"):
            return ("device", self.name)
        if self.key in ("module", "env"):
            return (self.key, self.name)
        return self.key if self.key in ("os", "machine", "cpu") else self

    def get(self, key: str) -> object:
        """Give a further argument, None when it was not given."""
        for name, value in self.rest:
            if name == key:
                return value
        return None


class Literal(NamedTuple):
    """An atom that must hold, or must not.

    `site` is the node of the expression that is judged, `origin` where the atom is written: elsewhere, when a named
    predicate was used.
    """

    atom: Atom
    holds: bool
    site: Placed
    origin: Placed

    def at(self, site: Placed) -> Literal:
        """Give the literal as a `use` at `site` demands it."""
        return Literal(self.atom, self.holds, site, self.origin)

    @property
    def text(self) -> str:
        """The literal in words, for a message."""
        spoken = shorten(" ".join(_words(expression_of(self.origin.model))), 24 if self.holds else 20)
        return spoken if self.holds else f"not {spoken}"


@dataclass(frozen=True, slots=True)
class Clash:
    """A contradiction: where it is, in words, how to repair it, and the other places that take part."""

    where: Where
    message: str
    hint: str
    related: tuple[tuple[Where, str], ...]


@dataclass(slots=True)
class Demand:
    """What an expression demands. `dead` when it can never hold; `clashes` are the reasons that stand in it itself."""

    literals: dict[tuple[Atom, bool], Literal] = field(default_factory=dict)
    choices: list[Choice] = field(default_factory=list)
    clashes: list[Clash] = field(default_factory=list)
    dead: bool = False
    size: int = 1
    _subjects: dict[object, list[Literal]] | None = None

    def add(self, literal: Literal) -> None:
        """Take in a literal that nothing excludes."""
        if self.literals.setdefault((literal.atom, literal.holds), literal) is literal and self._subjects is not None:
            _sort_in(self._subjects, literal)

    def against(self, literal: Literal) -> Literal | None:
        """Give what excludes a literal."""
        opposite = self.literals.get((literal.atom, not literal.holds))
        if opposite is not None:
            return opposite
        if self._subjects is None:
            self._subjects = {}
            for other in self.literals.values():
                _sort_in(self._subjects, other)
        near = self._subjects.get(literal.atom.subject, ())
        return next((other for other in near if _exclude(literal, other)), None)

    def has(self, site: Placed) -> bool:
        """Say whether a literal or a choice stands at a node."""
        return any(site is literal.site for literal in self.literals.values()) or any(
            site is place for place, _ in self.choices
        )

    def blockers(self, branches: Iterable[Demand]) -> list[Literal] | None:
        """Give what excludes each branch of a choice, None when one of them may hold."""
        found: list[Literal] = []
        for branch in branches:
            against = next(filter(None, map(self.against, branch.literals.values())), None)
            if against is not None:
                found.append(against)
            elif not branch.dead and not any(self.blockers(b) is not None for _, b in branch.choices):
                return None
        return found


class Judge:
    """Works out demands, each expression once. Named predicates are to be given before those that use them.

    An atom that is not `is_sound` demands nothing.
    """

    def __init__(self, is_sound: Callable[[Placed], bool] = lambda placed: True) -> None:
        self._is_sound = is_sound
        self._named: dict[tuple[str, bool], Demand] = {}
        self._seen: dict[tuple[int, bool], Demand] = {}
        self._told: set[Clash] = set()
        self._left = _COPIED

    def name(self, name: str, placed: Placed) -> list[Clash]:
        """Learn a named predicate and give its contradictions."""
        demand = self.demand(placed)
        self._named[name, True], self._named[name, False] = demand, self._demand(placed, holds=False)
        self._told.update(demand.clashes)
        return demand.clashes

    def demand(self, placed: Placed) -> Demand:
        """Give what an expression demands."""
        self._seen.clear()
        return self._demand(placed, holds=True)

    def _demand(self, placed: Placed, *, holds: bool) -> Demand:
        key = (id(placed.model), holds)
        found = self._seen.get(key)
        if found is None:
            found = self._seen[key] = self._work_out(placed, holds)
        return found

    def _work_out(self, placed: Placed, holds: bool) -> Demand:
        self._left += _COPIED_OF_NODE
        kind = placed.key
        if kind == "not":
            (term,) = placed.terms()
            return self._demand(term, holds=not holds)
        if kind == "use":
            return self._used(placed, holds)
        if kind not in ("all", "any"):
            if not self._is_sound(placed):
                return Demand()  # what it was to ask is not known
            demand, literal = Demand(), _literal(placed, holds)
            demand.literals[literal.atom, holds] = literal
            return demand
        terms = [self._demand(term, holds=holds) for term in placed.terms()]
        if (kind == "all") is holds or len(terms) == 1:
            return together(terms)
        demand = together([], [(placed, terms)])
        demand.size += sum(term.size for term in terms)
        # What is written under one `all` is judged as it is written, whatever a `not` around it makes of it.
        below = terms if holds else [self._demand(placed, holds=True)]
        demand.clashes += [clash for term in below for clash in term.clashes]
        return demand

    def _used(self, placed: Placed, holds: bool) -> Demand:
        """Give the demand of a `use`: the name itself, and what the predicate of that name demands."""
        own = _literal(placed, holds)
        demand = Demand({(own.atom, holds): own})
        named = self._named.get((str(placed.model.use), holds))
        if named is None or named.size > _MAX_EXPANDED:
            return demand
        demand.size += named.size
        demand.dead = named.dead
        untold = [clash for clash in named.clashes if clash not in self._told] if named.dead else []
        if untold:  # only its negation is a contradiction: the predicate itself is fine
            first = untold[0]
            message, hint = f"`{own.text}` can never hold", "remove it, or repair the predicate"
            related = ((first.where, first.message), *first.related)
            demand.clashes.append(Clash(placed.where, message, hint, related))
        if not named.dead and self._left >= len(named.literals):
            self._left -= len(named.literals)
            demand.literals |= {key: literal.at(placed) for key, literal in named.literals.items()}
            demand.choices = [(placed, branches) for _, branches in named.choices]
        return demand


def _sort_in(subjects: dict[object, list[Literal]], literal: Literal) -> None:
    near = subjects.setdefault(literal.atom.subject, [])
    if len(near) < _MAX_NEIGHBOURS:
        near.append(literal)


def together(parts: Sequence[Demand], choices: Iterable[Choice] = ()) -> Demand:
    """Give what several demands, and one branch of each choice, come to when all must hold."""
    whole = Demand(dict(parts[0].literals) if parts else {}, list(choices))
    told: set[tuple[int, int]] = set()
    for part in parts:
        whole.size += part.size
        whole.dead |= part.dead
        whole.clashes += part.clashes
        whole.choices += part.choices
        for literal in part.literals.values() if part is not parts[0] else ():
            other = whole.against(literal)
            if other is None:
                whole.add(literal)
                continue
            whole.dead = True
            sites = (id(other.site), id(literal.site))
            if sites not in told:  # a name and what it stands for are one contradiction
                told.add(sites)
                whole.clashes.append(_clash(other, literal))
    if not whole.dead:
        whole.choices = [choice for choice in whole.choices if not _is_blocked(whole, parts, *choice)]
    return whole


def _is_blocked(whole: Demand, parts: Sequence[Demand], site: Placed, branches: list[Demand]) -> bool:
    """Say whether no branch of a choice can hold beside all else that must, and take note of it."""
    blockers = whole.blockers(branches)
    if blockers is None:
        return False
    whole.dead = True
    if not blockers:
        return True  # each branch has a contradiction of its own

    def part_of(place: Placed) -> int:
        return max((i for i, part in enumerate(parts) if part.has(place)), default=-1)

    related = [(literal.origin.where, f"`{literal.text}` must hold") for literal in blockers]
    last = max(blockers, key=lambda literal: part_of(literal.site))
    if part_of(last.site) > part_of(site):
        where, related = last.site.where, [(site.where, "one of these must hold"), *related]
        message, hint = f"`{last.text}` rules out what is left of an `any`", "remove it, or add a branch to the `any`"
    else:
        where, message = site.where, "no branch here can hold beside what else must hold"
        hint = "add a branch, or remove what rules them out"
    shown = tuple((place, remark) for place, remark in dict.fromkeys(related) if place != where)
    whole.clashes.append(Clash(where, message, hint, shown[:8]))
    return True


def _clash(first: Literal, second: Literal) -> Clash:
    """Word the contradiction of two literals; it is reported at the second."""
    if first.atom == second.atom:
        message = f"`{(first if first.holds else second).text}` must hold and must not hold"
    else:
        message = f"`{first.text}` and `{second.text}` can never both hold"
    where, other = second.site.where, first.site.where
    related = {other: (other, f"`{first.text}` must hold")}
    for literal in (first, second):
        origin = literal.origin.where
        if origin != where:
            related.setdefault(origin, (origin, f"`{literal.text}` is written"))
    hint = "remove one of the two, or put them under `any:` where either is enough"
    return Clash(where, message, hint, tuple(related.values()))


def _exclude(a: Literal, b: Literal) -> bool:
    """Say whether two literals about one subject can never both be true."""
    if a.holds and b.holds:
        return _apart(a.atom, b.atom)
    if a.holds == b.holds:
        return False
    yes, no = (a, b) if a.holds else (b, a)
    return _implies(yes.atom, no.atom)


def _apart(a: Atom, b: Atom) -> bool:
    """Say whether two atoms never hold on one machine."""
    if a.key != b.key:
        return False
    if isinstance(a.name, frozenset) and isinstance(b.name, frozenset) and a.key in ("os", "machine"):
        return a.name.isdisjoint(b.name)
    if a.key == "env":
        mine, theirs = a.get("value"), b.get("value")
        return mine != theirs and (None not in (mine, theirs) or "" in (mine, theirs))
    builds, others = a.get("build"), b.get("build")
    if isinstance(builds, frozenset) and isinstance(others, frozenset):
        return not any(x.startswith(y) or y.startswith(x) for x in builds for y in others)
    return False


def _implies(a: Atom, b: Atom) -> bool:
    """Say whether an atom holds wherever another about the same subject does."""
    if b.key == "device":
        return True  # a driver or runtime has a version only where the device was found
    if a.key != b.key:
        return False
    if isinstance(a.name, frozenset) and isinstance(b.name, frozenset):
        return a.name >= b.name if a.key == "cpu" else a.name <= b.name
    if a.key == "env":
        return b.get("value") is None and a.get("value") != ""
    return a.key == "module" and all(_asks_too(a, name, value) for name, value in b.rest)


def _asks_too(a: Atom, name: str, value: object) -> bool:
    """Say whether what a module must be implies a further demand on it."""
    mine = a.get(name)
    if isinstance(mine, frozenset) and isinstance(value, frozenset):
        return all(any(label.startswith(start) for start in value) for label in mine)
    return mine == value


def _literal(placed: Placed, holds: bool) -> Literal:
    return Literal(_atom(expression_of(placed.model)), holds, placed, placed)


def _words(expression: Expression) -> Iterator[str]:
    """Give an atom's key and values; a predicate that is used is spoken of by its name alone."""
    if expression.key != "use":
        yield expression.key
    for _, value in expression.args:
        yield value if isinstance(value, str) else ", ".join(value)


def _atom(expression: Expression) -> Atom:
    key = expression.key
    args: dict[str, object] = {
        name: frozenset(value) if isinstance(value, tuple) else value for name, value in expression.args
    }
    version = "name" if key == "python" else "version"
    if version in args:
        args[version] = _specifier(str(args[version]))
    if "version" not in args and "build" not in args:
        args.pop("dist", None)  # it says where the version is found
    return Atom(key, args.pop("name"), frozenset(args.items()))


def _specifier(written: str) -> object:
    """Give a version specifier in which neither order nor blanks count; what is none is like itself alone."""
    try:
        return SpecifierSet(written)
    except InvalidSpecifier:
        return (written,)  # no text: a specifier reads one that it is compared with
