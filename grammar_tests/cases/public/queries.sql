-- Whatever reads public tables alone is SQL, and is tried before anything is charged.
-- catalog: shop

-- case: an outer column in an OR below an aggregate
SELECT code, (SELECT COUNT(*) FROM countries b WHERE b.region = a.region OR b.code > a.code) AS n FROM countries a ORDER BY code;
-- accept
-- rewrite:
--   SELECT
--     t1."code" AS c0,
--     (
--       SELECT t3.c5 AS c0
--       FROM (
--         SELECT count(*) AS c5
--         FROM "countries" AS t2
--         WHERE (t2."region" = t1."region" OR t2."code" > t1."code")
--       ) AS t3
--     ) AS c1
--   FROM "countries" AS t1
--   ORDER BY t1."code" NULLS LAST

-- case: an outer column of private rows in an OR below an aggregate
SELECT COUNT(*) FROM customers c WHERE age > (SELECT COUNT(*) FROM countries b WHERE b.region = c.segment OR b.code > c.country);
-- refuse: unsupported-syntax at 1:54

-- case: the last row of each
SELECT code, (SELECT b.code FROM countries b WHERE b.region = a.region ORDER BY b.code DESC LIMIT 1) AS last FROM countries a;
-- accept

-- case: an outer column in a derived table
SELECT a.code, (SELECT MAX(x) FROM (SELECT a.code || b.code AS x FROM countries b) q) AS m FROM countries a;
-- accept

-- case: an outer column in a union
SELECT code, (SELECT COUNT(*) FROM (SELECT product_id FROM products p WHERE p.category = a.code UNION SELECT length(a.code)) u) AS n FROM countries a;
-- accept

-- case: a count in a derived table counts no rows too
SELECT code, (SELECT SUM(n) FROM (SELECT COUNT(*) AS n FROM products p WHERE p.category = a.code) q) AS n FROM countries a;
-- accept

-- case: whether there is a total is always true
SELECT code FROM countries a WHERE EXISTS (SELECT MAX(product_id) FROM products p WHERE p.category = a.code);
-- accept

-- case: whether there is a total of private rows
SELECT COUNT(*) FROM customers c WHERE EXISTS (SELECT MAX(amount) FROM orders o WHERE o.customer_id = c.customer_id);
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=1

-- case: not in an ordered part
SELECT code FROM countries a WHERE code NOT IN (SELECT b.code FROM countries b WHERE b.region = a.region OR b.code < 'M' ORDER BY b.code LIMIT 2);
-- accept

-- case: existence two queries deep
SELECT code FROM countries a WHERE NOT EXISTS (SELECT 1 FROM countries b WHERE b.region = a.region AND b.code > a.code AND EXISTS (SELECT 1 FROM products p WHERE p.product_id > 2 OR p.category = a.code));
-- accept

-- case: in the condition of a group
SELECT region, COUNT(*) AS n FROM countries a GROUP BY region HAVING COUNT(*) >= (SELECT MIN(k) FROM (SELECT COUNT(*) AS k FROM countries b WHERE b.region <> a.region GROUP BY b.region) q);
-- accept

-- case: in a window's order
SELECT code, RANK() OVER (ORDER BY (SELECT COUNT(*) FROM countries b WHERE b.region = a.region OR b.code < a.code), code) AS r FROM countries a;
-- accept

-- case: in the condition of a join
SELECT a.code, b.n FROM countries a JOIN (SELECT region, COUNT(*) AS n FROM countries GROUP BY region) b ON b.region = a.region AND b.n = (SELECT MAX(n) FROM (SELECT COUNT(*) AS n FROM countries GROUP BY region) m);
-- accept

-- case: existence in the condition of a join of one person's rows
SELECT COUNT(*) AS n FROM customers c JOIN orders o ON c.customer_id = o.customer_id AND EXISTS (SELECT 1 FROM items i WHERE i.order_id = o.order_id);
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=10

-- case: existence in the condition of an outer join
SELECT COUNT(*) AS n FROM customers c LEFT JOIN orders o ON c.customer_id = o.customer_id AND EXISTS (SELECT 1 FROM items i WHERE i.order_id = o.order_id);
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=10

-- case: a value of several rows that is one
SELECT COUNT(*) AS n FROM customers WHERE country = (SELECT DISTINCT code FROM countries WHERE region = 'south');
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=1

-- case: a value of several rows
SELECT COUNT(*) AS n FROM customers WHERE country = (SELECT DISTINCT code FROM countries WHERE region = 'north');
-- refuse: unsupported-syntax at 1:70

-- case: a value of several rows for each
SELECT code, (SELECT b.code FROM countries b WHERE b.region = a.region) AS other FROM countries a;
-- refuse: unsupported-syntax at 1:22

-- case: a value of one row for each that asks
SELECT code, (SELECT b.code FROM countries b WHERE b.region = a.region) AS other FROM countries a WHERE code = 'IT';
-- accept

-- case: a value of one row of private rows
SELECT COUNT(*) AS n FROM customers c WHERE age > (SELECT p.product_id FROM products p WHERE p.list_price = c.age);
-- accept
-- enforced: units with more than 1 rows are left out
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=1

-- case: a value of several rows of private rows
SELECT COUNT(*) AS n FROM customers c WHERE age > (SELECT p.product_id FROM products p WHERE p.category = c.segment);
-- refuse: unsupported-syntax at 1:59

-- case: a value of one group of private rows
SELECT COUNT(*) AS n FROM orders WHERE amount > (SELECT AVG(amount) FROM orders WHERE status = 'paid' GROUP BY status);
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=10
-- release: sum l0=1 linf=2500
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=10

