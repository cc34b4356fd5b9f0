"""Scalar functions on PostgreSQL, each with its own guard.

A row is a promise: the function cannot raise, and returns the value that other engines return. A
missing row is a refusal.
"""

from __future__ import annotations

import re

from dpsql.dialects.expression_printer import STORED_DIGITS, Rule, most_digits
from dpsql.dialects.operators import OPERATORS
from dpsql.dialects.postgres.constant_sql import COLLATE
from dpsql.dialects.postgres.conversion_sql import converted
from dpsql.dialects.postgres.number_sql import (
    COMPUTED_DIGITS,
    added,
    divided,
    double,
    exact,
    in_scale,
    multiplied,
    numeric,
)
from dpsql.dialects.postgres.text_sql import TEXTS
from dpsql.dialects.sized_text import Sized
from dpsql.dialects.sql_text import ATOM, LOOSE, MINUS, OTHER
from dpsql.functions.dates import LENGTHS, MICROSECOND
from dpsql.functions.row import TEMPORAL
from dpsql.functions.zone_names import UTC, ZONES
from dpsql.model import tree
from dpsql.model.tree import DOUBLE

PARTS = frozenset("year quarter month week day hour minute dow isodow doy isoyear".split())
"""Parts of a date or timestamp that are integers on every engine."""
TRUNCATED = frozenset("year quarter month week day hour minute second".split())
FIRST_DAY, LAST_DAY = "date '0001-01-01'", "date '9999-12-31'"
FIRST_MOMENT, PAST_MOMENT = "timestamp '0001-01-01'", "timestamp '9999-12-31 23:59:59.999999'"
STEPS = {"month": "months", "day": "days"}
MOST = {"month": 48_000, "day": 1_000_000, "microseconds": 10**15}
"""Steps from years 1 to 9999 that stay within the engine's timestamps, above 4713 BC."""
OF_DAYS = frozenset("year quarter month day".split())
FRACTIONS = {"milliseconds": 1000, "microseconds": 1_000_000}
SECONDS = {"hour": 3600, "minute": 60, "second": 1}
MOST_BUCKETS = 2**31
_SPECIFIER = re.compile(r"%-?.|[^%]+|%", re.DOTALL)
SPECIFIERS = {
    "%Y": "YYYY",
    "%y": "YY",
    "%G": "IYYY",
    "%V": "IW",
    "%j": "DDD",
    "%u": "ID",
    "%m": "MM",
    "%-m": "FMMM",
    "%B": "FMMonth",
    "%b": "Mon",
    "%d": "DD",
    "%-d": "FMDD",
    "%A": "FMDay",
    "%a": "Dy",
    "%H": "HH24",
    "%-H": "FMHH24",
    "%I": "HH12",
    "%p": "AM",
    "%M": "MI",
    "%S": "SS",
    "%f": "US",
    "%g": "MS",
}
"""Specifiers of STRFTIME, as in TO_CHAR; none depends on the locale."""


def _minus(args: tuple[Sized, ...], kind: tree.SqlType) -> Sized:
    if args[0].type != tree.DATE:
        return added("-", args, kind)
    a, b = (arg.operand(ATOM) for arg in args)
    days = f"CASE WHEN isfinite({a}) AND isfinite({b}) THEN {a} - {b} END"
    return Sized(days, kind, LOOSE, digits=8)


def _whole(args: tuple[Sized, ...], kind: tree.SqlType) -> Sized | None:
    """Return an integer quotient, rounded toward zero; NULL by zero."""
    a, b = args
    if kind.kind is not tree.Kind.INTEGER:
        return None
    by = None if b.literal is None else b.literal.value
    if isinstance(by, int) and 0 < by < 2**63 and a.digits == STORED_DIGITS and not a.numeric:
        return Sized(f"{a.operand(MINUS)} / {b.sql}", kind, OTHER, digits=STORED_DIGITS)
    digits = COMPUTED_DIGITS if a.digits is None else a.digits
    return exact(f"div({numeric(a)}, NULLIF({numeric(b)}, 0))", kind, ATOM, digits)


def _remainder(args: tuple[Sized, ...], kind: tree.SqlType) -> Sized | None:
    a, b = args
    if kind.kind is tree.Kind.DOUBLE:
        return None
    digits = COMPUTED_DIGITS if a.digits is None else a.digits
    return exact(f"{numeric(a)} % NULLIF({numeric(b)}, 0)", kind, OTHER, digits)


