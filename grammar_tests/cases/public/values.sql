-- Rows of constants: VALUES and series are public tables that nobody needs to measure.
-- catalog: shop

-- case: a list of rows
SELECT n, s FROM (VALUES (1, 'a'), (2, 'b'), (3, NULL)) AS t(n, s);
-- accept

-- case: names that nobody gave
SELECT col0, col1 FROM (VALUES (1, 'a'), (2, 'b')) AS t;
-- accept

-- case: a WITH of rows
WITH t(n, s) AS (VALUES (1, 'a'), (2, 'b')) SELECT s, n + 1 AS m FROM t ORDER BY n;
-- accept

-- case: numbers of several types
SELECT n FROM (VALUES (1), (2.5), (-3)) AS t(n);
-- accept

-- case: dates and truths
SELECT d, b FROM (VALUES (DATE '2025-01-01', TRUE), (NULL, FALSE)) AS t(d, b);
-- accept

-- case: a column of NULL
SELECT n FROM (VALUES (NULL), (NULL)) AS t(n);
-- accept

-- case: a series
SELECT i FROM generate_series(1, 10, 3) AS t(i);
-- accept

-- case: a series without its end
SELECT i * i AS square FROM range(5) AS t(i);
-- accept

-- case: a series downwards
SELECT i FROM range(5, 0, -2) AS t(i);
-- accept

-- case: a series by its own name
SELECT range FROM range(2, 4);
-- accept

-- case: rows joined to a public table
SELECT c.code, v.n FROM countries AS c JOIN (VALUES ('NO', 1), ('SE', 2)) AS v(code, n) ON c.code = v.code;
-- accept

-- case: rows of different length
SELECT 1 FROM (VALUES (1, 2), (3)) AS t;
-- refuse: syntax-error at 1:24

-- case: rows without a common type
SELECT n FROM (VALUES (1), ('a')) AS t(n);
-- refuse: type-mismatch at 1:24

-- case: rows of computed values
SELECT n FROM (VALUES (1 + 1)) AS t(n);
-- refuse: unsupported-syntax at 1:24

-- case: too many names
SELECT a FROM (VALUES (1)) AS t(a, b);
-- refuse: unknown-column at 1:24

-- case: a series of nothing
SELECT i FROM range(3, 3) AS t(i);
-- refuse: unsupported-syntax at 1:15

-- case: a series without steps
SELECT i FROM range(1, 3, 0) AS t(i);
-- refuse: syntax-error at 1:15

-- case: a series of texts
SELECT i FROM range('a') AS t(i);
-- refuse: type-mismatch at 1:15

-- case: a series that is too long
SELECT i FROM range(1000000000) AS t(i);
-- refuse: query-too-large at 1:15

-- case: a series up to a column
SELECT i FROM countries, range(code) AS t(i);
-- refuse: unsupported-syntax at 1:32

-- case: another table function
SELECT * FROM glob('*');
-- refuse: unsupported-syntax at 1:15

-- case: keys from a list of rows
SELECT v.label, COUNT(*) AS n FROM orders JOIN (VALUES ('paid', 'good'), ('returned', 'bad')) AS v(status, label) ON orders.status = v.status GROUP BY v.label;
-- accept
-- keys: 2 public, l0 proved
-- release: rows l0=2 linf=10

-- case: keys from a series
SELECT i, COUNT(*) AS n FROM orders JOIN range(0, 5) AS t(i) ON orders.quantity = t.i GROUP BY i;
-- accept
-- keys: 5 public, l0 enforced
-- release: rows l0=3 linf=10

-- case: a row that matches twice
SELECT v.label, COUNT(*) AS n FROM customers JOIN (VALUES ('NO', 'north'), ('NO', 'rich'), ('SE', 'north')) AS v(code, label) ON customers.country = v.code GROUP BY v.label;
-- accept
-- keys: 2 public, l0 proved
-- release: scaled l0=2 linf=2.0006

