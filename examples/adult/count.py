"""How many people are 40 or older? One question at growing ε: the interval shrinks as 1/ε."""

from __future__ import annotations

from examples.adult.people import at, demonstration

SQL = "SELECT COUNT(*) AS n FROM people WHERE age >= 40"
EPSILONS = ("0.01", "0.02", "0.05", "0.1", "0.2", "0.5", "1")

with demonstration("count") as (people, axes):
    counts, margins = [], []
    with people.analyst("pure") as connection:
        for epsilon in EPSILONS:
            cursor = connection.cursor().execute(at(epsilon, SQL))
            counts.append(cursor.fetchall()[0][0])
            margins.append(cursor.margins[0][0])
            print(f"ε = {epsilon}: {counts[-1]} ± {margins[-1]:.0f}")
    if axes:
        exact = people.truth(SQL)[0][0]
        axes.axhline(exact, color="0.4", linestyle="--", label="exact count")
        places = [float(epsilon) for epsilon in EPSILONS]
        axes.errorbar(places, counts, margins, fmt="o", capsize=4, label="answer, 95 % interval")
        axes.set(xscale="log", xlabel="ε of the question", ylabel="people aged 40 or older")
        axes.legend(frameon=False)
