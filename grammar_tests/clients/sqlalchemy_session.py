"""What users of SQLAlchemy over the wire do, and of pandas and polars."""

from __future__ import annotations

import os
from decimal import Decimal
from typing import Any

import pandas as pd
import polars as pl
import sqlalchemy as sa

from grammar_tests.clients.asked import CODES, CONSTANTS, NOISY, quiet, tell


def engine() -> sa.Engine:
    where = sa.URL.create(
        "postgresql+psycopg",
        os.environ["PGUSER"],
        os.environ["PGPASSWORD"],
        os.environ["PGHOST"],
        int(os.environ["PGPORT"]),
        os.environ["PGDATABASE"],
    )
    return sa.create_engine(where)


def inspected(made: sa.Engine) -> None:
    looked = sa.inspect(made)
    tell("schemas", sorted(looked.get_schema_names()))
    tell("tables", sorted(looked.get_table_names()))
    tell("views", looked.get_view_names())
    for table in ("customers", "orders", "items", "countries"):
        columns = [{**c, "type": repr(c["type"])} for c in looked.get_columns(table)]
        tell(f"columns of {table}", columns)
        tell(f"key of {table}", looked.get_pk_constraint(table))
        tell(f"links of {table}", looked.get_foreign_keys(table))
        tell(f"indexes of {table}", looked.get_indexes(table))
        tell(f"comment of {table}", looked.get_table_comment(table))
    tell("has", [looked.has_table(name) for name in ("orders", "nowhere")])


def answer(result: Any) -> list[Any]:
    names = list(result.keys())
    return [names, *quiet(names, list(result))]


def asked(made: sa.Engine) -> None:
    known = sa.MetaData()
    customers = sa.Table("customers", known, autoload_with=made)
    orders = sa.Table("orders", known, autoload_with=made)
    by_segment = (
        sa.select(customers.c.segment, sa.func.count().label("n"))
        .where(customers.c.age > 30)
        .group_by(customers.c.segment)
        .order_by(customers.c.segment)
    )
    total = sa.cast(sa.func.sum(orders.c.amount), sa.Numeric).label("mean")
    joined = (
        sa.select(customers.c.segment, total)
        .join(orders, orders.c.customer_id == customers.c.customer_id)
        .where(orders.c.status.in_(["paid", "open"]), orders.c.amount < Decimal("99.5"))
        .group_by(customers.c.segment)
        .order_by(customers.c.segment)
    )
    with made.connect() as connection:
        tell("constants", answer(connection.execute(sa.text(CONSTANTS))))
        tell("by segment", answer(connection.execute(by_segment)))
        tell("joined", answer(connection.execute(joined)))
        streamed = connection.execution_options(yield_per=2).execute(sa.text(CODES))
        tell("chunks", [[row.code for row in part] for part in streamed.partitions()])
    with made.connect() as connection:
        tell("failure", failure(connection))
    tell("pandas", described(pd.read_sql(by_segment, made)))
    frames = pd.read_sql(sa.text(CODES), made, chunksize=2)
    tell("pandas in chunks", [list(frame.code) for frame in frames])
    with made.connect() as connection:
        frame = pl.read_database(by_segment, connection)
        tell("polars", {name: str(kind) for name, kind in frame.schema.items()})


def failure(connection: sa.Connection) -> list[Any]:
    seen: list[Any] = []
    with connection.begin():
        try:
            with connection.begin_nested():
                connection.execute(sa.text("SELECT nothing FROM customers"))
        except sa.exc.DBAPIError as error:
            seen.append(type(error).__name__)
        seen.append(answer(connection.execute(sa.text(CODES))))
    return seen


def described(frame: pd.DataFrame) -> dict[str, Any]:
    kept = [name for name in frame.columns if name not in NOISY]
    kinds = {name: str(kind) for name, kind in frame.dtypes.items()}
    return {"kinds": kinds, "values": frame[kept].to_dict("list")}


def main() -> None:
    made = engine()
    inspected(made)
    asked(made)
    made.dispose()


if __name__ == "__main__":
    main()
