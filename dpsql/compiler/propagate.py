"""propagate: the error of every number, carried through the outer query.

Each noisy column is an expression over *base* columns with independent noise of known standard
deviation: the parts of a release, and re-aggregated values. The error of an output is the root of
the summed squares of its changes when each base moves by one standard deviation (the delta method
by finite differences; exact for linear expressions). Bases travel upwards as hidden columns.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import assert_never

from dpsql import functions
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
from dpsql.compiler.outputs import EXACT
from dpsql.compiler.scopes import Identities
from dpsql.compiler.typing import type_of
from dpsql.tree import (
    DOUBLE,
    INTEGER,
    AggregateCall,
    Call,
    Cast,
    Expression,
    Literal,
    Ref,
    SqlType,
    WindowCall,
)
from dpsql.walk import children, composed, refs, substitute, walk

Deviations = Sequence[tuple[float | None, ...]]
"""The standard deviation of each part of each block, in units of its values (None: unknown)."""

NAN = Literal(float("nan"), DOUBLE)


@dataclass(frozen=True, slots=True)
class _Traced:
    """`meaning` writes noisy columns over bases; `deviation` is a base's error (None: unknown).

    `origin` is the part that a base holds: two bases of one part have the same noise.
    """

    relation: Relation
    meaning: Mapping[int, Expression] = field(default_factory=dict)
    deviation: Mapping[int, Expression | None] = field(default_factory=dict)
    origin: Mapping[int, tuple[int, int]] = field(default_factory=dict)

    def over(self, relation: Relation) -> _Traced:
        return replace(self, relation=relation)

    def rewritten(self, expression: Expression) -> Expression | None:
        """The expression over bases, or None where no noise reaches it."""
        if not refs(expression) & self.meaning.keys():
            return None
        return substitute(expression, self.meaning)

    def error(self, expression: Expression) -> Expression:
        """The standard error of an expression over this relation's columns."""
        over_bases = self.rewritten(expression)
        if over_bases is None:
            return EXACT
        parts = [self.origin[n] for n in refs(over_bases) & self.origin.keys()]
        return NAN if len(set(parts)) < len(parts) else _error(over_bases, self.deviation)

    def unknown(self, column: Ref) -> bool:
        """Whether a column is made of a released part of which no error is known: of a choice."""
        over_bases = self.rewritten(column)
        read = frozenset() if over_bases is None else refs(over_bases)
        return any(self.deviation[number] is None for number in read & self.origin.keys())

    def needed(self) -> frozenset[int]:
        """Columns that meanings and deviations read."""
        read = [*self.meaning.values(), *(d for d in self.deviation.values() if d is not None)]
        return frozenset().union(*map(refs, read))


def propagate(
    outer: Relation, deviations: Deviations, identities: Identities
) -> tuple[Relation, tuple[Expression, ...], tuple[Expression, ...]]:
    """The outer query with its hidden columns, its outputs, and the error of each output.

    `deviations` gives the standard deviation of each released part, in units of its values. An
    error is NULL where the output is exact, or not a number and not chosen, and NaN where it is
    unknown.
    """
    traced = _Tracer(deviations, identities).trace(outer)
    outputs = tuple(Ref(f.id, f.type) for f in outer.fields)
    errors = tuple(
        traced.error(ref) if ref.type.is_numeric or traced.unknown(ref) else EXACT
        for ref in outputs
    )
    return traced.relation, outputs, errors


@dataclass(frozen=True, slots=True)
class _Tracer:
    deviations: Deviations
    identities: Identities

    def trace(self, relation: Relation) -> _Traced:
        match relation:
            case Scan() | OneRow() | Values():
                return _Traced(relation)
            case Staged():
                raise AssertionError(relation)
            case Released():
                return self._released(relation)
            case Filter() | Sort() | Limit():
                source = self.trace(relation.input)
                return source.over(replace(relation, input=source.relation))
            case Project():
                return self._project(relation)
            case Join():
                left, right = self.trace(relation.left), self.trace(relation.right)
                return _Traced(
                    replace(relation, left=left.relation, right=right.relation),
                    {**left.meaning, **right.meaning},
                    {**left.deviation, **right.deviation},
                    {**left.origin, **right.origin},
                )
            case Match():
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

    def _released(self, relation: Released) -> _Traced:
        deviations = self.deviations[relation.block]
        parts = relation.fields[len(relation.fields) - len(deviations) :]
        return _Traced(
            relation,
            {f.id: Ref(f.id, f.type) for f in parts},
            {
                f.id: None if d is None else Literal(d, DOUBLE)
                for f, d in zip(parts, deviations, strict=True)
            },
            {f.id: (relation.block, place) for place, f in enumerate(parts)},
        )

    def _project(self, relation: Project) -> _Traced:
        source = self.trace(relation.input)
        meaning: dict[int, Expression] = {}
        deviation = dict(source.deviation)
        for item in relation.items:
            if not refs(item.expression) & source.meaning.keys():
                continue
            over_bases = composed(item.expression, source.meaning)
            if over_bases is None:
                deviation[item.field.id] = None
            meaning[item.field.id] = over_bases or Ref(item.field.id, item.field.type)
        traced = _Traced(relation, meaning, deviation, source.origin)
        there = {item.field.id for item in relation.items}
        hidden = tuple(
            Item(f, Ref(f.id, f.type))
            for f in source.relation.fields
            if f.id in traced.needed() - there
        )
        return traced.over(Project(source.relation, relation.items + hidden))

    def _aggregate(self, relation: Aggregate) -> _Traced:
        source = self.trace(relation.input)
        extra: list[Measure] = []
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
        result = replace(relation, input=source.relation, measures=relation.measures + tuple(extra))
        return _Traced(result, {n: Ref(n, f.type) for n, f in fields.items()}, deviation)

    def _window(self, relation: Window) -> _Traced:
        source = self.trace(relation.input)
        extra: list[WindowItem] = []
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
        result = Window(source.relation, relation.items + tuple(extra))
        return _Traced(result, meaning, deviation, source.origin)

    def _union(self, relation: Union) -> _Traced:
        left, right = self.trace(relation.left), self.trace(relation.right)
        sides = (left, right)
        old = (relation.left.fields, relation.right.fields)
        fields, items = list(relation.fields), [[_kept(f) for f in side] for side in old]
        meaning: dict[int, Expression] = {}
        deviation: dict[int, Expression | None] = {}
        for place, new in enumerate(relation.fields):
            refs_here = [Ref(side[place].id, side[place].type) for side in old]
            noisy = [s.rewritten(r) is not None for s, r in zip(sides, refs_here, strict=True)]
            if not (new.type.is_numeric and any(noisy)):
                continue
            meaning[new.id] = Ref(new.id, new.type)
            deviation[new.id] = None
            if relation.kind == "UNION" and relation.all:
                error = self.identities.field("error", DOUBLE)
                deviation[new.id] = Ref(error.id, DOUBLE)
                fields.append(error)
                for listed, side, ref in zip(items, sides, refs_here, strict=True):
                    hidden = self.identities.field("error", DOUBLE)
                    listed.append(Item(hidden, side.error(ref)))
        projected = [
            Project(side.relation, tuple(listed)) for side, listed in zip(sides, items, strict=True)
        ]
        result = replace(relation, left=projected[0], right=projected[1], fields=tuple(fields))
        return _Traced(result, meaning, deviation)


