"""Law 2 from the bytes of files on: neighbours differ in any bytes of one line, or in one row.

`dpsql init` drafts a policy from files of each format. The exact integers of questions, before
noise, differ by no more than claimed, and no expression over the columns raises (PRIVACY.md R100).
"""

from __future__ import annotations

import gzip
import struct
import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import chdir
from functools import cache
from itertools import islice
from math import inf, nan
from pathlib import Path
from random import Random
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

from dpsql.dialects.duckdb.duckdb_dialect import DUCKDB
from dpsql.dialects.duckdb.expression_sql import expression
from dpsql.engines.duckdb import text_rows
from dpsql.engines.duckdb.declared_schema import tables as declared
from dpsql.engines.duckdb.file_views import create_views
from dpsql.engines.duckdb.files import CannotOpen, Sources
from dpsql.functions.registry import REGISTRY
from dpsql.interfaces.cli import main
from dpsql.model.dataclass import replace
from dpsql.model.file_formats import FileColumn, FileFormat
from dpsql.model.schema import Schema
from dpsql.model.tree import INTERVAL, Call, Cast
from dpsql.policy.bind import bind
from dpsql.policy.load import load
from dpsql.preparation.public_data import PublicTables
from grammar_tests.function_checks import sources
from grammar_tests.function_samples import calls, column_of
from grammar_tests.laws import Counted, PlainEngine, compiled, integers, violation
from grammar_tests.test_text_files import PIECES

Row = tuple[str, Any]
"""A row: its key, "" where that is not known; and its line, or its file and values of Parquet."""
COLUMNS = {
    "person_id": "VARCHAR",
    "age": "BIGINT",
    "amount": "DOUBLE",
    "day": "DATE",
    "seen_at": "TIMESTAMP",
    "city": "VARCHAR",
    "is_vip": "BOOLEAN",
}
TEXTS = ("csv", "tsv", "csv.gz", *(["csv.zst"] if sys.version_info >= (3, 14) else []))
KINDS = (*TEXTS, "parquet")
QUESTIONS = (
    "SELECT COUNT(*) FROM people",
    "SELECT COUNT(age), COUNT(amount), COUNT(day), COUNT(seen_at), COUNT(is_vip) FROM people",
    "SELECT COUNT(*) FROM people WHERE day < DATE '2024-02-01'",
    "SELECT COUNT(*) FROM people WHERE amount > 10 OR age < 30",
    "SELECT COUNT(*) FROM people WHERE city > '9' AND seen_at IS NOT NULL",
    "SELECT SUM(age), SUM(amount) FROM people",
    "SELECT is_vip, COUNT(*) FROM people GROUP BY is_vip",
    "SELECT COUNT(DISTINCT city) FROM people",
    "SELECT COUNT(*) FROM people AS a JOIN people AS b ON a.person_id = b.person_id",
)


TRIES, EXPRESSIONS = 5, 10
"""Pairs of neighbours of each format in each run, and expressions that are evaluated over each."""
CLOSED = "closed"
"""What is said of files that are refused before any question."""


def dice_of(*seed: object) -> Random:
    return Random(repr(seed))  # noqa: S311 - a test's own choice


# --- rows and files ---


def regular(dice: Random, key: str, kind: str) -> bytes:
    """A line of text as most are, with dates that may be read in two ways."""
    day = f"2024-{dice.randrange(1, 13):02}-{dice.randrange(1, 29):02}"
    fields = (
        key,
        dice.randrange(90),
        f"{dice.random() * 20:.2f}",
        dice.choice((day, "01/05/2024")),
    )
    rest = (f"{day} 10:00:00", dice.choice(("Oslo", "9a", "")), dice.choice(("yes", "0")))
    return ("\t" if kind == "tsv" else ",").join(map(str, (*fields, *rest))).encode()


def any_line(dice: Random, kind: str) -> bytes:
    """Any bytes without a line end, or a line that is regular but for one piece."""
    if dice.random() < 0.5:
        return b"".join(dice.choices(PIECES, k=dice.choice((1, 3, 9, 30)))) or b"x"
    line = regular(dice, f"p{dice.randrange(12)}", kind)
    place = dice.randrange(len(line))
    return line[:place] + dice.choice(PIECES) + line[place + dice.choice((0, 1, 4)) :]


NUMBERS = (0, 1, -1, 41, 2**31, 2**62, -(2**62), 2**63 - 1, -(2**63))
NO_MOMENT = 2 - 2**63
"""Microseconds before the first TIMESTAMP: a file with such a value is refused."""
DAYS = (19_700, 19_800, 0, 2**31 - 1, -(2**31), -(2**31) + 1)
WORDS = (
    "Oslo",
    "",
    "9",
    "\x00",
    "\u2028",
    "\U0001f600" * 9,
    "nan",
    "1e400",
    "2024-02-30",
    "x" * 999,
)


