"""Recognises ORDER BY aggregate DESC LIMIT k where nothing but the keys is asked.

Then the keys may be chosen one after another instead of every group being released with noise:
a unit in many groups sways a choice by one contribution, and a release by all of them. The way
with the smaller error is taken (`dpsql.mechanisms.top`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from dpsql.accountants import Accountant, Allowance
from dpsql.algebra import Limit, Project, Relation, Released, Sort
from dpsql.compiler.key_selection import as_released
from dpsql.mechanisms.top import error_of_noise, top
from dpsql.plan import BlockPlan, Contribution
from dpsql.tree import Cast, Expression, Ref, SortKey
from dpsql.walk import composed, refs, relations

NOT_NEEDED = "no limit is needed: a unit sways a choice by one group's contribution"


@dataclass(frozen=True, slots=True)
class _Asked:
    """The `count` first keys of `block`, ordered by its only measurement."""

    block: int
    count: int
    lowest: bool


def with_top(
    blocks: tuple[BlockPlan, ...],
    queries: Sequence[Relation],
    paid: Sequence[Sequence[Allowance]],
    accountant: Accountant,
) -> tuple[tuple[BlockPlan, ...], list[Relation]]:
    """The blocks; one whose first keys alone are asked chooses them, if that errs less.

    `queries` are the outer query and the stages, `paid` what the charges of each block may spend.
    With the blocks come the queries over the columns that they then release.
    """
    asked = _asked(queries[0])
    read = [r.block for query in queries for r in relations(query) if isinstance(r, Released)]
    if asked is not None and read.count(asked.block) == 1:
        chosen = _chosen(blocks[asked.block], asked, paid[asked.block], accountant)
        blocks = tuple(chosen if n == asked.block else block for n, block in enumerate(blocks))
    return blocks, [as_released(query, blocks) for query in queries]


def _chosen(
    block: BlockPlan, asked: _Asked, paid: Sequence[Allowance], accountant: Accountant
) -> BlockPlan:
    if block.domain is None or len(block.releases) != 1 or block.choices:
        return block
    if not asked.count < len(block.domain):
        return block
    (scored,), (allowance,) = block.releases, paid
    keys = len(block.domain)
    unlimited = replace(scored.sensitivity, l0=keys)
    epsilon = accountant.choice(allowance.amount, asked.count)
    if not epsilon:
        return block
    found = top(asked.count, keys, unlimited, epsilon, lowest=asked.lowest)
    if found.error >= error_of_noise(scored.noise, keys):
        return block
    return replace(
        block,
        releases=(),
        unreleased=(scored.query,),
        top=found,
        otherwise=error_of_noise(scored.noise, keys),
        groups=Contribution(keys, NOT_NEEDED),
        enforce_l0=False,
    )


def _asked(query: Relation) -> _Asked | None:
    """What a query asks for, None where it is not the keys of its first groups alone."""
    outputs: list[Expression] = [Ref(f.id, f.type) for f in query.fields]
    while isinstance(query, Project):
        shorter = _composed(outputs, query)
        if shorter is None:
            return None
        outputs, query = shorter, query.input
    if not (isinstance(query, Limit) and query.limit and not query.offset):
        return None
    limit, query = query.limit, query.input
    if not isinstance(query, Sort):
        return None
    keys, query = query.keys, query.input
    while isinstance(query, Project):
        shorter = _composed([*outputs, *(k.expression for k in keys)], query)
        if shorter is None:
            return None
        outputs, orders = shorter[: len(outputs)], shorter[len(outputs) :]
        keys = tuple(replace(k, expression=e) for k, e in zip(keys, orders, strict=True))
        query = query.input
    return _by_measure(query, outputs, keys, limit) if isinstance(query, Released) else None


def _composed(expressions: Sequence[Expression], project: Project) -> list[Expression] | None:
    """The expressions over what the projection reads; None where they grow too large."""
    known = {item.field.id: item.expression for item in project.items}
    found = [composed(expression, known) for expression in expressions]
    return [e for e in found if e is not None] if None not in found else None


def _by_measure(
    released: Released, outputs: list[Expression], order: tuple[SortKey, ...], limit: int
) -> _Asked | None:
    """Ordered by the last column, the measurement, and then by keys; keys are shown only."""
    measured = released.fields[-1].id
    first, *others = order
    score = first.expression
    while isinstance(score, Cast) and score.type.is_numeric:
        score = score.arg
    read = [*outputs, *(key.expression for key in others)]
    if not (isinstance(score, Ref) and score.id == measured):
        return None
    if any(measured in refs(expression) for expression in read):
        return None
    return _Asked(released.block, limit, not first.descending)
