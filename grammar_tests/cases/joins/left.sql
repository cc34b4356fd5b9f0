-- LEFT and RIGHT joins: private rows stay with their unit; public rows on the left list the groups.
-- catalog: shop

-- case: private rows with a public table keep their NULL group
SELECT p.category, COUNT(*) FROM items i LEFT JOIN products p ON p.product_id = i.product_id AND p.category = 'toy' GROUP BY p.category;
-- accept
-- keys: 2 public, l0 proved
-- release: rows l0=2 linf=20

-- case: the unit with its rows, groups from the rows
SELECT o.status, COUNT(*) FROM customers c LEFT JOIN orders o ON o.customer_id = c.customer_id GROUP BY o.status;
-- accept
-- keys: 4 public, l0 enforced
-- release: rows l0=3 linf=10

-- case: a right join is a left join seen from the other side
SELECT o.status, COUNT(*) FROM orders o RIGHT JOIN customers c ON o.customer_id = c.customer_id AND o.amount > 50 GROUP BY o.status;
-- accept
-- keys: 4 public, l0 enforced
-- release: rows l0=3 linf=10

-- case: rows without a match
SELECT COUNT(*) FROM customers c LEFT JOIN orders o USING (customer_id) WHERE o.order_id IS NULL;
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=10

-- case: a condition on the side that may be absent
SELECT segment, COUNT(o.order_id) FROM customers c LEFT JOIN orders o USING (customer_id) WHERE o.status = 'paid' OR o.status IS NULL GROUP BY segment;
-- accept
-- keys: 2 public, l0 proved
-- release: rows l0=1 linf=10

