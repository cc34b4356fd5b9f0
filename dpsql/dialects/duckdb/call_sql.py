"""How DuckDB spells each function of the registry, and each aggregate and window function."""

from __future__ import annotations

from dpsql.dialects.duckdb.time_sql import TIMES
from dpsql.dialects.operators import OPERATORS, Printed, listed
from dpsql.dialects.sql_text import ATOM, Text
from dpsql.functions import LONGEST_COMPARED, LONGEST_TEXT
from dpsql.model.errors import Reason, Refused
from dpsql.model.tree import INTEGER, AggregateCall, Frame, Kind, SqlType, WindowCall, type_name

DISTANCES = (
    "levenshtein",
    "damerau_levenshtein",
    "hamming",
    "jaccard",
    "jaro_similarity",
    "jaro_winkler_similarity",
)


def spelled(name: str, args: tuple[Text, ...], kind: SqlType, *, total: bool) -> Text:
    """The call as text; the total form of a function that lengthens text cuts it.

    The spelling of a function that is in no table is `name(args)`.
    """
    if name == "pg_div":
        name = "int_div" if kind == INTEGER else "div"
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
"""Functions whose result can be longer than their arguments together, or as long."""

SUBSTITUTING = frozenset({"replace", "regexp_replace"})
"""Functions whose result can be many times as long as their first argument, so that it is cut."""


def _to_digits(name: str) -> Printed:
    """ROUND or TRUNC, to a number of digits or to none."""

    def text(args: tuple[Text, ...], kind: SqlType) -> Text:
        if kind.kind is not Kind.DECIMAL or not args[1:]:
            return Text(f"{name}({listed(args)})", kind)
        # DuckDB has its own idea of the argument's digits, on which the result depends if they
        # are few, and of the result's scale; ours is that of the argument.
        exact = f"CAST({args[0].sql} AS {type_name(args[0].type)})"
        return Text(f"CAST({name}({exact}, {args[1].sql}) AS {type_name(kind)})", kind)

    return text


def _of_integer(name: str) -> Printed:
    """A function whose argument must be an INTEGER of 32 bits; no other has a value."""
    return lambda args, kind: Text(f"{name}(TRY_CAST({args[0].sql} AS INTEGER))", kind)


def _repeat(args: tuple[Text, ...], kind: SqlType) -> Text:
    """REPEAT of a literal, not beyond the longest text; or of any text a few times."""
    literal, count = args[0].literal, args[1].sql
    if literal is None:
        return Text(f"repeat({_cut(args[0]).sql}, {count})", kind)
    most = LONGEST_TEXT // max(1, len(str(literal.value)))
    return Text(
        _with(count, f"repeat({args[0].sql}, CASE WHEN x > {most} THEN {most} ELSE x END)"), kind
    )


def _distance(name: str) -> Printed:
    """A distance of texts, each cut where the cost would grow out of hand."""

    def text(args: tuple[Text, ...], kind: SqlType) -> Text:
        cut = ", ".join(f"left({arg.sql}, {LONGEST_COMPARED})" for arg in args)
        return Text(f"{name}({cut})", kind)

    return text


def _bucket(args: tuple[Text, ...], kind: SqlType) -> Text:
    """WIDTH_BUCKET, which DuckDB has not: the number of the bucket, 0 below and n + 1 above."""
    value, low, high, count = (arg.operand(ATOM) for arg in args)
    low, high = f"{low}::DOUBLE", f"{high}::DOUBLE"
    place = f"floor((x - {low}) * {count} / ({high} - {low}))"
    bucket = f"1 + CAST(least(greatest({place}, -1), {count}) AS BIGINT)"
    return Text(_with(f"{value}::DOUBLE", f"CASE WHEN x IS NULL THEN NULL ELSE {bucket} END"), kind)


def _with(value: str, body: str) -> str:
    """The expression `body` of `x`, which is `value`: so that a text is printed only once."""
    return f"[{body} FOR x IN [{value}]][1]"


SPECIAL: dict[str, Printed] = {
    "round": _to_digits("round"),
    "trunc": _to_digits("trunc"),
    "factorial": _of_integer("factorial"),
    "chr": _of_integer("chr"),
    "repeat": _repeat,
    "format_decimal_bytes": lambda args, kind: Text(
        f"formatReadableDecimalSize({args[0].sql})", kind
    ),
    "width_bucket": _bucket,
    **{name: _distance(name) for name in DISTANCES},
    **TIMES,
}

AGGREGATES = {
    **{
        name: name
        for name in """count sum avg min max median bool_and bool_or any_value first last arg_max
        arg_min arg_max_null arg_min_null mode quantile_cont quantile_disc string_agg list
        histogram corr covar_pop covar_samp regr_avgx regr_avgy regr_count regr_intercept
        regr_r2 regr_slope regr_sxx regr_sxy regr_syy grouping skewness kurtosis kurtosis_pop
        mad entropy""".split()
    },
    "stddev": "stddev_samp",
    "stddev_samp": "stddev_samp",
    "stddev_pop": "stddev_pop",
    "variance": "var_samp",
    "var_samp": "var_samp",
    "var_pop": "var_pop",
}

WINDOWS = {
    **{name: name for name in ("row_number", "rank", "dense_rank", "percent_rank", "cume_dist")},
    **{name: name for name in ("ntile", "lag", "lead", "first_value", "last_value", "nth_value")},
    **AGGREGATES,
}

MOMENTS = frozenset(
    """stddev stddev_samp stddev_pop variance var_samp var_pop corr covar_pop covar_samp
    regr_intercept regr_r2 regr_slope regr_sxx regr_sxy regr_syy skewness kurtosis
    kurtosis_pop""".split()
)
"""Aggregates of squares and products, which some versions of DuckDB fail on where they overflow."""


def widest(function: str) -> str:
    """Numbers up to this size have powers that can be added up, and multiplied as moments are."""
    return "1e60" if function in ("skewness", "kurtosis", "kurtosis_pop") else "1e150"


def aggregate_name(call: AggregateCall) -> str:
    """DuckDB's name of an aggregate; refused if it has none."""
    return _spelling(AGGREGATES, call)


def window_name(call: WindowCall) -> str:
    """DuckDB's name of a window function; refused if it has none."""
    return _spelling(WINDOWS, call)


def _spelling(names: dict[str, str], call: AggregateCall | WindowCall) -> str:
    if call.function not in names:
        raise Refused(Reason.UNSUPPORTED_AGGREGATE, call.span, name=call.function)
    return names[call.function]


def framed(frame: Frame) -> str:
    """A ROWS, RANGE or GROUPS clause.

    >>> framed(Frame("ROWS", (None, -1), (0, 1)))
    'ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW'
    """
    excluded = f" EXCLUDE {frame.exclude}" if frame.exclude else ""
    ends = f"{_frame_end(*frame.start)} AND {_frame_end(*frame.end)}"
    return f"{frame.unit} BETWEEN {ends}{excluded}"


def _frame_end(offset: int | None, direction: int) -> str:
    if offset == 0:
        return "CURRENT ROW"
    size = "UNBOUNDED" if offset is None else str(offset)
    return f"{size} {'PRECEDING' if direction < 0 else 'FOLLOWING'}"
