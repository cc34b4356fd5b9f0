-- SAMPLE_AGGREGATE: any aggregate of blocks of units, clipped and averaged.
-- catalog: shop

-- case: an aggregate without a rule of its own
SELECT SAMPLE_AGGREGATE(KURTOSIS(age), -2, 10) AS k FROM customers;
-- accept
-- keys: 1 public, l0 proved
-- release: sum l0=1 linf=12

-- case: without the sampling it is refused
SELECT KURTOSIS(age) AS k FROM customers;
-- refuse: unsupported-aggregate at 1:8

-- case: a ratio of sums in a stated number of blocks
SELECT SAMPLE_AGGREGATE(SUM(amount) / SUM(quantity), 0, 100, 200) AS price FROM orders;
-- accept
-- keys: 1 public, l0 proved
-- release: sum l0=1 linf=100

-- case: per public group, beside other aggregates
SELECT status, SAMPLE_AGGREGATE(SKEWNESS(quantity), -3, 3, 50) AS skew, COUNT(*) AS n, COUNT(DISTINCT quantity) AS q FROM orders GROUP BY status;
-- accept
-- keys: 3 public, l0 proved
-- release: sum l0=3 linf=6
-- release: rows l0=3 linf=10
-- release: distinct l0=3 linf=10

-- case: per private group of which a unit keeps a few
SELECT device, SAMPLE_AGGREGATE(MAD(duration), 0, 3600, 5) AS spread FROM events GROUP BY device;
-- accept
-- keys: private, l0 enforced
-- release: units l0=2 linf=1
-- release: sum l0=2 linf=3600

-- case: per private group that the unit determines
SELECT city, SAMPLE_AGGREGATE(CORR(age, income), -1, 1, 4) AS c FROM customers GROUP BY city;
-- accept
-- keys: private, l0 proved
-- release: rows l0=1 linf=1
-- release: sum l0=1 linf=2

-- case: filters of the whole and of a part
SELECT SAMPLE_AGGREGATE(AVG(quantity) FILTER (WHERE amount > 5) - COUNT(*), -100, 20, 3) FILTER (WHERE status = 'paid') AS d FROM orders;
-- accept
-- keys: 1 public, l0 proved
-- release: sum l0=1 linf=120

-- case: text and distinct values inside
SELECT SAMPLE_AGGREGATE(ENTROPY(status) + COUNT(DISTINCT note), 0, 50, 7) AS e FROM orders;
-- accept
-- keys: 1 public, l0 proved
-- release: sum l0=1 linf=50

-- case: moments of what has no bounds
SELECT SAMPLE_AGGREGATE(STDDEV(note_length) / AVG(note_length), 0.5, 2.5) AS v FROM orders;
-- accept
-- keys: 1 public, l0 proved
-- release: sum l0=1 linf=2

-- case: aggregates of unbounded sums cannot fail
SELECT SAMPLE_AGGREGATE(SUM(duration) * SUM(duration) % COUNT(*), 0, 1000, 3) AS v FROM events;
-- accept
-- keys: 1 public, l0 proved
-- release: sum l0=1 linf=1000

-- case: of one number per person
SELECT SAMPLE_AGGREGATE(MEDIAN(n), 0, 10, 3) AS m FROM (SELECT customer_id, COUNT(*) AS n FROM orders GROUP BY customer_id) AS t;
-- accept
-- keys: 1 public, l0 proved
-- release: sum l0=1 linf=10
-- rewrite:
--   WITH rows AS (
--     SELECT t2.c10 AS u, t2.c11 AS x0
--     FROM (SELECT t1."customer_id" AS c10, count(*) AS c11 FROM "orders" AS t1 GROUP BY 1) AS t2
--   )
--   SELECT COALESCE(SUM(p0)::HUGEINT, 0) AS p0
--   FROM (
--     SELECT COALESCE(SUM(0)::HUGEINT, 0) AS p0
--     FROM rows
--     UNION ALL
--     SELECT SUM(
--       FLOOR(
--         CASE WHEN v < 0.0::DOUBLE THEN 0.0::DOUBLE WHEN v > 10.0::DOUBLE THEN 10.0::DOUBLE ELSE v END
--         * 67108864.0::DOUBLE
--         + 0.5
--       )::BIGINT
--       - (335544320)
--     ) AS p0
--     FROM (
--       SELECT CASE WHEN isfinite(x) THEN x END AS v
--       FROM (
--         SELECT TRY_CAST(a0 AS DOUBLE) AS x
--         FROM (
--           SELECT CASE WHEN isnan(median(x0)) THEN NULL ELSE median(x0) END AS a0
--           FROM rows
--           GROUP BY hash($sampling_key::UBIGINT, 'block', u) % 3
--         )
--       )
--     )
--   )
--   SELECT t2.c14 AS c0
--   FROM (
--     SELECT least(greatest(5.0e0 + CAST(t1.c0 AS DOUBLE) / 3.0e0, 0.0e0), 10.0e0) AS c14
--     FROM release_0 AS t1
--   ) AS t2

