-- Aggregates within one unit: anything exact, and the unit has one row afterwards.
-- catalog: shop

-- case: the average of totals per unit
SELECT AVG(total) FROM (SELECT customer_id, SUM(amount) AS total FROM orders GROUP BY customer_id) t;
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=1
-- release: sum l0=1 linf=12500

-- case: the distribution of a count per unit
SELECT n, COUNT(*) FROM (SELECT c.customer_id, COUNT(o.order_id) AS n FROM customers c LEFT JOIN orders o ON c.customer_id = o.customer_id GROUP BY c.customer_id) t GROUP BY n;
-- accept
-- keys: 51 public, l0 proved
-- release: rows l0=1 linf=1

-- case: with columns that the unit determines
SELECT segment, AVG(n) FROM (SELECT customer_id, segment, COUNT(*) AS n FROM customers JOIN orders USING (customer_id) GROUP BY customer_id, segment) t GROUP BY segment;
-- accept
-- keys: 2 public, l0 proved
-- release: rows l0=1 linf=1
-- release: sum l0=1 linf=25

-- case: units that satisfy HAVING
SELECT COUNT(*) FROM (SELECT customer_id FROM orders GROUP BY customer_id HAVING SUM(amount) > 100) t;
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=1

-- case: per row below the unit
SELECT AVG(top) FROM (SELECT order_id, MAX(price) AS top FROM items GROUP BY order_id) t;
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=20
-- release: sum l0=1 linf=1000

-- case: per unit and group
SELECT status, AVG(n) FROM (SELECT customer_id, status, COUNT(*) AS n FROM orders GROUP BY customer_id, status) t GROUP BY status;
-- accept
-- keys: 3 public, l0 proved
-- release: rows l0=3 linf=1
-- release: sum l0=3 linf=25

-- case: distinct pairs
SELECT COUNT(*) FROM (SELECT DISTINCT customer_id, status FROM orders) t;
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=10

-- case: means and deviations of floats
SELECT AVG(d), AVG(n) FROM (SELECT customer_id, AVG(discount) AS d, COUNT(discount) AS n, STDDEV(discount) AS s FROM orders GROUP BY customer_id) t;
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=1
-- release: rows l0=1 linf=1
-- release: sum l0=1 linf=0.5000000019
-- release: rows l0=1 linf=1
-- release: sum l0=1 linf=25

-- case: distinct values per unit
SELECT AVG(n) FROM (SELECT customer_id, COUNT(DISTINCT status) AS n FROM orders GROUP BY customer_id) t;
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=1
-- release: sum l0=1 linf=25

-- case: the median of each unit
SELECT AVG(q) FROM (SELECT customer_id, MEDIAN(amount) AS q FROM orders GROUP BY customer_id) t;
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=1
-- release: sum l0=1 linf=250

-- case: filtered per unit
SELECT AVG(paid) FROM (SELECT customer_id, SUM(amount) FILTER (WHERE status = 'paid') AS paid FROM orders GROUP BY customer_id) t;
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=1
-- release: sum l0=1 linf=12500

-- case: two levels
SELECT AVG(most) FROM (SELECT customer_id, MAX(n) AS most FROM (SELECT customer_id, status, COUNT(*) AS n FROM orders GROUP BY customer_id, status) a GROUP BY customer_id) b;
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=1
-- release: sum l0=1 linf=25

-- case: joined back to the unit
SELECT c.segment, AVG(t.total) FROM customers c JOIN (SELECT customer_id, SUM(amount) AS total FROM orders GROUP BY customer_id) t ON t.customer_id = c.customer_id GROUP BY c.segment;
-- accept
-- keys: 2 public, l0 proved
-- release: rows l0=1 linf=1
-- release: sum l0=1 linf=12500

-- case: joined back with those who have none
SELECT c.segment, AVG(COALESCE(t.total, 0)) FROM customers c LEFT JOIN (SELECT customer_id, SUM(amount) AS total FROM orders GROUP BY customer_id) t ON t.customer_id = c.customer_id GROUP BY c.segment;
-- accept
-- keys: 2 public, l0 proved
-- release: rows l0=1 linf=1
-- release: sum l0=1 linf=12500

-- case: first and last order of a unit
SELECT AVG(date_part('month', last)) FROM (SELECT customer_id, MIN(placed_at) AS first, MAX(placed_at) AS last FROM orders GROUP BY customer_id) t;
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=1
-- release: sum l0=1 linf=6

