"""Bare strings that stand next to values of another type, read as constants of that type."""

from __future__ import annotations

from decimal import Decimal, InvalidOperation

from dpsql.compiler.resolve import interval_values as intervals
from dpsql.model import tree
from dpsql.model.bound_parameters import MAX_DIGITS, bound, said

_TRUTHS = {
    **dict.fromkeys("t true y yes on 1".split(), True),
    **dict.fromkeys("f false n no off 0".split(), False),
}
"""Truth values in PostgreSQL, https://www.postgresql.org/docs/15/datatype-boolean.html."""


def coerced(literal: tree.Literal, target: tree.SqlType) -> tree.Literal:
    """Read a string literal as a constant that is compared with `target`; unchanged where it is
    none.

    Next to INTEGER only whole numbers are numbers, as in PostgreSQL.

    >>> coerced(tree.Literal("99", tree.VARCHAR), tree.INTEGER).value
    99
    >>> coerced(tree.Literal("99.5", tree.VARCHAR), tree.INTEGER).value
    '99.5'
    """
    if literal.type != tree.VARCHAR or not isinstance(literal.value, str):
        return literal
    if target == tree.INTERVAL:
        micros = intervals.of_text(literal.value)
        return literal if micros is None else tree.Literal(micros, tree.INTERVAL, literal.span)
    value = _value(literal.value.strip().lower(), target)
    return literal if value is None else bound(value, literal.span)


def _value(text: str, target: tree.SqlType) -> tree.Value:
    if target == tree.BOOLEAN:
        return _TRUTHS.get(text)
    try:
        if target in (tree.TIME, tree.UUID):
            return said(text, target)
        if not target.is_numeric or "_" in text or len(text) > MAX_DIGITS:
            return None
        if target == tree.INTEGER:
            return int(text)
        number = Decimal(text)
        size = abs(number.adjusted()) + len(number.as_tuple().digits)
        return number if number.is_finite() and size < MAX_DIGITS else None
    except (ValueError, InvalidOperation):
        return None
