"""Errors of statistics over noisy rows: variances, quantiles, and slopes along exact numbers.

*Variances.* Let T be the root of the summed squared distances of m noisy numbers from their mean,
and L that of the true numbers. If each noise has the deviation s, T² is the square of a number that
is distributed as L + s·Z, plus the squares of m - 2 further noises of deviation s. So L² lies
between (T - z·s)² - (m - 2)·s² and (T + z·s)² - (m - 2)·s². Where deviations differ, the largest
one is z's and the mean square is subtracted.

*Slopes* along exact numbers, covariances with them and intercepts are linear in the noisy numbers.

*Quantiles* of noisy numbers, and the values beside an extreme of exact ones, move by no more than
the number that noise moves most.

It is post-processing: PRIVACY.md R66.
"""

from __future__ import annotations

from collections.abc import Callable

from dpsql.compiler.errors.expression_errors import FAR, HALF
from dpsql.model.tree import DOUBLE, AggregateCall, Expression, WindowCall, scalar, when

Named = Callable[[str, Expression], Expression]
"""A function that adds a hidden column: another aggregate over the same rows."""

SPREADS = {"stddev": (1, 0.5), "variance": (1, 1.0), "stddev_pop": (0, 0.5), "var_pop": (0, 1.0)}
"""Number that is subtracted from that of rows, and power of the variance, by function."""

ALONG = frozenset({"covar_pop", "covar_samp", "regr_slope", "regr_intercept"})


def error_of_spread(
    function: str, value: Expression, error: Expression, named: Named
) -> Expression:
    """Return the error of a variance or its root over numbers with independent errors."""
    less, power = SPREADS[function]
    rows = named("count", value).to(DOUBLE)
    squares = scalar("greatest", named("var_pop", value.to(DOUBLE)) * rows, 0.0)
    square = error * error
    spread, step = scalar("sqrt", squares), named("max", error) * HALF
    hidden = named("sum", square) / rows * (rows - 2.0)
    nearer = scalar("greatest", spread - step, 0.0)
    low = scalar("greatest", scalar("pow", nearer, 2.0) - hidden, 0.0)
    high = scalar("greatest", scalar("pow", spread + step, 2.0) - hidden, squares)
    divisor = scalar("nullif", rows - float(less), 0.0)
    shown, below, above = (scalar("pow", end / divisor, power) for end in (squares, low, high))
    return scalar("greatest", above - shown, shown - below) / FAR


def error_along(call: AggregateCall | WindowCall, error: Expression, named: Named) -> Expression:
    """Return the error of a statistic of noisy numbers and exact ones, by row in pairs."""
    value, other = call.args[0], call.args[1].to(DOUBLE)
    along = when(value.is_null(), None, other)
    square = when(other.is_null(), 0.0, error * error)
    rows, middle = named("count", along).to(DOUBLE), named("avg", along)
    total, moment = named("sum", square), named("sum", along * square)
    away = moment - middle * total
    spread = named("sum", along * along * square) - middle * (moment + away)
    spread = scalar("greatest", spread, 0.0)
    squares = scalar("nullif", named("var_pop", along) * rows, 0.0)
    match call.function:
        case "covar_pop":
            return scalar("sqrt", spread) / rows
        case "covar_samp":
            return scalar("sqrt", spread) / (rows - 1.0)
        case "regr_slope":
            return scalar("sqrt", spread) / squares
        case _:
            lever = middle / squares
            variance = total / (rows * rows) - lever * away * 2.0 / rows + lever * lever * spread
            return scalar("sqrt", scalar("greatest", variance, 0.0))
