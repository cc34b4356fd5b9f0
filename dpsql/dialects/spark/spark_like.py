"""LIKE on Spark, in a time that grows with the text alone.

Spark matches LIKE by a regular expression of Java, which tries all places of each `%` against all
places of the others. So a pattern with two parts that may stand anywhere is printed as searches,
one after the other, if it has no `_`. Others are refused. PRIVACY.md R101 says why no row may make
a statement late.

    >>> print(searches("s", ["a", "b", ""]))
    startswith(s, 'a') AND contains(substring(s, 2), 'b')
"""

from __future__ import annotations

from collections.abc import Sequence

from dpsql.dialects.sized_text import Sized
from dpsql.dialects.spark.spark_constants import constant, lacking
from dpsql.dialects.sql_text import OTHER
from dpsql.model.tree import VARCHAR, Literal

_PLAIN = "~^|#"
_MOST = 3
"""Most parts that may stand anywhere: each doubles the text that the next is searched in."""


def pattern_test(args: tuple[Sized, ...]) -> str | None:
    """Return LIKE with a constant pattern, with the escape character only before allowed
    characters.
    """
    pattern = args[1].literal.value if args[1].literal is not None else None
    escape = args[2].literal.value if args[2:] and args[2].literal is not None else ""
    if not isinstance(pattern, str) or not isinstance(escape, str) or (args[2:] and not escape):
        return None
    parts, own = split_pattern(pattern, escape), escape
    escape = escape or next((c for c in _PLAIN if c not in pattern), "")
    rest = iter(pattern)
    escaped = all(next(rest, "") in ("%", "_", escape) for c in rest if c == escape)
    if len(escape) != 1 or (own and not escaped):
        return None
    if len([part for part in parts[1:] if part != ""]) > 1:
        if None in parts or len([part for part in parts[1:-1] if part]) > _MOST:
            raise lacking("LIKE with several parts that may stand anywhere, and _ or many of them")
        return f"({searches(args[0].operand(OTHER), [part or '' for part in parts])})"
    shown = constant(Literal(escape, VARCHAR)) if escape not in _PLAIN else f"'{escape}'"
    if not shown.startswith("'"):
        return None
    return f"{args[0].operand(OTHER)} LIKE {args[1].operand(OTHER)} ESCAPE {shown}"


def split_pattern(pattern: str, escape: str) -> list[str | None]:
    """Return the texts between the `%` of a pattern; None for one with a `_`.

    >>> split_pattern("a%b_%~%", "~")
    ['a', None, '%']
    """
    letters, parts = iter(pattern), [""]
    wild = set[int]()
    for letter in letters:
        if letter == "%":
            parts.append("")
            continue
        if letter == "_":
            wild.add(len(parts) - 1)
        parts[-1] += next(letters, "") if letter == escape else letter
    return [None if n in wild else part for n, part in enumerate(parts)]


def searches(text: str, parts: Sequence[str]) -> str:
    """Return the test whether a text has these parts in this order: the first at its start, and the
    last at its end.
    """
    first, *anywhere, last = parts
    tests = []
    if first:
        tests.append(f"startswith({text}, {_literal(first)})")
        text = f"substring({text}, {len(first) + 1})"
    for part in filter(None, anywhere):
        tests.append(f"contains({text}, {_literal(part)})")
        text = f"substring({text}, instr({text}, {_literal(part)}) + {len(part)})"
    if last:
        tests.append(f"endswith({text}, {_literal(last)})")
    return " AND ".join(tests)


def _literal(text: str) -> str:
    return constant(Literal(text, VARCHAR))
