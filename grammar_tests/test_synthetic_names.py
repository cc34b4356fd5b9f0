"""Synthetic tables by name: made, asked, listed, dropped, and gone with their data."""

from __future__ import annotations

from collections import Counter
from math import isnan
from pathlib import Path
from typing import Any

import pytest

from dpsql.answering.paid_names import AS_THE_DATA
from dpsql.interfaces.dbapi import connect
from dpsql.interfaces.plan_text import plan_text
from dpsql.interfaces.sentences import sentences
from dpsql.interfaces.tables import table
from dpsql.model.errors import Reason, Refused
from dpsql.model.tree import PlanForm
from dpsql.model.vocabulary import Loss, Request
from dpsql.proxy import Proxy
from dpsql.systems.synthesis import synthetic_tables
from grammar_tests import proxy_kit
from grammar_tests.session_kit import Client
from grammar_tests.test_synthesis import proxy as proxy  # noqa: PLC0414 - a fixture
from grammar_tests.test_synthesis import spent

CREATE = "CREATE SYNTHETIC TABLE people AS SELECT segment, age FROM customers OPTIONS(epsilon = 2)"
OF_PEOPLE = "SELECT segment, COUNT(*) AS n, AVG(age) AS age FROM people GROUP BY segment"


@pytest.mark.full("starts processes")
def test_a_synthetic_table_is_asked_for_nothing_by_whom_the_charge_binds(proxy: Proxy) -> None:
    created = proxy.ask(Request(CREATE, "ana"))
    assert created.rows[0][0] == "people"
    assert created.receipt is not None
    assert created.receipt.charged > Loss(0)
    before, answer = spent(proxy), proxy.ask(Request(OF_PEOPLE, "ana"))
    assert sum(row[1] for row in answer.rows) == created.rows[0][1]
    assert answer.receipt is not None
    assert answer.receipt.query_id == created.receipt.query_id
    assert answer.receipt.remembered
    for row, margins in zip(answer.rows, answer.margins, strict=True):
        assert isinstance(row[0], str)
        assert [margin is not None and isnan(margin) for margin in margins] == [False, True, True]
    assert sentences(answer.notices, answer.columns)[-1].startswith("people is synthetic")
    *lines, what_it_means = table(answer, None).text.splitlines()
    assert "\n".join(lines).count("± ?") == 2 * len(answer.rows)
    assert what_it_means.startswith("± ?: ")
    with pytest.raises(Refused, match="unknown-table"):
        proxy.ask(Request(OF_PEOPLE, "bob"))
    mine, others = (connect(proxy=proxy, analyst=who) for who in ("ana", "bob"))
    (last,) = mine.tables().fetchall()[-1:]
    assert last[:2] == ("people", 2)
    assert last[2].startswith("synthetic: ")
    assert mine.columns("People").fetchall() == [
        ("segment", "VARCHAR", "synthetic"), ("age", "INTEGER", "synthetic")
    ]  # fmt: skip
    assert "people" not in {row[0] for row in others.tables().fetchall()}
    plan = proxy.explain(Request(OF_PEOPLE, "ana"))
    assert plan_text(plan).startswith("Synthetic tables only: at no cost.")
    assert spent(proxy) == before


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("SELECT COUNT(*) FROM people JOIN customers USING (age)",
         Reason.UNSUPPORTED_PRIVATE_OPERATOR),
        ("CREATE SYNTHETIC TABLE people AS SELECT vip FROM customers", Reason.BAD_OPTION),
        ("CREATE SYNTHETIC TABLE orders AS SELECT vip FROM customers", Reason.BAD_OPTION),
        ("CREATE SYNTHETIC TABLE s AS SELECT vip FROM customers OPTIONS(delta = 1)",
         Reason.BAD_OPTION),
        ("CREATE SYNTHETIC TABLE s AS SELECT vip FROM customers OPTIONS(epsilon = 11)",
         Reason.EPSILON_TOO_LARGE),
        ("CREATE SYNTHETIC TABLE s AS SELECT vip FROM customers OPTIONS(rows = 1.5)",
         Reason.BAD_OPTION),
        ("CREATE SYNTHETIC TABLE s SELECT vip FROM customers", Reason.SYNTAX),
        ("CREATE SYNTHETIC TABLE s AS OPTIONS(epsilon = 1)", Reason.SYNTAX),
        ("CREATE SYNTHETIC VIEW s AS SELECT 1", Reason.UNSUPPORTED_STATEMENT),
        ("SELECT synthetic FROM nothing", Reason.UNKNOWN_TABLE),
    ],
)  # fmt: skip
def test_what_is_no_synthetic_table_is_refused_free_of_charge(
    proxy: Proxy, text: str, reason: Reason
) -> None:
    proxy.ask(Request(CREATE, "ana"))
    before = spent(proxy)
    with pytest.raises(Refused) as refused:
        proxy.ask(Request(text, "ana"))
    assert refused.value.reason is reason
    assert spent(proxy) == before


