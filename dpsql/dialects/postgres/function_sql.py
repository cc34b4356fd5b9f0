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
from dpsql.model.tree import DATE, DOUBLE, TIMESTAMP, Kind, SqlType

Rule = Callable[[tuple[Sized, ...], SqlType], Sized | None]

PARTS = frozenset("year quarter month week day hour minute dow isodow doy isoyear".split())
"""Parts of a day or moment that are whole numbers on every engine."""
TRUNCATED = frozenset("year quarter month week day hour minute second".split())
FIRST_DAY, LAST_DAY = "date '0001-01-01'", "date '9999-12-31'"
FIRST_MOMENT, PAST_MOMENT = "timestamp '0001-01-01'", "timestamp '9999-12-31 23:59:59.999999'"
STEPS = {"month": "months", "day": "days"}
MOST_STEPS = 1_000_000


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
    """So many months or days later, of moments in years 1 to 9999."""
    unit, count, moment = args
    step = STEPS.get(_word(unit))
    number = None if count.literal is None else count.literal.value
    if step is None or not isinstance(number, int) or abs(number) > MOST_STEPS:
        return None
    if moment.type.kind is Kind.TIMESTAMPTZ or kind not in (DATE, TIMESTAMP):
        return None
    x = moment.operand(ATOM)
    of_day = moment.type == DATE
    first, last = (FIRST_DAY, LAST_DAY) if of_day else (FIRST_MOMENT, PAST_MOMENT)
    value = f"{x}::timestamp" if of_day else x
    added_ = f"({value} + make_interval({step} => {number}))"
    if kind == DATE:
        added_ += "::date"
    return Sized(f"CASE WHEN {x} BETWEEN {first} AND {last} THEN {added_} END", kind, LOOSE)


def _days_later(args: tuple[Sized, ...], kind: SqlType) -> Sized | None:
    day, count = args
    if day.type != DATE:
        return None
    x, n = day.operand(ATOM), count.operand(ATOM)
    moved = f"CASE WHEN {n} BETWEEN -{MOST_STEPS} AND {MOST_STEPS} THEN {x} + {n}::int END"
    sql = f"CASE WHEN {x} BETWEEN {FIRST_DAY} AND {LAST_DAY} THEN {moved} END"
    return Sized(sql, kind, LOOSE)


def _days_between(args: tuple[Sized, ...], kind: SqlType) -> Sized | None:
    """DATE_DIFF in days, between days or the days of moments."""
    part, *ends = args
    if _word(part) != "day" or any(end.type.kind is Kind.TIMESTAMPTZ for end in ends):
        return None
    first, last = (converted(end, DATE).operand(ATOM) for end in ends)
    sql = f"CASE WHEN isfinite({first}) AND isfinite({last}) THEN {last} - {first} END"
    return Sized(sql, kind, LOOSE, digits=8)


def _rounded(name: str) -> Rule:
    """FLOOR or CEIL of a DOUBLE, or of an exact number that stays one."""

    def text(args: tuple[Sized, ...], kind: SqlType) -> Sized | None:
        (a,) = args
        if a.type.kind is Kind.DOUBLE and kind == DOUBLE:
            return Sized(f"{name}({a.sql})", kind)
        return None

    return text


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
    "floor": _rounded("floor"),
    "ceil": _rounded("ceil"),
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
    "date_diff": _days_between,
}
"""By their names in the registry."""
