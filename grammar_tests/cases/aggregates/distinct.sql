-- COUNT(DISTINCT x): at most k values of each unit in a group; sensitivity k.
-- catalog: shop

-- case: distinct values of a linked column
SELECT COUNT(DISTINCT note) AS notes FROM orders;
-- accept
-- keys: 1 public, l0 proved
-- release: distinct l0=1 linf=10
-- rewrite:
--   WITH rows AS (
--     SELECT t1."customer_id" AS u, t1."note" AS x0, NOT t1."note" IS NULL AS x1 FROM "orders" AS t1
--   ),
--   totals AS (
--     SELECT u, list(DISTINCT x0) FILTER (WHERE x0 IS NOT NULL AND x1) AS s0 FROM rows GROUP BY u
--   ),
--   bounded AS MATERIALIZED (
--     SELECT CASE
--       WHEN len(s0) > 10
--       THEN list_transform(
--         list_sort(list_transform(s0, lambda x: {'h': hash($sampling_key::UBIGINT, u, x), 'x': x}))[1:10],
--         lambda pair: pair.x
--       )
--       ELSE s0
--     END AS p0
--     FROM totals
--   )
--   SELECT COALESCE(SUM(p0)::HUGEINT, 0) AS p0
--   FROM (
--     SELECT 0 AS p0
--     FROM bounded
--     UNION ALL
--     SELECT COUNT(DISTINCT v)
--     FROM (SELECT unnest(p0) AS v FROM bounded)
--   )
--   SELECT t1.c0 AS c0 FROM release_0 AS t1

-- case: distinct values that the policy lists
SELECT COUNT(DISTINCT status) AS statuses FROM orders;
-- rows: orders (customer_id, status): (1, 'paid'), (1, 'paid'), (2, 'paid'), (2, 'open'), (3, 'lost'), (3, NULL)
-- accept
-- keys: 1 public, l0 proved
-- release: distinct l0=1 linf=3
-- integers: () 2
-- rewrite:
--   WITH rows AS (
--     SELECT t1."customer_id" AS u, t1."status" AS x0, t1."status" IN ('open', 'paid', 'returned') AS x1
--     FROM "orders" AS t1
--   ),
--   totals AS (
--     SELECT u, list(DISTINCT x0) FILTER (WHERE x0 IS NOT NULL AND x1) AS s0 FROM rows GROUP BY u
--   ),
--   bounded AS MATERIALIZED (
--     SELECT CASE
--       WHEN len(s0) > 3
--       THEN list_transform(
--         list_sort(list_transform(s0, lambda x: {'h': hash($sampling_key::UBIGINT, u, x), 'x': x}))[1:3],
--         lambda pair: pair.x
--       )
--       ELSE s0
--     END AS p0
--     FROM totals
--   )
--   SELECT COALESCE(SUM(p0)::HUGEINT, 0) AS p0
--   FROM (
--     SELECT 0 AS p0
--     FROM bounded
--     UNION ALL
--     SELECT COUNT(DISTINCT v)
--     FROM (SELECT unnest(p0) AS v FROM bounded)
--   )
--   SELECT t1.c0 AS c0 FROM release_0 AS t1

-- case: distinct values of the unit's own row
SELECT COUNT(DISTINCT city) AS cities FROM customers;
-- accept
-- keys: 1 public, l0 proved
-- release: distinct l0=1 linf=1
-- rewrite:
--   WITH rows AS (SELECT t1."city" AS x0 FROM "customers" AS t1)
--   SELECT COALESCE(COUNT(DISTINCT x0)::HUGEINT, 0) AS p0
--   FROM rows
--   SELECT t1.c0 AS c0 FROM release_0 AS t1

-- case: distinct values that the unit determines
SELECT COUNT(DISTINCT c.city) AS cities FROM orders o JOIN customers c ON o.customer_id = c.customer_id;
-- accept
-- keys: 1 public, l0 proved
-- release: distinct l0=1 linf=1

