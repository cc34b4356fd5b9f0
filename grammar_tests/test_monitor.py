"""Monitors on the real proxy: what they charge, answer, remember, and refuse."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from dpsql.compiler.plan.measurement_kinds import ClippedSum
from dpsql.dialects.duckdb.duckdb_dialect import DUCKDB
from dpsql.ledgers.sqlite import SqliteLedger
from dpsql.mechanisms import margin
from dpsql.model.errors import Failed, Reason, Refused
from dpsql.model.vocabulary import Neighbours, Request
from dpsql.preparation.streams import QueryStream, stream
from dpsql.proxy import Proxy
from dpsql.systems.watch import monitor as monitoring
from dpsql.systems.watch.monitor import ExplainWatch, Watch, WatchAll
from grammar_tests import world
from grammar_tests.bound import over
from grammar_tests.laws import SAMPLING_KEY, PlainEngine, compiled, no_noise, without_unit
from grammar_tests.ledger_kit import contents
from grammar_tests.proxy_kit import QUOTING, WatchedEngine, request, shop, watched

PURE = (
    ('accountant = "zcdp"', 'accountant = "pure"'),
    ("epsilon = 1000.0\ndelta = 1e-3", "epsilon = 3.0\ndelta = 0.0"),
    ("query_delta = 1e-6\n", ""),
)
COUNT = "SELECT COUNT(*) FROM customers"
BY_SEGMENT = "SELECT segment, COUNT(*) AS n FROM customers GROUP BY segment"
PEOPLE = "SELECT status, COUNT(DISTINCT customer_id) FROM orders GROUP BY status"
SUM = "SELECT SUM(quantity) FROM orders"
SIGNED = "SELECT SUM(quantity - 10) FROM orders"
NOTHING = "SELECT COUNT(*) FROM customers WHERE age > 119"


def wish(threshold: str = "3", alarms: int = 2, **options: Any) -> Watch:
    return Watch("ana", Decimal(threshold), alarms, Decimal(1), **options)


@pytest.fixture
def quiet(tmp_path: Path) -> Iterator[tuple[Proxy, WatchedEngine, Path]]:
    """A shop whose noise is off, its engine watched."""
    path = shop(tmp_path / "shop", *PURE)
    proxy, engine = watched(path, Proxy)
    proxy.vault.sampler = no_noise
    with proxy:
        yield proxy, engine, path.with_name("shop.ledger")


Quiet = tuple[Proxy, WatchedEngine, Path]


# --- what is answered ----------------------------------------------------------------------------


@pytest.mark.full("opens a proxy for each item")
def test_one_bit_per_query_and_public_key(quiet: Quiet) -> None:
    proxy, _, _ = quiet
    exact = {sql: proxy.ask(request(sql, "0.01")).rows for sql in (COUNT, BY_SEGMENT, SUM)}
    (((count,),), by_segment, ((total,),)) = exact.values()
    with proxy.run(wish(str(count), 5)) as monitor:
        assert monitor.ask(COUNT).above
        assert monitor.ask(NOTHING).answers == (((), False),)
        expected = {segment: n >= count for segment, n in by_segment}
        told = monitor.ask(BY_SEGMENT)
        assert told.keys == ("segment",)
        assert {key: above for (key,), above in told.answers} == expected
        assert monitor.ask(SUM).above == (total >= count)


@pytest.mark.full("opens a proxy for each item")
def test_a_parameter_is_part_of_the_question(quiet: Quiet) -> None:
    proxy, _, _ = quiet
    with proxy.run(wish("1", 5)) as monitor:
        sql = "SELECT COUNT(*) FROM customers WHERE age > ?"
        assert monitor.ask(sql, [18]).above
        assert not monitor.ask(sql, [119]).above


@pytest.mark.full("opens a proxy for each item")
def test_it_ends_with_its_alarms_and_remembers(quiet: Quiet) -> None:
    proxy, engine, _ = quiet
    with proxy.run(wish("1", 2)) as monitor:
        first = monitor.ask(COUNT)
        ran = len(engine.private())
        assert monitor.ask("SELECT count(*) AS n FROM customers AS c") == first
        assert (monitor.left, len(engine.private())) == (1, ran)
        partial = monitor.ask(PEOPLE)
        assert (len(partial.answers), partial.complete, monitor.left) == (1, False, 0)
        with pytest.raises(Refused) as refused:
            monitor.ask(SUM)
        assert refused.value.reason is Reason.ALARMS_USED
        assert monitor.ask(COUNT) == first
        assert monitor.ask(PEOPLE) == partial
    assert monitor.left == 0


@pytest.mark.full("draws random questions or values")
def test_below_is_free_and_new_data_is_a_new_question(quiet: Quiet) -> None:
    proxy, engine, _ = quiet
    with proxy.run(wish("1000000", 1)) as monitor:
        for _ in range(2):
            assert not monitor.ask(COUNT).above
            assert not monitor.ask(PEOPLE).above
        assert len(engine.private()) == 2
        proxy.refresh()
        assert not monitor.ask(COUNT).above
        assert (len(engine.private()), monitor.left) == (3, 1)
    (entry,) = proxy.ledger.history()
    assert entry.remembered


# --- what it costs -------------------------------------------------------------------------------


@pytest.mark.full("opens a proxy for each item")
def test_it_is_charged_once_before_anything_runs(quiet: Quiet) -> None:
    proxy, engine, ledger = quiet
    with proxy.run(wish()) as monitor:
        assert engine.private() == []
        before = SqliteLedger.open(str(ledger)).spent("default")
        assert before == monitor.receipt.charged == monitor.receipt.spent
        assert before.amount == 10**9
        monitor.ask(COUNT)
        monitor.ask(PEOPLE)
    assert SqliteLedger.open(str(ledger)).spent("default") == before
    with proxy.run(wish()):
        assert SqliteLedger.open(str(ledger)).spent("default") == before + before


def test_under_zcdp_it_costs_half_the_square(tmp_path: Path) -> None:
    with Proxy.open(str(shop(tmp_path / "shop"))) as proxy, proxy.run(wish()) as monitor:
        assert monitor.receipt.charged.amount == 10**9 // 2
        assert monitor.receipt.charged.delta == 0
        with pytest.raises(Refused) as refused:
            monitor.ask("SELECT city, COUNT(*) AS n FROM customers GROUP BY city")
        assert refused.value.facts["construct"] == "watching private group keys"


@pytest.mark.full("draws random questions or values")
def test_a_budget_that_cannot_pay_opens_nothing(quiet: Quiet) -> None:
    proxy, engine, ledger = quiet
    for _ in range(3):
        proxy.run(wish()).close()
    before = contents(ledger)
    with pytest.raises(Refused) as refused:
        proxy.run(wish())
    assert refused.value.reason is Reason.BUDGET_EXHAUSTED
    assert (contents(ledger), engine.private()) == (before, [])


@pytest.mark.full("opens a proxy for each item")
def test_a_failure_stays_charged_and_may_be_asked_again(quiet: Quiet) -> None:
    proxy, engine, _ = quiet
    with proxy.run(wish("1")) as monitor:
        engine.instead = QUOTING
        with pytest.raises(Failed) as failed:
            monitor.ask(COUNT)
        assert failed.value.query_id == monitor.receipt.query_id
        engine.instead = None
        assert monitor.ask(COUNT).above
        assert monitor.left == 1


@pytest.mark.full("opens a proxy for each item")
def test_an_alarm_is_told_with_its_number_for_what_was_charged_at_opening(quiet: Quiet) -> None:
    """Half of ε more, in two; told again for nothing, by its file, its ε and its measure."""
    proxy, _, ledger = quiet
    ((count,),) = proxy.ask(request(COUNT, "0.01")).rows
    texts, before = requests(COUNT, NOTHING, BY_SEGMENT), SqliteLedger.open(str(ledger))
    spent = before.spent("default").amount
    measuring = wish("3", measure=Decimal("0.5"))
    price = proxy.run(ExplainWatch(measuring, texts))
    first = proxy.run(WatchAll(measuring, texts))
    assert before.spent("default").amount - spent == price.charge.amount == 1_500_000_000
    assert price.numbers is not None
    assert price.numbers.epsilon == Fraction(1, 4)
    above, below, *_ = first.verdicts
    assert (above.numbers, below.numbers) == ((count,), (None,))
    assert above.margin == margin(price.numbers.noise(1))
    again = proxy.run(WatchAll(measuring, texts))
    assert (again.verdicts, again.receipt.remembered) == (first.verdicts, True)
    plain = proxy.run(WatchAll(wish("3"), texts))
    assert (plain.receipt.remembered, plain.verdicts[0].numbers) == (False, ())


def test_a_measure_that_is_none_is_refused(quiet: Quiet) -> None:
    for measure, reason in (("0", Reason.BAD_OPTION), ("1e6", Reason.EPSILON_TOO_LARGE)):
        with pytest.raises(Refused) as refused:
            quiet[0].run(wish(measure=Decimal(measure)))
        assert refused.value.reason is reason


# --- what is refused -----------------------------------------------------------------------------

NO_STREAM = (
    "SELECT AVG(income) FROM customers",
    "SELECT COUNT(*), SUM(income) FROM customers",
    "SELECT COUNT(*) + 1 FROM customers",
    "SELECT segment, COUNT(*) AS n FROM customers GROUP BY segment HAVING COUNT(*) > 3",
    "SELECT segment, COUNT(*) AS n FROM customers GROUP BY segment ORDER BY n LIMIT 1",
    "SELECT COUNT(*) FROM countries",
    "SELECT COUNT(*) FROM orders WHERE amount > (SELECT AVG(amount) FROM orders)",
    "SELECT SUM(n) FROM (SELECT segment, COUNT(*) AS n FROM customers GROUP BY segment) AS t",
    "SELECT segment FROM customers GROUP BY segment",
    SIGNED,
)


@pytest.mark.full("opens a proxy for each item")
@pytest.mark.parametrize("sql", NO_STREAM)
def test_what_is_no_stream_is_refused_and_free(quiet: Quiet, sql: str) -> None:
    proxy, engine, ledger = quiet
    with proxy.run(wish()) as monitor:
        before = contents(ledger)
        with pytest.raises(Refused) as refused:
            monitor.ask(sql)
        assert refused.value.reason is Reason.UNSUPPORTED_PRIVATE_OPERATOR
        assert (contents(ledger), engine.private(), monitor.left) == (before, [], 2)


@pytest.mark.full("opens a proxy for each item")
@pytest.mark.parametrize("prefix", ["EXPLAIN PRIVACY SELECT", "SELECT WITH DIFFERENTIAL_PRIVACY"])
def test_a_statement_has_no_wishes_of_its_own(quiet: Quiet, prefix: str) -> None:
    options = "" if prefix.startswith("EXPLAIN") else " OPTIONS(epsilon = 0.1)"
    with quiet[0].run(wish()) as monitor, pytest.raises(Refused) as refused:
        monitor.ask(f"{prefix}{options} COUNT(*) FROM customers")
    assert refused.value.reason is Reason.UNSUPPORTED_STATEMENT


@pytest.mark.full("measures neighbours or further data sets")
def test_bad_wishes_are_refused(quiet: Quiet) -> None:
    for bad in (wish(alarms=0), wish(alarms=10**6), wish("NaN"), wish("1e1000")):
        with pytest.raises(Refused) as refused:
            quiet[0].run(bad)
        assert refused.value.reason is Reason.BAD_OPTION
    with pytest.raises(Refused) as refused:
        quiet[0].run(Watch("ana", Decimal(1), 1, Decimal(10**6)))
    assert refused.value.reason is Reason.EPSILON_TOO_LARGE


@pytest.mark.full("opens a proxy for each item")
def test_both_ways_has_more_noise(quiet: Quiet) -> None:
    proxy, _, _ = quiet
    with proxy.run(wish("-100000", both_ways=True)) as wide, proxy.run(wish()) as narrow:
        assert wide.ask(SIGNED).above
        assert wide._law.query.scale > narrow._law.query.scale


# --- many at once --------------------------------------------------------------------------------


@pytest.mark.full("starts processes")
def test_threads_share_the_alarms(quiet: Quiet) -> None:
    proxy, _, _ = quiet
    alarms: list[bool] = []
    refusals: list[Reason] = []
    with proxy.run(wish("0", 3)) as monitor:

        def ask(n: int) -> None:
            try:
                alarms.append(monitor.ask(f"SELECT COUNT(*) FROM customers WHERE age > {n}").above)
            except Refused as refused:
                refusals.append(refused.reason)

        threads = [Thread(target=ask, args=(n,)) for n in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert alarms == [True] * 3
    assert refusals == [Reason.ALARMS_USED] * 5


# --- what one unit changes -----------------------------------------------------------------------


def values(sql: str, engine: PlainEngine, found: QueryStream) -> dict[Any, int]:
    assert found.sql.keys or found.domain == ((),), sql
    exact = engine.aggregate(found.sql.sql, len(found.sql.keys), 1, SAMPLING_KEY)
    read = {key: int(exact.parts[0][n]) for n, key in enumerate(exact.keys)}
    return {key: read.get(key, 0) for key in found.domain}


BY_HOUR = "SELECT HOUR(placed_at) AS h, COUNT(*) FROM orders GROUP BY 1"
RAISED = SUM.replace("SELECT", "SELECT WITH DIFFERENTIAL_PRIVACY").replace(
    ")", ", contribution_bounds_per_group => (150, 151))"
)
"""Bounds without zero: a unit that comes adds more than they are apart."""
STREAMS = (
    *(COUNT, BY_SEGMENT, PEOPLE, SUM, SIGNED, RAISED, BY_HOUR),
    "SELECT COUNT(note) FROM orders",
)


@pytest.mark.full("further data sets, and all their neighbours")
@pytest.mark.parametrize("sql", STREAMS)
@pytest.mark.parametrize("tables", [world.well_behaved(), world.flood()], ids=["plain", "flood"])
def test_one_unit_moves_a_query_by_its_distance_at_most(sql: str, tables: world.Tables) -> None:
    policy, _ = over(tables, constraints=True)
    engine = PlainEngine(world.build(tables, constraints=False))
    found = stream(compiled(sql, policy, engine), DUCKDB)
    here = values(sql, engine, found)
    moves = set()
    for unit in [row[0] for row in tables["customers"]][:12]:
        with without_unit(engine.connection, world.deletions(unit)):
            there = values(sql, engine, found)
        moves |= {here[key] - there[key] for key in here}
    assert moves != {0}
    assert max(map(abs, moves)) <= found.distance
    assert not found.one_way or min(moves) >= 0
    assert found.one_way == (sql != SIGNED)


@pytest.mark.parametrize("neighbours", Neighbours)
@pytest.mark.parametrize("clip", [(-3, 5), (-5, 3), (0, 4), (-4, 0), (2, 3), (-3, -2), (0, 0)])
def test_the_distance_is_the_farthest_move_of_a_clipped_total(
    clip: tuple[int, int], neighbours: Neighbours
) -> None:
    policy, engine = over(world.empty(), constraints=True)
    found = stream(compiled(SIGNED, policy, engine), DUCKDB)
    lower, upper = clip
    assert isinstance(found.release.query, ClippedSum)
    query = replace(found.release.query, total_lower=lower, total_upper=upper)
    sensitivity = replace(
        found.release.sensitivity, lower=lower, upper=upper, neighbours=neighbours
    )
    payment = replace(found.release.payment, sensitivity=sensitivity)
    found = replace(found, release=replace(found.release, query=query, payment=payment))
    totals = {0, *range(lower, upper + 1)}
    replaced = neighbours is Neighbours.REPLACE
    others = totals if replaced else {0}
    assert found.distance == max(1, *(abs(a - b) for a in totals for b in others))
    assert found.one_way == (not replaced and min(totals) >= 0)


def test_a_smaller_distance_would_be_wrong() -> None:
    policy, _ = over(world.flood(), constraints=True)
    engine = PlainEngine(world.build(world.flood(), constraints=False))
    found = stream(compiled(SUM, policy, engine), DUCKDB)
    with without_unit(engine.connection, world.deletions(7)):
        ((there),) = values(SUM, engine, found).values()
    ((here),) = values(SUM, engine, found).values()
    assert here - there == found.distance == 10 * 20


@pytest.mark.full("draws random questions or values")
def test_a_stream_samples_no_groups() -> None:
    policy, _ = over(world.flood(), constraints=True)
    engine = PlainEngine(world.build(world.flood(), constraints=False))
    prepared = compiled(BY_HOUR, policy, engine)
    assert "$sampling_key" in prepared.rewritten.blocks[0].sql
    assert "$sampling_key" not in stream(prepared, DUCKDB).sql.sql


# --- a file of statements ------------------------------------------------------------------------


def requests(*texts: str) -> list[Request]:
    return [Request(sql, "ana") for sql in texts]


@pytest.mark.full("starts processes")
def test_a_list_is_one_question_of_the_ledger(quiet: Quiet) -> None:
    proxy, engine, _ = quiet
    texts = requests(COUNT, NOTHING, COUNT, PEOPLE, SUM)
    first = proxy.run(WatchAll(wish("1"), texts))
    assert [v.above for v in first.verdicts] == [True, False, True, True, False]
    assert [v.complete for v in first.verdicts] == [True, True, True, False, False]
    ran, spent = len(engine.private()), first.receipt.spent
    again = proxy.run(WatchAll(wish("1.0"), texts))
    assert (again.verdicts, again.left, again.receipt.spent) == (first.verdicts, 0, spent)
    assert again.receipt.remembered
    assert len(engine.private()) == ran
    assert not proxy.run(WatchAll(wish("2"), texts)).receipt.remembered
    proxy.refresh()
    assert not proxy.run(WatchAll(wish("1"), texts)).receipt.remembered


@pytest.mark.full("starts processes")
def test_a_list_with_a_signed_sum_needs_no_word_for_it(quiet: Quiet) -> None:
    found = quiet[0].run(WatchAll(wish("-100000", 5), requests(SIGNED, COUNT)))
    assert [verdict.above for verdict in found.verdicts] == [True, True]


@pytest.mark.full("opens a proxy for each item")
def test_a_list_is_refused_before_anything_is_charged(quiet: Quiet) -> None:
    proxy, engine, ledger = quiet
    before = contents(ledger)
    with pytest.raises(Refused) as refused:
        proxy.run(WatchAll(wish(), requests(COUNT, "SELECT name FROM customers", SUM)))
    assert refused.value.facts["statement"] == 2
    assert (contents(ledger), engine.private()) == (before, [])


@pytest.mark.full("opens a proxy for each item")
@pytest.mark.parametrize("broken", [False, True])
def test_a_list_that_failed_half_way_is_asked_anew(
    quiet: Quiet, monkeypatch: pytest.MonkeyPatch, *, broken: bool
) -> None:
    """The wrong twin remembers it half answered."""
    proxy, engine, _ = quiet
    texts, calls = requests(NOTHING, COUNT), iter((None, QUOTING))
    engine.before = lambda: setattr(engine, "instead", next(calls, None))
    with pytest.raises(Failed):
        proxy.run(WatchAll(wish("1", 5), texts))
    if broken:
        monkeypatch.setattr(monitoring, "_recalled", lambda desk, _law, q, _s: desk.recalled(q))
        assert not proxy.run(WatchAll(wish("1", 5), texts)).verdicts[1].complete
        return
    again = proxy.run(WatchAll(wish("1", 5), texts))
    assert [verdict.above for verdict in again.verdicts] == [False, True]
    assert not again.receipt.remembered
    assert proxy.run(WatchAll(wish("1", 5), texts)).receipt.remembered
