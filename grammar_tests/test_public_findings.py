"""`dpsql check` finds keys of people in public tables, and no lookup table that shares numbers."""

from __future__ import annotations

import random
import uuid
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import duckdb
import pytest

from dpsql.model.errors import PolicyError
from dpsql.owner import public_findings
from dpsql.owner.check import check_policy
from dpsql.owner.findings import Finding, Severity
from dpsql.owner.public_findings import Overlap
from dpsql.policy.load import load

POLICY = """
[database]
engine = "duckdb"
path = "data.duckdb"
[privacy_unit]
table = "patients"
key = "Id"
[defaults]
nullable = true
[tables.patients]
access = "private"
key = "Id"
columns = {{ Id = {{}} }}
[tables.visits]
access = "private"
key = "visit"
link = {{ column = "patient", references = "patients.Id" }}
columns = {{ visit = {{}}, patient = {{}} }}
{public}
[budgets.default]
epsilon = 1.0
delta = 1e-6
[analysts.ana]
budget = "default"
"""

Keys = Sequence[Any]
KEYED = range(1, 2001)
VISITS = 5_000_000
"""The first key of a visit; visits have consecutive keys, which reach no other number here."""


def found(
    folder: Path, kind: str, keys: Keys, public: Mapping[str, Keys], said: str = "", more: str = ""
) -> dict[str, Finding]:
    """Return what a check finds of public tables with one column each, beside patients and visits.

    By column; nothing else is found of these tables.
    """
    folder.mkdir(exist_ok=True)
    (folder / "data.duckdb").unlink(missing_ok=True)
    named = {f"t{n}": column for n, column in enumerate(public)}
    tables = [f'[tables.{t}]\naccess = "public"' for t in named]
    tables += [f"[tables.{t}.columns]\n{c} = {{ {said} }}" for t, c in named.items() if said]
    (folder / "dpsql.toml").write_text(POLICY.format(public="\n".join(tables)), "utf-8")
    with duckdb.connect(str(folder / "data.duckdb")) as connection:
        connection.execute(f'CREATE TABLE patients ("Id" {kind} PRIMARY KEY)')
        connection.execute("INSERT INTO patients SELECT unnest(?)", [list(keys)])
        connection.execute(
            f"CREATE TABLE visits AS SELECT CAST({VISITS} + row_number() OVER () AS INTEGER)"
            ' AS visit, "Id" AS patient FROM patients'
        )
        for table, column in named.items():
            values = list(public[column])
            of = kind if type(values[0]) is type(keys[0]) else "VARCHAR"
            connection.execute(f'CREATE TABLE {table} ("{column}" {of} {more})')
            connection.execute(f"INSERT INTO {table} SELECT unnest(?)", [values])
    findings = check_policy(str(folder / "dpsql.toml")).findings
    return {named[f.table]: f for f in findings if f.table in named}


def dense(_dice: random.Random) -> Keys:
    return range(1, 2001)


def with_sentinel(_dice: random.Random) -> Keys:
    return [*range(1, 2001), 999_999_999]


def by_tens(_dice: random.Random) -> Keys:
    return range(10, 20_010, 10)


def half(dice: random.Random) -> Keys:
    return dice.sample(range(1, 4001), 2000)


def sparse(dice: random.Random) -> Keys:
    return dice.sample(range(10_000_000, 20_000_000), 2000)


def texts(dice: random.Random) -> Keys:
    return [str(uuid.UUID(int=dice.getrandbits(128))) for _ in range(300)]


def numbers_as_texts(_dice: random.Random) -> Keys:
    return [f"{n:04}" for n in range(1, 2001)]


KEYS: dict[Callable[[random.Random], Keys], str] = {
    dense: "INTEGER",
    with_sentinel: "BIGINT",
    by_tens: "INTEGER",
    half: "INTEGER",
    sparse: "BIGINT",
    texts: "VARCHAR",
    numbers_as_texts: "VARCHAR",
}


def lookups(dice: random.Random) -> dict[str, Keys]:
    """Columns of public tables that share numbers with keys by chance."""
    return {
        "region_id": range(1, dice.randint(3, 8)),
        "product_id": range(1, dice.randint(100, 900)),
        "line": range(1, dice.randint(1850, 1950)),
        "percent": [n % 101 for n in range(300)],
        "year": range(1900, 2025),
        "price": [dice.choice([10, 20, 30, 50, 90, 100, 120]) for _ in range(60)],
        "minute": range(1440),
        "population": [dice.randint(0, 10_000_000) for _ in range(500)],
        "default_code": [1, 2, 3, 4, 5, 999_999_999],
        "customer_type_id": [1, 2, 3],
        "patient_class": [1, 2, 3, 4],
    }


def written(keys: Any, values: Keys) -> Keys:
    """Return values as the keys of that kind are written."""
    if keys is numbers_as_texts:
        return [f"{value:04}" for value in values]
    return [str(value) for value in values] if keys is texts else values


FURTHER = pytest.mark.full("further keys")
SOME_KEYS = [
    pytest.param(keys, marks=() if keys in (sparse, texts) else FURTHER, id=keys.__name__)
    for keys in KEYS
]


