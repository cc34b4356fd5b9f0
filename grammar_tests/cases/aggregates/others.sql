-- Aggregates that have no rule yet are refused by name.
-- catalog: shop

-- case: text aggregation would return values
SELECT STRING_AGG(segment, ',') FROM customers;
-- refuse: unsupported-aggregate at 1:8

-- case: any value
SELECT ANY_VALUE(status) FROM orders;
-- refuse: unsupported-aggregate at 1:8

-- case: minimum over released counts is post-processing
SELECT MIN(n) AS least FROM (SELECT status, COUNT(*) AS n FROM orders GROUP BY status) AS t;
-- accept
-- keys: 3 public, l0 proved
-- release: rows l0=3 linf=10
-- rewrite:
--   WITH rows AS (SELECT t1."customer_id" AS u, t1."status" AS k0 FROM "orders" AS t1),
--   totals AS (SELECT u, k0, COUNT(*) AS s0 FROM rows GROUP BY u, k0)
--   SELECT k0, COALESCE(SUM(p0)::HUGEINT, 0) AS p0
--   FROM (
--     SELECT k0, (CASE WHEN s0 < 0 THEN 0 WHEN s0 > 10 THEN 10 ELSE s0 END)::BIGINT AS p0 FROM totals
--   )
--   GROUP BY k0
--   SELECT t2.c14 AS c0 FROM (SELECT min(t1.c1) AS c14 FROM release_0 AS t1) AS t2
