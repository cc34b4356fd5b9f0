"""Calls about time with intervals, parts or formats as arguments, also PostgreSQL's."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime
from itertools import groupby
from typing import TypeAlias

from sqlglot import exp

from dpsql.dialects.reading import interval_literals
from dpsql.dialects.reading.function_names import PARTS
from dpsql.dialects.reading.literals import casted
from dpsql.dialects.reading.nodes import Origin
from dpsql.dialects.reading.window_frames import Read
from dpsql.functions.zone_names import ZONES
from dpsql.model.dataclass import dataclass, replace
from dpsql.model.errors import Reason, Refused
from dpsql.model.tree import (
    DATE,
    DOUBLE,
    INTEGER,
    TIMESTAMPTZ,
    VARCHAR,
    Call,
    Cast,
    Expression,
    Literal,
    Span,
    SqlType,
)

PATTERNS = {
    "YYYY": "%Y",
    "YY": "%y",
    "IYYY": "%G",
    "MM": "%m",
    "DDD": "%j",
    "DD": "%d",
    "HH24": "%H",
    "HH12": "%I",
    "HH": "%I",
    "MI": "%M",
    "SS": "%S",
    "US": "%f",
    "MS": "%g",
    "IW": "%V",
    "ID": "%u",
}
"""Patterns of digits, in either case, longest first if one begins another."""

NAMES = {
    "FMMonth": "%B",
    "Mon": "%b",
    "FMDay": "%A",
    "Dy": "%a",
    "AM": "%p",
    "PM": "%p",
}
"""Patterns of names, in this case only: others give the name in another case, or padded."""

SHORT = {"FMMM": "%-m", "FMDD": "%-d", "FMHH24": "%-H"}
"""Patterns of numbers without leading zeros, in either case."""

PADDED = 9
"""Width to which names of months and days are padded, without FM before them."""


@dataclass(frozen=True, slots=True)
class Shaped:
    """A piece that STRFTIME alone does not write: in another case, padded, or a part's number."""

    piece: str
    change: str | None = None
    width: int = 0

    def of(self, moment: Expression, span: Span) -> Expression:
        """Return the piece's text for a timestamp."""
        if not self.piece.startswith("%"):
            number: Expression = part_of(self.piece, moment, span)
            if self.piece == "dow":
                number = Call("add", (number, Literal(1, INTEGER, span)), span=span)
            return Cast(number, VARCHAR, span=span)
        name = Call("strftime", (moment, Literal(self.piece, VARCHAR, span)), span=span)
        if self.change is not None:
            name = Call(self.change, (name,), span=span)
        if not self.width:
            return name
        # Not RPAD, whose values are not listed from those of its argument.
        wide = Call("concat", (name, Literal(" " * self.width, VARCHAR, span)), span=span)
        return Call("left", (wide, Literal(self.width, INTEGER, span)), span=span)


SHAPED = {
    before + written(name): Shaped(piece, change, 0 if before else width)
    for name, piece, width in (
        ("Month", "%B", PADDED),
        ("Day", "%A", PADDED),
        ("Mon", "%b", 0),
        ("Dy", "%a", 0),
    )
    for before in ("", "FM")
    for written, change in ((str, None), (str.upper, "upper"), (str.lower, "lower"))
} | dict.fromkeys(("am", "pm"), Shaped("%p", "lower"))
"""Names in the case of their pattern, padded without FM before it."""

NUMBERED = {"Q": Shaped("quarter"), "D": Shaped("dow")}
"""Patterns of other numbers, in either case."""

_TOKEN = re.compile(
    r'"([^"%]*)"|('
    + "|".join(sorted((*PATTERNS, *NAMES, *SHORT, *SHAPED, *NUMBERED), key=len, reverse=True))
    + r")|([^A-Za-z\"%\\])",
    re.IGNORECASE,
)
_READ = {
    "%Y": r"(?P<Y>\d{4})",
    "%m": r"(?P<m>\d{2})",
    "%d": r"(?P<d>\d{2})",
    "%H": r"(?P<H>\d{2})",
    "%M": r"(?P<M>\d{2})",
    "%S": r"(?P<S>\d{2})",
    "%f": r"(?P<f>\d{6})",
    "%g": r"(?P<g>\d{3})",
}
"""Patterns for reading a constant: each at most once, with all its digits."""


