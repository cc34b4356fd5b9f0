-- Clauses over released values: ALL, DISTINCT ON, FETCH, aliases beside the list, set operations.
-- catalog: shop

-- case: group by all and order by all
SELECT status, COUNT(*) AS n FROM orders GROUP BY ALL ORDER BY ALL;
-- accept
-- keys: 3 public, l0 proved
-- release: rows l0=3 linf=10

-- case: order by all, turned round
SELECT segment, vip, COUNT(*) AS n FROM customers GROUP BY ALL ORDER BY ALL DESC NULLS LAST;
-- accept
-- keys: 4 public, l0 proved
-- release: rows l0=1 linf=1

-- case: order by all without a group
SELECT COUNT(*) AS n FROM orders ORDER BY ALL;
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=10

-- case: group by all with an expression
SELECT UPPER(status) AS s, quantity > 3 AS big, SUM(amount) AS total FROM orders GROUP BY ALL;
-- accept
-- keys: 6 public, l0 enforced
-- release: sum l0=3 linf=5000

-- case: group by all with the same column twice
SELECT status, status AS again, COUNT(*) AS n FROM orders GROUP BY ALL;
-- accept
-- keys: 3 public, l0 proved
-- release: rows l0=3 linf=10

-- case: group by all with only aggregates
SELECT COUNT(*) AS n, SUM(amount) AS s FROM orders GROUP BY ALL;
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=10
-- release: sum l0=1 linf=5000

-- case: group by all with a mixture
SELECT quantity + COUNT(*) FROM orders GROUP BY ALL;
-- refuse: not-grouped at 1:8

-- case: group by all with a window
SELECT status, ROW_NUMBER() OVER (ORDER BY status) FROM orders GROUP BY ALL;
-- refuse: misplaced-aggregate at 1:16

-- case: order by all and more
SELECT status, COUNT(*) FROM orders GROUP BY ALL ORDER BY ALL, colour;
-- refuse: unknown-column at 1:64

-- case: the first of each
SELECT DISTINCT ON (segment) segment, vip, n FROM (SELECT segment, vip, COUNT(*) AS n FROM customers GROUP BY ALL) AS t ORDER BY segment, n DESC, vip;
-- accept
-- keys: 4 public, l0 proved
-- release: rows l0=1 linf=1
-- rewrite:
--   WITH rows AS (SELECT t1."segment" AS k0, t1."vip" AS k1 FROM "customers" AS t1)
--   SELECT k0, k1, COALESCE(COUNT(*)::HUGEINT, 0) AS p0
--   FROM rows
--   GROUP BY k0, k1
--   SELECT t2.c12 AS c0, t2.c13 AS c1, t2.c14 AS c2
--   FROM (
--     SELECT
--       t1.c0 AS c12,
--       t1.c1 AS c13,
--       t1.c2 AS c14,
--       row_number() OVER (
--         PARTITION BY t1.c0 ORDER BY t1.c0 NULLS LAST, t1.c2 DESC NULLS LAST, t1.c1 NULLS LAST
--       ) AS c18
--     FROM release_0 AS t1
--   ) AS t2
--   WHERE (t2.c18 = 1)
--   ORDER BY t2.c12 NULLS LAST, t2.c14 DESC NULLS LAST, t2.c13 NULLS LAST

-- case: the first of each by two keys
SELECT DISTINCT ON (segment, vip) segment, vip, n FROM (SELECT segment, vip, age, COUNT(*) AS n FROM customers GROUP BY ALL) AS t ORDER BY segment, vip, n DESC, age;
-- accept
-- keys: 488 public, l0 proved
-- release: rows l0=1 linf=1

-- case: the first of each by a number and an expression
SELECT DISTINCT ON (1, n > 1000) segment, n FROM (SELECT segment, vip, COUNT(*) AS n FROM customers GROUP BY ALL) AS t ORDER BY segment, vip;
-- accept
-- keys: 4 public, l0 proved
-- release: rows l0=1 linf=1

-- case: the first of each of aggregates
SELECT DISTINCT ON (segment) segment, vip, COUNT(*) AS n FROM customers GROUP BY segment, vip ORDER BY segment, vip DESC;
-- accept
-- keys: 4 public, l0 proved
-- release: rows l0=1 linf=1

