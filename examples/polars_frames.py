"""polars: read_database through the DB-API, and typed frames from a cursor.

Needs the extra `polars`. Run it after `dpsql demo --small`:
python examples/polars_frames.py dpsql-demo/dpsql.toml
"""

import sys

import polars as pl

import dpsql

policy = sys.argv[1] if len(sys.argv) > 1 else "dpsql-demo/dpsql.toml"
BY_KIND = "SELECT kind, COUNT(*) AS n, AVG(duration) AS mean FROM events GROUP BY kind"

with dpsql.connect(policy, analyst="ana") as connection:
    print(pl.read_database(BY_KIND, connection))
    adults = pl.read_database(
        "SELECT segment, COUNT(*) AS n FROM customers WHERE age > ? GROUP BY segment",
        connection,
        execute_options={"parameters": [17]},
    )
    print(adults.with_columns(share=pl.col("n") / pl.col("n").sum()))

    # A cursor's own frame keeps every digit of a DECIMAL; the margins stand beside it.
    cursor = connection.execute("SELECT status, SUM(amount) AS total FROM orders GROUP BY status")
    margins = pl.Series("margin", [row[1] for row in cursor.margins])
    print(cursor.pl().with_columns(margins))
