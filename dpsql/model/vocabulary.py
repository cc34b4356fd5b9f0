"""The vocabulary: every type that crosses a line of the pipeline. Read this first.

Policy (the owner's decisions) → plan (the measurements, with proofs) → Exact → Noisy → Answer,
Receipt. Grid integers are plain `int`; amounts of privacy are integers in ledger units (see
`Loss`).

Units and neighbours are those of PRIVACY.md R1; amounts are whole and exact values have no repr
(SECURITY.md S12, S19).
"""

from __future__ import annotations

from datetime import date, datetime
from decimal import Decimal
from enum import StrEnum
from typing import TYPE_CHECKING, Any, NoReturn

from dpsql.model.calendars import Calendar
from dpsql.model.dataclass import dataclass, field, replace
from dpsql.model.delegation import Chain
from dpsql.model.interval_ends import Halves, Intervals, intervals
from dpsql.model.local_reports import LocalColumn
from dpsql.model.notices import Notice
from dpsql.model.other_release import OtherRelease
from dpsql.model.periods import ChargedPeriods, PeriodRule
from dpsql.model.prepared_store import PreparedStore
from dpsql.model.privacy_loss import (
    ATTO,
    NANO,
    UNBOUNDED,
    ApproximateEvent,
    BoundedRangeEvent,
    Event,
    EventPart,
    Loss,
    Mechanism,
    Neighbours,
    Noise,
    NoiseEvent,
    Norm,
    SelectionEvent,
    Sensitivity,
)
from dpsql.model.public_times import now
from dpsql.model.query_options import Memory, Precision
from dpsql.model.resources import Database, Limits
from dpsql.model.rights import Grant, Role
from dpsql.model.system_formulas import Formula
from dpsql.model.table_names import SEARCH_PATH, candidates
from dpsql.model.tree import Expression, Parameter, SqlType, StoredAs, Value

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import numpy as np

    from dpsql.model.algebra import Relation
    from dpsql.model.origins import MeasuredColumns
    from dpsql.model.stored import Flow

__all__ = [
    "ATTO",
    "DEFAULT_ACCOUNTANT",
    "DEFAULT_SPELLING",
    "NANO",
    "SPELLINGS",
    "UNBOUNDED",
    "WORD",
    "Answer",
    "ApproximateEvent",
    "BoundedRangeEvent",
    "BoundsMethod",
    "Budget",
    "Cap",
    "Column",
    "ColumnPolicy",
    "Event",
    "EventPart",
    "Exact",
    "Fact",
    "FactKind",
    "GroupingLimit",
    "Link",
    "Loss",
    "Mechanism",
    "Neighbours",
    "Noise",
    "NoiseEvent",
    "Noisy",
    "Norm",
    "Policy",
    "PrivacyUnit",
    "Receipt",
    "Request",
    "Rest",
    "SelectionEvent",
    "Sensitivity",
    "TablePolicy",
    "Voucher",
]

# --- the policy ------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Link:
    """One declared foreign-key hop: column of this table references table.key.

    A link of several columns has `more` of both, in the order of the key.
    """

    column: str
    table: str
    key: str
    more: tuple[tuple[str, str], ...] = ()

    def __repr__(self) -> str:
        """Return the text by which a policy's version is computed: without `more` if it is
        empty.
        """
        more = f", more={self.more!r}" if self.more else ""
        return f"Link(column={self.column!r}, table={self.table!r}, key={self.key!r}{more})"

    @property
    def columns(self) -> tuple[str, ...]:
        return (self.column, *(column for column, _ in self.more))

    @property
    def keys(self) -> tuple[str, ...]:
        return (self.key, *(key for _, key in self.more))


class BoundsMethod(StrEnum):
    """Methods to find bounds: a noisy histogram of sizes, or extreme sizes by one of two
    mechanisms.
    """

    LOG_HISTOGRAM = "log_histogram"
    QUANTILE = "quantile"
    SPARSE_VECTOR = "sparse_vector"


