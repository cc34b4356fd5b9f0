"""`dpsql report`: it says what the ledger has, for the period, and contains nothing else."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from dpsql.answering.any_statement import ColumnsOf
from dpsql.engines import Stop
from dpsql.interfaces.cli import main
from dpsql.ledgers.refusal_counts import Counts, add_refusals, read_refusals, refusals_path
from dpsql.ledgers.sqlite import SqliteLedger
from dpsql.model.errors import LedgerError, Refused
from dpsql.model.vocabulary import Answer, Request
from dpsql.owner import query_costs
from dpsql.proxy import Proxy
from grammar_tests.proxy_kit import policy, request, shop

BY_CITY = "SELECT city, COUNT(*) FROM customers GROUP BY city"
JOINED = (
    "SELECT SUM(amount) FROM orders JOIN customers ON customer_id = customers.id WHERE age > 30"
)


@pytest.fixture(scope="module")
def asked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A policy whose ledger has three queries of two analysts, and a raised limit."""
    folder = tmp_path_factory.mktemp("asked") / "shop"
    file = shop(folder)
    policy(folder)
    with Proxy.open(str(file)) as proxy:
        proxy.ask(request(BY_CITY))
        proxy.ask(Request("SELECT AVG(age) FROM customers", "bob", door="<b>wire</b>"))
        proxy.ask(request("SELECT COUNT(*) FROM orders WHERE amount > 10"))
    policy(folder, ("epsilon = 1000.0", "epsilon = 2000.0"))
    confirmed = CliRunner().invoke(
        main, ["budget", "--policy", str(file), "confirm", "--reason", "a longer study"]
    )
    assert confirmed.exit_code == 0
    return file


def report(file: Path, *options: str, since: int = -1, until: int = 1) -> Result:
    """The report from so many days before or after today to so many."""
    today = datetime.now(UTC)
    days = [f"{today + timedelta(days=days):%Y-%m-%d}" for days in (since, until)]
    return CliRunner().invoke(
        main, ["report", "--policy", str(file), "--from", days[0], "--to", days[1], *options]
    )


def document(file: Path, **period: int) -> dict[str, Any]:
    told = report(file, "--format", "json", **period)
    assert told.exit_code == 0, told.stderr
    return json.loads(told.stdout)  # type: ignore[no-any-return]


@pytest.mark.full("measures neighbours or further data sets")
def test_it_says_who_asked_and_what_it_cost(asked: Path) -> None:
    found = document(asked)
    assert [(row["analyst"], row["charges"]) for row in found["analysts"]["rows"]] in (
        [("ana", "2"), ("bob", "1")],
        [("bob", "1"), ("ana", "2")],
    )
    assert {r["table"]: r["charges"] for r in found["tables"]["rows"]} == {
        "customers": "2",
        "orders": "1",
    }
    columns = {row["column"]: row["charges"] for row in found["columns"]["rows"]}
    assert columns == {"customers.city": "1", "customers.age": "1", "orders.amount": "1"}
    assert len(found["sums"]["rows"]) == 1
    assert (
        found["sums"]["rows"][0]["in this period"]
        == (found["sums"]["rows"][0]["since the first entry"])
    )


@pytest.mark.full("opens a proxy for each item")
def test_it_says_what_is_promised_changed_and_verified(asked: Path) -> None:
    found = document(asked)
    (promise,) = found["promises"]["rows"]
    assert (promise["limit"], promise["ε"], promise["renews"]) == (
        "budget default",
        "2000",
        "never",
    )
    *_, change = found["changes"]["rows"]
    assert change["reason"] == "a longer study"
    assert (change["before"], change["now"]) == ("ε = 1000", "ε = 2000")
    assert (promise["used"], promise["left"]) == ("0.1 %", "99.9 %")
    with Proxy.open(str(asked)) as proxy:
        last, digest = proxy.ledger.verify()
    verified, compared, entries = found["record"]["texts"]
    assert verified == f"Yes: the ledger was verified up to entry {last:,}, with the hash {digest}."
    assert "compared them with the hashes in the ledger" in compared
    assert "two entries: the charge, and the hash of its answer" in entries
    for title in (
        "ana was charged most",
        "ana was charged most often (2 times).",
        "budget default: limit changed from ε = 1000 to ε = 2000 (a longer study).",
        "Promised, whatever is asked (a smaller ε is stricter): budget default (ε = 2000, ",
        "The record is whole:",
        "The data: the duckdb file ",
        "add both names where you file it.",
    ):
        assert any(title in text for text in found["summary"]["texts"])


@pytest.mark.full("measures neighbours or further data sets")
def test_it_is_of_its_period_alone(asked: Path) -> None:
    early = "before its period was over: what came later is missing."
    for until, is_early in ((1, True), (-5, False)):
        *_, made = document(asked, since=-9, until=until)["summary"]["texts"]
        assert re.search(r"made this report on \d{4}-\d\d-\d\d at \d\d:\d\d \(UTC\)", made)
        assert (early in made) == is_early
    for period in ({"since": 5, "until": 9}, {"since": -9, "until": -5}):
        found = document(asked, **period)
        assert found["analysts"]["rows"] == found["tables"]["rows"] == []
        assert found["changes"]["rows"] == []
        assert "Nobody was charged." in found["summary"]["texts"]
    assert report(asked, since=1, until=1).exit_code == 2


