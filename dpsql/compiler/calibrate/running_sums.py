"""Running sums of listed groups, where they are all that is shown: measured by combinations.

SUM(n) OVER (ORDER BY key) over independent groups errs more from row to row, and at the end as much
as all groups. Combinations of groups (`dpsql.mechanisms.matrix_noise`) cost the same and err about
equally in each row. They are taken where the summed variance of the running sums is less than that
of independent noise. Groups that are shown, compared, or added up otherwise keep independent noise:
single groups would err more.

Proof (PRIVACY.md R113). The choice follows from the text, public keys and limits, before any noise.
What is spent is no more than that of the noise that it replaces.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from fractions import Fraction
from typing import Any, TypeAlias

from dpsql.accountants import Accountant, fill_filters
from dpsql.compiler.plan.private_plan import BlockPlan, Payment
from dpsql.compiler.plan.published_keys import Domain, ListedKeys
from dpsql.mechanisms import standard_deviation
from dpsql.mechanisms.matrix_noise import MOST_GROUPS, MatrixNoise, Strategy
from dpsql.model import tree
from dpsql.model.algebra import Filter, Limit, Project, Relation, Released, Sort, Window
from dpsql.model.dataclass import dataclass, replace
from dpsql.model.tree import Kind, Value
from dpsql.model.vocabulary import NANO, Event, Mechanism, Noise, NoiseEvent
from dpsql.model.walk import children, expressions, refs

_BRANCHINGS = 4, 8, 12, 16, 20, 24
_SMALLEST = 4
"""Least variance in steps, for which rounding adds at most a fiftieth."""
_GUARD = 1 - Fraction(1, 1 << 26)
"""Factor slightly below 1, which leaves room for outward rounding of the price."""
_SORTED = frozenset(
    {Kind.INTEGER, Kind.DECIMAL, Kind.DATE, Kind.TIMESTAMP, Kind.BOOLEAN, Kind.VARCHAR}
)
"""Types of keys that the engine orders as Python does."""
_SO_FAR = ((None, -1), (0, 1)), ((None, -1), (0, -1))

Order: TypeAlias = tuple[frozenset[int], tuple[tuple[int, bool, bool], ...]]
"""Keys that separate runs, and those that order a run: which, descending, NULL first."""


def with_running_sums(
    blocks: tuple[BlockPlan, ...], outer: Relation, accountant: Accountant
) -> tuple[BlockPlan, ...]:
    """Replace noise of groups by noise of combinations, in a block whose running sums then err
    less. The query has no stages: earlier releases exclude none of the listed keys.
    """
    read = _Reading.of(outer)
    if read is None or not read.orders:
        return blocks
    block = blocks[read.block]
    keys = block.keys
    if not isinstance(keys, ListedKeys) or block.agreements:
        return blocks
    runs = {n: _runs(block, keys.domain, order) for n, order in read.orders.items()}
    releases = tuple(
        replace(r, payment=_combined(r.payment, own, accountant))
        if (own := runs.get(r.field.id)) and r.stability is None and r.single is None
        else r
        for r in block.releases
    )
    return tuple(
        replace(b, releases=releases) if n == read.block else b for n, b in enumerate(blocks)
    )


@dataclass(frozen=True, slots=True)
class _Reading:
    """The columns of a block that a query reads by running sums alone, each in one order."""

    block: int
    orders: Mapping[int, Order]

    @classmethod
    def of(cls, outer: Relation) -> _Reading | None:
        """Return what a query reads; None where it does more than running sums over a block."""
        above: list[Relation] = []
        while isinstance(outer, Project | Filter | Sort | Limit):
            above.append(outer)
            outer = outer.input
        if not isinstance(outer, Window):
            return None
        rows, below = outer.input, list[Project]()
        while isinstance(rows, Project):
            below.append(rows)
            rows = rows.input
        if not isinstance(rows, Released):
            return None
        names = {field.id: column for column, field in rows.reads.items()}
        other = set[int]()
        for item in (item for projected in reversed(below) for item in projected.items):
            if isinstance(item.expression, tree.Ref) and item.expression.id in names:
                names[item.field.id] = names[item.expression.id]
            else:
                other |= _columns([item.expression], names)
        orders, others = _orders(outer, names)
        shown = [field.ref for field in (above[0] if above else outer).fields]
        other |= others | _columns([*shown, *(e for r in above for e in expressions(r))], names)
        own = {n: min(one) for n, one in orders.items() if len(one) == 1 and n not in other}
        return cls(rows.block, own)


def _columns(read: Iterable[tree.Expression], names: Mapping[int, int]) -> set[int]:
    """Return the released columns that expressions read."""
    return {names[n] for expression in read for n in refs(expression) if n in names}


def _orders(window: Window, names: Mapping[int, int]) -> tuple[dict[int, set[Order]], set[int]]:
    """Return the orders of each column's running sums, and the columns that are read otherwise."""
    orders, others = defaultdict[int, set[Order]](set), set[int]()
    for call in (item.call for item in window.items):
        order = _order(call, names)
        if order is None:
            others |= _columns(children(call), names)
        else:
            orders[_columns(call.args, names).pop()].add(order)
    return orders, others


