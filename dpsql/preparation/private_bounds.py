"""Private bounds: a column without declared bounds gets them from a private query of its size.

A question may be refused because columns with `private_bounds` lack bounds. Then it becomes two
private questions. The first measures such a column in public bins of log2 |x|, with a fifth of the
question's loss. It counts units by bin, or finds the extreme bins by exponential mechanism or by
sparse vector. The second is the question itself, with the released bounds as the column's declared
ones, and the rest of the loss.

Proof (PRIVACY.md R64). The first question is an ordinary private question over public keys. The
second is an ordinary private question too. Its bounds are clipped to, not trusted, so its
sensitivity holds for every policy and hence for every outcome of the first. It is chosen by
released numbers only, and each accountant's filter admits adaptively chosen questions (PRIVACY.md
R56). So the loss of the pair is the sum of both losses, which is within the budget of one question
of this epsilon. The pair is charged exactly that, for every outcome (`promise`). Under periods of
people both read the same periods (PRIVACY.md R103).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from decimal import ROUND_DOWN, Context, Decimal
from fractions import Fraction
from functools import lru_cache
from math import ceil, floor, log2
from typing import Any

from dpsql import accountants
from dpsql.accountants import Accountant, least_charge
from dpsql.accountants.preference import SPARSE_VECTOR
from dpsql.compiler.plan.private_plan import BlockPlan
from dpsql.mechanisms.tails import reach
from dpsql.model.errors import Reason, Refused
from dpsql.model.notices import BoundsFound
from dpsql.model.periods import ChargedPeriods, condition_within
from dpsql.model.table_names import address
from dpsql.model.tree import Kind, SqlType, identifier
from dpsql.model.vocabulary import (
    ATTO,
    NANO,
    BoundsMethod,
    Budget,
    ColumnPolicy,
    Loss,
    Noise,
    Policy,
    TablePolicy,
)
from dpsql.policy.values import of_type
from dpsql.preparation.question import ReleasedBounds, Standing

SHARE = Fraction(1, 5)
"""Share of a question's loss for finding bounds, of all columns together."""
_MOST_SHARE = Fraction(1, 2)
"""Largest such share if it would be below the least charge."""
SURE = 1 - 1e-6
"""Probability that no empty bin counts as inhabited: a far one would widen bounds a lot."""
LEAST_DOUBLE, MOST = -20, 40
"""Exponents of the smallest bin of DOUBLEs and of the largest bin of all numbers."""

ColumnBounds = tuple[ReleasedBounds, ...]


def widest_bounds(policy: Policy) -> ColumnBounds:
    """Return the widest bounds of each column with private ones."""
    return tuple(
        _between(table.name, column, MOST, MOST)
        for table in policy.tables
        for column in table.columns
        if column.private_bounds
    )


def wanting(policy: Policy, refusal: Callable[[ColumnBounds], Refused | None]) -> ColumnBounds:
    """Return the columns, at their widest bounds, that a question needs bounds for; empty if none.

    `refusal` is why it is refused for lack of bounds, with bounds for some columns. Raises the
    refusal that stays if all such columns have bounds.
    """
    needed = widest = widest_bounds(policy)
    if not widest or refusal(()) is None:
        return ()
    refused = refusal(widest)
    if refused is not None:
        raise refused
    for bounds in widest:
        rest = tuple(b for b in needed if b != bounds)
        needed = rest if refusal(rest) is None else needed
    return needed


def with_bounds(policy: Policy, bounds: ColumnBounds) -> Policy:
    """Return the policy with these bounds as declared ones."""

    def bound_columns(table: TablePolicy) -> TablePolicy:
        ends = {b.column: (b.lower, b.upper) for b in bounds if b.table == table.name}
        columns = tuple(
            replace(c, bounds=(_value(ends[c.name][0], c.type), _value(ends[c.name][1], c.type)))
            if c.name in ends
            else c
            for c in table.columns
        )
        return replace(table, columns=columns)

    return policy.with_tables(bound_columns)


def question(policy: Policy, bounds: ReleasedBounds, periods: ChargedPeriods | None = None) -> str:
    """Return the SQL of the first step, as an analyst might have written it.

    It reads the same `periods` of people as the question.

    The histogram counts units by bin, or rows if no column of the table is the unit's key. The
    other methods ask for the lowest and the highest bin; each unit's own extremes count.
    """
    match _method(policy, bounds):
        case BoundsMethod.LOG_HISTOGRAM:
            who, counted = _counted(policy, bounds, periods)
            sized = _sized(policy, bounds, who, periods)
            return f"SELECT size, COUNT({counted}) AS n FROM ({sized}) AS sized GROUP BY size"
        case BoundsMethod.QUANTILE:
            how = ""
        case BoundsMethod.SPARSE_VECTOR:
            how = f"WITH DIFFERENTIAL_PRIVACY OPTIONS(mechanism = '{SPARSE_VECTOR}') "
    sized = _sized(policy, bounds, "", periods)
    return f"SELECT {how}MIN(size) AS lowest, MAX(size) AS highest FROM ({sized}) AS sized"


