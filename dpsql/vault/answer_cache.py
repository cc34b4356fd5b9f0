"""Answers and measurements that are paid for, from the ledger: returned again without a charge.

Returning a paid answer again loses no privacy: PRIVACY.md R69.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal
from functools import partial

from dpsql.compiler.plan.plan_version import BY_PLAN
from dpsql.compiler.plan.prepared import Prepared
from dpsql.engines import Engine, Stop
from dpsql.ledgers import Ledger, PaidAnswer, Remembered
from dpsql.model.bounded_cache import BoundedCache
from dpsql.model.dataclass import dataclass, replace
from dpsql.model.vocabulary import Answer, Noisy, Receipt
from dpsql.policy.restrict import is_granted_as_much
from dpsql.preparation.compilation import Compiler
from dpsql.preparation.question import Account, Cost, Question, text_key
from dpsql.release.execution import guarded
from dpsql.release.finish import finish
from dpsql.vault.measured_cells import KnownTables, MeasuredCells, known_tables, measured_cells
from dpsql.vault.till import Till

MOST_CELLS = 1_000_000
"""Values of all finished answers that are kept."""


@dataclass(frozen=True, slots=True)
class Finished:
    """A remembered answer, finished: good as it is while the ledger's stamp is still the same."""

    stamp: object
    answer: Answer


def answers_of() -> BoundedCache[Finished]:
    """Finished answers of at most `MOST_CELLS` cells in all."""
    return BoundedCache(
        MOST_CELLS, lambda finished: 1 + len(finished.answer.rows) * len(finished.answer.columns)
    )


