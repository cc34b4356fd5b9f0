"""Syntax that costs no privacy rule: series, aliases of aliases, aggregates that cannot fail."""

from __future__ import annotations

from itertools import product

import duckdb
import pytest

from dpsql.dialects.reading.series import series
from dpsql.model.errors import Reason, Refused
from dpsql.model.tree import INTEGER, NOWHERE, Literal
from grammar_tests.bound import shop
from grammar_tests.laws import compiled

# --- series are what the engine makes of them ---


@pytest.mark.parametrize("function", ["range", "generate_series"])
def test_series_are_those_of_the_engine(function: str) -> None:
    engine = duckdb.connect()
    for start, stop, step in product((-3, 0, 4), (-5, 0, 3, 9), (-4, -1, 1, 2)):
        bounds = tuple(Literal(n, INTEGER) for n in (start, stop, step))
        ours = [value.value for value in series(function, bounds, NOWHERE, 100)]
        sql = f"SELECT * FROM {function}({start}, {stop}, {step})"
        assert ours == [row[0] for row in engine.execute(sql).fetchall()]


def test_a_series_with_the_wrong_end_would_be_seen() -> None:
    bounds = tuple(Literal(n, INTEGER) for n in (0, 3, 1))
    assert series("range", bounds, NOWHERE, 100) != series("generate_series", bounds, NOWHERE, 100)


def test_a_long_series_is_not_made() -> None:
    bounds = (Literal(10**30, INTEGER),)
    assert len(series("range", bounds, NOWHERE, 5)) == 6


# --- aliases of aliases ---


def doubling(times: int) -> str:
    steps = (f"a{n} + a{n} AS a{n + 1}" for n in range(times))
    return f"SELECT 1 AS a0, {', '.join(steps)}"


def deepening(times: int) -> str:
    steps = (f"a{n} + 1 AS a{n + 1}" for n in range(times))
    return f"SELECT 1 AS a0, {', '.join(steps)}"


@pytest.mark.full("measures neighbours or further data sets")
@pytest.mark.parametrize("sql", [doubling(30), doubling(300), deepening(70), deepening(900)])
def test_aliases_that_grow_are_refused(sql: str) -> None:
    policy, engine = shop()
    with pytest.raises(Refused) as caught:
        compiled(sql, policy, engine)
    assert caught.value.reason is Reason.TOO_LARGE


@pytest.mark.parametrize(("sql", "last"), [(doubling(8), 256), (deepening(20), 21)])
def test_aliases_of_aliases_are_written_out(sql: str, last: int) -> None:
    policy, engine = shop()
    rows = engine.rows(compiled(sql, policy, engine).rewritten.outer_sql)
    assert rows[0][-1] == last


# --- no aggregate and no window function fails on any rows ---

EXTREMES = (
    "CAST('inf' AS DOUBLE), CAST('-inf' AS DOUBLE), CAST('nan' AS DOUBLE), 1e308, -1e308, 0.5"
)
DOUBLES = " UNION ALL ".join(
    f"SELECT {value} AS x, {n} AS k" for n, value in enumerate(EXTREMES.split(", "))
)
CALLS = """stddev(x) stddev_pop(x) variance(x) var_pop(x) corr(x,x) covar_pop(x,k) covar_samp(x,x)
regr_slope(x,k) regr_intercept(k,x) regr_r2(x,x) regr_sxx(x,k) regr_sxy(x,x) regr_syy(k,x)
regr_avgx(x,x) regr_avgy(x,k) regr_count(x,k) sum(x) avg(x) median(x) quantile_cont(x,0.3)
quantile_disc(x,0.3) mode(x) list(x) first(x) arg_max(x,k) min(x) any_value(x)""".split()


@pytest.mark.parametrize("call", CALLS)
def test_no_aggregate_fails(call: str) -> None:
    policy, engine = shop()
    near = "ORDER BY x RANGE BETWEEN 3 PRECEDING AND 3 FOLLOWING"
    windows = f"{call} OVER (ORDER BY k), {call} OVER ({near})"
    for asked in (call, f"{call.replace('(', '(DISTINCT ')}", windows):
        sql = f"SELECT {asked} FROM ({DOUBLES}) AS t"
        assert engine.rows(compiled(sql, policy, engine).rewritten.outer_sql)


def test_a_frame_by_distance_at_the_end_of_a_type() -> None:
    policy, engine = shop()
    rows = "(VALUES (9223372036854775807), (-9223372036854775808)) AS t(x)"
    frame = "ORDER BY x RANGE BETWEEN 3 PRECEDING AND 3 FOLLOWING"
    sql = f"SELECT COUNT(*) OVER ({frame}) FROM {rows}"
    assert engine.rows(compiled(sql, policy, engine).rewritten.outer_sql) == [(1,), (1,)]
    with pytest.raises(duckdb.OutOfRangeException):  # the plain form fails
        engine.rows(sql)
