-- Windows over released values: named windows, frames, FILTER, IGNORE NULLS, every function.
-- catalog: shop

-- case: a named window
SELECT status, SUM(n) OVER w AS running FROM (SELECT status, COUNT(*) AS n FROM orders GROUP BY status) AS t WINDOW w AS (ORDER BY status);
-- accept
-- keys: 3 public, l0 proved
-- release: rows l0=3 linf=10

-- case: a named window with a frame of its own
SELECT status, AVG(n) OVER (w ROWS 1 PRECEDING) AS moving FROM (SELECT status, COUNT(*) AS n FROM orders GROUP BY status) AS t WINDOW w AS (ORDER BY status);
-- accept
-- keys: 3 public, l0 proved
-- release: rows l0=3 linf=10

-- case: a window that builds on another
SELECT age, SUM(n) OVER late AS s FROM (SELECT age, COUNT(*) AS n FROM customers GROUP BY age) AS t WINDOW early AS (PARTITION BY n > 1), late AS (early ORDER BY age);
-- accept
-- keys: 122 public, l0 proved
-- release: rows l0=1 linf=1

-- case: two named windows
SELECT status, SUM(n) OVER a AS s, COUNT(*) OVER b AS c FROM (SELECT status, COUNT(*) AS n FROM orders GROUP BY status) AS t WINDOW a AS (ORDER BY status), b AS ();
-- accept
-- keys: 3 public, l0 proved
-- release: rows l0=3 linf=10

-- case: an unknown window
SELECT SUM(n) OVER w FROM (SELECT COUNT(*) AS n FROM orders) AS t WINDOW v AS ();
-- refuse: syntax-error at 1:8

-- case: a window named twice
SELECT SUM(n) OVER w FROM (SELECT COUNT(*) AS n FROM orders) AS t WINDOW w AS (), w AS ();
-- refuse: syntax-error at 1:83

-- case: a named window with another order
SELECT SUM(n) OVER (w ORDER BY n) FROM (SELECT status, COUNT(*) AS n FROM orders GROUP BY status) AS t WINDOW w AS (ORDER BY status);
-- refuse: syntax-error at 1:8

-- case: a named window with other partitions
SELECT SUM(n) OVER (w PARTITION BY n) FROM (SELECT status, COUNT(*) AS n FROM orders GROUP BY status) AS t WINDOW w AS (ORDER BY status);
-- refuse: syntax-error at 1:8

-- case: a frame of groups
SELECT status, SUM(n) OVER (ORDER BY status GROUPS BETWEEN 1 PRECEDING AND CURRENT ROW) AS s FROM (SELECT status, COUNT(*) AS n FROM orders GROUP BY status) AS t;
-- accept
-- keys: 3 public, l0 proved
-- release: rows l0=3 linf=10

-- case: a frame without its own row
SELECT status, SUM(n) OVER (ORDER BY status ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING EXCLUDE CURRENT ROW) AS others FROM (SELECT status, COUNT(*) AS n FROM orders GROUP BY status) AS t;
-- accept
-- keys: 3 public, l0 proved
-- release: rows l0=3 linf=10
-- rewrite:
--   WITH rows AS (SELECT t1."customer_id" AS u, t1."status" AS k0 FROM "orders" AS t1),
--   totals AS (SELECT u, k0, COUNT(*) AS s0 FROM rows GROUP BY u, k0)
--   SELECT k0, COALESCE(SUM(p0)::HUGEINT, 0) AS p0
--   FROM (
--     SELECT k0, (CASE WHEN s0 < 0 THEN 0 WHEN s0 > 10 THEN 10 ELSE s0 END)::BIGINT AS p0 FROM totals
--   )
--   GROUP BY k0
--   SELECT t2.c12 AS c0, t2.c14 AS c1
--   FROM (
--     SELECT
--       t1.c0 AS c12,
--       t1.c1 AS c13,
--       sum(t1.c1) OVER (
--         ORDER BY t1.c0 NULLS LAST ROWS BETWEEN UNBOUNDED PRECEDING
--         AND UNBOUNDED FOLLOWING EXCLUDE CURRENT ROW
--       ) AS c14
--     FROM release_0 AS t1
--   ) AS t2

