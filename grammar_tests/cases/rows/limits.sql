-- Contribution limits: proved where they can be, enforced where declared, refused otherwise.
-- catalog: shop

-- case: rows of a unit without a declared limit
SELECT COUNT(*) FROM logins;
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=1048576

-- case: a sum without a declared limit
SELECT SUM(EXTRACT(day FROM day)) FROM logins;
-- accept
-- keys: 1 public, l0 proved
-- release: sum l0=1 linf=32505856

-- case: units need no limit
SELECT COUNT(DISTINCT customer_id) AS n FROM logins;
-- accept
-- keys: 1 public, l0 proved
-- release: units l0=1 linf=1

-- case: groups of a unit without a declared limit
SELECT login_id % 5000 AS g, COUNT(DISTINCT customer_id) FROM logins GROUP BY g;
-- accept
-- keys: private, l0 enforced
-- release: scaled l0=1024 linf=3355.4432

-- case: a median by groups of a unit without a declared limit
SELECT login_id % 5000 AS g, MEDIAN(EXTRACT(day FROM day)) FROM logins GROUP BY g;
-- refuse: unbounded-contribution at 1:8

-- case: few public keys are a proof
SELECT EXTRACT(month FROM day) AS m, COUNT(DISTINCT customer_id) FROM logins GROUP BY m;
-- accept
-- keys: 12 public, l0 proved
-- release: units l0=12 linf=1
-- rewrite:
--   WITH rows AS (
--     SELECT t1."customer_id" AS u, CAST(extract(month FROM t1."day") AS BIGINT) AS k0
--     FROM "logins" AS t1
--   ),
--   totals AS (SELECT u, k0, 1 AS s0 FROM rows GROUP BY u, k0)
--   SELECT k0, COALESCE(SUM(p0)::HUGEINT, 0) AS p0
--   FROM (SELECT k0, (CASE WHEN s0 < 0 THEN 0 WHEN s0 > 1 THEN 1 ELSE s0 END)::BIGINT AS p0 FROM totals)
--   GROUP BY k0
--   SELECT t1.c0 AS c0, t1.c1 AS c1 FROM release_0 AS t1

-- case: keys the unit determines are a proof
SELECT c.city, COUNT(DISTINCT l.customer_id) FROM logins l JOIN customers c ON l.customer_id = c.customer_id GROUP BY c.city;
-- accept
-- keys: private, l0 proved
-- release: units l0=1 linf=1

-- case: a declared number of groups is enforced where the keys can take more
SELECT device, COUNT(*) AS n FROM events GROUP BY device;
-- accept
-- keys: private, l0 enforced
-- release: units l0=2 linf=1
-- release: rows l0=2 linf=5
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

-- case: a declared number of groups is not needed where the keys can take fewer
SELECT duration > 60 AS long, COUNT(*) AS n FROM events GROUP BY 1;
-- accept
-- keys: 2 public, l0 proved
-- release: rows l0=2 linf=5

-- case: a join multiplies the limits
SELECT COUNT(*) FROM orders o JOIN events e ON o.customer_id = e.customer_id;
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=50

-- case: a join with a table without limits has none
SELECT COUNT(*) FROM orders o JOIN logins l ON o.customer_id = l.customer_id;
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=1048576
