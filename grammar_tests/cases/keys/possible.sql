-- Keys that the filter leaves: of listed keys only those are shown that public rows as they are filtered still hold, and that conditions on several keys admit.
-- catalog: shop

-- case: a column of public rows that are filtered by another
SELECT c.code, COUNT(*) AS n FROM customers JOIN countries c ON country = c.code WHERE c.region = 'north' GROUP BY c.code;
-- accept
-- keys: 2 public, l0 proved
-- release: rows l0=1 linf=1

-- case: the private column that is joined to them
SELECT country, COUNT(*) AS n FROM customers JOIN countries c ON country = c.code WHERE c.region = 'north' GROUP BY country;
-- accept
-- keys: 2 public, l0 proved
-- release: rows l0=1 linf=1

-- case: what a condition on the private column leaves of the public rows
SELECT c.region, COUNT(*) AS n FROM customers JOIN countries c ON country = c.code WHERE country <> 'IT' GROUP BY c.region;
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=1

-- case: pairs of columns of filtered public rows
SELECT c.region, c.code, segment, COUNT(*) AS n FROM customers JOIN countries c ON country = c.code WHERE c.code <> 'NO' GROUP BY c.region, c.code, segment;
-- accept
-- keys: 4 public, l0 proved
-- release: rows l0=1 linf=1

-- case: IN of public rows that are filtered
SELECT country, COUNT(*) AS n FROM customers WHERE country IN (SELECT code FROM countries WHERE region = 'north') GROUP BY country;
-- accept
-- keys: 2 public, l0 proved
-- release: rows l0=1 linf=1

-- case: a condition on several keys
SELECT segment, country, COUNT(*) AS n FROM customers WHERE (segment = 'consumer' AND country = 'SE') OR (segment = 'business' AND country <> 'SE') GROUP BY segment, country;
-- accept
-- keys: 3 public, l0 proved
-- release: rows l0=1 linf=1

-- case: without a filter every listed key is shown
SELECT c.code, COUNT(*) AS n FROM customers JOIN countries c ON country = c.code GROUP BY c.code;
-- accept
-- keys: 3 public, l0 proved
-- release: rows l0=1 linf=1

-- case: a filter on the optional side of a LEFT JOIN is none of its keys
SELECT country, COUNT(c.region) AS n FROM customers LEFT JOIN countries c ON country = c.code AND c.region = 'north' GROUP BY country;
-- accept
-- keys: 3 public, l0 proved
-- release: rows l0=1 linf=1

-- case: NOT IN leaves out no listed key that may occur
SELECT country, COUNT(*) AS n FROM customers WHERE country NOT IN (SELECT code FROM countries WHERE region = 'north') GROUP BY country;
-- accept
-- keys: 3 public, l0 proved
-- release: rows l0=1 linf=1

-- case: keys that are not listed stay private, filtered or not
SELECT city, COUNT(*) AS n FROM customers JOIN countries c ON country = c.code WHERE c.region = 'north' GROUP BY city;
-- accept
-- keys: private, l0 proved
-- release: rows l0=1 linf=1

-- case: columns of two public tables that are joined to each other
SELECT a.code, b.region, COUNT(*) AS n FROM customers JOIN countries a ON country = a.code JOIN countries b ON b.region = a.region GROUP BY a.code, b.region;
-- accept
-- keys: 3 public, l0 proved
-- release: scaled l0=2 linf=2.0006

-- case: two public tables, the second of which may be absent
SELECT a.code, b.code AS other, COUNT(*) AS n FROM customers JOIN countries a ON country = a.code LEFT JOIN countries b ON b.region = a.region AND b.code < a.code GROUP BY a.code, other;
-- accept
-- keys: 3 public, l0 proved
-- release: scaled l0=2 linf=2.0006

-- case: joined public rows are no reason to show rows
SELECT a.code, b.region FROM customers JOIN countries a ON country = a.code JOIN countries b ON b.region = a.region;
-- refuse: raw-rows at 1:30

-- case: a filter on public rows is no reason to show rows
SELECT c.code FROM customers JOIN countries c ON country = c.code WHERE c.region = 'north';
-- refuse: raw-rows at 1:20

-- case: months have one quarter each
SELECT EXTRACT(quarter FROM day) AS q, EXTRACT(month FROM day) AS m, COUNT(*) AS n FROM logins GROUP BY q, m;
-- accept
-- keys: 12 public, l0 proved
-- release: scaled l0=12 linf=27487790.69

-- case: days of months, which were more than may be listed with each other
SELECT EXTRACT(month FROM day) AS m, day, COUNT(*) AS n FROM logins GROUP BY m, day;
-- accept
-- keys: 366 public, l0 proved
-- release: scaled l0=366 linf=879609302.2

-- case: of times the days are gone through
SELECT EXTRACT(year FROM placed_at) AS y, DATE_TRUNC('month', placed_at) AS m, CAST(placed_at AS DATE) AS d, COUNT(*) AS n FROM orders WHERE placed_at >= TIMESTAMP '2025-11-15 12:00:00' GROUP BY y, m, d;
-- accept
-- keys: 47 public, l0 enforced
-- release: rows l0=3 linf=10

-- case: keys that a subquery computes
SELECT q, m, COUNT(*) AS n FROM (SELECT EXTRACT(quarter FROM day) AS q, DATE_TRUNC('month', day) AS m FROM logins) AS t GROUP BY m, q;
-- accept
-- keys: 12 public, l0 proved
-- release: scaled l0=12 linf=27487790.69

-- case: hours are any of a day
SELECT EXTRACT(hour FROM placed_at) AS h, EXTRACT(isodow FROM placed_at) AS d, COUNT(*) AS n FROM orders GROUP BY h, d;
-- accept
-- keys: 168 public, l0 enforced
-- release: rows l0=3 linf=10

-- case: keys of columns that say nothing of each other
SELECT segment, age // 40 AS a, age // 80 AS b, COUNT(*) AS n FROM customers GROUP BY segment, a, b;
-- accept
-- keys: 10 public, l0 proved
-- release: rows l0=1 linf=1

-- case: a public table's key and what it says of that
SELECT c.region, country, segment, COUNT(*) AS n FROM customers JOIN countries c ON country = c.code GROUP BY c.region, country, segment;
-- accept
-- keys: 6 public, l0 proved
-- release: rows l0=1 linf=1

-- case: one year of a column says nothing of the month of another
SELECT EXTRACT(year FROM l.day) AS y, EXTRACT(quarter FROM joined) AS q, COUNT(*) AS n FROM logins l JOIN customers c ON l.customer_id = c.customer_id GROUP BY y, q;
-- accept
-- keys: 4 public, l0 proved
-- release: rows l0=1 linf=1048576

-- case: what is computed of keys is not theirs to be shown
SELECT day, EXTRACT(month FROM day) AS m FROM logins;
-- refuse: raw-rows at 1:47
