"""checks: what CHECK constraints say of single columns, where they are fully understood."""

from __future__ import annotations

import re
from dataclasses import dataclass

from dpsql.model.schema import SchemaTable
from dpsql.model.tree import Kind

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


@dataclass(frozen=True, slots=True)
class Check:
    """What the engine enforces of a column: the ends of its numbers, as written, or its texts."""

    bounds: tuple[str, str] | None = None
    values: tuple[str, ...] = ()


def checks(table: SchemaTable) -> dict[str, Check]:
    """The columns, in lower case, that a CHECK constraint speaks of."""
    types = {c.name.lower(): c.type for c in table.columns if c.type is not None}
    found: dict[str, Check] = {}
    for check in table.checks:
        text = check.removeprefix("CHECK").strip()
        between = BETWEEN.fullmatch(text) or RANGE.fullmatch(text)
        if between is not None and (kind := types.get(between["column"].lower())) is not None:
            if kind.kind in (Kind.INTEGER, Kind.DECIMAL, Kind.DOUBLE):
                found[between["column"].lower()] = Check((between["lo"], between["hi"]))
            continue
        members = MEMBERS.fullmatch(text)
        if members is not None and members["column"].lower() in types:
            listed = re.findall(r"'((?:[^']|'')*)'", members["values"])
            values = tuple(member.replace("''", "'") for member in listed)
            found[members["column"].lower()] = Check(values=values)
    return found
