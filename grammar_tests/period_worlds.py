"""People in periods: a policy, and random rows of a few people in and outside of its months."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import date, datetime, timedelta
from functools import cache
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

import duckdb

from dpsql.engines.duckdb.declared_schema import tables as declared
from dpsql.model.periods import ELSEWHERE, NO_TIME
from dpsql.model.schema import Schema
from dpsql.model.vocabulary import Policy
from dpsql.policy.bind import bind
from dpsql.policy.load import load
from grammar_tests.laws import PlainEngine

PERIOD = (
    'period = { every = "month", from = "2024-01", of = { events = "seen", orders = "placed" } }'
)
TOML = f"""
[database]
engine = "duckdb"
path = "periods.duckdb"
[privacy_unit]
columns = ["events.user_id", "orders.user_id"]
{PERIOD}
[tables.kinds]
access = "public"
[tables.events]
access = "private"
key = "event_id"
max_rows_per_unit = 20
max_groups_per_unit = 1
max_rows_per_group = 20
[tables.events.columns]
event_id = {{}}
user_id = {{}}
seen = {{}}
kind = {{ values = ["a", "b", "c"] }}
place = {{}}
minutes = {{ bounds = [-60, 60] }}
[tables.orders]
access = "private"
key = "order_id"
max_rows_per_unit = 20
max_groups_per_unit = 3
max_rows_per_group = 20
determines_unit = ["basket"]
[tables.orders.columns]
order_id = {{}}
user_id = {{}}
placed = {{}}
basket = {{}}
kind = {{ values = ["a", "b", "c"] }}
amount = {{ bounds = [0, 100] }}
[budgets.default]
epsilon = 2.0
delta = 1e-3
query_epsilon = 0.5
query_delta = 1e-6
[analysts.ana]
budget = "default"
[ledger]
path = "periods.ledger"
"""
LAST = "2024-03"
WIDE = 20
"""More rows than a unit has."""
BLOCKS = ("2024-01", "2024-02", "2024-03", NO_TIME, ELSEWHERE)
SCHEMA = (
    "CREATE TABLE kinds(kind VARCHAR, label VARCHAR)",
    "INSERT INTO kinds VALUES ('a', 'first'), ('b', 'second')",
    """CREATE TABLE events(event_id INTEGER PRIMARY KEY, user_id INTEGER, seen TIMESTAMP,
    kind VARCHAR, place VARCHAR, minutes INTEGER)""",
    """CREATE TABLE orders(order_id INTEGER PRIMARY KEY, user_id INTEGER, placed DATE,
    basket INTEGER, kind VARCHAR, amount INTEGER)""",
)
EDGES = (
    datetime(2024, 1, 1),
    datetime(2024, 1, 31, 23, 59, 59, 999999),
    datetime(2024, 2, 1),
    datetime(2024, 2, 29, 23, 59, 59, 999999),
    datetime(2024, 3, 1),
    datetime(2024, 3, 31, 23, 59, 59, 999999),
    datetime(2024, 4, 1),
    datetime(2023, 12, 31, 23, 59, 59, 999999),
)


def moments(dice: Random) -> datetime | None:
    """A time in some block, often at its edge."""
    if dice.random() < 0.1:
        return None
    if dice.random() < 0.4:
        return dice.choice(EDGES)
    return datetime(2023, 12, 1) + timedelta(hours=dice.randrange(24 * 170))


def database(seed: int, path: str = ":memory:", *, people: int = 6) -> duckdb.DuckDBPyConnection:
    """Random rows of a few people, of whom each has rows in several months."""
    dice, connection = Random(seed), duckdb.connect(path)  # noqa: S311
    for statement in SCHEMA:
        connection.execute(statement)
    events, orders = [], []
    for number in range(people * 12):
        person = None if dice.random() < 0.05 else dice.randrange(people)
        kind, at = dice.choice("abc"), moments(dice)
        events.append((number, person, at, kind, dice.choice("xyz"), dice.randrange(-60, 61)))
        placed = None if (when := moments(dice)) is None else when.date()
        basket = None if person is None else person * 10 + dice.randrange(2)
        orders.append((number, person, placed, basket, dice.choice("abc"), dice.randrange(101)))
    connection.executemany("INSERT INTO events VALUES (?, ?, ?, ?, ?, ?)", events)
    connection.executemany("INSERT INTO orders VALUES (?, ?, ?, ?, ?, ?)", orders)
    return connection


def bound(engine: PlainEngine, text: str = TOML) -> Policy:
    """The policy over these rows, in the third of its months."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "dpsql.toml"
        path.write_text(text, "utf-8")
        draft = load(str(path))
    policy = bind(draft, Schema(declared(engine.rows), "here"), engine.public.values)
    assert policy.period is not None
    return replace(policy, period=policy.period.at(LAST))


