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
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from decimal import Decimal
from functools import partial
from time import monotonic
from typing import Any, TypeVar

from dpsql import mechanisms
from dpsql.compiler.plan.prepared import Prepared
from dpsql.engines import Ending, Engine, Stop, Unrun, admitted
from dpsql.engines.limited import WorkLimit
from dpsql.ledgers import Inquiry, Ledger, PaidAnswer, Remembered
from dpsql.mechanisms.entropy import Entropy
from dpsql.mechanisms.sparse_vector import Run, SparseVector
from dpsql.model.bounded_cache import BoundedCache
from dpsql.model.dataclass import dataclass, field, replace
from dpsql.model.errors import Reason, Refused
from dpsql.model.public_times import Resolution, now
from dpsql.model.resources import bytes_of
from dpsql.model.stored import Flow, Room, Share
from dpsql.model.table import Table
from dpsql.model.vocabulary import Answer, Exact, Loss, Noisy, Policy, Receipt
from dpsql.preparation.compilation import Compiler
from dpsql.preparation.question import Account, Cost, Question, Standing, text_key
from dpsql.preparation.streams import QueryStream
from dpsql.preparation.workload import fewest, operations
from dpsql.release.execution import Bound, guarded, measuring, released, require_ready, statements
from dpsql.release.finish import evaluated, finish, presented, presented_table, unnoised
from dpsql.release.histogram_choices import Chooser, chosen
from dpsql.release.release import Sampler, release
from dpsql.vault.in_flight import InFlight
from dpsql.vault.measured_cells import KnownTables, MeasuredCells, known_tables, measured_cells
from dpsql.vault.public_rows import PublicRows

T = TypeVar("T")
FEW_CELLS = 1_000_000
"""Number of public values that are read at once; larger results are run again and streamed."""


