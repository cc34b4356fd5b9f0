"""Distances beyond the noise at which the truth may lie, because a limit clips contributions.

A column of positive values can only be too low. So its interval reaches farther up than down. Bases
carry an upper bound on the bias of each side. Expressions add the changes from moving each base.

An average divides a sum of either sign by a count. Half of the bias of each moves it to either
side, and is added to the noise in squares.

It is post-processing: PRIVACY.md R66, R97.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from operator import add

from dpsql.compiler.errors.expression_errors import NAN, or_zero, slopes_of, value_type
from dpsql.model.algebra import Field
from dpsql.model.dataclass import dataclass, replace
from dpsql.model.tree import DOUBLE, Call, Expression, Literal, Ref, operand, scalar, when
from dpsql.model.walk import map_children, refs, substitute, walk

NOTHING = operand(0.0)


@dataclass(frozen=True, slots=True)
class Ends:
    """Upper bounds of the bias: the truth lies at most `below` and `above` a number without noise.

    A sum of `either` sign may lack both. The ends of an average are `squared`: they add up with the
    noise as squares do.
    """

    below: Expression
    above: Expression
    either: bool = False
    squared: bool = False

    @property
    def longest(self) -> Expression:
        """Return the larger end."""
        if NOTHING in (self.below, self.above):
            return self.above if self.below == NOTHING else self.below
        return scalar("greatest", self.below, self.above)

    def map(self, change: Callable[[Expression], Expression]) -> Ends:
        """Return the ends with `change` applied; an end of zero stays."""
        below, above = (end if end == NOTHING else change(end) for end in (self.below, self.above))
        return replace(self, below=below, above=above, squared=False)


@dataclass(frozen=True, slots=True)
class Reach:
    """Half of an interval over the standard error, on both ends, and beyond a large bias on one."""

    width: float
    one_end: float

    def halves(self, error: Expression, ends: Ends) -> tuple[Expression, Expression]:
        """Return the distances from a number to the low and the high end of its interval."""
        if ends.squared:
            squares = (scalar("pow", each, 2.0) for each in (error * self.width, ends.above))
            half = scalar("sqrt", reduce(add, squares))
            return half, half
        bias, room = ends.below + ends.above, self.width - self.one_end
        noise: Expression = error * self.width
        if room > 0:
            beyond = scalar("exp", scalar("greatest", bias / (error * (-2 * room)), -700.0))
            noise = error * (beyond * room + self.one_end)
        below, above = (
            error * self.width
            if end == NOTHING
            else when(end.gt(0.0), noise + end, error * self.width)
            for end in (ends.below, ends.above)
        )
        return below, above


def ends_of(over_bases: Expression, biased: Mapping[int, Ends]) -> Ends | None:
    """Return the ends of an expression over bases; None if none of them is `biased`."""
    moved = {base: biased[base] for base in sorted(refs(over_bases) & biased.keys())}
    if not moved:
        return None
    if isinstance(over_bases, Ref):
        return moved[over_bases.id]
    slopes = slopes_of(_smooth(over_bases))
    if slopes is not None:
        return _of_linear(slopes, moved)
    if value_type(_shifted(over_bases, dict.fromkeys(moved, Literal(1.0, DOUBLE)))) is None:
        return Ends(NAN, NAN)
    if any(ends.either for ends in moved.values()):
        return _of_average(over_bases, moved)
    changes = [
        _change(over_bases, {base: end if sign > 0 else -1.0 * end})
        for base, ends in moved.items()
        for sign, end in ((-1, ends.below), (1, ends.above))
        if end != NOTHING
    ]
    if not changes:
        return Ends(NOTHING, NOTHING)
    below, above = (
        reduce(add, (scalar("greatest", change * sign, 0.0) for change in changes))
        for sign in (-1.0, 1.0)
    )
    return Ends(below, above)


def _of_linear(slopes: Mapping[int, float], moved: Mapping[int, Ends]) -> Ends:
    """Return the ends of a sum of multiples of bases."""
    sides: tuple[list[Expression], list[Expression]] = [], []
    for base, ends in moved.items():
        slope = slopes.get(base, 0.0)
        for side, end in enumerate((ends.below, ends.above)):
            if slope and end != NOTHING:
                sides[side if slope > 0 else 1 - side].append(end * abs(slope))
    below, above = (reduce(add, side) if side else NOTHING for side in sides)
    return Ends(below, above, either=any(ends.either for ends in moved.values()))


def _smooth(expression: Expression) -> Expression:
    """Return the expression without ROUND, and without COALESCE to a constant."""
    match expression:
        case Call("round", (inner,)) | Call("coalesce", (inner, Literal())):
            return _smooth(inner)
        case _:
            return map_children(expression, _smooth)


def _of_average(over_bases: Expression, moved: Mapping[int, Ends]) -> Ends:
    """Return the ends of an average: half of the bias of each base, to either side."""
    steps = ({base: ends.longest * 0.5} for base, ends in moved.items())
    squares = (scalar("pow", _change(over_bases, step), 2.0) for step in steps)
    half = scalar("sqrt", reduce(add, squares))
    return Ends(half, half, either=True, squared=True)


def _change(expression: Expression, steps: Mapping[int, Expression]) -> Expression:
    """Return the change of an expression if bases move by these steps; NaN where undefined."""
    moved = _shifted(expression, steps)
    return scalar("coalesce", moved.to(DOUBLE) - expression.to(DOUBLE), NAN)


def _shifted(expression: Expression, steps: Mapping[int, Expression]) -> Expression:
    columns = {node.id: node for node in walk(expression) if isinstance(node, Ref)}
    return substitute(expression, {n: columns[n].to(DOUBLE) + step for n, step in steps.items()})


def total_ends(
    ends: Ends | None,
    function: str,
    counted: Callable[[Expression], Expression],
    named: Callable[[str, Expression], Expression],
    count: Callable[[], Expression],
) -> Ends | None:
    """The ends of an aggregate of values with these ends; NaN where there is no rule.

    `counted` is zero where a value is NULL, `named` makes a hidden column of an aggregate over the
    same rows, and `count` one of their number.
    """
    if ends is None:
        return None
    match function:
        case "sum":
            return ends.map(lambda end: named("sum", counted(end)))
        case "avg":
            number = count().to(DOUBLE)
            return ends.map(lambda end: named("sum", counted(end)) / number)
        case "min" | "max" | "any_value":
            return ends.map(lambda end: named("max", end))
        case "lag" | "lead" | "first_value" | "last_value" | "nth_value":
            return ends.map(lambda end: named(function, end))
        case _:
            return Ends(NAN, NAN)


def rest_ends(whole: Ends | None, part: Ends | None) -> Ends | None:
    """The ends of what is left of a total without a part of it."""
    if whole is None or part is None:
        return whole
    pairs = ((whole.below, part.below), (whole.above, part.above))
    below, above = (
        end if NOTHING in (end, own) else scalar("greatest", end - or_zero(own), 0.0)
        for end, own in pairs
    )
    return replace(whole, below=below, above=above)


def united_ends(
    new: Field, ends: Sequence[Ends | None], added: Callable[[Sequence[Expression]], Expression]
) -> dict[int, Ends]:
    """Return the ends of a column of a union, by its id; nothing where neither side has any."""
    if not any(ends):
        return {}
    below = added([NOTHING if each is None else each.below for each in ends])
    above = added([NOTHING if each is None else each.above for each in ends])
    either = any(each is not None and each.either for each in ends)
    return {new.id: Ends(below, above, either=either)}
