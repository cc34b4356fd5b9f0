"""Random databases of a ward, from the empty one on, and the policies that hold for them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from random import Random
from typing import Any

import duckdb

from dpsql.model.tree import INTEGER, VARCHAR
from dpsql.model.vocabulary import (
    ColumnPolicy,
    Fact,
    FactKind,
    Link,
    Policy,
    PrivacyUnit,
    TablePolicy,
    Voucher,
)
from grammar_tests.bound import shop

TEXT = {"city", "area", "zone"}
COLUMNS = {
    "people": "pid city n",
    "visits": "vid pid day hadm",
    "labs": "lid vid x",
    "cards": "pid colour",
    "areas": "city area",
    "zones": "city zone",
}
LINKS = {
    "visits": Link("pid", "people", "pid"),
    "labs": Link("vid", "visits", "vid"),
    "cards": Link("pid", "people", "pid"),
}
KEYS = {"people": "pid", "visits": "vid", "labs": "lid", "areas": "city"}
UNITS = (1, 2, 3)


def table(name: str) -> TablePolicy:
    columns = COLUMNS[name].split()
    return TablePolicy(
        name,
        private=name not in ("areas", "zones"),
        columns=tuple(ColumnPolicy(c, VARCHAR if c in TEXT else INTEGER) for c in columns),
        key=(KEYS[name],) if name in KEYS else (),
        link=LINKS.get(name),
        max_rows_per_unit={"visits": 2, "cards": 1}.get(name),
        determining=(("hadm",),) if name == "visits" else (),
    )


def fact(kind: FactKind, about: str) -> Fact:
    return Fact(kind, about, Voucher.CHECK)


KEYED = [fact(kind, t) for kind in (FactKind.UNIQUE_KEY, FactKind.NOT_NULL_KEY) for t in KEYS]
BOUNDS = [fact(FactKind.MAX_ROWS, "visits"), fact(FactKind.MAX_ROWS, "cards")]
FACTS = frozenset([*KEYED, *BOUNDS])
WHOLE = FACTS | {
    fact(FactKind.LINK_RESOLVES, "visits"),
    fact(FactKind.NOT_NULL_LINK, "visits"),
    fact(FactKind.ONE_UNIT, "visits.(hadm)"),
}
NO_KEYS = frozenset(BOUNDS)
MAYBE_NULL = FACTS - {fact(FactKind.NOT_NULL_KEY, t) for t in KEYS}


def policy(facts: frozenset[Fact]) -> Policy:
    tables, unit = tuple(map(table, COLUMNS)), PrivacyUnit("people", "pid")
    return replace(shop()[0], tables=tables, unit=unit, facts=facts, store=None)


# --- databases ---


def rows_of(dice: Random, facts: frozenset[Fact], *, few: bool) -> dict[str, list[Any]]:
    """Random rows for which the facts hold; the first seeds have none, or next to none."""
    held = {(f.kind, f.table) for f in facts}

    def nullable(name: str) -> bool:
        return (FactKind.NOT_NULL_KEY, name) not in held

    def unique(name: str) -> bool:
        return (FactKind.UNIQUE_KEY, name) in held

    units = dice.sample(UNITS, dice.randint(0, 3) if few else 3)
    people = [(pid, dice.choice("ab"), dice.randint(0, 2)) for pid in units]
    visits, labs = list[Any](), list[Any]()
    whole = (FactKind.NOT_NULL_LINK, "visits") in held
    for _ in range(dice.randint(0, 3) if few else 12):
        pid: int | None = dice.choice([*units, *([] if whole else [None, None, 9, 9])] or [0])
        if pid == 0 or (pid in units and [v[1] for v in visits].count(pid) == 2):
            continue
        vid: int | None = len(visits) + 1 if unique("visits") else dice.randint(1, 3)
        vid = None if nullable("visits") and not dice.randint(0, 2) else vid
        whose = pid if pid in units and pid else dice.choice([*units, 0])
        hadm = dice.choice([None, 10 * whose + dice.randint(0, 1)])
        visits.append((vid, pid, dice.randint(0, 1), hadm))
    for lid in range(dice.randint(0, 7)):
        vid = dice.choice([None, 77, *(v[0] for v in visits)])
        labs.append((lid, vid, dice.randint(0, 1)))
    cards: list[Any] = [(unit, dice.randint(0, 1)) for unit in units if dice.randint(0, 1)]
    cards += [(dice.choice([None, 9]), 1) for _ in range(dice.randint(0, 2))]
    areas = [("a", "north"), ("b", "south")]
    zones = [("a", "x"), ("a", "y"), ("b", "x")]
    return {
        "people": people,
        "visits": visits,
        "labs": labs,
        "cards": cards,
        "areas": areas,
        "zones": zones,
    }


SEEDS = 12


@cache
def databases(facts: frozenset[Fact]) -> duckdb.DuckDBPyConnection:
    """Schemas of random rows, the first ones empty, and of each without one unit or another."""
    connection = duckdb.connect()
    connection.execute("SET threads = 1")
    for seed in range(SEEDS):
        rows = rows_of(Random(seed), facts, few=seed < SEEDS // 2)  # noqa: S311
        for gone in (0, *UNITS):
            connection.execute(f"CREATE SCHEMA s{seed}_{gone}; SET schema = 's{seed}_{gone}'")
            for name, columns in COLUMNS.items():
                kinds = (f"{c} {'VARCHAR' if c in TEXT else 'INTEGER'}" for c in columns.split())
                values = ", ".join(str(row).replace("None", "NULL") for row in rows[name])
                connection.execute(f"CREATE TABLE {name} ({', '.join(kinds)})")
                if values:
                    values = values.replace(",)", ")")
                    connection.execute(f"INSERT INTO {name} VALUES {values}")
            for delete in without(gone):
                connection.execute(delete)
    return connection


def counted(sql: str, facts: frozenset[Fact], seed: int, gone: int = 0) -> list[tuple[Any, ...]]:
    """The rows of a text in one database, without a unit."""
    connection = databases(facts)
    connection.execute(f"SET schema = 's{seed}_{gone}'")
    return connection.execute(sql).fetchall()


def without(unit: int) -> Iterator[str]:
    """Deletes the rows of which some path of links leads to a unit."""
    visits = f"SELECT vid FROM visits WHERE pid = {unit} AND vid IS NOT NULL"
    yield f"DELETE FROM labs WHERE vid IN ({visits})"
    yield from (f"DELETE FROM {name} WHERE pid = {unit}" for name in ("visits", "cards", "people"))
