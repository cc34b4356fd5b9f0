"""Qrlew: one statement in the SQL of PostgreSQL, noise and all, which DuckDB takes as it is.

What it is told of the tables it reads from an empty twin of them and their number of rows.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from typing import Any

import duckdb
import sqlalchemy
from pyqrlew import Dataset, Dialect

from benchmarks.peers.common import Rows, main
from benchmarks.peers.questions import COUNTRIES, DELTA, EPSILON, LARGEST, ROWS, Question

TWIN = "CREATE TABLE events (user_id INTEGER NOT NULL, country INTEGER NOT NULL, amount FLOAT)"


def answer(question: Question) -> Callable[[], Rows]:
    """The rewriting is a part of the answer."""
    dataset, connection = _dataset(), duckdb.connect(sys.argv[1], read_only=True)

    def release() -> Rows:
        private = dataset.relation(question.sql).rewrite_with_differential_privacy(
            dataset,
            [("events", [], "user_id")],
            {"epsilon": EPSILON, "delta": DELTA},
            max_multiplicity=float(question.most),
            max_multiplicity_share=1.0,
            max_privacy_unit_groups=question.groups,
        )
        sql = private.relation().to_query(Dialect.PostgreSql)
        rows: Rows = connection.execute(sql).fetchall()
        return rows

    return release


def _dataset() -> Any:
    engine = sqlalchemy.create_engine("sqlite://")
    with engine.begin() as twin:
        twin.execute(sqlalchemy.text(TWIN))
        twin.execute(sqlalchemy.text("INSERT INTO events VALUES (1, 1, 1.0)"))
    seen = Dataset.from_database("events", engine)
    schema, size = json.loads(seen.schema), json.loads(seen.size or "")
    size["statistics"]["union"]["fields"][0]["statistics"]["struct"]["size"] = str(ROWS)
    specification = {
        "@type": "sarus_data_spec/sarus_data_spec.Dataset",
        "uuid": schema["dataset"],
        "name": "Transformed",
        "spec": {"transformed": {"transform": "", "arguments": [], "named_arguments": {}}},
    }
    dataset = Dataset.from_str(json.dumps(specification), json.dumps(schema), json.dumps(size))
    ranged = dataset.with_range(None, "events", "amount", 0.0, LARGEST)
    return ranged.with_range(None, "events", "country", 1, COUNTRIES)


if __name__ == "__main__":
    main(answer)
