"""The aggregates inside SAMPLE_AGGREGATE: the same in every order of rows, and never failing.

A block of units is to its aggregates what one unit is to those of GROUP BY unit: its rows are
seen in an order that depends on other units' rows, and nothing computed of it may.

Proof (PRIVACY.md R18, R37). What an aggregate over a block says does not depend on the order of its
rows, and it cannot fail.
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from math import inf

from dpsql.accountants import Accountant
from dpsql.compiler.aggregates.sample import SAMPLE
from dpsql.compiler.track.per_unit import in_any_order
from dpsql.mechanisms import standard_deviation
from dpsql.model.algebra import Measure
from dpsql.model.tree import AggregateCall, Expression
from dpsql.model.vocabulary import Neighbours, Sensitivity
from dpsql.model.walk import map_children

_STEPS = 1 << 20
"""So many steps of a lattice are one."""


def noise_of_one(
    accountant: Accountant, neighbours: Neighbours, epsilon: Fraction, delta: Fraction
) -> float:
    """The standard error of a sum that a person moves by one, if it is all that a query asks."""
    allowance = accountant.allowance(epsilon, delta, selects_keys=False)
    if not allowance.amount:
        return inf
    one = Sensitivity(1, -_STEPS, _STEPS, neighbours)
    noise = accountant.noise(allowance.amount, allowance.noise_delta, one)
    return standard_deviation(noise) / _STEPS


def prepared(measure: Measure) -> Measure:
    """The measure; SAMPLE_AGGREGATE with its aggregates in their safe form, or a refusal."""
    call = measure.call
    if call.function != SAMPLE:
        return measure
    expression = _safe(call.args[0])
    return replace(measure, call=replace(call, args=(expression, *call.args[1:])))


def _safe(expression: Expression) -> Expression:
    if isinstance(expression, AggregateCall):
        return in_any_order(expression)
    return map_children(expression, _safe)
