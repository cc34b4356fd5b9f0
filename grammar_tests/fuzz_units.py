"""Random relations that stay private: one unit's rows aggregated, numbered or put together."""

from __future__ import annotations

from grammar_tests.fuzz_conditions import narrowing
from grammar_tests.fuzz_dice import Dice
from grammar_tests.fuzz_terms import Column

Relation = tuple[str, tuple[Column, ...]]
UNIT = Column("customer_id", "int")

AGGREGATES: dict[str, tuple[tuple[str, str], ...]] = {
    "orders": (
        ("COUNT(*)", "int+"),
        ("SUM(amount)", "dec+"),
        ("MAX(quantity)", "int+"),
        ("MIN(placed_at)", "ts"),
        ("COUNT(DISTINCT status)", "int+"),
        ("AVG(discount)", "dbl+"),
        ("BOOL_OR(status = 'open')", "bool"),
    ),
    "events": (("COUNT(*)", "int+"), ("MAX(duration)", "int+"), ("COUNT(duration)", "int+")),
    "logins": (("COUNT(*)", "int+"), ("MIN(day)", "date"), ("MAX(day) - MIN(day)", "int")),
}
"""Exact aggregates within a unit, each with its kind."""

WINDOWS: dict[str, tuple[tuple[str, str], ...]] = {
    "orders": (
        ("ROW_NUMBER() OVER (PARTITION BY customer_id ORDER BY order_id)", "int+"),
        ("COUNT(*) OVER (PARTITION BY customer_id)", "int+"),
        ("LAG(status) OVER (PARTITION BY customer_id ORDER BY order_id)", "text"),
        ("SUM(quantity) OVER (PARTITION BY customer_id ORDER BY order_id)", "int+"),
    ),
    "events": (
        ("RANK() OVER (PARTITION BY customer_id ORDER BY duration)", "int+"),
        ("FIRST_VALUE(device) OVER (PARTITION BY customer_id ORDER BY event_id)", "text"),
    ),
    "logins": (("LEAD(day) OVER (PARTITION BY customer_id ORDER BY login_id)", "date"),),
}
"""Windows within a unit."""

OWN: dict[str, tuple[Column, ...]] = {
    "orders": (
        Column("amount", "dec", bounded=True, base="amount"),
        Column("quantity", "int", bounded=True, base="quantity"),
        Column("status", "text", base="status"),
        Column("placed_at", "ts", base="placed_at"),
    ),
    "events": (
        Column("duration", "int", bounded=True, base="duration"),
        Column("device", "text", base="device"),
    ),
    "logins": (Column("day", "date", base="day"),),
}


def within_units(dice: Dice, table: str) -> Relation | None:
    """A subquery over a table below the unit, with its columns; None if it is no such table."""
    if table not in OWN:
        return None
    return dice.pick((_aggregated, _numbered, _united, _distinct))(dice, table)


def _columns(listed: list[tuple[str, str]]) -> tuple[list[str], tuple[Column, ...]]:
    """Items of a SELECT list and the columns they make."""
    items = [f"{text} AS w{n}" for n, (text, _) in enumerate(listed)]
    columns = tuple(
        Column(f"w{n}", kind.removesuffix("+"), bounded=kind.endswith("+"))
        for n, (_, kind) in enumerate(listed)
    )
    return items, columns


def _where(dice: Dice, table: str) -> str:
    return f" WHERE {narrowing(dice, OWN[table])}" if dice.chance(30) else ""


def _aggregated(dice: Dice, table: str) -> Relation:
    listed = [dice.pick(AGGREGATES[table]), *dice.some(AGGREGATES[table], 1)]
    items, columns = _columns(listed)
    keys: tuple[Column, ...] = (UNIT,)
    if dice.chance(25):
        keys = (UNIT, dice.pick([c for c in OWN[table] if c.kind != "dbl"]))
    names = ", ".join(c.text for c in keys)
    having = " HAVING COUNT(*) > 1" if dice.chance(15) else ""
    text = f"SELECT {names}, {', '.join(items)} FROM {table}{_where(dice, table)}"
    return f"{text} GROUP BY {names}{having}", (*keys, *columns)


def _numbered(dice: Dice, table: str) -> Relation:
    items, columns = _columns([dice.pick(WINDOWS[table])])
    kept = (UNIT, *OWN[table])
    names = ", ".join(c.text for c in kept)
    qualify = ""
    if dice.chance(20):
        key = {"orders": "order_id", "events": "event_id", "logins": "login_id"}[table]
        qualify = f" QUALIFY ROW_NUMBER() OVER (PARTITION BY customer_id ORDER BY {key}) = 1"
    return f"SELECT {names}, {items[0]} FROM {table}{_where(dice, table)}{qualify}", (
        *kept,
        *columns,
    )


def _united(dice: Dice, table: str) -> Relation:
    other = dice.pick(tuple(OWN))
    pairs = [(a, b) for a in OWN[table] for b in OWN[other] if a.kind == b.kind]
    sides = [f"SELECT customer_id FROM {table}", f"SELECT customer_id FROM {other}"]
    columns: tuple[Column, ...] = (UNIT,)
    if pairs:
        a, b = dice.pick(pairs)
        sides = [
            f"SELECT customer_id, {column.text} AS v FROM {name}{_where(dice, name)}"
            for name, column in ((table, a), (other, b))
        ]
        columns = (UNIT, Column("v", a.kind, bounded=a.bounded and b.bounded))
    return " UNION ALL ".join(sides), columns


def _distinct(dice: Dice, table: str) -> Relation:
    column = dice.pick(OWN[table])
    return f"SELECT DISTINCT customer_id, {column.text} FROM {table}", (UNIT, column)
