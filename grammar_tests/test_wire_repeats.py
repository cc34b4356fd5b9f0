"""A batch asked again is answered with the same bytes, as long as nothing could have changed it."""

from __future__ import annotations

from threading import Event, Thread

import pytest

from dpsql.interfaces.pgwire.frontend import (
    Bind,
    Close,
    Describe,
    Execute,
    Message,
    Parse,
    Query,
    Sync,
)
from dpsql.interfaces.pgwire.repeats import MOST_BYTES
from dpsql.ledgers import ledger_transactions
from dpsql.proxy import Proxy
from grammar_tests.proxy_kit import never_twice, request
from grammar_tests.session_kit import COUNT, COUNTRIES, Client, asked, read_parts

NAMED = (Bind("", "s", (), (), ()), Execute("", 0), Sync())
OTHER = "SELECT COUNT(*) AS n FROM customers WHERE age > 40"


@pytest.fixture(scope="module", autouse=True)
def _no_noise_twice(proxy: Proxy) -> None:
    proxy.vault.sampler = never_twice()


@pytest.fixture
def client(proxy: Proxy) -> Client:
    """A client whose question was paid for."""
    proxy.ask(request(COUNT))
    return Client(proxy)


def answer(client: Client, *sent: Message) -> bytes:
    """What is worked out in full."""
    return b"".join(read_parts(client.session, *sent))


def again(client: Client, *sent: Message) -> bytes | None:
    return client.session.again(sent)


@pytest.mark.full("opens servers or connects clients")
def test_what_was_paid_for_before_is_told_again(client: Client) -> None:
    for sent in ((Query(COUNT),), asked(COUNT), (Query(f"COPY ({COUNT}) TO STDOUT"),)):
        assert again(client, *sent) is None
        told = answer(client, *sent)
        assert told
        assert again(client, *sent) == told == answer(client, *sent)


@pytest.mark.full("opens servers or connects clients")
@pytest.mark.parametrize(
    "sql", [COUNTRIES, "SELECT 1", "SELECT relname FROM pg_class", f"{COUNT}; {COUNTRIES}"]
)
def test_what_touches_no_private_data_is_told_again(client: Client, proxy: Proxy, sql: str) -> None:
    told = answer(client, Query(sql))
    assert again(client, Query(sql)) == told
    proxy.refresh()
    assert again(client, Query(sql)) is None


@pytest.mark.full("measures neighbours or further data sets")
def test_an_answer_that_was_just_charged_is_not(client: Client) -> None:
    fresh = Query("SELECT COUNT(*) FROM customers WHERE age > 17")
    answer(client, fresh)
    assert again(client, fresh) is None
    told = answer(client, fresh)
    assert again(client, fresh) == told


@pytest.mark.parametrize(
    "sql", ["SHOW timezone", "SELECT x FROM customers", "BEGIN; COMMIT", "",
            "SELECT * FROM dpsql_budget()", f"EXPLAIN PRIVACY {COUNT}"]
)  # fmt: skip
def test_nothing_else_is(client: Client, sql: str) -> None:
    for _ in range(3):
        answer(client, Query(sql))
    assert again(client, Query(sql)) is None


@pytest.mark.full("opens servers or connects clients")
def test_a_change_of_the_ledger_ends_it(client: Client, proxy: Proxy) -> None:
    told = answer(client, Query(COUNT))
    assert again(client, Query(COUNT)) == told
    proxy.ask(request("SELECT COUNT(*) FROM customers WHERE age > 18"))
    assert again(client, Query(COUNT)) is None
    answer(client, Query(COUNT))
    assert again(client, Query(COUNT)) == told
    proxy.refresh()
    assert again(client, Query(COUNT)) is None
    # Without a look at the ledger the old answer would be told of the new data.
    assert answer(client, Query(COUNT)) != told


