"""The one statement of a private block on Spark: clip, bound contributions, sum integers.

Its shape is that of every engine (see `block_printer`). Spark may compute a stage again for each
reader. So limits are windows over one reading of the totals, and computed values follow from rows
alone: two readings of the same rows give the same values.

Proof (PRIVACY.md R27, R89). The kept part of a unit follows from its own rows and the query's key.
The first L0 groups are kept by hash and then by key. Values and cells are kept by hash and then by
value, in any order of rows. The hash is MD5 with a key that is a parameter. Provoked equal hashes
keep fewer groups, never more. A value has one text: DECIMAL keys are cast to their type, 0.0 stands
for -0.0, and there is one NaN.
"""

from __future__ import annotations

from typing import ClassVar

from dpsql.compiler.plan.lattices import Grid
from dpsql.compiler.plan.measurement_kinds import (
    DistinctCount,
    DistinctSum,
)
from dpsql.compiler.plan.private_plan import BlockPlan, BlockSql
from dpsql.dialects import block_printer
from dpsql.dialects.plain_block import PlainBlock
from dpsql.dialects.spark import spark_lattice, spark_norms
from dpsql.dialects.spark.spark_constants import WHOLE, lacking
from dpsql.dialects.spark.spark_expressions import SparkPrinter
from dpsql.dialects.spark.spark_numbers import in_type, one_value
from dpsql.dialects.unit_votes import votes
from dpsql.model.tree import INTEGER, Call, Cast, Expression, Kind, Ref, SqlType

KEY = "$sampling_key"
BLOCK_DIGITS = 15
"""Hexadecimal digits of a hash with 60 bits."""


def block_sql(plan: BlockPlan) -> BlockSql:
    """Return the statement for a block's keys and exact integers, one row per group.

    Raises `Refused` for constructs without an exact form on Spark.
    """
    vote = plan.block.vote
    block = SparkBlock(plan, vote)
    return block_printer.statement_of(
        block, block.sql() if vote is None else votes(block, vote, spark_norms)
    )


class SparkBlock(PlainBlock):
    """Printer of a block for Spark."""

    lattice: ClassVar[block_printer.LatticeSql] = spark_lattice
    whole = f"CAST({{}} AS {WHOLE})"
    no_cell = "CAST(NULL AS BIGINT)"
    materialized = "AS"
    listing = "collect_list"
    unnested = "explode"

    def printer(self) -> SparkPrinter:
        return SparkPrinter(lambda _relation: None)

    def key(self, kind: SqlType, node: Expression, text: str) -> str:
        match kind.kind:
            case Kind.DOUBLE:
                return self.ordered(text, kind)
            case Kind.DECIMAL:
                return in_type(text, kind)
            case Kind.INTEGER if not isinstance(node, Ref):
                return f"try_cast({text} AS BIGINT)"
            case Kind.LIST | Kind.INTERVAL | Kind.TIME | Kind.UUID:
                raise lacking(f"groups by a value of type {kind}")
            case _:
                return text

    def typed(self, node: Expression, text: str) -> str:
        if isinstance(node, Call | Cast) and node.type.kind is Kind.DECIMAL:
            return in_type(text, node.type)
        return text

    def ordered(self, x: str, kind: SqlType) -> str:
        return one_value(x, kind)

    def hash(self, *columns: tuple[str, SqlType]) -> str:
        keys = zip(self.keys, (item.field.type for item in self.grouping), strict=True)
        listed = (("u", self.plan.block.unit.type), *keys, *columns)
        texts = (f"coalesce({self._text(name, kind)}, '')" for name, kind in listed)
        return f"md5(concat_ws('|', {KEY}, {', '.join(texts)}))"

    def _text(self, x: str, kind: SqlType) -> str:
        """Return the text of a value, the same for equal values."""
        return f"CAST({self.ordered(x, kind)} AS STRING)"

    def array(self, value: str) -> str:
        return f"array({value})"

    def least(self, x: str, kind: SqlType, where: str) -> str:
        value = self.ordered(x, kind)
        return f"array((MIN(struct({self.hash((x, kind))} AS h, {value} AS x)) {where}).x)"

    def fewest(self, listed: str, most: int, argument: Expression | None) -> str:
        kind = INTEGER if argument is None else block_printer.type_of(argument)
        hashed = self.hash(("x", kind))
        last = f"try_element_at(sort_array(transform({listed}, x -> {hashed})), {most})"
        below, at = (f"sort_array(filter({listed}, x -> {hashed} {s} {last}))" for s in "<=")
        first = f"slice(concat({below}, {at}), 1, {most})"
        return f"CASE WHEN size({listed}) > {most} THEN {first} ELSE {listed} END"

    def once(self, part: DistinctCount | DistinctSum, x: str, where: str) -> str:
        if isinstance(part, DistinctSum):
            raise lacking("a sum of different values", self.plan.block.span)
        return f"COUNT(DISTINCT {x}){where}"

    def limited(self, source: str) -> block_printer.LimitedUnits:
        """Return stages with the first L0 groups of a unit by hash, then by keys, which differ.

        Norms are over the kept groups.
        """
        stages = {"clipped AS": source}
        rows = "SELECT * FROM clipped"
        if self.plan.enforce_l0:
            order = ", ".join(["h", *self.keys])
            place = f"ROW_NUMBER() OVER (PARTITION BY u ORDER BY {order}) AS place"
            stages["hashed AS"] = f"SELECT *, {self.hash()} AS h FROM clipped"
            stages["ranked AS"] = f"SELECT *, {place} FROM hashed"
            rows = f"SELECT * FROM ranked WHERE place <= {self.plan.l0}"
        if self.scaled:
            stages["kept AS"] = rows
            rows = "SELECT * FROM kept"
            for columns in spark_norms.scaled(self.scaled):
                rows = f"SELECT *, {columns} FROM ({rows}) AS s"
        parts = [f"r{n} AS p{n}" if n in self.scaled else f"p{n}" for n in range(len(self.parts))]
        lists = [f"l{n}" for n in range(len(self.histograms))]
        names = ", ".join(["u", *self.keys, *parts, *lists])
        return block_printer.LimitedUnits(stages, f"SELECT {names} FROM ({rows}) AS limited")

    def place_among(self, values: list[str], x: str) -> str:
        whens = " ".join(f"WHEN {x} = {value} THEN {n}L" for n, value in enumerate(values))
        return f"(CASE {whens} END)"

    def instant(self, kind: SqlType, x: str) -> str:
        if kind.kind is Kind.DATE:
            return f"datediff({x}, DATE '1970-01-01')"
        return f"unix_micros(CAST({x} AS TIMESTAMP))"

    def cell_of(self, integer: str, grid: Grid) -> str:
        place = f"(CAST({integer} AS BIGINT) - ({grid.lower}L))"
        return place if grid.width == 1 else f"{place} div {grid.width}L"

    def block_of_unit(self, blocks: int) -> str:
        unit = self._text("u", self.plan.block.unit.type)
        digits = f"substr(md5(concat_ws('|', {KEY}, 'block', {unit})), 1, {BLOCK_DIGITS})"
        return f"CAST(conv({digits}, 16, 10) AS BIGINT) % {blocks}L"

    def finite(self, x: str) -> str:
        return f"CASE WHEN abs({x}) < CAST('Infinity' AS DOUBLE) THEN {x} END"
