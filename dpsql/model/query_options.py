"""Options of an analyst for an answer, besides the query text."""

from __future__ import annotations

from decimal import Decimal, InvalidOperation
from enum import StrEnum
from fractions import Fraction

from dpsql.model.dataclass import dataclass, replace
from dpsql.model.errors import Reason, Refused

EPSILONS = range(-18, 7)
"""Powers of ten of meaningful epsilons."""
_ERRORS = range(-30, 31)
_MOST_DIGITS = 100


def sensible(number: Decimal, magnitudes: range = EPSILONS) -> bool:
    """Test whether a number is positive and of a reasonable size.

    Exact arithmetic does not end in useful time with other numbers.

    >>> [sensible(Decimal(text)) for text in ("0.1", "0", "sNaN", "Infinity", "1e-99999999")]
    [True, False, False, False, False]
    """
    if not (number.is_finite() and number > 0 and number.adjusted() in magnitudes):
        return False
    return len(number.as_tuple().digits) <= _MOST_DIGITS


class Memory(StrEnum):
    """The use of earlier answers by a query, and of its answer by later ones.

    All but the last two repeat the answer of the same query. `SLICE` measures only the requested
    groups. `WIDE` measures all groups that conditions choose among, and derives answers from the
    first sufficient measurements, `BEST` from all. `OFF` uses nothing.
    """

    SLICE = "slice"
    WIDE = "wide"
    BEST = "best"
    OFF = "off"

    @property
    def measures_wide(self) -> bool:
        return self in (Memory.WIDE, Memory.BEST)

    @property
    def repeats(self) -> bool:
        """True if the same query gets the same answer again."""
        return self in (Memory.SLICE, Memory.WIDE)


class KeyAim(StrEnum):
    """Aim of a question with private keys: more keys, or better numbers of large keys."""

    MORE = "more"
    BALANCED = "balanced"
    LARGE = "large"

    @property
    def share(self) -> Fraction:
        """Share of the charge that finds the keys; the rest measures them."""
        return _OF_KEYS[self]


_OF_KEYS = {
    KeyAim.MORE: Fraction(60, 100),
    KeyAim.BALANCED: Fraction(45, 100),
    KeyAim.LARGE: Fraction(30, 100),
}


@dataclass(frozen=True, slots=True)
class Precision:
    """The requested error: a half-width at `confidence`, for every number.

    `error` is in the units of the numbers or, if `relative`, a fraction of them.
    """

    error: Decimal
    relative: bool = False
    confidence: Decimal = Decimal("0.95")


def requested_precision(
    given: Precision | None, error: str | None, confidence: Decimal | None
) -> Precision | None:
    """Combine the precision that an interface and the text request; the text has precedence.

    "5%" is relative. Raises `Refused` for an error or a confidence that no answer could have.
    """
    if confidence is not None and error is None and given is None:
        raise Refused(Reason.BAD_OPTION, option="confidence", why="there is no max_error beside it")
    precision = given
    if error is not None:
        precision = parsed(error)
    if precision is not None:
        if confidence is not None:
            precision = replace(precision, confidence=confidence)
        _check(precision)
    return precision


def parsed(text: str) -> Precision:
    """Parse an error as people write it.

    >>> parsed("5%").relative, parsed("100").error
    (True, Decimal('100'))
    """
    try:
        number = Decimal(text.removesuffix("%"))
    except InvalidOperation:
        number = Decimal("NaN")
    if text.endswith("%") and sensible(number, _ERRORS):
        return Precision(number / 100, relative=True)
    return Precision(number, relative=text.endswith("%"))


def _check(precision: Precision) -> None:
    if not sensible(precision.error, _ERRORS):
        why, fix = "it is not a positive number", "Give a number or a percentage: 25, 5%."
        raise Refused(Reason.BAD_OPTION, option="max_error", why=why, fix=fix)
    sure = precision.confidence
    if not (sure.is_finite() and Decimal("0.5") <= sure <= Decimal("0.9999")):
        raise Refused(
            Reason.BAD_OPTION, option="confidence", why="it is not between 0.5 and 0.9999"
        )
