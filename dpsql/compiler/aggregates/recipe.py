"""The type of a recipe: the noisy parts that an aggregate needs, and the formula of its value.

Proof (PRIVACY.md R28). Bounds are rounded outward to the lattice, and a row is clamped before it is
cast. A clipped row has fewer than 2^62 steps: it adds a whole number within its clipping bounds.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from fractions import Fraction
from math import ceil, floor

from dpsql.compiler.plan.lattices import ChoiceQuery, Lattice
from dpsql.compiler.plan.measurement_kinds import MOST_ROWS, Measurement
from dpsql.compiler.plan.private_plan import DeclaredLimits, FoundNorm
from dpsql.model import tree
from dpsql.model.dataclass import dataclass, field
from dpsql.model.errors import Reason, Refused
from dpsql.model.intervals import Facts

BITS, WIDE_BITS = 30, 60
"""Bits of the largest DOUBLE on a grid, and on a grid with far wider bounds than the values."""

MAX_STEPS = 2**62
"""Upper limit of row clipping bounds in grid steps, so that a clipped row always fits 64 bits."""


@dataclass(frozen=True, slots=True)
class MeasurementOptions:
    """Options of a whole query: its ε, and properties of its results.

    `floor` is the fewest units of a released private key, by a noisy count or by trial.
    `nonnegative` raises negative noisy counts, and sums of nonnegative values, to zero. `scans`
    uses sparse vector for MIN and MAX. `whole` adds noise to every group, also where choosing the
    first ones, or trials of keys alone, would err less. `noise` is the standard error of a sum that
    a unit moves by one, if it were the only measurement. `norms` are privately found bounds, by
    their keys.
    """

    epsilon: Fraction
    floor: int = 1
    nonnegative: bool = False
    scans: bool = False
    whole: bool = False
    noise: float = 1.0
    norms: Mapping[str, FoundNorm] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class BoundedCall:
    """One aggregate call of a private block.

    `arguments` are the facts of its arguments (none for COUNT(*)). `rows` is the most rows of one
    unit that count in one group (None: unlimited), and `rows_proved` says that no unit has more.
    `is_unit` says that the argument is the unit key. `one_value` says that the argument has one
    value in the rows of one unit and group. `of_keys` is the argument as an expression over the
    group's keys, None where it reads other columns. `options` are those of the whole query.

    Where rows are unlimited and units are `polled`, a private query finds the bounds of a unit's
    contribution. It also finds `centres`, in grid steps, that are subtracted from rows, by the
    places of arguments. This is also done where arguments are `wide`, which means that their bounds
    are far too large.
    """

    call: tree.AggregateCall
    arguments: tuple[Facts, ...]
    rows: int | None
    is_unit: bool = False
    rows_proved: bool = False
    one_value: bool = False
    of_keys: tree.Expression | None = None
    options: MeasurementOptions = MeasurementOptions(Fraction(1))
    polled: bool = False
    wide: bool = False
    centres: Mapping[int, int] = field(default_factory=dict)

    @property
    def searched(self) -> bool:
        """True if a unit's contribution has no bound except a privately found one."""
        clip = self.call.clip
        unknown = self.rows is None or self.wide
        return unknown and self.polled and not (clip is not None and clip.per_group)

    @property
    def argument(self) -> Facts | None:
        return self.arguments[0] if self.arguments else None

    @property
    def expression(self) -> tree.Expression:
        return self.call.args[0]

    @property
    def one_row(self) -> bool:
        """True if a unit's total in a group is one row."""
        return self.rows_proved and self.rows == 1


Parts = tuple[Measurement, ...]


