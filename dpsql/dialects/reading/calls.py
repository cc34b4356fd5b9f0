"""Calls by name: scalar functions, aggregates, FILTER and OVER.

sqlglot never saw their names (see `tokens`), so arguments arrive as written. There are no list
types: a list of quantiles is the text that its engine shows, made of one quantile each.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace

from sqlglot import exp

from dpsql.dialects.reading import function_names, time_calls
from dpsql.dialects.reading.arrays import ARRAY_CALLS, array_call, is_list, is_quantified
from dpsql.dialects.reading.function_names import aggregate
from dpsql.dialects.reading.interval_literals import duration_of, value_of
from dpsql.dialects.reading.nodes import PRECISE, Origin, name_of, spoken, values_of_row
from dpsql.dialects.reading.other_meanings import AVERAGES, name_here, read_as_there
from dpsql.dialects.reading.request_options import Named
from dpsql.dialects.reading.series import SERIES
from dpsql.dialects.reading.tokens import FUNCTION
from dpsql.dialects.reading.value_parts import steps_of
from dpsql.dialects.reading.window_frames import Read, sort_keys, window_of
from dpsql.model.errors import Reason, Refused
from dpsql.model.system_table import FORMULA_CALLS
from dpsql.model.tree import (
    STATED,
    VARCHAR,
    AggregateCall,
    Call,
    Cast,
    Expression,
    Literal,
    Name,
    SortKey,
    Span,
    Star,
    WindowCall,
)
from dpsql.model.walk import map_children

BOUNDARIES = "approx_quantiles"
"""GoogleSQL's aggregate of n + 1 boundaries of n parts with equally many rows, with the ends."""

MOST = 100
"""Maximum number of elements of a list."""

_LISTED = frozenset(
    "quantile quantile_cont quantile_disc approx_quantile percentile_cont percentile_disc".split()
)

_BRACKETS = {"postgres": ("{", ",", "}")}


def elements(
    name: str, args: list[exp.Expression], origin: Origin
) -> list[list[exp.Expression]] | None:
    """Return the call's arguments for each element of the list; None if it returns one value."""
    if name == BOUNDARIES:
        return [[*args[:-1], fraction] for fraction in _boundaries(args, origin)]
    if name not in _LISTED or not args or not is_list(args[-1]):
        return None
    _, written = origin.take(args[-1], "this", "expressions")
    if not 1 <= len(written or ()) <= MOST:
        raise origin.refusal(args[-1], f"a list of {len(written or ())} quantiles")
    return [[*args[:-1], fraction] for fraction in written]


def _boundaries(args: list[exp.Expression], origin: Origin) -> list[exp.Expression]:
    number = args[1] if len(args) == 2 else None  # noqa: PLR2004
    written = None if number is None else origin.take(number, "this", "is_string")[0]
    if not (isinstance(written, str) and written.isdecimal() and 1 <= int(written) < MOST):
        raise origin.refusal(args[-1], f"APPROX_QUANTILES of anything but x, 1 to {MOST - 1}")
    parts = int(written)
    return [exp.Literal.number(n / parts) for n in range(parts + 1)]


def list_value(values: Sequence[Expression], origin: Origin, span: Span) -> Call:
    """Return the values as a list, after the marks with which its text is written."""
    marks = _BRACKETS.get(origin.dialect, ("[", ", ", "]"))
    return Call("list", (*(Literal(mark, VARCHAR, span) for mark in marks), *values), span=span)


def each(text: Expression, change: Callable[[AggregateCall], AggregateCall]) -> Expression:
    """Return the text of a list with every aggregate in it changed."""
    if isinstance(text, AggregateCall):
        return change(text)
    return map_children(text, lambda child: each(child, change))


APPROXIMATE = "approx_count_distinct"
_COUNT_IF = frozenset({"count_if", "countif"})
_GEOMETRIC = frozenset({"geomean", "geometric_mean"})
_JSON = frozenset("json_agg jsonb_agg json_arrayagg json_group_array".split())
_WEIGHTED = frozenset({"wavg", "weighted_avg"})
_WRITTEN_OUT = _COUNT_IF | _GEOMETRIC | _JSON | _WEIGHTED
"""Aggregates that are read as others."""


