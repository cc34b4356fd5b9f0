"""What the attacks share: patients, the ways in which their data are published, and what ε allows.

    python -m examples.attacks.NAME [adult.parquet] [--no-plot] [-o FILE.png]

Each patient's secret is a fair coin of its own, so that who knows nothing guesses half of them.
Birth dates, postcodes and illnesses are made up; the rest is Adult's, or made up to be like it.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from math import comb, exp
from pathlib import Path
from types import MappingProxyType
from typing import Any

import duckdb
import numpy as np
import numpy.typing as npt

import dpsql
from dpsql.proxy import Proxy
from examples.adult.people import figure, load

K = 5
"""The least size of a class or group, where one is asked for."""

POLICY = """
[database]
engine = "duckdb"
path = "patients.duckdb"
[privacy_unit]
table = "patients"
key = "person_id"
neighbours = "{neighbours}"
[tables.patients]
access = "private"
key = "person_id"
[tables.patients.columns]
person_id = {{ hidden = true }}
born = {{ bounds = [1890-01-01, 1994-12-31] }}
zip = {{}}
sex = {{ values = ["Female", "Male"] }}
hours = {{ bounds = [0, 100] }}
gain = {{ bounds = [0, 100000] }}
cost = {{ bounds = [0, 10000] }}
days = {{ bounds = [0, 100] }}
ill = {{}}
[ledger]
path = "patients.ledger"
"""
ATTACKER = """
[budgets.{name}]
epsilon = {epsilon}
delta = 0.0
accountant = "pure"
query_epsilon = {epsilon}
max_query_epsilon = {epsilon}
[analysts.{name}]
budget = "{name}"
"""

PATIENTS = """
CREATE TABLE patients AS
WITH secrets AS (SELECT UNNEST(?) AS place, UNNEST(?) AS ill),
drawn AS (SELECT *, row_number() OVER (ORDER BY hash(person_id, 7), person_id) - 1 AS place
          FROM people)
