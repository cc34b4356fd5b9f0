"""Published tables: charged once, read for free by name, counted once by each analyst's caps."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from math import isnan
from pathlib import Path

import duckdb
import pytest

from dpsql.interfaces.dbapi import connect
from dpsql.interfaces.messages import describe
from dpsql.interfaces.plan_text import plan_text
from dpsql.interfaces.sentences import sentences
from dpsql.ledgers import Stopped
from dpsql.model.errors import Failed, Reason, Refused
from dpsql.model.vocabulary import Answer, Loss, Request
from dpsql.preparation.question import Account
from dpsql.proxy import Proxy
from dpsql.systems.cubes import cubes
from dpsql.systems.cubes.cubes import CreateCube, ExplainCube
from grammar_tests.test_cubes import CAPPED, spent
from grammar_tests.test_from_memory import PEOPLE, POLICY

BOARD = (
    "CREATE DP TABLE board AS SELECT sex, COUNT(*) AS n, SUM(income) AS s FROM people GROUP BY sex"
    " OPTIONS(epsilon = 1)"
)
PLANS = "CREATE DP TABLE plans AS SELECT plan, COUNT(*) AS n FROM people GROUP BY plan"
TODAY = (
    "CREATE DP TABLE t AS SELECT COUNT(*) AS n FROM people "
    "WHERE EXTRACT(year FROM CURRENT_DATE) = income"
)
ENDS = ["n_low", "n_high", "s_low", "s_high", "n__yhat_lower", "n__yhat_upper"]
SUPERSET = (
    "SELECT sex AS sex, MAX(n) AS n, MAX(n__yhat_lower) AS n__yhat_lower FROM public.board "
    "GROUP BY sex ORDER BY sex LIMIT 1000"
)
METABASE = (
    'SELECT "public"."board"."sex" AS "sex", SUM("public"."board"."n") AS "sum" FROM '
    '"public"."board" GROUP BY "public"."board"."sex" ORDER BY "public"."board"."sex" ASC'
)
ROLE = """
[analysts.amy]
budget = "default"

[roles.all]
analysts = ["ana", "bob", "kim", "eve", "pat", "dan", "ada", "ben", "cem"]
tables = "all"

[roles.narrow]
analysts = ["amy"]
[roles.narrow.tables.people]
columns = ["sex"]

[ledger]
"""


def publish(proxy: Proxy, text: str = BOARD) -> None:
    proxy.run(CreateCube(text, "default", "duckdb"))


@contextmanager
def opened(folder: Path, edit: tuple[str, str] = ("", ""), *, data: bool = True) -> Iterator[Proxy]:
    if data:
        with duckdb.connect(str(folder / "people.duckdb")) as connection:
            connection.execute(PEOPLE)
    path = folder / "published.toml"
    policy = POLICY.replace("\n[ledger]\n", CAPPED.replace("\n[ledger]\n", ROLE))
    path.write_text(policy.replace(*edit), "utf-8")
    with Proxy.open(str(path)) as proxy:
        yield proxy


@pytest.fixture
def proxy(tmp_path: Path) -> Iterator[Proxy]:
    with opened(tmp_path) as proxy:
        yield proxy


@pytest.fixture(scope="module")
def shared_proxy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Proxy]:
    """A proxy with nothing published."""
    with opened(tmp_path_factory.mktemp("published")) as proxy:
        yield proxy


def ask(proxy: Proxy, sql: str, who: str = "ada") -> Answer:
    return proxy.ask(Request(sql, who))


def refusal(act: Callable[[], object]) -> Refused:
    with pytest.raises(Refused) as caught:
        act()
    return caught.value


def message(act: Callable[[], object]) -> str:
    return repr(describe(refusal(act)))


def miscounted(proxy: Proxy) -> list[str]:
    """Limits that count another sum than the table's once, though all of them read it twice."""
    whole, pot = cubes.cubes(proxy.ledger)[0].spent.amount, spent(proxy)
    for _ in range(2):
        for analyst in ("ada", "ben", "bob", "cem"):
            ask(proxy, "SELECT n FROM board", analyst)
    each = [who for who in ("ada", "ben", "bob", "cem") if spent(proxy, who) != whole]
    team = ["team"] * (spent(proxy, "ben", "cem") != whole)
    return [*each, *team, *["pot"] * (spent(proxy) != pot)]


@pytest.mark.full("opens a proxy")
def test_a_published_table_is_charged_once_and_counted_once_by_each_cap(proxy: Proxy) -> None:
    price = proxy.run(ExplainCube(BOARD, "default", "duckdb")).price
    publish(proxy)
    assert spent(proxy) == price.amount > 0
    planned = proxy.explain(Request("SELECT n FROM board", "ada"))
    assert planned.charge == price
    assert proxy.ledger.shares() == ()
    assert not miscounted(proxy)
    assert plan_text(proxy.explain(Request("SELECT n FROM board", "ada"))).startswith(
        "Published tables only: at no cost."
    )
    assert len(proxy.ledger.shares()) == 4
    over = message(lambda: ask(proxy, "SELECT n FROM board", "dan"))
    assert "analyst dan" in over
    assert "memory" not in over


