"""Schemas as they are found: hospitals, shops and applications, drafted with few decisions.

Keys, names and types decide, never rows. Each draft has to pass a check, link every table of
people by the right column, hide what names them, and answer joins by every path.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import duckdb
import pytest
from click.testing import CliRunner, Result

from dpsql.interfaces.cli import main
from dpsql.policy.draft import Draft
from dpsql.policy.load import load
from dpsql.proxy import Proxy
from grammar_tests.proxy_kit import request

MOST_DECISIONS = 5


@dataclass(frozen=True, slots=True)
class RealSchema:
    """Tables, what its owner decides, and what has to be found without a word."""

    ddl: str
    decisions: tuple[str, ...]
    links: dict[str, str]
    beside: dict[str, set[str]]
    hidden: set[str]
    shown: set[str]
    dictionaries: set[str]
    asked: str


OMOP = RealSchema(
    """
CREATE TABLE concept (concept_id INTEGER PRIMARY KEY, concept_name TEXT, vocabulary_id TEXT,
    concept_code TEXT);
CREATE TABLE concept_ancestor (ancestor_concept_id INTEGER REFERENCES concept,
    descendant_concept_id INTEGER REFERENCES concept, min_levels_of_separation INTEGER);
CREATE TABLE person (person_id INTEGER PRIMARY KEY, gender_concept_id INTEGER REFERENCES concept,
    year_of_birth INTEGER, person_source_value TEXT, gender_source_value TEXT);
CREATE TABLE visit_occurrence (visit_occurrence_id INTEGER PRIMARY KEY,
    person_id INTEGER NOT NULL REFERENCES person, visit_concept_id INTEGER REFERENCES concept,
    visit_start_date DATE, preceding_visit_occurrence_id INTEGER REFERENCES visit_occurrence);
CREATE TABLE condition_occurrence (condition_occurrence_id INTEGER PRIMARY KEY,
    person_id INTEGER NOT NULL REFERENCES person,
    visit_occurrence_id INTEGER REFERENCES visit_occurrence,
    condition_concept_id INTEGER REFERENCES concept, condition_start_date DATE,
    condition_source_value TEXT);
CREATE TABLE note (note_id INTEGER PRIMARY KEY, person_id INTEGER NOT NULL REFERENCES person,
    visit_occurrence_id INTEGER REFERENCES visit_occurrence, note_text TEXT);
""",
    ("--public=concept",),
    {"visit_occurrence": "person_id", "condition_occurrence": "person_id", "note": "person_id"},
    {
        "visit_occurrence": {"preceding_visit_occurrence_id"},
        "condition_occurrence": {"visit_occurrence_id"},
        "note": {"visit_occurrence_id"},
    },
    {
        "person.person_source_value",
        "person.gender_source_value",
        "condition_occurrence.condition_source_value",
        "note.note_text",
    },
    {"person.year_of_birth"},
    {"concept"},
    "SELECT COUNT(*) FROM condition_occurrence JOIN visit_occurrence USING (visit_occurrence_id)",
)
MIMIC = RealSchema(
    """
CREATE TABLE patients (row_id INTEGER PRIMARY KEY, subject_id INTEGER NOT NULL UNIQUE,
    gender TEXT, dob TIMESTAMP);
CREATE TABLE d_items (row_id INTEGER PRIMARY KEY, itemid INTEGER NOT NULL UNIQUE, label TEXT);
CREATE TABLE admissions (row_id INTEGER PRIMARY KEY,
    subject_id INTEGER NOT NULL REFERENCES patients (subject_id), hadm_id INTEGER NOT NULL UNIQUE,
    admittime TIMESTAMP, dischtime TIMESTAMP, insurance TEXT);
CREATE TABLE icustays (row_id INTEGER PRIMARY KEY,
    subject_id INTEGER NOT NULL REFERENCES patients (subject_id),
    hadm_id INTEGER REFERENCES admissions (hadm_id), icustay_id INTEGER NOT NULL UNIQUE,
    los DOUBLE);
CREATE TABLE chartevents (row_id INTEGER PRIMARY KEY,
    subject_id INTEGER NOT NULL REFERENCES patients (subject_id),
    hadm_id INTEGER REFERENCES admissions (hadm_id),
    icustay_id INTEGER REFERENCES icustays (icustay_id),
    itemid INTEGER REFERENCES d_items (itemid), charttime TIMESTAMP, valuenum DOUBLE);
""",
    ("--public=d_items",),
    {"admissions": "subject_id", "icustays": "subject_id", "chartevents": "subject_id"},
    {"icustays": {"hadm_id"}, "chartevents": {"hadm_id", "icustay_id"}},
    set(),
    {"admissions.insurance"},
    {"d_items"},
    "SELECT AVG(valuenum) FROM chartevents JOIN icustays USING (icustay_id) WHERE los > 2",
)
SYNTHEA = RealSchema(
    """
