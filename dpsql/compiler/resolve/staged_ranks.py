"""Tiles of many units' rows, and ranks that are compared with constants, by released quantiles.

With n rows in a partition, a row's value x and p strictly between 0 and 1:

* CUME_DIST() <= p holds where x is less than the value of rank ⌊p·n⌋ + 1, and > p elsewhere.
* CUME_DIST() < p holds where x is less than the value of rank ⌈p·n⌉, and >= p elsewhere.
* PERCENT_RANK() <= p holds where x is at most the value of rank ⌊p·(n - 1)⌋ + 1, and > p elsewhere.
* PERCENT_RANK() < p holds where x is at most the value of rank ⌈p·(n - 1)⌉, and >= p elsewhere.

Equal values have equal ranks there, so this holds with ties. The quantile is released first, and
each row is compared with that of its partition. A descending order mirrors all of it. The order has
one key, which is never NULL, or NULL is one more value of it, greater than all others. The only row
of a partition has no row of rank 0 to be compared with: PERCENT_RANK() < p is true of it in SQL,
and may be false here.

NTILE(k) is the number of the first tile whose end x does not pass. Tile i ends at the value of rank
⌈i·n/k⌉. SQL divides equal values at an end by chance. Here they share a tile, and the answer says
so; whole numbers and days, of which many are equal, are refused. So is NULL, unless only x is
aggregated: then no aggregate has rows without it. Where k does not divide n, an end may be one rank
from that of SQL.

Proof (PRIVACY.md R104).
"""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from math import isclose

from dpsql.compiler.resolve.scopes import Identities
from dpsql.compiler.resolve.staged_windows import with_released
from dpsql.compiler.resolve.typing import type_of
from dpsql.compiler.resolve.window_aggregates import (
    MOST_PARTS,
    WindowedAggregate,
    build_quantile,
    has_greatest_null,
    lacks_null,
)
from dpsql.model.algebra import (
    Aggregate,
    Field,
    Filter,
    Item,
    Measure,
    Project,
    Relation,
    Window,
)
from dpsql.model.dataclass import dataclass, replace
from dpsql.model.tree import (
    BOOLEAN,
    INTEGER,
    AggregateCall,
    Call,
    Expression,
    Kind,
    Literal,
    Ref,
    WindowCall,
    scalar,
)
from dpsql.model.vocabulary import Policy
from dpsql.model.walk import both, map_children, map_inputs, refs

MOST_TILES = 100
"""Largest number of tiles, which have an end each."""

_OF_VALUES = frozenset("sum avg min max median count quantile_disc quantile_cont".split())
_RARELY_EQUAL = (Kind.DECIMAL, Kind.DOUBLE, Kind.TIMESTAMP, Kind.TIMESTAMPTZ)
_MIRRORED = {"lt": "gt", "le": "ge", "gt": "lt", "ge": "le"}
_COMPARED = {
    "cume_dist": {"le": "lt", "gt": "ge", "lt": "lt", "ge": "ge"},
    "percent_rank": {"le": "le", "gt": "gt", "lt": "le", "ge": "gt"},
}
"""The comparison of a value with its quantile, by the comparison of its rank with a share."""


def as_edges(relation: Relation, policy: Policy, identities: Identities) -> Relation:
    """Return the relation with such ranks as quantiles; the same object if there are none."""
    inner = map_inputs(relation, lambda r: as_edges(r, policy, identities))
    relation = relation if inner == relation else inner
    if isinstance(relation, Window):
        return _as_tiles(relation, policy, identities) or relation
    if not isinstance(relation, Aggregate) or relation.sets:
        return relation
    windowed = WindowedAggregate.below(relation, policy)
    if windowed is None:
        return relation
    return _Edges(windowed, policy, identities, {}).compare_ranks() or relation


def _as_tiles(window: Window, policy: Policy, identities: Identities) -> Relation | None:
    """Return the rows with their tiles, which joins may follow; None for other windows."""
    alone = WindowedAggregate(
        aggregate=Aggregate(window, (), ()),
        window=window,
        keys=(),
        calls=(),
        between=(),
        policy=policy,
    )
    edges = _Edges(alone, policy, identities, {})
    tiles = {item.field.id: edges.tile(item.field.ref) for item in window.items}
    items = tuple(Item(f, tiles.get(f.id) or f.ref) for f in window.fields)
    return None if None in tiles.values() else Project(edges.joined(), items)


