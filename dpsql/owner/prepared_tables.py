"""Tables of a store, as SQL for the owner: rows with their unit, and the columns that lead to
it.

The rules are those of `compiler.track.units`: PRIVACY.md R2. Use by plans: PRIVACY.md R87.
"""

from __future__ import annotations

from collections.abc import Iterator

from dpsql.compiler.rewrite.dialect import Dialect
from dpsql.compiler.rewrite.stored_rows import has_own_names, unit_beside, way_of
from dpsql.dialects.places import place_in_unit
from dpsql.model.algebra import Field
from dpsql.model.dataclass import dataclass
from dpsql.model.prepared_store import BEFORE, Rollup, beside, table_in_store, turn_columns
from dpsql.model.table_names import address
from dpsql.model.tree import DOUBLE, identifier
from dpsql.model.vocabulary import Policy, TablePolicy


def prepared_tables(policy: Policy) -> tuple[TablePolicy, ...]:
    """Return the private tables that a store holds: each row has one unit, none is a view, and no
    column is called as one that the store adds.
    """
    return tuple(
        table
        for table in policy.tables
        if table.private
        and has_own_names(table, policy)
        and not any(
            part.several or part.view or part.rows is not None
            for part in (table, *way_of(table, policy))
        )
    )


@dataclass(frozen=True, slots=True)
class PreparedRows:
    """Rows of a table in the store: its stored columns, columns of linked tables, their order, and
    the place of each row's group among its unit's, for each of `rollups`.
    """

    table: TablePolicy
    policy: Policy
    dialect: Dialect
    rollups: tuple[Rollup, ...] = ()

    def of(self, rows: str) -> str:
        """Return a SELECT of these rows of the table, an item of FROM, without unowned ones."""
        listed = list(self._stored())
        source = f"{rows} AS t0"
        for hop, target in enumerate(way_of(self.table, self.policy), 1):
            for name in () if target.link is None else target.link.columns:
                stored = identifier(beside(target.name, name))
                listed.append(f"{self._column(hop, name)} AS {stored}")
            source += f" JOIN {address(target.name)} AS t{hop} ON {self._same(hop)}"
        return f"SELECT {', '.join(listed)} FROM {source} WHERE {self.unit} IS NOT NULL"

    @property
    def every(self) -> str:
        """SELECT of all rows that a unit owns."""
        return self.of(address(self.table.name))

    @property
    def before(self) -> str:
        """SELECT of the rows in the earlier store."""
        rows = address(table_in_store(self.table.name, BEFORE))
        turns = ", ".join(identifier(name) for r in self.ordered for name in turn_columns(r.name))
        return f"SELECT *{f' EXCLUDE ({turns})' if turns else ''} FROM {rows}"

    def creation(self, since: str | None) -> str:
        """Return the statement that creates the table in the store, ordered by unit.

        If an earlier store has all rows but those `since`, the others are copied from it.
        """
        rows = self.every
        if since is not None:
            rows = f"{self.before} UNION ALL {self.of(since)}"
        unit = identifier(unit_beside(self.table, self.policy))
        stored = address(table_in_store(self.table.name))
        for rollup in self.ordered:
            groups, place = map(identifier, turn_columns(rollup.name))
            keys = [self._column(0, name) for name in rollup.keys]
            placed = f"SELECT *, {place_in_unit(f't0.{unit}', keys, 'DENSE_RANK')} AS {place}"
            counted = f"MAX({place}) OVER (PARTITION BY {unit}) AS {groups}"
            rows = f"SELECT *, {counted} FROM ({placed} FROM ({rows}) AS t0)"
        return f"CREATE TABLE {stored} AS SELECT * FROM ({rows}) ORDER BY {unit}"

    @property
    def ordered(self) -> list[Rollup]:
        """Rollups that have groups."""
        return [each for each in self.rollups if each.table == self.table.name and each.keys]

    @property
    def unit(self) -> str:
        """Column text of the unit's key."""
        tables = (self.table, *way_of(self.table, self.policy))
        last = next(
            n
            for n, t in enumerate(tables)
            if t.link is None or t.link.table == self.policy.unit.table
        )
        link = tables[last].link
        return self._column(last, self.policy.unit.key if link is None else link.column)

    def _stored(self) -> Iterator[str]:
        """Yield the columns that the policy reads, under their names in the database; no DOUBLE is
        NaN.
        """
        doubles = {c.name for c in self.table.columns if c.type == DOUBLE and c.reading is None}
        names = (c.name if c.reading is None else c.reading.column for c in self.table.columns)
        for name in dict.fromkeys(names):
            text = self._column(0, name) if name in doubles else f"t0.{identifier(name)}"
            yield f"{text} AS {identifier(name)}"

    def _same(self, hop: int) -> str:
        """Return the condition that links a row to the next table."""
        link = (self.table, *way_of(self.table, self.policy))[hop - 1].link
        assert link is not None
        pairs = zip(link.columns, link.keys, strict=True)
        same = (f"{self._column(hop - 1, a)} = {self._column(hop, b)}" for a, b in pairs)
        return " AND ".join(same)

    def _column(self, hop: int, name: str) -> str:
        """Return a column of a table on the way, as plans read it."""
        column = (self.table, *way_of(self.table, self.policy))[hop].column(name)
        assert column is not None
        return self.dialect.column(f"t{hop}", Field(0, column.name, column.type), column.reading)
