-- Subqueries in FROM and CTEs: the unit travels along by identity, bounds with the value.
-- catalog: shop

-- case: a derived table
SELECT COUNT(*) FROM (SELECT amount FROM orders WHERE status = 'paid') AS t;
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=10

-- case: a renamed column keeps its bounds
SELECT SUM(a) FROM (SELECT amount AS a FROM orders) AS t;
-- accept
-- keys: 1 public, l0 proved
-- release: sum l0=1 linf=5000

-- case: a shadowing name does not lend its bounds
SELECT SUM(amount) FROM (SELECT note_length AS amount FROM orders) AS t;
-- refuse: unbounded-input at 1:12

-- case: column aliases move bounds with the value
SELECT SUM(x) FROM (SELECT note_length, amount FROM orders) AS t(amount, x);
-- accept
-- keys: 1 public, l0 proved
-- release: sum l0=1 linf=5000

-- case: column aliases do not lend bounds
SELECT SUM(amount) FROM (SELECT note_length, amount FROM orders) AS t(amount, x);
-- refuse: unbounded-input at 1:12

-- case: nested three deep
SELECT SUM(c) FROM (SELECT b AS c FROM (SELECT a AS b FROM (SELECT amount AS a FROM orders) AS t1) AS t2) AS t3;
-- accept
-- keys: 1 public, l0 proved
-- release: sum l0=1 linf=5000

-- case: a computed column
SELECT SUM(net) FROM (SELECT amount * 0.8 AS net FROM orders) AS t;
-- accept
-- keys: 1 public, l0 proved
-- release: sum l0=1 linf=4000

-- case: a filter on a computed column
SELECT COUNT(*) FROM (SELECT amount * quantity AS value FROM orders) AS t WHERE value > 100;
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=10

-- case: a CTE
WITH paid AS (SELECT * FROM orders WHERE status = 'paid') SELECT COUNT(*) FROM paid;
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=10

-- case: a CTE over a CTE
WITH a AS (SELECT * FROM orders), b AS (SELECT amount FROM a WHERE quantity > 2) SELECT SUM(amount) FROM b;
-- accept
-- keys: 1 public, l0 proved
-- release: sum l0=1 linf=5000

-- case: a CTE that shadows a table
WITH orders AS (SELECT customer_id, note_length AS amount FROM orders) SELECT SUM(amount) FROM orders;
-- refuse: unbounded-input at 1:83

-- case: a CTE used twice
WITH o AS (SELECT customer_id, amount FROM orders) SELECT COUNT(*) FROM o AS a JOIN o AS b ON a.customer_id = b.customer_id;
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=100

-- case: CTE column aliases
WITH t(x, y) AS (SELECT status, amount FROM orders) SELECT x, SUM(y) FROM t GROUP BY x;
-- accept
-- keys: 3 public, l0 proved
-- release: sum l0=3 linf=5000

-- case: units are counted through a rename
SELECT COUNT(DISTINCT who) FROM (SELECT customer_id AS who FROM orders) AS t;
-- accept
-- keys: 1 public, l0 proved
-- release: units l0=1 linf=1

-- case: an expression is never the unit
SELECT COUNT(DISTINCT who) FROM (SELECT customer_id + 0 AS who FROM orders) AS t;
-- accept
-- keys: 1 public, l0 proved
-- release: distinct l0=1 linf=10
-- rewrite:
--   WITH rows AS (
--     SELECT t2.c2 AS u, t2.c10 AS x0, NOT t2.c10 IS NULL AS x1
--     FROM (
--       SELECT TRY(t1."customer_id" + 0::BIGINT) AS c10, t1."order_id" AS c1, t1."customer_id" AS c2
--       FROM "orders" AS t1
--     ) AS t2
--   ),
--   totals AS (
--     SELECT u, list(DISTINCT x0) FILTER (WHERE x0 IS NOT NULL AND x1) AS s0 FROM rows GROUP BY u
--   ),
--   bounded AS MATERIALIZED (
--     SELECT CASE
--       WHEN len(s0) > 10
--       THEN list_transform(
--         list_sort(list_transform(s0, lambda x: {'h': hash($sampling_key::UBIGINT, u, x), 'x': x}))[1:10],
--         lambda pair: pair.x
--       )
--       ELSE s0
--     END AS p0
--     FROM totals
--   )
--   SELECT COALESCE(SUM(p0)::HUGEINT, 0) AS p0
--   FROM (
--     SELECT 0 AS p0
--     FROM bounded
--     UNION ALL
--     SELECT COUNT(DISTINCT v)
--     FROM (SELECT unnest(p0) AS v FROM bounded)
--   )
--   SELECT t1.c0 AS c0 FROM release_0 AS t1

