"""Expected data: what public sizes say about a private block, as integers that noise could give.

The owner declares how many units and rows there are (`expected_rows`). A case adds an assumption on
how evenly rows belong to units, from which norms and totals follow. A forecast runs the rest of the
pipeline on these integers instead of released ones.

Only text, policy and public data are read. Floats may err: nothing private depends on them.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping
from datetime import UTC, date, datetime, timedelta
from math import log, prod, sqrt
from statistics import NormalDist
from typing import assert_never

import numpy as np

from dpsql.compiler.calibrate.poll_queries import places
from dpsql.compiler.plan import measurement_kinds
from dpsql.compiler.plan.lattices import Grid
from dpsql.compiler.plan.private_plan import BlockPlan, Poll, PrivateBlock
from dpsql.compiler.plan.published_keys import Domain, TopKeys
from dpsql.mechanisms.norm_bounds import Octaves
from dpsql.model.algebra import Aggregate, Filter, Join, Match, Relation, Scan
from dpsql.model.comparisons import against_constant
from dpsql.model.dataclass import dataclass
from dpsql.model.tree import Call, Expression, JoinKind, Kind, Literal, Ref, SqlType, Value
from dpsql.model.vocabulary import ColumnPolicy, Noisy, Norm, Policy
from dpsql.model.walk import inputs, relations

_QUANTILES = np.array([NormalDist().inv_cdf((n + 0.5) / 400) for n in range(400)])
_FEW_ROWS = 50.0
"""Mean rows of a unit up to which their Poisson distribution matters beside octaves."""
_GUESS = 0.3
"""Share of rows that a condition keeps if nothing is known about it."""


@dataclass(frozen=True, slots=True)
class ExpectedCase:
    """An assumption about data, where the policy says nothing.

    A unit has `rows` rows of a table, and `spread` is the standard deviation of the logarithm.
    Conditions keep `selectivity` times the share that is expected. A unit's rows are in as many
    groups as there are, to the power of `evenness`. The size of groups falls with the power `sizes`
    of their rank. A row has `value` times the largest value, and is `deviation` times that from the
    mean. `keys` private keys are shown.
    """

    rows: float
    spread: float
    selectivity: float
    evenness: float
    sizes: float
    deviation: float
    keys: int
    value: float = 0.125


@dataclass(frozen=True, slots=True, eq=False)
class ExpectedUnits:
    """Units by their number of rows in a block: `numbers` of units with `rows` rows each.

    Where a unit has one row that sums up its own rows, values are `sizes` times their mean.
    """

    case: ExpectedCase
    rows: np.ndarray
    numbers: np.ndarray
    groups: float
    columns: Mapping[int, ColumnPolicy]
    sizes: np.ndarray

    def _fraction(self, condition: Expression | None) -> float:
        return 1.0 if condition is None else _share(condition, self.columns)

    def norms(
        self,
        total: measurement_kinds.AdditiveTotal
        | measurement_kinds.UnitCount
        | measurement_kinds.DistinctCount,
        norm: Norm,
    ) -> np.ndarray:
        """Return the norm of each unit's totals over its groups, in steps of rows."""
        rows = self.rows * self._fraction(total.condition)
        match total:
            case measurement_kinds.ClippedSum(centre=centre) if centre:
                deviation = np.maximum(abs(self.sizes - 1), self.case.deviation)
                size = abs(expected_value(total, self.case)) * deviation
                rows = rows ** (0.5 + self.case.deviation / 2)
            case measurement_kinds.ClippedSum():
                size = abs(expected_value(total, self.case)) * self.sizes
            case measurement_kinds.UnitCount():
                rows, size = self._groups_of(rows), 1.0
            case measurement_kinds.RowCount() | measurement_kinds.DistinctCount():
                size = 1.0
            case _:
                assert_never(total)
        if isinstance(total, measurement_kinds.UnitCount) and norm is Norm.L2:
            rows = np.sqrt(rows)
        elif norm is Norm.L2:
            rows = np.sqrt(rows * (1 + np.maximum(rows - 1, 0.0) / self.groups))
        elif norm is Norm.MAX:
            # About the most rows of a unit in one of its groups.
            means = rows / self.groups
            rows = np.minimum(rows, means + np.sqrt(2 * means * log(self.groups)))
        norms: np.ndarray = size * rows
        return norms

    def _groups_of(self, rows: np.ndarray) -> np.ndarray:
        groups: np.ndarray = np.minimum(rows, 1.0)
        if self.groups > 1:
            groups = self.groups * (1 - (1 - 1 / self.groups) ** rows)
        return groups

    def total(self, part: measurement_kinds.Measurement, groups: int) -> float:
        """Return the expected total of one of `groups` equal groups, in steps of its grid."""
        fraction = self._fraction(part.condition)
        count = float(self.rows @ self.numbers) * fraction / groups
        match part:
            case measurement_kinds.RowCount():
                return count
            case measurement_kinds.UnitCount() | measurement_kinds.RowTest():
                return float(self._groups_of(self.rows * fraction) @ self.numbers) / groups
            case measurement_kinds.ClippedSum():
                return count * (expected_value(part, self.case) - part.centre)
            case measurement_kinds.DistinctCount(total_upper=most):
                return min(count, most * float(self.numbers.sum()) / groups)
            case measurement_kinds.DistinctSum(values=values):
                return self.total(values, groups) * (part.upper * self.case.value - part.centre)
            case measurement_kinds.BlockAverage():
                return 0.0
            case measurement_kinds.StableMean():
                return (part.upper * self.case.value - part.centre) * part.steps
            case measurement_kinds.ScaledTotal(total=total, steps=steps):
                return self.total(total, groups) * steps
            case _:
                assert_never(part)


