"""Knowledge about a relation: dependencies between columns, and bounds on rows that agree on some.

Every row of a private table has a number of its own and the number of its unit: they are columns
with negative numbers. A column stays known when it is no longer selected, as long as every row
still has one value of it.

Proof (PRIVACY.md R96). Each statement holds for the rows of any one unit, for unowned rows as far
as they are compared by value, and for public rows. `Closure` applies dependencies alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import combinations
from math import prod
from typing import TypeAlias

from dpsql.model import tree
from dpsql.model.algebra import Field, Item, Values
from dpsql.model.comparisons import against_constant
from dpsql.model.dataclass import dataclass, field, replace
from dpsql.model.tree import Call, Kind, Literal, Ref
from dpsql.model.walk import conjuncts, refs

Columns: TypeAlias = frozenset[int]
NONE: Columns = frozenset()

INEXACT = frozenset({Kind.DOUBLE, Kind.TIMESTAMPTZ, Kind.INTERVAL, Kind.LIST, Kind.NULL})
"""Types with equal values that may be distinguishable, so that an equality is no dependency."""

BOUNDS_KEPT = 24
"""Number of bounds that are kept per relation: joins of many tables would have very many."""

MOST_SPREADS = 5
"""Number of tables with rows that are multiplied to bound the rows of a unit."""


@dataclass(frozen=True, slots=True)
class Dependency:
    """A dependency: rows that agree on `given` agree on `then`, unless a column of `present` is
    NULL.
    """

    given: Columns
    then: Columns
    present: Columns = NONE


@dataclass(frozen=True, slots=True)
class RowBound:
    """A bound: at most `rows` rows agree on `columns`."""

    columns: Columns
    rows: int = 1


@dataclass(frozen=True, slots=True)
class Lead:
    """The unit `owner` is that of the row of `table` with this key; none if there is no
    such row.
    """

    owner: int
    table: str
    key: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Rows:
    """Knowledge about a relation.

    `equal` are pairs of columns with one value; no column of `present` is NULL. `owners` are the
    units of the private rows that a row is made of. Rows of `keyed` tables with these keys are
    among them, and no other unit has a row with the key. One unit has at most a number of distinct
    values of each column of `spread`. `ranks` number the rows of a partition. Where a column of the
    first of an `optional` pair is not NULL, the second holds too. Without `local` nothing is known:
    a row may be made of several units' rows. Where a row is made of one row each of two units, or
    twice of one, at most `pairs` rows are made of one unit's (PRIVACY.md R94).
    """

    columns: Columns
    owners: Columns = NONE
    equal: tuple[tuple[int, int], ...] = ()
    present: Columns = NONE
    dependencies: tuple[Dependency, ...] = ()
    most: tuple[RowBound, ...] = ()
    leads: tuple[Lead, ...] = ()
    keyed: tuple[Lead, ...] = ()
    spread: tuple[tuple[int, int], ...] = ()
    ranks: Mapping[int, Columns] = field(default_factory=dict)
    optional: tuple[tuple[Columns, Rows], ...] = ()
    local: bool = True
    pairs: int | None = None

    @property
    def names_unit(self) -> bool:
        """True if a column of the relation has the number of the one unit of each row."""
        closure = Closure(self)
        units = closure.classes(self.owners)
        return len(units) == 1 and any(closure.same(n) in units for n in self.columns if n >= 0)

    def having(self, *rules: Dependency) -> Rows:
        """Return the same with more dependencies."""
        return replace(self, dependencies=self.dependencies + rules)

    @property
    def of_keys(self) -> tuple[Dependency, ...]:
        """Dependencies of keys: rows that agree on a key are one row."""
        keys = (m for m in self.most if m.rows == 1)
        return tuple(Dependency(m.columns, self.columns) for m in keys)

    def beside(self, other: Rows) -> Rows:
        """Combine both in one row; the join adds bounds of rows."""
        return Rows(
            columns=self.columns | other.columns,
            owners=self.owners | other.owners,
            equal=self.equal + other.equal,
            present=self.present | other.present,
            dependencies=self.dependencies + other.dependencies + self.of_keys + other.of_keys,
            leads=self.leads + other.leads,
            keyed=self.keyed + other.keyed,
            spread=self.spread + other.spread,
            ranks={**self.ranks, **other.ranks},
            optional=self.optional + other.optional,
            local=self.local and other.local and not self.columns & other.columns,
        )

    def led(self, lead: Lead, unit: str) -> Rows:
        """Return the rows with a lead to their unit; a column that holds the unit is equal
        to it.
        """
        if lead.table == unit:
            return replace(self, equal=(*self.equal, (lead.owner, lead.key[0])))
        rule = Dependency(frozenset(lead.key), frozenset({lead.owner}))
        return replace(self, leads=(*self.leads, lead)).having(rule)

    def settled(self) -> Rows:
        """Return the relation with all equalities that follow: of units by keys, of
        optional rows.
        """
        closure, first = Closure(self), dict[tuple[str, tuple[int, ...]], int]()
        for part in self.optional:
            if any(closure.is_present((n,)) for n in part[0]):
                rest = tuple(other for other in self.optional if other is not part)
                there = replace(part[1], owners=NONE, columns=NONE, ranks={}, spread=())
                whole = replace(self, optional=rest).beside(there)
                return replace(whole, most=self.most, local=self.local).settled()
        pairs = [
            (first.setdefault((lead.table, tuple(map(closure.same, lead.key))), lead.owner), lead)
            for lead in self.keyed + self.leads
        ]
        new = {(a, b.owner) for a, b in pairs if closure.same(a) != closure.same(b.owner)}
        return replace(self, equal=(*self.equal, *sorted(new))).settled() if new else self

    def projected(self, items: Iterable[Item]) -> Rows:
        """Return the rows with computed columns; unselected ones stay known."""
        equal, rules, added = list(self.equal), list[Dependency](), set(self.columns)
        for item in items:
            added.add(item.field.id)
            if isinstance(item.expression, Ref):
                equal.append((item.field.id, item.expression.id))
            else:
                rules.append(Dependency(refs(item.expression), frozenset({item.field.id})))
        return replace(self, columns=frozenset(added), equal=tuple(equal)).having(*rules)

    def where(self, condition: tree.Expression | None, fields: Sequence[Field]) -> Rows:
        """Return the rows for which a condition is true, with its consequences for columns."""
        kinds = {f.id: f.type for f in fields}
        equal, present, rules = list(self.equal), set(self.present), list[Dependency]()
        for part in conjuncts(condition):
            match part:
                case Call("eq", (Ref(id=a), Ref(id=b))) if _exactly(kinds, a, kinds.get(b)):
                    equal.append((a, b))
                    present |= {a, b}
                case Call("not", (Call("is_null", (Ref(id=a),)),)):
                    present.add(a)
                case _:
                    match against_constant(part):
                        case ("eq", Ref(id=a), value) if _exactly(kinds, a, value.type):
                            rules.append(Dependency(NONE, frozenset({a})))
                            present.add(a)
        rows = replace(self, equal=tuple(equal), present=frozenset(present)).having(*rules)
        return rows.ranked(conjuncts(condition)).settled()

    def ranked(self, parts: Iterable[tree.Expression]) -> Rows:
        """Return the rows with a number in their partition of at most a constant."""
        closure = Closure(self)
        ranks, most = {closure.same(n): n for n in self.ranks}, list(self.most)
        for part in parts:
            match against_constant(part):
                case ("eq" | "le" | "lt" as name, Ref(id=a), Literal(value=int() as k)):
                    rank = ranks.get(closure.same(a))
                    given = NONE if rank is None else self.ranks[rank]
                    times = closure.most(self.most, {a, *given})
                    limit = {"eq": 1, "le": k, "lt": k - 1}[name]
                    if rank is not None and times is not None and not isinstance(k, bool):
                        most.append(RowBound(given, max(limit, 1) * times))
        return replace(self, most=tuple(most))


def _exactly(kinds: Mapping[int, tree.SqlType], column: int, kind: tree.SqlType | None) -> bool:
    """Test whether a column has this type, and equal values of the type are identical."""
    return kind is not None and kind.kind not in INEXACT and kinds.get(column) == kind


def products(
    left: Sequence[RowBound], right: Sequence[RowBound], times: int | None, back: int | None
) -> tuple[RowBound, ...]:
    """Return bounds of a join: rows of the left meet `times` rows each, those of the right
    `back`.
    """
    bounds = [] if times is None else [replace(m, rows=m.rows * times) for m in left]
    bounds += [] if back is None else [replace(m, rows=m.rows * back) for m in right]
    bounds += [RowBound(a.columns | b.columns, a.rows * b.rows) for a in left for b in right]
    least = list[RowBound]()
    for bound in sorted(dict.fromkeys(bounds), key=lambda m: (m.rows, len(m.columns))):
        if not any(m.columns <= bound.columns for m in least):
            least.append(bound)
    return tuple(least[:BOUNDS_KEPT])


def keys_of_constants(relation: Values) -> Iterator[RowBound]:
    """Yield the columns of constants that are all different, or all of them together."""
    rows, fields = relation.rows, relation.fields
    if len(rows) <= 1:
        yield RowBound(NONE)
    exact = tuple(n for n, f in enumerate(fields) if f.type.kind not in INEXACT)
    for places in [*((n,) for n in exact), exact]:
        if len({tuple(row[n].value for n in places) for row in rows}) == len(rows):
            yield RowBound(frozenset(fields[n].id for n in places))


class Closure:
    """The columns that follow from others, in a relation."""

    def __init__(self, rows: Rows) -> None:
        self._first: dict[int, int] = {}
        for a, b in rows.equal:
            one, other = self.same(a), self.same(b)
            if one != other:
                self._first[max(one, other)] = min(one, other)
        self._present = frozenset(map(self.same, rows.present))
        self._rules = [
            (self.classes(rule.given), self.classes(rule.then))
            for rule in rows.dependencies + rows.of_keys
            if self.is_present(rule.present)
        ]

    def same(self, column: int) -> int:
        """Return the representative of all columns equal to this one."""
        while column in self._first:
            column = self._first[column]
        return column

    def classes(self, columns: Iterable[int]) -> Columns:
        """Return the representatives of these columns."""
        return frozenset(map(self.same, columns))

    def is_present(self, columns: Iterable[int]) -> bool:
        """Test whether no row has NULL in one of these columns."""
        return self.classes(columns) <= self._present

    def of(self, columns: Iterable[int]) -> Columns:
        """Return the columns on which rows agree if they agree on these; one column of each
        class.
        """
        reached, left, more = self.classes(columns), self._rules, True
        while more:
            applied = [then for given, then in left if given <= reached]
            left = [rule for rule in left if not rule[0] <= reached]
            more, reached = bool(applied), reached.union(*applied)
        return reached

    def most(self, bounds: Sequence[RowBound], given: Iterable[int]) -> int | None:
        """Return the least of these bounds on the rows that agree on some columns."""
        reached = self.of(given)
        proved = (bound.rows for bound in bounds if self.classes(bound.columns) <= reached)
        return min(proved, default=None)


@dataclass(frozen=True, slots=True)
class Proof:
    """A proof about the rows of each value of `unit` in a relation."""

    rows: Rows
    unit: int

    @property
    def is_local(self) -> bool:
        """True if each row is made of the rows of its unit and of public ones."""
        closure = Closure(self.rows)
        whose = closure.classes(self.rows.owners)
        return self.rows.local and whose == closure.classes({self.unit})

    def most_rows(self, within: Iterable[int] = ()) -> int | None:
        """Return the most rows of one unit that agree on some columns; None if unproved."""
        return self._least(lambda closure, given: closure.most(self.rows.most, (*given, *within)))

    def most_values(self, columns: Iterable[int]) -> int | None:
        """Return the most distinct values of columns that one unit has."""
        selected = frozenset(columns)

        def one(closure: Closure, given: tuple[int, ...]) -> int | None:
            return 1 if closure.classes(selected) <= closure.of(given) else None

        return self._least(one)

    def _least(self, bound: Callable[[Closure, tuple[int, ...]], int | None]) -> int | None:
        """Return the least bound, over rows that agree on the unit and on a few of its rows."""
        if not self.is_local:
            return None
        closure, bounds = Closure(self.rows), list[int]()
        for size in range(min(MOST_SPREADS, len(self.rows.spread)) + 1):
            for chosen in combinations(self.rows.spread, size):
                each = bound(closure, (self.unit, *(number for number, _ in chosen)))
                bounds += [] if each is None else [each * prod(most for _, most in chosen)]
        return min(bounds, default=None)
