"""A sum against its clipping bound: too low cuts the large values, too high drowns all in noise."""

from __future__ import annotations

from examples.adult.people import at, demonstration

EPSILON = "0.1"
BOUNDS = [2**n for n in range(8, 21)]
SQL = "SELECT SUM(LEAST(capital_gain, {bound})) AS total FROM people"

with demonstration("clipping") as (people, axes):
    totals, margins = [], []
    with people.analyst("pure") as connection:
        for bound in BOUNDS:
            cursor = connection.cursor().execute(at(EPSILON, SQL.format(bound=bound)))
            totals.append(float(cursor.fetchall()[0][0]))
            margins.append(cursor.margins[0][0])
            print(f"clipped to {bound}: {totals[-1]:,.0f} ± {margins[-1]:,.0f}")
    if axes:
        exact = people.truth("SELECT SUM(capital_gain) FROM people")[0][0] / 1e6
        axes.axhline(exact, color="0.4", linestyle="--", label="exact sum, not clipped")
        millions = [[n / 1e6 for n in numbers] for numbers in (totals, margins)]
        axes.errorbar(BOUNDS, *millions, fmt="o-", capsize=4, label="answer, 95 % interval")
        axes.set_xscale("log", base=2)
        axes.set(
            xlabel=f"clipping bound of capital_gain (dollars), ε = {EPSILON}",
            ylabel="sum of capital_gain (million dollars)",
        )
        axes.legend(frameon=False, loc="upper left")
