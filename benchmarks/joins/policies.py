"""Policies over TPC-H for each unit that papers protect: the customer, the order, the supplier.

The unit, the links and the bounds of values are declared, and of limits what a row of the table
declares: nothing, or a few lines.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from benchmarks.drafts import NO_LIMITS, Price
from grammar_tests.bound import CATALOGS

LINKS = {
    "customer": {
        "orders": ("o_custkey", "customer.c_custkey"),
        "lineitem": ("l_orderkey", "orders.o_orderkey"),
    },
    "orders": {"lineitem": ("l_orderkey", "orders.o_orderkey")},
    "supplier": {
        "lineitem": ("l_suppkey", "supplier.s_suppkey"),
        "partsupp": ("ps_suppkey", "supplier.s_suppkey"),
    },
}
"""By unit: the private tables beside its own, and how each leads to it."""

KEYS = {"customer": "c_custkey", "orders": "o_orderkey", "supplier": "s_suppkey"}
PUBLIC = {
    "part": '"p_partkey"',
    "supplier": '"s_suppkey"',
    "partsupp": '["ps_partkey", "ps_suppkey"]',
    "nation": '"n_nationkey"',
    "region": '"r_regionkey"',
}
PRIVATE_SUPPLIERS = {
    "supplier": "s_suppkey = {}",
    "partsupp": "ps_partkey = {}\nps_suppkey = {}\n"
    "ps_availqty = { bounds = [1, 9999] }\nps_supplycost = { bounds = [1.0, 1000.0] }",
}
TOTAL = "max_per_unit"
"""What a column's declaration calls the most that one unit's total may be."""


@dataclass(frozen=True, slots=True)
class Declared:
    """The limits that an owner declares: lines for every private table beside the unit's, and the
    most that a unit's total of a column may be. `words` says so in the table.
    """

    words: str
    lines: str
    totals: tuple[tuple[str, int], ...] = ()


NOTHING = Declared("nothing", NO_LIMITS)


def written(folder: Path, database: Path, unit: str, declared: Declared, price: Price) -> Path:
    """The policy's file."""
    links = LINKS[unit]
    parts = [f'[database]\nengine = "duckdb"\npath = "{database.resolve()}"']
    parts.append(f'[privacy_unit]\ntable = "{unit}"\nkey = "{KEYS[unit]}"')
    parts.append(_private(unit, f'key = "{KEYS[unit]}"', declared))
    for table, (column, target) in links.items():
        key = f'key = "{KEYS[table]}"\n' if table in KEYS else ""
        link = f'{key}link = {{ column = "{column}", references = "{target}" }}\n'
        parts.append(_private(table, link + declared.lines, declared))
    if unit == "customer":
        parts += [f'[tables.{t}]\naccess = "public"\nkey = {key}' for t, key in PUBLIC.items()]
    parts.append(f'[budgets.default]\n{price.budget}[analysts.ana]\nbudget = "default"')
    parts.append('[ledger]\npath = "tpch.ledger"\n')
    path = folder / "tpch.toml"
    path.write_text("\n\n".join(parts), encoding="utf-8")
    return path


def _private(table: str, lines: str, declared: Declared) -> str:
    columns = PRIVATE_SUPPLIERS.get(table) or _columns(table)
    for column, most in declared.totals:
        columns = re.sub(rf"(?m)^({column} = {{.*) }}$", rf"\1, {TOTAL} = {most} }}", columns)
    head = f'[tables.{table}]\naccess = "private"\n{lines}\n'
    return f"{head}[tables.{table}.columns]\n{columns}"


def _columns(table: str) -> str:
    """What the tests' policy says of the columns of a table."""
    text = (CATALOGS / "tpch.toml").read_text(encoding="utf-8")
    return text.split(f"[tables.{table}.columns]\n")[1].split("\n\n")[0]
