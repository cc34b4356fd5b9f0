"""`dpsql init`: a policy drafted from a schema, with the few important decisions.

An option or the terminal answers each decision. Decisions without an answer stay DECIDE. No
question, recommendation or line of the draft is read from rows.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Sequence
from contextlib import closing
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from dpsql.interfaces.cli.options import CommandSettings, with_policy
from dpsql.interfaces.cli.output import output
from dpsql.interfaces.cli.terminal import Bar, can_answer, note
from dpsql.interfaces.messages import printable
from dpsql.interfaces.wordings import ExitCode
from dpsql.model.dataclass import dataclass, replace
from dpsql.model.vocabulary import DEFAULT_ACCOUNTANT

if TYPE_CHECKING:
    from dpsql.model.resources import Database
    from dpsql.model.schema import Schema
    from dpsql.policy.init import Decisions
    from dpsql.policy.unit_paths import UnitColumns

_NONE = "none"
_UNKNOWN = "secret"


@dataclass(frozen=True, slots=True)
class Decision:
    """A decision: its question, reason, recommendation, and the parser of answers.

    `read` raises `click.BadParameter`. `recommended` is None if there is none. What is `proposed`
    to a person is taken only if that person confirms it.
    """

    option: str
    question: str
    reason: str
    recommended: str | None
    read: Callable[[str], Any]
    doubt: str = ""
    proposed: str | None = None


Decide = Callable[[Decision], str | None]
"""Function that answers a decision, or returns None."""


@dataclass(frozen=True, slots=True)
class Given:
    """The options of the command; None for missing ones."""

    unit: str | None = None
    public: str | None = None
    show: str | None = None
    other_people: str | None = None
    units: str | None = None
    rows: str | None = None
    epsilon: str | None = None
    delta: str | None = None
    accountant: str = DEFAULT_ACCOUNTANT


def nobody(decision: Decision) -> None:
    """Leave a decision to the owner, as DECIDE in the draft."""
    del decision


def recommendation(decision: Decision) -> str:
    """Return the recommendation. Raises `click.UsageError` if there is none."""
    if decision.recommended is None:
        doubt = f" {decision.doubt}" if decision.doubt else ""
        raise click.UsageError(f"Nothing can be recommended here: give {decision.option}.{doubt}")
    return decision.recommended


def person(decision: Decision) -> str:
    """Ask on the terminal until the answer is valid."""
    note(f"\n{decision.reason}")

    def readable(text: str) -> str:
        decision.read(text)
        return text

    question = f"{decision.question} ({decision.option})"
    return str(
        click.prompt(
            question,
            default=decision.proposed or decision.recommended,
            value_proc=readable,
            err=True,
        )
    )


def decided(schema: Schema, given: Given, decide: Decide) -> Decisions:
    """Return all decisions: those given, and for the others the answers of `decide`.

    Raises `click.BadParameter` for invalid answers, and `click.UsageError`.
    """
    from dpsql.policy.init import Decisions, Drafter  # noqa: PLC0415
    from dpsql.policy.unit_paths import with_referenced_keys  # noqa: PLC0415
    from dpsql.policy.value_reader import UNDECIDED  # noqa: PLC0415

    schema = with_referenced_keys(schema)
    unit = _answer(_unit(schema), given.unit, decide)
    drafter = Drafter.of(schema, Decisions(unit))
    absent = [t.name for t in schema.tables if t.name not in drafter.routes]
    further = [n for n, routes in drafter.routes.items() if not drafter.names_people(n, routes)]
    choice = _public(absent, further, drafter.unit, drafter.dictionaries())
    public = _answer(choice, given.public, decide if absent else nobody)
    hidden = drafter.hidden()
    shown = _answer(_shown(hidden), given.show, decide if hidden else nobody)
    several = [name for name, routes in drafter.routes.items() if len(routes.links) > 1]
    others = _other_people(several)
    other_people = _answer(others, given.other_people, decide if several else nobody)
    units = _answer(_units(), given.units, decide)
    sized = [n for n in drafter.routes if not (drafter.holds_unit(n) or n in (public or ()))]
    rows = _answer(_rows(sized), given.rows, decide if sized else nobody)
    decisions = Decisions(
        unit,
        public=frozenset(public or ()),
        shown=frozenset(shown or ()),
        other_people=other_people or UNDECIDED,
        units=units or None,
        rows=tuple(rows or ()),
    )
    return _with_budget(decisions, given, decide)


def _with_budget(decisions: Decisions, given: Given, decide: Decide) -> Decisions:
    from dpsql.accountants import get  # noqa: PLC0415
    from dpsql.policy.budget_choices import BudgetChoice  # noqa: PLC0415

    epsilon = _answer(_epsilon(), given.epsilon, decide)
    selects = get(given.accountant).supports_selection
    delta = _answer(_delta(decisions.units), given.delta, decide if selects else nobody)
    return replace(decisions, budget=BudgetChoice(epsilon, delta, given.accountant))


def _answer(decision: Decision, given: str | None, decide: Decide) -> Any:
    text = decide(decision) if given is None else given
    if text is None:
        return None
    try:
        return decision.read(text)
    except click.BadParameter as error:
        raise click.BadParameter(error.message, param_hint=decision.option) from None


# --- the decisions ---


def _unit(schema: Schema) -> Decision:
    from dpsql.policy.unit_paths import paths, proposals, unit_called  # noqa: PLC0415

    likely = proposals(schema)
    ranks = [f"{printable(u.name)} ({len(paths(schema, u))} tables)" for u in likely[:5]]
    listed = f" Called like people, with as many tables as lead to them: {', '.join(ranks)}."

    def read(text: str) -> UnitColumns:
        unit = unit_called(schema, text.strip())
        if unit is None:
            table = text.strip().rpartition(".")[0] or text.strip()
            tables = ", ".join(printable(t.name) for t in schema.tables[:5])
            why = f" The tables are: {tables}." if schema.table(table) is None else ""
            raise click.BadParameter(f"{text!r} is no column that can name people.{why}")
        return unit

    return Decision(
        "--unit",
        "Whose privacy is protected, TABLE.COLUMN?",
        "All rows that lead to one value of this column are protected together: choose the person, "
        "and not an order or a visit of theirs." + (listed if ranks else ""),
        likely[0].name if likely else None,
        read,
        doubt=_doubt(schema),
    )


def _doubt(schema: Schema) -> str:
    """Return a hint if no column looks like people: the first line may not be a header."""
    for table in schema.tables:
        if len(table.columns) == 1:
            column = printable(table.columns[0].name)
            first = "If it is a file, is its first line the header, and the delimiter in it?"
            return f"{printable(table.name)} has one column, {column!r}. {first}"
    return ""


def _names(options: Sequence[str], what: str) -> Callable[[str], list[str]]:
    """Return a parser of comma-separated names from a list."""
    by_lower = {name.lower(): name for name in options}

    def read(text: str) -> list[str]:
        names = [name.strip() for name in text.split(",") if name.strip()]
        if [name.lower() for name in names] == [_NONE]:
            return []
        for name in names:
            if name.lower() not in by_lower:
                raise click.BadParameter(f"{name!r} is no {what}.")
        return [by_lower[name.lower()] for name in names]

    return read


def _public(
    absent: Sequence[str],
    further: Sequence[str],
    unit: UnitColumns | None,
    dictionaries: Sequence[str],
) -> Decision:
    people = "the unit" if unit is None else printable(unit.name)
    lists = f" Dictionaries, by keys and names alone: {_listed(dictionaries)}."
    return Decision(
        "--public",
        "Of which of these may anybody see every row?",
        f"By no key and no name these lead to {people}: {_listed(absent)}. Those that are not "
        "public do not exist for analysts. Nothing is public unless you know that it is: anybody "
        f"then reads every row, exactly.{lists if dictionaries else ''}",
        _NONE,
        _names([*absent, *further], "table without people in it"),
        proposed=",".join(dictionaries) or None,
    )


def _shown(hidden: Sequence[str]) -> Decision:
    return Decision(
        "--show",
        "Which of these may be used?",
        f"These columns look as if they named people, and are hidden: {_listed(hidden)}.",
        _NONE,
        _names(hidden, "column that is hidden"),
    )


def _other_people(several: Sequence[str]) -> Decision:
    def read(text: str) -> str:
        if text.strip() not in ("protected", "unprotected"):
            raise click.BadParameter("say protected or unprotected.")
        return text.strip()

    return Decision(
        "--other-people",
        "Are the others protected, too?",
        f"Rows of {_listed(several)} may name several people. If all are protected, such a table "
        "answers once you declare max_rows_per_unit for it; if not, nothing is promised to the "
        "others about these rows.",
        "protected",
        read,
    )


def _units() -> Decision:
    def read(text: str) -> int:
        digits = text.strip().replace(",", "").replace("_", "")
        if digits == _UNKNOWN:
            return 0
        if not digits.isdecimal() or not int(digits):
            raise click.BadParameter(f"give a number, or {_UNKNOWN}.")
        return int(digits)

    return Decision(
        "--units",
        "About how many people are there, as anybody may know?",
        "It says how small δ has to be, and what answers can be of use. It becomes public: if it "
        "is not yet, leave it secret.",
        _UNKNOWN,
        read,
    )


def _rows(tables: Sequence[str]) -> Decision:
    by_lower = {name.lower(): name for name in tables}

    def read(text: str) -> list[tuple[str, int]]:
        if text.strip() == _UNKNOWN:
            return []
        pairs = [part.rpartition("=") for part in text.split(",")]
        for name, _, digits in pairs:
            if name.strip().lower() not in by_lower or not digits.strip().isdecimal():
                raise click.BadParameter(f"write TABLE=ROWS,… of {_listed(tables)}; or {_UNKNOWN}.")
        return [(by_lower[n.strip().lower()], max(1, int(digits))) for n, _, digits in pairs]

    return Decision(
        "--rows",
        "About how many rows have the other tables, as anybody may know, TABLE=ROWS,…?",
        f"Of {_listed(tables)}. It tells how long answers over the wire take, and becomes public. "
        "What is not known to everybody stays secret: dpsql tune finds it privately.",
        _UNKNOWN,
        read,
    )


def _epsilon() -> Decision:
    from dpsql.policy.budget_choices import EPSILON, odds, risk  # noqa: PLC0415

    others = ", ".join(f"{odds(Decimal(e))} at ε = {e}" for e in ("0.5", "2", "3"))
    return Decision(
        "--epsilon",
        "ε of all questions together?",
        f"At ε = {EPSILON} {'; '.join(risk(EPSILON))}. The factor is {others}. Begin low: more "
        "can be allowed later, and what was told is never taken back.",
        str(EPSILON),
        _amount(Decimal("1e6")),
    )


def _delta(units: int | None) -> Decision:
    from dpsql.policy.budget_choices import recommended_delta  # noqa: PLC0415

    return Decision(
        "--delta",
        "δ of all questions together?",
        "The chance that this does not hold: well below 1 / number of people.",
        f"{recommended_delta(units).normalize():e}",
        _amount(Decimal("0.1")),
    )


def _amount(most: Decimal) -> Callable[[str], Decimal]:
    def read(text: str) -> Decimal:
        try:
            amount = Decimal(text.strip())
        except InvalidOperation:
            raise click.BadParameter("give a decimal number such as 0.1.") from None
        if not (amount.is_finite() and Decimal("1e-15") <= amount <= most):
            raise click.BadParameter(f"give a number above zero, at most {most:f}.")
        return amount

    return read


def _listed(names: Iterable[str], most: int = 40) -> str:
    all_names = [printable(name) for name in names]
    more = [f"and {len(all_names) - most} more"] if len(all_names) > most else []
    return ", ".join([*all_names[:most], *more])


# --- the command ---


@click.command()
@with_policy
@click.argument("sources", nargs=-1, metavar="[DATA]...")
@click.option(
    "--unit", metavar="T.C", help="The privacy unit: a key, or a column that names people."
)
@click.option(
    "--public", metavar="T,…", help="Public tables, all rows of which anybody may see; or none."
)
@click.option("--show", metavar="T.C,…", help="Columns to use that look like names of people.")
@click.option("--other-people", help="Others whom a row names: protected or unprotected.")
@click.option("--units", metavar="N", help="About how many people, as anybody may know; or secret.")
@click.option("--rows", metavar="T=N,…", help="Rows of tables, as anybody may know; or secret.")
@click.option("--epsilon", metavar="E", help="ε of all questions together.")
@click.option("--delta", metavar="D", help="δ of all questions together.")
@click.option("--accountant", default=DEFAULT_ACCOUNTANT, show_default=True, help="What adds up.")
@click.option("--look", is_flag=True, help="Propose types from rows of texts: becomes public.")
@click.option("-y", "--yes", is_flag=True, help="Take the recommendation for each missing option.")
@click.option("--update", is_flag=True, help="Mark additions of a changed schema in the policy.")
@click.option("-o", "--output", "target", metavar="FILE", help="Default dpsql.toml; - is stdout.")
def init(
    settings: CommandSettings,
    *,
    sources: tuple[str, ...],
    look: bool,
    yes: bool,
    update: bool,
    target: str | None,
    **given: Any,
) -> None:
    """Draft a policy from a schema, never from data; you make the decisions.

    DATA is a DuckDB file, a PostgreSQL connection string of libpq, or Parquet and CSV files,
    folders and globs. NAME=PATH names a table. A sc://… of a Spark stands before the files that it
    reads. Missing options are asked on a terminal, and are DECIDE elsewhere.
    """
    if update:
        if (
            sources
            or target
            or look
            or any(value for key, value in given.items() if key != "accountant")
        ):
            raise click.UsageError("--update takes the policy as it is: give --policy FILE alone.")
        _update(settings.policy)
        return
    if not sources:
        raise click.UsageError("Name a database, or data files, folders or globs.")
    target = target or settings.policy
    if target != "-" and Path(target).exists():
        raise click.UsageError(f"{target} exists; name another file with -o, or --update it.")
    decide: Decide = recommendation if yes else person if can_answer() else nobody
    with output(target) as write:
        text = _draft(sources, Given(**given), decide, target, look=look)
        write(text)
    _note_decisions(text, target)


_OPEN_FORMAT = re.compile('^(decimal|dates|null_words) = "DECIDE"|{ type = "DECIDE"')
"""Decisions of a draft about the types and formats of text files."""


def _note_decisions(text: str, target: str) -> None:
    """Say how many decisions a draft leaves, and which of them `--look` proposes."""
    stated = [line for line in text.splitlines() if not line.startswith("#")]
    count = sum(line.count('"DECIDE"') for line in stated)
    left = "No decision is left" if not count else f"{count} decisions to make"
    note(f"{left}; then run: dpsql check --policy {target}")
    formats = sum(bool(_OPEN_FORMAT.search(line)) for line in stated)
    if formats:
        note(
            f"{formats} of them are types and formats of text files. dpsql init --look -o FILE "
            "proposes them from the rows: then they are public, and tell of rows."
        )


def _draft(sources: Sequence[str], given: Given, decide: Decide, target: str, *, look: bool) -> str:
    from dpsql.accountants import get  # noqa: PLC0415
    from dpsql.model.file_formats import is_text  # noqa: PLC0415
    from dpsql.model.installed import Unusable  # noqa: PLC0415
    from dpsql.policy.file_drafts import TypesFrom  # noqa: PLC0415
    from dpsql.policy.init import draft  # noqa: PLC0415
    from dpsql.preparation.engine_kinds import (  # noqa: PLC0415
        dialects,
        of_sources,
        opened_database,
    )
    from dpsql.preparation.views import with_views  # noqa: PLC0415

    try:
        get(given.accountant)
    except Unusable as error:
        raise click.BadParameter(
            f"{error.message} {error.fix}", param_hint="--accountant"
        ) from None
    database, engine = of_sources(sources)
    types = TypesFrom.NAMES if decide is recommendation else TypesFrom.NOBODY
    texts = [table for table, path in database.files if is_text(path)]
    if texts and (look or (decide is person and _wants_look(database, texts))):
        engine.close()
        database, types = _looked(database, texts), TypesFrom.DATA
        note("Types and formats of text files were read from the data: they become public.")
        engine = opened_database(database)
    with closing(engine):
        schema = with_views(engine.schema(), dialects(database).database)
    decisions = replace(decided(schema, given, decide), types=types)
    return draft(schema, _beside(database, Path(target)), decisions)


def _wants_look(database: Database, texts: Sequence[str]) -> bool:
    """Ask whether types and formats are proposed from the rows."""
    columns = sum(len(f.columns) + 3 for table, f in database.formats if table in texts)
    note(
        f"\nText files declare no types: up to {columns} types and formats are left to you, as "
        "DECIDE. They can be proposed from the rows. Each proposal becomes public with the policy, "
        "and tells of rows: that most values of a column are dates, or that NA stands for NULL."
    )
    return click.confirm("Propose them from the rows? (--look)", default=False, err=True)


def _looked(database: Database, texts: Sequence[str]) -> Database:
    """Return the database with formats proposed from rows, and show the progress."""
    from dpsql.preparation.engine_kinds import with_looked_formats  # noqa: PLC0415

    bar = Bar("", float)

    def seen(table: str, done: float) -> None:
        bar.show(f"{printable(table)} ({texts.index(table) + 1} of {len(texts)})", done)

    try:
        return with_looked_formats(database, seen)
    finally:
        bar.clear()


def _beside(database: Database, target: Path) -> Database:
    """Return the database with file paths relative to the folder of the policy."""
    if database.settings:
        return database

    def relative(path: str) -> str:
        return os.path.relpath(path, target.parent)

    files = tuple((name, relative(path)) for name, path in database.files)
    path = None if database.path is None else relative(database.path)
    return replace(database, path=path, files=files)


def _update(policy: str) -> None:
    from dpsql.policy.load import load  # noqa: PLC0415
    from dpsql.policy.update import update  # noqa: PLC0415
    from dpsql.preparation.engine_kinds import dialects, opened  # noqa: PLC0415
    from dpsql.preparation.views import with_views  # noqa: PLC0415

    drafted = load(policy)
    with closing(opened(drafted)) as engine:
        schema = with_views(engine.schema(), dialects(drafted.database).database)
    changes = update(policy, schema)
    for change in changes:
        if change.is_new:
            what = "is new: a comment marked NEW says how it may be declared."
        elif change.needed:
            what = f"is gone, and a key, link or role needs it (line {change.line}): decide anew."
        else:
            what = "is gone: its lines are comments marked GONE."
        click.echo(f"{printable(change.name)} {what}")
    if not changes:
        note("The policy names all that the database has, and nothing else.")
    if any(change.needed for change in changes):
        raise click.exceptions.Exit(ExitCode.BAD_INPUT)
