"""Roles over the present tables: their columns exist, and their conditions can be evaluated.

Proof (PRIVACY.md R105). A condition is compiled as a query's: it is total, or the policy is wrong.
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import NoReturn

from dpsql.compiler.plan.prepared import Prepared
from dpsql.compiler.resolve.subqueries import has_subquery
from dpsql.dialects.reading.parse import parse
from dpsql.model.errors import PolicyError, Refused
from dpsql.model.rights import Grant, Role, RowCondition, row_alias
from dpsql.model.table_names import address, nearest
from dpsql.model.tree import AggregateCall, Expression, Name, Select, WindowCall
from dpsql.model.vocabulary import Policy, TablePolicy
from dpsql.model.walk import map_children, walk
from dpsql.policy.draft import Draft, DraftGrant, DraftRole
from dpsql.policy.restrict import restrict_policy
from dpsql.preparation.prepare import prepare
from dpsql.preparation.public_data import PublicTables

_PLAIN = "Write a condition on columns of the table, or of tables that its link leads to."


def with_roles(policy: Policy, draft: Draft) -> Policy:
    """Return the policy with its roles bound to its tables.

    Raises `PolicyError` for tables and columns that the policy lacks, and for a condition that is
    none or reads tables that the link does not lead to.
    """
    binder = _RoleBinder(policy, draft)
    return replace(policy, roles=tuple(map(binder.role, draft.roles)))


def check_roles(policy: Policy, draft: Draft, public: PublicTables) -> None:
    """Raise `PolicyError` for a row condition that no row meets, or that has no rule.

    Only the policy is read, so that nothing of private rows is told.
    """
    for role in policy.roles:
        for grant in role.grants:
            if grant.rows is None or _counted(policy, grant.table, public) is None:
                continue
            alone = replace(role, grants=(grant,))
            seen = restrict_policy(replace(policy, roles=(alone,)), ((role.name,),))
            try:
                counted = _counted(seen, grant.table, public)
            except Refused as refused:
                _fail(draft, (role.name, grant.table, "rows"), _why(refused), _PLAIN)
            if counted is None or counted.plan is None:
                why = f"No row of {grant.table} can be {grant.rows.text}, by the policy."
                _fail(draft, (role.name, grant.table, "rows"), why, "Compare with listed values.")


def _counted(policy: Policy, table: str, public: PublicTables) -> Prepared | None:
    """Return the plan that counts a table's rows; None where whole rows cannot be counted."""
    budget, statement = policy.budgets[0], parse(f"SELECT COUNT(*) AS n FROM {address(table)}")
    try:
        epsilon = Fraction(budget.query_epsilon)
        return prepare(statement, policy, budget, epsilon, public, public.evaluate)
    except Refused:
        if policy.beneath:
            raise
        return None


def _why(refused: Refused) -> str:
    named = refused.facts.get("construct") or refused.facts.get("column")
    return f"rows has no rule here: {named or refused.reason.value}."


def _fail(draft: Draft, place: tuple[str, ...], why: str, fix: str) -> NoReturn:
    role, *rest = place
    path = ("roles", role, *(("tables", *rest) if rest else ()))
    raise PolicyError(draft.path, draft.lines.of(path), why, fix)


