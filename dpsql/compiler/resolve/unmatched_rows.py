"""COUNT(*) over public rows LEFT JOIN private ones, by public row.

A public row counts once if it meets nobody, else once for each private row that it meets. With n
released for each public row, COUNT(*) is the sum of GREATEST(1, n) over public rows. Noise below 1
is cut, so it biases the result upwards.

    SELECT region, COUNT(*) FROM countries LEFT JOIN customers ON country = code GROUP BY region
    SELECT region, SUM(GREATEST(1, n)) FROM (SELECT code, region, COUNT(country) AS n FROM …
    GROUP BY code, region) GROUP BY region

MIN and MAX of columns of the public table, in groups of one public row each, are further keys:

    SELECT code, MAX(region), AVG(age) FROM countries LEFT JOIN customers ON … GROUP BY code
    SELECT code, region, AVG(age) FROM … GROUP BY code, region

Proof (PRIVACY.md R104).
"""

from __future__ import annotations

from collections.abc import Callable

from dpsql.compiler.aggregates import result_type
from dpsql.compiler.resolve.scopes import Identities
from dpsql.model import algebra, tree
from dpsql.model.vocabulary import Policy
from dpsql.model.walk import conjuncts, map_inputs, refs, substitute

Frequency = Callable[[algebra.Relation, tuple[tree.Ref, ...]], int]

AT_LEAST = tree.Literal(1, tree.INTEGER)
"""A public row without a match counts once."""


def with_unmatched(
    relation: algebra.Relation, policy: Policy, frequency: Frequency, identities: Identities
) -> algebra.Relation:
    """Return the relation with such counts by public row; the same object if there are none.

    `frequency` is the most rows of a public relation that agree on some columns.
    """
    inner = map_inputs(relation, lambda r: with_unmatched(r, policy, frequency, identities))
    relation = relation if inner == relation else inner
    if not isinstance(relation, algebra.Aggregate):
        return relation
    if (padded := _padded_join(relation, policy, frequency)) is None:
        return relation
    join, names, row = padded
    marker, public = _equated(join), tuple(names[f.id] for f in join.left.fields if f.id in names)
    read = frozenset().union(*(refs(key.expression) for key in relation.keys))
    if marker is None or marker.id not in names or not read <= {ref.id for ref in public}:
        return relation
    if not all(_counts(m.call) for m in relation.measures):
        return relation
    others = tuple(ref for ref in public if ref.id in read and ref not in row)
    return _by_row(relation, (*row, *others), names[marker.id], identities)


def with_public_values(
    relation: algebra.Relation, policy: Policy, frequency: Frequency
) -> algebra.Relation:
    """Return the relation with MIN and MAX of public columns as further keys, where a group is of
    one public row; the same object if there are none.

    A group has that row alone, with its matches or without: its columns have one value in it.
    """
    inner = map_inputs(relation, lambda r: with_public_values(r, policy, frequency))
    relation = relation if inner == relation else inner
    if not isinstance(relation, algebra.Aggregate):
        return relation
    if (padded := _padded_join(relation, policy, frequency)) is None:
        return relation
    join, names, row = padded
    if not set(row) <= {key.expression for key in relation.keys}:
        return relation
    public = {names[f.id] for f in join.left.fields if f.id in names}
    extremes = tuple(m for m in relation.measures if _is_extreme(m.call, public))
    measures = tuple(m for m in relation.measures if m not in extremes)
    if not extremes or not measures:
        return relation
    keys = (*relation.keys, *(algebra.Item(m.field, m.call.args[0]) for m in extremes))
    groups = algebra.Aggregate(relation.input, keys, measures, relation.span)
    return algebra.Project(groups, tuple(field.item for field in relation.fields))


def _padded_join(
    relation: algebra.Aggregate, policy: Policy, frequency: Frequency
) -> tuple[algebra.Join, dict[int, tree.Ref], tuple[tree.Ref, ...]] | None:
    """Return the LEFT JOIN of a public table under renamings and filters of its columns, all
    columns by their id there, and the key of its rows; None for other relations.
    """
    below = relation.input
    between = list[algebra.Project | algebra.Filter]()
    while isinstance(below, algebra.Filter | algebra.Project):
        between.append(below)
        below = below.input
    if relation.sets or not isinstance(below, algebra.Join):
        return None
    if below.kind is not tree.JoinKind.LEFT:
        return None
    names = {field.id: field.ref for field in below.fields}
    for part in reversed(between):
        there = {names[f.id].id for f in below.left.fields if f.id in names}
        if isinstance(part, algebra.Filter) and not refs(part.predicate) <= there:
            return None
        names = _renamed(names, part) if isinstance(part, algebra.Project) else names
    row = _key(below.left, policy)
    if not row or not {ref.id for ref in row} <= names.keys():
        return None
    if not _is_unique(frequency, below.left, row):
        return None
    return below, names, tuple(names[ref.id] for ref in row)


