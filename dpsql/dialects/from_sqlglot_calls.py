"""Calls by name: scalar functions, aggregates, FILTER and OVER.

Names were kept from sqlglot (see `from_sqlglot_tokens`), so arguments arrive as written.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, TypeAlias

from sqlglot import exp

from dpsql.dialects.from_sqlglot_functions import (
    AGGREGATES,
    PART_FUNCTIONS,
    PARTS,
    SCALARS,
    WINDOWS,
    Row,
    refusal_of,
)
from dpsql.dialects.from_sqlglot_nodes import Origin, name_of, spoken, star_of
from dpsql.dialects.from_sqlglot_tokens import FUNCTION
from dpsql.errors import Reason, Refused
from dpsql.tree import (
    VARCHAR,
    AggregateCall,
    Call,
    Cast,
    Expression,
    Frame,
    Literal,
    SortKey,
    Star,
    WindowCall,
)

Read: TypeAlias = Callable[[exp.Expression, Origin], Expression]


def anonymous(node: exp.Expression, origin: Origin, read: Read) -> Expression:
    """A call of a scalar function or an aggregate by name."""
    name, args = _name_and_arguments(node, origin)
    if name in AGGREGATES or name in ("count_if", "countif"):
        return _aggregate(node, origin, read)
    values = tuple(read(arg, origin) for arg in args)
    call = Call(name, values, span=origin.span(node))
    if name == "concat" and values:
        return replace(call, args=tuple(_or_empty(value) for value in values))
    if name in PART_FUNCTIONS:
        _check_count(Row(name, 1, 1), call)
        part = Literal(PART_FUNCTIONS[name], VARCHAR, call.span)
        return replace(call, function="extract", args=(part, *values))
    if name in WINDOWS:
        raise origin.refusal(node, f"{name.upper()} without OVER")
    if name not in SCALARS:
        raise Refused(refusal_of(name), call.span, name=name)
    row = SCALARS[name]
    _check_count(row, call)
    call = replace(call, function=row.function)
    return _with_part(call, origin, node) if row.function in _OF_PARTS else call


_OF_PARTS = ("extract", "date_trunc")


def _with_part(call: Call, origin: Origin, node: exp.Expression) -> Call:
    """The call with its first argument, which must be a string, as the part's standard name."""
    part, value = call.args
    if not (isinstance(part, Literal) and isinstance(part.value, str)):
        raise origin.refusal(node, f"{call.function.upper()} of a computed part")
    written = part.value.lower()
    return replace(call, args=(Literal(PARTS.get(written, written), VARCHAR, part.span), value))


def _or_empty(value: Expression) -> Expression:
    """CONCAT() skips NULLs, where `||` is NULL: coalesce(CAST(value AS VARCHAR), '')."""
    text = Cast(value, VARCHAR, span=value.span)
    return Call("coalesce", (text, Literal("", VARCHAR, value.span)), span=value.span)


def _name_and_arguments(node: exp.Expression, origin: Origin) -> tuple[str, list[exp.Expression]]:
    this, args = origin.take(node, "this", "expressions")
    if isinstance(this, exp.Identifier):
        return name_of(this, origin).lower(), args or []
    return str(this).removeprefix(FUNCTION).lower(), args or []


def _check_count(row: Row, call: Call) -> None:
    if not row.takes(len(call.args)):
        types = f"{len(call.args)} argument{'' if len(call.args) == 1 else 's'}"
        raise Refused(Reason.TYPE_MISMATCH, call.span, function=call.function, types=types)


def _aggregate(node: exp.Expression, origin: Origin, read: Read) -> AggregateCall:
    name, args = _name_and_arguments(node, origin)
    distinct = len(args) == 1 and isinstance(args[0], exp.Distinct)
    if distinct:
        (args,) = origin.take(args[0], "expressions")
    if name in ("count_if", "countif"):
        return _count_if(node, args, origin, read, distinct=distinct)
    values = _arguments(name, [] if distinct else args, origin, read)
    if distinct:
        values = tuple(read(arg, origin) for arg in args)
    row = AGGREGATES[name]
    if not row.takes(len(values)):
        raise origin.refusal(node, f"{name.upper()} of {len(values)} arguments")
    # The exact number of distinct values is an approximate one as well.
    distinct = distinct or name == "approx_count_distinct"
    return AggregateCall(row.function, values, distinct, span=origin.span(node))


def _arguments(
    name: str, args: list[exp.Expression], origin: Origin, read: Read
) -> tuple[Expression, ...]:
    """The arguments; `*` only as the one argument of COUNT."""
    if name == "count" and len(args) == 1 and isinstance(args[0], exp.Star):
        star = star_of(args[0], origin)
        assert star is not None
        return (star,)
    return tuple(read(arg, origin) for arg in args)


