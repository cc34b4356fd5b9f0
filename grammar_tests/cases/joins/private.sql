-- Joins of private tables: only if the condition implies equal units.
-- catalog: shop

-- case: along the link
SELECT c.segment, SUM(o.amount) FROM orders o JOIN customers c ON o.customer_id = c.customer_id GROUP BY c.segment;
-- accept

-- case: the other way round
SELECT c.segment, COUNT(*) FROM customers c JOIN orders o ON c.customer_id = o.customer_id GROUP BY c.segment;
-- accept

-- case: USING
SELECT segment, COUNT(*) FROM orders JOIN customers USING (customer_id) GROUP BY segment;
-- accept

-- case: a comma join with its condition in WHERE
SELECT COUNT(*) FROM orders o, customers c WHERE o.customer_id = c.customer_id;
-- accept

-- case: two links
SELECT c.segment, SUM(i.price) FROM items i JOIN orders o ON i.order_id = o.order_id JOIN customers c ON o.customer_id = c.customer_id GROUP BY c.segment;
-- accept

-- case: one of two links, the other is joined for the unit
SELECT o.status, SUM(i.price) FROM items i JOIN orders o ON i.order_id = o.order_id GROUP BY o.status;
-- accept

-- case: siblings of one unit
SELECT COUNT(*) FROM orders o JOIN events e ON o.customer_id = e.customer_id;
-- accept

-- case: a self join on the unit
SELECT COUNT(*) FROM orders a JOIN orders b ON a.customer_id = b.customer_id;
-- accept

-- case: a join with further conditions
SELECT COUNT(*) FROM orders o JOIN customers c ON o.customer_id = c.customer_id AND c.age > 30;
-- accept

-- case: a join of filtered subqueries
SELECT COUNT(*) FROM (SELECT customer_id FROM orders WHERE amount > 10) AS o JOIN (SELECT customer_id FROM customers WHERE vip) AS c ON o.customer_id = c.customer_id;
-- accept

-- case: without a condition
SELECT COUNT(*) FROM orders CROSS JOIN customers;
-- refuse: unequal-units

-- case: on another column
SELECT COUNT(*) FROM orders o JOIN events e ON o.order_id = e.event_id;
-- refuse: unequal-units

-- case: on an expression of the key
SELECT COUNT(*) FROM orders o JOIN customers c ON o.customer_id + 0 = c.customer_id;
-- refuse: unequal-units

-- case: the condition under OR
SELECT COUNT(*) FROM orders o JOIN customers c ON o.customer_id = c.customer_id OR c.vip;
-- refuse: unequal-units

-- case: an inequality of units
SELECT COUNT(*) FROM orders a JOIN orders b ON a.customer_id <> b.customer_id;
-- refuse: unequal-units

-- case: a left join of private rows
SELECT COUNT(*) FROM customers c LEFT JOIN orders o ON c.customer_id = o.customer_id;
-- refuse: unsupported-private-operator

-- case: a natural join
SELECT COUNT(*) FROM orders NATURAL JOIN customers;
-- refuse: unsupported-syntax

-- case: an ambiguous column
SELECT COUNT(*) FROM orders o JOIN customers c ON customer_id = c.customer_id;
-- refuse: ambiguous-column

-- case: the same alias twice
SELECT COUNT(*) FROM orders o JOIN customers o ON o.customer_id = o.customer_id;
-- refuse: ambiguous-column

-- case: an unknown alias
SELECT COUNT(*) FROM orders o JOIN customers c ON o.customer_id = x.customer_id;
-- refuse: unknown-table

-- case: an aggregate in ON
SELECT COUNT(*) FROM orders o JOIN customers c ON o.customer_id = c.customer_id AND SUM(o.amount) > 3;
-- refuse: misplaced-aggregate
