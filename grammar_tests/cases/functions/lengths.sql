-- Differences of moments are INTERVALs: compared, computed with, taken apart, aggregated and told as such.
-- catalog: shop

-- case: a difference and an interval
SELECT COUNT(*) AS n FROM orders o JOIN customers c ON o.customer_id = c.customer_id WHERE o.placed_at - c.joined < INTERVAL '400 days';
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=10

-- case: a month is thirty days where intervals are compared
SELECT COUNT(*) AS n FROM orders o JOIN customers c ON o.customer_id = c.customer_id WHERE o.placed_at - c.joined >= INTERVAL '1 year 2 months';
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=10

-- case: a bare string is an interval beside one
SELECT COUNT(*) AS n FROM orders o JOIN customers c ON o.customer_id = c.customer_id WHERE o.placed_at - c.joined BETWEEN '30 days' AND '1000 days 12:00';
-- dialect: postgres
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=10

-- case: a bare string that is none
SELECT COUNT(*) AS n FROM orders o JOIN customers c ON o.customer_id = c.customer_id WHERE o.placed_at - c.joined < 'soon';
-- refuse: type-mismatch at 1:117

-- case: a number is no interval
SELECT COUNT(*) AS n FROM orders o JOIN customers c ON o.customer_id = c.customer_id WHERE o.placed_at - c.joined < 30;
-- refuse: type-mismatch at 1:92

-- case: a bare string is a time beside one from which it is taken
SELECT COUNT(*) AS n FROM orders WHERE placed_at - '2024-03-01' > INTERVAL '90 days';
-- dialect: postgres
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=10

-- case: two dates differ by a number of days
SELECT COUNT(*) AS n FROM customers WHERE DATE '2026-01-01' - joined > 400;
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=1

-- case: which is no interval
SELECT COUNT(*) AS n FROM customers WHERE DATE '2026-01-01' - joined > INTERVAL '400 days';
-- refuse: type-mismatch at 1:48

-- case: times with a zone
SELECT COUNT(*) AS n FROM orders WHERE TIMESTAMPTZ '2026-01-01 00:00:00+00' - placed_at > INTERVAL '400 days';
-- dialect: postgres
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=10

-- case: times a number
SELECT COUNT(*) AS n FROM orders WHERE (placed_at - TIMESTAMP '2024-01-01') * 2 > INTERVAL '500 days';
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=10

-- case: over a number
SELECT COUNT(*) AS n FROM orders WHERE (placed_at - TIMESTAMP '2024-01-01') / 2.5 > INTERVAL '100 days';
-- dialect: postgres
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=10

-- case: over an interval
SELECT COUNT(*) AS n FROM orders WHERE (placed_at - TIMESTAMP '2024-01-01') / INTERVAL '1 day' > 2;
-- refuse: type-mismatch at 1:41

-- case: the sum of two lengths
SELECT COUNT(*) AS n FROM orders WHERE (placed_at - TIMESTAMP '2024-01-01') + INTERVAL '1 day' < INTERVAL '90 days';
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=10

-- case: months are no length to which one is added
SELECT COUNT(*) AS n FROM orders WHERE (placed_at - TIMESTAMP '2024-01-01') + INTERVAL '1 month' < INTERVAL '90 days';
-- refuse: unsupported-syntax at 1:41

-- case: the other way round
SELECT COUNT(*) AS n FROM orders WHERE -(placed_at - TIMESTAMP '2025-01-01') < INTERVAL '90 days';
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=10

-- case: added to a moment
SELECT COUNT(*) AS n FROM orders WHERE placed_at + (placed_at - TIMESTAMP '2024-01-01') < TIMESTAMP '2025-01-01';
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=10

-- case: a bare string is an interval where it is added to a time
SELECT COUNT(*) AS n FROM orders WHERE placed_at + '1 month' < '2024-06-01';
-- dialect: postgres
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=10

-- case: an interval of a number and its unit
SELECT COUNT(*) AS n FROM orders WHERE placed_at < TIMESTAMP '2025-01-01' - (quantity || ' days')::INTERVAL;
-- dialect: postgres
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=10

-- case: one of a text and its unit
SELECT COUNT(*) AS n FROM orders WHERE placed_at < TIMESTAMP '2025-01-01' - (status || ' days')::INTERVAL;
-- dialect: postgres
-- refuse: type-mismatch at 1:78

-- case: seconds of a difference
SELECT AVG(EXTRACT(EPOCH FROM o.placed_at - c.joined)) / 3600 AS hours FROM orders o JOIN customers c ON o.customer_id = c.customer_id;
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=10
-- release: sum l0=1 linf=1262303995

