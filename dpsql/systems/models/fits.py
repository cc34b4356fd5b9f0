"""Fits from noisy second moments: least squares, logistic regression, principal components.

A matrix A of products of cells is measured as A + E, where E is noise of known variance. Let γ be
the coefficients of the cells, and -1 for the target. Then the normal equations have the error E·γ
in addition to the sampling error. The standard errors include both, to first order.

The sampling error of a unit is the sum of x·e over its rows, which may all err together. A sum s of
m vectors v has s·sᵀ ≤ m·Σ v·vᵀ (Cauchy and Schwarz). So the most rows of a unit times the
covariance of independent rows is an upper bound.

Sources: Brillinger 1982, "A generalized linear model with Gaussian regressor variables", for the
direction of a logistic regression, which is that of least squares. Fisher's discriminant gives the
scale of the log odds along it (Hastie, Tibshirani and Friedman 2009, section 4.3). Stein 1981, and
Bellec and Zhang 2021, "Second order Stein", give the gain from fitting noisy numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import log, sqrt

import numpy as np

from dpsql.model.dataclass import dataclass
from dpsql.model.tree import Value
from dpsql.systems.models.bends import heights, parts_of
from dpsql.systems.models.model_inputs import Input, ListedInput, NumberInput, PairInput
from dpsql.systems.models.released_moments import Moments

_LEAST, _LEAST_LEFT = 1e-3, 0.05
"""Lower bounds on the share of rows of either value and on the share of residual variance.

They apply if noise yields less, since the log odds would be unbounded.
"""


@dataclass(frozen=True, slots=True)
class ModelCell:
    """A cell of a model's column: the number itself, a knot, a listed value, or NULL."""

    column: int
    value: Value


@dataclass(frozen=True, slots=True, eq=False)
class LinearFit:
    """Coefficients of the `cells`, intercept first, and their covariance, for numbers from -1
    to 1.

    `left` is the residual variance of the target per row, `whole` its total variance. `hidden`
    counts the directions hidden by noise. `explained` is the share of variance that the fit
    explains, corrected for noise, with its standard error.
    """

    cells: tuple[ModelCell, ...]
    coefficients: np.ndarray
    covariance: np.ndarray
    left: float
    whole: float
    mean: float
    hidden: int
    explained: float
    explained_error: float


@dataclass(frozen=True, slots=True, eq=False)
class Components:
    """Principal directions, with the variances of the rows along them.

    Variances are corrected for noise. `shares` are their shares of the total variance, with
    standard errors.
    """

    cells: tuple[ModelCell, ...]
    mean: np.ndarray
    directions: np.ndarray
    variances: np.ndarray
    shares: np.ndarray
    errors: np.ndarray


def explaining(moments: Moments, label: int) -> tuple[tuple[ModelCell, ...], np.ndarray]:
    """Return the explanatory cells of the column `label`, and their indices in the matrix.

    The first of listed values is the reference and has no cell. Index 0 is the intercept.
    """
    cells, numbers = list[ModelCell](), [0]
    for place, (n, part) in enumerate(moments.layout.parts, 1):
        if n == label:
            continue
        for cell, value in enumerate(part.cells):
            if not (isinstance(part, ListedInput) and cell == 0):
                cells.append(ModelCell(n, value))
                numbers.append(moments.layout.starts[place] + cell)
    return tuple(cells), np.array(numbers)


def against_first(
    columns: Sequence[Input], weights: np.ndarray
) -> tuple[tuple[ModelCell, ...], np.ndarray]:
    """Return the cells with a coefficient, and the coefficients with the intercept first.

    `weights` belong to a 1 and all cells. Coefficients of listed values are relative to the first
    value.
    """
    cells, coefficients, start = list[ModelCell](), [float(weights[0])], 1
    for n, part in parts_of(columns):
        first = float(weights[start]) if isinstance(part, ListedInput) else 0.0
        coefficients[0] += first
        for cell, value in enumerate(part.cells):
            if not (isinstance(part, ListedInput) and cell == 0):
                cells.append(ModelCell(n, value))
                coefficients.append(float(weights[start + cell]) - first)
        start += len(part.cells)
    return tuple(cells), np.array(coefficients)


