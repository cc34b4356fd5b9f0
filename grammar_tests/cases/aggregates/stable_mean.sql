-- PTR_MEAN: the mean if there are enough rows, by propose, test, release.
-- catalog: shop

-- case: stable mean of the unit table
SELECT PTR_MEAN(income, 3) AS mean FROM customers;
-- accept
-- keys: 1 public, l0 proved
-- release: test l0=1 linf=1
-- release: mean l0=1 linf=66666.66667

-- case: stable mean of a nullable column
SELECT PTR_MEAN(age, 2) AS mean FROM customers;
-- accept
-- keys: 1 public, l0 proved
-- release: test l0=1 linf=1
-- release: mean l0=1 linf=60

-- case: stable mean by public groups
SELECT segment, PTR_MEAN(age, 2) AS mean, COUNT(*) AS n FROM customers GROUP BY segment;
-- accept
-- keys: 2 public, l0 proved
-- release: test l0=1 linf=1
-- release: mean l0=1 linf=60
-- release: rows l0=1 linf=1

-- case: stable mean of totals per unit
SELECT PTR_MEAN(q, 2) AS mean
FROM (SELECT customer_id, LEAST(SUM(quantity), 100) AS q FROM orders GROUP BY customer_id) AS t;
-- accept
-- keys: 1 public, l0 proved
-- release: test l0=1 linf=1
-- release: mean l0=1 linf=50
-- rewrite:
--   WITH rows AS (
--     SELECT t3.c13 AS x0
--     FROM (
--       SELECT t2.c10 AS c12, least(t2.c11, 100) AS c13, t2.c10 AS c10
--       FROM (
--         SELECT t1."customer_id" AS c10, sum(TRY_CAST(t1."quantity" AS BIGINT)) AS c11
--         FROM "orders" AS t1
--         GROUP BY 1
--       ) AS t2
--     ) AS t3
--   )
--   SELECT
--     COALESCE(COUNT(*)::HUGEINT, 0) AS p0,
--     COALESCE(
--       SUM((CASE WHEN x0 < 0 THEN 0 WHEN x0 > 100 THEN 100 ELSE x0 END)::BIGINT - (50))::HUGEINT, 0
--     ) AS p1
--   FROM rows
--   SELECT t2.c14 AS c0 FROM (SELECT 50.0e0 + CAST(t1.c1 AS DOUBLE) AS c14 FROM release_0 AS t1) AS t2

-- case: stable mean with a filter, and arithmetic over it
SELECT 2 * PTR_MEAN(income, 2) FILTER (WHERE vip) AS twice FROM customers;
-- accept
-- keys: 1 public, l0 proved
-- release: test l0=1 linf=1
-- release: mean l0=1 linf=100000
-- rewrite:
--   WITH rows AS (
--     SELECT
--       t1."vip" AS x0, CASE WHEN isnan(t1."income") THEN NULL ELSE t1."income"::DOUBLE + 0.0 END AS x1
--     FROM "customers" AS t1
--   )
--   SELECT
--     COALESCE(COUNT(*) FILTER (WHERE x0)::HUGEINT, 0) AS p0,
--     COALESCE(
--       SUM(
--         FLOOR(
--           CASE
--             WHEN x1 < 0.0::DOUBLE THEN 0.0::DOUBLE
--             WHEN x1 > 200000.0::DOUBLE THEN 200000.0::DOUBLE
--             ELSE x1
--           END
--           * 4096.0::DOUBLE
--           + 0.5
--         )::BIGINT
--         - (409600000)
--       ) FILTER (WHERE x0)::HUGEINT,
--       0
--     ) AS p1
--   FROM rows
--   SELECT 2 * t2.c9 AS c0
--   FROM (SELECT 100000.0e0 + CAST(t1.c1 AS DOUBLE) AS c9 FROM release_0 AS t1) AS t2

-- case: stable mean of several rows of a unit
SELECT PTR_MEAN(quantity, 100) FROM orders;
-- refuse: unsupported-aggregate at 1:8

-- case: stable mean of what has no bounds
SELECT PTR_MEAN(n, 100) FROM
(SELECT customer_id, SUM(note_length) AS n FROM orders GROUP BY customer_id) AS t;
-- refuse: unbounded-input at 1:17

-- case: stable mean by private groups
SELECT city, PTR_MEAN(age, 100) FROM customers GROUP BY city;
-- refuse: unsupported-aggregate at 1:1

-- case: stable mean of distinct values
SELECT PTR_MEAN(DISTINCT age, 100) FROM customers;
-- refuse: unsupported-aggregate at 1:8

-- case: a proposal is a constant
SELECT PTR_MEAN(age, age) FROM customers;
-- refuse: unsupported-syntax at 1:8
