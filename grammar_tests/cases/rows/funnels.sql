-- Funnels, cohorts, baskets and shares: how product and sales teams ask about steps, returns and ranges.
-- catalog: shop

-- case: a funnel of two steps by one person
SELECT COUNT(DISTINCT a.customer_id) AS opened, COUNT(DISTINCT b.customer_id) AS paid FROM orders a LEFT JOIN orders b ON b.customer_id = a.customer_id AND b.status = 'paid' AND b.placed_at > a.placed_at WHERE a.status = 'open';
-- accept
-- keys: 1 public, l0 proved
-- release: units l0=1 linf=1
-- release: units l0=1 linf=1

-- case: a funnel as flags of each person
SELECT COUNT(*) AS people, COUNT(*) FILTER (WHERE opened) AS opened, COUNT(*) FILTER (WHERE opened AND paid) AS paid FROM (SELECT customer_id, BOOL_OR(status = 'open') AS opened, BOOL_OR(status = 'paid') AS paid FROM orders GROUP BY customer_id) t;
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=1
-- release: rows l0=1 linf=1
-- release: rows l0=1 linf=1
-- release: rows l0=1 linf=1
-- release: rows l0=1 linf=1

-- case: who fell out of a funnel
SELECT customer_id FROM orders WHERE status = 'open' EXCEPT SELECT customer_id FROM orders WHERE status = 'paid';
-- refuse: raw-rows at 1:25

-- case: how many fell out of a funnel
SELECT COUNT(*) AS n FROM (SELECT customer_id FROM orders WHERE status = 'open' EXCEPT SELECT customer_id FROM orders WHERE status = 'paid') t;
-- accept
-- enforced: a unit's rows in groups with more than 1 rows are left out
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=1

-- case: how many did both
SELECT COUNT(*) AS n FROM (SELECT customer_id FROM orders WHERE status = 'open' INTERSECT SELECT customer_id FROM events WHERE device = 'phone') t;
-- accept
-- enforced: a unit's rows in groups with more than 1 rows are left out
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=1

-- case: people who came back within thirty days of their first order
SELECT COUNT(*) AS n FROM (SELECT customer_id, MIN(placed_at) AS first_at FROM orders GROUP BY customer_id) f WHERE EXISTS (SELECT 1 FROM orders o WHERE o.customer_id = f.customer_id AND o.placed_at > f.first_at AND o.placed_at <= f.first_at + INTERVAL 30 DAY);
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=1

-- case: retention by months since people joined
SELECT DATE_DIFF('month', c.joined, CAST(o.placed_at AS DATE)) AS month, COUNT(DISTINCT o.customer_id) AS n FROM orders o JOIN customers c ON c.customer_id = o.customer_id WHERE DATE_DIFF('month', c.joined, CAST(o.placed_at AS DATE)) BETWEEN 0 AND 11 GROUP BY 1 ORDER BY 1;
-- accept
-- keys: 12 public, l0 enforced
-- release: units l0=3 linf=1

-- case: the share of a cohort that came in its first month
SELECT EXTRACT(YEAR FROM c.joined) AS cohort, AVG(CASE WHEN EXISTS (SELECT 1 FROM orders o WHERE o.customer_id = c.customer_id AND o.placed_at < c.joined + INTERVAL 1 MONTH) THEN 1.0 ELSE 0.0 END) AS share FROM customers c GROUP BY 1 ORDER BY 1;
-- accept
-- keys: 6 public, l0 proved
-- release: rows l0=1 linf=1
-- release: sum l0=1 linf=0.5

-- case: the order before each event, as of its number
SELECT o.status, COUNT(*) AS n FROM events e ASOF JOIN orders o ON e.customer_id = o.customer_id AND e.event_id >= o.order_id GROUP BY o.status;
-- accept
-- keys: 3 public, l0 enforced
-- release: rows l0=2 linf=5

-- case: the two newest orders of each person
SELECT t.status, COUNT(*) AS n FROM customers c JOIN LATERAL (SELECT o.status FROM orders o WHERE o.customer_id = c.customer_id ORDER BY o.placed_at DESC, o.order_id LIMIT 2) t ON TRUE GROUP BY t.status;
-- accept
-- keys: 3 public, l0 proved
-- release: scaled l0=2 linf=2.0006

-- case: the newest orders of all
SELECT t.status, COUNT(*) AS n FROM (SELECT o.status FROM orders o ORDER BY o.placed_at DESC LIMIT 2) t GROUP BY t.status;
-- refuse: unsupported-private-operator at 1:38

