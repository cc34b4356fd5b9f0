"""The one statement of a private block on DuckDB.

Its shape is that of every engine (see `block_printer`), with the limits of `unit_limits`. Work and
memory depend on the number of rows, never on a limit: units within their limits are neither hashed
nor ranked. If norms are found privately, histograms and sums have a second form over totals that
are computed once.

Proof (PRIVACY.md R27, R91). The hash is DuckDB's own, of the values themselves and of the query's
key. Stored totals are identified by their whole text, which has no parameter.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import ClassVar

from dpsql.compiler.plan.lattices import Grid
from dpsql.compiler.plan.measurement_kinds import (
    ClippedSum,
    DistinctCount,
    DistinctSum,
    Measurement,
    RowCount,
    ScaledTotal,
    UnitCount,
    UnitVote,
    Vote,
)
from dpsql.compiler.plan.private_plan import BlockPlan, BlockSql, PrivateBlock
from dpsql.dialects import block_printer
from dpsql.dialects.duckdb import norm_sql, total_sql
from dpsql.dialects.duckdb.distinct_sql import fewest, once
from dpsql.dialects.duckdb.norm_sql import norm_of_unit, octave
from dpsql.dialects.duckdb.relation_sql import Printer
from dpsql.dialects.duckdb.unit_limits import UnitLimits, turned
from dpsql.dialects.duckdb.unit_sql import exists, looked_up
from dpsql.dialects.unit_votes import tally, votes
from dpsql.engines import MadeTotals
from dpsql.model.algebra import Join, Relation
from dpsql.model.dataclass import replace
from dpsql.model.tree import Call, Cast, Expression, Kind, SqlType, type_name

EXACT = frozenset({"add", "sub", "mul"})
"""Calls with a DECIMAL result in the scale of our type; they need no cast."""


def block_sql(plan: BlockPlan) -> BlockSql:
    """Return the statement for a block's keys and exact integers, one row per group."""
    vote = plan.block.vote
    block = DuckDBBlock(plan, vote)
    sql = block_printer.statement_of(
        block, block.sql() if vote is None else votes(block, vote, norm_sql)
    )
    return replace(sql, totals=None if sql.stages else _over_totals(plan))


def _over_totals(plan: BlockPlan) -> MadeTotals | None:
    """Return the block over totals that several statements of a question share, or None.

    For a noisy histogram of norms, these are the totals of the block that uses the found norms.
    """
    vote, answering = plan.block.vote, plan if plan.block.vote is None else plan.answering
    if answering is None or plan.block.weighed or not (vote is None or isinstance(vote, Vote)):
        return None
    whole = DuckDBBlock(answering)
    if not whole.is_shared:
        return None
    stages, clipped = whole.of_units()
    totals = _named("totals", f"WITH {', '.join(stages)} {clipped}")
    if vote is None:
        whole.source = totals[0]
        return MadeTotals((totals,), whole.sql(), more=False)
    parts = {n: p for n, p in whole.scaled.items() if p.total == vote.total}
    same = [n for n, p in parts.items() if (p.norm, p.digits) == (vote.norm, vote.digits)]
    if not parts or vote.keys != answering.block.keys:
        return None
    if same:
        listed = [f"{norm_of_unit(p, f'p{n}')} AS n{n}" for n, p in whole.scaled.items()]
        norms = _named("norms", f"SELECT u, {', '.join(listed)} FROM {totals[0]} GROUP BY u")
        queries, of_units = [totals, norms], f"SELECT n{same[0]} AS n FROM {norms[0]}"
    else:
        norm = norm_of_unit(vote, f"p{min(parts)}")
        queries, of_units = [totals], f"SELECT {norm} AS n FROM {totals[0]} GROUP BY u"
    counted = tally(octave(vote, "n"), f"({of_units}) WHERE n > 0", whole.whole)
    return MadeTotals(tuple(queries), counted, more=True)


def _named(what: str, query: str) -> tuple[str, str]:
    """Return a query with a name that no other text has."""
    return f"{what}_{hashlib.sha256(query.encode()).hexdigest()}", query


