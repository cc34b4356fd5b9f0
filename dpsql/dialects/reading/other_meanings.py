"""Functions and operators of T-SQL and MySQL, with the meaning that they have there.

Each function has a row: the name that it has here, or a reader. A function without a row is
refused, because its name may mean something else in DuckDB.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeAlias

from sqlglot import exp

from dpsql.dialects.reading.function_names import PARTS
from dpsql.dialects.reading.interval_literals import Duration, duration_of, later, opposite
from dpsql.dialects.reading.nodes import Origin, spoken
from dpsql.dialects.reading.other_dialects import OTHERS
from dpsql.dialects.reading.time_calls import part_of
from dpsql.dialects.reading.window_frames import Read
from dpsql.model.durations import UNITS
from dpsql.model.errors import Reason, Refused
from dpsql.model.tree import (
    DOUBLE,
    INTEGER,
    STATED,
    TIMESTAMP,
    VARCHAR,
    Call,
    Cast,
    Expression,
    Literal,
    Span,
)

_Reader: TypeAlias = "Callable[[exp.Expression, list[exp.Expression], Origin, Read], Expression]"

_SAME = """abs acos asin atan ceiling cos exp floor log10 pi round sin
    sqrt tan coalesce nullif lower upper ltrim rtrim trim replace reverse year month day
    count sum min max row_number rank dense_rank ntile lag lead first_value last_value percent_rank
    cume_dist grouping cast extract dp_choose within_ranges""".split()
"""Functions with one meaning in all dialects."""

_NAMES: Mapping[str, Mapping[str, str]] = {
    "tsql": {
        **{name: name for name in (*_SAME, *STATED)},
        **{name: name for name in "concat concat_ws greatest least iif string_agg".split()},
        "approx_count_distinct": "approx_count_distinct",
        "avg": "avg",
        "count_big": "count",
        "eomonth": "last_day",
        "grouping_id": "grouping_id",
        "stdev": "stddev",
        "stdevp": "stddev_pop",
        "var": "variance",
        "varp": "var_pop",
    },
    "mysql": {
        **{name: name for name in (*_SAME, *STATED)},
        **{name: name for name in "ceil ln log2 pow mod ifnull if lcase ucase instr".split()},
        **{name: name for name in "degrees power radians sign".split()},
        **{name: name for name in "avg any_value stddev_pop var_pop stddev_samp var_samp".split()},
        **{name: name for name in "quarter hour minute second dayofyear dayofmonth".split()},
        **{name: name for name in "dayname monthname last_day date char_length".split()},
        "character_length": "character_length",
        "length": "octet_length",
        "std": "stddev_pop",
        "stddev": "stddev_pop",
        "variance": "var_pop",
    },
}
"""Our names of their functions."""

_CLOCKS: Mapping[str, Mapping[str, str]] = {
    "tsql": dict.fromkeys(
        ("getdate", "getutcdate", "sysdatetime", "sysutcdatetime", "current_timestamp"),
        "localtimestamp",
    ),
    "mysql": {
        **dict.fromkeys(
            ("now", "current_timestamp", "localtimestamp", "localtime", "sysdate", "utc_timestamp"),
            "localtimestamp",
        ),
        **dict.fromkeys(("curdate", "current_date", "utc_date"), "current_date"),
    },
}
"""Functions of the present, in UTC, without a time zone."""

_PARTS = {
    "tsql": {
        name: part
        for names, part in (
            ("year yy yyyy", "year"),
            ("quarter qq q", "quarter"),
            ("month mm m", "month"),
            ("dayofyear dy y", "doy"),
            ("day dd d", "day"),
            ("week wk ww", "week"),
            ("weekday dw w", "dow"),
            ("hour hh", "hour"),
            ("minute mi n", "minute"),
            ("second ss s", "second"),
            ("millisecond ms", "milliseconds"),
            ("iso_week isowk isoww", "isoweek"),
        )
        for name in names.split()
    },
    "mysql": {
        name: name for name in "year quarter month week day hour minute second microsecond".split()
    },
}
_STEPS = frozenset("year quarter month week day hour minute second milliseconds".split())
_DAYS = frozenset("year quarter month week day".split())
"""Parts whose step leads from a date to a date."""

_SHAPES = {
    **{mark: mark for mark in ("%Y", "%y", "%m", "%d", "%H", "%S", "%j", "%p", "%b", "%a", "%%")},
    "%i": "%M",
    "%s": "%S",
    "%M": "%B",
    "%W": "%A",
    "%h": "%I",
    "%I": "%I",
    "%T": "%H:%M:%S",
}
"""Marks of MySQL's DATE_FORMAT, as STRFTIME has them."""


