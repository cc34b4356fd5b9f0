-- OPTIONS(mechanism = 'name'): the law of the noise by name, where the accountant can charge for it.
-- catalog: shop

-- case: Laplace where Gaussian is the better
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(mechanism = 'laplace') status, COUNT(*) AS n FROM orders GROUP BY 1;
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
--   SELECT t1.c0 AS c0, t1.c1 AS c1 FROM release_0 AS t1

-- case: the Gaussian of the approximate accountant
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(mechanism = 'gaussian') COUNT(*) AS n FROM orders;
-- accountant: approximate
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=10

-- case: the textbook at ε = 1
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(mechanism = 'gaussian-textbook') COUNT(*) AS n FROM orders;
-- accountant: approximate
-- refuse: bad-option at 1:1

-- case: Gaussian noise is not pure
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(mechanism = 'gaussian') COUNT(*) AS n FROM orders;
-- accountant: pure
-- refuse: bad-option at 1:1

-- case: no text
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(mechanism = laplace) COUNT(*) AS n FROM orders;
-- refuse: bad-option at 1:54

-- case: extremes by sparse vector
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(mechanism = 'sparse-vector') status, MIN(quantity) AS least, MAX(quantity) AS most FROM orders GROUP BY 1;
-- accept
-- keys: 3 public, l0 proved
-- choice: lowest reached of 21 l0=3 rows=1 least
-- choice: highest reached of 21 l0=3 rows=1 greatest
-- rewrite:
--   WITH rows AS (
--     SELECT t1."customer_id" AS u, t1."status" AS k0, t1."quantity" AS x0 FROM "orders" AS t1
--   ),
--   totals AS (
--     SELECT
--       u,
--       k0,
--       [
--         MIN(((CASE WHEN x0 < 0 THEN 0 WHEN x0 > 20 THEN 20 ELSE x0 END)::BIGINT - (0))) FILTER (
--           WHERE ((CASE WHEN x0 < 0 THEN 0 WHEN x0 > 20 THEN 20 ELSE x0 END)::BIGINT - (0)) IS NOT NULL
--         )
--       ] AS l0,
--       [
--         MAX(((CASE WHEN x0 < 0 THEN 0 WHEN x0 > 20 THEN 20 ELSE x0 END)::BIGINT - (0))) FILTER (
--           WHERE ((CASE WHEN x0 < 0 THEN 0 WHEN x0 > 20 THEN 20 ELSE x0 END)::BIGINT - (0)) IS NOT NULL
--         )
--       ] AS l1
--     FROM rows
--     GROUP BY u, k0
--   ),
--   bounded AS MATERIALIZED (SELECT k0, l0 AS l0, l1 AS l1 FROM totals)
--   SELECT k0, NULL::BIGINT AS cell, 0::HUGEINT AS n
--   FROM (SELECT k0 FROM (SELECT k0 FROM bounded) GROUP BY k0)
--   UNION ALL
--   SELECT k0, cell + 0 AS cell, COUNT(*)::HUGEINT AS n
--   FROM (SELECT k0, unnest(l0) AS cell FROM bounded)
--   WHERE cell IS NOT NULL
--   GROUP BY k0, cell
--   UNION ALL
--   SELECT k0, cell + 21 AS cell, COUNT(*)::HUGEINT AS n
--   FROM (SELECT k0, unnest(l1) AS cell FROM bounded)
--   WHERE cell IS NOT NULL
--   GROUP BY k0, cell
--   SELECT t1.c0 AS c0, t1.c1 AS c1, t1.c2 AS c2 FROM release_0 AS t1

-- case: sparse vector without an extreme
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(mechanism = 'sparse-vector') MEDIAN(quantity) AS m FROM orders;
-- refuse: bad-option at 1:1
