-- Charts as Apache Superset writes them: series limits, the rest as one series, virtual datasets.
-- catalog: shop

-- case: a series limit
SELECT DATE_TRUNC('QUARTER', placed_at) AS placed_at, status AS status, SUM(amount) AS "SUM(amount)" FROM public.orders JOIN (SELECT status AS status__, SUM(amount) AS mme_inner__ FROM public.orders GROUP BY status ORDER BY mme_inner__ DESC LIMIT 2) AS series_limit ON status = status__ GROUP BY DATE_TRUNC('QUARTER', placed_at), status ORDER BY "SUM(amount)" DESC LIMIT 10000;
-- dialect: postgres
-- accept
-- keys: 3 public, l0 proved
-- release: sum l0=3 linf=5000
-- keys: 24 public, l0 enforced
-- release: sum l0=3 linf=5000

-- case: series beyond the limit are one
SELECT CASE WHEN (NOT series_limit.country__ IS NULL) THEN country ELSE 'Others' END AS country, COUNT(*) AS count FROM public.customers LEFT OUTER JOIN (SELECT country AS country__, COUNT(*) AS mme_inner__ FROM public.customers GROUP BY country ORDER BY mme_inner__ DESC LIMIT 1) AS series_limit ON country = country__ GROUP BY CASE WHEN (NOT series_limit.country__ IS NULL) THEN country ELSE 'Others' END;
-- dialect: postgres
-- accept
-- keys: 3 public, l0 proved
-- release: rows l0=1 linf=1
-- keys: 4 public, l0 proved
-- release: rows l0=1 linf=1
-- rewrite:
--   WITH rows AS (SELECT t1."country" AS k0 FROM "customers" AS t1)
--   SELECT k0, COALESCE(COUNT(*)::HUGEINT, 0) AS p0
--   FROM rows
--   GROUP BY k0
--   WITH rows AS (
--     SELECT CASE WHEN NOT t2.c0 IS NULL THEN t1."country" ELSE 'Others' END AS k0
--     FROM "customers" AS t1 LEFT JOIN dpsql_stage_0 AS t2 ON t1."country" = t2.c0
--   )
--   SELECT k0, COALESCE(COUNT(*)::HUGEINT, 0) AS p0
--   FROM rows
--   GROUP BY k0
--   SELECT t1.c0 AS c0, t1.c1 AS c1 FROM release_1 AS t1

-- case: a virtual dataset of people's rows
SELECT segment AS segment, SUM(amount) AS "SUM(amount)" FROM (SELECT o.placed_at, o.amount, c.segment FROM orders AS o JOIN customers AS c ON o.customer_id = c.customer_id) AS virtual_table WHERE placed_at >= TO_TIMESTAMP('2024-03-01 00:00:00.000000', 'YYYY-MM-DD HH24:MI:SS.US') GROUP BY segment LIMIT 50000;
-- dialect: postgres
-- accept
-- keys: 2 public, l0 proved
-- release: sum l0=1 linf=5000

-- case: how many rows a table chart has
SELECT COUNT(*) AS rowcount FROM (SELECT status AS status, COUNT(*) AS count FROM public.orders GROUP BY status LIMIT 50000) AS rowcount_qry;
-- dialect: postgres
-- accept
-- keys: 3 public, l0 proved

-- case: the values of a filter
SELECT status AS status FROM public.orders GROUP BY status ORDER BY status ASC LIMIT 1000;
-- dialect: postgres
-- accept
-- keys: 3 public, l0 proved

-- case: filters and metrics written in SQL
SELECT status AS status, COUNT(DISTINCT customer_id) AS "COUNT_DISTINCT(customer_id)", AVG(amount) / 60 AS "AVG(amount)/60" FROM public.orders WHERE (quantity > 1) AND amount > 10 GROUP BY status HAVING (COUNT(*) > 1) LIMIT 1000;
-- dialect: postgres
-- accept
-- keys: 3 public, l0 proved
-- release: units l0=3 linf=1
-- release: rows l0=3 linf=10
-- release: sum l0=3 linf=2450

-- case: the columns of a virtual dataset, from no rows
SELECT o.placed_at, o.amount FROM orders AS o WHERE 1 = 0 LIMIT 1;
-- dialect: postgres
-- accept

-- case: the columns of a virtual dataset, from a first row
SELECT o.placed_at, o.amount FROM orders AS o LIMIT 1;
-- dialect: postgres
-- refuse: raw-rows at 1:35

-- case: a histogram's rows
SELECT age AS age FROM public.customers LIMIT 10000;
-- dialect: postgres
-- refuse: raw-rows at 1:31