-- case: weights from a list of rows
SELECT SUM(quantity * v.weight) AS s FROM orders JOIN (VALUES ('paid', 2), ('open', 1)) AS v(status, weight) ON orders.status = v.status;
-- accept
-- keys: 1 public, l0 proved
-- release: sum l0=1 linf=400
-- rewrite:
--   WITH rows AS (
--     SELECT t1."customer_id" AS u, TRY(t1."quantity"::HUGEINT * t2.c11) AS x0
--     FROM
--       "orders" AS t1
--       INNER JOIN (VALUES ('paid', 2), ('open', 1)) AS t2(c10, c11) ON t1."status" = t2.c10
--   ),
--   totals AS (
--     SELECT u, SUM(((CASE WHEN x0 < 0 THEN 0 WHEN x0 > 40 THEN 40 ELSE x0 END)::BIGINT)::INTEGER) AS s0
--     FROM rows
--     GROUP BY u
--   )
--   SELECT COALESCE(SUM(p0)::HUGEINT, 0) AS p0
--   FROM (SELECT (CASE WHEN s0 < 0 THEN 0 WHEN s0 > 400 THEN 400 ELSE s0 END)::BIGINT AS p0 FROM totals)
--   SELECT t1.c0 AS c0 FROM release_0 AS t1

-- case: every row beside one constant
SELECT SUM(quantity * w) AS s FROM orders CROSS JOIN (VALUES (3)) AS v(w);
-- accept
-- keys: 1 public, l0 proved
-- release: sum l0=1 linf=600

-- case: bounds come from the list
SELECT SUM(w) AS s FROM customers JOIN (VALUES ('NO', -7), ('SE', 9)) AS v(code, w) ON customers.country = v.code;
-- accept
-- keys: 1 public, l0 proved
-- release: sum l0=1 linf=9

-- case: a filtered list
SELECT v.label, COUNT(*) AS n FROM customers JOIN (VALUES ('NO', 'a'), ('SE', 'b')) AS v(code, label) ON customers.country = v.code WHERE v.label = 'a' GROUP BY v.label;
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=1

-- case: a result beside its targets
SELECT v.status, t.n, v.target FROM (VALUES ('paid', 10), ('open', 20)) AS v(status, target) LEFT JOIN (SELECT status, COUNT(*) AS n FROM orders GROUP BY status) AS t ON t.status = v.status;
-- accept
-- keys: 3 public, l0 proved
-- release: rows l0=3 linf=10

-- case: every period has a row
SELECT i AS quantity, COALESCE(n, 0) AS n FROM range(0, 8) AS r(i) LEFT JOIN (SELECT quantity, COUNT(*) AS n FROM orders GROUP BY quantity) AS t ON t.quantity = r.i;
-- accept
-- keys: 21 public, l0 enforced
-- release: rows l0=3 linf=10

-- case: a result joined back to private rows
SELECT COUNT(*) FROM orders JOIN (VALUES ('paid')) AS v(status) ON orders.status = v.status JOIN (SELECT status, COUNT(*) AS n FROM orders GROUP BY status) AS t ON t.status = v.status;
-- accept
-- keys: 3 public, l0 proved
-- release: rows l0=3 linf=10
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=10

-- case: private rows chosen by a list
SELECT orders.amount FROM orders JOIN (VALUES ('paid')) AS v(status) ON orders.status = v.status;
-- refuse: raw-rows at 1:27

-- case: a hidden column joined to a list
SELECT COUNT(*) FROM customers JOIN (VALUES ('Zoe')) AS v(who) ON customers.name = v.who;
-- refuse: hidden-column at 1:67

-- case: whole numbers that are one DOUBLE
SELECT COUNT(*) AS n FROM customers JOIN (VALUES (9007199254740992), (9007199254740993)) AS v(x) ON customers.income = v.x;
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=2

-- case: a series of days
SELECT d FROM generate_series(DATE '2024-01-01', DATE '2024-01-05', INTERVAL '1 day') AS t(d);
-- accept

-- case: a series of months that begins at the end of one
SELECT d FROM generate_series(TIMESTAMP '2024-01-31', TIMESTAMP '2024-06-30', INTERVAL 1 MONTH) AS t(d);
-- accept