@dataclass(frozen=True, slots=True)
class Recipe:
    """The recipe of an aggregate: `parts` lists the measurements; `combine` computes the value from
    them.

    `typical` returns the addition of one typical row to each part, in units of its values (None: 1
    each). The budget is split by the sensitivity of the value to its parts there. `moments` says
    that the parts are count, centred sum and perhaps sum of squares of one argument. `centred`
    returns a count and a centred sum that can replace the one part. The first `deviations`
    arguments are measured from a centre. `names` names the moment of each part, where there are
    products (n, y, x, yx, yy, xx). `choices` lists private choices, with columns after those of the
    parts; a recipe with choices also reads the ORDER BY of the call.
    """

    parts: Callable[[BoundedCall], Parts]
    combine: Callable[[BoundedCall, tuple[tree.Ref, ...]], tree.Expression]
    typical: Callable[[BoundedCall], tuple[float, ...]] | None = None
    moments: bool = False
    centred: Callable[[BoundedCall], Parts] | None = None
    deviations: int = 0
    names: tuple[str, ...] = ()
    choices: Callable[[BoundedCall], tuple[ChoiceQuery, ...]] | None = None


@dataclass(frozen=True, slots=True)
class RowBounds:
    """The clipping bounds of one row in grid steps, rounded outward."""

    lattice: Lattice
    lower: int
    upper: int


def rows_of_unit(bounded: BoundedCall) -> int:
    """Return the most rows of one unit in one group; raises `Refused` where nothing limits them."""
    if bounded.rows is not None:
        return bounded.rows
    if bounded.searched:
        return MOST_ROWS
    raise unlimited(bounded.call.span)


def unlimited(span: tree.Span, declared: DeclaredLimits | None = None) -> Refused:
    """Return the refusal where nothing limits the rows of a unit."""
    limit = "max_rows_per_group"
    tables = (declared or DeclaredLimits()).lacking(limit)
    fix = f"Ask the data owner to declare {limit} for {tables}."
    return Refused(Reason.UNBOUNDED_CONTRIBUTION, span, limit=limit, fix=fix)


def row_bounds(bounded: BoundedCall, place: int = 0) -> RowBounds:
    """Return the grid and clipping bounds of an aggregated expression; raises `Refused` if
    unbounded.

    INTEGER and DECIMAL are exact; DOUBLE uses the step 2^-k of PRIVACY.md R28.
    """
    facts = bounded.arguments[place]
    lo, hi = facts.interval.lo, facts.interval.hi
    clip = bounded.call.clip
    if clip is not None and (not clip.per_group or bounded.one_row):
        lo = Fraction(clip.lower) if lo is None else max(lo, Fraction(clip.lower))
        hi = Fraction(clip.upper) if hi is None else min(hi, Fraction(clip.upper))
    if not (isinstance(lo, Fraction) and isinstance(hi, Fraction)):
        span = bounded.call.args[place].span
        raise Refused(Reason.UNBOUNDED_INPUT, bounded.call.span if span == tree.NOWHERE else span)
    if lo > hi:
        raise _no_clip(bounded, "they have nothing in common with the known bounds")
    return clip_between(bounded, facts.type, lo, hi)


def total_clip(bounded: BoundedCall, bounds: RowBounds) -> tuple[int, int]:
    """Return the clipping bounds of a unit's total in one group, in grid steps.

    They follow from the rows. An analyst's own bounds narrow them, and apply alone where rows are
    unlimited.
    """
    clip, step = bounded.call.clip, bounds.lattice.step
    per_group = clip is not None and clip.per_group
    if clip is None or not per_group:
        rows = rows_of_unit(bounded)
        return min(0, rows * bounds.lower), max(0, rows * bounds.upper)
    low, high = floor(Fraction(clip.lower) / step), ceil(Fraction(clip.upper) / step)
    if max(abs(low), abs(high)) >= MAX_STEPS:
        raise _no_clip(bounded, "they are too wide")
    if bounded.rows is not None:
        low = max(low, min(0, bounded.rows * bounds.lower))
        high = min(high, max(0, bounded.rows * bounds.upper))
    if low > high:
        raise _no_clip(bounded, "they have nothing in common with the known bounds")
    return low, high


def no_bounds_of_totals(bounded: BoundedCall) -> None:
    """Refuse bounds per group where a unit may have several rows, for which they say nothing."""
    if bounded.call.clip is not None and bounded.call.clip.per_group and not bounded.one_row:
        raise _no_clip(bounded, "a unit can have several rows here: ask for bounds per row")


