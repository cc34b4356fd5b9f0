"""The file of a release: SELECTs, each below a comment with the name of its table."""

from __future__ import annotations

import re

from dpsql.dialects.postgres.words import pieces
from dpsql.model.dataclass import dataclass

_TITLE = re.compile(r"^\s*--\s*name:\s*(.*?)\s*$", re.MULTILINE | re.IGNORECASE)
_NAME = re.compile(r"[a-z][a-z0-9_]{0,59}")


@dataclass(frozen=True, slots=True)
class NamedStatement:
    """A SELECT, and the name of the table that it fills."""

    name: str
    sql: str


def read_statements(text: str) -> tuple[NamedStatement, ...]:
    r"""Return the statements of a release file. One without a name is called table_1, table_2, ….

    Raises ValueError for bad or repeated names, and for a file without statements. Raises `Refused`
    for a text that has no end.

    >>> read_statements("-- name: births\nSELECT 1; SELECT 2")[0]
    NamedStatement(name='births', sql='SELECT 1')
    """
    named: list[NamedStatement] = []
    for number, piece in enumerate(pieces(text), 1):
        titles = _TITLE.findall(piece.remark)
        name = titles[-1] if titles else f"table_{number}"
        if _NAME.fullmatch(name) is None:
            raise ValueError(
                f"The name of statement {number} is not usable: "
                "write -- name: with small letters, digits and _, at most 60."
            )
        if name in {each.name for each in named}:
            raise ValueError(f"Statement {number} has the name of an earlier one: {name}.")
        named.append(NamedStatement(name, piece.text))
    if not named:
        raise ValueError("There is no statement.")
    return tuple(named)
