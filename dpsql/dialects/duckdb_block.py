"""The one statement of a private block on DuckDB: clip, bound contributions, sum integers.

Shape (privacy.md, section 3): `rows` (each with its unit), `per_unit` (one row per unit and group,
clipped), `kept` (at most L0 groups per unit) and the exact sums. Stages that a proof makes
superfluous are not printed.
"""

from __future__ import annotations

from dpsql.dialects.duckdb import Printer
from dpsql.plan import BlockPlan, BlockSql, PartQuery
from dpsql.tree import Expression, Kind

BIGINT_LIMIT = 2**62


def block_sql(plan: BlockPlan) -> BlockSql:
    """The statement that returns a block's keys and exact integers, one row per group."""
    return BlockSql(
        _Block(plan).sql(),
        tuple(item.field.type for item in plan.block.keys),
        len(plan.releases),
    )


class _Block:
    def __init__(self, plan: BlockPlan) -> None:
        self.plan = plan
        self.parts = [release.query for release in plan.releases]
        self.keys = [f"k{n}" for n in range(len(plan.block.keys))]
        self.inputs: dict[Expression, str] = {}
        for part in self.parts:
            for node in (part.argument, part.condition):
                if node is not None:
                    self.inputs.setdefault(node, f"x{len(self.inputs)}")

    def sql(self) -> str:
        if self.plan.row_level:
            sums = [self._row_sum(part, self._total(part)) for part in self.parts]
            return f"WITH rows AS ({self._rows()}) {self._grouped(sums, 'rows')}"
        stages = [
            f"rows AS ({self._rows()})",
            f"per_unit AS {self._materialized()}({self._per_unit()})",
        ]
        source = "per_unit"
        if self.plan.enforce_l0:
            stages += self._sampled()
            source = "kept"
        sums = [
            f"SUM({_clip(f'p{n}', part.total_lower, part.total_upper)})"
            for n, part in enumerate(self.parts)
        ]
        return f"WITH {', '.join(stages)} {self._grouped(sums, source)}"

    def _materialized(self) -> str:
        return "MATERIALIZED " if self.plan.enforce_l0 else "NOT MATERIALIZED "

    def _rows(self) -> str:
        """unit, keys and the inputs of the measurements, one row per private row."""
        block = self.plan.block
        printer = Printer(lambda _relation: None)
        source, where, columns = printer.source(block.rows)
        items = [] if self.plan.row_level else [f"{columns[block.unit.id]} AS u"]
        items += [
            f"{printer.text(key.expression, columns)} AS {name}"
            for key, name in zip(block.keys, self.keys, strict=True)
        ]
        items += [f"{printer.text(node, columns)} AS {name}" for node, name in self.inputs.items()]
        conditions = f" WHERE {' AND '.join(f'({c})' for c in where)}" if where else ""
        return f"SELECT {', '.join(items) or '1 AS one'} FROM {source}{conditions}"

    def _per_unit(self) -> str:
        names = ["u", *self.keys]
        totals = [f"{self._unit_total(part)} AS p{n}" for n, part in enumerate(self.parts)]
        listed = ", ".join([*names, *totals])
        return f"SELECT {listed} FROM rows GROUP BY {', '.join(names)}"

    def _unit_total(self, part: PartQuery) -> str:
        if part.units:
            if part.condition is None:
                return "1"
            return f"CASE WHEN COUNT(*){self._filter(part)} > 0 THEN 1 ELSE 0 END"
        return self._row_sum(part, self._total(part))

    def _row_sum(self, part: PartQuery, value: str | None) -> str:
        if value is None:
            return f"COUNT(*){self._filter(part)}"
        return f"COALESCE(SUM({value}){self._filter(part)}, 0)"

    def _filter(self, part: PartQuery) -> str:
        return "" if part.condition is None else f" FILTER (WHERE {self.inputs[part.condition]})"

    def _total(self, part: PartQuery) -> str | None:
        """The lattice integer of one row; None where a row counts one."""
        return None if part.argument is None else _lattice_value(part, self.inputs[part.argument])

    def _sampled(self) -> list[str]:
        """Units with more than L0 groups keep the L0 first by a keyed hash of unit and group."""
        names = ", ".join(["u", *self.keys])
        listed = ", ".join(["u", *self.keys, *(f"p{n}" for n in range(len(self.parts)))])
        order = f"hash($sampling_key::UBIGINT, {names})"
        ranked = (
            f"SELECT *, ROW_NUMBER() OVER (PARTITION BY u ORDER BY {order}) AS place FROM per_unit"
            " WHERE u IN (SELECT u FROM heavy)"
        )
        heavy = f"SELECT u FROM per_unit GROUP BY u HAVING COUNT(*) > {self.plan.l0}"
        light = f"SELECT {listed} FROM per_unit WHERE u NOT IN (SELECT u FROM heavy)"
        chosen = f"SELECT {listed} FROM ({ranked}) WHERE place <= {self.plan.l0}"
        return [f"heavy AS ({heavy})", f"kept AS ({light} UNION ALL {chosen})"]

    def _grouped(self, sums: list[str], source: str) -> str:
        listed = [*self.keys, *(f"COALESCE({s}, 0)::HUGEINT AS p{n}" for n, s in enumerate(sums))]
        group = f" GROUP BY {', '.join(self.keys)}" if self.keys else ""
        return f"SELECT {', '.join(listed)} FROM {source}{group}"


