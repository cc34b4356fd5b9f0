"""Scalar functions on Spark.

A row is a promise: the function cannot raise, with ANSI mode and without, and returns the value
that other engines return. A missing row is a refusal.
"""

from __future__ import annotations

from collections.abc import Callable

from dpsql.dialects.expression_printer import STORED_DIGITS, Rule
from dpsql.dialects.sized_text import Sized
from dpsql.dialects.spark.spark_like import pattern_test
from dpsql.dialects.spark.spark_numbers import (
    SHORT,
    added,
    as_decimal,
    as_double,
    converted,
    digits_of,
    divided,
    exact,
    multiplied,
    within_years,
)
from dpsql.dialects.sql_text import ATOM, LOOSE, MINUS, NOT, OTHER, SUM, TEST
from dpsql.functions import LONGEST_TEXT
from dpsql.functions.dates import LENGTHS, MICROSECOND
from dpsql.model.tree import DATE, TIMESTAMP, Kind, SqlType

PARTS = {
    "year": "year({0})",
    "quarter": "quarter({0})",
    "month": "month({0})",
    "week": "weekofyear({0})",
    "day": "day({0})",
    "hour": "hour({0})",
    "minute": "minute({0})",
    "dow": "dayofweek({0}) - 1",
    "isodow": "(dayofweek({0}) + 5) % 7 + 1",
    "doy": "dayofyear({0})",
}
"""Parts of a date or timestamp that are integers on every engine."""
TRUNCATED = frozenset("year quarter month week day hour minute second".split())
MOST = {"month": 48_000, "day": 1_000_000, "microseconds": 10**15}
"""Steps from years 1 to 9999 that stay within the engine's timestamps."""
FIRST_DAY = "DATE '0001-01-01'"
STEPS = {"microseconds": 1, "milliseconds": 1000, "second": 10**6, "minute": 6 * 10**7}
STEPS["hour"] = 60 * STEPS["minute"]
"""Parts of a day, in microseconds."""
BEFORE_1970 = 62_135_596_800 * STEPS["second"]
"""Microseconds from the start of year 1 to 1970: a whole number of each part."""
_MOMENTS = (DATE, TIMESTAMP)
MICROS = 18
"""Digits of the microseconds between two timestamps of years 1 to 9999."""
_WHOLE_DOUBLES = "4503599627370496.0D"
"""Size from which DOUBLEs are integers."""


def _minus(args: tuple[Sized, ...], kind: SqlType) -> Sized:
    if args[0].type != DATE:
        return added("-", args, kind)
    return _long(f"datediff({args[0].sql}, {args[1].sql})", kind, 8)


def _long(sql: str, kind: SqlType, digits: int) -> Sized:
    """Return a term that the engine computes in 32 bits as one of 64 bits."""
    return Sized(f"CAST({sql} AS BIGINT)", kind, digits=digits)


def _number(arg: Sized) -> int | None:
    """Return the integer of a constant; None for others."""
    value = None if arg.literal is None else arg.literal.value
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _whole(args: tuple[Sized, ...], kind: SqlType) -> Sized | None:
    """Return an integer quotient by a constant, rounded toward zero."""
    a, by = args[0], _number(args[1])
    if kind.kind is not Kind.INTEGER or by is None or by <= 0 or digits_of(a) > STORED_DIGITS:
        return None
    return Sized(f"{a.operand(MINUS)} div {by}L", kind, OTHER, digits=digits_of(a))


def _remainder(args: tuple[Sized, ...], kind: SqlType) -> Sized | None:
    """Return an integer remainder with the sign of the dividend; NULL by zero."""
    a, b = args
    by = _number(b)
    if kind.kind is not Kind.INTEGER or any(arg.type.kind is not Kind.INTEGER for arg in args):
        return None
    if by is not None and by > 0 and digits_of(a) <= STORED_DIGITS:
        return Sized(f"{a.operand(MINUS)} % {by}L", kind, OTHER, digits=digits_of(b))
    sql = f"{as_decimal(a)} % NULLIF({as_decimal(b)}, 0BD)"
    return exact(sql, kind, min(digits_of(a), digits_of(b)))


