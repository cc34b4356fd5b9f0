"""Types of expressions: every node gets its type, and literals adapt to the other operands.

A string literal next to a number or a BOOLEAN becomes one, as in SQL (literal coercion). Drivers
that splice parameters into text write `amount < '99.5'`, and leave the type to the server.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, date, datetime
from typing import assert_never

from dpsql import functions
from dpsql.compiler import aggregates
from dpsql.compiler.aggregates.sample import SAMPLE, check_sampled
from dpsql.compiler.resolve import interval_values as intervals
from dpsql.compiler.resolve import widths
from dpsql.compiler.resolve.scopes import Scope
from dpsql.compiler.resolve.source_operators import AVERAGE, of_kind, of_source
from dpsql.compiler.resolve.string_constants import coerced
from dpsql.compiler.resolve.widths import has_fraction
from dpsql.model import tree
from dpsql.model.bound_parameters import endless_moment
from dpsql.model.errors import Reason, Refused
from dpsql.model.walk import walk

COMPARING = frozenset("eq ne lt le gt ge in is_distinct is_not_distinct".split())
COERCING = COMPARING | frozenset("coalesce nullif least greatest".split())
"""Functions where string literals take the type of the other operands, as in d >= '2025-01-01'."""
EQUATING = frozenset("eq ne in".split())
"""Comparisons in which texts are read as numbers beside whole constants, as in score = 5."""
COUNTING = frozenset("add sub mul div int_div pg_div mod neg".split())
"""Operators that read a truth value as 1 or 0."""
ADDING = frozenset("sum avg variance var_pop stddev stddev_pop".split())
"""Aggregates that read a truth value as 1 or 0."""
DISTANCES = frozenset("date_diff date_sub".split())
"""Functions of two times, which may have a zone or not."""


def typed(expression: tree.Expression, scope: Scope) -> tree.Expression:
    """Return the expression with names looked up in `scope` and every type filled in.

    Raises `Refused` for unknown names and functions and for arguments of the wrong type.
    """
    whole = _tree(expression, scope)
    if isinstance(whole, tree.Call) and intervals.is_calendrical(whole):
        raise intervals.calendrical(whole)
    return whole


def _tree(expression: tree.Expression, scope: Scope) -> tree.Expression:
    match expression:
        case tree.Literal() | tree.Star() | tree.Ref():
            return expression
        case tree.Name():
            field = scope.lookup(expression)
            return tree.Ref(field.id, field.type, expression.span)
        case tree.Call():
            args = tuple(_tree(arg, scope) for arg in expression.args)
            return typed_call(replace(expression, args=args))
        case tree.Cast():
            return _cast(replace(expression, arg=_tree(expression.arg, scope)))
        case tree.AggregateCall(function=name) | tree.WindowCall(function=name) if name == AVERAGE:
            average = _tree(replace(expression, function="avg"), scope)
            return of_kind(average, type_of(typed(expression.args[0], scope)))
        case tree.AggregateCall():
            return _aggregate(expression, scope)
        case tree.WindowCall():
            return _window(expression, scope)
        case tree.ScalarQuery() | tree.Membership():
            raise Refused(Reason.UNSUPPORTED_SYNTAX, expression.span, construct="a subquery here")
        case _:
            assert_never(expression)


def type_of(expression: tree.Expression) -> tree.SqlType:
    """Return the type of an expression that `typed` has processed."""
    match expression:
        case tree.Name() | tree.Star() | tree.ScalarQuery() | tree.Membership():
            raise AssertionError(expression)
        case _:
            return expression.type


def predicate(expression: tree.Expression, scope: Scope) -> tree.Expression:
    """Return a typed condition; raises `Refused` unless it is BOOLEAN."""
    condition = typed(expression, scope)
    if type_of(condition).kind not in (tree.Kind.BOOLEAN, tree.Kind.NULL):
        raise _mismatch("condition", (type_of(condition),), condition)
    return condition


def typed_call(call: tree.Call) -> tree.Expression:
    """Return a call over typed arguments with its own type, or raise a refusal that points
    at it.
    """
    if call.function in tree.STATED:
        return _stated(call)
    meant = of_source(call, tuple(map(type_of, call.args)))
    if meant is not None:
        untyped = isinstance(meant, tree.Call) and meant.type == tree.NULL
        return typed_call(meant) if isinstance(meant, tree.Call) and untyped else meant
    if call.function == "list":
        return _list(call)
    call = _with_days(_with_typed_nulls(_with_truths_counted(_with_literals(call))))
    if is_difference(call):
        later, earlier = call.args
        unit = tree.Literal("microseconds", tree.VARCHAR, call.span)
        number = typed_call(tree.Call("date_diff", (unit, earlier, later), span=call.span))
        return intervals.length_of(number, call.span)
    lowered = intervals.lowered(call)
    if not isinstance(lowered, tree.Call) or lowered.type != tree.NULL:
        return lowered
    return _typed(lowered)


def _typed(call: tree.Call) -> tree.Expression:
    if call.function == "pg_div" and any(has_fraction(type_of(arg)) for arg in call.args):
        call = replace(call, function="div")
    function = functions.lookup(call.function)
    if function is None:
        raise Refused(Reason.UNKNOWN_FUNCTION, call.span, name=call.function)
    args = _coerced(call.args) if call.function in COERCING else call.args
    args = _as_texts(args) if call.function == "concat" else args
    args = _as_numbers(args) if call.function in EQUATING else args
    if call.function in COERCING | DISTANCES:
        args = _in_one_zone(args, call.function)
    types = tuple(type_of(arg) for arg in args)
    result = function.result_type(types)
    if result is None:
        in_company = _in_company(call)
        if in_company != call:
            return typed_call(in_company)
        raise _misfit(call, types)
    if not function.accepts(args):
        raise functions.unaccepted(call)
    return replace(call, args=args, type=widths.with_width_of_call(call, result, types))


def _list(call: tree.Call) -> tree.Expression:
    """Return `list(opening, comma, closing, values…)`: the text of the values, with their type.

    For one LIST(x) it is the text of its rows.
    """
    opening, comma, closing, *values = call.args
    match values:
        case [tree.AggregateCall(function="list", args=(value,)) as rows]:
            kind = type_of(value)
            shown = typed_call(_shown(value, call))
            inside: tree.Expression = replace(
                rows, function="string_agg", args=(shown, comma), type=tree.VARCHAR
            )
        case _:
            types = tuple(map(type_of, values))
            common = functions.common_type(types)
            if common is None:
                raise _mismatch(call.function, types, call)
            kind = common
            members = tuple(typed_call(_shown(value, call)) for value in values)
            inside = typed_call(tree.Call("concat_ws", (comma, *members), span=call.span))
    text = typed_call(tree.Call("concat", (opening, inside, closing), span=call.span))
    return tree.Cast(
        text, tree.list_of(tree.VARCHAR if kind == tree.NULL else kind), span=call.span
    )


def _shown(value: tree.Expression, call: tree.Call) -> tree.Call:
    """Return a member of a list as text; texts between braces are quoted, as PostgreSQL
    reads them.
    """
    text = _cast(tree.Cast(value, tree.VARCHAR, span=call.span))
    if type_of(value) == tree.VARCHAR and call.args[0] == tree.Literal("{", tree.VARCHAR):
        text = value
        for mark in ("\\", '"'):
            pair = (
                tree.Literal(mark, tree.VARCHAR, call.span),
                tree.Literal(f"\\{mark}", tree.VARCHAR, call.span),
            )
            text = typed_call(tree.Call("replace", (text, *pair), span=call.span))
        quote = tree.Literal('"', tree.VARCHAR, call.span)
        text = typed_call(tree.Call("concat", (quote, text, quote), span=call.span))
    nothing = tree.Literal("NULL", tree.VARCHAR, call.span)
    return tree.Call("coalesce", (text, nothing), span=call.span)


def is_difference(call: tree.Call) -> bool:
    """Test for a difference of two moments, which is an INTERVAL; that of two dates is not."""
    if call.function != "sub":
        return False
    kinds = {type_of(arg) for arg in call.args}
    return all(kind.is_temporal for kind in kinds) and kinds != {tree.DATE}


def _with_literals(call: tree.Call) -> tree.Call:
    """Convert strings to the type that the call needs.

    A string in a difference or AGE with a moment becomes a moment; one compared with an INTERVAL
    becomes an INTERVAL.
    """
    pair = call.function in ("sub", "age") and len(call.args) == len(("later", "earlier"))
    if pair and any(type_of(arg).is_temporal for arg in call.args):
        return replace(call, args=_coerced(call.args))
    if call.function in COERCING and any(map(intervals.is_length, call.args)):
        return replace(call, args=tuple(_read_as(arg, tree.INTERVAL) for arg in call.args))
    return call


def _in_company(call: tree.Call) -> tree.Call:
    """Read bare strings as values of the other operands' types, where that is possible.

    A string that is added to a moment is an INTERVAL, as in PostgreSQL.
    """
    company = [type_of(arg) for arg in call.args if not _is_bare(arg)]
    targets = [
        kind
        for kind in dict.fromkeys(company)
        if kind not in (tree.NULL, tree.VARCHAR, tree.BOOLEAN)
    ]
    for target in targets:
        added = call.function == "add" and target.is_temporal
        read = tuple(_added(arg) if added else _read_as(arg, target) for arg in call.args)
        if read != call.args:
            return replace(call, args=read)
    return call


def _is_bare(arg: tree.Expression) -> bool:
    return isinstance(arg, tree.Literal) and arg.type == tree.VARCHAR


def _added(arg: tree.Expression) -> tree.Expression:
    """Read a bare string as an INTERVAL of months, days and the rest."""
    if not (isinstance(arg, tree.Literal) and isinstance(arg.value, str)):
        return arg
    return intervals.of_string(arg.value, arg.span) or arg


def _read_as(arg: tree.Expression, target: tree.SqlType) -> tree.Expression:
    """Read a bare string as a constant of a type; unchanged where it is none."""
    if not (isinstance(arg, tree.Literal) and _is_bare(arg)):
        return arg
    if not target.is_temporal:
        return coerced(arg, target)
    try:
        return _temporal(arg, target)
    except Refused:
        return arg


def _stated(call: tree.Call) -> tree.Call:
    """Return the error of a number with its type; refuses other arguments."""
    kind = type_of(call.args[0])
    if not kind.is_numeric:
        raise _mismatch(call.function, (kind,), call)
    return replace(call, type=tree.DOUBLE)


def _cast(cast: tree.Cast) -> tree.Expression:
    if cast.type == tree.INTERVAL:
        return _length(cast)
    if cast.type == tree.TIMESTAMPTZ and type_of(cast.arg) != tree.TIMESTAMPTZ:
        cast = replace(cast, arg=_in_utc(cast.arg))
        if type_of(cast.arg) == tree.TIMESTAMPTZ:
            return cast.arg
    if cast.type == tree.TIME and type_of(cast.arg) == tree.TIMESTAMPTZ:
        cast = replace(cast, arg=tree.Cast(cast.arg, tree.TIMESTAMP, span=cast.arg.span))
    if functions.cast_to(cast.type).result_type((type_of(cast.arg),)) is None:
        raise _mismatch("cast", (type_of(cast.arg), cast.type), cast)
    return cast


def _length(cast: tree.Cast) -> tree.Expression:
    """Return CAST(x AS INTERVAL), for an INTERVAL or a constant."""
    arg = _added(cast.arg)
    if type_of(arg) == tree.NULL:
        return tree.Literal(None, tree.INTERVAL, cast.span)
    if type_of(arg) == tree.INTERVAL:
        return arg
    construct = "a cast to INTERVAL of anything but a constant"
    raise Refused(Reason.UNSUPPORTED_SYNTAX, cast.span, construct=construct)


def _aggregate(call: tree.AggregateCall, scope: Scope) -> tree.Expression:
    args = tuple(typed(arg, scope) for arg in call.args)
    lengths = call.function in intervals.NUMBERED and bool(args) and intervals.is_length(args[0])
    if lengths:
        args = (intervals.micros(args[0]), *args[1:])
    condition = None if call.filter is None else predicate(call.filter, scope)
    order = tuple(_sort_key(key, scope) for key in call.order_by)
    conditions = () if condition is None else (condition,)
    sampled = args[:1] if call.function == SAMPLE else ()
    for part in (*args[len(sampled) :], *conditions, *(key.expression for key in order)):
        for node in walk(part):
            if isinstance(node, tree.AggregateCall | tree.WindowCall):
                raise Refused(Reason.MISPLACED_AGGREGATE, node.span, name=node.function)
    for part in sampled:
        check_sampled(part)
    args, result = _taken(call, args, aggregates.result_type)
    _check_arguments(call, args)
    if order and not aggregates.is_ordered(call.function):
        order = ()
    if call.distinct and any(key.expression not in args for key in order):
        raise Refused(Reason.SYNTAX, call.span, why="with DISTINCT, order by the argument")
    call = replace(call, args=args, filter=condition, type=result, order_by=order)
    call = _unfolded(call) if call.distinct else call
    return intervals.length_of(call, call.span) if lengths else call


def _unfolded(call: tree.AggregateCall) -> tree.AggregateCall:
    """Rewrite COUNT(DISTINCT CASE WHEN c THEN x END) to count the values of x in the rows of c.

    More is known of x itself than of the CASE: it may be the unit key.
    """
    match call:
        case tree.AggregateCall(
            function="count",
            distinct=True,
            args=(
                tree.Call(
                    function="case", args=(condition, value, tree.Literal(value=None))
                ) as case,
            ),
        ) if type_of(value) == case.type:
            both = condition if call.filter is None else call.filter & condition
            return replace(call, args=(value,), filter=both)
        case _:
            return call


def _taken(
    call: tree.AggregateCall | tree.WindowCall,
    args: tuple[tree.Expression, ...],
    result_type: Callable[[str, tuple[tree.SqlType, ...]], tree.SqlType | None],
) -> tuple[tuple[tree.Expression, ...], tree.SqlType]:
    """Return the arguments and the type; sums and averages read truth values as 1 and 0."""
    counted = (tuple(map(_counted, args)),) if call.function in ADDING else ()
    for tried in (args, *counted):
        kind = result_type(call.function, _types(tried))
        if kind is not None:
            return tried, widths.with_width_of_aggregate(call.function, kind, _types(tried))
    raise _mismatch(call.function, _types(args), call)


def _types(args: tuple[tree.Expression, ...]) -> tuple[tree.SqlType, ...]:
    return tuple(tree.BOOLEAN if isinstance(arg, tree.Star) else type_of(arg) for arg in args)


def _check_arguments(
    call: tree.AggregateCall | tree.WindowCall, args: tuple[tree.Expression, ...]
) -> None:
    """Refuse arguments that must be constants but are not, and those on which the engine fails."""
    if not aggregates.accepts(call.function, args):
        construct = f"these arguments of {call.function.upper()}"
        raise Refused(Reason.UNSUPPORTED_SYNTAX, call.span, construct=construct)


def _window(call: tree.WindowCall, scope: Scope) -> tree.WindowCall:
    args = tuple(arg if isinstance(arg, tree.Star) else typed(arg, scope) for arg in call.args)
    args, result = _taken(call, args, aggregates.window_type)
    _check_arguments(call, args)
    order = tuple(_sort_key(key, scope) for key in call.order_by)
    if call.frame is not None and call.frame.timed:
        order = tuple(map(_in_microseconds, order))
    _check_frame(call, order)
    return replace(
        call,
        args=args,
        filter=None if call.filter is None else predicate(call.filter, scope),
        partition_by=tuple(typed(arg, scope) for arg in call.partition_by),
        order_by=order,
        type=result,
    )


def _check_frame(call: tree.WindowCall, order: tuple[tree.SortKey, ...]) -> None:
    """Refuse a RANGE frame with a distance unless it is ordered by one number."""
    frame = call.frame
    if frame is None or frame.unit != "RANGE" or not frame.has_distance:
        return
    if len(order) != 1 or not type_of(order[0].expression).is_numeric:
        construct = "a RANGE frame with a distance, unless ordered by one number, or time"
        raise Refused(Reason.UNSUPPORTED_SYNTAX, call.span, construct=construct)


def _in_microseconds(key: tree.SortKey) -> tree.SortKey:
    """Return a key of an order of times, as a number."""
    moment = key.expression
    if not type_of(moment).is_temporal:
        raise _mismatch("RANGE", (type_of(moment),), moment)
    if type_of(moment) == tree.DATE:
        moment = tree.Cast(moment, tree.TIMESTAMP)
    return replace(key, expression=typed_call(tree.Call("epoch_us", (moment,))))


def _sort_key(key: tree.SortKey, scope: Scope) -> tree.SortKey:
    return replace(key, expression=typed(key.expression, scope))


def _coerced(args: tuple[tree.Expression, ...]) -> tuple[tree.Expression, ...]:
    kinds = [type_of(a) for a in args if type_of(a).is_temporal]
    if not kinds:
        return _unquoted(args)
    columns = [
        type_of(a) for a in args if type_of(a).is_temporal and not isinstance(a, tree.Literal)
    ]
    target = (columns or kinds)[0]
    return tuple(_temporal(arg, target) for arg in args)


def _unquoted(args: tuple[tree.Expression, ...]) -> tuple[tree.Expression, ...]:
    """Convert string literals next to numbers, BOOLEANs, TIMEs and UUIDs to these types.

    UUIDs that a driver binds become text next to text.
    """
    if any(type_of(a) == tree.VARCHAR and not isinstance(a, tree.Literal) for a in args):
        return tuple(
            tree.Literal(str(arg.value), tree.VARCHAR, arg.span)
            if isinstance(arg, tree.Literal) and isinstance(arg.value, uuid.UUID)
            else arg
            for arg in args
        )
    company = [type_of(a) for a in args if type_of(a) not in (tree.VARCHAR, tree.NULL)]
    target = next((kind for kind in company if kind != tree.INTEGER), tree.INTEGER)
    return tuple(coerced(a, target) if company and isinstance(a, tree.Literal) else a for a in args)


def _as_numbers(args: tuple[tree.Expression, ...]) -> tuple[tree.Expression, ...]:
    """Read texts beside whole constants as numbers, as DuckDB does."""
    texts = [a for a in args if type_of(a) == tree.VARCHAR and not isinstance(a, tree.Literal)]
    whole = [a for a in args if type_of(a) == tree.INTEGER and isinstance(a, tree.Literal)]
    if not (texts and whole) or len(texts) + len(whole) < len(args):
        return args
    return tuple(tree.Cast(a, tree.INTEGER) if a in texts else a for a in args)


def _as_texts(args: tuple[tree.Expression, ...]) -> tuple[tree.Expression, ...]:
    """Convert operands next to a text in `||` to text: `7 || '%'`."""
    types = {type_of(arg) for arg in args}
    if tree.VARCHAR not in types:
        return args
    return tuple(
        arg
        if type_of(arg) in (tree.VARCHAR, tree.NULL)
        else tree.Cast(arg, tree.VARCHAR, span=arg.span)
        for arg in args
    )


def _in_one_zone(args: tuple[tree.Expression, ...], function: str) -> tuple[tree.Expression, ...]:
    """Convert times next to times with a zone: both are in UTC, the session's zone.

    The engine would convert them itself, which in some versions fails on far times.
    """
    types = {type_of(arg) for arg in args if not isinstance(arg, tree.Literal)}
    if function in COMPARING | DISTANCES and types and types <= {tree.DATE, tree.TIMESTAMP}:
        return tuple(
            tree.Literal(_as_kind(arg.value, tree.Kind.TIMESTAMP), tree.TIMESTAMP, arg.span)
            if isinstance(arg, tree.Literal) and isinstance(arg.value, datetime)
            else arg
            for arg in args
        )
    if tree.TIMESTAMPTZ not in {type_of(arg) for arg in args}:
        return args
    return tuple(_in_utc(arg) for arg in args)


def _in_utc(arg: tree.Expression) -> tree.Expression:
    """Convert a date or time without a zone to TIMESTAMPTZ; other values are unchanged."""
    kind = type_of(arg)
    if kind not in (tree.DATE, tree.TIMESTAMP):
        return arg
    moment = arg if kind == tree.TIMESTAMP else tree.Cast(arg, tree.TIMESTAMP, span=arg.span)
    utc = tree.Literal("UTC", tree.VARCHAR, arg.span)
    return tree.Call("timezone", (utc, moment), tree.TIMESTAMPTZ, arg.span)


def _temporal(arg: tree.Expression, target: tree.SqlType) -> tree.Expression:
    if not (isinstance(arg, tree.Literal) and isinstance(arg.value, str)):
        return arg
    if (endless := endless_moment(arg, target)) is not None:
        return endless
    try:
        written = arg.moment or datetime.fromisoformat(arg.value.strip())
        moment = _as_kind(written, target.kind)
    except (ValueError, OverflowError):
        raise _unreadable(arg, target) from None
    return tree.Literal(moment, target, arg.span)


def _as_kind(moment: datetime, kind: tree.Kind) -> date | datetime:
    if kind is tree.Kind.DATE:
        return moment.date()
    if kind is tree.Kind.TIMESTAMPTZ:
        return moment.astimezone(UTC) if moment.tzinfo else moment.replace(tzinfo=UTC)
    return moment.astimezone(UTC).replace(tzinfo=None) if moment.tzinfo else moment


def _with_truths_counted(call: tree.Call) -> tree.Call:
    """Convert truth values to 1 and 0 in arithmetic, and in comparisons with numbers."""
    types = [type_of(arg) for arg in call.args]
    compared = call.function in COMPARING and any(kind.is_numeric for kind in types)
    if tree.BOOLEAN not in types or not (compared or call.function in COUNTING):
        return call
    return replace(call, args=tuple(map(_counted, call.args)))


def _counted(arg: tree.Expression) -> tree.Expression:
    counts = not isinstance(arg, tree.Star) and type_of(arg) == tree.BOOLEAN
    return tree.Cast(arg, tree.INTEGER, span=arg.span) if counts else arg


def _with_typed_nulls(call: tree.Call) -> tree.Call:
    """Give NULLs the type of the other operands, where a function is not defined for bare ones."""
    function = functions.lookup(call.function)
    types = [type_of(arg) for arg in call.args]
    if tree.NULL not in types or function is None or function.result_type(tuple(types)) is not None:
        return call
    for target in (*(kind for kind in types if kind != tree.NULL), tree.INTEGER, tree.VARCHAR):
        tried = _with_days(replace(call, args=tuple(_null_as(arg, target) for arg in call.args)))
        function = functions.lookup(tried.function)
        if function is not None and function.result_type(tuple(map(type_of, tried.args))):
            return replace(call, args=tuple(_null_as(arg, target) for arg in call.args))
    return call


def _null_as(arg: tree.Expression, target: tree.SqlType) -> tree.Expression:
    return tree.Cast(arg, target, span=arg.span) if type_of(arg) == tree.NULL else arg


def _with_days(call: tree.Call) -> tree.Call:
    """Return a date plus or minus a number of days as `add_days`, which is a separate function."""
    kinds = [type_of(arg).kind for arg in call.args]
    match call.function, kinds:
        case "add", [tree.Kind.DATE, tree.Kind.INTEGER]:
            return replace(call, function="add_days")
        case "add", [tree.Kind.INTEGER, tree.Kind.DATE]:
            return replace(call, function="add_days", args=call.args[::-1])
        case "sub", [tree.Kind.DATE, tree.Kind.INTEGER]:
            day, count = call.args
            back = typed_call(tree.Call("neg", (count,), span=call.span))
            return replace(call, function="add_days", args=(day, back))
        case _:
            return call


def _misfit(call: tree.Call, types: tuple[tree.SqlType, ...]) -> Refused:
    """Return the refusal of a call; it points at the one bare string that is no value of the other
    type.
    """
    bare = [arg for arg in call.args if _is_bare(arg)]
    company = {kind for kind in types if kind not in (tree.NULL, tree.VARCHAR)}
    if call.function in COERCING and len(bare) == len(company) == 1:
        return _unreadable(bare[0], next(iter(company)))
    return _mismatch(call.function, types, call)


def _unreadable(literal: tree.Expression, target: tree.SqlType) -> Refused:
    assert isinstance(literal, tree.Literal)
    facts = {"text": literal.value, "kind": str(target)}
    return Refused(Reason.TYPE_MISMATCH, literal.span, **facts)


def _mismatch(function: str, types: tuple[tree.SqlType, ...], place: tree.Expression) -> Refused:
    row, facts = functions.lookup(function), dict[str, object]()
    casts = (
        (n, kind) for n in range(len(types)) for kind in (tree.VARCHAR, tree.INTEGER, tree.DOUBLE)
    )
    for n, kind in casts if row is not None else ():
        if row is not None and row.result_type((*types[:n], kind, *types[n + 1 :])) is not None:
            facts["fix"] = f"CAST argument {n + 1}, as in CAST(x AS {kind})."
            break
    if function == "sub" and types[0] == tree.INTERVAL and types[1].is_temporal:
        facts["fix"] = "Subtract the interval from the time: x - INTERVAL 7 DAY."
    shown = tuple(str(t) for t in types)
    return Refused(Reason.TYPE_MISMATCH, place.span, function=function, types=shown, **facts)
