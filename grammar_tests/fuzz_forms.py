"""Random queries of the other forms (PRIVACY.md R104, R106): ranks, averages, limits, many joins.

The rows under a form are a table, a join, a union or a subquery, with random conditions.
"""

from __future__ import annotations

import re

from grammar_tests.fuzz_conditions import INNER, narrowing
from grammar_tests.fuzz_dice import BYTES, Dice
from grammar_tests.fuzz_sources import columns_of
from grammar_tests.fuzz_terms import Column

LINKED = ("orders", "events", "logins", "customers")
"""Tables with the key of the unit."""
ORDERED = {
    "orders": ("amount", "quantity"),
    "customers": ("age",),
    "items": ("price", "units"),
    "events": ("duration",),
}
"""Exact numbers by which rows are ranked; a quantile of DOUBLEs is that of a grid."""
PARTED = {
    "orders": ("status",),
    "customers": ("segment", "vip", "country"),
    "items": ("product_id",),
    "events": ("device",),
    "logins": (),
}
KEYS = {"orders": "order_id", "customers": "customer_id", "items": "item_id", "events": "event_id"}
SHARES = ("0.5", "0.1", "0.9", "0.25", "0.333333", "0.05")
SIGNS = ("<=", "<", ">", ">=")
OUTER = ("LEFT JOIN", "RIGHT JOIN", "FULL JOIN")
MEETINGS = (
    *("{on}", "{on}", "{on}", "{on} AND {p}"),
    *("({on} AND {p}) OR ({on} AND {q})", "({on}) AND ({p} OR {q})"),
)
"""Conditions of a join that imply equal units."""
SUBQUERIES = (
    "EXISTS (SELECT 1 FROM {other} WHERE s.customer_id = {unit} AND {inner})",
    "NOT EXISTS (SELECT 1 FROM {other} WHERE s.customer_id = {unit})",
    "{unit} IN (SELECT s.customer_id FROM {other} WHERE {inner})",
)
INEXACT = re.compile(r"rn IN|PERCENT_RANK.*(c (< |>=)|( >|<=) c\b)")
"""Queries that are answered nearly: the middle of two rows, and ranks of a lone row below a share.
"""


def is_exact(sql: str) -> bool:
    """Whether the answer without noise is that of the plain engine."""
    return INEXACT.search(sql) is None


def _scope(table: str, alias: str) -> tuple[Column, ...]:
    columns = columns_of(table)
    return tuple(Column(f"{alias}.{c.text}", c.kind, c.bounded, c.base) for c in columns)


def _where(conditions: list[str]) -> str:
    return f" WHERE {' AND '.join(conditions)}" if conditions else ""


def _tests(dice: Dice, table: str, alias: str) -> list[str]:
    """Conditions on the rows of a table: on its columns, and on other rows of its unit."""
    found = [narrowing(dice, _scope(table, alias)) for _ in range(dice.pick((0, 0, 1, 2)))]
    if table != "items" and dice.chance(20):
        other = dice.pick(tuple(INNER))
        inner, unit = narrowing(dice, INNER[other]), f"{alias}.customer_id"
        found.append(dice.pick(SUBQUERIES).format(other=other, unit=unit, inner=inner))
    return found


def _rows(dice: Dice, table: str, value: str) -> str:
    """FROM and WHERE of rows of a table, called r, most of which have the value."""
    there = [f"r.{value} IS NOT NULL"] if dice.chance(75) else []
    conditions = there + _tests(dice, table, "r")
    match dice.pick(("plain", "plain", "joined", "union", "derived")):
        case "joined" if table not in ("items", "customers"):
            kind = dice.pick(("JOIN", *OUTER))
            on = "r.customer_id = c.customer_id"
            if kind == "JOIN" and dice.chance(30):
                on += f" AND {narrowing(dice, _scope('customers', 'c'))}"
            return f"{table} r {kind} customers c ON {on}{_where(conditions)}"
        case "union":
            other = there + _tests(dice, table, "r")
            sides = [f"SELECT * FROM {table} r{_where(tests)}" for tests in (conditions, other)]
            return f"({' UNION ALL '.join(sides)}) r"
        case "derived":
            return f"(SELECT * FROM {table} r{_where(conditions)}) r"
        case _:
            return f"{table} r{_where(conditions)}"


def _around(dice: Dice, inner: str, before: str, after: str) -> str:
    """A query over another one, in FROM or in WITH."""
    if dice.chance(30):
        return f"WITH t AS ({inner}) {before} FROM t{after}"
    return f"{before} FROM ({inner}) t{after}"


