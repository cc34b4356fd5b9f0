"""Contribution limits of one privacy unit, as an owner writes them.

Data is clipped to them; they prove nothing: PRIVACY.md R74.
"""

from __future__ import annotations

from datetime import date
from decimal import Decimal

from dpsql.model.vocabulary import GroupingLimit
from dpsql.policy.value_reader import Reader

OF_ONE_UNIT = ("max_rows_per_unit", "max_groups_per_unit", "max_rows_per_group")
ROWS_PER_KEY = "max_rows_per_key"
PRIVATE = "private"
"""Value for: not declared; the contribution bound is found for each query."""
BY_GROUPING, ALL_OTHERS = ("max_groups_per_unit", "max_rows_per_group"), "*"
"""Limits that may differ by grouping, and the key of the limit for all other groupings."""


def limit_of(reader: Reader, key: str, _: None = None) -> int | None:
    """Return a contribution limit of one unit; None if nothing is declared."""
    if key in BY_GROUPING and isinstance(reader.values.get(key), dict):
        others = reader.table(key)
        return _count(others, ALL_OTHERS, key)
    return _count(reader, key, key)


def _count(reader: Reader, place: str, limit: str) -> int | None:
    private = limit in OF_ONE_UNIT and reader.values.get(place) == PRIVATE
    return None if private else reader.count(place)


def limits_by(reader: Reader, key: str) -> tuple[GroupingLimit, ...]:
    """Return limits for single groupings: by a column, or by an expression."""
    if not isinstance(reader.values.get(key), dict):
        return ()
    groupings = reader.table(key)
    groupings.distinct(tuple(groupings.values), None)
    if not groupings.values:
        reader.fail(key, f"{key} names no grouping.", f"Write {key} = {{ COLUMN = 10 }}.")
    limits = []
    for by in groupings.values:
        most = groupings.count(by)
        if by != ALL_OTHERS and most is not None:
            limits.append(GroupingLimit(by, most))
    return tuple(limits)


def rows_per_key(reader: Reader, key: str, _: None) -> tuple[tuple[str, int], ...]:
    """Return the most rows, of all units, that share a value of a column, by column."""
    columns = reader.table(key)
    columns.distinct(tuple(columns.values), None)
    counts = ((name, columns.count(name)) for name in columns.values)
    return tuple((name, most) for name, most in counts if most is not None)


def most_in_all(reader: Reader, key: str, _: None) -> Decimal:
    """Return the limit on the sum of absolute values of one unit."""
    most = reader.amount(key)
    if most <= 0:
        reader.fail(key, f"{key} must be above zero.", f"Write {key} = 10.")
    return most


def times_of(reader: Reader, key: str, _: None) -> tuple[date, date]:
    """Return the days to which aggregates clip dates and times without bounds."""
    days = reader.values[key]
    listed = days if isinstance(days, list) else []
    if [*map(type, listed)] != [date, date] or listed[0] > listed[1]:
        fix = f"Write {key} = [1900-01-01, 2199-12-31]."
        reader.fail(key, f"{key} are two days, the earlier first.", fix)
    return listed[0], listed[1]


def rollups_of(reader: Reader, key: str, _: None) -> tuple[tuple[str, ...], ...]:
    """Return the lists of columns by which `dpsql prepare` sums the rows of each unit."""
    listed = reader.values[key]
    right = isinstance(listed, list) and all(
        isinstance(keys, list) and all(isinstance(key, str) for key in keys) for keys in listed
    )
    if not right:
        fix = f'Write {key} = [[], ["country"], ["country", "month"]].'
        reader.fail(key, f"{key} is no list of lists of columns.", fix)
    return tuple(map(tuple, listed))