def clock_of(name: str, dialect: str) -> str | None:
    """Return our name of a function of the present; None for other names.

    >>> clock_of("getdate", "tsql"), clock_of("now", "duckdb")
    ('localtimestamp', 'now')
    """
    return _CLOCKS[dialect].get(name) if dialect in OTHERS else name


def name_here(name: str, node: exp.Expression, origin: Origin) -> str:
    """Return our name of a function; raises `Refused` for one without a row."""
    if origin.dialect not in OTHERS or name in _CLOCKS[origin.dialect]:
        return name
    if name in _READERS[origin.dialect]:
        return name
    ours = _NAMES[origin.dialect].get(name)
    if ours is None:
        raise Refused(Reason.UNSUPPORTED_FUNCTION, origin.span(node), name=name)
    return ours


def read_as_there(
    name: str, args: list[exp.Expression], node: exp.Expression, origin: Origin, read: Read
) -> Expression | None:
    """Return a call with other arguments or another meaning there; None for other calls."""
    if origin.dialect not in OTHERS:
        return None
    if not args and (clock := clock_of(name, origin.dialect)) is not None:
        return origin.clock_reading(clock, origin.span(node))
    reader = _READERS[origin.dialect].get(name)
    return None if reader is None else reader(node, args, origin, read)


def sign_there(function: str, origin: Origin) -> str:
    """Return the function of an operator, as typed by its operands: see `source_operators`."""
    return _SIGNS.get((origin.dialect, function), function)


def equated_there(function: str, args: tuple[Expression, ...], origin: Origin, span: Span) -> Call:
    """Return `=`, `<>` or IN of values; in MySQL no text is compared with a whole constant."""
    whole = [a for a in args if isinstance(a, Literal) and type(a.value) is int]
    if origin.dialect == "mysql" and whole:
        args = tuple(
            arg if isinstance(arg, Literal) else Call("no_text", (arg, whole[0]), span=span)
            for arg in args
        )
    return Call(function, args, span=span)


def sum_there(
    function: str, args: tuple[Expression, Expression], origin: Origin, span: Span
) -> Expression:
    """Return `+` or `-`; T-SQL's `+` of two constant texts is one constant, as in patterns."""
    sign = sign_there(function, origin)
    match args:
        case Literal(str() as a, type=kind), Literal(str() as b) if kind == VARCHAR and (
            sign == "add_or_concat"
        ):
            return _text(a + b, span)
        case _:
            return Call(sign, args, span=span)


_SIGNS = {
    ("tsql", "add"): "add_or_concat",
    ("tsql", "sub"): "sub_numbers",
    ("tsql", "div"): "div_of_kind",
    ("mysql", "add"): "add_numbers",
    ("mysql", "sub"): "sub_numbers",
}

_IN_LIKE = {"tsql": "[", "mysql": "\\"}
"""Characters in patterns of LIKE that mean something else than themselves there."""
_EXTRACTED = frozenset("year quarter month day hour minute second".split())
"""Parts with one meaning; weeks of MySQL are others, and its microseconds are those of a second."""


