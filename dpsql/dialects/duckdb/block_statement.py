"""The one statement of a private block on DuckDB: clip, bound contributions, sum integers.

Shape: `rows` (each with its unit), `totals` (one row per unit and group), what `unit_limits` leaves
of them clipped, and the exact sums. Stages that a proof makes superfluous are not printed.
COUNT(DISTINCT x) is no sum of units' totals: a unit and group carries the list of its values, and
`bounded` (clipped totals of at most L0 groups per unit) is read once for the sums and
once for each such count. What is chosen carries lists of cells, and their histogram follows the
sums. Work and memory follow the rows that there are, never a limit: what is within its limit is
neither hashed nor ranked.

Proof (PRIVACY.md R27). What is kept of a unit follows from its own rows and the query's key: groups
strictly below the hash of rank L0 + 1, values and cells by hash and then by value, whatever the
order of rows; of values that count in all groups together (PRIVACY.md R73) pairs by hash and then
by group and value. Blocks of SAMPLE_AGGREGATE are units by a keyed hash, so that one number of each
group changes with a unit: PRIVACY.md R37.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import date
from typing import assert_never

from dpsql.compiler.plan.lattices import ContributedRows, Grid, Histogram
from dpsql.compiler.plan.measurement_kinds import (
    BlockAverage,
    ClippedSum,
    DistinctCount,
    DistinctSum,
    MeanVote,
    Measurement,
    RangeVote,
    RatioVote,
    RowCount,
    RowTest,
    ScaledTotal,
    StableMean,
    UnitCount,
    UnitVote,
    ValueTotal,
    Vote,
    expressions_of,
)
from dpsql.compiler.plan.private_plan import BlockPlan, BlockSql, PrivateBlock
from dpsql.dialects.duckdb.distinct_sql import fewest, once
from dpsql.dialects.duckdb.norm_sql import (
    norm_of_unit,
    octave,
    place_of_mean,
    place_of_ratio,
)
from dpsql.dialects.duckdb.relation_sql import Printer
from dpsql.dialects.duckdb.total_sql import (
    as_integer,
    clamped,
    clipped_total,
    row_integer,
    row_value,
    unit_value,
    weighed_value,
)
from dpsql.dialects.duckdb.unit_limits import UnitLimits
from dpsql.dialects.duckdb.unit_sql import exists, looked_up
from dpsql.dialects.literal_sql import constant
from dpsql.model.algebra import Staged
from dpsql.model.tree import (
    DATE,
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
    type_name,
)
from dpsql.model.vocabulary import Norm
from dpsql.model.walk import children, map_children, relations, walk


def block_sql(plan: BlockPlan) -> BlockSql:
    """The statement that returns a block's keys and exact integers, one row per group."""
    parts = relations(weighed_rows(plan.block)[0].rows)
    more = 1 if plan.histograms else 0
    vote = plan.block.vote
    return BlockSql(
        _Block(plan).sql() if vote is None else _Block(plan, vote).votes(vote),
        (*(item.field.type for item in plan.block.keys), *[INTEGER] * more),
        len(plan.queries) + more,
        tuple(sorted({part.stage for part in parts if isinstance(part, Staged)})),
    )


