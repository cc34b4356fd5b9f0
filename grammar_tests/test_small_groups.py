"""Means of small groups: less error than the clamped ratio, and intervals that still cover."""

from __future__ import annotations

from math import sqrt
from pathlib import Path

import numpy as np
import pytest

from dpsql.compiler.errors import propagate, small_groups
from dpsql.proxy import Proxy
from grammar_tests import accuracy_kit, casefile, proxy_kit, world
from grammar_tests.test_finish import held, many

KEPT = "FILTER (WHERE customer_id < {})"
"""Customer n is n years old, so that such means lie at the end of what is possible."""


def error(formula: str, epsilon: str) -> float:
    """The root mean squared error of 2,000 releases."""
    true, answer = many(formula, "zcdp", epsilon)
    return sqrt(sum((value - true) ** 2 for (value,) in answer.rows) / len(answer.rows))


@pytest.mark.full("measures neighbours or further data sets")
@pytest.mark.parametrize("rows", [3, 20, 60])
def test_small_groups_err_less_than_the_clamped_ratio(rows: int) -> None:
    """REGR_AVGX of a column by itself is the ratio of the same two measurements."""
    kept = KEPT.format(rows)
    ratio = error(f"REGR_AVGX(age, age) {kept}", "0.1")
    assert error(f"AVG(age) {kept}", "0.1") < 0.9 * ratio


@pytest.mark.full("opens a proxy for each item")
def test_means_of_many_rows_are_ratios() -> None:
    ratio = error("REGR_AVGX(age, age)", "1")
    assert error("AVG(age)", "1") == pytest.approx(ratio, rel=0.15)
    true, answer = many("AVG(age)", "zcdp", "1")
    assert sum(value for (value,) in answer.rows) / len(answer.rows) == pytest.approx(
        true, abs=0.02
    )


@pytest.mark.parametrize("rows", [1, 3, 10, 40, 200])
@pytest.mark.parametrize("accountant", ["zcdp", "pure"])
def test_intervals_of_small_groups_cover(rows: int, accountant: str) -> None:
    assert held(f"AVG(age) {KEPT.format(rows)}", accountant, "0.2") >= 0.93


def test_the_error_of_the_estimate_itself_would_not_cover(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is drawn to the middle moves less than it is wrong."""

    monkeypatch.setattr(propagate, "as_ratio", small_groups._estimate)
    assert held(f"AVG(age) {KEPT.format(10)}", "zcdp", "0.2") < 0.8


def coverage_below_the_noise_of_counts() -> float:
    """How many intervals of means hold whose groups' counts are far below their noise."""
    (case,) = (
        c for c in casefile.all_cases() if c.id == "keys/scaled: an average asks for its mean first"
    )
    cells = accuracy_kit.cells(case, "zcdp", 20)
    assert len(cells) > 1000
    return sum(cell.inside for cell in cells) / len(cells)


@pytest.mark.full("draws random questions or values")
def test_intervals_of_means_cover_where_noise_hides_the_count() -> None:
    assert coverage_below_the_noise_of_counts() >= 0.93


def test_the_noise_of_the_sum_alone_would_not_cover(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(small_groups, "_spread", lambda _: 0.0)
    assert coverage_below_the_noise_of_counts() < 0.1


@pytest.mark.full("measures neighbours or further data sets")
def test_means_of_many_rows_err_as_ratios_however_wide_their_bounds(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    _, answer = many("AVG(age)", "zcdp", "1")
    monkeypatch.setattr(small_groups, "_spread", lambda _: 0.0)
    _, narrow = many("AVG(age)", "zcdp", "1")
    assert answer.margins[0] == pytest.approx(narrow.margins[0], rel=0.01)


def chosen_countries(condition: str, folder: Path) -> list[str]:
    """The listed countries that meet a condition, of which Italy has nobody; without noise."""
    tables = {**world.well_behaved(), "customers": []}
    tables["customers"] = [(n, "SE", *world.customer(n)[2:]) for n in range(1, 61)]
    tables |= {name: [] for name in ("orders", "items", "events", "logins")}
    sql = f"SELECT country, AVG(income) AS a FROM customers GROUP BY country {condition}"
    with Proxy.open(str(proxy_kit.shop(folder, tables=tables))) as proxy:
        proxy.vault.sampler = lambda _noise, count: np.zeros(count, dtype=int)
        return [row[0] for row in proxy.ask(proxy_kit.request(sql)).rows]


@pytest.mark.full("opens a proxy")
@pytest.mark.parametrize(
    ("condition", "chosen"),
    [
        ("HAVING AVG(income) > 500", ["SE"]),
        ("HAVING NOT AVG(income) <= 500", ["SE"]),
        ("HAVING AVG(income) IS NULL", ["IT", "NO"]),
        ("HAVING AVG(income) > 500 OR COUNT(*) < 5", ["IT", "NO", "SE"]),
        ("", ["IT", "NO", "SE"]),
    ],
)
def test_a_condition_on_a_mean_of_nobody_is_unknown(
    condition: str, chosen: list[str], tmp_path: Path
) -> None:
    assert sorted(chosen_countries(condition, tmp_path)) == chosen


def test_the_middle_of_the_bounds_would_let_groups_of_nobody_through(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(small_groups, "_or_unknown", lambda expression: expression)
    assert len(chosen_countries("HAVING AVG(income) > 500", tmp_path)) == 3
