-- Only queries are answered; every other statement, and every syntax without a rule, is refused.
-- catalog: shop

-- case: insert
INSERT INTO orders VALUES (1);
-- refuse: unsupported-statement at 1:1

-- case: delete
DELETE FROM orders;
-- refuse: unsupported-statement at 1:1

-- case: update
UPDATE orders SET amount = 0;
-- refuse: unsupported-statement at 1:1

-- case: create
CREATE TABLE t AS SELECT * FROM orders;
-- refuse: unsupported-statement at 1:1

-- case: drop
DROP TABLE orders;
-- refuse: unsupported-statement at 1:1

-- case: copy
COPY orders TO 'orders.csv';
-- refuse: unsupported-statement at 1:1

-- case: attach
ATTACH 'other.duckdb';
-- refuse: unsupported-statement at 1:1

-- case: pragma
PRAGMA table_info('orders');
-- refuse: unsupported-statement at 1:1

-- case: describe
DESCRIBE orders;
-- refuse: unsupported-statement at 1:1

-- case: summarize
SUMMARIZE orders;
-- refuse: unsupported-statement at 1:1

-- case: explain of the engine
EXPLAIN ANALYZE SELECT COUNT(*) FROM orders;
-- refuse: unsupported-statement at 1:1

-- case: set
SET threads = 1;
-- refuse: unsupported-statement at 1:1

-- case: two statements
SELECT 1; SELECT 2;
-- refuse: unsupported-statement at 1:11

-- case: a typing error
SELEC COUNT(*) FROM orders;
-- refuse: syntax-error at 1:1

-- case: an open parenthesis
SELECT COUNT(* FROM orders;
-- refuse: syntax-error at 1:13

-- case: pivot without a list
PIVOT orders ON status USING COUNT(*);
-- refuse: unsupported-syntax at 1:17

-- case: distinct on
SELECT DISTINCT ON (status) status FROM orders;
-- refuse: unsupported-private-operator at 1:1

-- case: ignore nulls
SELECT LAST_VALUE(n IGNORE NULLS) OVER () FROM (SELECT COUNT(*) AS n FROM orders) AS t;
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=10
-- rewrite:
--   WITH rows AS (SELECT t1."customer_id" AS u FROM "orders" AS t1),
--   totals AS (SELECT u, COUNT(*) AS s0 FROM rows GROUP BY u)
--   SELECT COALESCE(SUM(p0)::HUGEINT, 0) AS p0
--   FROM (SELECT (CASE WHEN s0 < 0 THEN 0 WHEN s0 > 10 THEN 10 ELSE s0 END)::BIGINT AS p0 FROM totals)
--   SELECT t2.c12 AS c0
--   FROM (SELECT t1.c0 AS c11, last_value(t1.c0 IGNORE NULLS) OVER () AS c12 FROM release_0 AS t1) AS t2

-- case: for update
SELECT COUNT(*) FROM orders FOR UPDATE;
-- refuse: unsupported-syntax at 1:1

-- case: a list in an expression
SELECT LENGTH([COUNT(*)]) FROM orders;
-- refuse: unsupported-syntax at 1:15

-- case: a lambda
SELECT list_transform([1], x -> x + 1);
-- refuse: unsupported-syntax at 1:30

-- case: less epsilon by option
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = 0.5) COUNT(*) AS n FROM orders;
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=10

-- case: an unknown option
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(speed = 9) COUNT(*) AS n FROM orders;
-- refuse: bad-option at 1:42

-- case: a parameter that is not bound
SELECT COUNT(*) FROM orders WHERE amount > ?;
-- refuse: bad-parameter at 1:44

-- case: an unlimited contribution
SELECT SUM(x) FROM (SELECT a.amount AS x FROM orders AS a JOIN items AS i ON a.order_id = i.order_id JOIN events AS e ON a.customer_id = e.customer_id) AS t;
-- accept
-- keys: 1 public, l0 proved
-- release: sum l0=1 linf=50000

-- case: a star without a table
SELECT *;
-- refuse: syntax-error at 1:8

-- case: a star without a column
SELECT * EXCLUDE (a) FROM (SELECT 1 AS a) AS t;
-- refuse: syntax-error at 1:8
