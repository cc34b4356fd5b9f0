"""Caps: the most that an analyst, a group of them, or all together may spend."""

from __future__ import annotations

from collections.abc import Iterable
from decimal import Decimal

from dpsql.accountants import get
from dpsql.model.dataclass import replace
from dpsql.model.table_names import nearest
from dpsql.model.vocabulary import Budget, Cap
from dpsql.policy.policy_keys import only_keys
from dpsql.policy.renewals import read_lifetime, read_renewal
from dpsql.policy.value_reader import Reader

SUM = "sum"
Analysts = tuple[tuple[str, str], ...]


def caps_of(reader: Reader, budgets: tuple[Budget, ...], analysts: Analysts) -> tuple[Cap, ...]:
    """Return all caps of a policy. Raises `PolicyError`.

    `epsilon` of an analyst caps the analyst's spending of the budget. `[groups.NAME]` caps the
    spending of several analysts, of one budget or of all. `epsilon` of the privacy unit caps
    everything together: a number, or the word sum. Each that renews has a second one, over all
    windows.
    """
    by_name = {budget.name: budget for budget in budgets}
    trusted = "clock" in reader.table("ledger").values
    caps: list[Cap | None] = []
    for name, section in reader.table("budgets").tables():
        own = by_name[name]
        window = own.as_cap
        caps.append(read_lifetime(section, window, own.accountant, trusted=trusted))
    for name, analyst in reader.table("analysts").tables():
        if _has_cap(analyst):
            budget = by_name[dict(analysts)[name]]
            caps += _cap(analyst, f"analyst {name}", (budget,), frozenset({name}), trusted=trusted)
    for name, group in reader.table("groups").tables():
        caps += _of_group(group, name, by_name, dict(analysts), trusted=trusted)
    if _has_cap(reader.table("privacy_unit")):
        unit = reader.table("privacy_unit")
        if unit.values["epsilon"] == SUM:
            unit = _summed(unit, budgets)
        caps += _cap(unit, "all budgets", budgets, None, trusted=trusted)
    return tuple(cap for cap in caps if cap is not None)


def _summed(unit: Reader, budgets: tuple[Budget, ...]) -> Reader:
    """Return the privacy unit's table with the sum over budgets as its epsilon and delta."""
    if any(budget.as_cap.renews for budget in budgets):
        unit.fail("epsilon", "The sum of budgets that renew grows.", "Write epsilon as a number.")
    epsilon = sum((budget.epsilon for budget in budgets), Decimal(0))
    delta = sum((budget.delta for budget in budgets), Decimal(0))
    return replace(unit, values={"delta": delta} | unit.values | {"epsilon": epsilon})


def _has_cap(reader: Reader) -> bool:
    if "delta" in reader.values and "epsilon" not in reader.values:
        reader.fail("delta", "delta has no use without epsilon.", "Add epsilon, or remove it.")
    if "renews" in reader.values and "epsilon" not in reader.values:
        reader.fail("renews", "renews has no use without epsilon.", "Add epsilon, or remove it.")
    return "epsilon" in reader.values


def _of_group(
    reader: Reader, name: str, budgets: dict[str, Budget], of: dict[str, str], *, trusted: bool
) -> list[Cap | None]:
    only_keys(reader, "groups.G")
    members = reader.values.get("analysts")
    if not isinstance(members, list) or not members or not {*map(str, members)} <= of.keys():
        fix = f'Write analysts = ["…"] with some of {", ".join(of)}.'
        reader.fail("analysts", "analysts must list analysts of this policy.", fix)
    if "budget" not in reader.values:
        paying = tuple(budgets[pot] for pot in dict.fromkeys(of[member] for member in members))
        of_members = frozenset(members)
        return _cap(reader, f"group {name}", paying, of_members, trusted=trusted, across=True)
    budget = reader.text("budget")
    if budget not in budgets:
        reader.fail("budget", f"There is no budget {budget}.", name_budget(budget, budgets))
    for member in members:
        if of[member] != budget:
            why = f"{member} spends from {of[member]}: a limit on {budget} never counts that."
            reader.fail("budget", why, "Leave budget out, or name those who spend from it.")
    paid = (budgets[budget],)
    return _cap(reader, f"group {name}", paid, frozenset(members), trusted=trusted)


def name_budget(name: str, budgets: Iterable[str]) -> str:
    """Return the fix of an unknown budget: a similar name if there is one, else its table."""
    near = nearest(name, budgets)
    return f"Add [budgets.{name}]." if near is None else f'Write budget = "{near}".'


def _cap(
    reader: Reader,
    title: str,
    budgets: tuple[Budget, ...],
    analysts: frozenset[str] | None,
    *,
    trusted: bool,
    across: bool = False,
) -> list[Cap | None]:
    """Return a cap on the spending of these budgets, which must have one accountant, and the cap
    over all its windows.
    """
    accountants = sorted({budget.accountant for budget in budgets})
    if len(accountants) > 1:
        why = f"{title} spends by {' and '.join(accountants)}, which nobody adds up."
        reader.fail("epsilon", why, "Give these budgets one accountant, or cap each by itself.")
    epsilon = reader.amount("epsilon")
    delta = reader.amount("delta", str(max(budget.delta for budget in budgets)))
    if epsilon <= 0:
        reader.fail("epsilon", "epsilon must be above zero.", "Write epsilon = 1.0.")
    if not 0 <= delta < 1 or (get(accountants[0]).needs_delta and not delta):
        reader.fail("delta", "delta must be in (0, 1).", "Write delta = 1e-6.")
    one = None if across or analysts is None else budgets[0].name
    cap = Cap(title, epsilon, delta, budget=one, analysts=analysts, renews=read_renewal(reader))
    return [cap, read_lifetime(reader, cap, accountants[0], trusted=trusted)]
