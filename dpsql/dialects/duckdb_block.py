"""The one statement of a private block on DuckDB: clip, bound contributions, sum integers.

Shape (privacy.md, section 3): `rows` (each with its unit), `totals` (one row per unit and group),
`hashed`, `cut` and `kept` (clipped totals of at most L0 groups per unit) and the exact sums. Stages
that a proof makes superfluous are not printed. COUNT(DISTINCT x) is no sum of units' totals: a unit
and group carries the list of its values, and `bounded` is read once for the sums and once for each
such count.
"""

from __future__ import annotations

from dpsql.algebra import Staged
from dpsql.dialects.duckdb import Printer
from dpsql.dialects.duckdb_literals import type_name
from dpsql.dialects.duckdb_samples import block_values, inputs_of
from dpsql.plan import BlockPlan, BlockSql, PartQuery
from dpsql.tree import Call, Cast, Expression, Kind, SqlType
from dpsql.walk import relations

BIGINT_LIMIT = 2**62
MOST_DIGITS = 38
"""Digits of DuckDB's widest DECIMAL."""


def block_sql(plan: BlockPlan) -> BlockSql:
    """The statement that returns a block's keys and exact integers, one row per group."""
    parts = relations(plan.block.rows)
    return BlockSql(
        _Block(plan).sql(),
        tuple(item.field.type for item in plan.block.keys),
        len(plan.queries),
        tuple(sorted({part.stage for part in parts if isinstance(part, Staged)})),
    )


