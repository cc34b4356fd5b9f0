"""Which of two pages is clicked more? The difference, its interval, a p-value, and how many people
it takes, where each reports by two coins and where a trusted server counts.

The interval holds what people drew and the noise (which dpsql states), and that these people are a
sample of all who will come: r(1 - r)/n of a rate r.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, sqrt
from statistics import NormalDist

import numpy as np

from dpsql.mechanisms.randomized_response import two_coins
from examples.local.scene import LN3, analyst, answer, dice, reports

PEOPLE, RATES = 20_000, (0.10, 0.13)
VALUES = ("yes", "no")
NORMAL = NormalDist()


@dataclass(frozen=True, slots=True)
class Rate:
    """The rate of so many people, and the standard error that was stated of it."""

    rate: float
    people: float
    stated: float

    @property
    def variance(self) -> float:
        """With that of the sample."""
        return self.stated**2 + self.rate * (1 - self.rate) / self.people


def difference(a: Rate, b: Rate) -> tuple[float, float, float]:
    """B - a, half its 95 % interval, and the p-value of no difference (two-sided)."""
    error, apart = sqrt(a.variance + b.variance), b.rate - a.rate
    return apart, NORMAL.inv_cdf(0.975) * error, 2 * NORMAL.cdf(-abs(apart) / error)


def needed(per_person: float, effect: float, noise: float = 0.0, power: float = 0.8) -> int:
    """The people of each arm with which an effect is found at 5 %, so often as `power` says.

    `per_person` is the variance that each adds in both arms together; `noise` that of both counts.

    >>> needed(2 * 0.25, 0.1), needed(2 * 0.25, 0.1, noise=2 * 100.0**2)
    (393, 4164)
    """
    share = ((NORMAL.inv_cdf(0.975) + NORMAL.inv_cdf(power)) / effect) ** 2 * per_person
    fixed = ((NORMAL.inv_cdf(0.975) + NORMAL.inv_cdf(power)) / effect) ** 2 * noise
    return ceil(share / 2 + sqrt(share**2 / 4 + fixed))


def show(name: str, arms: list[Rate]) -> None:
    """What a manager would read."""
    apart, half, p = difference(*arms)
    print(f"{name:8} difference {apart:.2%} ± {half:.2%}   p = {p:.2g}")


def main() -> None:
    """Both models over the same people."""
    random, law = dice(), two_coins(2)
    variant = random.integers(0, 2, PEOPLE)
    clicked = random.random(PEOPLE) < np.where(variant == 1, RATES[1], RATES[0])
    said = reports(law, VALUES, np.where(clicked, 0, 1), random)
    arms = ["ab"[arm] for arm in variant.tolist()]
    people = {"variant": arms, "clicked": ["yes" if c else "no" for c in clicked.tolist()]}
    declared = 'variant = { values = ["a", "b"] }\nclicked = { values = ["yes", "no"] }'
    laws = 'clicked = { values = ["yes", "no"], randomized = { mechanism = "two-coins" } }'
    sql = "SELECT variant, AVG(CASE WHEN clicked = 'yes' THEN 1.0 ELSE 0.0 END), COUNT(*)"
    with analyst(people, {"variant": arms, "clicked": said}, declared, laws) as ask:
        for name, table, epsilon in (("local", "reports", None), ("central", "people", LN3)):
            told = answer(ask, f"{sql} FROM {table} GROUP BY variant ORDER BY variant", epsilon)
            rates = [
                Rate(float(str(rate)), float(str(count)), errors[1])
                for (_, rate, count), errors in zip(*told, strict=True)
            ]
            show(name, rates)
    effect, plain = RATES[1] - RATES[0], sum(r * (1 - r) for r in RATES)
    drawn = sum((r + (1 - 2 * r) / 4) * (1 - r - (1 - 2 * r) / 4) * 4 for r in RATES)
    noise = 2 * 2 / float(LN3) ** 2
    print(f"to find {effect:.0%} at ε = ln 3 with 80 %: people of each arm")
    print(f"local {needed(drawn, effect):,}, central {needed(plain, effect, noise):,},", end=" ")
    print(f"without privacy {needed(plain, effect):,}")


if __name__ == "__main__":
    main()
