-- UNION ALL of private rows: each keeps its unit, and the limits add up.
-- catalog: shop

-- case: two tables of one unit
SELECT kind, COUNT(*) FROM (SELECT customer_id, 'order' AS kind FROM orders UNION ALL SELECT customer_id, 'event' FROM events) t GROUP BY kind;
-- rows: orders (customer_id): (1), (1), (2)
-- rows: events (customer_id): (1), (3)
-- accept
-- keys: 2 public, l0 proved
-- release: rows l0=2 linf=15
-- integers: (event) 2
-- integers: (order) 3
-- rewrite:
--   WITH rows AS (
--     SELECT t7.c18 AS u, t7.c19 AS k0
--     FROM (
--       SELECT t3.c10 AS c18, t3.c11 AS c19, t3.c25 AS c24
--       FROM (
--         SELECT t2.c10 AS c10, t2.c11 AS c11, t2.c2 AS c25
--         FROM (
--           SELECT t1."customer_id" AS c10, 'order' AS c11, t1."order_id" AS c1, t1."customer_id" AS c2
--           FROM "orders" AS t1
--         ) AS t2
--       ) AS t3
--       UNION ALL
--       SELECT t6.c16 AS c18, t6.c17 AS c19, t6.c26 AS c24
--       FROM (
--         SELECT t5.c16 AS c16, t5.c17 AS c17, t5.c13 AS c26
--         FROM (
--           SELECT
--             t4."customer_id" AS c16, 'event' AS c17, t4."event_id" AS c12, t4."customer_id" AS c13
--           FROM "events" AS t4
--         ) AS t5
--       ) AS t6
--     ) AS t7
--     WHERE (NOT t7.c18 IS NULL)
--   ),
--   totals AS (SELECT u, k0, COUNT(*) AS s0 FROM rows GROUP BY u, k0)
--   SELECT k0, COALESCE(SUM(p0)::HUGEINT, 0) AS p0
--   FROM (
--     SELECT k0, (CASE WHEN s0 < 0 THEN 0 WHEN s0 > 15 THEN 15 ELSE s0 END)::BIGINT AS p0 FROM totals
--   )
--   GROUP BY k0
--   SELECT t1.c0 AS c0, t1.c1 AS c1 FROM release_0 AS t1

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
-- rewrite:
--   WITH rows AS (
--     SELECT t5.c26 AS u, t5.c21 AS k0
--     FROM (
--       SELECT t2.c10 AS c21, t2.c27 AS c26
--       FROM (
--         SELECT t1."status" AS c10, t1."customer_id" AS c27
--         FROM "orders" AS t1
--         WHERE (t1."quantity" > 1)
--       ) AS t2
--       UNION ALL
--       SELECT t4.c20 AS c21, t4.c28 AS c26
--       FROM (
--         SELECT t3."status" AS c20, t3."customer_id" AS c28
--         FROM "orders" AS t3
--         WHERE (t3."amount" > 20)
--       ) AS t4
--     ) AS t5
--     WHERE (NOT t5.c26 IS NULL)
--   ),
--   totals AS (SELECT u, k0, COUNT(*) AS s0 FROM rows GROUP BY u, k0)
--   SELECT k0, COALESCE(SUM(p0)::HUGEINT, 0) AS p0
--   FROM (
--     SELECT k0, (CASE WHEN s0 < 0 THEN 0 WHEN s0 > 20 THEN 20 ELSE s0 END)::BIGINT AS p0 FROM totals
--   )
--   GROUP BY k0
--   SELECT t1.c0 AS c0, t1.c1 AS c1 FROM release_0 AS t1

-- case: UNION of people is the different ones of both
SELECT COUNT(*) FROM (SELECT customer_id FROM orders UNION SELECT customer_id FROM events) t;
-- rows: customers (customer_id): (1), (2), (3)
-- rows: orders (customer_id): (1), (1), (2)
-- rows: events (customer_id): (1), (3)
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=1
-- integers: () 3

-- case: UNION of rows that carry the unit's key
SELECT word, COUNT(*) FROM (SELECT customer_id, status AS word FROM orders UNION SELECT customer_id, device FROM events) t WHERE word IN ('open', 'paid', 'phone') GROUP BY word;
-- accept
-- keys: 3 public, l0 proved
-- release: rows l0=3 linf=1

-- case: a person's words in both tables
SELECT COUNT(*) FROM (SELECT customer_id, note FROM orders INTERSECT SELECT customer_id, device FROM events) t;
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=10

-- case: people with orders and events
SELECT COUNT(*) AS n FROM (SELECT customer_id FROM orders INTERSECT SELECT customer_id FROM events) t;
-- rows: customers (customer_id): (1), (2), (3)
-- rows: orders (customer_id): (1), (1), (2)
-- rows: events (customer_id): (1), (3)
-- accept
-- enforced: a unit's rows in groups with more than 1 rows are left out
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=1
-- integers: () 1

