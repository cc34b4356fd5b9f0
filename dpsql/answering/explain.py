"""explain: the plan and the price of a question, in all its steps.

Nothing runs on private data, and nothing is written.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from math import isnan, nan, prod
from operator import add

from dpsql import accountants
from dpsql.accountants.remaining import rest
from dpsql.answering import shared_answers
from dpsql.answering.forecasts import forecasts
from dpsql.answering.from_memory import Recollection, recollection, repeated
from dpsql.answering.two_steps import Steps, steps_of, steps_price
from dpsql.ledgers import PaidAnswer, Stopped, unconfirmed
from dpsql.model.dataclass import dataclass, replace
from dpsql.model.notices import Notice, Ranked
from dpsql.model.vocabulary import Budget, Column, Event, Loss
from dpsql.policy.restrict import restrict_policy
from dpsql.preparation.compilation import Compiler
from dpsql.preparation.describe_blocks import description
from dpsql.preparation.explanation import Explanation, PlanDescription
from dpsql.preparation.question import Account, Cost, Question
from dpsql.vault.vault import Vault


@dataclass(frozen=True, slots=True)
class PlannedCreation:
    """Object that a statement would create: its columns with expected errors, the query `rows` of
    its input, and a sentence on the method.
    """

    columns: tuple[Column, ...]
    expected: tuple[float | None, ...]
    rows: str
    summary: str
    notices: tuple[Notice, ...] = ()


def explained(compiler: Compiler, vault: Vault, query: Question) -> Explanation:
    """Return the plan and the present price of a query; see `Proxy.explain`."""

    def explain() -> Explanation:
        plan = _explained(compiler, vault, query)
        depends = any(error is not None and isnan(error) for error in plan.expected)
        return replace(plan, forecasts=forecasts(compiler, vault, query)) if depends else plan

    return compiler.freely(explain, query.stop)


def price(compiler: Compiler, vault: Vault, query: Question) -> Loss:
    """Return the present price of a query, and nothing else."""
    steps = steps_of(compiler, vault, query)
    if steps is None:
        charged = vault.unanswered(query, compiler.prepared(query))
        return Loss(0) if charged else _of_one(compiler, vault, query).charge
    if steps.to_pay:
        return steps_price(compiler, vault, steps)
    remembered = [answer for answer in steps.remembered if answer is not None]
    return price(compiler, vault, steps.then(compiler, vault, remembered))


def explained_creation(
    compiler: Compiler, vault: Vault, account: Account, cost: Cost, creation: PlannedCreation
) -> Explanation:
    """Return the explanation of a named object that is measured once; a remembered one is free."""
    standing, budget = vault.till.standing(account), account.budget
    recalled = vault.memory.recall_cost(compiler, account, cost)
    charge = cost.loss if recalled is None else Loss(0)
    refusals = _refusals(vault, account) if recalled is None else []
    return Explanation(
        columns=creation.columns,
        blocks=(),
        outer_sql=creation.rows,
        analyst=account.analyst,
        budget=budget.name,
        accountant=budget.accountant,
        epsilon=account.epsilon,
        charge=charge,
        spent=standing.spent,
        limit=standing.limit,
        remembered=recalled is not None,
        expected=creation.expected,
        event=cost.event,
        notes=(*refusals, creation.summary),
        notices=creation.notices,
        rest=rest(standing.budget, standing.spent, charge),
        cap=standing.cap,
        window=standing.window,
        beside=standing.beside,
    )


def _explained(compiler: Compiler, vault: Vault, query: Question) -> Explanation:
    steps = steps_of(compiler, vault, query)
    if steps is None:
        return replace(_of_one(compiler, vault, query), outlook=compiler.outlook(query))
    if steps.to_pay:
        return replace(_of_all(compiler, vault, steps), outlook=steps.outlook(compiler))
    remembered = [answer for answer in steps.remembered if answer is not None]
    then = steps.then(compiler, vault, remembered)
    last = _explained(compiler, vault, then)
    notices = (*last.notices, *steps.notices(compiler, then))
    return replace(last, epsilon=query.account.epsilon, notices=notices)


def _of_all(compiler: Compiler, vault: Vault, steps: Steps) -> Explanation:
    """Return the explanation of unpaid steps and the last, which is shown with the widest
    bounds.
    """
    more = steps.before_last(compiler, vault)
    last = _of_one(compiler, vault, steps.last) if more is None else _of_all(compiler, vault, more)
    first = [_of_one(compiler, vault, search) for search in steps.to_pay]
    # How far ranks are off depends on the bounds to be found, and those of `last` are the widest.
    last = replace(last, notices=tuple(n for n in last.notices if not isinstance(n, Ranked)))
    parts = [*first, last]
    about = steps.notices(compiler, steps.last) if steps.finds_groups else ()
    notices = [(*last.notices, *about)] if about else [part.notices for part in parts[::-1]]
    hidden = 0 if steps.finds_groups else sum(len(part.blocks) for part in first)
    charge = reduce(add, (part.charge for part in parts))
    return replace(
        last,
        blocks=tuple(block for part in parts for block in part.blocks),
        charge=charge,
        rest=rest(vault.till.standing(steps.query.account).budget, last.spent, charge),
        epsilon=steps.query.account.epsilon,
        event=Event(tuple(e for part in parts if part.event for e in part.event.parts)),
        expected=tuple(None if e is None else nan for e in last.expected),
        notes=(steps.about, *last.notes),
        notices=tuple(dict.fromkeys(notice for each in notices for notice in each)),
        searches=hidden + last.searches,
        helps=(*last.helps, *(h for part in first if about for h in part.helps)),
    )


def _of_one(compiler: Compiler, vault: Vault, query: Question) -> Explanation:
    """Return the explanation of one question; a remembered answer is free."""
    account, budget = query.account, query.account.budget
    epsilon, question = account.epsilon, (compiler.questions(query) or ("",))[0]
    recalled = repeated(compiler, vault, query) if question else None
    if recalled and recalled[1] != question:
        epsilon, question = recalled[0].epsilon, recalled[1]
    if recalled:
        plan, cheap = compiler.described(query, epsilon, question), False
    else:
        plan, cheap = _to_pay(compiler, vault, query, question)
    charge = Loss(0) if recalled else plan.charge
    standing = vault.till.standing(account)
    cheap = cheap and accountants.is_least(charge, budget)
    refusals = [] if recalled else _refusals(vault, account)
    return Explanation(
        columns=plan.columns,
        blocks=plan.blocks,
        outer_sql=plan.outer_sql,
        analyst=query.request.analyst,
        budget=budget.name,
        accountant=budget.accountant,
        epsilon=account.epsilon,
        charge=charge,
        spent=standing.spent,
        limit=standing.limit,
        remembered=bool(recalled),
        periods=account.periods,
        stages=plan.stages,
        expected=plan.expected,
        event=plan.event,
        notes=(*refusals, *plan.notes, *([_least(budget)] if cheap else [])),
        notices=plan.notices,
        rest=rest(standing.budget, standing.spent, charge),
        cap=standing.cap,
        window=standing.window,
        beside=standing.beside,
        helps=plan.helps,
    )


def _to_pay(
    compiler: Compiler, vault: Vault, query: Question, question: str
) -> tuple[PlanDescription, bool]:
    """Return the plan for a question without an answer, and true if all of it is new."""
    lent = (
        shared_answers.lent(compiler, vault, query) if question and query.memory.repeats else None
    )
    if lent is not None:
        released, shared = lent
        return _lent(compiler, query, released, shared), False
    memory = recollection(compiler, vault, query) if question else None
    if memory is not None:
        return _from_memory(compiler, query, memory, question), False
    return compiler.described(query, query.account.epsilon, question), True


def _refusals(vault: Vault, account: Account) -> list[str]:
    """Return sentences on why the ledger would refuse every question now."""
    stopped, confirmed = vault.ledger.stopped(), vault.ledger.confirmed()
    if {Stopped(account.budget.name, None), Stopped(None, account.analyst)} & stopped:
        return ["Asking would be refused: the owner has stopped it."]
    return [
        f"Asking would be refused: the owner has not confirmed the limit of {title}."
        for title in unconfirmed(confirmed, account.ceilings, account.budget.name, account.analyst)
    ]


def _lent(
    compiler: Compiler, query: Question, released: PaidAnswer, question: str
) -> PlanDescription:
    """Return the plan of an answer that others share, at the price for this analyst's limits."""
    plan, price = (
        compiler.described(query, released.epsilon, question),
        query.account.price_of(released),
    )
    return replace(plan, charge=price, notes=(_shared([released], price), *plan.notes))


