"""Noise that groups share: its loss by the divergence of its discrete law, its draws, its gain."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from functools import reduce
from itertools import product
from math import log, sqrt

import numpy as np
import pytest

from dpsql.accountants import get
from dpsql.mechanisms import correlated_gaussian, sample
from dpsql.mechanisms.calibration import gaussian
from dpsql.mechanisms.correlated_gaussian import CorrelatedNoise, ManyGroups, correlated
from dpsql.model.vocabulary import NANO, Event, Mechanism, Neighbours, Noise
from grammar_tests.draws import ENTROPY
from grammar_tests.test_mechanisms import REJECTED, chi_square_z, weight

ORDERS = (1.1, 2.0, 3.0)
EDGE = 22
"""Of noise so narrow as here, hardly anything is farther out."""

SMALL = [(1, 1, 1), (2, 1, 2), (2, 2, 1), (2, 2, 2), (2, 2, 3), (3, 2, 1), (3, 3, 2)]


def draw(noise: Noise, count: int) -> np.ndarray:
    return sample(noise, count, ENTROPY)


def law(noise: Noise, most: int) -> np.ndarray:
    """P(x) for x from -most to most."""
    weights = np.array([weight(noise, x) for x in range(-most, most + 1)])
    return np.asarray(weights / weights.sum())


def joint(noise: CorrelatedNoise, groups: int) -> np.ndarray:
    """P(x) of the vector, of an axis from -EDGE to EDGE for each group, by its definition."""
    own, common = law(noise.own, 3 * EDGE), law(noise.common, 2 * EDGE)
    result = np.zeros((2 * EDGE + 1,) * groups)
    for y, chance in zip(range(-2 * EDGE, 2 * EDGE + 1), common, strict=True):
        shifted = own[2 * EDGE - y : 4 * EDGE + 1 - y]
        result += chance * reduce(np.multiply.outer, [shifted] * groups)
    return result


def divergence(vector: np.ndarray, move: tuple[int, ...], order: float) -> float:
    """That of Rényi between the vector and the same moved, where both are looked at."""
    edges = tuple(slice(m, None) for m in move), tuple(slice(None, -m or None) for m in move)
    p, q = (vector[edge] for edge in edges)
    return log(float((q * (p / q) ** order).sum())) / (order - 1)


def worst(noise: CorrelatedNoise) -> float:
    """The largest divergence over its order of any unit, in steps in which nothing is rounded."""
    reached = noise.reached
    vector = joint(noise, reached.groups)
    moves = [
        move
        for move in product(range(reached.most + 1), repeat=reached.groups)
        if 0 < np.count_nonzero(move) <= reached.l0
    ]
    return max(divergence(vector, move, order) / order for move in moves for order in ORDERS)


def loss(noise: CorrelatedNoise) -> float:
    return get("zcdp").loss(Event(noise.events)).amount / NANO


def coarse(reached: ManyGroups, offset: int) -> CorrelatedNoise:
    """Noise so narrow that the discrete law is looked at, on the grid itself."""
    own, common = (Noise(Mechanism.DISCRETE_GAUSSIAN, Fraction(x)) for x in ("9/2", "7/2"))
    return CorrelatedNoise(reached, own, common, offset, 1)


@pytest.mark.parametrize(("groups", "l0", "most"), SMALL)
def test_no_unit_loses_more_than_is_charged(groups: int, l0: int, most: int) -> None:
    """By the law itself, over all neighbours: also where the best offset is not whole."""
    reached = ManyGroups(groups, l0, most)
    for offset in range(most // 2 + 1):
        noise = coarse(reached, offset)
        assert worst(noise) <= loss(noise)


@pytest.mark.parametrize("wrong", ["own", "common"])
def test_wrong_twin_a_smaller_variance_loses_more(wrong: str) -> None:
    reached = ManyGroups(2, 2, 2)
    noise = coarse(reached, 1)
    law = getattr(noise, wrong)
    twin = replace(noise, **{wrong: replace(law, scale=law.scale / 2)})
    assert worst(noise) > 0.95 * loss(noise), "the bound is reached"
    assert worst(twin) > 1.1 * loss(noise)


@pytest.mark.parametrize(("groups", "l0"), [(2, 2), (4, 2), (10, 7), (50, 50), (50, 20), (200, 90)])
def test_the_charge_is_the_divergence_of_the_worst_unit(groups: int, l0: int) -> None:
    """Of real-valued noise, by the inverse of its covariance, for every number of groups."""
    rho, reached = Fraction(1, 40), ManyGroups(groups, l0, 1)
    noise = correlated(reached, rho)
    assert noise is not None

    def most(noise: CorrelatedNoise) -> float:
        own, common = float(noise.own.scale), float(noise.common.scale)
        inverse = np.linalg.inv(own * np.eye(groups) + common)
        moves = (np.arange(groups) < k for k in range(l0 + 1))
        return max(noise.parts**2 * float(v @ inverse @ v) / 2 for v in moves)

    charged = loss(noise)
    assert charged <= float(rho)
    assert 0.9 * charged <= most(noise) <= charged
    for wrong in ("own", "common"):
        less = replace(getattr(noise, wrong), scale=getattr(noise, wrong).scale / 2)
        assert most(replace(noise, **{wrong: less})) > charged


@pytest.mark.parametrize(
    ("groups", "l0", "ratio"),
    [
        *[(4, 4, 0.75), (10, 10, 0.66), (50, 50, 0.57), (200, 200, 0.54)],
        *[(4, 2, 0.97), (10, 5, 0.89), (50, 25, 0.80), (200, 100, 0.76)],
    ],
)
def test_it_errs_less_where_a_unit_is_in_many_groups(groups: int, l0: int, ratio: float) -> None:
    rho = Fraction(1, 50)
    for most in (1, 7, 5000):
        noise = correlated(ManyGroups(groups, l0, most), rho)
        independent = gaussian(l0 * most**2, rho)
        assert noise is not None
        assert sqrt(noise.alone.scale / independent.scale) == pytest.approx(ratio, abs=0.006)


def test_no_other_offset_or_split_is_better() -> None:
    for groups, l0, sums in [(50, 50, 1.0), (50, 20, 1.0), (10, 10, 4.0), (30, 12, 2.5)]:
        reached, rho = ManyGroups(groups, l0, 1 << 12), Fraction(1, 50)
        noise = correlated(reached, rho, sums=sums)
        assert noise is not None

        def error(noise: CorrelatedNoise, sums: float = sums) -> float:
            return float(noise.own.scale) + sums * float(noise.common.scale)

        for offset in range(100, 1 << 11, 50):
            for part in range(1, 20):
                share = Fraction(part, 20)
                own = gaussian(reached.squared(offset), rho * (1 - share))
                other = CorrelatedNoise(reached, own, gaussian(offset**2, rho * share), offset, 1)
                assert error(noise) <= 1.001 * error(other)


def test_sums_that_are_asked_for_are_reckoned_with() -> None:
    reached, rho = ManyGroups(50, 50, 1), Fraction(1, 50)
    each, some = correlated(reached, rho), correlated(reached, rho, sums=10.0)
    assert each is not None
    assert some is not None
    assert some.shared < each.shared
    assert some.alone.scale > each.alone.scale
    assert correlated(reached, rho, sums=50.0) is None, "of the total of all groups it helps none"


def test_it_is_for_units_in_several_groups_that_come_and_go() -> None:
    rho = Fraction(1, 50)
    assert correlated(ManyGroups(50, 1, 1), rho) is None
    assert correlated(ManyGroups(1, 1, 1), rho) is None
    assert correlated(ManyGroups(50, 50, 1), rho, Neighbours.REPLACE) is None
    assert correlated(ManyGroups(2, 2, 1), Fraction(100)) is None, "less than a step is rounded"


CLIPS = [10**5, 2**53 + 1, 2**53 + 3, 3 * 10**15 + 1, 9_992_538_789_308_011, 2**62 - 1]


def offsets(most: int) -> None:
    """Compute the noise of many shapes at this clip; raises where an offset is out of range."""
    for groups, l0 in [(2, 2), (3, 3), (10, 9), (50, 50), (731, 365), (1000, 999)]:
        noise = correlated(ManyGroups(groups, l0, most), Fraction(1, 50))
        assert noise is None or noise.rho <= Fraction(1, 50)


@pytest.mark.parametrize("most", CLIPS)
def test_a_clip_of_any_size_has_noise(most: int) -> None:
    offsets(most)


def test_an_offset_that_is_computed_as_a_float_would_be_out_of_range(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(correlated_gaussian, "floor", lambda whole: int(float(whole)))
    with pytest.raises(ValueError, match="offset"):
        list(map(offsets, CLIPS))


def test_an_offset_beyond_the_middle_has_no_charge() -> None:
    reached = ManyGroups(3, 3, 3)
    with pytest.raises(ValueError, match="half of the clip"):
        coarse(reached, 2)


# --- draws ---------------------------------------------------------------------------------------


def normal(variance: int) -> Noise:
    return Noise(Mechanism.DISCRETE_GAUSSIAN, Fraction(variance))


NOISES = [
    CorrelatedNoise(ManyGroups(3, 3, 2), normal(5), normal(3), 1, 1),
    CorrelatedNoise(ManyGroups(3, 3, 2), normal(600), normal(300), 1, 8),
    CorrelatedNoise(ManyGroups(3, 3, 2), normal(20), normal(900), 1, 4),
]


def many(noise: CorrelatedNoise, draws: int = 10_000) -> np.ndarray:
    """Vectors of three groups, each with draws of its own that were made at once."""
    own, common = draw(noise.own, 3 * draws).reshape(-1, 3), draw(noise.common, draws)
    place = iter(range(2 * draws))

    def made(_: Noise, count: int) -> np.ndarray:
        n = next(place) // 2
        return own[n] if count > 1 else common[n : n + 1]

    return np.array([noise.drawn(3, made) for _ in range(draws)])


@pytest.mark.parametrize("noise", NOISES, ids=lambda n: f"{n.own.scale} {n.common.scale} {n.parts}")
def test_draws_fit_the_law_of_one_group_and_of_two(noise: CorrelatedNoise) -> None:
    """Differences of two groups have no common noise, sums have it twice."""
    drawn = many(noise)
    fine = law(noise.own, 400), law(noise.common, 400)
    chances = np.convolve(*fine)
    steps = (2 * np.arange(-800, 801) + noise.parts) // (2 * noise.parts)
    claimed = np.bincount(steps - steps[0], chances)
    common = np.flatnonzero(claimed * len(drawn) >= 20)
    low, high = common[0], common[-1]
    places = np.clip(drawn[:, 0].astype(int) - steps[0], low, high)
    observed = np.bincount(places - low, minlength=high - low + 1)
    claimed[low], claimed[high] = claimed[: low + 1].sum(), claimed[high:].sum()
    assert chi_square_z(observed, len(drawn) * claimed[low : high + 1]) < REJECTED
    covariance = np.cov(drawn.T.astype(float))
    shared, alone = float(noise.shared), float(noise.alone.scale)
    spread = 6 * alone * sqrt(2 / len(drawn))
    assert np.abs(covariance - shared - (alone - shared) * np.eye(3)).max() < spread
    assert np.abs(covariance - alone * np.eye(3)).max() > spread, "the twin: independent noise"


def test_noise_that_is_off_is_nothing() -> None:
    for noise in NOISES:
        assert not noise.drawn(5, lambda _law, count: np.zeros(count, dtype=np.int64)).any()


def test_wide_noise_has_whole_numbers_of_python() -> None:
    reached = ManyGroups(4, 4, 2)
    wide = Noise(Mechanism.DISCRETE_GAUSSIAN, Fraction(1 << 140))
    for parts in (1, 4):
        drawn = CorrelatedNoise(reached, wide, wide, 1, parts).drawn(4, draw)
        assert drawn.dtype == object
        assert all(isinstance(z, int) for z in drawn)
