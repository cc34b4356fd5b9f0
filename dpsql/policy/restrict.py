"""Policies as one analyst sees them: tables and columns without a grant do not exist.

Proof (PRIVACY.md R105). Proofs read the whole tables `beneath`; names are resolved among the rest.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeAlias

from dpsql.model.dataclass import replace
from dpsql.model.delegation import Chain
from dpsql.model.rights import Grant, RowCondition
from dpsql.model.tree import Call
from dpsql.model.vocabulary import GroupingLimit, Link, Policy, TablePolicy

Roles: TypeAlias = tuple[tuple[str, ...], ...]
"""Names of roles: of a person, then of each delegation. What counts is granted by all of these."""


def roles_of(policy: Policy, analyst: str, chain: Chain = ()) -> Roles | None:
    """Return the names of an analyst's roles; None where the policy has no roles.

    An agent has those of its person, and no more than those of each delegation (PRIVACY.md R112).
    """
    if not policy.roles and not any(each.roles for each in chain):
        return None
    person = chain[-1].delegator if chain else analyst
    own = tuple(role.name for role in policy.roles if person in role.analysts)
    return (own, *(each.roles for each in reversed(chain) if each.roles))


def rows_granted(policy: Policy, analyst: str, chain: Chain = ()) -> str:
    """Return which rows an analyst's roles grant, as one text; empty if they are all rows."""
    grants = _grants(policy, roles_of(policy, analyst, chain) or ())
    limited = {grant.table for grant in grants if grant.rows is not None}
    return _texts(grant for grant in grants if grant.table in limited) if limited else ""


def rights_of(policy: Policy, analyst: str) -> str:
    """Return all that an analyst's roles grant, as one text; empty where the policy has no roles.

    What was kept for an analyst with other rights is not this analyst's (PRIVACY.md R105).
    """
    roles = roles_of(policy, analyst)
    return "" if roles is None else _texts(_grants(policy, roles))


def is_granted_as_much(policy: Policy, analyst: str, roles: Roles | None) -> bool:
    """Test whether roles grant all that another analyst's roles grant (None: all is granted)."""
    if roles is None:
        return True
    theirs = roles_of(policy, analyst)
    if theirs is None or policy.budget_of(analyst) is None:
        return False
    own = _grants(policy, roles)
    return all(any(_is_part(each, of) for of in own) for each in _grants(policy, theirs))


def _is_part(grant: Grant, of: Grant) -> bool:
    rows = of.rows is None or of.rows == grant.rows
    return grant.table == of.table and grant.columns <= of.columns and rows


def _texts(grants: Iterable[Grant]) -> str:
    return repr(sorted((g.table, sorted(g.columns), g.rows.text if g.rows else "") for g in grants))


def restrict_policy(policy: Policy, names: Roles | None) -> Policy:
    """Return the policy as analysts with these roles see it; None means that all is granted."""
    if names is None:
        return policy
    granted, shown = _grants(policy, names), list[TablePolicy]()
    for table in policy.tables:
        grants = tuple(g for g in granted if g.table == table.name)
        if grants:
            shown.append(_granted(table, grants))
    tables = {table.name: table for table in shown}
    whole = policy.beneath or policy.tables
    listed = tuple(_without_links(table, tables) for table in shown)
    return replace(policy, tables=listed, beneath=whole, roles=())


def restrict_to(policy: Policy, analyst: str, chain: Chain = ()) -> Policy:
    """Return the policy as one analyst sees it."""
    return restrict_policy(policy, roles_of(policy, analyst, chain))


def _grants(policy: Policy, names: Roles) -> list[Grant]:
    """Return the grants that some role of each level has in common."""
    levels = [[g for r in policy.roles if r.name in of for g in r.grants] for of in names]
    common = levels[0] if levels else []
    for level in levels[1:]:
        pairs = ((a, b) for a in common for b in level if a.table == b.table)
        common = list(dict.fromkeys(_in_both(a, b) for a, b in pairs if a.columns & b.columns))
    return common


def _in_both(a: Grant, b: Grant) -> Grant:
    """Return the columns and the rows that two grants of one table have in common."""
    rows = a.rows or b.rows
    if a.rows is not None and b.rows is not None and a.rows != b.rows:
        text = f"({a.rows.text}) AND ({b.rows.text})"
        both = Call("and", (a.rows.expression, b.rows.expression))
        rows = RowCondition(text, both, max(a.rows.links, b.rows.links))
    return Grant(a.table, a.columns & b.columns, rows)


def _granted(table: TablePolicy, grants: tuple[Grant, ...]) -> TablePolicy:
    """Return the table with the columns that some grant has, and its grants if they limit rows."""
    columns = frozenset[str]().union(*(grant.columns for grant in grants))
    columns_left = tuple(c for c in table.columns if not c.hidden and c.name.lower() in columns)
    limited = any(grant.rows is not None for grant in grants)
    return replace(table, columns=columns_left, grants=grants if limited else ())


def _without_links(table: TablePolicy, tables: dict[str, TablePolicy]) -> TablePolicy:
    """Return the table without keys, links and limits that name what is not granted."""

    def has_columns(names: tuple[str, ...]) -> bool:
        return all(table.column(name) is not None for name in names)

    def is_shown(link: Link) -> bool:
        there = tables.get(link.table)
        return has_columns(link.columns) and there is not None and all(map(there.column, link.keys))

    def limits(listed: tuple[GroupingLimit, ...]) -> tuple[GroupingLimit, ...]:
        return tuple(limit for limit in listed if has_columns((limit.by,)))

    return replace(
        table,
        key=table.key if has_columns(table.key) else (),
        link=table.link if table.link is not None and is_shown(table.link) else None,
        several=tuple(filter(is_shown, table.several)),
        unprotected=tuple(link for link in table.unprotected if has_columns(link.columns)),
        same_unit=tuple(filter(is_shown, table.same_unit)),
        second_keys=(),
        determining=tuple(filter(has_columns, table.determining)),
        max_rows_per_key=tuple(each for each in table.max_rows_per_key if has_columns(each[:1])),
        groups_by=limits(table.groups_by),
        rows_by=limits(table.rows_by),
    )