def _negative(args: tuple[Sized, ...], kind: tree.SqlType) -> Sized:
    (a,) = args
    if kind.kind is tree.Kind.DOUBLE:
        return Sized(f"-{a.operand(ATOM)}", kind, MINUS, digits=a.digits)
    return Sized(f"-({numeric(a)})", kind, MINUS, digits=a.digits, numeric=True)


def _size(args: tuple[Sized, ...], kind: tree.SqlType) -> Sized:
    (a,) = args
    if kind.kind is tree.Kind.DOUBLE:
        return Sized(f"abs({a.sql})", kind, digits=a.digits)
    return Sized(f"abs({numeric(a)})", kind, digits=a.digits, numeric=True)


def _root(args: tuple[Sized, ...], kind: tree.SqlType) -> Sized:
    """Return the square root; NULL for a negative number."""
    x = double(args[0]).operand(ATOM)
    return Sized(f"CASE WHEN {x} >= 0 THEN sqrt({x}) END", kind, LOOSE)


def _choice(name: str) -> Rule:
    """Return the printer of a function that returns one of its arguments."""

    def text(args: tuple[Sized, ...], kind: tree.SqlType) -> Sized:
        sizes = [COMPUTED_DIGITS if arg.digits is None else arg.digits for arg in args]
        digits = None if kind.kind is tree.Kind.DOUBLE else max(sizes)
        sql = f"{name}({', '.join(arg.sql for arg in args)})"
        return Sized(_in_one_scale(sql, args, kind), kind, digits=digits)

    return text


def _case(args: tuple[Sized, ...], kind: tree.SqlType) -> Sized:
    printed = OPERATORS["case"](args, kind)
    sql = _in_one_scale(printed.sql, args, kind)
    return Sized(sql, kind, printed.level if sql == printed.sql else ATOM, digits=most_digits(args))


def _in_one_scale(sql: str, args: tuple[Sized, ...], kind: tree.SqlType) -> str:
    """Return SQL for one of several numbers in the scale of the result."""
    exact_ones = (arg for arg in args if arg.type.kind in (tree.Kind.INTEGER, tree.Kind.DECIMAL))
    scales = {arg.type.scale for arg in exact_ones} - {kind.scale}
    return in_scale(sql, scales.pop(), kind) if kind.kind is tree.Kind.DECIMAL and scales else sql


def _part(args: tuple[Sized, ...], kind: tree.SqlType) -> Sized | None:
    part, x = args[0].word, args[1].operand(ATOM)
    of_day = args[1].type == tree.DATE and part in ("hour", "minute")
    if part not in PARTS or of_day or args[1].type.kind is tree.Kind.TIME:
        return None
    sql = f"CASE WHEN isfinite({x}) THEN extract({part} FROM {x})::int END"
    return Sized(sql, kind, LOOSE, digits=7)


def _truncated(args: tuple[Sized, ...], kind: tree.SqlType) -> Sized | None:
    """Return DATE_TRUNC for years 1 to 9999; no engine shows others as a key."""
    part, moment = args[0].word, args[1]
    if part not in TRUNCATED or moment.type.kind is tree.Kind.TIMESTAMPTZ:
        return None
    x = moment.operand(ATOM)
    of_day = moment.type == tree.DATE
    first, last = (FIRST_DAY, LAST_DAY) if of_day else (FIRST_MOMENT, PAST_MOMENT)
    value = f"{x}::timestamp" if of_day else x
    sql = f"CASE WHEN {x} BETWEEN {first} AND {last} THEN date_trunc('{part}', {value}) END"
    return Sized(sql, kind, LOOSE)


def _later(args: tuple[Sized, ...], kind: tree.SqlType) -> Sized | None:
    """Return a timestamp some months, days or microseconds later, for years 1 to 9999."""
    unit, count, moment = args
    length = _length(unit.word, count)
    if length is None:
        return None
    if moment.type.kind is tree.Kind.TIMESTAMPTZ or kind not in (tree.DATE, tree.TIMESTAMP):
        return None
    x = moment.operand(ATOM)
    of_day = moment.type == tree.DATE
    first, last = (FIRST_DAY, LAST_DAY) if of_day else (FIRST_MOMENT, PAST_MOMENT)
    value = f"{x}::timestamp" if of_day else x
    added_ = f"({value} + {length})"
    if kind == tree.DATE:
        added_ += "::date"
    return Sized(f"CASE WHEN {x} BETWEEN {first} AND {last} THEN {added_} END", kind, LOOSE)


