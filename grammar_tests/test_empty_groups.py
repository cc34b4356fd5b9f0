"""Aggregates over listed groups of which some have no rows: intervals hold the plain numbers."""

from __future__ import annotations

from math import isnan

import pytest

from dpsql.compiler.rewrite import rewrite
from grammar_tests.draws import STREAM
from grammar_tests.laws import compiled
from grammar_tests.test_finish import answers, crowd

GROUPS = (
    "(SELECT age, COUNT(*) AS n, SUM(income) AS s, AVG(income) AS a FROM customers{} GROUP BY age)"
)
SMALL = " WHERE customer_id < 500 OR age < 10"
"""Ten groups then have 66 rows, and eighty have five. Thirty have none in either case."""
FORMS = {
    "an average": "SELECT AVG(n) FROM {} t",
    "the least": "SELECT MIN(n) FROM {} t",
    "the largest": "SELECT MAX(CASE WHEN age = 7 THEN 2 * n ELSE n END) FROM {} t",
    "a median": "SELECT MEDIAN(n) FROM {} t",
    "a low quantile": "SELECT QUANTILE_CONT(n, 0.1) FROM {} t",
    "a count": "SELECT COUNT(n) FROM {} t",
    "an average of sums": "SELECT AVG(s) FROM {} t",
    "a sum of averages": "SELECT SUM(a) FROM {} t",
    "a ratio": "SELECT SUM(n) / COUNT(*) FROM {} t",
    "an exact number": "SELECT MAX(age) FROM {} t",
    "a filter": "SELECT AVG(n) FILTER (WHERE age > 50) FROM {} t",
    "by another key": (
        "SELECT age // 45 AS k, AVG(n) FROM {} t WHERE age < 90 GROUP BY 1 ORDER BY 1"
    ),
    "a union": (
        "SELECT AVG(n) FROM (SELECT n FROM {0} t WHERE age > 30 UNION ALL SELECT n FROM {0} t) u"
    ),
    "a join": "SELECT AVG(n) FROM {} t JOIN (VALUES (3), (95)) v(age) USING (age)",
    "a deviation": "SELECT STDDEV(n) FROM {} t",
    "a window": "SELECT m FROM (SELECT age, AVG(n) OVER () AS m FROM {} t) u WHERE age = 40",
    "a rank": (
        "SELECT r FROM (SELECT age, RANK() OVER (ORDER BY age) AS r FROM {} t) u WHERE age = 40"
    ),
    "a rank downwards": (
        "SELECT r FROM (SELECT age, ROW_NUMBER() OVER (ORDER BY age DESC) AS r FROM {} t) u"
        " WHERE age = 40"
    ),
    "a number beside": (
        "SELECT c FROM (SELECT age, COUNT(*) OVER (PARTITION BY age % 3) AS c FROM {} t) u"
        " WHERE age = 40"
    ),
    "a share of ranks": (
        "SELECT r FROM (SELECT age, PERCENT_RANK() OVER (ORDER BY age) AS r FROM {} t) u"
        " WHERE age = 40"
    ),
    "a match": (
        "SELECT COUNT(*) FROM (VALUES (3), (95), (40)) v(a) WHERE a IN (SELECT age FROM {} t)"
    ),
    "a mark": (
        "SELECT SUM(CASE WHEN EXISTS (SELECT 1 FROM {} t WHERE age = a) THEN 1 ELSE 0 END)"
        " FROM (VALUES (3), (95), (40)) v(a)"
    ),
    "a number before": (
        "SELECT d FROM (SELECT age, n - LAG(n) OVER (ORDER BY age) AS d FROM {} t) u WHERE age = 40"
    ),
}
UNKNOWN = ("a deviation", "a window", "a share of ranks", "a match", "a mark")
"""Forms of which nothing is said unless all groups surely have rows."""


def ends(form: str, rows: str, count: int) -> list[tuple[float, float, float]]:
    """The plain numbers, each with both ends of an interval of each answer."""
    policy, engine = crowd()
    sql = FORMS[form].format(GROUPS.format(rows))
    plain = [row[-1] for row in engine.connection.execute(sql).fetchall()]
    found = []
    for answer in answers(compiled(sql, policy, engine), engine, count):
        assert answer.intervals is not None
        for true, shown in zip(plain, answer.intervals, strict=True):
            assert shown[-1] is not None
            low, high = shown[-1]
            found.append((float(true), float(low), float(high)))
    return found


