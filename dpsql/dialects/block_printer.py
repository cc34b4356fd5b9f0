"""The one statement of a private block: clip, bound contributions, sum integers.

Shape: `rows` (each with its unit), `totals` (one row per unit and group), what the limits of units
leave of them clipped, and the exact sums. Stages that a proof makes superfluous are not printed.
COUNT(DISTINCT x) is no sum of units' totals: a unit and group carries the list of its values, and
`bounded` (clipped totals of at most L0 groups per unit) is read once for the sums and
once for each such count. What is chosen carries lists of cells, and their histogram follows the
sums. What engines write otherwise is a method or a word that a dialect has.

Proof (PRIVACY.md R27). What is kept of a unit follows from its own rows and the query's key: groups
strictly below the hash of rank L0 + 1, values and cells by hash and then by value, whatever the
order of rows; of values that count in all groups together (PRIVACY.md R73) pairs by hash and then
by group and value. Blocks of SAMPLE_AGGREGATE are units by a keyed hash, so that one number of each
group changes with a unit: PRIVACY.md R37.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import ClassVar, Protocol, assert_never

from dpsql.compiler.plan.lattices import ContributedRows, Grid, Histogram, Lattice
from dpsql.compiler.plan.measurement_kinds import (
    BlockAverage,
    ClippedSum,
    DistinctCount,
    DistinctSum,
    Measurement,
    RatioVote,
    RowCount,
    RowTest,
    ScaledTotal,
    StableMean,
    UnitCount,
    UnitVote,
    ValueTotal,
)
from dpsql.compiler.plan.private_plan import BlockPlan, BlockSql, PrivateBlock
from dpsql.dialects.block_inputs import aggregates, inputs_of
from dpsql.dialects.enforced_sql import EnforcedRows
from dpsql.dialects.relation_printer import RelationPrinter
from dpsql.model.algebra import Join, Relation, Staged
from dpsql.model.dataclass import dataclass, replace
from dpsql.model.tree import (
    INTEGER,
    AggregateCall,
    Call,
    Cast,
    Expression,
    Kind,
    Literal,
    Membership,
    Name,
    Ref,
    ScalarQuery,
    SqlType,
    Star,
)
from dpsql.model.vocabulary import Norm
from dpsql.model.walk import map_children, relations


class LatticeSql(Protocol):
    """How an engine writes one row and one total: clamped, and as an integer (PRIVACY.md R28)."""

    def row_value(self, part: ValueTotal, x: str) -> str:
        """One row, clamped, rounded and centred; a DECIMAL stays one."""

    def unit_value(self, part: ValueTotal, x: str) -> str:
        """The same for the total of one unit."""

    def row_integer(self, part: ValueTotal, x: str) -> str:
        """One row as an integer."""

    def weighed_value(self, part: ValueTotal, x: str, weight: str) -> str:
        """One row as an integer, as often as it counts."""

    def clipped_total(self, part: Measurement, total: str, *, whole: bool = False) -> str:
        """A unit's total in a group, clipped, as an integer; it is a `whole` number already."""

    def as_integer(self, lattice: Lattice, total: str) -> str:
        """A sum of `row_value` as an integer."""

    def clamped(self, x: str, lower: str, upper: str) -> str:
        """The value, no less than `lower` and no more than `upper`; NULL stays NULL."""


@dataclass(frozen=True, slots=True)
class LimitedUnits:
    """What the limits of a unit over all of its groups leave: stages, and the rows that count.

    Rows of `signed` have the same sums, the units of a group being the sum of `one`; None where
    there are none.
    """

    stages: Mapping[str, str]
    rows: str
    signed: str | None = None