def _length(unit: str, count: Sized) -> str | None:
    """Return SQL for an interval, NULL if years 1 to 9999 plus it might exceed the engine's
    timestamps.
    """
    if unit not in MOST:
        return None
    x, most = count.operand(ATOM), MOST[unit]
    length = f"{x}::float8 * interval '1 microsecond'"
    if unit in STEPS:
        length = f"make_interval({STEPS[unit]} => {x}::int)"
    if count.literal is not None:
        number = count.literal.value
        return length if isinstance(number, int) and abs(number) <= most else None
    return f"CASE WHEN {x} BETWEEN -{most} AND {most} THEN {length} END"


def _days_later(args: tuple[Sized, ...], kind: tree.SqlType) -> Sized | None:
    day, count = args
    if day.type != tree.DATE:
        return None
    x, n = day.operand(ATOM), count.operand(ATOM)
    moved = f"CASE WHEN {n} BETWEEN -{MOST['day']} AND {MOST['day']} THEN {x} + {n}::int END"
    sql = f"CASE WHEN {x} BETWEEN {FIRST_DAY} AND {LAST_DAY} THEN {moved} END"
    return Sized(sql, kind, LOOSE)


def _between(args: tuple[Sized, ...], kind: tree.SqlType) -> Sized | None:
    """Return DATE_DIFF: the number of boundaries of a part between two dates or timestamps."""
    part, *ends = args
    word = part.word
    if any(end.type not in (tree.DATE, tree.TIMESTAMP, tree.TIMESTAMPTZ) for end in ends):
        return None
    first, last = (converted(end, tree.DATE if word in OF_DAYS else tree.TIMESTAMP) for end in ends)
    numbers = [_number_of(word, end.operand(ATOM)) for end in (first, last)]
    if None in numbers:
        return None
    finite = " AND ".join(f"isfinite({end.sql})" for end in (first, last))
    sql = f"CASE WHEN {finite} THEN {numbers[1]} - {numbers[0]} END"
    return Sized(sql, kind, LOOSE, digits=COMPUTED_DIGITS)


def _passed(args: tuple[Sized, ...], kind: tree.SqlType) -> Sized | None:
    """Return DATE_SUB: the number of whole parts of constant length between two timestamps."""
    part, *ends = args
    length = LENGTHS.get(part.word)
    if length is None or any(
        end.type not in (tree.DATE, tree.TIMESTAMP, tree.TIMESTAMPTZ) for end in ends
    ):
        return None
    first, last = (converted(end, tree.TIMESTAMP).operand(ATOM) for end in ends)
    passed = f"extract(epoch FROM {last}) - extract(epoch FROM {first})"
    whole = f"div(({passed}) * 1000000, {length // MICROSECOND})"
    finite = " AND ".join(f"isfinite({end})" for end in (first, last))
    return Sized(f"CASE WHEN {finite} THEN {whole} END", kind, LOOSE, digits=COMPUTED_DIGITS)


def _whole_length(number: Sized, kind: tree.SqlType) -> Sized:
    """Return an interval as a number of microseconds."""
    whole = converted(number, tree.INTEGER)
    return Sized(whole.sql, kind, whole.level, digits=STORED_DIGITS)


def _number_of(part: str, x: str) -> str | None:
    """Return SQL for the number of the part that contains a finite timestamp, from any origin."""
    if part in FRACTIONS:
        return f"floor(extract(epoch FROM {x}) * {FRACTIONS[part]})"
    if part in SECONDS:
        return f"floor(extract(epoch FROM {x}) / {SECONDS[part]})"
    year = f"extract(year FROM {x})"
    parts = {
        "day": f"({x} - date '1970-01-01')",
        "month": f"({year} * 12 + extract(month FROM {x}))",
        "quarter": f"({year} * 4 + extract(quarter FROM {x}))",
        "year": year,
    }
    return parts.get(part)


