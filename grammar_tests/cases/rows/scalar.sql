-- Scalar subqueries: public ones are looked up, private ones are released before they are compared with.
-- catalog: shop

-- case: above the average
SELECT COUNT(*) FROM orders o WHERE o.amount > (SELECT AVG(amount) FROM orders);
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=10
-- release: sum l0=1 linf=2500
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=10

-- case: above the average of its group
SELECT COUNT(*) FROM orders o WHERE amount > (SELECT AVG(amount) FROM orders p WHERE p.status = o.status);
-- accept
-- keys: 3 public, l0 proved
-- release: rows l0=3 linf=10
-- release: sum l0=3 linf=2500
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=10

-- case: above the average of its own unit
SELECT COUNT(*) FROM orders o JOIN customers c USING (customer_id) WHERE o.amount > (SELECT AVG(amount) FROM orders p WHERE p.customer_id = c.customer_id);
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=10

-- case: the same subquery twice is released once
SELECT AVG(amount) FROM orders WHERE amount BETWEEN (SELECT AVG(amount) * 0.5 FROM orders) AND (SELECT AVG(amount) * 1.5 FROM orders);
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=10
-- release: sum l0=1 linf=2500
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=10
-- release: sum l0=1 linf=2500

-- case: a public row by its key
SELECT SUM(price) FROM items WHERE price < (SELECT list_price FROM products p WHERE p.product_id = items.product_id);
-- accept
-- keys: 1 public, l0 proved
-- release: sum l0=1 linf=2000

-- case: a public value as a group
SELECT (SELECT region FROM countries k WHERE k.code = c.country) AS region, COUNT(*) FROM customers c GROUP BY 1;
-- accept
-- keys: 3 public, l0 proved
-- release: rows l0=1 linf=1

-- case: a share of the whole
SELECT status, COUNT(*) * 100.0 / (SELECT COUNT(*) FROM orders) AS share FROM orders GROUP BY status;
-- accept
-- keys: 3 public, l0 proved
-- release: rows l0=3 linf=10
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=10
-- rewrite:
--   WITH rows AS (SELECT t1."customer_id" AS u, t1."status" AS k0 FROM "orders" AS t1),
--   totals AS (SELECT u, k0, COUNT(*) AS s0 FROM rows GROUP BY u, k0)
--   SELECT k0, COALESCE(SUM(p0)::HUGEINT, 0) AS p0
--   FROM (
--     SELECT k0, (CASE WHEN s0 < 0 THEN 0 WHEN s0 > 10 THEN 10 ELSE s0 END)::BIGINT AS p0 FROM totals
--   )
--   GROUP BY k0
--   WITH rows AS (SELECT t1."customer_id" AS u FROM "orders" AS t1),
--   totals AS (SELECT u, COUNT(*) AS s0 FROM rows GROUP BY u)
--   SELECT COALESCE(SUM(p0)::HUGEINT, 0) AS p0
--   FROM (SELECT (CASE WHEN s0 < 0 THEN 0 WHEN s0 > 10 THEN 10 ELSE s0 END)::BIGINT AS p0 FROM totals)
--   SELECT t1.c0 AS c0, TRY(TRY_CAST(t1.c1 AS DECIMAL(38, 0)) * 100.0) / t2.c0 AS c1
--   FROM release_0 AS t1 CROSS JOIN release_1 AS t2

-- case: a lift over the whole
SELECT status, AVG(amount) - (SELECT AVG(amount) FROM orders) AS lift FROM orders GROUP BY status;
-- accept
-- keys: 3 public, l0 proved
-- release: rows l0=3 linf=10
-- release: sum l0=3 linf=2500
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=10
-- release: sum l0=1 linf=2500

-- case: in HAVING
SELECT country, segment, COUNT(*) FROM customers GROUP BY country, segment HAVING COUNT(*) > (SELECT COUNT(*) / 10 FROM customers);
-- accept
-- keys: 6 public, l0 proved
-- release: rows l0=1 linf=1
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=1