-- case: the first of each, then a limit
SELECT DISTINCT ON (segment) segment, n FROM (SELECT segment, vip, COUNT(*) AS n FROM customers GROUP BY ALL) AS t ORDER BY segment DESC, vip LIMIT 1;
-- accept
-- keys: 4 public, l0 proved
-- release: rows l0=1 linf=1

-- case: the first of each private row
SELECT DISTINCT ON (customer_id) customer_id, amount FROM orders ORDER BY customer_id, placed_at;
-- refuse: raw-rows at 1:59

-- case: the first of each of what is not grouped
SELECT DISTINCT ON (amount) status, COUNT(*) FROM orders GROUP BY status;
-- refuse: not-grouped at 1:21

-- case: fetch first
SELECT status, COUNT(*) AS n FROM orders GROUP BY status ORDER BY status FETCH FIRST 2 ROWS ONLY;
-- accept
-- keys: 3 public, l0 proved
-- release: rows l0=3 linf=10

-- case: fetch first without a number is one row
SELECT status, COUNT(*) AS n FROM orders GROUP BY status ORDER BY status FETCH FIRST ROW ONLY;
-- accept
-- keys: 3 public, l0 proved
-- release: rows l0=3 linf=10

-- case: fetch next after an offset
SELECT status, COUNT(*) AS n FROM orders GROUP BY status ORDER BY status OFFSET 1 ROW FETCH NEXT 1 ROW ONLY;
-- accept
-- keys: 3 public, l0 proved
-- release: rows l0=3 linf=10

-- case: a limit by percentage
SELECT status, COUNT(*) AS n FROM orders GROUP BY status LIMIT 50%;
-- refuse: unsupported-syntax at 1:64

-- case: a limit in percent
SELECT status, COUNT(*) AS n FROM orders GROUP BY status LIMIT 50 PERCENT;
-- refuse: unsupported-syntax at 1:64

-- case: fetch first with ties
SELECT status, COUNT(*) AS n FROM orders GROUP BY status ORDER BY n FETCH FIRST 1 ROWS WITH TIES;
-- refuse: unsupported-syntax at 1:81

-- case: fetch first of private rows
SELECT SUM(amount) FROM (SELECT amount FROM orders ORDER BY amount FETCH FIRST 5 ROWS ONLY) AS t;
-- refuse: unsupported-private-operator at 1:26

-- case: an alias used beside its definition
SELECT COUNT(*) AS n, n * 2 AS twice, twice + n AS thrice FROM orders;
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=10

-- case: an alias in HAVING and ORDER BY expressions
SELECT status, COUNT(*) AS n, SUM(amount) AS s FROM orders GROUP BY status HAVING s / n > 0 ORDER BY s / n, status;
-- accept
-- keys: 3 public, l0 proved
-- release: rows l0=3 linf=10
-- release: sum l0=3 linf=5000

-- case: an alias in QUALIFY
SELECT status, COUNT(*) AS n, ROW_NUMBER() OVER (ORDER BY status) AS r FROM orders GROUP BY status QUALIFY r < 3;
-- accept
-- keys: 3 public, l0 proved
-- release: rows l0=3 linf=10

-- case: an alias of a window
SELECT status, COUNT(*) AS n, SUM(n) OVER (ORDER BY status) AS running, running - n AS before FROM orders GROUP BY status;
-- accept
-- keys: 3 public, l0 proved
-- release: rows l0=3 linf=10

-- case: a column goes before an alias
SELECT n + 1 AS s, s + 1 AS next FROM (SELECT COUNT(*) AS n, 10 AS s FROM orders) AS t;
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=10

-- case: an alias before its definition
SELECT n * 2 AS twice, COUNT(*) AS n FROM orders;
-- refuse: unknown-column at 1:8

-- case: an aggregate of an alias of an aggregate
SELECT SUM(amount) AS s, AVG(s) FROM orders;
-- refuse: misplaced-aggregate at 1:8

-- case: an alias of an aggregate in WHERE
SELECT status, COUNT(*) AS n FROM orders WHERE n > 2 GROUP BY status;
-- refuse: misplaced-aggregate at 1:16

-- case: an alias inside a key
SELECT quantity + 1 AS q, COUNT(*) FROM orders GROUP BY q + 1;
-- refuse: unknown-column at 1:57

