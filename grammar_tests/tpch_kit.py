"""TPC-H for tests and benchmarks: its queries, its data from `tpchgen-cli`, its constraints."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import duckdb

HERE = Path(__file__).parent / "tpch"
PRIVATE = (1, 4, 5, 6, 7, 8, 9, 12, 13, 14, 15, 17, 19, 20, 21, 22)
PUBLIC = (2, 11, 16)
KEYS = {
    "region": "r_regionkey",
    "nation": "n_nationkey",
    "part": "p_partkey",
    "supplier": "s_suppkey",
    "partsupp": "ps_partkey, ps_suppkey",
    "customer": "c_custkey",
    "orders": "o_orderkey",
    "lineitem": "l_orderkey, l_linenumber",
}
LINKS = {"orders": ("o_custkey", "customer"), "lineitem": ("l_orderkey", "orders")}


def query(number: int) -> str:
    """The text of one query, unchanged."""
    return (HERE / f"q{number:02}.sql").read_text(encoding="utf-8")


def generate(folder: Path, scale: str) -> None:
    """One Parquet file per table at this scale factor; files that are there stay."""
    generator = str(Path(sys.executable).with_name("tpchgen-cli"))
    command = [generator, "parquet", "-s", scale, f"--output-dir={folder}"]
    subprocess.run(command, check=True, capture_output=True)  # noqa: S603


def build(connection: duckdb.DuckDBPyConnection, folder: Path) -> None:
    """The eight tables with primary keys, and with the links of the private ones."""
    for table, key in KEYS.items():
        source = f"'{folder / table}.parquet'"
        columns = connection.execute(f"DESCRIBE SELECT * FROM {source}").fetchall()
        rows = [f"{name} {kind} NOT NULL" for name, kind, *_ in columns]
        rows.append(f"PRIMARY KEY ({key})")
        if table in LINKS:
            column, parent = LINKS[table]
            rows.append(f"FOREIGN KEY ({column}) REFERENCES {parent} ({KEYS[parent]})")
        connection.execute(f"CREATE TABLE {table} ({', '.join(rows)})")
        connection.execute(f"INSERT INTO {table} SELECT * FROM {source}")
