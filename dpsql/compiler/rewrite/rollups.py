"""Rollups: counts and sums by unit in the store, which replace the rows that they summarise.

A rollup has a row for each unit and group of a table by some columns. It holds the number of rows,
and sums of measurements' additions per row, clipped and rounded as they specify. A block over this
table alone, which reads only these columns, adds up these.

Proof (PRIVACY.md R87). A unit's total in a group of a block is a sum over its rows there. These are
the rows of whole groups of the rollup, since keys and conditions are computed from its columns. The
integer that a measurement adds for a row is the same, on the same grid with the same clipping
bounds, as the summed one, less its centre times the rows that add one. So the totals are the same
integers, and all later steps are unchanged. Where the keys are those of the rollup, each of its
rows is a total. Conditions drop groups of a unit, so it has no more than were counted. The rank of
a group in the unit's order of groups follows from unit and keys (PRIVACY.md R27). Where conditions
are on units alone and keys are in the same order, it is the stored rank. This holds next to the
rows of the table too: whole groups are then left out before they are added up.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from dpsql.compiler.plan import measurement_kinds as kinds
from dpsql.compiler.plan.canonical import Writer
from dpsql.compiler.plan.lattices import WHOLE
from dpsql.compiler.plan.private_plan import BlockPlan
from dpsql.compiler.plan.weighed_rows import Weighed
from dpsql.compiler.resolve.scopes import Identities
from dpsql.compiler.track.join_order import Joined
from dpsql.model import prepared_store
from dpsql.model.algebra import Field, Filter, Relation, Scan
from dpsql.model.dataclass import dataclass, replace
from dpsql.model.tree import INTEGER, Expression, Kind, Literal, Ref, scalar
from dpsql.model.vocabulary import TablePolicy
from dpsql.model.walk import both, refs

MOST = 2**62
"""Largest number in a rollup: `dpsql prepare` fails where one would be larger."""


def described(part: kinds.Measurement, names: Mapping[int, str], table: TablePolicy) -> str:
    """Return a measurement's addition per row as canonical text: its argument, bounds and grid.

    Returns "" where it reads more than columns of the table, which have the lower-case names
    `names`.
    """
    writer = Writer()
    places = {column.name.lower(): n for n, column in enumerate(table.columns)}
    writer.numbers = {n: places[name] for n, name in names.items() if name in places}
    if not all(refs(node) <= writer.numbers.keys() for node in kinds.expressions_of(part)):
        return ""
    if isinstance(part, kinds.RowCount):
        return writer.write(kinds.RowCount(part.condition, 0))
    assert isinstance(part, kinds.ClippedSum)
    plain = replace(part, condition=None, centre=0, total_lower=0, total_upper=0)
    return writer.write(plain)


def over_rollup(
    plan: BlockPlan,
    store: prepared_store.PreparedStore,
    unit: str,
    table: TablePolicy,
    identities: Identities,
) -> BlockPlan | None:
    """Return the plan over the smallest usable rollup of the table that its block reads, or None.

    `unit` is the name of the unit's column in the store.
    """
    if plan.row_level or plan.histograms or plan.block.several or plan.block.enforced:
        return None
    rollups = _rollups(plan, store, unit, table, identities)
    return next((over for rows in rollups if (over := rows.plan(plan)) is not None), None)


def by_turns(
    plan: BlockPlan,
    store: prepared_store.PreparedStore,
    unit: str,
    table: TablePolicy,
    identities: Identities,
) -> BlockPlan | None:
    """Return the plan over table rows with stored ranks of their unit's groups.

    Returns None where they have none, or where totals have a norm besides.
    """
    scaled = any(isinstance(query, kinds.ScaledTotal) for query in plan.queries)
    if not plan.enforce_l0 or scaled or plan.block.enforced:
        return None
    keys = [key.expression for key in plan.block.keys]
    rollups = _rollups(plan, store, unit, table, identities)
    turns = next((own for rows in rollups if (own := rows.turns(keys)) is not None), None)
    return None if turns is None else replace(plan, block=replace(plan.block, weighed=turns))


def _rollups(
    plan: BlockPlan,
    store: prepared_store.PreparedStore,
    unit: str,
    table: TablePolicy,
    identities: Identities,
) -> Iterator[_Rollup]:
    """Yield the rollups of the table that a block reads, if it reads no other: small ones first."""
    weighed = plan.block.weighed
    if weighed is None or weighed.weight is not None or plan.block.vote is not None:
        return
    joined = Joined.of(weighed.rows)
    match joined.leaves:
        case (Scan() as scan,):
            rollups = [r for r in store.rollups if r.table == table.name]
        case _:
            return
    for rollup in sorted(rollups, key=lambda r: len(r.keys)):
        yield _Rollup(
            rollup=rollup,
            scan=scan,
            conditions=joined.conditions,
            unit=unit,
            table=table,
            identities=identities,
        )


@dataclass(frozen=True, slots=True)
class _Rollup:
    """A rollup that replaces a scan with conditions."""

    rollup: prepared_store.Rollup
    scan: Scan
    conditions: Sequence[Expression]
    unit: str
    table: TablePolicy
    identities: Identities

    @property
    def names(self) -> dict[int, str]:
        return {f.id: f.name.lower() for f in self.scan.fields}

    def plan(self, plan: BlockPlan) -> BlockPlan | None:
        """Return the plan over the rollup; None where it reads other columns."""
        block = plan.block
        keys = [key.expression for key in block.keys]
        rows = self._column(prepared_store.ROWS)
        sums = [
            tuple(map(self._column, prepared_store.sum_columns(n)))
            for n in range(len(self.rollup.sums))
        ]
        queries = [self._summed(release.query, rows, sums) for release in plan.releases]
        chosen = [q for q in plan.keys.judged if self._summed(q, rows, sums) != q]
        if chosen or None in queries or not self._has([block.unit, *keys, *self.conditions]):
            return None
        releases = tuple(
            replace(release, query=query)
            for release, query in zip(plan.releases, queries, strict=True)
            if query is not None
        )
        groups, place = self._column(prepared_store.GROUPS), self._column(prepared_store.PLACE)
        columns = [rows, groups, place, *(column for each in sums for column in each)]
        whole = groups.ref if self._is_whole(keys, [*plan.keys.judged, *queries]) else None
        placed = whole and keys and self._is_ordered(keys)
        scan = Scan(prepared_store.table_in_store(self.rollup.name), (*self._columns(), *columns))
        weighed = Weighed(self._filtered(scan), None, whole, place.ref if placed else None)
        return replace(plan, block=replace(block, weighed=weighed), releases=releases)

    def turns(self, keys: Sequence[Expression]) -> Weighed | None:
        """Return its table's rows with the ranks of their groups; None where the groups differ."""
        if not (keys and len(self._names(keys)) == len(keys) and self._is_ordered(keys)):
            return None
        groups, place = map(self._column, prepared_store.turn_columns(self.rollup.name))
        scan = replace(self.scan, fields=(*self.scan.fields, groups, place))
        return Weighed(self._filtered(scan), None, turn=(groups.ref, place.ref))

    def _is_ordered(self, keys: Sequence[Expression]) -> bool:
        """Test whether these are its keys in its order, over all groups of a unit."""
        # Conditions that read its unit alone keep all groups of a unit, or none.
        return self._names(keys) == self._own_names and all(
            self.names[n] == self.unit for node in self.conditions for n in refs(node)
        )

    def _column(self, name: str) -> Field:
        return self.identities.field(name, INTEGER)

    def _filtered(self, scan: Scan) -> Relation:
        predicate = both(tuple(self.conditions))
        return scan if predicate is None else Filter(scan, predicate)

    def _columns(self) -> Iterator[Field]:
        places = {
            name.lower(): prepared_store.key_column(n) for n, name in enumerate(self.rollup.keys)
        }
        for column in self.scan.fields:
            name = column.name.lower()
            if name in places or name == self.unit:
                yield replace(column, name=places.get(name, prepared_store.UNIT))

    def _has(self, nodes: Sequence[Expression | None]) -> bool:
        """Test whether only its columns are read."""
        here = {name.lower() for name in self.rollup.keys} | {self.unit}
        return all(self.names[n] in here for node in nodes if node is not None for n in refs(node))

    def _summed(
        self, part: kinds.Measurement, rows: Field, sums: Sequence[tuple[Field, ...]]
    ) -> kinds.Measurement | None:
        """Return the measurement over stored sums; None where these are of something else."""
        match part:
            case kinds.UnitCount():
                return part if self._has([part.condition]) else None
            case kinds.ScaledTotal() if part.total.lattice.base == WHOLE.base:
                total = self._summed(part.total, rows, sums)
                return replace(part, total=total) if isinstance(total, kinds.ClippedSum) else None
            case kinds.RowCount() if self._has([part.condition]):
                return _of_count(rows.ref, part.condition, part.total_upper)
            case kinds.RowCount():
                listed = self._listed(part, sums)
                return None if listed is None else _of_count(listed[0].ref, None, part.total_upper)
            case kinds.ClippedSum() if self._has([part.condition]):
                listed = self._listed(part, sums)
                return None if listed is None else _of_sum(listed[0], listed[1], part)
            case _:
                return None

    def _listed(
        self, part: kinds.Measurement, sums: Sequence[tuple[Field, ...]]
    ) -> tuple[Field, ...] | None:
        text = described(part, self.names, self.table)
        return sums[self.rollup.sums.index(text)] if text in self.rollup.sums else None

    def _is_whole(
        self, keys: Sequence[Expression], queries: Sequence[kinds.Measurement | None]
    ) -> bool:
        """Test whether each row of the rollup is a whole total of the block."""
        plain = all(
            isinstance(q, kinds.UnitCount | kinds.ClippedSum | kinds.ScaledTotal) for q in queries
        )
        named = self._names(keys)
        return plain and len(named) == len(keys) and sorted(named) == sorted(self._own_names)

    def _names(self, keys: Sequence[Expression]) -> list[str]:
        """Return the column names of those keys that are columns."""
        return [self.names[key.id] for key in keys if isinstance(key, Ref)]

    @property
    def _own_names(self) -> list[str]:
        """The column names of the rollup's keys."""
        return [name.lower() for name in self.rollup.keys]


def _of_count(counted: Ref, condition: Expression | None, most: int) -> kinds.ClippedSum:
    """Return a count of rows as a sum of numbers of rows, each clipped to `most`."""
    return kinds.ClippedSum(
        argument=counted,
        condition=condition,
        lattice=WHOLE,
        lower=0,
        upper=most,
        total_lower=0,
        total_upper=most,
    )


def _of_sum(summed: Field, counted: Field, part: kinds.ClippedSum) -> kinds.ClippedSum:
    """Return a sum of clipped rows as one of sums, less the centre of each row that adds
    something.
    """
    argument: Expression = summed.ref
    if part.centre:
        centres = scalar("mul", counted.ref, Literal(part.centre, INTEGER), kind=INTEGER)
        argument = scalar("sub", summed.ref, centres, kind=INTEGER)
    return replace(part, argument=argument, lattice=WHOLE, lower=-MOST, upper=MOST, centre=0)


def can_be_key(table: TablePolicy, name: str) -> bool:
    """Test whether rows can be rolled up by a column: equal DOUBLEs may be written differently."""
    column = table.column(name)
    return column is not None and column.type.kind is not Kind.DOUBLE
