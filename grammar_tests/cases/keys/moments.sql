-- Private keys by the moments of one row of each unit: one vector counts the units too.
-- catalog: shop

-- case: an average that may be missing
SELECT city, COUNT(*) AS n, AVG(age) AS mean FROM customers GROUP BY city;
-- accountant: approximate
-- accept
-- keys: private, by 3 sums, l0 proved
-- release: sum l0=1 linf=120
-- release: sum l0=1 linf=120
-- release: sum l0=1 linf=120

-- case: an average of every row
SELECT city, AVG(income) AS mean FROM customers GROUP BY city;
-- accountant: approximate
-- accept
-- keys: private, by 2 sums, l0 proved
-- release: sum l0=1 linf=200000.0002
-- release: sum l0=1 linf=200000.0002

-- case: a variance has three sums
SELECT city, VAR_POP(income) AS v, COUNT(*) AS n FROM customers GROUP BY city;
-- accountant: approximate
-- accept
-- keys: private, by 3 sums, l0 proved
-- release: sum l0=1 linf=1.000000003
-- release: sum l0=1 linf=1.000000003
-- release: sum l0=1 linf=1.000000003

-- case: a sum beside a count
SELECT city, SUM(age) AS total, COUNT(*) AS n FROM customers GROUP BY city;
-- accountant: approximate
-- accept
-- keys: private, by 3 sums, l0 proved
-- release: sum l0=1 linf=120
-- release: sum l0=1 linf=120
-- release: sum l0=1 linf=120
-- rewrite:
--   WITH rows AS (
--     SELECT
--       t1."city" AS k0,
--       TRY(-t1."age"::HUGEINT) AS x0,
--       t1."age" AS x1,
--       120 AS x2,
--       NOT coalesce(NOT t1."age" IS NULL, FALSE) AS x3
--     FROM "customers" AS t1
--   )
--   SELECT
--     k0,
--     COALESCE(
--       SUM((CASE WHEN x0 < -120 THEN -120 WHEN x0 > 0 THEN 0 ELSE x0 END)::BIGINT - (-120))::HUGEINT, 0
--     ) AS p0,
--     COALESCE(SUM((CASE WHEN x1 < 0 THEN 0 WHEN x1 > 120 THEN 120 ELSE x1 END)::BIGINT)::HUGEINT, 0) AS p1,
--     COALESCE(
--       SUM((CASE WHEN x2 < 120 THEN 120 WHEN x2 > 120 THEN 120 ELSE x2 END)::BIGINT) FILTER (WHERE x3)::HUGEINT,
--       0
--     ) AS p2
--   FROM rows
--   GROUP BY k0
--   SELECT t2.c9 AS c0, t2.c10 AS c1, t2.c11 AS c2
--   FROM (
--     SELECT
--       t1.c0 AS c9,
--       t1.c2 AS c10,
--       TRY_CAST(
--         round((CAST(t1.c1 AS DOUBLE) + CAST(t1.c2 AS DOUBLE) + CAST(t1.c3 AS DOUBLE)) / 120.0e0) AS BIGINT
--       ) AS c11
--     FROM release_0 AS t1
--   ) AS t2

-- case: decimals, and a filter that may be unknown
SELECT city, AVG(age + 0.25::DECIMAL(5, 2)) FILTER (WHERE age < 60) AS mean, COUNT(*) AS n
FROM customers GROUP BY city;
-- accountant: approximate
-- accept
-- keys: private, by 3 sums, l0 proved
-- release: sum l0=1 linf=120
-- release: sum l0=1 linf=120
-- release: sum l0=1 linf=120

-- case: two averages, of which one counts
SELECT city, AVG(age) AS a, AVG(income) AS i FROM customers GROUP BY city;
-- accountant: approximate
-- accept
-- keys: private, by 2 sums, l0 proved
-- release: sum l0=1 linf=200000.0002
-- release: sum l0=1 linf=200000.0002
-- release: sum l0=1 linf=120
-- release: sum l0=1 linf=120

