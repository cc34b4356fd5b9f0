"""Record what the installed engine and parser answer to the conformance probes.

`python -m grammar_tests.conformance_record` under a tried version adds its digests to
`dpsql/engines/conformance.json.gz`; probes whose statement changed lose the old ones. Run it with
every version of `TRIED` after printing changed.

`python -m grammar_tests.conformance_record postgres`, or `spark`, records a server that is started
for this; with a DSN or URL behind it, the server that is there.
"""

from __future__ import annotations

import base64
import gzip
import io
import json
import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from dpsql.compiler import aggregates
from dpsql.compiler.rewrite.dialect import Dialect
from dpsql.dialects.duckdb.duckdb_dialect import DUCKDB
from dpsql.engines.conformance import CORE, RECORD, Run, digest_of
from dpsql.engines.duckdb.conformance_worker import PARQUET, run_alone
from dpsql.functions import REGISTRY
from dpsql.model.algebra import Field
from dpsql.model.errors import Refused
from dpsql.model.tree import (
    DOUBLE,
    INTEGER,
    VARCHAR,
    AggregateCall,
    Call,
    Cast,
    Expression,
    Literal,
    Ref,
    SortKey,
    type_name,
)
from dpsql.preparation.engine_admission import run_parser
from grammar_tests.casefile import all_cases
from grammar_tests.function_checks import readable, sources
from grammar_tests.function_samples import Column, calls, casts, column_of, refs, type_of

CALLS = 24
"""Calls of one function that are kept, of as many kinds of arguments as there are."""

VALUES = 6
"""Values of a column in probes of two columns."""

ORDER = 99
"""The id of the number of a row, in whose order an aggregate reads."""

STATEMENTS = 300
"""Statements that the parser is asked."""

SCAN = f"(SELECT {{x}} AS x, id FROM read_parquet('{PARQUET}') AS t) AS s"
NUMBERS = "(VALUES (2), (NULL), (2), (1)) AS t (i)"
CORE_STATEMENTS = (
    "SELECT 7 // 2, -7 // 2, 7 % -2, TRY(1 // 0), 7 / 2, TRY(9223372036854775807 + 1)",
    "SELECT SUM(i)::VARCHAR FROM (VALUES (9223372036854775807::BIGINT), (1)) AS t (i)",
    "SELECT CAST(2.5 AS BIGINT), CAST(-2.5 AS BIGINT), CAST(2.5::DECIMAL(3, 1) AS BIGINT)",
    f"SELECT i FROM {NUMBERS} ORDER BY i NULLS LAST",
    f"SELECT i FROM {NUMBERS} ORDER BY i DESC NULLS LAST",
    f"SELECT COUNT(*), COUNT(i), COUNT(DISTINCT i), MIN(i), MAX(i) FROM {NUMBERS}",
    f"SELECT i, SUM(i), COUNT(*) FROM {NUMBERS} GROUP BY i ORDER BY i NULLS LAST",
    "SELECT i, ROW_NUMBER() OVER (PARTITION BY i % 2 ORDER BY i) FROM range(6) AS r (i) ORDER BY i",
    "SELECT COUNT(DISTINCT hash(i)), COUNT(DISTINCT hash(i % 10)) FROM range(1000) AS r (i)",
    "SELECT BOOL_AND(b), BOOL_OR(b) FROM (VALUES (TRUE), (NULL), (FALSE)) AS t (b)",
    f"SELECT a.i, t.i FROM (VALUES (2), (NULL)) AS a (i) LEFT JOIN {NUMBERS} ON a.i = t.i",
    "SELECT NULL IN (1), 1 IN (1, NULL), 2 IN (1, NULL), NULL AND FALSE, NULL OR TRUE",
    f"SELECT COUNT(*) FROM {SCAN} WHERE x > 100",
    f"SELECT COUNT(*) FROM {SCAN} WHERE x IS NULL",
    f"SELECT COUNT(*) FROM {SCAN} JOIN (VALUES (10.0::DOUBLE)) AS v (y) ON x = y",
    f"SELECT COUNT(*) FROM {SCAN} WHERE x IN (10.0, 200.0)",
)


def file_with_nan() -> bytes:
    """A Parquet file of small row groups with NaN, whose statistics leave NaN out."""
    values = [1.0, float("nan"), 10.0, float("nan"), -0.0, 0.0, None, 2.0]
    table = pa.table({"x": values, "id": list(range(len(values)))})
    buffer = io.BytesIO()
    pq.write_table(table, buffer, row_group_size=2)
    return buffer.getvalue()


