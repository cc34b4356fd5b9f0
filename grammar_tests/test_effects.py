"""Tables of the same rows by different keys: against least squares over all cells at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations, product

import numpy as np
import pytest

from dpsql.consistency.least_squares import Agreement
from dpsql.consistency.marginals import Marginal, Marginals, Spread, consistent

SCALE = 10**6
"""Lattice steps to a unit of noise, so that rounding does not show."""

SIZES = (2, 3, 2)
BY_KEYS = ((0, 1), (2, 0), (1,), ())
"""Keys in an order of their own, some in common, none with all."""

ONE = Marginals(
    SIZES, tuple(Marginal(n, by, (0,), (n + 1.0,)) for n, by in enumerate(BY_KEYS)), (), ((),)
)

PARTS = Agreement(((0,), (1, 2)))
AGAIN = Agreement(((2,), (3, 4)))
SEVERAL = Marginals(
    (2, 3),
    (
        Marginal(0, (1, 0), (0, None, 1, 2), (1.0, 1.0, 2.0, 3.0)),
        Marginal(1, (0,), (0, 1, 2, 3, 4), (2.0, 1.0, 1.0, 0.5, 4.0)),
        Marginal(2, (), (0,), (1.5,)),
    ),
    (PARTS, AGAIN),
    ((), (), (1,), (1,), (1, 3)),
)
"""A whole, its parts, and a part divided again where it is."""

CASES = pytest.mark.parametrize("levels", [ONE, SEVERAL], ids=["one quantity", "several"])


def places(levels: Marginals) -> list[tuple[int, int, tuple[int, ...]]]:
    """Every measurement that takes part: its table, its place, and its cell."""
    return [
        (n, place, cell)
        for n, table in enumerate(levels.tables)
        for place, quantity in enumerate(table.quantities)
        if quantity is not None
        for cell in product(*(range(levels.sizes[axis]) for axis in table.axes))
    ]


def solved(levels: Marginals) -> tuple[np.ndarray, np.ndarray]:
    """Least squares over the cells behind the measurements: the map from them, and its covariance.

    The unknowns are the quantities of each cell by all keys, as far as agreements leave them free.
    """
    cells = list(product(*map(range, levels.sizes)))
    count = len(levels.starts)
    rows = []
    for agreement in levels.agreements:
        for other in agreement.lists[1:]:
            rows.append(np.zeros(count))
            rows[-1][list(other)] += 1
            rows[-1][list(agreement.lists[0])] -= 1
    _, sizes, axes = np.linalg.svd(np.array(rows).reshape(-1, count))
    free = axes[int((sizes > 1e-9).sum()) :].T
    adds = np.zeros((len(places(levels)), len(cells), count))
    weights = []
    for at, (n, place, key) in enumerate(places(levels)):
        table = levels.tables[n]
        for m, cell in enumerate(cells):
            if all(cell[axis] == value for axis, value in zip(table.axes, key, strict=True)):
                adds[at, m, table.quantities[place]] = 1
        weights.append(table.deviations[place] ** -2)
    design = (adds @ free).reshape(len(weights), -1)
    inverse = np.linalg.pinv(design.T @ np.diag(weights) @ design)
    return design @ inverse @ design.T @ np.diag(weights), design @ inverse @ design.T


def drawn(levels: Marginals, generator: np.random.Generator, most: int) -> list[np.ndarray]:
    """Tables of Python integers."""
    return [
        np.array(
            generator.integers(
                0, most, (len(t.quantities), *(levels.sizes[axis] for axis in t.axes))
            ).tolist(),
            dtype=object,
        )
        for t in levels.tables
    ]


def listed(levels: Marginals, tables: Sequence[np.ndarray]) -> np.ndarray:
    return np.array([tables[n][(place, *cell)] for n, place, cell in places(levels)], dtype=object)


def totals(table: Marginal, cells: np.ndarray, quantity: int, common: set[int]) -> list[object]:
    """The totals of a quantity by the keys in common, those in ascending order."""
    found = cells[[table.quantities.index(quantity)]]
    ascending = found.transpose(0, *(1 + np.argsort(table.axes)))
    gone = [n for n, axis in enumerate(sorted(table.axes), start=1) if axis not in common]
    result: list[object] = ascending.sum(axis=tuple(gone)).tolist()
    return result


def all_agree(levels: Marginals, tables: Sequence[np.ndarray]) -> bool:
    """Whether any two tables say the same of each total that both of them know."""
    pairs = combinations(zip(levels.tables, tables, strict=True), 2)
    return all(
        totals(*one, quantity, common) == totals(*other, quantity, common)
        for one, other in pairs
        for common in [set(one[0].axes) & set(other[0].axes)]
        for quantity in {*one[0].quantities} & {*other[0].quantities}
        if quantity is not None
    )


@CASES
def test_agreement_is_least_squares_over_all_cells(levels: Marginals) -> None:
    generator = np.random.default_rng(1)
    estimate, covariance = solved(levels)
    measured = drawn(levels, generator, 100 * SCALE)
    found = listed(levels, consistent(levels, measured)).astype(float)
    expected = estimate @ listed(levels, measured).astype(float)
    assert np.abs(found - expected).max() < 10
    spread = Spread.of(levels)
    for row, (n, place, cell) in enumerate(places(levels)):
        rounding = spread._rounding((n, place))
        own = spread.between((n, place), (n, place)) - rounding
        assert own == pytest.approx(covariance[row, row])
        for column, (m, other, there) in enumerate(places(levels)):
            axes = levels.tables[n].axes, levels.tables[m].axes
            here = dict(zip(axes[0], cell, strict=True))
            meet = all(here.get(axis, v) == v for axis, v in zip(axes[1], there, strict=True))
            if meet and (n, place) != (m, other):
                between = spread.between((n, place), (m, other))
                assert between == pytest.approx(covariance[row, column], abs=1e-9)


@CASES
def test_no_error_grows(levels: Marginals) -> None:
    _, covariance = solved(levels)
    before = np.diag([levels.tables[n].deviations[p] ** 2 for n, p, _ in places(levels)])
    assert np.linalg.eigvalsh(before - covariance).min() > -1e-9


@CASES
@pytest.mark.parametrize("most", [50, 10**25])
def test_totals_agree_to_the_last_digit(levels: Marginals, most: int) -> None:
    generator = np.random.default_rng(2)
    small = [table * (most // 50) + 3 for table in drawn(levels, generator, 50)]
    found = consistent(levels, small)
    assert all(type(value) is int for table in found for value in table.ravel().tolist())
    assert all_agree(levels, found)
    assert not all_agree(levels, small)
    for table, cells in zip(levels.tables, found, strict=True):
        at = {quantity: place for place, quantity in enumerate(table.quantities)}
        for agreement in levels.agreements:
            if at.keys() >= set(agreement.places):
                sums = [cells[[at[q] for q in listed]].sum(axis=0) for listed in agreement.lists]
                assert all((other == sums[0]).all() for other in sums[1:])


@CASES
def test_what_agrees_already_stays(levels: Marginals) -> None:
    generator = np.random.default_rng(3)
    there = consistent(levels, drawn(levels, generator, 10**18))
    again = consistent(levels, there)
    assert all((a == b).all() for a, b in zip(there, again, strict=True))


def test_what_takes_no_part_stays() -> None:
    measured = drawn(SEVERAL, np.random.default_rng(4), 50)
    assert (consistent(SEVERAL, measured)[0][1] == measured[0][1]).all()


@pytest.mark.full("draws random questions or values")
def test_rounding_is_counted() -> None:
    """Of noise of a few steps the error is that of real answers, not of ideal ones."""
    generator = np.random.default_rng(5)
    tables = tuple(replace(t, deviations=(3.0,)) for t in ONE.tables)
    levels, spread = replace(ONE, tables=tables), Spread.of(replace(ONE, tables=tables))
    errors = []
    for _ in range(500):
        noise = [
            np.array(
                generator.normal(0, 3.0, (1, *(SIZES[a] for a in t.axes))).round(), dtype=object
            )
            for t in tables
        ]
        whole = [np.vectorize(int, otypes=[object])(table) for table in noise]
        errors.append([float((t.astype(float) ** 2).mean()) for t in consistent(levels, whole)])
    for n, found in enumerate(np.mean(errors, axis=0)):
        assert found == pytest.approx(spread.between((n, 0), (n, 0)), rel=0.1)
