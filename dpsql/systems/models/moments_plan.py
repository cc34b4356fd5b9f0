"""Plan of second moments: one statement, one noise, one charge. Nothing is run.

A generated text sums the rows and is compiled as any other text. Each row is joined with a list of
pairs of columns, and adds the product of its cells to their entry. The text itself clips every
number to 1, in whole steps (see `joint_sums`).

Proof (PRIVACY.md R82). Let a row have P nonzero numbers from -1 to 1. The Frobenius norm of its
matrix of products is its squared norm, at most P. Adding or removing a unit of m rows changes the
sum by at most m·P. Replacing it changes the sum by at most √2·m·P, since the inner product of sums
of squares is not negative.
"""

from __future__ import annotations

from collections.abc import Callable

from dpsql.compiler.plan.prepared import Prepared
from dpsql.engines import Stop
from dpsql.mechanisms import margin
from dpsql.model.dataclass import dataclass, replace
from dpsql.model.errors import Reason, Refused
from dpsql.model.notices import Notice
from dpsql.model.tree import identifier
from dpsql.model.vocabulary import (
    Neighbours,
    Noise,
    Norm,
    Request,
    Sensitivity,
)
from dpsql.preparation.compilation import Compiler
from dpsql.preparation.engine_kinds import dialects
from dpsql.preparation.question import Account, Cost, Question, account
from dpsql.preparation.row_sources import RowUse, clipping_of, column_facts, rows_of
from dpsql.systems.models.bends import KNOTS, bent, coded, has_content
from dpsql.systems.models.joint_sums import (
    RowVectors,
    UnitRows,
    cost_of,
    in_one_period,
    jointly,
    paid,
    rows_of_unit,
)
from dpsql.systems.models.model_inputs import STEPS, Input, input_of
from dpsql.systems.models.moment_layout import MOST_CELLS, PRODUCT, SQUARE, Layout, layout_of

ROWS_COLUMN = 1
"""Index of the column with the number of rows in the answer of CREATE MODEL."""
MOST_COLUMNS = 60
"""Maximum number of columns of a model. Each pair of them makes a row."""

ONE = STEPS**2
"""The product of 1 and 1, in steps."""

_USE = RowUse("second moments", "learning_rows", MOST_COLUMNS)
_QUESTION = "second moments 1"


@dataclass(frozen=True, slots=True)
class MomentsWish:
    """Second moments of a table or of a SELECT.

    Only rows without NULL in the columns `never_null` count. `text` is the text for the ledger if
    it differs. Numeric columns have `knots` knots.
    """

    request: Request
    never_null: tuple[str, ...] = ()
    text: str = ""
    knots: int = KNOTS[0]


@dataclass(frozen=True, slots=True)
class MomentsPlan:
    """The plan of a measurement: `vectors` bounds the summed vectors of the rows of a SELECT."""

    request: Request
    payer: Account
    rows: str
    layout: Layout
    prepared: Prepared
    cost: Cost
    vectors: RowVectors
    text: str = ""
    notices: tuple[Notice, ...] = ()

    @property
    def noise(self) -> Noise:
        """Noise of every entry, in steps."""
        return self.prepared.blocks[0].releases[0].noise

    @property
    def margin_of_rows(self) -> float:
        """Half width of the 95 % confidence interval of the number of rows."""
        return margin(self.noise) / (SQUARE * ONE)

    @property
    def summary(self) -> str:
        """One sentence that describes the measurement."""
        return (
            f"Second moments of {len(self.layout.columns)} columns as one vector of"
            f" {self.layout.entries:,} entries, which any model of them is computed of."
        )


@dataclass(frozen=True, slots=True)
class LearnedRows:
    """The SELECT `rows` of a model, its columns as numbers, and the account that pays."""

    request: Request
    payer: Account
    rows: str
    columns: tuple[Input, ...]
    prepared: Callable[[str], Prepared]


def learned_rows(compiler: Compiler, wish: MomentsWish, use: RowUse, stop: Stop) -> LearnedRows:
    """Return the rows of a wish. Raises `Refused` if no model can be made from them."""
    if wish.request.parameters:
        why = "models are of a text without parameters"
        raise Refused(Reason.BAD_PARAMETER, why=why, fix="Write their values into the text.")
    request = compiler.on_grid(wish.request)
    payer = account(compiler.policy, request.analyst, request.epsilon, chain=request.chain)
    rows = rows_of(compiler.policy, request)

    def inputs(rows: str) -> tuple[Input, ...]:
        facts = column_facts(compiler, replace(request, sql=rows), payer, use, stop)
        return tuple(input_of(name, each) for name, each in facts)

    def prepared(sql: str) -> Prepared:
        return compiler.prepared(Question(replace(request, sql=sql), payer, stop))

    columns = inputs(rows)
    missing = [c.name for c in columns if c.nullable and c.name.lower() in wish.never_null]
    if missing:
        there = " AND ".join(f"{identifier(name)} IS NOT NULL" for name in missing)
        rows = f"SELECT * {use.source(rows)} WHERE {there}"
        columns = inputs(rows)
    return LearnedRows(request, payer, rows, columns, prepared)


