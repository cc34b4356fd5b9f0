-- UNION ALL of private rows: each keeps its unit, and the limits add up.
-- catalog: shop

-- case: two tables of one unit
SELECT kind, COUNT(*) FROM (SELECT customer_id, 'order' AS kind FROM orders UNION ALL SELECT customer_id, 'event' FROM events) t GROUP BY kind;
-- accept
-- keys: 2 public, l0 proved
-- release: rows l0=2 linf=15

-- case: people among the rows of both
SELECT COUNT(*), COUNT(DISTINCT customer_id) FROM (SELECT customer_id FROM orders UNION ALL SELECT customer_id FROM events) t;
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=15
-- release: units l0=1 linf=1

-- case: filters in the branches
SELECT SUM(x) FROM (SELECT amount AS x FROM orders WHERE amount < 50 UNION ALL SELECT price FROM items WHERE price > 10) t;
-- accept
-- keys: 1 public, l0 proved
-- release: sum l0=1 linf=3000

-- case: a filter above
SELECT COUNT(*) FROM (SELECT customer_id, quantity AS q FROM orders UNION ALL SELECT customer_id, duration FROM events) t WHERE q > 2;
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=15

-- case: then per unit
SELECT AVG(n) FROM (SELECT customer_id, COUNT(*) AS n FROM (SELECT customer_id, status FROM orders UNION ALL SELECT customer_id, device FROM events) a GROUP BY customer_id) b;
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=1
-- release: sum l0=1 linf=8

-- case: joined to the unit afterwards
SELECT c.segment, COUNT(*) FROM (SELECT customer_id FROM orders UNION ALL SELECT customer_id FROM events) t JOIN customers c ON c.customer_id = t.customer_id GROUP BY c.segment;
-- accept
-- keys: 2 public, l0 proved
-- release: rows l0=1 linf=15

-- case: a table with itself
SELECT status, COUNT(*) FROM (SELECT status FROM orders WHERE quantity > 1 UNION ALL SELECT status FROM orders WHERE amount > 20) t GROUP BY status;
-- accept
-- keys: 3 public, l0 proved
-- release: rows l0=3 linf=20

-- case: UNION would compare rows of different people
SELECT COUNT(*) FROM (SELECT customer_id FROM orders UNION SELECT customer_id FROM events) t;
-- refuse: unsupported-private-operator at 1:30

-- case: so would EXCEPT
SELECT COUNT(*) FROM (SELECT customer_id FROM customers EXCEPT ALL SELECT customer_id FROM orders) t;
-- refuse: unsupported-private-operator at 1:30

-- case: private rows and public ones
SELECT COUNT(*) FROM (SELECT country FROM customers UNION ALL SELECT code FROM countries) t;
-- refuse: unsupported-private-operator at 1:30

-- case: what is proved of both sides adds up
SELECT COUNT(*) FROM (SELECT vip FROM customers UNION ALL SELECT vip FROM customers WHERE age > 40) t WHERE vip;
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=2