def test_what_a_table_would_cost_is_explained_for_nothing(proxy: Proxy) -> None:
    text = CREATE.replace("segment, age", "vip, segment, age")
    before, plan = spent(proxy), proxy.explain(Request(text, "ana"))
    assert plan.charge > Loss(0)
    assert spent(proxy) == before
    lines = plan_text(plan).splitlines()
    assert lines[0].startswith("Charge: ε = 2 as one query")
    assert "Tables of 3 columns, and of 3 pairs of them out of 3" in " ".join(lines)
    receipt = proxy.ask(Request(text.replace("people", "three"), "ana")).receipt
    assert receipt is not None
    assert receipt.charged == plan.charge
    assert proxy.explain(Request(text, "ana")).remembered
    assert plan_text(plan, PlanForm.JSON)


@pytest.mark.full("opens servers or connects clients")
def test_a_session_makes_a_table_and_asks_it(proxy: Proxy) -> None:
    session = Client(proxy)
    assert session.query(CREATE).endswith("CZ")
    assert session.rows[0][0] == "people"
    session.query("CREATE SYNTHETIC TABLE s AS SELECT customer_id FROM customers")
    assert session.error["C"] == "42501"
    assert "P" not in session.error  # no place of a text that nobody wrote
    session.query(f"{OF_PEOPLE} ORDER BY segment")
    assert {row[0] for row in session.rows} <= {"business", "consumer"}
    assert any(b"synthetic" in notice for notice in session.of(b"N"))


@pytest.mark.full("starts processes")
def test_the_catalogue_has_the_tables_of_the_analyst_alone(proxy: Proxy) -> None:
    tables = "SELECT table_name FROM information_schema.tables WHERE table_schema = 'public'"
    columns = (
        "SELECT column_name, data_type FROM information_schema.columns"
        " WHERE table_name = 'first' ORDER BY ordinal_position"
    )
    about = "SELECT obj_description(oid, 'pg_class') FROM pg_class WHERE relname = 'second'"
    session, own = Client(proxy), {("first",), ("second",)}
    session.query(tables)
    before = set(session.rows)
    for name in ("first", "second"):  # the second is free: the ledger does not change
        session.query(CREATE.replace("people", name))
        session.query(tables)
        before |= {(name,)}
        assert set(session.rows) == before
    session.query(columns)
    assert session.rows == [("segment", "text"), ("age", "bigint")]
    session.query(about)
    assert str(session.rows[0][0]).startswith("synthetic: ")
    mine, others = (connect(proxy=proxy, analyst=who).cursor() for who in ("ana", "bob"))
    assert set(mine.execute(tables).fetchall()) == before
    assert not own & set(others.execute(tables).fetchall())


