-- What BI tools put around a query costs nothing: the same aggregate is released once.
-- catalog: shop

-- case: one count in five spellings
SELECT COUNT(*) AS a, COUNT(1) AS b, SUM(1) AS c, COUNT(status) AS d, COUNT('x') AS e FROM orders;
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=10

-- case: three wrappers
SELECT * FROM (SELECT * FROM (SELECT * FROM (SELECT status AS "Status", SUM(amount) AS "SUM(amount)" FROM orders GROUP BY status) AS virtual_table) AS "custom sql") AS t0 LIMIT 10000;
-- accept
-- keys: 3 public, l0 proved
-- release: sum l0=3 linf=5000

-- case: a condition that always holds
SELECT status, COUNT(1) AS "count" FROM orders WHERE 1 = 1 AND (1 = 1) GROUP BY status;
-- accept
-- keys: 3 public, l0 proved
-- release: rows l0=3 linf=10

-- case: a HAVING that only counts
SELECT status AS status, SUM(amount) AS "sum:amount:ok" FROM orders GROUP BY 1 HAVING COUNT(1) > 0;
-- accept
-- keys: 3 public, l0 proved
-- release: sum l0=3 linf=5000

-- case: the same sum in SELECT, HAVING and ORDER BY
SELECT status, SUM(amount) AS s FROM orders GROUP BY status HAVING SUM(amount) > 0 ORDER BY SUM(amount) DESC, status LIMIT 10000;
-- accept
-- keys: 3 public, l0 proved
-- release: sum l0=3 linf=5000

-- case: an average shares its count and its sum
SELECT AVG(amount) AS mean, COUNT(*) AS n, COUNT(amount) AS m FROM orders;
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=10
-- release: sum l0=1 linf=2500

-- case: a wrapper that counts the rows of a result
SELECT COUNT(*) AS "rowcount" FROM (SELECT status, COUNT(*) AS n FROM orders GROUP BY status LIMIT 1000) AS virtual_table;
-- accept
-- keys: 3 public, l0 proved

-- case: a wrapper that sorts and cuts
SELECT "Status", "N" FROM (SELECT status AS "Status", COUNT(*) AS "N" FROM orders GROUP BY status) AS "virtual_table" ORDER BY "N" DESC, "Status" ASC LIMIT 2 OFFSET 0;
-- accept
-- keys: highest 2 of 3 public
-- release: rows l0=2 linf=10

-- case: a wrapper that groups again
SELECT "Status" AS "Status", SUM("N") AS "SUM(N)" FROM (SELECT status AS "Status", vip, COUNT(*) AS "N" FROM orders JOIN customers USING (customer_id) GROUP BY 1, 2) AS virtual_table GROUP BY "Status";
-- accept
-- keys: 6 public, l0 proved
-- release: rows l0=3 linf=10

-- case: a hint to keep a step
WITH a AS MATERIALIZED (SELECT status, COUNT(*) AS n FROM orders GROUP BY status), b AS NOT MATERIALIZED (SELECT SUM(n) AS total FROM a) SELECT status, n * 100.0 / total AS percent FROM a, b;
-- accept
-- keys: 3 public, l0 proved
-- release: rows l0=3 linf=10

-- case: names of columns with the WITH
WITH t(s, n) AS (SELECT status, COUNT(*) FROM orders GROUP BY status) SELECT s, n FROM t WHERE n > 0;
-- accept
-- keys: 3 public, l0 proved
-- release: rows l0=3 linf=10

-- case: a name that hides a table
WITH orders AS (SELECT status, COUNT(*) AS n FROM orders GROUP BY status) SELECT SUM(n) AS n FROM orders;
-- accept
-- keys: 3 public, l0 proved
-- release: rows l0=3 linf=10

-- case: a name that hides another in a nested WITH
WITH t AS (SELECT COUNT(*) AS n FROM orders) SELECT n, m FROM t, (WITH t AS (SELECT COUNT(*) AS m FROM customers) SELECT m FROM t) AS u;
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=10
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=1

