-- AVG: centre + noisy centred sum / max(1, noisy count), clamped to the bounds.
-- catalog: shop

-- case: average on the unit table
SELECT AVG(age) AS mean_age FROM customers;
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=1
-- release: sum l0=1 linf=60

-- case: average of linked rows
SELECT AVG(amount) AS mean FROM orders;
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=10
-- release: sum l0=1 linf=2500

-- case: average of a double
SELECT AVG(income) AS mean FROM customers;
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=1
-- release: sum l0=1 linf=100000

-- case: average shares its count
SELECT AVG(amount) AS mean, COUNT(amount) AS n FROM orders;
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=10
-- release: sum l0=1 linf=2500

-- case: average by group
SELECT status, AVG(amount) AS mean FROM orders GROUP BY status;
-- accept
-- keys: 3 public, l0 proved
-- release: rows l0=3 linf=10
-- release: sum l0=3 linf=2500

-- case: average of an expression
SELECT AVG(amount * (1 - COALESCE(discount, 0))) AS net FROM orders;
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=10
-- release: sum l0=1 linf=2500

-- case: geometric mean
SELECT GEOMEAN(amount + 1) AS g, GEOMETRIC_MEAN(quantity + 1) AS h, FAVG(discount) AS f FROM orders;
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=10
-- release: sum l0=1 linf=31.08303055
-- release: sum l0=1 linf=15.22261221
-- release: rows l0=1 linf=10
-- release: sum l0=1 linf=5

-- case: geometric mean of the rows that a filter keeps
SELECT GEOMEAN(quantity + 1) FILTER (WHERE status = 'paid') AS h FROM orders;
-- dialect: postgres
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=10
-- release: sum l0=1 linf=15.22261221

-- case: geometric mean of what may be zero
SELECT GEOMEAN(amount) AS g FROM orders;
-- refuse: unbounded-input at 1:16

-- case: average with a filter
SELECT AVG(amount) FILTER (WHERE status = 'paid') AS mean FROM orders;
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=10
-- release: sum l0=1 linf=2500

-- case: average of an unbounded column
SELECT AVG(note_length) FROM orders;
-- refuse: unbounded-input at 1:12

-- case: average of distinct values has no rule
SELECT AVG(DISTINCT amount) FROM orders;
-- refuse: unsupported-aggregate at 1:8

-- case: average of text
SELECT AVG(segment) FROM customers;
-- refuse: type-mismatch at 1:8

-- case: arithmetic over averages
SELECT AVG(amount) / AVG(quantity) AS ratio FROM orders;
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=10
-- release: sum l0=1 linf=2500
-- release: sum l0=1 linf=100
