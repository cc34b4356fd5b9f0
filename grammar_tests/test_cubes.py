"""Cubes: paid for once, free for those whose every limit was charged, and right."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from dpsql.answering.together import AskTogether, PlanTogether
from dpsql.interfaces.cli import main
from dpsql.interfaces.messages import describe
from dpsql.ledgers import PaidAnswer, Stopped
from dpsql.ledgers.sqlite import SqliteLedger
from dpsql.model.errors import PolicyError, Reason, Refused
from dpsql.model.vocabulary import Loss, Request
from dpsql.policy.load import load
from dpsql.preparation.question import Account
from dpsql.proxy import Proxy
from dpsql.systems.cubes import cubes
from dpsql.systems.cubes.cube_suggestions import SuggestCubes
from dpsql.systems.cubes.cubes import CreateCube, ExplainCube
from grammar_tests.laws import no_noise
from grammar_tests.ledger_kit import ANSWER, charge, exit_code, forked
from grammar_tests.test_from_memory import ALL, BY_SEX, POLICY, ask, charged, opened, untrue
from grammar_tests.test_from_memory import folder as folder  # noqa: PLC0414 - a fixture

CUBE = (
    "CREATE DP CUBE sold AS SELECT sex, band, COUNT(*) AS n, SUM(income) AS s FROM people "
    "GROUP BY CUBE (sex, band) OPTIONS(epsilon = 1)"
)
OF_HIGH = "SELECT sex, COUNT(*) AS n FROM people WHERE band = 'high' GROUP BY sex"


@pytest.fixture(scope="module")
def proxy(folder: Path) -> Iterator[Proxy]:
    with opened(folder, "cubes") as proxy:
        yield proxy


@pytest.fixture(scope="module")
def cube(proxy: Proxy) -> Proxy:
    """With a cube of the first budget."""
    before, plan = proxy.ledger.spent("default"), proxy.run(ExplainCube(CUBE, "default", "duckdb"))
    assert proxy.run(CreateCube(CUBE, "default", "duckdb")).price == plan.price
    assert proxy.ledger.spent("default") == before + plan.price
    return proxy


@pytest.mark.full("processes are started and killed")
def test_a_cube_is_charged_once_and_free_for_all_analysts_of_its_budget(cube: Proxy) -> None:
    one = cube.explain(Request(ALL, "pat", epsilon=Decimal(1)))
    assert 0.9 * one.charge.amount < cubes.cubes(cube.ledger)[0].spent.amount
    for analyst in ("ana", "bob"):
        for sql in (BY_SEX, OF_HIGH, ALL, "SELECT SUM(income) AS s FROM people WHERE sex = 'f'"):
            answer = ask(cube, sql, analyst)
            assert answer.receipt is not None
            assert (charged(answer), answer.receipt.recalled) == (0, 100)
    assert charged(ask(cube, BY_SEX, "kim")) > 0
    assert charged(ask(cube, "SELECT plan, COUNT(*) AS n FROM people GROUP BY plan")) > 0
    assert cube.run(CreateCube(CUBE, "default", "duckdb")).price == Loss(0)


# --- who receives it ---

CAPPED = """
[analysts.dan]
budget = "default"
epsilon = 0.01

[analysts.ada]
budget = "default"
epsilon = 10

[analysts.ben]
budget = "default"

[analysts.cem]
budget = "default"

[groups.team]
analysts = ["ben", "cem"]
budget = "default"
epsilon = 12

