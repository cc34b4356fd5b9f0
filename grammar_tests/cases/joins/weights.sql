-- Public rows that a private row meets alike are one row with their number.
-- catalog: shop

-- case: by what is no key of the public side
SELECT COUNT(*) FROM customers c JOIN countries k ON c.segment = k.region;
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=2
-- rewrite:
--   WITH rows AS (
--     SELECT t1."customer_id" AS u, t3.c15 AS w
--     FROM
--       "customers" AS t1
--       INNER JOIN (SELECT t2."region" AS c10, count(*) AS c15 FROM "countries" AS t2 GROUP BY 1) AS t3 ON t1."segment" = t3.c10
--   ),
--   totals AS (SELECT u, COALESCE(SUM(w), 0) AS s0 FROM rows GROUP BY u)
--   SELECT COALESCE(SUM(p0)::HUGEINT, 0) AS p0
--   FROM (SELECT (CASE WHEN s0 < 0 THEN 0 WHEN s0 > 2 THEN 2 ELSE s0 END)::BIGINT AS p0 FROM totals)
--   SELECT t1.c0 AS c0 FROM release_0 AS t1

-- case: sums, averages, parts of them
SELECT segment, COUNT(*) AS n, COUNT(age) AS known, SUM(age) AS s, AVG(age) AS mean, COUNT(*) FILTER (WHERE vip) AS vips FROM customers c JOIN products p ON p.category <> c.city GROUP BY segment;
-- accept
-- keys: 2 public, l0 proved
-- release: rows l0=1 linf=3
-- release: rows l0=1 linf=3
-- release: rows l0=1 linf=3
-- release: sum l0=1 linf=180
-- release: rows l0=1 linf=3
-- release: rows l0=1 linf=3

-- case: amounts and several equalities
SELECT SUM(o.amount) AS s, VARIANCE(o.quantity) AS v FROM orders o JOIN products p ON p.product_id >= o.quantity AND p.category <> o.note;
-- accept
-- keys: 1 public, l0 proved
-- release: sum l0=1 linf=15000
-- release: rows l0=1 linf=30
-- release: sum l0=1 linf=300
-- release: sum l0=1 linf=1500

-- case: a row that meets none is one
SELECT COUNT(*) AS n, COUNT(p.category) AS met FROM customers c LEFT JOIN products p ON p.category || '' = c.city AND p.list_price > 5;
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=3
-- release: rows l0=1 linf=3
-- release: rows l0=1 linf=3
-- rewrite:
--   WITH rows AS (
--     SELECT
--       t1."customer_id" AS u,
--       NOT t3.c10 IS NULL AS x0,
--       NOT coalesce(NOT t3.c10 IS NULL, FALSE) AS x1,
--       coalesce(t3.c30, 1) AS w
--     FROM
--       "customers" AS t1
--       LEFT JOIN (
--         SELECT t2."category" AS c10, count(*) AS c30
--         FROM "products" AS t2
--         WHERE (t2."list_price" > 5)
--         GROUP BY 1
--       ) AS t3 ON left(t3.c10 || '', 4096) = t1."city"
--   ),
--   totals AS (
--     SELECT
--       u,
--       COALESCE(SUM(w), 0) AS s0,
--       COALESCE(SUM(w) FILTER (WHERE x0), 0) AS s1,
--       COALESCE(SUM(w) FILTER (WHERE x1), 0) AS s2
--     FROM rows
--     GROUP BY u
--   )
--   SELECT
--     COALESCE(SUM(p0)::HUGEINT, 0) AS p0,
--     COALESCE(SUM(p1)::HUGEINT, 0) AS p1,
--     COALESCE(SUM(p2)::HUGEINT, 0) AS p2
--   FROM (
--     SELECT
--       (CASE WHEN s0 < 0 THEN 0 WHEN s0 > 3 THEN 3 ELSE s0 END)::BIGINT AS p0,
--       (CASE WHEN s1 < 0 THEN 0 WHEN s1 > 3 THEN 3 ELSE s1 END)::BIGINT AS p1,
--       (CASE WHEN s2 < 0 THEN 0 WHEN s2 > 3 THEN 3 ELSE s2 END)::BIGINT AS p2
--     FROM totals
--   )
--   SELECT t1.c0 AS c0, t1.c1 AS c1 FROM release_0 AS t1

-- case: public tables that say something of one another are one
SELECT COUNT(*) FROM customers c, countries a, countries b, products p WHERE a.region = c.segment AND b.region = a.region AND p.list_price > 10 AND p.category <> b.code;
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=12

