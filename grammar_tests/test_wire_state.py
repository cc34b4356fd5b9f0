"""What a session keeps: transactions, cursors, settings, prepared statements, reports."""

from __future__ import annotations

import struct
from dataclasses import replace
from decimal import Decimal
from pathlib import Path

import pytest

from dpsql.interfaces.pgwire.entrance import Guest, first_settings
from dpsql.interfaces.pgwire.settings import BadSetting, SessionSettings
from dpsql.interfaces.pgwire.values.type_oids import TEXT
from dpsql.model.errors import PolicyError
from dpsql.policy.load import load
from dpsql.proxy import Proxy
from grammar_tests.proxy_kit import policy, shop
from grammar_tests.session_kit import COUNT, COUNTRIES, Client, asked
from grammar_tests.test_wire_oracle import columns
from grammar_tests.wire_kit import fields

# --- transactions ---


@pytest.mark.full("opens servers or connects clients")
def test_a_failed_transaction_answers_nothing_until_it_ends(client: Client) -> None:
    client.query("BEGIN; SET timezone = 'Asia/Tokyo'; SET LOCAL dpsql.epsilon = 0.5")
    assert client.status == b"T"
    client.query("SELECT x FROM customers")
    assert client.status == b"E"
    client.query("SELECT 1")
    assert client.error["C"] == "25P02"
    client.send(*asked("SELECT 1"))
    assert client.error["C"] == "25P02"
    client.query("COMMIT")
    assert (client.tags, client.status) == (["ROLLBACK"], b"I")
    client.query("SHOW timezone")
    assert client.rows == [("UTC",)]


@pytest.mark.full("measures neighbours or further data sets")
def test_savepoints_bring_back_a_failed_transaction(client: Client) -> None:
    client.query("BEGIN; SET jit = on; SAVEPOINT a; SET jit = off; SAVEPOINT b")
    client.query("SELECT x FROM customers")
    client.query("ROLLBACK TO a")
    assert (client.tags, client.status) == (["ROLLBACK"], b"T")
    client.query("SHOW jit; RELEASE a")
    assert client.rows == [("on",)]
    client.query("ROLLBACK TO b")
    assert client.error["C"] == "3B001"


def test_ends_without_a_beginning_warn(client: Client) -> None:
    assert client.query("COMMIT") == "NCZ"
    assert fields(client.of(b"N")[0])["S"] == "WARNING"
    assert client.query("BEGIN; BEGIN; ROLLBACK") == "CNCCZ"


# --- cursors ---


@pytest.mark.full("takes half a second and more")
def test_cursors_move_as_in_postgres(client: Client) -> None:
    client.query(f"BEGIN; DECLARE c SCROLL CURSOR FOR {COUNTRIES}")
    moves = {
        "FETCH NEXT FROM c": ["IT"],
        "FETCH FORWARD ALL FROM c": ["NO", "SE"],
        "FETCH c": [],
        "FETCH PRIOR FROM c": ["SE"],
        "FETCH BACKWARD ALL FROM c": ["NO", "IT"],
        "FETCH ABSOLUTE -1 FROM c": ["SE"],
        "FETCH RELATIVE -2 FROM c": ["IT"],
        "FETCH 0 FROM c": ["IT"],
        "FETCH 2 FROM c": ["NO", "SE"],
        "FETCH FIRST FROM c": ["IT"],
    }
    for sql, found in moves.items():
        client.query(sql)
        assert [code for (code,) in client.rows] == found, sql
        assert client.tags == [f"FETCH {len(found)}"]
    client.query("MOVE FORWARD ALL FROM c")
    assert client.tags == ["MOVE 2"]
    client.query("CLOSE c; COMMIT")
    assert client.tags == ["CLOSE CURSOR", "COMMIT"]


