"""A question to the proxy and its payer, under the policy's budgets.

The price of a cube for an analyst's limits: PRIVACY.md R83.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import fields, replace
from decimal import Decimal
from fractions import Fraction
from typing import Any

from dpsql import accountants
from dpsql.accountants.remaining import in_epsilon, keyed_questions, questions
from dpsql.compiler.plan.private_plan import FoundNorm
from dpsql.compiler.plan.published_keys import ShownKeys
from dpsql.engines import Stop
from dpsql.ledgers import Ceiling, Charge, Inquiry, Ledger, PaidAnswer, renewal_facts
from dpsql.model import vocabulary
from dpsql.model.bound_parameters import types_of
from dpsql.model.dataclass import dataclass
from dpsql.model.delegation import Chain, Delegation, chain_text
from dpsql.model.errors import Reason, Refused
from dpsql.model.notices import Notice, useless
from dpsql.model.origins import DerivedColumns
from dpsql.model.periods import ChargedPeriods, PeriodRule, condition_without, describe_blocks
from dpsql.model.query_options import KeyAim, Memory, Precision, sensible
from dpsql.model.table_names import unknown_name
from dpsql.model.vocabulary import Spending
from dpsql.policy.restrict import Roles, roles_of


@dataclass(frozen=True, slots=True)
class Standing:
    """Spending of a budget; or of the part under `cap`, as if that were a budget.

    If it renews, or units are people in periods, the spending is that in `window`. `beside` are the
    payer's other windows and lifetimes.
    """

    budget: vocabulary.Budget
    spent: vocabulary.Loss
    cap: str = ""
    window: str = ""
    beside: tuple[Spending, ...] = ()

    @property
    def title(self) -> str:
        """Name under which the limit is confirmed."""
        return self.cap or f"budget {self.budget.name}"

    @property
    def limit(self) -> vocabulary.Loss:
        """Total that may be spent, ever or in its window."""
        return limit_of(self.budget)

    @property
    def renewal(self) -> dict[str, str]:
        """Facts for a refusal: the window, and the day on which the next one begins."""
        if self.budget.renews is None:
            return {"period": self.window} if self.window else {}
        return renewal_facts(self.budget.renews, self.window)

    @property
    def spending(self) -> Spending:
        """Spending below this limit, for people to read."""
        return Spending(self.title, self.spent, self.limit, self.window, self.budget.accountant)

    @property
    def left(self) -> int:
        """Rest in the accountant's unit."""
        return self.spent.rest_of(self.limit)


def limit_of(budget: vocabulary.Budget) -> vocabulary.Loss:
    """Return the total that a budget may ever spend."""
    return accountants.get(budget.accountant).limit(budget)