@dataclass(frozen=True, slots=True)
class PrivacyUnit:
    """The privacy unit: one key of one table, such as a customer.

    Where units have no table, each value of certain columns is a unit. Then `table` is the name of
    the first of these columns, and no table of the policy (PRIVACY.md R2).
    """

    table: str
    key: str
    neighbours: Neighbours = Neighbours.ADD_REMOVE


WORD = 64
"""Bits of the whole numbers that every interface can return."""


@dataclass(frozen=True, slots=True)
class ColumnPolicy:
    """The owner's declarations of a column; `values` excludes NULL, `nullable` adds it.

    `enforced` says that the engine's constraints keep its bounds or values; no proof needs it. The
    absolute values of one unit add up to at most `max_per_unit`: a clipping bound, and never a
    proof. At most `max_length` characters of a text count. A constraint of the engine keeps NULL
    out of a `not_null` column. Its whole numbers are stored in `bits`, with a sign. `randomized`
    describes reports of respondents.
    """

    name: str
    type: SqlType
    bounds: tuple[Value, Value] | None = None
    values: tuple[Value, ...] | None = None
    nullable: bool = False
    hidden: bool = False
    private_bounds: BoundsMethod | None = None
    enforced: bool = field(default=False, repr=False)
    max_per_unit: Decimal | None = field(default=None, repr=False)
    max_length: int | None = field(default=None, repr=False)
    reading: StoredAs | None = field(default=None, repr=False)
    not_null: bool = field(default=False, repr=False)
    bits: int = field(default=WORD, repr=False)
    randomized: LocalColumn | None = field(default=None, repr=False)

    @property
    def needs_more_bits(self) -> bool:
        """True if its whole numbers may need more than 64 bits, by declared values or
        stored size.
        """
        declared = self.bounds if self.values is None else self.values
        beyond = any(isinstance(n, int) and not -(2**63) <= n < 2**63 for n in declared or ())
        return beyond or (self.values is None and self.bits > WORD)


class FactKind(StrEnum):
    """Facts about data that a proof may use (PRIVACY.md R5)."""

    UNIQUE_KEY = "unique key"
    NOT_NULL_KEY = "key is never null"
    NOT_NULL_LINK = "link is never null"
    LINK_RESOLVES = "link always resolves"
    MAX_ROWS = "rows per unit"
    ONE_UNIT = "rows that agree are of one unit"
    SAME_UNIT = "leads to the row's own unit"
    ROWS_PER_KEY = "rows with one value"


class Voucher(StrEnum):
    """The source of a fact: a constraint that the engine enforces, or a recorded `dpsql check`."""

    CONSTRAINT = "engine constraint"
    CHECK = "recorded check"


@dataclass(frozen=True, slots=True, order=True)
class Fact:
    """A statement about the data of one table, and its source."""

    kind: FactKind
    table: str
    voucher: Voucher = field(compare=False)


