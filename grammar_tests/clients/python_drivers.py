"""What users of Python's own drivers do; the argument names the driver."""

from __future__ import annotations

import asyncio
import os
import ssl
import sys
from datetime import datetime
from decimal import Decimal
from io import BytesIO
from typing import Any

import asyncpg
import pg8000.dbapi
import psycopg
import psycopg2

from grammar_tests.clients.asked import (
    BY_SEGMENT,
    CODES,
    CONSTANTS,
    OF_ORDERS,
    SLOW,
    quiet,
    tell,
    until_done,
)

TABLES = "SELECT tablename FROM pg_tables WHERE schemaname = 'public' ORDER BY 1"
COLUMNS = (
    "SELECT column_name, data_type, is_nullable FROM information_schema.columns"
    " WHERE table_name = {} ORDER BY ordinal_position"
)
WRONG = ("SELECT nothing FROM customers", CODES, "SELECT 1 FROM nowhere")
GIVEN = datetime(2024, 2, 1), "paid", Decimal("99.5"), 0.25
FORMS = ("", "WITH (FORMAT csv, HEADER)", "WITH (FORMAT binary)")


def answer(cursor: Any) -> list[Any]:
    names = [column[0] for column in cursor.description]
    return [[list(column[:2]) for column in cursor.description], *quiet(names, cursor.fetchall())]


def state(work: Any, errors: Any, code: Any) -> str:
    try:
        work()
    except errors as error:
        return str(code(error))
    return "answered"


def common(cursor: Any, mark: str, form: str, **options: Any) -> None:
    """What PEP 249 lets every driver ask."""

    def asked(sql: str, *values: Any) -> list[Any]:
        cursor.execute(sql, values, **options)
        return answer(cursor)

    tell(f"{form}: tables", asked(TABLES))
    tell(f"{form}: columns", asked(COLUMNS.format(mark), "orders"))
    tell(f"{form}: constants", asked(CONSTANTS))
    for age in (30, 40):
        tell(f"{form}: by segment {age}", asked(BY_SEGMENT.format(mark), age))
    tell(f"{form}: of orders", asked(OF_ORDERS.format(*[mark] * 4), *GIVEN))
    cursor.execute(CODES)
    tell(f"{form}: chunks", [cursor.fetchmany(2), cursor.fetchmany(2), cursor.fetchmany(2)])


def failure(connection: Any, errors: Any, code: Any) -> None:
    cursor = connection.cursor()
    cursor.execute("SAVEPOINT here")
    seen = [state(lambda sql=sql: cursor.execute(sql), errors, code) for sql in WRONG]
    cursor.execute("ROLLBACK TO here")
    seen.append(state(lambda: cursor.execute(CODES), errors, code))
    connection.rollback()
    cursor.execute(CODES)
    tell("failure", [*seen, cursor.fetchall()])


