"""Populations whose norms are known: how often the interval of a clipped sum holds, and its width.

Each draw makes a histogram and an answer with the noise that a plan would have, of real numbers.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from math import ceil, log2, sqrt

import numpy as np

from dpsql.mechanisms.clipping_bias import ClippedAnswer, best_bound, one_sided
from dpsql.mechanisms.norm_bounds import Octaves, chosen, share
from dpsql.model.vocabulary import Mechanism, Noise
from dpsql.preparation import contribution_bounds

RHO = 0.02436
"""What (1, 1e-6) is under zCDP; under pure, ε is 1."""
STEPS = 1000.0
"""Norms are in so many whole steps."""
FACTORS = {1: (1.95996, 1.64485), 2: (2.1183, 1.62818)}
"""Half of a 95 % and of a 90 % interval, in standard deviations, by the order of an accountant."""

Drawn = tuple[np.ndarray, np.ndarray, np.ndarray]
"""The noisy numbers of the groups, and the ends of their intervals."""


@dataclass(frozen=True)
class World:
    """The totals of units by groups; the order of zCDP is 1, that of pure 2."""

    order: int
    totals: np.ndarray

    @property
    def groups(self) -> int:
        return int(self.totals.shape[1])

    @property
    def part(self) -> Fraction:
        return share(self.order, self.groups, total=True)

    @cached_property
    def norms(self) -> np.ndarray:
        if self.order == 1:
            return np.asarray(np.sqrt((self.totals**2).sum(axis=1)))
        return np.asarray(self.totals.sum(axis=1))

    @cached_property
    def truth(self) -> np.ndarray:
        return np.asarray(self.totals.sum(axis=0))

    @property
    def octaves(self) -> Octaves:
        top = ceil(log2(self.norms.max()))
        return Octaves(max(0, top - 24), top + 12)

    @cached_property
    def counts(self) -> np.ndarray:
        places = self.octaves.places
        bins = np.clip(np.ceil(np.log2(self.norms)).astype(int), places[0], places[-1])
        return np.bincount(bins - places[0], minlength=len(places))

    @property
    def votes(self) -> Noise:
        if self.order == 1:
            return Noise(Mechanism.DISCRETE_GAUSSIAN, 1 / (2 * Fraction(RHO) * self.part))
        return Noise(Mechanism.DISCRETE_LAPLACE, 1 / self.part)

    @property
    def deviation(self) -> float:
        """That of the answer's noise, for a bound of one step."""
        rest = 1 - float(self.part)
        return 1 / sqrt(2 * RHO * rest) if self.order == 1 else sqrt(2) / rest

    @property
    def weight(self) -> float:
        return sqrt(self.groups) if self.order == 1 else 1.0

    def noise(self, size: int, rng: np.random.Generator, *, votes: bool) -> np.ndarray:
        """Noise of the histogram, or of an answer for a bound of one step."""
        scale = float(self.votes.scale) if votes else self.deviation
        if self.order == 1:
            return rng.normal(0, sqrt(scale) if votes else scale, size)
        return rng.laplace(0, scale if votes else scale / sqrt(2), size)

    def clipped(self, bound: float) -> np.ndarray:
        kept = np.minimum(1.0, bound / self.norms)
        return np.asarray(kept @ self.totals)

    def best_width(self) -> float:
        """Half of the narrowest symmetric intervals for a fixed bound, for the whole budget."""
        top = log2(self.norms.max())
        deviation = self.deviation * (1 - float(self.part)) ** (0.5 if self.order == 1 else 1)
        width, end = FACTORS[self.order]
        widths = []
        for bound in 2.0 ** np.arange(top - 12, top + 0.125, 0.125):
            noise, bias = bound * deviation, self.truth - self.clipped(bound)
            widths.append((one_sided(width, end, 2 * bias / noise) * noise + bias).mean())
        return float(min(widths))


