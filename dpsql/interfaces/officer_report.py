"""The officer's report: what is promised, who asked, what it cost, what changed, what is kept.

It contains no value of the data. Every text is escaped: SECURITY.md S21.
"""

from __future__ import annotations

import json
import platform
import re
import sqlite3
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from html import escape
from importlib.metadata import version
from math import isfinite
from typing import Any

from dpsql.accountants import get
from dpsql.interfaces.amounts import delta_text, loss_text, plain, rounded, share_text, total_text
from dpsql.interfaces.messages import printable
from dpsql.interfaces.wordings import WORDINGS
from dpsql.ledgers import Entry, OwnerAct
from dpsql.ledgers.refusal_counts import read_refusals
from dpsql.model.dataclass import dataclass
from dpsql.model.delegation import Delegation, chain_text
from dpsql.model.errors import Reason
from dpsql.model.resources import Database
from dpsql.model.vocabulary import Budget, Loss
from dpsql.owner.query_costs import costs_by_source
from dpsql.policy.budget_choices import risk
from dpsql.policy.other_releases import total_guarantee
from dpsql.preparation.question import unbounded
from dpsql.proxy import Proxy

MOST = 1_000_000
"""Largest number of entries in a report."""

NO_LIMIT = "no limit"
ERASURE = """
Deleting a person's rows from the database removes them from every later query. Run dpsql refresh
afterwards: then no answer from before is given again.

The ledger keeps the texts of queries, their analysts and their costs. It has no rows of people. An
analyst who wrote a name into a query wrote it into the ledger, and it stays there.

The ledger keeps released answers. They are noisy numbers about groups. By the promises above, they
would have been almost as probable without any one person, and deleting rows cannot change them.

Entries are never removed: they prove what was spent, and a ledger that forgets spending would allow
more than was promised.
"""
REFUSALS = """
Refused queries read no private row and charge nothing, so the ledger has none of them. They are
counted by day, interface and reason in a file next to the ledger, on this host. If dpsql was
killed, the last refusals before that may be missing.

The counts tell no more of the data than the messages that analysts received.
"""
UNIT = """
The promise protects each {unit}, with all rows of other tables that belong to it.

Each limit bounds what all answers charged to it, together, tell of one {key}, whatever is asked. ε
is the bound: a smaller one is stricter. δ is the probability that the bound fails.
"""
PERIODS = """
The promise protects what one {key} did in one {every}: rows of the same person in two of them are
protected apart. "No time" has the rows without a time, "elsewhere" those outside of all listed
ones.

Each limit is for one period. For a person with rows in k periods, ε is k times as large, and δ
grows to k × e^((k − 1) × ε) × δ. ε is the bound: a smaller one is stricter. δ is the probability
that the bound fails.
"""
CHARGES = """
A query is charged once for each measurement that it pays for. Its loss bounds what the answer tells
of any one person. Losses add up; the share is the part of all losses in this period.

The accountant zcdp counts losses in ρ, which grows about as the square of ε: 29 % of ρ are not 29 %
of ε.

Repeated answers are free: they tell nothing new, and are not listed.
"""
CHANGED = """
A limit bounds what all answers together tell of one person. Its ε, before and now, is for the δ of
today.

These acts come from the owner's policy and commands. The ledger has no person's name for them.
"""
RECORD = """
dpsql computed the hash of every entry again, from the first on. It compared them with the hashes in
the ledger, and the last one with the mark, a file that notes the highest state on this host. So
entries that were edited, removed or taken back are found, unless ledger and mark were forged
together. Against that, keep this page: dpsql ledger export must show the same hash for this entry
at any later time.

An answered charge has two entries: the charge, and the hash of its answer. The other entries are
acts of the owner, and what dpsql notes: the beginning, windows that opened, late answers, sums so
far, and answers that one more analyst received.
"""
ACTS = {
    "limit": "limit set",
    "lift": "limit removed",
    "stop": "stopped, nothing new is charged",
    "resume": "allowed to ask again",
    "refresh": "new data, earlier answers are not given again",
    "facts": "properties of the data recorded, as a check found them",
    "accept": "copies of the data accepted",
    "guarantee": "meaning of the promise changed",
    "roles": "rights of analysts changed",
    "login": "login changed",
    "clock": "clock confirmed",
    "delegate": "part of a limit given to a program",
    "revoke": "part of a limit taken back",
}
"""Acts of the owner in words."""


