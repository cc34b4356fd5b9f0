-- Joins of private rows with public tables: m times the most matches of one key.
-- catalog: shop

-- case: on the public key
SELECT k.region, COUNT(*) FROM customers c JOIN countries k ON c.country = k.code GROUP BY k.region;
-- accept
-- keys: 2 public, l0 proved
-- release: rows l0=1 linf=1

-- case: public first
SELECT k.region, COUNT(*) FROM countries k JOIN customers c ON c.country = k.code GROUP BY k.region;
-- accept
-- keys: 2 public, l0 proved
-- release: rows l0=1 linf=1

-- case: through two private tables
SELECT k.region, SUM(o.amount) FROM orders o JOIN customers c ON o.customer_id = c.customer_id JOIN countries k ON c.country = k.code GROUP BY k.region;
-- accept
-- keys: 2 public, l0 proved
-- release: sum l0=1 linf=5000

-- case: a public measure
SELECT SUM(i.units * p.list_price) FROM items i JOIN products p ON i.product_id = p.product_id;
-- accept
-- keys: 1 public, l0 proved
-- release: sum l0=1 linf=6000

-- case: a public dimension as key
SELECT p.category, SUM(i.price) FROM items i JOIN products p ON i.product_id = p.product_id GROUP BY p.category;
-- accept
-- keys: 2 public, l0 proved
-- release: sum l0=2 linf=2000

-- case: not on the key, so that rows may multiply
SELECT COUNT(*) FROM customers c JOIN countries k ON c.segment = k.region;
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=2

-- case: a cross join with a public table
SELECT COUNT(*) FROM customers CROSS JOIN countries;
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=1

-- case: a filtered public table
SELECT COUNT(*) FROM customers c JOIN countries k ON c.country = k.code WHERE k.region = 'north';
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=1

-- case: a left join with a public table
SELECT COUNT(*) FROM customers c LEFT JOIN countries k ON c.country = k.code;
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=1

-- case: a released result joined back to private rows
SELECT COUNT(*) FROM orders o JOIN (SELECT status, COUNT(*) AS n FROM orders GROUP BY status) AS t ON o.status = t.status;
-- accept
-- keys: 3 public, l0 proved
-- release: rows l0=3 linf=10
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=10

-- case: a full join with a public table
SELECT COUNT(*) FROM customers c FULL JOIN countries k ON c.country = k.code;
-- refuse: unsupported-private-operator at 1:44

-- case: a list that has a unit twice counts its rows twice
SELECT COUNT(*) FROM orders o JOIN (VALUES (3), (3), (6)) AS listed(c) ON o.customer_id = listed.c;
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=20

-- case: a public column that has a unit twice
SELECT status, COUNT(*) FROM orders o JOIN (SELECT product_id FROM products UNION ALL SELECT product_id FROM products) AS p ON o.customer_id = p.product_id GROUP BY status;
-- accept
-- keys: 3 public, l0 proved
-- release: rows l0=3 linf=20

-- case: keys that a multiplying join does not touch
SELECT note, COUNT(*) FROM orders o JOIN products p ON o.quantity < p.product_id GROUP BY note;
-- accept
-- keys: private, l0 enforced
-- release: units l0=3 linf=1
-- release: rows l0=3 linf=30

-- case: keys of the side that multiplies
SELECT note, category, COUNT(*) FROM orders o JOIN (SELECT category || '!' AS category, product_id FROM products) p ON o.quantity < p.product_id GROUP BY note, category;
-- accept
-- keys: private, l0 enforced
-- release: units l0=9 linf=1
-- release: rows l0=9 linf=30

-- case: a key made of both sides
SELECT note || category AS k, COUNT(*) FROM orders o JOIN products p ON o.quantity < p.product_id GROUP BY 1;
-- accept
-- keys: private, l0 enforced
-- release: units l0=9 linf=1
-- release: rows l0=9 linf=30

-- case: a key that is computed before the join that multiplies
SELECT k, COUNT(*) FROM (SELECT customer_id, UPPER(note) AS k, quantity FROM orders) AS o CROSS JOIN products p GROUP BY k;
-- accept
-- keys: private, l0 enforced
-- release: units l0=3 linf=1
-- release: rows l0=3 linf=10