@dataclass(frozen=True, slots=True)
class GroupingLimit:
    """A limit on one unit's rows or groups, for groupings by a column or an expression `by`.

    `key` is the expression over the table's columns, as `Ref`s by their places; None before `by` is
    parsed.
    """

    by: str
    most: int
    key: Expression | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class TablePolicy:
    """A table: public, or private with its link towards the unit and its contribution bounds.

    `key` is () and limits are None where none are declared. `expected_rows`, the approximate number
    of rows, serves predictions of time and usefulness. A `view` is evaluated whenever it is read; a
    private one is read as `rows` (PRIVACY.md R98). Rows with `several` links belong to all units
    that these name, and have no `link`. Units that `unprotected` links name are not protected, as
    the owner declares. `second_keys` are columns of undeclared links. Limits `by` groupings replace
    the general limit. Rows that agree on a list of columns in `determining` belong to one unit, as
    the owner declares. Columns of `same_unit` lead to the unit of the link, or are read as NULL
    (PRIVACY.md R93). `max_rows_per_key` are the most rows, of all units, with one value of a
    column, as the owner declares (PRIVACY.md R94). Aggregates clip dates and times without bounds
    to the range `times`. One analyst sees the rows that some of the `grants` have
    (PRIVACY.md R105). A table of released rows has a comment of its own, `about`.
    """

    name: str
    private: bool
    columns: tuple[ColumnPolicy, ...]
    key: tuple[str, ...] = ()
    link: Link | None = None
    max_rows_per_unit: int | None = None
    max_groups_per_unit: int | None = None
    max_rows_per_group: int | None = None
    max_public_groups: int | None = None
    expected_rows: int | None = None
    view: bool = False
    several: tuple[Link, ...] = ()
    unprotected: tuple[Link, ...] = ()
    second_keys: tuple[str, ...] = ()
    groups_by: tuple[GroupingLimit, ...] = ()
    rows_by: tuple[GroupingLimit, ...] = ()
    determining: tuple[tuple[str, ...], ...] = ()
    rows: Relation | None = None
    same_unit: tuple[Link, ...] = ()
    times: tuple[date, date] | None = None
    grants: tuple[Grant, ...] = field(default=(), repr=False)
    about: str = field(default="", repr=False)
    max_rows_per_key: tuple[tuple[str, int], ...] = ()

    def agreeing(self, columns: tuple[str, ...]) -> str:
        """Return the subject of a fact about the rows that agree on these columns."""
        return f"{self.name}.({', '.join(columns)})"

    def column(self, name: str) -> ColumnPolicy | None:
        """Return the column called `name`, ignoring case."""
        return next((c for c in self.columns if c.name.lower() == name.lower()), None)

    @property
    def readings(self) -> tuple[tuple[str, StoredAs], ...]:
        """Columns that are converted when they are read, by name."""
        return tuple((c.name, c.reading) for c in self.columns if c.reading is not None)


DEFAULT_ACCOUNTANT = "zcdp"
DEFAULT_SPELLING = "duckdb"
SPELLINGS = (DEFAULT_SPELLING, "postgres", "tsql", "mysql")
"""SQL dialects that analysts may use with any engine of the owner."""


@dataclass(frozen=True, slots=True)
class Budget:
    """A privacy budget, shared by the analysts who name it, by the keys of [budgets.B]
    (`policy_keys`).

    With `renews`, `epsilon` and `delta` are for one window of this calendar; the limit over all
    windows is a `Cap`.
    """

    name: str
    epsilon: Decimal
    delta: Decimal
    accountant: str = DEFAULT_ACCOUNTANT
    query_epsilon: Decimal = Decimal("0.1")
    max_query_epsilon: Decimal = Decimal(1)
    query_delta: Decimal = Decimal("1e-9")
    min_query_charge: Decimal | None = None
    confirm_above: Decimal | None = None
    only_public_keys: bool = False
    memory: Memory = Memory.SLICE
    share_answers: bool = False
    renews: Calendar | None = None

    @property
    def as_cap(self) -> Cap:
        """The budget's own limit, as a cap on all its analysts."""
        return Cap(
            f"budget {self.name}",
            self.epsilon,
            self.delta,
            budget=self.name,
            renews=self.renews,
        )


LIFETIME = "lifetime of "
"""Prefix of the title of a limit over all windows of another limit."""


@dataclass(frozen=True, slots=True)
class Cap:
    """A limit on the spending of `analysts` (None: all) from `budget` (None: all budgets
    together): in one window if it `renews`, else ever.
    """

    title: str
    epsilon: Decimal
    delta: Decimal
    budget: str | None = None
    analysts: frozenset[str] | None = None
    renews: Calendar | None = None

    def within(self, budget: Budget) -> Budget:
        """Return this limit as a budget, for a budget that it covers."""
        return replace(budget, epsilon=self.epsilon, delta=self.delta, renews=self.renews)

    def covers(self, budget: str, analyst: str) -> bool:
        """Test whether this analyst's spending from this budget counts."""
        return self.budget in {None, budget} and (self.analysts is None or analyst in self.analysts)


