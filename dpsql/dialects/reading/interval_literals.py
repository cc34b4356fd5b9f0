"""INTERVAL in expressions: additions to a timestamp, as calls of `date_add`.

Adding to a timestamp, or subtracting, is a chain of `date_add`. Anywhere else an INTERVAL is the
call `interval(months, days, microseconds)`, which `resolve` converts to a duration.
"""

from __future__ import annotations

import re
from datetime import UTC, date

from sqlglot import exp

from dpsql.dialects.reading.interval_tokens import TEXT
from dpsql.dialects.reading.literals import negative
from dpsql.dialects.reading.nodes import Origin
from dpsql.dialects.reading.tokens import DURATION, FUNCTION
from dpsql.dialects.reading.window_frames import Read
from dpsql.functions.dates import moved
from dpsql.model.dataclass import dataclass, replace
from dpsql.model.durations import ORDER, UNITS, parts_of
from dpsql.model.errors import Reason, Refused
from dpsql.model.table_names import nearest
from dpsql.model.tree import (
    DATE,
    INTEGER,
    TIMESTAMP,
    TIMESTAMPTZ,
    VARCHAR,
    Call,
    Cast,
    Expression,
    Literal,
    Span,
)

_MAKERS = {
    f"to_{name}": name
    for name in """microseconds milliseconds seconds minutes hours days weeks months quarters years
    decades centuries""".split()
}
"""Functions of intervals: TO_DAYS(n) is n days."""


@dataclass(frozen=True, slots=True)
class Duration:
    """An interval: a count for each part, each part at most once, in `ORDER`."""

    parts: tuple[tuple[str, Expression], ...]


def says_interval(node: exp.Expression) -> bool:
    """Test whether a node is written as an INTERVAL; other intervals have its type."""
    match node:
        case exp.Paren() | exp.Neg():
            return says_interval(node.this)
        case exp.Mul():
            return says_interval(node.this) or says_interval(node.expression)
        case exp.Add() | exp.Sub():
            return says_interval(node.this) and says_interval(node.expression)
        case exp.Cast():
            to = node.args.get("to")
            return isinstance(to, exp.DataType) and to.this == exp.DType.INTERVAL and _spells(node)
        case exp.Anonymous():
            return _unit_of(node) is not None
        case _:
            return False


def _spells(cast: exp.Expression) -> bool:
    """Test whether the argument of a cast is a constant, or a number before the text of a unit."""
    node = cast.this
    while isinstance(node, exp.Paren):
        node = node.this
    match node:
        case exp.Literal(is_string=True):
            return True
        case exp.DPipe(expression=exp.Literal() as unit):
            return unit.is_string and unit.name.strip().lower() in UNITS
        case _:
            return False


def duration_of(node: exp.Expression, origin: Origin, read: Read) -> Duration | None:
    """Return the interval of a node; None if it is not one, and then nothing is read."""
    if not says_interval(node):
        return None
    match node:
        case exp.Paren():
            return duration_of(origin.take(node, "this")[0], origin, read)
        case exp.Neg():
            inner = duration_of(origin.take(node, "this")[0], origin, read)
            return None if inner is None else opposite(inner)
        case exp.Mul():
            return _product(node, origin, read)
        case exp.Add() | exp.Sub():
            left, right = (
                duration_of(side, origin, read) for side in origin.take(node, "this", "expression")
            )
            assert left is not None
            assert right is not None
            return _plus(left, opposite(right) if isinstance(node, exp.Sub) else right)
        case exp.Cast():
            return _of_cast(node, origin, read)
        case _:
            return _of_call(node, origin, read)


def value_of(duration: Duration, span: Span) -> Call:
    """Return the interval as a value: `interval(months, days, microseconds)`."""
    counts: dict[str, Expression] = dict(duration.parts)
    nothing = Literal(0, INTEGER, span)
    return Call("interval", tuple(counts.get(part, nothing) for part in ORDER), span=span)


def _plus(left: Duration, right: Duration) -> Duration:
    ours, theirs = dict(left.parts), dict(right.parts)
    return Duration(
        tuple(
            (part, _added([n for n in (ours.get(part), theirs.get(part)) if n is not None]))
            for part in ORDER
            if part in ours or part in theirs
        )
    )


def _added(counts: list[Expression]) -> Expression:
    match counts:
        case [Literal(int() as a), Literal(int() as b)]:
            return Literal(a + b, INTEGER, counts[0].span)
        case [count]:
            return count
        case _:
            return Call("add", tuple(counts), span=counts[0].span)


def _product(node: exp.Expression, origin: Origin, read: Read) -> Duration | None:
    left, right = origin.take(node, "this", "expression")
    side, other = (right, left) if says_interval(right) else (left, right)
    inner = duration_of(side, origin, read)
    assert inner is not None
    return _times(inner, _whole(read(other, origin)))


def _whole(factor: Expression) -> Expression:
    """Return FLOOR and similar calls as INTEGER, so that they can count units."""
    match factor:
        case Call("floor" | "ceil" | "round" | "trunc", (_,)):
            return Cast(factor, INTEGER, span=factor.span)
        case _:
            return factor