def share(dice: Dice) -> str:
    """Rows whose share of rank is compared with a constant."""
    table = dice.pick(tuple(ORDERED))
    value, part = dice.pick(ORDERED[table]), dice.pick(PARTED[table])
    rows, name = _rows(dice, table, value), dice.pick(("CUME_DIST()", "PERCENT_RANK()"))
    within = dice.pick(("", f"PARTITION BY r.{part} "))
    order = dice.pick(("", " DESC", " NULLS FIRST", " DESC NULLS LAST"))
    window = f"{name} OVER ({within}ORDER BY r.{value}{order}) AS c"
    test = f"c {dice.pick(SIGNS)} {dice.pick(SHARES)}"
    if dice.chance(20):
        test = f"{dice.pick(SHARES)} {dice.pick(SIGNS)} c"
    if dice.chance(20):
        return _rejoined(dice, table, window, test)
    tested = f"COUNT(*) FILTER (WHERE {test})", f"SUM(CASE WHEN {test} THEN {value} END)"
    measure = dice.pick(("COUNT(*)", f"SUM({value})", f"COUNT({value})", *tested))
    kept = [] if measure in tested else [test]
    kept += [f"{part} IS NOT NULL"] * dice.chance(15)
    group = dice.pick(("", f" GROUP BY {part}", f" GROUP BY {part} HAVING COUNT(*) > 1"))
    listed = f"{part}, {measure}" if group else measure
    inner = f"SELECT r.{value}, r.{part}, {window} FROM {rows}"
    return _around(dice, inner, f"SELECT {listed}", f"{_where(kept)}{group}")


def _rejoined(dice: Dice, table: str, window: str, test: str) -> str:
    """The same beside the table's own rows, joined by its key."""
    key, number = KEYS[table], dice.pick(ORDERED[table])
    there = f"r.{number} IS NOT NULL"
    rows = f"SELECT r.{key}, {window} FROM {table} r{_where([there, *_tests(dice, table, 'r')])}"
    more = f" AND o.{number} > 1" if dice.chance(30) else ""
    measure = dice.pick(("COUNT(*)", f"SUM(o.{number})"))
    return (
        f"WITH t AS ({rows}) SELECT {measure} FROM {table} o JOIN t ON t.{key} = o.{key}{more}"
        f" WHERE {test}"
    )


def quantile(dice: Dice) -> str:
    """A quantile by ROW_NUMBER and COUNT."""
    table = dice.pick(tuple(ORDERED))
    value, part = dice.pick(ORDERED[table]), dice.pick(PARTED[table])
    within = dice.pick(("", f"PARTITION BY r.{part} "))
    order = dice.pick(("", " DESC", " NULLS FIRST", " DESC NULLS LAST"))
    counted = dice.pick(("*", "*", f"r.{value}"))
    windows = (
        f"ROW_NUMBER() OVER ({within}ORDER BY r.{value}{order}) AS rn,"
        f" COUNT({counted}) OVER ({within.strip()}) AS n"
    )
    least = dice.pick((*(f"{part} * n" for part in SHARES), "n / 4", "n * 0.5"))
    test = f"rn {dice.pick(SIGNS)} {least}"
    if dice.chance(20):
        test = f"{least} {dice.pick(SIGNS)} rn"
    end = dice.pick(("MIN", "MAX"))
    forms = f"(CASE WHEN {test} THEN {value} END)", f"({value}) FILTER (WHERE {test})"
    measure, kept = f"{end}{dice.pick(forms)}", ""
    if dice.chance(20):
        measure, kept = f"AVG({value})", " WHERE rn IN ((n + 1) // 2, (n + 2) // 2)"
    group = f" GROUP BY {part}" if within or dice.chance(10) else ""
    listed = f"{part}, {measure}" if group else measure
    inner = f"SELECT r.{value}, r.{part}, {windows} FROM {_rows(dice, table, value)}"
    return _around(dice, inner, f"SELECT {listed}", f"{kept}{group}")


def average(dice: Dice) -> str:
    """Rows beside the average of their group, or groups beside theirs."""
    table = dice.pick(tuple(ORDERED))
    value, part = dice.pick(ORDERED[table]), dice.pick(PARTED[table])
    within = dice.pick(("", f"PARTITION BY r.{part}"))
    window = f"AVG({dice.pick(('', 'DISTINCT '))}r.{value}) OVER ({within}) AS a"
    inner = f"SELECT r.{value}, r.{part}, {window} FROM {_rows(dice, table, value)}"
    if dice.chance(20):
        return f"SELECT DISTINCT {part}, a FROM ({inner}) t"
    test = dice.pick((f"{value} > a", f"a >= {value}", f"{value} - a > 1", f"NOT {value} > a"))
    group = dice.pick(("", "", f" GROUP BY {part}"))
    listed = f"{part}, COUNT(*)" if group else dice.pick(("COUNT(*)", f"SUM({value})"))
    return _around(dice, inner, f"SELECT {listed}", f" WHERE {test}{group}")