def _paragraphs(text: str) -> tuple[str, ...]:
    return tuple(" ".join(part.split()) for part in text.split("\n\n"))


@dataclass(frozen=True, slots=True)
class ReportSection:
    """A part of the report: a title, sentences, and a table."""

    name: str
    title: str
    texts: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()
    rows: tuple[tuple[str, ...], ...] = ()


def report_sections(
    proxy: Proxy, since: datetime, until: datetime, at: datetime
) -> tuple[ReportSection, ...]:
    """Return the sections for charges and acts from `since` to before `until`, written `at` a time.

    Verifies the whole ledger first. Raises `LedgerError` if it cannot be trusted.
    """
    last, digest = proxy.ledger.verify()
    entries = proxy.ledger.history(None, MOST, since=since, until=until)
    queries = _list_queries(entries, proxy.ledger.delegations())
    promises, changes = _promises(proxy), _changes(proxy, since, until)
    verified = f"the ledger was verified up to entry {last:,}, with the hash {digest}."
    texts = (f"Yes: {verified}", *_paragraphs(RECORD))
    record = ReportSection("record", "Is the record whole?", texts)
    refusals = _refusals(proxy, since, until)
    ends = f"The record is whole: no entry was changed or removed, up to the last one ({last:,})."
    first = _summary(
        promises, _who(entries), changes, refusals, f"{ends} {_making(proxy, at, until)}"
    )
    costs = _costs(proxy, entries)
    title = "What remains after a person is deleted?"
    erasure = ReportSection("erasure", title, _paragraphs(ERASURE))
    return (
        *(first, promises, queries, *costs, _sums(proxy, entries)),
        *(refusals, changes, record, _versions(proxy), erasure),
    )


def _making(proxy: Proxy, at: datetime, until: datetime) -> str:
    """Return what a report is of, the time and the maker, and whether its period was over."""
    early = "" if until <= at else ", before its period was over: what came later is missing"
    by = f"dpsql {version('dpsql')} made this report on {at:%Y-%m-%d at %H:%M} (UTC){early}."
    signed = "It does not know who keeps the data and who ran it: add both names where you file it."
    return f"{by} The data: {_place(proxy.policy.database)}. {signed}"


_ADDRESSES = frozenset({"dsn", "service", "url"})
"""Settings of an engine that say where its data is; the policy has no password there."""


def _place(database: Database) -> str:
    """Return the database of a policy, as its owner knows it."""
    if database.path is not None:
        return f"the {database.engine} file {database.path}"
    if database.settings:
        where = next((text for key, text in database.settings if key in _ADDRESSES), "its server")
        return f"{database.engine} at {where}"
    return f"{len(database.files):,} tables in files, read by {database.engine}"


def _refusals(proxy: Proxy, since: datetime, until: datetime) -> ReportSection:
    """Return the refusals by interface and reason, of all days of the period."""
    last = (until - timedelta(microseconds=1)).date()
    counts = read_refusals(proxy.refusals_beside, since.date(), last)
    rows = tuple(
        (reason, _meaning_of(reason), door, f"{count:,}")
        for (door, reason), count in counts.items()
    )
    columns = ("reason", "meaning", "interface", "refusals")
    return ReportSection("refusals", "What was refused?", _paragraphs(REFUSALS), columns, rows)


def _meaning_of(reason: str) -> str:
    """Return the words of a reason; none for a reason of another version."""
    try:
        return WORDINGS[Reason(reason)].headline[-1]
    except ValueError:
        return ""


