-- Groupings of several levels, where the cells of the finest are not there to be summed.
-- catalog: shop

-- case: the count of a total over no cell is 0
SELECT status, COUNT(*) AS n FROM orders WHERE status = 'lost' GROUP BY ROLLUP (status);
-- accept
-- keys: 0 public, l0 proved
-- release: rows l0=0 linf=10
-- rewrite:
--   WITH rows AS (
--     SELECT t1."customer_id" AS u, t1."status" AS k0 FROM "orders" AS t1 WHERE (t1."status" = 'lost')
--   ),
--   totals AS (SELECT u, k0, COUNT(*) AS s0 FROM rows GROUP BY u, k0)
--   SELECT k0, COALESCE(SUM(p0)::HUGEINT, 0) AS p0
--   FROM (
--     SELECT k0, (CASE WHEN s0 < 0 THEN 0 WHEN s0 > 10 THEN 10 ELSE s0 END)::BIGINT AS p0 FROM totals
--   )
--   GROUP BY k0
--   SELECT t3.c10 AS c0, t3.c11 AS c1
--   FROM (
--     SELECT t2.c10 AS c10, coalesce(t2.c16, 0) AS c11
--     FROM (
--       SELECT t1.c0 AS c10, sum(t1.c1) AS c16 FROM release_0 AS t1 GROUP BY GROUPING SETS ((t1.c0), ())
--     ) AS t2
--   ) AS t3

-- case: a total per public row without private ones
SELECT p.category, SUM(i.units) AS n FROM items i RIGHT JOIN products p USING (product_id) GROUP BY ROLLUP (p.category);
-- accept
-- keys: 2 public, l0 proved
-- release: sum l0=2 linf=200

-- case: a private key beside public rows without private ones
SELECT i.units, SUM(i.units) AS n FROM items i RIGHT JOIN products p USING (product_id) GROUP BY ROLLUP (i.units);
-- refuse: unsupported-private-operator at 1:106
