"""Plan of gradient descent: one statement runs once per step, under one charge.

Each row is coded as in moments, with one cell of each column. Its score is the sum of the weights
of its cells, and its multiplier h the derivative of the loss. The engine computes h in floating
point, rounds it, and clips it. A row adds h times the content of a cell to the entry of that cell.
It adds a constant to the last entry, which counts rows.

The weights are released numbers in a list of constants. The statement is compiled once, with the
smallest and largest possible weights next to them, and printed for each step.

Proof (PRIVACY.md R88). h, the cells, and the largest h of a row are whole numbers. A test in whole
numbers shows that h·‖x‖ is at most the bound for that largest h.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from itertools import chain
from math import isqrt, sqrt

import numpy as np

from dpsql.compiler.plan.prepared import Prepared
from dpsql.compiler.rewrite.dialect import Dialect
from dpsql.engines import Stop
from dpsql.mechanisms import margin, standard_deviation
from dpsql.model.algebra import Relation, Values
from dpsql.model.dataclass import dataclass, replace
from dpsql.model.errors import Reason, Refused
from dpsql.model.notices import Notice
from dpsql.model.tree import Literal
from dpsql.model.vocabulary import Neighbours, Noise, Norm, Request, Sensitivity
from dpsql.model.walk import map_inputs
from dpsql.preparation.compilation import Compiler
from dpsql.preparation.engine_kinds import dialects
from dpsql.preparation.question import Account, Cost
from dpsql.preparation.row_sources import RowUse, clipping_of
from dpsql.systems.models.bends import BendInput, InputPart, bent, coded, has_content, parts_of
from dpsql.systems.models.descent import MOST_WEIGHT, Descent, descent, knots_of
from dpsql.systems.models.joint_sums import (
    RowVectors,
    UnitRows,
    cost_of,
    in_one_period,
    jointly,
    least_noise,
    paid,
    rows_of_unit,
)
from dpsql.systems.models.model_inputs import STEPS, Input, NumberInput
from dpsql.systems.models.model_labels import label_of, require_columns
from dpsql.systems.models.model_statement import CreateModel, ModelType
from dpsql.systems.models.moments_plan import ROWS_COLUMN, MomentsWish, learned_rows

ONE = STEPS**2
"""A multiplier of 1 times a cell of 1, in steps."""

FINE = 1 << 16
"""Number of parts of 1 in fixed-point weights."""

MOST_SUMS = 1_000_000
"""Maximum number of cells over all steps. Their sums are kept at about 150 bytes each."""

COUNTED = 8
"""A row adds this fraction of the clipping bound to the entry that counts rows."""

_USE = RowUse("gradients", "learning_rows", 60)
_QUESTION = "gradient 1"
_WEIGHTS = _NOW, _LEAST, _MOST = range(3)
"""Indices of the lists of weights: those of a step, and their lower and upper ends."""


@dataclass(frozen=True)
class CellLayout:
    """The numbered cells of a model's columns. A 1 comes first, and the count of rows last."""

    columns: tuple[Input, ...]

    @cached_property
    def parts(self) -> tuple[InputPart, ...]:
        """Parts of the columns."""
        return tuple(part for _, part in parts_of(self.columns))

    @cached_property
    def starts(self) -> tuple[int, ...]:
        """Index of each part's first cell."""
        sizes = [1, *(len(part.cells) for part in self.parts)]
        return tuple(sum(sizes[: n + 1]) for n in range(len(self.parts)))

    @cached_property
    def cells(self) -> int:
        return 1 + sum(len(part.cells) for part in self.parts)

    @cached_property
    def bends(self) -> np.ndarray:
        """Boolean array that marks the cells that are hats."""
        parts = ([isinstance(part, BendInput)] * len(part.cells) for part in self.parts)
        return np.array([False, *chain.from_iterable(parts)])

    @property
    def longest(self) -> float:
        """Upper bound on the norm of a row."""
        return sqrt(1 + len(self.columns))


