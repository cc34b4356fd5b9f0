"""What every program of this folder asks, and how it tells."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from typing import Any

CODES = "SELECT code FROM countries ORDER BY code"
CONSTANTS = (
    "SELECT TRUE AS b, CAST(7 AS BIGINT) AS i, 1.50 AS d, CAST('0.1' AS DOUBLE PRECISION) AS f,"
    " CAST('é''' AS TEXT) AS t, DATE '2024-02-29' AS day, TIMESTAMP '2024-02-29 12:30:00.25' AS ts,"
    " TIMESTAMPTZ '2024-02-29 12:30:00+00' AS tz, CAST(NULL AS BIGINT) AS nothing"
)
BY_SEGMENT = (
    "SELECT segment, COUNT(*) AS n, CAST(AVG(age) AS DOUBLE PRECISION) AS mean FROM customers"
    " WHERE age > {} GROUP BY segment ORDER BY segment"
)
OF_ORDERS = (
    "SELECT COUNT(*) AS n FROM orders WHERE placed_at >= {} AND status = {} AND amount < {}"
    " AND discount IS DISTINCT FROM {}"
)
SLOW = "SELECT COUNT(*) AS n FROM events WHERE duration > 60"
NOISY = ("n", "mean")


def tell(did: str, told: Any) -> None:
    """One line of JSON; what JSON does not know is told by its Python text."""
    sys.stdout.write(json.dumps({"did": did, "told": told}, default=repr) + "\n")


def quiet(names: list[str], rows: list[Any]) -> list[Any]:
    """Rows in which a noisy value is only its type."""
    return [
        [
            type(value).__name__ if name in NOISY else value
            for name, value in zip(names, row, strict=True)
        ]
        for row in rows
    ]


def until_done(work: Callable[[], Any], interrupt: Callable[[], None]) -> Any:
    """The outcome of work in a thread, interrupted again and again until it ends."""
    with ThreadPoolExecutor(1) as threads:
        running = threads.submit(work)
        while not wait([running], 0.1).done:
            interrupt()
        return running.result()
