-- Functions of numbers: bounds follow where the function has them, and nothing raises.
-- catalog: shop

-- case: sines are bounded whatever the column
SELECT SUM(SIN(note_length)) AS s, AVG(COS(note_length)) AS c FROM orders;
-- accept
-- keys: 1 public, l0 proved
-- release: sum l0=1 linf=10
-- release: rows l0=1 linf=10
-- release: sum l0=1 linf=10

-- case: angles
SELECT AVG(DEGREES(ATAN2(quantity, 3))) AS a, AVG(RADIANS(quantity)) AS r FROM orders;
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=10
-- release: sum l0=1 linf=407.3461723
-- release: sum l0=1 linf=1.745329252

-- case: arcs of a share
SELECT AVG(ASIN(discount)) AS a, AVG(ACOS(discount)) AS b, AVG(ATAN(quantity)) AS c FROM orders;
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=10
-- release: sum l0=1 linf=15.70796328
-- release: rows l0=1 linf=10
-- release: sum l0=1 linf=15.7079633
-- release: rows l0=1 linf=10
-- release: sum l0=1 linf=7.604189664

-- case: logarithms of what is above zero
SELECT AVG(LOG10(quantity + 1)) AS a, AVG(LOG2(quantity + 1)) AS b, AVG(LOG(quantity + 1)) AS c FROM orders;
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=10
-- release: sum l0=1 linf=6.611096486
-- release: sum l0=1 linf=21.96158715

-- case: cube roots
SELECT AVG(CBRT(amount)) AS a FROM orders;
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=10
-- release: sum l0=1 linf=39.68502633

-- case: hyperbolics
SELECT AVG(TANH(amount)) AS a, AVG(SINH(discount)) AS b, AVG(ASINH(amount)) AS c FROM orders;
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=10
-- release: sum l0=1 linf=10
-- release: rows l0=1 linf=10
-- release: sum l0=1 linf=5.876005981
-- release: sum l0=1 linf=34.53878142

-- case: an equal share of buckets
SELECT WIDTH_BUCKET(amount, 0, 500, 5) AS bucket, COUNT(*) AS n FROM orders GROUP BY 1;
-- dialect: postgres
-- accept
-- keys: 7 public, l0 enforced
-- release: rows l0=3 linf=10

-- case: buckets between fractions
SELECT WIDTH_BUCKET(discount, 0.0, 1.0, 4) AS bucket, COUNT(*) AS n FROM orders GROUP BY 1;
-- dialect: postgres
-- accept
-- keys: 7 public, l0 enforced
-- release: rows l0=3 linf=10

-- case: the next even number
SELECT AVG(EVEN(amount)) AS e FROM orders;
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=10
-- release: sum l0=1 linf=2520.000005

-- case: tests of floats
SELECT COUNT(*) FILTER (WHERE ISNAN(income) OR ISINF(income)) AS odd, COUNT(*) FILTER (WHERE ISFINITE(income)) AS fine FROM customers;
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=1
-- release: rows l0=1 linf=1
-- release: rows l0=1 linf=1
-- release: rows l0=1 linf=1

-- case: divisors
SELECT COUNT(*) FROM orders WHERE GCD(quantity, 6) > 1 AND LCM(quantity, 2) < 10;
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=10

-- case: remainders of floats
SELECT COUNT(*) FROM orders WHERE FMOD(discount, 0.5) = 0 OR FDIV(discount, 0.3) > 1;
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=10

-- case: a tangent has no bounds
SELECT SUM(TAN(discount)) FROM orders;
-- refuse: unbounded-input at 1:12

-- case: a logarithm of what may be zero has none
SELECT SUM(LOG2(quantity)) FROM orders;
-- duckdb: 2
-- refuse: unbounded-input at 1:12

-- case: buckets in the wrong order
SELECT WIDTH_BUCKET(amount, 10, 5, 3), COUNT(*) FROM orders GROUP BY 1;
-- dialect: postgres
-- refuse: unsupported-function at 1:8

-- case: buckets that rows decide
SELECT COUNT(*) FROM orders WHERE WIDTH_BUCKET(amount, 0, quantity, 3) = 1;
-- dialect: postgres
-- refuse: unsupported-function at 1:35

