"""What a server is asked by the conformance probes: expressions over one table of boundary values.

A server is asked over a connection, so that few statements ask all of it: every expression reads
the same rows, in which every column has every of its values.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from itertools import chain
from typing import Any

import psycopg

from dpsql.compiler.rewrite.dialect import Dialect
from dpsql.engines.conformance import (
    CORE,
    FAILED,
    SERVERS,
    Run,
    ask_version,
    digests_of,
    load_record,
)
from dpsql.functions import REGISTRY
from dpsql.model.errors import Refused
from dpsql.model.resources import Database, Limits
from dpsql.model.tree import AggregateCall, Call, Cast, Literal, Ref, type_name
from dpsql.preparation import engine_kinds
from grammar_tests import postgres_kit, spark_kit
from grammar_tests.conformance_record import ORDER, aggregate_calls, kept_calls, write
from grammar_tests.function_checks import FAR, sample_values, sources
from grammar_tests.function_samples import calls, casts, column_of

ADDRESS = {"postgres": "dsn", "spark": "url"}
"""What a policy calls the address of a server, by engine."""

ROWS, BLOCK = 64, 16
"""Rows of the table; within a block each column goes through its values, and begins later then."""

STATEMENT, EACH, ALL = range(3)
"""What a probe is: a statement, an expression of each row, or one of all rows."""

_NUMBERS = "(VALUES (2), (NULL), (2), (1)) AS t (i)"
_SIX = "(VALUES (0), (1), (2), (3), (4), (5)) AS t (i)"
_TWO = "(VALUES (2), (NULL))"
_TRUTHS = "(VALUES (TRUE), (NULL), (FALSE)) AS t (b)"
CORE_STATEMENTS = (
    f"SELECT i FROM {_NUMBERS} ORDER BY i NULLS LAST",
    f"SELECT i FROM {_NUMBERS} ORDER BY i DESC NULLS LAST",
    f"SELECT COUNT(*), COUNT(i), COUNT(DISTINCT i), MIN(i), MAX(i) FROM {_NUMBERS}",
    f"SELECT i, SUM(i), COUNT(*) FROM {_NUMBERS} GROUP BY i ORDER BY i NULLS LAST",
    f"SELECT i FROM {_NUMBERS} GROUP BY i HAVING COUNT(*) <= 1 ORDER BY i NULLS LAST",
    f"SELECT i, ROW_NUMBER() OVER (PARTITION BY i % 2 ORDER BY i) FROM {_SIX} ORDER BY i",
    f"SELECT SUM(i) OVER (PARTITION BY i % 2), COUNT(*) OVER (ORDER BY i) FROM {_SIX} ORDER BY i",
    f"SELECT BOOL_AND(b), BOOL_OR(b) FROM {_TRUTHS}",
    f"SELECT a.i, t.i FROM {_TWO} AS a (i) LEFT JOIN {_NUMBERS} ON a.i = t.i ORDER BY a.i",
    f"SELECT COUNT(*) FROM {_NUMBERS} WHERE NOT i > 1",
    f"SELECT COUNT(*) FROM {_SIX} WHERE EXISTS (SELECT 1 FROM {_TWO} AS s (j) WHERE j = i)",
    f"SELECT SUM(i) FROM (SELECT i FROM {_SIX} UNION ALL SELECT i FROM {_NUMBERS}) AS u",
    "SELECT SUM(CAST(v AS DECIMAL(19, 0))) FROM (VALUES (9223372036854775807), (1)) AS t (v)",
    "SELECT CAST(NULL AS INT) IN (1), 1 IN (1, NULL), 2 IN (1, NULL)",
    f"SELECT b AND FALSE, b OR TRUE, NOT b, b IS NULL FROM {_TRUTHS} ORDER BY b NULLS LAST",
    f"SELECT MD5('dpsql'), COUNT(DISTINCT MD5(CAST(i % 2 AS CHAR(1)))) FROM {_SIX}",
)
"""Statements that mean the same on every server."""


@dataclass(frozen=True, slots=True)
class ServerStatements:
    """What a server is asked: by name texts of which each is one of the kinds of probe, and what
    comes behind a text of each kind."""

    over: tuple[str, ...]
    probes: Mapping[str, tuple[tuple[str, int], ...]]


def statements_of_server(dialect: Dialect) -> ServerStatements:
    """Every probe of a server, by what it tries; what its dialect refuses is not asked."""
    found: dict[str, list[tuple[Call | Cast | AggregateCall, int]]] = {}
    for name in sorted(REGISTRY):
        found[name] = [(call, EACH) for call in kept_calls(calls(name))]
    for cast in casts():
        found.setdefault(f"cast to {type_name(cast.type)}", []).append((cast, EACH))
    for name, aggregates in aggregate_calls():
        found[f"{name} of groups"] = [(call, ALL) for call in aggregates]
    probes: dict[str, tuple[tuple[str, int], ...]] = {
        CORE: tuple((sql, STATEMENT) for sql in CORE_STATEMENTS)
    }
    read: dict[int, Ref] = {}
    for name, listed in found.items():
        texts = []
        for expression, kind in listed:
            refs = {ref.id: ref for ref in sources(expression) if ref.id != ORDER}
            try:
                names = {ORDER: "n", **{n: _name(ref) for n, ref in refs.items()}}
                texts.append((dialect.expression(expression, names), kind))
            except Refused:
                continue
            read |= refs
        if texts:
            probes[name] = tuple(dict.fromkeys(texts))
    table = f"FROM {_table(dialect, [read[n] for n in sorted(read)])}"
    return ServerStatements(("", f"{table} ORDER BY n", table), probes)


def _table(dialect: Dialect, refs: list[Ref]) -> str:
    """VALUES of a column for each reference, and the number n of the row."""
    columns = [[str(n) for n in range(ROWS)]]
    for place, ref in enumerate(refs, 1):
        values = ["NULL", *_constants(dialect, ref)]
        columns.append([values[(n + n // BLOCK * place) % len(values)] for n in range(ROWS)])
    rows = ", ".join(f"({', '.join(row)})" for row in zip(*columns, strict=True))
    names = ", ".join(["n", *(_name(ref).removeprefix("t0.") for ref in refs)])
    return f"(VALUES {rows}) AS t0 ({names})"


def _name(ref: Ref) -> str:
    """The name of a stored column, which has 64 bits; of wider numbers as what is computed."""
    return f"v{ref.id}" if column_of(ref).name == "hugeint" else f't0."v{ref.id}"'


def _constants(dialect: Dialect, ref: Ref) -> Iterator[str]:
    """The boundary values of a column that the engine can say."""
    column = column_of(ref)
    for value in sample_values(column):
        if value is not None and value is not FAR:
            try:
                yield dialect.constant(Literal(value, column.type))
            except Refused:
                continue


@contextmanager
def server_of_ones_own(engine: str) -> Iterator[str]:
    """The address of a server that is started for this."""
    with ExitStack() as stack:
        if engine == "spark":
            yield stack.enter_context(spark_kit.running()).url
            return
        server = stack.enter_context(postgres_kit.running())
        with psycopg.connect(server.conninfo(), autocommit=True) as pg:
            pg.execute(
                "CREATE ROLE prober LOGIN; ALTER ROLE prober SET log_parameter_max_length = 0"
            )
        yield server.conninfo("prober")


@contextmanager
def asked(engine: str, address: str) -> Iterator[Run]:
    """What runs a statement as the proxy does on the server at an address."""
    database = Database(engine, settings=((ADDRESS[engine], address),))
    with closing(engine_kinds.get(engine).open(database, Limits())) as opened:
        yield lambda sql: opened.evaluate(sql, ())


def record_server(engine: str, address: str | None = None) -> None:
    """Add what a server answers to the record: that at an address, or one that is started.

    Digests of other versions stay where the statements are the same. Raises SystemExit where an
    expression fails, which no printed one may.
    """
    statements = statements_of_server(engine_kinds.get(engine).dialect)
    record = load_record()
    known = record.setdefault(SERVERS, {}).get(engine, {})
    with ExitStack() as stack:
        where = address or stack.enter_context(server_of_ones_own(engine))
        run = stack.enter_context(asked(engine, where))
        _, version = ask_version(run)
        digests = {
            (text, kind): digest
            for kind, texts in _by_kind(statements).items()
            for text, digest in zip(
                texts, digests_of(texts, statements.over[kind], run), strict=True
            )
        }
    failed = [text for (text, _), digest in digests.items() if digest == FAILED]
    if failed:
        raise SystemExit("\n".join(["These fail:", *failed]))
    same = texts_of(known) == statements
    before = {
        (text, kind): each
        for probes in known.get("probes", {}).values()
        for text, kind, each in probes
        if same
    }
    record[SERVERS][engine] = {
        "versions": sorted({version, *(known["versions"] if same else ())}),
        "over": statements.over,
        "probes": {
            name: [[*each, sorted({digests[each], *before.get(each, ())})] for each in probes]
            for name, probes in statements.probes.items()
        },
    }
    write(record)


def texts_of(recorded: Mapping[str, Any]) -> ServerStatements | None:
    """The statements of a server in the record; None where there are none."""
    if not recorded:
        return None
    probes = {
        name: tuple((text, kind) for text, kind, _ in listed)
        for name, listed in recorded["probes"].items()
    }
    return ServerStatements(tuple(recorded["over"]), probes)


def _by_kind(statements: ServerStatements) -> Mapping[int, list[str]]:
    """The different texts of each kind."""
    every = dict.fromkeys(chain.from_iterable(statements.probes.values()))
    return {kind: [text for text, of in every if of == kind] for kind in (STATEMENT, EACH, ALL)}