class _Block:
    """The statement of a block, or of the votes of its units."""

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
        columns: list[Measurement | Histogram] = [*self.parts, *self.histograms]
        for query in columns:
            for node in _read(query):
                self.inputs.setdefault(node, f"x{len(self.inputs)}")
        self.sampled = {n: p for n, p in enumerate(self.parts) if isinstance(p, BlockAverage)}
        late = not (self.row_level or self.sampled)
        block, self.weight = weighed_rows(plan.block)
        block = replace(block, keys=self.grouping)
        read = [*self.inputs, *([] if self.weight is None else [self.weight])]
        self.rows, self.lookup = looked_up(block, read) if late else (block.rows, None)

    def sql(self) -> str:
        if not (self.keys or self.parts or self.histograms):
            return "SELECT 1 AS one"  # one group, of which nothing is asked
        if self.row_level:
            sums = [self._sum_of_rows(part) for part in self.parts]
            listed = [self._cells_of_rows(query) for query in self.histograms]
            source = "rows"
            if self.sampled:
                both = [self._grouped(sums, "rows"), *self._samples("rows")]
                source = f"({' UNION ALL '.join(both)})"
                sums = [f"SUM(p{n})" for n in range(len(self.parts))]
            return f"WITH rows AS ({self._rows()}) {self._result(sums, source, listed)}"
        stages = [f"rows AS ({self._rows()})", f"totals AS ({self._totals()})"]
        source = self._clipped()
        sums = [f"SUM(p{n})" for n in range(len(self.parts))]
        distinct = any(isinstance(part, DistinctCount | DistinctSum) for part in self.parts)
        listed = [self._cells_of_units(n) for n in range(len(self.histograms))]
        added = not (self.sampled or self.histograms or distinct)
        if self.plan.enforce_l0 or self.scaled:
            limits = self._limits()
            stages += [f"{name} ({sql})" for name, sql in limits.stages(source).items()]
            if added and limits.signed is not None:
                signed = self._grouped(sums, f"({limits.signed})", " HAVING SUM(one) > 0")
                return f"WITH {', '.join(stages)} {signed}"
            source = limits.rows
        if not added:
            stages.append(f"bounded AS MATERIALIZED ({source})")
            counts, samples = self._of_values_once(), self._samples(self._kept_rows())
            source = " UNION ALL ".join([self._without_values(), *counts, *samples])
        return f"WITH {', '.join(stages)} {self._result(sums, f'({source})', listed)}"

    def votes(self, vote: UnitVote) -> str:
        """The number of units in each octave of a norm, or about each mean: a unit is in one."""
        match vote:
            case Vote():
                clipped = self._clipped()
                norms = f"SELECT {norm_of_unit(vote, 'p0')} AS n FROM ({clipped}) GROUP BY u"
                of_units = f"totals AS ({self._totals()}), norms AS ({norms})"
                source, place = "norms WHERE n > 0", octave(vote, "n")
            case RangeVote():
                of_units = f"totals AS ({self._of_values(vote.total, 'MAX(abs(v)) AS n')})"
                source, place = f"totals{self._of_existing()} WHERE n > 0", octave(vote, "n")
            case RatioVote():
                clipped = f"SELECT * FROM ({self._clipped()}) WHERE p1 > 0"
                of_units = f"totals AS ({self._totals()})"
                source, place = f"({clipped})", place_of_ratio(vote, "p0", "p1")
            case MeanVote():
                means = self._of_values(vote.total, "SUM(v) // COUNT(v) AS m")
                of_units = f"totals AS ({means})"
                source, place = f"totals{self._of_existing()}", place_of_mean(vote, "m")
            case _:
                assert_never(vote)
        return (
            f"WITH rows AS ({self._rows()}), {of_units}"
            f" SELECT {place} AS k0, COUNT(*)::HUGEINT AS p0 FROM {source} GROUP BY k0"
        )

    def _of_values(self, total: ClippedSum, items: str) -> str:
        """What is computed of each unit's rows as integers `v`, those without a value left out."""
        where = "" if total.condition is None else f" WHERE {self.inputs[total.condition]}"
        values = (
            f"SELECT u, {row_integer(total, self.inputs[total.argument])} AS v FROM rows{where}"
        )
        return f"SELECT u, {items} FROM ({values}) WHERE v IS NOT NULL GROUP BY u"

    def _limits(self) -> UnitLimits:
        """The limits of a unit over all of its groups."""
        listed = [f"l{n}" for n in range(len(self.histograms))]
        return UnitLimits(
            keys=self.keys,
            values=[*(f"p{n}" for n in range(len(self.parts))), *listed],
            hashed=self._hash(),
            l0=self.plan.l0 if self.plan.enforce_l0 else None,
            scaled={f"p{n}": part for n, part in self.scaled.items()},
        )

    def _result(self, sums: list[str], source: str, listed: list[str]) -> str:
        """The sums of each group, and the cells of the histograms if there are any."""
        if not listed:
            return self._grouped(sums, source)
        sizes = [query.grid.cells for query in self.histograms]
        firsts = [sum(sizes[:n]) for n in range(len(sizes))]
        totals = self._grouped(sums, source) if sums or self.keys else None
        return with_cells(self.keys, len(sums), totals, list(zip(listed, firsts, strict=True)))

    def _rows(self) -> str:
        """unit, keys, the inputs of the measurements, and how many private rows a row is."""
        block = self.plan.block
        printer = Printer(lambda _relation: None)
        source, where, columns = printer.source(self.rows)
        whose = self.sampled or not self.row_level
        items = [f"{columns[block.unit.id]} AS u"] if whose else []
        items += [
            f"{_one_zero(key.field.type, printer.text(key.expression, columns))} AS {name}"
            for key, name in zip(self.grouping, self.keys, strict=True)
        ]
        items += [
            f"{_typed(node, printer.text(node, columns))} AS {name}"
            for node, name in self.inputs.items()
        ]
        if self.weight is not None:
            items.append(f"{printer.text(self.weight, columns)} AS w")
        conditions = f" WHERE {' AND '.join(f'({c})' for c in where)}" if where else ""
        return f"SELECT {', '.join(items) or '1 AS one'} FROM {source}{conditions}"

    def _totals(self) -> str:
        """One row per unit and group with its unclipped totals."""
        names = ", ".join(["u", *self.keys])
        sums = [f"{self._unit_total(part)} AS s{n}" for n, part in enumerate(self.parts)]
        lists = [f"{self._listed_cells(query)} AS l{n}" for n, query in enumerate(self.histograms)]
        return f"SELECT {', '.join([names, *sums, *lists])} FROM rows GROUP BY {names}"

    def _clipped(self) -> str:
        """One row per unit and group with its clipped integers."""
        names = [*(["u"] if self.whose else []), *self.keys]
        clips = [f"{self._clip(part, f's{n}')} AS p{n}" for n, part in enumerate(self.parts)]
        lists = [
            f"{kept_cells(query, f'l{n}', self._hash)} AS l{n}"
            for n, query in enumerate(self.histograms)
        ]
        listed = ", ".join(names + clips + lists) or "1 AS one"
        return f"SELECT {listed} FROM totals{self._of_existing()}"

    def _clip(self, part: Measurement, total: str) -> str:
        if isinstance(part, DistinctCount | DistinctSum):
            return self._values_of(part, total)
        part = part.total if isinstance(part, ScaledTotal) else part
        return clipped_total(part, total, whole=self.weight is not None)

    def _of_existing(self) -> str:
        """Keeps the totals of the units that exist, where their rows were not looked up."""
        return "" if self.lookup is None else f" SEMI JOIN {exists(self.lookup, 'totals.u')}"

    def _unit_total(self, part: Measurement) -> str:
        match part:
            case DistinctCount():
                return self._values(part)
            case DistinctSum(values=values):
                return self._values(values)
            case UnitCount(condition=None):
                return "1"
            case UnitCount():
                return f"CASE WHEN COUNT(*){self._filter(part)} > 0 THEN 1 ELSE 0 END"
            case RowCount() | ClippedSum() | BlockAverage() | RowTest() | StableMean():
                return self._sum(part, unit_value)
            case ScaledTotal():
                return self._unit_total(part.total)
            case _:
                assert_never(part)

    def _values(self, part: DistinctCount) -> str:
        """The values of a unit in a group as a list; where one may be added, that of least hash."""
        x = self.inputs[part.argument]
        if not part.chosen:
            return f"list({x}){self._filter(part)}"
        # A NULL that the policy does not declare must not take the place of a value.
        conditions = [
            f"{x} IS NOT NULL",
            *([self.inputs[part.condition]] if part.condition else []),
        ]
        where = f"FILTER (WHERE {' AND '.join(conditions)})"
        if part.total_upper == 1:
            # Of equal hashes, which whoever writes texts can make, the least value: which one the
            # engine meets first depends on other people's rows.
            return f"[(MIN({{'h': {self._hash(x)}, 'x': {x}}}) {where}).x]"
        return f"list(DISTINCT {x}) {where}"

    def _values_of(self, part: DistinctCount | DistinctSum, values: str) -> str:
        """Those of its values that a unit may add to a group."""
        counted = part.values
        if not counted.chosen or counted.total_upper == 1 or counted in self.pairs:
            return values
        return fewest(values, counted.total_upper, self._hash)

    def _hash(self, *columns: str) -> str:
        """The keyed hash that units, keys and these columns are chosen by."""
        return f"hash($sampling_key::UBIGINT, {', '.join(['u', *self.keys, *columns])})"

    def _without_values(self) -> str:
        """What is summed of each unit and group: nothing yet of the distinct values."""
        parts = [
            f"0 AS p{n}" if isinstance(part, DistinctCount | DistinctSum) else f"p{n}"
            for n, part in enumerate(self.parts)
        ]
        return f"SELECT {', '.join([*self.keys, *parts])} FROM bounded"

    def _of_values_once(self) -> list[str]:
        """For each count or sum of distinct values its rows, one a group, with zeros elsewhere."""
        group = f" GROUP BY {', '.join(self.keys)}" if self.keys else ""
        counts = []
        for place, part in enumerate(self.parts):
            if isinstance(part, DistinctCount | DistinctSum):
                places = range(len(self.parts))
                listed = [once(part, "v") if n == place else "0" for n in places]
                values = self._kept_values(part.values, f"p{place}")
                counts.append(f"SELECT {', '.join([*self.keys, *listed])} FROM ({values}){group}")
        return counts

    def _kept_values(self, part: DistinctCount, listed: str) -> str:
        """The values that count, one a row with its group; of those of a unit in all groups
        together, where so many count, the ones of least keyed hash.
        """
        if part not in self.pairs:
            return f"SELECT {', '.join([*self.keys, f'unnest({listed}) AS v'])} FROM bounded"
        every = f"SELECT {', '.join(['u', *self.keys, f'unnest({listed}) AS v'])} FROM bounded"
        order = ", ".join([self._hash("v"), *self.keys, "v"])
        place = f"ROW_NUMBER() OVER (PARTITION BY u ORDER BY {order})"
        first = f"QUALIFY {place} <= {part.total_upper}"
        return f"SELECT * FROM ({every}) WHERE v IS NOT NULL {first}"

    def _kept_rows(self) -> str:
        """The rows of the groups that units keep: those with the totals that are kept."""
        if not self.plan.enforce_l0:
            return "rows"
        same = [f"rows.{name} IS NOT DISTINCT FROM bounded.{name}" for name in ("u", *self.keys)]
        return f"(SELECT rows.* FROM rows SEMI JOIN bounded ON {' AND '.join(same)})"

    def _samples(self, rows: str) -> list[str]:
        """For each sampled part its rows, one per group, with zeros elsewhere."""
        group = f" GROUP BY {', '.join(self.keys)}" if self.keys else ""
        sums = []
        for place, part in self.sampled.items():
            value = f"SUM({row_value(part, 'v')})"
            listed = [f"{value if n == place else 0} AS p{n}" for n in range(len(self.parts))]
            values = block_values(part, self.keys, self.inputs, rows)
            sums.append(f"SELECT {', '.join([*self.keys, *listed])} FROM ({values}){group}")
        return sums

    def _cells_of_rows(self, query: Histogram) -> str:
        """The cell of every row."""
        where = "" if query.condition is None else f" WHERE {self.inputs[query.condition]}"
        place = cell(query, self.inputs[query.argument])
        return f"SELECT {', '.join([*self.keys, f'{place} AS cell'])} FROM rows{where}"

    def _cells_of_units(self, number: int) -> str:
        """The cell of every row that a unit kept."""
        return f"SELECT {', '.join([*self.keys, f'unnest(l{number}) AS cell'])} FROM bounded"

    def _listed_cells(self, query: Histogram) -> str:
        """The cells of a unit's rows in a group."""
        place = cell(query, self.inputs[query.argument])
        conditions = [f"{place} IS NOT NULL"]
        if query.condition is not None:
            conditions.append(self.inputs[query.condition])
        return cells_of_rows(query, place, f" FILTER (WHERE {' AND '.join(conditions)})")

    def _sum(self, part: Measurement, of_row: Callable[[ValueTotal, str], str] = row_value) -> str:
        """A part over whole groups of rows, or over those of one unit."""
        match part:
            case BlockAverage():
                return "SUM(0)"
            case RowCount() | UnitCount() | RowTest():
                counted = "COUNT(*)" if self.weight is None else "SUM(w)"
                total = f"{counted}{self._filter(part)}"
                return total if self.weight is None else f"COALESCE({total}, 0)"
            case DistinctCount():
                return once(part, self.inputs[part.argument], self._filter(part))
            case DistinctSum(values=values):
                return once(part, self.inputs[values.argument], self._filter(values))
            case ClippedSum() | StableMean():
                x = self.inputs[part.argument]
                value = of_row(part, x) if self.weight is None else weighed_value(part, x, "w")
                return f"SUM({value}){self._filter(part)}"
            case ScaledTotal():
                return self._sum(part.total, of_row)
            case _:
                assert_never(part)

    def _sum_of_rows(self, part: Measurement) -> str:
        """A part over whole groups of rows, as an integer."""
        total = self._sum(part)
        whole = self.weight is not None or isinstance(part, DistinctSum)
        return total if whole else as_integer(part.lattice, total)

    def _filter(self, part: Measurement) -> str:
        return "" if part.condition is None else f" FILTER (WHERE {self.inputs[part.condition]})"

    def _grouped(self, sums: list[str], source: str, having: str = "") -> str:
        listed = [*self.keys, *(f"COALESCE({s}::HUGEINT, 0) AS p{n}" for n, s in enumerate(sums))]
        group = f" GROUP BY {', '.join(self.keys)}" if self.keys else ""
        return f"SELECT {', '.join(listed)} FROM {source}{group}{having}"


