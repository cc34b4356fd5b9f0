"""How much one unit contributes to a block: groups, rows, and rows in one group.

Proof (PRIVACY.md R5, R26, R31, R74). A group of a unit has a row of it, so there are no more than
rows; keys that the unit determines have one value, others as many as their list, outside of which
rows are dropped. Where no proof is as small as the owner's limit, SQL keeps so many.
"""

from __future__ import annotations

from dataclasses import dataclass

from dpsql.compiler.calibrate.declared_limits import groups_limit, rows_limit
from dpsql.compiler.plan.private_plan import BoundedBlock, Contribution, PrivateBlock, least
from dpsql.compiler.track.table_scans import require_public_keys
from dpsql.model.algebra import Staged
from dpsql.model.errors import Reason, Refused
from dpsql.model.walk import relations


@dataclass(frozen=True, slots=True)
class Contributions:
    """The limits of one unit's groups and rows in a block, proved or to be enforced.

    Where nothing limits its rows, or what is aggregated of them, units can be `polled` for it.
    """

    groups: Contribution
    rows_per_group: Contribution
    rows: Contribution
    row_level: bool
    enforce: bool
    polled: bool


def contributions_of(bounded: BoundedBlock) -> Contributions:
    """The limits of a block: L0 is proved before it is enforced.

    Raises `Refused` where nothing limits the groups of a unit, and for private keys of rows that
    belong to several people.
    """
    block = bounded.block
    if bounded.domain is None:
        require_public_keys(block)
    declared = block.declared
    most = block.max_rows
    rows = Contribution(most, "proved" if most is not None else "not proved, not needed")
    row_level = most == 1 or block.several
    in_group, by_keys = block.max_rows_per_group, rows_limit(block)
    per_group = least(by_keys.value, declared.rows_per_unit, in_group)
    if block.alone and most != 1:
        rows_per_group = Contribution(per_group, "proved: no two rows of a unit have equal keys")
    elif in_group is not None and per_group == in_group:
        rows_per_group = Contribution(per_group, "proved: no unit has more rows")
    elif per_group is None:
        rows_per_group = Contribution(None, "no limit: a bound is found privately")
    else:
        name = by_keys.name if per_group == by_keys.value else "max_rows_per_unit"
        rows_per_group = Contribution(per_group, f"enforced by clipping each unit's total: {name}")
    polled = not (block.several or _waits(block))
    # Norms bound all groups together: a limit of public ones would only leave some of them out.
    normed = polled and per_group is None and not row_level and bounded.domain is not None
    groups, enforce = _groups(bounded, limited=not normed)
    return Contributions(
        groups=groups,
        rows_per_group=rows_per_group,
        rows=rows,
        row_level=row_level,
        enforce=enforce,
        polled=polled,
    )


def _waits(block: PrivateBlock) -> bool:
    """Whether the rows are joined to what is released first: nobody can be polled before."""
    return any(isinstance(r, Staged) and r.source is None for r in relations(block.rows))


def _groups(bounded: BoundedBlock, *, limited: bool) -> tuple[Contribution, bool]:
    """L0, and whether SQL must enforce it by sampling."""
    block = bounded.block
    if not block.keys:
        return Contribution(1, "proved: the query has one group"), False
    proofs = [
        (bounded.key_combinations, "proved: the keys can take no more values for one unit"),
        (block.max_rows, "proved: no unit has more rows"),
        (block.max_groups, "proved: no unit has more rows that the keys can tell apart"),
    ]
    proved = [(value, how) for value, how in proofs if value is not None]
    value, how = min(proved, default=(None, ""))
    by_keys = groups_limit(block)
    limit = least(by_keys.value, block.declared.rows_per_unit)
    if value is not None and (limit is None or value <= limit or not limited):
        if value == 1 and bounded.key_combinations == 1:
            how = "proved: the unit determines the keys"
        return Contribution(value, how), False
    if limit is None:
        raise Refused(
            Reason.UNBOUNDED_CONTRIBUTION,
            block.keys[0].expression.span,
            limit="max_groups_per_unit",
            fix="Ask the data owner to declare max_groups_per_unit for this table.",
        )
    name = by_keys.name if limit == by_keys.value else "max_rows_per_unit"
    return Contribution(limit, f"enforced by a random choice of each unit's groups: {name}"), True
