-- SUM beside the count of its rows: the sum is centred, where no unit has more rows than counted.
-- catalog: shop

-- case: whole numbers that may be missing
SELECT SUM(age) AS s, COUNT(age) AS n FROM customers;
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=1
-- release: sum l0=1 linf=60

-- case: a count of other rows does not help
SELECT SUM(age) AS s, COUNT(*) AS n FROM customers;
-- accept
-- keys: 1 public, l0 proved
-- release: sum l0=1 linf=120
-- release: rows l0=1 linf=1

-- case: beside an average and a variance
SELECT SUM(age) AS s, AVG(age) AS mean, VAR_POP(age) AS v FROM customers;
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=1
-- release: sum l0=1 linf=0.7363281259
-- release: sum l0=1 linf=0.7363281259

-- case: a sum from 0 on is part of the vector of its average
SELECT SUM(age) AS s, AVG(age) AS mean FROM customers;
-- accountant: pure
-- accept
-- keys: 1 public, l0 proved
-- release: sum l0=1 linf=120
-- release: sum l0=1 linf=120
-- rewrite:
--   WITH rows AS (SELECT TRY(-t1."age"::HUGEINT) AS x0, t1."age" AS x1 FROM "customers" AS t1)
--   SELECT
--     COALESCE(
--       SUM((CASE WHEN x0 < -120 THEN -120 WHEN x0 > 0 THEN 0 ELSE x0 END)::BIGINT - (-120))::HUGEINT, 0
--     ) AS p0,
--     COALESCE(SUM((CASE WHEN x1 < 0 THEN 0 WHEN x1 > 120 THEN 120 ELSE x1 END)::BIGINT)::HUGEINT, 0) AS p1
--   FROM rows
--   SELECT t4.c9 AS c0, t4.c10 AS c1
--   FROM (
--     SELECT
--       t3.c33 AS c9,
--       60.0e0
--       + least(
--         greatest(
--           CAST(CAST(t3.c33 AS DOUBLE) - 60.0e0 * t3.c59 AS DOUBLE)
--           * t3.c60
--           / (t3.c60 * t3.c60 + 15.999907407728912e0),
--           -60.0e0
--         ),
--         60.0e0
--       ) AS c10
--     FROM (
--       SELECT t2.c33 AS c33, t2.c59 AS c59, greatest(1.0e0, CAST(t2.c59 AS DOUBLE)) AS c60
--       FROM (
--         SELECT t1.c1 AS c33, (CAST(t1.c0 AS DOUBLE) + CAST(t1.c1 AS DOUBLE)) / 120.0e0 AS c59
--         FROM release_0 AS t1
--       ) AS t2
--     ) AS t3
--   ) AS t4

-- case: decimals, divided as numbers
SELECT SUM(CAST(age AS DECIMAL(10, 2)) / 4) AS s, AVG(CAST(age AS DECIMAL(10, 2)) / 4) AS mean
FROM customers;
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=1
-- release: sum l0=1 linf=15

-- case: a NaN is NULL, so that doubles are counted as other numbers
SELECT SUM(income) AS s, COUNT(income) AS n FROM customers;
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=1
-- release: sum l0=1 linf=100000

-- case: some rows of each group, one sum asked for twice
SELECT segment, SUM(age) FILTER (WHERE vip) AS s, AVG(age) FILTER (WHERE vip) AS mean,
       SUM(age) FILTER (WHERE vip) / 2 AS half
FROM customers GROUP BY segment;
-- accept
-- keys: 2 public, l0 proved
-- release: rows l0=1 linf=1
-- release: sum l0=1 linf=60

-- case: private keys are counted already
SELECT city, SUM(age) AS s FROM customers WHERE age > 20 GROUP BY city;
-- accept
-- keys: private, l0 proved
-- release: rows l0=1 linf=1
-- release: sum l0=1 linf=50

-- case: a bound of the analyst on what one unit adds stands
SELECT WITH DIFFERENTIAL_PRIVACY SUM(age, contribution_bounds_per_group => (0, 50)) AS s,
       COUNT(age) AS n
FROM customers;
-- accept
-- keys: 1 public, l0 proved
-- release: sum l0=1 linf=50
-- release: rows l0=1 linf=1

-- case: a unit's rows are clipped in total
SELECT SUM(quantity) AS s, COUNT(quantity) AS n FROM orders;
-- accept
-- keys: 1 public, l0 proved
-- release: sum l0=1 linf=200
-- release: rows l0=1 linf=10
-- rewrite:
--   WITH rows AS (SELECT t1."customer_id" AS u, t1."quantity" AS x0 FROM "orders" AS t1),
--   totals AS (
--     SELECT
--       u,
--       SUM(((CASE WHEN x0 < 0 THEN 0 WHEN x0 > 20 THEN 20 ELSE x0 END)::BIGINT)::INTEGER) AS s0,
--       COUNT(*) AS s1
--     FROM rows
--     GROUP BY u
--   )
--   SELECT COALESCE(SUM(p0)::HUGEINT, 0) AS p0, COALESCE(SUM(p1)::HUGEINT, 0) AS p1
--   FROM (
--     SELECT
--       (CASE WHEN s0 < 0 THEN 0 WHEN s0 > 200 THEN 200 ELSE s0 END)::BIGINT AS p0,
--       (CASE WHEN s1 < 0 THEN 0 WHEN s1 > 10 THEN 10 ELSE s1 END)::BIGINT AS p1
--     FROM totals
--   )
--   SELECT t1.c0 AS c0, t1.c1 AS c1 FROM release_0 AS t1

-- case: bounds that are centred at zero
SELECT SUM(age - 60) AS s, COUNT(age) AS n FROM customers;
-- accept
-- keys: 1 public, l0 proved
-- release: sum l0=1 linf=60
-- release: rows l0=1 linf=1

-- case: decimals
SELECT SUM(CAST(age AS DECIMAL(10, 2))) AS s, AVG(CAST(age AS DECIMAL(10, 2))) AS mean
FROM customers;
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=1
-- release: sum l0=1 linf=60

-- case: a count does not bound a sum
SELECT SUM(note_length) AS s, COUNT(note_length) AS n FROM orders;
-- refuse: unbounded-input at 1:12

-- case: a sum and a count beside another count that nothing shows
SELECT r.m0, r.m1 AS a0 FROM (SELECT SUM(COALESCE(t0.age, 0)) AS m0, COUNT(*) FILTER (WHERE t0.country IS NOT NULL) AS m1, COUNT(*) AS m2 FROM customers t0) AS r;
-- accept
-- keys: 1 public, l0 proved
-- release: sum l0=1 linf=120
-- release: rows l0=1 linf=1