-- case: within one person
SELECT AVG(n) AS n, SUM(s) AS s, SUM(a) AS a FROM (SELECT o.customer_id, COUNT(*) AS n, SUM(o.quantity) AS s, AVG(o.amount) AS a, MAX(o.quantity) AS m FROM orders o JOIN products p ON p.category <> o.status GROUP BY o.customer_id) AS t;
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=1
-- release: sum l0=1 linf=75
-- release: sum l0=1 linf=3000
-- release: sum l0=1 linf=500.0000005
-- rewrite:
--   WITH rows AS (
--     SELECT t5.c14 AS x0, t5.c15 AS x1, t5.c16 AS x2
--     FROM (
--       SELECT
--         t4.c13 AS c13,
--         TRY_CAST(coalesce(t4.c46, 0) AS BIGINT) AS c14,
--         t4.c47 AS c15,
--         CASE
--           WHEN isnan(CAST(t4.c48 AS DOUBLE) / CAST(t4.c49 AS DOUBLE)) THEN NULL
--           ELSE CAST(t4.c48 AS DOUBLE) / CAST(t4.c49 AS DOUBLE)
--         END AS c16,
--         t4.c17 AS c17
--       FROM (
--         SELECT
--           t1."customer_id" AS c13,
--           sum(t3.c45) AS c46,
--           sum(TRY(TRY_CAST(t1."quantity" AS BIGINT) * t3.c45)) AS c47,
--           sum(TRY_CAST(TRY(t1."amount" * TRY_CAST(t3.c45 AS DECIMAL(38, 0))) AS DECIMAL(29, 2))) AS c48,
--           sum(CASE WHEN t1."amount" IS NULL THEN 0 ELSE t3.c45 END) AS c49,
--           max(t1."quantity") AS c17
--         FROM
--           "orders" AS t1
--           INNER JOIN (SELECT t2."category" AS c11, count(*) AS c45 FROM "products" AS t2 GROUP BY 1) AS t3 ON t3.c11 <> t1."status"
--         GROUP BY 1
--       ) AS t4
--     ) AS t5
--   )
--   SELECT
--     COALESCE(COUNT(*)::HUGEINT, 0) AS p0,
--     COALESCE(
--       SUM((CASE WHEN x0 < 0 THEN 0 WHEN x0 > 150 THEN 150 ELSE x0 END)::BIGINT - (75))::HUGEINT, 0
--     ) AS p1,
--     COALESCE(SUM((CASE WHEN x1 < 0 THEN 0 WHEN x1 > 3000 THEN 3000 ELSE x1 END)::BIGINT)::HUGEINT, 0) AS p2,
--     COALESCE(
--       SUM(
--         FLOOR(
--           CASE
--             WHEN x2 < 0.0::DOUBLE THEN 0.0::DOUBLE
--             WHEN x2 > 500.00000047683716::DOUBLE THEN 500.00000047683716::DOUBLE
--             ELSE x2
--           END
--           * 2097152.0::DOUBLE
--           + 0.5
--         )::BIGINT
--       )::HUGEINT,
--       0
--     ) AS p3
--   FROM rows
--   SELECT t3.c23 AS c0, t3.c24 AS c1, t3.c25 AS c2
--   FROM (
--     SELECT
--       75.0e0
--       + least(
--         greatest(CAST(t2.c42 AS DOUBLE) * t2.c65 / (t2.c65 * t2.c65 + 377.57309581909175e0), -75.0e0),
--         75.0e0
--       ) AS c23,
--       t2.c43 AS c24,
--       t2.c44 AS c25
--     FROM (
--       SELECT t1.c1 AS c42, t1.c2 AS c43, t1.c3 AS c44, greatest(1.0e0, CAST(t1.c0 AS DOUBLE)) AS c65
--       FROM release_0 AS t1
--     ) AS t2
--   ) AS t3

-- case: the keys of the public side are read
SELECT p.category, COUNT(*) AS n, MAX(c.age) AS oldest FROM customers c JOIN products p ON p.list_price > c.age GROUP BY p.category HAVING COUNT(*) > 1;
-- accept
-- keys: 2 public, l0 proved
-- release: rows l0=2 linf=3
-- choice: 2/2 of 121 l0=2 rows=1 greatest

-- case: a quantile reads every row
SELECT MEDIAN(age) FROM customers c JOIN countries k ON c.segment = k.region;
-- accept
-- keys: 1 public, l0 proved
-- choice: 2/4 of 121 l0=1 rows=2 all

-- case: more than the limit on joins is refused, counted or not
SELECT COUNT(*) FROM customers c JOIN generate_series(1, 10001) AS s(n) ON s.n <> c.age;
-- refuse: query-too-large at 1:39
