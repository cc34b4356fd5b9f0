"""Operator signs in SQL, by the registry names of their functions."""

from __future__ import annotations

_BETWEEN = (
    ("add sub mul div int_div pg_div mod", "+ - * / // / %"),
    ("eq ne lt le gt ge", "= <> < <= > >="),
    ("and or like ilike concat add_days", "AND OR LIKE ILIKE || +"),
)
BETWEEN = {
    name: sign
    for names, signs in _BETWEEN
    for name, sign in zip(names.split(), signs.split(), strict=True)
}
"""Signs between two operands."""

BEFORE = {"neg": "-", "not": "NOT "}
"""Signs before a single operand."""