-- case: retention
SELECT COUNT(*), COUNT(*) FILTER (WHERE later > 0) FROM (SELECT customer_id, COUNT(*) FILTER (WHERE placed_at < '2024-06-01') AS early, COUNT(*) FILTER (WHERE placed_at >= '2024-06-01') AS later FROM orders GROUP BY customer_id) t WHERE early > 0;
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=1
-- release: rows l0=1 linf=1
-- release: rows l0=1 linf=1

-- case: a funnel
SELECT COUNT(*) FILTER (WHERE opened), COUNT(*) FILTER (WHERE opened AND paid) FROM (SELECT customer_id, bool_or(status = 'open') AS opened, bool_or(status = 'paid') AS paid FROM orders GROUP BY customer_id) t;
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=1
-- release: rows l0=1 linf=1
-- release: rows l0=1 linf=1

-- case: ages by what people spent
SELECT floor(total / 50) * 50 AS spent, COUNT(*) FROM (SELECT customer_id, SUM(amount) AS total FROM orders GROUP BY customer_id) t GROUP BY 1;
-- accept
-- keys: 502 public, l0 proved
-- release: rows l0=1 linf=1

-- case: the unit itself is no result
SELECT customer_id, COUNT(*) FROM orders GROUP BY customer_id;
-- refuse: unit-key-exposed at 1:51

-- case: nor the first few of them
SELECT customer_id, COUNT(*) FROM orders GROUP BY customer_id ORDER BY 2 DESC LIMIT 10;
-- refuse: unit-key-exposed at 1:51

-- case: nor what belongs to one unit
SELECT order_id, SUM(price) FROM items GROUP BY order_id;
-- refuse: unit-key-exposed at 1:49

-- case: a key that only looks like one
SELECT AVG(n) FROM (SELECT customer_id + 0 AS c, COUNT(*) AS n FROM orders GROUP BY 1) t WHERE c > 3;
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=10
-- release: distinct l0=1 linf=1

-- case: a renamed column is no unit
SELECT COUNT(*) FROM (SELECT quantity AS customer_id, SUM(amount) AS total FROM orders GROUP BY quantity) t JOIN customers USING (customer_id);
-- accept
-- keys: 21 public, l0 enforced
-- release: sum l0=3 linf=5000
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=1

-- case: an aggregate of the order of rows
SELECT COUNT(*) FROM (SELECT customer_id, reservoir_quantile(amount, 0.5) AS q FROM orders GROUP BY customer_id) t;
-- refuse: unsupported-aggregate at 1:43

-- case: a total without bounds
SELECT AVG(total) FROM (SELECT customer_id, SUM(note_length) AS total FROM orders GROUP BY customer_id) t;
-- refuse: unbounded-input at 1:12

