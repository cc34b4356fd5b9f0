"""What a notebook sees: results as HTML, what there is, what is left, and prices by statement."""

from __future__ import annotations

import logging
import re
from dataclasses import replace
from decimal import Decimal
from html.parser import HTMLParser
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import dpsql
from dpsql.interfaces.dbapi import Connection, connect
from dpsql.interfaces.html_tables import notes_html, table_html
from dpsql.interfaces.pictures.terminal_chart import picture
from dpsql.model.query_options import Precision
from dpsql.model.tree import DOUBLE, VARCHAR
from dpsql.model.vocabulary import Answer, Column
from dpsql.proxy import Proxy
from grammar_tests import proxy_kit
from grammar_tests.fakes import ANSWER, FakeProxy


def connected(proxy: FakeProxy) -> Connection:
    fake: Any = proxy
    return connect(proxy=fake)


class Tags(HTMLParser):
    """The tags and the texts of a page, as a browser reads them."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.texts: list[str] = []
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.tags.append(tag)
        assert all(name in ("style", "class") for name, _ in attrs)

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


# --- results ---


def test_a_result_is_a_table_with_its_notices_and_its_cost() -> None:
    cursor = connected(FakeProxy()).execute("SELECT 1")
    page = cursor._repr_html_()
    assert page is not None
    assert re.search(r"<td[^>]*>1,234 ± 40</td>", page)
    assert '<p class="note">cost: ε = 0.1' in page
    assert cursor.fetchone() == ANSWER.rows[0]
    cursor.close()
    assert cursor._repr_html_() is None
    assert connected(FakeProxy()).cursor()._repr_html_() is None


def test_a_result_is_drawn(tmp_path: Any) -> None:
    cursor = connected(FakeProxy()).execute("SELECT 1")
    drawing = cursor.plot()
    assert repr(drawing) == picture(ANSWER)
    assert drawing._repr_svg_().startswith("<svg ")
    drawing.save(tmp_path / "n.svg")
    with pytest.raises(ValueError, match="SVG or PNG"):
        drawing.save(tmp_path / "n.pdf")
    assert (tmp_path / "n.svg").read_text(encoding="utf-8") == drawing._repr_svg_()
    with pytest.raises(dpsql.InterfaceError):
        connected(FakeProxy()).cursor().plot()


def of_one(header: str, value: str) -> Answer:
    return Answer((Column(header, VARCHAR),), ((value,),), ((None,),), ((None,),))


@pytest.mark.full("measures neighbours or further data sets")
@given(st.text(), st.text())
def test_no_value_is_markup(header: str, value: str) -> None:
    shown = Tags(table_html(of_one(f"<b>{header}", f"<script>{value}</td>&amp;")))
    assert shown.tags == ["table", "thead", "tr", "th", "tbody", "tr", "td"]
    assert Tags("\n".join(notes_html([f"<img src=x>{value}"]))).tags == ["p"]


def test_wrong_twin_a_bare_value_would_be_seen() -> None:
    page = table_html(of_one("a", "b")).replace(">b<", "><script>b<")
    assert "script" in Tags(page).tags


def test_no_digit_is_beyond_the_error_and_many_rows_are_cut() -> None:
    count, unclear = 500, float("nan")
    rows = ((1214.10498046875,),) * count
    answer = Answer((Column("n", DOUBLE),), rows, ((unclear,),) * count, ((unclear,),) * count)
    page = table_html(answer, 200)
    assert "1,214 ± ?" in page
    assert page.count("<td") == 200
    assert "300 more rows" in page
    assert page.count("± ?:") == 1
    fine = replace(answer, margins=((40.0,),) * count)
    assert "1,214 ± 40" in table_html(fine, 1)
    assert "± ?:" not in table_html(fine, 1)


# --- what there is ---


@pytest.mark.full("starts processes")
def test_what_there_is_and_what_is_left(tmp_path: Any) -> None:
    with (
        Proxy.open(str(proxy_kit.shop(tmp_path))) as proxy,
        connect(proxy=proxy, analyst="ana") as connection,
    ):
        assert connection.tables().fetchall() == connection.execute("SHOW TABLES").fetchall()
        described = connection.execute("DESCRIBE orders").fetchall()
        assert connection.columns("Orders").fetchall() == described
        with pytest.raises(dpsql.ProgrammingError, match=r"Did you mean orders\?"):
            connection.columns("ordes")
        with pytest.raises(dpsql.ProgrammingError, match="unknown-table"):
            connection.columns("orders; DROP")
        assert connection.history().fetchall() == []
        named: Any = {"age": 40, "segment": "consumer"}
        sql = "SELECT COUNT(*) AS n FROM customers WHERE age > :age AND segment = :segment"
        answer = connection.execute(sql, named, epsilon="0.05")
        receipt = answer.receipt
        assert receipt is not None
        assert receipt.epsilon == Decimal("0.05")
        ((query_id, _, _, epsilon, *_),) = connection.history().fetchall()
        assert (query_id, epsilon) == (receipt.query_id, Decimal("0.05"))
        budget = connection.budget()
        assert (budget.description or ())[0][0] == "budget"
        shown = budget._repr_html_() or ""
        assert "per_cent_spent" in shown
        assert not re.search(r"\.\d*00<", shown)
        assert connection.explain(sql, named, within=40).epsilon != Decimal("0.05")


def test_the_module_shows_what_it_has() -> None:
    assert dir(dpsql) == sorted(dpsql.__all__)
    assert "connect" in dir(dpsql)


# --- what is said of a statement ---


def test_a_price_or_an_error_for_one_statement() -> None:
    proxy = FakeProxy()
    connection = connected(proxy)
    connection.execute("SELECT 1", within="5%", confidence="0.9")
    connection.execute("SELECT 1", within=100)
    connection.execute("SELECT 1", epsilon=Decimal("0.2"))
    relative, absolute, priced = proxy.requests
    assert relative.precision == Precision(Decimal("0.05"), True, Decimal("0.9"))
    assert absolute.precision == Precision(Decimal(100))
    assert (priced.epsilon, priced.precision) == (Decimal("0.2"), None)


@pytest.mark.parametrize(
    "options",
    [
        {"epsilon": 0.1 + 0.2},
        {"epsilon": "x"},
        {"within": 1 / 3},
        {"within": True},
        {"within": "much"},
        {"within": "-5%"},
        {"within": 5, "confidence": "2"},
        {"confidence": "0.9"},
    ],
)
def test_what_is_no_exact_number_asks_nothing(options: Any) -> None:
    proxy = FakeProxy()
    with pytest.raises(dpsql.ProgrammingError):
        connected(proxy).execute("SELECT 1", **options)
    assert not proxy.requests


def test_named_parameters_stand_where_their_names_do() -> None:
    proxy = FakeProxy()
    sql = "SELECT ':a', x::DATE FROM t WHERE a = :a AND b = :b AND c = :a"
    connected(proxy).execute(sql, {"a": 1, "b": [2]})
    (request,) = proxy.requests
    assert request.sql == "SELECT ':a', x::DATE FROM t WHERE a = ?  AND b = ?  AND c = ? "
    assert request.parameters == (1, (2,), 1)


@pytest.mark.parametrize(
    ("sql", "named"),
    [
        ("SELECT :a", {}),
        ("SELECT :a", {"a": 1, "b": 2}),
        ("SELECT a", {"a": 1}),
        ("SELECT '", {"a": 1}),
    ],
)
def test_a_name_without_its_value_asks_nothing(sql: str, named: dict[str, int]) -> None:
    proxy = FakeProxy()
    with pytest.raises(dpsql.ProgrammingError):
        connected(proxy).execute(sql, named)
    assert not proxy.requests


def test_what_was_paid_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, logger="dpsql"):
        connected(FakeProxy()).execute("SELECT 'secret'")
    assert [record.message[:15] for record in caplog.records] == ["cost: ε = 0.1 ("]
