-- Spellings of whole clauses: what stands for another is that.
-- catalog: shop

-- case: from first
FROM orders SELECT status, COUNT(*) AS n WHERE amount > 10 GROUP BY status;
-- accept
-- keys: 3 public, l0 proved
-- release: rows l0=3 linf=10

-- case: from first without a list
SELECT COUNT(*) AS n FROM (FROM orders WHERE amount > 10) AS t;
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=10

-- case: from first of private rows
FROM orders;
-- refuse: raw-rows at 1:6

-- case: from first in a list of queries
WITH paid AS (FROM orders SELECT customer_id, amount WHERE status = 'paid') FROM paid SELECT SUM(amount) AS s;
-- accept
-- keys: 1 public, l0 proved
-- release: sum l0=1 linf=5000

-- case: from first behind a union
SELECT 1 AS n UNION ALL FROM countries SELECT COUNT(*);
-- accept

-- case: a semi join
SELECT COUNT(*) AS n FROM customers SEMI JOIN orders USING (customer_id);
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=1
-- rewrite:
--   WITH rows AS (
--     SELECT 1 AS one
--     FROM "customers" AS t1
--     WHERE (EXISTS (SELECT 1 FROM "orders" AS t2 WHERE (t1."customer_id" = t2."customer_id")))
--   )
--   SELECT COALESCE(COUNT(*)::HUGEINT, 0) AS p0
--   FROM rows
--   SELECT t1.c0 AS c0 FROM release_0 AS t1

-- case: an anti join with more to its condition
SELECT COUNT(*) AS n FROM customers c ANTI JOIN orders o ON c.customer_id = o.customer_id AND o.amount > 100;
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=1

-- case: an anti join of other people's rows
SELECT COUNT(*) AS n FROM customers c ANTI JOIN orders o ON c.age = o.quantity;
-- refuse: unequal-units at 1:49

-- case: a semi join with a public table
SELECT COUNT(*) AS n FROM customers SEMI JOIN countries ON country = code AND region = 'north';
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=1

-- case: a semi join shows the left alone
SELECT region, COUNT(*) AS n FROM customers SEMI JOIN countries ON country = code GROUP BY region;
-- refuse: unknown-column at 1:8

-- case: a semi join of public tables
SELECT a.code FROM countries a SEMI JOIN products p ON p.product_id > length(a.code);
-- accept

-- case: a natural anti join
SELECT COUNT(*) AS n FROM customers NATURAL ANTI JOIN orders;
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=1

-- case: one group
SELECT COUNT(*) AS n FROM customers GROUP BY ();
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=1

-- case: one group without an aggregate
SELECT 5 AS five FROM countries GROUP BY ();
-- accept

-- case: keys in parentheses
SELECT segment, vip, COUNT(*) AS n FROM customers GROUP BY (segment, vip);
-- accept
-- keys: 4 public, l0 proved
-- release: rows l0=1 linf=1

-- case: a condition in a rollup
SELECT age > 50 AS old, segment, COUNT(*) AS n FROM customers GROUP BY ROLLUP (age > 50, segment);
-- accept
-- keys: 6 public, l0 proved
-- release: rows l0=1 linf=1

-- case: conditions in a cube
SELECT age > 50 AND vip AS a, segment, COUNT(*) AS n FROM customers GROUP BY CUBE ((age > 50 AND vip), segment);
-- accept
-- keys: 6 public, l0 proved
-- release: rows l0=1 linf=1

-- case: a condition in grouping sets
SELECT age > 50 AS old, segment, COUNT(*) AS n FROM customers GROUP BY GROUPING SETS ((segment), (age > 50), ());
-- accept
-- keys: 2 public, l0 proved
-- release: rows l0=1 linf=1
-- keys: 3 public, l0 proved
-- release: rows l0=1 linf=1
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=1

-- case: an unfinished condition in a rollup
SELECT COUNT(*) AS n FROM customers GROUP BY ROLLUP (age >);
-- refuse: syntax-error at 1:58

