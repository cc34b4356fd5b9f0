"""propagate: the error of every number, carried through the outer query.

Each noisy column is an expression over *base* columns with independent noise of known standard
deviation: the parts of a release, and re-aggregated values. The error of an output is the root of
the summed squares of its changes when each base moves by one standard deviation (the delta method
by finite differences; exact for linear expressions). Bases travel upwards as hidden columns.

Errors are post-processing too: PRIVACY.md R66.

A total next to its rows, `n / (SELECT SUM(n) FROM t)`, is the row's own addition plus an
independent rest, as with a window.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import assert_never

from dpsql.compiler.errors import empty_groups, window_errors
from dpsql.compiler.errors.aggregate_errors import trace_aggregate
from dpsql.compiler.errors.bias_ends import NOTHING, Ends, ends_of, rest_ends, united_ends
from dpsql.compiler.errors.expression_errors import NAN, or_zero, remaining
from dpsql.compiler.errors.noisy_columns import (
    Addend,
    ErrorSource,
    Near,
    NoiseOfBlock,
    Traced,
    noise_of,
)
from dpsql.compiler.errors.outputs import EXACT, Propagated
from dpsql.compiler.errors.reported_errors import with_estimates
from dpsql.compiler.errors.selection_errors import Selection, widen_first
from dpsql.compiler.errors.small_groups import as_ratio
from dpsql.compiler.errors.stated_errors import OneInput, Stating, states
from dpsql.compiler.plan.biased_columns import BiasedColumn
from dpsql.compiler.resolve.scopes import Identities, require_none
from dpsql.compiler.track.equalities import equal_columns
from dpsql.compiler.track.uniqueness import Keys, key_within
from dpsql.model import algebra, tree, walk
from dpsql.model.dataclass import dataclass, replace
from dpsql.model.intervals import EVERYTHING, Interval


def propagate(
    outer: algebra.Relation,
    noise: Sequence[NoiseOfBlock],
    keys: Callable[[algebra.Relation], Keys],
    identities: Identities,
    selection: Selection,
    range_of: Callable[[tree.Expression], Interval] = lambda _: EVERYTHING,
) -> Propagated:
    """Return the outer query with its hidden columns, its outputs, and the error of each output.

    `noise` has the noise of each block, `keys` returns the keys of relations, `selection` widens
    the errors of selected numbers. `range_of` returns the certain range of an expression. An error
    is NULL where the output is exact, or not a number and not chosen, and NaN where it is unknown.
    The stated errors of the query become columns.
    """
    unions = any(isinstance(part, algebra.Union) for part in walk.relations(outer))
    shown = frozenset(_of_unions(outer)) if unions and not states(outer) else frozenset[int]()
    stating = Stating(identities, selection.reach, range_of)
    tracer = _Tracer(
        noise=noise,
        keys=keys,
        identities=identities,
        stating=stating,
        selection=selection,
        shown=shown,
    )
    traced = tracer.trace(outer)
    outputs = tuple(f.ref for f in outer.fields)
    errors = tuple(
        traced.error(ref) if ref.type.is_measured else NAN if traced.unknown(ref) else EXACT
        for ref in outputs
    )
    ends = ((n, traced.ends(ref)) for n, ref in enumerate(outputs) if errors[n] != EXACT)
    halves = {n: selection.reach.halves(errors[n], each) for n, each in ends if each is not None}
    return Propagated(traced.relation, outputs, errors, halves)


_A_HAIR_LESS = 1 - 1e-9
"""Factor by which a stated interval is shortened, so that rounding leaves its end inside."""


@dataclass(frozen=True, slots=True)
class _Tracer:
    """The traversal of an outer query. `shown` are the columns of unions that are output
    unchanged.
    """

    noise: Sequence[NoiseOfBlock]
    keys: Callable[[algebra.Relation], Keys]
    identities: Identities
    stating: Stating
    selection: Selection
    shown: frozenset[int]

    def trace(self, relation: algebra.Relation) -> Traced:
        match relation:
            case (
                algebra.Scan()
                | algebra.OneRow()
                | algebra.Values()
                | algebra.Apply()
                | algebra.Recursion()
                | algebra.Again()
            ):
                return Traced(relation)
            case algebra.Staged() | algebra.Evaluated() | algebra.Single():
                raise AssertionError(relation)
            case algebra.Released():
                return self._released(relation)
            case algebra.Limit(input=algebra.Sort(), limit=int()):
                return self._first_rows(relation)
            case algebra.Filter() | algebra.Sort() | algebra.Limit():
                plain, source = self._read(relation)
                traced = source.over(walk.map_inputs(plain, lambda _input: source.relation))
                return _chosen(traced, relation)
            case algebra.Project():
                return self._project(relation)
            case algebra.Join():
                return self._join(relation)
            case algebra.Match():
                return self._match(relation)
            case algebra.Aggregate():
                return self._aggregate(relation)
            case algebra.Window():
                window, source = self._read(relation)
                return window_errors.trace_windows(source, window, self.identities, self.selection)
            case algebra.Union():
                return self._union(relation)
            case _:
                assert_never(relation)

    def _first_rows(self, relation: algebra.Limit) -> Traced:
        """Trace the first rows in an order, with wider errors where noise has chosen them."""
        sort, limit = relation.input, relation.limit
        assert isinstance(sort, algebra.Sort)
        assert isinstance(limit, int)
        order, source = self._read(sort)
        count = relation.offset + limit
        source = widen_first(source, order, count, self.selection, self.identities)
        rows = _chosen(source.over(replace(order, input=source.relation)), sort)
        first = _chosen(rows.over(replace(relation, input=rows.relation)), relation)
        if source.selected or not rows.shuffled or relation.offset:
            return first
        by = source.rewritten(order.keys[0].expression)
        return replace(first.repeated(), first_by=by)

    def _read(self, relation: OneInput) -> tuple[OneInput, Traced]:
        """Return the relation with stated errors as columns, and its traced input."""
        return self.stating.over(relation, self.trace(relation.input))

    def _released(self, relation: algebra.Released) -> Traced:
        noise = self.noise[relation.block]
        parts = {n: f for n, f in relation.reads.items() if n in noise.deviations}
        read = next((field.id for field in parts.values()), 0)
        cells = {} if noise.settled is None else noise.settled.cells(parts, read)
        alone = {parts[n].id: error for n, error in noise.single.items() if n in parts}
        alone |= {n: cell.deviation for n, cell in cells.items()}
        shown = {n: f for n, f in parts.items() if n not in noise.halves.values()}
        rows, biased, increments, wider = self._with_columns(relation, parts, noise)
        present = None
        if noise.listed:
            rows, present = empty_groups.with_presence(rows, parts, noise, self.identities)

        def error(column: int) -> tree.Expression | None:
            if column in noise.halves:
                half = parts[noise.halves[column]]
                return half.ref.to(tree.DOUBLE) / (self.stating.reach.width * _A_HAIR_LESS)
            deviation = noise.deviations[column]
            if deviation is None or column in noise.summed:
                return None
            return wider[column] * deviation if column in wider else tree.operand(deviation)

        return Traced(
            relation=rows,
            meaning={f.id: f.ref for f in shown.values()},
            deviation={f.id: error(n) for n, f in shown.items()},
            origin={f.id: noise.origin(n, relation.block, read) for n, f in shown.items()},
            alone={n: tree.Literal(error, tree.DOUBLE) for n, error in alone.items()},
            cells={**dict.fromkeys(f.id for f in shown.values()), **cells},
            table=(relation.block, read) if parts else None,
            whole=True,
            selected=noise.selected,
            certain=frozenset(
                f.id for n, f in shown.items() if error(n) is not None and n not in noise.withheld
            ),
            biased=biased,
            increments=increments,
            present=present,
        )

    def _with_columns(
        self, relation: algebra.Released, parts: Mapping[int, algebra.Field], noise: NoiseOfBlock
    ) -> tuple[
        algebra.Relation,
        Mapping[int, Ends],
        Mapping[int, tree.Expression],
        Mapping[int, tree.Expression],
    ]:
        """Return the rows with columns for biases, for variances of running sums and for a factor
        near a threshold, and how they are read.
        """
        if not (noise.biased or noise.summed or noise.near):
            return relation, {}, {}, {}
        relation, biased = self._with_biases(relation, parts, noise.biased)
        relation, increments = self._with_increments(relation, parts, noise.summed)
        rows, wider = self._with_factor(relation, parts, noise.near)
        return rows, biased, increments, wider

    def _with_increments(
        self,
        relation: algebra.Released,
        parts: Mapping[int, algebra.Field],
        summed: Sequence[int],
    ) -> tuple[algebra.Released, Mapping[int, tree.Expression]]:
        """Return the rows with a column of variances for each column whose sums were measured."""
        fields = [self.identities.field("error", tree.DOUBLE) for _ in summed]
        increments = {parts[n].id: f.ref for n, f in zip(summed, fields, strict=True)}
        columns = (*relation.columns, *(field.id for field in fields))
        return replace(relation, fields=(*relation.fields, *fields), columns=columns), increments

    def _with_biases(
        self,
        relation: algebra.Released,
        parts: Mapping[int, algebra.Field],
        biased: Sequence[BiasedColumn],
    ) -> tuple[algebra.Released, Mapping[int, Ends]]:
        """The rows with a column for the bias of each biased one, in this order."""
        fields = [self.identities.field("bias", tree.DOUBLE) for _ in biased]
        ends = {
            parts[each.column].id: Ends(
                field.ref if each.below else NOTHING,
                field.ref if each.above else NOTHING,
                either=each.below and each.above,
            )
            for each, field in zip(biased, fields, strict=True)
        }
        columns = (*relation.columns, *(field.id for field in fields))
        return replace(relation, fields=(*relation.fields, *fields), columns=columns), ends

    def _with_factor(
        self, relation: algebra.Released, parts: Mapping[int, algebra.Field], near: Near | None
    ) -> tuple[algebra.Relation, Mapping[int, tree.Expression]]:
        """Return the rows with a column of the factor by which errors of counts grow towards a
        threshold, and that factor for each column that it multiplies; without `near` none.
        """
        if near is None:
            return relation, {}
        factor = self.identities.field("error", tree.DOUBLE)
        value = near.factor([parts[column].ref for column in near.columns])
        rows = algebra.Project(
            relation, (*(f.item for f in relation.fields), algebra.Item(factor, value))
        )
        return rows, dict.fromkeys(near.columns, factor.ref)

    def _project(self, relation: algebra.Project) -> Traced:
        relation, source = self._read(relation)
        relation, source = with_estimates(relation, source, self.identities)
        meaning: dict[int, tree.Expression] = {}
        deviation = dict(source.deviation)
        for item in relation.items:
            if not walk.refs(item.expression) & source.meaning.keys():
                continue
            over_bases = walk.composed(as_ratio(item.expression), source.meaning)
            if over_bases is None:
                deviation[item.field.id] = None
            meaning[item.field.id] = over_bases or item.field.ref
        traced = replace(source, meaning=meaning, deviation=deviation)
        missing = traced.needed() - {item.field.id for item in relation.items}
        hidden = tuple(f.item for f in source.relation.fields if f.id in missing)
        return traced.over(algebra.Project(source.relation, relation.items + hidden))

    def _join(self, relation: algebra.Join) -> Traced:
        """Trace both sides; the rows of one are repeated unless they meet at most one of
        the other.
        """
        require_none(relation, "in ON")
        left, right = self.trace(relation.left), self.trace(relation.right)
        equal = equal_columns(relation.condition, {f.id for f in relation.left.fields})
        common = noise_of(left.origin.values()) & noise_of(right.origin.values())
        alone = key_within(self.keys(relation.right), frozenset(equal.values())) is not None
        own = key_within(self.keys(relation.left), frozenset(equal)) is not None
        noisy = any(side.is_noisy(relation.condition) for side in (left, right))
        first, second = left.selected or noisy, right.selected or noisy
        match relation.kind:
            case tree.JoinKind.LEFT:
                selected = left.selected or (second and not alone)
            case tree.JoinKind.RIGHT:
                selected = right.selected or (first and not own)
            case tree.JoinKind.INNER | tree.JoinKind.CROSS | tree.JoinKind.FULL:
                selected = first or second
            case _:
                assert_never(relation.kind)
        if second and relation.kind in (tree.JoinKind.LEFT, tree.JoinKind.FULL):
            right = right.perhaps()
        if first and relation.kind in (tree.JoinKind.RIGHT, tree.JoinKind.FULL):
            left = left.perhaps()
        by = frozenset[int]() if common else self._apart(relation.right, frozenset(equal.values()))
        left = left if alone and not common else left.repeated(by)
        right = right if own and not common else right.repeated()
        return replace(joined(left, right, relation, self.identities), selected=selected)

    def _apart(self, other: algebra.Relation, equated: frozenset[int]) -> frozenset[int]:
        """Return columns that distinguish the rows which meet one row; empty if none are known."""
        keys = (key.columns - equated for key in self.keys(other) if key.nulls)
        return min(keys, key=len, default=frozenset())

    def _match(self, relation: algebra.Match) -> Traced:
        """Trace the rows; where noise decides about matches, their mark is noisy, and where listed
        groups may have no rows.
        """
        require_none(relation, "in a condition on a subquery")
        source, other = self.trace(relation.input), self.trace(relation.other)
        traced = source.over(replace(relation, input=source.relation, other=other.relation))
        read = (relation.condition, *(relation.member or ()))
        unsure = other.selected or other.present is not None
        if not (unsure or source.is_noisy(*read) or other.is_noisy(*read)):
            return traced
        mark, origin = {relation.mark.id: relation.mark.ref}, dict(traced.origin)
        if other.present is not None:
            origin[relation.mark.id] = ErrorSource(frozenset(), relation.mark.id, chosen=True)
        return replace(
            traced,
            meaning={**traced.meaning, **mark},
            deviation={**traced.deviation, **dict.fromkeys(mark)},
            origin=origin,
        )

    def _aggregate(self, relation: algebra.Aggregate) -> Traced:
        plain, source = self._read(relation)
        range_of = self.stating.range_of
        return trace_aggregate(source, plain, self.identities, self.selection, range_of)

    def _union(self, relation: algebra.Union) -> Traced:
        left, right = self.trace(relation.left), self.trace(relation.right)
        sides, old = (left, right), (relation.left.fields, relation.right.fields)
        fields, items = list(relation.fields), [[f.item for f in side] for side in old]
        meaning, alone = dict[int, tree.Expression](), dict[int, tree.Expression]()
        deviation: dict[int, tree.Expression | None] = {}
        origin: dict[int, ErrorSource] = {}
        biased: dict[int, Ends] = {}
        common = noise_of(left.origin.values()) & noise_of(right.origin.values())

        def added(errors: Sequence[tree.Expression]) -> tree.Expression:
            """Add a column to the union with these errors of its sides."""
            fields.append(self.identities.field("error", tree.DOUBLE))
            for listed, error in zip(items, errors, strict=True):
                listed.append(algebra.Item(self.identities.field("error", tree.DOUBLE), error))
            return tree.Ref(fields[-1].id, tree.DOUBLE)

        for place, new in enumerate(relation.fields):
            refs_here = [side[place].ref for side in old]
            noisy = [s.rewritten(r) is not None for s, r in zip(sides, refs_here, strict=True)]
            if not (new.type.is_measured and any(noisy)):
                continue
            meaning[new.id], deviation[new.id] = new.ref, None
            read = [s.origin[n] for s, r in zip(sides, refs_here, strict=True) for n in s.bases(r)]
            many = bool(common) or any(one.many for one in read)
            origin[new.id] = ErrorSource(noise_of(read), relation.fields[0].id, many=many)
            if relation.kind == "UNION" and relation.all:
                here = list(zip(sides, refs_here, strict=True))
                deviation[new.id] = error = added([side.error(ref) for side, ref in here])
                biased |= united_ends(new, [side.ends(ref) for side, ref in here], added)
                if any(side.alone for side in sides) and new.id not in self.shown:
                    alone[new.id] = error
                    deviation[new.id] = added([side.error_in_total(ref) for side, ref in here])
        present = empty_groups.united_presence(relation, sides, added)
        projected = [
            algebra.Project(s.relation, tuple(i)) for s, i in zip(sides, items, strict=True)
        ]
        result = replace(relation, left=projected[0], right=projected[1], fields=tuple(fields))
        traced = Traced(result, meaning, deviation, origin, alone, biased=biased, present=present)
        return replace(traced, selected=_of_sides(relation, sides))


def _of_unions(relation: algebra.Relation) -> Iterator[int]:
    """Yield the columns of unions that are output without further computation."""
    match relation:
        case algebra.Filter() | algebra.Sort() | algebra.Limit():
            yield from _of_unions(relation.input)
        case algebra.Project() if all(isinstance(i.expression, tree.Ref) for i in relation.items):
            yield from _of_unions(relation.input)
        case algebra.Union():
            yield from (f.id for f in relation.fields)
            yield from _of_unions(relation.left)
            yield from _of_unions(relation.right)
        case _:
            return


def _of_sides(relation: algebra.Union, sides: Sequence[Traced]) -> bool:
    """Test whether noise decides which rows a union has, through a side or its comparison
    of rows.
    """
    listed = zip(sides, (relation.left.fields, relation.right.fields), strict=True)
    noisy = any(side.is_noisy(*(f.ref for f in fields)) for side, fields in listed)
    compared = noisy and not (relation.kind == "UNION" and relation.all)
    return compared or any(side.selected for side in sides)


def _chosen(traced: Traced, relation: algebra.Filter | algebra.Sort | algebra.Limit) -> Traced:
    """Return the remaining rows in their order; noise may decide both."""
    match relation:
        case algebra.Filter():
            selected = traced.selected or traced.is_noisy(relation.predicate)
            return replace(traced, whole=False, selected=selected, first_by=None)
        case algebra.Sort():
            noisy = traced.selected or traced.is_noisy(*(key.expression for key in relation.keys))
            return replace(traced, shuffled=noisy)
        case algebra.Limit():
            selected = traced.selected or traced.shuffled
            return replace(traced, whole=False, selected=selected, first_by=None)
        case _:
            assert_never(relation)


def joined(left: Traced, right: Traced, relation: algebra.Join, identities: Identities) -> Traced:
    """Join two traced sides, with hidden columns for the rests of totals on the right."""
    result = Traced(
        relation=replace(relation, left=left.relation, right=right.relation),
        meaning={**left.meaning, **right.meaning},
        deviation={**left.deviation, **right.deviation},
        origin={**left.origin, **right.origin},
        alone={**left.alone, **right.alone},
        cells={**left.cells, **right.cells},
        table=left.table,
        certain=left.certain | right.certain,
        biased={**left.biased, **right.biased},
        present=empty_groups.joined_presence(left, right),
    )
    for base, origin in right.origin.items():
        own = None if origin.addend is None else _own(left, origin.addend)
        if own is not None:
            result = _split(result, base, own, identities)
    return result


def _own(left: Traced, addend: Addend) -> tree.Expression | None:
    """Return the addition of a row of this side, over its bases."""
    if left.table is None or left.table[0] != addend.block:
        return None
    types = {f.id: f.type for f in left.relation.fields}
    here = {
        origin.place: tree.Ref(base, types[base])
        for base, origin in left.origin.items()
        if origin.read == left.table[1] and base in types
    }
    if not here.keys() >= set(addend.places.values()):
        return None
    return walk.substitute(addend.expression, {n: here[p] for n, p in addend.places.items()})


def _split(traced: Traced, base: int, own: tree.Expression, identities: Identities) -> Traced:
    """Write a total as the sum of its own row and a new, independent base."""
    total, error = traced.deviation[base], traced.error_over(own)
    types = {f.id: f.type for f in traced.relation.fields}
    if total is None or base not in types or traced.table is None:
        return traced
    rest = identities.field("rest", tree.DOUBLE)
    items = tuple(f.item for f in traced.relation.fields)
    value = tree.Ref(base, types[base]).to(tree.DOUBLE) - or_zero(own)
    whole = {base: or_zero(own) + tree.Ref(rest.id, tree.DOUBLE)}
    origin = replace(traced.origin[base], read=rest.id, many=True, by=frozenset(), addend=None)
    apart = frozenset({traced.table[1]})
    ends = rest_ends(traced.biased.get(base), ends_of(own, traced.biased))
    return replace(
        traced,
        relation=algebra.Project(traced.relation, (*items, algebra.Item(rest, value))),
        meaning={n: walk.substitute(e, whole) for n, e in traced.meaning.items()},
        deviation={**traced.deviation, rest.id: remaining(total * total, error * error)},
        origin={**traced.origin, rest.id: replace(origin, apart=apart)},
        biased={**traced.biased, **({} if ends is None else {rest.id: ends})},
    )
