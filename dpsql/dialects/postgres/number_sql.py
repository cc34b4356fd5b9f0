"""Arithmetic on PostgreSQL that cannot raise for any rows and any reordering (SECURITY.md S25).

PostgreSQL has no TRY. Exact numbers are computed as NUMERIC, which holds our types with thousands
of digits to spare; a number with more digits than its type is NULL. A DOUBLE raises if its result
leaves the range of normal numbers. So every operator that could has a CASE with tests on the same
operands: a constant operand decides its test before the planner folds the branch. Beyond 8e307 a
guarded product or quotient is infinite, below 1e-300 zero. A test that could itself overflow is not
joined by AND to the test that it relies on: AND may be computed in any order, CASE may not.

Proof (SECURITY.md S8). With |b| >= 1 and |a| < 8e307 / |b| the product is below 8e307 · (1 + 2^-52)
and no less than |a|; with |b| < 1 <= |a| it lies between them; with both below 1 and |a| > 1e-300 /
|b| it is above 1e-300 · (1 - 2^-52). Quotients are such products. A sum does not overflow if one of
its numbers is below 1e290, or if the sum of their halves is below 2^1023. Halves are taken only of
numbers above 1e290. By a constant of at least 1 a product can only be too large, and a quotient too
small. By a smaller constant it is the other way round. A square is neither between 1e-150 and
8e153. A product with infinity is infinite or NaN, and never an error.
"""

from __future__ import annotations

from decimal import Decimal

from dpsql.dialects.expression_printer import DIGITS
from dpsql.dialects.postgres.lacking import lacking
from dpsql.dialects.sized_text import Sized, literal_digits
from dpsql.dialects.sql_text import ATOM, CAST, OTHER, PRODUCT, SUM
from dpsql.model.tree import DOUBLE, Kind, SqlType

SHORT = 18
"""Digits of a DECIMAL that results from two equally short ones, regardless of its type (see
`functions.arithmetic`).
"""
COMPUTED_DIGITS = 60
"""Maximum number of digits of the integer part of a computed column of a subquery."""
NORMAL = 290
"""Power of ten within which DOUBLEs can be added and multiplied without guards."""
LONGEST_GUARDED = 2_000
"""Length of operands that may be printed a dozen times."""
_HUGE, _HALF, _TINY = "float8 '8e307'", "float8 '8.98846567431158e307'", "float8 '1e-300'"
_SMALL_ROOT, _LARGE_ROOT = "float8 '1e-150'", "float8 '8e153'"
_INFINITY, _MOST = "float8 'Infinity'", "float8 '1.7976931348623157e308'"


def numeric(text: Sized) -> str:
    """Return SQL for an exact number as NUMERIC, as an operand of any operator."""
    if text.numeric or text.type.kind is Kind.DECIMAL:
        return text.operand(CAST)
    return f"{text.operand(ATOM)}::numeric"


def double(text: Sized) -> Sized:
    """Return a number as DOUBLE; no exact number of ours is out of its range."""
    if text.type.kind is Kind.DOUBLE:
        return text
    sql, literal = f"{text.operand(ATOM)}::float8", text.literal
    return Sized(sql, DOUBLE, CAST, literal=literal, digits=COMPUTED_DIGITS)


def exact(sql: str, kind: SqlType, level: int, digits: int, precision: int = DIGITS) -> Sized:
    """Return a computed exact number; NULL if it has more digits than its type."""
    most = DIGITS if kind.kind is Kind.INTEGER else min(kind.precision, precision) - kind.scale
    if digits <= most:
        return Sized(sql, kind, level, digits=digits, numeric=True)
    short(sql)
    guarded = f"CASE WHEN abs({sql}) < 1e{most} THEN {sql} END"
    return Sized(guarded, kind, 0, digits=most, numeric=True)


def in_scale(sql: str, scale: int, kind: SqlType) -> str:
    """Return SQL for an exact number with the decimal digits of its type: PRIVACY.md R18.

    PostgreSQL writes equal numbers of different scales differently, and a group keeps one of them.
    """
    return sql if scale == kind.scale else f"round({sql}, {kind.scale})"