def pieces(pattern: Expression) -> list[str | Shaped]:
    """Return a Postgres pattern as pieces of a STRFTIME format; raises `Refused` for unknown
    ones.
    """
    if not (isinstance(pattern, Literal) and isinstance(pattern.value, str)):
        raise _refusal(pattern.span, "a computed format")
    parts: list[str | Shaped] = []
    rest = pattern.value
    while rest:
        token = _TOKEN.match(rest)
        piece = None if token is None else _piece(token)
        if token is None or piece is None:
            raise _refusal(pattern.span, "this format")
        parts.append(piece)
        rest = rest[token.end() :]
    return parts


def _plain(pattern: Expression) -> list[str]:
    """Return the pieces of a pattern by which texts are read; raises `Refused` for others."""
    written = pieces(pattern)
    plain = [piece for piece in written if isinstance(piece, str)]
    if plain != written:
        raise _refusal(pattern.span, "this format")
    return plain


def _piece(token: re.Match[str]) -> str | Shaped | None:
    in_quotes, word, other = token.groups()
    if in_quotes is not None:
        return in_quotes
    if other is not None:
        return other
    number = PATTERNS.get(word.upper()) or SHORT.get(word.upper())
    return NAMES.get(word) or SHAPED.get(word) or number or NUMBERED.get(word.upper())


def formatted(moment: Expression, pattern: Expression, span: Span) -> Expression:
    """Return TO_CHAR of a timestamp."""
    texts: list[Expression] = []
    for shaped, parts in groupby(pieces(pattern), key=lambda part: isinstance(part, Shaped)):
        if shaped:
            texts += [part.of(moment, span) for part in parts if isinstance(part, Shaped)]
        else:
            form = Literal("".join(map(str, parts)), VARCHAR, pattern.span)
            texts.append(Call("strftime", (moment, form), span=span))
    return texts[0] if len(texts) == 1 else Call("concat", tuple(texts), span=span)


def parsed(text: Expression, form: Expression, span: Span) -> Call:
    """Return STRPTIME: NULL if the text does not fit, like TRY_STRPTIME."""
    return Call("strptime", (text, form), span=span)


def read_as(text: Expression, pattern: Expression, kind: SqlType, span: Span) -> Expression:
    """Return TO_TIMESTAMP or TO_DATE; for a computed text NULL if it does not fit.

    A pattern without year, month or day differs in meaning between engines.
    """
    if isinstance(text, Literal) and isinstance(text.value, str):
        return parsed_constant(text, pattern, kind, span)
    written = _plain(pattern)
    numbers = [piece for piece in written if piece.startswith("%")]
    if not set(numbers) <= _READ.keys() or not set(numbers) >= {"%Y", "%m", "%d"}:
        construct = "TO_TIMESTAMP or TO_DATE with this format, unless of a constant,"
        raise _refusal(pattern.span, construct)
    moment = parsed(text, Literal("".join(written), VARCHAR, pattern.span), span)
    return Cast(moment, kind, span=span)


def parsed_constant(text: Literal, pattern: Expression, kind: SqlType, span: Span) -> Literal:
    """Return TO_TIMESTAMP or TO_DATE of a constant with every digit of its pattern."""
    assert isinstance(text.value, str)
    shape = "".join(_READ.get(piece, re.escape(piece)) for piece in _plain(pattern))
    try:
        match = re.fullmatch(shape, text.value, re.ASCII)
        numbers = {} if match is None else {k: int(v) for k, v in match.groupdict().items()}
        year, month, day = (numbers[k] for k in "Ymd")
        hour, minute, second = (numbers.get(k, 0) for k in "HMS")
        micros = numbers.get("f", 1000 * numbers.get("g", 0))
        moment = datetime(year, month, day, hour, minute, second, micros, UTC)
    except (KeyError, ValueError, re.error):
        raise Refused(
            Reason.TYPE_MISMATCH, text.span, function="to_timestamp", types=("this string",)
        ) from None
    return Literal(moment.date() if kind == DATE else moment, kind, span)


def _refusal(span: Span, construct: str) -> Refused:
    return Refused(Reason.UNSUPPORTED_SYNTAX, span, construct=construct)


Nodes: TypeAlias = "list[exp.Expression]"


