"""`dpsql watch --explain` and `--nonnegative`: what is shown before anything is charged."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from dpsql.interfaces.cli import main
from dpsql.model.errors import Refused
from dpsql.model.vocabulary import Request
from dpsql.proxy import Proxy
from dpsql.systems.watch.monitor import ExplainWatch, Watch, WatchAll
from grammar_tests import proxy_kit

TWO = "SELECT segment, COUNT(*) AS n FROM customers GROUP BY 1; SELECT COUNT(*) FROM orders"
WISH = Watch("ana", Decimal(5), 2, Decimal("0.4"))


def requests(text: str) -> list[Request]:
    return [Request(sql, "ana") for sql in text.split(";")]


@pytest.mark.full("starts processes")
def test_the_price_is_what_watching_is_charged_and_nothing_runs(tmp_path: Path) -> None:
    proxy, engine = proxy_kit.watched(proxy_kit.shop(tmp_path), Proxy)
    with proxy:
        price = proxy.run(ExplainWatch(WISH, requests(TWO)))
        assert not engine.private()
        assert proxy.budgets()[0][1].amount == 0
        assert [len(stream.domain) for stream in price.streams] == [2, 1]
        found = proxy.run(WatchAll(WISH, requests(TWO)))
        assert found.receipt.charged == price.charge
        again = proxy.run(ExplainWatch(WISH, requests(TWO)))
        assert again.remembered
        assert again.charge.amount == 0


@pytest.mark.full("starts processes")
def test_what_watching_refuses_its_price_refuses(tmp_path: Path) -> None:
    with Proxy.open(str(proxy_kit.shop(tmp_path))) as proxy:
        for text in ("SELECT AVG(age) FROM customers", NAMED):
            with pytest.raises(Refused):
                proxy.run(ExplainWatch(WISH, requests(text)))


NAMED = "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(mechanism = 'laplace') COUNT(*) FROM orders"


def command(folder: Path, *words: str) -> Any:
    path = folder / "shop" / "dpsql.toml"
    if not path.exists():
        proxy_kit.shop(folder / "shop")
    whole = [*words, "--policy", str(path), "--analyst", "ana"]
    done = CliRunner().invoke(main, whole)
    assert done.exit_code == 0, done.stderr
    return done


@pytest.mark.full("starts processes")
def test_the_command_shows_price_and_noise(tmp_path: Path) -> None:
    (tmp_path / "q.sql").write_text(TWO)
    options = ("--threshold", "5", "--alarms", "2", "--epsilon", "0.4", "--explain")
    done = command(tmp_path, "watch", str(tmp_path / "q.sql"), *options)
    lines = done.stdout.splitlines()
    assert lines[0] == "Watching 2 statements, 3 queries in all, until 2 of them are at or above 5."
    assert lines[1] == "Charge: ε = 0.4 however many are below, ρ = 0.08 (zcdp)."
    # b1 = (1 + 2^(2/3))/ε and b2 = 2·(1 + 2^(-2/3))/ε, each times ln 20.
    assert [row.split() for row in lines[-2:]] == [
        ["1", "2", "1", "19", "24"],
        ["2", "1", "10", "190", "240"],
    ]
    assert "cost" not in done.stderr


@pytest.mark.full("starts processes")
def test_nonnegative_on_the_command_line_is_the_option_of_the_text(tmp_path: Path) -> None:
    sql = "SELECT COUNT(*) AS n FROM customers WHERE city = 'nowhere at all'"
    for n in range(40):  # about half of the draws are below zero
        text = f"{sql} AND age <> {n}"
        plain = command(tmp_path, "query", text, "--format", "csv", "--epsilon", "0.01").stdout
        lifted = command(
            tmp_path, "query", text, "--nonnegative", "--format", "csv", "--epsilon", "0.01"
        )
        first, second = (int(out.splitlines()[1].split(",")[0]) for out in (plain, lifted.stdout))
        assert second == max(0, first), "remembered, and shown as zero where it is below"
        assert "remembered" in lifted.stderr
        if first < 0:
            return
    pytest.fail("no count was below zero")
