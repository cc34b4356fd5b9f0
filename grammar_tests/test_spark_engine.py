"""Spark Connect as the owner's database: the same integers, files that stay the same, silent."""

from __future__ import annotations

import os
import re
import shutil
import warnings
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from datetime import date
from importlib.metadata import version
from itertools import product
from math import ceil, sqrt
from pathlib import Path
from threading import Timer

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

from dpsql.compiler.plan.lattices import Lattice
from dpsql.compiler.plan.measurement_kinds import (
    ClippedSum,
    MeanVote,
    RangeVote,
    RatioVote,
    ScaledTotal,
    Vote,
)
from dpsql.dialects.duckdb.expression_sql import expression as duckdb_expression
from dpsql.dialects.spark import spark_expressions, spark_functions, spark_lattice, spark_norms
from dpsql.dialects.spark.spark_dialect import SPARK
from dpsql.dialects.spark.spark_expressions import expression
from dpsql.dialects.spark.spark_functions import STEPS
from dpsql.engines import EngineFailed, Interrupted, ScratchTable, Stop, Unrun
from dpsql.engines.duckdb.found_files import parquet_of
from dpsql.engines.reading_worker import CannotRead
from dpsql.engines.spark.spark_engine import SparkEngine
from dpsql.engines.spark.spark_server import SparkSettings
from dpsql.functions.dates import LENGTHS
from dpsql.interfaces.cli import main
from dpsql.interfaces.wordings import ExitCode
from dpsql.model.algebra import Field
from dpsql.model.errors import DataChanged, PolicyError, Refused, Unreachable
from dpsql.model.resources import Database, Limits
from dpsql.model.tree import (
    BOOLEAN,
    DATE,
    DOUBLE,
    INTEGER,
    TIMESTAMP,
    VARCHAR,
    Call,
    Cast,
    Literal,
    Ref,
    decimal,
)
from dpsql.model.vocabulary import Norm
from dpsql.policy.load import load
from dpsql.preparation.engine_kinds import opened
from dpsql.proxy import Proxy
from grammar_tests import world
from grammar_tests.proxy_kit import policy, request
from grammar_tests.spark_kit import compared, files_of, running
from grammar_tests.test_two_engines import ACCEPTED, LARGEST, POLLED
from grammar_tests.two_engines import Comparison

pytestmark = pytest.mark.full("a Spark server runs beside it")

EVERY = 90
"""One of so many cases is compared here, all of them by `python -m benchmarks.engines`."""
SAIL_FAILS = {"ties are broken by the whole row"}
"""Cases that fail on Sail 0.7, whose planner rejects its own sort for ranks by an expression."""
OF_ONES_OWN = "DPSQL_SPARK_URL"
"""Where a Spark is that `pytest -m tools` may ask."""
SECRET = "it's the $secret of a `row` \\ 'ä'"  # noqa: S105


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with running() as started:
        yield started.url


@pytest.fixture(scope="module")
def both(url: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Comparison]:
    with compared(url, tmp_path_factory.mktemp("worlds")) as comparison:
        yield comparison


def test_equal_plans_give_equal_integers(both: Comparison) -> None:
    for case in ACCEPTED[::EVERY]:
        if case.title not in SAIL_FAILS:
            both.ask(case)
    assert both.differences == []
    assert both.outcomes["the same"] > len(ACCEPTED) / EVERY / 2


APART = (
    "SELECT COUNT(*) FILTER (WHERE discount IS NOT DISTINCT FROM 0.5) AS n,"
    " COUNT(*) FILTER (WHERE amount IS DISTINCT FROM 7.25) AS m FROM orders"
)


@pytest.mark.parametrize("twin", [False, True])
def test_statistics_without_nan_hide_nobody(
    url: str,
    tmp_path: Path,
    twin: bool,  # noqa: FBT001
) -> None:
    """A row group with NaN is read or not by the largest of its other values."""
    field = Field(0, "x", DOUBLE)
    read = 'CAST(t1."x" AS DOUBLE)' if twin else spark_expressions.column_sql("t1", field, None)
    counts = []
    for neighbour, more in enumerate(([], [200.0])):
        path = f"{tmp_path}/{neighbour}.parquet"
        pq.write_table(pa.table({"x": [5.0, *[float("nan")] * 500, *more]}), path)
        database = Database("spark", files=(("t", path),), settings=(("url", url),))
        with closing(SparkEngine(database, Limits(memory="2GB"))) as one:
            ((n,),) = one.rows(f'SELECT COUNT(*) FROM "t" AS t1 WHERE {read} > 100D')
            counts.append(int(n))
    assert counts == ([0, 501] if twin else [0, 1])


