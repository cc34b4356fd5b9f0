"""`dpsql budget` and `dpsql history`: spent budgets, charged queries, and acts of the owner."""

from __future__ import annotations

import sys
from collections import Counter
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import click

from dpsql import ledgers
from dpsql.engines import Stop
from dpsql.interfaces import records
from dpsql.interfaces.amounts import loss_text, plain
from dpsql.interfaces.cli import options
from dpsql.interfaces.cli.budget_sheet import budgets_json, budgets_text, waiting_windows
from dpsql.interfaces.cli.compare import compare
from dpsql.interfaces.cli.output import output
from dpsql.interfaces.cli.terminal import columns, encodable, note
from dpsql.interfaces.messages import printable
from dpsql.interfaces.tables import table
from dpsql.model.dataclass import replace
from dpsql.model.delegation import chain_text
from dpsql.model.errors import DpsqlError
from dpsql.model.table_names import unknown_name
from dpsql.model.tree import TIMESTAMPTZ, VARCHAR, decimal
from dpsql.model.vocabulary import Answer, Column, NoiseEvent
from dpsql.preparation.withheld_names import is_withheld

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from dpsql.model.delegation import Delegation
    from dpsql.policy.guarantee_keys import GuaranteeChange
    from dpsql.proxy import Proxy

REASON = click.option("--reason", required=True, metavar="WHY", help="Why: it stays in the ledger.")


@click.group(cls=options.Group, invoke_without_command=True)
@options.with_policy
@click.option("--accept-ledger", is_flag=True, help="Owner: trust the ledger file as it is now.")
@options.written_as("How it is written.", "table", "json")
@click.pass_context
def budget(
    context: click.Context, settings: options.CommandSettings, *, accept_ledger: bool, style: str
) -> None:
    """Show the spent and the remaining part of each budget."""
    context.obj = settings
    if context.invoked_subcommand is not None:
        return
    if accept_ledger:
        _accept(settings.policy)
    with settings.open(settings.policy) as proxy:
        from dpsql.owner.reminders import unnamed_budgets  # noqa: PLC0415 - the engine starts first

        text = budgets_json(proxy) if style == "json" else budgets_text(proxy)
        warn_of_lapsed_facts(proxy)
        unnamed = unnamed_budgets(proxy.ledger, proxy.policy.budgets)
        before, stopped = proxy.ledger.confirmed(), proxy.ledger.stopped()
        waiting = waiting_windows(proxy)
        changed, gone = (
            ledgers.altered(before, _ceilings(proxy)),
            ledgers.removed(before, _ceilings(proxy)),
        )
    click.echo(text)
    note_unnamed(unnamed)
    _note_limits(changed, gone)
    _note_waiting(waiting)
    for whom in sorted(stopped, key=_name):
        note(f"notice: {printable(_name(whom))} is stopped: nothing new is charged.")


def _note_limits(changed: Sequence[str], gone: Sequence[str]) -> None:
    for title in changed:
        note(
            f"notice: the policy has another limit for {printable(title)} than was confirmed; "
            "nothing is charged until you confirm it: dpsql budget confirm --reason …"
        )
    for title in gone:
        note(
            f"notice: the policy no longer has the limit of {printable(title)} that was confirmed; "
            "nothing that it covers is charged until you confirm: dpsql budget confirm --reason …"
        )


def _note_waiting(waiting: Sequence[ledgers.CurrentWindow]) -> None:
    for each in waiting:
        note(
            f"notice: the clock says another {each.renews.renews} ({each.renews.zone}) than "
            f"{each.name}, to which charges count; nothing renews until you run: dpsql budget "
            "confirm --clock --reason …"
        )


@budget.command()
@options.with_policy
@click.option("--clock", is_flag=True, help="Confirm this machine's clock instead of the limits.")
@REASON
def confirm(settings: options.CommandSettings, *, clock: bool, reason: str) -> None:
    """Confirm the policy's limits, and what it protects, in the ledger.

    Limits are raised, lowered or removed. Another unit or link, or a table that is public now,
    holds for all charges, also for earlier ones.

    With --clock set the windows of budgets that renew to this machine's clock.
    """
    if clock:
        _confirm_clock(settings, reason)
        return
    changes = _confirm_guarantee(settings.policy, reason)
    with settings.open(settings.policy) as proxy:
        ledger, limits = proxy.ledger, {c.title: c for c in _ceilings(proxy)}
        units = {pot.title: pot.budget.accountant for pot in proxy.standings()}
        before, present = ledger.confirmed(), tuple(limits.values())
        changed, gone = ledgers.altered(before, present), ledgers.removed(before, present)
        for title in changed:
            ledger.confirm(limits[title], reason)
        for title in gone:
            ledger.lift(title, reason)
    for title, limit in limits.items():
        if title in changed:
            unit = units[title]
            old, new = _covering(before[title], unit), _covering(limit, unit)
            note(f"{printable(title)}: {old} before, {new} now.")
    for title in gone:
        note(f"{printable(title)}: {_covering(before[title], None)} before, no limit now.")
    if not (changed or gone or changes):
        note("The limits of the policy are those that the ledger holds it to.")


