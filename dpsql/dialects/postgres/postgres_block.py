"""The one statement of a private block on PostgreSQL: clip, bound contributions, sum integers.

Its shape is that of every engine (see `block_printer`), with the limits of a unit as `clipped`,
`many` and `kept` (clipped totals of at most L0 groups per unit). Distinct values, and cells of
histograms, are arrays per unit and group.

Proof (PRIVACY.md R27). The kept part of a unit follows from its own rows and the query's key.
Groups are kept strictly below the hash of rank L0 + 1. Values and cells are kept by hash and then
by value, in any order of rows. The hash is MD5 with a key that is a parameter. Provoked equal
hashes keep fewer groups, never more. A value has one text in all its rows: DECIMAL keys are rounded
to their type's scale, and 0.0 stands for -0.0.
"""

from __future__ import annotations

from typing import ClassVar

from dpsql.compiler.plan.lattices import Grid
from dpsql.compiler.plan.measurement_kinds import DistinctCount, DistinctSum
from dpsql.compiler.plan.private_plan import BlockPlan, BlockSql
from dpsql.dialects import block_printer
from dpsql.dialects.plain_block import PlainBlock
from dpsql.dialects.postgres import lattice_sql, scaling_sql
from dpsql.dialects.postgres.constant_sql import COLLATE
from dpsql.dialects.postgres.lacking import lacking
from dpsql.dialects.postgres.postgres_relations import PostgresPrinter
from dpsql.dialects.postgres.scaling_sql import norm_of_total, scaled_total
from dpsql.dialects.unit_votes import votes
from dpsql.model import tree

WIDEST = -(2**63), 2**63 - 1
KEY = "$sampling_key"
BLOCK_DIGITS = 15
"""Hexadecimal digits of the hash that assigns units to blocks: 60 bits."""


def block_sql(plan: BlockPlan) -> BlockSql:
    """Return the statement for a block's keys and exact integers, one row per group.

    Raises `Refused` for constructs without an exact form on PostgreSQL.
    """
    vote = plan.block.vote
    block = PostgresBlock(plan, vote)
    return block_printer.statement_of(
        block, block.sql() if vote is None else votes(block, vote, scaling_sql)
    )


