-- DuckDB 2.0.0 with statistics fails on the first case where nobody is older than 115.
-- catalog: shop

-- case: a condition that the range of a column decides
SELECT COUNT(*) AS n FROM customers WHERE CASE WHEN age > 115 THEN 'old' END = 'young';
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=1
-- rewrite:
--   WITH rows AS (
--     SELECT 1 AS one
--     FROM "customers" AS t1
--     WHERE (CASE WHEN t1."age" > 115 THEN 'old' ELSE NULL END = 'young')
--   )
--   SELECT COALESCE(COUNT(*)::HUGEINT, 0) AS p0
--   FROM rows
--   SELECT t1.c0 AS c0 FROM release_0 AS t1

-- case: the same condition over a text that is no number
SELECT COUNT(*) AS n FROM customers WHERE CASE WHEN age > 'old' THEN 'old' END = 'young';
-- refuse: type-mismatch at 1:59