@pytest.mark.full("opens servers or connects clients")
def test_cursors_end_with_their_transaction_unless_held(client: Client) -> None:
    client.query(f"BEGIN; DECLARE a CURSOR FOR {COUNTRIES}; DECLARE b CURSOR WITH HOLD FOR "
                 f"{COUNTRIES}; COMMIT")  # fmt: skip
    assert client.query("FETCH 1 FROM b") == "TDCZ"
    assert client.query("FETCH 1 FROM a") == "EZ"
    assert client.error["C"] == "34000"
    assert client.query("FETCH BACKWARD 1 FROM b") == "EZ"
    assert client.error["C"] == "55000"


def test_a_binary_cursor_sends_binary(client: Client) -> None:
    client.query("BEGIN; DECLARE c BINARY CURSOR FOR SELECT 258")
    client.query("FETCH c")
    assert client.of(b"D")[0][-8:] == struct.pack("!ii", 4, 258)


def test_a_cursor_is_refused_where_it_is_declared(client: Client) -> None:
    client.query("BEGIN; DECLARE c CURSOR FOR SELECT x FROM customers")
    assert client.error["C"] == "42703"
    assert client.error["P"] == "36"


# --- settings, prepared statements, copy, reports ---


@pytest.mark.parametrize(
    ("name", "value", "error"),
    [
        ("work_mem", "64MB", None),
        ("enable_seqscan", "off", None),
        ("default_tablespace", "", None),
        ("xmloption", "content", None),
        ("enable_seqscan", "maybe", "22023"),
        ("xmloption", "neither", "22023"),
        ("search_path_", "x", "42704"),
        ("shared_buffers", "1GB", "55P02"),
        ("transform_null_equals", "on", "22023"),
        ("plan_cache_mode", "x" * 200, "22023"),
        ("local_preload_libraries", "x" * 200, "22023"),
    ],
)
def test_settings_that_change_no_answer_are_kept(name: str, value: str, error: str | None) -> None:
    settings = SessionSettings({})
    if error is None:
        settings.set(name, value, local=False)
        assert settings.show(name) == value
    else:
        with pytest.raises(BadSetting) as refused:
            settings.set(name, value, local=False)
        assert refused.value.sqlstate == error


def test_changes_of_settings_are_told(client: Client) -> None:
    assert client.query("SET timezone = 'Asia/Tokyo'") == "CSZ"
    assert client.of(b"S") == [b"TimeZone\0Asia/Tokyo\0"]
    assert client.query("RESET ALL") == "CSZ"
    assert client.query("DISCARD ALL") == "CZ"
    client.query("SHOW ALL")
    shown = {name: value for name, value, _ in client.rows}
    assert shown["server_version"] == "15.0"
    assert shown["dpsql.notices"] == "off"


MOMENT = "SELECT TIMESTAMPTZ '2024-02-29 12:00:00+00' AS t"


@pytest.mark.parametrize(
    ("said", "shown", "local"),
    [
        ("TIME ZONE INTERVAL '+00:00' HOUR TO MINUTE", "<+00>-00", "12:00:00+00"),
        ("TIME ZONE INTERVAL '-05:30' HOUR TO MINUTE", "<-05:30>+05:30", "06:30:00-05:30"),
        ("TIME ZONE -7", "<-07>+07", "05:00:00-07"),
        ("TIME ZONE 5.5", "<+05:30>-05:30", "17:30:00+05:30"),
        ("timezone = '+02:00'", "+02:00", "10:00:00-02"),
        ("TIME ZONE 'UTC+3'", "UTC+3", "09:00:00-03"),
        ("TIME ZONE 'europe/berlin'", "Europe/Berlin", "13:00:00+01"),
        ("timezone TO 'utc'", "UTC", "12:00:00+00"),
    ],
)
def test_zones_are_those_of_postgres(client: Client, said: str, shown: str, local: str) -> None:
    client.query(f"SET {said}; SHOW timezone; {MOMENT}; RESET timezone")
    assert client.rows == [(shown,), (f"2024-02-29 {local}",)]


@pytest.mark.parametrize("wrong", ["25", "'Mars/Base'", "INTERVAL '1 day'", "'UTC+99'"])
def test_what_is_no_zone_is_refused(client: Client, wrong: str) -> None:
    client.query(f"SET TIME ZONE {wrong}")
    assert client.error["C"] == "22023"


