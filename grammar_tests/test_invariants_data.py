"""What data must not decide, and what must hold when many ask at once, on the real proxy."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from functools import partial
from pathlib import Path
from threading import Barrier, Thread
from typing import Any

import numpy as np
import pytest

from dpsql import mechanisms
from dpsql.compiler.plan.prepared import Prepared
from dpsql.engines import Stop
from dpsql.engines.duckdb.duckdb_engine import DuckDBEngine
from dpsql.engines.pool import EnginePool
from dpsql.ledgers import Charge, Spent
from dpsql.ledgers.sqlite import SqliteLedger
from dpsql.mechanisms.entropy import Entropy
from dpsql.mechanisms.laws import Law
from dpsql.model.errors import Failed, Reason, Refused
from dpsql.model.vocabulary import Answer, Loss, Mechanism, Noise, Request
from dpsql.policy.load import load
from dpsql.preparation.explanation import Explanation, Outlook
from dpsql.preparation.prepare import prepare
from dpsql.proxy import Proxy
from dpsql.release.release import Sampler
from dpsql.vault.till import Till
from grammar_tests import world
from grammar_tests.draws import SYSTEM
from grammar_tests.ledger_kit import exit_code, forked
from grammar_tests.proxy_kit import (
    BY_COUNTRY,
    QUOTING,
    WatchedEngine,
    request,
    shape,
    shop,
    through,
    watched,
)

QUESTIONS = (
    BY_COUNTRY,
    "SELECT city, COUNT(*) AS n, AVG(income) AS mean FROM customers GROUP BY city",
    "SELECT SUM(amount) AS total, AVG(discount) AS mean FROM orders",
    "SELECT status, SUM(quantity) AS q FROM orders WHERE note = 'gift' GROUP BY status",
    "SELECT segment, SUM(income) / COUNT(*) AS each FROM customers GROUP BY 1 ORDER BY 2 LIMIT 1",
    "SELECT region, COUNT(*) AS n FROM customers JOIN countries ON country = code GROUP BY region",
    "SELECT device, SUM(duration) AS total FROM events GROUP BY device HAVING COUNT(*) > 3",
    "SELECT status, MEDIAN(quantity) AS mid, MAX(placed_at) AS last FROM orders GROUP BY status",
)
BY_AGE = "SELECT age, COUNT(*) AS n FROM customers GROUP BY age"
TWICE = (
    "SELECT age, SUM(CASE WHEN vip THEN 1 ELSE 0 END) AS a, COUNT(*) AS n FROM customers"
    " GROUP BY age"
)
THREE = (
    ('accountant = "zcdp"', 'accountant = "pure"'),
    ("epsilon = 1000.0\ndelta = 1e-3", "epsilon = 3.0\ndelta = 0.0"),
    ("query_delta = 1e-6\n", ""),
)
"""Under the pure accountant exactly three queries of epsilon 1."""
WORLDS: dict[str, tuple[world.Tables, bool]] = {
    "well-behaved": (world.well_behaved(), False),
    "adversarial": (world.adversarial(), False),
    "flood": (world.flood(), False),
    "empty": (world.empty(), False),
}


# --- neighbours and worlds -------------------------------------------------------------------


def control(proxy: Proxy) -> tuple[list[str], list[tuple[tuple[str, str], ...]], list[Any]]:
    """Everything about some answers that only text and policy may decide.

    An explanation as text: an expected error that depends on the data is NaN.
    """
    explained = [repr(proxy.explain(request(sql))) for sql in QUESTIONS]
    answers = [proxy.ask(request(sql)) for sql in QUESTIONS]
    return explained, [shape(answer) for answer in answers], [_receipt(a) for a in answers]


def _receipt(answer: Answer) -> Any:
    assert answer.receipt is not None
    return replace(answer.receipt, query_id="")


class PricesByData(Proxy):
    """Asks for less epsilon where there is more to see."""

    def explain(self, request: Request, stop: Stop | None = None) -> Explanation:
        rows = self.vault.engine.rows("SELECT COUNT(*) FROM customers")[0][0]
        return replace(super().explain(request, stop), charge=Loss(rows))


def differ(folder: Path, kind: type[Proxy]) -> bool:
    """Whether a neighbour is told apart by anything but noisy numbers and private keys."""
    found = []
    for name, without in (("here", None), ("there", 7)):
        with kind.open(str(shop(folder / name, without=without))) as proxy:
            found.append(control(proxy))
    return found[0] != found[1]


@pytest.mark.full("measures neighbours or further data sets")
def test_a_neighbour_is_told_apart_by_noise_alone(tmp_path: Path) -> None:
    assert not differ(tmp_path, Proxy)


@pytest.mark.full("opens a proxy for each item")
def test_a_price_by_data_would_be_seen(tmp_path: Path) -> None:
    assert differ(tmp_path, PricesByData)


@pytest.mark.full("further data sets, and all their neighbours")
def test_columns_and_charges_are_those_of_the_text_on_any_data(tmp_path: Path) -> None:
    found = []
    for name, (tables, constraints) in WORLDS.items():
        path = shop(tmp_path / name, tables=tables, constraints=constraints)
        with Proxy.open(str(path)) as proxy:
            found.append(control(proxy))
    assert all(other == found[0] for other in found)


@pytest.mark.full("further data sets, and all their neighbours")
def test_public_keys_are_complete_and_in_order_on_any_data(tmp_path: Path) -> None:
    for name, (tables, constraints) in WORLDS.items():
        path = shop(tmp_path / name, tables=tables, constraints=constraints)
        with Proxy.open(str(path)) as proxy:
            ages = [row[0] for row in proxy.ask(request(BY_AGE)).rows]
            assert ages == [*range(121), None], name
            countries = [row[0] for row in proxy.ask(request(BY_COUNTRY)).rows]
            assert countries == ["IT", "NO", "SE"], name


@pytest.mark.full("measures neighbours or further data sets")
def test_private_keys_come_in_order_of_key(tmp_path: Path) -> None:
    tables = world.empty()
    cities = ("Tromsø", "Bergen", None, "Oslo", "Arendal")
    tables["customers"] = [
        (*world.customer(unit)[:3], cities[unit % 5], *world.customer(unit)[4:])
        for unit in range(1, 1001)
    ]
    with Proxy.open(str(shop(tmp_path, tables=tables))) as proxy:
        answer = proxy.ask(request("SELECT city, COUNT(*) AS n FROM customers GROUP BY city"))
    assert [row[0] for row in answer.rows] == ["Arendal", "Bergen", "Oslo", "Tromsø", None]


@pytest.mark.full("measures neighbours or further data sets")
def test_an_aggregate_over_nothing_is_a_number(tmp_path: Path) -> None:
    with Proxy.open(str(shop(tmp_path, tables=world.empty()))) as proxy:
        total, mean, n = proxy.ask(
            request("SELECT SUM(amount), AVG(discount), COUNT(*) FROM orders")
        ).rows[0]
    assert None not in (total, mean, n)
    assert total == total  # noqa: PLR0124 - not NaN
    assert 0 <= mean <= 1


# --- logs and streams ------------------------------------------------------------------------


class Chatty(Proxy):
    """Says what it is asked."""

    def ask(self, request: Request, stop: Stop | None = None) -> Answer:
        logging.getLogger("dpsql").warning("secret: %s", request.sql)
        return super().ask(request, stop)


def overheard(
    path: Path, kind: type[Proxy], log: pytest.LogCaptureFixture, out: pytest.CaptureFixture[str]
) -> str:
    """What logs and streams say while texts are refused, and one fails in the engine."""
    proxy, engine = watched(path, kind)
    engine.instead = QUOTING
    texts = (
        "SELECT ((",
        "COPY secret TO 'secret'",
        "SELECT secret(name) FROM customers",
        BY_COUNTRY,
    )
    with proxy:
        for sql in texts:
            with pytest.raises((Refused, Failed)):
                proxy.ask(request(sql))
    captured = out.readouterr()
    return log.text + captured.out + captured.err


@pytest.mark.full("opens a proxy for each item")
def test_nothing_is_logged_or_printed(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    assert overheard(shop(tmp_path), Proxy, caplog, capfd) == ""


def test_a_log_of_the_text_would_be_seen(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    assert "secret" in overheard(shop(tmp_path), Chatty, caplog, capfd)


# --- noise -----------------------------------------------------------------------------------


def fresh(noise: Law, count: int) -> np.ndarray:
    return mechanisms.sample(noise, count, Entropy())


def drawn_once() -> Sampler:
    """Noise that is drawn once for every column of the same law."""
    drawn: dict[tuple[Law, int], np.ndarray] = {}

    def sampler(noise: Law, count: int) -> np.ndarray:
        return drawn.setdefault((noise, count), fresh(noise, count))

    return sampler


def repeated_noise(path: Path, sampler: Sampler) -> bool:
    """Whether two columns, or two queries, over nothing came out with the same noise."""
    with Proxy.open(str(path)) as proxy:
        proxy.vault.sampler = sampler
        rows = proxy.ask(request(TWICE)).rows
        first = [row[1] for row in rows]
        second = [row[2] for row in rows]
        proxy.refresh()
        third = [row[1] for row in proxy.ask(request(TWICE)).rows]
    return first in (second, third)


@pytest.mark.full("measures neighbours or further data sets")
def test_each_column_and_each_query_has_noise_of_its_own(tmp_path: Path) -> None:
    assert not repeated_noise(shop(tmp_path, tables=world.empty()), fresh)


def test_noise_drawn_once_would_be_seen(tmp_path: Path) -> None:
    assert repeated_noise(shop(tmp_path, tables=world.empty()), drawn_once())


def same_after_fork(path: Path, sampler: Sampler) -> bool:
    """Whether two children of one process answer with the same noise."""
    with Proxy.open(str(path)) as proxy:
        proxy.vault.sampler = sampler
        proxy.explain(request(BY_AGE))
        read, write = os.pipe()
        children = [forked(partial(_tell, proxy, name, write)) for name in ("ana", "bob")]
        os.close(write)
        with os.fdopen(read, encoding="ascii") as pipe:
            told = pipe.read().splitlines()
        assert [exit_code(child) for child in children] == [0, 0]
    assert len(told) == 2
    return told[0] == told[1]


def _tell(proxy: Proxy, analyst: str, write: int) -> None:
    rows = proxy.ask(request(BY_AGE, None, analyst)).rows
    os.write(write, (" ".join(str(row[1]) for row in rows) + "\n").encode())


def drawn_ahead() -> Sampler:
    """Noise drawn ahead, as from a buffer of random bits: a fork copies it."""
    buffer = fresh(Noise(Mechanism.DISCRETE_LAPLACE, Fraction(10)), 1000)
    return lambda _noise, count: buffer[:count]


@pytest.mark.full("measures neighbours or further data sets")
def test_forked_children_draw_noise_of_their_own(tmp_path: Path) -> None:
    system = partial(mechanisms.sample, entropy=SYSTEM)
    assert not same_after_fork(shop(tmp_path, tables=world.empty()), system)


def test_noise_copied_by_a_fork_would_be_seen(tmp_path: Path) -> None:
    assert same_after_fork(shop(tmp_path, tables=world.empty()), drawn_ahead())


# --- many at once ----------------------------------------------------------------------------


class Careless:
    """A ledger that checks, waits, and then charges whatever others did meanwhile."""

    def __init__(self, ledger: SqliteLedger, together: Barrier) -> None:
        self._ledger, self._together = ledger, together

    def charge(self, charge: Charge, *more: Charge) -> Spent:
        if self._ledger.spent(charge.budget) == charge.limit:
            raise Refused(Reason.BUDGET_EXHAUSTED)
        self._together.wait(60)
        return self._ledger.charge(replace(charge, limit=Loss(2**62, 2**62)), *more)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._ledger, name)


def asked_at_once(path: Path, threads: int, *, careless: bool = False) -> tuple[int, bool]:
    """How many of some questions were answered, and whether the budget is now overspent."""
    answered: list[int] = []
    draft = load(str(path))
    engines = EnginePool(partial(DuckDBEngine, draft.database, draft.limits), threads)
    with Proxy.over(draft, engines) as proxy:
        if careless:
            assert isinstance(proxy.ledger, SqliteLedger)
            proxy.vault.till = Till(Careless(proxy.ledger, Barrier(threads)))
        workers = [Thread(target=_ask, args=(proxy, n, answered.append)) for n in range(threads)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join(120)
        ((_budget, spent, limit),) = proxy.budgets()
    return len(answered), spent.amount > limit.amount


def _ask(proxy: Proxy, n: int, tell: Callable[[int], object]) -> None:
    """Tell if question `n` is answered; a refusal for lack of budget is silent."""
    try:
        proxy.ask(request(f"SELECT COUNT(*) FROM customers WHERE age > {n}"))
    except Refused as refused:
        if refused.reason is not Reason.BUDGET_EXHAUSTED:
            raise
    else:
        tell(n)


@pytest.mark.full("measures neighbours or further data sets")
def test_threads_together_never_overspend(tmp_path: Path) -> None:
    assert asked_at_once(shop(tmp_path, *THREE), 5) == (3, False)


@pytest.mark.full("measures neighbours or further data sets")
def test_a_check_before_the_charge_would_be_seen(tmp_path: Path) -> None:
    assert asked_at_once(shop(tmp_path, *THREE), 5, careless=True) == (5, True)


@pytest.mark.full("measures neighbours or further data sets")
def test_processes_together_never_overspend(tmp_path: Path) -> None:
    path = shop(tmp_path, *THREE)
    read, write = os.pipe()

    def ask_some(first: int) -> None:
        with Proxy.open(str(path)) as proxy:
            for n in range(first, first + 2):
                _ask(proxy, n, lambda _n: os.write(write, b"x"))

    children = [forked(partial(ask_some, 10 * n)) for n in range(4)]
    os.close(write)
    with os.fdopen(read, "rb") as pipe:
        answered = len(pipe.read())
    assert [exit_code(child) for child in children] == [0] * 4
    assert answered == 3
    ledger = SqliteLedger.open(str(path.with_name("shop.ledger")))
    assert len(ledger.history(None, 20)) == 3


class Midway(WatchedEngine):
    """Calls `midway` once, when a plan is being compiled."""

    midway: Callable[[], object] | None = None

    def rows(
        self, sql: str, stop: Stop | None = None, data: str | None = None
    ) -> Sequence[tuple[Any, ...]]:
        found = super().rows(sql, stop, data)
        if self.midway is not None:
            midway, self.midway = self.midway, None
            midway()
        return found


@pytest.mark.full("opens a proxy for each item")
def test_a_plan_older_than_a_refresh_is_compiled_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    compiled = list[str]()

    def recorded(*asked: Any) -> Prepared:
        compiled.append("")
        return prepare(*asked)

    monkeypatch.setattr("dpsql.preparation.compilation.prepare", recorded)
    monkeypatch.setattr("dpsql.preparation.compilation.outlook", lambda *_: Outlook())
    joined = next(sql for sql in QUESTIONS if "JOIN" in sql)
    with Proxy.open(str(shop(tmp_path))) as proxy:
        engine = Midway(proxy.vault.engine)
        through(proxy, engine)
        engine.midway = proxy.refresh
        proxy.explain(request(joined))
        assert engine.midway is None
        proxy.explain(request(joined))
        assert len(compiled) == 2, "the plan of the data before the refresh was kept"
        measured = len(engine.calls)
        proxy.explain(request(joined))
        assert len(compiled) == 2
        assert len(engine.calls) == measured


ODD = (
    request("SELECT COUNT(*) FROM customers WHERE age > ?", None, "ana", [1]),
    request("SELECT COUNT(*) FROM customers WHERE age > ?", None, "ana", Decimal("sNaN")),
    request("SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = 1) COUNT(*) FROM events", "NaN"),
    request("SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = 1) COUNT(*) FROM events", "sNaN"),
    request("SELECT COUNT(*) FROM customers", None, "eve"),
    request("SELECT COUNT(*) FROM customers WHERE city = '\ud800'"),
    request("SELECT COUNT(*) FROM customers", "1e-300"),
)


def test_odd_requests_are_refused_in_our_own_words(tmp_path: Path) -> None:
    with Proxy.open(str(shop(tmp_path))) as proxy:
        for odd in ODD:
            with pytest.raises(Refused):
                proxy.ask(odd)
            with pytest.raises(Refused):
                proxy.explain(odd)
