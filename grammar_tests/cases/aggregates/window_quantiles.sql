-- Windows over many people that an aggregate alone reads are that aggregate; near misses are refused.
-- catalog: shop

-- case: the median by its rank
SELECT MIN(CASE WHEN rn >= 0.5 * n THEN amount END) AS m FROM (SELECT amount, ROW_NUMBER() OVER (ORDER BY amount) AS rn, COUNT(*) OVER () AS n FROM orders) t;
-- accept
-- keys: 1 public, l0 proved
-- choice: 2/4 of 50001 l0=1 rows=10 hashed

-- case: quartiles of groups by their ranks
SELECT status, MIN(CASE WHEN rn >= n * 0.25 THEN amount END) AS a, MIN(amount) FILTER (WHERE n / 2.0 <= rn) AS b, COUNT(*) AS n FROM (SELECT status, amount, ROW_NUMBER() OVER (PARTITION BY status ORDER BY amount) AS rn, COUNT(*) OVER (PARTITION BY status) AS n FROM orders) t GROUP BY status;
-- accept
-- keys: 3 public, l0 proved
-- release: rows l0=3 linf=10
-- choice: 2/8 of 50001 l0=3 rows=10 hashed
-- choice: 2/4 of 50001 l0=3 rows=10 hashed

-- case: the first rank beyond a share
SELECT MIN(CASE WHEN rn > 0.9 * n THEN amount END) AS m FROM (SELECT amount, ROW_NUMBER() OVER (ORDER BY amount) AS rn, COUNT(*) OVER () AS n FROM orders) t;
-- accept
-- keys: 1 public, l0 proved
-- choice: 18/20 of 50001 l0=1 rows=10 hashed

-- case: a rank from the greatest on, by a CTE
WITH r AS (SELECT amount, ROW_NUMBER() OVER (ORDER BY amount DESC) AS rn, COUNT(amount) OVER () AS n FROM orders) SELECT MAX(CASE WHEN rn >= 0.1 * n THEN amount END) AS m FROM r;
-- accept
-- keys: 1 public, l0 proved
-- choice: 18/20 of 50001 l0=1 rows=10 hashed

