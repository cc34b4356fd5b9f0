"""Join conditions: the columns that they equate, and whether they contain anything else.

Proof (PRIVACY.md R12). A condition implies an equality if it is a conjunct, or a conjunct of every
branch of an OR. A condition that is an OR is never the equality alone, even if each branch has it.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain

from dpsql.model.algebra import Filter, Join, Project, Relation
from dpsql.model.dataclass import dataclass
from dpsql.model.tree import Call, Expression, JoinKind, Kind, Ref
from dpsql.model.walk import conjuncts, implied

EXACT = ({Kind.INTEGER, Kind.DECIMAL}, {Kind.DATE, Kind.TIMESTAMP})
"""Types that compare without rounding."""


@dataclass(frozen=True, slots=True)
class Equates:
    """The pairs of columns that a condition equates; `only` if it contains nothing else.

    >>> from dpsql.model.tree import INTEGER
    >>> a, b, c = (Ref(n, INTEGER) for n in range(3))
    >>> equates(a.eq(b)).alone, equates((a.eq(b) & c.eq(a)) | (a.eq(b) & c.eq(b))).alone
    (True, False)
    """

    pairs: tuple[tuple[Ref, Ref], ...]
    only: bool

    @property
    def alone(self) -> bool:
        """True if the whole condition is one equality of two columns."""
        return self.only and len(self.pairs) == 1

    def is_only(self, a: int, b: int) -> bool:
        """Test whether the whole condition is the equality of these two columns."""
        return self.alone and {column.id for column in self.pairs[0]} == {a, b}


def equates(condition: Expression | None) -> Equates:
    """Return what a condition equates: the one reader of join conditions."""
    pairs = tuple(filter(None, map(_pair, implied(condition))))
    only = all(_pair(part) is not None for part in conjuncts(condition))
    return Equates(pairs, only)


def _pair(part: Expression) -> tuple[Ref, Ref] | None:
    match part:
        case Call(function="eq", args=(Ref() as a, Ref() as b)):
            return a, b
        case _:
            return None


def equal_columns(condition: Expression | None, here: set[int]) -> dict[int, int]:
    """Return the columns of one side that the condition equates with columns of the other side.

    Only where equal means one value: as DOUBLE, many whole numbers equal the same one.
    """
    equal = {}
    for a, b in equates(condition).pairs:
        if (a.id in here) != (b.id in here) and exactly_equal(a, b):
            first, second = (a, b) if a.id in here else (b, a)
            equal[first.id] = second.id
    return equal


def exactly_equal(a: Ref, b: Ref) -> bool:
    """Test whether a value of one column equals at most one value of the other."""
    return a.type.kind is b.type.kind or any({a.type.kind, b.type.kind} <= k for k in EXACT)


def with_equal(equal: dict[int, int], relation: Relation) -> dict[int, int]:
    """Add the columns that equal those of `equal` in every row of the relation.

    >>> from dpsql.model.algebra import Field, OneRow
    >>> from dpsql.model.tree import INTEGER
    >>> same = Filter(OneRow(), Ref(1, INTEGER).eq(Ref(2, INTEGER)))
    >>> with_equal({2: 3}, same)
    {2: 3, 1: 3}
    """
    pairs = [(a, b) for a, b in _equalities(relation) if exactly_equal(a, b)]
    equal, size = dict(equal), 0
    while size < len(equal):
        size = len(equal)
        for a, b in chain(pairs, (pair[::-1] for pair in pairs)):
            if a.id in equal:
                equal.setdefault(b.id, equal[a.id])
    return equal


def _equalities(relation: Relation) -> Iterator[tuple[Ref, Ref]]:
    """Yield columns that are equal in every row of a relation."""
    match relation:
        case Filter(predicate=condition):
            yield from equates(condition).pairs
            yield from _equalities(relation.input)
        case Join(kind=JoinKind.INNER | JoinKind.CROSS, condition=condition):
            yield from equates(condition).pairs
            yield from _equalities(relation.left)
            yield from _equalities(relation.right)
        case Join(kind=JoinKind.LEFT):
            yield from _equalities(relation.left)
        case Project():
            for item in relation.items:
                if isinstance(item.expression, Ref):
                    yield item.field.ref, item.expression
            yield from _equalities(relation.input)


def not_distinct(part: Expression) -> tuple[Ref, Ref] | None:
    """Return the columns that a condition requires to be equal, or both NULL; None for other
    conditions.
    """
    match part:
        case Call(function="is_not_distinct", args=(Ref() as a, Ref() as b)):
            return a, b
        case Call(function="or", args=(one, other)):
            for equal, absent in ((one, other), (other, one)):
                pair = _pair(equal)
                if pair and set(conjuncts(absent)) == {end.is_null() for end in pair}:
                    return pair
    return None