-- case: distinct values of an expression of the unit's key
SELECT COUNT(DISTINCT customer_id % 7) AS residues FROM orders;
-- accept
-- keys: 1 public, l0 proved
-- release: distinct l0=1 linf=1

-- case: distinct keys of a table below the unit
SELECT COUNT(DISTINCT order_id) AS orders FROM items;
-- accept
-- keys: 1 public, l0 proved
-- release: distinct l0=1 linf=20

-- case: distinct values by public keys
SELECT status, COUNT(DISTINCT note_length) AS lengths FROM orders GROUP BY status;
-- rows: orders (customer_id, status, note_length): (1, 'paid', 3), (1, 'paid', 4), (2, 'paid', 4), (2, 'open', 4)
-- accept
-- keys: 3 public, l0 proved
-- release: distinct l0=3 linf=10
-- integers: (open) 1
-- integers: (paid) 2
-- rewrite:
--   WITH rows AS (
--     SELECT t1."customer_id" AS u, t1."status" AS k0, t1."note_length" AS x0 FROM "orders" AS t1
--   ),
--   totals AS (
--     SELECT u, k0, list(DISTINCT x0) FILTER (WHERE x0 IS NOT NULL) AS s0 FROM rows GROUP BY u, k0
--   ),
--   bounded AS MATERIALIZED (
--     SELECT
--       k0,
--       CASE
--         WHEN len(s0) > 10
--         THEN list_transform(
--           list_sort(
--             list_transform(s0, lambda x: {'h': hash($sampling_key::UBIGINT, u, k0, x), 'x': x})
--           )[1:10],
--           lambda pair: pair.x
--         )
--         ELSE s0
--       END AS p0
--     FROM totals
--   )
--   SELECT k0, COALESCE(SUM(p0)::HUGEINT, 0) AS p0
--   FROM (
--     SELECT k0, 0 AS p0
--     FROM bounded
--     UNION ALL
--     SELECT k0, COUNT(DISTINCT v)
--     FROM (SELECT k0, unnest(p0) AS v FROM bounded)
--     GROUP BY k0
--   )
--   GROUP BY k0
--   SELECT t1.c0 AS c0, t1.c1 AS c1 FROM release_0 AS t1

-- case: distinct values by private keys with sampled groups
SELECT device, COUNT(DISTINCT duration) AS durations FROM events GROUP BY device;
-- accept
-- keys: private, l0 enforced
-- release: units l0=2 linf=1
-- release: distinct l0=2 linf=5
-- rewrite:
--   WITH rows AS (
--     SELECT t1."customer_id" AS u, t1."device" AS k0, t1."duration" AS x0 FROM "events" AS t1
--   ),
--   totals AS (
--     SELECT u, k0, 1 AS s0, list(DISTINCT x0) FILTER (WHERE x0 IS NOT NULL) AS s1
--     FROM rows
--     GROUP BY u, k0
--   ),
--   clipped AS MATERIALIZED (
--     SELECT
--       u,
--       k0,
--       (CASE WHEN s0 < 0 THEN 0 WHEN s0 > 1 THEN 1 ELSE s0 END)::BIGINT AS p0,
--       CASE
--         WHEN len(s1) > 5
--         THEN list_transform(
--           list_sort(
--             list_transform(s1, lambda x: {'h': hash($sampling_key::UBIGINT, u, k0, x), 'x': x})
--           )[1:5],
--           lambda pair: pair.x
--         )
--         ELSE s1
--       END AS p1
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
--   ),
--   bounded AS MATERIALIZED (
--     SELECT u, k0, p0, p1
--     FROM clipped ANTI JOIN above USING (u)
--     UNION ALL
--     SELECT u, k0, p0, p1
--     FROM beyond
--     WHERE place < 2
--   )
--   SELECT k0, COALESCE(SUM(p0)::HUGEINT, 0) AS p0, COALESCE(SUM(p1)::HUGEINT, 0) AS p1
--   FROM (
--     SELECT k0, p0, 0 AS p1
--     FROM bounded
--     UNION ALL
--     SELECT k0, 0, COUNT(DISTINCT v)
--     FROM (SELECT k0, unnest(p1) AS v FROM bounded)
--     GROUP BY k0
--   )
--   GROUP BY k0
--   SELECT t1.c0 AS c0, t1.c2 AS c1 FROM release_0 AS t1

