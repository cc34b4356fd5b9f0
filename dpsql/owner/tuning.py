"""tuning: the contribution limit with the least error, from a noisy histogram of units.

Each unit is one row of a histogram (L0 = 1, Linf = 1), in the log2 bin of its size: of rows, of
groups, or of a column's values. Everything below is computed from the noisy counts, so the found
limit may enter the policy, which is public.

The error of a limit is estimated for one group of a COUNT or SUM at the policy's `query_epsilon`:
the mean of |clipped amount + noise|. The clipped amount is a sum over bins with log-uniform sizes;
bins beyond the last significant one are weighted as in `mechanisms.norm_bounds`. If a unit is in
several groups, one has the most rows, and the others are spread evenly below that. Sizes beyond the
visible ones are unknown, and not assumed to be zero.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from enum import StrEnum
from fractions import Fraction
from math import log2, sqrt
from typing import Any, assert_never

from dpsql import accountants
from dpsql.accountants import Accountant
from dpsql.mechanisms import standard_deviation
from dpsql.mechanisms.norm_bounds import Seen, at_most, least_seen, mean_error, seen
from dpsql.model.dataclass import dataclass, replace
from dpsql.model.errors import Reason, Refused
from dpsql.model.table_names import nearest, parts
from dpsql.model.tree import Kind, identifier
from dpsql.model.vocabulary import (
    Budget,
    ColumnPolicy,
    Event,
    Mechanism,
    Neighbours,
    Noise,
    NoiseEvent,
    Policy,
    Sensitivity,
    TablePolicy,
)
from dpsql.policy.edit import LimitValue
from dpsql.preparation.bound_policy import grouping_key
from dpsql.preparation.table_rows import rows_of

HIGHEST = 20
"""Last log2 bin of rows: 2^20, as without a declared limit."""
FINEST, WIDEST = -10, 17
"""Log2 bins of a total, around the largest size of one value."""
SPREADS = (2, 4, 16)
"""Upper ends of the classes of all rows of a unit over those in its largest group; the last class
is open.
"""
_LEAST_TIMES = (1.0, *map(float, SPREADS))
_TIMES = (1.4, 3.0, 8.0, 24.0)
"""Representative ratio of each class."""
_STEPS = (1, 1.3, 1.6, 2, 2.5, 3.2, 4, 5, 6.4, 8)
"""Limits to try, times powers of ten."""
_POINTS = 8
"""Sizes in a bin that represent all of it."""


_WIDE = 2.5
"""Deviations of the counts below which a clipped amount is said to be at least."""


class TunedLimit(StrEnum):
    """Limits of a policy that can be tuned."""

    ROWS = "max_rows_per_group"
    GROUPS = "max_groups_per_unit"
    TOTAL = "max_per_unit"


@dataclass(frozen=True, slots=True)
class SizeHistogram:
    """The histogram for one limit, as SQL over the policy, with its bins.

    Bins are log2 bins from `lowest` to `highest`, each with `classes` of spreads. With `column`
    sizes of its values are counted, else rows or groups; `by` are the group keys.
    """

    table: str
    kind: TunedLimit
    sql: str
    lowest: int
    highest: int
    by: tuple[str, ...] = ()
    column: str | None = None

    @property
    def classes(self) -> int:
        return len(_TIMES) if self.kind is TunedLimit.ROWS and self.by else 1


@dataclass(frozen=True, slots=True)
class Estimate:
    """Cost of a limit for one group: the noise, and the clipped amount, `least` or more (95 %).

    `cut` is a guess: units that noise hides may have any amount. About `above` units at most exceed
    the limit (95 %), without those beyond the visible sizes.
    """

    limit: Decimal
    noise: float
    cut: float
    least: float
    above: int
    error: float


@dataclass(frozen=True, slots=True)
class Tuned:
    """Estimates of one limit by rising limit; empty if no unit stood out of the noise.

    A bin beyond `reached` may have up to `unseen` units, about which nothing is known.
    """

    histogram: SizeHistogram
    estimates: tuple[Estimate, ...]
    reached: Decimal
    unseen: int

    @property
    def best(self) -> Estimate | None:
        """Estimate with the least error."""
        return min(self.estimates, key=lambda estimate: estimate.error, default=None)

    @property
    def title(self) -> str:
        """Name of the limit, with its column and group keys."""
        of = "" if self.histogram.column is None else f" of {self.histogram.column}"
        by = " by " + " and ".join(self.histogram.by) if self.histogram.by else ""
        return f"{self.histogram.kind}{of}{by}"

    @property
    def values(self) -> tuple[LimitValue, ...]:
        """Values for the policy; empty without a recommendation.

        The number of groups by several keys is at most the product over the keys, which is not
        measured.
        """
        best, histogram = self.best, self.histogram
        if best is None:
            return ()
        value = LimitValue(
            histogram.table, histogram.kind.value, best.limit, column=histogram.column
        )
        if histogram.column is not None or not histogram.by:
            return (value,)
        if len(histogram.by) > 1:
            return ()
        return (replace(value, by=histogram.by[0]),)

    @property
    def line(self) -> str | None:
        """Recommendation as a line of the policy."""
        return self.values[0].text if self.values else None


def questions(
    policy: Policy, name: str, by: Sequence[str], totals: Sequence[str] = ()
) -> list[SizeHistogram]:
    """Return the histogram for each limit of a private table.

    With group keys `by` there are two: groups per unit, and rows in each unit's largest group. For
    each column of `totals` there is one of the sums of a unit's absolute values. Raises `Refused`
    for names that the policy does not know.
    """
    table = private_table(policy, name)
    for key in by:
        grouping_key(key, table, policy)
    columns = [_number(table, column) for column in totals]
    source, unit = _source(policy, table, by, [column.name for column in columns])
    sums = [
        _of_total(table.name, column, f"SUM(ABS(t0.value{n}))", source, unit)
        for n, column in enumerate(columns)
    ]
    if by:
        return [*_of_groups(table.name, source, unit, tuple(by)), *sums]
    if columns:
        return sums
    rows = f"SELECT {unit} AS unit, COUNT(*) AS n FROM {source} GROUP BY {unit}"
    sql = _votes(rows, 0, HIGHEST)
    return [SizeHistogram(table.name, TunedLimit.ROWS, sql, lowest=0, highest=HIGHEST)]


def private_table(policy: Policy, name: str) -> TablePolicy:
    """Return the private table of a name; raises `Refused` if it has no limits of its own."""
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
    return table


def _number(table: TablePolicy, name: str) -> ColumnPolicy:
    column = table.column(name)
    if column is None:
        existing = tuple(c.name for c in table.columns if not c.hidden)
        near = nearest(name, existing)
        raise Refused(
            Reason.UNKNOWN_COLUMN, column=name, table=table.name, near=near, known=existing
        )
    if column.type.kind not in (Kind.INTEGER, Kind.DECIMAL, Kind.DOUBLE) or column.bounds is None:
        why = f"{column.name} is no number with declared bounds"
        raise Refused(Reason.BAD_OPTION, option="total", why=why)
    return column


def _source(
    policy: Policy, table: TablePolicy, by: Sequence[str], columns: Sequence[str]
) -> tuple[str, str]:
    """Return keys and columns of a table, joined along its links to the unit, and the unit's
    key.
    """
    leads = (policy.unit.key,) if table.link is None else table.link.columns
    listed = [f"{identifier(column)} AS leads{n}" for n, column in enumerate(leads)]
    listed += [f"({key}) AS key{n}" for n, key in enumerate(by)]
    listed += [f"{identifier(column)} AS value{n}" for n, column in enumerate(columns)]
    joined, here = f"(SELECT {', '.join(listed)} FROM {rows_of(table.name, policy)}) AS t0", 0
    names = tuple(f"leads{n}" for n in range(len(leads)))
    while table.link is not None:
        link, next_table = table.link, policy.table(table.link.table)
        if next_table is None:  # the values are the units
            break
        condition = " AND ".join(
            f"t{here}.{name} = t{here + 1}.{identifier(key)}"
            for name, key in zip(names, link.keys, strict=True)
        )
        joined += f" JOIN {rows_of(next_table.name, policy)} AS t{here + 1} ON {condition}"
        table, here = next_table, here + 1
        leads = (policy.unit.key,) if table.link is None else table.link.columns
        names = tuple(map(identifier, leads))
    return joined, f"t{here}.{names[0]}"


def _of_groups(
    table: str, source: str, unit: str, by: tuple[str, ...]
) -> tuple[SizeHistogram, SizeHistogram]:
    keys = ", ".join(f"t0.key{n}" for n in range(len(by)))
    groups = f"SELECT {unit} AS unit, {keys}, COUNT(*) AS m FROM {source} GROUP BY {unit}, {keys}"
    each = f"FROM ({groups}) AS g GROUP BY unit"
    count = _votes(f"SELECT unit, COUNT(*) AS n {each}", 0, HIGHEST)
    most = f"SELECT unit, MAX(m) AS n, SUM(m) AS whole {each}"
    spreads = " ".join(f"WHEN whole <= {times} * n THEN {n}" for n, times in enumerate(SPREADS))
    spread = f", CASE {spreads} ELSE {len(SPREADS)} END AS spread"
    rows = _votes(most, 0, HIGHEST, spread)
    return (
        SizeHistogram(table, TunedLimit.GROUPS, count, lowest=0, highest=HIGHEST, by=by),
        SizeHistogram(table, TunedLimit.ROWS, rows, lowest=0, highest=HIGHEST, by=by),
    )


def _of_total(table: str, column: ColumnPolicy, size: str, source: str, unit: str) -> SizeHistogram:
    assert column.bounds is not None
    largest = max(abs(Fraction(str(end))) for end in column.bounds)
    middle = round(log2(largest)) if largest else 0
    lowest, highest = middle + FINEST, middle + WIDEST
    rows = f"SELECT {unit} AS unit, {size} AS n FROM {source} GROUP BY {unit}"
    sql = _votes(rows, lowest, highest)
    return SizeHistogram(
        table, TunedLimit.TOTAL, sql, lowest=lowest, highest=highest, column=column.name
    )


def _votes(rows: str, lowest: int, highest: int, spread: str = "") -> str:
    """Return the query of the number of units by log2 bin of their `n`, and by their spread: public
    keys.
    """
    octaves = " ".join(f"WHEN n <= {_power(o)} THEN {o}" for o in range(lowest, highest))
    keys = f"CASE {octaves} ELSE {highest} END AS octave{spread}"
    groups = "1, 2" if spread else "1"
    return f"SELECT {keys}, COUNT(*) AS units FROM ({rows}) AS u GROUP BY {groups}"


def _power(octave: int) -> Decimal:
    """Return 2^octave, exactly."""
    return Decimal(2) ** octave if octave >= 0 else Decimal(1) / Decimal(2) ** -octave


@dataclass(frozen=True, slots=True)
class Votes:
    """Noisy number of units in each log2 bin and spread, and the distribution of the noise."""

    units: Mapping[tuple[int, int], int]
    noise: Noise

    @classmethod
    def of(cls, rows: Sequence[tuple[Any, ...]], noise: Noise) -> Votes:
        """Return the counts of an answer's rows: bin, possibly spread, and number of units."""
        return cls({(r[0], r[1] if len(r) > 2 else 0): int(r[-1]) for r in rows}, noise)  # noqa: PLR2004

    def of_octaves(self, histogram: SizeHistogram) -> list[int]:
        """Return the units of each bin, the lowest first."""
        places = range(histogram.lowest, histogram.highest + 1)
        classes = range(histogram.classes)
        return [sum(self.units.get((place, spread), 0) for spread in classes) for place in places]

    def summed(self, classes: int) -> Noise:
        """Return the noise of the sum of `classes` counts, as one distribution with its
        deviation.
        """
        match self.noise.mechanism:
            case Mechanism.DISCRETE_GAUSSIAN:
                return Noise(self.noise.mechanism, self.noise.scale * classes)
            case Mechanism.DISCRETE_LAPLACE:
                # Its tails are no lighter than those of the sum.
                return Noise(self.noise.mechanism, self.noise.scale * Fraction(sqrt(classes)))
            case _:
                assert_never(self.noise.mechanism)


