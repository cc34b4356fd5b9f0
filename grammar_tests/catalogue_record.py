"""`python -m grammar_tests.catalogue_record`: read PostgreSQL 15's own catalogues into data files.

What is recorded are facts about a server nobody has used: names, oids, types. What varies with the
machine is left out, and so is what is prose or code (descriptions, definitions of views, bodies).
"""

from __future__ import annotations

import subprocess

from dpsql.interfaces.pgwire.catalogue.recorded import FOLDER
from grammar_tests.postgres_kit import BIN, DATABASE, OWNER, Postgres, running

FIRST_USER_OID = 16384
CONSTANT = {
    "relpages": "0",
    "reltuples": "-1",
    "relallvisible": "0",
    "relfilenode": "0",
    "relfrozenxid": "'0'::xid",
    "relminmxid": "'0'::xid",
    "attmissingval": "NULL",
    "prosrc": "CASE WHEN prolang = 12 OR prolang = 13 THEN prosrc ELSE '' END",
    "probin": "NULL",
    "prosqlbody": "NULL",
    "proargdefaults": "NULL",
    "conbin": "NULL",
    "indexprs": "NULL",
    "indpred": "NULL",
    "short_desc": "''",
    "extra_desc": "NULL",
    "source": "'default'",
    "setting": "boot_val",
    "reset_val": "boot_val",
    "sourcefile": "NULL",
    "sourceline": "NULL",
    "pending_restart": "false",
    "typdefaultbin": "NULL",
    "datfrozenxid": "'0'::xid",
    "datminmxid": "'1'::xid",
}
"""What is recorded in place of columns whose values vary, or are prose or code."""

NO_TOAST = "relnamespace <> 99"
KEPT = {
    "pg_aggregate": "true",
    "pg_am": "true",
    "pg_attribute": "attrelid IN (SELECT oid FROM pg_class WHERE relnamespace <> 99)",
    "pg_authid": "true",
    "pg_auth_members": "true",
    "pg_cast": "true",
    "pg_class": NO_TOAST,
    "pg_collation": "collprovider <> 'i' AND collname NOT LIKE '%.%' AND oid < 13000",
    "pg_constraint": "true",
    "pg_conversion": "true",
    "pg_database": "datistemplate",
    "pg_extension": "true",
    "pg_index": "indrelid IN (SELECT oid FROM pg_class WHERE relnamespace <> 99)",
    "pg_language": "true",
    "pg_namespace": "true",
    "pg_opclass": "true",
    "pg_operator": "true",
    "pg_opfamily": "true",
    "pg_proc": "true",
    "pg_range": "true",
    "pg_settings": "context <> 'internal' OR name NOT LIKE '%data%'",
    "pg_tablespace": "true",
    "pg_ts_config": "true",
    "pg_ts_dict": "true",
    "pg_ts_parser": "true",
    "pg_ts_template": "true",
    "pg_type": "true",
}
"""The relations whose rows are recorded, and which of their rows."""

FUNCTIONS = {
    "pg_get_keywords": "SELECT word, catcode, barelabel, '', '' FROM pg_get_keywords() ORDER BY 1",
    "definitions": "SELECT 'constraint', oid, pg_get_constraintdef(oid) FROM pg_constraint"
    " UNION ALL SELECT 'index', indexrelid, pg_get_indexdef(indexrelid) FROM pg_index"
    f" WHERE indrelid IN (SELECT oid FROM pg_class WHERE {NO_TOAST})"
    " UNION ALL SELECT 'result', oid, pg_get_function_result(oid) FROM pg_proc"
    " UNION ALL SELECT 'arguments', oid, pg_get_function_arguments(oid) FROM pg_proc"
    " ORDER BY 1, 2",
}
"""What only functions tell: the keywords, and definitions (kind, OID of the object, text)."""


def record(server: Postgres) -> None:
    """Write one file per relation: a header of names, then rows as COPY writes them."""
    for relation, condition in KEPT.items():
        listed = _psql(
            server,
            "SELECT attname, CASE atttypid WHEN 'regproc'::regtype THEN '::oid' END"
            f" FROM pg_attribute WHERE attnum > 0 AND attrelid = '{relation}'::regclass"
            " ORDER BY attnum",
        )
        columns = [line.split("|") for line in listed.splitlines()]
        names = [name for name, _ in columns]
        chosen = ", ".join(CONSTANT.get(name, f'"{name}"{cast}') for name, cast in columns)
        order = "attrelid, attnum" if relation == "pg_attribute" else "1"
        rows = _psql(
            server,
            f"COPY (SELECT {chosen} FROM {relation} WHERE {condition} ORDER BY {order}) TO STDOUT",
        )
        (FOLDER / f"{relation}.tsv").write_text("\t".join(names) + "\n" + rows, encoding="utf-8")
    for name, sql in FUNCTIONS.items():
        (FOLDER / f"{name}.tsv").write_text(_psql(server, f"COPY ({sql}) TO STDOUT"), "utf-8")


def _psql(server: Postgres, sql: str) -> str:
    command = [BIN / "psql", "-XAtq", "-h", server.folder, "-U", OWNER, "-d", DATABASE, "-c", sql]
    done = subprocess.run(  # noqa: S603 - psql of the server's package, our own statements
        list(map(str, command)), check=True, capture_output=True, text=True, timeout=60
    )
    return done.stdout


if __name__ == "__main__":
    with running() as server:
        record(server)
