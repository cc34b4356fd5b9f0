"""What `rewrite` asks of a dialect: plans and relations as the SQL of one engine."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol, TypeAlias

from dpsql.compiler.plan.private_plan import BlockPlan, BlockSql
from dpsql.model.algebra import Relation
from dpsql.model.tree import Expression

Columns: TypeAlias = Mapping[int, str]
"""The text of each column, by its id."""

Tables: TypeAlias = Callable[[Relation], tuple[str, Columns] | None]
"""The table that holds a relation; None where the printer must look inside."""


class Dialect(Protocol):
    """How an engine's SQL is printed, from our own tree only."""

    def query(
        self, relation: Relation, outputs: tuple[Expression, ...], tables: Tables = ...
    ) -> str:
        """One SELECT of `outputs` over `relation`, its columns named c0, c1, ..."""

    def block(self, plan: BlockPlan) -> BlockSql:
        """The statement that returns a block's keys and exact integers, one row per group."""
