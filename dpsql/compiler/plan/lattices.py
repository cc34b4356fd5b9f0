"""Grids of integers: the quantisation grid of a measurement, and the candidates of a choice."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from enum import StrEnum
from fractions import Fraction

from dpsql.mechanisms.count_tree import Shape
from dpsql.mechanisms.scores import Aim, Rank
from dpsql.mechanisms.sparse_vector import SparseVector
from dpsql.model.algebra import Field
from dpsql.model.dataclass import dataclass
from dpsql.model.tree import Expression, Kind, SqlType, Value
from dpsql.model.vocabulary import Noise, Sensitivity


@dataclass(frozen=True, slots=True)
class Lattice:
    """The public quantisation grid of a measurement: integers times `step` = base ** -digits."""

    base: int
    digits: int

    @property
    def step(self) -> Fraction:
        return Fraction(self.base) ** -self.digits

    @property
    def is_decimal(self) -> bool:
        """True for the grid of a DECIMAL with decimal places."""
        return self.base == 10 and self.digits > 0  # noqa: PLR2004


WHOLE = Lattice(10, 0)
"""The grid of integers themselves."""


class ContributedRows(StrEnum):
    """The rows of a unit in a group that it contributes to a histogram."""

    ALL = "proved: no unit has more"
    HASHED = "chosen by a keyed hash"
    LEAST = "its least"
    GREATEST = "its greatest"


@dataclass(frozen=True, slots=True)
class Grid:
    """The public candidates of a choice, as integers from `lower` to `upper` in cells of `width`.

    A cell stands for the integer at its middle, in steps of `lattice`. For dates these are days
    since 1970, for times microseconds. With `values` the integers are places in that list.

    >>> from dpsql.model.tree import INTEGER
    >>> grid = Grid(INTEGER, Lattice(10, 0), 0, 10, 3)
    >>> grid.cells, [grid.point(cell) for cell in range(4)]
    (4, [1, 4, 7, 10])
    """

    kind: SqlType
    lattice: Lattice
    lower: int
    upper: int
    width: int = 1
    values: tuple[Value, ...] = ()

    @property
    def cells(self) -> int:
        return -(-(self.upper - self.lower + 1) // self.width)

    def point(self, cell: int) -> int:
        """Return the integer that a cell stands for."""
        return min(self.lower + cell * self.width + (self.width - 1) // 2, self.upper)

    def ends(self, cell: int) -> tuple[int, int]:
        """Return the lowest and the highest integer of a cell."""
        first = self.lower + cell * self.width
        return first, min(first + self.width - 1, self.upper)

    def value(self, place: int) -> Value:
        """Return the value that an integer stands for.

        >>> from dpsql.model.tree import DATE
        >>> str(Grid(DATE, Lattice(10, 0), 0, 9).value(1))
        '1970-01-02'
        """
        match self.kind.kind:
            case _ if self.values:
                return self.values[place]
            case Kind.DATE:
                return date(1970, 1, 1) + timedelta(days=place)
            case Kind.TIMESTAMP | Kind.TIMESTAMPTZ:
                zone = UTC if self.kind.kind is Kind.TIMESTAMPTZ else None
                return datetime(1970, 1, 1, tzinfo=zone) + timedelta(microseconds=place)
            case Kind.DOUBLE:
                return float(place * self.lattice.step)
            case _:
                return Decimal(f"{place}E-{self.lattice.digits}") if self.lattice.digits else place


@dataclass(frozen=True, slots=True)
class Histogram:
    """The rows in each cell of `grid`, by group.

    `condition` keeps rows (FILTER). NULL, NaN and values outside all cells are left out. A unit has
    at most `rows` rows in a group, selected as `contributed` says.
    """

    argument: Expression
    condition: Expression | None
    grid: Grid
    rows: int
    contributed: ContributedRows

    @property
    def expressions(self) -> list[Expression]:
        """The expressions that it reads of a row."""
        return [self.argument] if self.condition is None else [self.argument, self.condition]


@dataclass(frozen=True, slots=True)
class ChoiceQuery:
    """A choice from a histogram: the cell that `aim` favours, by the rows of each cell."""

    histogram: Histogram
    aim: Aim


@dataclass(frozen=True, slots=True)
class Choice:
    """One cell chosen in each group: `field` labels the integer that it stands for.

    P(cell) depends on exp(rate · score) (see `mechanisms.exponential`), with the scores of `aim`;
    with a `scan` it is sparse vector's. A unit influences at most `rounds` groups, each by
    `epsilon`. `expected` is the root mean squared rank error in rows, where rows are many;
    `otherwise` is that of a tree (None: it is no quantile).
    """

    field: Field
    query: ChoiceQuery
    aim: Aim
    flips: bool
    rate: Fraction
    epsilon: Fraction
    rounds: int
    scan: SparseVector | None = None
    expected: float | None = None
    otherwise: float | None = None


@dataclass(frozen=True, slots=True)
class TreeRelease:
    """Quantiles of one histogram, read from one release of the noisy counts of a tree's nodes.

    `fields` label the integers that their cells stand for, in the order of `ranks`. For numbers,
    `halves` label the half-widths of intervals that hold the quantiles. The change of all levels
    together by one unit is within `sensitivity`. `error` is the root mean squared rank error in
    rows, where rows are many; `otherwise` is that of separate choices. Extreme ranks are the last,
    and read `reserve` rows from their ends.
    """

    fields: tuple[Field, ...]
    histogram: Histogram
    ranks: tuple[Rank, ...]
    shape: Shape
    sensitivity: Sensitivity
    noise: Noise
    error: float
    otherwise: float
    halves: tuple[Field, ...] = ()
    reserve: int = 1

    @property
    def read(self) -> tuple[Rank, ...]:
        """The ranks that are read, with extreme ones moved by `reserve`."""
        return tuple(r.at(self.reserve) if r.is_extreme else r for r in self.ranks)


@dataclass(frozen=True, slots=True)
class RangeStrategy:
    """The joint measurement of `count` ranges of `subject`.

    `nodes` are the counts of each level, those of the cells last. `errors` are expected root mean
    squared errors of a range, in units of the values: by this strategy, by cells alone, and one by
    one.
    """

    subject: Expression
    count: int
    nodes: tuple[int, ...]
    errors: tuple[float, float, float]
