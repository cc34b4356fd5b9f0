"""What an analyst may rely on and an attacker must not break, on the real proxy.

Each check is a function of the kind of proxy, so that broken kinds can be shown to fail it.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from hashlib import sha256
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from dpsql.compiler.plan.prepared import Prepared
from dpsql.engines import Ending, EngineFailed, Stop
from dpsql.ledgers.sqlite import SqliteLedger
from dpsql.model.errors import Failed, Reason, Refused
from dpsql.model.vocabulary import Answer, Request
from dpsql.preparation.compilation import Compiler
from dpsql.preparation.question import Question
from dpsql.proxy import Proxy
from dpsql.vault.vault import Vault
from grammar_tests.ledger_kit import contents
from grammar_tests.proxy_kit import (
    BY_COUNTRY,
    QUOTING,
    SLOW,
    Kind,
    WatchedEngine,
    opened,
    policy,
    request,
    shop,
    watched,
)

THREE = (
    ('accountant = "zcdp"', 'accountant = "pure"'),
    ("epsilon = 1000.0\ndelta = 1e-3", "epsilon = 3.0\ndelta = 0.0"),
    ("query_delta = 1e-6\n", ""),
)
"""Under the pure accountant exactly three queries of epsilon 1."""
LIMIT = ("[limits]", "[limits]\nstatement_seconds = 1")
REFUSED = (
    "SELECT",
    "SELECT * FROM customers",
    "SELECT name FROM customers",
    "SELECT COUNT(*) FROM nowhere",
    "SELECT SUM(note_length) FROM orders",
    "SELECT COUNT(*) FROM customers TABLESAMPLE 10%",
    "SELECT COUNT(*) FROM customers; SELECT 1",
    "DELETE FROM customers",
    "SELECT customer_id, COUNT(*) FROM customers GROUP BY customer_id",
    "SELECT COUNT(*) FROM customers, customers AS other",
    "SELECT COUNT(*) FROM read_csv('x.csv')",
    "SET dpsql.epsilon = 100",
    "SET threads = 1",
    "SHOW TABLES",
    "DESCRIBE customers",
    "SUMMARIZE customers",
    "SELECT * FROM information_schema.tables",
    "SELECT * FROM pg_catalog.pg_class",
    "SELECT * FROM duckdb_tables()",
    "SELECT estimated_size FROM duckdb_tables",
    "PRAGMA storage_info('customers')",
)


def ledger_of(path: Path) -> Path:
    return path.with_name("shop.ledger")


def spent(path: Path) -> Any:
    """What a second connection to the ledger reads."""
    return SqliteLedger.open(str(ledger_of(path))).spent("default")


# --- broken proxies: each must fail the check that it is named in --------------------------------


class ChargesAfterRunning(Vault):
    def charged(self, compiler: Compiler, asked: Question, prepared: Prepared) -> Answer:
        self._released(prepared, self.engine, nullcontext(Ending()), asked.stop)
        return super().charged(compiler, asked, prepared)


class RefundsOnFailure(Vault):
    def charged(self, compiler: Compiler, asked: Question, prepared: Prepared) -> Answer:
        assert isinstance(self.ledger, SqliteLedger)
        path = Path(self.ledger._store.name)
        before = contents(path)
        try:
            return super().charged(compiler, asked, prepared)
        except Failed:
            for name, content in before.items():
                path.with_name(name).write_bytes(content)
            raise


class RemembersByText(Compiler):
    def prepared(self, asked: Question) -> Prepared:
        found = super().prepared(asked)
        return replace(found, question=sha256(asked.request.sql.encode()).hexdigest())


class ForgetsWhoAsked(Proxy):
    def ask(self, request: Request, stop: Stop | None = None) -> Answer:
        return super().ask(replace(request, analyst="ana"), stop)


class ChargesRefusals(Proxy):
    def ask(self, request: Request, stop: Stop | None = None) -> Answer:
        try:
            return super().ask(request, stop)
        except Refused:
            self.ledger.refresh()
            raise


class PassesErrorsOn(Vault):
    @staticmethod
    def _guarded(query_id: str, step: Callable[[], Any], *, charged: bool = True) -> Any:
        try:
            return step()
        except EngineFailed as error:
            raise Failed(query_id, charged=charged) from ValueError(f"secret: {error}")


# --- refusals --------------------------------------------------------------------------------


def refusal_leaves_traces(path: Path, kind: Kind) -> list[str]:
    """The refused texts that were answered, ran something private or touched the ledger."""
    proxy, engine = watched(path, kind)
    traces = []
    with proxy:
        proxy.ask(request(BY_COUNTRY))
        engine.calls.clear()
        for sql in REFUSED:
            before = contents(ledger_of(path))
            for step in (proxy.ask, proxy.explain):
                try:
                    step(request(sql))
                except Refused:
                    continue
                traces.append(sql)
            if engine.private() or contents(ledger_of(path)) != before:
                traces.append(sql)
    return traces


@pytest.mark.full("opens a proxy for each item")
def test_a_refusal_runs_nothing_and_writes_nothing(tmp_path: Path) -> None:
    assert refusal_leaves_traces(shop(tmp_path), Proxy) == []


def test_a_refusal_that_writes_would_be_seen(tmp_path: Path) -> None:
    assert refusal_leaves_traces(shop(tmp_path), ChargesRefusals)


@pytest.mark.full("opens a proxy for each item")
def test_nothing_raises_the_epsilon_above_the_policy(tmp_path: Path) -> None:
    with Proxy.open(
        str(shop(tmp_path, ("max_query_epsilon = 10.0", "max_query_epsilon = 2.0")))
    ) as proxy:
        for epsilon in ("2.01", "Infinity", "NaN", "0", "-1"):
            with pytest.raises(Refused) as caught:
                proxy.ask(request(BY_COUNTRY, epsilon))
            assert caught.value.reason in (Reason.EPSILON_TOO_LARGE, Reason.BAD_OPTION)
        options = "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = {}) COUNT(*) FROM customers"
        with pytest.raises(Refused) as caught:
            proxy.ask(request(options.format(3)))
        assert caught.value.reason is Reason.EPSILON_TOO_LARGE
        for written, asked in ((1.5, "2"), (2, "1.5")):
            answer = proxy.explain(request(options.format(written), asked))
            assert answer.epsilon == Decimal("1.5")


@pytest.mark.full("opens a proxy for each item")
def test_explain_writes_nothing_and_runs_nothing(tmp_path: Path) -> None:
    path = shop(tmp_path)
    proxy, engine = watched(path, Proxy)
    with proxy:
        before = contents(ledger_of(path))
        charge = proxy.explain(request(BY_COUNTRY)).charge
        proxy.ask(request(f"EXPLAIN PRIVACY {BY_COUNTRY}"))
        assert charge.amount > 0
        assert engine.private() == []
        assert contents(ledger_of(path)) == before
        proxy.ask(request(BY_COUNTRY))
        assert engine.private() != []
        assert contents(ledger_of(path)) != before


# --- the debit -------------------------------------------------------------------------------


def runs_before_its_debit(path: Path, kind: Kind) -> bool:
    """Whether a private statement reached the engine before the debit was on disk."""
    proxy, engine = watched(path, kind)
    seen: list[int] = []
    engine.before = lambda: seen.append(spent(path).amount)
    with proxy:
        proxy.ask(request(BY_COUNTRY))
    assert seen
    return min(seen) == 0


@pytest.mark.full("opens a proxy for each item")
def test_the_debit_is_durable_before_anything_runs(tmp_path: Path) -> None:
    assert not runs_before_its_debit(shop(tmp_path), Proxy)


def test_a_debit_after_running_would_be_seen(tmp_path: Path) -> None:
    assert runs_before_its_debit(shop(tmp_path), ChargesAfterRunning)


# --- failures after the debit ----------------------------------------------------------------


def _fail(engine: WatchedEngine, _proxy: Proxy) -> None:
    engine.instead = QUOTING


def _time_out(engine: WatchedEngine, _proxy: Proxy) -> None:
    engine.instead = SLOW


def _cancel(engine: WatchedEngine, proxy: Proxy) -> None:
    engine.instead = SLOW

    def keep_cancelling() -> None:
        engine.running.wait(30)
        while engine.instead:
            proxy.cancel()

    Thread(target=keep_cancelling, daemon=True).start()


def wrong_in_failure(path: Path, kind: Kind, trouble: Callable[..., None]) -> list[str]:
    """What a failure gave away or gave back."""
    proxy, engine = watched(path, kind)
    wrong = []
    with proxy:
        price = proxy.explain(request(BY_COUNTRY)).charge
        trouble(engine, proxy)
        with pytest.raises(Failed) as caught:
            proxy.ask(request(BY_COUNTRY))
        engine.instead = None
        failed = caught.value
        how = (failed.cancelled, failed.timed_out)
        if how != (trouble is _cancel, trouble is _time_out) or not failed.charged:
            wrong.append("says the wrong thing")
        if spent(path) != price:
            wrong.append("refunded")
    if failed.__cause__ is not None or "secret" in said(failed) or "name " in said(failed):
        wrong.append("quotes the engine")
    if failed.query_id not in str(failed):
        wrong.append("does not say which query")
    return wrong


def said(error: BaseException | None) -> str:
    """Everything an exception and those that hang on it say."""
    if error is None:
        return ""
    return f"{error.args} {error} " + said(error.__cause__) + said(error.__context__)


@pytest.mark.full("measures neighbours or further data sets")
@pytest.mark.parametrize("trouble", [_fail, _time_out, _cancel])
def test_a_failure_stays_charged_and_says_only_that(
    tmp_path: Path, trouble: Callable[..., None]
) -> None:
    changes = (LIMIT,) if trouble is _time_out else ()
    assert wrong_in_failure(shop(tmp_path, *changes), Proxy, trouble) == []


def test_a_refund_would_be_seen(tmp_path: Path) -> None:
    assert "refunded" in wrong_in_failure(shop(tmp_path), RefundsOnFailure, _fail)


def test_an_error_passed_on_would_be_seen(tmp_path: Path) -> None:
    assert "quotes the engine" in wrong_in_failure(shop(tmp_path), PassesErrorsOn, _fail)


# --- the same question -----------------------------------------------------------------------

FILTERED = "SELECT segment, SUM(age) AS t FROM customers WHERE age > 20 AND vip GROUP BY segment"
SAME = (
    FILTERED,
    FILTERED.replace(" ", "\n  ").lower(),
    FILTERED.replace("AS t", "AS other"),
    FILTERED.replace("age > 20 AND vip", "vip AND age > 20"),
    FILTERED.replace("age > 20", "20 < age"),
    FILTERED.replace("FROM customers", "FROM customers AS c"),
    FILTERED + " ORDER BY t DESC, segment LIMIT 10",
    FILTERED + " ORDER BY 2 LIMIT 1 -- a comment",
)
OTHER = (
    FILTERED.replace("20", "21"),
    FILTERED.replace("vip", "NOT vip"),
    FILTERED.replace("SUM", "AVG"),
    FILTERED.replace("segment", "country"),
)


def wrong_in_memory(path: Path, kind: Kind) -> list[str]:
    """Repetitions that cost or differ, and other questions that cost nothing."""
    wrong = []
    with opened(path, kind) as proxy:
        first = proxy.ask(request(FILTERED, "0.5"))
        for sql in SAME:
            again = proxy.ask(request(sql, "0.5"))
            if not _repeats(again) or not set(again.rows) <= set(first.rows):
                wrong.append(sql)
        if not _repeats(proxy.ask(request(FILTERED, "0.4"))):
            wrong.append("a smaller epsilon")
        wrong += [sql for sql in OTHER if _repeats(proxy.ask(request(sql, "0.5")))]
        if _repeats(proxy.ask(request(FILTERED, "0.5", "bob"))):
            wrong.append("another analyst")
        if _repeats(proxy.ask(request(FILTERED, "0.6"))):
            wrong.append("a larger epsilon")
        counted = "SELECT COUNT(*) FROM customers WHERE age > ?"
        proxy.ask(request(counted, None, "ana", 30))
        if _repeats(proxy.ask(request(counted, None, "ana", 40))):
            wrong.append("another parameter")
        proxy.refresh()
        if _repeats(proxy.ask(request(FILTERED, "0.5"))):
            wrong.append("refreshed data")
    return wrong


def _repeats(answer: Answer) -> bool:
    receipt = answer.receipt
    assert receipt is not None
    assert receipt.remembered == (receipt.charged.amount == 0)
    return receipt.remembered


@pytest.mark.full("measures neighbours or further data sets")
def test_only_the_same_question_is_free(tmp_path: Path) -> None:
    assert wrong_in_memory(shop(tmp_path), Proxy) == []


def test_a_memory_keyed_by_text_would_be_seen(tmp_path: Path) -> None:
    wrong = wrong_in_memory(shop(tmp_path), RemembersByText)
    assert SAME[2] in wrong
    assert "another parameter" in wrong


def test_a_memory_shared_by_analysts_would_be_seen(tmp_path: Path) -> None:
    assert "another analyst" in wrong_in_memory(shop(tmp_path), ForgetsWhoAsked)


@pytest.mark.full("measures neighbours or further data sets")
def test_a_changed_policy_charges_what_reads_the_change(tmp_path: Path) -> None:
    path, of_age = shop(tmp_path), "SELECT AVG(age) AS age FROM customers"
    wider = ("[0, 120]", "[0, 121]")
    for changes, free in (((), (False, False)), ((), (True, True)), ((wider,), (True, False))):
        with Proxy.open(str(policy(tmp_path, *changes))) as proxy:
            answers = [proxy.ask(request(sql)) for sql in (BY_COUNTRY, of_age)]
        assert (_repeats(answers[0]), _repeats(answers[1])) == free
    assert path.exists()


# --- the budget ------------------------------------------------------------------------------


@pytest.mark.full("opens a proxy for each item")
def test_an_exhausted_budget_says_what_is_left(tmp_path: Path) -> None:
    path = shop(tmp_path, *THREE)
    proxy, engine = watched(path, Proxy)
    with proxy:
        for n, epsilon in enumerate(("1", "1", "0.75")):
            proxy.ask(request(f"SELECT COUNT(*) FROM customers WHERE age > {n}", epsilon))
        before, calls = contents(ledger_of(path)), len(engine.private())
        with pytest.raises(Refused) as caught:
            proxy.ask(request("SELECT COUNT(*) FROM customers WHERE age > 9", "1"))
        assert caught.value.reason is Reason.BUDGET_EXHAUSTED
        left: Any = caught.value.facts["left"]
        assert Fraction(left.amount, proxy.budgets()[0][2].amount) == Fraction(1, 12)
        assert contents(ledger_of(path)) == before
        assert len(engine.private()) == calls
        proxy.ask(request("SELECT COUNT(*) FROM customers WHERE age > 9", "0.25"))
