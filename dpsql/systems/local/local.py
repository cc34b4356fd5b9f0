"""`dpsql local`: randomises answers before anybody else sees them, and collects reports."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from decimal import Decimal, InvalidOperation
from importlib.resources import files
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

import click

from dpsql.interfaces.cli.options import CommandSettings, Group, with_policy
from dpsql.interfaces.cli.output import output
from dpsql.interfaces.cli.terminal import note

if TYPE_CHECKING:
    from dpsql.systems.local.collection import Collection
    from dpsql.systems.local.questions import LocalQuestion
    from dpsql.systems.local.report_store import ReportStore

Row = dict[str, str]
_OWN = 0o600
"""File mode that allows access only by the owner."""


def _amount(_context: click.Context, _option: click.Parameter, text: str) -> Decimal:
    try:
        return Decimal(text)
    except InvalidOperation:
        raise click.BadParameter("give a number") from None


@click.group("local", cls=Group)
def local() -> None:
    """Randomise what people answer, and collect the reports (`dpsql help local`)."""


@local.command()
@click.argument("table", metavar="TABLE")
@with_policy
def questions(settings: CommandSettings, table: str) -> None:
    """Print the questions of a table as JSON, for encoders elsewhere."""
    listed = [question.as_json() for question in _questions(settings, table)]
    click.echo(json.dumps(listed, indent=2, ensure_ascii=False))


@local.command()
def client() -> None:
    """Print the encoder for browsers, one ES module without dependencies."""
    module = files("dpsql.systems.local") / "client.js"
    click.echo(module.read_text(encoding="utf-8"), nl=False)


@local.command()
@click.argument("file", metavar="FILE", type=click.Path(exists=True, dir_okay=False))
@click.option("--table", required=True, metavar="TABLE", help="The policy's table of reports.")
@click.option("--budget", required=True, callback=_amount, help="The most ε of one person.")
@click.option("--person", required=True, metavar="COLUMN", help="Who answers.")
@click.option("--keep", multiple=True, metavar="COLUMN", help="Written as it is: it is public.")
@click.option(
    "--memory",
    required=True,
    metavar="FILE",
    help="Remembers the reports of each --person: yours alone, mode 0600.",
)
@click.option("-o", "--output", "path", metavar="FILE", help="Write to a file.")
@with_policy
def randomize(
    settings: CommandSettings,
    file: str,
    table: str,
    budget: Decimal,
    person: str,
    keep: tuple[str, ...],
    memory: str,
    path: str | None,
) -> None:
    """Write the reports of people from a CSV FILE of true answers.

    Each column that the policy calls randomised is reported by its law, once for each person. Other
    columns are written only with --keep. The memory file keeps all reports: without it, the average
    of repeated runs would reveal the truth.
    """
    listed = _questions(settings, table)
    with Path(file).open(encoding="utf-8", newline="") as source:
        reader = csv.DictReader(source)
        rows = list(reader)
    needed = (*keep, *(q.name for q in listed), person)
    if missing := [name for name in needed if name not in (reader.fieldnames or ())]:
        raise click.ClickException(f"{file} has no column {missing[0]}.")
    names = [*keep, *(q.name for q in listed)]
    with _memory_of(memory) as people, output(path) as write:
        reports = list(_reports(rows, listed, table, budget, person, people, keep))
        with output(memory, _OWN) as remember:  # before anybody sees a report, so that none is
            remember(json.dumps(people))  # ever drawn again
        text = StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerows([names, *reports])
        write(text.getvalue())


@contextmanager
def _memory_of(path: str) -> Iterator[dict[str, Any]]:
    """Open the memory of earlier reports, locked against other processes until the end.

    Raises click.ClickException if others may read or write the file.
    """
    from dpsql.systems.local.respondent import lock_memory  # noqa: PLC0415

    with ExitStack() as stack:
        try:
            stack.enter_context(lock_memory(path))
        except OSError as error:
            raise click.ClickException(f"{path} cannot be locked: {error}.") from None
        file = Path(path)
        if file.exists() and file.stat().st_mode & 0o077:
            why = f"Others may read {path}, and it says what people reported. Run: chmod 600 {path}"
            raise click.ClickException(why)
        yield json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}


def _origins(
    _context: click.Context, _option: click.Parameter, listed: tuple[str, ...]
) -> tuple[str, ...]:
    for origin in listed:
        if not re.fullmatch(r"https?://[^/*?#@\s]+", origin):
            raise click.BadParameter("give scheme and host alone, like https://example.org")
    return listed


@local.command()
@click.argument("table", metavar="TABLE")
@click.option("--host", metavar="ADDRESS", default="127.0.0.1", help="Default 127.0.0.1.")
@click.option(
    "--port",
    metavar="N",
    type=click.IntRange(0, 65_535),
    default=8750,
    help="Default 8750; 0: any.",
)
@click.option(
    "--origin",
    "origins",
    multiple=True,
    metavar="URL",
    callback=_origins,
    help="Another web origin that may send, such as https://example.org.",
)
@click.option(
    "--least",
    metavar="N",
    type=click.IntRange(1),
    default=100,
    help="How many posts a sealed batch has at least; default 100.",
)
@click.option(
    "--page", metavar="FILE", type=click.File(encoding="utf-8"), help="An HTML page for /."
)
@click.option("--tls", nargs=2, metavar="CERTIFICATE KEY", help="Two PEM files.")
@with_policy
def collect(
    settings: CommandSettings,
    table: str,
    host: str,
    port: int,
    origins: tuple[str, ...],
    least: int,
    page: TextIO | None,
    tls: tuple[str, str] | None,
) -> None:
    """Take reports over HTTP until stopped; `dpsql refresh` makes them rows of TABLE.

    Serves the encoder for browsers, too. Keeps neither senders nor times of reports. Needs the
    extra local.
    """
    from dpsql.systems.local.collector import Listening, collect  # noqa: PLC0415
    from dpsql.systems.local.report_store import ReportStore  # noqa: PLC0415

    collection = _collection(settings, table)
    text = None if page is None else page.read()
    listening = Listening(host, port, tls, origins, text)
    with closing(ReportStore.open(collection, least)) as store:
        collect(collection, store, listening, note)
        note(_counts(store))


@local.command()
@click.argument("table", metavar="TABLE")
@with_policy
def collected(settings: CommandSettings, table: str) -> None:
    """Count the reports of a TABLE: waiting, sealed, and published by `dpsql refresh`."""
    from dpsql.systems.local.report_store import ReportStore  # noqa: PLC0415

    store = ReportStore.existing(_collection(settings, table))
    if store is None:
        raise click.ClickException(f"Nothing was ever collected for {table}.")
    with closing(store):
        click.echo(_counts(store))


def _collection(settings: CommandSettings, table: str) -> Collection:
    from dpsql.policy.load import load  # noqa: PLC0415
    from dpsql.systems.local.collection import Collection  # noqa: PLC0415

    return Collection.of(load(settings.policy), table)


def _counts(store: ReportStore) -> str:
    counts = store.counts()
    return (
        f"reports: {counts.waiting:,} waiting ({counts.posts:,} of {counts.least:,} posts),"
        f" {counts.sealed:,} sealed, {counts.published:,} published"
    )


def _questions(settings: CommandSettings, table: str) -> tuple[LocalQuestion, ...]:
    from dpsql.policy.load import load  # noqa: PLC0415
    from dpsql.systems.local.questions import asked_in  # noqa: PLC0415

    return asked_in(load(settings.policy), table)


def _reports(
    rows: Sequence[Row],
    questions: Sequence[LocalQuestion],
    table: str,
    budget: Decimal,
    person: str,
    people: dict[str, Any],
    keep: Sequence[str],
) -> Iterator[list[str]]:
    """Yield the report of each row, behind the columns to keep."""
    from dpsql.systems.local.respondent import Respondent  # noqa: PLC0415

    for number, row in enumerate(rows, 2):
        respondent = Respondent(budget, people.setdefault(row[person], {}), table=table)
        try:
            answers = [respondent.answer(q, row[q.name]) for q in questions]
        except ValueError as error:
            raise click.ClickException(f"Line {number}: {error}.") from None
        yield [*(row[name] for name in keep), *answers]
