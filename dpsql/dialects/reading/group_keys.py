"""GROUP BY: its keys, and the groupings of ROLLUP, CUBE and GROUPING SETS."""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations
from typing import TypeAlias

from sqlglot import exp

from dpsql.dialects.reading.nodes import Origin
from dpsql.model.dataclass import dataclass, field
from dpsql.model.errors import Reason, Refused
from dpsql.model.tree import Expression, Star

Set: TypeAlias = tuple[int, ...]
Read: TypeAlias = Callable[[exp.Expression, Origin], Expression]

MAX_SETS = 64
"""Limit on the groupings of one GROUP BY: CUBE doubles them with each key."""


@dataclass(slots=True)
class _Keys:
    """Keys in the order of their first occurrence, each once."""

    read: Read
    origin: Origin
    listed: list[Expression] = field(default_factory=list)

    def place(self, node: exp.Expression) -> int:
        key = self.read(node, self.origin)
        if key not in self.listed:
            self.listed.append(key)
        return self.listed.index(key)

    def composite(self, node: exp.Expression) -> Set:
        """Return a key, or several in parentheses that are grouped together, as places."""
        if isinstance(node, exp.Tuple):
            (members,) = self.origin.take(node, "expressions")
            return tuple(self.place(member) for member in members or ())
        return (self.place(node),)

    def sets(self, node: exp.Expression) -> list[Set]:
        """Return the groupings of one element of GROUP BY."""
        if not isinstance(node, exp.Rollup | exp.Cube | exp.GroupingSets):
            return [self.composite(node)]
        (members,) = self.origin.take(node, "expressions")
        if isinstance(node, exp.GroupingSets):
            return [chosen for member in members for chosen in self.sets(member)]
        parts = [self.composite(member) for member in members]
        if isinstance(node, exp.Rollup):
            return [_joined(parts[:size]) for size in range(len(parts), -1, -1)]
        if 2 ** len(parts) > MAX_SETS:
            raise _too_many(node, self.origin)
        sizes = range(len(parts), -1, -1)
        return [_joined(list(some)) for size in sizes for some in combinations(parts, size)]


def groups(
    node: exp.Expression | None, origin: Origin, read: Read
) -> tuple[tuple[Expression, ...], tuple[Set, ...]]:
    """Return all keys, and the sets of keys of ROLLUP, CUBE and GROUPING SETS.

    A plain GROUP BY has no such sets. GROUP BY ALL gives one key, a `Star`.
    """
    if node is None:
        return (), ()
    elements, every = origin.take(node, "expressions", "all")
    if every:
        return (Star(None, origin.span(node)),), ()
    keys = _Keys(read, origin)
    product: list[Set] = [()]
    for element in elements or ():
        product = [_joined([a, b]) for a in product for b in keys.sets(element)]
        if len(product) > MAX_SETS:
            raise _too_many(node, origin)
    # GROUP BY () is one group, which needs no keys; one grouping by all keys needs no sets.
    plain = len(product) == 1 and bool(keys.listed)
    return tuple(keys.listed), () if plain else tuple(product)


def _joined(parts: list[Set]) -> Set:
    return tuple(dict.fromkeys(place for part in parts for place in part))


def _too_many(node: exp.Expression, origin: Origin) -> Refused:
    return Refused(Reason.TOO_LARGE, origin.span(node), what="groupings", limit=MAX_SETS)
