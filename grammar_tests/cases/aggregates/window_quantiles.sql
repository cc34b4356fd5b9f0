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
-- accept
-- keys: 1 public, l0 proved
-- choice: 2/4 of 122 l0=1 rows=1 all

-- case: shares that NULL takes part in, greater than all values
SELECT status, COUNT(*) AS n FROM (SELECT status, CUME_DIST() OVER (PARTITION BY status ORDER BY discount DESC NULLS FIRST) AS c FROM orders) t WHERE c <= 0.9 GROUP BY status;
-- accept
-- keys: 3 public, l0 proved
-- choice: 2/20 of 65534 l0=3 rows=10 hashed
-- keys: 3 public, l0 proved
-- release: rows l0=3 linf=10

-- case: ranks of which MAX leaves NULL out
SELECT MAX(CASE WHEN rn <= 0.5 * n THEN age END) AS m FROM (SELECT age, ROW_NUMBER() OVER (ORDER BY age) AS rn, COUNT(*) OVER () AS n FROM customers) t;
-- refuse: unsupported-private-operator at 1:73

-- case: ranks where NULL is less than all values
SELECT COUNT(*) AS n FROM (SELECT CUME_DIST() OVER (ORDER BY age NULLS FIRST) AS c FROM customers) t WHERE c > 0.5;
-- refuse: unsupported-private-operator at 1:35

-- case: NULL first
SELECT MIN(CASE WHEN rn >= 0.5 * n THEN age END) AS m FROM (SELECT age, ROW_NUMBER() OVER (ORDER BY age NULLS FIRST) AS rn, COUNT(age) OVER () AS n FROM customers) t;
-- refuse: unsupported-private-operator at 1:73

-- case: the greatest up to a rank, which counts from the other end
SELECT MAX(CASE WHEN rn <= 0.3 * n THEN amount END) AS m FROM (SELECT amount, ROW_NUMBER() OVER (ORDER BY amount) AS rn, COUNT(*) OVER () AS n FROM orders) t;
-- accept
-- keys: 1 public, l0 proved
-- choice: 6/20 of 50001 l0=1 rows=10 hashed

-- case: the least up to a rank of a falling order
SELECT status, MIN(amount) FILTER (WHERE n * 0.3 >= rn) AS m FROM (SELECT status, amount, ROW_NUMBER() OVER (PARTITION BY status ORDER BY amount DESC) AS rn, COUNT(*) OVER (PARTITION BY status) AS n FROM orders) t GROUP BY status;
-- accept
-- keys: 3 public, l0 proved
-- choice: 14/20 of 50001 l0=3 rows=10 hashed

-- case: the least up to a rank
SELECT MIN(CASE WHEN rn <= 0.5 * n THEN amount END) AS m FROM (SELECT amount, ROW_NUMBER() OVER (ORDER BY amount) AS rn, COUNT(*) OVER () AS n FROM orders) t;
-- refuse: unsupported-private-operator at 1:79

-- case: the greatest before a rank
SELECT MAX(CASE WHEN rn < 0.5 * n THEN amount END) AS m FROM (SELECT amount, ROW_NUMBER() OVER (ORDER BY amount) AS rn, COUNT(*) OVER () AS n FROM orders) t;
-- refuse: unsupported-private-operator at 1:78

-- case: the greatest up to a rank among one person's rows
SELECT AVG(m) AS a FROM (SELECT customer_id, MAX(CASE WHEN rn <= 0.3 * n THEN amount END) AS m FROM (SELECT customer_id, amount, ROW_NUMBER() OVER (PARTITION BY customer_id ORDER BY amount) AS rn, COUNT(*) OVER (PARTITION BY customer_id) AS n FROM orders) t GROUP BY customer_id) u;
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=1
-- release: sum l0=1 linf=250

-- case: the greatest up to a rank of released counts
SELECT MAX(CASE WHEN rn <= 0.5 * n THEN c END) AS m FROM (SELECT c, ROW_NUMBER() OVER (ORDER BY c) AS rn, COUNT(*) OVER () AS n FROM (SELECT status, COUNT(*) AS c FROM orders GROUP BY status) s) t;
-- accept
-- keys: 3 public, l0 proved
-- release: rows l0=3 linf=10

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

