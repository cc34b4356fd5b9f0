"""demo: a tour of five steps over a shop of 20,000 customers."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from math import exp
from pathlib import Path
from tempfile import TemporaryDirectory
from textwrap import indent

import click

from dpsql.interfaces.cli.budget_sheet import budgets_text
from dpsql.interfaces.cli.options import CommandSettings
from dpsql.interfaces.cli.terminal import columns, encodable, note
from dpsql.interfaces.doors import COMMAND_LINE
from dpsql.interfaces.messages import describe
from dpsql.interfaces.pictures.terminal_chart import picture
from dpsql.interfaces.receipts import cost_text
from dpsql.interfaces.tables import table
from dpsql.model.errors import Refused
from dpsql.model.vocabulary import Answer, Request
from dpsql.policy import tour
from dpsql.policy.demo import QUERIES
from dpsql.proxy import Proxy


def show_tour(settings: CommandSettings, directory: Path) -> None:
    """Ask the questions of the tour in a shop that was built before, and show what is left."""
    with settings.open(str(directory / "dpsql.toml")) as proxy:
        _title("1. How many customers has each segment, and how old are they?", tour.BY_SEGMENT)
        first = _ask(proxy, tour.BY_SEGMENT)
        _title("2. Who buys, and for how much, by month? No limit is declared.", tour.BY_MONTH)
        _ask(proxy, tour.BY_MONTH, draws=True)
        _title("3. Rows of people never leave the database.", tour.ROWS)
        try:
            proxy.ask(Request(tour.ROWS, proxy.analyst(None), door="command line"))
        except Refused as refused:
            _show(f"{describe(refused, tour.ROWS, COMMAND_LINE)}\n")
        _title("4. The first question in other words: the same numbers, free.", tour.IN_OTHER_WORDS)
        _ask(proxy, tour.IN_OTHER_WORDS)
        epsilon = float(proxy.policy.budgets[0].query_epsilon)
    _title(f"5. {tour.NAME} asks to be removed. Can anybody tell?", tour.WITHOUT_HER)
    _compare(settings, directory, first, epsilon)
    with settings.open(str(directory / "dpsql.toml")) as proxy:
        _show(f"\nWhat is left (dpsql budget):\n\n{budgets_text(proxy)}\n")
    note(f'\nGo on: cd {directory}; dpsql explain "SELECT COUNT(*) AS n FROM orders"')


def show_small_shop(settings: CommandSettings, directory: Path) -> None:
    """Ask the three questions of the small shop."""
    with settings.open(str(directory / "dpsql.toml")) as proxy:
        for title, sql in QUERIES:
            _title(title, sql)
            _ask(proxy, sql)
    note(f'\nGo on: cd {directory}; dpsql query "SELECT COUNT(*) AS n FROM orders"')


def _title(title: str, sql: str) -> None:
    _show(f"\n{title}\n\n{indent(sql, '    ')}\n\n")


def _show(text: str) -> None:
    click.echo(encodable(text, sys.stdout.encoding), nl=False)


def _ask(proxy: Proxy, sql: str, *, draws: bool = False) -> Answer:
    answer = proxy.ask(Request(sql, proxy.analyst(None), door="command line"))
    room = columns(sys.stdout)
    _show(table(answer, room).text + (f"\n{picture(answer, room)}" if draws else ""))
    note(cost_text(answer.receipt))
    return answer


def _compare(settings: CommandSettings, directory: Path, first: Answer, epsilon: float) -> None:
    """Show the numbers of one segment with and without a person: exact, and as released."""
    with _without_her(settings, directory) as (proxy, segment, exact):
        second = proxy.ask(Request(tour.BY_SEGMENT, proxy.analyst(None), door="command line"))
    released = [_count_of(answer, segment) for answer in (first, second)]
    lines = [
        ("", "with her", "without her"),
        (f"{segment} customers", *(f"{n:,}" for n in exact)),
        ("as answered", *released),
    ]
    _show("".join(f"{a:<20}{b:>16}{c:>16}\n" for a, b, c in lines))
    times = f"e^{epsilon:g} = {exp(epsilon):.2f}"
    _show("\nOnly a demo may show the exact numbers. Each answer is at most about\n")
    _show(f"{times} times as likely with her data as without: nobody can tell.\n")


@contextmanager
def _without_her(
    settings: CommandSettings, directory: Path
) -> Iterator[tuple[Proxy, str, tuple[int, int]]]:
    """Yield a proxy over a copy of the shop without her, her segment, and both exact counts."""
    with TemporaryDirectory() as name:
        for file in (tour.DATABASE, "dpsql.toml"):
            shutil.copy(directory / file, Path(name) / file)
        segment, before = tour.remove_her(Path(name) / tour.DATABASE)
        with settings.open(str(Path(name) / "dpsql.toml")) as proxy:
            yield proxy, segment, (before, before - 1)


def _count_of(answer: Answer, segment: str) -> str:
    """Return the count of a segment, with its half-width."""
    rows = zip(answer.rows, answer.margins, strict=True)
    count, margin = next((row[1], ends[1]) for row, ends in rows if row[0] == segment)
    return f"{count:,} ± {margin or 0:,.0f}"