def _summary(
    promises: ReportSection,
    who: str,
    changes: ReportSection,
    refusals: ReportSection,
    record: str,
) -> ReportSection:
    """Return the answers to the five questions of a reader, one paragraph each."""
    promised = "; ".join(
        f"{row[0]} ({row[1] if row[1] == NO_LIMIT else f'ε = {row[1]}, δ = {row[2]}'})"
        for row in promises.rows
    )
    left = "; ".join(f"{row[0]} ({row[5]})" for row in promises.rows)
    acts = "Nothing was changed."
    if changes.rows:
        said = [" ".join(filter(None, _told_change(row))) for row in changes.rows if row[5]]
        acts = f"Changes: {len(changes.rows):,}, of which {len(said):,} have a reason."
        acts = " ".join((acts, *(f"{each}." for each in said[:3])))
    counts = defaultdict[str, int](int)
    for reason, *_, count in refusals.rows:
        counts[reason] += int(count.replace(",", ""))
    refused = "No refusal was counted."
    if counts:
        most = max(counts, key=lambda reason: (counts[reason], reason))
        total = sum(counts.values())
        refused = f"Refused: {total:,}; most for {most} ({counts[most]:,})."
    texts = (
        who,
        f"Promised, whatever is asked (a smaller ε is stricter): {promised}.",
        f"Left: {left}.",
        acts,
        refused,
        record,
    )
    return ReportSection("summary", "In short", texts)


def _told_change(row: tuple[str, ...]) -> tuple[str, ...]:
    """Return a row of the changes as the parts of a sentence."""
    _, what, about, before, now, reason = row
    change = f"from {before} to {now}" if before and now else now
    return f"{about}:" if about else "", what, change, f"({reason})"


def _who(entries: Sequence[Entry]) -> str:
    """Return a sentence on the analyst with the largest loss, and on the one with most charges."""
    if not entries:
        return "Nobody was charged."
    losses, counts = defaultdict[Any, int](int), Counter(e.analyst for e in entries)
    for entry in entries:
        losses[entry.accountant, entry.analyst] += entry.loss.amount
    sentences = []
    for accountant in sorted({entry.accountant for entry in entries}):
        of = {who: loss for (name, who), loss in losses.items() if name == accountant}
        first = max(of, key=lambda who: (of[who], who))
        share = _share(Loss(of[first]), Loss(sum(of.values())))
        sentences.append(f"{first} was charged most ({share} of all losses under {accountant})")
    often = max(counts, key=lambda who: (counts[who], who))
    return f"{'; '.join(sentences)}. {often} was charged most often ({counts[often]:,} times)."


def _share(part: Loss, whole: Loss) -> str:
    """Return the share of an amount, without its δ."""
    return share_text(Loss(part.amount), Loss(whole.amount)) if whole.amount else "0 %"


def _promises(proxy: Proxy) -> ReportSection:
    unit, policy = proxy.policy.unit, proxy.policy
    rows = [
        (
            pot.title + (f" in {pot.window}" if pot.window else ""),
            plain(pot.budget.epsilon),
            delta_text(pot.budget.delta),
            "; ".join(risk(pot.budget.epsilon)),
            share_text(pot.spent, pot.limit),
            f"{plain(max(Decimal(0), 100 - Decimal(share_text(pot.spent, pot.limit)[:-2])))} %",
            "never"
            if pot.budget.renews is None
            else f"each {pot.budget.renews.renews} ({pot.budget.renews.zone})",
        )
        for pot in proxy.standings()
    ]
    rows += [
        (
            f"{each.title} since its beginning",
            *(NO_LIMIT, NO_LIMIT, "grows with each window"),
            loss_text(each.spent, each.accountant),
            NO_LIMIT,
            "never",
        )
        for each in unbounded(policy.budgets, policy.caps, proxy.ledger)
    ]
    texts = _paragraphs(UNIT.format(unit=f"{unit.key} of {unit.table}", key=unit.key))
    if policy.period is not None:
        texts = _paragraphs(PERIODS.format(key=unit.key, every=policy.period.every.value))
    columns = ("limit", "ε", "δ", "meaning", "used", "left", "renews")
    return ReportSection(
        "promises", "What is promised, and what is left?", texts, columns, tuple(rows)
    )


