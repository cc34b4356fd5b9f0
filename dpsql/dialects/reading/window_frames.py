"""Window functions: OVER, named windows and frames; and the keys of every ORDER BY."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, TypeAlias

from sqlglot import exp

from dpsql.dialects.reading.nodes import Origin, name_of
from dpsql.dialects.reading.other_dialects import OTHERS
from dpsql.model import tree
from dpsql.model.errors import Reason, Refused
from dpsql.model.walk import map_children

MAX_OFFSET = 2**31
"""Bound on the offsets of frames."""

DAY = 86_400_000_000
"""Microseconds of a day."""

MAX_DAYS = 36_525
"""Limit on the days of a frame's length: DOUBLE counts them exactly in microseconds."""

Read: TypeAlias = Callable[[exp.Expression, Origin], tree.Expression]


def window_of(
    call: tree.WindowCall, node: exp.Expression, origin: Origin, read: Read
) -> tree.WindowCall:
    """Return `call` with its OVER: [name] PARTITION BY … ORDER BY … frame."""
    names = "this", "partition_by", "order", "spec", "alias", "over"
    _this, partition, order, spec, base, _over = origin.take(node, *names)
    return replace(
        call,
        partition_by=tuple(read(e, origin) for e in partition or ()),
        order_by=sort_keys(order, origin, read),
        frame=None if spec is None else _frame(spec, origin, read),
        base=None if base is None else name_of(base, origin).lower(),
    )


def definitions(
    nodes: list[exp.Expression], origin: Origin, read: Read
) -> Mapping[str, tree.WindowCall]:
    """Return the windows of a WINDOW clause by name; one may build on those before it."""
    named: dict[str, tree.WindowCall] = {}
    for node in nodes:
        span = origin.span(node)
        name = name_of(node.this, origin).lower()
        if name in named:
            raise Refused(Reason.SYNTAX, span, why="two windows have this name")
        named[name] = _completed(
            window_of(tree.WindowCall("window", (), span=span), node, origin, read), named
        )
    return named


def with_windows(select: tree.Select, named: Mapping[str, tree.WindowCall]) -> tree.Select:
    """Return the SELECT with named windows written out wherever its calls refer to them.

    Raises `Refused` for an unknown name, and for a change that a named window does not allow.
    """

    def complete(node: tree.Expression) -> tree.Expression:
        node = map_children(node, complete)
        return _completed(node, named) if isinstance(node, tree.WindowCall) else node

    def optional(node: tree.Expression | None) -> tree.Expression | None:
        return None if node is None else complete(node)

    return replace(
        select,
        items=tuple(replace(i, expression=complete(i.expression)) for i in select.items),
        where=optional(select.where),
        group_by=tuple(map(complete, select.group_by)),
        having=optional(select.having),
        qualify=optional(select.qualify),
        distinct_on=tuple(map(complete, select.distinct_on)),
        order_by=tuple(replace(k, expression=complete(k.expression)) for k in select.order_by),
    )


def _completed(call: tree.WindowCall, named: Mapping[str, tree.WindowCall]) -> tree.WindowCall:
    """Return the call with its named window filled in; a name's PARTITION BY and ORDER BY are
    fixed.
    """
    if call.base is None:
        return call
    base = named.get(call.base)
    if base is None:
        raise Refused(Reason.SYNTAX, call.span, why="no window has this name")
    if call.partition_by or (call.order_by and base.order_by):
        raise Refused(Reason.SYNTAX, call.span, why="a named window cannot be overridden")
    return replace(
        call,
        partition_by=base.partition_by,
        order_by=call.order_by or base.order_by,
        frame=call.frame or base.frame,
        base=None,
    )


def sort_keys(order: Any, origin: Origin, read: Read) -> tuple[tree.SortKey, ...]:
    """Return the keys of ORDER BY; sqlglot sets the place of NULLs by the rules of its dialect."""
    if order is None:
        return ()
    # In a call, `this` is the argument before ORDER BY, which the call's reader takes.
    keys, _argument = origin.take(order, "expressions", "this")
    return tuple(_sort_key(key, origin, read) for key in keys)


