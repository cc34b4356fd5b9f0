r"""Functions of text: parts, digests, distances, regular expressions and literal formats.

Lengths and positions count code points, from 1.

Regular expressions must be accepted by RE2 for certain, so that no accepted pattern can raise:
literals of at most `LONGEST_PATTERN` ASCII characters. Their tokens are checked here and their
structure by Python's own compiler. It is stricter than RE2 once syntax of Python alone (possessive
repetition, `[\b]`) and of RE2 alone (`[[:alpha:]]`) is excluded.

DuckDB raises on a field of PRINTF and FORMAT of another type and on one without an argument, so
those are refused. Widths and digits have at most two digits, which bounds the result.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from fractions import Fraction

from dpsql.functions.row import (
    LONGEST_REPLACEMENT,
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
    type_at,
    unlisted,
    value_at,
)
from dpsql.functions.type_rules import INT64
from dpsql.model.intervals import Interval
from dpsql.model.tree import BOOLEAN, DOUBLE, INTEGER, VARCHAR, Expression, Kind, SqlType

FARTHEST = 2**32 - 1
COUNT = constant(Interval(Fraction(0), None))


def _characters(args: Args, _kind: SqlType) -> Interval:
    most = args[0].longest
    return Interval(Fraction(0), None if most is None else Fraction(most))


def _concatenated(types: Types) -> SqlType | None:
    return VARCHAR if types and all(t.kind in TEXT for t in types) else None


def _one_or_two(types: Types) -> SqlType | None:
    return _concatenated(types) if len(types) in (1, 2) else None


def _substring(types: Types) -> SqlType | None:
    numbers = types[1:]
    fits = len(numbers) in (1, 2) and all(t == INTEGER for t in numbers)
    return VARCHAR if fits and types[0].kind in TEXT else None


def _too_far(args: Args, _kind: SqlType) -> bool:
    """Test for offsets or lengths beyond 32 bits, on which DuckDB raises."""
    return not all(arg.interval.within(-FARTHEST, FARTHEST) for arg in args[1:])


def _is_short(args: tuple[Expression, ...]) -> bool:
    """Test for literals with a replacement not much longer than the search text."""
    sought, replacement = value_at(args, 1), value_at(args, 2)
    if not (isinstance(sought, str) and isinstance(replacement, str)):
        return False
    return len(replacement) <= max(LONGEST_REPLACEMENT, len(sought))


MOST_COPIES = 64
"""Largest count of repetitions of a text that is no literal."""


def _is_repetition(args: tuple[Expression, ...]) -> bool:
    """Test for a repetition of a literal, or of any text at most `MOST_COPIES` times."""
    count = value_at(args, 1)
    if isinstance(value_at(args, 0), str):
        return True
    return type(count) is int and 0 <= count <= MOST_COPIES


STRINGS = (
    Function("length_grapheme", fixed(INTEGER, TEXT), COUNT, called=(1, 1)),
    Function("left_grapheme", fixed(VARCHAR, TEXT, WHOLE), raises=_too_far, called=(2, 2)),
    Function("right_grapheme", fixed(VARCHAR, TEXT, WHOLE), raises=_too_far, called=(2, 2)),
    Function("substring_grapheme", _substring, raises=_too_far, called=(2, 3)),
    Function(
        "repeat",
        fixed(VARCHAR, TEXT, WHOLE),
        nulls=lambda args: any_nullable(args) or not args[1].interval.within(-INT64, INT64),
        accepts=_is_repetition,
        called=(2, 2),
    ),
    Function("length", fixed(INTEGER, TEXT), _characters, called=(1, 1)),
    Function("strpos", fixed(INTEGER, TEXT, TEXT), COUNT, called=(2, 2)),
    Function("lower", fixed(VARCHAR, TEXT), called=(1, 1)),
    Function("upper", fixed(VARCHAR, TEXT), called=(1, 1)),
    Function("substring", _substring, raises=_too_far),
    Function("left", fixed(VARCHAR, TEXT, WHOLE), raises=_too_far, called=(2, 2)),
    Function("right", fixed(VARCHAR, TEXT, WHOLE), raises=_too_far, called=(2, 2)),
    Function("trim", _one_or_two),
    Function("ltrim", _one_or_two, called=(1, 2)),
    Function("rtrim", _one_or_two, called=(1, 2)),
    # NULL if any part is NULL, as `||`; cut at LONGEST_TEXT, as `replace`.
    Function("concat", _concatenated),
    Function("replace", fixed(VARCHAR, TEXT, TEXT, TEXT), accepts=_is_short, called=(3, 3)),
)


LONGEST_COMPARED = 255
"""Longest text in a computed distance; longer ones are cut. The cost is the product of lengths."""

CODE_POINTS = constant(Interval(Fraction(-1), Fraction(0x10FFFF)))
LENGTHS = constant(Interval(Fraction(0), None))
DISTANCES = constant(Interval(Fraction(0), Fraction(4 * LONGEST_COMPARED)))
"""Range of distances, which count bytes: a character has up to four."""

SHARES = constant(Interval(Fraction(0), Fraction(1)))
TEXT_OR_WHOLE = frozenset({Kind.VARCHAR, Kind.INTEGER})


def _padded(args: tuple[Expression, ...]) -> bool:
    """Test for a literal length within the limit, and a literal, nonempty padding."""
    length, padding = value_at(args, 1), value_at(args, 2)
    fits = type(length) is int and 0 <= length <= LONGEST_TEXT
    return fits and isinstance(padding, str) and bool(padding)


def _part(args: tuple[Expression, ...]) -> bool:
    position = value_at(args, 2)
    return type(position) is int and 0 < abs(position) <= LONGEST_TEXT


def _wide_or_null(args: Args) -> bool:
    """Test whether the result may be NULL: a NULL argument, or an integer of more than 64 bits."""
    wide = args[0].type == INTEGER and not args[0].interval.within(-INT64, INT64)
    return any_nullable(args) or wide


RADIXES = range(2, 37)
MOST_DIGITS = 64


def _is_radix(args: tuple[Expression, ...]) -> bool:
    """Test for a literal radix, and a literal number of digits that DuckDB pads to."""
    digits = value_at(args, 2) if args[2:] else 0
    fits = type(digits) is int and 0 <= digits <= MOST_DIGITS
    return fits and value_at(args, 1) in RADIXES


TEXTS = (
    Function("chr", fixed(VARCHAR, WHOLE), raises=raising, called=(1, 1)),
    Function(
        "to_base",
        fixed(VARCHAR, WHOLE, WHOLE, WHOLE, least=2),
        raises=raising,
        accepts=_is_radix,
        called=(2, 3),
    ),
    Function("format_bytes", fixed(VARCHAR, WHOLE), raises=raising, called=(1, 1)),
    Function("format_decimal_bytes", fixed(VARCHAR, WHOLE), raises=raising),
    *(
        Function(name, fixed(VARCHAR, TEXT), called=(1, 1))
        for name in "reverse md5 sha1 sha256 strip_accents nfc_normalize".split()
    ),
    # Longer than their arguments, so they are cut at LONGEST_TEXT.
    Function("hex", fixed(VARCHAR, TEXT_OR_WHOLE), nulls=_wide_or_null, called=(1, 1)),
    Function("bin", fixed(VARCHAR, TEXT_OR_WHOLE), nulls=_wide_or_null, called=(1, 1)),
    Function("url_encode", fixed(VARCHAR, TEXT), called=(1, 1)),
    Function("url_decode", fixed(VARCHAR, TEXT), raises=raising, called=(1, 1)),
    Function("lpad", fixed(VARCHAR, TEXT, WHOLE, TEXT), accepts=_padded, called=(2, 3)),
    Function("rpad", fixed(VARCHAR, TEXT, WHOLE, TEXT), accepts=_padded, called=(2, 3)),
    Function("split_part", fixed(VARCHAR, TEXT, TEXT, WHOLE), accepts=_part, called=(3, 3)),
    Function(
        "translate", fixed(VARCHAR, TEXT, TEXT, TEXT), accepts=literal_at(1, 2), called=(3, 3)
    ),
    # NULL parts are skipped.
    Function(
        "concat_ws",
        lambda types: VARCHAR if len(types) > 1 and all(t.kind in TEXT for t in types) else None,
        nulls=lambda args: args[0].nullable,
        called=(2, None),
    ),
    Function("json_text", lambda types: VARCHAR if len(types) == 1 else None),
    Function("ascii", fixed(INTEGER, TEXT), CODE_POINTS, called=(1, 1)),
    Function("unicode", fixed(INTEGER, TEXT), CODE_POINTS, called=(1, 1)),
    Function("strlen", fixed(INTEGER, TEXT), LENGTHS, called=(1, 1)),
    Function("bit_length", fixed(INTEGER, TEXT), LENGTHS, called=(1, 1)),
    Function("ends_with", fixed(BOOLEAN, TEXT, TEXT), called=(2, 2)),
    Function("levenshtein", fixed(INTEGER, TEXT, TEXT), DISTANCES, image=unlisted, called=(2, 2)),
    Function(
        "damerau_levenshtein", fixed(INTEGER, TEXT, TEXT), DISTANCES, image=unlisted, called=(2, 2)
    ),
    Function(
        "hamming",
        fixed(INTEGER, TEXT, TEXT),
        DISTANCES,
        raises=raising,
        image=unlisted,
        called=(2, 2),
    ),
    Function("jaccard", fixed(DOUBLE, TEXT, TEXT), SHARES, raises=raising, called=(2, 2)),
    Function("jaro_similarity", fixed(DOUBLE, TEXT, TEXT), SHARES, called=(2, 2)),
    Function("jaro_winkler_similarity", fixed(DOUBLE, TEXT, TEXT), SHARES, called=(2, 2)),
)


LONGEST_PATTERN = 255
MOST_COPIED = 256
"""Largest total of counted repetitions: RE2 refuses programs that are too large."""

_PLAIN = r"""\w ,:;/@#%&=<>!~'"-"""
_ESCAPED = r"\\[dDwWsS]|\\[.^$*+?()\[\]{}|\\/-]"
_PATTERN = re.compile(
    rf"""(?:[{_PLAIN}]|{_ESCAPED}|\\[bB]|[.^$|)]|\((?:\?:|(?!\?))"""
    # A class: no bracket within, and none of the pairs that Python keeps for set operations.
    rf"""|\[\^?(?:(?!--|&&|~~|\|\|)(?:[{_PLAIN}.$*+?(){{}}|]|{_ESCAPED}))+\]"""
    # A repetition is not repeated, and a counted one is not of a group.
    r"""|(?:[*+?]|(?<!\))\{\d{1,2}(?:,(?:\d{1,2})?)?\})\??(?![*+?{]))*""",
    re.ASCII,
)


