"""Notices about numbers, for the reader: the data of each, and its sentence.

Only `Empty` and `Unclear` depend on released numbers. All others follow from the text, the policy
and public data, never from private data. Limits that hold by proof get no notice: only enforcement
in SQL can make an answer differ from the truth. `columns` are places in the result, empty where a
number is only an intermediate one. `units` names the table of protected rows.
"""

from __future__ import annotations

from datetime import datetime
from decimal import ROUND_CEILING, Context
from enum import StrEnum
from math import ceil
from typing import ClassVar, Protocol, TypeAlias

from dpsql.model.dataclass import dataclass
from dpsql.model.public_times import Resolution
from dpsql.model.tree import Value
from dpsql.model.value_texts import exact_text, value_text

Ends: TypeAlias = tuple[Value, Value]
"""The clipping bounds of a value, lower and upper."""


class Words(Protocol):
    """Words of an interface, for its options in sentences."""

    @property
    def plan(self) -> str:
        """Words that show the plan of a query."""

    def words(self, fits: str = "") -> dict[str, str]:
        """Return the existing words by their names in messages."""


class Notice:
    """A notice about numbers of an answer. `template` is its sentence, unless that needs code."""

    __slots__ = ()
    template: ClassVar[str]

    @property
    def places(self) -> tuple[int, ...]:
        """Columns that are marked."""
        return ()

    @property
    def named_columns(self) -> tuple[int, ...]:
        """Columns that the sentence names."""
        return self.places

    def sentence(self, names: str) -> str:
        """Return the sentence on columns of these names."""
        return self.template.format(self=self, names=names)

    def advice(self, door: Words | None) -> str:
        """Return the end of the sentence, in the words of an interface."""
        del door
        return ""


@dataclass(frozen=True, slots=True)
class ColumnNotice(Notice):
    """A notice about columns: something is left out of them, or assumed."""

    columns: tuple[int, ...]

    @property
    def places(self) -> tuple[int, ...]:
        return self.columns


class CutSide(StrEnum):
    """The side of a clipped number on which the truth lies."""

    ABOVE = "≥"
    BELOW = "≤"
    EITHER = "*"


_COVERED = {CutSide.ABOVE: "the high end", CutSide.BELOW: "the low end"}
"""The end of an interval that covers what is missing; for either side it is the interval."""

_GUESSES = {
    CutSide.ABOVE: "The low end holds; the high end is a guess",
    CutSide.BELOW: "The high end holds; the low end is a guess",
    CutSide.EITHER: "The interval is a guess",
}


@dataclass(frozen=True, slots=True)
class Clipped(ColumnNotice):
    """A unit's rows in a group are limited to `rows`, and their values clipped to `values`, one per
    argument.

    `total` are the clipping bounds of a unit's total in a sum. None or empty means no limit.
    `grouped` says that there are groups. The truth lies on one `side`; no interval covers it.
    """

    units: str
    grouped: bool
    rows: int | None = None
    values: tuple[Ends, ...] = ()
    total: Ends | None = None
    side: CutSide = CutSide.EITHER

    def sentence(self, names: str) -> str:
        ends = " and ".join(" … ".join(map(value_text, ends)) for ends in self.values)
        per, rows = _per(grouped=self.grouped), self.rows
        what, side = "changes" if rows is None else "leaves out", _beside(self.side)
        unknown = f"; how much that {what} is unknown, and not in ±{side}"
        if rows is None:
            return f"values in {names} are clipped to {ends}{unknown}"
        if self.total is None:
            cut = f", values clipped to {ends}" if ends else ""
            most = f"at most {_some(rows, 'row')} each{per}"
            return f"{self.units} count with {most} in {names}{cut}{unknown}"
        lower, upper = self.total
        adds = f"at most {value_text(upper)}"
        adds = adds if lower == 0 else f"{value_text(lower)} to {value_text(upper)}"
        cut = f", clipped to {ends}" if ends else ""
        each = f"{_some(rows, 'row')} each{cut}{unknown}"
        return f"{self.units} add {adds} each to {names}{per}: {each}"


@dataclass(frozen=True, slots=True)
class FewValues(ColumnNotice):
    """A limit: at most `values` distinct values of a unit count in a group; `side` as above."""

    units: str
    grouped: bool
    values: int
    side: CutSide = CutSide.ABOVE

    def sentence(self, names: str) -> str:
        different = f"{_some(self.values, 'different value')} each{_per(grouped=self.grouped)}"
        return f"{self.units} count with at most {different} in {names}{_uncovered(self.side)}"


