"""ibis: expressions of Python become SQL, answered by `dpsql serve` over the Postgres wire.

Needs the package `ibis-framework[postgres]` and a server, of which it takes the address:
python examples/ibis_over_the_wire.py postgres://ana:PASSWORD@127.0.0.1:5439/dpsql
"""

import sys

import ibis

if len(sys.argv) < 2:  # noqa: PLR2004
    sys.exit(__doc__)
connection = ibis.connect(sys.argv[1])

# The columns that are asked for; the policy has them with these types.
customers = ibis.table({"customer_id": "int64", "segment": "string", "age": "int64"}, "customers")
orders = ibis.table(
    {"customer_id": "int64", "amount": "decimal(10, 2)", "placed_at": "timestamp"}, "orders"
)

by_segment = customers.group_by("segment").agg(n=customers.count(), mean_age=customers.age.mean())
print(connection.execute(by_segment))

adults = customers.filter(customers.age >= 18)  # noqa: PLR2004
print("adults:", connection.execute(adults.count()))

joined = orders.join(customers, "customer_id")
turnover = joined.group_by("segment").agg(total=joined.amount.sum())
print(connection.execute(turnover.order_by(ibis.desc("total"))))

month = orders.placed_at.truncate("M").name("month")
print(connection.execute(orders.group_by(month).agg(n=orders.count()).order_by("month").limit(3)))
