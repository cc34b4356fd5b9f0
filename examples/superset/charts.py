"""The dashboard: charts as Superset stores them, and what its browser side makes of them.

A form is what the chart editor saves. `query` derives from it what the chart asks of its dataset,
which is the same for every kind of chart but for the names of the fields.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

Form = dict[str, Any]

SALES = """\
SELECT o.placed_at, o.amount, o.status, c.segment, n.region
FROM orders AS o JOIN customers AS c ON o.customer_id = c.customer_id
JOIN countries AS n ON c.country = n.code"""
TABLES = ("customers", "orders", "events", "countries")
VIRTUAL = {"sales": SALES}
"""Datasets that are a query: the rows stay private, the charts over them are aggregates."""


@dataclass(frozen=True, slots=True)
class Chart:
    """One chart: its title, Superset's name of its kind, its dataset, and its form."""

    title: str
    kind: str
    dataset: str
    form: Form


def of(aggregate: str, column: str) -> Form:
    """A metric made in the chart editor: SUM(amount)."""
    label = f"{aggregate}({column})"
    name = {"column_name": column}
    return {"expressionType": "SIMPLE", "aggregate": aggregate, "column": name, "label": label}


def written(label: str, sql: str) -> Form:
    """A column or a metric written in SQL."""
    return {"expressionType": "SQL", "sqlExpression": sql, "label": label}


def with_interval(aggregate: str, column: str) -> list[Form]:
    """A metric and the ends of its 95 % interval: Superset draws a band around a line between
    series that are called so.
    """
    metric = of(aggregate, column)
    label = metric["label"]
    ends = (("__yhat_lower", "DP_INTERVAL_LOW"), ("__yhat_upper", "DP_INTERVAL_HIGH"))
    return [metric, *(written(f"{label}{end}", f"{function}({label})") for end, function in ends)]


def where(sql: str, clause: str = "WHERE") -> Form:
    """A filter written in SQL."""
    return {"expressionType": "SQL", "sqlExpression": sql, "clause": clause}


def only(column: str, operator: str, value: object) -> Form:
    """A filter made in the chart editor."""
    return {
        "expressionType": "SIMPLE",
        "clause": "WHERE",
        "subject": column,
        "operator": operator,
        "comparator": value,
    }


COUNT, AMOUNT, MEAN = "count", of("SUM", "amount"), of("AVG", "amount")
YEAR = only("placed_at", "TEMPORAL_RANGE", "2025-01-01 : 2026-01-01")
AGES = written("age_from", "FLOOR(age / 10) * 10")
WEEKDAY = written("weekday", "EXTRACT(DOW FROM placed_at)")
RATIO = written(
    "returned share", "SUM(CASE WHEN status = 'returned' THEN 1 ELSE 0 END) * 1.0 / COUNT(*)"
)