-- case: another column renamed to the unit key is not the unit
SELECT COUNT(DISTINCT customer_id) FROM (SELECT order_id AS customer_id FROM orders) AS t;
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=10

-- case: an order without a limit does not matter
SELECT COUNT(*) FROM (SELECT amount FROM orders ORDER BY amount) AS t;
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=10

-- case: a limit over private rows
SELECT COUNT(*) FROM (SELECT amount FROM orders LIMIT 10) AS t;
-- refuse: unsupported-private-operator at 1:23

-- case: distinct private rows are keys
SELECT COUNT(*) AS n FROM (SELECT DISTINCT status FROM orders) AS t;
-- accept
-- keys: 3 public, l0 proved

-- case: a window over private rows
SELECT COUNT(*) FROM (SELECT ROW_NUMBER() OVER (ORDER BY amount) AS r FROM orders) AS t WHERE r < 10;
-- refuse: unsupported-private-operator at 1:30

-- case: a union of private rows
SELECT COUNT(*) FROM (SELECT amount FROM orders UNION ALL SELECT price FROM items) AS t;
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=30
-- rewrite:
--   WITH rows AS (
--     SELECT t6.c22 AS u
--     FROM (
--       SELECT t2.c10 AS c17, t2.c23 AS c22
--       FROM (SELECT t1."amount" AS c10, t1."customer_id" AS c23 FROM "orders" AS t1) AS t2
--       UNION ALL
--       SELECT t5.c16 AS c17, t5.c24 AS c22
--       FROM (
--         SELECT TRY_CAST(t3."price" AS DECIMAL(10, 2)) AS c16, t4."customer_id" AS c24
--         FROM "items" AS t3 INNER JOIN "orders" AS t4 ON t3."order_id" = t4."order_id"
--       ) AS t5
--     ) AS t6
--     WHERE (NOT t6.c22 IS NULL)
--   ),
--   totals AS (SELECT u, COUNT(*) AS s0 FROM rows GROUP BY u)
--   SELECT COALESCE(SUM(p0)::HUGEINT, 0) AS p0
--   FROM (SELECT (CASE WHEN s0 < 0 THEN 0 WHEN s0 > 30 THEN 30 ELSE s0 END)::BIGINT AS p0 FROM totals)
--   SELECT t1.c0 AS c0 FROM release_0 AS t1

-- case: an unknown name inside a CTE that is not used
WITH t AS (SELECT colour FROM orders) SELECT COUNT(*) FROM customers;
-- refuse: unknown-column at 1:19

-- case: star with exclusion
SELECT COUNT(*) FROM (SELECT * EXCLUDE (amount) FROM orders) AS t;
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=10

-- case: star with replacement
SELECT SUM(amount) FROM (SELECT * REPLACE (note_length AS amount) FROM orders) AS t;
-- refuse: unbounded-input at 1:12

-- case: a lateral subquery
SELECT COUNT(*) FROM orders, LATERAL (SELECT 1 AS one) AS t;
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=10

-- case: too many column aliases
SELECT COUNT(*) FROM (SELECT amount FROM orders) AS t(a, b);
-- refuse: unknown-column at 1:30
