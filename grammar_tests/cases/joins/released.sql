-- Released lists beside private rows: a row meets as many of them as there can be, by listed keys or LIMIT.
-- catalog: shop

-- case: ranges of a released list
SELECT t.quantity, COUNT(*) AS n FROM orders AS o
JOIN (SELECT quantity, COUNT(*) AS n FROM orders GROUP BY quantity) AS t ON o.quantity <= t.quantity
GROUP BY t.quantity;
-- accept
-- keys: 21 public, l0 enforced
-- release: rows l0=3 linf=10
-- keys: private, l0 enforced
-- release: units l0=63 linf=1
-- release: scaled l0=63 linf=1050.2565

-- case: several rows with one of the keys
SELECT COUNT(*) AS n FROM customers AS c
JOIN (SELECT segment, vip, COUNT(*) AS n FROM customers GROUP BY segment, vip) AS t ON c.segment = t.segment;
-- accept
-- keys: 4 public, l0 proved
-- release: rows l0=1 linf=1
-- enforced: units with more than 2 rows are left out
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=2

-- case: a filter and what is computed keep the bound
SELECT COUNT(*) AS n FROM orders AS o LEFT JOIN (
    SELECT quantity + 1 AS q FROM (SELECT quantity, COUNT(*) AS n FROM orders GROUP BY quantity) AS r WHERE n > 2
) AS t ON o.quantity < t.q;
-- accept
-- keys: 21 public, l0 enforced
-- release: rows l0=3 linf=10
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=210

-- case: the first of private keys
SELECT COUNT(*) AS n FROM customers AS c
JOIN (SELECT city, COUNT(*) AS n FROM customers GROUP BY city ORDER BY n DESC LIMIT 3) AS t ON c.city >= t.city;
-- accept
-- keys: private, l0 proved
-- release: rows l0=1 linf=1
-- enforced: units with more than 3 rows are left out
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=3

-- case: private keys are refused, of which there may be any number
SELECT COUNT(*) AS n FROM customers AS c
JOIN (SELECT city, COUNT(*) AS n FROM customers GROUP BY city) AS t ON c.city >= t.city;
-- refuse: unsupported-private-operator at 2:14

-- case: too many pairs of listed keys are refused
SELECT COUNT(*) AS n FROM customers AS c, (SELECT age, COUNT(*) AS n FROM customers GROUP BY age) AS a,
(SELECT age, COUNT(*) AS n FROM customers WHERE vip GROUP BY age) AS b WHERE c.age <= a.age AND c.age <= b.age;
-- refuse: query-too-large at 2:9
