-- EXISTS and IN: only rows of the same unit may decide, public ones always may.
-- catalog: shop

-- case: has a row
SELECT COUNT(*) FROM customers c WHERE EXISTS (SELECT 1 FROM orders o WHERE o.customer_id = c.customer_id);
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=1

-- case: has no such row
SELECT COUNT(*) FROM customers c WHERE NOT EXISTS (SELECT 1 FROM orders o WHERE o.customer_id = c.customer_id AND o.amount > 100);
-- rows: customers (customer_id): (1), (2), (3)
-- rows: orders (customer_id, amount): (1, 50), (2, 150), (2, 50)
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=1
-- integers: () 2
-- rewrite:
--   WITH rows AS (
--     SELECT 1 AS one
--     FROM "customers" AS t1
--     WHERE (
--       NOT (
--         EXISTS (
--           SELECT 1
--           FROM (
--             SELECT 1 AS c18, t2."customer_id" AS c10, t2."order_id" AS c9
--             FROM "orders" AS t2
--             WHERE (t2."amount" > 100)
--           ) AS t3
--           WHERE (t3.c10 = t1."customer_id")
--         )
--       )
--     )
--   )
--   SELECT COALESCE(COUNT(*)::HUGEINT, 0) AS p0
--   FROM rows
--   SELECT t1.c0 AS c0 FROM release_0 AS t1

-- case: the unit among the units of rows
SELECT COUNT(*) FROM customers c WHERE c.customer_id IN (SELECT customer_id FROM orders);
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=1
-- rewrite:
--   WITH rows AS (
--     SELECT 1 AS one
--     FROM (
--       SELECT
--         t3.c1 AS c1,
--         t3.c2 AS c2,
--         t3.c3 AS c3,
--         t3.c4 AS c4,
--         t3.c5 AS c5,
--         t3.c6 AS c6,
--         t3.c7 AS c7,
--         t3.c8 AS c8,
--         CASE WHEN t3.c1 IS NULL THEN NULL ELSE t3.c19 END AS c19
--       FROM (
--         SELECT
--           t1."customer_id" AS c1,
--           t1."country" AS c2,
--           t1."segment" AS c3,
--           t1."city" AS c4,
--           t1."age" AS c5,
--           CASE WHEN isnan(t1."income") THEN NULL ELSE t1."income"::DOUBLE + 0.0 END AS c6,
--           t1."vip" AS c7,
--           t1."joined" AS c8,
--           EXISTS (SELECT 1 FROM "orders" AS t2 WHERE (t1."customer_id" = t2."customer_id")) AS c19
--         FROM "customers" AS t1
--       ) AS t3
--     ) AS t4
--     WHERE (t4.c19)
--   )
--   SELECT COALESCE(COUNT(*)::HUGEINT, 0) AS p0
--   FROM rows
--   SELECT t1.c0 AS c0 FROM release_0 AS t1

-- case: the unit not among the units of rows
SELECT COUNT(*) FROM customers c WHERE c.customer_id NOT IN (SELECT customer_id FROM orders WHERE status = 'paid');
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=1

-- case: a row below the unit among its children
SELECT COUNT(*) FROM orders o WHERE order_id IN (SELECT order_id FROM items WHERE price > 5);
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=10

-- case: children of the row itself
SELECT status, COUNT(*) FROM orders o WHERE EXISTS (SELECT * FROM items i WHERE i.order_id = o.order_id AND i.price < 20) GROUP BY status;
-- accept
-- keys: 3 public, l0 proved
-- release: rows l0=3 linf=10

-- case: the parent of the row
SELECT COUNT(*) FROM items i WHERE EXISTS (SELECT 1 FROM orders o WHERE o.order_id = i.order_id AND o.status = 'paid');
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=20

-- case: siblings by another condition
SELECT COUNT(*) FROM items l1 WHERE EXISTS (SELECT * FROM items l2 WHERE l2.order_id = l1.order_id AND l2.item_id <> l1.item_id);
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=20

-- case: siblings, some and none
SELECT COUNT(*) FROM items a WHERE EXISTS (SELECT 1 FROM items b WHERE b.order_id = a.order_id AND b.price > a.price) AND NOT EXISTS (SELECT 1 FROM items d WHERE d.order_id = a.order_id AND d.units = 0);
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=20

-- case: an order and a limit in EXISTS do not matter
SELECT COUNT(*) FROM customers c WHERE EXISTS (SELECT amount FROM orders o WHERE o.customer_id = c.customer_id ORDER BY amount);
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=1