@dataclass(frozen=True, slots=True)
class Sampled(ColumnNotice):
    """A unit counts in at most `groups` groups, chosen at random, which moves numbers to one
    `side`.
    """

    units: str
    groups: int
    side: CutSide = CutSide.EITHER

    def sentence(self, names: str) -> str:
        groups = f"{_some(self.groups, 'group')} each, chosen at random"
        return f"{self.units} count in at most {groups}, in {names}{_uncovered(self.side)}"


@dataclass(frozen=True, slots=True)
class SharedPresence(ColumnNotice):
    """A unit in more than `groups` groups counts less than once in each, so that no group is left
    out.

    If that number was found privately, at most about `above` units are in more (95 %), and without
    enough units it is not `visible`. For a public number `above` is None.
    """

    units: str
    groups: float
    above: int | None = None
    visible: bool = True

    @property
    def side(self) -> CutSide:
        """Side of the truth: counts are too small."""
        return CutSide.ABOVE

    def sentence(self, names: str) -> str:
        more = f"{self.units} in more than {_some(int(self.groups), 'group')}"
        counts = f"{more} count with less than 1 per group in {names}"
        if self.above is None:
            return f"{counts}, so that {names} can be too low ({self.side})"
        if not self.visible:
            why = "too few of them to find a better limit"
            return f"{counts}: {why}; the owner may declare max_groups_per_unit"
        most = f"at most about {self.above:,}" if self.above else "probably none"
        return f"{counts} (limit found by dpsql): {most} ({self.side})"


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
class Scaled(ColumnNotice):
    """All `what` that a unit contributes is scaled to a norm of at most `most`, found privately.

    About `above` units at most have more (95 %). Without enough units the norm is not `visible`.
    The truth lies on one `side`, where the end of the interval may be a `guess`; the interval has
    `covered` what is missing, or not. `over_groups` the norm is the root of summed squares: half of
    it in each of 4 groups, and never more in one. Limits are rounded up.
    """

    units: str
    what: Contributed
    most: float
    above: int
    visible: bool
    side: CutSide
    guess: bool = False
    over_groups: bool = False
    covered: bool = True

    def sentence(self, names: str) -> str:
        bound, units = self._limit(names), self.units
        if not self.visible:
            why = f"too few {units} to find a better limit"
            return f"{bound}: {why}; the owner may declare max_per_unit"
        some = "1 has" if self.above == 1 else f"{self.above:,} {units} have"
        most = f"at most about {some}" if self.above else "probably none have"
        clipped = f"{bound} (limit found by dpsql); {most} more"
        beside = _beside(self.side)
        if self.guess:
            why = f"a few {units} hold much of this. The owner may declare max_per_unit."
            return f"{clipped}, and the rest is missing{beside}. {_GUESSES[self.side]}: {why}"
        end = _COVERED.get(self.side, "the interval")
        covers = f"but {end} covers it" if self.covered else "and no ± covers it"
        return f"{clipped}: the rest is missing, {covers}{beside}"

    def _limit(self, names: str) -> str:
        """Return what a unit contributes at most, rounded up: rows to whole ones."""
        most, half = self._amount(self.most), self._amount(self.most / 2)
        per = _per(grouped=self.over_groups)
        each = f", or {half} in each of 4 groups" if self.over_groups and half != most else ""
        match self.what:
            case Contributed.UNITS | Contributed.ROWS | Contributed.DIFFERENT:
                thing = self.what.removesuffix("s")
                most = "less than 1" if self.most < 1 else f"at most {most}"
                things = thing if self.most <= 1 else f"{thing}s"
                return f"{self.units} count with {most} {things} each{per} in {names}{each}"
            case Contributed.VALUES:
                return f"{self.units} add at most {most} each to {names}{per}{each}"
            case _:
                return f"{self.units} add at most {most} each to {names}{per}{each}, in {self.what}"

    def _amount(self, value: float) -> str:
        if self.what in {Contributed.UNITS, Contributed.ROWS, Contributed.DIFFERENT}:
            return f"{ceil(value):,}"
        rounded = Context(prec=4, rounding=ROUND_CEILING).create_decimal(repr(value))
        return value_text(float(rounded))


@dataclass(frozen=True, slots=True)
class Listed(ColumnNotice):
    """A limit: only the `values` values that the policy declares count, of the key `name`, or of an
    argument (None). Where these are all values between two, they are the `ends`.
    """

    name: str | None
    values: int
    ends: Ends | None = None

    def sentence(self, names: str) -> str:
        if self.name is None:
            return f"values other than the {self.values:,} declared do not count in {names}"
        name = self.name or "value"
        if self.ends is not None:
            ends = " … ".join(exact_text(end).removesuffix(" 00:00:00") for end in self.ends)
            return f"rows with {name} outside {ends} are left out"
        return f"rows with another {name} than the {self.values:,} of the policy are left out"


