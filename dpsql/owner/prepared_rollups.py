"""Rollups of a store, as SQL for the owner: sums of measurements over rows, by unit and columns.

The compiler decides which measurements these are, with their lattices and clipping bounds:
PRIVACY.md R87.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction

from dpsql.compiler.plan.measurement_kinds import ClippedSum, Measurement, RowCount, ScaledTotal
from dpsql.compiler.plan.private_plan import BlockPlan
from dpsql.compiler.rewrite.dialect import Dialect
from dpsql.compiler.rewrite.rollups import MOST, can_be_key, described
from dpsql.compiler.rewrite.stored_rows import unit_beside
from dpsql.dialects.places import place_in_unit
from dpsql.dialects.reading.parse import parse
from dpsql.model.algebra import Field, Scan
from dpsql.model.dataclass import dataclass, replace
from dpsql.model.errors import PolicyError, Refused
from dpsql.model.prepared_store import (
    BEFORE,
    GROUPS,
    PLACE,
    ROWS,
    UNIT,
    Rollup,
    key_column,
    sum_columns,
    table_in_store,
)
from dpsql.model.table_names import address
from dpsql.model.tree import Kind, Ref, identifier
from dpsql.model.vocabulary import ColumnPolicy, Policy, TablePolicy
from dpsql.model.walk import relations, substitute
from dpsql.owner.prepared_tables import PreparedRows
from dpsql.policy.draft import Draft
from dpsql.preparation.prepare import prepare
from dpsql.preparation.public_data import PublicTables

_NUMBERS = (Kind.INTEGER, Kind.DECIMAL, Kind.DOUBLE)
_ASKED = ("COUNT", "SUM", "AVG", "VAR_POP")


@dataclass(frozen=True, slots=True)
class PreparedRollup:
    """A rollup of a table in the store, and its SQL."""

    rollup: Rollup
    table: TablePolicy
    policy: Policy
    dialect: Dialect
    sums: tuple[Measurement, ...]

    def creation(self, since: str | None) -> str:
        """Return the statement that creates it in the store from the stored table.

        If an earlier store has all rows but those `since`, the units of these are summed again.
        """
        table = f"CREATE TABLE {address(table_in_store(self.rollup.name))} AS"
        if since is None:
            rows = self._of_rows(address(table_in_store(self.table.name)))
            return f"{table} {self._placed(rows)}"
        before = address(table_in_store(self.rollup.name, BEFORE))
        came = self._of_rows(f"({PreparedRows(self.table, self.policy, self.dialect).of(since)})")
        keys, sums = ", ".join([UNIT, *self._keys]), [ROWS, *self._sums]
        added = ", ".join(f"SUM({name})::BIGINT AS {name}" for name in sums)
        theirs = f"SELECT {', '.join([keys, *sums])} FROM {before} SEMI JOIN touched USING ({UNIT})"
        both = f"SELECT {keys}, {added} FROM ({theirs} UNION ALL FROM came) GROUP BY {keys}"
        return (
            f"{table} WITH came AS MATERIALIZED ({came}),"
            f" touched AS MATERIALIZED (SELECT DISTINCT {UNIT} FROM came)"
            f" SELECT * FROM {before} ANTI JOIN touched USING ({UNIT})"
            f" UNION ALL FROM ({self._placed(both)})"
        )

    def _placed(self, totals: str) -> str:
        """Return a query of totals, ordered by unit, with the number and places of its groups."""
        place = place_in_unit(UNIT, self._keys) if self._keys else "1::BIGINT"
        counted = [f"COUNT(*) OVER (PARTITION BY {UNIT}) AS {GROUPS}", f"{place} AS {PLACE}"]
        listed = ", ".join([UNIT, *self._keys, ROWS, *counted, *self._sums])
        return f"SELECT {listed} FROM ({totals}) ORDER BY {GROUPS}, {UNIT}"

    @property
    def _keys(self) -> list[str]:
        return [key_column(n) for n in range(len(self.rollup.keys))]

    @property
    def _sums(self) -> list[str]:
        return [name for n in range(len(self.sums)) for name in sum_columns(n)]

    def _of_rows(self, source: str) -> str:
        """Return counts and sums over rows of the stored table."""
        keys = [self._column(name) for name in self.rollup.keys]
        unit = identifier(unit_beside(self.table, self.policy))
        named = [f"{unit} AS {UNIT}", *(f"{k} AS {key_column(n)}" for n, k in enumerate(keys))]
        named.append(f"COUNT(*) AS {ROWS}")
        for n, part in enumerate(self.sums):
            (summed, counted), value = sum_columns(n), self._value(part)
            named += [f"SUM({value})::BIGINT AS {summed}", f"COUNT({value}) AS {counted}"]
        groups = ", ".join([unit, *keys])
        return f"SELECT {', '.join(named)} FROM {source} AS t0 GROUP BY {groups}"

    @property
    def largest(self) -> str:
        """Return a query that tests whether the largest number computed from it is below `MOST`."""
        ends = [f"MAX({ROWS})::HUGEINT"]
        for n, part in enumerate(self.sums):
            summed, counted = sum_columns(n)
            reach = 1 if not isinstance(part, ClippedSum) else max(abs(part.lower), abs(part.upper))
            ends += [f"MAX(abs({summed}::HUGEINT))", f"MAX({counted}::HUGEINT * {reach})"]
        return (
            f"SELECT COALESCE(greatest({', '.join(ends)}), 0) < {MOST}"
            f" FROM {address(table_in_store(self.rollup.name))}"
        )

    def _column(self, name: str) -> str:
        column = self.table.column(name)
        assert column is not None
        return self.dialect.column("t0", Field(0, column.name, column.type), column.reading)

    def _value(self, part: Measurement) -> str:
        """Return the value that a row adds, NULL for nothing."""
        columns = {place: self._column(name) for place, name in places(self.table).items()}
        if isinstance(part, RowCount):
            assert part.condition is not None
            return f"CASE WHEN {self.dialect.expression(part.condition, columns)} THEN 1 END"
        assert isinstance(part, ClippedSum)
        return self.dialect.integer(part, self.dialect.expression(part.argument, columns))


def prepared_rollups(
    draft: Draft,
    policy: Policy,
    public: PublicTables,
    dialect: Dialect,
    tables: Sequence[TablePolicy],
) -> Iterator[PreparedRollup]:
    """Yield the rollups that a policy declares for tables of its store. Raises `PolicyError`."""
    for declared in draft.tables:
        table = policy.table(declared.name)
        if table is None or not declared.rollups:
            continue
        place = draft.lines.of(("tables", declared.name, "rollups"))
        if table not in tables:
            why = (
                f"{table.name} is no table of a store: a view, of several people's rows, or with a"
                " column named as one that a store adds (TABLE.COLUMN)."
            )
            raise PolicyError(draft.path, place, why, "Leave its rollups out.")
        sums = _sums(table, policy, public)
        texts = tuple(described(part, places(table), table) for part in sums)
        for keys in declared.rollups:
            for name in keys:
                if not can_be_key(table, name):
                    why = f"{name} is no column that {table.name} can be rolled up by."
                    fix = "Name columns that are listed and hold no DOUBLE."
                    raise PolicyError(draft.path, place, why, fix)
            title = f"{table.name} by {', '.join(keys)}" if keys else f"{table.name} by unit alone"
            rollup = Rollup(table.name, title, keys, texts)
            yield PreparedRollup(rollup, table, policy, dialect, sums)


def _sums(table: TablePolicy, policy: Policy, public: PublicTables) -> tuple[Measurement, ...]:
    """Return the measurements of counts, sums, averages and variances of bounded numbers, over
    columns by place.
    """
    parts: dict[str, Measurement] = {}
    for column in table.columns:
        if not (column.hidden or column.bounds is None) and column.type.kind in _NUMBERS:
            additions = _additions(table, column, policy, public)
            parts |= {described(part, places(table), table): part for part in additions}
    return tuple(parts.values())


def places(table: TablePolicy) -> dict[int, str]:
    """Return the names of a table's columns in lower case, by index."""
    return {place: column.name.lower() for place, column in enumerate(table.columns)}


