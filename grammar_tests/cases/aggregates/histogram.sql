-- HISTOGRAM: a noisy count of each public value, as text; one charge for all where rows are proved.
-- catalog: shop

-- case: of listed values
SELECT CAST(HISTOGRAM(segment) AS VARCHAR) AS h FROM customers;
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=1
-- release: rows l0=1 linf=1

-- case: of bounded numbers
SELECT status, CAST(HISTOGRAM(quantity) AS VARCHAR) AS h FROM orders GROUP BY status;
-- accept
-- keys: 3 public, l0 proved
-- release: rows l0=3 linf=10
-- release: rows l0=3 linf=10
-- release: rows l0=3 linf=10
-- release: rows l0=3 linf=10
-- release: rows l0=3 linf=10
-- release: rows l0=3 linf=10
-- release: rows l0=3 linf=10
-- release: rows l0=3 linf=10
-- release: rows l0=3 linf=10
-- release: rows l0=3 linf=10
-- release: rows l0=3 linf=10
-- release: rows l0=3 linf=10
-- release: rows l0=3 linf=10
-- release: rows l0=3 linf=10
-- release: rows l0=3 linf=10
-- release: rows l0=3 linf=10
-- release: rows l0=3 linf=10
-- release: rows l0=3 linf=10
-- release: rows l0=3 linf=10
-- release: rows l0=3 linf=10
-- release: rows l0=3 linf=10

-- case: of truth values
SELECT CAST(HISTOGRAM(age > 40) AS VARCHAR) AS h FROM customers;
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=1
-- release: rows l0=1 linf=1

-- case: of released counts
SELECT CAST(HISTOGRAM(n > 0) AS VARCHAR) AS h FROM (SELECT status, COUNT(*) AS n FROM orders GROUP BY status) AS t;
-- accept
-- keys: 3 public, l0 proved
-- release: rows l0=3 linf=10

-- case: of values that are not listed
SELECT HISTOGRAM(city) AS h FROM customers;
-- refuse: unsupported-aggregate at 1:8

-- case: of too many values
SELECT HISTOGRAM(age) AS h FROM customers;
-- refuse: unsupported-aggregate at 1:8

-- case: of different values
SELECT HISTOGRAM(DISTINCT segment) AS h FROM customers;
-- refuse: unsupported-aggregate at 1:8
