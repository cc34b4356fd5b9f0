"""What `explain` shows: the plan in the words and units of the person who checks it."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from math import nan
from typing import TypeAlias

from dpsql.model.dataclass import dataclass
from dpsql.model.notices import Notice
from dpsql.model.tree import VARCHAR, PlanForm
from dpsql.model.vocabulary import Column, Event, Loss, Rest

SHOWN = Column("QUERY PLAN", VARCHAR)


"""The column of a plan that is asked for as SQL, as PostgreSQL calls it."""


def unknown_errors(columns: Sequence[Column]) -> tuple[float | None, ...]:
    """The error of each column where nobody knows it: NaN of numbers, None of what has none."""
    return tuple(nan if column.type.is_measured else None for column in columns)


def approximate(number: float) -> str:
    """A number to four digits, as plans show it.

    >>> approximate(315123.7), approximate(0.012344), approximate(-20.0)
    ('315,100', '0.01234', '-20')
    """
    return f"{float(f'{number:.4g}'):,.12g}"


@dataclass(frozen=True, slots=True)
class LimitLine:
    """A contribution limit: its name, its value (None: no limit) and where it was proved or is
    enforced, e.g. ("groups per unit", 1, "proved: the keys are determined by the unit").
    """

    name: str
    value: float | None
    how: str


@dataclass(frozen=True, slots=True)
class ReleaseLine:
    """One noised measurement, in the units of its values (not lattice steps).

    `output` says what it measures, and of what. `lower`, `upper` clip one unit's total in one
    group; `linf` is the most one unit changes one group; `step` the lattice step; `scale` is b or
    σ; `error` the standard deviation of the noise; `margin` its half-width at 95 %. `otherwise` is
    the other mechanism that could pay the same, with its error.
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
    """What is asked of the rows in each cell of a histogram: among how many, and how surely.

    `rows` is the most rows of one unit that count in a group. `expected` is the rank's standard
    error in rows where these are many (None: unknown); within `reach` rows of the best it lies in
    95 % of all cases, of a choice whatever the data. `otherwise` is the other way to ask the same.
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

    `keys` describes the key domain or the threshold (empty: no GROUP BY); `facts` name
    each fact and its voucher.
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
    """The keys of these names are private: listed by the policy, each would be answered."""

    keys: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class TighterBounds:
    """Noise is in proportion to what a row of `argument` may be: from `lower` to `upper`."""

    argument: str
    lower: float
    upper: float


@dataclass(frozen=True, slots=True)
class FewerRows:
    """Noise is in proportion to the rows of one unit that count in a group."""

    rows: int


@dataclass(frozen=True, slots=True)
class FewerGroups:
    """Noise grows with the groups in which one unit counts."""

    groups: int


Help: TypeAlias = PublicKeys | TighterBounds | FewerRows | FewerGroups


# --- the same question in another form, whose error is known ---


@dataclass(frozen=True, slots=True)
class LargerEpsilon:
    """The same for an ε of `epsilon`, the largest that the policy allows."""

    epsilon: Decimal


@dataclass(frozen=True, slots=True)
class OtherAccountant:
    """The same from a budget whose accountant is `name`."""

    name: str


@dataclass(frozen=True, slots=True)
class RecordedFacts:
    """The same where `dpsql check --record` has found that data are as the policy declares."""


@dataclass(frozen=True, slots=True)
class CoarserPeriods:
    """Grouped by each `period` of `key`, a moment or its truncation."""

    key: str
    period: str


@dataclass(frozen=True, slots=True)
class WithoutKey:
    """Not grouped by `key`."""

    key: str


@dataclass(frozen=True, slots=True)
class UnitsCounted:
    """Units, known by `column`, are counted instead of their rows: another number."""

    units: str
    column: str


Change: TypeAlias = (
    LargerEpsilon | OtherAccountant | RecordedFacts | CoarserPeriods | WithoutKey | UnitsCounted
)


@dataclass(frozen=True, slots=True)
class Proposal:
    """A question's form that errs less: in `column` by `margin` (95 %), not by `present_margin`
    (None: that is not known yet). There are `groups`, not `present_groups` (None: nobody knows).

    Where what a unit adds is still to be found, it is taken to be as large in both, or as large as
    it can be: so the `margin` is the `most`. Where it is known of neither, margins are `relative`.
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
    """The half-width at 95 % of a column where what one unit adds is found to be up to `most`.

    A column that several bounds decide has all of them.
    """

    column: str
    most: tuple[float, ...]
    margin: float


@dataclass(frozen=True, slots=True)
class Outlook:
    """What an answer is expected to be worth, by the bounds that may be found for it; and how the
    same could be asked for less error, the best first.
    """

    bounds: tuple[FoundBound, ...] = ()
    proposals: tuple[Proposal, ...] = ()


@dataclass(frozen=True, slots=True)
class PlanDescription:
    """What an explanation says of a plan whatever the ledger says; `charge` is the plan's."""

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
    """The whole plan of one query. `blocks` is empty for a query over public tables alone,
    which has no `event`, and for synthetic tables.

    `charge` is what asking would cost now (zero if the answer is remembered), `spent` and `limit`
    the budget's state, or that of the `cap` that leaves less of it; `accountant` names the unit of
    their amounts; `outer_sql` runs over the released tables `release_0`, `release_1`, ... and so do
    `stages`, the queries whose results later releases read as `stage_0`, `stage_1`, ... `expected`
    is the half-width at 95 % of each column: None if exact, NaN if it depends on what is released.
    `event` is what accountants interpret; `notes` are sentences about the whole, `notices` what is
    told with every answer; `rest` is what would be left; `helps` is what would make errors smaller,
    or hide less, `outlook` what is known of either in numbers. The first `searches` blocks only
    find bounds. `form` is how its text was asked for.
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
    helps: tuple[Help, ...] = ()
    outlook: Outlook = Outlook()
    searches: int = 0
    form: PlanForm = PlanForm.SHORT
