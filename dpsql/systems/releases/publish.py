"""`dpsql publish` and `dpsql verify`: a release of tables, and the check of its files."""

from __future__ import annotations

from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from dpsql.interfaces.cli.ask import read_sql
from dpsql.interfaces.cli.options import DIALECT, CommandSettings, exact_epsilon, with_settings
from dpsql.interfaces.cli.terminal import Progress, can_answer, interruptible, note, show_error
from dpsql.interfaces.joint_prices import price_text, prices
from dpsql.interfaces.messages import printable
from dpsql.interfaces.receipts import cost_text
from dpsql.interfaces.records import require_parquet
from dpsql.interfaces.tables import table
from dpsql.interfaces.wordings import ExitCode
from dpsql.model.errors import DpsqlError
from dpsql.model.public_times import now
from dpsql.model.vocabulary import Loss, Request

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dpsql.answering.joint_plan import JointPlan
    from dpsql.preparation.explanation import Explanation
    from dpsql.proxy import Proxy
    from dpsql.systems.releases.published_tables import PublishedRelease, PublishTables
    from dpsql.systems.releases.registry_entry import AboutRelease
    from dpsql.systems.releases.release_file import NamedStatement

_WIDEST = 60
_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)


@click.command()
@click.argument("file", type=click.Path(dir_okay=False), metavar="FILE|-")
@click.option(
    *("-o", "--output", "target"),
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="A new or empty folder, written whole or not at all.",
)
@click.option(
    "--epsilon",
    callback=exact_epsilon,
    metavar="E",
    help="The total ε; else the least one that keeps each as exact as alone.",
)
@click.option("--preview", is_flag=True, help="Show prices and expected errors, for free.")
@click.option("--about", type=_FILE, metavar="TOML", help="Title, curator and use, as text.")
@click.option("--key", type=_FILE, metavar="PEM", help="Your Ed25519 key, which signs the files.")
@click.option(
    "--round", "step", type=click.IntRange(2), metavar="N", help="Round whole numbers to N."
)
@click.option(
    "--replicates",
    "count",
    type=click.IntRange(50, 1000),
    default=100,
    show_default=True,
    metavar="N",
    help="How often each table is drawn once more.",
)
@click.option("--yes", is_flag=True, help="Publish at this price, without confirmation.")
@DIALECT
@with_settings
def publish(
    settings: CommandSettings,
    /,
    *,
    file: str,
    target: Path | None,
    about: Path | None,
    key: Path | None,
    **options: Any,
) -> None:
    """Publish the SELECTs of FILE as tables with intervals, replicates and evidence.

    Each SELECT stands below a line such as -- name: births. All are charged once, together; after
    a failure, the same command goes on without a further charge.
    """
    require_parquet()
    text = read_sql("-", None) if file == "-" else read_sql(None, file)
    statements, facts, secret = _inputs(text, about, key)
    if target is None and not options["preview"]:
        raise click.UsageError("Give a folder with -o, or --preview.")
    try:
        with settings.open(settings.policy) as proxy:
            from dpsql.systems.releases.published_tables import PublishTables  # noqa: PLC0415

            who, dialect = proxy.analyst(settings.analyst), options["dialect"]
            request = Request("", who, dialect, confirmed=True, door="command line")
            tables = PublishTables(statements, request, options["epsilon"], options["count"])
            if _agreed(proxy, tables, preview=options["preview"], yes=options["yes"]):
                assert target is not None
                _write(proxy, tables, target, facts, secret, options["step"])
    except DpsqlError as error:
        raise click.exceptions.Exit(show_error(error, text)) from None


def _inputs(
    text: str, about: Path | None, key: Path | None
) -> tuple[tuple[NamedStatement, ...], AboutRelease, bytes | None]:
    """Return statements, facts and key. Raises click.UsageError for what cannot be used."""
    from dpsql.systems.releases.registry_entry import AboutRelease, read_about  # noqa: PLC0415
    from dpsql.systems.releases.release_file import read_statements  # noqa: PLC0415

    try:
        statements = read_statements(text)
        facts = AboutRelease() if about is None else read_about(about.read_text("utf-8"))
        return statements, facts, None if key is None else _private_key(key)
    except DpsqlError as error:
        raise click.exceptions.Exit(show_error(error, text)) from None
    except ValueError as error:
        raise click.UsageError(str(error)) from None


def _private_key(path: Path) -> bytes:
    """Return the key of a file. Raises ValueError unless it can sign."""
    from dpsql.systems.releases.signed_files import read_private_key  # noqa: PLC0415

    key = path.read_bytes()
    read_private_key(key)
    return key


