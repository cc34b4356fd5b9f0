"""The declared paths to the privacy unit: each link leads to a key, and each path to the unit."""

from __future__ import annotations

from dpsql.policy.draft import Draft, DraftTable
from dpsql.policy.reader import Reader


def check_links(draft: Draft, reader: Reader) -> None:
    """Refuse a unit that is no private table's key, links to no key, cycles, and loose ends."""
    _check_unit(draft, reader)
    for table in draft.tables:
        _check_values(draft, table, reader)
        if not table.private:
            continue
        place = reader.table("tables").table(table.name)
        for name in table.key:
            _listed(table, name, place, "key")
        if table.name == draft.unit.table:
            continue
        if table.link is None:
            place.fail(
                None,
                f"The private table {table.name} has no link to the privacy unit.",
                "Add link = { column = …, references = … }.",
            )
        _follow(draft, table, place)


def _check_unit(draft: Draft, reader: Reader) -> None:
    unit, place = draft.unit, reader.table("privacy_unit")
    table = draft.table(unit.table)
    if table is None or table.name != unit.table:
        place.fail("table", f"There is no table {unit.table}.", f"Add [tables.{unit.table}].")
    if not table.private:
        place.fail("table", f"{unit.table} is public.", 'Write access = "private".')
    if table.key != (unit.key,):
        place.fail(
            "key", f"{unit.key} is not the key of {unit.table}.", f'Write key = "{unit.key}" there.'
        )
    if table.link is not None:
        place.fail("table", f"The unit table {unit.table} has a link.", "Remove it.")


def _follow(draft: Draft, table: DraftTable, place: Reader) -> None:
    """Follow the links of one table to the unit."""
    seen = {table.name}
    here = table
    while here.name != draft.unit.table:
        link = here.link
        if link is None:
            place.fail(
                "link", f"The links of {table.name} do not lead to the unit.", "Add the next."
            )
        _listed(here, link.column, place, "link")
        target = draft.table(link.table)
        if target is None or not target.private:
            place.fail("link", f"{link.table} is not a private table.", "Link towards the unit.")
        if target.name != link.table:
            place.fail("link", f"{link.table} is written {target.name} above.", "Write it alike.")
        if target.key != (link.key,):
            place.fail(
                "link",
                f"{link.table}.{link.key} is not the declared key of {link.table}.",
                f'Write key = "{link.key}" in [tables.{link.table}].',
            )
        if target.name in seen:
            place.fail("link", f"The links of {table.name} run in a circle.", "Break it.")
        seen.add(target.name)
        here = target


def _check_values(draft: Draft, table: DraftTable, reader: Reader) -> None:
    for column in table.columns:
        if column.values_from is None:
            continue
        source = draft.table(column.values_from[0])
        if source is None or source.private:
            place = reader.table("tables").table(table.name).table("columns").table(column.name)
            place.fail(
                "values_from",
                f"{column.values_from[0]} is not a public table.",
                "Name one that is.",
            )


def _listed(table: DraftTable, column: str, place: Reader, key: str) -> None:
    if not any(c.name.lower() == column.lower() for c in table.columns):
        place.fail(
            key, f"{table.name}.{column} is not listed.", f"Add {column} = {{}} to its columns."
        )
