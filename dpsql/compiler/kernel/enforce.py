"""enforce: exclusion of units that violate a claim which the kernel does not prove.

The planner makes claims about rows, groups and values of one unit, and calibrate uses them: proved
limits are not enforced, totals within them not clipped. Here the kernel checks each claim. Rows of
several units, and rows that it cannot assign to one unit each, are refused.

Proof (PRIVACY.md R96). Every claim of a block that `compiler.calibrate` reads is here: its rows of
a unit, in all and in a group, the keys that a unit determines, and its groups. Where a unit is
claimed to have one value of an argument, SQL keeps one (PRIVACY.md R27).
"""

from __future__ import annotations

from collections.abc import Iterator

from dpsql.compiler.kernel.kernel import Frequency, Kernel
from dpsql.compiler.kernel.known import Proof
from dpsql.compiler.plan.enforcement import Enforcement
from dpsql.compiler.plan.private_plan import BlockPlan, PrivateBlock, PrivatePlan
from dpsql.model.dataclass import replace
from dpsql.model.errors import Reason, Refused
from dpsql.model.tree import Ref
from dpsql.model.vocabulary import Policy
from dpsql.model.walk import refs


def enforced(plan: PrivatePlan, policy: Policy, frequency: Frequency) -> PrivatePlan:
    """Return the plan in which the kernel proves, or SQL enforces, every claim about one unit's
    rows.

    Raises `Refused` for rows that are not proved to be of one unit each, or where nothing bounds
    the rows that name one of several units.
    """
    counts = [len(block.block.keys) for block in plan.blocks]
    kernel = Kernel(policy, plan.stages, counts, frequency)
    return replace(plan, blocks=tuple(_enforced(kernel, block, policy) for block in plan.blocks))


def _enforced(kernel: Kernel, plan: BlockPlan, policy: Policy) -> BlockPlan:
    block = plan.block
    if block.several:
        most = kernel.most_of_several(block.rows)
        if most is None or block.max_rows is None or most > block.max_rows:
            raise _unproved(block, f"rows of several {policy.unit.table} each, without a bound,")
        return plan
    block, proof = _of_one_unit(kernel, block, policy)
    claims = () if block.vote is not None else tuple(dict.fromkeys(_unproved_claims(plan, proof)))
    return replace(plan, block=replace(block, enforced=claims))


def _of_one_unit(kernel: Kernel, block: PrivateBlock, policy: Policy) -> tuple[PrivateBlock, Proof]:
    """Return the block with a unit column that the kernel confirms, and the proof."""
    rows = kernel.proof(block.rows, block.unit.id, block.keys).rows
    kinds = {f.id: f.type for f in block.rows.fields}
    for unit in (block.unit.id, *sorted(block.unit_ids & kinds.keys())):
        proof = Proof(rows, unit)
        if proof.is_local:
            return replace(block, unit=Ref(unit, kinds[unit])), proof
    raise _unproved(block, f"rows that are not seen to be of one of the {policy.unit.table} each")


def _unproved_claims(plan: BlockPlan, proof: Proof) -> Iterator[Enforcement]:
    """Yield the claims of the plan that the kernel does not prove."""
    block = plan.block
    if block.max_rows is not None and not _within(proof.most_rows(), block.max_rows):
        yield Enforcement(block.max_rows)
    keys = {key.field.id for key in block.keys}
    if block.alone and block.max_rows != 1 and not _within(proof.most_rows(keys), 1):
        yield Enforcement(1, in_group=True)
    if block.max_rows == 1:
        return
    for key in block.keys:
        read = refs(key.expression)
        if read <= block.determined and not _within(proof.most_values(read), 1):
            yield Enforcement(1, (key.expression,))
    if keys and _rests_on_groups(plan) and not _within(proof.most_values(keys), block.max_groups):
        yield Enforcement(plan.l0, tuple(key.expression for key in block.keys))


def _rests_on_groups(plan: BlockPlan) -> bool:
    """Test whether the limit of groups is that of rows before they were joined to public ones."""
    most = plan.block.max_groups
    return most is not None and not plan.enforce_l0 and plan.groups.value == most


def _within(proved: int | None, most: int | None) -> bool:
    return proved is not None and most is not None and proved <= most


def _unproved(block: PrivateBlock, construct: str) -> Refused:
    return Refused(Reason.UNSUPPORTED_PRIVATE_OPERATOR, block.span, construct=construct)
