-- GoogleSQL's epsilon of one aggregate: what it may spend of that of the query.
-- catalog: shop

-- case: an aggregate has its own epsilon, and the other one the rest
SELECT WITH DIFFERENTIAL_PRIVACY COUNT(*, epsilon => 0.25) AS n, SUM(income) AS s FROM customers;
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=1
-- release: sum l0=1 linf=200000
-- rewrite:
--   WITH rows AS (
--     SELECT CASE WHEN isnan(t1."income") THEN NULL ELSE t1."income"::DOUBLE + 0.0 END AS x0
--     FROM "customers" AS t1
--   )
--   SELECT
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
--       )::HUGEINT,
--       0
--     ) AS p1
--   FROM rows
--   SELECT t1.c0 AS c0, t1.c1 AS c1 FROM release_0 AS t1

-- case: aggregates that measure something together pool what they may spend
SELECT WITH DIFFERENTIAL_PRIVACY COUNT(income, epsilon => 0.25) AS n, AVG(income, epsilon => 0.5) AS a, SUM(age) AS s FROM customers;
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=1
-- release: sum l0=1 linf=100000
-- release: sum l0=1 linf=120

-- case: what nothing wants is not spent
SELECT WITH DIFFERENTIAL_PRIVACY COUNT(*, epsilon => 0.25) AS n FROM customers;
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=1

-- case: beside contribution bounds
SELECT WITH DIFFERENTIAL_PRIVACY SUM(amount, contribution_bounds_per_group => (0, 100), epsilon => 0.25) AS s, COUNT(*) AS n FROM orders;
-- accept
-- keys: 1 public, l0 proved
-- release: sum l0=1 linf=100
-- release: rows l0=1 linf=10
-- rewrite:
--   WITH rows AS (SELECT t1."customer_id" AS u, t1."amount" AS x0 FROM "orders" AS t1),
--   totals AS (
--     SELECT
--       u,
--       SUM(
--         CASE
--           WHEN x0 < '0.00'::DECIMAL(3, 2) THEN '0.00'::DECIMAL(3, 2)
--           WHEN x0 > '500.00'::DECIMAL(5, 2) THEN '500.00'::DECIMAL(5, 2)
--           ELSE x0
--         END
--       ) AS s0,
--       COUNT(*) AS s1
--     FROM rows
--     GROUP BY u
--   )
--   SELECT COALESCE(SUM(p0)::HUGEINT, 0) AS p0, COALESCE(SUM(p1)::HUGEINT, 0) AS p1
--   FROM (
--     SELECT
--       (
--         (
--           CASE
--             WHEN s0 < '0.00'::DECIMAL(3, 2) THEN '0.00'::DECIMAL(3, 2)
--             WHEN s0 > '100.00'::DECIMAL(5, 2) THEN '100.00'::DECIMAL(5, 2)
--             ELSE s0
--           END
--         )::DECIMAL(5, 2)
--         * '100'::DECIMAL(3, 0)
--       )::BIGINT AS p0,
--       (CASE WHEN s1 < 0 THEN 0 WHEN s1 > 10 THEN 10 ELSE s1 END)::BIGINT AS p1
--     FROM totals
--   )
--   SELECT t1.c0 AS c0, t1.c1 AS c1 FROM release_0 AS t1

-- case: the count that shows private keys has the rest
SELECT WITH DIFFERENTIAL_PRIVACY city, SUM(income, epsilon => 0.25) AS s FROM customers GROUP BY city;
-- accept
-- keys: private, l0 proved
-- release: rows l0=1 linf=1
-- release: sum l0=1 linf=200000

-- case: a quantile has its own epsilon
SELECT WITH DIFFERENTIAL_PRIVACY MEDIAN(income, epsilon => 0.25) AS m, COUNT(*) AS n FROM customers;
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=1
-- choice: 2/4 of 65531 l0=1 rows=1 all

-- case: more than the query's is refused
SELECT WITH DIFFERENTIAL_PRIVACY COUNT(*, epsilon => 1.25) AS n FROM customers;
-- refuse: bad-option at 1:34

-- case: nothing left for the others is refused
SELECT WITH DIFFERENTIAL_PRIVACY COUNT(*, epsilon => 1) AS n, SUM(income) AS s FROM customers;
-- refuse: bad-option at 1:34

-- case: an epsilon of a released aggregate is refused
SELECT WITH DIFFERENTIAL_PRIVACY SUM(n, epsilon => 0.1) AS s FROM (SELECT COUNT(*) AS n FROM customers GROUP BY segment) AS t;
-- refuse: unsupported-syntax at 1:34

-- case: an epsilon of an aggregate within one person is refused
SELECT WITH DIFFERENTIAL_PRIVACY AVG(n) AS a FROM (SELECT customer_id, SUM(amount, epsilon => 0.1) AS n FROM orders GROUP BY customer_id) AS t;
-- refuse: unsupported-syntax at 1:72

-- case: an epsilon that is given twice is refused
SELECT WITH DIFFERENTIAL_PRIVACY COUNT(*, epsilon => 0.1, epsilon => 0.1) AS n FROM customers;
-- refuse: bad-option at 1:59

-- case: an epsilon that is no positive number is refused
SELECT WITH DIFFERENTIAL_PRIVACY COUNT(*, epsilon => -0.1) AS n FROM customers;
-- refuse: bad-option at 1:43

-- case: an epsilon outside of WITH DIFFERENTIAL_PRIVACY is refused
SELECT COUNT(*, epsilon => 0.1) AS n FROM customers;
-- refuse: unsupported-syntax at 1:25

-- case: an epsilon of what costs nothing is refused
SELECT WITH DIFFERENTIAL_PRIVACY segment, MAX(segment, epsilon => 0.1) AS n FROM customers GROUP BY segment;
-- refuse: bad-option at 1:43

-- case: counts by a condition have an epsilon and bounds too
SELECT WITH DIFFERENTIAL_PRIVACY COUNT_IF(vip, epsilon => 0.25) AS v, SUM(age) AS s FROM customers;
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=1
-- release: sum l0=1 linf=120

-- case: what is written once spends once, however many elements and groupings it has
SELECT WITH DIFFERENTIAL_PRIVACY segment, PERCENTILE_DISC([0.25, 0.75], epsilon => 0.5) WITHIN GROUP (ORDER BY age) AS q FROM customers GROUP BY ROLLUP (segment);
-- accept
-- keys: 2 public, l0 proved
-- choice: 2/8 of 121 l0=1 rows=1 all
-- choice: 6/8 of 121 l0=1 rows=1 all
-- keys: 1 public, l0 proved
-- choice: 2/8 of 121 l0=1 rows=1 all
-- choice: 6/8 of 121 l0=1 rows=1 all

-- case: a list of quantiles that would spend more is refused
SELECT WITH DIFFERENTIAL_PRIVACY PERCENTILE_DISC([0.25, 0.75], epsilon => 1.5) WITHIN GROUP (ORDER BY age) AS q FROM customers;
-- refuse: bad-option at 1:34
