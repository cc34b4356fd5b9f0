"""Errors of windows and aggregates over noisy rows.

The total of a window that contains its own row is the row's addition plus a rest, which is
independent of it and has the remaining variance. So the error of a share, `n / SUM(n) OVER ()`,
takes into account that n is in both. The total of a window that contains a smaller one is the
smaller total plus such a rest.

It is post-processing: PRIVACY.md R66.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from math import inf

from dpsql.compiler.errors.bias_ends import NOTHING, Ends, rest_ends, total_ends
from dpsql.compiler.errors.empty_groups import is_harmless, unsure_ends
from dpsql.compiler.errors.expression_errors import or_zero, remaining
from dpsql.compiler.errors.noisy_columns import Traced, is_linear
from dpsql.compiler.errors.selection_errors import Selection, error_of_extreme
from dpsql.compiler.errors.spread_errors import ALONG, SPREADS, error_along, error_of_spread
from dpsql.compiler.resolve.scopes import Identities
from dpsql.model import tree
from dpsql.model.algebra import Item, Project, Window, WindowItem
from dpsql.model.dataclass import dataclass, replace
from dpsql.model.walk import children

SHARES = frozenset({"ntile", "percent_rank", "cume_dist"})
"""Windows that depend on how many rows there are, and on how many precede."""

PLACES = SHARES | {"count", "rank", "dense_rank", "row_number"}
"""Windows that depend on the rows that there are, and not only on their arguments."""


def is_noisy(source: Traced, call: tree.AggregateCall | tree.WindowCall) -> bool:
    """Test whether noise reaches the call's value: by its rows, arguments, filter, order or
    partition.

    COUNT(x) of a noisy x alone is exact where noise cannot make x NULL.
    """
    if source.selected:
        return True
    counts = call.function in ("count", "regr_count") and not call.distinct
    if counts and all(map(source.is_certain, call.args)):
        return source.is_noisy(*children(call)[len(call.args) :])
    return source.is_noisy(*children(call))


def argument_error(
    source: Traced, call: tree.AggregateCall | tree.WindowCall
) -> tree.Expression | None:
    """Return the error of the first argument; None where noise also decides which rows count, or
    how.
    """
    others = children(call)[1:]
    if call.function in ("quantile_cont", "quantile_disc"):
        others = tuple(other for other in others if other != call.args[0])  # their own order
    if not call.args or call.distinct or source.is_noisy(*others):
        return None
    if source.selected and not _adds_first_rows(source, call):
        return None
    skips = isinstance(call, tree.WindowCall) and call.ignore_nulls
    if skips and not source.is_certain(call.args[0]):
        return None
    return source.error_in_total(call.args[0])


def _adds_first_rows(source: Traced, call: tree.AggregateCall | tree.WindowCall) -> bool:
    """Test whether a call adds the number by which its rows are the first, over all of them.

    The sum of the first rows moves by no more than their widened errors together: noise changes a
    sum of the largest numbers by no more than the sum of as many of its own largest ones.
    """
    if not isinstance(call, tree.AggregateCall) or call.filter is not None:
        return False
    value = source.rewritten(call.args[0])
    return call.function in ("sum", "avg") and value is not None and value == source.first_by


def error_of_many(
    source: Traced,
    call: tree.AggregateCall | tree.WindowCall,
    error: tree.Expression | None,
    named: Callable[[str, tree.Expression], tree.Expression],
    extreme: Callable[[tree.Expression], tree.Expression],
) -> tree.Expression | None:
    """Return the error of an aggregate of values with these errors; None where there is no rule.

    Where the values may be dependent, it is at most the sum of their errors. `named` adds a hidden
    column with an aggregate over the same rows. `extreme` returns the error of MIN and MAX of
    values with an error.
    """
    if error is None:
        return None
    apart = not any(source.origin[base].many for base in source.bases(call.args[0]))
    match call.function:
        case "sum" | "avg":
            error = of_counted(call.args[0], error)
            total = named("sum", error * error if apart else error)
            total = tree.scalar("sqrt", total) if apart else total
            if call.function == "sum":
                return total
            return total / named("count", call.args[0]).to(tree.DOUBLE)
        case "min" | "max" | "median" | "quantile_cont" | "quantile_disc":
            return extreme(error)
        case "any_value" | "first" | "last" | "arg_max" | "arg_min":
            return named("max", error)
        case "lag" | "lead" | "first_value" | "last_value" | "nth_value":
            skips = isinstance(call, tree.WindowCall) and call.ignore_nulls
            return named(
                call.function, tree.when(call.args[0].is_null(), None, error) if skips else error
            )
        case function if function in SPREADS and apart:
            return error_of_spread(function, call.args[0], of_counted(call.args[0], error), named)
        case function if function in ALONG and apart:
            return error_along(call, of_counted(call.args[0], error), named)
        case _:
            return None


def ends_of_many(
    source: Traced,
    call: tree.AggregateCall | tree.WindowCall,
    named: Callable[[str, tree.Expression], tree.Expression],
) -> Ends | None:
    """Return the ends of an aggregate, beyond its noise; None if no limit clips it."""
    value = call.args[0]
    ends = source.ends(value)

    def counted(end: tree.Expression) -> tree.Expression:
        return of_counted(value, end)

    return total_ends(ends, call.function, counted, named, lambda: named("count", value))


def of_counted(value: tree.Expression, error: tree.Expression) -> tree.Expression:
    """Return the error of a counted value: 0 where it is NULL."""
    return tree.when(value.is_null(), 0.0, error)


def trace_windows(
    source: Traced, relation: Window, identities: Identities, selection: Selection
) -> Traced:
    """Return the relation with the hidden columns of its windows' errors."""
    windows = _Windows(source, relation, identities, selection)
    calls = [item.call for item in relation.items]
    for item in sorted(relation.items, key=lambda i: sum(_holds(i.call, c) for c in calls)):
        if is_noisy(source, item.call):
            windows.add(item)
        elif source.present is not None and item.call.function in PLACES:
            windows.add_place(item)
    return windows.traced()