def least_squares(moments: Moments, label: int, target: int) -> LinearFit:
    """Fit the cell `target` of the column `label` linearly on the other columns."""
    cells, used = explaining(moments, label)
    own = moments.layout.numbers_of(label)[target]
    matrix, rows = moments.matrix, moments.rows
    both, square = matrix[used, own], float(matrix[own, own])
    products = matrix[np.ix_(used, used)]
    least = noise_edge(len(used), float(np.min(moments.variances)))
    inverse, hidden = inverse_above(products, least)
    coefficients = inverse @ both
    off_target = square - 2 * coefficients @ both + coefficients @ products @ coefficients
    left = max(off_target, 0.0)
    freedom = max(rows - len(used), 1.0)
    gamma = np.zeros(len(matrix))
    gamma[used], gamma[own] = coefficients, -1.0
    off = (
        moments.noise_of(gamma)[np.ix_(used, used)] + moments.most_rows * left / freedom * products
    )
    mean = float(matrix[0, own]) / rows
    whole = max(square / rows - mean**2, 1e-12)
    around = np.zeros(len(matrix))
    around[[0, own]] = -mean, 1.0
    chosen = _choice_of_coefficients(moments, (used, int(own)), gamma, least)
    remaining = (off_target - _gain(chosen)) / (rows * whole)
    weights = np.outer(gamma, gamma) - remaining * np.outer(around, around)
    error = _deviation(moments, weights, chosen) / (rows * whole)
    return LinearFit(
        cells=cells,
        coefficients=coefficients,
        covariance=inverse @ off @ inverse,
        left=left / freedom,
        whole=whole,
        mean=mean,
        hidden=hidden,
        explained=1 - remaining,
        explained_error=min(error, 1.0),
    )


def _choice_of_coefficients(
    moments: Moments, place: tuple[np.ndarray, int], gamma: np.ndarray, least: float
) -> np.ndarray:
    """Return the covariances of the noise in the equations and in their solution, by direction.

    Directions shorter than `least` are treated as in `inverse_above`.
    """
    used, own = place
    matrix = moments.matrix
    lengths, directions = np.linalg.eigh(matrix[np.ix_(used, used)])
    taken = 1 / np.maximum(lengths, least)
    apart = lengths[:, None] - lengths
    short = np.logical_and.outer(lengths < least, lengths < least)
    near = np.abs(apart) < 1e-9 * max(float(np.abs(lengths).max()), least)
    slopes = (taken[:, None] - taken) / np.where(near, 1.0, apart)
    slopes = np.where(near, np.where(short, 0.0, -np.outer(taken, taken)), slopes)
    lines = np.zeros((len(used), len(matrix)))
    lines[:, used] = directions.T
    moved = slopes * (directions.T @ matrix[used, own]) @ lines
    moved[:, own] += taken
    # One at a time: all together take as many numbers as cells times entries.
    by_each = [
        moments.spread(moments.influence(np.outer(line, by))) @ gamma
        for line, by in zip(lines, moved, strict=True)
    ]
    result: np.ndarray = lines @ np.array(by_each).T
    return result


def _gain(chosen: np.ndarray) -> float:
    """Return the mean bias of v·matrix·v from choosing v by the noisy matrix (Stein).

    `chosen` holds the covariances of the noise in matrix·v and in v.
    """
    return 2 * float(np.trace(chosen))


def _deviation(moments: Moments, weights: np.ndarray, chosen: np.ndarray) -> float:
    """Return the standard deviation of a weighted sum of the matrix, corrected by `_gain`."""
    direct = moments.influence(weights) ** 2 @ moments.variances
    return sqrt(float(direct) + 4 * float(np.sum(np.abs(chosen * chosen.T))))


def noise_edge(size: int, variance: float) -> float:
    """Return a bound on the spectral norm of a symmetric noise matrix.

    The variance is `variance` off the diagonal and twice that on it. The norm is rarely above
    2·√size standard deviations (Wigner's semicircle).
    """
    return 2 * sqrt(size * variance)


def inverse_above(products: np.ndarray, least: float) -> tuple[np.ndarray, int]:
    """Return the inverse of a matrix with eigenvalues raised to at least `least`.

    Also returns the number of raised eigenvalues. Directions hidden by noise thus get small
    coefficients instead of arbitrary ones.

    >>> inverse_above(np.diag([4.0, -1.0]), 2.0)[1]
    1
    """
    lengths, directions = np.linalg.eigh(products)
    hidden = int(np.count_nonzero(lengths < least))
    result: np.ndarray = (directions / np.maximum(lengths, least)) @ directions.T
    return result, hidden