def _plain_arguments(
    name: str, args: Sequence[exp.Expression], span: Span
) -> Sequence[exp.Expression]:
    """Return the arguments. Raises `Refused` for an unknown name with `*` or DISTINCT."""
    of_aggregates = any(isinstance(arg, exp.Star | exp.Distinct) for arg in args)
    if of_aggregates and name not in function_names.called_functions():
        raise function_names.refusal_of(name, span)
    return args


def anonymous(node: exp.Expression, origin: Origin, read: Read) -> Expression:
    """Return the call of a scalar function or an aggregate by name."""
    name, args = _name_and_arguments(node, origin)
    special = _special(name, args, node, origin, read)
    if special is not None:
        return special
    if name in time_calls.TIME_CALLS:
        return time_calls.TIME_CALLS[name](node, args, origin, read)
    if aggregate(name) or name in _WRITTEN_OUT:
        return _aggregates(node, origin, read)
    values = tuple(read(arg, origin) for arg in _plain_arguments(name, args, origin.span(node)))
    call = Call(name, values, span=origin.span(node))
    if name in _TEXTS_OF_JSON and values:
        return _part_of_json(call, origin, node)
    if name in STATED:
        _check_count(function_names.FunctionName(name, 1, 1), call)
        return call
    if name == "concat" and values:
        return replace(call, args=tuple(_or_empty(value) for value in values))
    if name in function_names.PART_FUNCTIONS:
        _check_count(function_names.FunctionName(name, 1, 1), call)
        return time_calls.part_of(function_names.PART_FUNCTIONS[name], values[0], call.span)
    if name in function_names.WINDOWS:
        raise origin.refusal(node, f"{name.upper()} without OVER")
    exact = not values or (name in PRECISE and len(values) == 1 and isinstance(values[0], Literal))
    if exact and (reading := origin.clock_reading(name, call.span)) is not None:
        return reading
    if name in function_names.CONSTANTS and not values:
        return replace(function_names.CONSTANTS[name], span=call.span)
    row = function_names.scalar(name)
    if row is None:
        raise function_names.refusal_of(name, call.span)
    if origin.dialect == "postgres" and name in function_names.OTHERWISE_IN_POSTGRES:
        raise Refused(Reason.UNSUPPORTED_FUNCTION, call.span, name=name)
    zoned = row.function == "date_trunc" and len(values) == _WITH_ZONE
    if not zoned:
        _check_count(row, call)
    call = _completed(name, replace(call, function=row.function))
    call = _with_part(call, origin, node) if row.function in _OF_PARTS else call
    return time_calls.truncated_in_zone(call, origin, node) if zoned else call


def _special(
    name: str, args: list[exp.Expression], node: exp.Expression, origin: Origin, read: Read
) -> Expression | None:
    """Return a call that is an INTERVAL, a series, a formula or a test of an array; else None."""
    if name in FORMULA_CALLS:
        return Call(name, tuple(read(arg, origin) for arg in args), span=origin.span(node))
    if name == function_names.WITHIN_RANGES:
        fix = (
            "Make it a column by itself. Groups by ranges: CASE WHEN x BETWEEN a AND b THEN … END."
        )
        raise origin.refusal(node, "WITHIN_RANGES outside of a SELECT list", fix=fix)
    if is_list(node):
        raise origin.refusal(node, "a list here")
    if is_quantified(node):
        raise origin.refusal(node, "ANY or ALL here")
    duration = duration_of(node, origin, read)
    if duration is not None:
        return value_of(duration, origin.span(node))
    if id(node) in origin.rows:
        return Name(origin.rows[id(node)], span=origin.span(node))
    if name in SERIES:
        raise Refused(
            Reason.UNSUPPORTED_SYNTAX,
            origin.span(node),
            construct=f"{name.upper()} here",
            fix=f"Write it in FROM, between constants: FROM {name.upper()}(…) AS s(x).",
        )
    if name == ("json_build_object" if origin.dialect == "postgres" else "json_object"):
        return _json_object(tuple(read(arg, origin) for arg in args), origin, node)
    if name in ARRAY_CALLS:
        return array_call(name, args, node, origin, read)
    return read_as_there(name, args, node, origin, read)


