"""Text files: one line is one row, and no line changes what another one means (PRIVACY.md R100)."""

from __future__ import annotations

import gzip
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import chdir, closing
from datetime import date, datetime, time
from decimal import Decimal
from pathlib import Path
from random import Random
from typing import Any

import duckdb
import pytest
from click.testing import CliRunner

from dpsql.engines.duckdb import text_lines, text_rows
from dpsql.engines.duckdb.files import CannotOpen, Sources
from dpsql.engines.duckdb.hardening import private
from dpsql.interfaces.cli import main
from dpsql.interfaces.wordings import ExitCode
from dpsql.model.dataclass import replace
from dpsql.model.errors import PolicyError
from dpsql.model.file_formats import FileColumn, FileFormat
from dpsql.model.resources import LONGEST_TEXT
from dpsql.owner.check import check_policy
from dpsql.policy.load import load
from dpsql.proxy import Proxy
from grammar_tests.proxy_kit import request

TYPED = FileFormat(
    (
        FileColumn("id", "BIGINT"),
        FileColumn("pay", "DECIMAL(8,2)"),
        FileColumn("x", "DOUBLE"),
        FileColumn("day", "DATE"),
        FileColumn("ok", "BOOLEAN"),
        FileColumn("seen", "TIMESTAMP"),
        FileColumn("at", "TIME"),
    ),
    null_words=("", "NA"),
)


def read(folder: Path, f: FileFormat, **files: bytes) -> list[tuple[Any, ...]]:
    """The rows of a table of these files."""
    for name, body in files.items():
        (folder / f"{name}.csv").write_bytes(body)
    return rows_of(folder / "*.csv", f)


def rows_of(
    pattern: Path,
    f: FileFormat,
    sql: str = "SELECT * FROM t",
    longest: int = LONGEST_TEXT,
    memory: str = "500MB",
) -> list[tuple[Any, ...]]:
    sources = Sources(None, (("t", str(pattern)),), formats=(("t", f),), longest=longest)
    with closing(private(sources, memory).connection) as connection:
        return connection.execute(sql).fetchall()  # type: ignore[no-any-return]