def _confirm_guarantee(policy: str, reason: str) -> Sequence[GuaranteeChange]:
    from dpsql.ledgers.open_ledger import open_ledger  # noqa: PLC0415
    from dpsql.policy.guarantee_keys import record_guarantee  # noqa: PLC0415
    from dpsql.policy.load import load  # noqa: PLC0415

    draft = load(policy)
    with closing(open_ledger(draft.ledger)) as ledger:
        changes = record_guarantee(draft, ledger, reason)
    for change in changes:
        note(printable(str(change)))
    return changes


def _confirm_clock(settings: options.CommandSettings, reason: str) -> None:
    with settings.open(settings.policy) as proxy:
        moved = proxy.ledger.confirm_clock(reason)
    for each in moved:
        note(f"The {each.renews.renews} of {each.renews.zone} is now {each.name}.")
    if not moved:
        note("The windows are those of this machine's clock: nothing was changed.")


def _ceilings(proxy: Proxy) -> tuple[ledgers.Ceiling, ...]:
    from dpsql.preparation.question import ceilings  # noqa: PLC0415

    return ceilings(proxy.policy)


def _covering(ceiling: ledgers.Ceiling, accountant: str | None) -> str:
    """Return the limit of a ceiling, with its analysts unless it covers all."""
    most = loss_text(ceiling.most, accountant)
    whom = "" if ceiling.analysts is None else f" of {', '.join(sorted(ceiling.analysts))}"
    renews = ceiling.renews
    when = "" if renews is None else f" in each {renews.renews} ({renews.zone})"
    return most + printable(whom + when)


@budget.command()
@options.with_policy
@click.argument("name")
@REASON
def stop(settings: options.CommandSettings, name: str, *, reason: str) -> None:
    """Charge nothing more to budget NAME until it is resumed; remembered answers stay free."""
    with _ledger_of(settings, budget=name) as ledger:
        ledger.stop(ledgers.Stopped(name, None), reason)
    note(f"Nothing is charged to {printable(name)} any more.")


@budget.command("resume")
@options.with_policy
@click.argument("name")
@REASON
def resume_budget(settings: options.CommandSettings, name: str, *, reason: str) -> None:
    """Lift the stop of budget NAME."""
    with _ledger_of(settings, budget=name) as ledger:
        ledger.resume(ledgers.Stopped(name, None), reason)
    note(f"{printable(name)} is charged again.")


budget.add_command(compare)


@contextmanager
def _ledger_of(settings: options.CommandSettings, budget: str) -> Iterator[Any]:
    from dpsql.ledgers.open_ledger import open_ledger  # noqa: PLC0415
    from dpsql.policy.load import load  # noqa: PLC0415

    draft = load(settings.policy)
    names = tuple(pot.name for pot in draft.budgets)
    if budget not in names:
        raise unknown_name("budget", budget, names)
    with closing(open_ledger(draft.ledger)) as ledger:
        yield ledger


def _accept(policy: str) -> None:
    from dpsql.ledgers.open_ledger import accept_ledger  # noqa: PLC0415
    from dpsql.policy.load import load  # noqa: PLC0415

    accept_ledger(load(policy).ledger)
    note("The ledger is accepted as it is now.")


def note_unnamed(pots: Sequence[ledgers.Charged]) -> None:
    """Show losses that were charged to budgets missing in the policy."""
    for pot in pots:
        spent = loss_text(pot.spent, pot.accountant)
        note(
            f"notice: {spent} was spent under the budget {printable(pot.budget)}, which the policy "
            "does not name. A budget with a new name begins at zero: name it as it was, or lower "
            "the new one by what is spent."
        )


def warn_of_lapsed_facts(proxy: Proxy) -> None:
    """Warn if recorded facts or a prepared store belong to other data."""
    from dpsql.preparation.bound_policy import facts_lapsed, store_unused  # noqa: PLC0415

    if facts_lapsed(proxy.policy, proxy.ledger):
        note_lapsed_facts()
    if store_unused(proxy.policy):
        note_unused_store()


def note_unused_store() -> None:
    """Warn that the store named in the policy is not used."""
    note(
        "What the policy calls prepared is not there, or was made of other data or under another "
        "policy: plans do without. Make it anew: dpsql prepare"
    )


def note_lapsed_facts() -> None:
    """Warn that recorded facts belong to other data."""
    note(
        "The facts that were recorded do not count for the data as they now are: plans and "
        "prices do without. Record them anew: dpsql check --record"
    )


