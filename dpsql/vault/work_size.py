"""Size of an answer and of its work, from the plan and public data alone."""

from __future__ import annotations

from functools import partial

from dpsql.compiler.plan.prepared import Prepared
from dpsql.engines import Stop
from dpsql.model.errors import Reason, Refused
from dpsql.preparation.compilation import Compiler
from dpsql.preparation.workload import fewest, operations


def require_result_room(compiler: Compiler, prepared: Prepared, stop: Stop) -> None:
    """Raise `Refused` if the answer would always have more values than the limit."""
    plan, most = prepared.plan, compiler.policy.limits.max_result_cells
    assert plan is not None
    outer = plan.outer
    rows = compiler.freely(partial(fewest, outer, compiler.public.size), stop)
    if rows * len(outer.fields) > most:
        raise Refused(
            Reason.TOO_LARGE,
            what="values in its answer",
            why=f"Each row stands beside each other: {rows:,} where nothing joins them.",
            fix="Join on a condition, or ask for fewer rows.",
        )


def expected_work(compiler: Compiler, prepared: Prepared, stop: Stop) -> float | None:
    """Return the expected work of the question, or None without a pace: see
    `dpsql.preparation.workload`.
    """
    if stop.pace is None:
        return None
    step = partial(operations, prepared, compiler.policy, compiler.public.size)
    return compiler.freely(step, stop)
