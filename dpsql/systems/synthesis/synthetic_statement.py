"""CREATE SYNTHETIC TABLE name AS SELECT … OPTIONS(…), and DROP SYNTHETIC TABLE name, parsed."""

from __future__ import annotations

from decimal import Decimal

from dpsql.model.dataclass import dataclass
from dpsql.model.errors import Reason, Refused
from dpsql.preparation import creations

OPTIONS = ("epsilon", "rows", "keep")
_HEAD, _DROP = ("create", "synthetic", "table"), ("drop", "synthetic", "table")


@dataclass(frozen=True, slots=True)
class CreateSynthetic:
    """A CREATE SYNTHETIC TABLE statement. `rows` None stands for the noisy number of rows."""

    name: str
    query: str
    epsilon: Decimal | None = None
    rows: int | None = None
    keep: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class DropSynthetic:
    """A DROP SYNTHETIC TABLE statement: the name of the table."""

    name: str


def creation(text: str) -> CreateSynthetic | DropSynthetic | None:
    """Parse a statement on synthetic tables; None if the text is another one. Raises `Refused`.

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
    """Parse pairs of columns. Raises `Refused` if the text is invalid.

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
