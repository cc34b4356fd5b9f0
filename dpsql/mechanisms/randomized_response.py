"""Randomised response: exact distributions of reports, and reports drawn from random bytes.

Proof (PRIVACY.md R81). p and q are rationals with odds of at most e^ε: the mechanisms take ε and
are rounded towards less. A report is drawn from uniform integers below the denominator of p and q,
so that its distribution is p and q exactly.

The browser's encoder makes the same report from the same bytes. Four bytes, the most significant
first, are a number below 2^32. A number in the last, incomplete run of residues is skipped;
otherwise its residue is drawn.
"""

from __future__ import annotations

from collections.abc import Callable
from decimal import ROUND_FLOOR, Context, Decimal
from fractions import Fraction
from math import ceil, lcm

from dpsql.model.local_reports import LocalMechanism, Randomized

GRID = 1 << 32
"""Upper limit of draws, and of the denominators of p and q."""

MOST_VALUES = 1 << 12
MOST_EPSILON = Decimal(20)
"""Largest ε. Beyond it a report is as good as the truth."""

_DIGITS = Context(prec=40, rounding=ROUND_FLOOR)
_A_HAIR_LESS = Decimal(1).scaleb(-36)


def exp_down(epsilon: Decimal) -> Fraction:
    """Return a rational slightly below e^ε, never above it.

    >>> float(exp_down(Decimal(1)))
    2.718281828459045
    """
    power = _DIGITS.exp(epsilon)  # off by one unit of the last digit at most
    return Fraction(power) * Fraction(1 - _A_HAIR_LESS)


def randomized(mechanism: LocalMechanism, values: int, epsilon: Decimal) -> Randomized:
    """Return the report mechanism of this kind that loses at most ε.

    Raises ValueError if ε or the number of values is out of range.

    >>> law = randomized(LocalMechanism.OUE, 15, Decimal("2.197224577336219"))
    >>> float(law.p), round(float(law.q), 9)
    (0.5, 0.1)
    >>> law = randomized(LocalMechanism.GRR, 2, Decimal("1.098612288668109"))
    >>> round(float(law.p), 8), round(float(law.q), 8)
    (0.75, 0.25)
    """
    if not 0 < epsilon <= MOST_EPSILON:
        raise ValueError(f"ε is in (0, {MOST_EPSILON}]")
    match mechanism:
        case LocalMechanism.GRR | LocalMechanism.TWO_COINS:
            odds = exp_down(epsilon)
            other = int(GRID / (odds + values - 1))
            truth = int(odds * other)
            p, q = (Fraction(n, truth + (values - 1) * other) for n in (truth, other))
        case LocalMechanism.OUE:
            p, q = Fraction(1, 2), Fraction(ceil(GRID / (exp_down(epsilon) + 1)), GRID)
        case LocalMechanism.UNARY:
            q = Fraction(ceil(GRID / (exp_down(epsilon / 2) + 1)), GRID)
            p = 1 - q
    return checked(Randomized(mechanism, values, p, q))


def checked(law: Randomized) -> Randomized:
    """Return the mechanism if reports can be drawn and depend on the truth; else raise
    ValueError.
    """
    if not 2 <= law.values <= MOST_VALUES:  # noqa: PLR2004
        raise ValueError(f"there are 2 to {MOST_VALUES:,} values")
    if not 0 < law.q < law.p < 1:
        raise ValueError("0 < q < p < 1 does not hold")
    if not law.of_bits and law.p + (law.values - 1) * law.q != 1:
        raise ValueError(f"p + {law.values - 1} q is not 1")
    if lcm(law.p.denominator, law.q.denominator) > GRID:
        raise ValueError("p and q have more than nine digits")
    return law


def two_coins(values: int) -> Randomized:
    """Return the two-coin mechanism. Heads: the truth; tails: a uniformly chosen value.

    >>> two_coins(2).p, two_coins(2).q
    (Fraction(3, 4), Fraction(1, 4))
    """
    other = Fraction(1, 2 * values)
    return checked(Randomized(LocalMechanism.TWO_COINS, values, Fraction(1, 2) + other, other))


def best(values: int, epsilon: Decimal) -> Randomized:
    """Return the mechanism of least variance: GRR below 3e^ε + 2 values, else OUE (Wang et al.
    2017).

    >>> best(15, Decimal("2.2")).mechanism.value, best(15, Decimal(1)).mechanism.value
    ('grr', 'oue')
    """
    few = values < 3 * exp_down(epsilon) + 2
    return randomized(LocalMechanism.GRR if few else LocalMechanism.OUE, values, epsilon)


# --- drawing ---


Bytes = Callable[[int], bytes]


def _below(bound: int, take: Bytes) -> int:
    """Draw a uniform integer below a bound."""
    last = GRID - GRID % bound
    while True:
        word = int.from_bytes(take(4), "big")
        if word < last:
            return word % bound


def report(law: Randomized, truth: int, take: Bytes) -> int | str:
    """Draw the report of a respondent with the true value at place `truth`: a place, or bits as
    text.

    `take(n)` returns n random bytes.

    >>> zeros = lambda n: bytes(n)
    >>> report(two_coins(2), 1, zeros), report(randomized(LocalMechanism.OUE, 3, 1), 1, zeros)
    (1, '111')
    """
    if not 0 <= truth < law.values:
        raise ValueError("this is none of the values")
    bound = lcm(law.p.denominator, law.q.denominator)
    true, other = int(law.p * bound), int(law.q * bound)
    if law.of_bits:
        bits = (
            _below(bound, take) < (true if place == truth else other) for place in range(law.values)
        )
        return "".join("1" if bit else "0" for bit in bits)
    drawn = _below(bound, take)
    if drawn < true:
        return truth
    place = (drawn - true) // other
    return place + (place >= truth)
