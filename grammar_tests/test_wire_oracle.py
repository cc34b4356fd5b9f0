"""The same messages to a session and to a real PostgreSQL 15: the same answers, byte for byte.

What may differ: widths of integers (ours are int8, or int4 where values are), and texts of errors.
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import psycopg
import pytest

from dpsql.interfaces.pgwire.frontend import (
    Bind,
    Close,
    Describe,
    Execute,
    Flush,
    Message,
    Parse,
    Query,
    Sync,
)
from dpsql.interfaces.pgwire.values import type_oids
from dpsql.proxy import Proxy
from grammar_tests import world
from grammar_tests.postgres_kit import PORT, running
from grammar_tests.session_kit import Client
from grammar_tests.wire_kit import fields, messages, packet, startup_packet

CODES = "SELECT code FROM countries ORDER BY code"
ODD = (
    "SELECT 'tab\tand\\slash' AS a, 'quote\"d, \"x\"' AS b, '' AS c, CAST(NULL AS TEXT) AS d, "
    "'line\nbreak' AS e, TRUE AS f, CAST(1.50 AS DECIMAL(5, 2)) AS g"
)
CONSTANTS = (
    "SELECT CAST(7 AS BIGINT) AS i, CAST(-12345.678 AS NUMERIC(10, 3)) AS n, "
    "CAST('0.1' AS DOUBLE PRECISION) AS f, CAST('1e20' AS DOUBLE PRECISION) AS g, "
    "CAST('é' AS TEXT) AS t, TRUE AS b, DATE '1999-12-31' AS d, "
    "TIMESTAMP '2024-02-29 12:30:00.25' AS s, TIMESTAMPTZ '2024-07-01 12:30:00+00' AS z, "
    "CAST(NULL AS BIGINT) AS nothing"
)
LENGTHS = (
    "SELECT INTERVAL '1 day 02:00' AS a, INTERVAL '6 hours' * 2 AS d, "
    "TIMESTAMP '2024-03-01 05:06:07.5' - TIMESTAMP '2020-01-31' AS b, "
    "TIMESTAMP '2020-01-31' - '2024-03-01 05:06:07' AS c, "
    "(INTERVAL '1 day' + INTERVAL '1 hour') / 2 AS e, -INTERVAL '90 minutes' AS f, "
    "TIMESTAMP '2024-01-31' + '1 month' - '1 day'::interval AS g, "
    "CAST(DATE '2024-03-01' - '2024-01-31' AS BIGINT) AS h, "
    "INTERVAL '1 month' = INTERVAL '30 days' AS i, DATE(TIMESTAMP '2024-03-01 05:06') AS j, "
    "date_bin('15 minutes', TIMESTAMP '2024-03-01 05:06', '2001-01-01') AS k, "
    "TIMESTAMP '2024-03-01' - '2024-02-01' < '30 days' AS l, CAST(NULL AS INTERVAL) AS m, "
    "TIMESTAMP '2024-03-01' + ('3'::int8 || ' days')::interval AS n"
)
AGES = ", ".join(
    f"CAST(EXTRACT({part} FROM AGE(TIMESTAMP '{a}', TIMESTAMP '{b}')) AS BIGINT) AS {part}{n}"
    for part in ("year", "month", "day", "hour", "epoch")
    for n, (a, b) in enumerate(
        [
            ("2024-02-29", "2024-01-31"),
            ("2021-02-28", "2020-02-29"),
            ("2020-02-29", "2021-02-28"),
            ("2024-03-01 01:00", "2000-12-31 23:30"),
            ("2024-12-31", "2024-12-31 00:00:01"),
        ]
    )
)
SERIES = (
    "SELECT d::date FROM generate_series('2024-01-31'::date, '2024-05-01', '1 month') d ORDER BY 1",
    "SELECT d FROM generate_series(TIMESTAMP '2024-01-02', '2024-01-01', '-6 hours') d ORDER BY 1",
    "SELECT generate_series(DATE '2024-01-31', DATE '2024-02-02', INTERVAL '1 day')::date AS d",
    "SELECT unnest(ARRAY['a', NULL, 'b']) AS x",
    "SELECT u FROM unnest('{3,1,2}'::int8[]) AS u ORDER BY u",
)
ARRAYS = (
    "SELECT PERCENTILE_CONT(ARRAY[0, 0.5]) WITHIN GROUP (ORDER BY x) FROM (SELECT 1.5::float8 x) t",
    "SELECT ARRAY['a', NULL, 'b \"c\" \\ {d}', '', 'NULL'] AS a",
    "SELECT ARRAY[CAST(1 AS BIGINT), NULL] AS a, ARRAY[1.50, 2.25] AS b, ARRAY[TRUE, FALSE] AS c",
    "SELECT ARRAY[DATE '2024-02-29'] AS a, ARRAY[TIMESTAMP '2024-02-29 12:30:00.25', NULL] AS b",
    "SELECT ARRAY_AGG(code ORDER BY code) FROM countries",
    "SELECT ARRAY_AGG(code) FROM countries WHERE code = 'nowhere'",
    "SELECT ARRAY_AGG(CAST(LENGTH(code) AS BIGINT) ORDER BY code DESC) AS n FROM countries",
)
PATTERNS = (
    "Day|day|DAY|FMDay|FMday|Month|month|MONTH|FMMONTH|Mon|mon|MON|Dy|DY|dy|Q|D|d|FMDD|FMMM|FMHH24",
    'YYYY-"Q"Q, FMMonth FMDD, HH12:MI am|PM',
)
READ = "SELECT TO_DATE(x, 'DD/MM/YYYY') AS a FROM (SELECT CAST($1 AS text) AS x) t"
MEMBERS = "SELECT code FROM countries WHERE code {} ORDER BY code"
NAMELESS = (
    "1, 'a', 1 + 1, TRUE, DATE '2020-01-01', CAST('1' AS BIGINT), CASE WHEN TRUE THEN 1 END, "
    "COALESCE(1, 2), NOT TRUE, CAST(code AS TEXT), -1, code IS NULL, code IN ('IT'), "
    "code, NULLIF(1, 2), LENGTH(code), CAST(1 + 1 AS BIGINT), CAST(LENGTH(code) AS BIGINT)"
)


def bound(sql: str, *values: bytes | None, limit: int = 0, form: int = 0) -> tuple[Message, ...]:
    bind = Bind("", "", (), values, (form,))
    return Parse("", sql, ()), bind, Describe(True, ""), Execute("", limit), Sync()


def cursor(*steps: str) -> tuple[Sequence[Message], ...]:
    declared = Query(f"BEGIN; DECLARE c SCROLL CURSOR FOR {CODES}")
    return (declared,), *((Query(step),) for step in steps), (Query("COMMIT"),)


SCENES: dict[str, tuple[Sequence[Message], ...]] = {
    "constants in text": (bound(CONSTANTS), (Query(CONSTANTS),)),
    "constants in binary": (bound(CONSTANTS, form=1),),
    "another zone": (
        (Query("SET timezone = 'Asia/Kolkata'"),), (Query(CONSTANTS),), (Query("SHOW timezone"),),
        (Query("RESET ALL"),),
    ),
    "lengths of time": (bound(LENGTHS), bound(LENGTHS, form=1), (Query(f"SELECT {AGES}"),)),
    "a length as a parameter": (
        bound("SELECT TIMESTAMP '2024-03-01' + $1::interval AS t", b"1 mon 2 days"),
        bound("SELECT DATE '2024-03-01' - TIMESTAMP '2024-02-01' < $1 AS t", b"30 days"),
        bound("SELECT TIMESTAMP '2024-03-01' - $1::interval AS t", None),
    ),
    "series": tuple((Query(sql),) for sql in SERIES),
    "arrays as answers": tuple(bound(sql, form=form) for sql in ARRAYS for form in (0, 1)),
    "formats of times": (
        *((Query(f"SELECT TO_CHAR(TIMESTAMP '{moment}', '{pattern}') AS a"),)
          for pattern in PATTERNS for moment in ("2024-03-06 09:05:07", "2023-12-31 23:59:59")),
        bound(READ, b"05/12/2023"), bound(READ, b"5/2/2023"), bound(READ, None),
        (Query("SELECT TO_TIMESTAMP(3600)::time AS a, CAST('ab  c' AS char(4)) || '.' AS b"),),
        (Query("SELECT TIMESTAMP '2024-01-31' + INTERVAL '1 month - 1 day - 02:00' AS a"),),
    ),
    "members of an array": (
        *((Query(MEMBERS.format(test)),) for test in (
            "= ANY(ARRAY['IT', 'NO', NULL])", "<> ALL('{IT,NO}')", "<> ALL('{IT,NULL}')",
            "= ANY('{}')", "<> ALL('{}')", "= ANY(NULL::text[])", "> ALL('{IT,NO}')",
            "<= SOME('{IT,NO}')", "ILIKE ANY (ARRAY['i%', '%o'])", "NOT LIKE ALL ('{I%,N%}')",
            "NOT LIKE ANY ('{I%,N%}')", "IN (SELECT unnest(ARRAY['IT', 'NO']))",
            "= ANY(string_to_array('IT,NO', ','))", "= ANY (SELECT code FROM countries)",
            "<> ALL (SELECT code FROM countries)",
        )),
        *((Query(f"SELECT code FROM countries WHERE {test} ORDER BY code"),) for test in (
            "ARRAY['IT', 'NO', NULL] @> ARRAY[code]", "NOT ARRAY['IT', NULL] @> ARRAY[code, 'IT']",
            "ARRAY[code] <@ '{IT}'", "NOT ARRAY[code, NULL] && '{SE,NULL}'",
        )),
        bound(MEMBERS.format("= ANY($1::text[])"), b'{IT,"NO"}'),
        bound(MEMBERS.format("<> ALL($1::text[])"), b"{IT,NULL}"),
        bound(MEMBERS.format("= ANY($1::text[])"), None),
        bound(MEMBERS.format("= ANY($1::text[])"), b"{IT"),
        bound(MEMBERS.format("= ANY($1)"), b"{IT,NO}"),
        (Parse("", MEMBERS.format("= ANY($1)"), ()), Describe(False, ""), Sync()),
        (Parse("", "SELECT CAST(1 AS BIGINT) < ALL($1) AS a", ()), Describe(False, ""), Sync()),
    ),
    "empty": ((Query(""),), (Query(" ; -- x"),), bound("")),
    "several": ((Query(f"{CODES}; SELECT CAST(1 AS BIGINT) AS one; SHOW bytea_output"),),),
    "error among several": ((Query(f"{CODES}; SELECT x FROM countries; SELECT 1"),),),
    "portal limits": (
        (Query("BEGIN"),),
        (Parse("", CODES, ()), Bind("p", "", (), (), ()), Execute("p", 2), Sync()),
        (Execute("p", 2), Execute("p", 2), Sync()),
        (Close(True, "p"), Execute("p", 0), Sync()),
        (Query("ROLLBACK"),),
    ),
    "portal ends with its transaction": (bound(CODES, limit=1), (Execute("", 1), Sync())),
    "parameters": (
        bound("SELECT code FROM countries WHERE code = $1", b"NO"),
        bound("SELECT code FROM countries WHERE code = $1", None),
        (Parse("s", "SELECT code FROM countries WHERE code = $1", ()), Describe(False, "s"),
         Sync()),
        (Bind("", "s", (), (b"IT",), ()), Execute("", 0), Sync()),
        (Parse("s", "SELECT 1", ()), Sync()),
        (Close(False, "s"), Bind("", "s", (), (), ()), Sync()),
    ),
    "nothing as a parameter": (
        bound("SELECT $1::int8 + 10 AS a, 10 - $1 AS b, 3 < $1 AS c", None),
        bound("SELECT $1 + CAST(10 AS BIGINT) AS a", None, form=1),
        bound("SELECT code FROM countries WHERE code BETWEEN $1 AND 'ZZ'", None),
        bound("SELECT code FROM countries WHERE code IN ($1, 'NO')", None),
        bound("SELECT code || $1 AS a, code LIKE $1 AS b FROM countries LIMIT 1", None),
        bound(f"{CODES} LIMIT $1 OFFSET $2", None, None),
        bound(f"{CODES} LIMIT $1 OFFSET $2", b"1", b"1"),
        (Parse("", f"{CODES} LIMIT $1 OFFSET $2", ()), Describe(False, ""), Sync()),
    ),
    "misuse": (
        (Bind("", "none", (), (), ()), Describe(True, ""), Sync()),
        (Parse("", "SELECT 1; SELECT 2", ()), Sync()),
        bound("SELECT code FROM countries WHERE code = $1"),
        (Parse("", "SELECT x FROM countries", ()), Flush(), Sync()),
        (Parse("", "SELECT 'open", ()), Sync()),
        (Execute("none", 0), Sync()),
        (Query("FETCH 1 FROM none"),),
        (Query("EXECUTE none"),),
        (Query("SAVEPOINT a"),),
        (Query("DECLARE c CURSOR FOR SELECT 1"),),
        (Query("SHOW nonsense"),),
        (Query("SET nonsense = 1"),),
        (Query("SET timezone = 'Mars/Base'"),),
        (Query("SELECT 1 FROM nowhere"),),
        (Query("SELEC 1"),),
        (Query("SELECT $1"),),
        (Query("COPY nowhere TO STDOUT"),),
    ),
    "failed transaction": (
        (Query("BEGIN"),), (Query("SELECT x FROM countries"),), (Query("SELECT 1"),),
        bound("SELECT 1"), (Query("COMMIT"),), (Query("ROLLBACK"),),
    ),
    "savepoints": (
        (Query("BEGIN; SAVEPOINT a; SAVEPOINT b"),), (Query("SELECT x FROM countries"),),
        (Query("ROLLBACK TO a"),), (Query(CODES),), (Query("RELEASE b"),),
        (Query("ROLLBACK TO SAVEPOINT a; COMMIT AND CHAIN; ROLLBACK"),),
    ),
    "warnings": ((Query("COMMIT"),), (Query("BEGIN; BEGIN; END"),)),
    "isolation": (
        (Query("SHOW transaction_isolation; SHOW default_transaction_isolation"),),
        (Query("BEGIN ISOLATION LEVEL SERIALIZABLE, READ ONLY NOT DEFERRABLE"),),
        (Query("SHOW transaction_isolation; SHOW transaction_read_only; COMMIT"),),
        (Query("BEGIN; SET TRANSACTION ISOLATION LEVEL REPEATABLE READ"),),
        (Query("SHOW TRANSACTION ISOLATION LEVEL; ROLLBACK; SHOW transaction_isolation"),),
        (Query("SET TRANSACTION READ ONLY"),), (Query("BEGIN ISOLATION LEVEL chaos"),),
        (Query("SET SESSION CHARACTERISTICS AS TRANSACTION ISOLATION LEVEL SERIALIZABLE"),),
        (Query("SHOW transaction_isolation; SHOW default_transaction_isolation"),),
        (Query("BEGIN READ"),), (Query("BEGIN ISOLATION LEVEL READ"),), (Query("RESET ALL"),),
        (Query("SHOW transaction_isolation"),),
    ),
    "cursors": cursor(
        "FETCH 2 FROM c", "FETCH c", "FETCH c", "FETCH PRIOR FROM c", "FETCH BACKWARD ALL FROM c",
        "FETCH FORWARD ALL FROM c", "FETCH ABSOLUTE -2 FROM c", "FETCH RELATIVE 1 FROM c",
        "FETCH RELATIVE 0 FROM c", "FETCH 0 FROM c", "FETCH ABSOLUTE 9 FROM c", "FETCH LAST FROM c",
        "FETCH FIRST FROM c", "FETCH -1 FROM c", "MOVE 2 FROM c", "MOVE ALL FROM c",
        "MOVE BACKWARD 1 FROM c", "FETCH NEXT FROM c", "FETCH ABSOLUTE 0 FROM c",
        "FETCH BACKWARD 0 FROM c", "CLOSE c", "FETCH 1 FROM c",
    ),
    "held": (
        (Query(f"DECLARE h CURSOR WITH HOLD FOR {CODES}"),), (Query("FETCH 2 FROM h"),),
        (Query("FETCH ALL FROM h"),), (Query("CLOSE ALL"),),
    ),
    "forward only": (
        (Query(f"BEGIN; DECLARE c NO SCROLL CURSOR FOR {CODES}; FETCH 2 FROM c"),),
        (Query("FETCH PRIOR FROM c"),), (Query("ROLLBACK"),),
    ),
    "binary cursor": (
        (Query(f"BEGIN; DECLARE c BINARY CURSOR FOR {CONSTANTS}; FETCH c; COMMIT"),),
    ),
    "copy": tuple(
        (Query(f"COPY ({ODD}) TO STDOUT {options}"),)
        for options in (
            "", "WITH (FORMAT csv)", "CSV HEADER", "BINARY", "WITH (FORMAT csv, DELIMITER ';')",
            "WITH (FORMAT csv, QUOTE '''', ESCAPE '\\')", "WITH (FORMAT csv, FORCE_QUOTE *)",
            "WITH (DELIMITER '|', NULL 'nil', HEADER)", "WITH (FORMAT csv, NULL 'tab')",
        )
    ),
    "names": (bound(f"SELECT {NAMELESS} FROM countries ORDER BY code LIMIT 1"),),
    "copy of a table": ((Query("COPY public.countries TO STDOUT (FORMAT csv)"),),),
    "copy of nothing": (
        (Query("COPY (SELECT code FROM countries WHERE code = '') TO STDOUT BINARY"),),
        (Query("COPY (SELECT code FROM countries WHERE code = '') TO STDOUT CSV HEADER"),),
        bound(f"COPY ({CODES}) TO STDOUT"),
    ),
    "prepared in SQL": (
        (Query("PREPARE p (text) AS SELECT code FROM countries WHERE code = $1"),),
        (Query("EXECUTE p ('SE')"),), (Query("EXECUTE p"),), (Query("DEALLOCATE p"),),
        (Query("DEALLOCATE p"),), (Query("DEALLOCATE ALL"),), (Query("DISCARD ALL"),),
    ),
    "utilities": (
        bound("SET application_name = 'x'"), bound("BEGIN"), bound("SHOW client_encoding"),
        bound("COMMIT"), (Query("LISTEN a; UNLISTEN a; UNLISTEN *"),),
        (Query("DISCARD TEMP; DISCARD PLANS; DISCARD SEQUENCES"),), (Query("SET LOCAL jit = off"),),
        (Query("START TRANSACTION READ ONLY; SET LOCAL timezone = 'Asia/Tokyo'; SHOW timezone; "
               "COMMIT; SHOW timezone"),),
    ),
}  # fmt: skip


def encoded(message: Message) -> bytes:
    """A message as a client writes it."""
    match message:
        case Query(sql=sql):
            return packet(b"Q", text(sql))
        case Parse(name=name, sql=sql, types=types):
            return packet(
                b"P", text(name) + text(sql) + struct.pack(f"!H{len(types)}I", len(types), *types)
            )
        case Bind(portal=portal, statement=statement, values=values, result_formats=formats):
            sized = [struct.pack("!i", -1 if v is None else len(v)) + (v or b"") for v in values]
            results = struct.pack(f"!H{len(formats)}H", len(formats), *formats)
            count = struct.pack("!H", len(values))
            return packet(
                b"B", text(portal) + text(statement) + b"\0\0" + count + b"".join(sized) + results
            )
        case Describe(portal=portal, name=name):
            return packet(b"D", (b"P" if portal else b"S") + text(name))
        case Execute(portal=portal, limit=limit):
            return packet(b"E", text(portal) + struct.pack("!i", limit))
        case Close(portal=portal, name=name):
            return packet(b"C", (b"P" if portal else b"S") + text(name))
        case Sync():
            return packet(b"S", b"")
        case Flush():
            return packet(b"H", b"")
        case _:
            raise AssertionError(message)


def text(value: str) -> bytes:
    return value.encode() + b"\0"


def seen(found: Sequence[tuple[bytes, bytes]]) -> list[Any]:
    """What must be equal of some messages."""
    return [shown for kind, body in found if (shown := _seen(kind, body)) is not None]


def _seen(kind: bytes, body: bytes) -> Any:
    match kind:
        case b"S":
            return None
        case b"T":
            return "T", columns(body)
        case b"t":
            (count,) = struct.unpack_from("!H", body)
            return "t", [_ALIKE.get(oid, oid) for oid in struct.unpack_from(f"!{count}I", body, 2)]
        case b"E" | b"N":
            told = fields(body)
            return kind.decode(), told["V"], told["C"]
        case _:
            return kind.decode(), body


_ALIKE = {
    type_oids.INT2: type_oids.INT8,
    type_oids.INT4: type_oids.INT8,
    type_oids.VARCHAR_OID: type_oids.TEXT,
}


def columns(body: bytes) -> list[tuple[str, int, int]]:
    (count,) = struct.unpack_from("!H", body)
    at, found = 2, []
    for _ in range(count):
        end = body.index(b"\0", at)
        _, _, oid, _, _, form = struct.unpack_from("!IHIhih", body, end + 1)
        found.append((body[at:end].decode(), _ALIKE.get(oid, oid), form))
        at = end + 19
    return found


class Real:
    """A connection to PostgreSQL, its bytes by hand."""

    def __init__(self, folder: str) -> None:
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.settimeout(60)
        self._socket.connect(f"{folder}/.s.PGSQL.{PORT}")
        self._socket.sendall(startup_packet((3, 0), user="dpsql", database="dpsql"))
        self._read()

    def send(self, sent: Sequence[Message]) -> list[tuple[bytes, bytes]]:
        self._socket.sendall(b"".join(map(encoded, sent)))
        return self._read()

    def _read(self) -> list[tuple[bytes, bytes]]:
        data = b""
        while data[-6:-1] != b"Z\0\0\0\5":
            piece = self._socket.recv(1 << 16)
            assert piece
            data += piece
        return messages(data)

    def close(self) -> None:
        self._socket.close()


@pytest.fixture(scope="module")
def real() -> Iterator[Callable[[], Real]]:
    with running() as server:
        with psycopg.connect(server.conninfo(), autocommit=True) as owner:
            owner.execute("CREATE TABLE countries (code TEXT PRIMARY KEY, region TEXT)")
            for row in world.PUBLIC["countries"]:
                owner.execute("INSERT INTO countries VALUES (%s, %s)", row)
        yield lambda: Real(server.folder)


@pytest.mark.full("opens servers or connects clients")
@pytest.mark.parametrize("scene", SCENES)
def test_a_scene_goes_as_with_postgres(real: Callable[[], Real], proxy: Proxy, scene: str) -> None:
    ours, theirs = Client(proxy), real()
    for number, sent in enumerate(SCENES[scene]):
        ours.send(*sent)
        assert seen(ours.said) == seen(theirs.send(sent)), (number, sent)
    theirs.close()


def test_a_difference_would_be_seen(real: Callable[[], Real], proxy: Proxy) -> None:
    ours, theirs = Client(proxy), real()
    for mine, other in (
        ("SELECT 1", "SELECT 2"),
        ("SELECT 1 AS a", "SELECT 1 AS b"),
        ("SELECT 1", "SELECT CAST(1 AS NUMERIC)"),
        ("SELECT x FROM countries", "SELECT 1 FROM nowhere"),
        ("BEGIN", "START TRANSACTION"),
    ):
        ours.query(mine)
        assert seen(ours.said) != seen(theirs.send([Query(other)]))
    theirs.close()
