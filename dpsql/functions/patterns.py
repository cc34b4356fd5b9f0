r"""Regular expressions: a language that RE2 surely reads, so that no accepted pattern can raise.

Patterns are literals of at most `LONGEST_PATTERN` ASCII characters. Their words are checked here
and their structure by Python's own compiler, which is stricter than RE2 once what only Python
reads (possessive repetition, `[\b]`) and what only RE2 reads (`[[:alpha:]]`) is left out.
"""

from __future__ import annotations

import re

from dpsql.functions.row import LONGEST_REPLACEMENT, TEXT, WHOLE, Function, fixed, value_at
from dpsql.model.tree import BOOLEAN, VARCHAR, Expression

LONGEST_PATTERN = 255
MOST_COPIES = 256
"""Most copies that counted repetitions may add up to: RE2 refuses programs that are too large."""

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
    r"""How many groups a pattern has; None for what is no pattern to us.

    >>> groups_of(r"(\d{4})-(\d\d)"), groups_of("a++"), groups_of("(a")
    (2, None, None)
    """
    if not isinstance(pattern, str) or len(pattern) > LONGEST_PATTERN:
        return None
    if not pattern.isascii() or not _PATTERN.fullmatch(pattern) or _copies(pattern) > MOST_COPIES:
        return None
    try:
        return re.compile(pattern).groups
    except re.error:
        return None


def _copies(pattern: str) -> int:
    """The sum of all numbers in counted repetitions."""
    counted: list[str] = re.findall(r"\{([\d,]+)\}", pattern)
    return sum(int(number) for text in counted for number in text.split(",") if number)


def _are_flags(flags: object, known: str) -> bool:
    return isinstance(flags, str) and set(flags) <= set(known)


def _is_match(args: tuple[Expression, ...]) -> bool:
    flags = args[2:] == () or _are_flags(value_at(args, 2), "cims")
    return flags and groups_of(value_at(args, 1)) is not None


def _is_extraction(args: tuple[Expression, ...]) -> bool:
    groups, group = groups_of(value_at(args, 1)), value_at(args, 2) if args[2:] else 0
    flags = args[3:] == () or _are_flags(value_at(args, 3), "cims")
    return flags and groups is not None and type(group) is int and 0 <= group <= groups


def _is_replacement(args: tuple[Expression, ...]) -> bool:
    """A short literal that names no group that is not there, and known flags."""
    groups, text = groups_of(value_at(args, 1)), value_at(args, 2)
    if groups is None or not isinstance(text, str) or len(text) > LONGEST_REPLACEMENT:
        return False
    named = re.findall(r"\\(.)?", text, re.DOTALL)
    known = all(name == "\\" or (name.isdigit() and int(name) <= groups) for name in named)
    return known and (args[3:] == () or _are_flags(value_at(args, 3), "cgims"))


PATTERNS = (
    *(
        Function(name, fixed(BOOLEAN, TEXT, TEXT, TEXT, least=2), accepts=_is_match)
        for name in ("regexp_matches", "regexp_full_match")
    ),
    Function(
        "regexp_extract", fixed(VARCHAR, TEXT, TEXT, WHOLE, TEXT, least=2), accepts=_is_extraction
    ),
    Function(
        "regexp_replace", fixed(VARCHAR, TEXT, TEXT, TEXT, TEXT, least=3), accepts=_is_replacement
    ),
)
