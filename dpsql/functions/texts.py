"""More functions of text: digests, padding, parts and distances."""

from __future__ import annotations

from fractions import Fraction

from dpsql.functions.row import (
    LONGEST_TEXT,
    TEXT,
    WHOLE,
    Args,
    Function,
    Types,
    any_nullable,
    constant,
    fixed,
    literal_at,
    raising,
    unlisted,
    value_at,
)
from dpsql.functions.type_rules import INT64
from dpsql.model.intervals import Interval
from dpsql.model.tree import BOOLEAN, DOUBLE, INTEGER, VARCHAR, Expression, Kind, SqlType

LONGEST_COMPARED = 255
"""Texts are cut here before their distance is taken, which costs the product of their lengths."""

CODE_POINTS = constant(Interval(Fraction(-1), Fraction(0x10FFFF)))
LENGTHS = constant(Interval(Fraction(0), None))
DISTANCES = constant(Interval(Fraction(0), Fraction(4 * LONGEST_COMPARED)))
"""Distances count bytes, of which a character has up to four."""

SHARES = constant(Interval(Fraction(0), Fraction(1)))
TEXT_OR_WHOLE = frozenset({Kind.VARCHAR, Kind.INTEGER})


def _padded(args: tuple[Expression, ...]) -> bool:
    """A literal length within reason, and a literal padding that is there."""
    length, padding = value_at(args, 1), value_at(args, 2)
    fits = type(length) is int and 0 <= length <= LONGEST_TEXT
    return fits and isinstance(padding, str) and bool(padding)


def _part(args: tuple[Expression, ...]) -> bool:
    position = value_at(args, 2)
    return type(position) is int and 0 < abs(position) <= LONGEST_TEXT


def _joined(types: Types) -> SqlType | None:
    fits = len(types) > 1 and all(t.kind in TEXT for t in types)
    return VARCHAR if fits else None


def _wide_or_null(args: Args) -> bool:
    """Integers of more than 64 bits have no digits here."""
    wide = args[0].type == INTEGER and not args[0].interval.within(-INT64, INT64)
    return any_nullable(args) or wide


RADIXES = range(2, 37)
MOST_DIGITS = 64


def _is_radix(args: tuple[Expression, ...]) -> bool:
    """A literal radix, and a literal number of digits that DuckDB pads to."""
    digits = value_at(args, 2) if args[2:] else 0
    known = type(digits) is int and 0 <= digits <= MOST_DIGITS
    return known and value_at(args, 1) in RADIXES


TEXTS = (
    Function("chr", fixed(VARCHAR, WHOLE), raises=raising),
    Function(
        "to_base", fixed(VARCHAR, WHOLE, WHOLE, WHOLE, least=2), raises=raising, accepts=_is_radix
    ),
    Function("format_bytes", fixed(VARCHAR, WHOLE), raises=raising),
    Function("format_decimal_bytes", fixed(VARCHAR, WHOLE), raises=raising),
    *(Function(name, fixed(VARCHAR, TEXT)) for name in ("reverse", "md5", "sha1", "sha256")),
    *(Function(name, fixed(VARCHAR, TEXT)) for name in ("strip_accents", "nfc_normalize")),
    # Longer than what they are given, so they are cut at LONGEST_TEXT.
    Function("hex", fixed(VARCHAR, TEXT_OR_WHOLE), nulls=_wide_or_null),
    Function("bin", fixed(VARCHAR, TEXT_OR_WHOLE), nulls=_wide_or_null),
    Function("url_encode", fixed(VARCHAR, TEXT)),
    Function("url_decode", fixed(VARCHAR, TEXT), raises=raising),
    Function("lpad", fixed(VARCHAR, TEXT, WHOLE, TEXT), accepts=_padded),
    Function("rpad", fixed(VARCHAR, TEXT, WHOLE, TEXT), accepts=_padded),
    Function("split_part", fixed(VARCHAR, TEXT, TEXT, WHOLE), accepts=_part),
    Function("translate", fixed(VARCHAR, TEXT, TEXT, TEXT), accepts=literal_at(1, 2)),
    # NULL parts are skipped.
    Function("concat_ws", _joined, nulls=lambda args: args[0].nullable),
    Function("ascii", fixed(INTEGER, TEXT), CODE_POINTS),
    Function("unicode", fixed(INTEGER, TEXT), CODE_POINTS),
    Function("strlen", fixed(INTEGER, TEXT), LENGTHS),
    Function("bit_length", fixed(INTEGER, TEXT), LENGTHS),
    Function("ends_with", fixed(BOOLEAN, TEXT, TEXT)),
    Function("levenshtein", fixed(INTEGER, TEXT, TEXT), DISTANCES, image=unlisted),
    Function("damerau_levenshtein", fixed(INTEGER, TEXT, TEXT), DISTANCES, image=unlisted),
    Function("hamming", fixed(INTEGER, TEXT, TEXT), DISTANCES, raises=raising, image=unlisted),
    Function("jaccard", fixed(DOUBLE, TEXT, TEXT), SHARES, raises=raising),
    Function("jaro_similarity", fixed(DOUBLE, TEXT, TEXT), SHARES),
    Function("jaro_winkler_similarity", fixed(DOUBLE, TEXT, TEXT), SHARES),
)
