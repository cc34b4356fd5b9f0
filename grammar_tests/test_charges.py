"""What is charged is answered: nothing that can be known beforehand fails after its charge."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from dpsql.proxy import Proxy
from grammar_tests.proxy_kit import request, shop

CONSTANTS = ("COALESCE(10, 5)", "0.5", "1 + 1")
WITHIN = "SELECT SUM(m) FROM (SELECT customer_id, {} AS m FROM orders GROUP BY customer_id) AS t"


@pytest.fixture(scope="module")
def proxy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Proxy]:
    with Proxy.open(str(shop(tmp_path_factory.mktemp("charges")))) as proxy:
        yield proxy


@pytest.mark.parametrize("condition", ["", " FILTER (WHERE income >= 0)"])
@pytest.mark.parametrize(
    ("column", "only"),
    [("segment", "consumer"), ("age", "30"), ("vip", "true"), ("joined", "2021-03-04")],
)
def test_a_choice_of_one_candidate_is_answered(
    proxy: Proxy, column: str, only: str, condition: str
) -> None:
    sql = f"SELECT MODE({column}){condition} FROM customers WHERE {column} = '{only}'"
    ((value,),) = proxy.ask(request(sql)).rows
    assert str(value).lower() == only.lower()


@pytest.mark.parametrize("constant", CONSTANTS)
@pytest.mark.parametrize("order", ["", " ORDER BY quantity DESC", " ORDER BY quantity, amount"])
@pytest.mark.parametrize("aggregate", ["MODE", "FIRST", "LAST"])
def test_a_constant_within_a_unit_is_answered(
    proxy: Proxy, aggregate: str, constant: str, order: str
) -> None:
    proxy.ask(request(WITHIN.format(f"{aggregate}({constant}{order})")))