-- case: the rows from a rank on, NULL before it
SELECT MIN(CASE WHEN rn < 0.25 * n THEN NULL ELSE amount END) AS a, MIN(CASE WHEN 0.9 * n >= rn THEN NULL ELSE amount END) AS b FROM (SELECT amount, ROW_NUMBER() OVER (ORDER BY amount) AS rn, COUNT(*) OVER () AS n FROM orders) t;
-- accept
-- keys: 1 public, l0 proved
-- choice: 2/8 of 50001 l0=1 rows=10 hashed
-- choice: 18/20 of 50001 l0=1 rows=10 hashed

-- case: a constant for the rows before a rank
SELECT MIN(CASE WHEN rn < 0.25 * n THEN 9999 ELSE amount END) AS a, MAX(CASE WHEN rn > 0.75 * n THEN 60 ELSE amount END) AS b FROM (SELECT amount, ROW_NUMBER() OVER (ORDER BY amount) AS rn, COUNT(*) OVER () AS n FROM orders) t;
-- accept
-- keys: 1 public, l0 proved
-- choice: 2/8 of 50001 l0=1 rows=10 hashed
-- choice: 6/8 of 50001 l0=1 rows=10 hashed

-- case: a difference of which one side is asked not to be NULL
SELECT MIN(CASE WHEN rn >= 0.5 * n THEN d END) AS m FROM (SELECT age - customer_id AS d, ROW_NUMBER() OVER (ORDER BY age - customer_id) AS rn, COUNT(*) OVER () AS n FROM customers WHERE age IS NOT NULL) t;
-- refuse: unbounded-input at 1:66

-- case: a difference that is never NULL
SELECT MIN(CASE WHEN rn >= 0.5 * n THEN d END) AS m FROM (SELECT amount - quantity AS d, ROW_NUMBER() OVER (ORDER BY amount - quantity) AS rn, COUNT(*) OVER () AS n FROM orders) t;
-- accept
-- keys: 1 public, l0 proved
-- choice: 2/4 of 52001 l0=1 rows=10 hashed

-- case: the median of counts of people
SELECT MIN(CASE WHEN rn >= 0.5 * n THEN c END) AS m FROM (SELECT c, ROW_NUMBER() OVER (ORDER BY c) AS rn, COUNT(*) OVER () AS n FROM (SELECT customer_id, COUNT(*) AS c FROM orders GROUP BY customer_id) s) t;
-- accept
-- keys: 1 public, l0 proved
-- choice: 2/4 of 51 l0=1 rows=1 all

-- case: a share of the rows up to a row's
SELECT AVG(amount) AS a FROM (SELECT amount, CUME_DIST() OVER (ORDER BY amount) AS c FROM orders) t WHERE c <= 0.9;
-- accept
-- keys: 1 public, l0 proved
-- choice: 18/20 of 50001 l0=1 rows=10 hashed
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=10
-- release: sum l0=1 linf=2500

-- case: bands by a share of the other rows, in each group
SELECT status, CASE WHEN c < 0.25 THEN 'low' WHEN c < 0.75 THEN 'middle' ELSE 'high' END AS band, COUNT(*) AS n FROM (SELECT status, PERCENT_RANK() OVER (PARTITION BY status ORDER BY amount) AS c FROM orders) t GROUP BY 1, 2;
-- accept
-- keys: 3 public, l0 proved
-- choice: 2/8 of 50001 l0=3 rows=10 hashed
-- choice: 6/8 of 50001 l0=3 rows=10 hashed
-- keys: 9 public, l0 enforced
-- release: rows l0=3 linf=10

-- case: tiles
SELECT q, COUNT(*) AS n FROM (SELECT NTILE(3) OVER (ORDER BY amount DESC) AS q FROM orders) t GROUP BY q;
-- accept
-- keys: 1 public, l0 proved
-- choice: 4/6 of 50001 l0=1 rows=10 hashed
-- choice: 2/6 of 50001 l0=1 rows=10 hashed
-- keys: 3 public, l0 proved
-- release: rows l0=3 linf=10