@dataclass(frozen=True, slots=True)
class GradientPlan:
    """The measurement of each step, and the charge for all steps."""

    request: Request
    payer: Account
    rows: str
    columns: tuple[Input, ...]
    label: int
    layout: CellLayout
    descent: Descent
    vectors: RowVectors
    prepared: Prepared
    cost: Cost
    dialect: Dialect
    text: str = ""
    notices: tuple[Notice, ...] = ()

    @property
    def knots(self) -> int:
        """Largest number of knots of a numeric column."""
        columns = (c for c in self.layout.columns if isinstance(c, NumberInput))
        return max((len(column.knots) for column in columns), default=0)

    @property
    def noise(self) -> Noise:
        """Noise of each entry of a step, in lattice steps."""
        return self.prepared.blocks[0].releases[0].noise

    @property
    def deviation(self) -> float:
        """Standard deviation of the noise, in units of multipliers times cells."""
        return standard_deviation(self.noise) / ONE

    @property
    def counted(self) -> float:
        """Contribution of a row to the entry that counts rows."""
        return counted(self.descent) / ONE

    def deviation_of_rows(self, steps: int) -> float:
        """Return the standard deviation of the noisy number of rows after this number of steps."""
        return self.deviation / (self.counted * sqrt(steps))

    @property
    def margin_of_rows(self) -> float:
        """Half width of the 95 % confidence interval of the number of rows after all steps."""
        steps = self.descent.steps
        return margin(self.noise) / (counted(self.descent) * sqrt(steps))

    @property
    def summary(self) -> str:
        """One sentence that describes the measurement."""
        steps, of = self.descent.steps, len(self.layout.columns)
        knots = f", numbers between {self.knots} knots" if self.layout.bends.any() else ""
        return (
            f"{steps} gradients of {of} columns{knots}, each one vector of"
            f" {self.vectors.entries:,} entries, of which a row is clipped to"
            f" {self.descent.clip:.3g}."
        )

    def step(self, weights: np.ndarray) -> Prepared:
        """Return the statement of a step with these weights."""
        whole = np.round(np.clip(weights, -MOST_WEIGHT, MOST_WEIGHT) * FINE).astype(int).tolist()

        def with_weights(relation: Relation) -> Relation:
            if isinstance(relation, Values) and _is_weights(relation, self.layout):
                return replace(relation, rows=(_row(relation, whole), *relation.rows[1:]))
            return map_inputs(relation, with_weights)

        plan = self.prepared.plan
        assert plan is not None
        planned = plan.blocks[0]
        block = replace(planned.block, rows=with_weights(planned.block.rows))
        if block.weighed is not None:
            weighed = replace(block.weighed, rows=with_weights(block.weighed.rows))
            block = replace(block, weighed=weighed)
        planned = replace(planned, block=block)
        rewritten = replace(self.prepared.rewritten, blocks=(self.dialect.block(planned),))
        return replace(self.prepared, plan=replace(plan, blocks=(planned,)), rewritten=rewritten)


def _is_weights(listed: Values, layout: CellLayout) -> bool:
    """Test whether a list of constants is the list of weights."""
    ends = [[literal.value for literal in row] for row in listed.rows[1:]]
    return ends == [
        [which, *[end] * layout.cells]
        for which, end in ((_LEAST, -MOST_WEIGHT * FINE), (_MOST, MOST_WEIGHT * FINE))
    ]


def _row(listed: Values, weights: Sequence[int]) -> tuple[Literal, ...]:
    """Return the first row of a list of weights, with new weights."""
    values = (_NOW, *weights)
    return tuple(replace(old, value=v) for old, v in zip(listed.rows[0], values, strict=True))


def planned(compiler: Compiler, wish: MomentsWish, said: CreateModel, stop: Stop) -> GradientPlan:
    """Plan a model by gradients. Raises `Refused` if this is impossible or ε is too small."""
    try:
        return _planned(compiler, wish, said, stop)
    except Refused as refused:  # its place is in a text of ours
        raise Refused(refused.reason, **refused.facts) from None


