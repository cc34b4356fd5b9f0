"""Pictures of answers: what is drawn of one, in lines of text, as SVG and as a page."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from dataclasses import replace
from datetime import date, datetime, timedelta
from decimal import Decimal
from itertools import pairwise
from math import nan
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest
from click.testing import CliRunner, Result
from hypothesis import given, settings
from hypothesis import strategies as st

from dpsql.interfaces.cli import main
from dpsql.interfaces.cli.options import CommandSettings
from dpsql.interfaces.cli.terminal import encodable
from dpsql.interfaces.doors import COMMAND_LINE
from dpsql.interfaces.messages import width
from dpsql.interfaces.pictures.charts import (
    CUT_AXIS,
    MOST_POINTS,
    NOTHING,
    ChartShape,
    chart_of,
    tick_text,
    ticks,
)
from dpsql.interfaces.pictures.drawings import Drawing
from dpsql.interfaces.pictures.html_page import page
from dpsql.interfaces.pictures.png_chart import SCALE, png
from dpsql.interfaces.pictures.svg_chart import WIDTH, svg
from dpsql.interfaces.pictures.terminal_chart import picture
from dpsql.model.errors import Reason, Refused
from dpsql.model.notices import CutSide, Sampled
from dpsql.model.tree import DATE, DOUBLE, INTEGER, INTERVAL, TIMESTAMP, VARCHAR, SqlType
from dpsql.model.vocabulary import Answer, Column, Request
from dpsql.preparation.explanation import Explanation
from grammar_tests.fakes import ANSWER, EXPLANATION, FakeProxy

NAN = float("nan")


def answer_of(columns: Sequence[tuple[str, SqlType]], *rows: tuple[Any, float | None]) -> Answer:
    """Rows of keys and one number at the end, which has this margin."""
    exact = (None,) * (len(columns) - 1)
    margins = tuple((*exact, margin) for _, margin in rows)
    values = tuple(values for values, _ in rows)
    return Answer(tuple(Column(*column) for column in columns), values, margins, margins)


COUNTS = answer_of(
    [("country", VARCHAR), ("n", INTEGER)],
    (("ES", 100), 20.0),
    (("Norway", -50), 20.0),
    ((None, 30), 60.0),
    (("SE", None), 20.0),
)
DAYS = answer_of(
    [("day", DATE), ("kind", VARCHAR), ("n", INTEGER)],
    *(
        ((date(2024, 1, 1) + timedelta(n), kind, 100 * n), 50.0)
        for n in range(4)
        for kind in ("a", "b")
    ),
)


def test_bars_with_whiskers_as_they_read() -> None:
    assert picture(COUNTS, 50) == (
        "n\n"
        "ES                 ▐█████████████├───┼──┤ 100 ± 20\n"
        "Norway ├──┼───┤████▌                      -50 ± 20\n"
        "NULL          ├─────────┼──────────┤       30 ± 60\n"
        "SE                                            NULL\n"
    )


def test_lines_as_they_read() -> None:
    lines = picture(DAYS, 40).splitlines()
    assert lines[0] == "n"
    assert lines[-2].split() == ["2024-01-01", "day,", "kind", "2024-01-04"]
    assert lines[-1] == "● a ◆ b"
    assert sum(line.count("◆") for line in lines[:-1]) == 4
    assert lines[1].startswith("    ┤")
    assert lines[1].endswith("│")


def test_what_is_drawn_and_in_which_shape() -> None:
    (bars,) = chart_of(COUNTS).panels
    assert (bars.shape, bars.labels) == (ChartShape.BARS, ("ES", "Norway", "NULL", "SE"))
    (lines,) = chart_of(DAYS).panels
    assert (lines.shape, [s.name for s in lines.series]) == (ChartShape.LINES, ["a", "b"])
    assert lines.axis == "day, kind"
    assert chart_of(ANSWER).panels[0].title == ANSWER.columns[1].name
    few = answer_of([("year", INTEGER), ("n", INTEGER)], ((2023, 1), 1.0), ((2024, 2), 1.0))
    assert chart_of(few).panels[0].shape is ChartShape.BARS
    public = answer_of([("code", INTEGER), ("n", INTEGER)], ((7, 1), None))
    assert [panel.title for panel in chart_of(public).panels] == ["n"]


HEAT = """n
         red  a long colour
