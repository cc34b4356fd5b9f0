"""Which rows there are was decided by noise: what is made of several of them has no known error.

Private keys that are shown, conditions and limits on noisy numbers, and whatever is joined to them.
"""

from __future__ import annotations

from itertools import product
from math import isnan

import pytest

from dpsql.interfaces.sentences import sentences
from dpsql.model.notices import CountedKeys
from dpsql.proxy import Proxy
from grammar_tests.bound import shop
from grammar_tests.laws import compiled
from grammar_tests.proxy_kit import request

PRIVATE = "SELECT city AS k, LENGTH(city) AS x, COUNT(*) AS n FROM customers GROUP BY city"
PUBLIC = "SELECT segment AS k, LENGTH(segment) AS x, COUNT(*) AS n FROM customers GROUP BY segment"
SELECTED = {
    "private keys": PRIVATE,
    "keys alone": "SELECT DISTINCT city AS k, LENGTH(city) AS x FROM customers",
    "a condition on private keys": f"SELECT * FROM ({PRIVATE}) AS t WHERE x > 4",
    "HAVING": f"{PUBLIC} HAVING COUNT(*) > 5",
    "HAVING on an error": f"{PUBLIC} HAVING AVG(age) > 5",
    "WHERE": f"SELECT * FROM ({PUBLIC}) AS t WHERE n > 5",
    "LIMIT": f"{PUBLIC} ORDER BY COUNT(*) DESC LIMIT 1",
    "LIMIT over columns": f"SELECT k, x FROM ({PUBLIC}) AS t ORDER BY n LIMIT 1",
    "the first keys": (
        "SELECT status AS k, LENGTH(status) AS x FROM orders GROUP BY status"
        " ORDER BY SUM(quantity) DESC LIMIT 1"
    ),
    "DISTINCT ON": f"SELECT DISTINCT ON (x) k, x FROM ({PUBLIC}) AS t ORDER BY x, n",
    "QUALIFY": f"SELECT * FROM ({PUBLIC}) AS t QUALIFY ROW_NUMBER() OVER (ORDER BY n) = 1",
    "a join": f"SELECT a.k, b.x FROM ({PUBLIC}) AS a JOIN ({PUBLIC}) AS b ON a.n < b.n",
    "a join with private keys": (
        f"SELECT code AS k, x FROM countries JOIN ({PRIVATE}) AS t ON t.x = LENGTH(code)"
    ),
    "a LEFT JOIN": f"SELECT a.k, b.x FROM ({PUBLIC}) AS a LEFT JOIN ({PRIVATE}) AS b ON a.x > b.x",
    "UNION ALL": f"SELECT code AS k, 2 AS x FROM countries UNION ALL SELECT k, x FROM ({PRIVATE})",
    "UNION": f"SELECT code AS k, 2 AS x FROM countries UNION SELECT k, n FROM ({PUBLIC}) AS t",
    "EXCEPT": f"SELECT code AS k, 2 AS x FROM countries EXCEPT SELECT k, x FROM ({PRIVATE}) AS t",
    "IN": f"SELECT code AS k, 2 AS x FROM countries WHERE code IN (SELECT k FROM ({PRIVATE}) AS t)",
    "EXISTS": (
        "SELECT code AS k, 2 AS x FROM countries"
        f" WHERE EXISTS (SELECT 1 FROM ({PUBLIC}) AS t WHERE n > 5)"
    ),
    "IN noisy numbers": (
        f"SELECT code AS k, 2 AS x FROM countries WHERE 7 IN (SELECT n FROM ({PUBLIC}) AS t)"
    ),
    "a scalar subquery": (
        "SELECT code AS k, 2 AS x FROM countries WHERE 3 < (SELECT COUNT(*) FROM customers)"
    ),
    "GROUP BY noise": f"SELECT MIN(k) AS k, n AS x FROM ({PUBLIC}) AS t GROUP BY n",
}
MADE = (
    *("COUNT(*)", "COUNT(k)", "COUNT(DISTINCT k)", "SUM(1)", "SUM(x)", "MIN(x)", "MAX(x)"),
    *("AVG(x)", "LENGTH(STRING_AGG(k, ','))", "COUNT(*) FILTER (WHERE x > 4)", "MEDIAN(x)"),
)
WINDOWS = (
    *("ROW_NUMBER() OVER (ORDER BY k)", "COUNT(*) OVER ()", "SUM(x) OVER ()", "NTILE(2) OVER ()"),
    *("LAG(x) OVER (ORDER BY k)", "RANK() OVER (ORDER BY k)", "MAX(x) OVER (PARTITION BY k)"),
)
FORMS = {
    "aggregates": f"SELECT {', '.join(MADE)} FROM ({{}}) AS s",
    "windows": f"SELECT {', '.join(WINDOWS)} FROM ({{}}) AS s",
    "by key": "SELECT COUNT(*), SUM(x) FROM ({}) AS s GROUP BY x",
    "a total beside rows": "SELECT (SELECT COUNT(*) FROM ({}) AS s) + 1 FROM countries",
    "one of them": "SELECT (SELECT x FROM ({}) AS s ORDER BY k LIMIT 1) + 1 AS x",
    "whether there are any": "SELECT CASE WHEN EXISTS (SELECT 1 FROM ({}) AS s) THEN 1 ELSE 0 END",
    "whether it is among them": (
        "SELECT CASE WHEN code IN (SELECT k FROM ({}) AS s) THEN 1 ELSE 0 END FROM countries"
    ),
    "rows that have one": (
        "SELECT COUNT(*) FROM countries WHERE EXISTS (SELECT 1 FROM ({}) AS s WHERE s.k = code)"
    ),
    "columns where there is one": (
        "SELECT COALESCE(s.x, 0), COUNT(s.x) OVER ()"
        " FROM countries LEFT JOIN ({}) AS s ON s.k = code"
    ),
}


