"""Privacy losses and noisy numbers as text for people."""

from __future__ import annotations

from datetime import timedelta
from decimal import MAX_EMAX, MIN_EMIN, ROUND_HALF_EVEN, Context, Decimal
from math import floor, isfinite, isnan, log10
from typing import Any

from dpsql.model.interval_ends import ends
from dpsql.model.value_texts import exact_text
from dpsql.model.vocabulary import Loss

_WIDE = Context(prec=80, rounding=ROUND_HALF_EVEN, Emin=MIN_EMIN, Emax=MAX_EMAX)
_SENTENCE = Context(prec=3)
_PER_CENT = Context(prec=2)
# Numbers from 1e-5 up to 1e15 are easier to read without an exponent.
_PLAIN_EXPONENTS = range(-5, 15)
_SMALL_DELTA = Decimal("0.001")


def plain(amount: Decimal) -> str:
    """Return an amount exactly, in the shorter of plain and scientific notation.

    >>> plain(Decimal("0.100")), plain(Decimal("0.000000001")), plain(Decimal("1E+1"))
    ('0.1', '1e-9', '10')
    """
    if not amount.is_finite():
        return str(amount)
    if amount == 0:
        return "0"
    amount = amount.normalize(_WIDE)
    sign, digits, _ = amount.as_tuple()
    if amount.adjusted() in _PLAIN_EXPONENTS:
        return format(amount, "f")
    mantissa = Decimal((sign, digits, 1 - len(digits)))
    return f"{mantissa}e{amount.adjusted()}"


def rounded(amount: Decimal) -> str:
    """Return an amount with three significant digits, for sentences. The ledger keeps every
    digit.

    >>> rounded(Decimal("0.185071234")), rounded(Decimal("0.1"))
    ('0.185', '0.1')
    """
    return plain(_SENTENCE.plus(amount))


def delta_text(delta: Decimal) -> str:
    """Return a δ exactly, in scientific notation below a thousandth.

    >>> delta_text(Decimal("0.00001")), delta_text(Decimal("1E-9")), delta_text(Decimal("0.001"))
    ('1e-5', '1e-9', '0.001')
    """
    return f"{delta.normalize(_WIDE):e}" if 0 < delta < _SMALL_DELTA else plain(delta)


def loss_text(loss: Loss, accountant: str | None = None, *, exact: bool = False) -> str:
    """Return a loss in the unit of its accountant, with δ if it is not zero.

    >>> loss_text(Loss(185_071_234, 10**9), "zcdp")
    'ρ = 0.185, δ = 1e-9'
    >>> loss_text(Loss(185_071_234), "pure", exact=True)
    'ε = 0.185071234'
    """
    from dpsql.accountants import get  # noqa: PLC0415 - the command line starts without NumPy

    say = plain if exact else rounded
    unit = "" if accountant is None else f"{get(accountant).unit} = "
    text = unit + say(Decimal(loss.amount).scaleb(-9))
    delta = Decimal(loss.delta).scaleb(-18)
    if loss.delta:
        text += f", δ = {delta_text(delta if exact else _SENTENCE.plus(delta))}"
    return text


def share_text(part: Loss, whole: Loss) -> str:
    """Return the larger share of ε and δ that `part` takes of `whole`, in percent.

    Of several filters, the one with the most left counts.

    >>> share_text(Loss(1, 500), Loss(10, 1000)), share_text(Loss(1), Loss(300))
    ('50 %', '0.33 %')
    """
    used = 100 * part.share_of(whole)
    share = Decimal(used.numerator) / used.denominator
    return f"{plain(_PER_CENT.plus(share) if share < 1 else round(share, 1))} %"


def significant_places(margin: float) -> int:
    """Return the number of decimal places for a number with this margin: two digits of the
    margin.

    >>> significant_places(56.0), significant_places(0.0123)
    (0, 3)
    """
    return max(0, 1 - floor(log10(margin)))


def number_text(value: Any, margin: float | None, scale: int | None) -> tuple[str, str]:
    """Return a number and its margin as text, rounded to meaningful digits.

    `margin` None means exact: all digits are shown and the second text is empty. NaN means noisy
    with unknown error. `scale` is the maximum number of decimal places of the type (None: any).

    >>> number_text(1234567, 89.4, 0)
    ('1,234,567', '89')
    >>> number_text(12.34567, 0.0456, None)
    ('12.346', '0.046')
    >>> number_text(7, None, 0)
    ('7', '')
    >>> number_text(1214.10498046875, float("nan"), None)
    ('1,214', '?')
    >>> number_text(timedelta(hours=30.001), 94.0, None)
    ('1 day 06:00:04', '1.6 min')
    """
    if margin is None:
        return exact_text(value), ""
    if isinstance(value, timedelta) and margin > 0:
        return exact_text(timedelta(seconds=round(value.total_seconds()))), seconds_text(margin)
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal):
        return exact_text(value), "?"
    if isnan(margin):
        return _few_digits(value), "?"
    if not isfinite(margin) or margin <= 0:
        return exact_text(value), exact_text(margin)
    places = significant_places(margin)
    shown = places if scale is None else min(places, scale)
    # z: a small negative number rounds to 0, not to -0.
    return f"{value:z,.{shown}f}", f"{margin:,.{places}f}"


def ends_text(value: Any, half: tuple[float, float], scale: int | None) -> tuple[str, str]:
    """The ends of an interval as text, rounded to what its shorter half makes meaningful.

    The number may lie outside, or next to an end: then the width decides.

    >>> ends_text(1234567, (89.4, 4321.0), 0)
    ('1,234,478', '1,238,888')
    >>> ends_text(-17.2, (-17.2, 57.0), None)
    ('0.0', '39.8')
    """
    low, high = ends(value, max(half), half) or (None, None)
    shorter = max(min(half), sum(half) / 20)
    return number_text(low, shorter, scale)[0], number_text(high, shorter, scale)[0]


def _few_digits(value: float | Decimal) -> str:
    """Return a number of unknown error: its integer part with at most four significant digits."""
    if isinstance(value, int) or not value or not isfinite(value):
        return exact_text(value)
    places = max(0, _DIGITS - 1 - floor(log10(abs(float(value)))))
    return f"{round(value, places):,}".removesuffix(".0")


_DIGITS = 4
_UNITS = ((86_400, "days"), (3_600, "h"), (60, "min"), (1, "s"))


def seconds_text(margin: float) -> str:
    """Return the margin of a duration in seconds, in the largest unit that it fills.

    >>> seconds_text(94.0), seconds_text(187_945_543), seconds_text(0.25)
    ('1.6 min', '2,175 days', '0.25 s')
    """
    if not isfinite(margin):
        return "?"
    size, unit = next(((s, u) for s, u in _UNITS if margin >= s), _UNITS[-1])
    amount = margin / size
    return f"{amount:,.{significant_places(amount)}f} {unit}"


def total_text(total: tuple[Decimal, Decimal] | None) -> str:
    """Return (ε, δ) of everything together in words; None is no limit.

    >>> total_text((Decimal(3), Decimal("1e-6")))
    'at most ε = 3, δ = 1e-6'
    """
    return (
        "no limit"
        if total is None
        else f"at most ε = {plain(total[0])}, δ = {delta_text(total[1])}"
    )