@dataclass(frozen=True, slots=True)
class Assumed(ColumnNotice):
    """Numbers are made to agree under the assumption that a column has only its `values` declared
    values.
    """

    values: int

    template = "totals in {names} agree as if there were no values but the {self.values:,} declared"


@dataclass(frozen=True, slots=True)
class Hidden(ColumnNotice):
    """Groups of fewer units than about `least` are not released."""

    units: str
    least: int

    template = "groups of fewer than about {self.least:,} {self.units} are not shown"


@dataclass(frozen=True, slots=True)
class OfShown(ColumnNotice):
    """Numbers over several groups, of which some are not released because they are small."""

    template = (
        "{names}: over the groups that are shown; what others would change is unknown, and not in ±"
    )


@dataclass(frozen=True, slots=True)
class Empty(Notice):
    """The answer has no rows; groups smaller than `hidden` are not released (None: all are)."""

    hidden: Hidden | None

    def advice(self, door: Words | None) -> str:
        return f"; {_larger(door)} or coarser groups show more" if self.hidden else ""

    def sentence(self, names: str) -> str:
        if self.hidden is None:
            return "no rows: nothing that was released fulfils the conditions on it"
        return f"no rows: {self.hidden.sentence(names)}"


@dataclass(frozen=True, slots=True)
class Unclear(Notice):
    """A column where `unclear` of `numbers` numbers are at most their half-widths."""

    column: int
    unclear: int
    numbers: int

    @property
    def named_columns(self) -> tuple[int, ...]:
        return (self.column,)

    def advice(self, door: Words | None) -> str:
        return "" if door is None else f"; {door.plan} may show a better question"

    def sentence(self, names: str) -> str:
        unclear, numbers = self.unclear, self.numbers
        if unclear == numbers:
            what = f"{names} is" if numbers == 1 else f"all {numbers:,} numbers of {names} are"
        else:
            what = f"{unclear:,} of {numbers:,} numbers of {names} are"
        each = "its" if numbers == 1 else "their"
        return f"{what} no larger than {each} ±"


class RankedBy(StrEnum):
    """The measure by which a value is chosen among candidates."""

    RANK = "rank"
    END = "end"
    ROWS = "rows"


_RANKED = {
    RankedBy.RANK: (
        "{names} has no ± in values: it is at most {rows:,} row{s} from its place in the sorted "
        "rows (95 %)"
    ),
    RankedBy.END: (
        "in a group of more than {rows:,} row{s}, 1 to {rows:,} of them reach the value of {names}"
        " (95 %)"
    ),
    RankedBy.ROWS: "no value has {rows:,} row{s} more than that of {names} (95 %)",
}


@dataclass(frozen=True, slots=True)
class Ranked(Notice):
    """Values that are chosen by ranks, whose errors in values are unknown.

    With 95 %, a rank is off by at most `rows`, at most so many rows reach an extreme value, or no
    value has so many rows more than the most frequent one.
    """

    outputs: tuple[int, ...]
    by: RankedBy
    rows: int

    @property
    def named_columns(self) -> tuple[int, ...]:
        return self.outputs

    def sentence(self, names: str) -> str:
        return _RANKED[self.by].format(names=names, rows=self.rows, s="s" * (self.rows != 1))


@dataclass(frozen=True, slots=True)
class Drowned(Notice):
    """A useless answer where no number can be informative: each error is larger than all possible
    values.

    At most `most` units can be in a group, and the noise of the clearest number is that of `noise`
    units.
    """

    units: str
    most: int
    noise: float

    template = (
        "this cannot be useful: at most {self.most:,} of {self.units} can be counted, and the "
        "noise hides {self.noise:,.3g} or more"
    )

    def advice(self, door: Words | None) -> str:
        return f"; ask about more of them, or with {_larger(door)}"


@dataclass(frozen=True, slots=True)
class NeverShown(Notice):
    """A useless answer where no group can be released: it needs `least` units, and at most `most`
    can be in one.
    """

    units: str
    most: int
    least: int

    template = (
        "this cannot be useful: a group is shown from about {self.least:,} of {self.units} on, "
        "and at most {self.most:,} can be in one"
    )

    def advice(self, door: Words | None) -> str:
        return f"; ask about more of them, or with {_larger(door)}"


