"""Keys of a policy that decide what the guarantee protects: the unit, and how tables lead to it.

An edit of one of them holds only once the owner has confirmed it, because the ledger still counts
charges for what was protected before (SECURITY.md S16).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from dpsql.ledgers import Ledger
from dpsql.model.errors import PolicyError
from dpsql.model.vocabulary import Link
from dpsql.policy.draft import Draft, DraftTable

_UNIT = "[privacy_unit]"


class GuaranteeChange(NamedTuple):
    """A key that says something else than what was confirmed; "" is said where there is none."""

    key: str
    before: str
    now: str

    def __str__(self) -> str:
        return f"{self.key}: {self.before or 'nothing'} before, {self.now or 'nothing'} now."


def guarantee_of(draft: Draft) -> dict[str, str]:
    """Return what each key of the guarantee says, without those that say nothing."""
    unit, rule = draft.unit, draft.period
    if draft.table(unit.table) is None:
        said = {f"{_UNIT} column": unit.table}
    else:
        said = {f"{_UNIT} table": unit.table, f"{_UNIT} key": unit.key}
    said[f"{_UNIT} neighbours"] = unit.neighbours.value
    if rule is not None:
        said[f"{_UNIT} period"] = rule.text
    times = {} if rule is None else {name.lower(): column for name, column in rule.of}
    for table in draft.tables:
        said |= _of_table(table, times.get(table.name.lower(), ""))
    return {key: text for key, text in said.items() if text}


def _of_table(table: DraftTable, time: str) -> dict[str, str]:
    links = {
        "link": () if table.link is None else (table.link,),
        "links": table.several,
        "other_people": table.unprotected,
        "same_unit": table.same_unit,
    }
    texts = {key: "; ".join(sorted(map(_link_text, each))) for key, each in links.items()}
    said = {"access": "private" if table.private else "public", **texts, "period.of": time}
    return {f"[tables.{table.name.lower()}] {key}": text for key, text in said.items()}


def _link_text(link: Link) -> str:
    return f"{', '.join(link.columns)} → {link.table}.{', '.join(link.keys)}".lower()


def find_changes(
    before: Mapping[str, str], present: Mapping[str, str]
) -> tuple[GuaranteeChange, ...]:
    """Return the keys that differ. A table that was never there, or is gone, changes none.

    >>> find_changes({"[tables.t] access": "private"}, {"[tables.t] access": "public"})[0].now
    'public'
    """
    sections = _sections(before) & _sections(present)
    keys = (key for key in {**before, **present} if key.rpartition(" ")[0] in sections)
    pairs = (GuaranteeChange(key, before.get(key, ""), present.get(key, "")) for key in keys)
    return tuple(change for change in pairs if change.before != change.now)


def _sections(keys: Iterable[str]) -> set[str]:
    return {key.rpartition(" ")[0] for key in keys}


def record_guarantee(draft: Draft, ledger: Ledger, reason: str = "") -> tuple[GuaranteeChange, ...]:
    """Record what the guarantee protects by now; return the changes.

    Without the owner's `reason`, changes are recorded before the first charge alone. After it they
    raise `PolicyError`, and nothing is recorded.
    """
    before, present = ledger.guarantee(), guarantee_of(draft)
    changes = find_changes(before, present)
    if changes and not reason and ledger.history(limit=1):
        _refuse(draft, changes)
    gone = {change.key: "" for change in changes if change.key not in present}
    said = {key: text for key, text in (present | gone).items() if before.get(key) != text}
    if said:
        ledger.record_guarantee(said, reason)
    return changes


def _refuse(draft: Draft, changes: tuple[GuaranteeChange, ...]) -> None:
    change, more = changes[0], len(changes) - 1
    others = {0: "", 1: " Another key has changed, too."}
    raise PolicyError(
        draft.path,
        draft.lines.of(_place(draft, change.key)),
        f"{change.key} was {change.before or 'not there'}, and is now "
        f"{change.now or 'not there'}. The charges in the ledger protect what it was."
        + others.get(more, f" {more} other keys have changed, too."),
        'Restore it, or let these charges count as they are: dpsql budget confirm --reason "…"',
    )


def _place(draft: Draft, key: str) -> tuple[str, ...]:
    """Return the place of a key in the policy file."""
    section, _, name = key.rpartition(" ")
    table = draft.table(section.removeprefix("[tables.").removesuffix("]"))
    where = ("privacy_unit",) if table is None else ("tables", table.name)
    return (*where, name.partition(".")[0])
