-- Rows of private tables are never returned.
-- catalog: shop

-- case: all columns
SELECT * FROM orders;
-- refuse: raw-rows at 1:15

-- case: one column
SELECT amount FROM orders;
-- refuse: raw-rows at 1:20

-- case: with order and limit
SELECT amount FROM orders ORDER BY amount DESC LIMIT 1;
-- refuse: raw-rows at 1:20

-- case: a constant for each row tells their number
SELECT 1 FROM orders;
-- refuse: raw-rows at 1:15

-- case: a derived table
SELECT t.a FROM (SELECT amount AS a FROM orders) AS t;
-- refuse: raw-rows at 1:42

-- case: a join
SELECT o.amount, c.age FROM orders o JOIN customers c ON o.customer_id = c.customer_id;
-- refuse: raw-rows at 1:29

-- case: private rows in a union with public ones
SELECT code FROM countries UNION ALL SELECT status FROM orders;
-- refuse: unsupported-private-operator at 1:8

-- case: whole rows as a value
SELECT orders FROM orders;
-- refuse: unknown-column at 1:8

-- case: the row id of the engine
SELECT COUNT(rowid) FROM orders;
-- refuse: unknown-column at 1:14

-- case: a positional column
SELECT COUNT(#1) FROM orders;
-- refuse: unsupported-syntax at 1:14

-- case: a column pattern
SELECT SUM(COLUMNS('amount|quantity')) FROM orders;
-- refuse: unknown-function at 1:12

-- case: a column that the policy does not list
SELECT COUNT(secret) FROM customers;
-- refuse: unknown-column at 1:14

-- case: a table that the policy does not name
SELECT COUNT(*) FROM audit;
-- refuse: unknown-table at 1:22

-- case: rows beside a released maximum are rows
SELECT status FROM orders WHERE amount = (SELECT MAX(amount) FROM orders);
-- refuse: raw-rows at 1:20
