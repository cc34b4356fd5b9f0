-- Counts and sums of the same rows by conditions add up to their whole, also the rows of no condition.
-- catalog: shop

-- case: a whole and a part
SELECT COUNT(*) AS n, COUNT(*) FILTER (WHERE vip) AS v, 100.0 * COUNT(*) FILTER (WHERE vip) / COUNT(*) AS share FROM customers;
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=1
-- release: rows l0=1 linf=1
-- release: rows l0=1 linf=1

-- case: a whole and all its parts by group
SELECT country, SUM(income) AS s, SUM(income) FILTER (WHERE segment = 'consumer') AS c, SUM(income) FILTER (WHERE segment = 'business') AS b FROM customers GROUP BY country;
-- accept
-- keys: 3 public, l0 proved
-- release: sum l0=1 linf=200000
-- release: sum l0=1 linf=200000
-- release: sum l0=1 linf=200000

-- case: thresholds are disjoint rows
SELECT COUNT(*) FILTER (WHERE age <= 20) AS a, COUNT(*) FILTER (WHERE age < 40) AS b, COUNT(*) FILTER (WHERE 40 >= age) AS c, COUNT(*) FILTER (WHERE age > 60) AS d, COUNT(*) FILTER (WHERE age >= 80) AS e FROM customers;
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=1
-- release: rows l0=1 linf=1
-- release: rows l0=1 linf=1
-- release: rows l0=1 linf=1
-- release: rows l0=1 linf=1
-- release: rows l0=1 linf=1
-- release: rows l0=1 linf=1
-- rewrite:
--   WITH rows AS (
--     SELECT
--       t1."age" <= 20 AS x0,
--       t1."age" < 40 AND NOT t1."age" <= 20 AS x1,
--       40 >= t1."age" AND NOT t1."age" <= 20 AND NOT t1."age" < 40 AS x2,
--       NOT coalesce(t1."age" <= 20, FALSE)
--       AND NOT coalesce(t1."age" < 40, FALSE)
--       AND NOT coalesce(40 >= t1."age", FALSE) AS x3,
--       t1."age" >= 80 AS x4,
--       t1."age" > 60 AND NOT t1."age" >= 80 AS x5,
--       NOT coalesce(t1."age" >= 80, FALSE) AND NOT coalesce(t1."age" > 60, FALSE) AS x6
--     FROM "customers" AS t1
--   )
--   SELECT
--     COALESCE(COUNT(*) FILTER (WHERE x0)::HUGEINT, 0) AS p0,
--     COALESCE(COUNT(*) FILTER (WHERE x1)::HUGEINT, 0) AS p1,
--     COALESCE(COUNT(*) FILTER (WHERE x2)::HUGEINT, 0) AS p2,
--     COALESCE(COUNT(*) FILTER (WHERE x3)::HUGEINT, 0) AS p3,
--     COALESCE(COUNT(*) FILTER (WHERE x4)::HUGEINT, 0) AS p4,
--     COALESCE(COUNT(*) FILTER (WHERE x5)::HUGEINT, 0) AS p5,
--     COALESCE(COUNT(*) FILTER (WHERE x6)::HUGEINT, 0) AS p6
--   FROM rows
--   SELECT t3.c9 AS c0, t3.c10 AS c1, t3.c11 AS c2, t3.c12 AS c3, t3.c13 AS c4
--   FROM (
--     SELECT
--       t2.c41 AS c9,
--       t2.c50 AS c10,
--       TRY(t2.c50::HUGEINT + t2.c43) AS c11,
--       TRY(t2.c45::HUGEINT + t2.c46) AS c12,
--       t2.c45 AS c13
--     FROM (
--       SELECT
--         t1.c0 AS c41, t1.c2 AS c43, t1.c4 AS c45, t1.c5 AS c46, TRY(t1.c0::HUGEINT + t1.c1) AS c50
--       FROM release_0 AS t1
--     ) AS t2
--   ) AS t3

-- case: thresholds of dates are divisions each
SELECT COUNT(*) FILTER (WHERE joined < DATE '2022-01-01') AS a, COUNT(*) FILTER (WHERE joined < DATE '2023-01-01') AS b FROM customers;
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=1
-- release: rows l0=1 linf=1
-- release: rows l0=1 linf=1
-- release: rows l0=1 linf=1

-- case: a part that is divided again
SELECT COUNT(*) AS n, COUNT(*) FILTER (WHERE vip) AS v, COUNT(*) FILTER (WHERE vip AND age < 30) AS young, COUNT(*) FILTER (WHERE age < 50 AND vip) AS old FROM customers;
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=1
-- release: rows l0=1 linf=1
-- release: rows l0=1 linf=1
-- release: rows l0=1 linf=1
-- release: rows l0=1 linf=1
-- release: rows l0=1 linf=1

-- case: where noise is Laplace's a whole may be the sum of its parts
SELECT COUNT(*) AS n, COUNT(*) FILTER (WHERE vip) AS v FROM customers;
-- accountant: pure
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=1
-- release: rows l0=1 linf=1

