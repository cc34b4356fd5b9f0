-- What Apache Superset 6.1.0 (Apache-2.0) sent to the server over psycopg2, as it reached it: charts of
-- every kind by its chart-data API, and those of examples/superset as a browser asks for them.

-- answered
SELECT
  o.placed_at,
  o.amount,
  o.status,
  c.segment,
  n.region
FROM orders AS o
JOIN customers AS c
  ON o.customer_id = c.customer_id
JOIN countries AS n
  ON c.country = n.code
WHERE
  1 = 0
LIMIT 1;

-- answered
SELECT
  COUNT(*) AS count
FROM public.customers
ORDER BY
  count DESC
LIMIT 10000;

-- answered
SELECT
  SUM(CASE WHEN status = 'returned' THEN 1 ELSE 0 END) * 1.0 / COUNT(*) AS "returned share"
FROM public.orders
ORDER BY
  "returned share" DESC
LIMIT 10000;

-- answered
SELECT
  DATE_TRUNC('QUARTER', placed_at) AS placed_at,
  COUNT(*) AS count
FROM public.orders
GROUP BY
  DATE_TRUNC('QUARTER', placed_at)
LIMIT 10000;

-- answered
SELECT
  DATE_TRUNC('QUARTER', placed_at) AS placed_at,
  SUM(amount) AS "SUM(amount)",
  DP_INTERVAL_LOW(SUM(amount)) AS "SUM(amount)__yhat_lower",
  DP_INTERVAL_HIGH(SUM(amount)) AS "SUM(amount)__yhat_upper"
FROM public.orders
GROUP BY
  DATE_TRUNC('QUARTER', placed_at)
LIMIT 10000;

-- answered
SELECT
  status AS status,
  COUNT(*) AS count,
  SUM(amount) AS "SUM(amount)",
  AVG(amount) AS "AVG(amount)"
FROM public.orders
GROUP BY
  status
ORDER BY
  count DESC
LIMIT 1000;

-- answered
SELECT
  segment AS segment,
  COUNT(*) AS count
FROM public.customers
GROUP BY
  segment
ORDER BY
  count DESC
LIMIT 10000;

-- answered
SELECT
  country AS country,
  AVG(age) AS "AVG(age)"
FROM public.customers
GROUP BY
  country
LIMIT 10000;

-- answered
SELECT
  DATE_TRUNC('QUARTER', placed_at) AS placed_at,
  status AS status,
  SUM(amount) AS "SUM(amount)"
FROM public.orders
JOIN (
  SELECT
    status AS status__,
    SUM(amount) AS mme_inner__
  FROM public.orders
  GROUP BY
    status
  ORDER BY
    mme_inner__ DESC
  LIMIT 2
) AS series_limit
  ON status = status__
GROUP BY
  DATE_TRUNC('QUARTER', placed_at),
  status
LIMIT 10000;

-- answered
SELECT
  DATE_TRUNC('QUARTER', placed_at) AS placed_at,
  segment AS segment,
  SUM(amount) AS "SUM(amount)"
FROM (
  SELECT
    o.placed_at,
    o.amount,
    o.status,
    c.segment,
    n.region
  FROM orders AS o
  JOIN customers AS c
    ON o.customer_id = c.customer_id
  JOIN countries AS n
    ON c.country = n.code
) AS virtual_table
WHERE
  placed_at >= TO_TIMESTAMP('2025-01-01 00:00:00.000000', 'YYYY-MM-DD HH24:MI:SS.US')
  AND placed_at < TO_TIMESTAMP('2026-01-01 00:00:00.000000', 'YYYY-MM-DD HH24:MI:SS.US')
GROUP BY
  DATE_TRUNC('QUARTER', placed_at),
  segment
LIMIT 10000;

-- answered
SELECT
  FLOOR(age / 10) * 10 AS age_from,
  COUNT(*) AS count
FROM public.customers
WHERE
  (
    (
      age >= 20
    )
  )
GROUP BY
  FLOOR(age / 10) * 10
LIMIT 10000;

-- answered
SELECT
  DATE_TRUNC('QUARTER', placed_at) AS placed_at,
  status AS status,
  AVG(amount) AS "AVG(amount)"
