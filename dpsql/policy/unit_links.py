"""The privacy unit in a policy, and the links by which private tables lead to it."""

from __future__ import annotations

from dataclasses import replace
from difflib import get_close_matches

from dpsql.model.vocabulary import Link, Neighbours, PrivacyUnit
from dpsql.policy.draft import Draft, DraftTable
from dpsql.policy.policy_keys import only_keys
from dpsql.policy.value_reader import Reader


def unit_of(reader: Reader) -> PrivacyUnit:
    """Return the unit: the key of a table of people, or the first of the columns that hold it."""
    only_keys(reader, "privacy_unit")
    neighbours = reader.choice("neighbours", tuple(n.value for n in Neighbours), "add_remove")
    columns = unit_columns(reader)
    if not columns:
        return PrivacyUnit(reader.text("table"), reader.text("key"), Neighbours(neighbours))
    table, column = columns[0]
    return PrivacyUnit(f"{table}.{column}", column, Neighbours(neighbours))


def unit_columns(reader: Reader) -> tuple[tuple[str, str], ...]:
    """Return the tables and columns with the unit's values; () if people have a table."""
    named = [key for key in ("table", "column", "columns") if key in reader.values]
    if len(named) > 1:
        reader.fail(named[1], f"There are {named[0]} and {named[1]}.", "Keep one.")
    if named[:1] not in (["column"], ["columns"]):
        return ()
    if "key" in reader.values:
        reader.fail("key", "key has no use beside columns.", "Remove it.")
    value = reader.values[named[0]]
    texts = value if isinstance(value, list) and named == ["columns"] else [value]
    columns = [text.rpartition(".") for text in texts if isinstance(text, str)]
    if not columns or len(columns) < len(texts) or not all(dot for _, dot, _ in columns):
        reader.fail(named[0], f"{named[0]} names no column.", 'Write "table.column".')
    reader.distinct(tuple(table for table, _, _ in columns), named[0])
    return tuple((table, column) for table, _, column in columns)


def linked_to_values(draft: Draft, columns: tuple[tuple[str, str], ...], reader: Reader) -> Draft:
    """Link the tables that hold the unit's values in a column to these values."""
    unit, place = draft.unit, reader.table("privacy_unit")
    if draft.table(unit.table) is not None:
        place.fail(None, f"{unit.table} is a table, too.", "Rename it in the database.")
    for name, _column in columns:
        table = draft.table(name)
        if table is None or table.name != name or not table.private:
            place.fail(None, f"{name} is not a private table.", f"Add [tables.{name}].")
    of_table = dict(columns)

    def to_unit(link: Link) -> Link:
        whole = not link.more and f"{link.table}.{link.key}" == unit.table
        return Link(link.column, unit.table, unit.key) if whole else link

    def linked(table: DraftTable) -> DraftTable:
        at = reader.table("tables").table(table.name)
        if table.several:
            fix = "Declare a table of people, or leave the table out."
            at.fail("links", "Rows of several people need a table of people.", fix)
        unprotected = tuple(map(to_unit, table.unprotected))
        if table.name not in of_table:
            link = None if table.link is None else to_unit(table.link)
            return replace(table, link=link, unprotected=unprotected)
        if table.link is not None:
            at.fail("link", f"{table.name} holds the unit, and has a link.", "Remove the link.")
        link = Link(of_table[table.name], unit.table, unit.key)
        return replace(table, link=link, unprotected=unprotected)

    return replace(draft, tables=tuple(map(linked, draft.tables)))


def check_links(draft: Draft, reader: Reader) -> None:
    """Refuse a unit that is not a private table's key, links to no key, cycles, and loose ends."""
    if not unit_columns(reader.table("privacy_unit")):
        _check_unit(draft, reader)
    for table in draft.tables:
        _check_values(draft, table, reader)
        _check_determining(table, reader.table("tables").table(table.name))
        _check_same_unit(draft, table, reader.table("tables").table(table.name))
        if not table.private:
            continue
        place = reader.table("tables").table(table.name)
        for name in table.key:
            _listed(table, name, place, "key")
        for link in table.unprotected:
            if not draft.is_column(link):
                _target(draft, link, place)
        if table.name == draft.unit.table:
            continue
        if not table.links:
            place.fail(
                None,
                f"The private table {table.name} has no link to the privacy unit.",
                "Add link = { column = …, references = … }.",
            )
        for link in table.links:
            _follow(draft, table, link, place)


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
    if table.links:
        place.fail("table", f"The unit table {unit.table} has a link.", "Remove it.")