-- case: a series of hours backwards
SELECT d FROM range(TIMESTAMP '2024-01-02', TIMESTAMP '2024-01-01', -INTERVAL '6 hours') AS t(d);
-- accept

-- case: a series from the month of a date
SELECT d FROM generate_series(DATE_TRUNC('month', DATE '2024-02-15'), DATE '2024-06-01' - 1, INTERVAL '1 week') AS t(d);
-- accept

-- case: a series of days in PostgreSQL
SELECT d::date AS day FROM generate_series('2024-01-01'::date, '2024-01-05', '1 day') AS d;
-- dialect: postgres
-- accept

-- case: a series of days without a step
SELECT d FROM generate_series(DATE '2024-01-01', DATE '2024-01-05', INTERVAL '0 days') AS t(d);
-- refuse: syntax-error at 1:15

-- case: a series of days by a number
SELECT d FROM generate_series(DATE '2024-01-01', DATE '2024-01-05', 1) AS t(d);
-- refuse: type-mismatch at 1:15

-- case: a series without an end in sight
SELECT d FROM generate_series(DATE '1024-01-01', DATE '2024-01-05', INTERVAL '1 day') AS t(d);
-- refuse: query-too-large at 1:15

-- case: a row for each member of an array
SELECT n * n AS square FROM UNNEST(ARRAY[1, 2, NULL]) AS t(n);
-- accept

-- case: a row for each member of a series that is an array
SELECT n * 2 AS twice FROM UNNEST(RANGE(2, 5)) AS t(n);
-- accept

-- case: members of a series in a SELECT list
SELECT UNNEST(GENERATE_SERIES(1, 3)) * 10 AS n;
-- accept

-- case: days of a series in a SELECT list
SELECT UNNEST(GENERATE_SERIES(DATE '2024-01-01', DATE '2024-01-03', INTERVAL '1 day')) AS d;
-- accept

-- case: two series of members in one list
SELECT UNNEST(RANGE(2)) AS a, UNNEST(RANGE(3)) AS b;
-- refuse: unsupported-syntax at 1:8

-- case: a series whose end is no constant
SELECT UNNEST(RANGE(age)) AS a FROM customers;
-- refuse: unsupported-syntax at 1:8

-- case: a series is no array in PostgreSQL
SELECT UNNEST(GENERATE_SERIES(1, 3)) AS n;
-- dialect: postgres
-- refuse: unsupported-syntax at 1:15

-- case: members of an array in a SELECT list
SELECT UNNEST([1, 2, 3]) + 1 AS n;
-- accept

