"""Laying out changes whitespace alone: DuckDB reads the same tokens, and the same tree.

What every case prints is laid out in test_cases.
"""

from __future__ import annotations

import re
from itertools import pairwise

import duckdb
import pytest

from dpsql.interfaces.sql_layout import laid_out

ODD = (
    "SELECT 'a  b', 'it''s (', \"odd \"\"name)\" FROM t WHERE x = ')'",
    "SELECT 'two\n  lines' AS a, b FROM t",
    "SELECT {'h': hash($sampling_key::UBIGINT, x), 'x': x}, l[1:400], 1.5e-3 - -2 FROM t",
    "SELECT CASE x WHEN 1 THEN CASE WHEN y THEN 2 END ELSE 3 END FROM t WHERE a BETWEEN 1 AND 2",
    "SELECT * FROM a LEFT JOIN b ON a.x = b.x, c WHERE EXISTS (SELECT 1 FROM d) OR y IN (1, 2)",
    "WITH t AS (SELECT 1 AS a UNION ALL SELECT 2) SELECT a FROM t ORDER BY a DESC LIMIT 3 OFFSET 1",
    f"SELECT {' + '.join(f'column_{n}' for n in range(30))} AS total FROM t",
    f"SELECT {'(' * 150}1{')' * 150}",
)


def tokens(sql: str) -> list[str]:
    """The tokens that DuckDB finds in a text."""
    starts = [start for start, _ in duckdb.tokenize(sql)]
    return [sql[a:b].strip() for a, b in pairwise([*starts, len(sql)])]


def tree(sql: str) -> str:
    """What DuckDB reads in a text, without the places where it stands."""
    ((read,),) = duckdb.execute("SELECT json_serialize_sql(?)", [sql]).fetchall()
    assert '"error":false' in read
    return re.sub(r'"query_location(_length)?":\d+', "", read)


@pytest.mark.parametrize("width", [10, 40, 80])
@pytest.mark.parametrize("sql", ODD)
def test_only_whitespace_changes(sql: str, width: int) -> None:
    shown = laid_out(sql, width)
    assert tokens(shown) == tokens(sql)
    assert tree(shown) == tree(sql)


def test_wrong_twin_a_layout_that_breaks_a_constant_would_be_seen() -> None:
    def broken(sql: str) -> str:
        return "\n".join(sql.split())

    assert tokens(broken(ODD[0])) != tokens(ODD[0])
    assert tree(broken(ODD[0])) != tree(ODD[0])
    assert tokens(broken(ODD[3])) == tokens(ODD[3])


@pytest.mark.parametrize(
    "sql", ["SELECT 1 -- why\n", "SELECT /* a */ 1", "SELECT (1", "SELECT 1)", "SELECT $$a b$$"]
)
def test_what_is_not_understood_stays_as_it_is(sql: str) -> None:
    assert laid_out(sql, 1) == sql


def test_a_statement_is_indented() -> None:
    sql = (
        'WITH rows AS (SELECT t1."segment" AS k0, t1."amount" AS x0 FROM "orders" AS t1 INNER '
        'JOIN "customers" AS t2 ON t1.c1 = t2.c2) SELECT k0, SUM(CASE WHEN x0 < 0 THEN 0 WHEN x0 '
        "> 500 THEN 500 ELSE x0 END) AS p0 FROM rows GROUP BY k0"
    )
    expected = """\
WITH rows AS (
  SELECT t1."segment" AS k0, t1."amount" AS x0
  FROM
    "orders" AS t1
    INNER JOIN "customers" AS t2 ON t1.c1 = t2.c2
)
SELECT
  k0,
  SUM(
    CASE
      WHEN x0 < 0 THEN 0
      WHEN x0 > 500 THEN 500
      ELSE x0
    END
  ) AS p0
FROM rows
GROUP BY k0"""
    assert laid_out(sql, 50) == expected
    assert laid_out(sql, 400) == sql
