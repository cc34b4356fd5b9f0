"""INTERVAL values: computations with intervals, as numbers of microseconds.

The difference of two moments is a number of microseconds, and so is an INTERVAL of days and hours;
engines see only such numbers. An INTERVAL of months is not, nor is AGE: their length depends on the
month. They can be compared (a month is 30 days then, as in PostgreSQL), added to a moment (months
first, then days, then the rest), and split into parts. Any other use is refused.
"""

from __future__ import annotations

from dataclasses import replace

from dpsql.functions.type_rules import INT64
from dpsql.model.durations import DAY_US, PART_US, parts_of
from dpsql.model.errors import Reason, Refused
from dpsql.model.tree import (
    DOUBLE,
    INTEGER,
    INTERVAL,
    TIMESTAMP,
    TIMESTAMPTZ,
    VARCHAR,
    AggregateCall,
    Call,
    Cast,
    Expression,
    Literal,
    Ref,
    Span,
    SqlType,
    WindowCall,
)

COMPARED = frozenset("eq ne lt le gt ge in is_distinct is_not_distinct is_null".split())
"""Functions that depend on the length of an INTERVAL."""

SECONDS = Literal(1_000_000.0, DOUBLE)
_MINUTE, _HOUR = 60_000_000, 3_600_000_000
_PARTS = {
    "day": (None, DAY_US),
    "hour": (DAY_US, _HOUR),
    "minute": (_HOUR, _MINUTE),
    "second": (_MINUTE, 1_000_000),
    "milliseconds": (_MINUTE, 1_000),
    "microseconds": (_MINUTE, 1),
}
"""Parts of an interval for EXTRACT: the modulus (None: none), and the unit of the result."""

NUMBERED = frozenset(
    """sum min max any_value first last mode arg_max arg_min quantile_disc avg median
    quantile_cont""".split()
)
"""Aggregates that return an interval for intervals."""


def kind_of(expression: Expression) -> SqlType | None:
    """Return the type of a typed expression; None where it has none."""
    match expression:
        case Literal() | Ref() | Call() | Cast() | AggregateCall() | WindowCall():
            return expression.type
        case _:
            return None


def is_length(expression: Expression) -> bool:
    """Test whether an expression is an INTERVAL."""
    return kind_of(expression) == INTERVAL


def is_calendrical(expression: Expression) -> bool:
    """Test for an INTERVAL of months, or AGE, because their length depends on the calendar."""
    return isinstance(expression, Call) and expression.function in ("interval", "age")


def micros(length: Expression) -> Expression:
    """Return the microseconds of an INTERVAL; with months, its length for comparisons."""
    match length:
        case Literal(value=value):
            return Literal(value, INTEGER, length.span)
        case Call("interval_of", (number,)) if kind_of(number) == INTEGER:
            return number
        case Call("interval", counts):
            sizes = PART_US.values()
            total = _sum([_scaled(n, size) for n, size in zip(counts, sizes, strict=True)])
            return replace(total, span=length.span) if isinstance(total, Literal) else total
        case Call("age", moments):
            return Call("age_us", moments, INTEGER, length.span)
        case _:
            return Call("interval_us", (length,), INTEGER, length.span)


def length_of(number: Expression, span: Span) -> Expression:
    """Return the INTERVAL of a number of microseconds; a constant for a constant."""
    if isinstance(number, Literal) and isinstance(number.value, int):
        if not -INT64 <= number.value < INT64:
            raise Refused(Reason.TYPE_MISMATCH, span, function="INTERVAL", types=("this length",))
        return Literal(number.value, INTERVAL, span)
    return Call("interval_of", (number,), INTERVAL, span)


def of_text(text: str) -> int | None:
    """Parse a string such as '3 days' into microseconds, with months of 30 days; None if it is
    none.
    """
    parts = parts_of(text)
    return None if parts is None else sum(n * PART_US[part] for part, n in parts.items())


def of_string(text: str, span: Span) -> Expression | None:
    """Parse a string into an INTERVAL with its months; None if it is none."""
    parts = parts_of(text)
    if parts is None:
        return None
    counts = tuple(Literal(n, INTEGER, span) for n in parts.values())
    return _interval(Call("interval", counts, span=span))


