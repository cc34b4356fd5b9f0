"""Private bounds, audited: both steps together, 20,000 times a side, against the whole claim."""

from __future__ import annotations

import math
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest

from dpsql import accountants
from dpsql.compiler.plan.prepared import Prepared
from dpsql.mechanisms.laws import Law
from dpsql.model.tree import Value
from dpsql.model.vocabulary import BoundsMethod, Exact, Mechanism, Noise, Policy
from dpsql.preparation.private_bounds import SHARE, bounds_by_counts, question, shares, with_bounds
from dpsql.preparation.question import ReleasedBounds
from dpsql.release.release import Sampler, release
from grammar_tests import world
from grammar_tests.bound import over
from grammar_tests.laws import BUDGET, SAMPLING_KEY, PlainEngine, compiled, without_unit
from grammar_tests.test_audit import DELTA, EPSILON, RELEASES, copied, excess, real
from grammar_tests.test_private_bounds import TOTAL, searching, widest_of


class Pair:
    """Both steps over two neighbours: customers near the bar, and unit 7 alone far above."""

    def __init__(
        self,
        accountant: str,
        method: BoundsMethod = BoundsMethod.LOG_HISTOGRAM,
        units: int | None = None,
    ) -> None:
        units = units or {"zcdp": 33, "pure": 91}[accountant]
        rows = [
            (n, *world.customer(n)[1:5], 1e6 if n == 7 else 900.0, *world.customer(n)[6:])
            for n in range(1, units + 1)
        ]
        tables = {**world.empty(), "customers": rows}
        policy, _ = over(tables, constraints=True)
        self.engine = PlainEngine(world.build(tables, constraints=False))
        self.policy = searching(policy, "income", method=method)
        delta = Decimal(0) if accountant == "pure" else DELTA
        self.budget = replace(BUDGET, accountant=accountant, query_delta=delta)
        self.delta = float(delta)
        law = accountants.get(accountant)
        small, self.large = shares(law, self.budget, Decimal(EPSILON.numerator), 1, SHARE)
        self.widest = widest_of(self.policy, self.engine, TOTAL)
        self.first = self._compiled(question(self.policy, self.widest), self.policy, small)
        self.second: dict[ReleasedBounds, tuple[Prepared, Exact, Exact]] = {}
        self.bins = self._exact(self.first)

    def _compiled(self, sql: str, policy: Policy, epsilon: Decimal) -> Prepared:
        return compiled(sql, policy, self.engine, budget=self.budget, epsilon=Fraction(epsilon))

    def _exact(self, prepared: Prepared) -> tuple[Exact, Exact]:
        (block,) = prepared.rewritten.blocks

        def run() -> Exact:
            return self.engine.aggregate(block.sql, len(block.keys), block.parts, SAMPLING_KEY)

        here = run()
        with without_unit(self.engine.connection, world.deletions(7)):
            return here, run()

    def losses(self, side: int, sampler: Sampler, *, exact_bounds: bool) -> np.ndarray:
        """ln(likelihood here / likelihood there) of the pair of releases, many times."""
        assert self.first.plan is not None
        noise = self.first.plan.blocks[0].releases[0].noise
        domain = self.first.plan.blocks[0].domain
        assert domain is not None
        keys = [key[0] for key in domain]
        counts = [np.array([self._bins(exact).get(k, 0) for k in keys]) for exact in self.bins]
        silent = Noise(noise.mechanism, Fraction(1, 100))
        fixed = [self._found(keys, c, silent) for c in counts]
        shown = 0 if exact_bounds else RELEASES
        noisy = counts[side] + sampler(noise, shown * len(keys)).reshape(shown, len(keys))
        if exact_bounds:
            told = 0.0 if fixed[0] == fixed[1] else math.inf * (1 - 2 * side)
            return told + self._second_losses(fixed[side], side, RELEASES, sampler)
        (moved,) = np.flatnonzero(counts[0] != counts[1])
        result = likelier(noise, noisy[:, moved], counts[0][moved], counts[1][moved])
        chosen: dict[ReleasedBounds, list[int]] = {}
        for n in range(RELEASES):
            chosen.setdefault(self._found(keys, noisy[n], noise), []).append(n)
        for bounds, places in chosen.items():
            result[places] += self._second_losses(bounds, side, len(places), sampler)
        return result

    def _bins(self, exact: Exact) -> dict[Value, int]:
        return {key[0]: int(n) for key, n in zip(exact.keys, exact.parts[0], strict=True)}

    def _found(self, keys: list[Value], counts: np.ndarray, noise: Noise) -> ReleasedBounds:
        rows = list(zip(keys, counts.tolist(), strict=True))
        return bounds_by_counts(self.policy, self.widest, rows, noise)

    def step(self, bounds: ReleasedBounds) -> tuple[Prepared, Exact, Exact]:
        """The second step with these bounds, and its exact integers on both sides."""
        if bounds not in self.second:
            prepared = self._compiled(TOTAL, with_bounds(self.policy, (bounds,)), self.large)
            self.second[bounds] = (prepared, *self._exact(prepared))
        return self.second[bounds]

    def _second_losses(
        self, bounds: ReleasedBounds, side: int, count: int, sampler: Sampler
    ) -> np.ndarray:
        prepared, *exact = self.step(bounds)
        assert prepared.plan is not None
        (plan,) = prepared.plan.blocks
        noisy = release(*copied(exact[side], plan, count), sampler).parts
        (one,), (ours,), (theirs,) = plan.releases, exact[0].parts, exact[1].parts
        totals = np.array(noisy, dtype=np.int64)[:, 0]
        return likelier(one.noise, totals, int(ours[0]), int(theirs[0]))


def likelier(noise: Noise, x: np.ndarray, a: int, b: int) -> np.ndarray:
    """ln P(x | exact is a) - ln P(x | exact is b)."""
    if noise.mechanism is Mechanism.DISCRETE_LAPLACE:
        return np.asarray((abs(x - b) - abs(x - a)) / float(noise.scale))
    x = x.astype(float)
    return np.asarray(((x - b) ** 2 - (x - a) ** 2) / float(2 * noise.scale))


def half_noise(noise: Law, count: int) -> np.ndarray:
    halved_: np.ndarray = real(noise, count) // 2
    return halved_


def refuted(pair: Pair, sampler: Sampler = real, *, exact_bounds: bool = False) -> bool:
    here = pair.losses(0, sampler, exact_bounds=exact_bounds)
    there = pair.losses(1, sampler, exact_bounds=exact_bounds)
    return excess(here, there, pair.delta) > 0 or excess(-there, -here, pair.delta) > 0


@pytest.mark.full("thousands of releases are sampled")
@pytest.mark.parametrize("accountant", ["zcdp", "pure"])
def test_the_claim_of_the_pair_stands(accountant: str) -> None:
    pair = Pair(accountant)
    assert not refuted(pair)
    assert len(pair.second) > 1, "one outcome only: the audit would say nothing of the choice"


def test_bounds_from_exact_counts_are_refuted() -> None:
    assert refuted(Pair("pure"), exact_bounds=True)


@pytest.mark.full("thousands of releases are sampled")
def test_half_the_noise_is_refuted() -> None:
    assert refuted(Pair("pure"), half_noise)