-- case: a share of rows of which some have no value
SELECT COUNT(*) AS n FROM (SELECT CUME_DIST() OVER (ORDER BY age) AS c FROM customers) t WHERE c > 0.9;
-- accept
-- keys: 1 public, l0 proved
-- choice: 18/20 of 122 l0=1 rows=1 all
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=1

-- case: averages of tiles of rows of which some have no value
SELECT q, AVG(a) AS m, COUNT(a) AS n FROM (SELECT a, NTILE(3) OVER (ORDER BY a DESC) AS q FROM (SELECT NULLIF(amount, 20) AS a FROM orders) o) t GROUP BY q;
-- accept
-- keys: 1 public, l0 proved
-- choice: 2/6 of 50002 l0=1 rows=10 hashed
-- choice: 4/6 of 50002 l0=1 rows=10 hashed
-- keys: 3 public, l0 proved
-- release: rows l0=3 linf=10
-- release: sum l0=3 linf=2500

-- case: another average of such tiles
SELECT q, AVG(discount) AS d, AVG(amount) AS n FROM (SELECT discount, amount, NTILE(3) OVER (ORDER BY discount DESC) AS q FROM orders) t GROUP BY q;
-- refuse: unsupported-private-operator at 1:79

-- case: tiles that are joined to other rows of the person
SELECT q, segment, COUNT(*) AS n FROM (SELECT customer_id, NTILE(3) OVER (ORDER BY amount) AS q FROM orders) o JOIN customers c ON c.customer_id = o.customer_id GROUP BY q, segment;
-- accept
-- keys: 1 public, l0 proved
-- choice: 2/6 of 50001 l0=1 rows=10 hashed
-- choice: 4/6 of 50001 l0=1 rows=10 hashed
-- keys: 6 public, l0 proved
-- release: rows l0=3 linf=10

-- case: tiles with a null that are joined to other rows
SELECT q, segment, AVG(discount) AS n FROM (SELECT customer_id, discount, NTILE(3) OVER (ORDER BY discount) AS q FROM orders) o JOIN customers c ON c.customer_id = o.customer_id GROUP BY q, segment;
-- refuse: unsupported-private-operator at 1:75

-- case: tiles of rows of which some have no value
SELECT q, COUNT(*) AS n FROM (SELECT NTILE(4) OVER (ORDER BY age) AS q FROM customers) t GROUP BY q;
-- refuse: unsupported-private-operator at 1:38

-- case: a share of rows by two keys
SELECT COUNT(*) AS n FROM (SELECT CUME_DIST() OVER (ORDER BY amount, quantity) AS c FROM orders) t WHERE c > 0.9;
-- refuse: unsupported-private-operator at 1:35

-- case: a share of rows without an order
SELECT COUNT(*) AS n FROM (SELECT CUME_DIST() OVER () AS c FROM orders) t WHERE c > 0.9;
-- refuse: unsupported-private-operator at 1:35

-- case: a share compared with a column
SELECT COUNT(*) AS n FROM (SELECT quantity, CUME_DIST() OVER (ORDER BY amount) AS c FROM orders) t WHERE c * 10 > quantity;
-- refuse: unsupported-private-operator at 1:45

-- case: the average of a share
SELECT AVG(c) AS n FROM (SELECT CUME_DIST() OVER (ORDER BY amount) AS c FROM orders) t WHERE c > 0.5;
-- refuse: unsupported-private-operator at 1:33

-- case: a share that is a group key
SELECT c, COUNT(*) AS n FROM (SELECT CUME_DIST() OVER (ORDER BY amount) AS c FROM orders) t GROUP BY c;
-- refuse: unsupported-private-operator at 1:38

-- case: a share equal to a constant
SELECT COUNT(*) AS n FROM (SELECT CUME_DIST() OVER (ORDER BY amount) AS c FROM orders) t WHERE c = 0.5;
-- refuse: unsupported-private-operator at 1:35

