-- AVG: centre + noisy centred sum / max(1, noisy count), clamped to the bounds.
-- catalog: shop

-- case: average on the unit table
SELECT AVG(age) AS mean_age FROM customers;
-- rows: customers (customer_id, age): (1, 30), (2, 500), (3, NULL), (4, -7)
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=1
-- release: sum l0=1 linf=60
-- integers: () 3 -30
-- rewrite:
--   WITH rows AS (SELECT NOT t1."age" IS NULL AS x0, t1."age" AS x1 FROM "customers" AS t1)
--   SELECT
--     COALESCE(COUNT(*) FILTER (WHERE x0)::HUGEINT, 0) AS p0,
--     COALESCE(
--       SUM((CASE WHEN x1 < 0 THEN 0 WHEN x1 > 120 THEN 120 ELSE x1 END)::BIGINT - (60))::HUGEINT, 0
--     ) AS p1
--   FROM rows
--   SELECT t3.c9 AS c0
--   FROM (
--     SELECT
--       60.0e0
--       + least(
--         greatest(CAST(t2.c18 AS DOUBLE) * t2.c34 / (t2.c34 * t2.c34 + 153.22940656026202e0), -60.0e0),
--         60.0e0
--       ) AS c9
--     FROM (SELECT t1.c1 AS c18, greatest(1.0e0, CAST(t1.c0 AS DOUBLE)) AS c34 FROM release_0 AS t1) AS t2
--   ) AS t3

-- case: average of linked rows
SELECT AVG(amount) AS mean FROM orders;
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=10
-- release: sum l0=1 linf=2500

-- case: average of a double
SELECT AVG(income) AS mean FROM customers;
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=1
-- release: sum l0=1 linf=100000
-- rewrite:
--   WITH rows AS (
--     SELECT
--       NOT (CASE WHEN isnan(t1."income") THEN NULL ELSE t1."income"::DOUBLE + 0.0 END) IS NULL AS x0,
--       CASE WHEN isnan(t1."income") THEN NULL ELSE t1."income"::DOUBLE + 0.0 END AS x1
--     FROM "customers" AS t1
--   )
--   SELECT
--     COALESCE(COUNT(*) FILTER (WHERE x0)::HUGEINT, 0) AS p0,
--     COALESCE(
--       SUM(
--         FLOOR(
--           CASE
--             WHEN x1 < 0.0::DOUBLE THEN 0.0::DOUBLE
--             WHEN x1 > 200000.0::DOUBLE THEN 200000.0::DOUBLE
--             ELSE x1
--           END
--           * 4096.0::DOUBLE
--           + 0.5
--         )::BIGINT
--         - (409600000)
--       )::HUGEINT,
--       0
--     ) AS p1
--   FROM rows
--   SELECT t3.c9 AS c0
--   FROM (
--     SELECT
--       100000.0e0
--       + least(
--         greatest(
--           CAST(t2.c18 AS DOUBLE) * t2.c34 / (t2.c34 * t2.c34 + 153.22940580710096e0), -100000.0e0
--         ),
--         100000.0e0
--       ) AS c9
--     FROM (SELECT t1.c1 AS c18, greatest(1.0e0, CAST(t1.c0 AS DOUBLE)) AS c34 FROM release_0 AS t1) AS t2
--   ) AS t3

-- case: average shares its count
SELECT AVG(amount) AS mean, COUNT(amount) AS n FROM orders;
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=10
-- release: sum l0=1 linf=2500

-- case: average by group
SELECT status, AVG(amount) AS mean FROM orders GROUP BY status;
-- accept
-- keys: 3 public, l0 proved
-- release: rows l0=3 linf=10
-- release: sum l0=3 linf=2500

-- case: average of an expression
SELECT AVG(amount * (1 - COALESCE(discount, 0))) AS net FROM orders;
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=10
-- release: sum l0=1 linf=2500

-- case: geometric mean
SELECT GEOMEAN(amount + 1) AS g, GEOMETRIC_MEAN(quantity + 1) AS h, FAVG(discount) AS f FROM orders;
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=10
-- release: sum l0=1 linf=31.08303055
-- release: sum l0=1 linf=15.22261221
-- release: rows l0=1 linf=10
-- release: sum l0=1 linf=5

-- case: geometric mean of the rows that a filter keeps
SELECT GEOMEAN(quantity + 1) FILTER (WHERE status = 'paid') AS h FROM orders;
-- dialect: postgres
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=10
-- release: sum l0=1 linf=15.22261221

-- case: geometric mean of what may be zero
SELECT GEOMEAN(amount) AS g FROM orders;
-- refuse: unbounded-input at 1:16

-- case: average with a filter
SELECT AVG(amount) FILTER (WHERE status = 'paid') AS mean FROM orders;
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=10
-- release: sum l0=1 linf=2500

-- case: average of an unbounded column
SELECT AVG(note_length) FROM orders;
-- refuse: unbounded-input at 1:12

-- case: average of distinct values
SELECT AVG(DISTINCT amount) AS m FROM orders;
-- accept
-- keys: 1 public, l0 proved
-- release: distinct l0=1 linf=10
-- release: distinct sum l0=1 linf=2500

-- case: average of text
SELECT AVG(segment) FROM customers;
-- refuse: type-mismatch at 1:8

-- case: arithmetic over averages
SELECT AVG(amount) / AVG(quantity) AS ratio FROM orders;
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=10
-- release: sum l0=1 linf=2500
-- release: sum l0=1 linf=100

-- case: an average by weights
SELECT WEIGHTED_AVG(amount, quantity) AS a, WAVG(discount, quantity) AS d FROM orders;
-- accept
-- keys: 1 public, l0 proved
-- release: sum l0=1 linf=100000
-- release: sum l0=1 linf=200
-- release: sum l0=1 linf=200
-- release: sum l0=1 linf=200

-- case: an average without its weights
SELECT WAVG(amount) AS a FROM orders;
-- refuse: unsupported-syntax at 1:8

-- case: weights that nothing bounds
SELECT WAVG(amount, note_length) AS a FROM orders;
-- refuse: unbounded-input at 1:8