def _sized(policy: Policy, bounds: ReleasedBounds, who: str, periods: ChargedPeriods | None) -> str:
    """Return the SQL of a column's rows by bin, with the expression `who` for their unit.

    Bin 0 has |x| up to the smallest size; bin k, or -k for negative numbers, has |x| up to 2^k
    times it. NULL, NaN and values beyond the largest size are in no bin.
    """
    x, table = f"CAST({identifier(bounds.column)} AS DOUBLE)", address(bounds.table)
    kind = _column(policy, bounds).type
    edges = [float(Fraction(2) ** k) for k in range(_least(kind), _most(kind) + 1)]
    cases = [f"WHEN {x} < -{edges[k]!r} THEN -{k + 1}" for k in reversed(range(len(edges) - 1))]
    cases += [f"WHEN {x} <= {edge!r} THEN {k}" for k, edge in enumerate(edges[:-1])]
    words = f"CASE {' '.join(cases)} ELSE {len(edges) - 1} END"
    within = _within(periods, bounds.table)
    return (
        f"SELECT {who}{words} AS size FROM {table} "
        f"WHERE {x} >= -{edges[-1]!r} AND {x} <= {edges[-1]!r}{within}"
    )


def _within(periods: ChargedPeriods | None, table: str) -> str:
    """Return the condition that leaves these periods of people; none if all of them are read."""
    if periods is None or periods.names == periods.rule.blocks:
        return ""
    time = identifier(periods.rule.column(table) or periods.column)
    return f" AND {condition_within(periods.rule, time, periods.names)}"


def _counted(
    policy: Policy, bounds: ReleasedBounds, periods: ChargedPeriods | None
) -> tuple[str, str]:
    """Return the extra column of the SELECT, and the counted expression: units if possible.

    A row of the unit's own table is a unit. Over several periods no column is the unit.
    """
    if periods is not None and len(periods.names) > 1:
        return "", "*"
    table = policy.granted(bounds.table)
    assert table is not None
    link = table.link
    if link is None or link.table.lower() != policy.unit.table.lower():
        return "", "*"
    unit = table.column(link.column)
    if unit is None or unit.hidden:
        return "", "*"
    return f"{identifier(link.column)} AS who, ", "DISTINCT who"


def bounds_of_answers(
    policy: Policy, bounds: ReleasedBounds, rows: Iterable[Sequence[Any]], paid: BlockPlan
) -> ReleasedBounds:
    """Return the bounds from the answer to `question`, with 0 between them.

    `paid` is its block. The bounds are [-1, 1] if all bins are zero.
    """
    match _method(policy, bounds):
        case BoundsMethod.LOG_HISTOGRAM:
            return bounds_by_counts(policy, bounds, rows, paid.releases[-1].noise)
        case BoundsMethod.QUANTILE | BoundsMethod.SPARSE_VECTOR:
            ((lowest, highest),) = rows
            # If no bin has enough people, each end is found at the other: then neither counts.
            return _outermost(policy, bounds, [min(int(lowest), 0), max(int(highest), 0)])


def bounds_by_counts(
    policy: Policy, bounds: ReleasedBounds, rows: Iterable[Sequence[Any]], noise: Noise
) -> ReleasedBounds:
    """Return the bounds from released counts by size, with 0 between them; [-1, 1] if all are
    small.

    They are the outermost bins with noisy counts of at least t. No empty bin of all 2B reaches t
    with probability `SURE`: P(Z >= t) <= 1 - SURE^(1/2B). For Laplace noise t = -b·ln(2(1 -
    SURE^(1/2B))).
    """
    column = _column(policy, bounds)
    least, most = _least(column.type), _most(column.type)
    full = _bar(noise, 2 * (most - least))
    return _outermost(policy, bounds, [int(size) for size, count in rows if count >= full])


def _outermost(policy: Policy, bounds: ReleasedBounds, sizes: list[int]) -> ReleasedBounds:
    """Return the bounds of bins of these sizes; [-1, 1] if there are none but zero."""
    column = _column(policy, bounds)
    least = _least(column.type)
    if not any(sizes):
        return _between(bounds.table, column, 0, 0)
    lower, upper = min(sizes), max(sizes)
    return _between(
        bounds.table,
        column,
        least - lower if lower < 0 else None,
        least + upper if upper > 0 else None,
    )


@lru_cache
def _bar(noise: Noise, bins: int) -> int:
    """Return the least t that none of `bins` empty bins reaches with probability `SURE`."""
    return reach(noise, 1 - SURE ** (1 / bins))


