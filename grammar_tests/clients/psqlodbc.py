"""What ODBC's users do, by pyodbc over psqlODBC; the argument is the driver's path."""

from __future__ import annotations

import os
import sys
from datetime import datetime
from decimal import Decimal
from typing import Any

import pyodbc

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

FETCHED = "UseDeclareFetch=1;Fetch=2"


def connect(*options: str) -> Any:
    given = {
        "DRIVER": sys.argv[1], "SERVER": os.environ["PGHOST"], "PORT": os.environ["PGPORT"],
        "UID": os.environ["PGUSER"], "PWD": os.environ["PGPASSWORD"],
        "DATABASE": os.environ["PGDATABASE"], "SSLmode": os.environ["PGSSLMODE"],
    }  # fmt: skip
    words = [f"{name}={value}" for name, value in given.items()]
    return pyodbc.connect(";".join([*words, *options]), autocommit=True)


def answer(cursor: Any) -> list[Any]:
    names = [column[0] for column in cursor.description]
    kinds = [(name, kind.__name__, *rest) for name, kind, *rest in cursor.description]
    return [kinds, *quiet(names, cursor.fetchall())]


def rows(cursor: Any, *ignored: str) -> list[Any]:
    names = [column[0] for column in cursor.description]
    kept = [name not in ignored for name in names]
    return [names, *([v if k else None for k, v in zip(kept, row, strict=True)] for row in cursor)]


def state(connection: Any, sql: str) -> str:
    try:
        connection.execute(sql).fetchall()
    except pyodbc.Error as error:
        return str(error.args[0])
    return "answered"


def catalogue(connection: Any) -> None:
    cursor = connection.cursor()
    about = ("SQL_DBMS_NAME", "SQL_USER_NAME", "SQL_DATABASE_NAME", "SQL_TXN_CAPABLE")
    told = [connection.getinfo(getattr(pyodbc, name)) for name in about]
    tell("connection", [*told, connection.getinfo(pyodbc.SQL_DBMS_VER)[:2]])
    tell("tables", rows(cursor.tables(schema="public")))
    tell("tables like", rows(cursor.tables(table="ord%")))
    for table in ("customers", "orders", "items", "countries"):
        tell(f"columns of {table}", rows(cursor.columns(table, schema="public"), "table oid"))
        tell(f"key of {table}", rows(cursor.primaryKeys(table, schema="public")))
        tell(f"links of {table}", rows(cursor.foreignKeys(foreignTable=table)))
        tell(f"links to {table}", rows(cursor.foreignKeys(table=table)))
        # An int2vector that is none makes this driver crash here.
        tell(f"indexes of {table}", rows(cursor.statistics(table, schema="public")))
        tell(f"row of {table}", rows(cursor.rowIdColumns(table, schema="public")))
        tell(f"version of {table}", rows(cursor.rowVerColumns(table, schema="public")))
    tell("types", rows(cursor.getTypeInfo()))
    tell("functions", rows(cursor.procedures("abs"), "REMARKS", "remarks"))
    tell("their columns", rows(cursor.procedureColumns("abs")))
    index = "SELECT indkey, indclass FROM pg_index WHERE indrelid = 'orders'::regclass"
    tell("vectors", rows(cursor.execute(index)))


def values(connection: Any, form: str) -> None:
    cursor = connection.cursor()
    tell(f"{form}: constants", answer(cursor.execute(CONSTANTS)))
    for age in (30, 40):
        tell(f"{form}: by segment {age}", answer(cursor.execute(BY_SEGMENT.format("?"), age)))
    orders = OF_ORDERS.format(*"????")
    for last in (0.25, None):
        given = datetime(2024, 2, 1, 0, 0, 0, 500_000), "paid", Decimal("99.5"), last
        tell(f"{form}: of orders {last}", answer(cursor.execute(orders, *given)))
    codes = cursor.execute("SELECT code FROM countries WHERE code = ?", "NO")
    tell(f"{form}: one code", rows(codes))
    tell(f"{form}: two codes", rows(cursor.execute(CODES + " LIMIT ?", 2)))


def chunks(connection: Any) -> None:
    connection.autocommit = False
    cursor = connection.execute(CODES)
    seen = [[list(row) for row in cursor.fetchmany(2)] for _ in range(3)]
    tell("chunks", [seen, answer(connection.execute(BY_SEGMENT.format("?"), 30))])
    connection.commit()


def failure(connection: Any, form: str) -> None:
    connection.autocommit = False
    seen = [
        state(connection, sql)
        for sql in (CODES, "SELECT nothing FROM customers", CODES, "SELECT 1 FROM nowhere")
    ]
    connection.rollback()
    seen.append(state(connection, CODES))
    connection.commit()
    connection.autocommit = True
    tell(f"{form}: failure", seen)


def cancel(connection: Any) -> None:
    cursor = connection.cursor()

    def slow() -> str:
        try:
            cursor.execute(SLOW)
        except pyodbc.Error as error:
            return str(error.args[0])
        return "answered"

    tell("cancel", until_done(slow, cursor.cancel))
    connection.execute("SET statement_timeout = '300ms'")
    tell("timeout", state(connection, SLOW))
    connection.execute("RESET statement_timeout")
    tell("after cancel", rows(connection.execute(CODES)))


def main() -> None:
    connection = connect()
    catalogue(connection)
    values(connection, "prepared")
    failure(connection, "statement")
    cancel(connection)
    connection.close()
    connection = connect("UseServerSidePrepare=0", "Protocol=7.4-1")
    values(connection, "spliced")
    failure(connection, "transaction")
    connection.close()
    connection = connect(FETCHED)
    values(connection, "declared")
    chunks(connection)
    connection.close()


if __name__ == "__main__":
    main()
