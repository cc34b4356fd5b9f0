"""Contribution bounds of one unit in a block: groups, rows, and rows in one group.

Proof (PRIVACY.md R5, R26, R31, R74, R76). A group of a unit has a row of it, so a unit has at most
as many groups as rows. Keys that the unit determines have one value, others as many as their list;
rows outside the list are dropped. Where no proved bound is as small as the owner's limit, SQL
enforces the limit. Where nothing limits the groups of private keys, a unit's contribution to all of
them is scaled to a norm, and SQL keeps a number of keys that hardly any unit exceeds. With a loose
limit, the contribution to the count of units is scaled too.
"""

from __future__ import annotations

from dpsql.compiler.calibrate.declared_limits import groups_limit, rows_limit
from dpsql.compiler.plan.private_plan import BoundedBlock, Contribution, PrivateBlock, least
from dpsql.compiler.track.table_scans import require_public_keys
from dpsql.model.algebra import Staged
from dpsql.model.dataclass import dataclass
from dpsql.model.errors import Reason, Refused
from dpsql.model.walk import relations

MOST_KEYS = 2**10
"""Number of a unit's private keys that are kept without a limit. They cost only a little δ."""
LOOSE_KEYS = 8
"""Limit of a unit's private keys from which it is loose: most units have fewer."""


@dataclass(frozen=True, slots=True)
class Contributions:
    """Limits on one unit's groups and rows in a block, proved or to be enforced.

    Where nothing limits its rows, or their values, units can be `polled` for bounds. Contributions
    to private keys are `scaled` where the number of keys is unlimited. With a `loose` limit of
    keys, the contribution to the count of units may be scaled.
    """

    groups: Contribution
    rows_per_group: Contribution
    rows: Contribution
    row_level: bool
    enforce: bool
    polled: bool
    scaled: bool
    loose: bool


def contributions_of(bounded: BoundedBlock) -> Contributions:
    """Return the limits of a block: a proved L0 takes precedence over enforcement.

    Raises `Refused` for private keys of rows that belong to several units.
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
    # Rows that are joined to an earlier release wait for it, and others may vote for them.
    waits = any(isinstance(r, Staged) and r.source is None for r in relations(block.rows))
    polled = not block.several and (bounded.voting is not None or not waits)
    private = bounded.domain is None
    # Norms bound all groups together: a limit of public ones would only leave some of them out.
    normed = polled and per_group is None and not (row_level or private)
    groups = _groups(bounded, limited=not normed)
    return Contributions(
        groups=groups.most,
        rows_per_group=rows_per_group,
        rows=rows,
        row_level=row_level,
        enforce=groups.enforce,
        polled=polled,
        scaled=groups.scaled,
        loose=polled and private and (groups.most.value or 0) >= LOOSE_KEYS,
    )


@dataclass(frozen=True, slots=True)
class _Groups:
    """The limit L0, and whether SQL enforces it by sampling or contributions are scaled."""

    most: Contribution
    enforce: bool = False
    scaled: bool = False


def _groups(bounded: BoundedBlock, *, limited: bool) -> _Groups:
    """Return the limit on groups of one unit; for private groups the owner may limit their
    number.
    """
    block = bounded.block
    if not block.keys:
        return _Groups(Contribution(1, "proved: the query has one group"))
    proofs = [
        (bounded.key_combinations, "proved: the keys can take no more values for one unit"),
        (block.max_rows, "proved: no unit has more rows"),
        (block.max_groups, "proved: no unit has more rows that the keys can tell apart"),
    ]
    proved = [(value, how) for value, how in proofs if value is not None]
    value, how = min(proved, default=(None, ""))
    by_keys = groups_limit(block)
    limit = least(by_keys.value, block.declared.rows_per_unit)
    if bounded.domain is None and limit is None and (value is None or value > MOST_KEYS):
        how = "enforced: a loose limit, as all that a unit adds to them is scaled"
        return _Groups(Contribution(MOST_KEYS, how), enforce=True, scaled=True)
    if value is not None and (limit is None or value <= limit or not limited):
        if value == 1 and bounded.key_combinations == 1:
            how = "proved: the unit determines the keys"
        return _Groups(Contribution(value, how))
    assert limit is not None, "public keys are counted"
    name = by_keys.name if limit == by_keys.value else "max_rows_per_unit"
    how = f"enforced by a random choice of each unit's groups: {name}"
    return _Groups(Contribution(limit, how), enforce=True)


def unscalable(block: PrivateBlock) -> Refused:
    """Return the refusal where no norm bounds a unit's contribution to any number of private
    groups.
    """
    limit = "max_groups_per_unit"
    return Refused(
        Reason.UNBOUNDED_CONTRIBUTION,
        block.keys[0].expression.span,
        limit=limit,
        fix=f"Ask the data owner to declare {limit} for {block.declared.lacking(limit)}.",
    )
