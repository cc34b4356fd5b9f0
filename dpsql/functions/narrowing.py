"""Facts of a column that follow from a predicate on it.

A predicate may bound a column through functions. The ends of the column's interval are removed as
far as the interval rules show that the predicate cannot be true there: `year(day) = 2025` bounds
`day`, `2 * x < 10` bounds `x`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import date, datetime, timedelta
from fractions import Fraction
from functools import reduce
from typing import cast

from dpsql.functions.registry import facts, literal_facts
from dpsql.model.comparisons import MIRRORED, against_constant
from dpsql.model.dataclass import dataclass, replace
from dpsql.model.intervals import Bound, Facts, Interval, bound_of, distinct
from dpsql.model.tree import Call, Cast, Expression, Kind, Literal, Ref, SqlType
from dpsql.model.walk import walk


def narrow(facts: Facts, predicate: Expression) -> Facts:
    """Return the facts of a column in rows where `predicate` is true, which reads no other column.

    It uses AND, OR, comparisons with literals, IN, BETWEEN and IS [NOT] NULL of the column itself.
    Other predicates change nothing.

    >>> from dpsql.model.tree import INTEGER
    >>> age = Facts(INTEGER, Interval(Fraction(0), Fraction(120)))
    >>> narrow(age, Call("gt", (Ref(1, INTEGER), Literal(64, INTEGER)))).interval.lo
    Fraction(65, 1)
    """
    if not isinstance(predicate, Call):
        return facts
    args = predicate.args
    match predicate.function:
        case "and":
            return reduce(narrow, args, facts)
        case "or":
            return reduce(_either, (narrow(facts, arg) for arg in args))
        case "is_null" if isinstance(args[0], Ref):
            return replace(facts, domain=(), nullable=True)
        case "not" if _tests_column(args[0]):
            return replace(facts, nullable=False)
        case "in" if isinstance(args[0], Ref):
            return _among(facts, args[1:])
        case name if name in MIRRORED:
            return _compared(facts, predicate)
        case _:
            return facts


def intersect(facts: Facts, other: Facts) -> Facts:
    """Return the facts of a column that equals another one in every row."""
    facts = replace(facts, nullable=False)
    if facts.type.kind is not other.type.kind:
        return facts
    interval = facts.interval.intersect(other.interval)
    domains = [d for d in (facts.domain, other.domain) if d is not None]
    domain = distinct(set(domains[0]).intersection(*domains)) if domains else None
    return Facts(facts.type, interval, nullable=False, domain=domain)


def either(a: Facts, b: Facts, kind: SqlType) -> Facts:
    """Return the facts of a column of `kind` with values from one column or the other."""
    if a.type.kind is not kind.kind or b.type.kind is not kind.kind:
        exact = {Kind.INTEGER, Kind.DECIMAL}
        if not {a.type.kind, b.type.kind, kind.kind} <= exact:
            return Facts(kind)
        a, b = replace(a, domain=None), replace(b, domain=None)
    return replace(_either(a, b), type=kind)


def _either(a: Facts, b: Facts) -> Facts:
    """Return the facts of a column in rows that satisfy one set of facts or the other."""
    domain = None if a.domain is None or b.domain is None else distinct((*a.domain, *b.domain))
    sides = [f.interval for f in (a, b) if f.domain != ()]
    interval = reduce(Interval.union, sides) if sides else a.interval
    return Facts(a.type, interval, a.nullable or b.nullable, domain)


def _tests_column(inner: Expression) -> bool:
    """Test for IS NULL, LIKE or IN of the column itself: its negation holds only where it is not
    NULL.
    """
    return (
        isinstance(inner, Call)
        and inner.function in ("is_null", "like", "ilike", "in")
        and isinstance(inner.args[0], Ref)
    )


def _among(facts: Facts, options: Iterable[Expression]) -> Facts:
    """Narrow facts to values equal to one of the options, if all of them are literals."""
    literals = [o for o in options if isinstance(o, Literal) and o.value is not None]
    others = [o for o in options if not isinstance(o, Literal)]
    if others or not literals:
        return replace(facts, nullable=False)
    return reduce(_either, (_equal(facts, literal) for literal in literals))


def _compared(facts: Facts, predicate: Call) -> Facts:
    comparison = against_constant(predicate)
    if comparison is None or not isinstance(comparison[1], Ref) or comparison[2].value is None:
        return facts
    function, _, constant = comparison
    if function == "eq":
        return _equal(facts, constant)
    facts = replace(facts, nullable=False)
    bound = _bound(constant, facts.type)
    if function == "ne":
        return replace(facts, nonzero=facts.nonzero or bound == 0)
    if bound is None:
        return facts
    return _within(facts, _half_line(function, bound, facts.type))


def _half_line(function: str, bound: Bound, kind: SqlType) -> Interval:
    match function:
        case "lt":
            return Interval(None, _next(bound, kind, -1))
        case "le":
            return Interval(None, bound)
        case "gt":
            return Interval(_next(bound, kind, 1), None)
        case _:
            return Interval(bound, None)


def _next(bound: Bound, kind: SqlType, sign: int) -> Bound:
    """Return the value just beyond `bound` in a type with a grid; `bound` itself otherwise, and at
    the ends of dates.
    """
    match bound:
        case Fraction() if kind.kind in (Kind.INTEGER, Kind.DECIMAL):
            step = Fraction(1, 10**kind.scale)
            return bound + sign * step if (bound / step).denominator == 1 else bound
        case date():
            tick = timedelta(microseconds=1) if isinstance(bound, datetime) else timedelta(days=1)
            return bound if bound in (type(bound).min, type(bound).max) else bound + sign * tick
        case _:
            return bound


def _within(facts: Facts, allowed: Interval) -> Facts:
    interval = facts.interval.intersect(allowed.inward(facts.type))
    domain = facts.domain
    if domain is not None:
        domain = tuple(value for value in domain if allowed.admits(value))
    return replace(facts, interval=interval, domain=domain)


def _equal(facts: Facts, literal: Literal) -> Facts:
    facts = replace(facts, nullable=False)
    bound = _bound(literal, facts.type)
    if bound is not None:
        facts = _within(facts, Interval(bound, bound))
    if literal.type.kind is not facts.type.kind:
        return facts
    options = (literal.value,) if facts.domain is None else facts.domain
    return replace(facts, domain=tuple(v for v in options if v == literal.value))


def _bound(literal: Literal, kind: SqlType) -> Bound | None:
    """Return the literal as an end among the column's values; None where it is not comparable."""
    end = bound_of(literal.value)
    if kind.is_numeric and isinstance(end, Fraction):
        return end
    return end if literal.type == kind else None


