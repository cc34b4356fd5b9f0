"""Tools with hundreds of dependencies, each in an environment of its own: `pytest -m tools`.

Each environment is made once, in the folder that DPSQL_TOOLS names, or else for this run; Superset
alone takes minutes.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from dpsql.policy import demo
from examples.superset.api import Superset
from examples.superset.servers import ADMINISTRATOR, PACKAGES, superset_server
from grammar_tests.wire_kit import PASSWORD, Door, opened

pytestmark = pytest.mark.tools

BY_SEGMENT = "SELECT segment, COUNT(*) AS n, AVG(age) AS mean FROM {} GROUP BY segment"
ADULTS = "SELECT customer_id, age, segment FROM {} WHERE age >= 18"
LOGIN = "type: postgres, host: 127.0.0.1, port: {}, user: ana, password: correct horse"


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Door]:
    """The demo's shop, for an analyst to whom one row of people is none."""
    folder = tmp_path_factory.mktemp("tools")
    policy = demo.build(folder / "demo")
    told, analyst = policy.read_text("utf-8"), '[analysts.ana]\nbudget = "default"\n'
    assert analyst in told
    policy.write_text(told.replace(analyst, analyst + 'raw_rows = "empty"\n'), "utf-8")
    with opened(folder, policy) as found:
        yield found


@pytest.fixture(scope="module")
def environments(tmp_path_factory: pytest.TempPathFactory) -> Path:
    kept = os.environ.get("DPSQL_TOOLS")
    return Path(kept) if kept else tmp_path_factory.mktemp("environments")


def environment(folder: Path, name: str, *packages: str) -> Path:
    """The programs of an environment with these packages; skips where they cannot be had."""
    programs = folder / name / "bin"
    if not (programs / "python").exists():
        subprocess.run([sys.executable, "-m", "venv", folder / name], check=True)  # noqa: S603
        command = [str(programs / "pip"), "install", "--quiet", *packages]
        if subprocess.run(command, check=False).returncode:  # noqa: S603
            pytest.skip(f"pip cannot install {packages[0]}")
    return programs


def said(*command: str | Path, folder: Path, **given: str) -> str:
    """All that a program says, however it ends."""
    variables = {**os.environ, "SQLMESH__DISABLE_ANONYMIZED_ANALYTICS": "true", **given}
    done = subprocess.run(  # noqa: S603
        command, cwd=folder, env=variables, capture_output=True, text=True, check=False, timeout=300
    )
    return done.stdout + done.stderr


def uri(served: Door) -> str:
    password = PASSWORD.replace(" ", "%20")
    return f"postgresql+psycopg2://ana:{password}@127.0.0.1:{served.port}/dpsql?sslmode=require"


# --- dbt ---

SOURCES = """
version: 2
sources:
  - name: shop
    schema: public
    tables:
      - name: customers
        columns:
          - {name: age, tests: [{not_null: {config: {error_if: ">1000", warn_if: ">1000"}}}]}
          - {name: customer_id, tests: [not_null]}
      - name: countries
        columns: [{name: code, tests: [not_null, unique]}]
"""


def test_dbt(served: Door, environments: Path, tmp_path: Path) -> None:
    programs = environment(environments, "dbt", "dbt-core==1.9.*", "dbt-postgres==1.9.*")
    login = LOGIN.format(served.port) + ", dbname: dpsql, schema: public, sslmode: require"
    files = {
        "dbt_project.yml": "{name: shop, version: '1.0', profile: shop,"
        " models: {shop: {+materialized: ephemeral}}}",
        "profiles.yml": f"shop: {{target: dev, outputs: {{dev: {{{login}, threads: 1}}}}}}",
        "models/by_segment.sql": BY_SEGMENT.format("{{ source('shop', 'customers') }}"),
        "models/adults.sql": ADULTS.format("{{ source('shop', 'customers') }}"),
        "models/sources.yml": SOURCES,
    }
    (tmp_path / "models").mkdir()
    for name, text in files.items():
        (tmp_path / name).write_text(text, encoding="utf-8")

    def dbt(*words: str) -> str:
        given = {"DBT_PROFILES_DIR": str(tmp_path), "DBT_SEND_ANONYMOUS_USAGE_STATS": "false"}
        return said(programs / "dbt", "--no-use-colors", *words, folder=tmp_path, **given)

    assert "| business |" in dbt("show", "-s", "by_segment")
    assert "| customer_id | age | segment |" in dbt("show", "-s", "adults", "--limit", "1")
    assert "This would return private rows" in dbt("show", "-s", "adults", "--limit", "2")
    tested = dbt("test")
    for test in ("not_null_shop_countries_code", "unique_shop_countries_code"):
        assert f"PASS source_{test}" in tested
    assert "PASS source_not_null_shop_customers_age" in tested
    assert "Database Error" not in tested
    assert "Catalog written" in dbt("docs", "generate")


# --- sqlmesh ---


def test_sqlmesh(served: Door, environments: Path, tmp_path: Path) -> None:
    programs = environment(environments, "sqlmesh", "sqlmesh[postgres]")
    login = LOGIN.format(served.port) + ", database: dpsql, sslmode: require"
    state = "{type: duckdb, database: state.db}"
    (tmp_path / "config.yaml").write_text(
        f"gateways: {{shop: {{connection: {{{login}}}, state_connection: {state}}}}}\n"
        "default_gateway: shop\nmodel_defaults: {dialect: postgres}\n",
        encoding="utf-8",
    )
    (tmp_path / "models").mkdir()
    for name, query in (("by_segment", BY_SEGMENT), ("adults", ADULTS)):
        model = f"MODEL (name marts.{name}, kind VIEW);\n{query.format('public.customers')}\n"
        (tmp_path / "models" / f"{name}.sql").write_text(model, encoding="utf-8")

    def evaluated(*words: str) -> str:
        return said(programs / "sqlmesh", "evaluate", *words, folder=tmp_path)

    assert "consumer" in evaluated("marts.by_segment")
    assert "Empty DataFrame" in evaluated("marts.adults", "--limit", "1")
    assert "This would return private rows" in evaluated("marts.adults")


