"""Small random databases whose links are odd: shared keys, keys that are links, dangling and NULL.

Whose a row is, is computed here from the rows alone, as PRIVACY.md R2 says it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random
from typing import Any

from dpsql.dialects.duckdb.duckdb_dialect import DUCKDB
from dpsql.engines.duckdb.declared_schema import tables as declared
from dpsql.model.schema import Schema
from dpsql.model.vocabulary import Policy
from dpsql.owner.check import check
from dpsql.policy.bind import bind
from dpsql.policy.load import load
from dpsql.policy.value_reader import Lines
from dpsql.preparation.public_data import PublicTables
from grammar_tests.laws import PlainEngine, engine_of

Row = dict[str, Any]
Database = Mapping[str, tuple[Row, ...]]
UNIT = "people"
UNITS = (1, 2, 3)
NOWHERE = 9
"""A key that no row has."""


@dataclass(frozen=True, slots=True)
class LinkedTable:
    """A table with its key and its links, (column, table) each, towards the unit."""

    name: str
    key: str
    links: tuple[tuple[str, str], ...]

    @property
    def columns(self) -> tuple[str, ...]:
        named = dict.fromkeys((self.key, *(column for column, _ in self.links)))
        return (*named, "v", "g")


@dataclass(frozen=True, slots=True)
class LinkedWorld:
    """Tables, parents before children, and their rows; `people` is the unit's."""

    tables: tuple[LinkedTable, ...]
    rows: Database

    def table(self, name: str) -> LinkedTable:
        return next(table for table in self.tables if table.name == name)

    def reached(self, table: LinkedTable, row: Row) -> frozenset[int]:
        """The units to which a path of links leads from this row, there or not."""
        if table.name == UNIT:
            return frozenset({row[table.key]} - {None})
        return frozenset().union(*(self._behind(t, row[c]) for c, t in table.links))

    def _behind(self, name: str, value: Any) -> frozenset[int]:
        """The units behind a key of a table: behind every row that has it."""
        if value is None:
            return frozenset()
        if name == UNIT:
            return frozenset({value})
        target = self.table(name)
        rows = (row for row in self.rows[name] if row[target.key] == value)
        return frozenset().union(*(self.reached(target, row) for row in rows))

    def owners(self, table: LinkedTable, row: Row) -> frozenset[int]:
        """Whose a row is: one unit per link that leads to a single one, which is there."""
        if table.name == UNIT:
            return self.reached(table, row)
        there = {person["pid"] for person in self.rows[UNIT]}
        behind = [self._behind(name, row[column]) for column, name in table.links]
        if any(len(units) > 1 for units in behind):
            return frozenset()
        return frozenset().union(*behind) & there

    def without(self, unit: int) -> LinkedWorld:
        """The neighbour: every row from which a path of links leads to the unit is gone."""
        kept = {
            table.name: tuple(
                row for row in self.rows[table.name] if unit not in self.reached(table, row)
            )
            for table in self.tables
        }
        return replace(self, rows=kept)

    def most_rows(self, table: LinkedTable) -> int:
        """The most rows of one unit that enter answers."""
        reached = [
            self.reached(table, row) for row in self.rows[table.name] if self.owners(table, row)
        ]
        units = frozenset[int]().union(*reached)
        return max([1, *(sum(unit in each for each in reached) for unit in units)])

    def owned(self) -> LinkedWorld:
        """The rows that belong to somebody."""
        kept = {
            table.name: tuple(row for row in self.rows[table.name] if self.owners(table, row))
            for table in self.tables
        }
        return replace(self, rows=kept)

    def engine(self, *, shared: bool = True) -> PlainEngine:
        """An engine with these rows, and with no constraint."""
        return engine_of(
            (
                (t.name, [f"{name} {_type(name)}" for name in t.columns], self.rows[t.name])
                for t in self.tables
            ),
            shared=shared,
        )

    def policy(self, folder: Path, *, recorded: bool, most: int | None = None) -> Policy:
        """The policy over these rows; facts are those that a check of them records, or none."""
        file = folder / "dpsql.toml"
        file.write_text(self.toml(most))
        draft, engine = load(str(file)), self.engine()
        schema = Schema(declared(engine.rows), "here")
        policy = bind(draft, schema, PublicTables(engine, DUCKDB).values)
        if not recorded:
            return policy
        _, facts = check(policy, Lines(""), engine.rows)
        return replace(policy, facts=policy.facts | facts)

    def toml(self, most: int | None) -> str:
        """The policy's text; limits are beyond what any unit has."""
        return HEAD + "".join(
            f'[tables.{table.name}]\naccess = "private"\nkey = "{table.key}"\n'
            + ("" if table.name == UNIT else _links(table, most))
            + f"[tables.{table.name}.columns]\n"
            + "".join(f"{name} = {DECLARED.get(name, KEY)}\n" for name in table.columns)
            for table in self.tables
        )


HEAD = """
[database]
engine = "duckdb"
path = "links.duckdb"
[privacy_unit]
table = "people"
key = "pid"
[budgets.default]
epsilon = 1000.0
delta = 1e-3
[analysts.ana]
budget = "default"
"""
KEY = "{ bounds = [0, 9], nullable = true }"
LIMITS = "max_groups_per_unit = 50\nmax_rows_per_group = 500\n"
DECLARED = {
    "v": "{ bounds = [-5, 10], nullable = true }",
    "g": '{ values = ["a", "b"], nullable = true }',
}


