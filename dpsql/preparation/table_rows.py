"""Rows of a table as an item of FROM, for statements of the owner.

A private view is printed as its own expansion: the engine's view may raise (PRIVACY.md R98).
"""

from __future__ import annotations

from dpsql.model.table_names import address
from dpsql.model.tree import identifier
from dpsql.model.vocabulary import Policy
from dpsql.preparation.engine_kinds import dialects


def rows_of(name: str, policy: Policy) -> str:
    """Return the address of a table, or a subquery with the rows of a private view."""
    table = policy.table(name)
    if table is None or table.rows is None:
        return address(name)
    fields = table.rows.fields
    query = dialects(policy.database).database.query(table.rows, tuple(f.ref for f in fields))
    listed = ", ".join(f"c{n} AS {identifier(f.name)}" for n, f in enumerate(fields))
    return f"(SELECT {listed} FROM ({query}) AS r)"
