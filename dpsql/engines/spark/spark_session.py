"""A session with a Spark Connect server: configured, tested, over files that must not change.

A statement is one query. Nothing is created or stored, and the server's catalogue is not read. The
files are compared before and after it; if they changed, its result is discarded. No text of the
server leaves this file, only a key of `spark_server.WHY`. The code runs in the child process.

SECURITY.md S5, S9, S11, S28. Computing again over the same rows gives the same result: PRIVACY.md
R89.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from dpsql.engines.duckdb.files import CannotOpen
from dpsql.engines.duckdb.parquet_statistics import require_true_statistics_of
from dpsql.engines.reading_worker import CannotRead, DataMoved
from dpsql.engines.spark import spark_server
from dpsql.engines.spark.statements import KEY, in_backticks

TAG = "dpsql"
RETRIES = 4
"""Retries after a server's temporary refusal, all within a second."""
_FIRST = (3, 5)
"""First supported version."""

_SETTINGS = {
    "spark.sql.ansi.enabled": "true",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.variable.substitute": "false",
    "spark.sql.parquet.inferTimestampNTZ.enabled": "true",
    "spark.sql.decimalOperations.allowPrecisionLoss": "true",
    "spark.sql.groupByOrdinal": "true",
}
"""Settings of a session; each is set and read back."""

_FIRST_TIME, _LAST_TIME = "'0001-01-01 00:00:00'", "'9999-12-31 23:59:59.999999'"
_FAILING = {
    # The length of a text that was read is never negative, so this only makes Spark read it.
    "string": "COUNT(CASE WHEN octet_length({}) < 0 THEN 1 END)",
    **{
        kind: f"COUNT(CASE WHEN {{0}} NOT BETWEEN {literal} {_FIRST_TIME} AND {literal}"
        f" {_LAST_TIME} THEN 1 END)"
        for kind, literal in (("timestamp_ntz", "TIMESTAMP_NTZ"), ("timestamp", "TIMESTAMP"))
    },
}
"""Expression by type that counts values on which statements fail; or it fails itself."""

_TRUSTED = (
    (
        "SELECT SUM(CAST(v AS DECIMAL(19,0))) = 18446744073709551614BD"
        " FROM (VALUES (9223372036854775807L), (9223372036854775807L)) AS t(v)"
    ),
    (
        "SELECT CAST(9223372036854775807L AS DECIMAL(19,0)) * CAST(v AS DECIMAL(19,0))"
        " = 85070591730234615847396907784232501249BD FROM (VALUES (9223372036854775807L)) AS t(v)"
    ),
    (
        "SELECT a % b = -1BD AND a - a % b = -4611686018427387904BD * b"
        " AND FLOOR(CAST(a AS DOUBLE) / CAST(b AS DOUBLE) + 0.5D) = -4611686018427387904L"
        " AND FLOOR(2.5D) = 2 FROM (VALUES (CAST(-21267647932558653966460912964485513217BD"
        " AS DECIMAL(38,0)), CAST(4611686018427387904BD AS DECIMAL(38,0)))) AS t(a, b)"
    ),
    ("SELECT a div 2L = -3L AND a % 2L = -1L FROM (VALUES (-7L)) AS t(a)"),
    (
        "SELECT n > i AND n = n AND -z = z AND a + b = 0.30000000000000004D AND a / NULLIF(z, 0D)"
        " IS NULL AND FLOOR(-0.5D) = -1 FROM (VALUES (CAST('NaN' AS DOUBLE),"
        " CAST('Infinity' AS DOUBLE), 0D, 0.1D, 0.2D)) AS t(n, i, z, a, b)"
    ),
    (
        "SELECT round(a) = 3 AND round(-a) = -3 AND bround(CAST(a AS DOUBLE)) = 2"
        " AND try_cast(a * 100BD AS DECIMAL(3,2)) IS NULL"
        " AND try_cast(round(a, 0) AS DECIMAL(3,0)) = 3"
        " FROM (VALUES (2.5BD)) AS t(a)"
    ),
    (
        "SELECT try_cast(a AS BIGINT) IS NULL AND a > 'B' AND b > 'z' AND char_length(b) = 1"
        " AND b LIKE '_' ESCAPE '~' FROM (VALUES ('a', CAST(X'c3a4' AS STRING))) AS t(a, b)"
    ),
    "SELECT md5(a) = '314b3f15a2430e36ed814601f55a7649' FROM (VALUES ('dpsql')) AS t(a)",
    "SELECT '${spark.sql.ansi.enabled}' = concat('$', '{spark.sql.ansi.enabled}')",
    (
        "SELECT dayofweek(d) = 1 AND datediff(d, DATE '2024-02-28') = 4 AND weekofyear(d) = 9"
        " AND unix_micros(CAST(t AS TIMESTAMP)) = 1709424000000001"
        " FROM (VALUES (DATE '2024-03-03', TIMESTAMP_NTZ '2024-03-03 00:00:00.000001')) AS t(d, t)"
    ),
    (
        "SELECT SUM(p) = 7 AND COUNT(*) FILTER (WHERE p = 2) = 2 FROM"
        " (SELECT COUNT(*) OVER (PARTITION BY u ORDER BY h) AS p"
        " FROM (VALUES (1, 'a'), (1, 'a'), (1, 'b')) AS t(u, h)) AS s"
    ),
    (
        "SELECT COUNT(*) = 2 AND SUM(z) = 2 FROM (SELECT x, COUNT(*) AS z FROM (VALUES"
        " (CAST('NaN' AS DOUBLE)), (CAST('NaN' AS DOUBLE)), (CAST(NULL AS DOUBLE))) AS t(x)"
        " WHERE x IS NOT NULL GROUP BY x UNION ALL SELECT 1D, 0L) AS s"
    ),
)
"""Queries of the properties that proofs rely on; each returns one true value."""