def require_units(policy: Policy, histogram: SizeHistogram, noise: Noise) -> None:
    """Refuse the query if no bin could stand out, by the declared number of units."""
    unit = policy.table(policy.unit.table)
    if unit is None:
        return
    least = least_seen(Votes({}, noise).summed(histogram.classes))
    if unit.expected_rows is not None and unit.expected_rows < least:
        about = f"{unit.name} has about {unit.expected_rows}"
        why = f"too few units: {least} in an octave stand out, and {about}"
        fix = "Ask with a larger epsilon; or leave the limit to be found for each question."
        raise Refused(Reason.BAD_OPTION, option="epsilon", why=why, fix=fix)


@dataclass(frozen=True, slots=True)
class Pricing:
    """Budget of later questions under the limits, and the neighbouring relation."""

    budget: Budget
    neighbours: Neighbours = Neighbours.ADD_REMOVE

    @property
    def accountant(self) -> Accountant:
        return accountants.preferring(self.budget, None, Fraction(self.budget.query_epsilon))

    def noise(self, sensitivity: Sensitivity) -> Noise:
        """Return the noise of a question at `query_epsilon` with a single number."""
        accountant, budget = self.accountant, self.budget
        epsilon, delta = Fraction(budget.query_epsilon), Fraction(budget.query_delta)
        allowance = accountant.allowance(epsilon, delta, selects_keys=False)
        return accountant.noise(allowance.amount, allowance.noise_delta, sensitivity)


