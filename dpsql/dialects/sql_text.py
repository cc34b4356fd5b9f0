"""SQL text with its type and how tightly it binds."""

from __future__ import annotations

from dpsql.model.dataclass import dataclass
from dpsql.model.tree import Literal, SqlType

# Levels of binding, from loosest to tightest. `||`, `//` and `%` share one level and are always
# parenthesised among other operators, since engines order them differently.
LOOSE, OR, AND, NOT, TEST, OTHER, SUM, PRODUCT, MINUS, CAST, ATOM = range(11)


@dataclass(frozen=True, slots=True)
class Text:
    """Printed SQL. `wide` says that it is an integer of at least 64 bits."""

    sql: str
    type: SqlType
    level: int = ATOM
    wide: bool = False
    literal: Literal | None = None

    def operand(self, level: int) -> str:
        """The text where something that binds at least as tightly as `level` must stand."""
        return self.sql if self.level >= level else f"({self.sql})"
