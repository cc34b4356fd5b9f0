"""Roles: the tables, columns and rows that the owner grants to analysts (PRIVACY.md R105)."""

from __future__ import annotations

from dpsql.model.dataclass import dataclass
from dpsql.model.tree import Expression


@dataclass(frozen=True, slots=True)
class RowCondition:
    """A condition on the rows of a table: `text` as written, and its `expression`.

    Its names are qualified by `row_alias(n)`: 0 is the table's own row, n the row that the first n
    links lead to.
    """

    text: str
    expression: Expression
    links: int = 0


def row_alias(number: int) -> str:
    """Return the qualifier of names in a `RowCondition`, after some links.

    >>> row_alias(0)
    'row 0'
    """
    return f"row {number}"


@dataclass(frozen=True, slots=True)
class Grant:
    """Columns of one table, in lower case, on the rows that meet a condition (None: on all)."""

    table: str
    columns: frozenset[str]
    rows: RowCondition | None = None


@dataclass(frozen=True, slots=True)
class Role:
    """Grants to analysts. A table without a grant does not exist for them."""

    name: str
    analysts: frozenset[str]
    grants: tuple[Grant, ...]