def noise_of(event: Event | None) -> Noise:
    """Return the noise of the single measurement of a histogram."""
    assert event is not None
    (part,) = event.parts
    assert isinstance(part, NoiseEvent)
    return part.noise


def all_tuned(
    histograms: Sequence[SizeHistogram], votes: Sequence[Votes], pricing: Pricing
) -> list[Tuned]:
    """Return the estimates of all limits; rows and totals are for the recommended number of
    groups.
    """
    results, groups = list[Tuned](), 1
    for histogram, noisy in zip(histograms, votes, strict=True):
        result = tuned(histogram, noisy, pricing, groups)
        if histogram.kind is TunedLimit.GROUPS and result.best is not None:
            groups = int(result.best.limit)
        results.append(result)
    return results


def tuned(histogram: SizeHistogram, votes: Votes, pricing: Pricing, groups: int = 1) -> Tuned:
    """Return the estimates from a noisy histogram, with a unit in up to `groups` groups.

    >>> budget = Budget("b", Decimal(1), Decimal(0), "pure")
    >>> law = Noise(Mechanism.DISCRETE_LAPLACE, Fraction(2))
    >>> votes = Votes({(0, 0): 900, (2, 0): 300, (6, 0): 60}, law)
    >>> rows = SizeHistogram("t", TunedLimit.ROWS, "", lowest=0, highest=20)
    >>> best = tuned(rows, votes, Pricing(budget)).best
    >>> best.limit, best.above
    (Decimal('50'), 82)
    """
    counts = votes.of_octaves(histogram)
    summed = votes.summed(histogram.classes)
    octaves = seen(counts, summed)
    reached = _power(histogram.lowest + octaves.places - 1)
    if not octaves.visible:
        return Tuned(histogram, (), reached, least_seen(summed))
    lost = _Lost(histogram, votes, octaves)
    noise_of, spread = _noise(histogram.kind, pricing, groups), _spread(histogram, reached, groups)
    estimates, most = list[Estimate](), 0.0
    for limit in reversed(_limits(histogram.lowest, len(octaves.units))):
        cut, least = lost.beyond(float(limit))
        most = max(most, cut)
        deviation, gaussian = noise_of(limit)
        above = counts[max(0, min(_octave(limit), histogram.highest) - histogram.lowest) :]
        estimates.append(
            Estimate(
                limit=limit,
                noise=deviation,
                cut=most / spread,
                least=min(least, most) / spread,
                above=at_most(above, summed),
                error=mean_error(most / spread, deviation, gaussian=gaussian),
            )
        )
    return Tuned(histogram, tuple(reversed(estimates)), reached, least_seen(summed))


