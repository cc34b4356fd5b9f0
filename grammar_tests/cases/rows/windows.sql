-- Windows over private rows: partitioned by the unit, in an order that leaves nothing to chance.
-- catalog: shop

-- case: the first order of each unit
SELECT status, COUNT(*) FROM (SELECT status, ROW_NUMBER() OVER (PARTITION BY customer_id ORDER BY placed_at) AS n FROM orders) t WHERE n = 1 GROUP BY status;
-- accept
-- keys: 3 public, l0 proved
-- release: rows l0=1 linf=1

-- case: the first two by QUALIFY
SELECT status, COUNT(*) FROM (SELECT * FROM orders QUALIFY ROW_NUMBER() OVER (PARTITION BY customer_id ORDER BY placed_at) <= 2) GROUP BY status;
-- accept
-- keys: 3 public, l0 proved
-- release: scaled l0=2 linf=2.0006

-- case: the third order
SELECT AVG(amount) FROM (SELECT amount, ROW_NUMBER() OVER (PARTITION BY customer_id ORDER BY placed_at) AS n FROM orders) t WHERE n = 3;
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=1
-- release: sum l0=1 linf=250

-- case: from one status to the next
SELECT previous, status, COUNT(*) FROM (SELECT status, LAG(status) OVER (PARTITION BY customer_id ORDER BY placed_at) AS previous FROM orders) t GROUP BY 1, 2;
-- accept
-- keys: 12 public, l0 enforced
-- release: rows l0=3 linf=10

-- case: a running sum
SELECT AVG(running) FROM (SELECT SUM(amount) OVER (PARTITION BY customer_id ORDER BY placed_at) AS running FROM orders) t;
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=10
-- release: sum l0=1 linf=125000

-- case: a moving sum
SELECT COUNT(*) FROM (SELECT SUM(quantity) OVER (PARTITION BY customer_id ORDER BY placed_at ROWS BETWEEN 2 PRECEDING AND CURRENT ROW) AS q FROM orders) t WHERE q > 3;
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=10

-- case: ranks with ties
SELECT n, COUNT(*) FROM (SELECT DENSE_RANK() OVER (PARTITION BY customer_id ORDER BY status) AS n FROM orders) t GROUP BY n;
-- accept
-- keys: 50 public, l0 enforced
-- release: rows l0=3 linf=10

-- case: a share of the unit's total
SELECT status, AVG(share) FROM (SELECT status, quantity * 1.0 / SUM(quantity + 1) OVER (PARTITION BY customer_id) AS share FROM orders) t WHERE share BETWEEN 0 AND 1 GROUP BY status;
-- accept
-- keys: 3 public, l0 proved
-- release: rows l0=3 linf=10
-- release: sum l0=3 linf=5

-- case: partitioned by what belongs to one unit
SELECT AVG(price) FROM (SELECT price, ROW_NUMBER() OVER (PARTITION BY order_id ORDER BY price DESC) AS n FROM items) t WHERE n = 1;
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=20
-- release: sum l0=1 linf=1000

-- case: a filter above does not narrow the window
SELECT SUM(s) FROM (SELECT quantity, SUM(quantity) OVER (PARTITION BY customer_id) AS s FROM orders) t WHERE quantity < 2;
-- accept
-- keys: 1 public, l0 proved
-- release: sum l0=1 linf=10000
-- rewrite:
--   WITH rows AS (
--     SELECT t2.c2 AS u, t2.c10 AS x0
--     FROM (
--       SELECT
--         t1."order_id" AS c1,
--         t1."customer_id" AS c2,
--         t1."amount" AS c3,
--         t1."quantity" AS c4,
--         CASE WHEN isnan(t1."discount") THEN NULL ELSE t1."discount"::DOUBLE + 0.0 END AS c5,
--         t1."placed_at" AS c6,
--         t1."status" AS c7,
--         t1."note" AS c8,
--         t1."note_length" AS c9,
--         sum(TRY_CAST(t1."quantity" AS BIGINT)) OVER (PARTITION BY t1."customer_id") AS c10
--       FROM "orders" AS t1
--     ) AS t2
--     WHERE (t2.c4 < 2)
--   ),
--   totals AS (
--     SELECT
--       u, SUM(((CASE WHEN x0 < 0 THEN 0 WHEN x0 > 1000 THEN 1000 ELSE x0 END)::BIGINT)::INTEGER) AS s0
--     FROM rows
--     GROUP BY u
--   )
--   SELECT COALESCE(SUM(p0)::HUGEINT, 0) AS p0
--   FROM (
--     SELECT (CASE WHEN s0 < 0 THEN 0 WHEN s0 > 10000 THEN 10000 ELSE s0 END)::BIGINT AS p0 FROM totals
--   )
--   SELECT t1.c0 AS c0 FROM release_0 AS t1

