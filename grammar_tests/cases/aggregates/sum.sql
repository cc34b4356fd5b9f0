-- SUM: clip every row, total per unit, clip the total, add up, then noise.
-- catalog: shop

-- case: sum of a column with declared bounds
SELECT SUM(amount) AS total FROM orders;
-- rows: orders (customer_id, amount): (1, 700), (1, 20.25), (2, -3), (3, 0.5)
-- accept
-- keys: 1 public, l0 proved
-- release: sum l0=1 linf=5000
-- integers: () 52075
-- rewrite:
--   WITH rows AS (SELECT t1."customer_id" AS u, t1."amount" AS x0 FROM "orders" AS t1),
--   totals AS (
--     SELECT
--       u,
--       SUM(
--         CASE
--           WHEN x0 < '0.00'::DECIMAL(3, 2) THEN '0.00'::DECIMAL(3, 2)
--           WHEN x0 > '500.00'::DECIMAL(5, 2) THEN '500.00'::DECIMAL(5, 2)
--           ELSE x0
--         END
--       ) AS s0
--     FROM rows
--     GROUP BY u
--   )
--   SELECT COALESCE(SUM(p0)::HUGEINT, 0) AS p0
--   FROM (
--     SELECT (
--       (
--         CASE
--           WHEN s0 < '0.00'::DECIMAL(3, 2) THEN '0.00'::DECIMAL(3, 2)
--           WHEN s0 > '5000.00'::DECIMAL(6, 2) THEN '5000.00'::DECIMAL(6, 2)
--           ELSE s0
--         END
--       )::DECIMAL(6, 2)
--       * '100'::DECIMAL(3, 0)
--     )::BIGINT AS p0
--     FROM totals
--   )
--   SELECT t1.c0 AS c0 FROM release_0 AS t1

-- case: sum of an integer column
SELECT SUM(quantity) AS total FROM orders;
-- accept
-- keys: 1 public, l0 proved
-- release: sum l0=1 linf=200

