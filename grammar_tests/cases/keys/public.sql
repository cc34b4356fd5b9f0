-- Public keys: a finite domain is answered whole, empty groups too, without threshold and δ.
-- catalog: shop

-- case: a column with declared values
SELECT status, COUNT(*) AS n FROM orders GROUP BY status;
-- rows: orders (customer_id, status): (1, 'paid'), (1, 'paid'), (1, 'paid'), (1, 'paid'), (1, 'paid'), (1, 'paid'), (1, 'paid'), (1, 'paid'), (1, 'paid'), (1, 'paid'), (1, 'paid'), (1, 'paid'), (2, 'paid'), (2, 'lost')
-- accept
-- keys: 3 public, l0 proved
-- release: rows l0=3 linf=10
-- integers: (paid) 11
-- rewrite:
--   WITH rows AS (SELECT t1."customer_id" AS u, t1."status" AS k0 FROM "orders" AS t1),
--   totals AS (SELECT u, k0, COUNT(*) AS s0 FROM rows GROUP BY u, k0)
--   SELECT k0, COALESCE(SUM(p0)::HUGEINT, 0) AS p0
--   FROM (
--     SELECT k0, (CASE WHEN s0 < 0 THEN 0 WHEN s0 > 10 THEN 10 ELSE s0 END)::BIGINT AS p0 FROM totals
--   )
--   GROUP BY k0
--   SELECT t1.c0 AS c0, t1.c1 AS c1 FROM release_0 AS t1

-- case: a column whose values a public table lists
SELECT country, COUNT(*) AS n FROM customers GROUP BY country;
-- accept
-- keys: 3 public, l0 proved
-- release: rows l0=1 linf=1

-- case: a boolean column
SELECT vip, COUNT(*) AS n FROM customers GROUP BY vip;
-- accept
-- keys: 2 public, l0 proved
-- release: rows l0=1 linf=1

-- case: a nullable bounded integer has a NULL group
SELECT age, COUNT(*) AS n FROM customers GROUP BY age;
-- accept
-- keys: 122 public, l0 proved
-- release: rows l0=1 linf=1

-- case: ordinal
SELECT segment, COUNT(*) FROM customers GROUP BY 1;
-- accept
-- keys: 2 public, l0 proved
-- release: rows l0=1 linf=1

-- case: alias
SELECT segment AS s, COUNT(*) FROM customers GROUP BY s;
-- accept
-- keys: 2 public, l0 proved
-- release: rows l0=1 linf=1

-- case: two keys
SELECT segment, vip, COUNT(*) AS n FROM customers GROUP BY segment, vip;
-- accept
-- keys: 4 public, l0 proved
-- release: rows l0=1 linf=1

-- case: a predicate is a key
SELECT age >= 65 AS old, COUNT(*) FROM customers GROUP BY age >= 65;
-- accept
-- keys: 3 public, l0 proved
-- release: rows l0=1 linf=1

-- case: CASE is a key
SELECT CASE WHEN age < 18 THEN 'minor' WHEN age < 65 THEN 'adult' ELSE 'senior' END AS band, COUNT(*) FROM customers GROUP BY band;
-- rows: customers (customer_id, age): (1, 17), (2, 18), (3, 64), (4, 65), (5, NULL)
-- accept
-- keys: 3 public, l0 proved
-- release: rows l0=1 linf=1
-- integers: (adult) 2
-- integers: (minor) 1
-- integers: (senior) 2
-- rewrite:
--   WITH rows AS (
--     SELECT CASE WHEN t1."age" < 18 THEN 'minor' WHEN t1."age" < 65 THEN 'adult' ELSE 'senior' END AS k0
--     FROM "customers" AS t1
--   )
--   SELECT k0, COALESCE(COUNT(*)::HUGEINT, 0) AS p0
--   FROM rows
--   GROUP BY k0
--   SELECT t1.c0 AS c0, t1.c1 AS c1 FROM release_0 AS t1

-- case: decades
SELECT FLOOR(age / 10) * 10 AS decade, COUNT(*) FROM customers GROUP BY 1;
-- accept
-- keys: 14 public, l0 proved
-- release: rows l0=1 linf=1

