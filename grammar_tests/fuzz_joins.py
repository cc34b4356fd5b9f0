"""Random joins of private rows over small databases in which many rows have no unit.

Links are NULL, lead nowhere, or break at the second hop; such rows share the values that are said
to determine a unit, and parts of keys, with the rows of people. Every fact that holds is recorded.
Conditions are written in many forms, of which some are an equality and nothing else.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

from dpsql.compiler.plan.prepared import Prepared
from dpsql.dialects.duckdb.duckdb_dialect import DUCKDB
from dpsql.engines.duckdb.declared_schema import tables as declared
from dpsql.model.errors import Refused
from dpsql.model.schema import Schema
from dpsql.model.vocabulary import Fact, FactKind, Policy, Voucher
from dpsql.owner.check import check
from dpsql.policy.bind import bind
from dpsql.policy.load import load
from dpsql.policy.value_reader import Lines
from dpsql.preparation.public_data import PublicTables
from grammar_tests.fuzz_dice import BYTES, Dice
from grammar_tests.laws import (
    Counted,
    PlainEngine,
    compiled,
    engine_of,
    integers,
    noiseless,
    noiseless_blocks,
    same_rows,
    violation,
)
from grammar_tests.proofs import Counting, claims_of

Row = dict[str, Any]
WORLDS = 12
UNITS = (1, 2, 3)
NOWHERE = 9
"""A key that no row has."""
COLUMNS = {
    "people": ("pid", "d", "v"),
    "phones": ("phone", "pid", "d", "v"),
    "calls": ("call", "phone", "e", "v"),
    "sales": ("item", "ticket", "pid", "v"),
    "refunds": ("item", "ticket", "v"),
}
HEAD = """
[database]
engine = "duckdb"
path = "joins.duckdb"
[privacy_unit]
{unit}
[budgets.default]
epsilon = 1000.0
delta = 1e-3
[analysts.ana]
budget = "default"
"""
RULES = {
    "people": 'key = "pid"\n',
    "phones": 'key = "phone"\n{pid}determines_unit = ["d"]\n',
    "calls": (
        'key = "call"\nlink = { column = "phone", references = "phones.phone" }\n'
        'determines_unit = ["e"]\n'
    ),
    "sales": 'key = ["item", "ticket"]\n{pid}determines_unit = ["ticket"]\n',
    "refunds": 'link = { column = ["item", "ticket"], references = "sales.(item, ticket)" }\n',
}
OWN = 'link = { column = "pid", references = "people.pid" }\n'
BY_COLUMN = 'columns = ["phones.pid", "sales.pid"]'
LIMITS = "max_groups_per_unit = 50\nmax_rows_per_group = 500\n"
MEETS = (
    ("phones", "phones", ("d",)),
    ("phones", "people", ("d",)),
    ("phones", "phones", ("pid",)),
    ("phones", "calls", ("phone",)),
    ("phones", "sales", ("pid",)),
    ("people", "phones", ("pid",)),
    ("people", "sales", ("pid",)),
    ("calls", "calls", ("e",)),
    ("calls", "calls", ("phone",)),
    ("calls", "phones", ("phone",)),
    ("sales", "sales", ("ticket",)),
    ("sales", "sales", ("item", "ticket")),
    ("sales", "refunds", ("item", "ticket")),
    ("sales", "refunds", ("ticket",)),
    ("sales", "people", ("pid",)),
    ("refunds", "sales", ("item", "ticket")),
    ("refunds", "refunds", ("item", "ticket")),
    ("refunds", "refunds", ("ticket",)),
)
"""Two tables, and columns by which their rows may meet, of one name in both."""
FORMS = (
    *("{on}",) * 6,
    *("{on} AND {p}", "({on} AND {p}) OR ({on} AND {q})", "{on} AND ({p} OR {q})"),
    *("({on} AND {p}) OR ({on} AND {q})", "({on}) OR ({on} AND {p})", "{on} AND {on}"),
)
"""Conditions that imply an equality."""
KINDS = (*("JOIN",) * 4, *("LEFT JOIN",) * 4, "LATERAL", "ASOF", "FULL JOIN", "FULL JOIN")


@dataclass(frozen=True, slots=True)
class World:
    """Rows of each table by their columns; without `people` units are values of columns."""

    rows: dict[str, tuple[Row, ...]]

    def reached(self, table: str, row: Row) -> frozenset[int]:
        """The units to which the link of a row leads, there or not."""
        match table:
            case "calls":
                return self._behind("phones", row, ("phone",))
            case "refunds":
                return self._behind("sales", row, ("item", "ticket"))
            case _:
                return frozenset({row["pid"]} - {None})

    def _behind(self, table: str, row: Row, key: tuple[str, ...]) -> frozenset[int]:
        if any(row[name] is None for name in key):
            return frozenset()
        rows = (r for r in self.rows[table] if all(r[name] == row[name] for name in key))
        return frozenset().union(*(self.reached(table, r) for r in rows))

    def is_owned(self, table: str, row: Row) -> bool:
        """Whether a row has a unit: one to which it leads, and which is there."""
        units = self.reached(table, row)
        there = (
            {person["pid"] for person in self.rows["people"]} if "people" in self.rows else units
        )
        return len(units & there) == len(units) == 1

    def owned(self) -> World:
        """The rows that have a unit."""
        return World(
            {t: tuple(r for r in rows if self.is_owned(t, r)) for t, rows in self.rows.items()}
        )

    def without(self, *units: int) -> World:
        """The same without every row from which a path of links leads to one of these units."""
        return World(
            {
                table: tuple(r for r in rows if not self.reached(table, r) & {*units})
                for table, rows in self.rows.items()
            }
        )

    def engine(self) -> PlainEngine:
        return engine_of(
            (table, [f"{column} INT" for column in COLUMNS[table]], rows)
            for table, rows in self.rows.items()
        )

    def most(self, table: str) -> int:
        """The most rows of one unit."""
        units = [self.reached(table, row) for row in self.rows[table] if self.is_owned(table, row)]
        return max([1, *(units.count(unit) for unit in units)])

    def toml(self) -> str:
        unit = 'table = "people"\nkey = "pid"' if "people" in self.rows else BY_COLUMN
        text = HEAD.replace("{unit}", unit)
        for table in self.rows:
            limits = (
                "" if table == "people" else f"{LIMITS}max_rows_per_unit = {self.most(table)}\n"
            )
            own = OWN if "people" in self.rows else ""
            text += f'[tables.{table}]\naccess = "private"\n'
            text += RULES[table].replace("{pid}", own) + limits
            text += f"[tables.{table}.columns]\n"
            text += "".join(
                f"{name} = {{ bounds = [0, 99], nullable = true }}\n" for name in COLUMNS[table]
            )
        return text


@dataclass(frozen=True, slots=True)
class Bound:
    """A world with its policy, an engine, and what counts claims."""

    world: World
    policy: Policy
    engine: PlainEngine
    counting: Counting


@cache
def bound(number: int) -> Bound:
    """World `number`, with every fact that a check records, or that holds of rows with a unit."""
    made = world(number)
    engine = made.engine()
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "dpsql.toml"
        file.write_text(made.toml())
        schema = Schema(declared(engine.rows), "here")
        policy = bind(load(str(file)), schema, PublicTables(engine, DUCKDB).values)
    _, facts = check(policy, Lines(""), engine.rows)
    facts |= {
        Fact(kind, name, Voucher.CHECK)
        for table in policy.tables
        for kind, name in (
            (FactKind.MAX_ROWS, table.name),
            *((FactKind.ONE_UNIT, table.agreeing(columns)) for columns in table.determining),
        )
    }
    policy = replace(policy, facts=policy.facts | facts)
    return Bound(made, policy, engine, Counting(policy, engine))


@cache
def engines(number: int, *units: int) -> PlainEngine:
    """World `number` without some units."""
    return bound(number).world.without(*units).engine()


@cache
def owned(number: int) -> PlainEngine:
    """The rows of world `number` that have a unit."""
    return bound(number).world.owned().engine()


def world(number: int) -> World:
    """World `number`: links are NULL in all but the first, and lead nowhere in every other one.

    In every third there is no table of people; in some a unit has one phone, or keys repeat.
    """
    chance = Random(number)  # noqa: S311
    single, shared, people = number % 4 < 2, number % 5 == 4, number % 3 != 2
    nothing = (None,) if number else ()
    broken = (*nothing, *((NOWHERE,) if number % 2 else ()))
    nobody = broken if people else nothing  # without a table of people every value is somebody
    value = (None, 0, 3, 9)
    phones: list[Row] = []
    for n, unit in enumerate((*UNITS, *(() if single else UNITS), *nobody, *nobody, *nobody)):
        # What has no unit shares its device with somebody, more often than not.
        device = unit if unit in UNITS else chance.choice((*UNITS, 1, 1))
        phones.append({"phone": 10 + n, "pid": unit, "d": device, "v": chance.choice(value)})
    calls: list[Row] = []
    for n in range(8):
        phone = chance.choice((*(row["phone"] for row in phones), *broken))
        whose = next((row["d"] for row in phones if row["phone"] == phone), chance.choice(UNITS))
        calls.append({"call": n, "phone": phone, "e": whose, "v": chance.choice(value)})
    sales: list[Row] = []
    for ticket in UNITS:
        for item in (1, 2):
            sales.append({"item": item, "ticket": ticket, "pid": ticket, "v": chance.choice(value)})
            for pid in nobody:
                other = item if shared else item + 2 + 2 * nobody.index(pid)
                sales.append({"item": other, "ticket": ticket, "pid": pid, "v": 3})
    refunds = [
        {name: row[name] for name in ("item", "ticket")} | {"v": chance.choice(value)}
        for row in chance.choices(sales, k=6)
    ]
    if people:
        units = [{"pid": n, "d": n, "v": chance.choice(value)} for n in UNITS]
        keyless = [{"pid": None, "d": 1, "v": v} for v in (0, 3)] if number else []
        rows = {"people": [*units, *keyless]}
    else:
        rows = dict[str, list[Row]]()
    rows |= {"phones": phones, "calls": calls, "sales": sales, "refunds": refunds}
    return World({table: tuple(listed) for table, listed in rows.items()})


# --- queries ---


def query(drawn: bytes) -> tuple[int, str]:
    """The number of a world, and a query about it."""
    dice = Dice(drawn)
    number = dice.number(WORLDS - 1)
    tables = [table for table in world(number).rows if table != "people"]
    first = dice.pick(tables)
    members = [("t0", first, COLUMNS[first])]
    text, joins = f"{first} AS t0", 1 + dice.number(3)
    for new in range(1, joins + 1):
        here, other, columns = dice.pick(_meetings(members, number))
        member = _member(dice, other, columns)
        kind = dice.pick(KINDS if new == joins else KINDS[:-2])
        text += f" {_joined(dice, kind, here, member, f't{new}', columns)}"
        there = (*columns, "v") if member.startswith("(") else COLUMNS[other]
        if kind != "JOIN" and not dice.chance(20):
            # What may be absent is known by the key alone that it was joined by.
            there = tuple(name for name in there if name == "pid")
        members.append((f"t{new}", other, there))
    where = []
    if dice.chance(30):
        where.append(dice.pick((f"t{joins}.v IS NULL", f"t{joins}.v >= 0", "t0.v >= 0")))
    if dice.chance(30):
        _, other, columns = dice.pick(_meetings(members[:1], number))
        on, key = _equal("t0", "s", columns), columns[0]
        looked_up = f"SELECT s.{key} FROM {other} AS s WHERE {on} AND s.v >= 0"
        where.append(dice.pick((f"EXISTS ({looked_up})", f"t0.{key} NOT IN ({looked_up})")))
    key = dice.pick(("", "", f"t{joins}.v", "t0.v"))
    measures = dice.pick(("COUNT(*)", f"COUNT(*), SUM(t{joins}.v)", f"COUNT(t{joins}.v)"))
    sql = f"SELECT {key + ', ' if key else ''}{measures} FROM {text}"
    sql += f" WHERE {' AND '.join(where)}" if where else ""
    return number, sql + (f" GROUP BY {key}" if key else "")


def _meetings(
    members: Sequence[tuple[str, str, tuple[str, ...]]], number: int
) -> list[tuple[str, str, tuple[str, ...]]]:
    """Who may meet which table by which columns."""
    return [
        (name, other, columns)
        for name, table, there in members
        for here, other, columns in MEETS
        if here == table and {*columns} <= {*there} and other in world(number).rows
    ]


def _equal(here: str, there: str, columns: tuple[str, ...]) -> str:
    return " AND ".join(f"{here}.{c} = {there}.{c}" for c in columns)


def _condition(dice: Dice, here: str, there: str, columns: tuple[str, ...]) -> str:
    tests = (f"{here}.v >= 3", f"{there}.v >= 3", f"{here}.v = {there}.v", "FALSE")
    on = _equal(here, there, columns)
    return dice.pick(FORMS).format(on=on, p=dice.pick(tests), q=dice.pick(tests))


def _member(dice: Dice, table: str, columns: tuple[str, ...]) -> str:
    """A table as it is, grouped, filtered, or joined with itself from both sides."""
    if not dice.chance(30):
        return table
    listed = ", ".join(columns)
    merged = ", ".join(f"COALESCE(x.{c}, y.{c}) AS {c}" for c in columns)
    whole = columns[0] in ("pid", "phone") or dice.chance(10)
    on = _condition(dice, "x", "y", columns)
    both = f"{table} AS x {'FULL' if whole else 'LEFT'} JOIN {table} AS y ON {on}"
    return dice.pick(
        (
            f"(SELECT {listed}, MAX(v) AS v FROM {table} GROUP BY {listed})",
            f"(SELECT DISTINCT {listed}, v FROM {table})",
            f"(SELECT {merged if whole else 'x.' + ', x.'.join(columns)}, x.v FROM {both})",
        )
    )


def _joined(
    dice: Dice, kind: str, here: str, member: str, new: str, columns: tuple[str, ...]
) -> str:
    """Rows that join, all of them or the first."""
    match kind:
        case "LATERAL":
            asked = f"SELECT * FROM {member} AS s WHERE {_equal(here, 's', columns)} ORDER BY s.v"
            rows = f"({asked}{dice.pick((' LIMIT 1', ' LIMIT 2', ''))})"
            return f"{dice.pick(('', 'LEFT '))}JOIN LATERAL {rows} AS {new} ON TRUE"
        case "ASOF":
            on = f"{_equal(here, new, columns)} AND {here}.v >= {new}.v"
            return f"ASOF {dice.pick(('', 'LEFT '))}JOIN {member} AS {new} ON {on}"
        case _:
            return f"{kind} {member} AS {new} ON {_condition(dice, here, new, columns)}"


JOINS = BYTES.map(query)
"""Random worlds and queries."""


def broken_laws(number: int, sql: str) -> Iterator[str] | None:
    """What a query breaks: its claims, law 1 over the rows that have a unit, and law 2.

    None if it is refused.
    """
    try:
        plan = compiled(sql, bound(number).policy, bound(number).engine)
    except Refused:
        return None
    return _broken(number, sql, plan)


def _broken(number: int, sql: str, plan: Prepared) -> Iterator[str]:
    there = bound(number)
    if plan.plan is None:
        return
    if not plan.rewritten.stages:  # whose rows are released: law 1 says nothing of their NULLs
        yield from there.counting.disproved(claims_of(sql, there.policy, there.engine))
        if not same_rows(*noiseless(plan, there.engine), owned(number).rows(sql)):
            yield "answer"
    here, released = integers(plan, there.engine), noiseless_blocks(plan, there.engine)
    for unit in UNITS:
        yield from _moved(plan, here, integers(plan, engines(number, unit), released), unit)
        # From the empty database: what one unit shares with another would hide what it moves.
        others = tuple(u for u in UNITS if u != unit)
        alone = integers(plan, engines(number, *others), released)
        yield from _moved(plan, alone, integers(plan, engines(number, *UNITS), released), unit)


def _moved(plan: Prepared, here: list[Counted], there: list[Counted], unit: int) -> Iterator[str]:
    why = violation(plan, here, there)
    if why is not None:
        yield f"distance: unit {unit}: {why}"