def _whole_part(name: str) -> Rule:
    """Return the printer of FLOOR or CEIL."""

    def text(args: tuple[Sized, ...], kind: tree.SqlType) -> Sized:
        (a,) = args
        if kind.kind is tree.Kind.DOUBLE:
            return Sized(f"{name}({double(a).sql})", kind)
        digits = COMPUTED_DIGITS if a.digits is None else a.digits
        return exact(f"{name}({numeric(a)})", kind, ATOM, digits + 1)

    return text


def _to_digits(name: str) -> Rule:
    """Return the printer of ROUND or TRUNC of an exact number, with or without digits."""

    def text(args: tuple[Sized, ...], kind: tree.SqlType) -> Sized | None:
        a, places = args[0], args[1:]
        if kind.kind is tree.Kind.DOUBLE or a.type.kind is tree.Kind.DOUBLE:
            return None
        to = places[0].literal and places[0].literal.value if places else 0
        if not isinstance(to, int):
            return None
        digits = COMPUTED_DIGITS if a.digits is None else a.digits
        sql = f"{name}({numeric(a)}, {min(to, a.type.scale)})"
        return exact(in_scale(sql, min(max(to, 0), a.type.scale), kind), kind, ATOM, digits + 1)

    return text


def _sign(args: tuple[Sized, ...], kind: tree.SqlType) -> Sized:
    x = args[0].operand(ATOM)
    nan = f"{x} = 'NaN' OR " if args[0].type.kind is tree.Kind.DOUBLE else ""
    steps = f"WHEN {nan}{x} = 0 THEN 0 WHEN {x} > 0 THEN 1 WHEN {x} < 0 THEN -1"
    return Sized(f"CASE {steps} END", kind, LOOSE, digits=1)


def _finite(form: str, of_times: str) -> Rule:
    """Return the printer of a test for finite, infinite or NaN values."""

    def text(args: tuple[Sized, ...], kind: tree.SqlType) -> Sized | None:
        (a,) = args
        by_kind = {tree.Kind.DOUBLE: form, **dict.fromkeys(TEMPORAL, of_times)}
        test = by_kind.get(a.type.kind, "")
        return Sized(test.format(a.operand(ATOM)), kind, LOOSE) if test else None

    return text


def _bucket(args: tuple[Sized, ...], kind: tree.SqlType) -> Sized | None:
    """Return WIDTH_BUCKET between constants: 0 below, and n + 1 above."""
    number = None if args[3].literal is None else args[3].literal.value
    if not isinstance(number, int) or abs(number) > MOST_BUCKETS:
        return None
    value, low, high, count = (double(arg) for arg in args)
    above = added("-", (value, low), DOUBLE)
    place = divided((multiplied((above, count), DOUBLE), added("-", (high, low), DOUBLE)), DOUBLE)
    within = f"least(greatest(floor({place.sql}), -1), {count.sql})"
    null = f"{value.operand(ATOM)} IS NULL"
    return Sized(f"CASE WHEN NOT {null} THEN 1 + {within}::bigint END", kind, LOOSE, digits=19)


def _bits(sign: str) -> Rule:
    """Return the printer of a bit operator on integers of 64 bits."""

    def text(args: tuple[Sized, ...], kind: tree.SqlType) -> Sized | None:
        if not all(map(_has_64_bits, args)):
            return None
        sides = [converted(arg, tree.INTEGER).operand(ATOM) for arg in args]
        sql = (
            f"{sign}{sides[0]}::bigint"
            if len(sides) == 1
            else f" {sign} ".join(f"{side}::bigint" for side in sides)
        )
        return Sized(sql, kind, OTHER, digits=STORED_DIGITS)

    return text


def _has_64_bits(arg: Sized) -> bool:
    value = None if arg.literal is None else arg.literal.value
    if isinstance(value, int):
        return -(2**63) < value < 2**63
    return arg.digits is not None and arg.digits <= STORED_DIGITS


def _zoned(args: tuple[Sized, ...], kind: tree.SqlType) -> Sized | None:
    """Return a timestamp with or without a zone, in UTC; other zones differ between engines."""
    if ZONES.get(args[0].word) not in UTC:
        return None
    return Sized(f"{args[1].operand(ATOM)} AT TIME ZONE 'UTC'", kind, LOOSE)