FROM public.orders
GROUP BY
  DATE_TRUNC('QUARTER', placed_at),
  status
ORDER BY
  "AVG(amount)" DESC
LIMIT 10000;

-- answered
SELECT
  country AS country,
  segment AS segment,
  COUNT(*) AS count
FROM public.customers
GROUP BY
  country,
  segment
ORDER BY
  count DESC
LIMIT 10000;

-- answered
SELECT
  EXTRACT(DOW FROM placed_at) AS weekday,
  status AS status,
  COUNT(*) AS count
FROM public.orders
GROUP BY
  EXTRACT(DOW FROM placed_at),
  status
LIMIT 10000;

-- answered
SELECT
  segment AS segment,
  country AS country,
  COUNT(*) AS count
FROM public.customers
GROUP BY
  segment,
  country
ORDER BY
  count DESC
LIMIT 10000;

-- answered
SELECT
  region AS region,
  segment AS segment,
  SUM(amount) AS "SUM(amount)"
FROM (
  SELECT
    o.placed_at,
    o.amount,
    o.status,
    c.segment,
    n.region
  FROM orders AS o
  JOIN customers AS c
    ON o.customer_id = c.customer_id
  JOIN countries AS n
    ON c.country = n.code
) AS virtual_table
GROUP BY
  region,
  segment
ORDER BY
  "SUM(amount)" DESC
LIMIT 10000;

-- answered
SELECT
  kind AS kind,
  COUNT(*) AS count
FROM public.events
WHERE
  duration > 60
GROUP BY
  kind
HAVING
  (
    (
      COUNT(*) > 100
    )
  )
ORDER BY
  count DESC
LIMIT 10000;

-- answered
SELECT
  city AS city,
  COUNT(*) AS count
FROM public.customers
GROUP BY
  city
ORDER BY
  count DESC
LIMIT 100;

-- answered
SELECT
  status AS status
FROM public.orders
GROUP BY
  status
ORDER BY
  status ASC
LIMIT 1000;

-- answered
SELECT
  country AS country
FROM public.customers
GROUP BY
  country
ORDER BY
  country ASC
LIMIT 1000;

-- answered
SELECT
  COUNT(*) AS count
FROM public.customers
LIMIT 50000;

-- answered
SELECT
  segment AS segment,
  COUNT(*) AS count
FROM public.customers
GROUP BY
  segment
ORDER BY
  count DESC
LIMIT 100;

-- answered
SELECT
  country AS country,
  AVG(age) AS "AVG(age)"
FROM public.customers
GROUP BY
  country
ORDER BY
  "AVG(age)" DESC
LIMIT 10000;

-- answered
SELECT
  DATE_TRUNC('WEEK', placed_at) AS placed_at,
  status AS status,
  SUM(amount) AS "SUM(amount)"
FROM public.orders
JOIN (
  SELECT
    status AS status__,
    SUM(amount) AS mme_inner__
  FROM public.orders
  GROUP BY
    status
  ORDER BY
    mme_inner__ DESC
  LIMIT 2
) AS series_limit
  ON status = status__
GROUP BY
  DATE_TRUNC('WEEK', placed_at),
  status
ORDER BY
  "SUM(amount)" DESC
LIMIT 10000;

-- answered
SELECT
  DATE_TRUNC('QUARTER', placed_at) AS placed_at,
  SUM(amount) AS "SUM(amount)"
FROM public.orders
WHERE
  placed_at >= TO_TIMESTAMP('2024-03-01 00:00:00.000000', 'YYYY-MM-DD HH24:MI:SS.US')
  AND placed_at < TO_TIMESTAMP('2025-06-01 00:00:00.000000', 'YYYY-MM-DD HH24:MI:SS.US')
  AND amount > 100
GROUP BY
  DATE_TRUNC('QUARTER', placed_at)
LIMIT 10000;

-- answered
SELECT
  FLOOR(age / 10) * 10 AS age_group,
  COUNT(*) AS count
FROM public.customers
GROUP BY
  FLOOR(age / 10) * 10
LIMIT 1000;

-- answered
SELECT
  DATE_TRUNC('MONTH', placed_at) AS placed_at,
  status AS status,
  AVG(amount) AS "AVG(amount)"
