-- GoogleSQL's contribution bounds: an analyst may narrow what one row, or one unit in a group, adds.
-- catalog: shop

-- case: a narrower total of each unit
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = 0.5) SUM(amount, contribution_bounds_per_group => (0, 1000)) AS s FROM orders;
-- accept
-- keys: 1 public, l0 proved
-- release: sum l0=1 linf=1000

-- case: narrower rows
SELECT WITH DIFFERENTIAL_PRIVACY AVG(amount, contribution_bounds_per_row => (10, 200)) AS a, SUM(amount, contribution_bounds_per_row => (0, 50)) AS s FROM orders;
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=10
-- release: sum l0=1 linf=950
-- release: sum l0=1 linf=500

-- case: fewer rows of each unit
SELECT WITH DIFFERENTIAL_PRIVACY COUNT(*, contribution_bounds_per_group => (0, 3)) AS n FROM orders;
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=3

-- case: where a unit has one row the total is the row
SELECT WITH DIFFERENTIAL_PRIVACY SUM(income, contribution_bounds_per_group => (0, 50000)) AS s FROM customers;
-- accept
-- keys: 1 public, l0 proved
-- release: sum l0=1 linf=50000
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
--           WHEN x0 > 50000.0::DOUBLE THEN 50000.0::DOUBLE
--           ELSE x0
--         END
--         * 16384.0::DOUBLE
--         + 0.5
--       )::BIGINT
--     )::HUGEINT,
--     0
--   ) AS p0
--   FROM rows
--   SELECT t1.c0 AS c0 FROM release_0 AS t1

-- case: bounds of what has none
SELECT WITH DIFFERENTIAL_PRIVACY SUM(note_length, contribution_bounds_per_row => (0, 100)) AS s FROM orders;
-- accept
-- keys: 1 public, l0 proved
-- release: sum l0=1 linf=1000

-- case: negative bounds
SELECT WITH DIFFERENTIAL_PRIVACY SUM(amount - 100, contribution_bounds_per_group => (-50.5, 20)) AS s FROM orders;
-- accept
-- keys: 1 public, l0 proved
-- release: sum l0=1 linf=50.5

-- case: an average of single rows
SELECT WITH DIFFERENTIAL_PRIVACY AVG(age, contribution_bounds_per_group => (0, 60)) AS a FROM customers;
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=1
-- release: sum l0=1 linf=30

-- case: rows where a condition holds
SELECT WITH DIFFERENTIAL_PRIVACY COUNTIF(quantity > 1, contribution_bounds_per_group => (0, 4)) AS n FROM orders;
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=4

-- case: fewer distinct values of each unit
SELECT WITH DIFFERENTIAL_PRIVACY COUNT(DISTINCT quantity, contribution_bounds_per_group => (0, 2)) AS q, COUNT(DISTINCT status, contribution_bounds_per_group => (0, 5)) AS s FROM orders;
-- accept
-- keys: 1 public, l0 proved
-- release: distinct l0=1 linf=2
-- release: distinct l0=1 linf=3

-- case: distinct values whose only limit is the analyst's
SELECT WITH DIFFERENTIAL_PRIVACY COUNT(DISTINCT day, contribution_bounds_per_group => (0, 3)) AS d FROM logins;
-- accept
-- keys: 1 public, l0 proved
-- release: distinct l0=1 linf=3

-- case: quantiles and ends of clipped rows
SELECT WITH DIFFERENTIAL_PRIVACY PERCENTILE_CONT(quantity, 0.5, contribution_bounds_per_row => (2, 8)) AS m, MAX(quantity, contribution_bounds_per_row => (2, 8)) AS h FROM orders;
-- accept
-- keys: 1 public, l0 proved
-- choice: 2/4 of 7 l0=1 rows=10 hashed
-- choice: 2/2 of 7 l0=1 rows=1 greatest

-- case: with a filter
SELECT WITH DIFFERENTIAL_PRIVACY status, SUM(amount, contribution_bounds_per_group => (0, 100)) FILTER (WHERE quantity > 1) AS s FROM orders GROUP BY 1;
-- accept
-- keys: 3 public, l0 proved
-- release: sum l0=3 linf=100
-- rewrite:
--   WITH rows AS (
--     SELECT t1."customer_id" AS u, t1."status" AS k0, t1."amount" AS x0, t1."quantity" > 1 AS x1
--     FROM "orders" AS t1
--   ),
--   totals AS (
--     SELECT
--       u,
--       k0,
--       SUM(
--         CASE
--           WHEN x0 < '0.00'::DECIMAL(3, 2) THEN '0.00'::DECIMAL(3, 2)
--           WHEN x0 > '500.00'::DECIMAL(5, 2) THEN '500.00'::DECIMAL(5, 2)
--           ELSE x0
--         END
--       ) FILTER (WHERE x1) AS s0
--     FROM rows
--     GROUP BY u, k0
--   )
--   SELECT k0, COALESCE(SUM(p0)::HUGEINT, 0) AS p0
--   FROM (
--     SELECT
--       k0,
--       (
--         (
--           CASE
--             WHEN s0 < '0.00'::DECIMAL(3, 2) THEN '0.00'::DECIMAL(3, 2)
--             WHEN s0 > '100.00'::DECIMAL(5, 2) THEN '100.00'::DECIMAL(5, 2)
--             ELSE s0
--           END
--         )::DECIMAL(5, 2)
--         * '100'::DECIMAL(3, 0)
--       )::BIGINT AS p0
--     FROM totals
--   )
--   GROUP BY k0
--   SELECT t1.c0 AS c0, t1.c1 AS c1 FROM release_0 AS t1