[ledger]
"""
EVERYBODY = ("ada", "ana", "ben", "bob", "cem")


@contextmanager
def capped(folder: Path, name: str, *, new: bool = True) -> Iterator[Proxy]:
    """A proxy whose analysts have limits of their own and in a group, with a new cube."""
    path = folder / f"{name}.toml"
    text = POLICY.replace("\n[ledger]\n", CAPPED).replace("dpsql.ledger", f"{name}.ledger")
    path.write_text(text, encoding="utf-8")
    with Proxy.open(str(path)) as proxy:
        if new:
            proxy.run(CreateCube(CUBE, "default", "duckdb"))
        yield proxy


def spent(proxy: Proxy, *analysts: str) -> int:
    return proxy.ledger.spent("default", frozenset(analysts) if analysts else None).amount


def miscounted(proxy: Proxy) -> list[str]:
    """Limits that count another sum than the cube once, though all receive all of its tables."""
    pot = spent(proxy)
    for sql in (BY_SEX, OF_HIGH, ALL):
        for analyst in EVERYBODY:
            ask(proxy, sql, analyst)
    whole = cubes.cubes(proxy.ledger)[0].spent.amount
    each = [who for who in EVERYBODY if spent(proxy, who) != whole]
    return [
        *each,
        *["team"] * (spent(proxy, "ben", "cem") != whole),
        *["pot"] * (spent(proxy) != pot),
    ]


@pytest.mark.full("opens a proxy for each item")
def test_the_first_receipt_is_one_entry_that_all_limits_of_an_analyst_count(folder: Path) -> None:
    with capped(folder, "received") as proxy:
        whole = cubes.cubes(proxy.ledger)[0].spent
        prices = {
            who: proxy.explain(Request(BY_SEX, who)).charge.amount for who in ("ada", "ben", "bob")
        }
        assert prices == {"ada": whole.amount, "ben": whole.amount, "bob": 0}
        (note,) = [n for n in proxy.explain(Request(BY_SEX, "bob")).notes if "sold" in n]
        assert note.endswith("nothing is paid again.")
        assert proxy.ledger.shares() == ()  # EXPLAIN writes nothing
        told = ask(proxy, BY_SEX, "ada")
        assert charged(told) == whole.amount
        assert proxy.explain(Request(OF_HIGH, "ada")).charge.amount == 0
        assert miscounted(proxy) == []
    with capped(folder, "received", new=False) as proxy:
        assert miscounted(proxy) == []
        entries = proxy.ledger.shares()
        assert {(e.analyst, e.cube, e.loss) for e in entries} == {
            (who, "sold", whole) for who in EVERYBODY
        }
        assert len(entries) == len(EVERYBODY)
        assert {len(e.query_id.split()) for e in entries} == {4}
        assert ask(proxy, BY_SEX, "ada").rows == told.rows


def has_all(account: Account, paid: PaidAnswer) -> bool:
    """Wrong: a cube is everybody's, without an entry."""
    return account.analyst in paid.holders or bool(paid.cube)


def one_table(paid: PaidAnswer) -> PaidAnswer:
    """Wrong: each table by itself."""
    return replace(paid, whole=None)


