"""Tables, datasets, charts and a dashboard in a running Superset, by its API."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from examples.superset.api import Superset
from examples.superset.charts import CHARTS, FILTERS, TABLES, VIRTUAL, Chart, query, values_of

COLUMNS = 3


@dataclass(frozen=True, slots=True)
class Dashboard:
    """What was made: numbers of datasets by name, of charts by title, and of the dashboard."""

    datasets: dict[str, int]
    charts: dict[str, int]
    number: int


def make(superset: Superset, uri: str) -> Dashboard:
    """Register the database, sync its tables, store the charts and put them on a dashboard."""
    body = {"database_name": "shop", "sqlalchemy_uri": uri, "expose_in_sqllab": True}
    database = superset.post("/database/", body)["id"]
    datasets = {table: _dataset(superset, database, table) for table in TABLES}
    datasets |= {name: _virtual(superset, database, name, sql) for name, sql in VIRTUAL.items()}
    number = superset.post("/dashboard/", {"dashboard_title": "Shop", "published": True})["id"]
    charts = {c.title: _chart(superset, c, datasets[c.dataset], number) for c in CHARTS}
    layout = {
        "position_json": json.dumps(_positions(list(charts.values()))),
        "json_metadata": json.dumps({"native_filter_configuration": _filters(datasets)}),
    }
    superset.put(f"/dashboard/{number}", layout)
    return Dashboard(datasets, charts, number)


def described(superset: Superset, dataset: int) -> list[tuple[str, str, str]]:
    """The columns of a dataset as Superset read them: name, type, comment."""
    columns = superset.get(f"/dataset/{dataset}")["result"]["columns"]
    return [(c["column_name"], c["type"], c["description"] or "") for c in columns]


def render(superset: Superset, dashboard: Dashboard) -> dict[str, Any]:
    """The rows of every chart and filter by title, asked of the database anew."""
    found = {
        title: superset.get(f"/chart/{chart}/data/?force=true")["result"][0]["data"]
        for title, chart in dashboard.charts.items()
    }
    for title, dataset, column in FILTERS:
        asked = _context(dashboard.datasets[dataset], values_of(column))
        found[f"filter {title}"] = superset.post("/chart/data", asked)["result"][0]["data"]
    return found


def _dataset(superset: Superset, database: int, table: str) -> int:
    body = {"database": database, "schema": "public", "table_name": table}
    return int(superset.post("/dataset/", body)["id"])


def _virtual(superset: Superset, database: int, name: str, sql: str) -> int:
    """A dataset that is a query over private rows.

    Superset learns its columns from a first row, which nobody gets; no rows teach it the same.
    """
    empty = f"{sql}\nWHERE 1 = 0"
    body = {"database": database, "schema": "public", "table_name": name, "sql": empty}
    number = int(superset.post("/dataset/", body)["id"])
    superset.put(f"/dataset/{number}", {"sql": sql})
    return number


def _chart(superset: Superset, chart: Chart, dataset: int, dashboard: int) -> int:
    form = {"viz_type": chart.kind, "datasource": f"{dataset}__table", **chart.form}
    body = {
        "slice_name": chart.title,
        "viz_type": chart.kind,
        "datasource_id": dataset,
        "datasource_type": "table",
        "params": json.dumps(form),
        "query_context": json.dumps(_context(dataset, query(chart.form))),
        "dashboards": [dashboard],
    }
    return int(superset.post("/chart/", body)["id"])


def _context(dataset: int, asked: dict[str, Any]) -> dict[str, Any]:
    return {
        "datasource": {"id": dataset, "type": "table"},
        "force": True,
        "queries": [asked],
        "result_format": "json",
        "result_type": "full",
    }


def _positions(charts: list[int]) -> dict[str, Any]:
    """The layout: rows of three charts."""
    rows = [charts[i : i + COLUMNS] for i in range(0, len(charts), COLUMNS)]
    names = [f"ROW-{i}" for i in range(len(rows))]
    top: dict[str, Any] = {
        "ROOT_ID": {"id": "ROOT_ID", "type": "ROOT", "children": ["GRID_ID"]},
        "GRID_ID": {"id": "GRID_ID", "type": "GRID", "children": names, "parents": ["ROOT_ID"]},
    }
    for name, row in zip(names, rows, strict=True):
        above = ["ROOT_ID", "GRID_ID"]
        children = [f"CHART-{chart}" for chart in row]
        look = {"background": "BACKGROUND_TRANSPARENT"}
        top[name] = {
            "id": name,
            "type": "ROW",
            "children": children,
            "parents": above,
            "meta": look,
        }
        for chart in row:
            top[f"CHART-{chart}"] = _placed(chart, [*above, name])
    return {"DASHBOARD_VERSION_KEY": "v2", **top}


def _placed(chart: int, above: list[str]) -> dict[str, Any]:
    size = {"chartId": chart, "width": 12 // COLUMNS, "height": 50}
    name = f"CHART-{chart}"
    return {"id": name, "type": "CHART", "children": [], "parents": above, "meta": size}


def _filters(datasets: dict[str, int]) -> list[dict[str, Any]]:
    return [
        {
            "id": f"NATIVE_FILTER-{title}",
            "name": title,
            "type": "NATIVE_FILTER",
            "filterType": "filter_select",
            "targets": [{"datasetId": datasets[dataset], "column": {"name": column}}],
            "scope": {"rootPath": ["ROOT_ID"], "excluded": []},
            "controlValues": {"multiSelect": True, "enableEmptyFilter": False},
            "defaultDataMask": {"filterState": {}, "extraFormData": {}},
            "cascadeParentIds": [],
        }
        for title, dataset, column in FILTERS
    ]