def _negative(args: tuple[Sized, ...], kind: SqlType) -> Sized:
    (a,) = args
    if kind.kind is Kind.DOUBLE:
        return Sized(f"-{a.operand(ATOM)}", kind, MINUS)
    return exact(f"-{as_decimal(a)}", kind, digits_of(a))


def _size(args: tuple[Sized, ...], kind: SqlType) -> Sized:
    (a,) = args
    if kind.kind is Kind.DOUBLE:
        return Sized(f"abs({a.sql})", kind)
    return exact(f"abs({as_decimal(a)})", kind, digits_of(a))


def _root(args: tuple[Sized, ...], kind: SqlType) -> Sized:
    """Return the square root; NULL for a negative number."""
    x = as_double(args[0]).operand(ATOM)
    return Sized(f"CASE WHEN {x} >= 0D THEN sqrt({x}) END", kind)


def _choice(name: str) -> Rule:
    """Return the printer of a function that returns one of its arguments."""

    def text(args: tuple[Sized, ...], kind: SqlType) -> Sized:
        digits = None if kind.kind is Kind.DOUBLE else max(map(digits_of, args))
        return Sized(f"{name}({', '.join(arg.sql for arg in args)})", kind, digits=digits)

    return text


def _unless_equal(args: tuple[Sized, ...], kind: SqlType) -> Sized | None:
    """Return NULLIF, for which both zeros of a DOUBLE are equal: Sail's distinguishes them."""
    if kind.kind is not Kind.DOUBLE:
        return _choice("NULLIF")(args, kind)
    a, b = (f"{as_double(arg).operand(SUM)} + 0D" for arg in args)
    return Sized(f"NULLIF({a}, {b})", kind)


def _texts(rule: Callable[[tuple[Sized, ...]], str | None], level: int = ATOM) -> Rule:
    """Return the printer of a function of texts alone."""

    def text(args: tuple[Sized, ...], kind: SqlType) -> Sized | None:
        if any(arg.type.kind is not Kind.VARCHAR for arg in args):
            return None
        sql = rule(args)
        if sql is None:
            return None
        if kind.kind is Kind.INTEGER:
            return _long(sql, kind, 10)
        return Sized(sql, kind, level)

    return text


def _joined(args: tuple[Sized, ...]) -> str:
    """Return the texts joined; each is cut first, so that memory suffices."""
    cut = (a.sql if a.literal is not None else f"left({a.sql}, {LONGEST_TEXT})" for a in args)
    return f"left(concat({', '.join(cut)}), {LONGEST_TEXT})"


def _part(args: tuple[Sized, ...], kind: SqlType) -> Sized | None:
    part, moment = args[0].word, args[1]
    of_day = moment.type == DATE and part in ("hour", "minute")
    if part not in PARTS or of_day or moment.type not in _MOMENTS:
        return None
    return _long(PARTS[part].format(moment.sql), kind, 7)


def _truncated(args: tuple[Sized, ...], kind: SqlType) -> Sized | None:
    part, moment = args[0].word, args[1]
    if part not in TRUNCATED or moment.type not in _MOMENTS or kind not in _MOMENTS:
        return None
    target = "DATE" if kind == DATE else "TIMESTAMP_NTZ"
    begun = f"CAST(date_trunc('{part}', {_as_moment(moment)}) AS {target})"
    return Sized(within_years(moment.sql, begun), kind)


def _as_moment(moment: Sized) -> str:
    return f"CAST({moment.sql} AS TIMESTAMP_NTZ)" if moment.type == DATE else moment.sql


def _later(args: tuple[Sized, ...], kind: SqlType) -> Sized | None:
    """Return a timestamp some months, days or microseconds later, for years 1 to 9999."""
    unit, number, moment = args[0].word, _number(args[1]), args[2]
    if number is None or abs(number) > MOST.get(unit, -1):
        return None
    if moment.type not in _MOMENTS or kind not in _MOMENTS:
        return None
    target = "DATE" if kind == DATE else "TIMESTAMP_NTZ"
    moved = f"CAST({_as_moment(moment)} + INTERVAL '{number}' {unit.upper()} AS {target})"
    return Sized(within_years(moment.sql, moved), kind)


