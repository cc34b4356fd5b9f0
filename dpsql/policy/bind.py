"""bind: Draft + Schema → Policy. Types come from the database, facts from its constraints.

Facts are constraints and nothing else that is declared: PRIVACY.md R5.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import fields, replace
from difflib import get_close_matches
from fractions import Fraction
from typing import Any, NoReturn

from dpsql.model import vocabulary
from dpsql.model.errors import PolicyError
from dpsql.model.file_formats import FileFormat
from dpsql.model.intervals import Interval, bound_of
from dpsql.model.local_reports import LocalColumn
from dpsql.model.resources import LONGEST_TEXT
from dpsql.model.schema import Schema, SchemaColumn, SchemaTable
from dpsql.model.table_names import parts
from dpsql.model.tree import DOUBLE, VARCHAR, Kind, Ref, SqlType, Value
from dpsql.policy.check_constraints import NUMBERS
from dpsql.policy.column_parts import column_or_part, step
from dpsql.policy.draft import Draft, DraftColumn, DraftTable
from dpsql.policy.private_views import check_views, require_readable
from dpsql.policy.read_columns import is_enforced, is_read_never_null, reading_of
from dpsql.policy.unit_periods import check_period_columns
from dpsql.policy.values import of_type

ValuesOf = Callable[[str, str], Sequence[Value]]


def bind(draft: Draft, schema: Schema, values_of: ValuesOf) -> vocabulary.Policy:
    """Return the policy with the type of every column and the facts from constraints.

    `values_of(table, column)` returns the distinct values of a public column. A store that was made
    under another policy is ignored. Raises `PolicyError` if the policy names something that the
    database lacks, or if bounds do not fit a column's type.
    """
    binder = _Binder(draft, schema, values_of)
    for table in draft.tables:
        binder.table_of(table)
    tables = tuple(binder.table(table) for table in draft.tables)
    facts = frozenset(fact for table in draft.tables for fact in binder.facts(table))
    check_views(draft, tables, facts)
    check_period_columns(draft, tables)
    version, store = _version(draft, tables, schema), schema.store
    return vocabulary.Policy(
        path=draft.path,
        version=version,
        database=draft.database,
        unit=draft.unit,
        tables=tables,
        budgets=draft.budgets,
        analysts=draft.analysts,
        ledger=draft.ledger.path,
        limits=draft.limits,
        facts=facts,
        data=schema.identity,
        moves=schema.moves,
        store=store if store is not None and store.version == version else None,
        empty_rows=draft.empty_rows,
        caps=draft.caps,
        period=draft.period,
        releases=draft.releases,
    )


_SINCE = frozenset(
    "several unprotected second_keys groups_by rows_by totals readings lengths determining"
    " randomized rows same_unit times max_rows_per_key".split()
)
"""Fields that count in a version only if the policy sets them: earlier versions lack them."""


def _version(draft: Draft, tables: tuple[vocabulary.TablePolicy, ...], schema: Schema) -> str:
    """Return the sha256 (hex) of all that answers depend on: unit, tables and domains; not budgets
    or paths.

    If others write the data, its state counts too, so that no answer about another state is
    reused.
    """
    limits = draft.limits
    parts = [repr(draft.unit), f"{limits.max_public_groups} {limits.min_units_per_group}"]
    if limits.max_text_length != LONGEST_TEXT:
        parts.append(f"texts of {limits.max_text_length}")
    parts += [schema.identity] if schema.moves else []
    parts += [repr(draft.period)] if draft.period is not None else []
    for table in sorted(tables, key=lambda t: t.name):
        named = {f.name: getattr(table, f.name) for f in fields(table)}
        del named["expected_rows"], named["view"], named["grants"], named["about"]
        named["rows"] = repr(table.rows) if table.rows is not None else ""
        named["columns"] = sorted(table.columns, key=lambda c: c.name)
        named["totals"] = [(c.name, c.max_per_unit) for c in named["columns"] if c.max_per_unit]
        named["readings"] = table.readings
        named["randomized"] = [(c.name, c.randomized) for c in named["columns"] if c.randomized]
        named["lengths"] = [(c.name, c.max_length) for c in named["columns"] if c.max_length]
        named = {name: value for name, value in named.items() if name not in _SINCE or value}
        parts.append(repr(named))
    of = draft.database if draft.database.public is None else draft.database.public
    parts += [repr(each) for each in sorted(of.formats) if each[1] != FileFormat()]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()


def vouched_for(policy: vocabulary.Policy) -> str:
    """Return the label under which facts are recorded: these files and this policy version."""
    return f"{policy.data} {policy.version}"


class _Binder:
    def __init__(self, draft: Draft, schema: Schema, values_of: ValuesOf) -> None:
        self.draft, self.schema, self.values_of = draft, schema, values_of

    def table(self, table: DraftTable) -> vocabulary.TablePolicy:
        schema_table = self.table_of(table)
        require_readable(self.draft, table, schema_table)
        second = self._second_keys(table, schema_table) if table.private else ()
        if table.private:
            listed = (self._column(table, c, schema_table) for c in table.columns)
            columns = tuple(
                replace(c, hidden=True) if c.name.lower() in second else c for c in listed
            )
        else:
            columns = self._public(table, schema_table)
        for name in table.key:
            self._identifies(table, name, schema_table, "key")
        for name, place in table.alike:
            self._identifies(table, name, schema_table, place)
        for link in (*table.links, *table.same_unit):
            self._check_link(table, link, schema_table)
        return vocabulary.TablePolicy(
            name=table.name,
            private=table.private,
            columns=columns,
            key=table.key,
            link=table.link,
            max_rows_per_unit=table.max_rows_per_unit,
            max_groups_per_unit=table.max_groups_per_unit,
            max_rows_per_group=table.max_rows_per_group,
            max_public_groups=table.max_public_groups,
            expected_rows=table.expected_rows,
            view=schema_table.view and not table.private,
            several=table.several,
            unprotected=table.unprotected,
            second_keys=second,
            groups_by=_with_columns(table.groups_by, columns),
            rows_by=_with_columns(table.rows_by, columns),
            determining=table.determining,
            rows=schema_table.rows if table.private else None,
            same_unit=table.same_unit,
            times=table.times,
            max_rows_per_key=table.max_rows_per_key,
        )

    def _identifies(
        self, table: DraftTable, name: str, schema_table: SchemaTable, place: str
    ) -> None:
        """Refuse a key of private rows if different values of its column can be equal."""
        column = self._schema_column(table, name, schema_table, place)
        self._check_whole(table, column, place)
        self._check_equality(table, column, place)
        if table.private and column.type is not None and column.type.kind is Kind.DOUBLE:
            why = f"{table.name}.{name} is {column.type_name}, in which 0.0 and -0.0 are equal."
            self._fail(table, (place,), why, "Identify rows by an integer, a text or a date.")

    def _second_keys(self, table: DraftTable, schema_table: SchemaTable) -> tuple[str, ...]:
        """Return columns that lead to a person by a foreign key, but by no declared link."""
        declared = {name.lower() for link in table.named_links for name in link.columns}
        if table.name == self.draft.unit.table:
            declared.add(self.draft.unit.key.lower())
        second = list[str]()
        for key in schema_table.foreign_keys:
            target, columns = self.draft.table(key.table), [name.lower() for name in key.columns]
            if target is not None and target.private and declared.isdisjoint(columns):
                second += columns
        return tuple(sorted(set(second)))

    def facts(self, table: DraftTable) -> list[vocabulary.Fact]:
        """Return the facts about this table's keys and links that the engine enforces.

        With several links: each row has a privacy unit, and the most rows per unit.
        """
        schema_table = self.table_of(table)
        facts = []
        floating = {c.name.lower() for c in schema_table.columns if c.type == DOUBLE}
        keys = [{name.lower() for name in key} for key in schema_table.unique_keys]
        keys = [key for key in keys if floating.isdisjoint(key)]  # no DOUBLE is a key (R99)
        if table.key and {name.lower() for name in table.key} in keys:
            facts.append(vocabulary.FactKind.UNIQUE_KEY)
            if _are_never_null(schema_table, table.key):
                facts.append(vocabulary.FactKind.NOT_NULL_KEY)
        carriers = table.link.columns if table.link else table.key[:1]
        whole_link = carriers and _are_never_null(schema_table, carriers)
        if not table.several and whole_link:
            facts.append(vocabulary.FactKind.NOT_NULL_LINK)
        if table.link is not None and (
            self.draft.is_column(table.link) or _is_foreign_key(schema_table, table.link)
        ):
            facts.append(vocabulary.FactKind.LINK_RESOLVES)
        if table.several and all(link.table == self.draft.unit.table for link in table.several):
            whole = [link for link in table.several if _is_foreign_key(schema_table, link)]
            if any(_are_never_null(schema_table, [link.column]) for link in whole):
                facts.append(vocabulary.FactKind.LINK_RESOLVES)
            unique = all({link.column.lower()} in keys for link in table.several)
            if unique and (table.max_rows_per_unit or 0) >= len(table.several):
                facts.append(vocabulary.FactKind.MAX_ROWS)
        return [vocabulary.Fact(kind, table.name, vocabulary.Voucher.CONSTRAINT) for kind in facts]

    def _check_link(
        self, table: DraftTable, link: vocabulary.Link, schema_table: SchemaTable
    ) -> None:
        """Check that a link has its key's type: comparing others converts, and may fail."""
        columns = [self._schema_column(table, n, schema_table, "link") for n in link.columns]
        for here in columns:
            self._check_whole(table, here, "link")
            self._check_equality(table, here, "link")
        if self.draft.is_column(link):
            self._check_unit_column(table, columns[0])
            return
        target = self.draft.table(link.table)
        assert target is not None
        for here, name in zip(columns, link.keys, strict=True):
            there = self._schema_column(target, name, self.table_of(target), "key")
            if here.type != there.type:
                self._fail(
                    table,
                    ("link",),
                    f"{table.name}.{here.name} has type {here.type_name}, and"
                    f" {link.table}.{there.name} has type {there.type_name}.",
                    "Give both one type in the database.",
                )

    def _check_whole(self, table: DraftTable, column: SchemaColumn, place: str) -> None:
        """Refuse a converted column as identifier: facts are about stored values: PRIVACY.md R8."""
        if column.reading is not None and not column.enum_values:
            why = f"{table.name}.{column.name} is {column.type_name}, or a part of a column."
            self._fail(table, (place,), why, "Identify rows by an integer, a text or a UUID.")
        if column.cut:
            most = f"{self.draft.limits.max_text_length:,}"
            why = f"{table.name}.{column.name} has texts of more than {most} bytes."
            fix = "Raise max_text_length in [limits], or cut them in the database: no key is cut."
            self._fail(table, (place,), why, fix)

    def _check_equality(self, table: DraftTable, column: SchemaColumn, place: str) -> None:
        """Refuse a column in which the engine may equate what we tell apart: PRIVACY.md R101."""
        if table.private and not column.identifies:
            why = f"{table.name}.{column.name} {_shown_type(column)}."
            self._fail(table, (place,), why, _EXACT)

    def _check_unit_column(self, table: DraftTable, column: SchemaColumn) -> None:
        """Check that the unit's columns have one type, in which equal values are identical."""
        first = next(t for t in self.draft.tables if t.link and self.draft.is_column(t.link))
        assert first.link is not None
        kind = self._schema_column(first, first.link.column, self.table_of(first), "link")
        why = f"{table.name}.{column.name} has type {column.type_name}"
        if column.type is None or column.type.kind is Kind.DOUBLE:
            self._fail(table, (), f"{why}.", "Name people by an integer, a text or a date.")
        if column.type != kind.type:
            why = f"{why}, and {first.name}.{kind.name} has type {kind.type_name}."
            self._fail(table, (), why, "Give both one type in the database.")

    def _public(
        self, table: DraftTable, schema_table: SchemaTable
    ) -> tuple[vocabulary.ColumnPolicy, ...]:
        declared = {c.name.lower(): c for c in table.columns}
        for column in table.columns:
            self._schema_column(table, column.name, schema_table, "columns", column.name)
        whole = [c.name for c in schema_table.columns if c.type is not None and not _is_part(c)]
        parts = [c.name for c in table.columns if c.name.lower() not in map(str.lower, whole)]
        return tuple(
            self._column(table, declared.get(name.lower()) or _plain(name), schema_table)
            for name in (*whole, *parts)
        )

    def _column(
        self, table: DraftTable, column: DraftColumn, schema_table: SchemaTable
    ) -> vocabulary.ColumnPolicy:
        place = ("columns", column.name)
        schema_column = self._schema_column(
            table, column.name, schema_table, *place, declared=column.type
        )
        if schema_column.type is None:
            why, fix = _without_type(schema_column, schema_table)
            self._fail(table, place, why, fix)
        if column.type is not None and _spelled(column.type) != _spelled(schema_column.type_name):
            why = f"{column.name} has type {schema_column.type_name} in the database."
            fix = f'Write type = "{schema_column.type_name}", or leave it out.'
            self._fail(table, (*place, "type"), why, fix)
        bounds = self._bounds(table, column, schema_column.type)
        self._check_bits(table, column, schema_column.type)
        values = self._values(table, column, schema_column)
        self._check_listed(table, column, values or (), bounds)
        local = LocalColumn.of(column.randomized, values)
        values = None if local is not None and local.law.of_bits else values
        self._check_kind(table, column, schema_column.type)
        self._check_total(table, column, schema_column.type, bounds)
        enforced = is_enforced(column, schema_column, schema_table, bounds, values)
        return vocabulary.ColumnPolicy(
            name=schema_column.name,
            type=schema_column.type,
            bounds=bounds,
            values=values,
            nullable=column.nullable,
            hidden=column.hidden,
            private_bounds=column.private_bounds,
            enforced=enforced,
            max_per_unit=column.max_per_unit,
            max_length=column.max_length,
            reading=reading_of(table, column, schema_column, self.draft.limits.max_text_length),
            not_null=is_read_never_null(table, column, schema_column, enforced=enforced),
            bits=schema_column.bits,
            randomized=local,
        )

    def _check_listed(
        self, table: DraftTable, column: DraftColumn, values: tuple[Value, ...], bounds: Any
    ) -> None:
        """Refuse a written value beyond the column's bounds: sums would count it as an end."""
        if bounds is None or column.values is None:
            return
        lower, upper = bounds
        within = Interval(bound_of(lower), bound_of(upper))
        for value in values:
            place = bound_of(value)
            if place is None or not within.contains(place):
                why = f"{_shown(value)} lies beyond the bounds of {column.name}."
                where = ("columns", column.name, "values")
                self._fail(table, where, why, "Widen the bounds, or leave it out.")

    def _check_bits(self, table: DraftTable, column: DraftColumn, kind: SqlType) -> None:
        """Refuse randomized reports of bits unless their column is a text."""
        if column.randomized is not None and column.randomized.of_bits and kind != VARCHAR:
            why = f"{column.name} has type {kind}, and bits are a text of 0 and 1."
            self._fail(table, ("columns", column.name, "randomized"), why, "Store them as text.")

    def _check_kind(self, table: DraftTable, column: DraftColumn, kind: SqlType) -> None:
        """Refuse options for numbers, or for texts, on other columns."""
        place = ("columns", column.name)
        if column.private_bounds and not (table.private and kind.kind in NUMBERS):
            why = f"{column.name} is public, or no number."
            self._fail(table, (*place, "private_bounds"), why, "Remove private_bounds.")
        if column.max_length is not None and not (table.private and kind == VARCHAR):
            why = f"{column.name} is public, or no text."
            self._fail(table, (*place, "max_length"), why, "Remove max_length.")

    def _check_total(
        self, table: DraftTable, column: DraftColumn, kind: SqlType, bounds: Any
    ) -> None:
        """Refuse a limit on a unit's total that makes no sense for this column."""
        most, place = column.max_per_unit, ("columns", column.name, "max_per_unit")
        if most is None:
            return
        if not (table.private and kind.kind in NUMBERS):
            why = f"{column.name} is public, or no number."
            self._fail(table, place, why, "Remove max_per_unit.")
        if table.name == self.draft.unit.table:
            why = f"{table.name} has one row of each unit."
            self._fail(table, place, why, "Declare bounds instead.")
        if bounds is not None and max(abs(Fraction(end)) for end in bounds) > most:
            why = f"One {column.name} may be more than max_per_unit = {most}."
            self._fail(table, place, why, "Raise it, or narrow the bounds.")

    def _values(
        self, table: DraftTable, column: DraftColumn, schema_column: SchemaColumn
    ) -> tuple[Value, ...] | None:
        assert schema_column.type is not None
        if column.values_from is not None:
            return self._listed(table, column, column.values_from, schema_column)
        if column.values is None:
            return schema_column.enum_values or None
        place = ("columns", column.name, "values")
        values = tuple(
            self._value(table, place, column, v, schema_column.type) for v in column.values
        )
        for value in values:
            if schema_column.enum_values and value not in schema_column.enum_values:
                kind = schema_column.type_name
                why = f"{_shown(value)} is no member of {column.name}, which is {kind}."
                self._fail(table, place, why, "Leave it out.")
        if len(set(values)) < len(values):
            why = f"A value of {column.name} is listed twice."
            self._fail(table, place, why, "List each once.")
        if any(len(v) > self.draft.limits.max_text_length for v in values if isinstance(v, str)):
            why = f"A value of {column.name} is longer than max_text_length in [limits]."
            self._fail(table, place, why, "Raise that limit.")
        return values

    def _listed(
        self,
        table: DraftTable,
        column: DraftColumn,
        source: tuple[str, str],
        schema_column: SchemaColumn,
    ) -> tuple[Value, ...] | None:
        """Return the values that a public column lists; None if they are too many."""
        assert schema_column.type is not None
        place, name = ("columns", column.name, "values_from"), ".".join(source)
        if self.draft.table(source[0]) is None:
            self._fail(table, place, f"{source[0]} is not a public table.", "Name one that is.")
        schema_table = self.schema.table(source[0])
        columns = () if schema_table is None else schema_table.columns
        whole = (c for c in columns if not _is_part(c))
        lists = next((c for c in whole if c.name.lower() == source[1].lower()), None)
        if lists is None or lists.type is None:
            self._fail(table, place, f"There is no {name} of a supported type.", "Name another.")
        if lists.type.kind is not schema_column.type.kind:
            why = f"{name} has type {lists.type_name}; {column.name} has {schema_column.type_name}."
            self._fail(table, place, why, "Name a column of the same type.")
        values = tuple(self.values_of(*source))
        if len(values) > max(self.draft.limits.max_public_groups, table.max_public_groups or 0):
            return None
        return tuple(self._value(table, place, column, v, schema_column.type) for v in values)

    def _bounds(
        self, table: DraftTable, column: DraftColumn, kind: SqlType
    ) -> tuple[Value, Value] | None:
        if column.bounds is None:
            return None
        lower, upper = (self._end(table, column, end, kind) for end in column.bounds)
        return lower, upper

    def _end(self, table: DraftTable, column: DraftColumn, end: Any, kind: SqlType) -> Value:
        bound = of_type(end, kind)
        if bound_of(bound) is None:
            self._fail(
                table,
                ("columns", column.name, "bounds"),
                f"{end} is no bound of {column.name}, which is {kind}.",
                "Write bounds of the column's type.",
            )
        return bound

    def _value(
        self,
        table: DraftTable,
        place: tuple[str, ...],
        column: DraftColumn,
        value: Any,
        kind: SqlType,
    ) -> Value:
        converted = of_type(value, kind)
        if converted is None:
            why = f"{_shown(value)} is no value of {column.name}, which is {kind}."
            in_quotes = isinstance(value, str) and kind.is_temporal
            fix = (
                "Write dates and times without quotes." if in_quotes else "List values of its type."
            )
            self._fail(table, place, why, fix)
        return converted

    def table_of(self, table: DraftTable) -> SchemaTable:
        schema_table = self.schema.table(table.name)
        if schema_table is None:
            free = (t.name for t in self.schema.tables if self.draft.table(t.name) is None)
            near = get_close_matches(table.name, list(free), 1)
            fix = f"Did you mean {near[0]}?" if near else "Remove it, or name another database."
            schema, _ = parts(table.name) or (None, table.name)
            if schema is not None and not near:
                fix += " A database file that is called as its schema has to be renamed."
            self._fail(table, (), f"The database has no table {table.name}.", fix)
        return schema_table

    def _schema_column(
        self,
        table: DraftTable,
        name: str,
        schema_table: SchemaTable,
        *place: str,
        declared: str | None = None,
    ) -> SchemaColumn:
        schema_column = column_or_part(name, schema_table, declared)
        if schema_column is None:
            near = get_close_matches(name, [c.name for c in schema_table.columns], 1)
            fix = f"Did you mean {near[0]}?" if near else "Remove it."
            self._fail(table, place, f"{table.name} has no column {name}.", fix)
        return schema_column

    def _fail(self, table: DraftTable, place: tuple[str, ...], message: str, fix: str) -> NoReturn:
        line = self.draft.lines.of(("tables", table.name, *place))
        raise PolicyError(self.draft.path, line, message, fix)


