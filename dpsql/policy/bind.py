"""bind: Draft + Schema → Policy. Types from the database, facts from its constraints."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import fields
from datetime import date, datetime, time
from decimal import Decimal
from difflib import get_close_matches
from fractions import Fraction
from typing import Any, NoReturn

from dpsql.errors import PolicyError
from dpsql.model import ColumnPolicy, Fact, FactKind, Policy, TablePolicy, Voucher
from dpsql.policy.draft import Draft, DraftColumn, DraftTable
from dpsql.schema import Schema, SchemaColumn, SchemaTable
from dpsql.tree import Kind, SqlType, Value

ValuesOf = Callable[[str, str], Sequence[Value]]


def bind(draft: Draft, schema: Schema, values_of: ValuesOf) -> Policy:
    """The policy with the type of every column and the facts that constraints vouch for.

    `values_of(table, column)` lists the distinct values of a public column. Raises `PolicyError`
    where the policy names what the database does not have, or bounds do not fit a column's type.
    """
    binder = _Binder(draft, schema, values_of)
    tables = tuple(binder.table(table) for table in draft.tables)
    facts = frozenset(fact for table in draft.tables for fact in binder.facts(table))
    return Policy(
        draft.path,
        _version(draft, tables),
        draft.database,
        draft.unit,
        tables,
        draft.budgets,
        draft.analysts,
        draft.ledger,
        draft.limits,
        facts,
    )


def _version(draft: Draft, tables: tuple[TablePolicy, ...]) -> str:
    """sha256 (hex) of what answers depend on: unit, tables and domains; not budgets or paths."""
    parts = [repr(draft.unit), str(draft.limits.max_public_groups)]
    for table in sorted(tables, key=lambda t: t.name):
        named = {f.name: getattr(table, f.name) for f in fields(table)}
        named["columns"] = sorted(table.columns, key=lambda c: c.name)
        parts.append(repr(named))
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()


class _Binder:
    def __init__(self, draft: Draft, schema: Schema, values_of: ValuesOf) -> None:
        self.draft, self.schema, self.values_of = draft, schema, values_of

    def table(self, table: DraftTable) -> TablePolicy:
        known = self._schema_table(table)
        if table.private:
            columns = tuple(self._column(table, c, known) for c in table.columns)
        else:
            columns = self._public(table, known)
        for name in table.key:
            self._schema_column(table, name, known, "key")
        return TablePolicy(
            table.name,
            table.private,
            columns,
            table.key,
            table.link,
            table.max_rows_per_unit,
            table.max_groups_per_unit,
            table.max_rows_per_group,
            table.max_public_groups,
        )

    def facts(self, table: DraftTable) -> list[Fact]:
        """What the engine enforces of this table's keys and links."""
        known = self._schema_table(table)
        found = []
        keys = [{name.lower() for name in key} for key in known.unique_keys]
        if table.key and {name.lower() for name in table.key} in keys:
            found.append(FactKind.UNIQUE_KEY)
        carrier = table.link.column if table.link else (table.key[0] if table.key else "")
        if any(c.not_null and c.name.lower() == carrier.lower() for c in known.columns):
            found.append(FactKind.NOT_NULL_LINK)
        if table.link is not None and any(
            [name.lower() for name in key.columns] == [table.link.column.lower()]
            and key.table.lower() == table.link.table.lower()
            and [name.lower() for name in key.referenced] == [table.link.key.lower()]
            for key in known.foreign_keys
        ):
            found.append(FactKind.LINK_RESOLVES)
        return [Fact(kind, table.name, Voucher.CONSTRAINT) for kind in found]

    def _public(self, table: DraftTable, known: SchemaTable) -> tuple[ColumnPolicy, ...]:
        declared = {c.name.lower(): c for c in table.columns}
        for column in table.columns:
            self._schema_column(table, column.name, known, "columns", column.name)
        return tuple(
            self._column(table, declared.get(c.name.lower(), _plain(c)), known)
            for c in known.columns
            if c.type is not None
        )

    def _column(self, table: DraftTable, column: DraftColumn, known: SchemaTable) -> ColumnPolicy:
        place = ("columns", column.name)
        found = self._schema_column(table, column.name, known, *place)
        if found.type is None:
            self._fail(table, place, f"{column.name} has type {found.type_name}.", "Leave it out.")
        if column.type is not None and _spelled(column.type) != _spelled(found.type_name):
            self._fail(
                table,
                (*place, "type"),
                f"{column.name} has type {found.type_name} in the database.",
                f'Write type = "{found.type_name}", or leave it out.',
            )
        bounds = None
        if column.bounds is not None:
            lower, upper = (self._end(table, column, end, found.type) for end in column.bounds)
            bounds = (lower, upper)
        values = self._values(table, column, found)
        return ColumnPolicy(found.name, found.type, bounds, values, column.nullable, column.hidden)

    def _values(
        self, table: DraftTable, column: DraftColumn, found: SchemaColumn
    ) -> tuple[Value, ...] | None:
        assert found.type is not None
        place = ("columns", column.name, "values")
        if column.values is not None:
            return tuple(self._value(table, column, v, found.type) for v in column.values)
        if column.values_from is None:
            return found.enum_values or None
        source = self.schema.table(column.values_from[0])
        if source is None or not any(
            c.name.lower() == column.values_from[1].lower() for c in source.columns
        ):
            name = ".".join(column.values_from)
            self._fail(table, (*place[:2], "values_from"), f"There is no {name}.", "Name another.")
        listed = tuple(self.values_of(*column.values_from))
        if len(listed) > self.draft.limits.max_public_groups:
            self._fail(
                table,
                (*place[:2], "values_from"),
                f"{'.'.join(column.values_from)} lists more than max_public_groups values.",
                "Raise [limits] max_public_groups, or leave values_from out.",
            )
        return listed

    def _end(self, table: DraftTable, column: DraftColumn, end: Any, kind: SqlType) -> Value:
        bound = _bound(end, kind)
        if bound is None:
            self._fail(
                table,
                ("columns", column.name, "bounds"),
                f"{end} is no bound of {column.name}, which is {kind}.",
                "Write bounds of the column's type.",
            )
        return bound

    def _value(self, table: DraftTable, column: DraftColumn, value: Any, kind: SqlType) -> Value:
        if kind.kind is Kind.VARCHAR and isinstance(value, str):
            return value
        if kind.kind is Kind.BOOLEAN and isinstance(value, bool):
            return value
        converted = None if isinstance(value, bool | str) else _bound(value, kind)
        if converted is None:
            self._fail(
                table,
                ("columns", column.name, "values"),
                f"{value!r} is no value of {column.name}, which is {kind}.",
                "Write values of the column's type.",
            )
        return converted

    def _schema_table(self, table: DraftTable) -> SchemaTable:
        found = self.schema.table(table.name)
        if found is None:
            near = get_close_matches(table.name, [t.name for t in self.schema.tables], 1)
            fix = f"Did you mean {near[0]}?" if near else "Remove it, or name another database."
            self._fail(table, (), f"The database has no table {table.name}.", fix)
        return found

    def _schema_column(
        self, table: DraftTable, name: str, known: SchemaTable, *place: str
    ) -> SchemaColumn:
        found = next((c for c in known.columns if c.name.lower() == name.lower()), None)
        if found is None:
            near = get_close_matches(name, [c.name for c in known.columns], 1)
            fix = f"Did you mean {near[0]}?" if near else "Remove it."
            self._fail(table, place, f"{table.name} has no column {name}.", fix)
        return found

    def _fail(self, table: DraftTable, place: tuple[str, ...], message: str, fix: str) -> NoReturn:
        line = self.draft.lines.of(("tables", table.name, *place))
        raise PolicyError(self.draft.path, line, message, fix)


def _plain(column: SchemaColumn) -> DraftColumn:
    return DraftColumn(column.name, None, None, None, None, nullable=True, hidden=False)


def _spelled(kind: str) -> str:
    return "".join(kind.upper().split())


def _bound(end: Any, kind: SqlType) -> Value:
    """An end in the column's type, exactly; None where it is not one."""
    match kind.kind:
        case Kind.INTEGER | Kind.DECIMAL if isinstance(end, int | Decimal):
            scaled = Fraction(end) * 10**kind.scale
            if scaled.denominator != 1:
                return None
            return int(end) if kind.kind is Kind.INTEGER else Decimal(end)
        case Kind.DOUBLE if isinstance(end, int | Decimal):
            return float(end)
        case Kind.DATE if isinstance(end, date) and not isinstance(end, datetime):
            return end
        case Kind.TIMESTAMP if isinstance(end, datetime) and end.tzinfo is None:
            return end
        case Kind.TIMESTAMP if isinstance(end, date) and not isinstance(end, datetime):
            return datetime.combine(end, time.min)
        case Kind.TIMESTAMPTZ if isinstance(end, datetime) and end.tzinfo is not None:
            return end
        case _:
            return None