def _planned(compiler: Compiler, wish: MomentsWish, said: CreateModel, stop: Stop) -> GradientPlan:
    learned = learned_rows(compiler, wish, _USE, stop)
    require_columns(learned.columns, said)
    label, _ = label_of(learned.columns, said)
    layout = _layout(learned.columns, label, said)
    limit = compiler.policy.limits.max_public_groups
    if layout.cells >= limit:
        raise Refused(Reason.TOO_LARGE, what="cells of columns", limit=limit)
    payer, rows, prepared = learned.payer, learned.rows, learned.prepared
    counted_rows = prepared(f"SELECT COUNT(*) AS n {_USE.source(rows)}")
    most = rows_of_unit(counted_rows, _USE)
    knots = said.knots or knots_of(said.type, layout.longest, _whole_noise(layout, most, payer))
    layout = CellLayout(bent(layout.columns, knots))
    way = descent(said.descent, layout.longest, _whole_noise(layout, most, payer))
    vectors = _vectors(layout, way, most)
    text = _text(layout, learned.columns[label], said.type, way, rows)
    dialect = dialects(compiler.policy.database).database
    meets = len(_WEIGHTS) * (len(layout.parts) + 2)
    summed = jointly(prepared(text), vectors, meets, dialect, _USE)
    claim = sensitivity(vectors, compiler.policy.unit.neighbours)
    measured = paid(summed, (claim,), payer, _USE, way.steps)
    return GradientPlan(
        request=learned.request,
        payer=in_one_period(measured, payer, _USE),
        rows=rows,
        columns=learned.columns,
        label=label,
        layout=layout,
        descent=way,
        vectors=vectors,
        prepared=measured,
        cost=cost_of(measured, _QUESTION, str(most), str(way)),
        dialect=dialect,
        text=wish.text,
        notices=clipping_of(counted_rows, ROWS_COLUMN),
    )


def _vectors(layout: CellLayout, way: Descent, rows: UnitRows) -> RowVectors:
    """Return the bounds on the vectors that rows add at each step.

    A longest row with the largest multiplier adds `most` to the entry of the 1. Raises `Refused` if
    there are too many cells.
    """
    if layout.cells * way.steps > MOST_SUMS:
        raise Refused(Reason.TOO_LARGE, what="cells of columns in all steps", limit=MOST_SUMS)
    most = (int(min(way.clip / layout.longest, 1) * STEPS) - 1) * STEPS
    length = length_of(way)
    return RowVectors(layout.cells + 1, 0, least=-most, most=most, length=length, rows=rows)


def _whole_noise(layout: CellLayout, rows: UnitRows, payer: Account) -> float:
    """Return the standard deviation of one unclipped gradient that spends the whole price."""
    length = rows.most * (1 + int(layout.longest * ONE))
    claim = Sensitivity(layout.cells + 1, -length, length, norm=Norm.L2)
    return standard_deviation(least_noise((claim,), payer)[0]) / ONE


def _layout(columns: Sequence[Input], label: int, said: CreateModel) -> CellLayout:
    """Return the cells of the explanatory columns."""
    names = {name.lower() for name in said.features}
    explaining = (
        column
        for n, column in enumerate(columns)
        if n != label and (not names or column.name.lower() in names)
    )
    return CellLayout(tuple(explaining))


# --- the price -------------------------------------------------------------------------------


def bound_of(way: Descent) -> int:
    """Return the upper bound on h·‖x‖ of a row, in steps of both."""
    return int(way.clip * ONE)


def counted(way: Descent) -> int:
    """Return the contribution of a row to the entry that counts rows."""
    return bound_of(way) // COUNTED


def length_of(way: Descent) -> int:
    """Return the Euclidean norm, in steps and rounded up, of a row's contribution to all entries,
    the row count among them.
    """
    return 1 + isqrt(bound_of(way) ** 2 + counted(way) ** 2 - 1)


def sensitivity(vectors: RowVectors, neighbours: Neighbours) -> Sensitivity:
    """Return the sensitivity of one step to a privacy unit.

    >>> from dpsql.systems.models.joint_sums import UnitRows
    >>> own = {"entries": 9, "parts": 0, "least": -5, "most": 5, "length": 5}
    >>> vectors = RowVectors(rows=UnitRows(3, proved=True), **own)
    >>> sensitivity(vectors, Neighbours.ADD_REMOVE).l2_squared
    225
    >>> sensitivity(vectors, Neighbours.REPLACE).l2_squared
    900
    """
    length = vectors.rows.most * vectors.length
    return Sensitivity(vectors.entries, -length, length, neighbours, norm=Norm.L2)


# --- the text --------------------------------------------------------------------------------


