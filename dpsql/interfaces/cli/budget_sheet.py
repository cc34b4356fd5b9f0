"""The spent and the remaining part of each budget, window and lifetime, as text and JSON."""

from __future__ import annotations

import json
import sys
from collections import Counter
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from dpsql.interfaces.amounts import loss_text, plain, rounded, share_text, total_text
from dpsql.interfaces.cli.terminal import columns
from dpsql.interfaces.messages import printable
from dpsql.interfaces.tables import sheet
from dpsql.ledgers import CurrentWindow, Stopped, altered, removed
from dpsql.model.vocabulary import LIFETIME, Loss
from dpsql.policy.other_releases import total_guarantee

if TYPE_CHECKING:
    from dpsql.model.vocabulary import Policy
    from dpsql.preparation.question import Standing
    from dpsql.proxy import Proxy

_HEADERS = (
    "budget",
    "ε",
    "used",
    "questions left",
    "lasts at this rate",
    "largest question",
    "accountant",
    "spent",
    "limit",
)
_SPENDERS = ("analyst", "budget", "spent", "of the budget")
_RELEASES = ("other release", "ε", "δ", "about")
_WINDOW = timedelta(days=28)
_MOST_CHARGES = 2_000
"""Maximum number of charges for the present rate, within the last `_WINDOW`."""


def budgets_text(proxy: Proxy) -> str:
    """Return the spent and remaining part of each budget, in lines as wide as the terminal."""
    room = columns(sys.stdout)
    pots = [_pot(proxy, pot) for pot in proxy.standings()]
    lines = list(sheet(_HEADERS, [*pots, *_unbounded(proxy)], room))
    lines += _filters_text(proxy)
    spenders = _spenders(proxy)
    if spenders:
        rows = [
            (
                printable(analyst),
                printable(pot.budget.name),
                loss_text(spent, pot.budget.accountant),
                "" if proxy.policy.period else share_text(spent, pot.limit),
            )
            for analyst, pot, spent in spenders
        ]
        lines += ["", *sheet(_SPENDERS, rows, room)]
    lines += _releases_text(proxy.policy, room)
    return "\n".join(lines)


def _pot(proxy: Proxy, pot: Standing) -> tuple[str, ...]:
    """Return the row of a budget or cap: in ε, percent and queries, then in units of its
    accountant.
    """
    from dpsql.accountants.remaining import fitting, questions  # noqa: PLC0415

    fits = fitting(pot.budget, pot.spent)
    window = f" in {pot.window}" if pot.window else ""
    return (
        printable(pot.cap or pot.budget.name) + window,
        plain(pot.budget.epsilon),
        share_text(pot.spent, pot.limit),
        f"{questions(pot.budget, pot.spent):,} at ε = {plain(pot.budget.query_epsilon)}",
        _lasting(proxy, pot),
        "nothing" if fits is None else f"ε = {plain(fits)}",
        pot.budget.accountant,
        loss_text(pot.spent, pot.budget.accountant),
        loss_text(pot.limit, pot.budget.accountant),
    )


def _filters_text(proxy: Proxy) -> list[str]:
    """Return a line for each limit whose accountant has several filters."""
    lines = []
    for pot in proxy.standings():
        filters = _filters(pot)
        if filters:
            title = printable(pot.cap or pot.budget.name)
            lines.append(f"{title}: one filter has to hold. {'; '.join(map(_use_text, filters))}.")
    return ["", *lines] if lines else []


def _use_text(use: dict[str, Any]) -> str:
    """Return a filter with what is spent of its limit, in words."""
    if use["spent"] is None:
        return f"{use['name']} does not bound Gaussian noise"
    spent, limit = (rounded(Decimal(str(use[part]))) for part in ("spent", "limit"))
    return f"{use['name']} {'holds' if use['holds'] else 'is passed'} ({spent} of {limit})"


def _filters(pot: Standing) -> list[dict[str, Any]]:
    """Return the filters of a limit: what is spent (None: without a bound), the limit, and whether
    it holds.
    """
    from dpsql.accountants import list_filters  # noqa: PLC0415

    return [
        {
            "name": use.name,
            "spent": None if use.spent is None else use.spent / 1e9,
            "limit": use.limit / 1e9,
            "holds": use.holds,
        }
        for use in list_filters(pot.budget.accountant, pot.spent, pot.limit)
    ]


def _releases_text(policy: Policy, room: int | None) -> list[str]:
    """Return a row for each other release of the same data, and the sum with all budgets."""
    if not policy.releases:
        return []
    rows = [
        (printable(each.name), plain(each.epsilon), plain(each.delta), printable(each.about))
        for each in policy.releases
    ]
    return [
        "",
        *sheet(_RELEASES, rows, room),
        f"All of this together: {total_text(total_guarantee(policy))}.",
    ]


def _unbounded(proxy: Proxy) -> list[tuple[str, ...]]:
    """Return a row for each limit that renews without a limit over its windows."""
    from dpsql.preparation.question import unbounded  # noqa: PLC0415

    policy = proxy.policy
    return [
        (
            f"{printable(each.title)} since its beginning",
            *("no limit", "", "", "", "", each.accountant),
            loss_text(each.spent, each.accountant),
            "none",
        )
        for each in unbounded(policy.budgets, policy.caps, proxy.ledger)
    ]


