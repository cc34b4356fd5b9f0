-- GROUPING SETS, ROLLUP, CUBE: sums over the finest release where its keys are public, else a release each.
-- catalog: shop

-- case: totals from the cells
SELECT country, segment, COUNT(*) FROM customers GROUP BY ROLLUP (country, segment);
-- accept
-- keys: 6 public, l0 proved
-- release: rows l0=1 linf=1

-- case: all combinations from the cells
SELECT country, segment, COUNT(*), SUM(age) FROM customers GROUP BY CUBE (country, segment);
-- accept
-- keys: 6 public, l0 proved
-- release: rows l0=1 linf=1
-- release: sum l0=1 linf=120
-- rewrite:
--   WITH rows AS (SELECT t1."country" AS k0, t1."segment" AS k1, t1."age" AS x0 FROM "customers" AS t1)
--   SELECT
--     k0,
--     k1,
--     COALESCE(COUNT(*)::HUGEINT, 0) AS p0,
--     COALESCE(SUM((CASE WHEN x0 < 0 THEN 0 WHEN x0 > 120 THEN 120 ELSE x0 END)::BIGINT)::HUGEINT, 0) AS p1
--   FROM rows
--   GROUP BY k0, k1
--   SELECT t3.c9 AS c0, t3.c10 AS c1, t3.c11 AS c2, t3.c12 AS c3
--   FROM (
--     SELECT t2.c9 AS c9, t2.c10 AS c10, coalesce(t2.c20, 0) AS c11, t2.c22 AS c12
--     FROM (
--       SELECT t1.c0 AS c9, t1.c1 AS c10, sum(t1.c2) AS c20, sum(t1.c3) AS c22
--       FROM release_0 AS t1
--       GROUP BY GROUPING SETS ((t1.c0, t1.c1), (t1.c0), (t1.c1), ())
--     ) AS t2
--   ) AS t3

-- case: averages are released at each level
SELECT country, segment, AVG(age) FROM customers GROUP BY GROUPING SETS ((country, segment), (country), ());
-- accept
-- keys: 6 public, l0 proved
-- release: rows l0=1 linf=1
-- release: sum l0=1 linf=60
-- keys: 3 public, l0 proved
-- release: rows l0=1 linf=1
-- release: sum l0=1 linf=60
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=1
-- release: sum l0=1 linf=60

-- case: GROUPING says which keys are summed over
SELECT status, GROUPING(status) AS g, COUNT(*) AS n FROM orders GROUP BY ROLLUP (status) ORDER BY g, n;
-- accept
-- keys: 3 public, l0 proved
-- release: rows l0=3 linf=10

-- case: private keys are released at each level
SELECT city, COUNT(*) FROM customers GROUP BY ROLLUP (city);
-- accept
-- keys: private, l0 proved
-- release: rows l0=1 linf=1
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=1

-- case: a key beside a rollup
SELECT country, city, COUNT(*) FROM customers GROUP BY country, ROLLUP (city);
-- accept
-- keys: private, l0 proved
-- release: rows l0=1 linf=1
-- keys: 3 public, l0 proved
-- release: rows l0=1 linf=1

-- case: several bits of GROUPING
SELECT segment, city, GROUPING(segment, city) AS g, SUM(age), AVG(age) FROM customers GROUP BY CUBE (segment, city);
-- accept
-- keys: private, l0 proved
-- release: rows l0=1 linf=1
-- release: rows l0=1 linf=1
-- release: sum l0=1 linf=60
-- keys: 2 public, l0 proved
-- release: rows l0=1 linf=1
-- release: sum l0=1 linf=60
-- keys: private, l0 proved
-- release: rows l0=1 linf=1
-- release: rows l0=1 linf=1
-- release: sum l0=1 linf=60
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=1
-- release: sum l0=1 linf=60

-- case: a composite element
SELECT country, segment, vip, COUNT(*) FROM customers GROUP BY ROLLUP ((country, segment), vip);
-- accept
-- keys: 12 public, l0 proved
-- release: rows l0=1 linf=1

-- case: nested sets
SELECT country, segment, COUNT(*) FROM customers GROUP BY GROUPING SETS (country, ROLLUP (segment));
-- accept
-- keys: 3 public, l0 proved
-- release: rows l0=1 linf=1
-- keys: 2 public, l0 proved
-- release: rows l0=1 linf=1
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=1
-- rewrite:
--   WITH rows AS (SELECT t1."country" AS k0 FROM "customers" AS t1)
--   SELECT k0, COALESCE(COUNT(*)::HUGEINT, 0) AS p0
--   FROM rows
--   GROUP BY k0
--   WITH rows AS (SELECT t1."segment" AS k0 FROM "customers" AS t1)
--   SELECT k0, COALESCE(COUNT(*)::HUGEINT, 0) AS p0
--   FROM rows
--   GROUP BY k0
--   WITH rows AS (SELECT 1 AS one FROM "customers" AS t1)
--   SELECT COALESCE(COUNT(*)::HUGEINT, 0) AS p0
--   FROM rows
--   SELECT t9.c9 AS c0, t9.c10 AS c1, t9.c11 AS c2
--   FROM (
--     SELECT t6.c33 AS c9, t6.c34 AS c10, t6.c35 AS c11
--     FROM (
--       SELECT t5.c33 AS c33, t5.c34 AS c34, t5.c35 AS c35
--       FROM (
--         SELECT t2.c18 AS c33, t2.c19 AS c34, t2.c20 AS c35
--         FROM (SELECT t1.c0 AS c18, CAST(NULL AS VARCHAR) AS c19, t1.c1 AS c20 FROM release_0 AS t1) AS t2
--         UNION ALL
--         SELECT t4.c24 AS c33, t4.c25 AS c34, t4.c26 AS c35
--         FROM (SELECT CAST(NULL AS VARCHAR) AS c24, t3.c0 AS c25, t3.c1 AS c26 FROM release_1 AS t3) AS t4
--       ) AS t5
--     ) AS t6
--     UNION ALL
--     SELECT t8.c30 AS c9, t8.c31 AS c10, t8.c32 AS c11
--     FROM (
--       SELECT CAST(NULL AS VARCHAR) AS c30, CAST(NULL AS VARCHAR) AS c31, t7.c0 AS c32
--       FROM release_2 AS t7
--     ) AS t8
--   ) AS t9

