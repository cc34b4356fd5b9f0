"""How a choice is made: its mechanism, its rate, and what it costs.

A unit has rows in at most L0 groups and at most `rows` of them in each. Each group is one choice of
ε-bounded range, or ε-DP for permute-and-flip, so all groups together are L0 adaptive ones. Under
REPLACE a unit's rows go and another's come, in the worst case in the same groups: the range
doubles, which also covers 2·L0 groups swayed once, since 2·L0·ε² <= L0·(2ε)².

Proof (PRIVACY.md R47, R48, R49, R53). The spread is that of a row times the rows of a unit, twice
where it is replaced, and the loss that of as many adaptive rounds as a unit has groups.
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
from dpsql.model.tree import Ref
from dpsql.model.vocabulary import ApproximateEvent, BoundedRangeEvent, EventPart, Neighbours

CONFIDENCE = 0.95


def columns_of(
    queries: Iterable[ChoiceQuery], columns: dict[ChoiceQuery, Field], identities: Identities
) -> tuple[Ref, ...]:
    """The columns of the choices, each made once: those not yet in `columns` come there."""
    fields = []
    for query in queries:
        if query not in columns:
            columns[query] = identities.field("choice", part_type(query.histogram.grid.lattice))
        fields.append(columns[query])
    return tuple(field.ref for field in fields)


@dataclass(frozen=True, slots=True)
class Payer:
    """Who pays for a block, and what one unit's change means there: it is in `l0` groups."""

    accountant: Accountant
    neighbours: Neighbours
    l0: int

    @property
    def rounds(self) -> int:
        """In how many groups a unit sways a choice; none is for nothing, even of no group."""
        return max(1, self.l0)


def choice(field: Field, query: ChoiceQuery, amount: Fraction, payer: Payer) -> Choice:
    """The choice that spends at most `amount`, by the mechanism that may use the larger ε.

    At equal ε permute-and-flip is never worse (McKenna and Sheldon 2020), but composes by ε alone.
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
    """The root mean square of how many rows from the rank asked for is what is chosen.

    Where rows are many, the rank of the choice has Laplace's law: its candidates fall off by
    exp(-rate·per_row) for every row between them and the rank asked for.
    """
    epsilon = float(max(_epsilons(amount, payer)))
    return sqrt(2) * _spread(query, payer) / (epsilon * query.aim.per_row) if epsilon else inf


def _epsilons(amount: Fraction, payer: Payer) -> tuple[Fraction, Fraction]:
    """The ε of one group by the exponential mechanism, and by permute-and-flip."""
    rounds = payer.rounds
    return payer.accountant.choice(amount, rounds), payer.accountant.step(amount) / rounds


def _spread(query: ChoiceQuery, payer: Payer) -> int:
    """The most by which one unit changes the difference of two scores in a group."""
    twice = 2 if payer.neighbours is Neighbours.REPLACE else 1
    return twice * query.histogram.rows * query.aim.spread


def _scan(field: Field, query: ChoiceQuery, aim: Reached, amount: Fraction, payer: Payer) -> Choice:
    """Sparse vector, an ε-DP step in each group: see `mechanisms.sparse_vector`."""
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
    """The loss of a choice in all groups."""
    if chosen.scan is not None:
        return ApproximateEvent(chosen.epsilon, rounds=chosen.rounds)
    if chosen.flips:
        return ApproximateEvent(chosen.epsilon * chosen.rounds)
    return BoundedRangeEvent(chosen.epsilon, chosen.rounds)


def rank_error(chosen: Choice) -> float:
    """How many rows from the rank asked for the choice is at most, in 95 % of all cases.

    A candidate is x or more behind the best with probability at most cells·exp(-rate·x) (McSherry
    and Talwar 2007, Theorem 6), whatever the data. A scan passes over a cell that twice
    as many rows reach as it looks for, or takes one that none reach, no more often.
    """
    if isinstance(chosen.aim, Reached):
        return float(chosen.aim.rows)
    return _behind(chosen.query, chosen.rate) / chosen.aim.per_row


def _behind(query: ChoiceQuery, rate: Fraction) -> float:
    aim = query.aim
    candidates = aim.options if isinstance(aim, Peak) else query.histogram.grid.cells
    return log(candidates / (1 - CONFIDENCE)) / float(rate)


def _within_reach(query: ChoiceQuery, rate: Fraction) -> Aim:
    """The rank to ask for: an extreme one so far from the end that the choice rarely passes it."""
    match query.aim:
        case Rank() as aim if aim.is_extreme:
            rows = max(1, ceil(_behind(query, rate) / aim.per_row))
            return aim.at(rows)
        case Peak() as aim:
            return replace(aim, rows=max(1, ceil(_behind(query, rate))))
        case Rank() | Most() | Reached():
            return query.aim
