"""What any clipping of people's totals could reach, in NumPy and apart from the product.

Errors are expectations over real-valued noise, of the mean over groups. The best fixed limit (L0
groups of at most Linf each) and the best clip of a norm are found on the exact data, by brute
force, and nothing is paid for that: no private method can know them. The recipe pays: units vote
once for the octave of their norm, and the clip of least predicted error is taken.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from math import ceil, log2, pi, sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpsql import accountants

Floats = NDArray[np.float64]
DRAWS = 48
"""Draws of the final noise where its expectation has no closed form."""

CHOICES = 200
"""Draws of a private choice."""

CELLS = 2**16
"""Among how many ranges of values a quantile is chosen."""

BINS = 44
"""Octaves in which units vote, down from the largest norm that is possible."""


@dataclass(frozen=True)
class Totals:
    """What each unit has in each group, never negative: three columns of equal length."""

    unit: NDArray[np.int64]
    group: NDArray[np.int64]
    value: Floats
    groups: int

    @property
    def units(self) -> int:
        return int(self.unit.max()) + 1 if len(self.unit) else 0

    @property
    def touched(self) -> NDArray[np.int64]:
        """In how many groups each unit is."""
        return np.bincount(self.unit, minlength=self.units)

    def truth(self) -> Floats:
        return counted(self.group, self.value, self.groups)

    def norms(self, law: Law) -> Floats:
        """Of each unit's vector: L2 under Gaussian noise, L1 under Laplace."""
        if law.gaussian:
            return np.sqrt(counted(self.unit, self.value**2, self.units))
        return counted(self.unit, self.value, self.units)


@dataclass(frozen=True)
class Law:
    """The noise that an amount buys: ρ of a Gaussian, ε of a Laplace."""

    gaussian: bool
    amount: float

    @classmethod
    def of(cls, accountant: str, epsilon: float, delta: float) -> Law:
        """What a question of this price may spend under the accountant."""
        if accountant != "zcdp":
            return cls(gaussian=False, amount=epsilon)
        prices = Fraction(str(epsilon)), Fraction(str(delta))
        allowed = accountants.get("zcdp").allowance(*prices, selects_keys=False)
        return cls(gaussian=True, amount=float(allowed.amount))

    def share(self, part: float) -> Law:
        return replace(self, amount=self.amount * part)

    def scale(self, clip: Floats | float) -> Floats:
        """σ or b where one unit moves the answers by at most `clip` in the law's norm."""
        return np.asarray(clip) / (sqrt(2 * self.amount) if self.gaussian else self.amount)

    def limited(self, groups: int, clip: float) -> float:
        """`scale` where a unit has at most `clip` in each of so many groups."""
        return float(self.scale(clip * (sqrt(groups) if self.gaussian else groups)))

    def expected(self, bias: Floats | float, scale: Floats | float) -> Floats:
        """Mean |noise + bias|."""
        bias, scale = np.abs(bias), np.asarray(scale)
        if self.gaussian:
            return scale * sqrt(2 / pi) * np.exp(-(bias**2) / (2 * scale**2)) + bias * _erf(
                bias / (scale * sqrt(2))
            )
        return np.asarray(bias + scale * np.exp(-bias / scale))

    def draws(self, shape: tuple[int, ...], seed: int) -> Floats:
        """Standard noise."""
        numbers = np.random.default_rng(seed)
        return numbers.standard_normal(shape) if self.gaussian else numbers.laplace(size=shape)


def _erf(x: Floats) -> Floats:
    """Abramowitz and Stegun 7.1.26: within 2e-7."""
    t = 1 / (1 + 0.3275911 * x)
    terms = (0.254829592, -0.284496736, 1.421413741, -1.453152027, 1.061405429)
    series = sum(a * t ** (n + 1) for n, a in enumerate(terms))
    return np.asarray(1 - series * np.exp(-(x**2)))


@dataclass(frozen=True)
class Best:
    """The least error, and the limit that has it."""

    error: float
    limit: str


def counts_up_to(most: int) -> list[int]:
    """Whole numbers about a factor of √2 apart, the last being `most`."""
    return sorted({min(most, round(2 ** (n / 2))) for n in range(2 * ceil(log2(most + 1)) + 2)})


def clips_up_to(most: float, octaves: int = 14, steps: int = 4) -> Floats:
    """Clips in `steps` to an octave, the last at least `most`."""
    top = ceil(log2(most) * steps)
    return np.asarray(2.0 ** (np.arange(top - octaves * steps, top + 1) / steps))


def cut(totals: Totals, groups: int, clip: float) -> Floats:
    """What is left in each group where units keep so many of theirs, of at most `clip` each."""
    kept = np.minimum(1, groups / totals.touched)[totals.unit]
    return counted(totals.group, np.minimum(totals.value, clip) * kept, totals.groups)


