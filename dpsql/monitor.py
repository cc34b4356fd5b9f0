"""monitor: a stream of counting queries against one threshold, by sparse vector.

Charged once, durably, when it is opened: ε for all its alarms, however many queries it answers.

What an adversary sees who chooses every question after the answers before it: one bit per query,
until the alarms are used up. All bits together, and that the monitor has ended, are ε-DP (the
proof is in `dpsql.mechanisms.sparse_vector`). A refusal depends on the text alone and is free. The
noisy threshold is in memory only and in one process: a monitor that is opened again has another
one and is charged anew. A question asked again gets the bits it got, also after the end, as long
as the data version is the same; to ask it of new data is a new query. That a statement failed says
that it failed, and no more; the time it took is not hidden, as for any query.

What a monitor loses: PRIVACY.md R52.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from hashlib import sha256
from threading import RLock
from typing import Self

from dpsql import accountants
from dpsql.accountants.remaining import in_epsilon, keyed_questions, questions, rest
from dpsql.engines import Engine, Stop, Unrun
from dpsql.errors import Reason, Refused
from dpsql.explanation import Rest
from dpsql.ledgers import Charge, Ledger
from dpsql.mechanisms.sparse_vector import Run, SparseVector, sparse_vector
from dpsql.model import (
    Budget,
    Column,
    Event,
    Exact,
    Loss,
    Neighbours,
    Noisy,
    Policy,
    Receipt,
    Request,
)
from dpsql.notices import Notice
from dpsql.prepare import Prepared
from dpsql.release import Sampler
from dpsql.running import Bound, guarded
from dpsql.streams import Stream, stream
from dpsql.tree import Value

MOST_ALARMS = 10_000
MOST_DIGITS = 100
"""Digits of a threshold before or behind the point: more are never meant."""


@dataclass(frozen=True, slots=True)
class Watch:
    """What is watched for: noisy values at or above `threshold`, `alarms` times.

    `both_ways` admits sums that one person can lower, for more noise on every query.
    """

    analyst: str
    threshold: Decimal
    alarms: int
    epsilon: Decimal | None = None
    both_ways: bool = False


@dataclass(frozen=True, slots=True)
class Verdict:
    """The bits of one statement: for each public key, in order, whether it is above.

    `answers` ends early where the alarms were used up. A statement without groups has one key: ().
    `notices` are about the `columns` of the statement.
    """

    keys: tuple[str, ...]
    answers: tuple[tuple[tuple[Value, ...], bool], ...]
    complete: bool = True
    notices: tuple[Notice, ...] = ()
    columns: tuple[Column, ...] = ()

    @property
    def above(self) -> bool:
        """Whether anything is above.

        >>> Verdict((), (((), True),)).above
        True
        """
        return any(above for _, above in self.answers)


@dataclass(frozen=True, slots=True)
class Desk:
    """What a monitor works with: the proxy's own parts."""

    policy: Policy
    budget: Budget
    epsilon: Decimal
    ledger: Ledger
    engine: Engine
    sampler: Sampler
    compiled: Callable[[Request], Prepared]
    bound: Bound
    ready: Callable[[str, str | None], None]

    def stream(self, request: Request) -> Stream:
        """The queries of a statement, which bind. Raises `Refused`, or `Failed` free of charge."""
        found = stream(self.compiled(request))
        measured = Unrun(found.sql.sql, found.tables, (len(found.sql.keys), found.sql.parts))
        self.bound.require(secrets.token_hex(8), (measured,), found.data, Stop())
        return found

    def charge(
        self, wish: Watch, law: SparseVector, question: str, data: Collection[str | None]
    ) -> Receipt:
        """Debits the whole monitor; on return that survives any crash.

        Not where `data`, which its statements are about, is no longer there.
        """
        accountant, query_id = accountants.get(self.budget.accountant), secrets.token_hex(8)
        for identity in data:
            self.ready(query_id, identity)
        event = Event((law.event,))
        loss = accountants.price(accountant.loss(event), self.budget)
        limit = accountant.limit(self.budget)
        charge = Charge(
            query_id=query_id,
            analyst=wish.analyst,
            budget=self.budget.name,
            accountant=accountant.name,
            epsilon=self.epsilon,
            event=event,
            loss=loss,
            limit=limit,
            question=question,
            policy_version=self.policy.version,
        )
        try:
            spent = self.ledger.charge(charge)
        except Refused as refused:
            spent_before = self.ledger.spent(charge.budget)
            raise in_epsilon(refused, self.budget, self.epsilon, spent_before) from None
        return self._receipt(wish, query_id, self.epsilon, loss, spent.after)

    def recalled(self, wish: Watch, query_id: str, epsilon: Decimal) -> Receipt:
        """The receipt of answers that are remembered."""
        spent = self.ledger.spent(self.budget.name)
        return self._receipt(wish, query_id, epsilon, Loss(0), spent)

    def _receipt(
        self, wish: Watch, query_id: str, epsilon: Decimal, charged: Loss, spent: Loss
    ) -> Receipt:
        accountant = accountants.get(self.budget.accountant)
        limit = accountant.limit(self.budget)
        names = query_id, wish.analyst, self.budget.name, accountant.name
        least = accountants.is_least(charged, self.budget)
        counts = questions(self.budget, spent), keyed_questions(self.budget, spent)
        rest = self.budget.query_epsilon, *counts
        return Receipt(*names, epsilon, charged, spent, limit, charged == Loss(0), least, *rest)


