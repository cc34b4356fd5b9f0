"""Generalisation of columns in a masked table: clipping, steps, prefixes, or removal.

Everything is an option of the owner; nothing depends on the data.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal, InvalidOperation
from enum import StrEnum
from typing import NoReturn, TypeAlias, assert_never

from dpsql.model.dataclass import dataclass, replace
from dpsql.model.errors import Reason, Refused
from dpsql.model.tree import Kind
from dpsql.model.vocabulary import ColumnPolicy

DOUBLINGS = 3
"""Number of further levels, each twice as coarse."""


class Period(StrEnum):
    """Periods to round dates and times down to, from fine to coarse."""

    DAY = "day"
    MONTH = "month"
    QUARTER = "quarter"
    YEAR = "year"
    DECADE = "decade"
    CENTURY = "century"


@dataclass(frozen=True, slots=True)
class StepWidth:
    """Generalisation of a number to a step of this width."""

    width: Decimal


@dataclass(frozen=True, slots=True)
class PrefixLength:
    """Generalisation of a text to its first characters."""

    length: int


Coarseness: TypeAlias = StepWidth | PrefixLength | Period


@dataclass(frozen=True, slots=True)
class Coarsened:
    """Generalisation of one column: clipped to `clip`, then rounded to `coarseness`."""

    clip: tuple[Decimal, Decimal] | None = None
    coarseness: Coarseness | None = None

    def sql(self, column: str, *, shifted: bool = False) -> str:
        r"""Return SQL for the published value of a column. `shifted` steps begin half a step
        later.

        >>> Coarsened(coarseness=Period.YEAR).sql('"born"')
        'DATE_TRUNC(\'year\', "born")'
        """
        value = column
        if self.clip is not None:  # NULL stays NULL, which LEAST would not let it
            low, high = map(_number, self.clip)
            value = f"CASE WHEN {column} < {low} THEN {low} WHEN {column} > {high} THEN {high}"
            value += f" ELSE CAST({column} AS DOUBLE) END"
        match self.coarseness:
            case None:
                return value
            case StepWidth(width):
                later = f" + {_number(width / 2)}" if shifted else ""
                return f"FLOOR((CAST({value} AS DOUBLE){later}) / {_number(width)})"
            case PrefixLength(length):
                return f"SUBSTRING({value}, 1, {length})"
            case Period() as period:
                return f"DATE_TRUNC('{period}', {value})"
            case _:
                assert_never(self.coarseness)


def _number(value: Decimal) -> str:
    return f"CAST('{value:f}' AS DOUBLE)"


@dataclass(frozen=True, slots=True)
class GeneralisationLevel:
    """One way to publish columns. Columns in `without` are left out; others stay as they are.

    `named` marks the level that the owner's options describe. Coarser levels follow it.
    """

    title: str
    columns: Mapping[str, Coarsened]
    without: frozenset[str] = frozenset()
    named: bool = False


def generalised(column: ColumnPolicy, text: str) -> Coarseness:
    """Parse `--generalise COLUMN=TEXT` for the type of the column. Raises `Refused`.

    >>> from dpsql.model.tree import INTEGER, VARCHAR
    >>> generalised(ColumnPolicy("age", INTEGER), "10")
    StepWidth(width=Decimal('10'))
    >>> generalised(ColumnPolicy("zip", VARCHAR), "2")
    PrefixLength(length=2)
    """
    kind = column.type
    if kind.is_numeric:
        width = _decimal(text)
        if width is None or width <= 0:
            _refuse("generalise", f"{column.name} is a number and needs the width of a step")
        return StepWidth(width)
    if kind.kind is Kind.VARCHAR:
        if not (text.isascii() and text.isdecimal() and 0 < int(text[:9]) == int(text)):
            _refuse("generalise", f"{column.name} is a text and needs how many characters stay")
        return PrefixLength(int(text))
    if kind.is_temporal:
        if text not in {period.value for period in Period}:
            _refuse("generalise", f"{column.name} needs one of {', '.join(Period)}")
        return Period(text)
    return _refuse("generalise", f"{column.name} has type {kind}, which has nothing coarser")


def clipped(column: ColumnPolicy, text: str) -> tuple[Decimal, Decimal]:
    """Parse `--clip COLUMN=LOW:HIGH`. Raises `Refused`."""
    low, _, high = text.partition(":")
    ends = _decimal(low), _decimal(high)
    if not column.type.is_numeric or ends[0] is None or ends[1] is None or ends[0] > ends[1]:
        _refuse("clip", f"{column.name} needs LOW:HIGH, and to be a number")
    return ends[0], ends[1]


def _decimal(text: str) -> Decimal | None:
    """Parse a finite number of moderate size, or return None."""
    try:
        value = Decimal(text)
    except InvalidOperation:
        return None
    return value if value.is_finite() and abs(value.adjusted()) < 20 else None  # noqa: PLR2004


def _refuse(option: str, why: str) -> NoReturn:
    raise Refused(Reason.BAD_OPTION, option=option, why=why)


def levels(
    clips: Mapping[str, tuple[Decimal, Decimal]], coarse: Mapping[str, Coarseness]
) -> list[GeneralisationLevel]:
    """Return the levels: options added one by one, then coarser levels, then without the
    columns.

    >>> ladder = levels({}, {"age": StepWidth(Decimal(10)), "zip": PrefixLength(2)})
    >>> [level.title for level in ladder][:4]
    ['as it is', 'age in steps of 10', 'and zip to 2 characters', '2 times as coarse']
    >>> [level.title for level in ladder][-1]
    'without age, zip'
    """
    columns: dict[str, Coarsened] = {}
    ladder = [GeneralisationLevel("as it is", {})]
    for name, (low, high) in clips.items():
        columns = {**columns, name: Coarsened((low, high))}
        ladder.append(GeneralisationLevel(_and(ladder, f"{name} in {low:f} to {high:f}"), columns))
    for name, coarseness in coarse.items():
        columns = {**columns, name: replace(columns.get(name, Coarsened()), coarseness=coarseness)}
        title = _and(ladder, f"{name} {words(coarseness)}")
        ladder.append(GeneralisationLevel(title, columns))
    if len(ladder) == 1:
        return ladder
    ladder[-1] = replace(ladder[-1], named=True)
    return [*ladder, *_coarser(columns, coarse), _without(columns)]


def _and(ladder: Sequence[GeneralisationLevel], title: str) -> str:
    return f"and {title}" if len(ladder) > 1 else title


def words(coarseness: Coarseness) -> str:
    """Return words for the generalisation of a column, to follow its name."""
    match coarseness:
        case StepWidth(width):
            return f"in steps of {width:f}"
        case PrefixLength(length):
            return f"to {length} characters"
        case Period() as period:
            return f"by {period}"
        case _:
            assert_never(coarseness)


def _coarser(
    columns: Mapping[str, Coarsened], coarse: Mapping[str, Coarseness]
) -> list[GeneralisationLevel]:
    result, left = list[GeneralisationLevel](), dict[str, Coarseness | None](coarse)
    for doubling in range(1, DOUBLINGS + 1 if coarse else 1):
        left = {name: None if c is None else _doubled(c) for name, c in left.items()}
        published = {
            name: replace(each, coarseness=left.get(name)) for name, each in columns.items()
        }
        without = frozenset(name for name, coarseness in left.items() if coarseness is None)
        title = f"{2**doubling} times as coarse"
        result.append(GeneralisationLevel(title, published, without))
    return result


def _doubled(coarseness: Coarseness) -> Coarseness | None:
    """Return twice the coarseness or the next period; None if nothing remains."""
    match coarseness:
        case StepWidth(width):
            return StepWidth(2 * width)
        case PrefixLength(length):
            return PrefixLength(length // 2) if length > 1 else None
        case Period() as period:
            later = list(Period)[list(Period).index(period) + 1 :]
            return later[0] if later else None
        case _:
            assert_never(coarseness)


def _without(columns: Mapping[str, Coarsened]) -> GeneralisationLevel:
    return GeneralisationLevel(f"without {', '.join(columns)}", {}, frozenset(columns))
