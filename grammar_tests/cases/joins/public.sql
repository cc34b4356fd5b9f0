-- Joins of private rows with public tables: m times the most matches of one key.
-- catalog: shop

-- case: on the public key
SELECT k.region, COUNT(*) FROM customers c JOIN countries k ON c.country = k.code GROUP BY k.region;
-- accept
-- keys: 2 public, l0 proved
-- release: rows l0=1 linf=1

-- case: public first
SELECT k.region, COUNT(*) FROM countries k JOIN customers c ON c.country = k.code GROUP BY k.region;
-- accept
-- keys: 2 public, l0 proved
-- release: rows l0=1 linf=1

-- case: through two private tables
SELECT k.region, SUM(o.amount) FROM orders o JOIN customers c ON o.customer_id = c.customer_id JOIN countries k ON c.country = k.code GROUP BY k.region;
-- accept
-- keys: 2 public, l0 proved
-- release: sum l0=1 linf=5000

-- case: a public measure
SELECT SUM(i.units * p.list_price) FROM items i JOIN products p ON i.product_id = p.product_id;
-- accept
-- keys: 1 public, l0 proved
-- release: sum l0=1 linf=6000

-- case: a public dimension as key
SELECT p.category, SUM(i.price) FROM items i JOIN products p ON i.product_id = p.product_id GROUP BY p.category;
-- rows: orders (order_id, customer_id): (7, 1), (8, 2)
-- rows: items (order_id, product_id, price): (7, 1, 5), (7, 2, 6), (8, 3, 700), (8, 9, 1)
-- accept
-- keys: 2 public, l0 proved
-- release: sum l0=2 linf=2000
-- integers: (book) 10500
-- integers: (toy) 600
-- rewrite:
--   WITH rows AS (
--     SELECT t3."customer_id" AS u, t2."category" AS k0, t1."price" AS x0
--     FROM
--       "items" AS t1
--       INNER JOIN "products" AS t2 ON t1."product_id" = t2."product_id"
--       INNER JOIN "orders" AS t3 ON t1."order_id" = t3."order_id"
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
--             WHEN s0 > '2000.00'::DECIMAL(6, 2) THEN '2000.00'::DECIMAL(6, 2)
--             ELSE s0
--           END
--         )::DECIMAL(6, 2)
--         * '100'::DECIMAL(3, 0)
--       )::BIGINT AS p0
--     FROM totals
--   )
--   GROUP BY k0
--   SELECT t1.c0 AS c0, t1.c1 AS c1 FROM release_0 AS t1

-- case: not on the key, so that rows may multiply
SELECT COUNT(*) FROM customers c JOIN countries k ON c.segment = k.region;
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=2

-- case: a cross join with a public table
SELECT COUNT(*) FROM customers CROSS JOIN countries;
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=1

-- case: a filtered public table
SELECT COUNT(*) FROM customers c JOIN countries k ON c.country = k.code WHERE k.region = 'north';
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=1

-- case: a left join with a public table
SELECT COUNT(*) FROM customers c LEFT JOIN countries k ON c.country = k.code;
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=1

-- case: a released result joined back to private rows
SELECT COUNT(*) FROM orders o JOIN (SELECT status, COUNT(*) AS n FROM orders GROUP BY status) AS t ON o.status = t.status;
-- accept
-- keys: 3 public, l0 proved
-- release: rows l0=3 linf=10
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=10

-- case: a full join with a public table
SELECT COUNT(*) FROM customers c FULL JOIN countries k ON c.country = k.code;
-- refuse: unsupported-private-operator at 1:44

-- case: a list that has a unit twice counts its rows twice
SELECT COUNT(*) FROM orders o JOIN (VALUES (3), (3), (6)) AS listed(c) ON o.customer_id = listed.c;
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=20