-- case: ages in bands that are written as ranges
SELECT COUNT(*) FILTER (WHERE age BETWEEN 18 AND 24) AS a, COUNT(*) FILTER (WHERE age BETWEEN 25 AND 34) AS b, COUNT(*) FILTER (WHERE age BETWEEN 35 AND 49) AS c, COUNT(*) FILTER (WHERE age BETWEEN 50 AND 64) AS d FROM customers;
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=1
-- release: rows l0=1 linf=1
-- release: rows l0=1 linf=1
-- release: rows l0=1 linf=1

-- case: ages in bands that are written as one value
SELECT CASE WHEN age < 25 THEN 'young' WHEN age < 50 THEN 'middle' WHEN age >= 50 THEN 'old' END AS band, COUNT(*) AS n FROM customers GROUP BY 1;
-- accept
-- keys: 4 public, l0 proved
-- release: rows l0=1 linf=1

-- case: ages in bands of a width that a function makes
SELECT FLOOR(age / 10) * 10 AS decade, COUNT(*) AS n, AVG(age) AS mean FROM customers GROUP BY 1 ORDER BY 1;
-- accept
-- keys: 14 public, l0 proved
-- release: rows l0=1 linf=1
-- release: rows l0=1 linf=1
-- release: rows l0=1 linf=1
-- release: sum l0=1 linf=60

-- case: ages in bands as wide as the data
SELECT NTILE(4) OVER (ORDER BY age) AS quarter, age FROM customers;
-- refuse: unsupported-private-operator at 1:8

-- case: shares of a whole, each beside the others
SELECT segment, COUNT(*) AS n, 100.0 * COUNT(*) / SUM(COUNT(*)) OVER () AS share FROM customers GROUP BY segment;
-- accept
-- keys: 2 public, l0 proved
-- release: rows l0=1 linf=1

-- case: what changed against the month before
SELECT m, n, n - LAG(n) OVER (ORDER BY m) AS change FROM (SELECT DATE_TRUNC('month', joined) AS m, COUNT(*) AS n FROM customers WHERE joined >= DATE '2023-01-01' AND joined < DATE '2023-07-01' GROUP BY 1) t ORDER BY m;
-- accept
-- keys: 6 public, l0 proved
-- release: rows l0=1 linf=1

-- case: a running total of months
SELECT DATE_TRUNC('month', joined) AS m, SUM(COUNT(*)) OVER (ORDER BY DATE_TRUNC('month', joined)) AS so_far FROM customers WHERE joined >= DATE '2023-01-01' AND joined < DATE '2023-07-01' GROUP BY 1 ORDER BY 1;
-- accept
-- keys: 6 public, l0 proved
-- release: rows l0=1 linf=1

-- case: a running total of people
SELECT joined, COUNT(*) OVER (ORDER BY joined) AS so_far FROM customers;
-- refuse: unsupported-private-operator at 1:16

-- case: months without anybody are there too
SELECT m.m, COALESCE(t.n, 0) AS n FROM generate_series(DATE '2023-01-01', DATE '2023-06-01', INTERVAL 1 MONTH) AS m(m) LEFT JOIN (SELECT DATE_TRUNC('month', joined) AS m, COUNT(*) AS n FROM customers GROUP BY 1) t ON t.m = m.m ORDER BY 1;
-- accept
-- keys: 72 public, l0 proved
-- release: rows l0=1 linf=1

-- case: two filters side by side
SELECT SUM(amount) FILTER (WHERE status = 'paid') - SUM(amount) FILTER (WHERE status = 'returned') AS net FROM orders;
-- accept
-- keys: 1 public, l0 proved
-- release: sum l0=1 linf=5000
-- release: sum l0=1 linf=5000

-- case: the return rate by country of those with a region
SELECT c.country, 1.0 * COUNT(*) FILTER (WHERE o.status = 'returned') / COUNT(*) AS rate FROM orders o JOIN customers c ON c.customer_id = o.customer_id JOIN countries k ON k.code = c.country WHERE k.region = 'north' GROUP BY c.country;
-- accept
-- keys: 2 public, l0 proved
-- release: rows l0=1 linf=10
-- release: rows l0=1 linf=10

-- case: the average basket
SELECT AVG(basket) AS mean FROM (SELECT order_id, customer_id, SUM(price * units) AS basket FROM items JOIN orders USING (order_id) GROUP BY order_id, customer_id) t;
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=20
-- release: sum l0=1 linf=200000

-- case: baskets that have two categories
SELECT COUNT(*) AS n FROM (SELECT o.order_id, o.customer_id FROM items i JOIN orders o ON o.order_id = i.order_id JOIN products p ON p.product_id = i.product_id GROUP BY o.order_id, o.customer_id HAVING COUNT(DISTINCT p.category) >= 2) t;
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=20

