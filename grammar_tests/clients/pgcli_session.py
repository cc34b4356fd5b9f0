"""What pgcli asks for its completions, its own commands, and statements typed into it."""

from __future__ import annotations

import os
from typing import Any

from pgcli.pgexecute import PGExecute
from pgspecial.main import PGSpecial
from psycopg import Error

from grammar_tests.clients.asked import BY_SEGMENT, CODES, CONSTANTS, SLOW, quiet, tell, until_done

SHOWN = ("\\dt", "\\d orders", "\\d countries", "\\d+ customers", "\\dn", "\\du", "\\dv", "\\di")


def run(session: Any, sql: str) -> list[Any]:
    told = []
    for title, rows, headers, status, *_ in session.run(sql, PGSpecial()):
        found = None if rows is None else quiet(headers, [list(row) for row in rows])
        # pgcli shows notices above a table: dpsql's say what was clipped, PostgreSQL has none.
        above = "" if title is None or title.startswith("\nvalues in mean are clipped") else title
        told.append([str(above), headers, found, status])
    return told


def state(session: Any, sql: str) -> str:
    try:
        run(session, sql)
    except Error as error:
        return str(error.sqlstate)
    return "answered"


def completions(session: Any) -> None:
    for name in ("search_path", "schemata", "tables", "views", "databases"):
        tell(name, sorted(map(repr, getattr(session, name)())))
    for name in ("table_columns", "foreignkeys"):
        found = sorted(getattr(session, name)())
        tell(name, [repr(row) for row in found if "pg_" not in str(row)])
    tell("datatypes", sorted(map(repr, session.datatypes())))
    own = [f for f in session.functions() if f.func_name in ("abs", "now", "sum", "date_part")]
    tell("functions", sorted(repr((f.func_name, f.arg_types, f.return_type)) for f in own))


def main() -> None:
    where = [os.environ[f"PG{name}"] for name in ("DATABASE", "USER", "PASSWORD", "HOST", "PORT")]
    session = PGExecute(*where)
    tell("connection", [session.user, session.server_version[:2], session.superuser])
    completions(session)
    for command in SHOWN:
        tell(command, run(session, command))
    for sql in (CODES, CONSTANTS, BY_SEGMENT.format(30), f"{CODES}; SELECT 'two' AS two"):
        tell(sql, run(session, sql))
    steps = ("BEGIN", "SELECT nothing FROM customers", CODES, "ROLLBACK", CODES)
    tell("failure", [state(session, sql) for sql in steps])
    tell("cancel", until_done(lambda: state(session, SLOW), session.conn.cancel))
    tell("after cancel", run(session, CODES))


if __name__ == "__main__":
    main()