@pytest.mark.full("opens servers or connects clients")
def test_the_page_has_no_scripts_and_escapes_what_it_shows(asked: Path) -> None:
    page = report(asked).stdout
    assert page.startswith("<!DOCTYPE html>")
    assert page.endswith("</html>\n")
    assert "<script" not in page
    assert not re.search(r"\b(src|href|on\w+)=", page)
    assert "&lt;b&gt;wire&lt;/b&gt;" in page
    assert "<b>" not in page
    for title in ("In short", "What is promised", "Is the record whole?", "after a person"):
        assert title in page


@pytest.mark.full("measures neighbours or further data sets")
def test_a_ledger_that_is_not_verified_has_no_report(
    asked: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_ledger: Any) -> None:
        raise LedgerError("The ledger was edited.")

    monkeypatch.setattr(SqliteLedger, "verify", refuse)
    told = report(asked)
    assert (told.exit_code, told.stdout) == (5, "")


def test_costs_that_forget_a_table_of_a_join_are_found(
    asked: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Proxy.open(str(asked)) as proxy:
        (entry, *_) = proxy.ledger.history(None, 1)
        joined = replace(entry, inquiry=replace(entry.inquiry, sql=JOINED))
        other = replace(entry, inquiry=replace(entry.inquiry, sql="SELECT predict("))
        costs, columns = query_costs.costs_by_source([joined, other], proxy.policy)
        names = {name for _, name in costs.queries}
        assert names == {"customers", "orders", query_costs.UNREAD}
        assert {"orders.amount", "customers.age"} <= {name for _, name in columns.queries}
        monkeypatch.setattr(query_costs, "_nodes", lambda query: [query.source])
        wrong, _ = query_costs.costs_by_source([joined], proxy.policy)
        assert {name for _, name in wrong.queries} != {"customers", "orders"}


class WritesAtOnce(Proxy):
    """Wrong: a refused query writes."""

    def ask(self, request: Request, stop: Stop | None = None) -> Answer:
        try:
            return super().ask(request, stop)
        except Refused:
            self.write_refusals()
            raise


def check_refusals(folder: Path, kind: type[Proxy]) -> Counts:
    """What is counted of three refusals, after the process; nothing is written before its end."""
    file = shop(folder)
    ledger = str(file.with_name("shop.ledger"))
    with kind.open(str(file)) as proxy:
        for sql in ("SELECT * FROM customers", "SELECT * FROM orders", "SELECT"):
            with pytest.raises(Refused):
                proxy.ask(replace(request(sql), door="<i>wire</i>"))
            assert not Path(refusals_path(ledger)).exists()
        with pytest.raises(Refused):
            proxy.run(ColumnsOf(request("SELECT")))
    today = datetime.now(UTC).date()
    return read_refusals(ledger, today - timedelta(days=1), today)


@pytest.mark.full("opens a proxy, and the command another one")
def test_refusals_are_counted_when_the_process_ends(tmp_path: Path) -> None:
    assert check_refusals(tmp_path, Proxy) == {
        ("<i>wire</i>", "raw-rows"): 2,
        ("<i>wire</i>", "syntax-error"): 1,
        ("", "syntax-error"): 1,
    }
    file = tmp_path / "dpsql.toml"
    shown = document(file)
    assert "Refused: 4; most for syntax-error (2)." in shown["summary"]["texts"]
    assert next(tuple(row.values()) for row in shown["refusals"]["rows"]) == (
        *("raw-rows", "This would return private rows.", "<i>wire</i>", "2"),
    )
    assert "&lt;i&gt;wire" in report(file).stdout
    assert document(file, since=-9, until=-5)["refusals"]["rows"] == []


def test_wrong_twin_refusals_that_write_at_once(tmp_path: Path) -> None:
    with pytest.raises(AssertionError):
        check_refusals(tmp_path, WritesAtOnce)


def test_refusals_are_of_their_days(tmp_path: Path) -> None:
    ledger = str(tmp_path / "ledger")
    first, second = date(2026, 11, 1), date(2026, 11, 2)
    assert read_refusals(ledger, first, second) == {}
    for day, count in ((first, 2), (second, 3), (second, 4)):
        add_refusals(ledger, day, {("wire", "raw-rows"): count, ("http", "raw-rows"): 1})
    assert read_refusals(ledger, first, first) == {("wire", "raw-rows"): 2, ("http", "raw-rows"): 1}
    assert [*read_refusals(ledger, first, second).values()] == [9, 3]
    Path(refusals_path(ledger)).write_text("no database", "utf-8")
    add_refusals(ledger, first, {("wire", "raw-rows"): 1})
    assert read_refusals(ledger, first, second) == {}
