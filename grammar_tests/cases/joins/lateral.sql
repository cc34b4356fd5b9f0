-- LATERAL and ASOF JOIN: the rows of a person's own that each row asks for, the first k of them.
-- catalog: shop

-- case: the last event before each order
SELECT e.device, COUNT(*) AS n FROM orders AS o
JOIN LATERAL (
    SELECT v.device FROM events AS v
    WHERE v.customer_id = o.customer_id AND v.duration < o.quantity ORDER BY v.duration DESC LIMIT 1
) AS e ON TRUE
GROUP BY e.device;
-- accept
-- keys: private, l0 enforced
-- release: units l0=3 linf=1
-- release: rows l0=3 linf=10

-- case: the first two logins of each customer, as many as there are
SELECT COUNT(*) AS n FROM customers AS c,
LATERAL (SELECT l.day FROM logins AS l WHERE l.customer_id = c.customer_id ORDER BY l.day LIMIT 2) AS l;
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=2

-- case: whoever has none stays with LEFT JOIN
SELECT COUNT(*) AS n, COUNT(l.day) AS days FROM customers AS c
LEFT JOIN LATERAL (
    SELECT l.day FROM logins AS l WHERE l.customer_id = c.customer_id ORDER BY l.day DESC LIMIT 1
) AS l ON TRUE;
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=1
-- release: rows l0=1 linf=1
-- release: rows l0=1 linf=1

-- case: the second one
SELECT COUNT(*) AS n FROM customers AS c
CROSS JOIN LATERAL (
    SELECT l.day FROM logins AS l WHERE l.customer_id = c.customer_id ORDER BY l.day LIMIT 1 OFFSET 1
) AS l;
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=1

-- case: without LIMIT it is a join
SELECT SUM(quantity) AS n FROM customers AS c
JOIN LATERAL (SELECT o.quantity FROM orders AS o WHERE o.customer_id = c.customer_id) AS o ON TRUE;
-- accept
-- keys: 1 public, l0 proved
-- release: sum l0=1 linf=200

-- case: columns renamed outside
SELECT AVG(q) AS q FROM customers AS c
JOIN LATERAL (
    SELECT o.quantity FROM orders AS o WHERE o.customer_id = c.customer_id ORDER BY o.placed_at LIMIT 1
) AS o(q) ON q > 0;
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=1
-- release: sum l0=1 linf=10

-- case: an aggregate has a row for everybody
SELECT COUNT(*) AS n, SUM(o.n) AS orders FROM customers AS c
CROSS JOIN LATERAL (SELECT COUNT(*) AS n FROM orders AS o WHERE o.customer_id = c.customer_id) AS o;
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=1
-- release: sum l0=1 linf=25

-- case: the first of public rows
SELECT COUNT(*) AS n FROM customers AS c
JOIN LATERAL (
    SELECT p.product_id FROM products AS p WHERE p.category = c.segment ORDER BY p.list_price LIMIT 1
) AS p ON TRUE;
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=1

-- case: rows of others are refused
SELECT COUNT(*) AS n FROM orders AS o
JOIN LATERAL (SELECT v.device FROM events AS v WHERE v.duration < o.quantity ORDER BY v.duration LIMIT 1) AS e
ON TRUE;
-- refuse: unequal-units at 2:22

-- case: a value of the outer row in the list
SELECT SUM(e.d) AS d FROM orders AS o
JOIN LATERAL (SELECT v.duration - o.quantity AS d FROM events AS v WHERE v.customer_id = o.customer_id) AS e
ON e.d > 0;
-- accept
-- keys: 1 public, l0 proved
-- release: sum l0=1 linf=180000

-- case: the first by a value of the outer row
SELECT COUNT(*) AS n, AVG(e.d) AS d FROM orders AS o CROSS JOIN LATERAL (
    SELECT v.duration - o.quantity AS d FROM events AS v WHERE v.customer_id = o.customer_id ORDER BY d, v.event_id LIMIT 1
) AS e;
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=10
-- release: sum l0=1 linf=18100

-- case: a name for what is computed
SELECT t.twice, COUNT(*) AS n FROM orders AS o, LATERAL (SELECT o.quantity * 2 AS twice) AS t WHERE t.twice > 3 GROUP BY 1;
-- accept
-- keys: 37 public, l0 enforced
-- release: rows l0=3 linf=10

-- case: a name for what is computed, by LEFT JOIN
SELECT SUM(t.paid) AS paid FROM orders AS o LEFT JOIN LATERAL (SELECT CASE WHEN o.status = 'paid' THEN o.amount END AS paid) AS t ON TRUE;
-- accept
-- keys: 1 public, l0 proved
-- release: sum l0=1 linf=5000

