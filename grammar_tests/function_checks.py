"""Whether a call's results over the samples agree with its facts, type and plain form."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import date, datetime, time
from decimal import Decimal
from fractions import Fraction
from functools import cache
from itertools import product
from math import inf, isfinite, isnan
from typing import Any
from uuid import UUID

import duckdb

from dpsql import functions
from dpsql.compiler.resolve.typing import type_of
from dpsql.dialects.duckdb.expression_sql import expression
from dpsql.model.intervals import EVERYTHING, Bound, Facts, Interval, bound_of
from dpsql.model.tree import TIME, Call, Cast, Expression, Kind, Literal, Ref, SqlType
from dpsql.model.walk import children, walk
from grammar_tests.function_samples import COLUMNS, Column, column_of

Row = tuple[Any, ...]
FAR = "far"
"""A date or time beyond Python's years: inside an interval only if an end is open."""


def connection(columns: Iterable[Column] = COLUMNS) -> duckdb.DuckDBPyConnection:
    """A connection with one table per sample column: its positions and its values."""
    engine = duckdb.connect()
    engine.execute("SET threads = 1; SET TimeZone = 'UTC'")
    for column in columns:
        # A NUL stands in no SQL text, and PostgreSQL stores none.
        values = (None, *column.values, *(["\0"] if column.name == "text" else []))
        rows = ", ".join(f"({n}, CAST(? AS {column.sql_type}))" for n in range(len(values)))
        engine.execute(f"CREATE TABLE {column.name} AS FROM (VALUES {rows}) AS t (n, v)", values)
    return engine


def sources(e: Expression) -> list[Ref]:
    return sorted({node for node in walk(e) if isinstance(node, Ref)}, key=lambda ref: ref.id)


def column_text(ref: Ref) -> str:
    return f"t{ref.id}.v"


def run(engine: duckdb.DuckDBPyConnection, texts: Iterable[str], reads: list[Ref]) -> list[Row]:
    """The texts over the cross product of the columns they read, each row with its positions."""
    numbers = [f"t{ref.id}.n" for ref in reads]
    tables = ", ".join(f"{column_of(ref).name} AS t{ref.id}" for ref in reads)
    order = ", ".join(str(n + 1) for n in range(len(reads)))
    suffix = f" FROM {tables} ORDER BY {order}" if reads else ""
    return engine.execute(f"SELECT {', '.join([*numbers, *texts])}{suffix}").fetchall()


def readable(text: str, kind: SqlType) -> str:
    """Far dates have no Python value: read them as text."""
    return f"CAST({text} AS VARCHAR)" if kind.is_temporal or kind == TIME else text


def value_of(raw: Any, kind: SqlType) -> Any:
    if raw is None or not (kind.is_temporal or kind == TIME):
        return raw
    try:
        if kind == TIME:
            return time.fromisoformat(raw)
        moment = datetime.fromisoformat(raw)
    except ValueError:
        return FAR
    return moment.date() if kind.kind is Kind.DATE else moment


@cache
def sample_values(column: Column) -> tuple[Any, ...]:
    """The values of a column in Python, as positions of its table number them."""
    match column.type.kind:
        case Kind.INTEGER | Kind.INTERVAL:
            values: list[Any] = [int(text) for text in column.values]
        case Kind.DECIMAL:
            values = [Decimal(text) for text in column.values]
        case Kind.DOUBLE:
            values = [float(text) for text in column.values]
        case Kind.BOOLEAN:
            values = [text == "true" for text in column.values]
        case Kind.VARCHAR:
            values = list(column.values)
        case Kind.UUID:
            values = [UUID(text) for text in column.values]
        case _:
            values = [value_of(text, column.type) for text in column.values]
    return (None, *values)


# --- facts that are true of a part of the samples ---------------------------------------------


@dataclass(frozen=True, slots=True)
class Sample:
    """Some positions of a column, and facts that hold of their values."""

    positions: frozenset[int]
    facts: Facts