-- case: a sine of text
SELECT SUM(SIN(status)) FROM orders;
-- refuse: type-mismatch at 1:12

-- case: no bucket for NULL
SELECT WIDTH_BUCKET(age, 0, 100, 4) AS b, COUNT(*) AS n FROM customers GROUP BY 1;
-- dialect: postgres
-- accept
-- keys: 6 public, l0 proved
-- release: rows l0=1 linf=1
-- rewrite:
--   WITH rows AS (
--     SELECT [
--       CASE
--         WHEN x IS NULL THEN NULL
--         ELSE 1
--         + CAST(
--           least(greatest(floor((x - 0::DOUBLE) * 4 / (100::DOUBLE - 0::DOUBLE)), -1), 4) AS BIGINT
--         )
--       END FOR x IN [t1."age"::DOUBLE]
--     ][1] AS k0
--     FROM "customers" AS t1
--   )
--   SELECT k0, COALESCE(COUNT(*)::HUGEINT, 0) AS p0
--   FROM rows
--   GROUP BY k0
--   SELECT t1.c0 AS c0, t1.c1 AS c1 FROM release_0 AS t1

-- case: bits that one side has
SELECT SUM(XOR(quantity, 5)) AS s FROM orders;
-- accept
-- keys: 1 public, l0 proved
-- release: sum l0=1 linf=310

-- case: digits of what may be negative
SELECT COUNT(*) AS n FROM orders WHERE TO_HEX(quantity - 10) = 'FFFFFFFFFFFFFFFF' OR BIN(quantity) = '101';
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=10

-- case: bits that the width of the number decides
SELECT SUM(BIT_COUNT(quantity - 10)) AS s FROM orders;
-- refuse: unknown-function at 1:12

-- case: more digits rounded than there are
SELECT SUM(ROUND(CAST(amount AS DECIMAL(5, 2)), -4)) AS s FROM orders;
-- refuse: unsupported-function at 1:12

-- case: as many digits as there are but one
SELECT SUM(ROUND(CAST(amount AS DECIMAL(5, 2)), -2)) AS s FROM orders;
-- accept
-- keys: 1 public, l0 proved
-- release: sum l0=1 linf=5000

-- case: digits cut off
SELECT SUM(TRUNC(amount, 1)) AS a, SUM(TRUNC(income, -3)) AS b FROM orders JOIN customers USING (customer_id);
-- accept
-- keys: 1 public, l0 proved
-- release: sum l0=1 linf=5000
-- release: sum l0=1 linf=2000000.002

-- case: digits that rows decide
SELECT SUM(TRUNC(amount, quantity)) AS s FROM orders;
-- refuse: unsupported-function at 1:12

-- case: groups of one digit after the point
SELECT TRUNC(discount, 1) AS d, COUNT(*) AS n FROM orders WHERE discount BETWEEN 0 AND 0.3 GROUP BY 1;
-- accept
-- keys: private, l0 enforced
-- release: units l0=3 linf=1
-- release: rows l0=3 linf=10

-- case: factorials have bounds
SELECT SUM(FACTORIAL(quantity % 5)) AS f FROM orders;
-- accept
-- keys: 1 public, l0 proved
-- release: sum l0=1 linf=240

-- case: a circle
SELECT SUM(PI() * quantity * quantity) AS area FROM orders;
-- accept
-- keys: 1 public, l0 proved
-- release: sum l0=1 linf=12566.37062

-- case: a circle of an argument
SELECT SUM(PI(quantity)) AS area FROM orders;
-- refuse: unknown-function at 1:12

-- case: arithmetic by name
SELECT SUM(ADD(quantity, 1)) AS a, SUM(SUBTRACT(quantity, 1)) AS b, SUM(MULTIPLY(quantity, 2)) AS c, SUM(DIVIDE(quantity, 3)) AS d FROM orders;
-- accept
-- keys: 1 public, l0 proved
-- release: sum l0=1 linf=210
-- release: sum l0=1 linf=190
-- release: sum l0=1 linf=400
-- release: sum l0=1 linf=60

-- case: integer quotients by name
SELECT SUM(DIV(quantity, 3)) AS d FROM orders;
-- dialect: postgres
-- accept
-- keys: 1 public, l0 proved
-- release: sum l0=1 linf=60