def _with_columns(
    limits: tuple[vocabulary.GroupingLimit, ...], columns: tuple[vocabulary.ColumnPolicy, ...]
) -> tuple[vocabulary.GroupingLimit, ...]:
    """Set the key of each limit that names a column; other limits are by an expression."""
    keys = {c.name.lower(): Ref(place, c.type) for place, c in enumerate(columns)}
    return tuple(replace(limit, key=keys.get(limit.by.lower())) for limit in limits)


_EXACT = "Make it a text of a deterministic collation, in a column of the database or of a copy."


def _shown_type(column: SchemaColumn) -> str:
    """Return the column's type, and the reason if its values identify nothing."""
    if column.identifies:
        return f"has type {column.type_name}"
    return f"is {column.type_name}, in which texts that differ may be equal"


def _without_type(column: SchemaColumn, table: SchemaTable) -> tuple[str, str]:
    """Return the reason why a column cannot be read, and a fix."""
    why, name = f"{column.name} {_shown_type(column)}.", column.name
    parts = [c.reading for c in table.columns if c.reading and c.reading.column == name]
    if not column.identifies:
        return why, _EXACT
    if not parts:
        return why, "Leave it out."
    way = ".key" if parts[0].json else "".join(map(step, parts[0].path))
    return why, f'Declare what is read of it, as "{name}{way}" = {{}}.'


def _is_part(column: SchemaColumn) -> bool:
    return column.reading is not None and bool(column.reading.path)


def _are_never_null(schema_table: SchemaTable, columns: Iterable[str]) -> bool:
    """Test whether the values of a key or link are never NULL, as they are read."""
    listed = (c for c in schema_table.columns if c.is_never_null and not c.may_be_long)
    return {name.lower() for name in columns} <= {column.name.lower() for column in listed}


def _is_foreign_key(schema_table: SchemaTable, link: vocabulary.Link) -> bool:
    """Test whether the engine enforces that every value but NULL leads to a row."""
    return any(
        key.exact
        and key.table.lower() == link.table.lower()
        and {(a.lower(), b.lower()) for a, b in zip(key.columns, key.referenced, strict=True)}
        == {(a.lower(), b.lower()) for a, b in zip(link.columns, link.keys, strict=True)}
        for key in schema_table.foreign_keys
    )


def _shown(value: Any) -> str:
    return repr(value) if isinstance(value, str) else str(value)


def _plain(name: str) -> DraftColumn:
    return DraftColumn(name, None, None, None, None, nullable=True, hidden=False)


def _spelled(kind: str) -> str:
    return "".join(kind.upper().split())