-- case: the value before, or another
SELECT AVG(amount - before) FROM (SELECT amount, LAG(amount, 1) OVER (PARTITION BY customer_id ORDER BY placed_at) AS before FROM orders) t;
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=10
-- release: sum l0=1 linf=5000

-- case: two windows
SELECT COUNT(*) FROM (SELECT ROW_NUMBER() OVER (PARTITION BY customer_id ORDER BY amount) AS a, COUNT(*) OVER (PARTITION BY customer_id) AS n FROM orders) t WHERE a = n;
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=10

-- case: over rows of several people
SELECT COUNT(*) FROM (SELECT SUM(amount) OVER (ORDER BY placed_at) AS running FROM orders) t;
-- refuse: unsupported-private-operator at 1:30

-- case: partitioned by something else
SELECT COUNT(*) FROM (SELECT ROW_NUMBER() OVER (PARTITION BY status ORDER BY placed_at) AS n FROM orders) t WHERE n = 1;
-- refuse: unsupported-private-operator at 1:30

-- case: a sum of floats over rows in an order
SELECT AVG(s) FROM (SELECT SUM(discount) OVER (PARTITION BY customer_id) AS s FROM orders) t;
-- refuse: unsupported-private-operator at 1:28

-- case: an offset that rows decide
SELECT COUNT(*) FROM (SELECT LAG(amount, quantity) OVER (PARTITION BY customer_id ORDER BY placed_at) AS b FROM orders) t;
-- refuse: unsupported-syntax at 1:30

-- case: a range with an offset
SELECT COUNT(*) FROM (SELECT SUM(amount) OVER (PARTITION BY customer_id ORDER BY quantity RANGE BETWEEN 1 PRECEDING AND CURRENT ROW) AS b FROM orders) t;
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=10

-- case: a range of days within a person
SELECT AVG(s) AS a FROM (SELECT SUM(quantity) OVER (PARTITION BY customer_id ORDER BY placed_at RANGE BETWEEN INTERVAL 7 DAY PRECEDING AND CURRENT ROW) AS s FROM orders) t;
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=10
-- release: sum l0=1 linf=5000

-- case: a range along a float
SELECT COUNT(*) FROM (SELECT SUM(amount) OVER (PARTITION BY customer_id ORDER BY discount RANGE BETWEEN 1 PRECEDING AND CURRENT ROW) AS b FROM orders) t;
-- refuse: unsupported-private-operator at 1:30

-- case: groups with an offset
SELECT COUNT(*) FROM (SELECT SUM(amount) OVER (PARTITION BY customer_id ORDER BY quantity GROUPS BETWEEN 1 PRECEDING AND CURRENT ROW) AS b FROM orders) t;
-- refuse: unsupported-private-operator at 1:30

-- case: a share by the number of the person's rows
SELECT SUM(x) AS s FROM (SELECT amount / COUNT(*) OVER (PARTITION BY customer_id) AS x FROM orders) t;
-- accept
-- keys: 1 public, l0 proved
-- release: sum l0=1 linf=5000

-- case: a share by a number that may be zero
SELECT SUM(x) AS s FROM (SELECT amount / COUNT(note) OVER (PARTITION BY customer_id) AS x FROM orders) t;
-- accept
-- keys: 1 public, l0 proved
-- release: sum l0=1 linf=1073741824

-- case: a share by the number of earlier rows, if there are any
SELECT SUM(x) AS s FROM (SELECT amount / NULLIF(COUNT(*) OVER (PARTITION BY customer_id ORDER BY placed_at ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING), 0) AS x FROM orders) t;
-- accept
-- keys: 1 public, l0 proved
-- release: sum l0=1 linf=5000

