-- Quantiles, MIN and MAX: a cell of a public grid is chosen, after the ranks of its rows.
-- catalog: shop

-- case: median of whole numbers
SELECT MEDIAN(quantity) FROM orders WHERE quantity <= 2;
-- accept
-- keys: 1 public, l0 proved
-- tree: 2/4 of 3 l0=1 rows=10 hashed, 1 levels by 3

-- case: median of one value of each unit
SELECT MEDIAN(age) FROM customers;
-- rows: customers (customer_id, age): (1, 30), (2, 30), (3, 200), (4, -1), (5, NULL)
-- accept
-- keys: 1 public, l0 proved
-- choice: 2/4 of 121 l0=1 rows=1 all
-- integers: () cells 0:1 30:2 120:1
-- rewrite:
--   WITH rows AS (SELECT t1."age" AS x0 FROM "customers" AS t1)
--   SELECT cell + 0 AS cell, COUNT(*)::HUGEINT AS n
--   FROM (
--     SELECT ((CASE WHEN x0 < 0 THEN 0 WHEN x0 > 120 THEN 120 ELSE x0 END)::BIGINT - (0)) AS cell
--     FROM rows
--   )
--   WHERE cell IS NOT NULL
--   GROUP BY cell
--   SELECT t2.c9 AS c0 FROM (SELECT CAST(t1.c0 AS DOUBLE) AS c9 FROM release_0 AS t1) AS t2

-- case: median by group beside a count
SELECT segment, MEDIAN(age) AS middle, COUNT(*) AS n FROM customers GROUP BY segment;
-- accept
-- keys: 2 public, l0 proved
-- release: rows l0=1 linf=1
-- choice: 2/4 of 121 l0=1 rows=1 all

-- case: a quantile of listed rows
SELECT status, QUANTILE_DISC(quantity, 0.25) AS low FROM orders GROUP BY status;
-- accept
-- keys: 3 public, l0 proved
-- choice: 2/8 of 21 l0=3 rows=10 hashed

-- case: a quantile from the other end
SELECT PERCENTILE_DISC(0.25) WITHIN GROUP (ORDER BY quantity DESC) AS high FROM orders;
-- accept
-- keys: 1 public, l0 proved
-- choice: 6/8 of 21 l0=1 rows=10 hashed

-- case: a quantile in words of the standard
SELECT status, PERCENTILE_DISC(0.75) WITHIN GROUP (ORDER BY amount) AS high FROM orders GROUP BY status;
-- accept
-- keys: 3 public, l0 proved
-- choice: 6/8 of 50001 l0=3 rows=10 hashed

-- case: quantiles at the ends are extremes
SELECT QUANTILE_DISC(quantity, 0) AS least, QUANTILE_DISC(quantity, 1) AS most FROM orders;
-- accept
-- keys: 1 public, l0 proved
-- choice: 0/2 of 21 l0=1 rows=1 least
-- choice: 2/2 of 21 l0=1 rows=1 greatest

-- case: quantiles of dates
SELECT QUANTILE_DISC(joined, 0.3) AS early, MIN(joined) AS first, MAX(joined) AS last FROM customers;
-- accept
-- keys: 1 public, l0 proved
-- choice: 6/20 of 2192 l0=1 rows=1 all
-- choice: 0/2 of 2192 l0=1 rows=1 least
-- choice: 2/2 of 2192 l0=1 rows=1 greatest

-- case: minimum and maximum
SELECT MIN(quantity) AS least, MAX(quantity) AS most FROM orders;
-- rows: orders (customer_id, quantity): (1, 3), (1, 5), (2, 4), (2, 90)
-- accept
-- keys: 1 public, l0 proved
-- choice: 0/2 of 21 l0=1 rows=1 least
-- choice: 2/2 of 21 l0=1 rows=1 greatest
-- integers: () cells 3:1 4:1
-- integers: () cells 5:1 20:1
-- rewrite:
--   WITH rows AS (SELECT t1."customer_id" AS u, t1."quantity" AS x0 FROM "orders" AS t1),
--   totals AS (
--     SELECT
--       u,
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
--     GROUP BY u
--   ),
--   bounded AS MATERIALIZED (SELECT l0 AS l0, l1 AS l1 FROM totals)
--   SELECT cell + 0 AS cell, COUNT(*)::HUGEINT AS n
--   FROM (SELECT unnest(l0) AS cell FROM bounded)
--   WHERE cell IS NOT NULL
--   GROUP BY cell
--   UNION ALL
--   SELECT cell + 21 AS cell, COUNT(*)::HUGEINT AS n
--   FROM (SELECT unnest(l1) AS cell FROM bounded)
--   WHERE cell IS NOT NULL
--   GROUP BY cell
--   SELECT t1.c0 AS c0, t1.c1 AS c1 FROM release_0 AS t1