def with_psycopg() -> None:
    def code(error: Any) -> Any:
        return error.sqlstate

    with psycopg.connect("") as connection:
        tell("connection", [connection.pgconn.ssl_in_use, connection.info.server_version // 10000])
        for binary in (False, True):
            cursor = connection.cursor(binary=binary)
            common(cursor, "%b" if binary else "%s", f"binary {binary}", prepare=binary)
        with connection.cursor("held") as held:
            held.itersize = 2
            tell("named", list(held.execute(CODES)))
        for form in FORMS:
            with connection.cursor().copy(f"COPY ({CODES}) TO STDOUT {form}") as copy:
                tell(f"copy {form}", [bytes(part).hex() for part in copy])
        with connection.pipeline():
            found = [connection.execute(CODES) for _ in range(3)]
            tell("pipeline", [cursor.fetchall() for cursor in found])
        failure(connection, psycopg.Error, code)
        slow = until_done(
            lambda: state(lambda: connection.execute(SLOW), psycopg.Error, code),
            connection.cancel_safe,
        )
        tell("cancel", slow)


def with_psycopg2() -> None:
    def code(error: Any) -> Any:
        return error.pgcode

    connection = psycopg2.connect("")
    tell("connection", [connection.info.ssl_in_use, connection.server_version // 10000])
    common(connection.cursor(), "%s", "spliced")
    with connection.cursor("held") as held:
        held.itersize = 2
        held.execute(CODES)
        tell("named", list(held))
    for form in FORMS:
        copied = BytesIO()
        connection.cursor().copy_expert(f"COPY ({CODES}) TO STDOUT {form}", copied)
        tell(f"copy {form}", copied.getvalue().hex())
    failure(connection, psycopg2.Error, code)
    cursor = connection.cursor()
    slow = state_of(lambda: cursor.execute(SLOW), psycopg2.Error, code)
    tell("cancel", until_done(slow, connection.cancel))


def state_of(work: Any, errors: Any, code: Any) -> Any:
    return lambda: state(work, errors, code)


def with_pg8000() -> None:
    def code(error: Any) -> Any:
        return error.args[0]["C"]

    trusted = ssl.create_default_context(cafile=os.environ["PGSSLROOTCERT"])
    connection = pg8000.dbapi.connect(
        os.environ["PGUSER"],
        host=os.environ["PGHOST"],
        port=int(os.environ["PGPORT"]),
        database=os.environ["PGDATABASE"],
        password=os.environ["PGPASSWORD"],
        ssl_context=trusted,
    )
    cursor = connection.cursor()
    common(cursor, "%s", "text")
    for form in FORMS[:2]:
        copied = BytesIO()
        cursor.execute(f"COPY ({CODES}) TO STDOUT {form}", stream=copied)
        tell(f"copy {form}", copied.getvalue().hex())
    failure(connection, pg8000.dbapi.Error, code)
    cursor.execute("SET statement_timeout = '300ms'")
    tell("timeout", state(lambda: cursor.execute(SLOW), pg8000.dbapi.Error, code))


async def with_asyncpg() -> None:
    trusted = ssl.create_default_context(cafile=os.environ["PGSSLROOTCERT"])
    connection = await asyncpg.connect(ssl=trusted)

    async def asked(sql: str, *values: Any) -> list[Any]:
        statement = await connection.prepare(sql)
        names = [column.name for column in statement.get_attributes()]
        kinds = [column.type.name for column in statement.get_attributes()]
        wanted = [kind.name for kind in statement.get_parameters()]
        return [kinds, wanted, *quiet(names, [list(row) for row in await statement.fetch(*values)])]

    async def failed(sql: str) -> str:
        try:
            await connection.fetch(sql)
        except asyncpg.PostgresError as error:
            return str(error.sqlstate)
        return "answered"

    tell("connection", connection.get_server_version().major)
    tell("tables", await asked(TABLES))
    tell("columns", await asked(COLUMNS.format("$1"), "orders"))
    tell("constants", await asked(CONSTANTS))
    for age in (30, 40):
        tell(f"by segment {age}", await asked(BY_SEGMENT.format("$1"), age))
    tell("of orders", await asked(OF_ORDERS.format("$1", "$2", "$3", "$4"), *GIVEN))
    async with connection.transaction():
        cursor = await connection.cursor(CODES)
        chunks = [await cursor.fetch(2), await cursor.fetch(2), await cursor.fetch(2)]
        tell("chunks", [[row["code"] for row in chunk] for chunk in chunks])
    for form in ("text", "csv", "binary"):
        copied = BytesIO()
        await connection.copy_from_query(CODES, output=copied, format=form)
        tell(f"copy {form}", copied.getvalue().hex())
    transaction = connection.transaction()
    await transaction.start()
    seen = [await failed(sql) for sql in WRONG]
    await transaction.rollback()
    tell("failure", [*seen, await failed(CODES)])
    # asyncpg sends its request to cancel when a task is cancelled or late.
    try:
        await connection.fetch(SLOW, timeout=1)
    except TimeoutError:
        tell("cancel", await connection.fetchval("SELECT 'alive'"))
    await connection.close()


def main() -> None:
    match sys.argv[1]:
        case "psycopg":
            with_psycopg()
        case "psycopg2":
            with_psycopg2()
        case "pg8000":
            with_pg8000()
        case "asyncpg":
            asyncio.run(with_asyncpg())


if __name__ == "__main__":
    main()
