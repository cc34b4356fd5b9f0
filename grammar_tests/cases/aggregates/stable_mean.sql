-- PTR_MEAN: the mean if there are enough rows, by propose, test, release.
-- catalog: shop

-- case: stable mean of the unit table
SELECT PTR_MEAN(income, 3) AS mean FROM customers;
-- accept
-- keys: 1 public, l0 proved
-- release: test l0=1 linf=1
-- release: mean l0=1 linf=66666.66667

-- case: stable mean of a nullable column
SELECT PTR_MEAN(age, 2) AS mean FROM customers;
-- accept
-- keys: 1 public, l0 proved
-- release: test l0=1 linf=1
-- release: mean l0=1 linf=60

-- case: stable mean by public groups
SELECT segment, PTR_MEAN(age, 2) AS mean, COUNT(*) AS n FROM customers GROUP BY segment;
-- accept
-- keys: 2 public, l0 proved
-- release: test l0=1 linf=1
-- release: mean l0=1 linf=60
-- release: rows l0=1 linf=1

-- case: stable mean of totals per unit
SELECT PTR_MEAN(q, 2) AS mean
FROM (SELECT customer_id, LEAST(SUM(quantity), 100) AS q FROM orders GROUP BY customer_id) AS t;
-- accept
-- keys: 1 public, l0 proved
-- release: test l0=1 linf=1
-- release: mean l0=1 linf=50

-- case: stable mean with a filter, and arithmetic over it
SELECT 2 * PTR_MEAN(income, 2) FILTER (WHERE vip) AS twice FROM customers;
-- accept
-- keys: 1 public, l0 proved
-- release: test l0=1 linf=1
-- release: mean l0=1 linf=100000

-- case: stable mean of several rows of a unit
SELECT PTR_MEAN(quantity, 100) FROM orders;
-- refuse: unsupported-aggregate at 1:8

-- case: stable mean of what has no bounds
SELECT PTR_MEAN(n, 100) FROM
(SELECT customer_id, SUM(note_length) AS n FROM orders GROUP BY customer_id) AS t;
-- refuse: unbounded-input at 1:17

-- case: stable mean by private groups
SELECT city, PTR_MEAN(age, 100) FROM customers GROUP BY city;
-- refuse: unsupported-aggregate at 1:1

-- case: stable mean of distinct values
SELECT PTR_MEAN(DISTINCT age, 100) FROM customers;
-- refuse: unsupported-aggregate at 1:8

-- case: a proposal is a constant
SELECT PTR_MEAN(age, age) FROM customers;
-- refuse: unsupported-syntax at 1:8
