"""compilation: requests to plans, under one policy; nothing private runs, nothing is charged."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from threading import Lock
from typing import Any, TypeVar

from dpsql.compiler.plan.prepared import Prepared
from dpsql.compiler.resolve.called_formulas import formula_calls
from dpsql.dialects.reading.parse import parse_any
from dpsql.dialects.reading.request_options import not_a_query
from dpsql.dialects.statements.commands import OtherStatement
from dpsql.engines import Stop
from dpsql.engines.limited import limited
from dpsql.model.bounded_cache import BoundedCache
from dpsql.model.errors import DpsqlError, Offer, Reason, Refused
from dpsql.model.intervals import Facts
from dpsql.model.query_options import KeyAim, requested_precision
from dpsql.model.tree import Call, Span, SqlType, Statement
from dpsql.model.vocabulary import Loss, Policy, Request
from dpsql.policy.restrict import restrict_policy, restrict_to
from dpsql.preparation import offers
from dpsql.preparation.accuracy import epsilon_for, first_epsilon
from dpsql.preparation.describe_blocks import description
from dpsql.preparation.explanation import Outlook, PlanDescription
from dpsql.preparation.other_forms import Form
from dpsql.preparation.outlook import outlook
from dpsql.preparation.period_plans import differs_in_periods, memory_of, plan_of_periods
from dpsql.preparation.prepare import KnownSteps, argument_facts, plans_of, prepare
from dpsql.preparation.private_bounds import ColumnBounds, wanting, widest_bounds, with_bounds
from dpsql.preparation.public_data import PublicTables
from dpsql.preparation.question import Question, account, text_key
from dpsql.preparation.signature import Signature, signature, with_context
from dpsql.preparation.withheld_names import withheld_names
from dpsql.release.execution import freely
from dpsql.release.finish import expected_margins

T = TypeVar("T")
REMEMBERED_PLANS = 2048
"""Number of compiled queries in the cache, by text, parameters, budget and epsilon."""


class Compiler:
    """Compiles requests under a policy, over public data that is measured once: thread-safe."""

    def __init__(self, policy: Policy, public: PublicTables) -> None:
        self.policy, self.public = policy, public
        self._statements: BoundedCache[Statement | OtherStatement] = BoundedCache(REMEMBERED_PLANS)
        self._plans = plans_of(REMEMBERED_PLANS)
        self._lock = Lock()

    def adopt(self, policy: Policy) -> None:
        """Compile under this policy from now on, and measure public data again.

        Plans about periods of people whose data stay are kept.
        """
        with self._lock:
            old, before = self.policy, self._plans
            self.policy = policy
            self.public.forget()
            self._plans = plans_of(REMEMBERED_PLANS)  # running compilations fill the old cache
            for key, plan in before.list_entries() if differs_in_periods(old, policy) else ():
                same = plan_of_periods(plan, old, policy)
                if same is not None:
                    self._plans.put(key, same)

    def statement(self, request: Request, stop: Stop) -> Question | OtherStatement:
        """Return the question of a request: who pays, and how much epsilon for its precision.

        Returns another statement than a query itself. Raises `Refused` for an invalid
        statement or an epsilon that the analyst may not pay, and `Failed` if reading takes too long
        or is stopped.
        """
        return self.freely(lambda: self._read(self.on_grid(request), stop), stop)

    def read(self, request: Request, stop: Stop) -> Question:
        """Return the question of a request as `statement` does; refuses other statements."""
        said = self.statement(request, stop)
        if not isinstance(said, Question):
            raise not_a_query(request.sql)
        return said

    def on_grid(self, request: Request) -> Request:
        """Return the request with its time rounded down to the public grid."""
        return replace(request, at=self.policy.limits.time_resolution.floor(request.at))

    def _read(self, request: Request, stop: Stop) -> Question | OtherStatement:
        statement = self._parsed(request)
        if not isinstance(statement, Statement):
            return statement
        epsilons = request.epsilon, statement.epsilon
        payer = account(self.policy, request.analyst, *epsilons, chain=request.chain)
        optioned = statement.epsilon is not None or statement.mechanism is not None
        memory = memory_of(statement, payer.budget)
        query = Question(
            request,
            payer,
            stop,
            optioned,
            memory=memory,
            calls=statement.calls,
            aim=KeyAim.BALANCED if statement.keys is None else KeyAim(statement.keys),
        )
        error, confidence = statement.max_error, statement.confidence
        stated = error is not None or confidence is not None
        precision = request.precision
        if stated or precision is not None:
            precision = requested_precision(precision, error, confidence)
        if precision is None:
            return query
        if statement.divided or not (request.epsilon is statement.epsilon is None):
            raise Refused(Reason.BAD_OPTION, option="max_error", why="epsilon is asked for too")
        budget = payer.budget
        if not precision.relative:
            epsilon = epsilon_for(precision, budget, lambda e: self.prepared(query.at(e)))
            return query.at(epsilon)
        first = replace(query.at(first_epsilon(budget)), precision=precision)
        self.prepared(first)  # refused before anything is paid
        return first

    def in_periods(self, query: Question) -> Question:
        """Return the question with the periods of people to which it is charged, if there are any.

        Raises as `prepared` does.
        """
        if self.policy.period is None:
            return query
        try:
            charged = self.prepared(query).charged
        except Refused as refused:
            bounds = self.wanting(query) if refused.reason is Reason.UNBOUNDED_INPUT else ()
            if not bounds:
                raise
            charged = self.prepared(replace(query, bounds=bounds)).charged
        return replace(query, account=replace(query.account, periods=charged))

    def wanting(self, query: Question) -> ColumnBounds:
        """Return the columns without private bounds; see `private_bounds.wanting`."""

        def refusal(bounds: ColumnBounds) -> Refused | None:
            try:
                self.prepared(replace(query, bounds=bounds))
            except Refused as refused:
                return refused if refused.reason is Reason.UNBOUNDED_INPUT else None
            return None

        columns = (column for table in self.policy.tables for column in table.columns)
        if not any(column.private_bounds for column in columns):
            return ()
        return wanting(restrict_policy(self.policy, query.account.roles), refusal)

    def questions(self, query: Question) -> tuple[str, ...]:
        """Return the plan's questions; see `Prepared.questions`. Raises as `prepared` does."""
        return self.prepared(query).questions

    def facts(self, query: Question) -> tuple[Facts, ...]:
        """Return the facts about arguments of aggregates over private rows, before any data is
        read.

        Raises as `prepared` does.
        """
        return self.freely(lambda: self._facts(query), query.stop)

    def polled(self, query: Question) -> bool:
        """Test whether polls must be held before it is answered."""
        return bool(self.prepared(query).polls)

    def described(self, query: Question, epsilon: Decimal, question: str) -> PlanDescription:
        """Return the description of the plan for one of its questions, at an epsilon."""
        prepared = self.prepared(query.at(epsilon)).alternative(question)
        margins = expected_margins(prepared.plan, prepared.rewritten)
        return description(prepared, margins, restrict_policy(self.policy, query.account.roles))

    def outlook(self, query: Question) -> Outlook:
        """Return the expected precision of the answer, and better forms; see
        `dpsql.preparation.outlook`.
        """
        policy = restrict_policy(self.policy, query.account.roles)
        return outlook(self._of_form, Form(self._query(query.request), policy, query))

    def prepared(self, query: Question) -> Prepared:
        """Return the plan of a question, from the cache if possible.

        Raises `Refused`, or `Failed` if compiling takes too long or is stopped.
        """
        key = plan_key(query)
        with self._lock:
            policy, plans = self.policy, self._plans
        plan = plans.get(key)
        if plan is None:
            plan = self.freely(lambda: self._compiled(query, policy), query.stop)
            plans.put(key, plan)
        return plan

    def signature(
        self,
        request: Request,
        places: Sequence[Span],
        declared: Sequence[SqlType | None],
        stop: Stop,
    ) -> Signature:
        """Return the types of results and parameters as `describe` does; refuses other
        statements.
        """
        said = self.describe(request, places, declared, stop)
        if not isinstance(said, Signature):
            raise not_a_query(request.sql)
        return said

    def describe(
        self,
        request: Request,
        places: Sequence[Span],
        declared: Sequence[SqlType | None],
        stop: Stop,
    ) -> Signature | OtherStatement:
        """Return the types of results and parameters; see `dpsql.preparation.signature`.

        Returns another statement than a query itself.
        """
        policy = restrict_to(self.policy, request.analyst, request.chain)

        def read() -> Signature | OtherStatement:
            with withheld_names(policy, request.sql):
                return signature(self.on_grid(request), policy, places, declared)

        return self.freely(read, stop)

    def offer(self, request: Request, refused: Refused, stop: Stop) -> Offer | None:
        """Return a statement that would be accepted instead; None if none is found in time."""

        def require(other: Request) -> None:
            query = self.read(other, stop)
            try:
                prepared = self._compiled(query, self.policy)
            except Refused as lacking:
                bounds = widest_bounds(restrict_policy(self.policy, query.account.roles))
                if lacking.reason is not Reason.UNBOUNDED_INPUT or not bounds:
                    raise
                prepared = self._compiled(replace(query, bounds=bounds), self.policy)
            query.require_useful(prepared.notices, Loss(0))

        def find() -> Offer | None:
            with limited(stop, offers.SECONDS, offers.work_clock()):
                policy = restrict_to(self.policy, request.analyst, request.chain)
                return offers.find_offer(request, refused, policy, require)

        try:
            return self.freely(find, stop)
        except DpsqlError:
            return None

    def formula_calls(self, request: Request, stop: Stop) -> tuple[Call, ...]:
        """Return the calls of a query that a side system replaces by a formula, such as PREDICT, in
        the order of the text.
        """
        statement = self.freely(lambda: self._query(self.on_grid(request)), stop)
        return tuple(formula_calls(statement.query))

    def apart(self, step: Callable[[], T], stop: Stop) -> T:
        """Run a reader of texts, in the process where texts are read; return or raise its
        result.

        The step is pickled for that process, and depends on nothing else.
        """
        return self.freely(step, stop)

    def freely(self, step: Callable[[], T], stop: Stop) -> T:
        """Run a step without a charge; raise `Failed` if it is stopped or takes too long."""
        return freely(step, stop, self.policy.limits.free_seconds)

    def close(self) -> None:
        """Do nothing: there is nothing to stop."""

    def _parsed(self, request: Request) -> Statement | OtherStatement:
        key = text_key(request)
        statement = self._statements.get(key)
        if statement is None:
            sql, dialect = request.sql, request.dialect
            statement = parse_any(sql, dialect, request.parameters, request.at)
            if isinstance(statement, Statement):
                nonnegative = statement.nonnegative or request.nonnegative
                statement = replace(with_context(statement, request), nonnegative=nonnegative)
            self._statements.put(key, statement)
        return statement

    def _query(self, request: Request) -> Statement:
        statement = self._parsed(request)
        assert isinstance(statement, Statement)
        return statement

    def _compiled(self, query: Question, policy: Policy) -> Prepared:
        if query.account.roles is None:
            return self._of_form(Form(self._query(query.request), policy, query))
        policy = restrict_policy(policy, query.account.roles)
        with withheld_names(policy, query.request.sql):
            return self._of_form(Form(self._query(query.request), policy, query))

    def _facts(self, query: Question) -> tuple[Facts, ...]:
        statement, budget = self._query(query.request), query.account.budget
        policy = restrict_policy(self.policy, query.account.roles)
        with withheld_names(policy, query.request.sql):
            return argument_facts(statement, policy, budget, self.public, self.public.evaluate)

    def _of_form(self, form: Form) -> Prepared:
        query = form.query
        return prepare(
            replace(form.statement, empty_rows=query.account.empty_rows),
            with_bounds(form.policy, query.bounds) if query.bounds else form.policy,
            query.account.budget,
            Fraction(query.account.epsilon),
            self.public,
            self.public.evaluate,
            KnownSteps(
                norms={norm.key: norm for norm in query.norms},
                polls=query.polls,
                derived=query.derived,
                promised=query.promised,
                shows_keys=query.shows_keys,
                shown=query.shown,
            ),
        )


def plan_key(query: Question) -> tuple[Any, ...]:
    """Return the key of a plan in the cache, under one policy."""
    whose = query.account.roles, query.account.empty_rows
    payer = query.account.budget, query.account.epsilon, *whose
    steps = query.bounds, query.norms, query.polls, query.derived, query.promised
    keys = query.shows_keys, query.shown
    return text_key(query.request), *payer, *steps, *keys
