-- Joins of private tables: only if the condition implies equal units.
-- catalog: shop

-- case: along the link
SELECT c.segment, SUM(o.amount) FROM orders o JOIN customers c ON o.customer_id = c.customer_id GROUP BY c.segment;
-- rows: customers (customer_id, segment): (1, 'consumer'), (2, 'business')
-- rows: orders (customer_id, amount): (1, 10), (1, 600), (2, 1.5)
-- accept
-- keys: 2 public, l0 proved
-- release: sum l0=1 linf=5000
-- integers: (business) 150
-- integers: (consumer) 51000
-- rewrite:
--   WITH rows AS (
--     SELECT t1."customer_id" AS u, t2."segment" AS k0, t1."amount" AS x0
--     FROM "orders" AS t1 INNER JOIN "customers" AS t2 ON t1."customer_id" = t2."customer_id"
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
--   SELECT t1.c0 AS c0, t1.c1 AS c1 FROM release_0 AS t1

-- case: the other way round
SELECT c.segment, COUNT(*) FROM customers c JOIN orders o ON c.customer_id = o.customer_id GROUP BY c.segment;
-- accept
-- keys: 2 public, l0 proved
-- release: rows l0=1 linf=10

-- case: USING
SELECT segment, COUNT(*) FROM orders JOIN customers USING (customer_id) GROUP BY segment;
-- accept
-- keys: 2 public, l0 proved
-- release: rows l0=1 linf=10

-- case: a comma join with its condition in WHERE
SELECT COUNT(*) FROM orders o, customers c WHERE o.customer_id = c.customer_id;
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=10

-- case: two links
SELECT c.segment, SUM(i.price) FROM items i JOIN orders o ON i.order_id = o.order_id JOIN customers c ON o.customer_id = c.customer_id GROUP BY c.segment;
-- accept
-- keys: 2 public, l0 proved
-- release: sum l0=1 linf=2000

-- case: one of two links, the other is joined for the unit
SELECT o.status, SUM(i.price) FROM items i JOIN orders o ON i.order_id = o.order_id GROUP BY o.status;
-- accept
-- keys: 3 public, l0 proved
-- release: sum l0=3 linf=2000
-- rewrite:
--   WITH rows AS (
--     SELECT t2."customer_id" AS u, t2."status" AS k0, t1."price" AS x0
--     FROM "items" AS t1 INNER JOIN "orders" AS t2 ON t1."order_id" = t2."order_id"
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

-- case: siblings of one unit
SELECT COUNT(*) FROM orders o JOIN events e ON o.customer_id = e.customer_id;
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=50

-- case: a self join on the unit
SELECT COUNT(*) FROM orders a JOIN orders b ON a.customer_id = b.customer_id;
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=100

-- case: a join with further conditions
SELECT COUNT(*) FROM orders o JOIN customers c ON o.customer_id = c.customer_id AND c.age > 30;
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=10

-- case: a join of filtered subqueries
SELECT COUNT(*) FROM (SELECT customer_id FROM orders WHERE amount > 10) AS o JOIN (SELECT customer_id FROM customers WHERE vip) AS c ON o.customer_id = c.customer_id;
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=10

-- case: without a condition
SELECT COUNT(*) FROM orders CROSS JOIN customers;
-- refuse: unequal-units at 1:40

-- case: on another column
SELECT COUNT(*) FROM orders o JOIN events e ON o.order_id = e.event_id;
-- refuse: unequal-units at 1:36

-- case: on an expression of the key
SELECT COUNT(*) FROM orders o JOIN customers c ON o.customer_id + 0 = c.customer_id;
-- refuse: unequal-units at 1:36

-- case: the condition under OR
SELECT COUNT(*) FROM orders o JOIN customers c ON o.customer_id = c.customer_id OR c.vip;
-- refuse: unequal-units at 1:36

-- case: an inequality of units
SELECT COUNT(*) FROM orders a JOIN orders b ON a.customer_id <> b.customer_id;
-- refuse: unequal-units at 1:36

-- case: a left join of private rows
SELECT COUNT(*) FROM customers c LEFT JOIN orders o ON c.customer_id = o.customer_id;
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=10

-- case: a natural join
SELECT COUNT(*) FROM orders NATURAL JOIN customers;
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=10

-- case: an ambiguous column
SELECT COUNT(*) FROM orders o JOIN customers c ON customer_id = c.customer_id;
-- refuse: ambiguous-column at 1:51

-- case: the same alias twice
SELECT COUNT(*) FROM orders o JOIN customers o ON o.customer_id = o.customer_id;
-- refuse: ambiguous-column at 1:51

-- case: an unknown alias
SELECT COUNT(*) FROM orders o JOIN customers c ON o.customer_id = x.customer_id;
-- refuse: unknown-table at 1:67

-- case: an aggregate in ON
SELECT COUNT(*) FROM orders o JOIN customers c ON o.customer_id = c.customer_id AND SUM(o.amount) > 3;
-- refuse: misplaced-aggregate at 1:85

-- case: a join on the keys of rows per unit and group
SELECT COUNT(*) FROM orders o JOIN (SELECT customer_id, status, COUNT(*) AS n FROM orders GROUP BY 1, 2) AS t ON o.customer_id = t.customer_id AND o.status = t.status;
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=10

-- case: a join on a part of their keys
SELECT COUNT(*) FROM orders o JOIN (SELECT customer_id, status, COUNT(*) AS n FROM orders GROUP BY 1, 2) AS t ON o.customer_id = t.customer_id;
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=100

-- case: a join on their keys without that of the unit
SELECT COUNT(*) FROM orders o JOIN (SELECT customer_id, status, COUNT(*) AS n FROM orders GROUP BY 1, 2) AS t ON o.status = t.status;
-- refuse: unequal-units at 1:44

-- case: keys that are equal because both equal a third column
SELECT COUNT(*) AS n FROM orders o JOIN items i ON i.order_id = o.order_id AND i.item_id = o.customer_id JOIN events e ON e.customer_id = i.item_id;
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=50

-- case: a third column in WHERE
SELECT COUNT(*) AS n FROM orders o, items i, events e WHERE i.order_id = o.order_id AND o.customer_id = i.item_id AND i.item_id = e.customer_id;
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=50

-- case: a third column that a filter below has made equal
SELECT COUNT(*) AS n FROM (SELECT * FROM orders WHERE order_id = customer_id) o JOIN events e ON e.customer_id = o.order_id;
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=5

-- case: a third column that is only more
SELECT COUNT(*) AS n FROM orders o JOIN items i ON i.order_id = o.order_id AND i.item_id >= o.customer_id JOIN events e ON e.customer_id = i.item_id;
-- refuse: unequal-units at 1:112

-- case: a third column that may be absent
SELECT COUNT(*) AS n FROM orders o LEFT JOIN items i ON i.order_id = o.order_id AND i.item_id = o.customer_id JOIN events e ON e.customer_id = i.item_id;
-- refuse: unequal-units at 1:116

-- case: a third column that is equal or something else is
SELECT COUNT(*) AS n FROM orders o JOIN items i ON i.order_id = o.order_id AND (i.item_id = o.customer_id OR i.price > 5) JOIN events e ON e.customer_id = i.item_id;
-- refuse: unequal-units at 1:128

-- case: EXISTS along a third column
SELECT COUNT(*) AS n FROM orders o JOIN items i ON i.order_id = o.order_id AND i.item_id = o.customer_id WHERE EXISTS (SELECT 1 FROM events e WHERE e.customer_id = i.item_id);
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=10

-- case: a chain of LEFT JOINs on the key of the one before
SELECT COUNT(*) AS a, COUNT(DISTINCT e.customer_id) AS b, COUNT(DISTINCT l.customer_id) AS c FROM customers c
LEFT JOIN events e ON e.customer_id = c.customer_id AND e.duration > 2
LEFT JOIN logins l ON l.customer_id = e.customer_id;
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=1048576
-- release: units l0=1 linf=1
-- release: units l0=1 linf=1

-- case: a chain through a subquery
SELECT COUNT(l.login_id) AS n FROM (
    SELECT e.customer_id AS k, e.device FROM customers c LEFT JOIN events e ON e.customer_id = c.customer_id
) AS t JOIN logins l ON l.customer_id = t.k;
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=1048576

-- case: a chain on another column of the one before is refused
SELECT COUNT(*) AS n FROM customers c LEFT JOIN events e ON e.customer_id = c.customer_id
LEFT JOIN logins l ON l.login_id = e.event_id;
-- refuse: unequal-units at 2:11

-- case: equal, or both NULL
SELECT COUNT(*) AS n FROM orders o JOIN events e
ON o.customer_id = e.customer_id OR (o.customer_id IS NULL AND e.customer_id IS NULL);
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=50

-- case: not distinct
SELECT COUNT(*) AS n FROM customers c LEFT JOIN events e ON e.customer_id IS NOT DISTINCT FROM c.customer_id;
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=5

-- case: EXISTS with a key that is not distinct
SELECT COUNT(*) AS n FROM orders o
WHERE EXISTS (SELECT 1 FROM events e WHERE e.customer_id IS NOT DISTINCT FROM o.customer_id);
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=10

-- case: keys of rows that have a link beside them may be NULL
SELECT COUNT(*) AS n FROM orders a JOIN orders b ON a.order_id IS NOT DISTINCT FROM b.order_id;
-- refuse: unequal-units at 1:41

-- case: equal, or one of them NULL
SELECT COUNT(*) AS n FROM orders o JOIN events e
ON o.customer_id = e.customer_id OR e.customer_id IS NULL;
-- refuse: unequal-units at 1:41
