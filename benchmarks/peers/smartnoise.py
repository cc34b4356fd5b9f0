"""SmartNoise SQL over DuckDB, for which it has no reader: this one is as thin as its others.

The random order by which it keeps some of a user's rows is a column here: DuckDB takes none that is
drawn within a window.
"""

from __future__ import annotations

import operator
import sys
from collections.abc import Callable
from typing import Any

import duckdb
from snsql import Privacy
from snsql.sql.private_reader import PrivateReader
from snsql.sql.reader.sqlite import SQLiteReader

from benchmarks.peers.common import Rows, main
from benchmarks.peers.questions import DELTA, EPSILON, LARGEST, ROWS, Question

_ORDER = {
    "ORDER BY RANDOM ( )": "ORDER BY drawn",
    "( SELECT user_id AS user_id": "( SELECT RANDOM() AS drawn, user_id AS user_id",
}


class _Reader(SQLiteReader):  # type: ignore[misc]
    """Reads from DuckDB, in the SQL that SmartNoise writes for SQLite."""

    def execute(self, query: str, *_ignored: Any, accuracy: bool = False) -> list[Any]:  # noqa: ARG002
        for theirs, here in _ORDER.items():
            query = query.replace(theirs, here)
        done = self.conn.execute(query)
        return [tuple(name for name, *_ in done.description), *done.fetchall()]


def answer(question: Question) -> Callable[[], Rows]:
    """With the largest ε of a measurement that by its own estimate costs no more than asked."""
    columns: dict[str, Any] = {
        "user_id": {"type": "int", "private_id": True},
        "country": {"type": "int"},
        "amount": {"type": "float", "lower": 0.0, "upper": LARGEST},
    }
    options = {
        "max_ids": question.most,
        "rows": ROWS,
        "censor_dims": True,
        "clamp_counts": False,
        "clamp_columns": True,
    }
    metadata = {"": {"": {"events": options | columns}}}
    connection = duckdb.connect(sys.argv[1], read_only=True)

    def reader(epsilon: float) -> Any:
        privacy = Privacy(epsilon=epsilon, delta=DELTA / 4)
        return PrivateReader(_Reader(connection), metadata, privacy)

    low, high = 0.0, EPSILON
    for _ in range(12):
        middle = (low + high) / 2
        cost = reader(middle).get_privacy_cost(question.sql)
        within = all(map(operator.le, cost, (EPSILON * 1.0001, DELTA)))
        low, high = (middle, high) if within else (low, middle)
    chosen = reader(low)

    def release() -> Rows:
        rows: Rows = chosen.execute(question.sql)[1:]
        return rows

    return release


if __name__ == "__main__":
    main(answer)
