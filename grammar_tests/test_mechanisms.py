"""Noise: exact laws by chi-square, thresholds by independent sums, entropy by enumeration.

Every statistical test rejects at a significance of one in a million, and every check is shown to
reject a wrong twin.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable
from fractions import Fraction
from itertools import pairwise
from math import ceil, exp, fsum, sqrt
from statistics import NormalDist
from typing import Any

import numpy as np
import pytest

from dpsql.mechanisms import margin, sample, standard_deviation
from dpsql.mechanisms.entropy import Entropy
from dpsql.mechanisms.threshold import Threshold, threshold
from dpsql.model.vocabulary import Mechanism, Neighbours, Noise
from grammar_tests.draws import ENTROPY, SYSTEM

LAPLACE, GAUSSIAN = Mechanism.DISCRETE_LAPLACE, Mechanism.DISCRETE_GAUSSIAN
DRAWS = 10**6
REJECTED = NormalDist().inv_cdf(1 - 1e-6)
REJECTED_FRESH = NormalDist().inv_cdf(1 - 1e-12)
"""For what another library draws, which is not the same in every run."""
WIDE = 1 << 70


def weight(noise: Noise, x: int) -> float:
    scale = float(noise.scale)
    return exp(-abs(x) / scale if noise.mechanism is LAPLACE else -x * x / (2 * scale))


def pmf(noise: Noise) -> dict[int, float]:
    """The law by its definition, term by term, as far as a float can tell."""
    deviations = float(noise.scale) if noise.mechanism is LAPLACE else sqrt(noise.scale)
    reach = ceil(60 * deviations) + 3
    weights = {x: weight(noise, x) for x in range(-reach, reach + 1)}
    total = fsum(weights.values())
    return {x: w / total for x, w in weights.items()}


def tail(noise: Noise, t: int) -> float:
    return fsum(p for x, p in pmf(noise).items() if x >= t)


def chi_square_z(observed: np.ndarray, expected: np.ndarray) -> float:
    """The chi-square statistic as a standard normal quantile (Wilson and Hilferty 1931)."""
    freedom = len(expected) - 1
    statistic = float(((observed - expected) ** 2 / expected).sum())
    spread = 2 / (9 * freedom)
    return float(((statistic / freedom) ** (1 / 3) - (1 - spread)) / sqrt(spread))


def misfit(draws: np.ndarray, noise: Noise) -> float:
    """How badly draws fit a law: chi-square over single integers, rare ones pooled."""
    law = pmf(noise)
    common = [x for x, p in law.items() if p * len(draws) >= 20]
    low, high = min(common), max(common)
    cells = np.bincount(np.clip(draws.astype(np.int64), low - 1, high + 1) - (low - 1))
    observed = np.zeros(high - low + 3)
    observed[: len(cells)] = cells
    inner = np.array([law[x] for x in range(low, high + 1)])
    outer = (1 - inner.sum()) / 2
    expected = len(draws) * np.array([outer, *inner, outer])
    # Two pooled cells are too rare for their own test: they join their neighbours.
    observed[1] += observed[0]
    observed[-2] += observed[-1]
    expected[1] += expected[0]
    expected[-2] += expected[-1]
    return chi_square_z(observed[1:-1], expected[1:-1])


LAWS = [
    Noise(LAPLACE, Fraction(1, 4)),
    Noise(LAPLACE, Fraction(1)),
    Noise(LAPLACE, Fraction(10)),
    Noise(LAPLACE, Fraction(1234, 100)),
    Noise(LAPLACE, Fraction(100)),
    Noise(GAUSSIAN, Fraction(1, 9)),
    Noise(GAUSSIAN, Fraction(1)),
    Noise(GAUSSIAN, Fraction(7, 2)),
    Noise(GAUSSIAN, Fraction(8)),
    Noise(GAUSSIAN, Fraction(100)),
    Noise(GAUSSIAN, Fraction(1234567, 1000)),
]


def named(noise: Noise) -> str:
    return f"{noise.mechanism.value.split()[1]} {noise.scale}"


@pytest.mark.full("thousands of releases are sampled")
@pytest.mark.parametrize("noise", LAWS, ids=named)
def test_a_million_draws_fit_their_exact_law(noise: Noise) -> None:
    draws = sample(noise, DRAWS, ENTROPY)
    assert draws.dtype == np.int64
    assert draws.shape == (DRAWS,)
    assert misfit(draws, noise) < REJECTED


@pytest.mark.full("draws random questions or values")
@pytest.mark.parametrize("mechanism", list(Mechanism))
def test_draws_of_a_few_at_a_time_fit_the_same_law(mechanism: Mechanism) -> None:
    noise = Noise(mechanism, Fraction(20))
    draws = np.concatenate([sample(noise, 10, ENTROPY) for _ in range(400)])
    assert misfit(draws, noise) < REJECTED


@pytest.mark.full("thousands of releases are sampled")
@pytest.mark.parametrize(
    "noise",
    [Noise(m, Fraction(8 * WIDE + 1, WIDE)) for m in Mechanism],
    ids=lambda noise: str(noise.mechanism),
)
def test_scales_beyond_64_bits_take_the_wide_path_and_fit_the_same_law(noise: Noise) -> None:
    draws = sample(noise, 30_000, ENTROPY)
    assert misfit(draws, Noise(noise.mechanism, Fraction(8))) < REJECTED


@pytest.mark.full("thousands of releases are sampled")
@pytest.mark.parametrize(
    ("noise", "wide"),
    [
        (Noise(LAPLACE, Fraction(50 << 30)), False),
        (Noise(LAPLACE, Fraction(1 << 61)), True),
        (Noise(LAPLACE, Fraction((1 << 80) + 1, 3)), True),
        (Noise(GAUSSIAN, Fraction(50 << 30) ** 2), False),
        (Noise(GAUSSIAN, Fraction(1 << 45) ** 2 + Fraction(1, 3)), False),
        (Noise(GAUSSIAN, Fraction(1 << 66) ** 2), True),
    ],
    ids=lambda value: named(value) if isinstance(value, Noise) else "",
)
def test_huge_scales_fit_in_equal_cells_and_in_their_last_digits(
    noise: Noise, *, wide: bool
) -> None:
    draws = sample(noise, 50_000, ENTROPY)
    assert (draws.dtype == object) == wide
    assert not wide or all(type(x) is int for x in draws)
    cells, count = 64, len(draws)
    expected = np.full(cells, count / cells)
    places = np.array([cdf(noise, int(x)) for x in draws]) * cells
    observed = np.bincount(np.clip(places.astype(int), 0, cells - 1), minlength=cells)
    assert chi_square_z(observed, expected) < REJECTED
    digits = np.bincount(np.array([int(x) % cells for x in draws]), minlength=cells)
    assert chi_square_z(digits, expected) < REJECTED


def cdf(noise: Noise, x: int) -> float:
    """The continuous law's, from which one of so large a scale cannot be told apart."""
    if noise.mechanism is LAPLACE:
        half = exp(-abs(x) / float(noise.scale)) / 2
        return half if x < 0 else 1 - half
    return NormalDist().cdf(x / sqrt(noise.scale))