def weighed_rows(block: PrivateBlock) -> tuple[PrivateBlock, Expression | None]:
    """The block over the rows that are added up, and how many of its own each of them is."""
    if block.weighed is None:
        return block, None
    return replace(block, rows=block.weighed.rows), block.weighed.weight


def _read(part: Measurement | Histogram) -> list[Expression]:
    """What a part reads of a row."""
    match part:
        case BlockAverage():
            return list(inputs_of(part))
        case Histogram():
            return part.expressions
        case _:
            return expressions_of(part)


def _one_zero(kind: SqlType, text: str) -> str:
    """A key in which 0.0 stands for -0.0 too: which one a group shows would depend on its rows."""
    return f"CASE WHEN {text} = 0 THEN 0.0 ELSE {text} END" if kind.kind is Kind.DOUBLE else text


def _typed(node: Expression, text: str) -> str:
    """An input in the very type that its lattice is made for, whatever the engine makes of it."""
    if isinstance(node, Call | Cast) and node.type.kind is Kind.DECIMAL:
        return f"TRY_CAST({text} AS {type_name(node.type)})"
    return text


def cell(query: Histogram, x: str) -> str:
    """The cell that holds a value; NULL for NULL, NaN and what no cell holds."""
    grid = query.grid
    if grid.values:
        listed = ", ".join(constant(Literal(value, grid.kind)) for value in grid.values)
        return f"(NULLIF(list_position([{listed}], {x}), 0) - 1)::BIGINT"
    place = f"({_integer(query, x)} - ({grid.lower}))"
    return place if grid.width == 1 else f"{place} // {grid.width}"