-- case: days of a difference
SELECT AVG(EXTRACT(DAY FROM o.placed_at - c.joined)) AS days FROM orders o JOIN customers c ON o.customer_id = c.customer_id;
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=10
-- release: sum l0=1 linf=14610

-- case: hours of a difference
SELECT EXTRACT(HOUR FROM placed_at - TIMESTAMP '2024-01-01') AS h, COUNT(*) AS n FROM orders GROUP BY 1;
-- accept
-- keys: 24 public, l0 enforced
-- release: rows l0=3 linf=10

-- case: a difference has no months
SELECT EXTRACT(MONTH FROM o.placed_at - c.joined) AS m, COUNT(*) AS n FROM orders o JOIN customers c ON o.customer_id = c.customer_id GROUP BY 1;
-- refuse: unsupported-syntax at 1:8

-- case: the average of a difference
SELECT AVG(o.placed_at - c.joined) AS wait FROM orders o JOIN customers c ON o.customer_id = c.customer_id;
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=10
-- release: sum l0=1 linf=1.262303995e+15

-- case: the sum of differences
SELECT SUM(placed_at - TIMESTAMP '2024-01-01') AS total FROM orders;
-- dialect: postgres
-- accept
-- keys: 1 public, l0 proved
-- release: sum l0=1 linf=6.3158399e+14

-- case: the median of a difference
SELECT PERCENTILE_CONT(0.5) WITHIN GROUP (ORDER BY placed_at - TIMESTAMP '2024-01-01') AS half FROM orders;
-- dialect: postgres
-- accept
-- keys: 1 public, l0 proved
-- choice: 2/4 of 65536 l0=1 rows=10 hashed

-- case: the variance of a difference
SELECT VARIANCE(placed_at - TIMESTAMP '2024-01-01') AS v FROM orders;
-- refuse: type-mismatch at 1:8

-- case: a difference of what is released
SELECT MAX(placed_at) - MIN(placed_at) AS span FROM orders;
-- dialect: postgres
-- accept
-- keys: 1 public, l0 proved
-- choice: 0/2 of 65536 l0=1 rows=1 least
-- choice: 2/2 of 65536 l0=1 rows=1 greatest

-- case: a length in a subquery
SELECT COUNT(*) AS n FROM (SELECT o.placed_at - c.joined AS wait FROM orders o JOIN customers c ON o.customer_id = c.customer_id) t WHERE wait < INTERVAL '400 days' AND wait IS NOT NULL;
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=10

-- case: time between orders of a unit
SELECT AVG(gap) AS gap FROM (SELECT placed_at - LAG(placed_at) OVER (PARTITION BY customer_id ORDER BY placed_at, order_id) AS gap FROM orders) t WHERE gap < INTERVAL '90 days';
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=10
-- release: sum l0=1 linf=3.54671995e+14

-- case: who is new
SELECT CASE WHEN o.placed_at - c.joined < INTERVAL '30 days' THEN 'new' ELSE 'known' END AS who, COUNT(*) AS n FROM orders o JOIN customers c ON o.customer_id = c.customer_id GROUP BY 1;
-- accept
-- keys: 2 public, l0 proved
-- release: rows l0=2 linf=10

-- case: an interval of months that a row chooses
SELECT COUNT(*) AS n FROM orders WHERE CASE WHEN quantity > 1 THEN INTERVAL '1 month' ELSE INTERVAL '1 day' END > INTERVAL '3 days';
-- refuse: unsupported-syntax at 1:40

-- case: one of days that a row chooses
SELECT COUNT(*) AS n FROM orders WHERE placed_at + CASE WHEN quantity > 1 THEN INTERVAL '30 days' ELSE INTERVAL '1 day' END < TIMESTAMP '2024-06-01';
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=10

-- case: a length is no text
SELECT COUNT(*) AS n FROM orders WHERE CAST(placed_at - TIMESTAMP '2024-01-01' AS VARCHAR) < '3';
-- refuse: type-mismatch at 1:45

-- case: lengths without a table
SELECT INTERVAL '36 hours' * 2 AS a, (INTERVAL '1 day' + INTERVAL '1 hour') / 2 AS b, -INTERVAL '90 minutes' AS c, EXTRACT(EPOCH FROM INTERVAL '1 day') AS d;
-- accept

-- case: the age in years
SELECT EXTRACT(YEAR FROM AGE(DATE '2026-01-01', joined)) AS years, COUNT(*) AS n FROM customers GROUP BY 1;
-- accept
-- keys: 7 public, l0 proved
-- release: rows l0=1 linf=1

