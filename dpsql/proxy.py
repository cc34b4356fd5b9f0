"""proxy: the operations for interfaces, each in a few lines over the compiler and the vault.

Refused requests leave no trace: SECURITY.md S2.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from decimal import Decimal
from functools import partial
from threading import Lock
from typing import Self

from dpsql import accountants
from dpsql.answering import precision
from dpsql.answering.explain import explained, shown
from dpsql.answering.joint_plan import JointPlan, answered, planned
from dpsql.answering.paid_names import DROPPED
from dpsql.engines import Engine, Stop
from dpsql.engines.limited import Following
from dpsql.engines.pool import EnginePool
from dpsql.engines.versions import require_tested
from dpsql.ledgers import Ceiling, Entry, Ledger
from dpsql.ledgers.sqlite import SqliteLedger
from dpsql.model.algebra import Relation
from dpsql.model.errors import Reason, Refused
from dpsql.model.table_names import unknown_name
from dpsql.model.tree import Span, SqlType
from dpsql.model.vocabulary import (
    Answer,
    Budget,
    Loss,
    Policy,
    Receipt,
    Request,
    TablePolicy,
)
from dpsql.policy.bind import vouched_for
from dpsql.policy.draft import Draft
from dpsql.policy.load import load
from dpsql.preparation.bound_policy import bound, reached, store_present
from dpsql.preparation.compilation import Compiler
from dpsql.preparation.engine_kinds import dialects, opened
from dpsql.preparation.explanation import Explanation
from dpsql.preparation.public_data import PublicTables
from dpsql.preparation.question import Standing, account, ceilings, standings
from dpsql.preparation.signature import Signature
from dpsql.release.release import Sampler
from dpsql.systems.cubes import cubes
from dpsql.systems.cubes.cube_suggestions import CubeSuggestion, suggested
from dpsql.systems.models import model_statement
from dpsql.systems.models.model import Model
from dpsql.systems.models.model_statement import CreateModel, DropModel, ModelStatement
from dpsql.systems.models.models import CREATED as MADE
from dpsql.systems.models.models import Models, foreseen, placed, predicted, without_calls
from dpsql.systems.synthesis import synthesis_plan
from dpsql.systems.synthesis.synthesis import RowsWish, SyntheticTable, synthesised
from dpsql.systems.synthesis.synthesis_plan import SynthesisPlan, SynthesisWish
from dpsql.systems.synthesis.synthetic_statement import (
    CreateSynthetic,
    DropSynthetic,
    begins,
    creation,
)
from dpsql.systems.synthesis.synthetic_tables import (
    CREATED,
    SyntheticTables,
    TablesAlone,
    doubted,
    over,
)
from dpsql.systems.watch.monitor import (
    Desk,
    Monitor,
    Price,
    Watch,
    Watched,
    monitored,
    priced,
    watched,
)
from dpsql.vault.vault import Vault


class Proxy:
    """The owner's data behind its policy: thread-safe, a context manager.

    `sampler` draws the noise; only tests of the laws pass another than the default. `rebind`
    returns the policy over the present data. `compiler` returns a compiler for a policy, by default
    one in this process.
    """

    def __init__(
        self,
        policy: Policy,
        engine: Engine,
        ledger: Ledger,
        sampler: Sampler | None = None,
        rebind: Callable[[], Policy] | None = None,
        compiler: Callable[[Policy], Compiler] | None = None,
    ) -> None:
        self.vault = Vault(ledger, engine, sampler)
        public = PublicTables(Following(engine), dialects(policy.database).database)
        self.compiler = (compiler or partial(Compiler, public=public))(policy)
        self._lock = Lock()
        self._rebind = rebind or (lambda: policy)
        self.accepted = self.recorded()
        self._stops: set[Stop] = set()
        self.synthetic, self.models = SyntheticTables(), Models()

    @property
    def policy(self) -> Policy:
        """Policy over the data that was accepted last."""
        return self.compiler.policy

    @property
    def ledger(self) -> Ledger:
        """Ledger of the vault."""
        return self.vault.ledger

    @classmethod
    def open(cls, path: str = "dpsql.toml") -> Self:
        """Load and bind the policy, start an engine, open the ledger.

        Threads may ask concurrently. Up to `[server] workers` statements run at once, each in a
        process that is started when needed. Charges are made one after another.

        Raises `PolicyError`, `Unreachable`, `WrongVersion` or `LedgerError`.
        """
        draft = load(path)
        return cls.over(draft, EnginePool(partial(opened, draft), draft.server.workers))

    @classmethod
    def over(
        cls,
        draft: Draft,
        engine: Engine,
        compiler: Callable[[Policy], Compiler] | None = None,
    ) -> Self:
        """Open a proxy over a started engine, which is closed if it cannot be used."""
        try:
            require_tested()
            ledger = SqliteLedger.open(draft.ledger)
            rebind = partial(bound, draft, engine, ledger)
            reach = partial(reached, rebind)
            return cls(reach(), engine, ledger, rebind=reach, compiler=compiler)
        except BaseException:
            engine.close()
            raise

    def ask(self, request: Request, stop: Stop | None = None) -> Answer:
        """Answer a query, charging the analyst's budget unless the answer is remembered.

        `stop` cancels this query alone: before its charge nothing is charged, after it the charge
        stays. Raises `Refused` (nothing ran, nothing was charged), `Failed` (the
        charge stays), `Unreachable` or `LedgerError`.
        """
        with self._stoppable(stop or Stop()) as registered:
            own = self.compiler, self.vault, request
            statement = self._creation(request, registered)
            if isinstance(statement, CreateSynthetic):
                return self.synthetic.create(*own, statement, registered)
            if isinstance(statement, DropSynthetic):
                return self.synthetic.names.drop(*own, statement.name)
            if isinstance(statement, DropModel):
                return self.models.names.drop(*own, statement.name)
            if statement is not None:
                return self.models.create(*own, statement, registered)
            written = self.models.written_out(*own, registered)
            if written is None:
                return self._ask(request, registered)
            plain = without_calls(request, written)
            with placed(written):
                answer = self._ask(plain, registered)
            return predicted(answer, written, self._outer(plain, registered))

    def explain(self, request: Request, stop: Stop | None = None) -> Explanation:
        """Return the plan and the price of a query: runs nothing on private data, writes
        nothing.

        Raises `Refused`, or `Failed` if it takes too long or `stop` is requested.
        """
        stop = stop or Stop()
        own = self.compiler, self.vault, request
        statement = self._creation(request, stop)
        if isinstance(statement, CreateSynthetic | DropSynthetic):
            return self.synthetic.explained(*own, statement, stop)
        if statement is not None:
            return self.models.explained(*own, statement, stop)
        written = self.models.written_out(*own, stop)
        if written is None:
            return self._explain(request, stop)
        plain = without_calls(request, written)
        with placed(written):
            explanation = self._explain(plain, stop)
        return foreseen(explanation, written, self._outer(plain, stop))

    def explain_all(
        self, requests: Sequence[Request], epsilon: Decimal | None = None, stop: Stop | None = None
    ) -> JointPlan:
        """Return the joint price of one analyst's statements, and their precision.

        It is for an `epsilon`, or the least price for which each is as precise as alone. Runs
        nothing, charges nothing. Refusals of single statements are in the plan. Raises as `explain`
        does.
        """
        return planned(self.compiler, self.vault, requests, stop or Stop(), epsilon)

    def ask_all(
        self, requests: Sequence[Request], epsilon: Decimal | None = None, stop: Stop | None = None
    ) -> tuple[tuple[Answer, ...], Receipt]:
        """Return the answers to statements of one analyst, measured and charged together, which
        agree.

        The price is that of `explain_all`. Raises as `ask` does, for the first statement that
        cannot be asked.
        """
        with self._stoppable(stop or Stop()) as registered:
            plan = planned(self.compiler, self.vault, requests, registered, epsilon)
            return answered(self.compiler, self.vault, plan)

    def explain_cube(self, text: str, budget: str | None, dialect: str) -> JointPlan:
        """Return the joint price and precision of a cube's tables, from a budget (None: the only
        one).

        For the owner. Runs nothing, charges nothing.
        """
        payer = self._budget(budget)
        return cubes.planned(self.compiler, self.vault, text, payer, dialect, Stop())

    def create_cube(self, text: str, budget: str | None, dialect: str) -> JointPlan:
        """Measure a cube, from which the budget's analysts are answered.

        For the owner. Raises as `ask` does.
        """
        payer = self._budget(budget)
        with self._stoppable(Stop()) as registered:
            return cubes.create(self.compiler, self.vault, text, payer, dialect, registered)

    def suggest_cubes(self, budget: str | None, dialect: str) -> tuple[CubeSuggestion, ...]:
        """Return the cubes that would have saved spending of a budget, from a replay of its
        ledger.

        For the owner. Reads no private data.
        """
        return suggested(self.compiler, self.vault, self._budget(budget), dialect, Stop())

    def _budget(self, name: str | None) -> Budget:
        """Return the budget with that name; without a name the only one. Raises `Refused`."""
        named = {budget.name: budget for budget in self.policy.budgets}
        if name is None and len(named) == 1:
            (name,) = named
        if name not in named:
            raise unknown_name("budget", name, tuple(named))
        return named[name]

    def signature(
        self,
        request: Request,
        places: Sequence[Span],
        declared: Sequence[SqlType | None],
        stop: Stop | None = None,
    ) -> Signature:
        """Return the columns and parameter types of a SELECT with unknown parameters; free.

        See `dpsql.preparation.signature`. Raises as `explain` does.
        """
        stop = stop or Stop()
        match self._creation(request, stop):
            case CreateSynthetic():
                return Signature(CREATED, ())
            case CreateModel():
                return Signature(MADE, ())
            case DropModel() | DropSynthetic():
                return Signature(DROPPED, ())
        written = self.models.written_out(self.compiler, self.vault, request, stop)
        if written is None:
            return self._signature(request, places, declared, stop)
        now = [written.now(place) for place in places]
        with placed(written):
            return self._signature(without_calls(request, written), now, declared, stop)

    def watch(self, wish: Watch) -> Monitor:
        """Return a stream of counting queries against one threshold, charged now; see
        `dpsql.systems.watch.monitor`.
        """
        return monitored(Desk.of(self.compiler, self.vault, wish), wish)

    def watch_all(self, wish: Watch, requests: Sequence[Request]) -> Watched:
        """Return the result of `watch` for known statements: refused together, remembered
        together.
        """
        return watched(Desk.of(self.compiler, self.vault, wish), wish, requests)

    def explain_watch(self, wish: Watch, requests: Sequence[Request]) -> Price:
        """Return the price and the noise of `watch_all`: runs nothing, charges nothing."""
        return priced(Desk.of(self.compiler, self.vault, wish), wish, requests)

    def synthesise(
        self,
        wish: SynthesisWish,
        rows: int | None = None,
        stop: Stop | None = None,
        *,
        mbi: bool = False,
    ) -> SyntheticTable:
        """Return synthetic rows of noisy marginals, which are charged once and remembered.

        See `dpsql.systems.synthesis.synthesis`. Raises as `ask` does, and MissingExtra.
        """
        with self._stoppable(stop or Stop()) as registered:
            return synthesised(self.compiler, self.vault, wish, registered, RowsWish(rows, mbi))

    def explain_synthesis(self, wish: SynthesisWish) -> SynthesisPlan:
        """Return the plan of `synthesise`, with its charge: runs nothing, charges nothing."""
        return synthesis_plan.planned(self.compiler, wish, Stop())

    def model(self, name: str, analyst: str) -> Model:
        """Return a model of an analyst, free. Raises `Refused` if there is none."""
        return self.models.model(self.compiler, self.vault, analyst, name, Stop())

    def models_of(self, analyst: str) -> Sequence[Model]:
        """Return the models of an analyst, by name."""
        return self.models.listed(self.compiler, self.vault, analyst, Stop())

    def synthetic_tables(self, analyst: str, stop: Stop | None = None) -> tuple[TablePolicy, ...]:
        """Return the names and columns of an analyst's synthetic tables."""
        return self.synthetic.listed(self.compiler, self.vault, analyst, stop or Stop())

    def _ask(self, request: Request, stop: Stop) -> Answer:
        try:
            return _answered(self.compiler, self.vault, request, stop, self.models)
        except Refused as refused:
            synthetic = self._synthetic(request, refused, stop)
        return over(synthetic, replace(request, flowing=False), stop, _answered)

    def _outer(self, request: Request, stop: Stop) -> Relation | None:
        """Return the outer query over releases of a question over private rows; None for others."""
        with suppress(Refused):  # over synthetic tables, say
            plan = self.compiler.prepared(self.compiler.read(request, stop)).plan
            return None if plan is None else plan.outer
        return None

    def _explain(self, request: Request, stop: Stop) -> Explanation:
        try:
            return _explained(self.compiler, self.vault, request, stop, self.models)
        except Refused as refused:
            alone = self._synthetic(request, refused, stop)
        return doubted(_explained(alone.compiler, alone.vault, request, stop), alone.compiler)

    def _signature(
        self,
        request: Request,
        places: Sequence[Span],
        declared: Sequence[SqlType | None],
        stop: Stop,
    ) -> Signature:
        try:
            return self.compiler.signature(request, places, declared, stop)
        except Refused as refused:
            alone = self._synthetic(request, refused, stop)
        return alone.compiler.signature(request, places, declared, stop)

    def _creation(
        self, request: Request, stop: Stop
    ) -> CreateSynthetic | DropSynthetic | ModelStatement | None:
        """Return the statement if a text creates or drops an object, else None; read with other
        texts.
        """
        if cubes.begins(request.sql):
            construct = "CREATE DP CUBE, which is the owner's"
            raise Refused(Reason.UNSUPPORTED_SYNTAX, construct=construct)
        readers = (begins, creation), (model_statement.begins, model_statement.statement)
        for may, read in readers:
            said = (
                self.compiler.apart(partial(read, request.sql), stop) if may(request.sql) else None
            )
            if said is not None:
                return said
        return None

    def _synthetic(self, request: Request, refused: Refused, stop: Stop) -> TablesAlone:
        """Return a proxy for a question about synthetic tables; raise the refusal for other
        questions.
        """
        return self.synthetic.instead(self.compiler, self.vault, request, refused, stop)

    def analyst(self, name: str | None = None) -> str:
        """Return the analyst with that name; without a name the only one. Raises `Refused`."""
        analysts = tuple(analyst for analyst, _ in self.policy.analysts)
        if name is None and len(analysts) == 1:
            return analysts[0]
        if name not in analysts:
            raise unknown_name("analyst", name, analysts)
        return name

    def budgets(self) -> tuple[tuple[Budget, Loss, Loss], ...]:
        """Return each budget with its spending and its limit."""
        return tuple(
            (b, self.ledger.spent(b.name), accountants.get(b.accountant).limit(b))
            for b in self.policy.budgets
        )

    def standing(self, analyst: str) -> Standing:
        """Return the rest for an analyst: of the budget, or of the cap with the least rest."""
        return self.vault.standing(account(self.policy, analyst))

    def standings(self) -> tuple[Standing, ...]:
        """Return each budget, then each cap, with its spending."""
        return standings(self.policy, self.ledger.spent)

    def ceilings(self) -> tuple[Ceiling, ...]:
        """Return all limits of the policy, as the ledger confirms them."""
        return ceilings(self.policy)

    def history(self, analyst: str | None = None, limit: int = 20) -> tuple[Entry, ...]:
        """Return the latest entries of the ledger, newest first."""
        return self.ledger.history(analyst, limit)

    def stamp(self, seconds: float) -> object:
        """Return a value that stays equal while all cached answers do; None if the ledger is busy
        longer.
        """
        stamp = self.vault.stamp(seconds, self.policy.limits.time_resolution)
        return stamp and (stamp, self.models.names.changes, self.synthetic.names.changes)

    @property
    def facts_lapsed(self) -> bool:
        """True if facts were recorded before, and none of them counts for the present data."""
        return self.ledger.facts_lapsed(vouched_for(self.policy))

    @property
    def store_unused(self) -> bool:
        """True if the policy names a store, and there is none of this data under this policy."""
        return self.policy.database.prepared is not None and self.policy.store is None

    def recorded(self) -> object:
        """Return the data version, its facts, and the present store, to be compared with
        `accepted`.
        """
        facts = self.ledger.facts(vouched_for(self.policy))
        return self.ledger.data_version(), facts, store_present(self.policy.database)

    def refresh(self) -> int:
        """Start a new data version: remembered answers and recorded facts do not count any more."""
        version = self.ledger.refresh()
        with self._lock:
            self.adopt(self._rebind())
            self.accepted = self.recorded()
        return version

    def adopt(self, policy: Policy) -> None:
        """Answer under this policy from now on; drop all compiled plans and cached answers."""
        self.compiler.adopt(policy)
        self.vault.forget()

    def load(self) -> dict[str, int]:
        """Return the load of a pool of engines; empty for a single engine."""
        engine = self.vault.engine
        return engine.load() if isinstance(engine, EnginePool) else {}

    def cancel(self) -> None:
        """Stop all running queries: before its charge a query is free, after it the charge
        stays.
        """
        for stop in tuple(self._stops):
            stop.requested = True
        self.vault.engine.cancel()

    def close(self) -> None:
        """Stop the engine and the compiler, and close the ledger."""
        self.compiler.close()
        self.vault.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exception: object) -> None:
        self.close()

    @contextmanager
    def _stoppable(self, stop: Stop) -> Iterator[Stop]:
        """Register a query's stop for `cancel` until the exit."""
        self._stops.add(stop)
        try:
            yield stop
        finally:
            self._stops.discard(stop)


def _answered(
    compiler: Compiler, vault: Vault, request: Request, stop: Stop, models: Models | None = None
) -> Answer:
    """Return the answer to a question; from the moments of `models` if they suffice."""
    query = compiler.read(request, stop)
    sums = None if models is None else models.sums(compiler, vault, query)
    if query.explain and sums is not None:
        return shown(replace(sums.explanation(compiler, vault), form=query.explain))
    if query.explain:
        return shown(explained(compiler, vault, query))
    if sums is not None:
        return sums.answer(compiler, vault)
    return precision.answered(compiler, vault, query)


def _explained(
    compiler: Compiler, vault: Vault, request: Request, stop: Stop, models: Models | None = None
) -> Explanation:
    query = compiler.read(request, stop)
    sums = None if models is None else models.sums(compiler, vault, query)
    if sums is not None:
        return sums.explanation(compiler, vault)
    return explained(compiler, vault, query)
