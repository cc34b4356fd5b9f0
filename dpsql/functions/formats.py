"""PRINTF and FORMAT: literal formats whose every field fits the argument that it shows.

DuckDB raises on a field of another type and on one without an argument, so those are refused.
Widths and digits have at most two digits, which bounds the result.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from dpsql.functions.row import TEXT, WHOLE, Function, Types, type_at, value_at
from dpsql.model.tree import VARCHAR, Expression, Kind, SqlType

FRACTIONAL = frozenset({Kind.DECIMAL, Kind.DOUBLE})
PLAIN = FRACTIONAL | WHOLE | TEXT | {Kind.BOOLEAN, Kind.DATE, Kind.TIMESTAMP}

PRINTED = {"d": WHOLE, "s": TEXT, "f": FRACTIONAL, "e": FRACTIONAL}
"""The conversions of PRINTF, and what each can show."""

FORMATTED = {**PRINTED, ",": WHOLE, "": PLAIN}
"""The ends of FORMAT's fields: a type, a comma without one, or neither."""

_DIGITS = r"(?:\.\d{1,2}(?=[fe]))?"
_WIDTH = r"(?:[1-9]\d?)?"
_PRINTF = rf"%%|[^%]|%(?:(?:[-+]?0?{_WIDTH}|,){_DIGITS}([dfe])|-?{_WIDTH}(s))"
_FORMAT = (
    r"\{\{|\}\}|[^{}]"
    rf"|\{{(?::(?:(?:[<>^]?{_WIDTH}|,){_DIGITS}([dfe])|[<>^]?{_WIDTH}(s)|(,)|[<>^]?{_WIDTH}))?\}}"
)
"""A field has a width or a comma, not both."""


def fields_of(text: object, name: str) -> tuple[frozenset[Kind], ...] | None:
    """What each field of a format can show, in order; None for what is no format to us.

    >>> fields_of("%d%%", "printf") == (WHOLE,), fields_of("{0}", "format")
    (True, None)
    """
    pattern, kinds = (_PRINTF, PRINTED) if name == "printf" else (_FORMAT, FORMATTED)
    if not isinstance(text, str) or not re.fullmatch(f"(?:{pattern})*", text, re.DOTALL):
        return None
    parts = re.finditer(pattern, text, re.DOTALL)
    opening = "%" if name == "printf" else "{"
    shown = [part for part in parts if part[0][0] == opening and part[0] != 2 * opening]
    return tuple(kinds["".join(end for end in part.groups() if end)] for part in shown)


def _fits(name: str) -> Callable[[tuple[Expression, ...]], bool]:
    """Whether there is one argument for each field, of a type that it can show."""

    def accepts(args: tuple[Expression, ...]) -> bool:
        fields = fields_of(value_at(args, 0), name)
        if fields is None or len(fields) != len(args) - 1:
            return False
        types = [type_at(args, n) for n in range(1, len(args))]
        return all(
            t is not None and t.kind in kinds for t, kinds in zip(types, fields, strict=True)
        )

    return accepts


def _formatted(types: Types) -> SqlType | None:
    return VARCHAR if types and types[0].kind in TEXT else None


FORMATS = tuple(Function(name, _formatted, accepts=_fits(name)) for name in ("printf", "format"))