@pytest.mark.parametrize("keys", SOME_KEYS)
@pytest.mark.parametrize(
    "seed", [0, pytest.param(1, marks=pytest.mark.full("further lookup tables"))]
)
def test_a_lookup_table_holds_no_keys(keys: Any, seed: int, tmp_path: Path) -> None:
    dice = random.Random(seed)  # noqa: S311 - a test's own
    public = {name: written(keys, values) for name, values in lookups(dice).items()}
    assert not found(tmp_path, KEYS[keys], keys(dice), public)


def test_without_chance_lookup_tables_would_fail(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The wrong twin: whatever is among the keys is taken for them."""
    monkeypatch.setattr(public_findings._PublicTables, "_by_chance", lambda *_: 0)
    public = lookups(random.Random(0))  # noqa: S311
    assert {"region_id", "percent", "minute"} <= {*found(tmp_path, "INTEGER", KEYED, public)}


@pytest.mark.full("draws random questions or values")
@pytest.mark.parametrize("keys", SOME_KEYS)
def test_a_column_that_refers_to_people_fails(keys: Any, tmp_path: Path) -> None:
    """People have several rows or none, so that the column is no number of its own rows."""
    dice = random.Random(7)  # noqa: S311 - a test's own
    those = list(keys(dice))
    names = "PATIENT", "referred_patient_id", "who"
    public = {name: [dice.choice(those) for _ in range(120)] for name in names}
    findings = found(tmp_path, KEYS[keys], those, public)
    assert list(findings) == list(names)
    for name, finding in findings.items():
        assert finding.severity is Severity.ERROR
        assert finding.id == f"unit-keys:{finding.table}.{name}"
        counted = f"holds keys of patients.Id: {finding.rows} of {finding.total} values."
        assert counted in finding.message
        digits = {*"".join(finding.message + finding.fix).replace(",", "").split()}
        assert not digits & {str(value) for value in those if len(str(value)) > 4}


def test_by_names_alone_such_columns_would_pass(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The wrong twin."""
    monkeypatch.setattr(Overlap, "may_count", property(lambda _overlap: False))
    keys = texts(random.Random(7))  # noqa: S311
    assert list(found(tmp_path, "VARCHAR", keys, {"who": keys, "patient": keys})) == ["patient"]


@pytest.mark.full("measures neighbours or further data sets")
@pytest.mark.parametrize(
    ("kind", "keys", "values"),
    [
        ("UUID", [uuid.UUID(int=7**n) for n in range(1, 41)], [str(uuid.UUID(int=7**9))] * 2),
        ("BIGINT", [n * n for n in range(100, 200)], [str(n * n) for n in range(150, 160)]),
        ("DECIMAL(12, 0)", [n * n for n in range(100, 200)], [n * n for n in range(150, 160)]),
    ],
)
def test_keys_are_found_in_another_type(
    kind: str, keys: Keys, values: Keys, tmp_path: Path
) -> None:
    (finding,) = found(tmp_path, kind, keys, {"patient": values}).values()
    assert finding.kind == "unit-keys"


def test_keys_of_rows_that_lead_to_people_are_found(tmp_path: Path) -> None:
    visits = [VISITS + n for n in range(3, 300)]
    (finding,) = found(tmp_path, "INTEGER", range(1, 301), {"visit": visits}).values()
    assert "holds keys of visits.visit" in finding.message


@pytest.mark.full("measures neighbours or further data sets")
def test_a_foreign_key_says_whose_keys_there_are(tmp_path: Path) -> None:
    assert not found(tmp_path, "INTEGER", KEYED, {"n": [1, 2]})
    assert found(tmp_path, "INTEGER", KEYED, {"n": [1, 2]}, more='REFERENCES patients ("Id")')


@pytest.mark.full("draws random questions or values")
def test_the_owner_may_publish_keys(tmp_path: Path) -> None:
    keys = texts(random.Random(3))  # noqa: S311
    public = {"who": keys, "first_name": keys}
    assert len(found(tmp_path, "VARCHAR", keys, public, said="published = false")) == 2
    assert not found(tmp_path, "VARCHAR", keys, public, said="published = true")


def test_nothing_private_is_published(tmp_path: Path) -> None:
    text = POLICY.format(public="").replace("Id = {}", "Id = { published = true }")
    (tmp_path / "dpsql.toml").write_text(text, "utf-8")
    with pytest.raises(
        PolicyError, match="patients is private, so that nothing of it is published"
    ):
        load(str(tmp_path / "dpsql.toml"))


LOOKS = {
    "first_name": "names of people",
    "doctorLastName": "names of people",
    "birth_date": "birth dates",
    "DOB": "birth dates",
    "ssn": "identity numbers",
    "passport_no": "identity numbers",
    "name": None,
    "product_name": None,
    "birthplace": None,
    "username_id": None,
}


@pytest.mark.full("draws random questions or values")
def test_what_looks_like_a_persons_is_a_warning(tmp_path: Path) -> None:
    keys = texts(random.Random(5))  # noqa: S311
    findings = found(tmp_path, "VARCHAR", keys, dict.fromkeys(LOOKS, "xy"))
    assert {(f.kind, f.severity, f.rows) for f in findings.values()} == {
        ("personal", Severity.WARNING, 2)
    }
    told = {column: f.message.partition("looks like ")[2] for column, f in findings.items()}
    assert told == {column: f"{what}." for column, what in LOOKS.items() if what}