def _agreed(proxy: Proxy, tables: PublishTables, *, preview: bool, yes: bool) -> bool:
    """Show prices and refusals. Return True if the tables are to be published."""
    from dpsql.answering.together import PlanTogether  # noqa: PLC0415

    requests = tables.requests()
    work = partial(proxy.run, PlanTogether(requests, tables.epsilon))
    joint, cancelled = interruptible(work, proxy.cancel, Progress())
    if cancelled:
        raise click.Abort
    text = table(prices(joint, _WIDEST), None).text
    click.echo(text, nl=False) if preview else note(text.rstrip())
    note(price_text(joint))
    _require_accepted(joint, tables)
    if preview:
        return False
    if not yes and not can_answer():
        note("nothing was published: --yes publishes all of it at this price")
        return False
    if joint.price != Loss(0) and not yes:
        click.confirm("Publish?", abort=True, err=True)
    return True


def _require_accepted(joint: JointPlan, tables: PublishTables) -> None:
    """Show all refusals, and exit with the code of the last one."""
    code = None
    for number, refused in joint.refusals:
        statement = tables.statements[number - 1]
        note(f"{statement.name}:")
        code = show_error(refused, statement.sql)
    if code is not None:
        raise click.exceptions.Exit(code)


def _write(
    proxy: Proxy,
    tables: PublishTables,
    target: Path,
    about: AboutRelease,
    key: bytes | None,
    step: int | None,
) -> None:
    """Measure the tables and write the folder."""
    from dpsql.systems.releases.signed_files import (  # noqa: PLC0415
        manifest_files,
        write_files,
    )

    with _folder(target) as folder:
        work = partial(proxy.run, tables)
        release, _cancelled = interruptible(work, proxy.cancel, Progress())
        plans = [proxy.explain(request) for request in tables.requests()]
        files = _files(release, about, proxy, plans, step)
        facts = {
            "format": 1,
            "title": about.title,
            "published": now().date().isoformat(),
            "accountant": release.accountant,
            "statements": {each.name: each.sql for each in release.tables},
        }
        write_files(folder, files | manifest_files(facts, files, key))
    _tell(release, about, target, len(files), signed=key is not None)


@contextmanager
def _folder(target: Path) -> Iterator[Path]:
    """Open a new folder. Raises click.BadParameter if it cannot be used or written."""
    from dpsql.systems.releases.signed_files import UnusableFolder, new_folder  # noqa: PLC0415

    try:
        with new_folder(target) as folder:
            yield folder
    except UnusableFolder as error:
        raise click.BadParameter(printable(str(error)), param_hint="-o") from None


def _files(
    release: PublishedRelease,
    about: AboutRelease,
    proxy: Proxy,
    plans: list[Explanation],
    step: int | None,
) -> dict[str, bytes]:
    """Return all files of a release but the manifest."""
    from dpsql.systems.releases.registry_entry import registry_entry, yaml_text  # noqa: PLC0415
    from dpsql.systems.releases.release_files import dictionary_file, table_files  # noqa: PLC0415
    from dpsql.systems.releases.release_texts import text_files  # noqa: PLC0415

    today = now().date()
    files = text_files(release, about, proxy.policy, plans, step, today)
    for each in release.tables:
        files |= table_files(each, step)
    entry = registry_entry(about, release, proxy.policy, today)
    return files | {
        "dictionary.csv": dictionary_file(release.tables),
        "registry.yaml": yaml_text(entry).encode(),
    }


def _tell(
    release: PublishedRelease, about: AboutRelease, target: Path, files: int, *, signed: bool
) -> None:
    """Say what was written, and what is left to do."""
    for each in release.tables:
        if each.replicates.why_not:
            note(f"notice: {each.name} has no replicates: {each.replicates.why_not}.")
    note(cost_text(release.receipt))
    name = printable(target.name)
    note(f"{len(release.tables)} tables, {files} files in {name}. Check it: dpsql verify {name}")
    if about.missing:
        note(f"registry.yaml lacks {', '.join(about.missing)}: give a TOML file with --about.")
    if not signed:
        note("It is not signed. A key: openssl genpkey -algorithm ed25519 -out release.pem")


@click.command()
@click.argument(
    "folder", type=click.Path(exists=True, file_okay=False, path_type=Path), metavar="DIR"
)
@click.option("--key", type=_FILE, metavar="PEM", help="The public key of the owner.")
def verify(folder: Path, *, key: Path | None) -> None:
    """Check the files of a release against its manifest and its signature, offline."""
    from dpsql.systems.releases.signed_files import check_release  # noqa: PLC0415

    try:
        checked = check_release(folder, None if key is None else key.read_bytes())
    except ValueError as error:
        raise click.UsageError(str(error)) from None
    for problem in checked.problems:
        note(f"{printable(problem)}.")
    if checked.problems:
        note("This is not the release as it was published.")
        raise click.exceptions.Exit(ExitCode.BAD_INPUT)
    click.echo(f"All {checked.files} files agree with the manifest{printable(checked.about)}.")
    if not checked.fingerprint:
        note("They are not signed: anybody could have made them.")
    elif key is None:
        note(f"Signed with the key {checked.fingerprint}. Compare it with the owner's.")
