"""A table's own key is no link, unless a foreign key says so: whatever the keys are called."""

from __future__ import annotations

import random
from pathlib import Path

import duckdb
import pytest

from dpsql.engines.duckdb.declared_schema import tables as declared
from dpsql.model.schema import Schema
from dpsql.owner.check import check_policy
from dpsql.policy import unit_paths
from dpsql.policy.unit_paths import UnitColumns, paths
from dpsql.proxy import Proxy
from grammar_tests import proxy_kit
from grammar_tests.laws import PlainEngine

POLICY = """
[database]
engine = "duckdb"
path = "data.duckdb"
[privacy_unit]
table = "patients"
key = "row_id"
[defaults]
access = "private"
nullable = true
[tables.patients]
key = "row_id"
columns = { row_id = {} }
[tables.notes]
key = "row_id"
link = { column = "row_id", references = "patients.row_id" }
columns = { row_id = {} }
[budgets.default]
epsilon = 1.0
delta = 1e-6
[analysts.ana]
budget = "default"
"""


def schema(seed: int) -> Schema:
    """Tables whose keys all have one name; some have foreign keys, by this name or another."""
    dice = random.Random(seed)  # noqa: S311 - a test's own
    key = dice.choice(["id", "row_id", "rid", "uuid", "pk", "record_id", "sk"])
    primary = dice.choice(["PRIMARY KEY", ""])
    connection = duckdb.connect()
    connection.execute(f"CREATE TABLE patients ({key} INTEGER PRIMARY KEY, name VARCHAR)")
    for n, table in enumerate(("notes", "visits", "labs")):
        other = ", patient INTEGER REFERENCES patients" if dice.random() < 0.5 else ""
        connection.execute(f"CREATE TABLE {table} ({key} INTEGER {primary}, v{n} INTEGER{other})")
    connection.execute(f"CREATE TABLE details ({key} INTEGER PRIMARY KEY REFERENCES patients)")
    return Schema(declared(PlainEngine(connection).rows))


def links_by_own_key(seed: int) -> list[str]:
    made = schema(seed)
    key = made.tables[0].columns[0].name
    unit = UnitColumns((("patients", key),), has_table=True)
    return [
        name
        for name, routes in paths(made, unit).items()
        for link in (*routes.links, *routes.beside)
        if link.columns == (key,)
    ]


@pytest.mark.full("starts processes")
def test_no_own_key_is_proposed_as_a_link() -> None:
    """Law: but where a foreign key says so, as for `details`."""
    assert {tuple(links_by_own_key(seed)) for seed in range(40)} == {("details",)}


def test_by_names_alone_every_table_would_lead_to_people(monkeypatch: pytest.MonkeyPatch) -> None:
    """The wrong twin."""
    monkeypatch.setattr(unit_paths, "is_surrogate", lambda _table, _key: False)
    assert any("notes" in links_by_own_key(seed) for seed in range(40))


@pytest.mark.full("starts processes")
def test_check_fails_on_a_link_by_the_own_key(tmp_path: Path) -> None:
    (tmp_path / "dpsql.toml").write_text(POLICY, "utf-8")
    for reference, kinds in (("", ["own-key"]), (" REFERENCES patients", [])):
        path = tmp_path / "data.duckdb"
        path.unlink(missing_ok=True)
        with duckdb.connect(str(path)) as connection:
            connection.execute("CREATE TABLE patients (row_id INTEGER PRIMARY KEY)")
            connection.execute(f"CREATE TABLE notes (row_id INTEGER PRIMARY KEY{reference})")
            connection.execute("INSERT INTO patients SELECT range FROM range(9)")
            connection.execute("INSERT INTO notes SELECT range FROM range(6)")
        found = check_policy(str(tmp_path / "dpsql.toml")).findings
        assert [f.kind for f in found if f.severity == "error"] == kinds
        fixes = [f.fix for f in found if f.kind == "own-key"]
        assert all("FOREIGN KEY (row_id) REFERENCES patients" in fix for fix in fixes)


@pytest.mark.full("starts processes")
@pytest.mark.parametrize("unique", [True, False])
def test_a_table_whose_key_is_its_link_has_one_row_of_each_person(
    tmp_path: Path,
    unique: bool,  # noqa: FBT001
) -> None:
    """The kernel proves it of a key that the engine keeps unique, and of no other."""
    with duckdb.connect(str(tmp_path / "data.duckdb")) as connection:
        connection.execute("CREATE TABLE patients (row_id INTEGER PRIMARY KEY)")
        kept = "PRIMARY KEY " if unique else ""
        connection.execute(f"CREATE TABLE notes (row_id INTEGER {kept}REFERENCES patients)")
    (tmp_path / "dpsql.toml").write_text(POLICY, "utf-8")
    with Proxy.open(str(tmp_path / "dpsql.toml")) as proxy:
        plan = proxy.explain(proxy_kit.request("SELECT COUNT(*) AS n FROM notes"))
    limits = {line.name: (line.value, line.how) for line in plan.blocks[-1].limits}
    assert (limits["rows per unit"] == (1, "proved by the kernel")) is unique