def pattern_there(pattern: Expression, node: exp.Expression, origin: Origin) -> Expression:
    """Return a pattern of LIKE; raises `Refused` for one with another meaning there."""
    special = _IN_LIKE.get(origin.dialect)
    constant = isinstance(pattern, Literal) and isinstance(pattern.value, str)
    if special is not None and (not constant or special in str(getattr(pattern, "value", ""))):
        construct = f"{special} in a pattern" if constant else "LIKE with a computed pattern"
        raise origin.refusal(node, construct)
    return pattern


def part_there(part: str, node: exp.Expression, origin: Origin) -> str:
    """Return the part of EXTRACT; raises `Refused` for one with another meaning there."""
    if origin.dialect in OTHERS and part not in _EXTRACTED:
        raise origin.refusal(node, f"EXTRACT of the part {part}")
    return part


AVERAGES = {("tsql", "avg"): "avg_of_kind"}
"""Aggregates of whole numbers that are whole there."""


def _values(
    node: exp.Expression, args: list[exp.Expression], origin: Origin, read: Read, *counts: int
) -> list[Expression]:
    if len(args) not in counts:
        types = (f"{len(args)} arguments",)
        raise Refused(Reason.TYPE_MISMATCH, origin.span(node), function="this call", types=types)
    return [read(arg, origin) for arg in args]


def _part(node: exp.Expression, origin: Origin, allowed: frozenset[str]) -> str:
    """Return the part that a bare word names."""
    word = node.name.lower() if isinstance(node, exp.Column | exp.Var) else ""
    part = _PARTS[origin.dialect].get(word)
    if part is None or part not in allowed:
        raise origin.refusal(node, f"the part {word}" if word in PARTS else "this part of a time")
    return part


def _moment(node: exp.Expression, origin: Origin, read: Read) -> Expression:
    """Return a time; in T-SQL 0 is the first day of 1900, and a text is a time."""
    value = read(node, origin)
    match value:
        case Literal(value=0) if origin.dialect == "tsql":
            text = Literal("1900-01-01", VARCHAR, value.span)
        case Literal(value=str()):
            text = value
        case _:
            return value
    return Cast(text, TIMESTAMP, span=value.span)


def _text(value: str, span: Span) -> Literal:
    return Literal(value, VARCHAR, span)


def _whole(value: int, span: Span) -> Literal:
    return Literal(value, INTEGER, span)


def _with_kind(moved: Expression, moment: Expression, whole: bool, span: Span) -> Expression:  # noqa: FBT001
    """Return a moved time with the type of the time before, where the step is of whole days."""
    return Call("of_same_kind", (moved, moment), span=span) if whole else moved


def _date_add(
    node: exp.Expression, args: list[exp.Expression], origin: Origin, read: Read
) -> Expression:
    """Return T-SQL's DATEADD(part, count, time), also around DATEDIFF(part, 0, time), which is
    DATE_TRUNC.
    """
    if len(args) != 3:  # noqa: PLR2004
        raise origin.refusal(node, "DATEADD of anything but a part, a count and a time")
    part, span = _part(args[0], origin, _STEPS), origin.span(node)
    count, moment = read(args[1], origin), _moment(args[2], origin, read)
    match count, moment:
        case Call("date_diff", (Literal(value=same), zero, time)), Cast() if (
            same == part and zero == moment and part != "week"
        ):
            trunc = Call("date_trunc", (_text(part, span), time), span=span)
            return Cast(trunc, TIMESTAMP, span=span)
        case _:
            unit, size = UNITS["millisecond" if part == "milliseconds" else part]
            number = count if size == 1 else Call("mul", (count, _whole(size, span)), span=span)
            return _with_kind(
                later(moment, Duration(((unit, number),)), span), moment, part in _DAYS, span
            )


