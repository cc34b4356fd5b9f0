"""Write the state that an owner has on disk with the present commit: a fixture for later ones.

`python -m grammar_tests.upgrade.write FOLDER` builds data, policy, users file, prepared store and
ledger, and asks the questions below. A fixture that stands in this folder is never written again:
it is what that commit left behind.
"""

from __future__ import annotations

import gzip
import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import duckdb

from dpsql.engines.duckdb import files
from dpsql.interfaces.pgwire.login_file import User, verifier_of, write_users
from dpsql.model.vocabulary import Answer, Request
from dpsql.owner.check import check_policy
from dpsql.owner.preparing import preparation
from dpsql.proxy import Proxy
from dpsql.systems.cubes.cubes import CreateCube

PASSWORD = "a password of the fixture"  # noqa: S105
DATA = """
COPY (SELECT code, name FROM (VALUES ('NO', 'Norway'), ('SE', 'Sweden')) AS t (code, name))
TO '{folder}/countries.parquet' (FORMAT parquet);
COPY (SELECT i::INTEGER AS customer_id, ['NO', 'SE'][1 + (hash(i) % 2)::INTEGER] AS country,
             (18 + hash(i, 1) % 60)::INTEGER AS age, 'city ' || (hash(i, 2) % 9) AS city
      FROM range(1, 401) AS r (i)) TO '{folder}/customers.parquet' (FORMAT parquet);
COPY (SELECT i::INTEGER AS order_id, (1 + hash(i) % 400)::INTEGER AS customer_id,
             ((hash(i, 1) % 20000) / 100)::DECIMAL(10, 2) AS amount,
             ['open', 'paid', 'returned'][1 + (hash(i, 2) % 3)::INTEGER] AS status
      FROM range(1, 2001) AS r (i)) TO '{folder}/orders.parquet' (FORMAT parquet);
"""
POLICY = """\
[database]
engine = "duckdb"
prepared = "prepared.duckdb"
[database.files]
customers = "customers.parquet"
orders = "orders.parquet"
countries = "countries.parquet"

[privacy_unit]
table = "customers"
key = "customer_id"

[tables.customers]
access = "private"
expected_rows = 400
key = "customer_id"
[tables.customers.columns]
customer_id = {}
country = { values_from = "countries.code" }
age = { bounds = [0, 120] }
city = {}

[tables.orders]
access = "private"
expected_rows = 2000
key = "order_id"
link = { column = "customer_id", references = "customers.customer_id" }
max_rows_per_unit = 30
max_groups_per_unit = 3
max_rows_per_group = 10
[tables.orders.columns]
order_id = {}
customer_id = {}
amount = { bounds = [0.0, 200.0] }
status = { values = ["open", "paid", "returned"] }

[tables.countries]
access = "public"
key = "code"

[budgets.default]
epsilon = 100.0
delta = 1e-4
accountant = "zcdp"
query_epsilon = 1.0
max_query_epsilon = 10.0
query_delta = 1e-6
memory = "wide"

[analysts.ana]
budget = "default"

[analysts.bob]
budget = "default"
epsilon = 20.0

[ledger]
path = "dpsql.ledger"
"""
BUYERS = "FROM orders JOIN customers USING (customer_id)"
QUESTIONS = (
    ("ana", "SELECT country, COUNT(*) AS n, AVG(age) AS age FROM customers GROUP BY country"),
    ("ana", "SELECT status, SUM(amount) AS revenue FROM orders GROUP BY status ORDER BY status"),
    ("ana", "SELECT city, COUNT(*) AS n FROM customers GROUP BY city ORDER BY city"),
    ("ana", "SELECT MEDIAN(age) AS m, MAX(age) AS top FROM customers"),
    ("ana", "SELECT COUNT(DISTINCT customer_id) AS buyers FROM orders WHERE status = 'paid'"),
    ("ana", f"SELECT country, SUM(amount) AS s {BUYERS} GROUP BY ROLLUP (country)"),
    ("ana", f"SELECT city, COUNT(*) AS n {BUYERS} GROUP BY city HAVING COUNT(*) > 10"),
    ("bob", "SELECT COUNT(*) AS n FROM orders"),
    ("bob", f"SELECT VAR_POP(amount) AS v, CORR(amount, age) AS c {BUYERS}"),
)
CUBE = """CREATE DP CUBE c AS SELECT country, COUNT(*) AS n, SUM(age) AS s
FROM customers GROUP BY CUBE (country)"""


@contextmanager
def known_data() -> Iterator[None]:
    """Take the data files for those of the fixture, whatever inodes a checkout gives them."""
    with patch.object(files.Opened, "identity", property(lambda _self: "the data of the fixture")):
        yield


def cells(answer: Answer) -> list[list[Any]]:
    """Rows and margins as JSON has them: numbers as their shortest text."""
    return [[repr(cell) for cell in row] for row in (*answer.rows, *answer.margins)]


def prepare(policy: Path) -> None:
    """Make the prepared store of a policy, as `dpsql prepare` does."""
    with preparation(str(policy)) as prepared:
        for step in prepared.steps:
            prepared.make(step)
        prepared.writer.finish()


def write(folder: Path) -> None:
    """Build the fixture in an empty folder."""
    folder.mkdir(parents=True)
    duckdb.execute(DATA.format(folder=folder))
    policy = folder / "dpsql.toml"
    policy.write_text(POLICY, encoding="utf-8")
    write_users(str(folder / "dpsql.users"), {"ana": User(verifier_of(PASSWORD))})
    with known_data():
        check_policy(str(policy), record=True)
        with Proxy.open(str(policy)) as proxy:
            answers = [cells(proxy.ask(Request(sql, analyst))) for analyst, sql in QUESTIONS]
            proxy.run(CreateCube(CUBE, None, "duckdb"))
            spent = {b.name: str(loss) for b, loss, _limit in proxy.budgets()}
            entries = [entry.query_id for entry in proxy.ledger.history(limit=10**6)]
            left = {name: proxy.standing(name).left for name, _ in proxy.policy.analysts}
    prepare(policy)
    store = folder / "prepared.duckdb"
    (folder / "prepared.duckdb.gz").write_bytes(gzip.compress(store.read_bytes(), mtime=0))
    store.unlink()
    record = {"answers": answers, "spent": spent, "entries": entries, "left": left}
    (folder / "record.json").write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    write(Path(sys.argv[1]))