# --- Great Expectations ---

EXPECTATIONS = """
import json, sys
import great_expectations as gx
context = gx.get_context(mode="ephemeral")
source = context.data_sources.add_postgres("shop", connection_string=sys.argv[1])
def batch(name):
    asset = source.add_table_asset(name, table_name=name)
    return asset.add_batch_definition_whole_table("all").get_batch()
E, told = gx.expectations, {}
def check(rows, expectation):
    found = rows.validate(expectation, result_format="BOOLEAN_ONLY")
    told[type(expectation).__name__] = [found.success, "Traceback" in str(found.exception_info)]
countries, customers = batch("countries"), batch("customers")
check(countries, E.ExpectColumnValuesToBeUnique(column="code"))
check(customers, E.ExpectColumnToExist(column="age"))
check(customers, E.ExpectTableRowCountToBeBetween(min_value=1000, max_value=3000))
check(customers, E.ExpectColumnMeanToBeBetween(column="age", min_value=30, max_value=80))
check(customers, E.ExpectColumnValuesToNotBeNull(column="age", mostly=0.5))
ages = {"column": "age", "min_value": 0, "max_value": 120}
check(customers, E.ExpectColumnValuesToBeBetween(**ages, mostly=0.5))
check(customers, E.ExpectColumnMedianToBeBetween(**ages))
print("TOLD", json.dumps(told))
"""


def test_great_expectations(served: Door, environments: Path, tmp_path: Path) -> None:
    programs = environment(
        environments, "ge", "great_expectations", "sqlalchemy", "psycopg2-binary"
    )
    output = said(programs / "python", "-c", EXPECTATIONS, uri(served), folder=tmp_path)
    told = json.loads(output.partition("TOLD ")[2].splitlines()[0])
    # It sorts the rows and takes those in the middle, which nobody gets.
    assert told.pop("ExpectColumnMedianToBeBetween") == [False, True]
    assert told == {name: [True, False] for name in told}


# --- jupysql ---

NOTEBOOK = """
import sys
from IPython.core.interactiveshell import InteractiveShell
shell = InteractiveShell.instance()
shell.run_line_magic("load_ext", "sql")
shell.run_line_magic("sql", sys.argv[1])
def tell(what, *words):
    try:
        print("TOLD", what, len(list(shell.run_line_magic(*words))))
    except Exception as error:
        print("TOLD", what, type(error).__name__)
tell("grouped", "sql", "SELECT segment, COUNT(*) AS n FROM customers GROUP BY segment")
tell("one row", "sql", "SELECT * FROM customers LIMIT 1")
shell.run_cell_magic("sql", "--save adults --no-execute", "SELECT * FROM customers WHERE age >= 18")
tell("snippet", "sql", "--with adults SELECT segment, COUNT(*) AS n FROM adults GROUP BY segment")
print("TOLD columns", str(shell.run_line_magic("sqlcmd", "columns -t customers")).count("BIGINT"))
print("TOLD bars", type(shell.run_line_magic("sqlplot", "bar -t customers -c segment")).__name__)
bins = "histogram --table customers --column age --bins 10"
print("TOLD histogram", type(shell.run_line_magic("sqlplot", bins)).__name__)
"""


def test_jupysql(served: Door, environments: Path, tmp_path: Path) -> None:
    packages = ("jupysql", "psycopg2-binary", "sqlalchemy", "pandas", "matplotlib", "ipython")
    programs = environment(environments, "jup", *packages)
    output = said(programs / "python", "-c", NOTEBOOK, uri(served), folder=tmp_path)
    told = [line.removeprefix("TOLD ") for line in output.splitlines() if line.startswith("TOLD ")]
    assert told == [
        "grouped 2", "one row 0", "snippet 2", "columns 2", "bars Axes", "histogram Axes",
    ], output  # fmt: skip


# --- Superset ---


def test_superset_makes_datasets_of_queries(
    served: Door, environments: Path, tmp_path: Path
) -> None:
    environment(environments, "superset", *PACKAGES)
    with superset_server(environments / "superset", tmp_path, "a password") as url:
        superset = Superset(url, ADMINISTRATOR, "a password")
        address = uri(served).replace("+psycopg2", "")
        named = {"database_name": "shop", "sqlalchemy_uri": address}
        dataset = {
            "database": superset.post("/database/", named)["id"],
            "schema": "public",
            "table_name": "adults",
            "sql": ADULTS.format("customers"),
        }
        number = superset.post("/dataset/", dataset)["id"]
        superset.put(f"/dataset/{number}/refresh", {})
        columns = superset.get(f"/dataset/{number}")["result"]["columns"]
        assert [c["column_name"] for c in columns] == ["customer_id", "age", "segment"]
        count = {"expressionType": "SQL", "sqlExpression": "COUNT(*)", "label": "n"}
        chart = {
            "datasource": {"id": number, "type": "table"},
            "queries": [{"columns": ["segment"], "metrics": [count], "row_limit": 100}],
        }
        (shown,) = superset.post("/chart/data", chart)["result"]
        assert {row["segment"] for row in shown["data"]} == {"business", "consumer"}