def _digits(text: Sized) -> int:
    return COMPUTED_DIGITS if text.digits is None else text.digits


def _precision(args: tuple[Sized, ...], kind: SqlType) -> int:
    """Return the total number of digits that the result may have."""
    short = all(a.type.kind is Kind.DECIMAL and _digits(a) + a.type.scale <= SHORT for a in args)
    return SHORT if short and kind.scale < SHORT else DIGITS


def added(sign: str, args: tuple[Sized, ...], kind: SqlType) -> Sized:
    """Return a sum or a difference."""
    if kind.kind is Kind.DOUBLE:
        return _added_doubles(sign, double(args[0]), double(args[1]), kind)
    a, b = args
    sql = f"{numeric(a)} {sign} {numeric(b)}"
    return exact(sql, kind, OTHER, max(_digits(a), _digits(b)) + 1, _precision(args, kind))


def multiplied(args: tuple[Sized, ...], kind: SqlType) -> Sized:
    """Return a product."""
    if kind.kind is Kind.DOUBLE:
        return _multiplied_doubles(double(args[0]), double(args[1]), kind)
    a, b = args
    sql, digits = f"{numeric(a)} * {numeric(b)}", _digits(a) + _digits(b)
    return exact(sql, kind, OTHER, digits, _precision(args, kind))


def divided(args: tuple[Sized, ...], kind: SqlType) -> Sized:
    """Return a quotient in DOUBLE, infinite or NaN by zero."""
    a, b = map(double, args)
    nonzero = b.literal is not None and b.literal.value not in (None, 0)
    if a.digits is not None and b.digits is not None and a.digits + b.digits <= NORMAL:
        digits = a.digits + b.digits
        if nonzero:
            return Sized(f"{a.operand(PRODUCT)} / {b.operand(CAST)}", kind, OTHER, digits=digits)
    if (constant := _constant(b)) is not None and constant != 0:
        return _by_constant("/", a, b, kind, too_large=abs(constant) < 1)
    a_, b_ = short(a.operand(ATOM)), short(b.operand(ATOM))
    plain = f"{a_} / {b_}"
    sign = f"CASE WHEN ({a_} > 0) = ({b_}::text <> '-0') THEN {_INFINITY} ELSE -{_INFINITY} END"
    beyond = f"CASE WHEN ({a_} > 0) = ({b_} > 0) THEN {_INFINITY} ELSE -{_INFINITY} END"
    larger = f"CASE WHEN abs({a_}) < {_HUGE} * abs({b_}) THEN {plain} ELSE {beyond} END"
    smaller = f"CASE WHEN abs({b_}) < abs({a_}) / {_TINY} THEN {plain} ELSE 0 END"
    steps = [
        f"WHEN {a_} IS NULL OR {b_} IS NULL THEN NULL",
        f"WHEN {a_} = 'NaN' OR {b_} = 'NaN' THEN 'NaN'",
        f"WHEN {b_} = 0 THEN CASE WHEN {a_} = 0 THEN 'NaN' ELSE {sign} END",
        f"WHEN {a_} = 0 OR abs({a_}) > {_MOST} OR abs({b_}) > {_MOST} THEN {plain}",
        f"WHEN abs({b_}) < 1 THEN {larger}",
        f"WHEN abs({a_}) >= 1 THEN {plain}",
    ]
    return Sized(f"CASE {' '.join(steps)} ELSE {smaller} END", kind, 0)


def _added_doubles(sign: str, a: Sized, b: Sized, kind: SqlType) -> Sized:
    plain = f"{a.operand(SUM)} {sign} {b.operand(PRODUCT)}"
    if a.digits is not None and b.digits is not None and max(a.digits, b.digits) + 20 <= NORMAL:
        return Sized(plain, kind, OTHER, digits=max(a.digits, b.digits) + 20)
    if any(each.digits is not None and each.digits <= NORMAL for each in (a, b)):
        return Sized(plain, kind, OTHER)
    a_, b_ = short(a.operand(ATOM)), short(b.operand(ATOM))
    positive = f"{a_} > 0"
    steps = [
        f"WHEN {a_} IS NULL OR {b_} IS NULL THEN NULL",
        f"WHEN abs({a_}) < 1e290 OR abs({b_}) < 1e290 THEN {plain}",
        f"WHEN abs({a_}) > {_MOST} OR abs({b_}) > {_MOST} THEN {plain}",
        f"WHEN abs({a_} * 0.5 {sign} {b_} * 0.5) < {_HALF} THEN {plain}",
        f"WHEN {positive} THEN {_INFINITY}",
    ]
    return Sized(f"CASE {' '.join(steps)} ELSE -{_INFINITY} END", kind, 0)


