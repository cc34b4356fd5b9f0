"""How a gradient is measured: one statement, as often as there are steps, at one charge.

Each row is coded as in moments, one cell of each column. Its score is what the weights of its cells
add up to, its multiplier h how far the score is off: the engine computes it in floating point,
rounds it, and clips it. What the row adds to the entry of a cell is h times what the cell holds; to
the last entry a constant, so that rows are counted too.

The weights are released numbers, and stand in a list of constants: the statement is compiled once,
with the least and the largest that there can be beside them, and printed for each step.

Proof (PRIVACY.md R88). All of h, of cells, and of the largest h that a row may have are whole
numbers, and of the last it is tested in whole numbers that h·‖x‖ is no more than the bound.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from hashlib import sha256
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
"""Into so many parts 1 is divided in weights."""

MOST_SUMS = 1_000_000
"""Most cells of columns in all steps together: their sums are kept, at about 150 bytes each."""

COUNTED = 8
"""A row counts this part of the clip in the entry of rows."""

_USE = RowUse("gradients", "learning_rows", 60)
_QUESTION = "gradient 1"
_WEIGHTS = _NOW, _LEAST, _MOST = range(3)
"""Lists of weights: those of a step, and the ends between which they are."""


@dataclass(frozen=True)
class CellLayout:
    """The cells of a model's columns, numbered, a 1 before them; behind them rows are counted."""

    columns: tuple[Input, ...]

    @cached_property
    def parts(self) -> tuple[InputPart, ...]:
        """The parts of the columns."""
        return tuple(part for _, part in parts_of(self.columns))

    @cached_property
    def starts(self) -> tuple[int, ...]:
        """The number of each part's first cell."""
        sizes = [1, *(len(part.cells) for part in self.parts)]
        return tuple(sum(sizes[: n + 1]) for n in range(len(self.parts)))

    @cached_property
    def cells(self) -> int:
        return 1 + sum(len(part.cells) for part in self.parts)

    @cached_property
    def bends(self) -> np.ndarray:
        """Which cells are hats."""
        parts = ([isinstance(part, BendInput)] * len(part.cells) for part in self.parts)
        return np.array([False, *chain.from_iterable(parts)])

    @property
    def longest(self) -> float:
        """The most that the norm of a row can be."""
        return sqrt(1 + len(self.columns))


@dataclass(frozen=True, slots=True)
class GradientPlan:
    """What is measured at each step, and charged for all of them."""

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
        """The most knots that a column of numbers has."""
        columns = (c for c in self.layout.columns if isinstance(c, NumberInput))
        return max((len(column.knots) for column in columns), default=0)

    @property
    def noise(self) -> Noise:
        """That of every entry of a step, in steps of the lattice."""
        return self.prepared.blocks[0].releases[0].noise

    @property
    def deviation(self) -> float:
        """The standard deviation of that, in units of multipliers and cells."""
        return standard_deviation(self.noise) / ONE

    @property
    def counted(self) -> float:
        """What a row adds to the entry of rows."""
        return counted(self.descent) / ONE

    def deviation_of_rows(self, steps: int) -> float:
        """The standard deviation of how many rows there are, of so many steps."""
        return self.deviation / (self.counted * sqrt(steps))

    @property
    def margin_of_rows(self) -> float:
        """Half the width of the interval at 95 % of how many rows there are, of all steps."""
        steps = self.descent.steps
        return margin(self.noise) / (counted(self.descent) * sqrt(steps))

    @property
    def summary(self) -> str:
        """What is measured, in a sentence."""
        steps, of = self.descent.steps, len(self.layout.columns)
        knots = f", numbers between {self.knots} knots" if self.layout.bends.any() else ""
        return (
            f"{steps} gradients of {of} columns{knots}, each one vector of"
            f" {self.vectors.entries:,} entries, of which a row is clipped to"
            f" {self.descent.clip:.3g}."
        )

    def step(self, weights: np.ndarray) -> Prepared:
        """The statement of a step, with these weights of cells."""
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
    """Whether a list of constants is that of weights."""
    ends = [[literal.value for literal in row] for row in listed.rows[1:]]
    return ends == [
        [which, *[end] * layout.cells]
        for which, end in ((_LEAST, -MOST_WEIGHT * FINE), (_MOST, MOST_WEIGHT * FINE))
    ]


def _row(listed: Values, weights: Sequence[int]) -> tuple[Literal, ...]:
    """The first row of a list of weights, with others."""
    values = (_NOW, *weights)
    return tuple(replace(old, value=v) for old, v in zip(listed.rows[0], values, strict=True))


