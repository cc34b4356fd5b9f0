"""Debits: charges below limits, and the holders of paid answers.

A sum is compared and charged in one transaction: PRIVACY.md R56. Receiving an answer debits the
limits that cover none of its holders: PRIVACY.md R85. A cube is received as a whole: PRIVACY.md
R83. An agent's charge counts for all above it: PRIVACY.md R112.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from functools import partial
from math import inf
from operator import itemgetter

from dpsql.ledgers import (
    CUBES,
    Ceiling,
    Charge,
    PaidAnswer,
    Remembered,
    Spent,
    Stopped,
    codec,
    delegates,
    renewal_facts,
    unconfirmed,
)
from dpsql.ledgers.book import LARGEST, Book
from dpsql.ledgers.chain import EntryKind, EntryRow, State, Turn, loss_in
from dpsql.model.calendars import Calendar, read_calendar
from dpsql.model.delegation import Delegation
from dpsql.model.errors import LedgerError, Reason, Refused
from dpsql.model.periods import ChargedPeriods
from dpsql.model.vocabulary import Loss


def spent_after(book: Book, charge: Charge) -> Spent:
    """Return the budget's spending before and after; raises Refused or LedgerError if not
    allowed.
    """
    _require_allowed(book, charge, charge.ceilings)
    before = book.state.spent(charge.budget)
    after = before + charge.whole
    if max(after.amount, after.delta) > LARGEST:
        raise LedgerError(f"Budget {charge.budget} is larger than the ledger can count.")
    return Spent(before, after)


def open_windows(book: Book, charge: Charge) -> None:
    """Open the windows of this moment, of all calendars that the ledger or the charge knows."""
    earlier = map(read_calendar, book.state.windows)
    for calendar in dict.fromkeys((*earlier, *charge.calendars)):
        try:
            window = book.current_window(calendar)
        except LedgerError:  # a time zone of an earlier policy that this machine lacks
            if calendar in charge.calendars:
                raise
            continue
        if window != book.state.windows.get(calendar.text):
            append_window(book, calendar, window.name, Turn.NEXT)


def append_window(
    book: Book, calendar: Calendar, name: str, turn: Turn, reason: str | None = None
) -> None:
    """Append the opening of a window, or its correction."""
    book.append(EntryKind.WINDOW, budget=calendar.text, question=name, event=turn, detail=reason)


def confirm_windows(book: Book, reason: str) -> list[Calendar]:
    """Set every open window to the clock's, by the owner's word; return those that moved.

    A window stays whose time zone this machine lacks.
    """
    moved = []
    for text, window in book.state.windows.items():
        calendar = read_calendar(text)
        try:
            name = calendar.window_at(book.moment())
        except LedgerError:
            continue
        later = calendar.first_day(name) > calendar.first_day(window.name)
        if name != window.name or window.leapt:
            turn = Turn.CONFIRMED if later else Turn.CORRECTED
            append_window(book, calendar, name, turn, reason)
            moved.append(calendar)
    return moved


def _windows_of(state: State, charge: Charge) -> dict[str, str]:
    """Return the open window of each calendar of a charge."""
    return {each.text: state.windows[each.text].name for each in charge.calendars}


def append_charge(book: Book, charge: Charge) -> None:
    """Append a charge, after those of its limits that are new."""
    _append_unseen(book, charge)
    columns = _columns(charge, _windows_of(book.state, charge))
    book.append(EntryKind.CHARGE, query_id=charge.query_id, **columns)


def _columns(charge: Charge, windows: Mapping[str, str]) -> dict[str, str | int]:
    """Return all that an entry says of a charge but its id, in these windows."""
    return {
        "analyst": charge.analyst,
        "budget": charge.budget,
        "accountant": charge.accountant,
        "epsilon": str(charge.epsilon),
        "amount": charge.loss.amount,
        "delta": charge.loss.delta,
        "event": codec.encode_event(charge.event),
        "question": charge.question,
        "policy_version": charge.policy_version,
        "detail": codec.encode_inquiry(
            charge.inquiry, windows, charge.periods, charge.loss.further
        ),
    }


def unanswered(book: Book, charge: Charge) -> str:
    """Return the newest query with this charge and no answer, or "" (SECURITY.md S37)."""
    _require_allowed(book, charge, ())
    windows = {each.text: book.current_window(each).name for each in charge.calendars}
    columns = _columns(charge, windows)
    rows = _about(book, EntryKind.CHARGE, charge.question, charge.policy_version, "TRUE")
    for row in rows:
        same = all(getattr(row, name) == value for name, value in columns.items())
        if same and not book.answered(row.query_id):
            book.confirm(row)
            return str(row.query_id)
    return ""


def append_shares(book: Book, queries: Sequence[str], charge: Charge) -> Loss:
    """Give a charge's analyst the answers of these queries; raises as above.

    Returns the sum of the debits of limits that had not paid for them.
    """
    paid = Loss(0)
    open_windows(book, charge)
    answers = released(book, charge.analyst, charge.budget, charge.question, charge.policy_version)
    new = (
        each.lent
        for each in answers
        if each.query_id in queries and charge.analyst not in each.holders
    )
    for each in dict.fromkeys(new):
        question = f"{CUBES}{each.cube}" if each.cube else charge.question
        periods = _paid_periods(charge, each)
        share = replace(charge, loss=each.loss, question=question, periods=periods)
        paid += _append_share(book, share, each)
    return paid


def _paid_periods(charge: Charge, shared: PaidAnswer) -> ChargedPeriods | None:
    """Return the periods that an answer was charged to: it counts for an analyst in these."""
    periods, (rule, names) = charge.periods, shared.periods
    if rule != ("" if periods is None else periods.rule.text):
        raise LedgerError(f"Query {shared.query_id} was charged to other periods of people.")
    return periods and replace(periods, names=names)


def _append_share(book: Book, charge: Charge, shared: PaidAnswer) -> Loss:
    uncharged = [c for c in charge.ceilings if not c.counts(shared.holders)]
    try:
        _require_allowed(book, charge, uncharged)
    except Refused as refused:
        cube = {"cube": shared.cube} if shared.cube else {}
        raise Refused(refused.reason, refused.span, **refused.facts, **cube) from None
    _append_unseen(book, charge)
    book.append(
        EntryKind.SHARED,
        analyst=charge.analyst,
        budget=charge.budget,
        accountant=charge.accountant,
        epsilon=str(shared.epsilon),
        amount=charge.loss.amount,
        delta=charge.loss.delta,
        event=codec.encode_holders(
            shared.holders,
            _windows_of(book.state, charge),
            charge.loss.further,
            charge.periods,
        ),
        question=charge.question,
        policy_version=charge.policy_version,
        detail=shared.query_id,
    )
    return charge.loss if uncharged else Loss(0)


def _append_unseen(book: Book, charge: Charge) -> None:
    """Append the limits of a charge that are new."""
    for ceiling in charge.ceilings:
        if ceiling.title not in book.state.limits:
            append_limit(book, ceiling, "")


def _require_allowed(book: Book, charge: Charge, ceilings: Sequence[Ceiling]) -> None:
    """Raise Refused or LedgerError if a charge is not allowed or does not fit below these
    limits.
    """
    state = book.state
    accountant = state.accountants.get(charge.budget, charge.accountant)
    if accountant != charge.accountant:
        raise LedgerError(
            f"Budget {charge.budget} was charged under {accountant} before; accountants are "
            f"never mixed. Name a new budget, or go back to {accountant}."
        )
    chain = delegates.live_chain(state.delegations, charge.analyst, book.ledger_time)
    for name in delegates.names_above(state.delegations, charge.analyst):
        if Stopped(None, name) in state.stopped:
            raise Refused(Reason.STOPPED_BY_OWNER, analyst=name)
    if any(each.budget != charge.budget for each in chain):
        raise Refused(Reason.DELEGATION_ENDED, analyst=charge.analyst, agent=chain[0].agent)
    if Stopped(charge.budget, None) in state.stopped:
        raise Refused(Reason.STOPPED_BY_OWNER, budget=charge.budget)
    payers = delegates.names_above(state.delegations, charge.analyst)
    for title in unconfirmed(state.limits, charge.ceilings, charge.budget, *payers):
        raise Refused(Reason.LIMIT_CHANGED, title=title)
    for ceiling in ceilings:
        _require_fits(state, charge, ceiling)


def _require_fits(state: State, charge: Charge, ceiling: Ceiling) -> None:
    """Raise Refused if a charge does not fit below a limit."""
    most = ceiling.most
    if ceiling.budget is None and {*state.accountants.values()} - {charge.accountant}:
        raise LedgerError(
            f"{ceiling.title} cannot be added up: some budgets were charged under another "
            f"accountant than {charge.accountant}. Remove that cap, or start a new ledger."
        )
    for period, before, loss in _sums_below(state, charge, ceiling):
        if not (before + loss).fits(most):
            raise Refused(
                Reason.BUDGET_EXHAUSTED,
                budget=charge.budget,
                accountant=charge.accountant,
                needed=loss,
                left=most.without(before),
                limit=most,
                **_renewal(state, ceiling),
                **ceiling.named,
                **({"period": period} if period else {}),
            )


def _sums_below(state: State, charge: Charge, ceiling: Ceiling) -> Iterator[tuple[str, Loss, Loss]]:
    """Yield what a limit compares: a period ("" for all), its spending, and the charge's loss.

    A limit for each period is compared with each period of the charge (PRIVACY.md R103). Any other
    limit counts the charge once for each of its periods. Raises `LedgerError` for a charge without
    periods, or with those of another rule, below a limit for each period.
    """
    periods = charge.periods
    if not ceiling.periods:
        before = state.spent(ceiling.budget, ceiling.analysts, ceiling.renews)
        yield "", before, charge.whole
        return
    if periods is None or not periods.names or periods.rule.text != ceiling.periods:
        raise LedgerError(f"The limit of {ceiling.title} is for periods, and this names none.")
    sums = state.spent_in(ceiling.budget, ceiling.periods, periods.names, ceiling.analysts)
    for name, before in zip(periods.names, sums, strict=True):
        yield name, before, charge.loss


def _renewal(state: State, ceiling: Ceiling) -> dict[str, str]:
    """Return the facts on the next window of a limit that renews."""
    if ceiling.renews is None:
        return {}
    window = state.windows[ceiling.renews.text]
    if window.leapt:
        return {"window": window.name, "leap": window.name}
    return renewal_facts(ceiling.renews, window.name)


def append_limit(book: Book, ceiling: Ceiling, reason: str) -> None:
    """Append a limit, which holds from now on."""
    most = ceiling.most
    book.append(
        EntryKind.LIMIT,
        budget=ceiling.title,
        amount=most.amount,
        delta=most.delta,
        event=codec.canonical(codec.scope(ceiling)),
        detail=reason,
    )


def append_delegation(
    book: Book, new: Delegation, most: Loss, reason: str, periods: str = ""
) -> None:
    """Append a delegation, whose limit holds from now on. Raises LedgerError for a bad chain."""
    state = book.state
    try:
        delegates.require_chain(state.delegations, new, state.charged())
    except ValueError as error:
        raise LedgerError(str(error)) from None
    delegates.live_chain(state.delegations, new.delegator, book.ledger_time)
    book.append(
        EntryKind.LIMIT,
        analyst=new.agent,
        budget=new.title,
        epsilon=str(new.epsilon),
        amount=most.amount,
        delta=most.delta,
        event=codec.canonical(
            codec.scope(
                Ceiling(new.title, most, new.budget, frozenset({new.agent}), periods=periods)
            )
        ),
        question=new.delegator,
        policy_version=delegates.terms_text(new),
        detail=reason,
    )


def _about(
    book: Book, kind: EntryKind, question: str, policy_version: str, also: str, *values: str
) -> list[EntryRow]:
    """Return entries of a kind about a question that meet a further condition, newest first."""
    same = f"question = ? AND policy_version = ? AND data_version = ? AND {also}"
    return book.find(kind, same, question, policy_version, book.state.data_version, *values)


def query_of(row: EntryRow) -> str:
    """Return the query that a charge paid for, or the shared one (several for a cube)."""
    return str(row.detail if row.kind == EntryKind.SHARED else row.query_id)


def recalled(
    book: Book,
    analyst: str,
    question: tuple[str, str],
    epsilon: Decimal,
    without: frozenset[str],
) -> Remembered | None:
    """Return this analyst's answer to a question (and policy version), or what an agent received.

    Of answers that cost at least `epsilon` it is the dearest, then the newest.
    """
    names = delegates.names_below(book.state.delegations, (analyst,))
    rows = [
        row
        for kind in (EntryKind.CHARGE, EntryKind.SHARED)
        for name in sorted(names)
        for row in _about(book, kind, *question, "analyst = ?", name)
    ]
    paid = [(Decimal(str(row.epsilon)), row) for row in rows if query_of(row) not in without]
    enough = [(each, row) for each, row in paid if each >= epsilon]
    for most, row in sorted(enough, key=itemgetter(0), reverse=True):
        payload = book.answer(query_of(row))
        if payload is not None:
            book.confirm(row)
            return Remembered(query_of(row), most, codec.decode_answer(payload))
    return None


def released(
    book: Book, analyst: str, budget: str, question: str, policy_version: str
) -> tuple[PaidAnswer, ...]:
    """Return the paid answers to a question, first those of this analyst, in order of receipt."""
    of = policy_version, "budget = ?", budget
    shares = _about(book, EntryKind.SHARED, question, *of)
    stopped = {w.analyst for w in book.state.stopped if w.analyst and w.analyst.startswith(CUBES)}
    paid = [
        row
        for row in _about(book, EntryKind.CHARGE, question, *of)
        if row.analyst not in stopped and book.answered(row.query_id)
    ]
    # The first of each cube: the newest come first.
    since = {str(r.analyst): r.sequence for r in paid if str(r.analyst).startswith(CUBES)}
    shares += [row for cube in since for row in _about(book, EntryKind.SHARED, cube, *of)]
    holders = defaultdict[str, dict[str, float]](dict)
    for row in (*shares, *paid):
        book.confirm(row)
        names = delegates.names_above(book.state.delegations, str(row.analyst))
        for query in query_of(row).split():
            holders[query] |= {n: min(row.sequence, holders[query].get(n, inf)) for n in names}
    new = {str(row.analyst) for row in paid if analyst not in holders[query_of(row)]}
    whole = partial(_whole, book, analyst, budget, policy_version, holders)
    wholes = {cube: whole(cube, first) for cube, first in since.items() if cube in new}

    def order(row: EntryRow) -> tuple[float, int, int]:
        got = holders[query_of(row)].get(analyst, inf)
        return got, since.get(str(row.analyst), row.sequence), row.sequence

    return tuple(
        PaidAnswer(
            query_of(row),
            Decimal(str(row.epsilon)),
            loss_in(row),
            frozenset(holders[query_of(row)]),
            whole=None if analyst in holders[query_of(row)] else wholes.get(str(row.analyst)),
            periods=codec.decode_periods(row.detail),
        )
        for row in sorted(paid, key=order)
    )


def _whole(
    book: Book,
    analyst: str,
    budget: str,
    policy_version: str,
    holders: Mapping[str, Mapping[str, float]],
    cube: str,
    first: int,
) -> PaidAnswer:
    """Return all tables of a cube that an analyst lacks, as one answer; its holders have them
    all.

    Tables of other periods of people than those of entry `first` are of another cube.
    """
    same = "analyst = ? AND budget = ? AND policy_version = ? AND data_version = ?"
    of = cube, budget, policy_version, book.state.data_version
    rows = book.find(EntryKind.CHARGE, same, *of)[::-1]
    periods = next(codec.decode_periods(row.detail) for row in rows if row.sequence == first)
    tables = [
        row
        for row in rows
        if book.answered(row.query_id)
        and analyst not in holders[query_of(row)]
        and codec.decode_periods(row.detail) == periods
    ]
    for row in tables:
        book.confirm(row)
    return PaidAnswer(
        " ".join(query_of(row) for row in tables),
        max(Decimal(str(row.epsilon)) for row in tables),
        sum(map(loss_in, tables), Loss(0)),
        frozenset.intersection(*(frozenset({cube, *holders[query_of(r)]}) for r in tables)),
        periods=periods,
    )
