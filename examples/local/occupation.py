"""Adult's occupation at ε = ln 9, reported by three laws, and counted by somebody who is trusted.

15 values, 32,561 people: the estimated count of a rare value errs by about 106 with GRR, 135 with
OUE and 156 with p = 0.75, q = 0.25; the central model by less than one person.
"""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction

import duckdb
import numpy as np

from dpsql.mechanisms.randomized_response import randomized
from dpsql.model.local_reports import LocalMechanism, Randomized
from examples.local.scene import LN9, analyst, answer, data_file, dice, listed, reports

SHARES = {
    "Prof-specialty": 4140,
    "Craft-repair": 4099,
    "Exec-managerial": 4066,
    "Adm-clerical": 3770,
    "Sales": 3650,
    "Other-service": 3295,
    "Machine-op-inspct": 2002,
    "?": 1843,
    "Transport-moving": 1597,
    "Handlers-cleaners": 1370,
    "Farming-fishing": 994,
    "Tech-support": 928,
    "Protective-serv": 649,
    "Priv-house-serv": 149,
    "Armed-Forces": 9,
}
"""How many people of Adult have each."""

VALUES = tuple(SHARES)
LAWS = {
    "grr": randomized(LocalMechanism.GRR, 15, Decimal(LN9)),
    "oue": randomized(LocalMechanism.OUE, 15, Decimal(LN9)),
    "symmetric": Randomized(LocalMechanism.UNARY, 15, Fraction(3, 4), Fraction(1, 4)),
}
HOW = {
    "grr": f'{{ mechanism = "grr", epsilon = {LN9} }}',
    "oue": f'{{ mechanism = "oue", epsilon = {LN9} }}',
    "symmetric": '{ mechanism = "unary", p = 0.75, q = 0.25 }',
}


def occupations(file: str | None) -> list[str]:
    """Of each person, from UCI Adult or as many made up."""
    if file is None:
        return [value for value, count in SHARES.items() for _ in range(count)]
    with duckdb.connect() as database:
        rows = database.execute(f"SELECT coalesce(occupation, '?') FROM '{file}'").fetchall()
    return [value for (value,) in rows]


def show(
    name: str,
    exact: dict[str, int],
    rows: list[tuple[object, ...]],
    errors: list[tuple[float, ...]],
) -> None:
    """How far counts are, and how far they say that they are."""
    far = [int(str(number)) - exact[str(value)] for value, number in rows]
    stated = np.sqrt(np.mean([error[1] ** 2 for error in errors]))
    print(
        f"{name:10} stated {stated:7.2f}   off by {np.sqrt(np.mean(np.square(far))):7.2f}", end=""
    )
    law = LAWS.get(name)
    print(
        "" if law is None else f"   of a value nobody has {law.deviation(sum(exact.values())):7.2f}"
    )


def main() -> None:
    """Each law over the same people, and the central model."""
    truth = occupations(data_file())
    random, places = dice(), np.array([VALUES.index(value) for value in truth])
    reported = {name: reports(law, VALUES, places, random) for name, law in LAWS.items()}
    declared = f"occupation = {{ values = {listed(VALUES)} }}"
    laws = "\n".join(f"{n} = {{ values = {listed(VALUES)}, randomized = {HOW[n]} }}" for n in LAWS)
    exact = dict(zip(VALUES, np.bincount(places, minlength=15).tolist(), strict=True))
    print(f"{len(truth):,} people, ε = ln 9: standard errors over {len(VALUES)} counts")
    with analyst({"occupation": truth}, reported, declared, laws) as ask:
        for name in LAWS:
            show(name, exact, *answer(ask, f"SELECT {name}, COUNT(*) FROM reports GROUP BY {name}"))
        show(
            "central",
            exact,
            *answer(ask, "SELECT occupation, COUNT(*) FROM people GROUP BY 1", LN9),
        )


if __name__ == "__main__":
    main()
