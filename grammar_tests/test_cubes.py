"""Cubes: paid for once, free for those whose every limit was charged, and right."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from dpsql.answering import cubes
from dpsql.interfaces.cli import main
from dpsql.ledgers import PaidAnswer
from dpsql.model.errors import PolicyError, Reason, Refused
from dpsql.model.vocabulary import Cap, Loss, Request
from dpsql.policy.load import load
from dpsql.preparation.question import Account
from dpsql.proxy import Proxy
from grammar_tests.laws import no_noise
from grammar_tests.test_from_memory import ALL, BY_SEX, ask, charged, opened, untrue
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
    before, plan = proxy.ledger.spent("default"), proxy.explain_cube(CUBE, "default", "duckdb")
    assert proxy.create_cube(CUBE, "default", "duckdb").price == plan.price
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
    assert cube.create_cube(CUBE, "default", "duckdb").price == Loss(0)


def who_pays_nothing(proxy: Proxy) -> set[str]:
    """Who is answered of the cube for nothing, where a limit binds one analyst."""
    policy = proxy.policy
    cap = Cap("analyst ana", Decimal(10), Decimal("1e-7"), "default", frozenset({"ana"}))
    whole = Cap("all", Decimal(200), Decimal("1e-6"), "default", None)
    proxy.adopt(replace(policy, caps=(cap, whole)))
    try:
        return {name for name in ("ana", "bob") if not charged(ask(proxy, OF_HIGH, name))}
    finally:
        proxy.adopt(policy)


def test_who_has_a_limit_of_their_own_that_was_not_charged_pays(
    cube: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    has = Account.has

    def for_everybody(account: Account, paid: PaidAnswer) -> bool:
        """Wrong: whatever limits bind who asks."""
        return has(replace(account, caps=()), paid)

    with monkeypatch.context() as patch:
        patch.setattr(Account, "has", for_everybody)
        assert who_pays_nothing(cube) == {"ana", "bob"}
    assert who_pays_nothing(cube) == {"bob"}


def test_what_a_cube_tells_is_what_the_engine_says(folder: Path) -> None:
    statements = [BY_SEX, OF_HIGH, ALL, "SELECT band, SUM(income) AS s FROM people GROUP BY band"]
    with opened(folder, "cubes-exact") as exact:
        exact.vault.sampler = no_noise
        exact.create_cube(CUBE, "default", "duckdb")
        answers = [ask(exact, sql, "bob") for sql in statements]
    assert [charged(answer) for answer in answers] == [0, 0, 0, 0]
    assert untrue(folder, statements, answers) == []


@pytest.mark.full("processes are started and killed")
def test_what_is_dropped_answers_nothing_until_it_is_created_again(cube: Proxy) -> None:
    free = ask(cube, BY_SEX, "bob")
    cubes.drop(cube.ledger, "sold", "a wrong column")
    assert cubes.cubes(cube.ledger)[0].dropped
    assert cube.explain(Request(BY_SEX, "bob")).charge.amount > 0
    assert cube.create_cube(CUBE, "default", "duckdb").price == Loss(0)
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
        proxy.create_cube(text, "default", "duckdb")
    assert refused.value.reason is REFUSED[text]


def test_cubes_are_the_owners(proxy: Proxy, folder: Path) -> None:
    for statement in (CUBE, f"/* mine */ {CUBE}"):
        with pytest.raises(Refused):
            ask(proxy, statement)
    with pytest.raises(Refused, match="budget"):
        proxy.create_cube(CUBE, "plain", "duckdb")
    with pytest.raises(Refused, match="unknown-name"):
        proxy.create_cube(CUBE, None, "duckdb")
    path = folder / "named.toml"
    text = (folder / "cubes.toml").read_text(encoding="utf-8")
    path.write_text(text.replace("[analysts.ana]", '[analysts."cube sold"]'), encoding="utf-8")
    with pytest.raises(PolicyError, match="cube"):
        load(str(path))


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
        (suggestion,) = asked.suggest_cubes("plain", "duckdb")
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
