"""written_groups: GROUP BY of many privacy units in a text, with groups that can be released.

SELECT MEDIAN(n) FROM (SELECT k, COUNT(*) AS n FROM t GROUP BY k)
SELECT MEDIAN(n) FROM (SELECT k, COUNT(*) AS n, unit FROM t GROUP BY k, unit)

SELECT MAX(n) FROM (SELECT k, COUNT(*) AS n FROM t GROUP BY k)
SELECT k, COUNT(*) AS n FROM t GROUP BY k ORDER BY n DESC LIMIT 1

NTILE(2) OVER (ORDER BY x)
CASE WHEN CUME_DIST() OVER (ORDER BY x) <= 0.5 THEN 1 ELSE 2 END
"""

from __future__ import annotations

import re

from dpsql.model.tree import Span
from dpsql.model.vocabulary import Policy
from dpsql.preparation.written_selects import WrittenSelect

_LARGEST = re.compile(
    r"\s*SELECT\s+MAX\s*\(\s*(\w+)\s*\)(\s+(AS\s+)?\w+)?\s+FROM\s*\(\s*", re.IGNORECASE
)

_TILE = re.compile(r"NTILE\s*\(\s*(\d+)\s*\)\s*(OVER\s*\(.*\))", re.IGNORECASE | re.DOTALL)
_SHARES = frozenset({2, 4, 5, 8, 10})
"""Numbers of tiles whose shares are short decimals."""


def shares_of_tiles(window: str) -> str:
    """Return the tile of a row by its share of the rows; "" for other windows."""
    match = _TILE.fullmatch(window)
    if match is None or int(match[1]) not in _SHARES:
        return ""
    tiles, share = int(match[1]), f"CUME_DIST() {match[2]}"
    cases = (f"WHEN {share} <= {tile / tiles:g} THEN {tile}" for tile in range(1, tiles))
    return f"CASE {' '.join(cases)} ELSE {tiles} END"


def unit_column(policy: Policy, name: str) -> str:
    """Return the column of a table that is the unit's key, or leads to it; "" for other tables."""
    table = policy.table(name)
    if table is None or name == policy.unit.table.lower():
        return policy.unit.key if table else ""
    return table.link.column if table.link and table.link.table == policy.unit.table else ""


def with_unit_key(select: WrittenSelect, key: str) -> str:
    """Return the text with groups of a SELECT by a unit's key too; "" where it counts different
    units, as each such group has one.
    """
    column = key.rpartition(".")[2]
    counted = rf"COUNT\s*\(\s*DISTINCT\s+(\w+\.)?{re.escape(column)}\b"
    if any(re.search(counted, select.text[i.start : i.stop], re.IGNORECASE) for i in select.items):
        return ""
    end = Span(select.items[-1].stop, select.items[-1].stop)
    edits = [(end, f", {key}")]
    if "group" in select.heads:
        edits.append(select.grouping(key))
    return select.edit(*edits).sql


def largest_group(select: WrittenSelect) -> str:
    """Return the query of the largest group, where the text is its MAX alone; else ""."""
    start, stop = select.words[select.first].start, select.words[select.after - 1].stop
    match = _LARGEST.fullmatch(select.text[:start])
    if match is None or "order" in select.heads or "limit" in select.heads:
        return ""
    return f"{select.text[start:stop]} ORDER BY {match[1]} DESC LIMIT 1"