-- case: people without orders
SELECT c.segment, COUNT(*) AS n FROM (SELECT customer_id FROM customers EXCEPT SELECT customer_id FROM orders) t JOIN customers c USING (customer_id) GROUP BY c.segment;
-- rows: customers (customer_id, segment): (1, 'consumer'), (2, 'business'), (3, 'consumer')
-- rows: orders (customer_id): (1), (2), (2)
-- accept
-- enforced: units with more than 1 rows are left out
-- keys: 2 public, l0 proved
-- release: rows l0=1 linf=1
-- integers: (consumer) 1

-- case: how often a row is there in both
SELECT status, COUNT(*) FROM (SELECT customer_id, status FROM orders INTERSECT ALL SELECT customer_id, status FROM orders WHERE quantity > 1) t GROUP BY status;
-- accept
-- keys: 3 public, l0 proved
-- release: rows l0=3 linf=10

-- case: rows of people that are there once more
SELECT COUNT(*) FROM (SELECT customer_id FROM customers EXCEPT ALL SELECT customer_id FROM orders) t;
-- accept
-- enforced: units with more than 1 rows are left out
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=1

-- case: a key below the unit is one of its rows
SELECT SUM(o.amount) FROM orders o JOIN (SELECT order_id FROM orders EXCEPT SELECT order_id FROM items) t USING (order_id);
-- accept
-- keys: 1 public, l0 proved
-- release: sum l0=1 linf=5000

-- case: numbers of which two zeros are one
SELECT SUM(d) FROM (SELECT customer_id, discount AS d FROM orders EXCEPT SELECT customer_id, income FROM customers) t;
-- accept
-- keys: 1 public, l0 proved
-- release: sum l0=1 linf=2000000

-- case: sets of sets, each of one person
SELECT COUNT(*) FROM ((SELECT customer_id FROM orders UNION SELECT customer_id FROM events) EXCEPT SELECT customer_id FROM logins) t;
-- accept
-- enforced: units with more than 1 rows are left out
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=1

-- case: values of different people are released first
SELECT COUNT(*) FROM (SELECT status FROM orders UNION SELECT segment FROM customers) t;
-- accept
-- keys: 5 public, l0 enforced

-- case: how many values of two tables are equal, of which only some would be released
SELECT COUNT(*) FROM (SELECT note FROM orders INTERSECT SELECT device FROM events) t;
-- refuse: unsupported-private-operator at 1:30

-- case: a value that nobody else has
SELECT COUNT(*) FROM (SELECT status FROM orders EXCEPT SELECT segment FROM customers) t;
-- accept
-- keys: 3 public, l0 proved
-- keys: 2 public, l0 proved

-- case: how often a value is there that others have
SELECT COUNT(*) FROM (SELECT note FROM orders INTERSECT ALL SELECT device FROM events) t;
-- refuse: unsupported-private-operator at 1:30

-- case: values of three tables
SELECT note FROM orders INTERSECT SELECT device FROM events INTERSECT SELECT city FROM customers;
-- accept
-- keys: private, l0 enforced
-- release: units l0=3 linf=1
-- keys: private, l0 enforced
-- release: units l0=2 linf=1
-- keys: private, l0 proved
-- release: rows l0=1 linf=1

-- case: all values of three tables, each once
SELECT status FROM orders UNION SELECT segment FROM customers UNION SELECT device FROM events;
-- accept
-- keys: 5 public, l0 enforced
-- keys: private, l0 enforced
-- release: units l0=2 linf=1

-- case: all values of two tables among public ones
SELECT country FROM customers UNION SELECT code FROM countries;
-- accept
-- keys: 3 public, l0 proved

-- case: public values that nobody has
SELECT code FROM countries EXCEPT SELECT country FROM customers;
-- accept
-- keys: 3 public, l0 proved

-- case: people beside public values
SELECT code FROM countries EXCEPT SELECT customer_id FROM customers;
-- refuse: type-mismatch at 1:8

-- case: people beside public numbers
SELECT LENGTH(code) FROM countries UNION SELECT customer_id FROM customers;
-- refuse: unsupported-private-operator at 1:8

-- case: private rows are looked up among values of different people
SELECT COUNT(*) FROM orders WHERE status IN (SELECT status FROM orders WHERE quantity > 1 INTERSECT SELECT segment FROM customers);
-- accept
-- keys: 3 public, l0 proved
-- keys: 2 public, l0 proved
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=10

-- case: the unit's key is on one side only
SELECT COUNT(*) FROM (SELECT customer_id FROM orders INTERSECT SELECT quantity FROM orders) t;
-- refuse: unsupported-private-operator at 1:30

-- case: the unit's key is not an expression of it
SELECT COUNT(*) FROM (SELECT customer_id + 0 AS k FROM orders EXCEPT ALL SELECT customer_id + 0 FROM events) t;
-- refuse: unsupported-private-operator at 1:30

-- case: private rows and public ones
SELECT COUNT(*) FROM (SELECT country FROM customers UNION ALL SELECT code FROM countries) t;
-- refuse: unsupported-private-operator at 1:30

-- case: what is proved of both sides adds up
SELECT COUNT(*) FROM (SELECT vip FROM customers UNION ALL SELECT vip FROM customers WHERE age > 40) t WHERE vip;
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=2
