-- COUNT: a unit's count in a group is clipped to [0, c]; rows that do not count are filtered out.
-- catalog: shop

-- case: count of the unit table needs no per-unit aggregation
SELECT COUNT(*) AS n FROM customers;
-- rows: customers (customer_id): (1), (2), (3)
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=1
-- integers: () 3

-- case: count of rows linked to the unit
SELECT COUNT(*) AS n FROM orders;
-- rows: orders (customer_id): (1), (1), (1), (1), (1), (1), (1), (1), (1), (1), (1), (1), (2)
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=10
-- integers: () 11
-- rewrite:
--   WITH rows AS (SELECT t1."customer_id" AS u FROM "orders" AS t1),
--   totals AS (SELECT u, COUNT(*) AS s0 FROM rows GROUP BY u)
--   SELECT COALESCE(SUM(p0)::HUGEINT, 0) AS p0
--   FROM (SELECT (CASE WHEN s0 < 0 THEN 0 WHEN s0 > 10 THEN 10 ELSE s0 END)::BIGINT AS p0 FROM totals)
--   SELECT t1.c0 AS c0 FROM release_0 AS t1

-- case: count of rows two links away
SELECT COUNT(*) AS n FROM items;
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=20

-- case: count of a column counts what is not null
SELECT COUNT(discount) AS n FROM orders;
-- rows: orders (customer_id, discount): (1, 0.5), (1, NULL), (2, 0.25)
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=10
-- integers: () 2
-- rewrite:
--   WITH rows AS (
--     SELECT
--       t1."customer_id" AS u,
--       NOT (CASE WHEN isnan(t1."discount") THEN NULL ELSE t1."discount"::DOUBLE + 0.0 END) IS NULL AS x0
--     FROM "orders" AS t1
--   ),
--   totals AS (SELECT u, COUNT(*) FILTER (WHERE x0) AS s0 FROM rows GROUP BY u)
--   SELECT COALESCE(SUM(p0)::HUGEINT, 0) AS p0
--   FROM (SELECT (CASE WHEN s0 < 0 THEN 0 WHEN s0 > 10 THEN 10 ELSE s0 END)::BIGINT AS p0 FROM totals)
--   SELECT t1.c0 AS c0 FROM release_0 AS t1

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
-- rows: orders (customer_id, status): (1, 'paid'), (1, 'paid'), (1, 'open'), (2, 'paid'), (2, 'lost')
-- accept
-- keys: 3 public, l0 proved
-- release: units l0=3 linf=1
-- integers: (open) 1
-- integers: (paid) 2
-- rewrite:
--   WITH rows AS (SELECT t1."customer_id" AS u, t1."status" AS k0 FROM "orders" AS t1),
--   totals AS (SELECT u, k0, 1 AS s0 FROM rows GROUP BY u, k0)
--   SELECT k0, COALESCE(SUM(p0)::HUGEINT, 0) AS p0
--   FROM (SELECT k0, (CASE WHEN s0 < 0 THEN 0 WHEN s0 > 1 THEN 1 ELSE s0 END)::BIGINT AS p0 FROM totals)
--   GROUP BY k0
--   SELECT t1.c0 AS c0, t1.c1 AS c1 FROM release_0 AS t1

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
