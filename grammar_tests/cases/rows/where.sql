-- WHERE: a filter leaves stability as it is and narrows bounds and domains.
-- catalog: shop

-- case: equality
SELECT COUNT(*) FROM orders WHERE status = 'paid';
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=10

-- case: inequality
SELECT COUNT(*) FROM orders WHERE status <> 'paid';
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=10

-- case: conjunction and disjunction
SELECT COUNT(*) FROM orders WHERE (status = 'paid' OR status = 'open') AND amount > 10;
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=10

-- case: negation
SELECT COUNT(*) FROM orders WHERE NOT (status = 'paid');
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=10

-- case: IN list
SELECT COUNT(*) FROM orders WHERE status IN ('paid', 'open');
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=10

-- case: NOT IN list
SELECT COUNT(*) FROM orders WHERE status NOT IN ('paid', 'open');
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=10

-- case: BETWEEN
SELECT COUNT(*) FROM customers WHERE age BETWEEN 18 AND 65;
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=1

-- case: NOT BETWEEN
SELECT COUNT(*) FROM customers WHERE age NOT BETWEEN 18 AND 65;
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=1

-- case: LIKE
SELECT COUNT(*) FROM orders WHERE note LIKE '%gift%';
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=10

-- case: ILIKE
SELECT COUNT(*) FROM orders WHERE note ILIKE 'GIFT%';
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=10

-- case: NOT LIKE
SELECT COUNT(*) FROM orders WHERE note NOT LIKE 'a_b%';
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=10

-- case: IS NULL
SELECT COUNT(*) FROM customers WHERE age IS NULL;
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=1

-- case: IS NOT NULL
SELECT COUNT(*) FROM customers WHERE age IS NOT NULL;
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=1

-- case: IS DISTINCT FROM
SELECT COUNT(*) FROM customers WHERE age IS DISTINCT FROM 40;
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=1

-- case: a boolean column is a condition
SELECT COUNT(*) FROM customers WHERE vip;
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=1

-- case: IS TRUE
SELECT COUNT(*) FROM customers WHERE vip IS TRUE;
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=1

-- case: a comparison of columns
SELECT COUNT(*) FROM orders WHERE amount > quantity * 10;
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=10

-- case: dates against text literals
SELECT COUNT(*) FROM customers WHERE joined >= '2023-01-01';
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=1

-- case: numbers and truths against text literals
SELECT COUNT(*) FROM orders WHERE amount < '99.5' AND quantity IN ('1', ' 2 ') AND discount >= '1e-1' AND amount > '1e1';
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=10
-- rewrite:
--   WITH rows AS (
--     SELECT t1."customer_id" AS u
--     FROM "orders" AS t1
--     WHERE (
--       (t1."amount" < 99.5)
--       AND (t1."quantity" IN (1, 2))
--       AND ((t1."discount"::DOUBLE) >= 0.1)
--       AND (t1."amount" > CAST('10' AS DECIMAL(2, 0)))
--       AND (NOT isnan(t1."discount"::DOUBLE))
--     )
--   ),
--   totals AS (SELECT u, COUNT(*) AS s0 FROM rows GROUP BY u)
--   SELECT COALESCE(SUM(p0)::HUGEINT, 0) AS p0
--   FROM (SELECT (CASE WHEN s0 < 0 THEN 0 WHEN s0 > 10 THEN 10 ELSE s0 END)::BIGINT AS p0 FROM totals)
--   SELECT t1.c0 AS c0 FROM release_0 AS t1

-- case: a bound narrows by a text literal
SELECT SUM(quantity) AS total FROM orders WHERE quantity BETWEEN '2' AND '5';
-- accept
-- keys: 1 public, l0 proved
-- release: sum l0=1 linf=50

-- case: truths as text
SELECT COUNT(*) FROM customers WHERE vip = 't';
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=1

-- case: text that is no whole number beside one
SELECT COUNT(*) FROM orders WHERE quantity < '9.5';
-- refuse: type-mismatch at 1:46

-- case: text that is no truth
SELECT COUNT(*) FROM customers WHERE vip = '2';
-- refuse: type-mismatch at 1:44

-- case: timestamps against typed literals
SELECT COUNT(*) FROM orders WHERE placed_at >= TIMESTAMP '2024-06-01 00:00:00' AND placed_at < '2024-07-01';
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=10

-- case: a constant condition
SELECT COUNT(*) FROM orders WHERE 1 = 1;
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=10

-- case: an unbounded column may be filtered
SELECT COUNT(*) FROM orders WHERE note_length > 100;
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=10

-- case: division in a condition is total
SELECT COUNT(*) FROM orders WHERE amount / quantity > 3;
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=10

-- case: modulus in a condition is total
SELECT COUNT(*) FROM orders WHERE note_length % quantity = 1;
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=10

-- case: a cast in a condition is total
SELECT COUNT(*) FROM orders WHERE CAST(note AS INTEGER) > 3;
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=10