-- case: joins in parentheses in parentheses
SELECT COUNT(*) AS n FROM ((customers c JOIN orders o ON c.customer_id = o.customer_id) JOIN items i ON i.order_id = o.order_id);
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=20

-- case: a join with a name
SELECT q.segment, COUNT(*) AS n FROM (customers JOIN orders USING (customer_id)) AS q WHERE q.amount > 5 GROUP BY q.segment;
-- duckdb: 2
-- accept
-- keys: 2 public, l0 proved
-- release: rows l0=1 linf=10

-- case: a number beside a text
SELECT segment || ' ' || vip AS k, COUNT(*) AS n FROM customers GROUP BY 1;
-- accept
-- keys: 4 public, l0 proved
-- release: rows l0=1 linf=1

-- case: two numbers joined as texts
SELECT age || vip AS k, COUNT(*) AS n FROM customers GROUP BY 1;
-- refuse: type-mismatch at 1:8

-- case: bits
SELECT age & 3 AS k, COUNT(*) AS n, SUM(age | 1) AS a, SUM(~age) AS b FROM customers GROUP BY 1;
-- accept
-- keys: 5 public, l0 proved
-- release: rows l0=1 linf=1
-- release: sum l0=1 linf=127
-- release: sum l0=1 linf=121

-- case: bits of no integer
SELECT COUNT(*) AS n FROM customers WHERE income & 1 = 1;
-- refuse: type-mismatch at 1:43

-- case: similar to
SELECT COUNT(*) AS n FROM customers WHERE segment SIMILAR TO '(con|bus).*' AND city NOT SIMILAR TO 'O.*';
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=1

-- case: similar to a column
SELECT COUNT(*) AS n FROM customers WHERE segment SIMILAR TO city;
-- refuse: unsupported-function at 1:43

-- case: similar to in postgres
SELECT COUNT(*) AS n FROM customers WHERE segment SIMILAR TO '(con|bus)%s_mer' AND city NOT SIMILAR TO 'O.+';
-- dialect: postgres
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=1
-- rewrite:
--   WITH rows AS (
--     SELECT 1 AS one
--     FROM "customers" AS t1
--     WHERE (
--       regexp_full_match(t1."segment", '(con|bus).*s.mer', 's')
--       AND NOT regexp_full_match(t1."city", 'O\.+', 's')
--     )
--   )
--   SELECT COALESCE(COUNT(*)::HUGEINT, 0) AS p0
--   FROM rows
--   SELECT t1.c0 AS c0 FROM release_0 AS t1

-- case: patterns of postgres
SELECT COUNT(*) AS n FROM customers WHERE segment ~ '^c' AND city !~ 'b' AND city ~* '^o' AND city !~* 'X';
-- dialect: postgres
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=1
-- rewrite:
--   WITH rows AS (
--     SELECT 1 AS one
--     FROM "customers" AS t1
--     WHERE (
--       regexp_matches(t1."segment", '^c', 's')
--       AND NOT regexp_matches(t1."city", 'b', 's')
--       AND regexp_matches(t1."city", '^o', 'is')
--       AND NOT regexp_matches(t1."city", 'X', 'is')
--     )
--   )
--   SELECT COALESCE(COUNT(*)::HUGEINT, 0) AS p0
--   FROM rows
--   SELECT t1.c0 AS c0 FROM release_0 AS t1

-- case: a pattern of the whole text
SELECT COUNT(*) AS n FROM customers WHERE segment ~ '^c.*$';
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=1

-- case: the operators of LIKE
SELECT COUNT(*) AS n FROM customers WHERE segment ~~ 'c%' AND segment !~~ '%x' AND city ~~* 'N%' AND NOT city !~~* 'n%' AND segment ^@ 'c';
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=1

-- case: the operators of LIKE in PostgreSQL's spelling
SELECT COUNT(*) AS n FROM customers WHERE segment ~~ 'c%' AND city !~~* 'n%';
-- dialect: postgres
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=1