@dataclass(frozen=True, slots=True)
class Account:
    """The payer of a question: an analyst, a budget, and an epsilon.

    `empty_rows` is the setting for their statements. `roles` name what is granted (None: all).
    An agent asks for its `delegators`. Under a `rule` of periods, a question is charged to each of
    its `periods`.
    """

    analyst: str
    budget: vocabulary.Budget
    epsilon: Decimal
    empty_rows: bool = False
    caps: tuple[vocabulary.Cap, ...] = ()
    roles: Roles | None = None
    delegators: frozenset[str] = frozenset()
    rule: PeriodRule | None = None
    periods: ChargedPeriods | None = None

    @property
    def ceilings(self) -> tuple[Ceiling, ...]:
        """All limits that the ledger compares: the budget, then every cap."""
        budget = _ceiling_of(self.budget, self.rule)
        return (budget, *(_ceiling(cap, self.budget, self.rule) for cap in self.caps))

    def has(self, paid: PaidAnswer) -> bool:
        """Test whether this analyst has the answer: was charged for it, or received it."""
        return self.analyst in paid.holders

    @property
    def is_lent_answers(self) -> bool:
        """True if answers of others may be lent: by analysts who share, or to an agent."""
        return self.budget.share_answers or bool(self.delegators)

    def may_take(self, paid: PaidAnswer) -> bool:
        """Test whether an answer of others may be lent, at its price."""
        lenders = self.is_lent_answers and not self.delegators.isdisjoint(paid.holders)
        return self.budget.share_answers or lenders

    def price_of(self, released: PaidAnswer) -> vocabulary.Loss:
        """Return the price of an answer for limits that none of its holders paid; a cube's as a
        whole.
        """
        lent = released.lent
        paid = all(ceiling.counts(lent.holders) for ceiling in self.ceilings)
        return vocabulary.Loss(0) if paid else lent.loss

    def charge(self, query_id: str, cost: Cost, policy_version: str, inquiry: Inquiry) -> Charge:
        """Return the charge of a question, as a ledger records it.

        Raises `Refused` for a charge that names no period, if units are people in periods.
        """
        if self.rule is not None and self.periods is None:
            raise without_periods("this")
        return Charge(
            query_id=query_id,
            analyst=self.analyst,
            budget=self.budget.name,
            accountant=self.budget.accountant,
            epsilon=self.epsilon,
            event=cost.event,
            loss=cost.loss,
            limit=limit_of(self.budget),
            question=cost.question,
            policy_version=policy_version,
            caps=self.ceilings[1:],
            inquiry=inquiry,
            renews=self.budget.renews,
            periods=self.periods,
        )

    def receipt(
        self,
        query_id: str,
        charged: vocabulary.Loss,
        standing: Standing,
        *,
        remembered: bool = False,
        recalled: int = 0,
    ) -> vocabulary.Receipt:
        """Return the receipt of an answer that now cost `charged`.

        `recalled` percent of its price came from the answer cache.
        """
        budget, spent = standing.budget, standing.spent
        return vocabulary.Receipt(
            query_id,
            self.analyst,
            self.budget.name,
            self.budget.accountant,
            epsilon=self.epsilon,
            charged=charged,
            spent=spent,
            limit=standing.limit,
            remembered=remembered,
            recalled=recalled,
            least=accountants.is_least(charged, self.budget),
            question=budget.query_epsilon,
            left=questions(budget, spent),
            keyed=keyed_questions(budget, spent),
            cap=standing.cap,
            window=standing.window,
            beside=standing.beside,
            periods=self.periods,
        )

    def in_epsilon(self, refused: Refused, standing: Standing) -> Refused:
        """Return the ledger's refusal, with amounts in ε."""
        return in_epsilon(refused, standing.budget, self.epsilon, standing.spent)

    def leaving_out(self, refused: Refused, every: Sequence[Standing]) -> Refused:
        """Return a refusal with the condition that leaves out all periods that cannot pay.

        `every` has the spending in each charged period below each limit. There is no condition if
        none can pay.
        """
        needed, periods = refused.facts.get("needed"), self.periods
        if not isinstance(needed, vocabulary.Loss) or periods is None:
            return refused
        empty = list(dict.fromkeys(s.window for s in every if not (s.spent + needed).fits(s.limit)))
        refused.facts["period"] = describe_blocks(periods.rule, empty)
        if len(empty) < len(periods.names):
            parts = (condition_without(periods.rule, periods.column, name) for name in empty)
            refused.facts["without"] = " AND ".join(parts)
        return refused


def without_periods(construct: str) -> Refused:
    """Return the refusal of a construct, such as a cube, under a policy with person-periods."""
    return Refused(
        Reason.UNSUPPORTED_PRIVATE_OPERATOR,
        construct=f"{construct} over periods of people",
        fix="Ask one SELECT: see dpsql help periods.",
    )


def account(
    policy: vocabulary.Policy, analyst: str, *requested: Decimal | None, chain: Chain = ()
) -> Account:
    """Return the account of an analyst, up to the smallest requested epsilon.

    Without a request it is the policy's. An agent pays below every cap of its chain (PRIVACY.md
    R112). Raises `Refused` for an unknown analyst, and for an epsilon that is not positive or
    exceeds the limit of one question.
    """
    person = chain[-1].delegator if chain else analyst
    budget = policy.budget_of(person)
    if budget is None or (chain and policy.budget_of(analyst) is not None):
        raise unknown_name("analyst", analyst, ())
    if any(each.budget != budget.name for each in chain):
        raise Refused(Reason.DELEGATION_ENDED, analyst=analyst, agent=analyst)
    epsilons = [epsilon for epsilon in requested if epsilon is not None]
    for wish in epsilons:
        if not sensible(wish):
            raise Refused(Reason.BAD_OPTION, option="epsilon", value=wish)
    epsilon = min(epsilons, default=budget.query_epsilon)
    if epsilon > budget.max_query_epsilon:
        raise Refused(Reason.EPSILON_TOO_LARGE, epsilon=epsilon, limit=budget.max_query_epsilon)
    caps = tuple(cap for cap in policy.caps if cap.covers(budget.name, person))
    return Account(
        analyst=analyst,
        budget=budget,
        epsilon=epsilon,
        empty_rows=person in policy.empty_rows,
        caps=(*caps, *map(delegated_cap, chain)),
        roles=roles_of(policy, analyst, chain) if policy.roles or chain else None,
        delegators=frozenset(each.delegator for each in chain),
        rule=policy.period,
    )


