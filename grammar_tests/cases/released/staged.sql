-- Results joined back to private rows: released first, then public, their cost included.
-- catalog: shop

-- case: the best two groups, and their rows
SELECT o.status, SUM(o.amount) FROM orders o JOIN (SELECT status, AVG(amount) AS s FROM orders WHERE quantity > 0 GROUP BY 1 ORDER BY s DESC, status LIMIT 2) t ON o.status = t.status GROUP BY 1;
-- accept
-- keys: 3 public, l0 proved
-- release: rows l0=3 linf=10
-- release: sum l0=3 linf=2500
-- keys: 3 public, l0 proved
-- release: sum l0=3 linf=5000

-- case: rows above their group's average
SELECT o.status, COUNT(*) FROM orders o JOIN (SELECT status, AVG(amount) AS a FROM orders GROUP BY status) t ON o.status = t.status WHERE o.amount > t.a GROUP BY o.status;
-- accept
-- keys: 3 public, l0 proved
-- release: rows l0=3 linf=10
-- release: sum l0=3 linf=2500
-- keys: 3 public, l0 proved
-- release: rows l0=3 linf=10

-- case: a left join keeps the rows
SELECT COUNT(*), COUNT(t.n) FROM orders o LEFT JOIN (SELECT status, COUNT(*) AS n FROM orders GROUP BY status HAVING COUNT(*) > 6) t ON o.status = t.status;
-- accept
-- keys: 3 public, l0 proved
-- release: rows l0=3 linf=10
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=10
-- release: rows l0=1 linf=10

-- case: two stages
SELECT COUNT(*) FROM orders WHERE amount > (SELECT AVG(amount) FROM orders WHERE amount > (SELECT AVG(amount) FROM orders));
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=10
-- release: sum l0=1 linf=2500
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=10
-- release: sum l0=1 linf=2500
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=10

-- case: a released number beside every row
SELECT COUNT(*) FROM customers c, (SELECT AVG(age) AS mean FROM customers) t WHERE c.age > t.mean;
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=1
-- release: sum l0=1 linf=60
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=1

-- case: with a public table between
SELECT COUNT(*) FROM customers c JOIN (SELECT k.region, k.code, n FROM countries k JOIN (SELECT country, COUNT(*) AS n FROM customers GROUP BY country) g ON g.country = k.code) t ON t.code = c.country WHERE t.n > 2;
-- accept
-- keys: 3 public, l0 proved
-- release: rows l0=1 linf=1
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=1

-- case: several released rows per private row
SELECT COUNT(*) FROM orders o JOIN (SELECT status, segment, COUNT(*) AS n FROM orders JOIN customers USING (customer_id) GROUP BY 1, 2) t ON o.status = t.status;
-- accept
-- keys: 6 public, l0 proved
-- release: rows l0=3 linf=10
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=20

-- case: released rows with private ones beside them
SELECT COUNT(o.order_id) FROM (SELECT status, COUNT(*) AS n FROM orders GROUP BY status) t LEFT JOIN orders o ON o.status = t.status GROUP BY t.status;
-- refuse: unsupported-private-operator at 1:102

-- case: VALUES beside private rows
SELECT v.label, COUNT(*) FROM orders o JOIN (VALUES ('open', 'not yet'), ('paid', 'done')) AS v(status, label) ON v.status = o.status GROUP BY v.label;
-- rows: orders (customer_id, status): (1, 'open'), (1, 'paid'), (2, 'paid'), (2, 'returned')
-- accept
-- keys: 2 public, l0 proved
-- release: rows l0=2 linf=10
-- integers: (done) 2
-- integers: (not yet) 1
-- rewrite:
--   WITH rows AS (
--     SELECT t1."customer_id" AS u, t2.c11 AS k0
--     FROM
--       "orders" AS t1
--       INNER JOIN (VALUES ('open', 'not yet'), ('paid', 'done')) AS t2(c10, c11) ON t2.c10 = t1."status"
--   ),
--   totals AS (SELECT u, k0, COUNT(*) AS s0 FROM rows GROUP BY u, k0)
--   SELECT k0, COALESCE(SUM(p0)::HUGEINT, 0) AS p0
--   FROM (
--     SELECT k0, (CASE WHEN s0 < 0 THEN 0 WHEN s0 > 10 THEN 10 ELSE s0 END)::BIGINT AS p0 FROM totals
--   )
--   GROUP BY k0
--   SELECT t1.c0 AS c0, t1.c1 AS c1 FROM release_0 AS t1

-- case: a series lists the groups
SELECT g.n, COUNT(o.order_id) FROM generate_series(0, 3) AS g(n) LEFT JOIN orders o ON o.quantity = g.n GROUP BY g.n;
-- accept
-- keys: 4 public, l0 enforced
-- release: rows l0=3 linf=10