def standard_part(written: str) -> str:
    """Return the standard name of a part; an unknown one in lower case.

    >>> standard_part("Years")
    'year'
    """
    return PARTS.get(written.lower(), written.lower())


def part_of(part: str, moment: Expression, span: Span) -> Call:
    """Return EXTRACT(part FROM moment)."""
    if part == "epoch":
        return Call("epoch", (moment,), span=span)
    return Call("extract", (Literal(part, VARCHAR, span), moment), span=span)


def in_zone(zone: Expression, moment: Expression, span: Span) -> Call:
    """Return TIMEZONE(zone, moment); raises `Refused` for a computed or unknown zone."""
    if not (isinstance(zone, Literal) and isinstance(zone.value, str)):
        raise Refused(Reason.UNSUPPORTED_SYNTAX, span, construct="a computed time zone")
    name = ZONES.get(zone.value.lower())
    if name is None:
        raise Refused(Reason.UNSUPPORTED_SYNTAX, zone.span, construct="this time zone")
    return Call("timezone", (Literal(name, VARCHAR, zone.span), moment), span=span)


def truncated_in_zone(call: Call, origin: Origin, node: exp.Expression) -> Call:
    """Return PostgreSQL's DATE_TRUNC(part, moment, zone): the start of the part, by clocks in the
    zone.
    """
    part, moment, zone = call.args
    if origin.dialect != "postgres":
        fix = "Write DATE_TRUNC(part, moment AT TIME ZONE zone) AT TIME ZONE zone."
        raise origin.refusal(node, "DATE_TRUNC in a time zone", fix=fix)
    instant = Cast(moment, TIMESTAMPTZ, span=moment.span)
    local = replace(call, args=(part, in_zone(zone, instant, call.span)))
    return in_zone(zone, local, call.span)


def _count(node: exp.Expression, args: Nodes, origin: Origin, name: str, *allowed: int) -> Span:
    span = origin.span(node)
    if len(args) not in allowed:
        types = (f"{len(args)} argument{'' if len(args) == 1 else 's'}",)
        raise Refused(Reason.TYPE_MISMATCH, span, function=name, types=types)
    return span


def _each_read(
    name: str, count: int, make: Callable[[list[Expression], Span], Expression]
) -> Callable[[exp.Expression, Nodes, Origin, Read], Expression]:
    """Return a reader of calls of `count` arguments, each an expression of its own."""

    def call(node: exp.Expression, args: Nodes, origin: Origin, read: Read) -> Expression:
        span = _count(node, args, origin, name, count)
        return make([read(arg, origin) for arg in args], span)

    return call


_STRPTIME = _each_read("strptime", 2, lambda args, span: parsed(args[0], args[1], span))


def _date_add(node: exp.Expression, args: Nodes, origin: Origin, read: Read) -> Expression:
    """Return DATE_ADD(moment, INTERVAL …)."""
    span = _count(node, args, origin, "date_add", 2)
    return interval_literals.later(read(args[0], origin), _duration(args[1], origin, read), span)


def _date_sub(node: exp.Expression, args: Nodes, origin: Origin, read: Read) -> Expression:
    """Return DATE_SUB(moment, INTERVAL …), or DuckDB's DATE_SUB(part, start, end)."""
    span = _count(node, args, origin, "date_sub", 2, 3)
    if len(args) == len("xi"):
        step = interval_literals.opposite(_duration(args[1], origin, read))
        return interval_literals.later(read(args[0], origin), step, span)
    part, start, end = (read(arg, origin) for arg in args)
    if not (isinstance(part, Literal) and isinstance(part.value, str)):
        raise origin.refusal(node, "DATE_SUB of a computed part")
    name = Literal(standard_part(part.value), VARCHAR, part.span)
    return Call("date_sub", (name, start, end), span=span)


def _duration(node: exp.Expression, origin: Origin, read: Read) -> interval_literals.Duration:
    """Return an INTERVAL; a bare string is read as one, as in PostgreSQL."""
    step = interval_literals.duration_of(node, origin, read)
    if step is None and isinstance(node, exp.Literal) and node.is_string:
        return interval_literals.interval_text(node.name, read(node, origin).span)
    if step is None:
        raise origin.refusal(node, "anything but an INTERVAL here")
    return step


