"""Names in scope: which field a column name means.

What is known goes with the identity of a column, never with its name: SECURITY.md S7.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import count

from dpsql.model.algebra import Field
from dpsql.model.errors import Reason, Refused
from dpsql.model.tree import Name, SqlType, Star

MAX_FIELDS = 20_000
"""Most columns one statement may give identities to: CTEs used twice are resolved twice."""


class Identities:
    """Hands out field ids, unique within a statement."""

    __slots__ = ("_next",)

    def __init__(self) -> None:
        self._next = count(1)

    def field(self, name: str, kind: SqlType) -> Field:
        """A new column; refuses a statement that grows beyond `MAX_FIELDS`."""
        number = next(self._next)
        if number > MAX_FIELDS:
            raise Refused(Reason.TOO_LARGE, what="columns", limit=MAX_FIELDS)
        return Field(number, name, kind)


@dataclass(frozen=True, slots=True)
class Source:
    """One item of FROM: its alias and its columns.

    `hidden` are names that exist and may not be used; with the table whose links they are not.
    """

    alias: str | None
    fields: tuple[Field, ...]
    hidden: Mapping[str, str] = field(default_factory=dict)

    def named(self, name: str) -> Iterator[Field]:
        return (f for f in self.fields if f.name.lower() == name.lower())


@dataclass(frozen=True, slots=True)
class Scope:
    """The sources of one SELECT.

    `merged` are the right-hand columns of USING, seen only once; `instead` maps the left-hand
    column to what is seen in its place where that is not the column itself.

    `outer` is the scope of the query around a subquery: names that are not here are looked for
    there.
    """

    sources: tuple[Source, ...] = ()
    merged: frozenset[int] = field(default_factory=frozenset)
    outer: Scope | None = None
    instead: Mapping[int, Field] = field(default_factory=dict)

    def lookup(self, name: Name) -> Field:
        """The one field that `name` means, or a refusal that points at it."""
        if self.outer is not None and not self._knows(name):
            return self.outer.lookup(name)
        sources = self._qualified(name.table, name)
        found = [f for source in sources for f in source.named(name.name)]
        if name.table is None:
            found = [self.seen(f) for f in found if f.id not in self.merged]
        if len(found) == 1:
            return found[0]
        if found:
            raise Refused(Reason.AMBIGUOUS_COLUMN, name.span, column=name.name)
        for table in (s.hidden.get(name.name.lower()) for s in sources):
            if table is not None:
                raise Refused(Reason.HIDDEN_COLUMN, name.span, column=name.name, others=table)
        raise Refused(
            Reason.UNKNOWN_COLUMN,
            name.span,
            column=name.name,
            known=tuple(f.name for source in sources for f in source.fields),
        )

    def has(self, name: Name) -> bool:
        """Whether some field, visible or hidden, is called so."""
        return any(
            name.table in (None, source.alias)
            and (any(source.named(name.name)) or name.name.lower() in source.hidden)
            for source in self.sources
        )

    def _knows(self, name: Name) -> bool:
        """Whether the name means something here, usable or not; a table here hides outer ones."""
        if name.table is not None:
            return any((s.alias or "").lower() == name.table.lower() for s in self.sources)
        return any(
            any(source.named(name.name)) or name.name.lower() in source.hidden
            for source in self.sources
        )

    def expand(self, star: Star) -> tuple[Field, ...]:
        """The columns of `*` or `t.*`, in order."""
        fields = tuple(f for source in self._qualified(star.table, star) for f in source.fields)
        if star.table is not None:
            return fields
        return tuple(self.seen(f) for f in fields if f.id not in self.merged)

    def seen(self, column: Field) -> Field:
        """What a name without a table means where several joins merge columns one by one."""
        while column.id in self.instead:
            column = self.instead[column.id]
        return column

    def renumbered(self, fields: Mapping[int, Field]) -> Scope:
        """The scope above a relation that gives these columns new identities."""

        def new(column: Field) -> Field:
            return fields.get(column.id, column)

        return Scope(
            tuple(replace(s, fields=tuple(map(new, s.fields))) for s in self.sources),
            frozenset(fields[n].id if n in fields else n for n in self.merged),
            self.outer,
            {fields[n].id if n in fields else n: new(f) for n, f in self.instead.items()},
        )

    def beside(self, right: Scope) -> Scope:
        """The scope of a join of both."""
        return Scope(
            self.sources + right.sources,
            self.merged | right.merged,
            instead={**self.instead, **right.instead},
        )

    def _qualified(self, table: str | None, place: Name | Star) -> tuple[Source, ...]:
        if table is None:
            return self.sources
        found = tuple(s for s in self.sources if s.alias and s.alias.lower() == table.lower())
        if not found:
            raise Refused(Reason.UNKNOWN_TABLE, place.span, table=table)
        return found