-- case: the mean of the two middle rows, as MEDIAN one of them
SELECT AVG(age) AS m FROM (SELECT age, ROW_NUMBER() OVER (ORDER BY age) AS rn, COUNT(*) OVER () AS n FROM customers WHERE age IS NOT NULL) t WHERE rn IN ((n + 1) // 2, (n + 2) // 2);
-- accept
-- keys: 1 public, l0 proved
-- choice: 2/4 of 121 l0=1 rows=1 all

-- case: a value that may be NULL, of those that are not
SELECT MIN(CASE WHEN rn >= 0.5 * n THEN age END) AS m FROM (SELECT age, ROW_NUMBER() OVER (ORDER BY age) AS rn, COUNT(*) OVER () AS n FROM customers WHERE age IS NOT NULL) t;
-- accept
-- keys: 1 public, l0 proved
-- choice: 2/4 of 121 l0=1 rows=1 all

-- case: the number of values, of which NULL is none
SELECT MIN(CASE WHEN rn >= 0.5 * n THEN age END) AS m FROM (SELECT age, ROW_NUMBER() OVER (ORDER BY age) AS rn, COUNT(age) OVER () AS n FROM customers) t;
-- accept
-- keys: 1 public, l0 proved
-- choice: 2/4 of 121 l0=1 rows=1 all

-- case: DISTINCT beside windows is GROUP BY
SELECT DISTINCT status, AVG(amount) OVER (PARTITION BY status) AS a, COUNT(*) OVER (PARTITION BY status) AS n FROM orders ORDER BY status;
-- accept
-- keys: 3 public, l0 proved
-- release: rows l0=3 linf=10
-- release: sum l0=3 linf=2500

-- case: ranks that NULL takes part in
SELECT MIN(CASE WHEN rn >= 0.5 * n THEN age END) AS m FROM (SELECT age, ROW_NUMBER() OVER (ORDER BY age) AS rn, COUNT(*) OVER () AS n FROM customers) t;
-- refuse: unsupported-private-operator at 1:73

-- case: NULL first
SELECT MIN(CASE WHEN rn >= 0.5 * n THEN age END) AS m FROM (SELECT age, ROW_NUMBER() OVER (ORDER BY age NULLS FIRST) AS rn, COUNT(age) OVER () AS n FROM customers) t;
-- refuse: unsupported-private-operator at 1:73

-- case: the greatest below a rank
SELECT MAX(CASE WHEN rn <= 0.5 * n THEN amount END) AS m FROM (SELECT amount, ROW_NUMBER() OVER (ORDER BY amount) AS rn, COUNT(*) OVER () AS n FROM orders) t;
-- refuse: unsupported-private-operator at 1:79

-- case: the least from a rank on, of a falling order
SELECT MIN(CASE WHEN rn >= 0.5 * n THEN amount END) AS m FROM (SELECT amount, ROW_NUMBER() OVER (ORDER BY amount DESC) AS rn, COUNT(*) OVER () AS n FROM orders) t;
-- refuse: unsupported-private-operator at 1:79

-- case: another value than that of the order
SELECT MIN(CASE WHEN rn >= 0.5 * n THEN quantity END) AS m FROM (SELECT amount, quantity, ROW_NUMBER() OVER (ORDER BY amount) AS rn, COUNT(*) OVER () AS n FROM orders) t;
-- refuse: unsupported-private-operator at 1:91

-- case: a number of other rows
SELECT MIN(CASE WHEN rn >= 0.5 * n THEN amount END) AS m FROM (SELECT amount, ROW_NUMBER() OVER (ORDER BY amount) AS rn, COUNT(*) OVER (PARTITION BY status) AS n FROM orders) t;
-- refuse: unsupported-private-operator at 1:79

-- case: a number of some rows
SELECT MIN(CASE WHEN rn >= 0.5 * n THEN amount END) AS m FROM (SELECT amount, ROW_NUMBER() OVER (ORDER BY amount) AS rn, COUNT(*) FILTER (WHERE quantity > 1) OVER () AS n FROM orders) t;
-- refuse: unsupported-private-operator at 1:79

-- case: a running number
SELECT MIN(CASE WHEN rn >= 0.5 * n THEN amount END) AS m FROM (SELECT amount, ROW_NUMBER() OVER (ORDER BY amount) AS rn, COUNT(*) OVER (ORDER BY amount) AS n FROM orders) t;
-- refuse: unsupported-private-operator at 1:79

-- case: two keys of the order
SELECT MIN(CASE WHEN rn >= 0.5 * n THEN amount END) AS m FROM (SELECT amount, ROW_NUMBER() OVER (ORDER BY amount, quantity) AS rn, COUNT(*) OVER () AS n FROM orders) t;
-- refuse: unsupported-private-operator at 1:79

-- case: RANK, which ties share
SELECT MIN(CASE WHEN rn >= 0.5 * n THEN amount END) AS m FROM (SELECT amount, RANK() OVER (ORDER BY amount) AS rn, COUNT(*) OVER () AS n FROM orders) t;
-- refuse: unsupported-private-operator at 1:79

-- case: groups other than the partitions
SELECT status, MIN(CASE WHEN rn >= 0.5 * n THEN amount END) AS m FROM (SELECT status, amount, ROW_NUMBER() OVER (ORDER BY amount) AS rn, COUNT(*) OVER () AS n FROM orders) t GROUP BY status;
-- refuse: unsupported-private-operator at 1:95

-- case: rows left out behind their ranks
SELECT MIN(CASE WHEN rn >= 0.5 * n THEN amount END) AS m FROM (SELECT amount, quantity, ROW_NUMBER() OVER (ORDER BY amount) AS rn, COUNT(*) OVER () AS n FROM orders) t WHERE quantity > 1;
-- refuse: unsupported-private-operator at 1:89

-- case: a value in place of NULL
SELECT MIN(CASE WHEN rn >= 0.5 * n THEN amount ELSE 0 END) AS m FROM (SELECT amount, ROW_NUMBER() OVER (ORDER BY amount) AS rn, COUNT(*) OVER () AS n FROM orders) t;
-- refuse: unsupported-private-operator at 1:86

-- case: a share of more than all
SELECT MIN(CASE WHEN rn >= 1.5 * n THEN amount END) AS m FROM (SELECT amount, ROW_NUMBER() OVER (ORDER BY amount) AS rn, COUNT(*) OVER () AS n FROM orders) t;
-- refuse: unsupported-private-operator at 1:79

-- case: a rank by itself
SELECT MIN(CASE WHEN rn >= 10 THEN amount END) AS m FROM (SELECT amount, ROW_NUMBER() OVER (ORDER BY amount) AS rn, COUNT(*) OVER () AS n FROM orders) t;
-- refuse: unsupported-private-operator at 1:74

-- case: the sum from a rank on
SELECT SUM(CASE WHEN rn >= 0.5 * n THEN amount END) AS m FROM (SELECT amount, ROW_NUMBER() OVER (ORDER BY amount) AS rn, COUNT(*) OVER () AS n FROM orders) t;
-- refuse: unsupported-private-operator at 1:79

-- case: rows near the middle
SELECT AVG(amount) AS m FROM (SELECT amount, ROW_NUMBER() OVER (ORDER BY amount) AS rn, COUNT(*) OVER () AS n FROM orders) t WHERE rn IN ((n + 1) // 2, (n + 3) // 2);
-- refuse: unsupported-private-operator at 1:46

-- case: the mean of one half
SELECT AVG(amount) AS m FROM (SELECT amount, ROW_NUMBER() OVER (ORDER BY amount) AS rn, COUNT(*) OVER () AS n FROM orders) t WHERE rn <= n // 2;
-- refuse: unsupported-private-operator at 1:46

-- case: a rank beside its value
SELECT rn, MIN(CASE WHEN rn >= 0.5 * n THEN amount END) AS m FROM (SELECT amount, ROW_NUMBER() OVER (ORDER BY amount) AS rn, COUNT(*) OVER () AS n FROM orders) t GROUP BY rn;
-- refuse: unsupported-private-operator at 1:83

-- case: DISTINCT of fewer columns than the partition
SELECT DISTINCT AVG(amount) OVER (PARTITION BY status) AS a FROM orders;
-- refuse: unsupported-private-operator at 1:17

-- case: DISTINCT beside a running window
SELECT DISTINCT status, SUM(amount) OVER (PARTITION BY status ORDER BY amount) AS a FROM orders;
-- refuse: unsupported-private-operator at 1:25

-- case: DISTINCT beside windows over other groups
SELECT DISTINCT status, AVG(amount) OVER (PARTITION BY status) AS a, COUNT(*) OVER () AS n FROM orders;
-- refuse: unsupported-private-operator at 1:25

-- case: a share of parts too fine to tell apart
SELECT MIN(CASE WHEN rn >= 0.9999999 * n THEN amount END) AS m FROM (SELECT amount, ROW_NUMBER() OVER (ORDER BY amount) AS rn, COUNT(*) OVER () AS n FROM orders) t;
-- refuse: unsupported-private-operator at 1:85

-- case: DISTINCT beside a rank
SELECT DISTINCT status, NTILE(4) OVER (PARTITION BY status) AS a FROM orders;
-- refuse: unsupported-private-operator at 1:25

-- case: DISTINCT of a window over everybody, which has no row where nobody is
SELECT DISTINCT AVG(amount) OVER () AS a FROM orders;
-- refuse: unsupported-private-operator at 1:17
