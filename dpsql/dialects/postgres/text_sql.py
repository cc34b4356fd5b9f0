r"""Functions of texts on PostgreSQL, each total, with the same values as on other engines.

Lengths and places count code points. A function without the same value for every text has no row:
DuckDB reverses texts by visible letters, and knows Unicode forms that PostgreSQL may not.

Patterns are those that the registry accepts, if they are regular and use no word boundaries or
case. So every engine finds the same texts. Each piece is written out with the same meaning: `.`
does not match an end of line, `\d`, `\w` and `\s` are ASCII.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache

from dpsql.dialects.expression_printer import Rule
from dpsql.dialects.postgres.constant_sql import COLLATE
from dpsql.dialects.postgres.number_sql import short
from dpsql.dialects.sized_text import Sized
from dpsql.dialects.sql_text import ATOM, LOOSE, OTHER, TEST
from dpsql.functions import LONGEST_TEXT
from dpsql.functions.strings import MOST_COPIES
from dpsql.model.tree import Kind, SqlType

_ASCII = 0x80
_OTHER_LETTER = "é"
_ODD = {("upper", "ß"): "ẞ", ("lower", "İ"): "i"}
"""Single letters with other upper or lower forms than Python's."""
_SURROGATES = range(0xD800, 0xE000)
_PIECE = re.compile(r"\[\^?(?:\\.|[^\]\\])+\]|\\.|[*+?]\??|\{[\d,]+\}\??|\(\?:|.", re.DOTALL)
_CLASSES = {r"\d": r"[0-9]", r"\w": r"[0-9A-Za-z_]", r"\s": r"[ \t\n\f\r]"}
_OF_CLASSES = {name.upper(): f"[^{text[1:]}" for name, text in _CLASSES.items()}
_REPEATED = re.compile(r"[*+?{]")


def texts(rule: Callable[[tuple[Sized, ...]], str | None], level: int = ATOM) -> Rule:
    """Return the printer of a function of texts alone."""

    def text(args: tuple[Sized, ...], kind: SqlType) -> Sized | None:
        if any(arg.type.kind is not Kind.VARCHAR for arg in args):
            return None
        sql = rule(args)
        return None if sql is None else Sized(sql, kind, level, digits=10)

    return text


def _called(name: str) -> Rule:
    return texts(lambda args: f"{name}({', '.join(arg.sql for arg in args)})")


def _cut(sql: str) -> str:
    return f"left({sql}, {LONGEST_TEXT})"


def _joined(args: tuple[Sized, ...]) -> str:
    """Return the texts joined; each is cut first, so that memory suffices."""
    return _cut(" || ".join(_no_longer(arg) for arg in args))


def _no_longer(arg: Sized) -> str:
    return arg.sql if arg.literal is not None else _cut(arg.sql)


def _joined_by(args: tuple[Sized, ...]) -> str:
    return f"({_cut('concat_ws(' + ', '.join(map(_no_longer, args)) + ')')} {COLLATE})"


def _replaced(args: tuple[Sized, ...]) -> str:
    text, part, other = args
    return _cut(f"replace({_cut(text.sql)}, {part.sql}, {other.sql})")


def _like(args: tuple[Sized, ...]) -> str:
    """Return LIKE with an explicit escape, or none, so that every pattern is valid."""
    text, pattern, *escapes = args
    escape = escapes[0].sql if escapes else "''"
    return f"{text.operand(OTHER)} LIKE {pattern.operand(OTHER)} ESCAPE {escape}"


def _end(name: str) -> Rule:
    """Return the printer of LEFT or RIGHT with a constant number of characters."""

    def text(args: tuple[Sized, ...], kind: SqlType) -> Sized | None:
        x, count = args
        number = count.value
        if not isinstance(number, int) or not 0 <= number <= LONGEST_TEXT:
            return None
        return Sized(f"{name}({x.sql}, {number})", kind)

    return text


def _inside(args: tuple[Sized, ...], kind: SqlType) -> Sized | None:
    """Return SUBSTRING from a constant place on, counted from 1."""
    x, *places = args
    numbers = [place.value for place in places]
    if not all(isinstance(n, int) and 0 <= n <= LONGEST_TEXT for n in numbers) or numbers[0] == 0:
        return None
    return Sized(f"substr({x.sql}, {', '.join(map(str, numbers))})", kind)


def _padded(name: str) -> Rule:
    def text(args: tuple[Sized, ...], kind: SqlType) -> Sized:
        return Sized(f"{name}({', '.join(arg.sql for arg in args)})", kind)

    return text


def _part(args: tuple[Sized, ...], kind: SqlType) -> Sized | None:
    """Return SPLIT_PART by a constant that is not empty."""
    text, by, place = args
    if not by.value or text.type.kind is not Kind.VARCHAR:
        return None
    return Sized(f"split_part({text.sql}, {by.sql}, {place.sql})", kind)


def _repeated(args: tuple[Sized, ...], kind: SqlType) -> Sized | None:
    """Return a text repeated a constant number of times."""
    text, count = args
    number = count.value
    if not isinstance(number, int) or not 0 <= number <= MOST_COPIES:
        return None
    return Sized(_cut(f"repeat({_cut(text.sql)}, {count.sql})"), kind)


# --- letters ---


