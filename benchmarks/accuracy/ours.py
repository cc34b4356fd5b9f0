"""dpsql's answers, through its proxy and the accountant an owner would choose for the question."""

from __future__ import annotations

import tempfile
from pathlib import Path

import duckdb

from benchmarks.accuracy.errors import Release
from benchmarks.accuracy.questions import BOUNDS, DELTA, EPSILON, VALUES, Question, Where
from dpsql.model.vocabulary import Request
from dpsql.owner.check import check_policy
from dpsql.proxy import Proxy

POLICY = """
[database]
engine = "duckdb"
[database.files]
people = "{data}"
[privacy_unit]
table = "people"
key = "person_id"
[tables.people]
access = "private"
key = "person_id"
[tables.people.columns]
person_id = {{}}
{columns}
[budgets.default]
epsilon = 1e6
delta = {all_delta}
accountant = "{accountant}"
query_epsilon = {epsilon}
max_query_epsilon = {epsilon}
query_delta = {delta}
[analysts.ana]
budget = "default"
[ledger]
path = "adult.ledger"
"""


def sql_of(question: Question) -> str:
    """The question as one statement: conditions as FILTER, or WHERE where there is one measure."""
    keys = ", ".join(question.keys)
    shown = [f"{m.sql}{_filter(m.where)} AS m{n}" for n, m in enumerate(question.measures)]
    head = f"SELECT {', '.join([*question.keys, *shown])} FROM people"
    return f"{head} GROUP BY {keys}" if keys else head


def _filter(where: Where | None) -> str:
    if where is None:
        return ""
    column, operator, value = where
    literal = f"'{value}'" if isinstance(value, str) else value
    return f" FILTER (WHERE {column} {operator} {literal})"


def truth(question: Question, data: Path) -> Release:
    """The exact answer."""
    rows = duckdb.connect().execute(sql_of(question).replace("people", f"'{data}'")).fetchall()
    return _by_key(question, rows)


def rows(data: Path) -> int:
    """How many people there are."""
    found = duckdb.connect().execute(f"SELECT COUNT(*) FROM '{data}'").fetchone()
    assert found is not None
    return int(found[0])


def releases(question: Question, data: Path, count: int) -> list[Release]:
    """`count` independent answers. Raises `Refused` where dpsql cannot express the question."""
    with tempfile.TemporaryDirectory() as folder:
        policy = _policy(question, data, Path(folder))
        # The owner's word that person_id is unique: without it, each unit is aggregated first.
        check_policy(policy, record=True)
        with Proxy.open(policy) as proxy:
            answers = []
            for _ in range(count):
                proxy.ledger.refresh()
                rows = proxy.ask(Request(sql_of(question), "ana")).rows
                answers.append(_by_key(question, tuple(rows)))
            return answers


def _policy(question: Question, data: Path, folder: Path) -> str:
    columns = [f"{name} = {{ bounds = [{low}, {high}] }}" for name, (low, high) in BOUNDS.items()]
    conditions = {m.where[0] for m in question.measures if m.where} - BOUNDS.keys()
    for name in sorted(conditions | set(question.keys)):
        values = ", ".join(f'"{value}"' for value in VALUES[name]) if question.public else ""
        columns.append(f"{name} = {{ values = [{values}] }}" if values else f"{name} = {{}}")
    pure = question.accountant == "pure"
    path = folder / "dpsql.toml"
    path.write_text(
        POLICY.format(
            data=data.resolve(),
            columns="\n".join(columns),
            accountant=question.accountant,
            epsilon=EPSILON,
            delta=0.0 if pure else DELTA,
            all_delta=0.0 if pure else 0.9,
        )
    )
    return str(path)


def _by_key(question: Question, rows: list[tuple] | tuple[tuple, ...]) -> Release:  # type: ignore[type-arg]
    size = len(question.keys)
    return {
        "|".join(map(str, row[:size])): [None if v is None else float(v) for v in row[size:]]
        for row in rows
    }