def scaled(totals: Totals, norms: Floats, clip: float) -> Floats:
    """What is left in each group where each unit is scaled to a norm of at most `clip`."""
    kept = np.minimum(1, clip / np.maximum(norms, 1e-300))[totals.unit]
    return counted(totals.group, totals.value * kept, totals.groups)


def best_fixed(totals: Totals, law: Law, shown: int | None = None) -> Best:
    """Over all L0 and Linf; of the `shown` largest noisy groups where not all are shown."""
    truth, found = totals.truth(), list[tuple[float, str]]()
    for groups in counts_up_to(int(totals.touched.max())):
        for clip in clips_up_to(float(totals.value.max())):
            left, scale = cut(totals, groups, clip), law.limited(groups, clip)
            found.append((_error(truth, left, scale, law, shown), f"{groups} x {clip:.4g}"))
    return Best(*min(found))


def best_norm(totals: Totals, law: Law, shown: int | None = None) -> Best:
    """Over all clips of the unit's norm."""
    truth, norms = totals.truth(), totals.norms(law)
    found = [
        (_error(truth, scaled(totals, norms, c), float(law.scale(c)), law, shown), f"{c:.4g}")
        for c in clips_up_to(float(norms.max()))
    ]
    return Best(*min(found))


def counted(places: NDArray[Any], weights: NDArray[Any] | None, size: int) -> Floats:
    """The sum of the weights at each place, or how often it is there."""
    return np.bincount(places, weights, size).astype(np.float64)


def _error(truth: Floats, left: Floats, scale: float, law: Law, shown: int | None) -> float:
    if shown is None:
        return float(law.expected(truth - left, scale).mean())
    noisy = left + scale * law.draws((DRAWS, len(truth)), 1)
    top = np.argsort(-noisy, axis=1)[:, :shown]
    return float(np.abs(np.take_along_axis(noisy, top, 1) - truth[top]).mean())


# --- ratios of two totals of the same units ---


def best_fixed_ratio(above: Totals, below: Totals, law: Law) -> Best:
    """Over all L0 and Linf of both, each for half of the amount."""
    half, found = law.share(0.5), list[tuple[float, str]]()
    for groups in counts_up_to(int(below.touched.max())):
        tops = [(c, cut(above, groups, c), half.limited(groups, c)) for c in _coarse(above)]
        bottoms = [(c, cut(below, groups, c), half.limited(groups, c)) for c in _coarse(below)]
        for a, x, s in tops:
            for b, y, t in bottoms:
                error = ratio_error(above.truth() / below.truth(), (x, s), (y, t), half)
                found.append((error, f"{groups} x {a:.4g} / {b:.4g}"))
    return Best(*min(found))


def best_norm_ratio(above: Totals, below: Totals, law: Law) -> Best:
    """Over all clips of both norms, each for half of the amount."""
    half = law.share(0.5)
    ways = []
    for totals in (above, below):
        norms = totals.norms(half)
        clips = clips_up_to(float(norms.max()), 8, 2)
        ways.append([(c, scaled(totals, norms, c), float(half.scale(c))) for c in clips])
    truth = above.truth() / below.truth()
    return Best(
        *min(
            (ratio_error(truth, (x, s), (y, t), half), f"{a:.4g} / {b:.4g}")
            for a, x, s in ways[0]
            for b, y, t in ways[1]
        )
    )


def ratio_error(
    truth: Floats, above: tuple[Floats, float], below: tuple[Floats, float], law: Law
) -> float:
    """Mean error of a noisy total over another, each given with its scale."""
    x = above[0] + above[1] * law.draws((DRAWS, len(truth)), 1)
    y = below[0] + below[1] * law.draws((DRAWS, len(truth)), 2)
    return float(np.abs(x / np.maximum(y, 1) - truth).mean())


def _coarse(totals: Totals) -> Floats:
    return clips_up_to(float(totals.value.max()), 8, 2)


# --- numbers of distinct values, and quantiles, in one group ---


@dataclass(frozen=True)
class Rows:
    """Each row's unit and value, in one group; of distinct values each once for a unit."""

    unit: NDArray[np.int64]
    value: NDArray[Any]

    @property
    def sizes(self) -> Floats:
        """How many rows each unit has."""
        return np.bincount(self.unit).astype(float)


def distinct_errors(rows: Rows, law: Law) -> dict[int, float]:
    """Of the number of distinct values, by how many of each unit count: drawn at random."""
    truth = len(np.unique(rows.value))
    return {
        limit: float(law.expected(truth - _covered(rows, limit), law.scale(float(limit))))
        for limit in counts_up_to(int(rows.sizes.max()))
    }


