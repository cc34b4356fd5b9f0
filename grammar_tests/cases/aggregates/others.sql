-- Aggregates that have no rule yet are refused by name.
-- catalog: shop

-- case: text aggregation would return values
SELECT STRING_AGG(segment, ',') FROM customers;
-- refuse: unsupported-aggregate at 1:8

-- case: any value
SELECT ANY_VALUE(status) FROM orders;
-- refuse: unsupported-aggregate at 1:8

-- case: minimum over released counts is post-processing
SELECT MIN(n) AS least FROM (SELECT status, COUNT(*) AS n FROM orders GROUP BY status) AS t;
-- accept
-- keys: 3 public, l0 proved
-- release: rows l0=3 linf=10