-- case: a frame without ties
SELECT status, SUM(n) OVER (ORDER BY n > 3 GROUPS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW EXCLUDE TIES) AS s FROM (SELECT status, COUNT(*) AS n FROM orders GROUP BY status) AS t;
-- accept
-- keys: 3 public, l0 proved
-- release: rows l0=3 linf=10

-- case: a frame without its group
SELECT status, COUNT(*) OVER (ORDER BY n > 3 RANGE BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW EXCLUDE GROUP) AS s FROM (SELECT status, COUNT(*) AS n FROM orders GROUP BY status) AS t;
-- accept
-- keys: 3 public, l0 proved
-- release: rows l0=3 linf=10

-- case: a frame that excludes no others
SELECT status, SUM(n) OVER (ORDER BY status ROWS BETWEEN 1 PRECEDING AND 1 FOLLOWING EXCLUDE NO OTHERS) AS s FROM (SELECT status, COUNT(*) AS n FROM orders GROUP BY status) AS t;
-- accept
-- keys: 3 public, l0 proved
-- release: rows l0=3 linf=10

-- case: a frame by distance
SELECT age, SUM(n) OVER (ORDER BY age RANGE BETWEEN 5 PRECEDING AND 5 FOLLOWING) AS near FROM (SELECT age, COUNT(*) AS n FROM customers GROUP BY age) AS t;
-- accept
-- keys: 122 public, l0 proved
-- release: rows l0=1 linf=1

-- case: running sums over the values of a key, measured together
SELECT age, SUM(n) OVER (ORDER BY age) AS so_far FROM (SELECT age, COUNT(*) AS n FROM customers GROUP BY age) AS t;
-- accept
-- keys: 122 public, l0 proved
-- release: rows l0=1 linf=1

-- case: a frame by distance between texts
SELECT SUM(n) OVER (ORDER BY status RANGE BETWEEN 1 PRECEDING AND CURRENT ROW) FROM (SELECT status, COUNT(*) AS n FROM orders GROUP BY status) AS t;
-- refuse: unsupported-syntax at 1:8

-- case: a frame by distance in two orders
SELECT SUM(n) OVER (ORDER BY n, status RANGE BETWEEN 1 PRECEDING AND CURRENT ROW) FROM (SELECT status, COUNT(*) AS n FROM orders GROUP BY status) AS t;
-- refuse: unsupported-syntax at 1:8

-- case: a frame that ends before it starts
SELECT SUM(n) OVER (ORDER BY status ROWS BETWEEN 1 FOLLOWING AND CURRENT ROW) FROM (SELECT status, COUNT(*) AS n FROM orders GROUP BY status) AS t;
-- refuse: syntax-error at 1:50

-- case: a frame that starts at the end
SELECT SUM(n) OVER (ORDER BY status ROWS BETWEEN UNBOUNDED FOLLOWING AND UNBOUNDED FOLLOWING) FROM (SELECT status, COUNT(*) AS n FROM orders GROUP BY status) AS t;
-- refuse: syntax-error at 1:8

-- case: a frame of a computed size
SELECT SUM(n) OVER (ORDER BY status ROWS n PRECEDING) FROM (SELECT status, COUNT(*) AS n FROM orders GROUP BY status) AS t;
-- refuse: unsupported-syntax at 1:42

-- case: a filtered window
SELECT status, SUM(n) FILTER (WHERE status <> 'open') OVER () AS rest FROM (SELECT status, COUNT(*) AS n FROM orders GROUP BY status) AS t;
-- accept
-- keys: 3 public, l0 proved
-- release: rows l0=3 linf=10

-- case: distinct values in a window
SELECT status, COUNT(DISTINCT n > 3) OVER () AS kinds FROM (SELECT status, COUNT(*) AS n FROM orders GROUP BY status) AS t;
-- accept
-- keys: 3 public, l0 proved
-- release: rows l0=3 linf=10

-- case: distinct in a rank
SELECT LAG(DISTINCT n) OVER (ORDER BY status) FROM (SELECT status, COUNT(*) AS n FROM orders GROUP BY status) AS t;
-- refuse: unsupported-syntax at 1:8

