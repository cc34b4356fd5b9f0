-- VAR and STDDEV: a count, a centred sum and a centred sum of squares, each clipped, then noise.
-- catalog: shop

-- case: variance of rows of one per unit
SELECT VAR_POP(income) AS v FROM customers;
-- rows: customers (customer_id, income): (1, 0), (2, 200000), (3, 100000), (4, 300000)
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=1
-- release: sum l0=1 linf=100000
-- release: sum l0=1 linf=5000000000
-- integers: () 4 409600000 625000000

-- case: sample variance over many rows of a unit
SELECT VAR_SAMP(quantity) AS v, VARIANCE(quantity) AS w FROM orders;
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=10
-- release: sum l0=1 linf=100
-- release: sum l0=1 linf=500

-- case: standard deviation
SELECT STDDEV(age) AS s FROM customers;
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=1
-- release: sum l0=1 linf=60
-- release: sum l0=1 linf=1800

-- case: standard deviation per public key
SELECT status, STDDEV_POP(amount) AS s FROM orders GROUP BY status;
-- accept
-- keys: 3 public, l0 proved
-- release: rows l0=3 linf=10
-- release: sum l0=3 linf=2500
-- release: sum l0=3 linf=312500

-- case: variance per private key
SELECT city, VARIANCE(age) AS v FROM customers GROUP BY city;
-- accept
-- keys: private, l0 proved
-- release: rows l0=1 linf=1
-- release: rows l0=1 linf=1
-- release: sum l0=1 linf=60
-- release: sum l0=1 linf=1800

-- case: with the rows that a filter keeps
SELECT VAR_POP(age) FILTER (WHERE age > 30) AS v FROM customers;
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=1
-- release: sum l0=1 linf=60
-- release: sum l0=1 linf=1800

-- case: count, average and variance share their measurements
SELECT COUNT(*) AS n, AVG(income) AS a, STDDEV_SAMP(income) AS s, VAR_POP(income) AS v FROM customers;
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=1
-- release: sum l0=1 linf=0.7363281259
-- release: sum l0=1 linf=0.7363281259

-- case: coefficient of variation
SELECT STDDEV_POP(amount) / AVG(amount) AS c FROM orders;
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=10
-- release: sum l0=1 linf=2500
-- release: sum l0=1 linf=312500

-- case: of an expression
SELECT VAR_POP(amount * quantity) AS v FROM orders;
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=10
-- release: sum l0=1 linf=50000
-- release: sum l0=1 linf=125000000

-- case: of truth values by a cast
SELECT VAR_POP(CAST(age > 40 AS INTEGER)) AS v FROM customers;
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=1
-- release: sum l0=1 linf=1
-- release: sum l0=1 linf=0.5
-- rewrite:
--   WITH rows AS (
--     SELECT
--       NOT CAST(t1."age" > 40 AS BIGINT) IS NULL AS x0,
--       CAST(t1."age" > 40 AS BIGINT) AS x1,
--       CASE
--         WHEN isnan(
--           (CAST(CAST(t1."age" > 40 AS BIGINT) AS DOUBLE) - 0.0e0)
--           * (CAST(CAST(t1."age" > 40 AS BIGINT) AS DOUBLE) - 0.0e0)
--         )
--         THEN NULL
--         ELSE (CAST(CAST(t1."age" > 40 AS BIGINT) AS DOUBLE) - 0.0e0)
--         * (CAST(CAST(t1."age" > 40 AS BIGINT) AS DOUBLE) - 0.0e0)
--       END AS x2
--     FROM "customers" AS t1
--   )
--   SELECT
--     COALESCE(COUNT(*) FILTER (WHERE x0)::HUGEINT, 0) AS p0,
--     COALESCE(SUM((CASE WHEN x1 < 0 THEN 0 WHEN x1 > 1 THEN 1 ELSE x1 END)::BIGINT)::HUGEINT, 0) AS p1,
--     COALESCE(
--       SUM(
--         FLOOR(
--           CASE
--             WHEN x2 < 0.0::DOUBLE THEN 0.0::DOUBLE WHEN x2 > 1.0::DOUBLE THEN 1.0::DOUBLE ELSE x2
--           END
--           * 1073741824.0::DOUBLE
--           + 0.5
--         )::BIGINT
--         - (536870912)
--       )::HUGEINT,
--       0
--     ) AS p2
--   FROM rows
--   SELECT t4.c9 AS c0
--   FROM (
--     SELECT least(greatest(t3.c27 / t3.c41 + 0.5e0 - t3.c42 * t3.c42, 0.0e0), 1.0e0) AS c9
--     FROM (
--       SELECT t2.c27 AS c27, t2.c41 AS c41, CAST(t2.c26 AS DOUBLE) / t2.c41 AS c42
--       FROM (
--         SELECT t1.c1 AS c26, t1.c2 AS c27, greatest(1.0e0, CAST(t1.c0 AS DOUBLE)) AS c41
--         FROM release_0 AS t1
--       ) AS t2
--     ) AS t3
--   ) AS t4

