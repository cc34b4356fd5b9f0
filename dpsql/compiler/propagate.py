"""propagate: the error of every number, carried through the outer query.

Each noisy column is an expression over *base* columns with independent noise of known standard
deviation: the parts of a release, and re-aggregated values. The error of an output is the root of
the summed squares of its changes when each base moves by one standard deviation (the delta method
by finite differences; exact for linear expressions). Bases travel upwards as hidden columns.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import assert_never

from dpsql.algebra import (
    Aggregate,
    Field,
    Filter,
    Item,
    Join,
    Limit,
    Match,
    Measure,
    OneRow,
    Project,
    Relation,
    Released,
    Scan,
    Sort,
    Staged,
    Union,
    Values,
    Window,
    WindowItem,
)
from dpsql.compiler.deltas import NAN, formula
from dpsql.compiler.outputs import EXACT
from dpsql.compiler.scopes import Identities
from dpsql.compiler.small_groups import as_ratio
from dpsql.compiler.stated_errors import OneInput, Stating, require_none, states
from dpsql.compiler.traced import NoiseOfBlock, Origin, Traced, of_totals
from dpsql.tree import (
    DOUBLE,
    INTEGER,
    AggregateCall,
    Cast,
    Expression,
    Literal,
    Ref,
    WindowCall,
)
from dpsql.walk import children, composed, map_inputs, refs


def propagate(
    outer: Relation, noise: Sequence[NoiseOfBlock], identities: Identities, factor: float = 0.0
) -> tuple[Relation, tuple[Expression, ...], tuple[Expression, ...]]:
    """The outer query with its hidden columns, its outputs, and the error of each output.

    `noise` is that of each block, `factor` half an interval over an error. An error is NULL where
    the output is exact, or not a number and not chosen, and NaN where it is unknown. The errors
    that the query states are columns then.
    """
    shown = frozenset() if states(outer) else frozenset(_of_unions(outer))
    traced = _Tracer(noise, identities, Stating(identities, factor), shown).trace(outer)
    outputs = tuple(Ref(f.id, f.type) for f in outer.fields)
    return traced.relation, outputs, tuple(_error(traced, ref) for ref in outputs)


def _error(traced: Traced, output: Ref) -> Expression:
    if output.type.is_numeric:
        return traced.error(output)
    return NAN if traced.unknown(output) else EXACT


_A_HAIR_LESS = 1 - 1e-9
"""An interval ends at a value: rounding must not leave it outside."""


@dataclass(frozen=True, slots=True)
class _Tracer:
    """`shown` are columns of unions that the query shows as they are."""

    noise: Sequence[NoiseOfBlock]
    identities: Identities
    stating: Stating
    shown: frozenset[int]

    def trace(self, relation: Relation) -> Traced:
        match relation:
            case Scan() | OneRow() | Values():
                return Traced(relation)
            case Staged():
                raise AssertionError(relation)
            case Released():
                return self._released(relation)
            case Filter() | Sort() | Limit():
                plain, source = self._read(relation)
                return source.over(map_inputs(plain, lambda _input: source.relation))
            case Project():
                return self._project(relation)
            case Join():
                require_none(relation, "in ON")
                left, right = self.trace(relation.left), self.trace(relation.right)
                return Traced(
                    replace(relation, left=left.relation, right=right.relation),
                    {**left.meaning, **right.meaning},
                    {**left.deviation, **right.deviation},
                    {**left.origin, **right.origin},
                    {**left.alone, **right.alone},
                    {**left.cells, **right.cells},
                )
            case Match():
                require_none(relation, "in a condition on a subquery")
                source, other = self.trace(relation.input), self.trace(relation.other)
                return source.over(replace(relation, input=source.relation, other=other.relation))
            case Aggregate():
                return self._aggregate(relation)
            case Window():
                return self._window(relation)
            case Union():
                return self._union(relation)
            case _:
                assert_never(relation)

    def _read(self, relation: OneInput) -> tuple[OneInput, Traced]:
        """The relation, and its input with the errors that it states."""
        return self.stating.over(relation, self.trace(relation.input))

    def _released(self, relation: Released) -> Traced:
        noise = self.noise[relation.block]
        parts = relation.fields[len(relation.fields) - len(noise.deviations) :]
        cells = {} if noise.settled is None else noise.settled.cells(parts)
        shown = {n: f for n, f in enumerate(parts) if n not in noise.halves.values()}

        def error(place: int) -> Expression | None:
            if place in noise.halves:
                half = parts[noise.halves[place]]
                factor = Literal(self.stating.factor * _A_HAIR_LESS, DOUBLE)
                return formula("div", Cast(Ref(half.id, half.type), DOUBLE), factor)
            known = noise.deviations[place]
            return None if known is None else Literal(known, DOUBLE)

        return Traced(
            relation,
            {f.id: Ref(f.id, f.type) for f in shown.values()},
            {f.id: error(n) for n, f in shown.items()},
            {f.id: noise.origin(n, relation.block, parts[0].id) for n, f in shown.items()},
            {n: Literal(cell.deviation, DOUBLE) for n, cell in cells.items()},
            {**dict.fromkeys(f.id for f in shown.values()), **cells},
        )

    def _project(self, relation: Project) -> Traced:
        relation, source = self._read(relation)
        meaning: dict[int, Expression] = {}
        deviation = dict(source.deviation)
        for item in relation.items:
            if not refs(item.expression) & source.meaning.keys():
                continue
            over_bases = composed(as_ratio(item.expression), source.meaning)
            if over_bases is None:
                deviation[item.field.id] = None
            meaning[item.field.id] = over_bases or Ref(item.field.id, item.field.type)
        known = source.origin, source.alone, source.cells
        traced = Traced(relation, meaning, deviation, *known)
        there = {item.field.id for item in relation.items}
        hidden = tuple(
            Item(f, Ref(f.id, f.type))
            for f in source.relation.fields
            if f.id in traced.needed() - there
        )
        return traced.over(Project(source.relation, relation.items + hidden))

    def _aggregate(self, relation: Aggregate) -> Traced:
        relation, source = self._read(relation)
        extra: list[Measure] = []
        totals: list[tuple[Field, AggregateCall | WindowCall]] = []
        fields: dict[int, Field] = {}
        deviation: dict[int, Expression | None] = {}
        regrouped = False
        for key in relation.keys:
            if source.rewritten(key.expression) is not None:
                regrouped = True
                fields[key.field.id], deviation[key.field.id] = key.field, None
        for measure in relation.measures:
            call = measure.call

            def named(function: str, arg: Expression, call: AggregateCall = call) -> Expression:
                kind = INTEGER if function == "count" else DOUBLE
                hidden = self.identities.field("error", kind)
                new = AggregateCall(function, (arg,), filter=call.filter, type=kind)
                extra.append(Measure(hidden, new))
                return Ref(hidden.id, kind)

            if not (regrouped or _is_noisy(source, call)):
                continue
            fields[measure.field.id] = measure.field
            error = None if regrouped else _argument_error(source, call)
            deviation[measure.field.id] = _of_many(call, error, named)
            totals.append((measure.field, call))
        result = replace(relation, input=source.relation, measures=relation.measures + tuple(extra))
        meaning = {n: Ref(n, f.type) for n, f in fields.items()}
        return Traced(result, meaning, deviation, of_totals(source, totals))

    def _window(self, relation: Window) -> Traced:
        relation, source = self._read(relation)
        extra: list[WindowItem] = []
        totals: list[tuple[Field, AggregateCall | WindowCall]] = []
        meaning, deviation = dict(source.meaning), dict(source.deviation)
        for item in relation.items:
            call = item.call

            def named(function: str, arg: Expression, call: WindowCall = call) -> Expression:
                kind = INTEGER if function == "count" else DOUBLE
                hidden = self.identities.field("error", kind)
                args = (arg, *call.args[1:]) if function == call.function else (arg,)
                new = replace(call, function=function, args=args, type=kind)
                extra.append(WindowItem(hidden, new))
                return Ref(hidden.id, kind)

            if not _is_noisy(source, call):
                continue
            meaning[item.field.id] = Ref(item.field.id, item.field.type)
            error = _argument_error(source, call)
            deviation[item.field.id] = _of_many(call, error, named)
            totals.append((item.field, call))
        result = Window(source.relation, relation.items + tuple(extra))
        origin = {**source.origin, **of_totals(source, totals)}
        return Traced(result, meaning, deviation, origin, source.alone, source.cells)

    def _union(self, relation: Union) -> Traced:
        left, right = self.trace(relation.left), self.trace(relation.right)
        sides = (left, right)
        old = (relation.left.fields, relation.right.fields)
        fields, items = list(relation.fields), [[_kept(f) for f in side] for side in old]
        meaning: dict[int, Expression] = {}
        deviation: dict[int, Expression | None] = {}
        origin: dict[int, Origin] = {}
        alone: dict[int, Expression] = {}

        def added(errors: Sequence[Expression]) -> Expression:
            """A column of the union that has these errors of its sides."""
            fields.append(self.identities.field("error", DOUBLE))
            for listed, error in zip(items, errors, strict=True):
                listed.append(Item(self.identities.field("error", DOUBLE), error))
            return Ref(fields[-1].id, DOUBLE)

        for place, new in enumerate(relation.fields):
            refs_here = [Ref(side[place].id, side[place].type) for side in old]
            noisy = [s.rewritten(r) is not None for s, r in zip(sides, refs_here, strict=True)]
            if not (new.type.is_numeric and any(noisy)):
                continue
            meaning[new.id] = Ref(new.id, new.type)
            deviation[new.id] = None
            for side, ref in zip(sides, refs_here, strict=True):
                found = side.total(ref, new.id)
                if found is not None:
                    origin[new.id] = found
            if relation.kind == "UNION" and relation.all:
                here = list(zip(sides, refs_here, strict=True))
                deviation[new.id] = error = added([side.error(ref) for side, ref in here])
                if any(side.alone for side in sides) and new.id not in self.shown:
                    alone[new.id] = error
                    deviation[new.id] = added([side.error_in_total(ref) for side, ref in here])
        projected = [
            Project(side.relation, tuple(listed)) for side, listed in zip(sides, items, strict=True)
        ]
        result = replace(relation, left=projected[0], right=projected[1], fields=tuple(fields))
        return Traced(result, meaning, deviation, origin, alone)


def _of_unions(relation: Relation) -> Iterator[int]:
    """The columns of unions of which nothing is computed."""
    match relation:
        case Filter() | Sort() | Limit():
            yield from _of_unions(relation.input)
        case Project() if all(isinstance(i.expression, Ref) for i in relation.items):
            yield from _of_unions(relation.input)
        case Union():
            yield from (f.id for f in relation.fields)
            yield from _of_unions(relation.left)
            yield from _of_unions(relation.right)
        case _:
            return


def _is_noisy(source: Traced, call: AggregateCall | WindowCall) -> bool:
    """Whether noise reaches the call's value: by an argument, a filter, an order or a partition.

    Noise changes no number of rows, so COUNT(x) of a noisy x alone is exact.
    """
    if call.function == "count" and not call.distinct:
        return any(source.rewritten(e) is not None for e in children(call)[1:])
    return any(source.rewritten(e) is not None for e in children(call))


def _argument_error(source: Traced, call: AggregateCall | WindowCall) -> Expression | None:
    """The error of the first argument; None where noise also decides which rows count, or how."""
    others = children(call)[1:]
    if not call.args or call.distinct or any(source.rewritten(e) is not None for e in others):
        return None
    defaults = call.args[2:]
    skips = isinstance(call, WindowCall) and call.ignore_nulls
    return None if defaults or skips else source.error_in_total(call.args[0])


def _of_many(
    call: AggregateCall | WindowCall,
    error: Expression | None,
    named: Callable[[str, Expression], Expression],
) -> Expression | None:
    """The error of an aggregate of values with independent errors; None where it has no rule."""
    if error is None:
        return None
    match call.function:
        case "sum":
            return formula("sqrt", named("sum", formula("mul", error, error)))
        case "avg":
            spread = formula("sqrt", named("sum", formula("mul", error, error)))
            return formula("div", spread, Cast(named("count", call.args[0]), DOUBLE))
        case "min" | "max" | "any_value":
            return named("max", error)
        case "lag" | "lead" | "first_value" | "last_value" | "nth_value":
            return named(call.function, error)
        case _:
            return None


def _kept(column: Field) -> Item:
    return Item(column, Ref(column.id, column.type))
