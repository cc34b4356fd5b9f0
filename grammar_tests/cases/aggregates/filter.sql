-- FILTER (WHERE ...): rows that do not pass do not count; nothing drops the clause silently.
-- catalog: shop

-- case: filtered count
SELECT COUNT(*) FILTER (WHERE status = 'paid') AS paid FROM orders;
-- accept

-- case: filtered sum beside an unfiltered one
SELECT SUM(amount) FILTER (WHERE status = 'returned') AS back, SUM(amount) AS total FROM orders;
-- accept

-- case: filtered count of units
SELECT COUNT(DISTINCT customer_id) FILTER (WHERE amount > 100) AS big FROM orders;
-- accept

-- case: filter with a null test
SELECT COUNT(*) FILTER (WHERE discount IS NULL) AS none FROM orders;
-- accept

-- case: filter by group
SELECT segment, COUNT(*) FILTER (WHERE age >= 65) AS old FROM customers GROUP BY segment;
-- accept

-- case: filter on a window
SELECT SUM(amount) FILTER (WHERE status = 'paid') OVER () FROM orders;
-- refuse: unsupported-syntax

-- case: filter with an unknown column
SELECT COUNT(*) FILTER (WHERE colour = 'red') FROM orders;
-- refuse: unknown-column

-- case: filter that is not a condition
SELECT COUNT(*) FILTER (WHERE amount) FROM orders;
-- refuse: type-mismatch

-- case: aggregate inside a filter
SELECT COUNT(*) FILTER (WHERE amount > AVG(amount)) FROM orders;
-- refuse: misplaced-aggregate

-- case: a ratio of filtered counts
SELECT 100.0 * COUNT(*) FILTER (WHERE status = 'paid') / NULLIF(COUNT(*), 0) AS percent FROM orders;
-- accept