-- case: zero for NULL
SELECT SUM(ZEROIFNULL(discount)) AS d, COUNT(NULLIFZERO(quantity)) AS n FROM orders;
-- dialect: postgres
-- accept
-- keys: 1 public, l0 proved
-- release: sum l0=1 linf=10
-- release: rows l0=1 linf=10

-- case: zero for NULL in text
SELECT COUNT(ZEROIFNULL(note)) AS d FROM orders;
-- refuse: type-mismatch at 1:14

-- case: groups by ranges of a number
SELECT FLOOR(amount / 100) * 100 AS low, COUNT(*) AS n FROM orders GROUP BY 1;
-- accept
-- keys: 6 public, l0 enforced
-- release: rows l0=3 linf=10

-- case: groups by ranges of an integer
SELECT (quantity // 5) * 5 AS low, COUNT(*) AS n FROM orders GROUP BY 1;
-- accept
-- keys: 5 public, l0 enforced
-- release: rows l0=3 linf=10

-- case: groups by remainder
SELECT MOD(quantity, 4) AS r, SIGN(quantity - 10) AS s, COUNT(*) AS n FROM orders GROUP BY 1, 2;
-- accept
-- keys: 9 public, l0 enforced
-- release: rows l0=3 linf=10

-- case: clipped by the query
SELECT LEAST(GREATEST(quantity, 3), 7) AS q, COUNT(*) AS n FROM orders GROUP BY 1;
-- accept
-- keys: 5 public, l0 enforced
-- release: rows l0=3 linf=10

-- case: numbers of a result
SELECT CBRT(COUNT(*)) AS c, LOG2(COUNT(*) + 1) AS l, TRUNC(AVG(amount), 1) AS t, EVEN(COUNT(*)) AS e FROM orders;
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=10
-- release: sum l0=1 linf=2500

-- case: divided by what is not zero
SELECT AVG(amount / NULLIF(quantity, 0)) AS unit, SUM(quantity / NULLIF(quantity - 10, 0)) AS q FROM orders;
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=10
-- release: sum l0=1 linf=2500
-- release: sum l0=1 linf=200

-- case: divided by what may be zero
SELECT AVG(amount / quantity) AS unit FROM orders;
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=10
-- release: sum l0=1 linf=1073741824

-- case: divided where the divisor is not zero
SELECT SUM(CASE WHEN quantity <> 0 THEN amount / quantity ELSE 0 END) AS unit FROM orders;
-- accept
-- keys: 1 public, l0 proved
-- release: sum l0=1 linf=5000

-- case: divided where it is not said to be zero
SELECT SUM(CASE WHEN quantity = 0 THEN 0 ELSE amount / quantity END) AS unit FROM orders;
-- dialect: postgres
-- accept
-- keys: 1 public, l0 proved
-- release: sum l0=1 linf=5000

-- case: divided where another number is not zero
SELECT SUM(CASE WHEN amount <> 0 THEN amount / quantity ELSE 0 END) AS unit FROM orders;
-- accept
-- keys: 1 public, l0 proved
-- release: sum l0=1 linf=1073741824

-- case: counted where there are bounds
SELECT SUM(CASE WHEN note_length BETWEEN 0 AND 100 THEN note_length ELSE 100 END) AS n FROM orders;
-- accept
-- keys: 1 public, l0 proved
-- release: sum l0=1 linf=1000

-- case: divided by a column where filtered
SELECT SUM(amount / (quantity - 10)) AS n FROM orders WHERE quantity - 10 <> 0;
-- accept
-- keys: 1 public, l0 proved
-- release: sum l0=1 linf=5000

-- case: whole numbers divided by what may be zero
SELECT SUM(quantity / (quantity - 10)) AS n FROM orders;
-- dialect: postgres
-- accept
-- keys: 1 public, l0 proved
-- release: sum l0=1 linf=200

-- case: a sum of decimals without a digit before the point
SELECT SUM(TRY_CAST(vip AS DECIMAL(38, 38))) AS v FROM customers
-- duckdb: 2
-- accept
-- keys: 1 public, l0 proved
-- release: sum l0=1 linf=0
