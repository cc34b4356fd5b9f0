"""Answers that cannot be of use, known before anything is charged.

The text may leave so few units, as a key that equals a constant does, or so few may be expected
(`expected_rows`), that all they add is within the noise, or below the threshold of private keys.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import ceil, inf

from dpsql.compiler.calibrate.choices import rank_error
from dpsql.compiler.infer.column_facts import Columns, FactSource
from dpsql.compiler.plan.private_plan import BlockPlan, PrivateBlock, PrivatePlan, least
from dpsql.mechanisms import margin, standard_deviation
from dpsql.model.algebra import Field, Join, Relation, Scan, Union
from dpsql.model.notices import Drowned, NeverShown
from dpsql.model.tree import JoinKind
from dpsql.model.vocabulary import Policy
from dpsql.model.walk import relations


def useless(
    plan: PrivatePlan, origin: FactSource, policy: Policy
) -> Iterator[Drowned | NeverShown]:
    """Why no part of the answer can be of use; nothing where some part can, or may be."""
    reasons = [_reason(block, origin, policy) for block in plan.blocks]
    if reasons and all(reason is not None for reason in reasons):
        yield from (reason for reason in reasons[:1] if reason is not None)


def _reason(plan: BlockPlan, origin: FactSource, policy: Policy) -> Drowned | NeverShown | None:
    most, units = _most_units(plan.block, origin, policy), policy.unit.table
    if most is None:
        return None
    private = plan.domain is None and bool(plan.block.keys)
    if private and least_shown(plan) > most:
        return NeverShown(units, most, least_shown(plan))
    noise = list(_noise_in_units(plan))
    if noise and min(noise) >= most:
        return Drowned(units, most, min(noise))
    return None


def _noise_in_units(plan: BlockPlan) -> Iterator[float]:
    """How many units change each number by as much as its margin at 95 %."""
    for release in plan.releases:
        query = release.query
        width = (query.total_upper - query.total_lower) * query.lattice.step
        yield margin(release.noise) * float(query.released.step / width) if width else inf
    for choice in plan.choices:
        yield rank_error(choice) / choice.query.histogram.rows
    for tree in plan.trees:
        yield tree.error * margin(tree.noise) / standard_deviation(tree.noise) / tree.histogram.rows


def _most_units(block: PrivateBlock, origin: FactSource, policy: Policy) -> int | None:
    """How many units the text leaves: as many as the values of a key in every row, or as many as
    rows are expected; None: any number.
    """
    rows = Columns(block.rows, origin)
    domains, expected = [rows.facts(block.unit).domain], [policy.unit.table]
    parts = tuple(relations(block.rows))
    if not any(isinstance(p, Union) or (isinstance(p, Join) and _pads(p)) for p in parts):
        domains += [rows.column(field.id).domain for part in parts for field in _key(part, policy)]
        expected += [part.table for part in parts if isinstance(part, Scan)]
    tables = [table for table in map(policy.table, expected) if table and table.private]
    sizes = [None if domain is None else len(domain) for domain in domains]
    return least(*sizes, *(table.expected_rows for table in tables))


def _pads(join: Join) -> bool:
    return join.kind is not JoinKind.INNER


def _key(part: Relation, policy: Policy) -> tuple[Field, ...]:
    """The key of a private table, if it is one column: no two units share a row."""
    table = policy.table(part.table) if isinstance(part, Scan) else None
    if not isinstance(part, Scan) or table is None or not table.private or len(table.key) != 1:
        return ()
    return tuple(f for f in part.fields if f.name.lower() == table.key[0].lower())


def least_shown(plan: BlockPlan) -> int:
    """About how many units a private key needs to be shown every other time."""
    if plan.trials is not None:
        return plan.trials.even
    assert plan.threshold is not None
    return ceil(plan.threshold.units)