-- case: filter on the unit key
SELECT COUNT(*) FROM orders WHERE customer_id = 3;
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=10

-- case: unknown column
SELECT COUNT(*) FROM orders WHERE colour = 'red';
-- refuse: unknown-column at 1:35

-- case: hidden column
SELECT COUNT(*) FROM customers WHERE name = 'Zoe';
-- refuse: hidden-column at 1:38

-- case: aggregate in WHERE
SELECT COUNT(*) FROM orders WHERE SUM(amount) > 3;
-- refuse: misplaced-aggregate at 1:35

-- case: a number is not a condition
SELECT COUNT(*) FROM orders WHERE amount;
-- refuse: type-mismatch at 1:35

-- case: text against a number
SELECT COUNT(*) FROM orders WHERE amount = status;
-- refuse: type-mismatch at 1:35

-- case: text that is no date
SELECT COUNT(*) FROM customers WHERE joined > 'yestermorn';
-- refuse: type-mismatch at 1:47

-- case: subquery in a condition
SELECT COUNT(*) FROM orders WHERE amount > (SELECT AVG(amount) FROM orders);
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=10
-- release: sum l0=1 linf=2500
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=10
-- rewrite:
--   WITH rows AS (
--     SELECT t1."customer_id" AS u, NOT t1."amount" IS NULL AS x0, t1."amount" AS x1 FROM "orders" AS t1
--   ),
--   totals AS (
--     SELECT
--       u,
--       COUNT(*) FILTER (WHERE x0) AS s0,
--       SUM(
--         CASE
--           WHEN x1 < '0.00'::DECIMAL(3, 2) THEN '0.00'::DECIMAL(3, 2)
--           WHEN x1 > '500.00'::DECIMAL(5, 2) THEN '500.00'::DECIMAL(5, 2)
--           ELSE x1
--         END
--         - '250.00'::DECIMAL(5, 2)
--       ) AS s1
--     FROM rows
--     GROUP BY u
--   )
--   SELECT COALESCE(SUM(p0)::HUGEINT, 0) AS p0, COALESCE(SUM(p1)::HUGEINT, 0) AS p1
--   FROM (
--     SELECT
--       (CASE WHEN s0 < 0 THEN 0 WHEN s0 > 10 THEN 10 ELSE s0 END)::BIGINT AS p0,
--       (
--         (
--           CASE
--             WHEN s1 < '-2500.00'::DECIMAL(6, 2) THEN '-2500.00'::DECIMAL(6, 2)
--             WHEN s1 > '2500.00'::DECIMAL(6, 2) THEN '2500.00'::DECIMAL(6, 2)
--             ELSE s1
--           END
--         )::DECIMAL(6, 2)
--         * '100'::DECIMAL(3, 0)
--       )::BIGINT AS p1
--     FROM totals
--   )
--   WITH rows AS (
--     SELECT t1."customer_id" AS u
--     FROM "orders" AS t1 CROSS JOIN dpsql_stage_0 AS t2
--     WHERE (t1."amount" > t2.c0)
--   ),
--   totals AS (SELECT u, COUNT(*) AS s0 FROM rows GROUP BY u)
--   SELECT COALESCE(SUM(p0)::HUGEINT, 0) AS p0
--   FROM (SELECT (CASE WHEN s0 < 0 THEN 0 WHEN s0 > 10 THEN 10 ELSE s0 END)::BIGINT AS p0 FROM totals)
--   SELECT t1.c0 AS c0 FROM release_1 AS t1

-- case: IN over a subquery
SELECT COUNT(*) FROM orders WHERE status IN (SELECT status FROM orders);
-- refuse: unequal-units at 1:35

-- case: EXISTS
SELECT COUNT(*) FROM customers WHERE EXISTS (SELECT 1 FROM orders);
-- refuse: unequal-units at 1:53

-- case: sample
SELECT COUNT(*) FROM orders USING SAMPLE 10%;
-- refuse: unsupported-syntax at 1:42

-- case: a volatile function
SELECT COUNT(*) FROM orders WHERE random() < 0.5;
-- refuse: unsupported-function at 1:35

-- case: the time of asking is a constant
SELECT COUNT(*) FROM orders WHERE placed_at < now();
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=10

-- case: a text beside a whole number is read as a number
SELECT COUNT(*) AS n FROM orders WHERE CAST(quantity AS VARCHAR) = 5 OR CAST(quantity AS VARCHAR) IN (1, 2);
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=10

-- case: a text that is compared with a fraction
SELECT COUNT(*) AS n FROM orders WHERE CAST(quantity AS VARCHAR) = 5.5;
-- refuse: type-mismatch at 1:45

-- case: a text that is larger than a number
SELECT COUNT(*) AS n FROM orders WHERE CAST(quantity AS VARCHAR) > 5;
-- refuse: type-mismatch at 1:45