-- case: distinct values beside sums in sampled groups
SELECT device, COUNT(*) AS n, COUNT(DISTINCT duration) AS durations, SUM(duration) AS total, COUNT(DISTINCT customer_id) AS people FROM events GROUP BY device;
-- accept
-- keys: private, l0 enforced
-- release: units l0=2 linf=1
-- release: rows l0=2 linf=5
-- release: distinct l0=2 linf=5
-- release: sum l0=2 linf=18000

-- case: distinct values beside an average
SELECT AVG(amount) AS mean, COUNT(DISTINCT quantity) AS quantities, COUNT(*) AS n FROM orders;
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=10
-- release: sum l0=1 linf=2500
-- release: distinct l0=1 linf=10

-- case: two counts of distinct values
SELECT status, COUNT(DISTINCT note) AS notes, COUNT(DISTINCT quantity) AS quantities FROM orders GROUP BY status;
-- accept
-- keys: 3 public, l0 proved
-- release: distinct l0=3 linf=10
-- release: distinct l0=3 linf=10

-- case: the same distinct count twice is measured once
SELECT COUNT(DISTINCT note) AS a, COUNT(DISTINCT note) * 2 AS b FROM orders;
-- accept
-- keys: 1 public, l0 proved
-- release: distinct l0=1 linf=10

-- case: distinct values of a double with nothing and not a number
SELECT COUNT(DISTINCT discount) AS discounts FROM orders;
-- accept
-- keys: 1 public, l0 proved
-- release: distinct l0=1 linf=10

-- case: distinct values with a filter
SELECT COUNT(DISTINCT note_length) FILTER (WHERE status = 'paid') AS lengths FROM orders;
-- accept
-- keys: 1 public, l0 proved
-- release: distinct l0=1 linf=10

-- case: distinct listed values with a filter
SELECT COUNT(DISTINCT status) FILTER (WHERE amount > 100) AS statuses FROM orders;
-- accept
-- keys: 1 public, l0 proved
-- release: distinct l0=1 linf=3

-- case: distinct values of a condition
SELECT COUNT(DISTINCT amount > 100) AS sides FROM orders;
-- accept
-- keys: 1 public, l0 proved
-- release: distinct l0=1 linf=2

-- case: distinct values of a narrowed column
SELECT COUNT(DISTINCT status) AS statuses FROM orders WHERE status IN ('open', 'paid');
-- accept
-- keys: 1 public, l0 proved
-- release: distinct l0=1 linf=2

-- case: distinct values of an expression
SELECT COUNT(DISTINCT UPPER(note)) AS notes FROM orders WHERE note IS NOT NULL;
-- accept
-- keys: 1 public, l0 proved
-- release: distinct l0=1 linf=10

-- case: distinct months
SELECT COUNT(DISTINCT DATE_TRUNC('month', placed_at)) AS months FROM orders;
-- accept
-- keys: 1 public, l0 proved
-- release: distinct l0=1 linf=10

-- case: distinct days by month
SELECT EXTRACT(month FROM placed_at) AS m, COUNT(DISTINCT CAST(placed_at AS DATE)) AS days FROM orders GROUP BY EXTRACT(month FROM placed_at);
-- accept
-- keys: 12 public, l0 enforced
-- release: distinct l0=3 linf=10

-- case: distinct values of a CASE
SELECT COUNT(DISTINCT CASE WHEN amount > 100 THEN note END) AS notes FROM orders;
-- accept
-- keys: 1 public, l0 proved
-- release: distinct l0=1 linf=10