@cache
def _letters(name: str) -> tuple[str, str]:
    """Return letters beyond ASCII, and their single-letter forms by UPPER or LOWER.

    For letters that Python expands to several, it is the form in a title.
    """
    pairs = []
    for code in range(_ASCII, 0x110000):
        if code in _SURROGATES:
            continue
        letter = chr(code)
        forms = [getattr(letter, name)(), *([letter.title()] if name == "upper" else [])]
        other = next((form for form in forms if len(form) == 1), letter)
        other = _ODD.get((name, letter), other)
        if other != letter:
            pairs.append((letter, other))
    return "".join(letter for letter, _ in pairs), "".join(other for _, other in pairs)


def in_case(name: str, text: str) -> str:
    """Return UPPER or LOWER of a text, byte by byte if all its letters are ASCII."""
    short(text)
    letters, others = _letters(name)
    plain = f"{name}({text} {COLLATE})"
    other = f"translate({plain}, '{letters}', '{others}')"
    return f"CASE WHEN octet_length({text}) = char_length({text}) THEN {plain} ELSE {other} END"


def _in_case(name: str) -> Rule:
    return texts(lambda args: in_case(name, args[0].operand(ATOM)), LOOSE)


def _like_in_any_case(args: tuple[Sized, ...]) -> str:
    first, second = (f"({in_case('lower', arg.operand(ATOM))})" for arg in args)
    return f"{first} LIKE {second} ESCAPE ''"


# --- patterns ---


def _matches(*, whole: bool) -> Rule:
    """Return the printer of a test whether a text, or the `whole` text, matches a pattern."""

    def test(args: tuple[Sized, ...]) -> str | None:
        text, pattern, *flags = args
        if any(flag.value not in ("", "c") for flag in flags):
            return None
        language = translated(str(pattern.value))
        if language is None:
            return None
        language = f"^(?:{language})$" if whole else language
        escaped = language.replace("'", "''")
        return f"{text.operand(OTHER)} ~ '{escaped}'"

    return texts(test, TEST)


def translated(pattern: str) -> str | None:
    r"""Return PostgreSQL's pattern for the same language; None if that is not certain.

    >>> translated(r"^a.\d+?[^\w.]"), translated(r"\bx"), translated("^*")
    ('^a[^\\n][0-9]+?[^.0-9A-Z_a-z]', None, None)
    """
    pieces = _PIECE.findall(pattern)
    written = []
    for before, piece in zip(["", *pieces], pieces, strict=False):
        if before in ("", "^", "$", "(", "(?:", "|") and _REPEATED.match(piece):
            return None
        if piece[0] == "[":
            language = _class(piece)
        elif piece == ".":
            language = r"[^\n]"
        elif piece in _CLASSES or piece in _OF_CLASSES:
            language = _CLASSES.get(piece) or _OF_CLASSES[piece]
        else:
            language = None if piece in (r"\b", r"\B") else piece
        if language is None:
            return None
        written.append(language)
    return "".join(written)


def _class(piece: str) -> str | None:
    r"""Return a class of characters, found by trying all of ASCII; None if one has no common
    escape.
    """
    if re.search(r"\\[sSDW]", piece):
        return None
    one = re.compile(piece, re.ASCII)
    others = one.match(_OTHER_LETTER) is not None
    chosen = [chr(n) for n in range(1, _ASCII) if (one.match(chr(n)) is None) is others]
    if any(not letter.isprintable() for letter in chosen) or not chosen:
        return None
    listed = "".join(_runs(chosen))
    return f"[^{listed}]" if others else f"[{listed}]"


def _runs(letters: list[str]) -> list[str]:
    """Return characters in ascending order, with consecutive ones as ranges."""
    runs: list[list[str]] = []
    for letter in letters:
        if runs and ord(letter) == ord(runs[-1][-1]) + 1:
            runs[-1].append(letter)
        else:
            runs.append([letter])
    return [
        _plain(run[0]) if len(run) == 1 else f"{_plain(run[0])}-{_plain(run[-1])}" for run in runs
    ]


def _plain(letter: str) -> str:
    return letter if letter.isalnum() or letter in "._ " else f"\\u{ord(letter):04x}"


TEXTS: dict[str, Rule] = {
    "left": _end("left"),
    "right": _end("right"),
    "substring": _inside,
    "concat": texts(_joined),
    "concat_ws": texts(_joined_by),
    "like": texts(_like, TEST),
    "ilike": texts(_like_in_any_case, TEST),
    "upper": _in_case("upper"),
    "lower": _in_case("lower"),
    "length": _called("char_length"),
    "strlen": _called("octet_length"),
    "bit_length": _called("bit_length"),
    "ascii": _called("ascii"),
    "starts_with": _called("starts_with"),
    "ends_with": texts(
        lambda args: f"right({args[0].sql}, char_length({args[1].sql})) = {args[1].operand(OTHER)}",
        TEST,
    ),
    "contains": texts(lambda args: f"strpos({args[0].sql}, {args[1].sql}) > 0", TEST),
    "strpos": _called("strpos"),
    "trim": _called("btrim"),
    "ltrim": _called("ltrim"),
    "rtrim": _called("rtrim"),
    "lpad": _padded("lpad"),
    "rpad": _padded("rpad"),
    "repeat": _repeated,
    "replace": texts(_replaced),
    "translate": _called("translate"),
    "split_part": _part,
    "md5": texts(lambda args: f"(md5({args[0].sql}) {COLLATE})"),
    "sha256": texts(
        lambda args: f"(encode(sha256(convert_to({args[0].sql}, 'UTF8')), 'hex') {COLLATE})"
    ),
    "regexp_matches": _matches(whole=False),
    "regexp_full_match": _matches(whole=True),
}
"""Printers by names in the registry."""
