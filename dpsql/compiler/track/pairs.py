"""Joins of rows of two units, where facts bound both sides: a question and its answers.

Proof (PRIVACY.md R94). Both sides are stable, and no row of them is unowned. Without a unit, the
joined rows that disappear are those made of its rows: on the left at most its rows there, times the
rows of the right that share a key, and on the right likewise. So the joined rows are those of
several units each (PRIVACY.md R4): filtered, joined with public rows, counted and summed.
"""

from __future__ import annotations

from collections.abc import Iterator

from dpsql.compiler.kernel.kernel import Kernel
from dpsql.compiler.plan.private_plan import DeclaredLimits, least
from dpsql.compiler.resolve.scopes import Identities
from dpsql.compiler.track.equalities import equal_columns
from dpsql.compiler.track.units import Growth, Private, attach_unit, owner_of
from dpsql.model.algebra import Join, Relation, Scan
from dpsql.model.dataclass import dataclass, replace
from dpsql.model.errors import Reason, Refused
from dpsql.model.tree import JoinKind
from dpsql.model.vocabulary import Fact, FactKind, Policy
from dpsql.model.walk import relations


@dataclass(frozen=True, slots=True)
class Pairs:
    """The join of rows of two units, which `kernel` bounds."""

    policy: Policy
    identities: Identities
    kernel: Kernel

    def join(self, join: Join, left: Private, right: Private, refusal: Refused) -> Private:
        """Return the joined rows, each of several units. Raises the `refusal` of a join within one
        unit where no facts bound both sides, with the declarations that would.
        """
        equal = equal_columns(join.condition, {f.id for f in left.relation.fields})
        if join.kind is not JoinKind.INNER or not equal or self.policy.period is not None:
            raise refusal
        whole = (attach_unit(side, self.policy, self.identities) for side in (left, right))
        left, right = whole
        relation = replace(join, left=left.relation, right=right.relation)
        most, limit = self.kernel.most_of_several(relation), self.policy.limits.max_fanout
        if most is None:
            raise self._unbounded(
                refusal, (left, frozenset(equal)), (right, frozenset(equal.values()))
            )
        if most > limit:
            what = f"joined rows that one of the {self.policy.unit.table} may change ({most:,})"
            raise Refused(Reason.TOO_LARGE, join.span, what=what, limit=limit)
        anchors = left.anchors | right.anchors
        groups = least(left.declared.public_groups, right.declared.public_groups)
        return Private(
            relation=relation,
            anchors=frozenset(),
            pending=frozenset(),
            max_rows=most,
            determined=frozenset(),
            unique={},
            declared=DeclaredLimits(most, most, most, groups),
            facts=left.facts | right.facts | frozenset(self._facts(relation)),
            several=frozenset(a.id for a in anchors if a.table == self.policy.unit.table),
            growth=Growth(most),
        )

    def _facts(self, relation: Relation) -> Iterator[Fact]:
        """Yield the facts that bound rows with one key in these tables."""
        for scan in relations(relation):
            table = self.policy.table(scan.table) if isinstance(scan, Scan) else None
            if table is None:
                continue
            shared = (table.agreeing((name,)) for name, _ in table.max_rows_per_key)
            named = [(FactKind.ROWS_PER_KEY, name) for name in shared]
            for kind, about in ((FactKind.UNIQUE_KEY, table.name), *named):
                fact = self.policy.fact(kind, about)
                yield from () if fact is None else (fact,)

    def _unbounded(self, refusal: Refused, *sides: tuple[Private, frozenset[int]]) -> Refused:
        """Return the refusal with the limits that are not declared, or not recorded as facts."""
        rows, keys = list[str](), list[str]()
        for side, equated in sides:
            names = {f.id: f.name for f in side.relation.fields}
            scan = next(r for r in relations(side.relation) if isinstance(r, Scan))
            rows += [scan.table] if side.max_rows is None else []
            if self.kernel.most_alike(side.relation, equated) is None:
                column = min(equated)
                table = owner_of(side.relation, column) or scan.table
                keys.append(f"{table} ({names[column]})")
        limits = ("max_rows_per_unit", rows), ("max_rows_per_key", keys)
        lacking = "; ".join(
            f"{key} of {' and '.join(dict.fromkeys(of))}" for key, of in limits if of
        )
        return Refused(refusal.reason, refusal.span, **{**refusal.facts, "lacking": lacking})
