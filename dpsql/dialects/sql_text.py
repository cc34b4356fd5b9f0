"""SQL text with its type and binding level."""

from __future__ import annotations

from dpsql.model.dataclass import dataclass
from dpsql.model.tree import Literal, SqlType, Value

# Binding levels, from loosest to tightest. `||`, `//` and `%` share one level and always get
# parentheses among other operators, because engines order them differently.
LOOSE, OR, AND, NOT, TEST, OTHER, SUM, PRODUCT, MINUS, CAST, ATOM = range(11)


@dataclass(frozen=True, slots=True)
class Text:
    """Printed SQL. `wide` means an integer of at least 64 bits."""

    sql: str
    type: SqlType
    level: int = ATOM
    wide: bool = False
    literal: Literal | None = None

    @property
    def value(self) -> Value:
        """Value of a constant, else None."""
        return None if self.literal is None else self.literal.value

    @property
    def word(self) -> str:
        """Plain word from a part that `accepts` admitted."""
        assert self.literal is not None
        return str(self.literal.value).lower()

    def operand(self, level: int) -> str:
        """Return the text as an operand at this binding level, in parentheses if it binds less
        tightly.
        """
        return self.sql if self.level >= level else f"({self.sql})"