def _follow(draft: Draft, table: DraftTable, link: Link, place: Reader) -> None:
    """Follow a link of a table to the unit."""
    seen, here = {table.name}, table
    while True:
        for name in link.columns:
            _listed(here, name, place, "link")
        if draft.is_column(link):
            return
        target = _target(draft, link, place)
        if target.name in seen:
            place.fail("link", f"The links of {table.name} run in a circle.", "Break it.")
        if target.name == draft.unit.table:
            return
        if target.several:
            why = f"{table.name} links to {target.name}, whose rows are several people's."
            place.fail("link", why, "Leave the table out, or link it to one person.")
        if target.link is None:
            place.fail(
                "link", f"The links of {table.name} do not lead to the unit.", "Add the next."
            )
        seen.add(target.name)
        here, link = target, target.link


def _target(draft: Draft, link: Link, place: Reader) -> DraftTable:
    """Return the table that a link leads to, which must be private and linked by its key."""
    target = draft.table(link.table)
    if target is None or not target.private:
        private = [t.name for t in draft.tables if t.private]
        near = get_close_matches(link.table, private, 1)
        fix = f"Did you mean {near[0]}?" if near and target is None else "Link towards the unit."
        place.fail("link", f"{link.table} is not a private table.", fix)
    if target.name != link.table:
        place.fail("link", f"{link.table} is written {target.name} above.", "Write it alike.")
    if sorted(target.key) != sorted(link.keys):
        one = f"{link.table}.{link.key}", f'"{link.key}"'
        listed = ", ".join(f'"{key}"' for key in link.keys)
        several = f"{link.table}.({', '.join(link.keys)})", f"[{listed}]"
        named, key = several if link.more else one
        why = f"{named} is not the declared key of {link.table}."
        near = get_close_matches(link.key, [] if link.more else target.key, 1)
        write = f"Write key = {key} in [tables.{link.table}]."
        place.fail("link", why, f"Did you mean {link.table}.{near[0]}?" if near else write)
    return target


def _check_determining(table: DraftTable, place: Reader) -> None:
    if table.determining and table.link is None:
        why = "determines_unit is said of rows with one link to the privacy unit."
        place.fail("determines_unit", why, "Remove it.")
    for name, key in table.alike:
        _listed(table, name, place, key)


def _check_same_unit(draft: Draft, table: DraftTable, place: Reader) -> None:
    """Refuse `same_unit` in tables with several links, and columns that lead to no private key."""
    linked = {n.lower() for link in (*table.links, *table.unprotected) for n in link.columns}
    for link in table.same_unit:
        if table.several:
            why = "same_unit is said of rows with one link to the privacy unit."
            place.fail("same_unit", why, "Declare link in the place of links.")
        if link.column.lower() in linked:
            place.fail("same_unit", f"{link.column} is a link already.", "Name it once.")
        _listed(table, link.column, place, "same_unit")
        if draft.is_column(link):
            why = f"{link.table} is no table: its values are the units."
            place.fail("same_unit", why, f"Make {link.column} the link.")
        target = _target(draft, link, place)
        if target.several:
            why = f"{target.name} has rows of several people."
            place.fail("same_unit", why, "Name a table whose rows are one person's.")


def _check_values(draft: Draft, table: DraftTable, reader: Reader) -> None:
    if table.rollups and draft.database.prepared is None:
        place = reader.table("tables").table(table.name)
        why = "Rollups are made by dpsql prepare, and [database] names no file for them."
        place.fail(
            "rollups",
            why,
            'Name a file for it there, as prepared = "prepared.db", or remove rollups.',
        )
    for column in table.columns:
        if column.published and table.private:
            place = reader.table("tables").table(table.name).table("columns").table(column.name)
            why = f"{table.name} is private, so that nothing of it is published."
            place.fail("published", why, "Remove published.")
        if column.values_from is None:
            continue
        source = draft.table(column.values_from[0])
        if source is not None and source.private:
            place = reader.table("tables").table(table.name).table("columns").table(column.name)
            place.fail(
                "values_from",
                f"{column.values_from[0]} is not a public table.",
                "Name one that is.",
            )


def _listed(table: DraftTable, column: str, place: Reader, key: str) -> None:
    if not any(c.name.lower() == column.lower() for c in table.columns):
        near = get_close_matches(column, [c.name for c in table.columns], 1)
        fix = f"Did you mean {near[0]}?" if near else f"Add {column} = {{}} to its columns."
        place.fail(key, f"{table.name}.{column} is not listed.", fix)
