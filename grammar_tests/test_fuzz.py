"""Laws 1, 2 and totality on random queries over random small databases, with wrong twins.

The examples are the same in every run; a counter-example shrinks and is kept in cases/fuzz.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Any, TypeVar

import duckdb
import pytest
from hypothesis import HealthCheck, Phase, find, given, seed, settings
from hypothesis import strategies as st

from dpsql.compiler.plan.prepared import Prepared
from dpsql.compiler.track import joins
from dpsql.dialects.reading.function_names import scalars
from dpsql.model.algebra import Match
from dpsql.model.tree import Expression
from dpsql.model.vocabulary import Loss
from grammar_tests import fuzz_world
from grammar_tests.fuzz_checks import Damage, Verdict, agree, law_one, law_two, totality
from grammar_tests.fuzz_queries import QUERIES, SWAYED
from grammar_tests.fuzz_terms import FOREIGN, templates
from grammar_tests.laws import compiled, noiseless

V = TypeVar("V")
ENOUGH = 5_000
"""Accepted queries of law 1 in a campaign."""
PARTS = 10
"""Tests among which they are divided."""
SLICE = 50
"""Accepted queries of law 1 in the full tier."""
SOME = 600
"""Queries of law 2 and of totality on adversarial data in a campaign."""
SWAYS = 40
"""Queries of law 2 about what is chosen, sampled, tested or has several moments, per run."""
FEW = 200
"""Queries within which a broken compiler is found."""


def examples(count: int, *, shrink: bool = True) -> settings:
    """The same `count` examples in every run."""
    return settings(
        max_examples=count,
        derandomize=True,
        database=None,
        deadline=None,
        phases=(Phase.generate, Phase.shrink) if shrink else (Phase.generate,),
        suppress_health_check=list(HealthCheck),
    )


def tally(
    count: int,
    check: Callable[[str, int], V],
    *,
    shrink: bool = True,
    queries: st.SearchStrategy[str] = QUERIES,
    start: int = 0,
) -> Counter[V]:
    """What a check says of this many random queries, each with the number of a random shop.

    Another `start` makes other queries, always the same.
    """
    said: Counter[V] = Counter()

    @seed(start)
    @examples(count, shrink=shrink)
    @given(queries, st.integers(0, fuzz_world.SHOPS - 1))
    def holds(sql: str, number: int) -> None:
        said[check(sql, number)] += 1

    holds()
    return said


def damaged(damage: Damage) -> Callable[[str, int], Verdict]:
    return lambda sql, number: law_one(sql, number, damage)


# --- law 1 ---


def sliced(count: int, parts: int, each: int) -> pytest.MarkDecorator:
    """A slice of `count` queries in the full tier, and `parts` of `each` in a campaign."""
    first = pytest.param(parts, count, marks=pytest.mark.full("a slice of a campaign"))
    others = [pytest.param(part, each, marks=pytest.mark.campaign) for part in range(parts)]
    return pytest.mark.parametrize(("part", "count"), [first, *others])


@sliced(SLICE, PARTS, ENOUGH // PARTS)
def test_without_noise_random_queries_are_answered_as_plain_duckdb_answers(
    part: int, count: int
) -> None:
    said = tally(count * 11 // 10, law_one, start=part)
    accepted = said.total() - said[Verdict.REFUSED]
    assert accepted >= count
    assert said[Verdict.HELD] >= 0.8 * accepted


def filter_dropped(prepared: Prepared) -> Prepared:
    """FILTER forgotten by the step that writes SQL."""
    return _with_sql(prepared, r" FILTER \(WHERE x\d+\)", "")


def having_dropped(prepared: Prepared) -> Prepared:
    """HAVING, and what else filters results, forgotten."""
    outer = prepared.rewritten.outer_sql.replace(" WHERE ", " WHERE TRUE OR ")
    return replace(prepared, rewritten=replace(prepared.rewritten, outer_sql=outer))


def null_keys_dropped(prepared: Prepared) -> Prepared:
    """Rows whose first key is NULL left out."""
    return _with_sql(prepared, r" GROUP BY k0[^()]*$", r"\g<0> HAVING NOT k0 IS NULL")


def _with_sql(prepared: Prepared, pattern: str, instead: str) -> Prepared:
    blocks = tuple(
        replace(block, sql=re.sub(pattern, instead, block.sql))
        for block in prepared.rewritten.blocks
    )
    return replace(prepared, rewritten=replace(prepared.rewritten, blocks=blocks))


@pytest.mark.full("measures neighbours or further data sets")
@pytest.mark.parametrize("damage", [filter_dropped, having_dropped, null_keys_dropped])
def test_a_broken_step_is_found(damage: Damage) -> None:
    with pytest.raises(AssertionError):
        tally(FEW, damaged(damage), shrink=False)


def test_the_rows_of_an_answer_are_told_apart() -> None:
    nothing, noise = [(None, None)], [(None, 1.0)]
    nan = float("nan")
    assert agree([("a", 0)], noise, [("a", None)], 0)
    assert agree([(nan, 3)], noise, [(nan, nan)], 0)
    assert not agree([("a", 0)], nothing, [("a", None)], 0)
    assert not agree([("a", 0)], noise, [("b", None)], 0)
    assert not agree([("a", 1)], noise, [("a", 2)], 0)
    assert not agree([("a", 1)], noise, [], 0)
    assert not agree([(None, 1)], noise, [(0, 1)], 0)
    assert agree([("a", 0)], nothing, [("a", None)], 0, known=True)
    assert not agree([("a", 1)], nothing, [("a", 2)], 0, known=True)
    assert not agree([("a", None)], nothing, [("a", 2)], 0, known=True)


@pytest.mark.full("draws random questions or values")
@pytest.mark.parametrize("call", ["MIN(duration)", "MAX(duration)", "MODE(duration)", "MAX(7)"])
def test_what_every_row_has_is_told_of_no_rows_too(call: str) -> None:
    """That there is a row is private: the answer is the same whether one passes or not."""
    sql = f"SELECT {call} AS v FROM events WHERE duration IN (60, 60)"
    told, missing = set[object](), set[bool]()
    for number in range(fuzz_world.SHOPS):
        policy, engine = fuzz_world.shop(number)
        prepared = compiled(sql, policy, engine)
        assert law_one(sql, number) is Verdict.HELD
        assert prepared.plan is not None
        assert prepared.plan.loss == Loss(0)
        told |= {row[0] for row in noiseless(prepared, engine)[0]}
        missing |= {row[0] is None for row in engine.rows(sql)}
    assert told == {7 if call == "MAX(7)" else 60}
    assert True in missing


NOT_IN = (
    "SELECT COUNT(*) AS n FROM orders AS t WHERE t.note NOT IN"
    " (SELECT s.note FROM orders AS s WHERE s.customer_id = t.customer_id AND s.amount > 20)"
)


@pytest.mark.full("draws random questions or values")
def test_a_null_among_the_values_is_not_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    assert {law_one(NOT_IN, number) for number in range(fuzz_world.SHOPS)} == {Verdict.HELD}

    def folded(*, member: tuple[Expression, Expression], **rest: Any) -> Match:
        """IN as EXISTS of an equal value."""
        rest["condition"] &= member[0].eq(member[1])
        return Match(**rest)

    monkeypatch.setattr(joins, "Match", folded)
    with pytest.raises(AssertionError):
        [law_one(NOT_IN, number) for number in range(fuzz_world.SHOPS)]


# --- law 2 ---


@sliced(FEW // 8, SOME // FEW, FEW)
def test_a_unit_of_random_queries_moves_no_more_than_claimed(part: int, count: int) -> None:
    said = tally(count, lambda sql, _: law_two(sql), start=part)
    assert said[True] >= 0.6 * count


def one_group(prepared: Prepared) -> Prepared:
    """An L0 of one, whatever the keys."""
    assert prepared.plan is not None
    blocks = tuple(
        replace(block, groups=replace(block.groups, value=1)) for block in prepared.plan.blocks
    )
    return replace(prepared, plan=replace(prepared.plan, blocks=blocks))


def test_a_wrong_claim_is_found() -> None:
    with pytest.raises(AssertionError, match="groups moved"):
        tally(FEW, lambda sql, _: law_two(sql, one_group), shrink=False)


@pytest.mark.full("hundreds of random queries")
def test_a_unit_sways_choices_samples_and_moments_no_more_than_claimed() -> None:
    said = tally(SWAYS, lambda sql, _: law_two(sql), queries=SWAYED)
    assert said[True] >= 0.6 * SWAYS


def half_a_range(prepared: Prepared) -> Prepared:
    """Choices that claim half of what their rate makes of a unit's rows."""
    assert prepared.plan is not None
    blocks = tuple(
        replace(block, choices=tuple(replace(c, epsilon=c.epsilon / 2) for c in block.choices))
        for block in prepared.plan.blocks
    )
    return replace(prepared, plan=replace(prepared.plan, blocks=blocks))


