"""Random queries that invite proofs, over random databases that invite wrong ones.

Keys are links, shared by several units, missing or unique but for NULLs; rows name several people,
or are tied; public rows repeat; constants stand on either side. The rows of each database are there
in two orders: engines meet rows in any.
"""

from __future__ import annotations

import tempfile
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

from dpsql.dialects.duckdb.duckdb_dialect import DUCKDB
from dpsql.engines.duckdb.declared_schema import tables as declared
from dpsql.model.schema import Schema
from dpsql.model.vocabulary import Fact, FactKind, Policy, Voucher
from dpsql.policy.bind import bind
from dpsql.policy.load import load
from dpsql.preparation.public_data import PublicTables
from grammar_tests.fuzz_dice import BYTES, Dice
from grammar_tests.laws import PlainEngine
from grammar_tests.link_worlds import LinkedTable, LinkedWorld, chain, crossing
from grammar_tests.proofs import Counting

CHAINS, CROSSINGS = 12, 4
PUBLIC = ((1, 3, "a"), (2, 3, "b"), (2, 10, "a"), (3, -5, "b"), (4, None, "b"), (None, 3, "a"))
"""Rows of `pub (k, w, h)`, of which no column is a key; of `kinds (h, w)` the first is."""

RANKS = (*("ROW_NUMBER()",) * 4, "RANK()", "DENSE_RANK()", "NTILE(2)", "COUNT(*)")
LIMITS = (
    *("{n} = 1", "1 = {n}", "{n} <= 1", "1 >= {n}", "1 <= {n}", "{n} >= 1", "{n} < 2", "2 > {n}"),
    *("1 < {n}", "2 <= {n}", "1 <= {n}", "1 = {n}", "1 <= {n} AND {n} <= 2", "0 <= {n}"),
    *("2 < {n}", "2 >= {n}", "{n} <= 2", "{n} <> 1", "1 <> {n}", "NOT {n} > 1", "NOT 1 < {n}"),
    *("{n} BETWEEN 1 AND 2", "2 BETWEEN 1 AND {n}", "{n} IN (1)", "{n} IN (1, 3)", "-{n} >= -1"),
    *("{n} <= 1.5", "{n} < 1e0", "1 >= {n} AND t.v >= 0", "{n} = 1 OR t.v = 3"),
    *("{n} = 1 OR FALSE", "{n} IS NOT DISTINCT FROM 1", "{n} = 1 OR {n} = 1", "({n} = 1) IS TRUE"),
)
"""Conditions on the number of a row, of which some limit the rows of a unit."""

WITHIN = (
    *("FIRST(r.v ORDER BY r.g)", "MAX(r.v)", "COUNT(*)", "ARG_MIN(r.v, r.g)", "MODE(r.v)"),
    *("LAST(r.v ORDER BY r.g)", "ANY_VALUE(r.v)", "COUNT(DISTINCT r.g)"),
)
JOINED = (
    *("pub AS p ON t.v = p.w", "pub AS p ON p.k = t.v", "kinds AS p ON t.g = p.h"),
    "(SELECT DISTINCT w AS w, 0 AS k FROM pub) AS p ON t.v = p.w",
    "(SELECT k, MAX(w) AS w FROM pub GROUP BY k) AS p ON t.v = p.k",
    "(SELECT h, MAX(w) AS w FROM pub GROUP BY h) AS p ON t.v = p.w",
    "(SELECT w, w AS k FROM pub UNION ALL SELECT w, k FROM pub) AS p ON t.v = p.w",
    "(VALUES (3, 'x'), (3, 'y'), (10, 'x')) AS p(w, k) ON p.w = t.v",
    "(VALUES (3, 'x'), (0, 'y')) AS p(w, k) ON p.w = t.v",
    "kinds AS p USING (g)",
    "pub AS p ON t.v IS NOT DISTINCT FROM p.w",
)
"""Public sides, some of which have a row of one person several times."""


@dataclass(frozen=True, slots=True)
class OddWorld:
    """A database with its rows in two orders, and what is known of its keys."""

    links: LinkedWorld
    policy: Policy
    engines: tuple[Counting, Counting]


@cache
def odd_world(number: int) -> OddWorld:
    """World `number`; every other one has facts of its keys, which hold.

    In the last ones rows name several people, no one of whom more often than a fact says.
    """
    links = _links(number)
    several = [table for table in links.tables if len(table.links) > 1]
    most = max((links.most_rows(table) for table in several), default=None)
    turned = replace(links, rows={name: rows[::-1] for name, rows in links.rows.items()})
    engines = _fresh(links, 1), _fresh(turned, -1)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "dpsql.toml"
        public = '[tables.pub]\naccess = "public"\n[tables.kinds]\naccess = "public"\nkey = "h"\n'
        file.write_text(links.toml(most) + public)
        schema = Schema(declared(engines[0].rows), "here")
        policy = bind(load(str(file)), schema, PublicTables(engines[0], DUCKDB).values)
    bounds = {Fact(FactKind.MAX_ROWS, table.name, Voucher.CHECK) for table in several}
    policy = replace(policy, facts=policy.facts | bounds)
    if number % 2:
        facts = {fact for table in links.tables for fact in _keys(links, table)}
        policy = replace(policy, facts=policy.facts | facts)
    return OddWorld(links, policy, (Counting(policy, engines[0]), Counting(policy, engines[1])))


def _links(number: int) -> LinkedWorld:
    if number >= CHAINS:
        return crossing(2 + number - CHAINS)
    return _with_holes(chain(number)) if number % 4 == 1 else chain(number)