class DuckDBBlock(block_printer.BlockPrinter):
    """Printer of a block for DuckDB."""

    lattice: ClassVar[block_printer.LatticeSql] = total_sql
    whole = "{}::HUGEINT"
    listing = "list"
    semi_join = "SEMI JOIN"
    source: str | None = None
    """Name of the table of clipped totals, if they exist already."""

    def __init__(self, plan: BlockPlan, vote: UnitVote | None = None) -> None:
        weighed = plan.block.weighed
        self.turn = None if weighed is None else weighed.turn
        super().__init__(plan if self.turn is None else replace(plan, enforce_l0=False), vote)
        self.inputs |= dict(zip(self.turn or (), ("g", "o"), strict=False))
        if weighed is not None and weighed.groups is not None:
            self.inputs[weighed.groups] = "g"
            self.carried = ("g",)
            if weighed.place is not None:
                self.inputs[weighed.place] = "o"
                self.carried = ("g", "o")

    @property
    def is_shared(self) -> bool:
        """True if its totals are equal in each statement of a question.

        Then nothing is sampled by a key, and nothing released is read.
        """
        additive = RowCount | UnitCount | ClippedSum | ScaledTotal
        return (
            bool(self.scaled)
            and self.plan.block.weighed is None
            and not self.histograms
            and all(isinstance(part, additive) for part in self.parts)
        )

    def of_units(self) -> tuple[list[str], str]:
        """Return the stages and the query of clipped totals, or a read of existing ones.

        Stages over stored totals are evaluated wherever they are read.
        """
        if self.source is not None:
            return [], f"SELECT * FROM {self.source}"
        stages, clipped = super().of_units()
        again = [stage.replace(" AS ", " AS NOT MATERIALIZED ", 1) for stage in stages]
        return again if self.carried else stages, clipped

    def rows_of_units(self) -> str:
        """Return the query of rows; if rows have their group's place, only those of L0 groups."""
        rows, l0 = super().rows_of_units(), self.plan.l0
        if self.turn is None:
            return rows
        return f"SELECT * FROM ({rows}) WHERE g <= {l0} OR {turned('o', 'g')} < {l0}"

    def totals(self) -> str:
        """Return the query of totals; rows that are totals already are not grouped."""
        if not self.carried:
            return super().totals()
        sums = [f"{self._whole(part)} AS s{n}" for n, part in enumerate(self.parts)]
        return f"SELECT {', '.join(['u', *self.keys, *sums, *self.carried])} FROM rows"

    def _whole(self, part: Measurement) -> str:
        """Return SQL for the total that one row represents."""
        if isinstance(part, ScaledTotal):
            return self._whole(part.total)
        value = "1" if not isinstance(part, ClippedSum) else self.inputs[part.argument]
        other = "NULL" if isinstance(part, ClippedSum) else "0"
        if part.condition is None:
            return value
        return f"CASE WHEN {self.inputs[part.condition]} THEN {value} ELSE {other} END"

    # --- what DuckDB writes in its own way ---

    def printer(self) -> Printer:
        return Printer(lambda _relation: None)

    def key(self, kind: SqlType, _node: Expression, text: str) -> str:
        """Return SQL for the key with 0.0 for -0.0; otherwise a group's rows would decide which one
        is shown.
        """
        if kind.kind is not Kind.DOUBLE:
            return text
        return f"CASE WHEN {text} = 0 THEN 0.0 ELSE {text} END"

    def typed(self, node: Expression, text: str) -> str:
        if not (isinstance(node, Call | Cast) and node.type.kind is Kind.DECIMAL):
            return text
        exact = isinstance(node, Call) and node.function in EXACT
        return text if exact else f"TRY_CAST({text} AS {type_name(node.type)})"

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

    def limited(self, source: str) -> block_printer.LimitedUnits:
        listed = [f"l{n}" for n in range(len(self.histograms))]
        limits = UnitLimits(
            keys=self.keys,
            values=[*(f"p{n}" for n in range(len(self.parts))), *listed],
            l0=self.plan.l0 if self.plan.enforce_l0 else None,
            scaled={f"p{n}": part for n, part in self.scaled.items()},
            crowd="g" if "g" in self.carried else None,
            place="o" if "o" in self.carried else None,
            few=self.plan.domain is not None,
            ready=self.source is not None,
        )
        return block_printer.LimitedUnits(limits.stages(source), limits.rows, limits.signed)

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

    def block_of_unit(self, blocks: int) -> str:
        return f"hash($sampling_key::UBIGINT, 'block', u) % {blocks}"

    def as_double(self, node: Expression, columns: Mapping[int, str]) -> str:
        return f"TRY_CAST({self.printer().text(node, columns)} AS DOUBLE)"
