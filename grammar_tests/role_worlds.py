"""Roles over the worlds of several paths, and what their analysts see, computed from rows alone."""

from __future__ import annotations

from dataclasses import replace

from dpsql.ledgers import LedgerPlace
from dpsql.model.vocabulary import Policy
from dpsql.policy.draft import Draft, DraftGrant, DraftRole, ServerSettings
from dpsql.policy.restrict import restrict_policy
from dpsql.policy.value_reader import Lines
from dpsql.preparation.bound_roles import with_roles
from grammar_tests.laws import PlainEngine
from grammar_tests.path_worlds import TABLES, PathTable, PathWorld

CHAIN = {
    "people": (),
    "visits": ("people",),
    "stays": ("visits", "people"),
    "items": ("stays", "visits", "people"),
    "notes": ("items", "stays", "visits", "people"),
}
"""The tables that each table's link leads to, in order."""
CONDITIONS = {
    "people": "v > 0",
    "visits": "v <> 3",
    "stays": "visits.v > 0 OR v = 10",
    "items": "people.v >= 0",
    "notes": "COALESCE(v, 0) >= 0 AND stays.v IS NOT NULL",
}
V = ("v",)
WHOLE = {table.name: tuple(table.columns) for table in TABLES}


def grants(*, conditions: bool, without: tuple[str, ...] = ()) -> tuple[DraftGrant, ...]:
    """One grant of each table, of all columns but some."""
    return tuple(
        DraftGrant(
            name,
            tuple(c for c in columns if c not in without),
            CONDITIONS[name] if conditions else None,
        )
        for name, columns in WHOLE.items()
    )


ROLES = {
    "rows": (DraftRole("rows", frozenset({"ana"}), grants(conditions=True)),),
    "one table": (
        DraftRole(
            "one table",
            frozenset({"ana"}),
            tuple(g if g.table == "visits" else replace(g, rows=None)
                  for g in grants(conditions=True)),
        ),
    ),
    "the unit's table": (
        DraftRole(
            "the unit's table",
            frozenset({"ana"}),
            tuple(g if g.table == "people" else replace(g, rows=None)
                  for g in grants(conditions=True)),
        ),
    ),
    "two": (
        DraftRole("rows", frozenset({"ana"}), grants(conditions=True)),
        DraftRole(
            "others",
            frozenset({"ana"}),
            tuple(replace(g, rows=None if g.table == "visits" else "v = 3 OR v = -5")
                  for g in grants(conditions=True, without=V)),
        ),
    ),
}  # fmt: skip
"""Roles of one analyst, by what they grant."""


def granted(policy: Policy, name: str) -> Policy:
    """The policy as an analyst with these roles sees it."""
    draft = Draft(
        path="", lines=Lines(""), database=policy.database, unit=policy.unit, tables=(), budgets=(),
        analysts=(), ledger=LedgerPlace(""), limits=policy.limits, server=ServerSettings(),
        roles=ROLES[name],
    )  # fmt: skip
    bound = with_roles(policy, draft)
    return restrict_policy(bound, (tuple(role.name for role in ROLES[name]),))


def seen(there: PathWorld, name: str) -> PlainEngine:
    """The rows as they are read, of somebody, that these roles grant."""
    engine = there.owned().engine(shared=False)
    for table in TABLES:
        engine.rows(f"CREATE TABLE seen_{table.name} AS {_select(table, name)}")
    for table in TABLES:
        engine.rows(f"DROP TABLE {table.name}")
        engine.rows(f"ALTER TABLE seen_{table.name} RENAME TO {table.name}")
    return engine


def _select(table: PathTable, name: str) -> str:
    listed = [g for role in ROLES[name] for g in role.grants or () if g.table == table.name]
    source, behind = f"{table.name}", table
    for target in CHAIN[table.name]:
        there = next(each for each in TABLES if each.name == target)
        assert behind.link is not None
        source += f" JOIN {target} ON {behind.name}.{behind.link[0]} = {target}.{there.key}"
        behind = there
    tests = [_qualified(table, grant.rows or "TRUE") for grant in listed]
    columns = []
    for column in table.columns:
        those = zip(tests, listed, strict=True)
        test = " OR ".join(f"({each})" for each, g in those if column in (g.columns or ()))
        columns.append(f"CASE WHEN {test} THEN {table.name}.{column} END AS {column}")
    whole = " OR ".join(f"({each})" for each in tests)
    return f"SELECT {', '.join(columns)} FROM {source} WHERE {whole}"


def _qualified(table: PathTable, text: str) -> str:
    """The condition, with the table before each name that has none."""
    words = text.replace("(v,", f"({table.name}.v,").split(" ")
    return " ".join(f"{table.name}.v" if word == "v" else word for word in words)
