"""No aggregate or window over one unit's rows can fail, whatever values they have.

A failure that depends on a row is an exact bit about it, told to whoever pays for the attempt.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from itertools import combinations_with_replacement
from pathlib import Path
from typing import Any

import duckdb
import pytest

from dpsql.dialects.duckdb.duckdb_dialect import DUCKDB
from dpsql.engines.duckdb.declared_schema import tables as declared
from dpsql.model.schema import Schema
from dpsql.model.tree import INTERVAL, Kind
from dpsql.model.vocabulary import Policy
from dpsql.policy.bind import bind
from dpsql.policy.load import load
from dpsql.preparation.public_data import PublicTables
from grammar_tests.function_samples import COLUMNS, Column
from grammar_tests.laws import PlainEngine, compiled, exact_blocks

ANY = """count({x})|min({x})|max({x})|mode({x})|any_value({x})|first({x})|last({x})|list({x})
    |entropy({x})|arg_max({x}, n)|quantile_disc({x}, 0.7)"""
BETWEEN = "median({x})|median(DISTINCT {x})|quantile_cont({x}, 0.3)"
NUMBERS = """avg({x})|stddev({x})|stddev_pop({x})|variance({x})|var_pop({x})|skewness({x})
    |kurtosis({x})|kurtosis_pop({x})|mad({x})|corr({x}, double)
    |covar_pop({x}, double)|regr_count({x}, double)|regr_slope({x}, bigint)|regr_r2({x}, double)
    |regr_avgx({x}, double)
    |regr_sxx({x}, decimal_38_10)|sum({x})|sum(DISTINCT {x})"""
OF_KIND = {
    Kind.INTEGER: (ANY, BETWEEN, NUMBERS),
    Kind.DECIMAL: (ANY, BETWEEN, NUMBERS),
    Kind.DOUBLE: (ANY, BETWEEN, NUMBERS),
    Kind.DATE: (ANY, BETWEEN),
    Kind.TIMESTAMP: (ANY, BETWEEN),
    Kind.TIMESTAMPTZ: (ANY, BETWEEN),
    Kind.VARCHAR: (ANY, "string_agg({x}, ',')|string_agg({x}, ',' ORDER BY double)"),
    Kind.BOOLEAN: (ANY, "bool_and({x})|bool_or({x})|sum({x})|avg({x})"),
    Kind.INTERVAL: (ANY, BETWEEN, "sum({x})|sum(DISTINCT {x})|avg({x})"),
    Kind.TIME: (ANY,),
    Kind.UUID: (ANY,),
}
"""The aggregates of a column of each kind."""
WINDOWS = {
    Kind.INTEGER: "sum({x})|avg({x})|median({x})|lag({x})",
    Kind.DECIMAL: "median({x})|quantile_disc({x}, 0.7)|nth_value({x}, 2)",
    Kind.DOUBLE: "median({x})|max({x})|first_value({x})",
    Kind.DATE: "median({x})|quantile_cont({x}, 0.3)|min({x})",
    Kind.TIMESTAMP: "median({x})|quantile_cont({x}, 0.3)|max({x})",
    Kind.TIMESTAMPTZ: "median({x})|quantile_cont({x}, 0.3)|lead({x}, 2)",
    Kind.VARCHAR: "min({x})|count({x})",
    Kind.BOOLEAN: "bool_and({x})|ntile(3)",
    Kind.INTERVAL: "max({x})|first_value({x})",
    Kind.TIME: "max({x})|lag({x})",
    Kind.UUID: "min({x})|first_value({x})",
}
TOO_WIDE = {"decimal_38_30": ("sum(", "avg(")}
"""Aggregates that are refused: their sums could overflow."""
FAR = "SELECT COUNT(v) FROM (SELECT id, median(day + 150000000) AS v FROM t GROUP BY id) AS x"
"""How an analyst makes a day that no TIMESTAMP reaches of one that they look for."""
POLICY = """
[database]
engine = "duckdb"
path = "any.duckdb"
[privacy_unit]
table = "people"
key = "id"
[tables.people]
access = "private"
key = "id"
[tables.people.columns]
id = {}
[tables.t]
access = "private"
link = { column = "id", references = "people.id" }
max_rows_per_unit = 9
[tables.t.columns]
n = {}
id = {}
COLUMNS
[budgets.default]
epsilon = 3.0
delta = 1e-6
[analysts.ana]
budget = "default"
[ledger]
path = "any.ledger"
"""


def rows() -> Iterator[tuple[Any, ...]]:
    """Each pair of boundary values of every column is all that some unit has."""
    most = max(len(column.values) for column in COLUMNS) + 1
    number = 0
    for unit, places in enumerate(combinations_with_replacement(range(most), 2)):
        for place in places:
            number += 1
            yield number, unit, *(_value(column, place) for column in COLUMNS)


def _value(column: Column, place: int) -> str | None:
    return (*column.values, None)[place % (len(column.values) + 1)]


@cache
def people(folder: str) -> tuple[Policy, PlainEngine]:
    engine = PlainEngine(duckdb.connect())
    engine.connection.execute("SET TimeZone = 'UTC'")
    listed = ", ".join(f"{column.name} {column.sql_type}" for column in COLUMNS)
    engine.connection.execute("CREATE TABLE people (id INTEGER)")
    engine.connection.execute(f"CREATE TABLE t (n INTEGER, id INTEGER, {listed})")
    marks = ", ".join(f"CAST(? AS {column.sql_type})" for column in COLUMNS)
    engine.connection.executemany(f"INSERT INTO t VALUES (?, ?, {marks})", list(rows()))
    engine.connection.execute("INSERT INTO people SELECT DISTINCT id FROM t")
    path = f"{folder}/dpsql.toml"
    columns = "\n".join(f"{column.name} = {{}}" for column in COLUMNS)
    Path(path).write_text(POLICY.replace("COLUMNS", columns), encoding="utf-8")
    schema = Schema(declared(engine.rows), "here")
    return bind(load(path), schema, PublicTables(engine, DUCKDB).values), engine


def value_of(column: Column) -> str:
    """What says a value of the column's type; a length of time is stored as its microseconds."""
    return f"to_microseconds({column.name})" if column.type == INTERVAL else column.name