def _days_later(args: tuple[Sized, ...], kind: SqlType) -> Sized | None:
    day, number = args[0], _number(args[1])
    if day.type != DATE or number is None or abs(number) > MOST["day"]:
        return None
    return Sized(within_years(day.sql, f"date_add({day.sql}, {number})"), kind)


def _between(args: tuple[Sized, ...], kind: SqlType) -> Sized | None:
    """Return DATE_DIFF: the number of boundaries of a part between two dates or timestamps.

    Weeks have seven days, as on DuckDB.
    """
    part, *ends = args
    if any(end.type not in _MOMENTS for end in ends):
        return None
    if (step := STEPS.get(part.word)) is not None:
        first, last = (f"({_since_year_1(end)} div {step}L)" for end in ends)
        return Sized(f"{last} - {first}", kind, OTHER, digits=MICROS)
    weeks = part.word == "week"
    counted = "day" if weeks else part.word
    numbers = [_number_of(counted, converted(end, DATE).sql) for end in ends]
    if None in numbers:
        return None
    between = f"{numbers[1]} - {numbers[0]}"
    return _long(f"({between}) div 7" if weeks else between, kind, 8)


def _passed(args: tuple[Sized, ...], kind: SqlType) -> Sized | None:
    """Return DATE_SUB: the number of whole parts of constant length between two timestamps."""
    part, *ends = args
    length = LENGTHS.get(part.word)
    if length is None or any(end.type not in _MOMENTS for end in ends):
        return None
    first, last = map(_since_year_1, ends)
    return Sized(f"({last} - {first}) div {length // MICROSECOND}L", kind, OTHER, digits=MICROS)


def _since_year_1(moment: Sized) -> str:
    """Return SQL for the microseconds since year 1 of a timestamp in years 1 to 9999, never
    negative.
    """
    return f"({_since_1970(moment)} + {BEFORE_1970}L)"


def _since_1970(moment: Sized) -> str:
    micros = f"unix_micros(CAST({_as_moment(moment)} AS TIMESTAMP))"
    return within_years(moment.sql, micros)


def _epoch(args: tuple[Sized, ...], kind: SqlType) -> Sized | None:
    """Return the seconds since 1970; microseconds are divided as DOUBLEs."""
    (moment,) = args
    if moment.type not in _MOMENTS:
        return None
    return Sized(f"CAST({_since_1970(moment)} AS DOUBLE) / 1000000D", kind, OTHER)


def _epoch_us(args: tuple[Sized, ...], kind: SqlType) -> Sized | None:
    (moment,) = args
    return Sized(_since_1970(moment), kind, digits=MICROS) if moment.type in _MOMENTS else None


def _last_day(args: tuple[Sized, ...], kind: SqlType) -> Sized | None:
    """Return the last day of a month in years 1 to 9999."""
    (moment,) = args
    if moment.type not in _MOMENTS:
        return None
    return Sized(within_years(moment.sql, f"last_day({converted(moment, DATE).sql})"), kind)


def _number_of(part: str, x: str) -> str | None:
    """Return SQL for the number of the part that contains a day, from any origin."""
    parts = {
        "day": f"datediff({x}, {FIRST_DAY})",
        "month": f"(year({x}) * 12 + month({x}))",
        "quarter": f"(year({x}) * 4 + quarter({x}))",
        "year": f"year({x})",
    }
    return parts.get(part)


def _whole_part(name: str) -> Rule:
    """Return the printer of FLOOR or CEIL."""

    def text(args: tuple[Sized, ...], kind: SqlType) -> Sized:
        (a,) = args
        if kind.kind is not Kind.DOUBLE:
            return exact(f"{name}({as_decimal(a)})", kind, digits_of(a) + 1)
        x = as_double(a).operand(ATOM)
        cut = f"CASE WHEN abs({x}) < {_WHOLE_DOUBLES} THEN CAST({name}({x}) AS DOUBLE) ELSE {x} END"
        return Sized(cut, kind)

    return text


def _same(args: tuple[Sized, ...], kind: SqlType) -> Sized:
    """Return the test whether two values are equal or both NULL, in a form that Sail can always
    plan.
    """
    a, b = (arg.operand(OTHER) for arg in args)
    return Sized(f"{a} <=> {b}", kind, TEST)