def _count_if(
    node: exp.Expression,
    args: list[exp.Expression],
    origin: Origin,
    read: Read,
    *,
    distinct: bool,
) -> AggregateCall:
    """COUNT_IF(x) counts the rows where x is true: COUNT(*) FILTER (WHERE x)."""
    if distinct or len(args) != 1:
        raise origin.refusal(node, "this COUNT_IF")
    span = origin.span(node)
    condition = read(args[0], origin)
    return AggregateCall("count", (Star(None, span),), filter=condition, span=span)


def filtered(node: exp.Expression, origin: Origin, read: Read) -> Expression:
    """Reads aggregate FILTER (WHERE condition)."""
    this, where = origin.take(node, "this", "expression")
    call = read(this, origin)
    if not isinstance(call, AggregateCall) or not isinstance(where, exp.Where):
        raise origin.refusal(node, "FILTER on this function")
    (condition,) = origin.take(where, "this")
    predicate = read(condition, origin)
    if call.filter is not None:
        predicate = Call("and", (predicate, call.filter), span=predicate.span)
    return replace(call, filter=predicate)


def trim(node: exp.Expression, origin: Origin, read: Read) -> Expression:
    """TRIM([LEADING | TRAILING | BOTH] [characters] [FROM] text)."""
    text, characters, position = origin.take(node, "this", "expression", "position")
    name = {None: "trim", "BOTH": "trim", "LEADING": "ltrim", "TRAILING": "rtrim"}.get(position)
    if name is None:
        raise origin.refusal(node)
    args = [text] if characters is None else [text, characters]
    values = tuple(read(arg, origin) for arg in args)
    return Call(name, values, span=origin.span(node))


def window(node: exp.Expression, origin: Origin, read: Read) -> Expression:
    """function(args) OVER (PARTITION BY … ORDER BY … frame)."""
    names = "this", "partition_by", "order", "spec", "over"
    this, partition, order, spec, _over = origin.take(node, *names)
    if not isinstance(this, exp.Anonymous):
        raise origin.refusal(this, f"{spoken(this)} with OVER")
    name, args = _name_and_arguments(this, origin)
    if name in SCALARS or name in PART_FUNCTIONS:
        raise origin.refusal(this, f"{name.upper()} with OVER")
    if name not in WINDOWS:
        raise Refused(refusal_of(name), origin.span(this), name=name)
    values = _arguments(name, args, origin, read)
    row = WINDOWS[name]
    _check_count(row, Call(name, values, span=origin.span(this)))
    return WindowCall(
        row.function,
        values,
        tuple(read(e, origin) for e in partition or ()),
        sort_keys(order, origin, read),
        None if spec is None else _frame(spec, origin),
        span=origin.span(node),
    )


def sort_keys(order: Any, origin: Origin, read: Read) -> tuple[SortKey, ...]:
    """The keys of ORDER BY; sqlglot states where NULLs go by the rules of its dialect."""
    if order is None:
        return ()
    (keys,) = origin.take(order, "expressions")
    return tuple(_sort_key(key, origin, read) for key in keys)


def _sort_key(key: exp.Expression, origin: Origin, read: Read) -> SortKey:
    if not isinstance(key, exp.Ordered):
        raise origin.refusal(key)
    this, descending, nulls_first = origin.take(key, "this", "desc", "nulls_first")
    if isinstance(this, exp.Column) and not this.table and this.name.lower() == "all":
        raise origin.refusal(this, "ORDER BY ALL")
    return SortKey(read(this, origin), bool(descending), bool(nulls_first))


def _frame(spec: exp.Expression, origin: Origin) -> Frame:
    names = "kind", "start", "start_side", "end", "end_side"
    kind, start, start_side, end, end_side = origin.take(spec, *names)
    unit = str(kind).upper()
    if unit not in ("ROWS", "RANGE"):
        raise origin.refusal(spec, f"a window frame of {unit}")
    first = _frame_bound(start, start_side, spec, origin)
    last = (0, 1) if end is None else _frame_bound(end, end_side, spec, origin)
    return Frame(unit, first, last)


def _frame_bound(
    bound: Any, side: Any, spec: exp.Expression, origin: Origin
) -> tuple[int | None, int]:
    direction = 1 if str(side).upper() == "FOLLOWING" else -1
    match bound:
        case "CURRENT ROW":
            return 0, direction
        case "UNBOUNDED":
            return None, direction
        case exp.Literal() if not bound.is_string and str(bound.this).isdigit():
            origin.take(bound, "this", "is_string")
            return int(bound.this), direction
        case _:
            raise origin.refusal(spec, "a window frame with this offset")