_OF_PARTS = ("extract", "date_trunc", "date_diff", "date_sub")


def _json_object(parts: Sequence[Expression], origin: Origin, node: exp.Expression) -> Call:
    """Return the text of an object in JSON, whose keys are constants; NULL is null there."""
    keys, values, span = parts[::2], parts[1::2], origin.span(node)
    if not keys or len(keys) != len(values):
        raise origin.refusal(node, "an object in JSON of anything but keys and values")
    between = (" : ", ", ") if origin.dialect == "postgres" else (":", ",")
    shown, before = list[Expression](), "{"
    for key, value in zip(keys, values, strict=True):
        if not isinstance(key, Literal) or not isinstance(key.value, str):
            raise origin.refusal(node, "a key in JSON that is not a constant")
        written = json.dumps(key.value, ensure_ascii=False)
        there = Call("json_text", (value,), span=span)
        shown.append(Literal(f"{before}{written}{between[0]}", VARCHAR, span))
        shown.append(Call("coalesce", (there, Literal("null", VARCHAR, span)), span=span))
        before = between[1]
    end = Literal("}", VARCHAR, span)
    return Call("concat", (*shown, end), span=span)


_TEXTS_OF_JSON = frozenset({"json_extract_string", "json_extract_path_text"})
"""Functions that do the same as `->>`."""


def _part_of_json(call: Call, origin: Origin, node: exp.Expression) -> Name:
    """Return the column that a policy declares for a part of another."""
    value, *paths = call.args
    written = [p.value for p in paths if isinstance(p, Literal) and isinstance(p.value, str)]
    steps = [steps_of(path) for path in written]
    if not isinstance(value, Name) or None in steps or not (0 < len(steps) == len(paths)):
        raise origin.refusal(node, f"{call.function.upper()} without a column and a plain path")
    return replace(value, name=value.name + "".join(filter(None, steps)), span=call.span)


def _with_part(call: Call, origin: Origin, node: exp.Expression) -> Call:
    """Return the call with its first argument, a constant string, as the part's standard name."""
    part, *values = call.args
    if not (isinstance(part, Literal) and isinstance(part.value, str)):
        raise origin.refusal(node, f"{call.function.upper()} of a computed part")
    name = time_calls.standard_part(part.value)
    if call.function == "extract":
        return time_calls.part_of(name, values[0], call.span)
    if call.function == "date_trunc" and name in _LONG and origin.dialect == "postgres":
        raise origin.refusal(node, f"DATE_TRUNC to a {name}, which engines count differently")
    return replace(call, args=(Literal(name, VARCHAR, part.span), *values))


_LONG = ("century", "millennium")
_WITH_ZONE = 3
"""Number of arguments of DATE_TRUNC in a time zone."""


def _completed(name: str, call: Call) -> Call:
    """Return the call with its omitted argument."""
    count, last = function_names.OMITTED.get(name, (0, None))
    if last is None or len(call.args) >= count:
        return call
    return replace(call, args=(*call.args, replace(last, span=call.span)))


def _or_empty(value: Expression) -> Expression:
    """Return coalesce(CAST(value AS VARCHAR), ''): CONCAT() skips NULLs, while `||` is NULL."""
    text = Cast(value, VARCHAR, span=value.span)
    return Call("coalesce", (text, Literal("", VARCHAR, value.span)), span=value.span)


def _name_and_arguments(node: exp.Expression, origin: Origin) -> tuple[str, list[exp.Expression]]:
    this, args = origin.take(node, "this", "expressions")
    if isinstance(this, exp.Identifier):
        return name_here(name_of(this, origin).lower(), node, origin), args or []
    written = str(this)
    name = written.removeprefix(FUNCTION).lower()
    return name_here(name, node, origin) if written.startswith(FUNCTION) else name, args or []