def _is_noisy(source: _Traced, call: AggregateCall | WindowCall) -> bool:
    """Whether noise reaches the call's value: by an argument, a filter, an order or a partition.

    Noise changes no number of rows, so COUNT(x) of a noisy x alone is exact.
    """
    if call.function == "count" and not call.distinct:
        return any(source.rewritten(e) is not None for e in children(call)[1:])
    return any(source.rewritten(e) is not None for e in children(call))


def _argument_error(source: _Traced, call: AggregateCall | WindowCall) -> Expression | None:
    """The error of the first argument; None where noise also decides which rows count, or how."""
    others = children(call)[1:]
    if not call.args or call.distinct or any(source.rewritten(e) is not None for e in others):
        return None
    defaults = call.args[2:]
    skips = isinstance(call, WindowCall) and call.ignore_nulls
    return None if defaults or skips else source.error(call.args[0])


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
            return _call("sqrt", named("sum", _call("mul", error, error)))
        case "avg":
            spread = _call("sqrt", named("sum", _call("mul", error, error)))
            return _call("div", spread, Cast(named("count", call.args[0]), DOUBLE))
        case "min" | "max" | "any_value":
            return named("max", error)
        case "lag" | "lead" | "first_value" | "last_value" | "nth_value":
            return named(call.function, error)
        case _:
            return None


def _error(expression: Expression, deviation: Mapping[int, Expression | None]) -> Expression:
    """The root of the summed squared changes of `expression` over its bases."""
    bases = sorted(refs(expression) & deviation.keys())
    known = [(number, deviation[number]) for number in bases]
    if any(error is None for _, error in known):
        return NAN
    if isinstance(expression, Ref):
        return _numeric(known[0][1])
    kinds = {node.id: node for node in _refs_of(expression)}
    squares = []
    for number, error in known:
        base = Cast(kinds[number], DOUBLE)
        moved = [
            substitute(expression, {number: _call(sign, base, _numeric(error))})
            for sign in ("add", "sub")
        ]
        if _kind(moved[0]) is None:
            return NAN
        change = _call("greatest", *(_distance(m, expression) for m in moved))
        squares.append(_call("pow", change, Literal(2.0, DOUBLE)))
    total = squares[0]
    for square in squares[1:]:
        total = _call("add", total, square)
    return _call("coalesce", _call("sqrt", total), NAN)


def _kind(expression: Expression) -> SqlType | None:
    """The type of a scalar expression; None where a function takes no DOUBLE in a base's place."""
    if not isinstance(expression, Call):
        arg = expression.arg if isinstance(expression, Cast) else None
        known = arg is None or _kind(arg) is not None
        return type_of(expression) if known else None
    kinds = tuple(kind for arg in expression.args if (kind := _kind(arg)) is not None)
    function = functions.lookup(expression.function)
    if function is None or len(kinds) < len(expression.args):
        return None
    return function.result_type(kinds)


def _refs_of(expression: Expression) -> list[Ref]:
    return [node for node in walk(expression) if isinstance(node, Ref)]


def _distance(a: Expression, b: Expression) -> Expression:
    return _call("abs", _call("sub", Cast(a, DOUBLE), Cast(b, DOUBLE)))


def _numeric(error: Expression | None) -> Expression:
    assert error is not None
    return error


def _kept(column: Field) -> Item:
    return Item(column, Ref(column.id, column.type))


def _call(function: str, *args: Expression) -> Call:
    return Call(function, args, DOUBLE)
