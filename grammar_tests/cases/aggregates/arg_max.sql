-- ARG_MAX(x, y): the listed x that a few people reach the highest level of y with.
-- catalog: shop

-- case: the segment of the oldest
SELECT ARG_MAX(country, age) AS c FROM customers WHERE customer_id > 0;
-- accept
-- keys: 1 public, l0 proved
-- choice: peak of 3 of 363 l0=1 rows=1 greatest
-- rewrite:
--   WITH rows AS (
--     SELECT TRY(
--       TRY(
--         TRY(CASE WHEN t1."age" < 0 THEN 0 WHEN t1."age" > 120 THEN 120 ELSE t1."age" END - 0::BIGINT)
--         * 3::HUGEINT
--       )
--       + CASE
--         WHEN t1."country" = 'IT' THEN 0
--         WHEN t1."country" = 'NO' THEN 1
--         WHEN t1."country" = 'SE' THEN 2
--         ELSE CAST(NULL AS BIGINT)
--       END
--     ) AS x0
--     FROM "customers" AS t1
--     WHERE (t1."customer_id" > 0)
--   )
--   SELECT cell + 0 AS cell, COUNT(*)::HUGEINT AS n
--   FROM (
--     SELECT ((CASE WHEN x0 < 0 THEN 0 WHEN x0 > 362 THEN 362 ELSE x0 END)::BIGINT - (0)) AS cell
--     FROM rows
--   )
--   WHERE cell IS NOT NULL
--   GROUP BY cell
--   SELECT t2.c9 AS c0
--   FROM (
--     SELECT CASE WHEN t1.c0 = 0 THEN 'IT' WHEN t1.c0 = 1 THEN 'NO' ELSE 'SE' END AS c9
--     FROM release_0 AS t1
--   ) AS t2

-- case: by groups, of several rows of a person
SELECT status, ARG_MIN(HOUR(placed_at), quantity) AS h FROM orders GROUP BY status;
-- accept
-- keys: 3 public, l0 proved
-- choice: peak of 24 of 504 l0=3 rows=1 least

-- case: filtered, of truth values, by what has many levels
SELECT MAX_BY(vip, CAST(income AS INTEGER)) FILTER (WHERE country = 'NO') AS v FROM customers;
-- accept
-- keys: 1 public, l0 proved
-- choice: peak of 2 of 57144 l0=1 rows=1 greatest

-- case: under the pure accountant beside a count
SELECT COUNT(*) AS n, MIN_BY(segment, age) AS s FROM customers;
-- accountant: pure
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=1
-- choice: peak of 2 of 242 l0=1 rows=1 least
-- rewrite:
--   WITH rows AS (
--     SELECT TRY(
--       TRY(
--         TRY(CASE WHEN t1."age" < 0 THEN 0 WHEN t1."age" > 120 THEN 120 ELSE t1."age" END - 0::BIGINT)
--         * 2::HUGEINT
--       )
--       + CASE
--         WHEN t1."segment" = 'business' THEN 0
--         WHEN t1."segment" = 'consumer' THEN 1
--         ELSE CAST(NULL AS BIGINT)
--       END
--     ) AS x0
--     FROM "customers" AS t1
--   )
--   SELECT NULL::BIGINT AS cell, p0, 0::HUGEINT AS n
--   FROM (SELECT COALESCE(COUNT(*)::HUGEINT, 0) AS p0 FROM rows)
--   UNION ALL
--   SELECT cell + 0 AS cell, 0::HUGEINT AS p0, COUNT(*)::HUGEINT AS n
--   FROM (
--     SELECT ((CASE WHEN x0 < 0 THEN 0 WHEN x0 > 241 THEN 241 ELSE x0 END)::BIGINT - (0)) AS cell
--     FROM rows
--   )
--   WHERE cell IS NOT NULL
--   GROUP BY cell
--   SELECT t2.c9 AS c0, t2.c10 AS c1
--   FROM (
--     SELECT t1.c0 AS c9, CASE WHEN t1.c1 = 0 THEN 'business' ELSE 'consumer' END AS c10
--     FROM release_0 AS t1
--   ) AS t2

-- case: by a number that is not whole
SELECT ARG_MAX(country, income) AS c FROM customers;
-- accept
-- keys: 1 public, l0 proved
-- choice: peak of 3 of 65535 l0=1 rows=1 greatest

-- case: by a decimal, of several rows of a person
SELECT ARG_MIN(status, amount) AS s FROM orders;
-- accept
-- keys: 1 public, l0 proved
-- choice: peak of 3 of 50001 l0=1 rows=1 least

-- case: by a date
SELECT segment, MAX_BY(country, joined) AS c FROM customers GROUP BY segment;
-- accept
-- keys: 2 public, l0 proved
-- choice: peak of 3 of 6576 l0=1 rows=1 greatest

-- case: by a time
SELECT ARG_MAX(status, placed_at) AS s, ARGMIN(quantity, placed_at) AS q FROM orders;
-- accept
-- keys: 1 public, l0 proved
-- choice: peak of 3 of 65535 l0=1 rows=1 greatest
-- choice: peak of 21 of 65520 l0=1 rows=1 least

-- case: NULL is a value where it is asked for
SELECT ARG_MAX_NULL(age, joined) AS a, ARG_MAX(age, joined) AS b, ARG_MIN_NULL(segment, joined) AS c FROM customers;
-- accept
-- keys: 1 public, l0 proved
-- choice: peak of 122 of 53558 l0=1 rows=1 greatest
-- choice: peak of 121 of 53119 l0=1 rows=1 greatest
-- choice: peak of 2 of 4384 l0=1 rows=1 least

-- case: by a text
SELECT ARG_MAX(status, note) AS s FROM orders;
-- refuse: unsupported-aggregate at 1:8

-- case: NULL among values that nobody lists
SELECT ARG_MAX_NULL(note, quantity) AS s FROM orders;
-- refuse: unsupported-aggregate at 1:8

-- case: by what has no bounds
SELECT ARG_MAX(status, note_length) AS s FROM orders;
-- refuse: unbounded-input at 1:24

-- case: of values that nobody lists
SELECT ARG_MAX(note, quantity) AS s FROM orders;
-- refuse: unsupported-aggregate at 1:8

-- case: of different rows
SELECT ARG_MAX(DISTINCT status, quantity) AS s FROM orders;
-- refuse: unsupported-aggregate at 1:8
