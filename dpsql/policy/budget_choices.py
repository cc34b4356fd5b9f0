"""Recommended ε, δ and accountant of a draft, and their risk in words."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import ROUND_UP, Context, Decimal

from dpsql.accountants import ACCOUNTANTS, get
from dpsql.accountants.remaining import questions
from dpsql.model.dataclass import dataclass, replace
from dpsql.model.vocabulary import DEFAULT_ACCOUNTANT, Budget, Loss
from dpsql.policy.policy_keys import draft_comment
from dpsql.policy.value_reader import UNDECIDED

ANALYST = "analyst"
"""Name of the first analyst."""

EPSILON = Decimal(1)
"""Recommended ε for all queries together: it can be raised later, but not lowered."""

DELTA = Decimal("1e-9")
"""Recommended δ if the number of people is unknown."""

_SHARE = 5
"""Number of parts into which ε is divided for queries."""
_QUESTIONS = 1000
"""Number of queries with private keys among which δ is divided: more than ε pays for."""
_SMALL = -3
_TWO = Context(prec=2, rounding=ROUND_UP)
_HUNDRED = 100
_ALMOST = 99
"""Percentage from which an event is almost certain."""

_COUNTLESS = 10**9
"""Factor of odds beyond which its digits mean nothing."""


@dataclass(frozen=True, slots=True)
class BudgetChoice:
    """The owner's decisions on the first budget; None is undecided."""

    epsilon: Decimal | None = None
    delta: Decimal | None = None
    accountant: str = DEFAULT_ACCOUNTANT


def odds(epsilon: Decimal) -> str:
    """Return the largest factor by which the odds of any statement about a person change.

    It is rounded up to two digits.

    >>> odds(Decimal("0.1")), odds(Decimal(1)), odds(Decimal(3)), odds(Decimal(20))
    ('1.2', '2.8', '21', '490,000,000')
    """
    return f"{_TWO.plus(epsilon.exp()):,f}"


def likely(epsilon: Decimal) -> str:
    """Return the largest percentage, with the answers, of an event that is 1 % likely without
    them.

    >>> likely(Decimal(1)), likely(Decimal(3))
    ('2.7', '17')
    """
    factor = epsilon.exp()
    return f"{_TWO.plus(factor / (factor + _HUNDRED - 1) * _HUNDRED):f}"


def risk(epsilon: Decimal) -> tuple[str, str]:
    """Return the meaning of an ε for one person, as two lines.

    >>> print("; ".join(risk(Decimal(1))))
    the odds of anything said of one person change by a factor of at most 2.8; a guess 1 % likely \
without them is at most 2.7 % likely with them
    >>> risk(Decimal(12))[1]
    'a guess 1 % likely without them may become almost certain'
    >>> risk(Decimal(1000))[0]
    'the odds of anything said of one person may change by a factor of more than 1,000,000,000'
    """
    most = likely(epsilon)
    certain = Decimal(most) >= _ALMOST
    guess = "may become almost certain" if certain else f"is at most {most} % likely with them"
    change = f"change by a factor of at most {odds(epsilon)}"
    if epsilon.exp() > _COUNTLESS:
        change = f"may change by a factor of more than {_COUNTLESS:,}"
    return (
        f"the odds of anything said of one person {change}",
        f"a guess 1 % likely without them {guess}",
    )


def recommended_delta(units: int | None) -> Decimal:
    """Return a power of ten that is at most a tenth of 1 / `units`.

    >>> recommended_delta(2500), recommended_delta(None)
    (Decimal('0.00001'), Decimal('1E-9'))
    """
    return DELTA if units is None else Decimal(1).scaleb(-len(str(units)) - 1)


def first_budget(choice: BudgetChoice, units: int | None) -> Budget:
    """Return the first budget of a draft, with the recommended values for undecided ones."""
    epsilon = EPSILON if choice.epsilon is None else choice.epsilon
    delta = recommended_delta(units) if choice.delta is None else choice.delta
    return _by(choice.accountant, Budget("default", epsilon, delta))


def _by(accountant: str, budget: Budget) -> Budget:
    """Return a budget under an accountant, with the shares of one query."""
    delta = budget.delta if get(accountant).supports_selection else Decimal(0)
    return replace(
        budget,
        accountant=accountant,
        delta=delta,
        query_epsilon=budget.epsilon / _SHARE,
        max_query_epsilon=budget.epsilon,
        query_delta=delta / _QUESTIONS,
    )


def budget_lines(choice: BudgetChoice, units: int | None) -> Iterator[str]:
    """Yield the lines of the first budget, its analyst and the ledger."""
    budget = first_budget(choice, units)
    change, guess = risk(budget.epsilon)
    more = ", ".join(f"{odds(Decimal(e))} at {e}" for e in ("0.5", "2", "3"))
    counts = ", ".join(
        f"{a.name} for {questions(_by(a.name, budget), Loss(0)):,}" for a in ACCOUNTANTS
    )
    undecided = choice.delta is None and budget.delta > 0
    yield "# How much all answers together tell of one person. All analysts who name a budget share"
    yield f"# it. At ε = {plain_number(budget.epsilon)} {change}:"
    yield f"# {guess}."
    yield f"# The factor is {more}. Begin low: what was told is never taken back."
    yield from draft_comment("budgets.B", "delta")
    advised = plain_number(recommended_delta(units))
    yield f"# Recommended: ε = {plain_number(EPSILON)}, δ = {advised}."
    yield f"# So many questions it pays for by accountant: {counts}."
    yield "[budgets.default]"
    yield f"epsilon = {_undecided(choice.epsilon is None, budget.epsilon)}"
    yield f"delta = {_undecided(undecided, budget.delta)}"
    yield f'accountant = "{budget.accountant}"'
    yield f"query_epsilon = {plain_number(budget.query_epsilon)}"
    yield f"max_query_epsilon = {plain_number(budget.max_query_epsilon)}"
    yield f"query_delta = {plain_number(budget.query_delta)}"
    yield from ("", f"[analysts.{ANALYST}]", 'budget = "default"')
    yield from ("", "[ledger]", 'path = "dpsql.ledger"')


def _undecided(undecided: bool, amount: Decimal) -> str:  # noqa: FBT001
    return f'"{UNDECIDED}"' if undecided else plain_number(amount)


def plain_number(amount: Decimal) -> str:
    """Return a number as TOML, with exponents for small ones.

    >>> [plain_number(Decimal(x)) for x in ("1", "0.10", "1E-9", "0.00001")]
    ['1.0', '0.1', '1e-9', '1e-5']
    """
    amount = amount.normalize()
    if amount and amount.adjusted() < _SMALL:
        return f"{amount:e}"
    return f"{amount:f}" if amount != amount.to_integral() else f"{amount:.1f}"
