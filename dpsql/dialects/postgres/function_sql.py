"""Scalar functions on PostgreSQL, each with a guard of its own: a row is a promise that it cannot
raise and that it is what other engines make of the same values. A missing row is a refusal.
"""

from __future__ import annotations

from collections.abc import Callable

from dpsql.dialects.postgres.conversion_sql import converted
from dpsql.dialects.postgres.number_sql import (
    COMPUTED_DIGITS,
    STORED_DIGITS,
    Sized,
    added,
    divided,
    double,
    exact,
    multiplied,
    numeric,
)
from dpsql.dialects.sql_text import ATOM, LOOSE, MINUS, OTHER, TEST
from dpsql.functions import LONGEST_TEXT
from dpsql.model.tree import DATE, TIMESTAMP, Kind, SqlType

Rule = Callable[[tuple[Sized, ...], SqlType], Sized | None]

PARTS = frozenset("year quarter month week day hour minute dow isodow doy isoyear".split())
"""Parts of a day or moment that are whole numbers on every engine."""
TRUNCATED = frozenset("year quarter month week day hour minute second".split())
FIRST_DAY, LAST_DAY = "date '0001-01-01'", "date '9999-12-31'"
FIRST_MOMENT, PAST_MOMENT = "timestamp '0001-01-01'", "timestamp '9999-12-31 23:59:59.999999'"
STEPS = {"month": "months", "day": "days"}
MOST = {"month": 48_000, "day": 1_000_000, "microseconds": 10**15}
"""Steps from years 1 to 9999 that stay within the moments of the engine: above 4713 BC."""
OF_DAYS = frozenset("year quarter month week day".split())
SECONDS = {"hour": 3600, "minute": 60, "second": 1}
MONDAY = "date '1970-01-05'"


def _plus(args: tuple[Sized, ...], kind: SqlType) -> Sized:
    return added("+", args, kind)


def _minus(args: tuple[Sized, ...], kind: SqlType) -> Sized:
    if args[0].type != DATE:
        return added("-", args, kind)
    a, b = (arg.operand(ATOM) for arg in args)
    days = f"CASE WHEN isfinite({a}) AND isfinite({b}) THEN {a} - {b} END"
    return Sized(days, kind, LOOSE, digits=8)


def _whole(args: tuple[Sized, ...], kind: SqlType) -> Sized | None:
    """A whole quotient, rounded toward zero; NULL by zero."""
    a, b = args
    if kind.kind is not Kind.INTEGER:
        return None
    by = None if b.literal is None else b.literal.value
    if isinstance(by, int) and by > 0 and a.digits == STORED_DIGITS and not a.numeric:
        return Sized(f"{a.operand(MINUS)} / {b.sql}", kind, OTHER, digits=STORED_DIGITS)
    digits = COMPUTED_DIGITS if a.digits is None else a.digits
    return exact(f"div({numeric(a)}, NULLIF({numeric(b)}, 0))", kind, ATOM, digits)


def _quotient(args: tuple[Sized, ...], kind: SqlType) -> Sized | None:
    return _whole(args, kind) if kind.kind is Kind.INTEGER else divided(args, kind)


def _remainder(args: tuple[Sized, ...], kind: SqlType) -> Sized | None:
    a, b = args
    if kind.kind is Kind.DOUBLE:
        return None
    digits = COMPUTED_DIGITS if a.digits is None else a.digits
    return exact(f"{numeric(a)} % NULLIF({numeric(b)}, 0)", kind, OTHER, digits)


def _negative(args: tuple[Sized, ...], kind: SqlType) -> Sized:
    (a,) = args
    if kind.kind is Kind.DOUBLE:
        return Sized(f"-{a.operand(ATOM)}", kind, MINUS, digits=a.digits)
    return Sized(f"-({numeric(a)})", kind, MINUS, digits=a.digits, numeric=True)


def _size(args: tuple[Sized, ...], kind: SqlType) -> Sized:
    (a,) = args
    if kind.kind is Kind.DOUBLE:
        return Sized(f"abs({a.sql})", kind, digits=a.digits)
    return Sized(f"abs({numeric(a)})", kind, digits=a.digits, numeric=True)


def _root(args: tuple[Sized, ...], kind: SqlType) -> Sized:
    """NULL of what is negative."""
    x = double(args[0]).operand(ATOM)
    return Sized(f"CASE WHEN {x} >= 0 THEN sqrt({x}) END", kind, LOOSE)


def _choice(name: str) -> Rule:
    """One of its arguments."""

    def text(args: tuple[Sized, ...], kind: SqlType) -> Sized:
        sizes = [COMPUTED_DIGITS if arg.digits is None else arg.digits for arg in args]
        digits = None if kind.kind is Kind.DOUBLE else max(sizes)
        return Sized(f"{name}({', '.join(arg.sql for arg in args)})", kind, digits=digits)

    return text


