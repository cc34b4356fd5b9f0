"""Plans of policies with periods of people: the blocks that they read and are charged to.

Proof (PRIVACY.md R103). The policy for a query reads the charged blocks alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import chain

from dpsql.compiler.infer.column_facts import Evaluate, PublicData
from dpsql.compiler.plan.prepared import Prepared
from dpsql.compiler.plan.private_plan import Tracked
from dpsql.compiler.resolve.person_periods import (
    about_people,
    charged_blocks,
    read_blocks,
    require_periods,
    several_periods,
)
from dpsql.compiler.resolve.resolve import resolve
from dpsql.compiler.resolve.scopes import Identities
from dpsql.ledgers import Ledger
from dpsql.model.algebra import Scan
from dpsql.model.dataclass import replace
from dpsql.model.errors import Reason, Refused
from dpsql.model.periods import ELSEWHERE, NO_TIME, ChargedPeriods, PeriodRule
from dpsql.model.query_options import Memory
from dpsql.model.tree import Statement
from dpsql.model.vocabulary import Budget, Policy
from dpsql.model.walk import relations


def memory_of(statement: Statement, budget: Budget) -> Memory:
    """Return the use of earlier answers: by the statement's option, or else by the budget."""
    return budget.memory if statement.memory is None else Memory(statement.memory)


def choose_blocks(
    statement: Statement, policy: Policy, budget: Budget, evaluate: Evaluate
) -> Policy:
    """Return the policy that reads the blocks which the conditions of a query leave.

    The policy itself without periods. Raises `Refused`.
    """
    if policy.period is None:
        return policy
    if memory_of(statement, budget).measures_wide:
        why = "it is not supported with periods of people"
        raise Refused(Reason.BAD_OPTION, option="memory", why=why)
    relation = resolve(statement, policy, Identities()).relation
    blocks = charged_blocks(relation, policy, evaluate)
    return read_blocks(policy, blocks) if blocks else policy


def period_now(rule: PeriodRule, ledger: Ledger) -> PeriodRule:
    """Return the rule at ledger time, with the data versions of its periods."""
    return rule.at(ledger.window(rule.calendar).name, ledger.period_versions(rule.text))


def require_refreshable(policy: Policy, periods: Sequence[str], ledger: Ledger) -> PeriodRule:
    """Return the rule at ledger time if these of its blocks can be refreshed alone.

    Raises `Refused`.
    """
    rule = policy.period
    if rule is None:
        raise _not_refreshed("the policy has no period: run dpsql refresh")
    if policy.moves:
        why = "rows of this database may change in every period: run dpsql refresh"
        raise _not_refreshed(why)
    present = period_now(rule, ledger)
    for name in periods:
        if name not in present.blocks:
            first, last = present.names[0], present.names[-1]
            span = f"from {first} to {last}, or {NO_TIME}, or {ELSEWHERE}"
            raise _not_refreshed(f"{name!r} is no {rule.every.value} {span}; name each one")
    if len({*periods}) < len(periods):
        raise _not_refreshed("a period is named twice")
    return present


def public_contents(
    policy: Policy, public: PublicData, read: Mapping[str, frozenset[str]]
) -> list[str]:
    """Return a digest of the public rows that a plan reads, where periods are refreshed alone.

    A refresh of periods begins no new data version of public tables.
    """
    if policy.period is None or policy.moves:
        return []
    digests = list[str]()
    for name, columns in sorted(read.items()):
        table = policy.table(name)
        if table is not None and not table.private:
            used = [column.name for column in table.columns if column.name.lower() in columns]
            digests.append(f"{name} {public.contents(name, used)}")
    return digests


def _not_refreshed(why: str) -> Refused:
    return Refused(Reason.BAD_OPTION, option="periods", why=why)


@contextmanager
def explaining_people(policy: Policy, reading: Policy) -> Iterator[None]:
    """Say of joins and of the person's column that they need one period, where several are read."""
    try:
        yield
    except Refused as refused:
        if len(reading.charged) < 2:  # noqa: PLR2004
            raise
        if refused.reason is Reason.UNEQUAL_UNITS:
            raise several_periods("a join of people's rows", refused.span) from None
        raise about_people(refused, policy) from None


def require_one_period(tracked: Tracked, policy: Policy) -> None:
    """Refuse blocks whose answer over several periods would not be the sum over the periods."""
    for block in tracked.blocks:
        require_periods((block.rows,), policy, block.span)


def with_charged_blocks(prepared: Prepared, policy: Policy) -> Prepared:
    """Return the plan and its other forms, with the blocks that they are charged to.

    Refuses private keys in several periods: the people of a key would be counted once a period.
    """
    rule = policy.period
    assert rule is not None
    if prepared.plan is None:
        return prepared
    for block in prepared.blocks:
        if block.domain is None and len(policy.charged) > 1:
            span = block.block.keys[0].expression.span
            raise several_periods("private group keys", span)
    scans = chain.from_iterable(relations(block.block.rows) for block in prepared.blocks)
    tables = (scan.table for scan in scans if isinstance(scan, Scan))
    columns = (column for name in tables if (column := rule.column(name)) is not None)
    charged = ChargedPeriods(rule, policy.charged, next(columns, rule.of[0][1]))
    wider = tuple(replace(each, charged=charged) for each in prepared.wider)
    return replace(prepared, charged=charged, wider=wider)
