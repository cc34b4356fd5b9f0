"""Worlds with several paths to one person: links, and columns beside them that lead to the same.

A chain of four hops, diamonds, replies to one's own table; clean, and with NULL, dangling and
foreign values, broken links and keys of several people.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

from dpsql.dialects.duckdb.duckdb_dialect import DUCKDB
from dpsql.engines.duckdb.declared_schema import tables as declared
from dpsql.model.schema import Schema
from dpsql.model.vocabulary import Fact, FactKind, Policy, Voucher
from dpsql.owner.check import check
from dpsql.policy.bind import bind
from dpsql.policy.load import load
from dpsql.policy.value_reader import Lines
from dpsql.preparation.public_data import PublicTables
from grammar_tests.laws import PlainEngine, engine_of

PEOPLE = (1, 2, 3)
ABSENT = 9
"""A key that no row has."""


MOST = 60
"""More rows than one person has in any world, or in a join of two tables."""


@dataclass(frozen=True, slots=True)
class PathTable:
    """A table: its key, its link, and the columns beside it with what they lead to."""

    name: str
    key: str
    link: tuple[str, str] | None
    beside: tuple[tuple[str, str], ...] = ()

    @property
    def leading(self) -> tuple[tuple[str, str], ...]:
        """All columns that lead elsewhere."""
        return (*(() if self.link is None else (self.link,)), *self.beside)

    @property
    def columns(self) -> tuple[str, ...]:
        """All columns, the key first."""
        return (self.key, *(name for name, _ in self.leading), "v")


TABLES = (
    PathTable("people", "pid", None),
    PathTable("visits", "vid", ("pid", "people"), (("parent", "visits"),)),
    PathTable("stays", "sid", ("vid", "visits"), (("pid", "people"),)),
    PathTable("items", "iid", ("sid", "stays"), (("vid", "visits"), ("pid", "people"))),
    PathTable(
        "notes",
        "nid",
        ("iid", "items"),
        (("sid", "stays"), ("vid", "visits"), ("pid", "people"), ("reply", "notes")),
    ),
)
KEYS = {table.name: table.key for table in TABLES}
Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class PathWorld:
    """The rows of each table."""

    rows: dict[str, tuple[Row, ...]]

    def reached(self, table: PathTable, row: Row) -> frozenset[int]:
        """The people whom a row's links reach."""
        if table.link is None:
            return frozenset({row["pid"]})
        column, target = table.link
        return self.behind(target, row[column])

    def behind(self, target: str, key: Any) -> frozenset[int]:
        """The people behind all rows of a table that have a key; a person need not be there."""
        if target == "people":
            return frozenset({key} - {None})
        there = next(table for table in TABLES if table.name == target)
        found = (self.reached(there, row) for row in self.rows[target] if row[there.key] == key)
        return frozenset[int]() if key is None else frozenset[int]().union(*found)

    def owner(self, table: PathTable, row: Row) -> int | None:
        """Whose a row is: nobody's where its links reach several, or none who is there."""
        reached = self.reached(table, row)
        there = {person["pid"] for person in self.rows["people"]}
        return next(iter(reached)) if len(reached) == 1 and reached <= there else None

    def without(self, unit: int) -> PathWorld:
        """The neighbour: no row is left from which a path of links leads to the person."""
        kept = {
            t.name: tuple(r for r in self.rows[t.name] if unit not in self.reached(t, r))
            for t in TABLES
        }
        return PathWorld(kept)

    def read(self, table: PathTable, row: Row, column: str, target: str) -> Any:
        """The value of a column beside the link, or None unless it leads to the row's own unit."""
        there = next(each for each in TABLES if each.name == target)
        own = self.owner(table, row)
        rows = (r for r in self.rows[target] if r[there.key] == row[column])
        return row[column] if any(self.owner(there, r) == own for r in rows) else None

    def owned(self) -> PathWorld:
        """The rows of somebody, as they are read; keys of several people are told apart."""
        rows = {
            t.name: tuple(self._as_read(t, row) for row in self.rows[t.name] if self.owner(t, row))
            for t in TABLES
        }
        return PathWorld(rows)

    def _as_read(self, table: PathTable, row: Row) -> Row:
        own, new = self.owner(table, row), dict(row)
        assert own is not None
        for column, target in table.beside:
            new[column] = self.read(table, row, column, target)
        for column, target in ((table.key, table.name), *table.leading):
            if target != "people" and new[column] is not None:
                new[column] = new[column] * 10 + own
        return new

    def engine(self, *, shared: bool = True) -> PlainEngine:
        """A database of these rows, without constraints."""
        tables = (
            (t.name, [f"{name} INTEGER" for name in t.columns], self.rows[t.name]) for t in TABLES
        )
        return engine_of(tables, shared=shared)

    def policy(
        self, folder: Path, facts: tuple[Fact, ...] = (), *, recorded: bool, most: int = MOST
    ) -> Policy:
        """The policy with the facts that a check of these rows records, if any, and others.

        One person has at most so many rows that count.
        """
        file = folder / "dpsql.toml"
        file.write_text(POLICY.replace(f" = {MOST}\n", f" = {most}\n"))
        engine = self.engine()
        schema = Schema(declared(engine.rows), "here")
        policy = bind(load(str(file)), schema, PublicTables(engine, DUCKDB).values)
        found = check(policy, Lines(""), engine.rows)[1] if recorded else frozenset[Fact]()
        return replace(policy, facts=policy.facts | found | {*facts})


