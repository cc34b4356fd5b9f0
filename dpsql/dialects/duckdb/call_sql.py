"""DuckDB's spelling of each function of the registry, and of aggregates and window functions."""

from __future__ import annotations

from dpsql.compiler.aggregates import of_engines
from dpsql.dialects.duckdb.like_sql import ilike, like
from dpsql.dialects.literal_sql import constant
from dpsql.dialects.operators import OPERATORS, Printed, listed
from dpsql.dialects.sql_text import ATOM, PRODUCT, SUM, Text
from dpsql.functions import LONGEST_COMPARED, LONGEST_TEXT
from dpsql.functions.date_making import bucket_origin
from dpsql.functions.dates import EPOCH, LENGTHS, MICROSECOND
from dpsql.model import tree
from dpsql.model.errors import Reason, Refused

DISTANCES = (
    "levenshtein",
    "damerau_levenshtein",
    "hamming",
    "jaccard",
    "jaro_similarity",
    "jaro_winkler_similarity",
)


def spelled(name: str, args: tuple[Text, ...], kind: tree.SqlType, *, total: bool) -> Text:
    """Return the call as text; with `total`, functions that lengthen text cut it.

    A function that is in no table is printed as `name(args)`.
    """
    if name == "pg_div":
        name = "int_div" if kind == tree.INTEGER else "div"
    if total and name in SUBSTITUTING:
        args = (_cut(args[0]), *args[1:])
    special = SPECIAL.get(name) or OPERATORS.get(name)
    text = Text(f"{name}({listed(args)})", kind) if special is None else special(args, kind)
    if total and name in LENGTHENING:
        return _cut(text)
    return text


def _cut(text: Text) -> Text:
    return Text(f"left({text.sql}, {LONGEST_TEXT})", text.type)


LENGTHENING = frozenset(
    "concat concat_ws replace regexp_replace hex bin url_encode repeat printf format".split()
)
"""Functions with results that can be at least as long as their arguments together."""

SUBSTITUTING = frozenset({"replace", "regexp_replace", "nfc_normalize", "strptime"})
"""Functions with results many times as long as their first argument, which is cut, or that take the
square of its length in time: NFC sorts marks one by one, and the error of DuckDB 1.5 quotes each
NUL of a text that is no time."""


def _to_digits(name: str) -> Printed:
    """Return the printer of ROUND or TRUNC, with or without a number of digits."""

    def text(args: tuple[Text, ...], kind: tree.SqlType) -> Text:
        if kind.kind is not tree.Kind.DECIMAL or not args[1:]:
            return Text(f"{name}({listed(args)})", kind)
        # DuckDB may type the argument with other digits, on which the result depends if they are
        # few, and the result with another scale; ours is that of the argument.
        exact = f"CAST({args[0].sql} AS {tree.type_name(args[0].type)})"
        return Text(f"CAST({name}({exact}, {args[1].sql}) AS {tree.type_name(kind)})", kind)

    return text


def _of_integer(name: str) -> Printed:
    """Return the printer of a function of a 32-bit INTEGER; other integers give NULL."""
    return lambda args, kind: Text(f"{name}(TRY_CAST({args[0].sql} AS INTEGER))", kind)


def _repeat(args: tuple[Text, ...], kind: tree.SqlType) -> Text:
    """Return REPEAT of a literal up to the longest text, or of any text a few times."""
    literal, count = args[0].literal, args[1].sql
    if literal is None:
        return Text(f"repeat({_cut(args[0]).sql}, {count})", kind)
    most = LONGEST_TEXT // max(1, len(str(literal.value)))
    return Text(
        _with(count, f"repeat({args[0].sql}, CASE WHEN x > {most} THEN {most} ELSE x END)"), kind
    )


def _distance(name: str) -> Printed:
    """Return the printer of a distance of texts, each cut to limit the cost."""

    def text(args: tuple[Text, ...], kind: tree.SqlType) -> Text:
        cut = ", ".join(f"left({arg.sql}, {LONGEST_COMPARED})" for arg in args)
        return Text(f"{name}({cut})", kind)

    return text


def _bucket(args: tuple[Text, ...], kind: tree.SqlType) -> Text:
    """Return WIDTH_BUCKET, which DuckDB lacks: the bucket's number, 0 below and n + 1 above."""
    value, low, high, count = (arg.operand(ATOM) for arg in args)
    low, high = f"{low}::DOUBLE", f"{high}::DOUBLE"
    place = f"floor((x - {low}) * {count} / ({high} - {low}))"
    bucket = f"1 + CAST(least(greatest({place}, -1), {count}) AS BIGINT)"
    return Text(_with(f"{value}::DOUBLE", f"CASE WHEN x IS NULL THEN NULL ELSE {bucket} END"), kind)


