-- Groupings of several levels, where the cells of the finest are not there to be summed.
-- catalog: shop

-- case: the count of a total over no cell is 0
SELECT status, COUNT(*) AS n FROM orders WHERE status = 'lost' GROUP BY ROLLUP (status);
-- accept
-- rewrite:
--   SELECT t3.c10 AS c0, t3.c11 AS c1
--   FROM (
--     SELECT t2.c10 AS c10, coalesce(t2.c16, 0) AS c11
--     FROM (
--       SELECT t1.c14 AS c10, sum(t1.c15) AS c16
--       FROM (SELECT CAST(NULL AS VARCHAR) AS c14, CAST(NULL AS BIGINT) AS c15) AS t1
--       WHERE (FALSE)
--       GROUP BY GROUPING SETS ((t1.c14), ())
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