-- case: an operator of LIKE binds closer than LIKE
SELECT COUNT(*) AS n FROM customers WHERE segment ~~ 'c' || '%';
-- refuse: unsupported-syntax at 1:51

-- case: an operator of LIKE without a constant
SELECT COUNT(*) AS n FROM customers WHERE segment ^@ city;
-- refuse: unsupported-syntax at 1:51

-- case: GLOB of stars
SELECT COUNT(*) AS n FROM customers WHERE segment GLOB 'c?n*';
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=1

-- case: GLOB of classes
SELECT COUNT(*) AS n FROM customers WHERE segment GLOB '[a-c]*';
-- refuse: unsupported-syntax at 1:43

-- case: a pattern whose operator has no opposite
SELECT COUNT(*) AS n FROM customers WHERE segment !~~~ '^c';
-- refuse: unsupported-syntax at 1:52

-- case: a column that the key settles
SELECT p.product_id, p.category, COUNT(*) AS n FROM items i JOIN products p USING (product_id) GROUP BY p.product_id;
-- dialect: postgres
-- accept
-- keys: 3 public, l0 proved
-- release: rows l0=3 linf=20

-- case: a column that another column does not settle
SELECT p.product_id, p.category, COUNT(*) AS n FROM items i JOIN products p USING (product_id) GROUP BY p.category;
-- dialect: postgres
-- refuse: not-grouped at 1:8

-- case: a column that a part of the keys of a rollup settles
SELECT p.product_id, p.category, COUNT(*) AS n FROM items i JOIN products p USING (product_id) GROUP BY ROLLUP (p.product_id);
-- dialect: postgres
-- refuse: not-grouped at 1:22

-- case: a column that a renamed key settles
SELECT p.a, p.b, COUNT(*) AS n FROM items i JOIN products AS p(a, b, c) ON i.product_id = p.a GROUP BY p.a;
-- dialect: postgres
-- accept
-- keys: 3 public, l0 proved
-- release: rows l0=3 linf=20

-- case: a column renamed to that of the key settles nothing
SELECT p.product_id, p.a, COUNT(*) AS n FROM items i JOIN products AS p(a, product_id, c) ON i.product_id = p.a GROUP BY p.product_id;
-- dialect: postgres
-- refuse: not-grouped at 1:22

-- case: columns that the person settles
SELECT segment, AVG(n) AS mean FROM (SELECT c.customer_id, c.segment, COUNT(*) AS n FROM customers c JOIN orders o USING (customer_id) GROUP BY c.customer_id) t GROUP BY segment;
-- dialect: postgres
-- accept
-- keys: 2 public, l0 proved
-- release: rows l0=1 linf=1
-- release: sum l0=1 linf=25

-- case: pivot
PIVOT (SELECT country, segment FROM customers) ON segment IN ('consumer', 'business') USING COUNT(*);
-- accept
-- keys: 3 public, l0 proved
-- release: rows l0=1 linf=1
-- release: rows l0=1 linf=1
-- rewrite:
--   WITH rows AS (
--     SELECT t1."country" AS k0, t1."segment" = 'consumer' AS x0, t1."segment" = 'business' AS x1
--     FROM "customers" AS t1
--   )
--   SELECT
--     k0,
--     COALESCE(COUNT(*) FILTER (WHERE x0)::HUGEINT, 0) AS p0,
--     COALESCE(COUNT(*) FILTER (WHERE x1)::HUGEINT, 0) AS p1
--   FROM rows
--   GROUP BY k0
--   SELECT t1.c0 AS c0, t1.c1 AS c1, t1.c2 AS c2 FROM release_0 AS t1

