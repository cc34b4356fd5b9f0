-- Aggregates that have no rule yet are refused by name.
-- catalog: shop

-- case: minimum
SELECT MIN(amount) FROM orders;
-- refuse: unsupported-aggregate at 1:8

-- case: maximum beside a sum
SELECT SUM(amount), MAX(amount) FROM orders;
-- refuse: unsupported-aggregate at 1:21

-- case: median
SELECT MEDIAN(age) FROM customers;
-- refuse: unsupported-aggregate at 1:8

-- case: text aggregation would return values
SELECT STRING_AGG(segment, ',') FROM customers;
-- refuse: unsupported-aggregate at 1:8

-- case: an ordered-set aggregate
SELECT PERCENTILE_CONT(0.5) WITHIN GROUP (ORDER BY amount) FROM orders;
-- refuse: unsupported-aggregate at 1:8

-- case: any value
SELECT ANY_VALUE(status) FROM orders;
-- refuse: unsupported-aggregate at 1:8

-- case: minimum over released counts is post-processing
SELECT MIN(n) AS least FROM (SELECT status, COUNT(*) AS n FROM orders GROUP BY status) AS t;
-- accept
-- keys: 3 public, l0 proved
-- release: rows l0=3 linf=10