class Monitor:
    """An open monitor: thread-safe, a context manager; ended by its last alarm or by `close`.

    `close` records in the ledger what was answered, under the query that paid for it.
    """

    def __init__(
        self,
        desk: Desk,
        wish: Watch,
        law: SparseVector,
        question: str,
        data: Collection[str | None],
    ) -> None:
        self._desk, self._wish, self._law = desk, wish, law
        self._lock = RLock()
        self._known: dict[tuple[str, int], tuple[Verdict, Noisy]] = {}
        self._closed = False
        self.receipt = desk.charge(wish, law, question, data)
        self._run = Run(law, desk.sampler)

    @property
    def left(self) -> int:
        """The alarms that are left."""
        return 0 if self._closed else self._run.left

    def ask(self, sql: str, parameters: Sequence[Value] = (), dialect: str = "duckdb") -> Verdict:
        """Whether each query of a statement is above the threshold.

        Raises `Refused` for what is no stream, and once the alarms are used up; `Failed` where the
        engine failed: the question may be asked again.
        """
        asked = self._desk.stream(Request(sql, self._wish.analyst, dialect, tuple(parameters)))
        return self.verdict(asked)

    def can_tell(self, asked: Stream) -> bool:
        """Whether a statement would be answered: an alarm is left, or it was answered before."""
        place = asked.question, self._desk.ledger.data_version()
        return self.left > 0 or place in self._known

    def verdict(self, asked: Stream) -> Verdict:
        """`ask` for a statement that is compiled already."""
        _require_fit(asked, self._law)
        with self._lock:
            place = asked.question, self._desk.ledger.data_version()
            if place not in self._known:
                if not self.left:
                    raise Refused(Reason.ALARMS_USED, alarms=self._law.alarms)
                self._known[place] = self._compared(asked, self._exact(asked))
            return self._known[place][0]

    def close(self) -> None:
        """End the monitor and record its answers; a second time it does nothing."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
            answers = {question: noisy for (question, _), (_, noisy) in self._known.items()}
            self._desk.ledger.remember(self.receipt.query_id, tuple(answers.values()))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exception: object) -> None:
        self.close()

    def _exact(self, asked: Stream) -> Exact:
        sql, key = asked.sql, int.from_bytes(os.urandom(8))
        engine = self._desk.engine
        return guarded(
            self.receipt.query_id,
            lambda: engine.aggregate(
                sql.sql, len(sql.keys), sql.parts, key, asked.tables, data=asked.data
            ),
        )

    def _compared(self, asked: Stream, exact: Exact) -> tuple[Verdict, Noisy]:
        """One comparison per key of the domain, whether the data has it or not."""
        values = {key: int(exact.parts[0][n]) for n, key in enumerate(exact.keys)}
        threshold = Fraction(self._wish.threshold) / asked.release.query.lattice.step
        answers: list[tuple[tuple[Value, ...], bool]] = []
        for key in asked.domain:
            if not self._run.left:
                break
            above = self._run.above(values.get(key, 0), threshold, asked.distance)
            answers.append((key, above))
        complete = len(answers) == len(asked.domain)
        told = Verdict(asked.keys, tuple(answers), complete, asked.notices, asked.columns)
        return told, Noisy(
            tuple(key for key, _ in answers), tuple((int(above),) for _, above in answers)
        )


@dataclass(frozen=True, slots=True)
class Watched:
    """What a list of statements got: a verdict each, empty for those behind the last alarm."""

    verdicts: tuple[Verdict, ...]
    left: int
    receipt: Receipt


@dataclass(frozen=True, slots=True)
class Price:
    """What watching statements costs, and the noise that decides between above and below.

    A remembered list costs nothing. The noise of `law` is in units of each stream's distance.
    """

    wish: Watch
    streams: tuple[Stream, ...]
    law: SparseVector
    epsilon: Decimal
    budget: Budget
    charge: Loss
    spent: Loss
    limit: Loss
    remembered: bool
    rest: Rest


def priced(desk: Desk, wish: Watch, requests: Sequence[Request]) -> Price:
    """The price of `watched`, which refuses what this refuses, but for an exhausted budget."""
    streams, law, question = _compiled(desk, wish, requests)
    known = desk.ledger.recall(wish.analyst, question, desk.policy.version, desk.epsilon)
    accountant = accountants.get(desk.budget.accountant)
    full = accountants.price(accountant.loss(Event((law.event,))), desk.budget)
    charge = Loss(0) if known else full
    state = desk.ledger.spent(desk.budget.name), accountant.limit(desk.budget)
    price = desk.epsilon, desk.budget, charge
    left = rest(desk.budget, state[0], charge)
    return Price(wish, tuple(streams), law, *price, *state, known is not None, left)


def monitored(desk: Desk, wish: Watch) -> Monitor:
    """A monitor for questions to come. Raises `Refused` before anything is charged."""
    one_way = desk.policy.unit.neighbours is Neighbours.ADD_REMOVE and not wish.both_ways
    law = _law(desk, wish, one_way=one_way)
    return Monitor(desk, wish, law, secrets.token_hex(32), (desk.policy.data,))


def watched(desk: Desk, wish: Watch, requests: Sequence[Request]) -> Watched:
    """The verdicts of known statements: all are compiled before anything is charged.

    One question of the ledger: asked again, it gets the same answers at no cost. Raises `Refused`,
    with the number from 1 of the `statement` that is at fault.
    """
    streams, law, question = _compiled(desk, wish, requests)
    known = desk.ledger.recall(wish.analyst, question, desk.policy.version, desk.epsilon)
    if known is None:
        data = {asked.data for asked in streams}
        return _asked(Monitor(desk, wish, law, question, data), streams)
    distinct = dict.fromkeys(asked.question for asked in streams)
    answers = dict(zip(distinct, known.answer, strict=False))
    verdicts = tuple(_told(asked, answers.get(asked.question)) for asked in streams)
    alarms = sum(bool(part) for noisy in known.answer for (part,) in noisy.parts)
    receipt = desk.recalled(wish, known.query_id, known.epsilon)
    return Watched(verdicts, law.alarms - alarms, receipt)


def _compiled(
    desk: Desk, wish: Watch, requests: Sequence[Request]
) -> tuple[list[Stream], SparseVector, str]:
    streams = [_numbered(desk, number, request) for number, request in enumerate(requests, 1)]
    one_way = not wish.both_ways and all(asked.one_way for asked in streams)
    law = _law(desk, wish, one_way=one_way)
    return streams, law, _question(wish, law, streams)


def _asked(monitor: Monitor, streams: Sequence[Stream]) -> Watched:
    """Every statement in order, as long as alarms are left; a repeated one is free."""
    with monitor:
        verdicts = tuple(
            monitor.verdict(asked) if monitor.can_tell(asked) else _told(asked, None)
            for asked in streams
        )
        return Watched(verdicts, monitor.left, monitor.receipt)


def _told(asked: Stream, noisy: Noisy | None) -> Verdict:
    """The verdict that is recorded in the ledger as keys and bits; None: it was never asked."""
    if noisy is None:
        return Verdict(asked.keys, (), False, asked.notices, asked.columns)
    answers = tuple((key, bool(bit)) for key, (bit,) in zip(noisy.keys, noisy.parts, strict=True))
    complete = len(answers) == len(asked.domain)
    return Verdict(asked.keys, answers, complete, asked.notices, asked.columns)


def _law(desk: Desk, wish: Watch, *, one_way: bool) -> SparseVector:
    if not (isinstance(wish.alarms, int) and 1 <= wish.alarms <= MOST_ALARMS):
        known = (f"a whole number from 1 to {MOST_ALARMS}",)
        raise Refused(Reason.BAD_OPTION, option="alarms", value=wish.alarms, known=known)
    if not wish.threshold.is_finite() or abs(wish.threshold.adjusted()) > MOST_DIGITS:
        known = ("a finite number",)
        raise Refused(Reason.BAD_OPTION, option="threshold", value=wish.threshold, known=known)
    return sparse_vector(Fraction(desk.epsilon), wish.alarms, one_way=one_way)


def _numbered(desk: Desk, number: int, request: Request) -> Stream:
    try:
        return desk.stream(request)
    except Refused as refused:
        facts = refused.facts | {"statement": number}
        raise Refused(refused.reason, refused.span, **facts) from None


def _require_fit(asked: Stream, law: SparseVector) -> None:
    if law.one_way and not asked.one_way:
        raise Refused(
            Reason.UNSUPPORTED_PRIVATE_OPERATOR,
            construct="watching a sum that one person can lower",
            fix="Open the monitor with both_ways=True: every query gets more noise.",
        )


def _question(wish: Watch, law: SparseVector, streams: Sequence[Stream]) -> str:
    """What identifies a list of statements and what it is watched for, whatever the epsilon."""
    words = ["watch", str(Fraction(wish.threshold)), str(law.alarms), str(law.one_way)]
    return sha256("\n".join(words + [asked.question for asked in streams]).encode()).hexdigest()
