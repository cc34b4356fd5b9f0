-- The outer query: everything above the aggregates is post-processing and free.
-- catalog: shop

-- case: HAVING
SELECT status, COUNT(*) AS n FROM orders GROUP BY status HAVING COUNT(*) > 2;
-- accept
-- keys: 3 public, l0 proved
-- release: rows l0=3 linf=10

-- case: HAVING by alias
SELECT status, COUNT(*) AS n FROM orders GROUP BY status HAVING n > 2;
-- accept
-- keys: 3 public, l0 proved
-- release: rows l0=3 linf=10

-- case: HAVING on an aggregate that is not selected
SELECT status FROM orders GROUP BY status HAVING SUM(amount) > 10;
-- accept
-- keys: 3 public, l0 proved
-- release: sum l0=3 linf=5000

-- case: LIMIT ALL limits nothing
SELECT status, COUNT(*) AS n FROM orders GROUP BY status ORDER BY status LIMIT ALL OFFSET 1;
-- accept
-- keys: 3 public, l0 proved
-- release: rows l0=3 linf=10

-- case: OFFSET ALL is nothing
SELECT status, COUNT(*) AS n FROM orders GROUP BY status ORDER BY status OFFSET ALL;
-- refuse: unsupported-syntax at 1:74

-- case: a number of rows in parentheses
SELECT status, COUNT(*) AS n FROM orders GROUP BY status ORDER BY status OFFSET (1) ROWS FETCH FIRST (2) ROWS ONLY;
-- accept
-- keys: 3 public, l0 proved
-- release: rows l0=3 linf=10

-- case: a number of rows that must be computed
SELECT status, COUNT(*) AS n FROM orders GROUP BY status ORDER BY status LIMIT (1 + status);
-- refuse: unsupported-syntax at 1:74

-- case: ORDER BY and LIMIT
SELECT status, COUNT(*) AS n FROM orders GROUP BY status ORDER BY n DESC, status LIMIT 2;
-- accept
-- keys: highest 2 of 3 public
-- release: rows l0=2 linf=10

-- case: ORDER BY an aggregate that is not selected
SELECT status FROM orders GROUP BY status ORDER BY SUM(amount) DESC, status;
-- accept
-- keys: 3 public, l0 proved
-- release: sum l0=3 linf=5000

-- case: ORDER BY ordinal with nulls
SELECT age, COUNT(*) FROM customers GROUP BY age ORDER BY 1 NULLS FIRST;
-- accept
-- keys: 122 public, l0 proved
-- release: rows l0=1 linf=1

-- case: OFFSET
SELECT status, COUNT(*) AS n FROM orders GROUP BY status ORDER BY status LIMIT 10 OFFSET 1;
-- accept
-- keys: 3 public, l0 proved
-- release: rows l0=3 linf=10

-- case: arithmetic over aggregates
SELECT SUM(amount) / COUNT(*) AS mean, 2 * COUNT(*) - 1 AS odd FROM orders;
-- accept
-- keys: 1 public, l0 proved
-- release: sum l0=1 linf=5000
-- release: rows l0=1 linf=10

-- case: functions over aggregates
SELECT ROUND(AVG(amount), 1) AS mean, ABS(COUNT(*) - 100) AS off FROM orders;
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=10
-- release: sum l0=1 linf=2500

-- case: CASE over aggregates
SELECT CASE WHEN COUNT(*) > 10 THEN 'many' ELSE 'few' END AS size FROM orders;
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=10

-- case: a subquery over the result
SELECT MAX(n) AS most, SUM(n) AS total FROM (SELECT status, COUNT(*) AS n FROM orders GROUP BY status) AS t;
-- accept
-- keys: 3 public, l0 proved
-- release: rows l0=3 linf=10

-- case: a filter over the result
SELECT status, n FROM (SELECT status, COUNT(*) AS n FROM orders GROUP BY status) AS t WHERE n > 1 ORDER BY status;
-- accept
-- keys: 3 public, l0 proved
-- release: rows l0=3 linf=10

