-- Lists, texts and other aggregates of released values: no recipe is needed where nothing is private.
-- catalog: shop

-- case: texts joined
SELECT STRING_AGG(status, ', ' ORDER BY status) AS all_of_them FROM (SELECT status, COUNT(*) AS n FROM orders GROUP BY status) AS t;
-- accept
-- keys: 3 public, l0 proved

-- case: texts joined under other names
SELECT LISTAGG(status, '-' ORDER BY status DESC) AS a, GROUP_CONCAT(status ORDER BY status) AS b FROM (SELECT status, COUNT(*) AS n FROM orders GROUP BY status) AS t;
-- accept
-- keys: 3 public, l0 proved

-- case: texts joined by the noise
SELECT STRING_AGG(status || ': ' || n, '; ' ORDER BY n DESC, status) AS line FROM (SELECT status, CAST(COUNT(*) AS VARCHAR) AS n FROM orders GROUP BY status) AS t;
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
--   SELECT t3.c14 AS c0
--   FROM (
--     SELECT string_agg(
--       left(left(t2.c12 || ': ', 4096) || t2.c13, 4096),
--       '; ' ORDER BY t2.c13 DESC NULLS LAST,
--       t2.c12 NULLS LAST
--     ) AS c14
--     FROM (SELECT t1.c0 AS c12, CAST(t1.c1 AS VARCHAR) AS c13 FROM release_0 AS t1) AS t2
--   ) AS t3

-- case: different texts joined
SELECT STRING_AGG(DISTINCT segment, ',' ORDER BY segment) AS s FROM (SELECT segment, vip, COUNT(*) AS n FROM customers GROUP BY segment, vip) AS t;
-- accept
-- keys: 4 public, l0 proved

-- case: texts joined where a condition holds
SELECT STRING_AGG(status, ',' ORDER BY status) FILTER (WHERE n > 1) AS s FROM (SELECT status, COUNT(*) AS n FROM orders GROUP BY status) AS t;
-- accept
-- keys: 3 public, l0 proved
-- release: rows l0=3 linf=10

-- case: a separator from a column
SELECT STRING_AGG(status, status) FROM (SELECT status, COUNT(*) AS n FROM orders GROUP BY status) AS t;
-- refuse: unsupported-syntax at 1:8

-- case: numbers joined as texts
SELECT STRING_AGG(n, ',') FROM (SELECT status, COUNT(*) AS n FROM orders GROUP BY status) AS t;
-- refuse: type-mismatch at 1:8

-- case: private texts joined
SELECT STRING_AGG(status, ',') FROM orders;
-- refuse: unsupported-aggregate at 1:8

-- case: distinct texts in another order
SELECT STRING_AGG(DISTINCT status, ',' ORDER BY n) FROM (SELECT status, COUNT(*) AS n FROM orders GROUP BY status) AS t;
-- refuse: syntax-error at 1:8

-- case: a list as text
SELECT CAST(LIST(n ORDER BY status) AS VARCHAR) AS ns FROM (SELECT status, COUNT(*) AS n FROM orders GROUP BY status) AS t;
-- accept
-- keys: 3 public, l0 proved
-- release: rows l0=3 linf=10

-- case: an array as text
SELECT CAST(ARRAY_AGG(status ORDER BY n DESC, status) AS VARCHAR) AS names FROM (SELECT status, COUNT(*) AS n FROM orders GROUP BY status) AS t;
-- accept
-- keys: 3 public, l0 proved
-- release: rows l0=3 linf=10

-- case: a list of different values
SELECT CAST(LIST(DISTINCT n > 3 ORDER BY n > 3) AS VARCHAR) AS sizes FROM (SELECT status, COUNT(*) AS n FROM orders GROUP BY status) AS t;
-- accept
-- keys: 3 public, l0 proved
-- release: rows l0=3 linf=10

