"""The law of physical order on PostgreSQL: equal rows give equal integers, however they are stored.

Rows are shuffled, in heirs and in partitions, and the planner is told to join and group otherwise.
Some numbers are NaN, some zeros negative, and equal whole numbers are computed in several ways.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import psycopg
import pytest

from dpsql.compiler.plan.prepared import Prepared
from dpsql.dialects.postgres import function_sql
from dpsql.dialects.sql_text import ATOM
from dpsql.engines import ScratchTable
from dpsql.model.errors import Refused
from dpsql.model.vocabulary import Exact, Policy
from dpsql.policy.bind import bind
from dpsql.policy.load import load
from grammar_tests import world
from grammar_tests.bound import CATALOGS
from grammar_tests.laws import Counted, compiled, integers
from grammar_tests.postgres_kit import running
from grammar_tests.postgres_world import PostgresRows, World, connected
from grammar_tests.test_equal_values import odd
from grammar_tests.test_two_engines import ACCEPTED
from grammar_tests.two_engines import filled

EVERY = 100
"""One of so many cases is asked."""
CASES = tuple(case for case in ACCEPTED if case.catalog == "shop")
HEIRS = 3
PLANS: tuple[dict[str, str], ...] = (
    {},
    {"enable_hashjoin": "off", "enable_hashagg": "off"},
    {"enable_mergejoin": "off", "enable_nestloop": "off", "enable_sort": "off"},
    {"work_mem": "64kB", "enable_material": "off", "enable_hashjoin": "off"},
    {
        "force_parallel_mode": "on",
        "min_parallel_table_scan_size": "0",
        "parallel_setup_cost": "0",
        "parallel_tuple_cost": "0",
    },
)
EQUAL = """SELECT customer_id, ROUND(quantity * 0, 2) AS y FROM orders WHERE order_id % 2 = 0
UNION ALL SELECT customer_id, quantity * 0 AS y FROM orders WHERE order_id % 2 = 1"""
ZERO = "CASE WHEN status = 'open' THEN discount * 0 ELSE -discount * 0 END"
OWN = (
    f"""SELECT COUNT(*) FROM (SELECT customer_id, MAX(LENGTH(CAST(y AS VARCHAR))) AS z
    FROM (SELECT customer_id, y FROM ({EQUAL}) AS u GROUP BY customer_id, y) AS t
    GROUP BY customer_id) AS s WHERE z > 1""",
    f"""SELECT COUNT(*) FROM (SELECT customer_id, MIN({ZERO}) AS y FROM orders
    GROUP BY customer_id) AS t WHERE 1 / y > 0""",
    f"""SELECT COUNT(*) FROM (SELECT customer_id, MAX(1 / y) AS z
    FROM (SELECT customer_id, {ZERO} AS y FROM orders GROUP BY customer_id, {ZERO}) AS t
    GROUP BY customer_id) AS s WHERE z > 0""",
    "SELECT status, COUNT(*), SUM(amount), AVG(discount) FROM orders GROUP BY status",
    "SELECT COUNT(*) FROM orders WHERE discount > 0.1 OR discount IS NULL",
    """SELECT COUNT(*) FROM orders AS a JOIN orders AS b
    ON a.customer_id = b.customer_id AND a.discount = b.discount""",
)


class Stored(PostgresRows):
    """The rows of one schema."""

    schema = "public"

    def aggregate(
        self,
        sql: str,
        keys: int,
        parts: int,
        sampling_key: int,
        tables: tuple[ScratchTable, ...] = (),  # type: ignore[override]
    ) -> Exact:
        there = sql.replace('"public".', f"{self.schema}.")
        return super().aggregate(there, keys, parts, sampling_key, tables)


@pytest.fixture(scope="module")
def shop() -> Iterator[tuple[Policy, Stored]]:
    """The shop in several forms: as it is, shuffled, in heirs, and in partitions."""
    rows = odd() | world.PUBLIC
    shuffle = random.Random(3).shuffle  # noqa: S311
    with running(autovacuum="off") as server, connected(server) as pg:
        for schema in ("public", "shuffled", "heirs", "parts"):
            pg.execute(f"CREATE SCHEMA IF NOT EXISTS {schema}")
            for table, columns in world.COLUMNS.items():
                listed = list(rows[table])
                if schema != "public":
                    shuffle(listed)
                _build(pg, f"{schema}.{table}", columns.replace("DOUBLE", "float8"), listed)
            pg.execute(f"UPDATE {schema}.orders SET amount = 'NaN' WHERE order_id % 7 = 0")
            pg.execute("ANALYZE")
        engine = Stored(pg)
        yield _policy(pg, engine), engine


def _build(
    pg: psycopg.Connection[Any], table: str, columns: str, rows: list[tuple[Any, ...]]
) -> None:
    schema = table.partition(".")[0]
    if schema == "public":
        pg.execute(f"CREATE TABLE {table} ({columns.format(**world.CONSTRAINTS)})")
        filled(pg, table, rows)
        return
    plain = columns.format(**dict.fromkeys(world.CONSTRAINTS, ""))
    key = plain.split()[0]
    by = f" PARTITION BY HASH ({key})" if schema == "parts" else ""
    pg.execute(f"CREATE TABLE {table} ({plain}){by}")
    for n in range(HEIRS if schema != "shuffled" else 0):
        part = f"{table}_{n}"
        if schema == "parts":
            remainder = f"MODULUS {HEIRS}, REMAINDER {n}"
            pg.execute(f"CREATE TABLE {part} PARTITION OF {table} FOR VALUES WITH ({remainder})")
        else:
            pg.execute(f"CREATE TABLE {part} () INHERITS ({table})")
            filled(pg, part, rows[n::HEIRS])
    if schema != "heirs":
        filled(pg, table, rows)


def _policy(pg: psycopg.Connection[Any], engine: Stored) -> Policy:
    text = (CATALOGS / "shop.toml").read_text("utf-8")
    given = 'engine = "duckdb"\npath = "shop.duckdb"'
    assert given in text
    there = World(pg, "")
    path = Path(pg.info.host, "shop.toml")
    path.write_text(text.replace(given, 'engine = "postgres"\ndsn = "dbname=none"'), "utf-8")
    return bind(load(str(path)), there.schema, engine.public.values)


def differing(policy: Policy, engine: Stored, questions: list[str]) -> tuple[list[str], int]:
    """The questions whose integers depend on how rows are stored, and how many were asked."""
    found, asked = [], 0
    for sql in questions:
        try:
            prepared = compiled(sql, policy, engine)
        except Refused:
            continue
        if prepared.plan is None:
            continue
        asked += 1
        if not all(same == _counted(prepared, engine) for same in _everywhere(prepared, engine)):
            found.append(sql)
    return found, asked


def _everywhere(prepared: Prepared, engine: Stored) -> Iterator[list[Counted]]:
    for schema in ("public", "shuffled", "heirs", "parts"):
        for settings in PLANS if schema in ("public", "heirs") else PLANS[:1]:
            yield _counted(prepared, engine, schema, settings)


def _counted(
    prepared: Prepared, engine: Stored, schema: str = "public", settings: Any = None
) -> list[Counted]:
    engine.schema = schema
    engine.pg.execute("BEGIN")
    try:
        for name, value in (settings or {}).items():
            engine.pg.execute(f"SET LOCAL {name} = '{value}'")
        return integers(prepared, engine)
    finally:
        engine.pg.execute("ROLLBACK")
        engine.schema = "public"


@pytest.mark.full("opens servers or connects clients")
def test_equal_rows_give_equal_integers(shop: tuple[Policy, Stored]) -> None:
    found, asked = differing(*shop, [*OWN, *(case.sql for case in CASES[::EVERY])])
    assert found == []
    assert asked > len(OWN) + len(CASES) / EVERY / 2


def test_wrong_twin_numbers_of_several_scales_depend_on_the_order(
    shop: tuple[Policy, Stored], monkeypatch: pytest.MonkeyPatch
) -> None:
    rounded = function_sql.FUNCTIONS["round"]

    def scaled(args: Any, kind: Any) -> Any:
        text = rounded(args, kind)
        assert text is not None
        return replace(text, sql=f"round({text.sql}, 2)", level=ATOM)

    monkeypatch.setitem(function_sql.FUNCTIONS, "round", scaled)
    assert differing(*shop, [OWN[0]]) == ([OWN[0]], 1)
