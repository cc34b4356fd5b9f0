-- COVAR, CORR and REGR_*(y, x): formulas over the moments of the rows in which both are there.
-- catalog: shop

-- case: covariance
SELECT COVAR_POP(amount, quantity) AS p, COVAR_SAMP(amount, quantity) AS s FROM orders;
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=10
-- release: sum l0=1 linf=2500
-- release: sum l0=1 linf=100
-- release: sum l0=1 linf=25000

-- case: correlation of rows of one per unit
SELECT CORR(age, income) AS c FROM customers;
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=1
-- release: sum l0=1 linf=60
-- release: sum l0=1 linf=100000
-- release: sum l0=1 linf=6000000
-- release: sum l0=1 linf=1800
-- release: sum l0=1 linf=5000000000

-- case: a line through the rows
SELECT REGR_SLOPE(amount, quantity) AS s, REGR_INTERCEPT(amount, quantity) AS i, REGR_R2(amount, quantity) AS r FROM orders;
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=10
-- release: sum l0=1 linf=2500
-- release: sum l0=1 linf=100
-- release: sum l0=1 linf=25000
-- release: sum l0=1 linf=500
-- release: sum l0=1 linf=312500

-- case: means and counts of complete rows
SELECT REGR_AVGX(age, income) AS x, REGR_AVGY(age, income) AS y, REGR_COUNT(age, income) AS n FROM customers;
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=1
-- release: sum l0=1 linf=100000
-- release: sum l0=1 linf=60

-- case: sums of squares
SELECT REGR_SXX(amount, quantity) AS xx, REGR_SXY(amount, quantity) AS xy, REGR_SYY(amount, quantity) AS yy FROM orders;
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=10
-- release: sum l0=1 linf=100
-- release: sum l0=1 linf=500
-- release: sum l0=1 linf=2500
-- release: sum l0=1 linf=25000
-- release: sum l0=1 linf=312500

-- case: per public key
SELECT status, CORR(amount, quantity) AS c FROM orders GROUP BY status;
-- accept
-- keys: 3 public, l0 proved
-- release: rows l0=3 linf=10
-- release: sum l0=3 linf=2500
-- release: sum l0=3 linf=100
-- release: sum l0=3 linf=25000
-- release: sum l0=3 linf=312500
-- release: sum l0=3 linf=500

-- case: with the rows that a filter keeps
SELECT COVAR_POP(age, income) FILTER (WHERE age < 60) AS c FROM customers;
-- accept
-- keys: 1 public, l0 proved
-- release: rows l0=1 linf=1
-- release: sum l0=1 linf=60
-- release: sum l0=1 linf=100000
-- release: sum l0=1 linf=6000000

-- case: an argument without bounds is refused
SELECT CORR(amount, note_length) AS c FROM orders;
-- refuse: unbounded-input at 1:21

-- case: different pairs are refused
SELECT CORR(DISTINCT age, income) AS c FROM customers;
-- refuse: unsupported-aggregate at 1:8
