-- HISTOGRAM: a noisy count of each public value, as text; one charge for all where rows are proved.
-- catalog: shop

-- case: of listed values
SELECT CAST(HISTOGRAM(segment) AS VARCHAR) AS h FROM customers;
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=1
-- release: rows l0=1 linf=1
-- rewrite:
--   WITH rows AS (
--     SELECT t1."segment" = 'business' AS x0, t1."segment" = 'consumer' AS x1 FROM "customers" AS t1
--   )
--   SELECT
--     COALESCE(COUNT(*) FILTER (WHERE x0)::HUGEINT, 0) AS p0,
--     COALESCE(COUNT(*) FILTER (WHERE x1)::HUGEINT, 0) AS p1
--   FROM rows
--   SELECT CAST(t2.c9 AS VARCHAR) AS c0
--   FROM (
--     SELECT left(
--       '{'
--       || left(
--         concat_ws(
--           ', ',
--           CASE
--             WHEN t1.c0 > 0 THEN left('business=' || CAST(t1.c0 AS VARCHAR), 4096)
--             ELSE CAST(NULL AS VARCHAR)
--           END,
--           CASE
--             WHEN t1.c1 > 0 THEN left('consumer=' || CAST(t1.c1 AS VARCHAR), 4096)
--             ELSE CAST(NULL AS VARCHAR)
--           END
--         ),
--         4096
--       )
--       || '}',
--       4096
--     ) AS c9
--     FROM release_0 AS t1
--   ) AS t2

-- case: of bounded numbers
SELECT status, CAST(HISTOGRAM(quantity) AS VARCHAR) AS h FROM orders GROUP BY status;
-- accept
-- keys: 3 public, l0 proved
-- release: rows l0=3 linf=10
-- release: rows l0=3 linf=10
-- release: rows l0=3 linf=10
-- release: rows l0=3 linf=10
-- release: rows l0=3 linf=10
-- release: rows l0=3 linf=10
-- release: rows l0=3 linf=10
-- release: rows l0=3 linf=10
-- release: rows l0=3 linf=10
-- release: rows l0=3 linf=10
-- release: rows l0=3 linf=10
-- release: rows l0=3 linf=10
-- release: rows l0=3 linf=10
-- release: rows l0=3 linf=10
-- release: rows l0=3 linf=10
-- release: rows l0=3 linf=10
-- release: rows l0=3 linf=10
-- release: rows l0=3 linf=10
-- release: rows l0=3 linf=10
-- release: rows l0=3 linf=10
-- release: rows l0=3 linf=10

-- case: of truth values
SELECT CAST(HISTOGRAM(age > 40) AS VARCHAR) AS h FROM customers;
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=1
-- release: rows l0=1 linf=1

-- case: of released counts
SELECT CAST(HISTOGRAM(n > 0) AS VARCHAR) AS h FROM (SELECT status, COUNT(*) AS n FROM orders GROUP BY status) AS t;
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
--   SELECT CAST(t2.c14 AS VARCHAR) AS c0
--   FROM (SELECT CAST(histogram(t1.c1 > 0) AS VARCHAR) AS c14 FROM release_0 AS t1) AS t2

-- case: of values that are not listed
SELECT HISTOGRAM(city) AS h FROM customers;
-- refuse: unsupported-aggregate at 1:8

-- case: of too many values
SELECT HISTOGRAM(age) AS h FROM customers;
-- refuse: unsupported-aggregate at 1:8

-- case: of different values
SELECT HISTOGRAM(DISTINCT segment) AS h FROM customers;
-- refuse: unsupported-aggregate at 1:8