-- case: a list for each group
SELECT segment, CAST(LIST(vip ORDER BY vip) AS VARCHAR) AS vips FROM (SELECT segment, vip, COUNT(*) AS n FROM customers GROUP BY segment, vip) AS t GROUP BY segment;
-- accept
-- keys: 4 public, l0 proved

-- case: a private list
SELECT LIST(age) FROM customers;
-- refuse: unsupported-aggregate at 1:8

-- case: a part of a list
SELECT LIST(n)[1] FROM (SELECT COUNT(*) AS n FROM orders) AS t;
-- refuse: unsupported-syntax at 1:15

-- case: the first and the last
SELECT FIRST(n ORDER BY status) AS a, LAST(status ORDER BY status) AS z FROM (SELECT status, COUNT(*) AS n FROM orders GROUP BY status) AS t;
-- accept
-- keys: 3 public, l0 proved
-- release: rows l0=3 linf=10

-- case: the largest and the smallest
SELECT ARG_MAX(n, status) AS a, MIN_BY(status, status) AS b, MAX_BY(n, LENGTH(status)) AS c FROM (SELECT status, COUNT(*) AS n FROM orders GROUP BY status) AS t;
-- accept
-- keys: 3 public, l0 proved
-- release: rows l0=3 linf=10

-- case: the largest of private rows
SELECT ARG_MAX(status, note) FROM orders;
-- refuse: unsupported-aggregate at 1:8

-- case: the largest by nothing
SELECT ARG_MAX(status) FROM (SELECT status, COUNT(*) AS n FROM orders GROUP BY status) AS t;
-- refuse: unsupported-syntax at 1:8

-- case: any value and the most frequent one
SELECT ANY_VALUE(n ORDER BY status) AS a, MODE(n > 1000) AS m, MODE() WITHIN GROUP (ORDER BY n > 1000) AS w FROM (SELECT status, COUNT(*) AS n FROM orders GROUP BY status) AS t;
-- accept
-- keys: 3 public, l0 proved
-- release: rows l0=3 linf=10

-- case: any value of private rows
SELECT ANY_VALUE(city) FROM customers;
-- refuse: unsupported-aggregate at 1:8

-- case: all and some
SELECT BOOL_AND(n > 0) AS everywhere, BOOL_OR(n > 1000) AS somewhere FROM (SELECT status, COUNT(*) AS n FROM orders GROUP BY status) AS t;
-- accept
-- keys: 3 public, l0 proved
-- release: rows l0=3 linf=10

-- case: all of numbers
SELECT BOOL_AND(n) FROM (SELECT status, COUNT(*) AS n FROM orders GROUP BY status) AS t;
-- refuse: type-mismatch at 1:8

-- case: quantiles
SELECT QUANTILE_CONT(n, 0.25) AS a, QUANTILE_DISC(n, 0.9) AS b, MEDIAN(n) AS m FROM (SELECT age, COUNT(*) AS n FROM customers GROUP BY age) AS t;
-- accept
-- keys: 122 public, l0 proved
-- release: rows l0=1 linf=1

-- case: quantiles within a group
SELECT PERCENTILE_CONT(0.9) WITHIN GROUP (ORDER BY n DESC) AS a, PERCENTILE_DISC(0.5) WITHIN GROUP (ORDER BY age) AS b FROM (SELECT age, COUNT(*) AS n FROM customers GROUP BY age) AS t;
-- accept
-- keys: 122 public, l0 proved
-- release: rows l0=1 linf=1

-- case: a quantile beyond all values
SELECT QUANTILE_CONT(n, 1.5) FROM (SELECT age, COUNT(*) AS n FROM customers GROUP BY age) AS t;
-- refuse: unsupported-syntax at 1:8

-- case: a quantile from a column
SELECT QUANTILE_CONT(n, n) FROM (SELECT age, COUNT(*) AS n FROM customers GROUP BY age) AS t;
-- refuse: unsupported-syntax at 1:8

-- case: a quantile within two orders
SELECT PERCENTILE_CONT(0.5) WITHIN GROUP (ORDER BY n, age) FROM (SELECT age, COUNT(*) AS n FROM customers GROUP BY age) AS t;
-- refuse: unsupported-syntax at 1:8

