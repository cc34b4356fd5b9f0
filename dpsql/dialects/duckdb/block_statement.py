"""The one statement of a private block on DuckDB.

Its shape is that of every engine (see `block_printer`), with the limits of `unit_limits`. Work and
memory follow the rows that there are, never a limit: what is within its limit is neither hashed nor
ranked.

Proof (PRIVACY.md R27). The hash is DuckDB's own, of the query's key and of the values themselves.
Blocks of SAMPLE_AGGREGATE are units by a keyed hash, so that one number of each group changes with
a unit: PRIVACY.md R37.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, assert_never

from dpsql.compiler.plan.lattices import Grid
from dpsql.compiler.plan.measurement_kinds import (
    BlockAverage,
    ClippedSum,
    DistinctCount,
    DistinctSum,
    MeanVote,
    RangeVote,
    RatioVote,
    UnitVote,
    Vote,
)
from dpsql.compiler.plan.private_plan import BlockPlan, BlockSql, PrivateBlock
from dpsql.dialects.block_printer import (
    BlockPrinter,
    LatticeSql,
    LimitedUnits,
    aggregates,
    statement_of,
)
from dpsql.dialects.duckdb import total_sql
from dpsql.dialects.duckdb.distinct_sql import fewest, once
from dpsql.dialects.duckdb.norm_sql import (
    norm_of_unit,
    octave,
    place_of_mean,
    place_of_ratio,
)
from dpsql.dialects.duckdb.relation_sql import Printer
from dpsql.dialects.duckdb.unit_limits import UnitLimits
from dpsql.dialects.duckdb.unit_sql import exists, looked_up
from dpsql.model.algebra import Join, Relation
from dpsql.model.tree import (
    AggregateCall,
    Call,
    Cast,
    Expression,
    Kind,
    Membership,
    Name,
    Ref,
    ScalarQuery,
    SqlType,
    Star,
    type_name,
)
from dpsql.model.walk import map_children


def block_sql(plan: BlockPlan) -> BlockSql:
    """The statement that returns a block's keys and exact integers, one row per group."""
    vote = plan.block.vote
    block = DuckDBBlock(plan, vote)
    return statement_of(block, block.sql() if vote is None else block.votes(vote))


