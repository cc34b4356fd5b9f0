"""What an analyst wishes of an answer beside its text."""

from __future__ import annotations

from dataclasses import dataclass, replace
from decimal import Decimal, InvalidOperation

from dpsql.errors import Reason, Refused


@dataclass(frozen=True, slots=True)
class Precision:
    """The error that an analyst wants: a half-width at `confidence`, of every number.

    `error` is in the units of the numbers or, if `relative`, a fraction of them.
    """

    error: Decimal
    relative: bool = False
    confidence: Decimal = Decimal("0.95")


def wished(
    asked: Precision | None, error: str | None, confidence: Decimal | None
) -> Precision | None:
    """What an interface or the text wants; the text where both do. "5%" is relative.

    Raises `Refused` for an error or a confidence that no answer could have.
    """
    if confidence is not None and error is None and asked is None:
        raise Refused(Reason.BAD_OPTION, option="confidence", why="there is no max_error beside it")
    wanted = asked
    if error is not None:
        wanted = parsed(error)
    if wanted is not None:
        wanted = replace(wanted, confidence=confidence or wanted.confidence)
        _check(wanted)
    return wanted


def parsed(text: str) -> Precision:
    """An error as people write it.

    >>> parsed("5%").relative, parsed("100").error
    (True, Decimal('100'))
    """
    try:
        number = Decimal(text.removesuffix("%"))
    except InvalidOperation:
        number = Decimal("NaN")
    relative = text.endswith("%")
    return Precision(number / 100 if relative else number, relative)


def _check(wanted: Precision) -> None:
    if not (wanted.error.is_finite() and wanted.error > 0):
        raise Refused(Reason.BAD_OPTION, option="max_error", why="it is not a positive number")
    if not Decimal("0.5") <= wanted.confidence <= Decimal("0.9999"):
        raise Refused(
            Reason.BAD_OPTION, option="confidence", why="it is not between 0.5 and 0.9999"
        )
