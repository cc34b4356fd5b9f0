-- Scalar functions in private rows: bounds by interval rules, keys by domain rules, never an error.
-- catalog: shop

-- case: ABS
SELECT SUM(ABS(amount - 100)) FROM orders;
-- accept
-- keys: 1 public, l0 proved
-- release: sum l0=1 linf=4000

-- case: ROUND
SELECT SUM(ROUND(amount)) FROM orders;
-- accept
-- keys: 1 public, l0 proved
-- release: sum l0=1 linf=5000

-- case: ROUND to digits
SELECT SUM(ROUND(income, -3)) FROM customers;
-- accept
-- keys: 1 public, l0 proved
-- release: sum l0=1 linf=200000.0002
-- rewrite:
--   WITH rows AS (
--     SELECT round(CASE WHEN isnan(t1."income") THEN NULL ELSE t1."income"::DOUBLE + 0.0 END, -3) AS x0
--     FROM "customers" AS t1
--   )
--   SELECT COALESCE(
--     SUM(
--       FLOOR(
--         CASE
--           WHEN x0 < 0.0::DOUBLE THEN 0.0::DOUBLE
--           WHEN x0 > 200000.00024414062::DOUBLE THEN 200000.00024414062::DOUBLE
--           ELSE x0
--         END
--         * 4096.0::DOUBLE
--         + 0.5
--       )::BIGINT
--     )::HUGEINT,
--     0
--   ) AS p0
--   FROM rows
--   SELECT t1.c0 AS c0 FROM release_0 AS t1

-- case: FLOOR and CEIL
SELECT SUM(FLOOR(amount)) AS lo, SUM(CEIL(amount)) AS hi FROM orders;
-- accept
-- keys: 1 public, l0 proved
-- release: sum l0=1 linf=5000
-- release: sum l0=1 linf=5000

-- case: LEAST and GREATEST
SELECT SUM(LEAST(amount, 100)) AS a, SUM(GREATEST(quantity, 1)) AS b FROM orders;
-- accept
-- keys: 1 public, l0 proved
-- release: sum l0=1 linf=1000
-- release: sum l0=1 linf=200

-- case: COALESCE
SELECT SUM(COALESCE(discount, 0)) FROM orders;
-- accept
-- keys: 1 public, l0 proved
-- release: sum l0=1 linf=10

-- case: NULLIF
SELECT SUM(NULLIF(quantity, 0)) FROM orders;
-- accept
-- keys: 1 public, l0 proved
-- release: sum l0=1 linf=200

-- case: a cast to integer
SELECT SUM(CAST(amount AS INTEGER)) FROM orders;
-- accept
-- keys: 1 public, l0 proved
-- release: sum l0=1 linf=5000

-- case: a cast to double
SELECT SUM(amount::DOUBLE) FROM orders;
-- accept
-- keys: 1 public, l0 proved
-- release: sum l0=1 linf=5000

-- case: a cast of text has no bounds
SELECT SUM(CAST(note AS INTEGER)) FROM orders;
-- refuse: unbounded-input at 1:17

-- case: TRY_CAST
SELECT COUNT(TRY_CAST(note AS INTEGER)) AS numbers FROM orders;
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=10

-- case: LENGTH has no upper bound of its own
SELECT SUM(LENGTH(note)) FROM orders;
-- refuse: unbounded-input at 1:12

-- case: LENGTH of a short text has none either
SELECT SUM(LENGTH(SUBSTRING(note, 1, 10))) FROM orders;
-- refuse: unbounded-input at 1:12

-- case: LENGTH up to a bound
SELECT SUM(LEAST(LENGTH(note), 10)) FROM orders;
-- accept
-- keys: 1 public, l0 proved
-- release: sum l0=1 linf=100

-- case: LENGTH over a finite domain
SELECT SUM(LENGTH(status)) FROM orders;
-- accept
-- keys: 1 public, l0 proved
-- release: sum l0=1 linf=80

-- case: LOWER
SELECT COUNT(*) FROM orders WHERE LOWER(note) = 'gift';
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=10

-- case: text functions
SELECT COUNT(*) FROM orders WHERE TRIM(REPLACE(note, 'a', 'b')) LIKE 'b%';
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=10

-- case: concatenation
SELECT segment || '/' || country AS k, COUNT(*) FROM customers GROUP BY 1;
-- accept
-- keys: 6 public, l0 proved
-- release: rows l0=1 linf=1

-- case: negation
SELECT SUM(-amount) FROM orders;
-- accept
-- keys: 1 public, l0 proved
-- release: sum l0=1 linf=5000

-- case: integer division
SELECT SUM(quantity // 2) FROM orders;
-- accept
-- keys: 1 public, l0 proved
-- release: sum l0=1 linf=100

-- case: modulus
SELECT SUM(quantity % 3) FROM orders;
-- accept
-- keys: 1 public, l0 proved
-- release: sum l0=1 linf=20

-- case: square root
SELECT SUM(SQRT(amount)) FROM orders;
-- accept
-- keys: 1 public, l0 proved
-- release: sum l0=1 linf=223.6067978

-- case: logarithm of what may be zero
SELECT SUM(LN(amount)) FROM orders;
-- refuse: unbounded-input at 1:12

-- case: logarithm of what may not
SELECT SUM(LN(amount + 1)) FROM orders;
-- accept
-- keys: 1 public, l0 proved
-- release: sum l0=1 linf=62.16606103

-- case: DATE_TRUNC
SELECT DATE_TRUNC('year', joined) AS y, COUNT(*) FROM customers GROUP BY 1;
-- accept
-- keys: 6 public, l0 proved
-- release: rows l0=1 linf=1

-- case: EXTRACT as a measure
SELECT AVG(EXTRACT(hour FROM placed_at)) FROM orders;
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=10
-- release: sum l0=1 linf=120

-- case: day of week
SELECT EXTRACT(dow FROM placed_at) AS d, COUNT(*) FROM orders GROUP BY 1;
-- accept
-- keys: 7 public, l0 enforced
-- release: rows l0=3 linf=10

-- case: an unknown part
SELECT EXTRACT(aeon FROM placed_at) FROM orders;
-- refuse: unsupported-function at 1:8

-- case: an unknown function
SELECT SUM(frobnicate(amount)) FROM orders;
-- refuse: unknown-function at 1:12

-- case: a function that reads files
SELECT COUNT(*) FROM orders WHERE read_text('x') = note;
-- refuse: unknown-function at 1:35

-- case: wrong arguments
SELECT SUM(LENGTH(amount)) FROM orders;
-- refuse: type-mismatch at 1:12

-- case: text in arithmetic
SELECT SUM(amount + status) FROM orders;
-- refuse: type-mismatch at 1:12

-- case: Postgres spelling
SELECT SUM((amount::double precision) * 2) AS s FROM public.orders WHERE status = 'paid'::text;
-- dialect: postgres
-- accept
-- keys: 1 public, l0 proved
-- release: sum l0=1 linf=10000

-- case: Postgres division of integers truncates
SELECT SUM(quantity / 2) AS s FROM orders;
-- dialect: postgres
-- accept
-- keys: 1 public, l0 proved
-- release: sum l0=1 linf=100
