"""The most frequent marital status at each age, by report-noisy-max: only the winner is told."""

from __future__ import annotations

from examples.adult.people import MARITAL_STATUS, at, demonstration

AGES = range(18, 80, 2)
EPSILON = "0.02"
SQL = """
SELECT marital_status FROM people WHERE age >= {age} AND age < {age} + 2
GROUP BY marital_status ORDER BY COUNT(*) DESC LIMIT 1
"""

with demonstration("noisy_max") as (people, axes):
    winners = []
    with people.analyst("pure") as connection:
        for age in AGES:
            cursor = connection.cursor().execute(at(EPSILON, SQL.format(age=age)))
            winners.append(cursor.fetchall()[0][0])
    print(", ".join(f"{age}: {winner}" for age, winner in zip(AGES, winners, strict=True)))
    if axes:
        exact = [people.truth(SQL.format(age=age)) for age in AGES]
        places = [MARITAL_STATUS.index(rows[0][0]) if rows else None for rows in exact]
        axes.plot(AGES, places, "o", ms=11, mfc="none", color="0.4", label="exact winner")
        told = [MARITAL_STATUS.index(winner) for winner in winners]
        axes.plot(AGES, told, "o", ms=5, label=f"noisy winner, ε = {EPSILON}")
        axes.set_yticks(range(len(MARITAL_STATUS)), MARITAL_STATUS)
        axes.set(xlabel="age (years, two to a group)", ylabel="most frequent marital status")
        axes.set_ylim(-0.5, len(MARITAL_STATUS) - 0.5)
        axes.legend(frameon=False)