-- case: floats keep one zero, and sums of them one order
SELECT AVG(s), AVG(m) FROM (SELECT customer_id, discount, SUM(income) AS s, MIN(discount) AS m FROM orders JOIN customers USING (customer_id) GROUP BY customer_id, discount) t;
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=10
-- release: sum l0=1 linf=50000000.16
-- release: rows l0=1 linf=10
-- release: sum l0=1 linf=5
-- rewrite:
--   WITH rows AS (
--     SELECT t3.c18 AS u, NOT t3.c20 IS NULL AS x0, t3.c20 AS x1, NOT t3.c21 IS NULL AS x2, t3.c21 AS x3
--     FROM (
--       SELECT
--         t1."customer_id" AS c18,
--         CASE
--           WHEN (CASE WHEN isnan(t1."discount") THEN NULL ELSE t1."discount"::DOUBLE + 0.0 END) = 0.0e0
--           THEN 0.0e0
--           ELSE CASE WHEN isnan(t1."discount") THEN NULL ELSE t1."discount"::DOUBLE + 0.0 END
--         END AS c19,
--         CASE
--           WHEN isnan(
--             sum(
--               CASE WHEN isnan(t2."income") THEN NULL ELSE t2."income"::DOUBLE + 0.0 END ORDER BY CASE
--                 WHEN isnan(t2."income") THEN NULL ELSE t2."income"::DOUBLE + 0.0
--               END
--             )
--           )
--           THEN NULL
--           ELSE sum(
--             CASE WHEN isnan(t2."income") THEN NULL ELSE t2."income"::DOUBLE + 0.0 END ORDER BY CASE
--               WHEN isnan(t2."income") THEN NULL ELSE t2."income"::DOUBLE + 0.0
--             END
--           )
--         END AS c20,
--         min(
--           CASE
--             WHEN (CASE WHEN isnan(t1."discount") THEN NULL ELSE t1."discount"::DOUBLE + 0.0 END) = 0.0e0
--             THEN 0.0e0
--             ELSE CASE WHEN isnan(t1."discount") THEN NULL ELSE t1."discount"::DOUBLE + 0.0 END
--           END
--         ) AS c21
--       FROM "orders" AS t1 INNER JOIN "customers" AS t2 ON t1."customer_id" = t2."customer_id"
--       GROUP BY 1, 2
--     ) AS t3
--   ),
--   totals AS (
--     SELECT
--       u,
--       COUNT(*) FILTER (WHERE x0) AS s0,
--       SUM(
--         (
--           FLOOR(
--             CASE
--               WHEN x1 < 0.0::DOUBLE THEN 0.0::DOUBLE
--               WHEN x1 > 10000000.015625::DOUBLE THEN 10000000.015625::DOUBLE
--               ELSE x1
--             END
--             * 64.0::DOUBLE
--             + 0.5
--           )::BIGINT
--           - (320000000)
--         )::INTEGER
--       ) AS s1,
--       COUNT(*) FILTER (WHERE x2) AS s2,
--       SUM(
--         (
--           FLOOR(
--             CASE
--               WHEN x3 < 0.0::DOUBLE THEN 0.0::DOUBLE WHEN x3 > 1.0::DOUBLE THEN 1.0::DOUBLE ELSE x3
--             END
--             * 1073741824.0::DOUBLE
--             + 0.5
--           )::BIGINT
--           - (536870912)
--         )::INTEGER
--       ) AS s3
--     FROM rows
--     GROUP BY u
--   )
--   SELECT
--     COALESCE(SUM(p0)::HUGEINT, 0) AS p0,
--     COALESCE(SUM(p1)::HUGEINT, 0) AS p1,
--     COALESCE(SUM(p2)::HUGEINT, 0) AS p2,
--     COALESCE(SUM(p3)::HUGEINT, 0) AS p3
--   FROM (
--     SELECT
--       (CASE WHEN s0 < 0 THEN 0 WHEN s0 > 10 THEN 10 ELSE s0 END)::BIGINT AS p0,
--       (CASE WHEN s1 < -3200000000 THEN -3200000000 WHEN s1 > 3200000010 THEN 3200000010 ELSE s1 END)::BIGINT AS p1,
--       (CASE WHEN s2 < 0 THEN 0 WHEN s2 > 10 THEN 10 ELSE s2 END)::BIGINT AS p2,
--       (CASE WHEN s3 < -5368709120 THEN -5368709120 WHEN s3 > 5368709120 THEN 5368709120 ELSE s3 END)::BIGINT AS p3
--     FROM totals
--   )
--   SELECT t3.c26 AS c0, t3.c27 AS c1
--   FROM (
--     SELECT
--       5000000.0e0
--       + least(
--         greatest(
--           CAST(t2.c43 AS DOUBLE) * t2.c76 / (t2.c76 * t2.c76 + 30645.88135469349e0), -5000000.0e0
--         ),
--         5000000.015625e0
--       ) AS c26,
--       0.5e0
--       + least(
--         greatest(CAST(t2.c45 AS DOUBLE) * t2.c77 / (t2.c77 * t2.c77 + 30645.881355069418e0), -0.5e0),
--         0.5e0
--       ) AS c27
--     FROM (
--       SELECT
--         t1.c1 AS c43,
--         t1.c3 AS c45,
--         greatest(1.0e0, CAST(t1.c0 AS DOUBLE)) AS c76,
--         greatest(1.0e0, CAST(t1.c2 AS DOUBLE)) AS c77
--       FROM release_0 AS t1
--     ) AS t2
--   ) AS t3

-- case: a funnel by minima
SELECT COUNT(*) FROM (SELECT customer_id, MIN(placed_at) FILTER (WHERE status = 'open') AS opened, MAX(placed_at) FILTER (WHERE status = 'paid') AS paid FROM orders GROUP BY customer_id) t WHERE paid > opened;
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=1

