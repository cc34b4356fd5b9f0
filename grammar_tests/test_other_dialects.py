"""T-SQL and MySQL: each text gives what its hand-written twin gives in DuckDB without noise."""

from __future__ import annotations

from datetime import datetime

import pytest

from dpsql.dialects.reading import other_meanings
from dpsql.dialects.reading.parse import divide, parse
from dpsql.model.errors import Reason, Refused
from dpsql.model.tree import Span
from grammar_tests.bound import shop
from grammar_tests.laws import compiled, noiseless, same_rows

TWINS = (
    # T-SQL: quotes, TOP, names, NULL order.
    (
        "tsql",
        "SELECT [segment] AS [s], COUNT(*) AS n FROM [customers] GROUP BY [segment]",
        "SELECT segment, COUNT(*) FROM customers GROUP BY segment",
    ),
    (
        "tsql",
        "SELECT TOP (2) status, n = COUNT(*) FROM orders GROUP BY status ORDER BY n DESC, status",
        "SELECT status, COUNT(*) AS n FROM orders GROUP BY status ORDER BY n DESC, status LIMIT 2",
    ),
    (
        "tsql",
        (
            "SELECT TOP 1 age FROM (SELECT age, COUNT(*) AS n FROM customers"
            " WHERE segment = N'consumer' GROUP BY age) t ORDER BY age"
        ),
        (
            "SELECT age FROM (SELECT age, COUNT(*) AS n FROM customers WHERE segment = 'consumer'"
            " GROUP BY age) t ORDER BY age NULLS FIRST LIMIT 1"
        ),
    ),
    # Whole numbers stay whole.
    ("tsql", "SELECT COUNT(*) / 4 AS n FROM orders", "SELECT COUNT(*) // 4 FROM orders"),
    (
        "tsql",
        "SELECT SUM(quantity) / COUNT(*) AS n, SUM(amount) / COUNT(*) AS a FROM orders",
        "SELECT SUM(quantity) // COUNT(*), SUM(amount) / COUNT(*) FROM orders",
    ),
    (
        "tsql",
        "SELECT AVG(quantity) AS n, AVG(amount) AS a, AVG(quantity * 1.0) AS q FROM orders",
        "SELECT trunc(AVG(quantity))::BIGINT, AVG(amount), AVG(quantity) FROM orders",
    ),
    (
        "tsql",
        "SELECT CAST(SUM(amount) / 7 AS INT) AS n, CONVERT(VARCHAR(3), 'abcdef') AS t FROM orders",
        "SELECT trunc(SUM(amount) / 7)::BIGINT, 'abc' FROM orders",
    ),
    # `+` joins texts.
    (
        "tsql",
        (
            "SELECT segment + '-' + segment AS s, COUNT(*) + 1 AS n FROM customers"
            " GROUP BY segment + '-' + segment"
        ),
        "SELECT segment || '-' || segment AS s, COUNT(*) + 1 FROM customers GROUP BY 1",
    ),
    # Times: boundaries, weeks from Sunday, the type of what is moved.
    (
        "tsql",
        (
            "SELECT SUM(DATEDIFF(year, placed_at, '2025-01-01')) AS y,"
            " SUM(DATEDIFF(week, placed_at, '2025-01-01')) AS w FROM orders"
        ),
        (
            "SELECT SUM(date_diff('year', placed_at, TIMESTAMP '2025-01-01')),"
            " SUM(date_diff('day', date_trunc('week', placed_at + INTERVAL 1 DAY),"
            " TIMESTAMP '2024-12-30') // 7) FROM orders"
        ),
    ),
    (
        "tsql",
        (
            "SELECT DATEADD(month, DATEDIFF(month, 0, placed_at), 0) AS"
            " m, COUNT(*) AS n FROM orders"
            " GROUP BY DATEADD(month, DATEDIFF(month, 0, placed_at), 0)"
        ),
        "SELECT date_trunc('month', placed_at)::TIMESTAMP, COUNT(*) FROM orders GROUP BY 1",
    ),
    (
        "tsql",
        "SELECT COUNT(*) AS n FROM customers WHERE DATEADD(day, 30, joined) > '2023-06-01'",
        "SELECT COUNT(*) FROM customers WHERE (joined + INTERVAL 30 DAY)::DATE > '2023-06-01'",
    ),
    (
        "tsql",
        (
            "SELECT DATEPART(weekday, placed_at) AS d, DATENAME(weekday, placed_at) AS name,"
            " COUNT(*) AS n FROM orders GROUP BY DATEPART(weekday, placed_at),"
            " DATENAME(weekday, placed_at)"
        ),
        "SELECT dayofweek(placed_at) + 1, dayname(placed_at), COUNT(*) FROM orders GROUP BY 1, 2",
    ),
    (
        "tsql",
        (
            "SELECT COUNT(*) AS n FROM orders WHERE placed_at < GETDATE() AND EOMONTH(placed_at)"
            " = '2024-02-29'"
        ),
        "SELECT COUNT(*) FROM orders WHERE last_day(placed_at) = DATE '2024-02-29'",
    ),
    # Functions.
    (
        "tsql",
        (
            "SELECT ISNULL(age, -1) AS a, IIF(vip = 1, 'v', 'o') AS v,"
            " COUNT_BIG(*) AS n FROM customers"
            " GROUP BY ISNULL(age, -1), IIF(vip = 1, 'v', 'o')"
        ),
        (
            "SELECT coalesce(age, -1), CASE WHEN vip THEN 'v' ELSE 'o' END, COUNT(*) FROM customers"
            " GROUP BY 1, 2"
        ),
    ),
    (
        "tsql",
        (
            "SELECT LEN(segment + '  ') AS n, CHARINDEX('s', segment) AS"
            " p, SUBSTRING(segment, 2, 3)"
            " AS s, COUNT(*) AS c FROM customers GROUP BY segment"
        ),
        (
            "SELECT length(segment), strpos(segment, 's'), segment[2:4], COUNT(*) FROM customers"
            " GROUP BY segment"
        ),
    ),
    (
        "tsql",
        "SELECT STDEV(amount) AS s, VARP(amount) AS v, SUM(LOG(amount + 1)) AS l FROM orders",
        "SELECT stddev_samp(amount), var_pop(amount), SUM(ln(amount + 1)) FROM orders",
    ),
    (
        "tsql",
        (
            "SELECT CAST(amount AS DECIMAL) AS a, COUNT(*) AS n FROM orders GROUP BY CAST(amount"
            " AS DECIMAL)"
        ),
        "SELECT CAST(amount AS DECIMAL(18, 0)), COUNT(*) FROM orders GROUP BY 1",
    ),
    (
        "tsql",
        (
            "SELECT SUM(SQUARE(quantity)) / 7 AS s, SUM(LEN(LEFT(status, quantity - 2))) AS l"
            " FROM orders"
        ),
        (
            "SELECT SUM(quantity * quantity) / 7, SUM(length(status[:greatest(quantity - 2,"
            " 0)])) FROM orders"
        ),
    ),
    (
        "tsql",
        (
            "SELECT COUNT(*) AS n FROM orders WHERE status LIKE 'p' + '%' AND ISNULL(quantity,"
            " 0) / 2 = 1"
        ),
        "SELECT COUNT(*) FROM orders WHERE status LIKE 'p%' AND quantity // 2 = 1",
    ),
    (
        "tsql",
        (
            "SELECT POWER(CAST(quantity AS FLOAT), 0.5) AS p, COUNT(*) AS n FROM orders GROUP BY"
            " quantity"
        ),
        "SELECT sqrt(quantity), COUNT(*) FROM orders GROUP BY quantity",
    ),
    # MySQL.
    (
        "mysql",
        (
            "SELECT RIGHT(status, -1) AS r, SUBSTRING(status, 2, -1) AS s, COUNT(*) AS n FROM"
            " orders GROUP BY 1, 2"
        ),
        "SELECT '', '', COUNT(*) FROM orders",
    ),
    (
        "mysql",
        (
            "SELECT CAST(amount AS DECIMAL) AS a, COUNT(*) AS n FROM orders WHERE status LIKE"
            " CONCAT('p', '%') GROUP BY 1"
        ),
        (
            "SELECT CAST(amount AS DECIMAL(10, 0)), COUNT(*) FROM orders WHERE status LIKE 'p%'"
            " GROUP BY 1"
        ),
    ),
    (
        "mysql",
        (
            "SELECT TIMESTAMPDIFF(MONTH, '2024-01-31', '2024-02-29') AS a,"
            " TIMESTAMPDIFF(MONTH, '2024-02-29', '2024-01-31') AS b,"
            " TIMESTAMPDIFF(YEAR, '2020-02-29', '2021-02-28') AS c,"
            " TIMESTAMPDIFF(QUARTER, '2024-06-30', '2023-12-31') AS d,"
            " TIMESTAMPDIFF(MONTH, '2024-03-30', '2024-01-29') AS e, COUNT(*) AS n FROM orders"
        ),
        "SELECT 0, 0, 0, -1, -2, COUNT(*) FROM orders",
    ),
    (
        "mysql",
        (
            'SELECT `segment`, COUNT(*) AS `n` FROM `customers` WHERE segment <> "x" GROUP BY 1'
            " ORDER BY 1 LIMIT 1, 5"
        ),
        (
            "SELECT segment, COUNT(*) FROM customers WHERE segment <> 'x' GROUP BY 1 ORDER BY 1"
            " LIMIT 5 OFFSET 1"
        ),
    ),
    (
        "mysql",
        (
            "SELECT age FROM (SELECT age, COUNT(*) AS n FROM customers GROUP BY age) t"
            " ORDER BY age LIMIT 1"
        ),
        (
            "SELECT age FROM (SELECT age, COUNT(*) AS n FROM customers GROUP BY age) t"
            " ORDER BY age NULLS FIRST LIMIT 1"
        ),
    ),
    (
        "mysql",
        "SELECT COUNT(*) / 2 AS h, COUNT(*) DIV 2 AS w, AVG(quantity) AS a FROM orders",
        "SELECT COUNT(*) / 2, COUNT(*) // 2, AVG(quantity) FROM orders",
    ),
    (
        "mysql",
        (
            "SELECT CONCAT(segment, NULL) AS c, IF(vip, IFNULL(age, 0), 1) AS a, COUNT(*) AS n"
            " FROM customers GROUP BY 1, 2"
        ),
        (
            "SELECT segment || NULL, CASE WHEN vip THEN coalesce(age, 0) ELSE 1 END, COUNT(*)"
            " FROM customers GROUP BY 1, 2"
        ),
    ),
    (
        "mysql",
        (
            "SELECT SUM(DATEDIFF('2025-01-01', placed_at)) AS d,"
            " SUM(TIMESTAMPDIFF(MONTH, placed_at, '2025-01-01')) AS m FROM orders"
        ),
        (
            "SELECT SUM(date_diff('day', placed_at, DATE '2025-01-01')),"
            " SUM(date_sub('month', placed_at, TIMESTAMP '2025-01-01')) FROM orders"
        ),
    ),
    (
        "mysql",
        (
            "SELECT DATE_FORMAT(placed_at, '%Y-%m %i') AS m, COUNT(*) AS n FROM orders"
            " WHERE placed_at < DATE_SUB(CURDATE(), INTERVAL 1 DAY) GROUP BY 1"
        ),
        "SELECT strftime(placed_at, '%Y-%m %M'), COUNT(*) FROM orders GROUP BY 1",
    ),
    (
        "mysql",
        (
            "SELECT WEEKDAY(placed_at) AS a, DAYOFWEEK(placed_at) AS b, COUNT(*) AS n FROM orders"
            " GROUP BY 1, 2"
        ),
        (
            "SELECT isodow(placed_at) - 1, dayofweek(placed_at) + 1,"
            " COUNT(*) FROM orders GROUP BY 1, 2"
        ),
    ),
    (
        "mysql",
        "SELECT STDDEV(amount) AS s, VARIANCE(amount) AS v, STDDEV_SAMP(amount) AS t FROM orders",
        "SELECT stddev_pop(amount), var_pop(amount), stddev_samp(amount) FROM orders",
    ),
)


