"""Measurements: sums over a block's rows, each kind with its own fields.

A measurement adds up each unit's contribution to a group: its total there, of rows that are clipped
one by one, clipped to [`total_lower`, `total_upper`]. Every kind has these two bounds and the
`lattice` (grid) with the steps for clipping rows, the grid on which it is `released`, and a
`condition` that keeps rows (FILTER; None: all of them).

Whole numbers on a public lattice: PRIVACY.md R28.
"""

from __future__ import annotations

from fractions import Fraction
from typing import ClassVar, Protocol, TypeAlias, assert_never

from dpsql.compiler.plan.lattices import WHOLE, Lattice
from dpsql.mechanisms.norm_bounds import Octaves
from dpsql.model.algebra import Item
from dpsql.model.dataclass import dataclass, replace
from dpsql.model.tree import Expression
from dpsql.model.vocabulary import Norm

MOST_ROWS = 2**20
"""Number of rows of a unit in a group above which no bound is searched."""


class _Clipped(Protocol):
    """The common fields of all measurements."""

    @property
    def lattice(self) -> Lattice: ...
    @property
    def released(self) -> Lattice: ...
    @property
    def total_lower(self) -> int: ...
    @property
    def total_upper(self) -> int: ...


class _Total:
    """Properties that follow from the clipping bounds of a unit's total."""

    __slots__ = ()

    @property
    def released(self: _Clipped) -> Lattice:
        """The grid of the released number, which gives the steps for clipping totals."""
        return self.lattice

    @property
    def reach(self: _Clipped) -> float:
        """Largest change of one group by one unit, in units of the values."""
        return float(max(abs(self.total_lower), abs(self.total_upper)) * self.released.step)


@dataclass(frozen=True, slots=True)
class RowCount(_Total):
    """A count of rows: at most `total_upper` rows of one unit count in a group."""

    condition: Expression | None
    total_upper: int

    lattice: ClassVar[Lattice] = WHOLE
    total_lower: ClassVar[int] = 0


@dataclass(frozen=True, slots=True)
class UnitCount(_Total):
    """A count of the units that have a row: each counts 1, for any number of rows."""

    condition: Expression | None

    lattice: ClassVar[Lattice] = WHOLE
    total_lower: ClassVar[int] = 0
    total_upper: ClassVar[int] = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class ClippedSum(_Total):
    """A sum of the values of `argument`: a row is clipped to [`lower`, `upper`], then less
    `centre`.
    """

    argument: Expression
    condition: Expression | None
    lattice: Lattice
    lower: int
    upper: int
    centre: int = 0
    total_lower: int
    total_upper: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DistinctCount(_Total):
    """A count of distinct values of `argument` over all units of a group, without NULL.

    Each unit adds at most `total_upper` values to a group; with an L1 `norm` to all groups
    together. `chosen` says that SQL must choose them.
    """

    argument: Expression
    condition: Expression | None
    total_upper: int
    chosen: bool
    norm: Norm = Norm.MAX

    lattice: ClassVar[Lattice] = WHOLE
    total_lower: ClassVar[int] = 0

    @property
    def values(self) -> DistinctCount:
        """The count itself, as the set of its values."""
        return self

    def of_at_most(self, values: int, norm: Norm = Norm.MAX) -> DistinctCount:
        """Return the same with at most `values` values of each unit, in each group or in all
        together.
        """
        return replace(self, total_upper=values, norm=norm)


