"""Small random shops that keep every declared bound and limit: what law 1 is fuzzed over."""

from __future__ import annotations

from dataclasses import replace
from datetime import date, datetime, timedelta
from decimal import Decimal
from functools import cache
from random import Random
from typing import Any

from dpsql.dialects.duckdb.duckdb_dialect import DUCKDB
from dpsql.engines.duckdb.declared_schema import tables as declared
from dpsql.model.schema import Schema
from dpsql.model.vocabulary import Policy
from dpsql.policy.bind import bind
from dpsql.policy.load import load
from dpsql.preparation.public_data import PublicTables
from grammar_tests import world
from grammar_tests.bound import CATALOGS
from grammar_tests.laws import PlainEngine

NULLABLE = {
    "customers": ("country", "segment", "city", "age", "vip", "joined"),
    "orders": ("amount", "quantity", "discount", "placed_at", "status", "note", "note_length"),
    "items": ("product_id", "price"),
    "events": ("device", "duration"),
    "logins": (),
}
"""Columns that hold NULLs here; income, units and day never do."""

SHOPS = 10
"""How many databases there are; the first are the smallest, so that examples shrink to them."""

MOST_ROWS = 2
"""Most orders of a unit, items of an order, events and logins of a unit: within every limit."""


def nullable(policy: Policy) -> Policy:
    """The shop's policy with the columns of `NULLABLE` declared as such, and limits on logins."""
    tables = tuple(
        replace(
            table,
            max_groups_per_unit=table.max_groups_per_unit or MOST_ROWS,
            max_rows_per_group=table.max_rows_per_group or MOST_ROWS,
            columns=tuple(
                replace(c, nullable=c.nullable or c.name in NULLABLE.get(table.name, ()))
                for c in table.columns
            ),
        )
        for table in policy.tables
    )
    return replace(policy, tables=tables)


def bound_policy(engine: PlainEngine) -> Policy:
    """The shop's policy over an engine, with more columns nullable."""
    schema = Schema(declared(engine.rows), "here")
    return nullable(
        bind(load(str(CATALOGS / "shop.toml")), schema, PublicTables(engine, DUCKDB).values)
    )


@cache
def shop(number: int) -> tuple[Policy, PlainEngine]:
    """Random shop `number`, whose constraints vouch for keys and links."""
    engine = PlainEngine(world.build(rows(number), constraints=True))
    return bound_policy(engine), engine


@cache
def adversary(without: int | None) -> PlainEngine:
    """The adversarial shop, all of it or without one unit; nothing vouches for anything."""
    engine = PlainEngine(world.build(world.adversarial(), constraints=False))
    for statement in [] if without is None else world.deletions(without):
        engine.connection.execute(statement)
    return engine


@cache
def wary_policy() -> Policy:
    """The policy over the adversarial shop: no proof leans on a constraint."""
    return bound_policy(adversary(None))


def rows(number: int) -> world.Tables:
    """The tables of shop `number`: twice as many units, each with a few rows or none."""
    chance = Random(number)  # noqa: S311
    tables: world.Tables = {**world.PUBLIC, **{name: [] for name in NULLABLE}}
    tables["products"] = [*world.PUBLIC["products"], *_repeating(chance)]
    for unit in range(1, 2 * number + 1):
        tables["customers"].append(_customer(chance, unit))
        for order in _numbers(chance, unit):
            tables["orders"].append(_order(chance, order, unit))
            tables["items"] += [_item(chance, n, order) for n in _numbers(chance, order)]
        tables["events"] += [_event(chance, n, unit) for n in _numbers(chance, unit)]
        tables["logins"] += [
            (n, unit, date(2024, 1, 1) + timedelta(days=40 * chance.randrange(9)))
            for n in _numbers(chance, unit)
        ]
    return {name: [_with_nulls(chance, name, row) for row in tables[name]] for name in tables}


def _repeating(chance: Random) -> list[tuple[Any, ...]]:
    """Products whose category and price private rows may equal, several of them alike."""
    categories = ("NO", "SE", "consumer", "paid", "NO", None)
    prices = (Decimal("12.50"), Decimal("7.25"), Decimal("7.25"), None)
    return [(n, chance.choice(categories), chance.choice(prices)) for n in range(4, 9)]


def _numbers(chance: Random, parent: int) -> range:
    """Keys of the rows below a row, in order of the parent's."""
    return range(10 * parent, 10 * parent + chance.choice((0, 1, 1, 2, MOST_ROWS)))


def _customer(chance: Random, unit: int) -> tuple[Any, ...]:
    return (
        unit,
        chance.choice(("NO", "SE", "IT")),
        chance.choice(("consumer", "business")),
        chance.choice((*world.CITIES, "", "oslo", "a%b_c")),
        chance.choice((0, 18, 30, 31, 44, 120)),
        chance.choice((0.0, 1000.5, 1000.5, 20000.25, 200000.0)),
        chance.choice((True, False)),
        date(2020, 1, 1) + timedelta(days=chance.choice((0, 58, 59, 400, 1500, 2191))),
        f"name {unit}",
        "secret",
    )


def _order(chance: Random, number: int, unit: int) -> tuple[Any, ...]:
    placed = datetime(2024, 1, 1) + timedelta(
        days=chance.choice((0, 59, 60, 365, 730)),
        hours=chance.choice((0, 0, 7, 23)),
        minutes=chance.choice((0, 15, 59)),
        seconds=chance.choice((0, 59)),
    )
    return (
        number,
        unit,
        Decimal(chance.choice(("0.00", "0.01", "12.50", "99.99", "100.00", "500.00"))),
        chance.choice((0, 1, 2, 3, 7, 20)),
        chance.choice((0.0, 0.25, 0.5, 1.0)),
        placed,
        chance.choice(world.STATUSES),
        chance.choice(("gift", "12", "-7.5", "a note", "", "Ünï", "2024-02-29")),
        chance.choice((0, 5, 12)),
    )


def _item(chance: Random, number: int, order: int) -> tuple[Any, ...]:
    price = Decimal(chance.choice(("0.00", "7.25", "12.50", "100.00")))
    return (number, order, chance.randrange(5), price, chance.choice((0, 1, 2, 10)))


def _event(chance: Random, number: int, unit: int) -> tuple[Any, ...]:
    return (number, unit, chance.choice(world.DEVICES), chance.choice((0, 1, 60, 3600)))


def _with_nulls(chance: Random, table: str, row: tuple[Any, ...]) -> tuple[Any, ...]:
    names = [column.split()[0] for column in _columns(table)]
    absent = NULLABLE.get(table, ())
    return tuple(
        None if name in absent and chance.random() < 0.2 else value
        for name, value in zip(names, row, strict=True)
    )


def _columns(table: str) -> list[str]:
    """The column definitions of a table; DECIMAL(p, s) holds a comma of its own."""
    return world.COLUMNS[table].replace("(10, 2)", "").replace("(8, 2)", "").split(", ")
