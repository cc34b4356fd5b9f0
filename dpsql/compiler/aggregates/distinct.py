"""DISTINCT inside aggregates: each value counts once in a group, and each unit adds at most k
values.

A unit that comes or goes adds or takes at most its own k values. So a count of them changes by at
most k, and a sum over values changes by at most k times the bound of one value. The smallest known
k is used:

* 1 where the unit's key or the group's keys leave one value,
* the most rows of one unit that count in one group,
* the number of values that x can take, if those outside the list are not counted: then a sum is
  bounded by their total,
* for a count, the analyst's own bounds.

Proof (PRIVACY.md R32). The values are the union of one set for each unit. Without a set of at most
k it loses at most k and gains none, and the term of each value is clipped separately.
"""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from math import floor

from dpsql.compiler.aggregates import recipe
from dpsql.compiler.aggregates.recipe import counted
from dpsql.compiler.plan.measurement_kinds import ClippedSum, DistinctCount, DistinctSum
from dpsql.model.tree import BOOLEAN, Expression, Literal, scalar


def distinct_values(bounded: recipe.BoundedCall) -> DistinctCount:
    """Return the measurement of COUNT(DISTINCT x); raises `Refused` if nothing limits a unit's
    values.
    """
    condition = counted(bounded)
    if bounded.one_value:
        return _part(bounded, condition, 1, chosen=True)
    listed = _listed(bounded)
    if listed is not None and (bounded.rows is None or len(listed) < bounded.rows):
        inside = scalar("in", bounded.expression, *listed, kind=BOOLEAN)
        return _part(bounded, recipe.conjunction(condition, inside), len(listed), chosen=True)
    return _part(bounded, condition, recipe.count_clip(bounded), chosen=not bounded.rows_proved)


def over_values(bounded: recipe.BoundedCall, parts: recipe.Parts) -> recipe.Parts:
    """Return the moments of one argument; with DISTINCT each value counts once.

    Bounds on a unit's contribution to a group do not apply to values that other units have too.
    """
    if not bounded.call.distinct:
        return parts
    recipe.no_bounds_of_totals(bounded)
    values = distinct_values(replace(bounded, call=replace(bounded.call, clip=None)))
    return tuple(
        _summed(bounded, values, part) if isinstance(part, ClippedSum) else values for part in parts
    )


def _summed(bounded: recipe.BoundedCall, values: DistinctCount, part: ClippedSum) -> DistinctSum:
    """Build the sum of a moment over distinct values, bounded by the total of listed values."""
    total = DistinctSum(
        values=values,
        argument=part.argument,
        lattice=part.lattice,
        lower=part.lower,
        upper=part.upper,
        centre=part.centre,
        total_lower=0,
        total_upper=0,
    ).of_at_most(values.total_upper)
    listed = _listed(bounded)
    if listed is None or values.condition == counted(bounded) or part.argument != values.argument:
        return total
    steps = [_steps(value, part) for value in listed]
    ends = sum(n for n in steps if n < 0), sum(n for n in steps if n > 0)
    return replace(total, total_lower=ends[0], total_upper=ends[1])


def _steps(value: Literal, part: ClippedSum) -> int:
    """Return the grid steps that a listed number adds to the sum."""
    assert isinstance(value.value, int | float | Decimal)
    rounded = floor(Fraction(value.value) / part.lattice.step + Fraction(1, 2))
    return min(max(rounded, part.lower), part.upper) - part.centre


def _part(
    bounded: recipe.BoundedCall, condition: Expression | None, most: int, *, chosen: bool
) -> DistinctCount:
    fewer = most if bounded.call.clip is None else min(most, recipe.count_clip(bounded))
    chosen = chosen or bounded.call.clip is not None
    return DistinctCount(
        argument=bounded.expression, condition=condition, total_upper=fewer, chosen=chosen
    )


def _listed(bounded: recipe.BoundedCall) -> tuple[Literal, ...] | None:
    """Return the possible values of x as constants; None if they are not finitely many.

    NaN counts as a value for DISTINCT and is never listed.
    """
    facts = bounded.argument
    assert facts is not None
    if not facts.domain:
        return None
    return tuple(Literal(value, facts.type) for value in facts.domain)