-- case: the first row of one person
SELECT SUM(amount) AS s FROM (SELECT amount FROM orders WHERE customer_id = 17 ORDER BY placed_at LIMIT 1) t;
-- accept
-- keys: 1 public, l0 proved
-- release: sum l0=1 linf=500

-- case: later rows of one person
SELECT COUNT(*) AS n FROM (SELECT amount FROM orders WHERE 17 = customer_id AND amount > 3 ORDER BY placed_at DESC, amount LIMIT 2 OFFSET 1) t;
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=3

-- case: the first row of several people
SELECT SUM(amount) AS s FROM (SELECT amount FROM orders WHERE customer_id IN (17, 18) ORDER BY placed_at LIMIT 1) t;
-- refuse: unsupported-private-operator at 1:31

-- case: the first row of one person or of others
SELECT SUM(amount) AS s FROM (SELECT amount FROM orders WHERE customer_id = 17 OR amount > 3 ORDER BY placed_at LIMIT 1) t;
-- refuse: unsupported-private-operator at 1:31

-- case: the first row of those who share another number
SELECT SUM(amount) AS s FROM (SELECT amount FROM orders WHERE quantity = 17 ORDER BY placed_at LIMIT 1) t;
-- refuse: unsupported-private-operator at 1:31

-- case: above the average of all people
SELECT COUNT(*) AS n FROM (SELECT amount, AVG(amount) OVER () AS a FROM orders) t WHERE amount > a;
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=10
-- release: sum l0=1 linf=2500
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=10

-- case: above the average of a group of people
SELECT COUNT(*) AS n FROM (SELECT amount, AVG(amount) OVER (PARTITION BY status) AS a FROM orders) t WHERE amount > a;
-- accept
-- keys: 3 public, l0 proved
-- release: rows l0=3 linf=10
-- release: sum l0=3 linf=2500
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=10

-- case: above the average of a group that may be NULL
SELECT COUNT(*) AS n FROM (SELECT age, AVG(age) OVER (PARTITION BY segment, country) AS a FROM customers) t WHERE age > a;
-- accept
-- keys: 6 public, l0 proved
-- release: rows l0=1 linf=1
-- release: sum l0=1 linf=60
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=1

-- case: above a running average of people
SELECT COUNT(*) AS n FROM (SELECT amount, AVG(amount) OVER (PARTITION BY status ORDER BY placed_at) AS a FROM orders) t WHERE amount > a;
-- refuse: unsupported-private-operator at 1:43

-- case: above the average of private groups
SELECT COUNT(*) AS n FROM (SELECT amount, AVG(amount) OVER (PARTITION BY note) AS a FROM orders) t WHERE amount > a;
-- refuse: unsupported-private-operator at 1:43

-- case: grouped by an average of people
SELECT a, COUNT(*) AS n FROM (SELECT amount, AVG(amount) OVER () AS a FROM orders) t GROUP BY a;
-- refuse: unsupported-private-operator at 1:46

-- case: raw rows with a window
SELECT amount, ROW_NUMBER() OVER (PARTITION BY customer_id ORDER BY placed_at) FROM orders;
-- refuse: raw-rows at 1:85