def _of_cast(node: exp.Expression, origin: Origin, read: Read) -> Duration:
    """Return CAST('1 day' AS INTERVAL), '1 day'::interval or (n || ' days')::interval."""
    this, to, safe = origin.take(node, "this", "to", "safe")
    origin.take(to, "this", "nested")
    if safe:
        raise origin.refusal(node, "TRY_CAST to INTERVAL")
    while isinstance(this, exp.Paren):
        (this,) = origin.take(this, "this")
    if isinstance(this, exp.Literal):
        return interval_text(str(this.this), read(this, origin).span)
    left, right, _safe = origin.take(this, "this", "expression", "safe")
    count = read(left, origin)
    if isinstance(count, Cast) and count.type == VARCHAR:
        count = count.arg
    part, size = UNITS[str(read(right, origin).value).strip().lower()]  # type: ignore[union-attr]
    return _times(Duration(((part, Literal(size, INTEGER, count.span)),)), count)


def _unit_of(node: exp.Expression) -> str | None:
    written = str(node.this)
    if written.startswith(DURATION):
        return written.removeprefix(DURATION)
    return _MAKERS.get(written.removeprefix(FUNCTION).lower())


def _of_call(node: exp.Expression, origin: Origin, read: Read) -> Duration:
    unit = _unit_of(node)
    assert unit is not None
    _this, args = origin.take(node, "this", "expressions")
    if len(args) != 1:
        raise origin.refusal(node, "an INTERVAL of more than one number")
    value = read(args[0], origin)
    if unit == TEXT:
        assert isinstance(value, Literal)
        return interval_text(str(value.value), value.span)
    if isinstance(value, Literal) and not isinstance(value.value, int):
        return interval_text(f"{value.value} {unit}", value.span)
    part, size = UNITS[unit]
    return _times(Duration(((part, Literal(size, INTEGER, value.span)),)), value)


def interval_text(text: str, span: Span) -> Duration:
    """Return the interval of a string such as '1 day 02:00:00'."""
    totals = parts_of(text)
    if totals is None:
        words = re.findall(r"[^\W\d_]+", text.lower())
        near = next(filter(None, (nearest(w, UNITS) for w in words if w not in UNITS)), None)
        fix = f"Did you mean {near}?" if near else "Write a number and a unit, as in '3 days'."
        kind = {"text": text, "kind": "INTERVAL"}
        raise Refused(Reason.TYPE_MISMATCH, span, **kind, fix=fix)
    parts = tuple((u, Literal(n, INTEGER, span)) for u, n in totals.items() if n)
    return Duration(parts or (("day", Literal(0, INTEGER, span)),))


def _times(duration: Duration, factor: Expression) -> Duration:
    return Duration(tuple((unit, _multiplied(count, factor)) for unit, count in duration.parts))


def _multiplied(count: Expression, factor: Expression) -> Expression:
    """Return the product; a product of two constants, or with one, is computed here."""
    numbers = (count, factor)
    values = [n.value if isinstance(n, Literal) and type(n.value) is int else None for n in numbers]
    match values:
        case [int(a), int(b)]:
            return Literal(a * b, INTEGER, factor.span)
        case [1, None]:
            return factor
        case [-1, None]:
            return Call("neg", (factor,), span=factor.span)
        case [None, 1]:
            return count
        case [None, -1]:
            return Call("neg", (count,), span=count.span)
        case _:
            return Call("mul", (factor, count), span=factor.span)


def opposite(duration: Duration) -> Duration:
    """Return the negated interval."""
    return _times(duration, Literal(-1, INTEGER))


def later(moment: Expression, duration: Duration, span: Span) -> Expression:
    """Return the timestamp plus an interval; for constants, the constant."""
    for unit, count in duration.parts:
        if isinstance(moment, Literal) and moment.type.is_temporal and isinstance(count, Literal):
            moment = _constant(moment, unit, count, span)
        else:
            args = Literal(unit, VARCHAR, span), count, moment
            moment = _sunday(Call("date_add", args, span=span))
    return moment


def _constant(moment: Literal, unit: str, count: Literal, span: Span) -> Literal:
    assert isinstance(moment.value, date)
    result = None
    if isinstance(count.value, int):
        result = moved(moment.value, unit, count.value)
    if result is None:
        raise Refused(Reason.TYPE_MISMATCH, span, function="INTERVAL", types=("this date",))
    kind = TIMESTAMPTZ if moment.type == TIMESTAMPTZ else TIMESTAMP
    return Literal(result.replace(tzinfo=UTC) if kind == TIMESTAMPTZ else result, kind, span)


def _sunday(call: Call) -> Call:
    """Return the Sunday before a day for the day minus its day of the week: one period, with
    listable values.

    It is written DATE_TRUNC('day', d) - EXTRACT(DOW FROM d) * INTERVAL '1 day'.
    """
    match call.args:
        case (
            Literal("day"),
            Call("neg", (Call("extract", (Literal("dow"), day)),)),
            Call("date_trunc", (Literal("day"), moment)),
        ) if day == moment or _is_day_of(moment, day) or _is_day_of(day, moment):
            unit, one = call.args[0], Literal(1, INTEGER, call.span)
            after = Call("date_add", (unit, one, day), span=call.span)
            week = Literal("week", VARCHAR, call.span)
            monday = Call("date_trunc", (week, after), span=call.span)
            back = negative(one, call.span)
            return replace(call, args=(unit, back, monday))
        case _:
            return call


def _is_day_of(day: Expression, moment: Expression) -> bool:
    """Test whether `day` is `moment` cast to DATE."""
    return isinstance(day, Cast) and day.type == DATE and day.arg == moment