def no_bounds(bounded: BoundedCall) -> None:
    """Refuse contribution bounds of values that are no numbers."""
    if bounded.call.clip is not None:
        raise _no_clip(bounded, "they are for numbers")


COUNTED = RowBounds(Lattice(10, 0), 1, 1)
"""Bounds of a row that counts 1."""


def count_clip(bounded: BoundedCall) -> int:
    """Return the most that a unit's number of rows counts in one group."""
    if bounded.call.clip is None:
        return rows_of_unit(bounded)
    if bounded.call.clip.lower != 0:
        raise _no_clip(bounded, "a number of rows counts from 0")
    return max(1, total_clip(bounded, COUNTED)[1])


def _no_clip(bounded: BoundedCall, why: str) -> Refused:
    option, fix = "contribution bounds", "Bounds are (low, high), within the declared ones."
    return Refused(Reason.BAD_OPTION, bounded.call.span, option=option, why=why, fix=fix)


def clip_between(bounded: BoundedCall, kind: tree.SqlType, lo: Fraction, hi: Fraction) -> RowBounds:
    """Return the grid and clipping bounds of values in [lo, hi]; raises `Refused` if they are too
    wide.
    """
    lattice = _lattice(kind, lo, hi, WIDE_BITS if bounded.wide else BITS)
    bounds = RowBounds(lattice, floor(lo / lattice.step), ceil(hi / lattice.step))
    if max(abs(bounds.lower), abs(bounds.upper)) >= MAX_STEPS:
        raise Refused(
            Reason.UNBOUNDED_INPUT, bounded.call.span, fix="Narrow the bounds: they are too wide."
        )
    return bounds


def counted(bounded: BoundedCall) -> tree.Expression | None:
    """Return the condition of rows that count: the FILTER, and no NULL arguments; None for all
    rows.
    """
    condition = bounded.call.filter
    for argument, facts in zip(bounded.call.args, bounded.arguments, strict=False):
        if facts.nullable:
            condition = conjunction(condition, ~argument.is_null())
    return condition


def conjunction(condition: tree.Expression | None, other: tree.Expression) -> tree.Expression:
    """Combine two conditions; the first may be None."""
    return other if condition is None else condition & other


def no_distinct(bounded: BoundedCall) -> None:
    """Refuse DISTINCT for an aggregate that has no rule for it."""
    if bounded.call.distinct:
        raise Refused(
            Reason.UNSUPPORTED_AGGREGATE,
            bounded.call.span,
            name=f"{bounded.call.function}(DISTINCT)",
        )


def not_below_zero(
    bounded: BoundedCall, value: tree.Expression, part: Measurement
) -> tree.Expression:
    """Raise a negative number to zero if the options ask for it and the part cannot be negative."""
    if not bounded.options.nonnegative or part.total_lower < 0:
        return value
    kind = bounded.call.type
    return tree.scalar("greatest", value, tree.Literal(0, tree.INTEGER).to(kind), kind=kind)


def part_type(lattice: Lattice) -> tree.SqlType:
    """Return the type of a released part in the units of its values."""
    if lattice.base == 2:  # noqa: PLR2004
        return tree.DOUBLE
    return tree.decimal(38, lattice.digits) if lattice.digits else tree.INTEGER


def _lattice(kind: tree.SqlType, lo: Fraction, hi: Fraction, bits: int) -> Lattice:
    match kind.kind:
        case tree.Kind.INTEGER:
            return Lattice(10, 0)
        case tree.Kind.DECIMAL:
            return Lattice(10, kind.scale)
        case _:
            largest = max(abs(lo), abs(hi))
            return Lattice(2, min(max(bits - _log2_ceil(largest), -40), 40))


def _log2_ceil(value: Fraction) -> int:
    """Return the smallest e with value <= 2**e, at least -40."""
    if value <= 0:
        return -40
    exponent = value.numerator.bit_length() - value.denominator.bit_length() - 1
    exponent = max(exponent, -40)
    while Fraction(2) ** exponent < value:
        exponent += 1
    return exponent
