"""Completions at the cursor: commands, tables, columns, functions and listed values.

All of them are declared. Nothing is read from data (SECURITY.md S17).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

from dpsql.interfaces.listing import listed_values, visible
from dpsql.model.dataclass import dataclass, field
from dpsql.model.vocabulary import Policy

KEYWORDS = (
    "SELECT FROM WHERE GROUP BY ORDER HAVING LIMIT JOIN LEFT USING ON AND OR NOT IN BETWEEN IS NULL"
    " LIKE AS WITH CASE WHEN THEN ELSE END DISTINCT DESC EXPLAIN PRIVACY DESCRIBE SHOW TABLES"
).split()
_MOST = 200
_LONGEST = 1_000
"""Maximum number of characters before the cursor that are read."""
_WORD = re.compile(r"[\w.\\]*\Z")
_COMPARED = re.compile(r"(\w+)\s*(?:=|<>|!=|\bIN\s*\((?:[^()]*,)?)\s*('[^']*|\w*)\Z", re.IGNORECASE)
_TABLES = re.compile(r"(?:\b(?:FROM|JOIN|DESCRIBE|DESC)|\\d)\s+[\w.]*\Z", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Completable:
    """Names for completion: columns by table, functions, commands, and listed values as SQL.

    The keys of `values` are column names in lower case.
    """

    tables: Mapping[str, Sequence[str]]
    functions: Sequence[str] = ()
    commands: Sequence[str] = ()
    values: Mapping[str, Sequence[str]] = field(default_factory=dict)


def names_of(policy: Policy, functions: Sequence[str]) -> Completable:
    """Return the names that a policy declares."""
    tables = {table.name: [c.name for c in visible(table)] for table in policy.tables}
    named = ((column, value) for _, column, value in listed_values(policy))
    return Completable(tables, functions, values=by_column(named))


def by_column(named: Iterable[tuple[str, str]]) -> dict[str, list[str]]:
    """Return values by column name in lower case, over all tables."""
    values: dict[str, list[str]] = {}
    for column, value in named:
        values.setdefault(column.lower(), []).append(value)
    return values


def completions(names: Completable, before: str) -> Iterator[tuple[str, int]]:
    """Yield continuations of the text `before` the cursor, with the number of replaced
    characters.

    >>> shop = Completable({"orders": ["status", "amount"]}, ["SUM"], values={"status": ["'paid'"]})
    >>> list(completions(shop, "SELECT COUNT(*) FROM or"))
    [('orders', 2)]
    >>> list(completions(shop, "SELECT SU")), list(completions(shop, "… WHERE status = 'p"))
    ([('SUM(', 2)], [("'paid'", 2)])
    """
    before = before[-_LONGEST:]
    compared = _COMPARED.search(before)
    listed = () if compared is None else names.values.get(compared[1].lower(), ())
    if compared is not None and listed:
        yield from _begun(listed, compared[2])
        return
    match = _WORD.search(before)
    word = match[0] if match else ""
    if word.startswith("\\"):
        yield from _begun(names.commands, word)
    elif _TABLES.search(before):
        yield from _begun(names.tables, word)
    elif "." in word:
        table, _, part = word.rpartition(".")
        yield from _begun(names.tables.get(table, ()), part)
    elif word:
        columns = (column for columns in names.tables.values() for column in columns)
        calls = (f"{name}(" for name in names.functions)
        yield from _begun([*columns, *names.tables, *calls, *KEYWORDS], word)


def _begun(candidates: Iterable[str], written: str) -> list[tuple[str, int]]:
    """Return distinct candidates with this prefix, and the length of the prefix."""
    lowered = written.lower()
    begun = dict.fromkeys(c for c in candidates if c.lower().startswith(lowered))
    return [(name, len(written)) for name in list(begun)[:_MOST]]
