-- What analysts ask of people and their doings, as they write it: groups, shares, firsts, gaps and ranks.
-- catalog: shop

-- case: the month in which people come first
WITH firsts AS (SELECT customer_id, MIN(placed_at) AS first_at FROM orders GROUP BY customer_id) SELECT DATE_TRUNC('month', first_at) AS cohort, COUNT(*) AS n FROM firsts GROUP BY 1 ORDER BY 1;
-- accept
-- keys: 25 public, l0 proved
-- release: rows l0=1 linf=1

-- case: when each comes first
SELECT customer_id, MIN(placed_at) AS first_at FROM orders GROUP BY customer_id;
-- refuse: unit-key-exposed at 1:69

-- case: days until people come
WITH firsts AS (SELECT customer_id, MIN(placed_at) AS first_at FROM orders GROUP BY customer_id) SELECT AVG(EXTRACT(EPOCH FROM f.first_at - c.joined) / 86400) AS days FROM firsts f JOIN customers c ON c.customer_id = f.customer_id;
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=1
-- release: sum l0=1 linf=1460.999996

-- case: the share of those who come again
WITH n AS (SELECT customer_id, COUNT(*) AS n FROM orders GROUP BY customer_id) SELECT ROUND(100.0 * COUNT(CASE WHEN n > 1 THEN 1 END) / COUNT(*), 2) AS again FROM n;
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=1
-- release: rows l0=1 linf=1
-- release: rows l0=1 linf=1

-- case: those who come again
SELECT a.customer_id FROM orders a GROUP BY a.customer_id HAVING COUNT(*) > 3;
-- refuse: unit-key-exposed at 1:45

-- case: halves of groups by their counts
SELECT status, NTILE(2) OVER (ORDER BY COUNT(*), status) AS half FROM orders GROUP BY status;
-- accept
-- keys: 3 public, l0 proved
-- release: rows l0=3 linf=10

-- case: thirds of people by their totals
SELECT third, COUNT(*) AS n FROM (SELECT customer_id, NTILE(3) OVER (ORDER BY SUM(amount)) AS third FROM orders GROUP BY customer_id) t GROUP BY third;
-- accept
-- keys: 1 public, l0 proved
-- choice: 2/6 of 64103 l0=1 rows=1 all
-- choice: 4/6 of 64103 l0=1 rows=1 all
-- keys: 3 public, l0 proved
-- release: rows l0=1 linf=1

-- case: the best of each group by its count
SELECT c.segment, o.status, COUNT(*) AS n, ROW_NUMBER() OVER (PARTITION BY c.segment ORDER BY COUNT(*) DESC, o.status) AS r FROM orders o JOIN customers c ON c.customer_id = o.customer_id GROUP BY 1, 2 QUALIFY r = 1;
-- accept
-- keys: 6 public, l0 proved
-- release: rows l0=3 linf=10

-- case: the best of each group by its rows
SELECT last, COUNT(*) AS n FROM (SELECT DISTINCT ON (status) status, quantity AS last FROM orders ORDER BY status, placed_at DESC) t GROUP BY last;
-- refuse: unsupported-private-operator at 1:34

-- case: the last of each person
SELECT last, COUNT(*) AS n FROM (SELECT DISTINCT ON (customer_id) customer_id, status AS last FROM orders ORDER BY customer_id, placed_at DESC, order_id) t GROUP BY last;
-- accept
-- keys: 3 public, l0 proved
-- release: rows l0=1 linf=1

-- case: two largest of each person
SELECT COUNT(*) AS n FROM (SELECT RANK() OVER (PARTITION BY customer_id ORDER BY amount DESC) AS r, status FROM orders) t WHERE r <= 2 AND status = 'paid';
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=10

-- case: the largest of all
SELECT COUNT(*) AS n FROM (SELECT RANK() OVER (ORDER BY amount DESC) AS r FROM orders) t WHERE r <= 10;
-- refuse: unsupported-private-operator at 1:35