FROM public.orders
GROUP BY
  DATE_TRUNC('MONTH', placed_at),
  status
LIMIT 50000;

-- answered
SELECT
  segment AS segment,
  country AS country,
  COUNT(*) AS count
FROM public.customers
GROUP BY
  segment,
  country
LIMIT 10000;

-- answered
SELECT
  city AS city
FROM public.customers
WHERE
  city ILIKE '%1%'
GROUP BY
  city
LIMIT 1000;

-- answered
SELECT
  kind AS kind,
  COUNT(*) AS count,
  COUNT(DISTINCT customer_id) AS "COUNT_DISTINCT(customer_id)",
  AVG(duration) / 60 AS "AVG(duration)/60",
  MAX(duration) AS "MAX(duration)"
FROM public.events
WHERE
  (
    duration > 10
  )
GROUP BY
  kind
HAVING
  (
    COUNT(*) > 100
  )
LIMIT 1000;

-- answered
SELECT
  COUNT(*) AS rowcount
FROM (
  SELECT
    country AS country,
    COUNT(*) AS count
  FROM public.customers
  GROUP BY
    country
  LIMIT 50000
) AS rowcount_qry;

-- answered
SELECT
  MIN(age) AS min,
  MAX(age) AS max
FROM public.customers
LIMIT 50000;

-- answered
SELECT
  status AS status,
  COUNT(*) AS count
FROM public.orders
GROUP BY
  status
LIMIT 50000;

-- answered
SELECT
  DATE_TRUNC('MONTH', placed_at) AS placed_at,
  COUNT(*) AS count
FROM public.orders
WHERE
  placed_at >= TO_TIMESTAMP('2025-01-01 00:00:00.000000', 'YYYY-MM-DD HH24:MI:SS.US')
  AND placed_at < TO_TIMESTAMP('2026-01-01 00:00:00.000000', 'YYYY-MM-DD HH24:MI:SS.US')
GROUP BY
  DATE_TRUNC('MONTH', placed_at)
LIMIT 10000;

-- answered
SELECT
  DATE_TRUNC('MONTH', placed_at) AS placed_at,
  COUNT(*) AS count
FROM public.orders
WHERE
  placed_at >= TO_TIMESTAMP('2024-01-01 00:00:00.000000', 'YYYY-MM-DD HH24:MI:SS.US')
  AND placed_at < TO_TIMESTAMP('2025-01-01 00:00:00.000000', 'YYYY-MM-DD HH24:MI:SS.US')
  AND placed_at >= TO_TIMESTAMP('2024-01-01 00:00:00.000000', 'YYYY-MM-DD HH24:MI:SS.US')
  AND placed_at < TO_TIMESTAMP('2025-01-01 00:00:00.000000', 'YYYY-MM-DD HH24:MI:SS.US')
GROUP BY
  DATE_TRUNC('MONTH', placed_at)
LIMIT 50000;

-- answered
SELECT
  CASE WHEN (
    NOT series_limit.city__ IS NULL
  ) THEN city ELSE 'Others' END AS city,
  COUNT(*) AS count
FROM public.customers
LEFT OUTER JOIN (
  SELECT
    city AS city__,
    COUNT(*) AS mme_inner__
  FROM public.customers
  GROUP BY
    city
  ORDER BY
    mme_inner__ DESC
  LIMIT 5
) AS series_limit
  ON city = city__
GROUP BY
  CASE WHEN (
    NOT series_limit.city__ IS NULL
  ) THEN city ELSE 'Others' END;

-- answered
SELECT
  DATE_TRUNC('SECOND', placed_at) AS placed_at,
  COUNT(*) AS count
FROM public.orders
WHERE
  placed_at >= TO_TIMESTAMP('2025-01-01 00:00:00.000000', 'YYYY-MM-DD HH24:MI:SS.US')
  AND placed_at < TO_TIMESTAMP('2025-01-02 00:00:00.000000', 'YYYY-MM-DD HH24:MI:SS.US')
GROUP BY
  DATE_TRUNC('SECOND', placed_at)
LIMIT 10000;

-- answered
SELECT
  DATE_TRUNC('MINUTE', placed_at) + INTERVAL '5 SECONDS' * FLOOR(EXTRACT(SECOND FROM placed_at) / 5) AS placed_at,
  COUNT(*) AS count
