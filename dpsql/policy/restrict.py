"""Policies as one analyst sees them: tables and columns without a grant do not exist.

Proof (PRIVACY.md R105). Proofs read the whole tables `beneath`; names are resolved among the rest.
"""

from __future__ import annotations

from dpsql.model.dataclass import replace
from dpsql.model.rights import Grant
from dpsql.model.vocabulary import GroupingLimit, Link, Policy, TablePolicy


def roles_of(policy: Policy, analyst: str) -> tuple[str, ...] | None:
    """Return the names of an analyst's roles; None where the policy has no roles."""
    if not policy.roles:
        return None
    return tuple(role.name for role in policy.roles if analyst in role.analysts)


def rows_granted(policy: Policy, analyst: str) -> str:
    """Return which rows an analyst's roles grant, as one text; empty if they are all rows."""
    grants = [g for role in policy.roles if analyst in role.analysts for g in role.grants]
    limited = {grant.table for grant in grants if grant.rows is not None}
    texts = [(g.table, sorted(g.columns), g.rows.text if g.rows else "") for g in grants]
    return repr(sorted(text for text in texts if text[0] in limited)) if limited else ""


def restrict_policy(policy: Policy, names: tuple[str, ...] | None) -> Policy:
    """Return the policy as analysts with these roles see it; None means that all is granted."""
    if names is None:
        return policy
    roles = [role for role in policy.roles if role.name in names]
    shown = list[TablePolicy]()
    for table in policy.tables:
        grants = tuple(g for role in roles for g in role.grants if g.table == table.name)
        if grants:
            shown.append(_granted(table, grants))
    tables = {table.name: table for table in shown}
    whole = policy.beneath or policy.tables
    listed = tuple(_without_links(table, tables) for table in shown)
    return replace(policy, tables=listed, beneath=whole, roles=())


def restrict_to(policy: Policy, analyst: str) -> Policy:
    """Return the policy as one analyst sees it."""
    return restrict_policy(policy, roles_of(policy, analyst))


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
        groups_by=limits(table.groups_by),
        rows_by=limits(table.rows_by),
    )