class _RoleBinder:
    def __init__(self, policy: Policy, draft: Draft) -> None:
        self.policy, self.draft = policy, draft

    def role(self, role: DraftRole) -> Role:
        """Return a role with its grants; one on all tables grants each column that is not
        hidden.
        """
        listed = role.grants
        if listed is None:
            listed = tuple(DraftGrant(table.name) for table in self.policy.tables)
        grants = tuple(self._grant(grant, role.name) for grant in listed)
        return Role(role.name, role.analysts, grants)

    def _grant(self, grant: DraftGrant, role: str) -> Grant:
        table = self.policy.table(grant.table)
        if table is None:
            near = nearest(grant.table, [t.name for t in self.policy.tables])
            fix = f"Did you mean {near}?" if near else f"Add [tables.{grant.table}], or remove it."
            why = f"The policy has no table {grant.table}."
            _fail(self.draft, (role, grant.table), why, fix)
        visible = [c.name.lower() for c in table.columns if not c.hidden]
        for name in grant.columns or ():
            if name.lower() not in visible:
                self._no_column(table, name, role)
        columns = frozenset(visible if grant.columns is None else map(str.lower, grant.columns))
        rows = None if grant.rows is None else self._condition(table, grant.rows, role)
        return Grant(table.name, columns, rows)

    def _no_column(self, table: TablePolicy, name: str, role: str) -> NoReturn:
        place = role, table.name, "columns"
        if table.column(name) is not None:
            fix = "Remove it here, or remove hidden there."
            _fail(self.draft, place, f"{table.name}.{name} is hidden from all analysts.", fix)
        near = nearest(name, [c.name for c in table.columns if not c.hidden])
        fix = f"Did you mean {near}?" if near else "Remove it."
        _fail(self.draft, place, f"{table.name} has no column {name}.", fix)

    def _condition(self, table: TablePolicy, text: str, role: str) -> RowCondition:
        place = role, table.name, "rows"
        if not table.private:
            why = f"{table.name} is public: all who may use it see all of its rows."
            _fail(self.draft, place, why, "Leave rows out, or grant other tables.")
        expression = _expression(text, table)
        if expression is None:
            _fail(self.draft, place, f"rows is no condition on {table.name}.", _PLAIN)
        chain = self._chain(table)
        numbers = dict[str, int]()
        for name in (node for node in walk(expression) if isinstance(node, Name)):
            numbers[name.table or ""] = self._row_of(name, chain, place)
        placed = _with_rows(expression, numbers)
        return RowCondition(text, placed, max(numbers.values(), default=0))

    def _chain(self, table: TablePolicy) -> tuple[TablePolicy, ...]:
        """Return the table, and the tables that its one link leads to, in order."""
        chain, here = [table], table
        while here.link is not None and (there := self.policy.table(here.link.table)) is not None:
            chain.append(there)
            here = there
        return tuple(chain)

    def _row_of(self, name: Name, chain: tuple[TablePolicy, ...], place: tuple[str, ...]) -> int:
        """Return the number of the table in the chain that a column is of."""
        called = chain[0].name if name.table is None else ".".join((*name.schema, name.table))
        tables = [table.name.lower() for table in chain]
        if called.lower() not in tables:
            why = f"rows reads {called}, and no link of {chain[0].name} leads there."
            _fail(self.draft, place, why, f"Read columns of {', '.join(t.name for t in chain)}.")
        number = tables.index(called.lower())
        column = chain[number].column(name.name)
        if column is not None and column.randomized is not None:
            why = f"rows reads {name.name}, which people randomised: its values are not true."
            _fail(self.draft, place, why, "Use a column without `randomized`.")
        if column is None:
            near = nearest(name.name, [c.name for c in chain[number].columns])
            fix = f"Did you mean {near}?" if near else "List it in the policy; it may be hidden."
            _fail(self.draft, place, f"{chain[number].name} has no column {name.name}.", fix)
        return number


def _expression(text: str, table: TablePolicy) -> Expression | None:
    """Return a condition on columns, without subqueries, aggregates and clock; else None."""
    try:
        statement = parse(f"SELECT 1 AS n FROM {address(table.name)} WHERE (\n{text}\n)")
    except Refused:
        return None
    query = statement.query
    if not isinstance(query, Select) or query.where is None:
        return None
    if query != replace(_ANY, source=query.source, where=query.where):
        return None
    nodes = tuple(walk(query.where))
    if not any(isinstance(node, Name) for node in nodes):
        return None
    called = any(isinstance(node, AggregateCall | WindowCall) for node in nodes)
    if called or has_subquery(query.where) or statement.reads_clock or statement.says_now:
        return None
    return query.where


def _select() -> Select:
    query = parse("SELECT 1 AS n").query
    assert isinstance(query, Select)
    return query


_ANY = _select()


def _with_rows(expression: Expression, numbers: dict[str, int]) -> Expression:
    """Return a condition in which each name is qualified by the number of its row."""
    if isinstance(expression, Name):
        number = numbers[expression.table or ""]
        return replace(expression, table=row_alias(number), schema=())
    return map_children(expression, lambda part: _with_rows(part, numbers))
