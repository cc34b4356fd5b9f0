"""What people and machines read of an answer: every digit, every error, no control characters."""

from __future__ import annotations

import csv
import io
import json
import re
from decimal import Decimal
from math import nan

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpsql.interfaces import records
from dpsql.interfaces.amounts import number_text
from dpsql.interfaces.messages import width
from dpsql.interfaces.tables import markdown, table
from dpsql.model.tree import INTEGER, VARCHAR
from dpsql.model.vocabulary import Answer, Column
from grammar_tests.fakes import ANSWER


def one_text(name: str, value: str) -> Answer:
    return Answer((Column(name, VARCHAR),), ((value,),), ((None,),), ((None,),))


# --- for people ---


def test_the_table_as_it_reads() -> None:
    assert table(ANSWER).text == (
        "segment            n         total            mean  day              many\n"
        "────────  ──────────  ────────────  ──────────────  ──────────  ─────────\n"
        "consumer  1,234 ± 40  56,789 ± 200  12.346 ± 0.020  2024-02-29   true ± ?\n"
        "NULL         -3 ± 40       0 ± 200     NaN ±     ?  NULL        false ± ?\n"
        "± ?: how large the noise is in these numbers is not known (dpsql help answers)\n"
    )


def bare_numbers(text: str, answer: Answer) -> list[str]:
    """Noisy cells of a rendered table that show no error."""
    noisy = [i for i, margin in enumerate(answer.margins[0]) if margin is not None]
    lines = [line for line in text.splitlines()[2:] if line]
    cells = [[c.strip() for c in re.split(r"(?<!±)  +(?!±)", line)] for line in lines]
    return [row[i] for row in cells for i in noisy if "±" not in row[i]]


def test_no_noisy_number_stands_without_its_error() -> None:
    plain = Answer(ANSWER.columns[:4], ((*ANSWER.rows[0][:4],),), (), (ANSWER.margins[0][:4],))
    shown = table(plain).text
    assert bare_numbers(shown, plain) == []
    assert bare_numbers(shown.replace(" ± 40", ""), plain) == ["1,234"]


def test_markdown_cannot_be_broken_by_a_value() -> None:
    answer = one_text("a|b", "x|y\n<b>[z](u)")
    expected = "| a\\|b |\n| --- |\n| x\\|y\\\\n\\<b\\>\\[z\\](u) |\n"
    assert markdown(answer) == expected


@pytest.mark.full("draws random texts")
@given(st.text())
def test_no_value_drives_a_terminal(value: str) -> None:
    for shown in (table(one_text(value, value)).text, markdown(one_text(value, value))):
        assert all(c.isprintable() or c == "\n" for c in shown)
    assert len(markdown(one_text(value, value)).splitlines()) == 3


@pytest.mark.full("starts processes")
@given(st.text(min_size=1), st.integers(1, 60))
def test_a_terminal_is_never_overrun_by_text(value: str, room: int) -> None:
    shown = table(one_text("a", value), room)
    longest = max(map(width, shown.text.splitlines()))
    assert longest <= max(room, 8)
    assert bool(shown.notices) == (table(one_text("a", value)).text != shown.text)


def test_a_narrow_terminal_shortens_text_then_leaves_columns_out() -> None:
    shown = table(ANSWER, 40)
    assert max(map(width, shown.text.splitlines())) <= 40
    assert "mean, day, many" in shown.notices[-1]
    assert table(ANSWER, 200).notices == ()


@pytest.mark.parametrize(
    ("value", "margin", "scale", "text"),
    [
        (Decimal("0.50"), 200.0, 2, ("0", "200")),
        (-0.3, 40.0, None, ("0", "40")),
        (Decimal("1.23"), 0.0001, 2, ("1.23", "0.00010")),
        (7, 1.44, 0, ("7", "1.4")),
        (5, 0.0, 0, ("5", "0.0")),
        (None, 3.0, 0, ("NULL", "?")),
        (1.5, nan, None, ("1.5", "?")),
        (2**80, None, 0, (str(2**80), "")),
    ],
)
def test_numbers_with_their_margins(
    value: object, margin: float | None, scale: int | None, text: tuple[str, str]
) -> None:
    assert number_text(value, margin, scale) == text


# --- for machines ---


def test_csv_has_machine_columns() -> None:
    rows = list(csv.DictReader(io.StringIO(records.csv(ANSWER))))
    assert (rows[0]["n"], rows[0]["n_margin"]) == ("1234", "40.0")
    assert rows[0]["total"] == "56789.10"
    assert (rows[1]["segment"], rows[1]["mean_margin"]) == ("", "NaN")
    assert rows[0]["day"] == "2024-02-29"


@pytest.mark.full("takes half a second and more")
@given(st.lists(st.text(st.characters(codec="utf-8")), min_size=1, max_size=3))
def test_csv_is_read_back(values: list[str]) -> None:
    none = ((None,) * len(values),)
    columns = tuple(Column(f"c{i}", VARCHAR) for i in range(len(values)))
    text = records.csv(Answer(columns, (tuple(values),), none, none))
    assert list(csv.reader(io.StringIO(text, newline="")))[1] == values


def test_null_and_the_empty_string_differ_in_csv() -> None:
    answer = Answer((Column("s", VARCHAR),), ((None,), ("",)), ((None,),) * 2, ((None,),) * 2)
    assert records.csv(answer) == 's\n\n""\n'


def test_json_is_one_document_and_json_lines_one_per_row() -> None:
    rows = json.loads(records.json_array(ANSWER), parse_float=Decimal)
    lines = records.json_lines(ANSWER).splitlines()
    assert [json.loads(line, parse_float=Decimal) for line in lines] == rows
    assert str(rows[0]["total"]) == "56789.10"
    assert rows[1]["mean"] == "NaN"
    assert "segment_margin" not in rows[0]


def test_parquet_keeps_types_and_decimals() -> None:
    pq = pytest.importorskip("pyarrow.parquet", reason="the parquet extra is not installed")
    read = pq.read_table(io.BytesIO(records.parquet(ANSWER)))
    beside = ["n", "n_margin", "n_low", "n_high"]
    assert read.column_names[:6] == ["segment", *beside, "total"]
    assert read["total"].to_pylist() == [Decimal("56789.10"), Decimal("0.50")]
    kinds = [str(field.type) for field in read.schema]
    assert kinds[:6] == ["string", "int64", *["double"] * 3, "decimal128(38, 2)"]


def test_a_huge_integer_survives_parquet() -> None:
    pq = pytest.importorskip("pyarrow.parquet", reason="the parquet extra is not installed")
    answer = Answer((Column("n", INTEGER),), ((2**70,),), ((1.0,),), ((2.0,),))
    assert pq.read_table(io.BytesIO(records.parquet(answer)))["n"].to_pylist() == [2**70]


def test_repeated_names_stay_apart() -> None:
    columns = (Column("n", INTEGER), Column("n", INTEGER), Column("n_margin", VARCHAR))
    names = [c.name for c in records.record_columns(Answer(columns, (), (), ()))]
    own = [f"{name}{end}" for name in ("n", "n_2") for end in ("", "_margin", "_low", "_high")]
    assert names == [*own, "n_margin_2"]


def test_machine_columns_do_not_depend_on_the_rows() -> None:
    empty = Answer(ANSWER.columns, (), (), (), None)
    assert records.record_columns(empty) == records.record_columns(ANSWER)
    assert records.csv(empty).splitlines() == records.csv(ANSWER).splitlines()[:1]
    assert records.json_array(empty) == "[]\n"
    assert table(empty).text.endswith("(no rows)\n")
