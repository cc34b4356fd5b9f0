"""The one statement of a private block on PostgreSQL: clip, bound contributions, sum integers.

Shape: `rows` (each with its unit), `totals` (one row per unit and group), `clipped`, `many` and
`kept` (clipped totals of at most L0 groups per unit) and the exact sums; stages that a proof makes
superfluous are not printed. Values that count once, and cells of histograms, are
arrays of a unit and group.

Proof (PRIVACY.md R27). What is kept of a unit follows from its own rows and the query's key: groups
strictly below the hash of rank L0 + 1, values and cells by hash and then by value, whatever the
order of rows. The hash is MD5 behind a key that is a parameter; hashes that somebody brings about
to be equal keep fewer groups, never more. A value has one text, whichever of its rows it is read
from: DECIMAL keys are rounded to their type's scale, and 0.0 stands for -0.0.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date
from typing import assert_never

from dpsql.compiler.plan.lattices import ContributedRows, Grid, Histogram
from dpsql.compiler.plan.measurement_kinds import (
    BlockAverage,
    ClippedSum,
    DistinctCount,
    DistinctSum,
    Measurement,
    RowCount,
    RowTest,
    ScaledTotal,
    StableMean,
    UnitCount,
    expressions_of,
)
from dpsql.compiler.plan.private_plan import BlockPlan, BlockSql
from dpsql.dialects.postgres.constant_sql import COLLATE, constant
from dpsql.dialects.postgres.lacking import lacking
from dpsql.dialects.postgres.lattice_sql import (
    as_integer,
    clamped,
    clipped_total,
    row_integer,
    row_value,
    weighed_value,
)
from dpsql.dialects.postgres.postgres_relations import PostgresPrinter
from dpsql.dialects.postgres.scaling_sql import norm_of_total, scaled_total
from dpsql.model.algebra import Staged
from dpsql.model.tree import (
    DATE,
    INTEGER,
    Call,
    Cast,
    Expression,
    Kind,
    Literal,
    Ref,
    SqlType,
)
from dpsql.model.vocabulary import Norm
from dpsql.model.walk import map_children, relations

WIDEST = -(2**63), 2**63 - 1
KEY = "$sampling_key"


def block_sql(plan: BlockPlan) -> BlockSql:
    """The statement that returns a block's keys and exact integers, one row per group.

    Raises `Refused` for what PostgreSQL has no exact form of.
    """
    block = _Block(plan)
    parts = relations(block.source)
    more = 1 if plan.histograms else 0
    return BlockSql(
        block.sql(),
        (*(item.field.type for item in plan.block.keys), *[INTEGER] * more),
        len(plan.queries) + more,
        tuple(sorted({part.stage for part in parts if isinstance(part, Staged)})),
    )


class _Block:
    """The statement of a block."""

    def __init__(self, plan: BlockPlan) -> None:
        if plan.block.vote is not None:
            raise lacking("a bound that is found of what people contribute", plan.block.span)
        if any(isinstance(part, BlockAverage) for part in plan.queries):
            raise lacking("SAMPLE_AGGREGATE", plan.block.span)
        self.plan = plan
        self.parts, self.histograms = plan.queries, plan.histograms
        weighed = plan.block.weighed
        self.source = plan.block.rows if weighed is None else weighed.rows
        self.weight = None if weighed is None else weighed.weight
        self.scaled = {n: p for n, p in enumerate(self.parts) if isinstance(p, ScaledTotal)}
        sets = [p.values for p in self.parts if isinstance(p, DistinctCount | DistinctSum)]
        self.pairs = [values for values in sets if values.norm is Norm.L1]
        self.whose = plan.enforce_l0 or bool(self.scaled or self.pairs)
        self.keys = [f"k{n}" for n in range(len(plan.block.keys))]
        self.inputs: dict[Expression, str] = {}
        for query in self.parts:
            for node in expressions_of(query):
                self.inputs.setdefault(node, f"x{len(self.inputs)}")
        for histogram in self.histograms:
            for node in histogram.expressions:
                self.inputs.setdefault(node, f"x{len(self.inputs)}")

    def sql(self) -> str:
        if not (self.keys or self.parts or self.histograms):
            return "SELECT 1 AS one"  # one group, of which nothing is asked
        if self.plan.row_level:
            sums = [self._sum_of_rows(part) for part in self.parts]
            listed = [self._cells_of_rows(query) for query in self.histograms]
            return f"WITH rows AS ({self._rows()}) {self._result(sums, 'rows', listed)}"
        stages = [f"rows AS ({self._rows()})", f"totals AS ({self._totals()})"]
        source = self._clipped()
        if self.plan.enforce_l0:
            stages += self._sampled(source)
            source = "SELECT * FROM kept"
        if self.scaled:
            stages.append(f"kept_totals AS MATERIALIZED ({source})")
            source = self._scaled("kept_totals")
        if self.histograms or any(isinstance(p, DistinctCount | DistinctSum) for p in self.parts):
            stages.append(f"bounded AS MATERIALIZED ({source})")
            source = " UNION ALL ".join([self._without_values(), *self._of_values_once()])
        sums = [f"SUM(p{n})" for n in range(len(self.parts))]
        listed = [self._cells_of_units(n) for n in range(len(self.histograms))]
        return f"WITH {', '.join(stages)} {self._result(sums, f'({source}) AS parts', listed)}"

    # --- rows, totals, clipped totals ---

    def _rows(self) -> str:
        """unit, keys, the inputs of the measurements, and how many private rows a row is."""
        block = self.plan.block
        printer = PostgresPrinter(lambda _relation: None)
        source, where, columns = printer.source(self.source)
        items = [] if self.plan.row_level else [f"{columns[block.unit.id]} AS u"]
        items += [
            f"{_as_key(key.field.type, key.expression, printer.text(key.expression, columns))}"
            f" AS {name}"
            for key, name in zip(block.keys, self.keys, strict=True)
        ]
        items += [
            f"{_typed(node, printer.text(node, columns))} AS {name}"
            for node, name in self.inputs.items()
        ]
        if self.weight is not None:
            items.append(f"{printer.text(self.weight, columns)} AS w")
        conditions = f" WHERE {' AND '.join(f'({c})' for c in where)}" if where else ""
        from_ = f" FROM {source}" if source else ""
        return f"SELECT {', '.join(items) or '1 AS one'}{from_}{conditions}"

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
        lists = [f"{self._kept_cells(q, f'l{n}')} AS l{n}" for n, q in enumerate(self.histograms)]
        return f"SELECT {', '.join(names + clips + lists) or '1 AS one'} FROM totals"

    def _clip(self, part: Measurement, total: str) -> str:
        if isinstance(part, DistinctCount | DistinctSum):
            counted = part.values
            if not counted.chosen or counted.total_upper == 1 or counted in self.pairs:
                return total
            return self._fewest(total, counted.total_upper, counted.argument)
        part = part.total if isinstance(part, ScaledTotal) else part
        if isinstance(part, UnitCount):
            return total  # 1, or nothing
        return clipped_total(part, total, whole=self.weight is not None)

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
                return self._sum(part)
            case ScaledTotal():
                return self._unit_total(part.total)
            case _:
                assert_never(part)

    # --- what is added up ---

    def _sum(self, part: Measurement) -> str:
        """A part over whole groups of rows, or over those of one unit."""
        match part:
            case RowCount() | UnitCount() | RowTest():
                counted = "COUNT(*)" if self.weight is None else "SUM(w)"
                total = f"{counted}{self._filter(part)}"
                return total if self.weight is None else f"COALESCE({total}, 0)"
            case ClippedSum() | StableMean():
                x = self.inputs[part.argument]
                value = row_value(part, x) if self.weight is None else weighed_value(part, x, "w")
                return f"SUM({value}){self._filter(part)}"
            case ScaledTotal():
                return self._sum(part.total)
            case DistinctCount():
                return f"COUNT(DISTINCT {self.inputs[part.argument]}){self._filter(part)}"
            case DistinctSum() | BlockAverage():
                raise lacking("a sum of different values", self.plan.block.span)
            case _:
                assert_never(part)

    def _sum_of_rows(self, part: Measurement) -> str:
        """A part over whole groups of rows, as an integer."""
        total = self._sum(part)
        return total if self.weight is not None else as_integer(part.lattice, total)

    def _filter(self, part: Measurement) -> str:
        return "" if part.condition is None else f" FILTER (WHERE {self.inputs[part.condition]})"

    def _scaled(self, source: str) -> str:
        """The totals of each unit and group, scaled by the norm over all groups of the unit."""
        norms = [f"{norm_of_total(part, f'p{n}')} AS n{n}" for n, part in self.scaled.items()]
        listed = [
            f"{scaled_total(self.scaled[n], f'p{n}', f'n{n}')} AS p{n}"
            if n in self.scaled
            else f"p{n}"
            for n in range(len(self.parts))
        ]
        listed += [f"l{n}" for n in range(len(self.histograms))]
        of_units = f"SELECT u, {', '.join(norms)} FROM {source} GROUP BY u"
        names = ", ".join(["u", *self.keys, *listed])
        return f"SELECT {names} FROM {source} JOIN ({of_units}) AS norms USING (u)"

    def _grouped(self, sums: Sequence[str], source: str) -> str:
        listed = [*self.keys, *(f"COALESCE({s}, 0) AS p{n}" for n, s in enumerate(sums))]
        group = f" GROUP BY {', '.join(self.keys)}" if self.keys else ""
        return f"SELECT {', '.join(listed)} FROM {source}{group}"

    # --- groups that a unit keeps ---

    def _hash(self, *columns: tuple[str, SqlType]) -> str:
        """The keyed hash that units, keys and these columns are chosen by."""
        keys = zip(self.keys, (item.field.type for item in self.plan.block.keys), strict=True)
        texts = [_text("u", self.plan.block.unit.type)]
        texts += [f"coalesce({_text(name, kind)}, '')" for name, kind in (*keys, *columns)]
        hashed = " || '|' || ".join([KEY, *texts])
        return f"(md5({hashed}) {COLLATE})"

    def _sampled(self, source: str) -> list[str]:
        """Units with more than L0 groups keep those whose keyed hash is below their L0+1st.

        That is those with no more than L0 hashes up to their own, equal ones counted: however many
        are equal, no more than L0 groups are kept. Which they are depends on the rows of the unit
        and the key alone. Each group is hashed once, and none of a unit within its limit is.
        """
        parts = [f"p{n}" for n in range(len(self.parts))]
        lists = [f"l{n}" for n in range(len(self.histograms))]
        names = ", ".join(["u", *self.keys, *parts, *lists])
        many = f"SELECT u FROM clipped GROUP BY u HAVING COUNT(*) > {self.plan.l0}"
        hashed = f"SELECT *, {self._hash()} AS h FROM clipped WHERE u IN (SELECT u FROM many)"
        ranked = (
            f"SELECT *, COUNT(*) OVER (PARTITION BY u ORDER BY h) AS place FROM ({hashed}) AS h"
        )
        limited = (
            f"SELECT {names} FROM clipped"
            " WHERE NOT EXISTS (SELECT FROM many WHERE many.u = clipped.u)"
            f" UNION ALL SELECT {names} FROM ({ranked}) AS ranked WHERE place <= {self.plan.l0}"
        )
        named = {
            "clipped AS MATERIALIZED": source,
            "many AS MATERIALIZED": many,
            "kept AS": limited,
        }
        return [f"{name} ({sql})" for name, sql in named.items()]

    # --- values that count once ---

    def _values(self, part: DistinctCount) -> str:
        """The values of a unit in a group as a list; where one may be added, that of least hash."""
        x, kind = self.inputs[part.argument], _type(part.argument)
        value = _ordered(x, kind)
        if not part.chosen:
            return f"array_agg({value}){self._filter(part)}"
        # A NULL that the policy does not declare must not take the place of a value.
        conditions = [
            f"{x} IS NOT NULL",
            *([self.inputs[part.condition]] if part.condition else []),
        ]
        where = f"FILTER (WHERE {' AND '.join(conditions)})"
        if part.total_upper == 1:
            # Of equal hashes, which whoever writes texts can make, the least value.
            order = f"{self._hash((x, kind))}, {value}"
            return f"(array_agg({value} ORDER BY {order}) {where})[1:1]"
        return f"array_agg(DISTINCT {value}) {where}"

    def _fewest(self, listed: str, most: int, argument: Expression | None) -> str:
        """A list no longer than `most`: of a longer one what has the lowest keyed hashes."""
        kind = INTEGER if argument is None else _type(argument)
        order = f"{self._hash(('v', kind))}, {_ordered('v', kind)}"
        first = f"ARRAY(SELECT v FROM unnest({listed}) AS e(v) ORDER BY {order} LIMIT {most})"
        return f"CASE WHEN cardinality({listed}) > {most} THEN {first} ELSE {listed} END"

    def _without_values(self) -> str:
        """What is summed of each unit and group: nothing yet of the distinct values."""
        parts = [
            f"0 AS p{n}" if isinstance(part, DistinctCount | DistinctSum) else f"p{n}"
            for n, part in enumerate(self.parts)
        ]
        return f"SELECT {', '.join([*self.keys, *parts]) or '1 AS one'} FROM bounded"

    def _of_values_once(self) -> list[str]:
        """For each count or sum of distinct values its rows, one a group, with zeros elsewhere."""
        group = f" GROUP BY {', '.join(self.keys)}" if self.keys else ""
        counts = []
        for place, part in enumerate(self.parts):
            if not isinstance(part, DistinctCount | DistinctSum):
                continue
            values, one = self._kept_values(part.values, f"p{place}"), "COUNT(DISTINCT v)"
            if isinstance(part, DistinctSum):
                names = ", ".join([*self.keys, "v"])
                values = f"SELECT DISTINCT {names} FROM ({values}) AS every"
                one = f"SUM({row_integer(part, self._computed(part))})"
            listed = [one if n == place else "0" for n in range(len(self.parts))]
            named = ", ".join([*self.keys, *listed])
            counts.append(f"SELECT {named} FROM ({values}) AS listed{group}")
        return counts

    def _kept_values(self, part: DistinctCount, listed: str) -> str:
        """The values that count, one a row with its group; of those of a unit in all groups
        together, where so many count, the ones of least keyed hash.
        """
        if part not in self.pairs:
            return f"SELECT {', '.join([*self.keys, f'unnest({listed}) AS v'])} FROM bounded"
        kind = _type(part.argument)
        every = f"SELECT {', '.join(['u', *self.keys, f'unnest({listed}) AS v'])} FROM bounded"
        order = ", ".join([self._hash(("v", kind)), *self.keys, _ordered("v", kind)])
        place = f"ROW_NUMBER() OVER (PARTITION BY u ORDER BY {order}) AS place"
        ranked = f"SELECT *, {place} FROM ({every}) AS pairs WHERE v IS NOT NULL"
        named = ", ".join([*self.keys, "v"])
        return f"SELECT {named} FROM ({ranked}) AS ranked WHERE place <= {part.total_upper}"

    def _computed(self, part: DistinctSum) -> str:
        """What is said of a value `v`."""

        def over_value(node: Expression) -> Expression:
            if node != part.values.argument:
                return map_children(node, over_value)
            return Ref(0, _type(node))

        printer = PostgresPrinter(lambda _relation: None)
        node: Expression = over_value(part.argument)
        return f"({_typed(node, printer.text(node, {0: 'v'}))})"

    # --- cells of histograms ---

    def _cells_of_rows(self, query: Histogram) -> str:
        """The cell of every row."""
        where = "" if query.condition is None else f" WHERE {self.inputs[query.condition]}"
        place = cell(query, self.inputs[query.argument])
        return f"SELECT {', '.join([*self.keys, f'{place} AS cell'])} FROM rows{where}"

    def _cells_of_units(self, number: int) -> str:
        """The cell of every row that a unit kept."""
        return f"SELECT {', '.join([*self.keys, f'unnest(l{number}) AS cell'])} FROM bounded"

    def _listed_cells(self, query: Histogram) -> str:
        """The cells of a unit's rows in a group, as a list; of an extreme only that."""
        place = cell(query, self.inputs[query.argument])
        conditions = [f"{place} IS NOT NULL"]
        if query.condition is not None:
            conditions.append(self.inputs[query.condition])
        where = f" FILTER (WHERE {' AND '.join(conditions)})"
        match query.contributed:
            case ContributedRows.ALL | ContributedRows.HASHED:
                return f"array_agg({place}){where}"
            case ContributedRows.LEAST:
                return f"ARRAY[MIN({place}){where}]"
            case ContributedRows.GREATEST:
                return f"ARRAY[MAX({place}){where}]"

    def _kept_cells(self, query: Histogram, listed: str) -> str:
        """Those of its cells that a unit contributes to a group.

        The hash is of the cell: of rows in one cell any may be kept.
        """
        chosen = query.contributed is ContributedRows.HASHED
        return self._fewest(listed, query.rows, None) if chosen else listed

    def _result(self, sums: list[str], source: str, listed: list[str]) -> str:
        """The sums of each group, and the cells of the histograms if there are any."""
        if not listed:
            return self._grouped(sums, source)
        named = "".join(f"{key}, " for key in self.keys)
        totals = "".join(f"p{n}, " for n in range(len(sums)))
        zeros = "".join(f"0 AS p{n}, " for n in range(len(sums)))
        rows = []
        if sums or self.keys:
            grouped = self._grouped(sums, source)
            rows.append(
                f"SELECT {named}NULL::bigint AS cell, {totals}0 AS n FROM ({grouped}) AS sums"
            )
        first = 0
        for query, cells in zip(self.histograms, listed, strict=True):
            rows.append(
                f"SELECT {named}cell + {first} AS cell, {zeros}COUNT(*) AS n"
                f" FROM ({cells}) AS cells WHERE cell IS NOT NULL"
                f" GROUP BY {', '.join([*self.keys, 'cell'])}"
            )
            first += query.grid.cells
        return " UNION ALL ".join(rows)


