-- COUNT: a unit's count in a group is clipped to [0, c]; rows that do not count are filtered out.
-- catalog: shop

-- case: count of the unit table needs no per-unit aggregation
SELECT COUNT(*) AS n FROM customers;
-- accept

-- case: count of rows linked to the unit
SELECT COUNT(*) AS n FROM orders;
-- accept

-- case: count of rows two links away
SELECT COUNT(*) AS n FROM items;
-- accept

-- case: count of a column counts what is not null
SELECT COUNT(discount) AS n FROM orders;
-- accept

-- case: count of a column that is never null is COUNT(*)
SELECT COUNT(amount) AS a, COUNT(*) AS b FROM orders;
-- accept

-- case: count of a constant is COUNT(*)
SELECT COUNT(1) AS n FROM orders;
-- accept

-- case: count of units
SELECT COUNT(DISTINCT customer_id) AS buyers FROM orders;
-- accept

-- case: count of units by group
SELECT status, COUNT(DISTINCT customer_id) AS buyers FROM orders GROUP BY status;
-- accept

-- case: count of units on the unit table
SELECT COUNT(DISTINCT customer_id) AS n FROM customers WHERE age > 40;
-- accept

-- case: count of distinct values of another column has no rule
SELECT COUNT(DISTINCT status) AS n FROM orders;
-- refuse: unsupported-aggregate

-- case: count of a hidden column
SELECT COUNT(name) FROM customers;
-- refuse: hidden-column

-- case: two aggregates share a measurement
SELECT COUNT(*) AS a, COUNT(*) + 1 AS b FROM orders;
-- accept

-- case: count inside count
SELECT COUNT(COUNT(*)) FROM orders;
-- refuse: misplaced-aggregate

-- case: count of several columns
SELECT COUNT(status, amount) FROM orders;
-- refuse: unsupported-syntax

-- case: count with an order inside
SELECT COUNT(status ORDER BY amount) FROM orders;
-- refuse: unsupported-syntax