-- case: the first note of each unit
SELECT COUNT(*) FROM (SELECT customer_id, FIRST(note ORDER BY placed_at) AS n FROM orders GROUP BY customer_id) t WHERE n LIKE 'g%';
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=1

-- case: the most frequent status of units that have one
SELECT s, COUNT(*) FROM (SELECT customer_id, MODE(status) AS s FROM orders GROUP BY customer_id HAVING COUNT(DISTINCT status) = 1) t GROUP BY s;
-- accept
-- keys: 4 public, l0 proved
-- release: rows l0=1 linf=1

-- case: texts put together
SELECT path, COUNT(*) FROM (SELECT customer_id, STRING_AGG(status, '>' ORDER BY placed_at) AS path FROM orders GROUP BY customer_id) t GROUP BY path;
-- accept
-- keys: private, l0 proved
-- release: rows l0=1 linf=1

-- case: one row per unit and group, clipped in the query
SELECT k, SUM(LEAST(s, 100)) AS s FROM (SELECT customer_id, status AS k, SUM(amount) AS s FROM orders GROUP BY 1, 2) AS t GROUP BY k;
-- accept
-- keys: 3 public, l0 proved
-- release: sum l0=3 linf=100
-- rewrite:
--   WITH rows AS (
--     SELECT t2.c10 AS u, t2.c11 AS k0, TRY_CAST(least(t2.c12, 100) AS DECIMAL(38, 2)) AS x0
--     FROM (
--       SELECT t1."customer_id" AS c10, t1."status" AS c11, sum(t1."amount") AS c12
--       FROM "orders" AS t1
--       GROUP BY 1, 2
--     ) AS t2
--   ),
--   totals AS (
--     SELECT
--       u,
--       k0,
--       SUM(
--         CASE
--           WHEN x0 < '0.00'::DECIMAL(3, 2) THEN '0.00'::DECIMAL(3, 2)
--           WHEN x0 > '100.00'::DECIMAL(5, 2) THEN '100.00'::DECIMAL(5, 2)
--           ELSE x0
--         END
--       ) AS s0
--     FROM rows
--     GROUP BY u, k0
--   )
--   SELECT k0, COALESCE(SUM(p0)::HUGEINT, 0) AS p0
--   FROM (
--     SELECT
--       k0,
--       (
--         (
--           CASE
--             WHEN s0 < '0.00'::DECIMAL(3, 2) THEN '0.00'::DECIMAL(3, 2)
--             WHEN s0 > '100.00'::DECIMAL(5, 2) THEN '100.00'::DECIMAL(5, 2)
--             ELSE s0
--           END
--         )::DECIMAL(5, 2)
--         * '100'::DECIMAL(3, 0)
--       )::BIGINT AS p0
--     FROM totals
--   )
--   GROUP BY k0
--   SELECT t1.c0 AS c0, t1.c1 AS c1 FROM release_0 AS t1

-- case: a group of which NULL is the key
SELECT note, COUNT(*) AS n FROM (SELECT customer_id, note, SUM(amount) AS s FROM orders GROUP BY 1, 2) AS t GROUP BY note;
-- accept
-- keys: private, l0 enforced
-- release: rows l0=3 linf=1

-- case: several rows per unit and group, by one of two inner keys
SELECT status, COUNT(*) AS n FROM (SELECT customer_id, status, note, SUM(amount) AS s FROM orders GROUP BY 1, 2, 3) AS t GROUP BY status;
-- accept
-- keys: 3 public, l0 proved
-- release: rows l0=3 linf=10

-- case: several rows per unit and group, by an expression of the inner key
SELECT note IS NULL AS b, COUNT(*) AS n FROM (SELECT customer_id, note, SUM(amount) AS s FROM orders GROUP BY 1, 2) AS t GROUP BY 1;
-- accept
-- keys: 2 public, l0 proved
-- release: rows l0=2 linf=10

-- case: several rows per unit and group, after a join that copies them
SELECT status, COUNT(*) AS n FROM (SELECT customer_id, status, COUNT(*) AS c FROM orders GROUP BY 1, 2) AS t JOIN products AS p ON t.c < p.product_id GROUP BY status;
-- accept
-- keys: 3 public, l0 proved
-- release: rows l0=3 linf=30