def _additions(
    table: TablePolicy, column: ColumnPolicy, policy: Policy, public: PublicTables
) -> Iterator[Measurement]:
    """Yield the measurements of aggregates of one column, alone and together."""
    calls = [f"{function}({identifier(column.name)})" for function in _ASKED]
    for listed in (", ".join(calls), *calls):
        text = f"SELECT {listed} FROM {address(table.name)}"
        for block in _blocks(text, replace(policy, store=None), public):
            yield from _added(block, table)


def _blocks(text: str, policy: Policy, public: PublicTables) -> Sequence[BlockPlan]:
    """Return the blocks of a statement; () if it is refused."""
    try:
        budget, epsilon = policy.budgets[0], Fraction(1)
        return prepare(parse(text), policy, budget, epsilon, public, public.evaluate).blocks
    except Refused:
        return ()


def _added(block: BlockPlan, table: TablePolicy) -> Iterator[Measurement]:
    """Yield the row measurements of a block's counts and sums, over columns by place."""
    by_name = {name: place for place, name in places(table).items()}
    fields = [
        field
        for part in relations(block.block.rows)
        if isinstance(part, Scan) and part.table == table.name
        for field in part.fields
    ]
    own = {field.id: Ref(by_name[field.name.lower()], field.type) for field in fields}
    for query in block.queries:
        match query.total if isinstance(query, ScaledTotal) else query:
            case RowCount(condition=condition) if condition is not None:
                yield RowCount(substitute(condition, own), 0)
            case ClippedSum(condition=None) as part:
                yield replace(part, argument=substitute(part.argument, own), centre=0)
