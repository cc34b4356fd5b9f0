"""What is known of aggregates and window functions over the rows of one unit.

`rows` is the limit on those rows (None: no limit is known). Nothing here is trusted for privacy:
a wrong limit costs accuracy, since what is inferred is enforced by clips and key lists.
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import cast

from dpsql.model.intervals import EVERYTHING, Facts, Interval, lattice
from dpsql.model.tree import SqlType

VALUES = frozenset(
    """min max any_value first last mode quantile_disc arg_max arg_min arg_max_null arg_min_null
    lag lead first_value last_value nth_value""".split()
)
"""Functions whose result is one of the values of their first argument."""

MEANS = frozenset({"avg", "median", "quantile_cont"})
RANKS = frozenset("row_number rank dense_rank ntile".split())


def facts_of_rows(
    function: str, kind: SqlType, argument: Facts | None, rows: int | None, limit: int
) -> Facts:
    """The facts of an aggregate or window function; a domain of at most `limit` values.

    >>> from dpsql.model.tree import INTEGER
    >>> facts_of_rows("count", INTEGER, None, 2, 10).domain
    (0, 1, 2)
    """
    if function in VALUES and argument is not None:
        return replace(argument, type=kind, nullable=True)
    facts = Facts(kind, _interval(function, kind, argument, rows), nullable=True)
    if function in ("percent_rank", "cume_dist"):
        return replace(facts, nullable=False, nan=False)
    if function == "count" or function in RANKS:
        return replace(facts, nullable=False, domain=lattice(kind, facts.interval, limit))
    return facts


def _interval(function: str, kind: SqlType, argument: Facts | None, rows: int | None) -> Interval:
    if function in ("percent_rank", "cume_dist"):
        return Interval(Fraction(0), Fraction(1))
    if function == "count" or function in RANKS:
        least = Fraction(0 if function == "count" else 1)
        return Interval(least, None if rows is None else Fraction(max(1, rows)))
    if argument is None or not argument.type.is_numeric:
        return EVERYTHING
    if function in MEANS:
        return argument.interval.outward(kind, 4)
    if function == "sum":
        lo, hi = (
            cast("Fraction | None", argument.interval.lo),
            cast("Fraction | None", argument.interval.hi),
        )
        many = Interval(Fraction(0), None if rows is None else Fraction(rows))
        return (Interval(lo, hi) * many).outward(kind, 4)
    return EVERYTHING