class _Block:
    def __init__(self, plan: BlockPlan) -> None:
        self.plan = plan
        self.parts = plan.queries
        self.keys = [f"k{n}" for n in range(len(plan.block.keys))]
        self.inputs: dict[Expression, str] = {}
        for part in self.parts:
            for node in _read(part):
                self.inputs.setdefault(node, f"x{len(self.inputs)}")
        self.sampled = [n for n, part in enumerate(self.parts) if part.blocks]

    def sql(self) -> str:
        if not (self.keys or self.parts):
            return "SELECT 1 AS one"  # one group, of which nothing is asked
        if self.plan.row_level:
            sums = [as_integer(part, self._sum(part)) for part in self.parts]
            if not self.sampled:
                return f"WITH rows AS ({self._rows()}) {self._grouped(sums, 'rows')}"
            source = " UNION ALL ".join([self._grouped(sums, "rows"), *self._samples("rows")])
            sums = [f"SUM(p{n})" for n in range(len(self.parts))]
            return f"WITH rows AS ({self._rows()}) {self._grouped(sums, f'({source})')}"
        stages = [f"rows AS ({self._rows()})", f"totals AS ({self._totals()})"]
        source = self._clipped()
        if self.plan.enforce_l0:
            stages += self._sampled(source)
            source = "SELECT * FROM kept"
        if self.sampled or any(part.distinct for part in self.parts):
            stages.append(f"bounded AS MATERIALIZED ({source})")
            counts, samples = self._distinct_counts(), self._samples(self._kept_rows())
            source = " UNION ALL ".join([self._without_values(), *counts, *samples])
        sums = [f"SUM(p{n})" for n in range(len(self.parts))]
        return f"WITH {', '.join(stages)} {self._grouped(sums, f'({source})')}"

    def _rows(self) -> str:
        """unit, keys and the inputs of the measurements, one row per private row."""
        block = self.plan.block
        printer = Printer(lambda _relation: None)
        source, where, columns = printer.source(block.rows)
        whose = self.sampled or not self.plan.row_level
        items = [f"{columns[block.unit.id]} AS u"] if whose else []
        items += [
            f"{_one_zero(key.field.type, printer.text(key.expression, columns))} AS {name}"
            for key, name in zip(block.keys, self.keys, strict=True)
        ]
        items += [
            f"{_typed(node, printer.text(node, columns))} AS {name}"
            for node, name in self.inputs.items()
        ]
        conditions = f" WHERE {' AND '.join(f'({c})' for c in where)}" if where else ""
        return f"SELECT {', '.join(items) or '1 AS one'} FROM {source}{conditions}"

    def _totals(self) -> str:
        """One row per unit and group with its unclipped totals."""
        names = ", ".join(["u", *self.keys])
        sums = [f"{self._unit_total(part)} AS s{n}" for n, part in enumerate(self.parts)]
        return f"SELECT {', '.join([names, *sums])} FROM rows GROUP BY {names}"

    def _clipped(self) -> str:
        """One row per unit and group with its clipped integers."""
        names = [*(["u"] if self.plan.enforce_l0 else []), *self.keys]
        clips = [
            f"{f's{n}' if part.distinct else clipped_total(part, f's{n}')} AS p{n}"
            for n, part in enumerate(self.parts)
        ]
        if self.plan.enforce_l0:
            names.append(f"{self._hash()} AS h")
        return f"SELECT {', '.join(names + clips)} FROM totals"

    def _unit_total(self, part: PartQuery) -> str:
        if part.distinct:
            return self._values(part)
        if not part.units:
            return self._sum(part)
        if part.condition is None:
            return "1"
        return f"CASE WHEN COUNT(*){self._filter(part)} > 0 THEN 1 ELSE 0 END"

    def _values(self, part: PartQuery) -> str:
        """The values that a unit may add to a group, as a list: those with the lowest keyed hash.

        However many hashes are equal, `arg_min` returns no more values than it is asked for.
        """
        assert part.argument is not None
        x = self.inputs[part.argument]
        if not part.chosen:
            return f"list({x}){self._filter(part)}"
        if part.total_upper == 1:
            return f"[arg_min({x}, {self._hash(x)}){self._filter(part)}]"
        return f"arg_min(DISTINCT {x}, {self._hash(x)}, {part.total_upper}){self._filter(part)}"

    def _hash(self, *columns: str) -> str:
        """The keyed hash that units, keys and these columns are chosen by."""
        return f"hash($sampling_key::UBIGINT, {', '.join(['u', *self.keys, *columns])})"

    def _without_values(self) -> str:
        """What is summed of each unit and group: nothing yet of the distinct values."""
        parts = [f"0 AS p{n}" if p.distinct else f"p{n}" for n, p in enumerate(self.parts)]
        return f"SELECT {', '.join([*self.keys, *parts])} FROM bounded"

    def _distinct_counts(self) -> list[str]:
        """For each count of distinct values its rows, one per group, with zeros elsewhere."""
        group = f" GROUP BY {', '.join(self.keys)}" if self.keys else ""
        counts = []
        for place, part in enumerate(self.parts):
            if part.distinct:
                places = range(len(self.parts))
                listed = ["COUNT(DISTINCT v)" if n == place else "0" for n in places]
                values = f"SELECT {', '.join([*self.keys, f'unnest(p{place}) AS v'])} FROM bounded"
                counts.append(f"SELECT {', '.join([*self.keys, *listed])} FROM ({values}){group}")
        return counts

    def _kept_rows(self) -> str:
        """The rows of the groups that units keep: those with the totals that are kept."""
        if not self.plan.enforce_l0:
            return "rows"
        kept = f"cut.m IS NULL OR {self._hash()} < cut.m"
        return f"(SELECT rows.* FROM rows LEFT JOIN cut USING (u) WHERE {kept})"

    def _samples(self, rows: str) -> list[str]:
        """For each sampled part its rows, one per group, with zeros elsewhere."""
        group = f" GROUP BY {', '.join(self.keys)}" if self.keys else ""
        sums = []
        for place in self.sampled:
            part = self.parts[place]
            value = f"SUM({row_value(part, 'v')})"
            listed = [f"{value if n == place else 0} AS p{n}" for n in range(len(self.parts))]
            values = block_values(part, self.keys, self.inputs, rows)
            sums.append(f"SELECT {', '.join([*self.keys, *listed])} FROM ({values}){group}")
        return sums

    def _sum(self, part: PartQuery) -> str:
        """A part over whole groups of rows, or over those of one unit."""
        if part.blocks:
            return "SUM(0)"
        if part.argument is None:
            return f"COUNT(*){self._filter(part)}"
        if part.distinct:
            return f"COUNT(DISTINCT {self.inputs[part.argument]}){self._filter(part)}"
        value = row_value(part, self.inputs[part.argument])
        return f"SUM({value}){self._filter(part)}"

    def _filter(self, part: PartQuery) -> str:
        return "" if part.condition is None else f" FILTER (WHERE {self.inputs[part.condition]})"

    def _sampled(self, source: str) -> list[str]:
        """Units with more than L0 groups keep those whose keyed hash is below their L0+1st.

        Strictly below: however many hashes are equal, no more than L0 groups are kept.
        """
        l0 = self.plan.l0
        cut = (
            f"SELECT u, list_last(MIN(h, {l0 + 1})) AS m FROM hashed GROUP BY u"
            f" HAVING COUNT(*) > {l0}"
        )
        kept = (
            "SELECT hashed.* FROM hashed LEFT JOIN cut ON hashed.u = cut.u"
            " WHERE cut.m IS NULL OR hashed.h < cut.m"
        )
        return [f"hashed AS MATERIALIZED ({source})", f"cut AS ({cut})", f"kept AS ({kept})"]

    def _grouped(self, sums: list[str], source: str) -> str:
        listed = [*self.keys, *(f"COALESCE({s}::HUGEINT, 0) AS p{n}" for n, s in enumerate(sums))]
        group = f" GROUP BY {', '.join(self.keys)}" if self.keys else ""
        return f"SELECT {', '.join(listed)} FROM {source}{group}"


