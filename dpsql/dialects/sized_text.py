"""SQL text with a bound on its number, so that only texts that may overflow get a guard."""

from __future__ import annotations

from decimal import Decimal
from math import isfinite, log10

from dpsql.dialects.sql_text import Text
from dpsql.model.dataclass import dataclass, field


@dataclass(frozen=True, slots=True)
class Sized(Text):
    """Text with a bound on its number.

    `digits` are those before the point. A DOUBLE is zero or between 10^-digits and 10^digits (None:
    any, also infinite or NaN). `numeric` means that the text is a decimal number already.
    """

    digits: int | None = field(default=None, kw_only=True)
    numeric: bool = field(default=False, kw_only=True)


def literal_digits(value: object) -> int | None:
    """Return the digits of a constant's integer part; None if it is not a finite number."""
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal):
        return None
    if isinstance(value, float):
        if not isfinite(value):
            return None
        return 1 if value == 0 else int(abs(log10(abs(value)))) + 1
    return max(1, Decimal(value).adjusted() + 1)
