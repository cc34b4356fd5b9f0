"""How near synthetic rows are to the private ones, and how long they take.

`python -m benchmarks.synthetic [adult.parquet] [--epsilon 1] [--delta 1e-9] [--seeds N]` makes
synthetic rows of UCI Adult (14 columns: all but the weight), N times anew, and prints the mean
total variation of all tables by one, two and three columns, cells being those of `dpsql synth`, and
the seconds. Beside them are the figures of independent columns: the same values of each, shuffled.
With the package `mbi` (2.0) installed the reference is beside them, given the same cells, ε and δ:
`benchmarks.mst_reference`, and what `mbi` fits to the tables that were paid for. Without a file
the people are made up.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from importlib.util import find_spec
from pathlib import Path
from statistics import fmean
from time import perf_counter
from typing import Any

import duckdb
import numpy as np

from benchmarks.common import PEOPLE, table
from benchmarks.mst_reference import mst
from dpsql.accountants.conversion import rho_of
from dpsql.model.vocabulary import Request
from dpsql.proxy import Proxy
from dpsql.systems.synthesis.closeness import Closeness, placed, to_rows
from dpsql.systems.synthesis.synthesis import Synthesise, SyntheticTable
from dpsql.systems.synthesis.synthesis_plan import SynthesisWish
from dpsql.systems.synthesis.synthetic_columns import cells
from examples.adult.people import EDUCATION, MADE_UP, cased

NUMBERS = {
    "age": (17, 90),
    "education_num": (1, 16),
    "hours_per_week": (1, 99),
    "capital_gain": (0, 99_999),
    "capital_loss": (0, 4_356),
}
"""The bounds that the description of the data has."""

NOT_ASKED = {"person_id", "fnlwgt"}

BUDGET = """
[budgets.b]
epsilon = 1000000
delta = 1e-3
query_epsilon = 1
max_query_epsilon = 100
query_delta = {delta}
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("parquet", nargs="?")
    parser.add_argument("--epsilon", type=Decimal, default=Decimal(1))
    parser.add_argument("--delta", default="1e-9")
    parser.add_argument("--seeds", type=int, default=3)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        truth = built(Path(folder), given.parquet, given.delta, given.seeds)
        rows = list(measured(Path(folder), truth, given.epsilon, given.seeds))
        title = f"Total variation at ε = {given.epsilon}, δ = {given.delta}, mean of {given.seeds}"
        table(title, ("rows", "1-way", "2-way", "3-way", "seconds"), rows)


def built(folder: Path, parquet: str | None, delta: str, seeds: int) -> list[tuple[Any, ...]]:
    """The database with its policy; returns the private rows."""
    with duckdb.connect(str(folder / "people.duckdb")) as owner:
        if parquet is None:
            owner.execute(MADE_UP.format(people=20_000, education=cased(EDUCATION)))
        else:
            owner.execute("CREATE TABLE people AS SELECT * FROM read_parquet(?)", [parquet])
        owner.execute("ALTER TABLE people ADD PRIMARY KEY (person_id)")
        names = [row[0] for row in owner.execute("DESCRIBE people").fetchall()]
        columns = [name for name in names if name not in NOT_ASKED]
        lines = "\n".join(f"{name} = {{ {declared(owner, name)} }}" for name in columns)
        analysts = "\n".join(f'[analysts.a{n}]\nbudget = "b"' for n in range(seeds))
        text = "\n".join((PEOPLE, lines, BUDGET.format(delta=delta), analysts))
        (folder / "dpsql.toml").write_text(text, encoding="utf-8")
        return owner.execute(f"SELECT {', '.join(columns)} FROM people").fetchall()


def declared(owner: duckdb.DuckDBPyConnection, name: str) -> str:
    """What the policy says of a column, as the description of the data lists it."""
    if name in NUMBERS:
        return f"bounds = {list(NUMBERS[name])}"
    values = owner.execute(f"SELECT DISTINCT {name} FROM people ORDER BY 1").fetchall()
    texts = [f'"{value}"' for (value,) in values if value is not None]
    nullable = ", nullable = true" if len(texts) < len(values) else ""
    return f"values = [{', '.join(texts)}]{nullable}"


def measured(
    folder: Path, truth: Sequence[tuple[Any, ...]], epsilon: Decimal, seeds: int
) -> Iterator[tuple[object, ...]]:
    """The lines of the table."""
    ours, seconds = list[Sequence[Closeness]](), list[float]()
    alone, theirs = list[Sequence[Closeness]](), list[Sequence[Closeness]]()
    took, by_mbi = list[float](), list[Sequence[Closeness]]()
    with Proxy.open(str(folder / "dpsql.toml")) as proxy:
        for seed in range(seeds):
            start = perf_counter()
            wish = SynthesisWish(Request("people", f"a{seed}", epsilon=epsilon))
            made = proxy.run(Synthesise(wish))
            seconds.append(perf_counter() - start)
            ours.append(to_rows(made, truth))
            alone.append(to_rows(independent(made), truth))
            if find_spec("mbi") is not None:
                rho = rho_of(Fraction(epsilon), Fraction(proxy.policy.budgets[0].query_delta))
                start = perf_counter()
                sizes = [cells(column) for column in made.columns]
                exact = placed(made.columns, truth)
                drawn = mst(exact, sizes, float(rho), len(made.rows), seed)
                took.append(perf_counter() - start)
                theirs.append(to_rows(replace(made, cells=drawn), truth))
                by_mbi.append(to_rows(proxy.run(Synthesise(wish, mbi=True)), truth))
    yield "dpsql", *means(ours), f"{fmean(seconds):.1f}"
    if theirs:
        yield "dpsql, fitted by mbi", *means(by_mbi), ""
        yield "MST by mbi", *means(theirs), f"{fmean(took):.1f}"
    yield "independent columns", *means(alone), ""


def means(runs: Sequence[Sequence[Closeness]]) -> list[str]:
    """The mean total variation by one, two and three columns."""
    return [
        f"{fmean(n.variation for near in runs for n in near if len(n.columns) == count):.4f}"
        for count in (1, 2, 3)
    ]


def independent(made: SyntheticTable) -> SyntheticTable:
    """The same values of each column, in an order of their own."""
    order = np.random.default_rng(1)
    return replace(made, cells=tuple(order.permutation(own) for own in made.cells))


if __name__ == "__main__":
    main()