-- case: pivot by a column, with names
PIVOT customers ON segment IN ('consumer', 'business') USING AVG(age) AS a, COUNT(*) AS n GROUP BY vip;
-- accept
-- keys: 2 public, l0 proved
-- release: rows l0=1 linf=1
-- release: rows l0=1 linf=1
-- release: sum l0=1 linf=60
-- release: sum l0=1 linf=60
-- release: rows l0=1 linf=1
-- release: rows l0=1 linf=1

-- case: pivot by all other columns is one by people
PIVOT orders ON status IN ('paid', 'open') USING SUM(amount);
-- refuse: unit-key-exposed at 1:7

-- case: pivot behind a table
SELECT * FROM (SELECT country, segment, age FROM customers) AS c PIVOT (AVG(age) FOR segment IN ('consumer' AS c, 'business')) AS p ORDER BY country;
-- accept
-- keys: 3 public, l0 proved
-- release: rows l0=1 linf=1
-- release: rows l0=1 linf=1
-- release: sum l0=1 linf=60
-- release: sum l0=1 linf=60

-- case: pivot of two columns
SELECT * FROM (SELECT segment, vip, age FROM customers) PIVOT (COUNT(*) FOR segment IN ('consumer', 'business') vip IN (TRUE, FALSE));
-- accept
-- keys: 122 public, l0 proved
-- release: rows l0=1 linf=1
-- release: rows l0=1 linf=1
-- release: rows l0=1 linf=1
-- release: rows l0=1 linf=1

-- case: pivot without an aggregate
PIVOT orders ON status IN ('paid', 'open');
-- refuse: unsupported-syntax at 1:7

-- case: pivot of other columns
PIVOT customers ON segment IN (city) USING COUNT(*);
-- refuse: unsupported-syntax at 1:32

-- case: unpivot
SELECT n, SUM(v) AS s FROM (SELECT quantity, note_length FROM orders) UNPIVOT (v FOR n IN (quantity)) GROUP BY n;
-- accept
-- keys: 1 public, l0 proved
-- release: sum l0=1 linf=200

-- case: unpivot of several columns
SELECT n, SUM(v) AS s, COUNT(*) AS c FROM orders UNPIVOT (v FOR n IN (amount, quantity)) GROUP BY n ORDER BY n;
-- accept
-- keys: 2 public, l0 proved
-- release: sum l0=2 linf=10000
-- release: rows l0=2 linf=20
-- rewrite:
--   WITH rows AS (
--     SELECT t3.c2 AS u, t3.c19 AS k0, t3.c20 AS x0
--     FROM (
--       SELECT
--         t1."order_id" AS c12,
--         t1."customer_id" AS c13,
--         CASE WHEN isnan(t1."discount") THEN NULL ELSE t1."discount"::DOUBLE + 0.0 END AS c14,
--         t1."placed_at" AS c15,
--         t1."status" AS c16,
--         t1."note" AS c17,
--         t1."note_length" AS c18,
--         t2.c10 AS c19,
--         CASE
--           WHEN t2.c10 = 'amount' THEN t1."amount"
--           WHEN t2.c10 = 'quantity' THEN TRY_CAST(t1."quantity" AS DECIMAL(38, 2))
--           ELSE NULL
--         END AS c20,
--         t1."order_id" AS c1,
--         t1."customer_id" AS c2
--       FROM "orders" AS t1 CROSS JOIN (VALUES ('amount'), ('quantity')) AS t2(c10)
--       WHERE (
--         NOT CASE
--           WHEN t2.c10 = 'amount' THEN t1."amount"
--           WHEN t2.c10 = 'quantity' THEN TRY_CAST(t1."quantity" AS DECIMAL(38, 2))
--           ELSE NULL
--         END IS NULL
--       )
--     ) AS t3
--   ),
--   totals AS (
--     SELECT
--       u,
--       k0,
--       SUM(
--         CASE
--           WHEN x0 < '0.00'::DECIMAL(3, 2) THEN '0.00'::DECIMAL(3, 2)
--           WHEN x0 > '500.00'::DECIMAL(5, 2) THEN '500.00'::DECIMAL(5, 2)
--           ELSE x0
--         END
--       ) AS s0,
--       COUNT(*) AS s1
--     FROM rows
--     GROUP BY u, k0
--   )
--   SELECT k0, COALESCE(SUM(p0)::HUGEINT, 0) AS p0, COALESCE(SUM(p1)::HUGEINT, 0) AS p1
--   FROM (
--     SELECT
--       k0,
--       (
--         (
--           CASE
--             WHEN s0 < '0.00'::DECIMAL(3, 2) THEN '0.00'::DECIMAL(3, 2)
--             WHEN s0 > '10000.00'::DECIMAL(7, 2) THEN '10000.00'::DECIMAL(7, 2)
--             ELSE s0
--           END
--         )::DECIMAL(7, 2)
--         * '100'::DECIMAL(3, 0)
--       )::BIGINT AS p0,
--       (CASE WHEN s1 < 0 THEN 0 WHEN s1 > 20 THEN 20 ELSE s1 END)::BIGINT AS p1
--     FROM totals
--   )
--   GROUP BY k0
--   SELECT t1.c0 AS c0, t1.c1 AS c1, t1.c2 AS c2 FROM release_0 AS t1 ORDER BY t1.c0 NULLS LAST

