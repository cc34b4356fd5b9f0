"""Answer → Chart: the drawn data and their form, independent of the output format.

Each measured column is a panel with its own scale. Its points stand over the keys: as lines for
times or numbers, else as bars. With several keys, the others define series. Two keys without a
line, or with too many lines, become the sides of a heat map. Whiskers are the 95 % intervals.
Titles have the marks of notices, whose sentences stand below.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date, datetime, time, timedelta
from enum import StrEnum
from math import ceil, floor, isnan, log10
from typing import Any

from dpsql.interfaces.messages import printable
from dpsql.interfaces.sentences import footnotes
from dpsql.interfaces.tables import MARK, number_and_interval
from dpsql.model.dataclass import dataclass, replace
from dpsql.model.interval_ends import Half
from dpsql.model.notices import sides
from dpsql.model.value_texts import exact_text
from dpsql.model.vocabulary import Answer

MOST_POINTS = 1_000
"""Maximum number of points of a picture."""
MOST_SERIES = 8
CUT_AXIS = "the scale does not start at zero"
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
    """A value and the half width of its 95 % interval: None is exact, NaN unknown.

    `around` is the text of the interval. Where one side reaches farther, `halves` has both.
    """

    value: float
    margin: float | None
    number: str
    around: str
    halves: Half = None

    @property
    def text(self) -> str:
        """Text of the value and its interval."""
        return f"{self.number} {self.around}".strip()

    @property
    def is_hidden(self) -> bool:
        """True if the value is at most its margin."""
        return self.margin is not None and not abs(self.value) > self.margin

    @property
    def low(self) -> float:
        return self.value - (self.reach if self.halves is None else self.halves[0])

    @property
    def high(self) -> float:
        return self.value + (self.reach if self.halves is None else self.halves[1])

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
    """One measured column over the keys. `places` are the positions of labels along a line, and
    `axis` names the keys.
    """

    title: str
    shape: ChartShape
    labels: tuple[str, ...]
    places: tuple[float, ...]
    series: tuple[Series, ...]
    axis: str = ""

    @property
    def is_cut(self) -> bool:
        """Test whether the scale leaves zero out."""
        low, high = self.ends
        return not low <= 0 <= high

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
        return max(points, key=lambda point: point.reach).around.removeprefix("± ")


def plain_panel(
    shape: ChartShape,
    title: str,
    labels: Sequence[str],
    named: Mapping[str, Sequence[float | None]],
    places: Sequence[float] = (),
) -> Panel:
    """Return numbers without intervals; those that are not finite are left out."""
    series = tuple(Series(name, tuple(map(_plain_point, each))) for name, each in named.items())
    return Panel(title, shape, tuple(labels), tuple(places or range(len(labels))), series)


def _plain_point(value: float | None) -> Point | None:
    is_drawn = value is not None and abs(value) <= LARGEST
    return Point(value, None, f"{value:.3g}", "") if value is not None and is_drawn else None


@dataclass(frozen=True, slots=True)
class Chart:
    """All panels of an answer, the number of rows left out, and notices."""

    panels: tuple[Panel, ...]
    left_out: int = 0
    notes: tuple[str, ...] = ()


def chart_of(answer: Answer) -> Chart:
    """Return the chart of an answer, without panels if it has no number."""
    rows = answer.rows[:MOST_POINTS]
    margins = answer.margins[:MOST_POINTS]
    nothing: tuple[Half, ...] = (None,) * len(answer.columns)
    halves = [both or nothing for both in answer.halves[:MOST_POINTS] or [None] * len(rows)]
    measured = _measured(answer, margins) if rows else []
    keys = [n for n in range(len(answer.columns)) if n not in measured]
    over = _over(keys, rows)
    every = list(zip(rows, margins, halves, strict=True))
    cells = {n: [(row[n], margin[n], half[n]) for row, margin, half in every] for n in measured}
    axis = ", ".join(printable(answer.columns[n].name) for n in keys)
    drawn = (_panel(answer, n, over, cells[n]) for n in measured)
    panels = tuple(replace(panel, axis=axis) for panel in drawn if panel is not None)
    placed = sum(min(place) >= 0 for place in over.cells)
    notes = tuple(f"{MARK} {note}" for note in footnotes(answer)) if panels else ()
    return Chart(panels, len(answer.rows) - placed, notes)


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
    return _Over(ChartShape.LINES, _labels(stops), places, series[:MOST_SERIES], cells)


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
    return _Over(ChartShape.HEAT, _labels(stops), places, _labels(names), tuple(cells))


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
    answer: Answer, place: int, over: _Over, cells: Sequence[tuple[Any, float | None, Half]]
) -> Panel | None:
    """Return the panel of a column; None if it has no number."""
    column = answer.columns[place]
    grid: list[list[Point | None]] = [[None] * len(over.labels) for _ in over.series]
    for (stop, line), (value, margin, half) in zip(over.cells, cells, strict=True):
        point = _point(value, margin, half, column.type.scale or None)
        if point is not None and stop >= 0 and line >= 0:
            grid[line][stop] = point
    if not any(point for line in grid for point in line):
        return None
    series = tuple(Series(name, tuple(line)) for name, line in zip(over.series, grid, strict=True))
    side = sides(answer.notices).get(place)
    title = printable(column.name if side is None else f"{column.name} {side}")
    return Panel(title, over.shape, over.labels, over.places, series)


def _point(value: Any, margin: float | None, half: Half, scale: int | None) -> Point | None:
    size = value.total_seconds() if isinstance(value, timedelta) else value
    if size is None or not abs(size) <= LARGEST:  # NaN is not
        return None
    drawn = half is not None and max(half) <= LARGEST
    number, interval = number_and_interval(value, margin, half, scale)
    return Point(float(size), margin, number, interval, half if drawn else None)


def _label(value: Any) -> str:
    return printable(exact_text(value))


def _labels(values: Sequence[Any]) -> tuple[str, ...]:
    """Return labels of keys: days of times at midnight, and months if all are the first of one.

    >>> _labels([datetime(2024, 1, 1), datetime(2024, 2, 1)])
    ('2024-01', '2024-02')
    """
    times = [value for value in values if isinstance(value, date)]
    if len(times) < 2 or any(isinstance(t, datetime) and t.time() != time() for t in times):  # noqa: PLR2004
        return tuple(map(_label, values))
    form = "%Y-%m" if all(t.day == 1 for t in times) else "%Y-%m-%d"
    return tuple(f"{v:{form}}" if isinstance(v, date) else _label(v) for v in values)


def short_number(value: float) -> str:
    """Return a number in at most five characters, where its size allows.

    >>> short_number(1234567.0), short_number(-4321.0), short_number(12.0)
    ('1.23M', '-4.32k', '12')
    """
    for size, letter in ((1e12, "T"), (1e9, "B"), (1e6, "M"), (1e3, "k")):
        if size <= abs(value) < 1000 * size:
            return f"{value / size:.3g}{letter}"
    return f"{value:.3g}"


def is_unclear(point: Point) -> bool:
    """Test whether the error of a point is unknown."""
    return point.margin is not None and isnan(point.margin)


def ticks(low: float, high: float) -> list[float]:
    """Return about five round numbers from `low` to `high`.

    >>> ticks(0, 97)
    [0.0, 20.0, 40.0, 60.0, 80.0]
    """
    rough = (high - low) / 5
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
