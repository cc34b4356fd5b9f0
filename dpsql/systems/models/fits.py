"""What is computed of noisy second moments: least squares, logistic regression, components.

A matrix A of products of cells is measured as A + E, E being noise of known variance. With γ the
coefficients of the cells, -1 for what they explain, the equations of least squares are off by E·γ,
besides what the rows are off by: errors are those of both, to first order.

Sources: Brillinger 1982, "A generalized linear model with Gaussian regressor variables", for the
direction of a logistic regression, which is that of least squares; Fisher's discriminant for how
far along it the odds grow (Hastie, Tibshirani and Friedman 2009, section 4.3); Stein 1981, and
Bellec and Zhang 2021, "Second order Stein", for what is gained by fitting noisy numbers.
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
"""The least share of rows of either value, and of the variance that is left, where noise says that
there is less: the log odds would be without bounds."""


@dataclass(frozen=True, slots=True)
class ModelCell:
    """A cell of a column of a model: the number itself, what is at a knot, a value, or NULL."""

    column: int
    value: Value


@dataclass(frozen=True, slots=True, eq=False)
class LinearFit:
    """The coefficients of some `cells`, an intercept first, and their covariance; what is left of
    the variance of what they explain, and all of it, per row. Numbers are from -1 to 1. So many
    directions are `hidden` by noise. `explained` is the share of the variance that these
    coefficients explain in the rows, less what noise adds, with its standard error.
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
    """Directions of the largest variance per row. The variances of the rows along them, less what
    noise adds, and their shares of all of it with standard errors.
    """

    cells: tuple[ModelCell, ...]
    mean: np.ndarray
    directions: np.ndarray
    variances: np.ndarray
    shares: np.ndarray
    errors: np.ndarray


def explaining(moments: Moments, label: int) -> tuple[tuple[ModelCell, ...], np.ndarray]:
    """The cells that explain the column `label`, and their numbers in the matrix behind the 1.

    Of listed values the first is what others are compared with: it has none.
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
    """The cells that have a coefficient, and these, an intercept first, of weights of all cells
    behind a 1: of listed values each is against the first.
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
    """What the other columns say of the cell `target` of the column `label`, linearly."""
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
    off = moments.noise_of(gamma)[np.ix_(used, used)] + left / freedom * products
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
    """The covariances of the noise in the equations, and in the coefficients that solve them, along
    the directions of the cells. Directions shorter than `least` are as `inverse_above` takes them.
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
    """The mean of what noise adds to v·matrix·v because v is chosen by the noisy matrix (Stein), by
    the covariances of the noise in matrix·v and in v.
    """
    return 2 * float(np.trace(chosen))


def _deviation(moments: Moments, weights: np.ndarray, chosen: np.ndarray) -> float:
    """The standard deviation of the noise in a weighted sum of the matrix, less its `_gain`."""
    direct = moments.influence(weights) ** 2 @ moments.variances
    return sqrt(float(direct) + 4 * float(np.sum(np.abs(chosen * chosen.T))))


def noise_edge(size: int, variance: float) -> float:
    """How far a symmetric matrix of noise, of this variance beside its diagonal and of twice that
    on it, stretches any direction: hardly more than 2·√size deviations (Wigner's semicircle).
    """
    return 2 * sqrt(size * variance)


def inverse_above(products: np.ndarray, least: float) -> tuple[np.ndarray, int]:
    """The inverse of a matrix of which no direction is taken to be shorter than `least`, and how
    many are: what noise hides says little, instead of anything.

    >>> inverse_above(np.diag([4.0, -1.0]), 2.0)[1]
    1
    """
    lengths, directions = np.linalg.eigh(products)
    hidden = int(np.count_nonzero(lengths < least))
    result: np.ndarray = (directions / np.maximum(lengths, least)) @ directions.T
    return result, hidden


def logistic(fit: LinearFit) -> tuple[np.ndarray, np.ndarray]:
    """Coefficients of the log odds of 1, an intercept first, and their covariance, by a linear fit
    of -1 and 1.
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
    """The first so many principal components of all cells of all columns."""
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
    for place, own in enumerate(order):
        chosen = _choice_of_direction(moments, every, rows * variances, int(own))
        shares[place] = (variances[own] - _gain(chosen) / rows) / whole
        weights = np.outer(every[own], every[own]) - shares[place] * every.T @ every
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
    """The covariances of the noise in the matrix along one direction and each other one, and in the
    direction itself. Lengths nearer than the noise between them are taken to be that far apart.
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
    """Coefficients of numbers as they are, instead of from -1 to 1, of each knot against the first
    one, instead of hats, and of a second value where it is there, instead of -1 or 1; with the
    cells that they are of, and their covariance.
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
