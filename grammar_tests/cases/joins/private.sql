-- Joins of private tables: only if the condition implies equal units.
-- catalog: shop

-- case: along the link
SELECT c.segment, SUM(o.amount) FROM orders o JOIN customers c ON o.customer_id = c.customer_id GROUP BY c.segment;
-- accept
-- keys: 2 public, l0 proved
-- release: sum l0=1 linf=5000

-- case: the other way round
SELECT c.segment, COUNT(*) FROM customers c JOIN orders o ON c.customer_id = o.customer_id GROUP BY c.segment;
-- accept
-- keys: 2 public, l0 proved
-- release: rows l0=1 linf=10

-- case: USING
SELECT segment, COUNT(*) FROM orders JOIN customers USING (customer_id) GROUP BY segment;
-- accept
-- keys: 2 public, l0 proved
-- release: rows l0=1 linf=10

-- case: a comma join with its condition in WHERE
SELECT COUNT(*) FROM orders o, customers c WHERE o.customer_id = c.customer_id;
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=10

-- case: two links
SELECT c.segment, SUM(i.price) FROM items i JOIN orders o ON i.order_id = o.order_id JOIN customers c ON o.customer_id = c.customer_id GROUP BY c.segment;
-- accept
-- keys: 2 public, l0 proved
-- release: sum l0=1 linf=2000

-- case: one of two links, the other is joined for the unit
SELECT o.status, SUM(i.price) FROM items i JOIN orders o ON i.order_id = o.order_id GROUP BY o.status;
-- accept
-- keys: 3 public, l0 proved
-- release: sum l0=3 linf=2000

-- case: siblings of one unit
SELECT COUNT(*) FROM orders o JOIN events e ON o.customer_id = e.customer_id;
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=50

-- case: a self join on the unit
SELECT COUNT(*) FROM orders a JOIN orders b ON a.customer_id = b.customer_id;
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=100

-- case: a join with further conditions
SELECT COUNT(*) FROM orders o JOIN customers c ON o.customer_id = c.customer_id AND c.age > 30;
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=10

-- case: a join of filtered subqueries
SELECT COUNT(*) FROM (SELECT customer_id FROM orders WHERE amount > 10) AS o JOIN (SELECT customer_id FROM customers WHERE vip) AS c ON o.customer_id = c.customer_id;
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=10

-- case: without a condition
SELECT COUNT(*) FROM orders CROSS JOIN customers;
-- refuse: unequal-units at 1:40

-- case: on another column
SELECT COUNT(*) FROM orders o JOIN events e ON o.order_id = e.event_id;
-- refuse: unequal-units at 1:36

-- case: on an expression of the key
SELECT COUNT(*) FROM orders o JOIN customers c ON o.customer_id + 0 = c.customer_id;
-- refuse: unequal-units at 1:36

-- case: the condition under OR
SELECT COUNT(*) FROM orders o JOIN customers c ON o.customer_id = c.customer_id OR c.vip;
-- refuse: unequal-units at 1:36

-- case: an inequality of units
SELECT COUNT(*) FROM orders a JOIN orders b ON a.customer_id <> b.customer_id;
-- refuse: unequal-units at 1:36

-- case: a left join of private rows
SELECT COUNT(*) FROM customers c LEFT JOIN orders o ON c.customer_id = o.customer_id;
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=10

-- case: a natural join
SELECT COUNT(*) FROM orders NATURAL JOIN customers;
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=10

-- case: an ambiguous column
SELECT COUNT(*) FROM orders o JOIN customers c ON customer_id = c.customer_id;
-- refuse: ambiguous-column at 1:51

-- case: the same alias twice
SELECT COUNT(*) FROM orders o JOIN customers o ON o.customer_id = o.customer_id;
-- refuse: ambiguous-column at 1:36

-- case: an unknown alias
SELECT COUNT(*) FROM orders o JOIN customers c ON o.customer_id = x.customer_id;
-- refuse: unknown-table at 1:67

-- case: an aggregate in ON
SELECT COUNT(*) FROM orders o JOIN customers c ON o.customer_id = c.customer_id AND SUM(o.amount) > 3;
-- refuse: misplaced-aggregate at 1:85

-- case: a join on the keys of rows per unit and group
SELECT COUNT(*) FROM orders o JOIN (SELECT customer_id, status, COUNT(*) AS n FROM orders GROUP BY 1, 2) AS t ON o.customer_id = t.customer_id AND o.status = t.status;
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=10

-- case: a join on a part of their keys
SELECT COUNT(*) FROM orders o JOIN (SELECT customer_id, status, COUNT(*) AS n FROM orders GROUP BY 1, 2) AS t ON o.customer_id = t.customer_id;
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=100

-- case: a join on their keys without that of the unit
SELECT COUNT(*) FROM orders o JOIN (SELECT customer_id, status, COUNT(*) AS n FROM orders GROUP BY 1, 2) AS t ON o.status = t.status;
-- refuse: unequal-units at 1:44
