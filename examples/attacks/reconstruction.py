"""Reconstruction: counts over many groups of people tell who is in them (Dinur and Nissim 2003).

All patients of a ward are targets. The attacker asks how many are ill in random halves of them and
solves for who is, by linear programming: the least sum of errors over values from 0 to 1.

* Plain SQL: exact counts.
* k-anonymity: no count below k is told, and all are rounded to multiples of k.
* dpsql: the same counts in one question, for which ε pays.

Needs `scipy`.
"""

from __future__ import annotations

import numpy as np

from examples.attacks.scene import Bits, K, Numbers, Outcome, Published, Scene, main

HALVES = 8
"""Counts for each patient."""
PAID = 32
"""Counts that ε is spent on, of which exact ones would do: the noise of each grows with how many
there are."""
IN_HALVES = """
WITH halves AS (SELECT UNNEST({halves}) AS half, UNNEST({postcodes}) AS zip)
SELECT half, COUNT(*) FROM patients JOIN halves USING (zip) WHERE ill GROUP BY half
"""
COUNTS = "SELECT {counts} FROM patients"
COUNT = "COUNT(*) FILTER (WHERE ill AND zip IN ({postcodes}))"


def attack(scene: Scene) -> list[Outcome]:
    """The outcomes against each way to publish."""
    postcodes = [postcode for _, postcode, _ in scene.register()]
    people = len(postcodes)
    halves = scene.rng.random((HALVES * people, people)) < 1 / 2
    counts = exact(scene, halves, postcodes)
    rounded = np.round(counts / K) * K
    large = counts >= K
    sql = [
        COUNT.format(postcodes=", ".join(f"'{postcodes[n]}'" for n in np.flatnonzero(half)))
        for half in halves[:PAID]
    ]
    with scene.attacker() as connection:
        cursor = connection.cursor().execute(COUNTS.format(counts=", ".join(sql)))
        (noisy,) = cursor.fetchall()
    return [
        scene.outcome(Published.PLAIN, solved(halves, counts)),
        scene.outcome(Published.K_ANONYMOUS, solved(halves[large], rounded[large])),
        scene.outcome(Published.DPSQL, solved(halves[:PAID], np.array(noisy, dtype=np.float64))),
    ]


def exact(scene: Scene, halves: Bits, postcodes: list[str]) -> Numbers:
    """How many are ill in each half."""
    places, members = np.nonzero(halves)
    listed = [postcodes[n] for n in members]
    found = scene.owner(IN_HALVES.format(halves=places.tolist(), postcodes=listed))
    counts = np.zeros(len(halves))
    for half, ill in found:
        counts[half] = ill
    return counts


def solved(halves: Bits, counts: Numbers) -> Bits:
    """Who is ill, so that the counts are missed by least in all."""
    from scipy.optimize import linprog  # noqa: PLC0415

    asked, people = halves.shape
    # Variables: one for each patient, then how far each count is missed by, which costs.
    missed = np.eye(asked)
    within = np.block([[halves, -missed], [-halves.astype(np.float64), -missed]])
    result = linprog(
        np.concatenate([np.zeros(people), np.ones(asked)]),
        A_ub=within,
        b_ub=np.concatenate([counts, -counts]),
        bounds=[(0, 1)] * people + [(0, None)] * asked,
    )
    guesses: Bits = result.x[:people] > 1 / 2
    return guesses


if __name__ == "__main__":
    main("reconstruction", attack, patients=50, targets=50)
