-- Private keys: shown where the noisy number of units reaches the threshold.
-- catalog: shop

-- case: a column without declared values
SELECT city, COUNT(*) AS n FROM customers GROUP BY city;
-- accept
-- keys: private, l0 proved
-- release: rows l0=1 linf=1

-- case: keys of linked rows
SELECT device, COUNT(*) AS n FROM events GROUP BY device;
-- rows: events (customer_id, device): (1, 'phone'), (1, 'phone'), (2, 'phone'), (2, NULL)
-- accept
-- keys: private, l0 enforced
-- release: units l0=2 linf=1
-- release: rows l0=2 linf=5
-- integers: (phone) 2 3
-- integers: (None) 1 1
-- rewrite:
--   WITH rows AS (SELECT t1."customer_id" AS u, t1."device" AS k0 FROM "events" AS t1),
--   totals AS (SELECT u, k0, 1 AS s0, COUNT(*) AS s1 FROM rows GROUP BY u, k0),
--   clipped AS MATERIALIZED (
--     SELECT
--       u,
--       k0,
--       (CASE WHEN s0 < 0 THEN 0 WHEN s0 > 1 THEN 1 ELSE s0 END)::BIGINT AS p0,
--       (CASE WHEN s1 < 0 THEN 0 WHEN s1 > 5 THEN 5 ELSE s1 END)::BIGINT AS p1
--     FROM totals
--   ),
--   above AS MATERIALIZED (SELECT u, COUNT(*) AS groups FROM clipped GROUP BY u HAVING COUNT(*) > 2),
--   beyond AS (
--     SELECT
--       clipped.*,
--       (
--         ROW_NUMBER() OVER (PARTITION BY u ORDER BY hash(u, k0), k0)
--         + (hash($sampling_key::UBIGINT, u) >> 2)::BIGINT
--       ) % groups AS place
--     FROM clipped JOIN above USING (u)
--   )
--   SELECT k0, COALESCE(SUM(p0)::HUGEINT, 0) AS p0, COALESCE(SUM(p1)::HUGEINT, 0) AS p1
--   FROM (
--     SELECT k0, p0, p1, 1 AS one
--     FROM clipped
--     UNION ALL
--     SELECT k0, -p0, -p1, -1
--     FROM beyond
--     WHERE place >= 2
--   )
--   GROUP BY k0
--   HAVING SUM(one) > 0
--   SELECT t1.c0 AS c0, t1.c2 AS c1 FROM release_0 AS t1

-- case: rows of which each unit counts one at most are its units, and measured once
SELECT WITH DIFFERENTIAL_PRIVACY device, COUNT(*, contribution_bounds_per_group => (0, 1)) AS n FROM events GROUP BY device;
-- rows: events (customer_id, device): (1, 'phone'), (1, 'phone'), (2, 'phone'), (2, NULL)
-- accept
-- keys: private, l0 enforced
-- release: units l0=2 linf=1
-- integers: (phone) 2
-- integers: (None) 1

-- case: rows of which two count, or some do not, are not
SELECT WITH DIFFERENTIAL_PRIVACY device, COUNT(*, contribution_bounds_per_group => (0, 2)) AS two, COUNT(*, contribution_bounds_per_group => (0, 1)) FILTER (WHERE duration > 60) AS some FROM events GROUP BY device;
-- accept
-- keys: private, l0 enforced
-- release: units l0=2 linf=1
-- release: rows l0=2 linf=2
-- release: units l0=2 linf=1

-- case: measures beside private keys
SELECT device, SUM(duration) AS total, AVG(duration) AS mean FROM events GROUP BY device;
-- accept
-- keys: private, l0 enforced
-- release: units l0=2 linf=1
-- release: sum l0=2 linf=18000
-- release: rows l0=2 linf=5
-- release: sum l0=2 linf=9000

-- case: a public and a private key
SELECT segment, city, COUNT(*) FROM customers GROUP BY segment, city;
-- accept
-- keys: private, l0 proved
-- release: rows l0=1 linf=1

