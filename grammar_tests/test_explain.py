"""Plans as people and programs read them: the same at every door, in short, in full and as JSON."""

from __future__ import annotations

import json
from dataclasses import replace
from decimal import Decimal
from math import inf
from pathlib import Path

import pytest

import dpsql
from dpsql.answering.any_statement import ColumnsOf
from dpsql.interfaces.doors import COMMAND_LINE
from dpsql.interfaces.plan_text import plan_text
from dpsql.model.errors import Refused
from dpsql.model.tree import PlanForm
from dpsql.preparation.explanation import ChoiceLine, Explanation, LargerEpsilon
from dpsql.proxy import Proxy
from grammar_tests.fakes import EXPLANATION
from grammar_tests.proxy_kit import request, shop
from grammar_tests.session_kit import Client

BY_CITY = """\
SELECT city, COUNT(*) AS n, SUM(amount) AS s
FROM customers JOIN orders USING (customer_id) GROUP BY city"""
BY_SEGMENT = (
    "SELECT segment, AVG(age) AS mean, MEDIAN(age) AS middle FROM customers GROUP BY segment"
)


def plan(proxy: Proxy, sql: str) -> Explanation:
    return proxy.explain(request(sql))


def measured(proxy: Proxy, sql: str) -> list[str]:
    """What each release measures or chooses, in words."""
    blocks = plan(proxy, sql).blocks
    noised = [line.output for block in blocks for line in block.releases]
    return noised + [line.output for block in blocks for line in block.choices]


MEASURED = {
    "SELECT COUNT(*) AS n FROM orders": ["number of rows"],
    "SELECT COUNT(DISTINCT customer_id) AS n FROM orders": ["number of units"],
    "SELECT COUNT(DISTINCT note) AS n FROM orders": ["number of distinct values of note"],
    "SELECT SUM(amount) AS s FROM orders WHERE status = 'paid'": ["sum of amount"],
    "SELECT SUM(quantity * 2 + 1) AS s FROM orders": ["sum of quantity * 2 + 1"],
    "SELECT COUNT(age) AS n FROM customers": ["number of rows where age IS NOT NULL"],
    "SELECT COUNT(*) FILTER (WHERE status = 'paid' AND quantity > 2) AS n FROM orders": [
        "number of rows where status = 'paid' AND quantity > 2"
    ],
    "SELECT AVG(age) AS mean FROM customers": [
        "number of rows where age IS NOT NULL",
        "centred sum of age",
    ],
    "SELECT COVAR_POP(amount, quantity) AS c FROM orders": [
        "number of rows",
        "centred sum of amount",
        "centred sum of quantity",
        "sum of (amount - 250) * (quantity - 10)",
    ],
    "SELECT MEDIAN(amount) AS m FROM orders": ["quantile 0.5 of amount"],
    "SELECT SUM(total) AS s FROM (SELECT customer_id, SUM(amount) AS total FROM orders "
    "GROUP BY customer_id) AS t WHERE total > 10": ["sum of total"],
    "SELECT SAMPLE_AGGREGATE(SUM(amount) / COUNT(*), 0, 500, 20) AS s FROM orders": [
        "sum of SUM(amount) / COUNT(*) over 20 blocks of units"
    ],
    "SELECT SUM(CASE WHEN status = 'paid' THEN amount ELSE 0 END) AS s FROM orders": [
        "sum of CASE WHEN status = 'paid' THEN amount ELSE 0 END"
    ],
}


@pytest.mark.parametrize("sql", MEASURED)
def test_a_measurement_is_named_by_what_it_measures(proxy: Proxy, sql: str) -> None:
    assert measured(proxy, sql) == MEASURED[sql]


# --- what would help ---


HELPS = {
    "SELECT COUNT(*) AS n FROM customers": [],
    "SELECT SUM(amount) AS s FROM orders": [
        "tighter bounds of amount, now 0 … 500 a row",
        "fewer rows of one unit in a group than 10",
    ],
    "SELECT city, COUNT(*) AS n FROM customers GROUP BY city": [
        "values of city listed in the policy",
    ],
    "SELECT device, COUNT(*) AS n FROM events GROUP BY device": [
        "values of device listed in the policy",
        "fewer rows of one unit in a group than 5",
        "coarser groups: one unit counts in up to 2",
    ],
    "SELECT EXTRACT(month FROM day) AS m, COUNT(*) AS n FROM logins GROUP BY m": [],
    "SELECT code FROM countries": [],
}


@pytest.mark.parametrize("sql", HELPS)
def test_a_plan_says_what_would_help(proxy: Proxy, sql: str) -> None:
    told = json.loads(plan_text(plan(proxy, sql), PlanForm.JSON))["helps"]
    assert len(told) == len(HELPS[sql])
    assert all(text.startswith(words) for text, words in zip(told, HELPS[sql], strict=True))


def test_no_larger_epsilon_helps_at_the_most(proxy: Proxy) -> None:
    sql = "SELECT COUNT(*) AS n FROM customers"
    most = proxy.explain(replace(request(sql), epsilon=Decimal(10)))
    assert not any(isinstance(p.change, LargerEpsilon) for p in most.outlook.proposals)


# --- forms ---


def test_the_short_form_has_what_matters(proxy: Proxy) -> None:
    text = plan_text(plan(proxy, BY_CITY))
    for words in ("Charge: ε = 1", "Groups: city: private keys", "n       INTEGER", "± at 95 %"):
        assert words in text
    for words in ("Told with the answer:\n  - customers", "What would help:\n  - ε = 10"):
        assert words in text
    assert "SELECT" not in text
    assert "Linf" not in text


