"""The closed list of reasons for which tests are skipped, and where each is admitted.

`conftest.py` turns any other skip into a failure. Where CI is set, as by `.ci/run`, a test may be
skipped for want of a program only if DPSQL_ABSENT names it: `.ci/run` could not install it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

ANYWHERE = ""
PACKAGES = "packages"
"""What the extra `test-all` installs."""

REASONS = {
    r"a fault of \w+ from ": ANYWHERE,
    "the DuckDB that is installed is older than what the case speaks of": ANYWHERE,
    "the corpus of BI queries is not here": ANYWHERE,
    "it has one stage": ANYWHERE,
    "the extra synth is not installed": ANYWHERE,
    "ibis is not installed": ANYWHERE,
    r"\w+\.py needs a server: ": ANYWHERE,
    r"jupysql_session\.py needs sql, which is not installed": ANYWHERE,
    "systemd is not installed": ANYWHERE,
    r"slices are asked for from Linux 6\.12 on": ANYWHERE,
    "(needs|this system has no|SIGINT is|other systems|niceness of threads)": ANYWHERE,
    "pip cannot install": ANYWHERE,
    "DPSQL_SPARK_URL names no": ANYWHERE,
    "the extra (plot|learn|png|mcp|oidc) is not installed": PACKAGES,
    "the parquet extra is not installed": PACKAGES,
    "OpenDP is an oracle of the test extra": PACKAGES,
    "the grocer's data are not installed": PACKAGES,
    "pysail and pyspark-client are not installed": PACKAGES,
    "adbc-driver-postgresql is not installed": PACKAGES,
    "(psycopg [23]|asyncpg|pg8000|SQLAlchemy, pandas, polars|ADBC) is not installed": PACKAGES,
    "mutmut is not installed": PACKAGES,
    "could not import 'sqlalchemy'": PACKAGES,
    "PostgreSQL 15 is not installed": "PostgreSQL",
    "psql is not installed": "PostgreSQL",
    "pgjdbc (needs|is not installed)": "pgjdbc",
    "psqlODBC (needs|is not installed)": "psqlODBC",
    "pgcli is not installed": "pgcli",
    "(node needs|Node.js is not|node-postgres is not|Sequelize is not)": "node-postgres",
    "Chromium is not installed": "Chromium",
    "logrotate is not installed": "logrotate",
    "pgbouncer is not installed": "pgbouncer",
}
"""Per reason, as a pattern of how it begins: the program that is missing."""


def complaint(reason: str, environment: Mapping[str, str]) -> str:
    """What is wrong with a skip for this reason on this machine; "" if it is admitted.

    >>> complaint("psql is not installed", {"CI": "true", "DPSQL_ABSENT": "PostgreSQL,pgcli"})
    ''
    >>> complaint("psql is not installed", {"CI": "true"})
    'this machine should have PostgreSQL'
    >>> complaint("systemd is not installed", {"CI": "true"})
    ''
    >>> complaint("psql is not installed", {})
    ''
    >>> complaint("it is late", {})
    'the reason is not in grammar_tests/skips.py'
    """
    for pattern, program in REASONS.items():
        if re.match(pattern, reason):
            absent = environment.get("DPSQL_ABSENT", "").split(",")
            if not program or "CI" not in environment or program in absent:
                return ""
            return f"this machine should have {program}"
    return "the reason is not in grammar_tests/skips.py"