@pytest.mark.parametrize("name", ["has", "lent"])
def test_wrong_twin_a_cube_that_is_not_entered_or_in_parts(
    folder: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    if name == "has":
        monkeypatch.setattr(Account, "has", has_all)
    else:
        monkeypatch.setattr(PaidAnswer, "lent", property(one_table))
    with capped(folder, f"wrong-{name}") as proxy:
        assert {"ada", "bob"} <= set(miscounted(proxy))


@pytest.mark.full("opens a proxy for each item")
def test_who_cannot_pay_for_a_cube_is_refused_and_charged_nothing(folder: Path) -> None:
    with capped(folder, "refused") as proxy:
        before = spent(proxy), proxy.ledger.shares()
        with pytest.raises(Refused) as refused:
            ask(proxy, BY_SEX, "dan")
        assert refused.value.reason is Reason.BUDGET_EXHAUSTED
        message = describe(refused.value, BY_SEX)
        assert message.headline == "The limit of analyst dan cannot pay for cube sold."
        assert "memory = 'off'" in message.fix
        assert (spent(proxy), proxy.ledger.shares()) == before
        assert spent(proxy, "dan") == 0
        proxy.ledger.stop(Stopped(None, "bob"), "a reason")
        with pytest.raises(Refused) as refused:
            ask(proxy, BY_SEX, "bob")
        assert refused.value.reason is Reason.STOPPED_BY_OWNER


@pytest.mark.full("opens a proxy for each item")
def test_statements_at_one_price_receive_a_cube_that_is_free(folder: Path) -> None:
    with capped(folder, "plans") as proxy:
        whole = cubes.cubes(proxy.ledger)[0].spent.amount
        for analyst, free in (("bob", True), ("ada", False)):
            requests = [Request(sql, analyst) for sql in (BY_SEX, ALL)]
            plan = proxy.run(PlanTogether(requests))
            assert (plan.price == Loss(0)) == free
            assert len(proxy.ledger.shares(analyst)) == 0
            proxy.run(AskTogether(requests))
            assert len(proxy.ledger.shares(analyst)) == free
        assert spent(proxy, "bob") == whole
        assert charged(ask(proxy, BY_SEX, "bob")) == 0
        assert len(proxy.ledger.shares("bob")) == 1


@pytest.mark.full("opens a proxy for each item")
def test_what_is_measured_later_is_entered_once_more(folder: Path) -> None:
    more = CUBE.replace("(sex, band)", "(sex, band, vip)").replace("sex, band,", "sex, band, vip,")
    with capped(folder, "grown") as proxy:
        ask(proxy, BY_SEX, "bob")
        proxy.run(CreateCube(more, "default", "duckdb"))
        ask(proxy, "SELECT vip, sex, COUNT(*) AS n FROM people GROUP BY vip, sex", "bob")
        ask(proxy, ALL, "bob")
        whole = cubes.cubes(proxy.ledger)[0].spent.amount
        assert len(proxy.ledger.shares("bob")) == 2
        assert spent(proxy, "bob") == whole


@pytest.mark.full("draws random questions or values")
def test_two_processes_enter_a_cube_once(tmp_path: Path) -> None:
    path = tmp_path / "dpsql.ledger"
    with closing(SqliteLedger.open(str(path))) as ledger:
        tables = [charge(f"q{n}", analyst="cube c", loss=Loss(n)) for n in (1, 2, 3)]
        ledger.charge(*tables)
        for table in tables:
            ledger.remember(table.query_id, ANSWER)
        (start, go), asked = os.pipe(), charge("", analyst="ana", loss=Loss(0))

        def receive() -> None:
            os.read(start, 1)
            with closing(SqliteLedger.open(str(path))) as own:
                own.share(["q2"], asked)

        children = [forked(receive) for _ in range(4)]
        os.write(go, b"1234")
        assert [exit_code(child) for child in children] == [0] * 4
        (entry,) = ledger.shares()
        assert (entry.cube, entry.query_id, entry.loss) == ("c", "q1 q2 q3", Loss(6))
        assert (entry.before, ledger.spent(None, frozenset({"ana"}))) == (("cube c",), Loss(6))
        ledger.verify()


@pytest.mark.full("opens a proxy for each item")
def test_what_a_cube_tells_is_what_the_engine_says(folder: Path) -> None:
    statements = [BY_SEX, OF_HIGH, ALL, "SELECT band, SUM(income) AS s FROM people GROUP BY band"]
    with opened(folder, "cubes-exact") as exact:
        exact.vault.sampler = no_noise
        exact.run(CreateCube(CUBE, "default", "duckdb"))
        answers = [ask(exact, sql, "bob") for sql in statements]
    assert [charged(answer) for answer in answers] == [0, 0, 0, 0]
    assert untrue(folder, statements, answers) == []


@pytest.mark.full("processes are started and killed")
def test_what_is_dropped_answers_nothing_until_it_is_created_again(cube: Proxy) -> None:
    free = ask(cube, BY_SEX, "bob")
    cubes.drop(cube.ledger, "sold", "a wrong column")
    assert cubes.cubes(cube.ledger)[0].dropped
    assert cube.explain(Request(BY_SEX, "bob")).charge.amount > 0
    assert cube.run(CreateCube(CUBE, "default", "duckdb")).price == Loss(0)
    assert ask(cube, BY_SEX, "bob").rows == free.rows
    with pytest.raises(Refused) as refused:
        cubes.drop(cube.ledger, "solt", "a slip")
    assert refused.value.facts["near"] == "sold"


REFUSED = {
    "CREATE DP CUBE c AS SELECT sex, COUNT(*) FROM people GROUP BY sex": Reason.SYNTAX,
    "CREATE DP CUBE c AS SELECT sex FROM people GROUP BY CUBE (sex)": Reason.SYNTAX,
    "CREATE DP CUBE c AS SELECT COUNT(*) FROM people GROUP BY CUBE ()": Reason.SYNTAX,
    "SELECT 1": Reason.SYNTAX,
    "CREATE DP CUBE c AS SELECT city, COUNT(*) FROM people GROUP BY CUBE (city)": (
        Reason.UNSUPPORTED_PRIVATE_OPERATOR
    ),
    "CREATE DP CUBE c AS SELECT kind, COUNT(*) FROM visits GROUP BY CUBE (kind)": (
        Reason.UNSUPPORTED_PRIVATE_OPERATOR
    ),
    "CREATE DP CUBE c AS SELECT COUNT(*) FROM people GROUP BY CUBE (sex, plan, band, region, vip,"
    " city, income)": Reason.TOO_LARGE,
}


@pytest.mark.parametrize("text", REFUSED)
def test_what_answers_no_question_is_refused_before_it_is_paid(proxy: Proxy, text: str) -> None:
    with pytest.raises(Refused) as refused:
        proxy.run(CreateCube(text, "default", "duckdb"))
    assert refused.value.reason is REFUSED[text]


def test_cubes_are_the_owners(proxy: Proxy, folder: Path) -> None:
    for statement in (CUBE, f"/* mine */ {CUBE}"):
        with pytest.raises(Refused):
            ask(proxy, statement)
    with pytest.raises(Refused, match="budget"):
        proxy.run(CreateCube(CUBE, "plain", "duckdb"))
    with pytest.raises(Refused, match="unknown-name"):
        proxy.run(CreateCube(CUBE, None, "duckdb"))
    path = folder / "named.toml"
    text = (folder / "cubes.toml").read_text(encoding="utf-8")
    path.write_text(text.replace("[analysts.ana]", '[analysts."cube sold"]'), encoding="utf-8")
    with pytest.raises(PolicyError, match="cube"):
        load(str(path))


@pytest.mark.full("opens a proxy")
def test_what_a_cube_would_have_saved_is_told_without_data(folder: Path) -> None:
    with opened(folder, "asked") as asked:
        questions = [
            Request(sql.replace("high", band), "pat")
            for sql in (BY_SEX, OF_HIGH, OF_HIGH.replace("sex,", "sex, vip,"))
            for band in ("high", "low")
        ]
        spent = sum(charged(asked.ask(request)) for request in questions[1:4])
        asked.ask(Request("SELECT COUNT(*) FROM people WHERE income > 50", "pat"))
        asked.vault.engine.close()
        (suggestion,) = asked.run(SuggestCubes("plain", "duckdb"))
        assert (suggestion.questions, suggestion.spent.amount) == (3, spent)
        assert suggestion.price.amount < spent
        assert suggestion.text == (
            'CREATE DP CUBE cube_1 AS SELECT "sex", "band", COUNT(*) FROM people '
            'GROUP BY CUBE ("sex", "band")'
        )


@pytest.mark.full("processes are started and killed")
def test_the_commands_make_list_show_and_drop_cubes(folder: Path) -> None:
    with opened(folder, "commands"):
        pass
    policy = ["--policy", str(folder / "commands.toml")]

    def done(*words: str) -> Any:
        result = CliRunner().invoke(main, ["cube", *words, *policy])
        assert result.exit_code == 0, result.output
        return result

    text = "CREATE DP CUBE sold AS SELECT sex, COUNT(*) AS n FROM people GROUP BY CUBE (sex)"
    assert "nothing was measured" in done("create", text, "--budget", "default").stderr
    assert "There is no cube." in done("list").stderr
    assert "tables" in done("create", text, "--budget", "default", "--yes").stderr
    assert "SELECT sex, COUNT(*) AS n" in done("show", "sold").stdout
    done("drop", "sold", "--reason", "it is over")
    assert "dropped" in done("list").stdout