def _type(column: str) -> str:
    return "VARCHAR" if column == "g" else "INTEGER"


def _links(table: LinkedTable, most: int | None) -> str:
    listed = [
        f'{{ column = "{column}", references = "{name}.{_key_of(name)}" }}'
        for column, name in table.links
    ]
    if len(listed) == 1:
        return f"{LIMITS}link = {listed[0]}\n"
    limit = "" if most is None else f"max_rows_per_unit = {most}\n"
    return f"{limit}links = [{', '.join(listed)}]\n"


def _key_of(name: str) -> str:
    return "pid" if name == UNIT else f"{name}_id"


def chain(number: int) -> LinkedWorld:
    """World `number`: a chain of one to three tables below `people`, at random odd."""
    chance = Random(number)  # noqa: S311
    people = LinkedTable(UNIT, "pid", ())
    tables = [people]
    for name in ("a", "b", "c")[: 1 + number % 3]:
        above = tables[-1]
        key = f"{name}_id"
        own = chance.random() < 0.3
        tables.append(LinkedTable(name, key, ((key if own else f"{name}_up", above.name),)))
    return filled(tuple(tables), chance)


def crossing(number: int) -> LinkedWorld:
    """World `number`: `t` names two people or three, and one of them perhaps by way of `a`.

    From the third on keys are shared and links broken wherever they can be.
    """
    chance = Random(1000 + number)  # noqa: S311
    links = [("payer", UNIT), ("payee", UNIT)]
    tables = [LinkedTable(UNIT, "pid", ())]
    if number % 2:
        key = "a_id" if number % 4 == 1 else "a_up"
        tables.append(LinkedTable("a", "a_id", ((key, UNIT),)))
        links.append(("via", "a"))
    return filled((*tables, LinkedTable("t", "t_id", tuple(links))), chance, odd=number > 1)


def filled(tables: tuple[LinkedTable, ...], chance: Random, *, odd: bool = False) -> LinkedWorld:
    """Random rows: each table is clean, or has keys that several rows share, as `odd` ones have."""
    rows: dict[str, tuple[Row, ...]] = {}
    for table in tables:
        count = len(UNITS) if table.name == UNIT else chance.choice((3, 6, 8))
        clean, whole = chance.random() < 0.4 and not odd, chance.random() < 0.4 and not odd
        count = 8 if odd and table.name != UNIT else count
        listed = []
        for n in range(count):
            row: Row = {
                "v": chance.choice((None, -5, 0, 3, 10)),
                "g": chance.choice(("a", "b", None)),
            }
            row[table.key] = n + 1 if clean or table.name == UNIT else chance.randint(1, 4)
            for column, name in table.links:
                known = [r[_key_of(name)] for r in rows[name]]
                broken = () if whole else (None, NOWHERE, chance.choice(UNITS))
                # A key that is a link has one value: unique or not, it is that of the link.
                row[column] = chance.choice((*known, *known, *broken))
            listed.append(row)
        rows[table.name] = tuple(listed)
    return LinkedWorld(tables, rows)


def questions(world: LinkedWorld) -> Iterator[str]:
    """Questions about each table, along each link, and across what a key that is a link joins."""
    for table in world.tables:
        yield f"SELECT COUNT(*) FROM {table.name}"
        yield f"SELECT g, SUM(v), COUNT(v) FROM {table.name} GROUP BY g"
    for table in world.tables[1:]:
        ((column, name),) = table.links
        key, t, up = world.table(name).key, table.name, f"{table.name}.{column}"
        on = f"{up} = {name}.{key}"
        yield f"SELECT COUNT(*) FROM {t} JOIN {name} ON {on}"
        yield f"SELECT {name}.g, SUM({t}.v) FROM {name} JOIN {t} ON {on} GROUP BY {name}.g"
        yield f"SELECT COUNT({t}.v) FROM {name} LEFT JOIN {t} ON {on}"
        yield f"SELECT COUNT({name}.v) FROM {t} LEFT JOIN {name} ON {on}"
        yield f"SELECT COUNT(*) FROM {name} WHERE EXISTS (SELECT 1 FROM {t} WHERE {on})"
        yield f"SELECT SUM(v) FROM {t} WHERE {column} IN (SELECT {key} FROM {name} WHERE v >= 0)"
        yield f"SELECT COUNT(*) FROM {t} x JOIN {t} y ON x.{column} = y.{column}"
        yield f"SELECT COUNT(*) FROM (SELECT {column}, MAX(v) AS m FROM {t} GROUP BY {column}) s"
        yield (
            f"SELECT SUM(n) FROM (SELECT ROW_NUMBER() OVER (PARTITION BY {column} ORDER BY v) AS n"
            f" FROM {t}) s WHERE n <= 2"
        )
        yield f"SELECT COUNT(*) FROM {UNIT} p JOIN {t} ON p.pid = {up}"
    if len(world.tables) > 2:
        *_, top, low = world.tables
        ((up, _),), ((down, _),) = top.links, low.links
        on = f"{low.name}.{down} = {top.name}.{top.key}"
        yield (
            f"SELECT COUNT(*) FROM {UNIT} p JOIN {top.name} ON p.pid = {top.name}.{up}"
            f" JOIN {low.name} ON {on}"
        )
