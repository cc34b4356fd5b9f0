"""Relations as SQL, printed from our own tree; analyst text never gets here.

Engine-specific syntax is a method that a dialect overrides. Every column is printed as `c<id>`, so
that names cannot clash; the reader applies labels.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import assert_never

from dpsql.model import algebra, tree
from dpsql.model.dataclass import dataclass, field, replace
from dpsql.model.prepared_store import name_in_store
from dpsql.model.table_names import STAGE, address
from dpsql.model.walk import refs

Text = Mapping[int, str]
Column = Callable[[tree.Ref], str]


@dataclass(frozen=True, slots=True)
class SelectText:
    """A SELECT under construction: `columns` maps ids to text valid in its FROM.

    `computed` are columns that are not plain columns of FROM. `marks` are those with a subquery as
    text, which must stand alone in WHERE, because a TRY may not contain one. `stored` has the
    stored value of columns that are read in another form, for `RelationPrinter.condition`.
    """

    source: str
    columns: Text
    where: tuple[str, ...] = ()
    order_by: str = ""
    limit: str = ""
    computed: frozenset[int] = field(default_factory=frozenset)
    marks: frozenset[int] = field(default_factory=frozenset)
    stored: Text = field(default_factory=dict)

    @property
    def is_plain(self) -> bool:
        """True if it has only FROM and WHERE, so that a join can include it directly."""
        return not (self.order_by or self.limit or self.computed or self.marks)


@dataclass(slots=True)
class RelationPrinter(ABC):
    """Prints relations; `released` returns the SQL of a released table or a public input.

    In a subquery `outer` has the columns of the enclosing queries.
    """

    released: Callable[[algebra.Relation], tuple[str, Text] | None]
    aliases: int = 0
    outer: Text = field(default_factory=dict)

    @abstractmethod
    def expression(self, node: tree.Expression, column: Column) -> str:
        """Return an expression, given the text of each column."""

    @abstractmethod
    def sort_key(self, key: tree.SortKey, column: Column) -> str:
        """Return one item of ORDER BY."""

    @abstractmethod
    def compared(
        self, left: tree.Expression, right: tree.Expression, column: Column
    ) -> tuple[str, str]:
        """Return both sides of a comparison, in one type."""

    @abstractmethod
    def constant(self, literal: tree.Literal) -> str:
        """Return SQL for a constant of exactly its value and type."""

    @abstractmethod
    def column(self, alias: str, column: algebra.Field, reading: tree.StoredAs | None) -> str:
        """Return SQL for a column of a table with the alias `alias`, as it is read."""

    def of_store(self, alias: str, column: algebra.Field) -> str:
        """Print a column of the owner's store, which holds values as they are read (R87)."""
        return f"{alias}.{tree.identifier(column.name)}"

    def stored(self, alias: str, column: algebra.Field) -> str | None:  # noqa: ARG002
        """Return the stored value of a column that `column` reads otherwise, for `condition`."""
        return None

    def condition(self, predicate: tree.Expression, columns: Text, stored: Text) -> str:  # noqa: ARG002
        """Print a condition of WHERE."""
        return self.text(predicate, columns)

    def table(self, name: str) -> str:
        """Return a table by its name in a policy."""
        return address(name)

    @abstractmethod
    def accept(self, relation: algebra.Relation) -> None:
        """Raise `Refused` for a relation that the engine lacks."""

    def select(self, relation: algebra.Relation, outputs: tuple[tree.Expression, ...]) -> str:
        """Return one SELECT of `outputs` over `relation`, with its columns named c0, c1, ..."""
        built = self._build(relation)
        if built.computed and not all(isinstance(output, tree.Ref) for output in outputs):
            built = self._nested(built, relation)
        items = [
            f"{self.text(output, built.columns)} AS c{position}"
            for position, output in enumerate(outputs)
        ]
        return _clauses(built, ", ".join(items) or "1 AS c0")

    def source(self, relation: algebra.Relation) -> tuple[str, tuple[str, ...], Text]:
        """Return the FROM item, the conditions and the column texts of a relation without
        GROUP BY.
        """
        built = self._build(relation)
        if not built.is_plain:
            built = self._nested(built, relation)
        return built.source, built.where, built.columns

    def text(self, node: tree.Expression, columns: Text) -> str:
        """Return one expression over these columns."""
        return self.expression(node, self._reader(columns))

    def _reader(self, columns: Text) -> Callable[[tree.Ref], str]:
        """Return a function for the text of a column, here or in the enclosing query."""
        return lambda ref: columns[ref.id] if ref.id in columns else self.outer[ref.id]

    def _build(self, relation: algebra.Relation) -> SelectText:
        if (released := self.released(relation)) is not None:
            name, columns = released
            return self._table(name, columns)
        return self._looked_into(relation)

    def _looked_into(self, relation: algebra.Relation) -> SelectText:
        self.accept(relation)
        match relation:
            case algebra.OneRow():
                return SelectText("", {})
            case algebra.Scan():
                return self._scan(relation)
            case algebra.Values():
                return self._values(relation)
            case algebra.Released() | algebra.Evaluated() | algebra.Single():
                raise AssertionError(relation)
            case algebra.Filter():
                built = self._build(relation.input)
                if built.limit or built.computed or _buries(relation.predicate, built.marks):
                    built = self._nested(built, relation.input)
                condition = self.condition(relation.predicate, built.columns, built.stored)
                return replace(built, where=(*built.where, condition))
            case algebra.Project():
                return self._project(relation)
            case algebra.Staged() | algebra.Again():
                return self._elsewhere(relation)
            case algebra.Join():
                return self._join(relation)
            case algebra.Match():
                return self._match(relation)
            case algebra.Apply():
                return self._applied(relation)
            case algebra.Recursion():
                return self._recursion(relation)
            case algebra.Aggregate():
                return self._aggregate(relation)
            case algebra.Window():
                return self._window(relation)
            case algebra.Union():
                return self._union(relation)
            case algebra.Sort() | algebra.Limit():
                return self._ordered(relation)
            case _:
                assert_never(relation)

    def _scan(self, relation: algebra.Scan) -> SelectText:
        if relation.rows is not None:
            return self._view(relation, relation.rows)
        alias, readings = self._alias(), dict(relation.readings)
        columns = {f.id: self.column(alias, f, readings.get(f.name)) for f in relation.fields}
        plain = [f for f in relation.fields if f.name not in readings]
        if name_in_store(relation.table) is not None:
            columns |= {f.id: self.of_store(alias, f) for f in plain}
            plain = []
        pairs = ((f.id, self.stored(alias, f)) for f in plain)
        stored = {number: text for number, text in pairs if text is not None}
        return SelectText(f"{self.table(relation.table)} AS {alias}", columns, stored=stored)

    def _view(self, relation: algebra.Scan, rows: algebra.Relation) -> SelectText:
        """Return the rows of a view as our subquery; the engine never reads its own (PRIVACY.md
        R98).
        """
        built, named = self._build(rows), {f.name: f.id for f in rows.fields}
        listed = (
            f"{built.columns[named[f.name]]} AS {tree.identifier(f.name)}" for f in relation.fields
        )
        select, alias = _clauses(built, ", ".join(listed) or "1 AS c0"), self._alias()
        columns = {f.id: self.column(alias, f, None) for f in relation.fields}
        return SelectText(f"({select}) AS {alias}", columns)

    def _elsewhere(self, relation: algebra.Staged | algebra.Again) -> SelectText:
        """Return the rows of a stage, or of the last step of a recursion."""
        match relation:
            case algebra.Staged(stage=number):
                name = f"{STAGE}{number}"
            case algebra.Again(id=number):
                name = f"again_{number}"
        return self._table(name, {f.id: f"c{n}" for n, f in enumerate(relation.fields)})

    def _ordered(self, relation: algebra.Sort | algebra.Limit) -> SelectText:
        built = self._build(relation.input)
        if built.limit or (built.computed and not built.order_by):
            built = self._nested(built, relation.input)
        if isinstance(relation, algebra.Sort):
            reader = self._reader(built.columns)
            keys = ", ".join(self.sort_key(k, reader) for k in relation.keys)
            return replace(built, order_by=keys)
        count = "" if relation.limit is None else f"LIMIT {relation.limit}"
        offset = f"OFFSET {relation.offset}" if relation.offset else ""
        return replace(built, limit=f"{count} {offset}".strip())

    def _project(self, relation: algebra.Project) -> SelectText:
        built = self._build(relation.input)
        if built.computed or any(_buries(i.expression, built.marks) for i in relation.items):
            built = self._nested(built, relation.input)
        columns = {i.field.id: self.text(i.expression, built.columns) for i in relation.items}
        computed = frozenset(
            i.field.id for i in relation.items if not isinstance(i.expression, tree.Ref)
        )
        marked = [i for i in relation.items if built.marks and refs(i.expression) & built.marks]
        marks = frozenset(item.field.id for item in marked)
        stored = {
            i.field.id: built.stored[i.expression.id]
            for i in relation.items
            if isinstance(i.expression, tree.Ref) and i.expression.id in built.stored
        }
        return replace(built, columns=columns, computed=computed, marks=marks, stored=stored)

    def _match(self, relation: algebra.Match) -> SelectText:
        """Return EXISTS and IN as a column: a subquery over the other side."""
        built, other = self._build(relation.input), self._build(relation.other)
        if built.limit or built.computed:
            built = self._nested(built, relation.input)
        if not other.is_plain:
            other = self._nested(other, relation.other)
        column = self._reader({**built.columns, **other.columns})
        if relation.condition is not None:
            condition = self.expression(relation.condition, column)
            other = replace(other, where=(*other.where, condition))
        if relation.member is None:
            text = f"EXISTS ({_clauses(other, '1')})"
        else:
            left, right = relation.member
            value, option = self.compared(left, right, column)
            text = f"{value} IN ({_clauses(other, option)})"
        mark = relation.mark.id
        return replace(built, columns={**built.columns, mark: text}, marks=built.marks | {mark})

    def _applied(self, relation: algebra.Apply) -> SelectText:
        """Return a correlated subquery as a column, evaluated for each row of the input."""
        built = self._build(relation.input)
        if built.limit or built.computed:
            built = self._nested(built, relation.input)
        inner = type(self)(self.released, self.aliases, {**self.outer, **built.columns})
        if relation.member is None:
            rows = inner.select(relation.other, tuple(f.ref for f in relation.other.fields[:1]))
            text = f"EXISTS ({rows})" if relation.tests else f"({rows})"
        else:
            text = inner.membership(relation.member, relation.other)
        self.aliases = inner.aliases
        added = relation.value.id
        return replace(built, columns={**built.columns, added: text}, marks=built.marks | {added})

    def membership(self, member: tree.Expression, relation: algebra.Relation) -> str:
        """Return the test whether a value is in a relation of one column."""
        other = self._nested(self._build(relation), relation)
        (option,) = (f.ref for f in relation.fields)
        value, listed = self.compared(member, option, self._reader(other.columns))
        return f"{value} IN ({_clauses(other, listed)})"

    def _recursion(self, relation: algebra.Recursion) -> SelectText:
        """Return WITH RECURSIVE as an item of FROM: steps add rows of the types of the first."""
        name = f"again_{relation.id}"
        sides = (self._as(side, relation.fields) for side in (relation.first, relation.step))
        word = " UNION ALL " if relation.all else " UNION "
        columns = ", ".join(f"c{n}" for n in range(len(relation.fields)))
        listed = ", ".join(f"c{n} AS c{f.id}" for n, f in enumerate(relation.fields))
        steps = f"WITH RECURSIVE {name}({columns}) AS ({word.join(sides)})"
        return self._derived(
            f"{steps} SELECT {listed} FROM {name}", [f.id for f in relation.fields]
        )

    def _as(self, side: algebra.Relation, fields: tuple[algebra.Field, ...]) -> str:
        """Return SQL for the rows in the types of these columns; integers in one width."""
        pairs = zip(side.fields, fields, strict=True)
        outputs = (f.ref if f.type == tree.NULL else tree.Cast(f.ref, new.type) for f, new in pairs)
        return self.select(side, tuple(outputs))

    def _join(self, relation: algebra.Join) -> SelectText:
        inner = relation.kind in (tree.JoinKind.INNER, tree.JoinKind.CROSS)
        left, right = self._joinable(relation.left, inner), self._joinable(relation.right, inner)
        if " JOIN " in right.source:  # joins are read from the left
            right = self._nested(right, relation.right)
        columns = {**left.columns, **right.columns}
        where, stored = left.where + right.where, {**left.stored, **right.stored}
        source = f"{left.source} CROSS JOIN {right.source}"
        if relation.condition is not None:
            condition = self.expression(relation.condition, self._reader(columns))
            source = f"{left.source} {relation.kind} JOIN {right.source} ON {condition}"
        return SelectText(source, columns, where, stored=stored)

    def _joinable(self, side: algebra.Relation, inner: bool) -> SelectText:  # noqa: FBT001
        built = self._build(side)
        if not built.is_plain or not built.source or (built.where and not inner):
            return self._nested(built, side)
        return built

    def _aggregate(self, relation: algebra.Aggregate) -> SelectText:
        built = self._build(relation.input)
        if not built.is_plain:
            built = self._nested(built, relation.input)
        items = [
            (key.field.id, self.text(key.expression, built.columns)) for key in relation.keys
        ] + [(m.field.id, self.text(m.call, built.columns)) for m in relation.measures]
        listed = ", ".join(f"{text} AS c{number}" for number, text in items) or "COUNT(*) AS c0"
        group = ""
        if relation.sets:
            sets = ", ".join(
                f"({', '.join(items[n][1] for n in chosen)})" for chosen in relation.sets
            )
            group = f" GROUP BY GROUPING SETS ({sets})"
        elif relation.keys:
            group = f" GROUP BY {', '.join(str(n + 1) for n in range(len(relation.keys)))}"
        return self._derived(_clauses(built, listed) + group, [number for number, _ in items])

    def _window(self, relation: algebra.Window) -> SelectText:
        built = self._build(relation.input)
        if not built.is_plain:
            built = self._nested(built, relation.input)
        items = [(f.id, built.columns[f.id]) for f in relation.input.fields]
        items += [(item.field.id, self.text(item.call, built.columns)) for item in relation.items]
        listed = ", ".join(f"{text} AS c{number}" for number, text in items)
        return self._derived(_clauses(built, listed), [number for number, _ in items])

    def _union(self, relation: algebra.Union) -> SelectText:
        sides = []
        for side in (relation.left, relation.right):
            built = self._nested(self._build(side), side)
            listed = ", ".join(
                f"{built.columns[old.id]} AS c{new.id}"
                for old, new in zip(side.fields, relation.fields, strict=False)
            )
            sides.append(_clauses(built, listed))
        word = f"{relation.kind} ALL" if relation.all else relation.kind
        return self._derived(f" {word} ".join(sides), [f.id for f in relation.fields])

    def _values(self, relation: algebra.Values) -> SelectText:
        alias = self._alias()
        rows = ", ".join(f"({', '.join(map(self.constant, row))})" for row in relation.rows)
        names = ", ".join(f"c{f.id}" for f in relation.fields)
        columns = {f.id: f"{alias}.c{f.id}" for f in relation.fields}
        return SelectText(f"(VALUES {rows}) AS {alias}({names})", columns)

    def _nested(self, built: SelectText, relation: algebra.Relation) -> SelectText:
        listed = ", ".join(f"{built.columns[f.id]} AS c{f.id}" for f in relation.fields)
        return self._derived(_clauses(built, listed or "1 AS c0"), [f.id for f in relation.fields])

    def _derived(self, sql: str, numbers: list[int]) -> SelectText:
        alias = self._alias()
        return SelectText(f"({sql}) AS {alias}", {n: f"{alias}.c{n}" for n in numbers})

    def _table(self, name: str, columns: Text) -> SelectText:
        alias = self._alias()
        return SelectText(f"{name} AS {alias}", {n: f"{alias}.{c}" for n, c in columns.items()})

    def _alias(self) -> str:
        self.aliases += 1
        return f"t{self.aliases}"


def _buries(node: tree.Expression, marks: frozenset[int]) -> bool:
    """Test whether a mark stands anywhere but alone or after NOT."""
    if not marks:
        return False
    if isinstance(node, tree.Call) and node.function == "not":
        (node,) = node.args
    return not isinstance(node, tree.Ref) and bool(refs(node) & marks)


def _clauses(built: SelectText, listed: str) -> str:
    parts = [f"SELECT {listed}"]
    if built.source:
        parts.append(f"FROM {built.source}")
    if built.where:
        parts.append("WHERE " + " AND ".join(f"({c})" for c in built.where))
    if built.order_by:
        parts.append(f"ORDER BY {built.order_by}")
    if built.limit:
        parts.append(built.limit)
    return " ".join(parts)