def _check_count(row: function_names.FunctionName, call: Call) -> None:
    if not row.takes(len(call.args)):
        types = f"{len(call.args)} argument{'' if len(call.args) == 1 else 's'}"
        raise Refused(Reason.TYPE_MISMATCH, call.span, function=call.function, types=types)


def _aggregates(node: exp.Expression, origin: Origin, read: Read) -> Expression:
    """Return an aggregate, or an expression of aggregates: a list of quantiles, a geometric
    mean.
    """
    name, args = _name_and_arguments(node, origin)
    if name in _JSON:
        return _as_json(_aggregate("list", args, node, origin, read), origin)
    if name in _GEOMETRIC:
        mean = _aggregate("avg", args, node, origin, read)
        logs = tuple(Call("ln", (x,), span=x.span) for x in mean.args)
        return Call("exp", (replace(mean, args=logs),), span=mean.span)
    if name in _WEIGHTED:
        return _weighted_average(args, node, origin, read)
    listed = elements(name, args, origin)
    if name == "array_agg" and origin.dialect == "postgres":
        call = _aggregate(name, args, node, origin, read)
        return call if call.distinct else list_value([call], origin, call.span)
    if listed is None:
        return _aggregate(name, args, node, origin, read)
    values = [_aggregate(name, args, node, origin, read) for args in listed]
    return list_value(values, origin, origin.span(node))


def _weighted_average(
    args: list[exp.Expression], node: exp.Expression, origin: Origin, read: Read
) -> Call:
    """Return the sum of values times weights over the sum of the weights of values."""
    if len(args) != 2:  # noqa: PLR2004
        raise origin.refusal(node, "a weighted average of anything but a value and its weight")
    weights = _aggregate("sum", args[1:], node, origin, read)
    value, (weight,), span = read(args[0], origin), weights.args, weights.span
    there = Call("not", (Call("is_null", (value,), span=span),), span=span)
    products = replace(weights, args=(Call("mul", (value, weight), span=span),))
    return Call("div", (products, replace(weights, filter=there)), span=span)


def _as_json(values: AggregateCall, origin: Origin) -> Expression:
    """Return the values as the text of an array in JSON; NULL for no rows."""
    span = values.span

    def text(written: str) -> Literal:
        return Literal(written, VARCHAR, span)

    shown = (Call("json_text", (value,), span=span) for value in values.args)
    each_of_them = tuple(Call("coalesce", (value, text("null")), span=span) for value in shown)
    comma = text(", " if origin.dialect == "postgres" else ",")
    listed = replace(values, function="string_agg", args=(*each_of_them, comma))
    return Call("concat", (text("["), listed, text("]")), span=span)


def _aggregate(
    name: str, args: list[exp.Expression], node: exp.Expression, origin: Origin, read: Read
) -> AggregateCall:
    args, order_by = _ordered(args, origin, read)
    args, distinct = _distinct(args, origin)
    if name in _COUNT_IF:
        return _count_if(node, args, origin, read, distinct=distinct or bool(order_by))
    row = aggregate(name)
    assert row is not None
    row_of_values = values_of_row(args[0], origin) if distinct and len(args) == 1 else None
    if row_of_values is not None and name == "count":
        read_values = tuple(read(value, origin) for value in row_of_values)
        values: tuple[Expression, ...] = (_row_as_text(read_values, origin.span(node)),)
    else:
        values = tuple(read(arg, origin) for arg in args) if distinct else ()
    values = values or _arguments(name, args, origin, read)
    if not row.takes(len(values)):
        raise origin.refusal(node, f"{name.upper()} of {len(values)} arguments")
    # The exact number of distinct values is an approximate one as well.
    distinct = distinct or name == APPROXIMATE
    span = origin.span(node)
    function = AVERAGES.get((origin.dialect, row.function), row.function)
    call = AggregateCall(function, values, distinct, span=span, order_by=order_by)
    return _with_named(call, origin)


def _with_named(call: AggregateCall, origin: Origin) -> AggregateCall:
    """Return the call with its named arguments."""
    named = origin.named.get(call.span.start, Named())
    origin.heard.add(call.span.start)
    return replace(call, clip=named.clip, epsilon=named.epsilon)


