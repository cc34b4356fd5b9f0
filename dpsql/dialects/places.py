"""The order of a unit's groups, the same for all questions, for an engine that has `hash`."""

from __future__ import annotations

from collections.abc import Sequence


def place_in_unit(unit: str, keys: Sequence[str], counted: str = "ROW_NUMBER") -> str:
    """The place of a group among those of its unit, counted from 1: by a hash, and then by keys.

    Of rows of groups, and not of one total of each, DENSE_RANK is the number of their group.

    >>> place_in_unit("u", ["k0"])
    'ROW_NUMBER() OVER (PARTITION BY u ORDER BY hash(u, k0), k0)'
    """
    listed = ", ".join(keys)
    return f"{counted}() OVER (PARTITION BY {unit} ORDER BY hash({unit}, {listed}), {listed})"
