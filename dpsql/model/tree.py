"""The frozen SQL tree: everything that a SELECT can contain.

``parse`` writes the syntax half (`Name`, `Star`, `Select`, ...); ``resolve`` turns it into the
relations of `dpsql.model.algebra`, whose expressions use the same `Literal`, `Call` and `Cast` with
their types filled in and `Ref` instead of `Name`.
"""

from __future__ import annotations

import uuid
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import StrEnum
from typing import TYPE_CHECKING, TypeAlias, cast

from dpsql.model.dataclass import dataclass, field

if TYPE_CHECKING:
    from dpsql.model.system_formulas import Formula


@dataclass(frozen=True, slots=True)
class Span:
    """Half-open range of character offsets into the analyst's SQL text."""

    start: int
    stop: int


NOWHERE = Span(0, 0)


class Kind(StrEnum):
    """The families of SQL types dpsql can reason about."""

    BOOLEAN = "BOOLEAN"
    INTEGER = "INTEGER"
    DECIMAL = "DECIMAL"
    DOUBLE = "DOUBLE"
    VARCHAR = "VARCHAR"
    DATE = "DATE"
    TIMESTAMP = "TIMESTAMP"
    TIMESTAMPTZ = "TIMESTAMPTZ"
    INTERVAL = "INTERVAL"
    LIST = "LIST"
    TIME = "TIME"
    UUID = "UUID"
    NULL = "NULL"


@dataclass(frozen=True, slots=True)
class SqlType:
    """A type: INTEGER of any width up to 128 bits, DECIMAL(precision, scale), or a bare kind.

    Lists are only output: an `element` has their precision and scale. The `width` of a number is
    that of PostgreSQL's type, for its quotients and announced columns; no type differs by it.
    """

    kind: Kind
    precision: int = 0
    scale: int = 0
    element: Kind | None = field(default=None, repr=False)
    width: int = field(default=8, repr=False, compare=False)

    @property
    def is_numeric(self) -> bool:
        return self.kind in (Kind.INTEGER, Kind.DECIMAL, Kind.DOUBLE)

    @property
    def member(self) -> SqlType:
        """Type of the members of a list."""
        assert self.element is not None
        return SqlType(self.element, self.precision, self.scale)

    @property
    def is_measured(self) -> bool:
        """True if noise in it has a size: a number, or an interval."""
        return self.is_numeric or self.kind is Kind.INTERVAL

    @property
    def is_temporal(self) -> bool:
        return self.kind in (Kind.DATE, Kind.TIMESTAMP, Kind.TIMESTAMPTZ)

    def __str__(self) -> str:
        if self.kind is Kind.DECIMAL:
            return f"DECIMAL({self.precision}, {self.scale})"
        return self.kind.value if self.element is None else f"{self.member}[]"


INTEGER_WIDTH, BIGINT_WIDTH, NUMERIC_WIDTH = 4, 8, 16
BOOLEAN = SqlType(Kind.BOOLEAN)
INTEGER = SqlType(Kind.INTEGER)
DOUBLE = SqlType(Kind.DOUBLE)
VARCHAR = SqlType(Kind.VARCHAR)
DATE = SqlType(Kind.DATE)
TIMESTAMP = SqlType(Kind.TIMESTAMP)
TIMESTAMPTZ = SqlType(Kind.TIMESTAMPTZ)
INTERVAL = SqlType(Kind.INTERVAL)
"""An interval: for every engine a whole number of microseconds."""
TIME = SqlType(Kind.TIME)
UUID = SqlType(Kind.UUID)
NULL = SqlType(Kind.NULL)


def list_of(member: SqlType) -> SqlType:
    """Return the type of lists of values of a type: for every engine a text.

    >>> str(list_of(DOUBLE))
    'DOUBLE[]'
    """
    return SqlType(Kind.LIST, member.precision, member.scale, member.kind)


def decimal(precision: int, scale: int) -> SqlType:
    """Return DECIMAL(precision, scale)."""
    return SqlType(Kind.DECIMAL, precision, scale)


@dataclass(frozen=True, slots=True)
class StoredAs:
    """Reading of the value at `path` in `column`: fields and places from 1, of JSON or nested.

    It is converted, and NULL if that fails. A text is cut to `most` characters, unless that is 0;
    JSON of more bytes is NULL.
    """

    column: str
    path: tuple[str | int, ...] = ()
    json: bool = False
    most: int = field(default=0, repr=False)


Value: TypeAlias = "None | bool | int | Decimal | float | str | date | datetime | time | uuid.UUID"
"""A constant: the value of a literal, a bound or a member of a finite domain."""