def _ordered(
    args: list[exp.Expression], origin: Origin, read: Read
) -> tuple[list[exp.Expression], tuple[SortKey, ...]]:
    """Return the arguments, and the ORDER BY after the last of them."""
    if not args or not isinstance(args[-1], exp.Order):
        return args, ()
    (last,) = origin.take(args[-1], "this", "expressions")[:1]
    return [*args[:-1], last], sort_keys(args[-1], origin, read)


def _distinct(args: list[exp.Expression], origin: Origin) -> tuple[list[exp.Expression], bool]:
    """Return the arguments, and true if DISTINCT stands before them."""
    if len(args) != 1 or not isinstance(args[0], exp.Distinct):
        return args, False
    return origin.take(args[0], "expressions")[0], True


def _row_as_text(values: tuple[Expression, ...], span: Span) -> Expression:
    """Return a text that is equal for equal rows alone: each value with its length, NULL
    without.
    """

    def text(written: str) -> Literal:
        return Literal(written, VARCHAR, span)

    def part(value: Expression) -> Call:
        shown = Cast(value, VARCHAR, span=span)
        length = Cast(Call("length", (shown,), span=span), VARCHAR, span=span)
        measured = Call("concat", (length, text(":"), shown), span=span)
        return Call("coalesce", (measured, text(";")), span=span)

    parts = tuple(map(part, values))
    return parts[0] if len(parts) == 1 else Call("concat", parts, span=span)


def within_group(node: exp.Expression, origin: Origin, read: Read) -> Expression:
    """Return PERCENTILE_CONT(p) WITHIN GROUP (ORDER BY x), MODE() and similar calls."""
    this, order = origin.take(node, "this", "expression")
    if not isinstance(this, exp.Anonymous):
        raise origin.refusal(node)
    name, args = _name_and_arguments(this, origin)
    row = function_names.WITHIN_GROUP.get(name)
    keys = sort_keys(order, origin, read)
    if row is None or len(keys) != 1:
        raise origin.refusal(node, f"{name.upper()} WITHIN GROUP")
    listed, span = elements(name, args, origin), origin.span(node)
    calls = []
    for own in [args] if listed is None else listed:
        values = (keys[0].expression, *(read(arg, origin) for arg in own))
        if not row.takes(len(values)):
            raise origin.refusal(node, f"{name.upper()} of {len(args)} arguments")
        # The order decides which end is low; it matters only if it is descending.
        order_by = keys if keys[0].descending else ()
        call = AggregateCall(row.function, values, span=span, order_by=order_by)
        calls.append(_with_named(call, origin))
    return calls[0] if listed is None else list_value(calls, origin, span)


def _arguments(
    name: str, args: list[exp.Expression], origin: Origin, read: Read
) -> tuple[Expression, ...]:
    """Return the arguments; `*` only as the one argument of COUNT, which PostgreSQL requires."""
    if name == "count" and not args and origin.dialect != "postgres":
        return (Star(None),)
    if name == "count" and len(args) == 1 and isinstance(args[0], exp.Star):
        origin.take(args[0])
        return (Star(None, origin.span(args[0])),)
    return tuple(read(arg, origin) for arg in args)


def _count_if(
    node: exp.Expression,
    args: list[exp.Expression],
    origin: Origin,
    read: Read,
    *,
    distinct: bool,
) -> AggregateCall:
    """Return COUNT_IF(x), which counts the rows where x is true: COUNT(*) FILTER (WHERE x)."""
    if distinct or len(args) != 1:
        raise origin.refusal(node, "this COUNT_IF")
    span = origin.span(node)
    condition = read(args[0], origin)
    call = AggregateCall("count", (Star(None, span),), filter=condition, span=span)
    return _with_named(call, origin)


