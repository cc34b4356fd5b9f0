"""How second moments are measured: one question, one noise, one charge. Nothing is run.

Rows are summed by a text of ours, compiled as any other: each meets a list of pairs of columns, and
adds the product of its cells in these to the entry of the cells. Every number in it is whole and
clipped to 1, in steps, by the text itself. What the compiler would pay for each entry is replaced
by what one row can do to all of them together.

Proof (PRIVACY.md R82). A row of P numbers from -1 to 1 that are not zero has a matrix of products
whose Frobenius norm is the square of its norm, P at most. A unit of m rows moves the sum by m·P;
replaced, by √2·m·P, since the inner product of sums of squares is not negative.
"""

from __future__ import annotations

from fractions import Fraction
from hashlib import sha256

from dpsql import accountants
from dpsql.compiler.aggregates.recipe import unlimited
from dpsql.compiler.plan.measurement_kinds import ClippedSum, Measurement, ScaledTotal
from dpsql.compiler.plan.prepared import Prepared
from dpsql.compiler.plan.private_plan import BlockPlan, Payment
from dpsql.compiler.plan.published_keys import ListedKeys
from dpsql.compiler.rewrite.dialect import Dialect
from dpsql.engines import Stop
from dpsql.learning.model_inputs import STEPS, Input, input_of
from dpsql.learning.moment_layout import PRODUCT, SQUARE, Layout, layout_of
from dpsql.mechanisms import margin, standard_deviation
from dpsql.model.algebra import Evaluated
from dpsql.model.dataclass import dataclass, replace
from dpsql.model.errors import Reason, Refused
from dpsql.model.notices import Reported
from dpsql.model.tree import identifier
from dpsql.model.vocabulary import (
    Event,
    Neighbours,
    Noise,
    NoiseEvent,
    Norm,
    Request,
    Sensitivity,
)
from dpsql.preparation.compilation import Compiler
from dpsql.preparation.engine_kinds import dialects
from dpsql.preparation.question import Account, Cost, Question, account
from dpsql.preparation.row_sources import RowUse, column_facts, rows_of

MOST_COLUMNS = 60
"""Columns of a model: there is a row for each pair of them."""

ONE = STEPS**2
"""A product of 1 and 1, in steps."""

_USE = RowUse("second moments", "learning_rows", MOST_COLUMNS)
_QUESTION = "second moments 1"


@dataclass(frozen=True, slots=True)
class MomentsWish:
    """Second moments of a table, by its name, or of a SELECT; rows count in which the columns
    `never_null` are not. The owner reads `text` in the ledger, if that is another.
    """

    request: Request
    never_null: tuple[str, ...] = ()
    text: str = ""


@dataclass(frozen=True, slots=True)
class MomentsPlan:
    """What is measured and charged; of one unit at most so many `rows` count."""

    request: Request
    payer: Account
    rows: str
    layout: Layout
    prepared: Prepared
    cost: Cost
    most_rows: int
    text: str = ""

    @property
    def noise(self) -> Noise:
        """That of every entry, in steps."""
        return self.prepared.blocks[0].releases[0].noise

    @property
    def margin_of_rows(self) -> float:
        """Half the width of the interval at 95 % of how many rows there are."""
        return margin(self.noise) / (SQUARE * ONE)

    @property
    def summary(self) -> str:
        """What is measured, in a sentence."""
        return (
            f"Second moments of {len(self.layout.columns)} columns as one vector of"
            f" {self.layout.entries:,} entries, which any model of them is computed of."
        )


def planned(compiler: Compiler, wish: MomentsWish, stop: Stop) -> MomentsPlan:
    """The plan of a wish. Raises `Refused` for what cannot be summed so, or not at this epsilon."""
    if wish.request.parameters:
        why = "models are of a text without parameters"
        raise Refused(Reason.BAD_PARAMETER, why=why, fix="Write their values into the text.")
    try:
        return _planned(compiler, wish, stop)
    except Refused as refused:  # its place is in a text of ours
        raise Refused(refused.reason, **refused.facts) from None


