"""What is asked of a dialect: plans, relations, expressions and constants as SQL of one engine."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol, TypeAlias

from dpsql.compiler.plan.measurement_kinds import ClippedSum
from dpsql.compiler.plan.private_plan import BlockPlan, BlockSql
from dpsql.model.algebra import Field, Relation
from dpsql.model.dataclass import dataclass
from dpsql.model.tree import Expression, Literal, StoredAs

Columns: TypeAlias = Mapping[int, str]
"""The text of each column, by its id."""

Tables: TypeAlias = Callable[[Relation], tuple[str, Columns] | None]
"""The table that holds a relation; None where the printer must look inside."""


class Dialect(Protocol):
    """How an engine's SQL is printed, from our own tree only; nothing that it prints can raise.

    Names are quoted with `"`. Raises `Refused` for what the engine has no exact form of.
    """

    def query(
        self, relation: Relation, outputs: tuple[Expression, ...], tables: Tables = ...
    ) -> str:
        """One SELECT of `outputs` over `relation`, its columns named c0, c1, ..."""

    def block(self, plan: BlockPlan) -> BlockSql:
        """The statement that returns a block's keys and exact integers, one row per group.

        Where it samples groups, it reads the whole number `$sampling_key`.
        """

    def expression(self, expression: Expression, columns: Columns) -> str:
        """A resolved expression over these columns."""

    def constant(self, literal: Literal) -> str:
        """A constant of exactly its value and type."""

    def column(self, table: str, column: Field, reading: StoredAs | None) -> str:
        """A column of a table that is called `table`, as it is read."""

    def integer(self, part: ClippedSum, x: str) -> str:
        """What a row adds, clipped, as an integer of the lattice; NULL for NULL and NaN."""


@dataclass(frozen=True, slots=True)
class Dialects:
    """The SQL of the two engines: of the owner's database, and of scratch."""

    database: Dialect
    scratch: Dialect
