"""A small hospital, made of hashes: patients with skewed numbers of stays, and questions about
  it.

Stays per patient have a heavy tail that grows with age. The policy is what `dpsql init` drafts
  with
the bounds that an owner knows, without or with limits `BY_HAND`.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import duckdb

from benchmarks.drafts import NO_LIMITS, Owner, Price, decided
from dpsql.engines.duckdb.declared_schema import tables
from dpsql.model.schema import Schema

DATA = """
CREATE TABLE wards (ward VARCHAR PRIMARY KEY, beds INTEGER NOT NULL, site VARCHAR NOT NULL);
INSERT INTO wards SELECT 'W' || i, 10 + i * 3, ['north', 'south'][1 + i % 2] FROM range(1, 13) AS
  r(i);
CREATE TABLE diagnoses (code VARCHAR PRIMARY KEY, chapter VARCHAR NOT NULL);
INSERT INTO diagnoses SELECT 'D' || i, chr(65 + (i % 7)::INTEGER) FROM range(60) AS r(i);
CREATE TABLE patients (patient_id INTEGER PRIMARY KEY, born DATE NOT NULL, died DATE,
  sex VARCHAR NOT NULL CHECK (sex IN ('F', 'M')), city VARCHAR NOT NULL);
INSERT INTO patients SELECT i, DATE '1925-01-01' + (hash(i, 1) % 36000)::INTEGER,
  CASE WHEN hash(i, 2) % 20 = 0 THEN DATE '2024-01-01' + (hash(i, 3) % 730)::INTEGER END,
  ['F', 'M'][1 + (hash(i, 4) % 2)::INTEGER], 'city ' || (sqrt(hash(i, 5) % 1600))::INTEGER
FROM range({patients}) AS r(i);
CREATE TABLE stays (stay_id INTEGER PRIMARY KEY,
  patient_id INTEGER NOT NULL REFERENCES patients (patient_id),
  ward VARCHAR NOT NULL REFERENCES wards (ward),
  kind VARCHAR NOT NULL CHECK (kind IN ('inpatient', 'emergency', 'outpatient', 'check')),
  started TIMESTAMP NOT NULL, ended TIMESTAMP NOT NULL, cost DOUBLE NOT NULL);
INSERT INTO stays SELECT row_number() OVER (), patient_id, 'W' || 1 + (hash(s, patient_id, 1) %
  12),
  ['inpatient', 'emergency', 'outpatient', 'outpatient', 'check'][1 + (hash(s, patient_id, 2) %
  5)::INTEGER],
  TIMESTAMP '2024-01-01' + to_seconds(hash(s, patient_id, 3) % 63072000) AS at,
  TIMESTAMP '2024-01-01' + to_seconds(hash(s, patient_id, 3) % 63072000
    + (3600 * exp(4.5 * sqrt((hash(s, patient_id, 4) % 1000) / 1000.0)))::BIGINT),
  round(exp(4 + 5 * ((hash(s, patient_id, 5) % 1000) / 1000.0)), 2)
FROM (SELECT patient_id, unnest(range(least(300,
  (2.5 * exp(1.1 * sqrt(-2 * ln((1 + hash(patient_id, 6) % 1000000) / 1000001.0))
  * cos(2 * pi() * (hash(patient_id, 7) % 1000000) / 1000000.0)))::BIGINT))) AS s FROM patients)
  AS t;
CREATE TABLE findings (finding_id INTEGER PRIMARY KEY,
  patient_id INTEGER NOT NULL REFERENCES patients (patient_id),
  code VARCHAR NOT NULL REFERENCES diagnoses (code), found DATE NOT NULL);
INSERT INTO findings SELECT row_number() OVER (), patient_id,
  'D' || (60 * pow((hash(stay_id, 1) % 10000) / 10000.0, 3))::INTEGER % 60, started::DATE