-- case: the age today
SELECT AVG(DATE_PART('year', AGE(joined))) AS years FROM customers;
-- dialect: postgres
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=1
-- release: sum l0=1 linf=3

-- case: an age and an interval
SELECT COUNT(*) AS n FROM customers WHERE AGE(DATE '2026-01-01', joined) > INTERVAL '2 years';
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=1

-- case: an age and a bare string
SELECT COUNT(*) AS n FROM customers WHERE AGE('2026-01-01', joined) > '2 years';
-- dialect: postgres
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=1

-- case: the seconds of an age
SELECT SUM(EXTRACT(EPOCH FROM AGE(placed_at, TIMESTAMP '2024-01-01'))) AS s FROM orders;
-- accept
-- keys: 1 public, l0 proved
-- release: sum l0=1 linf=643680000

-- case: an age is not shown
SELECT AGE(MAX(placed_at), MIN(placed_at)) AS span FROM orders;
-- refuse: unsupported-syntax at 1:8

-- case: an age of numbers
SELECT COUNT(*) AS n FROM orders WHERE AGE(quantity, 3) > INTERVAL '1 day';
-- refuse: type-mismatch at 1:40

-- case: the day of a time
SELECT DATE(placed_at) AS d, COUNT(*) AS n FROM orders WHERE placed_at >= '2024-03-01' AND placed_at < '2024-03-08' GROUP BY 1;
-- dialect: postgres
-- accept
-- keys: 7 public, l0 enforced
-- release: rows l0=3 linf=10

-- case: the day of a number
SELECT DATE(quantity) AS d, COUNT(*) AS n FROM orders GROUP BY 1;
-- refuse: type-mismatch at 1:8

-- case: bins of a width in quotes
SELECT DATE_BIN('6 hours', placed_at, '2024-01-01') AS b, COUNT(*) AS n FROM orders WHERE placed_at >= '2024-03-01' AND placed_at < '2024-03-03' GROUP BY 1;
-- dialect: postgres
-- accept
-- keys: 8 public, l0 enforced
-- release: rows l0=3 linf=10

-- case: bins of no width
SELECT DATE_BIN('wide', placed_at, '2024-01-01') AS b, COUNT(*) AS n FROM orders GROUP BY 1;
-- dialect: postgres
-- refuse: type-mismatch at 1:17

-- case: a bare number beside one
SELECT SUM(quantity + '1') AS n FROM orders;
-- dialect: postgres
-- accept
-- keys: 1 public, l0 proved
-- release: sum l0=1 linf=210

-- case: a bare word beside a number
SELECT SUM(quantity + 'one') AS n FROM orders;
-- dialect: postgres
-- refuse: type-mismatch at 1:12

-- case: a bare date among dates
SELECT CASE WHEN joined < '2022-01-01' THEN '2022-01-01' ELSE DATE '2023-01-01' END AS since, COUNT(*) AS n FROM customers GROUP BY 1;
-- dialect: postgres
-- accept
-- keys: 2 public, l0 proved
-- release: rows l0=1 linf=1

-- case: an interval made of numbers by name
SELECT COUNT(*) AS n FROM orders WHERE placed_at < TIMESTAMP '2025-01-01' - make_interval(months => 1, days => quantity, secs => 1.5);
-- dialect: postgres
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=10

-- case: an interval made of numbers by place
SELECT COUNT(*) AS n FROM orders WHERE placed_at - TIMESTAMP '2024-01-01' > make_interval(0, 0, 2, 3);
-- dialect: postgres
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=10

-- case: an interval made of what there is not
SELECT COUNT(*) AS n FROM orders WHERE placed_at - TIMESTAMP '2024-01-01' > make_interval(fortnights => 2);
-- dialect: postgres
-- refuse: syntax-error at 1:77

-- case: an interval made of one part twice
SELECT COUNT(*) AS n FROM orders WHERE placed_at - TIMESTAMP '2024-01-01' > make_interval(1, years => 2);
-- dialect: postgres
-- refuse: syntax-error at 1:77

-- case: hours that are justified
SELECT AVG(JUSTIFY_HOURS(o.placed_at - c.joined)) AS wait FROM orders o JOIN customers c ON o.customer_id = c.customer_id;
-- dialect: postgres
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=10
-- release: sum l0=1 linf=1.262303995e+15

-- case: a number that is justified
SELECT AVG(JUSTIFY_HOURS(quantity)) AS wait FROM orders;
-- dialect: postgres
-- refuse: type-mismatch at 1:12
