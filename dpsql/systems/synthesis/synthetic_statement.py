"""CREATE SYNTHETIC TABLE name AS SELECT … OPTIONS(…), and DROP SYNTHETIC TABLE name, by words."""

from __future__ import annotations

from decimal import Decimal

from dpsql.model.dataclass import dataclass
from dpsql.model.errors import Reason, Refused
from dpsql.preparation import creations

OPTIONS = ("epsilon", "rows", "keep")
_HEAD, _DROP = ("create", "synthetic", "table"), ("drop", "synthetic", "table")


@dataclass(frozen=True, slots=True)
class CreateSynthetic:
    """The name of a table and the SELECT whose rows it resembles; `rows` None: as many as these."""

    name: str
    query: str
    epsilon: Decimal | None = None
    rows: int | None = None
    keep: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class DropSynthetic:
    """The name of a table that is to be forgotten."""

    name: str


def creation(text: str) -> CreateSynthetic | DropSynthetic | None:
    """What is to be made or forgotten; None where the text begins otherwise. Raises `Refused`.

    >>> creation("CREATE SYNTHETIC TABLE s AS SELECT 1 OPTIONS(epsilon = 0.5, keep = 'a,b')")
    CreateSynthetic(name='s', query='SELECT 1', epsilon=Decimal('0.5'), rows=None, \
keep=(('a', 'b'),))
    >>> creation("drop synthetic table s;")
    DropSynthetic(name='s')
    """
    dropped = creations.dropped(text, _DROP)
    if dropped is not None:
        return DropSynthetic(dropped)
    said = creations.creation(text, _HEAD, OPTIONS)
    if said is None:
        return None
    keep = pairs(said.options.get("keep", ""))
    return CreateSynthetic(said.name, said.query, said.epsilon, rows=said.whole("rows"), keep=keep)


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