-- case: a value of the outer row beside rows that may be absent
SELECT SUM(e.d) AS d FROM orders AS o
LEFT JOIN LATERAL (SELECT v.duration - o.quantity AS d FROM events AS v WHERE v.customer_id = o.customer_id) AS e
ON TRUE;
-- refuse: unsupported-syntax at 2:27

-- case: a condition beside the LIMIT of a LEFT JOIN is refused
SELECT COUNT(*) AS n FROM customers AS c
LEFT JOIN LATERAL (
    SELECT l.day FROM logins AS l WHERE l.customer_id = c.customer_id ORDER BY l.day LIMIT 1
) AS l ON l.day > DATE '2024-01-01';
-- refuse: unsupported-syntax at 3:12

-- case: the row before, by ASOF JOIN
SELECT e.device, COUNT(*) AS n FROM orders AS o
ASOF JOIN events AS e ON o.customer_id = e.customer_id AND o.quantity >= e.duration
GROUP BY e.device;
-- accept
-- keys: private, l0 enforced
-- release: units l0=3 linf=1
-- release: rows l0=3 linf=10

-- case: the row behind, and whoever has none
SELECT COUNT(*) AS n, COUNT(e.device) AS met FROM orders AS o
ASOF LEFT JOIN events AS e ON o.customer_id = e.customer_id AND o.quantity < e.duration;
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=10
-- release: rows l0=1 linf=10

-- case: ASOF JOIN with others' rows is refused
SELECT COUNT(*) AS n FROM orders AS o ASOF JOIN events AS e ON o.quantity >= e.duration;
-- refuse: unequal-units at 1:49

-- case: ASOF JOIN without an inequality is refused
SELECT COUNT(*) AS n FROM orders AS o ASOF JOIN events AS e ON o.customer_id = e.customer_id;
-- refuse: unsupported-syntax at 1:49

-- case: an aggregate of which no row is taken is refused
SELECT COUNT(*) AS n FROM customers AS c
CROSS JOIN LATERAL (SELECT COUNT(*) AS n FROM orders AS o WHERE o.customer_id = c.customer_id LIMIT 0) AS o;
-- refuse: unsupported-syntax at 2:28

-- case: the first row of each person as a value in a condition
SELECT COUNT(*) FROM customers c
WHERE (SELECT status FROM orders o WHERE o.customer_id = c.customer_id
       ORDER BY placed_at DESC, order_id LIMIT 1) = 'paid';
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=1

-- case: the first row of each person as a value, averaged by group
SELECT country,
       AVG((SELECT amount FROM orders o WHERE o.customer_id = c.customer_id
            ORDER BY placed_at, order_id LIMIT 1)) AS first
FROM customers c GROUP BY country;
-- accept
-- keys: 3 public, l0 proved
-- release: rows l0=1 linf=1
-- release: sum l0=1 linf=250

-- case: the first row of each person as a value, which is missing
SELECT country, COUNT(*) FROM customers c
WHERE (SELECT amount FROM orders o WHERE o.customer_id = c.customer_id AND o.status = 'paid'
       ORDER BY placed_at DESC, order_id LIMIT 1) IS NULL
GROUP BY country;
-- accept
-- keys: 3 public, l0 proved
-- release: rows l0=1 linf=1

-- case: the row before, as a value
SELECT SUM(o.amount - (SELECT p.amount FROM orders p
                       WHERE p.customer_id = o.customer_id AND p.placed_at < o.placed_at
                       ORDER BY p.placed_at DESC, p.order_id LIMIT 1))
FROM orders o;
-- accept
-- keys: 1 public, l0 proved
-- release: sum l0=1 linf=5000

-- case: the first of rows of all people as a value
SELECT COUNT(*) FROM customers c
WHERE (SELECT status FROM orders o WHERE o.status = c.segment
       ORDER BY placed_at DESC, order_id LIMIT 1) = 'paid';
-- refuse: unequal-units at 2:15

-- case: the first two rows of each person as a value
SELECT COUNT(*) FROM customers c
WHERE (SELECT status FROM orders o WHERE o.customer_id = c.customer_id
       ORDER BY placed_at DESC, order_id LIMIT 2) = 'paid';
-- refuse: unsupported-syntax at 2:15

-- case: any row of each person as a value
SELECT COUNT(*) FROM customers c
WHERE (SELECT status FROM orders o WHERE o.customer_id = c.customer_id LIMIT 1) = 'paid';
-- refuse: unsupported-syntax at 2:15

-- case: a first row that computes with the outer one, as a value
SELECT COUNT(*) FROM customers c
WHERE (SELECT amount * c.age FROM orders o WHERE o.customer_id = c.customer_id
       ORDER BY placed_at, order_id LIMIT 1) > 5;
-- refuse: unsupported-syntax at 2:15
