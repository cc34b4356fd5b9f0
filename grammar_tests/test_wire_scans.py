"""Scans of a tool are refused where they would cost; what people ask in it is answered."""

from __future__ import annotations

import pytest

from grammar_tests.session_kit import Client

OWN = "-- Metabase\n"
ASKED = "-- Metabase:: userID: 1 queryType: MBQL queryHash: 0af3\n"
VALUES = (
    'SELECT "public"."customers"."{0}" AS "{0}" FROM "public"."customers" '
    'GROUP BY "public"."customers"."{0}" ORDER BY "public"."customers"."{0}" ASC LIMIT 1000'
)
SCANS = (
    VALUES.format("city"),
    'SELECT COUNT(DISTINCT "public"."customers"."city") AS "count" FROM "public"."customers"',
    'SELECT COUNT(*) AS "count" FROM "public"."customers" WHERE "public"."customers"."age" > 30',
)


@pytest.mark.full("opens servers or connects clients")
@pytest.mark.parametrize("sql", SCANS)
def test_a_scan_costs_nothing_until_somebody_asks(client: Client, sql: str) -> None:
    proxy = client.session._runner.answers.proxy
    before = proxy.ledger.history("ana", 1000)
    told = []
    for _ in range(2):
        assert client.query(OWN + sql) == "EZ"
        told.append((client.error["C"], client.error["M"]))
    assert told == [("42501", "Metabase scans this column by itself, and that would cost.")] * 2
    assert proxy.ledger.history("ana", 1000) == before
    assert client.query(ASKED + sql).startswith("T")
    assert len(proxy.ledger.history("ana", 1000)) == len(before) + 1
    assert client.query(OWN + sql).startswith("T")
    assert len(proxy.ledger.history("ana", 1000)) == len(before) + 1


@pytest.mark.full("measures neighbours or further data sets")
@pytest.mark.parametrize(
    ("sql", "rows"), [(VALUES.format("segment"), 2), ("SELECT code FROM countries", 3)]
)
def test_a_scan_for_public_values_is_answered(client: Client, sql: str, rows: int) -> None:
    assert client.query(OWN + sql) == "T" + "D" * rows + "CZ"


@pytest.mark.full("measures neighbours or further data sets")
def test_a_scan_of_rows_is_refused_as_rows(client: Client) -> None:
    client.query(f"{OWN}SELECT SUBSTRING(city, 1, 1234) AS s FROM customers LIMIT 10000")
    assert (client.error["C"], client.error["M"]) == ("42501", "This would return private rows.")