@pytest.mark.full("opens a proxy")
def test_wrong_twin_a_published_table_that_forgets_the_cap(
    proxy: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    publish(proxy)
    monkeypatch.setattr(Account, "has", lambda *_: True)
    assert miscounted(proxy) == ["ada", "ben", "bob", "cem", "team"]


@pytest.mark.full("opens a proxy")
def test_it_is_read_as_a_public_table_with_the_ends_of_its_intervals(proxy: Proxy) -> None:
    publish(proxy)
    publish(proxy, PLANS)
    answer = ask(proxy, "SELECT * FROM public.board ORDER BY sex")
    assert [c.name for c in answer.columns][:9] == ["sex", "n", "s", *ENDS]
    for row in answer.rows:
        n, low, high, lower, upper = (row[k] for k in (1, 3, 4, 7, 8))
        assert low < n < high
        assert (low, high) == (lower, upper)
    assert all(row[1] is not None and isnan(row[1]) for row in answer.margins)
    assert sentences(answer.notices, answer.columns)[-1].startswith("numbers of board are noisy")
    for sql in (SUPERSET, METABASE):
        drawn = proxy.ask(Request(sql, "ada", "postgres"))
        assert [row[1] for row in drawn.rows] == [row[1] for row in answer.rows]
    total = ask(proxy, "SELECT SUM(n) AS n FROM board WHERE n_low > 0", "ben").rows[0][0]
    assert total == sum(row[1] for row in answer.rows)
    joined = ask(proxy, "SELECT COUNT(*) FROM board b JOIN plans p ON p.n < b.n")
    assert joined.receipt is not None
    assert joined.receipt.charged == cubes.cubes(proxy.ledger)[1].spent
    listed = connect(proxy=proxy, analyst="ada")
    names = {row[0]: row[2] for row in listed.tables().fetchall()}
    assert names["board"].startswith("published: ")
    assert listed.columns("board").fetchall()[1] == ("n", "INTEGER", "published")


@pytest.mark.full("opens a proxy")
def test_whoever_may_not_ask_the_question_sees_no_table(proxy: Proxy) -> None:
    publish(proxy)
    for who in ("amy", "kim"):
        unknown = refusal(partial(ask, proxy, "SELECT n FROM board", who))
        assert unknown.reason is Reason.UNKNOWN_TABLE
        assert proxy.own_tables(who) == ()
    publish(proxy, PLANS.replace("plan", "sex"))
    assert [table.name for table in proxy.own_tables("amy")] == ["sexs"]


@pytest.mark.full("opens a proxy")
def test_a_table_of_earlier_data_says_so_and_a_dropped_one_is_gone(proxy: Proxy) -> None:
    publish(proxy)
    ask(proxy, "SELECT n FROM board")
    proxy.refresh()
    old = message(lambda: ask(proxy, "SELECT n FROM board"))
    assert "the data changed since" in old
    assert "publish it again" in old
    publish(proxy)
    assert ask(proxy, "SELECT n FROM board").receipt.charged.amount > 0  # type: ignore[union-attr]
    cubes.drop(proxy.ledger, "board", "wrong")
    assert "no table board" in message(lambda: ask(proxy, "SELECT n FROM board"))
    assert proxy.own_tables("ada") == ()


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (BOARD.replace("board", "visits"), Reason.BAD_OPTION),
        (BOARD.replace("board", '"a.b"'), Reason.BAD_OPTION),
        (BOARD.replace("income", "spent"), Reason.UNBOUNDED_INPUT),
        ("CREATE DP TABLE t AS SELECT 1 AS one", Reason.UNSUPPORTED_PRIVATE_OPERATOR),
        ("CREATE DP TABLE t AS SELECT income FROM people", Reason.RAW_ROWS),
        (TODAY, Reason.UNSUPPORTED_SYNTAX),
    ],
)
def test_what_cannot_be_published_is_refused_before_a_charge(
    shared_proxy: Proxy, text: str, reason: Reason
) -> None:
    assert refusal(lambda: publish(shared_proxy, text)).reason is reason
    assert spent(shared_proxy) == 0


LIMITS = "max_rows_per_unit = 4\nmax_rows_per_group = 2\nmax_groups_per_unit = 2\n"


@pytest.mark.full("opens a proxy for each item")
def test_a_table_whose_limits_would_be_searched_for_names_them(tmp_path: Path) -> None:
    """The fix is enough: what it names is declared, and the table is published."""
    visits = "CREATE DP TABLE t AS SELECT COUNT(*) AS n FROM visits"
    with opened(tmp_path, (LIMITS, "")) as proxy:
        assert refusal(lambda: publish(proxy, visits)).facts["fix"] == (
            "Its limits must not be searched for. Declare max_rows_per_unit in [tables.visits]."
        )
        assert spent(proxy) == 0
    with opened(tmp_path, (LIMITS, "max_rows_per_unit = 4\n"), data=False) as proxy:
        publish(proxy, visits)
        assert spent(proxy) > 0


def test_statements_about_published_tables_are_the_owners(shared_proxy: Proxy) -> None:
    publish_it = Request(BOARD, "ada")
    said = message(lambda: shared_proxy.ask(publish_it))
    assert "CREATE DP TABLE, which is the owner's" in said
    assert "DROP DP TABLE" in message(lambda: ask(shared_proxy, "DROP DP TABLE board"))


@pytest.mark.full("opens a proxy")
def test_nothing_counts_for_a_request_that_is_refused(proxy: Proxy) -> None:
    publish(proxy)
    for sql in ("SELECT m FROM board", "SELECT COUNT(*) FROM board, people", "SELECT n FROM bord"):
        refusal(partial(ask, proxy, sql))
    ask(proxy, "EXPLAIN SELECT n FROM board")
    assert proxy.ledger.shares() == ()
    assert Stopped(None, "cube board") not in proxy.ledger.stopped()


@pytest.mark.full("opens a proxy")
def test_rows_are_given_only_to_those_who_have_the_table(
    shared_proxy: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    publish(shared_proxy)
    monkeypatch.setattr("dpsql.systems.cubes.public_answers.shared", lambda *_: Loss(0))
    with pytest.raises(Failed):
        ask(shared_proxy, "SELECT n FROM board")