def _list_queries(entries: Sequence[Entry], agents: Mapping[str, Delegation]) -> ReportSection:
    """Return queries by analyst and interface, the largest loss of each accountant first."""
    counts, losses = defaultdict[Any, int](int), defaultdict[Any, Loss](lambda: Loss(0))
    for entry in entries:
        key = chain_text(agents, entry.analyst), entry.inquiry.door or "unknown", entry.accountant
        counts[key] += 1
        losses[key] += entry.loss
    order = sorted(losses, key=lambda key: (key[2], -losses[key].amount, key))
    whole = _whole(entries)
    rows = tuple(
        (
            who,
            door,
            f"{counts[key]:,}",
            loss_text(losses[key], name),
            _share(losses[key], whole[name]),
        )
        for key in order
        for who, door, name in [key]
    )
    columns = ("analyst", "interface", "charges", "loss", "share")
    return ReportSection("analysts", "Who was charged?", _paragraphs(CHARGES), columns, rows)


def _whole(entries: Sequence[Entry]) -> Mapping[str, Loss]:
    """Return the sum of the losses by accountant."""
    whole = defaultdict[str, Loss](lambda: Loss(0))
    for entry in entries:
        whole[entry.accountant] += entry.loss
    return whole


def _costs(proxy: Proxy, entries: Sequence[Entry]) -> tuple[ReportSection, ReportSection]:
    tables, columns = costs_by_source(entries, proxy.policy)
    text = (
        "A query of several tables or columns counts in full for each: do not add these losses up.",
    )
    heads, whole = ("charges", "loss", "share"), _whole(entries)

    def rows(costs: Any) -> tuple[tuple[str, ...], ...]:
        return tuple(
            (name, f"{count:,}", loss_text(loss, accountant), _share(loss, whole[accountant]))
            for accountant, name, count, loss in costs.largest()
        )

    return (
        ReportSection("tables", "What did each table cost?", text, ("table", *heads), rows(tables)),
        ReportSection(
            "columns", "What did each column cost?", text, ("column", *heads), rows(columns)
        ),
    )


def _sums(proxy: Proxy, entries: Sequence[Entry]) -> ReportSection:
    """Return the losses of all budgets together, by accountant."""
    now, ever = _whole(entries), defaultdict[str, Loss](lambda: Loss(0))
    for pot in proxy.ledger.budgets():
        ever[pot.accountant] += pot.spent
    rows = tuple(
        (name, loss_text(now[name], name), loss_text(loss, name)) for name, loss in ever.items()
    )
    texts = ["Whoever reads the answers of all budgets learns at most the sum of their losses."]
    policy = proxy.policy
    texts += [
        f"Other release: {r.name} (ε = {plain(r.epsilon)}, δ = {delta_text(r.delta)}). {r.about}"
        for r in policy.releases
    ]
    if policy.releases:
        texts.append(
            f"All budgets and other releases together: {total_text(total_guarantee(policy))}."
        )
    columns = ("accountant", "in this period", "since the first entry")
    title = "What do all budgets cost together?"
    return ReportSection("sums", title, tuple(texts), columns, rows)


def _changes(proxy: Proxy, since: datetime, until: datetime) -> ReportSection:
    """Return the acts of the owner in the period, with the limit before each change of one."""
    budgets = {pot.title: pot.budget for pot in proxy.standings()}
    limits, rows = dict[str, str](), []
    for act in reversed(proxy.ledger.acts(MOST)):
        before, now = limits.get(act.about, ""), _limit_text(act, budgets.get(act.about))
        if act.what in {"limit", "lift"}:
            limits[act.about] = now
        if since <= act.time < until:
            what = "limit changed" if act.what == "limit" and before else ACTS[act.what]
            rows.append((f"{act.time:%Y-%m-%d %H:%M}", what, act.about, before, now, act.reason))
    columns = ("time (UTC)", "act", "about", "before", "now", "reason")
    title, texts = "What did the owner change?", _paragraphs(CHANGED)
    return ReportSection("changes", title, texts, columns, tuple(rows))