def cell(query: Histogram, x: str) -> str:
    """The cell that holds a value; NULL for NULL, NaN and what no cell holds."""
    grid = query.grid
    if grid.values:
        whens = " ".join(
            f"WHEN {x} = {constant(Literal(value, grid.kind))} THEN {place}"
            for place, value in enumerate(grid.values)
        )
        return f"(CASE {whens} END)::bigint"
    place = f"({_place(query, x)})::numeric - ({grid.lower})"
    return f"({place})::bigint" if grid.width == 1 else f"div({place}, {grid.width})::bigint"


def _place(query: Histogram, x: str) -> str:
    """The value as an integer of the grid, clamped to its ends."""
    grid = query.grid
    match grid.kind.kind:
        case Kind.DATE:
            return f"{_between(grid, x)} - {constant(Literal(date(1970, 1, 1), DATE))}"
        case Kind.TIMESTAMP | Kind.TIMESTAMPTZ:
            return f"trunc(extract(epoch FROM {_between(grid, x)}) * 1000000)"
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
    return f"({clamped(x, *ends)})"


def _type(node: Expression) -> SqlType:
    """The type of what a measurement reads."""
    return node.type if isinstance(node, Ref | Call | Cast | Literal) else INTEGER


def _as_key(kind: SqlType, node: Expression, text: str) -> str:
    """A key of which equal values are the same value: as shown, and as hashed."""
    match kind.kind:
        case Kind.DOUBLE:
            return f"CASE WHEN {text} = 0 THEN float8 '0' ELSE {text} END"
        case Kind.DECIMAL:
            return f"round({text}, {kind.scale})"
        case Kind.INTEGER if not isinstance(node, Ref):
            least, most = WIDEST
            return f"CASE WHEN {text} BETWEEN {least} AND {most} THEN ({text})::bigint END"
        case Kind.LIST | Kind.INTERVAL:
            raise lacking(f"groups by a value of type {kind}")
        case _:
            return text


def _typed(node: Expression, text: str) -> str:
    """An input in the very type that its lattice is made for."""
    if isinstance(node, Call | Cast) and node.type.kind is Kind.DECIMAL:
        return f"round({text}, {node.type.scale})"
    return text


def _ordered(x: str, kind: SqlType) -> str:
    """A value where values are put into order or listed: one for equal ones, and byte by byte."""
    if kind.kind is Kind.VARCHAR:
        return f"{x} {COLLATE}"
    return f"({x} + float8 '0')" if kind.kind is Kind.DOUBLE else x


def _text(x: str, kind: SqlType) -> str:
    """The text of a value, the same for equal values."""
    match kind.kind:
        case Kind.DECIMAL:
            x = f"round({x}, {kind.scale})"
        case Kind.DOUBLE:
            x = _ordered(x, kind)
    return f"{x}::text"