Parameter: TypeAlias = "Value | timedelta | tuple[Parameter, ...]"
"""A value for a `?`: a constant, an interval, or an array of them."""

Operand: TypeAlias = "Operators | float | str | None"
_KINDS = {float: DOUBLE, int: INTEGER, str: VARCHAR, bool: BOOLEAN}


# --- expressions -----------------------------------------------------------------------------


class Operators:
    """Operators for formulas: arithmetic of expressions is a `Call` in DOUBLE, a test in BOOLEAN.

    A constant of Python stands for a `Literal`: a float for DOUBLE, an int for INTEGER.

    >>> n = Ref(1, INTEGER)
    >>> 2.0 * n == Call("mul", (Literal(2.0, DOUBLE), n), DOUBLE)
    True
    >>> when(n.is_null() | n.lt(1), None, n / 2.0).type.kind.value
    'DOUBLE'
    """

    __slots__ = ()

    def __add__(self, other: Operand) -> Call:
        return scalar("add", self, other)

    def __radd__(self, other: Operand) -> Call:
        return scalar("add", other, self)

    def __sub__(self, other: Operand) -> Call:
        return scalar("sub", self, other)

    def __rsub__(self, other: Operand) -> Call:
        return scalar("sub", other, self)

    def __mul__(self, other: Operand) -> Call:
        return scalar("mul", self, other)

    def __rmul__(self, other: Operand) -> Call:
        return scalar("mul", other, self)

    def __truediv__(self, other: Operand) -> Call:
        return scalar("div", self, other)

    def __invert__(self) -> Call:
        return scalar("not", self, kind=BOOLEAN)

    def __and__(self, other: Operand) -> Call:
        return scalar("and", self, other, kind=BOOLEAN)

    def __or__(self, other: Operand) -> Call:
        return scalar("or", self, other, kind=BOOLEAN)

    def eq(self, other: Operand) -> Call:
        return scalar("eq", self, other, kind=BOOLEAN)

    def lt(self, other: Operand) -> Call:
        return scalar("lt", self, other, kind=BOOLEAN)

    def le(self, other: Operand) -> Call:
        return scalar("le", self, other, kind=BOOLEAN)

    def gt(self, other: Operand) -> Call:
        return scalar("gt", self, other, kind=BOOLEAN)

    def ge(self, other: Operand) -> Call:
        return scalar("ge", self, other, kind=BOOLEAN)

    def is_null(self) -> Call:
        return scalar("is_null", self, kind=BOOLEAN)

    def to(self, kind: SqlType) -> Cast:
        return Cast(operand(self), kind)


def scalar(function: str, *args: Operand, kind: SqlType = DOUBLE) -> Call:
    """Call a scalar function of expressions and constants, by its registry name."""
    return Call(function, tuple(map(operand, args)), kind)


def when(condition: Operand, value: Operand, otherwise: Operand, kind: SqlType = DOUBLE) -> Call:
    """Build CASE WHEN condition THEN value ELSE otherwise END."""
    sides = (Literal(None, kind) if side is None else side for side in (value, otherwise))
    return scalar("case", condition, *sides, kind=kind)


def operand(value: Operand) -> Expression:
    """Return an expression unchanged, and a constant as a literal."""
    if isinstance(value, Operators):
        return cast("Expression", value)
    assert value is not None, "a NULL has the type that `when` gives it"
    return Literal(value, _KINDS[type(value)])


@dataclass(frozen=True, slots=True)
class Literal(Operators):
    """A constant with its type; a word for a time, like 'yesterday', with the moment it means."""

    value: Value
    type: SqlType
    span: Span = field(default=NOWHERE, compare=False)
    moment: datetime | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Name(Operators):
    """A column by name, before resolution; `table` is its qualifier if one was written.

    `schema` has the parts before the table: nothing, a schema, or a database and a schema.
    """

    name: str
    table: str | None = None
    span: Span = field(default=NOWHERE, compare=False)
    schema: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Star(Operators):
    """`*` or `t.*` in a SELECT list or in COUNT(*); alone in GROUP BY or ORDER BY it means ALL.

    `exclude` leaves columns out, `replacing` gives (column, new value), `renaming` (old, new name).
    """

    table: str | None = None
    span: Span = field(default=NOWHERE, compare=False)
    exclude: tuple[str, ...] = ()
    replacing: tuple[tuple[str, Expression], ...] = ()
    renaming: tuple[tuple[str, str], ...] = ()
    schema: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Ref(Operators):
    """A column by identity, after resolution: ids are unique within a statement."""

    id: int
    type: SqlType
    span: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class Call(Operators):
    """A scalar function or operator by its registry name; see `dpsql.functions`.

    CASE is `case(when1, then1, when2, then2, ..., otherwise)`, IN is `in(x, v1, v2, ...)`.
    """

    function: str
    args: tuple[Expression, ...]
    type: SqlType = NULL
    span: Span = field(default=NOWHERE, compare=False)