TEXTS, WORDS = FileFormat(), FileFormat(null_words=("NA", "-"))
CASES: dict[str, tuple[FileFormat, bytes, list[tuple[Any, ...]]]] = {
    "bom": (TEXTS, b"\xef\xbb\xbfa,b\n1,2\n", [("1", "2")]),
    "carriage returns and feeds": (TEXTS, b"a,b\r\n1,2\r\n", [("1", "2")]),
    "lone CR ends a line": (TEXTS, b"a,b\n1,2\r3,4\n", [("1", "2"), ("3", "4")]),
    "NUL": (TEXTS, b"a,b\n1\x00,2\n", [("1\x00", "2")]),
    "no line end at the end": (TEXTS, b"a,b\n1,2", [("1", "2")]),
    "empty lines are no rows": (TEXTS, b"a,b\n\n1,2\n\n", [("1", "2")]),
    "quotes": (TEXTS, b'a,b\n"1, ""one""",2\n', [('1, "one"', "2")]),
    "a quote that is not closed": (TEXTS, b'a,b\n"1,2\n3",4\n', [('"1', "2"), ('3"', "4")]),
    "a quote inside": (TEXTS, b'a,b\n12" pipe,"x, y"\n', [('12" pipe', "x, y")]),
    "too many fields": (TEXTS, b"a,b\n1,2,3\n", [("1", "2")]),
    "too few fields": (TEXTS, b"a,b\n1\n", [("1", None)]),
    "a short header": (TEXTS, b"a\n1,2\n", [("1",)]),
    "doubled names": (TEXTS, b"a,A,b\n1,2,3\n", [("1", "2", "3")]),
    "title lines": (replace(TEXTS, skip=2), b"Report\n\na,b\n1,2\n", [("1", "2")]),
    "no header": (replace(TEXTS, header=False, names=("a", "b")), b"1,2\n", [("1", "2")]),
    "no header and no line": (replace(TEXTS, header=False, names=("a", "b")), b"", []),
    "other delimiter": (replace(TEXTS, delimiter=";"), b"a;b\n1,5;2\n", [("1,5", "2")]),
    "latin-1 declared": (replace(TEXTS, encoding="latin-1"), b"a\n\xe9\x85\n", [("\xe9\x85",)]),
    "latin-1 not declared": (TEXTS, b"a,b\n\xe9,2\n3,4\n", [("\ufffd", "2"), ("3", "4")]),
    "utf-16": (replace(TEXTS, encoding="utf-16"), "a\n\u2603\n".encode("utf-16"), [("\u2603",)]),
    "separator of ours": (TEXTS, b"a,b\n1\x1f,2\n", [("1\ufffd", "2")]),
    "quoted empty is no NULL": (TEXTS, b'a,b\n"",\n', [("", None)]),
    "words for NULL": (WORDS, b'a,b\nNA,-\n"NA",\n', [(None, None), ("NA", "")]),
    "several lines": (replace(TEXTS, multiline=True), b'a,b\n"1\n2",3\n', [("1\n2", "3")]),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_lines_are_rows(case: str, tmp_path: Path) -> None:
    f, body, rows = CASES[case]
    assert sorted(read(tmp_path, f, a=body), key=repr) == sorted(rows, key=repr)
    packed = tmp_path / "packed.csv.gz"
    packed.write_bytes(gzip.compress(body))
    assert sorted(rows_of(packed, f), key=repr) == sorted(rows, key=repr)


VALUES: dict[str, dict[str, Any]] = {
    "id": {"7": 7, " +7 ": 7, "1.6": None, "1e3": None, "99999999999999999999": None, "NA": None},
    "pay": {"1.5": Decimal("1.50"), "1.555": None, "-.5": Decimal("-0.50"), "1234567.00": None},
    "x": {"1e3": 1000.0, ".5": 0.5, "nan": None, "inf": None, "1,5": None},
    "day": {"2024-02-29": date(2024, 2, 29), "2023-02-29": None, "infinity": None, "epoch": None},
    "ok": {"Yes": True, "0": False, "maybe": None},
    "seen": {"2024-01-02T03:04": datetime(2024, 1, 2, 3, 4), "2024-01-02 25:00": None, "now": None},
    "at": {"23:59": time(23, 59), "24:00:00": None, "25:00": None},
}  # fmt: skip


@pytest.mark.parametrize("column", VALUES)
def test_a_field_of_another_type_is_null(column: str, tmp_path: Path) -> None:
    body = f"{column},n\n" + "".join(f'"{t}",{n}\n' for n, t in enumerate(VALUES[column]))
    rows = {int(n): value for value, n in read(tmp_path, TYPED, a=body.encode())}
    assert [rows[n] for n in range(len(rows))] == list(VALUES[column].values())


def test_numbers_and_dates_are_as_the_policy_writes_them(tmp_path: Path) -> None:
    day = FileColumn("day", "DATE", ("%d.%m.%Y", "%Y-%m-%d", "%b %d %Y"))
    f = FileFormat((FileColumn("x", "DOUBLE"), day), ";", decimal=",", thousands=".")
    lines = ["1.234,5;05.02.2024", "1234,5;2024-02-05", "1.23,4;Feb 05 2024", "1.5;02/05/2024"]
    rows = read(tmp_path, f, a="\n".join(["x;day", *lines]).encode())
    other = date(2024, 2, 5)
    assert rows == [(1234.5, other), (1234.5, other), (None, other), (None, None)]


def test_files_of_a_folder_have_headers_of_their_own(tmp_path: Path) -> None:
    rows = read(tmp_path, TEXTS, a=b"a,b\n1,2\n", b=b"B,new\n3,4\n", c=b"", d=b"a,b\n")
    assert sorted(rows, key=repr) == sorted([("1", "2", None), (None, "3", "4")], key=repr)


@pytest.mark.parametrize("multiline", [False, True])
def test_keys_of_folders_have_any_names(tmp_path: Path, multiline: bool) -> None:  # noqa: FBT001
    """Columns of ours were called so: a key `line` showed whole lines, with hidden columns."""
    for key in ("line", "f", "raw", "c0"):
        for value in ("A-1", "10001"):
            (tmp_path / key / f"{key}={value}").mkdir(parents=True)
            (tmp_path / key / f"{key}={value}" / "x.csv").write_bytes(b"a,b\n1,2\n")
        rows = rows_of(tmp_path / key / "*" / "*.csv", replace(TEXTS, multiline=multiline))
        assert sorted(rows) == [("1", "2", "10001"), ("1", "2", "A-1")]


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_a_key_of_a_folder_with_the_name_of_a_column_is_refused(tmp_path: Path, kind: str) -> None:
    """It replaced the column's values without a word. A key of one file alone is no column."""
    for year in (2024, 2025):
        folder = tmp_path / f"Year={year}"
        folder.mkdir()
        row = "SELECT '1' AS a, '1999' AS year"
        duckdb.execute(f"COPY ({row}) TO '{folder}/x.{kind}'")
    with pytest.raises(CannotOpen, match="folder key"):
        rows_of(tmp_path / "*" / f"*.{kind}", TEXTS)
    duckdb.execute(f"COPY ({row}) TO '{tmp_path}/x.{kind}'")
    assert set(rows_of(tmp_path / "**" / f"*.{kind}", TEXTS)) == {("1", "1999")}


@pytest.mark.full("measures neighbours or further data sets")
def test_a_line_of_ten_megabytes_is_one_row(tmp_path: Path) -> None:
    body = b"a,b\n1,2\n" + b"x" * 10_000_000 + b",3\n4,5\n"
    rows = read(tmp_path, TEXTS, a=body)
    assert [(len(a), b) for a, b in rows] == [(1, "2"), (LONGEST_TEXT, "3"), (1, "5")]


def test_a_longer_line_is_cut(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text_lines, "LONGEST_LINE", 10)
    monkeypatch.setattr(text_lines, "BLOCK", 4)
    rows = read(tmp_path, TEXTS, a=b"a,b\n1,2\n" + b"x" * 12 + b",3\n4,5\n")
    assert rows == [("1", "2"), ("x" * 10, None), ("4", "5")]


def many_fields(folder: Path) -> list[tuple[Any, ...]]:
    """Answers over 99 lines of 60,000 fields, with little memory, and over one beside them."""
    (folder / "a.csv").write_bytes(b"a,b\n1,2\n" + (b"3,4" + b"," * 60_000 + b"\n") * 99)
    sql = "SELECT b, count(*) FROM t GROUP BY b ORDER BY b"
    return rows_of(folder / "a.csv", TEXTS, sql, memory="120MB")


@pytest.mark.full("further data sets")
def test_a_line_of_very_many_fields_takes_little_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Or a question fails after its charge, where somebody has a few such lines."""
    assert many_fields(tmp_path) == [("2", 1), ("4", 99)]
    monkeypatch.setattr(text_rows, "_LONG_LINE", 1 << 40)  # the wrong twin: no line is cut
    with pytest.raises((CannotOpen, duckdb.Error)):
        many_fields(tmp_path)


def test_a_long_line_is_split_as_a_short_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where it has more quotes than a line may have fields."""
    dice, signs = dice_of(SEED), (b"a", b'"', b'""', b'"', b'""', b",")
    body = [b"a,b,c", *(b"".join(dice.choices(signs, k=90)) for _ in range(100))]
    inside = [b"".join(dice.choices((b"a", b'""', b","), k=90)) for _ in range(100)]
    body += [b'"' + each + b'",x,"' + each[::-1] + b'"' for each in inside]
    short = read(tmp_path, TEXTS, a=b"\n".join(body))
    monkeypatch.setattr(text_rows, "_LONG_LINE", 8)
    monkeypatch.setattr(text_rows, "_MANY_FIELDS", 50)
    assert read(tmp_path, TEXTS, a=b"\n".join(body)) == short
    assert sum(row[1] == "x" for row in short) >= len(inside)


@pytest.mark.full("reads long files")
def test_a_few_very_long_lines_take_little_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Or a question fails after its charge, where somebody has one more. Later fields stay."""
    path, text = tmp_path / "a.csv", b"x" * 8_000_000
    path.write_bytes(b"a,b\n" + b"".join(b"%d%b,%d\n" % (n, text, n) for n in range(8)))
    sql = "SELECT count(DISTINCT a), min(length(a)), max(b) FROM t"
    assert rows_of(path, TEXTS, sql, memory="120MB") == [(8, LONGEST_TEXT, "7")]
    monkeypatch.setattr(text_lines, "short_line", lambda line, *_: line)  # the wrong twin
    with pytest.raises((CannotOpen, duckdb.Error)):
        rows_of(path, TEXTS, sql, memory="120MB")


def cut_otherwise(path: Path, dice: Random, tries: int) -> int:
    """The number of files of which short texts are not those of the whole lines."""
    wrong = 0
    for quote, delimiter, most in [('"', ",", 3), ("'", ";", 5), ("", ",", 4)] * tries:
        ends = (delimiter, quote, quote * 2, delimiter + quote, quote + delimiter)
        signs = ("a", "\xe9", "aaaa", " ", "\x1f", "NA", *ends)
        f = replace(TEXTS, delimiter=delimiter, quote=quote, null_words=("", "NA"))
        body = ("".join(dice.choices(signs, k=dice.choice((2, 9, 30)))) for _ in range(60))
        path.write_text("\n".join([delimiter.join("abc"), *body]), encoding="utf-8")
        whole, cut = rows_of(path, f), rows_of(path, f, longest=most)
        wrong += [tuple(x and x[:most] for x in row) for row in whole] != cut
    return wrong


@pytest.mark.full("draws random texts")
def test_fields_of_a_long_line_are_cut_each(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert cut_otherwise(tmp_path / "a.csv", dice_of(SEED), 1) == 0
    plain = lambda line, f: line.split(f.delimiter)  # noqa: E731 - the wrong twin
    monkeypatch.setattr(text_lines, "_fields", plain)
    assert cut_otherwise(tmp_path / "a.csv", dice_of(SEED), 1) == 2  # those with quotes


def test_zstd_needs_a_python_that_has_it(tmp_path: Path) -> None:
    path = tmp_path / "a.csv.zst"
    if sys.version_info >= (3, 14):
        from compression import zstd  # noqa: PLC0415

        path.write_bytes(zstd.compress(b"a,b\n1,2\n"))
        assert rows_of(path, TEXTS) == [("1", "2")]
    else:
        path.write_bytes(b"\x28\xb5\x2f\xfd\x00\x58\x01\x00\x00")
        with pytest.raises(CannotOpen, match="zstd"):
            rows_of(path, TEXTS)


def test_a_damaged_archive_is_refused(tmp_path: Path) -> None:
    packed = tmp_path / "a.csv.gz"
    packed.write_bytes(gzip.compress(b"a,b\n" + b"1,2\n" * 9999)[:-9])
    with pytest.raises(CannotOpen, match="unreadable"):
        rows_of(packed, TEXTS)


# --- the law: what one line holds changes no other row ---

PIECES = (
    *(b"a", b'"', b'""', b",", b"\x00", b"\xff", b"\xc3\xa9", b"\xc3", b"#", b"\\", b"'", b" "),
    *(b"NULL", b"\xef\xbb\xbf", b"\x1a", b"\x1f", b"\x85", b'"x"', b"2024-01-05", b"-1.5", b"1"),
    *("\u2028\U0001f600".encode(), b"xyz" * 40, b"nan", b"infinity", b"25:00"),
)
Read = Callable[[Path], list[tuple[Any, ...]]]


def dice_of(seed: int) -> Random:
    return Random(seed)  # noqa: S311


def lines(dice: Random, count: int) -> list[bytes]:
    return [b"".join(dice.choices(PIECES, k=dice.choice((1, 3, 9, 30)))) for _ in range(count)]


def regular(dice: Random, day: str = "01/05/2024") -> bytes:
    """A line as most are; its day may be read in two ways."""
    row = (dice.randrange(90), "1.50", "2.5", day, "yes", "2024-01-05 10:00:00", "10:00")
    return ",".join(map(str, row)).encode()


def one_line(dice: Random) -> bytes:
    """Any bytes, or a line that is regular but for one field."""
    odd = regular(dice, dice.choice(("02/13/2024", "A-1", '"open', "\x00", "")))
    return dice.choice((*lines(dice, 1), odd))


def moved(folder: Path, dice: Random, reads: Read, tries: int = 40) -> Iterator[str]:
    """Yield the tries of files that differ in one line in which a row of another line differs."""
    path = folder / "t.csv"
    header = ",".join(column.name for column in TYPED.columns).encode()
    for n in range(tries):
        end, count = dice.choice((b"\n", b"\r\n")), dice.choice((1, 5, 40))
        odd = dice.choice((0, 0.3))
        body = [one_line(dice) if dice.random() < odd else regular(dice) for _ in range(count)]
        own = dice.randrange(len(body))
        worlds = []
        for line in (one_line(dice), one_line(dice), None):
            whole = [*body[:own], *([] if line is None else [line]), *body[own + 1 :]]
            path.write_bytes(end.join([header, *whole]) + dice.choice((b"", end)))
            worlds.append(Counter(map(repr, reads(path))))
        without = worlds.pop()
        if any((without - world).total() or (world - without).total() > 1 for world in worlds):
            yield f"{n}: {body[own]!r}"


SEED = 7
TRIES = pytest.mark.parametrize("tries", [12, pytest.param(400, marks=pytest.mark.campaign)])


def as_dpsql(path: Path) -> list[tuple[Any, ...]]:
    return rows_of(path, TYPED)


def as_sniffed(path: Path) -> list[tuple[Any, ...]]:
    with duckdb.connect() as connection:
        try:
            sql = f"SELECT * FROM read_csv('{path}', ignore_errors = true)"
            return connection.execute(sql).fetchall()
        except duckdb.Error:
            return []


@pytest.mark.full("draws random texts")
@TRIES
def test_a_line_changes_its_own_row_alone(tmp_path: Path, tries: int) -> None:
    assert [*moved(tmp_path, dice_of(SEED), as_dpsql, tries)] == []


def test_wrong_twin_types_of_rows_are_seen(tmp_path: Path) -> None:
    assert any(moved(tmp_path, dice_of(SEED), as_sniffed))


def test_wrong_twin_a_quote_that_spans_lines_is_seen(tmp_path: Path) -> None:
    spanning = replace(TYPED, multiline=True)
    assert any(moved(tmp_path, dice_of(SEED), lambda path: rows_of(path, spanning)))


def differing_ends(folder: Path, dice: Random, tries: int = 40) -> Iterator[int]:
    """Yield the tries in which line ends of several kinds give other rows than one kind."""
    path, ends = folder / "t.csv", (b"\r", b"\n", b"\r\n")
    for n in range(tries):
        body = [b"a,b", *lines(dice, 20)]
        path.write_bytes(b"".join(line + dice.choice(ends) for line in body))
        rows = rows_of(path, TEXTS)
        path.write_bytes(b"".join(line + b"\n" for line in body))
        if Counter(rows) != Counter(rows_of(path, TEXTS)):
            yield n


@pytest.mark.full("draws random texts")
@TRIES
def test_line_ends_of_several_kinds_end_lines(tmp_path: Path, tries: int) -> None:
    assert [*differing_ends(tmp_path, dice_of(SEED), tries)] == []


def test_wrong_twin_lines_that_are_not_mended_are_seen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(text_lines, "_is_clean", lambda _blocks: True)
    assert next(differing_ends(tmp_path, dice_of(SEED)), None) is not None


@pytest.mark.full("starts processes")
def test_what_is_read_does_not_depend_on_which_columns_are_asked_for(tmp_path: Path) -> None:
    path, dice = tmp_path / "t.csv", dice_of(SEED)
    header = ",".join(column.name for column in TYPED.columns).encode()
    path.write_bytes(b"\n".join([header, *lines(dice, 300)]))
    counts = {
        tuple(rows_of(path, TYPED, sql))
        for sql in (
            "SELECT COUNT(*) FROM t",
            "SELECT COUNT(*) FROM t WHERE x IS NULL OR x IS NOT NULL",
            "SELECT SUM(CASE WHEN day IS NULL THEN 1 ELSE 1 END) FROM t",
        )
    }
    assert counts == {((sum(1 for line in re.split(rb"\n|\r", path.read_bytes())[1:] if line),),)}


# --- policies and drafts ---

POLICY = """
[database]
engine = "duckdb"
files = { people = "people.csv" }
[privacy_unit]
table = "people"
key = "person_id"
[tables.people]
access = "private"
key = "person_id"
file = { null_words = ["", "NA"] }
[tables.people.columns]
person_id = { type = "VARCHAR" }
age = { type = "BIGINT", bounds = [0, 100], nullable = true }
day = { type = "DATE", format = ["%d.%m.%Y", "%Y-%m-%d"], nullable = true }
[budgets.default]
epsilon = 1000.0
delta = 1e-3
query_epsilon = 100.0
max_query_epsilon = 100.0
[analysts.ana]
budget = "default"
"""
PEOPLE = "person_id,age,day,note\n" + "".join(
    f"p{n},{n % 90},0{n % 9 + 1}.02.2024,x\n" for n in range(300)
)


def policy(folder: Path, *changes: tuple[str, str], people: str = PEOPLE) -> str:
    text = POLICY
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    (folder / "people.csv").write_text(people, encoding="utf-8")
    (folder / "dpsql.toml").write_text(text, encoding="utf-8")
    return str(folder / "dpsql.toml")


def count(path: str, where: str = "true") -> float:
    with Proxy.open(path) as proxy:
        ((number,),) = proxy.ask(request(f"SELECT COUNT(*) AS n FROM people WHERE {where}")).rows
    return float(number)


@pytest.mark.full("starts processes")
def test_a_policy_over_text_answers(tmp_path: Path) -> None:
    path = policy(tmp_path)
    assert count(path, "day < DATE '2024-02-04'") == pytest.approx(102, abs=4)
    assert not any(review.fails for review in check_policy(path).reviews)


@pytest.mark.full("starts processes")
def test_check_counts_what_does_not_fit(tmp_path: Path) -> None:
    odd = "p300,old,2024-02-30,x\np301,NA,,x\np302,1,2024-02-01\np303,1,2024-02-01,x,y\n"
    path = policy(tmp_path, people=PEOPLE + odd)
    reviews = {r.finding.id: r.finding.rows for r in check_policy(path).reviews if r.fails}
    expected = {"unread:people.age": 1, "unread:people.day": 1, "many:people": 1, "few:people": 1}
    assert reviews == expected
    assert count(path) == pytest.approx(304, abs=2)


@pytest.mark.full("starts processes")
def test_check_fails_on_an_open_quote_where_quotes_reach_over_lines(tmp_path: Path) -> None:
    several = 'file = { multiline = true, null_words = ["", "NA"] }'
    change = ('file = { null_words = ["", "NA"] }', several)
    whole = check_policy(policy(tmp_path, change, people=PEOPLE + 'p300,1,,"a\nb"\n'))
    assert not any(review.fails for review in whole.reviews)
    broken = check_policy(policy(tmp_path, change, people=PEOPLE + 'p300,1,,"a\n'))
    assert "quotes:people" in {review.finding.id for review in broken.reviews if review.fails}


WRONG = {
    "no section": ('file = { null_words = ["", "NA"] }\n', "", "nothing says how its lines"),
    "a type": ('type = "BIGINT"', 'type = "MONEY"', "no type of a column of files"),
    "a delimiter": ("file = {", 'file = { delimiter = ";;",', "divides no fields"),
    "a key": ("file = {", 'file = { delimeter = ";",', "Unknown key delimeter"),
    "one sign for two": ("file = {", 'file = { thousands = ".",', "are one sign"),
    "one sign around and between": ("file = {", "file = { delimiter = '\"',", "are one sign"),
    "a form of numbers": ('type = "BIGINT"', 'type = "BIGINT", format = ["%Y"]', "reads dates"),
    "a form without a type": ('type = "DATE", ', "", "format needs a type"),
    "an encoding": ("file = {", 'file = { encoding = "ebcdic",', "encoding is"),
    "names of no header": ("file = {", "file = { header = false,", "only a row says"),
    "several lines": ("file = {", 'file = { multiline = true, quote = "",', "need quotes"),
    "Parquet": ('"people.csv"', '"people.parquet"', "is Parquet"),
    "no file": ('files = { people = "people.csv" }', 'path = "people.duckdb"', "is no data file"),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_is_wrong_is_refused_with_its_line(case: str, tmp_path: Path) -> None:
    old, new, why = WRONG[case]
    with pytest.raises(PolicyError, match=why) as refused:
        load(policy(tmp_path, (old, new)))
    assert refused.value.line is not None


@pytest.mark.full("starts processes")
def test_a_format_is_part_of_what_answers_depend_on(tmp_path: Path) -> None:
    versions = set[str]()
    for change in ((), (('"NA"]', '"-"]'),), (('"%d.%m.%Y", ', ""),)):
        with Proxy.open(policy(tmp_path, *change)) as proxy:
            versions.add(proxy.policy.version)
    assert len(versions) == 3


# --- drafts ---


def init(folder: Path, *args: str, code: int = 0) -> str:
    with chdir(folder):
        done = CliRunner().invoke(main, ["init", *args, "-o", "-"])
    assert done.exit_code == code, done.output
    return done.output


@pytest.mark.full("starts processes")
def test_init_reads_the_first_line_alone(tmp_path: Path) -> None:
    drafts = set[str]()
    for rows in (PEOPLE.partition("\n")[2], "", "SECRET,x\n" * 9):
        (tmp_path / "people.csv").write_text(f"person_id,age,day,note\n{rows}", encoding="utf-8")
        drafts.add(init(tmp_path, "people.csv"))
    (text,) = drafts
    assert text.count('type = "DECIDE"') == 4
    assert all(f'{key} = "DECIDE"' in text for key in ("decimal", "dates", "null_words"))
    named = init(tmp_path, "people.csv", "--yes")
    assert '"DECIDE"' not in named
    assert 'day = { type = "DATE" }' in named


@pytest.mark.full("starts processes")
def test_init_looks_at_rows_where_it_is_told_to_and_says_so(tmp_path: Path) -> None:
    rows = "".join(f"{n};{n},5;0{n % 9 + 1}.02.2024;NA;x\n" for n in range(99))
    (tmp_path / "people.csv").write_text(f"person_id;spend;day;age;note\n{rows}", encoding="utf-8")
    text = init(tmp_path, "people.csv", "--look", "--yes")
    assert "they become public" in text
    marked = {
        line.partition("#")[0].strip() for line in text.splitlines() if "from the data" in line
    }
    assert {'decimal = ","', 'dates = "%d.%m.%Y"', 'null_words = ["", "NA"]'} <= marked
    assert {
        'spend = { type = "DOUBLE", private_bounds = true }',
        'day = { type = "DATE" }',
    } <= marked
    assert 'person_id = { type = "BIGINT" }' in marked


FIRST_LINES = {
    "sep=": (b"sep=;\nperson_id;age\n1;2\n", ('delimiter = ";"', "skip = 1")),
    "tabs": (b"person_id\tage\n1\t2\n", ('delimiter = "\\t"',)),
    "utf-16": ("person_id,age\n1,2\n".encode("utf-16"), ('encoding = "utf-16"',)),
    "latin-1": (b"person_id,stra\xdfe\n1,2\n", ('encoding = "windows-1252"', "straße")),
    "bom": (b"\xef\xbb\xbfperson_id,age\n1,2\n", ("person_id = { type",)),
}


@pytest.mark.parametrize("case", FIRST_LINES)
def test_the_first_line_says_how_it_is_written(case: str, tmp_path: Path) -> None:
    body, expected = FIRST_LINES[case]
    (tmp_path / "people.csv").write_bytes(body)
    text = init(tmp_path, "people.csv", "--yes")
    assert all(each in text for each in expected), text


@pytest.mark.parametrize("name", ["people.txt", "people.jsonl", "people.csv", "people.csv.zst"])
def test_what_is_no_data_file_is_refused_with_what_is(name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(b"" if name == "people.csv" else b"\x28\xb5\x2f\xfd\x00\x58\x01")
    text = init(tmp_path, name, code=ExitCode.UNREACHABLE)
    assert re.search(r"is empty|\.csv or \.tsv|zstd", text)
    assert "is a database" not in text


@pytest.mark.full("starts processes")
def test_an_update_asks_for_the_type_of_a_new_column_and_rewrites_no_format(tmp_path: Path) -> None:
    path = policy(tmp_path, people=PEOPLE.replace("note", "ward"))
    before = Path(path).read_text(encoding="utf-8")
    with chdir(tmp_path):
        done = CliRunner().invoke(main, ["init", "--update"])
    assert done.exit_code == 0, done.output
    added = '# NEW: ward = { type = "DECIDE", nullable = true }  # VARCHAR, by its name\n'
    after = Path(path).read_text(encoding="utf-8")
    assert added in after
    assert after.replace(added, "") == before
