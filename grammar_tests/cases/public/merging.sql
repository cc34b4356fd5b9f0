-- USING and NATURAL: the columns two tables share are joined on and shown once.
-- catalog: shop

-- case: a natural join
SELECT * FROM countries NATURAL JOIN (VALUES ('NO', 1), ('SE', 2)) AS v(code, n);
-- accept

-- case: a natural left join
SELECT * FROM countries NATURAL LEFT JOIN (VALUES ('NO', 1)) AS v(code, n);
-- accept

-- case: a natural join on two columns
SELECT COUNT(*) AS n FROM countries AS a NATURAL JOIN countries AS b;
-- accept

-- case: a full join on a column
SELECT * FROM countries FULL JOIN (VALUES ('NO', 1), ('XX', 2)) AS v(code, n) USING (code);
-- accept

-- case: the sides of a full join
SELECT code, a.code AS here, b.code AS there FROM countries AS a FULL JOIN (VALUES ('NO'), ('XX')) AS b(code) USING (code);
-- accept

-- case: two full joins on a column
SELECT k, COUNT(*) AS n FROM (VALUES (1), (2)) AS a(k) FULL JOIN (VALUES (2), (3)) AS b(k) USING (k) FULL JOIN (VALUES (3), (4)) AS c(k) USING (k) GROUP BY k;
-- accept
-- rewrite:
--   SELECT t6.c15 AS c0, t6.c16 AS c1
--   FROM (
--     SELECT t5.c14 AS c15, count(*) AS c16
--     FROM (
--       SELECT t3.c5 AS c10, t3.c6 AS c11, t3.c7 AS c12, t4.c8 AS c13, coalesce(t3.c7, t4.c8) AS c14
--       FROM
--         (
--           SELECT t1.c1 AS c5, t2.c3 AS c6, coalesce(t1.c1, t2.c3) AS c7
--           FROM (VALUES (1), (2)) AS t1(c1) FULL JOIN (VALUES (2), (3)) AS t2(c3) ON t1.c1 = t2.c3
--         ) AS t3
--         FULL JOIN (VALUES (3), (4)) AS t4(c8) ON t3.c7 = t4.c8
--     ) AS t5
--     GROUP BY 1
--   ) AS t6

-- case: a natural full join
SELECT code, n FROM countries NATURAL FULL JOIN (VALUES ('XX', 1)) AS v(code, n);
-- accept

-- case: the side of a right join
SELECT * FROM countries RIGHT JOIN (VALUES (1, 'NO'), (2, 'XX')) AS v(n, code) USING (code);
-- accept

-- case: a join in parentheses
SELECT code, n, m FROM (countries JOIN (VALUES ('NO', 1)) AS v(code, n) USING (code)) JOIN (VALUES ('NO', 2)) AS w(code, m) USING (code);
-- accept

-- case: a merged join on the right
WITH v(code, n) AS (VALUES ('NO', 1)), w(code, m) AS (VALUES ('SE', 2)) SELECT code, n, m FROM countries JOIN (v FULL JOIN w USING (code)) USING (code);
-- accept

-- case: a natural join without a common column
SELECT 1 FROM countries NATURAL JOIN (VALUES (1)) AS v(n);
-- refuse: unsupported-syntax at 1:47

-- case: a natural join with a condition
SELECT 1 FROM countries NATURAL JOIN (VALUES ('NO')) AS v(code) ON TRUE;
-- refuse: unsupported-syntax at 1:47

-- case: a natural join on a column that is there twice
SELECT 1 FROM (countries AS a CROSS JOIN countries AS b) NATURAL JOIN (VALUES ('NO')) AS v(code);
-- refuse: ambiguous-column at 1:80

-- case: a column that only one side has
SELECT 1 FROM countries FULL JOIN (VALUES (1)) AS v(n) USING (code);
-- refuse: unknown-column at 1:44

-- case: a join in parentheses with a name
SELECT x.code FROM (countries JOIN (VALUES ('NO')) AS v(code) USING (code)) AS x;
-- duckdb: 2
-- accept

-- case: its columns have its name alone
SELECT countries.code FROM (countries JOIN (VALUES ('NO')) AS v(code) USING (code)) AS x;
-- refuse: unknown-table at 1:8

-- case: its columns renamed
SELECT x.a, x.b FROM (countries JOIN (VALUES ('NO')) AS v(code) USING (code)) AS x(a, b);
-- duckdb: 2
-- accept

-- case: joins in parentheses in parentheses
SELECT a.code, b.region, c.n FROM ((countries a JOIN countries b ON a.region = b.region) JOIN (VALUES ('NO', 1)) AS c(code, n) ON c.code = b.code);
-- accept

-- case: a query in parentheses beside a join in parentheses
SELECT q.code, q.n FROM ((SELECT 'NO' AS code, 3 AS n) AS a JOIN countries USING (code)) AS q;
-- duckdb: 2
-- accept

-- case: a natural join along a link
SELECT COUNT(*) AS n FROM customers NATURAL JOIN orders;
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=10

-- case: a natural join to a public table
SELECT label, COUNT(*) AS n FROM orders NATURAL JOIN (VALUES ('paid', 'good'), ('open', 'new')) AS v(status, label) GROUP BY label;
-- accept
-- keys: 2 public, l0 proved
-- release: rows l0=2 linf=10

-- case: a natural join on a hidden column
SELECT COUNT(*) FROM customers NATURAL JOIN (VALUES ('Zoe')) AS v(name);
-- refuse: hidden-column at 1:54

-- case: a full join of private rows has the key that is there
SELECT COUNT(*) AS n, COUNT(DISTINCT customer_id) AS people FROM customers FULL JOIN orders USING (customer_id);
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=20
-- release: units l0=1 linf=1

-- case: conditions of which no value is left
SELECT COUNT(t.category) AS n FROM items i JOIN (SELECT product_id, category FROM products WHERE category IS NULL) AS t ON i.product_id = t.product_id JOIN (SELECT product_id FROM products WHERE category = 'book' AND category = 'toy') AS u ON i.product_id = u.product_id;
-- accept