-- case: public rows
SELECT category, COUNT(*) FROM products GROUP BY ROLLUP (category);
-- accept

-- case: levels without the finest
SELECT country, COUNT(*) FROM customers GROUP BY GROUPING SETS (country, segment);
-- accept
-- keys: 3 public, l0 proved
-- release: rows l0=1 linf=1
-- keys: 2 public, l0 proved
-- release: rows l0=1 linf=1

-- case: only the total
SELECT COUNT(*) FROM customers GROUP BY GROUPING SETS (());
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=1

-- case: a share of a rolled-up total
SELECT country AS c, COUNT(*) * 100.0 / SUM(COUNT(*)) OVER () AS share FROM customers GROUP BY ROLLUP (country) HAVING COUNT(*) > 1;
-- accept
-- keys: 3 public, l0 proved
-- release: rows l0=1 linf=1

-- case: months and a grand total
SELECT date_trunc('month', placed_at) AS m, status, COUNT(*) FROM orders WHERE placed_at < '2024-07-01' GROUP BY ROLLUP (m, status);
-- accept
-- keys: 18 public, l0 enforced
-- release: rows l0=3 linf=10

-- case: GROUPING without sets
SELECT GROUPING(country), country, COUNT(*) FROM customers GROUP BY country;
-- accept
-- keys: 3 public, l0 proved
-- release: rows l0=1 linf=1

-- case: filtered sums add up
SELECT status, SUM(amount) FILTER (WHERE quantity > 1) AS s FROM orders GROUP BY ROLLUP (status);
-- accept
-- keys: 3 public, l0 proved
-- release: sum l0=3 linf=5000

-- case: in Postgres spelling
SELECT country, COUNT(*) FROM customers GROUP BY CUBE (country);
-- dialect: postgres
-- accept
-- keys: 3 public, l0 proved
-- release: rows l0=1 linf=1

-- case: an aggregate over the sets
SELECT MAX(n) FROM (SELECT country, segment, COUNT(*) AS n FROM customers GROUP BY CUBE (country, segment)) t WHERE country IS NULL;
-- accept
-- keys: 6 public, l0 proved
-- release: rows l0=1 linf=1

-- case: groups of one unit
SELECT customer_id, COUNT(*) FROM orders GROUP BY ROLLUP (customer_id);
-- refuse: unsupported-private-operator at 1:1

-- case: MySQL's spelling
SELECT country, segment, COUNT(*) AS n FROM customers GROUP BY 1, 2 WITH ROLLUP;
-- refuse: unsupported-syntax at 1:64

-- case: GROUPING of no key
SELECT country, GROUPING(segment) FROM customers GROUP BY ROLLUP (country);
-- refuse: not-grouped at 1:17

-- case: a column that no level groups by
SELECT country, age, COUNT(*) FROM customers GROUP BY ROLLUP (country);
-- refuse: not-grouped at 1:17

-- case: too many levels
SELECT COUNT(*) FROM orders GROUP BY CUBE (status, quantity, amount, discount, note, note_length, placed_at);
-- refuse: query-too-large at 1:44

-- case: a total of NULL beside a count of values
SELECT COUNT(DISTINCT customer_id) AS n FROM orders GROUP BY ROLLUP (NULL);
-- accept
-- keys: 1 public, l0 proved
-- release: units l0=1 linf=1
-- keys: 1 public, l0 proved
-- release: units l0=1 linf=1

-- case: two empty sets are two rows
SELECT COUNT(DISTINCT customer_id) AS n FROM orders GROUP BY GROUPING SETS ((), ());
-- accept
-- keys: 1 public, l0 proved
-- release: units l0=1 linf=1

-- case: empty sets around a set of a key
SELECT status, COUNT(*) AS n FROM orders GROUP BY GROUPING SETS ((), (status), (), ());
-- accept
-- keys: 3 public, l0 proved
-- release: rows l0=3 linf=10

-- case: three empty sets of a public table
SELECT COUNT(*) AS n FROM countries GROUP BY GROUPING SETS ((), (), ());
-- accept

-- case: empty sets that HAVING leaves out
SELECT AVG(amount) AS a FROM orders GROUP BY GROUPING SETS ((), ()) HAVING COUNT(*) > 100000;
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=10
-- release: sum l0=1 linf=2500

-- case: empty sets beside a column of rows
SELECT status, COUNT(*) AS n FROM orders GROUP BY GROUPING SETS ((), ());
-- refuse: not-grouped at 1:8
