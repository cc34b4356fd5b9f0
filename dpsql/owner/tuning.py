"""tuning: which contribution limit errs least, from noisy histograms of rows and groups per unit.

Each unit is one row of a histogram (L0 = 1, Linf = 1); everything below is computed from the noisy
counts, so that a limit found this way may enter the policy, which is public.

The error of a limit c is estimated for COUNT(*) at the policy's `query_epsilon`. Rows: a unit with
n rows in a group loses max(0, n - c), and the noise grows as c. Groups: a unit of k groups loses
max(0, k - c) of them, spread over as many groups as the unit with most has, and the noise of each
group grows as the accountant says for L0 = c. The error is the root of bias² + noise².
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction
from itertools import pairwise
from math import hypot

from dpsql import accountants
from dpsql.mechanisms import standard_deviation
from dpsql.model.errors import Reason, Refused
from dpsql.model.table_names import address, nearest, parts
from dpsql.model.tree import identifier
from dpsql.model.vocabulary import Budget, Neighbours, Policy, Sensitivity, TablePolicy

EDGES = (
    *range(1, 9),
    *(m * 10**k for k in range(4) for m in (10, 13, 16, 20, 25, 32, 40, 50, 64, 80)),
)
"""The upper ends of the histogram's bins, and the limits that are tried; the last bin has none."""

BEYOND = 2 * EDGES[-1]
"""What stands for the last bin."""


class TunedLimit(StrEnum):
    """The limits of a policy that can be tuned."""

    ROWS = "max_rows_per_group"
    GROUPS = "max_groups_per_unit"


@dataclass(frozen=True, slots=True)
class Estimate:
    """What a limit would cost a count: the rows it cuts off, and the noise it needs."""

    limit: int
    bias: float
    noise: float

    @property
    def error(self) -> float:
        return hypot(self.bias, self.noise)


@dataclass(frozen=True, slots=True)
class Tuned:
    """The estimates of one limit by rising limit; none where no unit stood out of the noise."""

    kind: TunedLimit
    estimates: tuple[Estimate, ...]

    @property
    def best(self) -> Estimate | None:
        """The estimate with the least error."""
        return min(self.estimates, key=lambda estimate: estimate.error, default=None)


def questions(policy: Policy, name: str, by: Sequence[str]) -> dict[TunedLimit, str]:
    """The histogram that each limit of a private table is tuned by, as SQL over the policy.

    With group columns `by` there are two: groups per unit, and rows in the largest group of each.
    Raises `Refused` for what the policy does not know.
    """
    table = policy.named(tuple(part for part in parts(name) or (name,) if part is not None))
    if table is None:
        private = tuple(t.name for t in policy.tables if t.private)
        near = nearest(name, private)
        raise Refused(Reason.UNKNOWN_TABLE, table=name, near=near, known=private)
    if not table.private:
        why = f"{table.name} is public and needs no limits"
        raise Refused(Reason.BAD_OPTION, option="TABLE", why=why)
    if table.several:
        why = f"rows of {table.name} belong to several people, and check counts those of each"
        raise Refused(Reason.BAD_OPTION, option="TABLE", why=why)
    for column in by:
        if table.column(column) is None:
            existing = tuple(c.name for c in table.columns if not c.hidden)
            near = nearest(column, existing)
            raise Refused(
                Reason.UNKNOWN_COLUMN, column=column, table=table.name, near=near, known=existing
            )
    source, unit = _source(policy, table)
    keys = ", ".join(f"t0.{identifier(column)}" for column in by)
    if not by:
        rows = f"SELECT {unit} AS unit, COUNT(*) AS n FROM {source} GROUP BY {unit}"
        return {TunedLimit.ROWS: _histogram(rows)}
    groups = f"SELECT {unit} AS unit, {keys}, COUNT(*) AS m FROM {source} GROUP BY {unit}, {keys}"
    each = f"FROM ({groups}) AS g GROUP BY unit"
    return {
        TunedLimit.GROUPS: _histogram(f"SELECT unit, COUNT(*) AS n {each}"),
        TunedLimit.ROWS: _histogram(f"SELECT unit, MAX(m) AS n {each}"),
    }


def _source(policy: Policy, table: TablePolicy) -> tuple[str, str]:
    """The table joined along its links to the unit, and the unit's key."""
    joined, here = f"{address(table.name)} AS t0", 0
    while table.link is not None:
        link, next_table = table.link, policy.table(table.link.table)
        assert next_table is not None
        condition = f"t{here}.{identifier(link.column)} = t{here + 1}.{identifier(link.key)}"
        joined += f" JOIN {address(next_table.name)} AS t{here + 1} ON {condition}"
        table, here = next_table, here + 1
    return joined, f"t{here}.{identifier(policy.unit.key)}"


def _histogram(rows: str) -> str:
    """Units by the bin of their `n`: a public key."""
    bins = " ".join(f"WHEN n <= {edge} THEN {edge}" for edge in EDGES)
    return (
        f"SELECT CASE {bins} ELSE {BEYOND} END AS most, COUNT(*) AS units "
        f"FROM ({rows}) AS u GROUP BY 1"
    )


def tuned(
    kind: TunedLimit,
    units: Mapping[int, float],
    margin: float,
    budget: Budget,
    neighbours: Neighbours = Neighbours.ADD_REMOVE,
) -> Tuned:
    """The estimates from a noisy histogram: `units` by bin, each with noise up to `margin`.

    A bin that does not stand out of its noise counts as empty.

    >>> from decimal import Decimal
    >>> budget = Budget("b", Decimal(1), Decimal(0), "pure")
    >>> tuned(TunedLimit.ROWS, {1: 900.0, 4: 300.0, 50: 20.0}, 30.0, budget).best.limit
    4
    """
    histogram = {most: count for most, count in units.items() if count > margin}
    if not histogram:
        return Tuned(kind, ())
    largest = max(histogram)
    limits = [edge for edge in EDGES if edge < largest] + [min(largest, EDGES[-1])]
    spread = 1 if kind is TunedLimit.ROWS else largest
    noise = _noise(kind, budget, neighbours)
    return Tuned(
        kind,
        tuple(Estimate(c, _lost(histogram, c) / spread, noise(c)) for c in dict.fromkeys(limits)),
    )


def _lost(histogram: Mapping[int, float], limit: int) -> float:
    """What the units of each bin, all in its middle, have beyond the limit."""
    return sum(count * max(0.0, _MIDDLES[most] - limit) for most, count in histogram.items())


_MIDDLES: dict[int, float] = {1: 1.0, BEYOND: float(BEYOND)} | {
    edge: (below + 1 + edge) / 2 for below, edge in pairwise(EDGES)
}


def _noise(kind: TunedLimit, budget: Budget, neighbours: Neighbours) -> Callable[[int], float]:
    """The standard deviation of a count's noise, by the limit."""
    epsilon, delta = Fraction(budget.query_epsilon), Fraction(budget.query_delta)
    accountant = accountants.preferring(budget, None, epsilon)
    allowance = accountant.allowance(epsilon, delta, selects_keys=False)

    def deviation(limit: int) -> float:
        l0, linf = (1, limit) if kind is TunedLimit.ROWS else (limit, 1)
        sensitivity = Sensitivity(l0, 0, linf, neighbours)
        return standard_deviation(
            accountant.noise(allowance.amount, allowance.noise_delta, sensitivity)
        )

    return deviation