def certain(form: str) -> list[tuple[float, float, float]]:
    """The plain numbers, with ends that are exact where nothing is known of them."""
    policy, engine = crowd()
    sql = FORMS[form].format(GROUPS.format(""))
    plain = [row[-1] for row in engine.connection.execute(sql).fetchall()]
    answer = answers(compiled(sql, policy, engine), engine, 1)[0]
    shown = [row[-1] for row in answer.rows]
    assert answer.margins is not None
    assert all(each[-1] is None for each in answer.margins)
    return [(float(a), float(b), float(b)) for a, b in zip(plain, shown, strict=True)]


def share(found: list[tuple[float, float, float]]) -> float:
    """The share of intervals that hold the plain number."""
    return sum(low - 1e-6 <= true <= high + 1e-6 for true, low, high in found) / len(found)


@pytest.mark.full("draws a hundred answers to each form")
@pytest.mark.parametrize("rows", ["", SMALL])
@pytest.mark.parametrize("form", FORMS)
def test_intervals_hold_the_numbers_of_groups_with_rows(form: str, rows: str) -> None:
    found = ends(form, rows, 100)
    if form in UNKNOWN or (form == "a number before" and rows):
        assert all(isnan(low) and isnan(high) for _, low, high in found)
    else:
        assert share(found) >= 0.93


def test_wrong_twin_groups_without_rows_are_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    assert share(ends("an average", "", 20)) >= 0.93
    monkeypatch.setattr(rewrite, "_with_groups", lambda noise, _block: noise)
    assert share(ends("an average", "", 5)) == 0
    assert share(ends("a low quantile", "", 5)) == 0
    for form in ("a rank downwards", "a number beside", "a match"):
        assert all(true < low == high for true, low, high in certain(form))


def test_truth_values_of_listed_groups_are_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    """A truth value is no number: without a mark it would look exact."""
    policy, engine = crowd()
    groups = GROUPS.format("")
    sql = (
        f"SELECT a, a IN (SELECT age FROM {groups} t) AS b FROM (VALUES (3), (95)) v(a) ORDER BY 1"
    )
    (answer,) = answers(compiled(sql, policy, engine), engine, 1)
    assert list(answer.rows) == [(3, True), (95, True)]
    assert all(a is None and b is not None and isnan(b) for a, b in answer.margins)
    monkeypatch.setattr(rewrite, "_with_groups", lambda noise, _block: noise)
    (exact,) = answers(compiled(sql, policy, engine), engine, 1)
    assert set(exact.margins) == {(None, None)}


def test_groups_that_surely_have_rows_change_no_interval(monkeypatch: pytest.MonkeyPatch) -> None:
    policy, engine = crowd()
    groups = "SELECT vip AS k, COUNT(*) AS n FROM customers GROUP BY vip"
    sql = f"SELECT AVG(n), MIN(n), MEDIAN(n), SUM(n), AVG(n) - 1 FROM ({groups}) t"

    def shown() -> list[object]:
        STREAM.restart("the same noise")
        (answer,) = answers(compiled(sql, policy, engine), engine, 1)
        return [answer.rows, answer.margins]

    now = shown()
    monkeypatch.setattr(rewrite, "_with_groups", lambda noise, _block: noise)
    assert now == shown()


def test_public_rows_without_private_ones_are_groups() -> None:
    """A plain LEFT JOIN keeps them, so that all are counted."""
    groups = (
        "SELECT c.code AS k, COUNT(u.customer_id) AS n FROM countries c"
        " LEFT JOIN customers u ON u.country = c.code GROUP BY c.code"
    )
    policy, engine = crowd()
    sql = f"SELECT COUNT(*) FROM ({groups}) t"
    (answer,) = answers(compiled(sql, policy, engine), engine, 1)
    assert list(answer.rows) == engine.connection.execute(sql).fetchall()
    assert answer.margins == ((None,),)