def _integer(query: Histogram, x: str) -> str:
    """The value as an integer of the grid, clamped to its ends."""
    grid = query.grid
    match grid.kind.kind:
        case Kind.DATE:
            day = Literal(date(1970, 1, 1), DATE)
            return f"({_between(grid, x)} - {constant(day)})::BIGINT"
        case Kind.TIMESTAMP | Kind.TIMESTAMPTZ:
            return f"epoch_us({_between(grid, x)})"
        case _:
            row = ClippedSum(
                argument=query.argument,
                condition=None,
                lattice=grid.lattice,
                lower=grid.lower,
                upper=grid.upper,
                total_lower=grid.lower,
                total_upper=grid.upper,
            )
            return row_integer(row, x)


def _between(grid: Grid, x: str) -> str:
    """A date or time, no farther than the ends of the grid."""
    ends = (constant(Literal(grid.value(end), grid.kind)) for end in (grid.lower, grid.upper))
    return clamped(x, *ends)


def cells_of_rows(query: Histogram, place: str, where: str) -> str:
    """The cells of a unit's rows in a group, as a list; of an extreme only that."""
    match query.contributed:
        case ContributedRows.ALL | ContributedRows.HASHED:
            return f"list({place}){where}"
        case ContributedRows.LEAST:
            return f"[MIN({place}){where}]"
        case ContributedRows.GREATEST:
            return f"[MAX({place}){where}]"


