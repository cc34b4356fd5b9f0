"""All groups among which conditions choose, which are worth measuring once.

`SELECT COUNT(*) … WHERE city = 'x' GROUP BY age` reads one city of a table by city and age. Where a
unit has one city, that table costs no more than its slice, and has more information.

Totals of some cells are those of all rows only if every row is in a cell. For a column with
declared values this holds if the engine excludes others. Otherwise rows with NULL, or with an
unlisted value, get one more cell (see `_closed`).

Proof (PRIVACY.md R79). Rows of one cell agree on its keys, so that a condition that reads one
listed column alone is true in all rows of a cell or in none.
"""

from __future__ import annotations

from functools import partial
from typing import TypeAlias

from dpsql.compiler.plan.conditions import required
from dpsql.compiler.plan.private_plan import PrivateBlock
from dpsql.compiler.plan.wide_tables import has_one
from dpsql.compiler.resolve.scopes import Identities
from dpsql.model import algebra
from dpsql.model.dataclass import dataclass, replace
from dpsql.model.tree import BOOLEAN, Call, Expression, JoinKind, Kind, Literal, Ref, Value, when
from dpsql.model.vocabulary import ColumnPolicy, Policy
from dpsql.model.walk import both, conjuncts

Values: TypeAlias = tuple[Value, ...]
_PLAIN = frozenset({Kind.BOOLEAN, Kind.INTEGER, Kind.VARCHAR, Kind.DATE})
"""Types with the same equality of values in Python and in the engine."""


@dataclass(frozen=True, slots=True)
class WideKey:
    """A key: conditions keep the `chosen` values (None: no condition reads it alone).

    `whole` says that every row has one of its values, where `other` rows have NULL.
    """

    chosen: frozenset[Value] | None = None
    whole: bool = False
    other: bool = False


@dataclass(frozen=True, slots=True)
class WideGroups:
    """An aggregate of all groups, with facts about its keys; the first are the query's own."""

    relation: algebra.Aggregate
    keys: tuple[WideKey, ...]


def wide_groups(
    relation: algebra.Relation, block: PrivateBlock, policy: Policy, identities: Identities
) -> WideGroups | None:
    """Return the aggregate with this block's measures by all columns on which conditions choose
    values.

    A unit has one value of each of these columns.
    """
    match relation:
        case algebra.Aggregate(sets=()) if _ids(relation.measures) == _ids(block.measures):
            return _Widening(block, policy, identities).of(relation)
        case (
            algebra.Project()
            | algebra.Sort()
            | algebra.Limit()
            | algebra.Filter()
            | algebra.Window()
            | algebra.Aggregate()
        ):
            return wide_groups(relation.input, block, policy, identities)
        case _:
            return None


@dataclass(frozen=True, slots=True)
class _Widening:
    """Leaves out conditions on columns on which all rows of a unit of the `block` agree."""

    block: PrivateBlock
    policy: Policy
    identities: Identities

    def of(self, aggregate: algebra.Aggregate) -> WideGroups:
        rows, conditions = _parts(aggregate.input)
        keys = {key.expression: key for key in aggregate.keys}
        chosen: dict[Expression, frozenset[Value]] = {}
        others = list[Expression]()
        for condition in conditions:
            column, values = _choice(condition) or (None, frozenset())
            if column is None or column in chosen or not has_one(self.block, column):
                others.append(condition)
                continue
            declared = _declared(rows, column.id, self.policy)
            if values <= set(_values(declared) or ()):
                chosen[column] = values
                named = self.identities.field(declared.name if declared else "", column.type)
                keys.setdefault(column, algebra.Item(named, column))
            else:
                others.append(condition)
        left = both(tuple(others))
        rows = rows if left is None else algebra.Filter(rows, left)
        closed = [self._closed(rows, key, chosen.get(key)) for key in keys]
        items = (
            replace(item, expression=expression)
            for item, (expression, _) in zip(keys.values(), closed, strict=True)
        )
        wide = replace(aggregate, input=rows, keys=tuple(items))
        return WideGroups(wide, tuple(key for _, key in closed))

    def _closed(
        self, rows: algebra.Relation, key: Expression, chosen: frozenset[Value] | None
    ) -> tuple[Expression, WideKey]:
        """Return a key with one of its values in every row, where that is possible.

        Rows with an unlisted value have NULL, unless the engine excludes all of them, and NULL too.
        """
        if not isinstance(key, Ref) or not has_one(self.block, key):
            return key, WideKey(chosen)
        column = _declared(rows, key.id, self.policy)
        listed = _values(column)
        if column is None or listed is None:
            return key, WideKey(chosen)
        enforced = column.enforced or key.type == BOOLEAN
        if enforced and (column.not_null or column.nullable):
            return key, WideKey(chosen, whole=True)
        if column.nullable:  # it has rows with NULL, which must stay separate from other rows
            return key, WideKey(chosen)
        constants = tuple(Literal(value, key.type) for value in listed)
        among = Call("in", (key, *constants), BOOLEAN)
        return when(among, key, None, key.type), WideKey(chosen, whole=True, other=True)


def _ids(measures: tuple[algebra.Measure, ...]) -> set[int]:
    return {measure.field.id for measure in measures}


def _parts(relation: algebra.Relation) -> tuple[algebra.Relation, tuple[Expression, ...]]:
    """Split a relation into rows and the conditions that they satisfy."""
    match relation:
        case algebra.Filter(input=rows, predicate=predicate):
            return rows, required(conjuncts(predicate))
        case _:
            return relation, ()


def _choice(condition: Expression) -> tuple[Ref, frozenset[Value]] | None:
    """Return the column and its values that a canonical condition selects, if it reads nothing
    else.
    """
    match condition:
        case Ref():
            return condition, frozenset({True})
        case Call(function="not", args=(Ref() as column,)):
            return column, frozenset({False})
        case Call(function="eq" | "in", args=(Ref() as column, *options)):
            values = [o.value for o in options if isinstance(o, Literal) and o.type == column.type]
            return (column, frozenset(values)) if len(values) == len(options) else None
        case _:
            return None


def _values(column: ColumnPolicy | None) -> Values | None:
    """Return all values except NULL that the owner declares, or the type has."""
    if column is None or column.type.kind not in _PLAIN:
        return None
    return (True, False) if column.type == BOOLEAN else column.values


def _declared(relation: algebra.Relation, number: int, policy: Policy) -> ColumnPolicy | None:
    """Return the declared private column that a column of a relation is, in every row."""
    declared = partial(_declared, number=number, policy=policy)
    match relation:
        case algebra.Scan():
            name = next((f.name for f in relation.fields if f.id == number), None)
            table = policy.table(relation.table)
            here = name is not None and table is not None and table.private
            return table.column(name) if here and table and name else None
        case algebra.Filter() | algebra.Sort() | algebra.Window() | algebra.Match():
            return declared(relation.input)
        case algebra.Project(items=items):
            item = next((item for item in items if item.field.id == number), None)
            source = None if item is None else item.expression
            return _declared(relation.input, source.id, policy) if isinstance(source, Ref) else None
        case algebra.Join(kind=JoinKind.INNER | JoinKind.CROSS):
            return declared(relation.left) or declared(relation.right)
        case algebra.Join(kind=JoinKind.LEFT):
            return declared(relation.left)
        case _:
            return None
