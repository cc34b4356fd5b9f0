"""Gradient descent with noisy sums: number and size of steps, and the resulting weights.

No private data is read. The plan follows from public numbers, and the weights from releases.
Sources: Polyak 1964 for momentum, Polyak and Juditsky 1992 for the mean of the last weights, Abadi
et al. 2016 for clipped gradients with Gaussian noise.
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
"""Default steps, and default clipping bound as a part of the norm of the longest row."""

NOISY = 16
"""Threshold of noise per gradient, in norms of the longest row.

Above it, few steps with a smaller clipping bound are better. This is about ε = 0.3 for people with
one row each.
"""

BENT = 9
"""Default knots of a numeric column in a logistic model with noise below that threshold."""

_LENGTH = 24.0
"""Step size times the square of the norm of the longest row.

The curvature of the mean loss is at most a quarter of that square. Descent with momentum is stable
up to 8·(1 + 0.9). Cells of one column share the curvature, so larger steps are stable too.
"""


MOST_WEIGHT = 256
"""Upper bound on the absolute weight of a cell."""


@dataclass(frozen=True, slots=True)
class Descent:
    """Parameters of the descent: `steps` of size `size`, with momentum.

    The contribution of a row is clipped to the norm `clip`. If `inputs` is set, the row itself is
    first clipped to that norm.
    """

    steps: int
    size: float
    momentum: float
    clip: float
    inputs: float | None = None

    def wandering(self, noise: float) -> float:
        """Return the standard deviation of the mean of a weight over the later half of all
        steps.

        It assumes that only noise of this standard deviation moves the weight. A curved loss makes
        it smaller.
        """
        ages = np.arange(self.steps // 2, self.steps)[:, None] - np.arange(self.steps)
        moved = np.where(ages < 0, 0.0, (1 - self.momentum ** (ages + 1.0)) / (1 - self.momentum))
        return float(self.size * noise * np.linalg.norm(moved.mean(axis=0)))


def descent(said: DescentOptions, longest: float, noise: float) -> Descent:
    """Return the descent of a statement over rows of norm at most `longest`.

    `noise` is the standard deviation of the noise in one gradient that spends the whole price.
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
    """Return the default number of knots of numeric columns. The arguments are as in `descent`.

    More knots make the norm of rows larger, so rows are clipped more.
    """
    return BENT if kind is ModelType.LOGISTIC and noise < NOISY * longest else KNOTS[0]


class Walk:
    """State of the descent: weights after each released gradient, and a running count of rows.

    `counted` is the contribution of a row to the count, and `deviation` the noise in each sum.
    Steps of the cells `bends` are shrunk by 1 / (1 + s²), as a Wiener filter does. Here s is the
    standard deviation of a weight from noise alone, and 1 a typical size of such a weight.
    """

    def __init__(self, way: Descent, bends: np.ndarray, counted: float, deviation: float) -> None:
        self._way, self._counted, self._deviation = way, counted, deviation
        self._weights, self._moving = np.zeros(len(bends)), np.zeros(len(bends))
        self._bends = bends
        self._path, self._rows = list[np.ndarray](), list[float]()

    @property
    def weights(self) -> np.ndarray:
        """Weights at which the next gradient is measured."""
        return self._weights

    @property
    def rows(self) -> float:
        """Noisy number of rows, or its plausible upper bound if noise hides it."""
        error = self._deviation / (self._counted * sqrt(len(self._rows)))
        return max(fmean(self._rows), 2 * error, 1.0)

    def go(self, sums: np.ndarray) -> None:
        """Take a step down a gradient. `sums` holds the gradient, then the count of rows."""
        self._rows.append(float(sums[-1]) / self._counted)
        self._moving = self._way.momentum * self._moving + sums[:-1] / self.rows
        wandering = self._way.wandering(self._deviation / self.rows)
        sizes = self._way.size / np.where(self._bends, 1 + wandering**2, 1.0)
        moved = self._weights - sizes * self._moving
        self._weights = np.clip(moved, -MOST_WEIGHT, MOST_WEIGHT)
        self._path.append(self._weights)

    @property
    def reached(self) -> np.ndarray:
        """Mean of the later half of all weights."""
        result: np.ndarray = np.mean(self._path[len(self._path) // 2 :], axis=0)
        return result