@pytest.mark.full("starts processes")
def test_the_name_that_was_paid_for_lasts_as_long_as_the_data(tmp_path: Path) -> None:
    path = proxy_kit.shop(tmp_path)
    with Proxy.open(str(path)) as first:
        created = first.ask(Request(CREATE, "ana"))
        again = first.ask(Request(CREATE.replace("people", "others"), "ana"))
        assert created.rows[0][2] == again.rows[0][2] == AS_THE_DATA
        answer = first.ask(Request(OF_PEOPLE, "ana"))
    with Proxy.open(str(path)) as later:
        of_others = Request(OF_PEOPLE.replace("people", "others"), "ana")
        assert Counter(later.ask(of_others).rows) == Counter(answer.rows)  # in any order
        assert list(later.ask(Request("DROP SYNTHETIC TABLE others", "ana")).rows) == [("others",)]
        for gone in (of_others, Request("DROP SYNTHETIC TABLE others", "ana")):
            with pytest.raises(Refused, match="unknown"):
                later.ask(gone)
        assert later.ask(Request(CREATE, "ana")).rows[0][2] == AS_THE_DATA
        before = spent(later)
        assert Counter(later.ask(Request(OF_PEOPLE, "ana")).rows) == Counter(answer.rows)
        assert spent(later) == before
        later.refresh()
        with pytest.raises(Refused, match="unknown-table"):
            later.ask(Request(OF_PEOPLE, "ana"))
        assert later.own_tables("ana") == ()
        another = CREATE.replace("segment, ", "")
        assert later.ask(Request(another, "ana")).rows[0][2] == AS_THE_DATA


SWAPPED = "CREATE SYNTHETIC TABLE t AS SELECT age AS {}, income AS {} FROM customers"


def swapped(proxy: Proxy) -> list[tuple[Any, ...]]:
    """The largest values of t, before and after it is made anew with its names the other way."""
    largest = list[tuple[Any, ...]]()
    for names in ("ab", "ba"):
        proxy.ask(Request(SWAPPED.format(*names), "ana"))
        largest += proxy.ask(Request("SELECT MAX(a) AS a, MAX(b) AS b FROM t", "ana")).rows
        proxy.ask(Request("DROP SYNTHETIC TABLE t", "ana"))
    return largest


@pytest.mark.full("opens a proxy for each item")
def test_another_table_of_the_same_name_has_its_own_columns(proxy: Proxy) -> None:
    (age, income), (first, second) = swapped(proxy)
    assert age < 200 < income
    assert second < 200 < first


def test_wrong_twin_a_table_is_known_by_its_name_alone(
    proxy: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(synthetic_tables._Named, "identity", property(lambda _: ("t",)))
    before, after = swapped(proxy)
    assert before == after


@pytest.mark.full("starts processes")
@pytest.mark.parametrize("broken", [False, True])
def test_what_another_process_makes_of_a_name_is_seen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, broken: bool
) -> None:
    """The wrong twin's ledger never says that it changed."""
    path = str(proxy_kit.shop(tmp_path))
    with Proxy.open(path) as server, Proxy.open(path) as other:
        server.ask(Request(CREATE, "ana"))
        answer = server.ask(Request(OF_PEOPLE, "ana"))
        if broken:
            monkeypatch.setattr(type(server.vault.ledger), "stamp", lambda *_: 1)
            server.ask(Request(OF_PEOPLE, "ana"))
        assert other.ask(Request(OF_PEOPLE, "ana")).columns == answer.columns
        other.ask(Request("DROP SYNTHETIC TABLE people", "ana"))
        if broken:
            assert server.ask(Request(OF_PEOPLE, "ana")).rows
            return
        with pytest.raises(Refused, match="unknown-table"):
            server.ask(Request(OF_PEOPLE, "ana"))
        other.ask(Request(CREATE.replace("segment, age", "vip, age"), "ana"))
        columns = server.own_tables("ana")[0].columns
        assert [column.name for column in columns] == ["vip", "age"]
        assert server.ask(Request("SELECT COUNT(vip) AS n FROM people", "ana")).rows
