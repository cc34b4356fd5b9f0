"""Polls as one query: noisy histograms from which clipping bounds are read.

Polls that are released together have separate noise: PRIVACY.md R71.

Proof (PRIVACY.md R91). A poll is about the totals of a block over the same rows of the same units.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import isqrt

from dpsql.compiler.errors.outputs import by_row
from dpsql.compiler.plan.measurement_kinds import MeanVote, RangeVote, RatioVote, Vote
from dpsql.compiler.plan.private_plan import BlockPlan, Bounded, BoundedBlock, Poll, PrivatePlan
from dpsql.compiler.resolve.scopes import Identities
from dpsql.model.algebra import Item, Limit, Project, Relation, Released, Sort, Staged, Union
from dpsql.model.tree import INTEGER, Literal, Ref
from dpsql.model.walk import composed, map_inputs, refs, relations


def polled(
    needed: Sequence[Poll],
    keys: Sequence[str],
    stages: Sequence[Relation],
    identities: Identities,
) -> Bounded:
    """Return several polls as one query: noisy counts of units per bin, with the place of each
    poll.
    """
    by_key = {poll.key: poll for poll in needed}
    polls = [by_key[key] for key in keys]
    rows = [relation for poll in polls for relation in relations(poll.block.rows)]
    read = sorted({relation.stage for relation in rows if isinstance(relation, Staged)})

    def renumbered(relation: Relation) -> Relation:
        if isinstance(relation, Staged):
            return replace(relation, stage=read.index(relation.stage))
        return map_inputs(relation, renumbered)

    votes = [_votes(place, poll, identities) for place, poll in enumerate(polls)]
    blocks = (
        BoundedBlock(
            replace(poll.block, rows=renumbered(poll.block.rows)),
            ((),),
            tuple((place,) for place in places(poll)),
            1,
        )
        for poll in polls
    )
    outer, *others = votes
    for vote in others:
        fields = tuple(identities.field(f.name, f.type) for f in outer.fields)
        outer = Union("UNION", True, outer, vote, fields)
    return Bounded(outer, tuple(blocks), tuple(stages[stage] for stage in read))


def about_blocks(polls: PrivatePlan, question: PrivatePlan) -> PrivatePlan:
    """Record in the polls' plan the blocks that they are about."""

    def knowing(plan: BlockPlan) -> BlockPlan:
        whose = (plan.block.rows, plan.block.unit)
        blocks = (each for each in question.blocks if (each.block.rows, each.block.unit) == whose)
        return replace(plan, answering=next(blocks, None))

    return replace(polls, blocks=tuple(map(knowing, polls.blocks)))


def of_shown(polls: Sequence[Sequence[Poll]], bounded: Bounded) -> tuple[Poll, ...]:
    """Return the polls of every block; for a query's k largest groups, clipping there counts less.

    The clipped amount is largest in the largest groups: it counts as if spread over √(k·d). Means
    and ratios of all blocks come first.
    """
    largest = _largest_shown(bounded)

    def groups(number: int, poll: Poll) -> int:
        return isqrt(min(largest.get(number, poll.groups), poll.groups) * poll.groups)

    each = ((number, poll) for number, of_block in enumerate(polls) for poll in of_block)
    shown = tuple(
        replace(poll, groups=groups(number, poll), of_all=poll.groups) for number, poll in each
    )
    return tuple(poll for poll in shown if poll.first) or shown


def _largest_shown(bounded: Bounded) -> Mapping[int, int]:
    """Return how many groups a query shows, by block, if it shows those of the largest measures."""
    outer = bounded.outer
    while isinstance(outer, Project):
        outer = outer.input
    match outer:
        case Limit(limit=int(limit), offset=0, input=Sort(keys=(first, *_)) as ordered):
            pass
        case _:
            return {}
    order = composed(first.expression, by_row(ordered.input))
    read = refs(order) if order is not None and first.descending else frozenset[int]()
    tables = [r for r in relations(ordered) if isinstance(r, Released)]
    noisy = ((r.block, r.fields[len(r.fields) - len(r.measures) :]) for r in tables)
    return {block: limit for block, fields in noisy if read & {f.id for f in fields}}


def _votes(place: int, poll: Poll, identities: Identities) -> Relation:
    """Return the rows of a poll: its place, the bin, and the count of units."""
    block = poll.block
    fields = (block.keys[0].field, block.measures[0].field)
    columns = tuple(identities.field(f.name, f.type) for f in fields)
    number = Item(identities.field("poll", INTEGER), Literal(place, INTEGER))
    items = (Item(identities.field(f.name, f.type), Ref(f.id, f.type)) for f in columns)
    return Project(Released(place, columns, (0,)), (number, *items))


def places(poll: Poll) -> range:
    """Return the bins of a poll: octaves of norms, or places of means between edges."""
    match poll.block.vote:
        case Vote(bins=bins) | RangeVote(bins=bins):
            return bins.places
        case MeanVote(edges=edges) | RatioVote(edges=edges):
            return range(len(edges) + 1)
        case None:
            raise AssertionError(poll)
