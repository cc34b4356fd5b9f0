"""A chart as SVG 1.1: the same bytes for the same answer, without external resources.

Every text is escaped, so that no value is markup: SECURITY.md S21.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from html import escape
from itertools import pairwise
from textwrap import wrap

from dpsql.interfaces.messages import width
from dpsql.interfaces.pictures import charts
from dpsql.interfaces.tables import shortened

WIDTH = 720
_LETTER, _LINE = 7.8, 18.0
"""Approximate width of a letter at 12 px, and height of a line of text."""
_BAR, _GAP = 16.0, 8.0
_FIELD = 240.0
_LONGEST_LABEL, _LONGEST_NOTE = 28, 100
_COLORS = ("#33658a", "#c8553d", "#588157", "#8a5a83", "#b08900", "#4a7c86", "#7a6c5d", "#a23b72")
STYLE = (
    "text{font:12px system-ui,sans-serif;fill:#222}.title{font-weight:600}.dim{fill:#666}"
    ".grid{stroke:#ddd}.axis{stroke:#888}.whisker{stroke:#222;stroke-width:1.4}"
    "@media(prefers-color-scheme:dark){text{fill:#eee}.dim{fill:#aaa}.grid{stroke:#444}"
    ".whisker{stroke:#eee}}"
)


def svg(chart: charts.Chart) -> str:
    """Return the whole picture."""
    parts: list[str] = []
    y = 4.0
    for panel in chart.panels:
        match panel.shape:
            case charts.ChartShape.BARS:
                lines, height = _bars(panel, y)
            case charts.ChartShape.LINES:
                lines, height = _lines(panel, y)
            case charts.ChartShape.HEAT:
                lines, height = _heat(panel, y)
        parts += lines
        y += height + _LINE
    if chart.left_out:
        parts.append(_text(0, y, f"{chart.left_out:,} more rows are not drawn", "dim"))
        y += _LINE
    for line in (each for note in chart.notes for each in wrap(note, _LONGEST_NOTE)):
        parts.append(_text(0, y, line, "dim"))
        y += _LINE
    if not chart.panels:
        parts.append(_text(0, y + _LINE, charts.NOTHING, "dim"))
        y += 2 * _LINE
    has_whiskers = any(panel.largest_margin for panel in chart.panels)
    whiskers = " with whiskers of 95 % intervals" if has_whiskers else ""
    about = escape(f"A chart{whiskers}")
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {_n(y)}" '
        f'width="{WIDTH}" height="{_n(y)}" role="img" aria-label="{about}">'
    )
    return "\n".join([head, f"<style>{STYLE}</style>", *parts, "</svg>\n"])


def _bars(panel: charts.Panel, top: float) -> tuple[list[str], float]:
    """Draw a row for each label: the label, the bar with whiskers, the number."""
    (series,) = panel.series
    labels = [shortened(label, _LONGEST_LABEL) for label in panel.labels]
    texts = ["NULL" if p is None else p.text for p in series.points]
    left = max(map(width, labels)) * _LETTER + 14
    right = WIDTH - max(map(width, texts)) * _LETTER - 12
    low, high = panel.ends
    scale = (right - left) / (high - low)
    zero = left + (0.0 - low) * scale
    lines = [_text(0, top + 12, panel.title, "title")]
    y = top + _LINE + _GAP
    for label, text, point in zip(labels, texts, series.points, strict=True):
        middle = y + _BAR / 2
        lines.append(_text(left - 8, middle + 4, label, anchor="end"))
        if point is not None:
            end = left + (point.value - low) * scale
            first, last = sorted((zero, end))
            lines.append(_box(first, y, last - first, _BAR, _COLORS[0]))
            lines += _whisker(point, lambda v: left + (v - low) * scale, middle, upright=False)
        lines.append(_text(WIDTH, middle + 4, text, anchor="end"))
        y += _BAR + _GAP
    lines.append(_stroke(zero, top + _LINE + _GAP / 2, zero, y - _GAP / 2, "axis"))
    return lines, y - top


def _heat(panel: charts.Panel, top: float) -> tuple[list[str], float]:
    """Draw a heat map: larger values are darker, and values within their margin are empty."""
    names = [shortened(each.name, _LONGEST_LABEL) for each in panel.series]
    left = max(map(width, names)) * _LETTER + 14
    box = (WIDTH - left) / len(panel.labels)
    room = int(box / _LETTER)
    lines = [_text(0, top + 12, panel.title, "title")]
    y = top + _LINE + _GAP
    for n, label in enumerate(panel.labels):
        middle = left + (n + 0.5) * box
        lines.append(_text(middle, y + 12, shortened(label, max(1, room)), "dim", "middle"))
    y += _LINE
    for name, series in zip(names, panel.series, strict=True):
        lines.append(_text(left - 8, y + _LINE - 2, name, anchor="end"))
        for n, (label, point) in enumerate(zip(panel.labels, series.points, strict=True)):
            if point is not None:
                title = escape(f"{name}, {label}: {point.text}")
                share = 0.0 if point.is_hidden else 0.15 + 0.75 * panel.share(point)
                lines.append(_cell(left + n * box, y, box - 2, share, title))
                texts = point.number, charts.short_number(point.value)
                number = next((text for text in texts if width(text) <= room), "")
                lines.append(_text(left + (n + 0.5) * box, y + _LINE - 2, number, "", "middle"))
        y += _CELL
    if margin := panel.largest_margin:
        note = f"at most ± {margin} at 95 %; an empty box is no larger than its ±"
        lines.append(_text(left, y + _LINE - 2, note, "dim"))
        y += _LINE
    return lines, y - top


_CELL = 26.0


def _cell(x: float, y: float, wide: float, share: float, title: str) -> str:
    size = f'width="{_n(wide)}" height="{_n(_CELL - 2)}"'
    fill = f'fill="{_COLORS[0]}" fill-opacity="{share:.2f}" class="grid"'
    return f'<rect x="{_n(x)}" y="{_n(y)}" {size} {fill}><title>{title}</title></rect>'


def _lines(panel: charts.Panel, top: float) -> tuple[list[str], float]:
    """Draw a field with a scale on the left, and a line of dots with whiskers for each series."""
    low, high = panel.ends
    marks = charts.ticks(low, high)
    left = max(width(charts.tick_text(m, high - low)) for m in marks or [0.0]) * _LETTER + 10
    upper, lower = top + _LINE + _GAP, top + _LINE + _GAP + _FIELD
    over = _Scale(panel.places[0], panel.places[-1], left + 6, WIDTH - 8.0)
    up = _Scale(low, high, lower, upper)
    lines = [_text(0, top + 12, panel.title, "title")]
    for mark in marks:
        lines.append(_stroke(left, up(mark), WIDTH, up(mark), "grid"))
        lines.append(
            _text(left - 6, up(mark) + 4, charts.tick_text(mark, high - low), "dim", anchor="end")
        )
    for color, series in zip(_COLORS, panel.series, strict=False):
        lines += _drawn(panel, series, color, over, up)
    if panel.is_cut:
        lines.append(_text(WIDTH, top + 12, charts.CUT_AXIS, "dim", anchor="end"))
    bottom = lower + _LINE
    lines += _axis_labels(panel, over, bottom)
    bottom += _LINE
    lines.append(_text((left + WIDTH) / 2, bottom, panel.axis, "dim", anchor="middle"))
    if len(panel.series) > 1:
        bottom += _LINE
        lines += _legend(panel.series, left, bottom)
    return lines, bottom - top


def _axis_labels(panel: charts.Panel, over: _Scale, y: float) -> Iterator[str]:
    """Draw labels below an axis, as many as fit beside the first and the last."""
    longest = max(map(width, panel.labels)) * _LETTER + 2 * _GAP
    end = -longest
    *others, (last, last_label) = zip(map(over, panel.places), panel.labels, strict=True)
    for x, label in others:
        half = width(label) * _LETTER / 2
        if x - half >= end and (x + longest <= last - half or x == over(panel.places[0])):
            yield _text(max(x, half), y, label, "dim", anchor="middle")
            end = max(x, half) + half + 2 * _GAP
    yield _text(WIDTH, y, last_label, "dim", anchor="end")


class _Scale:
    """Linear map from values to positions along an axis."""

    def __init__(self, low: float, high: float, start: float, stop: float) -> None:
        self._low, self._start = low, start
        self._factor = (stop - start) / ((high - low) or 1.0)

    def __call__(self, value: float) -> float:
        return self._start + (value - self._low) * self._factor


def _drawn(
    panel: charts.Panel, series: charts.Series, color: str, over: _Scale, up: _Scale
) -> Iterator[str]:
    """Draw one series: lines between neighbours, whiskers, and dots with their numbers as
    titles.
    """
    points = [(over(x), p) for x, p in zip(panel.places, series.points, strict=True) if p]
    for (x, before), (next_x, after) in pairwise(points):
        yield _stroke(
            x,
            up(before.value),
            next_x,
            up(after.value),
            "line",
            f' stroke="{color}" stroke-width="1.6"',
        )
    names = dict(zip(panel.places, panel.labels, strict=True))
    labels = [names[x] for x, p in zip(panel.places, series.points, strict=True) if p]
    for (x, point), label in zip(points, labels, strict=True):
        yield from _whisker(point, up, x, upright=True, color=color)
        title = escape(f"{label}: {point.text}")
        place = f'cx="{_n(x)}" cy="{_n(up(point.value))}"'
        yield f'<circle {place} r="3.2" fill="{color}"><title>{title}</title></circle>'


def _whisker(
    point: charts.Point,
    scale: Callable[[float], float],
    across: float,
    *,
    upright: bool,
    color: str = "",
) -> Iterator[str]:
    """Draw the 95 % interval with its two ends, if the point has one."""
    more = f' style="stroke:{color}"' if color else ""
    if point.reach <= 0:
        return
    low, high = scale(point.low), scale(point.high)
    for start, stop, side in ((low, high, 0.0), (low, low, 4.0), (high, high, 4.0)):
        ends = (start, across - side, stop, across + side)
        x1, y1, x2, y2 = (ends[1], ends[0], ends[3], ends[2]) if upright else ends
        yield _stroke(x1, y1, x2, y2, "whisker", more)


def _legend(series: Sequence[charts.Series], left: float, y: float) -> Iterator[str]:
    for color, each in zip(_COLORS, series, strict=False):
        name = shortened(each.name, _LONGEST_LABEL)
        yield _box(left, y - 9, 10, 10, color)
        yield _text(left + 14, y, name)
        left += 26 + width(name) * _LETTER


def _text(x: float, y: float, text: str, kind: str = "", anchor: str = "start") -> str:
    classed = f' class="{kind}"' if kind else ""
    turned = "" if anchor == "start" else f' text-anchor="{anchor}"'
    return f'<text x="{_n(x)}" y="{_n(y)}"{classed}{turned}>{escape(text)}</text>'


def _box(x: float, y: float, wide: float, high: float, color: str) -> str:
    size = f'width="{_n(wide)}" height="{_n(high)}"'
    return f'<rect x="{_n(x)}" y="{_n(y)}" {size} fill="{color}" fill-opacity="0.75"/>'


def _stroke(x1: float, y1: float, x2: float, y2: float, kind: str, more: str = "") -> str:
    ends = f'x1="{_n(x1)}" y1="{_n(y1)}" x2="{_n(x2)}" y2="{_n(y2)}"'
    return f'<line {ends} class="{kind}"{more}/>'


def _n(value: float) -> str:
    """Return a coordinate, rounded to a tenth of a pixel."""
    return f"{value:.1f}".removesuffix(".0")