def sample(column: Column, positions: Iterable[int], *, finite: bool) -> Sample:
    kept = frozenset(positions)
    values = [sample_values(column)[n] for n in kept]
    far = any(value is FAR or value in (inf, -inf) for value in values)
    described = functions.facts_of_values(column.type, [v for v in values if v is not FAR])
    interval = EVERYTHING if far else described.interval
    listed = finite and FAR not in values
    domain = described.domain if listed else None
    nonzero = column.type.is_numeric and 0 not in values
    return Sample(kept, replace(described, interval=interval, domain=domain, nonzero=nonzero))


@cache
def samples(column: Column) -> tuple[Sample, ...]:
    """The whole column of which nothing is known, and parts of it of which something is."""
    values = sample_values(column)
    everywhere = range(len(values))
    middle = [n for n in everywhere if values[n] is not None and _is_mild(values[n])]
    upper = [n for n in middle if not isinstance(values[n], date) and not _is_low(values[n])]
    lower = [n for n in middle if not isinstance(values[n], date) and _is_low(values[n])]
    return (
        Sample(frozenset(everywhere), Facts(column.type)),
        *(sample(column, part, finite=False) for part in (middle, lower) if part),
        sample(column, [0, *upper], finite=True),
        sample(column, middle, finite=True),
        *(sample(column, part, finite=False) for part in (upper,) if part),
        *(sample(column, [n], finite=False) for n in middle),
    )


def _is_mild(value: Any) -> bool:
    if isinstance(value, int | float | Decimal):
        return isfinite(value) and abs(Fraction(value)) <= 10**19
    return value is not FAR


def _is_low(value: Any) -> bool:
    return isinstance(value, int | float | Decimal) and Fraction(value) < 0


def lies_in(value: Any, interval: Interval) -> bool:
    if value is FAR:
        return not interval.is_bounded
    if value in (inf, -inf):
        return (interval.hi if value > 0 else interval.lo) is None
    place: Bound | None = bound_of(value)
    return place is None or interval.contains(place)


def broken_fact(value: Any, facts: Facts) -> str | None:
    """What a value contradicts, None if nothing."""
    if value is None:
        return None if facts.nullable else "not nullable"
    if isinstance(value, float) and isnan(value):
        return "never NaN"
    if facts.nonzero and not isinstance(value, str) and value == 0:
        return "never zero"
    if not lies_in(value, facts.interval):
        return f"interval {facts.interval}"
    if facts.domain is not None and value is not FAR and value not in facts.domain:
        return f"domain {facts.domain[:20]}"
    return None


def complaints(e: Call | Cast, rows: list[Row]) -> Iterator[str]:
    """Each part of the samples of which a result contradicts the facts of `e`."""
    args = children(e)
    reads = sources(e)
    values = {row[: len(reads)]: value_of(row[-1], e.type) for row in rows}
    choices: list[dict[int, Sample]] = [{}]
    for ref in reads:
        options = samples(column_of(ref))
        if len(reads) > 1:
            options = options[: 4 if len(reads) == 2 else 2]
        choices = [{**choice, ref.id: option} for choice in choices for option in options]
    for choice in choices:
        known = tuple(
            functions.literal_facts(arg) if isinstance(arg, Literal) else choice[arg.id].facts
            for arg in args
            if isinstance(arg, Literal | Ref)
        )
        facts = functions.facts(e, known, 2000)
        inside = product(*(choice[ref.id].positions for ref in reads))
        for value, at in {values[at]: at for at in inside}.items():  # many rows have one value
            if broken := broken_fact(value, facts):
                text = expression(e, column_text)
                given = [k.interval for k in known]
                yield f"{text} = {value} at {at} is not in {broken}, given {given}"
                break


def check(engine: duckdb.DuckDBPyConnection, e: Call | Cast) -> list[str]:
    """Runs the total form: it must not raise, must have its type and lie in its facts."""
    total, reads = expression(e, column_text), sources(e)
    rows, expected = forms(engine, e)
    found = list(complaints(e, rows))
    named = rows and rows[0][len(reads)] != '"NULL"'  # 1.5 says so of a NULL computed beforehand
    if named and not same_family(rows[0][len(reads)], e.type):
        found.append(f"{total} is {rows[0][len(reads)]}, not {e.type}")
    found += filled(e, rows)
    found += disagreements(e, rows, expected)
    return found