-- case: keys alone
SELECT DISTINCT city FROM customers;
-- accept
-- keys: private, l0 proved
-- release: rows l0=1 linf=1

-- case: an expression over an unbounded column
SELECT note_length % 7 AS k, COUNT(*) FROM orders GROUP BY 1;
-- accept
-- keys: 13 public, l0 enforced
-- release: rows l0=3 linf=10

-- case: a domain beyond the owner's limit
SELECT amount, COUNT(*) FROM orders GROUP BY amount;
-- accept
-- keys: private, l0 enforced
-- release: units l0=3 linf=1
-- release: rows l0=3 linf=10

-- case: keys determined by the unit
SELECT c.city, COUNT(*) FROM orders o JOIN customers c ON o.customer_id = c.customer_id GROUP BY c.city;
-- accept
-- keys: private, l0 proved
-- release: units l0=1 linf=1
-- release: rows l0=1 linf=10

-- case: units per private key
SELECT device, COUNT(DISTINCT customer_id) AS n FROM events GROUP BY device;
-- accept
-- keys: private, l0 enforced
-- release: units l0=2 linf=1

-- case: the pure accountant has no δ to select keys with
SELECT city, COUNT(*) FROM customers GROUP BY city;
-- accountant: pure
-- refuse: private-keys-need-delta at 1:1

-- case: the pure accountant answers public keys
SELECT segment, COUNT(*) FROM customers GROUP BY segment;
-- accountant: pure
-- accept
-- keys: 2 public, l0 proved
-- release: rows l0=1 linf=1

-- case: the approximate accountant selects keys
SELECT city, COUNT(*) FROM customers GROUP BY city;
-- accountant: approximate
-- accept
-- keys: private, l0 proved
-- release: rows l0=1 linf=1

-- case: a hidden key
SELECT name, COUNT(*) FROM customers GROUP BY name;
-- refuse: hidden-column at 1:47

-- case: a private key that the unit determines beside a listed one that it does not
SELECT c.city, o.status, COUNT(*) AS n FROM orders o JOIN customers c ON o.customer_id = c.customer_id GROUP BY c.city, o.status;
-- accept
-- keys: private, l0 enforced
-- release: units l0=3 linf=1
-- release: rows l0=3 linf=10

-- case: a private key beside a bounded one
SELECT note, quantity > 2 AS many, COUNT(*) AS n FROM orders GROUP BY note, many;
-- accept
-- keys: private, l0 enforced
-- release: units l0=3 linf=1
-- release: rows l0=3 linf=10
-- rewrite:
--   WITH rows AS (
--     SELECT t1."customer_id" AS u, t1."note" AS k0, t1."quantity" > 2 AS k1 FROM "orders" AS t1
--   ),
--   totals AS (SELECT u, k0, k1, 1 AS s0, COUNT(*) AS s1 FROM rows GROUP BY u, k0, k1),
--   clipped AS MATERIALIZED (
--     SELECT
--       u,
--       k0,
--       k1,
--       (CASE WHEN s0 < 0 THEN 0 WHEN s0 > 1 THEN 1 ELSE s0 END)::BIGINT AS p0,
--       (CASE WHEN s1 < 0 THEN 0 WHEN s1 > 10 THEN 10 ELSE s1 END)::BIGINT AS p1
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
--   SELECT k0, k1, COALESCE(SUM(p0)::HUGEINT, 0) AS p0, COALESCE(SUM(p1)::HUGEINT, 0) AS p1
--   FROM (
--     SELECT k0, k1, p0, p1, 1 AS one
--     FROM clipped
--     UNION ALL
--     SELECT k0, k1, -p0, -p1, -1
--     FROM beyond
--     WHERE place >= 3
--   )
--   GROUP BY k0, k1
--   HAVING SUM(one) > 0
--   SELECT t1.c0 AS c0, t1.c1 AS c1, t1.c3 AS c2 FROM release_0 AS t1