def first_rows(dice: Dice) -> str:
    """The first rows of one unit."""
    table = dice.pick(("orders", "events"))
    value, key = dice.pick(ORDERED[table]), KEYS[table]
    conditions = [f"customer_id = {dice.number(20)}", *_tests(dice, table, "r")]
    order = f"{value}{dice.pick(('', ' DESC', ' NULLS FIRST'))}, {key}"
    limit = f"LIMIT {dice.pick((1, 2))}{dice.pick(('', ' OFFSET 1'))}"
    rows = f"SELECT r.{value}, r.{key} FROM {table} r{_where(conditions)} ORDER BY {order} {limit}"
    return f"SELECT {dice.pick(('COUNT(*)', f'SUM({value})'))} FROM ({rows}) t"


def unmatched(dice: Dice) -> str:
    """Public rows, each with the private rows that it meets."""
    on, table, public, part, key = dice.pick(
        (
            ("c.country = p.code", "customers", "countries", "region", "customer_id"),
            ("c.product_id = p.product_id", "items", "products", "category", "item_id"),
        )
    )
    more = f" AND {narrowing(dice, _scope(table, 'c'))}" if dice.chance(60) else ""
    kept = f" WHERE p.{part} <> 'south'" if dice.chance(20) else ""
    group = dice.pick(("", f" GROUP BY p.{part}", f" GROUP BY p.{part} HAVING COUNT(*) > 1"))
    measure = dice.pick(("COUNT(*)", f"COUNT(*), COUNT(c.{key})"))
    listed = f"p.{part}, {measure}" if group else measure
    return f"SELECT {listed} FROM {public} p LEFT JOIN {table} c ON {on}{more}{kept}{group}"


def joins(dice: Dice) -> str:
    """Joins that make many rows of one unit."""
    tables = [dice.pick(LINKED) for _ in range(dice.pick((3, 4, 5)))]
    text = f"{tables[0]} t0"
    for n, table in enumerate(tables[1:], 1):
        text += _joined(dice, tables, n, table)
    scopes = [_scope(table, f"t{n}") for n, table in enumerate(tables)]
    conditions = [narrowing(dice, scope) for scope in scopes if dice.chance(25)]
    if dice.chance(20):
        one, other = (dice.number(len(tables) - 1) for _ in "12")
        sign = dice.pick(("=", "<>", "<="))
        conditions.append(f"t{one}.customer_id {sign} t{other}.customer_id")
    place = dice.number(len(tables) - 1)
    column, test = dice.pick(scopes[place]).text, narrowing(dice, scopes[place])
    number = dice.pick([c.text for c in scopes[place] if c.bounded] or [f"t{place}.customer_id"])
    measure = dice.pick(
        (
            *("COUNT(DISTINCT t0.customer_id)", f"COUNT(DISTINCT {column})", "COUNT(*)"),
            *(f"COUNT({column})", f"SUM({number})"),
            f"COUNT(DISTINCT {column}) FILTER (WHERE {test})",
            f"COUNT(DISTINCT CASE WHEN {test} THEN t0.customer_id END)",
        )
    )
    if not PARTED[tables[place]] or dice.chance(60):
        return f"SELECT {measure} FROM {text}{_where(conditions)}"
    key = f"t{place}.{dice.pick(PARTED[tables[place]])}"
    group = dice.pick((key, key, f"ROLLUP ({key})", f"{key} HAVING COUNT(*) > 1"))
    return f"SELECT {key}, {measure} FROM {text}{_where(conditions)} GROUP BY {group}"


def _joined(dice: Dice, tables: list[str], n: int, table: str) -> str:
    """One more side, joined with one of those before it."""
    kind, before = dice.pick(("JOIN",) * 7 + OUTER), dice.number(n - 1)
    on = f"t{before}.customer_id = t{n}.customer_id"
    if dice.chance(15):
        on = on.replace("=", "IS NOT DISTINCT FROM")
    sides = _scope(table, f"t{n}"), _scope(tables[before], f"t{before}")
    p, q = (narrowing(dice, dice.pick(sides)) for _ in "12")
    side = table
    if dice.chance(15):
        side = f"(SELECT * FROM {table} r{_where(_tests(dice, table, 'r'))})"
    return f" {kind} {side} t{n} ON {dice.pick(MEETINGS).format(on=on, p=p, q=q)}"


FORMS = (joins, joins, share, share, quantile, average, first_rows, unmatched)


def form(drawn: bytes) -> str:
    """The query that these bytes choose."""
    dice = Dice(drawn)
    return dice.pick(FORMS)(dice)


OTHERWISE = BYTES.map(form)
"""Random queries, most of which are answered in another form."""