CHARTS = (
    Chart("Customers", "big_number_total", "customers", {"metric": COUNT}),
    Chart("Returned share", "big_number_total", "orders",
          {"metric": RATIO, "y_axis_format": ".1%"}),
    Chart("Orders by quarter", "big_number", "orders",
          {"metric": COUNT, "x_axis": "placed_at", "time_grain_sqla": "P3M"}),
    Chart("Orders by status", "table", "orders",
          {"query_mode": "aggregate", "groupby": ["status"], "metrics": [COUNT, AMOUNT, MEAN],
           "row_limit": 1000}),
    Chart("Customers by segment", "pie", "customers", {"groupby": ["segment"], "metric": COUNT}),
    Chart("Mean age by country", "echarts_timeseries_bar", "customers",
          {"x_axis": "country", "metrics": [of("AVG", "age")]}),
    Chart("Turnover of two statuses", "echarts_timeseries_line", "orders",
          {"x_axis": "placed_at", "time_grain_sqla": "P3M", "metrics": [AMOUNT],
           "groupby": ["status"], "limit": 2}),
    Chart("Turnover and its interval", "echarts_timeseries_line", "orders",
          {"x_axis": "placed_at", "time_grain_sqla": "P3M",
           "metrics": with_interval("SUM", "amount")}),
    Chart("Turnover in 2025", "echarts_area", "sales",
          {"x_axis": "placed_at", "time_grain_sqla": "P3M", "metrics": [AMOUNT],
           "groupby": ["segment"], "adhoc_filters": [YEAR]}),
    Chart("Ages", "echarts_timeseries_bar", "customers",
          {"x_axis": AGES, "metrics": [COUNT], "adhoc_filters": [where("age >= 20")]}),
    Chart("Mean order: its quarters", "box_plot", "orders",
          {"columns": ["placed_at"], "time_grain_sqla": "P3M", "groupby": ["status"],
           "metrics": [MEAN], "whiskerOptions": "Tukey",
           "temporal_columns_lookup": {"placed_at": True}}),
    Chart("Customers by country and segment", "pivot_table_v2", "customers",
          {"groupbyRows": ["country"], "groupbyColumns": ["segment"], "metrics": [COUNT],
           "aggregateFunction": "Sum"}),
    Chart("Orders by weekday", "heatmap_v2", "orders",
          {"x_axis": WEEKDAY, "groupby": "status", "metric": COUNT}),
    Chart("Segments and their countries", "sunburst_v2", "customers",
          {"columns": ["segment", "country"], "metric": COUNT}),
    Chart("Turnover by region", "treemap_v2", "sales",
          {"groupby": ["region", "segment"], "metric": AMOUNT}),
    Chart("Events of long visits", "funnel", "events",
          {"groupby": ["kind"], "metric": COUNT,
           "adhoc_filters": [only("duration", ">", 60), where("COUNT(*) > 100", "HAVING")]}),
    Chart("Cities", "word_cloud", "customers",
          {"series": "city", "metric": COUNT, "row_limit": 100}),
)  # fmt: skip
FILTERS = (("Status", "orders", "status"), ("Country", "customers", "country"))
"""The dashboard's filters, which ask for the values of a column: title, dataset, column."""


def query(form: Form) -> Form:
    """What a chart asks of its dataset."""
    metrics = form.get("metrics") or [form["metric"]]
    groups = [group for name in ("groupby", "groupbyRows", "groupbyColumns", "series")
              for group in _listed(form.get(name))]  # fmt: skip
    axes = [_axis(axis, form) for name in ("x_axis", "columns") for axis in _listed(form.get(name))]
    limited = {"series_columns": groups, "series_limit": form["limit"]} if "limit" in form else {}
    return {
        "columns": [*axes, *groups],
        "metrics": metrics,
        "orderby": [] if "x_axis" in form else [[metrics[0], False]],
        "row_limit": form.get("row_limit", 10_000),
        **limited,
        **_filters(form.get("adhoc_filters", [])),
    }


def values_of(column: str) -> Form:
    """What a filter of the dashboard asks: the values of a column."""
    return {"columns": [column], "metrics": [], "orderby": [[column, True]], "row_limit": 1000}


def _listed(value: Any) -> list[Any]:
    match value:
        case None:
            return []
        case list():
            return value
        case _:
            return [value]


def _axis(axis: Any, form: Form) -> Any:
    """An axis of time is cut into the grain that the form asks for."""
    if "time_grain_sqla" not in form:
        return axis
    grain = {"columnType": "BASE_AXIS", "timeGrain": form["time_grain_sqla"]}
    return {**written(axis, axis), **grain}


def _filters(filters: list[Form]) -> Form:
    """The editor's filters by name, those in SQL as text."""
    simple = [f for f in filters if f["expressionType"] == "SIMPLE"]
    found = [{"col": f["subject"], "op": f["operator"], "val": f["comparator"]} for f in simple]
    sql = {clause: " AND ".join(f"({f['sqlExpression']})" for f in filters
           if f["expressionType"] == "SQL" and f["clause"] == clause)
           for clause in ("WHERE", "HAVING")}  # fmt: skip
    return {"filters": found, "extras": {"where": sql["WHERE"], "having": sql["HAVING"]}}
