"""Owners of rows, as SQL for the owner: the units of keys, and rows of several people.

The rules are those of `compiler.track.units`: PRIVACY.md R2, R4.
"""

from __future__ import annotations

from collections.abc import Iterator

from dpsql.model.dataclass import dataclass
from dpsql.model.tree import identifier
from dpsql.model.vocabulary import Link, Policy, TablePolicy
from dpsql.preparation.table_rows import rows_of


def unit_rows(table: TablePolicy, policy: Policy, *columns: str) -> str:
    """Return a SELECT of each row's unit `u` and of columns of the table, with alias t0.

    It joins along the table's links; the table of the units has none.
    """
    sql, hops, key = f"{rows_of(table.name, policy)} AS t0", 0, policy.unit.key
    while table.link is not None:
        link, parent = table.link, policy.table(table.link.table)
        key = link.column
        if parent is None or link.table == policy.unit.table:
            break
        same = " AND ".join(
            f"t{hops}.{identifier(here)} = t{hops + 1}.{identifier(there)}"
            for here, there in zip(link.columns, link.keys, strict=True)
        )
        hops += 1
        sql += f" JOIN {rows_of(link.table, policy)} AS t{hops} ON {same}"
        table = parent
    listed = ", ".join([f"t{hops}.{identifier(key)} AS u", *columns])
    return f"SELECT {listed} FROM {sql}"


def units_of_keys(name: str, policy: Policy) -> str:
    """Return a SELECT of each key `k` of a table with the first and last unit of its rows."""
    table = policy.table(name)
    assert table is not None
    assert table.link is not None
    keys, link = [f"t.{identifier(name)}" for name in table.key], table.link
    source, ends = f"{rows_of(table.name, policy)} AS t", (f"t.{identifier(link.column)}",) * 2
    if link.table != policy.unit.table:
        source += (
            f" JOIN ({units_of_keys(link.table, policy)}) AS b ON {same_key(link, 't', policy)}"
        )
        ends = "b.lo", "b.hi"
    lo, hi = ends
    listed = ", ".join(f"{key} AS k{n}" for n, key in enumerate(keys))
    ends_of = f"MIN({lo}) AS lo, MAX({hi}) AS hi"
    return f"SELECT {listed}, {ends_of} FROM {source} GROUP BY {', '.join(keys)}"


def same_key(link: Link, rows: str, policy: Policy, keys: str = "b") -> str:
    """Return the condition that rows lead to a row of `keys`, which is `units_of_keys`."""
    target = policy.table(link.table)
    assert target is not None
    columns = dict(zip(link.keys, link.columns, strict=True))
    return " AND ".join(
        f"{rows}.{identifier(columns[key])} = {keys}.k{n}" for n, key in enumerate(target.key)
    )


_IS_THERE = "target IS NOT NULL AND NOT same"
BESIDE_THE_LINK = (
    (
        "lost",
        "target IS NULL",
        "that lead to no row of {table} of anybody: they are NULL there",
        "Mend it, or accept that.",
    ),
    (
        "elsewhere",
        f"{_IS_THERE} AND own",
        "that lead to another unit than their own: they are NULL there",
        "Name it in links if it names other people; mend the rows if they are wrong.",
    ),
    (
        "ownerless",
        f"{_IS_THERE} AND NOT own",
        "and no unit of their own: they enter no answer",
        "Mend the link, or accept that.",
    ),
)
"""Findings about rows with a `same_unit` column: kind, condition, what they have, and the fix."""


def beside_the_link(table: TablePolicy, link: Link, policy: Policy) -> str:
    """SELECT of the `target` of each value of a column, whether it is the `same` unit's alone, and
    whether the row has a unit of its `own`.
    """
    unit, own = policy.unit, _ends_of_links(table, policy, "o")
    there = _ends_of_key(link, policy)
    here = f"FROM {rows_of(table.name, policy)} AS t{own.join}{there.join}"
    exists, alone = "", f"{there.lo} = {there.hi}"
    if policy.table(unit.table) is not None:
        keys = f"SELECT DISTINCT {identifier(unit.key)} AS k FROM {rows_of(unit.table, policy)}"
        here += f" LEFT JOIN ({keys}) AS p ON p.k = {own.lo}"
        exists = " AND p.k IS NOT NULL"
    owned = f"COALESCE({own.lo} = {own.hi}{exists}, FALSE)"
    same = f"COALESCE({owned} AND {alone} AND {own.lo} = {there.lo}, FALSE)"
    column = f"t.{identifier(link.column)}"
    shown = f"{there.lo} AS target, {same} AS same, {owned} AS own"
    return f"SELECT {shown} {here} WHERE {column} IS NOT NULL"


@dataclass(frozen=True, slots=True)
class _Ends:
    """The first and last unit behind columns, and the join that finds them."""

    lo: str
    hi: str
    join: str = ""


def _ends_of_links(table: TablePolicy, policy: Policy, name: str) -> _Ends:
    """The units behind the link of rows that are called t; of a person's row its key."""
    link = table.link
    if link is None or link.table == policy.unit.table:
        column = f"t.{identifier(policy.unit.key if link is None else link.column)}"
        return _Ends(column, column)
    behind, same = units_of_keys(link.table, policy), same_key(link, "t", policy, name)
    return _Ends(f"{name}.lo", f"{name}.hi", f" LEFT JOIN ({behind}) AS {name} ON {same}")


def _ends_of_key(link: Link, policy: Policy) -> _Ends:
    """Return the units of the rows that a `same_unit` column references."""
    if link.table == policy.unit.table:
        key = identifier(policy.unit.key)
        behind = f"SELECT DISTINCT {key} AS k0, {key} AS lo, {key} AS hi FROM"
        behind += f" {rows_of(link.table, policy)}"
    else:
        behind = units_of_keys(link.table, policy)
    same = f"b.k0 = t.{identifier(link.column)}"
    return _Ends("b.lo", "b.hi", f" LEFT JOIN ({behind}) AS b ON {same}")


@dataclass(frozen=True, slots=True)
class RowsOfSeveral:
    """Rows of a table with several links: `lo0`, `hi0` are the units of the first link."""

    table: TablePolicy
    policy: Policy

    def nobodys(self) -> str:
        """Return a SELECT of rows without a unit, or with a link to a key that several units
        share.
        """
        unit = self.policy.unit
        there = " OR ".join(
            f"EXISTS (SELECT 1 FROM {rows_of(unit.table, self.policy)} AS p"
            f" WHERE p.{identifier(unit.key)} = r.lo{n})"
            for n in self._places
        )
        return f"SELECT * FROM ({self._rows()}) AS r WHERE NOT ({there}) OR NOT ({self._alone()})"

    def each(self) -> str:
        """Return a SELECT of each row's units `u`, one per row; a unit in two links counts once."""
        return " UNION ALL ".join(
            f"SELECT lo{n} AS u FROM ({self._rows()}) AS r"
            f" WHERE lo{n} IS NOT NULL AND {self._alone()}"
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
        return f"SELECT {ends} FROM {rows_of(self.table.name, self.policy)} AS t{joins}"

    def _joins(self) -> Iterator[str]:
        for n, link in enumerate(self.table.several):
            if link.table != self.policy.unit.table:
                behind = units_of_keys(link.table, self.policy)
                same = same_key(link, "t", self.policy, f"b{n}")
                yield f" LEFT JOIN ({behind}) AS b{n} ON {same}"
