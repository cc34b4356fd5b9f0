"""compilation: requests in, plans out, under one policy; nothing private runs, nothing is paid."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from fractions import Fraction
from threading import Lock
from typing import TypeVar

from dpsql.compiler.plan.prepared import Prepared
from dpsql.dialects.reading.parse import parse
from dpsql.engines import Stop
from dpsql.model.bounded_cache import BoundedCache
from dpsql.model.tree import Span, SqlType, Statement
from dpsql.model.vocabulary import Policy, Request
from dpsql.preparation.prepare import plans_of, prepare
from dpsql.preparation.private_bounds import with_bounds
from dpsql.preparation.public_data import PublicTables
from dpsql.preparation.question import Question, account, text_key
from dpsql.preparation.signature import Signature, signature
from dpsql.release.execution import freely

T = TypeVar("T")
REMEMBERED_PLANS = 512
"""Compiled queries kept by text, parameters, budget and epsilon."""


class Compiler:
    """The plans of requests under a policy, over public data that is measured once: thread-safe."""

    def __init__(self, policy: Policy, public: PublicTables) -> None:
        self.policy, self.public = policy, public
        self._statements: BoundedCache[Statement] = BoundedCache(REMEMBERED_PLANS, lambda _: 1)
        self._plans = plans_of(REMEMBERED_PLANS)
        self._lock = Lock()

    def adopt(self, policy: Policy) -> None:
        """Compile under this policy from here on, over public data that is measured anew."""
        with self._lock:
            self.policy = policy
            self.public.forget()
            self._plans = plans_of(REMEMBERED_PLANS)  # what is being compiled ends up in the old

    def read(self, request: Request, stop: Stop) -> Question:
        """The statement of a request and who pays for it; see `precision.read` for how much.

        Raises `Refused` for what is no statement, or what the analyst may not pay.
        """
        statement = self._parsed(request)
        wishes = request.epsilon, statement.epsilon
        return Question(request, statement, account(self.policy, request.analyst, *wishes), stop)

    def prepared(self, asked: Question) -> Prepared:
        """The plan of what is asked. Raises `Refused`, or `Failed` where compiling takes too long
        or is stopped.
        """
        payer = asked.account.budget, asked.account.epsilon
        key = text_key(asked.request), *payer, asked.bounds
        with self._lock:
            policy, plans = self.policy, self._plans
        plan = plans.get(key)
        if plan is None:
            plan = self.freely(lambda: self._compiled(asked, policy), asked.stop)
            plans.put(key, plan)
        return plan

    def signature(
        self,
        sql: str,
        dialect: str,
        places: Sequence[Span],
        declared: Sequence[SqlType | None],
        stop: Stop,
    ) -> Signature:
        """See `dpsql.preparation.signature`."""
        return self.freely(
            lambda: signature(sql, dialect, self.policy, places, declared),
            stop,
        )

    def freely(self, step: Callable[[], T], stop: Stop) -> T:
        """A step that nobody pays for; raises `Failed` where it is stopped or takes too long."""
        return freely(step, stop, self.policy.limits.free_seconds)

    def _parsed(self, request: Request) -> Statement:
        key = text_key(request)
        statement = self._statements.get(key)
        if statement is None:
            statement = parse(request.sql, request.dialect, request.parameters, request.day)
            nonnegative = statement.nonnegative or request.nonnegative
            statement = replace(statement, nonnegative=nonnegative)
            self._statements.put(key, statement)
        return statement

    def _compiled(self, asked: Question, policy: Policy) -> Prepared:
        return prepare(
            asked.statement,
            with_bounds(policy, asked.bounds),
            asked.account.budget,
            Fraction(asked.account.epsilon),
            self.public,
            self.public.evaluate,
        )