class PostgresBlock(PlainBlock):
    """Printer of a block for PostgreSQL."""

    lattice: ClassVar[block_printer.LatticeSql] = lattice_sql
    listing = "array_agg"

    def printer(self) -> PostgresPrinter:
        return PostgresPrinter(lambda _relation: None)

    def key(self, kind: tree.SqlType, node: tree.Expression, text: str) -> str:
        match kind.kind:
            case tree.Kind.DOUBLE:
                return f"CASE WHEN {text} = 0 THEN float8 '0' ELSE {text} END"
            case tree.Kind.DECIMAL:
                return f"round({text}, {kind.scale})"
            case tree.Kind.INTEGER if not isinstance(node, tree.Ref):
                least, most = WIDEST
                return f"CASE WHEN {text} BETWEEN {least} AND {most} THEN ({text})::bigint END"
            case tree.Kind.LIST | tree.Kind.INTERVAL:
                raise lacking(f"groups by a value of type {kind}")
            case _:
                return text

    def typed(self, node: tree.Expression, text: str) -> str:
        if isinstance(node, tree.Call | tree.Cast) and node.type.kind is tree.Kind.DECIMAL:
            return f"round({text}, {node.type.scale})"
        return text

    def ordered(self, x: str, kind: tree.SqlType) -> str:
        """Return a value for ordering: texts byte by byte, and one zero."""
        if kind.kind is tree.Kind.VARCHAR:
            return f"{x} {COLLATE}"
        return f"({x} + float8 '0')" if kind.kind is tree.Kind.DOUBLE else x

    def hash(self, *columns: tuple[str, tree.SqlType]) -> str:
        keys = zip(self.keys, (item.field.type for item in self.grouping), strict=True)
        texts = [self._text("u", self.plan.block.unit.type)]
        texts += [f"coalesce({self._text(name, kind)}, '')" for name, kind in (*keys, *columns)]
        hashed = " || '|' || ".join([KEY, *texts])
        return f"(md5({hashed}) {COLLATE})"

    def _text(self, x: str, kind: tree.SqlType) -> str:
        """Return the text of a value, the same for equal values."""
        match kind.kind:
            case tree.Kind.DECIMAL:
                x = f"round({x}, {kind.scale})"
            case tree.Kind.DOUBLE:
                x = self.ordered(x, kind)
        return f"{x}::text"

    def array(self, value: str) -> str:
        return f"ARRAY[{value}]"

    def least(self, x: str, kind: tree.SqlType, where: str) -> str:
        value = self.ordered(x, kind)
        return f"({self.listing}({value} ORDER BY {self.hash((x, kind))}, {value}) {where})[1:1]"

    def fewest(self, listed: str, most: int, argument: tree.Expression | None) -> str:
        kind = tree.INTEGER if argument is None else block_printer.type_of(argument)
        order = f"{self.hash(('v', kind))}, {self.ordered('v', kind)}"
        first = f"ARRAY(SELECT v FROM unnest({listed}) AS e(v) ORDER BY {order} LIMIT {most})"
        return f"CASE WHEN cardinality({listed}) > {most} THEN {first} ELSE {listed} END"

    def once(self, part: DistinctCount | DistinctSum, x: str, where: str) -> str:
        if isinstance(part, DistinctCount):
            return f"COUNT(DISTINCT {x}){where}"
        value = self.ordered(x, block_printer.type_of(part.values.argument))
        values = f"unnest(array_agg(DISTINCT {value}){where}) AS e(v)"
        return f"(SELECT {self.sum_over_values(part)} FROM {values})"

    def limited(self, source: str) -> block_printer.LimitedUnits:
        stages = {}
        if self.plan.enforce_l0:
            stages = self._sampled(source)
            source = "SELECT * FROM kept"
        if self.scaled:
            stages["kept_totals AS MATERIALIZED"] = source
            source = self._scaled("kept_totals")
        return block_printer.LimitedUnits(stages, source)

    def _sampled(self, source: str) -> dict[str, str]:
        """Return stages in which units with more than L0 groups keep those below their L0+1st
        hash.

        A group is kept if at most L0 hashes are less than or equal to its own. Even if hashes are
        equal, at most L0 groups are kept. The choice depends on the rows of the unit and the key
        alone. Each group is hashed once, and none of a unit within its limit.
        """
        parts = [f"p{n}" for n in range(len(self.parts))]
        lists = [f"l{n}" for n in range(len(self.histograms))]
        names = ", ".join(["u", *self.keys, *parts, *lists])
        many = f"SELECT u FROM clipped GROUP BY u HAVING COUNT(*) > {self.plan.l0}"
        hashed = f"SELECT *, {self.hash()} AS h FROM clipped WHERE u IN (SELECT u FROM many)"
        ranked = (
            f"SELECT *, COUNT(*) OVER (PARTITION BY u ORDER BY h) AS place FROM ({hashed}) AS h"
        )
        limited = (
            f"SELECT {names} FROM clipped"
            " WHERE u IS NOT NULL AND NOT EXISTS (SELECT FROM many WHERE many.u = clipped.u)"
            f" UNION ALL SELECT {names} FROM ({ranked}) AS ranked WHERE place <= {self.plan.l0}"
        )
        return {
            "clipped AS MATERIALIZED": source,
            "many AS MATERIALIZED": many,
            "kept AS": limited,
        }

    def _scaled(self, source: str) -> str:
        """Return SQL for the totals of each unit and group, scaled by the norm over all groups of
        the unit.
        """
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

    def place_among(self, values: list[str], x: str) -> str:
        whens = " ".join(f"WHEN {x} = {value} THEN {n}" for n, value in enumerate(values))
        return f"(CASE {whens} END)::bigint"

    def instant(self, kind: tree.SqlType, x: str) -> str:
        if kind.kind is tree.Kind.DATE:
            return f"({x}) - date '1970-01-01'"
        return f"trunc(extract(epoch FROM ({x})) * 1000000)"

    def cell_of(self, integer: str, grid: Grid) -> str:
        place = f"({integer})::numeric - ({grid.lower})"
        return f"({place})::bigint" if grid.width == 1 else f"div({place}, {grid.width})::bigint"

    def block_of_unit(self, blocks: int) -> str:
        hashed = f"md5({KEY} || '|block|' || {self._text('u', self.plan.block.unit.type)})"
        return (
            f"('x' || left({hashed}, {BLOCK_DIGITS}))::bit({4 * BLOCK_DIGITS})::bigint % {blocks}"
        )

    def finite(self, x: str) -> str:
        return f"CASE WHEN abs({x}) < 'Infinity' THEN {x} END"
