"""More functions of text: digests, padding, parts, distances and regular expressions."""

from __future__ import annotations

import re
from collections.abc import Callable
from fractions import Fraction

from dpsql.functions.row import (
    LONGEST_TEXT,
    TEXT,
    WHOLE,
    Args,
    Function,
    Types,
    constant,
    fixed,
    literal_at,
)
from dpsql.intervals import Interval
from dpsql.tree import BOOLEAN, DOUBLE, INTEGER, VARCHAR, Expression, Kind, Literal, SqlType

LONGEST_COMPARED = 255
"""Texts are cut here before their distance is taken, which costs the product of their lengths."""

CODE_POINTS = constant(Interval(Fraction(-1), Fraction(0x10FFFF)))
LENGTHS = constant(Interval(Fraction(0), None))
DISTANCES = constant(Interval(Fraction(0), Fraction(LONGEST_COMPARED)))
SHARES = constant(Interval(Fraction(0), Fraction(1)))
TEXT_OR_WHOLE = frozenset({Kind.VARCHAR, Kind.INTEGER})

_PATTERN = re.compile(
    r"(?:[\w ,:;/@#%&=<>!~'\"-]|\\[dDwWsSbB.^$*+?()\[\]{}|\\/-]|[.^$|]|\((?:\?:)?|\)|\[\^?"
    r"|\]|[*+?]\??)*"
)
"""Regular expressions that RE2 and Python read alike; counted repetitions are left out."""


def _value(args: tuple[Expression, ...], position: int) -> object:
    """The constant at a position, None where there is none."""
    arg = args[position] if position < len(args) else None
    return arg.value if isinstance(arg, Literal) else None


def _padded(args: tuple[Expression, ...]) -> bool:
    """A literal length within reason, and a literal padding that is there."""
    length, padding = _value(args, 1), _value(args, 2)
    fits = type(length) is int and 0 <= length <= LONGEST_TEXT
    return fits and isinstance(padding, str) and bool(padding)


def _part(args: tuple[Expression, ...]) -> bool:
    position = _value(args, 2)
    return type(position) is int and 0 < abs(position) <= LONGEST_TEXT


def _joined(types: Types) -> SqlType | None:
    fits = len(types) > 1 and all(t.kind in TEXT for t in types)
    return VARCHAR if fits else None


def _groups(pattern: object) -> int | None:
    """How many groups a pattern has; None for what is no pattern to us."""
    if not isinstance(pattern, str) or len(pattern) > LONGEST_COMPARED or not pattern.isascii():
        return None
    if not _PATTERN.fullmatch(pattern):
        return None
    try:
        return re.compile(pattern).groups
    except re.error:
        return None


def _is_pattern(args: tuple[Expression, ...]) -> bool:
    return _groups(_value(args, 1)) is not None


def _is_extraction(args: tuple[Expression, ...]) -> bool:
    groups, group = _groups(_value(args, 1)), _value(args, 2) if args[2:] else 0
    return groups is not None and type(group) is int and 0 <= group <= groups


def _is_replacement(args: tuple[Expression, ...]) -> bool:
    """A literal that names no group that is not there, and known flags."""
    groups, text = _groups(_value(args, 1)), _value(args, 2)
    if groups is None or not isinstance(text, str):
        return False
    named = re.findall(r"\\(.)?", text, re.DOTALL)
    known = all(name == "\\" or (name.isdigit() and int(name) <= groups) for name in named)
    return known and (not args[3:] or _value(args, 3) in ("g", "i", "gi", "ig"))


def _between(
    result: SqlType, least: int, most: int, rest: SqlType
) -> Callable[[Types], SqlType | None]:
    """A result type for texts followed by optional arguments of another type."""

    def result_type(types: Types) -> SqlType | None:
        fits = least <= len(types) <= most and all(t.kind in TEXT for t in types[:least])
        return result if fits and all(t == rest for t in types[least:]) else None

    return result_type


def _raises(_args: Args, _kind: SqlType) -> bool:
    return True


TEXTS = (
    *(Function(name, fixed(VARCHAR, TEXT)) for name in ("reverse", "md5", "sha1", "sha256")),
    *(Function(name, fixed(VARCHAR, TEXT)) for name in ("strip_accents", "nfc_normalize")),
    # Longer than what they are given, so they are cut at LONGEST_TEXT.
    Function("hex", fixed(VARCHAR, TEXT_OR_WHOLE)),
    Function("bin", fixed(VARCHAR, TEXT_OR_WHOLE)),
    Function("url_encode", fixed(VARCHAR, TEXT)),
    Function("url_decode", fixed(VARCHAR, TEXT), raises=_raises),
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
    Function("levenshtein", fixed(INTEGER, TEXT, TEXT), DISTANCES),
    Function("damerau_levenshtein", fixed(INTEGER, TEXT, TEXT), DISTANCES),
    Function("hamming", fixed(INTEGER, TEXT, TEXT), DISTANCES, raises=_raises),
    Function("jaccard", fixed(DOUBLE, TEXT, TEXT), SHARES, raises=_raises),
    Function("jaro_similarity", fixed(DOUBLE, TEXT, TEXT), SHARES),
    Function("jaro_winkler_similarity", fixed(DOUBLE, TEXT, TEXT), SHARES),
    Function("regexp_matches", fixed(BOOLEAN, TEXT, TEXT), accepts=_is_pattern),
    Function("regexp_full_match", fixed(BOOLEAN, TEXT, TEXT), accepts=_is_pattern),
    Function("regexp_extract", _between(VARCHAR, 2, 3, INTEGER), accepts=_is_extraction),
    Function("regexp_replace", _between(VARCHAR, 3, 4, VARCHAR), accepts=_is_replacement),
)