@cache
def world(seed: int, most: int = 20) -> tuple[Policy, PlainEngine]:
    """A policy, and an engine over random rows; `most` rows of a unit count.

    Limits that never bind are for answers: their rows all have a person.
    """
    engine = PlainEngine(database(seed))
    if most >= WIDE:
        for table in ("events", "orders"):
            engine.connection.execute(f"DELETE FROM {table} WHERE user_id IS NULL")
    return bound(engine, TOML.replace(f"= {WIDE}", f"= {most}")), engine


def block_sql(column: str) -> str:
    """The block of a row, in plain SQL, without any of our code."""
    return (
        f"CASE WHEN {column} IS NULL THEN '{NO_TIME}' WHEN {column} < DATE '2024-01-01' OR {column}"
        f" >= DATE '2024-04-01' THEN '{ELSEWHERE}' ELSE strftime({column}, '%Y-%m') END"
    )


def deletions(person: int, block: str) -> list[str]:
    """Remove one unit: all rows of a person in one block."""
    pairs = ("events", "seen"), ("orders", "placed")
    return [
        f"DELETE FROM {table} WHERE user_id = {person} AND {block_sql(column)} = '{block}'"
        for table, column in pairs
    ]


CONDITIONS: Sequence[str] = (
    "seen >= '2024-01-01' AND seen < '2024-02-01'",
    "seen BETWEEN TIMESTAMP '2024-02-01' AND '2024-02-29 23:59:59.999999'",
    "date_trunc('month', seen) = DATE '2024-02-01'",
    "seen::DATE IN (DATE '2024-03-31', '2024-03-01')",
    "seen < '2024-01-01'",
    "seen >= '2024-04-01' OR seen IS NULL",
    "DATE '2024-02-01' <= seen",
    "seen IS NOT NULL",
    "seen IS NULL",
    "NOT (seen > '2024-02-01')",
    "extract(year FROM seen) = 2024",
    "extract(month FROM seen) = 2",
    "strftime(seen, '%Y-%m') = '2024-02'",
    "seen > '2024-02-15' AND (seen < '2024-02-20' OR kind = 'a')",
    "seen > '2024-02-15' OR kind = 'a'",
    "seen > '2025-01-01' AND seen < '2024-01-01'",
    "seen <> '2024-01-01'",
    "minutes > 0",
)
"""Conditions on the time of events, and others."""


def random_condition(dice: Random) -> str:
    """A condition of comparisons with days near the ends of months."""
    parts = []
    for _ in range(dice.randrange(1, 4)):
        day = date(2023, 12, 30) + timedelta(days=dice.randrange(95))
        left = dice.choice(["seen", "seen", "seen::DATE", "date_trunc('month', seen)"])
        compared = f"{left} {dice.choice(['<', '<=', '>', '>=', '=', '<>'])} DATE '{day}'"
        parts.append(dice.choice([compared, compared, compared, "seen IS NULL", "kind = 'a'"]))
        parts[-1] = dice.choice([parts[-1]] * 3 + [f"NOT ({parts[-1]})"])
    return f" {dice.choice(['AND', 'OR'])} ".join(f"({part})" for part in parts)