-- case: a count for every public row
SELECT code, (SELECT COUNT(*) FROM customers c WHERE c.country = k.code) AS n FROM countries k WHERE region = 'north';
-- accept
-- keys: 3 public, l0 proved
-- release: rows l0=1 linf=1

-- case: nothing is counted as zero
SELECT code, (SELECT COUNT(*) + 1 FROM customers c WHERE c.country = k.code AND c.age > 200) AS n FROM countries k;
-- accept
-- keys: 3 public, l0 proved
-- release: rows l0=1 linf=1

-- case: a public aggregate per public row
SELECT category FROM products p WHERE list_price = (SELECT MAX(list_price) FROM products q WHERE q.category = p.category);
-- accept

-- case: the greatest of a released result
WITH r AS (SELECT status, SUM(amount) AS total FROM orders GROUP BY status) SELECT status, total FROM r WHERE total = (SELECT MAX(total) FROM r);
-- accept
-- keys: 3 public, l0 proved
-- release: sum l0=3 linf=5000
-- rewrite:
--   WITH rows AS (
--     SELECT t1."customer_id" AS u, t1."status" AS k0, t1."amount" AS x0 FROM "orders" AS t1
--   ),
--   totals AS (
--     SELECT
--       u,
--       k0,
--       SUM(
--         CASE
--           WHEN x0 < '0.00'::DECIMAL(3, 2) THEN '0.00'::DECIMAL(3, 2)
--           WHEN x0 > '500.00'::DECIMAL(5, 2) THEN '500.00'::DECIMAL(5, 2)
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
--             WHEN s0 > '5000.00'::DECIMAL(6, 2) THEN '5000.00'::DECIMAL(6, 2)
--             ELSE s0
--           END
--         )::DECIMAL(6, 2)
--         * '100'::DECIMAL(3, 0)
--       )::BIGINT AS p0
--     FROM totals
--   )
--   GROUP BY k0
--   SELECT t1.c0 AS c0, t1.c1 AS c1
--   FROM
--     release_0 AS t1 INNER JOIN (SELECT max(t2.c1) AS c40 FROM release_0 AS t2) AS t3 ON t1.c1 = t3.c40
--   WHERE (t1.c1 = t3.c40)

-- case: one row at most
SELECT COUNT(*) FROM customers WHERE country = (SELECT code FROM countries ORDER BY code LIMIT 1);
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=1

-- case: a constant
SELECT COUNT(*) FROM customers WHERE age > (SELECT 40);
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=1

-- case: rows of which there may be several
SELECT COUNT(*) FROM customers WHERE country = (SELECT code FROM countries);
-- refuse: unsupported-syntax at 1:56

-- case: groups of which there may be several
SELECT COUNT(*) FROM orders WHERE amount > (SELECT AVG(amount) FROM orders GROUP BY status);
-- refuse: unsupported-syntax at 1:52

-- case: correlated other than by equality
SELECT COUNT(*) FROM orders o WHERE amount > (SELECT AVG(amount) FROM orders p WHERE p.quantity < o.quantity);
-- refuse: unsupported-syntax at 1:54

-- case: correlated in a subquery of the subquery
SELECT COUNT(*) FROM customers c WHERE age > (SELECT COUNT(*) FROM (SELECT * FROM orders o WHERE o.customer_id = c.customer_id LIMIT 3) t);
-- refuse: unsupported-syntax at 1:54

-- case: two columns
SELECT COUNT(*) FROM orders WHERE amount > (SELECT AVG(amount), COUNT(*) FROM orders);
-- refuse: unsupported-syntax at 1:52

-- case: an unknown outer column
SELECT COUNT(*) FROM orders o WHERE amount > (SELECT AVG(amount) FROM orders p WHERE p.status = o.state);
-- refuse: unknown-column at 1:97
