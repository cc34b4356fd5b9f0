"""Notices about numbers, for the reader; the interfaces make the sentences.

Only `Empty` and `Unclear` depend on released numbers. All others follow from the text, the policy
and public data, never from private data. Limits that hold by proof get no notice: only enforcement
in SQL can make an answer differ from the truth. `columns` are places in the result, empty where a
number is only an intermediate one. `units` names the table of protected rows.
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
"""The clipping bounds of a value, lower and upper."""


class CutSide(StrEnum):
    """The side of a clipped number on which the truth lies."""

    ABOVE = "≥"
    BELOW = "≤"
    EITHER = "*"


@dataclass(frozen=True, slots=True)
class Clipped:
    """A unit's rows in a group are limited to `rows`, and their values clipped to `values`, one per
    argument.

    `total` are the clipping bounds of a unit's total in a sum. None or empty means no limit.
    `grouped` says that there are groups. The truth lies on one `side`; no interval covers it.
    """

    columns: tuple[int, ...]
    units: str
    grouped: bool
    rows: int | None = None
    values: tuple[Ends, ...] = ()
    total: Ends | None = None
    side: CutSide = CutSide.EITHER


@dataclass(frozen=True, slots=True)
class FewValues:
    """A limit: at most `values` distinct values of a unit count in a group; `side` as above."""

    columns: tuple[int, ...]
    units: str
    grouped: bool
    values: int
    side: CutSide = CutSide.ABOVE


@dataclass(frozen=True, slots=True)
class Sampled:
    """A unit counts in at most `groups` groups, chosen at random, which moves numbers to one
    `side`.
    """

    columns: tuple[int, ...]
    units: str
    groups: int
    side: CutSide = CutSide.EITHER


@dataclass(frozen=True, slots=True)
class SharedPresence:
    """A unit in more than `groups` groups counts less than once in each, so that no group is left
    out.

    If that number was found privately, at most about `above` units are in more (95 %), and without
    enough units it is not `visible`. For a public number `above` is None.
    """

    columns: tuple[int, ...]
    units: str
    groups: float
    above: int | None = None
    visible: bool = True

    @property
    def side(self) -> CutSide:
        """Side of the truth: counts are too small."""
        return CutSide.ABOVE


class Contributed(StrEnum):
    """The contributions of units to a number, or to a part of its formula."""

    UNITS = "units"
    ROWS = "rows"
    DIFFERENT = "different values"
    VALUES = "values"
    DEVIATIONS = "differences from about the mean"
    BEYOND = "differences from about the ratio"
    PRODUCTS = "squares and products"


@dataclass(frozen=True, slots=True)
class Scaled:
    """All `what` that a unit contributes is scaled to a norm of at most `most`, found privately.

    About `above` units at most have more (95 %). Without enough units the norm is not `visible`.
    The truth lies on one `side`, where the end of the interval may be a `guess`.
    """

    columns: tuple[int, ...]
    units: str
    what: Contributed
    most: float
    above: int
    visible: bool
    side: CutSide
    guess: bool = False


@dataclass(frozen=True, slots=True)
class Listed:
    """A limit: only the `values` values that the policy declares count, of the key `name`, or of an
    argument (None).
    """

    columns: tuple[int, ...]
    name: str | None
    values: int


@dataclass(frozen=True, slots=True)
class Assumed:
    """Numbers are made to agree under the assumption that a column has only its `values` declared
    values.
    """

    columns: tuple[int, ...]
    values: int


@dataclass(frozen=True, slots=True)
class Hidden:
    """Groups of fewer units than about `least` are not released."""

    columns: tuple[int, ...]
    units: str
    least: int


@dataclass(frozen=True, slots=True)
class Empty:
    """The answer has no rows; groups smaller than `hidden` are not released (None: all are)."""

    hidden: Hidden | None


@dataclass(frozen=True, slots=True)
class Unclear:
    """A column where `unclear` of `numbers` numbers are at most their half-widths."""

    column: int
    unclear: int
    numbers: int


class RankedBy(StrEnum):
    """The measure by which a value is chosen among candidates."""

    RANK = "rank"
    END = "end"
    ROWS = "rows"


@dataclass(frozen=True, slots=True)
class Ranked:
    """Values that are chosen by ranks, whose errors in values are unknown.

    With 95 %, a rank is off by at most `rows`, at most so many rows reach an extreme value, or no
    value has so many rows more than the most frequent one.
    """

    outputs: tuple[int, ...]
    by: RankedBy
    rows: int


@dataclass(frozen=True, slots=True)
class Drowned:
    """A useless answer where no number can be informative: each error is larger than all possible
    values.

    At most `most` units can be in a group, and the noise of the clearest number is that of `noise`
    units.
    """

    units: str
    most: int
    noise: float


@dataclass(frozen=True, slots=True)
class NeverShown:
    """A useless answer where no group can be released: it needs `least` units, and at most `most`
    can be in one.
    """

    units: str
    most: int
    least: int


@dataclass(frozen=True, slots=True)
class TooFew:
    """A bound on a unit's contribution surely stands out for about `visible_from` similar units;
    there are at most `most`.
    """

    units: str
    visible_from: int
    most: int


@dataclass(frozen=True, slots=True)
class CountedKeys:
    """The released groups of these private keys are counted, which are not all groups."""

    keys: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class BoundsFound:
    """The bounds of a column that declares none were found by a private query."""

    table: str
    column: str
    lower: float
    upper: float


@dataclass(frozen=True, slots=True)
class Unprotected:
    """People whom this column of a table names are not protected, as the owner declares."""

    columns: tuple[int, ...]
    table: str
    column: str


@dataclass(frozen=True, slots=True)
class RoundedTimes:
    """NOW() is read as `instant`, the last full `resolution` (None: the text does not use it).

    With `constants`, recent times in the text are rounded down in the same way.
    """

    resolution: Resolution
    instant: datetime | None
    constants: bool


@dataclass(frozen=True, slots=True)
class Withheld:
    """Private rows were requested: the answer has their columns and no rows, for any data."""

    units: str


class AnswerForm(StrEnum):
    """A form that a query over many people's rows was answered in."""

    STAGED_AVERAGE = "staged average"
    STAGED_NUMBER = "staged number"
    LIMITED_JOIN = "limited join"
    STAGED_RANK = "staged rank"
    UNMATCHED_ROWS = "unmatched rows"