MOST_NODES = 64
"""Largest predicate that is used: each removed end takes some sixty evaluations."""

FIRST = datetime.min  # noqa: DTZ901
MICROSECOND = timedelta(microseconds=1)


@dataclass(frozen=True, slots=True)
class _Grid:
    """The values of a type numbered in order, from `least` to `most`."""

    number: Callable[[Bound], int]
    end: Callable[[int], Bound]
    least: int
    most: int


def shaved(column: Facts, number: int, predicate: Expression) -> Facts:
    """Return the facts of a column in rows where `predicate` is true, by trial on its interval.

    The predicate reads no other column. Ends of the interval are removed where it cannot be true.

    >>> from dpsql.model.tree import BOOLEAN, INTEGER
    >>> x = Ref(1, INTEGER)
    >>> double = Call("mul", (x, Literal(2, INTEGER)), INTEGER)
    >>> below = Call("lt", (double, Literal(10, INTEGER)), BOOLEAN)
    >>> shaved(Facts(INTEGER, Interval(Fraction(0), Fraction(99))), 1, below).interval.hi
    Fraction(4, 1)
    """
    grid = _grid(column.type)
    if grid is None or sum(1 for _ in walk(predicate)) > MOST_NODES:
        return column

    literals = (node for node in walk(predicate) if isinstance(node, Literal))
    constants = {id(node): literal_facts(node) for node in literals}

    def excluded(lo: Bound | None, hi: Bound | None) -> bool:
        piece = replace(column, interval=Interval(lo, hi), domain=None)
        truths = _facts(predicate, number, piece, constants).domain
        return truths is not None and True not in truths

    within = column.interval.inward(column.type)
    lo, hi = within.lo, within.hi
    first = grid.least if lo is None else grid.number(lo)
    last = grid.most if hi is None else grid.number(hi)
    if last < first:
        return column
    start = _cut(first, last, lambda n: excluded(lo, grid.end(n)))
    stop = -_cut(-last, -first, lambda n: excluded(grid.end(-n), hi))
    if stop < start:
        start = stop = first  # no row is left
    return replace(
        column,
        interval=Interval(
            lo if start == first else grid.end(start), hi if stop == last else grid.end(stop)
        ),
    )


def _facts(
    expression: Expression, number: int, piece: Facts, constants: Mapping[int, Facts]
) -> Facts:
    """Return the facts of an expression by the rules, where the column has the facts `piece`."""
    match expression:
        case Literal():
            return constants[id(expression)]
        case Ref(id=column) if column == number:
            return piece
        case Call(args=args):
            inner = tuple(_facts(arg, number, piece, constants) for arg in args)
            return facts(expression, inner, 2)
        case Cast(arg=arg):
            return facts(expression, (_facts(arg, number, piece, constants),), 2)
        case _:
            raise AssertionError(expression)


def _cut(first: int, last: int, excluded: Callable[[int], bool]) -> int:
    """Return the number after the longest excluded prefix; `first` if none is excluded.

    >>> _cut(0, 100, lambda n: n < 7), _cut(0, 100, lambda n: False)
    (7, 0)
    """
    if not excluded(first):
        return first
    first_kept, open_ = first, last + 1  # all up to `first_kept` is excluded
    while open_ - first_kept > 1:
        middle = (first_kept + open_) // 2
        if excluded(middle):
            first_kept = middle
        else:
            open_ = middle
    return first_kept + 1


def _grid(kind: SqlType) -> _Grid | None:
    match kind.kind:
        case Kind.INTEGER | Kind.DECIMAL:
            step = Fraction(1, 10**kind.scale)
            most = 10**kind.precision - 1 if kind.kind is Kind.DECIMAL else 2**127 - 1
            return _Grid(
                lambda end: round(cast("Fraction", end) / step), lambda n: n * step, -most, most
            )
        case Kind.DATE:
            return _Grid(
                lambda end: cast("date", end).toordinal(),
                date.fromordinal,
                date.min.toordinal(),
                date.max.toordinal(),
            )
        case Kind.TIMESTAMP | Kind.TIMESTAMPTZ:
            most = (datetime.max - FIRST) // MICROSECOND  # noqa: DTZ901
            return _Grid(_micros, lambda n: FIRST + n * MICROSECOND, 0, most)
        case _:
            return None


def _micros(end: Bound) -> int:
    assert isinstance(end, datetime)
    return (end - FIRST) // MICROSECOND
