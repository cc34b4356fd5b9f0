"""Blocks on engines without TRY and QUALIFY: subqueries have names, and rows have ranks.

The proof of contribution bounds is with the shape of the statement (see `block_printer`).
"""

from __future__ import annotations

from collections.abc import Mapping

from dpsql.compiler.plan.measurement_kinds import DistinctCount, DistinctSum
from dpsql.dialects.block_printer import BlockPrinter, type_of
from dpsql.model.tree import DOUBLE, Cast, Expression, Ref
from dpsql.model.walk import map_children


class PlainBlock(BlockPrinter):
    """Printer of a block for such engines."""

    def derived(self, sql: str, alias: str) -> str:
        return f"({sql}) AS {alias}"

    def first_pairs(self, every: str, order: str, most: int) -> str:
        place = f"ROW_NUMBER() OVER (PARTITION BY u ORDER BY {order}) AS place"
        ranked = f"SELECT *, {place} FROM ({every}) AS pairs WHERE v IS NOT NULL"
        named = ", ".join([*self.keys, "v"])
        return f"SELECT {named} FROM ({ranked}) AS ranked WHERE place <= {most}"

    def each_once(self, part: DistinctCount | DistinctSum, values: str) -> tuple[str, str]:
        if isinstance(part, DistinctCount):
            return values, "COUNT(DISTINCT v)"
        names = ", ".join([*self.keys, "v"])
        return f"SELECT DISTINCT {names} FROM ({values}) AS every", self.sum_over_values(part)

    def sum_over_values(self, part: DistinctSum) -> str:
        """Return the sum of an expression of each value `v`, as an integer."""

        def over_value(node: Expression) -> Expression:
            if node != part.values.argument:
                return map_children(node, over_value)
            return Ref(0, type_of(node))

        node: Expression = over_value(part.argument)
        value = f"({self.typed(node, self.printer().text(node, {0: 'v'}))})"
        return f"SUM({self.lattice.row_integer(part, value)})"

    def as_double(self, node: Expression, columns: Mapping[int, str]) -> str:
        return self.printer().text(Cast(node, DOUBLE), columns)
