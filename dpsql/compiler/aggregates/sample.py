"""SAMPLE_AGGREGATE(expression, lower, upper [, blocks]): the average of an aggregate over blocks.

A keyed hash puts each unit, with all of its rows, into one of k blocks, for any group. The
expression is computed for every block of a group and clipped to [lower, upper]. A block without a
finite value counts as the middle. The answer is the noisy average of the k numbers (sample and
aggregate: Nissim, Raskhodnikova and Smith 2007).

A unit that comes or goes changes the rows of one block of each of its groups. So it changes one
number of k by at most upper - lower, for any expression; a replaced unit changes two. The estimate
is the average of the expression over samples of a k-th of the units each. It differs from the value
over all units where the expression is not linear.

Proof (PRIVACY.md R37). All rows of a unit are in one block: one number of k changes in each of its
groups, within the clip.
"""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from math import ceil, sqrt

from dpsql.compiler.aggregates import recipe
from dpsql.compiler.aggregates.formulas import clamped
from dpsql.compiler.plan.measurement_kinds import BlockAverage
from dpsql.model.errors import Reason, Refused
from dpsql.model.tree import DOUBLE, AggregateCall, Expression, Literal, Ref, WindowCall
from dpsql.model.walk import children, map_children, walk

SAMPLE = "sample_aggregate"

_PEOPLE = 1000
"""Number of units of a typical group."""

_FEWEST, _MOST = 10, 10_000


def blocks_at(noise: float) -> int:
    """Return the default number of blocks, from 10 to 10,000.

    `noise` is the noise of a sum that one unit moves by one. With k blocks the noise of the average
    is noise/k of the width upper - lower. The value of a block of n/k units differs from that of
    all n by up to k/n of the width. That is the distance of the largest of n/k evenly spread values
    from its bound. Smoother aggregates differ less. Both grow with the width, so bounds do not
    matter; (noise/k)² + (k/n)² is least at k = √(n·noise).

    >>> blocks_at(0.14), blocks_at(1.41), blocks_at(14.1), blocks_at(float("inf"))
    (12, 38, 119, 10000)
    """
    blocks = sqrt(_PEOPLE * min(noise, _MOST**2))
    return min(max(ceil(blocks), _FEWEST), _MOST)


def takes_samples(args: tuple[Expression, ...]) -> bool:
    """Test whether bounds and blocks are constants in order: lower < upper, 1 to 10,000 blocks.

    >>> takes_samples((Ref(1, DOUBLE), Literal(0.0, DOUBLE), Literal(1.0, DOUBLE)))
    True
    """
    lower, upper = (_number(arg) for arg in args[1:3])
    if lower is None or upper is None or lower >= upper:
        return False
    many = args[3] if len(args) > 3 else Literal(_FEWEST, DOUBLE)  # noqa: PLR2004
    value = many.value if isinstance(many, Literal) else None
    return isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= _MOST


def _number(arg: Expression) -> Fraction | None:
    value = arg.value if isinstance(arg, Literal) else None
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal):
        return None
    return Fraction(value) if Decimal(value).is_finite() else None


def _blocks(bounded: recipe.BoundedCall) -> int:
    written = bounded.call.args[3:]
    if not written:
        return blocks_at(bounded.options.noise)
    assert isinstance(written[0], Literal)
    assert isinstance(written[0].value, int)
    return written[0].value


def _bounds(bounded: recipe.BoundedCall) -> recipe.RowBounds:
    lower, upper = (_number(arg) for arg in bounded.call.args[1:3])
    assert lower is not None
    assert upper is not None
    bounds = recipe.clip_between(bounded, DOUBLE, lower, upper)
    if bounds.lower >= bounds.upper:
        raise Refused(Reason.UNBOUNDED_INPUT, bounded.call.span, fix="Widen the bounds.")
    return bounds


def _parts(bounded: recipe.BoundedCall) -> recipe.Parts:
    recipe.no_distinct(bounded)
    bounds = _bounds(bounded)
    return (
        BlockAverage(
            argument=_filtered(bounded.expression, bounded.call.filter),
            lattice=bounds.lattice,
            lower=bounds.lower,
            upper=bounds.upper,
            blocks=_blocks(bounded),
        ),
    )


def _filtered(expression: Expression, condition: Expression | None) -> Expression:
    """Apply a FILTER of the whole call to every aggregate of the expression."""
    if condition is None:
        return expression
    if not isinstance(expression, AggregateCall):
        return map_children(expression, lambda child: _filtered(child, condition))
    both_conditions = recipe.conjunction(expression.filter, condition)
    return replace(expression, filter=both_conditions)


def _combine(bounded: recipe.BoundedCall, parts: tuple[Ref, ...]) -> Expression:
    (total,) = parts
    bounds = _bounds(bounded)
    step = bounds.lattice.step
    centre = float((bounds.lower + bounds.upper) // 2 * step)
    average = centre + total.to(DOUBLE) / float(_blocks(bounded))
    return clamped(average, bounds.lower * step, bounds.upper * step)


def check_sampled(expression: Expression) -> None:
    """Refuse anything but an expression over aggregates: a bare column, a window, no aggregate."""
    if not any(isinstance(node, AggregateCall) for node in walk(expression)):
        construct = "SAMPLE_AGGREGATE of no aggregate"
        raise Refused(Reason.UNSUPPORTED_SYNTAX, expression.span, construct=construct)
    _only_aggregates(expression)


def _only_aggregates(expression: Expression) -> None:
    match expression:
        case AggregateCall(function=function) if function != SAMPLE:
            return
        case AggregateCall() | WindowCall():
            raise Refused(Reason.MISPLACED_AGGREGATE, expression.span, name=expression.function)
        case Ref():
            column = "a column outside of the aggregates"
            raise Refused(Reason.NOT_GROUPED, expression.span, column=column)
        case _:
            for child in children(expression):
                _only_aggregates(child)


SAMPLED = recipe.Recipe(_parts, _combine)
