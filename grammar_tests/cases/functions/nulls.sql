-- NULL without a type: it takes that of its company, as a bound NULL does.
-- catalog: shop

-- case: NULL in arithmetic
SELECT NULL + 10 AS a, 10 - NULL AS b, NULL * 1.5 AS c, -NULL AS d, 7 % NULL AS e FROM countries;
-- accept

-- case: NULL beside text and dates
SELECT code || NULL AS a, code LIKE NULL AS b, DATE '2024-01-01' + NULL AS c FROM countries;
-- accept

-- case: NULL as a limit is none
SELECT code FROM countries ORDER BY code LIMIT NULL OFFSET NULL;
-- accept

-- case: NULL in a condition over private rows
SELECT COUNT(*) AS n FROM customers WHERE age + NULL > 30 OR age BETWEEN NULL AND 20;
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=1

-- case: what fits no type is refused
SELECT NULL + TRUE FROM countries;
-- refuse: type-mismatch at 1:1

-- case: nothing is no bound
SELECT SUM(age + NULL) AS total FROM customers;
-- refuse: unbounded-input at 1:12
