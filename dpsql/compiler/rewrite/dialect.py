"""The protocol of a dialect: it prints plans, relations, expressions and constants as SQL."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol, TypeAlias

from dpsql.compiler.plan.measurement_kinds import ClippedSum
from dpsql.compiler.plan.private_plan import BlockPlan, BlockSql
from dpsql.model.algebra import Field, Relation
from dpsql.model.dataclass import dataclass
from dpsql.model.tree import Expression, Literal, StoredAs

Columns: TypeAlias = Mapping[int, str]
"""Text of each column, by its id."""

Tables: TypeAlias = Callable[[Relation], tuple[str, Columns] | None]
"""A function to the table that holds a relation; None where the printer must look inside."""


class Dialect(Protocol):
    """Printer of an engine's SQL, from our own tree only; printed expressions cannot raise.

    Names are quoted with `"`. Raises `Refused` for constructs without an exact form in the engine.
    """

    def query(
        self, relation: Relation, outputs: tuple[Expression, ...], tables: Tables = ...
    ) -> str:
        """Print one SELECT of `outputs` over `relation`, with columns named c0, c1, ..."""

    def block(self, plan: BlockPlan) -> BlockSql:
        """Print the statement that returns a block's keys and exact integers, one row per group.

        Where it samples groups, it reads the whole number `$sampling_key`.
        """

    def expression(self, expression: Expression, columns: Columns) -> str:
        """Print a resolved expression over these columns."""

    def constant(self, literal: Literal) -> str:
        """Print a constant of exactly its value and type."""

    def column(self, table: str, column: Field, reading: StoredAs | None) -> str:
        """Print a column as it is read from a table that is called `table`."""

    def integer(self, part: ClippedSum, x: str) -> str:
        """Print the clipped addition of a row as an integer of the grid; NULL for NULL and NaN."""


@dataclass(frozen=True, slots=True)
class Dialects:
    """The dialects of the two engines: of the owner's database, and of scratch."""

    database: Dialect
    scratch: Dialect
