"""Accuracy first: the epsilon that an error costs, found before or with the data."""

from __future__ import annotations

import re
from dataclasses import replace
from decimal import Decimal
from pathlib import Path

import numpy as np
import pytest

from dpsql.answering import precision
from dpsql.interfaces.messages import describe
from dpsql.model.errors import Reason, Refused
from dpsql.model.query_options import Precision
from dpsql.model.tree import INTEGER
from dpsql.model.vocabulary import Answer, Column, Request
from dpsql.proxy import Proxy
from grammar_tests import proxy_kit

COUNT = "SELECT COUNT(*) AS n FROM customers"
BY_COUNTRY = "SELECT country, COUNT(*) AS n, SUM(age) AS s FROM customers GROUP BY country"
MEAN = "SELECT AVG(age) AS a FROM customers"
ANY_PRICE = ("query_delta = 1e-6", "query_delta = 1e-6\nmin_query_charge = 0")


@pytest.fixture
def proxy(tmp_path: Path) -> Proxy:
    return Proxy.open(str(proxy_kit.shop(tmp_path, ANY_PRICE)))


def within(sql: str, error: str, confidence: str = "0.95") -> Request:
    relative = error.endswith("%")
    number = Decimal(error.removesuffix("%"))
    wanted = Precision(number / 100 if relative else number, relative, Decimal(confidence))
    return replace(proxy_kit.request(sql), precision=wanted)


def with_noise_300(path: Path) -> Proxy:
    """A proxy whose noise is always 300, so that no price depends on a draw."""
    opened = Proxy.open(str(path))
    opened.vault.sampler = lambda _noise, count: np.full(count, 300)
    return opened


def margins_within(answer: Answer, fraction: float) -> bool:
    ((value,),), ((margin,),) = answer.rows, answer.margins
    return margin is not None and margin <= fraction * float(value)


def epsilon_of(answer: Answer) -> Decimal:
    assert answer.receipt is not None
    return answer.receipt.epsilon


def spent(proxy: Proxy) -> int:
    return proxy.budgets()[0][1].amount


@pytest.mark.full("draws random questions or values")
@pytest.mark.parametrize(("sql", "error"), [(COUNT, "40"), (COUNT, "25"), (BY_COUNTRY, "3000")])
def test_the_smallest_epsilon_that_promises_the_error(proxy: Proxy, sql: str, error: str) -> None:
    with proxy:
        answer = proxy.ask(within(sql, error))
        margins = [m for row in answer.margins for m in row if m is not None]
        assert max(margins) <= float(error)
        less = epsilon_of(answer) * Decimal("0.95")
        cheaper = proxy.explain(proxy_kit.request(sql, str(less)))
        widest = max(line.margin for block in cheaper.blocks for line in block.releases)
        assert widest > float(error)


@pytest.mark.full("draws random questions or values")
def test_more_confidence_costs_more(proxy: Proxy) -> None:
    with proxy:
        prices = [proxy.explain(within(COUNT, "40", c)).epsilon for c in ("0.8", "0.95", "0.999")]
        assert prices == sorted(prices)
        assert prices[0] < prices[2] / 2


@pytest.mark.full("draws random questions or values")
def test_options_say_it_in_sql(tmp_path: Path) -> None:
    text = "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(max_error = 40{}) COUNT(*) AS n FROM customers"
    with with_noise_300(proxy_kit.shop(tmp_path, ANY_PRICE)) as proxy:
        price = proxy.explain(within(COUNT, "40")).epsilon
        assert proxy.explain(proxy_kit.request(text.format(""))).epsilon == price
        surer = proxy.explain(proxy_kit.request(text.format(", confidence = 0.999"))).epsilon
        assert surer == proxy.explain(within(COUNT, "40", "0.999")).epsilon > price
        share = text.replace("40", "'12%'").format("")
        answer = proxy.ask(proxy_kit.request(share))
        assert margins_within(answer, 0.12)


@pytest.mark.full("draws random questions or values")
def test_a_price_beyond_the_policy_is_named_and_nothing_is_charged(proxy: Proxy) -> None:
    with proxy:
        before = spent(proxy)
        with pytest.raises(Refused) as caught:
            proxy.ask(within(COUNT, "0.5"))
        assert caught.value.reason is Reason.EPSILON_TOO_LARGE
        price, limit = caught.value.facts["epsilon"], caught.value.facts["limit"]
        assert isinstance(price, Decimal)
        assert isinstance(limit, Decimal)
        assert price > limit
        gives = re.search(r"the largest ± is ([0-9.]+) then", str(describe(caught.value)))
        assert gives is not None
        assert float(gives[1]) > 0.5
        assert spent(proxy) == before


@pytest.mark.full("draws random questions or values")
def test_an_error_that_data_decide_is_refused_before_they_are_read(proxy: Proxy) -> None:
    with proxy:
        before = spent(proxy)
        with pytest.raises(Refused) as caught:
            proxy.ask(within(MEAN, "2"))
        assert "depends on the data" in str(caught.value.facts["why"])
        assert spent(proxy) == before