def same_unit(table: str, column: str) -> Fact:
    """The recorded fact that a column leads to its row's own unit."""
    return Fact(FactKind.SAME_UNIT, f"{table}.({column})", Voucher.CHECK)


def _text() -> Iterator[str]:
    yield '[database]\nengine = "duckdb"\npath = "paths.duckdb"'
    yield '[privacy_unit]\ntable = "people"\nkey = "pid"'
    yield '[budgets.default]\nepsilon = 1000.0\ndelta = 1e-3\n[analysts.ana]\nbudget = "default"'
    for table in TABLES:
        yield f'[tables.{table.name}]\naccess = "private"\nkey = "{table.key}"'
        named = [f'{{ column = "{c}", references = "{t}.{KEYS[t]}" }}' for c, t in table.leading]
        if named:
            yield f"link = {named[0]}\nmax_rows_per_unit = {MOST}\nmax_rows_per_group = {MOST}"
        if table.beside:
            yield f"same_unit = [{', '.join(named[1:])}]"
        yield f"[tables.{table.name}.columns]"
        yield from (f"{name} = {{ nullable = true }}" for name in table.columns[:-1])
        yield "v = { bounds = [-5, 10], nullable = true }"


POLICY = "\n".join(_text())


@cache
def world(number: int) -> PathWorld:
    """World `number`: every fourth is clean; others have foreign values, then broken keys too."""
    chance, odd = Random(number), number % 4  # noqa: S311
    rows: dict[str, tuple[Row, ...]] = {"people": tuple(_person(n, chance) for n in PEOPLE)}
    for table in TABLES[1:]:
        assert table.link is not None
        listed: list[Row] = []
        for n in range(7):
            shared = odd > 1 and chance.random() < 0.4
            row: Row = {table.key: chance.randint(1, 4) if shared else n + 1}
            column, target = table.link
            row[column] = _led(chance, rows[target], target, broken=odd > 1)
            row["v"] = chance.choice((None, -5, 0, 3, 10))
            listed.append(row)
        there = PathWorld(rows | {table.name: tuple(listed)})
        for row in listed:
            row.update(dict.fromkeys((name for name, _ in table.beside), None))
        for row, (column, target) in ((r, each) for r in listed for each in table.beside):
            row[column] = _beside(chance, there, table, row, target, odd)
        rows[table.name] = tuple(listed)
    return PathWorld(rows)


def _person(number: int, chance: Random) -> Row:
    return {"pid": number, "v": chance.choice((None, -5, 0, 3, 10))}


def _led(chance: Random, rows: tuple[Row, ...], target: str, *, broken: bool) -> Any:
    known = [row[KEYS[target]] for row in rows]
    return chance.choice((*known, *known, *((None, ABSENT) if broken else ())))


def _beside(
    chance: Random, world: PathWorld, table: PathTable, row: Row, target: str, odd: int
) -> Any:
    """A key of the row's own unit, or NULL; in an odd world also of another's, or of no row."""
    there = next(each for each in TABLES if each.name == target)
    every = [r[there.key] for r in world.rows[target]]
    own = world.owner(table, row)
    same = [r[there.key] for r in world.rows[target] if own and world.owner(there, r) == own]
    wrong = (*every[:3], ABSENT) if odd else ()
    return chance.choice((*same, *same, *same, None, None, *wrong))


def questions() -> list[str]:
    """Questions by each column beside a link: alone, and with all that lead to the same table."""
    return [sql for t in TABLES for c, target in t.beside for sql in _of_column(t, c, target)]


def _of_column(table: PathTable, column: str, target: str) -> Iterator[str]:
    name, key = table.name, table.key
    present = f"FROM {name} WHERE {column} IS NOT NULL"
    yield f"SELECT COUNT(*), SUM(v) FROM {name} WHERE {column} IS NULL"
    yield f"SELECT SUM(m), COUNT(*) FROM (SELECT {column}, MAX(v) AS m {present} GROUP BY 1) AS s"
    yield (
        f"SELECT SUM(v) FROM (SELECT v, ROW_NUMBER() OVER (PARTITION BY {column} ORDER BY v, {key})"
        f" AS n {present}) AS s WHERE n = 1"
    )
    yield (
        f"SELECT COUNT(*) FROM {target} AS x LEFT JOIN (SELECT {column} AS k, COUNT(*) AS n"
        f" FROM {name} GROUP BY {column}) AS s ON s.k = x.{KEYS[target]} WHERE n > 1"
    )
    others = [
        (t.name, c) for t in TABLES for c, to in ((t.key, t.name), *t.leading) if to == target
    ]
    for other, there in others:
        on = f"a.{column} = b.{there}"
        if (other, there) == (name, column):
            on += f" AND a.{key} < b.{key}"
        yield f"SELECT COUNT(*), SUM(a.v) FROM {name} AS a JOIN {other} AS b ON {on}"
        yield f"SELECT SUM(a.v), COUNT(b.v) FROM {name} AS a LEFT JOIN {other} AS b ON {on}"
        yield f"SELECT SUM(a.v), COUNT(b.v) FROM {other} AS b LEFT JOIN {name} AS a ON {on}"
        exists = f"EXISTS (SELECT 1 FROM {other} AS b WHERE {on})"
        yield f"SELECT SUM(a.v) FROM {name} AS a WHERE NOT {exists}"
        looked = f"SELECT {column} FROM {name} WHERE v >= 0 AND {column} IS NOT NULL"
        yield f"SELECT COUNT(*) FROM {other} WHERE {there} IN ({looked})"
