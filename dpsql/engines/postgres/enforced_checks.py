"""Facts about single columns that PostgreSQL's CHECK constraints prove.

No stored row makes a constraint false, and one false part makes a conjunction false, even if other
parts are NULL. So every part that compares one column with constants holds for all values that are
not NULL. Other parts prove nothing. Constraints are printed with pg_catalog alone on the search
path: an operator or function of another schema has that schema's name.

SECURITY.md S25.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from fractions import Fraction

_COLUMN = r'(?P<column>\w+|"(?:[^"]|"")+")'
_TEXT = rf"(?:{_COLUMN}|\({_COLUMN.replace('column', 'cast')}\)::text)"
_NUMBER = (
    r"\(*'?(?P<number>-?\d+(?:\.\d+)?)'?(?P<type>::(?:integer|bigint|smallint|numeric))?\)*"
    r"(?P<wide>::(?:numeric|double precision))?"
)
_COMPARED = re.compile(rf"{_COLUMN} (?P<sign>>=|>|<=|<) {_NUMBER}")
_TURNED = re.compile(rf"{_NUMBER} (?P<sign>>=|>|<=|<) {_COLUMN}")
_VALUE = r"'(?:[^']|'')*'::(?:text|character varying)"
_LISTED = re.compile(
    rf"{_TEXT} = ANY \(+ARRAY\[(?P<values>{_VALUE}(?:, {_VALUE})*)\](?:\)::text\[\])?\)"
)
_QUOTED = re.compile(r"'(?:[^']|'')*'")
_LENGTH = re.compile(rf"(?:char_)?length\({_TEXT}\) <= (?P<most>\d+)")
_SIZED = re.compile(r"character(?: varying)?\((\d+)\)")
_WORD = re.compile(r"""'(?:[^']|'')*'|"(?:[^"]|"")*"|[()]| AND """)
_WHOLE = re.compile(r"-?\d+")
_LEAST = {">=": ">=", ">": ">=", "<=": "<=", "<": "<="}
_TURN = {">=": "<=", "<=": ">="}


def proved(definitions: Iterable[str], types: Mapping[str, str]) -> tuple[str, ...]:
    """Return the facts that constraints and lengths in types prove, as `SchemaTable.checks`.

    `types` are PostgreSQL's, by column.

    >>> proved(["CHECK ((a >= 1))", "CHECK (((a < 9) AND (b <> a)))"], {"a": "integer"})
    ('CHECK(("a" BETWEEN 1 AND 9))',)
    >>> print(*proved(["CHECK ((a = ANY (ARRAY['x'::text, 'it''s'::text])))"], {"a": "text"}))
    CHECK(("a" IN ('x', 'it''s')))
    >>> proved(["CHECK (((a >= 1) OR (a <= 9)))"], {"a": "character varying(9)"})
    ('CHECK((length("a") <= 9))',)
    """
    ends: dict[str, dict[str, str]] = {}
    facts = [
        f'CHECK((length("{column}") <= {size[1]}))'
        for column, kind in types.items()
        if (size := _SIZED.fullmatch(kind))
    ]
    for part in (p for d in definitions for p in _parts(d.removeprefix("CHECK "))):
        if (end := _end(part, types)) is not None:
            column, sign, number = end
            ends.setdefault(column, {}).setdefault(sign, number)
        else:
            facts += _of_text(part, types)
    both = ((column, signs) for column, signs in ends.items() if len(signs) == len(_TURN))
    facts += [f'CHECK(("{c}" BETWEEN {s[">="]} AND {s["<="]}))' for c, s in both]
    return tuple(facts)


def _parts(text: str) -> Iterator[str]:
    """Yield the parts of a conjunction, without the parentheses around them."""
    inner = _inside(text)
    if inner is None:
        yield text
        return
    depth, begin, cuts = 0, 0, list[str]()
    for word in _WORD.finditer(inner):
        depth += {"(": 1, ")": -1}.get(word[0], 0)
        if word[0] == " AND " and depth == 0:
            cuts.append(inner[begin : word.start()])
            begin = word.end()
    if not cuts and _inside(inner) is None:
        yield inner
        return
    for part in (*cuts, inner[begin:]):
        yield from _parts(part)


def _inside(text: str) -> str | None:
    """Return the text inside the parentheses around a whole text; None if there are none."""
    if not text.startswith("("):
        return None
    depth = 0
    for word in _WORD.finditer(text):
        depth += {"(": 1, ")": -1}.get(word[0], 0)
        if depth == 0 and word[0] == ")":
            return text[1:-1] if word.end() == len(text) else None
    return None


def _end(part: str, types: Mapping[str, str]) -> tuple[str, str, str] | None:
    """Return the column, the sign and the number of a bound on its values; None if it is no
    bound.
    """
    match = _COMPARED.fullmatch(part) or _TURNED.fullmatch(part)
    if match is None or (column := _name(match["column"])) not in types:
        return None
    exact = not (match["type"] and match["type"] != "::numeric")
    if not exact and not _WHOLE.fullmatch(match["number"]):
        return None  # a cast that rounds
    value = Fraction(match["number"])
    if match["wide"] == "::double precision" and Fraction(float(value)) != value:
        return None
    sign = _LEAST[match["sign"]]
    return column, sign if part.startswith(match["column"]) else _TURN[sign], match["number"]


def _of_text(part: str, types: Mapping[str, str]) -> Iterator[str]:
    match = _LISTED.fullmatch(part) or _LENGTH.fullmatch(part)
    if match is None:
        return
    column = _name(match["column"] or match["cast"])
    # For other types than text, functions of any schema may compare or measure the values.
    expected = "text" if match["column"] else "character varying"
    if types.get(column, "").partition("(")[0] != expected:
        return
    if match.re is _LENGTH:
        yield f'CHECK((length("{column}") <= {match["most"]}))'
    else:
        values = ", ".join(_QUOTED.findall(match["values"]))
        yield f'CHECK(("{column}" IN ({values})))'


def _name(word: str) -> str:
    return word[1:-1].replace('""', '"') if word.startswith('"') else word