-- case: sum of a double column
SELECT SUM(income) AS total FROM customers;
-- rows: customers (customer_id, income): (1, 1000.5), (2, 'NaN'::DOUBLE), (3, 'Infinity'), (4, -1), (5, NULL)
-- accept
-- keys: 1 public, l0 proved
-- release: sum l0=1 linf=200000
-- integers: () 823298048
-- rewrite:
--   WITH rows AS (
--     SELECT CASE WHEN isnan(t1."income") THEN NULL ELSE t1."income"::DOUBLE + 0.0 END AS x0
--     FROM "customers" AS t1
--   )
--   SELECT COALESCE(
--     SUM(
--       FLOOR(
--         CASE
--           WHEN x0 < 0.0::DOUBLE THEN 0.0::DOUBLE
--           WHEN x0 > 200000.0::DOUBLE THEN 200000.0::DOUBLE
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

-- case: sum of a nullable double column
SELECT SUM(discount) AS total FROM orders;
-- accept
-- keys: 1 public, l0 proved
-- release: sum l0=1 linf=10

-- case: sum of an expression clips the expression, not the column
SELECT SUM(amount * quantity) AS revenue FROM orders;
-- accept
-- keys: 1 public, l0 proved
-- release: sum l0=1 linf=100000

-- case: sum of a difference may be negative
SELECT SUM(amount - 250) AS shifted FROM orders;
-- rows: orders (customer_id, amount): (1, 0), (1, 0), (2, 500), (3, 250.01)
-- accept
-- keys: 1 public, l0 proved
-- release: sum l0=1 linf=2500
-- integers: () -24999
-- rewrite:
--   WITH rows AS (SELECT t1."customer_id" AS u, TRY(t1."amount" - 250) AS x0 FROM "orders" AS t1),
--   totals AS (
--     SELECT
--       u,
--       SUM(
--         CASE
--           WHEN x0 < '-250.00'::DECIMAL(5, 2) THEN '-250.00'::DECIMAL(5, 2)
--           WHEN x0 > '250.00'::DECIMAL(5, 2) THEN '250.00'::DECIMAL(5, 2)
--           ELSE x0
--         END
--       ) AS s0
--     FROM rows
--     GROUP BY u
--   )
--   SELECT COALESCE(SUM(p0)::HUGEINT, 0) AS p0
--   FROM (
--     SELECT (
--       (
--         CASE
--           WHEN s0 < '-2500.00'::DECIMAL(6, 2) THEN '-2500.00'::DECIMAL(6, 2)
--           WHEN s0 > '2500.00'::DECIMAL(6, 2) THEN '2500.00'::DECIMAL(6, 2)
--           ELSE s0
--         END
--       )::DECIMAL(6, 2)
--       * '100'::DECIMAL(3, 0)
--     )::BIGINT AS p0
--     FROM totals
--   )
--   SELECT t1.c0 AS c0 FROM release_0 AS t1

-- case: sum of a constant
SELECT SUM(1) AS n FROM orders;
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=10

-- case: sum of a conditional
SELECT SUM(CASE WHEN status = 'paid' THEN amount ELSE 0 END) AS paid FROM orders;
-- accept
-- keys: 1 public, l0 proved
-- release: sum l0=1 linf=5000

-- case: sum of a conditional without else
SELECT SUM(CASE WHEN status = 'paid' THEN amount END) AS paid FROM orders;
-- rows: orders (customer_id, status, amount): (1, 'paid', 10), (1, 'open', 20), (2, NULL, 30)
-- accept
-- keys: 1 public, l0 proved
-- release: sum l0=1 linf=5000
-- integers: () 1000
-- rewrite:
--   WITH rows AS (
--     SELECT t1."customer_id" AS u, t1."amount" AS x0, t1."status" = 'paid' AS x1 FROM "orders" AS t1
--   ),
--   totals AS (
--     SELECT
--       u,
--       SUM(
--         CASE
--           WHEN x0 < '0.00'::DECIMAL(3, 2) THEN '0.00'::DECIMAL(3, 2)
--           WHEN x0 > '500.00'::DECIMAL(5, 2) THEN '500.00'::DECIMAL(5, 2)
--           ELSE x0
--         END
--       ) FILTER (WHERE x1) AS s0
--     FROM rows
--     GROUP BY u
--   )
--   SELECT COALESCE(SUM(p0)::HUGEINT, 0) AS p0
--   FROM (
--     SELECT (
--       (
--         CASE
--           WHEN s0 < '0.00'::DECIMAL(3, 2) THEN '0.00'::DECIMAL(3, 2)
--           WHEN s0 > '5000.00'::DECIMAL(6, 2) THEN '5000.00'::DECIMAL(6, 2)
--           ELSE s0
--         END
--       )::DECIMAL(6, 2)
--       * '100'::DECIMAL(3, 0)
--     )::BIGINT AS p0
--     FROM totals
--   )
--   SELECT t1.c0 AS c0 FROM release_0 AS t1

-- case: sum bounded by a filter
SELECT SUM(note_length) AS n FROM orders WHERE note_length BETWEEN 0 AND 100;
-- accept
-- keys: 1 public, l0 proved
-- release: sum l0=1 linf=1000

-- case: sum bounded by comparisons
SELECT SUM(note_length) AS n FROM orders WHERE note_length >= 0 AND note_length < 100;
-- accept
-- keys: 1 public, l0 proved
-- release: sum l0=1 linf=990

-- case: sum bounded by LEAST and GREATEST
SELECT SUM(LEAST(GREATEST(note_length, 0), 50)) AS n FROM orders;
-- rows: orders (customer_id, note_length): (1, 70), (1, -4), (2, 9), (3, NULL)
-- accept
-- keys: 1 public, l0 proved
-- release: sum l0=1 linf=500
-- integers: () 59
-- rewrite:
--   WITH rows AS (
--     SELECT t1."customer_id" AS u, least(greatest(t1."note_length", 0), 50) AS x0 FROM "orders" AS t1
--   ),
--   totals AS (
--     SELECT u, SUM(((CASE WHEN x0 < 0 THEN 0 WHEN x0 > 50 THEN 50 ELSE x0 END)::BIGINT)::INTEGER) AS s0
--     FROM rows
--     GROUP BY u
--   )
--   SELECT COALESCE(SUM(p0)::HUGEINT, 0) AS p0
--   FROM (SELECT (CASE WHEN s0 < 0 THEN 0 WHEN s0 > 500 THEN 500 ELSE s0 END)::BIGINT AS p0 FROM totals)
--   SELECT t1.c0 AS c0 FROM release_0 AS t1

-- case: sum two links away
SELECT SUM(price * units) AS revenue FROM items;
-- accept
-- keys: 1 public, l0 proved
-- release: sum l0=1 linf=20000

-- case: a column without bounds is refused
SELECT SUM(note_length) AS n FROM orders;
-- refuse: unbounded-input at 1:12

-- case: half a bound is no bound
SELECT SUM(note_length) AS n FROM orders WHERE note_length < 100;
-- refuse: unbounded-input at 1:12

-- case: a bound under OR is no bound
SELECT SUM(note_length) AS n FROM orders WHERE note_length BETWEEN 0 AND 10 OR status = 'paid';
-- refuse: unbounded-input at 1:12

-- case: a division by what may be zero is searched for bounds
SELECT SUM(amount / quantity) AS n FROM orders;
-- accept
-- keys: 1 public, l0 proved
-- release: sum l0=1 linf=1073741824

-- case: so is a quotient within another number
SELECT AVG(100 * (amount - quantity) / quantity) AS n FROM orders;
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=10
-- release: sum l0=1 linf=1073741824

-- case: an unbounded number over another one
SELECT SUM(note_length / quantity) AS n FROM orders;
-- refuse: unbounded-input at 1:12

-- case: an unbounded divisor
SELECT AVG(quantity / note_length) AS n FROM orders;
-- refuse: unbounded-input at 1:12

-- case: a quotient of a quotient that may be zero
SELECT SUM(LN(amount / quantity)) AS n FROM orders;
-- refuse: unbounded-input at 1:12

-- case: the largest quotient
SELECT MAX(amount / quantity) AS n FROM orders;
-- refuse: unbounded-input at 1:12

-- case: an option with the largest quotient
SELECT ARG_MAX(status, amount / quantity) AS n FROM orders;
-- refuse: unbounded-input at 1:24

-- case: the sum of different quotients
SELECT SUM(DISTINCT amount / quantity) AS n FROM orders;
-- refuse: unbounded-input at 1:21

-- case: a geometric mean of quotients
SELECT GEOMEAN(amount / quantity) AS n FROM orders;
-- refuse: unbounded-input at 1:16

-- case: a correlation of quotients
SELECT CORR(amount / quantity, discount) AS n FROM orders;
-- refuse: unbounded-input at 1:13

-- case: a division by a constant has one
SELECT SUM(amount / 4) AS quarter FROM orders;
-- accept
-- keys: 1 public, l0 proved
-- release: sum l0=1 linf=1250

-- case: sum of text
SELECT SUM(status) FROM orders;
-- refuse: type-mismatch at 1:8

-- case: sum of distinct values
SELECT SUM(DISTINCT amount) AS s FROM orders;
-- accept
-- keys: 1 public, l0 proved
-- release: distinct sum l0=1 linf=5000

-- case: sum of a date
SELECT SUM(joined) FROM customers;
-- refuse: type-mismatch at 1:8

-- case: several sums in one release
SELECT SUM(amount) AS a, SUM(quantity) AS b, SUM(discount) AS c, COUNT(*) AS n FROM orders;
-- accept
-- keys: 1 public, l0 proved
-- release: sum l0=1 linf=5000
-- release: sum l0=1 linf=200
-- release: sum l0=1 linf=10
-- release: rows l0=1 linf=10

-- case: many decimals and large totals
SELECT SUM(amount * amount * amount) AS s FROM orders;
-- accept
-- keys: 1 public, l0 proved
-- release: sum l0=1 linf=1250000000

-- case: a sum of ones where a person has one row
SELECT SUM(1) AS n FROM customers;
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=1

-- case: sums by the names of DuckDB's precise ones
SELECT status, KAHAN_SUM(quantity) AS k, SUMKAHAN(amount) AS s, FSUM(amount) AS f FROM orders GROUP BY status;
-- accept
-- keys: 3 public, l0 proved
-- release: sum l0=3 linf=200
-- release: sum l0=3 linf=5000

-- case: a precise sum of an unbounded column
SELECT FSUM(note_length) AS s FROM orders;
-- refuse: unbounded-input at 1:13