-- case: clipped totals of disjoint rows are paid for each
SELECT WITH DIFFERENTIAL_PRIVACY SUM(income, contribution_bounds_per_group => (0, 10)) FILTER (WHERE segment = 'consumer') AS a, SUM(income, contribution_bounds_per_group => (0, 10)) FILTER (WHERE segment = 'business') AS b FROM customers;
-- accept
-- keys: 1 public, l0 proved
-- release: sum l0=1 linf=10
-- release: sum l0=1 linf=10

-- case: only with privacy said
SELECT SUM(amount, contribution_bounds_per_group => (0, 1000)) AS s FROM orders;
-- refuse: unsupported-syntax at 1:50

-- case: another name
SELECT WITH DIFFERENTIAL_PRIVACY SUM(amount, contribution_bounds => (0, 1000)) AS s FROM orders;
-- refuse: unsupported-syntax at 1:66

-- case: not of this function
SELECT WITH DIFFERENTIAL_PRIVACY CORR(amount, quantity, contribution_bounds_per_row => (0, 1000)) AS s FROM orders;
-- refuse: bad-option at 1:57

-- case: an average of a unit's several rows has bounds per row only
SELECT WITH DIFFERENTIAL_PRIVACY AVG(amount, contribution_bounds_per_group => (0, 1000)) AS s FROM orders;
-- refuse: bad-option at 1:34

-- case: a date has bounds, but no numbers
SELECT WITH DIFFERENTIAL_PRIVACY MAX(placed_at, contribution_bounds_per_row => (0, 1000)) AS s FROM orders;
-- refuse: bad-option at 1:34

-- case: twice
SELECT WITH DIFFERENTIAL_PRIVACY SUM(amount, contribution_bounds_per_row => (0, 1), contribution_bounds_per_group => (0, 1000)) AS s FROM orders;
-- refuse: bad-option at 1:85

-- case: the wrong way round
SELECT WITH DIFFERENTIAL_PRIVACY SUM(amount, contribution_bounds_per_row => (5, 1)) AS s FROM orders;
-- refuse: bad-option at 1:46

-- case: not numbers
SELECT WITH DIFFERENTIAL_PRIVACY SUM(amount, contribution_bounds_per_row => (a, 1)) AS s FROM orders;
-- refuse: bad-option at 1:46

-- case: outside of the policy's bounds
SELECT WITH DIFFERENTIAL_PRIVACY SUM(amount, contribution_bounds_per_row => (600, 700)) AS s FROM orders;
-- refuse: bad-option at 1:34

-- case: of a window
SELECT WITH DIFFERENTIAL_PRIVACY SUM(n, contribution_bounds_per_row => (0, 7)) OVER () AS s FROM (SELECT COUNT(*) AS n FROM orders) AS t;
-- refuse: unsupported-syntax at 1:34

-- case: of what is released
SELECT WITH DIFFERENTIAL_PRIVACY SUM(n, contribution_bounds_per_row => (0, 7)) AS s FROM (SELECT status, COUNT(*) AS n FROM orders GROUP BY 1) AS t;
-- refuse: unsupported-syntax at 1:34

-- case: of what is public
SELECT WITH DIFFERENTIAL_PRIVACY SUM(length(code), contribution_bounds_per_row => (0, 7)) AS s FROM countries;
-- refuse: unsupported-syntax at 1:34

-- case: within one person
SELECT WITH DIFFERENTIAL_PRIVACY AVG(s) AS a FROM (SELECT customer_id, SUM(amount, contribution_bounds_per_row => (0, 7)) AS s FROM orders GROUP BY 1) AS t;
-- refuse: unsupported-syntax at 1:72

-- case: a count from more than zero
SELECT WITH DIFFERENTIAL_PRIVACY COUNT(*, contribution_bounds_per_group => (1, 3)) AS n FROM orders;
-- refuse: bad-option at 1:34

-- case: of a sample that is filtered
SELECT WITH DIFFERENTIAL_PRIVACY SAMPLE_AGGREGATE(SUM(amount, contribution_bounds_per_row => (0, 1)), 0, 5) FILTER (WHERE quantity > 1) AS s FROM orders;
-- refuse: unsupported-syntax at 1:51

-- case: bounds without zero are raised to, by any row: disjoint rows are not paid for together
SELECT WITH DIFFERENTIAL_PRIVACY
  SUM(quantity, contribution_bounds_per_group => (30, 40)) FILTER (WHERE quantity = 0) AS none,
  SUM(quantity, contribution_bounds_per_group => (30, 40)) FILTER (WHERE quantity = 20) AS twenty
FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY customer_id ORDER BY amount) AS r FROM orders) AS o
WHERE r <= 2;
-- accept
-- keys: 1 public, l0 proved
-- release: sum l0=1 linf=40
-- release: sum l0=1 linf=40

-- case: bounds of millions of digits
SELECT WITH DIFFERENTIAL_PRIVACY SUM(quantity, contribution_bounds_per_row => (1e-99999999, 1)) AS s FROM orders;
-- refuse: bad-option at 1:48

-- case: bounds wider than what a unit's rows allow are narrowed to that
SELECT WITH DIFFERENTIAL_PRIVACY SUM(amount, contribution_bounds_per_group => (-20000, 20000)) AS s FROM orders;
-- accept
-- keys: 1 public, l0 proved
-- release: sum l0=1 linf=5000
