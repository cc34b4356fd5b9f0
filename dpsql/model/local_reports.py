"""What people say of themselves, randomised before it reaches anybody: the local model.

A *report* is what somebody told; the *truth* is nowhere. Each of the listed values is supported by
a report or not: a single value supports itself alone, of a text of bits each 1 supports the value
at its place.
"""

from __future__ import annotations

from enum import StrEnum
from fractions import Fraction
from math import log, sqrt

from dpsql.model.dataclass import dataclass
from dpsql.model.tree import Value


class LocalMechanism(StrEnum):
    """How a report is drawn: one value in the place of another, or a bit for each value."""

    GRR = "grr"
    OUE = "oue"
    UNARY = "unary"
    TWO_COINS = "two-coins"

    @property
    def of_bits(self) -> bool:
        """Whether reports are texts of bits, one for each listed value in the policy's order."""
        return self in (LocalMechanism.OUE, LocalMechanism.UNARY)


@dataclass(frozen=True, slots=True)
class Randomized:
    """The law of reports: of one of `values` (at least two), exact.

    A report supports the true value with probability `p`, and any other one with probability `q`,
    where 0 < q < p < 1.

    >>> coins = Randomized(LocalMechanism.TWO_COINS, 2, Fraction(3, 4), Fraction(1, 4))
    >>> coins.odds, coins.weight(True), coins.weight(False)
    (Fraction(3, 1), Fraction(3, 2), Fraction(-1, 2))
    """

    mechanism: LocalMechanism
    values: int
    p: Fraction
    q: Fraction

    @property
    def of_bits(self) -> bool:
        """Whether reports are texts of bits."""
        return self.mechanism.of_bits

    @property
    def odds(self) -> Fraction:
        """e^ε: how much likelier at most a report is of one truth than of another.

        Bits of two truths have other laws at two places, where each report has two bits.
        """
        return self.p * (1 - self.q) / (self.q * (1 - self.p)) if self.of_bits else self.p / self.q

    @property
    def epsilon(self) -> float:
        """What a report loses: ln of the odds."""
        return log(self.odds)

    def deviation(self, rows: float, count: float = 0.0) -> float:
        """The standard error of the estimated count of a value that so many of the rows have.

        >>> coins = Randomized(LocalMechanism.TWO_COINS, 2, Fraction(3, 4), Fraction(1, 4))
        >>> round(coins.deviation(10_000), 1), round(coins.epsilon, 4)
        (86.6, 1.0986)
        """
        p, q = float(self.p), float(self.q)
        return sqrt((rows - count) * q * (1 - q) + count * p * (1 - p)) / (p - q)

    @property
    def amplification(self) -> float:
        """How many times the noise of one count is in that of an estimated count.

        >>> coins = Randomized(LocalMechanism.TWO_COINS, 2, Fraction(3, 4), Fraction(1, 4))
        >>> round(coins.amplification**2, 9)
        2.5
        """
        p, q = float(self.p), float(self.q)
        others = q * q if self.of_bits else (1 - q) ** 2 + (self.values - 1) * q * q - 1
        return sqrt(1 + others) / (p - q)

    def weight(self, supported: bool) -> Fraction:  # noqa: FBT001
        """What a report adds to the estimated count of a value: 1 on average if it is the truth,
        else 0.
        """
        return ((1 if supported else 0) - self.q) / (self.p - self.q)


@dataclass(frozen=True, slots=True)
class LocalColumn:
    """A column of reports: of which listed `values` people told, in this order, by which law.

    What is stored is a value of them, or a text of bits.
    """

    law: Randomized
    values: tuple[Value, ...]

    @classmethod
    def of(cls, law: Randomized | None, values: tuple[Value, ...] | None) -> LocalColumn | None:
        """A column with this law; None of one that is no report."""
        return None if law is None or values is None else cls(law, values)