def _time_bucket(node: exp.Expression, args: Nodes, origin: Origin, read: Read) -> Expression:
    """Return TIME_BUCKET(width, moment [, origin]) or Postgres' DATE_BIN(width, moment, origin)."""
    span = _count(node, args, origin, "time_bucket", 2, 3)
    width = _duration(args[0], origin, read).parts
    if len(width) != 1:
        raise origin.refusal(node, "a bucket of mixed units")
    ((unit, count),) = width
    rest = tuple(read(arg, origin) for arg in args[1:])
    return Call("time_bucket", (Literal(unit, VARCHAR, span), count, *rest), span=span)


def _date_bin(node: exp.Expression, args: Nodes, origin: Origin, read: Read) -> Expression:
    if origin.dialect != "postgres":
        raise Refused(Reason.UNKNOWN_FUNCTION, origin.span(node), name="date_bin")
    _count(node, args, origin, "date_bin", 3)
    return _time_bucket(node, args, origin, read)


def _to_timestamp(node: exp.Expression, args: Nodes, origin: Origin, read: Read) -> Expression:
    """Return TO_TIMESTAMP(seconds), or of a constant with a format: both TIMESTAMPTZ, in UTC."""
    span = _count(node, args, origin, "to_timestamp", 1, 2)
    values = tuple(read(arg, origin) for arg in args)
    if len(values) == 1:
        return Call("to_timestamp", values, span=span)
    return read_as(values[0], values[1], TIMESTAMPTZ, span)


def _strftime(node: exp.Expression, args: Nodes, origin: Origin, read: Read) -> Expression:
    """Return STRFTIME(moment, format), in either order as in DuckDB."""
    span = _count(node, args, origin, "strftime", 2)
    first, second = (read(arg, origin) for arg in args)
    swapped = isinstance(first, Literal) and first.type == VARCHAR
    return Call("strftime", (second, first) if swapped else (first, second), span=span)


def _date(node: exp.Expression, args: Nodes, origin: Origin, read: Read) -> Expression:
    """Return DATE(x) as CAST(x AS DATE)."""
    span = _count(node, args, origin, "date", 1)
    return casted(read(args[0], origin), DATE, origin, span)


def _age(node: exp.Expression, args: Nodes, origin: Origin, read: Read) -> Expression:
    """Return AGE(later, earlier); AGE(x) counts from the midnight at which today began."""
    span = _count(node, args, origin, "age", 1, 2)
    moments = [read(arg, origin) for arg in args]
    if len(moments) == 1:
        moments.insert(0, Literal(origin.instant.date(), DATE, span))
    return Call("age", tuple(moments), span=span)


def _justify_hours(node: exp.Expression, args: Nodes, origin: Origin, read: Read) -> Expression:
    """Return JUSTIFY_HOURS(length) unchanged: 24 hours are a day in every displayed duration."""
    if origin.dialect != "postgres":
        raise Refused(Reason.UNKNOWN_FUNCTION, origin.span(node), name="justify_hours")
    span = _count(node, args, origin, "justify_hours", 1)
    micros = Call("interval_us", (read(args[0], origin),), span=span)
    return Call("interval_of", (micros,), span=span)


TIME_CALLS: dict[str, Callable[[exp.Expression, Nodes, Origin, Read], Expression]] = {
    "age": _age,
    "date": _date,
    "date_add": _date_add,
    "justify_hours": _justify_hours,
    "date_sub": _date_sub,
    "time_bucket": _time_bucket,
    "date_bin": _date_bin,
    "to_timestamp": _to_timestamp,
    "to_date": _each_read("to_date", 2, lambda args, span: read_as(args[0], args[1], DATE, span)),
    "to_char": _each_read("to_char", 2, lambda args, span: formatted(args[0], args[1], span)),
    "strftime": _strftime,
    "strptime": _STRPTIME,
    "try_strptime": _STRPTIME,
    "epoch_ms": _each_read(
        "epoch_ms", 1, lambda args, span: Call("epoch_ms", tuple(args), span=span)
    ),
    "make_timestamp": _each_read(
        "make_timestamp",
        6,
        lambda args, span: Call(
            "make_timestamp", (*args[:5], Cast(args[5], DOUBLE, span=span)), span=span
        ),
    ),
}
"""Functions that read their arguments themselves."""
