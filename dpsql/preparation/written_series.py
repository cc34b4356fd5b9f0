"""written_series: a series of a row's own numbers in a text, as a series of constants.

    SELECT COUNT(*) FROM orders, generate_series(1, quantity) AS g(u)
    SELECT COUNT(*) FROM orders, generate_series(1, 20) AS g(u) WHERE u <= quantity

The constants are the bounds that the policy has for a column.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from dpsql.model.dataclass import dataclass
from dpsql.model.tree import Span, Value
from dpsql.preparation.written_selects import WrittenSelect

_SERIES = re.compile(
    r"(LATERAL\s+)?(?P<unnest>UNNEST\s*\(\s*)?(?P<call>generate_series|range)\s*\(\s*"
    r"(?P<low>-?[\w.]+)\s*,\s*(?P<high>-?[\w.]+)\s*\)(?(unnest)\s*\))"
    r"\s+(AS\s+)?(?P<name>(?!FROM\b|WHERE\b)\w+)(\s*\(\s*(?P<column>\w+)\s*\))?",
    re.IGNORECASE,
)
_NUMBER = re.compile(r"-?\d+")


@dataclass(frozen=True)
class ConstantSeries:
    """A SELECT with a `series` of constants, and the condition that rows have on its column."""

    select: WrittenSelect
    series: str
    condition: str


def with_constant_series(
    select: WrittenSelect, at: int, bounds: Mapping[str, tuple[Value, Value]]
) -> ConstantSeries | None:
    """Return the SELECT without the series around a place, from or to a column with bounds.

    None for other texts. A series in the list of the SELECT is joined under the name of its column.
    """
    every = _SERIES.finditer(select.text)
    match = next((each for each in every if each.start() <= at <= each.end()), None)
    if match is None:
        return None
    ends, conditions = list[str](), list[str]()
    column = match["column"] or match["name"]
    signs = (">=", "<" if match["call"].lower() == "range" else "<=")
    for place, (end, sign) in enumerate(zip((match["low"], match["high"]), signs, strict=True)):
        limits = bounds.get(end.rpartition(".")[2].lower())
        if limits is not None:
            ends.append(str(limits[place]))
            conditions.append(f"{column} {sign} {end}")
        elif _NUMBER.fullmatch(end):
            ends.append(end)
    if len(ends) < len(signs) or not conditions:
        return None
    series = f"{match['call']}({', '.join(ends)})"
    place_of_all = Span(match.start(), match.end())
    if match["column"]:
        edits = [(place_of_all, f"{series} AS {match['name']}({column})")]
    else:
        end_of_tables = Span(select.insertion("where"), select.insertion("where"))
        edits = [(place_of_all, column), (end_of_tables, f", {series} AS series({column})")]
    return ConstantSeries(select.edit(*edits), series, " AND ".join(conditions))
