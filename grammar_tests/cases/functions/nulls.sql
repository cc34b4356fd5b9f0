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
-- rewrite:
--   WITH rows AS (
--     SELECT 1 AS one
--     FROM "customers" AS t1
--     WHERE (TRY(t1."age" + CAST(NULL AS BIGINT)) > 30 OR t1."age" >= NULL AND t1."age" <= 20)
--   )
--   SELECT COALESCE(COUNT(*)::HUGEINT, 0) AS p0
--   FROM rows
--   SELECT t1.c0 AS c0 FROM release_0 AS t1

-- case: what fits no type is refused
SELECT NULL + code FROM countries;
-- refuse: type-mismatch at 1:15

-- case: nothing is no bound
SELECT SUM(age + NULL) AS total FROM customers;
-- refuse: unbounded-input at 1:12