def kept_cells(query: Histogram, listed: str, hashed: Callable[[str], str]) -> str:
    """Those of its cells that a unit contributes to a group.

    The hash is of the cell: of rows in one cell any may be kept.
    """
    chosen = query.contributed is ContributedRows.HASHED
    return fewest(listed, query.rows, hashed) if chosen else listed


def with_cells(keys: list[str], parts: int, sums: str | None, cells: list[tuple[str, int]]) -> str:
    """One row per group with its sums, and one per group and cell with the rows in it.

    `cells` are for each histogram the SQL that yields `keys` and `cell`, one row for each row that
    counts, and where its cells begin among all.
    """
    grouped = ", ".join([*keys, "cell"])
    named = "".join(f"{key}, " for key in keys)
    totals = "".join(f"p{n}, " for n in range(parts))
    zeros = "".join(f"0::HUGEINT AS p{n}, " for n in range(parts))
    rows = [f"SELECT {named}NULL::BIGINT AS cell, {totals}0::HUGEINT AS n FROM ({sums})"] * (
        sums is not None
    )
    rows += [
        f"SELECT {named}cell + {first} AS cell, {zeros}COUNT(*)::HUGEINT AS n"
        f" FROM ({source}) WHERE cell IS NOT NULL GROUP BY {grouped}"
        for source, first in cells
    ]
    return " UNION ALL ".join(rows)


