"""Find what was spent and is not in a restored ledger, and the limits that count it.

    cat LOGS | python lost.py dpsql.toml

LOGS are the logs of every server of this ledger, from before the backup on. Run it before the
ledger is accepted, and write what it prints into the policy. It only knows what servers logged.
"""

from __future__ import annotations

import json
import sqlite3
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass, field
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path

from dpsql import accountants
from dpsql.model.dataclass import replace
from dpsql.model.vocabulary import Budget, Loss
from dpsql.policy.draft import Draft
from dpsql.policy.load import load

STEPS = 10_000
"""An ε is lowered in steps of its ten-thousandth part."""
NOT_COUNTED = (
    "Not counted, because no server logs them: questions by the command line (also tune, cube "
    "create and publish), Python, and MCP on stdio. If there may be any since the backup, stop the "
    "budgets: dpsql budget stop NAME --reason WHY"
)


@dataclass(slots=True)
class Missing:
    """Charges of logs that a ledger lacks, by budget and analyst.

    `failed` counts queries without an amount in the log. `unread` counts lines that are cut off.
    The log `begins` late if the ledger has ended by then.
    """

    charges: dict[tuple[str, str], Loss] = field(default_factory=dict)
    failed: Counter[str] = field(default_factory=Counter)
    unread: int = 0
    begins: datetime | None = None
    ends: datetime | None = None

    @property
    def begins_late(self) -> bool:
        """True if charges between the end of the ledger and the begin of the log are unknown."""
        return self.begins is None or (self.ends is not None and self.begins > self.ends)


def lost(ledger: Path, log: Iterable[str]) -> Missing:
    """Return the charges of a log that a ledger lacks."""
    if not ledger.exists():
        raise SystemExit(f"There is no ledger {ledger}: copy the newest backup there first.")
    source = f"{ledger.resolve().as_uri()}?mode=ro"
    with closing(sqlite3.connect(source, uri=True)) as opened:
        rows = opened.execute("SELECT query_id FROM entries WHERE query_id IS NOT NULL")
        kept = {query for (query,) in rows}
        ((last,),) = opened.execute("SELECT max(time) FROM entries")
    missing, counted = Missing(ends=datetime.fromtimestamp(last / 1e6, UTC)), set[str]()
    for line in log:
        try:
            event = json.loads(line)
        except ValueError:
            missing.unread += "{" in line
            continue
        begin = datetime.fromisoformat(event["time"]) if "time" in event else None
        missing.begins = min(filter(None, (missing.begins, begin)), default=None)
        if event.get("query") not in {None, *kept, *counted} and _count(missing, event):
            counted.add(event["query"])
    return missing


def _count(missing: Missing, event: dict[str, str | float]) -> bool:
    """Count the charge of an event, or its failure; return whether it has one."""
    analyst = str(event.get("analyst", ""))
    if "charge" in event:
        amount, delta = Decimal(str(event["charge"])), Decimal(str(event.get("charge_delta", 0)))
        loss = Loss(round(amount.scaleb(9)), round(delta.scaleb(18)))
        budget = str(event["budget"]), analyst
        missing.charges[budget] = missing.charges.get(budget, Loss(0)) + loss
        return True
    failed = "failed" in {event["event"], event.get("answer")}
    missing.failed[analyst] += failed
    return failed


def limits_without(
    draft: Draft, missing: Missing
) -> Iterator[tuple[str, Budget, Loss, Budget | None]]:
    """Yield each limit that covers a lost charge: title, limit, loss, and the lowered limit.

    None stands for a limit of which nothing is left. Agents count for every limit of their budget.
    """
    budgets, analysts = {budget.name: budget for budget in draft.budgets}, dict(draft.analysts)
    if gone := sorted({name for name, _ in missing.charges} - budgets.keys()):
        raise SystemExit(f"Budgets {', '.join(gone)} were charged: name them in the policy again.")
    for cap in (*(budget.as_cap for budget in draft.budgets), *draft.caps):
        covered = [
            (budgets[name], loss)
            for (name, analyst), loss in missing.charges.items()
            if cap.budget in {None, name} and (analyst not in analysts or cap.covers(name, analyst))
        ]
        if covered:
            loss = sum((each for _, each in covered), Loss(0))
            limit = cap.within(covered[0][0])
            yield cap.title, limit, loss, lower_limit(limit, loss)


def lower_limit(budget: Budget, loss: Loss) -> Budget | None:
    """Return a budget with the largest ε at which its limit is lower by a loss; None if none is.

    Twice the lost δ is taken away, because an accountant may keep half of δ for selecting keys.
    """
    accountant = accountants.get(budget.accountant)
    left = accountant.limit(budget).without(loss)
    delta = budget.delta - 2 * Decimal(loss.delta).scaleb(-18)
    if delta < 0 or not left.amount or (accountant.needs_delta and not delta):
        return None
    low, high, least = 0, STEPS, None
    while low + 1 < high:
        middle = (low + high) // 2
        lower = replace(budget, epsilon=budget.epsilon * middle / STEPS, delta=delta)
        if accountant.limit(lower).is_within(left):
            low, least = middle, lower
        else:
            high = middle
    return least


def show(draft: Draft, missing: Missing) -> Iterator[str]:
    """Yield the lines for the owner."""
    for title, limit, loss, lower in limits_without(draft, missing):
        unit = accountants.get(limit.accountant).unit
        what = f"{title}: {unit} = {Decimal(loss.amount).scaleb(-9):f} is lost"
        if lower is None:
            yield f"{what}, and nothing is left. Stop the budget."
        else:
            delta = f", delta = {lower.delta.normalize()}" if loss.delta else ""
            yield f"{what}. Write epsilon = {lower.epsilon.normalize():f}{delta}"
    for analyst, count in sorted(missing.failed.items()):
        yield (
            f"{analyst}: {count} failed queries are lost, without an amount in the log. Count each "
            "as a question at max_query_epsilon (its price: dpsql explain)."
        )
    if missing.unread:
        yield f"{missing.unread} lines of the log are cut off: each may be a charge."
    if missing.begins_late:
        yield "The log begins after the end of the ledger: charges between the two are not counted."
    yield NOT_COUNTED


if __name__ == "__main__":
    own = load(sys.argv[1])
    if own.ledger.url:
        sys.exit(
            "This reads a ledger in a file. Name the file of `dpsql ledger backup` as its path."
        )
    print("\n".join(show(own, lost(Path(own.ledger.path), sys.stdin))))
