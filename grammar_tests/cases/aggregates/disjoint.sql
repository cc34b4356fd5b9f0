-- Measurements of disjoint rows are paid for once where no unit has more rows than are counted.
-- catalog: shop

-- case: a pivot of counts
SELECT COUNT(*) FILTER (WHERE segment = 'consumer') AS a, COUNT(*) FILTER (WHERE segment = 'business') AS b, COUNT(*) AS n FROM customers;
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=1
-- release: rows l0=1 linf=1
-- release: rows l0=1 linf=1

-- case: a pivot as tools write it
SELECT SUM(CASE WHEN segment = 'consumer' THEN income ELSE 0 END) AS a, SUM(CASE WHEN segment = 'business' THEN income END) AS b FROM customers;
-- accept
-- keys: 1 public, l0 proved
-- release: sum l0=1 linf=200000
-- release: sum l0=1 linf=200000

-- case: a pivot of rows that are clipped pays for each
SELECT SUM(CASE WHEN status = 'paid' THEN amount ELSE 0 END) AS a, SUM(CASE WHEN status = 'open' THEN 1 ELSE 0 END) AS b, COUNT(*) FILTER (WHERE status = 'open') AS c FROM orders;
-- accept
-- keys: 1 public, l0 proved
-- release: sum l0=1 linf=5000
-- release: rows l0=1 linf=10

-- case: equalities beside another condition
SELECT COUNT(*) FILTER (WHERE segment = 'consumer' AND age = 40) AS a, COUNT(*) FILTER (WHERE age = 41 AND segment = 'consumer') AS b, COUNT(*) FILTER (WHERE age = 40 AND segment = 'consumer') AS c FROM customers;
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=1
-- release: rows l0=1 linf=1

-- case: constants that one value can equal are not disjoint
SELECT COUNT(*) FILTER (WHERE income = 1) AS a, COUNT(*) FILTER (WHERE income = 1.0) AS b, COUNT(*) FILTER (WHERE income = 2) AS c FROM customers;
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=1
-- release: rows l0=1 linf=1
-- release: rows l0=1 linf=1
-- release: rows l0=1 linf=1
-- release: rows l0=1 linf=1
-- release: rows l0=1 linf=1

-- case: averages of disjoint rows
SELECT AVG(age) FILTER (WHERE segment = 'consumer') AS a, AVG(age) FILTER (WHERE segment = 'business') AS b FROM customers;
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=1
-- release: rows l0=1 linf=1
-- release: sum l0=1 linf=60
-- release: sum l0=1 linf=60

-- case: a sum of disjoint rows without bounds is refused
SELECT SUM(note_length) FILTER (WHERE status = 'paid') AS a, SUM(note_length) FILTER (WHERE status = 'open') AS b FROM orders;
-- refuse: unbounded-input at 1:12
