"""The error of every number: it follows the noise through the outer query, and covers."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from fractions import Fraction
from functools import cache, partial
from math import isnan

import numpy as np
import pytest

from dpsql import mechanisms
from dpsql.compiler.plan.prepared import Prepared
from dpsql.dialects.duckdb.duckdb_dialect import DUCKDB
from dpsql.engines.duckdb.declared_schema import tables as declared
from dpsql.model.schema import Schema
from dpsql.model.vocabulary import Answer, Exact, Loss, Noisy, Policy, Receipt
from dpsql.policy.bind import bind
from dpsql.policy.load import load
from dpsql.preparation.public_data import PublicTables
from dpsql.release.finish import expected_margins, finish
from dpsql.release.release import release
from grammar_tests import world
from grammar_tests.bound import CATALOGS, shop
from grammar_tests.draws import ENTROPY, pooled
from grammar_tests.keys_kit import listing
from grammar_tests.laws import BUDGET, PlainEngine, compiled, noiseless

RECEIPT = Receipt("", "", "", "", Decimal(1), Loss(0), Loss(0), Loss(0))
RELEASES = 400
SAMPLER = partial(mechanisms.sample, entropy=ENTROPY)

ROW_BY_ROW = {
    "a count": "SELECT COUNT(*) AS n FROM customers",
    "a sum": "SELECT SUM(income) AS n FROM customers",
    "an average": "SELECT AVG(income) AS n FROM customers",
    "a ratio": "SELECT 100.0 * COUNT(*) FILTER (WHERE vip) / COUNT(*) AS n FROM customers",
    "a difference of shared parts": "SELECT 2 * COUNT(*) - COUNT(*) AS n FROM customers",
}
"""Queries that compute each row of what was released by itself."""

COVERED = {
    **ROW_BY_ROW,
    "a total of released counts": (
        "SELECT SUM(n) AS n FROM (SELECT segment, COUNT(*) AS n FROM customers GROUP BY 1) AS t"
    ),
    "an average of released counts": (
        "SELECT AVG(n) AS n FROM (SELECT segment, COUNT(*) AS n FROM customers GROUP BY 1) AS t"
    ),
    "a window total": (
        "SELECT SUM(COUNT(*)) OVER () AS n FROM customers GROUP BY segment ORDER BY segment LIMIT 1"
    ),
    "one branch of a union": (
        "SELECT n FROM (SELECT 1 AS b, COUNT(*) AS n FROM customers UNION ALL SELECT 2, 0) AS t"
        " WHERE b = 1"
    ),
    "a join of releases": (
        "SELECT a.n + b.n AS n FROM (SELECT COUNT(*) AS n FROM customers WHERE vip) AS a"
        " CROSS JOIN (SELECT COUNT(*) AS n FROM customers WHERE NOT vip) AS b"
    ),
}


@cache
def crowd(*, constraints: bool = False) -> tuple[Policy, PlainEngine]:
    """The shop with six thousand customers, so that ratios are nearly linear in the noise."""
    engine = PlainEngine(world.build(world.empty(), constraints=constraints))
    engine.connection.execute(
        "INSERT INTO customers SELECT i, (['NO', 'SE', 'IT'])[1 + i % 3], CASE WHEN i % 4 = 0 THEN"
        " 'business' ELSE 'consumer' END, 'Oslo', (i % 90)::INTEGER, 20000.0 + i * 20, i % 5 = 0,"
        " DATE '2021-01-01', '', '' FROM range(6000) AS r(i)"
    )
    schema = Schema(declared(engine.rows), "here")
    policy = bind(load(str(CATALOGS / "shop.toml")), schema, PublicTables(engine, DUCKDB).values)
    return policy, engine


def answers(prepared: Prepared, engine: PlainEngine, count: int) -> list[Answer]:
    """Independent answers over the same exact integers, with the real noise."""
    plan, rewritten = prepared.plan, prepared.rewritten
    assert plan is not None
    exact = [engine.aggregate(sql.sql, len(sql.keys), sql.parts, 1) for sql in rewritten.blocks]
    sampler = pooled(SAMPLER, count)
    return [
        finish(
            plan,
            rewritten,
            [release(e, block, sampler) for e, block in zip(exact, plan.blocks, strict=True)],
            engine.rows,
            engine.scratch,
            RECEIPT,
        )
        for _ in range(count)
    ]


def at_once(prepared: Prepared, engine: PlainEngine, count: int) -> Answer:
    """Independent releases as the rows of one answer, where each row is computed by itself."""
    assert prepared.plan is not None
    (block,), (statement,) = prepared.plan.blocks, prepared.rewritten.blocks
    exact = engine.aggregate(statement.sql, 0, statement.parts, 1)
    many = listing(block, tuple((n,) for n in range(count)))
    parts = [np.repeat(part, count) for part in exact.parts]
    noisy = release(Exact(list(many.domain or ()), parts), many, SAMPLER)
    rows = Noisy(((),) * count, noisy.parts)
    return finish(prepared.plan, prepared.rewritten, [rows], engine.rows, engine.scratch, RECEIPT)


def coverage(sql: str, factor: float = 1.0) -> float:
    """The share of answers whose interval, stretched by `factor`, holds the true value."""
    policy, engine = crowd()
    prepared = compiled(sql, policy, engine, epsilon=Fraction(2))
    true = float(noiseless(prepared, engine)[0][0][0])
    if sql in ROW_BY_ROW.values():
        answer = at_once(prepared, engine, RELEASES)
        found = list(zip(answer.rows, answer.margins, strict=True))
    else:
        found = [(a.rows[0], a.margins[0]) for a in answers(prepared, engine, RELEASES)]
    held = 0
    for (value, *_), (margin, *_) in found:
        assert margin is not None
        held += abs(float(value) - true) <= factor * margin
    assert len(found) == RELEASES
    return held / RELEASES


@pytest.mark.full("thousands of releases are sampled")
@pytest.mark.parametrize("what", COVERED)
def test_intervals_cover(what: str) -> None:
    # At a true 95 %, 400 answers leave [0.88, 0.995] less than once in a million runs.
    assert 0.88 <= coverage(COVERED[what]) <= 0.995


FORMULAS = {
    "a mean": "AVG(income)",
    "a mean of few": "AVG(age) FILTER (WHERE customer_id < 100)",
    "a ratio": "100.0 * COUNT(*) FILTER (WHERE vip) / COUNT(*)",
    "a variance": "VAR_POP(age)",
    "a standard deviation": "STDDEV(age)",
    "a covariance": "COVAR_POP(age, income)",
    "a correlation": "CORR(customer_id % 50, income)",
    "a slope": "REGR_SLOPE(income, age)",
    "an intercept": "REGR_INTERCEPT(age, income)",
    "a coefficient of variation": "STDDEV_POP(age) / AVG(age)",
    "a logarithm": "LN(COUNT(*))",
}
ROUNDS = 2_000


def many(formula: str, accountant: str, epsilon: str) -> tuple[float, Answer]:
    """The truth, and many releases computed at once as rows."""
    policy, engine = crowd()
    delta = Decimal(0) if accountant == "pure" else BUDGET.query_delta
    budget = replace(BUDGET, accountant=accountant, query_delta=delta)
    sql = f"SELECT {formula} AS n FROM customers"
    prepared = compiled(sql, policy, engine, budget=budget, epsilon=Fraction(epsilon))
    true = float(noiseless(prepared, engine)[0][0][0])
    return true, at_once(prepared, engine, ROUNDS)


def held(formula: str, accountant: str, epsilon: str, factor: float = 1.0) -> float:
    """The share of many releases whose interval holds the truth."""
    true, answer = many(formula, accountant, epsilon)
    inside = [
        value is not None and margin is not None and bool(abs(value - true) <= factor * margin)
        for (value,), (margin,) in zip(answer.rows, answer.margins, strict=True)
    ]
    return sum(inside) / ROUNDS


@pytest.mark.full("draws random questions or values")
@pytest.mark.parametrize(
    ("accountant", "epsilon"), [("zcdp", "0.3"), ("zcdp", "2"), ("pure", "0.5")]
)
def test_intervals_of_formulas_cover(accountant: str, epsilon: str) -> None:
    """Each formula's 2,000 releases leave room for chance; all together hold what is promised.

    Whole noise of few steps holds a little more than it must, and so do sums of Laplace noise,
    which are given the margin of one.
    """
    shares = [held(formula, accountant, epsilon) for formula in FORMULAS.values()]
    assert all(0.92 <= share <= 0.99 for share in shares), shares
    assert 0.93 <= sum(shares) / len(shares) <= 0.97


def test_intervals_of_half_the_width_do_not() -> None:
    assert held(FORMULAS["a variance"], "zcdp", "0.3", factor=0.5) < 0.8
    assert held(FORMULAS["a correlation"], "pure", "0.5", factor=0.5) < 0.85


def test_a_wrong_margin_would_be_seen() -> None:
    assert coverage(COVERED["a ratio"], factor=0.5) < 0.88
    assert coverage(COVERED["an average"], factor=2.0) > 0.995


@pytest.mark.parametrize(
    ("sql", "errors"),
    [
        ("SELECT segment, COUNT(*) AS n FROM customers GROUP BY 1", (None, "known")),
        ("SELECT COUNT(*) > 3 AS many, 7 AS seven FROM customers", (None, None)),
        ("SELECT MAX(code) AS c FROM countries", (None,)),
        (
            "SELECT MAD(n) AS m FROM (SELECT vip, COUNT(*) AS n FROM customers GROUP BY 1) AS t",
            ("unknown",),
        ),
        (
            "SELECT n FROM (SELECT COUNT(*) AS n FROM customers EXCEPT SELECT 0) AS t",
            ("unknown",),
        ),
    ],
)
def test_what_is_exact_known_and_unknown(sql: str, errors: tuple[str | None, ...]) -> None:
    policy, engine = crowd()
    prepared = compiled(sql, policy, engine)
    if prepared.plan is None:
        assert set(errors) == {None}
        return
    for found, expected in zip(answers(prepared, engine, 1)[0].errors[0], errors, strict=True):
        kind = None if found is None else "unknown" if isnan(found) else "known"
        assert kind == expected


@pytest.mark.parametrize(
    ("value", "error"),
    [
        ("RANK() OVER (ORDER BY segment)", "known"),
        ("RANK() OVER (ORDER BY n DESC)", "unknown"),
        ("NTILE(2) OVER (ORDER BY n)", "unknown"),
        ("COUNT(*) OVER (PARTITION BY n > 3)", "unknown"),
        ("COUNT(n) OVER ()", "known"),
        ("COUNT(DISTINCT n) OVER ()", "unknown"),
        ("SUM(n) OVER (ORDER BY segment)", "known"),
        ("SUM(n) OVER (ORDER BY n)", "unknown"),
        ("SUM(7) FILTER (WHERE n > 3) OVER ()", "unknown"),
        ("NTH_VALUE(n, 1) OVER (ORDER BY segment)", "known"),
        ("FIRST_VALUE(n IGNORE NULLS) OVER (ORDER BY segment)", "known"),
        ("FIRST_VALUE(NULLIF(n, 3) IGNORE NULLS) OVER (ORDER BY segment)", "unknown"),
        ("LAG(n, 0, 5) OVER (ORDER BY segment)", "known"),
        ("LAG(n, 0, n) OVER (ORDER BY segment)", "unknown"),
        ("STDDEV(n) OVER ()", "known"),
        ("MEDIAN(n) OVER ()", "known"),
        ("LENGTH(FIRST_VALUE(segment) OVER (ORDER BY n))", "unknown"),
    ],
)
def test_windows_over_noise(value: str, error: str | None) -> None:
    released = "SELECT segment, COUNT(*) AS n FROM customers GROUP BY 1"
    sql = f"SELECT {value} AS v FROM ({released}) AS t ORDER BY segment"
    test_what_is_exact_known_and_unknown(sql, (error,))


@pytest.mark.parametrize(
    ("value", "error"),
    [
        ("COUNT(*)", "known"),
        ("COUNT(n)", "known"),
        ("COUNT(*) FILTER (WHERE n > 3)", "unknown"),
        ("COUNT(DISTINCT n)", "unknown"),
        ("SUM(n)", "known"),
        ("SUM(DISTINCT n)", "unknown"),
        ("FIRST(7 ORDER BY n)", "unknown"),
        ("ARG_MAX(7, n)", "unknown"),
        ("STDDEV(n)", "known"),
        ("STDDEV(n) FILTER (WHERE n > 3)", "unknown"),
        ("KURTOSIS(n)", "unknown"),
        ("MEDIAN(n)", "known"),
        ("QUANTILE_DISC(n, 0.9)", "known"),
        ("PERCENTILE_CONT(0.9) WITHIN GROUP (ORDER BY n DESC)", "known"),
        ("PERCENTILE_DISC(0.9) WITHIN GROUP (ORDER BY n) FILTER (WHERE n > 3)", "unknown"),
        ("FIRST(n ORDER BY segment)", "known"),
        ("MAX_BY(n, segment)", "known"),
        ("COVAR_POP(n, LENGTH(segment))", "known"),
        ("COVAR_POP(n, n)", "unknown"),
        ("REGR_COUNT(n, LENGTH(segment))", "known"),
        ("STRING_AGG(segment, '-' ORDER BY n)", None),  # not a number
    ],
)
def test_aggregates_over_noise(value: str, error: str | None) -> None:
    released = "SELECT segment, COUNT(*) AS n FROM customers GROUP BY 1"
    test_what_is_exact_known_and_unknown(f"SELECT {value} AS v FROM ({released}) AS t", (error,))
    kept = None if error is None and value.startswith("STRING") else "unknown"
    by_noise = f"SELECT {value} AS v FROM ({released}) AS t GROUP BY n"
    test_what_is_exact_known_and_unknown(by_noise, (kept,))


@pytest.mark.parametrize(
    ("value", "rest", "error"),
    [
        ("SUM(n)", "ORDER BY n DESC LIMIT 1) AS t", "known"),
        ("AVG(n + 1)", "ORDER BY n DESC LIMIT 1) AS t", "unknown"),
        ("SUM(n) FILTER (WHERE segment = 'business')", "ORDER BY n LIMIT 1) AS t", "unknown"),
        ("SUM(n)", "ORDER BY n LIMIT 1 OFFSET 1) AS t", "unknown"),
        ("SUM(n)", "ORDER BY n LIMIT 1) AS t WHERE segment = 'business'", "unknown"),
        ("SUM(n)", "ORDER BY n LIMIT 1) AS t GROUP BY segment", "unknown"),
        ("SUM(LENGTH(segment))", "ORDER BY n LIMIT 1) AS t", "unknown"),
    ],
)
def test_sums_of_the_first_rows(value: str, rest: str, error: str) -> None:
    released = "SELECT segment, COUNT(*) AS n FROM customers GROUP BY 1"
    test_what_is_exact_known_and_unknown(f"SELECT {value} FROM ({released} {rest}", (error,))


@pytest.mark.parametrize(("levels", "known"), [(3, True), (18, False)])
def test_formulas_that_double_with_every_query_stay_small(levels: int, known: bool) -> None:  # noqa: FBT001
    """Expanded over their measurements, 18 levels would be a quarter of a million nodes."""
    policy, engine = crowd()
    sql = "SELECT COUNT(*) AS n FROM customers"
    for _ in range(levels):
        sql = f"SELECT n + n AS n FROM ({sql}) AS t"
    prepared = compiled(sql + " ORDER BY n DESC LIMIT 1", policy, engine)
    (answer,) = answers(prepared, engine, 1)
    error = answer.errors[0][0]
    assert error is not None
    assert isnan(error) != known
    expected = prepared.rewritten.expected[0]
    assert expected is not None
    assert isnan(expected) != known


def test_counts_below_zero_are_shown_as_zero_on_request() -> None:
    """Noise that takes everything down: without the wish it shows, with it only where it may."""
    policy, engine = crowd()
    asked = "COUNT(*) FILTER (WHERE age > 200) AS n, SUM(age) FILTER (WHERE age > 200) AS s"
    private = "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(nonnegative = true) "
    rest = ", SUM(age - 60) FILTER (WHERE age > 200) AS d FROM customers"
    shown = {}
    for wish in ("SELECT ", private):
        prepared = compiled(wish + asked + rest, policy, engine)
        assert prepared.plan is not None
        noisy = [Noisy(((),), ((-5,) * len(prepared.plan.blocks[0].releases),))]
        answer = finish(
            prepared.plan, prepared.rewritten, noisy, engine.rows, engine.scratch, RECEIPT
        )
        shown[wish] = [float(value) for value in answer.rows[0]]
        assert all(error is not None and error > 0 for error in answer.errors[0])
    assert shown["SELECT "] == [-5, -5, -5]
    assert shown[private] == [0, 0, -5]


def test_the_error_of_a_length_of_time_is_that_of_its_seconds() -> None:
    wait = "placed_at - TIMESTAMP '2024-01-01'"
    forms = (f"SUM({wait})", f"SUM(EXTRACT(EPOCH FROM {wait}))", f"2 * SUM({wait})")
    margins: list[float | None] = []
    for form in forms:
        made = compiled(f"SELECT {form} AS n FROM orders", *shop())
        margins += expected_margins(made.plan, made.rewritten)
    length, seconds, twice = (margin or 0.0 for margin in margins)
    assert length > 0
    assert length == pytest.approx(seconds, rel=1e-3)
    assert twice == pytest.approx(2 * length)


def test_a_length_of_time_that_nothing_moves_is_exact() -> None:
    made = compiled("SELECT COUNT(*) AS n, INTERVAL '1 day' AS day FROM orders", *shop())
    margin, exact = expected_margins(made.plan, made.rewritten)
    assert margin
    assert exact is None
    assert noiseless(made, shop()[1])[0][0][1] == timedelta(days=1)