def _multiplied_doubles(a: Sized, b: Sized, kind: SqlType) -> Sized:
    plain = f"{a.operand(PRODUCT)} * {b.operand(CAST)}"
    if a.digits is not None and b.digits is not None and a.digits + b.digits <= NORMAL:
        return Sized(plain, kind, OTHER, digits=a.digits + b.digits)
    for one, other in ((a, b), (b, a)):
        if (constant := _constant(other)) is not None:
            return _by_constant("*", one, other, kind, too_large=abs(constant) >= 1)
    a_, b_ = short(a.operand(ATOM)), short(b.operand(ATOM))
    if a_ == b_:
        inner = f"WHEN abs({a_}) < {_LARGE_ROOT} THEN {plain} ELSE abs({a_}) * {_INFINITY}"
        return Sized(f"CASE WHEN abs({a_}) <= {_SMALL_ROOT} THEN 0 {inner} END", kind, 0)
    beyond = f"CASE WHEN ({a_} > 0) = ({b_} > 0) THEN {_INFINITY} ELSE -{_INFINITY} END"
    larger = f"CASE WHEN abs({a_}) < {_HUGE} / abs({b_}) THEN {plain} ELSE {beyond} END"
    smaller = f"CASE WHEN abs({a_}) > {_TINY} / abs({b_}) THEN {plain} ELSE 0 END"
    steps = [
        f"WHEN {a_} IS NULL OR {b_} IS NULL THEN NULL",
        f"WHEN {a_} = 0 OR {b_} = 0 OR abs({a_}) > {_MOST} OR abs({b_}) > {_MOST} THEN {plain}",
        f"WHEN abs({b_}) >= 1 THEN {larger}",
        f"WHEN abs({a_}) >= 1 THEN {plain}",
    ]
    return Sized(f"CASE {' '.join(steps)} ELSE {smaller} END", kind, 0)


def _constant(text: Sized) -> float | None:
    """Return a constant that needs no guard, or None."""
    value = None if text.literal is None else text.literal.value
    digits = literal_digits(value)
    if digits is None or digits > NORMAL or isinstance(value, bool):
        return None
    assert isinstance(value, int | float | Decimal)
    return float(value)


def _by_constant(sign: str, a: Sized, b: Sized, kind: SqlType, *, too_large: bool) -> Sized:
    """Return a product or quotient by a constant, which can be `too_large`, or else too small."""
    constant = _constant(b)
    assert constant is not None
    a_, b_ = short(a.operand(ATOM)), b.operand(ATOM)
    plain = f"{a_} {sign} {b_}"
    if constant == 0:
        return Sized(plain, kind, OTHER)
    scale = abs(constant) if sign == "/" else 1 / abs(constant)
    if too_large:
        infinity = _INFINITY if constant > 0 else f"-{_INFINITY}"
        end = f"float8 '{8e307 * scale!r}'"
        guarded = f"CASE WHEN abs({a_}) < {end} THEN {plain} ELSE {a_} * ({infinity}) END"
    else:
        end = f"float8 '{1e-300 * scale!r}'"
        guarded = f"CASE WHEN {a_} <> 0 AND abs({a_}) <= {end} THEN 0 ELSE {plain} END"
    return Sized(guarded, kind, 0)


def short(sql: str) -> str:
    """Return the text, which is printed several times; raise `Refused` if it is too long."""
    if len(sql) > LONGEST_GUARDED:
        raise lacking("arithmetic that is nested so deeply")
    return sql