-- case: public values
SELECT COUNT(*) FROM customers WHERE country IN (SELECT code FROM countries WHERE region = 'north');
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=1

-- case: not among public values
SELECT COUNT(*) FROM customers WHERE country NOT IN (SELECT code FROM countries WHERE region = 'north');
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=1

-- case: a public row by its key
SELECT COUNT(*) FROM customers c WHERE EXISTS (SELECT 1 FROM countries k WHERE k.code = c.country AND k.region = 'south');
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=1

-- case: a truth value in an aggregate
SELECT SUM(CASE WHEN EXISTS (SELECT 1 FROM orders o WHERE o.customer_id = c.customer_id) THEN 1 ELSE 0 END) AS n FROM customers c;
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=1

-- case: a truth value as a group
SELECT EXISTS (SELECT 1 FROM orders o WHERE o.customer_id = c.customer_id) AS has, COUNT(*) FROM customers c GROUP BY 1;
-- accept
-- keys: 3 public, l0 proved
-- release: rows l0=1 linf=1

-- case: a truth value among others
SELECT COUNT(*) FROM customers c WHERE vip OR EXISTS (SELECT 1 FROM orders o WHERE o.customer_id = c.customer_id);
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=1

-- case: people by what they have never done
SELECT segment, COUNT(*) FROM customers c WHERE NOT EXISTS (SELECT 1 FROM events e WHERE e.customer_id = c.customer_id AND e.device = 'phone') GROUP BY segment;
-- accept
-- keys: 2 public, l0 proved
-- release: rows l0=1 linf=1

-- case: groups of one unit
SELECT COUNT(*) FROM orders WHERE order_id IN (SELECT order_id FROM items GROUP BY order_id HAVING COUNT(*) > 1);
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=10

-- case: among a released result
SELECT COUNT(*) FROM orders WHERE status IN (SELECT status FROM orders GROUP BY status HAVING COUNT(*) > 3);
-- accept
-- keys: 3 public, l0 proved
-- release: rows l0=3 linf=10
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=10

-- case: rows of anybody
SELECT COUNT(*) FROM customers c WHERE EXISTS (SELECT 1 FROM orders o WHERE o.amount > 100);
-- refuse: unequal-units at 1:55

-- case: values of anybody
SELECT COUNT(*) FROM orders WHERE amount IN (SELECT amount FROM orders WHERE status = 'paid');
-- refuse: unequal-units at 1:35

-- case: public rows that private ones decide
SELECT category FROM products p WHERE EXISTS (SELECT 1 FROM items i WHERE i.product_id = p.product_id);
-- refuse: unsupported-private-operator at 1:54

-- case: several columns in IN
SELECT COUNT(*) FROM orders WHERE status IN (SELECT status, amount FROM orders);
-- refuse: unsupported-syntax at 1:35

-- case: an outer column in the SELECT list of EXISTS below a group
SELECT COUNT(*) FROM customers c WHERE EXISTS (SELECT COUNT(*) + c.age FROM orders o WHERE o.customer_id < c.customer_id);
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=1

-- case: types that do not compare
SELECT COUNT(*) FROM customers WHERE age IN (SELECT code FROM countries);
-- refuse: type-mismatch at 1:38

-- case: IN below a derived table that keeps its unit under another name
SELECT COUNT(*) AS n FROM (SELECT customer_id AS x FROM orders) AS c JOIN customers t ON c.x = t.customer_id WHERE t.customer_id IN (SELECT customer_id FROM events);
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=10

-- case: NOT IN one's own rows, of which NULL may be one
SELECT COUNT(*) AS n FROM orders o WHERE o.note NOT IN (SELECT e.device FROM events e WHERE e.customer_id = o.customer_id);
-- rows: customers (customer_id): (1), (2), (3), (4)
-- rows: orders (customer_id, note): (1, 'a'), (2, 'a'), (3, 'a'), (3, NULL), (4, NULL), (4, 'b')
-- rows: events (customer_id, device): (1, NULL), (1, 'b'), (2, 'a'), (2, NULL), (3, 'b')
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=10
-- integers: () 3

-- case: NOT IN of NULL is true where there is none
SELECT COUNT(*) FILTER (WHERE o.note IN (SELECT e.device FROM events e WHERE e.customer_id = o.customer_id)) AS yes,
    COUNT(*) FILTER (WHERE (o.note IN (SELECT e.device FROM events e WHERE e.customer_id = o.customer_id)) IS NULL) AS none