def rounded_gaussian(noise: Noise, generator: np.random.Generator) -> np.ndarray:
    return np.rint(generator.normal(0, sqrt(noise.scale), DRAWS)).astype(np.int64)


def laplace_five_per_cent_off(noise: Noise, generator: np.random.Generator) -> np.ndarray:
    return two_sided(float(noise.scale) * 1.05, generator)


def two_sided(scale: float, generator: np.random.Generator) -> np.ndarray:
    chance = -np.expm1(-1 / scale)
    return np.asarray(generator.geometric(chance, DRAWS) - generator.geometric(chance, DRAWS))


def two_zeros(noise: Noise, generator: np.random.Generator) -> np.ndarray:
    magnitudes = generator.geometric(-np.expm1(-1 / float(noise.scale)), DRAWS) - 1
    return np.asarray(magnitudes * generator.choice([-1, 1], DRAWS))


@pytest.mark.parametrize(
    ("twin", "noise"),
    [
        (rounded_gaussian, Noise(GAUSSIAN, Fraction(4))),
        (laplace_five_per_cent_off, Noise(LAPLACE, Fraction(10))),
        (two_zeros, Noise(LAPLACE, Fraction(10))),
    ],
)
def test_wrong_samplers_are_rejected(twin: Callable[..., np.ndarray], noise: Noise) -> None:
    generator = np.random.default_rng(1)
    assert misfit(twin(noise, generator), noise) > REJECTED
    assert misfit(sample(noise, DRAWS, ENTROPY), noise) < REJECTED


def test_the_chi_square_accepts_a_right_sampler_of_another_kind() -> None:
    draws = two_sided(10.0, np.random.default_rng(1))
    assert misfit(draws, Noise(LAPLACE, Fraction(10))) < REJECTED


