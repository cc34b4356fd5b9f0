"""PTR_MEAN(x, rows): the mean of x if there are about `rows` rows or more, else NULL.

See `dpsql.mechanisms.stability`. The count is a test of its own, not the COUNT that others ask for:
of it one bit is shown.

Proof (PRIVACY.md R55). See `dpsql.mechanisms.stability`: one row for each unit is required, and the
distance is that of a mean of `rows` rows, rounded up to whole steps.
"""

from __future__ import annotations

from dataclasses import replace

from dpsql.compiler.aggregates.clipped_sums import centred_sum, count_of_rows, range_of
from dpsql.compiler.aggregates.formulas import double, plus
from dpsql.compiler.aggregates.recipe import BoundedCall, Parts, Recipe, as_double, no_distinct
from dpsql.compiler.plan.private_plan import Proposal
from dpsql.model.errors import Reason, Refused
from dpsql.model.tree import Expression, Literal, Ref

_FINER = {2: (20, 60), 10: (6, 18)}
"""By the lattice's base: how many digits finer a mean is, and the most digits that it has then."""


def _parts(asked: BoundedCall) -> Parts:
    no_distinct(asked)
    if asked.rows != 1 or not asked.rows_proved:
        raise Refused(
            Reason.UNSUPPORTED_AGGREGATE,
            asked.call.span,
            name="PTR_MEAN of what has several rows per unit",
            fix="Aggregate per unit first, in a subquery; or use AVG.",
        )
    rows = asked.call.args[1]
    assert isinstance(rows, Literal)
    assert isinstance(rows.value, int)
    count = replace(count_of_rows(asked), proposal=Proposal(rows.value))
    total = centred_sum(asked)
    finer, most = _FINER[total.lattice.base]
    finer = max(0, min(finer, most - total.lattice.digits))
    steps = total.lattice.base**finer
    distance = -(-(total.upper - total.lower) * steps // rows.value)
    proposal = Proposal(rows.value, finer, count)
    return (count, replace(total, total_lower=0, total_upper=distance, proposal=proposal))


def _combine(asked: BoundedCall, parts: tuple[Ref, ...]) -> Expression:
    _, mean = parts
    return plus(double(float(range_of(asked).centre)), as_double(mean))


STABLE_MEAN = Recipe(_parts, _combine)
