"""Result of `explain`: the plan in the words and units of the person who checks it."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from enum import StrEnum
from math import isnan, nan
from typing import TypeAlias

from dpsql.model.dataclass import dataclass
from dpsql.model.notices import Notice
from dpsql.model.periods import ChargedPeriods
from dpsql.model.tree import VARCHAR, PlanForm
from dpsql.model.vocabulary import Column, Event, Loss, Rest, Spending

SHOWN = Column("QUERY PLAN", VARCHAR)


"""Column of a plan in SQL, with PostgreSQL's name."""


def unknown_errors(columns: Sequence[Column]) -> tuple[float | None, ...]:
    """Return unknown errors for columns: NaN for numbers, None for columns without an error."""
    return tuple(nan if column.type.is_measured else None for column in columns)


def approximate(number: float) -> str:
    """Return a number with four digits, as in plans.

    >>> approximate(315123.7), approximate(0.012344), approximate(-20.0)
    ('315,100', '0.01234', '-20')
    """
    return f"{float(f'{number:.4g}'):,.12g}"


@dataclass(frozen=True, slots=True)
class LimitLine:
    """A contribution limit: its name, its value (None: no limit) and its proof or enforcement, e.g.
    ("groups per unit", 1, "proved: the keys are determined by the unit").
    """

    name: str
    value: float | None
    how: str


@dataclass(frozen=True, slots=True)
class ReleaseLine:
    """One noised measurement, in the units of its values (not lattice steps).

    `output` names the measurement and its input. `lower`, `upper` clip one unit's total in one
    group. `linf` is the most one unit changes one group. `step` is the lattice step, `scale` is b
    or σ. `error` is the standard deviation of the noise, `margin` its half-width at 95 %.
    `otherwise` is the other mechanism of the same price, with its error.
    """

    output: str
    bounds: str
    lower: float
    upper: float
    l0: int
    linf: float
    step: float
    mechanism: str
    scale: float
    error: float
    margin: float
    otherwise: str = ""


@dataclass(frozen=True, slots=True)
class ChoiceLine:
    """One choice among the cells of a histogram: the number of candidates, and its confidence.

    `rows` is the most rows of one unit that count in a group. `expected` is the rank's standard
    error in rows for large groups (None: unknown). In 95 % of all cases the result is within
    `reach` rows of the best, for choices with any data. `otherwise` is the alternative method.
    """

    output: str
    bounds: str
    candidates: int
    l0: int
    rows: int
    mechanism: str
    scale: str
    expected: float | None
    reach: float
    otherwise: str = ""


@dataclass(frozen=True, slots=True)
class BlockLines:
    """One private release: unit, limits, keys, measurements, facts relied on, and its SQL.

    `keys` describes the key domain or the threshold (empty: no GROUP BY); `facts` name each fact
    and its voucher.
    """

    unit: str
    limits: tuple[LimitLine, ...]
    keys: str
    releases: tuple[ReleaseLine, ...]
    facts: tuple[str, ...]
    sql: str
    choices: tuple[ChoiceLine, ...] = ()


# --- what would help ---


@dataclass(frozen=True, slots=True)
class PublicKeys:
    """Advice: these keys are private; if the policy listed their values, each would be answered."""

    keys: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class TighterBounds:
    """Advice: errors grow with the range of a row's `argument`, from `lower` to `upper`."""

    argument: str
    lower: float
    upper: float


@dataclass(frozen=True, slots=True)
class FewerRows:
    """Advice: noise is proportional to the rows of one unit that count in a group."""

    rows: int


@dataclass(frozen=True, slots=True)
class FewerGroups:
    """Advice: noise grows with the groups in which one unit counts."""

    groups: int


Help: TypeAlias = PublicKeys | TighterBounds | FewerRows | FewerGroups


# --- the same question in another form, with a known error ---


@dataclass(frozen=True, slots=True)
class LargerEpsilon:
    """Change: an ε of `epsilon`, the largest that the policy allows."""

    epsilon: Decimal


@dataclass(frozen=True, slots=True)
class OtherAccountant:
    """Change: a budget with the accountant `name`."""

    name: str


@dataclass(frozen=True, slots=True)
class RecordedFacts:
    """Change: `dpsql check --record` has found that data is as the policy declares."""


@dataclass(frozen=True, slots=True)
class CoarserPeriods:
    """Change: grouped by each `period` of `key`, a timestamp or its truncation."""

    key: str
    period: str


@dataclass(frozen=True, slots=True)
class WithoutKey:
    """Change: not grouped by `key`."""

    key: str


