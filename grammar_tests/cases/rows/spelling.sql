-- Spellings of conditions and columns over private rows that need no rule of their own.
-- catalog: shop

-- case: pairs in a list
SELECT COUNT(*) AS n FROM orders WHERE (status, quantity) IN (('paid', 1), ('open', 2), ('paid', 3));
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=10
-- rewrite:
--   WITH rows AS (
--     SELECT t1."customer_id" AS u
--     FROM "orders" AS t1
--     WHERE (
--       t1."status" = 'paid' AND t1."quantity" = 1
--       OR t1."status" = 'open' AND t1."quantity" = 2
--       OR t1."status" = 'paid' AND t1."quantity" = 3
--     )
--   ),
--   totals AS (SELECT u, COUNT(*) AS s0 FROM rows GROUP BY u)
--   SELECT COALESCE(SUM(p0)::HUGEINT, 0) AS p0
--   FROM (SELECT (CASE WHEN s0 < 0 THEN 0 WHEN s0 > 10 THEN 10 ELSE s0 END)::BIGINT AS p0 FROM totals)
--   SELECT t1.c0 AS c0 FROM release_0 AS t1

-- case: pairs not in a list
SELECT COUNT(*) AS n FROM orders WHERE (status, quantity) NOT IN (('paid', 1), ('open', 2));
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=10

-- case: a pair that equals another
SELECT COUNT(*) AS n FROM orders WHERE (status, quantity) = ('paid', quantity);
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=10

-- case: pairs of different length
SELECT COUNT(*) FROM orders WHERE (status, quantity) IN (('paid', 1, 2));
-- refuse: syntax-error at 1:36

-- case: a pair in a list of values
SELECT COUNT(*) FROM orders WHERE (status, quantity) IN ('paid', 1);
-- refuse: unsupported-syntax at 1:36

-- case: a pair as a value
SELECT (status, quantity) AS pair, COUNT(*) FROM orders GROUP BY pair;
-- refuse: unsupported-syntax at 1:9

-- case: a pair before another
SELECT COUNT(*) FROM orders WHERE (status, quantity) < ('paid', 1);
-- refuse: unsupported-syntax at 1:36

-- case: a distinction
SELECT COUNT(*) AS n FROM orders WHERE discount IS DISTINCT FROM 0.5;
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=10

-- case: no distinction
SELECT COUNT(*) AS n FROM orders WHERE discount IS NOT DISTINCT FROM NULL;
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=10

-- case: an alias in WHERE
SELECT quantity * 2 AS q, COUNT(*) AS n FROM orders WHERE q > 4 GROUP BY q;
-- accept
-- keys: 18 public, l0 enforced
-- release: rows l0=3 linf=10

-- case: an alias of an alias, grouped
SELECT quantity + 1 AS q, q * 2 AS r, COUNT(*) AS n FROM orders GROUP BY ALL;
-- accept
-- keys: 21 public, l0 enforced
-- release: rows l0=3 linf=10
-- rewrite:
--   WITH rows AS (
--     SELECT
--       t1."customer_id" AS u,
--       TRY(t1."quantity" + 1::BIGINT) AS k0,
--       TRY(TRY(t1."quantity" + 1::BIGINT) * 2::HUGEINT) AS k1
--     FROM "orders" AS t1
--   ),
--   totals AS (SELECT u, k0, k1, COUNT(*) AS s0 FROM rows GROUP BY u, k0, k1),
--   clipped AS MATERIALIZED (
--     SELECT u, k0, k1, (CASE WHEN s0 < 0 THEN 0 WHEN s0 > 10 THEN 10 ELSE s0 END)::BIGINT AS p0
--     FROM totals
--   ),
--   above AS MATERIALIZED (SELECT u, COUNT(*) AS groups FROM clipped GROUP BY u HAVING COUNT(*) > 3),
--   beyond AS (
--     SELECT
--       clipped.*,
--       (
--         ROW_NUMBER() OVER (PARTITION BY u ORDER BY hash(u, k0, k1), k0, k1)
--         + (hash($sampling_key::UBIGINT, u) >> 2)::BIGINT
--       ) % groups AS place
--     FROM clipped JOIN above USING (u)
--   )
--   SELECT k0, k1, COALESCE(SUM(p0)::HUGEINT, 0) AS p0
--   FROM (
--     SELECT k0, k1, p0, 1 AS one
--     FROM clipped
--     UNION ALL
--     SELECT k0, k1, -p0, -1
--     FROM beyond
--     WHERE place >= 3
--   )
--   GROUP BY k0, k1
--   HAVING SUM(one) > 0
--   SELECT t1.c0 AS c0, t1.c1 AS c1, t1.c2 AS c2 FROM release_0 AS t1