@dataclass(frozen=True, slots=True)
class Policy:
    """All decisions of the owner, bound to the database's schema: every column has its type.

    `version` is a hash of the decisions (not of layout or comments). `facts` hold for the data with
    identity `data` (None: any), from which the `store` was prepared. Analysts in `empty_rows` get
    no row when they ask for one private row. `deviations` are refused names. Paths are absolute.
    Where one analyst's roles restrict the `tables`, all tables are `beneath`; proofs read them.
    The data `moves` if others write it while it is read. With a `period`, a unit is a person in a
    period, and private tables are read by a policy for the `charged` blocks (PRIVACY.md R103).
    """

    path: str
    version: str
    database: Database
    unit: PrivacyUnit
    tables: tuple[TablePolicy, ...]
    budgets: tuple[Budget, ...]
    analysts: tuple[tuple[str, str], ...]
    ledger: str
    limits: Limits = Limits()
    facts: frozenset[Fact] = frozenset()
    data: str | None = None
    empty_rows: frozenset[str] = frozenset()
    caps: tuple[Cap, ...] = ()
    store: PreparedStore | None = None
    deviations: frozenset[str] = frozenset()
    roles: tuple[Role, ...] = ()
    beneath: tuple[TablePolicy, ...] = ()
    moves: bool = False
    period: PeriodRule | None = None
    charged: tuple[str, ...] = ()
    releases: tuple[OtherRelease, ...] = ()

    def table(self, name: str) -> TablePolicy | None:
        """Return the whole table called `name`, ignoring case and rights: for proofs."""
        tables = self.beneath or self.tables
        return next((t for t in tables if t.name.lower() == name.lower()), None)

    def granted(self, name: str) -> TablePolicy | None:
        """Return the table called `name` as the analyst sees it, ignoring case."""
        return next((t for t in self.tables if t.name.lower() == name.lower()), None)

    def with_tables(self, change: Callable[[TablePolicy], TablePolicy]) -> Policy:
        """Return the policy with each table changed, in both of its lists."""
        changed = (tuple(map(change, tables)) for tables in (self.tables, self.beneath))
        tables, beneath = changed
        return replace(self, tables=tables, beneath=beneath)

    def named(
        self, written: tuple[str, ...], path: tuple[str, ...] = SEARCH_PATH
    ) -> TablePolicy | None:
        """Return the table that a name of up to three parts means; schemas are searched by
        `path`.
        """
        tables = (self.granted(name) for name in candidates(written, path))
        return next((table for table in tables if table is not None), None)

    @property
    def unit_name(self) -> str:
        """Name of the column that identifies privacy units."""
        table = self.granted(self.unit.table)
        has_table = table is not None and table.column(self.unit.key) is not None
        return f"{self.unit.table}.{self.unit.key}" if has_table else self.unit.table

    def fact(self, kind: FactKind, table: str) -> Fact | None:
        """Return the recorded fact of this kind about this table, if there is one."""
        return next((f for f in self.facts if f.kind is kind and f.table == table), None)

    def budget_of(self, analyst: str) -> Budget | None:
        """Return the budget that pays for `analyst`."""
        name = dict(self.analysts).get(analyst)
        return next((b for b in self.budgets if b.name == name), None)


# --- results -----------------------------------------------------------------------------------


class Exact:
    """Exact integers per group, straight from the engine: raises on pickling, and its repr hides
    them.

    `keys` is one tuple of key values per group; `parts` one integer array (int64 or object) per
    part, aligned with `keys`.
    """

    __slots__ = ("keys", "parts")

    def __init__(self, keys: list[tuple[Any, ...]], parts: Sequence[np.ndarray]) -> None:
        self.keys, self.parts = keys, tuple(parts)

    def __repr__(self) -> str:
        return f"Exact(rows=<{type(self).__name__} hidden>)"

    def __reduce__(self) -> NoReturn:
        msg = "exact values are never serialised"
        raise TypeError(msg)


@dataclass(frozen=True, slots=True)
class Noisy:
    """Released keys and noisy integers of one block, public from here on. None is a withheld value.

    `origin` describes measurements that are kept for other queries.
    """

    keys: tuple[tuple[Any, ...], ...]
    parts: tuple[tuple[int | None, ...], ...]
    origin: MeasuredColumns | None = None


@dataclass(frozen=True, slots=True)
class Column:
    """A result column, fixed by the text. An INTEGER that is `wide` may need more than 64 bits.

    One that is `small` is int4 for PostgreSQL, and its values are.
    """

    name: str
    type: SqlType
    wide: bool = field(default=False, repr=False)
    small: bool = field(default=False, repr=False, compare=False)


