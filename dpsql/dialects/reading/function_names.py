"""Names of functions as analysts write them, one row each; a missing row is a refusal."""

from __future__ import annotations

import math

from sqlglot import exp

from dpsql.compiler.aggregates import called, names
from dpsql.dialects.reading.nodes import CLOCKS
from dpsql.functions import REGISTRY, lookup
from dpsql.model.dataclass import dataclass
from dpsql.model.errors import Reason, Refused
from dpsql.model.table_names import nearest
from dpsql.model.tree import DOUBLE, INTEGER, VARCHAR, Literal, Span


@dataclass(frozen=True, slots=True)
class FunctionName:
    """The registry's name of a function, and its number of arguments (`most` None: any)."""

    function: str
    least: int
    most: int | None

    def takes(self, count: int) -> bool:
        return self.least <= count and (self.most is None or count <= self.most)


def _rows(*rows: tuple[str, str, int, int | None]) -> dict[str, FunctionName]:
    return {
        name: FunctionName(function, least, most)
        for names, function, least, most in rows
        for name in names.split()
    }


OTHER_NAMES = _rows(
    ("ceiling", "ceil", 1, 1),
    ("subtract", "sub", 2, 2),
    ("multiply", "mul", 2, 2),
    ("divide div", "int_div", 2, 2),
    ("zeroifnull", "coalesce", 1, 1),
    ("nullifzero", "nullif", 1, 1),
    ("power", "pow", 2, 2),
    ("greatest_common_divisor", "gcd", 2, 2),
    ("least_common_multiple", "lcm", 2, 2),
    ("log", "log10", 1, 1),
    ("ifnull", "coalesce", 2, 2),
    ("if", "case", 3, 3),
    ("len char_length character_length", "length", 1, 1),
    ("lcase", "lower", 1, 1),
    ("ucase", "upper", 1, 1),
    ("substr", "substring", 2, 3),
    ("btrim", "trim", 1, 2),
    ("prefix", "starts_with", 2, 2),
    ("suffix", "ends_with", 2, 2),
    ("editdist3", "levenshtein", 2, 2),
    ("mismatches", "hamming", 2, 2),
    ("instr", "strpos", 2, 2),
    ("to_hex", "hex", 1, 1),
    ("to_binary", "bin", 1, 1),
    ("ord", "unicode", 1, 1),
    ("octet_length", "strlen", 1, 1),
    ("formatreadablesize", "format_bytes", 1, 1),
    ("formatreadabledecimalsize", "format_decimal_bytes", 1, 1),
    ("regexp_like", "regexp_matches", 2, 3),
    ("iif", "case", 3, 3),
    ("nvl", "coalesce", 2, 2),
    ("datetrunc", "date_trunc", 2, 2),
    ("date_part datepart", "extract", 2, 2),
    ("datediff", "date_diff", 3, 3),
    ("datesub", "date_sub", 3, 3),
)
"""Names of functions with another name in the registry; arguments are passed in the written
order.
"""


def scalar(name: str) -> FunctionName | None:
    """Return the function that a text calls by this name; None if there is none."""
    row = lookup(name)
    if row is None or row.called is None:
        return OTHER_NAMES.get(name)
    least, most = row.called
    return FunctionName(name, least, most)


def scalars() -> dict[str, FunctionName]:
    """Return all names by which `scalar` finds a function."""
    names = [*REGISTRY, *OTHER_NAMES]
    return {name: row for name in names if (row := scalar(name)) is not None}


OMITTED: dict[str, tuple[int, Literal]] = {
    **dict.fromkeys(("lpad", "rpad"), (3, Literal(" ", VARCHAR))),
    **dict.fromkeys(("zeroifnull", "nullifzero"), (2, Literal(0, INTEGER))),
}
"""Functions with an optional last argument: their number of arguments, and the default."""

CONSTANTS = {"pi": Literal(math.pi, DOUBLE)}
"""Functions without arguments."""

OTHERWISE_IN_POSTGRES = frozenset("format regexp_matches sha256 to_hex".split())
"""Names with another meaning in PostgreSQL: another format, rows of arrays, bytes, other digits."""

PART_FUNCTIONS = {
    name: part
    for names, part in (
        ("year", "year"),
        ("month", "month"),
        ("day dayofmonth", "day"),
        ("quarter", "quarter"),
        ("week weekofyear", "week"),
        ("dayofweek weekday", "dow"),
        ("isodow", "isodow"),
        ("dayofyear", "doy"),
        ("hour", "hour"),
        ("minute", "minute"),
        ("second", "second"),
        ("epoch", "epoch"),
        ("microsecond", "microseconds"),
        ("millisecond", "milliseconds"),
        ("isoyear", "isoyear"),
        ("yearweek", "yearweek"),
        ("decade", "decade"),
        ("century", "century"),
        ("millennium", "millennium"),
        ("era", "era"),
    )
    for name in names.split()
}
"""Functions of one part: YEAR(x) is EXTRACT(year FROM x)."""

PARTS = {
    name: part
    for names, part in (
        ("microsecond microseconds us usec", "microseconds"),
        ("millisecond milliseconds ms msec", "milliseconds"),
        ("second seconds s sec secs", "second"),
        ("minute minutes m min mins", "minute"),
        ("hour hours h hr hrs", "hour"),
        ("day days d dayofmonth", "day"),
        ("week weeks w weekofyear", "week"),
        ("month months mon mons", "month"),
        ("quarter quarters", "quarter"),
        ("year years y yr yrs", "year"),
        ("dow dayofweek weekday", "dow"),
        ("doy dayofyear", "doy"),
        ("decade decades", "decade"),
        ("century centuries", "century"),
        ("millennium millenniums millennia mil", "millennium"),
    )
    for name in names.split()
}
"""Spellings of date parts, and the standard name of each."""

