-- COVAR, CORR and REGR_*(y, x): formulas over the moments of the rows in which both are there.
-- catalog: shop

-- case: covariance
SELECT COVAR_POP(amount, quantity) AS p, COVAR_SAMP(amount, quantity) AS s FROM orders;
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=10
-- release: sum l0=1 linf=2500
-- release: sum l0=1 linf=100
-- release: sum l0=1 linf=25000

-- case: correlation of rows of one per unit
SELECT CORR(age, income) AS c FROM customers;
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=1
-- release: sum l0=1 linf=60
-- release: sum l0=1 linf=100000
-- release: sum l0=1 linf=6000000
-- release: sum l0=1 linf=1800
-- release: sum l0=1 linf=5000000000

-- case: a line through the rows
SELECT REGR_SLOPE(amount, quantity) AS s, REGR_INTERCEPT(amount, quantity) AS i, REGR_R2(amount, quantity) AS r FROM orders;
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=10
-- release: sum l0=1 linf=2500
-- release: sum l0=1 linf=100
-- release: sum l0=1 linf=25000
-- release: sum l0=1 linf=500
-- release: sum l0=1 linf=312500

-- case: means and counts of complete rows
SELECT REGR_AVGX(age, income) AS x, REGR_AVGY(age, income) AS y, REGR_COUNT(age, income) AS n FROM customers;
-- rows: customers (customer_id, age, income): (1, 70, 100000), (2, NULL, 5), (3, 60, 300000), (4, 50, 0)
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=1
-- release: sum l0=1 linf=100000
-- release: sum l0=1 linf=60
-- integers: () 3 0 0
-- rewrite:
--   WITH rows AS (
--     SELECT
--       NOT t1."age" IS NULL AS x0,
--       CASE WHEN isnan(t1."income") THEN NULL ELSE t1."income"::DOUBLE + 0.0 END AS x1,
--       t1."age" AS x2
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
--     ) AS p1,
--     COALESCE(
--       SUM((CASE WHEN x2 < 0 THEN 0 WHEN x2 > 120 THEN 120 ELSE x2 END)::BIGINT - (60)) FILTER (WHERE x0)::HUGEINT,
--       0
--     ) AS p2
--   FROM rows
--   SELECT t3.c9 AS c0, t3.c10 AS c1, t3.c11 AS c2
--   FROM (
--     SELECT
--       least(greatest(100000.0e0 + CAST(t2.c25 AS DOUBLE) / t2.c33, 0.0e0), 200000.0e0) AS c9,
--       least(greatest(60.0e0 + CAST(t2.c26 AS DOUBLE) / t2.c33, 0.0e0), 120.0e0) AS c10,
--       t2.c24 AS c11
--     FROM (
--       SELECT t1.c0 AS c24, t1.c1 AS c25, t1.c2 AS c26, greatest(1.0e0, CAST(t1.c0 AS DOUBLE)) AS c33
--       FROM release_0 AS t1
--     ) AS t2
--   ) AS t3

-- case: sums of squares
SELECT REGR_SXX(amount, quantity) AS xx, REGR_SXY(amount, quantity) AS xy, REGR_SYY(amount, quantity) AS yy FROM orders;
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=10
-- release: sum l0=1 linf=100
-- release: sum l0=1 linf=500
-- release: sum l0=1 linf=2500
-- release: sum l0=1 linf=25000
-- release: sum l0=1 linf=312500

-- case: per public key
SELECT status, CORR(amount, quantity) AS c FROM orders GROUP BY status;
-- accept
-- keys: 3 public, l0 proved
-- release: rows l0=3 linf=10
-- release: sum l0=3 linf=2500
-- release: sum l0=3 linf=100
-- release: sum l0=3 linf=25000
-- release: sum l0=3 linf=312500
-- release: sum l0=3 linf=500

-- case: with the rows that a filter keeps
SELECT COVAR_POP(age, income) FILTER (WHERE age < 60) AS c FROM customers;
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=1
-- release: sum l0=1 linf=60
-- release: sum l0=1 linf=100000
-- release: sum l0=1 linf=6000000

-- case: an argument without bounds is refused
SELECT CORR(amount, note_length) AS c FROM orders;
-- refuse: unbounded-input at 1:21

-- case: different pairs are refused
SELECT CORR(DISTINCT age, income) AS c FROM customers;
-- refuse: unsupported-aggregate at 1:8