def _text(layout: CellLayout, label: Input, kind: ModelType, way: Descent, rows: str) -> str:
    """Return SQL for the sums of all entries, in four levels: cells, score, multiplier, entries."""
    places = range(1, len(layout.parts) + 1)
    contents = [
        f"v{n}" if has_content(part) else str(STEPS) for n, part in enumerate(layout.parts, 1)
    ]
    last, carried = len(layout.parts) + 1, _carried(layout)
    rows = coded(layout.columns, [f"{label.code} AS l0", f"{label.number} AS y"], _USE.source(rows))
    entries = " ".join(f"WHEN {n} THEN {layout.starts[n - 1]} + f{n}" for n in places)
    parts = " ".join(f"WHEN {n} THEN {content}" for n, content in enumerate(contents, 1))
    squares = " + ".join([str(ONE), *(f"{content} * {content}" for content in contents)])
    there = " AND ".join(f"{name} IS NOT NULL" for name in ("l0", *(f"f{n}" for n in places)))
    names = ", ".join(["which", *(f"w{n}" for n in range(layout.cells))])
    weights = ", ".join(
        f"({', '.join([str(which), *[str(end)] * layout.cells])})"
        for which, end in ((_NOW, 0), (_LEAST, -MOST_WEIGHT * FINE), (_MOST, MOST_WEIGHT * FINE))
    )
    entry = f"CASE p.part WHEN 0 THEN 0 {entries} ELSE {layout.cells} END"
    product = f"CASE p.part WHEN 0 THEN {STEPS} {parts} ELSE 0 END"
    listed = ", ".join(f"({n})" for n in range(last + 1))
    return (
        f"SELECT entry, SUM(LEAST(GREATEST(product, -{ONE}), {ONE})) AS total FROM (\n"
        f"SELECT LEAST({entry}, {layout.cells}) AS entry,"
        f" h * {product} + CASE WHEN p.part = {last} THEN {counted(way)} ELSE 0 END AS product\n"
        f"FROM (SELECT {carried}, LEAST(GREATEST(h, -m), m) AS h\n"
        f"FROM (SELECT {carried}, {_multiplier(kind, way.inputs)} AS h,"
        f" CASE WHEN m * m * q <= {bound_of(way) ** 2} THEN m ELSE 0 END AS m\n"
        f"FROM (SELECT {carried}, y, q, z, {_largest(way.clip)} AS m\n"
        f"FROM (SELECT {carried}, y, {squares} AS q,"
        f" CAST({_score(layout, contents)} AS DOUBLE) * {1 / (STEPS * FINE)!r} AS z\n"
        f"FROM ({rows}) AS r\n"
        f"CROSS JOIN (VALUES {weights}) AS w({names})\n"
        f"WHERE w.which = {_NOW} AND {there}) AS scored) AS bounded) AS off) AS every\n"
        f"CROSS JOIN (VALUES {listed}) AS p(part)) AS products GROUP BY entry"
    )


def _carried(layout: CellLayout) -> str:
    """Return the column names of cells and contents, as an SQL list."""
    contents = (f"v{n}" for n, part in enumerate(layout.parts, 1) if has_content(part))
    return ", ".join([*(f"f{n}" for n in range(1, len(layout.parts) + 1)), *contents])


def _score(layout: CellLayout, contents: Sequence[str]) -> str:
    """Return the SQL expression for a row's score: the sum of its weights, in steps of both."""
    scores = [f"w.w0 * {STEPS}"]
    for n, (part, start) in enumerate(zip(layout.parts, layout.starts, strict=True), 1):
        cells = " ".join(f"WHEN {c} THEN w.w{start + c}" for c in range(len(part.cells)))
        scores.append(f"(CASE f{n} {cells} ELSE 0 END) * {contents[n - 1]}")
    return " + ".join(scores)


def _largest(clip: float) -> str:
    """Return the SQL expression for the largest multiplier of a row, rounded down slightly."""
    return f"CAST(FLOOR({clip * ONE * (1 - 2**-30)!r} / SQRT(CAST(q AS DOUBLE))) AS BIGINT)"


def _multiplier(kind: ModelType, inputs: float | None) -> str:
    """Return the SQL expression for the multiplier of a row, in steps.

    If rows are clipped to the norm `inputs`, the row counts in proportion to its shrinkage.
    """
    part = "1e0" if inputs is None else f"LEAST(1e0, {inputs * STEPS!r} / SQRT(CAST(q AS DOUBLE)))"
    if kind is ModelType.LOGISTIC:
        score = f"LEAST(GREATEST(z * {part}, -30e0), 30e0)"
        off = f"1e0 / (1e0 + EXP(-({score}))) - CASE WHEN y > 0 THEN 1e0 ELSE 0e0 END"
    else:
        off = f"LEAST(GREATEST(z * {part}, -2e0), 2e0) - CAST(y AS DOUBLE) * {1 / STEPS!r}"
    return f"CAST(TRUNC(({off}) * {part} * {STEPS}e0) AS BIGINT)"