def test_a_relative_error_is_found_step_by_step_and_kept(tmp_path: Path) -> None:
    """Values that are known after the first step: the price of the second follows from them."""
    with with_noise_300(proxy_kit.shop(tmp_path, ANY_PRICE)) as proxy:
        answer = proxy.ask(within(COUNT, "12%"))
        assert margins_within(answer, 0.12)
        first = proxy.ledger.history(limit=10)[-1]
        assert first.epsilon < epsilon_of(answer)
        again = proxy.ask(within(COUNT, "12%"))
        assert again.receipt is not None
        assert again.receipt.remembered
        with pytest.raises(Refused) as caught:
            proxy.ask(within(COUNT, "0.1%"))
        assert caught.value.reason is Reason.EPSILON_TOO_LARGE
        words = str(describe(caught.value))
        assert re.search(r"errs by about [0-9.]+ %\. What was spent to see this stays spent", words)


@pytest.mark.full("draws random questions or values")
def test_what_has_no_known_error_has_no_price(proxy: Proxy) -> None:
    with proxy, pytest.raises(Refused) as caught:
        proxy.ask(within("SELECT MEDIAN(age) AS m FROM customers", "5%"))
    assert "not known" in str(caught.value.facts["why"])
    assert "stays spent" in str(caught.value.facts["fix"])


@pytest.mark.full("draws random questions or values")
@pytest.mark.parametrize(
    ("option", "why"),
    [
        ("max_error = 0", "positive"),
        ("max_error = '5'", "text like"),
        ("max_error = '-5%'", "text like"),
        ("confidence = 0.9", "no max_error"),
        ("max_error = 5, confidence = 2", "between"),
        ("max_error = 5, epsilon = 0.1", "asked for too"),
    ],
)
def test_wishes_without_sense_are_refused(proxy: Proxy, option: str, why: str) -> None:
    text = f"SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS({option}) COUNT(*) AS n FROM customers"
    with proxy, pytest.raises(Refused) as caught:
        proxy.ask(proxy_kit.request(text))
    assert caught.value.reason is Reason.BAD_OPTION
    assert why in str(caught.value.facts["why"])


def test_an_accuracy_finds_the_epsilon_of_all_aggregates(proxy: Proxy) -> None:
    text = "SELECT WITH DIFFERENTIAL_PRIVACY COUNT(*, epsilon => 0.1) AS n FROM customers"
    with proxy, pytest.raises(Refused) as caught:
        proxy.ask(within(text, "50"))
    assert caught.value.facts["why"] == "epsilon is asked for too"


def test_options_that_are_zero_or_empty_are_read(tmp_path: Path) -> None:
    with Proxy.open(str(proxy_kit.shop(tmp_path))) as proxy:
        for option in ("confidence = 0", "max_error = ''"):
            with pytest.raises(Refused):
                proxy.ask(proxy_kit.request(f"SELECT COUNT(*) FROM orders OPTIONS({option})"))


@pytest.mark.full("draws random questions or values")
def test_an_absolute_error_holds_for_groups_near_the_threshold(tmp_path: Path) -> None:
    """The customers of a city are few: their number is shown, if noise is large enough."""
    cities, error = "SELECT city, COUNT(*) AS n FROM customers GROUP BY city", 9.0
    shown: list[float] = []
    with Proxy.open(str(proxy_kit.shop(tmp_path, ANY_PRICE))) as proxy:
        epsilon = proxy.explain(within(cities, str(error))).epsilon
        for more in range(6):
            proxy.vault.sampler = lambda _noise, count, more=more: np.full(count, more)
            sql = cities.replace("SELECT", "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(memory='off')")
            answer = proxy.ask(proxy_kit.request(sql, str(epsilon)))
            shown += [float(row[-1] or 0) for row in answer.margins]
        (of_noise,) = proxy.explain(within(cities, "9")).blocks[0].releases
    assert of_noise.margin < 0.8 * max(shown)
    assert max(shown) <= error


@pytest.mark.full("draws random questions or values")
def test_an_absolute_error_needs_declared_limits(tmp_path: Path) -> None:
    limits = ("max_rows_per_unit = 50\nmax_groups_per_unit = 3\nmax_rows_per_group = 10\n", "")
    with Proxy.open(str(proxy_kit.shop(tmp_path, ANY_PRICE, limits))) as proxy:
        with pytest.raises(Refused) as caught:
            proxy.explain(within("SELECT COUNT(*) AS n FROM orders", "200"))
        assert "limits that are found" in str(caught.value.facts["why"])


def test_a_relative_error_counts_what_a_limit_may_leave_out() -> None:
    columns = (Column("n", INTEGER),)
    wide = Answer(columns, ((1000,),), ((20.0,),), ((90.0,),))
    assert precision._worst(wide, (0.0,), "") == 0.09
    assert precision._worst(wide, (1.0,), "") == 0.11  # more confidence
    assert precision._worst(replace(wide, margins=((40.0,),)), (0.0,), "") == 0.04
