"""The private blocks of a query: an aggregate written twice is one block, released once.

Proof (PRIVACY.md R7, R11, R14). A block reads a stable relation, so that its groups are sums over
units. A unit's rows that were copied have no more different values in their own columns than there
were rows before.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import cast

from dpsql.compiler.plan.canonical import Writer
from dpsql.compiler.plan.private_plan import PrivateBlock, least
from dpsql.compiler.resolve.scopes import Identities
from dpsql.compiler.resolve.stated_names import require_none
from dpsql.compiler.track.padding import is_strict
from dpsql.compiler.track.samples import prepared
from dpsql.compiler.track.several_units import require_other_keys
from dpsql.compiler.track.units import Padding, Private, attach_unit
from dpsql.model.algebra import Aggregate, Item, Measure, Released
from dpsql.model.errors import Reason, Refused
from dpsql.model.tree import AggregateCall, Ref
from dpsql.model.vocabulary import Policy
from dpsql.model.walk import refs, relations, substitute


@dataclass(frozen=True, slots=True)
class Blocks:
    """Collects blocks; `listed` grows while a query is tracked."""

    policy: Policy
    identities: Identities
    listed: list[PrivateBlock] = field(default_factory=list)
    known: dict[str, tuple[int, dict[int, int]]] = field(default_factory=dict)

    def keys(self, block: int) -> int:
        """How many key columns a block has."""
        return len(self.listed[block].keys)

    def released(self, relation: Aggregate, source: Private) -> Released:
        """The noisy table of an aggregate over private rows."""
        block = self.block(relation, source)
        writer = Writer()
        writer.number(block.rows)
        keys = tuple(key.expression for key in block.keys)
        text = writer.write((block.rows, block.unit, keys, block.groups is None))
        if text not in self.known:
            self.known[text] = len(self.listed), writer.numbers
            self.listed.append(block)
            return Released(
                len(self.listed) - 1, relation.fields, tuple(range(len(block.measures)))
            )
        number, numbers = self.known[text]
        same = self._translated(block.measures, writer.numbers, numbers, number)
        return Released(number, relation.fields, tuple(self._place(number, m) for m in same))

    def _translated(
        self, measures: tuple[Measure, ...], new: dict[int, int], old: dict[int, int], number: int
    ) -> tuple[Measure, ...]:
        """The measures over the columns of the equal block that is there already."""
        there = {place: n for n, place in old.items()}
        types = {f.id: f.type for f in self.listed[number].rows.fields}
        ids = {n: there[place] for n, place in new.items() if there[place] in types}
        values = {n: Ref(known, types[known]) for n, known in ids.items()}
        return tuple(
            replace(m, call=cast("AggregateCall", substitute(m.call, values))) for m in measures
        )

    def _place(self, number: int, measure: Measure) -> int:
        """The position of a measure of a block; a new one is added."""
        block = self.listed[number]
        for place, known in enumerate(block.measures):
            if known.call == measure.call:
                return place
        self.listed[number] = replace(block, measures=(*block.measures, measure))
        return len(block.measures)

    def block(self, relation: Aggregate, source: Private) -> PrivateBlock:
        """The block of an aggregate over private rows, not yet asked for."""
        if source.padding is not None:
            _check_padding(relation, source.padding)
        policy = self.policy
        require_other_keys(relation, source)
        rows = source if source.several else attach_unit(source, policy, self.identities)
        for part in (relation, *relations(rows.relation)):
            require_none(part, "below the aggregation, where nothing is noisy yet")
        refs_of_keys = frozenset().union(*(refs(key.expression) for key in relation.keys))
        unit_ids = frozenset(a.id for a in rows.anchors if a.table == policy.unit.table)
        determined = rows.determined | unit_ids
        copied = [c for c in rows.copied if refs_of_keys <= c.free | determined]
        copied = [] if rows.several else copied
        limits = replace(
            rows.declared,
            groups_per_unit=least(rows.declared.groups_per_unit, *(c.groups for c in copied)),
            public_groups=rows.declared.public_groups or policy.limits.max_public_groups,
        )
        return PrivateBlock(
            rows.relation,
            _whoever(rows) if rows.several else rows.unit(policy),
            unit_ids,
            rows.max_rows,
            determined,
            relation.keys,
            tuple(map(prepared, relation.measures)),
            limits,
            tuple(sorted(rows.facts)),
            relation.span,
            source.padding.source if source.padding is not None and relation.keys else None,
            several=bool(rows.several),
            max_groups=least(*(c.rows for c in copied)),
            alone=not rows.several and _alone(rows, relation.keys, determined),
        )


def _whoever(rows: Private) -> Ref:
    """A column in the place of the unit's: nobody reads it."""
    column = min(rows.relation.fields, key=lambda field: field.id)
    return Ref(column.id, column.type)


def _alone(rows: Private, keys: tuple[Item, ...], determined: frozenset[int]) -> bool:
    """Whether no two rows of one unit fall into one group: rows of a group agree on its keys.

    Where they are those of one unit they agree on what it determines too, and no two rows of it
    agree on all columns of a key of `apart`, NULL being a value for both GROUP BYs.
    """
    agreed = determined | {k.expression.id for k in keys if isinstance(k.expression, Ref)}
    return any(key.nulls and key.columns <= agreed for key in rows.apart)


def _check_padding(relation: Aggregate, padding: Padding) -> None:
    """Groups are public columns, and no measure sees a public row without a private one."""
    for key in relation.keys:
        if not refs(key.expression) <= padding.public:
            raise Refused(
                Reason.UNSUPPORTED_PRIVATE_OPERATOR,
                key.expression.span,
                construct="a group key from the private side of a LEFT JOIN",
                fix="Group by columns of the public table, or use an inner JOIN.",
            )
    for measure in relation.measures:
        if not is_strict(measure.call.args[0], padding.absent):
            raise Refused(
                Reason.UNSUPPORTED_PRIVATE_OPERATOR,
                measure.call.span,
                construct=f"{measure.call.function.upper()} that counts rows without a match",
                fix="Aggregate a column of the private table, or use an inner JOIN.",
            )
