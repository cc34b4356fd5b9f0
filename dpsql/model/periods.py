"""Periods of privacy units: a unit is what one person did in one period (PRIVACY.md R103).

The blocks of a rule are its periods, the rows without a time, and the rows outside of all periods.
One list of first days decides the block of a row: for charges and for the SQL that filters rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import date, datetime, timedelta
from itertools import pairwise

from dpsql.model.calendars import Calendar, Renewal
from dpsql.model.dataclass import dataclass, field, replace
from dpsql.model.tree import BOOLEAN, Call, Expression, Kind, Literal, Operators, SqlType

NO_TIME, ELSEWHERE = "no time", "elsewhere"
"""Blocks of rows without a time, and of rows outside of all periods."""

UNIT = "person and period"
"""Column of the unit where several blocks are charged."""

MOST_PERIODS = 600
"""Most periods of a rule: fifty years of months."""


@dataclass(frozen=True, slots=True)
class PeriodRule:
    """The periods of a policy: of one length, from the `first` on, in UTC.

    `of` has the time column of each private table. `last` is the period of ledger time.
    `versions` are the data versions of blocks that the owner refreshed alone, with the number of
    such refreshes under other rules, under the empty name.
    """

    every: Renewal
    first: str
    of: tuple[tuple[str, str], ...]
    last: str = field(default="", repr=False)
    versions: tuple[tuple[str, int], ...] = field(default=(), repr=False)

    @property
    def calendar(self) -> Calendar:
        """The calendar of the periods."""
        return Calendar(self.every)

    @property
    def text(self) -> str:
        """The rule as the ledger writes it: charges under another one count in every period.

        >>> PeriodRule(Renewal.MONTH, "2024-01", ()).text
        'month from 2024-01'
        """
        return f"{self.every.value} from {self.first}"

    @property
    def names(self) -> tuple[str, ...]:
        """The names of all periods, from the first one to that of ledger time.

        >>> PeriodRule(Renewal.MONTH, "2023-12", (), "2024-02").names
        ('2023-12', '2024-01', '2024-02')
        """
        calendar, names = self.calendar, [self.first]
        last = calendar.first_day(self.last or self.first)
        while len(names) < MOST_PERIODS and calendar.first_day(names[-1]) < last:
            names.append(calendar.next_window(names[-1]))
        return tuple(names)

    @property
    def blocks(self) -> tuple[str, ...]:
        """The periods, then the two other blocks."""
        return (*self.names, NO_TIME, ELSEWHERE)

    @property
    def days(self) -> tuple[date, ...]:
        """The first day of each period, and the day after the last one."""
        first = self.calendar.first_day
        names = self.names
        return (*map(first, names), first(self.calendar.next_window(names[-1])))

    def column(self, table: str) -> str | None:
        """Return the time column of a table, ignoring case; None if it has none."""
        return next((c for name, c in self.of if name.lower() == table.lower()), None)

    def at(self, last: str, versions: Iterable[tuple[str, int]] = ()) -> PeriodRule:
        """Return the rule at another ledger time, with the data versions of its blocks."""
        return replace(self, last=last, versions=tuple(versions))

    def versions_of(self, blocks: Iterable[str]) -> list[str]:
        """Return the data versions of these blocks, as a part of a question's digest.

        >>> rule = PeriodRule(Renewal.MONTH, "2024-01", (), "2024-03", (("2024-03", 2),))
        >>> rule.versions_of(("2024-01", "2024-03")), rule.versions_of(("2024-01",))
        (['2024-03 version 2'], [])
        """
        named = {"", *blocks}
        return [f"{name} version {number}" for name, number in self.versions if name in named]


@dataclass(frozen=True, slots=True)
class ChargedPeriods:
    """The blocks of a `rule` that a query reads, and a time column in which it can leave some out.

    Each has a budget of its own, and the query is charged to each of them.
    """

    rule: PeriodRule
    names: tuple[str, ...]
    column: str

    @property
    def text(self) -> str:
        """The blocks in a few words."""
        return describe_blocks(self.rule, self.names)

    @property
    def phrase(self) -> str:
        """Words for where a loss counts."""
        return f"in {'each of ' * (len(self.names) > 1)}{self.text}"


def ends_of(rule: PeriodRule, kind: SqlType) -> list[tuple[str, date | None, date | None]]:
    """Return the block, the first and the last moment of each stretch of time; None for no end.

    ELSEWHERE has two: the time before the first period, and after the last.
    """
    moments = [_moment(day, kind) for day in rule.days]
    step = timedelta(days=1) if kind.kind is Kind.DATE else timedelta(microseconds=1)
    periods = zip(rule.names, pairwise(moments), strict=True)
    return [
        *((name, first, after - step) for name, (first, after) in periods),
        (ELSEWHERE, None, moments[0] - step),
        (ELSEWHERE, moments[-1], None),
    ]


def _moment(day: date, kind: SqlType) -> date:
    return day if kind.kind is Kind.DATE else datetime(day.year, day.month, day.day)  # noqa: DTZ001


def in_blocks(
    rule: PeriodRule, time: Operators, kind: SqlType, blocks: Iterable[str]
) -> Expression:
    """Return the condition that a time is in some of these blocks: it is never NULL."""
    chosen = set(blocks)
    parts = [time.is_null()] if NO_TIME in chosen else []
    days = [Literal(_moment(day, kind), kind) for day in rule.days]
    for first, after in _runs([name in chosen for name in rule.names]):
        parts.append(time.ge(days[first]) & time.lt(days[after]))
    if ELSEWHERE in chosen:
        parts += [time.lt(days[0]), time.ge(days[-1])]
    some = parts[0] if len(parts) == 1 else Call("or", tuple(parts), BOOLEAN)
    return some if NO_TIME in chosen else ~time.is_null() & some


def _runs(chosen: Sequence[bool]) -> Iterator[tuple[int, int]]:
    """Yield the first place of each run of chosen places, and the place after its last one.

    >>> list(_runs([True, True, False, True]))
    [(0, 2), (3, 4)]
    """
    first = None
    for place, is_chosen in enumerate((*chosen, False)):
        if is_chosen and first is None:
            first = place
        if not is_chosen and first is not None:
            yield first, place
            first = None


def label_of(
    rule: PeriodRule, time: Operators, kind: SqlType, blocks: Sequence[str], label: SqlType
) -> Expression:
    """Return the name of the block of a time, which is in one of these blocks."""
    parts: list[Expression] = []
    for name in blocks[:-1]:
        parts += [in_blocks(rule, time, kind, (name,)), Literal(name, label)]
    return Call("case", (*parts, Literal(blocks[-1], label)), label)


def describe_blocks(rule: PeriodRule, blocks: Sequence[str]) -> str:
    """Return a short text for some blocks.

    >>> rule = PeriodRule(Renewal.MONTH, "2024-01", (), "2024-06")
    >>> describe_blocks(rule, ("2024-01", "2024-02", "2024-03", "2024-06", "no time"))
    '2024-01 to 2024-03, 2024-06, no time'
    """
    names = rule.names
    runs = [names[first:after] for first, after in _runs([name in blocks for name in names])]
    texts = [f"{run[0]} to {run[-1]}" if len(run) > 1 else run[0] for run in runs]
    return ", ".join([*texts, *(name for name in (NO_TIME, ELSEWHERE) if name in blocks)])


def condition_within(rule: PeriodRule, column: str, blocks: Sequence[str]) -> str:
    """Return the SQL condition on a time column that leaves these blocks.

    >>> condition_within(PeriodRule(Renewal.YEAR, "2024", ()), "placed_at", ["2024"])
    "placed_at >= DATE '2024-01-01' AND placed_at < DATE '2025-01-01'"
    """
    days = [f"DATE '{day}'" for day in rule.days]
    parts = [
        f"{column} >= {days[first]} AND {column} < {days[after]}"
        for first, after in _runs([name in blocks for name in rule.names])
    ]
    parts += [f"{column} IS NULL"] if NO_TIME in blocks else []
    if ELSEWHERE in blocks:
        parts += [f"{column} < {days[0]}", f"{column} >= {days[-1]}"]
    return parts[0] if len(parts) == 1 else f"({' OR '.join(parts)})"


def condition_without(rule: PeriodRule, column: str, block: str) -> str:
    """Return the SQL condition on a time column that leaves one block out.

    >>> rule = PeriodRule(Renewal.MONTH, "2024-01", (), "2024-06")
    >>> condition_without(rule, "placed_at", "2024-02")
    "(placed_at < DATE '2024-02-01' OR placed_at >= DATE '2024-03-01')"
    """
    if block == NO_TIME:
        return f"{column} IS NOT NULL"
    days = [f"DATE '{day}'" for day in rule.days]
    if block == ELSEWHERE:
        return f"{column} >= {days[0]} AND {column} < {days[-1]}"
    place = rule.names.index(block)
    if place == 0:
        return f"({column} >= {days[1]} OR {column} < {days[0]})"
    return f"({column} < {days[place]} OR {column} >= {days[place + 1]})"