def lowered(call: Call) -> Call | Expression:
    """Rewrite a call over typed arguments without INTERVALs where possible; typed if it is
    complete.

    Raises `Refused` for unsupported uses of an INTERVAL of months, or of AGE.
    """
    args = call.args
    if call.function == "interval":
        return _interval(call)
    if call.function == "age":
        return _age(call)
    if call.function in ("extract", "epoch") and (part := _taken_apart(call)) is not None:
        return part
    if not any(map(is_length, args)):
        return call
    nothing = any(isinstance(arg, Literal) and arg.value is None for arg in args)
    if call.function in COMPARED and all(map(is_length, args)) and not nothing:
        return replace(call, args=tuple(map(micros, args)))
    computed = _COMPUTED.get(call.function)
    result = None if computed is None else computed(call)
    if result is None and any(map(is_calendrical, args)):
        raise calendrical(call)
    return call if result is None else result


def calendrical(place: Expression) -> Refused:
    """Return the refusal of AGE or an INTERVAL of months where its length must be known."""
    return Refused(
        Reason.UNSUPPORTED_SYNTAX,
        place.span,
        construct="AGE or an INTERVAL of months here",
        fix="Compare it, add it to a date, or take a part of it with EXTRACT.",
    )


def _interval(call: Call) -> Expression:
    """Return `interval(months, days, microseconds)`, as a fixed length if months are 0."""
    months, days, rest = call.args
    for count in call.args:
        if kind_of(count) != INTEGER:
            types = (str(kind_of(count)),)
            raise Refused(Reason.TYPE_MISMATCH, call.span, function="INTERVAL", types=types)
    if months == Literal(0, INTEGER):
        return length_of(_sum([_scaled(days, DAY_US), rest]), call.span)
    return replace(call, type=INTERVAL)


def _scaled(count: Expression, size: int) -> Expression:
    if isinstance(count, Literal) and isinstance(count.value, int):
        return Literal(count.value * size, INTEGER, count.span)
    if size == 1:
        return count
    return Call("mul", (count, Literal(size, INTEGER, count.span)), INTEGER, count.span)


def _sum(numbers: list[Expression]) -> Expression:
    """Return the sum, with all constants combined."""
    constant = sum(n.value for n in numbers if isinstance(n, Literal) and isinstance(n.value, int))
    total: Expression | None = None
    for number in numbers:
        if not isinstance(number, Literal):
            total = number if total is None else _added(total, number)
    if total is None:
        return Literal(constant, INTEGER, numbers[0].span)
    return _added(total, Literal(constant, INTEGER, total.span)) if constant else total


def _added(a: Expression, b: Expression) -> Expression:
    return Call("add", (a, b), INTEGER, a.span)


def _age(call: Call) -> Call:
    """Return AGE(later, earlier) with its type, for two moments."""
    kinds = tuple(map(kind_of, call.args))
    if not all(kind is not None and kind.is_temporal for kind in kinds):
        types = tuple(map(str, kinds))
        raise Refused(Reason.TYPE_MISMATCH, call.span, function="age", types=types)
    return replace(call, type=INTERVAL)


def _taken_apart(call: Call) -> Expression | None:
    """Return EXTRACT(part FROM interval), and EXTRACT(EPOCH FROM interval)."""
    length, span = call.args[-1], call.span
    part = "epoch" if call.function == "epoch" else str(getattr(call.args[0], "value", ""))
    if isinstance(length, Call) and length.function == "age":
        return _of_age(part, length, span)
    ends = _ends(length)
    if ends is not None and part == "day":
        return Call("date_sub", (Literal("day", VARCHAR, span), *ends), INTEGER, span)
    if ends is not None:
        unit = Literal("microseconds", VARCHAR, span)
        number: Expression = Call("date_diff", (unit, *ends), INTEGER, span)
    elif is_length(length) and not is_calendrical(length):
        number = micros(length)
    else:
        return None
    if part == "epoch":
        return Call("div", (number, replace(SECONDS, span=span)), DOUBLE, span)
    if part not in _PARTS:
        raise Refused(
            Reason.UNSUPPORTED_SYNTAX,
            span,
            construct=f"{part.upper()} of a length of time",
            fix="Months and years of a difference are in AGE(later, earlier).",
        )
    whole, unit_us = _PARTS[part]
    if whole is not None:
        number = Call("mod", (number, Literal(whole, INTEGER, span)), INTEGER, span)
    if unit_us == 1:
        return number
    return Call("int_div", (number, Literal(unit_us, INTEGER, span)), INTEGER, span)