-- case: days between what one person does
SELECT AVG(gap) AS gap FROM (SELECT DATE_DIFF('day', LAG(placed_at) OVER (PARTITION BY customer_id ORDER BY placed_at, order_id), placed_at) AS gap FROM orders) t WHERE gap BETWEEN 0 AND 365;
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=10
-- release: sum l0=1 linf=1830

-- case: days between what anybody does
SELECT AVG(gap) AS gap FROM (SELECT DATE_DIFF('day', LAG(placed_at) OVER (PARTITION BY status ORDER BY placed_at), placed_at) AS gap FROM orders) t;
-- refuse: unsupported-private-operator at 1:54

-- case: what one person does within a week of it
SELECT COUNT(*) AS n FROM orders a JOIN orders b ON a.customer_id = b.customer_id AND b.placed_at > a.placed_at AND b.placed_at <= a.placed_at + INTERVAL 7 DAY;
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=100

-- case: what anybody does within a week of it
SELECT COUNT(*) AS n FROM orders a JOIN orders b ON b.placed_at > a.placed_at AND b.placed_at <= a.placed_at + INTERVAL 7 DAY;
-- refuse: unequal-units at 1:41

-- case: a sum of three months at a time
WITH m AS (SELECT DATE_TRUNC('month', placed_at) AS month, SUM(amount) AS s FROM orders WHERE placed_at >= '2024-01-01' AND placed_at < '2024-07-01' GROUP BY 1) SELECT month, s, SUM(s) OVER (ORDER BY month ROWS BETWEEN 2 PRECEDING AND CURRENT ROW) / 3 AS moving FROM m;
-- accept
-- keys: 6 public, l0 enforced
-- release: sum l0=3 linf=5000

-- case: from one group to the next
SELECT status, n - LAG(n) OVER (ORDER BY status) AS change FROM (SELECT status, COUNT(*) AS n FROM orders GROUP BY status) t;
-- accept
-- keys: 3 public, l0 proved
-- release: rows l0=3 linf=10

-- case: from one person to the next
SELECT joined - LAG(joined) OVER (ORDER BY joined) AS gap FROM customers;
-- refuse: unsupported-private-operator at 1:17

-- case: two counts of all, divided
SELECT (SELECT COUNT(*) FROM orders WHERE status = 'paid') * 1.0 / (SELECT COUNT(*) FROM orders) AS share;
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=10
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=10

-- case: each group beside the count of all
SELECT status, COUNT(*)::float / (SELECT COUNT(*) FROM orders) AS share FROM orders GROUP BY status;
-- accept
-- keys: 3 public, l0 proved
-- release: rows l0=3 linf=10
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=10

-- case: each row beside the count of all
SELECT segment, COUNT(*) OVER () AS n FROM customers;
-- refuse: unsupported-private-operator at 1:17

-- case: each row beside the count of its group
SELECT c.segment, t.n FROM customers c JOIN (SELECT segment, COUNT(*) AS n FROM customers GROUP BY segment) t ON t.segment = c.segment;
-- refuse: raw-rows at 1:28

-- case: groups of two tables side by side
SELECT t.segment, t.n, u.n AS orders FROM (SELECT segment, COUNT(*) AS n FROM customers GROUP BY segment) t JOIN (SELECT c.segment, COUNT(*) AS n FROM orders o JOIN customers c USING (customer_id) GROUP BY 1) u ON u.segment = t.segment;
-- accept
-- keys: 2 public, l0 proved
-- release: rows l0=1 linf=1
-- keys: 2 public, l0 proved
-- release: rows l0=1 linf=10

-- case: rows of the most common value
SELECT COUNT(*) AS n FROM orders WHERE status IN (SELECT status FROM orders GROUP BY status ORDER BY COUNT(*) DESC LIMIT 2);
-- accept
-- keys: 3 public, l0 proved
-- release: rows l0=3 linf=10
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=10

