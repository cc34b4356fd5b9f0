"""What ADBC's users do, by its PostgreSQL driver: Arrow out of binary COPY, pandas and polars."""

from __future__ import annotations

import os
from datetime import datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
from adbc_driver_postgresql import dbapi

from grammar_tests.clients.asked import (
    BY_SEGMENT,
    CODES,
    CONSTANTS,
    NOISY,
    OF_ORDERS,
    SLOW,
    tell,
    until_done,
)


def connect() -> Any:
    return dbapi.connect("postgresql://", autocommit=True)  # the rest is in the environment


def table(found: pa.Table) -> list[Any]:
    """The fields of an Arrow table with their metadata, and its rows without what is noisy."""
    fields = [(f.name, str(f.type), f.nullable, repr(f.metadata)) for f in found.schema]
    rows = [
        {name: type(v).__name__ if name in NOISY else v for name, v in row.items()}
        for row in found.to_pylist()
    ]
    return [fields, rows]


def in_order(value: Any) -> Any:
    """Nested lists sorted: the order of catalogues, tables and columns is nobody's promise."""
    match value:
        case list():
            return sorted(map(in_order, value), key=repr)
        case dict():
            return {name: in_order(part) for name, part in value.items()}
    return value


def asked(cursor: Any, sql: str, *values: Any) -> list[Any]:
    cursor.execute(sql, values or None)
    return table(cursor.fetch_arrow_table())


def state(cursor: Any, sql: str) -> str:
    try:
        cursor.execute(sql)
        cursor.fetchall()
    except dbapi.Error as error:
        return str(error.sqlstate)
    return "answered"


def catalogue(connection: Any) -> None:
    info = connection.adbc_get_info()
    tell("connection", [info["vendor_name"], str(info["vendor_version"])[:2]])
    tell("kinds of tables", sorted(connection.adbc_get_table_types()))
    found = connection.adbc_get_objects(depth="all", db_schema_filter="public").read_all()
    tell("objects", in_order(found.to_pylist()))
    one = connection.adbc_get_objects(
        depth="columns", table_name_filter="orders", column_name_filter="a%"
    )
    tell("one column", in_order(one.read_all().to_pylist()))
    for name in ("customers", "orders", "countries"):
        schema = connection.adbc_get_table_schema(name)
        tell(f"schema of {name}", [(f.name, str(f.type), f.nullable) for f in schema])


def values(cursor: Any) -> None:
    tell("constants", asked(cursor, CONSTANTS))
    tell("described", [(f.name, str(f.type)) for f in cursor.adbc_execute_schema(CONSTANTS)])
    tell("none", asked(cursor, "SELECT code FROM countries WHERE code = 'XX'"))
    for age in (30, 40):
        tell(f"by segment {age}", asked(cursor, BY_SEGMENT.format("$1"), age))
    tell("by segment", asked(cursor, BY_SEGMENT.format(30)))
    wanted = cursor.adbc_prepare(BY_SEGMENT.format("$1"))
    tell("parameters", [(f.name, str(f.type)) for f in wanted])
    orders = OF_ORDERS.format("$1", "$2", "$3", "$4")
    given = datetime(2024, 2, 1), "paid", Decimal("99.5"), 0.25
    tell("of orders", asked(cursor, orders, *given))


def chunks(cursor: Any) -> None:
    # Hints of bytes make a batch of each row or so: binary COPY, whose header comes first.
    cursor.adbc_statement.set_options(**{"adbc.postgresql.batch_size_hint_bytes": "1"})
    cursor.execute(CODES)
    tell("batches", [batch.to_pylist() for batch in cursor.fetch_record_batch()])
    cursor.execute(CODES)
    tell("rows", [cursor.fetchmany(2), cursor.fetchmany(2)])
    cursor.adbc_statement.set_options(**{"adbc.postgresql.use_copy": "false"})
    tell("without copy", asked(cursor, CONSTANTS))


def frames(cursor: Any) -> None:
    cursor.execute(BY_SEGMENT.format(30))
    tell("pandas", [(name, str(kind)) for name, kind in cursor.fetch_df().dtypes.items()])
    cursor.execute(BY_SEGMENT.format(30))
    tell("polars", [(name, str(kind)) for name, kind in cursor.fetch_polars().schema.items()])


def failure() -> None:
    with dbapi.connect("postgresql://") as connection, connection.cursor() as cursor:
        seen = [
            state(cursor, sql)
            for sql in (CODES, "SELECT nothing FROM customers", CODES, "SELECT 1 FROM nowhere")
        ]
        connection.rollback()
        seen.append(state(cursor, CODES))
        connection.commit()
        tell("failure", seen)


def cancel(connection: Any) -> None:
    with connection.cursor() as cursor:
        tell("cancel", until_done(lambda: state(cursor, SLOW), cursor.adbc_cancel))
    with connection.cursor() as cursor:
        cursor.execute("SET statement_timeout = '300ms'")
        tell("timeout", state(cursor, SLOW))
        cursor.execute("RESET statement_timeout")
        tell("after cancel", asked(cursor, CODES))


def main() -> None:
    os.environ.setdefault("TZ", "UTC")
    with connect() as connection:
        catalogue(connection)
        with connection.cursor() as cursor:
            values(cursor)
        with connection.cursor() as cursor:
            chunks(cursor)
        with connection.cursor() as cursor:
            frames(cursor)
        cancel(connection)
    failure()


if __name__ == "__main__":
    main()