FROM stays WHERE hash(stay_id, 2) % 2 = 0;
CREATE TABLE drugs (drug_id INTEGER PRIMARY KEY,
  patient_id INTEGER NOT NULL REFERENCES patients (patient_id),
  drug VARCHAR NOT NULL, packs INTEGER NOT NULL);
INSERT INTO drugs SELECT row_number() OVER (), patient_id,
  'RX' || (100 * pow((hash(stay_id, 3) % 10000) / 10000.0, 2))::INTEGER, 1 + (hash(stay_id, 4) %
  9)::INTEGER
FROM stays WHERE hash(stay_id, 5) % 10 < 7;
CREATE TABLE values_taken (value_id INTEGER PRIMARY KEY,
  patient_id INTEGER NOT NULL REFERENCES patients (patient_id),
  what VARCHAR NOT NULL CHECK (what IN ('pressure', 'sugar', 'weight')), value DOUBLE NOT NULL);
INSERT INTO values_taken SELECT row_number() OVER (), patient_id,
  ['pressure', 'sugar', 'weight'][1 + (hash(stay_id, k, 1) % 3)::INTEGER],
  60 + (hash(stay_id, k, 2) % 60 + hash(stay_id, k, 3) % 60)::INTEGER
FROM stays, range(2) AS r(k);
"""
OWNER = Owner(
    ("patients", "patient_id"),
    frozenset({"wards", "diagnoses"}),
    {
        "patients.born": "bounds = [1920-01-01, 2026-01-01]",
        "patients.died": "bounds = [2024-01-01, 2025-12-31]",
        "stays.started": "bounds = [2024-01-01T00:00:00, 2025-12-31T23:59:59]",
        "stays.ended": "bounds = [2024-01-01T00:00:00, 2026-03-31T23:59:59]",
        "stays.cost": "bounds = [0.0, 10000.0]",
        "findings.found": "bounds = [2024-01-01, 2025-12-31]",
        "drugs.packs": "bounds = [0, 12]",
        "values_taken.value": "bounds = [0.0, 300.0]",
    },
)
BY_HAND = "max_groups_per_unit = 12\nmax_rows_per_group = 10"
"""What a careful owner might declare of each table."""

_TEXT = """
-- stays by ward
SELECT ward, COUNT(*) AS n FROM stays GROUP BY ward

-- stays by ward and month
SELECT ward, date_trunc('month', started) AS m, COUNT(*) AS n FROM stays GROUP BY 1, 2

-- admissions by month
SELECT date_trunc('month', started) AS m, COUNT(*) AS n FROM stays WHERE kind = 'inpatient'
GROUP BY 1

-- patients by month
SELECT date_trunc('month', started) AS m, COUNT(DISTINCT patient_id) AS n FROM stays GROUP BY 1

-- readmitted, by LAG
SELECT COUNT(*) FILTER (WHERE started <= before + INTERVAL 30 DAY) AS a, COUNT(*) AS n FROM
(SELECT started, LAG(ended) OVER (PARTITION BY patient_id ORDER BY started, stay_id) AS before
FROM stays WHERE kind = 'inpatient') AS t

-- readmitted, by EXISTS
SELECT COUNT(*) AS n FROM stays AS a WHERE a.kind = 'inpatient' AND EXISTS (SELECT 1 FROM stays
AS b WHERE b.patient_id = a.patient_id AND b.kind = 'inpatient' AND b.started > a.ended AND
b.started <= a.ended + INTERVAL 30 DAY)

-- mean days
SELECT AVG(date_diff('hour', started, ended) / 24.0) AS d FROM stays WHERE kind = 'inpatient'

-- median hours
SELECT MEDIAN(date_diff('hour', started, ended)) AS h FROM stays WHERE kind = 'inpatient'

-- median hours by ward
SELECT ward, MEDIAN(date_diff('hour', started, ended)) AS h FROM stays WHERE kind = 'inpatient'
GROUP BY ward

-- frequent diagnoses
SELECT code, COUNT(*) AS n FROM findings GROUP BY code ORDER BY n DESC LIMIT 10