def filtered(node: exp.Expression, origin: Origin, read: Read) -> Expression:
    """Return an aggregate with FILTER (WHERE condition)."""
    this, where = origin.take(node, "this", "expression")
    call = read(this, origin)
    if not _aggregated(this, origin) or not isinstance(where, exp.Where):
        raise origin.refusal(node, "FILTER on this function")
    (condition,) = origin.take(where, "this")
    predicate = read(condition, origin)

    def with_filter(one: AggregateCall) -> AggregateCall:
        if one.filter is None:
            return replace(one, filter=predicate)
        return replace(one, filter=Call("and", (predicate, one.filter), span=predicate.span))

    return each(call, with_filter)


def _aggregated(node: exp.Expression, origin: Origin) -> bool:
    """Test whether a node calls an aggregate, also one that is read as a list of them."""
    if not isinstance(node, exp.Anonymous):
        return isinstance(node, exp.WithinGroup)
    name, _ = _name_and_arguments(node, origin)
    return aggregate(name) is not None or name in _WRITTEN_OUT


def trim(node: exp.Expression, origin: Origin, read: Read) -> Expression:
    """Return TRIM([LEADING | TRAILING | BOTH] [characters] [FROM] text)."""
    text, characters, position = origin.take(node, "this", "expression", "position")
    name = {None: "trim", "BOTH": "trim", "LEADING": "ltrim", "TRAILING": "rtrim"}.get(position)
    if name is None:
        raise origin.refusal(node)
    args = [text] if characters is None else [text, characters]
    values = tuple(read(arg, origin) for arg in args)
    return Call(name, values, span=origin.span(node))


def window(node: exp.Expression, origin: Origin, read: Read) -> Expression:
    """Return function([DISTINCT] args [IGNORE NULLS]) [FILTER (WHERE …)] OVER …."""
    this, *_rest = origin.take(node, "this", "partition_by", "order", "spec", "alias", "over")
    condition = None
    if isinstance(this, exp.Filter):
        this, where = origin.take(this, "this", "expression")
        (predicate,) = origin.take(where, "this")
        condition = read(predicate, origin)
    this, ignores = _without_nulls(this, origin)
    if not isinstance(this, exp.Anonymous):
        raise origin.refusal(this, f"{spoken(this)} with OVER")
    call = replace(_window_call(this, origin, read, ignores=ignores), span=origin.span(node))
    if condition is not None and call.function in function_names.WINDOWS:
        raise origin.refusal(node, f"FILTER in {call.function.upper()}")
    return window_of(replace(call, filter=condition), node, origin, read)


def _without_nulls(node: exp.Expression, origin: Origin) -> tuple[exp.Expression, bool]:
    """Return the node before IGNORE NULLS or RESPECT NULLS, and true for the former."""
    if not isinstance(node, exp.IgnoreNulls | exp.RespectNulls):
        return node, False
    return origin.take(node, "this")[0], isinstance(node, exp.IgnoreNulls)


def _window_call(node: exp.Anonymous, origin: Origin, read: Read, *, ignores: bool) -> WindowCall:
    name, args = _name_and_arguments(node, origin)
    if function_names.scalar(name) or name in function_names.PART_FUNCTIONS:
        raise origin.refusal(node, f"{name.upper()} with OVER")
    row = function_names.WINDOWS.get(name) or aggregate(name)
    if row is None:
        raise function_names.refusal_of(name, origin.span(node))
    if origin.span(node).start in origin.named:
        raise origin.refusal(node, "a named argument with OVER")
    args, distinct = _distinct(args, origin)
    if args:
        args = [*args]
        args[-1], inside = _without_nulls(args[-1], origin)
        ignores = ignores or inside
    if (ignores and name not in function_names.NULL_IGNORING) or (
        distinct and name in function_names.WINDOWS
    ):
        construct = "IGNORE NULLS" if ignores else "DISTINCT"
        raise origin.refusal(node, f"{construct} in {name.upper()}")
    values = _arguments(name, args, origin, read)
    _check_count(row, Call(name, values, span=origin.span(node)))
    distinct = distinct or name == APPROXIMATE
    function = AVERAGES.get((origin.dialect, row.function), row.function)
    return WindowCall(function, values, distinct=distinct, ignore_nulls=ignores)