def _date_diff(
    node: exp.Expression, args: list[exp.Expression], origin: Origin, read: Read
) -> Expression:
    """Return T-SQL's DATEDIFF(part, from, to): boundaries between them; weeks begin on Sunday."""
    if len(args) != 3:  # noqa: PLR2004
        raise origin.refusal(node, "DATEDIFF of anything but a part and two times")
    part = _part(args[0], origin, _STEPS | {"doy", "dow"})
    start, end = (_moment(arg, origin, read) for arg in args[1:])
    span = origin.span(node)
    if part == "week":
        days = _text("day", span), _sunday(start, span), _sunday(end, span)
        return Call("int_div", (Call("date_diff", days, span=span), _whole(7, span)), span=span)
    unit = "day" if part in ("doy", "dow") else part
    return Call("date_diff", (_text(unit, span), start, end), span=span)


def _sunday(moment: Expression, span: Span) -> Expression:
    """Return the Monday after the Sunday with which the week of a time begins."""
    after = later(moment, Duration((("day", _whole(1, span)),)), span)
    return Call("date_trunc", (_text("week", span), after), span=span)


_SHOWN = frozenset("year quarter month doy day dow hour minute second isoweek".split())


def _date_part(
    node: exp.Expression, args: list[exp.Expression], origin: Origin, read: Read
) -> Expression:
    """Return T-SQL's DATEPART(part, time); days of the week are 1 to 7, from Sunday."""
    if len(args) != 2:  # noqa: PLR2004
        raise origin.refusal(node, "DATEPART of anything but a part and a time")
    part, moment, span = _part(args[0], origin, _SHOWN), read(args[1], origin), origin.span(node)
    number = part_of("week" if part == "isoweek" else part, moment, span)
    return Call("add", (number, _whole(1, span)), span=span) if part == "dow" else number


def _date_name(
    node: exp.Expression, args: list[exp.Expression], origin: Origin, read: Read
) -> Expression:
    """Return T-SQL's DATENAME(month | weekday, time), in English."""
    if len(args) != 2:  # noqa: PLR2004
        raise origin.refusal(node, "DATENAME of anything but a part and a time")
    part = _part(args[0], origin, frozenset({"month", "dow"}))
    name = "monthname" if part == "month" else "dayname"
    return Call(name, (read(args[1], origin),), span=origin.span(node))


def _days_between(
    node: exp.Expression, args: list[exp.Expression], origin: Origin, read: Read
) -> Expression:
    """Return MySQL's DATEDIFF(end, start): the days between two dates."""
    end, start = _values(node, args, origin, read, 2)
    span = origin.span(node)
    return Call("date_diff", (_text("day", span), start, end), span=span)


def _full_steps(
    node: exp.Expression, args: list[exp.Expression], origin: Origin, read: Read
) -> Expression:
    """Return MySQL's TIMESTAMPDIFF(unit, start, end): full units between two times."""
    if len(args) != 3:  # noqa: PLR2004
        raise origin.refusal(node, "TIMESTAMPDIFF of anything but a unit and two times")
    part, span = _part(args[0], origin, _STEPS), origin.span(node)
    start, end = (Cast(_moment(arg, origin, read), TIMESTAMP, span=span) for arg in args[1:])
    if part not in _MONTHS:
        return Call("date_sub", (_text(part, span), start, end), span=span)
    months = _full_months(start, end, span)
    return Call("int_div", (months, _whole(_MONTHS[part], span)), span=span)


_MONTHS = {"month": 1, "quarter": 3, "year": 12}


def _full_months(start: Expression, end: Expression, span: Span) -> Expression:
    """Return the full months between two times: from a 31st to a 30th there is none."""

    def call(function: str, *args: Expression) -> Call:
        return Call(function, args, span=span)

    def within(moment: Expression) -> Expression:
        first = call("date_trunc", _text("month", span), moment)
        return call("date_diff", _text("microseconds", span), Cast(first, TIMESTAMP), moment)

    months = call("date_diff", _text("month", span), start, end)
    short = call("lt", within(end), within(start)), call("gt", within(end), within(start))
    forward, back = call("ge", end, start), call("lt", end, start)
    one = _whole(1, span)
    return call(
        "case",
        call("and", forward, short[0]),
        call("sub", months, one),
        call("and", back, short[1]),
        call("add", months, one),
        months,
    )


