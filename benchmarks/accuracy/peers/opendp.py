"""OpenDP: transformations chained with discrete Laplace, Gaussian, canonical noise or noisy max."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cache
from typing import Any

import opendp.prelude as dp

from benchmarks.accuracy.peers.common import Numbers, Table, Way, domain, main
from benchmarks.accuracy.questions import BOUNDS, DELTA, EPSILON, Measure, Question

dp.enable_features("contrib", "idealized-numerics", "honest-but-curious")

INTEGERS = dp.vector_domain(dp.atom_domain(T=int)), dp.symmetric_distance()
Draw = Callable[[], float]
Noise = Callable[[Any, float, int, bool], Draw]
"""A number, its sensitivity, how many measurements share the budget, whether it is an integer."""


def ways(question: Question, table: Table) -> Iterable[Way]:
    """Every noise, and the mean of a known number of rows as well as that of a noisy number."""
    if question.keys and question.public:
        yield Way("discrete Laplace over listed keys", _listed(question, table))
    elif question.keys:
        yield Way("Laplace threshold, then sums of the keys shown", _thresholded(table))
    elif question.measures[0].kind in {"median", "quantile"}:
        shares = len(question.measures)
        draws = [_quantile(measure, table, shares) for measure in question.measures]
        yield Way("noisy max over the integers", lambda: {"": [draw() for draw in draws]})
    else:
        noises: dict[str, Noise] = {"Laplace": _laplace, "Gaussian (zCDP)": _gaussian}
        if len(question.measures) == 1:
            noises["canonical noise"] = _canonical
        for name, noise in noises.items():
            for sized in (True, False) if _has_means(question) else (False,):
                how = f"{name}, number of rows public" if sized else name
                yield Way(how, _numbers(question, table, noise, sized=sized))


def _has_means(question: Question) -> bool:
    means = [m for m in question.measures if m.kind in {"mean", "variance"}]
    return bool(means) and all(m.where is None for m in means)


def _numbers(question: Question, table: Table, noise: Noise, *, sized: bool) -> Callable[[], Any]:
    count = len(question.measures)
    draws = [_drawn(m, table, noise, count, sized=sized) for m in question.measures]
    return lambda: {"": [draw() for draw in draws]}


def _drawn(measure: Measure, table: Table, noise: Noise, shares: int, *, sized: bool) -> Draw:
    values = [int(value) for value in table.values(measure)]
    if measure.kind == "count":
        counted = INTEGERS >> dp.t.then_count()
        return noise(counted(values), counted.map(1), shares, True)
    bounds = BOUNDS[measure.column]
    if measure.kind == "sum":
        summed = INTEGERS >> dp.t.then_clamp(bounds) >> dp.t.then_sum()
        return noise(summed(values), summed.map(1), shares, True)
    if sized:
        return _sized(measure, values, noise, shares)
    return _by_sums(measure, values, noise, shares)


def _sized(measure: Measure, values: list[int], noise: Noise, shares: int) -> Draw:
    """Mean or variance of a public number of rows, one of which may be another."""
    low, high = map(float, BOUNDS[measure.column])
    space = (
        dp.vector_domain(dp.atom_domain(bounds=(low, high), nan=False), size=len(values)),
        dp.symmetric_distance(),
    )
    made = dp.t.make_mean(*space) if measure.kind == "mean" else dp.t.make_variance(*space, ddof=0)
    return noise(made([float(value) for value in values]), made.map(2), shares, False)


def _by_sums(measure: Measure, values: list[int], noise: Noise, shares: int) -> Draw:
    """Mean or variance from a noisy count and noisy sums about the middle of the bounds."""
    low, high = BOUNDS[measure.column]
    middle, half = (low + high) // 2, high - (low + high) // 2
    offsets = [min(max(value, low), high) - middle for value in values]
    powers = (0, 1, 2) if measure.kind == "variance" else (0, 1)
    parts = [noise(sum(z**n for z in offsets), half**n, shares * len(powers), True) for n in powers]

    def draw() -> float:
        count, *moments = (part() for part in parts)
        means = [moment / max(count, 1) for moment in moments]
        if measure.kind == "variance":
            return float(min(max(means[1] - means[0] ** 2, 0), half**2))
        return float(min(max(middle + means[0], low), high))

    return draw


def _laplace(exact: Any, sensitivity: float, shares: int, whole: bool) -> Draw:  # noqa: FBT001
    made = dp.binary_search_chain(
        lambda scale: dp.m.make_laplace(*_numeric(whole), scale), sensitivity, EPSILON / shares
    )
    return lambda: made(exact)


def _gaussian(exact: Any, sensitivity: float, shares: int, whole: bool) -> Draw:  # noqa: FBT001
    """m measurements of ρ/m each: σ grows with the square root of m."""
    made = dp.m.make_gaussian(*_numeric(whole), _sigma() * sensitivity * shares**0.5)
    return lambda: made(exact)


@cache
def _sigma() -> float:
    """The σ of one measurement of sensitivity 1 that may spend all."""

    def one(scale: float) -> Any:
        gaussian = dp.m.make_gaussian(*_numeric(True), scale)
        return dp.c.make_fix_delta(dp.c.make_zCDP_to_approxDP(gaussian), DELTA)

    return float(dp.binary_search_param(one, 1, (EPSILON, DELTA), T=float))


def _canonical(exact: Any, sensitivity: float, shares: int, _whole: bool) -> Draw:  # noqa: FBT001
    assert shares == 1 or sensitivity
    made = dp.m.make_canonical_noise(
        *_numeric(False), d_in=float(sensitivity), d_out=(EPSILON / shares, DELTA / shares)
    )
    return lambda: made(float(exact))


def _numeric(whole: bool) -> tuple[Any, Any]:  # noqa: FBT001
    kind = int if whole else float
    atoms = dp.atom_domain(T=int) if whole else dp.atom_domain(T=float, nan=False)
    return atoms, dp.absolute_distance(T=kind)


def _quantile(measure: Measure, table: Table, shares: int) -> Draw:
    low, high = BOUNDS[measure.column]
    scores = INTEGERS >> dp.t.then_quantile_score_candidates(list(range(low, high + 1)), measure.at)
    values = [int(value) for value in table.values(measure)]
    exact = scores(values)
    noisy = dp.binary_search_chain(
        lambda scale: dp.m.make_noisy_max(
            scores.output_domain, scores.output_metric, dp.max_divergence(), scale, negate=True
        ),
        scores.map(1),
        EPSILON / shares,
    )
    return lambda: float(low + noisy(exact))


def _listed(question: Question, table: Table) -> Callable[[], Any]:
    cells = domain(question.keys)
    space = dp.vector_domain(dp.atom_domain(T=str)), dp.symmetric_distance()
    counted = dp.t.make_count_by_categories(*space, cells, null_category=False)
    exact = counted(table.keys(question.keys).tolist())
    noisy = dp.binary_search_chain(
        lambda scale: dp.m.make_laplace(counted.output_domain, counted.output_metric, scale),
        counted.map(1),
        EPSILON,
    )
    return lambda: {cell: [float(n)] for cell, n in zip(cells, noisy(exact), strict=True)}


def _thresholded(table: Table) -> Callable[[], Any]:
    """Half of ε for the counts and half for the sums, whose keys are disjoint."""
    space = dp.vector_domain(dp.atom_domain(T=str)), dp.symmetric_distance()
    counted = dp.t.make_count_by(*space)
    keys = table.keys(["education"])
    exact = counted(keys.tolist())

    def noisy(scale: Any, threshold: Any) -> Any:
        output = counted.output_domain, counted.output_metric
        return counted >> dp.m.make_laplace_threshold(*output, scale, threshold)

    scale: Any = dp.binary_search(lambda s: noisy(s, 10**6).map(1)[0] <= EPSILON / 2, (0.1, 100.0))
    threshold: Any = dp.binary_search(lambda t: noisy(scale, t).map(1)[1] <= DELTA, (1, 10**4))
    made = dp.m.make_laplace_threshold(
        counted.output_domain, counted.output_metric, scale, threshold
    )
    low, high = BOUNDS["age"]
    middle = (low + high) // 2
    sums = {
        key: _laplace(
            int((table.columns["age"][keys == key] - middle).sum()), high - middle, 2, True
        )
        for key in exact
    }

    def release() -> dict[str, Numbers]:
        return {
            key: [float(n), min(max(middle + sums[key]() / max(n, 1), low), high)]
            for key, n in made(exact).items()
        }

    return release


if __name__ == "__main__":
    main(ways)