FROM public.orders
WHERE
  placed_at >= TO_TIMESTAMP('2025-01-01 00:00:00.000000', 'YYYY-MM-DD HH24:MI:SS.US')
  AND placed_at < TO_TIMESTAMP('2025-01-02 00:00:00.000000', 'YYYY-MM-DD HH24:MI:SS.US')
GROUP BY
  DATE_TRUNC('MINUTE', placed_at) + INTERVAL '5 SECONDS' * FLOOR(EXTRACT(SECOND FROM placed_at) / 5)
LIMIT 10000;

-- answered
SELECT
  DATE_TRUNC('MINUTE', placed_at) + INTERVAL '30 SECONDS' * FLOOR(EXTRACT(SECOND FROM placed_at) / 30) AS placed_at,
  COUNT(*) AS count
FROM public.orders
WHERE
  placed_at >= TO_TIMESTAMP('2025-01-01 00:00:00.000000', 'YYYY-MM-DD HH24:MI:SS.US')
  AND placed_at < TO_TIMESTAMP('2025-01-02 00:00:00.000000', 'YYYY-MM-DD HH24:MI:SS.US')
GROUP BY
  DATE_TRUNC('MINUTE', placed_at) + INTERVAL '30 SECONDS' * FLOOR(EXTRACT(SECOND FROM placed_at) / 30)
LIMIT 10000;

-- answered
SELECT
  DATE_TRUNC('MINUTE', placed_at) AS placed_at,
  COUNT(*) AS count
FROM public.orders
WHERE
  placed_at >= TO_TIMESTAMP('2025-01-01 00:00:00.000000', 'YYYY-MM-DD HH24:MI:SS.US')
  AND placed_at < TO_TIMESTAMP('2025-01-02 00:00:00.000000', 'YYYY-MM-DD HH24:MI:SS.US')
GROUP BY
  DATE_TRUNC('MINUTE', placed_at)
LIMIT 10000;

-- answered
SELECT
  DATE_TRUNC('HOUR', placed_at) + INTERVAL '5 MINUTES' * FLOOR(EXTRACT(MINUTE FROM placed_at) / 5) AS placed_at,
  COUNT(*) AS count
FROM public.orders
WHERE
  placed_at >= TO_TIMESTAMP('2025-01-01 00:00:00.000000', 'YYYY-MM-DD HH24:MI:SS.US')
  AND placed_at < TO_TIMESTAMP('2025-01-02 00:00:00.000000', 'YYYY-MM-DD HH24:MI:SS.US')
GROUP BY
  DATE_TRUNC('HOUR', placed_at) + INTERVAL '5 MINUTES' * FLOOR(EXTRACT(MINUTE FROM placed_at) / 5)
LIMIT 10000;

-- answered
SELECT
  DATE_TRUNC('HOUR', placed_at) + INTERVAL '10 MINUTES' * FLOOR(EXTRACT(MINUTE FROM placed_at) / 10) AS placed_at,
  COUNT(*) AS count
FROM public.orders
WHERE
  placed_at >= TO_TIMESTAMP('2025-01-01 00:00:00.000000', 'YYYY-MM-DD HH24:MI:SS.US')
  AND placed_at < TO_TIMESTAMP('2025-01-02 00:00:00.000000', 'YYYY-MM-DD HH24:MI:SS.US')
GROUP BY
  DATE_TRUNC('HOUR', placed_at) + INTERVAL '10 MINUTES' * FLOOR(EXTRACT(MINUTE FROM placed_at) / 10)
LIMIT 10000;

-- answered
SELECT
  DATE_TRUNC('HOUR', placed_at) + INTERVAL '15 MINUTES' * FLOOR(EXTRACT(MINUTE FROM placed_at) / 15) AS placed_at,
  COUNT(*) AS count
FROM public.orders
WHERE
  placed_at >= TO_TIMESTAMP('2025-01-01 00:00:00.000000', 'YYYY-MM-DD HH24:MI:SS.US')
  AND placed_at < TO_TIMESTAMP('2025-01-02 00:00:00.000000', 'YYYY-MM-DD HH24:MI:SS.US')