def planned(compiler: Compiler, wish: MomentsWish, said: CreateModel, stop: Stop) -> GradientPlan:
    """The plan of a wish. Raises `Refused` for what cannot be summed so, or not at this epsilon."""
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
    assert measured.plan is not None
    words = _QUESTION, measured.question, str(most), str(way)
    identity = sha256("\n".join(words).encode()).hexdigest()
    return GradientPlan(
        request=learned.request,
        payer=payer,
        rows=rows,
        columns=learned.columns,
        label=label,
        layout=layout,
        descent=way,
        vectors=vectors,
        prepared=measured,
        cost=Cost(identity, measured.plan.event, measured.plan.loss),
        dialect=dialect,
        text=wish.text,
        notices=clipping_of(counted_rows, ROWS_COLUMN),
    )


def _vectors(layout: CellLayout, way: Descent, rows: UnitRows) -> RowVectors:
    """What each row adds at each step: to the entry of the 1 the longest rows add `most`, if they
    are as far off as they can be. Raises `Refused` where there are too many.
    """
    if layout.cells * way.steps > MOST_SUMS:
        raise Refused(Reason.TOO_LARGE, what="cells of columns in all steps", limit=MOST_SUMS)
    most = (int(min(way.clip / layout.longest, 1) * STEPS) - 1) * STEPS
    length = length_of(way)
    return RowVectors(layout.cells + 1, 0, least=-most, most=most, length=length, rows=rows)


def _whole_noise(layout: CellLayout, rows: UnitRows, payer: Account) -> float:
    """The deviation of the noise of one gradient, not clipped, that would cost the whole price."""
    length = rows.most * (1 + int(layout.longest * ONE))
    claim = Sensitivity(layout.cells + 1, -length, length, norm=Norm.L2)
    return standard_deviation(least_noise((claim,), payer)[0]) / ONE


def _layout(columns: Sequence[Input], label: int, said: CreateModel) -> CellLayout:
    """The cells of the columns that explain the label."""
    names = {name.lower() for name in said.features}
    explaining = (
        column
        for n, column in enumerate(columns)
        if n != label and (not names or column.name.lower() in names)
    )
    return CellLayout(tuple(explaining))


# --- the price -------------------------------------------------------------------------------


def bound_of(way: Descent) -> int:
    """The most that h·‖x‖ of a row is, in steps of both."""
    return int(way.clip * ONE)


def counted(way: Descent) -> int:
    """What a row adds to the entry of rows."""
    return bound_of(way) // COUNTED


def length_of(way: Descent) -> int:
    """The norm of what a row adds to all entries, rounded up."""
    return 1 + isqrt(bound_of(way) ** 2 + counted(way) ** 2 - 1)


def sensitivity(vectors: RowVectors, neighbours: Neighbours) -> Sensitivity:
    """What a unit can change at each step.

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
    """What rows add to each entry; four levels: cells, score, multiplier, entries."""
    places = range(1, len(layout.parts) + 1)
    contents = [_content(part, n) for n, part in enumerate(layout.parts, 1)]
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


def _content(part: InputPart, place: int) -> str:
    """What the cell of a part holds, in steps."""
    return f"v{place}" if has_content(part) else str(STEPS)


def _carried(layout: CellLayout) -> str:
    """The names of cells and of what they hold."""
    contents = (f"v{n}" for n, part in enumerate(layout.parts, 1) if has_content(part))
    return ", ".join([*(f"f{n}" for n in range(1, len(layout.parts) + 1)), *contents])


def _score(layout: CellLayout, contents: Sequence[str]) -> str:
    """What the weights of a row's cells add up to, in steps of both."""
    scores = [f"w.w0 * {STEPS}"]
    for n, (part, start) in enumerate(zip(layout.parts, layout.starts, strict=True), 1):
        cells = " ".join(f"WHEN {c} THEN w.w{start + c}" for c in range(len(part.cells)))
        scores.append(f"(CASE f{n} {cells} ELSE 0 END) * {contents[n - 1]}")
    return " + ".join(scores)


def _largest(clip: float) -> str:
    """The largest multiplier of a row, about: a little less than it could be."""
    return f"CAST(FLOOR({clip * ONE * (1 - 2**-30)!r} / SQRT(CAST(q AS DOUBLE))) AS BIGINT)"


def _multiplier(kind: ModelType, inputs: float | None) -> str:
    """How far the score of a row is off, in steps; of a row that is clipped to this norm, if any,
    it counts as much less as that is shorter.
    """
    part = "1e0" if inputs is None else f"LEAST(1e0, {inputs * STEPS!r} / SQRT(CAST(q AS DOUBLE)))"
    if kind is ModelType.LOGISTIC:
        score = f"LEAST(GREATEST(z * {part}, -30e0), 30e0)"
        off = f"1e0 / (1e0 + EXP(-({score}))) - CASE WHEN y > 0 THEN 1e0 ELSE 0e0 END"
    else:
        off = f"LEAST(GREATEST(z * {part}, -2e0), 2e0) - CAST(y AS DOUBLE) * {1 / STEPS!r}"
    return f"CAST(TRUNC(({off}) * {part} * {STEPS}e0) AS BIGINT)"
