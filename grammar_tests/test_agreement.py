"""Measurements that must agree: against a dense solution, and the errors that follow from it."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpsql.compiler.plan.prepared import Prepared
from dpsql.consistency.least_squares import Agreement, agreed, covariance, dependent
from dpsql.model.ticking import CHECK
from dpsql.model.vocabulary import Answer, Exact, Noisy
from dpsql.release.finish import finish
from dpsql.release.release import release
from grammar_tests.keys_kit import listing
from grammar_tests.laws import BUDGET, compiled, noiseless
from grammar_tests.test_finish import RECEIPT, ROUNDS, SAMPLER, crowd

HALVES = Agreement(((0,), (1, 2)))
LEVELS = [Agreement(((0,), (1, 2), (3, 4, 5))), Agreement(((1,), (6, 7)))]
"""A whole, divided in two ways, and one of its parts divided again."""


def reference(agreements: list[Agreement], deviations: list[float]) -> tuple[np.ndarray, ...]:
    """Generalised least squares over the cells behind the measurements.

    The unknowns are any basis of what keeps the agreements: y = A·x + noise, solved as
    (AᵀV⁻¹A)⁻¹AᵀV⁻¹y. Gives the map from y to the estimate, and its covariance.
    """
    count = len(deviations)
    rows = []
    for agreement in agreements:
        for other in agreement.lists[1:]:
            row = np.zeros(count)
            row[list(agreement.lists[0])] -= 1
            row[list(other)] += 1
            rows.append(row)
    _, sizes, axes = np.linalg.svd(np.array(rows))
    basis = axes[int((sizes > 1e-9).sum()) :].T
    weight = np.diag(1 / np.square(deviations))
    inverse = np.linalg.inv(basis.T @ weight @ basis)
    return basis @ inverse @ basis.T @ weight, basis @ inverse @ basis.T


@pytest.mark.full("measures neighbours or further data sets")
@given(st.lists(st.floats(0.5, 500.0), min_size=8, max_size=8))
def test_agreement_is_generalised_least_squares(deviations: list[float]) -> None:
    estimate, errors = reference(LEVELS, deviations)
    assert covariance(LEVELS, deviations) == pytest.approx(errors, rel=1e-6, abs=1e-6)
    noisy = (1000, 530, 480, 200, 390, 420, 222, 333)
    (found,) = agreed([noisy], LEVELS, deviations)
    assert np.abs(np.array(found) - estimate @ noisy).max() <= 2.5
    for agreement in LEVELS:
        sums = {sum(found[place] or 0 for place in listed) for listed in agreement.lists}
        assert len(sums) == 1


APART = [Agreement(((7,), (1, 4), (0, 2, 6))), Agreement(((3,), (8, 9)))]
"""Two wholes, each divided in its own ways; nothing is measured of 5."""


@pytest.mark.full("measures neighbours or further data sets")
@given(st.lists(st.floats(0.5, 500.0), min_size=10, max_size=10))
def test_wholes_of_their_own_are_settled_one_by_one(deviations: list[float]) -> None:
    _, errors = reference(APART, deviations)
    assert covariance(APART, deviations) == pytest.approx(errors, rel=1e-6, abs=1e-6)


def test_many_means_need_no_inverse_and_tick(monkeypatch: pytest.MonkeyPatch) -> None:
    """The pseudoinverse of everything took seconds for 500 means, which nothing could end."""
    monkeypatch.setattr(np.linalg, "pinv", None)
    ticks: list[None] = []
    token = CHECK.set(lambda: ticks.append(None))
    try:
        covariance(APART, [1.0] * 10)
    finally:
        CHECK.reset(token)
    assert len(ticks) == 2


@given(st.lists(st.floats(0.1, 100.0), min_size=8, max_size=8))
def test_no_error_grows(deviations: list[float]) -> None:
    after = np.sqrt(covariance(LEVELS, deviations).diagonal())
    assert all(after <= np.array(deviations) * (1 + 1e-9))
    assert after[0] < deviations[0]


def test_integers_beyond_64_bits_agree_to_the_last_digit() -> None:
    huge = 10**25
    (found,) = agreed([(3 * huge + 4, huge, 2 * huge - 5)], [HALVES], [1.0] * 3)
    assert found == (3 * huge + 1, huge + 3, 2 * huge - 2)
    assert all(type(value) is int for value in found)


def test_what_is_not_part_of_an_agreement_stays() -> None:
    row = (None, 12, 5, 8, 7)
    (found,) = agreed([row], [Agreement(((1,), (2, 3)))], [1.0] * 5)
    assert found == (None, 12, 5, 7, 7)
    assert agreed([row], [], [1.0] * 5) == [row]
    assert agreed([], [HALVES], [1.0] * 3) == []


def test_kin_are_those_of_agreements_with_common_places() -> None:
    apart = Agreement(((8,), (9, 10)))
    assert dependent([*LEVELS, apart]) == [frozenset(range(8)), frozenset({8, 9, 10})]


ASKED = """SELECT COUNT(*) AS n, COUNT(*) FILTER (WHERE vip) AS v,
    COUNT(*) FILTER (WHERE age < 30) AS a, COUNT(*) FILTER (WHERE age < 60) AS b, SUM(age) AS s,
    SUM(age) FILTER (WHERE vip) AS sv,
    SUM(age) FILTER (WHERE segment = 'consumer') AS sc, {} AS f FROM customers"""
FORMULAS = {
    "a total": "COUNT(*)",
    "a part": "COUNT(*) FILTER (WHERE vip)",
    "a sum of parts": "COUNT(*) FILTER (WHERE age < 60)",
    "the rest": "COUNT(*) - COUNT(*) FILTER (WHERE vip)",
    "a share": "100.0 * COUNT(*) FILTER (WHERE vip) / COUNT(*)",
    "parts of two divisions": "COUNT(*) FILTER (WHERE vip) - COUNT(*) FILTER (WHERE age < 30)",
    "a mean": "SUM(age) FILTER (WHERE vip) / COUNT(*) FILTER (WHERE vip)",
    "a ratio of sums": "SUM(age) FILTER (WHERE vip) / SUM(age)",
}


def answered(sql: str, accountant: str) -> tuple[float, Prepared, Answer]:
    """The true value of the last column, and as many rows of answers as there are rounds."""
    policy, engine = crowd(constraints=True)
    delta = Decimal(0) if accountant == "pure" else BUDGET.query_delta
    budget = replace(BUDGET, accountant=accountant, query_delta=delta)
    prepared = compiled(sql, policy, engine, budget=budget, epsilon=Fraction(1, 2))
    true = float(noiseless(prepared, engine)[0][0][-1])
    assert prepared.plan is not None
    (block,), (statement,) = prepared.plan.blocks, prepared.rewritten.blocks
    exact = engine.aggregate(statement.sql, 0, statement.parts, 1)
    many = listing(block, tuple((n,) for n in range(ROUNDS)))
    parts = [np.repeat(part, ROUNDS) for part in exact.parts]
    noisy = release(Exact(list(many.domain or ()), parts), many, SAMPLER)
    rows = Noisy(((),) * ROUNDS, noisy.parts)
    answer = finish(prepared.plan, prepared.rewritten, [rows], engine.rows, engine.scratch, RECEIPT)
    return true, prepared, answer


def held(true: float, answer: Answer, factor: float = 1.0) -> float:
    """The share of rows whose interval, stretched by `factor`, holds the true value."""
    inside = [
        bool(abs(float(row[-1]) - true) <= factor * float(margin[-1] or 0))
        for row, margin in zip(answer.rows, answer.margins, strict=True)
    ]
    return sum(inside) / len(inside)


@pytest.mark.full("thousands of releases are sampled")
@pytest.mark.parametrize("accountant", ["zcdp", "pure"])
def test_intervals_of_what_agrees_cover(accountant: str) -> None:
    shares = {}
    for what, formula in FORMULAS.items():
        true, prepared, answer = answered(ASKED.format(formula), accountant)
        assert prepared.plan is not None
        assert prepared.plan.blocks[0].agreements
        shares[what] = held(true, answer)
        assert held(true, answer, factor=0.5) < 0.85, what
    assert all(0.92 <= share <= 0.985 for share in shares.values()), shares
    assert 0.93 <= sum(shares.values()) / len(shares) <= 0.97


@pytest.mark.full("measures neighbours or further data sets")
def test_answers_agree_to_the_last_row() -> None:
    sql = """SELECT COUNT(*) AS n, COUNT(*) FILTER (WHERE vip) AS v,
        COUNT(*) FILTER (WHERE NOT vip) AS w, COUNT(*) FILTER (WHERE segment = 'consumer') AS c,
        COUNT(*) FILTER (WHERE segment = 'business') AS b FROM customers"""
    _, prepared, answer = answered(sql, "zcdp")
    assert prepared.plan is not None
    (block,) = prepared.plan.blocks
    assert [len(listed) for listed in block.agreements[0].lists] == [1, 2, 2]
    assert all(n == v + w == c + b for n, v, w, c, b in answer.rows)
    assert len({n for n, *_ in answer.rows}) > 10


@pytest.mark.parametrize("nonnegative", ["true", "false"])
def test_counts_by_rising_thresholds_rise_where_none_is_negative(nonnegative: str) -> None:
    """Of ages up to 90 none is beyond: there the counts stay, or fall if that may be."""
    ages = (60, 95, 100, 105)
    shown = ", ".join(f"COUNT(*) FILTER (WHERE age < {age}) AS n{age}" for age in ages)
    options = f"OPTIONS(nonnegative = {nonnegative})"
    sql = f"SELECT WITH DIFFERENTIAL_PRIVACY {options} {shown} FROM customers"
    _, _, answer = answered(sql, "zcdp")
    rising = [all(a <= b for a, b in pairwise(row)) for row in answer.rows]
    assert all(rising) == (nonnegative == "true")
    assert len(set(answer.rows)) > 10
