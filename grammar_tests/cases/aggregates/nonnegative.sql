-- OPTIONS(nonnegative = true): counts, and sums of what is never negative, are shown as zero where noise took them below.
-- catalog: shop

-- case: counts and sums
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(nonnegative = true) status, COUNT(*) AS n, SUM(amount) AS s, SUM(amount - 100) AS d FROM orders GROUP BY 1;
-- accept
-- keys: 3 public, l0 proved
-- release: rows l0=3 linf=10
-- release: sum l0=3 linf=5000
-- release: sum l0=3 linf=4000

-- case: distinct counts with an epsilon
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = 0.1, nonnegative = true) COUNT(DISTINCT customer_id) AS n FROM orders;
-- accept
-- keys: 1 public, l0 proved
-- release: units l0=1 linf=1
-- rewrite:
--   WITH rows AS (SELECT t1."customer_id" AS u FROM "orders" AS t1),
--   totals AS (SELECT u, 1 AS s0 FROM rows GROUP BY u)
--   SELECT COALESCE(SUM(p0)::HUGEINT, 0) AS p0
--   FROM (SELECT (CASE WHEN s0 < 0 THEN 0 WHEN s0 > 1 THEN 1 ELSE s0 END)::BIGINT AS p0 FROM totals)
--   SELECT t2.c10 AS c0
--   FROM (SELECT greatest(t1.c0, CAST(0 AS BIGINT)) AS c10 FROM release_0 AS t1) AS t2

-- case: not asked for
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(nonnegative = false) COUNT(*) AS n FROM orders;
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=10
-- rewrite:
--   WITH rows AS (SELECT t1."customer_id" AS u FROM "orders" AS t1),
--   totals AS (SELECT u, COUNT(*) AS s0 FROM rows GROUP BY u)
--   SELECT COALESCE(SUM(p0)::HUGEINT, 0) AS p0
--   FROM (SELECT (CASE WHEN s0 < 0 THEN 0 WHEN s0 > 10 THEN 10 ELSE s0 END)::BIGINT AS p0 FROM totals)
--   SELECT t1.c0 AS c0 FROM release_0 AS t1

-- case: no truth value
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(nonnegative = 1) COUNT(*) AS n FROM orders;
-- refuse: bad-option at 1:56
