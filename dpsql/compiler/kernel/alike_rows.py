"""Bounds, by facts, on the rows of all units that agree on columns.

Proof (PRIVACY.md R94). A fact bounds the stored rows with one value, of all units and of none, and
it survives the removal of units. Filters, tests and windows add no row. In an inner join, each row
of one side meets at most as many rows of the other as agree on what the join equates; in an outer
join each row of the left stays at least once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from dpsql.compiler.kernel.known import INEXACT, NONE, Columns
from dpsql.model import algebra
from dpsql.model.algebra import Field, Relation
from dpsql.model.dataclass import dataclass
from dpsql.model.tree import Call, JoinKind, Ref
from dpsql.model.vocabulary import FactKind, Policy, TablePolicy
from dpsql.model.walk import conjuncts, relations


@dataclass(frozen=True, slots=True)
class AlikeRows:
    """Upper bounds on rows that agree on columns; `public` returns that of a public relation.

    `has` tests for a fact of a table, about the table or about the subject that is named.
    """

    policy: Policy
    has: Callable[[FactKind, TablePolicy, str], bool]
    public: Callable[[Relation, Columns], int | None]

    def most(self, relation: Relation, columns: Columns) -> int | None:
        """Return the most rows with the same values, none of them NULL; None if unproved."""
        if not any(map(self._is_private, relations(relation))):
            return self.public(relation, columns)
        match relation:
            case algebra.Scan():
                return self._in_table(relation, columns)
            case algebra.Filter() | algebra.Sort() | algebra.Match() | algebra.Window():
                return self.most(relation.input, columns)
            case algebra.Project(items=items):
                read = (item.expression for item in items if item.field.id in columns)
                selected = frozenset(each.id for each in read if isinstance(each, Ref))
                return self.most(relation.input, selected)
            case algebra.Aggregate(sets=()):
                return 1 if ids_of(relation.keys) <= columns else None
            case algebra.Join(kind=JoinKind.INNER | JoinKind.CROSS):
                return self._in_join(relation, columns)
            case algebra.Join(kind=JoinKind.LEFT):
                return self._in_left_join(relation, columns)
            case _:
                return None

    def _is_private(self, part: Relation) -> bool:
        table = self.policy.table(part.table) if isinstance(part, algebra.Scan) else None
        return isinstance(part, algebra.Scan) and (table is None or table.private)

    def _in_table(self, scan: algebra.Scan, columns: Columns) -> int | None:
        """Return the bound for the stored rows of a table."""
        table = self.policy.table(scan.table)
        if table is None:
            return None
        unique = self.has(FactKind.UNIQUE_KEY, table, "")
        if unique and NONE < stored_columns(table.key, scan) <= columns:
            return 1
        counts = (
            most
            for name, most in table.max_rows_per_key
            if self.has(FactKind.ROWS_PER_KEY, table, table.agreeing((name,)))
            and NONE < stored_columns((name,), scan) <= columns
        )
        return min(counts, default=None)

    def _in_join(self, join: algebra.Join, columns: Columns) -> int | None:
        """Return the bound for one side, times the rows of the other that meet one of them."""
        met, sides = list(equated_pairs(join)), (join.left, join.right)
        given = columns.union(*({a, b} for a, b in met if {a, b} & columns))
        bounds = list[int]()
        for first, second, place in ((*sides, 1), (*sides[::-1], 0)):
            rows = self.most(first, given & ids_of(first.fields))
            equated = given & ids_of(second.fields) | {pair[place] for pair in met}
            times = None if rows is None else self.most(second, equated)
            bounds += [] if rows is None or times is None else [rows * times]
        return min(bounds, default=None)

    def _in_left_join(self, join: algebra.Join, columns: Columns) -> int | None:
        """Return the bound for rows of the left, times those of the right that meet one, or one."""
        rows = self.most(join.left, columns & ids_of(join.left.fields))
        times = self.most(join.right, frozenset(there for _, there in equated_pairs(join)))
        return None if rows is None or times is None else rows * max(times, 1)


def ids_of(parts: Iterable[Field | algebra.Item | algebra.Measure | algebra.WindowItem]) -> Columns:
    """Return the columns of these parts."""
    return frozenset(part.id if isinstance(part, Field) else part.field.id for part in parts)


def places_of(listed: Sequence[str], scan: algebra.Scan) -> tuple[int, ...]:
    """Return the columns of these names, if all of them exist and are exact."""
    names = {f.name.lower(): f for f in scan.fields if f.type.kind not in INEXACT}
    ids = [names[name.lower()].id for name in listed if name.lower() in names]
    return tuple(ids) if len(ids) == len(listed) else ()


def stored_columns(listed: Sequence[str], scan: algebra.Scan) -> Columns:
    """Return the columns of these names that are read as they are stored, as facts assume."""
    read = {name.lower() for name, _ in scan.readings}
    return NONE if read & {name.lower() for name in listed} else frozenset(places_of(listed, scan))


def key_is_link(table: TablePolicy) -> bool:
    """Test whether a table's key is its link too: its values are keys of the target."""
    link = () if table.link is None else table.link.columns
    return len(table.key) == len(link) == 1 and table.key[0].lower() == link[0].lower()


def equated_pairs(join: algebra.Join) -> Iterator[tuple[int, int]]:
    """Yield pairs of left and right columns that the join condition equates."""
    kinds = {f.id: f.type for f in join.fields}
    here = ids_of(join.left.fields)
    for part in conjuncts(join.condition):
        match part:
            case Call("eq", (Ref(id=a), Ref(id=b))) if (
                (a in here) != (b in here)
                and kinds.get(a) == kinds.get(b)
                and kinds[a].kind not in INEXACT
            ):
                yield (a, b) if a in here else (b, a)
