"""A stream of counting queries against one threshold, by the sparse vector technique.

A monitor is charged once, durably, when it opens. Its ε covers all alarms, for any number of
queries.

An adversary may choose every query after earlier answers. It sees one bit per query until the
alarms are used up, and a noisy number of each alarm if that is charged. All of this, including the
end of the monitor, is ε-DP (proof in `dpsql.mechanisms.sparse_vector`). A refusal depends only on
the text and is free. The noisy threshold stays in the memory of one process. A reopened monitor has
a new threshold and is charged again. A repeated query gets the same bits, even after the end, as
long as the data version is the same. On new data it is a new query. A failure of a statement is
shown, but no details. Its run time is not hidden, as for any query.

Proof (PRIVACY.md R52). Alarms and their numbers are charged together when a monitor opens. An alarm
is measured once, and nothing else depends on its noise.
"""

from __future__ import annotations

import secrets
from collections.abc import Collection, Sequence
from decimal import Decimal
from fractions import Fraction
from hashlib import sha256
from threading import RLock
from typing import Any, Self

from dpsql import accountants
from dpsql.accountants.remaining import rest
from dpsql.answering.side_systems import Parts
from dpsql.dialects.statements.commands import Explain
from dpsql.engines import Stop
from dpsql.ledgers import Inquiry, Remembered
from dpsql.mechanisms import margin
from dpsql.mechanisms.sparse_vector import AlarmNumbers, SparseVector, sparse_vector
from dpsql.model.bound_parameters import frozen
from dpsql.model.dataclass import dataclass, replace
from dpsql.model.errors import Reason, Refused
from dpsql.model.notices import Notice
from dpsql.model.query_options import sensible
from dpsql.model.tree import Parameter, Value
from dpsql.model.vocabulary import (
    DEFAULT_SPELLING,
    NANO,
    ApproximateEvent,
    Budget,
    Column,
    Event,
    Exact,
    Loss,
    Neighbours,
    Noisy,
    Receipt,
    Request,
    Rest,
)
from dpsql.preparation.compilation import Compiler
from dpsql.preparation.engine_kinds import dialects
from dpsql.preparation.question import Account, Cost, account
from dpsql.preparation.streams import QueryStream, stream
from dpsql.release.release import in_units
from dpsql.vault.vault import Vault

MOST_ALARMS = 10_000
MOST_DIGITS = 100
"""Maximum number of digits of a threshold before or after the decimal point."""


@dataclass(frozen=True, slots=True)
class Watch:
    """Parameters of a monitor: alarms for noisy values at or above `threshold`, `alarms` times.

    `both_ways` admits sums that one person can lower, at the cost of more noise. `measure` is
    additional ε for a noisy number with each alarm.
    """

    analyst: str
    threshold: Decimal
    alarms: int
    epsilon: Decimal | None = None
    both_ways: bool = False
    measure: Decimal | None = None

    def run(self, parts: Parts) -> Monitor:
        """Return a monitor for later questions, charged now."""
        return monitored(Desk.of(parts.compiler, parts.vault, self), self)


@dataclass(frozen=True, slots=True)
class Verdict:
    """The bits of one statement: for each public key, in order, whether it is above.

    `answers` ends early if the alarms are used up. A statement without groups has one key: ().
    `notices` concern the `columns` of the statement. If alarms are measured, `numbers` has a number
    per answer (None if below). Its 95 % confidence interval is ± `margin`.
    """

    keys: tuple[str, ...]
    answers: tuple[tuple[tuple[Value, ...], bool], ...]
    complete: bool = True
    notices: tuple[Notice, ...] = ()
    columns: tuple[Column, ...] = ()
    numbers: tuple[int | Decimal | float | None, ...] = ()
    margin: float | None = None

    @property
    def above(self) -> bool:
        """True if any answer is above the threshold.

        >>> Verdict((), (((), True),)).above
        True
        """
        return any(above for _, above in self.answers)


