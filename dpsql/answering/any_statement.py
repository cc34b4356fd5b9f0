"""One statement of an analyst, which a side system may answer.

A side system has statements of its own. It answers SELECTs with a call or a table of its own,
which names do not resolve to. It answers others from releases that are paid for.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from dpsql.answering import precision, two_steps
from dpsql.answering.explain import explained
from dpsql.answering.side_systems import InPeriods, OpenSystem, OtherAnswers, Parts
from dpsql.dialects.statements.commands import Explain, OtherStatement
from dpsql.dialects.statements.creations import SystemStatement
from dpsql.model.dataclass import dataclass, replace
from dpsql.model.errors import Reason, Refused
from dpsql.model.system_table import PAID_CALLS
from dpsql.model.tree import Span, SqlType
from dpsql.model.vocabulary import Answer, Request
from dpsql.preparation.explanation import SHOWN, Explanation
from dpsql.preparation.offers import MAKERS
from dpsql.preparation.question import Question, without_periods
from dpsql.preparation.signature import Signature

SIDE = "monitors, releases, reports and synthetic rows"
"""Words for what is not charged to periods of people."""


def ask_any(parts: Parts, request: Request) -> Answer:
    """Return the answer to a statement.

    That of EXPLAIN has an explanation, from which its interface writes the rows.
    """
    compiler, vault = parts.compiler, parts.vault
    try:
        query = _read(parts, request)
        if isinstance(query, Question):
            source = parts.systems.source(parts, query) if query.calls & PAID_CALLS else None
            if source is not None:
                return source.answer(compiler, vault)
            if query.precision is not None:
                return precision.answered(compiler, vault, query)
            return two_steps.answered(compiler, vault, query)
    except Refused as refused:
        other = _instead(parts, request, refused)
    else:
        if isinstance(query, Explain):
            return Answer((SHOWN,), (), (), (), explanation=_plan_in_form(parts, request, query))
        system, statement = _of_system(parts, request, query)
        return system.ask(parts, request, statement)
    return other.answer(parts, request)


def explain_any(parts: Parts, request: Request, *, only_query: bool = False) -> Explanation:
    """Return the plan and the price of a statement, or of `only_query`."""
    try:
        query = _read(parts, request, only_query=only_query)
        if isinstance(query, Question):
            source = parts.systems.source(parts, query) if query.calls & PAID_CALLS else None
            if source is not None:
                return source.explanation(parts.compiler, parts.vault)
            return explained(parts.compiler, parts.vault, query)
    except Refused as refused:
        other = _instead(parts, request, refused)
    else:
        if isinstance(query, Explain):
            return _plan_in_form(parts, request, query)
        system, statement = _of_system(parts, request, query)
        return system.explain(parts, request, statement)
    return other.explain(parts, request)


def _plan_in_form(parts: Parts, request: Request, said: Explain) -> Explanation:
    """Return the plan that EXPLAIN asks for."""
    with _explained(request, said) as inner:
        return replace(explain_any(parts, inner, only_query=True), form=said.form)


@contextmanager
def _explained(request: Request, said: Explain) -> Iterator[Request]:
    """Yield the query that EXPLAIN is about. An offer of another query begins with EXPLAIN, too."""
    try:
        yield replace(request, sql=said.inner(request.sql))
    except Refused as refused:
        offer, start = refused.offer, said.start
        if offer is not None and offer.sql[:start].isspace():
            refused.offer = replace(offer, sql=request.sql[:start] + offer.sql[start:])
        raise


@dataclass(frozen=True, slots=True)
class PlanOf(InPeriods):
    """The plan and the price of a request. See `Proxy.explain`."""

    request: Request

    @property
    def door(self) -> str:
        return self.request.door

    def run(self, parts: Parts) -> Explanation:
        """Return the plan."""
        return explain_any(parts, parts.with_chain(self.request))


@dataclass(frozen=True, slots=True)
class ColumnsOf(InPeriods):
    """Columns and parameter types of a request with unknown parameters, for free.

    See `dpsql.preparation.signature`.
    """

    request: Request
    places: Sequence[Span] = ()
    declared: Sequence[SqlType | None] = ()

    @property
    def door(self) -> str:
        return self.request.door

    def run(self, parts: Parts) -> Signature:
        """Return the columns and types. Raises as `Proxy.explain` does."""
        return describe_any(parts, parts.with_chain(self.request), self.places, self.declared)


def describe_any(
    parts: Parts,
    request: Request,
    places: Sequence[Span],
    declared: Sequence[SqlType | None],
    *,
    only_query: bool = False,
) -> Signature:
    """Return the columns and parameter types of a statement, or of `only_query`."""
    describe = parts.compiler.signature if only_query else parts.compiler.describe
    try:
        said = describe(request, places, declared, parts.stop)
    except Refused as refused:
        numbered = replace(request, parameters=(1,) * len(places))
        parts, request = _instead(parts, numbered, refused).inside(parts, request)
        return describe_any(parts, request, places, declared)
    if isinstance(said, Signature):
        return said
    if isinstance(said, Explain):
        with _explained(request, said) as inner:
            described = describe_any(parts, inner, places, declared, only_query=True)
            return replace(described, columns=(SHOWN,))
    system, statement = _of_system(parts, request, said)
    return Signature(system.columns(statement), ())


def _of_system(
    parts: Parts, request: Request, statement: SystemStatement
) -> tuple[OpenSystem, Any]:
    """Return the system of a statement. Agents ask SELECTs alone: names that are made are their
    person's.
    """
    if request.chain:
        raise Refused(Reason.UNSUPPORTED_STATEMENT, construct="such a statement of an agent")
    system, said = parts.systems.of_statement(statement)
    if parts.compiler.policy.period is not None and not system.in_periods:
        raise without_periods(SIDE)
    return system, said


def _read(parts: Parts, request: Request, *, only_query: bool = False) -> Question | OtherStatement:
    """Return the statement of a request; refuse others than `only_query`.

    With periods of people its payer is charged in the periods that it reads.
    """
    compiler = parts.compiler
    read = (compiler.read if only_query else compiler.statement)(request, parts.stop)
    if compiler.policy.period is None or not isinstance(read, Question):
        return read
    return compiler.in_periods(read)


def _instead(parts: Parts, request: Request, refused: Refused) -> OtherAnswers:
    """Return the answers of a side system. Raises the refusal, with an offer if there is one."""
    try:
        return parts.systems.instead(parts, request, refused)
    except Refused as final:
        if final.reason in MAKERS and not (request.parameters or request.formulas):
            final.offer = parts.compiler.offer(request, final, parts.stop)
        raise
