"""Files as people have them, from `init` to an answer: no row is lost without a word (R100).

Each case is a folder of files, the right count of a question, and what `check` says of the files.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import chdir
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

from dpsql.engines.duckdb import looked_formats
from dpsql.engines.duckdb.looked_formats import look_at_rows
from dpsql.interfaces.cli import drafting, main, terminal
from dpsql.model.file_formats import FileColumn, FileFormat
from dpsql.proxy import Proxy
from grammar_tests.proxy_kit import request

PEOPLE = range(200)
Make = Callable[[Path], None]


def text_file(folder: Path, name: str, header: str, *lines: str, encoding: str = "utf-8") -> None:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(("\n".join([header, *lines]) + "\n").encode(encoding))


def parquet(folder: Path, name: str, **columns: Any) -> None:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table({"person_id": list(PEOPLE), **columns}), path)


def of_all(template: str) -> list[str]:
    return [template.format(n) for n in PEOPLE]


def texts(*files: tuple[str, str, str]) -> Make:
    """Files with a name, a header and a line for each person."""

    def make(folder: Path) -> None:
        for name, header, line in files:
            text_file(folder, name, header, *of_all(line))

    return make


def columns(*files: tuple[str, Any]) -> Make:
    """Parquet files with a column x, or with none."""

    def make(folder: Path) -> None:
        for name, values in files:
            parquet(folder, name, **({} if values is None else {"x": values}))

    return make


def each(value: Any, kind: Any = None) -> Any:
    return pa.array([value] * len(PEOPLE), kind)


def late(folder: Path) -> None:
    """Days of another form and a number that is none, far below the rows that readers look at."""
    lines = [f"{n % 3000},2024-03-05,{n % 7}" for n in range(25_000)]
    lines += [f"{n % 3000},05.03.2024,n/a" for n in range(500)]
    text_file(folder, "visits.csv", "person_id,day,qty", *lines)


def large_field(folder: Path) -> None:
    lines = [f"{n},{'x' * 3_000_000 if n == 100 else 'a'}" for n in PEOPLE]
    text_file(folder, "visits.csv", "person_id,note", *lines)


def ragged(folder: Path) -> None:
    ends = ("", ",7", ",7,more")
    text_file(folder, "visits.csv", "person_id,qty", *(f"{n}{ends[n % 3]}" for n in PEOPLE))


ALL, HALF = 2 * len(PEOPLE), len(PEOPLE)
DRAFTED: dict[str, tuple[Make, str, int | str, str]] = {
    "a later file has one column more": (
        texts(("visits/visits-1.csv", "person_id,qty", "{},1"),
              ("visits/visits-2.csv", "person_id,qty,channel", "{},1,web")),
        "channel = 'web'", HALF, ""),
    "a later file has one column less": (
        texts(("visits/visits-1.csv", "person_id,qty,channel", "{},1,web"),
              ("visits/visits-2.csv", "person_id,qty", "{},1")), "true", ALL, ""),
    "columns in another order and case": (
        texts(("visits/visits-1.csv", "person_id,qty", "{},7"),
              ("visits/visits-2.csv", "Qty,PERSON_ID", "7,{}")), "qty = 7", ALL, ""),
    "32 bits, then more": (
        columns(("visits/visits-1.parquet", each(1, pa.int32())),
                ("visits/visits-2.parquet", each(5_000_000_000))), "x > 10", HALF, ""),
    "whole numbers, then fractions": (
        columns(("visits/visits-1.parquet", each(1, pa.int32())),
                ("visits/visits-2.parquet", each(1.5))),
        "x > 1.2", HALF, ""),
    "nothing, then texts": (
        columns(("visits/visits-1.parquet", pa.nulls(len(PEOPLE))),
                ("visits/visits-2.parquet", each("x"))), "x = 'x'", HALF, ""),
    "days, then moments": (
        columns(("visits/visits-1.parquet", each(date(2024, 1, 1))),
                ("visits/visits-2.parquet", each(datetime(2024, 1, 1, 5)))),
        "x > TIMESTAMP '2024-01-01 01:00:00'", HALF, ""),
    "digits of two scales": (
        columns(("visits/visits-1.parquet", each(Decimal("1.25"), pa.decimal128(5, 2))),
                ("visits/visits-2.parquet", each(Decimal("1.2555"), pa.decimal128(9, 4)))),
        "x > 1.251", HALF, ""),
    "a dictionary of texts, then texts": (
        columns(("visits/visits-1.parquet", each("x").dictionary_encode()),
                ("visits/visits-2.parquet", each("x"))), "x = 'x'", ALL, ""),
    "no such column, then texts": (
        columns(("visits/visits-1.parquet", None), ("visits/visits-2.parquet", each("x"))),
        "x = 'x'", HALF, ""),
    "folders of a year and a month": (
        columns(*((f"visits/year=2024/month={m}/part-0.parquet", each(m)) for m in (1, 2))),
        "month = 2", HALF, ""),
    "two folders of years are one table": (
        columns(*((f"visits/year={y}/part-0.parquet", each(y)) for y in (2023, 2024))),
        "true", ALL, ""),
    "folders of texts": (
        columns(*((f"visits/country={c}/part-0.parquet", each(1)) for c in ("de", "fr"))),
        "country = 'fr'", HALF, ""),
    "folders of text files": (
        texts(*((f"visits/month={m}/a.csv", "person_id,qty", "{},1") for m in (1, 2))),
        "month = 2", HALF, ""),
    "a folder of no value": (
        columns(("visits/month=1/a.parquet", each(1)),
                ("visits/month=__HIVE_DEFAULT_PARTITION__/a.parquet", each(1))),
        "month IS NULL", HALF, ""),
    "one large field": (large_field, "true", HALF, ""),
    "short and long lines": (
        ragged, "true", HALF, r"66 of 200 lines have more[\s\S]*67 of 200 lines have too few"),
    "a header shorter than every line": (
        texts(("visits.csv", "person_id,qty", "{},1,zz")), "true", HALF, "200 of 200 lines"),
    "days and numbers of another form far below": (late, "true", 25_500, r"500 of"),
    "NaN in Parquet": (
        columns(("visits.parquet", pa.array([float("nan"), 50.0] * 100, from_pandas=False))),
        "true", HALF, "NaN"),
    "NaN of 32 bits in one of two files": (
        columns(("visits/visits-1.parquet", each(50.0)),
                ("visits/visits-2.parquet", each(float("nan"), pa.float32()))),
        "true", ALL, "NaN"),
}  # fmt: skip


def run(*args: str) -> tuple[int, str]:
    done = CliRunner().invoke(main, args)
    return done.exit_code, done.output


def generous(path: Path) -> None:
    """A budget that makes noise small, and limits above what one person has."""
    text = path.read_text(encoding="utf-8")
    budget = "[budgets.default]\nepsilon = 1e6\ndelta = 1e-4\nquery_epsilon = 2e4\n"
    budget += "max_query_epsilon = 2e5\nquery_delta = 1e-6\n\n"
    text = re.sub(r"(?s)(\[privacy_unit\].*?\n)epsilon = [^\n]*\n", r"\1", text, count=1)
    text = re.sub(r"(?ms)^\[budgets\..*?(?=^\[analysts)", budget, text)
    path.write_text(re.sub(r"\[analysts\.[^\]]*\]", "[analysts.ana]", text), encoding="utf-8")


EVERY = 9
"""One folder in so many is tried by the default tier: each takes three processes."""
FURTHER = pytest.mark.full("opens a proxy for each item")
FOLDERS = [
    pytest.param(case, marks=FURTHER if number % EVERY else ())
    for number, case in enumerate(DRAFTED)
]


@pytest.mark.full("opens a proxy for each item")
@pytest.mark.parametrize("case", FOLDERS)
def test_every_row_is_counted_and_what_is_not_read_is_said(case: str, tmp_path: Path) -> None:
    make, where, right, says = DRAFTED[case]
    make(tmp_path)
    target = next(path.name for path in tmp_path.iterdir())
    with chdir(tmp_path):
        code, drafted = run("init", target, "--yes", "--unit", "visits.person_id")
        assert code == 0, drafted
        assert "is a database" not in drafted
        generous(tmp_path / "dpsql.toml")
        _code, checked = run("check")
    assert re.search(says, checked), checked
    with Proxy.open(str(tmp_path / "dpsql.toml")) as proxy:
        answer = proxy.ask(
            request(f"SELECT COUNT(*) AS n FROM visits WHERE {where}", analyst="ana")
        )
    assert float(answer.rows[0][0]) == pytest.approx(right, abs=0.5)


BEGINNINGS = {
    "gzip": ("visits.csv", b"\x1f\x8b\x08\x00rest"),
    "a spreadsheet": ("visits.csv", b"PK\x03\x04rest"),
    "Parquet": ("visits.tsv", b"PAR1rest"),
    "UTF-16 without a mark": ("visits.csv", "person_id,age\n1,2\n".encode("utf-16-le")),
    "no bytes": ("visits.csv", b""),
    "no bytes of Parquet": ("visits.parquet", b""),
    "text called Parquet": ("visits.parquet", b"person_id,age\n1,2\n"),
    "JSON lines": ("visits.jsonl", b'{"person_id":1}\n'),
    "tabs called text": ("visits.txt", b"person_id\tage\n1\t2\n"),
    "packed by zstd": ("visits.csv.zst", b"\x28\xb5\x2f\xfd\x00\x58\x01\x00\x00"),
    "a title above the header": ("visits.csv", b"# visits of today\nperson_id,age\n1,2\n"),
}


@pytest.mark.parametrize("case", BEGINNINGS)
def test_what_is_no_table_is_said_to_be_none(case: str, tmp_path: Path) -> None:
    name, body = BEGINNINGS[case]
    (tmp_path / name).write_bytes(body)
    with chdir(tmp_path):
        code, text = run("init", name, "--yes", "-o", "-")
    assert code != 0
    said = r"is empty|\.csv or \.tsv|zstd|is no text|what its ending says|first line the header"
    assert re.search(said, text), text
    assert "it is a database" not in text


@pytest.mark.parametrize(("first", "second"), [(1, 1.5), (1, "x"), (True, 1)])
def test_types_that_no_type_holds_are_refused_without_an_advice_to_do_the_same(
    tmp_path: Path, first: object, second: object
) -> None:
    columns(("visits/visits-1.parquet", each(first)), ("visits/visits-2.parquet", each(second)))(
        tmp_path
    )
    with chdir(tmp_path):
        code, text = run("init", "visits", "--yes", "--unit", "visits.person_id", "-o", "-")
    assert code != 0
    assert "no type holds the values of all" in text


def test_wrong_twin_a_reader_that_guesses_types_loses_rows(tmp_path: Path) -> None:
    late(tmp_path)
    sql = "SELECT day, qty FROM read_csv(?, ignore_errors = true, sample_size = 1000)"
    rows = duckdb.execute(sql, [f"{tmp_path}/visits.csv"]).fetchall()
    assert len(rows) < 25_500


def test_a_draft_says_how_columns_without_a_name_of_their_own_are_called(tmp_path: Path) -> None:
    text_file(tmp_path, "people.csv", "person_id,Sex,sex,", "1,F,20,1")
    with chdir(tmp_path):
        assert run("init", "people.csv", "--yes", "-o", "dpsql.toml")[0] == 0
    draft = (tmp_path / "dpsql.toml").read_text(encoding="utf-8")
    assert "# sex_2, column4.\n" in draft


def test_a_unit_of_no_table_is_refused_with_the_tables(tmp_path: Path) -> None:
    text_file(tmp_path, "visits/a.csv", "person_id,qty", "1,2")
    with chdir(tmp_path):
        code, said = run("init", "visits", "--yes", "--unit", "visits.person_id")
    assert code != 0
    assert "The tables are: a." in " ".join(said.split())


# --- init --look ---

LOOKED = FileFormat(columns=tuple(FileColumn(c, "VARCHAR") for c in ("n", "spend", "day", "zip")))


def looked_at(seen: list[float], *rows: str) -> FileFormat:
    """What `--look` proposes for a table t of these rows, in a database of this process."""
    with duckdb.connect() as connection:
        connection.execute("CREATE TABLE t (n TEXT, spend TEXT, day TEXT, zip TEXT)")
        for row in rows:
            connection.execute("INSERT INTO t VALUES (?, ?, ?, ?)", row.split(";"))
        return look_at_rows(lambda sql: connection.sql(sql).fetchall(), "t", LOOKED, seen.append)


@pytest.mark.parametrize("few", [0, 1_000_000])
def test_a_look_at_different_texts_proposes_what_a_look_at_all_rows_does(
    few: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each text counts as often as it stands there: 1.x is one row of 20 and a third of texts."""
    monkeypatch.setattr(looked_formats, "_FEW_TEXTS", few)
    seen = list[float]()
    rows = [f"{n % 2};2,5;0{n % 9 + 1}.02.2024;0{n % 3}" for n in range(19)]
    proposed = looked_at(seen, *rows, "1.x;1,5;2024-03-01;NA")
    kinds = {c.name: c.type for c in proposed.columns}
    assert kinds == {"n": "BIGINT", "spend": "DOUBLE", "day": "DATE", "zip": "VARCHAR"}
    assert (proposed.decimal, proposed.null_words) == (",", ("", "NA"))
    assert proposed.dates == ("%Y-%m-%d", "%d.%m.%Y")
    assert seen == [0.2, 0.4, 0.6, 0.8, 1.0]