-- case: pairs of categories in one basket
SELECT p.category AS one, q.category AS other, COUNT(DISTINCT o.customer_id) AS people FROM items i JOIN items j ON j.order_id = i.order_id AND j.item_id > i.item_id JOIN orders o ON o.order_id = i.order_id JOIN products p ON p.product_id = i.product_id JOIN products q ON q.product_id = j.product_id GROUP BY 1, 2;
-- accept
-- keys: 4 public, l0 proved
-- release: units l0=4 linf=1

-- case: people who bought in a list of months and states
SELECT COUNT(*) AS n FROM orders WHERE (EXTRACT(YEAR FROM placed_at), status) IN ((2023, 'paid'), (2024, 'open'));
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=10

-- case: rows beside released groups by several columns
SELECT COUNT(*) AS n FROM orders WHERE (status, EXTRACT(YEAR FROM placed_at)) IN (SELECT status, EXTRACT(YEAR FROM placed_at) FROM orders GROUP BY 1, 2 HAVING COUNT(*) > 5);
-- accept
-- keys: 6 public, l0 enforced
-- release: rows l0=3 linf=10
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=10

-- case: countries that are alike or both unknown
SELECT COUNT(*) AS n FROM customers c LEFT JOIN countries k ON k.code IS NOT DISTINCT FROM c.country WHERE k.region IS NULL;
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=3

-- case: the median time between orders of one person
SELECT MEDIAN(gap) AS days FROM (SELECT DATE_DIFF('day', LAG(placed_at) OVER (PARTITION BY customer_id ORDER BY placed_at, order_id), placed_at) AS gap FROM orders) t WHERE gap BETWEEN 0 AND 365;
-- accept
-- keys: 1 public, l0 proved
-- choice: 2/4 of 366 l0=1 rows=10 hashed

-- case: gaps between orders of different people
SELECT AVG(gap) AS days FROM (SELECT DATE_DIFF('day', LAG(placed_at) OVER (ORDER BY placed_at, order_id), placed_at) AS gap FROM orders) t WHERE gap BETWEEN 0 AND 365;
-- refuse: unsupported-private-operator at 1:55

-- case: active by day, week and month in one text
SELECT COUNT(DISTINCT CASE WHEN day = DATE '2024-03-31' THEN customer_id END) AS dau, COUNT(DISTINCT CASE WHEN day > DATE '2024-03-24' THEN customer_id END) AS wau, COUNT(DISTINCT customer_id) AS mau FROM logins WHERE day BETWEEN DATE '2024-03-01' AND DATE '2024-03-31';
-- accept
-- keys: 1 public, l0 proved
-- release: units l0=1 linf=1
-- release: units l0=1 linf=1
-- release: units l0=1 linf=1

-- case: how sticky a month was
SELECT 1.0 * SUM(n) / 31 / (SELECT COUNT(DISTINCT customer_id) FROM logins WHERE day BETWEEN DATE '2024-03-01' AND DATE '2024-03-31') AS stickiness FROM (SELECT day, COUNT(DISTINCT customer_id) AS n FROM logins WHERE day BETWEEN DATE '2024-03-01' AND DATE '2024-03-31' GROUP BY day) t;
-- accept
-- keys: 31 public, l0 proved
-- release: units l0=31 linf=1
-- keys: 1 public, l0 proved
-- release: units l0=1 linf=1

-- case: the longest streak of each person
SELECT MAX(n) AS longest FROM (SELECT customer_id, COUNT(*) AS n FROM (SELECT customer_id, day - CAST(ROW_NUMBER() OVER (PARTITION BY customer_id ORDER BY day, login_id) AS INTEGER) AS run FROM logins) r GROUP BY customer_id, run) s;
-- refuse: unbounded-input at 1:12

-- case: a metric before and after a day, by the difference of two means
SELECT AVG(amount) FILTER (WHERE placed_at >= TIMESTAMP '2024-02-01') - AVG(amount) FILTER (WHERE placed_at < TIMESTAMP '2024-02-01') AS change FROM orders;
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=10
-- release: sum l0=1 linf=2500
-- release: rows l0=1 linf=10
-- release: sum l0=1 linf=2500

-- case: a test of two variants by an odd and an even number
SELECT customer_id % 2 AS variant, COUNT(*) AS people FROM customers GROUP BY 1;
-- accept
-- keys: 3 public, l0 proved
-- release: rows l0=1 linf=1

-- case: a test of two variants by a declared column
SELECT vip AS variant, COUNT(*) AS people, AVG(income) AS mean, STDDEV_SAMP(income) AS deviation FROM customers GROUP BY vip;
-- accept
-- keys: 2 public, l0 proved
-- release: rows l0=1 linf=1
-- release: sum l0=1 linf=0.7363281259
-- release: sum l0=1 linf=0.7363281259