def expected_value(total: measurement_kinds.ClippedSum, case: ExpectedCase) -> float:
    """Return the expected value of a row in steps, before its centre is subtracted.

    A centre that was found is about the mean; the middle of declared bounds says nothing of it.
    """
    if total.centre not in {0, (total.lower + total.upper) // 2}:
        return total.centre
    end = total.upper if total.upper > 0 else total.lower
    return max(total.lower, min(end * case.value, total.upper))


def expected_units(block: BlockPlan, policy: Policy, case: ExpectedCase) -> ExpectedUnits | None:
    """Return the units of a block; None where no number of units is declared."""
    people = policy.table(policy.unit.table)
    if people is None or people.expected_rows is None:
        return None
    return _units_of(block.block, policy, case, people.expected_rows, block.l0)


def _units_of(
    block: PrivateBlock, policy: Policy, case: ExpectedCase, units: int, groups: int
) -> ExpectedUnits:
    columns = _columns(block, policy)
    fraction = _share_by_filters(block.rows, columns)
    fraction = fraction if fraction == 1.0 else min(1.0, fraction * case.selectivity)
    each = max(_rows_of(block, policy, case, units), 1.0)
    mean = (each if block.max_rows is None else min(each, float(block.max_rows))) * fraction
    sizes = np.ones(1)
    if block.max_rows == 1 and any(isinstance(part, Aggregate) for part in relations(block.rows)):
        sums, numbers = _distribution(each, case.spread, units)
        rows, numbers, sizes = np.ones(len(sums)), numbers * fraction, sums / each
    elif block.max_rows == 1:
        rows, numbers = np.array([1.0]), np.array([units * min(mean, 1.0)])
    else:
        rows, numbers = _distribution(mean, case.spread, units)
    within = max(1.0, groups**case.evenness)
    return ExpectedUnits(case, rows, numbers, groups=within, columns=columns, sizes=sizes)


def _rows_of(block: PrivateBlock, policy: Policy, case: ExpectedCase, units: int) -> float:
    """Return the expected rows of a unit, before conditions."""
    scans = [part for part in relations(block.rows) if isinstance(part, Scan)]
    tables = [policy.table(scan.table) for scan in scans]
    private = [table for table in tables if table is not None and table.private]
    means = [
        1.0
        if table.name.lower() == policy.unit.table.lower()
        else case.rows
        if table.expected_rows is None
        else table.expected_rows / units
        for table in private
    ]
    return max(means, default=1.0)


def _distribution(mean: float, spread: float, units: int) -> tuple[np.ndarray, np.ndarray]:
    """Return numbers of rows, and of units with each: Poisson about lognormal means."""
    means = mean * np.exp(spread * _QUANTILES)
    means *= mean / (means.mean() or 1.0)
    each = units / len(means)
    small = means[means <= _FEW_ROWS]
    counts = np.arange(1, int(_FEW_ROWS * 3))
    logs = np.cumsum(np.log(counts))
    with np.errstate(divide="ignore"):
        chances = np.exp(counts * np.log(small[:, None]) - small[:, None] - logs)
    numbers = chances.sum(axis=0) * each
    large = means[means > _FEW_ROWS]
    return (
        np.concatenate([counts.astype(float), large]),
        np.concatenate([numbers, np.full(len(large), each)]),
    )


# --- the share of rows that conditions keep ---

_Columns = Mapping[int, ColumnPolicy]


def _columns(block: PrivateBlock, policy: Policy) -> _Columns:
    """Return the declarations of the columns that a block reads, by their ids."""
    columns = {}
    for scan in relations(block.rows):
        table = policy.table(scan.table) if isinstance(scan, Scan) else None
        for field in scan.fields if table is not None else ():
            if (column := table.column(field.name) if table else None) is not None:
                columns[field.id] = column
    return columns


def _share_by_filters(rows: Relation, columns: _Columns) -> float:
    """Return the share of rows that the conditions of a relation keep."""
    match rows:
        case Match(input=given):
            return _GUESS * _share_by_filters(given, columns)
        case Filter(predicate=predicate):
            fraction = _share(predicate, columns)
        case Join(condition=Call() as condition, kind=JoinKind.INNER):
            fraction = _of_join(condition, columns)
        case _:
            fraction = 1.0
    return fraction * prod(_share_by_filters(each, columns) for each in inputs(rows))


def _of_join(condition: Call, columns: _Columns) -> float:
    """Return the share that conditions on one column keep: links between columns keep all rows."""
    if condition.function == "and":
        shares = (_of_join(a, columns) for a in condition.args if isinstance(a, Call))
        return prod(shares)
    return _share(condition, columns) if against_constant(condition) is not None else 1.0


def _share(condition: Expression, columns: _Columns) -> float:
    """Return about which share of rows fulfils a condition, by declared values and bounds."""
    match condition:
        case Call(function="and", args=args):
            return prod(_share(each, columns) for each in args)
        case Call(function="or", args=args):
            return min(1.0, sum(_share(each, columns) for each in args))
        case Call(function="not", args=(each,)):
            return max(1 - _share(each, columns), 0.01)
        case Call(function="is_null"):
            return 0.1
        case Call(function="in", args=(Ref(id=column), *values)):
            return min(1.0, len(values) * _of_one(columns.get(column)))
        case Literal(value=value):
            return 1.0 if value else 0.0
        case _:
            pass
    match against_constant(condition):
        case ("eq", Ref(id=column), _):
            return _of_one(columns.get(column))
        case (("lt" | "le") as name, Ref(id=column), Literal(value=end)):
            return _below(columns.get(column), end, name)
        case (("gt" | "ge") as name, Ref(id=column), Literal(value=end)):
            return max(1 - _below(columns.get(column), end, name), 0.01)
        case _:
            return _GUESS


def _of_one(column: ColumnPolicy | None) -> float:
    return 1 / len(column.values) if column is not None and column.values else _GUESS / 3


def _below(column: ColumnPolicy | None, end: Value, name: str) -> float:
    """Return the share of a column's range below a constant."""
    if column is None or column.bounds is None:
        return 1 - _GUESS if name[0] == "g" else _GUESS
    try:
        low, high, here = map(_as_number, (*column.bounds, end))
    except TypeError:
        return 0.5
    return min(1.0, max(0.01, (here - low) / (high - low))) if high > low else 0.5


def _as_number(value: Value) -> float:
    match value:
        case datetime():
            return (value.replace(tzinfo=UTC) - datetime.min.replace(tzinfo=UTC)).total_seconds()
        case date():
            return (value - date.min).total_seconds()
        case timedelta():
            return value.total_seconds()
        case str() | None:
            raise TypeError(value)
        case _:
            return float(value)  # type: ignore[arg-type]


# --- integers in place of released ones ---


def expected_votes(poll: Poll, units: ExpectedUnits) -> list[int]:
    """Return the expected counts of a poll, one for each of its places, in order."""
    vote, listed = poll.block.vote, places(poll)
    counts = np.zeros(len(listed))
    match vote:
        case measurement_kinds.Vote():
            norms = units.norms(vote.total, vote.norm) * vote.steps
            for norm, number in zip(norms, units.numbers, strict=True):
                if norm > 0:
                    counts[_octave_place(vote.bins, min(norm, vote.most))] += number
        case measurement_kinds.RangeVote(total=total, bins=bins):
            # Of values without bounds, half of the octaves are as likely as the others.
            largest = max(sqrt(abs(expected_value(total, units.case))), 1.0)
            counts[_octave_place(bins, largest)] = units.numbers.sum()
        case measurement_kinds.MeanVote(total=total, edges=edges):
            counts[bisect_right(edges, expected_value(total, units.case))] = units.numbers.sum()
        case measurement_kinds.RatioVote(total=above, below=below, edges=edges):
            ratio = units.total(above, 1) / max(units.total(below, 1), 1e-9)
            counts[bisect_right(edges, ratio)] = units.numbers.sum()
        case None:
            raise AssertionError(poll)
        case _:
            assert_never(vote)
    return [round(n) for n in counts]


def _octave_place(bins: Octaves, norm: float) -> int:
    """Return the place of a norm among the octaves, the first one for the least."""
    ends = [bins.end(4 * place // bins.parts) for place in bins.places]
    return min(int(np.searchsorted(ends, norm * (1 - 1e-9))), len(ends) - 1)


def expected_release(block: BlockPlan, units: ExpectedUnits) -> Noisy:
    """Return the expected table of a block: groups, and a middle for each choice."""
    domain = block.domain
    keys = _keys(block, units.case.keys) if domain is None else domain
    if isinstance(block.keys, TopKeys):
        keys = keys[: block.keys.top.count]
    groups = max(1, len(domain or keys))
    ranks = np.arange(1, groups + 1) ** -units.case.sizes
    rows = [
        _row(block, units, groups, share) for share in (ranks / ranks.mean()).tolist()[: len(keys)]
    ]
    if len(block.columns) > len(block.noisy):
        rows = [[place + 1, *row] for place, row in enumerate(rows)]
    return Noisy(keys, tuple(map(tuple, rows)))


def _row(block: BlockPlan, units: ExpectedUnits, groups: int, share: float) -> list[int | None]:
    """Return the measurements and choices of one group, of `share` times the mean size."""
    row: list[int | None] = [round(units.total(r.query, groups) * share) for r in block.releases]
    row += [_middle(choice.query.histogram.grid) for choice in block.choices]
    for tree in block.trees:
        grid = tree.histogram.grid
        row += [_middle(grid)] * len(tree.fields)
        row += [max(1, (grid.upper - grid.lower) // 8)] * len(tree.halves)
    return row


def _middle(grid: Grid) -> int:
    return grid.point(grid.cells // 2)


def _keys(block: BlockPlan, number: int) -> Domain:
    """Return this number of values of private keys."""
    kinds = [key.field.type for key in block.block.keys]
    return tuple(tuple(_key(kind, n) for kind in kinds) for n in range(number))


def _key(kind: SqlType, number: int) -> Value:
    match kind.kind:
        case Kind.VARCHAR:
            return str(number)
        case Kind.DATE:
            return date(2000, 1, 1) + timedelta(days=number)
        case Kind.TIMESTAMP:
            return datetime(2000, 1, 1) + timedelta(days=number)  # noqa: DTZ001
        case Kind.INTEGER:
            return number
        case _:
            return None
