"""Formats of dates: Postgres' patterns as formats of STRFTIME, and constants read with them."""

from __future__ import annotations

import re
from datetime import UTC, datetime

from dpsql.model.errors import Reason, Refused
from dpsql.model.tree import DATE, VARCHAR, Call, Expression, Literal, Span, SqlType

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
"""Patterns of digits, in either case, longest first where one begins another."""

NAMES = {
    "FMMonth": "%B",
    "Mon": "%b",
    "FMDay": "%A",
    "Dy": "%a",
    "AM": "%p",
    "PM": "%p",
}
"""Patterns of names, in this case only: others give the name in another case, or padded."""

_TOKEN = re.compile(
    r'"([^"%]*)"|(FM(?:Month|Day))|('
    + "|".join(sorted((*PATTERNS, *NAMES), key=len, reverse=True))
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
"""What a constant may be read with: each at most once, all its digits written."""


def pieces(pattern: Expression) -> list[str]:
    """A Postgres pattern as pieces of a STRFTIME format; raises `Refused` for unknown ones."""
    if not (isinstance(pattern, Literal) and isinstance(pattern.value, str)):
        raise _refusal(pattern.span, "a computed format")
    found: list[str] = []
    rest = pattern.value
    while rest:
        token = _TOKEN.match(rest)
        piece = None if token is None else _piece(token)
        if token is None or piece is None:
            raise _refusal(pattern.span, "this format")
        found.append(piece)
        rest = rest[token.end() :]
    return found


def _piece(token: re.Match[str]) -> str | None:
    quoted, padded, word, other = token.groups()
    if quoted is not None:
        return quoted
    if other is not None:
        return other
    return NAMES.get(padded or word) or PATTERNS.get((word or "").upper())


def formatted(moment: Expression, pattern: Expression, span: Span) -> Call:
    """TO_CHAR of a moment."""
    form = Literal("".join(pieces(pattern)), VARCHAR, pattern.span)
    return Call("strftime", (moment, form), span=span)


def parsed(text: Expression, form: Expression, span: Span) -> Call:
    """STRPTIME: NULL where the text does not fit, as TRY_STRPTIME."""
    return Call("strptime", (text, form), span=span)


def parsed_constant(text: Expression, pattern: Expression, kind: SqlType, span: Span) -> Literal:
    """TO_TIMESTAMP and TO_DATE of a constant that has every digit its pattern names."""
    if not (isinstance(text, Literal) and isinstance(text.value, str)):
        raise _refusal(span, "TO_TIMESTAMP or TO_DATE with a format, unless of a constant,")
    shape = "".join(_READ.get(piece, re.escape(piece)) for piece in pieces(pattern))
    try:
        found = re.fullmatch(shape, text.value, re.ASCII)
        numbers = {} if found is None else {k: int(v) for k, v in found.groupdict().items()}
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
