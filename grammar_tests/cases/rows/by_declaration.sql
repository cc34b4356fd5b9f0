-- Conditions, of rows or of one aggregate, that leave none of the values which the policy lists for a column: there are no rows by declaration, and nothing is measured or charged.
-- catalog: shop

-- case: a value that is not listed
SELECT COUNT(*) AS n, SUM(amount) AS s, AVG(amount) AS a, MAX(amount) AS m FROM orders WHERE status = 'lost';
-- accept

-- case: a value that is listed
SELECT COUNT(*) AS n FROM orders WHERE status = 'open';
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=10

-- case: one of two values is listed
SELECT segment, COUNT(*) AS n FROM customers JOIN orders USING (customer_id) WHERE status IN ('lost', 'paid') GROUP BY segment;
-- accept
-- keys: 2 public, l0 proved
-- release: rows l0=1 linf=10

-- case: of private keys no group is shown
SELECT city, COUNT(*) AS n FROM customers WHERE UPPER(segment) = 'OTHER' GROUP BY city;
-- accept

-- case: conditions that contradict each other, through a subquery
SELECT COUNT(*) AS n FROM (SELECT status AS s, amount FROM orders WHERE status <> 'open') AS t WHERE s = 'open';
-- accept

-- case: all listed values are excluded
SELECT COUNT(*) AS n FROM customers WHERE country NOT IN ('DE', 'SE', 'NO');
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=1

-- case: totals of each person's rows
SELECT AVG(n) AS a FROM (SELECT customer_id, COUNT(*) AS n FROM orders WHERE status = 'lost' GROUP BY customer_id) AS t;
-- accept

-- case: beyond bounds rows are clipped, and there all the same
SELECT COUNT(*) AS n FROM customers WHERE age > 130;
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=1

-- case: the optional side of a LEFT JOIN
SELECT COUNT(*) AS n FROM customers AS c LEFT JOIN (SELECT * FROM orders WHERE status = 'lost') AS o ON c.customer_id = o.customer_id;
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=10

-- case: what a LEFT JOIN leaves open
SELECT COUNT(*) AS n FROM customers AS c LEFT JOIN orders AS o ON c.customer_id = o.customer_id AND o.status = 'lost' WHERE COALESCE(o.status, 'none') = 'none';
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=10

-- case: either of two conditions
SELECT COUNT(*) AS n FROM orders WHERE status = 'lost' OR amount > 100;
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=10

-- case: a column that is missing in its rows
SELECT COUNT(*) AS n FROM orders WHERE status IS NULL;
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=10

-- case: beside rows that may be there
SELECT (SELECT COUNT(*) FROM orders WHERE status = 'lost') AS a, (SELECT COUNT(*) FROM orders) AS b;
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=10

-- case: rows themselves are refused all the same
SELECT amount FROM orders WHERE status = 'lost';
-- refuse: raw-rows at 1:20

-- case: of what exists alone
SELECT COUNT(*) AS n FROM orders WHERE state = 'lost';
-- refuse: unknown-column at 1:40

-- case: a filter of one aggregate that leaves nothing
SELECT COUNT(*) FILTER (WHERE status = 'lost') AS l, COUNT(*) AS n FROM orders;
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=10

-- case: the only aggregate of private groups has no rows
SELECT city, COUNT(*) FILTER (WHERE status = 'lost') AS l FROM customers JOIN orders USING (customer_id) GROUP BY city;
-- accept
-- keys: private, l0 proved
-- release: units l0=1 linf=1

-- case: a filter that leaves values of another column
SELECT COUNT(*) FILTER (WHERE status = 'lost' OR amount > 100) AS l FROM orders;
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=10

-- case: a filter over a column that is hidden
SELECT COUNT(*) FILTER (WHERE name = 'lost') AS l FROM customers;
-- refuse: hidden-column at 1:31