def asked_init(folder: Path, monkeypatch: pytest.MonkeyPatch, answer: str) -> tuple[str, str]:
    """The draft and what is said, of an owner at a terminal who leaves all else as it is."""
    text_file(folder, "people.csv", "person_id,day", *of_all("{0},2024-01-01"))
    monkeypatch.setattr(drafting, "can_answer", lambda: True)
    said = f"{answer}\npeople.person_id\n" + "\n" * 9
    given = ["init", "people.csv", "--show", "none", "-o", "drafted.toml"]
    with chdir(folder):
        done = CliRunner().invoke(main, given, input=said)
    assert done.exit_code == 0, done.output
    return (folder / "drafted.toml").read_text(encoding="utf-8"), done.output


@pytest.mark.full("starts processes")
@pytest.mark.parametrize(("answer", "left"), [("", 5), ("y", 0)])
def test_init_offers_a_look_on_a_terminal(
    answer: str, left: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without an answer no row is read. Then the last line says how many decisions `--look`
    proposes.
    """
    draft, said = asked_init(tmp_path, monkeypatch, answer)
    assert "up to 5 types and formats" in said
    assert draft.count('"DECIDE"') == left
    assert ("read from the data" in draft) == (not left)
    assert ("5 of them are types and formats" in said) == bool(left)


@pytest.mark.full("starts processes")
def test_a_look_shows_its_progress_on_a_terminal_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, silent = asked_init(tmp_path, monkeypatch, "y")
    (tmp_path / "drafted.toml").unlink()
    begin = terminal.Progress.__init__

    def begin_visibly(progress: terminal.Progress) -> None:
        begin(progress)
        progress._visible = True

    monkeypatch.setattr(terminal.Progress, "__init__", begin_visibly)
    _, shown = asked_init(tmp_path, monkeypatch, "y")
    assert "people (1 of 1) [####" in shown
    assert "people (1 of 1)" not in silent
