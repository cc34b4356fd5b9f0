"""proxy: the one conductor. ask(request) → Answer, explain(request) → Explanation.

What is refused leaves no trace, and the debit comes first: SECURITY.md S2, S3.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from functools import partial
from threading import Lock
from time import monotonic
from typing import Self, TypeVar

from dpsql import accountants, mechanisms, precision
from dpsql.compiler.parse import parse
from dpsql.engines import Engine, Stop, admitted, paced
from dpsql.engines.duckdb import DuckDBEngine
from dpsql.engines.limited import Following, Limit
from dpsql.engines.pool import EnginePool
from dpsql.entropy import Entropy
from dpsql.errors import Reason, Refused
from dpsql.explanation import Explanation
from dpsql.finish import finish, unnoised
from dpsql.flow import Flow
from dpsql.histograms import chosen
from dpsql.kept import Finished, Kept, answers_of, text_key
from dpsql.ledgers import Charge, Entry, Ledger
from dpsql.ledgers.sqlite import SqliteLedger
from dpsql.model import Answer, Budget, Loss, Noisy, Policy, Receipt, Request
from dpsql.monitor import Desk, Monitor, Price, Watch, Watched, monitored, priced, watched
from dpsql.opening import bound, payer, reached
from dpsql.policy.bind import vouched_for
from dpsql.policy.draft import Draft
from dpsql.policy.load import load
from dpsql.prepare import Prepared, plans_of, prepare
from dpsql.private_bounds import with_bounds
from dpsql.public import PublicTables
from dpsql.questions import Asked, explained
from dpsql.recalling import recalled
from dpsql.release import Sampler
from dpsql.running import Bound, freely, guarded, released, require_ready
from dpsql.signature import Signature, signature
from dpsql.today import today
from dpsql.tree import Span, SqlType, Statement
from dpsql.two_steps import TwoSteps
from dpsql.versions import require_tested
from dpsql.wishes import wished
from dpsql.workload import operations

T = TypeVar("T")
FEW_CELLS = 1_000_000
"""Values of public rows that are read at once; what has more is run again and flows."""
REMEMBERED_PLANS = 512
"""Compiled queries kept by text, parameters, budget and epsilon."""


class Proxy:
    """The owner's data behind its policy: thread-safe, a context manager.

    `sampler` draws the noise; only tests of the laws pass another than the default. `rebind` gives
    the policy anew, over the data as it then is.
    """

    def __init__(
        self,
        policy: Policy,
        engine: Engine,
        ledger: Ledger,
        sampler: Sampler | None = None,
        rebind: Callable[[], Policy] | None = None,
    ) -> None:
        self.policy, self._engine, self.ledger = policy, engine, ledger
        self._sampler = sampler or partial(mechanisms.sample, entropy=Entropy())
        self._chooser = partial(chosen, entropy=Entropy())
        self._public, self._bound = PublicTables(Following(engine)), Bound(engine)
        self._statements: Kept[Statement] = Kept(REMEMBERED_PLANS, lambda _: 1)
        self._plans = plans_of(REMEMBERED_PLANS)
        self._answers = answers_of()
        self._lock = Lock()
        self._rebind = rebind or (lambda: policy)
        self.accepted = self.recorded()
        self._stops: set[Stop] = set()

    @classmethod
    def open(cls, path: str = "dpsql.toml") -> Self:
        """Load and bind the policy, start the engine, open the ledger.

        Raises `PolicyError`, `Unreachable`, `WrongVersion` or `LedgerError`.
        """
        draft = load(path)
        return cls.over(draft, DuckDBEngine(draft.database, draft.limits))

    @classmethod
    def over(cls, draft: Draft, engine: Engine) -> Self:
        """`open` with the engine already started; closes it where it cannot be used."""
        try:
            require_tested()
            ledger = SqliteLedger.open(draft.ledger)
            rebind = partial(bound, draft, engine, ledger)
            return cls(reached(rebind), engine, ledger, rebind=partial(reached, rebind))
        except BaseException:
            engine.close()
            raise

    def ask(self, request: Request, stop: Stop | None = None) -> Answer:
        """Answer a query, charging the analyst's budget unless the answer is remembered.

        `stop`, once wanted, cancels this query alone: before its charge nothing is charged, after
        it the charge stays. Raises `Refused` (nothing ran, nothing was charged), `Failed` (the
        charge stays), `Unreachable` or `LedgerError`.
        """
        stop = stop or Stop()
        self._stops.add(stop)
        try:
            return self._answered(request, stop)
        finally:
            self._stops.discard(stop)

    def _answered(self, request: Request, stop: Stop) -> Answer:
        asked = self._asked(request, stop)
        if asked.statement.explain:
            return explained(self._explained(asked))
        if asked.wanted is None:
            return self._answer_to(asked)
        return precision.relatively(
            asked.wanted,
            asked.budget,
            partial(self._prepared, asked),
            lambda epsilon: self._answer_to(replace(asked, epsilon=epsilon)),
        )

    def _answer_to(self, asked: Asked) -> Answer:
        return self._steps().answer(asked)

    def _answer_at_once(self, asked: Asked) -> Answer:
        prepared = self._prepared(asked, asked.epsilon)
        if prepared.plan is None:
            return self._pass_through(prepared, asked)
        return self._remembered(asked, prepared) or self._charged_answer(asked, prepared)

    def _steps(self) -> TwoSteps:
        return TwoSteps(
            self.policy,
            self.ledger,
            self._parsed,
            self._prepared,
            self._remembered,
            self._bound.require_plan,
            self._charged_answer,
            self._answer_at_once,
        )

    def explain(self, request: Request, stop: Stop | None = None) -> Explanation:
        """The plan and the price of a query: runs nothing on private data, writes nothing.

        Raises `Refused`, or `Failed` where it takes too long or `stop` is wanted.
        """
        return self._explained(self._asked(request, stop or Stop()))

    def _explained(self, asked: Asked) -> Explanation:
        return self._freely(lambda: self._steps().explanation(asked), asked.stop)

    def signature(
        self,
        sql: str,
        dialect: str,
        places: Sequence[Span],
        declared: Sequence[SqlType | None],
        stop: Stop | None = None,
    ) -> Signature:
        """Columns and parameter types of a SELECT, its parameters not yet known; free.

        See `dpsql.signature`. Raises as `explain` does.
        """
        step = partial(signature, sql, dialect, self.policy, places, declared)
        return self._freely(step, stop or Stop())

    def watch(self, wish: Watch) -> Monitor:
        """A stream of counting queries against one threshold, charged now; see `dpsql.monitor`."""
        return monitored(self._desk(wish), wish)

    def watch_all(self, wish: Watch, requests: Sequence[Request]) -> Watched:
        """`watch` for statements that are all known: refused together, remembered together."""
        return watched(self._desk(wish), wish, requests)

    def explain_watch(self, wish: Watch, requests: Sequence[Request]) -> Price:
        """What `watch_all` would cost and how noisy it is: runs nothing, charges nothing."""
        return priced(self._desk(wish), wish, requests)

    def analyst(self, name: str | None = None) -> str:
        """The analyst of that name; without a name the only one. Raises `Refused`."""
        known = tuple(analyst for analyst, _ in self.policy.analysts)
        if name is None and len(known) == 1:
            return known[0]
        if name not in known:
            raise Refused(Reason.BAD_OPTION, option="analyst", value=name, known=known)
        return name

    def budgets(self) -> tuple[tuple[Budget, Loss, Loss], ...]:
        """Each budget with what it has spent and its limit."""
        return tuple(
            (b, self.ledger.spent(b.name), accountants.get(b.accountant).limit(b))
            for b in self.policy.budgets
        )

    def history(self, analyst: str | None = None, limit: int = 20) -> tuple[Entry, ...]:
        """The latest entries of the ledger, newest first."""
        return self.ledger.history(analyst, limit)

    def stamp(self, seconds: float) -> object:
        """Equal while every remembered answer is; None where others write for longer than this."""
        known = self.ledger.stamp(seconds)
        return known and (self._answers, today(), known)

    @property
    def facts_lapsed(self) -> bool:
        """Whether facts were recorded before, and none counts for the data as it now is."""
        return self.ledger.facts_lapsed(vouched_for(self.policy))

    def recorded(self) -> object:
        """The data version and its facts: no longer as `accepted` once anybody changes them."""
        return self.ledger.data_version(), self.ledger.facts(vouched_for(self.policy))

    def refresh(self) -> int:
        """Start a new data version: remembered answers and recorded facts no longer count."""
        version = self.ledger.refresh()
        with self._lock:
            self.policy = self._rebind()
            self.accepted = self.recorded()
            self._public.forget()
            # New ones: what is being compiled or finished ends up in the old.
            self._plans = plans_of(REMEMBERED_PLANS)
            self._answers = answers_of()
        return version

    def load(self) -> dict[str, int]:
        """How busy a pool of engines is; nothing where there is but one engine."""
        return self._engine.load() if isinstance(self._engine, EnginePool) else {}

    def cancel(self) -> None:
        """Stop all that is running: before its charge nothing is charged, after it it stays."""
        for stop in tuple(self._stops):
            stop.wanted = True
        self._engine.cancel()

    def close(self) -> None:
        """Stop the engine and close the ledger."""
        self._engine.close()
        self.ledger.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exception: object) -> None:
        self.close()

    # --- the steps of an answer ---

    def _asked(self, request: Request, stop: Stop) -> Asked:
        return self._freely(lambda: self._read(request, stop), stop)

    def _read(self, request: Request, stop: Stop) -> Asked:
        statement = self._parsed(request)
        budget, epsilon = payer(self.policy, request.analyst, request.epsilon, statement.epsilon)
        asked = Asked(request, statement, budget, epsilon, stop)
        wanted = wished(request.precision, statement.max_error, statement.confidence)
        if wanted is None:
            return asked
        if statement.divided or not (request.epsilon is statement.epsilon is None):
            raise Refused(Reason.BAD_OPTION, option="max_error", why="epsilon is asked for too")
        if wanted.relative:
            self._prepared(asked, precision.first(budget))  # refused before anything is paid
            return replace(asked, epsilon=precision.first(budget), wanted=wanted)
        cheapest = precision.epsilon_for(wanted, budget, partial(self._prepared, asked))
        return replace(asked, epsilon=cheapest)

    def _desk(self, wish: Watch) -> Desk:
        budget, epsilon = payer(self.policy, wish.analyst, wish.epsilon)
        return Desk(
            self.policy,
            budget,
            epsilon,
            self.ledger,
            self._engine,
            self._sampler,
            self._compiled,
            self._bound,
            self._ready,
        )

    def _compiled(self, request: Request) -> Prepared:
        """A statement that is paid for by what surrounds it, and so has no wishes of its own."""
        asked = self._asked(request, Stop())
        says = asked.statement
        if says.explain or says.epsilon is not None or says.mechanism is not None:
            raise Refused(Reason.UNSUPPORTED_STATEMENT, construct="EXPLAIN or OPTIONS here")
        return self._prepared(asked, asked.epsilon)

    def _parsed(self, request: Request) -> Statement:
        key = text_key(request)
        found = self._statements.get(key)
        if found is None:
            found = parse(request.sql, request.dialect, request.parameters, request.day)
            found = replace(found, nonnegative=found.nonnegative or request.nonnegative)
            self._statements.put(key, found)
        return found

    def _prepared(self, asked: Asked, epsilon: Decimal) -> Prepared:
        key = (text_key(asked.request), asked.budget, epsilon, asked.bounds)
        with self._lock:
            policy, plans = self.policy, self._plans
        found = plans.get(key)
        if found is None:
            found = self._freely(
                lambda: prepare(
                    asked.statement,
                    with_bounds(policy, asked.bounds),
                    asked.budget,
                    Fraction(epsilon),
                    self._public,
                    self._public.evaluate,
                ),
                asked.stop,
            )
            plans.put(key, found)
        return found

    def _pass_through(self, prepared: Prepared, asked: Asked) -> Answer:
        """Public rows: many of them as a flow to whoever can take that, or else not too many."""
        sql, stop, most = prepared.rewritten.outer_sql, asked.stop, self.policy.limits
        few = min(FEW_CELLS, most.max_result_cells)
        rows = self._freely(lambda: self._engine.few(sql, few, stop), stop)
        if rows is not None:
            return unnoised(prepared.rewritten, rows)
        flow = Flow(
            lambda take: self._freely(lambda: self._engine.each(sql, take, stop), stop),
            Limit(stop, monotonic() + most.statement_seconds, monotonic),
        )
        if asked.request.flowing:
            return replace(unnoised(prepared.rewritten, ()), flow=flow)
        return unnoised(prepared.rewritten, flow.kept(most.max_result_cells))

    def _remembered(self, asked: Asked, prepared: Prepared) -> Answer | None:
        """The answer that was paid for before, if the ledger still stands by it."""
        answers, version = self._answers, self.policy.version
        key = (text_key(asked.request), asked.request.analyst, asked.epsilon, prepared.question)
        kept, stamp = answers.get(key), self.ledger.stamp()
        if kept is not None and kept.stamp == stamp:
            return kept.answer
        found = recalled(self.ledger, asked, prepared, version, self._prepared)
        if found is None:
            return None
        known, paid = found
        receipt = self._receipt(asked, known.query_id, known.epsilon, Loss(0), remembered=True)
        before = None if kept is None else kept.answer.receipt
        if kept is not None and before is not None and before.query_id == known.query_id:
            answer = replace(kept.answer, receipt=receipt)
        else:
            answer = self._finished(paid, known.answer, receipt, self._engine, asked.stop)
        answers.put(key, Finished(stamp, answer))
        return answer

    def _charged_answer(self, asked: Asked, prepared: Prepared) -> Answer:
        """Charge, run, release, remember, finish: in this order, and no step back."""
        plan = prepared.plan
        assert plan is not None
        query_id = secrets.token_hex(8)
        asked.require_useful(prepared.notices, plan.loss)
        self._bound.require_plan(prepared, asked.stop)
        size = self._size(prepared, asked.stop)
        with admitted(asked.stop), self._taken(query_id, asked.stop) as engine:
            # One engine from here to the end: what it has opened stays as it is.
            require_ready(engine, query_id, prepared.data, asked.stop)
            self._charge(asked, prepared, query_id)
            noisy = self._guarded(
                query_id, lambda: self._released(query_id, prepared, engine, size, asked.stop)
            )
            self.ledger.remember(query_id, noisy)
            receipt = self._receipt(asked, query_id, asked.epsilon, plan.loss, remembered=False)
            return self._finished(prepared, noisy, receipt, engine, asked.stop)

    @contextmanager
    def _taken(self, query_id: str, stop: Stop) -> Iterator[Engine]:
        """One engine for a question; raises `Failed`, of which nothing was charged."""
        with ExitStack() as stack:
            taken = self._engine.taken(stop)
            yield guarded(query_id, lambda: stack.enter_context(taken), charged=False)

    def _size(self, prepared: Prepared, stop: Stop) -> float | None:
        """What the question is expected to take, where that is asked for: see `dpsql.workload`."""
        if stop.pace is None:
            return None
        step = partial(operations, prepared, self.policy, self._public.size)
        return self._freely(step, stop)

    def _charge(self, asked: Asked, prepared: Prepared, query_id: str) -> None:
        plan = prepared.plan
        assert plan is not None
        charge = Charge(
            query_id=query_id,
            analyst=asked.request.analyst,
            budget=asked.budget.name,
            accountant=asked.budget.accountant,
            epsilon=asked.epsilon,
            event=plan.event,
            loss=plan.loss,
            limit=accountants.get(asked.budget.accountant).limit(asked.budget),
            question=prepared.question,
            policy_version=self.policy.version,
        )
        try:
            self.ledger.charge(charge)
        except Refused as refused:
            raise asked.in_epsilon(refused, self.ledger.spent(charge.budget)) from None

    def _ready(self, query_id: str, data: str | None, stop: Stop | None = None) -> None:
        require_ready(self._engine, query_id, data, stop)

    def _released(
        self, query_id: str, prepared: Prepared, engine: Engine, size: float | None, stop: Stop
    ) -> tuple[Noisy, ...]:
        with paced(stop, query_id, size):
            return released(prepared, engine, self._sampler, self._chooser, stop)

    _guarded = staticmethod(guarded)

    def _freely(self, step: Callable[[], T], stop: Stop) -> T:
        return freely(step, stop, self.policy.limits.free_seconds)

    def _finished(
        self,
        prepared: Prepared,
        noisy: Sequence[Noisy],
        receipt: Receipt,
        engine: Engine,
        stop: Stop,
    ) -> Answer:
        plan = prepared.plan
        assert plan is not None
        return self._guarded(
            receipt.query_id,
            lambda: finish(
                plan,
                prepared.rewritten,
                noisy,
                partial(engine.rows, stop=stop, data=prepared.data),
                partial(engine.scratch, stop=stop),
                receipt,
                prepared.notices,
            ),
            charged=not receipt.remembered,
        )

    def _receipt(
        self, asked: Asked, query_id: str, epsilon: Decimal, charged: Loss, *, remembered: bool
    ) -> Receipt:
        spent = self.ledger.spent(asked.budget.name)
        return asked.receipt(query_id, epsilon, charged, spent, remembered=remembered)
