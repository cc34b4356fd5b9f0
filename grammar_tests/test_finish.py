"""The error of every number: it follows the noise through the outer query, and covers."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from functools import cache, partial
from math import isnan

import pytest

from dpsql import mechanisms
from dpsql.engines.catalogue import tables as declared
from dpsql.entropy import Entropy
from dpsql.finish import finish
from dpsql.model import Answer, Loss, Policy, Receipt
from dpsql.policy.bind import bind
from dpsql.policy.load import load
from dpsql.prepare import Prepared
from dpsql.public import PublicTables
from dpsql.release import release
from dpsql.schema import Schema
from grammar_tests import world
from grammar_tests.bound import CATALOGS
from grammar_tests.laws import PlainEngine, compiled, noiseless

RECEIPT = Receipt("", "", "", "", Decimal(1), Loss(0), Loss(0), Loss(0))
RELEASES = 400

COVERED = {
    "a count": "SELECT COUNT(*) AS n FROM customers",
    "a sum": "SELECT SUM(income) AS n FROM customers",
    "an average": "SELECT AVG(income) AS n FROM customers",
    "a ratio": "SELECT 100.0 * COUNT(*) FILTER (WHERE vip) / COUNT(*) AS n FROM customers",
    "a difference of shared parts": "SELECT 2 * COUNT(*) - COUNT(*) AS n FROM customers",
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
def crowd() -> tuple[Policy, PlainEngine]:
    """The shop with six thousand customers, so that ratios are nearly linear in the noise."""
    engine = PlainEngine(world.build(world.empty(), constraints=False))
    engine.connection.execute(
        "INSERT INTO customers SELECT i, (['NO', 'SE', 'IT'])[1 + i % 3], CASE WHEN i % 4 = 0 THEN"
        " 'business' ELSE 'consumer' END, 'Oslo', (i % 90)::INTEGER, 20000.0 + i * 20, i % 5 = 0,"
        " DATE '2021-01-01', '', '' FROM range(6000) AS r(i)"
    )
    schema = Schema(declared(engine.rows), "here")
    policy = bind(load(str(CATALOGS / "shop.toml")), schema, PublicTables(engine).values)
    return policy, engine


def answers(prepared: Prepared, engine: PlainEngine, count: int) -> list[Answer]:
    """Independent answers over the same exact integers, with the real noise."""
    plan, rewritten = prepared.plan, prepared.rewritten
    assert plan is not None
    exact = [engine.aggregate(sql.sql, len(sql.keys), sql.parts, 1) for sql in rewritten.blocks]
    sampler = partial(mechanisms.sample, entropy=Entropy())
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


def coverage(sql: str, factor: float = 1.0) -> float:
    """The share of answers whose interval, stretched by `factor`, holds the true value."""
    policy, engine = crowd()
    prepared = compiled(sql, policy, engine, epsilon=Fraction(2))
    true = float(noiseless(prepared, engine)[0][0][0])
    held = 0
    for answer in answers(prepared, engine, RELEASES):
        margin = answer.margins[0][0]
        assert margin is not None
        held += abs(float(answer.rows[0][0]) - true) <= factor * margin
    return held / RELEASES


@pytest.mark.parametrize("what", COVERED)
def test_intervals_cover(what: str) -> None:
    # At a true 95 %, 400 answers leave [0.88, 0.995] less than once in a million runs.
    assert 0.88 <= coverage(COVERED[what]) <= 0.995


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
            "SELECT MEDIAN(n) FROM (SELECT segment, COUNT(*) AS n FROM customers GROUP BY 1) AS t",
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
        ("RANK() OVER (ORDER BY segment)", None),
        ("RANK() OVER (ORDER BY n DESC)", "unknown"),
        ("NTILE(2) OVER (ORDER BY n)", "unknown"),
        ("COUNT(*) OVER (PARTITION BY n > 3)", "unknown"),
        ("COUNT(n) OVER ()", None),
        ("COUNT(DISTINCT n) OVER ()", "unknown"),
        ("SUM(n) OVER (ORDER BY segment)", "known"),
        ("SUM(n) OVER (ORDER BY n)", "unknown"),
        ("SUM(7) FILTER (WHERE n > 3) OVER ()", "unknown"),
        ("NTH_VALUE(n, 1) OVER (ORDER BY segment)", "known"),
        ("FIRST_VALUE(n IGNORE NULLS) OVER (ORDER BY segment)", "unknown"),
        ("LAG(n, 0, 5) OVER (ORDER BY segment)", "unknown"),
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
        ("COUNT(*)", None),
        ("COUNT(n)", None),
        ("COUNT(*) FILTER (WHERE n > 3)", "unknown"),
        ("COUNT(DISTINCT n)", "unknown"),
        ("SUM(n)", "known"),
        ("SUM(DISTINCT n)", "unknown"),
        ("FIRST(7 ORDER BY n)", "unknown"),
        ("ARG_MAX(7, n)", "unknown"),
        ("STDDEV(n)", "unknown"),
        ("STRING_AGG(segment, '-' ORDER BY n)", None),  # not a number
    ],
)
def test_aggregates_over_noise(value: str, error: str | None) -> None:
    released = "SELECT segment, COUNT(*) AS n FROM customers GROUP BY 1"
    test_what_is_exact_known_and_unknown(f"SELECT {value} AS v FROM ({released}) AS t", (error,))
    kept = None if error is None and value.startswith("STRING") else "unknown"
    by_noise = f"SELECT {value} AS v FROM ({released}) AS t GROUP BY n"
    test_what_is_exact_known_and_unknown(by_noise, (kept,))