def delegated_cap(delegation: Delegation) -> vocabulary.Cap:
    """Return the cap of an agent, which counts the agent's own agents too."""
    return vocabulary.Cap(
        delegation.title,
        delegation.epsilon,
        delegation.delta,
        budget=delegation.budget,
        analysts=frozenset({delegation.agent}),
    )


def standings(policy: vocabulary.Policy, ledger: Ledger) -> tuple[Standing, ...]:
    """Return each budget of a policy, then each cap, with its spending; then each delegation.

    With periods of people a budget has a standing in each of them, and a cap in the one with the
    least rest.
    """
    rule = policy.period
    caps = [(cap, _covered(policy, cap)) for cap in policy.caps] + [*_delegated(policy, ledger)]
    if rule is None:
        pots = (budget_standing(budget, ledger) for budget in policy.budgets)
        return (*pots, *(cap_standing(cap, budget, ledger) for cap, budget in caps))
    every = ChargedPeriods(rule, rule.blocks, "")
    in_periods = [s for b in policy.budgets for s in period_standings(b, every, ledger)]
    for cap, budget in caps:
        each = period_standings(budget, every, ledger, cap)
        in_periods.append(min(each, key=lambda standing: standing.left))
    return tuple(in_periods)


def _delegated(
    policy: vocabulary.Policy, ledger: Ledger
) -> Iterator[tuple[vocabulary.Cap, vocabulary.Budget]]:
    """Yield the cap of each delegation that was not revoked, with the names of its chain, and its
    budget.
    """
    budgets, delegations = {b.name: b for b in policy.budgets}, ledger.delegations()
    for agent, each in sorted(delegations.items()):
        if each.budget in budgets and not each.revoked:
            title = f"delegation {chain_text(delegations, agent)} until {each.until:%Y-%m-%d}"
            yield replace(delegated_cap(each), title=title), budgets[each.budget]


def budget_standing(budget: vocabulary.Budget, ledger: Ledger) -> Standing:
    """Return the spending of a budget, in its window if it renews."""
    window = "" if budget.renews is None else ledger.window(budget.renews).name
    return Standing(budget, ledger.spent(budget.name, None, budget.renews), window=window)


def period_standings(
    budget: vocabulary.Budget,
    periods: ChargedPeriods,
    ledger: Ledger,
    cap: vocabulary.Cap | None = None,
) -> tuple[Standing, ...]:
    """Return the spending of a budget, or below a cap on it, in each of these periods of people."""
    below = budget.as_cap if cap is None else cap
    title = "" if cap is None else cap.title
    pairs = zip(periods.names, ledger.spent_in(below.budget, periods, below.analysts), strict=True)
    return tuple(Standing(below.within(budget), loss, title, name) for name, loss in pairs)


def cap_standing(cap: vocabulary.Cap, budget: vocabulary.Budget, ledger: Ledger) -> Standing:
    """Return the spending under a cap, for a budget that it covers."""
    window = "" if cap.renews is None else ledger.window(cap.renews).name
    spent = ledger.spent(cap.budget, cap.analysts, cap.renews)
    return Standing(cap.within(budget), spent, cap.title, window)


def unbounded(
    budgets: Sequence[vocabulary.Budget], caps: Sequence[vocabulary.Cap], ledger: Ledger
) -> list[Spending]:
    """Return the spending since the beginning of all that renews without a limit over its
    windows.
    """
    whole = (budget.as_cap for budget in budgets)
    bounded = {cap.title for cap in caps}
    return [
        Spending(
            cap.title,
            ledger.spent(cap.budget, cap.analysts),
            accountant=next(b.accountant for b in budgets if cap.budget in {None, b.name}),
        )
        for cap in (*whole, *caps)
        if cap.renews is not None and f"{vocabulary.LIFETIME}{cap.title}" not in bounded
    ]


def ceilings(policy: vocabulary.Policy) -> tuple[Ceiling, ...]:
    """Return all limits of a policy, as a ledger confirms them."""
    pots = (_ceiling_of(budget, policy.period) for budget in policy.budgets)
    caps = (_ceiling(cap, _covered(policy, cap), policy.period) for cap in policy.caps)
    return (*pots, *caps)


def _covered(policy: vocabulary.Policy, cap: vocabulary.Cap) -> vocabulary.Budget:
    """Return a budget that a cap covers; all of them have one accountant."""
    paying = {of for analyst, of in policy.analysts if cap.covers(of, analyst)}
    return next(b for b in policy.budgets if b.name in paying or b.name == cap.budget)


