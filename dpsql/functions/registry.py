"""The table of scalar functions. A function that has no row does not exist."""

from __future__ import annotations

from dpsql.functions.arithmetic import ARITHMETIC
from dpsql.functions.conditionals import CONDITIONALS
from dpsql.functions.date_arithmetic import DATE_ARITHMETIC
from dpsql.functions.dates import DATES
from dpsql.functions.numeric import NUMERIC
from dpsql.functions.predicates import PREDICATES
from dpsql.functions.row import Function
from dpsql.functions.strings import STRINGS

REGISTRY: dict[str, Function] = {
    row.name: row
    for rows in (ARITHMETIC, PREDICATES, CONDITIONALS, NUMERIC, DATES, DATE_ARITHMETIC, STRINGS)
    for row in rows
}


def lookup(name: str) -> Function | None:
    """The row of a function, None if there is none.

    >>> lookup("add").name, lookup("random")
    ('add', None)
    """
    return REGISTRY.get(name)