def planned(compiler: Compiler, wish: MomentsWish, stop: Stop) -> MomentsPlan:
    """Plan the second moments of a wish. Raises `Refused` if impossible or if ε is too small."""
    try:
        return _planned(compiler, wish, stop)
    except Refused as refused:  # its place is in a text of ours
        raise Refused(refused.reason, **refused.facts) from None


def _planned(compiler: Compiler, wish: MomentsWish, stop: Stop) -> MomentsPlan:
    learned = learned_rows(compiler, wish, _USE, stop)
    rows, prepared = learned.rows, learned.prepared
    layout = layout_of(bent(learned.columns, wish.knots))
    limit = compiler.policy.limits.max_public_groups
    if sum(layout.sizes) > MOST_CELLS:
        raise Refused(Reason.TOO_LARGE, what="cells of columns", limit=MOST_CELLS)
    if layout.entries > limit:
        raise Refused(Reason.TOO_LARGE, what="products of columns' cells", limit=limit)
    counted_rows = prepared(f"SELECT COUNT(*) AS n {_USE.source(rows)}")
    most = rows_of_unit(counted_rows, _USE)
    vectors = vectors_of(layout, most)
    dialect = dialects(compiler.policy.database).database
    summed = jointly(prepared(_text(layout, rows)), vectors, len(layout.pairs), dialect, _USE)
    claims = sensitivities(vectors, compiler.policy.unit.neighbours)
    measured = paid(summed, claims, learned.payer, _USE)
    return MomentsPlan(
        request=learned.request,
        payer=in_one_period(measured, learned.payer, _USE),
        rows=rows,
        layout=layout,
        prepared=measured,
        cost=cost_of(measured, _QUESTION, str(most)),
        vectors=vectors,
        text=wish.text,
        notices=clipping_of(counted_rows, ROWS_COLUMN),
    )


# --- the text --------------------------------------------------------------------------------


def _text(layout: Layout, rows: str) -> str:
    """Return SQL for the sums of products by entry, each clipped in steps."""
    rows = coded(layout.columns, ["0 AS f0"], _USE.source(rows))
    numbers = {n: f"v{n}" for n, (_, part) in enumerate(layout.parts, 1) if has_content(part)}
    there = " AND ".join(f"f{n} IS NOT NULL" for n in range(len(layout.sizes)))
    codes = {n: f"f{n}" for n in range(len(layout.sizes))}
    entry = f"p.base + p.width * {_chosen('p.one', codes, '0')} + {_chosen('p.other', codes, '0')}"
    product = " * ".join(
        ("p.weight", *(_chosen(f"p.{side}", numbers, str(STEPS)) for side in ("one", "other")))
    )
    listed = ", ".join(
        f"({p.one}, {p.other}, {p.base}, {p.width}, {p.weight})" for p in layout.pairs
    )
    most = PRODUCT * ONE
    return (
        f"SELECT entry, SUM(LEAST(GREATEST(product, -{most}), {most})) AS total FROM (\n"
        f"SELECT LEAST({entry}, {layout.entries - 1}) AS entry, {product} AS product\n"
        f"FROM ({rows}) AS r\n"
        f"CROSS JOIN (VALUES {listed}) AS p(one, other, base, width, weight)\n"
        f"WHERE {there}) AS products GROUP BY entry"
    )


def _chosen(place: str, texts: dict[int, str], otherwise: str) -> str:
    if not texts:
        return otherwise
    branches = " ".join(f"WHEN {n} THEN {text}" for n, text in texts.items())
    return f"CASE {place} {branches} ELSE {otherwise} END"


# --- the price -------------------------------------------------------------------------------


def vectors_of(layout: Layout, rows: UnitRows) -> RowVectors:
    """Return the bounds on the vectors that rows add to the entries."""
    length = SQUARE * layout.squared_norm * ONE
    lowest = min(part.least for _, part in layout.parts)
    least = lowest * STEPS * (PRODUCT if lowest < 0 else SQUARE)
    return RowVectors(
        entries=layout.entries,
        parts=len(layout.pairs),
        least=least,
        most=PRODUCT * ONE,
        length=length,
        rows=rows,
    )


def sensitivities(vectors: RowVectors, neighbours: Neighbours) -> tuple[Sensitivity, ...]:
    """Return the sensitivities to one unit: as one vector, and by entry if its rows are proved.

    >>> own = {"entries": 6, "parts": 6, "least": -PRODUCT * ONE, "most": PRODUCT * ONE}
    >>> vectors = RowVectors(rows=UnitRows(1, proved=True), length=3 * SQUARE * ONE, **own)
    >>> both = sensitivities(vectors, Neighbours.ADD_REMOVE)
    >>> [round(s.l2_squared**0.5 / (SQUARE * ONE), 2) for s in both]  # 3 by proof
    [3.0, 3.46]
    """
    rows, parts, entries = vectors.rows.most, vectors.parts, vectors.entries
    length, most = rows * vectors.length, rows * vectors.most
    if not vectors.rows.proved:
        return (Sensitivity(entries, -length, length, neighbours, norm=Norm.L2),)
    together = Sensitivity(min(rows * parts, entries), 0, length, neighbours, norm=Norm.L2)
    return together, Sensitivity(min(parts, entries), -most, most, neighbours)
