"""CREATE SYNTHETIC TABLE name AS SELECT … OPTIONS(…), read from its words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal

from dpsql.dialects.postgres.words import Word, WordKind, words
from dpsql.model.errors import Reason, Refused
from dpsql.model.query_options import sensible
from dpsql.model.tree import NOWHERE, Span

OPTIONS = ("epsilon", "rows", "keep")
_HEAD = ("create", "synthetic", "table")
_NAMES = (WordKind.NAME, WordKind.QUOTED)


@dataclass(frozen=True, slots=True)
class CreateSynthetic:
    """The name of a table and the SELECT whose rows it resembles; `rows` None: as many as these."""

    name: str
    query: str
    epsilon: Decimal | None = None
    rows: int | None = None
    keep: tuple[tuple[str, str], ...] = ()


def begins(text: str) -> bool:
    """Whether a text may create one, as far as it can be told without its words.

    >>> begins("create synthetic table s as select 1"), begins("SELECT 1")
    (True, False)
    """
    return _HEAD[1] in text.lower()


def creation(text: str) -> CreateSynthetic | None:
    """What is to be created; None where the text begins otherwise. Raises `Refused`.

    >>> creation("CREATE SYNTHETIC TABLE s AS SELECT 1 OPTIONS(epsilon = 0.5, keep = 'a,b')")
    CreateSynthetic(name='s', query='SELECT 1', epsilon=Decimal('0.5'), rows=None, \
keep=(('a', 'b'),))
    """
    every = [word for word in words(text) if word.text != ";"]
    if tuple(word.value for word in every[:3]) != _HEAD:
        return None
    name, body = every[3:4], every[4:]
    if not name or name[0].kind not in _NAMES:
        raise _syntax("a name is expected here", name)
    options: dict[str, str] = {}
    if body and body[0].value == "options":
        end = next((n for n, word in enumerate(body) if word.text == ")"), len(body) - 1)
        options, body = _options(body[1 : end + 1]), body[end + 1 :]
    if not body or body[0].value != "as" or body[0].kind is not WordKind.NAME:
        raise _syntax("AS and a SELECT are expected here", body)
    body = body[1:]
    opening = _options_behind(body)
    if opening is not None:
        options |= _options(body[opening + 1 :])
        body = body[:opening]
    if not body:
        raise _syntax("a SELECT is expected here", body)
    query = text[body[0].start : body[-1].stop]
    return CreateSynthetic(
        name[0].value,
        query,
        epsilon=_epsilon(options.get("epsilon")),
        rows=_rows(options.get("rows")),
        keep=pairs(options.get("keep", "")),
    )


def pairs(text: str) -> tuple[tuple[str, str], ...]:
    """Pairs of columns. Raises `Refused` for what is none.

    >>> pairs("a,b; b,c")
    (('a', 'b'), ('b', 'c'))
    """
    result = []
    for part in filter(str.strip, text.split(";")):
        names = [name.strip() for name in part.split(",")]
        if len(names) != 2 or not all(names):  # noqa: PLR2004
            raise Refused(Reason.BAD_OPTION, option="keep", why="pairs are as in 'a,b;b,c'")
        result.append((names[0], names[1]))
    return tuple(result)


def _options_behind(body: Sequence[Word]) -> int | None:
    """Where the word OPTIONS stands whose parentheses end the text."""
    if not body or body[-1].text != ")":
        return None
    depth = 0
    for place in range(len(body) - 1, 0, -1):
        depth += {")": 1, "(": -1}.get(body[place].text, 0)
        if depth == 0:
            return place - 1 if body[place - 1].value == "options" else None
    return None


def _options(listed: Sequence[Word]) -> dict[str, str]:
    """The options in parentheses, by name."""
    if len(listed) < 2 or listed[0].text != "(" or listed[-1].text != ")":  # noqa: PLR2004
        raise _syntax("OPTIONS are in parentheses", listed)
    inside, result = list(listed[1:-1]), dict[str, str]()
    while inside:
        if len(inside) < 3 or inside[1].text != "=":  # noqa: PLR2004
            raise _syntax("an option is name = value", inside)
        name, _, value, *rest = inside
        if name.value not in OPTIONS or value.kind not in (WordKind.NUMBER, WordKind.STRING):
            known_options = ", ".join(OPTIONS)
            raise Refused(Reason.BAD_OPTION, name.span, option=name.value, known=known_options)
        result[name.value] = value.value
        if rest and (rest[0].text != "," or len(rest) == 1):
            raise _syntax("options are divided by commas", rest)
        inside = rest[1:]
    return result


def _epsilon(text: str | None) -> Decimal | None:
    epsilon = None if text is None else _number(text, "epsilon")
    if epsilon is not None and not sensible(epsilon):
        raise Refused(Reason.BAD_OPTION, option="epsilon", value=text)
    return epsilon


def _rows(text: str | None) -> int | None:
    number = None if text is None else _number(text, "rows")
    if number is not None and (number != int(number) or number < 1):
        raise Refused(Reason.BAD_OPTION, option="rows", value=text)
    return None if number is None else int(number)


def _number(text: str, option: str) -> Decimal:
    try:
        return Decimal(text)
    except ArithmeticError:
        raise Refused(Reason.BAD_OPTION, option=option, value=text) from None


def _syntax(why: str, at: Sequence[Word]) -> Refused:
    span = Span(at[0].start, at[0].stop) if at else NOWHERE
    return Refused(Reason.SYNTAX, span, why=why)