-- case: ties are broken by the whole row
SELECT AVG(amount) FROM (SELECT amount, ROW_NUMBER() OVER (PARTITION BY customer_id ORDER BY status) AS n FROM orders) t WHERE n = 1;
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=1
-- release: sum l0=1 linf=250
-- rewrite:
--   WITH rows AS (
--     SELECT NOT t2.c3 IS NULL AS x0, t2.c3 AS x1
--     FROM (
--       SELECT
--         t1."order_id" AS c1,
--         t1."customer_id" AS c2,
--         t1."amount" AS c3,
--         t1."quantity" AS c4,
--         CASE WHEN isnan(t1."discount") THEN NULL ELSE t1."discount"::DOUBLE + 0.0 END AS c5,
--         t1."placed_at" AS c6,
--         t1."status" AS c7,
--         t1."note" AS c8,
--         t1."note_length" AS c9,
--         row_number() OVER (
--           PARTITION BY t1."customer_id" ORDER BY t1."status" NULLS LAST, t1."order_id"
--         ) AS c10
--       FROM "orders" AS t1
--     ) AS t2
--     WHERE (t2.c10 = 1)
--   )
--   SELECT
--     COALESCE(COUNT(*) FILTER (WHERE x0)::HUGEINT, 0) AS p0,
--     COALESCE(
--       replace(
--         SUM(
--           CASE
--             WHEN x1 < '0.00'::DECIMAL(3, 2) THEN '0.00'::DECIMAL(3, 2)
--             WHEN x1 > '500.00'::DECIMAL(5, 2) THEN '500.00'::DECIMAL(5, 2)
--             ELSE x1
--           END
--           - '250.00'::DECIMAL(5, 2)
--         )::DECIMAL(38, 2)::VARCHAR,
--         '.',
--         ''
--       )::HUGEINT,
--       0
--     ) AS p1
--   FROM rows
--   SELECT t3.c13 AS c0
--   FROM (
--     SELECT
--       250.0e0
--       + least(
--         greatest(CAST(t2.c22 AS DOUBLE) * t2.c38 / (t2.c38 * t2.c38 + 153.23046326656623e0), -250.0e0),
--         250.0e0
--       ) AS c13
--     FROM (SELECT t1.c1 AS c22, greatest(1.0e0, CAST(t1.c0 AS DOUBLE)) AS c38 FROM release_0 AS t1) AS t2
--   ) AS t3

-- case: DISTINCT ON the unit is its first row
SELECT status, COUNT(*) FROM (SELECT DISTINCT ON (customer_id) status FROM orders ORDER BY customer_id, placed_at) t GROUP BY status;
-- accept
-- keys: 3 public, l0 proved
-- release: rows l0=1 linf=1

-- case: a named window
SELECT COUNT(*) FROM (SELECT ROW_NUMBER() OVER w AS n, COUNT(*) OVER w AS m FROM orders WINDOW w AS (PARTITION BY customer_id)) t WHERE n = m;
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=10

-- case: a constant before the number of a row limits it from above
SELECT COUNT(*) FROM (SELECT ROW_NUMBER() OVER (PARTITION BY customer_id ORDER BY order_id) AS n FROM orders) t WHERE 2 >= n AND 4 > n;
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=2

-- case: a constant before the number of a row limits it from below, and so nobody's rows
SELECT COUNT(*) AS n, SUM(amount) AS s FROM (SELECT customer_id, amount, ROW_NUMBER() OVER (PARTITION BY customer_id ORDER BY order_id) AS rn FROM orders) t WHERE 1 <= rn AND customer_id = 165;
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=10
-- release: sum l0=1 linf=5000

-- case: moments of a few rows of each unit, under the pure accountant
SELECT status, AVG(discount) AS a, VAR_POP(quantity) AS v FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY customer_id ORDER BY order_id) AS n FROM orders) t WHERE n <= 3 GROUP BY status;
-- accountant: pure
-- accept
-- keys: 3 public, l0 proved
-- release: rows l0=3 linf=3
-- release: rows l0=3 linf=3
-- release: sum l0=3 linf=1.5
-- release: sum l0=3 linf=30
-- release: sum l0=3 linf=150

-- case: moments of a few rows of each unit, under the approximate accountant
SELECT AVG(discount) AS a, SUM(amount) AS s, COUNT(*) AS c FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY customer_id ORDER BY order_id) AS n FROM orders) t WHERE n < 5;
-- accountant: approximate
-- accept
-- keys: 1 public, l0 proved
-- release: sum l0=1 linf=4.000000004
-- release: sum l0=1 linf=4.000000004
-- release: sum l0=1 linf=2000
-- release: sum l0=1 linf=2000

-- case: a few rows of each unit by private keys, under the approximate accountant
SELECT device, AVG(duration) AS a FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY customer_id ORDER BY event_id) AS n FROM events) t WHERE n <= 2 GROUP BY device;
-- accountant: approximate
-- accept
-- keys: private, l0 proved
-- release: units l0=2 linf=1
-- release: rows l0=2 linf=2
-- release: sum l0=2 linf=3600
