"""explain: the plan and the price of what is asked, in as many steps as it takes; nothing runs
on private data, nothing is written.
"""

from __future__ import annotations

from dataclasses import replace
from functools import reduce
from math import nan
from operator import add

from dpsql import accountants
from dpsql.accountants.remaining import rest
from dpsql.answering.two_steps import Steps, steps_of
from dpsql.answering.vault import Vault
from dpsql.explaining.describe_blocks import describe, helps, notes
from dpsql.explaining.explanation import Explanation
from dpsql.model.tree import VARCHAR
from dpsql.model.vocabulary import Answer, Budget, Column, Event, Loss
from dpsql.preparation.compilation import Compiler
from dpsql.preparation.private_bounds import SHARE, notice
from dpsql.preparation.question import Question
from dpsql.release.finish import expected_margins


def explained(compiler: Compiler, vault: Vault, asked: Question) -> Explanation:
    """What asking this would do and cost now; see `Proxy.explain`."""
    plan = compiler.freely(lambda: _explained(compiler, vault, asked), asked.stop)
    return replace(plan, form=asked.statement.explain or plan.form)


def shown(explanation: Explanation) -> Answer:
    """The answer to EXPLAIN PRIVACY: its interface writes the rows from the explanation."""
    return Answer((Column("plan", VARCHAR),), (), (), (), explanation=explanation)


def _explained(compiler: Compiler, vault: Vault, asked: Question) -> Explanation:
    steps = steps_of(compiler, vault, asked)
    if steps is None:
        return _of_one(compiler, vault, asked)
    if steps.to_pay:
        return _of_all(compiler, vault, steps)
    bounds = steps.found(compiler, tuple(answer for answer in steps.known if answer is not None))
    last = _of_one(compiler, vault, replace(steps.last, bounds=bounds))
    notices = (*last.notices, *map(notice, bounds))
    return replace(last, epsilon=asked.account.epsilon, notices=notices)


def _of_all(compiler: Compiler, vault: Vault, steps: Steps) -> Explanation:
    """Of the steps that are to be paid and the last, which is shown with the widest bounds."""
    last = _of_one(compiler, vault, steps.last)
    parts = [*(_of_one(compiler, vault, search) for search in steps.to_pay), last]
    names = ", ".join(f"{b.table}.{b.column}" for b in steps.widest)
    charge = reduce(add, (part.charge for part in parts))
    return replace(
        last,
        blocks=tuple(block for part in parts for block in part.blocks),
        charge=charge,
        rest=rest(steps.asked.account.budget, last.spent, charge),
        epsilon=steps.asked.account.epsilon,
        event=Event(tuple(e for part in parts if part.event for e in part.event.parts)),
        expected=tuple(None if e is None else nan for e in last.expected),
        notes=(
            *last.notes,
            f"The bounds of {names} come from data: {SHARE} of the charge finds them first.",
            "Until they are found, the last release is shown with the widest.",
        ),
    )


def _of_one(compiler: Compiler, vault: Vault, asked: Question) -> Explanation:
    """Of one question: it costs nothing where the ledger remembers its answer."""
    prepared, budget = compiler.prepared(asked), asked.account.budget
    known = prepared.plan and vault.recalled(compiler, asked, asked.account.epsilon)
    if known and known[1].question != prepared.question:
        prepared = known[1]
    plan, rewritten = prepared.plan, prepared.rewritten
    charge = Loss(0) if plan is None or known else plan.loss
    blocks = () if plan is None else plan.blocks
    described = zip(blocks, rewritten.blocks, strict=True)
    spent = vault.ledger.spent(budget.name)
    about = [] if plan is None else [*notes(plan)]
    if accountants.is_least(charge, budget):
        about.append(_least(budget))
    return Explanation(
        columns=prepared.columns,
        blocks=tuple(describe(block, sql, compiler.policy) for block, sql in described),
        outer_sql=rewritten.shown_sql,
        analyst=asked.request.analyst,
        budget=budget.name,
        accountant=budget.accountant,
        epsilon=asked.account.epsilon,
        charge=charge,
        spent=spent,
        limit=asked.account.limit,
        remembered=bool(known),
        stages=tuple(stage.sql for stage in rewritten.stages),
        expected=expected_margins(plan, rewritten),
        event=None if plan is None else plan.event,
        notes=tuple(about),
        notices=prepared.notices,
        rest=rest(budget, spent, charge),
        helps=helps(blocks, budget, asked.account.epsilon),
    )


def _least(budget: Budget) -> str:
    same = f"{accountants.cheapest_epsilon(budget):f}"
    return f"This is the least that a question is charged; ε = {same} costs no more and errs less."
