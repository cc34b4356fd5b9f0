"""Measurements of disjoint rows: `x = 'a'` and `x = 'b'` cannot both be true of a row.

Where no unit has more rows than are counted, its rows are spread over such measurements. Together
they change by no more than one of them could: one charge pays for all (parallel composition within
a unit). A pivot table costs what its COUNT alone costs.

Proof (PRIVACY.md R34). A unit's contribution to all of them in a group is a mean of vectors with
all of its rows in one measurement. A norm is convex, so its norm is at most the largest norm of
these.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable
from dataclasses import replace
from typing import TypeGuard, assert_never

from dpsql.compiler.calibrate.measurements import Measurements, PartColumn
from dpsql.compiler.plan import measurement_kinds as kinds
from dpsql.compiler.resolve.typing import type_of
from dpsql.model.comparisons import against_constant
from dpsql.model.tree import Expression, Kind, Value
from dpsql.model.walk import conjuncts

_EXACT = frozenset({Kind.INTEGER, Kind.VARCHAR, Kind.BOOLEAN, Kind.DATE})
"""Types for which different constants never equal the same value."""


def pooled(measurements: Measurements, rows: int) -> Measurements:
    """Return the same measurements, with those of disjoint rows adjacent and in one charge.

    Two measurements are disjoint if their conditions differ in one equality with different
    constants. No unit has more than `rows` rows in a group.
    """
    sides = [
        _sides(together[0].part, rows) if len(together) == 1 else {}
        for together in measurements.paid
    ]
    first: dict[Hashable, dict[Value, int]] = defaultdict(dict)
    for place, constants in enumerate(sides):
        for side, constant in constants.items():
            first[side].setdefault(constant, place)
    groups: dict[Hashable, list[PartColumn]] = defaultdict(list)
    for place, together in enumerate(measurements.paid):
        own = [side for side, c in sides[place].items() if first[side][c] == place]
        groups[max(own, key=lambda side: len(first[side]), default=place)] += together
    return replace(measurements, paid=tuple(map(tuple, groups.values())))


def _sides(part: kinds.Measurement, rows: int) -> dict[Hashable, Value]:
    """Return, for each equality in the condition, the measurement without it, and its constant."""
    if part.condition is None or not divisible(part, rows):
        return {}
    conditions = conjuncts(part.condition)
    constants: dict[Hashable, Value] = {}
    for equality in conditions:
        constant = compared(equality)
        if constant is not None:
            others = frozenset(c for c in conditions if c != equality)
            side = (replace(part, condition=None), others, constant[0])
            constants.setdefault(side, constant[1])
    return constants


def divisible(part: kinds.Measurement, rows: int) -> TypeGuard[kinds.AdditiveTotal]:
    """Test whether measurements of disjoint rows like this one are together bounded as one of all
    rows.

    They are not where a unit's total is clipped below the bound of its rows, or away from zero, as
    an analyst's own bounds may do. Then several clipped totals could exceed the single bound.
    """
    match part:
        case kinds.RowCount():
            row = 1
        case kinds.ClippedSum():
            row = max(abs(part.lower - part.centre), abs(part.upper - part.centre))
        case (
            kinds.UnitCount()
            | kinds.ScaledTotal()
            | kinds.DistinctCount()
            | kinds.DistinctSum()
            | kinds.BlockAverage()
            | kinds.RowTest()
            | kinds.StableMean()
        ):
            return False
        case _:
            assert_never(part)
    narrow = max(abs(part.total_lower), abs(part.total_upper)) < rows * row
    raised = not part.total_lower <= 0 <= part.total_upper
    return not (narrow or raised)


def compared(condition: Expression) -> tuple[Expression, Value] | None:
    """Return the expression and constant of an equality; None for other conditions."""
    match against_constant(condition):
        case ("eq", side, constant) if type_of(side).kind is constant.type.kind:
            return (side, constant.value) if constant.type.kind in _EXACT else None
        case _:
            return None
