"""Ranges of the measures of blocks, by the policy's declarations and public tables.

Limits on the rows of a unit clip what the data have, so they say nothing of true values. Nor do an
analyst's own bounds, bounds that were found, or the days to which times without bounds are clipped.

It reads text, policy and public data alone: PRIVACY.md R108.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction
from itertools import permutations
from math import ceil, isqrt
from typing import cast

from dpsql.compiler.infer import column_facts
from dpsql.compiler.plan.certain_ranges import COUNTS, CertainNumbers, range_of_sum
from dpsql.compiler.plan.private_plan import BoundedBlock
from dpsql.model.algebra import Relation, Released
from dpsql.model.dataclass import replace
from dpsql.model.intervals import EVERYTHING, Facts, Interval
from dpsql.model.tree import AggregateCall, Star
from dpsql.model.walk import conjuncts, relations

_SHARE = Interval(Fraction(0), Fraction(1))
_SPREADS = {"var_pop": 4, "variance": 2, "stddev_pop": 4, "stddev": 2}
"""Squared range of values over the largest variance: 4 for all values, 2 for two of a sample."""
_OF_ARGUMENT = frozenset({"count", "sum", *column_facts.VALUES, *column_facts.MEANS, *_SPREADS})
"""Aggregates with a range that follows from the range of their first argument."""
_FINE = 10**6
"""Steps per unit in which the range of a standard deviation ends."""
_FIXED = {"corr": Interval(Fraction(-1), Fraction(1)), "regr_r2": _SHARE, "regr_count": COUNTS}


def certain_numbers(
    outer: Relation, blocks: Sequence[BoundedBlock], origin: column_facts.FactSource
) -> CertainNumbers:
    """Return the ranges of the measures that a query reads, and which are parts of which."""
    policy = origin.policy
    if any(c.private_bounds and c.bounds for t in policy.tables for c in t.columns):
        origin = replace(origin, policy=policy.with_tables(column_facts.without_found_bounds))
    measured = [tuple(_measures(block, origin)) for block in blocks]
    ranges, shares = dict[int, Interval](), set[tuple[int, int]]()
    for released in relations(outer):
        if isinstance(released, Released):
            columns = released.fields[len(blocks[released.block].block.keys) :]
            of_block = (measured[released.block][n] for n in released.measures)
            listed = list(zip(columns, of_block, strict=True))
            ranges |= {field.id: _range(call, argument) for field, (call, argument) in listed}
            pairs = permutations(listed, 2)
            shares |= {
                (a.id, b.id)
                for (a, (call, argument)), (b, (whole, _)) in pairs
                if _is_part(call, argument, whole)
            }
    return CertainNumbers(ranges, frozenset(shares))


def _measures(
    bounded: BoundedBlock, origin: column_facts.FactSource
) -> Iterator[tuple[AggregateCall, Facts | None]]:
    """Yield each measure of a block with the facts of its first argument, if it has one."""
    columns = None
    if any(bounded.arguments):
        columns = column_facts.Columns(bounded.block.rows, replace(origin, limitless=True))
    for measure, facts in zip(bounded.block.measures, bounded.arguments, strict=True):
        call = measure.call
        if columns is not None and facts and call.function in _OF_ARGUMENT:
            yield call, columns.facts(call.args[0])
        else:
            yield call, next(iter(facts), None)


def _range(call: AggregateCall, argument: Facts | None) -> Interval:
    """Return the range of a measure."""
    if call.function == "count":
        domain = argument.domain if argument and call.distinct and len(call.args) == 1 else None
        return COUNTS if domain is None else Interval(Fraction(0), Fraction(len(domain)))
    if call.function in _FIXED:
        return _FIXED[call.function]
    if argument is None or not argument.type.is_numeric:
        return EVERYTHING
    if call.function in _SPREADS:
        return _spread(call, argument.interval)
    if call.function in column_facts.VALUES | column_facts.MEANS:
        return argument.interval
    return range_of_sum(argument.interval) if call.function == "sum" else EVERYTHING


def _spread(call: AggregateCall, values: Interval) -> Interval:
    """Return the range of a variance or of a standard deviation of values in an interval."""
    if not values.is_bounded:
        return COUNTS
    lo, hi = cast("Fraction", values.lo), cast("Fraction", values.hi)
    most = (hi - lo) ** 2 / _SPREADS[call.function]
    if call.function.startswith("stddev"):
        squared = ceil(most * _FINE**2)  # rounded up: an end must not be too near
        most = Fraction(isqrt(squared - 1) + 1, _FINE) if squared else most
    return Interval(Fraction(0), most)


def _is_part(call: AggregateCall, argument: Facts | None, whole: AggregateCall) -> bool:
    """Test whether a measure counts, or adds at most 1 for, some of the rows of a count."""
    if whole.function != "count" or whole.distinct:
        return False
    conditions = set() if whole.filter is None else set(conjuncts(whole.filter))
    if not conditions <= (set() if call.filter is None else set(conjuncts(call.filter))):
        return False
    if call.args != whole.args and not isinstance(whole.args[0], Star):
        return False
    small = argument is not None and argument.type.is_numeric and argument.interval.within(0, 1)
    return call.function == "count" or (call.function == "sum" and small)
