-- The error of a number that a function of integers makes: its argument is moved by whole steps.
-- catalog: shop

-- case: the greatest common divisor of counts
SELECT COUNT(*) + GCD(COUNT(*), 12) AS n FROM orders;
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=10
-- rewrite:
--   WITH rows AS (SELECT t1."customer_id" AS u FROM "orders" AS t1),
--   totals AS (SELECT u, COUNT(*) AS s0 FROM rows GROUP BY u)
--   SELECT COALESCE(SUM(p0)::HUGEINT, 0) AS p0
--   FROM (SELECT (CASE WHEN s0 < 0 THEN 0 WHEN s0 > 10 THEN 10 ELSE s0 END)::BIGINT AS p0 FROM totals)
--   SELECT TRY(t1.c0::HUGEINT + TRY(gcd(t1.c0, 12))) AS c0 FROM release_0 AS t1

-- case: bits of a count
SELECT XOR(COUNT(*), 5) AS n FROM orders;
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=10

-- case: the greatest common divisor of a mean
SELECT GCD(AVG(amount), 12) AS n FROM orders;
-- refuse: type-mismatch at 1:8
