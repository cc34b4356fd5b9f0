"""Private keys: a key is published if the noisy count of its units reaches a threshold."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import expm1, log1p

from dpsql.mechanisms.tails import reach
from dpsql.mechanisms.truncated_geometric import keys_of_unit
from dpsql.model import Neighbours, Noise


@dataclass(frozen=True, slots=True)
class Threshold:
    """Mechanism, threshold and charge of δ in one: made by `threshold` only.

    A key is kept if its exact count of units plus a draw of `noise` is at least `value`; with
    probability at least 1 - `delta` no key is kept that one unit alone has brought.
    """

    value: int
    noise: Noise
    delta: Fraction


def threshold(
    noise: Noise,
    l0: int,
    delta: Fraction,
    neighbours: Neighbours = Neighbours.ADD_REMOVE,
    floor: int = 1,
) -> Threshold:
    """The least threshold for counts of units (Linf = 1) in which a unit has at most l0 keys.

    T = 1 + the least t with P(Z >= t) <= δ1 = 1 - (1-δ)^(1/k), k = l0 keys of one unit, or 2·l0
    under REPLACE, where two units' keys come and go (privacy.md, sections 5.4 and 6). It is
    never below `floor`. Raises ValueError unless 0 < δ < 1 and l0 >= 1.

        >>> from dpsql.model import Mechanism
        >>> unit = Noise(Mechanism.DISCRETE_LAPLACE, Fraction(1))
        >>> threshold(unit, 1, Fraction(1, 10**6)).value
        15
    """
    if not 0 < delta < 1 or l0 < 1:
        raise ValueError("a threshold needs 0 < δ < 1 and at least one key per unit")
    keys = keys_of_unit(l0, neighbours)
    one_key = -expm1(log1p(-float(delta)) / keys)
    return Threshold(max(floor, 1 + reach(noise, one_key)), noise, delta)