@dataclass(frozen=True, slots=True)
class Desk:
    """Compiler and vault of a monitor, for one account.

    `watching` is the ε for the bits. `numbers` describes the noise for the numbers of alarms, if
    any.
    """

    compiler: Compiler
    vault: Vault
    account: Account
    watching: Decimal
    numbers: AlarmNumbers | None = None

    @classmethod
    def of(cls, compiler: Compiler, vault: Vault, wish: Watch) -> Self:
        """Return the desk for a monitor. Raises `Refused` for an unknown analyst or a bad ε."""
        payer = account(compiler.policy, wish.analyst, wish.epsilon)
        watching = payer.epsilon
        if wish.measure is None:
            return cls(compiler, vault, payer, watching)
        if not sensible(wish.measure):
            raise Refused(Reason.BAD_OPTION, option="measure", value=wish.measure)
        payer = account(compiler.policy, wish.analyst, watching + wish.measure)
        return cls(compiler, vault, payer, watching, _numbers(payer.budget, wish))

    def stream(self, request: Request) -> QueryStream:
        """Return the queries of a statement. Raises `Refused`, or `Failed` free of charge.

        EXPLAIN and OPTIONS are refused, since the monitor is charged as a whole.
        """
        said = self.compiler.statement(request, Stop())
        text = said.inner(request.sql) if isinstance(said, Explain) else request.sql
        question = self.compiler.read(replace(request, sql=text), Stop())
        if text != request.sql or question.optioned:
            raise Refused(Reason.UNSUPPORTED_STATEMENT, construct="EXPLAIN or OPTIONS here")
        prepared = self.compiler.prepared(question)
        query = stream(prepared, dialects(self.compiler.policy.database).database)
        self.vault.require_stream(query)
        return query

    def opened(self, law: SparseVector, question: str, data: Collection[str | None]) -> Receipt:
        """Charge the whole monitor; see `Vault.opened`."""
        inquiry, cost = Inquiry(door="monitor"), self.cost(law, question)
        return self.vault.opened(self.account, cost, data, inquiry)

    def cost(self, law: SparseVector, question: str, *earlier: str) -> Cost:
        """Return the cost of a monitor."""
        numbers = () if self.numbers is None else (self.numbers.event,)
        event, budget = Event((law.event, *numbers)), self.account.budget
        loss = accountants.get(budget.accountant).loss(event)
        return Cost(question, event, accountants.price(loss, budget), earlier)

    def recalled(self, cost: Cost) -> Remembered | None:
        """Return the earlier answer to the same question at the same ε, or None."""
        return self.vault.memory.recall_cost(self.compiler, self.account, cost)

    @property
    def data_version(self) -> int:
        """Current data version."""
        return self.vault.ledger.data_version()


class Monitor:
    """An open monitor: thread-safe, a context manager. Its last alarm or `close` ends it.

    `close` records the answers in the ledger, under the query that was charged.
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
        self._verdicts: dict[tuple[str, int], tuple[Verdict, Noisy]] = {}
        self._closed = False
        self.receipt = desk.opened(law, question, data)
        self._run = desk.vault.run(law)

    @property
    def left(self) -> int:
        """Number of alarms that remain."""
        return 0 if self._closed else self._run.left

    def ask(
        self,
        sql: str,
        parameters: Sequence[Parameter | list[Any]] = (),
        dialect: str = DEFAULT_SPELLING,
    ) -> Verdict:
        """Return whether each query of a statement is above the threshold.

        Raises `Refused` for unsupported statements and after the last alarm. Raises `Failed` if the
        engine failed; the statement may be repeated.
        """
        query = self._desk.stream(Request(sql, self._wish.analyst, dialect, frozen(parameters)))
        return self.verdict(query)

    def can_tell(self, query: QueryStream) -> bool:
        """Test whether a statement would be answered: an alarm remains, or it was answered
        before.
        """
        place = query.question, self._desk.data_version
        return self.left > 0 or place in self._verdicts

    def verdict(self, query: QueryStream) -> Verdict:
        """Return one bit for each public key: whether its noisy number is above the threshold.

        A verdict has no numbers. Raises `Refused` if no alarm is left.
        """
        _require_fit(query, self._law)
        with self._lock:
            place = query.question, self._desk.data_version
            if place not in self._verdicts:
                if not self.left:
                    raise Refused(Reason.ALARMS_USED, alarms=self._law.alarms)
                exact = self._desk.vault.measured(self.receipt.query_id, query)
                self._verdicts[place] = self._compared(query, exact)
            return self._verdicts[place][0]

    def close(self) -> None:
        """End the monitor and record its answers. A second call does nothing."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
            answers = {question: noisy for (question, _), (_, noisy) in self._verdicts.items()}
            self._desk.vault.ledger.remember(self.receipt.query_id, tuple(answers.values()))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exception: object) -> None:
        self.close()

    def _compared(self, query: QueryStream, exact: Exact) -> tuple[Verdict, Noisy]:
        """Compare the value of each public key with the threshold, including keys without data."""
        values = {key: int(exact.parts[0][n]) for n, key in enumerate(exact.keys)}
        threshold = Fraction(self._wish.threshold) / query.release.query.lattice.step
        answers, numbers = list[tuple[tuple[Value, ...], bool]](), list[int | None]()
        for key in query.domain:
            if not self._run.left:
                break
            above = self._run.above(values.get(key, 0), threshold, query.distance)
            answers.append((key, above))
            numbers.append(self._number(values.get(key, 0), query) if above else None)
        bits = [int(above) for _, above in answers]
        columns = (bits,) if self._desk.numbers is None else (bits, numbers)
        noisy = Noisy(tuple(key for key, _ in answers), tuple(zip(*columns, strict=True)))
        return _verdict(query, noisy, self._desk.numbers), noisy

    def _number(self, value: int, query: QueryStream) -> int | None:
        """Return the noisy value of an alarm, or None if numbers are not charged."""
        numbers = self._desk.numbers
        return None if numbers is None else self._run.number(value, numbers.noise(query.distance))