-- case: a window over the result
SELECT status, n, SUM(n) OVER () AS total, RANK() OVER (ORDER BY status) AS place FROM (SELECT status, COUNT(*) AS n FROM orders GROUP BY status) AS t;
-- accept
-- keys: 3 public, l0 proved
-- release: rows l0=3 linf=10
-- rewrite:
--   WITH rows AS (SELECT t1."customer_id" AS u, t1."status" AS k0 FROM "orders" AS t1),
--   totals AS (SELECT u, k0, COUNT(*) AS s0 FROM rows GROUP BY u, k0)
--   SELECT k0, COALESCE(SUM(p0)::HUGEINT, 0) AS p0
--   FROM (
--     SELECT k0, (CASE WHEN s0 < 0 THEN 0 WHEN s0 > 10 THEN 10 ELSE s0 END)::BIGINT AS p0 FROM totals
--   )
--   GROUP BY k0
--   SELECT t2.c12 AS c0, t2.c13 AS c1, t2.c14 AS c2, t2.c15 AS c3
--   FROM (
--     SELECT
--       t1.c0 AS c12,
--       t1.c1 AS c13,
--       sum(t1.c1) OVER () AS c14,
--       rank() OVER (ORDER BY t1.c0 NULLS LAST) AS c15
--     FROM release_0 AS t1
--   ) AS t2

-- case: a window beside aggregates
SELECT status, COUNT(*) AS n, ROW_NUMBER() OVER (ORDER BY status) AS r FROM orders GROUP BY status;
-- accept
-- keys: 3 public, l0 proved
-- release: rows l0=3 linf=10

-- case: a share of the total
SELECT status, COUNT(*) * 1.0 / SUM(COUNT(*)) OVER () AS share FROM orders GROUP BY status;
-- accept
-- keys: 3 public, l0 proved
-- release: rows l0=3 linf=10

-- case: QUALIFY
SELECT status, COUNT(*) AS n FROM orders GROUP BY status QUALIFY ROW_NUMBER() OVER (ORDER BY status) <= 2;
-- accept
-- keys: 3 public, l0 proved
-- release: rows l0=3 linf=10

-- case: two releases joined
SELECT a.status, a.n, b.s FROM (SELECT status, COUNT(*) AS n FROM orders GROUP BY status) AS a JOIN (SELECT status, SUM(amount) AS s FROM orders GROUP BY status) AS b ON a.status = b.status;
-- accept
-- keys: 3 public, l0 proved
-- release: rows l0=3 linf=10
-- release: sum l0=3 linf=5000

-- case: a release joined with a public table
SELECT k.region, SUM(t.n) AS n FROM (SELECT country, COUNT(*) AS n FROM customers GROUP BY country) AS t JOIN countries k ON t.country = k.code GROUP BY k.region;
-- accept
-- keys: 3 public, l0 proved
-- release: rows l0=1 linf=1

-- case: a left join of a public table with a release
SELECT k.code, t.n FROM countries k LEFT JOIN (SELECT country, COUNT(*) AS n FROM customers GROUP BY country) AS t ON t.country = k.code;
-- accept
-- keys: 3 public, l0 proved
-- release: rows l0=1 linf=1

-- case: a union of releases
SELECT 'paid' AS what, COUNT(*) AS n FROM orders WHERE status = 'paid' UNION ALL SELECT 'open', COUNT(*) FROM orders WHERE status = 'open';
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=10
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=10

-- case: distinct over a result
SELECT DISTINCT n > 3 AS big FROM (SELECT status, COUNT(*) AS n FROM orders GROUP BY status) AS t;
-- accept
-- keys: 3 public, l0 proved
-- release: rows l0=3 linf=10

-- case: a wrapper that a BI tool writes
SELECT * FROM (SELECT status AS "Status", SUM(amount) AS "SUM(amount)" FROM orders GROUP BY status) AS virtual_table LIMIT 1000;
-- accept
-- keys: 3 public, l0 proved
-- release: sum l0=3 linf=5000

-- case: an ungrouped query has one row
SELECT COUNT(*) AS n FROM orders HAVING COUNT(*) >= 0;
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=10

-- case: HAVING with an unknown column
SELECT status, COUNT(*) FROM orders GROUP BY status HAVING colour > 2;
-- refuse: unknown-column at 1:60

-- case: HAVING over a column that is not grouped
SELECT status, COUNT(*) FROM orders GROUP BY status HAVING amount > 2;
-- refuse: not-grouped at 1:60

-- case: ORDER BY a column that is not grouped
SELECT status, COUNT(*) FROM orders GROUP BY status ORDER BY amount;
-- refuse: not-grouped at 1:62

-- case: ORDER BY an ordinal out of range
SELECT status, COUNT(*) FROM orders GROUP BY status ORDER BY 5;
-- refuse: unknown-column at 1:62

