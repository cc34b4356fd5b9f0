"""What `benchmarks.clips` says could be reached: known optima, and the rule that two humps fool."""

from __future__ import annotations

from dataclasses import replace
from math import pi, sqrt
from pathlib import Path

import numpy as np
import pytest

from benchmarks import clips
from benchmarks.clips import Law, Recipe, Rows, Totals
from benchmarks.drafts import Owner, Price, decided
from benchmarks.retail.questions import QUESTIONS
from dpsql.model.schema import ForeignKey, Schema, SchemaColumn, SchemaTable
from dpsql.model.tree import INTEGER
from dpsql.policy.load import load

ZCDP, PURE = Law.of("zcdp", 1.0, 1e-6), Law.of("pure", 1.0, 0.0)
LAWS = pytest.mark.parametrize("law", [ZCDP, PURE])


def alone(values: np.ndarray) -> Totals:
    """One group."""
    units = np.arange(len(values))
    return Totals(units, np.zeros(len(values), dtype=np.int64), values.astype(float), 1)


def humps(people: int, one_in: int) -> Totals:
    numbers = np.random.default_rng(5)
    sizes = np.where(np.arange(people) % one_in == 0, 30_000.0, 30.0)
    return alone(sizes * np.exp(0.5 * numbers.standard_normal(people)))


def test_amounts_are_those_of_the_accountants() -> None:
    assert ZCDP.amount == pytest.approx(0.02436, rel=1e-3)
    assert PURE.amount == 1.0


@LAWS
def test_expected_errors_are_those_of_many_draws(law: Law) -> None:
    for bias, scale in ((0.0, 2.0), (3.0, 2.0), (1.0, 0.1)):
        drawn = np.abs(bias + scale * law.draws((200_000,), 1)).mean()
        assert law.expected(bias, scale) == pytest.approx(drawn, rel=0.01)


@LAWS
def test_equal_people_are_cut_nowhere(law: Law) -> None:
    totals = alone(np.full(3000, 64.0))
    for best in (clips.best_fixed(totals, law), clips.best_norm(totals, law)):
        assert best.error == pytest.approx(float(law.expected(0.0, law.scale(64.0))))


def test_the_best_clip_of_many_people_has_few_above_it() -> None:
    totals = alone(1 / (1 - np.random.default_rng(2).random(20_000)) ** 0.5)
    above = {
        law: (totals.value > float(clips.best_norm(totals, law).limit)).sum()
        for law in (ZCDP, PURE)
    }
    assert 2 <= above[ZCDP] <= 9
    assert 1 <= above[PURE] <= 4


@LAWS
def test_scaling_a_norm_beats_limits_of_groups(law: Law) -> None:
    """Ten groups of ten, and one of a thousand: a limit of both cuts one of them."""
    people = np.arange(2000)
    units, groups = np.repeat(people, 10), np.tile(np.arange(10), 2000)
    values = np.where(groups == units % 10, 100.0, 1.0)
    totals = Totals(units, groups, values, 10)
    assert clips.best_norm(totals, law).error < clips.best_fixed(totals, law).error
    shown = clips.best_fixed(totals, law, 3)
    assert shown.error > 0


@LAWS
@pytest.mark.parametrize(("people", "one_in"), [(3000, 10), (100_000, 100)])
def test_two_humps_fool_the_naive_rule_alone(law: Law, people: int, one_in: int) -> None:
    totals = humps(people, one_in)
    recipe = clips.recipe_of(totals, law, 2.0**40)
    best = clips.best_norm(totals, law).error
    right, _ = clips.recipe_error(totals, law, recipe)
    wrong, _ = clips.recipe_error(totals, law, replace(recipe, naive=True))
    assert right <= 2.5 * best
    assert wrong > 10 * best


def test_common_noise_helps_where_people_are_in_many_groups() -> None:
    for groups, part in ((4, 0.75), (10, 0.66), (50, 0.57), (200, 0.54)):
        independent = sqrt(groups / (2 * ZCDP.amount)) * sqrt(2 / pi)
        common = clips.correlated_error(groups, groups, ZCDP)
        assert common / independent == pytest.approx(part, abs=0.01)


def test_quantiles_and_distinct_values_have_a_best_limit() -> None:
    numbers = np.random.default_rng(3)
    rows = Rows(np.repeat(np.arange(2000), 5), numbers.integers(0, 100, 10_000))
    for errors in (
        clips.quantile_errors(rows, 0.5, (0.0, 100.0), ZCDP),
        clips.distinct_errors(rows, ZCDP),
    ):
        assert clips.least(errors).error == min(errors.values())
        assert 1 <= int(clips.least(errors).limit) <= 5
    found = Recipe(0.1, 2.0**20, 1, rank=0.5)
    assert 1 <= np.median(list(found.clips(rows.sizes, ZCDP))) <= 8


@pytest.mark.full("starts processes")
def test_a_mean_that_is_centred_errs_less() -> None:
    numbers = np.random.default_rng(4)
    counts = 1 + numbers.integers(0, 50, 3000)
    above, below = alone(counts * 20 + numbers.standard_normal(3000)), alone(counts)
    proved = 2.0**30, 2.0**20
    twice = clips.recipe_average_error(above, below, ZCDP, proved)
    assert twice < clips.recipe_ratio_error(above, below, ZCDP, proved)


def test_drafts_are_decided(tmp_path: Path) -> None:
    person = SchemaColumn("person", INTEGER, "INTEGER", not_null=True)
    visits = person, SchemaColumn("n", INTEGER, "INTEGER")
    link = ForeignKey(("person",), "people", ("person",))
    tables = (
        SchemaTable("people", (person,), primary_key=("person",)),
        SchemaTable("visits", visits, foreign_keys=(link,)),
        SchemaTable("days", (SchemaColumn("day", INTEGER, "INTEGER"),)),
    )
    owner = Owner(("people", "person"), frozenset({"days"}), {"visits.n": "bounds = [0, 9]"})
    there = Schema(tables), "people.duckdb", owner
    nothing = decided(*there, Price("pure", 0.5, 1e-6))
    limited = decided(*there, Price("zcdp", 0.5, 1e-6), "max_rows_per_unit = 3")
    assert '"DECIDE"' not in nothing
    path = tmp_path / "dpsql.toml"
    for text in (nothing, limited):
        path.write_text(text, encoding="utf-8")
        load(str(path))
    assert "n = { nullable = true, bounds = [0, 9] }" in nothing
    assert [line for line in limited.splitlines() if line.startswith("max_rows")] == [
        "max_rows_per_unit = 3"
    ]


def test_there_are_twenty_questions() -> None:
    assert len({question.sql for question in QUESTIONS}) == 20
    assert all(len(question.each) == len(question.largest) for question in QUESTIONS)