-- case: distinct values of the group's key
SELECT device, COUNT(DISTINCT device) AS one FROM events GROUP BY device;
-- accept
-- keys: private, l0 enforced
-- release: units l0=2 linf=1
-- release: distinct l0=2 linf=1

-- case: distinct values of an expression of the group's key
SELECT status, COUNT(DISTINCT UPPER(status)) AS one FROM orders GROUP BY status;
-- accept
-- keys: 3 public, l0 proved
-- release: distinct l0=3 linf=1

-- case: distinct products through a public table
SELECT COUNT(DISTINCT p.category) AS categories FROM items i JOIN products p ON i.product_id = p.product_id;
-- accept
-- keys: 1 public, l0 proved
-- release: distinct l0=1 linf=2

-- case: distinct values by a key of a public table
SELECT p.category, COUNT(DISTINCT i.order_id) AS orders FROM items i JOIN products p ON i.product_id = p.product_id GROUP BY p.category;
-- accept
-- keys: 2 public, l0 proved
-- release: distinct l0=2 linf=20

-- case: distinct values by keys that the unit determines
SELECT c.segment, COUNT(DISTINCT o.note) AS notes FROM orders o JOIN customers c ON o.customer_id = c.customer_id GROUP BY c.segment;
-- accept
-- keys: 2 public, l0 proved
-- release: distinct l0=1 linf=10

-- case: distinct values of the unit's own row by group
SELECT segment, COUNT(DISTINCT city) AS cities, AVG(age) AS mean FROM customers GROUP BY segment;
-- accept
-- keys: 2 public, l0 proved
-- release: distinct l0=1 linf=1
-- release: rows l0=1 linf=1
-- release: sum l0=1 linf=60

-- case: an approximate count of distinct values is the same count
SELECT APPROX_COUNT_DISTINCT(note) AS notes FROM orders;
-- accept
-- keys: 1 public, l0 proved
-- release: distinct l0=1 linf=10

-- case: distinct values in postgres
SELECT status, COUNT(DISTINCT note) FILTER (WHERE quantity > 1) AS notes FROM orders GROUP BY 1;
-- dialect: postgres
-- accept
-- keys: 3 public, l0 proved
-- release: distinct l0=3 linf=10

-- case: distinct values as a BI tool asks for them
SELECT "t"."status" AS "status", COUNT(DISTINCT "t"."note") AS "ctd:note:ok", SUM(1) AS "Number of Records" FROM (SELECT * FROM orders) AS "t" WHERE 1 = 1 GROUP BY "t"."status" HAVING COUNT(1) > 0 ORDER BY 2 DESC LIMIT 10000;
-- accept
-- keys: 3 public, l0 proved
-- release: distinct l0=3 linf=10
-- release: rows l0=3 linf=10

-- case: orders per person from distinct counts
SELECT COUNT(DISTINCT order_id) * 1.0 / NULLIF(COUNT(DISTINCT customer_id), 0) AS per_person FROM orders;
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=10
-- release: units l0=1 linf=1

-- case: distinct values in a condition on groups
SELECT status FROM orders GROUP BY status HAVING COUNT(DISTINCT note) > 1;
-- accept
-- keys: 3 public, l0 proved
-- release: distinct l0=3 linf=10

-- case: distinct values of released counts are post-processing
SELECT COUNT(DISTINCT n) AS sizes FROM (SELECT status, COUNT(*) AS n FROM orders GROUP BY status) AS t;
-- accept
-- keys: 3 public, l0 proved
-- release: rows l0=3 linf=10

-- case: distinct values without any limit
SELECT COUNT(DISTINCT login_id) FROM logins;
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=1048576

-- case: distinct values that are listed need no limit of rows
SELECT COUNT(DISTINCT day) AS days FROM logins;
-- accept
-- keys: 1 public, l0 proved
-- release: distinct l0=1 linf=366