OTHER_AGGREGATES = _rows(
    ("grouping_id", "grouping", 1, None),
    ("approx_count_distinct", "count", 1, 1),
    ("fsum kahan_sum sumkahan", "sum", 1, 1),
    ("mean favg", "avg", 1, 1),
    ("arbitrary", "any_value", 1, 1),
    ("argmax max_by", "arg_max", 2, 2),
    ("argmin min_by", "arg_min", 2, 2),
    ("every logical_and", "bool_and", 1, 1),
    ("logical_or", "bool_or", 1, 1),
    ("listagg group_concat", "string_agg", 1, 2),
    ("array_agg", "list", 1, 1),
    ("percentile_cont", "quantile_cont", 2, 2),
    ("quantile percentile_disc", "quantile_disc", 2, 2),
    ("approx_quantile approx_quantiles", "quantile_disc", 2, 2),
    ("stddev_samp", "stddev", 1, 1),
    ("var_samp", "variance", 1, 1),
)
"""Aggregates with another name of ours; their recipes decide which of them are answered."""


def aggregate(name: str) -> FunctionName | None:
    """Return the aggregate that a text calls by this lower-case name; None if there is none."""
    least, most = called(name) or (None, None)
    return OTHER_AGGREGATES.get(name) if least is None else FunctionName(name, least, most)


WITHIN_GROUP = _rows(
    ("percentile_cont", "quantile_cont", 2, 2),
    ("percentile_disc", "quantile_disc", 2, 2),
    ("mode", "mode", 1, 1),
)
"""Aggregates written f(constants) WITHIN GROUP (ORDER BY x), read as f(x, constants)."""

WINDOWS = _rows(
    ("row_number", "row_number", 0, 0),
    ("rank", "rank", 0, 0),
    ("dense_rank", "dense_rank", 0, 0),
    ("percent_rank", "percent_rank", 0, 0),
    ("cume_dist", "cume_dist", 0, 0),
    ("ntile", "ntile", 1, 1),
    ("lag", "lag", 1, 3),
    ("lead", "lead", 1, 3),
    ("first_value first", "first_value", 1, 1),
    ("last_value last", "last_value", 1, 1),
    ("nth_value", "nth_value", 2, 2),
)
"""Functions that need OVER; every aggregate may have it."""

NULL_IGNORING = frozenset("lag lead first first_value last last_value nth_value".split())
"""Functions that may have IGNORE NULLS."""

_REFUSED_AGGREGATES = frozenset(
    """approx_top_k arbitrary arg_max arg_min
    array_agg bit_and bit_or bit_xor bool_and bool_or entropy every favg first
    geometric_mean geomean group_concat
    kurtosis last list listagg mad max_by min_by mode percentile_cont percentile_disc
    product quantile quantile_cont quantile_disc regr_avgx regr_avgy regr_count regr_intercept
    regr_r2 regr_slope regr_sxx regr_sxy regr_syy reservoir_quantile sem skewness string_agg
    xmlagg""".split()
)

_IMPURE = frozenset(
    """clock_timestamp current_catalog current_database current_localtime
    current_query current_schema current_schemas current_setting
    current_time current_user currval gen_random_uuid get_current_time
    getdate getenv getvariable localtime nextval
    pg_sleep random session_user setseed sleep_ms
    txid_current user uuid uuidv4 uuidv7 version""".split()
)


_WRITTEN = {
    "initcap": (
        "Engines divide texts into words differently. For one word, write"
        " UPPER(LEFT(x, 1)) || LOWER(SUBSTR(x, 2))."
    ),
}
"""What to write instead of functions that engines disagree about."""


WITHIN_RANGES = "within_ranges"
"""Function that expands to columns of a SELECT list: see `range_lists`."""


def refusal_of(name: str, span: Span) -> Refused:
    """Return the refusal of a function without a row: an aggregate, impure, or unknown."""
    reason = _reason(name)
    unknown, fix = reason is Reason.UNKNOWN_FUNCTION, _WRITTEN.get(name)
    near = nearest(name, called_functions()) if unknown and fix is None else None
    return Refused(reason, span, name=name, near=near, **({} if fix is None else {"fix": fix}))


def called_functions() -> tuple[str, ...]:
    """Return the names by which texts call functions."""
    aggregates = [n for n in (*names(), *OTHER_AGGREGATES) if aggregate(n) is not None]
    parts = [*PART_FUNCTIONS, *WINDOWS, *CLOCKS, *WITHIN_GROUP]
    return (*aggregates, *scalars(), *parts)


def _reason(name: str) -> Reason:
    function = exp.FUNCTION_BY_NAME.get(name.upper())
    if name in _REFUSED_AGGREGATES or aggregate(name):
        return Reason.UNSUPPORTED_AGGREGATE
    if function is not None and issubclass(function, exp.AggFunc):
        return Reason.UNSUPPORTED_AGGREGATE
    return Reason.UNSUPPORTED_FUNCTION if name in _IMPURE else Reason.UNKNOWN_FUNCTION