def _is_extreme(call: tree.AggregateCall, public: set[tree.Ref]) -> bool:
    """Test for MIN or MAX of a public column; equal values of DOUBLE may differ (R99)."""
    plain = not (call.distinct or call.filter or call.clip or call.epsilon)
    exact = call.function in ("min", "max") and call.type.kind is not tree.Kind.DOUBLE
    return plain and exact and call.args[0] in public


def _is_unique(frequency: Frequency, public: algebra.Relation, row: tuple[tree.Ref, ...]) -> bool:
    return frequency(public, row) <= 1


def _renamed(names: dict[int, tree.Ref], projection: algebra.Project) -> dict[int, tree.Ref]:
    """Return columns by their id below a projection, with the ids that it gives them."""
    given = {
        i.expression.id: i.field.ref for i in projection.items if isinstance(i.expression, tree.Ref)
    }
    return {old: given[ref.id] for old, ref in names.items() if ref.id in given}


def _by_row(
    relation: algebra.Aggregate,
    columns: tuple[tree.Ref, ...],
    marker: tree.Ref,
    identities: Identities,
) -> algebra.Relation:
    """Return the counts of an aggregate as sums over public rows, which `columns` identify."""
    keys = tuple(algebra.Item(identities.field("", ref.type), ref) for ref in columns)
    names = {ref.id: key.field.ref for ref, key in zip(columns, keys, strict=True)}
    numbers, sums, items = list[algebra.Measure](), list[algebra.Measure](), list[algebra.Item]()
    kind = result_type("sum", (tree.INTEGER,))
    assert kind is not None
    for measure in relation.measures:
        field, total = identities.field("", tree.INTEGER), identities.field("", kind)
        (arg,) = measure.call.args
        whole = isinstance(arg, tree.Star)
        counted = tree.AggregateCall(
            "count", (marker if whole else arg,), type=tree.INTEGER, span=measure.call.span
        )
        numbers.append(algebra.Measure(field, counted))
        number: tree.Expression = field.ref
        if whole:
            number = tree.Call("greatest", (AT_LEAST, field.ref), tree.INTEGER)
        summed = tree.AggregateCall("sum", (number,), type=kind, span=measure.call.span)
        sums.append(algebra.Measure(total, summed))
        there = tree.Call(
            "coalesce",
            (tree.Cast(total.ref, tree.INTEGER), tree.Literal(0, tree.INTEGER)),
            tree.INTEGER,
        )
        items.append(algebra.Item(measure.field, there))
    by_row = algebra.Aggregate(relation.input, keys, tuple(numbers), relation.span)
    groups = tuple(
        algebra.Item(key.field, substitute(key.expression, names)) for key in relation.keys
    )
    whole_groups = algebra.Aggregate(by_row, groups, tuple(sums), relation.span)
    return algebra.Project(whole_groups, (*(key.field.item for key in groups), *items))


def _counts(call: tree.AggregateCall) -> bool:
    """Test for COUNT(*) or COUNT of a column."""
    plain = not (call.distinct or call.filter or call.clip or call.epsilon)
    return call.function == "count" and plain and isinstance(call.args[0], tree.Star | tree.Ref)


def _equated(join: algebra.Join) -> tree.Ref | None:
    """Return a column of the right side that is not NULL wherever a row has a match."""
    right = {field.id for field in join.right.fields}
    for part in conjuncts(join.condition):
        match part:
            case tree.Call("eq", (tree.Ref() as one, tree.Ref() as other)):
                for column in (one, other):
                    if column.id in right:
                        return column
    return None


def _key(public: algebra.Relation, policy: Policy) -> tuple[tree.Ref, ...]:
    """Return the declared key of a public table; () for other relations."""
    table = policy.table(public.table) if isinstance(public, algebra.Scan) else None
    if table is None or table.private:
        return ()
    fields = {field.name.lower(): field for field in public.fields}
    named = [fields.get(name.lower()) for name in table.key]
    return tuple(field.ref for field in named if field is not None) if all(named) else ()
