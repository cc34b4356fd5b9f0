"""What the server and the catalogue hand to one another: a typed table and its command tag."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dpsql.model.dataclass import dataclass


@dataclass(frozen=True, slots=True)
class WireColumn:
    """A column as RowDescription tells it: its name, its type's OID and modifier; whether it is the
    `margin` of another one.
    """

    name: str
    oid: int
    typmod: int = -1
    margin: bool = False


@dataclass(frozen=True, slots=True)
class WireResult:
    """A table of Python values in column order, and the tag that CommandComplete carries.

    >>> WireResult((WireColumn("n", 20),), ((1,),), "SELECT 1").rows[0]
    (1,)
    """

    columns: tuple[WireColumn, ...]
    rows: Sequence[tuple[Any, ...]]
    tag: str