GROUP BY
  DATE_TRUNC('HOUR', placed_at) + INTERVAL '15 MINUTES' * FLOOR(EXTRACT(MINUTE FROM placed_at) / 15)
LIMIT 10000;

-- answered
SELECT
  DATE_TRUNC('HOUR', placed_at) + INTERVAL '30 MINUTES' * FLOOR(EXTRACT(MINUTE FROM placed_at) / 30) AS placed_at,
  COUNT(*) AS count
FROM public.orders
WHERE
  placed_at >= TO_TIMESTAMP('2025-01-01 00:00:00.000000', 'YYYY-MM-DD HH24:MI:SS.US')
  AND placed_at < TO_TIMESTAMP('2025-01-02 00:00:00.000000', 'YYYY-MM-DD HH24:MI:SS.US')
GROUP BY
  DATE_TRUNC('HOUR', placed_at) + INTERVAL '30 MINUTES' * FLOOR(EXTRACT(MINUTE FROM placed_at) / 30)
LIMIT 10000;

-- answered
SELECT
  DATE_TRUNC('HOUR', placed_at) AS placed_at,
  COUNT(*) AS count
FROM public.orders
WHERE
  placed_at >= TO_TIMESTAMP('2025-01-01 00:00:00.000000', 'YYYY-MM-DD HH24:MI:SS.US')
  AND placed_at < TO_TIMESTAMP('2025-01-02 00:00:00.000000', 'YYYY-MM-DD HH24:MI:SS.US')
GROUP BY
  DATE_TRUNC('HOUR', placed_at)
LIMIT 10000;

-- answered
SELECT
  DATE_TRUNC('DAY', placed_at) AS placed_at,
  COUNT(*) AS count
FROM public.orders
WHERE
  placed_at >= TO_TIMESTAMP('2025-01-01 00:00:00.000000', 'YYYY-MM-DD HH24:MI:SS.US')
  AND placed_at < TO_TIMESTAMP('2025-01-02 00:00:00.000000', 'YYYY-MM-DD HH24:MI:SS.US')
GROUP BY
  DATE_TRUNC('DAY', placed_at)
LIMIT 10000;

-- answered
SELECT
  DATE_TRUNC('WEEK', placed_at) AS placed_at,
  COUNT(*) AS count
FROM public.orders
WHERE
  placed_at >= TO_TIMESTAMP('2025-01-01 00:00:00.000000', 'YYYY-MM-DD HH24:MI:SS.US')
  AND placed_at < TO_TIMESTAMP('2025-01-02 00:00:00.000000', 'YYYY-MM-DD HH24:MI:SS.US')
GROUP BY
  DATE_TRUNC('WEEK', placed_at)
LIMIT 10000;

-- answered
SELECT
  DATE_TRUNC('MONTH', placed_at) AS placed_at,
  COUNT(*) AS count
FROM public.orders
WHERE
  placed_at >= TO_TIMESTAMP('2025-01-01 00:00:00.000000', 'YYYY-MM-DD HH24:MI:SS.US')
  AND placed_at < TO_TIMESTAMP('2025-01-02 00:00:00.000000', 'YYYY-MM-DD HH24:MI:SS.US')
GROUP BY
  DATE_TRUNC('MONTH', placed_at)
LIMIT 10000;

-- answered
SELECT
  DATE_TRUNC('QUARTER', placed_at) AS placed_at,
  COUNT(*) AS count
FROM public.orders
WHERE
  placed_at >= TO_TIMESTAMP('2025-01-01 00:00:00.000000', 'YYYY-MM-DD HH24:MI:SS.US')
  AND placed_at < TO_TIMESTAMP('2025-01-02 00:00:00.000000', 'YYYY-MM-DD HH24:MI:SS.US')
GROUP BY
  DATE_TRUNC('QUARTER', placed_at)
LIMIT 10000;

-- answered
SELECT
  DATE_TRUNC('YEAR', placed_at) AS placed_at,
  COUNT(*) AS count
FROM public.orders
WHERE
  placed_at >= TO_TIMESTAMP('2025-01-01 00:00:00.000000', 'YYYY-MM-DD HH24:MI:SS.US')
  AND placed_at < TO_TIMESTAMP('2025-01-02 00:00:00.000000', 'YYYY-MM-DD HH24:MI:SS.US')
