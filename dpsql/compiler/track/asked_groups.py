"""Restriction to the groups that public rows ask for.

`(SELECT AVG(quantity) FROM items i WHERE i.part = p.part)`, evaluated for the parts `p` of one
brand, is an average for each part; averages of other brands are not read. So the items of other
brands are not read either: a unit's limit on groups is not spent on them, and an engine adds up
less. Keys with declared values stay, because all of their groups may be paid already. An aggregate
that occurs twice stays too, because it is one block.

Proof (PRIVACY.md R92). Whole groups are left out, those that meet no row of the public side; the
claims of a block are made of the remaining rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from dpsql.compiler.plan.canonical import Writer
from dpsql.compiler.resolve.scopes import Identities
from dpsql.compiler.track.equalities import exactly_equal
from dpsql.compiler.track.join_order import Joined, columns_of, rebuilt
from dpsql.compiler.track.repeatable import is_repeatable
from dpsql.model.algebra import Aggregate, Filter, Join, Match, Project, Relation, Scan
from dpsql.model.dataclass import dataclass, replace
from dpsql.model.renumber import renumbered
from dpsql.model.tree import BOOLEAN, Call, Expression, JoinKind, Ref
from dpsql.model.vocabulary import Policy
from dpsql.model.walk import both, conjuncts, free_refs, map_inputs, refs, relations, substitute


def only_asked(relation: Relation, policy: Policy, identities: Identities) -> Relation:
    """Restrict groups of private rows to those that public rows may ask for."""
    return _Asked(relation, policy, identities).rows(relation)


@dataclass(frozen=True, slots=True)
class _Asked:
    whole: Relation
    policy: Policy
    identities: Identities

    def rows(self, relation: Relation) -> Relation:
        match relation:
            case Filter() | Join(kind=JoinKind.INNER | JoinKind.CROSS):
                return self._inner(relation)
            case Join(kind=JoinKind.LEFT):
                asking = tuple(self._sources(relation.left))
                right = self._reduced(relation.right, asking, conjuncts(relation.condition))
                relation = relation if right is None else replace(relation, right=right)
        return map_inputs(relation, self.rows)

    def _inner(self, relation: Filter | Join) -> Relation:
        """Restrict a tree of inner joins, in which every input may ask for groups of another."""
        joined = Joined.of(relation)
        reduced: dict[Relation, Relation] = {}
        for leaf in joined.leaves:
            others = replace(joined, leaves=tuple(o for o in joined.leaves if o is not leaf))
            groups = self._reduced(leaf, self._of_leaves(others), joined.conditions)
            reduced |= {} if groups is None else {leaf: groups}
        if not reduced:
            return map_inputs(relation, self.rows)
        rows = rebuilt(relation, lambda leaf: self.rows(reduced.get(leaf, leaf)), lambda _: True)
        assert rows is not None
        return rows

    def _sources(self, relation: Relation) -> Iterator[Relation]:
        """Yield public relations with a row in every row of a relation."""
        tables = [self.policy.table(p.table) for p in relations(relation) if isinstance(p, Scan)]
        public = all(table is not None and not table.private for table in tables)
        if public and is_repeatable(relation, self.policy) and not free_refs(relation):
            yield relation
            return
        match relation:
            case Filter() | Join(kind=JoinKind.INNER | JoinKind.CROSS):
                yield from self._of_leaves(Joined.of(relation))
            case Join(kind=JoinKind.LEFT, left=below) | Project(input=below) | Match(input=below):
                yield from self._sources(below)

    def _of_leaves(self, joined: Joined) -> Iterator[Relation]:
        """Yield the public rows of joined inputs, with the conditions on them alone."""
        for source in (source for leaf in joined.leaves for source in self._sources(leaf)):
            columns = columns_of((source,))
            own = both(tuple(c for c in joined.conditions if refs(c) and refs(c) <= columns))
            yield source if own is None else Filter(source, own)

    def _reduced(
        self, part: Relation, asking: Iterable[Relation], conditions: Sequence[Expression]
    ) -> Relation | None:
        """Return the groups that the rows `asking` may meet; None where these do not
        restrict them.
        """
        match part:
            case Project():
                values = {item.field.id: item.expression for item in part.items}
                over = [substitute(condition, values) for condition in conditions]
                below = self._reduced(part.input, asking, over)
            case Filter():
                below = self._reduced(part.input, asking, conditions)
            case Aggregate(sets=()) if self._is_private(part):
                rows = part.input
                for source in asking:
                    rows = self._met(rows, part, source, conditions)
                below = None if rows is part.input or self._is_shared(part) else rows
            case _:
                return None
        return None if below is None else replace(part, input=below)

    def _met(
        self, rows: Relation, part: Aggregate, source: Relation, conditions: Sequence[Expression]
    ) -> Relation:
        """Return the rows in groups that meet a row of the source, by these conditions."""
        keys = {key.field.id: key.expression for key in part.keys}
        columns, declared = columns_of((source,)), self._declared(part.input)
        same = [c for c in dict.fromkeys(conditions) if _equates(c, keys.keys(), columns)]
        read = frozenset().union(*map(refs, same))
        compared = [expression for number, expression in keys.items() if number in read]
        restricted = any(isinstance(below, Filter) for below in relations(source))
        if not restricted or all(refs(expression) <= declared for expression in compared):
            return rows
        items = tuple(f.item for f in source.fields if f.id in read)
        new = self.identities.field
        other, names = renumbered(Project(source, items), lambda f: new(f.name, f.type))
        values = keys | {number: column.ref for number, column in names.items()}
        equal = [substitute(condition, values) for condition in same]
        mark = new("found", BOOLEAN)
        below = rows.input if isinstance(rows, Filter) else rows
        match equal:
            case [Call(args=(a, b))]:
                member = (a, b) if refs(b) <= columns_of((other,)) else (b, a)
                met = Match(below, other, None, mark=mark, member=member, span=part.span)
            case _:
                met = Match(below, other, both(tuple(equal)), mark=mark, span=part.span)
        return Filter(met, rows.predicate & mark.ref if isinstance(rows, Filter) else mark.ref)

    def _declared(self, rows: Relation) -> frozenset[int]:
        """Return the columns of private tables with listed or bounded values."""
        ids = set[int]()
        for scan in (part for part in relations(rows) if isinstance(part, Scan)):
            table = self.policy.table(scan.table)
            columns = {} if table is None else {c.name.lower(): c for c in table.columns}
            for field in scan.fields:
                column = columns.get(field.name.lower())
                if column is not None and not (column.values is None and column.bounds is None):
                    ids.add(field.id)
        return frozenset(ids)

    def _is_shared(self, part: Aggregate) -> bool:
        """Test whether the same aggregate occurs elsewhere too."""
        others = (other for other in relations(self.whole) if isinstance(other, Aggregate))
        texts = [_written(other) for other in others if self._is_private(other)]
        return texts.count(_written(part)) > 1

    def _is_private(self, relation: Relation) -> bool:
        """Test whether a relation reads private rows, and no outer row."""
        tables = (self.policy.table(p.table) for p in relations(relation) if isinstance(p, Scan))
        private = any(table is not None and table.private for table in tables)
        return private and not free_refs(relation)


def _equates(condition: Expression, keys: Iterable[int], columns: frozenset[int]) -> bool:
    """Test whether a condition equates a key with one of these columns."""
    match condition:
        case Call("eq", (Ref() as a, Ref() as b)) if exactly_equal(a, b):
            return any(x.id in keys and y.id in columns for x, y in ((a, b), (b, a)))
        case _:
            return False


def _written(part: Aggregate) -> str:
    """Return the grouped rows and keys as text, independent of column names."""
    writer = Writer()
    writer.number(part.input)
    return writer.write((part.input, tuple(key.expression for key in part.keys)))
