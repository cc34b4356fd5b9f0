-- INTERVAL where it is added to a date or time, in every spelling; DATE plus a number of days.
-- catalog: shop

-- case: a string with its unit
SELECT COUNT(*) AS n FROM orders WHERE placed_at + INTERVAL '1 day' < TIMESTAMP '2024-06-01';
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=10

-- case: a number and a unit
SELECT COUNT(*) AS n FROM orders WHERE placed_at - INTERVAL 3 MONTH >= TIMESTAMP '2024-06-01';
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=10

-- case: a number in a string and a unit
SELECT COUNT(*) AS n FROM orders WHERE placed_at - INTERVAL '90' DAY >= TIMESTAMP '2024-06-01';
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=10

-- case: a negative number
SELECT COUNT(*) AS n FROM orders WHERE placed_at + INTERVAL (-2) WEEK >= TIMESTAMP '2024-06-01';
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=10

-- case: a fraction of an hour
SELECT COUNT(*) AS n FROM orders WHERE placed_at + INTERVAL 1.5 HOUR >= TIMESTAMP '2024-06-01';
-- duckdb: 2
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=10

-- case: a fraction of a month
SELECT COUNT(*) AS n FROM orders WHERE placed_at + INTERVAL 1.5 MONTH >= TIMESTAMP '2024-06-01';
-- refuse: type-mismatch at 1:61

-- case: units in one string
SELECT COUNT(*) AS n FROM orders
WHERE placed_at + INTERVAL '1 month 2 days 03:30:00' >= TIMESTAMP '2024-06-01';
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=10

-- case: a clock without a number of days
SELECT COUNT(*) AS n FROM orders WHERE placed_at + INTERVAL '-02:15' >= TIMESTAMP '2024-06-01';
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=10

-- case: a string that is no interval
SELECT COUNT(*) AS n FROM orders WHERE placed_at + INTERVAL 'soon' >= TIMESTAMP '2024-06-01';
-- refuse: type-mismatch at 1:61

-- case: an expression and a unit
SELECT COUNT(*) AS n FROM orders
WHERE placed_at + INTERVAL (quantity + 1) DAY < TIMESTAMP '2024-06-01';
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=10

-- case: a column and a unit
SELECT COUNT(*) AS n FROM orders WHERE placed_at + INTERVAL (quantity) HOUR < TIMESTAMP '2024-06-01';
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=10
-- rewrite:
--   WITH rows AS (
--     SELECT t1."customer_id" AS u
--     FROM "orders" AS t1
--     WHERE (
--       TRY(
--         t1."placed_at" + to_microseconds(TRY_CAST(TRY(t1."quantity" * 3600000000::HUGEINT) AS BIGINT))
--       ) < TIMESTAMP '2024-06-01 00:00:00'
--     )
--   ),
--   totals AS (SELECT u, COUNT(*) AS s0 FROM rows GROUP BY u)
--   SELECT COALESCE(SUM(p0)::HUGEINT, 0) AS p0
--   FROM (SELECT (CASE WHEN s0 < 0 THEN 0 WHEN s0 > 10 THEN 10 ELSE s0 END)::BIGINT AS p0 FROM totals)
--   SELECT t1.c0 AS c0 FROM release_0 AS t1

-- case: a qualified column needs parentheses
SELECT COUNT(*) AS n FROM orders o WHERE placed_at + INTERVAL o.quantity HOUR < '2024-06-01';
-- refuse: unsupported-syntax at 1:54

-- case: years to months
SELECT COUNT(*) AS n FROM orders WHERE placed_at + INTERVAL '1-2' YEAR TO MONTH < '2024-06-01';
-- refuse: syntax-error at 1:67

-- case: two units
SELECT COUNT(*) AS n FROM orders WHERE placed_at + INTERVAL '1 day' DAY < '2024-06-01';
-- refuse: unsupported-syntax at 1:52

-- case: an amount times an interval
SELECT COUNT(*) AS n FROM orders
WHERE placed_at + quantity * INTERVAL '1 day' < TIMESTAMP '2024-06-01';
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=10

-- case: an interval times an amount
SELECT COUNT(*) AS n FROM orders
WHERE placed_at + INTERVAL '2 hours' * quantity < TIMESTAMP '2024-06-01';
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=10

-- case: an interval times a fraction
SELECT COUNT(*) AS n FROM orders WHERE placed_at + INTERVAL '1 day' * discount < '2024-06-01';
-- refuse: type-mismatch at 1:40

-- case: an interval before the moment
SELECT COUNT(*) AS n FROM orders WHERE INTERVAL '1 day' + placed_at < TIMESTAMP '2024-06-01';
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=10

-- case: a moment cannot be taken from an interval
SELECT COUNT(*) AS n FROM orders WHERE INTERVAL '1 day' - placed_at < TIMESTAMP '2024-06-01';
-- refuse: type-mismatch at 1:40

-- case: a string cast to an interval
SELECT COUNT(*) AS n FROM orders
WHERE placed_at - '1 month'::INTERVAL < TIMESTAMP '2024-06-01';
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=10

-- case: CAST to an interval
SELECT COUNT(*) AS n FROM orders
WHERE placed_at + CAST('2 weeks' AS INTERVAL) < TIMESTAMP '2024-06-01';
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=10

-- case: a column cast to an interval
SELECT COUNT(*) AS n FROM orders WHERE placed_at + note::INTERVAL < TIMESTAMP '2024-06-01';
-- refuse: unsupported-syntax at 1:52

-- case: a function that makes an interval
SELECT COUNT(*) AS n FROM orders WHERE placed_at + TO_DAYS(30) < TIMESTAMP '2024-06-01';
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=10

