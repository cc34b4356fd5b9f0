"""running: the steps that wait for an engine, and what their failures tell.

What can be known before a charge is known before it: `ready` says that the data is still that which
a plan's proofs are about, and that somebody is there to run it. After the charge the same is asked
again of the very snapshot that the statement reads; what fails there stays charged.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from typing import TypeVar

from dpsql.engines import Engine, EngineFailed, Interrupted, Stop, TimedOut
from dpsql.errors import Failed, Unreachable
from dpsql.finish import stage
from dpsql.histograms import Chooser
from dpsql.model import Exact, Noisy
from dpsql.prepare import Prepared
from dpsql.release import Sampler, narrowed, release

T = TypeVar("T")


def guarded(query_id: str, step: Callable[[], T], *, charged: bool = True) -> T:
    """Run a step of the engine; its failures say which query failed, and nothing else.

    Before a charge it may say too why the data cannot be used: see `Unreachable`.
    """
    try:
        return step()
    except Interrupted:
        failed = Failed(query_id, cancelled=True, charged=charged)
    except TimedOut:
        failed = Failed(query_id, timed_out=True, charged=charged)
    except EngineFailed:
        failed = Failed(query_id, charged=charged)
    except Unreachable as error:
        if not charged:
            raise
        failed = Failed(query_id, detail=getattr(error, "detail", "") or str(error))
    raise failed


def released(
    prepared: Prepared, engine: Engine, sampler: Sampler, chooser: Chooser, stop: Stop
) -> tuple[Noisy, ...]:
    """The noisy tables of a private query, block after block."""
    plan, rewritten = prepared.plan, prepared.rewritten
    assert plan is not None
    result = list[Noisy]()
    public, scratch = partial(engine.rows, stop=stop), partial(engine.scratch, stop=stop)
    for block, sql in zip(plan.blocks, rewritten.blocks, strict=True):
        exact, there = Exact([], []), block  # listed keys alone: the data has no say
        if block.queries or block.histograms:
            stages = [stage(plan, rewritten, n, result, public, scratch) for n in sql.stages]
            key = int.from_bytes(os.urandom(8))
            shape = len(sql.keys), sql.parts, key
            exact = engine.aggregate(sql.sql, *shape, stages, stop, prepared.data)
            there = narrowed(block, dict(zip(sql.stages, stages, strict=True)))
        result.append(release(exact, there, sampler, chooser))
    return tuple(result)