@pytest.mark.full("hundreds of random queries")
def test_a_wrong_range_is_found() -> None:
    with pytest.raises(AssertionError, match="was swayed by"):
        tally(FEW, lambda sql, _: law_two(sql, half_a_range), shrink=False, queries=SWAYED)


# --- totality ---


@sliced(FEW // 4, SOME // FEW, FEW)
def test_random_queries_raise_nothing_on_adversarial_data(part: int, count: int) -> None:
    said = tally(count, totality, start=part)
    assert said[True] >= 0.6 * count


def untried(prepared: Prepared) -> Prepared:
    """Every guard forgotten."""
    return _with_sql(_with_sql(prepared, r"TRY\(", "("), r"TRY_CAST\(", "CAST(")


@pytest.mark.full("measures neighbours or further data sets")
def test_a_form_that_is_not_total_is_found() -> None:
    with pytest.raises(duckdb.Error):
        tally(FEW, lambda sql, number: totality(sql, number, untried), shrink=False)


# --- the grammar ---


def test_every_function_is_called() -> None:
    written = {name for names in templates().values() for name in names}
    assert set(scalars()) <= written | FOREIGN
    assert not written & FOREIGN


@pytest.mark.full("hundreds of random queries")
@pytest.mark.parametrize(
    "word",
    [
        *("FILTER", "OVER", "WITH c0"),
        *(pytest.param(w, marks=pytest.mark.campaign) for w in "HAVING UNION USING LIMIT".split()),
    ],
)
def test_random_queries_say_this_and_shrink(word: str) -> None:
    smallest = find(QUERIES, lambda sql: word in sql, settings=examples(2000))
    assert len(smallest) < 1000
