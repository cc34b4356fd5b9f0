-- COUNT: a unit's count in a group is clipped to [0, c]; rows that do not count are filtered out.
-- catalog: shop

-- case: count of the unit table needs no per-unit aggregation
SELECT COUNT(*) AS n FROM customers;
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=1

-- case: count of rows linked to the unit
SELECT COUNT(*) AS n FROM orders;
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=10

-- case: count of rows two links away
SELECT COUNT(*) AS n FROM items;
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=20

-- case: count of a column counts what is not null
SELECT COUNT(discount) AS n FROM orders;
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=10

-- case: count of a column that is never null is COUNT(*)
SELECT COUNT(amount) AS a, COUNT(*) AS b FROM orders;
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=10

-- case: count of a constant is COUNT(*)
SELECT COUNT(1) AS n FROM orders;
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=10

-- case: count of nothing is COUNT(*)
SELECT COUNT() AS n, COUNT() FILTER (WHERE quantity > 1) AS m FROM orders;
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=10
-- release: rows l0=1 linf=10

-- case: count of nothing is DuckDB's alone
SELECT COUNT() AS n FROM orders;
-- dialect: postgres
-- refuse: unsupported-syntax at 1:8

-- case: count of units
SELECT COUNT(DISTINCT customer_id) AS buyers FROM orders;
-- accept
-- keys: 1 public, l0 proved
-- release: units l0=1 linf=1

-- case: count of units by group
SELECT status, COUNT(DISTINCT customer_id) AS buyers FROM orders GROUP BY status;
-- accept
-- keys: 3 public, l0 proved
-- release: units l0=3 linf=1

-- case: count of units on the unit table
SELECT COUNT(DISTINCT customer_id) AS n FROM customers WHERE age > 40;
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=1

-- case: count of a hidden column
SELECT COUNT(name) FROM customers;
-- refuse: hidden-column at 1:14

-- case: two aggregates share a measurement
SELECT COUNT(*) AS a, COUNT(*) + 1 AS b FROM orders;
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=10

-- case: count inside count
SELECT COUNT(COUNT(*)) FROM orders;
-- refuse: misplaced-aggregate at 1:14

-- case: count of several columns
SELECT COUNT(status, amount) FROM orders;
-- refuse: unsupported-syntax at 1:8

-- case: count with an order inside
SELECT COUNT(status ORDER BY amount) FROM orders;
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=10
