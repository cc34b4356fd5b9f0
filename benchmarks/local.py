"""How far counts are off that people report at random, and how far they are said to be.

`python -m benchmarks.local [adult.parquet] [--repeats 2000]` has Adult's people report their
occupation so many times anew at ε = ln 9, by each law, and prints for each: the standard error of a
value that nobody has by its formula; the root mean squared error of all counts as it is stated and
as it was; the ratio of these as variances; and how many of the 95 % intervals hold the truth. Then
that of a trusted server's count at the same ε. Without a file the people are made up.
"""

from __future__ import annotations

import argparse
from decimal import Decimal
from fractions import Fraction
from math import sqrt

import numpy as np

from benchmarks.common import table
from dpsql.compiler.resolve.report_weights import variance_weights, weights
from dpsql.mechanisms import standard_deviation
from dpsql.mechanisms.calibration import laplace
from dpsql.mechanisms.randomized_response import randomized
from dpsql.model.local_reports import LocalMechanism, Randomized
from examples.local.occupation import SHARES, occupations
from examples.local.scene import LN9

REPEATS, HALF = 2000, 1.959964
LAWS = {
    "grr": randomized(LocalMechanism.GRR, len(SHARES), Decimal(LN9)),
    "oue": randomized(LocalMechanism.OUE, len(SHARES), Decimal(LN9)),
    "p = 0.75, q = 0.25": Randomized(
        LocalMechanism.UNARY, len(SHARES), Fraction(3, 4), Fraction(1, 4)
    ),
}


def reported(
    law: Randomized, truths: np.ndarray, repeats: int, random: np.random.Generator
) -> list[np.ndarray]:
    """The counts of reports in so many surveys, as `weights` takes them."""
    p, q, rows = float(law.p), float(law.q), int(truths.sum())
    if law.of_bits:
        each = (
            random.binomial(n, p, repeats) + random.binomial(rows - n, q, repeats) for n in truths
        )
        return [np.full((repeats, 1), rows), *(bits[:, None] for bits in each)]
    channel = np.full((law.values, law.values), q) + (p - q) * np.eye(law.values)
    channel /= channel.sum(1, keepdims=True)  # but for rounding it is 1
    drawn = (random.multinomial(n, c, repeats) for n, c in zip(truths, channel, strict=True))
    return [np.asarray(sum(drawn))]


def row(name: str, law: Randomized, truths: np.ndarray, repeats: int) -> tuple[object, ...]:
    """One law: over all counts of all surveys."""
    counts = reported(law, truths, repeats, np.random.default_rng(3))
    stated, squares, covered = list[float](), list[float](), list[float]()
    for place, truth in enumerate(truths):
        amounts = np.eye(law.values)[place]
        estimate = sum(c @ w for c, w in zip(counts, weights([law], amounts), strict=True)) - truth
        parts = zip(counts, variance_weights([law], amounts, amounts), strict=True)
        variance = np.asarray(sum(c @ w for c, w in parts))
        stated.append(float(variance.mean()))
        squares.append(float((estimate**2).mean()))
        covered.append(float((np.abs(estimate) <= HALF * np.sqrt(variance)).mean()))
    here, there = float(np.mean(stated)), float(np.mean(squares))
    plain = law.deviation(float(truths.sum()))
    return name, plain, sqrt(here), sqrt(there), there / here, f"{np.mean(covered):.1%}"


def main() -> None:
    """Each law over the same people."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", nargs="?")
    parser.add_argument("--repeats", type=int, default=REPEATS)
    options = parser.parse_args()
    people = occupations(options.file)
    truths = np.array([people.count(value) for value in SHARES])
    header = ("law", "formula", "stated", "was", "variances", "covered")
    rows = [row(name, law, truths, options.repeats) for name, law in LAWS.items()]
    table(f"{len(people):,} people, ε = ln 9, {options.repeats:,} surveys", header, rows)
    central = standard_deviation(laplace(1, Fraction(LN9)))
    print(f"\na trusted server at the same ε: {central:.2f}")


if __name__ == "__main__":
    main()
