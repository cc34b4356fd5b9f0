"""Joins of views: which keys stay unique, and whether a join finds at most one row.

Proof (PRIVACY.md R98). Where one side's unique key is equated, each row of the other side meets at
most one: no row is multiplied, and the other side's keys stay unique.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

from dpsql.compiler.track.equalities import equal_columns
from dpsql.model.algebra import Filter, Join, Project, Relation, Scan, Sort
from dpsql.model.schema import SchemaTable
from dpsql.model.tree import DOUBLE, JoinKind, Ref

Keys = frozenset[frozenset[int]]
NO_KEYS: Keys = frozenset()
T = TypeVar("T", int, str)


class NotExpanded(Exception):
    """The reason why a view is not expanded."""


def unique_keys(relation: Relation, tables: Mapping[str, SchemaTable]) -> Keys:
    """Return the columns on which no two rows agree. Raises `NotExpanded` if rows multiply."""
    match relation:
        case Scan(table=name, rows=None, fields=fields):
            ids = {f.name: f.id for f in fields}
            return _named(_stored_keys(tables[name]), ids)
        case Scan(rows=inner, fields=fields) if inner is not None:
            ids, there = {f.name: f.id for f in fields}, {f.id: f.name for f in inner.fields}
            inside = unique_keys(inner, tables)
            return _named(frozenset(frozenset(there[n] for n in key) for key in inside), ids)
        case Project(input=below, items=items):
            plain = {i.expression.id: i.field.id for i in items if isinstance(i.expression, Ref)}
            return _named(unique_keys(below, tables), plain)
        case Filter(input=below) | Sort(input=below):
            return unique_keys(below, tables)
        case Join():
            return _joined_keys(relation, tables)
        case _:
            raise NotExpanded("it reads more than the rows of tables")


def _named(keys: frozenset[frozenset[T]], names: Mapping[T, int]) -> Keys:
    """Return the keys with columns that are all present, under their new numbers."""
    return frozenset(frozenset(names[c] for c in key) for key in keys if key <= names.keys())


def _stored_keys(table: SchemaTable) -> frozenset[frozenset[str]]:
    """Return the keys that the engine enforces for values as they are read, without DOUBLEs.

    Texts that are cut may become equal.
    """
    changed = {c.name for c in table.columns if c.reading is not None or c.cut or c.type == DOUBLE}
    return frozenset(frozenset(key) for key in table.unique_keys if changed.isdisjoint(key))


def _joined_keys(join: Join, tables: Mapping[str, SchemaTable]) -> Keys:
    if join.kind not in (JoinKind.INNER, JoinKind.LEFT) or join.condition is None:
        raise NotExpanded("it joins tables otherwise than by JOIN or LEFT JOIN with a condition")
    left, right = unique_keys(join.left, tables), unique_keys(join.right, tables)
    pairs = equal_columns(join.condition, {f.id for f in join.left.fields})
    one = any(key <= {*pairs.values()} for key in right)
    back = any(key <= pairs.keys() for key in left)
    if not one and not back:
        raise NotExpanded("it joins tables, and equates all of a unique key of neither")
    whole = back and join.kind is JoinKind.INNER
    return (left if one else NO_KEYS) | (right if whole else NO_KEYS)