class DuckDBBlock(BlockPrinter):
    """A block as DuckDB writes it."""

    lattice: ClassVar[LatticeSql] = total_sql
    whole = "::HUGEINT"
    listing = "list"
    semi_join = "SEMI JOIN"

    def votes(self, vote: UnitVote) -> str:
        """The number of units in each octave of a norm, or about each mean: a unit is in one."""
        match vote:
            case Vote():
                clipped = self.clipped()
                norms = f"SELECT {norm_of_unit(vote, 'p0')} AS n FROM ({clipped}) GROUP BY u"
                of_units = f"totals AS ({self.totals()}), norms AS ({norms})"
                source, place = "norms WHERE n > 0", octave(vote, "n")
            case RangeVote():
                of_units = f"totals AS ({self._of_values(vote.total, 'MAX(abs(v)) AS n')})"
                source, place = f"totals{self.of_existing()} WHERE n > 0", octave(vote, "n")
            case RatioVote():
                clipped = f"SELECT * FROM ({self.clipped()}) WHERE p1 > 0"
                of_units = f"totals AS ({self.totals()})"
                source, place = f"({clipped})", place_of_ratio(vote, "p0", "p1")
            case MeanVote():
                means = self._of_values(vote.total, "SUM(v) // COUNT(v) AS m")
                of_units = f"totals AS ({means})"
                source, place = f"totals{self.of_existing()}", place_of_mean(vote, "m")
            case _:
                assert_never(vote)
        return (
            f"WITH rows AS ({self.rows_of_units()}), {of_units}"
            f" SELECT {place} AS k0, COUNT(*)::HUGEINT AS p0 FROM {source} GROUP BY k0"
        )

    def _of_values(self, total: ClippedSum, items: str) -> str:
        """What is computed of each unit's rows as integers `v`, those without a value left out."""
        where = "" if total.condition is None else f" WHERE {self.inputs[total.condition]}"
        value = total_sql.row_integer(total, self.inputs[total.argument])
        values = f"SELECT u, {value} AS v FROM rows{where}"
        return f"SELECT u, {items} FROM ({values}) WHERE v IS NOT NULL GROUP BY u"

    # --- what DuckDB writes in its own way ---

    def printer(self) -> Printer:
        return Printer(lambda _relation: None)

    def key(self, kind: SqlType, _node: Expression, text: str) -> str:
        """0.0 stands for -0.0 too: which one a group shows would depend on its rows."""
        if kind.kind is not Kind.DOUBLE:
            return text
        return f"CASE WHEN {text} = 0 THEN 0.0 ELSE {text} END"

    def typed(self, node: Expression, text: str) -> str:
        if isinstance(node, Call | Cast) and node.type.kind is Kind.DECIMAL:
            return f"TRY_CAST({text} AS {type_name(node.type)})"
        return text

    def hash(self, *columns: tuple[str, SqlType]) -> str:
        return self._hash_of(*(column for column, _kind in columns))

    def _hash_of(self, *columns: str) -> str:
        return f"hash($sampling_key::UBIGINT, {', '.join(['u', *self.keys, *columns])})"

    def array(self, value: str) -> str:
        return f"[{value}]"

    def least(self, x: str, kind: SqlType, where: str) -> str:
        return f"[(MIN({{'h': {self.hash((x, kind))}, 'x': {x}}}) {where}).x]"

    def fewest(self, listed: str, most: int, _argument: Expression | None) -> str:
        return fewest(listed, most, self._hash_of)

    def first_pairs(self, every: str, order: str, most: int) -> str:
        place = f"ROW_NUMBER() OVER (PARTITION BY u ORDER BY {order})"
        return f"SELECT * FROM ({every}) WHERE v IS NOT NULL QUALIFY {place} <= {most}"

    def once(self, part: DistinctCount | DistinctSum, x: str, where: str) -> str:
        return once(part, x, where)

    def each_once(self, part: DistinctCount | DistinctSum, values: str) -> tuple[str, str]:
        return values, once(part, "v")

    def limited(self, source: str) -> LimitedUnits:
        listed = [f"l{n}" for n in range(len(self.histograms))]
        limits = UnitLimits(
            keys=self.keys,
            values=[*(f"p{n}" for n in range(len(self.parts))), *listed],
            hashed=self.hash(),
            l0=self.plan.l0 if self.plan.enforce_l0 else None,
            scaled={f"p{n}": part for n, part in self.scaled.items()},
        )
        return LimitedUnits(limits.stages(source), limits.rows, limits.signed)

    def looked_up(
        self, block: PrivateBlock, read: list[Expression]
    ) -> tuple[Relation, Join | None]:
        return looked_up(block, read)

    def exists(self, join: Join, unit: str) -> str:
        return exists(join, unit)

    def place_among(self, values: list[str], x: str) -> str:
        return f"(NULLIF(list_position([{', '.join(values)}], {x}), 0) - 1)::BIGINT"

    def instant(self, kind: SqlType, x: str) -> str:
        return f"({x} - DATE '1970-01-01')::BIGINT" if kind.kind is Kind.DATE else f"epoch_us({x})"

    def cell_of(self, integer: str, grid: Grid) -> str:
        place = f"({integer} - ({grid.lower}))"
        return place if grid.width == 1 else f"{place} // {grid.width}"

    def block_values(self, part: BlockAverage, rows: str) -> str:
        """One row per group and block of units: its value `v`, NULL where that is not finite.

        The block of a unit is a keyed hash of it alone: all of its rows are in one block, in every
        group.
        """
        calls = list(dict.fromkeys(aggregates(part.argument)))
        names = dict(enumerate(self.inputs.values()))
        places = {expression: n for n, expression in enumerate(self.inputs)}
        printer = self.printer()

        def over_inputs(child: Expression) -> Expression:
            if child not in places or isinstance(child, Name | Star | ScalarQuery | Membership):
                return child
            return Ref(places[child], child.type)

        columns = [
            f"{printer.text(map_children(call, over_inputs), names)} AS a{n}"
            for n, call in enumerate(calls)
        ]
        group = ", ".join([*self.keys, f"hash($sampling_key::UBIGINT, 'block', u) % {part.blocks}"])
        blocks = f"SELECT {', '.join([*self.keys, *columns])} FROM {rows} GROUP BY {group}"
        value = printer.text(_over(part.argument, calls), {n: f"a{n}" for n in range(len(calls))})
        listed = ", ".join([*self.keys, f"TRY_CAST({value} AS DOUBLE) AS x"])
        finite = ", ".join([*self.keys, "CASE WHEN isfinite(x) THEN x END AS v"])
        return f"SELECT {finite} FROM (SELECT {listed} FROM ({blocks}))"


def _over(expression: Expression, calls: Sequence[AggregateCall]) -> Expression:
    """The expression over the columns that hold its aggregates."""
    if isinstance(expression, AggregateCall):
        return Ref(calls.index(expression), expression.type)
    return map_children(expression, lambda child: _over(child, calls))