def _json(args: tuple[Text, ...], kind: tree.SqlType) -> Text:
    """Return a value in JSON, NULL for a number that is not finite."""
    value = args[0]
    shown = f"CAST(to_json({value.sql}) AS VARCHAR)"
    if value.type.kind is tree.Kind.DOUBLE:
        shown = _with(value.sql, "CASE WHEN isfinite(x) THEN CAST(to_json(x) AS VARCHAR) END")
    return Text(shown, kind)


def _with(value: str, body: str) -> str:
    """Return the expression `body` of `x` = `value`, so that a text is printed only once."""
    return f"[{body} FOR x IN [{value}]][1]"


INTERVALS = {
    "month": ("to_months", "INTEGER"),
    "day": ("to_days", "INTEGER"),
    "microseconds": ("to_microseconds", "BIGINT"),
}
"""Function that makes an INTERVAL of a unit without failing, and the type of its argument."""

WIDTHS = {"INTEGER": 2**31, "BIGINT": 2**63}


def _word(arg: Text) -> str:
    """Return a plain word from a quoted part that `accepts` admitted."""
    return arg.sql.strip("'")


def _extract(args: tuple[Text, ...], kind: tree.SqlType) -> Text:
    part = f"extract({_word(args[0])} FROM {args[1].sql})"
    if args[1].type == tree.TIME and _word(args[0]) == "hour":
        part += " % 24"  # 24:00 is a midnight
    # DuckDB returns a DOUBLE for a constant NULL.
    return Text(f"CAST({part} AS {tree.type_name(kind)})", kind)


def _narrow(arg: Text, width: str) -> str:
    """Return SQL for the number in the width that a function takes, NULL beyond it."""
    value = None if arg.literal is None else arg.literal.value
    if isinstance(value, int) and abs(value) < WIDTHS[width]:
        return arg.sql
    return f"TRY_CAST({arg.sql} AS {width})"


def _as_bigint(arg: Text) -> str:
    return f"TRY_CAST({arg.sql} AS BIGINT)"


def interval(unit: Text, count: Text) -> str:
    """Return an INTERVAL of `count` units; NULL if the number is out of range."""
    make, width = INTERVALS[_word(unit)]
    return f"{make}({_narrow(count, width)})"


def _add_days(args: tuple[Text, ...], kind: tree.SqlType) -> Text:
    day, count = args
    number = Text(_narrow(count, "INTEGER"), count.type, count.level)
    return Text(f"{day.operand(SUM)} + {number.operand(PRODUCT)}", kind, SUM)


def _after_1970(microseconds: str) -> str:
    """Return SQL for a timestamp in microseconds after 1970, checked: MAKE_TIMESTAMP allows values
    that break DuckDB.
    """
    return f"TIMESTAMP '1970-01-01' + to_microseconds(TRY_CAST({microseconds} AS BIGINT))"


def _in_utc(moment: Text) -> str:
    """Return SQL for a TIMESTAMPTZ as TIMESTAMP in UTC, NULL if infinite, without DuckDB's calendar
    of zones.

    That calendar fails on far times, and DuckDB 1.5 then treats the database as broken.
    """
    if moment.type != tree.TIMESTAMPTZ:
        return moment.sql
    return f"TRY({_after_1970(f'epoch_us({moment.sql})')})"


def _between(name: str) -> Printed:
    """Return the printer of DATE_DIFF or DATE_SUB."""

    def text(args: tuple[Text, ...], kind: tree.SqlType) -> Text:
        return Text(f"{name}({args[0].sql}, {_in_utc(args[1])}, {_in_utc(args[2])})", kind)

    return text


def _to_timestamp(args: tuple[Text, ...], kind: tree.SqlType) -> Text:
    seconds = f"TRY_CAST({args[0].sql} AS DOUBLE)"
    moment = _after_1970(f"{seconds} * 1e6")
    return Text(f"CAST(TRY({moment}) AS {tree.type_name(kind)})", kind)


def _epoch_ms(args: tuple[Text, ...], kind: tree.SqlType) -> Text:
    if kind != tree.TIMESTAMP:
        return Text(f"epoch_ms({args[0].sql})", kind)
    return Text(_after_1970(f"{_as_bigint(args[0])}::HUGEINT * 1000"), kind, SUM)


def _time_bucket(args: tuple[Text, ...], kind: tree.SqlType) -> Text:
    """Return the start of the bucket by integer arithmetic: DuckDB's TIME_BUCKET breaks on far
    timestamps.

    `+ shift` makes the number positive, so that `//` rounds down; it is a multiple of the width.
    """
    unit, count, moment, *given = args
    name, width = _word(unit), count.value
    assert isinstance(width, int)  # `accepts` let it through
    origin = bucket_origin(name, None if not given else given[0].value)
    if name == "month":
        start = Text(constant(tree.Literal(origin, tree.TIMESTAMP)), tree.TIMESTAMP)
        position = f"TRY(date_diff('month', {start.sql}, {_in_utc(moment)}))"
        months = _rounded_down(position, width)
        bucket = f"{start.sql} + to_months(TRY_CAST({months} AS INTEGER))"
    else:
        width *= LENGTHS[name] // MICROSECOND
        offset = (origin - EPOCH) // MICROSECOND
        position = f"TRY(epoch_us({moment.sql}))"
        micros = _rounded_down(position, width, offset)
        bucket = _after_1970(micros)
    if kind == tree.TIMESTAMP:
        return Text(bucket, kind, SUM)
    return Text(f"CAST(TRY({bucket}) AS {tree.type_name(kind)})", kind)


