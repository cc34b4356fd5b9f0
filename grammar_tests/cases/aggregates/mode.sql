-- MODE: the most frequent of values that are public.
-- catalog: shop

-- case: most frequent of listed values
SELECT MODE(country) AS country FROM customers WHERE country <> 'SE' OR age > 30;
-- accept
-- keys: 1 public, l0 proved
-- choice: most of 3 l0=1 rows=1 all

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