@dataclass(frozen=True, slots=True)
class TooFew(Notice):
    """A bound on a unit's contribution surely stands out for about `visible_from` similar units;
    there are at most `most`.
    """

    units: str
    visible_from: int
    most: int

    template = (
        "perhaps too few {self.units} to find how much one of them adds: {self.visible_from:,} "
        "are surely enough, and at most {self.most:,} can be counted; ask about more of them, or "
        "ask the owner to declare a limit (max_per_unit)"
    )


@dataclass(frozen=True, slots=True)
class CountedKeys(Notice):
    """The released groups of these private keys are counted, which are not all groups. Of `listed`
    keys those that surely have rows are groups for the aggregates above them.
    """

    keys: tuple[str, ...]
    listed: int | None = None

    def sentence(self, _names: str) -> str:
        listed = ", ".join(self.keys)
        if self.listed is not None:
            by = f" by {listed}" if listed else ""
            groups = f"those of {self.listed:,} groups{by} count that surely have rows"
            return f"{groups}; the interval covers the others, with and without rows"
        other = f"; COUNT(DISTINCT {listed}) tells, with a known error" * (len(self.keys) == 1)
        return f"how many {listed} are shown is not how many there are{other}"


@dataclass(frozen=True, slots=True)
class BoundsFound(Notice):
    """The bounds of a column that declares none were found by a private query."""

    table: str
    column: str
    lower: float
    upper: float

    template = (
        "The bounds [{self.lower:.10g}, {self.upper:.10g}] of {self.table}.{self.column} were "
        "found privately."
    )


@dataclass(frozen=True, slots=True)
class Unprotected(ColumnNotice):
    """People whom this column of a table names are not protected, as the owner declares."""

    table: str
    column: str

    template = "people whom {self.table}.{self.column} names are not protected from what this tells"


@dataclass(frozen=True, slots=True)
class RoundedTimes(Notice):
    """NOW() is read as `instant`, the last full `resolution` (None: the text does not use it).

    With `constants`, recent times in the text are rounded down in the same way.
    """

    resolution: Resolution
    instant: datetime | None
    constants: bool

    def sentence(self, _names: str) -> str:
        at = "" if self.instant is None else f"NOW() is {self.instant:%Y-%m-%d %H:%M} UTC"
        constants = f"times of the last days are those of the full {self.resolution}"
        read = [at] * bool(at) + [constants] * self.constants
        return f"{', and '.join(read)}: the same question until the next {self.resolution}"


LIMITS = Clipped | FewValues | Sampled | Scaled | SharedPresence
"""Notices about limits on what a unit contributes."""

Useless: TypeAlias = Drowned | NeverShown
"""Reasons why an answer cannot be useful, for any data."""


def marked(notices: tuple[Notice, ...]) -> frozenset[int]:
    """Return the places of the columns that any notice is about.

    >>> sorted(marked((Sampled((1, 2), "people", 5), Listed((0,), "city", 2))))
    [0, 1, 2]
    """
    return frozenset(place for notice in notices for place in notice.places)


def sides(notices: tuple[Notice, ...]) -> dict[int, CutSide]:
    """Return the side of the truth for each column that a notice is about.

    >>> scaled = Scaled((1,), "people", Contributed.ROWS, 12.0, 3, visible=True, side=CutSide.ABOVE)
    >>> {place: side.value for place, side in sides((scaled, Listed((0,), "city", 2))).items()}
    {1: '≥', 0: '*'}
    """
    by_column: dict[int, CutSide] = {}
    for notice in notices:
        own = notice.side if isinstance(notice, LIMITS) else CutSide.EITHER
        for place in notice.places:
            by_column[place] = own if by_column.get(place, own) is own else CutSide.EITHER
    return by_column


def useless(notices: tuple[Notice, ...]) -> Useless | None:
    """Return the notice that an answer cannot be useful, if there is one."""
    return next((n for n in notices if isinstance(n, Useless)), None)


def _uncovered(side: CutSide) -> str:
    """Return what a declared limit does to the interval, which covers noise alone."""
    return f"; how much that leaves out is unknown, and not in ±{_beside(side)}"


def _beside(side: CutSide) -> str:
    return "" if side is CutSide.EITHER else f" ({side})"


def _larger(door: Words | None) -> str:
    return "a larger ε" if door is None else f"a larger ε ({door.words()['by_epsilon']})"


def _per(*, grouped: bool) -> str:
    return " per group" if grouped else ""


def _some(count: int, thing: str) -> str:
    return f"{count:,} {thing}" if count == 1 else f"{count:,} {thing}s"