@dataclass(frozen=True, slots=True)
class Watched:
    """The verdicts of a list of statements; empty for statements after the last alarm."""

    verdicts: tuple[Verdict, ...]
    left: int
    receipt: Receipt


@dataclass(frozen=True, slots=True)
class Price:
    """The price of watching statements, and the noise of the comparisons.

    A remembered list is free. The noise of `law` is in units of each stream's distance.
    """

    wish: Watch
    streams: tuple[QueryStream, ...]
    law: SparseVector
    epsilon: Decimal
    budget: Budget
    charge: Loss
    spent: Loss
    limit: Loss
    remembered: bool
    rest: Rest
    numbers: AlarmNumbers | None = None


def priced(desk: Desk, wish: Watch, requests: Sequence[Request]) -> Price:
    """Return the price of `watched`. Raises its refusals, except for an exhausted budget."""
    streams, law, cost = _compiled(desk, wish, requests)
    recalled = _recalled(desk, law, cost, streams)
    budget = desk.account.budget
    charge = Loss(0) if recalled else cost.loss
    standing = desk.vault.till.standing(desk.account)
    return Price(
        wish=wish,
        streams=tuple(streams),
        law=law,
        epsilon=desk.account.epsilon,
        budget=budget,
        charge=charge,
        spent=standing.spent,
        limit=standing.limit,
        remembered=recalled is not None,
        rest=rest(standing.budget, standing.spent, charge),
        numbers=desk.numbers,
    )


def monitored(desk: Desk, wish: Watch) -> Monitor:
    """Open a monitor for future queries. Raises `Refused` before anything is charged."""
    one_way = desk.compiler.policy.unit.neighbours is Neighbours.ADD_REMOVE and not wish.both_ways
    law = _law(desk, wish, one_way=one_way)
    return Monitor(desk, wish, law, secrets.token_hex(32), (desk.compiler.policy.data,))


def watched(desk: Desk, wish: Watch, requests: Sequence[Request]) -> Watched:
    """Return the verdicts of a list of statements. All are compiled before anything is charged.

    The list is one query of the ledger: repeated, it gets the same answers for free. Raises
    `Refused` with the number of the faulty `statement`, from 1.
    """
    streams, law, cost = _compiled(desk, wish, requests)
    recalled = _recalled(desk, law, cost, streams)
    if recalled is None:
        data = {query.data for query in streams}
        return _answered(Monitor(desk, wish, law, cost.question, data), streams)
    distinct = dict.fromkeys(query.question for query in streams)
    answers = dict(zip(distinct, recalled.answer, strict=False))
    verdicts = tuple(
        _verdict(query, answers.get(query.question), desk.numbers) for query in streams
    )
    alarms = _alarms(recalled)
    receipt = desk.vault.till.receipt(
        replace(desk.account, epsilon=recalled.epsilon), recalled.query_id
    )
    return Watched(verdicts, law.alarms - alarms, receipt)


def _recalled(
    desk: Desk, law: SparseVector, cost: Cost, streams: Sequence[QueryStream]
) -> Remembered | None:
    """Return the earlier answer to the same list; None if a failure cut it short.

    In that case some alarms remain and some statements have no answer. The list is then charged
    again, since the old noisy threshold is lost.
    """
    recalled = desk.recalled(cost)
    if recalled is None or _alarms(recalled) >= law.alarms:
        return recalled
    distinct = {query.question for query in streams}
    return recalled if len(recalled.answer) == len(distinct) else None


def _alarms(recalled: Remembered) -> int:
    return sum(bool(bit) for noisy in recalled.answer for bit, *_ in noisy.parts)


