"""Debits: what may be charged below which ceilings, and who has what was paid for.

A sum is compared and charged in one transaction: PRIVACY.md R56. What others paid for costs the
ceilings that cover none of them: PRIVACY.md R85.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from math import inf

from dpsql.ledgers import CUBES, Ceiling, Charge, PaidAnswer, Spent, Stopped, unconfirmed
from dpsql.ledgers.book import LARGEST, Book
from dpsql.ledgers.chain import EntryKind, EntryRow, State
from dpsql.ledgers.codec import canonical, encode_event, encode_inquiry, scope
from dpsql.model.errors import LedgerError, Reason, Refused
from dpsql.model.vocabulary import Loss


def spent_after(state: State, charge: Charge) -> Spent:
    """What the charge makes of its budget; raises Refused or LedgerError if it may not be."""
    _require_allowed(state, charge, charge.ceilings)
    before = state.spent(charge.budget)
    after = before + charge.loss
    if max(after.amount, after.delta) > LARGEST:
        raise LedgerError(f"Budget {charge.budget} is larger than the ledger can count.")
    return Spent(before, after)


def append_charge(book: Book, charge: Charge) -> None:
    """One charge, behind the ceilings of it that were never seen."""
    _append_unseen(book, charge)
    book.append(
        EntryKind.CHARGE,
        query_id=charge.query_id,
        analyst=charge.analyst,
        budget=charge.budget,
        accountant=charge.accountant,
        epsilon=str(charge.epsilon),
        amount=charge.loss.amount,
        delta=charge.loss.delta,
        event=encode_event(charge.event),
        question=charge.question,
        policy_version=charge.policy_version,
        detail=encode_inquiry(charge.inquiry),
    )


def append_shares(book: Book, queries: Sequence[str], charge: Charge) -> Loss:
    """Give the analyst of a charge what these queries released of its question; raises as above.

    What the ceilings paid that had not paid for it is returned.
    """
    paid = Loss(0)
    of = charge.analyst, charge.budget, charge.question, charge.policy_version
    for each in released(book, *of):
        if each.query_id in queries and charge.analyst not in each.holders:
            paid += _append_share(book, replace(charge, loss=each.loss), each)
    return paid


def _append_share(book: Book, charge: Charge, shared: PaidAnswer) -> Loss:
    uncharged = [c for c in charge.ceilings if not c.counts(shared.holders)]
    _require_allowed(book.state, charge, uncharged)
    _append_unseen(book, charge)
    book.append(
        EntryKind.SHARED,
        analyst=charge.analyst,
        budget=charge.budget,
        accountant=charge.accountant,
        epsilon=str(shared.epsilon),
        amount=charge.loss.amount,
        delta=charge.loss.delta,
        event=canonical(sorted(shared.holders)),
        question=charge.question,
        policy_version=charge.policy_version,
        detail=shared.query_id,
    )
    return charge.loss if uncharged else Loss(0)


def _append_unseen(book: Book, charge: Charge) -> None:
    """The ceilings of a charge that were never seen."""
    for ceiling in charge.ceilings:
        if ceiling.title not in book.state.limits:
            append_limit(book, ceiling, "")


def _require_allowed(state: State, charge: Charge, ceilings: Sequence[Ceiling]) -> None:
    """Raises Refused or LedgerError where a charge may not be, or does not fit below these."""
    accountant = state.accountants.get(charge.budget, charge.accountant)
    if accountant != charge.accountant:
        raise LedgerError(
            f"Budget {charge.budget} was charged under {accountant} before; accountants are "
            f"never mixed. Name a new budget, or go back to {accountant}."
        )
    if Stopped(None, charge.analyst) in state.stopped:
        raise Refused(Reason.STOPPED_BY_OWNER, analyst=charge.analyst)
    if Stopped(charge.budget, None) in state.stopped:
        raise Refused(Reason.STOPPED_BY_OWNER, budget=charge.budget)
    for title in unconfirmed(state.limits, charge.ceilings, charge.budget, charge.analyst):
        raise Refused(Reason.LIMIT_CHANGED, title=title)
    for ceiling in ceilings:
        _require_fits(state, charge, ceiling)


def _require_fits(state: State, charge: Charge, ceiling: Ceiling) -> None:
    """Raises Refused where a charge does not fit below a ceiling."""
    most = ceiling.most
    if ceiling.budget is None and {*state.accountants.values()} - {charge.accountant}:
        raise LedgerError(
            f"{ceiling.title} cannot be added up: some budgets were charged under another "
            f"accountant than {charge.accountant}. Remove that cap, or start a new ledger."
        )
    before = state.spent(ceiling.budget, ceiling.analysts)
    if not (before + charge.loss).fits(most):
        raise Refused(
            Reason.BUDGET_EXHAUSTED,
            budget=charge.budget,
            accountant=charge.accountant,
            needed=charge.loss,
            left=Loss(max(0, most.amount - before.amount), max(0, most.delta - before.delta)),
            limit=most,
            **ceiling.named,
        )


def append_limit(book: Book, ceiling: Ceiling, reason: str) -> None:
    """A ceiling that holds from here on."""
    most = ceiling.most
    book.append(
        EntryKind.LIMIT,
        budget=ceiling.title,
        amount=most.amount,
        delta=most.delta,
        event=canonical(scope(ceiling)),
        detail=reason,
    )


def charges(book: Book, question: str, policy_version: str, analyst: str) -> list[EntryRow]:
    """What was charged for a question, or shared of it, with this analyst, the newest first."""
    by = "analyst = ?", analyst
    kinds = EntryKind.CHARGE, EntryKind.SHARED
    return [row for kind in kinds for row in _about(book, kind, question, policy_version, *by)]


def _about(
    book: Book, kind: EntryKind, question: str, policy_version: str, also: str, *values: str
) -> list[EntryRow]:
    """The entries of a kind about a question for which something else is true, the newest first."""
    same = f"question = ? AND policy_version = ? AND data_version = ? AND {also}"
    return book.find(kind, same, question, policy_version, book.state.data_version, *values)


def query_of(row: EntryRow) -> str:
    """The query that a charge paid for, or of which the answer was shared."""
    return str(row.detail if row.kind == EntryKind.SHARED else row.query_id)


def _since(holders: Mapping[str, int]) -> float:
    """When everybody got it: cubes with their charge."""
    cubes = (entry for holder, entry in holders.items() if holder.startswith(CUBES))
    return min(cubes, default=inf)


def released(
    book: Book, analyst: str, budget: str, question: str, policy_version: str
) -> tuple[PaidAnswer, ...]:
    """What this budget paid of a question, and who has it: first what this analyst has, in the
    order in which they got it, then the rest, the oldest first.
    """
    of = question, policy_version, "budget = ?", budget
    shares = _about(book, EntryKind.SHARED, *of)
    stopped = {w.analyst for w in book.state.stopped if w.analyst and w.analyst.startswith(CUBES)}
    paid = [
        row
        for row in _about(book, EntryKind.CHARGE, *of)
        if row.analyst not in stopped and book.answered(row.query_id)
    ]
    holders = defaultdict[str, dict[str, int]](dict)
    for row in (*shares, *paid):
        book.confirm(row)
        holders[query_of(row)][str(row.analyst)] = row.sequence
    had = {query: by.get(analyst, _since(by)) for query, by in holders.items()}
    return tuple(
        PaidAnswer(
            query_of(row),
            Decimal(str(row.epsilon)),
            Loss(row.amount or 0, row.delta or 0),
            frozenset(holders[query_of(row)]),
        )
        for row in sorted(paid, key=lambda row: (had[query_of(row)], row.sequence))
    )
