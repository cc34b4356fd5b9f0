-- MIN, MAX, ANY_VALUE of a group's key or of what has one value: that value, and nothing measured.
-- catalog: shop

-- case: minimum of the group's key
SELECT status, MIN(status) AS least, COUNT(*) AS n FROM orders GROUP BY status;
-- accept
-- keys: 3 public, l0 proved
-- release: rows l0=3 linf=10

-- case: any value of the group's key
SELECT ANY_VALUE(c.country) AS country, COUNT(*) AS n FROM orders o JOIN customers c ON o.customer_id = c.customer_id GROUP BY c.country;
-- accept
-- keys: 3 public, l0 proved
-- release: rows l0=1 linf=10

-- case: maximum of a private key
SELECT device, MAX(device) AS most, SUM(duration) AS total FROM events GROUP BY device;
-- accept
-- keys: private, l0 enforced
-- release: units l0=2 linf=1
-- release: sum l0=2 linf=18000

-- case: maximum of an expression of the keys
SELECT MAX(UPPER(status)) AS name, COUNT(*) AS n FROM orders GROUP BY status;
-- accept
-- keys: 3 public, l0 proved
-- release: rows l0=3 linf=10

-- case: maximum of an expression of two keys
SELECT MAX(status || '/' || CAST(vip AS VARCHAR)) AS name, COUNT(*) AS n FROM orders o JOIN customers c ON o.customer_id = c.customer_id GROUP BY status, vip;
-- accept
-- keys: 6 public, l0 proved
-- release: rows l0=3 linf=10
-- rewrite:
--   WITH rows AS (
--     SELECT t1."customer_id" AS u, t1."status" AS k0, t2."vip" AS k1
--     FROM "orders" AS t1 INNER JOIN "customers" AS t2 ON t1."customer_id" = t2."customer_id"
--   ),
--   totals AS (SELECT u, k0, k1, COUNT(*) AS s0 FROM rows GROUP BY u, k0, k1)
--   SELECT k0, k1, COALESCE(SUM(p0)::HUGEINT, 0) AS p0
--   FROM (
--     SELECT k0, k1, (CASE WHEN s0 < 0 THEN 0 WHEN s0 > 10 THEN 10 ELSE s0 END)::BIGINT AS p0
--     FROM totals
--   )
--   GROUP BY k0, k1
--   SELECT t2.c20 AS c0, t2.c21 AS c1
--   FROM (
--     SELECT
--       t1.c0 AS c18,
--       t1.c1 AS c19,
--       left(left(t1.c0 || '/', 4096) || CAST(t1.c1 AS VARCHAR), 4096) AS c20,
--       t1.c2 AS c21
--     FROM release_0 AS t1
--   ) AS t2

-- case: minimum of an expression that is a key
SELECT MIN(DATE_TRUNC('month', placed_at)) AS month, COUNT(*) AS n FROM orders GROUP BY DATE_TRUNC('month', placed_at);
-- accept
-- keys: 24 public, l0 enforced
-- release: rows l0=3 linf=10

-- case: keys and their extremes cost nothing
SELECT status, MAX(status) AS most FROM orders GROUP BY status;
-- accept
-- keys: 3 public, l0 proved

-- case: an aggregate of the unit's absence beside counts
SELECT status, COUNT(*) AS n, MAX(CASE WHEN customer_id IS NULL THEN 1 ELSE 0 END) AS blank FROM orders GROUP BY status;
-- accept
-- keys: 3 public, l0 proved
-- release: rows l0=3 linf=10

-- case: whether the unit is absent is known without looking
SELECT MAX(CASE WHEN customer_id IS NULL THEN 1 ELSE 0 END) AS blank FROM orders;
-- accept
-- keys: 1 public, l0 proved

-- case: distinct people and whether one is absent, as a BI tool asks
SELECT COUNT(DISTINCT customer_id) + MAX(CASE WHEN customer_id IS NULL THEN 1 ELSE 0 END) AS people FROM orders;
-- accept
-- keys: 1 public, l0 proved
-- release: units l0=1 linf=1

-- case: distinct values and whether one is absent, as a BI tool asks
SELECT status, COUNT(DISTINCT quantity) + MAX(CASE WHEN quantity IS NULL THEN 1 ELSE 0 END) AS quantities FROM orders WHERE quantity IS NOT NULL GROUP BY status;
-- accept
-- keys: 3 public, l0 proved
-- release: distinct l0=3 linf=10

-- case: whether the unit is present
SELECT MIN(CASE WHEN NOT customer_id IS NULL AND 1 IS NOT NULL THEN 'there' ELSE 'gone' END) AS presence, COUNT(*) AS n FROM orders;
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=10

-- case: maximum of a literal
SELECT COUNT(*) AS n, MAX(7) AS seven, ANY_VALUE('all') AS scope FROM orders;
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=10

-- case: maximum of a column that a filter fixes
SELECT MAX(status) AS status, COUNT(*) AS n FROM orders WHERE status = 'paid';
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=10