def _limit_text(act: OwnerAct, budget: Budget | None) -> str:
    """Return the limit of an act as ε at the present δ of its budget; else as it is recorded."""
    if act.limit is None:
        return NO_LIMIT if act.what == "lift" else ""
    if budget is None:
        return loss_text(act.limit)
    epsilon = get(budget.accountant).epsilon(act.limit, Fraction(budget.delta))
    return f"ε = {rounded(Decimal(epsilon))}" if isfinite(epsilon) else loss_text(act.limit)


def _versions(proxy: Proxy) -> ReportSection:
    rows = (
        ("dpsql", version("dpsql")),
        ("Python", platform.python_version()),
        ("SQLite", sqlite3.sqlite_version),
        ("database engine", proxy.policy.database.engine),
        ("policy", proxy.policy.version),
        ("data version", str(proxy.ledger.data_version())),
    )
    return ReportSection("versions", "Versions", (), ("part", "version"), rows)


def report_json(sections: Sequence[ReportSection], since: datetime, until: datetime) -> str:
    """Return the report as JSON: an object with `from`, `to`, and one member for each section."""
    document: dict[str, Any] = {"from": since.isoformat(), "to": until.isoformat()}
    for each in sections:
        rows = [dict(zip(each.columns, row, strict=True)) for row in each.rows]
        document[each.name] = {"title": each.title, "texts": list(each.texts), "rows": rows}
    return json.dumps(document, ensure_ascii=False, indent=2) + "\n"


_STYLE = """body{font:11pt/1.4 sans-serif;max-width:60em;margin:2em auto;padding:0 1em;
overflow-wrap:anywhere}table{border-collapse:collapse;width:100%}
th,td{border:1px solid #999;padding:.2em .5em;
text-align:left;vertical-align:top;overflow-wrap:break-word}
th{white-space:nowrap}h2{break-after:avoid}tr{break-inside:avoid}
@media print{body{margin:0;max-width:none}thead{display:table-header-group}}"""


def report_html(sections: Sequence[ReportSection], since: datetime, until: datetime) -> str:
    """Return the report as one HTML page without scripts, which prints on paper."""
    title = f"Privacy report from {_moment(since)} until before {_moment(until)} (UTC)"
    head = f'<meta charset="utf-8"><title>{title}</title><style>{_STYLE}</style>'
    body = "\n".join(line for each in sections for line in _html_lines(each))
    page = f'<!DOCTYPE html>\n<html lang="en"><head>{head}</head><body>\n<h1>{title}</h1>\n{body}'
    return f"{page}\n</body></html>\n"


def _moment(time: datetime) -> str:
    """Return a time; a day alone if it is midnight."""
    day, _, clock = f"{time:%Y-%m-%d %H:%M:%S}".partition(" ")
    return day if clock == "00:00:00" else f"{day} {clock}"


def _html_lines(section: ReportSection) -> Iterator[str]:
    yield f"<h2>{escape(section.title)}</h2>"
    yield from (f"<p>{escape(printable(text))}</p>" for text in section.texts)
    if section.columns and not section.rows:
        yield "<p>Nothing in this period.</p>"
    if section.rows:
        yield f"<table><thead>{_html_row('th', section.columns)}</thead><tbody>"
        yield from (_html_row("td", row) for row in section.rows)
        yield "</tbody></table>"


def _html_row(kind: str, cells: Sequence[str]) -> str:
    """Return a row; a number stays in one line with its sign."""
    texts = (re.sub(" (%|= )", "\N{NO-BREAK SPACE}\\1", escape(printable(cell))) for cell in cells)
    return "<tr>" + "".join(f"<{kind}>{text}</{kind}>" for text in texts) + "</tr>"