def opendp_draws(noise: Noise, count: int) -> np.ndarray:
    dp: Any = pytest.importorskip("opendp.prelude", reason="OpenDP is an oracle of the test extra")
    dp.enable_features("contrib")
    integers = dp.vector_domain(dp.atom_domain(T=dp.i64))
    if noise.mechanism is LAPLACE:
        law = dp.m.make_laplace(integers, dp.l1_distance(T=dp.i64), scale=float(noise.scale))
    else:
        law = dp.m.make_gaussian(integers, dp.l2_distance(T=dp.f64), scale=sqrt(noise.scale))
    return np.array(law([0] * count))


def two_sample_z(ours: np.ndarray, theirs: np.ndarray) -> float:
    """Two samples of equal size: chi-square over the integers both show often enough."""
    values, places = np.unique(np.concatenate([ours, theirs]), return_inverse=True)
    first = np.bincount(places[: len(ours)], minlength=len(values))
    second = np.bincount(places[len(ours) :], minlength=len(values))
    kept = first + second >= 40
    first, second = first[kept], second[kept]
    statistic = float(((first - second) ** 2 / (first + second)).sum())
    spread = 2 / (9 * len(first))
    return float(((statistic / len(first)) ** (1 / 3) - (1 - spread)) / sqrt(spread))


@pytest.mark.full("needs the extra test-all")
@pytest.mark.parametrize("mechanism", list(Mechanism))
def test_draws_agree_with_opendp(mechanism: Mechanism) -> None:
    noise = Noise(mechanism, Fraction(9))
    theirs = opendp_draws(noise, 50_000)
    assert two_sample_z(sample(noise, 50_000, ENTROPY), theirs) < REJECTED_FRESH
    off = Noise(mechanism, Fraction(11))
    assert two_sample_z(sample(off, 50_000, ENTROPY), theirs) > REJECTED_FRESH


def test_a_scale_must_be_positive() -> None:
    with pytest.raises(ValueError, match="positive"):
        sample(Noise(LAPLACE, Fraction(0)), 1, ENTROPY)
    assert sample(Noise(LAPLACE, Fraction(1)), 0, ENTROPY).size == 0