def forms(engine: duckdb.DuckDBPyConnection, e: Call | Cast) -> tuple[list[Row], list[Row] | None]:
    """Type and value of the total form, which must not raise, and the value of the plain one.

    None is that of a plain form which DuckDB computed beforehand, and raised. Both are asked at
    once, which is most of the work of asking; alone where that raises.
    """
    total, plain = expression(e, column_text), expression(e, column_text, total=False)
    reads = sources(e)
    whole = [f"typeof({total})", readable(total, e.type)]
    tried = [readable(f"TRY({plain})", e.type)]
    if isinstance(e, Call) and e.function == "coalesce" and mixes_types(e):
        # DuckDB 1.5 crashes on TRY of a COALESCE of which an argument raises.
        tried = [readable(plain, e.type)]
    try:
        both = run(engine, [*whole, *tried], reads)
    except duckdb.Error:
        rows = run(engine, whole, reads)
    else:
        return [row[:-1] for row in both], [(*row[: len(reads)], row[-1]) for row in both]
    try:
        return rows, run(engine, tried, reads)
    except duckdb.Error:
        return rows, None


def filled(e: Call | Cast, rows: list[Row]) -> list[str]:
    """A row in which an argument is NULL and a function that is said to be strict is not."""
    if not isinstance(e, Call) or not functions.is_strict(e.function):
        return []
    count = len(sources(e))
    nothing = any(isinstance(arg, Literal) and arg.value is None for arg in e.args)
    told = [row for row in rows if (nothing or 0 in row[:count]) and row[-1] is not None]
    return [f"{expression(e, column_text)} = {row} of NULL" for row in told[:1]]


def disagreements(e: Call | Cast, rows: list[Row], expected: list[Row] | None) -> list[str]:
    """A row in which the plain form does not raise and the total form differs from it."""
    reads = sources(e)
    for got, want in zip(rows, expected or (), strict=expected is not None):
        if want[-1] is None or equal(got[-1], want[-1]) or is_corner(e, got, reads):
            continue
        plain = expression(e, column_text, total=False)
        return [f"{expression(e, column_text)} = {got}, but {plain} = {want}"]
    return []


def mixes_types(e: Call) -> bool:
    """Whether an argument is converted, which may raise."""
    return len({type_of(arg) for arg in e.args}) > 1


def is_corner(e: Call | Cast, row: Row, reads: list[Ref]) -> bool:
    """A common DECIMAL would need more than 38 digits (see `dpsql.functions.type_rules`).

    Or an integer is rounded beyond 64 bits, where DuckDB 1.5 wraps around.
    """
    if isinstance(e, Call) and e.function == "round" and e.type.kind is Kind.INTEGER:
        return bool(abs(sample_values(column_of(reads[0]))[row[0]]) >= 2**63 - 1)
    types = [arg.type for arg in walk(e) if isinstance(arg, Ref | Literal)]
    exact = [t for t in types if t.kind in (Kind.INTEGER, Kind.DECIMAL)]
    scale = max((t.scale for t in exact), default=0)
    if not any(t.kind is Kind.DECIMAL for t in exact):
        return False
    values = [sample_values(column_of(ref))[row[n]] for n, ref in enumerate(reads)]
    values += [arg.value for arg in walk(e) if isinstance(arg, Literal)]
    numbers = [v for v in values if isinstance(v, int | Decimal)]
    crowded = any(abs(number) >= 10 ** (38 - scale) for number in numbers)
    whole = max(38 if t.kind is Kind.INTEGER else t.precision - t.scale for t in exact)
    return crowded or (whole + scale > 38 and scale > 19)


def equal(a: Any, b: Any) -> bool:
    """Whether the total form is what the plain one is, with NULL for NaN."""
    return a is None if isinstance(b, float) and isnan(b) else a is not None and bool(a == b)


def same_family(name: str, kind: SqlType) -> bool:
    match kind.kind:
        case Kind.INTEGER:
            return name in ("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT")
        case Kind.INTERVAL:
            return name == "BIGINT"
        case Kind.DECIMAL:
            precision, scale = map(int, name[8:-1].split(",")) if "(" in name else (0, -1)
            return scale == kind.scale and precision <= kind.precision
        case Kind.TIMESTAMPTZ:
            return name == "TIMESTAMP WITH TIME ZONE"
        case _:
            return name == kind.kind.value