class Vault:
    """Exclusive holder of the ledger, the engine and the noise: thread-safe.

    `sampler` draws the noise; only tests of the laws pass another than the default.
    """

    def __init__(self, ledger: Ledger, engine: Engine, sampler: Sampler | None = None) -> None:
        self.ledger, self.engine, self.in_flight = ledger, engine, InFlight(ledger)
        self.sampler = sampler or partial(mechanisms.sample, entropy=Entropy())
        self._chooser = partial(chosen, entropy=Entropy())
        self._bound = Bound()
        self._answers, self._populations = answers_of(), known_tables(MOST_CELLS)
        self._rows, self._room = PublicRows(), Room()

    # --- a question ---

    def answered(self, compiler: Compiler, query: Question) -> Answer:
        """Return the answer to one question: of public rows, remembered, or charged now.

        Raises as `Proxy.ask` does.
        """
        if not compiler.questions(query):
            return self._public(compiler, query, compiler.prepared(query))
        remembered = self.remembered(compiler, query)
        return remembered or self.charged(compiler, query, compiler.prepared(query))

    def remembered(
        self, compiler: Compiler, query: Question, least: Decimal | None = None
    ) -> Answer | None:
        """Return an earlier paid answer if the ledger still contains it, else None.

        It cost at least `least`, or by default the present epsilon.
        """
        answers, request, question = self._answers, query.request, compiler.questions(query)[0]
        least = query.account.epsilon if least is None else least
        key = text_key(request), request.analyst, least, question
        finished, stamp = answers.get(key), self.ledger.stamp()
        if finished is not None and finished.stamp == stamp:
            return finished.answer
        recalled = self.recalled(compiler, query, least)
        if recalled is None:
            return None
        noisy, paid_question = recalled
        receipt = self.receipt(query.at(noisy.epsilon).account, noisy.query_id)
        before = None if finished is None else finished.answer.receipt
        if finished is not None and before is not None and before.query_id == noisy.query_id:
            answer = replace(finished.answer, receipt=receipt)
        else:
            most, stop = compiler.policy.limits.max_result_cells, query.stop
            paid = compiler.prepared(query.at(noisy.epsilon)).alternative(paid_question)
            answer = compiler.freely(
                lambda: self._finished(paid, noisy.answer, receipt, self.engine, most, stop), stop
            )
        answers.put(key, Finished(stamp, answer))
        return answer

    def recalled(
        self, compiler: Compiler, query: Question, least: Decimal
    ) -> tuple[Remembered, str] | None:
        """Return the noisy answer of the same question, and the form that was asked at that
        epsilon.

        A question that would choose groups is also answered from noise on every group. None if
        there is no answer, or if a query of that epsilon would have asked another form.
        """
        analyst, version = query.request.analyst, compiler.policy.version
        for question in compiler.questions(query):
            answer = self.ledger.recall(analyst, question, version, least)
            if answer is not None and question in compiler.questions(query.at(answer.epsilon)):
                return answer, question
        return None

    def measurements(
        self, compiler: Compiler, query: Question, population: str
    ) -> Mapping[PaidAnswer, MeasuredCells]:
        """Return this analyst's measurements of a population that this budget paid for.

        They are in order of receipt. Cubes are included if every limit of this analyst has counted
        them. An analyst receives a cube before answers from it: see `shared_answers`.
        """
        payer, tables = query.account, self.tables(compiler, query, population).items()
        return {
            paid: table
            for paid, table in tables
            if payer.has(paid) or (paid.cube and not payer.price_of(paid).amount)
        }

    def tables(
        self, compiler: Compiler, query: Question, population: str
    ) -> Mapping[PaidAnswer, MeasuredCells]:
        """Return the same measurements, followed by all cubes and the tables of analysts who
        share.
        """
        payer, stamp = query.account, self.ledger.stamp()
        of = payer.analyst, payer.budget, payer.caps, population, compiler.policy.version
        entry = self._populations.get(of)
        if entry is None or entry.stamp != stamp:
            present = {} if entry is None else {r.query_id: t for r, t in entry.tables.items()}
            tables = {
                each: present.get(each.query_id) or self._measured(each.query_id)
                for each in self.paid_for(query, population, compiler.policy.version)
            }
            entry = KnownTables(stamp, tables)
            self._populations.put(of, entry)
        return entry.tables

    def paid_for(self, query: Question, question: str, version: str) -> list[PaidAnswer]:
        """Return the budget's paid answers for this analyst, for cubes, and for analysts who
        share.
        """
        payer = query.account
        paid = self.ledger.released(payer.analyst, payer.budget.name, question, version)
        shares = payer.budget.share_answers
        return [each for each in paid if shares or each.cube or payer.has(each)]

    def _measured(self, query_id: str) -> MeasuredCells:
        (noisy,) = self.ledger.answer(query_id)
        return measured_cells(noisy)

    def measure(
        self, compiler: Compiler, query: Question, wide: Prepared, answering: Prepared
    ) -> tuple[str, MeasuredCells]:
        """Charge and run a measurement; return its id and cells, which are kept for its
        population.

        `answering` is the plan of the present question; all its checks run first.
        """
        self._require_room(compiler, answering, query.stop)
        self.require_bound(answering, query.stop)
        with self._paid(compiler, query, wide) as (query_id, (noisy,), _):
            return query_id, measured_cells(noisy)

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
            self._require_room(compiler, prepared, query.stop)
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
            return self._finished(prepared, (noisy,), paid, self.engine, most, stop)

        return compiler.freely(finished, stop) if paid.remembered else finished()

    def charged(self, compiler: Compiler, query: Question, prepared: Prepared) -> Answer:
        """Return an answer that is charged now. The charge stays even if the query fails."""
        plan = prepared.plan
        assert plan is not None
        query.require_room_for(prepared.columns)
        query.require_useful(prepared.notices, plan.loss)
        self._require_room(compiler, prepared, query.stop)
        with self._paid(compiler, query, prepared) as (query_id, noisy, engine):
            receipt = self.receipt(query.account, query_id, plan.loss)
            most = compiler.policy.limits.max_result_cells
            answer = self._finished(prepared, noisy, receipt, engine, most, query.stop)
        question = compiler.questions(query)[0]
        if prepared.question == question:
            # A repeated query waits for no engine: the rows are cached, the receipt is new.
            key = text_key(query.request), query.request.analyst, query.account.epsilon, question
            self._answers.put(key, Finished(None, answer))
        return answer

    @contextmanager
    def _paid(
        self, compiler: Compiler, query: Question, prepared: Prepared
    ) -> Iterator[tuple[str, tuple[Noisy, ...], Engine]]:
        """Charge, release and remember one question; yield its id, noisy blocks and engine."""
        with self._all_paid(compiler, [(query, prepared)]) as (((query_id, noisy),), engine):
            yield query_id, noisy, engine

    @contextmanager
    def _all_paid(
        self, compiler: Compiler, measured: Sequence[tuple[Question, Prepared]]
    ) -> Iterator[tuple[Sequence[tuple[str, tuple[Noisy, ...]]], Engine]]:
        """Charge, release and remember several questions of one payer, all or none of them."""
        stop, ids = measured[0][0].stop, [secrets.token_hex(8) for _ in measured]
        for _, prepared in measured:
            self.require_bound(prepared, stop)
        sizes = [self._size(compiler, prepared, stop) for _, prepared in measured]
        with admitted(stop), self._taken(ids[0], stop) as engine:
            # One engine from here to the end: its opened data stays the same.
            for identity in {prepared.data for _, prepared in measured}:
                require_ready(engine, ids[0], identity, stop)
            stop.settle()
            self._charge_all(compiler, ids, measured)
            paid = []
            for query_id, (_, prepared), size in zip(ids, measured, sizes, strict=True):
                pace = measuring(stop, query_id, size, compiler.policy.limits.statement_seconds)
                step = partial(self._released, prepared, engine, pace, stop)
                noisy = self._guarded(query_id, step)
                self.ledger.remember(query_id, noisy)
                paid.append((query_id, noisy))
            yield paid, engine

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
        compiler: Compiler,
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
        self._charge(compiler, query_id, account, cost, inquiry)
        return self.receipt(account, query_id, cost.loss)

    def run(self, law: SparseVector) -> Run:
        """Return a new noisy threshold."""
        return Run(law, self.sampler)

    def measured(self, query_id: str, stream: QueryStream) -> Exact:
        """Return the exact integers of a stream, for a charged query."""
        sql, key = stream.sql, int.from_bytes(os.urandom(16))
        shape = len(sql.keys), sql.parts, key
        return self._guarded(
            query_id,
            lambda: self.engine.aggregate(sql.sql, *shape, stream.tables, data=stream.data),
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
        sizes = [self._size(compiler, prepared, stop) for prepared in plans]
        size = None if None in sizes else sum(each for each in sizes if each is not None)
        with admitted(stop), self._taken(query_id, stop) as engine:
            for identity in {prepared.data for prepared in plans}:
                require_ready(engine, query_id, identity, stop)
            stop.settle()
            self._charge(compiler, query_id, account, cost, inquiry)

            def measured() -> tuple[Noisy, ...]:
                seconds = compiler.policy.limits.statement_seconds
                with measuring(stop, query_id, size, seconds) as ending:
                    return measure(JointRun(engine, self.sampler, self._chooser, stop, ending))

            noisy = self._guarded(query_id, measured)
            self.ledger.remember(query_id, noisy)
        return self.receipt(account, query_id, cost.loss), noisy

    # --- the ledger ---

    def receipt(self, account: Account, query_id: str, charged: Loss | None = None) -> Receipt:
        """Return the receipt of an answer that now cost `charged` (None: it is remembered)."""
        standing = self.standing(account)
        return account.receipt(query_id, charged or Loss(0), standing, remembered=charged is None)

    def standing(self, account: Account) -> Standing:
        """Return the rest for a payer: of the budget, or of the cap with the least rest."""
        return min(self.standings(account), key=lambda standing: standing.left)

    def standings(self, account: Account) -> tuple[Standing, ...]:
        """Return the budget and every cap that covers its payer, each with its spending."""
        budget, spent = account.budget, self.ledger.spent
        parts = (
            Standing(cap.within(budget), spent(cap.budget, cap.analysts), cap.title)
            for cap in account.caps
        )
        return (Standing(budget, spent(budget.name)), *parts)

    def stamp(self, seconds: float, resolution: Resolution) -> object:
        """Return a value that stays equal while all cached answers do; None if the ledger is busy
        longer.
        """
        last_stamp = self.ledger.stamp(seconds)
        return last_stamp and (self._answers, resolution.floor(now()), last_stamp)

    def forget(self) -> None:
        """Drop all cached answers; running queries fill the old caches."""
        self._answers, self._populations = answers_of(), known_tables(MOST_CELLS)
        self._rows = PublicRows()

    def close(self) -> None:
        """Stop the engine and close the ledger."""
        self.engine.close()
        self.ledger.close()

    # --- the steps of an answer ---

    def _charge(
        self, compiler: Compiler, query_id: str, account: Account, cost: Cost, inquiry: Inquiry
    ) -> None:
        charge = account.charge(query_id, cost, compiler.policy.version, inquiry)
        self.debit(account, lambda: self.ledger.charge(charge))

    def _charge_all(
        self,
        compiler: Compiler,
        ids: Sequence[str],
        measured: Sequence[tuple[Question, Prepared]],
    ) -> None:
        """Charge each question, all of them or none."""
        version, charges = compiler.policy.version, []
        for query_id, (query, prepared) in zip(ids, measured, strict=True):
            assert prepared.plan is not None
            cost = Cost(prepared.question, prepared.plan.event, prepared.plan.loss)
            charges.append(query.account.charge(query_id, cost, version, query.inquiry))
        account = measured[0][0].account
        self.debit(account, lambda: self.ledger.charge(*charges))

    def debit(self, account: Account, step: Callable[[], T]) -> T:
        """Run a charge; a refusal for lack of budget is stated in ε."""
        try:
            return step()
        except Refused as refused:
            if refused.reason is not Reason.BUDGET_EXHAUSTED:
                raise
            raise account.in_epsilon(refused, self.standing(account)) from None

    @contextmanager
    def _taken(self, query_id: str, stop: Stop) -> Iterator[Engine]:
        """Reserve one engine for a question; raises `Failed`, without a charge."""
        with ExitStack() as stack:
            taken = self.engine.taken(stop)
            yield guarded(query_id, lambda: stack.enter_context(taken), charged=False)

    def _require_room(self, compiler: Compiler, prepared: Prepared, stop: Stop) -> None:
        """Raise `Refused` if the answer would always have more values than the limit."""
        plan, most = prepared.plan, compiler.policy.limits.max_result_cells
        assert plan is not None
        outer = plan.outer
        rows = compiler.freely(partial(fewest, outer, compiler.public.size), stop)
        if rows * len(outer.fields) > most:
            raise Refused(
                Reason.TOO_LARGE,
                what="values in its answer",
                why=f"Each row stands beside each other: {rows:,} where nothing joins them.",
                fix="Join on a condition, or ask for fewer rows.",
            )

    def _size(self, compiler: Compiler, prepared: Prepared, stop: Stop) -> float | None:
        """Return the expected work of the question, or None without a pace: see
        `dpsql.preparation.workload`.
        """
        if stop.pace is None:
            return None
        step = partial(operations, prepared, compiler.policy, compiler.public.size)
        return compiler.freely(step, stop)

    def _released(
        self, prepared: Prepared, engine: Engine, pace: AbstractContextManager[Ending], stop: Stop
    ) -> tuple[Noisy, ...]:
        with pace:
            noisy = released(prepared, engine, self.sampler, self._chooser, stop)
        return tuple(replace(table, origin=prepared.measured) for table in noisy)

    _guarded = staticmethod(guarded)

    def _finished(
        self,
        prepared: Prepared,
        noisy: Sequence[Noisy],
        receipt: Receipt,
        engine: Engine,
        most_cells: int,
        stop: Stop,
    ) -> Answer:
        plan = prepared.plan
        assert plan is not None
        answer = self._guarded(
            receipt.query_id,
            lambda: finish(
                plan,
                prepared.rewritten,
                noisy,
                partial(engine.rows, stop=stop, data=prepared.data),
                partial(engine.scratch, stop=stop, cells=most_cells),
                receipt,
                prepared.notices,
            ),
            charged=not receipt.remembered,
        )
        return replace(answer, columns=prepared.columns)

    def _share(self, policy: Policy, owner: str) -> Share:
        """Return an owner's share of the room for temporary files."""
        most = bytes_of(policy.limits.max_result_files)
        return Share(self._room, most, owner, len(policy.analysts))

    def _public(self, compiler: Compiler, query: Question, prepared: Prepared) -> Answer:
        """Return public rows: many as a stream if the client accepts one, else up to the limit."""
        sql, stop, most = prepared.rewritten.outer_sql, query.stop, compiler.policy.limits
        few = min(FEW_CELLS, most.max_result_cells)

        estimates = bool(prepared.rewritten.expected)

        def unpaid(rows: Sequence[tuple[Any, ...]]) -> Answer:
            answer = unnoised(prepared.rewritten, rows)
            notices = (*prepared.notices, *answer.notices)
            return replace(answer, columns=prepared.columns, notices=notices)

        rows = compiler.freely(lambda: self._rows.few(self.engine, sql, few, stop), stop)
        if rows is not None:
            return unpaid(rows if estimates else presented(prepared.rewritten, rows))

        def each(take: Callable[[Table], None]) -> None:
            self.engine.each(
                sql,
                take if estimates else lambda t: take(presented_table(prepared.rewritten, t)),
                stop,
            )

        flow = Flow(
            lambda take: compiler.freely(lambda: each(take), stop),
            WorkLimit(stop, monotonic() + most.statement_seconds, monotonic),
            self._share(compiler.policy, stop.owner),
        )
        if query.request.flowing and not estimates:
            return replace(unpaid(()), flow=flow)
        return unpaid(flow.gathered(most.max_result_cells))


@dataclass(frozen=True, slots=True)
class JointRun:
    """Means to measure plans of one block each, after their charge.

    `ending` records whether a plan failed while the others are an answer.
    """

    engine: Engine
    sampler: Sampler
    chooser: Chooser
    stop: Stop
    ending: Ending = field(default_factory=Ending)

    def integers(self, prepared: Prepared) -> Exact:
        """Return the exact integers of a plan's only block."""
        (sql,) = prepared.rewritten.blocks
        tables = tuple(evaluated(prepared.rewritten, number) for number in sql.stages)
        shape = len(sql.keys), sql.parts, int.from_bytes(os.urandom(16))
        return self.engine.aggregate(sql.sql, *shape, tables, self.stop, prepared.data)

    def noisy(self, prepared: Prepared, exact: Exact) -> Noisy:
        """Return these integers with the noise of the block's releases."""
        return release(exact, prepared.blocks[0], self.sampler, self.chooser)


MOST_CELLS = 1_000_000
"""Values of all finished answers that are kept."""


@dataclass(frozen=True, slots=True)
class Finished:
    """A remembered answer, finished: good as it is while the ledger's stamp is still the same."""

    stamp: object
    answer: Answer


def answers_of(cells: int = MOST_CELLS) -> BoundedCache[Finished]:
    """Finished answers of at most this many cells in all."""
    return BoundedCache(
        cells, lambda finished: 1 + len(finished.answer.rows) * len(finished.answer.columns)
    )
