"""Cells derived of several tables: against least squares over all cells, and against releases."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import inf, prod

import numpy as np
import pytest

from dpsql.consistency.residuals import AskedCells, KnownTable
from dpsql.mechanisms import margin, standard_deviation
from dpsql.model.vocabulary import Mechanism, Noise
from dpsql.vault.measured_cells import CellReading, derivation

AXES = ("a", "b", "c")


@dataclass(frozen=True)
class Case:
    """Tables of the cells of a few attributes, and which cells are asked for."""

    sizes: dict[str, int]
    tables: list[KnownTable]
    target: AskedCells


def cases(count: int, seed: int = 1) -> Iterator[Case]:
    """Random ones: whole tables, differences and totals, overlapping ones, sums of some values."""
    dice = np.random.default_rng(seed)
    for _ in range(count):
        sizes = {axis: int(dice.integers(1, 4)) for axis in AXES}
        tables = []
        for _ in range(dice.integers(1, 6)):
            axes = tuple(dice.permutation(AXES)[: dice.integers(0, 4)].tolist())
            cells = dice.integers(-50, 50, [sizes[axis] for axis in axes]) * 1000
            along = frozenset(axis for axis in axes if sizes[axis] > 1 and dice.random() < 0.2)
            tables.append(KnownTable(axes, float(dice.uniform(0.5, 9)), cells, along))
        asked = tuple(dice.permutation(AXES)[: dice.integers(0, 4)].tolist())
        chosen = tuple(
            None if dice.random() < 0.7 else tuple(range(int(dice.integers(1, sizes[axis] + 1))))
            for axis in asked
        )
        yield Case(sizes, tables, AskedCells(asked, chosen, sizes))


def totals(case: Case, axes: Sequence[str], chosen: Sequence[tuple[int, ...] | None]) -> np.ndarray:
    """What each of these cells adds up of all cells, as rows."""
    result: np.ndarray = np.ones((1, 1))
    listed = dict(zip(axes, chosen, strict=True))
    order = [axis for axis in axes if listed[axis] is None]
    parts = {}
    for axis in AXES:
        size = case.sizes[axis]
        if axis not in listed:
            parts[axis] = np.ones((1, size))
        elif listed[axis] is None:
            parts[axis] = np.eye(size)
        else:
            parts[axis] = np.eye(size)[list(listed[axis] or ())].sum(axis=0, keepdims=True)
    for axis in AXES:
        result = np.kron(result, parts[axis])
    rows = [len(parts[axis]) for axis in AXES]
    grid: np.ndarray = result.reshape(*rows, -1)
    first = [AXES.index(axis) for axis in order]
    others = [n for n in range(len(AXES)) if n not in first]
    return grid.transpose(*first, *others, len(AXES)).reshape(-1, result.shape[1])


def designed(case: Case, table: KnownTable) -> np.ndarray:
    """What a table measures of all cells, as rows."""
    means: np.ndarray = np.ones((1, 1))
    for axis in table.axes:
        size = case.sizes[axis]
        means = np.kron(means, np.eye(size) - (axis in table.along) / size)
    measured: np.ndarray = means @ totals(case, table.axes, [None] * len(table.axes))
    return measured


def solved(case: Case) -> tuple[np.ndarray | None, np.ndarray | None]:
    """The estimates and their covariance by pseudo-inverse; None of what no table tells."""
    design = np.concatenate([designed(case, table) for table in case.tables])
    weights = np.concatenate([np.full(t.cells.size, 1 / t.variance) for t in case.tables])
    values = np.concatenate([t.cells.ravel() for t in case.tables])
    inverse = np.linalg.pinv(design.T @ (weights[:, None] * design))
    asked = totals(case, case.target.axes, case.target.chosen)
    if not np.allclose(asked @ np.linalg.pinv(design) @ design, asked):
        return None, None
    return asked @ inverse @ design.T @ (weights * values), asked @ inverse @ asked.T


def known(target: AskedCells, tables: Sequence[KnownTable]) -> np.ndarray:
    every = [target.precision(t.axes, t.variance, t.along) for t in tables]
    total: np.ndarray = np.sum(every, axis=0)
    return total


def wrong(asked: Sequence[Case]) -> list[str]:
    """What of the closed forms is not as least squares says."""
    result = []
    for case in asked:
        values, covariance = solved(case)
        precision = known(case.target, case.tables)
        said = case.target.variance(precision), case.target.largest_variance(precision)
        if covariance is None or values is None:
            result += [] if said[0] == inf else ["known"]
            continue
        true = np.diag(covariance).max(), np.linalg.eigvalsh(covariance).max()
        if not np.allclose(np.diag(covariance), said[0], rtol=1e-9):
            result.append("variance")
        if not np.allclose(true[1], said[1], rtol=1e-9):
            result.append("largest")
        cells = case.target.estimated(case.tables)
        shown = (
            case.sizes[a]
            for a, c in zip(case.target.axes, case.target.chosen, strict=True)
            if c is None
        )
        assert cells.shape == tuple(shown)
        if not np.abs(cells.ravel() - values).max() <= 0.5 + 1e-6:
            result.append("cells")
    return result


@pytest.mark.full("further data sets, and all their neighbours")
def test_residuals_are_weighted_least_squares_over_all_cells() -> None:
    every = list(cases(1000))
    assert wrong(every) == []
    told = [case.target.variance(known(case.target, case.tables)) for case in every]
    assert 300 < sum(variance < inf for variance in told) < 900  # both ends are tried


class CountsNoCells(AskedCells):
    """Wrong: a table by more attributes tells of totals as precisely as one by fewer."""

    def precision(
        self, axes: Sequence[str], variance: float, along: Collection[str] = ()
    ) -> np.ndarray:
        return super().precision(axes, variance, along) * prod(
            self.sizes[axis] for axis in axes if axis not in self.axes
        )


class BelievesMeans(AskedCells):
    """Wrong: differences tell of the means too."""

    def precision(
        self, axes: Sequence[str], variance: float, along: Collection[str] = ()
    ) -> np.ndarray:
        del along
        return super().precision(axes, variance)


class ForgetsMeans(AskedCells):
    """Wrong: no weighted sum of cells errs more than their differences do."""

    def largest_variance(self, precision: np.ndarray) -> float:
        differences = np.indices(precision.shape).sum(axis=0) == len(self.axes)
        return super().largest_variance(np.where(differences, precision, inf))


class ForgetsShares(AskedCells):
    """Wrong: what cells have in common is not divided among them."""

    def largest_variance(self, precision: np.ndarray) -> float:
        return self.variance(precision)


@pytest.mark.parametrize(
    ("twin", "what"),
    [
        (CountsNoCells, "variance"),
        (BelievesMeans, "variance"),
        (ForgetsShares, "largest"),
        (ForgetsMeans, "largest"),
    ],
)
def test_wrong_residuals_are_found(twin: type[AskedCells], what: str) -> None:
    every = [
        Case(c.sizes, c.tables, twin(c.target.axes, c.target.chosen, c.target.sizes))
        for c in cases(60)
    ]
    assert what in wrong(every)


# --- releases ---

RELEASES = 10_000
SIZES = {"a": 2, "b": 3, "c": 4}
MEASURED = {("a", "b"): 900, ("b", "c"): 400, ("a",): 2500, (): 100}
ASKED = {
    "a table that is there": (("a",), (None,)),
    "totals of it": (("b",), (None,)),
    "one of its groups": (("a", "b"), (None, (1,))),
    "two of three": (("b",), ((0, 2),)),
    "all": ((), ()),
    "of several tables": (("c",), (None,)),
}


def gaussian(scale: float) -> Noise:
    return Noise(Mechanism.DISCRETE_GAUSSIAN, Fraction(scale))


def released(
    dice: np.random.Generator, asked: str, tables: dict[tuple[str, ...], Noise], times: int = 1
) -> tuple[np.ndarray, Noise, Noise]:
    """The errors of so many derived tables, and what was said of them: each release is a value of
    one more attribute, which all tables have, so that none tells of another.
    """
    axes, chosen = ASKED[asked]
    sizes = {**SIZES, "release": times * RELEASES}
    readings = []
    for by, noise in tables.items():
        shape = [times * RELEASES, *(SIZES[axis] for axis in by)]
        if noise.mechanism is Mechanism.DISCRETE_GAUSSIAN:
            errors = dice.normal(0, standard_deviation(noise), shape)
        else:
            errors = dice.laplace(0, float(noise.scale), shape)
        readings.append(CellReading(("release", *by), noise, np.rint(errors)))
    derived = derivation(AskedCells(("release", *axes), (None, *chosen), sizes), readings)
    errors = derived.cells().reshape(times * RELEASES, -1)
    return errors, derived.law(derived.variance), derived.law(derived.largest)


@pytest.mark.parametrize("asked", ASKED)
def test_releases_have_the_stated_variance_and_their_intervals_hold_95_percent(asked: str) -> None:
    dice = np.random.default_rng(7)
    tables = {by: gaussian(scale) for by, scale in MEASURED.items()}
    errors, single, each = released(dice, asked, tables)
    assert np.abs(errors.var(axis=0) / standard_deviation(single) ** 2 - 1).mean() < 0.03
    assert 0.94 < (np.abs(errors) <= margin(single, 0.95)).mean() < 0.96
    largest = np.linalg.eigvalsh(np.cov(errors.T).reshape(errors.shape[1], -1)).max()
    assert largest < 1.05 * standard_deviation(each) ** 2
    twin = {by: gaussian(scale / 1.1) for by, scale in MEASURED.items()}
    stated = released(dice, asked, twin)[1]
    assert abs(errors.var() / standard_deviation(stated) ** 2 - 1) > 0.06


@pytest.mark.parametrize("draws", [1, 2, 3, 4, 6, 12])
def test_intervals_of_sums_of_laplace_noise_hold_95_percent(draws: int) -> None:
    dice = np.random.default_rng(8)
    by = {1: (), 2: ("a",), 3: ("b",), 4: ("c",), 6: ("a", "b"), 12: ("b", "c")}[draws]
    law = Noise(Mechanism.DISCRETE_LAPLACE, Fraction(50))
    errors, single, _ = released(dice, "all", {by: law, ("a", "b", "c"): law}, 10)
    assert abs(errors.var() / standard_deviation(single) ** 2 - 1) < 0.03
    assert 0.94 < (np.abs(errors) <= margin(single, 0.95)).mean() < 0.962