-- case: distinct values of a hidden column
SELECT COUNT(DISTINCT name) FROM customers;
-- refuse: hidden-column at 1:23

-- case: distinct values of several columns
SELECT COUNT(DISTINCT status, note) FROM orders;
-- refuse: unsupported-syntax at 1:8

-- case: each value that people have is summed once
SELECT SUM(DISTINCT quantity) AS s FROM orders;
-- rows: orders (customer_id, quantity): (1, 3), (1, 3), (2, 3), (2, 5), (3, 99), (3, NULL)
-- accept
-- keys: 1 public, l0 proved
-- release: distinct sum l0=1 linf=200
-- integers: () 28

-- case: a sum, an average and a spread of distinct values share their measurements
SELECT COUNT(DISTINCT quantity) AS n, SUM(DISTINCT quantity) AS s, AVG(DISTINCT quantity) AS m, VAR_POP(DISTINCT quantity) AS v, STDDEV(DISTINCT quantity) AS d FROM orders;
-- rows: orders (customer_id, quantity): (1, 3), (1, 3), (2, 3), (2, 5), (3, 99), (3, NULL)
-- accept
-- keys: 1 public, l0 proved
-- release: distinct l0=1 linf=10
-- release: distinct sum l0=1 linf=200
-- release: distinct sum l0=1 linf=100
-- release: distinct sum l0=1 linf=500
-- integers: () 3 28 -2 201326592

-- case: sum of distinct exact numbers by sampled groups
SELECT EXTRACT(month FROM placed_at) AS m, SUM(DISTINCT amount) AS s, AVG(DISTINCT amount) AS a FROM orders GROUP BY 1;
-- accept
-- keys: 12 public, l0 enforced
-- release: distinct sum l0=3 linf=5000
-- release: distinct l0=3 linf=10
-- release: distinct sum l0=3 linf=2500

-- case: sum of distinct values of the unit's own row
SELECT segment, SUM(DISTINCT age) AS s, AVG(DISTINCT income) AS m, VARIANCE(DISTINCT age) AS v FROM customers GROUP BY segment;
-- accept
-- keys: 2 public, l0 proved
-- release: distinct sum l0=1 linf=120
-- release: distinct l0=1 linf=1
-- release: distinct sum l0=1 linf=100000
-- release: distinct l0=1 linf=1
-- release: distinct sum l0=1 linf=60
-- release: distinct sum l0=1 linf=1800

-- case: sum of distinct values below zero
SELECT SUM(DISTINCT amount - 100) AS s FROM orders;
-- accept
-- keys: 1 public, l0 proved
-- release: distinct sum l0=1 linf=4000

-- case: sum of distinct values with a filter
SELECT SUM(DISTINCT CASE WHEN status = 'paid' THEN quantity ELSE 0 END) AS a, SUM(DISTINCT quantity) FILTER (WHERE status = 'paid') AS b FROM orders;
-- accept
-- keys: 1 public, l0 proved
-- release: distinct sum l0=1 linf=200
-- release: distinct sum l0=1 linf=200

-- case: sum of distinct numbers that are few
SELECT SUM(DISTINCT EXTRACT(month FROM day)) AS s FROM logins;
-- accept
-- keys: 1 public, l0 proved
-- release: distinct sum l0=1 linf=78

-- case: sum of distinct numbers of which a person may have any number
SELECT SUM(DISTINCT n) AS s, AVG(DISTINCT n) AS a FROM (SELECT LEAST(login_id, 5000) * 1.5 AS n FROM logins WHERE login_id > 0) AS t;
-- accept
-- keys: 1 public, l0 proved
-- release: distinct sum l0=1 linf=7864320000
-- release: distinct l0=1 linf=1048576
-- release: distinct sum l0=1 linf=3931425997

-- case: sum of distinct values by keys that hold them
SELECT quantity, SUM(DISTINCT quantity) AS s FROM orders GROUP BY quantity;
-- accept
-- keys: 21 public, l0 enforced
-- release: distinct sum l0=3 linf=20