-- case: following a link to its parent is an inner join
SELECT country, SUM(amount) FROM orders LEFT JOIN customers ON orders.customer_id = customers.customer_id GROUP BY country;
-- accept
-- keys: 3 public, l0 proved
-- release: sum l0=1 linf=5000
-- rewrite:
--   WITH rows AS (
--     SELECT t1."customer_id" AS u, t2."country" AS k0, t1."amount" AS x0
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

-- case: a public table lists the groups
SELECT k.code, COUNT(c.customer_id) FROM countries k LEFT JOIN customers c ON c.country = k.code GROUP BY k.code;
-- accept
-- keys: 3 public, l0 proved
-- release: rows l0=1 linf=1

-- case: a filtered public table lists the groups
SELECT k.code, SUM(c.age) AS s, COUNT(c.age) AS n FROM countries k LEFT JOIN customers c ON c.country = k.code WHERE k.region = 'north' GROUP BY k.code;
-- accept
-- keys: 2 public, l0 proved
-- release: rows l0=1 linf=1
-- release: sum l0=1 linf=60
-- rewrite:
--   WITH rows AS (
--     SELECT t1."code" AS k0, NOT t2."age" IS NULL AS x0, t2."age" AS x1
--     FROM "countries" AS t1 INNER JOIN "customers" AS t2 ON t2."country" = t1."code"
--     WHERE (t1."region" = 'north')
--   )
--   SELECT
--     k0,
--     COALESCE(COUNT(*) FILTER (WHERE x0)::HUGEINT, 0) AS p0,
--     COALESCE(
--       SUM((CASE WHEN x1 < 0 THEN 0 WHEN x1 > 120 THEN 120 ELSE x1 END)::BIGINT - (60))::HUGEINT, 0
--     ) AS p1
--   FROM rows
--   GROUP BY k0
--   SELECT t2.c19 AS c0, t2.c20 AS c1, t2.c21 AS c2
--   FROM (
--     SELECT t1.c0 AS c19, TRY(t1.c2 + TRY(60::HUGEINT * t1.c1)) AS c20, t1.c1 AS c21
--     FROM release_0 AS t1
--   ) AS t2

-- case: a public table and two private ones
SELECT k.region, SUM(o.amount) FROM countries k LEFT JOIN customers c ON c.country = k.code LEFT JOIN orders o ON o.customer_id = c.customer_id GROUP BY k.region;
-- accept
-- keys: 2 public, l0 proved
-- release: sum l0=1 linf=5000

-- case: groups by an expression of the public table
SELECT upper(k.region) AS r, AVG(c.income) FROM countries k LEFT JOIN customers c ON c.country = k.code GROUP BY 1;
-- accept
-- keys: 2 public, l0 proved
-- release: rows l0=1 linf=1
-- release: sum l0=1 linf=100000

-- case: a condition that drops the padding is an inner join
SELECT k.code, COUNT(*) FROM countries k LEFT JOIN customers c ON c.country = k.code WHERE c.age > 20 GROUP BY k.code;
-- accept
-- keys: 3 public, l0 proved
-- release: rows l0=1 linf=1

-- case: public rows without private ones count once
SELECT k.region, COUNT(*) AS n, COUNT(c.age) AS m FROM countries k LEFT JOIN customers c ON c.country = k.code GROUP BY k.region;
-- rows: countries (code, region): ('NO', 'north'), ('SE', 'north'), ('ES', 'south')
-- rows: customers (country, segment, city): ('NO', 'business', 'Oslo'), ('NO', 'business', 'Oslo')
-- accept
-- keys: 3 public, l0 proved
-- release: rows l0=1 linf=1
-- release: rows l0=1 linf=1
-- release: rows l0=1 linf=1
-- integers: (NO, north) 4 0 4

-- case: rows of a public table without a key are not counted without a match
SELECT COUNT(*) AS n FROM (VALUES ('NO'), ('NO')) AS k(code) LEFT JOIN customers c ON c.country = k.code;
-- refuse: unsupported-private-operator at 1:8

-- case: rows without a match are not counted with a condition on the private side
SELECT k.region, COUNT(*) AS n FROM countries k LEFT JOIN customers c ON c.country = k.code WHERE c.age > 3 OR c.age IS NULL GROUP BY k.region;
-- refuse: unsupported-private-operator at 1:135

-- case: rows without a match are not counted as different ones
SELECT k.code, COUNT(*) AS n, COUNT(DISTINCT c.age) AS m FROM countries k LEFT JOIN customers c ON c.country = k.code GROUP BY k.code;
-- refuse: unsupported-private-operator at 1:16

-- case: rows without a match are not counted where no column of the private side is equated
SELECT k.code, COUNT(*) AS n FROM countries k LEFT JOIN customers c ON c.country >= k.code GROUP BY k.code;
-- refuse: unsupported-private-operator at 1:16

-- case: the padding would be summed
SELECT k.code, SUM(COALESCE(c.age, 1)) FROM countries k LEFT JOIN customers c ON c.country = k.code GROUP BY k.code;
-- refuse: unsupported-private-operator at 1:16

-- case: groups from the private side of a padded join
SELECT c.segment, COUNT(c.age) FROM countries k LEFT JOIN customers c ON c.country = k.code GROUP BY c.segment;
-- refuse: unsupported-private-operator at 1:102

-- case: public rows without private ones
SELECT k.region, COUNT(c.customer_id) FROM countries k LEFT JOIN customers c ON c.country = k.code WHERE c.customer_id IS NULL GROUP BY k.region;
-- refuse: unsupported-private-operator at 1:137

-- case: a padded join is not a table of people
SELECT COUNT(*) FROM (SELECT c.customer_id FROM countries k LEFT JOIN customers c ON c.country = k.code GROUP BY c.customer_id) t;
-- refuse: unsupported-private-operator at 1:71

-- case: a full join of one person's rows
SELECT COUNT(*), SUM(o.amount), COUNT(e.duration) FROM orders o FULL JOIN events e ON o.customer_id = e.customer_id;
-- rows: customers (customer_id): (1), (2), (3)
-- rows: orders (customer_id, amount): (1, 5), (1, 6), (2, 7)
-- rows: events (customer_id, duration): (1, 60), (3, 90)
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=55
-- release: sum l0=1 linf=27500
-- release: rows l0=1 linf=55
-- integers: () 4 1800 3

-- case: a full join of private rows
SELECT COUNT(*) FROM customers c FULL JOIN orders o ON c.customer_id = o.customer_id;
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=20

-- case: what a person has in either table, by the merged key
SELECT COUNT(*), SUM(LEAST(n, 9)) FROM (SELECT customer_id, COUNT(*) AS n FROM orders FULL JOIN events USING (customer_id) GROUP BY customer_id) t;
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=1
-- release: sum l0=1 linf=5

-- case: what a person has in either table, by whichever key is there
SELECT AVG(n) FROM (SELECT COALESCE(o.n, 0) + COALESCE(e.n, 0) AS n FROM (SELECT customer_id, COUNT(*) AS n FROM orders GROUP BY 1) o FULL OUTER JOIN (SELECT customer_id, COUNT(*) AS n FROM events GROUP BY 1) e ON e.customer_id = o.customer_id) t;
-- accept
-- enforced: units with more than 1 rows are left out
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=1
-- release: sum l0=1 linf=28

-- case: people by which of two tables they are in
SELECT o.customer_id IS NULL AS only_events, e.customer_id IS NULL AS only_orders, COUNT(*) FROM (SELECT DISTINCT customer_id, status FROM orders) o FULL JOIN (SELECT DISTINCT customer_id, device FROM events) e ON o.customer_id = e.customer_id AND o.status = e.device GROUP BY ALL;
-- accept
-- keys: 4 public, l0 proved
-- release: rows l0=4 linf=15

-- case: a full join on an OR may leave a person in two rows
SELECT COUNT(*) FROM (SELECT COALESCE(a.customer_id, b.customer_id) AS u FROM customers a FULL JOIN customers b ON (a.customer_id = b.customer_id AND a.age < -1) OR (a.customer_id = b.customer_id AND b.age < -2)) t;
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=2

-- case: rows of a full join on an OR multiply
SELECT COUNT(*) FROM (SELECT COALESCE(a.customer_id, b.customer_id) AS u FROM customers a FULL JOIN customers b ON (a.customer_id = b.customer_id AND a.age < 40) OR (a.customer_id = b.customer_id AND b.vip)) t JOIN (SELECT COALESCE(a.customer_id, b.customer_id) AS u FROM customers a FULL JOIN customers b ON (a.customer_id = b.customer_id AND a.age < 40) OR (a.customer_id = b.customer_id AND b.vip)) s ON s.u = t.u;
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=4

-- case: an OR without one person's key in every branch
SELECT COUNT(*) FROM customers a FULL JOIN customers b ON (a.customer_id = b.customer_id AND a.age < 40) OR b.vip;
-- refuse: unequal-units at 1:44

-- case: a parent on an OR may be absent
SELECT COUNT(*), COUNT(c.customer_id) FROM orders o LEFT JOIN customers c ON (c.customer_id = o.customer_id AND o.status = 'paid') OR (c.customer_id = o.customer_id AND c.vip);
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=10
-- release: rows l0=1 linf=10

-- case: a parent of a row that may be absent
SELECT COUNT(*), COUNT(d.customer_id) FROM customers c LEFT JOIN orders o ON o.customer_id = c.customer_id AND o.status = 'nosuch' LEFT JOIN customers d ON d.customer_id = o.customer_id;
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=10
-- release: rows l0=1 linf=10

-- case: a parent of a renamed row that may be absent
SELECT COUNT(*), COUNT(d.customer_id) FROM (SELECT c.customer_id, o.customer_id AS of_order FROM customers c LEFT JOIN orders o ON o.customer_id = c.customer_id AND o.status = 'paid') t LEFT JOIN customers d ON d.customer_id = t.of_order;
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=10
-- release: rows l0=1 linf=10

-- case: whichever key is there joins on
SELECT c.segment, COUNT(*) FROM orders o FULL JOIN events e ON o.customer_id = e.customer_id JOIN customers c ON c.customer_id = COALESCE(e.customer_id, o.customer_id) GROUP BY c.segment;
-- refuse: unequal-units at 1:99

-- case: a full join with public rows
SELECT COUNT(*) FROM countries k FULL JOIN customers c ON c.country = k.code;
-- refuse: unsupported-private-operator at 1:44

-- case: a full join of different people
SELECT COUNT(*) FROM orders a FULL JOIN events b ON a.status = b.device;
-- refuse: unequal-units at 1:41

-- case: a left join of different people
SELECT COUNT(*) FROM orders a LEFT JOIN orders b ON a.status = b.status;
-- refuse: unequal-units at 1:41

-- case: all matches of a public table are one group
SELECT SUM(o.amount) AS total, COUNT(DISTINCT o.note) AS notes FROM products p LEFT JOIN orders o ON o.quantity = p.product_id;
-- accept
-- keys: 1 public, l0 proved
-- release: sum l0=1 linf=5000
-- release: distinct l0=1 linf=10

-- case: a public subquery in the condition
SELECT COUNT(*) AS n, COUNT(e.event_id) AS m FROM customers c
LEFT JOIN events e ON e.customer_id = c.customer_id AND e.duration > (SELECT MIN(list_price) FROM products);
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=5
-- release: rows l0=1 linf=5

-- case: EXISTS in the condition, asked by the right
SELECT COUNT(*) AS n, COUNT(e.event_id) AS m FROM customers c LEFT JOIN events e
ON e.customer_id = c.customer_id AND EXISTS (SELECT 1 FROM logins l WHERE l.customer_id = e.customer_id);
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=5
-- release: rows l0=1 linf=5

-- case: a subquery of both sides is refused
SELECT COUNT(*) AS n FROM customers c LEFT JOIN events e ON e.customer_id = c.customer_id
AND EXISTS (SELECT 1 FROM logins l WHERE l.customer_id = e.customer_id AND l.day > c.joined);
-- refuse: unsupported-syntax at 2:20

-- case: a column of the public row, by its key
SELECT c.code, MAX(c.region) AS region, AVG(p.age) AS age FROM countries c
LEFT JOIN customers p ON p.country = c.code AND p.vip GROUP BY c.code;
-- accept
-- keys: 3 public, l0 proved
-- release: rows l0=1 linf=1
-- release: sum l0=1 linf=60

-- case: a column of the public row, and rows with those without a match
SELECT c.code, MIN(c.region) AS region, COUNT(*) AS n FROM countries c
LEFT JOIN customers p ON p.country = c.code GROUP BY c.code;
-- accept
-- keys: 3 public, l0 proved
-- release: rows l0=1 linf=1

-- case: a column of several public rows
SELECT c.region, MAX(c.code) AS code, AVG(p.age) AS age FROM countries c
LEFT JOIN customers p ON p.country = c.code GROUP BY c.region;
-- refuse: unsupported-private-operator at 1:18
