"""Version of a plan: what the policy says of the tables and columns that the plan reads.

A question with this version has the same integers under two policies, so that its paid answer is
repeated (PRIVACY.md R69). What a plan does not read may change.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from hashlib import sha256
from operator import attrgetter

from dpsql.model.dataclass import replace
from dpsql.model.file_formats import FileFormat
from dpsql.model.resources import LONGEST_TEXT
from dpsql.model.vocabulary import Policy, TablePolicy

BY_PLAN = "by plan"
"""Version of the policy in the charge of a question that has the version of its plan."""
_UNUSED = frozenset("columns expected_rows view grants rows about".split())
_SINCE = frozenset(["max_rows_per_key"])
"""Fields that count only if the policy sets them: earlier versions lack them."""
NAMES = tuple(each.name for each in fields(TablePolicy) if each.name not in _UNUSED)
"""Fields of a table that are written as they are; others decide no integer, or are written apart.
"""


def plan_version(policy: Policy, read: Mapping[str, frozenset[str] | None]) -> str:
    """Return the sha256 (hex) of the unit, and of the tables and columns that a plan reads.

    `read` has columns in lower case by table (None: all of them). Tables that links lead to from
    there count too, and the data version of each charged period that was refreshed (PRIVACY.md
    R103).
    """
    parts = [repr(policy.unit), *([str(policy.data)] if policy.moves else [])]
    tables = sorted(_with_targets(policy, list(read)), key=attrgetter("name"))
    parts += [_table(table, read.get(table.name, frozenset())) for table in tables]
    longest = policy.limits.max_text_length
    parts += [f"texts of {longest}"] if longest != LONGEST_TEXT else []
    parts += [] if policy.period is None else policy.period.versions_of(policy.charged)
    of = policy.database if policy.database.public is None else policy.database.public
    names = {table.name for table in tables}
    used = {each for each in (*policy.database.formats, *of.formats) if each[0] in names}
    parts += [repr(each) for each in sorted(used) if each[1] != FileFormat()]
    return sha256("\n".join(parts).encode()).hexdigest()


def _with_targets(policy: Policy, names: list[str]) -> list[TablePolicy]:
    """Return the tables with these names, and all that links lead to from there."""
    tables = dict[str, TablePolicy]()
    while names:
        table = policy.table(names.pop())
        if table is None or table.name in tables:
            continue
        tables[table.name] = table
        links = (table.link, *table.several, *table.unprotected, *table.same_unit)
        names += [link.table for link in links if link is not None]
    return list(tables.values())


def _table(table: TablePolicy, read: frozenset[str] | None) -> str:
    """Return what a policy says of a table and of the columns that are read (None: of all)."""
    links = (table.link, *table.several, *table.unprotected, *table.same_unit)
    names = {name.lower() for link in links if link is not None for name in link.columns}
    names |= {name.lower() for columns in (table.key, *table.determining) for name in columns}
    names |= {name.lower() for name, _ in table.max_rows_per_key}
    used = (c for c in table.columns if read is None or c.name.lower() in names | read)
    columns = sorted(used, key=attrgetter("name"))
    said = {name: getattr(table, name) for name in NAMES}
    said = {name: value for name, value in said.items() if name not in _SINCE or value}
    each = [
        repr((replace(c, hidden=False), (c.max_per_unit, c.max_length, c.reading, c.randomized)))
        for c in columns
    ]
    return repr((sorted(said.items()), repr(table.rows), each))