@dataclass(frozen=True, slots=True)
class _Part:
    """A part of a total: its own row, or the total of the window `call`.

    It has its value over the rows' columns and over bases, its variance, the reads of its
    bases, and its ends.
    """

    value: tree.Expression
    meaning: tree.Expression
    variance: tree.Expression
    reads: frozenset[int]
    call: tree.WindowCall | None = None
    ends: Ends | None = None


class _Windows:
    """The windows over `source` as they are added, smaller ones first."""

    def __init__(
        self, source: Traced, relation: Window, identities: Identities, selection: Selection
    ) -> None:
        self._source, self._relation, self._identities = source, relation, identities
        self._selection = selection
        self._below: list[WindowItem] = []
        self._hidden: list[WindowItem] = []
        self._rests: list[Item] = []
        self._parts: list[_Part] = []
        self._reads: dict[tuple[tree.WindowCall, frozenset[int]], int] = {}
        self._meaning, self._deviation = dict(source.meaning), dict(source.deviation)
        self._origin, self._biased = dict(source.origin), dict(source.biased)

    def traced(self) -> Traced:
        below = self._source.relation
        if self._below:
            below = Window(below, tuple(self._below))
        relation = Window(below, self._relation.items + tuple(self._hidden))
        items = tuple(f.item for f in relation.fields)
        return replace(
            self._source,
            relation=Project(relation, items + tuple(self._rests)) if self._rests else relation,
            meaning=self._meaning,
            deviation=self._deviation,
            origin=self._origin,
            biased=self._biased,
        )

    def add(self, item: WindowItem) -> None:
        call = item.call
        error = argument_error(self._source, call)
        bases = [base for arg in call.args[:1] for base in self._source.bases(arg)]
        if any(base in self._source.increments for base in bases):
            self._whole(item, error, frozenset())
            self._deviation[item.field.id] = self._of_combinations(call)
            return
        own = [self._source.origin[base] for base in bases]
        apart = not any(origin.many for origin in own)
        reads = frozenset(origin.read for origin in own)
        if error is not None and apart and is_linear(call) and _holds_its_row(call):
            self._split(item, error, reads)
        else:
            self._whole(item, error, reads if apart and _is_of_others(call) else frozenset())

    def add_place(self, item: WindowItem) -> None:
        """Record a number or rank of listed groups, which is exact if all surely have rows."""
        call, value = item.call, item.field.ref
        self._meaning[value.id], self._deviation[value.id] = value, value.to(tree.DOUBLE) * 0.0
        if call.distinct or call.function in SHARES:
            whole = replace(call, order_by=(), frame=None)
            self._biased[value.id] = self._unless_empty(whole, None)
            return
        assert self._source.present is not None
        unsure = self._named(call, "sum", tree.operand(1.0) - self._source.present.column)
        first = 0.0 if call.function == "count" else 1.0
        below = tree.scalar("least", or_zero(unsure), value.to(tree.DOUBLE) - first)
        self._biased[value.id] = Ends(below, NOTHING)

    def _of_combinations(self, call: tree.WindowCall) -> tree.Expression | None:
        """Return the error of a running sum that was measured as such; None for other totals."""
        meaning = self._source.rewritten(call.args[0])
        if call.function != "sum" or not isinstance(meaning, tree.Ref):
            return None
        total = self._named(call, "sum", self._source.increments[meaning.id])
        return tree.scalar("sqrt", tree.scalar("greatest", total, 0.0))

    def _whole(
        self, item: WindowItem, error: tree.Expression | None, apart: frozenset[int]
    ) -> None:
        """Record a window as one base, independent of bases with a read in `apart`."""
        call, base = item.call, item.field.id
        self._meaning[base] = tree.Ref(base, item.field.type)
        self._deviation[base] = error_of_many(
            self._source, call, error, partial(self._named, call), partial(self._extreme, call)
        )
        if error is not None:
            self._add_ends(base, self._ends(call))
        origin = self._source.total(call.args[0], base) if call.args else None
        if origin is not None:
            self._origin[base] = replace(origin, place=None, apart=apart, many=True)

    def _split(self, item: WindowItem, error: tree.Expression, reads: frozenset[int]) -> None:
        """Record a total as the sum of a known part and an independent base."""
        call, argument = item.call, item.call.args[0]
        if call.function == "sum":
            total: tree.Expression = item.field.ref.to(tree.DOUBLE)
        else:
            total = self._named(call, "sum", argument.to(tree.DOUBLE))
        meaning = self._source.rewritten(argument)
        assert meaning is not None
        error = of_counted(argument, error)
        square = error * error
        part = _Part(argument, meaning, square, reads)
        part = replace(part, ends=self._source.ends(argument))
        for smaller in self._parts:
            if smaller.call is not None and _holds(call, smaller.call):
                part = smaller
        rest = self._identities.field("rest", tree.DOUBLE)
        self._rests.append(Item(rest, total - or_zero(part.value)))
        variance = self._named(call, "sum", square)
        self._deviation[rest.id] = remaining(variance, part.variance)
        read = self._reads.setdefault((_rows(call), part.reads), rest.id)
        origin = self._source.total(argument, read)
        assert origin is not None
        self._origin[rest.id] = replace(origin, apart=part.reads, many=True)
        ends = self._ends(call, "sum")
        self._add_ends(rest.id, rest_ends(ends, part.ends))
        whole = or_zero(part.meaning) + tree.Ref(rest.id, tree.DOUBLE)
        self._parts.append(_Part(total, whole, variance, part.reads | {read}, call=call, ends=ends))
        if call.function == "avg":
            whole = whole / self._named(call, "count", argument).to(tree.DOUBLE)
        self._meaning[item.field.id] = whole

    def _extreme(self, call: tree.WindowCall, error: tree.Expression) -> tree.Expression:
        """Return the error of MIN, MAX or a quantile. In a moving frame all rows count as rivals,
        and for quantiles.
        """
        rivals: tree.Expression = tree.Literal(1.0, tree.DOUBLE)
        whole = call.frame is None and not call.order_by and call.function in ("min", "max")
        if whole and self._selection.selected:
            value = call.args[0].to(tree.DOUBLE)
            one = tree.when(value.is_null(), 0.0, 1.0)
            cut, rows = (self._identities.field(name, tree.DOUBLE) for name in ("cut", "rows"))
            counted = replace(call, function="sum", args=(one,), type=tree.DOUBLE)
            self._below.append(WindowItem(cut, replace(call, args=(value,))))
            self._below.append(WindowItem(rows, counted))
            rivals = self._selection.is_near(value, cut.ref, error, rows.ref)
        return error_of_extreme(error, rivals, partial(self._named, call), self._selection)

    def _ends(self, call: tree.WindowCall, function: str = "") -> Ends | None:
        """Return the ends of a window, or of another `function` over its rows."""
        computed = replace(call, function=function or call.function)
        ends = ends_of_many(self._source, computed, partial(self._named, call))
        if self._source.present is None or is_harmless(self._source, call):
            return ends
        return self._unless_empty(call, ends)

    def _unless_empty(self, call: tree.WindowCall, ends: Ends | None) -> Ends:
        """Return the ends, unknown where a group of the window may have no rows."""
        assert self._source.present is not None
        column, function = self._source.present.column, call.function
        shifts = function in ("lag", "lead")
        if call.ignore_nulls or (shifts and len(call.args) > 1):
            call, shifts = tree.WindowCall("min", (column,), call.partition_by), False
        least = self._named(call, function if shifts else "min", column)
        return unsure_ends(ends, tree.scalar("coalesce", least, 1.0))

    def _add_ends(self, base: int, ends: Ends | None) -> None:
        if ends is not None:
            self._biased[base] = ends

    def _named(self, call: tree.WindowCall, function: str, arg: tree.Expression) -> tree.Expression:
        """Return a hidden column: another function over the same rows. A default has no error."""
        kind = tree.INTEGER if function == "count" else tree.DOUBLE
        hidden = self._identities.field("error", kind)
        others = (*call.args[1:2], *(tree.operand(0.0) for _ in call.args[2:]))
        args = (arg, *others) if function == call.function else (arg,)
        new = replace(call, function=function, args=args, type=kind)
        self._hidden.append(WindowItem(hidden, new))
        return tree.Ref(hidden.id, kind)