-- case: unpivot of columns of different types
SELECT n, COUNT(*) AS c FROM orders UNPIVOT (v FOR n IN (amount, status)) GROUP BY n;
-- refuse: type-mismatch at 1:46

-- case: unpivot by its own statement
UNPIVOT (SELECT 1 AS id, 10 AS a, NULL AS b) ON a, b INTO NAME n VALUE v;
-- accept

-- case: unpivot with nulls
SELECT * FROM (SELECT 1 AS id, 10 AS a, NULL AS b) UNPIVOT INCLUDE NULLS (v FOR n IN (a, b)) AS u;
-- accept

-- case: named windows
SELECT AVG(x) AS m FROM (SELECT customer_id, SUM(quantity) OVER (w ROWS 1 PRECEDING) AS x, ROW_NUMBER() OVER v AS r FROM orders WINDOW w AS (PARTITION BY customer_id ORDER BY order_id), v AS (w)) t WHERE r <= 3 AND x <= 40;
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=3
-- release: sum l0=1 linf=60

-- case: a named window over released numbers
SELECT status, COUNT(*) AS n, SUM(COUNT(*)) OVER w AS total FROM orders GROUP BY status WINDOW w AS (ORDER BY status);
-- accept
-- keys: 3 public, l0 proved
-- release: rows l0=3 linf=10

-- case: ordered by the names that Postgres gives
SELECT segment, COUNT(*), RANK() OVER (ORDER BY COUNT(*) DESC) FROM customers GROUP BY segment ORDER BY rank, count DESC;
-- dialect: postgres
-- accept
-- keys: 2 public, l0 proved
-- release: rows l0=1 linf=1

-- case: grouped by one
SELECT DATE_TRUNC('year', joined), COUNT(*) FROM customers GROUP BY date_trunc ORDER BY date_trunc;
-- dialect: postgres
-- accept
-- keys: 6 public, l0 proved
-- release: rows l0=1 linf=1

-- case: ordered by a name that nothing has
SELECT segment, COUNT(*) AS n FROM customers GROUP BY segment ORDER BY count;
-- dialect: postgres
-- refuse: unknown-column at 1:72

-- case: a column called name behind a UNION
SELECT region AS place FROM countries UNION SELECT name FROM (SELECT code AS name FROM countries) t;
-- accept

-- case: a UNION behind which FROM comes first
SELECT COUNT(*) AS n FROM customers UNION ALL BY NAME FROM orders SELECT COUNT(*) AS n;
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=1
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=10

-- case: a UNION of nothing
SELECT COUNT(*) AS n FROM customers UNION ALL BY FROM orders SELECT COUNT(*) AS n;
-- refuse: unsupported-syntax at 1:50
