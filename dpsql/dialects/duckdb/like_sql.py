r"""LIKE and ILIKE as DuckDB's SQL, in a time that grows with the text alone.

DuckDB below 2 tries all places of each `%` against all places of the next one: five of them keep a
processor busy for minutes on a text of 200 characters. So a pattern with two parts that may stand
anywhere is printed as a regular expression, which RE2 matches in one pass. LIKE with a
constant without `_` stays: DuckDB searches its parts one after the other.

    >>> as_regex("a%b_.c")
    'a.*b.\\.c'

Why no row may make a statement late: PRIVACY.md R101.
"""

from __future__ import annotations

from dpsql.dialects.literal_sql import constant
from dpsql.dialects.operators import OPERATORS
from dpsql.dialects.sql_text import OTHER, TEST, Text
from dpsql.model.tree import VARCHAR, Literal, SqlType

_SPECIAL = r"\.+*?()|[]{}^$"
"""Characters with a meaning in a regular expression."""

_LONGEST_COMPUTED = 255
"""Longest pattern of a column, in characters; a longer one matches nothing."""

_NOTHING = r"[^\s\S]"
"""A regular expression that matches no text."""


def like(args: tuple[Text, ...], kind: SqlType) -> Text:
    """Return LIKE, with a literal escape character or none."""
    text, pattern, *escapes = args
    escape = escapes[0].literal.value if escapes and escapes[0].literal is not None else None
    if pattern.literal is None:
        return _computed(text.operand(OTHER), pattern.operand(OTHER), kind)
    written = str(pattern.literal.value)
    searched = escape is None and "_" not in written
    if searched or not _backtracks(written, escape):
        return OPERATORS["like"](args, kind)
    return _full_match(text.sql, as_regex(written, escape), kind)


def ilike(args: tuple[Text, ...], kind: SqlType) -> Text:
    """Return ILIKE, as LIKE of texts in lower case if the pattern may end with NUL.

    DuckDB 1.5 raises on such a pattern; it compares lower case itself.
    """
    text, pattern = args
    if pattern.literal is None:
        return _computed(f"lower({text.sql})", f"lower({pattern.sql})", kind)
    written = str(pattern.literal.value)
    if _backtracks(written):
        return _full_match(f"lower({text.sql})", as_regex(written), kind, lower=True)
    if "\0" not in written:
        return OPERATORS["ilike"](args, kind)
    return Text(f"lower({text.sql}) LIKE lower({pattern.sql})", kind, TEST)


def as_regex(pattern: str, escape: object = None) -> str:
    """Return a pattern of LIKE as a regular expression in which `.` matches every character."""
    return "".join(_pieces(pattern, escape))


def _pieces(pattern: str, escape: object) -> list[str]:
    letters, pieces = iter(pattern), list[str]()
    for letter in letters:
        if letter == escape:
            pieces.append(_escaped(next(letters, "")))
        else:
            pieces.append({"%": ".*", "_": "."}.get(letter) or _escaped(letter))
    return pieces


def _escaped(letter: str) -> str:
    return f"\\{letter}" if letter and letter in _SPECIAL else letter


def _backtracks(pattern: str, escape: object = None) -> bool:
    """Test whether the engine tries the places of one part against those of another."""
    pieces = _pieces(pattern, escape)
    floating = [n for n, piece in enumerate(pieces[:-1]) if piece == ".*" != pieces[n + 1]]
    return len(floating) > 1


def _full_match(text: str, regex: str, kind: SqlType, *, lower: bool = False) -> Text:
    written = constant(Literal(regex, VARCHAR))
    written = f"lower({written})" if lower else written
    return Text(f"regexp_full_match({text}, {written}, 's')", kind)


def _computed(text: str, pattern: str, kind: SqlType) -> Text:
    """Return LIKE with a pattern that rows hold."""
    return Text(f"regexp_full_match({text}, [{_AS_REGEX} FOR x IN [{pattern}]][1], 's')", kind)


_AS_REGEX = (
    f"CASE WHEN length(x) > {_LONGEST_COMPUTED} THEN '{_NOTHING}' ELSE replace(replace("
    r"regexp_replace(x, '([\\.+*?()|\[\]{}^$])', '\\\1', 'g'), '%', '.*'), '_', '.') END"
)
"""SQL of the regular expression for a pattern `x`."""
