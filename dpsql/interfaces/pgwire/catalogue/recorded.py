r"""PostgreSQL 15's own catalogue, recorded from a fresh server (see data/).

Each relation has a file: a header of column names, then rows in the format of COPY (tabs between
fields, `\N` for NULL). `python -m grammar_tests.catalogue_record` recorded them.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

from dpsql.interfaces.pgwire.catalogue.translation.pg_terms import PgColumn

FOLDER = Path(__file__).parent / "data"
SCHEMAS = {"11": "pg_catalog", "13207": "information_schema"}
ZERO_BASED = frozenset((22, 30))
"""Types of vectors that count from 0: int2vector and oidvector."""

_EVERYONE = re.compile(r"[{,]=[a-zA-Z]*r")
"""Pattern of an ACL that grants to everybody: an entry without a role."""

KEYWORDS = ("word", 25), ("catcode", 18), ("barelabel", 16), ("catdesc", 25), ("baredesc", 25)
DEFINITIONS = ("kind", 25), ("oid", 26), ("definition", 25)


@cache
def body(name: str) -> str:
    """Return the rows of a file as text, without the header; empty if there is no file."""
    path = FOLDER / f"{name.removesuffix('_recorded')}.tsv"
    if not path.exists():
        return ""
    text = path.read_text(encoding="utf-8")
    return text if name in ("definitions", "pg_get_keywords") else text.partition("\n")[2]


def sql(name: str) -> str:
    """Return a file of the shadow's own SQL."""
    return (FOLDER.parent / "sql" / name).read_text(encoding="utf-8")


def rows(name: str) -> list[dict[str, str]]:
    """Return the rows of a relation, as dicts by column name."""
    path = FOLDER / f"{name}.tsv"
    header, *lines = path.read_text(encoding="utf-8").splitlines()
    names = header.split("\t")
    return [dict(zip(names, line.split("\t"), strict=True)) for line in lines]


@cache
def relations() -> dict[tuple[str, str], tuple[PgColumn, ...]]:
    """Return the columns of each table and view of pg_catalog and information_schema.

    A column of a domain has the base type, as clients see it.

    >>> relations()["pg_catalog", "pg_index"][14].name
    'indisreplident'
    """
    classes = {
        r["oid"]: (SCHEMAS[r["relnamespace"]], r["relname"])
        for r in rows("pg_class")
        if r["relkind"] in "rv"
    }
    domains = {
        r["oid"]: (int(r["typbasetype"]), int(r["typtypmod"]))
        for r in rows("pg_type")
        if r["typtype"] == "d"
    }
    columns_of: dict[tuple[str, str], list[PgColumn]] = {key: [] for key in classes.values()}
    for row in rows("pg_attribute"):
        key = classes.get(row["attrelid"])
        if key is None or int(row["attnum"]) < 1:
            continue
        plain = int(row["atttypid"]), int(row["atttypmod"])
        oid, typmod = domains.get(row["atttypid"], plain)
        columns_of[key].append(PgColumn(row["attname"], oid, typmod, oid in ZERO_BASED))
    return {key: tuple(columns) for key, columns in columns_of.items()}


@cache
def readable() -> frozenset[tuple[str, str]]:
    """Return the relations that everybody may read."""
    return frozenset(
        (SCHEMAS[r["relnamespace"]], r["relname"])
        for r in rows("pg_class")
        if r["relkind"] in "rv" and _EVERYONE.search(r["relacl"])
    )
