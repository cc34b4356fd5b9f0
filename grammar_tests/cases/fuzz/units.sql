-- Queries whose compilation once failed: hidden unit columns and public rows without private ones.
-- catalog: shop

-- case: IN over private rows, of a renamed column beside a join
SELECT COUNT(*) AS n FROM (SELECT customer_id FROM events) AS l JOIN customers c USING (customer_id) WHERE l.customer_id IN (SELECT customer_id FROM orders);
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=5

-- case: NOT IN over private rows, of a renamed column beside a join
SELECT COUNT(*) AS n FROM (SELECT customer_id AS c FROM orders) AS o JOIN customers c ON o.c = c.customer_id WHERE o.c NOT IN (SELECT customer_id FROM events);
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=10

-- case: a public table LEFT JOIN private rows, without groups
SELECT COUNT(DISTINCT c.customer_id) AS n, SUM(c.age) AS ages FROM countries k LEFT JOIN customers c ON c.country = k.code;
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=1
-- release: sum l0=1 linf=120
-- rewrite:
--   WITH rows AS (
--     SELECT t2."age" AS x0
--     FROM "countries" AS t1 INNER JOIN "customers" AS t2 ON t2."country" = t1."code"
--   )
--   SELECT
--     COALESCE(COUNT(*)::HUGEINT, 0) AS p0,
--     COALESCE(SUM((CASE WHEN x0 < 0 THEN 0 WHEN x0 > 120 THEN 120 ELSE x0 END)::BIGINT)::HUGEINT, 0) AS p1
--   FROM rows
--   SELECT t1.c0 AS c0, t1.c1 AS c1 FROM release_0 AS t1

-- case: IN over private rows of another key
SELECT COUNT(*) AS n FROM (SELECT customer_id, order_id FROM orders) AS o WHERE o.order_id IN (SELECT customer_id FROM events);
-- refuse: unequal-units at 1:81

-- case: a public table LEFT JOIN private rows, counting rows without groups
SELECT COUNT(*) AS n FROM countries k LEFT JOIN customers c ON c.country = k.code;
-- accept
-- keys: 3 public, l0 proved
-- release: rows l0=1 linf=1
