"""The steps that wait for an engine, and the failures that they report.

All possible checks are made before a charge: that every statement binds (`Bound`), that the data is
still the data of the plan's proofs, and that an engine is ready. After the charge the same checks
are made on the snapshot that the statement reads; a failure there stays charged.

A query that cannot run is not charged, no text of the engine is released, and changed data is
noticed: SECURITY.md S3, S5, S11.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from secrets import token_hex
from typing import TypeAlias, TypeVar

from dpsql.compiler.plan.prepared import Prepared
from dpsql.engines import (
    Ending,
    Engine,
    EngineFailed,
    Interrupted,
    ScratchTable,
    Stop,
    TimedOut,
    TooMany,
    Unrun,
    paced,
)
from dpsql.engines.limited import limited
from dpsql.model.bounded_cache import BoundedCache
from dpsql.model.errors import Failed, Unreachable
from dpsql.model.table_names import STAGE
from dpsql.model.tree import SqlType
from dpsql.model.vocabulary import Exact, Noisy
from dpsql.release.finish import stage
from dpsql.release.histogram_choices import Chooser
from dpsql.release.release import Sampler, narrowed, release

T = TypeVar("T")
Columns: TypeAlias = tuple[tuple[str, SqlType], ...]
KEPT_STATEMENTS = 4096
"""Number of statements that are remembered as binding."""


class Bound:
    """A cache of statements that bind, so that each is bound once before anything is charged for
    it.
    """

    def __init__(self) -> None:
        self._statements: BoundedCache[bool] = BoundedCache(KEPT_STATEMENTS)

    def require(
        self, engine: Engine, statements: Sequence[Unrun], data: str | None, stop: Stop
    ) -> None:
        """Raise `Failed`, without a charge, if one of the statements does not bind."""
        new = [s for s in statements if self._statements.get((data, _text(s))) is None]
        if new:
            guarded(token_hex(8), lambda: engine.bind(new, stop, data), charged=False)
        for statement in new:
            self._statements.put((data, _text(statement)), True)


def require_ready(
    engine: Engine, query_id: str, data: str | None, stop: Stop | None = None
) -> None:
    """Return if the engine can run a query on this data, as far as can be known before a charge.

    Raises `DataChanged`, or `Failed` without a charge.
    """
    guarded(query_id, lambda: engine.ready(data, stop), charged=False)
    if stop is not None and stop.requested:
        raise Failed(query_id, cancelled=True, charged=False)


def _text(statement: Unrun) -> tuple[str, ...]:
    """Return the parts of a statement that decide whether it binds."""
    tables = (str((table.name, table.columns)) for table in statement.tables)
    return statement.sql, str(statement.shape), str(statement.scratch), *tables


def statements(prepared: Prepared) -> Iterator[Unrun]:
    """Yield every statement of an answer, on the owner's engine or on scratch tables."""
    plan, rewritten = prepared.plan, prepared.rewritten
    assert plan is not None
    for block, sql in zip(plan.blocks, rewritten.blocks, strict=True):
        if block.queries or block.histograms:
            staged = (
                ScratchTable(f"{STAGE}{n}", rewritten.stages[n].columns, ()) for n in sql.stages
            )
            shape = len(sql.keys), sql.parts
            yield Unrun(sql.sql, tuple(staged), shape)
            if sql.totals is not None:
                yield Unrun(sql.totals.whole, shape=shape)
    outer = [(rewritten.outer_sql, rewritten.tables, True)]
    stages = [(s.sql, s.tables, s.rows is None) for s in rewritten.stages]
    for text, tables, scratch in [*stages, *outer]:
        yield from (Unrun(t.public_sql) for t in tables if t.public_sql is not None)
        empty = tuple(ScratchTable(t.name, t.columns, ()) for t in tables)
        yield Unrun(text, empty, scratch=scratch)


def guarded(query_id: str, step: Callable[[], T], *, charged: bool = True) -> T:
    """Run a step of the engine and turn its failures into `Failed` with the query's id and nothing
    else.

    Before a charge, `Unreachable` passes through, so that it may say why the data cannot be used.
    """
    try:
        return step()
    except Interrupted:
        failed = Failed(query_id, cancelled=True, charged=charged)
    except TimedOut:
        failed = Failed(query_id, timed_out=True, charged=charged)
    except TooMany:
        failed = Failed(query_id, too_large=True, charged=charged)
    except EngineFailed:
        failed = Failed(query_id, charged=charged)
    except Unreachable as error:
        if not charged:
            raise
        failed = Failed(query_id, detail=getattr(error, "detail", "") or str(error))
    raise failed


@contextmanager
def measuring(stop: Stop, query_id: str, size: float | None, seconds: float) -> Iterator[Ending]:
    """Enclose the private part of a query, which may take `seconds` in total.

    Yields the `Ending` that delays the answer to its time step.
    """
    with paced(stop, query_id, size) as ending, limited(stop, seconds):
        yield ending


def freely(step: Callable[[], T], stop: Stop, seconds: float) -> T:
    """Run a step that costs no budget, until `stop` or for at most `seconds`.

    Raises `Failed` without a charge.
    """

    def bounded() -> T:
        with limited(stop, seconds):
            return step()

    return guarded(token_hex(8), bounded, charged=False)


def released(
    prepared: Prepared, engine: Engine, sampler: Sampler, chooser: Chooser, stop: Stop
) -> tuple[Noisy, ...]:
    """Run, perturb and return the noisy tables of a private query, block after block."""
    plan, rewritten = prepared.plan, prepared.rewritten
    assert plan is not None
    result = list[Noisy]()
    public = partial(engine.rows, stop=stop, data=prepared.data)
    scratch = partial(engine.scratch, stop=stop)
    for block, sql in zip(plan.blocks, rewritten.blocks, strict=True):
        exact, there = Exact([], []), block  # listed keys alone: the data does not matter
        if block.queries or block.histograms:
            stages = [stage(plan, rewritten, n, result, public, scratch) for n in sql.stages]
            key = int.from_bytes(os.urandom(16))
            exact = engine.aggregate(
                sql.sql, len(sql.keys), sql.parts, key, stages, stop, prepared.data, sql.totals
            )
            if stages:
                there = narrowed(block, dict(zip(sql.stages, stages, strict=True)))
        result.append(release(exact, there, sampler, chooser))
    return tuple(result)