-- case: of different values
SELECT VAR_POP(DISTINCT age) AS v FROM customers;
-- accept
-- keys: 1 public, l0 proved
-- release: distinct l0=1 linf=1
-- release: distinct sum l0=1 linf=60
-- release: distinct sum l0=1 linf=1800

-- case: without bounds is refused
SELECT STDDEV(note_length) AS s FROM orders;
-- refuse: unbounded-input at 1:15

-- case: of text is refused
SELECT STDDEV(status) AS s FROM orders;
-- refuse: type-mismatch at 1:8

-- case: too wide to square is refused
SELECT VAR_POP(amount * 1000000000000000000) AS v FROM orders;
-- refuse: unbounded-input at 1:8

-- case: under Laplace noise the moments are one vector
SELECT STDDEV_POP(age) AS s, AVG(age) AS a, COUNT(age) AS n FROM customers;
-- accountant: pure
-- accept
-- keys: 1 public, l0 proved
-- release: sum l0=1 linf=1.000000003
-- release: sum l0=1 linf=1.000000003
-- release: sum l0=1 linf=1.000000003

-- case: ends of whole numbers
SELECT segment, AVG(age) AS a, COUNT(*) AS n FROM customers GROUP BY segment;
-- accountant: pure
-- accept
-- keys: 2 public, l0 proved
-- release: rows l0=1 linf=1
-- release: rows l0=1 linf=1
-- release: sum l0=1 linf=60
-- rewrite:
--   WITH rows AS (
--     SELECT
--       t1."segment" AS k0,
--       NOT t1."age" IS NULL AS x0,
--       NOT coalesce(NOT t1."age" IS NULL, FALSE) AS x1,
--       t1."age" AS x2
--     FROM "customers" AS t1
--   )
--   SELECT
--     k0,
--     COALESCE(COUNT(*) FILTER (WHERE x0)::HUGEINT, 0) AS p0,
--     COALESCE(COUNT(*) FILTER (WHERE x1)::HUGEINT, 0) AS p1,
--     COALESCE(
--       SUM((CASE WHEN x2 < 0 THEN 0 WHEN x2 > 120 THEN 120 ELSE x2 END)::BIGINT - (60))::HUGEINT, 0
--     ) AS p2
--   FROM rows
--   GROUP BY k0
--   SELECT t3.c9 AS c0, t3.c10 AS c1, t3.c11 AS c2
--   FROM (
--     SELECT
--       t2.c9 AS c9,
--       60.0e0
--       + least(
--         greatest(CAST(t2.c37 AS DOUBLE) * t2.c53 / (t2.c53 * t2.c53 + 35.29399782080942e0), -60.0e0),
--         60.0e0
--       ) AS c10,
--       TRY(t2.c35::HUGEINT + t2.c36) AS c11
--     FROM (
--       SELECT
--         t1.c0 AS c9,
--         t1.c1 AS c35,
--         t1.c2 AS c36,
--         t1.c3 AS c37,
--         greatest(1.0e0, CAST(t1.c1 AS DOUBLE)) AS c53
--       FROM release_0 AS t1
--     ) AS t2
--   ) AS t3

-- case: several averages share their count
SELECT AVG(age) AS a, AVG(income) AS b, AVG(customer_id % 7) AS c, COUNT(*) AS n FROM customers;
-- accountant: pure
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=1
-- release: rows l0=1 linf=1
-- release: sum l0=1 linf=60
-- release: sum l0=1 linf=100000
-- release: sum l0=1 linf=6

-- case: the moments of a double are one vector too
SELECT AVG(income) AS a, VAR_POP(income) AS v, COUNT(*) AS n FROM customers;
-- accountant: pure
-- accept
-- keys: 1 public, l0 proved
-- release: sum l0=1 linf=1.000000003
-- release: sum l0=1 linf=1.000000003
-- release: sum l0=1 linf=1.000000003

-- case: where rows are clipped moments stay apart
SELECT AVG(quantity) AS a, VAR_POP(quantity) AS v FROM orders;
-- accountant: pure
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=10
-- release: sum l0=1 linf=100
-- release: sum l0=1 linf=500
