"""Findings about public tables: columns with keys of private rows, or with personal data.

For the owner only: findings have counts, and no values. An overlap of integers is not evidence if
shifted values match as many keys: regions 1 to 5 are among customers 1 to 2,000.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from dpsql.compiler.rewrite.dialect import Dialect
from dpsql.model.algebra import Field
from dpsql.model.dataclass import dataclass, replace
from dpsql.model.errors import Refused
from dpsql.model.schema import Schema
from dpsql.model.tree import INTEGER, UUID, VARCHAR, Call, Cast, Kind, Ref, SqlType, identifier
from dpsql.model.vocabulary import ColumnPolicy, Policy, TablePolicy
from dpsql.owner.findings import Finding, Severity
from dpsql.policy.column_words import Words, ends_with, names_of_key, personal_data
from dpsql.policy.draft import Draft
from dpsql.preparation.engine_kinds import dialects
from dpsql.preparation.table_rows import rows_of

LEAST_KEYS, LEAST_VALUES, LEAST_SPREAD = 20, 3, 20
"""Minimum keys of a table, shared values, and values over the range of keys; fewer may be
chance.
"""

LONG_TEXT = 10
"""Length of texts in characters that no other table contains by chance."""

SHIFTS = tuple(sign * size for size in (1, 2, 3, 10, 100, 1000) for sign in (1, -1))
"""Shifts of values that show how many match a key by chance."""

PUBLISHED = "or published = true in {place}, if anybody may know this."

_Rows = Callable[[str], Sequence[tuple[Any, ...]]]


@dataclass(frozen=True, slots=True)
class Overlap:
    """Number of distinct values of a public column, of keys, and of matches.

    `named` means that a foreign key or the column's name identifies its keys. `by_chance` is the
    most keys that shifted values match. `spread` means that the values cover the range of keys.
    """

    values: int
    keys: int
    hits: int
    named: bool = False
    by_chance: int = 0
    spread: bool = False

    @property
    def may_count(self) -> bool:
        """True if the numbers are large enough for a conclusion."""
        return self.hits >= LEAST_VALUES and self.keys >= LEAST_KEYS

    @property
    def is_evidence(self) -> bool:
        """True if the column holds keys, by its name or beyond chance."""
        if self.named:
            return 0 < self.values <= 2 * self.hits
        beyond_chance = self.hits >= LEAST_VALUES + 2 * self.by_chance
        return self.may_count and (beyond_chance or self.spread)


@dataclass(frozen=True, slots=True)
class _Values:
    """Distinct values of a column as `sql`, with their type, and as `numbers` if they are
    integers.
    """

    sql: str
    type: SqlType
    numbers: str | None


@dataclass(frozen=True, slots=True)
class _Keys:
    """A column of keys: of the unit, or of private rows that lead to it."""

    table: TablePolicy
    column: ColumnPolicy
    label: str
    called: frozenset[Words]


def public_findings(
    draft: Draft, policy: Policy, schema: Schema, rows: _Rows
) -> tuple[Finding, ...]:
    """Find columns of public tables that hold keys of people, or look like their names."""
    return tuple(_PublicTables(draft, policy, schema, rows).findings())


class _PublicTables:
    def __init__(self, draft: Draft, policy: Policy, schema: Schema, rows: _Rows) -> None:
        self.draft, self.policy, self.schema, self.rows = draft, policy, schema, rows
        self.dialect: Dialect = dialects(policy.database).database
        self.targets = tuple(self._targets())

    def findings(self) -> Iterator[Finding]:
        for table in self.policy.tables:
            declared = self.draft.table(table.name)
            if table.private or declared is None:
                continue
            published = {c.name.lower() for c in declared.columns if c.published}
            for column in table.columns:
                if column.name.lower() not in published:
                    findings = (self._find_keys(table, column, keys) for keys in self.targets)
                    finding = next(filter(None, findings), None) or self._warn(table, column)
                    yield from () if finding is None else (finding,)

    def _targets(self) -> Iterator[_Keys]:
        """Yield the keys of the unit first, then those of other private tables."""
        tables = [table for table in self.policy.tables if table.private]
        for table in sorted(tables, key=lambda t: t.name != self.policy.unit.table):
            key, label = table.key, f"{table.name}.{', '.join(table.key)}"
            if table.link is not None and self.draft.is_column(table.link):
                key, label = (table.link.column,), self.policy.unit_name
            column = table.column(key[0]) if len(key) == 1 else None
            source = self.schema.table(table.name)
            if column is not None and source is not None:
                called = names_of_key(source, column.name, is_own=key == table.key)
                yield _Keys(table, column, label, called)

    def _find_keys(self, table: TablePolicy, column: ColumnPolicy, keys: _Keys) -> Finding | None:
        """Return the finding that a public column holds these keys; None if it does not."""
        here, there = self._comparable(table, column, keys)
        if here is None or there is None:
            return None
        overlap = self._overlap(table, column, keys, here, there)
        if not overlap.is_evidence:
            return None
        place = ("tables", table.name, "columns", column.name)
        counted = f"{overlap.hits:,} of {overlap.values:,} values"
        listed = f"[tables.{table.name}.columns] {column.name}"
        return Finding(
            line=self.draft.lines.of(place),
            table=table.name,
            column=column.name,
            message=f"{table.name}: {column.name} holds keys of {keys.label}: {counted}.",
            rows=overlap.hits,
            fix=f'Write access = "private" and a link, {PUBLISHED.format(place=listed)}',
            kind="unit-keys",
            severity=Severity.ERROR,
            total=overlap.values,
        )

    def _overlap(
        self, table: TablePolicy, column: ColumnPolicy, keys: _Keys, here: _Values, there: _Values
    ) -> Overlap:
        same = f"({here.sql}) AS d JOIN ({there.sql}) AS k ON d.v = k.v"
        unclear = here.type == VARCHAR and here.numbers is None
        condition = f" WHERE LENGTH(d.v) >= {LONG_TEXT}" if unclear else ""
        named = self._is_named(table, column, keys)
        overlap = Overlap(
            values=self._count(here.sql),
            keys=self._count(there.sql),
            hits=self._number(f"SELECT COUNT(*) FROM {same}{'' if named else condition}"),
            named=named,
        )
        if named or not overlap.may_count or here.numbers is None or there.numbers is None:
            return overlap
        overlap = replace(overlap, by_chance=self._by_chance(here.numbers, there.numbers))
        if overlap.is_evidence:
            return overlap
        spread = self._is_spread(table, column, here.numbers, there.numbers, overlap)
        return replace(overlap, spread=spread)

    def _is_named(self, table: TablePolicy, column: ColumnPolicy, keys: _Keys) -> bool:
        """Test whether a foreign key, or the column's name, identifies it with these keys."""
        source = self.schema.table(table.name)
        if source is None:
            return False
        own = column.name.lower()
        declared = any(
            key.table.lower() == keys.table.name.lower() and own in map(str.lower, key.columns)
            for key in source.foreign_keys
        )
        return declared or ends_with(column.name, keys.called)

    def _comparable(
        self, table: TablePolicy, column: ColumnPolicy, keys: _Keys
    ) -> tuple[_Values | None, _Values | None]:
        """Return both columns as values of one type; texts may hold whole numbers or UUIDs."""
        kinds = {column.type, keys.column.type}
        whole = {Kind.INTEGER, Kind.DECIMAL, Kind.VARCHAR, Kind.UUID}
        kind = column.type
        if len(kinds) > 1:
            kind = INTEGER if kinds == {INTEGER, VARCHAR} else VARCHAR
        if kind.kind not in whole or kinds not in ({kind}, {INTEGER, VARCHAR}, {UUID, VARCHAR}):
            return None, None
        return self._values(table, column, kind), self._values(keys.table, keys.column, kind)

    def _values(self, table: TablePolicy, column: ColumnPolicy, kind: SqlType) -> _Values | None:
        stored = self.dialect.column("t0", Field(0, column.name, column.type), column.reading)
        value = self._converted(stored, column.type, kind)
        if value is None:
            return None
        source = f"{rows_of(table.name, self.policy)} AS t0"

        def distinct(expression: str) -> str:
            return f"SELECT DISTINCT {expression} AS v FROM {source} WHERE {expression} IS NOT NULL"

        number = None if kind == UUID else self._converted(value, kind, INTEGER)
        return _Values(distinct(value), kind, None if number is None else distinct(number))

    def _converted(self, text: str, kind: SqlType, to: SqlType) -> str | None:
        """Return a value as another type, NULL if it has none; None if the engine's SQL cannot
        convert.
        """
        if kind == to:
            return text
        try:
            return self.dialect.expression(Cast(Ref(0, kind), to), {0: text})
        except Refused:
            return None

    def _by_chance(self, here: str, there: str) -> int:
        """Return the most keys that slightly shifted values match."""
        shifts = " UNION ALL ".join(f"SELECT {shift} AS s" for shift in SHIFTS)
        added = Call("add", (Ref(0, INTEGER), Ref(1, INTEGER)), INTEGER)
        shifted = self.dialect.expression(added, {0: "d.v", 1: "s.s"})
        moved = f"SELECT s.s, {shifted} AS v FROM ({here}) AS d CROSS JOIN ({shifts}) AS s"
        met = f"SELECT m.s, COUNT(*) AS n FROM ({moved}) AS m JOIN ({there}) AS k ON m.v = k.v"
        return self._number(f"SELECT COALESCE(MAX(n), 0) FROM ({met} GROUP BY m.s) AS g")

    def _is_spread(
        self, table: TablePolicy, column: ColumnPolicy, here: str, there: str, overlap: Overlap
    ) -> bool:
        """Test whether nearly all values are keys and cover nine tenths of their range.

        A column that only numbers the rows of its own table does not count, unless it has every
        key.
        """
        if overlap.values < LEAST_SPREAD or 10 * overlap.hits < 9 * overlap.values:
            return False
        ends = f"(SELECT MIN(v) AS least, MAX(v) AS most FROM ({here}) AS d) AS e"
        beyond = f"SELECT COUNT(*) FROM ({there}) AS k CROSS JOIN {ends} WHERE"
        if (
            10
            * max(self._number(f"{beyond} k.v < e.least"), self._number(f"{beyond} k.v > e.most"))
            > overlap.keys
        ):
            return False
        filled = f"SELECT COUNT({identifier(column.name)}) FROM {rows_of(table.name, self.policy)}"
        least, most = self.rows(f"SELECT e.least, e.most FROM {ends}")[0]
        numbers_rows = most - least + 1 == overlap.values == self._number(filled)
        return not numbers_rows or overlap.values == overlap.keys == overlap.hits

    def _warn(self, table: TablePolicy, column: ColumnPolicy) -> Finding | None:
        """Return a warning for a column that looks like names, birth dates or identity numbers."""
        source = self.schema.table(table.name)
        what = None if source is None else personal_data(source, column.name)
        if what is None:
            return None
        stored = self.dialect.column("t0", Field(0, column.name, column.type), column.reading)
        counted = f"SELECT COUNT({stored}), COUNT(*) FROM {rows_of(table.name, self.policy)} AS t0"
        filled, total = self.rows(counted)[0]
        place = f"[tables.{table.name}.columns] {column.name}"
        return (
            None
            if not filled
            else Finding(
                line=self.draft.lines.of(("tables", table.name, "columns", column.name)),
                table=table.name,
                column=column.name,
                message=f"{table.name}: {column.name} is public and looks like {what}.",
                rows=int(filled),
                fix=f'Write access = "private" and a link, {PUBLISHED.format(place=place)}',
                kind="personal",
                severity=Severity.WARNING,
                total=int(total),
            )
        )

    def _count(self, sql: str) -> int:
        return self._number(f"SELECT COUNT(*) FROM ({sql}) AS d")

    def _number(self, sql: str) -> int:
        return int(self.rows(sql)[0][0])