-- case: a constant by a join with a public table
SELECT MIN(p.category) AS category, SUM(i.units) AS units FROM items i JOIN products p ON i.product_id = p.product_id WHERE p.category = 'toy';
-- accept
-- keys: 1 public, l0 proved
-- release: sum l0=1 linf=200
-- rewrite:
--   WITH rows AS (
--     SELECT t3."customer_id" AS u, t1."units" AS x0
--     FROM
--       "items" AS t1
--       INNER JOIN "products" AS t2 ON t1."product_id" = t2."product_id"
--       INNER JOIN "orders" AS t3 ON t1."order_id" = t3."order_id"
--     WHERE (t2."category" = 'toy')
--   ),
--   totals AS (
--     SELECT u, SUM(((CASE WHEN x0 < 0 THEN 0 WHEN x0 > 10 THEN 10 ELSE x0 END)::BIGINT)::INTEGER) AS s0
--     FROM rows
--     GROUP BY u
--   )
--   SELECT COALESCE(SUM(p0)::HUGEINT, 0) AS p0
--   FROM (SELECT (CASE WHEN s0 < 0 THEN 0 WHEN s0 > 200 THEN 200 ELSE s0 END)::BIGINT AS p0 FROM totals)
--   SELECT t2.c9 AS c0, t2.c10 AS c1 FROM (SELECT 'toy' AS c9, t1.c0 AS c10 FROM release_0 AS t1) AS t2

-- case: a constant in a condition on groups
SELECT status, COUNT(*) AS n FROM orders GROUP BY status HAVING MAX(status) <> 'open';
-- accept
-- keys: 3 public, l0 proved
-- release: rows l0=3 linf=10

-- case: the key's minimum in an order
SELECT status, COUNT(*) AS n FROM orders GROUP BY status ORDER BY MIN(status) DESC;
-- accept
-- keys: 3 public, l0 proved
-- release: rows l0=3 linf=10

-- case: the key's maximum in postgres
SELECT MAX("status") AS "status", COUNT(*) AS "n" FROM "orders" GROUP BY "status";
-- dialect: postgres
-- accept
-- keys: 3 public, l0 proved
-- release: rows l0=3 linf=10

-- case: keys read twice
SELECT a.least, b.n FROM (SELECT status, MIN(status) AS least FROM orders GROUP BY status) a JOIN (SELECT status, COUNT(*) AS n FROM orders GROUP BY status) b ON a.least = b.status;
-- accept
-- keys: 3 public, l0 proved
-- release: rows l0=3 linf=10

-- case: any value of a public column
SELECT region, ANY_VALUE(region) AS same FROM countries GROUP BY region;
-- accept

-- case: any value of released counts
SELECT ANY_VALUE(n) AS n FROM (SELECT COUNT(*) AS n FROM orders) AS t;
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=10

-- case: minimum of what varies within the group
SELECT status, MIN(note) FROM orders GROUP BY status;
-- refuse: unsupported-aggregate at 1:16

-- case: a filtered minimum of the key tells whether a row passes
SELECT note, MIN(note) FILTER (WHERE amount > 100) FROM orders GROUP BY note;
-- refuse: unsupported-aggregate at 1:14

-- case: a filtered constant tells whether a row passes
SELECT MAX(1) FILTER (WHERE amount > 100) FROM orders;
-- refuse: unsupported-aggregate at 1:8

-- case: whether a nullable column is absent is private
SELECT ANY_VALUE(CASE WHEN note IS NULL THEN 1 ELSE 0 END) FROM orders;
-- refuse: unsupported-aggregate at 1:8

-- case: maximum of an expression of the key and another column
SELECT status, MAX(status || note) FROM orders GROUP BY status;
-- refuse: unsupported-aggregate at 1:16

-- case: any value of the unit
SELECT ANY_VALUE(customer_id) FROM orders;
-- refuse: unsupported-aggregate at 1:8

-- case: a column that only one unit can have is not a constant
SELECT MIN(note) FROM orders WHERE customer_id = 3;
-- refuse: unsupported-aggregate at 1:8

-- case: a fixed column that may be missing is not a constant
SELECT MAX(CASE WHEN status = 'paid' THEN 1 END) FROM orders;
-- refuse: unsupported-aggregate at 1:8

-- case: a constant by group and in all
SELECT status, MAX(7) AS seven, COUNT(*) AS n FROM orders GROUP BY ROLLUP (status);
-- accept
-- keys: 3 public, l0 proved
-- release: rows l0=3 linf=10
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=10

-- case: any value of the key where it is no key in all groups
SELECT status, ANY_VALUE(status) AS least, COUNT(*) AS n FROM orders GROUP BY ROLLUP (status);
-- refuse: unsupported-aggregate at 1:16

-- case: a sum of what is always zero, over groups with limits of rows in all and in each
SELECT status, SUM(quantity * 0) AS s FROM orders GROUP BY status;
-- accept
-- keys: 3 public, l0 proved
-- release: sum l0=3 linf=0
