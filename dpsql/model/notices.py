"""notices: what a reader of numbers is told beside them; the words are made in the interfaces.

All but `Empty` and `Unclear`, which are about the released numbers, follow from the text, the
policy and public data, never from private data. Limits
that hold by proof are not told: only what SQL enforces can make an answer differ from the truth.
`columns` are places in the result, none where a number is only used on the way to it; `units`
names the table whose rows are protected.
"""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import TypeAlias

from dpsql.model.dataclass import dataclass
from dpsql.model.local_reports import Randomized
from dpsql.model.public_times import Resolution
from dpsql.model.tree import Value

Ends: TypeAlias = tuple[Value, Value]
"""The least and the greatest value that count."""


@dataclass(frozen=True, slots=True)
class Clipped:
    """A unit's rows in a group are cut to `rows`, their values to `values` (an argument each).

    `total` is what a unit adds at most to a sum. What is None or empty is not cut. `grouped` says
    that there are groups.
    """

    columns: tuple[int, ...]
    units: str
    grouped: bool
    rows: int | None = None
    values: tuple[Ends, ...] = ()
    total: Ends | None = None


@dataclass(frozen=True, slots=True)
class FewValues:
    """Of the different values of a unit in a group at most `values` count."""

    columns: tuple[int, ...]
    units: str
    grouped: bool
    values: int


class CutSide(StrEnum):
    """Where the truth is of a number from which something is cut off."""

    ABOVE = "≥"
    BELOW = "≤"
    EITHER = "*"


@dataclass(frozen=True, slots=True)
class Sampled:
    """A unit counts in at most `groups` groups, a random choice of its own: on one `side`."""

    columns: tuple[int, ...]
    units: str
    groups: int
    side: CutSide = CutSide.EITHER


@dataclass(frozen=True, slots=True)
class SharedPresence:
    """A unit in more than `groups` groups counts less than once in each, so that it counts in any
    number of them.

    Where that number was found privately, about `above` units at most are in more (95 %), and
    without enough units it is not `visible`; a public one says nothing of them (None).
    """

    columns: tuple[int, ...]
    units: str
    groups: float
    above: int | None = None
    visible: bool = True

    @property
    def side(self) -> CutSide:
        """What is missing of a count is above it."""
        return CutSide.ABOVE


class Contributed(StrEnum):
    """What units add to a number, or to one of those that it is computed from."""

    UNITS = "units"
    ROWS = "rows"
    DIFFERENT = "different values"
    VALUES = "values"
    DEVIATIONS = "differences from about the mean"
    BEYOND = "differences from about the ratio"
    PRODUCTS = "squares and products"


@dataclass(frozen=True, slots=True)
class Scaled:
    """All of `what` a unit contributes is scaled to a norm of at most `most`, found privately.

    About `above` units at most have more (95 %). Without enough people the norm is not `visible`.
    What is cut off is on one `side`.
    """

    columns: tuple[int, ...]
    units: str
    what: Contributed
    most: float
    above: int
    visible: bool
    side: CutSide


@dataclass(frozen=True, slots=True)
class Listed:
    """Only `values` values that the policy declares count: of the key `name`, or of what a column
    is computed from (None).
    """

    columns: tuple[int, ...]
    name: str | None
    values: int


@dataclass(frozen=True, slots=True)
class Assumed:
    """Numbers are made to agree as if a column held no other values than the `values` declared."""

    columns: tuple[int, ...]
    values: int


@dataclass(frozen=True, slots=True)
class Hidden:
    """Groups of fewer units than `least`, or about as many, are not shown."""

    columns: tuple[int, ...]
    units: str
    least: int


@dataclass(frozen=True, slots=True)
class Empty:
    """The answer has no rows; groups smaller than `hidden` would not be shown (None: all would)."""

    hidden: Hidden | None


@dataclass(frozen=True, slots=True)
class Unclear:
    """Of the `numbers` of a column, `unclear` are no larger than their margins."""

    column: int
    unclear: int
    numbers: int


@dataclass(frozen=True, slots=True)
class Drowned:
    """No number can say anything: each errs by more than all that it can be.

    At most `most` units can be in a group, and the noise of the clearest number is that of
    `noise` units.
    """

    units: str
    most: int
    noise: float


@dataclass(frozen=True, slots=True)
class NeverShown:
    """No group can be shown: it needs `least` units, and at most `most` can be in one."""

    units: str
    most: int
    least: int


