"""Series that a chart leaves out: groups that an earlier result rules out are not answered."""

from __future__ import annotations

import pytest

from dpsql.proxy import Proxy
from grammar_tests.proxy_kit import request

BEST = (
    "(SELECT status AS status__, COUNT(*) AS mme_inner__ FROM orders GROUP BY status "
    "{} ORDER BY mme_inner__ DESC LIMIT 2) AS series_limit"
)
LIMIT = BEST.format("")
NONE = BEST.format("HAVING COUNT(*) < -1000000")
COUNTS = "SELECT status, COUNT(*) AS n FROM orders"
BOTH = f"orders JOIN {LIMIT} ON status = status__"
VIRTUAL = "(SELECT o.status AS s, o.amount FROM orders AS o) AS virtual_table"


def statuses(proxy: Proxy, sql: str) -> set[str]:
    return {row[0] for row in proxy.ask(request(sql)).rows}


@pytest.mark.parametrize(
    "sql",
    [
        f"{COUNTS} JOIN {LIMIT} ON status = status__ GROUP BY status",
        f"{COUNTS} JOIN {LIMIT} ON status__ = status GROUP BY status",
        f"SELECT status__, COUNT(*) FROM orders JOIN {LIMIT} ON status = status__ GROUP BY 1",
        f"SELECT s, SUM(amount) FROM {VIRTUAL} JOIN {LIMIT} ON s = status__ GROUP BY s",
        f"SELECT status, YEAR(placed_at), COUNT(*) FROM {BOTH} GROUP BY 1, 2",
    ],
)  # fmt: skip
def test_a_series_limit_leaves_the_other_series_out(proxy: Proxy, sql: str) -> None:
    best = statuses(proxy, f"SELECT status__ FROM {LIMIT}")
    assert len(best) == 2
    assert len(statuses(proxy, sql)) == 2
    again = proxy.ask(request(sql))
    assert again.receipt is not None
    assert again.receipt.remembered
    assert {row[0] for row in again.rows} == statuses(proxy, sql)


@pytest.mark.full("opens a proxy for each item")
@pytest.mark.parametrize(
    ("sql", "count"),
    [
        (f"{COUNTS} JOIN {NONE} ON status = status__ GROUP BY status", 0),
        (f"{COUNTS} LEFT JOIN {LIMIT} ON status = status__ GROUP BY status", 3),
        (f"SELECT YEAR(placed_at), COUNT(*) FROM {BOTH} GROUP BY 1", 2),
    ],
)  # fmt: skip
def test_only_what_no_row_can_be_in_is_left_out(proxy: Proxy, sql: str, count: int) -> None:
    assert len(proxy.ask(request(sql)).rows) == count
