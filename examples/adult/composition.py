"""What k questions cost together: basic, advanced, Rényi and zCDP composition of the same events.

Each question is a Gaussian count that alone is (0.1, 1e-6)-DP. Asks nothing: free.
"""

from __future__ import annotations

from dataclasses import astuple
from fractions import Fraction

from dpsql.accountants.reports import composition
from examples.adult.people import at, demonstration

QUESTIONS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)
DELTA, ORDER = Fraction(1, 10**5), 12
LABELS = ("basic", "advanced", f"Rényi at order {ORDER}", "zCDP")
SQL = at("0.1", "SELECT COUNT(*) AS n FROM people")

with demonstration("composition") as (people, axes):
    with people.analyst("zcdp") as connection:
        event = connection.explain(SQL).event
        assert event is not None
    totals = [astuple(composition([event] * count, DELTA, ORDER)) for count in QUESTIONS]
    for count, total in zip(QUESTIONS, totals, strict=True):
        print(f"{count} questions:", ", ".join(f"{epsilon:.2f}" for epsilon in total))
    if axes:
        for n, label in enumerate(LABELS):
            axes.plot(QUESTIONS, [total[n] for total in totals], "o-", ms=4, label=label)
        axes.set(xscale="log", yscale="log", xlabel="questions, each (0.1, 1e-6)-DP by itself")
        axes.set_ylabel(f"ε of all together, at δ = {float(DELTA):g}")
        axes.legend(frameon=False)