def inputs_of(part: BlockAverage) -> Iterator[Expression]:
    """What the aggregates of a sampled part read of a row, constants left out."""
    for call in _aggregates(part.argument):
        yield from (child for child in children(call) if not isinstance(child, Literal | Star))


def block_values(
    part: BlockAverage, keys: Sequence[str], inputs: Mapping[Expression, str], source: str
) -> str:
    """One row per group and block of units: its value `v`, NULL where that is not finite.

    `source` has the units as `u`, the keys, and the `inputs` under their names. The block of a
    unit is a keyed hash of it alone: all of its rows are in one block, in every group.
    """
    calls = list(dict.fromkeys(_aggregates(part.argument)))
    names = dict(enumerate(inputs.values()))
    places = {expression: n for n, expression in enumerate(inputs)}
    printer = Printer(lambda _relation: None)

    def over_inputs(child: Expression) -> Expression:
        if child not in places or isinstance(child, Name | Star | ScalarQuery | Membership):
            return child
        return Ref(places[child], child.type)

    columns = [
        f"{printer.text(map_children(call, over_inputs), names)} AS a{n}"
        for n, call in enumerate(calls)
    ]
    group = ", ".join([*keys, f"hash($sampling_key::UBIGINT, 'block', u) % {part.blocks}"])
    blocks = f"SELECT {', '.join([*keys, *columns])} FROM {source} GROUP BY {group}"
    value = printer.text(_over(part.argument, calls), {n: f"a{n}" for n in range(len(calls))})
    listed = ", ".join([*keys, f"TRY_CAST({value} AS DOUBLE) AS x"])
    finite = ", ".join([*keys, "CASE WHEN isfinite(x) THEN x END AS v"])
    return f"SELECT {finite} FROM (SELECT {listed} FROM ({blocks}))"


def _aggregates(expression: Expression) -> Iterator[AggregateCall]:
    return (node for node in walk(expression) if isinstance(node, AggregateCall))


def _over(expression: Expression, calls: Sequence[AggregateCall]) -> Expression:
    """The expression over the columns that hold its aggregates."""
    if isinstance(expression, AggregateCall):
        return Ref(calls.index(expression), expression.type)
    return map_children(expression, lambda child: _over(child, calls))
