"""Education, and education x sex: everybody is in one cell, so all cells cost what one costs."""

from __future__ import annotations

from examples.adult.people import EDUCATION, at, demonstration

ONE = "SELECT COUNT(*) AS n FROM people"
HISTOGRAM = "SELECT education, COUNT(*) AS n FROM people GROUP BY education"
TABLE = "SELECT education, sex, COUNT(*) AS n FROM people GROUP BY education, sex"

with demonstration("tables", (7, 6)) as (people, axes):
    with people.analyst("pure") as connection:
        cursor = connection.cursor()
        costs = []
        for sql in (ONE, HISTOGRAM, TABLE):
            rows = cursor.execute(at("0.1", sql)).fetchall()
            costs.append(cursor.receipt.charged.amount / 1e9)
            print(f"{len(rows)} cells, each ± {cursor.margins[0][-1]:.0f}: ε = {costs[-1]:g}")
        margin = cursor.margins[0][-1]
    if len(set(costs)) != 1:
        raise SystemExit("Disjoint cells were paid for more than once.")
    if axes:
        cells = {(education, sex): count for education, sex, count in rows}
        for shift, sex in ((0.2, "Female"), (-0.2, "Male")):
            places = [n + shift for n in range(len(EDUCATION))]
            counts = [cells[education, sex] for education in EDUCATION]
            axes.barh(places, counts, 0.4, xerr=margin, label=sex)
        axes.set_yticks(range(len(EDUCATION)), EDUCATION)
        axes.set(xlabel=f"people (ε = 0.1; 95 % interval ± {margin:.0f})", ylabel="education")
        axes.legend(frameon=False)