def _planned(compiler: Compiler, wish: MomentsWish, stop: Stop) -> MomentsPlan:
    request = compiler.on_grid(wish.request)
    payer = account(compiler.policy, request.analyst, request.epsilon)
    rows = rows_of(compiler.policy, request.sql)
    columns = _inputs(compiler, replace(request, sql=rows), payer, stop)
    missing = [c.name for c in columns if c.nullable and c.name.lower() in wish.never_null]
    if missing:
        there = " AND ".join(f"{identifier(name)} IS NOT NULL" for name in missing)
        rows = f"SELECT * {_USE.source(rows)} WHERE {there}"
        columns = _inputs(compiler, replace(request, sql=rows), payer, stop)
    layout = layout_of(columns)
    most = compiler.policy.limits.max_public_groups
    if layout.entries > most:
        raise Refused(Reason.TOO_LARGE, what="products of columns' cells", limit=most)

    def prepared(sql: str) -> Prepared:
        return compiler.prepared(Question(replace(request, sql=sql), payer, stop))

    counted = prepared(f"SELECT COUNT(*) AS n {_USE.source(rows)}")
    most_rows = _rows_of_unit(counted)
    summed = prepared(_text(layout, rows))
    _require_sums(summed, layout, most_rows)
    neighbours = compiler.policy.unit.neighbours
    dialect = dialects(compiler.policy.database).database
    paid = _paid(_by_row(summed, dialect), layout, most_rows, payer, neighbours)
    assert paid.plan is not None
    words = _QUESTION, paid.question, str(most_rows)
    identity = sha256("\n".join(words).encode()).hexdigest()
    return MomentsPlan(
        request=request,
        payer=payer,
        rows=rows,
        layout=layout,
        prepared=paid,
        cost=Cost(identity, paid.plan.event, paid.plan.loss),
        most_rows=most_rows,
        text=wish.text,
    )


def _inputs(compiler: Compiler, request: Request, payer: Account, stop: Stop) -> tuple[Input, ...]:
    facts = column_facts(compiler, request, payer, _USE, stop)
    return tuple(input_of(name, each) for name, each in facts)


# --- the text --------------------------------------------------------------------------------


def _text(layout: Layout, rows: str) -> str:
    """The sum of products by entry, each clipped in steps."""
    coded, numbers = ["0 AS f0"], dict[int, str]()
    for place, column in enumerate(layout.columns, 1):
        coded.append(f"{column.code} AS f{place}")
        if column.number is not None:
            coded.append(f"{column.number} AS v{place}")
            numbers[place] = f"v{place}"
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
        f"FROM (SELECT {', '.join(coded)} {_USE.source(rows)}) AS r\n"
        f"CROSS JOIN (VALUES {listed}) AS p(one, other, base, width, weight)\n"
        f"WHERE {there}) AS products GROUP BY entry"
    )


def _chosen(place: str, texts: dict[int, str], otherwise: str) -> str:
    if not texts:
        return otherwise
    branches = " ".join(f"WHEN {n} THEN {text}" for n, text in texts.items())
    return f"CASE {place} {branches} ELSE {otherwise} END"


# --- what is proved of it --------------------------------------------------------------------


def _rows_of_unit(counted: Prepared) -> int:
    """The proved most rows of one unit. Raises `Refused` where there is no such proof."""
    block = _block(counted).block
    if block.several:
        raise _USE.refusal("second moments of rows that belong to several people")
    if block.max_rows is None:
        raise Refused(
            Reason.UNBOUNDED_CONTRIBUTION,
            limit="max_rows_per_unit",
            fix="A clip of sums would not do here: keep so many rows of each in the text, as by"
            " QUALIFY ROW_NUMBER() OVER (PARTITION BY …) <= 5; or ask the owner to record how many"
            " there are, with dpsql check.",
        )
    return block.max_rows


def _block(prepared: Prepared) -> BlockPlan:
    """The one block of a plan. Raises `Refused` where there is not just one."""
    plan = prepared.plan
    if any(isinstance(notice, Reported) for notice in prepared.notices):
        raise _USE.refusal("second moments of what people reported")
    if plan is None:
        raise _USE.refusal("second moments of public tables")
    stages = [stage for stage in plan.stages if not isinstance(stage, Evaluated)]
    if len(plan.blocks) != 1 or stages:
        raise _USE.of_released
    return plan.blocks[0]