-- diagnosed patients
SELECT code, COUNT(DISTINCT patient_id) AS n FROM findings GROUP BY code ORDER BY n DESC LIMIT
10

-- frequent drugs
SELECT drug, COUNT(*) AS n FROM drugs GROUP BY drug ORDER BY n DESC LIMIT 10

-- patients by drug
SELECT drug, COUNT(DISTINCT patient_id) AS n FROM drugs GROUP BY drug

-- two diagnoses
SELECT COUNT(*) AS n FROM patients AS p WHERE EXISTS (SELECT 1 FROM findings AS f WHERE
f.patient_id = p.patient_id AND f.code = 'D1') AND EXISTS (SELECT 1 FROM findings AS f WHERE
f.patient_id = p.patient_id AND f.code = 'D2')

-- stays and cost by year
SELECT EXTRACT(year FROM started) AS y, COUNT(*) AS n, SUM(cost) AS c FROM stays GROUP BY 1

-- diagnosed by city
SELECT city, 1000.0 * COUNT(*) FILTER (WHERE EXISTS (SELECT 1 FROM findings AS f WHERE
f.patient_id = p.patient_id AND f.code = 'D0')) / COUNT(*) AS r FROM patients AS p GROUP BY 1

-- age pyramid
SELECT FLOOR(date_diff('year', born, DATE '2025-12-31') / 10) AS a, sex, COUNT(*) AS n FROM
patients GROUP BY 1, 2

-- emergencies by hour
SELECT EXTRACT(dow FROM started) AS d, EXTRACT(hour FROM started) AS h, COUNT(*) AS n FROM stays
WHERE kind = 'emergency' GROUP BY 1, 2

-- funnel
SELECT COUNT(*) AS p, COUNT(*) FILTER (WHERE n > 0) AS s, COUNT(*) FILTER (WHERE i > 0) AS a,
COUNT(*) FILTER (WHERE i > 1) AS b FROM (SELECT p.patient_id, COUNT(s.stay_id) AS n, COUNT(*)
FILTER (WHERE s.kind = 'inpatient') AS i FROM patients AS p LEFT JOIN stays AS s ON s.patient_id
= p.patient_id GROUP BY 1) AS t

-- visits of a patient
SELECT LEAST(n, 30) AS v, COUNT(*) AS p FROM (SELECT patient_id, COUNT(*) AS n FROM stays GROUP
BY patient_id) AS t GROUP BY 1

-- cost in steps
SELECT FLOOR(cost / 1000) AS b, COUNT(*) AS n FROM stays GROUP BY 1

-- rare diagnosis by ward
SELECT ward, COUNT(DISTINCT patient_id) AS n FROM stays AS s WHERE EXISTS (SELECT 1 FROM
findings AS f WHERE f.patient_id = s.patient_id AND f.code = 'D59') GROUP BY 1

-- one city
SELECT COUNT(*) AS n FROM patients WHERE city = 'city 7' AND sex = 'F'

-- patients by site and chapter
SELECT w.site, d.chapter, COUNT(DISTINCT s.patient_id) AS n FROM stays AS s JOIN findings AS f
ON f.patient_id = s.patient_id JOIN wards AS w ON w.ward = s.ward JOIN diagnoses AS d ON d.code
= f.code GROUP BY 1, 2

-- stays by site
SELECT w.site, COUNT(*) AS n FROM stays AS s JOIN wards AS w ON w.ward = s.ward GROUP BY 1

-- cost by kind
SELECT kind, SUM(cost) / COUNT(*) AS r, SUM(cost) AS c FROM stays GROUP BY kind

-- sugar of the diagnosed
SELECT AVG(value) AS v FROM values_taken AS t WHERE what = 'sugar' AND EXISTS (SELECT 1 FROM
findings AS f WHERE f.patient_id = t.patient_id AND f.code = 'D0')

