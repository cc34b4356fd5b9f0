"""Tables between the server and the catalogue: typed columns, rows and a command tag."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dpsql.model.dataclass import dataclass


@dataclass(frozen=True, slots=True)
class WireColumn:
    """A column for RowDescription: its name, and its type's OID and modifier.

    `errors` marks a column that shows an interval: the value of dpsql.errors that added it.
    """

    name: str
    oid: int
    typmod: int = -1
    errors: str = ""


@dataclass(frozen=True, slots=True)
class WireResult:
    """A table of Python values in column order, and the tag of CommandComplete.

    >>> WireResult((WireColumn("n", 20),), ((1,),), "SELECT 1").rows[0]
    (1,)
    """

    columns: tuple[WireColumn, ...]
    rows: Sequence[tuple[Any, ...]]
    tag: str
