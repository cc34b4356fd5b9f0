-- MODE: the most frequent of values that are public.
-- catalog: shop

-- case: most frequent of listed values
SELECT MODE(country) AS country FROM customers WHERE country = 'NO' OR age > 30;
-- rows: customers (customer_id, country, age): (1, 'NO', 20), (2, 'SE', 20), (3, 'SE', 40), (4, 'NO', 5)
-- accept
-- keys: 1 public, l0 proved
-- choice: most of 3 l0=1 rows=1 all
-- integers: () cells 1:2 2:1
-- rewrite:
--   WITH rows AS (
--     SELECT t1."country" AS x0 FROM "customers" AS t1 WHERE (t1."country" = 'NO' OR t1."age" > 30)
--   )
--   SELECT cell + 0 AS cell, COUNT(*)::HUGEINT AS n
--   FROM (SELECT (NULLIF(list_position(['IT', 'NO', 'SE'], x0), 0) - 1)::BIGINT AS cell FROM rows)
--   WHERE cell IS NOT NULL
--   GROUP BY cell
--   SELECT t2.c9 AS c0
--   FROM (
--     SELECT CASE WHEN t1.c0 = 0 THEN 'IT' WHEN t1.c0 = 1 THEN 'NO' ELSE 'SE' END AS c9
--     FROM release_0 AS t1
--   ) AS t2

-- case: most frequent of truth values
SELECT segment, MODE(vip) AS vip FROM customers WHERE customer_id <> 6 GROUP BY segment;
-- accept
-- keys: 2 public, l0 proved
-- choice: most of 2 l0=1 rows=1 all

-- case: most frequent whole number
SELECT MODE(quantity) AS usual FROM orders;
-- accept
-- keys: 1 public, l0 proved
-- choice: most of 21 l0=1 rows=10 hashed

-- case: most frequent number beyond the list of keys
SELECT MODE(duration) AS usual FROM events;
-- accept
-- keys: 1 public, l0 proved
-- choice: most of 3601 l0=1 rows=5 hashed
-- rewrite:
--   WITH rows AS (SELECT t1."customer_id" AS u, t1."duration" AS x0 FROM "events" AS t1),
--   totals AS (
--     SELECT
--       u,
--       list(((CASE WHEN x0 < 0 THEN 0 WHEN x0 > 3600 THEN 3600 ELSE x0 END)::BIGINT - (0))) FILTER (
--         WHERE ((CASE WHEN x0 < 0 THEN 0 WHEN x0 > 3600 THEN 3600 ELSE x0 END)::BIGINT - (0)) IS NOT NULL
--       ) AS l0
--     FROM rows
--     GROUP BY u
--   ),
--   bounded AS MATERIALIZED (
--     SELECT CASE
--       WHEN len(l0) > 5
--       THEN list_transform(
--         list_sort(list_transform(l0, lambda x: {'h': hash($sampling_key::UBIGINT, u, x), 'x': x}))[1:5],
--         lambda pair: pair.x
--       )
--       ELSE l0
--     END AS l0
--     FROM totals
--   )
--   SELECT cell + 0 AS cell, COUNT(*)::HUGEINT AS n
--   FROM (SELECT unnest(l0) AS cell FROM bounded)
--   WHERE cell IS NOT NULL
--   GROUP BY cell
--   SELECT t1.c0 AS c0 FROM release_0 AS t1

-- case: most frequent part of a date
SELECT MODE(HOUR(placed_at)) AS hour, COUNT(*) AS n FROM orders WHERE quantity = 1;
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=10
-- choice: most of 24 l0=1 rows=10 hashed

-- case: the filtered mode
SELECT MODE(quantity) FILTER (WHERE amount > 20) AS usual FROM orders;
-- accept
-- keys: 1 public, l0 proved
-- choice: most of 21 l0=1 rows=10 hashed

-- case: mode in words of the standard
SELECT MODE() WITHIN GROUP (ORDER BY quantity) AS usual FROM orders;
-- accept
-- keys: 1 public, l0 proved
-- choice: most of 21 l0=1 rows=10 hashed

-- case: most frequent of texts that are not listed
SELECT MODE(note) FROM orders;
-- refuse: unsupported-aggregate at 1:8

-- case: mode of a measurement
SELECT MODE(discount) FROM orders;
-- refuse: unsupported-aggregate at 1:8

-- case: mode from the other end
SELECT MODE() WITHIN GROUP (ORDER BY quantity DESC) FROM orders;
-- refuse: unsupported-aggregate at 1:8

-- case: mode of distinct values
SELECT MODE(DISTINCT quantity) FROM orders;
-- refuse: unsupported-aggregate at 1:8

-- case: the one value that all rows have is not measured
SELECT MODE(segment) AS usual FROM customers WHERE segment = 'consumer';
-- accept
-- keys: 1 public, l0 proved

-- case: one candidate that rows may miss is chosen, as one of many would be
SELECT MODE(segment) FILTER (WHERE age > 30) AS usual FROM customers WHERE segment = 'consumer';
-- accept
-- keys: 1 public, l0 proved
-- choice: most of 1 l0=1 rows=1 all

-- case: the mode of a constant within a unit, in any order of its rows
SELECT SUM(m) AS s FROM (SELECT customer_id, MODE(COALESCE(10, 5)) AS m FROM orders GROUP BY customer_id) AS t;
-- accept
-- keys: 1 public, l0 proved
-- release: sum l0=1 linf=10

-- case: the mode of a constant by an order of its own
SELECT SUM(m) AS s FROM (SELECT customer_id, MODE(0.5 ORDER BY quantity DESC) AS m FROM orders GROUP BY customer_id) AS t;
-- accept
-- keys: 1 public, l0 proved
-- release: sum l0=1 linf=0.5