def _compiled(
    desk: Desk, wish: Watch, requests: Sequence[Request]
) -> tuple[list[QueryStream], SparseVector, Cost]:
    streams = [_numbered(desk, number, request) for number, request in enumerate(requests, 1)]
    one_way = not wish.both_ways and all(query.one_way for query in streams)
    law = _law(desk, wish, one_way=one_way)
    questions, earlier = [each.question for each in streams], [each.earlier for each in streams]
    return streams, law, desk.cost(law, *(_question(wish, law, s) for s in (questions, earlier)))


def _answered(monitor: Monitor, streams: Sequence[QueryStream]) -> Watched:
    """Answer every statement in order while alarms remain. A repeated statement is free."""
    with monitor:
        verdicts = tuple(
            monitor.verdict(query) if monitor.can_tell(query) else _verdict(query, None, None)
            for query in streams
        )
        return Watched(verdicts, monitor.left, monitor.receipt)


def _verdict(query: QueryStream, noisy: Noisy | None, numbers: AlarmNumbers | None) -> Verdict:
    """Return the verdict from a ledger answer; None stands for a statement without an answer."""
    if noisy is None:
        return Verdict(query.keys, (), False, query.notices, query.columns)
    answers = tuple(
        (key, bool(bit)) for key, (bit, *_) in zip(noisy.keys, noisy.parts, strict=True)
    )
    complete = len(answers) == len(query.domain)
    verdict = Verdict(query.keys, answers, complete, query.notices, query.columns)
    if numbers is None:
        return verdict
    lattice = query.release.query.lattice
    return replace(
        verdict,
        numbers=tuple(in_units(number, lattice) for _, number in noisy.parts),
        margin=margin(numbers.noise(query.distance)) * float(lattice.step),
    )


def _numbers(budget: Budget, wish: Watch) -> AlarmNumbers:
    """Return the noise of the numbers. All alarms together cost as much as a step of this ε."""
    _require_alarms(wish)
    accountant = accountants.get(budget.accountant)
    whole = accountant.loss(Event((ApproximateEvent(Fraction(wish.measure or 0)),)))
    epsilon = accountant.step(Fraction(whole.amount, NANO) / wish.alarms)
    if not epsilon:
        raise Refused(Reason.BAD_OPTION, option="measure", value=wish.measure)
    return AlarmNumbers(epsilon, wish.alarms)


def _require_alarms(wish: Watch) -> None:
    if not (isinstance(wish.alarms, int) and 1 <= wish.alarms <= MOST_ALARMS):
        allowed = (f"a whole number from 1 to {MOST_ALARMS}",)
        raise Refused(Reason.BAD_OPTION, option="alarms", value=wish.alarms, known=allowed)


def _law(desk: Desk, wish: Watch, *, one_way: bool) -> SparseVector:
    _require_alarms(wish)
    if not wish.threshold.is_finite() or abs(wish.threshold.adjusted()) > MOST_DIGITS:
        allowed = ("a finite number",)
        raise Refused(Reason.BAD_OPTION, option="threshold", value=wish.threshold, known=allowed)
    return sparse_vector(Fraction(desk.watching), wish.alarms, one_way=one_way)


def _numbered(desk: Desk, number: int, request: Request) -> QueryStream:
    try:
        return desk.stream(request)
    except Refused as refused:
        facts = refused.facts | {"statement": number}
        raise Refused(refused.reason, refused.span, **facts) from None


def _require_fit(query: QueryStream, law: SparseVector) -> None:
    if law.one_way and not query.one_way:
        raise Refused(
            Reason.UNSUPPORTED_PRIVATE_OPERATOR,
            construct="watching a sum that one person can lower",
            fix="Open the monitor with both_ways=True: every query gets more noise.",
        )


def _question(wish: Watch, law: SparseVector, questions: Sequence[str]) -> str:
    """Return the identity of a list of statements and its parameters, without ε."""
    words = ["watch", str(Fraction(wish.threshold)), str(law.alarms), str(law.one_way)]
    words += [] if wish.measure is None else ["measure", str(Fraction(wish.measure))]
    return sha256("\n".join([*words, *questions]).encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class WatchAll:
    """A list of watched statements: refused together, remembered together, charged once."""

    wish: Watch
    requests: Sequence[Request]

    def run(self, parts: Parts) -> Watched:
        """Return the verdicts."""
        desk = Desk.of(parts.compiler, parts.vault, self.wish)
        return watched(desk, self.wish, self.requests)


@dataclass(frozen=True, slots=True)
class ExplainWatch:
    """Price and noise of `WatchAll`: runs nothing, charges nothing."""

    wish: Watch
    requests: Sequence[Request]

    def run(self, parts: Parts) -> Price:
        """Return the price."""
        return priced(Desk.of(parts.compiler, parts.vault, self.wish), self.wish, self.requests)
