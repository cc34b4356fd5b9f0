"""proxy: the operations for interfaces, each in a few lines over the compiler and the vault.

Refused requests leave no trace: SECURITY.md S2.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from decimal import Decimal
from functools import partial
from threading import Lock
from typing import Self, TypeVar

from dpsql.answering import any_statement
from dpsql.answering.joint_plan import JointPlan, answered, planned
from dpsql.answering.paid_names import request_of
from dpsql.answering.side_systems import InPeriods, Parts, SideStatement, SideSystems
from dpsql.engines import Engine, Stop
from dpsql.engines.limited import Following
from dpsql.engines.pool import EnginePool
from dpsql.engines.versions import require_tested
from dpsql.ledgers import Entry, Ledger, altered, removed
from dpsql.ledgers.open_ledger import open_ledger
from dpsql.ledgers.refusal_counts import Counts, add_refusals
from dpsql.model.dataclass import replace
from dpsql.model.delegation import Chain
from dpsql.model.errors import DpsqlError, Refused
from dpsql.model.public_times import now
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
from dpsql.policy.guarantee_keys import record_guarantee
from dpsql.policy.load import load
from dpsql.policy.restrict import restrict_to, rows_granted
from dpsql.policy.role_sections import WrittenRoles
from dpsql.preparation.bound_policy import bound, reached, store_present
from dpsql.preparation.compilation import Compiler
from dpsql.preparation.engine_kinds import dialects, opened
from dpsql.preparation.explanation import Explanation
from dpsql.preparation.period_plans import differs_in_periods, period_now, require_refreshable
from dpsql.preparation.public_data import PublicTables
from dpsql.preparation.question import Standing, account, ceilings, standings, without_periods
from dpsql.preparation.signature import Signature
from dpsql.preparation.withheld_names import is_withheld
from dpsql.release.release import Sampler
from dpsql.vault.vault import Vault

T = TypeVar("T")

OTHER = "other statements"
"""The interface of statements of side systems, in counts of refusals."""


class RunningStops:
    """Stops of all running queries, and counts of those that were refused: thread-safe."""

    def __init__(self) -> None:
        self._stops: set[Stop] = set()
        self._refused = defaultdict[tuple[str, str], int](int)
        self._lock = Lock()

    @contextmanager
    def watched(self, stop: Stop, door: str = OTHER) -> Iterator[Stop]:
        """Register a stop until its query ends; count a refusal by interface and reason."""
        self._stops.add(stop)
        try:
            yield stop
        except Refused as refused:
            with self._lock:
                self._refused[door, refused.reason.value] += 1
            raise
        finally:
            self._stops.discard(stop)

    def take_refused(self) -> Counts:
        """Return the refusals since the last call, by interface and reason."""
        with self._lock:
            counts, self._refused = self._refused, defaultdict(int)
        return counts

    def request_all(self) -> None:
        """Stop every query."""
        for stop in tuple(self._stops):
            stop.requested = True


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
        self.ledger, self.vault = ledger, Vault(ledger, engine, sampler)
        public = PublicTables(Following(engine), dialects(policy.database).database)
        self.compiler = (compiler or partial(Compiler, public=public))(policy)
        self._lock = Lock()
        self._rebind = rebind or (lambda: policy)
        self.accepted = self.recorded()
        self._stops, self.systems = RunningStops(), SideSystems()
        self.roles: WrittenRoles | None = None
        self.refusals_beside = ""

    @property
    def policy(self) -> Policy:
        """Policy over the data that was accepted last."""
        return self.compiler.policy

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
            ledger = open_ledger(draft.ledger)
            record_guarantee(draft, ledger)
            rebind = partial(bound, draft, engine, ledger)
            reach = partial(reached, rebind)
            proxy = cls(reach(), engine, ledger, rebind=reach, compiler=compiler)
            proxy.roles = WrittenRoles(draft, load)
            proxy.refusals_beside = draft.ledger.path
            ledger.record_roles(str(proxy.roles))
        except BaseException:
            engine.close()
            raise
        return proxy

    def ask(self, request: Request, stop: Stop | None = None) -> Answer:
        """Answer a query, charging the analyst's budget unless the answer is remembered.

        `stop` cancels this query alone: before its charge nothing is charged, after it the charge
        stays. Raises `Refused` (nothing ran, nothing was charged), `Failed` (the
        charge stays), `Unreachable` or `LedgerError`.
        """
        with self._stops.watched(stop or Stop(), request.door) as registered:
            request = self._with_chain(request)
            self._follow_ledger_time()
            return any_statement.ask_any(self.parts(registered), request)

    def explain(self, request: Request, stop: Stop | None = None) -> Explanation:
        """Return the plan and the price of a query: runs nothing on private data, writes
        nothing.

        Raises `Refused`, or `Failed` if it takes too long or `stop` is requested.
        """
        with self._stops.watched(stop or Stop(), request.door) as registered:
            return self._explain(request, registered)

    def _explain(self, request: Request, stop: Stop) -> Explanation:
        self._follow_ledger_time()
        return any_statement.explain_any(self.parts(stop), self._with_chain(request))

    def explain_all(
        self, requests: Sequence[Request], epsilon: Decimal | None = None, stop: Stop | None = None
    ) -> JointPlan:
        """Return the joint price of one analyst's statements, and their precision.

        It is for an `epsilon`, or the least price for which each is as precise as alone. Runs
        nothing, charges nothing. Refusals of single statements are in the plan. Raises as `explain`
        does.
        """
        door = next((request.door for request in requests), OTHER)
        with self._stops.watched(stop or Stop(), door) as registered:
            requests = self._each_with_chain(requests)
            return planned(self.compiler, self.vault, requests, registered, epsilon)

    def ask_all(
        self, requests: Sequence[Request], epsilon: Decimal | None = None, stop: Stop | None = None
    ) -> tuple[tuple[Answer, ...], Receipt]:
        """Return the answers to statements of one analyst, measured and charged together, which
        agree.

        The price is that of `explain_all`. Raises as `ask` does, for the first statement that
        cannot be asked.
        """
        door = next((request.door for request in requests), OTHER)
        with self._stops.watched(stop or Stop(), door) as registered:
            requests = self._each_with_chain(requests)
            plan = planned(self.compiler, self.vault, requests, registered, epsilon)
            return answered(self.compiler, self.vault, plan)

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
        with self._stops.watched(stop or Stop(), request.door) as registered:
            self._follow_ledger_time()
            request = self._with_chain(request)
            return any_statement.describe_any(self.parts(registered), request, places, declared)

    def run(self, statement: SideStatement[T], stop: Stop | None = None) -> T:
        """Return the result of a side system's statement, such as a model or a monitor.

        Raises as `ask` does.
        """
        with self._stops.watched(stop or Stop()) as registered:
            if self.policy.period is not None and not isinstance(statement, InPeriods):
                raise without_periods(any_statement.SIDE)
            self._follow_ledger_time()
            return statement.run(self.parts(registered))

    def _follow_ledger_time(self) -> None:
        """Open the period of ledger time, with its budget, if units are people in periods.

        Takes up the data of periods that another process refreshed.
        """
        rule = self.policy.period
        if rule is None:
            return
        present = period_now(rule, self.ledger)
        if present != rule:
            with self._lock:
                others = present.versions != rule.versions  # another process refreshed them
                policy = self._rebind() if others else self.policy
                self.adopt(replace(policy, period=present))

    def own_tables(self, analyst: str, stop: Stop | None = None) -> tuple[TablePolicy, ...]:
        """Return the names and columns of tables that an analyst made or the owner published."""
        return self.systems.tables(self.parts(stop or Stop()), analyst)

    def parts(self, stop: Stop) -> Parts:
        """Return the parts of the proxy that answer one statement."""
        return Parts(self.compiler, self.vault, self.systems, stop)

    def analyst(self, name: str | None = None) -> str:
        """Return the analyst or agent with that name; without a name the only one.

        Raises `Refused`.
        """
        analysts = tuple(analyst for analyst, _ in self.policy.analysts)
        if name is None and len(analysts) == 1:
            return analysts[0]
        if name is None or not (name in analysts or self.chain(name)):
            raise unknown_name("analyst", name, analysts)
        return name

    def chain(self, analyst: str) -> Chain:
        """Return the delegations of an agent as the ledger has them now; () for any other name.

        Raises `Refused` if one of them has ended.
        """
        return () if analyst in dict(self.policy.analysts) else self.ledger.chain(analyst)

    def may_ask(self, name: str) -> bool:
        """Test whether a name is an analyst of the policy, or an agent of one; false in doubt."""
        try:
            person = chain[-1].delegator if (chain := self.chain(name)) else name
        except DpsqlError:
            return False
        return self.policy.budget_of(person) is not None

    def rows_granted(self, analyst: str) -> str:
        """Return which rows an analyst may use now, as one text; see `restrict.rows_granted`."""
        return rows_granted(self.policy, analyst, self.chain(analyst))

    def _with_chain(self, request: Request) -> Request:
        """Return a request with the delegations of its analyst as they are now."""
        return replace(request, chain=self.chain(request.analyst))

    def _each_with_chain(self, requests: Sequence[Request]) -> list[Request]:
        """Return requests that are asked together, at ledger time. Raises `Refused`."""
        self._follow_ledger_time()
        return [self._with_chain(request) for request in requests]

    def policy_of(self, analyst: str) -> Policy:
        """Return the policy as an analyst's roles show it: other tables and columns do not
        exist.
        """
        return restrict_to(self.policy, analyst, self.chain(analyst))

    def may_read(self, analyst: str, entry: Entry) -> bool:
        """Test whether an analyst's roles grant all that the text of an entry names, by now.

        In doubt they do not (PRIVACY.md R105).
        """
        policy = self.policy_of(analyst)
        if not (policy.beneath and entry.inquiry.sql):
            return True
        if is_withheld(entry.inquiry.sql, policy):
            return False
        try:
            self._explain(replace(request_of(entry), analyst=analyst), Stop())
        except DpsqlError:
            return False
        return True

    def budgets(self) -> tuple[tuple[Budget, Loss, Loss], ...]:
        """Return each budget with its spending and its limit, in its window if it renews, or in the
        period of people with the least rest.
        """
        least: dict[str, Standing] = {}
        for each in self.standings():
            if not each.cap and each.left < least.setdefault(each.budget.name, each).left:
                least[each.budget.name] = each
        return tuple((each.budget, each.spent, each.limit) for each in least.values())

    def nothing_paid(self, analyst: str) -> Receipt:
        """Return the receipt of an answer without private rows."""
        self._follow_ledger_time()
        payer = account(self.policy, analyst, chain=self.chain(analyst))
        return payer.receipt("", Loss(0), self.vault.till.standing(payer))

    def standing(self, analyst: str) -> Standing:
        """Return the rest for an analyst: of the budget, or of the cap with the least rest."""
        self._follow_ledger_time()
        payer = account(self.policy, analyst, chain=self.chain(analyst))
        return self.vault.till.standing(payer)

    def standings(self) -> tuple[Standing, ...]:
        """Return each budget, then each cap, with its spending."""
        self._follow_ledger_time()
        return standings(self.policy, self.ledger)

    def stamp(self, seconds: float) -> object:
        """Return a value that stays equal while all cached answers do; None if the ledger is busy
        longer.
        """
        stamp = self.vault.stamp(seconds, self.policy.limits.time_resolution)
        return stamp and (stamp, self.systems.changes)

    def has_other_roles(self) -> bool:
        """Test, once for each edit, whether the policy file has other roles, or guarantees other
        things, than this proxy.
        """
        return self.roles is not None and self.roles.have_changed()

    def recorded(self) -> object:
        """Return the data version, its facts, the present store, and what the owner confirmed of
        the guarantee and of other limits, to be compared with `accepted`.
        """
        facts = self.ledger.facts(vouched_for(self.policy))
        confirmed, limits = self.ledger.confirmed(), ceilings(self.policy)
        other = altered(confirmed, limits), removed(confirmed, limits)
        rule = self.policy.period
        version = self.ledger.data_version(), rule and self.ledger.period_versions(rule.text)
        present = store_present(self.policy.database), self.ledger.guarantee()
        return version, facts, present, other

    def refresh(self, periods: Sequence[str] = ()) -> int:
        """Start a new data version: remembered answers and recorded facts do not count any more.

        With `periods` of people, answers about others still count. Raises `Refused`.
        """
        if periods:
            rule = require_refreshable(self.policy, periods, self.ledger)
            self.ledger.refresh_periods(rule.text, periods)
        else:
            self.ledger.refresh()
        with self._lock:
            self.adopt(self._rebind())
            self.accepted = self.recorded()
        return self.ledger.data_version()

    def adopt(self, policy: Policy) -> None:
        """Answer under this policy from now on; drop compiled plans and cached answers.

        Those about periods of people whose data stay are kept.
        """
        keeps = differs_in_periods(self.policy, policy)
        self.compiler.adopt(policy)
        self.vault.forget(keeps_paid=keeps)

    def load(self) -> dict[str, int]:
        """Return the load of a pool of engines; empty for a single engine."""
        engine = self.vault.engine
        return engine.load() if isinstance(engine, EnginePool) else {}

    def cancel(self) -> None:
        """Stop all running queries: before its charge a query is free; later the charge stays."""
        self._stops.request_all()
        self.vault.engine.cancel()

    def write_refusals(self) -> None:
        """Add the refusals since the last call to the counts next to the ledger.

        A proxy that was not opened from a policy file has no place for them (SECURITY.md S36).
        """
        counts = self._stops.take_refused()
        if counts and self.refusals_beside:
            add_refusals(self.refusals_beside, now().date(), counts)

    def close(self) -> None:
        """Stop the engine and the compiler, and close the ledger."""
        self.write_refusals()
        self.compiler.close()
        self.vault.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exception: object) -> None:
        self.close()
