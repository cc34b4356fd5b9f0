-- Groups of private rows are those that public rows ask for: of others no rows are read.
-- catalog: shop

-- case: an average for each product of a category, whoever else was bought
SELECT COUNT(*) FROM items i, products p WHERE i.product_id = p.product_id AND p.category = 'toy' AND i.price < (SELECT AVG(a.price) FROM items a WHERE a.product_id = p.product_id);
-- rows: customers (customer_id): (1)
-- rows: orders (order_id, customer_id): (1, 1)
-- rows: items (order_id, product_id, price): (1, 1, 5), (1, 1, 6), (1, 2, 7), (1, 3, 8)
-- accept
-- keys: private, l0 enforced
-- release: units l0=4 linf=1
-- release: rows l0=4 linf=20
-- release: sum l0=4 linf=1000
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=20
-- integers: release 0 (2) 1 1 -4300
-- integers: release 1 () 1

-- case: a derived table of products that are joined to some
SELECT p.category, t.n FROM products p JOIN (SELECT product_id, COUNT(*) AS n FROM items GROUP BY product_id HAVING COUNT(*) > 1) t ON t.product_id = p.product_id WHERE p.list_price > 10;
-- rows: customers (customer_id): (1)
-- rows: orders (order_id, customer_id): (1, 1)
-- rows: items (order_id, product_id): (1, 1), (1, 1), (1, 2), (1, 3)
-- accept
-- keys: private, l0 enforced
-- release: units l0=4 linf=1
-- release: rows l0=4 linf=20
-- integers: (1) 1 2
-- integers: (2) 1 1
-- rewrite:
--   WITH rows AS (
--     SELECT t4."customer_id" AS u, t3.c6 AS k0
--     FROM
--       (
--         SELECT
--           t1."item_id" AS c4,
--           t1."order_id" AS c5,
--           t1."product_id" AS c6,
--           t1."price" AS c7,
--           t1."units" AS c8,
--           t1."product_id" IN (
--             SELECT t2."product_id" FROM "products" AS t2 WHERE (t2."list_price" > 10)
--           ) AS c22
--         FROM "items" AS t1
--         WHERE (
--           t1."product_id" IN (
--             SELECT t2."product_id" FROM "products" AS t2 WHERE (t2."list_price" > 10)
--           )
--         )
--       ) AS t3
--       INNER JOIN "orders" AS t4 ON t3.c5 = t4."order_id"
--   ),
--   totals AS (SELECT u, k0, 1 AS s0, COUNT(*) AS s1 FROM rows GROUP BY u, k0),
--   clipped AS MATERIALIZED (
--     SELECT
--       u,
--       k0,
--       (CASE WHEN s0 < 0 THEN 0 WHEN s0 > 1 THEN 1 ELSE s0 END)::BIGINT AS p0,
--       (CASE WHEN s1 < 0 THEN 0 WHEN s1 > 20 THEN 20 ELSE s1 END)::BIGINT AS p1
--     FROM totals
--   ),
--   above AS MATERIALIZED (SELECT u, COUNT(*) AS groups FROM clipped GROUP BY u HAVING COUNT(*) > 4),
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
--     WHERE place >= 4
--   )
--   GROUP BY k0
--   HAVING SUM(one) > 0
--   SELECT t1.c1 AS c0, t2.c2 AS c1
--   FROM public_0 AS t1 INNER JOIN release_0 AS t2 ON t2.c0 = t1.c0
--   WHERE (t2.c2 > 1) AND (t1.c2 > 10)

-- case: by two columns at once
SELECT p.category, (SELECT SUM(i.units) FROM items i WHERE i.product_id = p.product_id AND i.units = p.list_price) FROM products p WHERE p.category IN ('toy', 'book');
-- accept
-- keys: private, l0 enforced
-- release: units l0=4 linf=1
-- release: sum l0=4 linf=200

-- case: products of no category are all asked for
SELECT p.category, t.n FROM products p JOIN (SELECT product_id, COUNT(*) AS n FROM items GROUP BY product_id) t ON t.product_id = p.product_id;
-- rows: customers (customer_id): (1)
-- rows: orders (order_id, customer_id): (1, 1)
-- rows: items (order_id, product_id): (1, 1), (1, 1), (1, 2), (1, 3)
-- accept
-- keys: private, l0 enforced
-- release: units l0=4 linf=1
-- release: rows l0=4 linf=20
-- integers: (1) 1 2
-- integers: (2) 1 1
-- integers: (3) 1 1

-- case: what is grouped twice is one block of all products
WITH t AS (SELECT product_id, COUNT(*) AS n FROM items GROUP BY product_id) SELECT p.category, t.n FROM products p JOIN t ON t.product_id = p.product_id WHERE p.category = 'toy' AND t.n = (SELECT MAX(n) FROM t);
-- rows: customers (customer_id): (1)
-- rows: orders (order_id, customer_id): (1, 1)
-- rows: items (order_id, product_id, price): (1, 1, 5), (1, 1, 6), (1, 2, 7), (1, 3, 8)
-- accept
-- keys: private, l0 enforced
-- release: units l0=4 linf=1
-- release: rows l0=4 linf=20
-- integers: (1) 1 2
-- integers: (2) 1 1
-- integers: (3) 1 1

-- case: keys with declared values stay, as all of them may have been paid for
SELECT k.region, t.n FROM countries k JOIN (SELECT country, COUNT(*) AS n FROM customers GROUP BY country) t ON t.country = k.code WHERE k.region = 'EU';
-- accept
-- keys: 3 public, l0 proved
-- release: rows l0=1 linf=1

-- case: public rows that have no match ask for nothing
SELECT t.product_id, t.n, p.category FROM (SELECT product_id, COUNT(*) AS n FROM items GROUP BY product_id) t LEFT JOIN products p ON t.product_id = p.product_id AND p.category = 'toy';
-- rows: customers (customer_id): (1)
-- rows: orders (order_id, customer_id): (1, 1)
-- rows: items (order_id, product_id, price): (1, 1, 5), (1, 1, 6), (1, 2, 7), (1, 3, 8)
-- accept
-- keys: private, l0 enforced
-- release: units l0=4 linf=1
-- release: rows l0=4 linf=20
-- integers: (1) 1 2
-- integers: (2) 1 1
-- integers: (3) 1 1

-- case: groups of other people's rows are no public rows
SELECT o.status, t.n FROM orders o JOIN (SELECT product_id, COUNT(*) AS n FROM items GROUP BY product_id) t ON t.product_id = o.quantity WHERE o.amount > 10;
-- refuse: raw-rows at 1:27