def _order(call: tree.WindowCall, names: Mapping[int, int]) -> Order | None:
    """Return the order of SUM(column) OVER (PARTITION BY keys ORDER BY keys); None for others."""
    frame = call.frame
    so_far = frame is None or ((frame.start, frame.end) in _SO_FAR and not frame.exclude)
    read = [*call.args, *call.partition_by, *(key.expression for key in call.order_by)]
    plain = all(isinstance(each, tree.Ref) and each.id in names for each in read)
    if call.function != "sum" or call.distinct or call.filter or not (so_far and plain):
        return None
    keys = (
        (_columns([key.expression], names).pop(), key.descending, bool(key.nulls_first))
        for key in call.order_by
    )
    return frozenset(_columns(call.partition_by, names)), tuple(keys)


def _runs(block: BlockPlan, domain: Domain, order: Order) -> tuple[tuple[int, ...], ...]:
    """Return the positions of each run's groups, in its order; none where they are unknown."""
    apart, keys = order
    places = {key.field.id: n for n, key in enumerate(block.block.keys)}
    sorted_ids = {column for column, _, _ in keys}
    kinds = {key.field.type.kind for key in block.block.keys if key.field.id in sorted_ids}
    if apart | sorted_ids != places.keys() or not kinds <= _SORTED:
        return ()
    positions = list(range(len(domain)))
    for column, descending, nulls_first in reversed(keys):

        def value(n: int, place: int = places[column]) -> Any:
            return domain[n][place]

        empty = [n for n in positions if value(n) is None]
        rest = sorted((n for n in positions if value(n) is not None), key=value, reverse=descending)
        positions = [*empty, *rest] if nulls_first else [*rest, *empty]
    runs = defaultdict[tuple[Value, ...], list[int]](list)
    for n in positions:
        runs[tuple(domain[n][places[column]] for column in sorted(apart))].append(n)
    return tuple(map(tuple, runs.values())) if len({*map(len, runs.values())}) == 1 else ()


def _combined(
    payment: Payment, runs: tuple[tuple[int, ...], ...], accountant: Accountant
) -> Payment:
    """Return the payment of the strategy whose running sums err least, for no more."""
    noise, size = payment.noise, len(runs[0])
    if not isinstance(noise, Noise) or len(payment.columns) > 1 or not 1 < size <= MOST_GROUPS:
        return payment
    price = accountant.loss(Event((NoiseEvent(noise, payment.sensitivity),)))
    most = fill_filters(price, accountant)
    best, least = payment, standard_deviation(noise) ** 2 * (size + 1) / 2
    branchings = _BRANCHINGS if noise.mechanism is Mechanism.DISCRETE_LAPLACE else (0,)
    for strategy in (Strategy(size, branching) for branching in branchings if branching < size):
        drawn = MatrixNoise(noise, strategy, runs)
        if not drawn.covers(payment.sensitivity):
            return payment
        combined = drawn.combined(payment.sensitivity)
        own = accountant.noise(Fraction(price.amount, NANO) * _GUARD, noise.delta, combined)
        drawn = replace(drawn, own=own)
        if own.mechanism is not noise.mechanism or drawn.variances.min() < _SMALLEST:
            continue
        event = Event((NoiseEvent(own, combined),))
        if drawn.variances.mean() < least and accountant.loss(event).is_within(most):
            best = replace(payment, noise=drawn, runner_up=noise)
            least = drawn.variances.mean()
    return best