@dataclass(frozen=True, slots=True)
class TooFew:
    """How much a unit adds is found from about `visible_from` alike units on: there are `most` at
    most, or (None) fewer were seen.
    """

    units: str
    visible_from: int
    most: int | None


@dataclass(frozen=True, slots=True)
class CountedKeys:
    """The groups of these private keys are counted as they are shown: not all there are."""

    keys: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class BoundsFound:
    """The bounds of a column, which declares none, were found by a private question."""

    table: str
    column: str
    lower: float
    upper: float


@dataclass(frozen=True, slots=True)
class Unprotected:
    """People whom this column of a table names are not protected: so the owner declares."""

    columns: tuple[int, ...]
    table: str
    column: str


@dataclass(frozen=True, slots=True)
class RoundedTimes:
    """NOW() is read as `instant`, the last full `resolution` (None: it is not in the text).

    `constants` says that times of the last days in the text are read as if they were full, too.
    """

    resolution: Resolution
    instant: datetime | None
    constants: bool


@dataclass(frozen=True, slots=True)
class Withheld:
    """Rows of people were asked for as they are: there are the columns, and no rows whatever is
    stored.
    """

    units: str


@dataclass(frozen=True, slots=True)
class ByDeclaration:
    """There are no rows: of the `values` that the policy lists for a column the conditions leave
    none. Nothing was measured, whatever is stored.
    """

    table: str
    column: str
    values: tuple[Value, ...]


@dataclass(frozen=True, slots=True)
class Synthetic:
    """All of it is computed of rows of these synthetic tables, which are nobody's."""

    tables: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Reported:
    """A `column` (with its table) is what people reported by a `law`: what is computed of it is an
    estimate. About so many `rows` are expected (None: nobody knows). The `noise` of what is
    measured makes an estimated count err by so much at 95 % (None: it is counted exactly).
    """

    column: str
    law: Randomized
    rows: int | None
    noise: float | None = None


@dataclass(frozen=True, slots=True)
class Modelled:
    """It is computed with predictions of these models, which are no measurements.

    The `limited` ones are fitted to rows that a limit per unit cuts or scales.
    """

    models: tuple[str, ...]
    limited: tuple[str, ...] = ()


Cut: TypeAlias = Clipped | FewValues | Sampled | Scaled | SharedPresence | Listed | Assumed | Hidden
"""What is about columns: something is left out of them, or taken for granted."""

Useless: TypeAlias = Drowned | NeverShown | TooFew
"""Why an answer cannot be of use, whatever the data."""

Told: TypeAlias = (
    Empty
    | Unclear
    | Useless
    | CountedKeys
    | BoundsFound
    | RoundedTimes
    | Withheld
    | ByDeclaration
    | Synthetic
    | Reported
    | Modelled
)
"""What marks no column."""

Notice: TypeAlias = Cut | Told | Unprotected


def marked(notices: tuple[Notice, ...]) -> frozenset[int]:
    """The places of the columns that a notice speaks of.

    >>> sorted(marked((Sampled((1, 2), "people", 5), Listed((0,), "city", 2))))
    [0, 1, 2]
    """
    return frozenset(place for notice in notices for place in places(notice))


def sides(notices: tuple[Notice, ...]) -> dict[int, CutSide]:
    """Where the truth is of each column that a notice speaks of.

    >>> scaled = Scaled((1,), "people", Contributed.ROWS, 12.0, 3, visible=True, side=CutSide.ABOVE)
    >>> {place: side.value for place, side in sides((scaled, Listed((0,), "city", 2))).items()}
    {1: '≥', 0: '*'}
    """
    by_column: dict[int, CutSide] = {}
    for notice in notices:
        own = (
            notice.side if isinstance(notice, Scaled | Sampled | SharedPresence) else CutSide.EITHER
        )
        for place in places(notice):
            by_column[place] = own if by_column.get(place, own) is own else CutSide.EITHER
    return by_column


def places(notice: Notice) -> tuple[int, ...]:
    """The columns of one notice."""
    return () if isinstance(notice, Told) else notice.columns


def useless(notices: tuple[Notice, ...]) -> Useless | None:
    """Why an answer cannot be of use, if it cannot."""
    return next((n for n in notices if isinstance(n, Useless)), None)
