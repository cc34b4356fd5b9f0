"""Whose rows are, as SQL for the owner's checks: the same rules as those of `compiler.track.units`.

The rules are PRIVACY.md R2.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from dpsql.model.sql_names import identifier
from dpsql.model.vocabulary import Policy, TablePolicy


def units_of_keys(name: str, policy: Policy) -> str:
    """SELECT of each key `k` of a table with the first and last unit that its rows lead to."""
    table = policy.table(name)
    assert table is not None
    assert table.link is not None
    key, link = identifier(table.key[0]), identifier(table.link.column)
    source, ends = f"{identifier(table.name)} AS t", (f"t.{link}", f"t.{link}")
    if table.link.table != policy.unit.table:
        source += f" JOIN ({units_of_keys(table.link.table, policy)}) AS u ON t.{link} = u.k"
        ends = "u.lo", "u.hi"
    lo, hi = ends
    return f"SELECT t.{key} AS k, MIN({lo}) AS lo, MAX({hi}) AS hi FROM {source} GROUP BY t.{key}"


@dataclass(frozen=True, slots=True)
class RowsOfSeveral:
    """The rows of a table with several links: `lo0`, `hi0` are the units behind the first link."""

    table: TablePolicy
    policy: Policy

    def nobodys(self) -> str:
        """SELECT of the rows that no link leads to a unit, or one to a key that several share."""
        unit = self.policy.unit
        there = " OR ".join(
            f"EXISTS (SELECT 1 FROM {identifier(unit.table)} AS p"
            f" WHERE p.{identifier(unit.key)} = r.lo{n})"
            for n in self._places
        )
        return f"SELECT * FROM ({self._rows()}) AS r WHERE NOT ({there}) OR NOT ({self._alone()})"

    def each(self) -> str:
        """SELECT of each row's units `u`, one by one; a unit that two links name counts once."""
        return " UNION ALL ".join(
            f"SELECT lo{n} AS u FROM ({self._rows()}) WHERE lo{n} IS NOT NULL AND {self._alone()}"
            + "".join(f" AND (lo{n} <> lo{before} OR lo{before} IS NULL)" for before in range(n))
            for n in self._places
        )

    @property
    def _places(self) -> range:
        return range(len(self.table.several))

    def _alone(self) -> str:
        return " AND ".join(f"(lo{n} IS NULL OR lo{n} = hi{n})" for n in self._places)

    def _rows(self) -> str:
        joins = "".join(self._joins())
        ends = ", ".join(
            f"t.{identifier(link.column)} AS lo{n}, t.{identifier(link.column)} AS hi{n}"
            if link.table == self.policy.unit.table
            else f"b{n}.lo AS lo{n}, b{n}.hi AS hi{n}"
            for n, link in enumerate(self.table.several)
        )
        return f"SELECT {ends} FROM {identifier(self.table.name)} AS t{joins}"

    def _joins(self) -> Iterator[str]:
        for n, link in enumerate(self.table.several):
            if link.table != self.policy.unit.table:
                behind = units_of_keys(link.table, self.policy)
                yield f" LEFT JOIN ({behind}) AS b{n} ON t.{identifier(link.column)} = b{n}.k"


def look_alikes(table: TablePolicy, policy: Policy) -> list[str]:
    """Columns of the unit key's type, no link or key, whose name has the unit's in it."""
    unit = policy.table(policy.unit.table)
    assert unit is not None
    if not table.private:
        return []
    key = unit.column(policy.unit.key)
    assert key is not None
    links = (table.link, *table.several, *table.unprotected)
    known = {link.column.lower() for link in links if link is not None}
    known |= {name.lower() for name in (*table.key, *table.second_keys)}
    words = _words(policy)
    return [
        column.name
        for column in table.columns
        if column.type == key.type and column.name.lower() not in known
        if any(word in column.name.lower() for word in words)
    ]


def _words(policy: Policy) -> set[str]:
    """What a column that names a unit is called: its key, without "id", or its table in singular.

    Short words would be in many names.
    """
    key, table = policy.unit.key.lower(), policy.unit.table.lower()
    stem = key.removesuffix("id").removesuffix("key").strip("_")
    one = table.removesuffix("s")
    return {word for word in (key, stem, one) if len(word) > 2}  # noqa: PLR2004


def all_among_units(table: TablePolicy, column: str, policy: Policy) -> str:
    """SELECT of 1 if a column has values, and each of them is a unit's key; else of 0."""
    name, unit = identifier(column), policy.unit
    other = (
        f"NOT EXISTS (SELECT 1 FROM {identifier(unit.table)} AS p"
        f" WHERE p.{identifier(unit.key)} = t.{name})"
    )
    return (
        f"SELECT CASE WHEN COUNT(t.{name}) > 0 AND COUNT(t.{name}) FILTER (WHERE {other}) = 0"
        f" THEN 1 ELSE 0 END FROM {identifier(table.name)} AS t"
    )
