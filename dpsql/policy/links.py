"""The declared paths to the privacy unit: each link leads to a key, and each path to the unit."""

from __future__ import annotations

from dpsql.model.vocabulary import Link
from dpsql.policy.draft import Draft, DraftTable
from dpsql.policy.value_reader import Reader

UNCUT = ("max_groups_per_unit", "max_rows_per_group")
"""Limits that are enforced by cutting one person's rows: those of several people are not cut."""


def links_of(reader: Reader) -> tuple[Link | None, tuple[Link, ...], tuple[Link, ...]]:
    """A table's one link, its several links, and its links to people who are not protected."""
    if "links" not in reader.values:
        return (_link(reader.table("link")) if "link" in reader.values else None), (), ()
    if "link" in reader.values:
        reader.fail("link", "There is link, and links beside it.", "Keep links.")
    protected, unprotected = list[Link](), list[Link]()
    for each in reader.listed("links"):
        others = each.choice("other_people", ("protected", "unprotected"), "protected")
        (protected if others == "protected" else unprotected).append(_link(each, "other_people"))
    reader.distinct(tuple(link.column for link in (*protected, *unprotected)), "links")
    if len(protected) < 2:  # noqa: PLR2004
        return next(iter(protected), None), (), tuple(unprotected)
    for key in UNCUT:
        if key in reader.values:
            why = f"Rows of several people are not cut to {key}."
            reader.fail(key, why, "Declare max_rows_per_unit, over all links together.")
    return None, tuple(protected), tuple(unprotected)


def _link(reader: Reader, *more: str) -> Link:
    reader.only("column", "references", *more)
    table, dot, key = reader.text("references").rpartition(".")
    if not dot:
        reader.fail("references", "references names no column.", 'Write "table.column".')
    return Link(reader.text("column"), table, key)


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
        for link in table.unprotected:
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
    """Follow one of the links of a table to the unit."""
    seen, here = {table.name}, table
    while True:
        _listed(here, link.column, place, "link")
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
    """The table that a link leads to: a private one, by its key."""
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
    return target


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