FROM orders o;
-- rows: customers (customer_id): (1), (2), (3), (4)
-- rows: orders (customer_id, note): (1, 'a'), (2, 'a'), (3, 'a'), (3, NULL), (4, NULL), (4, 'b')
-- rows: events (customer_id, device): (1, NULL), (1, 'b'), (2, 'a'), (2, NULL), (3, 'b')
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=10
-- release: rows l0=1 linf=10
-- integers: () 1 2

-- case: NOT IN rows of which the condition does not say whose they are
SELECT COUNT(*) AS n FROM orders o WHERE o.note NOT IN (SELECT e.device FROM events e WHERE e.duration = o.quantity);
-- refuse: unequal-units at 1:42

-- case: two columns among those of public rows
SELECT COUNT(*) AS n FROM customers c WHERE (c.country, c.segment) IN (SELECT k.code, p.category FROM countries k, products p);
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=1

-- case: two columns among those of one's own rows
SELECT COUNT(*) AS n FROM orders o WHERE (o.customer_id, o.note) IN (SELECT e.customer_id, e.device FROM events e);
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=10

-- case: two columns among others' rows
SELECT COUNT(*) AS n FROM orders o WHERE (o.quantity, o.note) IN (SELECT e.duration, e.device FROM events e);
-- refuse: unequal-units at 1:43

-- case: NOT IN of two columns
SELECT COUNT(*) AS n FROM orders o WHERE (o.customer_id, o.note) NOT IN (SELECT e.customer_id, e.device FROM events e);
-- refuse: unsupported-syntax at 1:43

-- case: two columns among one
SELECT COUNT(*) AS n FROM orders o WHERE (o.customer_id, o.note) IN (SELECT e.customer_id FROM events e);
-- refuse: unsupported-syntax at 1:43

-- case: an aggregate without groups always has a row
SELECT COUNT(*) AS n FROM customers c WHERE EXISTS (SELECT SUM(o.amount) FROM orders o WHERE o.customer_id = c.customer_id AND o.quantity > 100);
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=1

-- case: an aggregate without groups is never missing
SELECT COUNT(*) AS n FROM customers c WHERE NOT EXISTS (SELECT DISTINCT COUNT(*) FROM orders o WHERE o.customer_id = c.customer_id ORDER BY 1 LIMIT 1);
-- accept

-- case: HAVING decides whether the aggregate has a row
SELECT COUNT(*) AS n FROM customers c WHERE EXISTS (SELECT 1 FROM orders o WHERE o.customer_id = c.customer_id HAVING COUNT(*) < 2);
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=1

-- case: HAVING that nothing satisfies without rows
SELECT COUNT(*) AS n FROM customers c WHERE NOT EXISTS (SELECT 1 FROM orders o WHERE o.customer_id = c.customer_id HAVING SUM(o.quantity) < 9);
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=1

-- case: a condition on an aggregate within
SELECT COUNT(*) AS n FROM customers c WHERE EXISTS (SELECT * FROM (SELECT COUNT(*) AS k, MAX(o.quantity) AS q FROM orders o WHERE o.customer_id = c.customer_id) t WHERE k > 1 AND q < 15);
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=1

-- case: LIMIT 0 leaves no row
SELECT COUNT(*) AS n FROM customers c WHERE EXISTS (SELECT SUM(o.amount) FROM orders o WHERE o.customer_id = c.customer_id LIMIT 0);
-- refuse: unsupported-syntax at 1:60

-- case: HAVING over rows of other people, which are released before they are compared
SELECT COUNT(*) AS n FROM customers c WHERE EXISTS (SELECT 1 FROM orders o WHERE o.quantity = c.age HAVING COUNT(*) > 1);
-- accept
-- keys: 21 public, l0 enforced
-- release: rows l0=3 linf=10
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=1

-- case: HAVING over rows of other people by values that nobody lists
SELECT COUNT(*) AS n FROM customers c WHERE EXISTS (SELECT 1 FROM orders o WHERE o.note_length > c.age HAVING COUNT(*) > 1);
-- refuse: unsupported-syntax at 1:60

-- case: whether there is a first row
SELECT COUNT(*) AS n FROM customers c WHERE EXISTS (SELECT 1 FROM orders o WHERE o.customer_id = c.customer_id AND amount > 20 LIMIT 1);
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=1

-- case: whether there is a second row
SELECT COUNT(*) AS n FROM customers c WHERE EXISTS (SELECT 1 FROM orders o WHERE o.customer_id = c.customer_id LIMIT 1 OFFSET 1);
-- refuse: unsupported-syntax at 1:60
