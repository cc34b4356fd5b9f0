"""Costs of charged queries by the tables and columns that their texts name."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import fields, is_dataclass
from typing import Any

from dpsql.dialects.reading.parse import parse
from dpsql.ledgers import Entry
from dpsql.model import tree
from dpsql.model.dataclass import dataclass, field
from dpsql.model.errors import Refused
from dpsql.model.vocabulary import Loss, Policy

UNREAD = "other statements"
"""Name for texts that no longer read as a query of the policy's tables: models, cubes, and more."""


@dataclass(frozen=True, slots=True)
class SourceCosts:
    """Number of queries and loss, by accountant and name. A query counts in full for each name."""

    queries: dict[tuple[str, str], int] = field(default_factory=lambda: defaultdict(int))
    losses: dict[tuple[str, str], Loss] = field(
        default_factory=lambda: defaultdict(lambda: Loss(0))
    )

    def add(self, entry: Entry, name: str) -> None:
        """Count one query under a name."""
        key = entry.accountant, name
        self.queries[key] += 1
        self.losses[key] += entry.loss

    def largest(self) -> list[tuple[str, str, int, Loss]]:
        """Return (accountant, name, queries, loss), the largest loss of each accountant first."""
        order = sorted(self.losses, key=lambda key: (key[0], -self.losses[key].amount, key[1]))
        return [(*key, self.queries[key], self.losses[key]) for key in order]


def costs_by_source(entries: Sequence[Entry], policy: Policy) -> tuple[SourceCosts, SourceCosts]:
    """Return the costs by table and by column (with its table) of the private tables.

    The names are those of the recorded text, matched with the present policy. A text that is cut or
    no query counts as `UNREAD`.
    """
    private = {
        table.name.lower(): {column.name.lower() for column in table.columns}
        for table in policy.tables
        if table.private
    }
    tables, columns = SourceCosts(), SourceCosts()
    for entry in entries:
        named = set(_names(entry.inquiry.sql))
        read = sorted(name for kind, name in named if kind == "table" and name in private)
        for name in read or [UNREAD]:
            tables.add(entry, name)
        used = {name for kind, name in named if kind == "column"}
        for column in sorted(
            {f"{table}.{name}" for table in read for name in used & private[table]}
        ):
            columns.add(entry, column)
    return tables, columns


def _names(text: str) -> Iterator[tuple[str, str]]:
    """Yield the kind and the name of each table and column that a text names."""
    try:
        statement = parse(text)
    except Refused:
        return
    for node in _nodes(statement.query):
        match node:
            case tree.TableName(name=name):
                yield "table", name.lower()
            case tree.Name(name=name):
                yield "column", name.lower()
            case _:
                pass


def _nodes(value: Any) -> Iterator[Any]:
    """Yield all nodes of a tree."""
    if isinstance(value, tuple):
        for each in value:
            yield from _nodes(each)
    elif is_dataclass(value):
        yield value
        for each in fields(value):
            yield from _nodes(getattr(value, each.name))
