"""Sums by entries that form one vector: a joint sensitivity, and one noise for all entries.

A generated text gives each row an integer vector of known norm, one entry per output row. It is
compiled as any other text. Then the price per entry is replaced by the sensitivity of the whole
vector. If a bound on the rows of a unit is proved, no total is clipped. Otherwise the vector of
each unit is scaled to the norm of the allowed number of rows.

Proof (PRIVACY.md R82, R88). By the triangle inequality, a unit of m rows changes the sum by at most
m norms of a row. A scaled unit changes it by at most the bound of the scaling (R73).
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
from dpsql.compiler.resolve.person_periods import several_periods
from dpsql.compiler.rewrite.dialect import Dialect
from dpsql.mechanisms import standard_deviation
from dpsql.model.algebra import Evaluated
from dpsql.model.dataclass import dataclass, replace
from dpsql.model.errors import Reason, Refused
from dpsql.model.row_notices import Reported
from dpsql.model.tree import NOWHERE
from dpsql.model.vocabulary import Event, Noise, NoiseEvent, Norm, Sensitivity
from dpsql.preparation.question import Account, Cost
from dpsql.preparation.row_sources import RowUse


@dataclass(frozen=True, slots=True)
class UnitRows:
    """Bound on the rows of one unit: `proved`, or the contribution bound of the policy."""

    most: int
    proved: bool


@dataclass(frozen=True, slots=True)
class RowVectors:
    """Bounds on the summed vectors of rows.

    A vector has `entries` entries between `least` and `most`, and a norm of at most `length`. It
    has `parts`, each with one nonzero entry. `rows` bounds the rows of one unit.
    """

    entries: int
    parts: int
    least: int
    most: int
    length: int
    rows: UnitRows


def rows_of_unit(counted: Prepared, use: RowUse) -> UnitRows:
    """Return the bound on the rows of a unit in ungrouped sums. Raises `Refused` if there is
    none.
    """
    block = only_block(counted, use)
    if block.block.several:
        raise use.refusal(f"{use.words} of rows that belong to several people")
    if block.block.max_rows is not None:
        return UnitRows(block.block.max_rows, proved=True)
    if counted.polls or block.rows_per_group.value is None:
        raise Refused(
            Reason.UNBOUNDED_CONTRIBUTION,
            limit="max_rows_per_unit",
            fix="Keep so many rows of each in the text, as by QUALIFY ROW_NUMBER() OVER"
            " (PARTITION BY …) <= 5; or ask the owner for max_rows_per_group, or to record how many"
            " there are, with dpsql check.",
        )
    return UnitRows(block.rows_per_group.value, proved=False)


def only_block(prepared: Prepared, use: RowUse) -> BlockPlan:
    """Return the only block of a plan. Raises `Refused` if there is not exactly one."""
    plan = prepared.plan
    if any(isinstance(notice, Reported) for notice in prepared.notices):
        raise use.refusal(f"{use.words} of what people reported")
    if plan is None:
        raise use.refusal(f"{use.words} of public tables")
    stages = [stage for stage in plan.stages if not isinstance(stage, Evaluated)]
    if len(plan.blocks) != 1 or stages:
        raise use.of_released
    return plan.blocks[0]


def jointly(
    prepared: Prepared, vectors: RowVectors, meets: int, dialect: Dialect, use: RowUse
) -> Prepared:
    """Return the sums as one vector sum. Each row `meets` this number of public rows in a join.

    Raises `Refused` unless the plan is exactly the expected sum by entries.
    """
    block = only_block(prepared, use)
    if prepared.polls:
        raise unlimited(block.block.span)
    entries = {(n,) for n in range(vectors.entries)}
    listed = isinstance(block.keys, ListedKeys) and entries <= set(block.domain or ())
    totals = [_total(query) for query in block.queries]
    match totals:
        case [ClippedSum(condition=None, centre=0) as total] if total.lattice.step == 1:
            whole = total.lower <= vectors.least and vectors.most <= total.upper
        case _:
            whole = False
    rows = block.block.max_rows
    met = rows == vectors.rows.most * meets if vectors.rows.proved else rows is None
    if not (listed and whole and met) or block.histograms:
        raise use.refusal(f"{use.words} of which one sum is several")
    counted = _scaled if not vectors.rows.proved else lambda total, _vectors: total
    releases = tuple(replace(r, query=counted(_total(r.query), vectors)) for r in block.releases)
    block = replace(
        block,
        releases=releases,
        row_level=vectors.rows.proved,
        enforce_l0=False,
        norms=(),
        totals=(),
    )
    assert prepared.plan is not None
    rewritten = replace(prepared.rewritten, blocks=(dialect.block(block),))
    plan = replace(prepared.plan, blocks=(block,))
    return replace(prepared, plan=plan, rewritten=rewritten, wider=(), wide=None)


def _total(query: Measurement) -> Measurement:
    """Return the unscaled total of a measurement."""
    return query.total if isinstance(query, ScaledTotal) else query


def _scaled(total: Measurement, vectors: RowVectors) -> Measurement:
    """Return a total with each unit's vector scaled to the bound of the allowed rows."""
    assert isinstance(total, ClippedSum)
    bound = vectors.rows.most * vectors.length
    total = replace(total, total_lower=-bound, total_upper=bound)
    return ScaledTotal(total=total, norm=Norm.L2, bound=bound, digits=0)