def _read(part: PartQuery) -> list[Expression]:
    """What a part reads of a row."""
    if part.blocks:
        return list(inputs_of(part))
    return [node for node in (part.argument, part.condition) if node is not None]


def _one_zero(kind: SqlType, text: str) -> str:
    """A key in which 0.0 stands for -0.0 too: which one a group shows would depend on its rows."""
    return f"CASE WHEN {text} = 0 THEN 0.0 ELSE {text} END" if kind.kind is Kind.DOUBLE else text


def row_value(part: PartQuery, x: str) -> str:
    """Clamp, scale, round half up and centre one row; NULL and NaN stay out (privacy.md, 4).

    A DECIMAL is its own lattice and stays as it is; other numbers become integers.
    """
    if _is_decimal(part):
        value = _case(x, _decimal(part.lower, part), _decimal(part.upper, part))
        return f"{value} - {_decimal(part.centre, part)}" if part.centre else value
    if part.lattice.base == 2:  # noqa: PLR2004
        lower, upper = (_double(float(b * part.lattice.step)) for b in (part.lower, part.upper))
        clamped = f"CASE WHEN isnan({x}) THEN NULL {_cases(x, lower, upper)}"
        value = f"FLOOR({clamped} * {_double(2.0**part.lattice.digits)} + 0.5)::BIGINT"
    else:
        value = f"({_case(x, str(part.lower), str(part.upper))})::BIGINT"
    return f"{value} - ({part.centre})" if part.centre else value


def clipped_total(part: PartQuery, total: str) -> str:
    """A unit's total in a group, clipped and then an integer."""
    lower, upper = part.total_lower, part.total_upper
    integer = _integer(lower, upper)
    if not _is_decimal(part):
        return f"({_case(total, str(lower), str(upper))})::{integer}"
    clipped = f"({_case(total, _decimal(lower, part), _decimal(upper, part))})"
    scale, digits = part.lattice.digits, _digits(part, lower, upper)
    if digits + scale > MOST_DIGITS:
        return f"{as_integer(part, clipped)}::{integer}"
    # With 38 digits on the left the product has 38 too: with fewer it can overflow.
    return f"({clipped}::DECIMAL({MOST_DIGITS}, {scale}) * {10**scale})::{integer}"


def as_integer(part: PartQuery, total: str) -> str:
    """A sum over rows as an integer; of a DECIMAL, its digits without the point."""
    if not _is_decimal(part):
        return total
    return f"replace({total}::DECIMAL({MOST_DIGITS}, {part.lattice.digits})::VARCHAR, '.', '')"


def _typed(node: Expression, text: str) -> str:
    """An input in the very type that its lattice is made for, whatever the engine makes of it."""
    if isinstance(node, Call | Cast) and node.type.kind is Kind.DECIMAL:
        return f"TRY_CAST({text} AS {type_name(node.type)})"
    return text


def _is_decimal(part: PartQuery) -> bool:
    return part.argument is not None and part.lattice.base == 10 and part.lattice.digits > 0  # noqa: PLR2004


def _decimal(value: int, part: PartQuery) -> str:
    scale = part.lattice.digits
    sign, digits = ("-" if value < 0 else ""), str(abs(value)).rjust(scale + 1, "0")
    precision = _digits(part, value)
    return f"'{sign}{digits[:-scale]}.{digits[-scale:]}'::DECIMAL({precision}, {scale})"


def _digits(part: PartQuery, *values: int) -> int:
    return max(part.lattice.digits + 1, *(len(str(abs(value))) for value in values))


def _double(value: float) -> str:
    return f"{value!r}::DOUBLE"


def _case(x: str, lower: str, upper: str) -> str:
    return f"CASE {_cases(x, lower, upper)}"


def _cases(x: str, lower: str, upper: str) -> str:
    return f"WHEN {x} < {lower} THEN {lower} WHEN {x} > {upper} THEN {upper} ELSE {x} END"


def _integer(lower: int, upper: int) -> str:
    """The integer type that surely holds every value between the bounds."""
    return "BIGINT" if lower > -BIGINT_LIMIT and upper < BIGINT_LIMIT else "HUGEINT"
