"""A dashboard that may be refreshed for ever: the same question costs nothing the second time.

Run it after `dpsql demo --small`: python examples/dashboard.py dpsql-demo/dpsql.toml
"""

import sys

import dpsql

TILES = {
    "customers": "SELECT COUNT(*) AS n FROM customers",
    "customers by segment": "SELECT segment, COUNT(*) AS n FROM customers GROUP BY segment",
    "orders by status": "SELECT status, COUNT(*) AS n FROM orders GROUP BY status",
    "turnover": "SELECT SUM(amount) AS total FROM orders",
}


def refresh(connection: dpsql.Connection) -> int:
    """Shows every tile; returns what that cost, in billionths of the budget's unit."""
    cost = 0
    for title, sql in TILES.items():
        cursor = connection.cursor().execute(sql)
        print(f"{title}: {cursor.fetchall()}")
        cost += cursor.receipt.charged.amount
    return cost


policy = sys.argv[1] if len(sys.argv) > 1 else "dpsql-demo/dpsql.toml"
with dpsql.connect(policy, analyst="ana", epsilon="0.1") as connection:
    first, second = refresh(connection), refresh(connection)
print(f"The first refresh cost {first}, the second {second}.")
if second:
    sys.exit("A repeated question was charged.")
