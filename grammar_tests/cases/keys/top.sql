-- ORDER BY aggregate LIMIT k where only the keys are asked: they may be chosen, not measured.
-- catalog: shop

-- case: the largest group
SELECT HOUR(placed_at) AS h FROM orders GROUP BY h ORDER BY COUNT(*) DESC, h LIMIT 1;
-- accept
-- keys: highest 1 of 24 public

-- case: a few of many, by people
SELECT HOUR(placed_at) AS h FROM orders GROUP BY 1 ORDER BY COUNT(DISTINCT customer_id) DESC, 1 LIMIT 2;
-- accept
-- keys: highest 2 of 24 public

-- case: by a sum in a subquery
SELECT status FROM (SELECT status, SUM(amount) AS total FROM orders GROUP BY status) AS t ORDER BY total DESC, status LIMIT 1;
-- accept
-- keys: highest 1 of 3 public
-- rewrite:
--   WITH rows AS (
--     SELECT t1."customer_id" AS u, t1."status" AS k0, t1."amount" AS x0 FROM "orders" AS t1
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
--       ) AS s0
--     FROM rows
--     GROUP BY u, k0
--   )
--   SELECT k0, COALESCE(SUM(p0)::HUGEINT, 0) AS p0
--   FROM (
--     SELECT
--       k0,
--       (
--         (
--           CASE
--             WHEN s0 < '0.00'::DECIMAL(3, 2) THEN '0.00'::DECIMAL(3, 2)
--             WHEN s0 > '5000.00'::DECIMAL(6, 2) THEN '5000.00'::DECIMAL(6, 2)
--             ELSE s0
--           END
--         )::DECIMAL(6, 2)
--         * '100'::DECIMAL(3, 0)
--       )::BIGINT AS p0
--     FROM totals
--   )
--   GROUP BY k0
--   SELECT t1.c0 AS c0 FROM release_0 AS t1 ORDER BY t1.c1 DESC NULLS LAST, t1.c0 NULLS LAST LIMIT 1

-- case: the smallest, filtered
SELECT status FROM orders GROUP BY status ORDER BY COUNT(*) FILTER (WHERE quantity > 1), status LIMIT 1;
-- accept
-- keys: lowest 1 of 3 public

-- case: under the pure accountant, and an expression of the key
SELECT LOWER(status) AS s FROM orders GROUP BY status ORDER BY SUM(quantity) DESC, status LIMIT 1;
-- accountant: pure
-- accept
-- keys: highest 1 of 3 public

-- case: by a sum of either sign
SELECT status FROM orders GROUP BY status ORDER BY SUM(quantity - 10) DESC, status LIMIT 1;
-- accept
-- keys: highest 1 of 3 public
-- rewrite:
--   WITH rows AS (
--     SELECT t1."customer_id" AS u, t1."status" AS k0, TRY(t1."quantity" - 10::BIGINT) AS x0
--     FROM "orders" AS t1
--   ),
--   totals AS (
--     SELECT
--       u,
--       k0,
--       SUM(((CASE WHEN x0 < -10 THEN -10 WHEN x0 > 10 THEN 10 ELSE x0 END)::BIGINT)::INTEGER) AS s0
--     FROM rows
--     GROUP BY u, k0
--   )
--   SELECT k0, COALESCE(SUM(p0)::HUGEINT, 0) AS p0
--   FROM (
--     SELECT k0, (CASE WHEN s0 < -100 THEN -100 WHEN s0 > 100 THEN 100 ELSE s0 END)::BIGINT AS p0
--     FROM totals
--   )
--   GROUP BY k0
--   SELECT t1.c0 AS c0 FROM release_0 AS t1 ORDER BY t1.c1 DESC NULLS LAST, t1.c0 NULLS LAST LIMIT 1

-- case: one unit in one group, many wanted: everything is released
SELECT country FROM customers GROUP BY country ORDER BY COUNT(*) DESC, country LIMIT 2;
-- accountant: pure
-- accept
-- keys: 3 public, l0 proved
-- release: rows l0=1 linf=1

