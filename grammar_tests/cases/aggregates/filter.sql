-- FILTER (WHERE ...): rows that do not pass do not count; nothing drops the clause silently.
-- catalog: shop

-- case: filtered count
SELECT COUNT(*) FILTER (WHERE status = 'paid') AS paid FROM orders;
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=10

-- case: filtered sum beside an unfiltered one
SELECT SUM(amount) FILTER (WHERE status = 'returned') AS back, SUM(amount) AS total FROM orders;
-- accept
-- keys: 1 public, l0 proved
-- release: sum l0=1 linf=5000
-- release: sum l0=1 linf=5000

-- case: filtered count of units
SELECT COUNT(DISTINCT customer_id) FILTER (WHERE amount > 100) AS big FROM orders;
-- accept
-- keys: 1 public, l0 proved
-- release: units l0=1 linf=1

-- case: filter with a null test
SELECT COUNT(*) FILTER (WHERE discount IS NULL) AS none FROM orders;
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=10

-- case: filter by group
SELECT segment, COUNT(*) FILTER (WHERE age >= 65) AS old FROM customers GROUP BY segment;
-- accept
-- keys: 2 public, l0 proved
-- release: rows l0=1 linf=1

-- case: filter on a window
SELECT SUM(amount) FILTER (WHERE status = 'paid') OVER () FROM orders;
-- refuse: unsupported-private-operator at 1:8

-- case: filter with an unknown column
SELECT COUNT(*) FILTER (WHERE colour = 'red') FROM orders;
-- refuse: unknown-column at 1:31

-- case: filter that is not a condition
SELECT COUNT(*) FILTER (WHERE amount) FROM orders;
-- refuse: type-mismatch at 1:31

-- case: aggregate inside a filter
SELECT COUNT(*) FILTER (WHERE amount > AVG(amount)) FROM orders;
-- refuse: misplaced-aggregate at 1:40

-- case: a ratio of filtered counts
SELECT 100.0 * COUNT(*) FILTER (WHERE status = 'paid') / NULLIF(COUNT(*), 0) AS percent FROM orders;
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=10
-- release: rows l0=1 linf=10
