"""What is asked: published joins over TPC-H with many rows per unit, and what was published.

R2T (SIGMOD 2022) and PMSJA (SIGMOD 2023) find out how much a unit contributes; the queries of
cwida's bounded privacy engine come with bounds of each unit's total. Errors are in % of the exact
answer.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from benchmarks.drafts import Price
from benchmarks.joins.policies import NOTHING, Declared
from grammar_tests.tpch_kit import query

Metric = Literal["mean", "norm", "median cell"]


@dataclass(frozen=True, slots=True)
class Row:
    """A question, who is protected, what is declared, what it may cost, and what to reach.

    `metric` is the mean |error| of one number, the L2 norm of the errors over that of the answer,
    or the error of the median cell. The first `keys` columns are keys. Of the `intensive` columns
    the truth is the same for more `copies` of the data. `target` is in %, as `published` is.
    """

    name: str
    unit: str
    sql: str
    declared: Declared
    price: Price
    published: str
    target: float | None
    metric: Metric = "mean"
    keys: int = 0
    intensive: tuple[str, ...] = ()
    scale: str = "1"
    copies: int = 1


CUSTOMERS_LINES = "FROM orders JOIN lineitem ON l_orderkey = o_orderkey"
R2T = {
    "Q3": (
        "customer",
        (
            f"SELECT COUNT(*) AS n {CUSTOMERS_LINES} WHERE o_orderdate < DATE '1997-01-01'"
            " AND l_shipdate > DATE '1994-01-01'"
        ),
        0.254,
        Declared("174 rows", "max_rows_per_unit = 174"),
    ),
    "Q10": (
        "customer",
        "SELECT COUNT(*) AS n FROM orders",
        0.174,
        Declared("82 rows", "max_rows_per_unit = 82"),
    ),
    "Q12": (
        "orders",
        "SELECT COUNT(*) AS n FROM lineitem",
        0.023,
        Declared("14 rows", "max_rows_per_unit = 14"),
    ),
    "Q18": (
        "customer",
        f"SELECT SUM(l_quantity) AS s {CUSTOMERS_LINES}",
        0.132,
        Declared("total 9590", NOTHING.lines, (("l_quantity", 9590),)),
    ),
    "Q20": (
        "supplier",
        "SELECT COUNT(*) AS n FROM lineitem",
        0.579,
        Declared("1388 rows", "max_rows_per_unit = 1388"),
    ),
    "Q11": (
        "supplier",
        "SELECT SUM(ps_supplycost * ps_availqty) AS s FROM partsupp",
        1.82,
        Declared("160 rows", "max_rows_per_unit = 160"),
    ),
}
"""Unit, SQL, R2T's error at pure ε = 0.8, and twice the maximum that any unit has."""

R2T_PARTS = {("pure", True): 20, ("pure", False): 15, ("zcdp", True): 6, ("zcdp", False): 4}
"""Which part of the published error to reach, by accountant and whether nothing is declared."""


def r2t() -> list[Row]:
    rows = []
    for name, (unit, sql, theirs, twice) in R2T.items():
        for (accountant, nothing), part in R2T_PARTS.items():
            price, declared = Price(accountant, 0.8, 1e-6), NOTHING if nothing else twice
            rows.append(Row(name, unit, sql, declared, price, f"{theirs:g}", theirs / part))
    return rows


REVENUE = "SUM(l_extendedprice * (1 - l_discount)) AS revenue"
PMSJA = {
    "revenue by day": (
        (
            f"SELECT o_orderdate, {REVENUE} {CUSTOMERS_LINES}"
            " WHERE o_orderdate >= DATE '1995-01-01' AND o_orderdate < DATE '1995-04-11'"
            " GROUP BY o_orderdate"
        ),
        "0.50",
        {"zcdp": 0.45, "approximate": 0.25},
    ),
    "count by nation": (
        (
            "SELECT c_nationkey, COUNT(*) AS n FROM customer JOIN orders ON o_custkey = c_custkey"
            " JOIN lineitem ON l_orderkey = o_orderkey GROUP BY c_nationkey"
        ),
        "0.064",
        {"zcdp": 0.064, "approximate": 0.025},
    ),
}


def pmsja() -> list[Row]:
    return [
        Row(
            name,
            "customer",
            sql,
            NOTHING,
            Price(accountant, 4.0, 1e-7),
            theirs,
            target,
            "norm",
            1,
            scale="2",
        )
        for name, (sql, theirs, targets) in PMSJA.items()
        for accountant, target in targets.items()
    ]


