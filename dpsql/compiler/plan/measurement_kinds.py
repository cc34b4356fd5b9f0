"""Measurements: what is summed of a block's rows, each kind with the fields that it has.

A measurement adds up what each unit contributes to a group: its total there, of rows that are
clipped one by one, clipped to [`total_lower`, `total_upper`]. Every kind has these two, the
`lattice` in whose steps rows are clipped, the lattice on which it is `released`, and a `condition`
that keeps rows (FILTER; None: all of them).

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
"""Rows of a unit in a group beyond which nobody looks for a bound."""


class _Clipped(Protocol):
    """What all measurements have in common."""

    @property
    def lattice(self) -> Lattice: ...
    @property
    def released(self) -> Lattice: ...
    @property
    def total_lower(self) -> int: ...
    @property
    def total_upper(self) -> int: ...


class _Total:
    """What follows from the clip of a unit's total."""

    __slots__ = ()

    @property
    def released(self: _Clipped) -> Lattice:
        """The grid of what is released, in whose steps totals are clipped."""
        return self.lattice

    @property
    def reach(self: _Clipped) -> float:
        """The most that one unit changes one group, in units of the values."""
        return float(max(abs(self.total_lower), abs(self.total_upper)) * self.released.step)


@dataclass(frozen=True, slots=True)
class RowCount(_Total):
    """The rows: each counts 1, those of one unit in a group at most `total_upper`."""

    condition: Expression | None
    total_upper: int

    lattice: ClassVar[Lattice] = WHOLE
    total_lower: ClassVar[int] = 0


