"""Sparse vector: its promise by exact summation, its runs by audit, each with broken twins.

A stream of queries is its scores (v - t)/D: integers above or below zero.
"""

from __future__ import annotations

import copy
import os
import pickle
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import accumulate, product
from math import exp, fsum, log, prod, sqrt

import numpy as np
import pytest

from dpsql.mechanisms.sparse_vector import AlarmNumbers, Run, SparseVector, sparse_vector
from dpsql.model.vocabulary import Mechanism, Noise
from grammar_tests.draws import pooled
from grammar_tests.test_audit import EPSILON, RELEASES, excess, real

Answers = tuple[bool, ...]


# --- the law, summed exactly ----------------------------------------------------------------------


def mass(noise: Noise, reach: int) -> dict[int, float]:
    weights = {x: exp(-abs(x) / float(noise.scale)) for x in range(-reach, reach + 1)}
    total = fsum(weights.values())
    return {x: w / total for x, w in weights.items()}


def at_least(noise: Noise, t: int) -> float:
    """P(ν >= t) in closed form."""
    q = exp(-1 / float(noise.scale))
    return q**t / (1 + q) if t > 0 else 1 - q ** (1 - t) / (1 + q)


def likelihoods(law: SparseVector, scores: Sequence[int]) -> dict[Answers, float]:
    """The probability of every transcript over queries with these scores (v - t)/D."""
    thresholds = mass(law.threshold, 60 * int(law.threshold.scale + 1))
    above = {z: [at_least(law.query, z - q) for q in scores] for z in thresholds}
    return {
        answers: fsum(
            weight * prod(p if a else 1 - p for p, a in zip(above[z], answers, strict=False))
            for z, weight in thresholds.items()
        )
        for answers in transcripts(law.alarms, len(scores))
    }


def transcripts(alarms: int, queries: int) -> set[Answers]:
    """All that a run can answer: it ends with its last alarm."""
    found = set()
    for answers in product((False, True), repeat=queries):
        total = list(accumulate(answers, initial=0))
        found.add(answers[: total.index(alarms)] if alarms in total else answers)
    return found


def loss(law: SparseVector, here: Sequence[int], there: Sequence[int]) -> float:
    a, b = likelihoods(law, here), likelihoods(law, there)
    return max(abs(log(a[answers] / b[answers])) for answers in a)


WORST = [((0, 0, 0), (1, 1, 1)), ((-3, 5, -2), (-2, 6, -1)), ((2, 2, 2), (1, 1, 1))]
BOTH_WAYS = [((0, 0, 0, 1), (1, 1, 1, 0)), ((0, 2, 0, 2), (1, 1, 1, 1)), *WORST]


@pytest.mark.parametrize("alarms", [1, 2])
@pytest.mark.parametrize(("here", "there"), BOTH_WAYS)
def test_no_transcript_loses_more_than_epsilon(
    alarms: int, here: Sequence[int], there: Sequence[int]
) -> None:
    assert loss(sparse_vector(EPSILON, alarms), here, there) <= EPSILON + 1e-9


@pytest.mark.parametrize("alarms", [1, 2])
@pytest.mark.parametrize(("here", "there"), WORST)
def test_one_way_queries_need_half_the_noise(
    alarms: int, here: Sequence[int], there: Sequence[int]
) -> None:
    assert loss(sparse_vector(EPSILON, alarms, one_way=True), here, there) <= EPSILON + 1e-9


def test_wrong_twin_half_the_noise_is_not_enough_both_ways() -> None:
    law = sparse_vector(EPSILON, 1, one_way=True)
    here, there = (*(0,) * 12, -10), (*(1,) * 12, -11)
    assert loss(law, here, there) > EPSILON + 0.2
    assert loss(sparse_vector(EPSILON, 1), here, there) <= EPSILON + 1e-9