-- case: the aggregate is shown too
SELECT status, COUNT(*) AS n FROM orders GROUP BY status ORDER BY n DESC, status LIMIT 1;
-- accept
-- keys: highest 1 of 3 public
-- release: rows l0=1 linf=10

-- case: an average has two parts
SELECT status FROM orders GROUP BY status ORDER BY AVG(amount) DESC, status LIMIT 1;
-- accept
-- keys: 3 public, l0 proved
-- release: rows l0=3 linf=10
-- release: sum l0=3 linf=2500

-- case: an offset
SELECT status FROM orders GROUP BY status ORDER BY SUM(amount) DESC, status LIMIT 1 OFFSET 1;
-- accept
-- keys: 3 public, l0 proved
-- release: sum l0=3 linf=5000

-- case: a condition on the aggregate
SELECT status FROM orders GROUP BY status HAVING COUNT(*) > 2 ORDER BY COUNT(*) DESC, status LIMIT 1;
-- accept
-- keys: 3 public, l0 proved
-- release: rows l0=3 linf=10

-- case: all groups
SELECT status FROM orders GROUP BY status ORDER BY SUM(amount) DESC, status LIMIT 3;
-- accept
-- keys: 3 public, l0 proved
-- release: sum l0=3 linf=5000

-- case: private keys are not chosen among
SELECT city FROM customers GROUP BY city ORDER BY COUNT(*) DESC, city LIMIT 1;
-- accept
-- keys: private, l0 proved
-- release: rows l0=1 linf=1

-- case: the same groups asked twice
SELECT status FROM orders GROUP BY status HAVING COUNT(*) > (SELECT AVG(n) FROM (SELECT status, COUNT(*) AS n FROM orders GROUP BY status) AS t) ORDER BY COUNT(*) DESC, status LIMIT 1;
-- accept
-- keys: 3 public, l0 proved
-- release: rows l0=3 linf=10

-- case: ordered by what has no bounds
SELECT status FROM orders GROUP BY status ORDER BY SUM(note_length) DESC LIMIT 1;
-- refuse: unbounded-input at 1:56

-- case: one person is no group to choose
SELECT customer_id FROM orders GROUP BY customer_id ORDER BY COUNT(*) DESC LIMIT 1;
-- refuse: unit-key-exposed at 1:41

-- case: the key of the largest aggregate
SELECT ARG_MAX(h, n) AS h FROM (SELECT HOUR(placed_at) AS h, SUM(quantity) AS n FROM orders GROUP BY 1) AS t;
-- accept
-- keys: highest 1 of 24 public

-- case: the key of the smallest, with its aggregate
SELECT MIN_BY(h, n) AS h, MIN(n) AS n FROM (SELECT HOUR(placed_at) AS h, COUNT(*) AS n FROM orders GROUP BY 1) AS t;
-- accept
-- keys: lowest 1 of 24 public
-- release: rows l0=1 linf=10

-- case: the keys of both ends need all groups
SELECT ARG_MAX(h, n) AS h, ARG_MIN(h, n) AS l FROM (SELECT HOUR(placed_at) AS h, SUM(amount) AS n FROM orders GROUP BY 1) AS t;
-- accept
-- keys: 24 public, l0 enforced
-- release: sum l0=3 linf=5000

-- case: two aggregates of the first group
SELECT h, n, s FROM (SELECT HOUR(placed_at) AS h, COUNT(*) AS n, SUM(quantity) AS s FROM orders GROUP BY 1) AS t ORDER BY n DESC, h LIMIT 1;
-- accept
-- keys: highest 1 of 24 public
-- release: rows l0=1 linf=10
-- release: sum l0=1 linf=200

-- case: quantiles of the first group need all groups
SELECT HOUR(placed_at) AS h, COUNT(*) AS n, QUANTILE_DISC(quantity, 0.2) AS a, MEDIAN(quantity) AS b, QUANTILE_DISC(quantity, 0.8) AS c FROM orders GROUP BY 1 ORDER BY n DESC, h LIMIT 1;
-- accept
-- keys: 24 public, l0 enforced
-- release: rows l0=3 linf=10
-- tree: 2/10 2/4 8/10 of 21 l0=3 rows=10 hashed, 3 levels by 3