-- case: rows of constants by many UNION ALL
SELECT g, COUNT(*) AS n FROM customers JOIN (SELECT 0 AS a, '00s' AS g UNION ALL SELECT 1 AS a, '00s' AS g UNION ALL SELECT 2 AS a, '00s' AS g UNION ALL SELECT 3 AS a, '00s' AS g UNION ALL SELECT 4 AS a, '00s' AS g UNION ALL SELECT 5 AS a, '00s' AS g UNION ALL SELECT 6 AS a, '00s' AS g UNION ALL SELECT 7 AS a, '00s' AS g UNION ALL SELECT 8 AS a, '00s' AS g UNION ALL SELECT 9 AS a, '00s' AS g UNION ALL SELECT 10 AS a, '10s' AS g UNION ALL SELECT 11 AS a, '10s' AS g UNION ALL SELECT 12 AS a, '10s' AS g UNION ALL SELECT 13 AS a, '10s' AS g UNION ALL SELECT 14 AS a, '10s' AS g UNION ALL SELECT 15 AS a, '10s' AS g UNION ALL SELECT 16 AS a, '10s' AS g UNION ALL SELECT 17 AS a, '10s' AS g UNION ALL SELECT 18 AS a, '10s' AS g UNION ALL SELECT 19 AS a, '10s' AS g UNION ALL SELECT 20 AS a, '20s' AS g UNION ALL SELECT 21 AS a, '20s' AS g UNION ALL SELECT 22 AS a, '20s' AS g UNION ALL SELECT 23 AS a, '20s' AS g UNION ALL SELECT 24 AS a, '20s' AS g UNION ALL SELECT 25 AS a, '20s' AS g UNION ALL SELECT 26 AS a, '20s' AS g UNION ALL SELECT 27 AS a, '20s' AS g UNION ALL SELECT 28 AS a, '20s' AS g UNION ALL SELECT 29 AS a, '20s' AS g UNION ALL SELECT 30 AS a, '30s' AS g UNION ALL SELECT 31 AS a, '30s' AS g UNION ALL SELECT 32 AS a, '30s' AS g UNION ALL SELECT 33 AS a, '30s' AS g UNION ALL SELECT 34 AS a, '30s' AS g UNION ALL SELECT 35 AS a, '30s' AS g UNION ALL SELECT 36 AS a, '30s' AS g UNION ALL SELECT 37 AS a, '30s' AS g UNION ALL SELECT 38 AS a, '30s' AS g UNION ALL SELECT 39 AS a, '30s' AS g UNION ALL SELECT 40 AS a, '40s' AS g UNION ALL SELECT 41 AS a, '40s' AS g UNION ALL SELECT 42 AS a, '40s' AS g UNION ALL SELECT 43 AS a, '40s' AS g UNION ALL SELECT 44 AS a, '40s' AS g UNION ALL SELECT 45 AS a, '40s' AS g UNION ALL SELECT 46 AS a, '40s' AS g UNION ALL SELECT 47 AS a, '40s' AS g UNION ALL SELECT 48 AS a, '40s' AS g UNION ALL SELECT 49 AS a, '40s' AS g UNION ALL SELECT 50 AS a, '50s' AS g UNION ALL SELECT 51 AS a, '50s' AS g UNION ALL SELECT 52 AS a, '50s' AS g UNION ALL SELECT 53 AS a, '50s' AS g UNION ALL SELECT 54 AS a, '50s' AS g UNION ALL SELECT 55 AS a, '50s' AS g UNION ALL SELECT 56 AS a, '50s' AS g UNION ALL SELECT 57 AS a, '50s' AS g UNION ALL SELECT 58 AS a, '50s' AS g UNION ALL SELECT 59 AS a, '50s' AS g UNION ALL SELECT 60 AS a, '60s' AS g UNION ALL SELECT 61 AS a, '60s' AS g UNION ALL SELECT 62 AS a, '60s' AS g UNION ALL SELECT 63 AS a, '60s' AS g UNION ALL SELECT 64 AS a, '60s' AS g UNION ALL SELECT 65 AS a, '60s' AS g UNION ALL SELECT 66 AS a, '60s' AS g UNION ALL SELECT 67 AS a, '60s' AS g UNION ALL SELECT 68 AS a, '60s' AS g UNION ALL SELECT 69 AS a, '60s' AS g) v ON age = a GROUP BY g;
-- accept
-- keys: 7 public, l0 proved
-- release: rows l0=1 linf=1