@dataclass(frozen=True, slots=True)
class UnitsCounted:
    """Change: units, identified by `column`, are counted instead of their rows; another number."""

    units: str
    column: str


Change: TypeAlias = (
    LargerEpsilon | OtherAccountant | RecordedFacts | CoarserPeriods | WithoutKey | UnitsCounted
)


@dataclass(frozen=True, slots=True)
class Proposal:
    """A form of a question that errs less: in `column` by `margin` (95 %), not by `present_margin`
    (None: still unknown). It has `groups` instead of `present_groups` (None: unknown).

    If contributions are still unknown, they are assumed equal in both forms, or as large as
    possible; then `margin` is the `most`. If both are unknown, margins are `relative`.
    """

    change: Change
    column: str
    margin: float
    present_margin: float | None
    groups: int | None
    present_groups: int | None
    most: bool = False
    relative: bool = False


@dataclass(frozen=True, slots=True)
class FoundBound:
    """Half-width at 95 % of a column if contributions are found to be up to `most`.

    A column that depends on several bounds has all of them.
    """

    column: str
    most: tuple[float, ...]
    margin: float


class ForecastKind(StrEnum):
    """Unit of a forecast."""

    ABSOLUTE = "in units of the column"
    RELATIVE = "as a share of the number"
    RANK = "in rank, as a share of the rows"


@dataclass(frozen=True, slots=True)
class Forecast:
    """Expected half-width (95 %) of a column: `low` if units add about alike, `high` if a few add
    much.
    """

    low: float
    high: float
    kind: ForecastKind


@dataclass(frozen=True, slots=True)
class Outlook:
    """Expected precision of an answer, by possible bounds, and forms of the question with less
    error, the best first.
    """

    bounds: tuple[FoundBound, ...] = ()
    proposals: tuple[Proposal, ...] = ()


@dataclass(frozen=True, slots=True)
class PlanDescription:
    """Part of an explanation that does not depend on the ledger; `charge` is the plan's."""

    columns: tuple[Column, ...]
    blocks: tuple[BlockLines, ...]
    outer_sql: str
    stages: tuple[str, ...]
    charge: Loss
    expected: tuple[float | None, ...]
    event: Event | None
    notes: tuple[str, ...]
    notices: tuple[Notice, ...]
    helps: tuple[Help, ...]


@dataclass(frozen=True, slots=True)
class Explanation:
    """The whole plan of one query. `blocks` is empty for a query over public tables alone, which
    has no `event`, and for synthetic tables.

    `charge` is the present price (zero if the answer is remembered). `spent` and `limit` are the
    budget's state, or that of the `cap` with the least rest, in its `window` if it renews. Other
    windows and lifetimes are `beside`. `accountant` names the unit of their
    amounts. `outer_sql` runs over the released tables `release_0`, `release_1`, ... and so do
    `stages`, the queries with results that later releases read as `stage_0`, `stage_1`, ...
    `expected` is the half-width at 95 % of each column: None if exact, NaN if it depends on
    released values. `event` is for accountants. `notes` are sentences about the whole, `notices`
    accompany every answer. `rest` would be left. `helps` is advice against errors, `outlook` its
    effect in numbers. The first `searches` blocks only find bounds. `form` is the requested form.
    With `periods` of people, each of them is charged.
    """

    columns: tuple[Column, ...]
    blocks: tuple[BlockLines, ...]
    outer_sql: str
    analyst: str
    budget: str
    accountant: str
    epsilon: Decimal
    charge: Loss
    spent: Loss
    limit: Loss
    remembered: bool
    stages: tuple[str, ...] = ()
    expected: tuple[float | None, ...] = ()
    event: Event | None = None
    notes: tuple[str, ...] = ()
    notices: tuple[Notice, ...] = ()
    rest: Rest | None = None
    cap: str = ""
    window: str = ""
    beside: tuple[Spending, ...] = ()
    helps: tuple[Help, ...] = ()
    outlook: Outlook = Outlook()
    forecasts: tuple[Forecast | None, ...] = ()
    searches: int = 0
    form: PlanForm = PlanForm.SHORT
    periods: ChargedPeriods | None = None

    @property
    def errors(self) -> tuple[float | Forecast | None, ...]:
        """The half-width of each column, or its forecast if it depends on the data."""
        forecasts = self.forecasts or (None,) * len(self.expected)
        return tuple(
            error if forecast is None or error is None or not isnan(error) else forecast
            for error, forecast in zip(self.expected, forecasts, strict=True)
        )
