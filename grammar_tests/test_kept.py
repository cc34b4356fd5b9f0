"""What is kept in memory: bounded, and never kept longer than the ledger stands by it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from dpsql.ledgers.sqlite import SqliteLedger
from dpsql.model.bounded_cache import BoundedCache
from dpsql.model.errors import LedgerError
from dpsql.proxy import Proxy
from grammar_tests import world
from grammar_tests.ledger_kit import ask, raw
from grammar_tests.proxy_kit import BY_COUNTRY, request, shop, watched


def test_the_oldest_is_forgotten_and_the_heavy_is_not_kept() -> None:
    kept = BoundedCache[str](4, len)
    for key in ("aa", "b", "c"):
        kept.put(key, key)
    kept.put("dd", "dd")
    assert [kept.get(key) for key in ("aa", "b", "c", "dd")] == [None, "b", "c", "dd"]
    kept.put("eeeee", "eeeee")
    assert kept.get("eeeee") is None
    kept.put("b", "bb")
    assert (kept.get("b"), kept.get("c")) == ("bb", None)


def test_a_stamp_changes_with_every_entry_and_with_every_edit(tmp_path: Path) -> None:
    path = tmp_path / "ledger"
    ledger, other = (SqliteLedger.open(str(path)) for _ in range(2))
    stamps = [ledger.stamp()]
    assert ledger.stamp() == stamps[0] == other.stamp()
    ask(ledger)
    stamps.append(ledger.stamp())
    other.refresh()
    stamps.append(ledger.stamp())
    with raw(path) as opened:
        opened.execute("CREATE TABLE edited (x)")
    stamps.append(ledger.stamp())
    os.utime(path.with_name("ledger.mark"), (1, 1))
    stamps.append(ledger.stamp())
    assert len(set(stamps)) == len(stamps)
    ledger.close()
    with pytest.raises(LedgerError):
        ledger.stamp()


@pytest.mark.full("opens a proxy for each item")
def test_a_remembered_answer_is_finished_once(tmp_path: Path) -> None:
    proxy, engine = watched(shop(tmp_path), Proxy)
    with proxy:
        paid = proxy.ask(request(BY_COUNTRY))
        first = proxy.ask(request(BY_COUNTRY))
        engine.calls.clear()
        again = proxy.ask(request(BY_COUNTRY))
        assert engine.calls == []
        assert again == first
        assert (again.rows, again.margins) == (paid.rows, paid.margins)
        proxy.ask(request("SELECT COUNT(*) FROM customers"))
        engine.calls.clear()
        later = proxy.ask(request(BY_COUNTRY))
        assert engine.calls == []
        assert later.rows == paid.rows
        assert later.receipt is not None
        assert first.receipt is not None
        assert later.receipt.spent.amount > first.receipt.spent.amount


@pytest.mark.full("draws random questions or values")
def test_after_a_refresh_by_another_process_it_is_asked_anew(tmp_path: Path) -> None:
    path = shop(tmp_path)
    proxy, engine = watched(path, Proxy)
    with proxy:
        for _ in range(3):
            proxy.ask(request(BY_COUNTRY))
        SqliteLedger.open(str(path.with_name("shop.ledger"))).refresh()
        engine.calls.clear()
        answer = proxy.ask(request(BY_COUNTRY))
        assert engine.private()
        assert answer.receipt is not None
        assert not answer.receipt.remembered


@pytest.mark.full("draws random questions or values")
def test_what_one_analyst_paid_for_is_not_told_to_another(tmp_path: Path) -> None:
    with Proxy.open(str(shop(tmp_path))) as proxy:
        for _ in range(3):
            proxy.ask(request(BY_COUNTRY))
        theirs = proxy.ask(request(BY_COUNTRY, None, "bob"))
        assert theirs.receipt is not None
        assert not theirs.receipt.remembered


@pytest.mark.full("draws random questions or values")
def test_errors_are_those_of_the_noise_that_was_drawn(tmp_path: Path) -> None:
    """The same two sums, whose budget another query splits otherwise: another question."""
    both = "SELECT AVG(income) AS a, COUNT(income) AS n FROM customers"
    whole, part = f"{both} WHERE age > 20", "SELECT AVG(income) AS a FROM customers WHERE age > 20"
    with Proxy.open(str(shop(tmp_path))) as proxy:
        proxy.ask(request(whole))
        alone = proxy.ask(request(part))
        assert alone.receipt is not None
        assert not alone.receipt.remembered
        assert alone.receipt.charged.amount > 0


@pytest.mark.full("opens a proxy for each item")
def test_keys_shown_by_trial_are_not_keys_with_their_counts(tmp_path: Path) -> None:
    """Both look at the same count of units: one shows nothing of it, the other releases it."""
    keys = "SELECT device FROM events GROUP BY device"
    counts = "SELECT device, COUNT(DISTINCT customer_id) AS n FROM events GROUP BY device"
    other = 'accountant = "zcdp"', 'accountant = "approximate"'
    with Proxy.open(str(shop(tmp_path, other, tables=many_units()))) as proxy:
        for asked in (keys, counts):
            answer = proxy.ask(request(asked, "5"))
            assert answer.receipt is not None
            assert not answer.receipt.remembered
            assert len(answer.rows) == 1


def many_units() -> world.Tables:
    """So many units with the same device that its key is certainly shown."""
    units = range(1, 401)
    customers = [world.customer(n) for n in units]
    return {
        **world.empty(), "customers": customers, "events": [(n, n, "phone", 1) for n in units],
    }  # fmt: skip


@pytest.mark.full("opens a proxy for each item")
def test_another_spelling_with_the_same_split_is_the_same_question(tmp_path: Path) -> None:
    with Proxy.open(str(shop(tmp_path))) as proxy:
        first = proxy.ask(request("SELECT AVG(income) AS a FROM customers WHERE age > 20"))
        again = proxy.ask(
            request("SELECT round(AVG(income), 1) AS m FROM customers WHERE 20 < age")
        )
        assert again.receipt is not None
        assert again.receipt.remembered
        assert again.rows[0][0] == round(first.rows[0][0], 1)
        assert again.margins[0][0] == pytest.approx(first.margins[0][0], rel=0.1)