def groups_of(pattern: object) -> int | None:
    r"""Return the number of groups of a pattern; None for a pattern that is not accepted.

    >>> groups_of(r"(\d{4})-(\d\d)"), groups_of("a++"), groups_of("(a")
    (2, None, None)
    """
    if not isinstance(pattern, str) or len(pattern) > LONGEST_PATTERN:
        return None
    if not pattern.isascii() or not _PATTERN.fullmatch(pattern) or _copies(pattern) > MOST_COPIED:
        return None
    try:
        return re.compile(pattern).groups
    except re.error:
        return None


def _copies(pattern: str) -> int:
    """Return the sum of all numbers in counted repetitions."""
    counted: list[str] = re.findall(r"\{([\d,]+)\}", pattern)
    return sum(int(number) for text in counted for number in text.split(",") if number)


def _are_flags(flags: object, allowed: str) -> bool:
    return isinstance(flags, str) and set(flags) <= set(allowed)


def _is_extraction(args: tuple[Expression, ...]) -> bool:
    groups, group = groups_of(value_at(args, 1)), value_at(args, 2) if args[2:] else 0
    flags = args[3:] == () or _are_flags(value_at(args, 3), "cims")
    return flags and groups is not None and type(group) is int and 0 <= group <= groups


def _is_replacement(args: tuple[Expression, ...]) -> bool:
    """Test for a short literal that names existing groups only, and known flags."""
    groups, text = groups_of(value_at(args, 1)), value_at(args, 2)
    if groups is None or not isinstance(text, str) or len(text) > LONGEST_REPLACEMENT:
        return False
    named = re.findall(r"\\(.)?", text, re.DOTALL)
    valid = all(name == "\\" or (name.isdigit() and int(name) <= groups) for name in named)
    return valid and (args[3:] == () or _are_flags(value_at(args, 3), "cgims"))


