"""CHECK constraints of the database, as facts about columns."""

from __future__ import annotations

import re

from dpsql.model.dataclass import dataclass
from dpsql.model.schema import SchemaTable
from dpsql.model.tree import VARCHAR, Kind

NUMBERS = (Kind.INTEGER, Kind.DECIMAL, Kind.DOUBLE)

NUMBER = r"\(*\s*(?:CAST\()?'?(?P<{0}>-?\d+(?:\.\d+)?)'?(?:\s+AS [A-Z0-9(), ]+\))?\s*\)*"
BETWEEN = re.compile(
    r"\(*\"?(?P<column>\w+)\"?\s+BETWEEN\s+" + NUMBER.format("lo") + r"\s+AND\s+"
    + NUMBER.format("hi") + r"\)*", re.IGNORECASE
)  # fmt: skip
RANGE = re.compile(
    r"\(*\"?(?P<column>\w+)\"?\s*>=\s*" + NUMBER.format("lo") + r"\s+AND\s+\(*\"?(?P=column)\"?"
    r"\s*<=\s*" + NUMBER.format("hi") + r"\)*", re.IGNORECASE
)  # fmt: skip
MEMBERS = re.compile(
    r"\(*\"?(?P<column>\w+)\"?\s+IN\s+\((?P<values>'(?:[^']|'')*'(?:,\s*'(?:[^']|'')*')*)\)\)*",
    re.IGNORECASE,
)
LENGTH = re.compile(
    r"\(*(?:length|len)\(\"?(?P<column>\w+)\"?\)\s*<=\s*(?P<most>\d+)\)*", re.IGNORECASE
)


@dataclass(frozen=True, slots=True)
class Check:
    """Constraint that the engine enforces on numbers (bounds as written), texts, or their
    length.
    """

    bounds: tuple[str, str] | None = None
    values: tuple[str, ...] = ()
    length: int | None = None


def checks(table: SchemaTable) -> dict[str, Check]:
    """Return the CHECK constraint of each column, by name in lower case."""
    types = {c.name.lower(): c.type for c in table.columns if c.type is not None}
    by_column: dict[str, Check] = {}
    for check in table.checks:
        text = check.removeprefix("CHECK").strip()
        between = BETWEEN.fullmatch(text) or RANGE.fullmatch(text)
        if between is not None and (kind := types.get(between["column"].lower())) is not None:
            if kind.kind in NUMBERS:
                by_column[between["column"].lower()] = Check((between["lo"], between["hi"]))
            continue
        length = LENGTH.fullmatch(text)
        if length is not None and types.get(length["column"].lower()) == VARCHAR:
            by_column[length["column"].lower()] = Check(length=int(length["most"]))
            continue
        members = MEMBERS.fullmatch(text)
        if members is not None and members["column"].lower() in types:
            listed = re.findall(r"'((?:[^']|'')*)'", members["values"])
            values = tuple(member.replace("''", "'") for member in listed)
            by_column[members["column"].lower()] = Check(values=values)
    return by_column
