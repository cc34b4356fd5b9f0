"""Rows of a table as roles grant them: a filter above a scan, like a subquery of an analyst.

Proof (PRIVACY.md R105). The result is what an analyst without roles may write in FROM: a SELECT of
columns from the table, joined along its links, with WHERE. So each rule for queries holds for it.
Units are attached by scans of whole tables, which no condition restricts.
"""

from __future__ import annotations

from dpsql.compiler.resolve.scopes import Identities, Scope, Source
from dpsql.compiler.resolve.typing import predicate
from dpsql.model.algebra import Filter, Item, Join, Project, Relation, Scan
from dpsql.model.dataclass import dataclass, replace
from dpsql.model.rights import Grant, row_alias
from dpsql.model.tree import BOOLEAN, Call, Expression, JoinKind, Name, Span, when
from dpsql.model.vocabulary import Policy, TablePolicy
from dpsql.model.walk import both, map_children


def granted_rows(table: TablePolicy, policy: Policy, identities: Identities, span: Span) -> Project:
    """Return the rows that some grant of a table has, with its granted columns.

    A column is NULL on rows of grants without it.
    """
    return _GrantedRows(policy, identities, span).rows(table)


@dataclass(frozen=True, slots=True)
class _GrantedRows:
    policy: Policy
    identities: Identities
    span: Span

    def rows(self, table: TablePolicy) -> Project:
        conditions = [grant.rows for grant in table.grants if grant.rows is not None]
        linked, scope = self._linked(table, max(c.links for c in conditions))
        tests = {
            grant: predicate(self._placed(grant.rows.expression), scope)
            for grant in table.grants
            if grant.rows is not None
        }
        own = {f.name.lower(): f for f in scope.sources[0].fields}
        whole = self._any(table.grants, tests)
        items = list[Item]()
        for column in table.columns:
            value: Expression = own[column.name.lower()].ref
            seen = [g for g in table.grants if column.name.lower() in g.columns]
            when_seen = self._any(seen, tests)
            if when_seen is not None and when_seen != whole:
                value = when(when_seen, value, None, column.type)
            items.append(Item(self.identities.field(column.name, column.type), value))
        return Project(linked if whole is None else Filter(linked, whole), tuple(items))

    def _any(
        self, grants: tuple[Grant, ...] | list[Grant], tests: dict[Grant, Expression]
    ) -> Expression | None:
        """Return the condition that one of these grants has a row; None if one has all rows."""
        if any(grant not in tests for grant in grants):
            return None
        parts = tuple(dict.fromkeys(tests[grant] for grant in grants))
        return parts[0] if len(parts) == 1 else Call("or", parts, BOOLEAN, self.span)

    def _linked(self, table: TablePolicy, links: int) -> tuple[Relation, Scope]:
        """Return the whole rows of a table, joined along its first links."""
        rows, scope = self._scan(table.name, 0)
        here = self.policy.table(table.name)
        for number in range(1, links + 1):
            assert here is not None
            assert here.link is not None
            there, other = self._scan(here.link.table, number)
            pairs = zip(here.link.columns, here.link.keys, strict=True)
            equal = tuple(
                scope.lookup(Name(column, row_alias(number - 1))).ref.eq(
                    other.lookup(Name(key, row_alias(number))).ref
                )
                for column, key in pairs
            )
            rows = Join(rows, there, JoinKind.INNER, both(equal), self.span)
            scope, here = scope.beside(other), self.policy.table(here.link.table)
        return rows, scope

    def _scan(self, name: str, number: int) -> tuple[Relation, Scope]:
        table = self.policy.table(name)
        assert table is not None
        fields = tuple(self.identities.field(c.name, c.type) for c in table.columns)
        scan = Scan(table.name, fields, self.span, table.readings, table.rows)
        return scan, Scope((Source(row_alias(number), fields),))

    def _placed(self, expression: Expression) -> Expression:
        """Return an expression of the policy at the place of the table in the text."""
        below = map_children(expression, self._placed)
        return replace(below, span=self.span) if hasattr(below, "span") else below
