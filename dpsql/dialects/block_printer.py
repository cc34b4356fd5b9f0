"""The one statement of a private block: clip, bound contributions, sum integers.

Shape: `rows` (each with its unit), `totals` (one row per unit and group), the totals within the
contribution bounds, clipped, and the exact sums. Stages that a proof makes superfluous are not
printed. COUNT(DISTINCT x) is not a sum of units' totals: each unit and group carries the list of
its values. Then `bounded` (clipped totals of at most L0 groups per unit) is read once for the sums
and once for each such count. Choices carry lists of cells, and their histogram follows the sums.
Engine-specific syntax is a method or a word of a dialect.

Proof (PRIVACY.md R27). The kept part of a unit follows from its own rows and the query's key.
Groups are kept strictly below the hash of rank L0 + 1. Values and cells are kept by hash and then
by value, in any order of rows. For values that count once in all groups together (PRIVACY.md R73),
pairs are kept by hash and then by group and value. Blocks of SAMPLE_AGGREGATE are units by a keyed
hash, so that one number of each group changes with a unit: PRIVACY.md R37.
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
from dpsql.model import tree
from dpsql.model.algebra import Join, Relation, Staged
from dpsql.model.dataclass import dataclass, replace
from dpsql.model.vocabulary import Norm
from dpsql.model.walk import map_children, relations


class LatticeSql(Protocol):
    """SQL of an engine for one row and one total: clamped, and as an integer (PRIVACY.md R28)."""

    def row_value(self, part: ValueTotal, x: str) -> str:
        """Return SQL for a row's value, clamped, rounded and centred; a DECIMAL stays one."""

    def unit_value(self, part: ValueTotal, x: str) -> str:
        """Return SQL for a row's value like `row_value`, for the total of one unit."""

    def row_integer(self, part: ValueTotal, x: str) -> str:
        """Return SQL for a row's value as an integer."""

    def weighed_value(self, part: ValueTotal, x: str, weight: str) -> str:
        """Return SQL for a row's value as an integer times its weight."""

    def clipped_total(self, part: Measurement, total: str, *, whole: bool = False) -> str:
        """Return SQL for a unit's clipped total in a group as an integer; it is one already if
        `whole`.
        """

    def as_integer(self, lattice: Lattice, total: str) -> str:
        """Return SQL for a sum of `row_value` as an integer."""

    def clamped(self, x: str, lower: str, upper: str) -> str:
        """Return SQL for the value, at least `lower` and at most `upper`; NULL stays NULL."""


@dataclass(frozen=True, slots=True)
class LimitedUnits:
    """Stages that apply a unit's limits over all its groups, and the resulting rows.

    Rows of `signed` have the same sums; the number of a group's units is the sum of `one`. It is
    None if there are no such rows.
    """

    stages: Mapping[str, str]
    rows: str
    signed: str | None = None