def logistic(fit: LinearFit) -> tuple[np.ndarray, np.ndarray]:
    """Return coefficients of the log odds of 1, intercept first, and their covariance.

    They follow from a linear fit of a target of -1 and 1.
    """
    share = min(max((1 + fit.mean) / 2, _LEAST), 1 - _LEAST)
    whole = share * (1 - share)
    left = min(max(fit.left / 4, _LEAST_LEFT * whole), whole)
    times, explained = 1 / (2 * left), 1 - left / whole
    coefficients = fit.coefficients * times
    middle = 2 * (share + explained * (0.5 - share)) - 1
    coefficients[0] += log(share / (1 - share)) - times * middle
    return coefficients, fit.covariance * times**2


def components(moments: Moments, count: int) -> Components:
    """Return the first `count` principal components of all cells of all columns."""
    cells = tuple(ModelCell(n, value) for n, part in moments.layout.parts for value in part.cells)
    rows, matrix = moments.rows, moments.matrix
    mean = matrix[0, 1:] / rows
    spread = matrix[1:, 1:] / rows - np.outer(mean, mean)
    variances, vectors = np.linalg.eigh(spread)
    every = np.hstack([-(vectors.T @ mean)[:, None], vectors.T])
    whole = max(float(np.trace(spread)), 1e-12)
    order = np.argsort(variances)[::-1][:count]
    directions = vectors[:, order].T
    signs = np.sign(directions[np.arange(len(order)), np.abs(directions).argmax(axis=1)])
    directions = directions * np.where(signs == 0, 1, signs)[:, None]
    shares, errors = np.zeros(len(order)), np.zeros(len(order))
    traced = every.T @ every
    for place, own in enumerate(order):
        chosen = _choice_of_direction(moments, every, rows * variances, int(own))
        shares[place] = (variances[own] - _gain(chosen) / rows) / whole
        weights = np.outer(every[own], every[own]) - shares[place] * traced
        errors[place] = _deviation(moments, weights, chosen) / (rows * whole)
    shares = np.clip(shares, 0.0, 1.0)
    return Components(
        cells=cells,
        mean=mean,
        directions=directions,
        variances=shares * whole,
        shares=shares,
        errors=np.minimum(errors, 1.0),
    )


def _choice_of_direction(
    moments: Moments, every: np.ndarray, lengths: np.ndarray, own: int
) -> np.ndarray:
    """Return covariances of the noise between one direction and the others, for its error.

    They pair the noise in the matrix along both directions with that in the direction itself.
    Eigenvalues closer than the noise between them are treated as that far apart.
    """
    others = np.arange(len(lengths)) != own
    off = every[others] @ moments.noise_of(every[own]) @ every[others].T
    apart = lengths[own] - lengths[others]
    least = np.maximum(np.sqrt(np.maximum(np.diag(off), 0.0)), 1e-300)
    result: np.ndarray = off / (np.where(apart < 0, -1, 1) * np.maximum(np.abs(apart), least))
    return result


def in_units(
    columns: Sequence[Input],
    cells: Sequence[ModelCell],
    coefficients: np.ndarray,
    covariance: np.ndarray,
) -> tuple[tuple[ModelCell, ...], np.ndarray, np.ndarray]:
    """Return cells, coefficients and covariance in the units of the data.

    A fit scales numbers to -1 to 1; here they have their own units again. A spline is given by its
    values at the knots, relative to the first. A column of two values has an indicator of the
    second one, instead of -1 and 1.
    """
    change, result = np.eye(len(coefficients)), list(cells)
    for n, column in enumerate(columns):
        places = [place for place, cell in enumerate(cells, 1) if cell.column == n]
        own = [place for place in places if cells[place - 1].value is not None]
        match column:
            case NumberInput(levels=0) if own:
                times, start = (
                    np.array([[1 / column.half]]),
                    np.array([-column.middle / column.half]),
                )
            case NumberInput() if own:
                start, *others = heights(np.linspace(-1, 1, len(column.knots)), column.levels)
                times = np.array(others) - start
                for place, knot in zip(own, column.knots[1:], strict=True):
                    result[place - 1] = ModelCell(n, knot)
            case PairInput() if own:
                times, start = np.array([[2.0]]), np.array([-1.0])
            case _:
                continue
        change[np.ix_(own, own)] = times
        change[0, own] = start
        for null in set(places) - set(own):  # of which none of this is
            change[null, own] = -start
    return tuple(result), change @ coefficients, change @ covariance @ change.T