def _ends(length: Expression) -> tuple[Expression, ...] | None:
    """Return the earlier and the later moment of a difference of two moments."""
    match length:
        case Call("interval_of", (Call("date_diff", (Literal("microseconds"), *ends)),)):
            return tuple(ends)
        case Call("sub", (later, earlier)) if _is_moment(later) and _is_moment(earlier):
            return earlier, later
        case _:
            return None


def _of_age(part: str, age: Call, span: Span) -> Expression:
    """Return a part of AGE; EPOCH counts years of 365.25 days and other months of 30, as
    PostgreSQL.
    """
    if part == "epoch":
        return Call("age_seconds", age.args, DOUBLE, span)
    name = Literal(part, VARCHAR, span)
    return Call("age_part", (name, *age.args), INTEGER, span)


def _is_moment(expression: Expression) -> bool:
    kind = kind_of(expression)
    return kind is not None and kind.is_temporal


def _is_number(expression: Expression) -> bool:
    kind = kind_of(expression)
    return kind is not None and kind.is_numeric


def _plus(call: Call) -> Expression | None:
    a, b = call.args
    if _is_moment(b):
        a, b = b, a
    if _is_moment(a):
        return _moved(a, b, call.span, 1)
    return _lengths(call, a, b)


def _minus(call: Call) -> Expression | None:
    a, b = call.args
    return _moved(a, b, call.span, -1) if _is_moment(a) else _lengths(call, a, b)


def _lengths(call: Call, a: Expression, b: Expression) -> Expression | None:
    """Return the sum or the difference of two intervals."""
    if not (is_length(a) and is_length(b)) or is_calendrical(a) or is_calendrical(b):
        return None
    return length_of(Call(call.function, (micros(a), micros(b)), INTEGER, call.span), call.span)


def _moved(moment: Expression, length: Expression, span: Span, sign: int) -> Expression | None:
    """Return a moment plus or minus an interval: months first, then days, then the rest."""
    if isinstance(length, Call) and length.function == "age":
        return None
    counts = (micros(length),)
    units: tuple[str, ...] = ("microseconds",)
    if isinstance(length, Call) and length.function == "interval":
        counts, units = length.args, tuple(PART_US)  # type: ignore[assignment]
    for unit, count in zip(units, counts, strict=True):
        if count != Literal(0, INTEGER):
            kind = TIMESTAMPTZ if kind_of(moment) == TIMESTAMPTZ else TIMESTAMP
            number = count if sign > 0 else _negated(count)
            part = Literal(unit, VARCHAR, span)
            moment = Call("date_add", (part, number, moment), kind, span)
    return moment


def _negated(number: Expression) -> Expression:
    if isinstance(number, Literal) and isinstance(number.value, int):
        return Literal(-number.value, INTEGER, number.span)
    return Call("neg", (number,), INTEGER, number.span)


def _later(call: Call) -> Expression | None:
    """Return `date_add(unit, count, interval)`: an INTERVAL that is added to an interval."""
    unit, count, length = call.args
    if is_calendrical(length) or not isinstance(unit, Literal) or unit.value == "month":
        raise calendrical(call)
    number = _sum([micros(length), _scaled(count, PART_US[str(unit.value)])])
    return length_of(number, call.span)


def _opposite(call: Call) -> Expression | None:
    (length,) = call.args
    return None if is_calendrical(length) else length_of(_negated(micros(length)), call.span)


def _times(call: Call) -> Expression | None:
    a, b = call.args
    length, number = (a, b) if is_length(a) else (b, a)
    if is_calendrical(length) or not _is_number(number):
        return None
    factors = micros(length), number
    kind = INTEGER
    if kind_of(number) != INTEGER:
        doubles = (f if kind_of(f) == DOUBLE else Cast(f, DOUBLE, span=f.span) for f in factors)
        kind, factors = DOUBLE, tuple(doubles)  # type: ignore[assignment]
    return length_of(Call("mul", factors, kind, call.span), call.span)


def _over(call: Call) -> Expression | None:
    length, number = call.args
    if not is_length(length) or is_calendrical(length) or not _is_number(number):
        return None
    return length_of(Call("div", (micros(length), number), DOUBLE, call.span), call.span)


_COMPUTED = {
    "add": _plus,
    "sub": _minus,
    "date_add": _later,
    "neg": _opposite,
    "mul": _times,
    "div": _over,
    "pg_div": _over,
}
"""Rewriting functions of computations with intervals."""
