"""tuning: which contribution limit errs least, from noisy votes of the units.

Each unit is one row of a histogram (L0 = 1, Linf = 1), in the octave of how much it has: of rows,
of groups, or of a column's values. Everything below is computed from the noisy counts, so that a
limit that is found this way may enter the policy, which is public.

The error of a limit is estimated for one group of a COUNT or SUM at the policy's `query_epsilon`:
the mean of |what is cut + noise|. What is cut is a sum over octaves with sizes that are log-uniform
within each; octaves beyond the last that stands out are weighed as `mechanisms.norm_bounds` does.
Where a unit is in several groups, the rows of one of them are the most and those of the others are
spread evenly below that. Beyond what can be seen nothing is known, and nothing is said to be zero.
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
"""The last octave of rows: 2^20, as where nothing is declared."""
FINEST, WIDEST = -10, 17
"""The octaves of a total, about the largest size of one value."""
SPREADS = (2, 4, 16)
"""Up to so many times the rows of its largest group a unit has in all; the last class has more."""
_TIMES = (1.4, 3.0, 8.0, 24.0)
"""What stands for each class of spreads."""
_STEPS = (1, 1.3, 1.6, 2, 2.5, 3.2, 4, 5, 6.4, 8)
"""The limits that are tried, times powers of ten."""
_POINTS = 8
"""Sizes in an octave that stand for all of it."""


_WIDE = 2.5
"""Deviations of the votes that a cut is within in 95 of 100 cases, some unseen units included."""


class TunedLimit(StrEnum):
    """The limits of a policy that can be tuned."""

    ROWS = "max_rows_per_group"
    GROUPS = "max_groups_per_unit"
    TOTAL = "max_per_unit"


@dataclass(frozen=True, slots=True)
class SizeHistogram:
    """What is asked for one limit, as SQL over the policy, and what its bins are.

    Bins are octaves from `lowest` to `highest`, each of `classes` of spreads. With `column` it is
    of the sizes of its values, else of rows or groups; `by` is what is grouped by.
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
    """What a limit would cost one group: what it cuts, within `margin`, and the noise it needs.

    About `above` units at most have more (95 %). What is beyond all that is seen is in neither.
    """

    limit: Decimal
    noise: float
    cut: float
    margin: float
    above: int
    error: float


@dataclass(frozen=True, slots=True)
class Tuned:
    """The estimates of one limit by rising limit; none where no unit stood out of the noise.

    An octave beyond `reached` may have up to `unseen` units, of which nothing is known.
    """

    histogram: SizeHistogram
    estimates: tuple[Estimate, ...]
    reached: Decimal
    unseen: int

    @property
    def best(self) -> Estimate | None:
        """The estimate with the least error."""
        return min(self.estimates, key=lambda estimate: estimate.error, default=None)

    @property
    def title(self) -> str:
        """The name of the limit, and what it is of."""
        of = "" if self.histogram.column is None else f" of {self.histogram.column}"
        by = " by " + " and ".join(self.histogram.by) if self.histogram.by else ""
        return f"{self.histogram.kind}{of}{by}"

    @property
    def values(self) -> tuple[LimitValue, ...]:
        """What to write into the policy; nothing where nothing is recommended.

        Groups by several keys are no more than those of each multiply to, which is not asked.
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
        """The recommendation as a line of the policy."""
        return self.values[0].text if self.values else None


def questions(
    policy: Policy, name: str, by: Sequence[str], totals: Sequence[str] = ()
) -> list[SizeHistogram]:
    """The histogram that each limit of a private table is tuned by.

    With group keys `by` there are two: groups per unit, and rows in the largest group of each. Of
    each column of `totals` there is one of what the sizes of a unit's values add up to.
    Raises `Refused` for what the policy does not know.
    """
    table = _private_table(policy, name)
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


def _private_table(policy: Policy, name: str) -> TablePolicy:
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
    """The keys and columns of a table, joined along its links to the unit, and the unit's key."""
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
    """Units by the octave of their `n`, and by their spread: public keys."""
    octaves = " ".join(f"WHEN n <= {_power(o)} THEN {o}" for o in range(lowest, highest))
    keys = f"CASE {octaves} ELSE {highest} END AS octave{spread}"
    groups = "1, 2" if spread else "1"
    return f"SELECT {keys}, COUNT(*) AS units FROM ({rows}) AS u GROUP BY {groups}"


def _power(octave: int) -> Decimal:
    """2^octave, exactly."""
    return Decimal(2) ** octave if octave >= 0 else Decimal(1) / Decimal(2) ** -octave


@dataclass(frozen=True, slots=True)
class Votes:
    """The noisy units of each octave and spread, and the law of their noise."""

    units: Mapping[tuple[int, int], int]
    noise: Noise

    @classmethod
    def of(cls, rows: Sequence[tuple[Any, ...]], noise: Noise) -> Votes:
        """Those of an answer: octave, perhaps spread, and how many units."""
        return cls({(r[0], r[1] if len(r) > 2 else 0): int(r[-1]) for r in rows}, noise)  # noqa: PLR2004

    def of_octaves(self, histogram: SizeHistogram) -> list[int]:
        """The units of each octave, the lowest first."""
        places = range(histogram.lowest, histogram.highest + 1)
        classes = range(histogram.classes)
        return [sum(self.units.get((place, spread), 0) for spread in classes) for place in places]

    def summed(self, classes: int) -> Noise:
        """The noise of as many of them together: that of one law with their deviation."""
        match self.noise.mechanism:
            case Mechanism.DISCRETE_GAUSSIAN:
                return Noise(self.noise.mechanism, self.noise.scale * classes)
            case Mechanism.DISCRETE_LAPLACE:
                # Of no lighter tails than the sum has.
                return Noise(self.noise.mechanism, self.noise.scale * Fraction(sqrt(classes)))
            case _:
                assert_never(self.noise.mechanism)


