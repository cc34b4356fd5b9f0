-- Time zones: AT TIME ZONE with a constant name, and times beside times with a zone, in UTC.
-- catalog: shop

-- case: the months of a place
SELECT DATE_TRUNC('month', placed_at AT TIME ZONE 'UTC' AT TIME ZONE 'Europe/Berlin') AS month,
    COUNT(*) AS n FROM orders GROUP BY 1;
-- accept
-- keys: 26 public, l0 enforced
-- release: rows l0=3 linf=10

-- case: the days of a place, as dates
SELECT CAST(placed_at AT TIME ZONE 'UTC' AT TIME ZONE 'America/New_York' AS DATE) AS day,
    COUNT(*) AS n FROM orders WHERE placed_at < '2024-02-01' GROUP BY 1;
-- accept
-- keys: 33 public, l0 enforced
-- release: rows l0=3 linf=10

-- case: the zone of UTC moves nothing
SELECT EXTRACT(hour FROM placed_at::TIMESTAMPTZ AT TIME ZONE 'Etc/UTC') AS hour, COUNT(*) AS n
FROM orders GROUP BY 1;
-- accept
-- keys: 24 public, l0 enforced
-- release: rows l0=3 linf=10

-- case: the hours of a place
SELECT EXTRACT(hour FROM TIMEZONE('asia/tokyo', placed_at::TIMESTAMPTZ)) AS hour, COUNT(*) AS n
FROM orders GROUP BY 1;
-- accept
-- keys: 24 public, l0 enforced
-- release: rows l0=3 linf=10

-- case: the weekdays of a place
SELECT EXTRACT(DOW FROM placed_at::timestamptz AT TIME ZONE 'Australia/Sydney') AS day,
    SUM(amount) AS total FROM orders GROUP BY 1;
-- dialect: postgres
-- accept
-- keys: 7 public, l0 enforced
-- release: sum l0=3 linf=5000

-- case: WHERE by the clock of a place
SELECT COUNT(*) AS n FROM orders
WHERE placed_at AT TIME ZONE 'UTC' AT TIME ZONE 'Europe/Oslo' >= '2024-06-01';
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=10

-- case: a time beside a constant with a zone
SELECT COUNT(*) AS n FROM orders WHERE placed_at >= TIMESTAMPTZ '2024-06-01 00:00:00+02:00';
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=10

-- case: a constant with a zone beside a time
SELECT COUNT(*) AS n FROM orders WHERE TIMESTAMPTZ '2024-06-01 00:00:00+02:00' > placed_at;
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=10

-- case: a time beside texts with T and Z
SELECT DATE_TRUNC('day', placed_at) AS day, COUNT(*) AS n FROM orders
WHERE placed_at BETWEEN '2024-06-01T00:00:00Z' AND '2024-06-30T23:59:59Z' GROUP BY 1;
-- accept
-- keys: 30 public, l0 enforced
-- release: rows l0=3 linf=10

-- case: a date beside a constant with a zone
SELECT joined, COUNT(*) AS n FROM customers
WHERE joined >= TIMESTAMPTZ '2025-12-01 00:00:00+02:00' GROUP BY joined;
-- accept
-- keys: 31 public, l0 proved
-- release: rows l0=1 linf=1

-- case: a time beside the same time with a zone
SELECT COUNT(*) AS n FROM orders WHERE placed_at::TIMESTAMPTZ = placed_at;
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=10

-- case: a date as a time with a zone
SELECT DATE_TRUNC('quarter', joined::TIMESTAMPTZ AT TIME ZONE 'UTC') AS quarter, COUNT(*) AS n
FROM customers GROUP BY 1;
-- accept
-- keys: 24 public, l0 proved
-- release: rows l0=1 linf=1
-- rewrite:
--   WITH rows AS (
--     SELECT TRY(
--       date_trunc(
--         'quarter', TRY(timezone('UTC', TRY(timezone('UTC', TRY_CAST(t1."joined" AS TIMESTAMP)))))
--       )
--     ) AS k0
--     FROM "customers" AS t1
--   )
--   SELECT k0, COALESCE(COUNT(*)::HUGEINT, 0) AS p0
--   FROM rows
--   GROUP BY k0
--   SELECT t1.c0 AS c0, t1.c1 AS c1 FROM release_0 AS t1

-- case: a time with a zone as a date
SELECT CAST(placed_at::TIMESTAMPTZ AS DATE) AS day, COUNT(*) AS n FROM orders
WHERE placed_at < '2024-02-01' GROUP BY 1;
-- accept
-- keys: 31 public, l0 enforced
-- release: rows l0=3 linf=10

-- case: a zone that is not known
SELECT COUNT(*) FROM orders WHERE placed_at AT TIME ZONE 'Mars/Olympus' > '2024-01-01';
-- refuse: unsupported-syntax at 1:58

-- case: an offset is no name
SELECT COUNT(*) FROM orders WHERE placed_at AT TIME ZONE '+02:00' > '2024-01-01';
-- refuse: unsupported-syntax at 1:58

-- case: a zone by a column
SELECT COUNT(*) FROM orders WHERE placed_at AT TIME ZONE note > '2024-01-01';
-- refuse: unsupported-syntax at 1:35

-- case: a date has no time of day
SELECT COUNT(*) FROM customers WHERE joined AT TIME ZONE 'UTC' > '2024-01-01';
-- refuse: type-mismatch at 1:38

-- case: the start of a day in a zone, in PostgreSQL
SELECT COUNT(*) AS n FROM orders WHERE date_trunc('day', placed_at AT TIME ZONE 'UTC', 'Europe/Berlin') = TIMESTAMPTZ '2024-03-04 23:00:00+00';
-- dialect: postgres
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=10

-- case: the months of a zone, in PostgreSQL
SELECT date_trunc('month', placed_at, 'UTC') AS month, COUNT(*) AS n FROM orders GROUP BY 1;
-- dialect: postgres
-- accept
-- keys: private, l0 enforced
-- release: units l0=3 linf=1
-- release: rows l0=3 linf=10

-- case: the start of a day in a zone, which DuckDB's function does not take
SELECT COUNT(*) AS n FROM orders WHERE date_trunc('day', placed_at, 'UTC') = TIMESTAMPTZ '2024-03-05 00:00:00+00';
-- refuse: unsupported-syntax at 1:40

-- case: the start of a day by the clocks of a column
SELECT COUNT(*) AS n FROM orders WHERE date_trunc('day', placed_at, note) = TIMESTAMPTZ '2024-03-05 00:00:00+00';
-- dialect: postgres
-- refuse: unsupported-syntax at 1:40