PATTERNS = (
    *(
        Function(
            name,
            fixed(BOOLEAN, TEXT, TEXT, TEXT, least=2),
            accepts=lambda args: (
                (args[2:] == () or _are_flags(value_at(args, 2), "cims"))
                and groups_of(value_at(args, 1)) is not None
            ),
            called=(2, 3),
        )
        for name in ("regexp_matches", "regexp_full_match")
    ),
    Function(
        "regexp_extract",
        fixed(VARCHAR, TEXT, TEXT, WHOLE, TEXT, least=2),
        accepts=_is_extraction,
        called=(2, 4),
    ),
    Function(
        "regexp_replace",
        fixed(VARCHAR, TEXT, TEXT, TEXT, TEXT, least=3),
        accepts=_is_replacement,
        called=(3, 4),
    ),
)


FRACTIONAL = frozenset({Kind.DECIMAL, Kind.DOUBLE})
PLAIN = FRACTIONAL | WHOLE | TEXT | {Kind.BOOLEAN, Kind.DATE, Kind.TIMESTAMP}

PRINTED = {"d": WHOLE, "s": TEXT, "f": FRACTIONAL, "e": FRACTIONAL}
"""Conversions of PRINTF, and the kinds that each can print."""

FORMATTED = {**PRINTED, ",": WHOLE, "": PLAIN}
"""Endings of FORMAT's fields: a type, a comma without one, or neither."""

