"""proxy: the operations for interfaces, each in a few lines over the compiler and the vault.

Refused requests leave no trace: SECURITY.md S2.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from threading import Lock
from typing import Self, TypeVar

from dpsql.answering import any_statement
from dpsql.answering.side_systems import OTHER, InPeriods, Parts, ProgramStatement, SideSystems
from dpsql.engines import Engine, Stop
from dpsql.engines.limited import Following
from dpsql.engines.pool import EnginePool
from dpsql.engines.versions import require_tested
from dpsql.ledgers import Ledger, altered, removed
from dpsql.ledgers.open_ledger import open_ledger
from dpsql.ledgers.refusal_counts import Counts, add_refusals
from dpsql.model import vocabulary
from dpsql.model.dataclass import replace
from dpsql.model.delegation import Chain
from dpsql.model.errors import Refused
from dpsql.model.public_times import now
from dpsql.model.table_names import unknown_name
from dpsql.model.vocabulary import Policy
from dpsql.policy.bind import vouched_for
from dpsql.policy.draft import Draft
from dpsql.policy.guarantee_keys import record_guarantee
from dpsql.policy.load import load
from dpsql.policy.restrict import restrict_to
from dpsql.policy.role_sections import WrittenRoles
from dpsql.preparation.bound_policy import bound, reached, store_present
from dpsql.preparation.compilation import Compiler
from dpsql.preparation.engine_kinds import dialects, opened
from dpsql.preparation.explanation import Explanation
from dpsql.preparation.period_plans import differs_in_periods, period_now, require_refreshable
from dpsql.preparation.public_data import PublicTables
from dpsql.preparation.question import Standing, account, ceilings, standings, without_periods
from dpsql.release.release import Sampler
from dpsql.vault.vault import Vault

T = TypeVar("T")


class RunningStops:
    """Stops of all running queries, and counts of those that were refused: thread-safe."""

    def __init__(self) -> None:
        self._stops: set[Stop] = set()
        self._refused = defaultdict[tuple[str, str], int](int)
        self._lock = Lock()

    @contextmanager
    def watched(self, stop: Stop, door: str) -> Iterator[Stop]:
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

    def ask(self, request: vocabulary.Request, stop: Stop | None = None) -> vocabulary.Answer:
        """Answer a query, charging the analyst's budget unless the answer is remembered.

        `stop` cancels this query alone: before its charge nothing is charged, after it the charge
        stays. Raises `Refused` (nothing ran, nothing was charged), `Failed` (the
        charge stays), `Unreachable` or `LedgerError`.
        """
        with self._stops.watched(stop or Stop(), request.door) as registered:
            request = replace(request, chain=self.chain(request.analyst))
            return any_statement.ask_any(self.parts(registered), request)

    def explain(self, request: vocabulary.Request, stop: Stop | None = None) -> Explanation:
        """Return the plan and the price of a query: runs nothing on private data, writes
        nothing.

        Raises `Refused`, or `Failed` if it takes too long or `stop` is requested.
        """
        return self.run(any_statement.PlanOf(request), stop)

    def run(self, statement: ProgramStatement[T], stop: Stop | None = None) -> T:
        """Return the result of a program's statement: a plan, several queries together, a model.

        Raises as `ask` does.
        """
        door = statement.door if isinstance(statement, InPeriods) else OTHER
        with self._stops.watched(stop or Stop(), door) as registered:
            if self.policy.period is not None and not isinstance(statement, InPeriods):
                raise without_periods(any_statement.SIDE)
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

    def own_tables(
        self, analyst: str, stop: Stop | None = None
    ) -> tuple[vocabulary.TablePolicy, ...]:
        """Return the names and columns of tables that an analyst made or the owner published."""
        return self.systems.tables(self.parts(stop or Stop()), analyst)

    def parts(self, stop: Stop) -> Parts:
        """Return the parts of the proxy that answer one statement, at ledger time."""
        self._follow_ledger_time()
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

    def policy_of(self, analyst: str) -> Policy:
        """Return the policy as an analyst's roles show it: other tables and columns do not
        exist.
        """
        return restrict_to(self.policy, analyst, self.chain(analyst))

    def budgets(self) -> tuple[tuple[vocabulary.Budget, vocabulary.Loss, vocabulary.Loss], ...]:
        """Return each budget with its spending and its limit, in its window if it renews, or in the
        period of people with the least rest.
        """
        least: dict[str, Standing] = {}
        for each in self.standings():
            if not each.cap and each.left < least.setdefault(each.budget.name, each).left:
                least[each.budget.name] = each
        return tuple((each.budget, each.spent, each.limit) for each in least.values())

    def nothing_paid(self, analyst: str) -> vocabulary.Receipt:
        """Return the receipt of an answer without private rows."""
        self._follow_ledger_time()
        payer = account(self.policy, analyst, chain=self.chain(analyst))
        return payer.receipt("", vocabulary.Loss(0), self.vault.till.standing(payer))

    def standing(self, analyst: str) -> Standing:
        """Return the rest for an analyst: of the budget, or of the cap with the least rest."""
        self._follow_ledger_time()
        payer = account(self.policy, analyst, chain=self.chain(analyst))
        return self.vault.till.standing(payer)

    def standings(self) -> tuple[Standing, ...]:
        """Return each budget, then each cap, with its spending."""
        self._follow_ledger_time()
        return standings(self.policy, self.ledger)

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