# --- entropy -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("width", "bound"), [(8, 2), (8, 3), (8, 4), (16, 5), (16, 360), (16, 1000)]
)
def test_every_word_of_a_small_width_gives_each_integer_equally_often(
    width: int, bound: int
) -> None:
    words = np.arange(1 << width, dtype=f"<u{width // 8}").tobytes()
    values, valid = Entropy(lambda _: words)._multiply(bound, 1 << width, width)
    assert set(np.bincount(values[valid])) == {(1 << width) // bound}
    assert values.min() == 0
    assert values.max() == bound - 1
    biased = len(set(np.bincount(values))) > 1
    assert biased == bool((1 << width) % bound)


@pytest.mark.parametrize("bound", [3, 1 << 40, (1 << 62) + 1, (1 << 63) - 1, 1 << 63])
def test_64_bit_words_are_redrawn_in_the_last_incomplete_run(bound: int) -> None:
    last = (1 << 64) - (1 << 64) % bound
    words = [0, bound - 1, last - 1, last % (1 << 64), (1 << 64) - 1]
    source = Entropy(lambda _: np.array(words, dtype="<u8").tobytes())
    values, valid = source._divide(bound, len(words))
    assert values[:3].tolist() == [0, bound - 1, bound - 1]
    assert valid.tolist() == [True, True, True, *(w < last for w in words[3:])]


@pytest.mark.parametrize("bound", [1, 2, 3, 7, 100, 1 << 20, (1 << 40) + 3, 1 << 63, (1 << 70) + 1])
def test_uniform_integers_fill_their_range(bound: int) -> None:
    values = ENTROPY.below(bound, 20_000)
    assert values.dtype == (object if bound > 1 << 63 else np.int64)
    cells = min(bound, 50)
    observed = np.bincount([int(v) * cells // bound for v in values], minlength=cells)
    starts = [-(-c * bound // cells) for c in range(cells + 1)]
    shares = [float(Fraction(b - a, bound)) for a, b in pairwise(starts)]
    assert len(observed) == cells
    assert cells == 1 or chi_square_z(observed, 20_000 * np.array(shares)) < REJECTED


def test_a_bound_must_be_positive() -> None:
    with pytest.raises(ValueError, match="positive"):
        ENTROPY.below(0, 1)


class Buffered:
    """The wrong twin: bytes drawn ahead and kept, so that a fork copies them."""

    def __init__(self) -> None:
        self.buffer = os.urandom(1 << 16)

    def __call__(self, count: int) -> bytes:
        drawn, self.buffer = self.buffer[:count], self.buffer[count:]
        return drawn


def drawn_on_both_sides_of_a_fork(entropy: Entropy) -> tuple[bytes, bytes]:
    entropy.below(256, 8)
    read, write = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # fork beside a library's threads
        child = os.fork()
    if child == 0:
        os.write(write, entropy.below(1 << 40, 8).tobytes())
        os._exit(0)
    os.waitpid(child, 0)
    theirs = os.read(read, 1 << 10)
    os.close(read)
    os.close(write)
    return entropy.below(1 << 40, 8).tobytes(), theirs


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_a_fork_never_repeats_noise() -> None:
    ours, theirs = drawn_on_both_sides_of_a_fork(SYSTEM)
    assert ours != theirs
    ours, theirs = drawn_on_both_sides_of_a_fork(Entropy(Buffered()))
    assert ours == theirs


# --- thresholds and errors ---------------------------------------------------------------------

SELECTIONS = [
    Noise(LAPLACE, Fraction(1, 2)),
    Noise(LAPLACE, Fraction(10)),
    Noise(LAPLACE, Fraction(1234, 100)),
    Noise(GAUSSIAN, Fraction(1, 4)),
    Noise(GAUSSIAN, Fraction(33)),
    Noise(GAUSSIAN, Fraction(12345, 10)),
]


def chance_of_a_lone_key(value: int, noise: Noise, keys: int) -> float:
    """That some key of a unit alone in all its keys is kept, by summing the law itself."""
    one = tail(noise, value - 1)
    return -float(np.expm1(keys * np.log1p(-one)))


@pytest.mark.parametrize("delta", [Fraction(1, 100), Fraction(1, 10**6), Fraction(1, 10**9)])
@pytest.mark.parametrize("l0", [1, 2, 50])
@pytest.mark.parametrize("noise", SELECTIONS, ids=named)
def test_a_threshold_is_the_least_that_keeps_delta(noise: Noise, l0: int, delta: Fraction) -> None:
    chosen = threshold(noise, l0, delta)
    assert chosen == Threshold(chosen.value, noise, delta)
    assert chance_of_a_lone_key(chosen.value, noise, l0) <= delta
    assert chosen.value == 2 or chance_of_a_lone_key(chosen.value - 1, noise, l0) > delta


def test_thresholds_of_replaced_units_see_the_keys_of_two() -> None:
    unit, delta = Noise(LAPLACE, Fraction(10)), Fraction(1, 10**6)
    replaced = threshold(unit, 3, delta, Neighbours.REPLACE)
    assert replaced == threshold(unit, 6, delta)
    assert replaced.value > threshold(unit, 3, delta).value


@pytest.mark.full("draws random questions or values")
def test_a_wide_gaussian_is_bounded_tightly_from_above() -> None:
    sigma, delta = 1 << 11, Fraction(1, 10**9)
    summed = threshold(Noise(GAUSSIAN, Fraction(1024**2)), 1, delta).value / 1024
    bounded = threshold(Noise(GAUSSIAN, Fraction(sigma**2)), 1, delta).value / sigma
    assert bounded == pytest.approx(summed, rel=1e-3)
    value = threshold(Noise(GAUSSIAN, Fraction(sigma**2)), 1, delta).value
    assert tail(Noise(GAUSSIAN, Fraction(sigma**2)), value - 1) <= delta


@pytest.mark.parametrize(("l0", "delta"), [(0, Fraction(1, 2)), (1, Fraction(0)), (1, Fraction(1))])
def test_a_threshold_needs_keys_and_a_delta(l0: int, delta: Fraction) -> None:
    with pytest.raises(ValueError, match="threshold"):
        threshold(Noise(LAPLACE, Fraction(1)), l0, delta)


@pytest.mark.parametrize("confidence", [0.5, 0.95, 0.999])
@pytest.mark.parametrize("noise", LAWS[:10], ids=named)
def test_the_margin_is_the_least_that_covers(noise: Noise, confidence: float) -> None:
    law, width = pmf(noise), int(margin(noise, confidence))
    covered = fsum(p for x, p in law.items() if abs(x) <= width)
    less = fsum(p for x, p in law.items() if abs(x) < width)
    assert covered >= confidence
    assert width == 0 or less < confidence


@pytest.mark.parametrize("noise", LAWS, ids=named)
def test_the_standard_deviation_is_the_laws(noise: Noise) -> None:
    variance = fsum(x * x * p for x, p in pmf(noise).items())
    assert standard_deviation(noise) == pytest.approx(sqrt(variance), rel=1e-9)


def test_the_continuous_deviation_would_be_seen() -> None:
    assert standard_deviation(Noise(LAPLACE, Fraction(10))) != pytest.approx(sqrt(200), rel=1e-4)