_DIGITS = r"(?:\.\d{1,2}(?=[fe]))?"
_WIDTH = r"(?:[1-9]\d?)?"
_PRINTF = rf"%%|[^%]|%(?:(?:[-+]?0?{_WIDTH}|,){_DIGITS}([dfe])|-?{_WIDTH}(s))"
_FORMAT = (
    r"\{\{|\}\}|[^{}]"
    rf"|\{{(?::(?:(?:[<>^]?{_WIDTH}|,){_DIGITS}([dfe])|[<>^]?{_WIDTH}(s)|(,)|[<>^]?{_WIDTH}))?\}}"
)
"""A regular expression of FORMAT texts: a field has a width or a comma, not both."""


def fields_of(text: object, name: str) -> tuple[frozenset[Kind], ...] | None:
    """Return the kinds that each field of a format can print, in order; None for an invalid format.

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
    """Return a test for one argument for each field, of a type that it can print."""

    def accepts(args: tuple[Expression, ...]) -> bool:
        fields = fields_of(value_at(args, 0), name)
        if fields is None or len(fields) != len(args) - 1:
            return False
        types = [type_at(args, n) for n in range(1, len(args))]
        return all(
            t is not None and t.kind in kinds for t, kinds in zip(types, fields, strict=True)
        )

    return accepts


FORMATS = tuple(
    Function(
        name,
        lambda types: VARCHAR if types and types[0].kind in TEXT else None,
        accepts=_fits(name),
        called=(1, None),
    )
    for name in ("printf", "format")
)
