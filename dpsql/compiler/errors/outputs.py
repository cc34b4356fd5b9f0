"""Output columns as formulas over the measurements, by which the budget is split."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import isclose, isnan, nan

from dpsql.compiler.aggregates.formulas import evaluate
from dpsql.compiler.resolve.scopes import is_stated
from dpsql.model.algebra import Field, Filter, Join, Limit, Project, Relation, Released, Sort
from dpsql.model.dataclass import dataclass, replace
from dpsql.model.tree import DOUBLE, Expression, Literal
from dpsql.model.walk import composed, map_children, refs, relations, substitute

EXACT = Literal(None, DOUBLE)
"""Error of a value that no noise reaches."""


@dataclass(frozen=True, slots=True)
class Propagated:
    """A query with its hidden columns, its outputs and their errors.

    The intervals of outputs that a limit clips have two `halves`, by their places.
    """

    relation: Relation
    outputs: tuple[Expression, ...]
    errors: tuple[Expression, ...]
    halves: Mapping[int, tuple[Expression, Expression]]

    @property
    def columns(self) -> tuple[Expression, ...]:
        """Return all computed columns: outputs, errors, and halves of intervals."""
        halves = (half for pair in self.halves.values() for half in pair)
        return (*self.outputs, *self.errors, *halves)


@dataclass(frozen=True, slots=True)
class Apart:
    """Additional outputs of a block besides the columns of its query.

    These are the measures at `places`, which no column reads directly (they order, filter or are
    aggregated again), and `deciding` counts. They weigh as much as any other output. Where a count
    decides about more than is shown, the other outputs weigh `times` as much.
    """

    places: tuple[int, ...] = ()
    deciding: tuple[Expression, ...] = ()
    times: int = 1

    def of(self, measures: Sequence[Expression]) -> list[Expression]:
        """Return the outputs for these measures."""
        more = (self.times - 1) * [*measures] if self.deciding else []
        return [*(measures[place] for place in self.places), *self.deciding, *more]

    def counted_by(self, formulas: Mapping[int, Expression]) -> Apart:
        """Return the same outputs, with the columns in `deciding` replaced by their formulas."""
        return replace(self, deciding=tuple(substitute(d, formulas) for d in self.deciding))


NOTHING_APART = Apart()


def apart(
    outputs: Sequence[Expression], measures: Sequence[Expression], deciding: Sequence[Field]
) -> Apart:
    """Return the additional outputs besides `outputs`; no output is counted twice."""
    read = frozenset[int]().union(*map(refs, outputs))
    unread = [n for n, measure in enumerate(measures) if not refs(measure) <= read]
    there = [*outputs, *(measures[n] for n in unread)]
    counts = [field.ref for field in deciding]
    return Apart(tuple(unread), tuple(count for count in counts if count not in there))


def shown(outer: Relation, parts: Sequence[Sequence[Field]]) -> list[Expression]:
    """List the output columns that noise reaches, over the columns `parts` of each block."""
    meaning = by_row(outer)
    columns = _columns(outer, parts)
    outputs = [
        _without_errors(substitute(meaning[f.id], columns))
        for f in outer.fields
        if f.id in meaning and f.type.is_measured
    ]
    noisy = {field.id for block in parts for field in block}
    return [output for output in outputs if refs(output) & noisy]


def _without_errors(expression: Expression) -> Expression:
    """Replace each stated error in the expression by a number: errors have no noise."""
    if is_stated(expression):
        return Literal(1.0, DOUBLE)
    return map_children(expression, _without_errors)


def by_row(relation: Relation) -> Mapping[int, Expression]:
    """Return each column as a formula over released tables, as far as it is computed row by row."""
    match relation:
        case Released():
            return {f.id: f.ref for f in relation.fields}
        case Project():
            below = by_row(relation.input)
            formulas = {i.field.id: composed(i.expression, below) for i in relation.items}
            return {n: formula for n, formula in formulas.items() if formula is not None}
        case Filter() | Sort() | Limit():
            return by_row(relation.input)
        case Join():
            return {**by_row(relation.left), **by_row(relation.right)}
        case _:
            return {}


def is_by_row(outer: Relation) -> bool:
    """Test whether a query over one released table computes each of its numbers from one row."""
    match outer:
        case Released():
            return True
        case Project() | Filter() | Sort() | Limit():
            return is_by_row(outer.input)
        case _:
            return False


def _columns(outer: Relation, parts: Sequence[Sequence[Field]]) -> dict[int, Expression]:
    """Map the columns of released tables, wherever they are read, to their measurements."""
    columns: dict[int, Expression] = {}
    for relation in relations(outer):
        if isinstance(relation, Released):
            measured = {field.id: field for field in parts[relation.block]}
            here = {f.id: measured[c] for c, f in relation.reads.items() if c in measured}
            columns |= {read: column.ref for read, column in here.items()}
    return columns


def steady(
    relation: Relation, errors: Sequence[Expression], far: float = 0.0
) -> tuple[float | None, ...]:
    """Return the error of each output before release: None if exact, NaN if it depends on the data.

    An error over released values is a constant of the plan if it is equal for different values, all
    `far` from the thresholds of private keys.
    """
    meaning = by_row(relation)
    columns = {f.id for r in relations(relation) if isinstance(r, Released) for f in r.fields}
    points = [{n: max(1000.0, far) * (1 + k * (n % 7 + 1)) for n in columns} for k in (0, 1)]

    def constant(error: Expression) -> float | None:
        if error == EXACT:
            return None
        formula = substitute(error, meaning)
        values = [evaluate(formula, point) for point in points]
        here, there = (nan if value is None else value for value in values)
        return here if isclose(here, there, rel_tol=1e-9) else nan

    return tuple(map(constant, errors))


def near_threshold(
    query: Propagated, expected: Sequence[float | None], most: float
) -> tuple[float | None, ...]:
    """Return the largest error of each output: the expected one, or `most` times it if the error
    depends on released values near the threshold.
    """
    meaning = by_row(query.relation)
    return tuple(
        far * most if far and not isnan(far) and refs(substitute(error, meaning)) else far
        for far, error in zip(expected, query.errors, strict=True)
    )