-- case: a value of several groups of private rows
SELECT COUNT(*) AS n FROM orders WHERE amount > (SELECT AVG(amount) FROM orders GROUP BY status);
-- refuse: unsupported-syntax at 1:57

-- case: numbers by recursion
WITH RECURSIVE n AS (SELECT 1 AS i UNION ALL SELECT i + 1 FROM n WHERE i < 10) SELECT SUM(i) AS s, COUNT(*) AS n FROM n;
-- accept
-- rewrite:
--   SELECT t5.c11 AS c0, t5.c12 AS c1
--   FROM (
--     SELECT sum(t4.c10) AS c11, count(*) AS c12
--     FROM (
--       WITH RECURSIVE again_7(c0) AS (
--         SELECT TRY_CAST(t1.c6 AS BIGINT) AS c0
--         FROM (SELECT 1 AS c6) AS t1
--         UNION ALL
--         SELECT TRY_CAST(t3.c9 AS BIGINT) AS c0
--         FROM (SELECT TRY(t2.c0 + 1::BIGINT) AS c9 FROM again_7 AS t2 WHERE (t2.c0 < 10)) AS t3
--       )
--       SELECT c0 AS c10
--       FROM again_7
--     ) AS t4
--   ) AS t5

-- case: columns of a recursion renamed
WITH RECURSIVE n(i, f) AS (SELECT 1, 1 UNION ALL SELECT i + 1, f * (i + 1) FROM n WHERE i < 10) SELECT i, f FROM n;
-- accept

-- case: a recursion over a public table
WITH RECURSIVE r AS (SELECT code, region FROM countries WHERE code = 'NO' UNION SELECT c.code, c.region FROM countries c JOIN r ON c.region = r.region) SELECT code FROM r ORDER BY 1;
-- accept

-- case: a query that RECURSIVE stands before for nothing
WITH RECURSIVE t AS (SELECT 1 AS n) SELECT COUNT(*) AS n FROM t;
-- accept

-- case: days by recursion list the groups
WITH RECURSIVE d AS (SELECT DATE '2024-01-01' AS day UNION ALL SELECT CAST(day + INTERVAL 1 DAY AS DATE) FROM d WHERE day < DATE '2024-01-05') SELECT d.day, COUNT(l.login_id) AS n FROM d LEFT JOIN logins l ON l.day = d.day GROUP BY d.day ORDER BY d.day;
-- accept
-- keys: 5 public, l0 proved
-- release: scaled l0=5 linf=13743895.35

-- case: a recursion over private rows
WITH RECURSIVE n AS (SELECT age AS i FROM customers UNION ALL SELECT i + 1 FROM n WHERE i < 3) SELECT COUNT(*) AS n FROM n;
-- refuse: unsupported-private-operator at 1:29

-- case: a recursion whose step joins private rows
WITH RECURSIVE n AS (SELECT 27 AS i UNION ALL SELECT o.quantity FROM n JOIN orders o ON o.order_id = n.i) SELECT COUNT(*) AS n FROM n;
-- refuse: unsupported-private-operator at 1:29

-- case: a recursion that goes up from a person
WITH RECURSIVE n AS (SELECT customer_id AS i FROM customers WHERE age = 27 UNION ALL SELECT o.customer_id FROM n JOIN orders o ON o.order_id = n.i) SELECT COUNT(*) AS n FROM n;
-- refuse: unsupported-private-operator at 1:29

-- case: a recursion over released numbers
WITH RECURSIVE n AS (SELECT COUNT(*) AS i FROM customers UNION ALL SELECT i - 1 FROM n WHERE i > 3) SELECT COUNT(*) AS n FROM n;
-- refuse: unsupported-private-operator at 1:29

-- case: a recursion that is no union
WITH RECURSIVE n AS (SELECT 1 AS i EXCEPT SELECT i + 1 FROM n WHERE i < 3) SELECT i FROM n;
-- refuse: unsupported-syntax at 1:29

-- case: a recursion of another number of columns
WITH RECURSIVE n AS (SELECT 1 AS i UNION ALL SELECT i + 1, 2 FROM n WHERE i < 3) SELECT i FROM n;
-- refuse: type-mismatch at 1:29

-- case: rows of constants
VALUES (1, 'a'), (2, NULL);
-- accept

-- case: rows of constants as a value
SELECT (VALUES (3)) + 1 AS x;
-- accept

-- case: rows of constants as a list
SELECT COUNT(*) AS n FROM customers WHERE age IN (VALUES (30), (31));
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=1

-- case: a table as a query
TABLE countries;
-- accept

-- case: a private table as a query
TABLE customers;
-- refuse: raw-rows at 1:7

-- case: a table as a query in a query
WITH t AS (TABLE countries) SELECT COUNT(*) AS n FROM t;
-- accept

-- case: set operations around and inside
SELECT COUNT(*) AS n FROM (SELECT DISTINCT region FROM countries UNION SELECT category FROM products EXCEPT SELECT 'a') AS u;
-- accept

-- case: an aggregate of the outer query's columns alone
SELECT (SELECT COUNT(c.code) FROM products p WHERE p.product_id > 0) AS n FROM countries c;
-- refuse: unsupported-syntax at 1:16

-- case: an aggregate of the outer query's columns in a condition
SELECT c.code FROM countries c WHERE 3 IN (SELECT COUNT(c.code) FROM products p);
-- refuse: unsupported-syntax at 1:51

-- case: an aggregate of the outer and of its own columns
SELECT c.code, (SELECT SUM(p.product_id + LENGTH(c.code)) FROM products p) AS n FROM countries c;
-- duckdb: 2
-- accept
