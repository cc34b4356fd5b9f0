"""PEP 249 around a proxy."""

from __future__ import annotations

import asyncio
import math
import re
import subprocess
import sys
from dataclasses import replace
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from threading import Barrier, Thread
from threading import Event as ThreadEvent
from types import ModuleType
from typing import Any, cast

import pytest

import dpsql
from dpsql.engines import memory
from dpsql.interfaces import dbapi, require_ours
from dpsql.interfaces.dbapi import Connection, connect
from dpsql.interfaces.dbapi.dbapi_errors import raised_from
from dpsql.interfaces.wordings import WORDINGS, ExitCode
from dpsql.model.errors import (
    DpsqlError,
    Failed,
    LedgerError,
    MissingExtra,
    PolicyError,
    Reason,
    Refused,
    Unreachable,
)
from dpsql.model.tree import Span
from grammar_tests.fakes import ANSWER, EXPLANATION, NOTHING_PAID, NOTICE, FakeProxy
from grammar_tests.proxy_kit import policy
from grammar_tests.waiting import HANGS_SECONDS, until


def connected(proxy: FakeProxy | None = None, **options: Any) -> Connection:
    fake: Any = proxy or FakeProxy()
    return connect(proxy=fake, **options)


# --- the module ---


def test_module_globals() -> None:
    assert (dpsql.apilevel, dpsql.threadsafety, dpsql.paramstyle) == ("2.0", 2, "qmark")
    assert dpsql.connect is connect
    assert dpsql.__version__.count(".") == 2
    with pytest.raises(AttributeError):
        _ = dpsql.frobnicate


def test_every_exported_name_exists() -> None:
    for module in (dpsql, dbapi):
        for name in module.__all__:
            assert getattr(module, name) is not None


def test_another_package_of_the_name_is_told_in_a_sentence() -> None:
    require_ours(dpsql)
    with pytest.raises(ImportError, match="DPSQL"):
        require_ours(ModuleType("dpsql"))