def paid(
    prepared: Prepared,
    sensitivities: tuple[Sensitivity, ...],
    payer: Account,
    use: RowUse,
    times: int = 1,
) -> Prepared:
    """Return the plan with noise for all entries together, and its price over `times` runs.

    Each run spends an equal part of the budget of one query.
    """
    noise, sensitivity = least_noise(sensitivities, payer, times)
    block = only_block(prepared, use)
    (release,) = block.releases
    payment = Payment(noise, sensitivity, (release.field.id,))
    block = replace(block, releases=(replace(release, payment=payment),))
    event = Event((NoiseEvent(noise, sensitivity),) * times)
    accountant = accountants.preferring(payer.budget, None, Fraction(payer.epsilon))
    loss = accountants.price(accountant.loss(event), payer.budget)
    assert prepared.plan is not None
    return replace(prepared, plan=replace(prepared.plan, blocks=(block,), event=event, loss=loss))


def in_one_period(measured: Prepared, payer: Account, use: RowUse) -> Account:
    """Return the payer in the period of people that a measurement reads. Raises `Refused`.

    In one period people are the units, so that every claim about a person's rows holds (PRIVACY.md
    R103). Over several a model would count a person once for each.
    """
    charged = measured.charged
    if charged is not None and len(charged.names) > 1:
        raise several_periods(use.words, NOWHERE)
    return payer if charged is None else replace(payer, periods=charged)


def cost_of(measured: Prepared, question: str, *words: str) -> Cost:
    """Return the cost of a measurement, with its identity, now and before 0.2."""
    assert measured.plan is not None
    identity, earlier = (
        sha256("\n".join((question, each, *words)).encode()).hexdigest()
        for each in (measured.question, measured.earlier)
    )
    return Cost(identity, measured.plan.event, measured.plan.loss, (earlier,))


def least_noise(
    sensitivities: tuple[Sensitivity, ...], payer: Account, times: int = 1
) -> tuple[Noise, Sensitivity]:
    """Return the least noise for 1 / `times` of a query's budget, and its sensitivity."""
    epsilon, delta = Fraction(payer.epsilon), Fraction(payer.budget.query_delta)
    accountant = accountants.preferring(payer.budget, None, epsilon)
    allowance = accountant.allowance(epsilon, delta, selects_keys=False)
    share = allowance.share(Fraction(1, times))
    if not share.amount:
        raise Refused(Reason.BAD_OPTION, option="epsilon", why="it is too small to spend")
    return min(
        ((accountant.noise(share.amount, share.noise_delta, each), each) for each in sensitivities),
        key=lambda both: standard_deviation(both[0]),
    )