def _name(whom: ledgers.Stopped) -> str:
    return whom.analyst or f"budget {whom.budget}"


# --- what was done ---

_COLUMNS = (
    Column("time", TIMESTAMPTZ),
    Column("what", VARCHAR),
    Column("who", VARCHAR),
    Column("door", VARCHAR),
    Column("client", VARCHAR),
    Column("budget", VARCHAR),
    Column("epsilon", decimal(38, 9)),
    Column("charge", decimal(38, 9)),
    Column("delta", decimal(38, 18)),
    Column("accountant", VARCHAR),
    Column("mechanisms", VARCHAR),
    Column("outcome", VARCHAR),
    Column("query", VARCHAR),
    Column("text", VARCHAR),
    Column("requested", decimal(38, 9)),
)
_FORMATS: dict[str, Callable[[Answer], str | bytes]] = {
    "json": records.json_array,
    "jsonl": records.json_lines,
    "csv": records.csv_of_clients,
    "parquet": records.parquet,
}
_WHEN = click.DateTime(["%Y-%m-%d", "%Y-%m-%dT%H:%M:%S", "%Y-%m-%d %H:%M:%S"])


@click.command()
@options.with_settings
@click.option("--budget", "of", metavar="NAME", help="Charges to this budget alone.")
@click.option("--since", type=_WHEN, help="From this moment on, in UTC.")
@click.option("--until", type=_WHEN, help="Before this moment, in UTC.")
@click.option(
    "--limit", type=click.IntRange(1), default=20, show_default=True, help="Number of entries."
)
@options.written_as("How it is written.", "table", *_FORMATS)
@click.option("-o", "--output", "target", metavar="FILE", help="Write it here, atomically.")
def history(
    settings: options.CommandSettings,
    *,
    of: str | None,
    since: datetime | None,
    until: datetime | None,
    limit: int,
    style: str,
    target: str | None,
) -> None:
    """List charged queries and acts of the owner, newest first.

    With --analyst or --budget lists only charges and shared answers. Texts are those of the
    analysts; with --analyst only those that its roles still grant. No value of the data and no
    duration is shown.
    """
    if style == "parquet":
        records.require_parquet()
        if target is None and sys.stdout.isatty():
            raise click.UsageError("Parquet is not for a terminal: give -o FILE.")
    first, end = _in_utc(since), _in_utc(until)
    with settings.open(settings.policy) as proxy:
        charges = proxy.ledger.history(settings.analyst, limit, budget=of, since=first, until=end)
        shares = proxy.ledger.shares(settings.analyst, limit, budget=of, since=first, until=end)
        only_charges = settings.analyst is not None or of is not None
        acts = () if only_charges else proxy.ledger.acts(limit)
        warn_of_lapsed_facts(proxy)
        rows = _charge_rows(proxy, settings.analyst, charges)
        rows += _share_rows(proxy, settings.analyst, shares)
    rows += [
        _act_row(act)
        for act in acts
        if (first is None or first <= act.time) and (end is None or act.time < end)
    ]
    answer = _latest(rows, limit)
    with output(target) as write:
        write(_shown(answer) if style == "table" else _FORMATS[style](answer))


def charges_text(proxy: Proxy, analyst: str) -> str:
    """Return the charged queries of an analyst, newest first, in lines as wide as the terminal."""
    rows = _charge_rows(proxy, analyst, proxy.ledger.history(analyst, 20))
    return _shown(_latest(rows, 20))


def _charge_rows(
    proxy: Proxy, analyst: str | None, charges: Sequence[ledgers.Entry]
) -> list[tuple[Any, ...]]:
    """Return the rows of charges as an analyst may see them; the owner (None) sees all."""
    agents, may_read = proxy.ledger.delegations(), dict[str, bool]()
    rows = []
    for entry in charges:
        text = entry.inquiry.sql
        if analyst is not None and text not in may_read:
            may_read[text] = _may_read(proxy, analyst, entry)
        shown = entry if may_read.get(text, True) else replace(entry, inquiry=_withheld(entry))
        rows.append(_charge_row(shown, agents))
    return rows


def _may_read(proxy: Proxy, analyst: str, entry: ledgers.Entry) -> bool:
    """Test whether an analyst's roles grant all that the text of an entry names, by now.

    In doubt they do not (PRIVACY.md R105).
    """
    from dpsql.answering.any_statement import PlanOf  # noqa: PLC0415
    from dpsql.answering.paid_names import request_of  # noqa: PLC0415

    policy = proxy.policy_of(analyst)
    if not (policy.beneath and entry.inquiry.sql):
        return True
    if is_withheld(entry.inquiry.sql, policy):
        return False
    try:
        PlanOf(replace(request_of(entry), analyst=analyst)).run(proxy.parts(Stop()))
    except DpsqlError:
        return False
    return True


