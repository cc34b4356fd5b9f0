"""Reminders of what roles grant, for the owner."""

from __future__ import annotations

from dpsql.engines import Engine
from dpsql.model.rights import Grant, row_alias
from dpsql.model.tree import Name
from dpsql.model.vocabulary import Policy
from dpsql.model.walk import walk
from dpsql.owner.findings import Finding
from dpsql.policy.draft import Draft
from dpsql.preparation.bound_roles import check_roles
from dpsql.preparation.engine_kinds import dialects
from dpsql.preparation.public_data import PublicTables


def what_roles_grant(draft: Draft, policy: Policy, engine: Engine) -> tuple[Finding, ...]:
    """Return reminders of what each role grants, and of hidden columns that its conditions read.

    Raises `PolicyError` for a condition that no row meets, or that has no rule.
    """
    check_roles(policy, draft, PublicTables(engine, dialects(draft.database).database))
    intended = "If this is intended, do nothing."
    findings = list[Finding]()
    for role in policy.roles:
        whom, line = (
            ", ".join(sorted(role.analysts)) or "its agents",
            draft.lines.of(("roles", role.name)),
        )
        seen = "; ".join(_seen(policy, grant) for grant in role.grants)
        said = [f"By the role {role.name}, {whom} may use {seen}."]
        said += [
            f"The role {role.name} chooses rows of {grant.table} by {name}, which is hidden: how "
            "many there are can be asked."
            for grant in role.grants
            for name in _hidden_names(policy, grant)
        ]
        findings += [Finding(line, role.name, None, text, rows=0, fix=intended) for text in said]
    return tuple(findings)


def _seen(policy: Policy, grant: Grant) -> str:
    """Return a table with the columns and the rows of it that a grant shows."""
    table = policy.table(grant.table)
    assert table is not None
    names = [c.name for c in table.columns if c.name.lower() in grant.columns]
    where = f" where {' '.join(grant.rows.text.split())}" if grant.rows else ""
    return f"{table.name} ({', '.join(names)}){where}"


def _hidden_names(policy: Policy, grant: Grant) -> list[str]:
    """Return the hidden columns that a condition reads, in its own table and where links lead."""
    hidden, table = list[str](), policy.table(grant.table)
    for number in range(0 if grant.rows is None else grant.rows.links + 1):
        assert table is not None
        assert grant.rows is not None
        names = (node for node in walk(grant.rows.expression) if isinstance(node, Name))
        columns = {table.column(n.name) for n in names if n.table == row_alias(number)}
        hidden += sorted(f"{table.name}.{c.name}" for c in columns if c is not None and c.hidden)
        table = policy.table(table.link.table) if table.link is not None else None
    return hidden