def _spread(histogram: SizeHistogram, reached: Decimal, groups: int) -> int:
    """Return the number of groups over which the clipped amount is spread."""
    match histogram.kind:
        case TunedLimit.GROUPS:
            return int(reached)
        case TunedLimit.ROWS:
            return groups
        case TunedLimit.TOTAL:
            return 1
        case _:
            assert_never(histogram.kind)


@dataclass(frozen=True, slots=True)
class _Lost:
    """Amounts of the bins' units beyond a limit, by the noisy histogram."""

    histogram: SizeHistogram
    votes: Votes
    octaves: Seen

    def beyond(self, limit: float) -> tuple[float, float]:
        """Return about the total clipped amount, and what it is at least, with the smallest sizes
        of each visible bin.
        """
        lost = sure = squares = 0.0
        noise = _WIDE * standard_deviation(self.votes.noise)
        for place, whole in enumerate(self.octaves.units):
            counted = place < self.octaves.places
            for spread in range(self.histogram.classes):
                octave = self.histogram.lowest + place
                weight = _weight(
                    octave, _TIMES[spread] if self.histogram.classes > 1 else 1.0, limit
                )
                units = self.votes.units.get((octave, spread), 0)
                lost += weight * (units if counted else whole / self.histogram.classes)
                if counted:
                    least = _lost(2.0 ** (octave - 1), _LEAST_TIMES[spread], limit)
                    sure += least * units
                    squares += (least * noise) ** 2
        return max(0.0, lost), max(0.0, sure - sqrt(squares))


