-- Queries whose compilation once failed: hidden unit columns and public rows without private ones.
-- catalog: shop

-- case: IN over private rows, of a renamed column beside a join
SELECT COUNT(*) AS n FROM (SELECT customer_id FROM events) AS l JOIN customers c USING (customer_id) WHERE l.customer_id IN (SELECT customer_id FROM orders);
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=5

-- case: NOT IN over private rows, of a renamed column beside a join
SELECT COUNT(*) AS n FROM (SELECT customer_id AS c FROM orders) AS o JOIN customers c ON o.c = c.customer_id WHERE o.c NOT IN (SELECT customer_id FROM events);
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=10

-- case: a public table LEFT JOIN private rows, without groups
SELECT COUNT(DISTINCT c.customer_id) AS n, SUM(c.age) AS ages FROM countries k LEFT JOIN customers c ON c.country = k.code;
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=1
-- release: sum l0=1 linf=120

-- case: IN over private rows of another key
SELECT COUNT(*) AS n FROM (SELECT customer_id, order_id FROM orders) AS o WHERE o.order_id IN (SELECT customer_id FROM events);
-- refuse: unequal-units at 1:81

-- case: a public table LEFT JOIN private rows, counting rows without groups
SELECT COUNT(*) AS n FROM countries k LEFT JOIN customers c ON c.country = k.code;
-- refuse: unsupported-private-operator at 1:8
