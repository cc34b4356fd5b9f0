"""Names of computed columns without an alias: those of the engine where a text is spelled as it
spells them. A name changes no question.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

import duckdb
import psycopg
import pytest

from dpsql.compiler.resolve.grouping import output_name
from dpsql.dialects.reading.parse import parse
from dpsql.dialects.reading.quoted_words import KEYWORDS
from dpsql.model.public_times import now
from dpsql.model.tree import Select
from dpsql.model.vocabulary import Request
from dpsql.proxy import Proxy
from grammar_tests import proxy_kit
from grammar_tests.postgres_kit import running

TABLE = "CREATE TABLE orders (amount FLOAT8, quantity INT, status TEXT, placed_at TIMESTAMP)"
DUCKDB_2 = pytest.mark.skipif(duckdb.__version__ < "2", reason="DuckDB 1 names columns otherwise")

DUCKDB_WRITES = """
COUNT(*)
count(*)
COUNT(1)
COUNT(amount)
COUNT(DISTINCT amount)
SUM(amount)
Sum( amount )
SUM(o.amount)
SUM(amount) / COUNT(*)
SUM(amount) * 1.0 / COUNT(*)
100.0 * SUM(amount) / NULLIF(COUNT(*), 0)
ROUND(AVG(amount), 2)
ROUND(100.0 * COUNT(*) / 7, 1)
AVG(amount) + 1e3
AVG(amount) + 1.50
-SUM(amount)
- 5
SUM(-amount)
SUM(amount) - -1
SUM(amount)::INTEGER
CAST(SUM(amount) AS DOUBLE)
SUM(CAST(status AS VARCHAR)::INT)
TRY_CAST(SUM(amount) AS BIGINT)
COUNT(*)::FLOAT
COUNT(*)::REAL
SUM(amount)::DECIMAL(10,2)
SUM(amount)::NUMERIC
MIN(placed_at)::DATE
STDDEV(amount)
STDDEV_SAMP(amount)
STDDEV_POP(amount)
VARIANCE(amount)
VAR_SAMP(amount)
VAR_POP(amount)
MEDIAN(amount)
QUANTILE_CONT(amount, 0.9)
PERCENTILE_CONT(0.5) WITHIN GROUP (ORDER BY amount)
percentile_disc(0.9) WITHIN GROUP (ORDER BY amount DESC)
APPROX_QUANTILE(amount, 0.5)
MODE(status)
MIN(amount)
MAX(amount)
ANY_VALUE(status)
CORR(amount, quantity)
COVAR_POP(amount, quantity)
COVAR_SAMP(amount, quantity)
REGR_SLOPE(amount, quantity)
ARG_MAX(status, amount)
max_by(status, amount)
STRING_AGG(DISTINCT status, ', ')
string_agg(status, ',' ORDER BY status)
LISTAGG(status, ',')
ARRAY_AGG(DISTINCT status)
LIST(status)
BOOL_AND(amount > 3)
BOOL_OR(amount > 3)
COUNT_IF(amount > 3)
COUNTIF(amount > 3)
COUNT(*) FILTER (WHERE amount > 3)
COUNT(*) FILTER (amount > 3)
SUM(amount) FILTER (WHERE status = 'paid')
SUM(CASE WHEN status = 'paid' THEN 1 ELSE 0 END)
SUM(CASE WHEN status = 'paid' THEN amount END)
SUM(CASE status WHEN 'paid' THEN 1 WHEN 'open' THEN 2 ELSE 0 END)
CASE WHEN COUNT(*) > 3 THEN 'many' ELSE 'few' END
SUM(IF(status = 'paid', 1, 0))
SUM(amount > 3)
COUNT(*) > 3
COUNT(*) >= 3
COUNT(*) <> 3
COUNT(*) != 3
COUNT(*) = 3
COUNT(*) == 3
COUNT(*) < 3 AND SUM(amount) > 1
COUNT(*) < 3 OR SUM(amount) > 1 OR TRUE
NOT COUNT(*) > 3
COUNT(*) BETWEEN 1 AND 3
COUNT(*) NOT BETWEEN 1 AND 3
COUNT(*) IN (1, 2)
COUNT(*) NOT IN (1, 2)
SUM(amount) IS NULL
SUM(amount) IS NOT NULL
SUM(amount) IS DISTINCT FROM 3
COALESCE(SUM(amount), 0)
IFNULL(SUM(amount), 0)
NULLIF(COUNT(*), 0)
GREATEST(SUM(amount), 0)
LEAST(SUM(amount), 0)
ABS(SUM(amount))
CEIL(AVG(amount))
CEILING(AVG(amount))
FLOOR(AVG(amount))
SQRT(AVG(amount))
POWER(AVG(amount), 2)
POW(AVG(amount), 2)
AVG(amount) ** 2
LN(AVG(amount))
LOG(AVG(amount))
LOG10(AVG(amount))
EXP(AVG(amount))
MOD(COUNT(*), 7)
COUNT(*) % 7
COUNT(*) // 7
SUM(DISTINCT quantity)
AVG(LENGTH(status))
AVG(LEN(status))
UPPER(MIN(status))
LOWER(MIN(status))
MIN(status) || '-' || MAX(status)
CONCAT(MIN(status), 'x')
SUBSTRING(MIN(status), 1, 2)
SUBSTR(MIN(status), 1, 2)
LEFT(MIN(status), 2)
TRIM(MIN(status))
REPLACE(MIN(status), 'a', 'b')
EXTRACT(YEAR FROM MIN(placed_at))
YEAR(MIN(placed_at))
DATE_PART('year', MIN(placed_at))
DATE_TRUNC('month', MIN(placed_at))
date_trunc('day', MAX(placed_at))
DATE_DIFF('day', MIN(placed_at), MAX(placed_at))
datediff('day', MIN(placed_at), MAX(placed_at))
MAX(placed_at) - MIN(placed_at)
MIN(placed_at) + INTERVAL 1 DAY
MIN(placed_at) + INTERVAL '1 day'
STRFTIME(MIN(placed_at), '%Y')
SUM(SUM(amount)) OVER ()
COUNT(*) / SUM(COUNT(*)) OVER ()
RANK() OVER (ORDER BY COUNT(*) DESC)
100 * COUNT(*) / SUM(COUNT(*)) OVER ()
ROW_NUMBER() OVER (ORDER BY SUM(amount))
NULL
TRUE
'a'
1
1.5
'it''s'
DATE '2024-01-01'
MIN(placed_at) > TIMESTAMP '2024-01-01 00:00:00'
MIN(status) LIKE 'a%'
MIN(status) NOT LIKE 'a%'
MIN(status) ILIKE 'a%'
SUM("amount")
SUM(o."amount")
SUM("Amount")
COUNT(DISTINCT (status))
(COUNT(*))
((SUM(amount) + 1) * 2)
APPROX_COUNT_DISTINCT(status)
GEOMEAN(amount)
SKEWNESS(amount)
KURTOSIS(amount)
ENTROPY(amount)
FIRST(status)
SUM(amount + quantity * 2)
SUM((amount + quantity) * 2)
SUM(amount) / 1000000
VAR_POP(amount + 1)
YEAR(MIN(placed_at)) - 2000
AVG(DATE_DIFF('day', placed_at, placed_at))
AVG(EXTRACT(HOUR FROM placed_at))
COUNT(*) * 10000000000
SUM(amount * 0.10)
MIN(amount) = MAX(amount)
SUM("quantity") / ?
""".strip().split("\n")
"""Expressions over the table, one a line."""

POSTGRES_NAMES = """
1::int
1::bigint
SUM(amount)::int
SUM(amount)::numeric(10,2)
'a'::varchar
'a'::text
1::real
1::double precision
true::boolean
(1+1)::int
(amount + 1)::int
COALESCE(SUM(amount),0)::int
EXTRACT(year FROM MIN(placed_at))::int
SUM(amount) + 1
date_trunc('day', MIN(placed_at))::date
MIN(placed_at)::timestamptz
date_trunc('month', MIN(placed_at), 'Europe/Oslo')
date_trunc('month', MIN(placed_at)::timestamptz, 'Europe/Oslo')
CASE WHEN COUNT(*) > 3 THEN MIN(amount) ELSE MAX(amount) END
CASE WHEN COUNT(*) > 3 THEN 1 END
MIN(placed_at) AT TIME ZONE 'UTC'
position('a' in MIN(status))
substring(MIN(status) from 1 for 2)
trim(MIN(status))
btrim(MIN(status))
ltrim(MIN(status))
trim(leading 'x' from MIN(status))
current_date
current_timestamp
now()
NULLIF(1,2)
GREATEST(1,2)
ROW_NUMBER() OVER ()
string_agg(status, ',')
array_agg(status)
percentile_cont(ARRAY[0.1,0.9]) WITHIN GROUP (ORDER BY amount)
ARRAY[1,2]
every(amount > 3)
bool_and(amount > 3)
stddev(amount)
stddev_samp(amount)
stddev_pop(amount)
variance(amount)
var_samp(amount)
char_length(MIN(status))
character_length(MIN(status))
length(MIN(status))
ceiling(AVG(amount))
ceil(AVG(amount))
power(AVG(amount),2)
pow(AVG(amount),2)
ln(AVG(amount))
log(AVG(amount))
mod(COUNT(*),7)
to_char(MIN(placed_at),'YYYY')
date_part('year',MIN(placed_at))
age(MIN(placed_at))
left(MIN(status),2)
upper(MIN(status))
(SELECT COUNT(*) FROM orders)
EXISTS(SELECT 1)
COUNT(*) IN (1,2)
SUM(amount) IS NULL
SUM(amount) IS NOT NULL
NOT COUNT(*) > 3
MIN(status) LIKE 'a'
MIN(status) || 'a'
-SUM(amount)
1
'a'
NULL
TRUE
NULL::int
DATE '2024-01-01'
INTERVAL '1 day'
mode() WITHIN GROUP (ORDER BY status)
percentile_cont(0.5) WITHIN GROUP (ORDER BY amount)
corr(amount, quantity)
regr_slope(amount, quantity)
covar_pop(amount, quantity)
concat(MIN(status),'a')
concat_ws(',',MIN(status),'a')
replace(MIN(status),'a','b')
split_part(MIN(status),'a',1)
round(AVG(amount)::numeric,2)
trunc(AVG(amount))
abs(SUM(amount))
sign(SUM(amount))
sqrt(SUM(amount))
SUM(amount) FILTER (WHERE amount > 3)
COUNT(DISTINCT status)
SUM(SUM(amount)) OVER ()
COUNT(*)
SUM(o.amount)
to_timestamp(1)
date(MIN(placed_at))
""".strip().split("\n")


def name_of(text: str, dialect: str) -> str:
    """Name that the proxy gives the only column."""
    bound = (3,) if "?" in text else ()
    query = parse(f"SELECT {text} FROM orders o", dialect, bound, instant=now()).query
    assert isinstance(query, Select)
    return output_name(query.items[0])


@cache
def orders() -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect()
    connection.execute(TABLE)
    return connection


def duckdb_name(text: str) -> str:
    bound = [3] if "?" in text else None
    asked = orders().cursor().execute(f"SELECT {text} FROM orders o", bound)
    ((name, *_),) = asked.description
    return str(name)


@DUCKDB_2
@pytest.mark.parametrize("text", DUCKDB_WRITES)
def test_a_column_has_the_name_that_duckdb_gives_it(text: str) -> None:
    assert name_of(text, "duckdb") == duckdb_name(text)


@pytest.mark.full("measures neighbours or further data sets")
@DUCKDB_2
def test_the_text_itself_is_not_the_name() -> None:
    """The twin: names that are the texts would be seen."""
    assert sum(text != duckdb_name(text) for text in DUCKDB_WRITES) > len(DUCKDB_WRITES) // 2


@DUCKDB_2
def test_duckdb_quotes_these_words() -> None:
    with duckdb.connect() as connection:
        listed = connection.execute("SELECT keyword_name FROM duckdb_keywords()").fetchall()
    assert {word for (word,) in listed} == KEYWORDS


@pytest.mark.full("starts a PostgreSQL")
def test_a_column_has_the_name_that_postgres_gives_it() -> None:
    with running(5471) as server, psycopg.connect(server.conninfo(), autocommit=True) as session:
        session.execute(TABLE)
        for text in POSTGRES_NAMES:
            described = session.execute(f"SELECT {text} FROM orders o").description
            assert described is not None
            assert name_of(text, "postgres") == described[0].name, text


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("COUNT(*)", "count"),
        ("SUM(amount) / 2", "?column?"),
        ("SUM(amount)::INT", "sum"),
        ("(1 + 1)::INT", "int4"),
        ("STDDEV_SAMP(amount)", "stddev_samp"),
        ("(SELECT MAX(amount) FROM orders)", "max"),
        ("CASE WHEN TRUE THEN 1 END", "case"),
        ("CASE WHEN TRUE THEN 1 ELSE MAX(amount) END", "max"),
    ],
)
def test_a_name_of_postgres(text: str, name: str) -> None:
    assert name_of(text, "postgres") == name != name_of(text, "duckdb")


@pytest.mark.full("draws random questions or values")
def test_a_name_does_not_grow_with_each_nesting() -> None:
    nested = "quantity"
    for _ in range(8):
        nested = f"CASE {nested} WHEN 1 THEN 2 WHEN 2 THEN 3 WHEN 3 THEN 4 WHEN 4 THEN 1 END"
    assert "…" in name_of(f"SUM({nested})", "duckdb")
    assert len(name_of(f"SUM({nested})", "duckdb")) < 2000


@pytest.mark.full("opens a proxy for each item")
def test_names_change_no_question(tmp_path: Path) -> None:
    with Proxy.open(str(proxy_kit.shop(tmp_path))) as proxy:
        texts = ("SELECT SUM(age) FROM customers", "SELECT SUM(age) AS total FROM customers")
        answers = [
            proxy.ask(Request(text, "ana", dialect))
            for text in texts
            for dialect in ("duckdb", "postgres")
        ]
    assert [a.columns[0].name for a in answers] == ["sum(age)", "sum", "total", "total"]
    charges = [answer.receipt.charged.amount for answer in answers if answer.receipt]
    assert charges == [charges[0], 0, 0, 0]
    assert charges[0] > 0


CASES = """
SELECT sea FROM countries
SELECT c.SEA, Sea AS sEa FROM countries c
SELECT name, sea FROM (SELECT sea AS Name, sea FROM countries) t
SELECT sea, COUNT(*) AS N FROM countries GROUP BY sEA ORDER BY seA
WITH t AS (SELECT sea, code FROM countries) SELECT T.Code, t.sea FROM t
SELECT sea AS New, nEW FROM countries
SELECT sea FROM countries UNION ALL SELECT code FROM countries
""".strip().split("\n")


@pytest.mark.full("opens a proxy for each item")
def test_a_column_keeps_the_case_of_its_table(tmp_path: Path) -> None:
    policy = proxy_kit.shop(tmp_path)
    with duckdb.connect(str(tmp_path / "shop.duckdb")) as connection:
        connection.execute("ALTER TABLE countries ADD COLUMN \"Sea\" VARCHAR DEFAULT 'yes'")
        plain = [[name for name, *_ in connection.execute(t).description] for t in CASES]
    with Proxy.open(str(policy)) as proxy:
        answers = [proxy.ask(Request(text, "ana")) for text in CASES]
        folded = proxy.ask(Request(CASES[0], "ana", "postgres"))
    assert [[column.name for column in answer.columns] for answer in answers] == plain
    assert [column.name for column in folded.columns] == ["sea"]  # the twin: PostgreSQL's name
