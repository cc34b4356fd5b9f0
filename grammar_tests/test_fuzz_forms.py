"""Laws 1, 2 and totality on random queries that are answered in another form, with wrong twins.

PRIVACY.md R104 and R106: ranks of many units, averages beside rows, limits, and joins of many rows.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis.strategies import SearchStrategy

from dpsql.compiler.resolve import joined_rows, staged_ranks
from grammar_tests.fuzz_checks import Verdict, law_one, law_two, totality
from grammar_tests.fuzz_dice import BYTES, Dice
from grammar_tests.fuzz_forms import OTHERWISE, is_exact, joins, share
from grammar_tests.fuzz_world import SHOPS
from grammar_tests.test_fuzz import one_group, sliced, tally

SLICE, EACH, PARTS = 60, 300, 5
FEW = 100
"""Queries within which a wrong form is found."""


def checked(sql: str, number: int) -> Verdict:
    """Law 1, where the form is exact."""
    return law_one(sql, number) if is_exact(sql) else Verdict.LOOSE


@sliced(SLICE, PARTS, EACH)
def test_random_forms_are_answered_as_the_plain_engine_answers(part: int, count: int) -> None:
    said = tally(count, checked, queries=OTHERWISE, start=part)
    assert said[Verdict.HELD] >= 0.4 * count


@sliced(SLICE, PARTS, EACH)
def test_a_unit_of_random_forms_moves_no_more_than_claimed(part: int, count: int) -> None:
    said = tally(count, lambda sql, _: law_two(sql), queries=OTHERWISE, start=part)
    assert said[True] >= 0.4 * count


@sliced(SLICE, PARTS, EACH)
def test_random_forms_raise_nothing_on_adversarial_data(part: int, count: int) -> None:
    said = tally(count, totality, queries=OTHERWISE, start=part)
    assert said[True] >= 0.4 * count


# --- wrong twins ---


def found(check: Callable[[str, int], object], queries: SearchStrategy[str]) -> None:
    """Law 1 or 2 is broken within a few queries."""
    with pytest.raises(AssertionError):
        tally(FEW, check, shrink=False, queries=queries)


@pytest.mark.full("a hundred random queries")
def test_wrong_twin_a_share_that_excludes_its_end_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    same = {sign: sign for sign in ("lt", "le", "gt", "ge")}
    monkeypatch.setattr(staged_ranks, "_COMPARED", {"cume_dist": same, "percent_rank": same})
    found(checked, BYTES.map(lambda drawn: share(Dice(drawn))))


@pytest.mark.full("a hundred random queries")
def test_wrong_twin_existence_does_not_count_joined_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(joined_rows, "_is_once", lambda _call: True)
    counts = BYTES.map(lambda drawn: joins(Dice(drawn))).filter(lambda sql: "COUNT(*) FROM" in sql)
    found(lambda sql, number: law_one(sql, SHOPS - 1 - number % 3), counts)


def test_wrong_twin_one_group_of_each_unit_is_found() -> None:
    found(lambda sql, _: law_two(sql, one_group), OTHERWISE)
