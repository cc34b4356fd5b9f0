"""How analysts write the functions that have signs, by our name for them."""

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
"""Those that stand between what they join."""

BEFORE = {"neg": "-", "not": "NOT "}
"""Those that stand before their only argument."""