def test_the_long_form_has_everything_more(proxy: Proxy) -> None:
    shown = plan(proxy, BY_CITY)
    text = plan_text(shown, "long")
    assert text.startswith(plan_text(shown))
    for words in ("Measured: sum of amount", "(Linf)", "SQL for the database:", "Outer query"):
        assert words in text
    (block,) = shown.blocks
    after = text.split("SQL for the database:")[1].split("Outer query")[0]
    assert "".join(after.split()) == "".join(block.sql.split())


@pytest.mark.parametrize("width", [50, 80])
@pytest.mark.parametrize("sql", [BY_CITY, BY_SEGMENT])
def test_text_keeps_to_the_width(proxy: Proxy, sql: str, width: int) -> None:
    text = plan_text(plan(proxy, sql), PlanForm.LONG, width=width)
    prose = text.split("SQL for the database:")[0]
    assert max(map(len, prose.splitlines())) <= width
    assert not [line for line in prose.splitlines() if line.strip() == "%"]
    brief = plan_text(plan(proxy, sql), width=width, door=COMMAND_LINE)
    assert max(map(len, brief.splitlines())) <= width


def test_json_says_what_the_documentation_says(proxy: Proxy) -> None:
    shown = plan(proxy, BY_SEGMENT)
    said = json.loads(plan_text(shown, "json"))
    page = (Path(dpsql.__file__).parent / "docs" / "commands.md").read_text(encoding="utf-8")
    assert [key for key in said if f"`{key}`" not in page] == []
    assert said["version"] == 1
    assert said["charge"]["amount"] == shown.charge.amount / 10**9
    assert said["columns"][0] == {
        "name": "segment",
        "type": "VARCHAR",
        "margin": None,
        "exact": True,
        "forecast": None,
    }
    assert [column["exact"] for column in said["columns"]] == [True, False, False]
    (block,), (release,) = shown.blocks, said["releases"]
    assert release["sql"] == block.sql
    assert [line["output"] for line in release["measurements"]] == [
        r.output for r in block.releases
    ]
    assert [line["output"] for line in release["choices"]] == [c.output for c in block.choices]
    assert said["outer_sql"] == shown.outer_sql


@pytest.mark.full("takes half a second and more")
def test_a_number_without_an_end_is_null() -> None:
    line = ChoiceLine("x", "y", 2, 1, 1, "exponential", "ε = 1", None, inf)
    (block,) = EXPLANATION.blocks
    endless = replace(EXPLANATION, blocks=(replace(block, choices=(line,)),))
    (release,) = json.loads(plan_text(endless, "json"))["releases"]
    assert (release["choices"][0]["reach"], release["choices"][0]["expected"]) == (None, None)


# --- doors ---


FORMS = {
    "EXPLAIN PRIVACY": PlanForm.SHORT,
    "EXPLAIN PRIVACY VERBOSE": PlanForm.LONG,
    "EXPLAIN PRIVACY (FORMAT JSON)": PlanForm.JSON,
}


@pytest.mark.parametrize("prefix", FORMS)
def test_a_refused_explain_keeps_its_places_and_offers_an_explain(
    proxy: Proxy, prefix: str
) -> None:
    sql = f"{prefix} SELECT COUNT(*) AS n FROM ordes"
    for refuses in (proxy.ask, proxy.explain, lambda asked: proxy.run(ColumnsOf(asked))):
        with pytest.raises(Refused) as caught:
            refuses(request(sql))
        refused = caught.value
        assert sql[refused.span.start : refused.span.stop] == "ordes"
        assert refused.offer is not None
        assert refused.offer.sql == sql.replace("ordes", "orders")


@pytest.mark.full("opens servers or connects clients")
@pytest.mark.parametrize("prefix", FORMS)
def test_the_wire_shows_the_form_that_is_asked_for(
    client: Client, proxy: Proxy, prefix: str
) -> None:
    client.query(f"{prefix} {BY_CITY}")
    text = "\n".join(row[0] or "" for row in client.rows)
    expected = plan_text(plan(proxy, BY_CITY), FORMS[prefix])
    if FORMS[prefix] is PlanForm.JSON:
        assert len(client.rows) == 1
        assert json.loads(text) == json.loads(expected)
    else:
        assert text.splitlines()[0] == expected.splitlines()[0]
        assert ("SQL for the database:" in text) == (FORMS[prefix] is PlanForm.LONG)
    if FORMS[prefix] is PlanForm.SHORT:
        assert "SET dpsql.epsilon = 10" in text
        assert "EXPLAIN PRIVACY VERBOSE shows" in text


@pytest.mark.full("opens servers or connects clients")
def test_the_driver_shows_the_form_that_is_asked_for(tmp_path: Path) -> None:
    with dpsql.connect(str(shop(tmp_path)), analyst="ana") as connection:
        cursor = connection.cursor()
        shown = cursor.explain(BY_SEGMENT)
        for prefix, form in FORMS.items():
            rows = cursor.execute(f"{prefix} {BY_SEGMENT}").fetchall()
            assert "\n".join(row[0] for row in rows).strip() == plan_text(shown, form).strip()
        assert cursor.explain(f"EXPLAIN PRIVACY VERBOSE {BY_SEGMENT}").form is PlanForm.LONG