-- case: quoted names everywhere
SELECT "t"."status" AS "the ""status""", "t"."n" AS "n n" FROM (SELECT "orders"."status", COUNT(*) AS "n" FROM "orders" GROUP BY "orders"."status") AS "t";
-- accept
-- keys: 3 public, l0 proved
-- release: rows l0=3 linf=10

-- case: a sum of another constant is a sum of its own
SELECT SUM(2) AS twice, COUNT(*) AS n FROM orders;
-- accept
-- keys: 1 public, l0 proved
-- release: sum l0=1 linf=20
-- release: rows l0=1 linf=10
-- rewrite:
--   WITH rows AS (SELECT t1."customer_id" AS u, 2 AS x0 FROM "orders" AS t1),
--   totals AS (
--     SELECT
--       u,
--       SUM(((CASE WHEN x0 < 2 THEN 2 WHEN x0 > 2 THEN 2 ELSE x0 END)::BIGINT)::INTEGER) AS s0,
--       COUNT(*) AS s1
--     FROM rows
--     GROUP BY u
--   )
--   SELECT COALESCE(SUM(p0)::HUGEINT, 0) AS p0, COALESCE(SUM(p1)::HUGEINT, 0) AS p1
--   FROM (
--     SELECT
--       (CASE WHEN s0 < 0 THEN 0 WHEN s0 > 20 THEN 20 ELSE s0 END)::BIGINT AS p0,
--       (CASE WHEN s1 < 0 THEN 0 WHEN s1 > 10 THEN 10 ELSE s1 END)::BIGINT AS p1
--     FROM totals
--   )
--   SELECT t1.c0 AS c0, t1.c1 AS c1 FROM release_0 AS t1

-- case: a filtered count in two spellings
SELECT COUNT(*) FILTER (WHERE status = 'paid') AS a, SUM(1) FILTER (WHERE status = 'paid') AS b FROM orders;
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=10

-- case: a wrapper does not hide private rows
SELECT * FROM (SELECT * FROM (SELECT status AS "Status" FROM orders WHERE 1 = 1) AS virtual_table) AS t LIMIT 10000;
-- refuse: raw-rows at 1:62

-- case: a limit below the aggregate
SELECT COUNT(*) FROM (SELECT * FROM orders LIMIT 10000) AS virtual_table;
-- refuse: unsupported-private-operator at 1:23

-- case: a hidden column under an alias
SELECT age AS name FROM (SELECT age, COUNT(*) AS n FROM customers WHERE name > 3 GROUP BY age) AS t;
-- refuse: hidden-column at 1:73

-- case: too many names for a WITH
WITH t(s, n, x) AS (SELECT status, COUNT(*) FROM orders GROUP BY status) SELECT s FROM t;
-- refuse: unknown-column at 1:74

-- case: a HAVING that counts twice
SELECT status, SUM(amount) AS s FROM orders GROUP BY status HAVING COUNT(*) >= 1 AND COUNT(1) > 0 AND SUM(amount) > 0;
-- accept
-- keys: 3 public, l0 proved
-- release: sum l0=3 linf=5000

-- case: a HAVING that counts what may be absent
SELECT status, SUM(amount) AS s FROM orders GROUP BY status HAVING COUNT(discount) > 0;
-- accept
-- keys: 3 public, l0 proved
-- release: sum l0=3 linf=5000
-- release: rows l0=3 linf=10

-- case: a HAVING that counts without keys
SELECT SUM(amount) AS s FROM orders HAVING COUNT(1) > 0;
-- accept
-- keys: 1 public, l0 proved
-- release: sum l0=1 linf=5000
-- release: rows l0=1 linf=10

-- case: a HAVING that counts to two
SELECT status, SUM(amount) AS s FROM orders GROUP BY status HAVING COUNT(*) > 1;
-- accept
-- keys: 3 public, l0 proved
-- release: sum l0=3 linf=5000
-- release: rows l0=3 linf=10