def test_drivers_set_what_they_need_in_one_message(client: Client) -> None:
    client.query(
        "SET standard_conforming_strings=on;SET client_min_messages TO warning;"
        "SET TIME ZONE INTERVAL '+00:00' HOUR TO MINUTE"
    )
    assert client.tags == ["SET"] * 3
    client.query(
        "SET NAMES 'utf8'; SET time zone \"+00:00\"; SET intervalstyle = iso_8601;"
        "SET ROLE NONE; SET CONSTRAINTS ALL IMMEDIATE; SHOW ssl; RESET ALL"
    )
    assert client.rows == [("off",)]
    client.query("SET ROLE dpsql")
    assert client.error["C"] == "22023"
    client.query("SET SESSION AUTHORIZATION bob")
    assert client.error["C"] == "22023"
    client.query("SET SESSION AUTHORIZATION DEFAULT; SHOW session_authorization")
    assert client.rows == [("ana",)]


def test_set_config_sets(client: Client) -> None:
    client.query("SELECT set_config('TimeZone', 'Asia/Tokyo', false); SHOW timezone")
    assert client.rows == [("Asia/Tokyo",), ("Asia/Tokyo",)]
    client.query("SELECT set_config('jit', 'on', true) AS j; SHOW jit; RESET ALL")
    assert client.rows == [("on",), ("off",)]
    client.query("SELECT set_config('nonsense', 'on', true)")
    assert client.error["C"] == "42704"


@pytest.mark.full("opens servers or connects clients")
def test_the_time_may_stand_beside_what_the_server_says(client: Client) -> None:
    client.query("SELECT now(), version(), CURRENT_DATE, pg_backend_pid() IS NULL AS none")
    ((moment, version, day, nothing),) = client.rows
    assert (moment or "").startswith(day or "?")
    assert (version or "").startswith("PostgreSQL 15")
    assert nothing == "t"  # this session has no connection


@pytest.mark.full("opens servers or connects clients")
def test_prepared_statements_in_sql(client: Client) -> None:
    client.query("PREPARE p (int) AS SELECT COUNT(*) AS n FROM customers WHERE age > $1")
    assert client.query("EXECUTE p (30)") == "TDCZ"
    client.query("EXECUTE p (30, 31)")
    assert client.error["C"] == "42601"
    client.query("DEALLOCATE p; DEALLOCATE ALL")
    assert client.tags == ["DEALLOCATE", "DEALLOCATE ALL"]


def test_copy_goes_out_in_three_formats(client: Client) -> None:
    assert client.query(f"COPY ({COUNTRIES}) TO STDOUT") == "HdddcCZ"
    assert b"".join(client.of(b"d")) == b"IT\nNO\nSE\n"
    assert client.tags == ["COPY 3"]
    client.query(f"COPY ({COUNTRIES}) TO STDOUT WITH (FORMAT csv, HEADER)")
    assert b"".join(client.of(b"d")) == b"code\nIT\nNO\nSE\n"
    client.query(f"COPY ({COUNTRIES}) TO STDOUT BINARY")
    assert client.of(b"d")[0].startswith(b"PGCOPY\n")
    kinds = client.send(*asked(f"COPY ({COUNTRIES}) TO STDOUT"))
    assert kinds == "12HdddcCZ"


def test_cost_and_error_come_as_notices_when_wanted(client: Client) -> None:
    client.query("SET dpsql.notices = on")
    assert client.query(COUNT) == "TDDNNCZ"
    cost, error = [fields(body)["M"] for body in client.of(b"N")]
    assert cost.startswith("cost: ")
    assert error.startswith("n: ± ")
    client.query("RESET dpsql.notices")
    assert client.query(COUNT) == "TDDCZ"