STATED = frozenset({"dp_stddev", "dp_interval_low", "dp_interval_high"})
"""Calls that return the error of a number; see `dpsql.compiler.errors.propagate`."""


@dataclass(frozen=True, slots=True)
class Cast(Operators):
    """CAST(arg AS to); `safe` is TRY_CAST."""

    arg: Expression
    type: SqlType
    safe: bool = False
    span: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class Clip:
    """An analyst's clipping bounds for each row, or for a unit's total in a group."""

    lower: Decimal
    upper: Decimal
    per_group: bool


@dataclass(frozen=True, slots=True)
class AggregateCall(Operators):
    """An aggregate by its registry name, of `(Star(),)` for COUNT(*); `epsilon` is its share."""

    function: str
    args: tuple[Expression, ...]
    distinct: bool = False
    filter: Expression | None = None
    type: SqlType = NULL
    span: Span = field(default=NOWHERE, compare=False)
    order_by: tuple[SortKey, ...] = ()
    clip: Clip | None = None
    epsilon: Decimal | None = None


@dataclass(frozen=True, slots=True)
class SortKey:
    """One ORDER BY item; `nulls_first` None means the dialect's default."""

    expression: Expression
    descending: bool = False
    nulls_first: bool | None = None


@dataclass(frozen=True, slots=True)
class Frame:
    """A ROWS, RANGE or GROUPS frame. A bound is (offset, direction): None for UNBOUNDED, 0 for
    CURRENT ROW; direction -1 for PRECEDING, +1 for FOLLOWING. `exclude` is CURRENT ROW, GROUP, TIES
    or empty. If `timed`, `resolve` makes distances and the order microseconds.
    """

    unit: str
    start: tuple[int | None, int]
    end: tuple[int | None, int]
    exclude: str = ""
    timed: bool = field(default=False, compare=False)

    @property
    def has_distance(self) -> bool:
        """True if a bound is at a distance from the current row."""
        return bool({self.start[0], self.end[0]} - {None, 0})


@dataclass(frozen=True, slots=True)
class WindowCall(Operators):
    """An OVER call: function([DISTINCT] args [IGNORE NULLS]) [FILTER] OVER (...). `base` names a
    window of the WINDOW clause until the parser has replaced it.
    """

    function: str
    args: tuple[Expression, ...]
    partition_by: tuple[Expression, ...] = ()
    order_by: tuple[SortKey, ...] = ()
    frame: Frame | None = None
    type: SqlType = NULL
    span: Span = field(default=NOWHERE, compare=False)
    distinct: bool = False
    ignore_nulls: bool = False
    filter: Expression | None = None
    base: str | None = None


@dataclass(frozen=True, slots=True)
class ScalarQuery(Operators):
    """(SELECT ...) as a value, before resolution."""

    query: Query
    span: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class Membership(Operators):
    """EXISTS (query), or `value IN (query)` where a value is given; before resolution."""

    query: Query
    value: Expression | None = None
    span: Span = field(default=NOWHERE, compare=False)


Expression: TypeAlias = (
    "Literal | Name | Star | Ref | Call | Cast | AggregateCall | WindowCall"
    " | ScalarQuery | Membership"
)


# --- queries, as written ---------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class TableName:
    """A table or CTE by name, with its alias; column aliases as in `t AS x(a, b)`.

    `schema` has the parts before the name, as in `Name`.
    """

    name: str
    alias: str | None = None
    column_aliases: tuple[str, ...] = ()
    span: Span = field(default=NOWHERE, compare=False)
    schema: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Derived:
    """A subquery in FROM; a `lateral` one may read columns of the tables before it."""

    query: Query
    alias: str | None = None
    column_aliases: tuple[str, ...] = ()
    span: Span = field(default=NOWHERE, compare=False)
    lateral: bool = False


@dataclass(frozen=True, slots=True)
class ValuesList:
    """Rows of constants in FROM, all of one length: VALUES, or the result of a series function."""

    names: tuple[str, ...]
    rows: tuple[tuple[Literal, ...], ...]
    alias: str | None = None
    column_aliases: tuple[str, ...] = ()
    span: Span = field(default=NOWHERE, compare=False)


class JoinKind(StrEnum):
    """The joins that the tree can express; `track` decides which are accepted where."""

    INNER = "INNER"
    LEFT = "LEFT"
    RIGHT = "RIGHT"
    FULL = "FULL"
    CROSS = "CROSS"