class SparkReading:
    """One session over the files of the settings. Raises `CannotRead`."""

    def __init__(
        self, settings: spark_server.SparkSettings, shared: spark_server.Signature | None = None
    ) -> None:
        self._settings = settings
        try:
            self.accepted = spark_server.stamp_files(settings.files)
        except OSError:
            raise CannotRead("missing") from None
        if shared is not None and shared != self.accepted:
            raise CannotRead("changed")
        try:
            self._session = _connected(settings)
            _require(self._session)
        except CannotRead:
            raise
        except Exception:  # noqa: BLE001 - its text may quote data
            raise CannotRead("unreadable") from None

    def same(self) -> None:
        """Raise `DataMoved` if the files are not those that were opened."""
        try:
            now = spark_server.stamp_files(self._settings.files)
        except OSError:
            now = ()
        if now != self.accepted:
            raise DataMoved

    def columns(self, sql: str, parameters: dict[str, str] | None = None) -> list[tuple[str, str]]:
        """Return the names and types of a statement's columns, without running it."""
        fields = self._query(sql, parameters).schema.fields
        return [(field.name, field.dataType.simpleString()) for field in fields]

    def run(self, sql: str, parameters: dict[str, str] | None = None) -> Any:
        """Return the rows of one statement, as an Arrow table. Raises `DataMoved`."""
        self.same()
        rows = self._query(sql, parameters).toArrow()
        self.same()
        return rows

    def _query(self, sql: str, parameters: dict[str, str] | None) -> Any:
        return _query(self._session, sql, parameters or {})

    def verify(self, path: str) -> None:
        """Raise `CannotRead` if a file has values on which a reader or a function fails, or wrong
        statistics, by which a server skips rows (PRIVACY.md R100).
        """
        tests = [
            _FAILING[kind].format(in_backticks(name))
            for name, kind in self.columns(f"SELECT * FROM parquet.{in_backticks(path)}")
            if kind in _FAILING
        ]
        try:
            rows = f"SELECT {', '.join(tests)} FROM parquet.{in_backticks(path)}"
            counts = self.run(rows).to_pylist()[0].values() if tests else ()
        except DataMoved:
            raise
        except Exception:  # noqa: BLE001 - its text may quote data
            raise CannotRead("values") from None
        if any(counts):
            raise CannotRead("values")
        try:
            require_true_statistics_of(spark_server.parquet_files(path))
        except CannotOpen as error:
            raise CannotRead(error.why) from None

    def back(self) -> None:
        """Do nothing: a statement does not change the session's state."""

    def ping(self) -> None:
        """Raise an error if the server is gone."""
        self._query("SELECT 1", None).toArrow()

    def cancel(self) -> None:
        """Ask the server to stop what runs."""
        self._session.interruptTag(TAG)


def _query(session: Any, sql: str, parameters: Mapping[str, str]) -> Any:
    """Return a statement in the one form that servers from 3.5 on read.

    It is a relation with constants as parameters. A server of 3.5 takes the own form of a client of
    4 for an empty text.
    """
    from pyspark.sql.connect.dataframe import DataFrame  # noqa: PLC0415 - see below
    from pyspark.sql.connect.plan import SQL  # noqa: PLC0415 - see below

    class Query(SQL):
        def plan(self, session: Any) -> Any:
            relation = super().plan(session)
            for name, value in parameters.items():
                relation.sql.args[name].string = value
            return relation

    return DataFrame(Query(sql), session)


def _connected(settings: spark_server.SparkSettings) -> Any:
    token = settings.token
    if settings.token_file:
        path = Path(settings.token_file).expanduser()
        if spark_server.is_open(path):
            raise CannotRead("open")
        token = path.read_text().strip()
    url = settings.url
    if token:
        url = f"{url.rstrip('/;')}{'' if '/;' in url else '/'};token={token}"
    # A part of it looks for a local Spark, and ends the process if there is none.
    os.environ["SPARK_HOME"] = "none"
    from pyspark.sql import SparkSession  # noqa: PLC0415 - see above
    from pyspark.sql.connect.client.retries import DefaultPolicy  # noqa: PLC0415

    session = SparkSession.builder.remote(url).create()
    session.client.set_retry_policies([DefaultPolicy(max_retries=RETRIES)])
    session.addTag(TAG)
    return session


def _require(session: Any) -> None:
    """Raise `CannotRead` if the server fails a test."""
    version = tuple(map(int, re.findall(r"\d+", session.version)[:2]))
    if version < _FIRST:
        raise CannotRead("old")
    for name, value in _SETTINGS.items():
        with suppress(Exception):
            session.conf.set(name, value)
        if session.conf.get(name, "") != value:
            raise CannotRead("settings")
    key = _query(session, f"SELECT :{KEY} = '7'", {KEY: "7"})
    for query in (key, *(_query(session, sql, {}) for sql in _TRUSTED)):
        try:
            rows = query.toArrow().to_pylist()
        except Exception:  # noqa: BLE001 - an engine that cannot say it
            rows = []
        if [list(row.values()) for row in rows] != [[True]]:
            raise CannotRead("untrusted")
