"""Private choices: their mechanism, rate and cost.

A unit has rows in at most L0 groups and at most `rows` of them in each. Each group is one choice of
ε-bounded range, or ε-DP for permute-and-flip, so all groups together are L0 adaptive ones. Under
REPLACE a unit's rows go and another's come, in the worst case in the same groups. So the range
doubles, which also covers 2·L0 groups influenced once, since 2·L0·ε² <= L0·(2ε)².

Proof (PRIVACY.md R47, R48, R49, R53). The spread is that of a row times the rows of a unit, twice
that under replacement. The loss is that of as many adaptive rounds as a unit has groups.
"""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction
from math import ceil, inf, log, sqrt

from dpsql.accountants import Accountant
from dpsql.compiler.aggregates.recipe import part_type
from dpsql.compiler.plan.lattices import Choice, ChoiceQuery
from dpsql.compiler.resolve.scopes import Identities
from dpsql.mechanisms.exponential import rate_down
from dpsql.mechanisms.scores import Aim, Most, Peak, Rank, Reached
from dpsql.mechanisms.sparse_vector import least_rows, scanning
from dpsql.model.algebra import Field
from dpsql.model.dataclass import dataclass, replace
from dpsql.model.notices import RankedBy
from dpsql.model.tree import Ref
from dpsql.model.vocabulary import ApproximateEvent, BoundedRangeEvent, EventPart, Neighbours

CONFIDENCE = 0.95


def columns_of(
    queries: Iterable[ChoiceQuery], columns: dict[ChoiceQuery, Field], identities: Identities
) -> tuple[Ref, ...]:
    """Return the columns of choices, each made once; new ones are added to `columns`."""
    fields = []
    for query in queries:
        if query not in columns:
            columns[query] = identities.field("choice", part_type(query.histogram.grid.lattice))
        fields.append(columns[query])
    return tuple(field.ref for field in fields)


@dataclass(frozen=True, slots=True)
class Payer:
    """The accountant and neighbours of a block, in which one unit is in at most `l0` groups."""

    accountant: Accountant
    neighbours: Neighbours
    l0: int

    @property
    def rounds(self) -> int:
        """Number of groups in which a unit influences a choice, at least 1."""
        return max(1, self.l0)


def choice(field: Field, query: ChoiceQuery, amount: Fraction, payer: Payer) -> Choice:
    """Return the choice that spends at most `amount`, by the mechanism that may use the larger ε.

    At equal ε permute-and-flip is never worse (McKenna and Sheldon 2020), but it composes by ε
    alone.
    """
    if isinstance(query.aim, Reached):
        return _scan(field, query, query.aim, amount, payer)
    ranged, stepped = _epsilons(amount, payer)
    rate = rate_down(max(ranged, stepped), _spread(query, payer))
    aim = _within_reach(query, rate)
    epsilon = rate * _spread(query, payer)
    return Choice(
        field=field,
        query=query,
        aim=aim,
        flips=stepped >= ranged,
        rate=rate,
        epsilon=epsilon,
        rounds=payer.rounds,
    )


def expected_error(query: ChoiceQuery, amount: Fraction, payer: Payer) -> float:
    """Return the root mean squared rank error of a choice, in rows.

    With many rows, the rank of the choice has a Laplace distribution: probabilities fall by
    exp(-rate·per_row) for every row between a candidate and the requested rank.
    """
    epsilon = float(max(_epsilons(amount, payer)))
    return sqrt(2) * _spread(query, payer) / (epsilon * query.aim.per_row) if epsilon else inf


def _epsilons(amount: Fraction, payer: Payer) -> tuple[Fraction, Fraction]:
    """Return the ε of one group for the exponential mechanism, and for permute-and-flip."""
    rounds = payer.rounds
    return payer.accountant.choice(amount, rounds), payer.accountant.step(amount) / rounds


def _spread(query: ChoiceQuery, payer: Payer) -> int:
    """Return the largest change of the difference of two scores in a group by one unit."""
    twice = 2 if payer.neighbours is Neighbours.REPLACE else 1
    return twice * query.histogram.rows * query.aim.spread


def _scan(field: Field, query: ChoiceQuery, aim: Reached, amount: Fraction, payer: Payer) -> Choice:
    """Return a choice by sparse vector, an ε-DP step in each group: see
    `mechanisms.sparse_vector`.
    """
    rounds = payer.rounds * (2 if payer.neighbours is Neighbours.REPLACE else 1)
    epsilon = payer.accountant.step(amount / rounds)
    law = scanning(epsilon)
    aim = replace(aim, rows=least_rows(law, query.histogram.grid.cells))
    return Choice(
        field=field,
        query=query,
        aim=aim,
        flips=False,
        rate=epsilon,
        epsilon=epsilon,
        rounds=rounds,
        scan=law,
    )


def event_of(chosen: Choice) -> EventPart:
    """Return the loss of a choice in all groups."""
    if chosen.scan is not None:
        return ApproximateEvent(chosen.epsilon, rounds=chosen.rounds)
    if chosen.flips:
        return ApproximateEvent(chosen.epsilon * chosen.rounds)
    return BoundedRangeEvent(chosen.epsilon, chosen.rounds)


def rank_error(chosen: Choice) -> float:
    """Return an upper bound, with 95 % confidence, on the rank error of the choice, in rows.

    A candidate is x or more behind the best with probability at most cells·exp(-rate·x) (McSherry
    and Talwar 2007, Theorem 6), for any data. A scan passes over a cell that twice the rows reach,
    or takes one that none reach, no more often.
    """
    if isinstance(chosen.aim, Reached):
        return float(chosen.aim.rows)
    return _behind(chosen.query, chosen.rate) / chosen.aim.per_row


def guarantee(chosen: Choice) -> tuple[RankedBy, int] | None:
    """Return what holds of a chosen value with 95 % confidence, in rows; None for a peak.

    An extreme rank is chosen as many rows from its end as its error, so twice as many may reach it.
    """
    rows = ceil(rank_error(chosen))
    match chosen.aim:
        case Rank() as aim if aim.is_extreme:
            return RankedBy.END, aim.rows + rows
        case Rank():
            return RankedBy.RANK, rows
        case Most():
            return RankedBy.ROWS, rows
        case Reached():
            return RankedBy.END, 2 * rows
        case Peak():
            return None


def _behind(query: ChoiceQuery, rate: Fraction) -> float:
    aim = query.aim
    candidates = aim.options if isinstance(aim, Peak) else query.histogram.grid.cells
    return log(candidates / (1 - CONFIDENCE)) / float(rate)


def _within_reach(query: ChoiceQuery, rate: Fraction) -> Aim:
    """Return the rank to choose: an extreme one far enough from the end that the choice rarely
    passes it.
    """
    match query.aim:
        case Rank() as aim if aim.is_extreme:
            rows = max(1, ceil(_behind(query, rate) / aim.per_row))
            return aim.at(rows)
        case Peak() as aim:
            return replace(aim, rows=max(1, ceil(_behind(query, rate))))
        case Rank() | Most() | Reached():
            return query.aim
