"""The ε of a ledger over that of privacy loss distributions (PLD), for questions of accepted cases.

`python -m benchmarks.accountants [--delta 1e-6] [--most 1000]` draws sequences of 1 to 1,000
questions from the accepted cases, each compiled at one ε. Every row has the ε of the sequence by
PLD (extra `accounting`), and by each accountant as a multiple of that. PLD takes a choice of
ε-bounded range for randomised response at ε/2, which is one: no accountant can charge less. Kinds:
Gaussian noise alone; Gaussian noise beside choices and steps; choices and steps alone. `order` is
that of the Rényi filter.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from functools import reduce
from operator import add

import numpy as np

from benchmarks.common import table
from dpsql import accountants
from dpsql.accountants.reports import pld
from dpsql.accountants.zcdp import Zcdp
from dpsql.model.errors import Refused
from dpsql.model.vocabulary import (
    ApproximateEvent,
    BoundedRangeEvent,
    Event,
    Loss,
    Mechanism,
    NoiseEvent,
)
from grammar_tests import casefile
from grammar_tests.bound import shop
from grammar_tests.laws import BUDGET, compiled

EPSILON = Fraction(1, 20)
COUNTS = (1, 10, 50, 200, 1000)
GAUSSIAN, MIXED, PURE = "Gaussian", "mixed", "pure"


def kind_of(event: Event) -> str | None:
    """Return the kind of an event; None if it has a δ of its own or no part."""
    gaussian = [
        isinstance(part, NoiseEvent) and part.noise.mechanism is Mechanism.DISCRETE_GAUSSIAN
        for part in event.parts
    ]
    if not gaussian or Zcdp().loss(event).delta:
        return None
    return GAUSSIAN if all(gaussian) else MIXED if any(gaussian) else PURE


def pure_parts(event: Event) -> Event:
    """Return the choices and steps of an event, which are ε-DP."""
    kinds = BoundedRangeEvent | ApproximateEvent
    return Event(tuple(part for part in event.parts if isinstance(part, kinds)))


def least_of(event: Event) -> Event:
    """Return an event that may be this one: choices as randomised response at ε/2."""
    return Event(
        tuple(
            ApproximateEvent(part.epsilon / 2, rounds=part.rounds)
            if isinstance(part, BoundedRangeEvent)
            else part
            for part in event.parts
        )
    )


def case_events() -> dict[str, list[Event]]:
    """Return the events of the accepted cases by kind."""
    policy, engine = shop()
    budget = replace(BUDGET, accountant="tight")
    events: dict[str, list[Event]] = {GAUSSIAN: [], MIXED: [], PURE: []}
    cases = [case for case in casefile.all_cases() if case.accepted and "aggregates/" in case.id]
    for case in cases:
        dialect = case.setting("dialect", "duckdb")
        try:
            plan = compiled(
                case.sql, policy, engine, dialect=dialect, budget=budget, epsilon=EPSILON
            ).plan
        except Refused:
            continue
        kind = None if plan is None else kind_of(plan.event)
        if plan is None or kind is None:
            continue
        events[kind].append(plan.event)
        if kind == MIXED:
            events[PURE].append(pure_parts(plan.event))
    return events


def rows(delta: Fraction, most: int) -> Iterator[tuple[str, ...]]:
    """Yield a row for each kind and length of sequence."""
    draws = np.random.default_rng(36)
    for kind, events in case_events().items():
        for count in (n for n in COUNTS if n <= most):
            chosen = [events[int(n)] for n in draws.integers(len(events), size=count)]
            least = pld([least_of(event) for event in chosen], delta)
            tight = accountants.get_for("tight", Decimal(least), Decimal(float(delta)))
            shares = []
            for each in (tight, accountants.get("zcdp")):
                loss = reduce(add, map(each.loss, chosen), Loss(0))
                shares.append(f"{each.epsilon(loss, delta) / least:.3f}")
            order = tight.name.removeprefix("tight-")
            yield kind, str(len(events)), str(count), f"{least:.3f}", *shares, order


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--delta", default="1e-6")
    parser.add_argument("--most", type=int, default=COUNTS[-1])
    given = parser.parse_args()
    names = ("kind", "cases", "questions", "ε by PLD", "tight", "zcdp", "order")
    table(f"ε over PLD, δ = {given.delta}", names, list(rows(Fraction(given.delta), given.most)))


if __name__ == "__main__":
    main()
