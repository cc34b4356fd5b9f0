"""Linkage: the birth date and postcode in a public register find a patient whose name is masked.

* Plain SQL: the masked table is joined with the register.
* k-anonymity: two releases, each with classes of k or more: by year of birth, and by the first
  digits of the postcode. Both have what nobody thought of as identifying, by which they are joined.
* dpsql: all that ε pays for is spent on one count for each of the targets.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

from examples.attacks.scene import K, Outcome, Published, Scene, main, whose

Rows: TypeAlias = Sequence[tuple[Any, ...]]

MASKED = "SELECT born, zip, sex, ill FROM patients"
RELEASE = """
SELECT * FROM (SELECT *, COUNT(*) OVER (PARTITION BY {by}, sex) AS k FROM patients) WHERE k >= {k}
"""
TWO_RELEASES = f"""
WITH a AS (SELECT EXTRACT(year FROM born) AS year, sex, hours, gain, cost, ill
           FROM ({RELEASE.format(by="EXTRACT(year FROM born)", k=K)})),
b AS (SELECT LEFT(zip, 2) AS area, sex, hours, gain, cost, ill
      FROM ({RELEASE.format(by="LEFT(zip, 2)", k=K)}))
SELECT year, area, sex, ill FROM a JOIN b USING (sex, hours, gain, cost, ill)
"""
COUNTS = "SELECT {whose} AS who, COUNT(*) AS n FROM patients WHERE ill GROUP BY who"


def attack(scene: Scene) -> list[Outcome]:
    """The outcomes against each way to publish."""
    register = scene.register()
    masked = guesses(scene.owner(MASKED), register)
    shown = [(born.year, postcode[:2], sex) for born, postcode, sex in register]
    joined = guesses(scene.owner(TWO_RELEASES), shown)
    with scene.attacker() as connection:
        cursor = connection.cursor().execute(COUNTS.format(whose=whose(register)))
        counts: dict[int, int] = dict(cursor.fetchall())
    noisy = [counts[n] > 1 / 2 for n in range(len(register))]
    return [
        scene.outcome(Published.PLAIN, masked),
        scene.outcome(Published.K_ANONYMOUS, joined),
        scene.outcome(Published.DPSQL, noisy),
    ]


def guesses(rows: Rows, register: Rows) -> list[bool]:
    """What most rows say that look like each of the register; ill where none does."""
    ill: dict[tuple[object, ...], list[bool]] = {}
    for *looks, secret in rows:
        ill.setdefault(tuple(looks), []).append(bool(secret))
    found = (ill.get(tuple(person), [True]) for person in register)
    return [2 * sum(secrets) >= len(secrets) for secrets in found]


if __name__ == "__main__":
    main("linkage", attack, patients=2_000, targets=100)