class BlockPrinter(ABC):
    """The statement of a block, or of the votes of its units."""

    lattice: ClassVar[LatticeSql]
    carried: Sequence[str] = ()
    """Columns that totals have beside what is summed."""
    whole: ClassVar[str] = "{}"
    """A number as one of the widest integers."""
    no_cell: ClassVar[str] = "NULL::BIGINT"
    """The cell of sums."""
    materialized: ClassVar[str] = "AS MATERIALIZED"
    """What stands before a stage that is read several times."""
    listing: ClassVar[str]
    """The aggregate that makes a list of values."""
    unnested: ClassVar[str] = "unnest"
    """The function that makes rows of a list."""
    semi_join: ClassVar[str | None] = None
    """Keeps the rows of units that exist; None where each row's unit is looked up at once."""

    def __init__(self, plan: BlockPlan, vote: UnitVote | None = None) -> None:
        self.plan = plan
        self.row_level = plan.row_level and vote is None
        self.parts = plan.queries if vote is None else (vote.total,)
        if isinstance(vote, RatioVote):
            self.parts = vote.total, vote.below
        self.histograms = plan.histograms
        self.scaled = {n: p for n, p in enumerate(self.parts) if isinstance(p, ScaledTotal)}
        # Norms are taken of all groups of a unit.
        sets = [p.values for p in self.parts if isinstance(p, DistinctCount | DistinctSum)]
        self.pairs = [values for values in sets if values.norm is Norm.L1]
        self.whose = plan.enforce_l0 or bool(self.scaled or self.pairs) or vote is not None
        self.grouping = plan.block.keys if vote is None else vote.keys
        self.keys = [f"k{n}" for n in range(len(self.grouping))]
        self.inputs: dict[Expression, str] = {}
        self.enforced = plan.block.enforced if vote is None else ()
        read = [node for part in (*self.parts, *self.histograms) for node in inputs_of(part)]
        for node in read + [value for claim in self.enforced for value in claim.values]:
            self.inputs.setdefault(node, f"x{len(self.inputs)}")
        self.sampled = {n: p for n, p in enumerate(self.parts) if isinstance(p, BlockAverage)}
        late = self.semi_join is not None and not (self.row_level or self.sampled)
        block, self.weight = weighed_rows(plan.block)
        block = replace(block, keys=self.grouping)
        read = [*self.inputs, *([] if self.weight is None else [self.weight])]
        self.rows, self.lookup = self.looked_up(block, read) if late else (block.rows, None)

    # --- what engines write in their own way ---

    @abstractmethod
    def printer(self) -> RelationPrinter:
        """A printer of relations and expressions."""

    @abstractmethod
    def key(self, kind: SqlType, node: Expression, text: str) -> str:
        """A key of which equal values are the same value: as shown, and as hashed."""

    @abstractmethod
    def typed(self, node: Expression, text: str) -> str:
        """An input in the very type that its lattice is made for."""

    @abstractmethod
    def hash(self, *columns: tuple[str, SqlType]) -> str:
        """The keyed hash that units, keys and these columns are chosen by."""

    @abstractmethod
    def array(self, value: str) -> str:
        """A list of one value."""

    @abstractmethod
    def least(self, x: str, kind: SqlType, where: str) -> str:
        """A list of the one value of least hash, of equal ones the least: whatever others' rows."""

    @abstractmethod
    def fewest(self, listed: str, most: int, argument: Expression | None) -> str:
        """A list no longer than `most`: of a longer one what has the lowest keyed hashes."""

    @abstractmethod
    def first_pairs(self, every: str, order: str, most: int) -> str:
        """The first `most` values `v` of each unit `u`, with their groups."""

    @abstractmethod
    def once(self, part: DistinctCount | DistinctSum, x: str, where: str) -> str:
        """The number of different values of `x`, or the sum of what is said of each."""

    @abstractmethod
    def each_once(self, part: DistinctCount | DistinctSum, values: str) -> tuple[str, str]:
        """Of values `v` with their groups: what to read of them, and the sum over it."""

    @abstractmethod
    def limited(self, source: str) -> LimitedUnits:
        """The limits of a unit over all of its groups: L0 groups, and norms."""

    @abstractmethod
    def block_of_unit(self, blocks: int) -> str:
        """Which of so many blocks a unit is in, by a keyed hash of it alone."""

    @abstractmethod
    def as_double(self, node: Expression, columns: Mapping[int, str]) -> str:
        """The value as a DOUBLE, or NULL."""

    @abstractmethod
    def place_among(self, values: list[str], x: str) -> str:
        """The place of a value among these, counted from 0; NULL where it is none of them."""

    @abstractmethod
    def instant(self, kind: SqlType, x: str) -> str:
        """A date as its days since 1970, a moment as its microseconds."""

    @abstractmethod
    def cell_of(self, integer: str, grid: Grid) -> str:
        """The cell of an integer of a grid."""

    def looked_up(
        self, block: PrivateBlock, _read: list[Expression]
    ) -> tuple[Relation, Join | None]:
        """The rows of a block, and the join on its unit that may wait for their totals."""
        return block.rows, None

    def exists(self, join: Join, _unit: str) -> str:
        """The right side of such a join, with its condition."""
        raise AssertionError(join)

    def finite(self, x: str) -> str:
        """A DOUBLE, NULL where it is infinite or NaN."""
        return f"CASE WHEN isfinite({x}) THEN {x} END"

    def ordered(self, x: str, _kind: SqlType) -> str:
        """A value where values are put into order or listed: one for equal ones."""
        return x

    def derived(self, sql: str, _alias: str) -> str:
        """A query as an item of FROM."""
        return f"({sql})"

    # --- the statement ---

    def sql(self) -> str:
        """The keys and exact integers of the block, one row per group."""
        if not (self.keys or self.parts or self.histograms):
            return "SELECT 1 AS one"  # one group, of which nothing is asked
        if self.row_level:
            sums = [self._sum_of_rows(part) for part in self.parts]
            listed = [self._cells_of_rows(query) for query in self.histograms]
            source = "rows"
            if self.sampled:
                both = [self._grouped(sums, "rows"), *self._samples("rows")]
                source = self.derived(" UNION ALL ".join(both), "parts")
                sums = [f"SUM(p{n})" for n in range(len(self.parts))]
            return f"WITH {', '.join(self.row_stages())} {self._result(sums, source, listed)}"
        stages, source = self.of_units()
        sums = [f"SUM(p{n})" for n in range(len(self.parts))]
        distinct = any(isinstance(part, DistinctCount | DistinctSum) for part in self.parts)
        listed = [self._cells_of_units(n) for n in range(len(self.histograms))]
        added = not (self.sampled or self.histograms or distinct)
        if self.plan.enforce_l0 or self.scaled:
            limits = self.limited(source)
            stages += [f"{name} ({sql})" for name, sql in limits.stages.items()]
            if added and limits.signed is not None:
                signed = self.derived(limits.signed, "parts")
                grouped = self._grouped(sums, signed, " HAVING SUM(one) > 0")
                return f"WITH {', '.join(stages)} {grouped}"
            source = limits.rows
        if not added:
            stages.append(f"bounded {self.materialized} ({source})")
            counts, samples = self._of_values_once(), self._samples(self._kept_rows())
            source = " UNION ALL ".join([self._without_values(), *counts, *samples])
        result = self._result(sums, self.derived(source, "parts"), listed)
        return f"WITH {', '.join(stages)} {result}"

    def _result(self, sums: list[str], source: str, listed: list[str]) -> str:
        """The sums of each group, and the cells of the histograms if there are any."""
        if not listed:
            return self._grouped(sums, source)
        named = "".join(f"{key}, " for key in self.keys)
        parts, zero = range(len(sums)), self.whole.format(0)
        rows = []
        if sums or self.keys:
            totals = "".join(f"p{n}, " for n in parts)
            grouped = self.derived(self._grouped(sums, source), "sums")
            rows.append(f"SELECT {named}{self.no_cell} AS cell, {totals}{zero} AS n FROM {grouped}")
        first, zeros = 0, "".join(f"{zero} AS p{n}, " for n in parts)
        for query, cells in zip(self.histograms, listed, strict=True):
            rows.append(
                f"SELECT {named}cell + {first} AS cell, {zeros}{self.whole.format('COUNT(*)')} AS n"
                f" FROM {self.derived(cells, 'cells')} WHERE cell IS NOT NULL"
                f" GROUP BY {', '.join([*self.keys, 'cell'])}"
            )
            first += query.grid.cells
        return " UNION ALL ".join(rows)

    def _grouped(self, sums: list[str], source: str, having: str = "") -> str:
        totals = (f"COALESCE({self.whole.format(s)}, 0) AS p{n}" for n, s in enumerate(sums))
        return f"SELECT {', '.join([*self.keys, *totals])} FROM {source}{self._group}{having}"

    @property
    def _group(self) -> str:
        return f" GROUP BY {', '.join(self.keys)}" if self.keys else ""

    # --- rows, totals, clipped totals ---

    def rows_of_units(self) -> str:
        """unit, keys, the inputs of the measurements, and how many private rows a row is."""
        printer = self.printer()
        source, where, columns = printer.source(self.rows)
        whose = self.sampled or self.enforced or not self.row_level
        items = [f"{columns[self.plan.block.unit.id]} AS u"] if whose else []
        for key, name in zip(self.grouping, self.keys, strict=True):
            text = printer.text(key.expression, columns)
            items.append(f"{self.key(key.field.type, key.expression, text)} AS {name}")
        items += [
            f"{self.typed(node, printer.text(node, columns))} AS {name}"
            for node, name in self.inputs.items()
        ]
        if self.weight is not None:
            items.append(f"{printer.text(self.weight, columns)} AS w")
        conditions = f" WHERE {' AND '.join(f'({c})' for c in where)}" if where else ""
        return f"SELECT {', '.join(items) or '1 AS one'} FROM {source}{conditions}"

    def of_units(self) -> tuple[list[str], str]:
        """The stages of clipped totals, and these."""
        return [*self.row_stages(), f"totals AS ({self.totals()})"], self.clipped()

    def row_stages(self) -> list[str]:
        """The stages up to rows, those of units that break an enforced claim left out."""
        rows, weight = self.rows_of_units(), None if self.weight is None else "w"
        given = self.enforced, self.keys, self.inputs, weight, self.materialized
        return EnforcedRows(rows, *given).stages

    def totals(self) -> str:
        """One row per unit and group with its unclipped totals."""
        names = ", ".join(["u", *self.keys])
        sums = [f"{self._unit_total(part)} AS s{n}" for n, part in enumerate(self.parts)]
        lists = [f"{self._listed_cells(query)} AS l{n}" for n, query in enumerate(self.histograms)]
        return f"SELECT {', '.join([names, *sums, *lists])} FROM rows GROUP BY {names}"

    def clipped(self) -> str:
        """One row per unit and group with its clipped integers."""
        names = [*(["u"] if self.whose else []), *self.keys, *self.carried]
        clips = [f"{self._clip(part, f's{n}')} AS p{n}" for n, part in enumerate(self.parts)]
        lists = [f"{self._kept_cells(q, f'l{n}')} AS l{n}" for n, q in enumerate(self.histograms)]
        listed = ", ".join(names + clips + lists) or "1 AS one"
        return f"SELECT {listed} FROM totals{self.of_existing()}"

    def of_existing(self) -> str:
        """Keeps the totals of the units that exist, where their rows were not looked up."""
        if self.lookup is None:
            return ""
        return f" {self.semi_join} {self.exists(self.lookup, 'totals.u')}"

    def _clip(self, part: Measurement, total: str) -> str:
        if isinstance(part, DistinctCount | DistinctSum):
            counted = part.values
            if not counted.chosen or counted.total_upper == 1 or counted in self.pairs:
                return total
            return self.fewest(total, counted.total_upper, counted.argument)
        part = part.total if isinstance(part, ScaledTotal) else part
        return self.lattice.clipped_total(part, total, whole=self.weight is not None)

    def _unit_total(self, part: Measurement) -> str:
        match part:
            case DistinctCount() | DistinctSum():
                return self._values(part.values)
            case UnitCount(condition=None):
                return "1"
            case UnitCount():
                return f"CASE WHEN COUNT(*){self._filter(part)} > 0 THEN 1 ELSE 0 END"
            case RowCount() | ClippedSum() | BlockAverage() | RowTest() | StableMean():
                return self._sum(part, self.lattice.unit_value)
            case ScaledTotal():
                return self._unit_total(part.total)
            case _:
                assert_never(part)

    # --- what is added up ---

    def _sum(self, part: Measurement, of_row: Callable[[ValueTotal, str], str]) -> str:
        """A part over whole groups of rows, or over those of one unit."""
        match part:
            case BlockAverage():
                return "SUM(0)"
            case RowCount() | UnitCount() | RowTest():
                counted = "COUNT(*)" if self.weight is None else "SUM(w)"
                total = f"{counted}{self._filter(part)}"
                return total if self.weight is None else f"COALESCE({total}, 0)"
            case DistinctCount() | DistinctSum():
                return self.once(part, self.inputs[part.values.argument], self._filter(part))
            case ClippedSum() | StableMean():
                x = self.inputs[part.argument]
                weighed = self.lattice.weighed_value
                value = of_row(part, x) if self.weight is None else weighed(part, x, "w")
                return f"SUM({value}){self._filter(part)}"
            case ScaledTotal():
                return self._sum(part.total, of_row)
            case _:
                assert_never(part)

    def _sum_of_rows(self, part: Measurement) -> str:
        """A part over whole groups of rows, as an integer."""
        total = self._sum(part, self.lattice.row_value)
        whole = self.weight is not None or isinstance(part, DistinctSum)
        return total if whole else self.lattice.as_integer(part.lattice, total)

    def _filter(self, part: Measurement) -> str:
        return "" if part.condition is None else f" FILTER (WHERE {self.inputs[part.condition]})"

    # --- values that count once ---

    def _values(self, part: DistinctCount) -> str:
        """The values of a unit in a group as a list; where one may be added, that of least hash."""
        x, kind = self.inputs[part.argument], type_of(part.argument)
        value = self.ordered(x, kind)
        if not part.chosen:
            return f"{self.listing}({value}){self._filter(part)}"
        # A NULL that the policy does not declare must not take the place of a value.
        conditions = [f"{x} IS NOT NULL"]
        conditions += [self.inputs[part.condition]] if part.condition else []
        where = f"FILTER (WHERE {' AND '.join(conditions)})"
        if part.total_upper == 1:
            return self.least(x, kind, where)
        return f"{self.listing}(DISTINCT {value}) {where}"

    def _without_values(self) -> str:
        """What is summed of each unit and group: nothing yet of the distinct values."""
        parts = [
            f"0 AS p{n}" if isinstance(part, DistinctCount | DistinctSum) else f"p{n}"
            for n, part in enumerate(self.parts)
        ]
        return f"SELECT {', '.join([*self.keys, *parts]) or '1 AS one'} FROM bounded"

    def _of_values_once(self) -> list[str]:
        """For each count or sum of distinct values its rows, one a group, with zeros elsewhere."""
        counts = []
        for place, part in enumerate(self.parts):
            if isinstance(part, DistinctCount | DistinctSum):
                values, one = self.each_once(part, self._kept_values(part.values, f"p{place}"))
                listed = [one if n == place else "0" for n in range(len(self.parts))]
                named = ", ".join([*self.keys, *listed])
                source = self.derived(values, "listed")
                counts.append(f"SELECT {named} FROM {source}{self._group}")
        return counts

    def _kept_values(self, part: DistinctCount, listed: str) -> str:
        """The values that count, one a row with its group; of those of a unit in all groups
        together, where so many count, the ones of least keyed hash.
        """
        value = f"{self.unnested}({listed}) AS v"
        if part not in self.pairs:
            return f"SELECT {', '.join([*self.keys, value])} FROM bounded"
        kind = type_of(part.argument)
        every = f"SELECT {', '.join(['u', *self.keys, value])} FROM bounded"
        order = ", ".join([self.hash(("v", kind)), *self.keys, self.ordered("v", kind)])
        return self.first_pairs(every, order, part.total_upper)

    # --- blocks of units ---

    def _kept_rows(self) -> str:
        """The rows of the groups that units keep: those with the totals that are kept."""
        if not self.plan.enforce_l0:
            return "rows"
        same = [f"rows.{name} IS NOT DISTINCT FROM bounded.{name}" for name in ("u", *self.keys)]
        limit = f"{self.semi_join} bounded ON {' AND '.join(same)}"
        if self.semi_join is None:
            limit = f"WHERE EXISTS (SELECT 1 FROM bounded WHERE {' AND '.join(same)})"
        return self.derived(f"SELECT rows.* FROM rows {limit}", "rows")

    def _samples(self, rows: str) -> list[str]:
        """For each sampled part its rows, one per group, with zeros elsewhere."""
        sums = []
        for place, part in self.sampled.items():
            value = f"SUM({self.lattice.row_value(part, 'v')})"
            listed = [f"{value if n == place else 0} AS p{n}" for n in range(len(self.parts))]
            source = self.derived(self._block_values(part, rows), "blocks")
            sums.append(f"SELECT {', '.join([*self.keys, *listed])} FROM {source}{self._group}")
        return sums

    def _block_values(self, part: BlockAverage, rows: str) -> str:
        """One row per group and block of units: its value `v`, NULL where that is not finite.

        All rows of a unit are in one block, in every group.
        """
        calls = list(dict.fromkeys(aggregates(part.argument)))
        names = dict(enumerate(self.inputs.values()))
        inputs, printer = list(self.inputs), self.printer()

        def over_inputs(child: Expression) -> Expression:
            if child not in inputs or isinstance(child, Name | Star | ScalarQuery | Membership):
                return child
            return Ref(inputs.index(child), child.type)

        columns = [
            f"{printer.text(map_children(call, over_inputs), names)} AS a{n}"
            for n, call in enumerate(calls)
        ]
        group = ", ".join([*self.keys, self.block_of_unit(part.blocks)])
        blocks = f"SELECT {', '.join([*self.keys, *columns])} FROM {rows} GROUP BY {group}"
        value = self.as_double(_over(part.argument, calls), {n: f"a{n}" for n in range(len(calls))})
        named = "".join(f"{key}, " for key in self.keys)
        values = f"SELECT {named}{value} AS x FROM {self.derived(blocks, 'sums')}"
        return f"SELECT {named}{self.finite('x')} AS v FROM {self.derived(values, 'doubles')}"

    # --- cells of histograms ---

    def _cells_of_rows(self, query: Histogram) -> str:
        """The cell of every row."""
        where = "" if query.condition is None else f" WHERE {self.inputs[query.condition]}"
        place = self.cell(query, self.inputs[query.argument])
        return f"SELECT {', '.join([*self.keys, f'{place} AS cell'])} FROM rows{where}"

    def _cells_of_units(self, number: int) -> str:
        """The cell of every row that a unit kept."""
        cells = f"{self.unnested}(l{number}) AS cell"
        return f"SELECT {', '.join([*self.keys, cells])} FROM bounded"

    def _listed_cells(self, query: Histogram) -> str:
        """The cells of a unit's rows in a group, as a list; of an extreme only that."""
        place = self.cell(query, self.inputs[query.argument])
        conditions = [f"{place} IS NOT NULL"]
        conditions += [] if query.condition is None else [self.inputs[query.condition]]
        where = f" FILTER (WHERE {' AND '.join(conditions)})"
        match query.contributed:
            case ContributedRows.ALL | ContributedRows.HASHED:
                return f"{self.listing}({place}){where}"
            case ContributedRows.LEAST:
                return self.array(f"MIN({place}){where}")
            case ContributedRows.GREATEST:
                return self.array(f"MAX({place}){where}")

    def _kept_cells(self, query: Histogram, listed: str) -> str:
        """Those of its cells that a unit contributes to a group.

        The hash is of the cell: of rows in one cell any may be kept.
        """
        chosen = query.contributed is ContributedRows.HASHED
        return self.fewest(listed, query.rows, None) if chosen else listed

    def cell(self, query: Histogram, x: str) -> str:
        """The cell that holds a value; NULL for NULL, NaN and what no cell holds."""
        grid, constant = query.grid, self.printer().constant
        if grid.values:
            return self.place_among([constant(Literal(v, grid.kind)) for v in grid.values], x)
        return self.cell_of(self._integer(query, x), grid)

    def _integer(self, query: Histogram, x: str) -> str:
        """The value as an integer of the grid, clamped to its ends."""
        grid, constant = query.grid, self.printer().constant
        if grid.kind.kind in (Kind.DATE, Kind.TIMESTAMP, Kind.TIMESTAMPTZ):
            ends = (constant(Literal(grid.value(n), grid.kind)) for n in (grid.lower, grid.upper))
            return self.instant(grid.kind, self.lattice.clamped(x, *ends))
        row = ClippedSum(
            argument=query.argument,
            condition=None,
            lattice=grid.lattice,
            lower=grid.lower,
            upper=grid.upper,
            total_lower=grid.lower,
            total_upper=grid.upper,
        )
        return self.lattice.row_integer(row, x)


def statement_of(block: BlockPrinter, sql: str) -> BlockSql:
    """The statement of a block, with its columns and the stages that it reads."""
    plan = block.plan
    more = 1 if plan.histograms else 0
    parts = relations(weighed_rows(plan.block)[0].rows)
    return BlockSql(
        sql,
        (*(item.field.type for item in plan.block.keys), *[INTEGER] * more),
        len(plan.queries) + more,
        tuple(sorted({part.stage for part in parts if isinstance(part, Staged)})),
    )


def weighed_rows(block: PrivateBlock) -> tuple[PrivateBlock, Expression | None]:
    """The block over the rows that are added up, and how many of its own each of them is."""
    if block.weighed is None:
        return block, None
    return replace(block, rows=block.weighed.rows), block.weighed.weight


def type_of(node: Expression) -> SqlType:
    """The type of what a measurement reads."""
    return node.type if isinstance(node, Ref | Call | Cast | Literal) else INTEGER


def _over(expression: Expression, calls: Sequence[AggregateCall]) -> Expression:
    """The expression over the columns that hold its aggregates."""
    if isinstance(expression, AggregateCall):
        return Ref(calls.index(expression), expression.type)
    return map_children(expression, lambda child: _over(child, calls))