def errors(sql: str) -> list[float | None]:
    """The errors that are known before anything is released."""
    return list(compiled(sql, *shop()).rewritten.expected)


OF_GROUPS = ("aggregates", "by key", "a total beside rows")
"""Forms that are refused over private keys alone, or answered for all keys, released or not."""


@pytest.mark.full("further data sets, and all their neighbours")
@pytest.mark.parametrize("source", SELECTED)
def test_what_is_made_of_selected_rows_has_no_known_error(source: str) -> None:
    private = source in ("private keys", "keys alone", "a condition on private keys")
    for form, sql in FORMS.items():
        if private and form in OF_GROUPS:
            continue
        found = errors(sql.format(SELECTED[source]))
        assert all(e is not None and isnan(e) for e in found), form


KEPT = (
    "SELECT c.code AS k, LENGTH(c.code) AS x, COUNT(u.customer_id) AS n"
    " FROM countries c LEFT JOIN customers u ON u.country = c.code GROUP BY c.code"
)
"""Groups of public rows, which need no private ones."""


@pytest.mark.parametrize("form", FORMS)
def test_what_is_made_of_rows_that_are_always_there_is_exact(form: str) -> None:
    assert set(errors(FORMS[form].format(KEPT))) == {None}


@pytest.mark.parametrize("form", OF_GROUPS)
def test_what_is_made_of_groups_that_may_have_no_rows_is_not_exact(form: str) -> None:
    assert None not in errors(FORMS[form].format(PUBLIC))


def test_a_selected_row_says_its_own() -> None:
    """Its key and constants are exact, its numbers have their error."""
    key, constant, count = errors(f"SELECT x, 7, n FROM ({PRIVATE}) AS t ORDER BY n DESC LIMIT 3")
    assert key is None
    assert constant is None
    assert count is not None


@pytest.mark.parametrize(
    ("counted", "source"),
    list(
        product(
            ["NULLIF(n, 3)", "CASE WHEN n > 3 THEN n END", "LN(n)"],
            [PUBLIC],
        )
    ),
)
def test_a_number_of_values_that_noise_makes_null_is_unknown(counted: str, source: str) -> None:
    for call in (f"COUNT({counted})", f"COUNT({counted}) OVER ()"):
        (error,) = set(errors(f"SELECT {call} FROM ({source}) AS t"))
        assert error is not None
        assert isnan(error)


def test_the_number_of_noisy_numbers_is_exact() -> None:
    counted = ("COUNT(n)", "COUNT(n + 1)", "COUNT(CASE WHEN k = 'consumer' THEN n END)")
    assert set(errors(f"SELECT {', '.join(counted)} FROM ({KEPT}) AS t")) == {None}


@pytest.mark.full("opens a proxy for each item")
@pytest.mark.parametrize(
    ("sql", "hint"),
    [
        (f"SELECT k, COUNT(*) OVER () FROM ({PRIVATE}) AS t", "COUNT(DISTINCT k) tells, with"),
        ("SELECT city, age, COUNT(*) OVER () FROM customers GROUP BY 1, 2", "city, age"),
        (f"SELECT COUNT(*) FROM ({PRIVATE}) AS t", None),
        ("SELECT DISTINCT city, COUNT(*) OVER () FROM customers GROUP BY city", "DISTINCT city"),
        (f"SELECT SUM(n) FROM ({PUBLIC}) AS t", None),
        (f"SELECT SUM(n) FROM ({PRIVATE}) AS t", None),
    ],
)
def test_a_count_of_shown_keys_is_told_what_counts_them(
    proxy: Proxy, sql: str, hint: str | None
) -> None:
    answer, plan = proxy.ask(request(sql)), proxy.explain(request(sql))
    for notices in (answer.notices, plan.notices):
        told = [notice for notice in notices if isinstance(notice, CountedKeys)]
        assert len(told) == (hint is not None)
        assert all(hint is not None and hint in said for said in sentences(told, answer.columns))
    if hint is not None:
        assert all(isnan(error) for row in answer.errors for error in row if error is not None)


@pytest.mark.parametrize("asked", ["COUNT(*)", "AVG(n)", "MIN(n)", "MAX(x)", "SUM(n) / COUNT(n)"])
def test_a_notice_says_which_of_listed_groups_are_aggregated(asked: str) -> None:
    told = CountedKeys(("k",), 2)
    assert told in compiled(f"SELECT {asked} FROM ({PUBLIC}) AS t", *shop()).notices
    for other in (f"SELECT SUM(n) FROM ({PUBLIC}) AS t", PUBLIC, f"{PUBLIC} ORDER BY n"):
        assert told not in compiled(other, *shop()).notices
    (said,) = sentences((told,), ())
    assert said == (
        "those of 2 groups by k count that surely have rows;"
        " the interval covers the others, with and without rows"
    )