def test_errors_are_columns_when_wanted(client: Client) -> None:
    client.query("SET dpsql.errors = columns")
    assert client.query(COUNT) == "TDDCZ"
    ends = [[float(text or "nan") for text in row[1:]] for row in client.rows]
    assert all(low < number < high for number, low, high in ends)
    assert client.query("SELECT code, 1 AS one FROM countries ORDER BY code LIMIT 1") == "TDCZ"
    assert client.rows == [("IT", "1", None, None)]
    # What was announced is what comes, and a view has the columns of its text.
    client.query(f"PREPARE wide AS {COUNT}; CREATE TEMP VIEW v AS {COUNT}; RESET dpsql.errors")
    client.query(f"PREPARE narrow AS {COUNT}; EXECUTE wide")
    assert [len(row) for row in client.rows] == [4, 4]
    client.query("SET dpsql.errors = columns; EXECUTE narrow")
    assert [len(row) for row in client.rows] == [2, 2]
    assert client.query("SELECT segment FROM v") == "TDDCZ"
    client.query("SET dpsql.errors = some")
    assert client.errors[-1][0] == "22023"
    assert "'*_low, *_high'" in client.error["H"]
    client.query(f"SET dpsql.errors = 'lo_*, *.hi'; {COUNT}")
    assert [name for name, *_ in columns(client.of(b"T")[-1])][2:] == ["lo_n", "n.hi"]
    client.query(f"PREPARE odd AS {COUNT}; SET dpsql.errors = text; EXECUTE odd")
    assert [len(row) for row in client.rows] == [4, 4]
    client.query("DROP VIEW v; RESET dpsql.errors; DEALLOCATE ALL")


def test_numbers_are_texts_with_their_errors_when_wanted(client: Client) -> None:
    client.query("SET dpsql.errors = text")
    assert client.query(COUNT) == "TDDCZ"
    assert {oid for _, oid, _ in columns(client.of(b"T")[0])} == {TEXT}
    assert all(set("±…") & set(number or "") for _, number in client.rows)
    assert client.query("SELECT code, 1 AS one FROM countries ORDER BY code LIMIT 1") == "TDCZ"
    assert client.rows == [("IT", "1")]
    client.query(f"PREPARE told AS {COUNT}; SET dpsql.errors = off; EXECUTE told")
    assert all(set("±…") & set(number or "") for _, number in client.rows)
    client.query(COUNT)
    assert not any(set("±…") & set(number or "") for _, number in client.rows)
    client.query("RESET dpsql.errors; DEALLOCATE ALL")


def test_precision_digits_and_signs_are_settings(client: Client) -> None:
    """Tools whose parsers refuse OPTIONS in a text set them for the session."""
    client.query("SET dpsql.within = 20; SET dpsql.notices = on; SELECT COUNT(*) AS n FROM orders")
    (told,) = [m for body in client.of(b"N") if (m := fields(body)["M"]).startswith("n: ± ")]
    assert 15 < float(told.split()[2]) <= 20
    mean = "SELECT AVG(age) AS age FROM customers"
    client.query(f"RESET dpsql.within; {mean}")
    digits = client.rows[0][0] or ""
    client.query(f"SET dpsql.digits = interval; {mean}")
    assert len(client.rows[0][0] or "") < len(digits)
    client.query("SET dpsql.epsilon = 0.001; SET dpsql.nonnegative = on")
    client.query("SELECT country, COUNT(*) AS n FROM customers GROUP BY country")
    assert len(client.rows) > 2
    assert all(float(n or "nan") >= 0 for _, n in client.rows)
    for bad in ("ten", "-5", "0%"):
        client.query(f"SET dpsql.within = '{bad}'")
        assert client.errors[-1][0] == "22023"
    client.query("RESET ALL")