-- case: a quantile between texts
SELECT QUANTILE_CONT(status, 0.5) FROM (SELECT status, COUNT(*) AS n FROM orders GROUP BY status) AS t;
-- refuse: type-mismatch at 1:8

-- case: a sum within a group
SELECT SUM(n) WITHIN GROUP (ORDER BY age) FROM (SELECT age, COUNT(*) AS n FROM customers GROUP BY age) AS t;
-- refuse: unsupported-syntax at 1:8

-- case: statistics
SELECT STDDEV(n) AS a, VAR_POP(n) AS b, STDDEV_POP(n) AS c, VARIANCE(n) AS d FROM (SELECT age, COUNT(*) AS n FROM customers GROUP BY age) AS t;
-- accept
-- keys: 122 public, l0 proved
-- release: rows l0=1 linf=1

-- case: statistics of two columns
SELECT CORR(n, age) AS r, COVAR_POP(n, age) AS c, REGR_SLOPE(n, age) AS s, REGR_INTERCEPT(n, age) AS i, REGR_COUNT(n, age) AS k FROM (SELECT quantity AS age, SUM(amount) AS n FROM orders GROUP BY quantity) AS t;
-- accept
-- keys: 21 public, l0 enforced
-- release: sum l0=3 linf=5000

-- case: statistics where a condition holds
SELECT STDDEV(n) FILTER (WHERE n > 0) AS a, REGR_R2(n, age) FILTER (WHERE age > 0) AS b FROM (SELECT quantity AS age, SUM(amount) AS n FROM orders GROUP BY quantity) AS t;
-- accept
-- keys: 21 public, l0 enforced
-- release: sum l0=3 linf=5000

-- case: statistics of text
SELECT STDDEV(status) FROM (SELECT status, COUNT(*) AS n FROM orders GROUP BY status) AS t;
-- refuse: type-mismatch at 1:8

-- case: an order that does not matter
SELECT SUM(n ORDER BY status) AS s, COUNT(n ORDER BY n) AS c FROM (SELECT status, COUNT(*) AS n FROM orders GROUP BY status) AS t;
-- accept
-- keys: 3 public, l0 proved
-- release: rows l0=3 linf=10

-- case: an order that does not matter to private rows
SELECT SUM(quantity ORDER BY placed_at) AS s FROM orders;
-- accept
-- keys: 1 public, l0 proved
-- release: sum l0=1 linf=200

-- case: an order by what does not exist
SELECT SUM(quantity ORDER BY colour) FROM orders;
-- refuse: unknown-column at 1:30

-- case: an aggregate without a rule
SELECT PRODUCT(n) FROM (SELECT status, COUNT(*) AS n FROM orders GROUP BY status) AS t;
-- refuse: unsupported-aggregate at 1:8

-- case: an array of PostgreSQL
SELECT ARRAY_AGG(status ORDER BY n DESC, status) FILTER (WHERE n > 0) AS names, ARRAY_AGG(n ORDER BY status) AS ns FROM (SELECT status, COUNT(*) AS n FROM orders GROUP BY status) AS t;
-- dialect: postgres
-- accept
-- keys: 3 public, l0 proved
-- release: rows l0=3 linf=10

-- case: an array of private texts
SELECT ARRAY_AGG(status) FROM orders;
-- dialect: postgres
-- refuse: unsupported-aggregate at 1:8

-- case: an array of what is released
SELECT ARRAY[COUNT(*), SUM(quantity)] AS totals FROM orders;
-- dialect: postgres
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=10
-- release: sum l0=1 linf=200

-- case: an array of several types
SELECT ARRAY[COUNT(*), 'all'] AS totals FROM orders;
-- dialect: postgres
-- refuse: type-mismatch at 1:13

