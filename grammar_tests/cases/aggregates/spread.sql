-- VAR and STDDEV: a count, a centred sum and a centred sum of squares, each clipped, then noise.
-- catalog: shop

-- case: variance of rows of one per unit
SELECT VAR_POP(income) AS v FROM customers;
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=1
-- release: sum l0=1 linf=100000
-- release: sum l0=1 linf=5000000000

-- case: sample variance over many rows of a unit
SELECT VAR_SAMP(quantity) AS v, VARIANCE(quantity) AS w FROM orders;
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=10
-- release: sum l0=1 linf=100
-- release: sum l0=1 linf=500

-- case: standard deviation
SELECT STDDEV(age) AS s FROM customers;
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=1
-- release: sum l0=1 linf=60
-- release: sum l0=1 linf=1800

-- case: standard deviation per public key
SELECT status, STDDEV_POP(amount) AS s FROM orders GROUP BY status;
-- accept
-- keys: 3 public, l0 proved
-- release: rows l0=3 linf=10
-- release: sum l0=3 linf=2500
-- release: sum l0=3 linf=312500

-- case: variance per private key
SELECT city, VARIANCE(age) AS v FROM customers GROUP BY city;
-- accept
-- keys: private, l0 proved
-- release: rows l0=1 linf=1
-- release: rows l0=1 linf=1
-- release: sum l0=1 linf=60
-- release: sum l0=1 linf=1800

-- case: with the rows that a filter keeps
SELECT VAR_POP(age) FILTER (WHERE age > 30) AS v FROM customers;
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=1
-- release: sum l0=1 linf=60
-- release: sum l0=1 linf=1800

-- case: count, average and variance share their measurements
SELECT COUNT(*) AS n, AVG(income) AS a, STDDEV_SAMP(income) AS s, VAR_POP(income) AS v FROM customers;
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=1
-- release: sum l0=1 linf=100000
-- release: sum l0=1 linf=5000000000

-- case: coefficient of variation
SELECT STDDEV_POP(amount) / AVG(amount) AS c FROM orders;
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=10
-- release: sum l0=1 linf=2500
-- release: sum l0=1 linf=312500

-- case: of an expression
SELECT VAR_POP(amount * quantity) AS v FROM orders;
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=10
-- release: sum l0=1 linf=50000
-- release: sum l0=1 linf=125000000

-- case: of truth values by a cast
SELECT VAR_POP(CAST(age > 40 AS INTEGER)) AS v FROM customers;
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=1
-- release: sum l0=1 linf=1
-- release: sum l0=1 linf=0.5

-- case: of different values is refused
SELECT VAR_POP(DISTINCT age) AS v FROM customers;
-- refuse: unsupported-aggregate at 1:8

-- case: without bounds is refused
SELECT STDDEV(note_length) AS s FROM orders;
-- refuse: unbounded-input at 1:15

-- case: of text is refused
SELECT STDDEV(status) AS s FROM orders;
-- refuse: type-mismatch at 1:8

-- case: too wide to square is refused
SELECT VAR_POP(amount * 1000000000000000000) AS v FROM orders;
-- refuse: unbounded-input at 1:8

-- case: under Laplace noise the moments are one vector
SELECT STDDEV_POP(age) AS s, AVG(age) AS a, COUNT(age) AS n FROM customers;
-- accountant: pure
-- accept
-- keys: 1 public, l0 proved
-- release: sum l0=1 linf=1.000000003
-- release: sum l0=1 linf=1.000000003
-- release: sum l0=1 linf=1.000000003

-- case: ends of whole numbers
SELECT segment, AVG(age) AS a, COUNT(*) AS n FROM customers GROUP BY segment;
-- accountant: pure
-- accept
-- keys: 2 public, l0 proved
-- release: rows l0=1 linf=1
-- release: rows l0=1 linf=1
-- release: sum l0=1 linf=60

-- case: several averages share their count
SELECT AVG(age) AS a, AVG(income) AS b, AVG(customer_id % 7) AS c, COUNT(*) AS n FROM customers;
-- accountant: pure
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=1
-- release: rows l0=1 linf=1
-- release: sum l0=1 linf=60
-- release: sum l0=1 linf=100000
-- release: sum l0=1 linf=7

-- case: where values may be NaN the moments are one vector too
SELECT AVG(income) AS a, VAR_POP(income) AS v, COUNT(*) AS n FROM customers;
-- accountant: pure
-- accept
-- keys: 1 public, l0 proved
-- release: sum l0=1 linf=1.000000003
-- release: sum l0=1 linf=1.000000003
-- release: sum l0=1 linf=1.000000003

-- case: where rows are clipped moments stay apart
SELECT AVG(quantity) AS a, VAR_POP(quantity) AS v FROM orders;
-- accountant: pure
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=10
-- release: sum l0=1 linf=100
-- release: sum l0=1 linf=500