def test_the_owner_says_how_errors_are_shown_at_first(tmp_path: Path) -> None:
    ana = '[analysts.ana]\nbudget = "default"'
    path = policy(tmp_path, (ana, f'[server]\nerrors = "text"\n\n{ana}'))
    limits, own = load(str(path)).server, Guest("ana", "dpsql", (3, 0), (), (), (3, 0))
    settings = first_settings(own, 1, limits, encrypted=True)
    settings.set("dpsql.errors", "none", local=False)
    assert settings["dpsql.errors"] == "none"
    settings.reset("dpsql.errors")
    assert settings["dpsql.errors"] == "text"
    asked_for = replace(own, settings=(("dpsql.errors", "columns"),))
    assert first_settings(asked_for, 1, limits, encrypted=True)["dpsql.errors"] == "columns"
    path = policy(tmp_path, (ana, f'{ana}\nerrors = "superset"\n\n[server]\nerrors = "text"'))
    limits = load(str(path)).server
    assert first_settings(own, 1, limits, encrypted=True)["dpsql.errors"] == "superset"
    other = replace(own, user="bob")
    assert first_settings(other, 1, limits, encrypted=True)["dpsql.errors"] == "text"
    with pytest.raises(PolicyError, match="Write one of none, columns, superset, text"):
        load(str(policy(tmp_path, (ana, f'{ana}\nerrors = "some"'))))


@pytest.mark.full("opens servers or connects clients")
def test_epsilon_is_set_for_the_session(tmp_path: Path) -> None:
    with Proxy.open(str(shop(tmp_path / "shop"))) as proxy:
        client = Client(proxy)
        client.query("SET dpsql.epsilon = 0.25")
        client.query(COUNT)
        assert [entry.epsilon for entry in proxy.ledger.history()] == [Decimal("0.25")]
        client.query("SET dpsql.epsilon = 1000")
        client.query(COUNT)
        assert client.error["C"] == "53400"
        client.query("SELECT epsilon, answered FROM dpsql_history()")
        assert client.rows == [("0.25", "t")]
        client.query(
            "SELECT h.epsilon * 2 AS twice FROM dpsql_history() AS h "
            "WHERE \"time\" > '2024-01-01' AND epsilon < 0.5 ORDER BY h.epsilon LIMIT 1"
        )
        assert client.rows == [("0.50",)]
        client.send(*asked("SELECT answered FROM dpsql_history() WHERE epsilon > $1", b"0.3"))
        assert client.rows == []
        client.query("SELECT round(remaining / total) FROM dpsql_budget()")
        assert client.rows == [("1",)]
        client.query("SELECT * FROM dpsql_budget()")
        ((budget, accountant, spent, total, remaining, _, _, *in_epsilon),) = client.rows
        assert (budget, accountant) == ("default", "zcdp")
        assert Decimal(spent or 0) + Decimal(remaining or 0) == Decimal(total or 0)
        limit, used, questions, each, largest = (Decimal(text or 0) for text in in_epsilon)
        assert [limit, each, largest] == [1000, 1, 10]
        assert 0 < used < 1 < questions
        client.query("SELECT colour FROM dpsql_budget()")
        assert client.error["C"] == "42703"


@pytest.mark.full("opens servers or connects clients")
def test_a_plan_is_rows_of_text(client: Client) -> None:
    client.query(f"EXPLAIN PRIVACY {COUNT}")
    lines = [line or "" for (line,) in client.rows]
    assert any(line.startswith("Charge: ") for line in lines)


@pytest.mark.full("measures neighbours or further data sets")
def test_explain_is_a_plan_in_the_column_of_postgres(client: Client) -> None:
    client.query(f"EXPLAIN PRIVACY {COUNT}")
    private = client.rows
    for sql in (f"EXPLAIN {COUNT}", f"EXPLAIN (COSTS off) {COUNT}"):
        assert client.query(sql).startswith("TD")
        assert client.of(b"T")[0].startswith(b"\0\x01QUERY PLAN\0")
        assert client.rows == private
    client.send(*asked(f"EXPLAIN {COUNT}"))
    assert client.rows == private


@pytest.mark.full("measures neighbours or further data sets")
def test_listen_is_accepted(client: Client) -> None:
    client.query("LISTEN news; UNLISTEN *")
    assert client.tags == ["LISTEN", "UNLISTEN"]
