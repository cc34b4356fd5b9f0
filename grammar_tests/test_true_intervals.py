"""The arithmetic of `benchmarks.truth`, and a few of its draws."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from decimal import Decimal
from math import nan
from statistics import mean
from typing import Any

import numpy as np
import pytest

from benchmarks import hospital
from benchmarks import redrawn as redraws
from benchmarks.redrawn import CHARGED, NONE, Redrawn
from benchmarks.truth import HEADER, Drawn, Row, cells, measured, near, summary, world
from benchmarks.unknown import count_numbers
from dpsql.compiler.plan.private_plan import BlockPlan, PrivatePlan
from dpsql.model.notices import Ranked, RankedBy
from dpsql.model.tree import INTEGER, VARCHAR
from dpsql.model.vocabulary import Answer, Column, Request
from grammar_tests.draws import ENTROPY

TRUTH: dict[Any, Any] = {("a",): ("a", 100), ("b",): ("b", 50), ("c",): ("c", 0)}


def answer(half: float, above: float = 0.0) -> Answer:
    """Groups a, b, c and an unlisted one, 4 too low; intervals end `above` more than `half`."""
    rows = [("a", 96), ("b", 46), ("c", 3), ("d", 7)]
    errors = tuple((None, 2.0) for _ in rows)
    margins = tuple((None, half + above) for _ in rows)
    halves = tuple((None, (half, half + above)) for _ in rows)
    columns = Column("k", VARCHAR), Column("n", INTEGER)
    return Answer(columns, rows, errors, margins, CHARGED, halves=halves)


def test_only_numbers_with_a_true_one_are_judged() -> None:
    assert [cell.width for cell in cells(answer(2.0), TRUTH, 1.96)] == [0.02, 0.04]


def test_what_holds_is_counted_by_ends() -> None:
    for half, above, inside in ((2.0, 0.0, False), (2.0, 2.0, True), (4.0, 0.0, True)):
        for cell in cells(answer(half, above), TRUTH, 1.96):
            assert (cell.inside, cell.low, cell.noise) == (inside, True, False)


def test_numbers_within_a_tenth_are_counted() -> None:
    """96 is near 100 and 46 near 50; a question with a further group has one number less."""
    assert near([answer(2.0)], TRUTH) == 1
    assert near([answer(2.0)], {**TRUTH, ("e",): ("e", 9)}) == pytest.approx(2 / 3)
    assert near([answer(2.0)], {**TRUTH, ("b",): ("b", 30)}) == 0.5


def test_questions_are_counted_as_held_or_as_guesses() -> None:
    rows: list[Row] = [
        ("zcdp", "x", "1", "a", "0.950", "0.980", "0.900", "1%", "1.50", "0%", "0.60"),
        ("zcdp", "x", "1", "b", "0.800", "0.960", "0.940", "1%", "1.10", "50%", "0.40"),
        ("zcdp", "x", "1", "c", "0.800", "0.990", "0.800", "1%", "1.50", "0%", "0.60"),
        ("zcdp", "x", "1", "e", "0.100", "0.960", "0.100", "1%", "1.50", "limit", "0.50"),
        ("zcdp", "x", "1", "d", "", "", "", "", "", "refused: unbounded-input", ""),
    ]
    assert summary(rows) == (
        "3 of 4 questions have half of their numbers within 10 %; 1 of 4 questions hold in 93 %,"
        " 3 with guesses; low ends hold in 97 % for 2;"
        " noise alone: 1; width over the best, median: 1.50"
    )


def test_numbers_with_an_unknown_error_are_counted() -> None:
    ranked = Ranked((2,), RankedBy.RANK, 9)
    rows = (("a", 1, 2, None), ("b", 1, 2, 3), ("c", 1, 2, 3))
    margins = ((None, 2.0, nan, nan), (None, nan, nan, 1.0), (None, 1.0, nan, 1.0))
    drawn = replace(answer(2.0), rows=rows, margins=margins)
    assert count_numbers(drawn, (ranked,)) == {"numbers": 3, "unknown": 2, "ranked": 1}
    assert count_numbers(drawn, ())["ranked"] == 0


ONE = Decimal(1)
LIKE_THE_PROXY = [
    hospital.QUESTIONS[name]
    for name in ("stays by ward", "patients by month", "mean cost by kind", "frequent diagnoses")
]


@pytest.mark.full("asks a whole proxy and draws again")
def test_draws_without_noise_are_the_answers_of_the_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    """The wrong twin has other biases than the draw, and so other intervals."""

    def zeros(_: object, count: int) -> np.ndarray:
        return np.zeros(count, dtype=object)

    def intervals(answers: Iterable[Answer]) -> list[str]:
        return [str([*zip(answer.rows, answer.intervals, strict=True)]) for answer in answers]

    with world("hospital", "zcdp") as (proxy, _):
        proxy.vault.sampler = zeros
        redrawn = Redrawn(proxy, ENTROPY, zeros)
        for sql in LIKE_THE_PROXY:
            drawn = intervals(redrawn.answers(sql, ONE, 1))
            assert drawn == intervals([proxy.ask(Request(sql, proxy.analyst(), epsilon=ONE))])
        monkeypatch.setattr(redraws, "_with_biases", _without_biases)
        sql = LIKE_THE_PROXY[0]
        asked = intervals([proxy.ask(Request(sql, proxy.analyst(), epsilon=ONE))])
        assert intervals(redrawn.answers(sql, ONE, 1)) != asked


def _without_biases(plan: PrivatePlan, *_: object) -> PrivatePlan:
    def of(block: BlockPlan) -> BlockPlan:
        return replace(block, biased=tuple(replace(b, bias=NONE) for b in block.biased))

    return replace(plan, blocks=tuple(map(of, plan.blocks)))


def shares(rows: list[Row], name: str) -> float:
    """The mean share of a column over the questions that are judged."""
    place = HEADER.index(name)
    return mean(float(row[place]) for row in rows if row[place])


@pytest.mark.full("asks 42 questions, and draws again")
@pytest.mark.parametrize(
    ("accountant", "factor", "draws"),
    [
        ("zcdp", 1.96, 4),
        pytest.param("zcdp", 1.96, 10, marks=pytest.mark.campaign),
        pytest.param("pure", 2.118, 10, marks=pytest.mark.campaign),
    ],
)
def test_intervals_hold_over_a_hospital(accountant: str, factor: float, draws: int) -> None:
    """The wrong twin is the interval of noise alone, which loses what limits remove."""
    rows = list(measured("hospital", accountant, [Drawn(draws, Decimal(1), factor)], ENTROPY))
    refused = {row[9] for row in rows if "refused" in row[9]}
    assert refused == ({"refused: private-keys-need-delta"} if accountant == "pure" else set())
    assert sum(bool(row[4]) for row in rows) > 35
    assert shares(rows, "inside") >= 0.94
    assert shares(rows, "low") >= 0.96
    assert shares(rows, "noise") < shares(rows, "inside") - 0.02
