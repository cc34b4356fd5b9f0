"""Choices: the exact laws of the exponential mechanism and of permute-and-flip by chi-square."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from itertools import permutations
from math import exp, factorial, fsum
from statistics import NormalDist
from typing import TypeAlias

import numpy as np
import pytest

from dpsql.mechanisms.entropy import Entropy
from dpsql.mechanisms.exponential import (
    Candidates,
    best,
    exponential,
    permute_and_flip,
    rate_down,
)
from grammar_tests.draws import ENTROPY
from grammar_tests.test_mechanisms import chi_square_z

REJECTED = NormalDist().inv_cdf(1 - 1e-6)
DRAWS = 100_000
Scores: TypeAlias = Sequence[int]
Choose: TypeAlias = Callable[[Candidates, Fraction, Entropy], np.ndarray]


def exponential_law(scores: Scores, rate: float) -> list[float]:
    weights = [exp(rate * (score - max(scores))) for score in scores]
    return [w / fsum(weights) for w in weights]


def flipped_law(scores: Scores, rate: float) -> list[float]:
    """By its definition: every order of the candidates, the first that passes its trial."""
    passes = [exp(rate * (score - max(scores))) for score in scores]
    law = [0.0] * len(scores)
    for order in permutations(range(len(scores))):
        left = 1 / factorial(len(scores))
        for candidate in order:
            law[candidate] += left * passes[candidate]
            left *= 1 - passes[candidate]
    return law


LAWS: dict[Choose, Callable[[Scores, float], list[float]]] = {
    exponential: exponential_law,
    permute_and_flip: flipped_law,
}
LISTS = [
    ([3, 5, 5, 0, 4], Fraction(1, 3)),
    ([0, 7, 12, 12, 1, 9], Fraction(1, 10)),
    ([-40, -39, -38], Fraction(5, 2)),
    ([10**12, 10**12 - 10**11], Fraction(1, 10**11)),
    ([2**80, 2**80 - 3], Fraction(2**70 + 1, 2**71)),
]


def misfit(chosen: np.ndarray, law: Sequence[float]) -> float:
    observed = np.bincount(chosen, minlength=len(law))
    assert len(observed) == len(law)
    return chi_square_z(observed, len(chosen) * np.array(law))


@pytest.mark.parametrize("choose", LAWS)
@pytest.mark.parametrize(("scores", "rate"), LISTS)
def test_choices_fit_their_exact_law(choose: Choose, scores: Scores, rate: Fraction) -> None:
    law = LAWS[choose](scores, float(rate))
    chosen = choose(Candidates.of(scores, DRAWS), rate, ENTROPY)
    assert misfit(chosen, law) < REJECTED


@pytest.mark.parametrize("choose", LAWS)
def test_a_doubled_rate_and_the_other_mechanism_are_rejected(choose: Choose) -> None:
    scores, rate = LISTS[0]
    chosen = choose(Candidates.of(scores, DRAWS), 2 * rate, ENTROPY)
    assert misfit(chosen, LAWS[choose](scores, float(rate))) > REJECTED
    (other,) = (law for mechanism, law in LAWS.items() if mechanism is not choose)
    assert misfit(chosen, other(scores, float(2 * rate))) > REJECTED


@pytest.mark.parametrize("choose", LAWS)
def test_a_run_weighs_as_much_as_its_candidates(choose: Choose) -> None:
    """Two different lists of five candidates, in three and two runs."""
    scores = [[2, 6, 6, 6, 0], [1, 1, 3, 3, 3]]
    runs, behind = [0, 1, 4, 5, 7], [4, 0, 6, 2, 0]
    starts = np.concatenate([np.array(runs) + 10 * n for n in range(DRAWS // 2)])
    candidates = Candidates(DRAWS, 5, starts, np.array(behind * (DRAWS // 2)), np.zeros(DRAWS))
    rate = Fraction(1, 3)
    chosen = choose(candidates, rate, ENTROPY)
    for place, listed in enumerate(scores):
        assert misfit(chosen[place::2], LAWS[choose](listed, float(rate))) < REJECTED
    assert misfit(chosen[::2], LAWS[choose](scores[1], float(rate))) > REJECTED


@pytest.mark.parametrize("choose", LAWS)
def test_a_needle_among_many_candidates_is_found(choose: Choose) -> None:
    size, lists = 1 << 16, 20
    starts = np.arange(lists)[:, None] * size + np.array([0, 40_000, 40_001])
    candidates = Candidates(
        lists, size, starts.ravel(), np.array([10**9, 0, 10**9] * lists), np.zeros(lists)
    )
    assert choose(candidates, Fraction(1), ENTROPY).tolist() == [40_000] * lists


def test_the_best_is_the_first_of_equals() -> None:
    assert best(Candidates.of([1, 4, 4], 3)).tolist() == [1, 1, 1]


@pytest.mark.parametrize("epsilon", [Fraction(1, 3), Fraction(10**9 + 7, 10**9), Fraction(1, 997)])
@pytest.mark.parametrize("spread", [1, 3, 1000, 2**40 + 1])
def test_rates_are_rounded_down_and_simple(epsilon: Fraction, spread: int) -> None:
    rate = rate_down(epsilon, spread)
    assert epsilon * (1 - Fraction(1, 1 << 22)) < rate * spread <= epsilon
    assert rate.numerator.bit_length() <= 25


@pytest.mark.parametrize(("epsilon", "spread"), [(Fraction(0), 1), (Fraction(1), 0)])
def test_a_rate_needs_something_to_spend(epsilon: Fraction, spread: int) -> None:
    with pytest.raises(ValueError, match="positive"):
        rate_down(epsilon, spread)