def _share_rows(
    proxy: Proxy, analyst: str | None, shares: Sequence[ledgers.SharedAnswer]
) -> list[tuple[Any, ...]]:
    """Return the rows of shared answers, without names of cubes for an analyst with roles."""
    agents, rows = proxy.ledger.delegations(), list[tuple[Any, ...]]()
    withholds = analyst is not None and bool(proxy.policy_of(analyst).beneath)
    for share in shares:
        name = "(not shown)" if share.cube and withholds else share.cube
        rows.append(_share_row(replace(share, cube=name), agents))
    return rows


def _withheld(entry: ledgers.Entry) -> ledgers.Inquiry:
    return replace(entry.inquiry, sql="(not shown: a role does not grant what it names)")


def _latest(rows: Sequence[tuple[Any, ...]], limit: int) -> Answer:
    latest = sorted(rows, key=lambda row: row[0], reverse=True)[:limit]
    exact = ((None,) * len(_COLUMNS),) * len(latest)
    return Answer(_COLUMNS, tuple(latest), exact, exact)


def _shown(answer: Answer) -> str:
    """Return the most useful columns as a table. Other formats have all columns."""
    names = ("time", "what", "who", "budget", "epsilon", "outcome", "query", "text")
    chosen = [n for n, column in enumerate(answer.columns) if column.name in names]
    rows = tuple(tuple(_cell(row[n]) for n in chosen) for row in map(_in_parts, answer.rows))
    exact = ((None,) * len(chosen),) * len(rows)
    shown = Answer(
        tuple(Column(answer.columns[n].name, VARCHAR) for n in chosen), rows, exact, exact
    )
    return encodable(table(shown, columns(sys.stdout)).text, sys.stdout.encoding)


_EPSILON, _REQUESTED = (
    next(n for n, column in enumerate(_COLUMNS) if column.name == name)
    for name in ("epsilon", "requested")
)


def _in_parts(row: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return a row with the requested ε next to the charged ε if memory answered a part."""
    paid, whole = row[_EPSILON], row[_REQUESTED]
    if whole is None or paid == whole:
        return row
    return (*row[:_EPSILON], f"{plain(paid)} of {plain(whole)}", *row[_EPSILON + 1 :])


def _cell(value: Any) -> str:
    if isinstance(value, datetime):
        return f"{value:%Y-%m-%d %H:%M:%S}"
    if isinstance(value, Decimal):
        return plain(value)
    return "" if value is None else " ".join(str(value).split())


def _charge_row(entry: ledgers.Entry, agents: Mapping[str, Delegation]) -> tuple[Any, ...]:
    inquiry, loss = entry.inquiry, entry.loss
    # Dropping a name is recorded, but nothing is measured for it.
    epsilon = entry.epsilon if entry.event.parts or loss.amount else None
    parts = Counter(
        part.noise.mechanism.value if isinstance(part, NoiseEvent) else "selection"
        for part in entry.event.parts
    )
    return (
        entry.time,
        "charge",
        chain_text(agents, entry.analyst),
        inquiry.door or None,
        inquiry.client or None,
        entry.budget,
        epsilon,
        Decimal(loss.amount).scaleb(-9),
        Decimal(loss.delta).scaleb(-18),
        entry.accountant,
        ", ".join(f"{count} × {name}" for name, count in sorted(parts.items())),
        "answered" if entry.remembered else "no answer was recorded",
        entry.query_id,
        inquiry.sql or None,
        Decimal(inquiry.requested) if inquiry.requested else epsilon,
    )


def _share_row(share: ledgers.SharedAnswer, agents: Mapping[str, Delegation]) -> tuple[Any, ...]:
    """Return the row of a shared answer. It has no charge, since the budget pays only once."""
    had = f"shared by {', '.join(share.before)}"
    query: str | None = share.query_id
    if share.cube:  # `dpsql cube show` lists its tables
        had, query = f"received cube {share.cube} ({loss_text(share.loss, share.accountant)})", None
    where = share.time, "share", chain_text(agents, share.analyst), None, None, share.budget
    return (
        *where,
        share.epsilon,
        None,
        None,
        share.accountant,
        None,
        had,
        query,
        None,
        None,
    )


def _act_row(act: ledgers.OwnerAct) -> tuple[Any, ...]:
    most = None if act.limit is None else Decimal(act.limit.amount).scaleb(-9)
    delta = None if act.limit is None else Decimal(act.limit.delta).scaleb(-18)
    where = act.time, act.what, "owner", None, None, act.about
    return (*where, None, most, delta, None, None, None, None, act.reason or None, None)


def _in_utc(moment: datetime | None) -> datetime | None:
    return None if moment is None else moment.replace(tzinfo=UTC)
