"""The periods of privacy units in a policy, and what cannot be used with them.

What has no proof with periods is refused here by name: PRIVACY.md R103.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from dpsql.model.calendars import Renewal
from dpsql.model.errors import PolicyError
from dpsql.model.periods import UNIT, PeriodRule
from dpsql.model.tree import Kind
from dpsql.model.vocabulary import TablePolicy
from dpsql.policy.draft import Draft, DraftTable
from dpsql.policy.policy_keys import only_keys
from dpsql.policy.value_reader import Reader

_LENGTHS = (Renewal.MONTH, Renewal.QUARTER, Renewal.YEAR)
_PEOPLE = frozenset({Kind.INTEGER, Kind.UUID})
"""Types of people whose text, with a period, is a unit: different values have different texts."""
_TIMES = frozenset({Kind.DATE, Kind.TIMESTAMP})
_LONGEST_UNIT = 100
"""Characters that hold every name of a period with a UUID or a whole number."""
_EXAMPLE = '{ every = "month", from = "2024-01", of = { events = "occurred_at" } }'


def read_periods(reader: Reader) -> PeriodRule | None:
    """Return the periods of the privacy unit; None if a unit is a person. Raises `PolicyError`."""
    if "period" not in reader.values:
        return None
    if "renews" in reader.values:
        reader.fail("renews", "renews and period are two kinds of budgets.", "Keep one of them.")
    if not {"column", "columns"} & reader.values.keys():
        why = "period needs the person's column in every private table."
        reader.fail("period", why, 'Write column = "table.column" in the place of table and key.')
    at = reader.table("period")
    only_keys(at, "privacy_unit.period")
    every, first = Renewal(at.choice("every", _LENGTHS)), at.text("from")
    of = at.table("of")
    if not of.values:
        at.fail(None, "period names no time column.", f"Write period = {_EXAMPLE}.")
    rule = PeriodRule(every, first, tuple((name, of.text(name)) for name in of.values))
    try:
        rule.calendar.first_day(first)
    except ValueError:
        names = {"month": "2024-01", "quarter": "2024-Q1", "year": "2024"}
        at.fail("from", f"{first} is no {every.value}.", f'Write from = "{names[every.value]}".')
    return rule


def check_periods(draft: Draft, reader: Reader) -> None:
    """Raise `PolicyError` for what a policy with periods cannot have."""
    rule = draft.period
    if rule is None:
        return
    of = reader.table("privacy_unit").table("period").table("of")
    for name, _ in rule.of:
        table = draft.table(name)
        if table is None or table.name != name or not table.private:
            of.fail(name, f"{name} is not a private table.", "Name one that is.")
    for table in draft.tables:
        place = reader.table("tables").table(table.name)
        for key, why, fix in _of_table(draft, table) if table.private else ():
            place.fail(key, why, fix)
    for section, key, why, fix in _of_policy(draft):
        place = reader
        for name in section:
            place = place.table(name)
        place.fail(key, why, fix)


def _of_table(draft: Draft, table: DraftTable) -> Iterator[tuple[str | None, str, str]]:
    """Yield what is wrong with a private table: the key, the reason, and the fix."""
    assert draft.period is not None
    name, time = table.name, draft.period.column(table.name)
    if time is None:
        why = f"The private table {name} has no time column in period.of."
        copy = "copy its columns into the tables that have a time, or make it public"
        yield None, why, f'Write {name} = "…" there; or {copy} (dpsql help periods).'
    if table.link is None or not draft.is_column(table.link):
        why = f"{name} does not hold the person's column: its rows belong to no period of a person."
        yield "link", why, f"Link it to {draft.unit.table}, or copy that column into it."
    if not any(c.name.lower() == (time or "").lower() for c in table.columns):
        yield "columns", f"{name}.{time} is not listed.", f"Add {time} = {{}}; it may be hidden."
    for key, is_set in (
        ("links", bool(table.several or table.unprotected)),
        ("same_unit", bool(table.same_unit)),
        ("rollups", bool(table.rollups)),
    ):
        if is_set:
            yield key, f"{key} is not supported with period.", "Leave it out."
    for column in table.columns:
        if column.name.lower() == UNIT:
            yield "columns", f"dpsql adds a column named {UNIT}.", "Rename it in the database."
        if column.randomized:
            why = f"{column.name} is randomized, which is not supported with period."
            yield "columns", why, "Leave the column out."


def _of_policy(draft: Draft) -> Iterator[tuple[tuple[str, ...], str | None, str, str]]:
    """Yield what else is wrong: the section, its key, the reason, and the fix."""
    for budget in draft.budgets:
        place = ("budgets", budget.name)
        if budget.renews is not None:
            why = "renews and period are two kinds of budgets."
            yield place, "renews", why, "Keep one of them."
    for cap in draft.caps:
        if cap.renews is not None:
            why = f"{cap.title} renews, and period is another kind of limit."
            yield (), None, why, "Leave its renews out: its epsilon is for each period."
    if draft.limits.max_text_length < _LONGEST_UNIT:
        why = "max_text_length is shorter than the name of a person in a period."
        yield ("limits",), "max_text_length", why, f"Write at least {_LONGEST_UNIT}."
    if draft.database.prepared is not None:
        why = "prepared sums a person's rows over all periods, and a query reads some of them."
        yield ("database",), "prepared", why, "Leave it out; a cube of one period is free too."


def check_period_columns(draft: Draft, tables: Sequence[TablePolicy]) -> None:
    """Raise `PolicyError` for a private view, and for columns whose types have no periods."""
    rule = draft.period
    for table in tables if rule is not None else ():
        if not table.private or rule is None or table.link is None:
            continue
        time, person = table.column(rule.column(table.name) or ""), table.column(table.link.column)
        assert time is not None
        assert person is not None
        place: tuple[str, ...] = ("tables", table.name)
        why = fix = ""
        if table.rows is not None:
            why, fix = f"{table.name} is a view.", "Name its base table: a row has one period."
        elif time.type.kind not in _TIMES or time.reading is not None:
            place = (*place, "columns", time.name)
            why = f"{table.name}.{time.name} is no date and no time without a zone."
            fix = "Store the day, or the time in UTC, in a column of such a type."
        elif person.type.kind not in _PEOPLE or person.reading is not None:
            place = (*place, "columns", person.name)
            why = f"{table.name}.{person.name} is neither a whole number nor a UUID."
            fix = "Number the people in a column of such a type."
        if why:
            raise PolicyError(draft.path, draft.lines.of(place), why, fix)
