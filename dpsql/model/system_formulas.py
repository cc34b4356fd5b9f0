"""Formulas for which calls of side systems stand, as PREDICT for the arithmetic of a model."""

from __future__ import annotations

from dpsql.model.dataclass import dataclass, field
from dpsql.model.errors import Reason, Refused
from dpsql.model.tree import Call, Expression, Name


@dataclass(frozen=True, slots=True)
class Formula:
    """Meaning of `call(of.part, …)` for one analyst.

    The further arguments stand for `columns`, in this order. Without them, columns of these names
    are read. `expression` has the name `a0` for the first column, `a1` for the second. Formulas
    with one `key` are equal.
    """

    call: str
    of: str
    part: str | None
    columns: tuple[str, ...]
    key: str
    expression: Expression = field(compare=False, repr=False)


def formula_name(call: Call) -> tuple[str, str | None]:
    """Return the name, and its part, that the first argument of a call says.

    Raises `Refused` if it is no name of a model.

    >>> formula_name(Call("predict", (Name("pc1", "m"),)))
    ('m', 'pc1')
    """
    first = call.args[0] if call.args else call
    if not isinstance(first, Name) or first.schema:
        raise Refused(Reason.SYNTAX, first.span, why="the name of a model is expected here")
    if first.table is None:
        return first.name.lower(), None
    return first.table.lower(), first.name.lower()