def _texts(rule: Callable[[tuple[Sized, ...]], str | None], level: int = ATOM) -> Rule:
    """A function of texts alone."""

    def text(args: tuple[Sized, ...], kind: SqlType) -> Sized | None:
        if any(arg.type.kind is not Kind.VARCHAR for arg in args):
            return None
        sql = rule(args)
        return None if sql is None else Sized(sql, kind, level, digits=10)

    return text


def _joined(args: tuple[Sized, ...]) -> str:
    """Each is cut before they are joined: no text is so long that there is no room for it."""
    cut = (a.sql if a.literal is not None else f"left({a.sql}, {LONGEST_TEXT})" for a in args)
    return f"left({' || '.join(cut)}, {LONGEST_TEXT})"


def _like(args: tuple[Sized, ...]) -> str:
    """Without an escape character there is none, and no pattern is wrong."""
    escape = args[2].sql if args[2:] else "''"
    return f"{args[0].operand(OTHER)} LIKE {args[1].operand(OTHER)} ESCAPE {escape}"


def _word(arg: Sized) -> str:
    """A part that `accepts` let through: a plain word."""
    assert arg.literal is not None
    return str(arg.literal.value).lower()


def _part(args: tuple[Sized, ...], kind: SqlType) -> Sized | None:
    part, x = _word(args[0]), args[1].operand(ATOM)
    of_day = args[1].type == DATE and part in ("hour", "minute")
    if part not in PARTS or of_day or args[1].type.kind is Kind.TIME:
        return None
    sql = f"CASE WHEN isfinite({x}) THEN extract({part} FROM {x})::int END"
    return Sized(sql, kind, LOOSE, digits=7)


def _truncated(args: tuple[Sized, ...], kind: SqlType) -> Sized | None:
    """Of days and moments in years 1 to 9999; no engine shows another as a key."""
    part, moment = _word(args[0]), args[1]
    if part not in TRUNCATED or moment.type.kind is Kind.TIMESTAMPTZ:
        return None
    x = moment.operand(ATOM)
    of_day = moment.type == DATE
    first, last = (FIRST_DAY, LAST_DAY) if of_day else (FIRST_MOMENT, PAST_MOMENT)
    value = f"{x}::timestamp" if of_day else x
    sql = f"CASE WHEN {x} BETWEEN {first} AND {last} THEN date_trunc('{part}', {value}) END"
    return Sized(sql, kind, LOOSE)


def _later(args: tuple[Sized, ...], kind: SqlType) -> Sized | None:
    """So many months, days or microseconds later, of moments in years 1 to 9999."""
    unit, count, moment = args
    number = None if count.literal is None else count.literal.value
    if not isinstance(number, int) or (length := _length(_word(unit), number)) is None:
        return None
    if moment.type.kind is Kind.TIMESTAMPTZ or kind not in (DATE, TIMESTAMP):
        return None
    x = moment.operand(ATOM)
    of_day = moment.type == DATE
    first, last = (FIRST_DAY, LAST_DAY) if of_day else (FIRST_MOMENT, PAST_MOMENT)
    value = f"{x}::timestamp" if of_day else x
    added_ = f"({value} + {length})"
    if kind == DATE:
        added_ += "::date"
    return Sized(f"CASE WHEN {x} BETWEEN {first} AND {last} THEN {added_} END", kind, LOOSE)


def _length(unit: str, number: int) -> str | None:
    """A length of time; None where moments of years 1 to 9999 might leave those of the engine."""
    if abs(number) > MOST.get(unit, -1):
        return None
    if unit == "microseconds":
        return f"{number} * interval '1 microsecond'"
    return f"make_interval({STEPS[unit]} => {number})"


def _days_later(args: tuple[Sized, ...], kind: SqlType) -> Sized | None:
    day, count = args
    if day.type != DATE:
        return None
    x, n = day.operand(ATOM), count.operand(ATOM)
    moved = f"CASE WHEN {n} BETWEEN -{MOST['day']} AND {MOST['day']} THEN {x} + {n}::int END"
    sql = f"CASE WHEN {x} BETWEEN {FIRST_DAY} AND {LAST_DAY} THEN {moved} END"
    return Sized(sql, kind, LOOSE)


def _between(args: tuple[Sized, ...], kind: SqlType) -> Sized | None:
    """DATE_DIFF: how many boundaries of a part lie between two days or moments."""
    part, *ends = args
    word = _word(part)
    if any(end.type not in (DATE, TIMESTAMP) for end in ends):
        return None
    first, last = (converted(end, DATE if word in OF_DAYS else TIMESTAMP) for end in ends)
    numbers = [_number_of(word, end.operand(ATOM)) for end in (first, last)]
    if None in numbers:
        return None
    finite = " AND ".join(f"isfinite({end.sql})" for end in (first, last))
    sql = f"CASE WHEN {finite} THEN {numbers[1]} - {numbers[0]} END"
    return Sized(sql, kind, LOOSE, digits=COMPUTED_DIGITS)


