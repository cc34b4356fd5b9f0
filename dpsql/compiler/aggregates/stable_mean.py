"""PTR_MEAN(x, rows): the mean of x if there are about `rows` rows or more, else NULL.

See `dpsql.mechanisms.stability`. The count is a separate test and not the measurement of COUNT:
only one bit of it is released.

Proof (PRIVACY.md R55). See `dpsql.mechanisms.stability`: one row for each unit is required, and the
distance is that of a mean of `rows` rows, rounded up to whole steps.
"""

from __future__ import annotations

from dpsql.compiler.aggregates import recipe
from dpsql.compiler.aggregates.moments import centred_sum, range_of
from dpsql.compiler.plan.measurement_kinds import RowTest, StableMean
from dpsql.model.errors import Reason, Refused
from dpsql.model.tree import DOUBLE, Literal

_FINER = {2: (20, 60), 10: (6, 18)}
"""Additional digits of a mean, and its most digits, by the base of the grid."""


def _parts(bounded: recipe.BoundedCall) -> recipe.Parts:
    recipe.no_distinct(bounded)
    if bounded.rows != 1 or not bounded.rows_proved:
        raise Refused(
            Reason.UNSUPPORTED_AGGREGATE,
            bounded.call.span,
            name="PTR_MEAN of what has several rows per unit",
            fix="Aggregate per unit first, in a subquery; or use AVG.",
        )
    rows = bounded.call.args[1]
    assert isinstance(rows, Literal)
    assert isinstance(rows.value, int)
    test = RowTest(recipe.counted(bounded), rows.value)
    total = centred_sum(bounded)
    finer, most = _FINER[total.lattice.base]
    mean = StableMean(
        argument=total.argument,
        condition=total.condition,
        lattice=total.lattice,
        lower=total.lower,
        upper=total.upper,
        centre=total.centre,
        finer=max(0, min(finer, most - total.lattice.digits)),
        test=test,
    )
    return (test, mean)


STABLE_MEAN = recipe.Recipe(
    _parts, lambda bounded, parts: float(range_of(bounded).centre) + parts[1].to(DOUBLE)
)