def _clipped(total: str, most: int) -> str:
    return f"SUM(GREATEST(LEAST({total}, {most}.0), 0.0))"


CWIDA = {
    1: ("0.02-0.28", 0.28, 0.01, 2, ("avg_qty", "avg_price", "avg_disc")),
    5: ("0.018-0.152", 0.152, 0.1, 1, ()),
    6: ("<= 0.010", 0.010, 0.003, 0, ()),
    14: ("<= 0.020", 0.020, 0.02, 0, ("promo_revenue",)),
    19: ("0.089-0.158", 0.158, 0.1, 0, ()),
}
"""By query: what they err by, the target with their bounds and with nothing, keys, ratios."""

BOUNDED = {
    5: (
        f"SELECT n_name, {_clipped('revenue', 10**6)} AS revenue FROM (SELECT c_custkey, n_name,"
        f" {REVENUE} FROM customer, orders, lineitem, supplier, nation, region"
        " WHERE c_custkey = o_custkey AND l_orderkey = o_orderkey AND l_suppkey = s_suppkey"
        " AND c_nationkey = s_nationkey AND s_nationkey = n_nationkey"
        " AND n_regionkey = r_regionkey AND r_name = 'ASIA' AND o_orderdate >= DATE '1994-01-01'"
        " AND o_orderdate < DATE '1995-01-01' GROUP BY c_custkey, n_name) AS units GROUP BY n_name"
    ),
    6: (
        f"SELECT {_clipped('revenue', 10**5)} AS revenue FROM (SELECT o_custkey,"
        f" SUM(l_extendedprice * l_discount) AS revenue {CUSTOMERS_LINES}"
        " WHERE l_shipdate >= DATE '1994-01-01' AND l_shipdate < DATE '1995-01-01'"
        " AND l_discount BETWEEN 0.05 AND 0.07 AND l_quantity < 24 GROUP BY o_custkey) AS units"
    ),
    14: (
        f"SELECT 100.0 * {_clipped('promo', 10**6)} / {_clipped('revenue', 10**6)} AS promo_revenue"
        " FROM (SELECT o_custkey, SUM(CASE WHEN p_type LIKE 'PROMO%' THEN l_extendedprice"
        f" * (1 - l_discount) ELSE 0 END) AS promo, {REVENUE} {CUSTOMERS_LINES}"
        " JOIN part ON l_partkey = p_partkey WHERE l_shipdate >= DATE '1995-09-01'"
        " AND l_shipdate < DATE '1995-10-01' GROUP BY o_custkey) AS units"
    ),
}
"""Their bounds of a unit's total, as an analyst writes them; Q1's are limits of rows and groups."""


def _theirs(number: int) -> Declared:
    """Where groups are not declared a customer is in one: that of the own nation."""
    groups = 4 if number == 1 else 1
    lines = f"max_groups_per_unit = {groups}\nmax_rows_per_group = 1000"
    return Declared("their bounds", lines)


def _with_bounds(number: int) -> str:
    """Query 19 is that of the benchmark, with its rows summed by customer first."""
    if number == 1:
        return query(1)
    if number in BOUNDED:
        return BOUNDED[number]
    text = query(number).rstrip().rstrip(";").replace("FROM\n", "FROM orders, ")
    text = text.replace("WHERE (", "WHERE l_orderkey = o_orderkey AND ((") + ")"
    inner = text.replace("SELECT", "SELECT o_custkey,", 1)
    return f"SELECT {_clipped('revenue', 10**5)} AS revenue FROM ({inner} GROUP BY o_custkey) AS u"


def cwida() -> list[Row]:
    rows = []
    for number, (theirs, bounded, nothing, keys, intensive) in CWIDA.items():
        asked = (_theirs(number), _with_bounds(number)), (NOTHING, query(number))
        for declared, sql in asked:
            undeclared = declared is NOTHING
            targets: dict[str, float | None] = {
                "approximate": nothing if undeclared else bounded,
                "zcdp": None if undeclared or number not in (1, 6) else bounded,
            }
            for accountant, target in targets.items():
                price = Price(accountant, 1.0, 1e-6)
                row = Row(f"Q{number}", "customer", sql, declared, price, theirs, target)
                median = replace(row, metric="median cell", keys=keys)
                rows.append(replace(median, intensive=intensive, copies=30))
    return rows


ROWS = {"R2T": r2t, "PMSJA": pmsja, "cwida": cwida}
