"""What was weighed and is not done, with its figures: `python -m benchmarks.alternatives`.

* An interval of `± noise + N·(M − C)`, where at most M was declared, C found and at most N units
  are beyond: N is no less than what votes can hide, so it is many times as wide as the noise.
* Noise that public groups share, where a query adds groups up: a total of all errs more, one of few
  groups less. What adds up released groups keeps independent noise, whichever groups these are.
* Which quantiles are read from a tree, by a private number of rows: it would decide nothing, since
  both ways err by so many rows, whatever number there is.
"""

from __future__ import annotations

from fractions import Fraction
from math import sqrt

from benchmarks.common import table
from dpsql.mechanisms import margin, norm_bounds, standard_deviation
from dpsql.mechanisms.correlated_gaussian import ManyGroups, correlated
from dpsql.model.vocabulary import Mechanism, Noise

RHO = Fraction(2436, 100_000)
"""What (1, 1e-6) is under zCDP; under pure, ε is 1."""
GROUPS = (8, 50, 366)
EMPTY = (1, 10, 30)


def main() -> None:
    hidden = [_interval(order, octaves) for order in (1, 2) for octaves in EMPTY]
    heads = ("accountant", "octaves beyond", "N of nobody", "N·C / margin of noise")
    table("± noise + N·(M − C), for M = 2·C, one number", heads, hidden)
    shared = [_totals(groups) for groups in GROUPS]
    heads = ("groups", "one group", "total of all", "totals that gain have up to")
    table("errors with noise that groups share, of independent noise", heads, shared)


def _interval(order: int, octaves: int) -> tuple[object, ...]:
    part = norm_bounds.share(order, 1)
    votes, answer = (_noise(order, each) for each in (part, 1 - part))
    units = norm_bounds.at_most([0] * octaves, votes)
    return (
        "zcdp" if order == 1 else "pure",
        octaves,
        units,
        f"{units * 1000 / margin(answer):.1f}",
    )


def _noise(order: int, share: Fraction) -> Noise:
    """The noise that a share buys; of an answer to which one unit adds a thousand steps."""
    most = 1 if share < Fraction(1, 2) else 1000
    if order == 1:
        return Noise(Mechanism.DISCRETE_GAUSSIAN, most**2 / (2 * RHO * share))
    return Noise(Mechanism.DISCRETE_LAPLACE, most / share)


def _totals(groups: int) -> tuple[object, ...]:
    noise = correlated(ManyGroups(groups, groups, 1), RHO)
    assert noise is not None
    alone, independent = standard_deviation(noise.alone) ** 2, groups / (2 * float(RHO))
    common = float(noise.shared)
    own = alone - common
    total = sqrt((groups * own + groups**2 * common) / (groups * independent))
    return (
        groups,
        f"{sqrt(alone / independent):.2f}",
        f"{total:.2f}",
        int((independent - own) / common),
    )


if __name__ == "__main__":
    main()
