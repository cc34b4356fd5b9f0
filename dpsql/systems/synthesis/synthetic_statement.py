"""CREATE SYNTHETIC TABLE name AS SELECT … OPTIONS(…), and DROP SYNTHETIC TABLE name."""

from __future__ import annotations

from decimal import Decimal

from dpsql.dialects.statements.creations import Drop, SystemStatement
from dpsql.model.dataclass import dataclass
from dpsql.model.errors import Reason, Refused


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


def synthetic_statement(said: SystemStatement) -> CreateSynthetic | DropSynthetic:
    """Return the statement on a synthetic table. Raises `Refused` for options that do not fit.

    >>> synthetic_statement(Drop("synthetic table", "s"))
    DropSynthetic(name='s')
    """
    if isinstance(said, Drop):
        return DropSynthetic(said.name)
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
