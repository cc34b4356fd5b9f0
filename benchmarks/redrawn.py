"""Answers to one question, drawn many times: the engine adds up each statement once.

All that is random is drawn anew: noisy histograms, the limits that follow from them, keys, choices
and noise. A plan is compiled once for each combination of limits. Its bias is replaced, because
each draw has its own. Where a table's rows are computed one by one, all draws are finished at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from functools import partial
from itertools import chain
from typing import Any
from unittest.mock import patch

import numpy as np

from dpsql.answering.two_steps import NormSteps, Steps, steps_of
from dpsql.compiler.plan.prepared import Prepared
from dpsql.compiler.plan.private_plan import BlockPlan, FoundNorm, PrivatePlan
from dpsql.engines import ScratchTable, Stop
from dpsql.engines.duckdb.scratch_tables import load
from dpsql.mechanisms import sample
from dpsql.mechanisms.clipping_bias import ClippingBias
from dpsql.mechanisms.entropy import Entropy
from dpsql.model.vocabulary import Answer, Exact, Loss, Noisy, Receipt, Request
from dpsql.preparation.question import Question
from dpsql.proxy import Proxy
from dpsql.release.finish import finish, stage
from dpsql.release.histogram_choices import chosen
from dpsql.release.release import Sampler, narrowed, release
from grammar_tests.draws import pooled
from grammar_tests.laws import bench

CHARGED = Receipt("", "ana", "default", "", Decimal(1), Loss(0), Loss(0), Loss(0))
MOST_PLANS = 40
"""Most plans of a question; of more, each of the first is drawn several times."""

Norms = tuple[FoundNorm, ...]
Tables = Sequence[ScratchTable]
Rows = Sequence[tuple[Any, ...]]


class Redrawn:
    """A proxy whose integers are added up once; nothing is charged or remembered."""

    def __init__(self, proxy: Proxy, entropy: Entropy, sampler: Sampler | None = None) -> None:
        self.proxy, self.entropy = proxy, entropy
        self._sampler = sampler or partial(sample, entropy=entropy)
        self._integers: dict[tuple[Any, ...], Exact] = {}
        self._noisy: dict[str, tuple[Noisy, ...]] = {}
        self.lasts: dict[Any, tuple[Steps, Question]] = {}
        """The last steps of the last question and what led to them, by limits."""
        self.guesses: list[bool] = []
        """Whether the last question's draws call an end a guess."""

    def answers(self, sql: str, epsilon: Decimal, count: int) -> list[Answer]:
        """The answers of so many draws; one may hold the rows of several draws."""
        self.lasts.clear()
        self.guesses.clear()
        self._noisy.clear()
        asked = Request(sql, self.proxy.analyst(), epsilon=epsilon)
        question = self.proxy.compiler.read(asked, Stop())
        with patch.object(self.proxy.vault.ledger, "answer", self._noisy.__getitem__):
            return list(self._continued(question, [question.norms] * count))

    def _continued(self, question: Question, norms: Sequence[Norms]) -> Iterator[Answer]:
        """The answers of a question whose draws have these norms, alike but for their biases."""
        compiler, vault, count = self.proxy.compiler, self.proxy.vault, len(norms)
        steps = steps_of(compiler, vault, question)
        if steps is None:
            self.guesses += [any(n.bias is not None and n.bias.guess for n in own) for own in norms]
            yield from self.last(question, norms, together=True)
            return
        searched = [list(self.last(search, [search.norms] * count)) for search in steps.searches]
        nexts = [steps.then(compiler, vault, draw) for draw in zip(*searched, strict=True)]
        groups: dict[Any, list[Question]] = {}
        for each in nexts:
            groups.setdefault(_limits(each), []).append(each)
        if len(groups) > MOST_PLANS:
            repeated = -(-count // MOST_PLANS)
            groups = {n: [each] * repeated for n, each in enumerate(nexts[:MOST_PLANS])}
        for group in groups.values():
            if isinstance(steps, NormSteps) and not steps.centres:
                self.lasts[_limits(group[0])] = steps, group[0]
            yield from self._continued(group[0], [each.norms for each in group])

    def last(
        self, question: Question, norms: Sequence[Norms], *, together: bool = False
    ) -> Iterator[Answer]:
        """The answers of one step; those of several draws `together` where that is the same."""
        prepared = self.proxy.compiler.prepared(question)
        plan = prepared.plan
        assert plan is not None
        plans = [_with_biases(plan, question.norms, own) for own in norms]
        draw = self._drawing(prepared, len(norms))
        draws = [(each, draw(each)) for each in plans]
        if question.polls and not _is_of_means(plan):
            yield from (self._polled(own, question, noisy) for own, noisy in draws)
            return
        finished = partial(self._finished, prepared, question)
        if together and len(draws) > 2 and _are_rowwise(finished, draws[:2]):
            yield finished(draws)
            return
        for each in draws:
            yield finished([each])

    def without_noise(self, question: Question) -> Answer:
        """The answer without noise."""
        prepared = self.proxy.compiler.prepared(question)
        assert prepared.plan is not None
        draw = self._drawing(prepared, 1, lambda _, size: np.zeros(size, dtype=object))
        return self._finished(prepared, question, [(prepared.plan, draw(prepared.plan))])

    def _drawing(
        self, prepared: Prepared, count: int, sampler: Sampler | None = None
    ) -> Callable[[PrivatePlan], tuple[Noisy, ...]]:
        """A function that draws the noisy tables of a plan, over integers added up once."""
        engine, entropy = self.proxy.vault.engine, self.entropy
        law = sampler or pooled(self._sampler, count)
        chooser = partial(chosen, entropy=entropy)

        def drawn(plan: PrivatePlan) -> tuple[Noisy, ...]:
            result = list[Noisy]()
            for block, sql in zip(plan.blocks, prepared.rewritten.blocks, strict=True):
                exact, there = Exact([], []), block
                if block.queries or block.histograms:
                    stages = [
                        stage(plan, prepared.rewritten, n, result, engine.rows, scratch)
                        for n in sql.stages
                    ]
                    exact = self._added_up(prepared, sql, stages)
                    there = narrowed(block, dict(zip(sql.stages, stages, strict=True)))
                result.append(release(exact, there, law, chooser))
            return tuple(result)

        return drawn

    def _added_up(self, prepared: Prepared, sql: Any, stages: Tables) -> Exact:
        read = str([(each.columns, list(each.rows)) for each in stages])
        asked = sql.sql, len(sql.keys), sql.parts, read
        if asked not in self._integers:
            self._integers[asked] = self.proxy.vault.engine.aggregate(
                sql.sql, len(sql.keys), sql.parts, 1, stages, Stop(), prepared.data, sql.totals
            )
        return self._integers[asked]

    def _receipt(self, question: Question, noisy: tuple[Noisy, ...]) -> Receipt:
        query_id = str(len(self._noisy))
        self._noisy[query_id] = noisy
        return replace(CHARGED, query_id=query_id, epsilon=question.account.epsilon)

    def _polled(self, plan: PrivatePlan, question: Question, noisy: tuple[Noisy, ...]) -> Answer:
        """The answer of polls, whose outer query lists the tables one after another."""
        rows = [
            (number, *key, *parts)
            for number, table in enumerate(noisy)
            for key, parts in zip(table.keys, table.parts, strict=True)
        ]
        assert len(plan.blocks) == len(question.polls)
        return Answer((), rows, (), (), self._receipt(question, noisy))

    def _finished(
        self,
        prepared: Prepared,
        question: Question,
        draws: Sequence[tuple[PrivatePlan, tuple[Noisy, ...]]],
    ) -> Answer:
        """The answer of these draws, whose rows follow one another."""
        engine, own = self.proxy.vault.engine, prepared.rewritten
        joined: list[list[Any]] = [[] for _ in own.tables]
        receipt = self._receipt(question, draws[-1][1])

        def keep(_: str, tables: Tables) -> Rows:
            for rows, table in zip(joined, tables, strict=True):
                rows.extend(table.rows)
            return []

        for plan, noisy in draws[:-1]:
            finish(plan, own, noisy, engine.rows, keep, receipt)

        def all_of_them(sql: str, tables: Tables) -> Rows:
            keep(sql, tables)
            pairs = zip(tables, joined, strict=True)
            return scratch(sql, [replace(table, rows=rows) for table, rows in pairs])

        plan, noisy = draws[-1]
        return finish(plan, own, noisy, engine.rows, all_of_them, receipt, prepared.notices)


def scratch(sql: str, tables: Tables = (), *_: Any, **__: Any) -> Rows:
    """The rows of a query over these tables, computed in this process."""
    cursor = bench().cursor()
    for table in tables:
        cursor.execute(*load(table))
    return cursor.execute(sql).fetchall()


def _limits(question: Question) -> Any:
    """What of earlier steps decides the statement and the noise of a question."""
    norms = tuple((n.key, n.bound, n.visible, n.instead) for n in question.norms)
    return norms, question.bounds, question.shown, question.account.epsilon


def _with_biases(plan: PrivatePlan, planned: Norms, drawn: Norms) -> PrivatePlan:
    """The plan with the biases of a draw in place of those that it was compiled with."""
    pairs = zip(planned, drawn, strict=True)
    biases = {old.bias: new.bias for old, new in pairs if old.bias is not None}
    if not biases:
        return plan

    def of_draw(block: BlockPlan) -> BlockPlan:
        columns = [replace(each, bias=biases[each.bias] or NONE) for each in block.biased]
        return replace(block, biased=tuple(columns))

    return replace(plan, blocks=tuple(map(of_draw, plan.blocks)))


NONE = ClippingBias(0.0, 0.0, 1, guess=False)


def _is_of_means(plan: PrivatePlan) -> bool:
    return any(not block.releases for block in plan.blocks)


def _are_rowwise(finished: Callable[[Any], Answer], pair: Sequence[Any]) -> bool:
    """Test whether two draws have the same rows together as one by one."""
    both = finished(pair)
    one_by_one = [finished([each]) for each in pair]

    def of(answer: Answer) -> list[str]:
        each = zip(answer.rows, answer.margins, answer.halves or answer.margins, strict=True)
        return list(map(str, each))

    return sorted(of(both)) == sorted(chain.from_iterable(map(of, one_by_one)))


def fixed_limits(steps: Steps, last: Question, halves: int) -> Question:
    """The question with the whole charge, and limits of so many half octaves more."""
    factor = Fraction(2) ** (halves // 2) * (Fraction(181, 128) if halves % 2 else 1)
    scaled = (
        replace(n, bound=max(1, int(n.bound * factor))) if n.bias is not None else n
        for n in last.norms
    )
    return replace(steps.query, norms=tuple(scaled))