-- case: the last value that is there
SELECT status, LAST_VALUE(x IGNORE NULLS) OVER (ORDER BY status ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS x FROM (SELECT status, CASE WHEN status <> 'paid' THEN COUNT(*) END AS x FROM orders GROUP BY status) AS t;
-- accept
-- keys: 3 public, l0 proved
-- release: rows l0=3 linf=10

-- case: the value before, NULLs skipped
SELECT status, LAG(x, 1 IGNORE NULLS) OVER (ORDER BY status) AS x FROM (SELECT status, CASE WHEN status <> 'paid' THEN COUNT(*) END AS x FROM orders GROUP BY status) AS t;
-- accept
-- keys: 3 public, l0 proved
-- release: rows l0=3 linf=10

-- case: NULLs respected
SELECT status, FIRST_VALUE(x RESPECT NULLS) OVER (ORDER BY status) AS x FROM (SELECT status, CASE WHEN status <> 'open' THEN COUNT(*) END AS x FROM orders GROUP BY status) AS t;
-- accept
-- keys: 3 public, l0 proved
-- release: rows l0=3 linf=10

-- case: IGNORE NULLS in a sum
SELECT SUM(n IGNORE NULLS) OVER () FROM (SELECT COUNT(*) AS n FROM orders) AS t;
-- refuse: unsupported-syntax at 1:8

-- case: the n-th value
SELECT status, NTH_VALUE(n, 2) OVER (ORDER BY status ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING) AS second FROM (SELECT status, COUNT(*) AS n FROM orders GROUP BY status) AS t;
-- accept
-- keys: 3 public, l0 proved
-- release: rows l0=3 linf=10

-- case: the zeroth value
SELECT NTH_VALUE(n, 0) OVER (ORDER BY status) FROM (SELECT status, COUNT(*) AS n FROM orders GROUP BY status) AS t;
-- refuse: unsupported-syntax at 1:8

-- case: a computed place
SELECT NTH_VALUE(n, n) OVER (ORDER BY status) FROM (SELECT status, COUNT(*) AS n FROM orders GROUP BY status) AS t;
-- refuse: unsupported-syntax at 1:8

-- case: ranks as shares
SELECT status, PERCENT_RANK() OVER (ORDER BY status) AS p, CUME_DIST() OVER (ORDER BY status) AS c FROM (SELECT status, COUNT(*) AS n FROM orders GROUP BY status) AS t;
-- accept
-- keys: 3 public, l0 proved
-- release: rows l0=3 linf=10

-- case: no buckets at all
SELECT NTILE(0) OVER (ORDER BY status) FROM (SELECT status, COUNT(*) AS n FROM orders GROUP BY status) AS t;
-- refuse: unsupported-syntax at 1:8

-- case: as many buckets as a column says
SELECT NTILE(n) OVER (ORDER BY status) FROM (SELECT status, COUNT(*) AS n FROM orders GROUP BY status) AS t;
-- refuse: unsupported-syntax at 1:8

-- case: the value before with a default
SELECT status, n - LAG(n, 1, 0) OVER (ORDER BY status) AS more FROM (SELECT status, COUNT(*) AS n FROM orders GROUP BY status) AS t;
-- accept
-- keys: 3 public, l0 proved
-- release: rows l0=3 linf=10

-- case: a distance that is not a number
SELECT LAG(n, status) OVER (ORDER BY status) FROM (SELECT status, COUNT(*) AS n FROM orders GROUP BY status) AS t;
-- refuse: unsupported-syntax at 1:8

-- case: statistics over a window
SELECT status, STDDEV(n) OVER (ORDER BY status) AS s, MEDIAN(n) OVER () AS m, BOOL_AND(n > 1) OVER () AS b FROM (SELECT status, COUNT(*) AS n FROM orders GROUP BY status) AS t;
-- accept
-- keys: 3 public, l0 proved
-- release: rows l0=3 linf=10

-- case: a text of all before
SELECT status, STRING_AGG(status, '/') OVER (ORDER BY status) AS path FROM (SELECT status, COUNT(*) AS n FROM orders GROUP BY status) AS t;
-- accept
-- keys: 3 public, l0 proved
-- release: rows l0=3 linf=10

-- case: the top of each group
SELECT segment, city, n FROM (SELECT segment, city, n, ROW_NUMBER() OVER w AS place FROM (SELECT segment, vip AS city, COUNT(*) AS n FROM customers GROUP BY segment, vip) AS t WINDOW w AS (PARTITION BY segment ORDER BY n DESC, city)) AS r WHERE place = 1;
-- accept
-- keys: 4 public, l0 proved
-- release: rows l0=1 linf=1

-- case: a share of the total in a named window
SELECT segment, vip, n * 100.0 / SUM(n) OVER w AS percent FROM (SELECT segment, vip, COUNT(*) AS n FROM customers GROUP BY segment, vip) AS t WINDOW w AS (PARTITION BY segment);
-- accept
-- keys: 4 public, l0 proved
-- release: rows l0=1 linf=1

-- case: an ordered aggregate in a window
SELECT STRING_AGG(status, ',' ORDER BY n) OVER () FROM (SELECT status, COUNT(*) AS n FROM orders GROUP BY status) AS t;
-- refuse: unsupported-syntax at 1:27

-- case: a window of private rows
SELECT STRING_AGG(status, ',') OVER (ORDER BY order_id) FROM orders;
-- refuse: unsupported-private-operator at 1:8

-- case: a scalar function over a window
SELECT ABS(n) OVER () FROM (SELECT COUNT(*) AS n FROM orders) AS t;
-- refuse: unsupported-syntax at 1:8

-- case: a filtered rank
SELECT ROW_NUMBER() FILTER (WHERE n > 1) OVER (ORDER BY status) FROM (SELECT status, COUNT(*) AS n FROM orders GROUP BY status) AS t;
-- refuse: unsupported-syntax at 1:8

-- case: the first and the last of a window
SELECT status, FIRST(n) OVER (ORDER BY status) AS a, LAST(status) OVER () AS z FROM (SELECT status, COUNT(*) AS n FROM orders GROUP BY status) AS t;
-- accept
-- keys: 3 public, l0 proved
-- release: rows l0=3 linf=10

-- case: the first of a filtered window
SELECT FIRST(n) FILTER (WHERE n > 1) OVER (ORDER BY status) FROM (SELECT status, COUNT(*) AS n FROM orders GROUP BY status) AS t;
-- refuse: unsupported-syntax at 1:8

-- case: a star with more in COUNT
SELECT COUNT(* EXCLUDE (status)) FROM orders;
-- refuse: unsupported-syntax at 1:25

-- case: the last seven days
SELECT day, SUM(n) OVER (ORDER BY day RANGE BETWEEN INTERVAL 6 DAY PRECEDING AND CURRENT ROW) AS week FROM (SELECT day, COUNT(*) AS n FROM logins WHERE day < DATE '2024-01-20' GROUP BY day) AS t ORDER BY day;
-- accept
-- keys: 19 public, l0 proved
-- release: scaled l0=19 linf=54975581.39

-- case: the hours around
SELECT h, SUM(n) OVER (ORDER BY h RANGE BETWEEN INTERVAL '2 hours' PRECEDING AND INTERVAL 90 MINUTE FOLLOWING) AS s FROM (SELECT DATE_TRUNC('hour', placed_at) AS h, COUNT(*) AS n FROM orders WHERE placed_at < TIMESTAMP '2024-01-02' GROUP BY h) AS t ORDER BY h;
-- accept
-- keys: 24 public, l0 enforced
-- release: rows l0=3 linf=10

-- case: the last months
SELECT day, SUM(n) OVER (ORDER BY day RANGE INTERVAL 1 MONTH PRECEDING) AS s FROM (SELECT day, COUNT(*) AS n FROM logins GROUP BY day) AS t;
-- refuse: unsupported-syntax at 1:45

-- case: so many rows of time
SELECT day, SUM(n) OVER (ORDER BY day ROWS INTERVAL 1 DAY PRECEDING) AS s FROM (SELECT day, COUNT(*) AS n FROM logins GROUP BY day) AS t;
-- refuse: unsupported-syntax at 1:44

-- case: time around numbers
SELECT n, SUM(n) OVER (ORDER BY n RANGE INTERVAL 1 DAY PRECEDING) AS s FROM (SELECT day, COUNT(*) AS n FROM logins GROUP BY day) AS t;
-- refuse: type-mismatch at 1:33
