-- Queries that their text alone makes empty: columns without rows, from no table, at no cost.
-- catalog: shop

-- case: a condition that never holds
SELECT * FROM customers WHERE 1 = 0;
-- accept
-- rewrite:
--   SELECT
--     t1.c9 AS c0,
--     t1.c10 AS c1,
--     t1.c11 AS c2,
--     t1.c12 AS c3,
--     t1.c13 AS c4,
--     t1.c14 AS c5,
--     t1.c15 AS c6,
--     t1.c16 AS c7
--   FROM (
--     SELECT CAST(NULL AS BIGINT) AS c9,
--     CAST(NULL AS VARCHAR) AS c10,
--     CAST(NULL AS VARCHAR) AS c11,
--     CAST(NULL AS VARCHAR) AS c12,
--     CAST(NULL AS BIGINT) AS c13,
--     CAST(NULL AS DOUBLE) AS c14,
--     CAST(NULL AS BOOLEAN) AS c15,
--     CAST(NULL AS DATE) AS c16
--   ) AS t1
--   WHERE (FALSE)

-- case: it is a constant
SELECT age, city FROM customers WHERE age > 40 AND FALSE ORDER BY 1;
-- accept

-- case: LIMIT 0, of a join and of a window
SELECT t.age, t.amount, ROW_NUMBER() OVER (ORDER BY t.age) AS r FROM (SELECT c.age, o.amount FROM customers AS c JOIN orders AS o ON c.customer_id = o.customer_id) AS t LIMIT 0;
-- accept

-- case: a constant of rows that may not be read
SELECT TRUE FROM main.customers WHERE 1 <> 1 LIMIT 0;
-- accept

-- case: LIMIT 0 of an answer measures nothing
SELECT status, COUNT(*) AS n FROM orders GROUP BY status LIMIT 0;
-- accept

-- case: a condition that always holds
SELECT age FROM customers WHERE 1 = 1;
-- refuse: raw-rows at 1:17

-- case: a condition on data
SELECT age FROM customers WHERE age = 0 AND age = 1;
-- refuse: raw-rows at 1:17

-- case: one row more
SELECT age FROM customers LIMIT 1;
-- refuse: raw-rows at 1:17

-- case: what is hidden has no columns to learn
SELECT name FROM customers WHERE 1 = 0;
-- refuse: hidden-column at 1:8

-- case: what does not exist neither
SELECT nothing FROM customers LIMIT 0;
-- refuse: unknown-column at 1:8

-- case: totals of nothing are one row, exact and free
SELECT COUNT(*) AS n FROM customers WHERE 1 = 0;
-- accept

-- case: of public keys every group is answered
SELECT segment, COUNT(*) AS n FROM customers WHERE 1 = 0 GROUP BY segment;
-- accept