def _rounded_down(position: str, width: int, offset: int = 0) -> str:
    """Return SQL for the greatest `offset + n · width` up to the position, as HUGEINT."""
    shift = (2**64 // width + 1) * width - offset
    whole = f"(({position}::HUGEINT + {shift}::HUGEINT) // {width}::HUGEINT)"
    return f"{whole} * {width}::HUGEINT - {shift}::HUGEINT"


def _age(later: Text, earlier: Text) -> str:
    """Return AGE, NULL if a timestamp is infinite."""
    return f"TRY(age({_as_time(later)}, {_as_time(earlier)}))"


def _as_time(moment: Text) -> str:
    return f"CAST({moment.sql} AS TIMESTAMP)" if moment.type == tree.DATE else _in_utc(moment)


def _age_part(args: tuple[Text, ...], kind: tree.SqlType) -> Text:
    part = f"extract({_word(args[0])} FROM {_age(args[1], args[2])})"
    return Text(f"CAST({part} AS {tree.type_name(kind)})", kind)


TIMES: dict[str, Printed] = {
    "interval_of": lambda args, kind: Text(f"CAST({args[0].sql} AS {tree.type_name(kind)})", kind),
    "interval_us": lambda args, kind: Text(args[0].sql, kind, args[0].level),
    "age_part": _age_part,
    "age_us": lambda args, kind: Text(f"epoch_us({_age(args[0], args[1])})", kind),
    "age_seconds": lambda args, kind: Text(f"extract(epoch FROM {_age(args[0], args[1])})", kind),
    "extract": _extract,
    "epoch": lambda args, kind: Text(f"extract(epoch FROM {args[0].sql})", kind),
    "date_add": lambda args, kind: Text(
        f"{args[2].operand(SUM)} + {interval(args[0], args[1])}", kind, SUM
    ),
    "add_days": _add_days,
    "date_diff": _between("date_diff"),
    "date_sub": _between("date_sub"),
    "make_date": lambda args, kind: Text(f"make_date({', '.join(map(_as_bigint, args))})", kind),
    "make_timestamp": lambda args, kind: Text(
        f"make_timestamp({', '.join([*map(_as_bigint, args[:-1]), args[-1].sql])})", kind
    ),
    "to_timestamp": _to_timestamp,
    "epoch_ms": _epoch_ms,
    "time_bucket": _time_bucket,
}


SPECIAL: dict[str, Printed] = {
    "like": like,
    "ilike": ilike,
    "round": _to_digits("round"),
    "trunc": _to_digits("trunc"),
    "factorial": _of_integer("factorial"),
    "chr": _of_integer("chr"),
    "repeat": _repeat,
    "format_decimal_bytes": lambda args, kind: Text(
        f"formatReadableDecimalSize({args[0].sql})", kind
    ),
    "width_bucket": _bucket,
    "json_text": _json,
    "local_estimate": lambda args, kind: Text(args[0].sql, kind, args[0].level),
    **{name: _distance(name) for name in DISTANCES},
    **TIMES,
}

OTHERWISE = {"stddev": "stddev_samp", "variance": "var_samp"}
"""Aggregates with another name in DuckDB."""

MOMENTS = frozenset(
    """stddev stddev_samp stddev_pop variance var_samp var_pop corr covar_pop covar_samp
    regr_intercept regr_r2 regr_slope regr_sxx regr_sxy regr_syy skewness kurtosis
    kurtosis_pop""".split()
)
"""Aggregates of squares and products, on which some versions of DuckDB fail at an overflow."""


def widest(function: str) -> str:
    """Return a size up to which powers can be summed, and multiplied as moments are."""
    return "1e60" if function in ("skewness", *FOURTH_POWERS) else "1e140"


FOURTH_POWERS = ("kurtosis", "kurtosis_pop")
"""Moments that divide by the square of the variance."""


def least(function: str) -> str:
    """Return a size below which numbers count as zero; "" without such a limit.

    The variance of smaller numbers has a square that a DOUBLE rounds to zero. Up to version 1.5
    DuckDB divides by it and raises.
    """
    return "1e-60" if function in FOURTH_POWERS else ""


def aggregate_name(call: tree.AggregateCall | tree.WindowCall) -> str:
    """Return DuckDB's name of an aggregate or window function; raise `Refused` if it has none."""
    if not of_engines(call.function):
        raise Refused(Reason.UNSUPPORTED_AGGREGATE, call.span, name=call.function)
    return OTHERWISE.get(call.function, call.function)