def _rows(call: tree.WindowCall) -> tree.WindowCall:
    return replace(call, function="", args=(), type=tree.DOUBLE)


def _bounds(frame: tree.Frame) -> tuple[float, float]:
    """Return the offsets from its row at which a frame begins and ends."""
    (start, before), (end, after) = frame.start, frame.end
    return (
        -inf if start is None else start * before,
        inf if end is None else end * after,
    )


def _holds_its_row(call: tree.WindowCall) -> bool:
    if call.frame is None:
        return True
    start, end = _bounds(call.frame)
    return start <= 0 <= end and not call.frame.exclude


def _is_of_others(call: tree.WindowCall) -> bool:
    """Test whether the row itself does not contribute to the value."""
    if call.function in ("lag", "lead"):
        offset = call.args[1] if len(call.args) > 1 else tree.Literal(1, tree.INTEGER)
        return isinstance(offset, tree.Literal) and offset.value != 0
    if call.frame is None or call.frame.unit != "ROWS":
        return False
    start, end = _bounds(call.frame)
    return start > 0 or end < 0 or call.frame.exclude in ("CURRENT ROW", "GROUP")


def _holds(call: tree.WindowCall, other: tree.WindowCall) -> bool:
    """Test whether a total covers all rows of another total of the same values, and more."""
    if call.args != other.args or not (is_linear(call) and is_linear(other)):
        return False
    if not _holds_its_row(other) or _rows(call) == _rows(other):
        return False
    whole = not call.order_by if call.frame is None else _bounds(call.frame) == (-inf, inf)
    if whole and not (call.frame and call.frame.exclude):
        return set(call.partition_by) <= set(other.partition_by)
    if (call.partition_by, call.order_by) != (other.partition_by, other.order_by):
        return False
    if call.frame is None or other.frame is None or {call.frame.unit, other.frame.unit} != {"ROWS"}:
        return False
    (start, end), (first, last) = _bounds(call.frame), _bounds(other.frame)
    return start <= first and last <= end and not call.frame.exclude