def _lattice_value(part: PartQuery, x: str) -> str:
    """Clamp, scale, round half up and centre one row; NULL and NaN stay out (privacy.md, 4)."""
    lattice = part.lattice
    assert part.argument is not None
    kind = part.argument.type.kind  # type: ignore[union-attr]
    if lattice.base == 2:  # noqa: PLR2004
        lower, upper = (float(bound * lattice.step) for bound in (part.lower, part.upper))
        clamped = f"CASE WHEN isnan({x}) THEN NULL {_cases(x, _double(lower), _double(upper))}"
        value = f"FLOOR({clamped} * {_double(2.0**lattice.digits)} + 0.5)::BIGINT"
    elif kind is Kind.DECIMAL:
        value = _decimal_value(part, x)
    else:
        integer = "BIGINT" if _fits(part.lower, part.upper) else "HUGEINT"
        value = f"({_case(x, str(part.lower), str(part.upper))})::{integer}"
    return (
        f"{value} - {part.centre}"
        if part.centre > 0
        else (f"{value} + {-part.centre}" if part.centre else value)
    )


def _decimal_value(part: PartQuery, x: str) -> str:
    """A clamped DECIMAL times 10^scale, in the narrowest type that surely holds it."""
    scale = part.lattice.digits
    digits = max(len(str(abs(b))) for b in (part.lower, part.upper))
    precision = max(digits, scale + 1)
    lower, upper = (_decimal(bound, scale, precision) for bound in (part.lower, part.upper))
    clamped = f"({_case(x, lower, upper)})::DECIMAL({precision}, {scale})"
    integer = "BIGINT" if _fits(part.lower, part.upper) else "HUGEINT"
    return f"({clamped} * {10**scale})::{integer}" if scale else f"{clamped}::{integer}"


def _decimal(value: int, scale: int, precision: int) -> str:
    sign, digits = ("-" if value < 0 else ""), str(abs(value)).rjust(scale + 1, "0")
    text = digits if not scale else f"{digits[:-scale]}.{digits[-scale:]}"
    return f"'{sign}{text}'::DECIMAL({precision}, {scale})"


def _double(value: float) -> str:
    return f"{value!r}::DOUBLE"


def _clip(name: str, lower: int, upper: int) -> str:
    integer = "BIGINT" if _fits(lower, upper) else "HUGEINT"
    return f"({_case(name, str(lower), str(upper))})::{integer}"


def _case(x: str, lower: str, upper: str) -> str:
    return f"CASE {_cases(x, lower, upper)}"


def _cases(x: str, lower: str, upper: str) -> str:
    return f"WHEN {x} < {lower} THEN {lower} WHEN {x} > {upper} THEN {upper} ELSE {x} END"


def _fits(lower: int, upper: int) -> bool:
    return lower > -BIGINT_LIMIT and upper < BIGINT_LIMIT
