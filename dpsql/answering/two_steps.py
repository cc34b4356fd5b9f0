"""two_steps: questions that first find bounds, of columns or of contributions, and all others.

The price of all steps is known before the first, and is refused or paid for any data: it is all
that one question may spend. Each step is charged durably before it runs. The ledger remembers found
bounds for the analyst's later questions, until the data or the policy change.

All steps are ordinary questions: PRIVACY.md R64. Private keys in two phases: PRIVACY.md R102.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from decimal import Decimal
from fractions import Fraction
from functools import partial, reduce
from itertools import islice, product
from operator import add
from typing import Self

from dpsql import accountants
from dpsql.answering import from_memory
from dpsql.answering.shared_answers import told_again
from dpsql.compiler.plan.prepared import Prepared
from dpsql.compiler.plan.published_keys import ShownKeys
from dpsql.engines import keeping
from dpsql.model.dataclass import dataclass, replace
from dpsql.model.errors import Refused
from dpsql.model.notices import Empty, Hidden, Notice
from dpsql.model.vocabulary import Answer, Loss, Request
from dpsql.policy.restrict import restrict_policy
from dpsql.preparation import contribution_bounds, shown_keys
from dpsql.preparation.compilation import Compiler
from dpsql.preparation.explanation import Outlook
from dpsql.preparation.private_bounds import (
    SHARE,
    ColumnBounds,
    bounds_of_answers,
    notice,
    payable,
    promise,
    question,
    shares,
    without_delta,
)
from dpsql.preparation.question import Account, Question, ReleasedBounds
from dpsql.vault.vault import Vault

_ANY = Decimal("1e-9")
"""Least epsilon of remembered bounds: they are used at any price, because bounds are found once."""
_MOST_CHOICES = 32
"""Combinations of remembered answers that are tried."""


@dataclass(frozen=True, slots=True)
class Steps(ABC):
    """A `query` in steps: `searches` come first, some with `remembered` answers; `last` is the
    query with the widest possible bounds.
    """

    query: Question
    searches: tuple[Question, ...]
    remembered: tuple[Answer | None, ...]
    last: Question

    @property
    def to_pay(self) -> tuple[Question, ...]:
        """First steps without a remembered answer."""
        pairs = zip(self.searches, self.remembered, strict=True)
        return tuple(search for search, remembered in pairs if remembered is None)

    @property
    @abstractmethod
    def about(self) -> str:
        """Sentence of `explain` on the first steps."""

    @property
    def finds_groups(self) -> bool:
        """Test whether the first steps decide which groups the last one has."""
        return False

    def remembering(self, compiler: Compiler, vault: Vault, least: Decimal) -> Self:
        """Return the steps with all answers of the first ones that cost at least `least`.

        Of several answers to one of them, the one that this question has used is taken, so that
        it stays free after another question has paid for a better one; else the most precise.
        """
        paid = [_all_remembered(compiler, vault, each, least) or [None] for each in self.searches]
        some = [replace(self, remembered=each) for each in islice(product(*paid), _MOST_CHOICES)]
        if not some[1:] or some[0].to_pay:
            return some[0]
        return next((s for s in some if s.is_remembered(compiler, vault)), some[0])

    def is_remembered(self, compiler: Compiler, vault: Vault) -> bool:
        """Test whether the last step after the remembered first ones is remembered too."""
        answers = [answer for answer in self.remembered if answer is not None]
        return _is_remembered(compiler, vault, self.then(compiler, vault, answers))

    def outlook(self, compiler: Compiler) -> Outlook:  # noqa: ARG002
        """Return the expected precision of the last step before the first are paid."""
        return Outlook()

    def before_last(self, compiler: Compiler, vault: Vault) -> Steps | None:  # noqa: ARG002
        """Return the further steps of the last step, or None."""
        return None

    @abstractmethod
    def then(self, compiler: Compiler, vault: Vault, answers: Sequence[Answer]) -> Question:
        """Return the question that follows from these answers of the first steps."""

    def notices(self, compiler: Compiler, last: Question) -> tuple[Notice, ...]:  # noqa: ARG002
        """Return notices on the bounds, besides those of the last answer."""
        return ()


@dataclass(frozen=True, slots=True)
class ColumnSteps(Steps):
    """Steps that first find bounds of columns, one each.

    If the last step need not select keys once bounds are known, its epsilon is `listed` for the
    same charge, or `listed_alone` if no search is to be paid.
    """

    widest: ColumnBounds
    listed: Decimal
    listed_alone: Decimal

    @property
    def about(self) -> str:
        names = ", ".join(f"{b.table}.{b.column}" for b in self.widest)
        return f"{_percent(SHARE)} of the charge first finds the bounds of {names}."

    def before_last(self, compiler: Compiler, vault: Vault) -> Steps | None:
        return steps_of(compiler, vault, self.last)

    def then(self, compiler: Compiler, vault: Vault, answers: Sequence[Answer]) -> Question:
        bounds = []
        for widest, search, answer in zip(self.widest, self.searches, answers, strict=True):
            assert answer.receipt is not None
            paid = compiler.prepared(search.at(answer.receipt.epsilon)).plan
            assert paid is not None
            bounds.append(bounds_of_answers(compiler.policy, widest, answer.rows, paid.blocks[0]))
        first = replace(self.last, bounds=tuple(bounds))
        alone = replace(self.query, bounds=tuple(bounds))
        if not compiler.prepared(first).selects:
            first, alone = first.at(self.listed), alone.at(self.listed_alone)
        if self.to_pay or _is_remembered(compiler, vault, first):
            return first
        # If the bounds are known, the answer gets their share.
        return _unless_resumed(compiler, vault, first, alone)

    def notices(self, compiler: Compiler, last: Question) -> tuple[Notice, ...]:  # noqa: ARG002
        return tuple(map(notice, last.bounds))


@dataclass(frozen=True, slots=True)
class NormSteps(Steps):
    """Steps that first find norms of contributions, one for each measurement, for a `part` of the
    charge.
    """

    part: Fraction
    centres: bool

    @property
    def about(self) -> str:
        what = "about where means are" if self.centres else "a limit on what one person adds"
        return f"{_percent(self.part)} of the charge first finds {what}."

    def outlook(self, compiler: Compiler) -> Outlook:
        return compiler.outlook(self.query)

    def before_last(self, compiler: Compiler, vault: Vault) -> Steps | None:
        polls = compiler.prepared(self.last).polls
        if not polls[0].first:
            return None
        middles = tuple(map(contribution_bounds.placeholder, polls))
        return steps_of(compiler, vault, replace(self.last, norms=(*self.last.norms, *middles)))

    def then(self, compiler: Compiler, vault: Vault, answers: Sequence[Answer]) -> Question:
        polled: list[contribution_bounds.Held] = []
        for search, answer in zip(self.searches, answers, strict=True):
            assert answer.receipt is not None
            paid = compiler.prepared(search.at(answer.receipt.epsilon))
            polled.append((search.polls, paid, answer))

        def with_norms(widest: Question, *, of_all: bool = False) -> Question:
            plan = compiler.prepared(widest)
            more = contribution_bounds.norms_of(plan.of_all_groups if of_all else plan, polled)
            return replace(widest, norms=(*widest.norms, *more))

        first = with_norms(self.last)
        if self.to_pay or _is_remembered(compiler, vault, first):
            return first
        # The largest groups of a paid question are those of its answer.
        of_all = with_norms(self.last, of_all=True)
        if of_all != first and _is_remembered(compiler, vault, of_all):
            return of_all
        # If the norms are known, the answer gets their share.
        return _unless_resumed(compiler, vault, first, with_norms(self.query))


@dataclass(frozen=True, slots=True)
class KeySteps(Steps):
    """Steps of which the first shows private keys and the last measures the shown ones.

    If the keys are remembered, the last step spends the `whole` charge.
    """

    whole: Account

    @property
    def about(self) -> str:
        finds = f"{_percent(self.query.aim.share)} of the charge first finds which values are shown"
        return f"{finds}; the rest measures these as if the policy listed them."

    @property
    def finds_groups(self) -> bool:
        return True

    def before_last(self, compiler: Compiler, vault: Vault) -> Steps | None:
        return steps_of(compiler, vault, self.last)

    def then(self, compiler: Compiler, vault: Vault, answers: Sequence[Answer]) -> Question:
        (answer,) = answers
        assert answer.receipt is not None
        (released,) = vault.ledger.answer(answer.receipt.query_id)
        shown = ShownKeys(answer.receipt.query_id, released.keys)
        first = replace(self.last, shown=shown)
        if self.to_pay or _is_remembered(compiler, vault, first):
            return first
        # If the keys are known, the answer gets their share.
        alone = replace(first, account=self.whole, promised=self.query.promised)
        return _unless_resumed(compiler, vault, first, alone)

    def notices(self, compiler: Compiler, last: Question) -> tuple[Notice, ...]:  # noqa: ARG002
        single, showing = map(compiler.prepared, (self.query, self.searches[0]))
        return shown_keys.about_keys(single, showing)


def _percent(share: Fraction | Decimal) -> str:
    return f"{float(share) * 100:.3g} %"


def _all_remembered(
    compiler: Compiler, vault: Vault, search: Question, least: Decimal
) -> list[Answer | None]:
    answers, paid = list[Answer | None](), frozenset[str]()
    while (answer := vault.remembered(compiler, search, least, paid)) is not None:
        assert answer.receipt is not None
        paid |= {answer.receipt.query_id}
        answers.append(answer)
    return answers


def last_step(
    compiler: Compiler, vault: Vault, query: Question
) -> tuple[Question | None, frozenset[str]]:
    """Return the last step of a question, and the ids of the queries that paid for the others.

    The step is None if the answer to an earlier one is not remembered.
    """
    ids, steps = set[str](), steps_of(compiler, vault, query)
    while steps is not None:
        answers = [answer for answer in steps.remembered if answer is not None]
        ids |= {answer.receipt.query_id for answer in answers if answer.receipt is not None}
        if len(answers) < len(steps.remembered):
            return None, frozenset(ids)
        query = steps.then(compiler, vault, answers)
        steps = steps_of(compiler, vault, query)
    return query, frozenset(ids)


def _is_remembered(compiler: Compiler, vault: Vault, query: Question) -> bool:
    """Test whether the answer to a question and all its steps are remembered."""
    last, _ = last_step(compiler, vault, query)
    return last is not None and vault.remembered(compiler, last) is not None


def _unless_resumed(compiler: Compiler, vault: Vault, first: Question, alone: Question) -> Question:
    """Return the last step for the whole charge, `alone`, as the bounds are known; of a release,
    `first`: it may have been interrupted after the bounds (SECURITY.md S37).
    """
    resumes = first.request.resumes and not _is_remembered(compiler, vault, alone)
    return first if resumes else alone


def answered(compiler: Compiler, vault: Vault, query: Question) -> Answer:
    """Return the answer, in steps if bounds must be found; raises as `Proxy.ask` does."""
    steps = steps_of(compiler, vault, query)
    with keeping(vault.engine, query.stop):
        paid: list[Answer] = []
        notices: list[Notice] = []
        last = query
        if steps is not None:
            _require_pay(compiler, vault, steps)
        while steps is not None:
            # The first step is paid for the last; their statements differ only in constants.
            vault.require_bound(compiler.prepared(steps.last), query.stop)
            answers = []
            for search, remembered in zip(steps.searches, steps.remembered, strict=True):
                answer = remembered or _searched(compiler, vault, search)
                answers.append(answer)
                fresh = answer.receipt is not None and not answer.receipt.remembered
                paid += [answer] if fresh else []
            last = steps.then(compiler, vault, answers)
            notices += steps.notices(compiler, last)
            steps = steps_of(compiler, vault, last)
        if last is query:
            return from_memory.answered(compiler, vault, query)
        # Found bounds must not decide the charge: nothing is refused once a part is paid.
        confirmed = replace(last, request=replace(last.request, confirmed=True))
        answer = from_memory.answered(compiler, vault, confirmed)
        return _together(query, paid, answer, notices)


def _searched(compiler: Compiler, vault: Vault, search: Question) -> Answer:
    """Return the answer to a first step that was not remembered; others may ask it at the same
    time.
    """
    with vault.in_flight.alone(compiler, search):
        shared = told_again(compiler, vault, search)
        return shared or vault.charged(compiler, search, compiler.prepared(search))


def steps_of(compiler: Compiler, vault: Vault, query: Question) -> Steps | None:
    """Return the steps of a question that needs bounds; None if it is a single step."""
    widest = () if query.bounds else compiler.wanting(query)
    if widest:
        return _column_steps(compiler, vault, query, widest)
    if not compiler.prepared(query).polls:
        return None
    if query.shown is None and (phases := _key_steps(compiler, vault, query)) is not None:
        return phases
    query = _promised(query, compiler.prepared(query))
    widest_plan, payer = compiler.prepared(query), query.account
    polls, paid = (
        widest_plan.polls,
        contribution_bounds.split(widest_plan, payer.budget, payer.epsilon),
    )
    keys = tuple(poll.key for poll in polls)
    search = replace(query, account=_first(query, paid.polls), polls=keys, promised=None)
    alone = tuple(replace(search, polls=(key,)) for key in keys)
    last = _rest(compiler, query, [search], query.at(paid.rest), widest_plan.selects)
    steps = NormSteps(query, (search,), (None,), last, part=paid.part, centres=polls[0].first)
    for searches in ((search,), alone):
        remembering = replace(steps, searches=searches).remembering(compiler, vault, _ANY)
        if None not in remembering.remembered:
            return remembering
    return steps


def _key_steps(compiler: Compiler, vault: Vault, query: Question) -> KeySteps | None:
    widest = compiler.prepared(query)
    if not shown_keys.has_two_phases(widest):
        return None
    query = _promised(query, widest)
    paid = shown_keys.phases(query.account, query.aim.share)
    search = replace(query, account=paid.first, shows_keys=True, promised=None)
    of_one, of_many = (
        replace(query, account=paid.rest, shown=shown_keys.placeholder(widest, keys))
        for keys in (1, shown_keys.MANY)
    )
    if compiler.polled(of_one) is not compiler.polled(of_many):
        return None  # how many keys are shown must not decide how often it is charged
    last = _rest(compiler, query, [search], of_one, selects=False)
    steps = KeySteps(query, (search,), (None,), last, whole=paid.whole)
    return steps.remembering(compiler, vault, paid.first.epsilon)


def _column_steps(
    compiler: Compiler, vault: Vault, query: Question, widest: ColumnBounds
) -> ColumnSteps:
    plan = compiler.prepared(replace(query, bounds=widest))
    query, selects = _promised(query, plan), plan.selects
    payer, last = query.account, replace(query, bounds=widest)
    accountant = accountants.get(payer.budget.accountant)
    share = partial(shares, accountant, payer.budget, payer.epsilon, share=SHARE)
    small, large = share(searches=len(widest), selecting=(selects,))
    _, listed = share(searches=len(widest), selecting=(selects, False))
    searches = tuple(_search(compiler, query, bounds, small) for bounds in widest)
    last = _rest(compiler, query, searches, last.at(large), selects)
    _, alone = share(searches=0, selecting=(selects, False))
    steps = ColumnSteps(query, searches, (), last, widest=widest, listed=listed, listed_alone=alone)
    return steps.remembering(compiler, vault, _ANY)


def _promised(query: Question, widest: Prepared) -> Question:
    """Return the question with the charge of all its steps together; see `promise`."""
    plan, payer = widest.plan, query.account
    if query.promised is not None:
        return query
    assert plan is not None
    whole = promise(payer.budget, payer.epsilon, plan.loss, selects=widest.selects)
    budget = payer.budget if whole.delta else without_delta(payer.budget)
    return replace(query, account=replace(payer, budget=budget), promised=whole)


def _rest(
    compiler: Compiler,
    query: Question,
    searches: Sequence[Question],
    last: Question,
    selects: bool,  # noqa: FBT001
) -> Question:
    """Return the last step with the rest of the promise, at least its own charge."""
    assert query.promised is not None
    paid = reduce(add, (_loss(compiler, search) for search in searches))
    own = promise(last.account.budget, last.account.epsilon, Loss(0), selects=selects)
    left = query.promised.without(paid)
    return replace(last, promised=accountants.larger_loss(left, own))


def _search(
    compiler: Compiler, query: Question, bounds: ReleasedBounds, epsilon: Decimal
) -> Question:
    policy = restrict_policy(compiler.policy, query.account.roles)
    whole = query.request
    sql = question(policy, bounds, query.account.periods)
    request = Request(sql, whole.analyst, chain=whole.chain)
    account = _first(query, epsilon)
    return replace(compiler.read(request, query.stop), account=account)


def _first(query: Question, epsilon: Decimal) -> Account:
    """Return the payer of a first step: noise with a δ leaves that δ to the last step."""
    return replace(query.account, budget=without_delta(query.account.budget), epsilon=epsilon)


def _require_pay(compiler: Compiler, vault: Vault, steps: Steps) -> None:
    """Refuse before the first step if the last cannot be paid."""
    if not steps.to_pay:
        return
    needed = steps_price(compiler, vault, steps)
    for step in (*_to_pay(compiler, vault, steps), steps.last):
        steps.query.require_useful(compiler.prepared(step).notices, needed)
    for standing in vault.till.standings(steps.query.account):
        try:
            payable(standing, needed)
        except Refused as refused:
            payer = steps.query.account
            stated = payer.in_epsilon(refused, standing)
            raise payer.leaving_out(stated, vault.till.standings(payer)) from None


def _to_pay(compiler: Compiler, vault: Vault, steps: Steps) -> tuple[Question, ...]:
    """Return all unpaid steps before the last."""
    more = steps.before_last(compiler, vault)
    return (*steps.to_pay, *(() if more is None else _to_pay(compiler, vault, more)))


def steps_price(compiler: Compiler, vault: Vault, steps: Steps) -> Loss:
    """Return the price of all unremembered steps together."""
    more = steps.before_last(compiler, vault)
    last = _loss(compiler, steps.last) if more is None else steps_price(compiler, vault, more)
    due = (each for each in steps.to_pay if not vault.unanswered(each, compiler.prepared(each)))
    return reduce(add, (_loss(compiler, step) for step in due), last)


def _loss(compiler: Compiler, query: Question) -> Loss:
    plan = compiler.prepared(query).plan
    assert plan is not None
    return plan.loss


def _together(
    query: Question, fresh: Sequence[Answer], last: Answer, notices: Sequence[Notice]
) -> Answer:
    """Return the last step's answer with the price of all steps and the used bounds."""
    receipt = last.receipt
    assert receipt is not None
    charged = reduce(add, (a.receipt.charged for a in fresh if a.receipt), receipt.charged)
    receipt = replace(
        receipt,
        epsilon=query.account.epsilon,
        charged=charged,
        remembered=receipt.remembered and not fresh,
        recalled=0 if fresh else receipt.recalled,
        least=receipt.least and not fresh,
    )
    hidden = next((notice for notice in notices if isinstance(notice, Hidden)), None)
    marked = (Empty(hidden) if n == Empty(None) else n for n in last.notices)
    return replace(last, receipt=receipt, notices=(*marked, *notices))
