"""Private keys in two phases: the first shows them, the second measures those shown.

Where a unit may have any number of private keys, one release has to choose a limit that shows most
keys, and its counts are too low. So the first phase releases the keys alone. The rest of the charge
measures these keys with the limits of listed ones.

Proof (PRIVACY.md R102). The first phase is a question of its own; the second is a question whose
keys and limits were released before it.
"""

from __future__ import annotations

from collections.abc import Collection
from decimal import Decimal
from fractions import Fraction

from dpsql import accountants
from dpsql.compiler.plan.prepared import Prepared
from dpsql.compiler.plan.private_plan import Bounded
from dpsql.compiler.plan.published_keys import ShownKeys, ThresholdKeys
from dpsql.compiler.resolve.scopes import Identities
from dpsql.compiler.resolve.typing import type_of
from dpsql.model.algebra import Filter, Released
from dpsql.model.dataclass import dataclass, replace
from dpsql.model.notices import CountedKeys, Hidden, Notice, Sampled, SharedPresence
from dpsql.model.tree import BOOLEAN, Call, Expression, Kind, Literal, Value
from dpsql.model.vocabulary import Norm
from dpsql.preparation.private_bounds import largest_epsilon
from dpsql.preparation.question import Account

_WRITTEN = frozenset(
    {Kind.BOOLEAN, Kind.INTEGER, Kind.DECIMAL, Kind.DOUBLE, Kind.VARCHAR, Kind.DATE, Kind.TIMESTAMP}
)
"""Types of keys whose released values are written into a statement exactly."""
MANY = 64
"""Number of keys that stands for many."""
_LONGEST = 1_000
"""Most values of a key that the second phase filters rows by."""


def has_two_phases(prepared: Prepared) -> bool:
    """Test whether a question has two phases: a unit may have any number of its private keys, and
    one release would need a limit on contributions.
    """
    if not prepared.polls or len(prepared.blocks) != 1 or prepared.rewritten.stages:
        return False
    (block,) = prepared.blocks
    match block.keys:
        case ThresholdKeys(threshold=threshold):
            written = {key.field.type.kind for key in block.block.keys} <= _WRITTEN
            return written and threshold.counted.norm is not Norm.MAX
        case _:
            return False


def keys_alone(bounded: Bounded, identities: Identities) -> Bounded:
    """Return the question that shows the private keys of the one block, and nothing else."""
    (block,) = bounded.blocks
    keys = (item.field for item in block.block.keys)
    fields = tuple(identities.field(field.name, field.type) for field in keys)
    alone = replace(block.block, measures=())
    blocks = (replace(block, block=alone, arguments=(), wide=()),)
    return replace(bounded, outer=Released(0, fields), blocks=blocks)


def with_listed(bounded: Bounded, shown: ShownKeys) -> Bounded:
    """Return the question that lists its private keys, which were shown before.

    Rows of other keys are left out before any limit: they would use up what a unit may add.
    A key of more than `_LONGEST` values is not filtered by, because the text would be long.
    """
    (block,) = bounded.blocks
    rows = block.block.rows
    if shown.query_id and shown.keys:
        for key, values in zip(block.block.keys, zip(*shown.keys, strict=True), strict=True):
            if len(different := dict.fromkeys(values)) <= _LONGEST:
                rows = Filter(rows, _is_one_of(key.expression, different))
    block = replace(block, block=replace(block.block, rows=rows))
    proved = max(1, len(shown.keys))
    if block.key_combinations is not None:
        proved = min(proved, block.key_combinations)
    listed = replace(block, domain=shown.keys, key_combinations=proved, shown=True)
    return replace(bounded, blocks=(listed,))


def _is_one_of(key: Expression, values: Collection[Value]) -> Expression:
    """Return the condition that a key has one of some values, of which None is NULL."""
    constants = (Literal(value, type_of(key)) for value in values if value is not None)
    tests = {"in": (key, *constants)} if set(values) != {None} else {}
    tests |= {"is_null": (key,)} if None in values else {}
    conditions = [Call(function, args, BOOLEAN) for function, args in tests.items()]
    return conditions[0] if len(conditions) == 1 else conditions[0] | conditions[1]


def placeholder(prepared: Prepared, number: int) -> ShownKeys:
    """Return this number of keys, in place of keys that are not known yet."""
    return ShownKeys("", ((None,) * len(prepared.blocks[0].block.keys),) * number)


def about_keys(single: Prepared, showing: Prepared) -> tuple[Notice, ...]:
    """Return the notices about keys that a first phase shows, with columns of the question."""
    hidden, others = list[Notice](), list[Notice]()
    for notice in showing.notices:
        match notice:
            case Hidden(least=least):
                single_phase = (n for n in single.notices if isinstance(n, Hidden))
                hidden += [replace(n, least=least) for n in single_phase]
            case Sampled() | SharedPresence():
                pass  # decides which keys are shown, and changes no number
            case _:
                others.append(notice)
    counted = (notice for notice in single.notices if isinstance(notice, CountedKeys))
    return (*hidden, *counted, *others)


@dataclass(frozen=True, slots=True)
class Phases:
    """Accounts of the phases: `first` shows keys and `rest` measures them. `whole` measures keys
    that are known already.
    """

    first: Account
    rest: Account
    whole: Account


def phases(account: Account, share: Fraction) -> Phases:
    """Return the accounts of both phases, which spend together at most what one question may.

    The first phase has the δ of the question, or half of it if noise needs a δ too.
    """
    accountant, budget = accountants.get(account.budget.accountant), account.budget
    delta = Fraction(budget.query_delta)
    whole = accountant.allowance(Fraction(account.epsilon), delta, selects_keys=True).amount
    if not accountant.needs_delta:
        budget = replace(budget, query_delta=budget.query_delta / 2)

    def paying(part: Fraction, *, selects: bool) -> Account:
        def fits(epsilon: Decimal) -> bool:
            own = Fraction(budget.query_delta)
            spent = accountant.allowance(Fraction(epsilon), own, selects_keys=selects).amount
            return spent <= whole * part

        epsilon = largest_epsilon(account.epsilon, fits)
        return replace(account, budget=budget, epsilon=epsilon)

    return Phases(
        paying(share, selects=True),
        paying(1 - share, selects=False),
        paying(Fraction(1), selects=False),
    )