def _rows(column: Column, *, many: bool) -> str:
    """VALUES of a column's boundary values, numbered."""
    step = 1 if many else max(1, len(column.values) // VALUES)
    texts = ("NULL", *map(_quoted, column.values[::step]))
    rows = (f"({n}, CAST({text} AS {column.sql_type}))" for n, text in enumerate(texts))
    return f"(VALUES {', '.join(rows)})"


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def kept_calls(found: Iterator[Call]) -> Iterator[Call]:
    """Calls with different kinds of arguments first, one for each list of kinds."""
    by_kinds: dict[tuple[str, ...], list[Call]] = defaultdict(list)
    for call in islice(found, 4000):
        by_kinds[tuple(str(getattr(arg, "type", "")) for arg in call.args)].append(call)
    rounds = max(map(len, by_kinds.values()), default=0)
    ordered = (
        group[n] for n in range(min(rounds, 3)) for group in by_kinds.values() if n < len(group)
    )
    yield from islice(ordered, CALLS)


def _statements(dialect: Dialect, expressions: Iterator[Call | Cast]) -> Iterator[str]:
    """SELECTs of expressions over the boundary values of their columns."""
    groups: dict[tuple[Ref, ...], list[str]] = defaultdict(list)
    for e in expressions:
        reads = tuple(sources(e))
        names = {ref.id: f"t{ref.id}.v" for ref in reads}
        try:
            groups[reads].append(readable(dialect.expression(e, names), e.type))
        except Refused:
            continue
    for columns, texts in groups.items():
        many = len(columns) == 1
        tables = ", ".join(f"{_rows(column_of(r), many=many)} AS t{r.id} (n, v)" for r in columns)
        order = ", ".join(f"t{r.id}.n" for r in columns)
        yield f"SELECT {', '.join(texts)}" + (f" FROM {tables} ORDER BY {order}" if columns else "")


def aggregate_calls() -> Iterator[tuple[str, list[AggregateCall]]]:
    """Every aggregate of engines over every column of boundary values, in their order."""
    order = (SortKey(Ref(ORDER, INTEGER)),)
    for name in filter(aggregates.of_engines, aggregates.names()):
        found = []
        for value in refs(0):
            assert isinstance(value, Ref)
            second = {"string_agg": Literal("-", VARCHAR)}.get(name, Literal(0.25, DOUBLE))
            args: tuple[Expression, ...] = (
                (value,) if aggregates.called(name) == (1, 1) else (value, second)
            )
            kind = aggregates.result_type(name, (value.type, type_of(second))[: len(args)])
            if kind is None or name == "grouping" or not aggregates.accepts(name, args):
                continue
            ordered = order if aggregates.is_ordered(name) else ()
            found.append(AggregateCall(name, args, type=kind, order_by=ordered))
        yield name, found


def _aggregates(dialect: Dialect) -> Iterator[tuple[str, tuple[str, ...]]]:
    """SELECTs of aggregates, each over one column."""
    for name, found in aggregate_calls():
        statements = []
        for call in found:
            (value,) = (ref for ref in sources(call) if ref.id != ORDER)
            text = dialect.expression(call, {value.id: "t.v", ORDER: "t.n"})
            rows = _rows(column_of(value), many=True)
            statements.append(f"SELECT {readable(text, call.type)} FROM {rows} AS t (n, v)")
        yield f"{name} of groups", tuple(statements)


def statements_of(dialect: Dialect) -> Mapping[str, tuple[str, ...]]:
    """Every probe of an engine, by what it tries."""
    x = dialect.column("t", Field(0, "x", DOUBLE), None)
    probes = {
        name: tuple(_statements(dialect, kept_calls(calls(name)))) for name in sorted(REGISTRY)
    }
    by_target: dict[str, list[Cast]] = defaultdict(list)
    for cast in casts():
        by_target[f"cast to {type_name(cast.type)}"].append(cast)
    probes |= {name: tuple(_statements(dialect, iter(each))) for name, each in by_target.items()}
    probes |= _aggregates(dialect)
    return {
        CORE: tuple(sql.format(x=x) if "{x}" in sql else sql for sql in CORE_STATEMENTS),
        **probes,
    }


def parser_texts(known: Mapping[str, Any]) -> tuple[str, ...]:
    """The recorded texts, which new cases do not change; at first those of cases of all files."""
    if CORE in known.get("sqlglot", ()):
        return tuple(text for text, _ in known["sqlglot"][CORE])
    texts = sorted({case.sql for case in all_cases()})
    return tuple(texts[:: max(1, len(texts) // STATEMENTS)])


def merged(
    known: Mapping[str, list[list[Any]]], probes: Mapping[str, Sequence[str]], run: Run
) -> dict[str, list[list[Any]]]:
    """The probes with the digests of this version beside those of other ones."""
    before = {name: dict(map(tuple, rows)) for name, rows in known.items()}
    return {
        name: [
            [sql, sorted({*before.get(name, {}).get(sql, ()), digest_of(sql, run)})]
            for sql in statements
        ]
        for name, statements in probes.items()
    }


def record() -> dict[str, Any]:
    """The whole record with what the installed versions answer."""
    known = json.loads(gzip.decompress(RECORD.read_bytes())) if RECORD.exists() else {}
    known["file"] = base64.b64encode(file_with_nan()).decode()
    write(known)
    with TemporaryDirectory() as folder:
        run = run_alone(Path(folder) / PARQUET)
        known["duckdb"] = merged(known.get("duckdb", {}), statements_of(DUCKDB), run)
    known["sqlglot"] = merged(known.get("sqlglot", {}), {CORE: parser_texts(known)}, run_parser)
    return known


def write(record: Mapping[str, Any]) -> None:
    """Replace the record."""
    text = json.dumps(record, separators=(",", ":"))
    RECORD.write_bytes(gzip.compress(text.encode(), 9, mtime=0))


if __name__ == "__main__":
    if len(sys.argv) > 1:
        from grammar_tests.conformance_servers import record_server

        record_server(*sys.argv[1:])
    else:
        write(record())