def require_units(policy: Policy, histogram: SizeHistogram, noise: Noise) -> None:
    """Refuse to ask where no octave could stand out, by how many units are said to be there."""
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
    """Who will ask questions under the limits, and for how much."""

    budget: Budget
    neighbours: Neighbours = Neighbours.ADD_REMOVE

    @property
    def accountant(self) -> Accountant:
        return accountants.preferring(self.budget, None, Fraction(self.budget.query_epsilon))

    def noise(self, sensitivity: Sensitivity) -> Noise:
        """The noise of a number that is all that a question at `query_epsilon` asks."""
        accountant, budget = self.accountant, self.budget
        epsilon, delta = Fraction(budget.query_epsilon), Fraction(budget.query_delta)
        allowance = accountant.allowance(epsilon, delta, selects_keys=False)
        return accountant.noise(allowance.amount, allowance.noise_delta, sensitivity)


def noise_of(event: Event | None) -> Noise:
    """The law of the one measurement that votes are."""
    assert event is not None
    (part,) = event.parts
    assert isinstance(part, NoiseEvent)
    return part.noise


def all_tuned(
    histograms: Sequence[SizeHistogram], votes: Sequence[Votes], pricing: Pricing
) -> list[Tuned]:
    """The estimates of all limits: rows and totals for as many groups as are recommended."""
    results, groups = list[Tuned](), 1
    for histogram, noisy in zip(histograms, votes, strict=True):
        result = tuned(histogram, noisy, pricing, groups)
        if histogram.kind is TunedLimit.GROUPS and result.best is not None:
            groups = int(result.best.limit)
        results.append(result)
    return results


def tuned(histogram: SizeHistogram, votes: Votes, pricing: Pricing, groups: int = 1) -> Tuned:
    """The estimates from noisy votes, where a unit is counted in up to so many groups.

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
        cut, margin = lost.beyond(float(limit))
        most = max(most, cut)
        deviation, gaussian = noise_of(limit)
        above = counts[max(0, min(_octave(limit), histogram.highest) - histogram.lowest) :]
        estimates.append(
            Estimate(
                limit=limit,
                noise=deviation,
                cut=most / spread,
                margin=margin / spread,
                above=at_most(above, summed),
                error=mean_error(most / spread, deviation, gaussian=gaussian),
            )
        )
    return Tuned(histogram, tuple(reversed(estimates)), reached, least_seen(summed))


def _spread(histogram: SizeHistogram, reached: Decimal, groups: int) -> int:
    """Over how many groups what is cut is spread."""
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
    """What the units of octaves have beyond a limit, as their votes say."""

    histogram: SizeHistogram
    votes: Votes
    octaves: Seen

    def beyond(self, limit: float) -> tuple[float, float]:
        """What all of them lose, and how far that may be off: by noise, and by their sizes."""
        lost = squares = shape = 0.0
        noise = _WIDE * standard_deviation(self.votes.noise)
        for place, whole in enumerate(self.octaves.units):
            counted = place < self.octaves.places
            for spread in range(self.histogram.classes):
                octave = self.histogram.lowest + place
                weight = _weight(octave, self._times(spread), limit)
                units = self.votes.units.get((octave, spread), 0)
                taken = weight * (units if counted else whole / self.histogram.classes)
                lost += taken
                # What is expected where nothing stands out is as unsure as it is large.
                squares += (weight * noise if counted else taken) ** 2
                shape += abs(units) * _unevenness(octave, self._times(spread), limit) * counted
        return max(0.0, lost), sqrt(squares) + shape

    def _times(self, spread: int) -> float:
        return _TIMES[spread] if self.histogram.classes > 1 else 1.0


def _weight(octave: int, times: float, limit: float) -> float:
    """What a unit of this octave loses, with so many times the rows of its largest group in all."""
    sizes = (2.0 ** (octave - (n + 0.5) / _POINTS) for n in range(_POINTS))
    return sum(_lost(size, times, limit) for size in sizes) / _POINTS


def _lost(size: float, times: float, limit: float) -> float:
    """What is cut of one group of this size, and of others that are spread evenly below it."""
    more = max(0.0, size - limit)
    return more + (times - 1) * more**2 / size


def _unevenness(octave: int, times: float, limit: float) -> float:
    """How far the mean of what units of an octave lose is from that of all of its sizes.

    A quarter of the way from its least size to its largest: their sizes are seldom so uneven.
    """
    least, most = (_lost(2.0**end, times, limit) for end in (octave - 1, octave))
    return (most - least) / 4


def _octave(limit: Decimal) -> int:
    """The octave that a size just above a limit is in."""
    octave = -64
    while _power(octave) <= limit:
        octave += 1
    return octave


def _limits(lowest: int, octaves: int) -> list[Decimal]:
    """Round numbers in so many octaves."""
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
    """The standard deviation of one group's noise, by the limit, and whether it is Gaussian."""
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
