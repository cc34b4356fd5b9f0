-- Public keys: a finite domain is answered whole, empty groups too, without threshold and δ.
-- catalog: shop

-- case: a column with declared values
SELECT status, COUNT(*) AS n FROM orders GROUP BY status;
-- accept

-- case: a column whose values a public table lists
SELECT country, COUNT(*) AS n FROM customers GROUP BY country;
-- accept

-- case: a boolean column
SELECT vip, COUNT(*) AS n FROM customers GROUP BY vip;
-- accept

-- case: a nullable bounded integer has a NULL group
SELECT age, COUNT(*) AS n FROM customers GROUP BY age;
-- accept

-- case: ordinal
SELECT segment, COUNT(*) FROM customers GROUP BY 1;
-- accept

-- case: alias
SELECT segment AS s, COUNT(*) FROM customers GROUP BY s;
-- accept

-- case: two keys
SELECT segment, vip, COUNT(*) AS n FROM customers GROUP BY segment, vip;
-- accept

-- case: a predicate is a key
SELECT age >= 65 AS old, COUNT(*) FROM customers GROUP BY age >= 65;
-- accept

-- case: CASE is a key
SELECT CASE WHEN age < 18 THEN 'minor' WHEN age < 65 THEN 'adult' ELSE 'senior' END AS band, COUNT(*) FROM customers GROUP BY band;
-- accept

-- case: decades
SELECT FLOOR(age / 10) * 10 AS decade, COUNT(*) FROM customers GROUP BY 1;
-- accept

-- case: month of a bounded timestamp
SELECT DATE_TRUNC('month', placed_at) AS month, SUM(amount) FROM orders GROUP BY 1;
-- accept

-- case: year of a date
SELECT EXTRACT(year FROM joined) AS year, COUNT(*) FROM customers GROUP BY 1;
-- accept

-- case: hour of day
SELECT EXTRACT(hour FROM placed_at) AS hour, COUNT(*) FROM orders GROUP BY 1;
-- accept

-- case: day as a cast
SELECT CAST(placed_at AS DATE) AS day, COUNT(*) FROM orders WHERE placed_at >= '2024-03-01' AND placed_at < '2024-04-01' GROUP BY 1;
-- accept

-- case: a filter narrows the domain
SELECT status, COUNT(*) FROM orders WHERE status IN ('paid', 'open') GROUP BY status;
-- accept

-- case: a filter makes a domain
SELECT city, COUNT(*) FROM customers WHERE city IN ('Oslo', 'Bergen') GROUP BY city;
-- accept

-- case: text functions over a finite domain
SELECT UPPER(SUBSTRING(status, 1, 1)) AS initial, COUNT(*) FROM orders GROUP BY 1;
-- accept

-- case: COALESCE over a nullable key
SELECT COALESCE(age, -1) AS age, COUNT(*) FROM customers GROUP BY 1;
-- accept

-- case: a constant key
SELECT status, ABS(0) AS zero, COUNT(*) FROM orders GROUP BY status, ABS(0);
-- accept

-- case: keys alone are the domain
SELECT DISTINCT status FROM orders;
-- accept

-- case: keys alone by GROUP BY
SELECT status FROM orders GROUP BY status;
-- accept

-- case: a column that is neither key nor measure
SELECT status, amount, COUNT(*) FROM orders GROUP BY status;
-- refuse: not-grouped

-- case: star beside a group
SELECT *, COUNT(*) FROM orders GROUP BY status;
-- refuse: not-grouped

-- case: the unit key as a key
SELECT customer_id, COUNT(*) FROM orders GROUP BY customer_id;
-- refuse: unit-key-exposed

-- case: the unit key under another name
SELECT who, COUNT(*) FROM (SELECT customer_id AS who FROM orders) AS t GROUP BY who;
-- refuse: unit-key-exposed

-- case: an ordinal out of range
SELECT status, COUNT(*) FROM orders GROUP BY 3;
-- refuse: unknown-column

-- case: an aggregate as a key
SELECT COUNT(*) FROM orders GROUP BY SUM(amount);
-- refuse: misplaced-aggregate

-- case: an aggregate as a key by ordinal
SELECT COUNT(*) FROM orders GROUP BY 1;
-- refuse: misplaced-aggregate

-- case: grouping sets
SELECT status, COUNT(*) FROM orders GROUP BY ROLLUP (status);
-- refuse: unsupported-syntax

-- case: group by all
SELECT status, COUNT(*) FROM orders GROUP BY ALL;
-- refuse: unsupported-syntax
