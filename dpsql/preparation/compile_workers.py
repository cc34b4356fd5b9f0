"""Compilation in worker processes, for a server that must not wait.

A server of many analysts keeps compiled plans, and compiles nothing itself. A text that takes long
blocks one worker, and ends with it. A worker returns what the same code would have compiled here,
for the same policy over the same data. Both are named, and compared before the plan is used.

SECURITY.md S11, S20.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Sequence
from decimal import Decimal
from functools import partial
from typing import Any, Self, TypeAlias, TypeVar

from dpsql.compiler.plan.prepared import Prepared
from dpsql.dialects.statements.commands import OtherStatement
from dpsql.engines import Engine, EngineFailed, Stop
from dpsql.engines.limited import Following
from dpsql.engines.priority import NICENESS
from dpsql.engines.remote import RemoteObject, RemotePool
from dpsql.model.bounded_cache import BoundedCache
from dpsql.model.dataclass import dataclass, replace
from dpsql.model.errors import DpsqlError, Offer, Refused
from dpsql.model.intervals import Facts
from dpsql.model.prepared_store import opened
from dpsql.model.tree import Call, Span, SqlType
from dpsql.model.vocabulary import Policy, Request
from dpsql.policy.restrict import roles_of
from dpsql.preparation.compilation import Compiler, plan_key
from dpsql.preparation.engine_kinds import dialects, get
from dpsql.preparation.explanation import Outlook, PlanDescription
from dpsql.preparation.private_bounds import ColumnBounds
from dpsql.preparation.public_data import PublicTables
from dpsql.preparation.question import Question, text_key
from dpsql.preparation.signature import Signature

T = TypeVar("T")
MEMORY = "1GB"
"""Memory of a worker beyond its start: many times the need of any sensible text."""
MOST_BYTES = 64 << 20
"""Limit on the bytes of all kept results of workers."""
MOST_READ = 4 << 20
"""Limit on the bytes of plans that are kept as objects: each is a thousand objects or more."""
_FLAT = 1 << 10

Identity: TypeAlias = tuple[str, str | None]
"""Version of a policy, and identity of its data."""


@dataclass(frozen=True, slots=True)
class Packed:
    """A pickled plan: its questions, and its bytes, which are read only if needed."""

    questions: tuple[str, ...]
    body: bytes
    polled: bool


@dataclass(frozen=True, slots=True)
class Begun:
    """A request that was read. Unless bounds are `wanting`, it has its plan, or the bytes of a
    description. A statement of a side system has neither.
    """

    query: Question | OtherStatement
    wanting: ColumnBounds
    plan: Packed | None = None


class CompilerDesk:
    """A compiler in a process of its own; every answer names policy and data."""

    def __init__(self, compiler: Compiler) -> None:
        self._compiler = compiler

    @classmethod
    def over(cls, policy: Policy, accepted: Any) -> Self:
        """Return a desk with its own engine for public tables, over the `accepted` data."""
        limits = replace(policy.limits, niceness=NICENESS)
        engine = get(policy.database.engine).open(policy.database, limits)
        engine.follow(accepted)
        return cls(Compiler(policy, _public(policy, engine)))

    def begun(self, request: Request, *, stop: Stop) -> tuple[Identity, Begun]:
        """Read a request and compile it, or describe it. Raises `Refused` or `Failed`."""
        compiler = self._compiler
        query = compiler.statement(request, stop)
        if not isinstance(query, Question):
            return self._of_now(Begun(query, ()))
        begun = Begun(replace(query, stop=Stop()), compiler.wanting(query))
        if not begun.wanting:
            begun = replace(begun, plan=self._packed(query))
        return self._of_now(begun)

    def packed(self, query: Question, *, stop: Stop) -> tuple[Identity, Packed]:
        """Return the pickled plan of a question. Raises `Refused` or `Failed`."""
        return self._of_now(self._packed(replace(query, stop=stop)))

    def described(
        self, query: Question, epsilon: Decimal, question: str, *, stop: Stop
    ) -> tuple[Identity, bytes]:
        """Return the pickled result of `Compiler.described`."""
        description = self._compiler.described(replace(query, stop=stop), epsilon, question)
        return self._of_now(_bytes(description))

    def outlook(self, query: Question, *, stop: Stop) -> tuple[Identity, Outlook]:
        """Return the result of `Compiler.outlook`."""
        return self._of_now(self._compiler.outlook(replace(query, stop=stop)))

    def wanting(self, query: Question, *, stop: Stop) -> tuple[Identity, ColumnBounds]:
        """Return the result of `Compiler.wanting`."""
        return self._of_now(self._compiler.wanting(replace(query, stop=stop)))

    def facts(self, query: Question, *, stop: Stop) -> tuple[Identity, tuple[Facts, ...]]:
        """Return the result of `Compiler.facts`."""
        return self._of_now(self._compiler.facts(replace(query, stop=stop)))

    def describe(
        self,
        request: Request,
        places: Sequence[Span],
        declared: Sequence[SqlType | None],
        *,
        stop: Stop,
    ) -> tuple[Identity, Signature | OtherStatement]:
        """Return the result of `Compiler.describe`."""
        return self._of_now(self._compiler.describe(request, places, declared, stop))

    def offer(
        self, request: Request, refused: Refused, *, stop: Stop
    ) -> tuple[Identity, Offer | None]:
        """Return the result of `Compiler.offer`."""
        return self._of_now(self._compiler.offer(request, refused, stop))

    def formula_calls(self, request: Request, *, stop: Stop) -> tuple[Identity, tuple[Call, ...]]:
        """Return the result of `Compiler.formula_calls`."""
        return self._of_now(self._compiler.formula_calls(request, stop))

    def apart(self, step: Callable[[], T], *, stop: Stop) -> tuple[Identity, T]:
        """Return the result of `Compiler.apart`."""
        return self._of_now(self._compiler.apart(step, stop))

    def _packed(self, query: Question) -> Packed:
        plan = self._compiler.prepared(query)
        return Packed(plan.questions, _bytes(plan), polled=bool(plan.polls))

    def _of_now(self, answer: T) -> tuple[Identity, T]:
        return identity_of(self._compiler.policy), answer


@dataclass(frozen=True, slots=True)
class _Work:
    """The workers for one policy and its data, and their results."""

    workers: RemotePool
    identity: Identity
    entries: BoundedCache[_Kept]
    plans: BoundedCache[_Kept]


@dataclass(frozen=True, slots=True)
class _Kept:
    """A result, and its approximate size in bytes."""

    value: Any
    size: int


class CompilerPool(Compiler):
    """A compiler that delegates to at most `most` worker processes, and keeps their results.

    Its own process parses and plans nothing. If there are several analysts, none of them gets all
    workers.
    """

    def __init__(self, policy: Policy, engine: Engine, most: int) -> None:
        super().__init__(policy, _public(policy, engine))
        self._engine, self._most = engine, most
        self._work = self._started(policy)

    def adopt(self, policy: Policy) -> None:
        """Compile under this policy from now on, in new workers."""
        old = self._work
        super().adopt(policy)
        with self._lock:
            self._work = self._started(policy)
        old.workers.close()

    def close(self) -> None:
        """Stop the workers; nothing is compiled any more."""
        self._work.workers.close()

    def prepared(self, query: Question) -> Prepared:
        """Return the plan of a question; small plans are kept as objects, all as bytes."""
        key = plan_key(query)
        work = self._work
        entry = work.plans.get(key)
        if entry is None:
            body = self._packed(work, query).body
            entry = _Kept(pickle.loads(body), len(body))  # noqa: S301 - of a worker of ours
            work.plans.put(key, entry)
        prepared: Prepared = entry.value
        return prepared

    def questions(self, query: Question) -> tuple[str, ...]:
        """Return the plan's questions without unpickling it; see `Prepared.questions`."""
        return self._result(query).questions

    def polled(self, query: Question) -> bool:
        """Test for polls without unpickling the plan; see `Compiler.polled`."""
        return self._result(query).polled

    def _result(self, query: Question) -> Packed:
        work = self._work
        entry = work.entries.get(plan_key(query))
        packed: Packed = self._packed(work, query) if entry is None else entry.value
        return packed

    def described(self, query: Question, epsilon: Decimal, question: str) -> PlanDescription:
        body = self._once(
            ("described", plan_key(query), epsilon, question),
            query.stop,
            ("described", replace(query, stop=Stop()), epsilon, question),
        )
        description: PlanDescription = pickle.loads(body)  # noqa: S301 - of a worker of ours
        return description

    def outlook(self, query: Question) -> Outlook:
        expected: Outlook = self._of_plan("outlook", query)
        return expected

    def wanting(self, query: Question) -> ColumnBounds:
        bounds: ColumnBounds = self._of_plan("wanting", query)
        return bounds

    def facts(self, query: Question) -> tuple[Facts, ...]:
        facts: tuple[Facts, ...] = self._of_plan("facts", query)
        return facts

    def _of_plan(self, method: str, query: Question) -> Any:
        """Return what a method of the compiler answers about a plan."""
        request = method, replace(query, stop=Stop())
        return self._once((method, plan_key(query)), query.stop, request)

    def describe(
        self,
        request: Request,
        places: Sequence[Span],
        declared: Sequence[SqlType | None],
        stop: Stop,
    ) -> Signature | OtherStatement:
        of, request = (tuple(places), tuple(declared)), self.on_grid(request)
        roles = roles_of(self.policy, request.analyst, request.chain)
        key = "describe", text_key(request), roles, of
        signature: Signature | OtherStatement = self._once(key, stop, ("describe", request, *of))
        return signature

    def offer(self, request: Request, refused: Refused, stop: Stop) -> Offer | None:
        ask = "offer", self.on_grid(request), refused
        try:
            offer: Offer | None = self.freely(lambda: self._ask(self._work, stop, *ask), stop)
        except DpsqlError:
            return None
        return offer

    def formula_calls(self, request: Request, stop: Stop) -> tuple[Call, ...]:
        ask = "formula_calls", request
        return self.freely(lambda: self._ask(self._work, stop, *ask), stop)

    def apart(self, step: Callable[[], T], stop: Stop) -> T:
        answer: T = self.freely(lambda: self._ask(self._work, stop, "apart", step), stop)
        return answer

    def _read(self, request: Request, stop: Stop) -> Question | OtherStatement:
        work = self._work
        key = "read", text_key(request), request.analyst, request.epsilon, request.precision
        entry = work.entries.get(key)
        if entry is None:
            begun: Begun = self._ask(work, stop, "begun", request)
            entry = _Kept(begun.query, _FLAT + len(request.sql))
            work.entries.put(key, entry)
            if isinstance(begun.query, Question):
                self._keep(work, begun.query, begun)
        said: Question | OtherStatement = entry.value
        return replace(said, request=request, stop=stop) if isinstance(said, Question) else said

    def _keep(self, work: _Work, query: Question, begun: Begun) -> None:
        """Keep the plan and the description of a question."""
        place = plan_key(query)
        work.entries.put(("wanting", place), _Kept(begun.wanting, _FLAT))
        if begun.plan is None:
            return
        work.entries.put(place, _Kept(begun.plan, _FLAT + len(begun.plan.body)))

    def _packed(self, work: _Work, query: Question) -> Packed:
        """Return the pickled plan with its bytes, which may be missing after a mere description."""
        key = plan_key(query)
        entry = work.entries.get(key)
        if entry is not None and entry.value.body:
            packed: Packed = entry.value
            return packed
        packed = self.freely(
            lambda: self._ask(work, query.stop, "packed", replace(query, stop=Stop())), query.stop
        )
        work.entries.put(key, _Kept(packed, _FLAT + len(packed.body)))
        return packed

    def _once(self, key: Any, stop: Stop, request: tuple[Any, ...]) -> Any:
        """Return a worker's answer to a request, from the cache if possible."""
        work = self._work
        entry = work.entries.get(key)
        if entry is None:
            answer = self.freely(lambda: self._ask(work, stop, *request), stop)
            entry = _Kept(answer, len(answer) if isinstance(answer, bytes) else _FLAT)
            work.entries.put(key, entry)
        return entry.value

    def _ask(self, work: _Work, stop: Stop, *request: Any) -> Any:
        """Return a worker's answer, which must be about the present policy and data."""
        with work.workers.taken(stop) as worker:
            identity, answer = worker.ask(stop, *request)
        if identity != work.identity:
            raise EngineFailed
        return answer

    def _started(self, policy: Policy) -> _Work:
        make = partial(CompilerDesk.over, policy, self._engine.accepted)
        start = partial(RemoteObject, make, MEMORY, policy.limits.free_seconds)
        workers = RemotePool(start, self._most, len(policy.analysts))
        return _Work(
            workers,
            identity_of(policy),
            BoundedCache(MOST_BYTES, lambda entry: entry.size),
            BoundedCache(MOST_READ, lambda entry: _FLAT + entry.size),
        )


def identity_of(policy: Policy) -> Identity:
    """Return the policy version and the data that a plan under this policy is about."""
    return policy.version, opened(policy.data, policy.store)


def _public(policy: Policy, engine: Engine) -> PublicTables:
    return PublicTables(Following(engine), dialects(policy.database).database)


def _bytes(value: object) -> bytes:
    return pickle.dumps(value, protocol=5)