-- case: star without a column
SELECT * EXCLUDE (n) FROM (SELECT status, COUNT(*) AS n FROM orders GROUP BY status) AS t;
-- accept
-- keys: 3 public, l0 proved

-- case: star without a column, unwrapped
SELECT t.* EXCLUDE status, 7 AS seven FROM (SELECT status, COUNT(*) AS n FROM orders GROUP BY status) AS t;
-- accept
-- keys: 3 public, l0 proved
-- release: rows l0=3 linf=10

-- case: star with a new value
SELECT * REPLACE (n / 2 AS n) FROM (SELECT status, COUNT(*) AS n FROM orders GROUP BY status) AS t;
-- accept
-- keys: 3 public, l0 proved
-- release: rows l0=3 linf=10

-- case: star with a new name
SELECT * RENAME (n AS rows_of_it), rows_of_it * 2 AS twice FROM (SELECT status, COUNT(*) AS n FROM orders GROUP BY status) AS t;
-- accept
-- keys: 3 public, l0 proved
-- release: rows l0=3 linf=10

-- case: star with everything
SELECT * EXCLUDE (s) REPLACE (UPPER(status) AS status) RENAME (n AS m) FROM (SELECT status, COUNT(*) AS n, SUM(amount) AS s FROM orders GROUP BY status) AS t;
-- accept
-- keys: 3 public, l0 proved
-- release: rows l0=3 linf=10

-- case: star without what is not there
SELECT * EXCLUDE (colour) FROM (SELECT status, COUNT(*) AS n FROM orders GROUP BY status) AS t;
-- refuse: unknown-column at 1:8

-- case: star with a value for what is not there
SELECT * REPLACE (1 AS colour) FROM (SELECT status, COUNT(*) AS n FROM orders GROUP BY status) AS t;
-- refuse: unknown-column at 1:8

-- case: star with a value and a name
SELECT * REPLACE (n + 1 AS n) RENAME (n AS m) FROM (SELECT status, COUNT(*) AS n FROM orders GROUP BY status) AS t;
-- refuse: unknown-column at 1:8

-- case: star by a pattern
SELECT * LIKE 'n%' FROM (SELECT status, COUNT(*) AS n FROM orders GROUP BY status) AS t;
-- refuse: unsupported-syntax at 1:10

-- case: a union by name
SELECT status, COUNT(*) AS n FROM orders GROUP BY status UNION ALL BY NAME SELECT SUM(amount) AS s, 'all' AS status FROM orders;
-- accept
-- keys: 3 public, l0 proved
-- release: rows l0=3 linf=10
-- keys: 1 public, l0 proved
-- release: sum l0=1 linf=5000

-- case: a union by name without repeats
SELECT 'a' AS what, COUNT(*) AS n FROM orders UNION BY NAME SELECT COUNT(*) AS n, 'a' AS what FROM orders ORDER BY ALL;
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=10

-- case: an intersection by name
SELECT code FROM countries INTERSECT BY NAME SELECT 'NO' AS code;
-- refuse: unsupported-syntax at 1:8

-- case: a union by name of equal names
SELECT COUNT(*) AS n, SUM(amount) AS n FROM orders UNION ALL BY NAME SELECT 1 AS n;
-- refuse: ambiguous-column at 1:8

-- case: what both have, with repeats
SELECT n > 0 AS some FROM (SELECT status, COUNT(*) AS n FROM orders GROUP BY status) AS t INTERSECT ALL SELECT n > 0 FROM (SELECT vip, COUNT(*) AS n FROM customers GROUP BY vip) AS u;
-- accept
-- keys: 3 public, l0 proved
-- release: rows l0=3 linf=10
-- keys: 2 public, l0 proved
-- release: rows l0=1 linf=1

-- case: what only the first has, with repeats
SELECT n > 0 AS some FROM (SELECT status, COUNT(*) AS n FROM orders GROUP BY status) AS t EXCEPT ALL SELECT TRUE;
-- accept
-- keys: 3 public, l0 proved
-- release: rows l0=3 linf=10

-- case: the order of a union by all
SELECT 'b' AS x, COUNT(*) AS n FROM orders UNION ALL SELECT 'a', COUNT(*) FROM customers ORDER BY ALL LIMIT 2;
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=10
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=1

