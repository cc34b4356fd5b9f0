"""Keys that several rows of one unit share: whole tables with the first and last unit of each key.

Proof (PRIVACY.md R96). All rows of a table are read. Where the first and the last unit of a key are
one, every row with this key is of that unit.
"""

from __future__ import annotations

from collections.abc import Callable

from dpsql.compiler.kernel.alike_rows import equated_pairs, places_of
from dpsql.model import algebra
from dpsql.model.algebra import Relation
from dpsql.model.dataclass import dataclass
from dpsql.model.tree import AggregateCall, JoinKind, Ref
from dpsql.model.vocabulary import Policy, TablePolicy
from dpsql.model.walk import conjuncts


@dataclass(frozen=True, slots=True)
class WholeTable:
    """The rows of a table that link to a unit, with the first and last unit of their key.

    `different` says that no two rows have one key.
    """

    table: str
    key: tuple[int, ...]
    ends: tuple[int, int]
    different: bool


@dataclass(frozen=True, slots=True)
class WholeTables:
    """The reader of whole tables; `is_unique` tests the key of a scan, `link` has its columns."""

    policy: Policy
    is_unique: Callable[[TablePolicy, algebra.Scan], bool]
    link: Callable[[TablePolicy, algebra.Scan], tuple[int, ...]]

    def whole(self, relation: Relation) -> WholeTable | None:
        """Return a whole table with the first and last unit of each key, if the relation has that
        form.
        """
        match relation:
            case algebra.Scan(table=name):
                table = self.policy.table(name)
                if table is None or table.link is None or table.link.more:
                    return None
                key, link = places_of(table.key, relation), places_of(table.link.columns, relation)
                if table.link.table != self.policy.unit.table or not (key and link):
                    return None
                different = self.is_unique(table, relation)
                return WholeTable(table.name, key, (link[0], link[0]), different)
            case algebra.Join(left=algebra.Scan(table=name) as scan, kind=JoinKind.INNER):
                table, above = self.policy.table(name), self.whole(relation.right)
                if table is None or table.link is None or above is None:
                    return None
                key, met = places_of(table.key, scan), list(equated_pairs(relation))
                same = list(zip(self.link(table, scan), above.key, strict=False))
                plain = len(met) == len(conjuncts(relation.condition)) == len(above.key)
                if table.link.table != above.table or not key or not plain or same != met:
                    return None
                different = above.different and self.is_unique(table, scan)
                return WholeTable(table.name, key, above.ends, different)
            case algebra.Aggregate(keys=keys, measures=measures, sets=()):
                whole = self.whole(relation.input)
                read = [k.expression.id if isinstance(k.expression, Ref) else None for k in keys]
                if whole is None or read != list(whole.key):
                    return None
                ends = [("min", whole.ends[0]), ("max", whole.ends[1])]
                if [_end(measure.call) for measure in measures] != ends:
                    return None
                first, last = (measure.field.id for measure in measures)
                return WholeTable(whole.table, tuple(k.field.id for k in keys), (first, last), True)
            case _:
                return None


def _end(call: AggregateCall) -> tuple[str, int] | None:
    """Return MIN or MAX and its column, if a call is just that."""
    match call.args:
        case (Ref(id=column) as argument,):
            plain = AggregateCall(call.function, (argument,), type=call.type)
            return (call.function, column) if call == plain else None
        case _:
            return None
