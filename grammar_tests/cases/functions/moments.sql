-- Moments: intervals added, parts, buckets and text, with the domains that follow.
-- catalog: shop

-- case: a day later than a constant
SELECT COUNT(*) FROM orders WHERE placed_at > TIMESTAMP '2024-01-01' + INTERVAL 1 DAY;
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=10

-- case: a month before a column
SELECT COUNT(*) FROM orders WHERE placed_at - INTERVAL '3 months' < TIMESTAMP '2024-02-01';
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=10

-- case: weeks that begin on Sunday
SELECT CAST((DATE_TRUNC('day', CAST(placed_at AS DATE)) + (-EXTRACT(DOW FROM placed_at) * INTERVAL '1 DAY')) AS DATE) AS week, COUNT(*) AS n FROM orders WHERE placed_at < '2024-03-01' GROUP BY 1;
-- dialect: postgres
-- accept
-- keys: 9 public, l0 enforced
-- release: rows l0=3 linf=10

-- case: hours by the epoch
SELECT floor(extract(epoch FROM placed_at) / 3600) * 3600 AS hour, COUNT(*) AS n FROM orders WHERE placed_at >= '2024-01-01' AND placed_at < '2024-01-08' GROUP BY 1;
-- accept
-- keys: 168 public, l0 enforced
-- release: rows l0=3 linf=10

-- case: days by an epoch with bounds of its own
SELECT floor(extract(epoch FROM placed_at)::bigint / 86400) * 86400 AS day, COUNT(*) AS n FROM orders WHERE extract(epoch FROM placed_at)::bigint >= 1704067200 AND extract(epoch FROM placed_at)::bigint < 1706745600 GROUP BY 1;
-- accept
-- keys: 31 public, l0 enforced
-- release: rows l0=3 linf=10

-- case: literals with a format
SELECT COUNT(*) FROM orders WHERE placed_at >= TO_TIMESTAMP('2024-01-01 00:00:00.000000', 'YYYY-MM-DD HH24:MI:SS.US');
-- dialect: postgres
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=10

-- case: literals with a zone against a plain timestamp
SELECT COUNT(*) FROM orders WHERE placed_at BETWEEN '2024-01-01T00:00:00Z' AND '2024-06-01T00:00:00Z';
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=10

-- case: days between a date and a constant
SELECT AVG(DATE_DIFF('day', joined, DATE '2025-12-31')) AS d FROM customers;
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=1
-- release: sum l0=1 linf=1096

-- case: dates subtracted
SELECT AVG(DATE '2025-12-31' - joined) AS d FROM customers;
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=1
-- release: sum l0=1 linf=1096

-- case: a number of days later
SELECT COUNT(*) FROM customers WHERE joined + 30 < DATE '2021-01-01';
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=1

-- case: a number is no interval
SELECT COUNT(*) FROM orders WHERE placed_at + 30 < DATE '2021-01-01';
-- refuse: type-mismatch at 1:35

-- case: the last day of the month
SELECT LAST_DAY(placed_at) AS d, COUNT(*) AS n FROM orders WHERE placed_at < '2024-06-01' GROUP BY 1;
-- accept
-- keys: 5 public, l0 enforced
-- release: rows l0=3 linf=10

