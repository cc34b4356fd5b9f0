-- Public relations that only multiply rows are numbers, which need not meet anybody's rows.
-- catalog: shop

-- case: a cross join counts each row as often as there are rows
SELECT COUNT(*) FROM customers CROSS JOIN countries;
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=1

-- case: however many there are, one row stays one
SELECT COUNT(*) FROM customers, countries c0, countries c1, countries c2, countries c3, countries c4, countries c5, countries c6, countries c7, countries c8 WHERE age >= 64 AND c0.region <> 'z';
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=1

-- case: with conditions of their own, by groups, beside averages and extremes
SELECT segment, COUNT(*) AS n, COUNT(age) AS known, SUM(age) AS s, AVG(age) AS mean FROM customers, countries a JOIN countries b ON a.region = b.region, generate_series(1, 500) AS g(n) WHERE g.n > 100 GROUP BY segment;
-- accept
-- keys: 2 public, l0 proved
-- release: rows l0=1 linf=1
-- release: rows l0=1 linf=1
-- release: rows l0=1 linf=1
-- release: sum l0=1 linf=60

-- case: people stay as they are
SELECT COUNT(DISTINCT customer_id) AS people, MAX(age) AS oldest FROM customers, countries;
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=1
-- choice: 2/2 of 121 l0=1 rows=1 greatest
-- rewrite:
--   WITH rows AS (SELECT t1."age" AS x0 FROM "customers" AS t1)
--   SELECT NULL::BIGINT AS cell, p0, 0::HUGEINT AS n
--   FROM (SELECT COALESCE(COUNT(*)::HUGEINT, 0) AS p0 FROM rows)
--   UNION ALL
--   SELECT cell + 0 AS cell, 0::HUGEINT AS p0, COUNT(*)::HUGEINT AS n
--   FROM (
--     SELECT ((CASE WHEN x0 < 0 THEN 0 WHEN x0 > 120 THEN 120 ELSE x0 END)::BIGINT - (0)) AS cell
--     FROM rows
--   )
--   WHERE cell IS NOT NULL
--   GROUP BY cell
--   SELECT t1.c0 AS c0, t1.c1 AS c1 FROM release_0 AS t1

-- case: within one person too
SELECT AVG(n) FROM (SELECT customer_id, COUNT(*) AS n FROM orders, countries GROUP BY customer_id) AS t;
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=1
-- release: sum l0=1 linf=75
-- rewrite:
--   WITH rows AS (
--     SELECT t3.c13 AS x0
--     FROM (
--       SELECT t2.c12 AS c12, TRY(t2.c18 * 3::HUGEINT) AS c13
--       FROM (SELECT t1."customer_id" AS c12, count(*) AS c18 FROM "orders" AS t1 GROUP BY 1) AS t2
--     ) AS t3
--   )
--   SELECT
--     COALESCE(COUNT(*)::HUGEINT, 0) AS p0,
--     COALESCE(
--       SUM((CASE WHEN x0 < 0 THEN 0 WHEN x0 > 150 THEN 150 ELSE x0 END)::BIGINT - (75))::HUGEINT, 0
--     ) AS p1
--   FROM rows
--   SELECT t3.c16 AS c0
--   FROM (
--     SELECT
--       75.0e0
--       + least(
--         greatest(CAST(t2.c26 AS DOUBLE) * t2.c42 / (t2.c42 * t2.c42 + 153.2294066253662e0), -75.0e0),
--         75.0e0
--       ) AS c16
--     FROM (SELECT t1.c1 AS c26, greatest(1.0e0, CAST(t1.c0 AS DOUBLE)) AS c42 FROM release_0 AS t1) AS t2
--   ) AS t3

-- case: rows that none of them meets
SELECT COUNT(*) FROM customers, countries WHERE region = 'nowhere';
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=3

-- case: what is read of them is joined
SELECT region, COUNT(*) FROM customers, countries GROUP BY region;
-- accept
-- keys: 2 public, l0 proved
-- release: scaled l0=2 linf=3.0009

-- case: and so is what a condition ties to the private rows
SELECT COUNT(*) FROM customers c, countries k WHERE c.city <> k.code;
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=3

-- case: nothing above can be multiplied after the fact
SELECT VARIANCE(age) FROM customers, countries;
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=3
-- release: sum l0=1 linf=180
-- release: sum l0=1 linf=5400

-- case: too many to be joined
SELECT VARIANCE(age) FROM customers, generate_series(1, 200) AS s(n), generate_series(1, 200) AS r(n);
-- refuse: query-too-large at 1:71