SELECT CAST(place + 1 AS INTEGER) AS person_id,
       make_date(1994 - age, 1, 1) + CAST(hash(person_id, 11) % 365 AS INTEGER) AS born,
       printf('%05d', (place * 48271 + 12345) % 100000) AS zip, sex,
       CAST(hours_per_week AS INTEGER) AS hours, CAST(capital_gain AS INTEGER) AS gain,
       CAST(CASE WHEN ill THEN 4000 + hash(person_id, 13) % 6000
                 ELSE hash(person_id, 13) % 2000 END AS INTEGER) AS cost,
       CAST(age // 4 + hash(person_id, 14) % 40 AS INTEGER) AS days, ill
FROM drawn JOIN secrets USING (place)
"""

Bits = npt.NDArray[np.bool_]
Numbers = npt.NDArray[np.float64]


class Published(StrEnum):
    """How the data are published."""

    PLAIN = "plain SQL"
    COEFFICIENTS = "coefficients alone"
    K_ANONYMOUS = "k-anonymity"
    FRESH_NOISE = "noise without a ledger"
    DPSQL = "dpsql"


@dataclass(frozen=True, slots=True)
class Outcome:
    """How many of the targets' secrets an attacker guessed right."""

    published: Published
    right: int
    targets: int

    @property
    def success(self) -> float:
        return self.right / self.targets

    @classmethod
    def of(cls, published: Published, guesses: Bits, secrets: Bits) -> Outcome:
        return cls(published, int(np.sum(guesses == secrets)), len(secrets))


def allowed(epsilon: float, delta: float = 0.0) -> float:
    """The most often that anybody can guess a fair coin of one person right, by (ε, δ).

    From the output the odds of the coin are at most e^ε. The advantage over guessing, twice the
    success less one, is at most (e^ε - 1 + 2δ) / (e^ε + 1) (Kairouz, Oh and Viswanath 2015).

    >>> allowed(0.0), round(allowed(1.0), 3)
    (0.5, 0.731)
    """
    return (1 + (exp(epsilon) - 1 + 2 * delta) / (exp(epsilon) + 1)) / 2


def at_least(right: int, targets: int, success: float) -> float:
    """The probability of so many right guesses or more, each right with this probability."""
    terms = range(right, targets + 1)
    return sum(comb(targets, n) * success**n * (1 - success) ** (targets - n) for n in terms)


def most_right(targets: int, epsilon: float, chance: float = 1e-6) -> int:
    """The most secrets that an attacker guesses right under pure ε, but for this chance.

    One run tells of all its targets: given the output and the coins of others, each coin's odds
    are at most e^ε, so that the number of right guesses is stochastically at most binomial with
    e^ε / (e^ε + 1) (Steinke, Nasr and Jagielski 2023), whatever the attacker does.

    >>> most_right(60, 0.5), most_right(60, 100.0)
    (54, 60)
    """
    share = allowed(epsilon)
    return next(
        (n - 1 for n in range(targets + 1) if at_least(n, targets, share) < chance), targets
    )


@dataclass(frozen=True, slots=True)
class Scene:
    """Patients in a database, of whom the first are the targets, and the policy over them.

    `secrets` are the targets' coins, which only who keeps the score may read; `epsilon` is what the
    `analyst` may spend.
    """

    folder: Path
    secrets: Bits
    epsilon: float
    rng: np.random.Generator
    proxy: Proxy
    analyst: str = "attacker"

    def owner(self, sql: str) -> list[tuple[Any, ...]]:
        """The exact answer: plain SQL."""
        with duckdb.connect(str(self.folder / "patients.duckdb"), read_only=True) as connection:
            return connection.execute(sql).fetchall()

    def register(self) -> list[tuple[Any, ...]]:
        """What everybody can know of the targets: birth date, postcode, sex, in their order."""
        listed = "SELECT born, zip, sex FROM patients WHERE person_id <= {} ORDER BY person_id"
        return self.owner(listed.format(len(self.secrets)))

    def candidates(self, columns: str) -> Numbers:
        """Columns of all targets, whether they are there or not: what everybody can know."""
        listed = f"SELECT {columns} FROM patients ORDER BY person_id"
        with duckdb.connect(str(self.folder / "candidates.duckdb"), read_only=True) as connection:
            return np.array(connection.execute(listed).fetchall(), dtype=np.float64)

    @contextmanager
    def attacker(self) -> Iterator[dpsql.Connection]:
        """A connection that may spend the ε of all attackers together."""
        with dpsql.connect(analyst=self.analyst, proxy=self.proxy) as connection:
            yield connection

    def outcome(self, published: Published, guesses: Sequence[bool] | Bits) -> Outcome:
        return Outcome.of(published, np.asarray(guesses, dtype=bool), self.secrets)


@contextmanager
def scene(
    patients: int,
    targets: int,
    epsilon: float,
    *,
    parquet: str | None = None,
    seed: int | None = None,
    neighbours: str = "replace",
    others: Mapping[str, float] = MappingProxyType({}),
) -> Iterator[Scene]:
    """A scene with so many patients, the first of whom are targets.

    Where the neighbours of the promise are people who come and go, the secret is who is there:
    of the targets only those whose coin says so. There may be `others` with budgets of their own.
    """
    rng = np.random.default_rng(seed)
    with tempfile.TemporaryDirectory() as folder:
        coins = rng.random(patients) < 1 / 2
        with duckdb.connect(str(Path(folder) / "patients.duckdb")) as connection:
            load(connection, parquet)
            connection.execute(PATIENTS, [list(range(patients)), coins.tolist()])
            connection.execute("ALTER TABLE patients ADD PRIMARY KEY (person_id)")
            connection.execute("DROP TABLE people")
            if neighbours == "add_remove":
                _set_apart(connection, Path(folder) / "candidates.duckdb")
        policy = POLICY.format(neighbours=neighbours)
        for name, budget in {"attacker": epsilon, **others}.items():
            policy += ATTACKER.format(name=name, epsilon=budget)
        path = Path(folder) / "dpsql.toml"
        path.write_text(policy, encoding="utf-8")
        with Proxy.open(str(path)) as proxy:
            yield Scene(Path(folder), coins[:targets], epsilon, rng, proxy)


def _set_apart(connection: duckdb.DuckDBPyConnection, path: Path) -> None:
    """All candidates in a file of their own, and only those in the database who are there."""
    connection.execute(f"ATTACH '{path}' AS list")
    connection.execute("CREATE TABLE list.patients AS FROM patients")
    connection.execute("DETACH list")
    connection.execute("DELETE FROM patients WHERE NOT ill")


def same(person: tuple[Any, ...]) -> str:
    """The condition that somebody is who has this birth date and postcode."""
    born, postcode, _sex = person
    return f"born = DATE '{born}' AND zip = '{postcode}'"


def whose(register: Sequence[tuple[Any, ...]]) -> str:
    """The number of the target that a row is of, as far as a register tells; -1 for others."""
    arms = " ".join(f"WHEN {same(person)} THEN {n}" for n, person in enumerate(register))
    return f"CASE {arms} ELSE -1 END"


Attack = Callable[[Scene], list[Outcome]]


def told(outcome: Outcome, epsilon: float) -> str:
    """An outcome in words."""
    line = f"{outcome.published}: {outcome.right} of {outcome.targets} right"
    line += f" ({100 * outcome.success:.0f} %)"
    if outcome.published is not Published.DPSQL:
        return line
    most = most_right(outcome.targets, epsilon)
    return (
        f"{line}; ε = {epsilon:g} allows {100 * allowed(epsilon):.0f} % on average, and more than"
        f" {most} in one of a million runs"
    )


def main(
    name: str, attack: Attack, patients: int, targets: int, neighbours: str = "replace"
) -> None:
    """Run an attack as a program: prints how often it was right, and plots it."""
    parser = argparse.ArgumentParser(description=name)
    parser.add_argument("parquet", nargs="?")
    parser.add_argument("--no-plot", action="store_true")
    parser.add_argument("-o", "--output", default=f"{name}.png")
    parser.add_argument("--epsilon", type=float, default=0.5)
    given = parser.parse_args()
    with scene(
        patients, targets, given.epsilon, parquet=given.parquet, neighbours=neighbours
    ) as stage:
        outcomes = attack(stage)
    for outcome in outcomes:
        print(told(outcome, given.epsilon))
    if not given.no_plot:
        plot(name, outcomes, given.epsilon, given.output)


def plot(name: str, outcomes: Sequence[Outcome], epsilon: float, output: str) -> None:
    """The success of each as a bar, beside what is guessed without looking and what ε allows."""
    drawn, axes = figure((7, 3))
    names = [outcome.published for outcome in outcomes]
    axes.barh(names, [100 * outcome.success for outcome in outcomes])
    axes.axvline(50, color="0.4", linestyle=":", label="guessed")
    allows = f"ε = {epsilon:g} allows"
    axes.axvline(100 * allowed(epsilon), color="0.2", linestyle="--", label=allows)
    axes.set(xlim=(0, 100), xlabel="secrets guessed right (%)", title=name)
    axes.invert_yaxis()
    axes.legend(frameon=False)
    drawn.savefig(output, dpi=150, bbox_inches="tight")
    print(f"The plot is {output}.")