def finish_answer(
    prepared: Prepared,
    noisy: Sequence[Noisy],
    receipt: Receipt,
    engine: Engine,
    most_cells: int,
    stop: Stop,
) -> Answer:
    """Return the answer of noisy tables; raises `Failed` if the engine fails."""
    plan = prepared.plan
    assert plan is not None
    answer = guarded(
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


class AnswerCache:
    """Finished answers and known tables of a ledger: thread-safe."""

    def __init__(self, ledger: Ledger, till: Till) -> None:
        self._ledger, self._till = ledger, till
        self._answers, self._populations = answers_of(), known_tables(MOST_CELLS)

    def remembered(
        self,
        compiler: Compiler,
        query: Question,
        engine: Engine,
        least: Decimal | None = None,
        without: frozenset[str] = frozenset(),
    ) -> Answer | None:
        """Return an earlier paid answer if the ledger still contains it, else None.

        It cost at least `least`, or by default the present epsilon. Queries `without` do not count.
        """
        answers, request, question = self._answers, query.request, compiler.questions(query)[0]
        least = query.account.epsilon if least is None else least
        key = text_key(request), request.analyst, least, question, without
        finished, stamp = answers.get(key), self._ledger.stamp()
        if finished is not None and finished.stamp == stamp:
            return finished.answer
        recalled = self.recalled(compiler, query, least, without)
        if recalled is None:
            return None
        noisy, paid_question = recalled
        receipt = self._till.receipt(query.at(noisy.epsilon).account, noisy.query_id)
        before = None if finished is None else finished.answer.receipt
        if finished is not None and before is not None and before.query_id == noisy.query_id:
            answer = replace(finished.answer, receipt=receipt)
        else:
            most, stop = compiler.policy.limits.max_result_cells, query.stop
            paid = compiler.prepared(query.at(noisy.epsilon)).alternative(paid_question)
            answer = compiler.freely(
                lambda: finish_answer(paid, noisy.answer, receipt, engine, most, stop), stop
            )
        answers.put(key, Finished(stamp, answer))
        return answer

    def recalled(
        self,
        compiler: Compiler,
        query: Question,
        least: Decimal,
        without: frozenset[str] = frozenset(),
    ) -> tuple[Remembered, str] | None:
        """Return the noisy answer of the same question, and the form that was asked at that
        epsilon.

        A question that would choose groups is also answered from noise on every group. None if
        there is no answer, or if a query of that epsilon would have asked another form.
        """
        analyst = query.request.analyst
        for question in compiler.questions(query):
            answer = self._ledger.recall(analyst, question, BY_PLAN, least, without)
            if answer is not None and question in compiler.questions(query.at(answer.epsilon)):
                return answer, question
        analyst, version = query.request.analyst, compiler.policy.version
        for each in compiler.prepared(query).alternatives:
            answer = self._ledger.recall(analyst, each.earlier, version, least, without)
            if answer is not None and each.question in compiler.questions(query.at(answer.epsilon)):
                return answer, each.question
        return None

    def paid(
        self, compiler: Compiler, query: Question, paid: PaidAnswer, question: str, engine: Engine
    ) -> Answer:
        """Return a paid answer to one form of a question, which this analyst has received."""
        at, most = query.at(paid.epsilon), compiler.policy.limits.max_result_cells
        prepared = compiler.prepared(at).alternative(question)
        noisy, stop = self._ledger.answer(paid.query_id), query.stop
        receipt = self._till.receipt(at.account, paid.query_id)
        return compiler.freely(
            lambda: finish_answer(prepared, noisy, receipt, engine, most, stop), stop
        )

    def recall_cost(self, compiler: Compiler, payer: Account, cost: Cost) -> Remembered | None:
        """Return the paid answer of a model, of synthetic rows or of a monitor, or None."""
        version = compiler.policy.version
        keys = (cost.question, BY_PLAN), *((earlier, version) for earlier in cost.earlier)
        answers = (self._ledger.recall(payer.analyst, q, v, payer.epsilon) for q, v in keys)
        return next((answer for answer in answers if answer is not None), None)

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
        """Return the same measurements, followed by all cubes and the tables of analysts who share
        and whose roles grant no more: columns of a table may not exist for this analyst.
        """
        payer, stamp, policy = query.account, self._ledger.stamp(), compiler.policy
        of = payer.analyst, payer.budget, payer.caps, population, compiler.policy.version
        entry = self._populations.get(of)
        if entry is None or entry.stamp != stamp:
            present = {} if entry is None else {r.query_id: t for r, t in entry.tables.items()}
            tables = {
                each: present.get(each.query_id) or self._measured(each.query_id)
                for each in (
                    *self.paid_for(query, population, BY_PLAN),
                    *self._paid_earlier(compiler, query, population),
                )
            }
            entry = KnownTables(stamp, tables)
            self._populations.put(of, entry)
        wide = compiler.prepared(query).wide
        names = {} if wide is None or wide.prepared.question != population else wide.earlier
        return {
            paid: table.renamed(names)
            for paid, table in entry.tables.items()
            if paid.cube
            or payer.has(paid)
            or any(is_granted_as_much(policy, each, payer.roles) for each in paid.holders)
        }

    def paid_for(self, query: Question, question: str, version: str) -> list[PaidAnswer]:
        """Return the budget's paid answers for this analyst, for cubes, for those for whom an agent
        asks, and for analysts who share.
        """
        payer = query.account
        paid = self._ledger.released(payer.analyst, payer.budget.name, question, version)
        return [each for each in paid if each.cube or payer.has(each) or payer.may_take(each)]

    def _paid_earlier(
        self, compiler: Compiler, query: Question, population: str
    ) -> list[PaidAnswer]:
        """Return this analyst's tables that an earlier version of dpsql charged under this
        policy.
        """
        wide = compiler.prepared(query).wide
        if wide is None or wide.prepared.question != population:
            return []
        version, payer = compiler.policy.version, query.account
        paid = self.paid_for(query, wide.prepared.earlier, version)
        return [each for each in paid if payer.has(each)]

    def _measured(self, query_id: str) -> MeasuredCells:
        (noisy,) = self._ledger.answer(query_id)
        return measured_cells(noisy)

    def keep(self, query: Question, question: str, answer: Answer) -> None:
        """Keep a new answer: a repeated query waits for no engine and gets a new receipt."""
        key = text_key(query.request), query.request.analyst, query.account.epsilon, question
        self._answers.put((*key, frozenset()), Finished(None, answer))