-- case: the same twice is measured once
SELECT SAMPLE_AGGREGATE(MAX(quantity), 0, 20, 5) AS a, SAMPLE_AGGREGATE(MAX(quantity), 0, 20, 5) + 1 AS b FROM orders;
-- accept
-- keys: 1 public, l0 proved
-- release: sum l0=1 linf=20

-- case: a column outside of the aggregates
SELECT SAMPLE_AGGREGATE(AVG(age) + age, 0, 120) AS k FROM customers;
-- refuse: not-grouped at 1:36

-- case: no aggregate inside
SELECT SAMPLE_AGGREGATE(age, 0, 120) AS k FROM customers;
-- refuse: unsupported-syntax at 1:25

-- case: samples of samples
SELECT SAMPLE_AGGREGATE(SAMPLE_AGGREGATE(AVG(age), 0, 1), 0, 120) AS k FROM customers;
-- refuse: misplaced-aggregate at 1:25

-- case: bounds the wrong way round
SELECT SAMPLE_AGGREGATE(AVG(age), 120, 0) AS k FROM customers;
-- refuse: unsupported-syntax at 1:8

-- case: a bound that is no constant
SELECT SAMPLE_AGGREGATE(AVG(age), 0, age) AS k FROM customers;
-- refuse: unsupported-syntax at 1:8

-- case: no blocks at all
SELECT SAMPLE_AGGREGATE(AVG(age), 0, 120, 0) AS k FROM customers;
-- refuse: unsupported-syntax at 1:8

-- case: without bounds
SELECT SAMPLE_AGGREGATE(AVG(age)) AS k FROM customers;
-- refuse: unsupported-syntax at 1:8

-- case: a text
SELECT SAMPLE_AGGREGATE(MODE(city), 0, 120) AS k FROM customers;
-- refuse: type-mismatch at 1:8

-- case: distinct samples
SELECT SAMPLE_AGGREGATE(DISTINCT AVG(age), 0, 120) AS k FROM customers;
-- refuse: unsupported-aggregate at 1:8

-- case: a window
SELECT SAMPLE_AGGREGATE(AVG(age), 0, 120) OVER () AS k FROM customers;
-- refuse: unsupported-aggregate at 1:8

-- case: within one person
SELECT customer_id, SAMPLE_AGGREGATE(AVG(amount), 0, 100) AS k FROM orders GROUP BY customer_id;
-- refuse: unsupported-private-operator at 1:21

-- case: of public rows
SELECT SAMPLE_AGGREGATE(COUNT(*), 0, 100) AS k FROM countries;
-- refuse: unsupported-aggregate at 1:8

-- case: the hidden column stays hidden
SELECT SAMPLE_AGGREGATE(ENTROPY(name), 0, 10) AS k FROM customers;
-- refuse: hidden-column at 1:33

-- case: moments of released counts
SELECT KURTOSIS(n) AS k, SKEWNESS(n) AS s, MAD(n) AS m FROM (SELECT status, COUNT(*) AS n FROM orders GROUP BY status) AS t;
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
--   SELECT t2.c14 AS c0, t2.c15 AS c1, t2.c16 AS c2
--   FROM (
--     SELECT
--       CASE
--         WHEN bool_and(TRY_CAST(t1.c1 AS DOUBLE) BETWEEN -1e60 AND 1e60)
--         THEN kurtosis(
--           CASE
--             WHEN abs(TRY_CAST(t1.c1 AS DOUBLE)) < 1e-60 THEN 0
--             WHEN TRY_CAST(t1.c1 AS DOUBLE) BETWEEN -1e60 AND 1e60 THEN TRY_CAST(t1.c1 AS DOUBLE)
--           END
--         )
--       END AS c14,
--       CASE
--         WHEN bool_and(TRY_CAST(t1.c1 AS DOUBLE) BETWEEN -1e60 AND 1e60)
--         THEN skewness(
--           CASE
--             WHEN TRY_CAST(t1.c1 AS DOUBLE) BETWEEN -1e60 AND 1e60 THEN TRY_CAST(t1.c1 AS DOUBLE)
--           END
--         )
--       END AS c15,
--       mad(t1.c1) AS c16
--     FROM release_0 AS t1
--   ) AS t2

-- case: moments within one person
SELECT AVG(LEAST(GREATEST(s, -3), 3)) AS mean FROM (SELECT customer_id, SKEWNESS(quantity) AS s FROM orders GROUP BY customer_id) AS t;
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=1
-- release: sum l0=1 linf=3

-- case: a range of quantiles
SELECT SAMPLE_AGGREGATE(QUANTILE_CONT(age, 0.75) - QUANTILE_CONT(age, 0.25), 0, 120, 20) AS range FROM customers;
-- accept
-- keys: 1 public, l0 proved
-- release: sum l0=1 linf=120

-- case: quantiles within one person, then over people
SELECT AVG(q) AS m FROM (SELECT customer_id, PERCENTILE_DISC(0.5) WITHIN GROUP (ORDER BY amount DESC) AS q FROM orders GROUP BY customer_id) AS t;
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=1
-- release: sum l0=1 linf=250
