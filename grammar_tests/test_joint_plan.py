"""Statements at one price: as exact as alone, cheaper, and in agreement; or none of them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

import dpsql
from dpsql.answering import joint_plan
from dpsql.answering.together import AskTogether, PlanTogether
from dpsql.consistency.joint_shares import JointAnswer, JointShares
from dpsql.interfaces.cli import main
from dpsql.model.errors import Reason, Refused
from dpsql.model.vocabulary import Answer, Loss, Request
from dpsql.proxy import Proxy
from grammar_tests.laws import no_noise
from grammar_tests.test_from_memory import ALL, BY_BOTH, BY_PLAN, BY_SEX, OF_P1, opened, untrue
from grammar_tests.test_from_memory import folder as folder  # noqa: PLC0414 - a fixture

BY_BAND = "SELECT sex, band, COUNT(*) AS n FROM people GROUP BY sex, band"
MEDIAN = "SELECT MEDIAN(income) AS m FROM people"
BOARD = (BY_SEX, BY_BOTH, ALL, BY_PLAN, OF_P1, BY_BAND, BY_SEX.replace("AS n", "AS people"), MEDIAN)
"""Tables of the same rows, one of them twice, and what is shared by nothing else."""


@pytest.fixture(scope="module")
def proxy(folder: Path) -> Iterator[Proxy]:
    with opened(folder, "together") as proxy:
        yield proxy


def requests(statements: Sequence[str] = BOARD, analyst: str = "ana") -> list[Request]:
    return [Request(sql, analyst) for sql in statements]


def shares(*, combined: bool) -> list[JointAnswer]:
    """Answers of three measurements, of one each where no two of them are combined."""
    dice, listed = np.random.default_rng(5), []
    for n in range(5):
        used = np.ones(3) if combined else np.arange(3) == n % 3
        precisions = (dice.random((3, 4)) + 0.01) * used[:, None]
        known = dice.random(4) / 50 * combined
        listed.append(JointAnswer(dice.random(4) + 0.1, precisions, known))
    return listed


@pytest.mark.full("draws random questions or values")
@pytest.mark.parametrize(("order", "combined"), [(1, True), (2, False)])
def test_no_other_prices_near_these_are_better(order: int, combined: bool) -> None:  # noqa: FBT001
    joint, dice = (
        JointShares.of(shares(combined=combined), order, combined=combined),
        np.random.default_rng(6),
    )
    best, least = joint.best(2.0), joint.least()
    assert best.sum() == pytest.approx(2.0)
    assert joint.errors(least).max() == pytest.approx(1.0)
    for _ in range(200):
        other = np.maximum(best * np.exp(dice.normal(0, 0.1, 3)), 1e-9)
        other *= 2.0 / other.sum()
        assert joint.errors(best).sum() <= joint.errors(other).sum() * 1.002
        other = np.maximum(least * np.exp(dice.normal(0, 0.1, 3)), 1e-9)
        other = joint._enough(other)
        assert least.sum() <= other.sum() * (1.01 if combined else 1.05)


def dearer_or_worse(proxy: Proxy, statements: Sequence[str] = BOARD) -> list[str]:
    """What is wrong with a plan beside the same questions asked alone."""
    proxy.refresh()
    wrong, plan = [], proxy.run(PlanTogether(requests(statements)))
    if plan.price.amount >= 0.8 * plan.alone.amount:
        wrong.append("it is not much cheaper")
    before = proxy.ledger.spent("default")
    answers, receipt = proxy.run(AskTogether(requests(statements)))
    if proxy.ledger.spent("default") != before + plan.price or receipt.charged != plan.price:
        wrong.append("another price than was said")
    for sql, answer in zip(statements, answers, strict=True):
        fresh = proxy.explain(Request(with_off(sql), "pat")).expected
        pairs = [pair for row in answer.margins for pair in zip(row, fresh, strict=True)]
        if any(m > most * 1.005 for m, most in pairs if m is not None and most):
            wrong.append(f"less exact than alone: {sql}")
    if totals(answers[5]) != pytest.approx(totals(answers[0]), abs=4):
        wrong.append("they do not agree")
    again, paid = proxy.run(AskTogether(requests(statements)))
    if paid.charged != Loss(0) or [a.rows for a in again] != [a.rows for a in answers]:
        wrong.append("asked again, it is another answer, or not free")
    return wrong


def with_off(sql: str) -> str:
    return sql.replace("SELECT", "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(memory = 'off')", 1)


def totals(answer: Answer) -> dict[Any, int]:
    """The counts by sex."""
    result = dict[Any, int]()
    for row in answer.rows:
        result[row[0]] = result.get(row[0], 0) + row[-1]
    return result


@pytest.mark.full("processes are started and killed")
def test_together_is_cheaper_and_as_exact_and_agrees_and_is_told_again(proxy: Proxy) -> None:
    assert dearer_or_worse(proxy) == []


def at_half(*of: Any) -> Any:
    """Wrong: each measurement at half of its price."""
    compiler, payer, measures, amounts, rounding = of
    return AT(compiler, payer, measures, amounts / 2, rounding)


AT = joint_plan._at
WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "tables of its own for each": ({"from_memory.is_little": lambda *_: False}, "cheaper"),
    "not enough": ({"_suffice": lambda *_: True, "_at": at_half}, "less exact than alone"),
}


@pytest.mark.parametrize("twin", WRONG)
def test_wrong_plans_are_found(proxy: Proxy, monkeypatch: pytest.MonkeyPatch, twin: str) -> None:
    changes, what = WRONG[twin]
    for where, instead in changes.items():
        monkeypatch.setattr(f"dpsql.answering.joint_plan.{where}", instead)
    assert any(what in each for each in dearer_or_worse(proxy, BOARD[:-1]))


@pytest.mark.full("starts processes")
def test_without_noise_the_answers_are_the_engines(folder: Path) -> None:
    statements = [sql for sql in BOARD if sql != MEDIAN]
    with opened(folder, "together-exact") as proxy:
        proxy.vault.sampler = no_noise
        answers, _ = proxy.run(AskTogether(requests(statements)))
        assert untrue(folder, statements, answers) == []


@pytest.mark.full("starts processes")
def test_a_price_is_divided_for_the_least_relative_errors(proxy: Proxy) -> None:
    proxy.refresh()
    plan = proxy.run(PlanTogether(requests(), Decimal(1)))
    single = proxy.explain(Request(with_off(ALL), "ana", epsilon=Decimal(1)))
    assert 0.95 * single.charge.amount < plan.price.amount <= single.charge.amount
    assert {part.query.account.epsilon for part in plan.parts} != {Decimal("0.1")}
    _, receipt = proxy.run(AskTogether(requests(), Decimal(1)))
    assert receipt.charged == plan.price
    assert proxy.run(PlanTogether(requests(), Decimal(1))).price == Loss(0)
    with pytest.raises(Refused) as refused:
        proxy.run(PlanTogether(requests(analyst="pat"), Decimal("0.01")))
    assert refused.value.reason is Reason.BAD_OPTION


def test_errors_are_told_by_statement_and_nothing_is_charged(proxy: Proxy) -> None:
    proxy.refresh()
    bad = ("SELECT sex FROM people", BY_SEX, "SELECT COUNT(*) FROM nowhere")
    plan = proxy.run(PlanTogether(requests(bad)))
    reasons = [(number, refused.reason) for number, refused in plan.refusals]
    assert reasons == [(1, Reason.RAW_ROWS), (3, Reason.UNKNOWN_TABLE)]
    spent = proxy.ledger.spent("default")
    with pytest.raises(Refused) as refused:
        proxy.run(AskTogether(requests(bad)))
    assert refused.value.reason is Reason.RAW_ROWS
    assert proxy.ledger.spent("default") == spent


@pytest.mark.full("takes half a second and more")
def test_several_statements_with_private_keys_have_a_price_in_epsilon(proxy: Proxy) -> None:
    """Together their keys take the δ of more than one query."""
    by_city = "SELECT city, COUNT(*) AS n FROM people {} GROUP BY city"
    several = [by_city.format(f"WHERE income > {each}") for each in (20, 30, 40)]
    alone, *_, all_of_them = (
        proxy.run(PlanTogether(requests(several[:n]))).account.epsilon for n in (1, 2, 3)
    )
    assert Decimal(0) < alone < all_of_them < 10 * alone


@pytest.mark.full("opens a proxy for each item")
def test_bounds_of_columns_may_be_found_first(folder: Path) -> None:
    with opened(folder, "bounds first") as proxy:
        asked = requests(["SELECT SUM(spent) AS s FROM people", BY_SEX])
        plan = proxy.run(PlanTogether(asked))
        assert plan.refusals == ()
        answers, _receipt = proxy.run(AskTogether(asked))
        assert [len(each.rows) for each in answers] == [1, 2]
        assert proxy.ledger.spent("default").amount <= plan.price.amount


@pytest.mark.full("opens servers or connects clients")
def test_python_has_the_prices_and_the_answers(proxy: Proxy) -> None:
    proxy.refresh()
    with dpsql.connect(proxy=proxy, analyst="ana") as connection:
        plan = connection.plan([BY_SEX, BY_BOTH], within=200)
        rows = plan.prices.fetchall()
        assert [row[0] for row in rows] == [f"1: {BY_SEX}", f"2: {BY_BOTH}", "all"]
        assert "statements cost ε = " in repr(plan)
        by_sex, by_both = plan.ask()
        assert (len(by_sex.fetchall()), len(by_both.fetchall())) == (2, 6)
        assert all(m <= 200 for row in by_sex.margins for m in row if m is not None)
        assert connection.plan([BY_SEX], within=200).epsilon == 0
        with pytest.raises(dpsql.NotSupportedError, match="raw-rows"):
            connection.plan(["SELECT sex FROM people"]).ask()


@pytest.mark.full("starts processes")
def test_the_command_prices_a_file_and_asks_it_where_that_is_confirmed(folder: Path) -> None:
    file = folder / "board.sql"
    file.write_text(f"{BY_SEX};\n-- by both\n{BY_BOTH};\n", encoding="utf-8")
    with opened(folder, "command"):
        pass
    words = ["plan", str(file), "--policy", str(folder / "command.toml"), "--analyst", "ana"]
    priced = CliRunner().invoke(main, [*words, "--format", "json"])
    assert priced.exit_code == 0
    assert [row["together"] for row in json.loads(priced.stdout)][-1].startswith("ρ = ")
    assert "nothing was asked" in priced.stderr
    asked = CliRunner().invoke(main, [*words, "--format", "json", "--yes"])
    assert [len(rows) for rows in json.loads(asked.stdout)] == [2, 6]
    file.write_text(f"{BY_SEX}; SELECT sex FROM people", encoding="utf-8")
    wrong = CliRunner().invoke(main, words)
    assert wrong.exit_code == 3
    assert "statement 2:" in wrong.stderr
