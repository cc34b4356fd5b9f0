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

-- case: a filter on public rows is no reason to show rows
SELECT c.code FROM customers JOIN countries c ON country = c.code WHERE c.region = 'north';
-- refuse: raw-rows at 1:20
