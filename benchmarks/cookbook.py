"""Answers to the questions of the page `cookbook` in shops of three sizes, with their ±.

`python -m benchmarks.cookbook` prints a line for each question: its title in the page, then the
last number of the first row with its 95 % half-width, for each size of the shop.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import duckdb

import dpsql
from dpsql import mechanisms
from dpsql.interfaces.cli.manual import page
from dpsql.mechanisms.entropy import Entropy
from dpsql.policy import demo
from grammar_tests.draws import Stream

SIZES = (1_000, 10_000, 100_000)
"""Customers of the shops; each has five orders and two events."""


def read_questions() -> dict[str, str]:
    """Return the statements of the page, by their titles."""
    block = page("cookbook").partition("```sql\n")[2].partition("```")[0]
    statements = filter(None, map(str.strip, block.split(";")))
    return {sql.partition("\n")[0].removeprefix("-- "): sql for sql in statements}


def build_shop(people: int, folder: Path) -> Path:
    """Write the demo's shop with that many customers, and return the path of its policy."""
    sizes = {"2000": people, "2001": people + 1, "1900": people * 19 // 20}
    sizes |= {"20001": 5 * people + 1, "50001": 2 * people + 1}
    tables = re.sub(rf"\b({'|'.join(sizes)})\b", lambda m: str(sizes[m[0]]), demo.TABLES)
    with duckdb.connect(str(folder / "shop.duckdb")) as shop:
        shop.execute("SET enable_progress_bar = false")
        shop.execute(tables)
    policy = folder / "dpsql.toml"
    policy.write_text(demo.POLICY, encoding="utf-8")
    return policy


def ask_all(policy: Path) -> Iterator[str]:
    """Yield a number and its 95 % half-width, with two digits of it, for each question.

    Noise follows from a seed: an interval is longer where it puts a count far below 0.
    """
    with dpsql.connect(str(policy)) as connection:
        noise = Entropy(Stream("cookbook"))
        connection.proxy.vault.sampler = partial(mechanisms.sample, entropy=noise)
        for sql in read_questions().values():
            cursor = connection.execute(sql)
            row, margin = cursor.fetchone(), cursor.margins[0][-1]
            assert row is not None, "no row"
            assert margin is not None, "an exact number"
            digits = max(0, 1 - math.floor(math.log10(margin)))
            yield f"{row[-1]:,.{digits}f} ± {margin:,.{digits}f}"


def main() -> None:
    """Print a line for each question."""
    columns = [list(read_questions())]
    for people in SIZES:
        with TemporaryDirectory() as folder:
            columns.append([*ask_all(build_shop(people, Path(folder)))])
    widest = max(map(len, columns[0]))
    for title, *answers in zip(*columns, strict=True):
        print(f"{title:{widest}}", *(f"{answer:>20}" for answer in answers))


if __name__ == "__main__":
    main()