def test_settings_transactions_and_open_batches_end_it(client: Client) -> None:
    told = answer(client, Query(COUNT))
    for setting in ("dpsql.notices = on", "dpsql.epsilon = 0.01", "timezone = 'Asia/Tokyo'"):
        answer(client, Query(f"SET {setting}"))
        assert again(client, Query(COUNT)) is None
        answer(client, Query("RESET ALL"))
        assert again(client, Query(COUNT)) == told
    answer(client, Query("BEGIN"))
    assert again(client, Query(COUNT)) is None
    answer(client, Query("ROLLBACK"))
    answer(client, Parse("", "SELECT 1", ()))
    assert again(client, Query(COUNT)) is None
    answer(client, Sync())
    assert again(client, Query(COUNT)) == told


def test_another_statement_of_the_same_name_ends_it(client: Client) -> None:
    answer(client, Parse("s", COUNT, ()), Sync())
    told = answer(client, *NAMED)
    assert again(client, *NAMED) == told
    answer(client, Query("DEALLOCATE s"), Parse("s", OTHER, ()), Sync())
    assert again(client, *NAMED) is None
    assert answer(client, *NAMED) != told


def test_a_statement_prepared_in_sql_is_looked_up_each_time(client: Client) -> None:
    answer(client, Query(f"PREPARE p AS {COUNT}"))
    for _ in range(3):
        answer(client, Query("EXECUTE p"))
    assert again(client, Query("EXECUTE p")) is None


def test_parameters_and_formats_are_part_of_it(client: Client) -> None:
    sql = "SELECT COUNT(*) FROM customers WHERE age > $1"
    for value in (b"40", b"41"):
        answer(client, *asked(sql, value))
    told = answer(client, *asked(sql, b"40"))
    assert again(client, *asked(sql, b"40")) == told
    assert again(client, *asked(sql, b"41")) is None
    assert again(client, Parse("", sql, ()), Bind("", "", (), (b"40",), (1,)), Execute("", 0),
                 Sync()) is None  # fmt: skip


def test_portals_that_stay_open_are_worked_out(client: Client) -> None:
    for sent in (asked(COUNT, limit=1), asked(COUNT)[:-1]):
        for _ in range(2):
            answer(client, *sent)
            answer(client, Sync())
        assert again(client, *sent) is None


def test_the_unnamed_statement_is_left_behind(client: Client) -> None:
    answer(client, *asked(COUNT))
    answer(client, Parse("", OTHER, ()), Sync())
    assert again(client, *asked(COUNT)) is not None
    assert again(client, Bind("", "", (), (), ()), Execute("", 0), Sync()) is None
    client.send(Describe(False, ""), Sync())
    assert client.of(b"T")[0].count(b"segment") == 1


@pytest.mark.full("measures neighbours or further data sets")
def test_it_does_not_wait_for_who_writes_the_ledger(client: Client) -> None:
    told = answer(client, Query(COUNT))
    held, done = Event(), Event()

    def work() -> None:
        with ledger_transactions.CALLS:
            held.set()
            done.wait(30)

    thread = Thread(target=work)
    thread.start()
    assert held.wait(30)
    assert again(client, Query(COUNT)) is None
    done.set()
    thread.join()
    assert again(client, Query(COUNT)) == told


def test_what_replies_keep_alive_is_counted(client: Client) -> None:
    """A closed statement would stay in memory, for free, as long as a reply of a few bytes."""
    for n in range(8):
        text = f"SELECT 1 AS a WHERE 1 IN ({'1, ' * 300} 1)"
        answer(client, Parse(f"s{n}", text, ()), Sync())
        told = answer(client, Bind("", f"s{n}", (), (), ()), Execute("", 0), Sync())
        assert again(client, Bind("", f"s{n}", (), (), ()), Execute("", 0), Sync()) == told
        answer(client, Close(False, f"s{n}"), Sync())
    kept = [repeat for _, repeat in client.session._repeats._answers.list_entries()]
    used = {id(statement): statement for repeat in kept for _, statement in repeat.used}
    assert 100_000 < sum(statement.size for statement in used.values()) <= MOST_BYTES


@pytest.mark.full("opens servers or connects clients")
def test_replies_under_other_settings_are_not_kept(client: Client) -> None:
    for n in range(3):
        answer(client, Query(f"SET search_path = '{n}{'x' * 1000}'"))
        answer(client, Query("SELECT 1"))
        assert again(client, Query("SELECT 1")) is not None
    assert len(client.session._repeats._answers._values) == 1