def _require_sums(prepared: Prepared, layout: Layout, most_rows: int) -> None:
    """Refuse a plan that is not the sum of products by entries, as they are."""
    block = _block(prepared)
    if prepared.polls:
        raise unlimited(block.block.span)
    entries = {(n,) for n in range(layout.entries)}
    listed = isinstance(block.keys, ListedKeys) and entries <= set(block.domain or ())
    most, totals = PRODUCT * ONE, [_total(query) for query in block.queries]
    match totals:
        case [ClippedSum(condition=None, centre=0) as total] if total.lattice.step == 1:
            whole = total.lower <= -most and most <= total.upper
        case _:
            whole = False
    met = block.block.max_rows == most_rows * len(layout.pairs)
    if not (listed and whole and met) or block.histograms:
        raise _USE.refusal("second moments of which one sum is several")


def _total(query: Measurement) -> Measurement:
    """What is added up, before anything is scaled."""
    return query.total if isinstance(query, ScaledTotal) else query


def _by_row(prepared: Prepared, dialect: Dialect) -> Prepared:
    """The same sums with no clip of what a unit adds to one entry: the proof is of each row.

    Every row is clipped by the text, and there are no more of a unit than are proved.
    """
    assert prepared.plan is not None
    block = _block(prepared)
    releases = tuple(replace(each, query=_total(each.query)) for each in block.releases)
    block = replace(block, releases=releases, row_level=True, enforce_l0=False, norms=(), totals=())
    rewritten = replace(prepared.rewritten, blocks=(dialect.block(block),))
    plan = replace(prepared.plan, blocks=(block,))
    return replace(prepared, plan=plan, rewritten=rewritten, wider=(), wide=None)


# --- the price -------------------------------------------------------------------------------


def sensitivities(
    columns: int, pairs: int, entries: int, rows: int, neighbours: Neighbours
) -> tuple[Sensitivity, Sensitivity]:
    """What a unit of so many rows can change, as one length, and entry by entry.

    >>> both = sensitivities(3, 6, 6, 1, Neighbours.ADD_REMOVE)
    >>> [round(s.l2_squared**0.5 / (SQUARE * ONE), 2) for s in both]  # 3 by proof
    [3.0, 3.46]
    """
    length, most = rows * SQUARE * columns * ONE, rows * PRODUCT * ONE
    together = Sensitivity(min(rows * pairs, entries), 0, length, neighbours, norm=Norm.L2)
    return together, Sensitivity(min(pairs, entries), -most, most, neighbours)


def _paid(
    prepared: Prepared, layout: Layout, most_rows: int, payer: Account, neighbours: Neighbours
) -> Prepared:
    """The plan with noise that is enough for all entries together, and its price."""
    epsilon, delta = Fraction(payer.epsilon), Fraction(payer.budget.query_delta)
    accountant = accountants.preferring(payer.budget, None, epsilon)
    allowance = accountant.allowance(epsilon, delta, selects_keys=False)
    if not allowance.amount:
        raise Refused(Reason.BAD_OPTION, option="epsilon", why="it is too small to spend")
    sizes = len(layout.sizes), len(layout.pairs), layout.entries
    noise, sensitivity = min(
        (
            (accountant.noise(allowance.amount, allowance.noise_delta, each), each)
            for each in sensitivities(*sizes, most_rows, neighbours)
        ),
        key=lambda both: standard_deviation(both[0]),
    )
    plan, block = prepared.plan, _block(prepared)
    assert plan is not None
    (release,) = block.releases
    payment = Payment(noise, sensitivity, (release.field.id,))
    block = replace(block, releases=(replace(release, payment=payment),))
    event = Event((NoiseEvent(noise, sensitivity),))
    loss = accountants.price(accountant.loss(event), payer.budget)
    return replace(prepared, plan=replace(plan, blocks=(block,), event=event, loss=loss))
