"""update: a policy after a change of the schema. Decisions and comments stay as written.

New columns and tables are written as comments, so that they are invisible to analysts until the
owner decides. Missing ones become comments, unless a key or a link needs them.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Iterator
from decimal import Decimal
from pathlib import Path as File
from typing import Any

from dpsql.model.dataclass import dataclass
from dpsql.model.errors import PolicyError
from dpsql.model.schema import ForeignKey, Schema, SchemaTable
from dpsql.model.vocabulary import Link
from dpsql.policy.column_parts import column_or_part
from dpsql.policy.draft import Draft, DraftGrant, DraftTable
from dpsql.policy.edit import replace_policy, toml_key
from dpsql.policy.init import Decisions, Drafter
from dpsql.policy.load import load
from dpsql.policy.unit_paths import Routes, UnitColumns, paths
from dpsql.policy.value_reader import HEADER, Lines, header_parts

NEW, GONE = "# NEW: ", "# GONE: "


@dataclass(frozen=True, slots=True)
class Change:
    """A new or missing column or table; `needed` ones, in a key, link or role, are left to the
    owner.
    """

    line: int
    name: str
    is_new: bool
    needed: bool = False


@dataclass(frozen=True, slots=True)
class _Edit:
    """Lines inserted after a line, or a range of lines that become comments."""

    line: int
    inserted: tuple[str, ...] = ()
    end: int = 0


def update(path: str, schema: Schema) -> tuple[Change, ...]:
    """Write the changes of a database's schema into a policy file, and return them.

    Raises `PolicyError` if the file is not a policy, or the change cannot be written there.
    """
    written = _Written(path, load(path), schema)
    changes = tuple(written.changes())
    if written.edits:
        replace_policy(path, written.edited())
    return changes


class _Written:
    """A policy file, and the present schema of its database."""

    def __init__(self, path: str, draft: Draft, schema: Schema) -> None:
        self.path, self.draft, self.schema = path, draft, schema
        self.text = File(path).read_text(encoding="utf-8")
        self.lines, self.places = self.text.split("\n"), Lines(self.text)
        self.expected: dict[str, Any] = tomllib.loads(self.text, parse_float=Decimal)
        self.drafter = self._drafter()
        self.edits: list[_Edit] = []

    def _drafter(self) -> Drafter:
        """Return a drafter with this policy's links and defaults."""
        draft, unit = self.draft, self.draft.unit
        named = UnitColumns(((unit.table, unit.key),), has_table=True)
        if draft.table(unit.table) is None:
            columns = ((t.name, t.link) for t in draft.tables if t.link is not None)
            own = tuple((name, link.column) for name, link in columns if draft.is_column(link))
            named = UnitColumns(own, has_table=False)
        routes = paths(self.schema, named) | {t.name: _routes(t) for t in draft.tables}
        nullable = self.expected.get("defaults", {}).get("nullable", False)
        database = draft.database
        return Drafter(
            self.schema, Decisions(named), named, routes, nullable=nullable, database=database
        )

    def changes(self) -> Iterator[Change]:
        """Yield new and missing tables and columns; collect the edits for them."""
        for table in self.draft.tables:
            there = self.schema.table(table.name)
            if there is None:
                yield self._gone_table(table)
            elif table.private:
                yield from self._new_columns(table, there)
                yield from self._gone_columns(table, there)
        for there in self.schema.tables:
            header = re.compile(rf"#.*\[tables\.{re.escape(toml_key(there.name))}\]")
            if self.draft.table(there.name) is None and not self._has(header):
                yield self._new_table(there)

    def _has(self, pattern: re.Pattern[str], begin: int = 0, end: int | None = None) -> bool:
        return any(pattern.match(line.lstrip()) for line in self.lines[begin:end])

    def _new_table(self, table: SchemaTable) -> Change:
        """Append a table as a block of comments after the last table."""
        last = max(self._block(t)[1] for t in self.draft.tables)
        lines = (
            self.drafter.table(table)
            if self.drafter.is_drafted(table)
            else self.drafter.undecided(table)
        )
        self.edits.append(_Edit(last, ("", *(NEW + line for line in lines))))
        return Change(last, table.name, is_new=True)

    def _new_columns(self, table: DraftTable, there: SchemaTable) -> Iterator[Change]:
        """Append new columns as comments below a table; columns in its comments are not new."""
        listed = {column.name.lower() for column in table.columns}
        begin, last = self._block(table)
        end = self._next_header(table)
        for column in there.columns:
            mentioned = re.compile(rf"#.*(?<!\w){re.escape(column.name)}(?!\w)[\"']?\s*[=:]")
            if column.name.lower() in listed or self._has(mentioned, begin, end):
                continue
            line = self.drafter.column(there, column, None)
            if line.startswith("#"):  # of no type of ours
                continue
            self.edits.append(_Edit(last, (NEW + line,)))
            yield Change(last, f"{table.name}.{column.name}", is_new=True)

    def _gone_columns(self, table: DraftTable, there: SchemaTable) -> Iterator[Change]:
        for column in table.columns:
            if column_or_part(column.name, there, column.type) is not None:
                continue
            place = ("tables", table.name, "columns", column.name)
            line, name = self.places.of(place), f"{table.name}.{column.name}"
            needed = column.name.lower() in self._needed_columns(table)
            if not needed:
                self.edits.append(_Edit(line - 1, end=line))
                del self.expected["tables"][table.name]["columns"][column.name]
            yield Change(line, name, is_new=False, needed=needed)

    def _needed_columns(self, table: DraftTable) -> set[str]:
        """Return the columns of a table in keys, links, roles, and what facts compare."""
        names = [*table.key, *(name for name, _ in table.alike)]
        for each in self.draft.tables:
            for link in each.named_links:
                names += link.columns if each is table else ()
                names += link.keys if link.table == table.name else ()
            sources = (c.values_from for c in each.columns if c.values_from is not None)
            names += (column for source, column in sources if source == table.name)
        for grant in self._grants():
            names += re.findall(r"\w+", grant.rows or "")  # of any table that a link leads to
            names += (grant.columns or ()) if grant.table == table.name else ()
        return {name.lower() for name in names}

    def _grants(self) -> Iterator[DraftGrant]:
        for role in self.draft.roles:
            yield from role.grants or ()

    def _gone_table(self, table: DraftTable) -> Change:
        others = [t for t in self.draft.tables if t is not table]
        links = [link.table for t in others for link in t.named_links]
        sources = [c.values_from[0] for t in others for c in t.columns if c.values_from]
        granted = [grant.table for grant in self._grants()]
        needed = table.name in (*links, *sources, *granted, self.draft.unit.table) or (
            table.link is not None and self.draft.is_column(table.link)
        )
        begin, end = self._block(table)
        if not needed:
            self.edits.append(_Edit(begin, end=end))
            del self.expected["tables"][table.name]
        return Change(begin + 1, table.name, is_new=False, needed=needed)

    def _block(self, table: DraftTable) -> tuple[int, int]:
        """Return the lines of a table, from the one before its header to its last."""
        begin = self.places.of(("tables", table.name)) - 1
        said = (n for n in range(begin, self._next_header(table)) if _says(self.lines[n]))
        return begin, max(said) + 1

    def _next_header(self, table: DraftTable) -> int:
        """Return the line of the next header of another table, counted from 0."""
        begin = self.places.of(("tables", table.name)) - 1
        for n in range(begin, len(self.lines)):
            header = HEADER.match(self.lines[n])
            if header and header_parts(header["name"])[:2] != ("tables", table.name):
                return n
        return len(self.lines)

    def edited(self) -> str:
        """Return the text with its edits, which must equal the policy without the missing parts.

        Raises `PolicyError` if something stands in a place that is not edited.
        """
        lines = list(self.lines)
        last_first = sorted(
            enumerate(self.edits), key=lambda e: (-e[1].line, bool(e[1].inserted), -e[0])
        )
        for _, edit in last_first:
            lines[edit.line : edit.line] = edit.inserted
            for n in range(edit.line, edit.end):
                lines[n] = f"{GONE}{lines[n]}" if lines[n].strip() else lines[n]
        text = "\n".join(lines)
        try:
            same = tomllib.loads(text, parse_float=Decimal) == self.expected
        except tomllib.TOMLDecodeError:
            same = False
        if not same:
            why = "What changed cannot be written here: a table or a column has several places."
            fix = "Draft the new schema into another file, and copy what is new."
            raise PolicyError(self.path, None, why, fix)
        return text


def _says(line: str) -> bool:
    """Test whether a line is not a comment, or is a comment of ours."""
    text = line.strip()
    return bool(text) and (not text.startswith("#") or text.startswith((NEW.strip(), GONE.strip())))


def _routes(table: DraftTable) -> Routes:
    def keys(links: Iterable[Link]) -> tuple[ForeignKey, ...]:
        return tuple(ForeignKey(link.columns, link.table, link.keys) for link in links)

    return Routes(keys((*table.links, *table.unprotected)), same=keys(table.same_unit))