def test_importing_the_package_is_light() -> None:
    code = "import dpsql, sys; print({'duckdb', 'numpy', 'sqlglot', 'click'} & set(sys.modules))"
    done = subprocess.run(  # noqa: S603
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert done.stdout == "set()\n"


def test_a_room_of_the_package_is_imported_without_any_other_first() -> None:
    code = "import sys; from dpsql import accountants; print('dpsql.interfaces' in sys.modules)"
    done = subprocess.run(  # noqa: S603
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert done.stdout == "False\n"


def test_the_exception_tree() -> None:
    tree = {
        dbapi.Warning: Exception,
        dbapi.Error: Exception,
        dbapi.InterfaceError: dbapi.Error,
        dbapi.DatabaseError: dbapi.Error,
        dbapi.DataError: dbapi.DatabaseError,
        dbapi.OperationalError: dbapi.DatabaseError,
        dbapi.IntegrityError: dbapi.DatabaseError,
        dbapi.InternalError: dbapi.DatabaseError,
        dbapi.ProgrammingError: dbapi.DatabaseError,
        dbapi.NotSupportedError: dbapi.DatabaseError,
    }
    for error, parent in tree.items():
        assert error.__base__ is parent
        assert getattr(Connection, error.__name__) is error
        assert getattr(dpsql, error.__name__) is error


def test_type_objects_and_constructors() -> None:
    codes = [column[1] for column in connected().cursor().execute("x").description or ()]
    kinds = (dbapi.STRING, dbapi.NUMBER, dbapi.DATETIME, dbapi.BOOLEAN, dbapi.BINARY, dbapi.ROWID)
    matches = [[kind == code for kind in kinds].index(True) for code in codes]
    assert matches == [0, 1, 1, 1, 2, 3]
    assert all(sum(kind == code for kind in kinds) == 1 for code in codes)
    assert dbapi.Date(2024, 1, 2) == date(2024, 1, 2)
    assert dbapi.Timestamp(2024, 1, 2) == datetime(2024, 1, 2)
    assert dbapi.DateFromTicks(86_400 * 365).year in (1970, 1971)
    assert dbapi.TimestampFromTicks(0).date() == dbapi.DateFromTicks(0)
    assert dbapi.TimestampFromTicks(1).time() == dbapi.TimeFromTicks(1)


# --- asking and fetching ---


def test_the_request() -> None:
    proxy = FakeProxy()
    connection = connected(proxy, analyst="bob", dialect="postgres", epsilon="0.1")
    connection.cursor().execute("SELECT ?", [5])
    connection.cursor().execute("SELECT 1 = ANY(?)", [[1, None]])
    request, of_an_array = proxy.requests
    assert of_an_array.parameters == ((1, None),)
    assert (request.sql, request.analyst, request.dialect) == ("SELECT ?", "bob", "postgres")
    assert (request.parameters, request.epsilon) == ((5,), Decimal("0.1"))


@pytest.mark.parametrize("parameters", ["ab", b"ab", {"a": 1}, {1}, 5])
def test_parameters_are_a_sequence(parameters: Any) -> None:
    proxy = FakeProxy()
    with pytest.raises(dpsql.ProgrammingError):
        connected(proxy).cursor().execute("SELECT ?", parameters)
    assert not proxy.requests


@pytest.mark.parametrize("epsilon", [0.1 + 0.2, "x", 1])
def test_epsilon_is_exact(epsilon: Any) -> None:
    with pytest.raises(dpsql.ProgrammingError):
        connected(epsilon=epsilon)


def test_description_and_rowcount() -> None:
    cursor = connected().cursor()
    assert (cursor.description, cursor.rowcount) == (None, -1)
    cursor.execute("x")
    assert cursor.description is not None
    assert cursor.description[2] == ("total", "DECIMAL", None, None, 12, 2, None)
    assert cursor.description[1] == ("n", "INTEGER", None, None, None, None, None)
    assert cursor.rowcount == 2


def test_fetching() -> None:
    cursor = connected().cursor().execute("x")
    assert cursor.fetchone() == ANSWER.rows[0]
    assert cursor.fetchall() == [ANSWER.rows[1]]
    assert (cursor.fetchone(), cursor.fetchmany(), cursor.fetchall()) == (None, [], [])
    cursor.execute("x")
    assert cursor.fetchmany() == [ANSWER.rows[0]]
    cursor.arraysize = 5
    assert cursor.fetchmany() == [ANSWER.rows[1]]
    assert list(cursor.execute("x")) == list(ANSWER.rows)
    assert cursor.execute("x").fetchmany(0) == []


def test_fetching_before_asking() -> None:
    with pytest.raises(dpsql.InterfaceError):
        connected().cursor().fetchone()


def test_errors_margins_receipt_and_notices() -> None:
    cursor = connected().cursor()
    assert (cursor.receipt, cursor.errors, cursor.margins) == (NOTHING_PAID, (), ())
    cursor.execute("x")
    assert cursor.receipt is ANSWER.receipt
    assert (cursor.errors, cursor.margins) == (ANSWER.errors, ANSWER.margins)
    assert cursor.notices == (NOTICE,)


@pytest.mark.parametrize(
    ("errors", "low", "high"),
    [("columns", "_low", "_high"), ("superset", "__yhat_lower", "__yhat_upper")],
)
def test_ends_are_columns_where_that_is_wanted(errors: str, low: str, high: str) -> None:
    cursor = connected(errors=errors).execute("SELECT 1")
    plain = connected().execute("SELECT 1")
    numbers = [n for n, column in enumerate(ANSWER.columns) if column.type.is_measured]
    names = [column[0] for column in plain.description or ()]
    assert [c[0] for c in cursor.description or ()] == [
        *names, *(f"{names[n]}{end}" for n in numbers for end in (low, high))
    ]  # fmt: skip
    assert repr(cursor.fetchall()) == repr(
        [
            (*row, *(end for n in numbers for end in pairs[n] or (None, None)))
            for row, pairs in zip(ANSWER.rows, ANSWER.intervals, strict=True)
        ]
    )
    assert {len(row) for row in cursor.margins} == {len(names) + 2 * len(numbers)}
    with pytest.raises(dpsql.InterfaceError, match="columns"):
        connected(errors="rows")


def test_optional_extensions() -> None:
    connection = connected()
    cursor = connection.cursor()
    assert (cursor.connection, cursor.rownumber, cursor.lastrowid) == (connection, None, None)
    assert cursor.messages == []
    cursor.execute("x")
    assert [(kind, str(value)) for kind, value in cursor.messages] == [(dbapi.Warning, NOTICE)]
    assert (cursor.rownumber, cursor.fetchone(), cursor.rownumber) == (0, ANSWER.rows[0], 1)


def test_scrolling() -> None:
    cursor = connected().execute("x")
    cursor.scroll(1)
    assert cursor.fetchone() == ANSWER.rows[1]
    cursor.scroll(-2)
    assert cursor.fetchone() == ANSWER.rows[0]
    cursor.scroll(2, "absolute")
    assert cursor.fetchone() is None
    for value, mode in ((1, "relative"), (-3, "relative"), (3, "absolute")):
        with pytest.raises(IndexError):
            cursor.scroll(value, mode)
    with pytest.raises(dpsql.InterfaceError):
        cursor.scroll(0, "backwards")


def test_executemany_keeps_all_rows() -> None:
    proxy = FakeProxy()
    cursor = connected(proxy).cursor().executemany("SELECT ?", [(1,), (2,)])
    assert [r.parameters for r in proxy.requests] == [(1,), (2,)]
    assert (cursor.rowcount, len(cursor.fetchall()), len(cursor.errors)) == (4, 4, 4)


def test_explain_is_an_explanation() -> None:
    assert connected().cursor().explain("x") is EXPLANATION
    assert connected().explain("x") is EXPLANATION
    assert "discrete Gaussian" in dpsql.plan_text(EXPLANATION, "long")
    assert "discrete Gaussian" not in dpsql.plan_text(EXPLANATION)


@pytest.mark.parametrize("price", [0.05, 0.5, 1.0, "0.05", Decimal("0.05")])
def test_a_price_is_a_number_with_few_digits(price: Any) -> None:
    proxy = FakeProxy()
    connected(proxy).execute("x", epsilon=price)
    assert proxy.requests[-1].epsilon == Decimal(str(price))


@pytest.mark.parametrize("price", [0.1 + 0.2, 1 / 3, math.inf, math.nan, True])
def test_a_price_of_many_digits_is_refused(price: Any) -> None:
    """What a computation left in a float is no price: nobody wrote it."""
    with pytest.raises(dpsql.ProgrammingError):
        connected().execute("x", epsilon=price)


def test_a_result_prints_as_a_table_with_its_cost() -> None:
    shown = repr(connected().sql("x"))
    assert "±" in shown
    assert NOTICE in shown
    assert shown.splitlines()[-1].startswith("cost: ε = 0.1")
    assert connected().sql("x").rows == ANSWER.rows


def test_a_failed_statement_leaves_no_old_rows() -> None:
    proxy = FakeProxy()
    cursor = connected(proxy).cursor().execute("x")
    proxy.error = Refused(Reason.RAW_ROWS)
    with pytest.raises(dpsql.NotSupportedError):
        cursor.execute("x")
    assert (cursor.description, cursor.rowcount, cursor.receipt) == (None, -1, NOTHING_PAID)


def test_a_cursor_is_cancelled_by_itself_and_with_its_connection() -> None:
    proxy = FakeProxy()
    connection = connected(proxy)
    cursor, other = connection.cursor(), connection.cursor()
    wanted: list[tuple[bool, ...]] = []

    def during() -> None:
        assert proxy.stop is not None
        other.cancel()
        before = proxy.stop.requested
        (connection if len(wanted) else cursor).cancel()
        wanted.append((before, proxy.stop.requested))

    proxy.during = during
    cursor.execute("x")
    cursor.execute("x")
    assert wanted == [(False, True), (False, True)]
    connection.cancel()
    proxy.during = lambda: None
    cursor.execute("x")
    assert proxy.stop is not None
    assert not proxy.stop.requested


# --- life of a connection ---


def test_commit_and_rollback_change_nothing() -> None:
    proxy = FakeProxy()
    connection = connected(proxy)
    cursor = connection.execute("x")
    connection.rollback()
    connection.commit()
    assert (len(proxy.requests), cursor.fetchall()) == (1, list(ANSWER.rows))


def test_closed_things_refuse_everything() -> None:
    connection = connected()
    cursor = connection.cursor()
    with cursor:
        cursor.execute("x")
    for call in (cursor.fetchone, lambda: cursor.execute("x"), lambda: cursor.explain("x")):
        with pytest.raises(dpsql.InterfaceError):
            call()
    other = connection.cursor()
    with connection:
        pass
    for call in (
        other.fetchone,
        other.fetch_arrow_table,
        other.errors_df,
        lambda: other.scroll(0),
        connection.cursor,
        connection.commit,
        connection.rollback,
        connection.close,
    ):
        with pytest.raises(dpsql.InterfaceError):
            call()


def test_a_system_without_limits_is_refused_in_a_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Windows: everything is imported there, and no data is opened."""
    monkeypatch.setattr(memory, "find_spec", lambda _name: None)
    with pytest.raises(dpsql.OperationalError, match="runs on Linux and macOS") as refused:
        connect(str(policy(tmp_path)))
    assert refused.value.sqlstate == "08001"
    sources = Path(dpsql.__file__ or "").parent.rglob("*.py")
    unix = re.compile(r"^(?:import|from) (?:resource|fcntl|pwd|termios)\b", re.MULTILINE)
    assert not [path.name for path in sources if unix.search(path.read_text("utf-8"))]


def test_a_connection_closed_in_its_block_is_closed_once() -> None:
    with connected() as connection:
        connection.close()


def test_who_opens_the_proxy_closes_it(monkeypatch: pytest.MonkeyPatch) -> None:
    shared = FakeProxy()
    connected(shared).close()
    assert shared.closed == 0
    own = FakeProxy()
    opener = type("Proxy", (), {"open": staticmethod(lambda _path: own)})
    monkeypatch.setitem(sys.modules, "dpsql.proxy", type("Module", (), {"Proxy": opener}))
    connect().close()
    assert own.closed == 1
    with pytest.raises(dpsql.ProgrammingError):
        connect(analyst="eve")
    assert own.closed == 2


def test_threads_share_a_connection() -> None:
    proxy = FakeProxy()
    connection = connected(proxy)
    rows: list[Any] = []
    threads = [
        Thread(target=lambda: rows.append(connection.cursor().execute("x").fetchall()))
        for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert rows == [list(ANSWER.rows)] * 8


# --- errors ---


@pytest.mark.parametrize("reason", Reason)
def test_every_refusal_has_its_class_state_and_reason(reason: Reason) -> None:
    expected = {
        ExitCode.BAD_INPUT: dpsql.ProgrammingError,
        ExitCode.PRIVACY: dpsql.NotSupportedError,
        ExitCode.BUDGET: dpsql.OperationalError,
    }[WORDINGS[reason].exit_code]
    error = raised_from(Refused(reason, Span(0, 6)), "SELECT 1")
    assert type(error) is expected
    assert (error.reason, error.sqlstate) == (reason, WORDINGS[reason].sqlstate)
    assert "at 1:1" in str(error)


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (PolicyError("p", 1, "m", "f"), dpsql.InterfaceError),
        (Failed("6f3a"), dpsql.OperationalError),
        (Unreachable("x"), dpsql.OperationalError),
        (LedgerError("x"), dpsql.OperationalError),
        (MissingExtra("x"), dpsql.NotSupportedError),
        (DpsqlError("x"), dpsql.DatabaseError),
    ],
)
def test_every_other_error(error: DpsqlError, expected: type[dpsql.Error]) -> None:
    proxy = FakeProxy(error=error)
    with pytest.raises(expected) as caught:
        connected(proxy).cursor().execute("SELECT 1")
    assert caught.value.reason is None
    assert chain(caught.value) == []


def chain(error: BaseException) -> list[BaseException]:
    """The exceptions that a traceback of `error` would show before it."""
    before = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    return [] if before is None else [before, *chain(before)]


def test_wrong_twin_a_chained_error_is_seen() -> None:
    def chained() -> None:
        try:
            raise Failed("6f3a")  # noqa: TRY301
        except Failed as error:
            raise raised_from(error)  # noqa: B904

    with pytest.raises(dpsql.OperationalError) as caught:
        chained()
    assert len(chain(caught.value)) == 1


# --- parameters of other drivers, and rows by name ---


def sent(sql: str, parameters: Any, **options: Any) -> tuple[str, tuple[Any, ...]]:
    """The text and the values that reach the proxy."""
    proxy = FakeProxy()
    connected(proxy, **options).execute(sql, parameters)
    return proxy.requests[-1].sql, proxy.requests[-1].parameters


def test_pyformat_puts_values_at_their_places() -> None:
    style = {"paramstyle": "pyformat"}
    by_name = "SELECT %(a)s, n %% 2 FROM t WHERE s = '5 %%' -- %(a)s\n AND x=%(b)s OR y=%(a)s"
    text, values = sent(by_name, {"a": 1, "b": 2}, **style)
    assert text == "SELECT ?, n % 2 FROM t WHERE s = '5 %' -- %(a)s\n AND x=? OR y=?"
    assert values == (1, 2, 1)
    assert sent("SELECT %s, %s", [1, "%s"], **style) == ("SELECT ?, ?", (1, "%s"))
    assert sent("SELECT n % 2", (), **style) == ("SELECT n % 2", ())
    assert sent("SELECT %s", [1, 2], **style) == ("SELECT ?", (1, 2))
    assert sent("SELECT :a", {"a": 1}, paramstyle="named") == ("SELECT ? ", (1,))


@pytest.mark.parametrize(
    ("text", "values"),
    [("SELECT n % 2", [1]), ("SELECT '%s'", [1]), ("SELECT %(b)s", {"a": 1}), ('SELECT "%s"', [1])],
)
def test_wrong_places_of_pyformat_are_refused(text: str, values: Any) -> None:
    with pytest.raises(dpsql.ProgrammingError):
        sent(text, values, paramstyle="pyformat")
    with pytest.raises(dpsql.InterfaceError):
        connected(paramstyle="format")


def test_rows_come_by_name() -> None:
    cursor = connected().execute("SELECT 1")
    names = [column.name for column in ANSWER.columns]
    first, *rest = ANSWER.rows
    assert cursor.fetchone() == first
    assert cursor.fetchdicts() == [dict(zip(names, row, strict=True)) for row in rest]
    assert cursor.fetchdicts() == []
    twice = replace(ANSWER, columns=(ANSWER.columns[0],) * len(ANSWER.columns))
    with pytest.raises(dpsql.ProgrammingError, match="one name"):
        connected().cursor().take(twice).fetchdicts()


# --- asyncio ---


def test_statements_of_tasks_run_side_by_side() -> None:
    together = Barrier(2, timeout=HANGS_SECONDS)

    def meet() -> None:
        together.wait()

    async def ask() -> list[Any]:
        proxy: Any = FakeProxy(during=meet)
        async with await dpsql.aio.connect(proxy=proxy) as connection:
            asked = [connection.execute("SELECT 1") for _ in range(2)]
            return [cursor.fetchall() for cursor in await asyncio.gather(*asked)]

    assert asyncio.run(ask()) == [list(ANSWER.rows)] * 2


def test_a_cancelled_task_stops_its_statement_alone() -> None:
    begun, fake = ThreadEvent(), FakeProxy()

    def run_until_stopped() -> None:
        begun.set()
        stop = fake.stop
        assert stop is not None
        until(lambda: stop.requested)

    async def ask() -> None:
        proxy: Any = fake
        async with await dpsql.aio.connect(proxy=proxy) as connection:
            fake.during = run_until_stopped
            task = asyncio.create_task(connection.execute("SELECT 1"))
            await asyncio.to_thread(begun.wait)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            fake.during = begun.clear
            assert (await connection.execute("SELECT 1")).fetchall() == list(ANSWER.rows)

    asyncio.run(ask())
    with pytest.raises(dpsql.ProgrammingError):
        asyncio.run(dpsql.aio.connect(proxy=cast("Any", fake), analyst="eve"))
