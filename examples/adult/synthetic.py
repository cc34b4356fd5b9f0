"""Synthetic people: what is nobody's row, and what of the private ones it still shows."""

from __future__ import annotations

from collections import Counter
from decimal import Decimal

from dpsql.model.vocabulary import Request
from dpsql.proxy import Proxy
from dpsql.systems.synthesis.closeness import to_rows
from dpsql.systems.synthesis.synthesis import Synthesise
from dpsql.systems.synthesis.synthesis_plan import SynthesisWish
from examples.adult.people import demonstration

PEOPLE = "SELECT age, hours_per_week, sex, education, marital_status FROM people"
STATUS = ("Married-civ-spouse", "Never-married")

with demonstration("synthetic") as (people, axes):
    with Proxy.open(people.policy) as proxy:
        request = Request(PEOPLE, "zcdp", epsilon=Decimal(1))
        table = proxy.run(Synthesise(SynthesisWish(request, (("age", "marital_status"),))))
    print(f"{len(table.rows)} synthetic people for ε = 1, {table.receipt.charged.amount / 1e9} ρ")
    truth = people.truth(PEOPLE)
    near = to_rows(table, truth)
    for count in (1, 2, 3):
        own = [each.variation for each in near if len(each.columns) == count]
        print(f"tables by {count}: total variation {sum(own) / len(own):.3f} in the mean")
    if axes:
        for rows, style in ((truth, "-"), (table.rows, "--")):
            for status, color in zip(STATUS, ("C0", "C1"), strict=True):
                counts = Counter(row[0] for row in rows if row[4] == status)
                label = f"{status}, {'private' if rows is truth else 'synthetic'}"
                axes.plot(
                    range(17, 91),
                    [counts[n] for n in range(17, 91)],
                    style,
                    color=color,
                    label=label,
                )
        axes.set(xlabel="age", ylabel="people (ε = 1 for all columns)")
        axes.legend(frameon=False)
