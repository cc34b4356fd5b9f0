"""describe_levels: which tables of a plan have totals in common, in words."""

from __future__ import annotations

from collections.abc import Iterator

from dpsql.canonical import Writer
from dpsql.plan import BlockPlan, PrivatePlan


def notes(plan: PrivatePlan) -> Iterator[str]:
    """What is made to agree; and where private keys are in the way, that nothing is."""
    for levels in plan.levels:
        names = ", ".join(f"release_{table.block}" for table in levels.tables)
        yield (
            f"{names} measure the same rows: their totals are made equal (weighted least squares)"
        )
    rows = [_rows(block) for block in plan.blocks]
    for n, block in enumerate(plan.blocks):
        if block.domain is None and rows.count(rows[n]) > 1:
            yield (
                f"release_{n} shows private keys, not all of them: they do not add up to totals "
                "of the same rows"
            )


def _rows(block: BlockPlan) -> str:
    writer = Writer()
    writer.number(block.block.rows)
    return writer.write((block.block.rows, block.block.unit))