def _received(payer: Account, lent: Sequence[PaidAnswer]) -> list[str]:
    """Return sentences on the answers that an analyst receives for the first time, and their
    payer.
    """
    others, cubes = [each for each in lent if not each.cube], {e.cube: e for e in lent if e.cube}
    notes = [
        f"Cube {name} is new to this analyst, for whom one entry counts all of its tables: "
        + _payers(payer.price_of(cube))
        for name, cube in cubes.items()
    ]
    price = reduce(add, map(payer.price_of, others), Loss(0))
    return [_shared(others, price), *notes] if others else notes


def _payers(price: Loss) -> str:
    if price.amount:
        return "the limits of this analyst alone pay for it."
    return "nothing is paid again."


def _shared(lent: Sequence[PaidAnswer], price: Loss) -> str:
    what = "The answer is" if len(lent) == 1 else f"{len(lent)} measurements are"
    return f"{what} shared by other analysts of this budget: {_payers(price)}"


def _from_memory(
    compiler: Compiler, query: Question, memory: Recollection, question: str
) -> PlanDescription:
    """Return the plan of a derived answer: its measurements, and their price."""
    answering = replace(query, derived=memory.derived)
    plan = compiler.described(answering, query.account.epsilon, question)
    recalled = f"From memory {memory.recalled} %, paid {100 - memory.recalled} %."
    notes = [recalled] if memory.recalled else []
    notes += _received(query.account, memory.lent)
    if memory.epsilon is None:
        return replace(plan, charge=memory.price, event=Event(()), notes=(*notes, *plan.notes))
    policy = restrict_policy(compiler.policy, query.account.roles)
    table = description(memory.wide.prepared, (), policy)
    cells = prod(memory.wide.sizes)
    wide = f"{cells:,} groups are measured and remembered, of which those are shown that are asked."
    notes += [wide] if cells > len(memory.wide.places) else []
    return replace(
        plan,
        blocks=table.blocks,
        charge=memory.price,
        event=table.event,
        notes=(*notes, *plan.notes),
    )


def _least(budget: Budget) -> str:
    same = f"{accountants.cheapest_epsilon(budget):f}"
    return f"This is the least that a question is charged; ε = {same} costs no more and errs less."