def shares(
    accountant: Accountant,
    budget: Budget,
    epsilon: Decimal,
    searches: int,
    share: Fraction,
    *,
    selecting: Sequence[bool] = (False, True),
) -> tuple[Decimal, Decimal]:
    """Return the epsilons of each of `searches` searches, and of the question with their bounds.

    Together they spend at most the loss of one question of `epsilon`, in the accountant's own
    measure. The searches have that `share` of it, or the part that the least charge buys; without a
    search there is none. `selecting` lists whether the question may select private keys; no search
    does.
    """
    delta = Fraction(budget.query_delta)
    possible = accountant.supports_selection and delta
    selections = tuple(selects for selects in selecting if possible or not selects) or (False,)

    def amounts(of: Decimal, selections: Sequence[bool]) -> list[Fraction]:
        each = (accountant.allowance(Fraction(of), delta, selects_keys=s) for s in selections)
        return [allowed.amount for allowed in each]

    whole = min(amounts(epsilon, selections))

    def largest(part: Fraction, selections: Sequence[bool]) -> Decimal:
        return largest_epsilon(epsilon, lambda e: max(amounts(e, selections)) <= whole * part)

    if not searches:
        return Decimal(0), largest(Fraction(1), selections)
    least = searches * Fraction(least_charge(budget).amount, NANO) / whole if whole else share
    share = max(share, min(least, _MOST_SHARE))
    return largest(share / searches, (False,)), largest(1 - share, selections)


def promise(budget: Budget, epsilon: Decimal, widest: Loss, *, selects: bool) -> Loss:
    """Return the charge of all steps of a question together: the whole loss of one question.

    `widest` is the charge of the last step at its widest bounds, which may select keys (`selects`).
    If that needs no δ, no outcome of the search may spend any; see `without_delta`.

    >>> promise(Budget("b", Decimal(9), Decimal(0), "pure"), Decimal(1), Loss(7), selects=False)
    Loss(amount=1000000000, delta=0)
    """
    accountant, delta = accountants.get(budget.accountant), Fraction(budget.query_delta)
    allowed = accountant.allowance(Fraction(epsilon), delta, selects_keys=selects)
    deltas = allowed.selection_delta + allowed.noise_delta if widest.delta else 0
    whole = Loss(floor(allowed.amount * NANO), ceil(deltas * ATTO))
    return accountants.fill_filters(whole, accountant)


def without_delta(budget: Budget) -> Budget:
    """Return the budget of a step that may spend no δ, if ε has a meaning without one."""
    needed = accountants.get(budget.accountant).needs_delta
    return budget if needed else replace(budget, query_delta=Decimal(0))


def payable(standing: Standing, needed: Loss) -> None:
    """Refuse a question before its first step if the budget cannot pay for all of them."""
    budget, spent, limit = standing.budget, standing.spent, standing.limit
    if not (spent + needed).fits(limit):
        left = limit.without(spent)
        raise Refused(
            Reason.BUDGET_EXHAUSTED,
            budget=budget.name,
            accountant=budget.accountant,
            needed=needed,
            left=left,
            limit=limit,
            **standing.renewal,
            **({"cap": standing.cap} if standing.cap else {}),
        )


def notice(bounds: ReleasedBounds) -> BoundsFound:
    """Return the notice on the found bounds of an answer."""
    return BoundsFound(bounds.table, bounds.column, float(bounds.lower), float(bounds.upper))


def largest_epsilon(most: Decimal, fits: Callable[[Decimal], bool]) -> Decimal:
    """Return the largest epsilon, to six digits, that fits; `fits` must be monotone."""
    low, high, six = Decimal(0), most, Context(prec=6, rounding=ROUND_DOWN)
    for _ in range(30):
        middle = six.plus((low + high) / 2)
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low


def _between(
    table: str, column: ColumnPolicy, below: int | None, above: int | None
) -> ReleasedBounds:
    """Return the column's bounds -2^below and 2^above (None: 0), within its type's range."""
    kind = column.type
    largest = Fraction(10) ** kind.precision - 1 if kind.kind is Kind.DECIMAL else None

    def end(exponent: int | None) -> Fraction:
        size = Fraction(0) if exponent is None else Fraction(2) ** exponent
        return size if largest is None else min(size, largest / 10**kind.scale)

    return ReleasedBounds(table, column.name, -end(below), end(above))


def _least(kind: SqlType) -> int:
    """Return the exponent of the smallest bin, a power that the type can represent."""
    if kind.kind is Kind.DECIMAL:
        return -kind.scale
    return LEAST_DOUBLE if kind.kind is Kind.DOUBLE else 0


def _most(kind: SqlType) -> int:
    """Return the exponent of the largest bin, at least 2 above the smallest."""
    if kind.kind is not Kind.DECIMAL:
        return MOST
    whole = Fraction(10) ** (kind.precision - kind.scale)
    return min(MOST, max(ceil(log2(whole)), 2 - kind.scale))


def _value(end: Fraction, kind: SqlType) -> Any:
    match kind.kind:
        case Kind.INTEGER:
            return int(end)
        case Kind.DECIMAL:
            return of_type(Decimal(f"{int(end * 10**kind.scale)}E-{kind.scale}"), kind)
        case _:
            return float(end)


def _method(policy: Policy, bounds: ReleasedBounds) -> BoundsMethod:
    method = _column(policy, bounds).private_bounds
    assert method is not None
    return method


def _column(policy: Policy, bounds: ReleasedBounds) -> ColumnPolicy:
    table = policy.table(bounds.table)
    column = None if table is None else table.column(bounds.column)
    assert column is not None
    return column
