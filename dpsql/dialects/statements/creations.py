"""Parser of CREATE … name AS SELECT … OPTIONS(…) and DROP … name, for objects with names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import TypeAlias

from dpsql.dialects.postgres.words import Word, WordKind
from dpsql.dialects.statements.statement_reader import WordReader
from dpsql.model.dataclass import dataclass
from dpsql.model.errors import Reason, Refused
from dpsql.model.query_options import sensible
from dpsql.model.tree import NOWHERE, Span

NAMES = (WordKind.NAME, WordKind.QUOTED)
"""Kinds of words that may be names."""


@dataclass(frozen=True, slots=True)
class Creation:
    """The name of an object, the SELECT that it is created from, and its options as written.

    Kinds of objects are listed in `dpsql.model.system_table`.
    """

    kind: str
    name: str
    query: str
    options: Mapping[str, str]

    @property
    def epsilon(self) -> Decimal | None:
        """Limit on its price. Raises `Refused` if it is not a positive, finite number."""
        text = self.options.get("epsilon")
        epsilon = None if text is None else _number(text, "epsilon")
        if epsilon is not None and not sensible(epsilon):
            raise Refused(Reason.BAD_OPTION, option="epsilon", value=text)
        return epsilon

    def number(self, option: str) -> Decimal | None:
        """Return a number, None if it is absent. Raises `Refused` if it is not one."""
        text = self.options.get(option)
        number = None if text is None else _number(text, option)
        if number is not None and not number.is_finite():
            raise Refused(Reason.BAD_OPTION, option=option, value=text)
        return number

    def whole(self, option: str) -> int | None:
        """Return a positive integer, None if it is absent. Raises `Refused` if it is not one."""
        number = self.number(option)
        if number is not None and (number != int(number) or number < 1):
            raise Refused(Reason.BAD_OPTION, option=option, value=number)
        return None if number is None else int(number)


@dataclass(frozen=True, slots=True)
class Drop:
    """The name of an object that is forgotten."""

    kind: str
    name: str


SystemStatement: TypeAlias = Creation | Drop
"""Statement of a side system."""


def read_drop(kind: str, reader: WordReader) -> Drop:
    """Read the rest of DROP KIND name. Raises `Refused`."""
    _, every = reader.remaining()
    name, more = every[:1], every[1:]
    if not name or name[0].kind not in NAMES or more:
        raise syntax("one name is expected here", more or name)
    return Drop(kind, name[0].value)


def read_creation(kind: str, allowed: tuple[str, ...], reader: WordReader) -> Creation:
    """Read the rest of CREATE KIND name AS SELECT …, with `allowed` options. Raises `Refused`.

    Options stand after the name or after the SELECT.
    """
    text, every = reader.remaining()
    name, body = every[:1], every[1:]
    if not name or name[0].kind not in NAMES:
        raise syntax("a name is expected here", name)
    options: dict[str, str] = {}
    if body and body[0].value == "options":
        end = next((n for n, word in enumerate(body) if word.text == ")"), len(body) - 1)
        options, body = _options(body[1 : end + 1], allowed), body[end + 1 :]
    if not body or body[0].value != "as" or body[0].kind is not WordKind.NAME:
        raise syntax("AS and a SELECT are expected here", body)
    body = body[1:]
    opening = _options_behind(body)
    if opening is not None:
        options |= _options(body[opening + 1 :], allowed)
        body = body[:opening]
    if not body:
        raise syntax("a SELECT is expected here", body)
    return Creation(kind, name[0].value, text[body[0].start : body[-1].stop], options)


def syntax(why: str, at: Sequence[Word]) -> Refused:
    """Return a refusal of misplaced words."""
    span = Span(at[0].start, at[0].stop) if at else NOWHERE
    return Refused(Reason.SYNTAX, span, why=why)


def _options_behind(body: Sequence[Word]) -> int | None:
    """Return the place of the word OPTIONS if its parentheses end the text, else None."""
    if not body or body[-1].text != ")":
        return None
    depth = 0
    for place in range(len(body) - 1, 0, -1):
        depth += {")": 1, "(": -1}.get(body[place].text, 0)
        if depth == 0:
            return place - 1 if body[place - 1].value == "options" else None
    return None


def _options(listed: Sequence[Word], allowed: tuple[str, ...]) -> dict[str, str]:
    """Return the options in parentheses, by name."""
    if len(listed) < 2 or listed[0].text != "(" or listed[-1].text != ")":  # noqa: PLR2004
        raise syntax("OPTIONS are in parentheses", listed)
    inside, result = list(listed[1:-1]), dict[str, str]()
    while inside:
        if len(inside) < 3 or inside[1].text != "=":  # noqa: PLR2004
            raise syntax("an option is name = value", inside)
        name, _, value, *rest = inside
        if name.value not in allowed or value.kind not in (WordKind.NUMBER, WordKind.STRING):
            raise Refused(Reason.BAD_OPTION, name.span, option=name.value, known=", ".join(allowed))
        result[name.value] = value.value
        if rest and (rest[0].text != "," or len(rest) == 1):
            raise syntax("options are divided by commas", rest)
        inside = rest[1:]
    return result


def _number(text: str, option: str) -> Decimal:
    try:
        return Decimal(text)
    except ArithmeticError:
        raise Refused(Reason.BAD_OPTION, option=option, value=text) from None
