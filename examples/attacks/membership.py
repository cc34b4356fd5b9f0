"""Membership inference: a model tells who was among those from whom it learned.

A linear regression of days in hospital learns from second moments. They are published with it,
since the errors of its coefficients cannot be told without them. Who has a list of candidates (all
targets, of whom those are patients whose coins say so) solves for who adds up to them.

* Plain SQL: exact moments.
* Coefficients alone: a model with many of them misses those from whom it learned by less.
* k-anonymity: no moment of fewer than k patients is told, and none of these is.
* dpsql: the same moments in one question, for which ε pays.
"""

from __future__ import annotations

from itertools import combinations_with_replacement

import numpy as np

from examples.attacks.scene import Bits, K, Numbers, Outcome, Published, Scene, main

DIGITS = [f"CASE WHEN SUBSTRING(zip, {n}, 1) < '5' THEN 1 ELSE 0 END" for n in range(1, 6)]
COLUMNS = ["(1994 - EXTRACT(year FROM born))", "hours", *DIGITS, "days"]
SIZES = np.array([100, 100, *(1 for _ in DIGITS), 100], dtype=np.float64)
"""About the largest value of each column."""
PRODUCTS = list(combinations_with_replacement(range(len(COLUMNS)), 2))
SUMS = [
    *(f"SUM({column})" for column in COLUMNS),
    *(f"SUM({COLUMNS[i]} * {COLUMNS[j]})" for i, j in PRODUCTS),
]
MOMENTS = f"SELECT COUNT(*), {', '.join(SUMS)} FROM patients"


def attack(scene: Scene) -> list[Outcome]:
    """The outcomes against each way to publish."""
    candidates = scene.candidates(", ".join(COLUMNS)) / SIZES
    (exact,) = scene.owner(MOMENTS)
    (large,) = scene.owner(f"{MOMENTS} HAVING COUNT(*) >= {K}")
    with scene.attacker() as connection:
        (noisy,) = connection.cursor().execute(MOMENTS).fetchall()
    return [
        scene.outcome(Published.PLAIN, members(candidates, scaled(exact))),
        scene.outcome(Published.COEFFICIENTS, missed_least(candidates, scaled(exact))),
        scene.outcome(Published.K_ANONYMOUS, members(candidates, scaled(large))),
        scene.outcome(Published.DPSQL, members(candidates, scaled(noisy))),
    ]


def scaled(moments: tuple[int, ...]) -> Numbers:
    """Moments of columns whose largest values are about 1."""
    sizes = np.array([1.0, *SIZES, *(SIZES[i] * SIZES[j] for i, j in PRODUCTS)])
    shares: Numbers = np.array(moments, dtype=np.float64) / sizes
    return shares


def members(candidates: Numbers, moments: Numbers) -> Bits:
    """Who adds up to these moments, by least squares."""
    products = np.array([candidates[:, i] * candidates[:, j] for i, j in PRODUCTS])
    each = np.vstack([np.ones(len(candidates)), candidates.T, products])
    shares, *_ = np.linalg.lstsq(each, moments, rcond=None)
    guesses: Bits = shares > 1 / 2
    return guesses


def missed_least(candidates: Numbers, moments: Numbers) -> Bits:
    """The half of the candidates whose days the regression misses by less."""
    width = len(COLUMNS)
    square = np.zeros((width + 1, width + 1))
    square[0] = square[:, 0] = moments[: width + 1]
    for (i, j), moment in zip(PRODUCTS, moments[width + 1 :], strict=True):
        square[i + 1, j + 1] = square[j + 1, i + 1] = moment
    coefficients, *_ = np.linalg.lstsq(square[:-1, :-1], square[:-1, -1], rcond=None)
    known = np.column_stack([np.ones(len(candidates)), candidates[:, :-1]])
    missed = np.abs(candidates[:, -1] - known @ coefficients)
    guesses: Bits = missed <= np.median(missed)
    return guesses


if __name__ == "__main__":
    main("membership", attack, patients=36, targets=36, neighbours="add_remove")
