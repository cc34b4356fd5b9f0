"""Random conditions: what narrows a column's values, subqueries, and any boolean expression."""

from __future__ import annotations

from collections.abc import Sequence

from grammar_tests.fuzz_dice import Dice, filled
from grammar_tests.fuzz_terms import LITERALS, Column, term

VALUES: dict[str, tuple[str, ...]] = {
    "status": ("'open'", "'paid'", "'returned'", "'unheard of'"),
    "country": ("'NO'", "'SE'", "'XX'"),
    "segment": ("'consumer'", "'business'"),
    "city": ("'Oslo'", "'oslo'", "''"),
    "device": ("'phone'", "'tablet'"),
    "code": ("'NO'", "'IT'"),
    "region": ("'north'", "'south'"),
    "category": ("'book'", "'toy'"),
    "age": ("30", "31", "18", "120", "-5"),
    "income": ("1000.5", "0", "20000.25"),
    "amount": ("12.50", "100", "0.01", "500"),
    "quantity": ("1", "2", "7", "20"),
    "discount": ("0.25", "0.5", "0"),
    "units": ("1", "2", "0"),
    "price": ("7.25", "12.5", "100"),
    "duration": ("60", "0", "3600"),
    "joined": ("DATE '2020-02-28'", "DATE '2021-02-04'", "DATE '2025-12-31'"),
    "day": ("DATE '2024-01-01'", "DATE '2024-02-10'"),
    "placed_at": ("TIMESTAMP '2024-02-29 00:00:00'", "DATE '2025-01-01'", "DATE '2024-01-01'"),
}
"""Values of a base column that a condition on it is likely to name."""

NARROWING = (
    *("{c} = {v}", "{c} <> {v}", "{c} < {v}", "{c} >= {v}", "{v} >= {c}", "NOT ({c} < {v})"),
    *("{v} = {c}", "{v} <> {c}", "{v} < {c}", "{v} <= {c}", "NOT ({v} > {c})"),
    *("{c} IN ({v}, {v})", "{c} NOT IN ({v}, {v})", "{c} BETWEEN {v} AND {v}"),
    *("{c} NOT BETWEEN {v} AND {v}", "{c} IS NOT NULL", "{c} IS NULL", "({c} = {v}) IS TRUE"),
    *("({c} = {v} OR {c} IS NULL)", "COALESCE({c} = {v}, FALSE)", "({c} > {v} OR {c} < {v})"),
    *("{c} IS NOT DISTINCT FROM {v}", "NOT ({c} = {v} AND {c} <> {v})", "{c} = {c}"),
    *("COALESCE({c}, {v}) = {v}", "CASE WHEN {c} = {v} THEN {c} > {v} ELSE {c} <= {v} END"),
)
"""Conditions on one column, against values of its own."""

PUBLIC = (
    "{int} IN (SELECT product_id FROM products WHERE category = 'book')",
    "{text} IN (SELECT code FROM countries)",
    "{text} NOT IN (SELECT code FROM countries WHERE region = 'south')",
    "EXISTS (SELECT 1 FROM products p WHERE p.product_id = {int})",
    "NOT EXISTS (SELECT 1 FROM countries p WHERE p.code = {text})",
    "{int} > (SELECT COUNT(*) FROM products)",
)
PRIVATE = (
    "{unit} IN (SELECT customer_id FROM {table})",
    "{unit} NOT IN (SELECT customer_id FROM {table} WHERE {inner})",
    "EXISTS (SELECT 1 FROM {table} WHERE s.customer_id = {unit} AND {inner})",
    "NOT EXISTS (SELECT * FROM {table} WHERE s.customer_id = {unit})",
    "{int} < (SELECT COUNT(*) FROM {table} WHERE {inner})",
    "{int} < (SELECT COUNT(*) FROM {table} WHERE s.customer_id = {unit})",
    "({unit}, {int}) IN (SELECT s.customer_id, s.quantity FROM orders s)",
    "{text} NOT IN (SELECT s.note FROM orders s WHERE s.customer_id = {unit})",
    "{text} IN (SELECT s.device FROM events s WHERE s.customer_id = {unit}) IS {known}",
)
"""Subqueries in a condition, over public tables and through the unit."""

INNER = {
    "orders s": (Column("s.amount", "dec", base="amount"), Column("s.status", "text")),
    "events s": (Column("s.duration", "int", base="duration"), Column("s.device", "text")),
    "customers s": (Column("s.age", "int", base="age"), Column("s.vip", "bool")),
    "logins s": (Column("s.day", "date", base="day"),),
}


def condition(dice: Dice, scope: Sequence[Column], depth: int, unit: str | None = None) -> str:
    """A condition over a scope; `unit` is the column of it that holds the unit, if one does."""
    if dice.chance(25):
        word = dice.pick((" AND ", " OR "))
        sides = [condition(dice, scope, depth - 1, unit) if depth else "TRUE" for _ in "12"]
        return f"({word.join(sides)})"
    if dice.chance(10):
        return _subquery(dice, scope, unit)
    if dice.chance(50):
        return term(dice, "bool", scope, depth)
    return narrowing(dice, scope)


def narrowing(dice: Dice, scope: Sequence[Column]) -> str:
    """A condition on one column, against values that are likely or against its like."""
    known = [c for c in scope if c.base in VALUES]
    if not known:
        return term(dice, "bool", scope, 1)
    column = dice.pick(known)
    same = [c.text for c in scope if c.kind == column.kind]
    values = VALUES[column.base]
    if dice.chance(10):
        values = (*same, *LITERALS[column.kind])
    return filled(
        dice.pick(NARROWING), lambda word: column.text if word == "c" else dice.pick(values)
    )


def _subquery(dice: Dice, scope: Sequence[Column], unit: str | None) -> str:
    table = dice.pick(tuple(INNER))

    def fill(word: str) -> str:
        match word:
            case "unit":
                return str(unit)
            case "table":
                return table
            case "known":
                return dice.pick(("NULL", "NOT TRUE", "NOT NULL"))
            case "inner":
                return narrowing(dice, INNER[table])
            case kind:
                return term(dice, kind, scope, 1)

    shapes = PUBLIC if unit is None or dice.chance(50) else PRIVATE
    return f"({filled(dice.pick(shapes), fill)})"