GROUP BY
  DATE_TRUNC('YEAR', placed_at)
LIMIT 10000;

-- answered
SELECT
  SUM(CASE WHEN status = 'returned' THEN 1 ELSE 0 END) * 1.0 / COUNT(*) AS "returned share"
FROM public.orders
LIMIT 50000;

-- answered
SELECT
  DATE_TRUNC('QUARTER', placed_at) AS placed_at,
  COUNT(*) AS count
FROM public.orders
GROUP BY
  DATE_TRUNC('QUARTER', placed_at)
LIMIT 50000;

-- answered
SELECT
  FLOOR(age / 10) * 10 AS age_from,
  COUNT(*) AS count
FROM public.customers
WHERE
  (
    (
      age >= 20
    )
  )
GROUP BY
  FLOOR(age / 10) * 10
ORDER BY
  count DESC
LIMIT 10000;

-- answered
SELECT
  DATE_TRUNC('QUARTER', placed_at) AS placed_at,
  status AS status,
  AVG(amount) AS "AVG(amount)"
FROM public.orders
GROUP BY
  DATE_TRUNC('QUARTER', placed_at),
  status
LIMIT 10000;

-- answered
SELECT
  DATE_TRUNC('QUARTER', placed_at) AS placed_at,
  status AS status,
  SUM(amount) AS "SUM(amount)"
FROM public.orders
JOIN (
  SELECT
    status AS status__,
    SUM(amount) AS mme_inner__
  FROM public.orders
  GROUP BY
    status
  ORDER BY
    mme_inner__ DESC
  LIMIT 2
) AS series_limit
  ON status = status__
GROUP BY
  DATE_TRUNC('QUARTER', placed_at),
  status
ORDER BY
  "SUM(amount)" DESC
LIMIT 10000;

-- answered
SELECT
  DATE_TRUNC('QUARTER', placed_at) AS placed_at,
  segment AS segment,
  SUM(amount) AS "SUM(amount)"
FROM (
  SELECT
    o.placed_at,
    o.amount,
    o.status,
    c.segment,
    n.region
  FROM orders AS o
  JOIN customers AS c
    ON o.customer_id = c.customer_id
  JOIN countries AS n
    ON c.country = n.code
) AS virtual_table
WHERE
  placed_at >= TO_TIMESTAMP('2025-01-01 00:00:00.000000', 'YYYY-MM-DD HH24:MI:SS.US')
  AND placed_at < TO_TIMESTAMP('2026-01-01 00:00:00.000000', 'YYYY-MM-DD HH24:MI:SS.US')
GROUP BY
  DATE_TRUNC('QUARTER', placed_at),
  segment
ORDER BY
  "SUM(amount)" DESC
LIMIT 10000;

-- answered
SELECT
  city AS city,
  COUNT(*) AS count
FROM public.customers
GROUP BY
  city
ORDER BY
  city ASC
LIMIT 100;

-- answered
SELECT
  kind AS kind,
  COUNT(*) AS count
FROM public.events
WHERE
  duration > 60
GROUP BY
  kind
HAVING
  (
    (
      COUNT(*) > 100
    )
  )
ORDER BY
  count DESC
LIMIT 10;

-- answered
SELECT
  region AS region,
  segment AS segment,
  SUM(amount) AS "SUM(amount)"
FROM (
  SELECT
    o.placed_at,
    o.amount,
    o.status,
    c.segment,
    n.region
  FROM orders AS o
  JOIN customers AS c
    ON o.customer_id = c.customer_id
  JOIN countries AS n
    ON c.country = n.code
) AS virtual_table
GROUP BY
  region,
  segment
ORDER BY
  region ASC,
  segment ASC
LIMIT 10000;

-- refused
SELECT
  age AS age
FROM public.customers
LIMIT 10000;

-- refused
SELECT
  age AS age,
  country AS country
FROM public.customers
LIMIT 100;

-- refused
SELECT
  customer_id AS customer_id,
  country AS country,
  segment AS segment,
  age AS age,
  city AS city
FROM public.customers
LIMIT 1000;