-- case: sum of distinct values without bounds
SELECT SUM(DISTINCT note_length) FROM orders;
-- refuse: unbounded-input at 1:21

-- case: bounds of what a person adds say nothing of values that others have
SELECT WITH DIFFERENTIAL_PRIVACY SUM(DISTINCT quantity, contribution_bounds_per_group => (0, 50)) FROM orders;
-- refuse: bad-option at 1:34

-- case: distinct pairs have no rule
SELECT COVAR_POP(DISTINCT quantity, amount) FROM orders;
-- refuse: unsupported-aggregate at 1:8

-- case: distinct rows
SELECT COUNT(DISTINCT *) FROM orders;
-- refuse: unsupported-syntax at 1:23

-- case: an approximate count of a hidden column
SELECT APPROX_COUNT_DISTINCT(name) FROM customers;
-- refuse: hidden-column at 1:30

-- case: distinct values over a window
SELECT COUNT(DISTINCT note) OVER () FROM orders;
-- refuse: unsupported-private-operator at 1:8

-- case: distinct values by group and in all are counted apart
SELECT status, COUNT(DISTINCT note) AS notes, COUNT(*) AS n FROM orders GROUP BY ROLLUP (status);
-- accept
-- keys: 3 public, l0 proved
-- release: distinct l0=3 linf=10
-- release: rows l0=3 linf=10
-- keys: 1 public, l0 proved
-- release: distinct l0=1 linf=10
-- release: rows l0=1 linf=10

-- case: distinct values of a per-unit total
SELECT COUNT(DISTINCT n) AS sizes FROM (SELECT customer_id, COUNT(*) AS n FROM orders GROUP BY customer_id) AS t;
-- accept
-- keys: 1 public, l0 proved
-- release: distinct l0=1 linf=1

-- case: distinct first notes of people
SELECT COUNT(DISTINCT note) AS notes FROM (SELECT note, ROW_NUMBER() OVER (PARTITION BY customer_id ORDER BY placed_at) AS rn FROM orders) AS t WHERE rn = 1;
-- accept
-- keys: 1 public, l0 proved
-- release: distinct l0=1 linf=1

-- case: distinct values of the first three rows of a unit
SELECT COUNT(DISTINCT day) AS days FROM (SELECT day, ROW_NUMBER() OVER (PARTITION BY customer_id ORDER BY day) AS rn FROM logins) AS t WHERE rn <= 3;
-- accept
-- keys: 1 public, l0 proved
-- release: distinct l0=1 linf=3
-- rewrite:
--   WITH rows AS (
--     SELECT t2.c2 AS u, t2.c3 AS x0
--     FROM (
--       SELECT
--         t1."login_id" AS c1,
--         t1."customer_id" AS c2,
--         t1."day" AS c3,
--         row_number() OVER (PARTITION BY t1."customer_id" ORDER BY t1."day" NULLS LAST, t1."login_id") AS c4
--       FROM "logins" AS t1
--     ) AS t2
--     WHERE (t2.c4 <= 3)
--   ),
--   totals AS (SELECT u, list(x0) AS s0 FROM rows GROUP BY u),
--   bounded AS MATERIALIZED (SELECT s0 AS p0 FROM totals)
--   SELECT COALESCE(SUM(p0)::HUGEINT, 0) AS p0
--   FROM (
--     SELECT 0 AS p0
--     FROM bounded
--     UNION ALL
--     SELECT COUNT(DISTINCT v)
--     FROM (SELECT unnest(p0) AS v FROM bounded)
--   )
--   SELECT t1.c0 AS c0 FROM release_0 AS t1

-- case: distinct keys of the first three rows of a unit
SELECT COUNT(DISTINCT login_id) AS logins FROM (SELECT login_id, ROW_NUMBER() OVER (PARTITION BY customer_id ORDER BY day) AS rn FROM logins) AS t WHERE rn <= 3;
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=3