@dataclass(frozen=True, slots=True)
class Spending:
    """The loss below a limit, called as the ledger confirms it: in its `window`, or ever.

    `limit` is None where the owner sets no bound over all windows.
    """

    title: str
    spent: Loss
    limit: Loss | None = None
    window: str = ""
    accountant: str = ""


@dataclass(frozen=True, slots=True)
class Receipt:
    """The cost of one answer: `charged` is zero if it was repeated or public.

    `least` says that it is the minimum charge. The budget can still pay for `left` queries of ε
    `question`, or for `keyed` ones with private keys. `spent` and `limit` are the budget's, or
    those of the `cap` that leaves less, in its `window` if it renews. Windows and lifetimes that
    leave more are `beside`. Earlier measurements replace `recalled` percent of the price. With
    `periods` of people, each of them is charged, and the state is that of one of them.
    """

    query_id: str
    analyst: str
    budget: str
    accountant: str
    epsilon: Decimal
    charged: Loss
    spent: Loss
    limit: Loss
    remembered: bool = False
    recalled: int = 0
    least: bool = False
    question: Decimal | None = None
    left: int | None = None
    keyed: int | None = None
    cap: str = ""
    window: str = ""
    beside: tuple[Spending, ...] = ()
    periods: ChargedPeriods | None = None


@dataclass(frozen=True, slots=True)
class Answer:
    """Columns, rows, and the standard error of every number in the shape of the rows.

    An error is None where the value is exact (keys, public data) and NaN where it is noisy and its
    error unknown. `margins` are the 95 % half-widths, same shape. Intervals that reach farther on
    one side have two `halves`, below and above; their margin is the larger one. Without any such
    interval `halves` is empty. `explanation` answers EXPLAIN PRIVACY; the interface writes its
    rows. A `flow` holds its rows itself, and all of them are exact.
    """

    columns: tuple[Column, ...]
    rows: Sequence[tuple[Any, ...]]
    errors: Sequence[tuple[float | None, ...]]
    margins: Sequence[tuple[float | None, ...]]
    receipt: Receipt | None = None
    notices: tuple[Notice, ...] = ()
    explanation: object | None = None
    flow: Flow | None = None
    halves: Sequence[Halves | None] = ()

    @property
    def intervals(self) -> tuple[Intervals, ...]:
        """The low and the high end of each number at 95 %: see `intervals`."""
        halves = self.halves or (None,) * len(self.rows)
        rows = zip(self.rows, self.margins, halves, strict=True)
        return tuple(intervals(row, margins, half) for row, margins, half in rows)


@dataclass(frozen=True, slots=True)
class Request:
    """A request of an interface: text, analyst, dialect, ε or precision, and time.

    It is `confirmed` if even a useless answer is wanted. With `flowing`, many rows of public data
    may come as a flow. Tables without a schema are searched along `search_path`. The owner's log
    has `door` (the interface) and `client`. `narrow` columns are 64 bits. The proxy fills in the
    `chain` of an agent. Calls of side systems stand for `formulas`. If it `resumes`, it measures
    what an interrupted request like it was charged for (SECURITY.md S37).
    """

    sql: str
    analyst: str
    dialect: str = DEFAULT_SPELLING
    parameters: tuple[Parameter, ...] = ()
    epsilon: Decimal | None = None
    precision: Precision | None = None
    nonnegative: bool = False
    at: datetime = field(default_factory=now)
    confirmed: bool = False
    flowing: bool = False
    search_path: tuple[str, ...] = SEARCH_PATH
    door: str = ""
    client: str = ""
    narrow: frozenset[int] = frozenset()
    chain: Chain = ()
    formulas: tuple[Formula, ...] = ()
    resumes: bool = False


@dataclass(frozen=True, slots=True)
class Rest:
    """The budget that a charge leaves: `questions` queries of the default ε, which is `question`.

    `keyed` is the number of those that can have private keys (None: never). `fits` is the largest ε
    of a query that could be paid instead (None: none).
    """

    question: Decimal
    questions: int
    keyed: int | None
    fits: Decimal | None
