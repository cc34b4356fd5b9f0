-- GROUPING SETS, ROLLUP, CUBE: sums over the finest release where its keys are public, else a release each.
-- catalog: shop

-- case: totals from the cells
SELECT country, segment, COUNT(*) FROM customers GROUP BY ROLLUP (country, segment);
-- accept
-- keys: 6 public, l0 proved
-- release: rows l0=1 linf=1

-- case: all combinations from the cells
SELECT country, segment, COUNT(*), SUM(age) FROM customers GROUP BY CUBE (country, segment);
-- accept
-- keys: 6 public, l0 proved
-- release: rows l0=1 linf=1
-- release: sum l0=1 linf=120

-- case: averages are released at each level
SELECT country, segment, AVG(age) FROM customers GROUP BY GROUPING SETS ((country, segment), (country), ());
-- accept
-- keys: 6 public, l0 proved
-- release: rows l0=1 linf=1
-- release: sum l0=1 linf=60
-- keys: 3 public, l0 proved
-- release: rows l0=1 linf=1
-- release: sum l0=1 linf=60
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=1
-- release: sum l0=1 linf=60

-- case: GROUPING says which keys are summed over
SELECT status, GROUPING(status) AS g, COUNT(*) AS n FROM orders GROUP BY ROLLUP (status) ORDER BY g, n;
-- accept
-- keys: 3 public, l0 proved
-- release: rows l0=3 linf=10

-- case: private keys are released at each level
SELECT city, COUNT(*) FROM customers GROUP BY ROLLUP (city);
-- accept
-- keys: private, l0 proved
-- release: rows l0=1 linf=1
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=1

-- case: a key beside a rollup
SELECT country, city, COUNT(*) FROM customers GROUP BY country, ROLLUP (city);
-- accept
-- keys: private, l0 proved
-- release: rows l0=1 linf=1
-- keys: 3 public, l0 proved
-- release: rows l0=1 linf=1

-- case: several bits of GROUPING
SELECT segment, city, GROUPING(segment, city) AS g, SUM(age), AVG(age) FROM customers GROUP BY CUBE (segment, city);
-- accept
-- keys: private, l0 proved
-- release: rows l0=1 linf=1
-- release: rows l0=1 linf=1
-- release: sum l0=1 linf=60
-- keys: 2 public, l0 proved
-- release: rows l0=1 linf=1
-- release: sum l0=1 linf=60
-- keys: private, l0 proved
-- release: rows l0=1 linf=1
-- release: rows l0=1 linf=1
-- release: sum l0=1 linf=60
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=1
-- release: sum l0=1 linf=60

-- case: a composite element
SELECT country, segment, vip, COUNT(*) FROM customers GROUP BY ROLLUP ((country, segment), vip);
-- accept
-- keys: 12 public, l0 proved
-- release: rows l0=1 linf=1

-- case: nested sets
SELECT country, segment, COUNT(*) FROM customers GROUP BY GROUPING SETS (country, ROLLUP (segment));
-- accept
-- keys: 3 public, l0 proved
-- release: rows l0=1 linf=1
-- keys: 2 public, l0 proved
-- release: rows l0=1 linf=1
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=1

-- case: public rows
SELECT category, COUNT(*) FROM products GROUP BY ROLLUP (category);
-- accept

-- case: levels without the finest
SELECT country, COUNT(*) FROM customers GROUP BY GROUPING SETS (country, segment);
-- accept
-- keys: 3 public, l0 proved
-- release: rows l0=1 linf=1
-- keys: 2 public, l0 proved
-- release: rows l0=1 linf=1

-- case: only the total
SELECT COUNT(*) FROM customers GROUP BY GROUPING SETS (());
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=1

-- case: a share of a rolled-up total
SELECT country AS c, COUNT(*) * 100.0 / SUM(COUNT(*)) OVER () AS share FROM customers GROUP BY ROLLUP (country) HAVING COUNT(*) > 1;
-- accept
-- keys: 3 public, l0 proved
-- release: rows l0=1 linf=1

-- case: months and a grand total
SELECT date_trunc('month', placed_at) AS m, status, COUNT(*) FROM orders WHERE placed_at < '2024-07-01' GROUP BY ROLLUP (m, status);
-- accept
-- keys: 18 public, l0 enforced
-- release: rows l0=3 linf=10

-- case: GROUPING without sets
SELECT GROUPING(country), country, COUNT(*) FROM customers GROUP BY country;
-- accept
-- keys: 3 public, l0 proved
-- release: rows l0=1 linf=1

-- case: filtered sums add up
SELECT status, SUM(amount) FILTER (WHERE quantity > 1) AS s FROM orders GROUP BY ROLLUP (status);
-- accept
-- keys: 3 public, l0 proved
-- release: sum l0=3 linf=5000

-- case: in Postgres spelling
SELECT country, COUNT(*) FROM customers GROUP BY CUBE (country);
-- dialect: postgres
-- accept
-- keys: 3 public, l0 proved
-- release: rows l0=1 linf=1

-- case: an aggregate over the sets
SELECT MAX(n) FROM (SELECT country, segment, COUNT(*) AS n FROM customers GROUP BY CUBE (country, segment)) t WHERE country IS NULL;
-- accept
-- keys: 6 public, l0 proved
-- release: rows l0=1 linf=1

-- case: groups of one unit
SELECT customer_id, COUNT(*) FROM orders GROUP BY ROLLUP (customer_id);
-- refuse: unsupported-private-operator at 1:1

-- case: MySQL's spelling
SELECT country, segment, COUNT(*) AS n FROM customers GROUP BY 1, 2 WITH ROLLUP;
-- refuse: unsupported-syntax at 1:64

-- case: GROUPING of no key
SELECT country, GROUPING(segment) FROM customers GROUP BY ROLLUP (country);
-- refuse: not-grouped at 1:17

-- case: a column that no level groups by
SELECT country, age, COUNT(*) FROM customers GROUP BY ROLLUP (country);
-- refuse: not-grouped at 1:17

-- case: too many levels
SELECT COUNT(*) FROM orders GROUP BY CUBE (status, quantity, amount, discount, note, note_length, placed_at);
-- refuse: query-too-large at 1:44

-- case: a total of NULL beside a count of values
SELECT COUNT(DISTINCT customer_id) AS n FROM orders GROUP BY ROLLUP (NULL);
-- accept
-- keys: 1 public, l0 proved
-- release: units l0=1 linf=1
-- keys: 1 public, l0 proved
-- release: units l0=1 linf=1