-- case: rows of somebody's value
SELECT COUNT(*) AS n FROM customers WHERE city = (SELECT city FROM customers LIMIT 1);
-- refuse: unsupported-private-operator at 1:51

-- case: rows of those who have the most
SELECT COUNT(*) AS n FROM orders WHERE customer_id IN (SELECT customer_id FROM orders ORDER BY amount DESC LIMIT 10);
-- refuse: unsupported-private-operator at 1:56

-- case: rows above the average of all
SELECT COUNT(*) AS n FROM orders o WHERE amount > (SELECT AVG(amount) FROM orders i WHERE i.status = o.status);
-- accept
-- keys: 3 public, l0 proved
-- release: rows l0=3 linf=10
-- release: sum l0=3 linf=2500
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=10

-- case: rows above one's own average
SELECT COUNT(*) AS n FROM orders o WHERE amount > (SELECT AVG(amount) FROM orders i WHERE i.customer_id = o.customer_id);
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=10

-- case: rows above all others
SELECT COUNT(*) AS n FROM orders WHERE amount > ALL (SELECT amount FROM orders);
-- refuse: unsupported-syntax at 1:49

-- case: rows of one's first day
SELECT COUNT(*) AS n FROM orders o WHERE o.placed_at = (SELECT MIN(placed_at) FROM orders i WHERE i.customer_id = o.customer_id);
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=10

-- case: rows of one's only day, if there is one
SELECT COUNT(*) AS n FROM orders o WHERE o.placed_at = (SELECT placed_at FROM orders i WHERE i.customer_id = o.customer_id);
-- refuse: unsupported-syntax at 1:64

-- case: how many have how many
SELECT n, COUNT(*) AS people FROM (SELECT customer_id, LEAST(COUNT(*), 5) AS n FROM orders GROUP BY customer_id) t GROUP BY n ORDER BY n;
-- accept
-- keys: 6 public, l0 proved
-- release: rows l0=1 linf=1

-- case: who lives where somebody older does
SELECT COUNT(*) AS n FROM customers c WHERE EXISTS (SELECT 1 FROM customers d WHERE d.city = c.city AND d.age > c.age);
-- refuse: unequal-units at 1:60

-- case: places without people, by their counts
SELECT n.code, COUNT(c.customer_id) AS people FROM countries n LEFT JOIN customers c ON c.country = n.code GROUP BY n.code HAVING COUNT(c.customer_id) = 0;
-- accept
-- keys: 3 public, l0 proved
-- release: rows l0=1 linf=1

-- case: places without people, exactly
SELECT n.code FROM countries n WHERE NOT EXISTS (SELECT 1 FROM customers c WHERE c.country = n.code);
-- refuse: unsupported-private-operator at 1:57

-- case: places without people, by an absent key
SELECT n.code FROM countries n LEFT JOIN customers c ON c.country = n.code WHERE c.customer_id IS NULL;
-- refuse: raw-rows at 1:20

-- case: a list of what people have
SELECT segment, ARRAY_AGG(city) AS cities FROM customers GROUP BY segment;
-- refuse: unsupported-aggregate at 1:17

-- case: the first and the later of each person
SELECT SUM(CASE WHEN seq = 1 THEN amount END) AS first, SUM(CASE WHEN seq > 1 THEN amount END) AS later FROM (SELECT amount, ROW_NUMBER() OVER (PARTITION BY customer_id ORDER BY placed_at, order_id) AS seq FROM orders) t;
-- accept
-- keys: 1 public, l0 proved
-- release: sum l0=1 linf=5000
-- release: sum l0=1 linf=5000

-- case: who did one thing and another
SELECT COUNT(*) AS n FROM (SELECT a.customer_id FROM orders a WHERE a.status = 'paid' INTERSECT SELECT b.customer_id FROM orders b WHERE b.status = 'returned') t;
-- accept
-- enforced: a unit's rows in groups with more than 1 rows are left out
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=1