@pytest.mark.parametrize(("dialect", "text", "twin"), TWINS)
def test_a_text_gives_what_its_twin_gives(dialect: str, text: str, twin: str) -> None:
    policy, engine = shop()
    ours, errors = noiseless(compiled(text, policy, engine, dialect=dialect), engine)
    assert ours
    assert same_rows(ours, errors, engine.rows(twin))


@pytest.mark.parametrize(
    ("table", "key", "text"),
    [
        ("_SIGNS", ("tsql", "div"), "SELECT COUNT(*) / 4 AS n FROM orders"),
        ("AVERAGES", ("tsql", "avg"), "SELECT AVG(quantity) AS n, AVG(amount) AS a,"),
        ("_SIGNS", ("tsql", "add"), "SELECT segment + '-' + segment AS s"),
        ("_MONTHS", "month", "SELECT TIMESTAMPDIFF(MONTH, '2024-01-31'"),
    ],
)
def test_a_wrong_twin_reads_them_as_duckdb(
    table: str, key: object, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without the row of a meaning, the answer differs from the twin's, or there is none."""
    monkeypatch.delitem(getattr(other_meanings, table), key)
    dialect, whole, twin = next(row for row in TWINS if row[1].startswith(text))
    policy, engine = shop()
    try:
        ours, errors = noiseless(compiled(whole + " ", policy, engine, dialect=dialect), engine)
    except Refused:
        return
    assert not same_rows(ours, errors, engine.rows(twin))


@pytest.mark.parametrize(
    ("dialect", "text", "place"),
    [
        ("tsql", "SELECT MEDIAN(amount) FROM orders", 7),
        ("tsql", "SELECT TOP 5 PERCENT status FROM orders", 7),
        ("tsql", "SELECT TOP 5 status FROM orders UNION SELECT TOP 5 status FROM orders", 38),
        ("tsql", "SELECT COUNT(*) AS n FROM orders WHERE amount = 2 ^ 3", 50),
        ("tsql", "SELECT COUNT(*) AS n FROM orders ORDER BY n NULLS LAST", 44),
        ("tsql", "SELECT COUNT(*) n FROM orders WHERE placed_at - placed_at < 1", 36),
        ("tsql", "SELECT DATEPART(week, placed_at), COUNT(*) FROM orders GROUP BY ALL", 16),
        ("tsql", "SELECT CONVERT(VARCHAR, placed_at, 112) FROM orders", 7),
        ("tsql", "SELECT COUNT(*) n FROM orders WHERE status LIKE `a`", 48),
        ("tsql", "SELECT SUM(POWER(quantity, 0.5)) FROM orders", 11),
        ("tsql", "SELECT SUM(RADIANS(quantity)) FROM orders", 11),
        ("tsql", "SELECT SUM(SIGN(amount)) / 2 FROM orders", 11),
        ("tsql", "SELECT SUM(ISNULL(quantity, 2.7)) FROM orders", 11),
        ("tsql", "SELECT SUM(ISNULL(quantity, note)) FROM orders", 11),
        ("tsql", "SELECT SUM(CHARINDEX(status, note)) FROM orders", 11),
        ("tsql", "SELECT SUM(CHARINDEX('', status)) FROM orders", 11),
        ("tsql", "SELECT COUNT(*) FROM orders WHERE status LIKE '[op]%'", 34),
        ("tsql", "SELECT COUNT(*) FROM orders WHERE status LIKE note", 34),
        ("tsql", "SELECT SUM(TRY_CAST(note AS INT)) FROM orders", 20),
        ("tsql", "SELECT SUM(CAST('2.7' AS INT)) FROM orders", 16),
        ("mysql", "SELECT SUM(CAST(note AS SIGNED)) FROM orders", 16),
        ("mysql", "SELECT EXTRACT(WEEK FROM placed_at) FROM orders", 7),
        ("mysql", "SELECT SUM(EXTRACT(MICROSECOND FROM placed_at)) FROM orders", 11),
        ("mysql", "SELECT SUBSTRING(status FROM 0 FOR 2) FROM orders", 7),
        ("mysql", "SELECT COUNT(*) FROM orders WHERE status = 'a\\'b'", 43),
        ("mysql", "SELECT COUNT(*) FROM orders WHERE status || 'a'", 41),
        ("mysql", "SELECT COUNT(*) n -1--1\n FROM orders", 20),
        ("mysql", "SELECT /*!50000 COUNT(*) */ 1", 7),
        ("mysql", 'SELECT COUNT(*) FROM orders WHERE status = "paid', 43),
        ("mysql", 'SELECT "', 7),
        ("mysql", "SELECT GREATEST(1, NULL) FROM orders", 7),
        ("mysql", "SELECT WEEK(placed_at) FROM orders", 7),
        ("mysql", "SELECT LOG(2, amount) FROM orders", 7),
        ("mysql", "SELECT COUNT(*) n FROM orders WHERE amount = 1 # one", 47),
        ("mysql", "SELECT COUNT(*) n FROM orders WHERE status = 0", 36),
        ("mysql", "SELECT COUNT(*) n FROM orders WHERE 0 <> status", 36),
        ("mysql", "SELECT COUNT(*) n FROM orders WHERE status NOT IN (0, 1)", 36),
        ("mysql", "SELECT COUNT(*) n FROM orders WHERE (order_id, status) = (1, 0)", 37),
        ("mysql", "SELECT IF(note = 0, 1, 2) AS n, COUNT(*) FROM orders GROUP BY 1", 10),
        ("mysql", "SELECT CASE status WHEN 0 THEN 1 END AS n, COUNT(*) FROM orders GROUP BY 1", 24),
    ],
)
def test_what_has_another_meaning_is_refused(dialect: str, text: str, place: int) -> None:
    policy, engine = shop()
    with pytest.raises(Refused) as refused:
        compiled(text, policy, engine, dialect=dialect)
    assert refused.value.span.start == place


def test_a_number_beside_a_whole_constant_is_as_everywhere() -> None:
    """The near miss of a text in MySQL: numbers, texts between quotes, and other dialects."""
    policy, engine = shop()
    for text in ("quantity = 1", "quantity IN (1, 2)", "status <> '0'", "amount <> 0"):
        sql = f"SELECT COUNT(*) AS n FROM orders WHERE {text}"
        plans = [compiled(sql, policy, engine, dialect=d).plan for d in ("mysql", "duckdb")]
        assert plans[0] == plans[1]
    assert compiled("SELECT COUNT(*) AS n FROM orders WHERE note = 0", policy, engine).plan


def test_another_dialect_is_refused_by_name() -> None:
    with pytest.raises(ValueError, match="unknown dialect 'oracle'"):
        parse("SELECT 1", "oracle")


def test_a_bound_backslash_is_no_pattern() -> None:
    """A text between quotes has none, but a bound value may: it would be an escape in MySQL."""
    with pytest.raises(Refused):
        parse("SELECT COUNT(*) FROM orders WHERE status LIKE ?", "mysql", ("a\\_b",))
    assert parse("SELECT COUNT(*) FROM orders WHERE status LIKE ?", "mysql", ("a_b",))


def test_places_are_those_of_the_text() -> None:
    with pytest.raises(Refused) as refused:
        parse("SELECT [a b], `c` FROM t", "mysql")
    assert refused.value.reason in (Reason.SYNTAX, Reason.UNSUPPORTED_SYNTAX)
    assert divide("SELECT [;] AS a; SELECT ';'", "tsql") == (Span(0, 15), Span(17, 27))


def test_the_present_has_no_zone() -> None:
    read = parse("SELECT GETDATE() AS a", "tsql", (), datetime(2026, 1, 2, 3, 4)).query
    assert "datetime.datetime(2026, 1, 2, 3, 4)" in repr(read)