CREATE TABLE patients ("Id" TEXT PRIMARY KEY, "BIRTHDATE" DATE, "SSN" TEXT, "FIRST" TEXT,
    "LAST" TEXT, "GENDER" TEXT, "ADDRESS" TEXT, "CITY" TEXT);
CREATE TABLE encounters ("Id" TEXT PRIMARY KEY, "START" TIMESTAMP, "PATIENT" TEXT NOT NULL,
    "ENCOUNTERCLASS" TEXT, "TOTAL_CLAIM_COST" DOUBLE);
CREATE TABLE conditions ("START" DATE, "PATIENT" TEXT NOT NULL, "ENCOUNTER" TEXT, "CODE" TEXT);
CREATE TABLE observations ("DATE" TIMESTAMP, "PATIENT" TEXT NOT NULL, "ENCOUNTER" TEXT,
    "CODE" TEXT, "VALUE" TEXT);
""",
    (),
    {"encounters": "PATIENT", "conditions": "PATIENT", "observations": "PATIENT"},
    {"conditions": {"ENCOUNTER"}, "observations": {"ENCOUNTER"}},
    {"patients.SSN", "patients.FIRST", "patients.LAST", "patients.ADDRESS"},
    {"patients.GENDER", "patients.CITY", "observations.VALUE"},
    set(),
    'SELECT COUNT(*) FROM conditions c JOIN encounters e ON c."ENCOUNTER" = e."Id"',
)
SAKILA = RealSchema(
    """
CREATE TABLE category (category_id INTEGER PRIMARY KEY, name TEXT);
CREATE TABLE film (film_id INTEGER PRIMARY KEY, title TEXT, category_id INTEGER REFERENCES category,
    length INTEGER);
CREATE TABLE inventory (inventory_id INTEGER PRIMARY KEY, film_id INTEGER REFERENCES film);
CREATE TABLE customer (customer_id INTEGER PRIMARY KEY, first_name TEXT, last_name TEXT, email TEXT,
    active BOOLEAN);
CREATE TABLE rental (rental_id INTEGER PRIMARY KEY, rental_date TIMESTAMP,
    inventory_id INTEGER REFERENCES inventory,
    customer_id INTEGER NOT NULL REFERENCES customer);
CREATE TABLE payment (payment_id INTEGER PRIMARY KEY,
    customer_id INTEGER NOT NULL REFERENCES customer, rental_id INTEGER REFERENCES rental,
    amount DECIMAL(5, 2));
""",
    ("--public=film,category,inventory",),
    {"rental": "customer_id", "payment": "customer_id"},
    {"payment": {"rental_id"}},
    {"customer.first_name", "customer.last_name", "customer.email"},
    {"customer.active"},
    {"film", "category", "inventory"},
    "SELECT SUM(amount) FROM payment JOIN rental USING (rental_id)",
)
RAILS = RealSchema(
    """
CREATE TABLE plans (id BIGINT PRIMARY KEY, title TEXT);
CREATE TABLE users (id BIGINT PRIMARY KEY, email TEXT NOT NULL, "isMobile" BOOLEAN,
    "mobilePhoneModel" TEXT, encrypted_password TEXT, plan_id BIGINT REFERENCES plans,
    created_at TIMESTAMP NOT NULL);
CREATE TABLE orders (id BIGINT PRIMARY KEY, user_id BIGINT NOT NULL REFERENCES users,
    total_cents INTEGER, created_at TIMESTAMP NOT NULL);
CREATE TABLE line_items (id BIGINT PRIMARY KEY, order_id BIGINT NOT NULL REFERENCES orders,
    user_id BIGINT NOT NULL REFERENCES users, quantity INTEGER);
CREATE TABLE refunds (id BIGINT PRIMARY KEY, line_item_id BIGINT NOT NULL REFERENCES line_items,
    order_id BIGINT NOT NULL REFERENCES orders, amount_cents INTEGER);