-- case: the maximum beside a sum of the same column
SELECT SUM(amount) AS total, MAX(amount) AS most FROM orders;
-- accept
-- keys: 1 public, l0 proved
-- release: sum l0=1 linf=5000
-- choice: 2/2 of 50001 l0=1 rows=1 greatest

-- case: minimum of what varies within the group
SELECT status, MIN(amount) AS least FROM orders GROUP BY status;
-- accept
-- keys: 3 public, l0 proved
-- choice: 0/2 of 50001 l0=3 rows=1 least

-- case: extremes of private groups
SELECT device, MAX(duration) AS most, COUNT(*) AS n FROM events GROUP BY device;
-- accept
-- keys: private, l0 enforced
-- release: units l0=2 linf=1
-- release: rows l0=2 linf=5
-- choice: 2/2 of 3601 l0=2 rows=1 greatest

-- case: the minimum of distinct values is the minimum
SELECT MIN(DISTINCT quantity) AS least FROM orders;
-- accept
-- keys: 1 public, l0 proved
-- choice: 0/2 of 21 l0=1 rows=1 least

-- case: a filtered median
SELECT MEDIAN(quantity) FILTER (WHERE status <> 'open') AS middle FROM orders WHERE quantity < 2;
-- accept
-- keys: 1 public, l0 proved
-- tree: 2/4 of 2 l0=1 rows=10 hashed, 1 levels by 2

-- case: a filtered maximum of the key
SELECT joined, MAX(joined) FILTER (WHERE vip) AS last FROM customers WHERE joined BETWEEN DATE '2020-04-01' AND DATE '2020-04-20' GROUP BY joined;
-- accept
-- keys: 20 public, l0 proved
-- choice: 2/2 of 20 l0=1 rows=1 greatest

-- case: the greatest of listed texts
SELECT MAX(status) AS last, MIN(status) AS first FROM orders;
-- accept
-- keys: 1 public, l0 proved
-- choice: 2/2 of 3 l0=1 rows=1 greatest
-- choice: 0/2 of 3 l0=1 rows=1 least

-- case: a condition on a median
SELECT segment, COUNT(*) AS n FROM customers GROUP BY segment HAVING MEDIAN(age) > 20;
-- accept
-- keys: 2 public, l0 proved
-- release: rows l0=1 linf=1
-- choice: 2/4 of 121 l0=1 rows=1 all

-- case: the same median twice is chosen once
SELECT MEDIAN(age) AS a, QUANTILE_DISC(age, 0.5) AS b, MEDIAN(age) + 1 AS c FROM customers;
-- accept
-- keys: 1 public, l0 proved
-- choice: 2/4 of 121 l0=1 rows=1 all

-- case: one choice and its rows
SELECT country, MAX(age) AS oldest FROM customers GROUP BY country;
-- accept
-- keys: 3 public, l0 proved
-- choice: 2/2 of 121 l0=1 rows=1 greatest
-- rewrite:
--   WITH rows AS (SELECT t1."country" AS k0, t1."age" AS x0 FROM "customers" AS t1)
--   SELECT k0, NULL::BIGINT AS cell, 0::HUGEINT AS n
--   FROM (SELECT k0 FROM rows GROUP BY k0)
--   UNION ALL
--   SELECT k0, cell + 0 AS cell, COUNT(*)::HUGEINT AS n
--   FROM (
--     SELECT k0, ((CASE WHEN x0 < 0 THEN 0 WHEN x0 > 120 THEN 120 ELSE x0 END)::BIGINT - (0)) AS cell
--     FROM rows
--   )
--   WHERE cell IS NOT NULL
--   GROUP BY k0, cell
--   SELECT t1.c0 AS c0, t1.c1 AS c1 FROM release_0 AS t1

