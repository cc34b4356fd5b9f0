"""Random FROM clauses over private tables: links, siblings, public tables, subqueries, CTEs."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from grammar_tests.fuzz_conditions import condition
from grammar_tests.fuzz_dice import Dice
from grammar_tests.fuzz_terms import Column, term
from grammar_tests.fuzz_units import UNIT, within_units

TABLES: dict[str, str] = {
    "orders": "order_id:int customer_id:int amount:dec+ quantity:int+ discount:dbl+ placed_at:ts"
    " status:text note:text note_length:int",
    "customers": "customer_id:int country:text segment:text city:text age:int+ income:dbl+"
    " vip:bool joined:date",
    "items": "item_id:int order_id:int product_id:int price:dec+ units:int+",
    "events": "event_id:int customer_id:int device:text duration:int+",
    "logins": "login_id:int customer_id:int day:date",
    "countries": "code:text region:text",
    "products": "product_id:int category:text list_price:dec+",
}
"""Columns as name:kind, with + where the values have bounds."""

PRIVATE = ("orders", "customers", "items", "events", "logins")
LINKS = (
    ("orders", "customer_id", "customers", "customer_id"),
    ("customers", "customer_id", "orders", "customer_id"),
    ("items", "order_id", "orders", "order_id"),
    ("orders", "order_id", "items", "order_id"),
    ("events", "customer_id", "customers", "customer_id"),
    ("logins", "customer_id", "customers", "customer_id"),
    ("customers", "customer_id", "events", "customer_id"),
    ("orders", "customer_id", "events", "customer_id"),
    ("orders", "customer_id", "orders", "customer_id"),
    ("events", "customer_id", "logins", "customer_id"),
    ("customers", "country", "countries", "code"),
    ("items", "product_id", "products", "product_id"),
    ("orders", "quantity", "products", "product_id"),
    ("customers", "country", "products", "category"),
    ("customers", "segment", "products", "category"),
    ("orders", "status", "products", "category"),
    ("items", "price", "products", "list_price"),
    ("products", "category", "products", "category"),
)
"""Columns that may be equated: table, column, table that joins, its column."""


SHAPES = (
    *("{0} = {1} || ''", "UPPER({0}) = {1}", "{0} IS NOT DISTINCT FROM {1}", "{0} <> {1}"),
    *("{0} = {1} AND {1} <> 'SE'", "({0} = {1} OR {1} IS NULL)"),
)
"""How else a public column is met than by an equality of columns."""


@dataclass(frozen=True, slots=True)
class Member:
    """A table of a FROM clause: its text with alias, and what its columns are called."""

    table: str
    alias: str
    text: str
    columns: tuple[Column, ...]
    names: dict[str, str]

    def column(self, name: str) -> str:
        """What a column of the base table is called here."""
        return f"{self.alias}.{self.names[name]}"


@dataclass(frozen=True, slots=True)
class Source:
    """A FROM clause with the conditions that its comma joins leave to WHERE.

    `unit` is a column that holds the privacy unit, if one is in reach; `ctes` go to WITH.
    """

    text: str
    scope: tuple[Column, ...]
    conditions: tuple[str, ...] = ()
    ctes: tuple[str, ...] = ()
    unit: str | None = None


@dataclass(slots=True)
class _Clause:
    """A FROM clause as it grows."""

    comma: bool
    members: list[Member] = field(default_factory=list)
    text: str = ""
    conditions: list[str] = field(default_factory=list)
    ctes: list[str] = field(default_factory=list)


def columns_of(table: str) -> tuple[Column, ...]:
    """The columns of a base table, unqualified."""
    return tuple(
        Column(name, kind.removesuffix("+"), kind.endswith("+"), name)
        for name, _, kind in (word.partition(":") for word in TABLES[table].split())
    )


def source(dice: Dice) -> Source:
    """A FROM clause of one to four tables, at least one of them private."""
    clause = _Clause(comma=dice.chance(15))
    first = _member(dice, dice.pick(PRIVATE), clause)
    clause.members.append(first)
    clause.text = first.text
    for _ in range(dice.pick((0, 1, 0, 1, 2, 3))):
        _join(dice, clause)
    scope = tuple(replace(c, text=f"{m.alias}.{c.text}") for m in clause.members for c in m.columns)
    holders = [m.column("customer_id") for m in clause.members if "customer_id" in m.names]
    return Source(
        clause.text,
        scope,
        tuple(clause.conditions),
        tuple(clause.ctes),
        dice.pick(holders) if holders else None,
    )


def _join(dice: Dice, clause: _Clause) -> None:
    tables = {m.table for m in clause.members}
    left_table, left, table, right = dice.pick([row for row in LINKS if row[0] in tables] or LINKS)
    owners = [m for m in clause.members if m.table == left_table and left in m.names]
    if not owners:
        return
    owner, member = dice.pick(owners), _member(dice, table, clause)
    if right not in member.names:
        return
    on = f"{owner.column(left)} = {member.column(right)}"
    if dice.chance(10):
        on = f"{member.column(right)} = {owner.column(left)}"
    if right == "category" and dice.chance(15):
        on = dice.pick(SHAPES).format(owner.column(left), member.column(right))
    clause.members.append(member)
    if clause.comma:
        clause.text += f", {member.text}"
        clause.conditions.append(on)
        return
    kind = dice.pick(("JOIN", "INNER JOIN"))
    if dice.chance(10):
        kind = dice.pick(("LEFT JOIN", "RIGHT JOIN"))
    if member.text == f"{table} {member.alias}" and dice.chance(12):
        clause.text += _nearest(dice, owner, left, member, right)
        return
    holders = [m for m in clause.members if right in m.names.values()]
    shared = owner.names[left] == member.names[right] == right and len(holders) == 2
    if shared and dice.chance(30):
        clause.text += f" {kind} {member.text} USING ({right})"
        return
    if shared and len(clause.members) == 2 and dice.chance(10):
        clause.text += f" NATURAL JOIN {member.text}"
        return
    if dice.chance(15):
        on += f" AND {condition(dice, _scope((owner, member)), 2)}"
    clause.text += f" {kind} {member.text} ON {on}"


def _nearest(dice: Dice, owner: Member, left: str, member: Member, right: str) -> str:
    """The first rows of a table that a row asks for, in a total order; or those that need only
    not be distinct from it."""
    table, alias, key = member.table, member.alias, owner.column(left)
    meets = f"{key} = {alias}.{right}"
    ids = [c for c in owner.columns if c.text in owner.names and c.text.endswith("_id")]
    number = dice.pick(columns_of(table)).text
    first = next(iter(columns_of(table))).text
    match dice.pick(("lateral", "lateral", "distinct", "asof")):
        case "asof" if ids and table in PRIVATE and first.endswith("_id"):
            left_outer = dice.pick(("", "LEFT "))
            sign = dice.pick((">=", "<=", ">", "<"))
            here = f"{owner.alias}.{dice.pick(ids).text}"
            return (
                f" ASOF {left_outer}JOIN {member.text} ON {meets} AND {here} {sign} {alias}.{first}"
            )
        case "distinct" if table in PRIVATE:
            return f" JOIN {member.text} ON {key} IS NOT DISTINCT FROM {alias}.{right}"
        case _:
            order = ", ".join(f"s.{name}" for name in (number, *member.names))
            limit = dice.pick((" LIMIT 1", " LIMIT 2", " LIMIT 1 OFFSET 1", ""))
            outer = "LEFT JOIN" if dice.chance(30) and "OFFSET" not in limit else "JOIN"
            listed = f"*, {key} AS asked" if outer == "JOIN" and limit == " LIMIT 2" else "*"
            rows = (
                f"SELECT {listed} FROM {table} AS s WHERE {key} = s.{right} ORDER BY {order}{limit}"
            )
            return f" {outer} LATERAL ({rows}) AS {alias} ON TRUE"


def _scope(members: tuple[Member, ...]) -> tuple[Column, ...]:
    return tuple(replace(c, text=f"{m.alias}.{c.text}") for m in members for c in m.columns)


def _member(dice: Dice, table: str, clause: _Clause) -> Member:
    """A table as it is, or wrapped in a subquery or a CTE that renames and computes."""
    alias = f"t{len(clause.members)}"
    columns = columns_of(table)
    if not dice.chance(25):
        names = {c.text: c.text for c in columns}
        return Member(table, alias, f"{table} {alias}", columns, names)
    query, inner, names = _wrapped(dice, table, columns)
    if dice.chance(15) and (relation := within_units(dice, table)) is not None:
        query, inner = relation
        names = {UNIT.text: UNIT.text}
    if dice.chance(40):
        name = f"c{len(clause.ctes)}"
        clause.ctes.append(f"{name} AS ({query})")
        return Member(table, alias, f"{name} AS {alias}", inner, names)
    return Member(table, alias, f"({query}) AS {alias}", inner, names)


def _wrapped(
    dice: Dice, table: str, columns: tuple[Column, ...]
) -> tuple[str, tuple[Column, ...], dict[str, str]]:
    """A subquery over one table, its columns, and the new name of each base column it keeps."""
    where = f" WHERE {condition(dice, columns, 2)}" if dice.chance(50) else ""
    if dice.chance(30):
        return f"SELECT * FROM {table}{where}", columns, {c.text: c.text for c in columns}
    kept = [c for c in columns if c.text.endswith("_id") or not dice.chance(30)]
    names = {c.text: f"x_{c.text}" if dice.chance(20) else c.text for c in kept}
    items = [f"{old} AS {new}" if old != new else old for old, new in names.items()]
    inner = [replace(c, text=names[c.text]) for c in kept]
    for n in range(dice.number(2)):
        kind = dice.pick(("int", "text", "amount", "bool", "date"))
        items.append(f"{term(dice, kind, columns, 2)} AS e{n}")
        if kind != "amount":
            inner.append(Column(f"e{n}", kind))
    return f"SELECT {', '.join(items)} FROM {table}{where}", tuple(inner), names