WRONG = {
    "a text": pa.Array.from_buffers(
        pa.string(),
        2,
        [None, pa.array([0, 2, 4], pa.int32()).buffers()[1], pa.py_buffer(b"ab\xff\xfe")],
    ),
    "a time": pa.array([0, 2**63 - 1], pa.timestamp("us")),
    "a moment": pa.array([-(2**63) + 1, 0], pa.timestamp("us", tz="UTC")),
    "milliseconds": pa.array([0, 2**62], pa.timestamp("ms")),
    "nothing": pa.array([0, None], pa.timestamp("us")),
}


@pytest.mark.parametrize("what", WRONG)
def test_values_on_which_statements_fail_are_refused_at_the_start(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    path = f"{tmp_path}/odd.parquet"
    pq.write_table(pa.table({"n": [1, 2], "x": WRONG[what]}), path)
    database = Database("spark", files=(("odd", path),), settings=(("url", url),))
    with closing(SparkEngine(database, Limits(memory="2GB"))) as one:
        if what == "nothing":
            assert one.schema().table("odd") is not None
            return
        with pytest.raises(Unreachable, match="not UTF-8, or times outside of years"):
            one.schema()
    monkeypatch.setattr(SparkEngine, "verify", lambda _engine: None)
    with closing(SparkEngine(database, Limits(memory="2GB"))) as twin:
        twin.schema()
        with pytest.raises(EngineFailed):
            twin.rows('SELECT "n", CAST("x" AS DATE) FROM "odd"')


def test_what_is_told_apart_is_planned_wherever_it_is(
    both: Comparison, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The wrong twin: Sail plans DISTINCT FROM in conditions of rows alone."""
    case = replace(ACCEPTED[0], sql=APART)
    before = both.outcomes["the same"]
    both.ask(case)
    assert both.outcomes["the same"] == before + 1
    assert both.differences == []
    for name in ("is_distinct", "is_not_distinct"):
        monkeypatch.delitem(spark_functions.FUNCTIONS, name)
    with pytest.raises(EngineFailed):
        both.ask(case)


def test_wrong_twin_a_clip_that_is_gone_is_a_difference(
    both: Comparison, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spark_lattice, "_cases", lambda x, *_: f"WHEN FALSE THEN 0 ELSE {x} END")
    (case,) = (case for case in ACCEPTED if case.title == "sum of a column with declared bounds")
    both.ask(case)
    assert both.differences.pop() == case.id


VOTED = tuple(
    case
    for case in POLLED
    if case.title in ("a share of the rows", "an average asks for its mean first")
)


def test_votes_about_people_are_the_same(both: Comparison) -> None:
    before = both.outcomes["the same"]
    cases = [*VOTED, replace(POLLED[0], title="of their largest rows", sql=LARGEST)]
    for case in cases:
        both.ask(case)
    assert both.differences == []
    assert both.votes == {Vote, MeanVote, RangeVote, RatioVote}
    assert both.outcomes["the same"] == before + len(cases)


SETS = tuple(
    case
    for case in ACCEPTED
    if case.title
    in (
        "how often a row is there in both",
        "rows of people that are there once more",
        "NOT IN one's own rows, of which NULL may be one",
        "NOT IN of NULL is true where there is none",
        "NOT IN leaves out no listed key that may occur",
    )
)


def test_rows_that_others_hold_are_found_as_often_as_they_are_and_with_null(
    both: Comparison,
) -> None:
    before = both.outcomes["the same"]
    for case in SETS:
        both.ask(case)
    assert both.differences == []
    assert both.outcomes["the same"] == before + len(SETS) > before


def test_wrong_twin_of_an_in_that_knows_no_null(
    both: Comparison, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        spark_expressions,
        "_by_three_tests",
        lambda match: spark_expressions._where_equal(match, match.mark),
    )
    (case,) = (case for case in SETS if case.title.startswith("NOT IN one's own"))
    both.ask(case)
    assert both.differences.pop() == case.id


def _part(norm: Norm, largest: int, bound: int) -> ScaledTotal:
    total = ClippedSum(
        argument=Ref(0, INTEGER),
        condition=None,
        lattice=Lattice(10, 0),
        lower=-largest,
        upper=largest,
        total_lower=-largest,
        total_upper=largest,
    )
    return ScaledTotal(total, norm, bound, 0)


def _scaled(engine: SparkEngine, part: ScaledTotal, totals: list[int]) -> list[int]:
    """What is left of the totals of one unit in that many groups."""
    rows = f"SELECT 1 AS u, p0 FROM (VALUES {', '.join(f'({n}L)' for n in totals)}) AS v(p0)"
    for columns in spark_norms.scaled({0: part}):
        rows = f"SELECT *, {columns} FROM ({rows}) AS s"
    return sorted(int(row[0]) for row in engine.rows(f"SELECT r0 FROM ({rows}) AS s"))


def _expected(part: ScaledTotal, totals: list[int]) -> list[int]:
    """The same in whole numbers of any size (PRIVACY.md R73)."""
    norm = sum(map(abs, totals))
    if part.norm is Norm.L2:
        bits = max(0, max(map(abs, totals)).bit_length() - 44)
        squares = sum((-(-abs(n) // 2**bits)) ** 2 for n in totals)
        norm = (ceil(sqrt(squares) * (1 + 2**-40)) + 1) * 2**bits
    norm = max(norm, part.bound)
    return sorted((abs(n) * part.bound // norm) * (-1 if n < 0 else 1) for n in totals)


HUGE = 2**62 - 1
NORMS = [
    (_part(Norm.L1, HUGE, HUGE), [HUGE, -HUGE, 2**53 + 1, 1, 0]),
    (_part(Norm.L1, HUGE, HUGE - 2), [HUGE - 1, -1]),
    (_part(Norm.L1, HUGE, 3 * 10**17 + 1), [HUGE, -HUGE + 12345, 10**17 + 7]),
    (_part(Norm.L1, 2**40, 7), [5, -2, 0]),
    (_part(Norm.L1, 2**40, 7), [5, -2, 1]),
    (_part(Norm.L2, HUGE, 10**18 + 1), [HUGE, -HUGE, 10**15]),
    (_part(Norm.L2, 1000, 100), [100, -99, 1]),
]


def test_totals_are_scaled_exactly_whatever_their_size(engine: SparkEngine) -> None:
    for part, totals in NORMS:
        assert _scaled(engine, part, totals) == _expected(part, totals), (part.norm, totals)


def test_wrong_twin_of_a_quotient_that_is_rounded_once(
    engine: SparkEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        spark_norms,
        "_divided",
        lambda _part, n: [f"CAST(q{n} AS DECIMAL(20,0)) AS r{n}"],
    )
    wrong = [_scaled(engine, part, totals) != _expected(part, totals) for part, totals in NORMS]
    assert any(wrong)


# --- one engine over one file ---


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("people")
    with duckdb.connect() as duck:
        duck.execute("CREATE TABLE people (id BIGINT, name TEXT, born DATE, x UTINYINT, y UUID)")
        rows = [(1, SECRET, "2000-01-01", 1), (2, "b", "12000-01-01", 2)]
        duck.executemany("INSERT INTO people VALUES (?, ?, ?, ?, uuid())", rows)
        return Path(files_of(duck, folder / "files")["people"])


@pytest.fixture(scope="module")
def engine(url: str, file: Path) -> Iterator[SparkEngine]:
    files = (("people", str(file)),)
    with SparkEngine(Database("spark", files=files, settings=(("url", url),)), Limits()) as one:
        one.schema()
        yield one


def test_columns_have_the_types_of_the_file(engine: SparkEngine) -> None:
    (people,) = engine.schema().tables
    types = {column.name: (str(column.type), column.bits) for column in people.columns}
    assert types["id"] == ("INTEGER", 64)
    assert (types["name"][0], types["born"][0], types["y"][0]) == ("VARCHAR", "DATE", "None")
    assert (people.unique_keys, people.primary_key) == ((), ())


def test_whole_numbers_and_keys_are_exact(engine: SparkEngine) -> None:
    sql = f'SELECT "id", "name", {2**100 + 1}BD, CAST(NULL AS BIGINT) FROM "people" ORDER BY 1'
    exact = engine.aggregate(sql, 2, 2, 0)
    assert exact.keys == [(1, SECRET), (2, "b")]
    assert [part.tolist() for part in exact.parts] == [[2**100 + 1] * 2, [0, 0]]
    by_day = engine.aggregate('SELECT "born", 1 FROM "people"', 1, 1, 0)
    assert by_day.keys == [(date(2000, 1, 1),)]  # no value of ours is in the year 12000
    assert engine.rows('SELECT max("born") FROM "people"') == [(date.max,)]


A, B = Ref(1, TIMESTAMP), Ref(2, TIMESTAMP)
TWO_HOURS = Literal(-7_200_000_001, INTEGER)
EARLIER = Call("date_add", (Literal("microseconds", VARCHAR), TWO_HOURS, B), TIMESTAMP)
MOMENTS = (
    *("0001-01-01 00:00:00", "1582-10-10 12:34:56.789012", "1969-12-31 23:59:59.999999"),
    *("1970-01-01 00:00:00", "2024-02-29 23:59:59.5", "9999-12-31 23:59:59.999999"),
)
OF_MOMENTS = [
    *(Call("date_diff", (Literal(part, VARCHAR), A, B), INTEGER) for part in (*STEPS, "week")),
    *(Call("date_sub", (Literal(part, VARCHAR), A, B), INTEGER) for part in LENGTHS),
    *(Call("date_diff", (Literal("hour", VARCHAR), Cast(A, DATE), B), INTEGER),),
    *(Call(name, (A,), kind) for name, kind in (("epoch", DOUBLE), ("epoch_us", INTEGER))),
    *(Call("last_day", (day,), DATE) for day in (A, Cast(B, DATE))),
    *(Call("extract", (Literal(part, VARCHAR), EARLIER), INTEGER) for part in ("hour", "minute")),
]


def of_moments(engine: SparkEngine) -> tuple[object, object]:
    """What both engines make of each pair of moments."""
    pairs = list(product((*map("'{}'".format, MOMENTS), "NULL"), repeat=2))
    columns: list[list[str]] = [[], []]
    for n, call in enumerate(OF_MOMENTS):
        for texts, said in zip(columns, (duckdb_expression, expression), strict=True):
            texts.append(f"{said(call, lambda ref: 'ab'[ref.id - 1])} AS r{n}")
    values = ", ".join(f"({n}, {a}, {b})" for n, (a, b) in enumerate(pairs))
    statements: list[str] = []
    for texts, moment in zip(columns, ("TIMESTAMP", "TIMESTAMP_NTZ"), strict=True):
        ends = f"CAST(x AS {moment}) AS a, CAST(y AS {moment}) AS b"
        of = f"(SELECT n, {ends} FROM (VALUES {values}) AS v(n, x, y)) AS t"
        statements.append(f"SELECT {', '.join(texts)} FROM {of} ORDER BY n")
    ours, theirs = statements
    with duckdb.connect() as duck:
        return duck.execute(ours).fetchall(), list(engine.rows(theirs))


def test_what_is_made_of_moments_is_what_duckdb_makes(engine: SparkEngine) -> None:
    ours, theirs = of_moments(engine)
    assert ours == theirs


def test_wrong_twin_of_parts_that_are_cut_toward_1970(
    engine: SparkEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spark_functions, "BEFORE_1970", 0)
    ours, theirs = of_moments(engine)
    assert ours != theirs


def test_stages_and_texts_are_what_they_are(engine: SparkEngine) -> None:
    rows = [(1, SECRET), (2**70, None)]
    table = ScratchTable("stage_0", (("c0", INTEGER), ("c1", VARCHAR)), rows)
    assert engine.evaluate('SELECT "c0", "c1" FROM "stage_0"', [table]) == rows
    none = ScratchTable("stage_0", table.columns, [])
    assert engine.evaluate('SELECT "c0", "c1" FROM "stage_0"', [none]) == []
    key = 2**64 - 1
    sql = "SELECT 1, CAST($sampling_key AS DECIMAL(38,0)), char_length('$sampling_key')"
    assert [part.tolist() for part in engine.aggregate(sql, 1, 2, key).parts] == [[key], [13]]


A, B = Ref(0, DOUBLE), Ref(1, DOUBLE)
SHORT, LONG = Ref(0, decimal(18, 4)), Ref(1, decimal(38, 30))
SMALL, WHOLE = Ref(0, decimal(5, 2)), Ref(1, INTEGER)
WIDE = "VALUES (99999999999999.9999BD, 0.000000000000000000000000000001BD), (1.5BD, 1.5BD)"
ON_WHICH_SAIL_FAILS = (
    (Call("div", (A, B), DOUBLE), "t.a / NULLIF(t.b, 0D)", "VALUES (1D, -0.0D), (6D, 3D)"),
    (Call("eq", (SHORT, LONG), BOOLEAN), "t.a = t.b", WIDE),
    (
        Call("case", (Call("is_null", (SMALL,), BOOLEAN), SMALL, WHOLE), decimal(21, 2)),
        "CASE WHEN t.a IS NULL THEN t.a ELSE t.b END",
        "VALUES (1.50BD, 9223372036854775807L), (1.50BD, 2L)",
    ),
)
"""An expression, as one might write it, and rows."""


@pytest.mark.parametrize(("call", "plain", "rows"), ON_WHICH_SAIL_FAILS)
def test_both_zeros_and_wide_decimals_raise_nothing(
    engine: SparkEngine, call: Call, plain: str, rows: str
) -> None:
    printed = SPARK.expression(call, {0: "t.a", 1: "t.b"})
    first, second = engine.evaluate(f"SELECT {printed} FROM ({rows}) AS t(a, b)", ())
    assert first[0] in (None, float("-inf"), 2**63 - 1)
    assert second[0] == {"div": 2, "eq": True, "case": 2}[call.function]
    if version("pysail").startswith("0.7."):  # wrong twin: another server may not fail
        with pytest.raises(EngineFailed):
            engine.evaluate(f"SELECT {plain} FROM ({rows}) AS t(a, b)", ())


@pytest.mark.parametrize("sql", ["SELECT 1, 1.5BD", "SELECT 1, 1D", "SELECT 1", "SELECT x"])
def test_what_is_no_whole_number_fails(engine: SparkEngine, sql: str) -> None:
    with pytest.raises(EngineFailed):
        engine.aggregate(sql, 1, 1, 0)
    with pytest.raises(EngineFailed):
        engine.bind([Unrun(sql, shape=(1, 1))])


def test_no_text_of_the_server_comes_out(
    engine: SparkEngine, capfd: pytest.CaptureFixture[str]
) -> None:
    for sql in ('SELECT absent FROM "people"', "SELECT raise_error('a')", "SELEC"):
        with pytest.raises(EngineFailed) as caught:
            engine.rows(sql)
        error = caught.value
        assert (error.args, error.__cause__, error.__context__) == ((), None, None)
    assert capfd.readouterr() == ("", "")
    engine.bind([Unrun('SELECT "id" FROM "people"')])
    assert engine.few('SELECT "id" FROM "people"', 1) is None


def test_files_that_change_are_other_data(engine: SparkEngine, file: Path) -> None:
    identity = engine.schema().identity
    engine.ready(identity)
    before = file.stat()
    shutil.copy(file, file.with_suffix(".new"))
    file.with_suffix(".new").replace(file)
    for ask in (lambda: engine.rows('SELECT "id" FROM "people"'), lambda: engine.ready(identity)):
        with pytest.raises(DataChanged):
            ask()
    assert file.stat().st_ino != before.st_ino
    assert engine.schema().identity != identity
    engine.ready(engine.schema().identity)


def test_a_server_that_computes_otherwise_is_refused(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # pyspark's own
        from dpsql.engines.spark import spark_session  # noqa: PLC0415 - where it is installed

        settings = SparkSettings(url, "", "", (), "1GB")
        spark_session.SparkReading(settings).ping()
        with monkeypatch.context() as patch:
            patch.setattr(spark_session, "_TRUSTED", ("SELECT 2L % 2L = 1L",))
            with pytest.raises(CannotRead, match="untrusted"):
                spark_session.SparkReading(settings)
        monkeypatch.setattr(spark_session, "_FIRST", (5, 0))
        with pytest.raises(CannotRead, match="old"):
            spark_session.SparkReading(settings)


# --- a policy ---


def test_a_policy_is_drafted_of_it(url: str, file: Path, tmp_path: Path) -> None:
    parts = tmp_path / "data" / "visits"
    parts.mkdir(parents=True)
    for number in range(2):
        shutil.copy(file, parts / f"part-0000{number}.snappy.parquet")
    target = str(tmp_path / "dpsql.toml")
    options = ["--unit", "people.id", "--yes", "-o", target]
    done = CliRunner().invoke(main, ["init", url, str(file), str(tmp_path / "data"), *options])
    assert done.exit_code == 0, done.output
    draft = load(target)
    assert (draft.database.engine, draft.database.settings) == ("spark", (("url", url),))
    assert dict(draft.database.files) == {"people": str(file), "visits": str(parts)}
    assert dict(parquet_of([str(parts)])) == {"visits": str(parts)}
    for wrong in (str(file.parent / "p*.parquet"), "a=/x.csv"):
        refused = CliRunner().invoke(main, ["init", url, wrong, *options[:-1], "-"])
        assert refused.exit_code == ExitCode.UNREACHABLE, refused.output


def on(url: str, folder: Path, more: str = "") -> Path:
    with closing(world.build(world.well_behaved(), constraints=False)) as duck:
        files = files_of(duck, folder / "files")
    listed = ", ".join(f'{table} = "{path}"' for table, path in files.items())
    where = f'engine = "spark"\nurl = "{url}"\n{more}files = {{ {listed} }}'
    return policy(folder, ('engine = "duckdb"\npath = "shop.duckdb"', where))


def test_a_policy_names_it_and_questions_are_answered(url: str, tmp_path: Path) -> None:
    with Proxy.open(str(on(url, tmp_path))) as proxy:
        answer = proxy.ask(request("SELECT status, SUM(amount) AS s FROM orders GROUP BY status"))
        assert answer.receipt is not None
        assert proxy.ask(request("SELECT COUNT(*) AS n FROM countries")).rows == [(3,)]
        with pytest.raises(Refused, match="Spark"):
            proxy.ask(request("SELECT UPPER(city) AS c, COUNT(*) AS n FROM customers GROUP BY 1"))


def test_public_tables_may_be_in_another_engine(url: str, tmp_path: Path) -> None:
    path = on(url, tmp_path)
    text, public = path.read_text(), r'((?:countries|products) = "[^"]*"), '
    files = ", ".join(re.findall(public, text))
    beside = f'[database.public]\nengine = "duckdb"\nfiles = {{ {files} }}\n\n[privacy_unit]'
    asked = """SELECT k.region, COUNT(*) AS n FROM customers AS c JOIN countries AS k
        ON c.country = k.code WHERE k.code <> 'it''s "countries"' GROUP BY k.region"""
    answers = []
    for changed in (text, re.sub(public, "", text).replace("[privacy_unit]", beside)):
        path.write_text(changed)
        draft = load(str(path))
        with Proxy.over(draft, opened(draft)) as proxy:
            proxy.vault.sampler = lambda _law, draws: np.zeros(draws, dtype=np.int64)
            free = proxy.ask(request("SELECT COUNT(*) AS n, MAX(list_price) AS p FROM products"))
            answers.append([list(proxy.ask(request(asked)).rows), list(free.rows)])
    assert answers[0] == answers[1]
    assert "files = { customers" in path.read_text()


def test_no_token_stands_in_a_policy(tmp_path: Path) -> None:
    with pytest.raises(PolicyError, match="A token stands in no policy"):
        opened(load(str(on("sc://spark:15002/;token=x", tmp_path))))


def test_a_file_with_a_token_that_others_read_is_refused(url: str, tmp_path: Path) -> None:
    (tmp_path / "token").write_text("x")
    (tmp_path / "token").chmod(0o644)
    path = on(url, tmp_path, f'token_file = "{tmp_path / "token"}"\n')
    with closing(opened(load(str(path)))) as engine, pytest.raises(Exception, match="chmod 600"):
        engine.schema()


# --- a Spark of one's own ---


@pytest.mark.tools
def test_spark_says_the_same_and_stops(tmp_path: Path) -> None:
    if (where := os.environ.get(OF_ONES_OWN)) is None:
        pytest.skip(f"{OF_ONES_OWN} names no Spark Connect server")
    with compared(where, tmp_path / "worlds") as both:
        for case in ACCEPTED[:: EVERY // 9]:
            both.ask(case)
    assert both.differences == []
    with SparkEngine(Database("spark", settings=(("url", where),)), Limits()) as engine:
        engine.schema()
        stop = Stop()
        Timer(3, lambda: setattr(stop, "requested", True)).start()
        many = "SELECT id FROM range(100000000)"
        with pytest.raises(Interrupted):
            engine.rows(f"SELECT COUNT(*) FROM ({many}) a JOIN ({many}) b ON a.id < b.id", stop)
        assert engine.rows("SELECT 1") == [(1,)]
