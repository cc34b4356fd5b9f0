"""Gradient descent by noisy sums: how many steps, how large, and the weights that they lead to.

Nothing private is read: the way is planned by public numbers, and weights follow from what was
released. Sources: Polyak 1964 for momentum, Polyak and Juditsky 1992 for the mean of the last
weights, Abadi et al. 2016 for clipped gradients with Gaussian noise.
"""

from __future__ import annotations

from math import sqrt
from statistics import fmean

import numpy as np

from dpsql.model.dataclass import dataclass
from dpsql.systems.models.bends import KNOTS
from dpsql.systems.models.model_statement import DescentOptions, ModelType

MOMENTUM = 0.9

MANY, FEW = (64, 0.5), (32, 0.25)
"""Steps, and what a row's gradient is clipped to, as a part of the longest row, where a statement
says nothing else."""

NOISY = 16
"""So many of the longest rows are hidden by the noise of one gradient at the whole price, where few
steps that are clipped more lead farther: about as at ε = 0.3, of people with one row each."""

BENT = 9
"""Knots of a column of numbers in a logistic model, where noise is not as large as that."""

_LENGTH = 24.0
"""The size of a step times the longest row's square. Of the mean loss per row no direction bends
more than a quarter of that square times; descent with momentum is stable up to 8·(1 + 0.9).
Cells of one column share it, so that it may be more."""


MOST_WEIGHT = 256
"""No weight of a cell is farther from zero."""


@dataclass(frozen=True, slots=True)
class Descent:
    """So many `steps` of this size, with momentum; what a row adds is clipped to the norm `clip`,
    the row before that to the norm `inputs`, if there is one.
    """

    steps: int
    size: float
    momentum: float
    clip: float
    inputs: float | None = None

    def wandering(self, noise: float) -> float:
        """The standard deviation of the mean of a weight over the later half of all steps, if it
        goes by noise of this deviation in each gradient alone; where the loss bends it is less.
        """
        ages = np.arange(self.steps // 2, self.steps)[:, None] - np.arange(self.steps)
        moved = np.where(ages < 0, 0.0, (1 - self.momentum ** (ages + 1.0)) / (1 - self.momentum))
        return float(self.size * noise * np.linalg.norm(moved.mean(axis=0)))


def descent(said: DescentOptions, longest: float, noise: float) -> Descent:
    """The way of a statement, of rows that are no longer than this; noise of this deviation would
    hide one gradient of theirs at the whole price.
    """
    steps, part = MANY if noise < NOISY * longest else FEW
    inputs = None if said.input_norm is None else float(said.input_norm)
    clip = part * longest if inputs is None else min(inputs, longest)
    if said.gradient_norm is not None:
        clip = float(said.gradient_norm)
    return Descent(
        steps=said.steps or steps,
        size=_LENGTH / longest**2,
        momentum=MOMENTUM if said.momentum is None else float(said.momentum),
        clip=clip,
        inputs=inputs,
    )


def knots_of(kind: ModelType, longest: float, noise: float) -> int:
    """How many knots columns of numbers have where a statement says nothing; arguments as in
    `descent`. With more, a row is as long as it can be, and is clipped sooner.
    """
    return BENT if kind is ModelType.LOGISTIC and noise < NOISY * longest else KNOTS[0]


class Walk:
    """Weights after each gradient that was released; rows are counted beside them.

    `counted` is what a row counts, `deviation` that of the noise in each sum. Where cells are
    `bends` steps are shorter, as much as noise hides them: with s the deviation of a weight of
    noise alone and 1 about what a bend may be, as Wiener's filter leaves of it, 1 / (1 + s²).
    """

    def __init__(self, way: Descent, bends: np.ndarray, counted: float, deviation: float) -> None:
        self._way, self._counted, self._deviation = way, counted, deviation
        self._weights, self._moving = np.zeros(len(bends)), np.zeros(len(bends))
        self._bends = bends
        self._path, self._rows = list[np.ndarray](), list[float]()

    @property
    def weights(self) -> np.ndarray:
        """Where the next gradient is to be measured."""
        return self._weights

    @property
    def rows(self) -> float:
        """How many rows there are, noisily; where noise hides that, what it may be."""
        error = self._deviation / (self._counted * sqrt(len(self._rows)))
        return max(fmean(self._rows), 2 * error, 1.0)

    def go(self, sums: np.ndarray) -> None:
        """One step down this gradient, a sum over rows, behind which they are counted."""
        self._rows.append(float(sums[-1]) / self._counted)
        self._moving = self._way.momentum * self._moving + sums[:-1] / self.rows
        wandering = self._way.wandering(self._deviation / self.rows)
        sizes = self._way.size / np.where(self._bends, 1 + wandering**2, 1.0)
        moved = self._weights - sizes * self._moving
        self._weights = np.clip(moved, -MOST_WEIGHT, MOST_WEIGHT)
        self._path.append(self._weights)

    @property
    def reached(self) -> np.ndarray:
        """The mean of the later half of all weights."""
        result: np.ndarray = np.mean(self._path[len(self._path) // 2 :], axis=0)
        return result