-- case: groups and rows of a unit are chosen
SELECT placed_at::DATE AS day, MEDIAN(quantity) AS middle FROM orders WHERE placed_at < TIMESTAMP '2024-01-04' GROUP BY day;
-- accept
-- keys: 3 public, l0 proved
-- choice: 2/4 of 21 l0=3 rows=10 hashed
-- rewrite:
--   WITH rows AS (
--     SELECT t1."customer_id" AS u, TRY_CAST(t1."placed_at" AS DATE) AS k0, t1."quantity" AS x0
--     FROM "orders" AS t1
--     WHERE (t1."placed_at" < TIMESTAMP '2024-01-04 00:00:00')
--   ),
--   totals AS (
--     SELECT
--       u,
--       k0,
--       list(((CASE WHEN x0 < 0 THEN 0 WHEN x0 > 20 THEN 20 ELSE x0 END)::BIGINT - (0))) FILTER (
--         WHERE ((CASE WHEN x0 < 0 THEN 0 WHEN x0 > 20 THEN 20 ELSE x0 END)::BIGINT - (0)) IS NOT NULL
--       ) AS l0
--     FROM rows
--     GROUP BY u, k0
--   ),
--   bounded AS MATERIALIZED (
--     SELECT
--       k0,
--       CASE
--         WHEN len(l0) > 10
--         THEN list_transform(
--           list_sort(
--             list_transform(l0, lambda x: {'h': hash($sampling_key::UBIGINT, u, k0, x), 'x': x})
--           )[1:10],
--           lambda pair: pair.x
--         )
--         ELSE l0
--       END AS l0
--     FROM totals
--   )
--   SELECT k0, NULL::BIGINT AS cell, 0::HUGEINT AS n
--   FROM (SELECT k0 FROM (SELECT k0 FROM bounded) GROUP BY k0)
--   UNION ALL
--   SELECT k0, cell + 0 AS cell, COUNT(*)::HUGEINT AS n
--   FROM (SELECT k0, unnest(l0) AS cell FROM bounded)
--   WHERE cell IS NOT NULL
--   GROUP BY k0, cell
--   SELECT t2.c10 AS c0, t2.c11 AS c1
--   FROM (SELECT t1.c0 AS c10, CAST(t1.c1 AS DOUBLE) AS c11 FROM release_0 AS t1) AS t2

-- case: median of an unbounded column
SELECT MEDIAN(note_length) FROM orders;
-- refuse: unbounded-input at 1:15

-- case: maximum of an unbounded column
SELECT MAX(note_length) FROM orders;
-- refuse: unbounded-input at 1:12

-- case: minimum of a text that is not listed
SELECT MIN(note) FROM orders;
-- refuse: unsupported-aggregate at 1:8

-- case: median of texts
SELECT MEDIAN(status) FROM orders;
-- refuse: type-mismatch at 1:8

-- case: median of distinct values
SELECT MEDIAN(DISTINCT quantity) FROM orders;
-- refuse: unsupported-aggregate at 1:8

-- case: a quantile ordered by another column
SELECT QUANTILE_DISC(quantity, 0.5 ORDER BY amount) FROM orders;
-- refuse: unsupported-aggregate at 1:8

-- case: a fraction beyond one
SELECT QUANTILE_DISC(quantity, 1.5) FROM orders;
-- refuse: unsupported-syntax at 1:8

-- case: a median without a limit on the unit's rows
SELECT MEDIAN(day) FROM logins;
-- accept
-- keys: 1 public, l0 proved
-- choice: 2/4 of 366 l0=1 rows=1048576 hashed

-- case: the row of the largest value is somebody's
SELECT ARG_MAX(note, amount) FROM orders;
-- refuse: unsupported-aggregate at 1:8

-- case: an approximate quantile
SELECT APPROX_QUANTILE(quantity, 0.4) AS low FROM orders WHERE quantity < 2;
-- accept
-- keys: 1 public, l0 proved
-- tree: 4/10 of 2 l0=1 rows=10 hashed, 1 levels by 2

-- case: several quantiles in one list
SELECT CAST(QUANTILE_DISC(quantity, [0.25, 0.5, 0.75]) AS VARCHAR) AS q FROM orders;
-- accept
-- keys: 1 public, l0 proved
-- tree: 2/8 2/4 6/8 of 21 l0=1 rows=10 hashed, 3 levels by 3

