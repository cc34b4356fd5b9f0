"""pandas: frames through SQLAlchemy, and frames with their errors through the DB-API.

Needs the extras `pandas` and `sqlalchemy`. Run it after `dpsql demo --small`:
python examples/pandas_frames.py dpsql-demo/dpsql.toml
"""

import sys

import pandas as pd
import sqlalchemy as sa

import dpsql

policy = sys.argv[1] if len(sys.argv) > 1 else "dpsql-demo/dpsql.toml"
BY_STATUS = "SELECT status, COUNT(*) AS n, SUM(amount) AS total FROM orders GROUP BY status"

# Through SQLAlchemy: text, a reflected public table, and an expression with a parameter.
engine = sa.create_engine(f"dpsql:///{policy}?analyst=ana")
print(pd.read_sql(BY_STATUS, engine, index_col="status"))
regions = pd.read_sql_table("countries", engine)
customers = sa.Table("customers", sa.MetaData(), autoload_with=engine)
query = (
    sa.select(customers.c.country, sa.func.count().label("n"))
    .where(customers.c.segment == "consumer")
    .group_by(customers.c.country)
)
by_country = pd.read_sql(query, engine)
joined = by_country.merge(regions, left_on="country", right_on="code")
print(joined.groupby("region")["n"].sum())
engine.dispose()

# Through the DB-API: the same question is free, and each number has its 95 % interval.
with dpsql.connect(policy, analyst="ana", dialect="postgres") as connection:
    cursor = connection.execute(BY_STATUS)
    values, margins = cursor.fetchdf(), cursor.margins_df()
print(
    pd.DataFrame(
        {
            "status": values["status"],
            "low": values["total"] - margins["total"],
            "high": values["total"] + margins["total"],
        }
    )
)
if cursor.receipt.charged.amount:
    sys.exit("A repeated question was charged.")
