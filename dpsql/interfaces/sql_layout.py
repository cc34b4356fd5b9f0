"""SQL on indented lines, for people. Only whitespace changes, so its meaning stays.

Lines break at whitespace, after commas and inside of brackets. Tokens keep their order. A text with
unknown tokens or deep nesting stays unchanged.

    >>> print(laid_out("SELECT a, b FROM t WHERE (a > 1) GROUP BY a", width=20))
    SELECT a, b
    FROM t
    WHERE (a > 1)
    GROUP BY a
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise

from dpsql.model.dataclass import dataclass

_TOKEN = re.compile(
    r"""(?P<gap>\s+)
    | '(?:[^']|'')*' | "(?:[^"]|"")*"
    | \d[\w.]*(?:(?<=[eE])[+-]\d+)? | \$?[^\W\d]\w*
    | [^\s\w'"$]""",
    re.VERBOSE,
)
_CLOSES = {"(": ")", "[": "]", "{": "}", "CASE": "END"}
_INDENT = "  "
_NARROWEST = 24
_DEEPEST = 100

_CLAUSES = frozenset(
    """WITH SELECT FROM WHERE GROUP HAVING WINDOW QUALIFY ORDER LIMIT OFFSET
    UNION INTERSECT EXCEPT""".split()
)
_JOINS = frozenset("INNER LEFT RIGHT FULL CROSS SEMI ANTI POSITIONAL ASOF JOIN".split())
_OPERATORS = (
    frozenset({"WHEN", "ELSE"}),
    frozenset({"THEN"}),
    frozenset({"OR"}),
    frozenset({"AND"}),
    frozenset({"+", "-", "|"}),
    frozenset({"*", "/"}),
)
"""Words that may begin a line, weakest binding first."""


@dataclass(frozen=True, slots=True)
class _Atom:
    """A token, and whether whitespace stands before it."""

    text: str
    gap: bool

    @property
    def flat(self) -> str:
        return self.text


@dataclass(frozen=True, slots=True)
class _Group:
    """Contents of brackets, or of CASE and END."""

    opening: str
    inner: tuple[_Piece, ...]
    closing: str
    gap: bool
    flat: str


_Piece = _Atom | _Group
Parts = list[Sequence[_Piece]]


def laid_out(sql: str, width: int = 100) -> str:
    """Return the same SQL in lines of about `width` characters at most."""
    pieces = _read(sql)
    return sql if pieces is None else "\n".join(_lines(pieces, width))


# --- reading ---


def _read(sql: str) -> tuple[_Piece, ...] | None:
    """Return the pieces of a text; None for unknown tokens or unmatched brackets."""
    open_groups: list[tuple[_Atom | None, list[_Piece]]] = [(None, [])]
    place, gap = 0, False
    while place < len(sql):
        match = _TOKEN.match(sql, place)
        if match is None or sql.startswith(("--", "/*"), place):
            return None
        place = match.end()
        if match["gap"]:
            gap = True
            continue
        token, gap = _Atom(match[0], gap), False
        if token.text in _CLOSES:
            open_groups.append((token, []))
            if len(open_groups) > _DEEPEST:
                return None
            continue
        opening, inner = open_groups[-1]
        if opening is not None and token.text == _CLOSES[opening.text]:
            open_groups.pop()
            apart = " " if opening.text == "CASE" else ""
            flat = f"{opening.text}{apart}{_flat(inner)}{apart}{token.text}"
            open_groups[-1][1].append(
                _Group(opening.text, tuple(inner), token.text, opening.gap, flat)
            )
        elif token.text in _CLOSES.values():
            return None
        else:
            inner.append(token)
    return None if len(open_groups) > 1 else tuple(open_groups[0][1])


def _flat(pieces: Sequence[_Piece]) -> str:
    return "".join(f"{' ' if p.gap else ''}{p.flat}" for p in pieces).lstrip()


# --- laying out ---


def _lines(pieces: Sequence[_Piece], width: int) -> list[str]:
    """Return the pieces on one line if they fit, else divided at the weakest binding."""
    width = max(width, _NARROWEST)
    flat = _flat(pieces)
    if len(flat) <= width:
        return [flat]
    parts = _divided(pieces)
    if len(parts) == 1:
        return _hanging(pieces, width)
    return [line for part in parts for line in _part(part, width)]


def _divided(pieces: Sequence[_Piece]) -> Parts:
    dividers = (_by_clauses, _by_commas, _by_joins, *_BY_OPERATORS)
    return next((parts for divide in dividers if len(parts := divide(pieces)) > 1), [pieces])


def _part(pieces: Sequence[_Piece], width: int) -> list[str]:
    """Return the lines of one part. The items of a clause are indented under its words."""
    head = 0  # words that begin a clause that may be indented
    if pieces[0].flat in _CLAUSES - {"WITH"} and len(pieces) > 1:
        head = 1 + (pieces[1].flat in ("BY", "DISTINCT", "ALL"))
    if len(_flat(pieces)) <= width or not head or len(_divided(pieces[head:])) == 1:
        return _lines(pieces, width)
    rest = _lines(pieces[head:], width - len(_INDENT))
    return [_flat(pieces[:head]), *_indented(rest)]


def _hanging(pieces: Sequence[_Piece], width: int) -> list[str]:
    """Return lines with the contents of long brackets indented between them."""
    done, line = list[str](), ""
    for piece in pieces:
        before = f"{line}{' ' if piece.gap and line else ''}"
        short = len(piece.flat) < _NARROWEST or len(before) + len(piece.flat) <= width
        if isinstance(piece, _Atom) or short:
            line = f"{before}{piece.flat}"
            continue
        done.append(before + piece.opening)
        done += _indented(_lines(piece.inner, width - len(_INDENT)))
        line = piece.closing
    return [*done, line] if line else done


def _indented(lines: Sequence[str]) -> Iterator[str]:
    """Indent lines, except for the continuation of a text constant."""
    return (_INDENT + line for line in lines)


# --- dividing ---


def _cut(pieces: Sequence[_Piece], places: Sequence[int]) -> Parts:
    ends = [0, *(place for place in places if 0 < place < len(pieces)), len(pieces)]
    return [pieces[start:stop] for start, stop in pairwise(ends)]


def _by_clauses(pieces: Sequence[_Piece]) -> Parts:
    """Divide at the words that begin a clause, if this is a query."""
    if not any(piece.flat in ("SELECT", "FROM") for piece in pieces):
        return [pieces]
    return _cut(pieces, [n for n, piece in enumerate(pieces) if piece.flat in _CLAUSES])


def _by_commas(pieces: Sequence[_Piece]) -> Parts:
    return _cut(pieces, [n + 1 for n, piece in enumerate(pieces) if piece.flat == ","])


def _by_joins(pieces: Sequence[_Piece]) -> Parts:
    words = [n for n, piece in enumerate(pieces) if piece.flat in _JOINS and piece.gap]
    return _cut(pieces, [n for n in words if n - 1 not in words])


def _by(operators: frozenset[str]) -> Callable[[Sequence[_Piece]], Parts]:
    def divide(pieces: Sequence[_Piece]) -> Parts:
        return _cut(pieces, [n for n, p in enumerate(pieces) if p.gap and p.flat in operators])

    return divide


_BY_OPERATORS = tuple(map(_by, _OPERATORS))