-- case: a public column that has a unit twice
SELECT status, COUNT(*) FROM orders o JOIN (SELECT product_id FROM products UNION ALL SELECT product_id FROM products) AS p ON o.customer_id = p.product_id GROUP BY status;
-- accept
-- keys: 3 public, l0 proved
-- release: rows l0=3 linf=20

-- case: keys that a multiplying join does not touch
SELECT note, COUNT(*) FROM orders o JOIN products p ON o.quantity < p.product_id GROUP BY note;
-- accept
-- keys: private, l0 enforced
-- release: units l0=3 linf=1
-- release: rows l0=3 linf=30
-- rewrite:
--   WITH rows AS (
--     SELECT t1."customer_id" AS u, t1."note" AS k0
--     FROM "orders" AS t1 INNER JOIN "products" AS t2 ON t1."quantity" < t2."product_id"
--   ),
--   totals AS (SELECT u, k0, 1 AS s0, COUNT(*) AS s1 FROM rows GROUP BY u, k0),
--   clipped AS MATERIALIZED (
--     SELECT
--       u,
--       k0,
--       (CASE WHEN s0 < 0 THEN 0 WHEN s0 > 1 THEN 1 ELSE s0 END)::BIGINT AS p0,
--       (CASE WHEN s1 < 0 THEN 0 WHEN s1 > 30 THEN 30 ELSE s1 END)::BIGINT AS p1
--     FROM totals
--   ),
--   above AS MATERIALIZED (SELECT u, COUNT(*) AS groups FROM clipped GROUP BY u HAVING COUNT(*) > 3),
--   beyond AS (
--     SELECT
--       clipped.*,
--       (
--         ROW_NUMBER() OVER (PARTITION BY u ORDER BY hash(u, k0), k0)
--         + (hash($sampling_key::UBIGINT, u) >> 2)::BIGINT
--       ) % groups AS place
--     FROM clipped JOIN above USING (u)
--   )
--   SELECT k0, COALESCE(SUM(p0)::HUGEINT, 0) AS p0, COALESCE(SUM(p1)::HUGEINT, 0) AS p1
--   FROM (
--     SELECT k0, p0, p1, 1 AS one
--     FROM clipped
--     UNION ALL
--     SELECT k0, -p0, -p1, -1
--     FROM beyond
--     WHERE place >= 3
--   )
--   GROUP BY k0
--   HAVING SUM(one) > 0
--   SELECT t1.c0 AS c0, t1.c2 AS c1 FROM release_0 AS t1

-- case: keys of the side that multiplies
SELECT note, category, COUNT(*) FROM orders o JOIN (SELECT category || '!' AS category, product_id FROM products) p ON o.quantity < p.product_id GROUP BY note, category;
-- accept
-- keys: private, l0 enforced
-- release: scaled l0=9 linf=1.4142
-- release: rows l0=9 linf=30

-- case: a key made of both sides
SELECT note || category AS k, COUNT(*) FROM orders o JOIN products p ON o.quantity < p.product_id GROUP BY 1;
-- accept
-- keys: private, l0 enforced
-- release: scaled l0=9 linf=1.4142
-- release: rows l0=9 linf=30

-- case: a key that is computed before the join that multiplies
SELECT k, COUNT(*) FROM (SELECT customer_id, UPPER(note) AS k, quantity FROM orders) AS o CROSS JOIN products p GROUP BY k;
-- accept
-- keys: private, l0 enforced
-- release: units l0=3 linf=1
-- release: rows l0=3 linf=10

-- case: one public row that meets at most one of another table is one row
SELECT COUNT(*) FROM customers c CROSS JOIN (SELECT b.region FROM (VALUES ('NO')) AS a(code) JOIN countries b ON a.code = b.code) AS k;
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=1

-- case: of a full join those that it does not meet are rows, too
SELECT COUNT(*) FROM customers c CROSS JOIN (SELECT b.region FROM (VALUES ('NO')) AS a(code) FULL JOIN countries b ON a.code = b.code) AS k;
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=3