-- case: an alias does not move a bound
SELECT SUM(amount) AS s FROM (SELECT quantity AS amount, amount AS quantity FROM orders) AS t;
-- accept
-- keys: 1 public, l0 proved
-- release: sum l0=1 linf=200

-- case: star without a column over private rows
SELECT SUM(amount) AS s FROM (SELECT * EXCLUDE (note, note_length) FROM orders) AS t;
-- accept
-- keys: 1 public, l0 proved
-- release: sum l0=1 linf=5000

-- case: star with a new value moves the bound
SELECT SUM(amount) AS s FROM (SELECT * REPLACE (amount / 10 AS amount) FROM orders) AS t;
-- accept
-- keys: 1 public, l0 proved
-- release: sum l0=1 linf=500

-- case: star with new names moves the bounds
SELECT SUM(amount) AS s FROM (SELECT * EXCLUDE (amount) RENAME (quantity AS amount) FROM orders) AS t;
-- accept
-- keys: 1 public, l0 proved
-- release: sum l0=1 linf=200

-- case: star without the column that is read
SELECT SUM(amount) FROM (SELECT * EXCLUDE (amount) FROM orders) AS t;
-- refuse: unknown-column at 1:12

-- case: star with a value that has no bounds
SELECT SUM(amount) FROM (SELECT * REPLACE (note_length AS amount) FROM orders) AS t;
-- refuse: unbounded-input at 1:12

-- case: star with a hidden column
SELECT COUNT(*) FROM (SELECT * RENAME (name AS who) FROM customers) AS t;
-- refuse: unknown-column at 1:30

-- case: an alias of the unit as the key
SELECT customer_id AS c, COUNT(*) FROM orders WHERE c > 1 GROUP BY c;
-- refuse: unit-key-exposed at 1:8

-- case: a key written three ways
SELECT orders.status AS a, status AS b, COUNT(*) AS n FROM orders GROUP BY a, status, 1;
-- accept
-- keys: 3 public, l0 proved
-- release: rows l0=3 linf=10

-- case: group by all over a join
SELECT region, vip, COUNT(*) AS n FROM customers JOIN countries ON country = code GROUP BY ALL;
-- accept
-- keys: 4 public, l0 proved
-- release: rows l0=1 linf=1

-- case: group by all shows the unit
SELECT customer_id, COUNT(*) FROM orders GROUP BY ALL;
-- refuse: unit-key-exposed at 1:8

-- case: a with of private rows with names of columns
WITH t(s, a) AS (SELECT status, amount FROM orders) SELECT s, SUM(a) AS a FROM t GROUP BY s;
-- accept
-- keys: 3 public, l0 proved
-- release: sum l0=3 linf=5000

-- case: a hint to keep private rows
WITH t AS MATERIALIZED (SELECT status, amount FROM orders) SELECT status, SUM(amount) AS a FROM t GROUP BY ALL;
-- accept
-- keys: 3 public, l0 proved
-- release: sum l0=3 linf=5000

-- case: the first row of each unit
SELECT COUNT(*) AS n, SUM(amount) AS s FROM (SELECT DISTINCT ON (customer_id) customer_id, amount FROM orders ORDER BY customer_id, placed_at, order_id) AS t;
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=1
-- release: sum l0=1 linf=250

-- case: the first row of each group of units
SELECT COUNT(*) FROM (SELECT DISTINCT ON (status) status, amount FROM orders ORDER BY status, placed_at) AS t;
-- refuse: unsupported-private-operator at 1:23

-- case: a natural join within a unit, then a list
SELECT COUNT(*) AS c FROM (SELECT customer_id, COUNT(*) AS n FROM customers NATURAL JOIN orders GROUP BY customer_id) AS a NATURAL JOIN (SELECT customer_id, STRING_AGG(status, ',' ORDER BY status) AS all_of_them FROM orders GROUP BY customer_id) AS b WHERE all_of_them LIKE 'open%';
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=1
