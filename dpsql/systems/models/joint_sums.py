"""Sums by entries that are one vector: what one unit moves of it together, and one noise for that.

A text of ours gives each row a vector of whole numbers, an entry each, of a known norm; it is
compiled as any other. What the compiler would pay for each entry is replaced by what a unit moves
of all of them. Where the most rows of a unit are proved, no total is clipped; elsewhere each unit's
vector is scaled to what so many rows as the policy counts could be.

Proof (PRIVACY.md R82, R88). A unit of m rows moves the sum by m norms of a row, by the triangle
inequality; one whose vector is scaled by no more than it is scaled to (R73).
"""

from __future__ import annotations

from fractions import Fraction

from dpsql import accountants
from dpsql.compiler.aggregates.recipe import unlimited
from dpsql.compiler.plan.measurement_kinds import ClippedSum, Measurement, ScaledTotal
from dpsql.compiler.plan.prepared import Prepared
from dpsql.compiler.plan.private_plan import BlockPlan, Payment
from dpsql.compiler.plan.published_keys import ListedKeys
from dpsql.compiler.rewrite.dialect import Dialect
from dpsql.mechanisms import standard_deviation
from dpsql.model.algebra import Evaluated
from dpsql.model.dataclass import dataclass, replace
from dpsql.model.errors import Reason, Refused
from dpsql.model.notices import Reported
from dpsql.model.vocabulary import Event, Noise, NoiseEvent, Norm, Sensitivity
from dpsql.preparation.question import Account
from dpsql.preparation.row_sources import RowUse


@dataclass(frozen=True, slots=True)
class UnitRows:
    """How many rows of one unit count: `proved`, or as the policy says for its sums."""

    most: int
    proved: bool


@dataclass(frozen=True, slots=True)
class RowVectors:
    """What is summed of each row: so many `entries`, from `least` to `most`, of a norm no more than
    `length`; it has `parts`, in each of which one entry is not zero. Of one unit `rows` count.
    """

    entries: int
    parts: int
    least: int
    most: int
    length: int
    rows: UnitRows


def rows_of_unit(counted: Prepared, use: RowUse) -> UnitRows:
    """How many rows of one unit count in sums without groups. Raises `Refused` without a limit."""
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
    """The one block of a plan. Raises `Refused` where there is not just one."""
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
    """The same sums of whole vectors, each row of which `meets` so many public ones.

    Raises `Refused` for a plan that is not the sum by entries, as they are.
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
    counted = _as_proved if vectors.rows.proved else _scaled
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
    """What is added up, before anything is scaled."""
    return query.total if isinstance(query, ScaledTotal) else query


def _as_proved(total: Measurement, _vectors: RowVectors) -> Measurement:
    return total


def _scaled(total: Measurement, vectors: RowVectors) -> Measurement:
    """A total whose unit's vector is scaled to what so many rows could be."""
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
    """The plan with noise that is enough for all entries together, and its price, if it is run so
    many `times`: each pays an equal part of what one question may.
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


def least_noise(
    sensitivities: tuple[Sensitivity, ...], payer: Account, times: int = 1
) -> tuple[Noise, Sensitivity]:
    """The noise of one of so many equal parts of what a question may spend, and what it hides."""
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