-- case: nothing is computed with an array
SELECT COUNT(*) FROM (SELECT ARRAY[COUNT(*)] AS totals FROM orders) AS t WHERE totals = '{1}';
-- dialect: postgres
-- refuse: type-mismatch at 1:89

-- case: an array in json
SELECT json_group_array(status ORDER BY status) AS names FROM (SELECT status, COUNT(*) AS n FROM orders GROUP BY status) AS t;
-- dialect: postgres
-- accept
-- keys: 3 public, l0 proved

-- case: an array in json of what is public
SELECT json_group_array(k) AS numbers, json_group_array(s) AS texts FROM (VALUES (1, 'a"b'), (NULL, 'c')) AS v(k, s);
-- accept

-- case: an array in json of no rows
SELECT json_group_array(k) AS numbers FROM (VALUES (1)) AS v(k) WHERE k > 9;
-- accept

-- case: a json array of postgres
SELECT json_agg(n ORDER BY status) AS numbers, jsonb_agg(DISTINCT status) AS names FROM (SELECT status, COUNT(*) AS n FROM orders GROUP BY status) AS t;
-- dialect: postgres
-- accept
-- keys: 3 public, l0 proved
-- release: rows l0=3 linf=10

-- case: a json array of private rows
SELECT json_group_array(status) AS names FROM orders;
-- refuse: unsupported-aggregate at 1:8

-- case: a list with a column computed of its key, joined
WITH k AS (SELECT DISTINCT device, CASE WHEN device LIKE '%o%' THEN 1 ELSE 0 END AS flag FROM events) SELECT COUNT(*) AS n FROM events e JOIN k ON e.device = k.device WHERE k.flag = 1;
-- accept
-- keys: private, l0 enforced
-- release: units l0=2 linf=1
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=5

-- case: a list with a column of its own, joined
WITH k AS (SELECT DISTINCT device, duration FROM events) SELECT COUNT(*) AS n FROM events e JOIN k ON e.device = k.device;
-- refuse: unsupported-private-operator at 1:98

-- case: different values of a column are a list of released ones
SELECT STRING_AGG(DISTINCT status, ', ' ORDER BY status) AS s FROM orders;
-- accept
-- keys: 3 public, l0 proved

-- case: different values by group
SELECT segment, ARRAY_AGG(DISTINCT country ORDER BY country DESC) AS countries FROM customers GROUP BY segment;
-- refuse: unsupported-aggregate at 1:17

-- case: a list in the order of another column
SELECT STRING_AGG(DISTINCT status, ', ' ORDER BY amount) AS s FROM orders;
-- refuse: syntax-error at 1:8

-- case: a list beside another aggregate
SELECT STRING_AGG(DISTINCT status, ', ') AS s, COUNT(*) AS n FROM orders;
-- refuse: unsupported-aggregate at 1:8

-- case: a list of values with a condition
SELECT STRING_AGG(DISTINCT status, ', ') FILTER (WHERE amount > 5) AS s FROM orders;
-- refuse: unsupported-aggregate at 1:8

-- case: a list of values that identify people
SELECT ARRAY_AGG(DISTINCT customer_id) AS s FROM orders;
-- refuse: unsupported-aggregate at 1:8

-- case: an object in JSON of released numbers
SELECT JSON_OBJECT('n', COUNT(*), 'a "b"', MAX(status), 'none', NULL) AS j FROM (SELECT status, COUNT(*) AS n FROM orders GROUP BY status) AS t;
-- accept
-- keys: 3 public, l0 proved

-- case: a key in JSON that rows decide
SELECT JSON_OBJECT(status, COUNT(*)) AS j FROM orders GROUP BY status;
-- refuse: unsupported-syntax at 1:8

-- case: an object in JSON as PostgreSQL writes it
SELECT json_build_object('n', COUNT(*)) AS j FROM orders;
-- dialect: postgres
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=10

-- case: a key in JSON without a value
SELECT JSON_OBJECT('n', COUNT(*), 'm') AS j FROM orders;
-- refuse: unsupported-syntax at 1:8