-- case: a variance and an average
SELECT city, STDDEV(age) AS a, AVG(income) AS i FROM customers GROUP BY city;
-- accountant: approximate
-- accept
-- keys: private, by 4 sums, l0 proved
-- release: sum l0=1 linf=1.000000003
-- release: sum l0=1 linf=1.000000003
-- release: sum l0=1 linf=1.000000003
-- release: sum l0=1 linf=1.000000003
-- release: sum l0=1 linf=100000

-- case: the count of units in a condition
SELECT city, AVG(income) AS mean FROM customers GROUP BY city HAVING COUNT(DISTINCT customer_id) > 10;
-- accountant: approximate
-- accept
-- keys: private, by 2 sums, l0 proved
-- release: sum l0=1 linf=200000.0002
-- release: sum l0=1 linf=200000.0002

-- case: a count alone needs no vector
SELECT city, COUNT(*) AS n FROM customers GROUP BY city;
-- accountant: approximate
-- accept
-- keys: private, l0 proved
-- release: rows l0=1 linf=1

-- case: under zCDP a count of its own does no worse
SELECT city, COUNT(*) AS n, AVG(income) AS mean FROM customers GROUP BY city;
-- accept
-- keys: private, l0 proved
-- release: rows l0=1 linf=1
-- release: sum l0=1 linf=100000
-- rewrite:
--   WITH rows AS (
--     SELECT
--       t1."city" AS k0, CASE WHEN isnan(t1."income") THEN NULL ELSE t1."income"::DOUBLE + 0.0 END AS x0
--     FROM "customers" AS t1
--   )
--   SELECT
--     k0,
--     COALESCE(COUNT(*)::HUGEINT, 0) AS p0,
--     COALESCE(
--       SUM(
--         FLOOR(
--           CASE
--             WHEN x0 < 0.0::DOUBLE THEN 0.0::DOUBLE
--             WHEN x0 > 200000.0::DOUBLE THEN 200000.0::DOUBLE
--             ELSE x0
--           END
--           * 4096.0::DOUBLE
--           + 0.5
--         )::BIGINT
--         - (409600000)
--       )::HUGEINT,
--       0
--     ) AS p1
--   FROM rows
--   GROUP BY k0
--   SELECT t3.c9 AS c0, t3.c10 AS c1, t3.c11 AS c2
--   FROM (
--     SELECT
--       t2.c9 AS c9,
--       t2.c21 AS c10,
--       100000.0e0
--       + least(
--         greatest(
--           CAST(t2.c22 AS DOUBLE) * t2.c41 / (t2.c41 * t2.c41 + 188.50347091632366e0), -100000.0e0
--         ),
--         100000.0e0
--       ) AS c11
--     FROM (
--       SELECT t1.c0 AS c9, t1.c1 AS c21, t1.c2 AS c22, greatest(1.0e0, CAST(t1.c1 AS DOUBLE)) AS c41
--       FROM release_0 AS t1
--     ) AS t2
--   ) AS t3

-- case: units with several rows are counted by themselves
SELECT device, COUNT(*) AS n, AVG(duration) AS mean FROM events GROUP BY device;
-- accountant: approximate
-- accept
-- keys: private, l0 enforced
-- release: units l0=2 linf=1
-- release: rows l0=2 linf=5
-- release: sum l0=2 linf=9000

-- case: without δ there are no private keys
SELECT city, AVG(income) AS mean FROM customers GROUP BY city;
-- accountant: pure
-- refuse: private-keys-need-delta at 1:1

-- case: an average without bounds
SELECT city, AVG(note_length) AS mean FROM orders o JOIN customers c ON o.customer_id = c.customer_id GROUP BY city;
-- accountant: approximate
-- refuse: unbounded-input at 1:18

-- case: moments of one value are measured one by one
SELECT STDDEV(age) AS s, AVG(age) AS mean FROM customers WHERE age = 30;
-- accountant: pure
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=1
-- release: sum l0=1 linf=0
-- release: sum l0=1 linf=0
