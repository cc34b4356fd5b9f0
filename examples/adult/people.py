"""What the demonstrations share: people like those of UCI Adult, their policy, and a figure.

    python -m examples.adult.NAME [adult.parquet] [--no-plot] [-o FILE.png]

Without a file the people are made up: the same columns, about the same shares.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb

import dpsql

POLICY = """
[database]
engine = "duckdb"
path = "people.duckdb"
[privacy_unit]
table = "people"
key = "person_id"
[tables.people]
access = "private"
key = "person_id"
[tables.people.columns]
person_id = {{}}
age = {{ bounds = [0, 125] }}
hours_per_week = {{ bounds = [0, 100] }}
capital_gain = {{ {capital_gain} }}
sex = {{ values = ["Female", "Male"] }}
education = {{ values = [{education}] }}
marital_status = {{ values = [{marital_status}] }}
{budgets}
[ledger]
path = "people.ledger"
"""

DECLARED = "bounds = [0, 1048576]"

BUDGET = """
[budgets.{accountant}]
epsilon = 100
delta = {delta}
accountant = "{accountant}"
query_epsilon = 1.0
max_query_epsilon = 10.0
query_delta = {query_delta}
[analysts.{accountant}]
budget = "{accountant}"
"""

EDUCATION = {
    "Preschool": 2,
    "1st-4th": 5,
    "5th-6th": 10,
    "7th-8th": 20,
    "9th": 16,
    "10th": 29,
    "11th": 36,
    "12th": 13,
    "HS-grad": 322,
    "Some-college": 224,
    "Assoc-voc": 42,
    "Assoc-acdm": 33,
    "Bachelors": 164,
    "Masters": 53,
    "Prof-school": 18,
    "Doctorate": 13,
}
"""Levels from the lowest to the highest, and how many people in a thousand have them."""

MARITAL_STATUS = (
    *("Divorced", "Married-AF-spouse", "Married-civ-spouse", "Married-spouse-absent"),
    *("Never-married", "Separated", "Widowed"),
)

MADE_UP = """
CREATE TABLE people AS
WITH draws AS (
    SELECT i, (hash(i, 1) % 1000000) / 1e6 AS a, (hash(i, 2) % 1000000) / 1e6 AS b,
           (hash(i, 3) % 1000000) / 1e6 AS c, (hash(i, 4) % 1000000) / 1e6 AS d
    FROM range(1, {people} + 1) AS r(i)
), aged AS (SELECT *, 17 + CAST(FLOOR(a * sqrt(a) * 60) AS INTEGER) AS age FROM draws)
SELECT CAST(i AS INTEGER) AS person_id, age,
       CASE WHEN b < 0.47 THEN 40 ELSE CAST(FLOOR(10 + 60 * c) AS INTEGER) END AS hours_per_week,
       CASE WHEN d < 0.92 THEN 0 WHEN d > 0.995 THEN 99999
            ELSE CAST(EXP(6 + 4.5 * c) AS INTEGER) END AS capital_gain,
       CASE WHEN c < 0.33 THEN 'Female' ELSE 'Male' END AS sex,
       {education} AS education,
       CASE WHEN b < (age - 15) / 25.0 AND c > 0.25 THEN 'Married-civ-spouse'
            WHEN b < (age - 60) / 60.0 THEN 'Widowed' WHEN d < (age - 20) / 90.0 THEN 'Divorced'
            ELSE 'Never-married' END AS marital_status
FROM aged
"""


@dataclass(frozen=True, slots=True)
class Demonstration:
    """A policy over the people, the truth that only a demonstration may show, and the options."""

    policy: str
    database: str
    plot: bool
    output: str

    @contextmanager
    def analyst(self, accountant: str, finding: str = "") -> Iterator[dpsql.Connection]:
        """A connection that pays from the budget of this accountant.

        With the name of a method the bounds of capital gains are found by it, not declared.
        """
        policy = Path(self.policy)
        if finding:
            policy = policy.with_name(f"{finding}.toml")
            policy.write_text(written(f'private_bounds = "{finding}"'), encoding="utf-8")
        with dpsql.connect(str(policy), analyst=accountant) as connection:
            yield connection

    def truth(self, sql: str) -> list[tuple[Any, ...]]:
        """The exact answer: what no analyst of private data sees."""
        with duckdb.connect(self.database, read_only=True) as owner:
            return owner.execute(sql).fetchall()

    def save(self, figure: Any) -> None:
        figure.savefig(self.output, dpi=150, bbox_inches="tight")
        print(f"The plot is {self.output}.")


def at(epsilon: str, query: str) -> str:
    """A SELECT that asks for its own ε."""
    wish = f"SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = {epsilon})"
    return query.replace("SELECT", wish, 1)


@contextmanager
def demonstration(name: str, size: tuple[float, float] = (7, 4)) -> Iterator[tuple[Any, ...]]:
    """The demonstration, and a figure with its axes to fill (None, None without a plot)."""
    parser = argparse.ArgumentParser(description=name)
    parser.add_argument("parquet", nargs="?")
    parser.add_argument("--no-plot", action="store_true")
    parser.add_argument("-o", "--output", default=f"{name}.png")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        database = str(Path(folder) / "people.duckdb")
        with duckdb.connect(database) as owner:
            load(owner, given.parquet)
            owner.execute("ALTER TABLE people ADD PRIMARY KEY (person_id)")
        policy = Path(folder) / "dpsql.toml"
        policy.write_text(written(DECLARED), encoding="utf-8")
        shown = Demonstration(str(policy), database, not given.no_plot, given.output)
        if not shown.plot:
            yield shown, None
            return
        drawn, axes = figure(size)
        yield shown, axes
        drawn.tight_layout()
        shown.save(drawn)


def load(owner: duckdb.DuckDBPyConnection, parquet: str | None) -> None:
    """The table of people: those of a file, or made up."""
    if parquet is None:
        owner.execute(MADE_UP.format(people=20_000, education=cased(EDUCATION)))
    else:
        owner.execute("CREATE TABLE people AS SELECT * FROM read_parquet(?)", [parquet])


def cased(shares: dict[str, int]) -> str:
    """A CASE that gives each value to its share of the people."""
    below, branches = 0, []
    for value, share in shares.items():
        below += share
        branches.append(f"WHEN (hash(i, 5) % 1000) < {below} THEN '{value}'")
    return f"CASE {' '.join(branches)} END"


def written(capital_gain: str) -> str:
    """The policy in which this is declared of capital gains."""
    budgets = [
        BUDGET.format(accountant=name, delta=delta, query_delta=query_delta)
        for name, delta, query_delta in (
            ("pure", 0.0, 0.0),
            ("zcdp", 1e-3, 1e-6),
            ("approximate", 1e-3, 1e-6),
        )
    ]
    return POLICY.format(
        capital_gain=capital_gain,
        education=", ".join(f'"{value}"' for value in EDUCATION),
        marital_status=", ".join(f'"{value}"' for value in MARITAL_STATUS),
        budgets="".join(budgets),
    )


def figure(size: tuple[float, float]) -> tuple[Any, Any]:
    """A figure and its axes; ends the program where matplotlib is not installed."""
    try:
        import matplotlib as mpl  # noqa: PLC0415

        mpl.use("Agg")
        from matplotlib import pyplot as plt  # noqa: PLC0415
    except ImportError:
        raise SystemExit("A plot needs matplotlib: pip install 'dpsql[plot]'") from None
    drawn, axes = plt.subplots(figsize=size)
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(visible=True, color="0.92")
    axes.set_axisbelow(True)
    return drawn, axes
