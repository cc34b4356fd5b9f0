"""How a price is divided among measurements that several answers are made of.

Answer n is derived of tables j that are paid x_j each, with the variance (see `residuals`)

    f_n(x) = Σ_S c_n(S) / (b_n(S) + Σ_j x_j^o · w_jn(S)),

b being the precision of what is known already, o the order in which precision grows with the
price: 1 where variances fall as the charge grows, 2 where deviations do. Where noise of several
tables is not added up, an answer is made of the one that says most.

What is least is found by multiplicative steps: x_j is multiplied by the (o + 1)-th root of what a
little more of it would save, which leaves x as it is only where all that is paid for saves the
same; the answer that errs most, of those that must all be good enough, gets more weight each time.

Nothing private is seen: variances and prices are those of plans (PRIVACY.md R80).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dpsql.model.dataclass import dataclass, replace

_STEPS = 700
_HALVINGS = 40


@dataclass(frozen=True, slots=True, eq=False)
class JointAnswer:
    """A number that is made of measurements: `shares` of the residuals of its cells, relative to
    the variance that it should have; the precision of each residual by each measurement at the
    price of one, and what is known of it already (`base`).
    """

    shares: np.ndarray
    precisions: np.ndarray
    base: np.ndarray
    weight: float = 1.0


@dataclass(frozen=True, slots=True, eq=False)
class JointShares:
    """What is asked of some measurements, whose precision grows with the `order` of their price.

    Only where they are `combined` do several of them, and what is known, make one answer.
    """

    shares: np.ndarray
    precisions: np.ndarray
    base: np.ndarray
    weights: np.ndarray
    order: int
    combined: bool

    @classmethod
    def of(cls, answers: Sequence[JointAnswer], order: int, *, combined: bool) -> JointShares:
        """The answers, as arrays: by answer and residual, and by measurement before these."""
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
        """The variance of each answer, as a part of what it should have.

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
        """Prices that add up to `total`, of which the weighted sum of errors is nearly the least.

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
        """Prices whose sum is nearly the least at which no error is larger than it should be.

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
        """The same without one measurement; None where an answer could not be given."""
        left = replace(self, precisions=np.delete(self.precisions, place, axis=0))
        even = np.ones(len(left.precisions))
        return left if len(even) and np.all(np.isfinite(left.errors(even))) else None

    def _even(self, total: float) -> np.ndarray:
        return np.full(len(self.precisions), total / len(self.precisions))

    def _enough(self, prices: np.ndarray) -> np.ndarray:
        """The least multiple of prices at which no error is larger than it should be."""
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
        """Prices of the same sum, of which the weighted sum of errors is smaller."""
        moved = prices * self._saved(prices, weights) ** (1 / (self.order + 1))
        stepped: np.ndarray = moved * (prices.sum() / moved.sum())
        return stepped

    def _saved(self, prices: np.ndarray, weights: np.ndarray) -> np.ndarray:
        """What a little more of each price would save."""
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
        """The precision of each residual of each answer, of all measurements together."""
        precision: np.ndarray = self.base + np.einsum(
            "jnk,j->nk", self.precisions, prices**self.order
        )
        return precision

    def _each(self, prices: np.ndarray) -> np.ndarray:
        """The errors of answers, of each measurement by itself."""
        pairs = zip(self.precisions, prices**self.order, strict=True)
        return np.array([_sums(self.shares, precision * power) for precision, power in pairs])


def _over(shares: np.ndarray, precision: np.ndarray) -> np.ndarray:
    result: np.ndarray = np.divide(
        shares, precision, out=np.where(shares > 0, np.inf, 0.0), where=precision > 0
    )
    return result


def _sums(shares: np.ndarray, precision: np.ndarray) -> np.ndarray:
    """The variances: infinite where a residual is needed and unknown."""
    summed: np.ndarray = _over(shares, precision).sum(axis=1)
    return summed