def _with_holes(links: LinkedWorld) -> LinkedWorld:
    """The same with keys that are unique, and missing in two rows of three."""
    rows = dict(links.rows)
    for table in links.tables[1:]:
        if table.key not in {column for column, _ in table.links}:
            keys = (None if n % 3 else n + 1 for n in range(len(rows[table.name])))
            listed = zip(rows[table.name], keys, strict=True)
            rows[table.name] = tuple({**row, table.key: key} for row, key in listed)
    return replace(links, rows=rows)


def _fresh(links: LinkedWorld, step: int) -> PlainEngine:
    """An engine of its own with public tables."""
    engine = links.engine(shared=False)
    engine.connection.execute("CREATE TABLE pub (k INTEGER, w INTEGER, h VARCHAR)")
    engine.connection.executemany("INSERT INTO pub VALUES (?, ?, ?)", PUBLIC[::step])
    engine.connection.execute("CREATE TABLE kinds (h VARCHAR UNIQUE, w INTEGER, g VARCHAR)")
    rows = [("a", 3, "b"), ("b", 3, "b"), (None, 3, "a"), (None, 3, "b")]
    engine.connection.executemany("INSERT INTO kinds VALUES (?, ?, ?)", rows[::step])
    return engine


def _keys(links: LinkedWorld, table: LinkedTable) -> list[Fact]:
    """What is true of a table's key: unique but for NULLs, and never NULL."""
    values = [row[table.key] for row in links.rows[table.name]]
    there = [value for value in values if value is not None]
    found = [FactKind.UNIQUE_KEY] if len(set(there)) == len(there) else []
    if found and len(there) == len(values):
        found.append(FactKind.NOT_NULL_KEY)
    return [Fact(kind, table.name, Voucher.CONSTRAINT) for kind in found]


def query(drawn: bytes) -> tuple[int, str]:
    """The number of a world, and a query about it."""
    dice = Dice(drawn)
    number = dice.number(CHAINS + CROSSINGS - 1)
    links = odd_world(number).links
    table = dice.pick(links.tables[1:])
    of_several = len(table.links) > 1
    if of_several:
        source, numbered = f"{table.name} AS t", False
    else:
        source, numbered = _source(dice, links, table)
    where = [dice.pick(LIMITS).format(n="t.n")] if numbered else []
    if dice.chance(40):
        left = "LEFT " if dice.chance(20) else ""
        source += f" {left}JOIN {dice.pick(JOINED)}"
    elif dice.chance(30) and not of_several:
        source += " JOIN people AS u ON u.pid = t.unit"
    if dice.chance(20):
        where.append(dice.pick(("t.v >= 0", "3 >= t.v", "t.g = 'a'", "0 < t.v")))
    sums = ("COUNT(*)", "COUNT(*), SUM(t.v)", "COUNT(t.v)")
    measures = dice.pick(sums if of_several else (*sums, "COUNT(DISTINCT t.g)"))
    key = dice.pick(("", "", "t.g", "t.v", "t.g, t.v"))
    text = f"SELECT {key + ', ' if key else ''}{measures} FROM {source}"
    text += f" WHERE {' AND '.join(f'({c})' for c in where)}" if where else ""
    return number, text + (f" GROUP BY {key}" if key else "")


def _source(dice: Dice, links: LinkedWorld, table: LinkedTable) -> tuple[str, bool]:
    """Rows with the columns v and g, `t`, and whether they are numbered within their unit."""
    unit, rows = _whose(dice, links, table)
    shape = dice.pick(
        ("numbered", "numbered", "numbered", "numbered", "grouped", "first", "united", "rows")
    )
    order = dice.pick(("r.g", "r.v", "r.g, r.v", f"r.{table.key}", "1"))
    inner = f"SELECT r.v, r.g, {unit} AS unit"
    match shape:
        case "numbered":
            more = dice.pick(("", "", "", ", r.g", f", r.{table.key}"))
            over = f"(PARTITION BY {unit}{more} ORDER BY {order})"
            return f"({inner}, {dice.pick(RANKS)} OVER {over} AS n FROM {rows}) AS t", True
        case "grouped":
            more = dice.pick(("", ", r.g", ", r.v"))
            listed = f"SELECT {unit} AS unit, {dice.pick(WITHIN)} AS v, MIN(r.g) AS g"
            return f"({listed} FROM {rows} GROUP BY {unit}{more}) AS t", False
        case "first":
            first = inner.replace("SELECT", f"SELECT DISTINCT ON ({unit})")
            return f"({first} FROM {rows} ORDER BY {unit}, {order}) AS t", False
        case "united":
            return f"({inner} FROM {rows} UNION ALL {inner} FROM {rows} WHERE r.v > 0) AS t", False
        case _:
            return f"({inner} FROM {rows}) AS t", False


def _whose(dice: Dice, links: LinkedWorld, table: LinkedTable) -> tuple[str, str]:
    """A column that names the unit or what is between, and rows `r` with it."""
    column, above = dice.pick(table.links)
    if above == "people" or dice.chance(40):
        return f"r.{column}", f"{table.name} AS r"
    parent = links.table(above)
    up, _ = dice.pick(parent.links)
    kind = dice.pick(("", "", "LEFT "))
    return f"m.{up}", f"{table.name} AS r {kind}JOIN {above} AS m ON r.{column} = m.{parent.key}"


PROOFS = BYTES.map(query)
"""Random worlds and queries."""