def _epoch(args: tuple[Sized, ...], kind: tree.SqlType) -> Sized | None:
    """Return the seconds since 1970; microseconds are divided as DOUBLEs."""
    x = args[0].operand(ATOM)
    if args[0].type not in (tree.DATE, tree.TIMESTAMP, tree.TIMESTAMPTZ):
        return None
    seconds = f"(extract(epoch FROM {x}) * 1000000)::float8 / float8 '1000000'"
    return Sized(f"CASE WHEN isfinite({x}) THEN {seconds} END", kind, LOOSE, digits=COMPUTED_DIGITS)


def _epoch_us(args: tuple[Sized, ...], kind: tree.SqlType) -> Sized | None:
    x = args[0].operand(ATOM)
    if args[0].type not in (tree.DATE, tree.TIMESTAMP, tree.TIMESTAMPTZ):
        return None
    sql = f"CASE WHEN isfinite({x}) THEN {_number_of('microseconds', x)} END"
    return Sized(sql, kind, LOOSE, digits=COMPUTED_DIGITS)


def _last_day(args: tuple[Sized, ...], kind: tree.SqlType) -> Sized | None:
    """Return the last day of a month in years 1 to 9999."""
    begun = _truncated(
        (Sized("month", tree.VARCHAR, literal=tree.Literal("month", tree.VARCHAR)), *args), kind
    )
    if begun is None:
        return None
    return Sized(f"({begun.operand(ATOM)} + interval '1 month' - interval '1 day')::date", kind)


def _written(args: tuple[Sized, ...], kind: tree.SqlType) -> Sized | None:
    """Return STRFTIME, for years 1 to 9999."""
    moment, form = args
    pieces = _SPECIFIER.findall(str(None if form.literal is None else form.literal.value))
    if form.literal is None or any(p[0] == "%" and p not in SPECIFIERS for p in pieces):
        return None
    text = "".join(SPECIFIERS.get(p) or '"' + re.sub(r'(["\\])', r"\\\1", p) + '"' for p in pieces)
    return _shown(moment, text, kind, forever=True) if text else None


def _shown(moment: Sized, form: str, kind: tree.SqlType, *, forever: bool = False) -> Sized | None:
    """Return a date or timestamp by TO_CHAR; an infinite one has a text only with `forever`."""
    if moment.type not in (tree.DATE, tree.TIMESTAMP):
        return None
    x, of_day = moment.operand(ATOM), moment.type == tree.DATE
    first, last = (FIRST_DAY, LAST_DAY) if of_day else (FIRST_MOMENT, PAST_MOMENT)
    value = f"{x}::timestamp" if of_day else x
    escaped = form.replace("'", "''")
    steps = [f"WHEN {x} = '{end}' THEN '{end}'" for end in ("infinity", "-infinity") if forever]
    steps += [f"WHEN {x} BETWEEN {first} AND {last} THEN to_char({value}, '{escaped}')"]
    sql = f"CASE {' '.join(steps)} END"
    return Sized(f"({sql} {COLLATE})", kind)


def _named(form: str) -> Rule:
    return lambda args, kind: _shown(args[0], form, kind)


FUNCTIONS: dict[str, Rule] = {
    "add": lambda args, kind: added("+", args, kind),
    "sub": _minus,
    "mul": multiplied,
    "div": divided,
    "int_div": _whole,
    "pg_div": lambda args, kind: (
        _whole(args, kind) if kind.kind is tree.Kind.INTEGER else divided(args, kind)
    ),
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
    "case": _case,
    "coalesce": _choice("COALESCE"),
    "nullif": _choice("NULLIF"),
    "least": _choice("LEAST"),
    "greatest": _choice("GREATEST"),
    "extract": _part,
    "date_trunc": _truncated,
    "date_add": _later,
    "add_days": _days_later,
    "date_diff": _between,
    "date_sub": _passed,
    "epoch": _epoch,
    "epoch_us": _epoch_us,
    "last_day": _last_day,
    "strftime": _written,
    "dayname": _named("FMDay"),
    "monthname": _named("FMMonth"),
    "timezone": _zoned,
    "interval_of": lambda args, kind: _whole_length(args[0], kind),
    "interval_us": lambda args, kind: Sized(args[0].sql, kind, args[0].level, digits=STORED_DIGITS),
    "width_bucket": _bucket,
    "bitwise_and": _bits("&"),
    "bitwise_or": _bits("|"),
    "xor": _bits("#"),
    "bitwise_not": _bits("~"),
    **TEXTS,
}
"""Printers by names in the registry."""