def _covered(rows: Rows, limit: int) -> float:
    """How many values there are where each unit keeps so many of its own: the mean of three."""
    starts, found = np.concatenate([[0], np.cumsum(rows.sizes)[:-1]]), list[int]()
    for seed in range(3):
        order = np.lexsort((np.random.default_rng(seed).random(len(rows.unit)), rows.unit))
        place = np.arange(len(order)) - starts[rows.unit[order]]
        found.append(len(np.unique(rows.value[order][place < limit])))
    return float(np.mean(found))


def quantile_errors(
    rows: Rows, at: float, bounds: tuple[float, float], law: Law
) -> dict[int, float]:
    """Of the exponential mechanism over `CELLS` cells of the bounds, by how many rows of each unit
    count: they weigh less where there are more. A cell's score is how far its rows are from the
    rank.
    """
    width = (bounds[1] - bounds[0]) / CELLS
    cells = np.clip((rows.value - bounds[0]) // width, 0, CELLS - 1).astype(np.int64)
    middles = bounds[0] + (np.arange(CELLS) + 0.5) * width
    off = np.abs(middles - np.quantile(rows.value, at))
    epsilon = sqrt(8 * law.amount) if law.gaussian else law.amount
    found = dict[int, float]()
    for limit in counts_up_to(int(rows.sizes.max())):
        inside = counted(cells, np.minimum(1, limit / rows.sizes)[rows.unit], CELLS)
        upto, rank = np.cumsum(inside), at * inside.sum()
        away = np.maximum(np.maximum(upto - inside - rank, rank - upto), 0)
        scores = -away * epsilon / (2 * limit * max(at, 1 - at))
        chance = np.exp(scores - scores.max())
        found[limit] = float(chance @ off / chance.sum())
    return found


def least(errors: dict[int, float]) -> Best:
    """The best limit."""
    limit = min(errors, key=lambda limit: errors[limit])
    return Best(errors[limit], str(limit))


# --- the recipe: a private choice of the clip ---


@dataclass(frozen=True)
class Recipe:
    """Which part of the amount the vote gets, how the choice weighs what is cut, where bins end.

    `naive` walks outward from the peak until a bin does not stand out: it falls for two humps.
    For a quantile at the fraction `rank` the error is that of ranks, of which the bias is little.
    """

    share: float
    proved: float
    groups: int
    naive: bool = False
    rank: float | None = None

    def clips(self, norms: Floats, law: Law) -> Iterator[float]:
        """The clips that so many votes choose."""
        top = ceil(log2(self.proved))
        edges = np.exp2(np.arange(top - BINS, top + 1, dtype=np.float64))
        sizes = np.ceil(np.log2(np.maximum(norms[norms > 0], edges[0]))) - top + BINS - 1
        counts = np.bincount(np.clip(sizes, 0, BINS - 1).astype(int), minlength=BINS)
        voting, rest = law.share(self.share), law.share(1 - self.share)
        noise = float(voting.scale(1.0)) * voting.draws((CHOICES, BINS), 3)
        for votes in counts + noise:
            yield self._chosen(votes, edges, float(voting.scale(1.0)), rest)

    def _chosen(self, votes: Floats, edges: Floats, scale: float, rest: Law) -> float:
        far, near = (4.75, 2.33) if rest.gaussian else (13.1, 3.9)
        seen = np.flatnonzero(votes > far * scale)
        last = int(np.argmax(votes)) if self.naive or not len(seen) else int(seen[-1])
        for n in range(last + 1, len(votes)):
            if votes[n] > near * scale:
                last = n
            elif n - last > 1:
                break
        clips = 2.0 ** np.arange(log2(edges[0]), log2(edges[last + 1]) + 0.01, 0.25)
        weight = self.groups**0.25 if rest.gaussian and self.rank is None else 1.0
        lost = weight * _excess(clips, edges[: last + 2]) @ votes[: last + 1]
        lost = np.maximum.accumulate(np.maximum(lost, 0)[::-1])[::-1]
        if self.rank is not None:
            epsilon = sqrt(8 * rest.amount) if rest.gaussian else rest.amount
            ranks = 4 * clips * max(self.rank, 1 - self.rank) / epsilon
            return float(clips[np.argmin(ranks + lost / 20)])
        return float(clips[np.argmin(rest.expected(lost / self.groups, rest.scale(clips)))])


def _excess(clips: Floats, edges: Floats) -> Floats:
    """By clip and bin: how far a log-uniform value of the bin lies above the clip, on average."""
    a, b, c = edges[:-1][None, :], edges[1:][None, :], clips[:, None]
    inside = ((b - c) - c * np.log(b / c)) / np.log(b / a)
    return np.where(c <= a, (b - a) / np.log(b / a) - c, np.where(c < b, inside, 0.0))


def recipe_of(totals: Totals, law: Law, proved: float, shown: int | None = None) -> Recipe:
    """The recipe for these totals: 10 % for 8 groups and more, 20 % below; ten more for Laplace.

    What is cut counts as if it were spread over all groups, or the mean of all and those shown.
    """
    groups = totals.groups if shown is None else round(sqrt(shown * totals.groups))
    share = (0.1 if totals.groups >= 8 else 0.2) + (0.0 if law.gaussian else 0.1)
    return Recipe(share, proved, groups)


def recipe_error(
    totals: Totals, law: Law, recipe: Recipe, shown: int | None = None
) -> tuple[float, float]:
    """Mean error over the private choices, and the median clip."""
    truth, norms, rest = totals.truth(), totals.norms(law), law.share(1 - recipe.share)
    clips = list(recipe.clips(norms, law))
    known = {
        c: _error(truth, scaled(totals, norms, c), float(rest.scale(c)), rest, shown)
        for c in set(clips)
    }
    return float(np.mean([known[c] for c in clips])), float(np.median(clips))


def recipe_limited_error(
    errors: dict[int, float], sizes: Floats, law: Law, recipe: Recipe
) -> float:
    """Mean error where the recipe chooses how many of each unit's rows count."""
    known = np.array(sorted(errors))
    chosen = [known[np.argmin(np.abs(np.log(known / clip)))] for clip in recipe.clips(sizes, law)]
    return float(np.mean([errors[int(limit)] for limit in chosen]))


def recipe_average_error(above: Totals, below: Totals, law: Law, proved: Sequence[float]) -> float:
    """In two steps: a rough mean for 0.3, residuals from it for 0.5, and the count for 0.2."""
    rough, residual, count = law.share(0.3), law.share(0.5), law.share(0.2)
    truth, errors = above.truth() / below.truth(), []
    first = _drawn(_together(above), rough, proved[0], 11)[:, 0]
    counted = _drawn(below, count, proved[1], 12)
    for n in range(0, CHOICES, 4):
        mean = first[n] / max(counted[n].sum(), 1.0)
        signed = Totals(above.unit, above.group, above.value - mean * below.value, above.groups)
        law_norms = np.abs(signed.value)
        norms = replace(signed, value=law_norms).norms(residual)
        recipe = recipe_of(signed, residual, proved[0])
        clip, spent = list(recipe.clips(norms, residual))[n], residual.share(1 - recipe.share)
        noise = spent.draws((DRAWS, above.groups), 13 + n) * float(spent.scale(clip))
        noisy = scaled(signed, norms, clip) + noise
        errors.append(np.abs(mean + noisy / np.maximum(counted[n], 1.0) - truth).mean())
    return float(np.mean(errors))


def recipe_ratio_error(above: Totals, below: Totals, law: Law, proved: Sequence[float]) -> float:
    """Two totals, each for half of the amount."""
    half, truth = law.share(0.5), above.truth() / below.truth()
    x, y = _drawn(above, half, proved[0], 21), _drawn(below, half, proved[1], 22)
    return float(np.abs(x / np.maximum(y, 1.0) - truth).mean())


def _drawn(totals: Totals, law: Law, proved: float, seed: int) -> Floats:
    """Answers of the recipe, one row per choice."""
    recipe = recipe_of(totals, law, proved)
    rest, norms = law.share(1 - recipe.share), totals.norms(law)
    clips = list(recipe.clips(norms, law))
    left = {clip: scaled(totals, norms, clip) for clip in set(clips)}
    exact = np.array([left[clip] for clip in clips])
    return exact + rest.draws(exact.shape, seed) * rest.scale(np.array(clips))[:, None]


def _together(totals: Totals) -> Totals:
    """All groups as one."""
    whole = counted(totals.unit, totals.value, totals.units)
    return Totals(np.arange(len(whole)), np.zeros(len(whole), dtype=np.int64), whole, 1)


def correlated_error(groups: int, most: int, law: Law) -> float:
    """Of 0/1 counts, where a unit is in at most `most` groups: independent and common noise."""
    best = float("inf")
    for shift in np.linspace(0, 1, 41):
        touched = np.array([0, most])
        worst = max(touched * (1 - shift) ** 2 + (groups - touched) * shift**2)
        # ρ = worst / 2t² + shift² / 2s²; t² + s² is least where t² : s² = √worst : shift.
        total = (sqrt(worst) + shift) ** 2 / (2 * law.amount)
        best = min(best, sqrt(total) * sqrt(2 / pi))
    return best
