-- Measurements of disjoint rows are paid for once where no unit has more rows than are counted.
-- catalog: shop

-- case: a pivot of counts
SELECT COUNT(*) FILTER (WHERE segment = 'consumer') AS a, COUNT(*) FILTER (WHERE segment = 'business') AS b, COUNT(*) AS n FROM customers;
-- rows: customers (customer_id, segment): (1, 'consumer'), (2, 'business'), (3, 'consumer'), (4, 'other')
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=1
-- release: rows l0=1 linf=1
-- release: rows l0=1 linf=1
-- integers: () 2 1 4
-- rewrite:
--   WITH rows AS (
--     SELECT t1."segment" = 'consumer' AS x0, t1."segment" = 'business' AS x1 FROM "customers" AS t1
--   )
--   SELECT
--     COALESCE(COUNT(*) FILTER (WHERE x0)::HUGEINT, 0) AS p0,
--     COALESCE(COUNT(*) FILTER (WHERE x1)::HUGEINT, 0) AS p1,
--     COALESCE(COUNT(*)::HUGEINT, 0) AS p2
--   FROM rows
--   SELECT t1.c0 AS c0, t1.c1 AS c1, t1.c2 AS c2 FROM release_0 AS t1

-- case: a pivot as tools write it
SELECT SUM(CASE WHEN segment = 'consumer' THEN income ELSE 0 END) AS a, SUM(CASE WHEN segment = 'business' THEN income END) AS b FROM customers;
-- accept
-- keys: 1 public, l0 proved
-- release: sum l0=1 linf=200000
-- release: sum l0=1 linf=200000

-- case: a pivot of rows that are clipped pays for each
SELECT SUM(CASE WHEN status = 'paid' THEN amount ELSE 0 END) AS a, SUM(CASE WHEN status = 'open' THEN 1 ELSE 0 END) AS b, COUNT(*) FILTER (WHERE status = 'open') AS c FROM orders;
-- accept
-- keys: 1 public, l0 proved
-- release: sum l0=1 linf=5000
-- release: rows l0=1 linf=10
-- rewrite:
--   WITH rows AS (
--     SELECT
--       t1."customer_id" AS u,
--       TRY_CAST(CASE WHEN t1."status" = 'paid' THEN t1."amount" ELSE 0 END AS DECIMAL(38, 2)) AS x0,
--       t1."status" = 'open' AS x1
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
--       ) AS s0,
--       COUNT(*) FILTER (WHERE x1) AS s1
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
--       (CASE WHEN s1 < 0 THEN 0 WHEN s1 > 10 THEN 10 ELSE s1 END)::BIGINT AS p1
--     FROM totals
--   )
--   SELECT t1.c0 AS c0, t1.c1 AS c1, t1.c1 AS c2 FROM release_0 AS t1

-- case: equalities beside another condition
SELECT COUNT(*) FILTER (WHERE segment = 'consumer' AND age = 40) AS a, COUNT(*) FILTER (WHERE age = 41 AND segment = 'consumer') AS b, COUNT(*) FILTER (WHERE age = 40 AND segment = 'consumer') AS c FROM customers;
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=1
-- release: rows l0=1 linf=1

-- case: constants that one value can equal are not disjoint
SELECT COUNT(*) FILTER (WHERE income = 1.5) AS a, COUNT(*) FILTER (WHERE income = 1.50) AS b, COUNT(*) FILTER (WHERE income = 2) AS c FROM customers;
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=1
-- release: rows l0=1 linf=1
-- release: rows l0=1 linf=1
-- release: rows l0=1 linf=1
-- release: rows l0=1 linf=1
-- release: rows l0=1 linf=1

-- case: averages of disjoint rows
SELECT AVG(age) FILTER (WHERE segment = 'consumer') AS a, AVG(age) FILTER (WHERE segment = 'business') AS b FROM customers;
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=1
-- release: rows l0=1 linf=1
-- release: sum l0=1 linf=60
-- release: sum l0=1 linf=60

-- case: a sum of disjoint rows without bounds is refused
SELECT SUM(note_length) FILTER (WHERE status = 'paid') AS a, SUM(note_length) FILTER (WHERE status = 'open') AS b FROM orders;
-- refuse: unbounded-input at 1:12
