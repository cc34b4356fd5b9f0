"""Propose–test–release for means (Dwork and Lei 2009).

The analyst proposes that n >= r rows count, so that no unit moves their mean f by more than b = (U
- L)/r. A noisy count tests it, and f is released, with noise for b, only if the test passes.

Proof (PRIVACY.md R55).

Sensitivity. A unit has at most one row, clipped to [L, U], and f is the centre where there is none.
With y added to n rows, f moves by |y - f|/(n + 1) <= (U - L)/(n + 1). Taking a row away is the same
from the other side. Replacing one moves it by at most (U - L)/n. So neighbours of n and n' rows
have |f - f'| <= (U - L)/max(n, n').

Distance. A dataset of n rows is n - (r - 1) units away from the nearest in which a unit moves f by
more than b, or 0 where that is negative: a count, exact, that one unit changes by 1 at most.

Privacy. The test is passed if n + Z >= T, T = r - 1 + t, t the least with P(Z >= t) <= δ.

* max(n, n') >= r: |f - f'| <= b. Test and mean are two releases with noise for what one unit
  changes: they cost what their noise costs, 2ε together for Laplace noise of ε each.
* max(n, n') < r: on both sides n + Z reaches T with probability at most δ. Both releases are a
  mixture, with weights 1 - δ and δ, of "not passed" alone and of something else. Only the bit of
  the test is released of the count, so δ is the whole loss.

That is (2ε, δ)-DP, or δ-approximate zCDP with the ρ of both. For discrete Laplace noise of scale
1/ε, t is ln(1/(δ·(1 + e^-ε)))/ε rounded up: about ln(1/(2δ))/ε. The constant ln(2/δ)/(2ε) that is
sometimes given for Lap(1/ε) passes the test with probability near sqrt(δ/8) and is not used.

Groups. If a unit has one row in each of k groups at most, all other groups are as they were. Those
of max(n, n') >= r cost no more than noise for k groups does. Each of the others releases anything
but "not passed" with probability at most δ/k where its test has that much, all of them with δ at
most. Under replacement a unit's rows can turn into rows of k other groups: that is not claimed.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from dpsql.mechanisms.tails import reach
from dpsql.model.dataclass import dataclass
from dpsql.model.vocabulary import Noise


@dataclass(frozen=True, slots=True)
class Stability:
    """Test and charge of δ. Only `stability` makes it.

    `count` is the column with the noisy count; a mean is released where it is at least `least`.
    """

    count: int
    least: int
    delta: Fraction


def stability(count: int, noise: Noise, rows: int, delta: Fraction, groups: int = 1) -> Stability:
    """Return the test for at least `rows` rows by a count with this noise.

    A unit has a row in at most `groups` groups, and their tests share `delta`. Raises ValueError
    unless 0 < δ.

    >>> from dpsql.model.vocabulary import Mechanism
    >>> stability(0, Noise(Mechanism.DISCRETE_LAPLACE, Fraction(10)), 100, Fraction(1, 10**6)).least
    231
    """
    return Stability(count, rows - 1 + reach(noise, float(delta / groups)), delta)


def means(sums: np.ndarray, counts: np.ndarray, steps: int) -> np.ndarray:
    """Return the mean of each group in whole steps, `steps` to a grid step; 0 without rows.

    Rounding down keeps a distance of at most k steps: floor(x + k) = floor(x) + k.
    """
    pairs = zip(sums.tolist(), counts.tolist(), strict=True)
    return np.array([int(s) * steps // max(1, int(n)) for s, n in pairs], dtype=object)


def shown(values: np.ndarray, passed: np.ndarray, bounds: tuple[int, int]) -> np.ndarray:
    """Clip noisy means to bounds, with None where the test failed."""
    lower, upper = bounds
    pairs = zip(values.tolist(), passed.tolist(), strict=True)
    listed = [min(max(value, lower), upper) if ok else None for value, ok in pairs]
    return np.array(listed, dtype=object)