def _ceiling(cap: vocabulary.Cap, budget: vocabulary.Budget, rule: PeriodRule | None) -> Ceiling:
    periods, most = "" if rule is None else rule.text, limit_of(cap.within(budget))
    return Ceiling(cap.title, most, cap.budget, cap.analysts, renews=cap.renews, periods=periods)


def _ceiling_of(budget: vocabulary.Budget, rule: PeriodRule | None) -> Ceiling:
    title, periods = f"budget {budget.name}", "" if rule is None else rule.text
    limit = limit_of(budget)
    return Ceiling(title, limit, budget.name, renews=budget.renews, periods=periods)


@dataclass(frozen=True, slots=True)
class Cost:
    """Price of a question, and its identity (see `canonical`).

    `earlier` are the identities under which versions before 0.2 charged it, with a policy version.
    """

    question: str
    event: vocabulary.Event
    loss: vocabulary.Loss
    earlier: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ReleasedBounds:
    """Bounds of one column of a private table, as released or at their widest."""

    table: str
    column: str
    lower: Fraction
    upper: Fraction


@dataclass(frozen=True, slots=True)
class Question:
    """A request with its payer, and the request to stop it.

    `optioned` means that its text
    names an epsilon or a mechanism. `precision` is a relative error; the account's epsilon is its
    first try. `bounds` were found privately for columns without declared ones, `norms` for
    contributions. With `polls`, it is the question of these polls, which find some of them. With
    `derived`, its numbers were derived, with this noise. `requested` is the requested epsilon if
    the answer cache reduces it. `promised` is its charge in any case, because its price was
    announced before its bounds were found. `calls` are the names that its text calls. With
    `shows_keys`, it is the step that shows private keys, as many as its `aim` asks for. `shown`
    are the keys that this step showed.
    """

    request: vocabulary.Request
    account: Account
    stop: Stop
    optioned: bool = False
    precision: Precision | None = None
    bounds: tuple[ReleasedBounds, ...] = ()
    norms: tuple[FoundNorm, ...] = ()
    polls: tuple[str, ...] = ()
    memory: Memory = Memory.SLICE
    derived: DerivedColumns | None = None
    requested: Decimal | None = None
    promised: vocabulary.Loss | None = None
    calls: frozenset[str] = frozenset()
    aim: KeyAim = KeyAim.BALANCED
    shows_keys: bool = False
    shown: ShownKeys | None = None

    @property
    def inquiry(self) -> Inquiry:
        """Entry of the question for the owner to read in the ledger."""
        request = self.request
        epsilon = "" if self.requested is None else str(self.requested)
        return Inquiry(request.door, request.client, request.sql, epsilon)

    def at(self, epsilon: Decimal) -> Question:
        """Return the same question, paid for up to another epsilon."""
        return replace(self, account=replace(self.account, epsilon=epsilon))

    def require_useful(self, notices: tuple[Notice, ...], needed: vocabulary.Loss) -> None:
        """Refuse a useless question if the policy wants a confirmation and there is none."""
        limit = self.account.budget.confirm_above
        epsilon, accountant = self.account.epsilon, self.account.budget.accountant
        if limit is None or epsilon <= limit or self.request.confirmed:
            return
        why = useless(notices)
        if why is None:
            return
        facts = {field.name: getattr(why, field.name) for field in fields(why)}
        paid = {"epsilon": epsilon, "needed": needed, "accountant": accountant}
        raise Refused(Reason.NOT_USEFUL, **facts, **paid)

    def require_room_for(self, columns: Sequence[vocabulary.Column]) -> None:
        """Refuse numbers that may need more than 64 bits in a column that was announced as
        narrow.
        """
        wide = [c.name for n, c in enumerate(columns) if c.wide and n in self.request.narrow]
        if wide:
            construct = f"{wide[0]}, which may need more than 64 bits, as a column of int8"
            fix = "CAST it to NUMERIC, or a factor of it: it costs the same."
            raise Refused(Reason.UNSUPPORTED_SYNTAX, construct=construct, fix=fix)


def text_key(request: vocabulary.Request) -> tuple[Any, ...]:
    """Return the key of a parsed statement: its text and all inputs, with the instant of NOW().

    Equal parameters of different types are different. Raises `Refused` for parameters that cannot
    be values.
    """
    try:
        hash(request.parameters)
    except TypeError:
        raise Refused(Reason.BAD_PARAMETER, why="one of them is not a value") from None
    types = types_of(request.parameters) if request.parameters else ()
    spelling = request.sql, request.dialect, request.parameters, types, request.formulas
    return *spelling, request.nonnegative, request.at, request.search_path