@dataclass(frozen=True, slots=True)
class JoinedTables:
    """A join: left kind JOIN right ON condition, or USING (names); CROSS and comma joins have
    neither. A `natural` join equates all columns of one name. An `asof` join takes the nearest
    matching row by the one inequality of its condition.
    """

    left: FromItem
    right: FromItem
    kind: JoinKind
    condition: Expression | None = None
    using: tuple[str, ...] = ()
    span: Span = field(default=NOWHERE, compare=False)
    natural: bool = False
    asof: bool = False


@dataclass(frozen=True, slots=True)
class HalfJoin:
    """The rows of the left side that the join keeps, once each; with `anti` the other rows."""

    join: JoinedTables
    anti: bool


FromItem: TypeAlias = "TableName | Derived | ValuesList | JoinedTables | HalfJoin"


@dataclass(frozen=True, slots=True)
class SelectItem:
    """expression [AS alias]; without an alias, `label` is the dialect's name of the column."""

    expression: Expression
    alias: str | None = None
    label: str | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class CommonTable:
    """name [(columns)] AS (query), one member of WITH; `recursive` ones may read themselves."""

    name: str
    query: Query
    column_aliases: tuple[str, ...] = ()
    recursive: bool = False


@dataclass(frozen=True, slots=True)
class Select:
    """One SELECT; ordinals in GROUP BY and ORDER BY are integer literals until resolved.

    `grouping_sets` are positions in `group_by`, one tuple per grouping; () for a plain GROUP BY.
    """

    items: tuple[SelectItem, ...]
    source: FromItem | None = None
    where: Expression | None = None
    group_by: tuple[Expression, ...] = ()
    having: Expression | None = None
    qualify: Expression | None = None
    distinct: bool = False
    order_by: tuple[SortKey, ...] = ()
    limit: int | None = None
    offset: int = 0
    ctes: tuple[CommonTable, ...] = ()
    span: Span = field(default=NOWHERE, compare=False)
    distinct_on: tuple[Expression, ...] = ()
    grouping_sets: tuple[tuple[int, ...], ...] = ()


@dataclass(frozen=True, slots=True)
class SetOperation:
    """left UNION | INTERSECT | EXCEPT [ALL] [BY NAME] right."""

    kind: str
    all: bool
    left: Query
    right: Query
    order_by: tuple[SortKey, ...] = ()
    limit: int | None = None
    offset: int = 0
    ctes: tuple[CommonTable, ...] = ()
    span: Span = field(default=NOWHERE, compare=False)
    by_name: bool = False


Query: TypeAlias = "Select | SetOperation"


class PlanForm(StrEnum):
    """The form of a shown plan: the main facts, everything, or everything for programs."""

    SHORT = "short"
    LONG = "long"
    JSON = "json"


@dataclass(frozen=True, slots=True)
class Statement:
    """A parsed request. `epsilon`, `min_units` (the fewest units of a released private key),
    `max_error` ("5%" is relative), `confidence`, `nonnegative` (counts), `mechanism`, `memory`
    and `keys` (names) are values of OPTIONS.
    `divided` says that an aggregate names its own epsilon. Tables without a schema are searched
    along `search_path`. `instant` is the value of NOW(). The statement `reads_clock` by a
    function, or `says_now` in a text that may be a time. With `empty_rows`, a request for one
    private row (LIMIT 1) returns none. `calls` are the names before parentheses, in lower case;
    some stand for `formulas`.
    """

    query: Query
    epsilon: Decimal | None = None
    min_units: int | None = None
    max_error: str | None = None
    confidence: Decimal | None = None
    nonnegative: bool = False
    mechanism: str | None = None
    divided: bool = False
    search_path: tuple[str, ...] = ("public",)
    instant: datetime | None = field(default=None, compare=False)
    reads_clock: bool = False
    says_now: bool = False
    empty_rows: bool = False
    memory: str | None = None
    calls: frozenset[str] = field(default=frozenset(), compare=False, repr=False)
    keys: str | None = None
    formulas: tuple[Formula, ...] = ()


def identifier(name: str) -> str:
    """Quote a name.

    >>> identifier('a"b')
    '"a""b"'
    """
    return '"' + name.replace('"', '""') + '"'


def type_name(kind: SqlType) -> str:
    """Return a type's name as the target of a cast; INTEGER is 64 bits wide there.

    >>> type_name(SqlType(Kind.DECIMAL, 12, 2))
    'DECIMAL(12, 2)'
    """
    match kind.kind:
        case Kind.INTEGER | Kind.INTERVAL:
            return "BIGINT"
        case Kind.LIST:
            return "VARCHAR"
        case Kind.NULL:
            raise AssertionError(kind)
        case _:
            return str(kind)