def test_the_parts_of_epsilon_are_all_of_it() -> None:
    for alarms, one_way in product((1, 3, 50), (False, True)):
        law = sparse_vector(Fraction(1, 7), alarms, one_way=one_way)
        shifts = alarms if one_way else 2 * alarms
        used = 1 / law.threshold.scale + shifts / law.query.scale
        assert Fraction(1, 7) * (1 - Fraction(1, 10**9)) <= used <= Fraction(1, 7)
        assert law.event.epsilon == Fraction(1, 7)
        assert law.threshold.mechanism is law.query.mechanism is Mechanism.DISCRETE_LAPLACE


def with_numbers(
    law: SparseVector, numbers: AlarmNumbers, here: Sequence[int], there: Sequence[int]
) -> float:
    """The loss of the worst transcript with numbers, where one unit moves by one step."""
    noise = numbers.noise(1)
    ratios = [
        abs(log(at(noise, x - a) / at(noise, x - b)))
        for a, b in zip(here, there, strict=True)
        for x in range(-40, 41)
    ]
    a, b = likelihoods(law, here), likelihoods(law, there)
    return max(abs(log(a[t] / b[t])) + sum(t) * max(ratios) for t in a)


def at(noise: Noise, x: int) -> float:
    """P(ν = x), but for a factor."""
    return exp(-abs(x) / float(noise.scale))


def test_numbers_of_alarms_lose_what_is_charged_for_them_and_no_less() -> None:
    """Its wrong twin charges for the alarms alone."""
    law, numbers = sparse_vector(EPSILON, 2), AlarmNumbers(EPSILON / 4, 2)
    charged = law.event.epsilon + numbers.event.epsilon * numbers.event.rounds
    worst = max(with_numbers(law, numbers, here, there) for here, there in BOTH_WAYS)
    assert law.event.epsilon + 1e-6 < worst <= charged + 1e-9
    for distance in (1, 7):
        assert distance / numbers.noise(distance).scale <= numbers.epsilon


def test_an_alarm_is_measured_once() -> None:
    run, noise = Run(sparse_vector(EPSILON, 2), silent), AlarmNumbers(EPSILON, 2).noise(1)
    with pytest.raises(ValueError, match="once"):
        run.number(9, noise)
    assert run.above(9, Fraction(1), 1)
    assert run.number(9, noise) == 9
    with pytest.raises(ValueError, match="once"):
        run.number(9, noise)


# --- runs ------------------------------------------------------------------------------------


def silent(_noise: Noise, count: int) -> np.ndarray:
    return np.zeros(count, dtype=np.int64)


def test_without_noise_a_run_compares_exactly_and_ends_after_its_alarms() -> None:
    run = Run(sparse_vector(EPSILON, 2), silent)
    assert not run.above(9, Fraction(19, 2), 1)
    assert run.above(10, Fraction(19, 2), 500)
    assert run.left == 1
    assert run.above(10, Fraction(10), 1)
    assert run.left == 0
    with pytest.raises(ValueError, match="over"):
        run.above(0, Fraction(10), 1)


def test_noise_grows_with_the_distance_and_the_threshold_is_drawn_once() -> None:
    drawn: list[Noise] = []

    def ones(noise: Noise, count: int) -> np.ndarray:
        drawn.append(noise)
        return np.full(count, 3 if len(drawn) == 1 else 1)

    law = sparse_vector(EPSILON, 1)
    run = Run(law, ones)
    assert not run.above(19, Fraction(10), 5)  # 19 + 5·1 < 10 + 5·3
    assert run.above(20, Fraction(10), 5)
    assert drawn == [law.threshold, law.query, law.query]


def test_what_makes_no_run() -> None:
    with pytest.raises(ValueError, match="alarm"):
        sparse_vector(EPSILON, 0)
    with pytest.raises(ValueError, match="positive"):
        sparse_vector(Fraction(0), 1)
    with pytest.raises(ValueError, match="step"):
        Run(sparse_vector(EPSILON, 1), silent).above(0, Fraction(0), 0)


def test_a_run_is_not_copied_shown_or_forked() -> None:
    run = Run(sparse_vector(EPSILON, 1), lambda _noise, count: np.full(count, 4711))
    assert "4711" not in repr(run)
    for duplicate in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(TypeError):
            duplicate(run)
    read, write = os.pipe()
    if os.fork() == 0:
        os.write(write, bytes([run.left]))
        os._exit(0)
    assert os.read(read, 1) == b"\0"
    assert run.left == 1


