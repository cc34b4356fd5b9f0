"""A policy over a PostgreSQL of a test's own, and what each plan counts there."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import psycopg

from dpsql.compiler.plan.prepared import Prepared
from dpsql.dialects.postgres.postgres_dialect import POSTGRES
from dpsql.engines import ScratchTable
from dpsql.engines.postgres.out_of_range import register
from dpsql.engines.postgres.postgres_schema import tables as declared
from dpsql.engines.postgres.staged import staged
from dpsql.model.schema import Schema
from dpsql.model.vocabulary import Exact, Policy
from dpsql.policy.bind import bind
from dpsql.policy.load import load
from dpsql.preparation.public_data import PublicTables
from grammar_tests.laws import Counted, PlainEngine, compiled, integers, violation
from grammar_tests.postgres_kit import Postgres

HEAD = """
[database]
engine = "postgres"
dsn = "dbname=none"
[budgets.default]
epsilon = 1000.0
delta = 1e-3
query_epsilon = 1.0
max_query_epsilon = 10.0
[analysts.ana]
budget = "default"
[ledger]
path = "world.ledger"
"""


class PostgresRows(PlainEngine):
    """PostgreSQL in place of the plain engine: not hardened, and of now."""

    def __init__(self, connection: psycopg.Connection[Any]) -> None:
        self.pg = connection
        self.public = PublicTables(self, POSTGRES)

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        return self.pg.execute(sql).fetchall()

    def aggregate(
        self,
        sql: str,
        keys: int,
        parts: int,
        sampling_key: int,
        tables: Sequence[ScratchTable] = (),
    ) -> Exact:
        rows = self.pg.execute(*staged(sql, tables, sampling_key)).fetchall()
        columns = [
            np.array([int(row[keys + n] or 0) for row in rows], dtype=object) for n in range(parts)
        ]
        return Exact([row[:keys] for row in rows], columns)

    def evaluate(self, sql: str, tables: Sequence[ScratchTable] = ()) -> list[tuple[Any, ...]]:
        return self.pg.execute(*staged(sql, tables)).fetchall()


@dataclass
class World:
    """Tables of PostgreSQL and what a policy says of them."""

    pg: psycopg.Connection[Any]
    text: str

    @cached_property
    def engine(self) -> PostgresRows:
        return PostgresRows(self.pg)

    @cached_property
    def schema(self) -> Schema:
        return Schema(declared(self.engine.rows), "here")

    @cached_property
    def policy(self) -> Policy:
        with TemporaryDirectory() as folder:
            path = Path(folder) / "dpsql.toml"
            path.write_text(HEAD + self.text, "utf-8")
            return bind(load(str(path)), self.schema, self.engine.public.values)

    def plan(self, sql: str) -> Prepared:
        return compiled(sql, self.policy, self.engine)

    def counted(self, prepared: Prepared) -> list[Counted]:
        return integers(prepared, self.engine)

    def moved(self, sql: str, *changes: str) -> str | None:
        """How these changes of one unit's rows break what is claimed; they are undone."""
        prepared = self.plan(sql)
        here = self.counted(prepared)
        with self.without(*changes):
            return violation(prepared, here, self.counted(prepared))

    @contextmanager
    def without(self, *changes: str) -> Iterator[None]:
        """The neighbour after these changes."""
        self.pg.execute("BEGIN")
        try:
            for change in changes:
                self.pg.execute(change)
            yield
        finally:
            self.pg.execute("ROLLBACK")


@contextmanager
def connected(server: Postgres) -> Iterator[psycopg.Connection[Any]]:
    """A connection that reads as the engine does."""
    raw = psycopg.RawCursor[Any]
    with psycopg.connect(server.conninfo(), autocommit=True, cursor_factory=raw) as pg:
        register(pg)
        pg.execute("SET search_path = pg_catalog, public")
        pg.execute("SET TimeZone = 'UTC'")
        pg.execute("SET jit = off")
        yield pg
