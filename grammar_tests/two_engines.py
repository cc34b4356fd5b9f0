"""The same plans on DuckDB and on another engine: what each counts before there is noise.

DuckDB keeps groups by its own hash, the other by MD5: where they are compared DuckDB is told MD5
of the same texts, so that both keep the same.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from decimal import Decimal
from fractions import Fraction
from typing import Any

import duckdb
import psycopg

from dpsql.compiler.plan.prepared import Prepared
from dpsql.compiler.plan.private_plan import BlockSql, FoundNorm
from dpsql.compiler.rewrite.dialect import Dialect
from dpsql.dialects.postgres.postgres_dialect import POSTGRES
from dpsql.engines.postgres.staged import staged
from dpsql.model.errors import Refused
from dpsql.model.resources import Database
from dpsql.model.vocabulary import Budget, Policy
from dpsql.preparation.prepare import KnownSteps, prepare
from dpsql.release.finish import stage
from dpsql.release.release import release
from grammar_tests import world
from grammar_tests.casefile import Case
from grammar_tests.laws import (
    BUDGET,
    SAMPLING_KEY,
    PlainEngine,
    _transparent,
    compiled,
    found,
    no_noise,
    parsed,
    the_best,
)
from grammar_tests.postgres_kit import Postgres
from grammar_tests.test_cases import CATALOGS

WORLDS = ("exceeding", "flood")
"""Shops that keep what the engine enforces and exceed whatever the owner declares."""
TYPES = {"VARCHAR": "text", "DOUBLE": "float8"}
NORM = Fraction(40)
"""What polls are said to have found."""
_BLOCK = re.compile(r"hash\(\$sampling_key::UBIGINT, 'block', u\)")
AS_POSTGRES = r"regexp_replace({}, '\.0$', '')"
"""The text of a value as PostgreSQL writes it, of that which DuckDB writes."""
_TURN = re.compile(
    r"\(ROW_NUMBER\(\) OVER \(PARTITION BY u ORDER BY hash\(u, ([^()]*)\), [^()]*\)"
    r" \+ \(hash\(\$sampling_key::UBIGINT, u\) >> 2\)::BIGINT\) % groups"
)
_RANK = r"COUNT(*) OVER (PARTITION BY u ORDER BY hash($sampling_key::UBIGINT, u, \1)) - 1"
_HASH = re.compile(r"hash\(\$sampling_key::UBIGINT, ([^()]*)\)")


def keyed(sql: str, written: str = AS_POSTGRES) -> str:
    """A statement of DuckDB with MD5 for its own hash, of texts as the other engine has them, and
    groups kept by their rank instead of by turns.
    """

    def md5(call: re.Match[str]) -> str:
        texts = (
            f"coalesce({written.format(f'CAST({x} AS VARCHAR)')}, '')" for x in call[1].split(", ")
        )
        return f"md5(concat_ws('|', $sampling_key::UBIGINT, {', '.join(texts)}))"

    unit = "regexp_replace(CAST(u AS VARCHAR), '\\.0$', '')"
    digest = f"md5(concat_ws('|', $sampling_key::UBIGINT, 'block', {unit}))"
    return _HASH.sub(
        md5, _BLOCK.sub(f"CAST('0x' || {digest}[:15] AS UBIGINT)", _TURN.sub(_RANK, sql))
    )


def steps(
    sql: str, policy: Policy, engine: PlainEngine, *, dialect: str, budget: Budget
) -> list[Prepared]:
    """The polls that a question has, and itself with what they found."""
    known: dict[str, FoundNorm] = {}
    plans: list[Prepared] = []

    def with_(*polls: str) -> Prepared:
        public = engine.public
        given = parsed(sql, dialect), policy, budget, Fraction(1), public, public.evaluate
        return prepare(*given, KnownSteps(known, polls))

    while (made := with_()).polls:
        plans += [with_(poll.key) for poll in made.polls]
        known |= {poll.key: found(poll, NORM) for poll in made.polls}
    return [*plans, made]


def copied(duck: duckdb.DuckDBPyConnection, pg: psycopg.Connection[Any], schema: str) -> None:
    """Have the tables of DuckDB in a schema of PostgreSQL, without constraints."""
    pg.execute(f"CREATE SCHEMA {schema}")
    columns: dict[str, list[str]] = {}
    for table, column, kind in duck.execute(
        "SELECT table_name, column_name, data_type FROM duckdb_columns() WHERE NOT internal"
        " AND schema_name = 'main' AND database_name = current_database() ORDER BY column_index"
    ).fetchall():
        columns.setdefault(table, []).append(f'"{column}" {TYPES.get(kind, kind)}')
    for table, typed in columns.items():
        pg.execute(f'CREATE TABLE {schema}."{table}" ({", ".join(typed)})')
        filled(pg, f'{schema}."{table}"', duck.execute(f'SELECT * FROM "{table}"').fetchall())


def filled(pg: psycopg.Connection[Any], table: str, rows: Sequence[tuple[Any, ...]]) -> None:
    """Put rows into a table."""
    with pg.cursor().copy(f"COPY {table} FROM STDIN") as copy:
        for row in rows:
            copy.write_row(row)


@dataclass
class Comparison:
    """Both engines over the same rows; `outcomes` counts cases, `lacking` what is refused and why,
    `differences` are the cases that are not the same, `votes` what polls asked of units."""

    kind: str
    dialect: Dialect
    run: Callable[[str, str, Sequence[Any]], list[tuple[Any, ...]]]
    worlds: dict[str, list[tuple[str, PlainEngine]]]
    written: str = "{}"
    outcomes: Counter[str] = field(default_factory=Counter)
    lacking: Counter[str] = field(default_factory=Counter)
    differences: list[str] = field(default_factory=list)
    votes: set[type] = field(default_factory=set)

    def ask(self, case: Case) -> None:
        """Whether both say the same of a case, in all worlds."""
        policy, engine = CATALOGS[case.catalog]()
        budget = replace(BUDGET, accountant=case.setting("accountant", "zcdp"))
        spelling = case.setting("dialect", "duckdb")
        prepared = compiled(case.sql, policy, engine, dialect=spelling, budget=budget)
        try:
            if prepared.plan is None:
                there = replace(policy, database=Database(self.kind))
                other = compiled(case.sql, there, engine, dialect=spelling, budget=budget)
                same = self._same_rows(prepared, other, engine, case.catalog)
            else:
                plans = [prepared]
                if prepared.polls:
                    plans += steps(case.sql, policy, engine, dialect=spelling, budget=budget)
                printed = [(p, [self.dialect.block(b) for b in p.blocks]) for p in plans]
                self.votes |= {
                    type(b.block.vote) for p in plans for b in p.blocks if b.block.vote is not None
                }
                same = all(
                    self._same_integers(plan, blocks, engine, schema)
                    for plan, blocks in printed
                    for schema, engine in self.worlds[case.catalog]
                )
        except Refused as refused:
            self.lacking[str(refused.facts.get("construct"))] += 1
            self.outcomes["refused"] += 1
            return
        self.outcomes["the same" if same else "different"] += 1
        if not same:
            self.differences.append(case.id)

    def _same_rows(
        self, mine: Prepared, theirs: Prepared, engine: PlainEngine, catalog: str
    ) -> bool:
        """Whether public rows are the same, in whatever order."""
        schema = self.worlds[catalog][0][0].replace(WORLDS[0], "own")
        rows = [
            engine.rows(mine.rewritten.outer_sql),
            self.run(schema, theirs.rewritten.outer_sql, ()),
        ]
        first, second = (sorted(map(str, map(shown, listed))) for listed in rows)
        return first == second

    def _same_integers(
        self, prepared: Prepared, printed: Sequence[BlockSql], engine: PlainEngine, schema: str
    ) -> bool:
        plan, rewritten = prepared.plan, prepared.rewritten
        assert plan is not None
        noisy: list[Any] = []
        for block, sql, other in zip(plan.blocks, rewritten.blocks, printed, strict=True):
            stages = [
                stage(plan, rewritten, n, noisy, engine.rows, engine.scratch) for n in sql.stages
            ]
            shape = len(sql.keys), sql.parts
            exact = engine.aggregate(keyed(sql.sql, self.written), *shape, SAMPLING_KEY, stages)
            if rewritten.stages:
                noisy.append(release(exact, _transparent(block, exact), no_noise, the_best))
            ours = {
                shown(key): tuple(int(part[n]) for part in exact.parts)
                for n, key in enumerate(exact.keys)
            }
            rows = self.run(schema, other.sql, stages)
            keys, parts = shape
            theirs = {shown(row[:keys]): tuple(map(int, row[keys : keys + parts])) for row in rows}
            if ours != theirs:
                return False
        return True


def shown(row: Sequence[Any]) -> tuple[str, ...]:
    """A row in which equal numbers are the same text."""
    return tuple(map(_text, row))


def _text(value: Any) -> str:
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal):
        return str(value)
    if isinstance(value, float):
        return repr(value + 0.0)
    return str(int(value)) if value == int(value) else f"{Decimal(value).normalize():f}"


Copy = Callable[[duckdb.DuckDBPyConnection, str], None]
"""Has the tables of DuckDB under a name in the other engine."""


def worlds_of(copy: Copy) -> dict[str, list[tuple[str, PlainEngine]]]:
    """The worlds of each catalogue, copied."""
    worlds: dict[str, list[tuple[str, PlainEngine]]] = {}
    shops = {
        name: PlainEngine(world.build(getattr(world, name)(), constraints=False)) for name in WORLDS
    }
    for catalog, load in CATALOGS.items():
        _policy, engine = load()
        own = f"{catalog}_own"
        copy(engine.connection, own)
        worlds[catalog] = [(own, engine)]
        if catalog in ("transfers", "paths"):
            continue
        worlds[catalog] = []
        for name, other in shops.items():
            schema = f"{catalog}_{name}"
            copy(other.connection, schema)
            worlds[catalog].append((schema, other))
    return worlds


@contextmanager
def compared(server: Postgres) -> Iterator[Comparison]:
    """DuckDB and PostgreSQL over the same worlds."""
    raw = psycopg.RawCursor[Any]
    with psycopg.connect(server.conninfo(), autocommit=True, cursor_factory=raw) as pg:
        pg.execute("SET jit = off")
        pg.execute("SET statement_timeout = '20s'")
        pg.execute("SET search_path = pg_catalog")
        pg.execute("SET TimeZone = 'UTC'")

        def run(schema: str, sql: str, tables: Sequence[Any]) -> list[tuple[Any, ...]]:
            text, parameters = staged(sql, tables, SAMPLING_KEY)
            return pg.execute(text.replace('"public".', f"{schema}."), parameters).fetchall()

        worlds = worlds_of(lambda duck, schema: copied(duck, pg, schema))
        yield Comparison("postgres", POSTGRES, run, worlds, AS_POSTGRES)
