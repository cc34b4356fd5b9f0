"""tour: the shop of `dpsql demo`, the same at every build, and its questions.

Of 20,000 customers a few hundred buy weekly, and most about twice a quarter. The policy declares
no limit on what one of them adds: limits are found privately.
"""

from __future__ import annotations

from pathlib import Path

from dpsql.policy.demo import change_database, write_database

DATABASE = "shop.duckdb"
TABLES = """
CREATE TABLE customers (
  customer_id INTEGER PRIMARY KEY,
  name VARCHAR NOT NULL,
  segment VARCHAR NOT NULL CHECK (segment IN ('consumer', 'business')),
  age INTEGER NOT NULL CHECK (age BETWEEN 18 AND 100)
);
INSERT INTO customers SELECT
  i,
  CASE WHEN i = 4711 THEN 'Ada Lind' ELSE 'customer ' || i END,
  CASE WHEN hash(i, 1) % 4 = 0 THEN 'business' ELSE 'consumer' END,
  18 + (hash(i, 3) % 40 + hash(i, 4) % 30)::INTEGER
FROM range(1, 20001) AS r(i);
CREATE TABLE orders (
  order_id INTEGER PRIMARY KEY,
  customer_id INTEGER NOT NULL REFERENCES customers (customer_id),
  amount DECIMAL(10, 2) NOT NULL CHECK (amount BETWEEN 0 AND 500),
  placed_at TIMESTAMP NOT NULL
);
INSERT INTO orders SELECT
  row_number() OVER (ORDER BY i, k), i,
  (10 + least(490, -50 * ln((1 + hash(i, k, 1) % 99999) / 100000.0)))::DECIMAL(10, 2),
  TIMESTAMP '2024-01-01' + to_minutes((hash(i, k, 2) % 1052640)::BIGINT)
FROM (
  SELECT i, unnest(range(
    CASE WHEN i % 64 = 7 THEN 104 ELSE 8 + (hash(i, 5) % 17)::INTEGER END)) AS k
  FROM range(1, 20001) AS r(i)
);
"""

POLICY = """\
# The policy of the demo shop: whose privacy is protected, and how much may be spent.
[database]
engine = "duckdb"
path = "shop.duckdb"

[privacy_unit]
table = "customers"
key = "customer_id"

[tables.customers]
access = "private"
expected_rows = 20000
key = "customer_id"
[tables.customers.columns]
customer_id = {}
name = { hidden = true }
segment = { values = ["consumer", "business"] }
age = { bounds = [18, 100] }

[tables.orders]
access = "private"
expected_rows = 300000
key = "order_id"
link = { column = "customer_id", references = "customers.customer_id" }
[tables.orders.columns]
order_id = {}
customer_id = {}
amount = { bounds = [0.0, 500.0] }
placed_at = { bounds = [2024-01-01T00:00:00, 2025-12-31T23:59:59] }

[budgets.default]
epsilon = 3.0
delta = 1e-6
query_epsilon = 0.5
max_query_epsilon = 1.0

[analysts.ana]
budget = "default"

[ledger]
path = "dpsql.ledger"
"""

BY_SEGMENT = (
    "SELECT segment, COUNT(*) AS customers, AVG(age) AS age FROM customers GROUP BY segment"
)
BY_MONTH = """\
SELECT date_trunc('month', placed_at) AS month,
       COUNT(DISTINCT customer_id) AS buyers, SUM(amount) AS revenue
FROM orders GROUP BY month ORDER BY month"""
ROWS = "SELECT name, age FROM customers"
IN_OTHER_WORDS = """\
select c.segment, count(*) as customers, avg(c.age) as age
from customers c group by 1"""
NAME = "Ada Lind"
HER_SEGMENT = """\
SELECT segment, COUNT(*) FROM customers
WHERE segment = (SELECT segment FROM customers WHERE customer_id = 4711) GROUP BY segment"""
WITHOUT_HER = """\
DELETE FROM orders WHERE customer_id = 4711;
DELETE FROM customers WHERE customer_id = 4711"""


def build_shop(directory: Path) -> Path:
    """Write shop.duckdb and dpsql.toml into a directory; return the policy's path."""
    directory.mkdir(parents=True, exist_ok=True)
    write_database(directory / DATABASE, TABLES)
    policy = directory / "dpsql.toml"
    policy.write_text(POLICY, encoding="utf-8")
    return policy


def remove_her(database: Path) -> tuple[str, int]:
    """Remove Ada Lind from the shop; return her segment, and its customers before."""
    ((segment, customers),) = change_database(database, HER_SEGMENT, WITHOUT_HER)
    return segment, customers


def has_tour(policy: Path) -> bool:
    """Test whether a policy file is that of this shop, unchanged."""
    return policy.read_text(encoding="utf-8") == POLICY
