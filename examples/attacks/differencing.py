"""Differencing: the sum over everybody less the sum over everybody but one is that one's value.

* Plain SQL: two sums for each target.
* k-anonymity: no sum over fewer than k patients is answered, and none of these is.
* dpsql: the same sums in one question, for which ε pays. What all of them move by is in the noise.
"""

from __future__ import annotations

from examples.attacks.scene import K, Outcome, Published, Scene, main, same

DEAR = 3_000
"""Who is ill costs more than this, and who is not costs less."""
SUMS = "SELECT SUM(cost), {without} FROM patients"
WITHOUT = "SUM(cost) FILTER (WHERE NOT ({who}))"
AT_LEAST = "CASE WHEN COUNT(*) FILTER (WHERE NOT ({who})) >= {k} THEN {sum} END"


def attack(scene: Scene) -> list[Outcome]:
    """The outcomes against each way to publish."""
    conditions = [same(person) for person in scene.register()]
    sums = [WITHOUT.format(who=who) for who in conditions]
    enough = [
        AT_LEAST.format(who=who, k=K, sum=each) for who, each in zip(conditions, sums, strict=True)
    ]
    (plain,) = scene.owner(SUMS.format(without=", ".join(sums)))
    (large,) = scene.owner(SUMS.format(without=", ".join(enough)))
    with scene.attacker() as connection:
        cursor = connection.cursor().execute(SUMS.format(without=", ".join(sums)))
        (noisy,) = cursor.fetchall()
    return [
        scene.outcome(Published.PLAIN, guesses(plain)),
        scene.outcome(Published.K_ANONYMOUS, guesses(large)),
        scene.outcome(Published.DPSQL, guesses(noisy)),
    ]


def guesses(sums: tuple[int, ...]) -> list[bool]:
    """Who is ill, by the sum of all and those without each."""
    everybody, *without = sums
    return [everybody - each > DEAR for each in without]


if __name__ == "__main__":
    main("differencing", attack, patients=2_000, targets=40)