-- case: distinct values of two tables
SELECT COUNT(DISTINCT d) AS numbers FROM (SELECT customer_id, duration AS d FROM events UNION ALL SELECT customer_id, quantity AS d FROM orders) AS t;
-- accept
-- keys: 1 public, l0 proved
-- release: distinct l0=1 linf=15

-- case: people without orders beside distinct notes
SELECT COUNT(DISTINCT o.note) AS notes, COUNT(*) AS n FROM customers c LEFT JOIN orders o ON c.customer_id = o.customer_id;
-- accept
-- keys: 1 public, l0 proved
-- release: distinct l0=1 linf=10
-- release: rows l0=1 linf=10

-- case: distinct values compared with a released average
SELECT COUNT(DISTINCT note_length) AS lengths FROM orders WHERE amount > (SELECT AVG(amount) FROM orders);
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=10
-- release: sum l0=1 linf=2500
-- keys: 1 public, l0 proved
-- release: distinct l0=1 linf=10

-- case: distinct values of public rows that private rows choose
SELECT COUNT(DISTINCT c.region) AS regions FROM customers u JOIN countries c ON u.country = c.code;
-- accept
-- keys: 1 public, l0 proved
-- release: distinct l0=1 linf=1

-- case: distinct rows of several people through a window
SELECT COUNT(DISTINCT n) FROM (SELECT COUNT(*) OVER (PARTITION BY status) AS n FROM orders) AS t;
-- refuse: unsupported-private-operator at 1:39

-- case: distinct pairs
SELECT COUNT(DISTINCT (status, note)) AS n FROM orders;
-- accept
-- keys: 1 public, l0 proved
-- release: distinct l0=1 linf=10

-- case: distinct pairs by ROW, NULL among them, with a filter
SELECT COUNT(DISTINCT ROW(status, quantity, note)) FILTER (WHERE amount > 10) AS n FROM orders;
-- accept
-- keys: 1 public, l0 proved
-- release: distinct l0=1 linf=10

-- case: texts that run into each other stay apart
SELECT COUNT(DISTINCT (note, device)) AS n FROM (SELECT note, status || note AS device FROM orders) t;
-- accept
-- keys: 1 public, l0 proved
-- release: distinct l0=1 linf=10

-- case: distinct pairs of a column that may not be read
SELECT COUNT(DISTINCT (segment, name)) AS n FROM customers;
-- refuse: hidden-column at 1:33

-- case: distinct values of two arguments
SELECT COUNT(DISTINCT status, note) AS n FROM orders;
-- refuse: unsupported-syntax at 1:8

-- case: the sum of distinct pairs
SELECT SUM(DISTINCT (quantity, amount)) AS n FROM orders;
-- refuse: unsupported-syntax at 1:22

-- case: keys of the counted rows themselves
SELECT COUNT(DISTINCT order_id) AS orders FROM orders;
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=10

-- case: keys of the counted rows beside the rows, by group and with a filter
SELECT status, COUNT(*) AS n, COUNT(DISTINCT order_id) FILTER (WHERE amount > 20) AS m FROM orders GROUP BY status;
-- accept
-- keys: 3 public, l0 proved
-- release: rows l0=3 linf=10
-- release: rows l0=3 linf=10

-- case: keys of rows that a join repeats
SELECT COUNT(DISTINCT o.order_id) AS orders FROM orders AS o JOIN items AS i ON i.order_id = o.order_id;
-- accept
-- keys: 1 public, l0 proved
-- release: distinct l0=1 linf=20

-- case: keys of rows that a join to a parent does not repeat
SELECT c.segment, COUNT(DISTINCT o.order_id) AS n FROM orders AS o JOIN customers AS c ON c.customer_id = o.customer_id GROUP BY c.segment;
-- accept
-- keys: 2 public, l0 proved
-- release: rows l0=1 linf=10
