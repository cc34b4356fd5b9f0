-- The order of inner joins: each order makes the same rows, and that of the least bound counts.
-- catalog: shop

-- case: a public table between two private ones that are linked
SELECT COUNT(*) FROM orders o, countries n, customers c WHERE o.customer_id = c.customer_id AND c.country = n.code;
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=10

-- case: the best order as it is written
SELECT COUNT(*) FROM orders o, customers c, countries n WHERE o.customer_id = c.customer_id AND c.country = n.code;
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=10

-- case: public tables first
SELECT n.region, SUM(i.price) FROM countries n, products p, items i, orders o, customers c WHERE i.product_id = p.product_id AND i.order_id = o.order_id AND o.customer_id = c.customer_id AND c.country = n.code GROUP BY n.region;
-- accept
-- keys: 2 public, l0 proved
-- release: sum l0=1 linf=2000

-- case: one table twice before what leads to it, as in TPC-DS
SELECT c.segment, SUM(o.quantity) FROM orders o, countries a, countries b, customers c WHERE o.customer_id = c.customer_id AND c.country = a.code AND c.city = b.code GROUP BY c.segment;
-- accept
-- keys: 2 public, l0 proved
-- release: sum l0=1 linf=200

-- case: explicit joins and commas are ordered together
SELECT COUNT(*) FROM orders o CROSS JOIN countries n JOIN customers c ON o.customer_id = c.customer_id AND c.country = n.code;
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=10
-- rewrite:
--   WITH rows AS (
--     SELECT t1."customer_id" AS u
--     FROM
--       "orders" AS t1
--       INNER JOIN "customers" AS t2 ON t1."customer_id" = t2."customer_id"
--       INNER JOIN "countries" AS t3 ON t2."country" = t3."code"
--   ),
--   totals AS (SELECT u, COUNT(*) AS s0 FROM rows GROUP BY u)
--   SELECT COALESCE(SUM(p0)::HUGEINT, 0) AS p0
--   FROM (SELECT (CASE WHEN s0 < 0 THEN 0 WHEN s0 > 10 THEN 10 ELSE s0 END)::BIGINT AS p0 FROM totals)
--   SELECT t1.c0 AS c0 FROM release_0 AS t1

-- case: a condition of a later join
SELECT COUNT(*) FROM countries n, orders o JOIN customers c ON o.customer_id = c.customer_id WHERE c.country = n.code AND n.region < c.city;
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=10

-- case: private rows that meet through a later table
SELECT COUNT(*) FROM customers c, events e, orders o WHERE o.customer_id = c.customer_id AND e.customer_id = o.customer_id;
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=50

-- case: private rows that no condition makes those of one person
SELECT COUNT(*) FROM customers c, events e, orders o WHERE o.customer_id = c.customer_id AND e.event_id = o.order_id;
-- refuse: unequal-units at 1:35

-- case: private rows that meet through a public table only
SELECT COUNT(*) FROM orders o, products p, events e WHERE o.quantity = p.product_id AND e.duration = p.product_id;
-- refuse: unequal-units at 1:44

-- case: not on the key in any order
SELECT COUNT(*) FROM countries n, countries m, customers c WHERE c.country = n.code AND n.region = m.region;
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=2
-- rewrite:
--   WITH rows AS (
--     SELECT t1."customer_id" AS u, t5.c17 AS w
--     FROM
--       "customers" AS t1
--       CROSS JOIN (
--         SELECT t2."code" AS c1, t2."region" AS c2, t4.c4 AS c4, t4.c17 AS c17
--         FROM
--           "countries" AS t2
--           INNER JOIN (SELECT t3."region" AS c4, count(*) AS c17 FROM "countries" AS t3 GROUP BY 1) AS t4 ON t2."region" = t4.c4
--       ) AS t5
--     WHERE (t1."country" = t5.c1)
--   ),
--   totals AS (SELECT u, COALESCE(SUM(w), 0) AS s0 FROM rows GROUP BY u)
--   SELECT COALESCE(SUM(p0)::HUGEINT, 0) AS p0
--   FROM (SELECT (CASE WHEN s0 < 0 THEN 0 WHEN s0 > 2 THEN 2 ELSE s0 END)::BIGINT AS p0 FROM totals)
--   SELECT t1.c0 AS c0 FROM release_0 AS t1

-- case: no condition on the public table in any order
SELECT COUNT(*) FROM orders o, countries n, customers c WHERE o.customer_id = c.customer_id;
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=10

-- case: an outer join stays whole
SELECT COUNT(n.code) FROM orders o, countries m, customers c LEFT JOIN countries n ON c.country = n.code WHERE o.customer_id = c.customer_id AND c.country = m.code;
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=10

-- case: a comma after an outer join from public rows
SELECT COUNT(*) FROM countries n LEFT JOIN customers c ON c.country = n.code, products p, orders o WHERE o.customer_id = c.customer_id AND o.quantity = p.product_id;
-- refuse: unsupported-private-operator at 1:44

-- case: all columns of a subquery in the order of the text
SELECT region, COUNT(*) FROM (SELECT * FROM orders o, countries n, customers c WHERE o.customer_id = c.customer_id AND c.country = n.code) AS t GROUP BY region;
-- accept
-- keys: 2 public, l0 proved
-- release: rows l0=1 linf=10

-- case: a released result between private tables
SELECT COUNT(*) FROM orders o, (SELECT segment, COUNT(*) AS n FROM customers GROUP BY segment) AS t, customers c WHERE o.customer_id = c.customer_id AND c.segment = t.segment;
-- accept
-- keys: 2 public, l0 proved
-- release: rows l0=1 linf=1
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=10

-- case: a released result that several rows of match
SELECT COUNT(*) FROM orders o, (SELECT segment, vip, COUNT(*) AS n FROM customers GROUP BY segment, vip) AS t, customers c WHERE o.customer_id = c.customer_id AND c.segment = t.segment;
-- accept
-- keys: 4 public, l0 proved
-- release: rows l0=1 linf=1
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=20