def _stepped(*, back: bool) -> _Reader:
    """Return the reader of MySQL's DATE_ADD or DATE_SUB of a time and an INTERVAL."""

    def read_step(
        node: exp.Expression, args: list[exp.Expression], origin: Origin, read: Read
    ) -> Expression:
        step = duration_of(args[1], origin, read) if len(args) == 2 else None  # noqa: PLR2004
        if step is None:
            raise origin.refusal(node, "anything but a time and an INTERVAL here")
        moment, span = _moment(args[0], origin, read), origin.span(node)
        moved = later(moment, opposite(step) if back else step, span)
        whole = all(part in ("month", "day") for part, _count in step.parts)
        return _with_kind(moved, moment, whole, span)

    return read_step


def _formatted(
    node: exp.Expression, args: list[exp.Expression], origin: Origin, read: Read
) -> Expression:
    """Return MySQL's DATE_FORMAT(time, format)."""
    moment, form = _values(node, args, origin, read, 2)
    if not (isinstance(form, Literal) and isinstance(form.value, str)):
        raise origin.refusal(node, "DATE_FORMAT with a computed format")
    written, pieces = form.value, list[str]()
    while written:
        size = 2 if written[0] == "%" else 1
        piece, written = written[:size], written[size:]
        if size > 1 and piece not in _SHAPES:
            raise origin.refusal(node, f"DATE_FORMAT with {piece}")
        pieces.append(_SHAPES.get(piece, piece))
    return Call("strftime", (moment, _text("".join(pieces), form.span)), span=origin.span(node))


def _swapped(
    node: exp.Expression, args: list[exp.Expression], origin: Origin, read: Read
) -> Expression:
    """Return CHARINDEX or LOCATE(part, text): the first place of a part in a text.

    An empty part is nowhere in T-SQL, and at the first place elsewhere.
    """
    part, text = _values(node, args, origin, read, 2)
    if origin.dialect == "tsql" and not (isinstance(part, Literal) and part.value):
        raise origin.refusal(node, "CHARINDEX of a part that is not a constant text")
    return Call("strpos", (text, part), span=origin.span(node))


def _length(
    node: exp.Expression, args: list[exp.Expression], origin: Origin, read: Read
) -> Expression:
    """Return T-SQL's LEN(text), which does not count blanks at the end."""
    (text,), span = _values(node, args, origin, read, 1), origin.span(node)
    return Call("length", (Call("rtrim", (text,), span=span),), span=span)


def _logarithm(
    node: exp.Expression, args: list[exp.Expression], origin: Origin, read: Read
) -> Expression:
    """Return LOG(x), which is the natural logarithm."""
    (number,) = _values(node, args, origin, read, 1)
    return Call("ln", (number,), span=origin.span(node))


def _square(
    node: exp.Expression, args: list[exp.Expression], origin: Origin, read: Read
) -> Expression:
    """Return T-SQL's SQUARE(x), which is a FLOAT."""
    (number,), span = _values(node, args, origin, read, 1), origin.span(node)
    real = Cast(number, DOUBLE, span=span)
    return Call("mul", (real, real), span=span)


def _typed(function: str, count: int) -> _Reader:
    """Return the reader of a function that keeps the type of its first argument there."""

    def read_typed(
        node: exp.Expression, args: list[exp.Expression], origin: Origin, read: Read
    ) -> Expression:
        values = _values(node, args, origin, read, count)
        return Call(function, tuple(values), span=origin.span(node))

    return read_typed


def _end_of_text(function: str) -> _Reader:
    """Return the reader of LEFT or RIGHT(text, size)."""

    def read_end(
        node: exp.Expression, args: list[exp.Expression], origin: Origin, read: Read
    ) -> Expression:
        text, size = _values(node, args, origin, read, 2)
        return Call(function, (text, _size(size)), span=origin.span(node))

    return read_end