-- case: a function that makes one of a column
SELECT COUNT(*) AS n FROM orders WHERE placed_at + TO_HOURS(quantity) < TIMESTAMP '2024-06-01';
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=10

-- case: such a function by itself
SELECT TO_DAYS(quantity) AS d, COUNT(*) AS n FROM orders GROUP BY 1;
-- accept
-- keys: 21 public, l0 enforced
-- release: rows l0=3 linf=10

-- case: intervals added to each other
SELECT COUNT(*) AS n FROM orders WHERE placed_at + (INTERVAL '1 day' + INTERVAL '1 hour') < '2024-06-01';
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=10

-- case: an interval less another
SELECT COUNT(*) AS n FROM orders WHERE placed_at + (INTERVAL '1 month' - INTERVAL '1 day') < '2024-06-01';
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=10

-- case: intervals compared
SELECT COUNT(*) AS n FROM orders WHERE INTERVAL '1 day' < INTERVAL '2 days';
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=10

-- case: intervals one after the other
SELECT COUNT(*) AS n FROM orders
WHERE placed_at + INTERVAL '1 month' - INTERVAL '1 day' < TIMESTAMP '2024-06-01';
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=10

-- case: the end of a month
SELECT DATE_TRUNC('month', placed_at) + INTERVAL '1 month' - INTERVAL '1 day' AS month_end,
    COUNT(*) AS n FROM orders GROUP BY 1;
-- accept
-- keys: 24 public, l0 enforced
-- release: rows l0=3 linf=10

-- case: weeks that begin on Sunday
SELECT DATE_TRUNC('week', placed_at + INTERVAL '1 day') - INTERVAL '1 day' AS week, COUNT(*) AS n
FROM orders WHERE placed_at >= '2024-03-03' AND placed_at < '2024-04-07' GROUP BY 1;
-- accept
-- keys: 5 public, l0 enforced
-- release: rows l0=3 linf=10

-- case: half hours
SELECT DATE_TRUNC('hour', placed_at) + INTERVAL 30 MINUTE AS half, COUNT(*) AS n
FROM orders WHERE placed_at >= '2024-03-03' AND placed_at < '2024-03-04' GROUP BY half;
-- accept
-- keys: 24 public, l0 enforced
-- release: rows l0=3 linf=10

-- case: years of constants
SELECT COUNT(*) AS n FROM orders
WHERE placed_at >= DATE '2025-01-01' - INTERVAL '1 year' AND placed_at < DATE '2025-01-01';
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=10

-- case: a constant beyond the calendar
SELECT COUNT(*) AS n FROM orders WHERE placed_at < DATE '9999-12-31' + INTERVAL '1 year';
-- refuse: type-mismatch at 1:57

-- case: a date and an interval are a time
SELECT joined + INTERVAL '1 day' AS next, COUNT(*) AS n FROM customers
WHERE joined >= '2024-01-01' AND joined < '2024-01-08' GROUP BY 1;
-- accept
-- keys: 7 public, l0 proved
-- release: rows l0=1 linf=1

-- case: a date and a number of days are a date
SELECT joined + 1 AS next, COUNT(*) AS n FROM customers
WHERE joined >= '2024-01-01' AND joined < '2024-01-08' GROUP BY 1;
-- accept
-- keys: 7 public, l0 proved
-- release: rows l0=1 linf=1

-- case: a date minus a number of days
SELECT COUNT(*) AS n FROM customers WHERE joined - 7 >= DATE '2024-01-01';
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=1

-- case: a number of days before the date
SELECT COUNT(*) AS n FROM customers WHERE 7 + joined >= DATE '2024-01-01';
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=1

-- case: a time and a number
SELECT COUNT(*) AS n FROM orders WHERE placed_at - 7 >= TIMESTAMP '2024-01-01';
-- refuse: type-mismatch at 1:40

-- case: a date and a fraction
SELECT COUNT(*) AS n FROM customers WHERE joined + 0.5 >= DATE '2024-01-01';
-- refuse: type-mismatch at 1:43

-- case: DATE_ADD
SELECT COUNT(*) AS n FROM orders WHERE DATE_ADD(placed_at, INTERVAL 1 MONTH) < TIMESTAMP '2024-06-01';
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=10

-- case: DATE_ADD of a number
SELECT COUNT(*) AS n FROM orders WHERE DATE_ADD(placed_at, 1) < TIMESTAMP '2024-06-01';
-- refuse: unsupported-syntax at 1:60

-- case: an interval is a value
SELECT COUNT(INTERVAL '1 day') AS n FROM orders;
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=10

-- case: one of months is none
SELECT COUNT(INTERVAL '1 month') AS n FROM orders;
-- refuse: unsupported-syntax at 1:14

-- case: DuckDB's intervals of a negative quantity
SELECT COUNT(*) AS n FROM orders WHERE placed_at + -quantity * INTERVAL '1 day' < TIMESTAMP '2024-06-01';
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=10

-- case: intervals of PostgreSQL
SELECT COUNT(*) AS n FROM "public"."orders"
WHERE "public"."orders"."placed_at" >= CAST('2024-03-01' AS timestamp) + (INTERVAL '-30 day');
-- dialect: postgres
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=10

-- case: units as a Tableau filter writes them
SELECT SUM(1) AS "n" FROM "orders" "orders"
WHERE ("orders"."placed_at" >= (TIMESTAMP '2024-06-01 00:00:00.000' - 30 * INTERVAL '1 DAY'));
-- dialect: postgres
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=10