def any_values(dice: Random, key: str | None) -> tuple[int, tuple[Any, ...]]:
    """A file of Parquet, and values of a row there: any that its types hold."""
    (bits,) = struct.unpack("<d", dice.randbytes(8))
    file, age = dice.randrange(2), dice.choice((*NUMBERS, None))
    if file and age is not None:
        age %= 2**31
    amount = dice.choice((bits, 0.0, -0.0, 12.5, inf, nan, None))
    moments = *(n for n in NUMBERS if n > NO_MOMENT), 1_706_000_000_000_000
    times = dice.choice((*DAYS, None)), dice.choice(moments)
    rest = dice.choice((*WORDS, None)), dice.choice((True, False, None))
    return file, (key, age, amount, *times, *rest)


def write(folder: Path, kind: str, rows: Sequence[Row]) -> None:
    """The files of the table people: one of text, or two of Parquet whose types differ."""
    if kind == "parquet":
        times = pa.date32(), pa.timestamp("us")
        for file, age in enumerate((pa.int64(), pa.int32())):
            mine = [content[1] for _key, content in rows if content[0] == file]
            kinds = (pa.string(), age, pa.float64(), *times, pa.string(), pa.bool_())
            columns = [pa.array([r[c] for r in mine], each) for c, each in enumerate(kinds)]
            table = pa.table(dict(zip(COLUMNS, columns, strict=True)))
            pq.write_table(table, folder / f"people{file}.parquet", row_group_size=4)
        return
    separator = "\t" if kind == "tsv" else ","
    body = b"\n".join([separator.join(COLUMNS).encode(), *(line for _key, line in rows), b""])
    (folder / f"people.{kind}").write_bytes(PACK.get(kind.partition(".")[2], bytes)(body))


def zstd(body: bytes) -> bytes:
    from compression import zstd  # type: ignore[import-not-found] # noqa: PLC0415

    return zstd.compress(body)  # type: ignore[no-any-return]


PACK: Mapping[str, Callable[[bytes], bytes]] = {"gz": gzip.compress, "zst": zstd}


def a_row(dice: Random, kind: str, key: str) -> Row:
    """A row of somebody whose key is known."""
    if kind == "parquet":
        return key, any_values(dice, key)
    if dice.random() < 0.3:
        odd = b"".join(dice.choices(PIECES, k=dice.choice((1, 5, 20))))
        return key, key.encode() + (b"\t" if kind == "tsv" else b",") + odd
    return key, regular(dice, key, kind)


def own_row(dice: Random, kind: str) -> Row:
    """The row in which neighbours differ."""
    if kind == "parquet":
        return "", any_values(dice, dice.choice((None, "", "own", "p1", "p2")))
    return "", any_line(dice, kind)


# --- policies that are drafted from files ---


def drafted(folder: Path, kind: str) -> str:
    """What `dpsql init` drafts of the files, with the bounds that the owner knows."""
    name = "people=people*.parquet" if kind == "parquet" else f"people.{kind}"
    with chdir(folder):
        done = CliRunner().invoke(main, ["init", name, "--yes", "-o", "-"])
    assert done.exit_code == 0, done.output
    text = done.stdout
    for bounds in ("[0, 100]", "[0.0, 50.0]"):
        text = text.replace("private_bounds = true", f"bounds = {bounds}", 1)
    return text