-- case: names of months
SELECT MONTHNAME(placed_at) AS m, COUNT(*) AS n FROM orders GROUP BY 1;
-- accept
-- keys: 12 public, l0 enforced
-- release: rows l0=3 linf=10
-- rewrite:
--   WITH rows AS (
--     SELECT t1."customer_id" AS u, TRY(monthname(t1."placed_at")) AS k0 FROM "orders" AS t1
--   ),
--   totals AS (SELECT u, k0, COUNT(*) AS s0 FROM rows GROUP BY u, k0),
--   clipped AS MATERIALIZED (
--     SELECT u, k0, (CASE WHEN s0 < 0 THEN 0 WHEN s0 > 10 THEN 10 ELSE s0 END)::BIGINT AS p0 FROM totals
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
--   SELECT k0, COALESCE(SUM(p0)::HUGEINT, 0) AS p0
--   FROM (
--     SELECT k0, p0, 1 AS one FROM clipped UNION ALL SELECT k0, -p0, -1 FROM beyond WHERE place >= 3
--   )
--   GROUP BY k0
--   HAVING SUM(one) > 0
--   SELECT t1.c0 AS c0, t1.c1 AS c1 FROM release_0 AS t1

-- case: names of days
SELECT DAYNAME(joined) AS d, COUNT(*) AS n FROM customers GROUP BY 1;
-- accept
-- keys: 7 public, l0 proved
-- release: rows l0=1 linf=1

-- case: months as text
SELECT STRFTIME(placed_at, '%Y-%m') AS m, COUNT(*) AS n FROM orders GROUP BY 1;
-- accept
-- keys: 24 public, l0 enforced
-- release: rows l0=3 linf=10

-- case: buckets of six hours
SELECT TIME_BUCKET(INTERVAL '6 hours', placed_at) AS b, COUNT(*) AS n FROM orders WHERE placed_at >= '2024-01-01' AND placed_at < '2024-02-01' GROUP BY 1;
-- accept
-- keys: 124 public, l0 enforced
-- release: rows l0=3 linf=10

-- case: a date from its parts
SELECT COUNT(*) FROM orders WHERE placed_at < MAKE_DATE(2024, 6, 1);
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=10

-- case: time between orders of a unit
SELECT AVG(d) AS d FROM (SELECT DATE_DIFF('day', LAG(placed_at) OVER (PARTITION BY customer_id ORDER BY placed_at), placed_at) AS d FROM orders) t WHERE d BETWEEN 0 AND 400;
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=10
-- release: sum l0=1 linf=2000

-- case: an interval by itself
SELECT INTERVAL 1 DAY AS i, COUNT(*) FROM orders;
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=10

-- case: a day before the time of asking
SELECT COUNT(*) FROM orders WHERE placed_at > CURRENT_TIMESTAMP - INTERVAL 1 DAY;
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=10

-- case: a format that rows decide
SELECT COUNT(*) FROM orders WHERE STRFTIME(placed_at, note) = 'x';
-- refuse: unsupported-function at 1:35

-- case: Superset's five minutes
SELECT DATE_TRUNC('HOUR', placed_at) + INTERVAL '5 MINUTES' * FLOOR(EXTRACT(MINUTE FROM placed_at) / 5) AS t, COUNT(*) AS n FROM orders WHERE placed_at >= '2024-01-01' AND placed_at < '2024-01-03' GROUP BY 1;
-- dialect: postgres
-- accept
-- keys: 576 public, l0 enforced
-- release: rows l0=3 linf=10

-- case: Superset's thirty seconds
SELECT DATE_TRUNC('MINUTE', placed_at) + INTERVAL '30 SECONDS' * FLOOR(EXTRACT(SECOND FROM placed_at) / 30) AS t, COUNT(*) AS n FROM orders WHERE placed_at >= '2024-01-01' AND placed_at < '2024-01-01 04:00:00' GROUP BY 1;
-- dialect: postgres
-- accept
-- keys: 480 public, l0 enforced
-- release: rows l0=3 linf=10

-- case: an interval times a fraction
SELECT COUNT(*) AS n FROM orders WHERE placed_at < TIMESTAMP '2024-06-01' - INTERVAL '1 hour' * discount;
-- dialect: postgres
-- refuse: type-mismatch at 1:62

-- case: Postgres' parts are no integers when divided
SELECT SUM(EXTRACT(MINUTE FROM placed_at) / 60) AS hours, SUM((1 + EXTRACT(HOUR FROM placed_at)) / 24) AS days, SUM(quantity / 20) AS full FROM orders;
-- dialect: postgres
-- accept
-- keys: 1 public, l0 proved
-- release: sum l0=1 linf=9.833333334
-- release: sum l0=1 linf=10
-- release: sum l0=1 linf=10

-- case: days of the week by Postgres' padded name
SELECT TO_CHAR(placed_at, 'Day') AS d, COUNT(*) AS n FROM orders GROUP BY 1;
-- dialect: postgres
-- accept
-- keys: 7 public, l0 enforced
-- release: rows l0=3 linf=10

-- case: names in the case of their pattern, and a quarter
SELECT TO_CHAR(joined, 'FMmonth') AS m, TO_CHAR(joined, 'YYYY "Q"Q') AS q, COUNT(*) AS n FROM customers WHERE joined < '2021-07-01' GROUP BY 1, 2;
-- dialect: postgres
-- accept
-- keys: 18 public, l0 proved
-- release: rows l0=1 linf=1

-- case: a pattern that there is not
SELECT TO_CHAR(placed_at, 'Days') AS d, COUNT(*) AS n FROM orders GROUP BY 1;
-- dialect: postgres
-- refuse: unsupported-syntax at 1:27

-- case: texts that are read as dates by their format
SELECT COUNT(*) AS n FROM orders WHERE TO_DATE(note, 'DD/MM/YYYY') < DATE '2024-07-01' OR TO_TIMESTAMP(note, 'YYYY-MM-DD HH24:MI:SS') > '2025-01-01';
-- dialect: postgres
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=10

-- case: texts that say no year
SELECT COUNT(*) AS n FROM orders WHERE TO_DATE(note, 'DD/MM') < DATE '2024-07-01';
-- dialect: postgres
-- refuse: unsupported-syntax at 1:54

-- case: the hour and minute of an instant
SELECT COUNT(*) AS n FROM orders WHERE CAST(placed_at AT TIME ZONE 'UTC' AS TIME) < '12:30';
-- dialect: postgres
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=10

-- case: the hour and minute of a day
SELECT COUNT(*) AS n FROM customers WHERE CAST(joined AS TIME) < '12:30';
-- refuse: type-mismatch at 1:48

-- case: an interval whose signs stand apart
SELECT COUNT(*) AS n FROM orders WHERE placed_at < DATE_TRUNC('month', TIMESTAMP '2024-06-15') + INTERVAL '1 month - 1 day - 02:00';
-- dialect: postgres
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=10

-- case: an interval of a sign alone
SELECT COUNT(*) AS n FROM orders WHERE placed_at < TIMESTAMP '2024-06-15' + INTERVAL '1 month -';
-- dialect: postgres
-- refuse: type-mismatch at 1:86