def _number_of(part: str, x: str) -> str | None:
    """The number of the part of time in which a finite day or moment is, from any beginning."""
    if part in SECONDS:
        return f"floor(extract(epoch FROM {x}) / {SECONDS[part]})"
    year = f"extract(year FROM {x})"
    parts = {
        "day": f"({x} - {MONDAY})",
        "week": f"floor(({x} - {MONDAY}) / 7.0)",
        "month": f"({year} * 12 + extract(month FROM {x}))",
        "quarter": f"({year} * 4 + extract(quarter FROM {x}))",
        "year": year,
    }
    return parts.get(part)


def _whole_part(name: str) -> Rule:
    """FLOOR or CEIL."""

    def text(args: tuple[Sized, ...], kind: SqlType) -> Sized:
        (a,) = args
        if kind.kind is Kind.DOUBLE:
            return Sized(f"{name}({double(a).sql})", kind)
        digits = COMPUTED_DIGITS if a.digits is None else a.digits
        return exact(f"{name}({numeric(a)})", kind, ATOM, digits + 1)

    return text


def _to_digits(name: str) -> Rule:
    """ROUND or TRUNC of an exact number, to so many digits or to none."""

    def text(args: tuple[Sized, ...], kind: SqlType) -> Sized | None:
        a, places = args[0], args[1:]
        if kind.kind is Kind.DOUBLE or a.type.kind is Kind.DOUBLE:
            return None
        if places and (places[0].literal is None or not isinstance(places[0].literal.value, int)):
            return None
        digits = COMPUTED_DIGITS if a.digits is None else a.digits
        to = f", {places[0].sql}" if places else ""
        return exact(f"{name}({numeric(a)}{to})", kind, ATOM, digits + 1)

    return text


def _sign(args: tuple[Sized, ...], kind: SqlType) -> Sized:
    x = args[0].operand(ATOM)
    nan = f"{x} = 'NaN' OR " if args[0].type.kind is Kind.DOUBLE else ""
    steps = f"WHEN {nan}{x} = 0 THEN 0 WHEN {x} > 0 THEN 1 WHEN {x} < 0 THEN -1"
    return Sized(f"CASE {steps} END", kind, LOOSE, digits=1)


def _finite(form: str, of_times: str) -> Rule:
    """Whether a DOUBLE, day or moment is finite, infinite or NaN."""

    def text(args: tuple[Sized, ...], kind: SqlType) -> Sized | None:
        (a,) = args
        by_kind = {Kind.DOUBLE: form, Kind.DATE: of_times, Kind.TIMESTAMP: of_times}
        test = by_kind.get(a.type.kind, "")
        return Sized(test.format(a.operand(ATOM)), kind, LOOSE) if test else None

    return text


def _end(name: str) -> Rule:
    """LEFT or RIGHT, of so many characters as a constant says."""

    def text(args: tuple[Sized, ...], kind: SqlType) -> Sized | None:
        x, count = args
        number = None if count.literal is None else count.literal.value
        if not isinstance(number, int) or not 0 <= number <= LONGEST_TEXT:
            return None
        return Sized(f"{name}({x.sql}, {number})", kind)

    return text


def _inside(args: tuple[Sized, ...], kind: SqlType) -> Sized | None:
    """SUBSTRING from a place on, counted from 1."""
    x, *places = args
    numbers = [None if place.literal is None else place.literal.value for place in places]
    if not all(isinstance(n, int) and 0 <= n <= LONGEST_TEXT for n in numbers) or numbers[0] == 0:
        return None
    return Sized(f"substr({x.sql}, {', '.join(map(str, numbers))})", kind)


FUNCTIONS: dict[str, Rule] = {
    "add": _plus,
    "sub": _minus,
    "mul": multiplied,
    "div": divided,
    "int_div": _whole,
    "pg_div": _quotient,
    "mod": _remainder,
    "neg": _negative,
    "abs": _size,
    "sqrt": _root,
    "floor": _whole_part("floor"),
    "ceil": _whole_part("ceil"),
    "round": _to_digits("round"),
    "trunc": _to_digits("trunc"),
    "sign": _sign,
    "isnan": _finite("{0} = 'NaN'", ""),
    "isinf": _finite("abs({0}) = 'Infinity'", "NOT isfinite({0})"),
    "isfinite": _finite("abs({0}) < 'Infinity'", "isfinite({0})"),
    "left": _end("left"),
    "right": _end("right"),
    "substring": _inside,
    "coalesce": _choice("COALESCE"),
    "nullif": _choice("NULLIF"),
    "least": _choice("LEAST"),
    "greatest": _choice("GREATEST"),
    "concat": _texts(_joined),
    "like": _texts(_like, TEST),
    "length": _texts(lambda args: f"char_length({args[0].sql})"),
    "starts_with": _texts(lambda args: f"starts_with({args[0].sql}, {args[1].sql})"),
    "contains": _texts(lambda args: f"strpos({args[0].sql}, {args[1].sql}) > 0", TEST),
    "strpos": _texts(lambda args: f"strpos({args[0].sql}, {args[1].sql})"),
    "extract": _part,
    "date_trunc": _truncated,
    "date_add": _later,
    "add_days": _days_later,
    "date_diff": _between,
}
"""By their names in the registry."""
