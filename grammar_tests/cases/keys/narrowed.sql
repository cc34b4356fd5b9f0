-- What WHERE says of an expression bounds the columns in it, and the expression itself.
-- catalog: shop

-- case: a year and a month of a time
SELECT DATE_TRUNC('hour', placed_at) AS hour, COUNT(*) AS n FROM orders
WHERE YEAR(placed_at) = 2024 AND MONTH(placed_at) = 3 GROUP BY 1;
-- accept
-- keys: 744 public, l0 enforced
-- release: rows l0=3 linf=10

-- case: a time as a date
SELECT DATE_TRUNC('hour', placed_at) AS hour, COUNT(*) AS n FROM orders
WHERE placed_at::DATE BETWEEN '2024-03-01' AND '2024-03-07' GROUP BY 1;
-- accept
-- keys: 168 public, l0 enforced
-- release: rows l0=3 linf=10

-- case: a time truncated
SELECT DATE_TRUNC('hour', placed_at) AS hour, COUNT(*) AS n FROM orders
WHERE DATE_TRUNC('week', placed_at) = '2024-03-04' GROUP BY 1;
-- accept
-- keys: 168 public, l0 enforced
-- release: rows l0=3 linf=10

-- case: a time beside a date
SELECT DATE_TRUNC('hour', placed_at) AS hour, COUNT(*) AS n FROM orders
WHERE placed_at >= DATE '2025-12-25' GROUP BY 1;
-- accept
-- keys: 168 public, l0 enforced
-- release: rows l0=3 linf=10

-- case: a date beside a time
SELECT joined, COUNT(*) AS n FROM customers WHERE joined >= TIMESTAMP '2025-12-01 12:00:00'
GROUP BY joined;
-- accept
-- keys: 30 public, l0 proved
-- release: rows l0=1 linf=1

-- case: the years of a list
SELECT DATE_TRUNC('month', joined) AS month, COUNT(*) AS n FROM customers
WHERE YEAR(joined) IN (2024, 2025) GROUP BY 1;
-- accept
-- keys: 24 public, l0 proved
-- release: rows l0=1 linf=1

-- case: years that OR joins
SELECT DATE_TRUNC('month', joined) AS month, COUNT(*) AS n FROM customers
WHERE YEAR(joined) = 2021 OR YEAR(joined) = 2022 AND MONTH(joined) < 7 GROUP BY 1;
-- accept
-- keys: 18 public, l0 proved
-- release: rows l0=1 linf=1
-- rewrite:
--   WITH rows AS (
--     SELECT TRY(date_trunc('month', t1."joined")) AS k0
--     FROM "customers" AS t1
--     WHERE (
--       CAST(extract(year FROM t1."joined") AS BIGINT) = 2021
--       OR CAST(extract(year FROM t1."joined") AS BIGINT) = 2022
--       AND CAST(extract(month FROM t1."joined") AS BIGINT) < 7
--     )
--   )
--   SELECT k0, COALESCE(COUNT(*)::HUGEINT, 0) AS p0
--   FROM rows
--   GROUP BY k0
--   SELECT t1.c0 AS c0, t1.c1 AS c1 FROM release_0 AS t1

-- case: a year that OR opens
SELECT DATE_TRUNC('month', joined) AS month, COUNT(*) AS n FROM customers
WHERE YEAR(joined) = 2021 OR vip GROUP BY 1;
-- accept
-- keys: 72 public, l0 proved
-- release: rows l0=1 linf=1

-- case: arithmetic on a column
SELECT SUM(duration) AS s FROM events WHERE duration * 2 + 1 < 100;
-- accept
-- keys: 1 public, l0 proved
-- release: sum l0=1 linf=245

-- case: arithmetic on a column without bounds
SELECT event_id % 5 AS shard, COUNT(*) AS n FROM events WHERE event_id - 100 BETWEEN 1 AND 20
GROUP BY 1;
-- accept
-- keys: 5 public, l0 enforced
-- release: rows l0=2 linf=5

-- case: buckets that WHERE bounds
SELECT note_length // 10 AS bucket, COUNT(*) AS n FROM orders
WHERE note_length // 10 BETWEEN 0 AND 4 GROUP BY 1;
-- accept
-- keys: 5 public, l0 enforced
-- release: rows l0=3 linf=10

-- case: buckets that WHERE lists
SELECT note_length // 10 AS bucket, COUNT(*) AS n FROM orders
WHERE note_length // 10 IN (0, 1, 4) GROUP BY 1;
-- accept
-- keys: 3 public, l0 proved
-- release: rows l0=3 linf=10

-- case: a text that WHERE lists
SELECT LOWER(city) AS town, COUNT(*) AS n FROM customers WHERE LOWER(city) IN ('oslo', 'bergen')
GROUP BY 1;
-- accept
-- keys: 2 public, l0 proved
-- release: rows l0=1 linf=1

