"""Averaging: noise that is drawn anew for each answer is gone after enough of them.

* Plain SQL: there is nothing to average.
* k-anonymity: every month patients are put into groups of k anew, and the mean of each is published
  (microaggregation); the mean of a target's groups tells the target's value.
* Noise without a ledger: the same noise as dpsql's, drawn as often as somebody asks.
* dpsql: the same question has the same answer; others are charged until nothing is left.
"""

from __future__ import annotations

import numpy as np

import dpsql
from examples.adult.people import at
from examples.attacks.scene import (
    Bits,
    K,
    Numbers,
    Outcome,
    Published,
    Scene,
    main,
    whose,
)

TIMES = 1_000
"""How often an attacker who need not pay asks."""
QUESTIONS = 4
"""Into how many the budget is divided where every question is paid for."""
COSTS = "SELECT cost FROM patients ORDER BY person_id"
DEAR = 3_000
ILL = "SELECT {whose} AS who, COUNT(*) AS n FROM patients WHERE ill GROUP BY who"


def attack(scene: Scene) -> list[Outcome]:
    """The outcomes against each way to publish."""
    targets = len(scene.secrets)
    costs = np.array([cost for (cost,) in scene.owner(COSTS)], dtype=np.float64)
    sql = ILL.format(whose=whose(scene.register()))
    exact = dict(scene.owner(sql))
    counts = np.array([exact.get(n, 0) for n in range(targets)])
    scale = 2 / scene.epsilon
    fresh = counts + scene.rng.laplace(0, scale, (TIMES, targets)).mean(axis=0)
    return [
        scene.outcome(Published.PLAIN, counts > 1 / 2),
        scene.outcome(Published.K_ANONYMOUS, of_groups(costs, scene.rng)[:targets]),
        scene.outcome(Published.FRESH_NOISE, fresh > 1 / 2),
        scene.outcome(Published.DPSQL, paid_for(scene, sql) > 1 / 2),
    ]


def of_groups(costs: Numbers, rng: np.random.Generator) -> Bits:
    """Who is dear, by the means of the groups in which everybody was in all releases."""
    people, seen = len(costs), np.zeros(len(costs))
    for _ in range(TIMES):
        order = rng.permutation(people)[: people // K * K].reshape(-1, K)
        seen[order] += costs[order].mean(axis=1, keepdims=True)
    others = costs.mean()
    # Each mean has the patient's own value once, and K - 1 times about that of all others.
    dear: Bits = (seen / TIMES - others * (K - 1) / K) * K > DEAR
    return dear


def paid_for(scene: Scene, sql: str) -> Numbers:
    """The average of every answer that the budget pays for; the same again is told for nothing."""
    answers = []
    with scene.attacker() as connection:
        cursor = connection.cursor()
        for n in range(QUESTIONS + 1):
            # Each asks for a little more than the one before, whose answer would be told again.
            epsilon = scene.epsilon / QUESTIONS * (1 + n / 100)
            try:
                counts: dict[int, int] = dict(cursor.execute(at(f"{epsilon:.6f}", sql)).fetchall())
            except dpsql.OperationalError:
                break
            if dict(cursor.execute(at(f"{epsilon:.6f}", sql)).fetchall()) != counts:
                raise SystemExit("The same question had another answer.")
            answers.append([counts[n] for n in range(len(scene.secrets))])
    averages: Numbers = np.mean(np.array(answers, dtype=np.float64), axis=0)
    return averages


if __name__ == "__main__":
    main("averaging", attack, patients=2_000, targets=100)
