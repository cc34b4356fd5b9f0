"""A chart as lines of text: bars with whiskers, and lines as columns of dots, in any width."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import accumulate

from dpsql.interfaces.messages import width
from dpsql.interfaces.pictures import charts
from dpsql.interfaces.tables import shortened
from dpsql.model.vocabulary import Answer

WIDTH = 80
MOST_BARS = 40
_LEAST_BAR = 10
_LONGEST_LABEL = 24
_LONGEST_HEAD = 14
_HEIGHT = 12
_EIGHTHS = " ▏▎▍▌▋▊▉█"
_MARKS = "●◆▲■○◇△□"


def picture(answer: Answer, room: int | None = None) -> str:
    """Return the numbers of an answer with their errors, in lines of at most `room` cells."""
    return in_lines(charts.chart_of(answer), room)


def in_lines(chart: charts.Chart, room: int | None = None) -> str:
    """Return a chart in lines of at most `room` cells."""
    lines = [] if chart.panels else [charts.NOTHING]
    for panel in chart.panels:
        lines += [""] if lines else []
        lines += _DRAWN[panel.shape](panel, room or WIDTH)
    if chart.panels and chart.left_out:
        lines.append(f"{chart.left_out:,} more rows are not drawn")
    return "".join(f"{line.rstrip()}\n" for line in lines)


def _bars(panel: charts.Panel, room: int) -> Iterator[str]:
    """Yield a line for each label: its bar, with whiskers over it."""
    (series,) = panel.series
    pairs = list(zip(panel.labels, series.points, strict=True))
    shown = pairs[:MOST_BARS]
    longest = min(_LONGEST_LABEL, max(1, room // 3))
    labels = [shortened(label, longest) for label, _ in shown]
    texts = ["NULL" if point is None else point.text for _, point in shown]
    left, right = max(map(width, labels)), max(map(width, texts))
    cells = max(_LEAST_BAR, room - left - right - 2)
    low, high = panel.ends
    yield panel.title
    for label, text, (_, point) in zip(labels, texts, shown, strict=True):
        bar = "" if point is None else _bar(point, low, high, cells)
        blank = " " * (left - width(label))
        yield f"{label}{blank} {bar.ljust(cells)} {text.rjust(right)}"
    if len(pairs) > len(shown):
        yield f"{len(pairs) - len(shown):,} more bars are not drawn"


def _bar(point: charts.Point, low: float, high: float, cells: int) -> str:
    """Return the bar from zero to the value, in eighths of a cell, with whiskers over it."""
    extent = high - low  # may be so small that its inverse is infinite
    start, stop = sorted(((0.0 - low) / extent * cells, (point.value - low) / extent * cells))
    bar = [_filled(cell, start, stop) for cell in range(cells)]
    if point.reach > 0:
        first = min(cells - 1, max(0, int((point.low - low) / extent * cells)))
        last = min(cells - 1, max(0, int((point.high - low) / extent * cells)))
        for cell in range(first, last + 1):
            bar[cell] = "─"
        bar[first], bar[last] = "├", "┤"
        middle = min(cells - 1, max(0, int((point.value - low) / extent * cells)))
        if first < middle < last or first == last:
            bar[middle] = "┼"
    return "".join(bar)


def _filled(cell: int, start: float, stop: float) -> str:
    """Return the character for a cell of a bar. Partial blocks exist only at the left of a cell."""
    if cell + 1 <= start or cell >= stop:
        return " "
    if start > cell:
        return "▐" if start - cell < 0.75 else " "  # noqa: PLR2004 - more than a quarter is seen
    return _EIGHTHS[min(8, max(1, round((stop - cell) * 8)))]


def _line(panel: charts.Panel, room: int) -> Iterator[str]:
    """Yield a field of dots with whiskers, with a scale at the left and the ends of the axis
    below.
    """
    low, high = panel.ends
    marks = {place: charts.tick_text(place, high - low) for place in charts.ticks(low, high)}
    left = max((width(text) for text in marks.values()), default=0)
    cells = max(_LEAST_BAR, room - left - 2)
    field = [[" "] * cells for _ in range(_HEIGHT)]
    for mark, series in zip(_MARKS, panel.series, strict=False):
        _dots(field, panel, series, mark)
    rows = {_row(place, low, high): text for place, text in marks.items()}
    yield f"{panel.title} ({charts.CUT_AXIS})" if panel.is_cut else panel.title
    for n, line in enumerate(field):
        yield f"{rows.get(n, '').rjust(left)} ┤{''.join(line)}"
    yield f"{' ' * left} └{'─' * cells}"
    first, last = panel.labels[0], panel.labels[-1]
    gap = max(1, cells - width(first) - width(last))
    axis = panel.axis if width(panel.axis) < gap else ""
    yield f"{' ' * left}  {first}{axis.center(gap)}{last}"
    if len(panel.series) > 1:
        named = zip(_MARKS, panel.series, strict=False)
        yield " ".join(f"{mark} {series.name}" for mark, series in named)


def _dots(field: list[list[str]], panel: charts.Panel, series: charts.Series, mark: str) -> None:
    """Draw a series: first all whiskers, so that none covers a dot."""
    low, high = panel.ends
    cells = len(field[0])
    least, most = panel.places[0], panel.places[-1]
    span = (most - least) or 1.0
    columns = [round((place - least) / span * (cells - 1)) for place in panel.places]
    points = [(c, p) for c, p in zip(columns, series.points, strict=True) if p is not None]
    for column, point in points:
        if point.reach > 0:
            for row in range(_row(point.high, low, high), _row(point.low, low, high) + 1):
                if field[row][column] == " ":
                    field[row][column] = "│"
    for column, point in points:
        field[_row(point.value, low, high)][column] = "?" if charts.is_unclear(point) else mark


def _row(value: float, low: float, high: float) -> int:
    """Return the line of a value, from the top."""
    return min(_HEIGHT - 1, max(0, round((high - value) / (high - low) * (_HEIGHT - 1))))


def _heat(panel: charts.Panel, room: int) -> Iterator[str]:
    """Yield a field of numbers, each after a shade: larger values are darker."""
    longest = min(_LONGEST_LABEL, max(1, room // 3))
    names = [shortened(each.name, longest) for each in panel.series]
    left = max(map(width, names))
    numbers = [["" if p is None else p.number for p in each.points] for each in panel.series]
    wide = [
        max(len(_BLANK) + 1 + max(map(width, texts)), min(_LONGEST_HEAD, width(label)))
        for label, *texts in zip(panel.labels, *numbers, strict=True)
    ]
    shown = max(1, sum(end <= room - left for end in accumulate(cells + 2 for cells in wide)))
    heads = (shortened(a, w).rjust(w) for a, w in zip(panel.labels, wide[:shown], strict=False))
    yield panel.title
    yield f"{' ' * left}  {'  '.join(heads)}"
    for name, series, line in zip(names, panel.series, numbers, strict=True):
        points = zip(series.points, line, wide[:shown], strict=False)
        row = (f"{_shade(panel, p)} {text.rjust(w - len(_BLANK) - 1)}" for p, text, w in points)
        yield f"{name}{' ' * (left - width(name))}  {'  '.join(row)}"
    if len(panel.labels) > shown:
        yield f"{len(panel.labels) - shown:,} more columns are not drawn"
    if margin := panel.largest_margin:
        yield f"at most ± {margin}; {_DROWNED} is no larger than its ±"


_BLANK, _DROWNED, _UNCLEAR = "  ", "··", "??"
_SHADES = "░▒▓█"


def _shade(panel: charts.Panel, point: charts.Point | None) -> str:
    if point is None:
        return _BLANK
    if charts.is_unclear(point):
        return _UNCLEAR
    if point.is_hidden:
        return _DROWNED
    return _SHADES[min(3, int(4 * panel.share(point)))] * len(_BLANK)


_DRAWN = {
    charts.ChartShape.BARS: _bars,
    charts.ChartShape.LINES: _line,
    charts.ChartShape.HEAT: _heat,
}
