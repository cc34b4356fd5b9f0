"""Answer → Chart: the drawn data and their form, independent of the output format.

Each measured column is a panel with its own scale. Its points stand over the keys: as lines for
times or numbers, else as bars. With several keys, the others define series. Two keys without a
line, or with too many lines, become the sides of a heat map. Whiskers are the 95 % margins.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date, datetime, timedelta
from enum import StrEnum
from math import ceil, floor, isnan, log10
from typing import Any

from dpsql.interfaces.amounts import exact_text, number_text
from dpsql.interfaces.messages import printable
from dpsql.model.dataclass import dataclass
from dpsql.model.vocabulary import Answer

MOST_POINTS = 1_000
"""Maximum number of points of a picture."""
MOST_SERIES = 8
NOTHING = "There is no number to draw."
LARGEST = 1e300
"""Values or margins larger than this are not drawn."""
_FEWEST_IN_A_LINE = 3


class ChartShape(StrEnum):
    """Forms of a panel."""

    BARS = "bars"
    LINES = "lines"
    HEAT = "heat"


@dataclass(frozen=True, slots=True)
class Point:
    """A value and the half width of its 95 % interval: None is exact, NaN unknown."""

    value: float
    margin: float | None
    text: str

    @property
    def number(self) -> str:
        """Text of the value without its margin."""
        return self.text.partition(" ± ")[0]

    @property
    def is_hidden(self) -> bool:
        """True if the value is at most its margin."""
        return self.margin is not None and not abs(self.value) > self.margin

    @property
    def low(self) -> float:
        return self.value - self.reach

    @property
    def high(self) -> float:
        return self.value + self.reach

    @property
    def reach(self) -> float:
        """Length of the whiskers."""
        is_drawn = self.margin is not None and abs(self.margin) <= LARGEST
        return self.margin if self.margin is not None and is_drawn else 0.0


@dataclass(frozen=True, slots=True)
class Series:
    """Points over the labels of a panel; None for missing ones."""

    name: str
    points: tuple[Point | None, ...]


@dataclass(frozen=True, slots=True)
class Panel:
    """One measured column over the keys. `places` are the positions of labels along a line."""

    title: str
    shape: ChartShape
    labels: tuple[str, ...]
    places: tuple[float, ...]
    series: tuple[Series, ...]

    @property
    def ends(self) -> tuple[float, float]:
        """Minimum and maximum of the drawn values; for bars, zero is included."""
        points = [p for each in self.series for p in each.points if p is not None]
        ends = [end for p in points for end in (p.low, p.high)]
        ends += [0.0] if self.shape is not ChartShape.LINES or not ends else []
        low, high = min(ends), max(ends)
        return (low, high) if low < high else (low, low + 1.0)

    def share(self, point: Point) -> float:
        """Return the size of a value relative to the largest of the panel, from 0 to 1."""
        most = max(abs(p.value) for each in self.series for p in each.points if p is not None)
        return abs(point.value) / most if most else 0.0

    @property
    def largest_margin(self) -> str:
        """Text of the largest margin; empty if none is known."""
        points = [p for each in self.series for p in each.points if p is not None and p.reach > 0]
        if not points:
            return ""
        return max(points, key=lambda point: point.reach).text.partition(" ± ")[2]


@dataclass(frozen=True, slots=True)
class Chart:
    """All panels of an answer, the label of the axis, and the number of rows left out."""

    axis: str
    panels: tuple[Panel, ...]
    left_out: int = 0


def chart_of(answer: Answer) -> Chart:
    """Return the chart of an answer, without panels if it has no number."""
    rows = answer.rows[:MOST_POINTS]
    margins = answer.margins[:MOST_POINTS]
    measured = _measured(answer, margins) if rows else []
    keys = [n for n in range(len(answer.columns)) if n not in measured]
    over = _over(keys, rows)
    cells = {n: [(r[n], m[n]) for r, m in zip(rows, margins, strict=True)] for n in measured}
    panels = tuple(p for n in measured if (p := _panel(answer, n, over, cells[n])) is not None)
    axis = ", ".join(printable(answer.columns[n].name) for n in keys)
    placed = sum(min(place) >= 0 for place in over.cells)
    return Chart(axis, panels, len(answer.rows) - placed)


def _measured(answer: Answer, margins: Sequence[tuple[float | None, ...]]) -> list[int]:
    """Return the drawn columns: noisy ones, else all numbers after the first column."""
    numbers = [n for n, column in enumerate(answer.columns) if column.type.is_measured]
    noisy = [n for n in numbers if any(row[n] is not None for row in margins)]
    if noisy:
        return noisy
    behind = [n for n in numbers if n > 0]
    return behind or numbers


@dataclass(frozen=True, slots=True)
class _Over:
    """Position of each row: its label, and its series."""

    shape: ChartShape
    labels: tuple[str, ...]
    places: tuple[float, ...]
    series: tuple[str, ...]
    cells: tuple[tuple[int, int], ...]


def _over(keys: Sequence[int], rows: Sequence[Sequence[Any]]) -> _Over:
    """Return the positions of rows by their keys. Rows without keys are numbered."""
    if not keys:
        labels = tuple(str(n) for n, _ in enumerate(rows, 1)) if len(rows) > 1 else ("",)
        cells = tuple((n, 0) for n, _ in enumerate(labels))
        return _Over(ChartShape.BARS, labels, tuple(map(float, range(len(labels)))), ("",), cells)
    along = next((k for k in keys if _steps([row[k] for row in rows])), None)
    if len(keys) == 2 and (heat := _heat(keys, along, rows)) is not None:  # noqa: PLR2004 - sides
        return heat
    if along is None:
        labels = tuple(", ".join(_label(row[k]) for k in keys) for row in rows)
        cells = tuple((n, 0) for n, _ in enumerate(rows))
        return _Over(ChartShape.BARS, labels, tuple(map(float, range(len(rows)))), ("",), cells)
    others = [k for k in keys if k != along]
    names = [", ".join(_label(row[k]) for k in others) for row in rows]
    series = tuple(dict.fromkeys(names))
    stops = sorted({row[along] for row in rows if row[along] is not None})
    drawn = {name: n for n, name in enumerate(series[:MOST_SERIES])}
    index = {stop: n for n, stop in enumerate(stops)}
    cells = tuple(
        (index.get(row[along], -1), drawn.get(name, -1))
        for row, name in zip(rows, names, strict=True)
    )
    places = tuple(map(_position, stops))
    return _Over(ChartShape.LINES, tuple(map(_label, stops)), places, series[:MOST_SERIES], cells)


def _heat(keys: Sequence[int], along: int | None, rows: Sequence[Sequence[Any]]) -> _Over | None:
    """Return the positions of rows in a heat map of two keys; None if another form is better."""
    down, across = sorted(keys, key=lambda key: key == along)
    names, stops = (list(dict.fromkeys(row[k] for row in rows)) for k in (down, across))
    if along is not None:
        stops.sort(key=lambda stop: (stop is None, _position(stop) if stop is not None else 0.0))
    lines = along is not None and len(names) <= MOST_SERIES
    cells = [(stops.index(row[across]), names.index(row[down])) for row in rows]
    is_field = min(len(names), len(stops)) > 1 and 2 * len(rows) >= len(names) * len(stops)
    if lines or not is_field or len(set(cells)) < len(cells):
        return None
    places = tuple(map(float, range(len(stops))))
    sides = tuple(map(_label, stops)), places, tuple(map(_label, names))
    return _Over(ChartShape.HEAT, *sides, tuple(cells))


def _steps(values: list[Any]) -> bool:
    """Test whether values are times or numbers, and enough of them for a line."""
    present = {value for value in values if value is not None}
    kinds = {type(value) for value in present}
    alike = kinds <= {int, float} or kinds in ({date}, {datetime})
    drawn = all(abs(v) <= LARGEST for v in present if isinstance(v, float))
    return alike and drawn and len(present) >= _FEWEST_IN_A_LINE


def _position(value: Any) -> float:
    """Return the position of a key along a line: days of a time, or the number itself."""
    if isinstance(value, datetime):
        since = datetime(1970, 1, 1, tzinfo=value.tzinfo)  # of a time without a zone too
        return (value - since) / timedelta(days=1)
    return float(value.toordinal()) if isinstance(value, date) else float(value)


def _panel(
    answer: Answer, place: int, over: _Over, cells: Sequence[tuple[Any, float | None]]
) -> Panel | None:
    """Return the panel of a column; None if it has no number."""
    column = answer.columns[place]
    grid: list[list[Point | None]] = [[None] * len(over.labels) for _ in over.series]
    for (stop, line), (value, margin) in zip(over.cells, cells, strict=True):
        point = _point(value, margin, column.type.scale or None)
        if point is not None and stop >= 0 and line >= 0:
            grid[line][stop] = point
    if not any(point for line in grid for point in line):
        return None
    series = tuple(Series(name, tuple(line)) for name, line in zip(over.series, grid, strict=True))
    return Panel(printable(column.name), over.shape, over.labels, over.places, series)


def _point(value: Any, margin: float | None, scale: int | None) -> Point | None:
    size = value.total_seconds() if isinstance(value, timedelta) else value
    if size is None or not abs(size) <= LARGEST:  # NaN is not
        return None
    shown, around = number_text(value, margin, scale)
    text = f"{shown} ± {around}" if around else shown
    return Point(float(size), margin, text)


def _label(value: Any) -> str:
    return printable(exact_text(value))


def is_unclear(point: Point) -> bool:
    """Test whether the error of a point is unknown."""
    return point.margin is not None and isnan(point.margin)


def ticks(low: float, high: float, most: int = 5) -> list[float]:
    """Return about `most` round numbers from `low` to `high`.

    >>> ticks(0, 97)
    [0.0, 20.0, 40.0, 60.0, 80.0]
    """
    rough = (high - low) / max(1, most)
    if rough < 1 / LARGEST:
        return [low]
    size = 10.0 ** floor(log10(rough))
    step = next((size * n for n in (1, 2, 5) if size * n >= rough), 10 * size)
    first = ceil(low / step)
    return [n * step for n in range(first, floor(high / step) + 1)]


def tick_text(value: float, span: float) -> str:
    """Return the text of a number on a scale of this span, with the digits that it needs.

    >>> tick_text(1500.0, 2000.0), tick_text(0.25, 1.0)
    ('1,500', '0.25')
    """
    return f"{value:,.0f}" if span >= 5 else f"{value:,.3g}"  # noqa: PLR2004 - steps of one