x    ██ -400  ··          3
yes  ??    9  ▓▓        200
at most ± 12; ·· is no larger than its ±
"""


MONTHS = replace(
    answer_of(
        [("month", TIMESTAMP), ("n", INTEGER)],
        *(((datetime(2024, month, 1), 900_000 + month), 90.0) for month in range(1, 13)),
    ),
    halves=((None, (20.0, 90.0)),) * 12,
    notices=(Sampled((1,), "customers", 5, CutSide.ABOVE),),
)


def test_a_picture_shows_both_ends_marks_notices_and_months() -> None:
    chart = chart_of(MONTHS)
    (panel,) = chart.panels
    point = panel.series[0].points[0]
    assert point is not None
    assert (panel.title, panel.axis, panel.labels[:2]) == ("n ≥", "month", ("2024-01", "2024-02"))
    assert (point.low, point.high) == (899_981, 900_091)
    assert point.text == "900,001 (899,981 … 900,091)"
    drawn = svg(chart)
    assert "* customers count in at most 5 groups each" in drawn
    assert drawn.count(CUT_AXIS) == 1
    assert CUT_AXIS in picture(MONTHS)
    places = [float(x) for x in re.findall(r'<text x="([\d.]+)"[^>]*>2024-', drawn)]
    assert len(places) > 3, "as many labels as fit"
    assert all(after - before > 60 for before, after in pairwise(places))
    assert CUT_AXIS not in svg(chart_of(DAYS))


def test_large_numbers_fit_into_a_heat_map() -> None:
    columns = [("key", VARCHAR), ("other", VARCHAR), ("n", INTEGER)]
    cells = [((f"{n // 12}", f"{n % 12}", 1_234_567 + n), 9.0) for n in range(24)]
    assert svg(chart_of(answer_of(columns, *cells))).count(">1.23M<") == 24


def test_two_keys_are_the_sides_of_a_heat_map() -> None:
    columns = [("key", VARCHAR), ("other", VARCHAR), ("n", INTEGER)]
    rows: list[Any] = [
        (("x", "red", -400), 12.0), (("x", "a long colour", 3), 12.0),
        (("yes", "red", 9), nan), (("yes", "a long colour", 200), 12.0),
    ]  # fmt: skip
    drawn = picture(answer_of(columns, *rows))
    assert drawn == HEAT
    assert "1 more columns are not drawn" in picture(answer_of(columns, *rows), 24)
    field = svg(chart_of(answer_of(columns, *rows)))
    assert field.count("<rect ") == 4
    assert "yes, a long colour: 200 ± 12" in field
    # One of several numbers in a place, a field with holes, one side alone: these are bars.
    for fewer in ([*rows, rows[0]], rows[:2]):
        chart = chart_of(answer_of(columns, *fewer))
        assert [panel.shape for panel in chart.panels] == [ChartShape.BARS]
    # Too many lines are a field, in the order of their axis.
    days = [("kind", VARCHAR), ("day", INTEGER), ("n", INTEGER)]
    many = chart_of(answer_of(days, *(((f"k{n % 9}", n // 9, n), 1.0) for n in range(26, -1, -1))))
    assert [(panel.shape, panel.labels) for panel in many.panels] == [
        (ChartShape.HEAT, ("0", "1", "2"))
    ]


def test_where_there_is_no_number_that_is_said() -> None:
    texts = answer_of([("a", VARCHAR), ("b", VARCHAR)], (("x", "y"), None))
    assert picture(texts) == f"{NOTHING}\n"
    assert NOTHING in svg(chart_of(texts))
    assert picture(answer_of([("n", INTEGER)])) == f"{NOTHING}\n"


def test_what_is_not_drawn_is_counted() -> None:
    columns = [("key", VARCHAR), ("n", INTEGER)]
    many = answer_of(columns, *(((f"k{n}", n), 1.0) for n in range(MOST_POINTS + 5)))
    assert "5 more rows are not drawn" in picture(many)
    assert f"{MOST_POINTS - 40} more bars are not drawn" in picture(many)
    series = answer_of(
        [("day", INTEGER), ("kind", INTEGER), ("n", INTEGER)],
        *((((n + kind) % 7, kind, 1), 1.0) for n in range(3) for kind in range(10)),
    )
    assert "6 more rows are not drawn" in svg(chart_of(series))


KEYS = st.one_of(
    st.none(),
    st.text(max_size=8),
    st.integers(-(10**38), 10**38),
    st.floats(),
    st.dates(),
    st.datetimes(),
)
NUMBERS = st.one_of(st.none(), st.integers(-(10**38), 10**38), st.floats())
MARGINS = st.one_of(st.none(), st.floats(min_value=0), st.just(NAN))


@pytest.mark.full("opens a proxy for each item")
@settings(max_examples=60)
@given(st.lists(st.tuples(KEYS, NUMBERS, MARGINS), max_size=6), st.integers(20, 120))
def test_every_answer_has_a_picture_that_fits_and_is_markup(
    rows: list[tuple[Any, Any, Any]], room: int
) -> None:
    columns = [("key", VARCHAR), ("n", DOUBLE)]
    answer = answer_of(columns, *(((key, number), margin) for key, number, margin in rows))
    drawing = picture(answer, room)
    longest = max((len(p.text) for s in _series(answer) for p in s if p is not None), default=0)
    most = max(room, len(NOTHING), longest + room // 3 + 12)
    assert max(map(width, drawing.splitlines())) <= most
    ET.fromstring(svg(chart_of(answer)))  # noqa: S314 - it is ours


def _series(answer: Answer) -> list[Any]:
    return [series.points for panel in chart_of(answer).panels for series in panel.series]


@pytest.mark.full("draws random texts")
@given(st.text(), st.text())
@settings(max_examples=50)
def test_no_text_is_markup_or_moves_a_cursor(key: str, sql: str) -> None:
    answer = answer_of([(f"<b>{key}", VARCHAR), ("n", INTEGER)], ((f"<script>{key}", 1), 2.0))
    whole = page(answer, f"</pre><script>{sql}", COMMAND_LINE)
    assert "<script" not in whole
    assert "<b>" not in whole
    assert "\x1b" not in whole + picture(answer)
    assert all(line.isprintable() for line in picture(answer).split("\n"))


def test_a_page_holds_all_and_loads_nothing() -> None:
    whole = page(ANSWER, "SELECT 1 < 2", COMMAND_LINE)
    assert "default-src 'none'" in whole
    assert not re.findall(r"(src|href)=|@import|url\(|<script|<link", whole)
    for part in ("<svg ", "1,234 ± 40", "cost: ε = 0.1", "SELECT 1 &lt; 2", "random noise"):
        assert part in whole
    assert "a plan" in page(_planned(), "EXPLAIN SELECT 1", COMMAND_LINE)


def _planned() -> Answer:
    lines = answer_of([("plan", VARCHAR)], (("Charge: nothing",), None))
    return Answer(lines.columns, lines.rows, lines.errors, lines.margins, explanation=EXPLANATION)


def test_a_scale_has_round_numbers_in_it() -> None:
    for low, high in ((0.0, 97.0), (-3.0, 3.0), (0.0, 1e-9), (1e16, 1e16 + 2), (5e-324, 1e-323)):
        marks = ticks(low, high)
        assert len(marks) <= 12
        assert all(tick_text(mark, high - low) for mark in marks)


def test_lengths_of_time_and_moments_are_drawn() -> None:
    start = datetime(2024, 1, 1)
    waits = answer_of(
        [("at", TIMESTAMP), ("wait", INTERVAL)],
        *(((start + timedelta(hours=n), timedelta(minutes=n)), 30.0) for n in range(3)),
    )
    (panel,) = chart_of(waits).panels
    assert panel.shape is ChartShape.LINES
    assert [p.value for p in panel.series[0].points if p is not None] == [0.0, 60.0, 120.0]


# --- the command line ---


def run(*args: str, proxy: FakeProxy | None = None) -> Result:
    fake: Any = proxy or FakeProxy()
    return CliRunner().invoke(main, args, obj=CommandSettings(open=lambda _path: fake))


def test_query_draws_below_the_table_and_writes_pages() -> None:
    below = run("query", "SELECT 1", "--plot")
    assert below.stdout == run("query", "SELECT 1").stdout + "\n" + picture(ANSWER)
    assert run("query", "SELECT 1", "--format", "svg").stdout == svg(chart_of(ANSWER))
    assert run("query", "SELECT 1", "--format", "html").stdout == page(
        ANSWER, "SELECT 1", COMMAND_LINE
    )
    assert run("query", "SELECT 1", "--plot", "--format", "csv").exit_code == 2


@pytest.mark.full("opens a proxy for each item")
def test_a_png_is_the_svg_with_its_letters(tmp_path: Path) -> None:
    pytest.importorskip("resvg_py", reason="the extra png is not installed")
    written = run("query", "SELECT 1", "--format", "png").stdout_bytes
    assert written.startswith(b"\x89PNG")
    assert int.from_bytes(written[16:20]) == SCALE * WIDTH
    Drawing(ANSWER).save(tmp_path / "n.png")
    assert (tmp_path / "n.png").read_bytes() == written
    (first, *others) = COUNTS.rows
    renamed = replace(COUNTS, rows=(("IT", *first[1:]), *others))
    assert png(chart_of(renamed)) != png(chart_of(COUNTS))


def test_without_what_draws_a_png_nothing_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "resvg_py", None)
    proxy = FakeProxy()
    result = run("query", "SELECT 1", "--format", "png", proxy=proxy)
    assert result.exit_code == 2
    assert "dpsql[png]" in result.stderr
    assert not proxy.requests


class Priced(FakeProxy):
    """Errs by 4 / ε, of which no more than 0.15 may be asked for."""

    def explain(self, request: Request) -> Explanation:
        epsilon = request.epsilon or Decimal("0.1")
        if epsilon > Decimal("0.15"):
            raise Refused(Reason.EPSILON_TOO_LARGE, epsilon=epsilon, limit=Decimal("0.15"))
        return replace(
            super().explain(request), epsilon=epsilon, expected=(None, 4 / float(epsilon))
        )


EXPECTED = """
± of n at 95 %
ε = 0.05          ├───────────────────────────┼───────────────────────────┤ ± 80
ε = 0.1, as asked               ├─────────────┼─────────────┤               ± 40
"""


def test_a_plan_is_drawn_with_what_another_price_buys() -> None:
    plain = run("explain", "SELECT 1", proxy=Priced()).stdout
    assert run("explain", "SELECT 1", "--plot", proxy=Priced()).stdout == plain + EXPECTED
    shown = run("query", "SELECT 1", "--explain", "--plot", "--within", "100", proxy=Priced())
    assert shown.stdout == plain + EXPECTED
    only = run("explain", "SELECT 1", "--plot").stdout  # its ε is what its text says
    assert only.count("ε = ") == plain.count("ε = ") + 1
    unknown = replace(EXPLANATION, expected=(None, nan))
    nothing = run("explain", "SELECT 1", "--plot", proxy=FakeProxy(explanation=unknown))
    assert "Nothing is drawn" in nothing.stdout
    assert run("explain", "SELECT 1", "--plot", "--format", "json").exit_code == 2


def test_an_old_terminal_is_drawn_on_too() -> None:
    plain = encodable(picture(COUNTS, 50) + picture(DAYS, 40), "ascii")
    assert "\\" not in plain
    assert "|---+--| 100 +/- 20" in plain


@pytest.mark.parametrize("bare", ["<", "&"])
def test_wrong_twin_a_bare_text_would_be_seen(bare: str) -> None:
    broken = svg(chart_of(COUNTS)).replace("Norway", bare)
    with pytest.raises(ET.ParseError):
        ET.fromstring(broken)  # noqa: S314 - it is ours
