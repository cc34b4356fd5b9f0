"""demo: the small shop of the pages, the same at every build, and three queries."""

from __future__ import annotations

import atexit
import gc
from pathlib import Path
from typing import Any

TABLES = """
CREATE TABLE countries (code VARCHAR PRIMARY KEY, name VARCHAR NOT NULL, region VARCHAR NOT NULL);
INSERT INTO countries VALUES
  ('DK', 'Denmark', 'north'), ('ES', 'Spain', 'south'), ('FI', 'Finland', 'north'),
  ('IT', 'Italy', 'south'), ('NO', 'Norway', 'north'), ('SE', 'Sweden', 'north');
CREATE TABLE customers (
  customer_id INTEGER PRIMARY KEY,
  name VARCHAR NOT NULL,
  country VARCHAR NOT NULL REFERENCES countries (code),
  segment VARCHAR NOT NULL CHECK (segment IN ('consumer', 'business')),
  age INTEGER CHECK (age BETWEEN 0 AND 120),
  city VARCHAR NOT NULL
);
INSERT INTO customers SELECT
  i, 'customer ' || i,
  (['DK', 'ES', 'FI', 'IT', 'NO', 'SE'])[1 + (hash(i) % 6)::INTEGER],
  CASE WHEN hash(i, 1) % 4 = 0 THEN 'business' ELSE 'consumer' END,
  CASE WHEN hash(i, 2) % 20 > 0 THEN 18 + (hash(i, 3) % 40 + hash(i, 4) % 30)::INTEGER END,
  'city ' || (sqrt(hash(i, 5) % 900))::INTEGER
FROM range(1, 2001) AS r(i);
CREATE TABLE orders (
  order_id INTEGER PRIMARY KEY,
  customer_id INTEGER NOT NULL REFERENCES customers (customer_id),
  amount DECIMAL(10, 2) NOT NULL CHECK (amount BETWEEN 0 AND 500),
  status VARCHAR NOT NULL CHECK (status IN ('open', 'paid', 'returned')),
  placed_at TIMESTAMP NOT NULL
);
INSERT INTO orders SELECT
  i, 1 + (hash(i) % 1900)::INTEGER,
  ((hash(i, 1) % 20000 + hash(i, 2) % 20000) / 100)::DECIMAL(10, 2),
  (['paid', 'paid', 'paid', 'open', 'returned'])[1 + (hash(i, 3) % 5)::INTEGER],
  TIMESTAMP '2024-01-01' + to_minutes((hash(i, 4) % 1051000)::BIGINT)
FROM range(1, 20001) AS r(i);
CREATE TABLE events (
  event_id INTEGER PRIMARY KEY,
  customer_id INTEGER NOT NULL REFERENCES customers (customer_id),
  kind VARCHAR NOT NULL,
  duration INTEGER NOT NULL
);
INSERT INTO events SELECT
  i, 1 + (hash(i) % 2000)::INTEGER,
  (['view', 'view', 'view', 'search', 'buy', 'return'])[1 + (hash(i, 1) % 6)::INTEGER],
  (hash(i, 2) % 600)::INTEGER
FROM range(1, 50001) AS r(i);
"""

POLICY = """\
# The policy of the demo shop: whose privacy is protected, and how much may be spent.
[database]
engine = "duckdb"
path = "shop.duckdb"

[privacy_unit]
table = "customers"
key = "customer_id"
neighbours = "add_remove"

[tables.customers]
access = "private"
expected_rows = 2000
key = "customer_id"
[tables.customers.columns]
customer_id = {}
name = { hidden = true }
country = { values_from = "countries.code" }
segment = { values = ["consumer", "business"] }
age = { bounds = [0, 120], nullable = true }
city = {}

[tables.orders]
access = "private"
expected_rows = 20000
key = "order_id"
link = { column = "customer_id", references = "customers.customer_id" }
max_groups_per_unit = 5
max_rows_per_group = 20
[tables.orders.columns]
order_id = {}
customer_id = {}
amount = { bounds = [0.0, 500.0] }
status = { values = ["open", "paid", "returned"] }
placed_at = { bounds = [2024-01-01T00:00:00, 2025-12-31T23:59:59] }

[tables.events]
access = "private"
expected_rows = 50000
key = "event_id"
link = { column = "customer_id", references = "customers.customer_id" }
max_groups_per_unit = 6
max_rows_per_group = 20
[tables.events.columns]
event_id = {}
customer_id = {}
kind = {}
duration = { bounds = [0, 600] }

[tables.countries]
access = "public"
key = "code"

[budgets.default]
epsilon = 10.0
delta = 1e-6
accountant = "zcdp"
query_epsilon = 0.5
max_query_epsilon = 2.0
query_delta = 1e-8

[analysts.ana]
budget = "default"

[ledger]
path = "dpsql.ledger"
"""

BY_SEGMENT = "SELECT segment, COUNT(*) AS customers FROM customers GROUP BY segment"
BY_REGION = """\
SELECT region, SUM(amount) AS revenue, AVG(amount) AS mean
FROM orders JOIN customers USING (customer_id) JOIN countries ON country = code
WHERE status = 'paid' GROUP BY region ORDER BY revenue DESC"""
BY_CITY = """\
SELECT city, COUNT(*) AS customers FROM customers
GROUP BY city ORDER BY customers DESC LIMIT 5"""
QUERIES = (
    ("How many customers of each segment? Public keys: every segment is answered.", BY_SEGMENT),
    ("What do they spend, by region? Amounts are clipped to their bounds.", BY_REGION),
    ("Which cities have many customers? Private keys: small ones stay hidden.", BY_CITY),
)
"""Title and SQL of the three queries."""


def build(directory: Path) -> Path:
    """Write shop.duckdb and dpsql.toml into a directory; return the policy's path."""
    directory.mkdir(parents=True, exist_ok=True)
    write_database(directory / "shop.duckdb", TABLES)
    policy = directory / "dpsql.toml"
    policy.write_text(POLICY, encoding="utf-8")
    return policy


def write_database(database: Path, statements: str) -> None:
    """Write a new DuckDB file, by these statements."""
    database.unlink(missing_ok=True)
    change_database(database, "SELECT 1", statements)


def change_database(database: Path, query: str, statements: str) -> list[tuple[Any, ...]]:
    """Run statements in a DuckDB file; return the rows of a query before them."""
    import duckdb  # noqa: PLC0415  `dpsql --help` does without

    atexit.register(gc.unfreeze)  # else DuckDB complains at the exit about frozen objects
    with duckdb.connect(str(database)) as connection:
        rows = connection.execute(query).fetchall()
        connection.execute(statements)
    return rows
