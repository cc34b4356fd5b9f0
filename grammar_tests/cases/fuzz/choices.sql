-- What is chosen where nothing can be, and what comes of dates that no calendar of ours has.
-- catalog: shop

-- case: a choice in each of no groups
SELECT t1.category AS k, MAX(t0.age) AS m FROM customers AS t0 JOIN products AS t1 ON t0.country = t1.category GROUP BY k;
-- accept
-- keys: 0 public, l0 proved
-- choice: 2/2 of 121 l0=1 rows=1 greatest
-- rewrite:
--   WITH rows AS (
--     SELECT t1."customer_id" AS u, t3.c10 AS k0, t1."age" AS x0, t3.c20 AS w
--     FROM
--       "customers" AS t1
--       INNER JOIN (SELECT t2."category" AS c10, count(*) AS c20 FROM "products" AS t2 GROUP BY 1) AS t3 ON t1."country" = t3.c10
--   ),
--   totals AS (
--     SELECT
--       u,
--       k0,
--       [
--         MAX(((CASE WHEN x0 < 0 THEN 0 WHEN x0 > 120 THEN 120 ELSE x0 END)::BIGINT - (0))) FILTER (
--           WHERE ((CASE WHEN x0 < 0 THEN 0 WHEN x0 > 120 THEN 120 ELSE x0 END)::BIGINT - (0)) IS NOT NULL
--         )
--       ] AS l0
--     FROM rows
--     GROUP BY u, k0
--   ),
--   bounded AS MATERIALIZED (SELECT k0, l0 AS l0 FROM totals)
--   SELECT k0, NULL::BIGINT AS cell, 0::HUGEINT AS n
--   FROM (SELECT k0 FROM (SELECT k0 FROM bounded) GROUP BY k0)
--   UNION ALL
--   SELECT k0, cell + 0 AS cell, COUNT(*)::HUGEINT AS n
--   FROM (SELECT k0, unnest(l0) AS cell FROM bounded)
--   WHERE cell IS NOT NULL
--   GROUP BY k0, cell
--   SELECT t1.c0 AS c0, t1.c1 AS c1 FROM release_0 AS t1

-- case: dates of public numbers, some before the year one
SELECT t1.category AS k, COUNT(MAKE_DATE(t0.units, t1.product_id, t1.product_id)) AS n FROM items AS t0 JOIN products AS t1 USING (product_id) GROUP BY k;
-- accept
-- keys: 2 public, l0 proved
-- release: rows l0=2 linf=20

-- case: such a date has no bounds to choose between
SELECT MAX(MAKE_DATE(t0.units, t1.product_id, t1.product_id)) AS m FROM items AS t0 JOIN products AS t1 USING (product_id);
-- refuse: unbounded-input at 1:12
