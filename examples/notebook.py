# %% [markdown]
"""A first session in notebook style: look at the price, ask, look at the error.

Run it after `dpsql demo --small`: python examples/notebook.py dpsql-demo/dpsql.toml
"""

# %% Connect as the analyst ana, who pays from her budget.
import sys

import dpsql

policy = sys.argv[1] if len(sys.argv) > 1 else "dpsql-demo/dpsql.toml"
connection = dpsql.connect(policy, analyst="ana")
cursor = connection.cursor()

# %% What would it cost, and how exact would it be? Asking this is free.
BY_SEGMENT = "SELECT segment, COUNT(*) AS n, AVG(age) AS mean_age FROM customers GROUP BY segment"
print(dpsql.plan_text(cursor.explain(BY_SEGMENT)))

# %% Ask. Every number comes with the half-width of its 95 % interval.
cursor.execute(BY_SEGMENT)
names = [column[0] for column in cursor.description or ()]
for row, margins in zip(cursor.fetchall(), cursor.margins, strict=True):
    cells = (
        f"{name} = {value}" if margin is None else f"{name} = {value:.1f} ± {margin:.1f}"
        for name, value, margin in zip(names, row, margins, strict=True)
    )
    print(", ".join(cells))

# %% What did it cost?
print(cursor.receipt)

# %% A refusal says why, where, and what would work. It costs nothing.
try:
    cursor.execute("SELECT name FROM customers")
except dpsql.NotSupportedError as refusal:
    print(refusal)

connection.close()