-- pressure by age
SELECT CASE WHEN p.born > DATE '1985-01-01' THEN 'young' ELSE 'old' END AS g, AVG(v.value) AS a
FROM values_taken AS v JOIN patients AS p USING (patient_id) WHERE v.what = 'pressure' GROUP BY
1

-- patients by value
SELECT what, COUNT(DISTINCT patient_id) AS n FROM values_taken GROUP BY 1

-- mortality
SELECT sex, 100.0 * COUNT(died) / COUNT(*) AS r FROM patients GROUP BY sex

-- died after a stay
SELECT COUNT(*) AS n FROM patients AS p WHERE EXISTS (SELECT 1 FROM stays AS s WHERE
s.patient_id = p.patient_id AND s.kind = 'inpatient' AND p.died BETWEEN CAST(s.ended AS DATE)
AND CAST(s.ended AS DATE) + 30)

-- occupancy
SELECT w.ward, SUM(date_diff('hour', started, ended)) / (24.0 * w.beds * 730.0) AS o FROM stays
AS s JOIN wards AS w USING (ward) WHERE s.kind = 'inpatient' GROUP BY w.ward, w.beds

-- cost and hours
SELECT CORR(cost, date_diff('hour', started, ended)) AS r FROM stays WHERE kind = 'inpatient'

-- five drugs
SELECT COUNT(*) AS n FROM (SELECT patient_id FROM drugs GROUP BY 1 HAVING COUNT(DISTINCT drug)
>= 5) AS t

-- shares of wards
SELECT ward, COUNT(*) AS n, 100.0 * COUNT(*) / SUM(COUNT(*)) OVER () AS s FROM stays GROUP BY
ward

-- lately active
SELECT COUNT(DISTINCT patient_id) AS n FROM stays WHERE started >= TIMESTAMP '2025-10-01'

-- stays
SELECT COUNT(*) AS n FROM stays

-- cost
SELECT SUM(cost) AS c FROM stays

-- mean cost by kind
SELECT kind, AVG(cost) AS a FROM stays GROUP BY kind

-- packs by drug
SELECT drug, SUM(packs) AS n FROM drugs GROUP BY drug

-- mean stays
SELECT AVG(n) AS a FROM (SELECT patient_id, COUNT(*) AS n FROM stays GROUP BY patient_id) AS t

-- spread of cost
SELECT STDDEV(cost) AS s FROM stays WHERE kind = 'inpatient'
"""
QUESTIONS: Mapping[str, str] = {
    name.removeprefix("-- "): sql
    for name, sql in (each.split("\n", 1) for each in _TEXT.strip().split("\n\n"))
}
"""Questions in the shapes of a hospital's analyst; the keys of groups stand first."""
KEYS = dict.fromkeys(
    (
        "stays by ward and month",
        "age pyramid",
        "emergencies by hour",
        "patients by site and chapter",
    ),
    2,
)
"""Numbers of keys of questions that have several."""
SIZES = {"patients": 1, "stays": 5, "findings": 2, "drugs": 3, "values_taken": 10}
"""About how many rows of each table a patient has, as anybody may know."""


def build(folder: Path, price: Price, *, by_hand: bool, patients: int = 10_000) -> Path:
    """Write the hospital's database and policy to a folder; return the policy's path."""
    with duckdb.connect(str(folder / "hospital.duckdb")) as connection:
        connection.execute(DATA.format(patients=patients))

        def rows(sql: str) -> list[tuple[object, ...]]:
            return connection.execute(sql).fetchall()

        schema = Schema(tables(rows), "here")
    limits = BY_HAND if by_hand else NO_LIMITS
    path = folder / "dpsql.toml"
    text = decided(schema, "hospital.duckdb", OWNER, price, limits)
    for name, each in SIZES.items():
        head = f"[tables.{name}]\n"
        text = text.replace(head, f"{head}expected_rows = {each * patients}\n")
    path.write_text(text, encoding="utf-8")
    return path
