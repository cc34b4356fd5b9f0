"""Options of a statement in Python: named parameters and its price."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from decimal import Decimal, InvalidOperation
from itertools import islice, pairwise
from math import isfinite
from typing import Any, TypeAlias

from dpsql.dialects.postgres.words import WordKind, words
from dpsql.interfaces.dbapi.dbapi_errors import ProgrammingError
from dpsql.model.dataclass import dataclass
from dpsql.model.query_options import Precision, requested_precision
from dpsql.model.tree import Parameter

Amount: TypeAlias = Decimal | str | int | float
_DIGITS = 9
"""Most digits of a float that is taken for what it says: 0.05 and not 0.1 + 0.2."""
Named: TypeAlias = "Mapping[str, Parameter | list[Any]]"


@dataclass(frozen=True, slots=True)
class StatementOptions:
    """`epsilon` is the price of a statement. `within` is the error that determines it instead.

    `within` is like 100 or "5%", and `confidence` its probability. None stands for the default.
    """

    epsilon: Amount | None = None
    within: Amount | None = None
    confidence: Amount | None = None

    @property
    def exact_epsilon(self) -> Decimal | None:
        """`epsilon` as a decimal. Raises ProgrammingError if it is not an exact number."""
        return exact_amount("epsilon", self.epsilon)

    @property
    def precision(self) -> Precision | None:
        """The requested precision, or None.

        Raises ProgrammingError for inexact numbers, `Refused` for impossible precisions.
        """
        error = str(self.within) if type(self.within) is int else self.within
        if not (isinstance(error, str) and error.endswith("%")):
            exact_amount("within", error)
        text = None if error is None else str(error)
        return requested_precision(None, text, exact_amount("confidence", self.confidence))


NOTHING_SAID = StatementOptions()


def exact_amount(name: str, amount: Amount | None) -> Decimal | None:
    """Return an amount as an exact decimal. A float is its text, if that has few digits.

    >>> exact_amount("epsilon", 0.05)
    Decimal('0.05')
    """
    if amount is None or isinstance(amount, Decimal):
        return amount
    if type(amount) is float and isfinite(amount):
        few = len(Decimal(repr(amount)).as_tuple().digits) <= _DIGITS
        amount = repr(amount) if few else amount
    if not isinstance(amount, str):
        message = f"{name} is a Decimal, or a number with few digits such as 0.1."
        raise ProgrammingError(message)
    try:
        return Decimal(amount)
    except InvalidOperation:
        message = f"{name} is a decimal number such as '0.1'."
        raise ProgrammingError(message) from None


PARAMSTYLES = "qmark", "named", "pyformat"
"""Styles of parameters: `?`, or `:name` for a mapping, in the first two; `%s` or `%(name)s`."""
_PLACE = re.compile(r"%(?:(?P<mark>[s%])|\((?P<name>[^)]*)\)s)?")
_QUOTED = frozenset({WordKind.QUOTED, WordKind.STRING, WordKind.DOLLAR})


def from_pyformat(
    sql: str, given: Named | Sequence[Parameter | list[Any]]
) -> tuple[str, Sequence[Parameter | list[Any]]]:
    """Return the text with a `?` for every `%s` or `%(name)s`, and the values in order.

    `%%` is one `%`, also within quotes; comments stay. Raises ProgrammingError for another `%`, for
    a place within quotes, and for a name without a value.

    >>> from_pyformat("SELECT %(a)s + %(a)s, n %% 2, '5 %%'", {"a": 1})
    ("SELECT ? + ?, n % 2, '5 %'", [1, 1])
    """
    kinds = {at: word.kind for word in words(sql) for at in range(word.start, word.stop)}
    values: list[Parameter | list[Any]] = []
    positions = iter(() if isinstance(given, Mapping) else given)
    by_name: Named = given if isinstance(given, Mapping) else {}

    def place(match: re.Match[str]) -> str:
        kind = kinds.get(match.start())
        if kind is None:
            return match[0]
        if match["mark"] == "%":
            return "%"
        if match[0] == "%" or kind in _QUOTED:
            raise ProgrammingError("Write %% for one %; %s stands outside of quotes.")
        if match["name"] is None:
            values.extend(islice(positions, 1))  # too few are reported with their place
            return "?"
        if match["name"] not in by_name:
            message = f"There is no value for %({match['name']})s."
            raise ProgrammingError(message, sqlstate="07001")
        values.append(by_name[match["name"]])
        return "?"

    text = _PLACE.sub(place, sql)
    return text, [*values, *positions]


def positional(sql: str, named: Named) -> tuple[str, Sequence[Parameter | list[Any]]]:
    """Return the text with a `?` for every `:name`, at the same offsets, and the values in
    order.

    Raises ProgrammingError for a name without a value, and for a value without a name.

    >>> positional("SELECT :a || ':b', x::DATE, :a", {"a": 1})
    ("SELECT ?  || ':b', x::DATE, ? ", [1, 1])
    """
    values: list[Parameter | list[Any]] = []
    parts, used, at = list[str](), set[str](), 0
    read = list(words(sql))
    for colon, name in pairwise(read):
        is_name = name.kind is WordKind.NAME and name.start == colon.stop
        if colon.text != ":" or not is_name:
            continue
        if name.text not in named:
            raise ProgrammingError(f"There is no value for :{name.text}.", sqlstate="07001")
        used.add(name.text)
        values.append(named[name.text])
        parts += [sql[at : colon.start], "?".ljust(1 + len(name.text))]
        at = name.stop
    unused = [name for name in named if name not in used]
    if unused:
        raise ProgrammingError(f"There is no :{unused[0]} in the text.", sqlstate="07001")
    return "".join([*parts, sql[at:]]), values
