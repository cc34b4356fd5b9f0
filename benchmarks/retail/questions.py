"""Twenty ordinary questions about a year of purchases, as an analyst writes them.

Beside each is what every household has of it, from which the best limits are computed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

MONTH = "EXTRACT(month FROM transaction_timestamp)"
WEEKDAY = "EXTRACT(dow FROM transaction_timestamp)"
HOUR = "EXTRACT(hour FROM transaction_timestamp)"
WITH_PRODUCTS = "transactions AS t JOIN products AS p ON t.product_id = p.product_id"
BASKETS = (
    f"(SELECT household_id, basket_id, {MONTH} AS month, SUM(sales_value) AS spent,"
    f" COUNT(*) AS items FROM transactions GROUP BY household_id, basket_id, {MONTH}) AS b"
)
HOUSEHOLDS = (
    "(SELECT household_id, SUM(sales_value) AS spent FROM transactions GROUP BY household_id) AS h"
)

Kind = Literal["total", "people", "ratio", "average", "quantile", "distinct"]


@dataclass(frozen=True, slots=True)
class Question:
    """One number, `v`, for each of the keys; or for the `shown` keys with the largest.

    `of` is what is in FROM and after it, `keys` make the group, `each` the sums by household and
    key that the number is made of: one, or two of a ratio. Of quantiles and distinct values it is
    the value of each row. `largest` is what a row may add to each at most, by the policy.
    """

    name: str
    kind: Kind
    shows: str
    of: str
    keys: tuple[str, ...] = ()
    each: tuple[str, ...] = ("COUNT(*)",)
    largest: tuple[float, ...] = (1.0,)
    shown: int | None = None
    at: float = 0.5

    @property
    def all_groups(self) -> str:
        """The statement with nothing left out."""
        names = [f"k{n}" for n in range(len(self.keys))]
        keys = [f"{key} AS {name}" for key, name in zip(self.keys, names, strict=True)]
        grouped = f" GROUP BY {', '.join(names)}" if names else ""
        return f"SELECT {', '.join([*keys, f'{self.shows} AS v'])} FROM {self.of}{grouped}"

    @property
    def sql(self) -> str:
        """What the analyst asks."""
        limit = f" ORDER BY v DESC LIMIT {self.shown}" if self.shown else ""
        return self.all_groups + limit

    @property
    def by_household(self) -> str:
        """Household, key, and the sums; of quantiles and distinct values household and value."""
        sums = ", ".join(self.each)
        if self.kind in ("quantile", "distinct"):
            distinct = "DISTINCT " if self.kind == "distinct" else ""
            return f"SELECT {distinct}household_id, {sums} FROM {self.of}"
        key = f"concat_ws('|', {', '.join(self.keys) or 1})"
        return f"SELECT household_id, {key}, {sums} FROM {self.of} GROUP BY 1, 2"


SALES = ("SUM(sales_value)",), (1000.0,)

QUESTIONS = (
    Question("sales in all", "total", "SUM(sales_value)", "transactions", (), *SALES),
    Question(
        "sales by day of December",
        "total",
        "SUM(sales_value)",
        "transactions WHERE transaction_timestamp >= TIMESTAMP '2017-12-01'"
        " AND transaction_timestamp < TIMESTAMP '2018-01-01'",
        ("CAST(transaction_timestamp AS DATE)",),
        *SALES,
    ),
    Question(
        "baskets by day of week",
        "total",
        "COUNT(DISTINCT basket_id)",
        "transactions",
        (WEEKDAY,),
        ("COUNT(DISTINCT basket_id)",),
    ),
    Question(
        "households by month",
        "people",
        "COUNT(DISTINCT household_id)",
        "transactions",
        (MONTH,),
        ("1",),
    ),
    Question(
        "top 10 categories by sales",
        "total",
        "SUM(t.sales_value)",
        WITH_PRODUCTS,
        ("p.product_category",),
        *SALES,
        shown=10,
    ),
    Question("rows by brand and month", "total", "COUNT(*)", WITH_PRODUCTS, ("p.brand", MONTH)),
    Question(
        "average price by brand",
        "average",
        "AVG(t.sales_value)",
        WITH_PRODUCTS,
        ("p.brand",),
        ("SUM(t.sales_value)", "COUNT(*)"),
        (1000.0, 1.0),
    ),
    Question(
        "average basket by month",
        "average",
        "AVG(b.spent)",
        BASKETS,
        ("b.month",),
        ("SUM(b.spent)", "COUNT(*)"),
        (1000.0, 1.0),
    ),
    Question(
        "items per basket",
        "average",
        "AVG(b.items)",
        BASKETS,
        (),
        ("SUM(b.items)", "COUNT(*)"),
        (1.0, 1.0),
    ),
    Question(
        "median price",
        "quantile",
        "MEDIAN(sales_value)",
        "transactions",
        (),
        ("sales_value",),
        (1000.0,),
    ),
    Question(
        "90 % of baskets are below",
        "quantile",
        "QUANTILE_CONT(b.spent, 0.9)",
        BASKETS,
        (),
        ("b.spent",),
        (1000.0,),
        at=0.9,
    ),
    Question(
        "private brands by week",
        "total",
        "SUM(t.sales_value)",
        f"{WITH_PRODUCTS} WHERE p.brand = 'Private'",
        ("t.week",),
        *SALES,
    ),
    Question(
        "soft drinks by week",
        "total",
        "COUNT(*)",
        f"{WITH_PRODUCTS} WHERE p.product_category = 'SOFT DRINKS'",
        ("t.week",),
    ),
    Question(
        "households by department",
        "people",
        "COUNT(DISTINCT t.household_id)",
        WITH_PRODUCTS,
        ("p.department",),
        ("1",),
    ),
    Question(
        "different drugstore products",
        "distinct",
        "COUNT(DISTINCT t.product_id)",
        f"{WITH_PRODUCTS} WHERE p.department = 'DRUG GM'",
        (),
        ("t.product_id",),
    ),
    Question(
        "discount rate",
        "ratio",
        "SUM(retail_disc) / SUM(sales_value)",
        "transactions",
        (),
        ("SUM(retail_disc)", "SUM(sales_value)"),
        (200.0, 1000.0),
    ),
    Question(
        "share of rows on weekends",
        "ratio",
        f"COUNT(*) FILTER (WHERE {WEEKDAY} IN (0, 6)) * 1.0 / COUNT(*)",
        "transactions",
        (),
        (f"COUNT(*) FILTER (WHERE {WEEKDAY} IN (0, 6))", "COUNT(*)"),
        (1.0, 1.0),
    ),
    Question(
        "average year of a household",
        "average",
        "AVG(h.spent)",
        HOUSEHOLDS,
        (),
        ("SUM(h.spent)", "COUNT(*)"),
        (1000.0, 1.0),
    ),
    Question(
        "grocery units by hour",
        "total",
        "SUM(t.quantity)",
        f"{WITH_PRODUCTS} WHERE p.department = 'GROCERY'",
        (HOUR,),
        ("SUM(t.quantity)",),
        (100.0,),
    ),
    Question(
        "coupons' worth by month",
        "total",
        "SUM(coupon_disc)",
        "transactions",
        (MONTH,),
        ("SUM(coupon_disc)",),
        (100.0,),
    ),
)