CREATE TABLE schema_migrations (version TEXT PRIMARY KEY);
""",
    ("--public=plans",),
    {"orders": "user_id", "line_items": "user_id", "refunds": "line_item_id"},
    {"line_items": {"order_id"}, "refunds": {"order_id"}},
    {"users.email", "users.encrypted_password"},
    {"users.isMobile", "users.mobilePhoneModel"},
    {"plans"},
    "SELECT SUM(amount_cents) FROM refunds r JOIN orders o ON o.id = r.order_id",
)
SCHEMAS = {"omop": OMOP, "mimic": MIMIC, "synthea": SYNTHEA, "sakila": SAKILA, "rails": RAILS}
real = pytest.mark.parametrize("schema", SCHEMAS.values(), ids=SCHEMAS)
FURTHER = pytest.mark.full("further schemas, each in processes")
some_real = pytest.mark.parametrize(
    "schema",
    [
        pytest.param(schema, marks=() if schema is OMOP else FURTHER, id=name)
        for name, schema in SCHEMAS.items()
    ],
)


def run(*args: str) -> Result:
    return CliRunner().invoke(main, args)


def drafted(schema: RealSchema, folder: Path, *decisions: str) -> Path:
    """The policy that is drafted with some decisions and else with what is recommended."""
    database, policy = folder / "real.duckdb", folder / "dpsql.toml"
    with duckdb.connect(str(database)) as connection:
        connection.execute(schema.ddl)
    done = run("init", str(database), "--yes", "-o", str(policy), *decisions)
    assert done.exit_code == 0, done.output
    return policy


def hidden(draft: Draft) -> set[str]:
    return {f"{t.name}.{c.name}" for t in draft.tables for c in t.columns if c.hidden}


@pytest.mark.full("measures neighbours or further data sets")
@some_real
def test_a_draft_passes_a_check_and_answers(schema: RealSchema, tmp_path: Path) -> None:
    assert len(schema.decisions) <= MOST_DECISIONS
    policy = drafted(schema, tmp_path, *schema.decisions)
    draft = load(str(policy))
    links = {t.name: t.link.column for t in draft.tables if t.link is not None}
    assert links == schema.links
    beside = {t.name: {k.column for k in t.same_unit} for t in draft.tables if t.same_unit}
    assert beside == schema.beside
    assert hidden(draft) == schema.hidden
    listed = {f"{t.name}.{c.name}" for t in draft.tables for c in t.columns}
    assert schema.shown <= listed
    checked = run("check", "--policy", str(policy))
    assert checked.exit_code == 0, checked.output
    asked = run("explain", "--policy", str(policy), schema.asked)
    assert asked.exit_code == 0, asked.output


@pytest.mark.full("measures neighbours or further data sets")
@real
def test_dictionaries_are_proposed_and_never_taken(schema: RealSchema, tmp_path: Path) -> None:
    """Without a decision no table is public; those that may be are marked."""
    policy = drafted(schema, tmp_path)
    assert all(table.private for table in load(str(policy)).tables)
    parts = policy.read_text("utf-8").split("# Proposed as public")[1:]
    named = {part.split("[tables.")[1].split("]")[0] for part in parts}
    assert named == schema.dictionaries


@pytest.mark.full("measures neighbours or further data sets")
def test_values_of_a_key_to_a_public_table_are_listed(tmp_path: Path) -> None:
    policy = drafted(SAKILA, tmp_path, *SAKILA.decisions)
    rental = load(str(policy)).table("rental")
    assert rental is not None
    sources = {c.name: c.values_from for c in rental.columns}
    assert sources["inventory_id"] == ("inventory", "inventory_id")


STAYS = """
CREATE TABLE patients (patient_id VARCHAR PRIMARY KEY, birthdate DATE NOT NULL);
CREATE TABLE stays (stay_id VARCHAR PRIMARY KEY, patient_id VARCHAR NOT NULL REFERENCES patients,
    started TIMESTAMP NOT NULL, stopped TIMESTAMP, cost DOUBLE);
INSERT INTO patients SELECT n::VARCHAR, DATE '1950-01-01' FROM range(50) t(n);
INSERT INTO stays SELECT n::VARCHAR, n::VARCHAR, TIMESTAMP '2024-01-01', NULL, n FROM range(50) t(n)
"""
HOURS = "DATE_DIFF('hour', started, stopped)"


@pytest.mark.full("opens a proxy over what a process drafts")
def test_lengths_and_ends_of_stays_need_no_edit_of_the_draft(tmp_path: Path) -> None:
    policy = drafted(RealSchema(STAYS, (), {}, {}, set(), set(), set(), ""), tmp_path)
    questions = (
        f"SELECT AVG({HOURS} / 24.0) FROM stays",
        f"SELECT MEDIAN({HOURS}), QUANTILE_CONT({HOURS}, [0.25, 0.9]) FROM stays",
        "SELECT AVG(stopped - started), MIN(started), MAX(stopped) FROM stays",
        f"SELECT CORR(cost, {HOURS}) FROM stays",
        f"SELECT DATE_TRUNC('month', started) AS m, SUM({HOURS}) FROM stays GROUP BY 1",
        "SELECT AVG(DATE_DIFF('year', birthdate, CURRENT_DATE)) FROM patients",
    )
    with Proxy.open(str(policy)) as proxy:
        for question in questions:
            assert proxy.explain(request(question, analyst="analyst")).blocks


@pytest.mark.full("measures neighbours or further data sets")
@pytest.mark.parametrize("column", ["customer_name TEXT", "born DATE", "patient_id INTEGER"])
def test_what_may_be_about_people_is_no_dictionary(column: str, tmp_path: Path) -> None:
    """The near miss: a table that others refer to, with a column of people in it."""
    ddl = SAKILA.ddl.replace("name TEXT);", f"name TEXT, {column});", 1)
    schema = RealSchema(ddl, (), {}, {}, set(), set(), set(), "")
    parts = drafted(schema, tmp_path).read_text("utf-8").split("# Proposed as public")[1:]
    assert "category" not in {part.split("[tables.")[1].split("]")[0] for part in parts}
