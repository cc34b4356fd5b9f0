"""Limits that renew: the calendar of their windows, and the limit over all windows.

A limit over all windows is a `Cap` of its own, so that one charge is compared with both: PRIVACY.md
R110.
"""

from __future__ import annotations

from dpsql.accountants import get
from dpsql.model.calendars import Calendar, Renewal, find_zone
from dpsql.model.dataclass import replace
from dpsql.model.errors import LedgerError
from dpsql.model.vocabulary import LIFETIME, Cap
from dpsql.policy.policy_keys import AS_OF_A_POT
from dpsql.policy.value_reader import Reader

_UNBOUNDED = "unbounded"


def read_renewal(reader: Reader) -> Calendar | None:
    """Return the calendar by which a budget or cap renews; None if it never does. Raises
    `PolicyError`.
    """
    if "renews" not in reader.values:
        for key, *_ in AS_OF_A_POT:
            if key in reader.values:
                reader.fail(key, f"{key} has no use without renews.", 'Write renews = "month".')
        return None
    calendar = Calendar(
        Renewal(reader.choice("renews", tuple(Renewal))), reader.text("time_zone", "UTC")
    )
    try:
        find_zone(calendar.zone)
    except LedgerError as error:
        reader.fail("time_zone", str(error), 'Write time_zone = "Europe/Berlin", or leave it out.')
    return calendar


def read_lifetime(reader: Reader, window: Cap, accountant: str, *, trusted: bool) -> Cap | None:
    """Return the limit over all windows of a limit that renews. Raises `PolicyError`.

    None if the limit never renews, or if the owner writes `lifetime = "unbounded"`. That needs a
    `trusted` clock, because the clock alone then bounds the loss.
    """
    if window.renews is None:
        return None
    if "lifetime" in reader.values:
        _require_unbounded(reader, trusted=trusted)
        return None
    if "lifetime_epsilon" not in reader.values:
        why = f"The limit of {window.title} renews, and no limit over all windows is set."
        reader.fail("renews", why, f'Write lifetime_epsilon, or lifetime = "{_UNBOUNDED}".')
    epsilon = reader.amount("lifetime_epsilon")
    if epsilon < window.epsilon:
        why = "lifetime_epsilon is below epsilon, which is for one window."
        reader.fail("lifetime_epsilon", why, f"Write at least {window.epsilon}.")
    if window.delta and "lifetime_delta" not in reader.values:
        why = "delta is for one window, and lifetime_delta is missing."
        reader.fail("lifetime_epsilon", why, f"Write lifetime_delta = {window.delta} or more.")
    delta = reader.amount("lifetime_delta", "0")
    if not window.delta <= delta < 1:
        why = "lifetime_delta must be below 1, and at least delta."
        reader.fail("lifetime_delta", why, f"Write lifetime_delta = {window.delta} or more.")
    if delta and not get(accountant).supports_selection:
        why = f"The {accountant} accountant has no δ."
        reader.fail("lifetime_delta", why, "Leave it out.")
    title = f"{LIFETIME}{window.title}"
    return replace(window, title=title, epsilon=epsilon, delta=delta, renews=None)


def _require_unbounded(reader: Reader, *, trusted: bool) -> None:
    reader.choice("lifetime", (_UNBOUNDED,))
    for key in ("lifetime_epsilon", "lifetime_delta"):
        if key in reader.values:
            reader.fail(key, f"{key} contradicts lifetime.", "Keep one of them.")
    if not trusted:
        why = "Without a limit over all windows, this machine's clock alone bounds the loss."
        fix = 'Write clock = "trusted" in [ledger] if nobody else can set it, or lifetime_epsilon.'
        reader.fail("lifetime", why, fix)
