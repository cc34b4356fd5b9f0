"""track: Resolved → Tracked. The privacy unit and the stability of every operator.

There is one rule per operator, and an operator without a rule is refused. A query splits at its
lowest aggregates over private rows that are not within one unit; above them everything is public.

Proof (PRIVACY.md R7, R11, R13, R15, R20, R25). Each operator below gives a unit rows that follow
from that unit's rows of its inputs, from public rows and from nothing else. Then removing a unit
removes its rows and touches no others. The match over operators is closed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import TypeAlias, assert_never

from dpsql.compiler.infer.column_facts import PublicData
from dpsql.compiler.kernel.kernel import Kernel
from dpsql.compiler.plan.private_plan import PrivateBlock, Tracked
from dpsql.compiler.resolve.scopes import Identities
from dpsql.compiler.track import join_order, joins, per_unit, same_unit_columns, set_operations
from dpsql.compiler.track.asked_groups import only_asked
from dpsql.compiler.track.blocks import Blocks, filtered, projected, still_padded
from dpsql.compiler.track.grouping_sets import from_finest, one_by_one, sums_up
from dpsql.compiler.track.join_order import counted
from dpsql.compiler.track.joins import join_public, join_units
from dpsql.compiler.track.listed_values import of_different_values
from dpsql.compiler.track.pairs import Pairs
from dpsql.compiler.track.public_queries import PublicQueries
from dpsql.compiler.track.released_lists import Domain, most_alike, require_all_groups
from dpsql.compiler.track.repeatable import is_repeatable
from dpsql.compiler.track.table_scans import private_scan, require_one_person
from dpsql.compiler.track.uniqueness import key_within, keys_of
from dpsql.compiler.track.units import Growth, Private, attach_unit, is_small, require_small
from dpsql.model import tree
from dpsql.model.algebra import (
    Again,
    Aggregate,
    Apply,
    Evaluated,
    Filter,
    Item,
    Join,
    Limit,
    Match,
    OneRow,
    Project,
    Recursion,
    Relation,
    Released,
    Resolved,
    Scan,
    Single,
    Sort,
    Staged,
    Union,
    Values,
    Window,
    rowless,
)
from dpsql.model.dataclass import dataclass, field, replace
from dpsql.model.errors import Reason, Refused
from dpsql.model.renumber import renumbered
from dpsql.model.row_notices import Withheld
from dpsql.model.vocabulary import Policy
from dpsql.model.walk import inputs, map_inputs, relations

Frequency: TypeAlias = Callable[[Relation, tuple[tree.Ref, ...]], int]
DomainOf: TypeAlias = Callable[[PrivateBlock], Domain | None]


@dataclass(frozen=True, slots=True)
class _Open:
    """A relation that is public or released, without restrictions."""

    relation: Relation


_Sides: TypeAlias = Mapping[Relation, "_Open | Private"]


def track(
    resolved: Resolved,
    policy: Policy,
    public: PublicData,
    domain_of: DomainOf,
    identities: Identities,
    *,
    empty_rows: bool = False,
) -> Tracked:
    """Split the query into private blocks and an outer query over their releases.

    `public` measures public relations, and evaluates unrepeatable ones once. `domain_of` lists
    public keys of a block. With `empty_rows`, private rows with LIMIT 1 at the top are none.

    Raises `Refused` where an operator has no stability rule, where a join does not imply equal
    units, and where private rows would be returned directly.
    """
    frequency = cache(public.frequency)  # several orders of joins may need the same frequency
    relation = _simplified(resolved.relation, policy, frequency, identities)
    twice = any(table.same_unit for table in policy.tables)
    tracker = _Tracker(
        policy,
        frequency,
        public.once,
        domain_of,
        identities,
        public_queries=PublicQueries(policy, frequency, public.once, identities),
        blocks=Blocks(policy, identities),
        outermost=_outermost_limit(relation),
        unread=same_unit_columns.unread_columns(relation) if twice else frozenset(),
        beside=same_unit_columns.beside_links(relation, policy) if twice else frozenset(),
    )
    if empty_rows and tracker.shows_one_row_of_people():
        return Tracked(rowless(relation.fields), (), notices=(Withheld(policy.unit.table),))
    standing = tracker.track(relation)
    if isinstance(standing, Private):
        raise _raw_rows(relation, standing, policy)
    if tracker.over_groups:
        tracker.require_groups(standing.relation)
    return Tracked(standing.relation, tuple(tracker.blocks.listed), tuple(tracker.stages))


def _simplified(
    relation: Relation, policy: Policy, frequency: Frequency, identities: Identities
) -> Relation:
    """Return a query with conditions or joins over fewer groups, and with counts of public rows."""
    if not any(isinstance(part, Filter | Join) for part in relations(relation)):
        return relation
    relation = only_asked(relation, policy, identities)
    return counted(relation, policy, frequency, identities)


@dataclass(frozen=True, slots=True)
class _Tracker:
    policy: Policy
    frequency: Frequency
    once: Callable[[Relation], Evaluated]
    domain_of: DomainOf
    identities: Identities
    public_queries: PublicQueries
    blocks: Blocks
    outermost: Limit | None
    unread: frozenset[int]
    beside: frozenset[int]
    stages: list[Relation] = field(default_factory=list)
    over_groups: list[Aggregate] = field(default_factory=list)

    def shows_one_row_of_people(self) -> bool:
        """Test whether the outermost LIMIT returns one private row."""
        if self.outermost is None or self.outermost.limit != 1:
            return False
        trial = replace(
            self, blocks=Blocks(self.policy, self.identities), stages=[], over_groups=[]
        )
        return isinstance(trial.track(self.outermost.input), Private)

    def require_groups(self, outer: Relation) -> None:
        """Raise `Refused` where an aggregate reads groups that are not all released."""
        queries = (outer, *self.stages)
        require_all_groups(queries, self.over_groups, self.blocks.listed, self.domain_of)

    def track(self, relation: Relation) -> _Open | Private:
        match relation:
            case OneRow() | Values() | Released() | Staged() | Evaluated() | Again():
                return _Open(relation)
            case Scan():
                return self._scan(relation)
            case Filter():
                return self._filter(relation)
            case Project():
                source = self.track(relation.input)
                if isinstance(source, _Open):
                    return _Open(replace(relation, input=source.relation))
                return projected(source, relation.items)
            case Join():
                return self._join(relation)
            case Match():
                return self._match(relation)
            case Aggregate():
                return self._aggregate(relation)
            case Sort():
                source = self.track(relation.input)
                # An order without a limit does not matter to the aggregate above it.
                if isinstance(source, Private):
                    return source
                return _Open(replace(relation, input=source.relation))
            case Window():
                return self._window(relation)
            case Limit():
                source = self.track(relation.input)
                if isinstance(source, Private):
                    raise self._limited(relation, source)
                return _Open(replace(relation, input=source.relation))
            case Union():
                return self._union(relation)
            case Single() | Apply() | Recursion():
                return _Open(self._tried(relation))
            case _:
                assert_never(relation)

    def _tried(self, relation: Single | Apply | Recursion) -> Relation:
        """Return a relation for public rows only, after it was tried on them."""
        if isinstance(relation, Recursion):
            # Checked before its step: joins with previous rows have no rows there yet.
            self._require_public(relation)
        sides = [self.track(side) for side in inputs(relation)]
        assert not any(isinstance(s, Private) or _is_released(s.relation) for s in sides)
        public = iter(side.relation for side in sides if isinstance(side, _Open))
        return self.public_queries.tried(map_inputs(relation, lambda _input: next(public)))

    def _require_public(self, relation: Recursion) -> None:
        """Raise `Refused` where a recursion reads private rows, or results of them."""
        for part in relations(relation):
            table = self.policy.table(part.table) if isinstance(part, Scan) else None
            if table is not None and table.private:
                construct = "WITH RECURSIVE over private rows or what is made of them"
                raise _no_rule(construct, relation.span)

    def _window(self, relation: Window) -> _Open | Private:
        source = self.track(relation.input)
        if isinstance(source, Private):
            require_one_person(source, "a window function", relation.items[0].call.span)
            return per_unit.window_within(relation, _bare(source), self.policy, self.identities)
        return _Open(replace(relation, input=source.relation))

    def _scan(self, scan: Scan) -> _Open | Private:
        table = self.policy.table(scan.table)
        assert table is not None
        if not table.private:
            return _Open(scan)
        if not table.same_unit:
            return private_scan(scan, table, self.policy, self.identities)
        return same_unit_columns.scan_of_units(
            scan, table, self.policy, self.identities, self.unread
        )

    def _filter(self, relation: Filter) -> _Open | Private:
        source = self.track(joins.with_join_conditions(relation.input, relation.predicate))
        if isinstance(source, _Open):
            return _Open(Filter(source.relation, relation.predicate))
        return per_unit.cut_by_rank(filtered(source, relation.predicate), relation.predicate)

    def _join(self, join: Join) -> _Open | Private:
        if join.kind is tree.JoinKind.RIGHT:
            join = replace(join, left=join.right, right=join.left, kind=tree.JoinKind.LEFT)
        join = same_unit_columns.groups_that_meet(join, self.beside)
        if join.kind in join_order.INNER:
            return self._inner(join)
        return self._joined(join, self.track(join.left), self.track(join.right))

    def _inner(self, join: Join) -> _Open | Private:
        """Track inner joins of one FROM, in the order that proves the least bound for one unit's
        rows.
        """
        tracked = {side: self.track(side) for side in join_order.sides_of(join)}
        private = any(isinstance(side, Private) for side in tracked.values())
        if not (private and 2 < len(tracked) <= join_order.MOST_SIDES):  # noqa: PLR2004
            return self._folded(join, tracked)
        sides = [
            join_order.Side(relation, anchors=side.anchors, together=side.together)
            if isinstance(side, Private)
            else join_order.Side(relation, keys_of(side.relation, self.policy, self.blocks.keys))
            for relation, side in tracked.items()
        ]
        other = join_order.connected(join, sides)
        least = self._cost(other, tracked)
        # A product of public tables in the text is not measured if there is a better order.
        if least is not None and join_order.connects(other) and not join_order.connects(join):
            return self._folded(other, tracked)
        written = self._cost(join, tracked)
        better = least is not None and (written is None or least < written)
        return self._folded(other if better else join, tracked)

    def _cost(self, join: Join, tracked: _Sides) -> tuple[float, ...] | None:
        """Return the cost of the joins in this order; None where it is refused."""
        stages = len(self.stages)
        try:
            joined = self._folded(join, tracked)
        except Refused:
            return None
        finally:
            del self.stages[stages:]
        assert isinstance(joined, Private)
        return join_order.cost(joined)

    def _folded(self, relation: Relation, tracked: _Sides) -> _Open | Private:
        """Join tracked sides by inner joins."""
        if not (isinstance(relation, Join) and relation.kind in join_order.INNER):
            return tracked[relation]
        left, right = (self._folded(side, tracked) for side in (relation.left, relation.right))
        return self._joined(relation, left, right)

    def _joined(self, join: Join, left: _Open | Private, right: _Open | Private) -> _Open | Private:
        if isinstance(left, _Open) and isinstance(right, _Open):
            return _Open(replace(join, left=left.relation, right=right.relation))
        if isinstance(left, Private) and isinstance(right, Private):
            for side in (left, right):
                require_one_person(side, "a join with private rows", join.span)
        if join.kind is tree.JoinKind.FULL:
            first, second = self._copy(join), self._copy(join)
            rows = set_operations.full_within(join, first, second, self.policy, self.identities)
            return self._small(rows, join.span)
        if isinstance(left, Private):
            right = _bare(right) if isinstance(right, Private) else right
            padding = still_padded(join, left.padding, right.relation)
            left = left if padding else _bare(left)
            if isinstance(right, Private):
                joined = self._join_private(join, left, right)
            else:
                joined = self._join_public(join, left, right, private_left=True)
            return self._small(replace(joined, padding=padding), join.span)
        assert isinstance(right, Private)
        assert isinstance(left, _Open)
        if join.kind is not tree.JoinKind.LEFT:
            joined = self._join_public(join, _bare(right), left, private_left=False)
            return self._small(joined, join.span)
        if _is_released(left.relation):
            raise _no_rule("a LEFT JOIN from released results to private rows", join.span)
        inner = replace(join, kind=tree.JoinKind.INNER)
        joined = self._join_public(inner, _bare(right), left, private_left=False)
        return joins.padded(self._small(joined, join.span), left.relation, right)

    def _join_private(self, join: Join, left: Private, right: Private) -> Private:
        """Join rows of one unit each, or of two units where facts bound both sides."""
        try:
            return join_units(join, left, right, self.policy, self.identities)
        except Refused as refusal:
            if refusal.reason is not Reason.UNEQUAL_UNITS:
                raise
            pairs = Pairs(self.policy, self.identities, self._kernel())
            return pairs.join(join, left, right, refusal)

    def _copy(self, join: Join) -> set_operations.JoinCopy:
        copy, names = renumbered(join, lambda f: self.identities.field(f.name, f.type))
        assert isinstance(copy, Join)
        sides = self.track(copy.left), self.track(copy.right)
        if not (isinstance(sides[0], Private) and isinstance(sides[1], Private)):
            fix = "Whether a public row meets nobody is private: use a LEFT JOIN from private rows."
            raise _no_rule("FULL JOIN of private rows and public ones", join.span, fix)
        return set_operations.JoinCopy(copy, _bare(sides[0]), _bare(sides[1]), names)

    def _small(self, joined: Private, span: tree.Span) -> Private:
        """Raise `Refused` where joins make too many rows of one unit's, unless the kernel bounds
        them.
        """
        limit, claim = self.policy.limits.max_fanout, joined.max_rows
        proved = None
        if claim is not None and claim <= limit and not is_small(joined.growth, limit):
            proved = self._proved_rows(joined)
        require_small(joined.growth, proved, limit, span)
        return joined

    def _proved_rows(self, joined: Private) -> int | None:
        """Return the most rows of one unit that the kernel proves, once each row has its unit."""
        kernel = self._kernel()
        if joined.several:
            return kernel.most_of_several(joined.relation)
        rows = attach_unit(joined, self.policy, self.identities)
        return kernel.proof(rows.relation, rows.unit(self.policy).id).most_rows()

    def _kernel(self) -> Kernel:
        return Kernel(self.policy, self.stages, (), self.frequency)

    def _join_public(
        self, join: Join, private: Private, public: _Open, *, private_left: bool
    ) -> Private:
        there = self._staged(public.relation)
        measured = public.relation if _is_released(public.relation) else there
        keys = keys_of(measured, self.policy, self.blocks.keys)
        left, right = (private.relation, there) if private_left else (there, private.relation)

        def frequency(columns: tuple[tree.Ref, ...]) -> int:
            return self._frequency(there, columns, join.span)

        return join_public(replace(join, left=left, right=right), private, there, keys, frequency)

    def _staged(self, relation: Relation) -> Relation:
        """Return a relation that private rows may be joined to: public tables, or an evaluated
        stage.
        """
        if _is_released(relation):
            self.stages.append(relation)
            return Staged(len(self.stages) - 1, relation.fields)
        if is_repeatable(relation, self.policy):
            return relation
        evaluated = self.once(relation)
        digests = [s.digest if isinstance(s, Evaluated) else None for s in self.stages]
        if evaluated.digest not in digests:
            self.stages.append(evaluated)
            digests.append(evaluated.digest)
        return Staged(digests.index(evaluated.digest), relation.fields, relation)

    def _frequency(self, there: Relation, columns: tuple[tree.Ref, ...], span: tree.Span) -> int:
        """Return the most rows that agree on these columns; for a stage, among exactly its rows.

        For released rows it is a bound; raises `Refused` where there is none.
        """
        if not isinstance(there, Staged):
            return self.frequency(there, columns)
        places = {f.id: n for n, f in enumerate(there.fields)}
        rows = self.stages[there.stage]
        same = tuple(rows.fields[places[column.id]].ref for column in columns)
        if there.source is not None:
            return self.frequency(rows, same)
        most = most_alike(
            rows,
            frozenset(c.id for c in same),
            lambda block: self.domain_of(self.blocks.listed[block]),
            self.frequency,
        )
        if most is None:
            fix = "Join on all of its group keys, let them be listed, or add LIMIT."
            construct = "a join of private rows with several rows of a released result"
            raise _no_rule(construct, span, fix)
        return most

    def _match(self, relation: Match) -> _Open | Private:
        source, other = self.track(relation.input), self.track(relation.other)
        if isinstance(source, Private) and isinstance(other, Private):
            for side in (source, other):
                require_one_person(side, "EXISTS or IN of private rows", relation.span)
            left, right = _bare(source), _bare(other)
            return joins.match_units(relation, left, right, self.policy, self.identities)
        if isinstance(other, Private):
            raise _no_rule(
                "a condition on whether private rows exist",
                relation.span,
                "Compare with their COUNT(*): it is released with noise.",
            )
        if isinstance(source, _Open):
            return _Open(replace(relation, input=source.relation, other=other.relation))
        there = self._staged(other.relation)
        if not isinstance(there, Staged) or there.source is not None:
            self._require_few_comparisons(relation, source, there)
        source = _bare(source)
        return replace(source, relation=replace(relation, input=source.relation, other=there))

    def _require_few_comparisons(self, match: Match, source: Private, other: Relation) -> None:
        """Raise `Refused` where a private row is compared with too many public ones."""
        columns = joins.compared_columns(match)
        keys = keys_of(other, self.policy, self.blocks.keys)
        if columns is None or key_within(keys, frozenset(c.id for c in columns)) is not None:
            return
        growth = source.growth.times(Growth(self._frequency(other, columns, match.span)))
        require_small(growth, None, self.policy.limits.max_fanout, match.span)

    def _limited(self, relation: Limit, rows: Private) -> Refused:
        source = relation.input
        while isinstance(source, Sort | Project | Filter):
            source = source.input
        if relation is self.outermost or isinstance(source, Aggregate):
            return _raw_rows(source, rows, self.policy)
        return _no_rule("LIMIT or OFFSET over private rows", relation.span)

    def _union(self, relation: Union) -> _Open | Private:
        left, right = self.track(relation.left), self.track(relation.right)
        if isinstance(left, Private) and isinstance(right, Private):
            if relation.kind == "UNION" and not relation.all:
                different = set_operations.all_of_both(relation, self.identities)
                rows = self._within(different.input, left, right)
                assert rows is not None
                return self._grouped(different, rows)
            if (rows := self._within(relation, left, right)) is not None:
                return rows
        listed = self._listed(relation, relation.left, left)
        return _Open(
            replace(relation, left=listed, right=self._listed(relation, relation.right, right))
        )

    def _within(self, relation: Relation, left: Private, right: Private) -> Private | None:
        """Return a set operation within units; None where rows of different units are compared."""
        assert isinstance(relation, Union)
        for side in (left, right):
            require_one_person(side, relation.kind, relation.span)
        rule = (
            set_operations.union_within if relation.kind == "UNION" else set_operations.rest_within
        )
        return rule(relation, _bare(left), _bare(right), self.policy, self.identities)

    def _listed(self, relation: Union, side: Relation, tracked: _Open | Private) -> Relation:
        """Return a side of a set operation over public or released rows.

        For private rows it is the release of their distinct rows.
        """
        if isinstance(tracked, Private) and not relation.all:
            items = (Item(self.identities.field(f.name, f.type), f.ref) for f in side.fields)
            tracked = self._grouped(Aggregate(side, tuple(items), (), relation.span), tracked)
        if isinstance(tracked, Private):
            what = f"{relation.kind}{' ALL' * relation.all} of rows of different people"
            fix = f"Select {self.policy.unit.key} on both sides, at the same place."
            raise _no_rule(what, relation.span, fix)
        return tracked.relation

    def _aggregate(self, relation: Aggregate) -> _Open | Private:
        source = self.track(relation.input)
        if isinstance(source, _Open):
            released = replace(relation, input=source.relation)
            self.over_groups.append(released)
            return _Open(released)
        if relation.sets:
            return self._sets(relation, source)
        return self._grouped(relation, source)

    def _grouped(self, relation: Aggregate, source: Private) -> _Open | Private:
        if source.merged:
            relation, source = set_operations.by_whole_keys(relation, source, self.identities)
        if relation.keys:
            facts = per_unit.name_unit((item.expression for item in relation.keys), source)
            if facts is not None:
                rows = replace(_bare(source), facts=source.facts | facts)
                return per_unit.aggregate_within(relation, rows, self.policy, self.identities)
            per_unit.require_present((item.expression for item in relation.keys), source)
        distinct = any(measure.call.distinct for measure in relation.measures)
        listed = of_different_values(relation, self.identities) if distinct else None
        values = None if listed is None else self._grouped(listed.values, source)
        if listed is not None and isinstance(values, _Open):
            return _Open(replace(listed.list, input=values.relation))
        return _Open(self.blocks.released(relation, source))

    def _sets(self, relation: Aggregate, source: Private) -> _Open | Private:
        if per_unit.name_unit((item.expression for item in relation.keys), source) is not None:
            raise _no_rule("GROUPING SETS within one unit", relation.span, "Use UNION ALL.")
        finest = self.blocks.block(replace(relation, measures=(), sets=()), source)
        if sums_up(relation) and self.domain_of(finest) is not None:
            return self.track(from_finest(relation, self.identities))
        return self.track(one_by_one(relation, self.identities))


def _is_released(relation: Relation) -> bool:
    return any(isinstance(part, Released) for part in relations(relation))


def _bare(source: Private) -> Private:
    """Refuse padding rows: a public LEFT JOIN with private rows allows only an aggregate."""
    if source.padding is not None:
        place = next(r.span for r in relations(source.relation) if isinstance(r, Join))
        raise _no_rule(
            "this use of a public table LEFT JOIN private rows",
            place,
            "Group by the public table's columns and aggregate the private ones.",
        )
    return source


def _no_rule(construct: str, span: tree.Span, fix: str = "") -> Refused:
    facts = {"fix": fix} if fix else {}
    return Refused(Reason.UNSUPPORTED_PRIVATE_OPERATOR, span, construct=construct, **facts)


def _outermost_limit(relation: Relation) -> Limit | None:
    """Return the LIMIT of the query itself, if it has one."""
    while isinstance(relation, Project | Sort):
        relation = relation.input
    return relation if isinstance(relation, Limit) else None


def _raw_rows(relation: Relation, rows: Private, policy: Policy) -> Refused:
    """Return the refusal of rows of one unit each, at the key that identifies the unit or the
    table.

    Joined columns have no place in the text.
    """
    within = (
        r for r in relations(rows.relation) if isinstance(r, Aggregate) and r.span != tree.NOWHERE
    )
    aggregate = next(within, None)
    if aggregate is None:
        scans = (r for r in relations(relation) if isinstance(r, Scan))
        return Refused(Reason.RAW_ROWS, next(scans).span)
    keys = {
        name.lower()
        for table in policy.tables
        if table.private
        for link in (table.link, *table.several)
        for name in (*table.key, *(link.columns if link else ()))
    }
    for item in aggregate.keys:
        if item.field.name.lower() in keys:
            return Refused(Reason.UNIT_KEY_EXPOSED, item.expression.span, column=item.field.name)
    return Refused(Reason.UNIT_KEY_EXPOSED, aggregate.keys[0].expression.span)