def _rounded(args: tuple[Sized, ...], kind: SqlType) -> Sized | None:
    """Return ROUND of an exact number, with or without digits."""
    a, places = args[0], args[1:]
    if kind.kind is Kind.DOUBLE or a.type.kind is Kind.DOUBLE:
        return None
    number = _number(places[0]) if places else 0
    if number is None or not 0 <= number <= SHORT:
        return None
    return exact(f"round({as_decimal(a)}, {number})", kind, digits_of(a) + 1)


def _sign(args: tuple[Sized, ...], kind: SqlType) -> Sized:
    x = args[0].operand(ATOM)
    nan = f"isnan({x}) OR " if args[0].type.kind is Kind.DOUBLE else ""
    steps = f"WHEN {nan}{x} = 0 THEN 0L WHEN {x} > 0 THEN 1L WHEN {x} < 0 THEN -1L"
    return Sized(f"CASE {steps} END", kind, digits=1)


def _finite(form: str) -> Rule:
    """Return the printer of a test whether a DOUBLE is finite, infinite or NaN."""

    def text(args: tuple[Sized, ...], kind: SqlType) -> Sized | None:
        (a,) = args
        if a.type.kind is not Kind.DOUBLE:
            return None
        return Sized(form.format(a.operand(ATOM)), kind, LOOSE)

    return text


def _end(name: str) -> Rule:
    """Return the printer of LEFT or RIGHT with a constant number of characters."""

    def text(args: tuple[Sized, ...], kind: SqlType) -> Sized | None:
        number = _number(args[1])
        if number is None or not 0 <= number <= LONGEST_TEXT:
            return None
        return Sized(f"{name}({args[0].sql}, {number})", kind)

    return text


def _inside(args: tuple[Sized, ...], kind: SqlType) -> Sized | None:
    """Return SUBSTRING from a constant place on, counted from 1."""
    numbers = [_number(place) for place in args[1:]]
    given = [n for n in numbers if n is not None and 0 <= n <= LONGEST_TEXT]
    if len(given) < len(numbers) or given[0] == 0:
        return None
    return Sized(f"substr({args[0].sql}, {', '.join(map(str, given))})", kind)


_INFINITY = "CAST('Infinity' AS DOUBLE)"

FUNCTIONS: dict[str, Rule] = {
    "is_not_distinct": _same,
    "is_distinct": lambda args, kind: Sized(f"NOT ({_same(args, kind).sql})", kind, NOT),
    "add": lambda args, kind: added("+", args, kind),
    "sub": _minus,
    "mul": multiplied,
    "div": divided,
    "int_div": _whole,
    "pg_div": lambda args, kind: (
        _whole(args, kind) if kind.kind is Kind.INTEGER else divided(args, kind)
    ),
    "mod": _remainder,
    "neg": _negative,
    "abs": _size,
    "sqrt": _root,
    "floor": _whole_part("floor"),
    "ceil": _whole_part("ceil"),
    "round": _rounded,
    "sign": _sign,
    "isnan": _finite("CASE WHEN {0} IS NOT NULL THEN isnan({0}) END"),
    "isinf": _finite(f"abs({{0}}) = {_INFINITY}"),
    "isfinite": _finite(f"abs({{0}}) < {_INFINITY}"),
    "left": _end("left"),
    "right": _end("right"),
    "substring": _inside,
    "coalesce": _choice("COALESCE"),
    "nullif": _unless_equal,
    "least": _choice("LEAST"),
    "greatest": _choice("GREATEST"),
    "concat": _texts(_joined),
    "like": _texts(pattern_test, TEST),
    "length": _texts(lambda args: f"char_length({args[0].sql})"),
    "strlen": _texts(lambda args: f"octet_length({args[0].sql})"),
    "starts_with": _texts(lambda args: f"startswith({args[0].sql}, {args[1].sql})"),
    "contains": _texts(lambda args: f"contains({args[0].sql}, {args[1].sql})"),
    "strpos": _texts(lambda args: f"instr({args[0].sql}, {args[1].sql})"),
    "extract": _part,
    "date_trunc": _truncated,
    "date_add": _later,
    "add_days": _days_later,
    "date_diff": _between,
    "date_sub": _passed,
    "epoch": _epoch,
    "epoch_us": _epoch_us,
    "last_day": _last_day,
}
"""Printers by names in the registry."""