-- case: the order of a union by number and name
SELECT 'b' AS x, COUNT(*) AS n FROM orders UNION ALL SELECT 'a', COUNT(*) FROM customers ORDER BY 1 DESC, n;
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=10
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=1

-- case: the order of a union by an unknown name
SELECT 'b' AS x, COUNT(*) AS n FROM orders UNION ALL SELECT 'a', COUNT(*) FROM customers ORDER BY colour;
-- refuse: unknown-column at 1:99

-- case: a sum of different values, of which only some would be released
SELECT SUM(amount) FROM (SELECT amount FROM orders UNION BY NAME SELECT price AS amount FROM items) AS t;
-- refuse: unsupported-private-operator at 1:33

-- case: two results joined in full
SELECT segment, a.n AS vips, b.n AS others FROM (SELECT segment, COUNT(*) AS n FROM customers WHERE vip GROUP BY segment) AS a FULL JOIN (SELECT segment, COUNT(*) AS n FROM customers WHERE NOT vip GROUP BY segment) AS b USING (segment);
-- accept
-- keys: 2 public, l0 proved
-- release: rows l0=1 linf=1
-- keys: 2 public, l0 proved
-- release: rows l0=1 linf=1

-- case: two results joined naturally
SELECT * FROM (SELECT segment, COUNT(*) AS n FROM customers GROUP BY segment) AS a NATURAL JOIN (SELECT segment, AVG(age) AS mean FROM customers GROUP BY segment) AS b;
-- accept
-- keys: 2 public, l0 proved
-- release: rows l0=1 linf=1
-- release: rows l0=1 linf=1
-- release: rows l0=1 linf=1
-- release: sum l0=1 linf=60

-- case: an order by constants
SELECT 7 AS x, 'b' AS y, TRUE AS z, status, COUNT(*) AS n FROM orders GROUP BY status ORDER BY x, y, z, status;
-- accept
-- keys: 3 public, l0 proved
-- release: rows l0=3 linf=10

-- case: an order by all of constants
SELECT 'b' AS x, NULL AS q, COUNT(*) AS n FROM orders ORDER BY ALL;
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=10

-- case: more rows than an engine can count
SELECT status, COUNT(*) AS n FROM orders GROUP BY status LIMIT 9223372036854775808;
-- refuse: unsupported-syntax at 1:64

-- case: as many rows as it can
SELECT status, COUNT(*) AS n FROM orders GROUP BY status LIMIT 9223372036854775807 OFFSET 9223372036854775807;
-- accept
-- keys: 3 public, l0 proved
-- release: rows l0=3 linf=10

-- case: HAVING by an output that is called as a column
SELECT status, COUNT(*) AS quantity FROM orders GROUP BY status HAVING quantity > 2;
-- accept
-- keys: 3 public, l0 proved
-- release: rows l0=3 linf=10

-- case: HAVING by such an output in a term, beside the column in an aggregate
SELECT status, SUM(quantity) AS quantity FROM orders GROUP BY status HAVING quantity + 1 > 20 AND SUM(quantity) > 0;
-- accept
-- keys: 3 public, l0 proved
-- release: sum l0=3 linf=200

-- case: HAVING by a key goes before an output of its name
SELECT status, quantity AS q, COUNT(*) AS quantity FROM orders GROUP BY status, quantity HAVING quantity > 15;
-- accept
-- keys: 63 public, l0 enforced
-- release: rows l0=3 linf=10

-- case: HAVING by a qualified column is no output
SELECT status, COUNT(*) AS quantity FROM orders GROUP BY status HAVING orders.quantity > 2;
-- refuse: not-grouped at 1:72

-- case: HAVING by one of two outputs of a name
SELECT COUNT(*) AS quantity, SUM(amount) AS quantity FROM orders HAVING quantity > 2;
-- refuse: ambiguous-column at 1:73

-- case: a position behind the SELECT list, in GROUP BY
SELECT status AS s FROM orders GROUP BY 2;
-- refuse: unknown-column at 1:41

-- case: a position behind the SELECT list, in ORDER BY
SELECT status, COUNT(*) AS n FROM orders GROUP BY 1 ORDER BY 3;
-- refuse: unknown-column at 1:62
