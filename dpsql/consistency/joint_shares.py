"""The division of a price among measurements from which several answers are computed.

Answer n is derived from tables j at prices x_j, with the variance (see `residuals`)

    f_n(x) = Σ_S c_n(S) / (b_n(S) + Σ_j x_j^o · w_jn(S)),

where b is the known precision and o the order in which precision grows with the price: 1 where
variances are inversely proportional to the charge, 2 where deviations are. Where noise of several
tables is not combined, an answer uses the most precise table.

The minimum is found by multiplicative steps: x_j is multiplied by the (o + 1)-th root of its
marginal saving. This leaves x unchanged only where all prices save the same. Where all answers must
be good enough, the answer with the largest error gets more weight each time.

Only variances and prices of plans are used, and nothing private (PRIVACY.md R80).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dpsql.model.dataclass import dataclass, replace

_STEPS = 700
_HALVINGS = 40


@dataclass(frozen=True, slots=True, eq=False)
class JointAnswer:
    """A number that is computed from measurements.

    `shares` are the residuals of its cells, relative to its target variance. `precisions` holds the
    precision of each residual by each measurement at price one. `base` is the precision that is
    known already.
    """

    shares: np.ndarray
    precisions: np.ndarray
    base: np.ndarray
    weight: float = 1.0


@dataclass(frozen=True, slots=True, eq=False)
class JointShares:
    """Several answers from measurements with a precision that grows with the `order` of their
    price.

    Several measurements and the known precision make one answer only if they are `combined`.
    """

    shares: np.ndarray
    precisions: np.ndarray
    base: np.ndarray
    weights: np.ndarray
    order: int
    combined: bool

    @classmethod
    def of(cls, answers: Sequence[JointAnswer], order: int, *, combined: bool) -> JointShares:
        """Stack answers into arrays: by answer and residual, with measurements as the first
        axis.
        """
        width = max(answer.shares.size for answer in answers)
        measured = len(answers[0].precisions)
        shares, base = np.zeros((2, len(answers), width))
        precisions = np.zeros((measured, len(answers), width))
        for n, answer in enumerate(answers):
            size = answer.shares.size
            shares[n, :size] = answer.shares.ravel()
            base[n, :size] = answer.base.ravel()
            precisions[:, n, :size] = answer.precisions.reshape(measured, size)
        weights = np.array([answer.weight for answer in answers])
        return cls(shares, precisions, base, weights, order, combined)

    def errors(self, prices: np.ndarray) -> np.ndarray:
        """Return the variance of each answer at these prices, relative to its target.

        >>> one = JointAnswer(np.array([1.0]), np.array([[1.0], [3.0]]), np.zeros(1))
        >>> JointShares.of([one], 1, combined=True).errors(np.array([1.0, 1.0])).tolist()
        [0.25]
        >>> JointShares.of([one], 1, combined=False).errors(np.array([1.0, 1.0])).tolist()
        [0.3333333333333333]
        """
        if self.combined:
            return _sums(self.shares, self._precision(prices))
        smallest: np.ndarray = self._each(prices).min(axis=0)
        return smallest

    def best(self, total: float) -> np.ndarray:
        """Return prices that add up to `total` and nearly minimise the weighted sum of errors.

        >>> two = [
        ...     JointAnswer(np.array([v]), np.eye(2)[n][:, None], np.zeros(1))
        ...     for n, v in enumerate((1, 4))
        ... ]
        >>> JointShares.of(two, 1, combined=True).best(3.0).round(3).tolist()
        [1.0, 2.0]
        """
        prices = self._even(total)
        for _ in range(_STEPS):
            prices = self._stepped(prices, self.weights)
        return prices

    def least(self) -> np.ndarray:
        """Return prices of nearly the least sum at which each answer meets its target variance.

        >>> two = [
        ...     JointAnswer(np.array([v]), np.eye(2)[n][:, None], np.zeros(1))
        ...     for n, v in enumerate((1, 4))
        ... ]
        >>> JointShares.of(two, 1, combined=True).least().round(3).tolist()
        [1.0, 4.0]
        """
        prices, weights = self._enough(self._even(1.0)), self.weights
        for _ in range(_STEPS):
            prices = self._stepped(prices, weights)
            errors = self.errors(prices)
            prices = prices * errors.max() ** (1 / self.order)
            weights = weights * errors
            weights = weights / weights.sum()
        return self._enough(prices)

    def without(self, place: int) -> JointShares | None:
        """Return the problem without one measurement; None where an answer could not be
        computed.
        """
        left = replace(self, precisions=np.delete(self.precisions, place, axis=0))
        even = np.ones(len(left.precisions))
        return left if len(even) and np.all(np.isfinite(left.errors(even))) else None

    def _even(self, total: float) -> np.ndarray:
        return np.full(len(self.precisions), total / len(self.precisions))

    def _enough(self, prices: np.ndarray) -> np.ndarray:
        """Scale prices by the least factor at which each answer meets its target variance."""
        most = 1.0
        while self.errors(prices * most).max() > 1:
            most *= 2
        least = 0.0
        for _ in range(_HALVINGS):
            middle = (least + most) / 2
            if self.errors(prices * middle).max() > 1:
                least = middle
            else:
                most = middle
        return prices * most

    def _stepped(self, prices: np.ndarray, weights: np.ndarray) -> np.ndarray:
        """Take one step to prices of the same sum with a smaller weighted sum of errors."""
        moved = prices * self._saved(prices, weights) ** (1 / (self.order + 1))
        stepped: np.ndarray = moved * (prices.sum() / moved.sum())
        return stepped

    def _saved(self, prices: np.ndarray, weights: np.ndarray) -> np.ndarray:
        """Return the reduction of the weighted error per small increase of each price."""
        power, slope = prices**self.order, self.order * prices ** (self.order - 1)
        if self.combined:
            parts = weights[:, None] * _over(self.shares, self._precision(prices) ** 2)
            saved: np.ndarray = slope * np.einsum("jnk,nk->j", self.precisions, parts)
            return saved
        each = self._each(prices)
        used = each.argmin(axis=0) == np.arange(len(prices))[:, None]
        per_price = np.divide(slope, power, out=np.zeros_like(power), where=power > 0)
        single: np.ndarray = per_price * (np.where(used, each, 0.0) * weights).sum(axis=1)
        return single

    def _precision(self, prices: np.ndarray) -> np.ndarray:
        """Return the precision of each residual of each answer, from all measurements together."""
        precision: np.ndarray = self.base + np.einsum(
            "jnk,j->nk", self.precisions, prices**self.order
        )
        return precision

    def _each(self, prices: np.ndarray) -> np.ndarray:
        """Return the errors of all answers from each measurement by itself."""
        pairs = zip(self.precisions, prices**self.order, strict=True)
        return np.array([_sums(self.shares, precision * power) for precision, power in pairs])


def _over(shares: np.ndarray, precision: np.ndarray) -> np.ndarray:
    result: np.ndarray = np.divide(
        shares, precision, out=np.where(shares > 0, np.inf, 0.0), where=precision > 0
    )
    return result


def _sums(shares: np.ndarray, precision: np.ndarray) -> np.ndarray:
    """Return the variances; infinite where a needed residual is unknown."""
    summed: np.ndarray = _over(shares, precision).sum(axis=1)
    return summed
