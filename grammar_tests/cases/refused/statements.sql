-- Only queries are answered; every other statement, and every syntax without a rule, is refused.
-- catalog: shop

-- case: insert
INSERT INTO orders VALUES (1);
-- refuse: unsupported-statement

-- case: delete
DELETE FROM orders;
-- refuse: unsupported-statement

-- case: update
UPDATE orders SET amount = 0;
-- refuse: unsupported-statement

-- case: create
CREATE TABLE t AS SELECT * FROM orders;
-- refuse: unsupported-statement

-- case: drop
DROP TABLE orders;
-- refuse: unsupported-statement

-- case: copy
COPY orders TO 'orders.csv';
-- refuse: unsupported-statement

-- case: attach
ATTACH 'other.duckdb';
-- refuse: unsupported-statement

-- case: pragma
PRAGMA table_info('orders');
-- refuse: unsupported-statement

-- case: describe
DESCRIBE orders;
-- refuse: unsupported-statement

-- case: summarize
SUMMARIZE orders;
-- refuse: unsupported-statement

-- case: explain of the engine
EXPLAIN ANALYZE SELECT COUNT(*) FROM orders;
-- refuse: unsupported-statement

-- case: set
SET threads = 1;
-- refuse: unsupported-statement

-- case: two statements
SELECT 1; SELECT 2;
-- refuse: unsupported-statement

-- case: a typing error
SELEC COUNT(*) FROM orders;
-- refuse: syntax-error

-- case: an open parenthesis
SELECT COUNT(* FROM orders;
-- refuse: syntax-error

-- case: values
VALUES (1), (2);
-- refuse: unsupported-syntax

-- case: pivot
PIVOT orders ON status USING COUNT(*);
-- refuse: unsupported-statement

-- case: distinct on
SELECT DISTINCT ON (status) status FROM orders;
-- refuse: unsupported-syntax

-- case: ignore nulls
SELECT LAST_VALUE(n IGNORE NULLS) OVER () FROM (SELECT COUNT(*) AS n FROM orders) AS t;
-- refuse: unsupported-syntax

-- case: for update
SELECT COUNT(*) FROM orders FOR UPDATE;
-- refuse: unsupported-syntax

-- case: a list
SELECT [COUNT(*)] FROM orders;
-- refuse: unsupported-syntax

-- case: a lambda
SELECT list_transform([1], x -> x + 1);
-- refuse: unsupported-syntax

-- case: an interval is not a type here yet
SELECT COUNT(*) FROM orders WHERE placed_at > TIMESTAMP '2024-01-01' + INTERVAL 1 DAY;
-- refuse: unsupported-syntax

-- case: less epsilon by option
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = 0.5) COUNT(*) AS n FROM orders;
-- accept

-- case: an unknown option
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(speed = 9) COUNT(*) AS n FROM orders;
-- refuse: bad-option

-- case: a parameter that is not bound
SELECT COUNT(*) FROM orders WHERE amount > ?;
-- refuse: bad-parameter