@dataclass(frozen=True, slots=True)
class _Edges:
    """Builder of an aggregate whose ranks are compared with released quantiles, its `edges`."""

    windowed: WindowedAggregate
    policy: Policy
    identities: Identities
    edges: dict[tuple[tuple[Expression, ...], AggregateCall], Field]

    def compare_ranks(self) -> Relation | None:
        """Return the aggregate without its windows; None where one is read in another way."""
        windowed = self.windowed
        keys = tuple(map(self._without_ranks, windowed.keys))
        calls = tuple(map(self._without_ranks, windowed.calls))
        between = tuple(map(self._without_ranks, windowed.between))
        read = frozenset[int]().union(*map(refs, (*keys, *calls, *between)))
        if not self.edges or not read.isdisjoint(windowed.windows):
            return None
        rows, condition = self.joined(), both(between)
        rows = rows if condition is None else Filter(rows, condition)
        aggregate = windowed.aggregate
        grouped = tuple(
            Item(item.field, key) for item, key in zip(aggregate.keys, keys, strict=True)
        )
        measures = tuple(
            Measure(measure.field, call)
            for measure, call in zip(aggregate.measures, calls, strict=True)
            if isinstance(call, AggregateCall)
        )
        result = Aggregate(rows, grouped, measures, aggregate.span)
        return Project(result, tuple(field.item for field in aggregate.fields))

    def joined(self) -> Relation:
        """Return the rows of the window, joined with the quantiles of their partitions."""
        source = self.windowed.window.input
        rows: Relation = source
        for parts in dict.fromkeys(parts for parts, _ in self.edges):
            ends = tuple(
                Measure(field, call) for (own, call), field in self.edges.items() if own == parts
            )
            rows = with_released(rows, source, parts, ends, self.policy, self.identities)
        return rows

    def _without_ranks(self, expression: Expression) -> Expression:
        """Return an expression with each comparison of a rank as one with a quantile."""
        match expression:
            case Call(function, (Ref() as rank, Literal() as share)) if function in _MIRRORED:
                condition = self._edge(expression, rank, function, share)
            case Call(function, (Literal() as share, Ref() as rank)) if function in _MIRRORED:
                condition = self._edge(expression, rank, _MIRRORED[function], share)
            case Ref():
                condition = self.tile(expression)
            case _:
                condition = None
        return condition or map_children(expression, self._without_ranks)

    def tile(self, column: Ref) -> Call | None:
        """Return the number of a row's tile by the ends of the others; None for other columns."""
        window = self.windowed.windows.get(column.id)
        if window is None or not self._is_rank(window, "ntile"):
            return None
        (number,) = window.args
        tiles = number.value if isinstance(number, Literal) else None
        if not isinstance(tiles, int) or not 1 < tiles <= MOST_TILES:
            return None
        (key,) = window.order_by
        value, falls, nulls = key.expression, key.descending, self._has_null(key.expression)
        kind, span = type_of(value), window.span
        if kind.kind not in _RARELY_EQUAL:
            return None
        if nulls and not has_greatest_null(key):
            # The order of -x is the opposite one, with NULL where it is.
            if not kind.is_numeric:
                return None
            value, falls = scalar("neg", value, kind=kind), not falls
        parts = list[Expression]()
        for tile in range(1, tiles):
            share, none = Fraction(tile, tiles), Fraction(0)
            edge = build_quantile(value, share, none, falls=falls, span=span, nulls=nulls)
            end = self._named(window, edge).ref
            inside = Call("ge" if falls else "le", (value, end), BOOLEAN, span)
            parts += _with_null(inside) if nulls else inside, Literal(tile, INTEGER)
        return Call("case", (*parts, Literal(tiles, INTEGER)), column.type, column.span)

    def _edge(self, call: Call, rank: Ref, function: str, share: Literal) -> Call | None:
        """Return the comparison of a row's value with the quantile at a share; None for others."""
        window = self.windowed.windows.get(rank.id)
        part = _between_ends(share)
        if window is None or part is None or not self._is_rank(window, *_COMPARED):
            return None
        (key,) = window.order_by
        falls, value = key.descending, key.expression
        nulls, span = self._has_null(value), window.span
        shift = part if window.function == "percent_rank" else Fraction(0)
        if function in ("le", "gt"):
            edge = build_quantile(value, 1 - part, shift, falls=not falls, span=span, nulls=nulls)
        else:
            edge = build_quantile(value, part, -shift, falls=falls, span=span, nulls=nulls)
        field = self._named(window, edge)
        compared = _COMPARED[window.function][function]
        compared = _MIRRORED[compared] if falls else compared
        condition = replace(call, function=compared, args=(value, field.ref))
        return _with_null(condition) if nulls else condition

    def _named(self, window: WindowCall, edge: AggregateCall) -> Field:
        named = window.partition_by, edge
        if named not in self.edges:
            self.edges[named] = self.identities.field("", edge.type)
        return self.edges[named]

    def _is_rank(self, window: WindowCall, *functions: str) -> bool:
        """Test for a rank of one of these functions by one value, of which NULL is the greatest, or
        which is never NULL.
        """
        plain = replace(window, frame=None, filter=None) == window
        if window.function not in functions or len(window.order_by) != 1 or not plain:
            return False
        (key,) = window.order_by
        if window.function == "ntile":
            return self._aggregates_only(key.expression) or not self._has_null(key.expression)
        return has_greatest_null(key) or not self._has_null(key.expression)

    def _aggregates_only(self, value: Expression) -> bool:
        """Test whether rows without a value are in no aggregate."""
        calls = self.windowed.calls
        return bool(calls) and all(
            call.function in _OF_VALUES and call.args[:1] == (value,) for call in calls
        )

    def _has_null(self, value: Expression) -> bool:
        return not lacks_null(value, self.windowed.window.input, self.policy)


def _with_null(condition: Call) -> Call:
    """Return a comparison of two values of which NULL is the greatest; it is never NULL."""
    left, right = (scalar("is_null", side, kind=BOOLEAN) for side in condition.args)
    above, below = (right, left) if condition.function in ("le", "lt") else (left, right)
    beyond: Expression = above
    if condition.function in ("lt", "gt"):
        beyond = scalar("and", above, scalar("not", below, kind=BOOLEAN), kind=BOOLEAN)
    plain = scalar("coalesce", condition, Literal(value=False, type=BOOLEAN), kind=BOOLEAN)
    return scalar("or", plain, beyond, kind=BOOLEAN)


def _between_ends(share: Literal) -> Fraction | None:
    """Return a share strictly between 0 and 1; None for others and for ones too fine."""
    value = share.value
    if isinstance(value, bool) or not isinstance(value, float | Decimal | int):
        return None
    part = Fraction(value).limit_denominator(MOST_PARTS)
    return part if 0 < part < 1 and isclose(part, value, rel_tol=1e-15) else None
