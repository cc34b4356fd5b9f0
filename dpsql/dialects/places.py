"""The order of a unit's groups, the same for all questions, on engines with `hash`."""

from __future__ import annotations

from collections.abc import Sequence


def place_in_unit(unit: str, keys: Sequence[str], counted: str = "ROW_NUMBER") -> str:
    """Return SQL for the place of a group among those of its unit, from 1, by a hash and then by
    keys.

    For several rows per group, DENSE_RANK gives the number of their group.

    >>> place_in_unit("u", ["k0"])
    'ROW_NUMBER() OVER (PARTITION BY u ORDER BY hash(u, k0), k0)'
    """
    listed = ", ".join(keys)
    return f"{counted}() OVER (PARTITION BY {unit} ORDER BY hash({unit}, {listed}), {listed})"
