"""workload: expected work of a question on private rows, and the size of its answer, from public
facts alone.

Sizes of private tables are those that the owner declares (`expected_rows`), never the data's: the
waiting analyst sees the prediction.

The time grid that uses it: PRIVACY.md R70.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from math import inf, prod
from typing import assert_never

from dpsql.compiler.plan.prepared import Prepared
from dpsql.compiler.plan.private_plan import BlockPlan
from dpsql.compiler.track.equalities import equal_columns
from dpsql.engines import Stop
from dpsql.model import algebra
from dpsql.model.errors import Reason, Refused
from dpsql.model.tree import JoinKind
from dpsql.model.vocabulary import Policy
from dpsql.model.walk import relations
from dpsql.preparation.compilation import Compiler

PublicSize = Callable[[str], int]
"""Function that returns the number of rows of a public table."""


def operations(prepared: Prepared, policy: Policy, public: PublicSize) -> float | None:
    """Return the rows that a query's operators process in total; None if a size is undeclared."""
    sizes = _Sizes(policy, public)
    total = sum(sizes.of_block(block) for block in prepared.blocks)
    return None if total == inf else total


def require_result_room(compiler: Compiler, prepared: Prepared, stop: Stop) -> None:
    """Raise `Refused` if the answer would always have more values than the limit."""
    plan, most = prepared.plan, compiler.policy.limits.max_result_cells
    assert plan is not None
    outer = plan.outer
    rows = compiler.freely(partial(fewest, outer, compiler.public.size), stop)
    if rows * len(outer.fields) > most:
        raise Refused(
            Reason.TOO_LARGE,
            what="values in its answer",
            why=f"Each row stands beside each other: {rows:,} where nothing joins them.",
            fix="Join on a condition, or ask for fewer rows.",
        )


def expected_work(compiler: Compiler, prepared: Prepared, stop: Stop) -> float | None:
    """Return the expected work of the question; None if a size is undeclared."""
    step = partial(operations, prepared, compiler.policy, compiler.public.size)
    return compiler.freely(step, stop)


MOST_TIMES = 4
"""Limit on the work of a wider measurement, as a multiple of the question's."""
LITTLE = 50_000
"""Limit on the cells of a wider measurement, an alternative to `MOST_TIMES`."""


def is_little_more(prepared: Prepared, wider: Prepared, policy: Policy, public: PublicSize) -> bool:
    """Test whether a wider measurement of a question's rows is expected to add little work.

    Processed rows count if their number is known. Cells count too: each has its own noise, is
    stored, and is read again.
    """
    cells = _cells(wider)
    rows, more = (operations(each, policy, public) or 0 for each in (prepared, wider))
    return cells <= LITTLE or cells + more <= MOST_TIMES * (_cells(prepared) + rows)


def _cells(prepared: Prepared) -> int:
    """Return the number of measured cells with listed keys."""
    return sum(len(block.domain or ()) * len(block.releases) for block in prepared.blocks)


def fewest(outer: algebra.Relation, public: PublicSize) -> float:
    """Return the least number of rows after the releases if each shows at least one group.

    Only unconditional products are known beforehand: all rows of one side with all of the other.
    """
    match outer:
        case algebra.Scan():
            return public(outer.table)
        case algebra.OneRow() | algebra.Released() | algebra.Aggregate():
            return 1
        case algebra.Staged():
            return 1 if outer.source is None else fewest(outer.source, public)
        case algebra.Values() | algebra.Evaluated():
            return len(outer.rows)
        case algebra.Join(kind=JoinKind.CROSS):
            return fewest(outer.left, public) * fewest(outer.right, public)
        case algebra.Project() | algebra.Window() | algebra.Sort() | algebra.Apply():
            return fewest(outer.input, public)
        case algebra.Limit(limit=None, offset=0):
            return fewest(outer.input, public)
        case algebra.Union(kind="UNION", all=True):
            return fewest(outer.left, public) + fewest(outer.right, public)
        case (
            algebra.Filter()
            | algebra.Match()
            | algebra.Join()
            | algebra.Limit()
            | algebra.Union()
            | algebra.Single()
            | algebra.Recursion()
            | algebra.Again()
        ):
            return 0
        case _:
            assert_never(outer)


class _Sizes:
    """Expected sizes of relations; infinite if a table's size is not declared."""

    def __init__(self, policy: Policy, public: PublicSize) -> None:
        self.policy, self.public = policy, public

    def of_block(self, block: BlockPlan) -> float:
        """Return the work of its operators, then of aggregates per unit and per group for each
        measurement.
        """
        rows = block.block.rows
        measured = 1 + len(block.queries) + len(block.histograms)
        steps = 1 if block.row_level else 3
        return sum(map(self.of, relations(rows))) + steps * measured * self.of(rows)

    def of(self, relation: algebra.Relation) -> float:
        match relation:
            case algebra.Scan():
                return self.of_table(relation.table)
            case algebra.OneRow():
                return 1
            case algebra.Values() | algebra.Evaluated():
                return len(relation.rows)
            case algebra.Staged(source=source) if source is not None:
                return self.of(source)
            case algebra.Released() | algebra.Staged():
                return self.policy.limits.max_public_groups
            case algebra.Join():
                return self.of_join(relation)
            case algebra.Union():
                return self.of(relation.left) + self.of(relation.right)
            case (
                algebra.Filter()
                | algebra.Project()
                | algebra.Match()
                | algebra.Aggregate()
                | algebra.Window()
                | algebra.Sort()
                | algebra.Limit()
            ):
                return self.of(relation.input)
            case algebra.Apply() | algebra.Single():
                return self.of(relation.input)
            case algebra.Recursion():
                return self.of(relation.first)
            case algebra.Again():
                return 1
            case _:
                assert_never(relation)

    def of_table(self, name: str) -> float:
        table = self.policy.table(name)
        assert table is not None
        if table.expected_rows is not None:
            return table.expected_rows
        return inf if table.private else self.public(name)

    def of_join(self, join: algebra.Join) -> float:
        """Return the rows to process: those of the larger side for equality joins, else the
        product.
        """
        sides = self.of(join.left), self.of(join.right)
        here = {f.id for f in join.left.fields}
        looked_up = join.kind is not JoinKind.CROSS and equal_columns(join.condition, here)
        return max(sides) if looked_up else prod(sides)
