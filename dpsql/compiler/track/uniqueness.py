"""Keys of public or released relations: at most one row has their values.

Proof (PRIVACY.md R22). In a join, two rows that agree on a key of the left have the same left row.
If that meets at most one right row they are one row. Columns count as equated only where equal
values are one value.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import date, time
from math import isnan
from typing import TypeAlias
from uuid import UUID

from dpsql.compiler.track.equalities import equal_columns
from dpsql.model import algebra
from dpsql.model.dataclass import dataclass, replace
from dpsql.model.tree import JoinKind, Ref, SqlType, Value
from dpsql.model.vocabulary import Fact, FactKind, Policy

Keys: TypeAlias = "tuple[Key, ...]"
MOST_KEYS = 8
"""Largest number of keys per relation: a join of many tables would have very many."""


@dataclass(frozen=True, slots=True)
class Key:
    """Columns on which no two rows agree, except NULLs, and the facts that prove it.

    With `nulls`, no two rows agree on them even if NULL counts as a value.
    """

    columns: frozenset[int]
    facts: frozenset[Fact] = frozenset()
    nulls: bool = False


def keys_of(relation: algebra.Relation, policy: Policy, block_keys: Callable[[int], int]) -> Keys:
    """Return the known keys; `block_keys` returns the number of key columns of a released block."""

    def keys(relation: algebra.Relation) -> Keys:
        match relation:
            case algebra.OneRow():
                return (Key(frozenset()),)
            case algebra.Scan():
                return _declared(relation, policy)
            case algebra.Values():
                return _written(relation)
            case algebra.Released():
                count = block_keys(relation.block)
                return (Key(frozenset(f.id for f in relation.fields[:count])),)
            case algebra.Staged(source=source) if source is not None:
                return _evaluated(keys(source), policy)
            case algebra.Aggregate(sets=()):
                return (Key(frozenset(item.field.id for item in relation.keys)),)
            case algebra.Project():
                return projected_keys(keys(relation.input), relation.items)
            case (
                algebra.Filter()
                | algebra.Sort()
                | algebra.Window()
                | algebra.Match()
                | algebra.Apply()
            ):
                return keys(relation.input)
            case algebra.Limit():
                single = (Key(frozenset()),) if relation.limit == 1 else ()
                return single + keys(relation.input)
            case algebra.Join():
                return _joined(relation, keys(relation.left), keys(relation.right))
            case _:
                return ()

    return keys(relation)


def key_within(keys: Sequence[Key], columns: frozenset[int]) -> Key | None:
    """Return a key with all columns among these; the one with the fewest facts."""
    fitting = [key for key in keys if key.columns <= columns]
    return min(fitting, key=lambda key: len(key.facts), default=None)


def _evaluated(keys: Keys, policy: Policy) -> Keys:
    """Return the keys that hold in every evaluation: a fact about a view was checked in one of
    them.
    """

    def is_view(name: str) -> bool:
        table = policy.table(name)
        return table is not None and table.view

    return tuple(key for key in keys if not any(is_view(fact.table) for fact in key.facts))


def _declared(scan: algebra.Scan, policy: Policy) -> Keys:
    table = policy.table(scan.table)
    assert table is not None
    fact = policy.fact(FactKind.UNIQUE_KEY, table.name)
    named = {f.name.lower(): f.id for f in scan.fields}
    names = [name.lower() for name in table.key]
    if fact is None or not names or not all(name in named for name in names):
        return ()
    return (Key(frozenset(named[name] for name in names), frozenset({fact})),)


def _written(relation: algebra.Values) -> Keys:
    """Return the columns of constants that are all different, also as DOUBLE.

    If there are none, return the first columns that are different together.
    """
    keys = list[Key]()
    for place, column in enumerate(relation.fields):
        values = [_as_compared(row[place].value, column.type) for row in relation.rows]
        if len({value for value in values if value is not None}) == len(relation.rows):
            keys.append(Key(frozenset({column.id}), nulls=True))
    single = [Key(frozenset(), nulls=True)] if len(relation.rows) == 1 else []
    return tuple((single + keys)[:MOST_KEYS]) or _together(relation)


def _together(relation: algebra.Values) -> Keys:
    """Return the first columns on which no two rows of constants agree."""
    rows: list[tuple[Value, ...]] = [()] * len(relation.rows)
    for place, column in enumerate(relation.fields):
        values = [_as_compared(row[place].value, column.type) for row in relation.rows]
        if None in values:
            return ()
        rows = [(*row, value) for row, value in zip(rows, values, strict=True)]
        if len(set(rows)) == len(rows):
            return (Key(frozenset(f.id for f in relation.fields[: place + 1]), nulls=True),)
    return ()


def _as_compared(value: Value, kind: SqlType) -> Value:
    """Return a constant as DOUBLE where its column is numeric; None if it is no number."""
    if value is None or not kind.is_numeric:
        return value
    number = None if isinstance(value, str | date | time | UUID) else float(value)
    return None if number is None or isnan(number) else number


def projected_keys(keys: Keys, items: tuple[algebra.Item, ...]) -> Keys:
    """Return the keys with all columns projected, under their new identities."""
    renamed = {
        item.expression.id: item.field.id for item in items if isinstance(item.expression, Ref)
    }
    return tuple(
        replace(key, columns=frozenset(renamed[n] for n in key.columns))
        for key in keys
        if key.columns <= renamed.keys()
    )


def _joined(join: algebra.Join, left: Keys, right: Keys) -> Keys:
    """Return the keys of a join: a side's keys stay where its rows meet at most one of the other
    side.
    """
    if join.kind in (JoinKind.RIGHT, JoinKind.FULL):
        return ()
    equal = equal_columns(join.condition, {f.id for f in join.left.fields})
    keys = []
    if (once := key_within(right, frozenset(equal.values()))) is not None:
        keys += [Key(key.columns, key.facts | once.facts) for key in left]
    if join.kind is not JoinKind.LEFT:
        once = key_within(left, frozenset(equal))
        keys += [] if once is None else [Key(k.columns, k.facts | once.facts) for k in right]
    keys += [Key(a.columns | b.columns, a.facts | b.facts) for a in left for b in right]
    return tuple(keys[:MOST_KEYS])