def calls(column: Column) -> list[str]:
    listed = "|".join(OF_KIND[column.type.kind]).split("|")
    refused = TOO_WIDE.get(column.name, ())
    return [
        c.strip().format(x=value_of(column)) for c in listed if not c.strip().startswith(refused)
    ]


def grouped(column: Column) -> str:
    items = ", ".join(f"{call} AS v{n}" for n, call in enumerate(calls(column)))
    known = ", ".join(f"COUNT(v{n})" for n in range(len(calls(column))))
    return f"SELECT {known} FROM (SELECT id, {items} FROM t GROUP BY id) AS x"


def windowed(column: Column) -> str:
    over = "OVER (PARTITION BY id ORDER BY n ROWS BETWEEN 1 PRECEDING AND CURRENT ROW)"
    listed = WINDOWS[column.type.kind].format(x=value_of(column)).split("|")
    items = ", ".join(f"{call} {over} AS v{n}" for n, call in enumerate(listed))
    known = ", ".join(f"COUNT(v{n})" for n in range(len(listed)))
    return f"SELECT {known} FROM (SELECT id, {items} FROM t) AS x"


def run(sql: str, folder: Path) -> int:
    """How many statements ran."""
    policy, engine = people(str(folder))
    return len(list(exact_blocks(compiled(sql, policy, engine), engine)))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("totality")


@pytest.mark.full("further data sets, and all their neighbours")
@pytest.mark.parametrize("column", COLUMNS, ids=lambda column: column.name)
def test_no_values_make_an_aggregate_fail(column: Column, folder: Path) -> None:
    assert run(grouped(column), folder) == 1
    assert run(windowed(column), folder) == 1


def test_a_day_that_is_no_time_is_seen_to_fail_unguarded(folder: Path) -> None:
    policy, engine = people(str(folder))
    (sql,) = compiled(FAR, policy, engine).rewritten.blocks
    engine.rows(sql.sql)
    with pytest.raises(duckdb.Error):
        engine.rows(sql.sql.replace("TRY_CAST", "CAST"))
