"""Reminders for an owner: the policy may promise less than intended.

They depend on the policy and the schema, and on no row.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import closing
from dataclasses import replace
from decimal import ROUND_FLOOR, Context, Decimal

from dpsql.accountants.remaining import keyed_questions, questions
from dpsql.ledgers import Charged, Ledger
from dpsql.ledgers.open_ledger import open_ledger
from dpsql.model.resources import SPILL
from dpsql.model.schema import Schema
from dpsql.model.vocabulary import Budget, Loss, Policy
from dpsql.owner.findings import Finding
from dpsql.policy.draft import Draft
from dpsql.policy.load import load
from dpsql.policy.value_reader import Lines

LARGE_EPSILON = 10
"""Budget above which the odds of a statement about one unit may change by more than 22,000
times.
"""


def policy_reminders(draft: Draft) -> tuple[Finding, ...]:
    """Return the reminders that follow from the policy alone."""
    return *promises_little(draft), *declared_in_vain(draft), *written_as_they_are(draft)


def promises_little(draft: Draft) -> tuple[Finding, ...]:
    """Return reminders for budgets with weak guarantees, from the policy alone."""
    people = draft.table(draft.unit.table)
    units = None if people is None else people.expected_rows
    return tuple(f for budget in draft.budgets for f in _large(budget, units, draft.lines))


def declared_in_vain(draft: Draft) -> tuple[Finding, ...]:
    """Return reminders of keys that have no effect on a public column, which is read as it is."""
    return tuple(
        Finding(
            draft.lines.of(("tables", table.name, "columns", column.name, key)),
            table.name,
            column.name,
            f"{key} has no effect: {table.name} is public, and its rows are read as they are.",
            rows=0,
            fix=f"Remove {key}.",
        )
        for table in draft.tables
        if not table.private
        for column in table.columns
        if column.randomized is None
        for key in ("bounds", "values", "values_from")
        if getattr(column, key) is not None
    )


def written_as_they_are(draft: Draft) -> tuple[Finding, ...]:
    """Return a reminder that private rows may be spilled, if the policy allows it."""
    if draft.database.spill is None:
        return ()
    message = f"What statements spill is private and readable in {draft.database.spill}."
    fix = "Keep that folder on an encrypted disk and out of backups, or give more memory."
    line = draft.lines.of(("database", SPILL))
    return (Finding(line, SPILL, column=None, message=message, rows=0, fix=fix),)


def _large(budget: Budget, units: int | None, lines: Lines) -> Iterator[Finding]:
    name, place = budget.name, ("budgets", budget.name)
    if budget.epsilon > LARGE_EPSILON:
        message = (
            f"Budget {name} promises little: at ε = {budget.epsilon} the odds of anything said of "
            f"one unit may change by a factor of up to e^{budget.epsilon}."
        )
        fix = f"Write at most {LARGE_EPSILON}, or give its analysts caps."
        line = lines.of((*place, "epsilon"))
        yield Finding(line, name, column=None, message=message, rows=0, fix=fix)
    if units and budget.delta * units > 1:
        message = (
            f"Budget {name} promises little: δ = {budget.delta} is more than one in {units:,} "
            "units, so that somebody may be told as they are."
        )
        fix = f"Write a delta well below {1 / units:.1g}."
        line = lines.of((*place, "delta"))
        yield Finding(line, name, column=None, message=message, rows=0, fix=fix)
    count, keyed = questions(budget, Loss(0)), keyed_questions(budget, Loss(0))
    if keyed is not None and budget.query_delta * count > budget.delta:
        message = (
            f"Budget {name} may run out of δ before ε: {count:,} questions fit its ε = "
            f"{budget.epsilon}, and {keyed:,} that show private keys its δ = {budget.delta}, at "
            f"query_delta = {budget.query_delta} each."
        )
        fix = f"Write query_delta = {_lasting(budget):e} or less."
        line = lines.of((*place, "query_delta"))
        yield Finding(line, name, column=None, message=message, rows=0, fix=fix)


def _lasting(budget: Budget) -> Decimal:
    """Return a δ per question, to one digit, at which δ lasts as long as ε."""
    each = budget.query_delta
    while each * questions(replace(budget, query_delta=each), Loss(0)) > budget.delta:
        count = questions(replace(budget, query_delta=each), Loss(0))
        each = Context(prec=1, rounding=ROUND_FLOOR).divide(budget.delta, Decimal(count))
    return each


def nothing_withheld(policy: Policy, schema: Schema, lines: Lines) -> tuple[Finding, ...]:
    """Return a reminder if no column of the private tables is hidden."""
    private = [table for table in policy.tables if table.private]
    listed = {(t.name.lower(), c.name.lower()) for t in private for c in t.columns if not c.hidden}
    there = {
        (table.name.lower(), column.name.lower())
        for table in schema.tables
        for column in table.columns
        if table.name.lower() in {t.name.lower() for t in private}
    }
    if not private or not there <= listed:
        return ()
    name = private[0].name
    message = (
        "No column is hidden: whatever is in private tables may be counted, filtered and "
        "grouped by."
    )
    fix = "Write hidden = true for names, addresses and what no question needs, or list less."
    return (Finding(lines.of(("tables", name)), name, None, message, rows=0, fix=fix),)


def unnamed_budgets(ledger: Ledger, budgets: Iterable[Budget]) -> tuple[Charged, ...]:
    """Return the charges to budgets that the policy does not name, or not any more.

    A budget under another name begins at zero, but the losses under the old name remain.
    """
    named = {budget.name for budget in budgets}
    return tuple(pot for pot in ledger.budgets() if pot.budget not in named)


def unnamed_budgets_of(path: str) -> tuple[Charged, ...]:
    """Return `unnamed_budgets` of a policy file; () if there is no ledger yet.

    Raises `PolicyError` or `LedgerError`.
    """
    draft = load(path)
    if not draft.ledger.is_begun:
        return ()
    with closing(open_ledger(draft.ledger)) as ledger:
        return unnamed_budgets(ledger, draft.budgets)
