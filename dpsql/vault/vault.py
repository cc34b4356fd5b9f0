"""vault: charge, run, release, remember, finish: in this order, and no step back.

It alone holds the ledger, the engine and the sampler. Other code calls it with a plan of the
compiler, and it calls no one back.

The debit comes first: SECURITY.md S3. Returning a paid answer again loses no privacy: PRIVACY.md
R69.

Rows over public tables alone are cached while the data is the same, because a dashboard asks for
the same list of cities all day. Only small results are kept, in memory.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from decimal import Decimal
from functools import partial

from dpsql import mechanisms
from dpsql.compiler.plan.plan_version import BY_PLAN
from dpsql.compiler.plan.prepared import Prepared
from dpsql.engines import Ending, Engine, Stop, Unrun, admitted
from dpsql.ledgers import Charge, Inquiry, Ledger
from dpsql.mechanisms.entropy import Entropy
from dpsql.mechanisms.sparse_vector import Run, SparseVector
from dpsql.model.dataclass import replace
from dpsql.model.errors import LedgerError
from dpsql.model.public_times import Resolution, now
from dpsql.model.stored import Room
from dpsql.model.vocabulary import Answer, Exact, Noisy, Receipt
from dpsql.preparation.compilation import Compiler
from dpsql.preparation.question import Account, Cost, Question
from dpsql.preparation.streams import QueryStream
from dpsql.preparation.workload import expected_work, require_result_room
from dpsql.release.execution import Bound, guarded, measuring, released, require_ready, statements
from dpsql.release.histogram_choices import chosen
from dpsql.release.release import Sampler
from dpsql.vault.answer_cache import AnswerCache, finish_answer
from dpsql.vault.in_flight import InFlight
from dpsql.vault.joint_run import JointRun
from dpsql.vault.measured_cells import MeasuredCells, measured_cells
from dpsql.vault.public_rows import PublicRows
from dpsql.vault.till import Till


def _charge(query: Question, prepared: Prepared, query_id: str) -> Charge:
    """Return the charge of a measurement."""
    assert prepared.plan is not None
    cost = Cost(prepared.question, prepared.plan.event, prepared.plan.loss)
    account = replace(query.account, periods=prepared.charged)
    return account.charge(query_id, cost, BY_PLAN, query.inquiry)


class Vault:
    """Exclusive holder of the ledger, the engine and the noise: thread-safe.

    `sampler` draws the noise; only tests of the laws pass another than the default.
    """

    def __init__(self, ledger: Ledger, engine: Engine, sampler: Sampler | None = None) -> None:
        self.ledger, self.engine, self.in_flight = ledger, engine, InFlight(ledger)
        self.sampler = sampler or partial(mechanisms.sample, entropy=Entropy())
        self._chooser = partial(chosen, entropy=Entropy())
        self._bound = Bound()
        self.till, self._room = Till(ledger), Room()
        self.forget()

    # --- a question ---

    def answered(self, compiler: Compiler, query: Question) -> Answer:
        """Return the answer to one question: of public rows, remembered, or charged now.

        Raises as `Proxy.ask` does.
        """
        if not compiler.questions(query):
            return self._rows.answer(compiler, self.engine, query, compiler.prepared(query))
        remembered = self.remembered(compiler, query)
        return remembered or self.charged(compiler, query, compiler.prepared(query))

    def remembered(
        self,
        compiler: Compiler,
        query: Question,
        least: Decimal | None = None,
        without: frozenset[str] = frozenset(),
    ) -> Answer | None:
        """Return an earlier paid answer if the ledger still contains it, else None.

        It cost at least `least`, or by default the present epsilon. Queries `without` do not count.
        """
        return self.memory.remembered(compiler, query, self.engine, least, without)

    def measure(
        self, compiler: Compiler, query: Question, wide: Prepared, answering: Prepared
    ) -> tuple[str, MeasuredCells]:
        """Charge and run a measurement; return its id and cells, which are kept for its
        population.

        `answering` is the plan of the present question; all its checks run first.
        """
        require_result_room(compiler, answering, query.stop)
        self.require_bound(answering, query.stop)
        with self._all_paid(compiler, [(query, wide)]) as (((query_id, (noisy,)),), _engine):
            return query_id, measured_cells(noisy)

    def unanswered(self, query: Question, prepared: Prepared) -> str:
        """Return the query that an interrupted release was charged for and has no answer of, or ""
        (SECURITY.md S37).
        """
        resumes = query.request.resumes and prepared.plan is not None
        return self.ledger.unanswered(_charge(query, prepared, "")) if resumes else ""

    def measure_all(
        self,
        compiler: Compiler,
        measured: Sequence[tuple[Question, Prepared]],
        answering: Sequence[tuple[Question, Prepared]],
    ) -> str:
        """Charge and run measurements, all or none; return the id of the first, and keep them.

        `answering` are the plans of the present questions; all their checks run first.
        """
        for query, prepared in answering:
            require_result_room(compiler, prepared, query.stop)
            self.require_bound(prepared, query.stop)
        with self._all_paid(compiler, measured) as (((query_id, _), *_), _engine):
            return query_id

    def derived(
        self, compiler: Compiler, query: Question, prepared: Prepared, noisy: Noisy, paid: Receipt
    ) -> Answer:
        """Return the answer derived from measurements; `paid` is the receipt of the last of
        them.

        It is not recorded: it can be derived again.
        """
        stop, most = query.stop, compiler.policy.limits.max_result_cells

        def finished() -> Answer:
            return finish_answer(prepared, (noisy,), paid, self.engine, most, stop)

        return compiler.freely(finished, stop) if paid.remembered else finished()

    def charged(self, compiler: Compiler, query: Question, prepared: Prepared) -> Answer:
        """Return an answer that is charged now. The charge stays even if the query fails."""
        plan = prepared.plan
        assert plan is not None
        query.require_room_for(prepared.columns)
        query.require_useful(prepared.notices, plan.loss)
        require_result_room(compiler, prepared, query.stop)
        earlier = self.unanswered(query, prepared)
        with self._all_paid(compiler, [(query, prepared)]) as (((query_id, noisy),), engine):
            loss = None if query_id == earlier else plan.loss
            receipt = self.till.receipt(query.account, query_id, loss)
            most = compiler.policy.limits.max_result_cells
            answer = finish_answer(prepared, noisy, receipt, engine, most, query.stop)
        question = compiler.questions(query)[0]
        if prepared.question == question:
            self.memory.keep(query, question, answer)
        return answer

    @contextmanager
    def _all_paid(
        self, compiler: Compiler, measured: Sequence[tuple[Question, Prepared]]
    ) -> Iterator[tuple[Sequence[tuple[str, tuple[Noisy, ...]]], Engine]]:
        """Charge, release and remember several questions of one payer, all or none of them.

        Those of an interrupted release are not charged again.
        """
        stop, resumes = measured[0][0].stop, measured[0][0].request.resumes
        earlier = [self.unanswered(query, prepared) for query, prepared in measured]
        ids = [query_id or secrets.token_hex(8) for query_id in earlier]
        for _, prepared in measured:
            self.require_bound(prepared, stop)
        paced = stop.pace is not None
        sizes = [expected_work(compiler, p, stop) if paced else None for _, p in measured]
        with admitted(stop), self._taken(ids[0], stop) as engine:
            # One engine from here to the end: its opened data stays the same.
            for identity in {prepared.data for _, prepared in measured}:
                require_ready(engine, ids[0], identity, stop)
            stop.settle()
            new = (each for each in zip(ids, measured, strict=True) if each[0] not in earlier)
            charges = [_charge(query, prepared, query_id) for query_id, (query, prepared) in new]
            self.till.charge(measured[0][0].account, *charges)
            paid = []
            for query_id, (_, prepared), size in zip(ids, measured, sizes, strict=True):
                pace = measuring(stop, query_id, size, compiler.policy.limits.statement_seconds)
                step = partial(self._released, prepared, engine, pace, stop)
                paid.append((query_id, self._guarded(query_id, step)))
                if not resumes:
                    self.ledger.remember(*paid[-1])
            yield self._first_stored(paid) if resumes else paid, engine

    def _first_stored(
        self, paid: list[tuple[str, tuple[Noisy, ...]]]
    ) -> list[tuple[str, tuple[Noisy, ...]]]:
        """Store the answers of a release, all or none; return those that are stored.

        Another process may have been faster: its answers count, and these are dropped unseen.
        """
        try:
            self.ledger.remember(*paid[0], *paid[1:])
        except LedgerError:
            with suppress(LedgerError):
                return [(query_id, self.ledger.answer(query_id)) for query_id, _ in paid]
            raise
        return paid

    def require_bound(self, prepared: Prepared, stop: Stop) -> None:
        """Raise `Failed`, without a charge, if a statement would always fail."""
        self._bound.require(self.engine, tuple(statements(prepared)), prepared.data, stop)

    # --- a monitor ---

    def require_stream(self, stream: QueryStream) -> None:
        """Raise `Failed`, without a charge, if the stream's statement would always fail."""
        shape = len(stream.sql.keys), stream.sql.parts
        measured = Unrun(stream.sql.sql, stream.tables, shape)
        self._bound.require(self.engine, (measured,), stream.data, Stop())

    def opened(
        self,
        account: Account,
        cost: Cost,
        data: Collection[str | None],
        inquiry: Inquiry,
    ) -> Receipt:
        """Charge a monitor as a whole and return its receipt: on return the charge survives any
        crash.

        Raises `Failed`, without a charge, if the `data` of its statements is gone.
        """
        query_id = secrets.token_hex(8)
        for identity in data:
            require_ready(self.engine, query_id, identity)
        self.till.charge(account, account.charge(query_id, cost, BY_PLAN, inquiry))
        return self.till.receipt(account, query_id, cost.loss)

    def run(self, law: SparseVector) -> Run:
        """Return a new noisy threshold."""
        return Run(law, self.sampler)

    def measured(self, query_id: str, stream: QueryStream) -> Exact:
        """Return the exact integers of a stream, for a charged query."""
        sql, key = stream.sql, int.from_bytes(os.urandom(16))
        keys, tables = len(sql.keys), stream.tables
        return self._guarded(
            query_id,
            lambda: self.engine.aggregate(sql.sql, keys, sql.parts, key, tables, data=stream.data),
        )

    # --- several plans at one charge ---

    def joint(
        self,
        compiler: Compiler,
        account: Account,
        cost: Cost,
        plans: Sequence[Prepared],
        inquiry: Inquiry,
        stop: Stop,
        measure: Callable[[JointRun], tuple[Noisy, ...]],
    ) -> tuple[Receipt, tuple[Noisy, ...]]:
        """Charge a cost, run `measure`, and remember its result; return receipt and noisy
        tables.

        `plans` are the plans that it may run. The charge stays, whatever happens after it.
        """
        query_id = secrets.token_hex(8)
        for prepared in plans:
            self.require_bound(prepared, stop)
        sizes = [] if stop.pace is None else [expected_work(compiler, p, stop) for p in plans]
        size = None if None in sizes or stop.pace is None else sum(filter(None, sizes))
        with admitted(stop), self._taken(query_id, stop) as engine:
            for identity in {prepared.data for prepared in plans}:
                require_ready(engine, query_id, identity, stop)
            stop.settle()
            self.till.charge(account, account.charge(query_id, cost, BY_PLAN, inquiry))

            def measured() -> tuple[Noisy, ...]:
                seconds = compiler.policy.limits.statement_seconds
                with measuring(stop, query_id, size, seconds) as ending:
                    return measure(JointRun(engine, self.sampler, self._chooser, stop, ending))

            noisy = self._guarded(query_id, measured)
            self.ledger.remember(query_id, noisy)
        return self.till.receipt(account, query_id, cost.loss), noisy

    # --- the ledger ---

    def stamp(self, seconds: float, resolution: Resolution) -> object:
        """Return a value that stays equal while all cached answers do; None if the ledger is busy
        longer.
        """
        last_stamp = self.ledger.stamp(seconds)
        return last_stamp and (self.memory, resolution.floor(now()), last_stamp)

    def forget(self, *, keeps_paid: bool = False) -> None:
        """Drop all cached answers; running queries fill the old caches.

        With `keeps_paid`, answers stay that the ledger confirms for each query.
        """
        if not keeps_paid:
            self.memory = AnswerCache(self.ledger, self.till)
        self._rows = PublicRows(self._room)

    def close(self) -> None:
        """Stop the engine and close the ledger."""
        self.engine.close()
        self.ledger.close()

    # --- the steps of an answer ---

    _guarded = staticmethod(guarded)

    @contextmanager
    def _taken(self, query_id: str, stop: Stop) -> Iterator[Engine]:
        """Reserve one engine for a question; raises `Failed`, without a charge."""
        with ExitStack() as stack:
            taken = self.engine.taken(stop)
            yield guarded(query_id, lambda: stack.enter_context(taken), charged=False)

    def _released(
        self, prepared: Prepared, engine: Engine, pace: AbstractContextManager[Ending], stop: Stop
    ) -> tuple[Noisy, ...]:
        with pace:
            noisy = released(prepared, engine, self.sampler, self._chooser, stop)
        return tuple(replace(table, origin=prepared.measured) for table in noisy)