-- case: month of a bounded timestamp
SELECT DATE_TRUNC('month', placed_at) AS month, SUM(amount) FROM orders GROUP BY 1;
-- accept
-- keys: 24 public, l0 enforced
-- release: sum l0=3 linf=5000

-- case: year of a date
SELECT EXTRACT(year FROM joined) AS year, COUNT(*) FROM customers GROUP BY 1;
-- accept
-- keys: 6 public, l0 proved
-- release: rows l0=1 linf=1

-- case: hour of day
SELECT EXTRACT(hour FROM placed_at) AS hour, COUNT(*) FROM orders GROUP BY 1;
-- accept
-- keys: 24 public, l0 enforced
-- release: rows l0=3 linf=10

-- case: day as a cast
SELECT CAST(placed_at AS DATE) AS day, COUNT(*) FROM orders WHERE placed_at >= '2024-03-01' AND placed_at < '2024-04-01' GROUP BY 1;
-- accept
-- keys: 31 public, l0 enforced
-- release: rows l0=3 linf=10

-- case: a filter narrows the domain
SELECT status, COUNT(*) FROM orders WHERE status IN ('paid', 'open') GROUP BY status;
-- accept
-- keys: 2 public, l0 proved
-- release: rows l0=2 linf=10

-- case: a filter makes a domain
SELECT city, COUNT(*) FROM customers WHERE city IN ('Oslo', 'Bergen') GROUP BY city;
-- accept
-- keys: 2 public, l0 proved
-- release: rows l0=1 linf=1

-- case: text functions over a finite domain
SELECT UPPER(SUBSTRING(status, 1, 1)) AS initial, COUNT(*) FROM orders GROUP BY 1;
-- accept
-- keys: 3 public, l0 proved
-- release: rows l0=3 linf=10

-- case: COALESCE over a nullable key
SELECT COALESCE(age, -1) AS age, COUNT(*) FROM customers GROUP BY 1;
-- accept
-- keys: 122 public, l0 proved
-- release: rows l0=1 linf=1

-- case: a constant key
SELECT status, ABS(0) AS zero, COUNT(*) FROM orders GROUP BY status, ABS(0);
-- accept
-- keys: 3 public, l0 proved
-- release: rows l0=3 linf=10

-- case: keys alone are the domain
SELECT DISTINCT status FROM orders;
-- accept
-- keys: 3 public, l0 proved

-- case: keys alone by GROUP BY
SELECT status FROM orders GROUP BY status;
-- accept
-- keys: 3 public, l0 proved

-- case: a column that is neither key nor measure
SELECT status, amount, COUNT(*) FROM orders GROUP BY status;
-- refuse: not-grouped at 1:16

-- case: star beside a group
SELECT *, COUNT(*) FROM orders GROUP BY status;
-- refuse: not-grouped at 1:8

-- case: the unit key as a key
SELECT customer_id, COUNT(*) FROM orders GROUP BY customer_id;
-- refuse: unit-key-exposed at 1:51

-- case: the unit key under another name
SELECT who, COUNT(*) FROM (SELECT customer_id AS who FROM orders) AS t GROUP BY who;
-- refuse: unit-key-exposed at 1:81

-- case: an ordinal out of range
SELECT status, COUNT(*) FROM orders GROUP BY 3;
-- refuse: unknown-column at 1:46

-- case: an aggregate as a key
SELECT COUNT(*) FROM orders GROUP BY SUM(amount);
-- refuse: misplaced-aggregate at 1:38

-- case: an aggregate as a key by ordinal
SELECT COUNT(*) FROM orders GROUP BY 1;
-- refuse: misplaced-aggregate at 1:8

-- case: grouping sets
SELECT status, COUNT(*) FROM orders GROUP BY ROLLUP (status);
-- accept
-- keys: 3 public, l0 proved
-- release: rows l0=3 linf=10

-- case: group by all
SELECT status, COUNT(*) FROM orders GROUP BY ALL;
-- accept
-- keys: 3 public, l0 proved
-- release: rows l0=3 linf=10
