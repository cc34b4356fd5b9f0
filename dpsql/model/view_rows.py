"""Origin of the rows of an expanded view: its base tables, and the columns that it only renames.

An expanded view projects, filters and joins base tables, or other expanded views: PRIVACY.md R98.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import count

from dpsql.model.algebra import Filter, Join, Project, Relation, Scan, Sort
from dpsql.model.dataclass import dataclass, field
from dpsql.model.tree import Call, Expression, JoinKind, Kind, Ref
from dpsql.model.walk import conjuncts

IDENTIFYING = frozenset({Kind.INTEGER, Kind.VARCHAR, Kind.DATE, Kind.UUID, Kind.DECIMAL})
"""Types for which equal values are identical."""


@dataclass(frozen=True, slots=True)
class ViewOrigin:
    """The base table of a view, and the base column of each view column that is only renamed."""

    table: str
    columns: Mapping[str, str]


def origin_of(rows: Relation) -> ViewOrigin | None:
    """Return the origin of rows that are projected and filtered; None for any other relation."""
    names = {field.name: field.id for field in rows.fields}
    while True:
        match rows:
            case Project(input=below, items=items):
                same = {i.field.id: i.expression.id for i in items if isinstance(i.expression, Ref)}
                names = {name: same[n] for name, n in names.items() if n in same}
                rows = below
            case Filter(input=below) | Sort(input=below):
                rows = below
            case Scan(table=table, rows=None):
                stored = {field.id: field.name for field in rows.fields}
                return ViewOrigin(table, {name: stored[n] for name, n in names.items()})
            case Scan(rows=inner) if inner is not None:
                viewed = {field.id: field.name for field in rows.fields}
                there = {field.name: field.id for field in inner.fields}
                names = {name: there[viewed[n]] for name, n in names.items()}
                rows = inner
            case _:
                return None


@dataclass(frozen=True, slots=True)
class ViewSide:
    """A base table of a view; base columns with one number are equal wherever its row is present.

    An `optional` side has no row where a LEFT JOIN finds none.
    """

    table: str
    columns: Mapping[str, int]
    optional: bool


@dataclass(frozen=True, slots=True)
class ViewSides:
    """The base tables of a view; each renamed column has the place of its side and its base column.

    Columns of views are named as they are written.
    """

    sides: tuple[ViewSide, ...]
    columns: Mapping[str, tuple[int, str]]

    def of(self, column: str) -> tuple[ViewSide, str] | None:
        """Return the side and base column of a view's column, None of a computed one."""
        for name, (place, stored) in self.columns.items():
            if name.lower() == column.lower():
                return self.sides[place], stored
        return None


_Column = tuple[int, str]


@dataclass(slots=True)
class _Joined:
    """Partial result while rows are read: base tables by number, base columns by field, and
    equalities.
    """

    tables: dict[int, str]
    fields: dict[int, _Column]
    all: list[_Column]
    optional: set[int] = field(default_factory=set)
    same: dict[_Column, _Column] = field(default_factory=dict)

    def first(self, column: _Column) -> _Column:
        return self.same.get(column, column)

    def merge(self, into: _Column, other: _Column) -> None:
        """Record that all columns equal to one of them equal the other."""
        into, other = self.first(into), self.first(other)
        self.same |= {c: into for c in self.all if self.first(c) == other}


def sides_of(rows: Relation) -> ViewSides | None:
    """Return the base tables of rows that are projected, filtered and joined; None for others."""
    joined = _joined(rows, count())
    if joined is None:
        return None
    numbers: dict[_Column, int] = {}
    for column in joined.all:
        numbers.setdefault(joined.first(column), len(numbers))
    sides = tuple(
        ViewSide(
            table,
            {name: numbers[joined.first((n, name))] for m, name in joined.all if m == n},
            n in joined.optional,
        )
        for n, table in joined.tables.items()
    )
    places = {n: place for place, n in enumerate(joined.tables)}
    named = {f.name: joined.fields[f.id] for f in rows.fields if f.id in joined.fields}
    return ViewSides(sides, {name: (places[n], stored) for name, (n, stored) in named.items()})


def _joined(relation: Relation, numbers: Iterator[int]) -> _Joined | None:
    match relation:
        case Scan(table=table, rows=None, fields=fields):
            number = next(numbers)
            columns = {f.id: (number, f.name) for f in fields}
            return _Joined({number: table}, columns, [*columns.values()])
        case Scan(rows=inner, fields=fields) if inner is not None:
            below = _joined(inner, numbers)
            there = {f.name: f.id for f in inner.fields}
            return _renamed(below, {f.id: there[f.name] for f in fields})
        case Project(input=source, items=items):
            plain = {i.field.id: i.expression.id for i in items if isinstance(i.expression, Ref)}
            return _renamed(_joined(source, numbers), plain)
        case Sort(input=source):
            return _joined(source, numbers)
        case Filter(input=source, predicate=predicate):
            below = _joined(source, numbers)
            if below is not None:
                for a, b in _equal(predicate, below.fields):
                    below.merge(a, b)
            return below
        case Join(left=left, right=right, kind=JoinKind.INNER | JoinKind.LEFT):
            return _beside(relation, _joined(left, numbers), _joined(right, numbers))
        case _:
            return None


def _renamed(joined: _Joined | None, names: Mapping[int, int]) -> _Joined | None:
    if joined is not None:
        there = joined.fields
        joined.fields = {new: there[old] for new, old in names.items() if old in there}
    return joined


def _beside(join: Join, left: _Joined | None, right: _Joined | None) -> _Joined | None:
    """Join both sides into one row. A LEFT JOIN lets columns of its right side equal those of its
    left.

    Two columns of the left that equal one of the right are equal only where the right is present.
    """
    if left is None or right is None:
        return None
    both = _Joined(
        left.tables | right.tables,
        left.fields | right.fields,
        left.all + right.all,
        left.optional | right.optional,
        left.same | right.same,
    )
    if join.kind is JoinKind.LEFT:
        both.optional |= right.tables.keys()
    for a, b in _equal(join.condition, both.fields):
        here, there = (b, a) if a[0] in right.tables else (a, b)
        beyond = here[0] in left.tables and both.first(there)[0] in right.tables
        if join.kind is JoinKind.INNER or beyond:
            both.merge(here, there)
    return both


def _equal(
    condition: Expression | None, fields: Mapping[int, _Column]
) -> Iterator[tuple[_Column, _Column]]:
    """Yield the base columns that a condition equates, if they have one type of `IDENTIFYING`."""
    for part in conjuncts(condition):
        match part:
            case Call("eq", (Ref(id=a, type=kind), Ref(id=b, type=other))) if (
                kind == other and kind.kind in IDENTIFYING and a in fields and b in fields
            ):
                yield fields[a], fields[b]
            case _:
                continue
