"""How ranges of one value err, asked for together and one by one.

`python -m benchmarks.ranges adult.parquet [--epsilon 1] [--runs 20]` counts people of UCI Adult by
ranges of their age, so many times anew, and prints the root mean squared error of a range over all
ranges and runs, as it was stated and as it was: of one question for all ranges, and of a question
for each, which has its share of the same budget. Without a file the people are made up.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path

import duckdb
import numpy as np

from benchmarks.common import PEOPLE, table
from dpsql.model.vocabulary import Request
from dpsql.proxy import Proxy
from examples.adult.people import load

AGE = "age = { bounds = [17, 90] }\n"
BUDGET = """
[budgets.{name}]
epsilon = 100000.0
delta = {delta}
accountant = "{name}"
query_delta = {query_delta}
max_query_epsilon = 100000.0
[analysts.{name}]
budget = "{name}"
"""

Range = tuple[int, int]
WORKLOADS: dict[str, list[Range]] = {
    "7 decades": [(low, low + 9) for low in range(17, 87, 10)],
    "all ranges of 5 years": [
        (low, high) for low in range(17, 90, 5) for high in range(low + 4, 90, 5)
    ],
    "up to each year": [(17, high) for high in range(17, 91)],
    "100 ranges at random": [
        (int(low), int(high))
        for low, high in np.sort(np.random.default_rng(1).integers(17, 91, (100, 2)), axis=1)
    ],
}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("parquet", nargs="?")
    parser.add_argument("--epsilon", type=float, default=1.0)
    parser.add_argument("--runs", type=int, default=20)
    given = parser.parse_args()
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        with duckdb.connect(str(Path(folder) / "people.duckdb")) as owner:
            load(owner, given.parquet)
            owner.execute("ALTER TABLE people ADD PRIMARY KEY (person_id)")
            ages = owner.execute("SELECT age FROM people WHERE age IS NOT NULL").fetchnumpy()["age"]
        budgets = (
            BUDGET.format(name="zcdp", delta=1e-3, query_delta=1e-9),
            BUDGET.format(name="pure", delta=0.0, query_delta=0.0),
        )
        policy = Path(folder) / "dpsql.toml"
        policy.write_text("".join((PEOPLE, AGE, *budgets)), encoding="utf-8")
        with Proxy.open(str(policy)) as proxy:
            for name, ranges in WORKLOADS.items():
                truth = np.array([((low <= ages) & (ages <= high)).sum() for low, high in ranges])
                for accountant in ("zcdp", "pure"):
                    # Shares of ρ have the square root of ε; where δ is the same, nearly.
                    share = len(ranges) ** (0.5 if accountant == "zcdp" else 1.0)
                    sql = asked(ranges)
                    together = errors(proxy, accountant, [sql], truth, given.epsilon, given.runs)
                    each = [asked([one]) for one in ranges]
                    apart = errors(proxy, accountant, each, truth, given.epsilon / share, 1)
                    rows.append((name, accountant, *together, *apart))
    header = "ranges", "accountant", "stated", "was", "one by one", "was"
    table("Root mean squared error of a range, in people", header, rows)


def asked(ranges: Sequence[Range]) -> str:
    pairs = ", ".join(f"[{low}, {high}]" for low, high in ranges)
    return f"SELECT WITHIN_RANGES(age, [{pairs}]) FROM people"


def errors(
    proxy: Proxy, analyst: str, texts: Sequence[str], truth: np.ndarray, epsilon: float, runs: int
) -> tuple[str, str]:
    """The root mean squared error that is stated, and that of so many answers."""
    stated, was = list[float](), list[float]()
    for run in range(runs):
        # A little more each time: the answer to a question with less ε is told again.
        wish = Decimal(f"{epsilon * (1 + run / 10_000):.9f}")
        answers = [proxy.ask(Request(text, analyst, epsilon=wish)) for text in texts]
        values = [value for answer in answers for value in answer.rows[0]]
        stated += [error or 0.0 for answer in answers for error in answer.errors[0]]
        was += (np.array(values, dtype=float) - truth).tolist()
    return root(stated), root(was)


def root(values: Sequence[float]) -> str:
    return f"{np.sqrt(np.mean(np.square(values))):.1f}"


if __name__ == "__main__":
    main()