def waiting_windows(proxy: Proxy) -> list[CurrentWindow]:
    """Return the windows of the policy that wait for the owner, because the clock leapt."""
    budgets, caps = proxy.policy.budgets, proxy.policy.caps
    calendars = [*(each.renews for each in budgets), *(each.renews for each in caps)]
    renewing = dict.fromkeys(calendar for calendar in calendars if calendar is not None)
    current = [proxy.ledger.window(calendar) for calendar in renewing]
    return [window for window in current if window.waits]


def _renewal(pot: Standing) -> date | None:
    """Return the day on which a limit renews; None if it never does."""
    return None if pot.budget.renews is None else pot.budget.renews.renewal_after(pot.window)


def _lasting(proxy: Proxy, pot: Standing) -> str:
    """Return words for how long the rest of a budget lasts, and when it renews."""
    days, renewal = _days(proxy, pot), _renewal(pot)
    lasts = "" if days is None else f"{days:,.0f} day{'' if round(days) == 1 else 's'}"
    if renewal is None:
        return lasts
    today = datetime.now(UTC).date()
    enough = days is None or today + timedelta(days=min(days, 10_000)) >= renewal
    return f"renews {renewal}" if enough else f"{lasts}; renews {renewal}"


def _days(proxy: Proxy, pot: Standing) -> float | None:
    """Return the days that the rest lasts at the present rate; None without recent charges.

    None for a cap, since its future users are unknown, but not for a budget over all windows; and
    for a period of people, which is asked about less when it is over.
    """
    if proxy.policy.period is not None or pot.cap not in {
        "",
        f"{LIFETIME}budget {pot.budget.name}",
    }:
        return None
    now = datetime.now(UTC)
    charges = proxy.ledger.history(None, _MOST_CHARGES, budget=pot.budget.name, since=now - _WINDOW)
    spent = sum(entry.loss.amount for entry in charges)
    if not spent:
        return None
    elapsed = max(now - charges[-1].time, timedelta(days=1))
    return max(0, pot.left) / spent * (elapsed / timedelta(days=1))


def _spenders(proxy: Proxy) -> list[tuple[str, Standing, Loss]]:
    """Return the loss of each analyst of a budget with several analysts."""
    pots = {pot.budget.name: pot for pot in proxy.standings() if not pot.cap}
    sharing = Counter(of for _, of in proxy.policy.analysts)
    return [
        (analyst, pots[of], proxy.ledger.spent(of, frozenset({analyst}), pots[of].budget.renews))
        for analyst, of in proxy.policy.analysts
        if sharing[of] > 1
    ]


def budgets_json(proxy: Proxy) -> str:
    """Return the state of each budget, cap and analyst, as JSON."""
    from dpsql.preparation.question import ceilings, unbounded  # noqa: PLC0415

    stopped, before = proxy.ledger.stopped(), proxy.ledger.confirmed()
    present = ceilings(proxy.policy)
    changed, gone = altered(before, present), removed(before, present)
    pots = [
        {
            **_document(proxy, pot),
            "stopped": not pot.cap and Stopped(pot.budget.name, None) in stopped,
            "confirmed": pot.title not in changed,
        }
        for pot in proxy.standings()
    ]
    analysts = [
        {
            "analyst": analyst,
            "budget": pot.budget.name,
            "spent": _amounts(spent),
            "stopped": Stopped(None, analyst) in stopped,
        }
        for analyst, pot, spent in _spenders(proxy)
    ]
    policy = proxy.policy
    endless = [
        {"title": each.title, "spent": _amounts(each.spent)}
        for each in unbounded(policy.budgets, policy.caps, proxy.ledger)
    ]
    standings = {
        "budgets": pots,
        "unbounded": endless,
        "analysts": analysts,
        "removed": gone,
        **_releases(policy),
    }
    return json.dumps(standings, ensure_ascii=False, indent=2)


def _releases(policy: Policy) -> dict[str, object]:
    """Return the other releases, and what they and all budgets promise together."""
    releases = [
        {
            "name": each.name,
            "epsilon": float(each.epsilon),
            "delta": float(each.delta),
            "about": each.about,
        }
        for each in policy.releases
    ]
    total = total_guarantee(policy)
    together = total and {"epsilon": float(total[0]), "delta": float(total[1])}
    return {"releases": releases, "together": together}


def _document(proxy: Proxy, pot: Standing) -> dict[str, object]:
    from dpsql.accountants.remaining import fitting, questions  # noqa: PLC0415

    fits, renewal = fitting(pot.budget, pot.spent), _renewal(pot)
    return {
        "title": pot.title,
        "budget": pot.budget.name,
        "cap": pot.cap or None,
        "accountant": pot.budget.accountant,
        "epsilon": float(pot.budget.epsilon),
        "delta": float(pot.budget.delta),
        "spent": _amounts(pot.spent),
        "limit": _amounts(pot.limit),
        **({"filters": filters} if (filters := _filters(pot)) else {}),
        "questions_left": questions(pot.budget, pot.spent),
        "question_epsilon": float(pot.budget.query_epsilon),
        "largest_epsilon": None if fits is None else float(fits),
        "days_left": _days(proxy, pot),
        "window": pot.window or None,
        "renews": None if renewal is None else str(renewal),
    }


def _amounts(loss: Loss) -> dict[str, float]:
    return {"amount": loss.amount / 1e9, "delta": loss.delta / 1e18}