-- case: counts of private keys
SELECT city, COUNT(*) AS n, COUNT(*) FILTER (WHERE vip) AS v, COUNT(*) FILTER (WHERE NOT vip) AS w, COUNT(*) FILTER (WHERE age < 50) AS young FROM customers GROUP BY city;
-- accept
-- keys: private, l0 proved
-- release: rows l0=1 linf=1
-- release: rows l0=1 linf=1
-- release: rows l0=1 linf=1
-- release: rows l0=1 linf=1
-- release: rows l0=1 linf=1
-- rewrite:
--   WITH rows AS (
--     SELECT
--       t1."city" AS k0,
--       t1."vip" AS x0,
--       NOT t1."vip" AS x1,
--       t1."age" < 50 AS x2,
--       NOT coalesce(t1."age" < 50, FALSE) AS x3
--     FROM "customers" AS t1
--   )
--   SELECT
--     k0,
--     COALESCE(COUNT(*)::HUGEINT, 0) AS p0,
--     COALESCE(COUNT(*) FILTER (WHERE x0)::HUGEINT, 0) AS p1,
--     COALESCE(COUNT(*) FILTER (WHERE x1)::HUGEINT, 0) AS p2,
--     COALESCE(COUNT(*) FILTER (WHERE x2)::HUGEINT, 0) AS p3,
--     COALESCE(COUNT(*) FILTER (WHERE x3)::HUGEINT, 0) AS p4
--   FROM rows
--   GROUP BY k0
--   SELECT t1.c0 AS c0, t1.c1 AS c1, t1.c2 AS c2, t1.c3 AS c3, t1.c4 AS c4 FROM release_0 AS t1

-- case: totals of what agrees
SELECT SUM(n) AS n, SUM(v) AS v, SUM(n) - SUM(v) AS w FROM (SELECT country, COUNT(*) AS n, COUNT(*) FILTER (WHERE vip) AS v FROM customers GROUP BY country) AS t;
-- accept
-- keys: 3 public, l0 proved
-- release: rows l0=1 linf=1
-- release: rows l0=1 linf=1
-- release: rows l0=1 linf=1

-- case: windows over what agrees
SELECT country, COUNT(*) FILTER (WHERE vip) AS v, SUM(COUNT(*)) OVER (ORDER BY country) - SUM(COUNT(*) FILTER (WHERE vip)) OVER (ORDER BY country) AS w FROM customers GROUP BY country;
-- accept
-- keys: 3 public, l0 proved
-- release: rows l0=1 linf=1
-- release: rows l0=1 linf=1
-- release: rows l0=1 linf=1

-- case: one of several rows of a person is clipped, and nothing is adjusted
SELECT COUNT(*) AS n, COUNT(*) FILTER (WHERE status = 'paid') AS p FROM orders;
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=10
-- release: rows l0=1 linf=10

-- case: levels of a union
SELECT country, COUNT(*) AS n FROM customers GROUP BY country UNION ALL SELECT 'all', COUNT(*) FROM customers;
-- accept
-- keys: 3 public, l0 proved
-- release: rows l0=1 linf=1
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=1

-- case: groupings without their finest, with conditions of their own
SELECT country, segment, COUNT(*) AS n, COUNT(*) FILTER (WHERE vip) AS v, AVG(age) AS mean FROM customers GROUP BY GROUPING SETS ((country), (segment), ());
-- accept
-- keys: 3 public, l0 proved
-- release: rows l0=1 linf=1
-- release: rows l0=1 linf=1
-- release: rows l0=1 linf=1
-- release: rows l0=1 linf=1
-- release: rows l0=1 linf=1
-- release: sum l0=1 linf=60
-- keys: 2 public, l0 proved
-- release: rows l0=1 linf=1
-- release: rows l0=1 linf=1
-- release: rows l0=1 linf=1
-- release: rows l0=1 linf=1
-- release: rows l0=1 linf=1
-- release: sum l0=1 linf=60
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=1
-- release: rows l0=1 linf=1
-- release: rows l0=1 linf=1
-- release: rows l0=1 linf=1
-- release: rows l0=1 linf=1
-- release: sum l0=1 linf=60

-- case: a share of a total that is asked for beside it
SELECT segment, SUM(age) AS s, 100.0 * SUM(age) / (SELECT SUM(age) FROM customers) AS share FROM customers GROUP BY segment;
-- accept
-- keys: 2 public, l0 proved
-- release: sum l0=1 linf=120
-- keys: 1 public, l0 proved
-- release: sum l0=1 linf=120

-- case: a part without bounds is refused
SELECT SUM(note_length) AS s, SUM(note_length) FILTER (WHERE status = 'paid') AS p FROM orders;
-- refuse: unbounded-input at 1:12

-- case: one condition written in two ways is one measurement
SELECT COUNT(*) FILTER (WHERE age <> 40) AS a, COUNT(*) FILTER (WHERE 40 <> age) AS b, COUNT(*) FILTER (WHERE 20 <> age) AS c FROM customers;
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=1
-- release: rows l0=1 linf=1
-- release: rows l0=1 linf=1
-- release: rows l0=1 linf=1
