"""MST as its authors describe it (McKenna, Miklau and Sheldon 2021), fitted and drawn by `mbi`.

What `benchmarks.synthetic` compares with: the same cells, ε and δ; noise and choices are of floats,
which promise nothing. `jax` and `mbi` are imported where they are needed.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from math import sqrt
from typing import Any, TypeAlias

import numpy as np

from dpsql.mechanisms.pair_choices import components

Pair: TypeAlias = tuple[int, int]

FREQUENT = 3
"""Cells whose noisy count is so many deviations of its noise are not put together."""
ITERATIONS = 5000


class Rooted:
    """Counts divided by these weights, so that all have one deviation: what a measurement asks."""

    def __init__(self, weights: np.ndarray) -> None:
        self.weights = weights

    def __call__(self, factor: Any) -> Any:
        return factor.datavector() / self.weights

    def __hash__(self) -> int:
        return hash(self.weights.tobytes())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Rooted) and self.weights.tolist() == other.weights.tolist()


def mst(
    exact: Sequence[np.ndarray], sizes: Sequence[int], rho: float, rows: int, seed: int
) -> tuple[np.ndarray, ...]:
    """So many rows like the `exact` ones, both by the cells of each column."""
    import jax  # noqa: PLC0415

    jax.config.update("jax_enable_x64", True)
    jax.config.update("jax_enable_compilation_cache", False)
    from mbi import Domain, LinearMeasurement, estimation  # noqa: PLC0415

    rng = np.random.default_rng(seed)
    deviation = sqrt(3 * len(sizes) / (2 * rho))
    noisy = [
        np.bincount(own, minlength=size) + rng.normal(0, deviation, size)
        for own, size in zip(exact, sizes, strict=True)
    ]
    codes = [_codes(counts >= FREQUENT * deviation) for counts in noisy]
    coded = [code[own] for code, own in zip(codes, exact, strict=True)]
    singles = [np.bincount(code, weights=own) for code, own in zip(codes, noisy, strict=True)]
    roots = [np.sqrt(np.bincount(code)) for code in codes]
    measured = [
        LinearMeasurement(own / root, (str(n),), deviation, Rooted(root))
        for n, (own, root) in enumerate(zip(singles, roots, strict=True))
    ]
    edges = _tree(coded, singles, sqrt(8 * rho / 3 / (len(sizes) - 1)), rng)
    deviation = sqrt(3 * len(edges) / (2 * rho))
    for pair in edges:
        counts = _table(coded, singles, pair)
        around = counts + rng.normal(0, deviation, counts.shape)
        names = str(pair[0]), str(pair[1])
        measured.append(LinearMeasurement(around.ravel(), names, deviation))
    domain = Domain([str(n) for n in range(len(sizes))], [len(own) for own in singles])
    model = estimation.MirrorDescent().estimate(domain, measured, iters=ITERATIONS)
    drawn = model.synthetic_data(rows=rows).to_dict()
    return tuple(_cells(np.asarray(drawn[str(n)]), code, rng) for n, code in enumerate(codes))


def _codes(frequent: np.ndarray) -> np.ndarray:
    """A code for each frequent cell, and one more for all others."""
    return np.where(frequent, np.cumsum(frequent) - 1, frequent.sum())


def _tree(
    coded: Sequence[np.ndarray], singles: Sequence[np.ndarray], epsilon: float, rng: Any
) -> list[Pair]:
    """Edges by exponential mechanism, the score of one being its distance from independence."""
    pairs = list(combinations(range(len(coded)), 2))
    shares = [np.maximum(own, 0) / np.maximum(own, 0).sum() for own in singles]
    total = float(np.mean([own.sum() for own in singles]))
    scores = {
        (a, b): np.abs(
            _table(coded, singles, (a, b)) - total * np.outer(shares[a], shares[b])
        ).sum()
        for a, b in pairs
    }
    edges = list[Pair]()
    while len(edges) < len(coded) - 1:
        parts = components(len(coded), edges)
        joining = [pair for pair in pairs if parts[pair[0]] != parts[pair[1]]]
        odds = [epsilon / 2 * scores[pair] + rng.gumbel() for pair in joining]
        edges.append(joining[int(np.argmax(odds))])
    return edges


def _table(coded: Sequence[np.ndarray], singles: Sequence[np.ndarray], pair: Pair) -> np.ndarray:
    shape = len(singles[pair[0]]), len(singles[pair[1]])
    places = np.ravel_multi_index([coded[n] for n in pair], shape)
    return np.bincount(places, minlength=shape[0] * shape[1]).reshape(shape)


def _cells(drawn: np.ndarray, codes: np.ndarray, rng: Any) -> np.ndarray:
    """A cell for each row, all that have one code as likely as each other."""
    result = np.empty(len(drawn), dtype=np.int64)
    for code in range(int(codes.max()) + 1):
        here = np.flatnonzero(drawn == code)
        result[here] = rng.choice(np.flatnonzero(codes == code), len(here))
    return result
