"""Names of tables in any schema: in policies, in SQL, and in analysts' queries.

A table of the first schema has its name alone. Analysts may call that schema main, as DuckDB does,
or public, as PostgreSQL does. A table of another schema is called `schema.table`. A part with a dot
in it is in double quotes.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from difflib import get_close_matches

from dpsql.model.errors import Reason, Refused
from dpsql.model.tree import Span, identifier

DATABASE = "dpsql"
"""Name of the only database for clients; the first of three parts."""

FIRST = ("public", "main")
"""Names of the first schema in PostgreSQL and DuckDB; clients see its tables in the first
of these.
"""

SEARCH_PATH = (FIRST[0],)

STAGE = "dpsql_stage_"
"""Prefix of the names of stages, which are temporary tables: no table of the owner may have it."""
WITHIN = frozenset("rows totals norms clipped bounded beyond above kept".split())
"""Names of subqueries in our statements: an owner's table of such a name is written with its
schema.
"""

_PART = r'("(?:[^"]|"")+"|[^".][^.]*)'
_NAME = re.compile(rf"(?:{_PART}\.)?{_PART}", re.DOTALL)
_LONGEST, _MOST = 64, 2_000
"""Limits of the search for similar names: characters of a name, and number of names."""
_BEGINNING, _ALIKE = 4, 0.7
"""Fewest characters that a longer name may begin with, and the least similarity of two names."""


def parts(name: str) -> tuple[str | None, str] | None:
    """Split a name of a policy into schema (None for the first) and table; None if it is no name.

    >>> parts("orders"), parts("analytics.users"), parts('"a.b"'), parts("a.b.c")
    ((None, 'orders'), ('analytics', 'users'), (None, 'a.b'), None)
    """
    match = _NAME.fullmatch(name)
    if match is None:
        return None
    schema, table = (
        part[1:-1].replace('""', '"') if part and part.startswith('"') else part
        for part in match.groups()
    )
    assert table is not None
    return schema, table


def full_name(schema: str | None, table: str) -> str:
    """Return the policy's name of a table.

    >>> full_name("main", "orders"), full_name("analytics", "users"), full_name(None, "a.b")
    ('orders', 'analytics.users', '"a.b"')
    """
    named = [table] if schema in (None, "main") else [str(schema), table]
    return ".".join(identifier(p) if "." in p or p.startswith('"') else p for p in named)


def address(name: str) -> str:
    """Return the table's name in a statement, every part in quotes.

    >>> address("orders"), address("analytics.users")
    ('"orders"', '"analytics"."users"')
    """
    schema, table = parts(name) or (None, name)
    return identifier(table) if schema is None else f"{identifier(schema)}.{identifier(table)}"


def shown(name: str) -> tuple[str, str]:
    """Return schema and table as clients see them.

    >>> shown("orders"), shown("analytics.users")
    (('public', 'orders'), ('analytics', 'users'))
    """
    schema, table = parts(name) or (None, name)
    return schema or FIRST[0], table


def candidates(written: tuple[str, ...], path: tuple[str, ...] = SEARCH_PATH) -> list[str]:
    """List the policy's names, in lower case, that a name of up to three parts may mean, in order.

    >>> candidates(("dpsql", "public", "Orders")), candidates(("users",), ("analytics", "public"))
    (['public.orders', 'orders'], ['analytics.users', 'public.users', 'users'])
    """
    *schemas, table = (part.lower() for part in written)
    if schemas and schemas[0] == DATABASE and len(schemas) > 1:
        del schemas[0]
    if len(schemas) > 1:
        return []
    names = list[str]()
    for schema in schemas or [s.lower() for s in path]:
        names.append(full_name(schema, table))
        if schema in (*FIRST, *([DATABASE] if schemas else [])):
            names.append(full_name(None, table))
    return list(dict.fromkeys(names))


def nearest(name: str, existing: Iterable[str]) -> str | None:
    """Return the existing name that begins with this one, or has the most similar spelling.

    >>> nearest("sales", ["sales_value", "store_id"]), nearest("x", ["sales_value"])
    ('sales_value', None)
    >>> nearest("max_groups", ["max_public_groups", "max_groups_per_unit"])
    'max_groups_per_unit'
    """
    if len(name) > _LONGEST:
        return None
    spelled = {each.lower(): each for each, _ in zip(existing, range(_MOST), strict=False)}
    short = [n for n in spelled if len(n) <= _LONGEST]
    longer = [n for n in short if n.startswith(name.lower())] if len(name) >= _BEGINNING else []
    alike = _ALIKE if len(name) > _BEGINNING else 0.6  # two letters of "aeg" changed places
    near = longer or get_close_matches(name.lower(), short, 1, alike)
    return spelled[near[0]] if near else None


def unknown_name(role: str, name: str | None, existing: Sequence[str]) -> Refused:
    """Return the refusal of an unknown analyst, budget or user (None: no name was given).

    >>> unknown_name("analyst", "anna", ["ana", "bob"]).facts["near"]
    'ana'
    """
    near = nearest(name, existing) if isinstance(name, str) else None  # Python may pass anything
    facts = {"role": role, "name": name, "near": near, "known": tuple(existing)}
    facts |= {"analysts": tuple(existing)} if name is None and role == "analyst" else {}
    return Refused(Reason.UNKNOWN_NAME, **facts)


def unknown_option(name: str, existing: Iterable[str], span: Span) -> Refused:
    """Return the refusal of an unknown option."""
    options = tuple(existing)
    near = nearest(name, options)
    return Refused(Reason.BAD_OPTION, span, unknown=name, near=near, known=options)