-- case: more UNION ALL than are read
SELECT COUNT(*) FROM (SELECT 1 UNION ALL SELECT 1 UNION ALL SELECT 1 UNION ALL SELECT 1 UNION ALL SELECT 1 UNION ALL SELECT 1 UNION ALL SELECT 1 UNION ALL SELECT 1 UNION ALL SELECT 1 UNION ALL SELECT 1 UNION ALL SELECT 1 UNION ALL SELECT 1 UNION ALL SELECT 1 UNION ALL SELECT 1 UNION ALL SELECT 1 UNION ALL SELECT 1 UNION ALL SELECT 1 UNION ALL SELECT 1 UNION ALL SELECT 1 UNION ALL SELECT 1 UNION ALL SELECT 1 UNION ALL SELECT 1 UNION ALL SELECT 1 UNION ALL SELECT 1 UNION ALL SELECT 1 UNION ALL SELECT 1 UNION ALL SELECT 1 UNION ALL SELECT 1 UNION ALL SELECT 1 UNION ALL SELECT 1 UNION ALL SELECT 1 UNION ALL SELECT 1 UNION ALL SELECT 1 UNION ALL SELECT 1 UNION ALL SELECT 1 UNION ALL SELECT 1 UNION ALL SELECT 1 UNION ALL SELECT 1 UNION ALL SELECT 1 UNION ALL SELECT 1 UNION ALL SELECT 1 UNION ALL SELECT 1 UNION ALL SELECT 1 UNION ALL SELECT 1 UNION ALL SELECT 1 UNION ALL SELECT 1 UNION ALL SELECT 1 UNION ALL SELECT 1 UNION ALL SELECT 1 UNION ALL SELECT 1 UNION ALL SELECT 1 UNION ALL SELECT 1 UNION ALL SELECT 1 UNION ALL SELECT 1 UNION ALL SELECT 1 UNION ALL SELECT 1 UNION ALL SELECT 1 UNION ALL SELECT 1 UNION ALL SELECT 1 UNION ALL SELECT 1 UNION ALL SELECT 1 UNION ALL SELECT 1 UNION ALL SELECT 1 UNION ALL SELECT 1 UNION ALL SELECT 1 UNION ALL SELECT 1 UNION ALL SELECT 1 UNION ALL SELECT 1 UNION ALL SELECT 1 UNION ALL SELECT 1 UNION ALL SELECT 1 UNION ALL SELECT 1 UNION ALL SELECT 1 UNION ALL SELECT 1 UNION ALL SELECT 1 UNION ALL SELECT 1 UNION ALL SELECT 1 UNION ALL SELECT 1 UNION ALL SELECT 1 UNION ALL SELECT 1 UNION ALL SELECT 1 UNION ALL SELECT 1 UNION ALL SELECT 1 UNION ALL SELECT 1 UNION ALL SELECT 1 UNION ALL SELECT 1 UNION ALL SELECT 1 UNION ALL SELECT 1 UNION ALL SELECT 1 UNION ALL SELECT 1 UNION ALL SELECT 1 UNION ALL SELECT 1 UNION ALL SELECT 1 UNION ALL SELECT 1 UNION ALL SELECT 1 UNION ALL SELECT 1 UNION ALL SELECT 1 UNION ALL SELECT 1 UNION ALL SELECT 1 UNION ALL SELECT 1 UNION ALL SELECT 1 UNION ALL SELECT 1 UNION ALL SELECT 1 UNION ALL SELECT 1 UNION ALL SELECT 1 UNION ALL SELECT 1 UNION ALL SELECT 1 UNION ALL SELECT 1 UNION ALL SELECT 1 UNION ALL SELECT 1 UNION ALL SELECT 1 UNION ALL SELECT 1 UNION ALL SELECT 1 UNION ALL SELECT 1 UNION ALL SELECT 1 UNION ALL SELECT 1 UNION ALL SELECT 1 UNION ALL SELECT 1 UNION ALL SELECT 1 UNION ALL SELECT 1 UNION ALL SELECT 1 UNION ALL SELECT 1 UNION ALL SELECT 1 UNION ALL SELECT 1 UNION ALL SELECT 1 UNION ALL SELECT 1 UNION ALL SELECT 1 UNION ALL SELECT 1 UNION ALL SELECT 1 UNION ALL SELECT 1 UNION ALL SELECT 1 UNION ALL SELECT 1 UNION ALL SELECT 1 UNION ALL SELECT 1 UNION ALL SELECT 1 UNION ALL SELECT 1 UNION ALL SELECT 1 UNION ALL SELECT 1 UNION ALL SELECT 1 UNION ALL SELECT 1) t;
-- refuse: query-too-large at 1:30

-- case: a number without its zero
SELECT SUM(quantity *.25) AS s FROM orders WHERE quantity >.5;
-- accept
-- keys: 1 public, l0 proved
-- release: sum l0=1 linf=50

-- case: a number behind a name
SELECT SUM(quantity.5) AS s FROM orders;
-- refuse: unsupported-syntax at 1:21
