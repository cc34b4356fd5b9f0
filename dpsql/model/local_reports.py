"""Reports: values that respondents randomise before anybody receives them (the local model).

A *report* is the released value of a respondent; the *truth* is stored nowhere. A report supports
some of the listed values. A single value supports itself; in a text of bits each 1 supports the
value at its place.
"""

from __future__ import annotations

from enum import StrEnum
from fractions import Fraction
from math import log, sqrt

from dpsql.model.dataclass import dataclass
from dpsql.model.tree import Value


class LocalMechanism(StrEnum):
    """The kinds of mechanisms: one value in place of another, or a bit for each value."""

    GRR = "grr"
    OUE = "oue"
    UNARY = "unary"
    TWO_COINS = "two-coins"

    @property
    def of_bits(self) -> bool:
        """True if reports are texts of bits, one for each listed value in the policy's order."""
        return self in (LocalMechanism.OUE, LocalMechanism.UNARY)


@dataclass(frozen=True, slots=True)
class Randomized:
    """The exact distribution of reports about one of `values` (at least two).

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
        """True if reports are texts of bits."""
        return self.mechanism.of_bits

    @property
    def odds(self) -> Fraction:
        """e^ε: the largest likelihood ratio of a report under two truths.

        Bits of two truths have different distributions at two places, where each report has two
        bits.
        """
        return self.p * (1 - self.q) / (self.q * (1 - self.p)) if self.of_bits else self.p / self.q

    @property
    def epsilon(self) -> float:
        """Privacy loss ε of a report: ln of the odds."""
        return log(self.odds)

    def deviation(self, rows: float, count: float = 0.0) -> float:
        """Return the standard error of the estimated count of a value that `count` of the rows
        have.

        >>> coins = Randomized(LocalMechanism.TWO_COINS, 2, Fraction(3, 4), Fraction(1, 4))
        >>> round(coins.deviation(10_000), 1), round(coins.epsilon, 4)
        (86.6, 1.0986)
        """
        p, q = float(self.p), float(self.q)
        return sqrt((rows - count) * q * (1 - q) + count * p * (1 - p)) / (p - q)

    @property
    def amplification(self) -> float:
        """Ratio of the noise of an estimated count to the noise of one measured count.

        >>> coins = Randomized(LocalMechanism.TWO_COINS, 2, Fraction(3, 4), Fraction(1, 4))
        >>> round(coins.amplification**2, 9)
        2.5
        """
        p, q = float(self.p), float(self.q)
        others = q * q if self.of_bits else (1 - q) ** 2 + (self.values - 1) * q * q - 1
        return sqrt(1 + others) / (p - q)

    def weight(self, supported: bool) -> Fraction:  # noqa: FBT001
        """Return a report's addition to the estimated count of a value: on average 1 if true, else
        0.
        """
        return ((1 if supported else 0) - self.q) / (self.p - self.q)


@dataclass(frozen=True, slots=True)
class LocalColumn:
    """A randomized-response column: the reported `values`, in order, and the mechanism `law`.

    The stored value is one of them, or a text of bits.
    """

    law: Randomized
    values: tuple[Value, ...]

    @classmethod
    def of(cls, law: Randomized | None, values: tuple[Value, ...] | None) -> LocalColumn | None:
        """Return a column with this distribution; None for a column that holds no reports."""
        return None if law is None or values is None else cls(law, values)