def _sort_key(key: exp.Expression, origin: Origin, read: Read) -> tree.SortKey:
    if not isinstance(key, exp.Ordered):
        raise origin.refusal(key)
    this, descending, nulls_first = origin.take(key, "this", "desc", "nulls_first")
    # NULL is the least value there, and has no place of its own.
    nulls_first = not descending if origin.dialect in OTHERS else nulls_first
    if isinstance(this, exp.Var) and this.name.upper() == "ALL":
        origin.take(this, "this")
        return tree.SortKey(tree.Star(None, origin.span(key)), bool(descending), bool(nulls_first))
    return tree.SortKey(read(this, origin), bool(descending), bool(nulls_first))


def _frame(spec: exp.Expression, origin: Origin, read: Read) -> tree.Frame:
    names = "kind", "start", "start_side", "end", "end_side", "exclude"
    kind, start, start_side, end, end_side, excluded = origin.take(spec, *names)
    unit = str(kind).upper()
    if unit not in ("ROWS", "RANGE", "GROUPS"):
        raise origin.refusal(spec, f"a window frame of {unit}")
    first = _frame_bound(start, start_side, spec, origin, read)
    last = (0, 1) if end is None else _frame_bound(end, end_side, spec, origin, read)
    if _rank(first) > _rank(last) or first == (None, 1) or last == (None, -1):
        raise Refused(Reason.SYNTAX, origin.span(spec), why="this frame ends before it starts")
    timed = [bound for bound in (start, end) if isinstance(bound, exp.Anonymous)]
    if timed and (
        unit != "RANGE" or isinstance(start, exp.Literal) or isinstance(end, exp.Literal)
    ):
        raise origin.refusal(spec, "a window frame of rows and of time")
    return tree.Frame(unit, first, last, _excluded(excluded, spec, origin), bool(timed))


def _rank(bound: tuple[int | None, int]) -> int:
    """Return -1 for PRECEDING, 0 for CURRENT ROW, 1 for FOLLOWING: no frame may go back."""
    return 0 if bound[0] == 0 else bound[1]


def _excluded(node: exp.Expression | None, spec: exp.Expression, origin: Origin) -> str:
    """Return the rows that EXCLUDE leaves out of a frame."""
    if node is None:
        return ""
    word = str(origin.take(node, "this")[0]).upper() if isinstance(node, exp.Var) else ""
    if word not in ("CURRENT ROW", "GROUP", "TIES", "NO OTHERS"):
        raise origin.refusal(spec, "this EXCLUDE of a frame")
    return "" if word == "NO OTHERS" else word


def _frame_bound(
    bound: Any, side: Any, spec: exp.Expression, origin: Origin, read: Read
) -> tuple[int | None, int]:
    direction = 1 if str(side).upper() == "FOLLOWING" else -1
    match bound:
        case "CURRENT ROW":
            return 0, direction
        case "UNBOUNDED":
            return None, direction
        case exp.Literal() | exp.Column():
            offset = read(bound, origin)
            rows = offset.value if isinstance(offset, tree.Literal) else None
            if type(rows) is int and 0 <= rows < MAX_OFFSET:
                return rows, direction
        case exp.Anonymous():
            distance = _length_of_time(read(bound, origin))
            if distance is not None:
                return distance, direction
    raise origin.refusal(spec, "a window frame with this offset")


def _length_of_time(duration: tree.Expression) -> int | None:
    """Return the microseconds of an INTERVAL; None for one with months, which differ."""
    match duration:
        case tree.Call(
            function="interval",
            args=(
                tree.Literal(value=0),
                tree.Literal(value=int(days)),
                tree.Literal(value=int(rest)),
            ),
        ) if 0 <= days <= MAX_DAYS and 0 <= rest <= DAY * MAX_DAYS:
            return days * DAY + rest
        case _:
            return None