@dataclass(frozen=True, slots=True, kw_only=True)
class DistinctSum(_Total):
    """A sum of `argument` over the counted `values`, each once for any number of units.

    It is computed from the value alone, clipped to [`lower`, `upper`], then less `centre`.
    """

    values: DistinctCount
    argument: Expression
    lattice: Lattice
    lower: int
    upper: int
    centre: int = 0
    total_lower: int
    total_upper: int

    @property
    def condition(self) -> Expression | None:
        return self.values.condition

    @property
    def norm(self) -> Norm:
        """Norm of the values of a unit: L1 counts those of all groups together."""
        return self.values.norm

    def of_at_most(self, values: int, norm: Norm = Norm.MAX) -> DistinctSum:
        """Return the same with at most `values` values of each unit, in each group or in all
        together.
        """
        ends = self.lower - self.centre, self.upper - self.centre
        return replace(
            self,
            values=self.values.of_at_most(values, norm),
            total_lower=min(0, values * ends[0]),
            total_upper=max(0, values * ends[1]),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockAverage(_Total):
    """The average of `argument`, an expression over aggregates, over `blocks` blocks of units.

    A block's value is clipped to [`lower`, `upper`], then less the middle; without a finite value
    it is the middle. A unit is in one block, and may move its value from end to end.
    """

    argument: Expression
    lattice: Lattice
    lower: int
    upper: int
    blocks: int

    condition: ClassVar[None] = None

    @property
    def centre(self) -> int:
        return (self.lower + self.upper) // 2

    @property
    def total_lower(self) -> int:
        return self.lower - self.upper

    @property
    def total_upper(self) -> int:
        return self.upper - self.lower


@dataclass(frozen=True, slots=True)
class RowTest(_Total):
    """A count of rows, one per unit, that tests whether there are at least `rows`.

    Only one bit of it is released: see `mechanisms.stability`.
    """

    condition: Expression | None
    rows: int

    lattice: ClassVar[Lattice] = WHOLE
    total_lower: ClassVar[int] = 0
    total_upper: ClassVar[int] = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class StableMean(_Total):
    """The mean of `argument` where `test` passes, in steps of `finer` more digits.

    A unit has one row, clipped to [`lower`, `upper`], then less `centre`. Its change by a unit is
    that of the mean of as many rows as the test requires: see `mechanisms.stability`.
    """

    argument: Expression
    condition: Expression | None
    lattice: Lattice
    lower: int
    upper: int
    centre: int
    finer: int
    test: RowTest

    total_lower: ClassVar[int] = 0

    @property
    def rows(self) -> int:
        """Least number of rows that the test requires."""
        return self.test.rows

    @property
    def steps(self) -> int:
        """Number of steps of the mean in one grid step."""
        return int(self.lattice.base**self.finer)

    @property
    def released(self) -> Lattice:
        return Lattice(self.lattice.base, self.lattice.digits + self.finer)

    @property
    def total_upper(self) -> int:
        """Largest change of a mean of that many rows by one row, rounded up."""
        return -(-(self.upper - self.lower) * self.steps // self.rows)


@dataclass(frozen=True, slots=True)
class ScaledTotal(_Total):
    """A unit's totals over all groups, scaled together until their norm is at most `bound`.

    `total` is the scaled sum, clipped to the range of integers. The bound is in steps of the
    released grid, which has `digits` more digits, so that rounding toward zero loses little.
    """

    total: AdditiveTotal | UnitCount
    norm: Norm
    bound: int
    digits: int

    @property
    def condition(self) -> Expression | None:
        return self.total.condition

    @property
    def lattice(self) -> Lattice:
        return self.total.lattice

    @property
    def released(self) -> Lattice:
        return Lattice(self.lattice.base, self.lattice.digits + self.digits)

    @property
    def steps(self) -> int:
        """Number of released steps in one step of the rows' grid."""
        return int(self.lattice.base**self.digits)

    @property
    def total_lower(self) -> int:
        return -self.bound if self.total.total_lower else 0

    @property
    def total_upper(self) -> int:
        return self.bound if self.total.total_upper else 0


AdditiveTotal: TypeAlias = RowCount | ClippedSum
"""Measurements that add up over the rows of a unit where no unit has more than are counted."""

ValueTotal: TypeAlias = ClippedSum | DistinctSum | BlockAverage | StableMean
"""Measurements of values that are clipped one by one."""

Measurement: TypeAlias = (
    RowCount
    | UnitCount
    | ClippedSum
    | ScaledTotal
    | DistinctCount
    | DistinctSum
    | BlockAverage
    | RowTest
    | StableMean
)


@dataclass(frozen=True, slots=True)
class Vote:
    """One vote of each unit in a noisy histogram: the octave of the norm of its totals in the
    groups of `keys`.

    A unit with a norm in (2^(i - 1), 2^i] votes for i; norms beyond the `octaves` count in the
    first or last one. A unit that adds nothing does not vote. Norms are those of `total`, with
    `digits` more digits, where `whole` steps are 1 here. With two `parts` it votes for a half: a
    norm in (2^(i/2 - 1/2), 2^(i/2)] for i. A declared `limit` bounds them.
    """

    total: AdditiveTotal | UnitCount | DistinctCount
    keys: tuple[Item, ...]
    norm: Norm
    digits: int
    octaves: tuple[int, int]
    parts: int = 1
    whole: int = 1
    limit: int | None = None

    @property
    def steps(self) -> int:
        """Number of a norm's steps in one step of the rows' grid."""
        return int(self.total.lattice.base**self.digits)

    @property
    def bins(self) -> Octaves:
        """The bins of the histogram."""
        lowest, highest = self.octaves
        return Octaves(lowest, highest, self.parts, self.whole)

    @property
    def most(self) -> int:
        """The largest norm that is possible: a declared one, or the end of the last octave."""
        return min(self.limit or self.bins.most, self.bins.most)


@dataclass(frozen=True, slots=True)
class MeanVote:
    """One vote of each unit: the `edges`, in steps, between which the mean of its rows lies.

    Rows are clipped as `total` says, and rows without a value do not count. Place n is below edge
    n, and not below the one before.
    """

    total: ClippedSum
    edges: tuple[int, ...]

    keys: ClassVar[tuple[Item, ...]] = ()


@dataclass(frozen=True, slots=True)
class RangeVote:
    """One vote of each unit: the octave of its largest row by absolute value, as in a `Vote`.

    Rows are clipped as `total` says.
    """

    total: ClippedSum
    octaves: tuple[int, int]

    keys: ClassVar[tuple[Item, ...]] = ()

    @property
    def bins(self) -> Octaves:
        """The bins of the histogram."""
        lowest, highest = self.octaves
        return Octaves(lowest, highest)


@dataclass(frozen=True, slots=True)
class RatioVote:
    """One vote of each unit: the `edges` between which the ratio of its `total` to `below` lies.

    Edges are in steps of the one per step of the other. A unit without rows in `below` does not
    vote.
    """

    total: AdditiveTotal
    below: AdditiveTotal
    edges: tuple[Fraction, ...]

    keys: ClassVar[tuple[Item, ...]] = ()


UnitVote: TypeAlias = Vote | MeanVote | RangeVote | RatioVote
"""The vote of each unit in a poll."""


def expressions_of(part: Measurement) -> list[Expression]:
    """Return the expressions that a measurement reads of a row, or of a block of units."""
    said: tuple[Expression | None, ...]
    match part:
        case RowCount() | UnitCount() | RowTest():
            said = (part.condition,)
        case ClippedSum() | DistinctCount() | BlockAverage() | StableMean():
            said = (part.argument, part.condition)
        case ScaledTotal(total=total):
            return expressions_of(total)
        case DistinctSum(values=values):
            return expressions_of(values)
        case _:
            assert_never(part)
    return [node for node in said if node is not None]


def clip_of_unit(part: Measurement) -> tuple[int, int]:
    """Return the bounds to which SQL clips the total of a unit in a group, in steps of its grid."""
    match part:
        case (
            RowCount()
            | UnitCount()
            | ClippedSum()
            | DistinctCount()
            | DistinctSum()
            | BlockAverage()
            | RowTest()
        ):
            return part.total_lower, part.total_upper
        case StableMean():
            return part.lower - part.centre, part.upper - part.centre
        case ScaledTotal(total=total):
            return clip_of_unit(total)
        case _:
            assert_never(part)


def adds_rows(part: Measurement) -> bool:
    """Test whether every counted row adds to the total of its unit, so that a limit of rows
    matters.
    """
    match part:
        case RowCount() | ClippedSum() | ScaledTotal() | RowTest() | StableMean():
            return True
        case UnitCount() | DistinctCount() | DistinctSum() | BlockAverage():
            return False
        case _:
            assert_never(part)
