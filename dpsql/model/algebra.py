"""Resolved relations: the query as operators over columns with unique ids.

Names remain only as labels of `Field`. So renames, shadowing CTEs and aliases cannot move a bound
from one value to another: a fact belongs to a field id.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from dpsql.model import tree
from dpsql.model.dataclass import dataclass, field


@dataclass(frozen=True, slots=True)
class Field:
    """One column of a relation: its identity, its label and its type."""

    id: int
    name: str
    type: tree.SqlType

    @property
    def ref(self) -> tree.Ref:
        return tree.Ref(self.id, self.type)

    @property
    def item(self) -> Item:
        """The unchanged column, as an item of a projection."""
        return Item(self, self.ref)


@dataclass(frozen=True, slots=True)
class Item:
    """A computed column: `expression` under the identity of `field`."""

    field: Field
    expression: tree.Expression


@dataclass(frozen=True, slots=True)
class Scan:
    """A base table; `fields[i].name` is the column's name in the table.

    `readings` has, by name, the columns that are converted when they are read. For a view, `rows`
    computes its rows, with columns of the same names (PRIVACY.md R98).
    """

    table: str
    fields: tuple[Field, ...]
    span: tree.Span = field(default=tree.NOWHERE, compare=False)
    readings: tuple[tuple[str, tree.StoredAs], ...] = ()
    rows: Relation | None = None


@dataclass(frozen=True, slots=True)
class OneRow:
    """A relation of one row and no columns: SELECT without FROM."""

    fields: tuple[Field, ...] = ()


@dataclass(frozen=True, slots=True)
class Values:
    """Rows of constants, one value per field, in the fields' types: public like a public table."""

    fields: tuple[Field, ...]
    rows: tuple[tuple[tree.Literal, ...], ...]
    span: tree.Span = field(default=tree.NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class Released:
    """The noisy table of block `block`: its key fields, then the measures numbered `measures`.

    After `calibrate`, the fields behind the keys are all columns that the block releases. `columns`
    are the ids of keys and released columns in the block.
    """

    block: int
    fields: tuple[Field, ...]
    measures: tuple[int, ...] = ()
    columns: tuple[int, ...] = ()

    @property
    def reads(self) -> Mapping[int, Field]:
        """The fields, by the id of the key or released column that each reads."""
        return dict(zip(self.columns, self.fields, strict=True))


@dataclass(frozen=True, slots=True)
class Staged:
    """The rows of stage `stage`, evaluated before the private rows that they are joined to.

    It is a released result, or a public query, its `source`. Facts of the source are true of these
    rows; another evaluation might have other rows.
    """

    stage: int
    fields: tuple[Field, ...]
    source: Relation | None = None


@dataclass(frozen=True, slots=True)
class Evaluated:
    """The rows of a public query after one evaluation; `digest` identifies the rows."""

    digest: str
    fields: tuple[Field, ...]
    rows: Sequence[tuple[Any, ...]] = field(repr=False, compare=False)
    sql: str = field(default="", compare=False)


@dataclass(frozen=True, slots=True)
class Filter:
    """The rows of `input` for which `predicate` is true."""

    input: Relation
    predicate: tree.Expression

    @property
    def fields(self) -> tuple[Field, ...]:
        return self.input.fields


@dataclass(frozen=True, slots=True)
class Project:
    """A projection: one row per row of `input`, with these columns only."""

    input: Relation
    items: tuple[Item, ...]

    @property
    def fields(self) -> tuple[Field, ...]:
        return tuple(item.field for item in self.items)


@dataclass(frozen=True, slots=True)
class Join:
    """A join: left kind JOIN right ON condition (None for CROSS)."""

    left: Relation
    right: Relation
    kind: tree.JoinKind
    condition: tree.Expression | None
    span: tree.Span = field(default=tree.NOWHERE, compare=False)

    @property
    def fields(self) -> tuple[Field, ...]:
        return self.left.fields + self.right.fields


@dataclass(frozen=True, slots=True)
class Match:
    """The input with a truth value: it tells whether a row of `other` matches (EXISTS, IN).

    `condition` reads both sides (None: any row matches). With `member` = (value, option) it is
    `value IN (options of the rows that match)`, with SQL's NULL rules.
    """

    input: Relation
    other: Relation
    condition: tree.Expression | None
    mark: Field
    member: tuple[tree.Expression, tree.Expression] | None = None
    span: tree.Span = field(default=tree.NOWHERE, compare=False)

    @property
    def fields(self) -> tuple[Field, ...]:
        return (*self.input.fields, self.mark)


@dataclass(frozen=True, slots=True)
class Measure:
    """An aggregate column: `call` under the identity of `field`."""

    field: Field
    call: tree.AggregateCall


@dataclass(frozen=True, slots=True)
class Aggregate:
    """GROUP BY keys; without keys exactly one row.

    With `sets` it is one grouping per set of key positions, the other keys NULL. `rows` is the
    owner's limit on the rows of a group, where the groups are within one unit.
    """

    input: Relation
    keys: tuple[Item, ...]
    measures: tuple[Measure, ...]
    span: tree.Span = field(default=tree.NOWHERE, compare=False)
    rows: int | None = None
    sets: tuple[tuple[int, ...], ...] = ()

    @property
    def fields(self) -> tuple[Field, ...]:
        return tuple(k.field for k in self.keys) + tuple(m.field for m in self.measures)


@dataclass(frozen=True, slots=True)
class WindowItem:
    """A window function under the identity of `field`."""

    field: Field
    call: tree.WindowCall

    @property
    def counts_its_row(self) -> bool:
        """True for COUNT(*) OVER a frame with the row itself: its range is that of ROW_NUMBER."""
        call = self.call
        counts = call.function == "count" and isinstance(call.args[0], tree.Star)
        return counts and call.frame is None and call.filter is None


@dataclass(frozen=True, slots=True)
class Window:
    """The input with window columns added; `rows` limits the rows of a unit, as in `Aggregate`."""

    input: Relation
    items: tuple[WindowItem, ...]
    rows: int | None = None

    @property
    def fields(self) -> tuple[Field, ...]:
        return self.input.fields + tuple(item.field for item in self.items)


@dataclass(frozen=True, slots=True)
class Union:
    """A set operation: left UNION | INTERSECT | EXCEPT [ALL] right, column by column."""

    kind: str
    all: bool
    left: Relation
    right: Relation
    fields: tuple[Field, ...]
    span: tree.Span = field(default=tree.NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class Sort:
    """An ORDER BY."""

    input: Relation
    keys: tuple[tree.SortKey, ...]
    span: tree.Span = field(default=tree.NOWHERE, compare=False)

    @property
    def fields(self) -> tuple[Field, ...]:
        return self.input.fields


@dataclass(frozen=True, slots=True)
class Limit:
    """A LIMIT limit OFFSET offset."""

    input: Relation
    limit: int | None
    offset: int
    span: tree.Span = field(default=tree.NOWHERE, compare=False)

    @property
    def fields(self) -> tuple[Field, ...]:
        return self.input.fields


@dataclass(frozen=True, slots=True)
class Single:
    """The input, where no two rows may agree on `columns`: two such rows are an error."""

    input: Relation
    columns: tuple[tree.Ref, ...] = ()
    span: tree.Span = field(default=tree.NOWHERE, compare=False)

    @property
    def fields(self) -> tuple[Field, ...]:
        return self.input.fields


@dataclass(frozen=True, slots=True)
class Apply:
    """The input with a subquery's result for each row; `other` may read the row's columns.

    The result is the one value of `other` (NULL without a row). If it `tests`, it is the existence
    of a row of `other`; with a `member`, its membership in `other`. Public tables only. While it is
    `unsure`, `other` may have several rows where one is needed.
    """

    input: Relation
    other: Relation
    value: Field
    tests: bool = False
    member: tree.Expression | None = None
    unsure: bool = False
    span: tree.Span = field(default=tree.NOWHERE, compare=False)

    @property
    def fields(self) -> tuple[Field, ...]:
        return (*self.input.fields, self.value)


@dataclass(frozen=True, slots=True)
class Recursion:
    """Recursive query (WITH RECURSIVE): the rows of `first`, then of `step` over the previous rows
    (`Again` of this id).
    """

    id: int
    first: Relation
    step: Relation
    fields: tuple[Field, ...]
    all: bool
    span: tree.Span = field(default=tree.NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class Again:
    """The rows of the previous step of the recursion `id`."""

    id: int
    fields: tuple[Field, ...]


Relation: TypeAlias = (
    "Scan | OneRow | Values | Released | Staged | Evaluated | Filter | Project | Join | Match"
    " | Aggregate | Window | Union | Sort | Limit | Single | Apply | Recursion | Again"
)


def rowless(fields: Sequence[Field]) -> Filter:
    """Build a relation with these columns, without tables and without rows."""
    nothing, never = tree.Literal(None, tree.NULL), tree.Literal(value=False, type=tree.BOOLEAN)
    items = (
        Item(f, nothing if f.type == tree.NULL else tree.Cast(nothing, f.type)) for f in fields
    )
    return Filter(Project(OneRow(), tuple(items)), never)


@dataclass(frozen=True, slots=True)
class Resolved:
    """A statement with every name resolved and every expression typed."""

    relation: Relation