-- case: a window inside an aggregate
SELECT SUM(ROW_NUMBER() OVER ()) FROM orders;
-- refuse: misplaced-aggregate at 1:12

-- case: a union of different widths
SELECT COUNT(*) FROM orders UNION ALL SELECT COUNT(*), SUM(amount) FROM orders;
-- refuse: type-mismatch at 1:8

-- case: a limit that is not a number
SELECT COUNT(*) FROM orders LIMIT 1 * 2;
-- refuse: unsupported-syntax at 1:35

-- case: functions of counts that take whole numbers only
SELECT GREATEST_COMMON_DIVISOR(COUNT(*), 4) AS g, XOR(COUNT(*), 1) AS b, LEFT('abc', COUNT(*)) AS l FROM customers;
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=1

-- case: intervals added to a group
SELECT date_trunc('month', placed_at) + INTERVAL 1 MONTH AS until, COUNT(*) AS n FROM orders GROUP BY 1 ORDER BY 1;
-- accept
-- keys: 24 public, l0 enforced
-- release: rows l0=3 linf=10

-- case: constants as drivers write them
SELECT status, round(AVG(quantity), 1::INTEGER) AS q FROM orders WHERE status = 'paid'::VARCHAR AND placed_at >= '2024-01-01'::timestamp without time zone GROUP BY 1 ORDER BY 1 LIMIT 2::BIGINT OFFSET (1 - 1);
-- dialect: postgres
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=10
-- release: sum l0=1 linf=100

-- case: an average of groups is a total for each of them, however few people have one
SELECT AVG(v) AS mean FROM (SELECT product_id, SUM(price) AS v FROM items GROUP BY product_id) AS t;
-- rows: orders (order_id, customer_id): (1, 1), (2, 2)
-- rows: items (order_id, product_id, price): (1, 7, 2.5), (1, 8, 4), (2, 8, 1), (2, 9, NULL)
-- accept
-- keys: 1 public, l0 proved
-- release: sum l0=1 linf=2000
-- release: distinct l0=1 linf=20
-- integers: () 750 2

-- case: NULL is a group too
SELECT COUNT(*) AS n FROM (SELECT note FROM orders GROUP BY note) AS t;
-- rows: orders (customer_id, note): (1, 'a'), (2, 'a'), (2, NULL), (3, '|'), (3, '')
-- accept
-- keys: 1 public, l0 proved
-- release: distinct l0=1 linf=10
-- integers: () 4

-- case: groups of one value of another key
SELECT status, AVG(n) AS mean, SUM(n) AS n, MAX(m) AS m FROM (SELECT status, note, COUNT(*) AS n, MAX(quantity) AS m FROM orders GROUP BY status, note) AS t GROUP BY status;
-- accept
-- keys: 3 public, l0 proved
-- release: rows l0=3 linf=10
-- release: distinct l0=3 linf=10
-- choice: 2/2 of 21 l0=3 rows=1 greatest

-- case: a condition on groups by their key
SELECT AVG(n) AS mean FROM (SELECT note_length AS k, COUNT(discount) AS n FROM orders GROUP BY 1) AS t WHERE k > 3;
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=10
-- release: distinct l0=1 linf=10

-- case: the middle of groups of which only some would be released
SELECT MEDIAN(v) AS mid FROM (SELECT product_id, SUM(price) AS v FROM items GROUP BY product_id) AS t;
-- refuse: unsupported-private-operator at 1:31

-- case: groups that are chosen by a number of each
SELECT COUNT(*) AS n FROM (SELECT product_id FROM items GROUP BY product_id HAVING SUM(price) > 9) AS t;
-- refuse: unsupported-private-operator at 1:28

-- case: an average of all groups beside those that are released
SELECT note, n, (SELECT AVG(n) FROM (SELECT note, COUNT(*) AS n FROM orders GROUP BY note) AS a) AS mean FROM (SELECT note, COUNT(*) AS n FROM orders GROUP BY note) AS t;
-- accept
-- keys: private, l0 enforced
-- release: units l0=3 linf=1
-- release: rows l0=3 linf=10
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=10
-- release: distinct l0=1 linf=10

-- case: the largest group among those that are released
WITH t AS (SELECT note, COUNT(*) AS n FROM orders GROUP BY note) SELECT note, n FROM t WHERE n = (SELECT MAX(n) FROM t);
-- accept
-- keys: private, l0 enforced
-- release: units l0=3 linf=1
-- release: rows l0=3 linf=10