-- case: a list of quantiles by group, filtered and falling
SELECT status, CAST(PERCENTILE_DISC([0.1, 0.3, 0.6]) WITHIN GROUP (ORDER BY quantity DESC) FILTER (WHERE quantity > 1) AS VARCHAR) AS q FROM orders GROUP BY status;
-- accept
-- keys: 3 public, l0 proved
-- tree: 18/20 14/20 4/10 of 21 l0=3 rows=10 hashed, 3 levels by 3

-- case: a list of quantiles of dates
SELECT CAST(QUANTILE_DISC(joined, [0.25, 0.75]) AS VARCHAR) AS q FROM customers;
-- accept
-- keys: 1 public, l0 proved
-- choice: 2/8 of 2192 l0=1 rows=1 all
-- choice: 6/8 of 2192 l0=1 rows=1 all

-- case: a list as an array of Postgres
SELECT PERCENTILE_CONT(ARRAY[0.25, 0.5]) WITHIN GROUP (ORDER BY age) AS q FROM customers;
-- dialect: postgres
-- accept
-- keys: 1 public, l0 proved
-- choice: 2/8 of 121 l0=1 rows=1 all
-- choice: 2/4 of 121 l0=1 rows=1 all

-- case: boundaries of parts with equally many rows
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = 0.5) APPROX_QUANTILES(age, 10) AS q FROM customers;
-- accept
-- keys: 1 public, l0 proved
-- tree: 2/20 2/10 6/20 4/10 2/4 6/10 14/20 8/10 18/20 0/2 2/2 of 121 l0=1 rows=1 all, 7 levels by 2

-- case: a list of released values
SELECT CAST(QUANTILE_DISC(n, [0.1, 0.5]) AS VARCHAR) AS q FROM (SELECT status, COUNT(*) AS n FROM orders GROUP BY status) AS t;
-- accept
-- keys: 3 public, l0 proved
-- release: rows l0=3 linf=10

-- case: no number of parts
SELECT APPROX_QUANTILES(age, age) AS q FROM customers;
-- refuse: unsupported-syntax at 1:30

-- case: a list with a column in it
SELECT QUANTILE_DISC(age, [0.1, age]) AS q FROM customers;
-- refuse: unsupported-syntax at 1:8

-- case: a list with a fraction beyond one
SELECT QUANTILE_DISC(age, [0.1, 2]) AS q FROM customers;
-- refuse: unsupported-syntax at 1:8

-- case: a list of counts
SELECT COUNT([1]) AS q FROM customers;
-- refuse: unsupported-syntax at 1:14

-- case: a list over a window
SELECT QUANTILE_DISC(n, [0.1]) OVER () AS q FROM (SELECT status, COUNT(*) AS n FROM orders GROUP BY status) AS t;
-- refuse: unsupported-syntax at 1:25

-- case: an element of a list
SELECT QUANTILE_DISC(age, [0.1])[1] AS q FROM customers;
-- refuse: unsupported-syntax at 1:33

-- case: a median by group and in all
SELECT segment, QUANTILE_DISC(age, 0.5) AS middle FROM customers WHERE age < 40 GROUP BY ROLLUP (segment);
-- accept
-- keys: 2 public, l0 proved
-- choice: 2/4 of 40 l0=1 rows=1 all
-- keys: 1 public, l0 proved
-- choice: 2/4 of 40 l0=1 rows=1 all

-- case: deciles from a tree
SELECT QUANTILE_DISC(age, 0.1) AS a, QUANTILE_DISC(age, 0.2) AS b, QUANTILE_DISC(age, 0.3) AS c, QUANTILE_DISC(age, 0.4) AS d, MEDIAN(age) AS e, QUANTILE_DISC(age, 0.6) AS f, QUANTILE_DISC(age, 0.7) AS g, QUANTILE_DISC(age, 0.8) AS h, QUANTILE_DISC(age, 0.9) AS i FROM customers;
-- accept
-- keys: 1 public, l0 proved
-- tree: 2/20 2/10 6/20 4/10 2/4 6/10 14/20 8/10 18/20 of 121 l0=1 rows=1 all, 7 levels by 2