class Law:
    """A policy of one format of files, its plans, and the engines of its worlds."""

    def __init__(self, folder: Path, kind: str) -> None:
        self.folder, self.kind, dice = folder, kind, dice_of(kind)
        write(folder, kind, [a_row(dice, kind, f"p{n}") for n in range(4)])
        self.text = drafted(folder, kind)
        (folder / "dpsql.toml").write_text(self.text, "utf-8")
        policy = load(str(folder / "dpsql.toml"))
        self.sources = Sources(None, policy.database.files, formats=policy.database.formats)
        first = self.engine()
        ours = tuple(replace(table, view=False) for table in declared(first.rows))
        schema = Schema(ours, "here")
        bound = bind(policy, schema, PublicTables(first, DUCKDB).values)
        self.plans = [compiled(sql, bound, first) for sql in QUESTIONS]

    def engine(self) -> PlainEngine:
        """An engine over the files as they are. Raises `CannotOpen`."""
        engine = PlainEngine(duckdb.connect(config={"threads": 1}))
        create_views(engine.connection, self.sources)
        return engine

    def read(
        self, rows: Sequence[Row], asked: Sequence[str]
    ) -> tuple[list[list[Counted]], Counter[str]]:
        """The integers of every question, and the keys of all rows."""
        write(self.folder, self.kind, rows)
        engine = self.engine()
        keys = Counter(repr(row) for row in engine.rows("SELECT person_id FROM people"))
        engine.rows(f"SELECT {', '.join(asked)} FROM people")
        return [integers(plan, engine) for plan in self.plans], keys

    def broken(self, number: int) -> str | None:
        """How neighbours break what is claimed, `CLOSED`, or None."""
        dice, kind = dice_of(self.kind, number), self.kind
        others = [a_row(dice, kind, f"p{n}") for n in range(dice.choice((1, 3, 9)))]
        place = dice.randrange(len(others) + 1)
        own = own_row(dice, kind)
        if kind == "parquet" and dice.random() < 0.1:
            _key, (file, values) = own
            own = "", (file, (*values[:4], NO_MOMENT, *values[5:]))
        asked = dice.sample(expressions(), EXPRESSIONS)
        try:
            here, keys = self.read([*others[:place], own, *others[place:]], asked)
            there, without = self.read(others, ["1"])
            added = keys - without
            if without - keys or added.total() > 1:
                return f"rows of others: {own}"
            shared = [row for row in others if repr((row[0],)) in added]
            if shared:
                there, _keys = self.read([row for row in others if row not in shared], ["1"])
        except CannotOpen:
            return CLOSED
        except duckdb.Error:
            return f"a question fails: {own}"
        for sql, plan, ours, theirs in zip(QUESTIONS, self.plans, here, there, strict=True):
            if why := violation(plan, ours, theirs):
                return f"{sql}: {why}: {own}"
        return None


@cache
def expressions() -> list[str]:
    """Calls of all functions over the columns, printed as questions print them."""
    named = {"BIGINT": "age", "DOUBLE": "amount", "DATE": "day", "TIMESTAMP": "seen_at"}
    named |= {"VARCHAR": "city", "BOOLEAN": "is_vip"}
    listed = []
    for name in sorted(REGISTRY):
        for call in islice(filter(_is_of_columns, islice(calls(name), 20_000)), 0, 90, 9):
            text = expression(call, lambda ref: named[column_of(ref).sql_type])
            listed.append(f"bit_xor(hash({text}))")
    return listed


def _is_of_columns(call: Call | Cast) -> bool:
    """Whether a call reads columns of types that the files have."""
    reads = [column_of(ref) for ref in sources(call)]
    return bool(reads) and all(c.sql_type in COLUMNS.values() and c.type != INTERVAL for c in reads)


def found(law: Law, numbers: range) -> list[str]:
    """How neighbours break the law. Few files may be refused, or nothing is compared."""
    told = [law.broken(number) for number in numbers]
    assert told.count(CLOSED) <= len(told) / 4
    return [why for why in told if why not in (None, CLOSED)]


PARTS = [
    pytest.param(range(TRIES), id="few"),
    pytest.param(range(TRIES, 3000), id="all", marks=pytest.mark.campaign),
]


FURTHER = pytest.mark.full("further formats")
"""The default tier tries one format of text and Parquet."""
FORMATS = [pytest.param(k, marks=() if k in ("csv", "parquet") else FURTHER) for k in KINDS]


@pytest.mark.full("measures neighbours or further data sets")
@pytest.mark.parametrize("numbers", PARTS)
@pytest.mark.parametrize("kind", FORMATS)
def test_one_row_of_a_file_moves_no_more_than_claimed(
    kind: str, numbers: range, tmp_path: Path
) -> None:
    assert not found(Law(tmp_path, kind), numbers)


@pytest.mark.full("draws random questions or values")
@pytest.mark.parametrize("kind", FORMATS)
def test_no_row_changes_what_init_drafts(kind: str, tmp_path: Path) -> None:
    law, dice = Law(tmp_path, kind), dice_of(kind, "drafts")
    for rows in ([], [own_row(dice, kind)], [own_row(dice, kind) for _ in range(9)]):
        write(tmp_path, kind, rows)
        assert drafted(tmp_path, kind) == law.text


def test_wrong_twin_types_that_rows_decide(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def sniffed(connection: duckdb.DuckDBPyConnection, sources: Sources) -> None:
        ((_table, path),) = sources.files
        options = "ignore_errors = true, null_padding = true"
        connection.execute(f"CREATE VIEW people AS FROM read_csv('{path}', {options})")

    law = Law(tmp_path, "csv")
    monkeypatch.setattr(sys.modules[__name__], "create_views", sniffed)
    assert found(law, range(TRIES))


def test_wrong_twin_a_reader_that_raises(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def strict(value: str, column: FileColumn, _format: FileFormat) -> str:
        return f"CAST(NULLIF({value}, '') AS {column.type})"

    law = Law(tmp_path, "csv")
    monkeypatch.setattr(text_rows, "converted", strict)
    assert any("fails" in why for why in found(law, range(TRIES)))