class BlockPrinter(ABC):
    """Printer of the statement of a block, or of the noisy histogram of its units."""

    lattice: ClassVar[LatticeSql]
    carried: Sequence[str] = ()
    """Columns of totals besides the sums."""
    whole: ClassVar[str] = "{}"
    """Template of a number as one of the widest integers."""
    no_cell: ClassVar[str] = "NULL::BIGINT"
    """Value of the cell column in rows of sums."""
    materialized: ClassVar[str] = "AS MATERIALIZED"
    """Words before a stage that is read several times."""
    listing: ClassVar[str]
    """Aggregate that makes a list of values."""
    unnested: ClassVar[str] = "unnest"
    """Function that makes rows of a list."""
    semi_join: ClassVar[str | None] = None
    """Join that keeps the rows of existing units; None if each row's unit is looked up directly."""

    def __init__(self, plan: BlockPlan, vote: UnitVote | None = None) -> None:
        self.plan = plan
        self.row_level = plan.row_level and vote is None
        self.parts = plan.queries if vote is None else (vote.total,)
        if isinstance(vote, RatioVote):
            self.parts = vote.total, vote.below
        self.histograms = plan.histograms
        self.scaled = {n: p for n, p in enumerate(self.parts) if isinstance(p, ScaledTotal)}
        # Norms are over all groups of a unit.
        sets = [p.values for p in self.parts if isinstance(p, DistinctCount | DistinctSum)]
        self.pairs = [values for values in sets if values.norm is Norm.L1]
        self.whose = plan.enforce_l0 or bool(self.scaled or self.pairs) or vote is not None
        self.grouping = plan.block.keys if vote is None else vote.keys
        self.keys = [f"k{n}" for n in range(len(self.grouping))]
        self.inputs: dict[tree.Expression, str] = {}
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
        """Return a printer of relations and expressions."""

    @abstractmethod
    def key(self, kind: tree.SqlType, node: tree.Expression, text: str) -> str:
        """Return SQL for a key for output and hashing; equal values must be identical."""

    @abstractmethod
    def typed(self, node: tree.Expression, text: str) -> str:
        """Return SQL for an input in exactly the type that its lattice expects."""

    @abstractmethod
    def hash(self, *columns: tuple[str, tree.SqlType]) -> str:
        """Return SQL for the keyed hash of unit, keys and these columns, for sampling."""

    @abstractmethod
    def array(self, value: str) -> str:
        """Return SQL for a list of one value."""

    @abstractmethod
    def least(self, x: str, kind: tree.SqlType, where: str) -> str:
        """Return SQL for a list of the value with the least hash, of equal ones the least value."""

    @abstractmethod
    def fewest(self, listed: str, most: int, argument: tree.Expression | None) -> str:
        """Return SQL for a list cut to `most` members, those with the least keyed hashes."""

    @abstractmethod
    def first_pairs(self, every: str, order: str, most: int) -> str:
        """Return SQL for the first `most` values `v` of each unit `u`, with their groups."""

    @abstractmethod
    def once(self, part: DistinctCount | DistinctSum, x: str, where: str) -> str:
        """Return the number of distinct values of `x`, or the sum of an expression of each."""

    @abstractmethod
    def each_once(self, part: DistinctCount | DistinctSum, values: str) -> tuple[str, str]:
        """Return a query of values `v` with their groups, and the sum over it."""

    @abstractmethod
    def limited(self, source: str) -> LimitedUnits:
        """Return the limits of a unit over all its groups: L0 groups, and norms."""

    @abstractmethod
    def block_of_unit(self, blocks: int) -> str:
        """Return SQL for the number of a unit's block, by a keyed hash of the unit alone."""

    @abstractmethod
    def as_double(self, node: tree.Expression, columns: Mapping[int, str]) -> str:
        """Return SQL for the value as a DOUBLE, or NULL."""

    @abstractmethod
    def place_among(self, values: list[str], x: str) -> str:
        """Return SQL for the index of a value in this list, from 0; NULL if it is not in it."""

    @abstractmethod
    def instant(self, kind: tree.SqlType, x: str) -> str:
        """Return SQL for a date as days since 1970, a timestamp as microseconds."""

    @abstractmethod
    def cell_of(self, integer: str, grid: Grid) -> str:
        """Return SQL for the cell of an integer of a grid."""

    def looked_up(
        self, block: PrivateBlock, _read: list[tree.Expression]
    ) -> tuple[Relation, Join | None]:
        """Return the rows of a block, and the join on its unit that may be delayed, or None."""
        return block.rows, None

    def exists(self, join: Join, _unit: str) -> str:
        """Return the right side of such a join, with its condition."""
        raise AssertionError(join)

    def finite(self, x: str) -> str:
        """Return SQL for a DOUBLE, NULL if it is infinite or NaN."""
        return f"CASE WHEN isfinite({x}) THEN {x} END"

    def ordered(self, x: str, _kind: tree.SqlType) -> str:
        """Return SQL for a value for ordering or listing; equal values must be identical."""
        return x

    def derived(self, sql: str, _alias: str) -> str:
        """Return a query as an item of FROM."""
        return f"({sql})"

    # --- the statement ---

    def sql(self) -> str:
        """Return the statement for keys and exact integers of the block, one row per group."""
        if not (self.keys or self.parts or self.histograms):
            return "SELECT 1 AS one"  # one group without measurements
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
        """Return SQL for the sums of each group, and for the cells of histograms if any."""
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
        """Return the query of units, keys, inputs of the measurements, and rows' weights."""
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
        """Return the stages before clipped totals, and the query of these."""
        return [*self.row_stages(), f"totals AS ({self.totals()})"], self.clipped()

    def row_stages(self) -> list[str]:
        """Return the stages up to rows, without units that break an enforced claim."""
        rows, weight = self.rows_of_units(), None if self.weight is None else "w"
        return EnforcedRows(
            rows,
            claims=self.enforced,
            keys=self.keys,
            inputs=self.inputs,
            weight=weight,
            materialized=self.materialized,
        ).stages

    def totals(self) -> str:
        """Return the query of unclipped totals, one row per unit and group."""
        names = ", ".join(["u", *self.keys])
        sums = [f"{self._unit_total(part)} AS s{n}" for n, part in enumerate(self.parts)]
        lists = [f"{self._listed_cells(query)} AS l{n}" for n, query in enumerate(self.histograms)]
        return f"SELECT {', '.join([names, *sums, *lists])} FROM rows GROUP BY {names}"

    def clipped(self) -> str:
        """Return the query of clipped integers, one row per unit and group."""
        names = [*(["u"] if self.whose else []), *self.keys, *self.carried]
        clips = [f"{self._clip(part, f's{n}')} AS p{n}" for n, part in enumerate(self.parts)]
        lists = [f"{self._kept_cells(q, f'l{n}')} AS l{n}" for n, q in enumerate(self.histograms)]
        listed = ", ".join(names + clips + lists) or "1 AS one"
        return f"SELECT {listed} FROM totals{self.of_existing()}"

    def of_existing(self) -> str:
        """Return the join that keeps the totals of existing units, if rows were not looked up."""
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

    # --- sums ---

    def _sum(self, part: Measurement, of_row: Callable[[ValueTotal, str], str]) -> str:
        """Return SQL for a measurement summed over groups of rows, or over one unit."""
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
        """Return SQL for a measurement over whole groups of rows, as an integer."""
        total = self._sum(part, self.lattice.row_value)
        whole = self.weight is not None or isinstance(part, DistinctSum)
        return total if whole else self.lattice.as_integer(part.lattice, total)

    def _filter(self, part: Measurement) -> str:
        return "" if part.condition is None else f" FILTER (WHERE {self.inputs[part.condition]})"

    # --- distinct values ---

    def _values(self, part: DistinctCount) -> str:
        """Return SQL for the list of a unit's values in a group; that of least hash if one may
        count.
        """
        x, kind = self.inputs[part.argument], type_of(part.argument)
        value = self.ordered(x, kind)
        if not part.chosen:
            return f"{self.listing}({value}){self._filter(part)}"
        # A NULL that the policy does not declare must not displace a value.
        conditions = [f"{x} IS NOT NULL"]
        conditions += [self.inputs[part.condition]] if part.condition else []
        where = f"FILTER (WHERE {' AND '.join(conditions)})"
        if part.total_upper == 1:
            return self.least(x, kind, where)
        return f"{self.listing}(DISTINCT {value}) {where}"

    def _without_values(self) -> str:
        """Return the query of sums per unit and group, with 0 for distinct values."""
        parts = [
            f"0 AS p{n}" if isinstance(part, DistinctCount | DistinctSum) else f"p{n}"
            for n, part in enumerate(self.parts)
        ]
        return f"SELECT {', '.join([*self.keys, *parts]) or '1 AS one'} FROM bounded"

    def _of_values_once(self) -> list[str]:
        """Return, for each count or sum of distinct values, its rows per group, with zeros
        elsewhere.
        """
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
        """Return the query of values that count, one per row with its group.

        If a unit's values in all groups are limited together, those with the least keyed hash are
        kept.
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
        """Return SQL for the rows of the groups that units keep: those with kept totals."""
        if not self.plan.enforce_l0:
            return "rows"
        same = [f"rows.{name} IS NOT DISTINCT FROM bounded.{name}" for name in ("u", *self.keys)]
        limit = f"{self.semi_join} bounded ON {' AND '.join(same)}"
        if self.semi_join is None:
            limit = f"WHERE EXISTS (SELECT 1 FROM bounded WHERE {' AND '.join(same)})"
        return self.derived(f"SELECT rows.* FROM rows {limit}", "rows")

    def _samples(self, rows: str) -> list[str]:
        """Return, for each sampled measurement, its rows per group, with zeros elsewhere."""
        sums = []
        for place, part in self.sampled.items():
            value = f"SUM({self.lattice.row_value(part, 'v')})"
            listed = [f"{value if n == place else 0} AS p{n}" for n in range(len(self.parts))]
            source = self.derived(self._block_values(part, rows), "blocks")
            sums.append(f"SELECT {', '.join([*self.keys, *listed])} FROM {source}{self._group}")
        return sums

    def _block_values(self, part: BlockAverage, rows: str) -> str:
        """Return the query of values `v` per group and block of units; NULL if not finite.

        All rows of a unit are in one block, in every group.
        """
        calls = list(dict.fromkeys(aggregates(part.argument)))
        names = dict(enumerate(self.inputs.values()))
        inputs, printer = list(self.inputs), self.printer()

        def over_inputs(child: tree.Expression) -> tree.Expression:
            if child not in inputs or isinstance(
                child, tree.Name | tree.Star | tree.ScalarQuery | tree.Membership
            ):
                return child
            return tree.Ref(inputs.index(child), child.type)

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
        """Return the query of the cell of every row."""
        where = "" if query.condition is None else f" WHERE {self.inputs[query.condition]}"
        place = self.cell(query, self.inputs[query.argument])
        return f"SELECT {', '.join([*self.keys, f'{place} AS cell'])} FROM rows{where}"

    def _cells_of_units(self, number: int) -> str:
        """Return the query of the cell of every row that a unit kept."""
        cells = f"{self.unnested}(l{number}) AS cell"
        return f"SELECT {', '.join([*self.keys, cells])} FROM bounded"

    def _listed_cells(self, query: Histogram) -> str:
        """Return SQL for the list of a unit's cells in a group; for an extreme only that one."""
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
        """Return SQL for the cells that a unit contributes to a group.

        The hash is of the cell: of rows in one cell any may be kept.
        """
        chosen = query.contributed is ContributedRows.HASHED
        return self.fewest(listed, query.rows, None) if chosen else listed

    def cell(self, query: Histogram, x: str) -> str:
        """Return SQL for the cell of a value; NULL for NULL, NaN and values outside."""
        grid, constant = query.grid, self.printer().constant
        if grid.values:
            return self.place_among([constant(tree.Literal(v, grid.kind)) for v in grid.values], x)
        return self.cell_of(self._integer(query, x), grid)

    def _integer(self, query: Histogram, x: str) -> str:
        """Return the value as an integer of the grid, clamped to its ends."""
        grid, constant = query.grid, self.printer().constant
        if grid.kind.kind in (tree.Kind.DATE, tree.Kind.TIMESTAMP, tree.Kind.TIMESTAMPTZ):
            low, high = (
                constant(tree.Literal(grid.value(n), grid.kind)) for n in (grid.lower, grid.upper)
            )
            return self.instant(grid.kind, self.lattice.clamped(x, low, high))
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
    """Return the statement of a block, with its columns and the stages that it reads."""
    plan = block.plan
    more = 1 if plan.histograms else 0
    parts = relations(weighed_rows(plan.block)[0].rows)
    return BlockSql(
        sql,
        (*(item.field.type for item in plan.block.keys), *[tree.INTEGER] * more),
        len(plan.queries) + more,
        tuple(sorted({part.stage for part in parts if isinstance(part, Staged)})),
    )


def weighed_rows(block: PrivateBlock) -> tuple[PrivateBlock, tree.Expression | None]:
    """Return the block over the summed rows, and the number of private rows in each of them."""
    if block.weighed is None:
        return block, None
    return replace(block, rows=block.weighed.rows), block.weighed.weight


def type_of(node: tree.Expression) -> tree.SqlType:
    """Return the type of a measurement's input."""
    return (
        node.type
        if isinstance(node, tree.Ref | tree.Call | tree.Cast | tree.Literal)
        else tree.INTEGER
    )


def _over(expression: tree.Expression, calls: Sequence[tree.AggregateCall]) -> tree.Expression:
    """Return the expression over the columns that hold its aggregates."""
    if isinstance(expression, tree.AggregateCall):
        return tree.Ref(calls.index(expression), expression.type)
    return map_children(expression, lambda child: _over(child, calls))
