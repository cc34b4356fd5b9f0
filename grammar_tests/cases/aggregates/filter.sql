-- FILTER (WHERE ...): rows that do not pass do not count; nothing drops the clause silently.
-- catalog: shop

-- case: filtered count
SELECT COUNT(*) FILTER (WHERE status = 'paid') AS paid FROM orders;
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=10

-- case: filtered sum beside an unfiltered one
SELECT SUM(amount) FILTER (WHERE status = 'returned') AS back, SUM(amount) AS total FROM orders;
-- accept
-- keys: 1 public, l0 proved
-- release: sum l0=1 linf=5000
-- release: sum l0=1 linf=5000
-- rewrite:
--   WITH rows AS (
--     SELECT t1."customer_id" AS u, t1."amount" AS x0, t1."status" = 'returned' AS x1
--     FROM "orders" AS t1
--   ),
--   totals AS (
--     SELECT
--       u,
--       SUM(
--         CASE
--           WHEN x0 < '0.00'::DECIMAL(3, 2) THEN '0.00'::DECIMAL(3, 2)
--           WHEN x0 > '500.00'::DECIMAL(5, 2) THEN '500.00'::DECIMAL(5, 2)
--           ELSE x0
--         END
--       ) FILTER (WHERE x1) AS s0,
--       SUM(
--         CASE
--           WHEN x0 < '0.00'::DECIMAL(3, 2) THEN '0.00'::DECIMAL(3, 2)
--           WHEN x0 > '500.00'::DECIMAL(5, 2) THEN '500.00'::DECIMAL(5, 2)
--           ELSE x0
--         END
--       ) AS s1
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
--             WHEN s0 > '5000.00'::DECIMAL(6, 2) THEN '5000.00'::DECIMAL(6, 2)
--             ELSE s0
--           END
--         )::DECIMAL(6, 2)
--         * '100'::DECIMAL(3, 0)
--       )::BIGINT AS p0,
--       (
--         (
--           CASE
--             WHEN s1 < '0.00'::DECIMAL(3, 2) THEN '0.00'::DECIMAL(3, 2)
--             WHEN s1 > '5000.00'::DECIMAL(6, 2) THEN '5000.00'::DECIMAL(6, 2)
--             ELSE s1
--           END
--         )::DECIMAL(6, 2)
--         * '100'::DECIMAL(3, 0)
--       )::BIGINT AS p1
--     FROM totals
--   )
--   SELECT t1.c0 AS c0, t1.c1 AS c1 FROM release_0 AS t1

-- case: filtered count of units
SELECT COUNT(DISTINCT customer_id) FILTER (WHERE amount > 100) AS big FROM orders;
-- accept
-- keys: 1 public, l0 proved
-- release: units l0=1 linf=1

-- case: filter with a null test
SELECT COUNT(*) FILTER (WHERE discount IS NULL) AS none FROM orders;
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=10

-- case: filter by group
SELECT segment, COUNT(*) FILTER (WHERE age >= 65) AS old FROM customers GROUP BY segment;
-- accept
-- keys: 2 public, l0 proved
-- release: rows l0=1 linf=1

-- case: filter on a window
SELECT SUM(amount) FILTER (WHERE status = 'paid') OVER () FROM orders;
-- refuse: unsupported-private-operator at 1:8

-- case: filter with an unknown column
SELECT COUNT(*) FILTER (WHERE colour = 'red') FROM orders;
-- refuse: unknown-column at 1:31

-- case: filter that is not a condition
SELECT COUNT(*) FILTER (WHERE amount) FROM orders;
-- refuse: type-mismatch at 1:31

-- case: aggregate inside a filter
SELECT COUNT(*) FILTER (WHERE amount > AVG(amount)) FROM orders;
-- refuse: misplaced-aggregate at 1:40

-- case: a ratio of filtered counts
SELECT 100.0 * COUNT(*) FILTER (WHERE status = 'paid') / NULLIF(COUNT(*), 0) AS percent FROM orders;
-- rows: orders (customer_id, status): (1, 'paid'), (1, 'open'), (2, 'paid'), (3, NULL)
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=10
-- release: rows l0=1 linf=10
-- integers: () 2 4
-- rewrite:
--   WITH rows AS (SELECT t1."customer_id" AS u, t1."status" = 'paid' AS x0 FROM "orders" AS t1),
--   totals AS (SELECT u, COUNT(*) FILTER (WHERE x0) AS s0, COUNT(*) AS s1 FROM rows GROUP BY u)
--   SELECT COALESCE(SUM(p0)::HUGEINT, 0) AS p0, COALESCE(SUM(p1)::HUGEINT, 0) AS p1
--   FROM (
--     SELECT
--       (CASE WHEN s0 < 0 THEN 0 WHEN s0 > 10 THEN 10 ELSE s0 END)::BIGINT AS p0,
--       (CASE WHEN s1 < 0 THEN 0 WHEN s1 > 10 THEN 10 ELSE s1 END)::BIGINT AS p1
--     FROM totals
--   )
--   SELECT TRY(100.0 * TRY_CAST(t1.c0 AS DECIMAL(38, 0))) / nullif(t1.c1, 0) AS c0 FROM release_0 AS t1
