"""Running sums over listed keys: their error beside the best known, and beside groups apart.

`python -m benchmarks.strategies [--runs 1000] [--epsilon 1]` asks COUNT(*) so far by key, over
10,000 made-up people with rows at 1, 12 or 30 keys each (zCDP at ε and δ = 1e-9, ADD_REMOVE), each
time anew. Each row has the root mean squared error over all keys, as measured and as stated, and
the ratios of the measured one, with 95 % intervals:

* `of the best`: to the better one of independent noise, √(K·(n + 1)/2), and the square root of the
  matrix of running sums, C = Toeplitz(a) with a_k = binom(2k, k)/4^k. Its error at K = 1 is
  |a|·√(mean_i Σ_{k<=i} a_k²) (Henzinger, Upadhyay and Upadhyay 2023); else |a| becomes
  √(K·max_i Σ of the K largest |(CᵀC)_ij|). All are in units of c/√(2ρ);
* `of the bound`: at K = 1, to (Σ singular values)/n, the least of any matrix (Li and Miklau 2013);
* `of groups apart`: to independent noise.
"""

from __future__ import annotations

import argparse
import tempfile
from decimal import Decimal
from fractions import Fraction
from pathlib import Path

import duckdb
import numpy as np

from benchmarks.common import PEOPLE as PEOPLE_POLICY
from benchmarks.common import table
from dpsql.accountants import get
from dpsql.model.vocabulary import Request
from dpsql.proxy import Proxy

CASES = ((126, 1), (126, 12), (126, 30), (365, 1), (365, 12), (365, 30))
PEOPLE = 10_000
DELTA = Fraction(1, 10**9)
POLICY = (
    PEOPLE_POLICY
    + """
[budgets.b]
epsilon = 100000.0
delta = 1e-3
query_delta = 1e-9
max_query_epsilon = 100000.0
[analysts.a]
budget = "b"
"""
)
TABLE = """
[tables.visits_{n}_{k}]
access = "private"
link = {{ column = "person_id", references = "people.person_id" }}
max_groups_per_unit = {k}
max_rows_per_group = 1
[tables.visits_{n}_{k}.columns]
person_id = {{}}
day = {{ bounds = [1, {n}] }}
"""
SQL = "SELECT day, SUM(COUNT(*)) OVER (ORDER BY day) AS so_far FROM visits_{n}_{k} GROUP BY day"


def load(owner: duckdb.DuckDBPyConnection) -> None:
    owner.execute(f"CREATE TABLE people AS SELECT range AS person_id FROM range({PEOPLE})")
    owner.execute("ALTER TABLE people ADD PRIMARY KEY (person_id)")
    for n, k in CASES:
        owner.execute(
            f"CREATE TABLE visits_{n}_{k} AS SELECT p.range AS person_id,"
            f" (1 + (p.range * 7919 + i.range * {n // k}) % {n})::INTEGER AS day"
            f" FROM range({PEOPLE}) AS p, range({k}) AS i"
        )


def square_root(n: int, k: int) -> float:
    """Return the error of the square root, in units of c/√(2ρ)."""
    steps = np.arange(1, n)
    a = np.cumprod([1.0, *((2 * steps - 1) / (2 * steps))])
    places = np.subtract.outer(np.arange(n), np.arange(n))
    root = np.where(places >= 0, a[np.maximum(places, 0)], 0.0)
    products = np.sort(root.T @ root, axis=1)[:, ::-1][:, :k].sum(axis=1).max()
    return float(np.sqrt(k * products * np.cumsum(a**2).mean()))


def apart(n: int, k: int) -> float:
    """Return the error of independent noise, in the same units."""
    return float(np.sqrt(k * (n + 1) / 2))


def bound(n: int) -> float:
    """Return the least error of any matrix at one cell per unit, in the same units."""
    angles = (2 * np.arange(1, n + 1) - 1) * np.pi / (4 * n + 2)
    return float((1 / (2 * np.sin(angles))).sum() / n)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--epsilon", type=Decimal, default=Decimal(1))
    parser.add_argument("--runs", type=int, default=1000)
    given = parser.parse_args()
    rho = get("zcdp").allowance(Fraction(given.epsilon), DELTA, selects_keys=False).amount
    unit = 1 / np.sqrt(2 * float(rho))
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        with duckdb.connect(str(Path(folder) / "people.duckdb")) as owner:
            load(owner)
            truth = {
                (n, k): np.array(owner.execute(SQL.format(n=n, k=k) + " ORDER BY day").fetchall())
                for n, k in CASES
            }
        policy = Path(folder) / "dpsql.toml"
        policy.write_text(POLICY + "".join(TABLE.format(n=n, k=k) for n, k in CASES), "utf-8")
        with Proxy.open(str(policy)) as proxy:
            for n, k in CASES:
                squares, stated = errors(proxy, SQL.format(n=n, k=k), truth[n, k], given)
                was = np.sqrt(squares.mean())
                spread = 1.96 * squares.std() / np.sqrt(len(squares)) / squares.mean() / 2
                best = min(square_root(n, k), apart(n, k)) * unit
                ratios = [best, bound(n) * unit if k == 1 else np.nan, apart(n, k) * unit]
                shown = [f"{was / r:.3f} ± {was / r * spread:.3f}" for r in ratios]
                rows.append((n, k, f"{was:.2f}", f"{stated:.2f}", *shown))
    header = "keys", "cells", "error", "stated", "of the best", "of the bound", "of groups apart"
    table(f"Running sums, ε = {given.epsilon}, {given.runs} runs", header, rows)


def errors(
    proxy: Proxy, sql: str, truth: np.ndarray, given: argparse.Namespace
) -> tuple[np.ndarray, float]:
    """Return the mean squared error of each answer, and the stated error."""
    squares, stated = list[float](), list[float]()
    for run in range(given.runs):
        # A little less each time: the answer to a question with more ε is told again.
        wish = given.epsilon * (1 + Decimal(run) / 10_000_000)
        answer = proxy.ask(Request(sql + " ORDER BY day", "a", epsilon=wish))
        values = np.array([row[1] for row in answer.rows], dtype=float)
        squares.append(float(((values - truth[:, 1]) ** 2).mean()))
        stated += [float(row[1] or 0.0) ** 2 for row in answer.errors]
    return np.array(squares), float(np.sqrt(np.mean(stated)))


if __name__ == "__main__":
    main()
