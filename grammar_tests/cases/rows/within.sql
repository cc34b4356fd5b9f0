-- Aggregates within one unit: anything exact, and the unit has one row afterwards.
-- catalog: shop

-- case: the average of totals per unit
SELECT AVG(total) FROM (SELECT customer_id, SUM(amount) AS total FROM orders GROUP BY customer_id) t;
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=1
-- release: sum l0=1 linf=12500

-- case: the distribution of a count per unit
SELECT n, COUNT(*) FROM (SELECT c.customer_id, COUNT(o.order_id) AS n FROM customers c LEFT JOIN orders o ON c.customer_id = o.customer_id GROUP BY c.customer_id) t GROUP BY n;
-- accept
-- keys: 51 public, l0 proved
-- release: rows l0=1 linf=1

-- case: with columns that the unit determines
SELECT segment, AVG(n) FROM (SELECT customer_id, segment, COUNT(*) AS n FROM customers JOIN orders USING (customer_id) GROUP BY customer_id, segment) t GROUP BY segment;
-- accept
-- keys: 2 public, l0 proved
-- release: rows l0=1 linf=1
-- release: sum l0=1 linf=25

-- case: units that satisfy HAVING
SELECT COUNT(*) FROM (SELECT customer_id FROM orders GROUP BY customer_id HAVING SUM(amount) > 100) t;
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=1

-- case: per row below the unit
SELECT AVG(top) FROM (SELECT order_id, MAX(price) AS top FROM items GROUP BY order_id) t;
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=20
-- release: sum l0=1 linf=1000

-- case: per unit and group
SELECT status, AVG(n) FROM (SELECT customer_id, status, COUNT(*) AS n FROM orders GROUP BY customer_id, status) t GROUP BY status;
-- accept
-- keys: 3 public, l0 proved
-- release: rows l0=3 linf=10
-- release: sum l0=3 linf=250

-- case: distinct pairs
SELECT COUNT(*) FROM (SELECT DISTINCT customer_id, status FROM orders) t;
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=10

-- case: means and deviations of floats
SELECT AVG(d), AVG(n) FROM (SELECT customer_id, AVG(discount) AS d, COUNT(discount) AS n, STDDEV(discount) AS s FROM orders GROUP BY customer_id) t;
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=1
-- release: sum l0=1 linf=0.5000000019
-- release: rows l0=1 linf=1
-- release: sum l0=1 linf=25

-- case: distinct values per unit
SELECT AVG(n) FROM (SELECT customer_id, COUNT(DISTINCT status) AS n FROM orders GROUP BY customer_id) t;
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=1
-- release: sum l0=1 linf=25

-- case: the median of each unit
SELECT AVG(q) FROM (SELECT customer_id, MEDIAN(amount) AS q FROM orders GROUP BY customer_id) t;
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=1
-- release: sum l0=1 linf=250

-- case: filtered per unit
SELECT AVG(paid) FROM (SELECT customer_id, SUM(amount) FILTER (WHERE status = 'paid') AS paid FROM orders GROUP BY customer_id) t;
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=1
-- release: sum l0=1 linf=12500

-- case: two levels
SELECT AVG(most) FROM (SELECT customer_id, MAX(n) AS most FROM (SELECT customer_id, status, COUNT(*) AS n FROM orders GROUP BY customer_id, status) a GROUP BY customer_id) b;
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=1
-- release: sum l0=1 linf=25

-- case: joined back to the unit
SELECT c.segment, AVG(t.total) FROM customers c JOIN (SELECT customer_id, SUM(amount) AS total FROM orders GROUP BY customer_id) t ON t.customer_id = c.customer_id GROUP BY c.segment;
-- accept
-- keys: 2 public, l0 proved
-- release: rows l0=1 linf=1
-- release: sum l0=1 linf=12500

-- case: joined back with those who have none
SELECT c.segment, AVG(COALESCE(t.total, 0)) FROM customers c LEFT JOIN (SELECT customer_id, SUM(amount) AS total FROM orders GROUP BY customer_id) t ON t.customer_id = c.customer_id GROUP BY c.segment;
-- accept
-- keys: 2 public, l0 proved
-- release: rows l0=1 linf=1
-- release: sum l0=1 linf=12500

-- case: first and last order of a unit
SELECT AVG(date_part('month', last)) FROM (SELECT customer_id, MIN(placed_at) AS first, MAX(placed_at) AS last FROM orders GROUP BY customer_id) t;
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=1
-- release: sum l0=1 linf=6

-- case: retention
SELECT COUNT(*), COUNT(*) FILTER (WHERE later > 0) FROM (SELECT customer_id, COUNT(*) FILTER (WHERE placed_at < '2024-06-01') AS early, COUNT(*) FILTER (WHERE placed_at >= '2024-06-01') AS later FROM orders GROUP BY customer_id) t WHERE early > 0;
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=1
-- release: rows l0=1 linf=1

-- case: a funnel
SELECT COUNT(*) FILTER (WHERE opened), COUNT(*) FILTER (WHERE opened AND paid) FROM (SELECT customer_id, bool_or(status = 'open') AS opened, bool_or(status = 'paid') AS paid FROM orders GROUP BY customer_id) t;
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=1
-- release: rows l0=1 linf=1

-- case: ages by what people spent
SELECT floor(total / 50) * 50 AS spent, COUNT(*) FROM (SELECT customer_id, SUM(amount) AS total FROM orders GROUP BY customer_id) t GROUP BY 1;
-- accept
-- keys: 502 public, l0 proved
-- release: rows l0=1 linf=1

-- case: the unit itself is no result
SELECT customer_id, COUNT(*) FROM orders GROUP BY customer_id;
-- refuse: unit-key-exposed at 1:51

-- case: nor the first few of them
SELECT customer_id, COUNT(*) FROM orders GROUP BY customer_id ORDER BY 2 DESC LIMIT 10;
-- refuse: unit-key-exposed at 1:51

-- case: nor what belongs to one unit
SELECT order_id, SUM(price) FROM items GROUP BY order_id;
-- refuse: unit-key-exposed at 1:49

-- case: a key that only looks like one
SELECT AVG(n) FROM (SELECT customer_id + 0 AS c, COUNT(*) AS n FROM orders GROUP BY 1) t WHERE c > 3;
-- accept
-- keys: private, l0 proved
-- release: units l0=1 linf=1
-- release: rows l0=1 linf=10

-- case: a renamed column is no unit
SELECT COUNT(*) FROM (SELECT quantity AS customer_id, SUM(amount) AS total FROM orders GROUP BY quantity) t JOIN customers USING (customer_id);
-- accept
-- keys: 21 public, l0 enforced
-- release: sum l0=3 linf=5000
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=1

-- case: an aggregate of the order of rows
SELECT COUNT(*) FROM (SELECT customer_id, approx_quantile(amount, 0.5) AS q FROM orders GROUP BY customer_id) t;
-- refuse: unsupported-aggregate at 1:43

-- case: a total without bounds
SELECT AVG(total) FROM (SELECT customer_id, SUM(note_length) AS total FROM orders GROUP BY customer_id) t;
-- refuse: unbounded-input at 1:12