-- case: an expression of a subquery
SELECT bucket, COUNT(*) AS n FROM (SELECT note_length // 10 AS bucket FROM orders) b
WHERE bucket >= 0 AND bucket < 5 GROUP BY bucket;
-- accept
-- keys: 5 public, l0 enforced
-- release: rows l0=3 linf=10

-- case: an expression under CASE
SELECT CASE WHEN quantity > 30 THEN quantity ELSE 1 END AS size, COUNT(*) AS n FROM orders
GROUP BY 1;
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=10

-- case: a month is compared with a number
SELECT COUNT(*) FROM orders WHERE MONTH(placed_at) = 'March';
-- refuse: type-mismatch at 1:54

-- case: a date that is none
SELECT COUNT(*) FROM orders WHERE placed_at::DATE = '2024-02-30';
-- refuse: type-mismatch at 1:53

-- case: a bucket of another column is not bounded
SELECT note_length // 10 AS bucket, COUNT(*) AS n FROM orders WHERE note_length // 10 < quantity
GROUP BY 1;
-- accept
-- keys: private, l0 enforced
-- release: units l0=3 linf=1
-- release: rows l0=3 linf=10
-- rewrite:
--   WITH rows AS (
--     SELECT t1."customer_id" AS u, t1."note_length" // 10::BIGINT AS k0
--     FROM "orders" AS t1
--     WHERE (t1."note_length" // 10::BIGINT < t1."quantity")
--   ),
--   totals AS (SELECT u, k0, 1 AS s0, COUNT(*) AS s1 FROM rows GROUP BY u, k0),
--   clipped AS MATERIALIZED (
--     SELECT
--       u,
--       k0,
--       (CASE WHEN s0 < 0 THEN 0 WHEN s0 > 1 THEN 1 ELSE s0 END)::BIGINT AS p0,
--       (CASE WHEN s1 < 0 THEN 0 WHEN s1 > 10 THEN 10 ELSE s1 END)::BIGINT AS p1
--     FROM totals
--   ),
--   above AS MATERIALIZED (SELECT u, COUNT(*) AS groups FROM clipped GROUP BY u HAVING COUNT(*) > 3),
--   beyond AS (
--     SELECT
--       clipped.*,
--       (
--         ROW_NUMBER() OVER (PARTITION BY u ORDER BY hash(u, k0), k0)
--         + (hash($sampling_key::UBIGINT, u) >> 2)::BIGINT
--       ) % groups AS place
--     FROM clipped JOIN above USING (u)
--   )
--   SELECT k0, COALESCE(SUM(p0)::HUGEINT, 0) AS p0, COALESCE(SUM(p1)::HUGEINT, 0) AS p1
--   FROM (
--     SELECT k0, p0, p1, 1 AS one
--     FROM clipped
--     UNION ALL
--     SELECT k0, -p0, -p1, -1
--     FROM beyond
--     WHERE place >= 3
--   )
--   GROUP BY k0
--   HAVING SUM(one) > 0
--   SELECT t1.c0 AS c0, t1.c2 AS c1 FROM release_0 AS t1

-- case: Unix hours
SELECT FLOOR(EXTRACT(epoch FROM placed_at) / 3600) * 3600 AS "time", COUNT(*) AS n FROM orders
WHERE placed_at BETWEEN '2024-03-01T00:00:00Z' AND '2024-03-07T00:00:00Z' GROUP BY 1 ORDER BY 1;
-- dialect: postgres
-- accept
-- keys: 145 public, l0 enforced
-- release: rows l0=3 linf=10

-- case: Unix days between Unix seconds
SELECT FLOOR((EXTRACT(epoch FROM placed_at)::BIGINT) / 86400) * 86400 AS "time", COUNT(*) AS n
FROM orders WHERE EXTRACT(epoch FROM placed_at)::BIGINT >= 1709251200
AND EXTRACT(epoch FROM placed_at)::BIGINT <= 1711929599 GROUP BY 1 ORDER BY 1;
-- dialect: postgres
-- accept
-- keys: 31 public, l0 enforced
-- release: rows l0=3 linf=10

-- case: hours between Unix seconds
SELECT DATE_TRUNC('hour', placed_at) AS hour, COUNT(*) AS n FROM orders
WHERE EPOCH(placed_at) >= 1709251200 AND EPOCH(placed_at) < 1709424000 GROUP BY 1;
-- accept
-- keys: 48 public, l0 enforced
-- release: rows l0=3 linf=10

-- case: days after an interval
SELECT joined, COUNT(*) AS n FROM customers WHERE joined + INTERVAL '7 days' >= '2025-12-25'
GROUP BY joined;
-- accept
-- keys: 14 public, l0 proved
-- release: rows l0=1 linf=1

-- case: a month written as text
SELECT DATE_TRUNC('day', placed_at) AS day, COUNT(*) AS n FROM orders
WHERE placed_at >= '2024-01-01' AND STRFTIME(placed_at, '%Y-%m') = '2024-02' GROUP BY 1;
-- accept
-- keys: 731 public, l0 enforced
-- release: rows l0=3 linf=10