def _size(size: Expression) -> Expression:
    """Return a number of characters: none where it is negative."""
    if isinstance(size, Literal) and isinstance(size.value, int) and size.value >= 0:
        return size
    below = Call("lt", (size, _whole(0, size.span)), span=size.span)
    return Call("case", (below, _whole(0, size.span), size), span=size.span)


def _part_of_text(
    node: exp.Expression, args: list[exp.Expression], origin: Origin, read: Read
) -> Expression:
    """Return SUBSTRING(text, first, length)."""
    return part_of_text(_values(node, args, origin, read, 2, 3), node, origin)


def part_of_text(values: list[Expression], node: exp.Expression, origin: Origin) -> Expression:
    """Return a part of a text from a constant place on; other places differ in meaning."""
    text, first, *rest = values
    if not (isinstance(first, Literal) and isinstance(first.value, int) and first.value > 0):
        raise origin.refusal(node, "SUBSTRING from a place that is not a constant from 1 on")
    return Call("substring", (text, first, *map(_size, rest)), span=origin.span(node))


def _joined(
    node: exp.Expression, args: list[exp.Expression], origin: Origin, read: Read
) -> Expression:
    """Return MySQL's CONCAT(a, b, …), which is NULL where one of them is."""
    span, values = origin.span(node), [read(arg, origin) for arg in args]
    texts = [value.value for value in values if isinstance(value, Literal)]
    constant = [text for text in texts if isinstance(text, str)]
    if values and len(constant) == len(values):
        return _text("".join(constant), span)
    return Call("concat", tuple(Cast(value, VARCHAR, span=span) for value in values), span=span)


def _day_of_week(name: str, shift: int) -> _Reader:
    """Return the reader of a number of days of the week."""

    def read_day(
        node: exp.Expression, args: list[exp.Expression], origin: Origin, read: Read
    ) -> Expression:
        (moment,), span = _values(node, args, origin, read, 1), origin.span(node)
        return Call("add", (part_of(name, moment, span), _whole(shift, span)), span=span)

    return read_day


_READERS: Mapping[str, Mapping[str, _Reader]] = {
    "tsql": {
        "charindex": _swapped,
        "dateadd": _date_add,
        "datediff": _date_diff,
        "datediff_big": _date_diff,
        "datename": _date_name,
        "datepart": _date_part,
        "degrees": _typed("degrees_of_float", 1),
        "isnull": _typed("coalesce_of_kind", 2),
        "left": _end_of_text("left"),
        "len": _length,
        "log": _logarithm,
        "power": _typed("pow_of_float", 2),
        "radians": _typed("radians_of_float", 1),
        "right": _end_of_text("right"),
        "sign": _typed("sign_of_whole", 1),
        "square": _square,
        "substring": _part_of_text,
    },
    "mysql": {
        "adddate": _stepped(back=False),
        "concat": _joined,
        "date_add": _stepped(back=False),
        "date_format": _formatted,
        "date_sub": _stepped(back=True),
        "datediff": _days_between,
        "dayofweek": _day_of_week("dow", 1),
        "left": _end_of_text("left"),
        "locate": _swapped,
        "log": _logarithm,
        "mid": _part_of_text,
        "right": _end_of_text("right"),
        "subdate": _stepped(back=True),
        "substr": _part_of_text,
        "substring": _part_of_text,
        "timestampdiff": _full_steps,
        "weekday": _day_of_week("isodow", -1),
    },
}
"""Functions with other arguments, or another meaning."""


def assigned_name(
    node: exp.Expression, origin: Origin
) -> tuple[exp.Expression, exp.Expression] | None:
    """Return the value and the name of T-SQL's `SELECT name = value`; None for other items."""
    if not isinstance(node, exp.EQ):
        return None
    name, value = origin.take(node, "this", "expression")
    if not isinstance(name, exp.Column) or name.args.get("table") is not None:
        raise origin.refusal(node, f"{spoken(node)} in a SELECT list")
    return value, name.this