# --- the audit: 20,000 runs a side ---------------------------------------------------------------


MakeRun = Callable[[SparseVector, Callable[[Noise, int], np.ndarray]], Run]
Statistic = Callable[[Answers], float]


def shown(make: MakeRun, law: SparseVector, scores: Sequence[int]) -> list[Answers]:
    """The transcripts of many runs over the same queries."""
    draw, found = pooled(real), []
    for _ in range(RELEASES):
        run, answers = make(law, draw), list[bool]()
        for score in scores:
            if not run.left:
                break
            answers.append(run.above(score, Fraction(0), 1))
        found.append(tuple(answers))
    return found


@dataclass(frozen=True, slots=True)
class Attack:
    """Queries with their scores on both sides, and what the attacker reads off a transcript."""

    here: tuple[int, ...]
    there: tuple[int, ...]
    read: Statistic
    law: SparseVector

    def refutes(self, make: MakeRun) -> bool:
        ours, theirs = (
            np.array([self.read(answers) for answers in shown(make, self.law, scores)])
            for scores in (self.here, self.there)
        )
        return excess(ours, theirs, 0.0) > 0 or excess(-theirs, -ours, 0.0) > 0


class ForgetsItsNoise(Run):
    """Compares with the exact threshold."""

    __slots__ = ()

    def __init__(self, law: SparseVector, sampler: Callable[[Noise, int], np.ndarray]) -> None:
        super().__init__(law, sampler)
        self._threshold = 0


class ForgetsItsAlarms(Run):
    """Goes on at the same noisy threshold after every alarm."""

    __slots__ = ()

    def above(self, value: int, threshold: Fraction, distance: int) -> bool:
        alarm = super().above(value, threshold, distance)
        self._left = self._law.alarms
        return alarm


class ForgetsQueryNoise(Run):
    """Adds noise to the threshold alone."""

    __slots__ = ()

    def __init__(self, law: SparseVector, sampler: Callable[[Noise, int], np.ndarray]) -> None:
        super().__init__(law, sampler)
        self._draw = silent


def length(answers: Answers) -> float:
    """How long nothing is above."""
    return float(len(answers) - sum(answers))


def contrast(answers: Answers) -> float:
    """Alarms of the queries at even places less those at odd ones: the noisy threshold cancels."""
    return float(sum(answers[::2]) - sum(answers[1::2]))


TWO_WAY, ONE_WAY = sparse_vector(EPSILON, 1), sparse_vector(EPSILON, 1, one_way=True)
LONG_QUIET = Attack((-3,) * 16, (-2,) * 16, length, ONE_WAY)
CANCELLED = Attack((1, 0) * 6, (0, 1) * 6, contrast, TWO_WAY)
STAIRS = Attack((1, 0), (0, 1), contrast, TWO_WAY)


@pytest.mark.full("thousands of releases are sampled")
@pytest.mark.parametrize("attack", [LONG_QUIET, CANCELLED, STAIRS])
def test_the_claim_stands(attack: Attack) -> None:
    assert not attack.refutes(Run)


@pytest.mark.parametrize(
    ("broken", "attack"),
    [
        *(
            pytest.param(*pair, marks=pytest.mark.full("thousands of releases are sampled"))
            for pair in ((ForgetsItsNoise, LONG_QUIET), (ForgetsItsAlarms, CANCELLED))
        ),
        (ForgetsQueryNoise, STAIRS),
    ],
)
def test_a_broken_run_is_refuted(broken: MakeRun, attack: Attack) -> None:
    assert attack.refutes(broken)


@pytest.mark.full("further data sets, and all their neighbours")
def test_the_audit_samples_what_the_law_says() -> None:
    found = shown(Run, ONE_WAY, (0, 1, 0))
    expected = likelihoods(ONE_WAY, (0, 1, 0))
    assert fsum(expected.values()) == pytest.approx(1)
    for answers, p in expected.items():
        assert abs(found.count(answers) / RELEASES - p) < 5 * sqrt(p / RELEASES)