def _weight(octave: int, times: float, limit: float) -> float:
    """Return the mean clipped amount of a unit in this bin, with `times` its largest group's rows
    in all.
    """
    sizes = (2.0 ** (octave - (n + 0.5) / _POINTS) for n in range(_POINTS))
    return sum(_lost(size, times, limit) for size in sizes) / _POINTS


def _lost(size: float, times: float, limit: float) -> float:
    """Return the clipped amount of one group of this size, and of others spread evenly below it."""
    more = max(0.0, size - limit)
    return more + (times - 1) * more**2 / size


def _octave(limit: Decimal) -> int:
    """Return the log2 bin of a size just above a limit."""
    octave = -64
    while _power(octave) <= limit:
        octave += 1
    return octave


def _limits(lowest: int, octaves: int) -> list[Decimal]:
    """Return round numbers in a range of log2 bins."""
    least, most = _power(lowest), _power(lowest + octaves - 1)
    limits, scale = list[Decimal](), Decimal(10) ** least.adjusted()
    while scale <= most:
        limits += [Decimal(str(step)) * scale for step in _STEPS]
        scale *= 10
    within = [limit for limit in limits if least <= limit <= most]
    return [limit for limit in within if limit == limit.to_integral() or lowest < 0] or [most]


def _noise(
    kind: TunedLimit, pricing: Pricing, groups: int
) -> Callable[[Decimal], tuple[float, bool]]:
    """Return a function from a limit to one group's noise deviation, and whether it is Gaussian."""
    fine = 10**4
    match kind:
        case TunedLimit.ROWS:
            sensitivity = Sensitivity(groups, 0, fine, pricing.neighbours)
        case TunedLimit.TOTAL:
            sensitivity = Sensitivity(1, 0, fine, pricing.neighbours)
        case TunedLimit.GROUPS:
            return lambda limit: _law(
                pricing.noise(Sensitivity(int(limit), 0, 1, pricing.neighbours))
            )
        case _:
            assert_never(kind)
    deviation, gaussian = _law(pricing.noise(sensitivity))
    return lambda limit: (deviation * float(limit) / fine, gaussian)


def _law(noise: Noise) -> tuple[float, bool]:
    return standard_deviation(noise), noise.mechanism is Mechanism.DISCRETE_GAUSSIAN