@dataclass(frozen=True, slots=True)
class UnitCount(_Total):
    """The units that have a row: each counts 1, however many it has."""

    condition: Expression | None

    lattice: ClassVar[Lattice] = WHOLE
    total_lower: ClassVar[int] = 0
    total_upper: ClassVar[int] = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class ClippedSum(_Total):
    """The values of `argument`: a row is clipped to [`lower`, `upper`], then less `centre`."""

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
    """The different values of `argument` over all units of a group, NULL not among them.

    Of each unit at most `total_upper` values, or where that is an L1 norm, in all groups together;
    `chosen` says that SQL must choose them.
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
        """Those that count."""
        return self

    def of_at_most(self, values: int, norm: Norm = Norm.MAX) -> DistinctCount:
        """The same of so many values of each unit, in each group or in all together."""
        return replace(self, total_upper=values, norm=norm)


@dataclass(frozen=True, slots=True, kw_only=True)
class DistinctSum(_Total):
    """What `argument` says of each of the `values` that count, once however many units have it.

    It is computed of the value alone, clipped to [`lower`, `upper`], then less `centre`.
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
        """Whether the values of a unit in all groups count together."""
        return self.values.norm

    def of_at_most(self, values: int, norm: Norm = Norm.MAX) -> DistinctSum:
        """The same of so many values of each unit, in each group or in all together."""
        ends = self.lower - self.centre, self.upper - self.centre
        return replace(
            self,
            values=self.values.of_at_most(values, norm),
            total_lower=min(0, values * ends[0]),
            total_upper=max(0, values * ends[1]),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockAverage(_Total):
    """The values of `argument`, an expression over aggregates, of each of `blocks` blocks of units.

    A block's value is clipped to [`lower`, `upper`], then less the middle; without a finite value
    it is the middle. A unit is in one block, whose value it may move from end to end.
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
    """The rows, of which a unit has one, to test that there are at least `rows`.

    Of it one bit is shown: see `mechanisms.stability`.
    """

    condition: Expression | None
    rows: int

    lattice: ClassVar[Lattice] = WHOLE
    total_lower: ClassVar[int] = 0
    total_upper: ClassVar[int] = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class StableMean(_Total):
    """The mean of `argument` where `test` is passed, in steps of `finer` more digits.

    A unit has one row, clipped to [`lower`, `upper`], then less `centre`. What a unit moves is the
    mean of as many rows as are tested for: see `mechanisms.stability`.
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
        """How many rows there are at least."""
        return self.test.rows

    @property
    def steps(self) -> int:
        """How many steps of the mean are one of the lattice."""
        return int(self.lattice.base**self.finer)

    @property
    def released(self) -> Lattice:
        return Lattice(self.lattice.base, self.lattice.digits + self.finer)

    @property
    def total_upper(self) -> int:
        """The most that one row moves a mean of so many, rounded up."""
        return -(-(self.upper - self.lower) * self.steps // self.rows)


@dataclass(frozen=True, slots=True)
class ScaledTotal(_Total):
    """A unit's totals over all groups, scaled as a whole until their norm is at most `bound`.

    `total` says what is added up, and clips it to what integers hold. The bound is in steps of the
    released grid, which has so many more `digits`, so that rounding toward zero loses little.
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
        """How many steps of what is released are one of the rows' lattice."""
        return int(self.lattice.base**self.digits)

    @property
    def total_lower(self) -> int:
        return -self.bound if self.total.total_lower else 0

    @property
    def total_upper(self) -> int:
        return self.bound if self.total.total_upper else 0


AdditiveTotal: TypeAlias = RowCount | ClippedSum
"""What adds up over the rows of a unit where no unit has more than are counted."""

ValueTotal: TypeAlias = ClippedSum | DistinctSum | BlockAverage | StableMean
"""What is computed of values that are clipped one by one."""

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
    """One vote of each unit: the octave of the norm of its totals in the groups of `keys`.

    A unit with a norm in (2^(i - 1), 2^i] votes for i, from the ends of `octaves` beyond them; one
    that adds nothing does not vote. Norms are those of `total`, with so many more `digits`, in
    steps of which `whole` are 1 here. With two `parts` it votes for a half: one in
    (2^(i/2 - 1/2), 2^(i/2)] for i.
    """

    total: AdditiveTotal | UnitCount | DistinctCount
    keys: tuple[Item, ...]
    norm: Norm
    digits: int
    octaves: tuple[int, int]
    parts: int = 1
    whole: int = 1

    @property
    def steps(self) -> int:
        """How many steps of a norm are one of the rows' lattice."""
        return int(self.total.lattice.base**self.digits)

    @property
    def bins(self) -> Octaves:
        """What is voted for."""
        return Octaves(*self.octaves, self.parts, self.whole)


@dataclass(frozen=True, slots=True)
class MeanVote:
    """One vote of each unit: between which two `edges`, in steps, the mean of its rows is.

    Rows are clipped as `total` says, and those without a value have no say. Place n is below edge
    n, and not below the one before.
    """

    total: ClippedSum
    edges: tuple[int, ...]

    keys: ClassVar[tuple[Item, ...]] = ()


@dataclass(frozen=True, slots=True)
class RangeVote:
    """One vote of each unit: the octave of its largest row, of either sign, as of a `Vote`.

    Rows are clipped as `total` says.
    """

    total: ClippedSum
    octaves: tuple[int, int]

    keys: ClassVar[tuple[Item, ...]] = ()


@dataclass(frozen=True, slots=True)
class RatioVote:
    """One vote of each unit: between which two `edges` its `total` is as a multiple of `below`.

    Edges are in steps of the one for a step of the other. A unit without any below does not vote.
    """

    total: AdditiveTotal
    below: AdditiveTotal
    edges: tuple[Fraction, ...]

    keys: ClassVar[tuple[Item, ...]] = ()


UnitVote: TypeAlias = Vote | MeanVote | RangeVote | RatioVote
"""What a unit is asked, once."""


def expressions_of(part: Measurement) -> list[Expression]:
    """What a measurement says of a row, or of a block of units."""
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
    """What SQL clips the total of a unit in a group to, in steps of its lattice."""
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
    """Whether every row that counts adds to the total of its unit, so that a limit of rows cuts."""
    match part:
        case RowCount() | ClippedSum() | ScaledTotal() | RowTest() | StableMean():
            return True
        case UnitCount() | DistinctCount() | DistinctSum() | BlockAverage():
            return False
        case _:
            assert_never(part)
