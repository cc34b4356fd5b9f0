"""Errors of aggregates over noisy rows, with hidden columns that compute them.

It is post-processing: PRIVACY.md R66.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

from dpsql.compiler.errors import window_errors
from dpsql.compiler.errors.bias_ends import Ends
from dpsql.compiler.errors.empty_groups import GroupsRead
from dpsql.compiler.errors.noisy_columns import ErrorSource, Traced, is_linear, of_totals
from dpsql.compiler.errors.selection_errors import Selection, error_of_extreme
from dpsql.compiler.resolve.scopes import Identities
from dpsql.model import algebra, tree
from dpsql.model.dataclass import replace
from dpsql.model.intervals import Interval


def trace_aggregate(
    source: Traced,
    relation: algebra.Aggregate,
    identities: Identities,
    selection: Selection,
    range_of: Callable[[tree.Expression], Interval],
) -> Traced:
    """Return the relation with the hidden columns of its measures' errors."""
    aggregates = _Aggregates(source, relation, identities, selection, range_of)
    for measure in relation.measures:
        aggregates.add(measure)
    return aggregates.traced()


class _Aggregates:
    """The measures over `source` as they are added. Those of listed groups leave out groups that
    may have no rows.
    """

    def __init__(
        self,
        source: Traced,
        relation: algebra.Aggregate,
        identities: Identities,
        selection: Selection,
        range_of: Callable[[tree.Expression], Interval],
    ) -> None:
        self._source, self._relation = source, relation
        self._identities, self._selection = identities, selection
        self._extra, self._below = list[algebra.Measure](), list[algebra.WindowItem]()
        self._measures = list[algebra.Measure]()
        self._groups = None
        if source.present is not None:
            self._groups = GroupsRead(
                relation, source, source.present, identities, range_of, extra=self._extra
            )
        keys = [key.expression for key in relation.keys]
        within = source.within(frozenset(key.id for key in keys if isinstance(key, tree.Ref)))
        self._within = replace(within, first_by=None) if keys else within
        noisy = [key for key in relation.keys if source.is_noisy(key.expression)]
        self._regrouped = bool(noisy)
        self._fields = {key.field.id: key.field for key in noisy}
        self._deviation: dict[int, tree.Expression | None] = dict.fromkeys(self._fields)
        self._biased: dict[int, Ends] = {}
        self._totals: list[tuple[algebra.Field, tree.AggregateCall]] = []

    def add(self, measure: algebra.Measure) -> None:
        """Add a measure, and its error where noise reaches it."""
        groups, base = self._groups, measure.field.id
        call = measure.call if groups is None else groups.of_sure(measure.call)
        self._measures.append(replace(measure, call=call))
        noisy = self._regrouped or window_errors.is_noisy(self._source, call)
        if not noisy and call == measure.call:
            return
        self._fields[base] = measure.field
        self._totals.append((measure.field, call))
        error = None
        if not self._regrouped:
            error = window_errors.argument_error(self._within, call)
        if groups is None or error is None:
            self._deviation[base], ends = self._error(call, error)
        elif groups.counts(call):
            self._deviation[base] = measure.field.ref.to(tree.DOUBLE) * 0.0
            ends = groups.wider(measure, None)
        else:
            self._deviation[base], ends = self._error(call, groups.error(call, error))
            ends = groups.wider(measure, ends)
        if ends is not None:
            self._biased[base] = ends

    def traced(self) -> Traced:
        source, relation, groups = self._source, self._relation, self._groups
        present = groups.of_results() if groups is not None and relation.keys else None
        rows = source.relation if groups is None else groups.rows
        rows = algebra.Window(rows, tuple(self._below)) if self._below else rows
        origin: Mapping[int, ErrorSource] = of_totals(source, self._totals)
        if not relation.keys:
            origin = _with_addends(source, self._totals, origin)
        selected = bool(relation.keys) and (self._regrouped or source.selected)
        return Traced(
            replace(relation, input=rows, measures=(*self._measures, *self._extra)),
            meaning={n: tree.Ref(n, f.type) for n, f in self._fields.items()},
            deviation=self._deviation,
            origin=origin,
            selected=selected,
            certain=_certain_totals(source, self._totals) if relation.keys else frozenset(),
            biased=self._biased,
            present=present,
        )

    def _error(
        self, call: tree.AggregateCall, error: tree.Expression | None
    ) -> tuple[tree.Expression | None, Ends | None]:
        """Return the error of a call, and its ends, given the error of its argument."""
        named = partial(self._named, call)
        extreme = partial(self._extreme, call)
        deviation = window_errors.error_of_many(self._within, call, error, named, extreme)
        if error is None:
            return deviation, None
        return deviation, window_errors.ends_of_many(self._within, call, named)

    def _named(
        self, call: tree.AggregateCall, function: str, arg: tree.Expression
    ) -> tree.Expression:
        """Return a hidden column: another aggregate over the rows of a call."""
        kind = tree.INTEGER if function == "count" else tree.DOUBLE
        hidden = self._identities.field("error", kind)
        other = tree.AggregateCall(function, (arg,), filter=call.filter, type=kind)
        self._extra.append(algebra.Measure(hidden, other))
        return tree.Ref(hidden.id, kind)

    def _extreme(self, call: tree.AggregateCall, error: tree.Expression) -> tree.Expression:
        """Return the error of MIN, MAX or a quantile; windows below hold the extremes. All rows
        are rivals of a quantile.
        """
        rivals: tree.Expression = tree.Literal(1.0, tree.DOUBLE)
        if self._selection.selected and call.function in ("min", "max"):
            value = call.args[0].to(tree.DOUBLE)
            cut = self._over_rows(call, call.function, value)
            rows = self._over_rows(call, "sum", tree.when(value.is_null(), 0.0, 1.0))
            rivals = self._selection.is_near(value, cut, error, rows)
        return error_of_extreme(error, rivals, partial(self._named, call), self._selection)

    def _over_rows(
        self, call: tree.AggregateCall, function: str, arg: tree.Expression
    ) -> tree.Expression:
        """Return a column of the rows below: a window over those of a call."""
        column = self._identities.field(function, tree.DOUBLE)
        by = tuple(key.expression for key in self._relation.keys)
        window = tree.WindowCall(function, (arg,), by, type=tree.DOUBLE, filter=call.filter)
        self._below.append(algebra.WindowItem(column, window))
        return column.ref


def _with_addends(
    source: Traced,
    totals: Sequence[tuple[algebra.Field, tree.AggregateCall]],
    origin: Mapping[int, ErrorSource],
) -> dict[int, ErrorSource]:
    """Return the sources of totals over all rows; those of sums record the addition of each row."""
    origins = dict(origin)
    for column, call in totals:
        if column.id in origins and call.function == "sum" and is_linear(call):
            origins[column.id] = replace(origins[column.id], addend=source.addend(call.args[0]))
    return origins


def _certain_totals(
    source: Traced, totals: Sequence[tuple[algebra.Field, tree.AggregateCall]]
) -> frozenset[int]:
    """Return the totals over a group's rows that noise cannot make NULL."""
    linear = ((column.id, call.args) for column, call in totals if is_linear(call))
    return frozenset(n for n, args in linear if all(map(source.is_certain, args)))
