"""The table of scalar functions. A function that has no row does not exist.

A missing row is a refusal: PRIVACY.md R25, SECURITY.md S13.
"""

from __future__ import annotations

from dpsql.functions.arithmetic import ARITHMETIC
from dpsql.functions.conditionals import CONDITIONALS
from dpsql.functions.date_arithmetic import DATE_ARITHMETIC
from dpsql.functions.date_making import DATE_MAKING
from dpsql.functions.date_text import DATE_TEXT
from dpsql.functions.dates import DATES
from dpsql.functions.formats import FORMATS
from dpsql.functions.numeric import NUMERIC
from dpsql.functions.patterns import PATTERNS
from dpsql.functions.predicates import PREDICATES
from dpsql.functions.row import Function
from dpsql.functions.strings import STRINGS
from dpsql.functions.texts import TEXTS
from dpsql.functions.transcendental import TRANSCENDENTAL
from dpsql.functions.whole import INTEGERS
from dpsql.functions.zones import ZONED

REGISTRY: dict[str, Function] = {
    row.name: row
    for rows in (
        *(ARITHMETIC, NUMERIC, TRANSCENDENTAL, INTEGERS),
        *(PREDICATES, CONDITIONALS, STRINGS, TEXTS, PATTERNS, FORMATS),
        *(DATES, DATE_ARITHMETIC, DATE_MAKING, DATE_TEXT, ZONED),
    )
    for row in rows
}


def lookup(name: str) -> Function | None:
    """The row of a function, None if there is none.

    >>> lookup("add").name, lookup("random")
    ('add', None)
    """
    return REGISTRY.get(name)