STAGED_FORMS = (AnswerForm.STAGED_AVERAGE, AnswerForm.STAGED_RANK)
"""Forms that say that rows are compared with released numbers."""


@dataclass(frozen=True, slots=True)
class AnsweredAs:
    """The query was answered in another form, with an error that no ± has.

    `most` are the rows of one unit in each side of a limited join.
    """

    form: AnswerForm
    most: int | None = None


@dataclass(frozen=True, slots=True)
class ByDeclaration:
    """The answer has no rows: the conditions exclude all `values` that the policy lists for a
    column.

    Nothing was measured, for any data. A constant of the conditions may mean the value `near`.
    """

    table: str
    column: str
    values: tuple[Value, ...]
    near: str | None = None


class CertainFact(StrEnum):
    """Reasons why no row fulfils the conditions of a number, or why two counts are equal."""

    NEVER_NULL = "never NULL"
    AT_MOST = "at most"
    LINKED = "linked"
    FALSE = "false"
    EQUAL = "equal"


@dataclass(frozen=True, slots=True)
class ByFact:
    """A number follows from a `fact` about a column of a table: no row fulfils its conditions.

    At most `most` rows have one value of that column. Nothing was measured for it, for any data.
    """

    fact: CertainFact
    about: str
    most: int = 1


NoRows: TypeAlias = ByDeclaration | ByFact
"""Reasons why an aggregate has no rows, so that it is answered without a measurement."""


@dataclass(frozen=True, slots=True)
class Synthetic:
    """All numbers are computed from rows of these synthetic tables, which belong to no privacy
    unit.
    """

    tables: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Published:
    """All numbers are computed from rows of these published tables, which are noisy."""

    tables: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Reported:
    """A `column` (with its table) holds reports drawn from `law`; results are estimates.

    About `rows` rows are expected (None: unknown). `noise` is the 95 % half-width of an estimated
    count by the measurement's noise (None: it is counted exactly).
    """

    column: str
    law: Randomized
    rows: int | None
    noise: float | None = None


@dataclass(frozen=True, slots=True)
class Modelled:
    """The answer uses predictions of these models, which are no measurements.

    Rows for the `limited` models were clipped or scaled by a limit per unit.
    """

    models: tuple[str, ...]
    limited: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Relayed:
    """A notice of a server, in its words."""

    text: str


Cut: TypeAlias = Clipped | FewValues | Sampled | Scaled | SharedPresence | Listed | Assumed | Hidden
"""Notices about columns: something is left out of them, or assumed."""

LIMITS = Clipped | FewValues | Sampled | Scaled | SharedPresence
"""Notices about limits on what a unit contributes."""

Useless: TypeAlias = Drowned | NeverShown
"""Reasons why an answer cannot be useful, for any data."""

Told: TypeAlias = (
    Empty
    | Unclear
    | Ranked
    | Useless
    | TooFew
    | CountedKeys
    | BoundsFound
    | RoundedTimes
    | Withheld
    | AnsweredAs
    | NoRows
    | Synthetic
    | Published
    | Reported
    | Modelled
    | Relayed
)
"""Notices that mark no column."""

Notice: TypeAlias = Cut | Told | Unprotected


def marked(notices: tuple[Notice, ...]) -> frozenset[int]:
    """Return the places of the columns that any notice is about.

    >>> sorted(marked((Sampled((1, 2), "people", 5), Listed((0,), "city", 2))))
    [0, 1, 2]
    """
    return frozenset(place for notice in notices for place in places(notice))


def sides(notices: tuple[Notice, ...]) -> dict[int, CutSide]:
    """Return the side of the truth for each column that a notice is about.

    >>> scaled = Scaled((1,), "people", Contributed.ROWS, 12.0, 3, visible=True, side=CutSide.ABOVE)
    >>> {place: side.value for place, side in sides((scaled, Listed((0,), "city", 2))).items()}
    {1: '≥', 0: '*'}
    """
    by_column: dict[int, CutSide] = {}
    for notice in notices:
        own = notice.side if isinstance(notice, LIMITS) else CutSide.EITHER
        for place in places(notice):
            by_column[place] = own if by_column.get(place, own) is own else CutSide.EITHER
    return by_column


def places(notice: Notice) -> tuple[int, ...]:
    """Return the columns of one notice."""
    return () if isinstance(notice, Told) else notice.columns


def useless(notices: tuple[Notice, ...]) -> Useless | None:
    """Return the notice that an answer cannot be useful, if there is one."""
    return next((n for n in notices if isinstance(n, Useless)), None)