def by_interval(world: World, rng: np.random.Generator) -> Drawn:
    """The bound of the narrowest interval, and its two ends."""
    counts = np.rint(world.counts + world.noise(world.counts.size, rng, votes=True)).astype(int)
    answer = ClippedAnswer(
        world.deviation, world.order == 1, world.groups, world.weight, signs=False
    )
    octaves = world.octaves
    best = best_bound(octaves, octaves.most, counts.tolist(), world.votes, answer)
    noise = best.bound * world.deviation
    noisy = world.clipped(best.bound) + best.bound * world.noise(world.groups, rng, votes=False)
    sizes = np.maximum(noisy, 0) + noise
    bias = best.bias.of_group(sizes)
    width, end = FACTORS[world.order]
    return noisy, noisy - width * noise, noisy + one_sided(width, end, bias / noise) * noise + bias


def by_noise_alone(world: World, rng: np.random.Generator) -> Drawn:
    """The bound of least error, and an interval of noise alone."""
    counts = np.rint(world.counts + world.noise(world.counts.size, rng, votes=True)).astype(int)
    weight = world.groups**contribution_bounds._SPREAD if world.order == 1 else 1
    bound = chosen(
        world.octaves,
        counts.tolist(),
        world.votes,
        lambda clip: clip * world.deviation,
        gaussian=world.order == 1,
        groups=world.groups,
        weight=weight,
    ).bound
    noise = bound * world.deviation * FACTORS[world.order][0]
    noisy = world.clipped(bound) + bound * world.noise(world.groups, rng, votes=False)
    return noisy, noisy - noise, noisy + noise


@dataclass(frozen=True)
class Held:
    """How often intervals hold, how often their low ends do, and half of their mean width."""

    inside: float
    low: float
    width: float


def held(
    world: World, draws: int, rng: np.random.Generator, draw: Callable[..., Drawn] = by_interval
) -> Held:
    inside, low, width = [], [], []
    for _ in range(draws):
        _, below, above = draw(world, rng)
        inside.append((below <= world.truth) & (world.truth <= above))
        low.append(below <= world.truth)
        width.append((above - below) / 2)
    means = [float(np.mean(each)) for each in (inside, low, width)]
    return Held(*means)


SIZES: dict[str, Callable[[np.random.Generator, int], np.ndarray]] = {
    "equal": lambda _, n: np.full(n, 7.0),
    "uniform": lambda rng, n: rng.uniform(0, 100, n),
    "gamma": lambda rng, n: rng.gamma(3, 10, n),
    "exponential": lambda rng, n: rng.exponential(20, n),
    "counts": lambda rng, n: rng.poisson(9, n) + 1.0,
    "geometric": lambda rng, n: rng.geometric(0.1, n).astype(float),
    "triangular": lambda rng, n: rng.triangular(0, 1, 50, n),
    "lognormal 0.5": lambda rng, n: np.exp(rng.normal(0, 0.5, n)),
    "lognormal 1": lambda rng, n: np.exp(rng.normal(0, 1.0, n)),
    "lognormal 1.5": lambda rng, n: np.exp(rng.normal(0, 1.5, n)),
    "lognormal 2": lambda rng, n: np.exp(rng.normal(0, 2.0, n)),
    "Pareto 3": lambda rng, n: rng.pareto(3, n) + 1,
    "Pareto 2": lambda rng, n: rng.pareto(2, n) + 1,
    "mixed": lambda rng, n: np.where(rng.random(n) < 0.1, 10, 1) * rng.gamma(2, 5, n),
}
"""How much units have in all."""


def world(kind: str, order: int, groups: int, units: int, rng: np.random.Generator) -> World:
    """A new population of a kind: each unit spreads what it has over some of the groups."""
    sizes = SIZES[kind](rng, units) * STEPS
    shares = rng.dirichlet(np.full(groups, 0.3), units) if groups > 1 else np.ones((units, 1))
    return World(order, np.maximum(sizes, 1.0)[:, None] * shares)