-- case: a share beyond all
SELECT COUNT(*) AS n FROM (SELECT PERCENT_RANK() OVER (ORDER BY amount) AS c FROM orders) t WHERE c < 1;
-- refuse: unsupported-private-operator at 1:35

-- case: a share too fine to tell apart
SELECT COUNT(*) AS n FROM (SELECT PERCENT_RANK() OVER (ORDER BY amount) AS c FROM orders) t WHERE c < 0.12345678;
-- refuse: unsupported-private-operator at 1:35

-- case: a rank beside a share
SELECT COUNT(*) AS n FROM (SELECT PERCENT_RANK() OVER (ORDER BY amount) AS c, RANK() OVER (ORDER BY amount) AS r FROM orders) t WHERE c < 0.1 AND r > 3;
-- refuse: unsupported-private-operator at 1:35

-- case: more tiles than have an end each
SELECT q, COUNT(*) AS n FROM (SELECT NTILE(1000) OVER (ORDER BY amount) AS q FROM orders) t GROUP BY q;
-- refuse: unsupported-private-operator at 1:38

-- case: tiles of rows in no order
SELECT q, COUNT(*) AS n FROM (SELECT NTILE(4) OVER () AS q FROM orders) t GROUP BY q;
-- refuse: unsupported-private-operator at 1:38

-- case: a running share of amounts
SELECT COUNT(*) AS n FROM (SELECT SUM(amount) OVER (ORDER BY amount) AS s, SUM(amount) OVER () AS t FROM orders) t WHERE s <= 0.8 * t;
-- refuse: unsupported-private-operator at 1:35

-- case: tiles of rows that are shown
SELECT amount, NTILE(4) OVER (ORDER BY amount) AS q FROM orders;
-- refuse: raw-rows at 1:58

-- case: the share of a row among those of a filter, limited behind it
SELECT COUNT(*) AS n FROM (SELECT quantity, CUME_DIST() OVER (ORDER BY amount) AS c FROM orders) t WHERE c <= 0.9 AND quantity > 1;
-- accept
-- keys: 1 public, l0 proved
-- choice: 18/20 of 50001 l0=1 rows=10 hashed
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=10

-- case: tiles of whole numbers, of which many are equal
SELECT q, COUNT(*) AS n FROM (SELECT NTILE(4) OVER (ORDER BY quantity) AS q FROM orders) t GROUP BY q;
-- refuse: unsupported-private-operator at 1:38

-- case: ranks that are joined back by the key
WITH r AS (SELECT order_id, ROW_NUMBER() OVER (ORDER BY amount) AS rn, COUNT(*) OVER () AS n FROM orders) SELECT MIN(CASE WHEN rn >= 0.5 * n THEN o.amount END) AS m FROM orders o JOIN r ON r.order_id = o.order_id;
-- accept
-- keys: 1 public, l0 proved
-- choice: 2/4 of 50001 l0=1 rows=10 hashed

-- case: shares that are joined back by the key, in a condition
WITH r AS (SELECT order_id AS k, PERCENT_RANK() OVER (ORDER BY amount) AS q FROM orders WHERE status = 'paid') SELECT SUM(o.quantity) AS m, COUNT(*) AS n FROM orders o, r WHERE r.k = o.order_id AND q > 0.5;
-- accept
-- keys: 1 public, l0 proved
-- choice: 2/4 of 50001 l0=1 rows=10 hashed
-- keys: 1 public, l0 proved
-- release: sum l0=1 linf=200
-- release: rows l0=1 linf=10

-- case: ranks that are joined back by another column
WITH r AS (SELECT customer_id, PERCENT_RANK() OVER (ORDER BY amount) AS q FROM orders) SELECT SUM(o.quantity) AS m FROM orders o JOIN r ON r.customer_id = o.customer_id WHERE q > 0.5;
-- refuse: unsupported-private-operator at 1:32

-- case: ranks of another table
WITH r AS (SELECT item_id, PERCENT_RANK() OVER (ORDER BY price) AS q FROM items) SELECT SUM(o.quantity) AS m FROM orders o JOIN r ON r.item_id = o.order_id WHERE q > 0.5;
-- refuse: unsupported-private-operator at 1:28
